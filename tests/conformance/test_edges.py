"""Bounds that are easy to get wrong: each one of each scan is tried in every run.

For each scan and each pair of bounds there is a mutant here: a store that is right but for a scan
with exactly these bounds, which lacks its last entry, or yields one where there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.checks.model_checks import in_trial
from streamproof.conformance.program_kinds import ScanMethod, kind_of
from streamproof.conformance.running_call import RunningCall
from streamproof.conformance.settings import Settings
from streamproof.conformance.short_programs import edges
from streamproof.conformance.subject import Subject, load_subject
from streamproof.conformance.violations import Violation
from streamproof.stores.windows import LONG_MAX

STORES = ("in-memory", "in-memory-window", "in-memory-session")
SCANS = [
    pytest.param(store, scan, id=f"{store}-{scan.name}")
    for store in STORES
    for scan in kind_of(load_subject(store).capabilities).scans
]

Scan = Callable[..., Iterator[Any]]
Spoil = Callable[[tuple[Any, ...], list[Any]], list[Any]]
"""What a scan with these arguments yields in place of the right entries."""


def spoilt(name: str, method: str, spoil: Spoil) -> Subject:
    """A right store whose scan ``method`` yields what ``spoil`` makes of it."""
    right = load_subject(name)

    def factory() -> Any:
        store = right.factory()
        scan: Scan = getattr(store, method)
        setattr(store, method, lambda *given: iter(spoil(given, [*scan(*given)])))
        return store

    return Subject(name, factory, right.capabilities, right.module)


def run_edges(subject: Subject, scan: ScanMethod, directory: Path) -> None:
    """Run the short program about the edges of a scan."""
    check = load_checks()["model.random_programs"]
    status = RunningCall(directory / "status", create=True)
    run = CheckRun(check, subject, Settings(profile="smoke"), directory, status)
    in_trial(run, partial(edges, scan))


def arguments_of(name: str, scan: ScanMethod, directory: Path) -> list[tuple[Any, ...]]:
    """The arguments with which a right store is scanned."""
    given: dict[tuple[Any, ...], None] = {}

    def note(arguments: tuple[Any, ...], entries: list[Any]) -> list[Any]:
        given[arguments] = None
        return entries

    run_edges(spoilt(name, scan.name, note), scan, directory)
    return [*given]


def wrong_at(arguments: tuple[Any, ...]) -> Spoil:
    """A store that is wrong with these arguments alone."""
    seen: list[Any] = []

    def spoil(given: tuple[Any, ...], entries: list[Any]) -> list[Any]:
        if given == arguments:
            return entries[:-1] if entries else seen[:1]
        seen[:] = entries or seen
        return entries

    return spoil


@pytest.mark.parametrize(("store", "scan"), SCANS)
def test_a_scan_that_is_wrong_at_one_edge_is_found(
    store: str, scan: ScanMethod, tmp_path: Path
) -> None:
    """At every edge, one mutant each."""
    (tmp_path / "right").mkdir()
    every = arguments_of(store, scan, tmp_path / "right")
    survivors = []
    for number, arguments in enumerate(every):
        directory = tmp_path / str(number)
        directory.mkdir()
        try:
            run_edges(spoilt(store, scan.name, wrong_at(arguments)), scan, directory)
        except Violation:
            continue
        survivors.append(arguments)

    assert survivors == []


def test_all_edges_of_keys_are_tried(tmp_path: Path) -> None:
    """Open, empty, equal, inverted, all 0xFF, and just past a key."""
    given = {*arguments_of("in-memory", ScanMethod("range"), tmp_path)}

    assert given > {
        *((None, None), (None, b""), (b"", None), (b"", b""), (b"b", b"b"), (b"bb", b"bb")),
        *((b"c", b"a"), (b"b", None), (None, b"b"), (b"\xff\xff", None), (b"a\x00", b"b")),
        (b"a\x01", b"b\x00"),
    }


def test_all_edges_of_times_are_tried(tmp_path: Path) -> None:
    """Before time 0, the largest time, equal, inverted, and around the start of a segment."""
    given = arguments_of("in-memory-window", ScanMethod("fetch_all"), tmp_path)
    interval = kind_of(load_subject("in-memory-window").capabilities).times.interval_ms
    start = 10 * interval

    assert {*given} > {
        *((-1, LONG_MAX), (-1, -1), (-1, 0), (LONG_MAX, LONG_MAX), (start, start)),
        *((start - 1, start - 1), (start - 1, start), (start, start + 1), (start, start - 1)),
        *((-1, start), (start, LONG_MAX)),
    }
