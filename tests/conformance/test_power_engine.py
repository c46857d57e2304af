"""The recorder sees what programs do to the disk, and what a loss of power leaves is judged."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from streamproof.conformance.check_engine import Engine, work_directory
from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_records import CheckFinding, CheckOutcome
from streamproof.conformance.power.power_campaign import promise_of
from streamproof.conformance.power.syscall_recorder import preload
from streamproof.conformance.ruling import Ruling
from streamproof.conformance.settings import Settings

MUTANTS = "streamproof.conformance.mutants.power_mutants"


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The recorder and the shim; every machine that runs these tests has a C compiler."""
    built = preload(tmp_path_factory.mktemp("libraries"))
    assert built is not None
    return built


DRIVER = """
import sys
from pathlib import Path

from streamproof.conformance.power.disk import JOURNALLED, disk_of
from streamproof.conformance.power.syscall_recorder import mark, run_recorded
from streamproof.conformance.power.syscall_trace import actual_tree, write_tree

root, log = Path(sys.argv[1]), Path(sys.argv[2])

def doomed():
{body}

trace, status = run_recorded(doomed, root, log)
expected = disk_of(trace, JOURNALLED).tree(len(trace.calls))
print(status, expected == actual_tree(root), trace.escaped, trace.started, trace.returned)
for number in range(1, len(trace.calls) + 1):
    print(trace.describe(number))
"""


def recorded(body: str, libraries: str, directory: Path) -> list[str]:
    """What the driver prints about some statements, run in a directory that has a file."""
    root = directory / "root"
    root.mkdir()
    (root / "old").write_bytes(b"old")
    source = DRIVER.format(body=textwrap.indent(textwrap.dedent(body), "    "))
    command = [sys.executable, "-P", "-c", source, str(root), str(directory / "log")]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "LD_PRELOAD": libraries},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_every_way_to_change_a_file_is_seen(libraries: str, tmp_path: Path) -> None:
    """The log leads to exactly what is there, whichever function and descriptor was used."""
    body = """
        import os, shutil, threading
        os.chdir(root)
        d = os.open("a", os.O_RDWR | os.O_CREAT)
        os.write(d, b"12")
        os.write(os.dup(d), b"34")
        os.pwrite(d, b"5", 1)
        os.writev(d, [b"6", b"78"])
        os.pwritev(d, [b"9", b"0"], 20)
        os.ftruncate(d, 30)
        os.posix_fallocate(d, 0, 40)
        os.fsync(d)
        os.fdatasync(d)
        e = os.open("a", os.O_WRONLY | os.O_APPEND)
        os.write(e, b"end")
        os.mkdir("d")
        f = os.open("d", os.O_RDONLY)
        os.fsync(f)
        shutil.copyfile("a", "d/copy")
        os.rename("copy", "moved", src_dir_fd=f, dst_dir_fd=f)
        os.link("a", "d/link")
        os.symlink("a", "d/symbolic")
        os.truncate("a", 3)
        os.unlink("old")
        os.makedirs("gone/below")
        shutil.rmtree("gone")
        open("a", "w").close()
        with open("d/buffered", "wb") as file:
            file.write(bytes(100_000))
        os.write(os.open("synchronous", os.O_WRONLY | os.O_CREAT | os.O_DSYNC), b"1")
        threads = [threading.Thread(target=lambda n=n: Path(f"t{n}").write_bytes(b"t" * 5000))
                   for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    """
    head, *calls = recorded(body, libraries, tmp_path)
    assert head == "9 True [] [] []"
    assert calls[:12] == [
        "create a",
        "write 2 bytes at 0 of a",
        "write 2 bytes at 2 of a",
        "write 1 bytes at 1 of a",
        "write 3 bytes at 4 of a",
        "write 2 bytes at 20 of a",
        "resize a to 30 bytes",
        "resize a to 40 bytes",
        "sync a",
        "sync a",
        "write 3 bytes at 40 of a",
        "make the directory d",
    ]
    assert calls[12:15] == ["sync d", "create copy", "write 43 bytes at 0 of copy"]
    assert {"rename copy to moved", "resize a to 3 bytes", "remove old", "resize a to 0 bytes"} <= {
        *calls
    }


def test_operations_are_marked_and_other_places_left_out(libraries: str, tmp_path: Path) -> None:
    body = """
        mark(0, returned=False)
        (root / "a").write_bytes(b"1")
        mark(0, returned=True)
        (root.parent / "elsewhere").write_bytes(b"2")
        mark(1, returned=False)
    """
    head, *calls = recorded(body, libraries, tmp_path)
    assert head == "9 True [] [0, 2] [2]"
    assert calls == ["create a", "write 1 bytes at 0 of a"]


MAPPED = """
    import mmap
    file = (root / "old").open("r+b")
    mmap.mmap(file.fileno(), 3)[0] = 49
"""

STREAMED = """
    import ctypes
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    stream = ctypes.c_void_p(libc.fopen(str(root / "new").encode(), b"w"))
    libc.fputs(b"1", stream)
    libc.fflush(stream)
"""


@pytest.mark.parametrize(
    ("body", "named"),
    [(MAPPED, "old (mmap)"), (STREAMED, "new (fopen)")],
    ids=["mmap", "fopen"],
)
def test_what_escapes_is_named(body: str, named: str, libraries: str, tmp_path: Path) -> None:
    """And the comparison with the directory finds it by itself."""
    head, *_ = recorded(body, libraries, tmp_path)
    assert head == f"9 False ['{named}'] [] []"


def test_without_the_recorder_nothing_runs(tmp_path: Path) -> None:
    source = DRIVER.format(body="    pass")
    done = subprocess.run(
        [sys.executable, "-P", "-c", source, str(tmp_path), str(tmp_path / "log")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "call Lab.record_system_calls() of streamproof first" in done.stderr


def outcome_of(subject: str, check: str) -> CheckOutcome:
    """What a check finds out about a subject, in processes of its own."""
    found: list[CheckOutcome] = []
    with work_directory() as directory, Engine(Settings(seed=0), directory, jobs=1) as engine:
        engine.load([subject])
        engine.run([(subject, load_checks()[check])], lambda _, outcome: found.append(outcome))
    (outcome,) = found
    assert (outcome.suite_error, outcome.subject_error) == ("", "")
    return outcome


@pytest.mark.parametrize("subject", ["rocksdb", "rocksdb-transactional", f"{MUTANTS}:durable"])
def test_a_store_that_is_right_stands_every_loss(subject: str) -> None:
    """With as many states as the profile allows, each kind of damage among them."""
    outcome = outcome_of(subject, "power.after_commits")
    assert outcome.findings == []
    assert outcome.skipped == ""
    assert outcome.evidence.crash_points["power"] >= 60
    assert outcome.evidence.exercised >= {f"POWER-00{n}" for n in (1, 2, 3, 4, 5, 6, 8)}


ESCAPING = """
import mmap
from streamproof.conformance.mutants.power_mutants import DurableStore

class Mapped(DurableStore):
    def init(self, context, root):
        super().init(context, root)
        path = self.directory / "index"
        path.write_bytes(bytes(10))
        with path.open("r+b") as file:
            self.index = mmap.mmap(file.fileno(), 10)
        self.index[0] = 1

def make():
    return Mapped("store")
"""


def test_a_store_that_escapes_is_not_judged(tmp_path: Path) -> None:
    """The check says which file it is about, instead of passing."""
    (tmp_path / "mapped.py").write_text(ESCAPING)
    outcome = outcome_of(f"{tmp_path / 'mapped.py'}:make", "power.after_commits")
    assert outcome.findings == []
    assert outcome.evidence.exercised == set()
    expected = "not judged: what is written to index (mmap), journalled/index cannot be recorded"
    assert outcome.skipped == expected


def test_without_a_compiler_the_checks_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    outcome = outcome_of(f"{MUTANTS}:durable", "power.after_commits")
    assert outcome.evidence.exercised == set()
    assert outcome.skipped == ("no C compiler (cc, gcc or clang) was found to record system calls")


@pytest.mark.parametrize(
    ("mutant", "check"),
    [
        ("directory_never_synced", "power.after_commits"),
        ("torn_frame_accepted", "power.after_commits"),
        ("offsets_synced_and_data_not", "power.after_commits"),
        ("directory_made_without_a_sync", "power.without_a_journal"),
        ("recovery_syncs_nothing", "power.while_recovering"),
        ("journal_goes_on_behind_a_tear", "power.while_buffers_overflow"),
    ],
)
def test_a_printed_program_shows_what_was_found(mutant: str, check: str, tmp_path: Path) -> None:
    """It runs as it stands in a fresh interpreter, and prints the value of the report."""
    outcome = outcome_of(f"{MUTANTS}:{mutant}", check)
    assert outcome.findings
    for number, finding in enumerate(outcome.findings):
        program = tmp_path / f"program-{number}.py"
        program.write_text(finding.program)
        done = subprocess.run(
            [sys.executable, "-P", program],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )
        shown = done.stdout + done.stderr
        assert as_printed(finding) in shown, (finding.program, shown)
        assert not list(tmp_path.glob("streamproof-*"))


def as_printed(finding: CheckFinding) -> str:
    """What a program prints for what a report shows: offsets as those of two partitions."""
    found = finding.found
    if "raised " in found:
        return found.partition("raised ")[2].partition(":")[0]
    found = found.partition(", which was not")[0]
    if found == "{}":
        # Nothing was found for any key, or for any partition.
        return "None}" if "store.get(key) for key" in finding.program else "[None, None]"
    return re.sub(r"^\{CHANGELOG: (\d+)\}$", r"[\1, None]", found)


@pytest.mark.parametrize(
    ("requirement", "durability", "promise"),
    [
        ("CRASH-001", "power", "POWER-002"),
        ("CRASH-003", "power", "POWER-002"),
        ("CRASH-007", "process", "POWER-007"),
        ("CRASH-008", "power", "POWER-009"),
        ("CRASH-008", "flush", "POWER-010"),
        ("RESTORE-006", "flush", "POWER-008"),
        ("POS-012", "power", "POWER-013"),
    ],
)
def test_what_is_broken_tells_the_promise(requirement: str, durability: str, promise: str) -> None:
    assert promise_of(Ruling(requirement), "torn", durability) == promise
