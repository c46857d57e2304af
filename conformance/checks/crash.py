"""Crashes: the process is killed for real, again and again, and what is left is judged."""

from __future__ import annotations

from random import Random

import msgspec

from streamproof.conformance.crash.campaign import Campaign
from streamproof.conformance.crash.program import PARTITIONS, ProgramBuilder, random_program
from streamproof.conformance.registry import check
from streamproof.conformance.run import CheckRun
from streamproof.conformance.violations import Skipped

JUDGED = (
    "CRASH-001",
    "CRASH-002",
    "CRASH-003",
    "CRASH-004",
    "CRASH-005",
    "CRASH-006",
    "CRASH-008",
    "CRASH-009",
    "CRASH-010",
    "CRASH-013",
    "RESTORE-006",
)
"""What every crash of one store is judged by."""


def campaign(run: CheckRun) -> Campaign:
    """The crashes that this check may spend."""
    return Campaign(run, run.settings.limits.crash_points)


def seeded(run: CheckRun) -> Random:
    """The random decisions of this check."""
    return Random(run.seed)


@check(*JUDGED, raw=True, weight=90)
def between_operations(run: CheckRun) -> None:
    """Kill the process after every operation of random programs."""
    crashes = campaign(run)
    random = seeded(run)
    # What is flushed without a commit is on the disk, and must not be taken for committed.
    flushed = ProgramBuilder().put(b"a", b"1").commit().put(b"b", b"2").then("flush")
    crashes.boundaries(flushed.build())
    for _ in range(6):
        crashes.boundaries(random_program(random, commits=3))


@check(*JUDGED, raw=True, weight=100)
def in_every_line_of_commit(run: CheckRun) -> None:
    """Kill the process before every line of Python of a commit."""
    crashes = campaign(run)
    first = ProgramBuilder().put(b"a", b"1").put(b"b", b"2").commit().put(b"a", b"3")
    first.put(b"b", None).put(b"c", b"4").commit()
    program = first.build()
    crashes.lines(program, len(program) - 1, share=0.5)
    # Reopened with a commit behind it, so that what the files held before is at stake too.
    again = ProgramBuilder().put(b"a", b"1").put(b"b", b"2").commit().then("flush", "close", "open")
    program = again.put(b"a", b"5").put(b"b", None).commit().then("flush").build()
    crashes.lines(program, len(program) - 2, share=0.5)
    crashes.lines(program, len(program) - 1)


@check(*JUDGED, raw=True, weight=100)
def in_every_system_call(run: CheckRun) -> None:
    """Kill the process before every write-like system call of commits, flushes and close."""
    crashes = campaign(run)
    if not crashes.counts_syscalls:
        raise Skipped("no C compiler is at hand to count system calls with (cc, gcc or clang)")
    builder = ProgramBuilder().put(b"a", b"1").put(b"b", b"2").commit().then("flush")
    builder.put(b"a", b"3").put(b"b", None).put(b"c", b"4").commit().then("flush")
    builder.put(b"a", b"5").put(b"c", None).commit().put(b"d", b"uncommitted").then("close")
    program = builder.build()
    second_write = 5
    crashes.syscalls(program, second_write, span=len(program) - second_write)


@check(*JUDGED, raw=True, weight=90)
def while_buffers_overflow(run: CheckRun) -> None:
    """Kill the process while many commits overflow small write buffers to disk."""
    crashes = campaign(run)
    builder = ProgramBuilder(gap=2)
    for number in range(60):
        value = b"%d" % number + b"." * 3000
        builder.put(b"k%d" % (number % 7), None if number % 11 == 10 else value)
        builder.put(b"last", b"%d" % number)
        builder.commit()
    program = builder.build()
    if crashes.counts_syscalls:
        crashes.syscalls(program, 1, span=len(program) - 1, share=0.7)
    crashes.boundaries(program)


@check("CRASH-007", raw=True, weight=60)
def several_partitions(run: CheckRun) -> None:
    """Kill the process around commits of two changelog partitions."""
    crashes = campaign(run)
    program = random_program(seeded(run), commits=4, partitions=PARTITIONS)
    crashes.boundaries(program)
    commits = [i for i, each in enumerate(program.operations) if each.name == "commit"]
    crashes.lines(program, commits[-1], share=0.5)
    crashes.syscalls(program, commits[0], span=len(program) - commits[0])
    blame(run, "CRASH-007")


@check("CRASH-011", raw=True, weight=50)
def while_closing(run: CheckRun) -> None:
    """Kill the process before every line and system call of a clean close."""
    crashes = campaign(run)
    builder = ProgramBuilder().put(b"a", b"1").put(b"b", b"2").commit().put(b"b", None).commit()
    program = builder.put(b"c", b"uncommitted").then("close").build()
    last = len(program) - 1
    crashes.lines(program, last, share=0.5)
    crashes.syscalls(program, last)
    blame(run, "CRASH-011")


@check("CRASH-012", raw=True, weight=60)
def while_opening(run: CheckRun) -> None:
    """Kill the process while it opens what was left by an unclean stop."""
    crashes = campaign(run)
    builder = ProgramBuilder().put(b"a", b"1").put(b"b", b"2").commit().then("flush")
    builder.put(b"a", b"3").commit().then("close", "open")
    program = builder.put(b"b", None).commit().build()
    opening = [i for i, each in enumerate(program.operations) if each.name == "open"][-1]
    crashes.lines(program, opening, share=0.5)
    crashes.syscalls(program, opening)
    crashes.lines(program, 0)
    blame(run, "CRASH-012")


@check("CRASH-014", raw=True, weight=40)
def while_forgetting(run: CheckRun) -> None:
    """Kill the process around a commit that forgets all offsets."""
    crashes = campaign(run)
    builder = ProgramBuilder().put(b"a", b"1").commit().then("flush").put(b"a", b"2").commit({})
    program = builder.then("flush").put(b"b", b"3").commit().build()
    crashes.boundaries(program)
    if any(each.expected == "no exception" for each in run.findings.values()):
        run.findings.clear()
        raise Skipped("commit({}) raises, which OFFSET-005 is about")
    forgetting = 5
    crashes.lines(program, forgetting, share=0.5)
    crashes.syscalls(program, forgetting, span=2)
    blame(run, "CRASH-014")


@check("RESTORE-007", raw=True, weight=60)
def while_restoring(run: CheckRun) -> None:
    """Kill the process in the middle of a restoration, and restore again."""
    crashes = campaign(run)
    builder = ProgramBuilder(gap=2)
    for batch in range(4):
        entries: list[tuple[bytes, bytes | None]] = [(b"k%d" % batch, b"%d" % batch)]
        entries += [(b"shared", b"%d" % batch), (b"k%d" % (batch - 1), None)]
        builder.restore(entries)
        builder.commit()
    program = builder.then("flush").build()
    crashes.boundaries(program)
    restores = [i for i, each in enumerate(program.operations) if each.name == "restore"]
    crashes.lines(program, restores[1], share=0.4)
    crashes.syscalls(program, restores[1], span=len(program) - restores[1])
    blame(run, "RESTORE-007")


def blame(run: CheckRun, requirement: str, *, unclean: bool = False) -> None:
    """Make whatever was found here the concern of one requirement.

    ``unclean`` includes an unclean stop that goes unnoticed, which is a matter of its own else.
    """
    findings = list(run.findings.values())
    if not unclean:
        findings = [each for each in findings if each.requirement != "CRASH-009"]
    run.findings.clear()
    if findings:
        run.findings[requirement] = msgspec.structs.replace(findings[0], requirement=requirement)
    elif run.evidence.crash_points:
        run.evidence.exercised.add(requirement)
