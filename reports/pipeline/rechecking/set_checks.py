"""Checks over all events at once, for runs that are too large for one worker.

Each check is an invariant as expressions of Spark: windows over the few events that matter to the
check, distributed by partition, task or thread. A check finds exactly what the invariant of the
same name finds in the same events, with the same messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from streamproof.errors import UsageError
from streamproof.reports.pipeline.rechecking.continuity import OffsetsAreContinuous
from streamproof.reports.pipeline.rechecking.validation import require_events, told, unsound
from streamproof.sim.invariants import Invariant
from streamproof.sim.invariants.delivery import CommittedInputWasProcessed, EachInputCountsOnce
from streamproof.sim.invariants.log_history import GROUP_TARGET
from streamproof.sim.invariants.ownership import OneOwnerInAGeneration, OwnersFollowEachOther

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["SET_CHECKS", "SetCheck", "recheck_sets"]


class SetCheck(NamedTuple):
    """The part of an invariant that can be checked over all events at once.

    Attributes:
        invariant: the invariant with the same findings.
        find: makes the violations (``run``, ``message`` and ``sequence``) from the events that
            ``told`` returns.
    """

    invariant: type[Invariant]
    find: Callable[[DataFrame], DataFrame]


@contextmanager
def recheck_sets(
    events: DataFrame, invariants: Iterable[type[Invariant]] | None = None
) -> Iterator[DataFrame]:
    """Check all runs at once; no worker needs to hold one of them.

    Args:
        events: the events of any number of runs, with the columns of a trace, in any order. The
            events that matter are persisted while the findings are used.
        invariants: some of those in ``SET_CHECKS``; all, if none are given.

    Yields:
        The findings, with the columns of ``RecheckFinding``.

    Raises:
        UsageError: an invariant cannot be checked in this way, or the table has no events.
    """
    require_events(events)
    from pyspark.sql import functions as f

    chosen = list(SET_CHECKS) if invariants is None else [_check_of(each) for each in invariants]
    nothing = f.lit("")
    narrow = told(events).persist()
    wrong = (
        unsound(events, narrow)
        .select(
            "run",
            "what",
            nothing.alias("invariant"),
            nothing.alias("requirement"),
            "message",
            f.lit(-1).cast("bigint").alias("sequence"),
        )
        .persist()
    )
    try:
        single = narrow
        if not wrong.isEmpty():
            unreadable = wrong.where("what = 'unreadable'").select("run")
            single = narrow.join(unreadable, "run", "left_anti").dropDuplicates(["run", "sequence"])
        yield reduce(_union, (_findings(single, each) for each in chosen), wrong)
    finally:
        wrong.unpersist()
        narrow.unpersist()


def _union(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.unionByName(other)


def _check_of(invariant: type[Invariant]) -> SetCheck:
    for each in SET_CHECKS:
        if each.invariant is invariant:
            return each
    known = ", ".join(each.invariant.name for each in SET_CHECKS)
    raise UsageError(
        f"{invariant.name!r} cannot be checked over all events at once. There are: {known}. "
        "Without --sets, each run is judged by itself."
    )


def _findings(events: DataFrame, check: SetCheck) -> DataFrame:
    from pyspark.sql import functions as f

    return check.find(events).select(
        "run",
        f.lit("violation").alias("what"),
        f.lit(check.invariant.name).alias("invariant"),
        f.lit(check.invariant.requirement).alias("requirement"),
        "message",
        "sequence",
    )


# The parts of the checks.


def _over(*by: str) -> Any:
    """A window over the events of a run with equal values in some columns, in their order."""
    from pyspark.sql import Window

    return Window.partitionBy("run", *by).orderBy("sequence")


def _before(*by: str) -> Any:
    """The same window, up to the event before."""
    from pyspark.sql import Window

    return _over(*by).rowsBetween(Window.unboundedPreceding, -1)


def _so_far(*by: str) -> Any:
    """The same window, up to the present event."""
    from pyspark.sql import Window

    return _over(*by).rowsBetween(Window.unboundedPreceding, Window.currentRow)


def _from_here(*by: str) -> Any:
    """The same window, from the present event on."""
    from pyspark.sql import Window

    return _over(*by).rowsBetween(Window.currentRow, Window.unboundedFollowing)


def _message(template: str, *columns: str | Column) -> Column:
    from pyspark.sql import functions as f

    return f.format_string(template, *columns).alias("message")


# The checks.


def _gaps(events: DataFrame) -> DataFrame:
    """Offsets of a log that do not follow each other; markers have offsets as well."""
    from pyspark.sql import functions as f

    entries = events.where(
        f.col("kind").isin("log.appended", "transaction.marker")
        & ~f.col("partition").startswith(GROUP_TARGET)
    )
    before = f.lag("offset").over(_over("partition"))
    return (
        entries.withColumn("before", before)
        .where("before is not null and offset != before + 1")
        .select(
            "run",
            "sequence",
            _message("%s has an entry at %d after the one at %d", "partition", "offset", "before"),
        )
    )


def _went_back(events: DataFrame) -> DataFrame:
    """Committed offsets of inputs that are smaller than one before."""
    from pyspark.sql import functions as f

    commits = events.where("kind = 'offsets.committed'")
    each = commits.select("run", "sequence", f.explode("offsets").alias("partition", "offset"))
    before = f.max("offset").over(_before("partition"))
    return (
        each.withColumn("before", before)
        .where("offset < before")
        .select(
            "run",
            "sequence",
            _message(
                "the committed offset of %s went back from %d to %d",
                "partition",
                "before",
                "offset",
            ),
        )
    )


def _two_owners(events: DataFrame) -> DataFrame:
    """Tasks with two owners in one generation; late events of an earlier one are left out."""
    from pyspark.sql import functions as f

    assigned = events.where("kind = 'thread.assigned'")
    latest = f.max("generation").over(_so_far())
    present = assigned.withColumn("latest", latest).where("generation = latest")
    each = present.select(
        "run", "sequence", "actor", "generation", f.explode("active").alias("task")
    )
    owner = f.first("actor").over(_so_far("generation", "task"))
    return (
        each.withColumn("owner", owner)
        .where("owner != actor")
        .select(
            "run",
            "sequence",
            _message(
                "task %s has two owners in generation %d: %s and %s",
                "task",
                "generation",
                "owner",
                "actor",
            ),
        )
    )


def _not_given_up(events: DataFrame) -> DataFrame:
    """Tasks that were given to another thread in the generation in which they are taken away."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    assigned = events.where("kind = 'thread.assigned'")
    before = f.lag("active").over(_over("actor"))
    had = _with_ends(events, assigned).withColumn("had", before).where("kind = 'thread.assigned'")
    columns = ["run", "sequence", "generation", "actor"]
    given = had.select(*columns, f.explode("active").alias("task"), f.lit(True).alias("is_given"))
    asked = had.select(*columns, f.explode("had").alias("task"), f.lit(False).alias("is_given"))
    # In one event, the tasks that a thread gets come before the tasks that it must give back.
    window = (
        Window.partitionBy("run", "generation", "task")
        .orderBy("sequence", f.desc("is_given"))
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    owner = f.last(f.when(f.col("is_given"), f.col("actor")), ignorenulls=True).over(window)
    return (
        given.unionByName(asked)
        .withColumn("owner", owner)
        .where("not is_given and owner != actor")
        .select(
            "run",
            "sequence",
            _message("task %s was given to %s while %s still had it", "task", "owner", "actor"),
        )
    )


def _with_ends(events: DataFrame, assigned: DataFrame) -> DataFrame:
    """The assignments of threads, and the moments at which a thread lost all of its tasks."""
    from pyspark.sql import functions as f

    columns = ["run", "sequence", "actor", "kind", "generation", "active"]
    lost = events.where("kind in ('thread.lost', 'thread.died')").select(*columns)
    threads = assigned.select("run", "actor").distinct()
    ended = (
        events.where("kind in ('instance.crashed', 'instance.stopped')")
        .withColumnRenamed("actor", "process")
        .join(threads.withColumn("process", f.substring_index("actor", "/", 1)), ["run", "process"])
        .select(*columns)
    )
    return assigned.select(*columns).unionByName(lost).unionByName(ended)


def _counted_twice(events: DataFrame) -> DataFrame:
    """Input that is part of two committed transactions, or of one that leaves its offset out."""
    from pyspark.sql import functions as f

    work = _transactions(events)
    committed = work.where("commit")
    processed = committed.where("kind = 'task.processed'")
    number = f.row_number().over(_numbered())
    twice = (
        processed.withColumn("count", number)
        .where("count > 1")
        .select(
            "run",
            f.col("end").alias("sequence"),
            _message("the record of %s at %d counts %d times", "partition", "offset", "count"),
        )
    )
    added = (
        committed.where("kind = 'offsets.added'")
        .select(
            "run", "producer", "end", "sequence", f.explode("offsets").alias("partition", "added")
        )
        .groupBy("run", "producer", "end", "partition")
        .agg(f.max_by("added", "sequence").alias("added"))
    )
    left_out = (
        processed.join(added, ["run", "producer", "end", "partition"], "left")
        .where("offset >= coalesce(added, -1)")
        .select(
            "run",
            f.col("end").alias("sequence"),
            _message(
                "the record of %s at %d was processed in a transaction that committed %s "
                "for its partition",
                "partition",
                "offset",
                f.coalesce(f.col("added").cast("string"), f.lit("no offset")),
            ),
        )
    )
    return twice.unionByName(left_out)


def _numbered() -> Any:
    """A window over the times that an input was counted, in their order."""
    from pyspark.sql import Window

    return Window.partitionBy("run", "partition", "offset").orderBy("end", "sequence")


def _transactions(events: DataFrame) -> DataFrame:
    """The events in transactions of exactly-once runs, each with the end of its transaction.

    The end is the first decision about the producer that follows. If the producer begins anew
    before that, the transaction never counts.
    """
    from pyspark.sql import functions as f

    strict = events.where("kind = 'application.started' and exactly_once").select("run")
    of_strict = events.join(strict, "run", "left_semi")
    # A record was processed for the producer that its thread has at that time.
    mine = f.last("producer", ignorenulls=True).over(_so_far("actor"))
    threads = of_strict.where(f.col("kind").isin("thread.producer", "task.processed"))
    brokers = of_strict.where(f.col("kind").isin("offsets.added", "transaction.decided"))
    work = threads.withColumn("producer", mine).unionByName(brokers)
    is_end = f.col("kind").isin("thread.producer", "transaction.decided")
    here = _from_here("producer")
    end = f.first(f.when(is_end, f.col("sequence")), ignorenulls=True).over(here)
    counts = f.when(is_end, f.coalesce("commit", f.lit(False)))
    outcome = f.first(counts, ignorenulls=True).over(here)
    return work.withColumn("end", end).withColumn("commit", outcome).where(~is_end)


SET_CHECKS: tuple[SetCheck, ...] = (
    SetCheck(OffsetsAreContinuous, _gaps),
    SetCheck(CommittedInputWasProcessed, _went_back),
    SetCheck(OneOwnerInAGeneration, _two_owners),
    SetCheck(OwnersFollowEachOther, _not_given_up),
    SetCheck(EachInputCountsOnce, _counted_twice),
)
"""All checks over sets.

Two of them cover a part of their invariants: offsets never go back, and no input counts twice.
"""
