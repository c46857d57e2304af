"""Crashes: the checks really kill the process, many times, and judge the files it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from random import Random

from streamproof.conformance.check_registry import check
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.crash import triggers
from streamproof.conformance.crash.crash_records import CrashPoint
from streamproof.conformance.crash.kill_campaign import KillCampaign
from streamproof.conformance.crash.program import (
    PARTITIONS,
    ROW_KEY,
    Program,
    ProgramBuilder,
    random_program,
)
from streamproof.conformance.lab import CHANGELOG, OTHER_CHANGELOG
from streamproof.conformance.similar_partitions import LARGE_OFFSET, TWINS
from streamproof.conformance.violations import Skipped
from streamproof.sampling import spread

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
"""The requirements that judge every crash of one store."""


MOST_DEEP_CRASHES = 480
"""The most crashes of a check that crashes repeatedly or runs a long program."""

AT_ENDS = 0.3
"""The share of kills between operations, where kills within one operation follow: most mistakes
show there alone, and the smallest budget has only a few kills."""

FIRST_CRASHES = 4
"""The most first crashes from which a check searches for further crashes."""

OVERWRITES = 16
"""How often a check overwrites the same keys, with a flush after every second time. RocksDB merges
files as soon as it has four of them."""

VALUE_BYTES = 2_000
"""The size of each of these values, in bytes."""

LARGE_POWERS = range(10, 23)
"""Values of so many bits in their size, from 1 KiB to 4 MiB: stores treat values in another way
from some size on."""

ABOVE_THRESHOLDS = 21
"""The bits in a size that is above the size from which a store treats values in another way."""

LARGE_PROGRAMS = 4
"""How many programs of large values are tried, each with other sizes."""

MANY_ROWS = 1_100
"""Stores that write a large commit in parts often do so after 1,000 rows, or after 64 KiB."""

MOST_LARGE_CRASHES = 60
"""The most crashes of a check whose programs write many rows."""

SMALL_COMMITS = 900
"""So many commits of one small row each overflow small buffers with their offsets."""

DELETED = (2, 5)
"""The records of a restored changelog that have no value."""


def campaign(run: CheckRun) -> KillCampaign:
    """The crashes that this check may spend."""
    return KillCampaign(run, run.settings.limits.crash_points)


def deep_campaign(run: CheckRun) -> KillCampaign:
    """The crashes that one of the deeper checks may spend."""
    return KillCampaign(run, min(run.settings.limits.crash_points, MOST_DEEP_CRASHES))


def seeded(run: CheckRun) -> Random:
    """The random decisions of this check."""
    return Random(run.seed)


@check(*JUDGED, raw=True, weight=90)
def between_operations(run: CheckRun) -> None:
    """Kill the process after every operation of random programs."""
    crashes = campaign(run)
    random = seeded(run)
    # Flushed but uncommitted writes are on the disk, and must not count as committed.
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
    # Reopen after a commit, so that a crash can also damage the older content of the files.
    again = ProgramBuilder().put(b"a", b"1").put(b"b", b"2").commit().then("flush", "close", "open")
    program = again.put(b"a", b"5").put(b"b", None).commit().then("flush").build()
    crashes.lines(program, len(program) - 2, share=0.5)
    crashes.lines(program, len(program) - 1)


@check(*JUDGED, raw=True, weight=100)
def in_every_system_call(run: CheckRun) -> None:
    """Kill the process before every write-like system call of commits, flushes and close."""
    crashes = campaign(run)
    triggers.require_seen()
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
    crashes.syscalls(program, 1, span=len(program) - 1, share=0.7)
    crashes.boundaries(program, share=0.7)
    # Next to small rows, the offsets fill the buffers. So a flush may come right after them, and
    # finds a commit that writes them before its rows.
    small = ProgramBuilder()
    for number in range(SMALL_COMMITS):
        small.put(b"k%d" % (number % 7), b"%d" % number).commit()
    crashes.boundaries(small.build(), share=0.4)


@check(*JUDGED, raw=True, weight=80)
def large_values(run: CheckRun) -> None:
    """Kill the process around commits of large values, whose sizes lie around powers of two."""
    crashes = deep_campaign(run)
    random = seeded(run)
    for left in range(LARGE_PROGRAMS, 0, -1):
        # A store may treat a value in another way from any size on: the first program is above it.
        first = left == LARGE_PROGRAMS
        program = of_large_values(random, (ABOVE_THRESHOLDS,) if first else LARGE_POWERS)
        crashes.boundaries(program, share=1 / (2 * left))
        crashes.syscalls(program, 1, span=len(program) - 1, share=1 / (2 * left - 1))


def of_large_values(random: Random, powers: Sequence[int]) -> Program:
    """A program that overwrites values of around these powers of two, next to small rows."""
    builder = ProgramBuilder()
    for number in range(3):
        size = (1 << random.choice(powers)) + random.choice((-1, 0, 1))
        builder.put(b"large", b"%d" % number * size).put(b"small", b"%d" % number)
        builder.commit()
        if random.random() < 0.5:
            builder.then("flush")
    size = 1 << random.choice(powers)
    return builder.put(b"large", b"u" * size).put(b"small", None).build()


@check(*JUDGED, raw=True, weight=80)
def large_commits(run: CheckRun) -> None:
    """Kill the process while it stages and commits more rows than one batch may hold."""
    crashes = KillCampaign(run, min(run.settings.limits.crash_points, MOST_LARGE_CRASHES))
    program = of_many_rows()
    crashes.boundaries(program, share=0.3)
    crashes.syscalls(program, 1, span=len(program) - 1, share=0.5)
    crashes.syscalls(program, len(program) - 2, span=1)


def of_many_rows() -> Program:
    """A program whose commits have more rows and bytes than batches usually have."""
    builder = ProgramBuilder().put_many(MANY_ROWS, b"1").commit()
    for number in range(0, MANY_ROWS, MANY_ROWS // 4):
        builder.put(ROW_KEY % number, None)
    builder.put_many(MANY_ROWS - 1, b"2").put(b"last", b"2").commit()
    return builder.put_many(MANY_ROWS, b"3").build()


@check("CRASH-007", raw=True, weight=60, sums_up=True)
def several_partitions(run: CheckRun) -> None:
    """Kill the process around commits of two changelog partitions."""
    crashes = campaign(run)
    random = seeded(run)
    # A store may also mix partitions with similar names, or cut large offsets.
    similar = tuple(each for pair in random.sample(TWINS, 2) for each in pair)
    alike = random_program(random, commits=4, partitions=similar, first_offset=LARGE_OFFSET)
    crashes.boundaries(alike, share=0.25)
    program = random_program(random, commits=4, partitions=PARTITIONS)
    crashes.boundaries(program, share=AT_ENDS)
    commits = [i for i, each in enumerate(program.operations) if each.name == "commit"]
    crashes.lines(program, commits[-1], share=0.5)
    crashes.syscalls(program, commits[0], span=len(program) - commits[0])


def around(run: CheckRun, crashes: KillCampaign, program: Program) -> None:
    """Kill the process at every system call of a program, if the wanted part has no crash point.

    A store host that writes nothing in that part has no crash point there: a crash there leaves the
    files as earlier calls wrote them. If no system call is visible at all, the check shows nothing.
    """
    if not run.evidence.crash_points:
        crashes.syscalls(program, 0, span=len(program))


@check(*JUDGED, raw=True, weight=50)
def offsets_alone(run: CheckRun) -> None:
    """Kill the process around commits that have offsets, and no write."""
    crashes = campaign(run)
    program = of_offsets_alone(several=run.subject.capabilities.several_partitions)
    crashes.boundaries(program, share=0.5)
    first = [each.name for each in program.operations].index("flush")
    crashes.syscalls(program, first, span=len(program) - first)


def of_offsets_alone(*, several: bool) -> Program:
    """Commits without a write, of one partition and of both, before and after a flush."""
    both = PARTITIONS if several else PARTITIONS[:1]
    builder = ProgramBuilder().put(b"a", b"1").commit().then("flush").commit_alone()
    builder.commit_alone(*both).then("flush").put(b"a", b"2").commit_alone()
    return builder.commit_alone(*both).then("close", "open").commit_alone(*both).build()


def of_an_import() -> ProgramBuilder:
    """A store without offsets, the offsets of two partitions in a file, and the import."""
    builder = ProgramBuilder().put(b"a", b"1").put(b"b", b"2").commit({}).then("close")
    return builder.leave_checkpoint({CHANGELOG: 41, OTHER_CHANGELOG: 17}).then("open")


@check("CRASH-019", raw=True, weight=50, sums_up=True)
def while_importing(run: CheckRun) -> None:
    """Kill the process while it takes over the offsets of two partitions from one file."""
    crashes = campaign(run)
    builder = of_an_import()
    opening = len(builder.operations) - 1
    program = builder.read(b"a").build()
    crashes.syscalls(program, opening, span=2, share=0.5)
    crashes.lines(program, opening, share=0.8)
    crashes.boundaries(program)


@check("CRASH-011", raw=True, weight=50, sums_up=True)
def while_closing(run: CheckRun) -> None:
    """Kill the process before every line and system call of a clean close."""
    crashes = campaign(run)
    builder = ProgramBuilder().put(b"a", b"1").put(b"b", b"2").commit().put(b"b", None).commit()
    program = builder.put(b"c", b"uncommitted").then("close").build()
    last = len(program) - 1
    crashes.lines(program, last, share=0.5)
    crashes.syscalls(program, last)
    around(run, crashes, program)


@check("CRASH-012", raw=True, weight=60, sums_up=True)
def while_opening(run: CheckRun) -> None:
    """Kill the process while it opens the files that an unclean stop left."""
    crashes = campaign(run)
    builder = ProgramBuilder().put(b"a", b"1").put(b"b", b"2").commit().then("flush")
    builder.put(b"a", b"3").commit().then("close", "open")
    program = builder.put(b"b", None).commit().build()
    opening = [i for i, each in enumerate(program.operations) if each.name == "open"][-1]
    crashes.lines(program, opening, share=0.5)
    crashes.syscalls(program, opening)
    crashes.lines(program, 0)
    around(run, crashes, program)


@check("CRASH-014", raw=True, weight=40, sums_up=True)
def while_forgetting(run: CheckRun) -> None:
    """Kill the process around a commit that forgets all offsets."""
    crashes = campaign(run)
    builder = ProgramBuilder().put(b"a", b"1").commit().then("flush").put(b"a", b"2").commit({})
    program = builder.then("flush").put(b"b", b"3").commit().build()
    crashes.boundaries(program, share=AT_ENDS)
    if any(each.expected == "no exception" for each in run.findings.values()):
        run.findings.clear()
        raise Skipped("commit({}) raises, which OFFSET-005 judges")
    forgetting = 5
    crashes.lines(program, forgetting, share=0.5)
    crashes.syscalls(program, forgetting, span=2)


@check("RESTORE-007", raw=True, weight=60, sums_up=True)
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
    crashes.boundaries(program, share=AT_ENDS)
    restores = [i for i, each in enumerate(program.operations) if each.name == "restore"]
    crashes.lines(program, restores[1], share=0.4)
    crashes.syscalls(program, restores[1], span=len(program) - restores[1])


@check("CRASH-016", raw=True, weight=100, sums_up=True)
def while_recovering(run: CheckRun) -> None:
    """Kill the process, kill it again while it recovers and goes on, and kill it a third time."""
    crashes = deep_campaign(run)
    builder = ProgramBuilder(gap=2).put(b"a", b"1").put(b"b", b"2").commit().then("flush")
    builder.put(b"a", b"3").put(b"b", None).commit().then("flush")
    program = builder.put(b"c", b"4").commit().build()
    again, once_more = goes_on(builder, b"5"), goes_on(builder, b"6")
    limit = crashes.left
    firsts = crashes.points(program, 4, min(FIRST_CRASHES, 1 + limit // 12))
    for first in firsts:
        with crashes.after(program, first, limit // len(firsts)) as second:
            second.lines(again, 0, share=0.25)
            second.syscalls(again, 0, span=len(again), share=0.5)
            second.boundaries(again, share=0.25)
            for point in second.points(again, 0, 2):
                with second.after(again, point, limit // len(firsts) // 4) as third:
                    third.syscalls(once_more, 0, span=len(once_more), share=0.8)
                    third.boundaries(once_more)


def goes_on(builder: ProgramBuilder, value: bytes) -> Program:
    """A program after a crash: open, replay the changelog, write, commit and flush.

    The offsets of the program come after those of ``builder``.
    """
    after = ProgramBuilder(ends=builder.ends, gap=builder.gap)
    after.catch_up().put(b"b", value).put(b"a", None).commit().then("flush").put(b"c", value)
    return after.build()


@check("CRASH-017", raw=True, weight=70, sums_up=True)
def several_stores(run: CheckRun) -> None:
    """Kill the process while two stores of one task write, commit and flush in turn."""
    crashes = deep_campaign(run)
    first, second = (random_program(Random(seeded(run).random()), commits=3) for _ in range(2))
    program = side_by_side(first, second)
    crashes.boundaries(program, share=0.4)
    crashes.syscalls(program, 0, span=len(program), share=0.5)
    commits = [i for i, each in enumerate(program.operations) if each.name == "commit"]
    crashes.lines(program, commits[-1], share=0.5)
    crashes.lines(program, commits[-2])


def side_by_side(first: Program, second: Program) -> Program:
    """Two programs, each on a store of its own, whose operations take turns."""
    turns = zip_longest(
        (replace(each, store=1) for each in first.operations),
        (replace(each, store=2) for each in second.operations),
    )
    return Program(tuple(each for turn in turns for each in turn if each is not None))


@check("CRASH-018", raw=True, weight=90, sums_up=True)
def while_compacting(run: CheckRun) -> None:
    """Kill the process while it merges files whose keys were overwritten many times."""
    crashes = deep_campaign(run)
    builder = ProgramBuilder()
    for number in range(OVERWRITES):
        value = b"%d" % number + b"." * VALUE_BYTES
        builder.put_all([(b"k%d" % key, value) for key in range(4)])
        builder.put(b"gone", None if number % 2 else b"%d" % number)
        # An entry that was written once, long ago, must survive every merge.
        builder.put(b"once%d" % number, b"%d" % number).commit()
        if number % 2:
            builder.then("flush")
    program = builder.then("close").build()
    crashes.syscalls(program, 1, span=len(program) - 1, share=0.4)
    crashes.boundaries(program, share=0.2)


@check("RESTORE-015", raw=True, weight=80, sums_up=True)
def restoring_interrupted_again(run: CheckRun) -> None:
    """Interrupt a restoration after any record, several times, with different batches each time."""
    crashes = deep_campaign(run)
    keys = (b"a", b"b", b"a", b"c", b"d", b"c", b"e", b"b")
    entries = [
        (key, None if number in DELETED else b"%d" % number) for number, key in enumerate(keys)
    ]
    limit = crashes.left
    lengths = spread(len(entries), 1 + limit // 6)
    for length in lengths:
        begun = ProgramBuilder(gap=2).resume(1, length, entries).build()
        going_on = ProgramBuilder().resume(2, 1).resume(3, 2).build()
        ended = ProgramBuilder().resume(1, 1).resume(5, len(entries)).then("flush").build()
        end = CrashPoint("boundary", len(begun))
        with crashes.after(begun, end, limit // len(lengths)) as second:
            second.boundaries(going_on, share=0.2)
            second.syscalls(going_on, 1, span=2, share=0.4)
            for point in second.points(going_on, 1, 2):
                with second.after(going_on, point, limit // len(lengths) // 4) as third:
                    third.boundaries(ended, share=0.5)
                    third.syscalls(ended, 1, span=3)
