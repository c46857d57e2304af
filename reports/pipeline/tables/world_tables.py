"""Tables of simulated worlds: restorations, waits, and situations that never came about."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sql

from streamproof.reports.pipeline.tables.base_rows import Base, union

__all__ = [
    "make_marks_never",
    "make_restoration_times",
    "make_restorations",
    "make_situations",
    "make_waiting_times",
    "make_waits",
]


def make_situations(base: Base) -> DataFrame:
    """How often each situation came about, by subject."""
    found = base.table("situations").groupBy("subject", "situation")
    runs = sql.count_distinct("path").alias("runs")
    return found.agg(runs, sql.sum("hits").alias("hits"))


def make_marks_never(base: Base) -> DataFrame:
    """The situations that no run has seen."""
    found = base.table("situations").groupBy("situation")
    runs = sql.count_distinct("path").alias("runs")
    return found.agg(runs, sql.sum("hits").alias("hits")).where("hits = 0")


def make_restorations(base: Base) -> DataFrame:
    """Each restoration, from its start to the next event about it (KIP-869, restore ends)."""
    ends = {"restore.end": "ended", "restore.suspended": "suspended"}
    events = base.events().where(_kind_in("restore.start", *ends))
    each = Window.partitionBy("path", "actor", "task", "partition").orderBy("sequence")
    total = sql.get_json_object("attributes", "$.total").cast("bigint")
    next_ = sql.lead(sql.struct("time", "kind", total.alias("total"))).over(each)
    starts = events.withColumn("next", next_).where("kind = 'restore.start'")
    is_ended = "next.kind IN ('restore.end', 'restore.suspended')"
    return starts.select(
        sql.col("path").alias("run"),
        "actor",
        "task",
        "partition",
        sql.col("time").alias("started_at"),
        _named(ends).alias("end"),
        sql.expr(f"if({is_ended}, next.time - time, 0L)").alias("duration_ms"),
        sql.expr(f"if({is_ended}, coalesce(next.total, 0L), 0L)").alias("records"),
    )


def make_restoration_times(base: Base) -> DataFrame:
    """How many records restorations had, and how long they took."""
    found = make_restorations(base).where("end != 'cut off'").groupBy("end")
    measures = [
        found.agg(*_spread(measure)).withColumn("measure", sql.lit(measure))
        for measure in ("duration_ms", "records")
    ]
    return union(measures)


def make_waits(base: Base) -> DataFrame:
    """Each time that a task waited, from its first reason to the record that ends the wait.

    A task that now waits for another reason still waits. A task that changes to another state, or
    is closed, has not continued.
    """
    ends = {"task.processed": "processed", "task.enforced": "enforced"}
    kinds = ("task.waiting", *ends, "task.state", "task.closed")
    each = Window.partitionBy("path", "actor", "task").orderBy("sequence")
    last = sql.lag("kind", 1, "").over(each)
    edges = (
        base.events()
        .where(_kind_in(*kinds))
        .withColumn("last", last)
        .where("kind != 'task.waiting' OR last != 'task.waiting'")
    )
    next_ = sql.lead(sql.struct("time", "kind")).over(each)
    starts = edges.withColumn("next", next_).where("kind = 'task.waiting'")
    waiting = sql.from_json(sql.get_json_object("attributes", "$.waiting"), "map<string, string>")
    reasons = sql.array_sort(sql.array_distinct(sql.map_values(waiting)))
    is_ended = "next.kind IN ('task.processed', 'task.enforced')"
    return starts.select(
        sql.col("path").alias("run"),
        "actor",
        "task",
        sql.col("time").alias("started_at"),
        sql.coalesce(sql.array_join(reasons, ", "), sql.lit("")).alias("reasons"),
        _named(ends).alias("end"),
        sql.expr(f"if({is_ended}, next.time - time, 0L)").alias("duration_ms"),
    )


def make_waiting_times(base: Base) -> DataFrame:
    """How long tasks waited before they continued."""
    found = make_waits(base).where("end != 'cut off'").groupBy("reasons", "end")
    return found.agg(*_spread("duration_ms"))


def _kind_in(*kinds: str) -> Column:
    return sql.col("kind").isin(*kinds)


def _named(ends: dict[str, str]) -> Column:
    """The end of a wait or restoration, in the words of the tables."""
    named: Column = sql.lit("cut off")
    for kind, name in ends.items():
        named = sql.when(sql.expr(f"next.kind = '{kind}'"), name).otherwise(named)
    return named


def _spread(column: str) -> list[Column]:
    """Minimum, maximum and exact quantiles, which do not depend on the distribution of work."""
    quantiles = {"median": 0.5, "p90": 0.9, "p99": 0.99}
    return [
        sql.count("*").alias("count"),
        sql.min(column).alias("least"),
        sql.max(column).alias("most"),
        *[sql.percentile(column, share).alias(name) for name, share in quantiles.items()],
        # The quotient of two whole numbers does not depend on the order of the sums.
        (sql.sum(column) / sql.count("*")).alias("mean"),
    ]
