"""The recorder sees what programs do to the disk, and what a loss of power leaves is judged."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from streamproof.conformance.check_engine import Engine
from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_records import CheckFinding, CheckOutcome
from streamproof.conformance.power.power_campaign import promise_of
from streamproof.conformance.ruling import Ruling
from streamproof.conformance.settings import Settings
from streamproof.conformance.work_directory import work_directory
from streamproof.stores.syscalls.preloaded_libraries import preload

MUTANTS = "streamproof.conformance.mutants.power_mutants"


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The recorder and the shim; every machine that runs these tests has a C compiler."""
    return preload(tmp_path_factory.mktemp("libraries"))


DRIVER = """
import sys
from pathlib import Path

from streamproof.stores.syscalls.disk import JOURNALLED, disk_of
from streamproof.conformance.power.syscall_recorder import mark, run_recorded
from streamproof.stores.syscalls.syscall_trace import actual_tree, write_tree

root, log = Path(sys.argv[1]), Path(sys.argv[2])

def doomed():
{body}

trace, status = run_recorded(doomed, root, log)
expected = disk_of(trace, JOURNALLED).tree(len(trace.calls))
escaped = [before for _, before in trace.escaped]
print(status, expected == actual_tree(root), escaped, trace.started, trace.returned)
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


STREAMED = """
    import ctypes
    libc = ctypes.CDLL(None)
    libc.fopen.restype = libc.fdopen.restype = ctypes.c_void_p
    stream = ctypes.c_void_p(libc.fopen(str(root / "new").encode(), b"w"))
    libc.fputs(b"1234", stream)
    libc.fprintf(stream, b"%d", 5)
    libc.fflush(stream)
    libc.fsync(libc.fileno(stream))
    libc.fseek(stream, 1, 0)
    libc.fputs(b"6", stream)
    libc.fclose(stream)
    import os
    number = os.open(root / "old", os.O_WRONLY)
    stream = ctypes.c_void_p(libc.fdopen(number, b"a"))
    libc.fputs(b"er", stream)
    libc.freopen(str(root / "again").encode(), b"w", stream)
    libc.fputs(b"7", stream)
    libc.fclose(stream)
    assert (root / "new").read_bytes() == b"16345"
    assert (root / "again").read_bytes() == b"7"
"""


def test_the_streams_of_libc_are_seen(libraries: str, tmp_path: Path) -> None:
    """What libc writes within itself is written by calls, at the moments at which libc writes."""
    head, *calls = recorded(STREAMED, libraries, tmp_path)
    assert head == "9 True [] [] []"
    assert calls == [
        "create new",
        "write 5 bytes at 0 of new",
        "sync new",
        "write 1 bytes at 1 of new",
        "write 2 bytes at 3 of old",
        "create again",
        "write 1 bytes at 0 of again",
    ]


MAPPED = """
    import mmap
    file = (root / "map").open("w+b")
    file.truncate(3 * 4096)
    memory = mmap.mmap(file.fileno(), 0)
    memory[600] = 1
    mark(0, returned=False)
    memory[700] = memory[8192] = 2
    memory.flush(8192, 4096)
    memory[601] = 3
    file.write(b"4")
    file.flush()
    file.close()
    memory[12000:] = bytes([5]) * 288
"""


def test_mapped_files_are_seen(libraries: str, tmp_path: Path) -> None:
    """The sectors that changed, before the next call; a sync of a part is one of that part."""
    head, *calls = recorded(MAPPED, libraries, tmp_path)
    assert head == "9 True [] [3] []"
    assert calls == [
        "create map",
        "resize map to 12288 bytes",
        "store 512 bytes at 512 of the mapped map",
        "store 512 bytes at 512 of the mapped map",
        "store 512 bytes at 8192 of the mapped map",
        "sync 4096 bytes at 8192 of the mapped map",
        "store 512 bytes at 512 of the mapped map",
        "write 1 bytes at 0 of map",
        "store 512 bytes at 11776 of the mapped map",
    ]


def test_a_large_mapping_is_noted(libraries: str, tmp_path: Path) -> None:
    """To read all of it before each call would take too long."""
    body = """
        import mmap
        file = (root / "old").open("r+b")
        file.truncate(1 << 25)
        mmap.mmap(file.fileno(), 0)[0] = 49
    """
    head, *_ = recorded(body, libraries, tmp_path)
    assert head == "9 False [1] [] []"


def test_a_raw_system_call_makes_a_difference(libraries: str, tmp_path: Path) -> None:
    """The comparison with the directory finds what nobody saw."""
    body = """
        import ctypes
        file = (root / "old").open("r+b")
        ctypes.CDLL(None).syscall(1, file.fileno(), b"1", 1)
    """
    head, *_ = recorded(body, libraries, tmp_path)
    assert head == "9 False [] [] []"


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


INDEXED = """
import ctypes, mmap, os
from dataclasses import replace
from streamproof.conformance.mutants.power_mutants import DurableStore

class Raw(DurableStore):
    def init(self, context, root):
        super().init(context, root)
        with (self.directory / "index.raw").open("w+b") as file:
            ctypes.CDLL(None).syscall(1, file.fileno(), b"1", 1)

class Late(DurableStore):
    commits = 0

    def commit(self, offsets):
        super().commit(offsets)
        self.commits += 1
        if self.commits == 2:
            with (self.directory / "index.raw").open("w+b") as file:
                ctypes.CDLL(None).syscall(1, file.fileno(), b"1", 1)

class Mapped(DurableStore):
    def init(self, context, root):
        super().init(context, root)
        with (self.directory / "index").open("w+b") as file:
            file.truncate(10)
            self.index = mmap.mmap(file.fileno(), 10)
        self.index[0] = 1

class Disposed(Raw):
    capabilities = replace(DurableStore.capabilities, disposable_files="*.lock *.raw")

def raw(): return Raw("store")
def late(): return Late("store")
def mapped(): return Mapped("store")
def disposed(): return Disposed("store")
"""


def outcome_of_indexed(name: str, directory: Path) -> CheckOutcome:
    """What the check of commits finds out about a right store that has one more file."""
    (directory / "indexed.py").write_text(INDEXED)
    return outcome_of(f"{directory / 'indexed.py'}:{name}", "power.after_commits")


def test_a_store_that_escapes_is_not_judged(tmp_path: Path) -> None:
    """The check says which file it is about, instead of passing."""
    outcome = outcome_of_indexed("raw", tmp_path)
    assert outcome.findings == []
    assert outcome.evidence.exercised == set()
    assert "power" not in outcome.evidence.crash_points
    assert outcome.evidence.left_out.startswith(
        "states of the disk with journalled/index.raw were not judged"
    )


def test_only_states_that_depend_on_what_escapes_are_left_out(tmp_path: Path) -> None:
    outcome = outcome_of_indexed("late", tmp_path)
    assert outcome.findings == []
    assert "journalled/index.raw" in outcome.evidence.left_out
    assert outcome.evidence.crash_points["power"] > 0
    assert outcome.evidence.exercised >= {"POWER-001", "POWER-008"}


@pytest.mark.parametrize("name", ["mapped", "disposed"])
def test_a_file_that_is_mapped_or_disposable_hides_nothing(name: str, tmp_path: Path) -> None:
    outcome = outcome_of_indexed(name, tmp_path)
    assert outcome.findings == []
    assert outcome.evidence.left_out == ""
    assert outcome.evidence.crash_points["power"] >= 60


def test_without_a_compiler_the_checks_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    outcome = outcome_of(f"{MUTANTS}:durable", "power.after_commits")
    assert outcome.evidence.exercised == set()
    expected = "no C compiler (cc, gcc or clang) was found; install gcc or clang"
    assert outcome.skipped == outcome.evidence.lacking == expected


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
    """It runs as it stands in a fresh interpreter, and fails with the value of the report."""
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
        assert done.returncode == 1, finding.program
        assert as_printed(finding) in done.stderr, (finding.program, done.stderr)
        assert not list(tmp_path.glob("streamproof-*"))


def test_a_loss_names_the_line_of_the_store() -> None:
    """The line that made the last call before the loss, and what is lost."""
    outcome = outcome_of(f"{MUTANTS}:directory_never_synced", "power.after_commits")
    tried = [each.tried for each in outcome.findings]
    place = r"power_mutants\.py:\d+ \S.*"
    wanted = rf"cut the power in \w+\(\) after call \d+ \(.+, {place}\), lose .+, open, read, .*"

    assert tried
    assert all(re.fullmatch(wanted, each) for each in tried), tried


SYNCED = f"""
from streamproof import CHANGELOG, Lab

Lab.record_system_calls()
lab = Lab("{MUTANTS}:durable")


def doomed():
    store = lab.open()
    store.put(b"a", b"1" * 5000)
    store.commit({{CHANGELOG: 1}})


lab.power_loss(doomed, lost=range(100), torn={{call: (0, 512) for call in range(100)}})
assert lab.open().get(b"a") == b"1" * 5000
"""


def test_a_program_tears_nothing_that_is_synced(tmp_path: Path) -> None:
    """The numbers in it may be those of a store that is wrong, and of other calls."""
    (tmp_path / "program.py").write_text(SYNCED)
    command = [sys.executable, "-P", tmp_path / "program.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def as_printed(finding: CheckFinding) -> str:
    """What a program prints for what a report shows: offsets as those of two partitions."""
    found = finding.found
    if "raised " in found:
        return found.partition("raised ")[2].partition(":")[0]
    found = found.partition(", which was not")[0].partition(": the key was")[0]
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
