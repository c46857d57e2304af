"""Hygiene: a store stays in its directory and releases everything when it is closed.

The runtime opens and closes the stores of a task at every rebalance, for months, and deletes the
directory of a task that moved away or is corrupted. Leaks of a store therefore add up.
"""

from __future__ import annotations

from collections.abc import Callable

from streamproof.conformance.check_registry import check
from streamproof.conformance.checks.error_checks import overwrite_files
from streamproof.conformance.lab import CHANGELOG
from streamproof.conformance.trial import Trial
from streamproof.conformance.violations import SubjectRaised

WARM_UP = 3
"""Openings before the count starts: libraries start their threads at the first opening."""

CYCLES = 10
"""Openings that are counted. A leak at each opening adds up to at least this number. Less growth
counts as something that a library starts late and only once."""

ENDS_WITH_ITS_PROCESS = "the store runs in its own process, whose end releases everything"


@check("LIFE-013")
def a_wiped_directory_is_empty(t: Trial) -> None:
    """Write, commit and close, delete the directory, and open a store in a new directory."""
    t.claim("LIFE-013", "write, commit and close, wipe the directory, and read with a new store")
    store = t.open()
    store.put(b"a", b"1")
    store.commit({CHANGELOG: 0})
    store.close()
    t.wipe()
    store = t.open()
    t.expect(store.get(b"a"), None)
    if t.lab.subject.capabilities.manages_offsets:
        t.expect(store.committed_offset(CHANGELOG), None)


@check("LIFE-014")
def nothing_is_left_elsewhere(t: Trial) -> None:
    """Open, write, commit and close, and look for files outside the task directory."""
    t.require_local(ENDS_WITH_ITS_PROCESS)
    t.claim(
        "LIFE-014", "open, write, commit and close, and look for files outside the task directory"
    )
    t.note("lab.watch_files()")
    t.lab.watch_files()
    store = t.open()
    store.put(b"a", b"1")
    store.commit({CHANGELOG: 0})
    t.note("lab.look_at_files()")
    t.lab.look_at_files()
    store.close()
    found = t.asked("lab.files_elsewhere()", t.lab.files_elsewhere())
    t.expect(found, [])


@check("LIFE-015")
def a_closed_store_holds_no_file(t: Trial) -> None:
    """Close a store, and list the files in its directory that are still open."""
    t.require_lasting(ENDS_WITH_ITS_PROCESS)
    t.claim("LIFE-015", "write, commit and close, and list the open files")
    store = t.open()
    store.put(b"a", b"1")
    store.commit({CHANGELOG: 0})
    store.close()
    t.expect(t.asked("lab.open_files()", t.lab.open_files()), [])


@check("LIFE-016", "LIFE-017", "LIFE-018")
def nothing_piles_up(t: Trial) -> None:
    """Open and close a store many times, and count the handles, threads and processes."""
    t.require_lasting(ENDS_WITH_ITS_PROCESS)
    counted = (
        ("LIFE-016", "handles", t.lab.handles),
        ("LIFE-017", "threads", t.lab.threads),
        ("LIFE-018", "processes", t.lab.processes),
    )
    t.claim("LIFE-016", "open and close a store a few times")
    cycles(t, WARM_UP)
    before = [count() for _, _, count in counted]
    for _, name, _ in counted:
        t.note(f"{name} = lab.{name}()")
    cycles(t, CYCLES)
    for (requirement, name, count), least in zip(counted, before, strict=True):
        t.claim(requirement, f"open and close a store {CYCLES} times, and count its {name}")
        expect_no_growth(t, name, count, least)


def cycles(t: Trial, times: int) -> None:
    """Open, use and close one store after another."""
    t.note(f"lab.open_and_close({times})")
    with t.watching(f"open, put, get, commit and close, {times} times"):
        t.lab.open_and_close(times)


def expect_no_growth(t: Trial, name: str, count: Callable[[], int], before: int) -> None:
    """Demand that the count grew by less than one for each opening."""
    grown = count() - before
    few = f"lab.{name}() - {name} < {CYCLES}"
    t.expect_shown(few, grown < CYCLES, f"no more {name} than before", f"{grown} more {name}")


@check("ERR-011")
def a_refused_opening_holds_nothing(t: Trial) -> None:
    """Let init fail, and list the files in the directory that are still open."""
    t.require_local(ENDS_WITH_ITS_PROCESS)
    t.claim(
        "ERR-011", "overwrite the files of a closed store, let init raise, and list the open files"
    )
    store = t.open()
    store.put(b"a", b"1")
    store.commit({CHANGELOG: 0})
    store.close()
    overwrite_files(t)
    try:
        t.open().close()
    except SubjectRaised:
        t.go_on_after_error()
    t.expect(t.asked("lab.open_files()", t.lab.open_files()), [])
