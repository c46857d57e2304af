"""Loops over hundreds of rows, each of which is one line of a program."""

from __future__ import annotations

from collections.abc import Callable

from streamproof.conformance.trial import Trial

__all__ = ["count_rows", "for_each_row"]

AT_ONCE = 100
"""The number of calls that count as one for the time limit of a call."""


def for_each_row(t: Trial, rows: range, line: str, call: Callable[[int], object]) -> None:
    """Make a call for each row ``n``; ``line`` is its source."""
    t.note(f"for n in {rows}: {line}")
    for start in range(0, len(rows), AT_ONCE):
        with t.watching(f"a hundred times {line}"):
            for n in rows[start : start + AT_ONCE]:
                call(n)


def count_rows(t: Trial, rows: range, line: str, holds: Callable[[int], bool]) -> int:
    """For how many rows ``n`` something holds; ``line`` is its source."""
    found = 0
    for start in range(0, len(rows), AT_ONCE):
        with t.watching(f"a hundred times {line}"):
            found += sum(map(holds, rows[start : start + AT_ONCE]))
    return t.asked(f"sum({line} for n in {rows})", found)
