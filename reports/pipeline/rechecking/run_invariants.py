"""Judges the events of each run by the classes of the simulator, in one worker for each run.

A run gets the same result as while it ran: a simulated world ends soon after its first violation,
and the conditions at the end are only checked if everything held until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, to_builtins

from streamproof.errors import UsageError
from streamproof.reports.pipeline.rechecking.continuity import OffsetsAreContinuous
from streamproof.reports.pipeline.rechecking.validation import (
    DIFFERENT,
    DUPLICATE,
    MISSING,
    START,
    WRONG_START,
    require_events,
)
from streamproof.sim.arrow import pa, pc
from streamproof.sim.invariants import INVARIANTS, Invariant, InvariantViolation, Watch
from streamproof.sim.invariants.judging import (
    EVERYTHING_SEEN,
    Judgement,
    Unseen,
    judgeable,
)
from streamproof.sim.trace import Event
from streamproof.sim.trace_files import BATCH, SCHEMA, events_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = [
    "FINDINGS",
    "KNOWN",
    "RecheckFinding",
    "find_invariants",
    "in_order",
    "judge",
    "judgement_of",
    "recheck",
    "violations_in",
]

KNOWN: tuple[type[Invariant], ...] = (OffsetsAreContinuous, *INVARIANTS)
"""The default invariants: that no event of a log is missing, and those of the simulator."""

FINDINGS = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("what", pa.string(), nullable=False),
        pa.field("invariant", pa.string(), nullable=False),
        pa.field("requirement", pa.string(), nullable=False),
        pa.field("message", pa.string(), nullable=False),
        pa.field("sequence", pa.int64(), nullable=False),
    ]
)
"""The columns of findings; see :class:`RecheckFinding`."""

COLUMNS = (
    "run string, what string, invariant string, requirement string, message string, sequence bigint"
)
"""The same columns as a schema of Spark."""


class RecheckFinding(Struct, frozen=True):
    """A finding about the events of a run.

    Attributes:
        run: the name of the run.
        what: ``violation``; ``unreadable`` if the run could not be judged; or ``duplicate`` if it
            was read more than once, and judged once.
        invariant: the name of the broken invariant; empty unless this is a violation.
        requirement: the id of the broken promise; empty unless this is a violation.
        message: the finding in words.
        sequence: the number of the event that shows the finding; -1 at the end of the run.
    """

    run: str
    what: Literal["violation", "unreadable", "duplicate"]
    invariant: str
    requirement: str
    message: str
    sequence: int


def find_invariants(names: Iterable[str]) -> tuple[type[Invariant], ...]:
    """The invariants with these names or requirements; all, if no name is given.

    Raises:
        UsageError: no invariant has one of the names.
    """
    wanted = set(names)
    unknown = wanted - {word for each in KNOWN for word in (each.name, each.requirement)}
    if unknown:
        raise UsageError(
            f"There is no invariant {min(unknown)!r}. There are: "
            + ", ".join(f"{each.name} ({each.requirement})" for each in KNOWN)
            + "."
        )
    return tuple(each for each in KNOWN if not wanted or {each.name, each.requirement} & wanted)


def recheck(events: DataFrame, invariants: Sequence[type[Invariant]] = INVARIANTS) -> DataFrame:
    """Judge every run by itself; a worker holds one run at a time.

    Args:
        events: the events of any number of runs, with the columns of a trace, in any order.
        invariants: the invariants to check. Workers must be able to import them.

    Returns:
        The findings, with the columns of :class:`RecheckFinding`.

    Raises:
        UsageError: a column is missing, or has another type.
    """
    require_events(events)
    chosen = tuple(invariants)

    def judged(rows: pa.Table) -> pa.Table:
        return pa.Table.from_pylist(to_builtins(list(judge(rows, chosen))), schema=FINDINGS)

    return events.select(*SCHEMA.names).groupBy("run").applyInArrow(judged, COLUMNS)


def judge(rows: pa.Table, invariants: Sequence[type[Invariant]]) -> Iterator[RecheckFinding]:
    """Judge one run.

    Args:
        rows: its events, in any order, with the schema of a trace.
        invariants: the invariants to check.
    """
    run = rows.column("run")[0].as_py() or ""
    try:
        single = in_order(rows)
        if len(single) < len(rows):
            yield RecheckFinding(run, "duplicate", "", "", DUPLICATE % (len(rows), len(single)), -1)
        events = chain.from_iterable(map(events_of, single.to_batches(BATCH)))
        for each in violations_in(events, invariants):
            number = each.event.sequence if each.event else -1
            yield RecheckFinding(
                run, "violation", each.invariant, each.requirement, each.message, number
            )
    except UsageError as error:
        yield RecheckFinding(run, "unreadable", "", "", str(error), -1)
    except Exception as error:  # noqa: BLE001 - one run that breaks must not end the others
        text = str(error).removesuffix(" This is a mistake in the simulator.")
        yield RecheckFinding(
            run, "unreadable", "", "", f"{text} Something is missing before that.", -1
        )


def in_order(rows: pa.Table) -> pa.Table:
    """The events of one run in their order, each of them once.

    Args:
        rows: the events in any order, with the schema of a trace.

    Raises:
        UsageError: a value or an event is missing, or different runs have the same name.
    """
    if any(each.null_count for each in rows.columns):
        # Its message says where the value is missing, and which one it is.
        next(events_of(rows))
    numbers = rows.column("sequence").combine_chunks()
    if numbers.equals(pa.array(range(len(rows)), pa.int64())):
        return rows
    rows = rows.sort_by("sequence")
    numbers = rows.column("sequence").combine_chunks()
    if pc.any(pc.equal(numbers[1:], numbers[:-1])).as_py():
        rows = rows.group_by(SCHEMA.names).aggregate([]).sort_by("sequence")
        if len(rows) != pc.count_distinct(numbers).as_py():
            raise UsageError(DIFFERENT)
    last = numbers[-1].as_py()
    if last != len(rows) - 1:
        raise UsageError(MISSING % (len(rows), last))
    return rows


def violations_in(
    events: Iterator[Event], invariants: Sequence[type[Invariant]]
) -> list[InvariantViolation]:
    """The violations in a run that tells everything, in the order in which they are found.

    Args:
        events: the events of the run, in order; there is at least one.
        invariants: the invariants to check.

    Raises:
        UsageError: the run does not begin with the event that has the guarantee.
        InvariantError: an invariant raised an error, because an event is missing.
    """
    return judgement_of(events, invariants, EVERYTHING_SEEN).violations


def judgement_of(
    events: Iterator[Event], invariants: Sequence[type[Invariant]], unseen: Unseen
) -> Judgement:
    """What comes of judging a run.

    Args:
        events: the events of the run, in order; there is at least one.
        invariants: the invariants to check.
        unseen: what the events do not tell.

    Raises:
        UsageError: the run does not begin with the event that has the guarantee.
        InvariantError: an invariant raised an error, because an event is missing.
    """
    first = next(events)
    if first.kind != START:
        raise UsageError(WRONG_START % first.kind)
    exactly_once = first.attributes["exactly_once"]
    able, unjudged = judgeable(_watched(invariants), unseen, exactly_once=exactly_once)
    watch = Watch(
        able,
        exactly_once=exactly_once,
        has_logs=not unseen.logs,
        of_kafka=unseen.of_kafka,
    )
    watch(first)
    healed = False
    for event in events:
        watch(event)
        healed = healed or event.kind == "world.healed"
    ours = {each.name for each in INVARIANTS}
    was_ended = any(each.invariant in ours for each in watch.violations)
    found = watch.end() if healed and not was_ended else watch.violations
    names = {each.name for each in invariants}
    unjudged |= dict.fromkeys(watch.unjudged, unseen.logs)
    reasons = {name: reason for name, reason in unjudged.items() if name in names}
    violations = [each for each in found if each.invariant in names]
    broken = {each.invariant for each in violations}
    return Judgement(violations, reasons, len(names - reasons.keys() - broken))


def _watched(invariants: Sequence[type[Invariant]]) -> list[type[Invariant]]:
    """All invariants that must run to judge a run by some of them.

    A world ends when any invariant of the simulator is broken, and the conditions at the end are
    only checked if none was.
    """
    if all(each.at_end is Invariant.at_end for each in invariants):
        return list(invariants)
    return [*INVARIANTS, *(each for each in invariants if each not in INVARIANTS)]
