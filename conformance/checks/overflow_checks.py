"""Crashes of stores whose parts reach the disk one by one, such as a database for each segment."""

from __future__ import annotations

from itertools import permutations

from streamproof.conformance.check_registry import check
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.checks.crash_checks import JUDGED, deep_campaign
from streamproof.conformance.crash.program import Program, ProgramBuilder
from streamproof.conformance.lab import LAB_WRITE_BUFFER_BYTES

PARTS = (b"a", b"b", b"last")
"""Keys whose windows start at different times, so that segments have some of them each."""

OVERFLOWS = 3
"""The first overflow writes the rows, and a later one an offset that came after them."""


@check(*JUDGED, raw=True, weight=80)
def in_one_part(run: CheckRun) -> None:
    """Kill the process after one part of the store overflowed, and another has only a small row."""
    crashes = deep_campaign(run)
    pairs = list(permutations(PARTS, 2))
    for done, (still, busy) in enumerate(pairs):
        crashes.boundaries(of_parts(still, busy), share=1 / (len(pairs) - done))


def of_parts(still: bytes, busy: bytes) -> Program:
    """A row in one part of the store, and commits that each overflow a buffer of another part."""
    builder = ProgramBuilder().put(still, b"1")
    for number in range(OVERFLOWS):
        builder.put(busy, b"%d" % number * LAB_WRITE_BUFFER_BYTES).commit()
    return builder.build()
