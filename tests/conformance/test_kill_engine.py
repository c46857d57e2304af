"""The kill engine kills where it says, and what it reports can be seen again by hand."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from command_lines import SUBJECTS
from hypothesis import given, settings
from hypothesis import strategies as st

from streamproof.conformance.check_engine import Engine
from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_records import CheckOutcome
from streamproof.conformance.settings import Settings
from streamproof.conformance.work_directory import work_directory
from streamproof.sampling import spread
from streamproof.stores.syscalls.preloaded_libraries import CannotBuildError, build_shim

MODEL = settings.get_profile("conformance")
ROOT = Path(__file__).resolve().parents[2]
SIDE_FILE = "examples/sqlite_side_file.py:make"
JOURNAL = f"{SUBJECTS / 'journal_store.py'}:make"


@MODEL
@given(st.integers(0, 500), st.integers(0, 100))
def test_spread(count: int, limit: int) -> None:
    """All numbers if there is room; else as many as there is, ascending, with both ends."""
    points = spread(count, limit)
    assert points == sorted(set(points))
    assert len(points) == min(count, limit)
    assert all(1 <= point <= count for point in points)
    if len(points) > 1:
        assert (points[0], points[-1]) == (1, count)
        gaps = [after - before for before, after in pairwise(points)]
        assert max(gaps) - min(gaps) <= 1


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shim that counts system calls."""
    try:
        return build_shim(tmp_path_factory.mktemp("shim"))
    except CannotBuildError as why:
        pytest.skip(str(why))


def run_python(
    source: str, *arguments: str, cwd: Path, shim: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program in a fresh interpreter, as a user who has saved it."""
    program = cwd / "program.py"
    program.write_text(source)
    # What the program leaves for its user to look at goes with the test.
    environment = {**os.environ, "TMPDIR": str(cwd)}
    if shim:
        environment["LD_PRELOAD"] = str(shim)
    return subprocess.run(
        [sys.executable, "-P", program, *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


DRIVER = """
import json, sys
from pathlib import Path
from streamproof.conformance.crash.kill_engine import KillEngine
from streamproof.conformance.crash.crash_records import CrashPoint
from streamproof.conformance.crash.program import ProgramBuilder
from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.settings import Settings
from streamproof.conformance.running_call import RunningCall
from streamproof.conformance.subject import load_subject

subject, kind, here = sys.argv[1], sys.argv[2], Path(sys.argv[3])
check = load_checks()["crash.between_operations"]
status = RunningCall(here / "status", create=True)
engine = KillEngine(CheckRun(check, load_subject(subject), Settings(), here, status))
program = ProgramBuilder().put(b"a", b"1").put(b"b", b"2").commit().put(b"c", b"3").build()
point = CrashPoint(kind, 3)
count = engine.count(program, point)
found = []
places = []
for n in range(1, count + 2):
    crashed = engine.kill(program, CrashPoint(kind, 3, n=n))
    journal = crashed.directory / "journal"
    found.append((crashed.started, crashed.finished, crashed.reached, journal.read_text()))
    places.append((crashed.place, crashed.call))
print(json.dumps({"count": count, "found": found, "places": places}))
"""


@pytest.mark.parametrize("kind", ["line", "syscall"])
def test_a_trigger_kills_before_the_nth(kind: str, shim: Path, tmp_path: Path) -> None:
    """Before the n-th of the commit's lines, or writes, of which exactly n - 1 are there."""
    done = run_python(DRIVER, JOURNAL, kind, str(tmp_path), cwd=tmp_path, shim=shim)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    *reached, last = answer["found"]
    # The commit of the journal store has six lines, five of which write; see there.
    assert answer["count"] == len(reached) == (6 if kind == "line" else 5)
    for number, (started, finished, hit, journal) in enumerate(reached):
        assert (started, finished, hit) == (4, 3, True)
        assert journal == "open;" + "".join(f"{step};" for step in range(number))
    # There is no further one: the program comes to its end.
    started, finished, hit, journal = last
    assert (started, finished, hit) == (5, 5, False)
    assert journal == "open;0;1;2;3;4;"
    # A line is told as it stands in the file, and a call with its file and size.
    *places, nowhere = answer["places"]
    lines = (SUBJECTS / "journal_store.py").read_text().splitlines()
    texts = [f"journal_store.py:{n} {line.strip()}" for n, line in enumerate(lines, 1)]
    assert nowhere == ["", ""]
    assert all(place in texts for place, _ in places)
    assert {call for _, call in places} == {"" if kind == "line" else "write of 2 bytes to journal"}


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.usefixtures("shim")
def test_the_lab_arms_the_same_triggers(n: int, tmp_path: Path) -> None:
    """What a printed program does by hand; it sees to it that system calls can be counted."""
    source = f"""
from streamproof import CHANGELOG, Lab
Lab.count_system_calls()
lab = Lab({JOURNAL!r})
def doomed():
    store = lab.open()
    lab.arm(syscall={n})
    store.commit({{CHANGELOG: 1}})
lab.crash(doomed)
print((lab.directory / "journal").read_text())
lab.remove()
"""
    done = run_python(source, cwd=tmp_path)
    assert done.stdout.strip() == "open;" + "".join(f"{step};" for step in range(n - 1))
    if n == 1:
        without = run_python(source.replace("Lab.count_system_calls()\n", "\n"), cwd=tmp_path)
        assert without.returncode != 0
        assert "System calls cannot be counted here" in without.stderr


def outcomes_of(subject: str, *checks: str, spec: Any = "kips") -> list[CheckOutcome]:
    """What some checks find out about a subject."""
    found: list[CheckOutcome] = []
    run = Settings(profile="quick", spec=spec, seed=0)
    with work_directory() as directory, Engine(run, directory, jobs=2) as engine:
        engine.load([subject])
        plan = [(subject, load_checks()[name]) for name in checks]
        engine.run(plan, lambda _, outcome: found.append(outcome))
    return found


def as_printed(found: str) -> str:
    """What a program prints for what a report shows: offsets as those of two partitions."""
    if found == "{}":
        return "[None, None]"
    return re.sub(r"^\{CHANGELOG: (\d+)\}$", r"[\1, None]", found)


MUTANTS = "streamproof.conformance.mutants.store_mutants"
CRASHES = "streamproof.conformance.mutants.crash_mutants"


@pytest.mark.parametrize(
    ("subject", "check"),
    [
        (SIDE_FILE, "crash.in_every_line_of_commit"),
        (SIDE_FILE, "crash.in_every_system_call"),
        (f"{MUTANTS}:closed_one_by_one", "crash.while_closing"),
        (f"{CRASHES}:journal_deleted_before_it_is_applied", "crash.while_recovering"),
        (f"{CRASHES}:offsets_of_all_stores_together", "crash.several_stores"),
        (f"{CRASHES}:restore_commits_its_end_first", "crash.restoring_interrupted_again"),
        (f"{CRASHES}:second_upgrade_deletes_first", "upgrade.killed_while_upgrading_again"),
        (f"{CRASHES}:full_disk_ignored", "disk_fault.full_disk"),
        (f"{CRASHES}:journal_deleted_after_an_error", "disk_fault.broken_disk"),
        (f"{MUTANTS}:largest_offset_wins", "offset.last_commit_counts"),
        (f"{MUTANTS}:prefix_end_overflows", "range.prefix_scan_by_example"),
        (f"{MUTANTS}:empty_value_deletes", "kv.empty_value_is_a_value"),
    ],
    ids=lambda text: text.rpartition(":")[2] or text,
)
@pytest.mark.usefixtures("shim")
def test_a_printed_program_shows_what_was_found(
    subject: str, check: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs as it stands in a fresh interpreter, and fails with the value of the report."""
    monkeypatch.chdir(ROOT)
    (outcome,) = outcomes_of(subject, check)
    assert outcome.findings
    for finding in outcome.findings:
        source = finding.program.replace("'examples/", f"'{ROOT}/examples/")
        done = run_python(source, cwd=tmp_path)
        assert done.returncode == 1, source
        assert "AssertionError" in done.stderr
        assert (
            as_printed(finding.found.partition(", which was not")[0].partition(": the key was")[0])
            in done.stderr
        )
