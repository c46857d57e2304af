"""Crashes after crashes, failing calls, and several stores: what is legal, and what is not."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_lines import SUBJECTS
from test_crash_judge import PLAIN, TRANSACTIONAL, broken, crashed_at, seen_at
from test_kill_engine import run_python

from streamproof.conformance.checks.crash_checks import goes_on, side_by_side
from streamproof.conformance.crash.crash_judge import history_of, judge
from streamproof.conformance.crash.crash_records import Crashed, CrashPoint
from streamproof.conformance.crash.kill_campaign import describe, ruling_of_error
from streamproof.conformance.crash.program import ProgramBuilder
from streamproof.conformance.crash.triggers import described_call
from streamproof.conformance.lab import CHANGELOG
from streamproof.conformance.oracle import changelog_of
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.syscalls.preloaded_libraries import build_shim


def first_crash(capabilities: Capabilities) -> tuple[ProgramBuilder, Crashed, list[str]]:
    """Offset 0 is committed; offset 1 is written and not committed when the process dies."""
    builder = ProgramBuilder().put(b"a", b"1").commit().put(b"b", b"2")
    crashed = crashed_at(builder.build(), 4)
    history = history_of(crashed, capabilities, exact=capabilities.transactional)
    return builder, crashed, [write.key.decode() for write in changelog_of(history)]


def second_crash(capabilities: Capabilities, started: int, *, in_flight: bool = False) -> Crashed:
    """The process opens, catches up, puts b, deletes a, commits, and so on, and dies again."""
    builder, first, _ = first_crash(capabilities)
    history = history_of(first, capabilities, exact=capabilities.transactional)
    program = goes_on(builder, b"5").resumed([each.record() for each in changelog_of(history)])
    return replace(crashed_at(program, started, in_flight=in_flight), before=first)


OPEN, CATCH_UP, PUT_B, DELETE_A, COMMIT = range(1, 6)
"""How many operations of the second program had started."""


def ruled(
    crashed: Crashed,
    offset: int | None,
    content: dict[bytes, bytes],
    capabilities: Capabilities = TRANSACTIONAL,
) -> list[str]:
    """Which promises are broken if this is found after the last crash."""
    history = history_of(crashed, capabilities, exact=capabilities.transactional)
    offsets = {} if offset is None else {CHANGELOG: offset}
    return broken(judge(crashed, history, seen_at(history, offsets, content), capabilities))


def test_what_was_aborted_is_not_replayed() -> None:
    """An exact store replays what was committed, and any other what was written."""
    assert first_crash(TRANSACTIONAL)[2] == ["a"]
    assert first_crash(PLAIN)[2] == ["a", "b"]


def test_a_crash_keeps_what_the_crash_before_it_left() -> None:
    """The commit before the first crash is still due after the second one."""
    crashed = second_crash(TRANSACTIONAL, OPEN)
    assert ruled(crashed, 0, {b"a": b"1"}) == []
    assert ruled(crashed, None, {}) == ["CRASH-008"]
    assert ruled(crashed, 0, {}) == ["CRASH-003"]
    assert ruled(crashed, 0, {b"a": b"1", b"b": b"2"}) == ["CRASH-004"]


def test_a_replay_may_bring_records_early_and_nothing_else() -> None:
    """What comes after it is exact again: neither more nor less than a commit."""
    builder = ProgramBuilder().put(b"a", b"1").commit().put(b"b", b"2").commit()
    first = crashed_at(builder.build(), 5, in_flight=True)
    history = history_of(first, TRANSACTIONAL, exact=True)
    again = goes_on(builder, b"5").resumed([each.record() for each in changelog_of(history)])
    replaying = replace(crashed_at(again, CATCH_UP, in_flight=True), before=first)
    assert ruled(replaying, 0, {b"a": b"1"}) == []
    assert ruled(replaying, 0, {b"a": b"1", b"b": b"2"}) == []
    assert ruled(replaying, 1, {b"a": b"1"}) == ["CRASH-003"]
    before_it = replace(replaying, started=OPEN, finished=OPEN)
    assert ruled(before_it, 0, {b"a": b"1", b"b": b"2"}) == ["CRASH-004"]
    written = replace(replaying, started=PUT_B, finished=PUT_B)
    assert ruled(written, 1, {b"a": b"1", b"b": b"2"}) == []
    assert ruled(written, 1, {b"a": b"1", b"b": b"5"}) == ["CRASH-004"]
    assert ruled(written, 0, {b"a": b"1", b"b": b"2"}) == ["CRASH-008"]


def test_a_commit_that_raised_may_count_or_not() -> None:
    """With the fault gone and the store closed, every commit that returned must be there."""
    builder = ProgramBuilder().put(b"a", b"1").commit().put(b"b", b"2").commit()
    point = CrashPoint("enospc", 4, n=1, closing=True)
    flushing = Capabilities(transactional=True, durability="flush")
    failed = replace(crashed_at(builder.build(), 5, in_flight=True), point=point, raised="OSError")
    assert ruled(failed, 0, {b"a": b"1"}, flushing) == []
    assert ruled(failed, 1, {b"a": b"1", b"b": b"2"}, flushing) == []
    assert ruled(failed, None, {}, flushing) == []
    assert ruled(replace(failed, closed=True), None, {}, flushing) == ["CRASH-008"]
    assert ruled(failed, 1, {b"a": b"1"}, flushing) == ["CRASH-003"]


@pytest.mark.parametrize("raised", ["TypeError: no", "InvalidStateStoreError: closed"])
def test_an_error_that_blames_the_caller_is_not_recommended(raised: str) -> None:
    """It is the last thing that is ruled on; an error that tells of the disk is well."""
    builder = ProgramBuilder().put(b"a", b"1").commit()
    crashed = crashed_at(builder.build(), 3, in_flight=True)
    failed = replace(crashed, point=CrashPoint("eio", 2, n=1), raised=raised)
    assert ruled(failed, None, {}) == ["ERR-010"]
    assert ruled(failed, 0, {}) == ["CRASH-003"]
    assert ruled(replace(failed, raised="OSError: [Errno 5]"), None, {}) == []


def test_each_of_several_stores_is_judged_alone() -> None:
    """What one of them did is not in the other's history."""
    first = ProgramBuilder().put(b"a", b"1").commit().build()
    second = ProgramBuilder(gap=5).put(b"b", b"2").put(b"c", b"3").commit().build()
    program = side_by_side(first, second)
    assert [each.store for each in program.operations] == [1, 2, 1, 2, 1, 2, 2]
    crashed = crashed_at(program, 6)
    assert (crashed.of(1).started, crashed.of(2).started) == (3, 3)
    assert (crashed.of(1).store, crashed.of(2).store) == (1, 2)
    assert ruled(crashed.of(1), 0, {b"a": b"1"}) == []
    assert ruled(crashed.of(2), None, {}) == []
    assert ruled(crashed.of(2), 0, {}) == ["CRASH-010"]
    assert ruled(crashed.of(2), 10, {b"b": b"2"}) == ["CRASH-010"]


def test_a_failure_is_told_in_words() -> None:
    """A report says where the process died, or what failed."""
    program = ProgramBuilder().put(b"a", b"1").commit().build()
    told = {
        CrashPoint("boundary", 2): "kill the process after put()",
        CrashPoint(
            "line", 2, n=3
        ): "kill the process in commit() before line 3 of Python that runs in it",
        CrashPoint("syscall", 2, n=4): (
            "kill the process in put() before system call 4 from commit() on"
        ),
        CrashPoint("eio", 2, n=5): (
            "let system call 5 from commit() on fail with EIO, kill the process"
        ),
        CrashPoint("enospc", 1, n=6, lasting=True, closing=True): (
            "let system call 6 from put() on and all later calls fail with ENOSPC, close the store"
        ),
    }
    for point, words in told.items():
        assert describe(replace(crashed_at(program, 2), point=point)) == words


def test_a_place_is_told_where_it_is_known() -> None:
    """The line of the store, the call, and the operation, which may be a later one."""
    program = ProgramBuilder().put(b"a", b"1").commit().put(b"a", b"2").commit().build()
    crashed = replace(crashed_at(program, 3), point=CrashPoint("line", 2, n=3))
    words = "kill the process in commit() before store.py:9 self.write(row)"
    assert describe(replace(crashed, place="store.py:9 self.write(row)")) == words
    call, place = "pwrite of 4,096 bytes to 000012.log", "store.py:9 os.pwrite(file, row, 0)"
    later = replace(crashed_at(program, 4), call=call, place=place)
    killed = replace(later, point=CrashPoint("syscall", 2, n=4, span=3))
    assert describe(killed) == f"kill the process in put() before the {call} ({place})"
    failed = replace(later, point=CrashPoint("eio", 2, n=4, span=3), raised="OSError: no")
    assert describe(failed) == f"let the {call} in put() ({place}) fail with EIO, kill the process"


def test_a_call_is_described() -> None:
    """With its file, its size, and the innermost line that is none of Python's own library."""
    here = Path("/work/task")
    trace = (
        f'Stack (most recent call first):\n  File "{Path(os.__file__)}", line 1 in write\n'
        f'  File "{__file__}", line 1 in commit\n  File "/elsewhere/main.py", line 9 in main\n'
    )
    for told, words in {
        "pwrite\n4096\n/work/task/db/12.log\n": "pwrite of 4,096 bytes to db/12.log",
        "ftruncate\n10\n/work/task/a\n": "ftruncate of a to 10 bytes",
        "fsync\n-1\n/work/task/a\n": "fsync of a",
        "rename\n-1\n/work/task/a.tmp\n/work/task/a": "rename of a.tmp to a",
        "unlink\n-1\n/tmp/other\n": "unlink of other",
        "": "",
    }.items():
        call, place = described_call(told, trace, here)
        assert (call, place.partition(" ")[0]) == (words, "test_crash_chains.py:1")


FAULTY = """
import os, json, sys, time
from pathlib import Path
from streamproof.conformance.crash.kill_engine import KillEngine
from streamproof.conformance.crash.crash_records import CrashPoint
from streamproof.conformance.crash.program import ProgramBuilder
from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.settings import Settings
from streamproof.conformance.running_call import RunningCall
from streamproof.conformance.subject import load_subject

subject, here = load_subject(sys.argv[1]), Path(sys.argv[2])
class Hanging(type(subject.factory())):
    def commit(self, changelog_offsets):
        try:
            super().commit(changelog_offsets)
        except OSError:
            if HANGS:
                time.sleep(1000)
            raise
subject = subject.__class__(subject.name, lambda: Hanging("hanging"), subject.capabilities, None)
check = load_checks()["disk_fault.full_disk"]
status = RunningCall(here / "status", create=True)
settings = Settings(operation_timeout_s=0.5)
engine = KillEngine(CheckRun(check, subject, settings, here, status))
program = ProgramBuilder().put(b"a", b"1").commit().put(b"b", b"2").commit().build()
found = []
for HANGS in (False, True):
    points = [CrashPoint("enospc", 2, n=n, span=3) for n in (3, 11)]
    points += [CrashPoint("eio", 2, n=7, span=3, lasting=True, closing=True)]
    for crashed in engine.kill_all(program, points):
        journal = (crashed.directory / "journal").read_text()
        ends = crashed.reached, crashed.closed, crashed.raised, crashed.error
        found.append([crashed.finished, journal, *ends, crashed.where])
print(json.dumps(found))
"""


def test_a_call_fails_once_or_for_good(tmp_path: Path) -> None:
    """The program ends where it raises, or at its end; what does not end is ended as a hang."""
    journal = f"{SUBJECTS / 'journal_store.py'}:make"
    shim = build_shim(tmp_path)
    done = run_python(FAULTY, journal, str(tmp_path), cwd=tmp_path, shim=shim)
    assert done.returncode == 0, done.stderr
    raised, hanging = json.loads(done.stdout)[:3], json.loads(done.stdout)[3:]
    full, broken_disk = "OSError: [Errno 28] No space left on device", "OSError: [Errno 5]"
    # Each commit of the journal store writes five times.
    line = 'journal_store.py:24 os.write(self._file, b"2;")'
    call = f"write of 2 bytes to journal, {line}"
    assert raised[0] == [2, "open;0;1;", True, False, f"{full} ({line})", "", call]
    assert raised[1][:3] == [5, "open;0;1;2;3;4;0;1;2;3;4;", False]
    assert raised[2][:4] == [4, "open;0;1;2;3;4;0;", True, True]
    assert raised[2][4].startswith(broken_disk)
    assert [each[5] for each in hanging] == ["did not return within 0.5 s", "", hanging[0][5]]
    assert raised[2][6].startswith("write of 2 bytes to journal, journal_store.py:")


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"finished": 2}, "commit"),
        ({"finished": 2, "raised": "OSError"}, "close"),
        ({"finished": 3}, "close"),
    ],
)
@pytest.mark.parametrize("closing", [True, False])
def test_a_hang_is_that_of_the_running_call(
    changes: dict[str, Any], name: str, *, closing: bool
) -> None:
    """After the program, that is the close; an exception of the operation was allowed."""
    program = ProgramBuilder().put(b"a", b"1").commit().build()
    point = CrashPoint("enospc", 2, n=1, lasting=True, closing=closing)
    crashed = Crashed(program, point, Path(), started=3, traceback="of commit")
    ruling = ruling_of_error(replace(crashed, error="did not return within 20 s", **changes))
    name = name if closing else "commit"
    assert ruling.broken == f"{name}() did not return within 20 s"
    assert ruling.traceback == ("" if name == "close" else "of commit")


FULL = """
import errno, json, os
from streamproof.conformance.crash import triggers
from streamproof import Lab

Lab.count_system_calls()

def free():
    return os.statvfs(".").f_bavail > 0

found = [free()]
for error, lasting in (errno.ENOSPC, True), (errno.ENOSPC, False), (errno.EIO, True):
    triggers.arm_syscalls(1, error=error, lasting=lasting)
    found.append(free())
    try:
        os.mkdir("new")
    except OSError:
        found.append(free())
    triggers.disarm()
    found.append(free())
print(json.dumps(found))
"""


def test_a_disk_that_stays_full_says_so(tmp_path: Path) -> None:
    """From the call that fails until the fault goes away; no other fault takes the space away."""
    done = run_python(FULL, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [True, True, False, True, *[True] * 6]
