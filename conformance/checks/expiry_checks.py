"""Crashes and losses of power while a store deletes what has expired, such as an old segment."""

from __future__ import annotations

from streamproof.conformance.as_key_value import LATE
from streamproof.conformance.check_registry import check
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.checks import power_checks
from streamproof.conformance.checks.crash_checks import JUDGED, deep_campaign
from streamproof.conformance.checks.overflow_checks import PARTS
from streamproof.conformance.crash.program import Program, ProgramBuilder

EXPIRES = ("!key_value",)
"""Nothing expires in a key-value store, so there is nothing to try in one."""


@check(*JUDGED, raw=True, weight=80, needs=EXPIRES)
def while_windows_expire(run: CheckRun) -> None:
    """Kill the process while windows or sessions in several segments expire."""
    crashes = deep_campaign(run)
    program = of_expiry()
    late = next(n for n, each in enumerate(program.operations) if LATE in each.arguments)
    crashes.syscalls(program, late, span=len(program) - late, share=0.6)
    crashes.lines(program, late, share=0.4)
    crashes.lines(program, late + 1, share=0.5)
    crashes.boundaries(program)


@check(*power_checks.JUDGED, raw=True, weight=60, needs=EXPIRES)
def power_while_windows_expire(run: CheckRun) -> None:
    """Lose the power while windows or sessions in several segments expire."""
    power_checks.campaign(run).lose(of_expiry())


def of_expiry() -> Program:
    """Rows in several segments, and then a row so late that all these segments expire.

    The rows are deleted before, so that nothing depends on when the store lets them expire: none
    of them may come back. Their segments still have the files of both.
    """
    builder = ProgramBuilder()
    for value in (b"1", None):
        for key in PARTS:
            builder.put(key, value)
        builder.commit().then("flush")
    builder.put(LATE, b"2").commit().then("flush")
    return builder.put(LATE, b"3").commit().then("flush").build()
