"""The rows that all tables start from: of every run once, from run logs and from campaigns."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, reduce
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sql

from streamproof.reports.pipeline.tables.campaign_rows import (
    AREA,
    EVENTS,
    campaign_events,
    campaign_problems,
    campaign_rows,
)
from streamproof.reports.pipeline.tables.log_reader import STAGED, base_table, staged_rows
from streamproof.reports.pipeline.tables.sources import CAMPAIGN_FILE, Sources

__all__ = ["AREA", "Base", "newest", "numbered", "numbers", "union"]

AGE = ("started_at", "run_id", "path")
"""The columns that put runs in order, the oldest first."""


class Base:
    """The rows of each kind, without what was read twice.

    Logs are read by the first table that needs them. What was read is kept by the workers, on
    their disks where it does not fit into memory.

    Args:
        spark: the session.
        sources: what is read.
    """

    def __init__(self, spark: SparkSession, sources: Sources) -> None:
        self._spark = spark
        self._logs = sources.logs
        told = {each: list(campaign_problems(each)) for each in sources.campaigns}
        # What is wrong with the manifest is wrong with everything.
        manifests = {str(Path(each, CAMPAIGN_FILE)) for each in sources.campaigns}
        self._campaigns = [
            each for each, rows in told.items() if not any(row[0] in manifests for row in rows)
        ]
        self._told = [row for rows in told.values() for row in rows]
        self._rows = staged_rows(spark, sources).persist(StorageLevel.MEMORY_AND_DISK)
        self._dropped = _dropped(self._all("runs")).persist(StorageLevel.MEMORY_AND_DISK)
        self._kept: dict[str, DataFrame] = {}

    @cached_property
    def _has_copies(self) -> bool:
        """Whether anything was read twice: as a rule nothing was, and nothing must be left out."""
        return not self._dropped.isEmpty()

    def table(self, kind: str) -> DataFrame:
        """The rows of one kind, of every run once."""
        found = self._all(kind)
        if kind == "problems":
            return union([found, self._dropped, _shared_ids(self.table("runs"))])
        # Of copies of a log, whichever was read last has described the requirements: let it.
        return found if kind == "requirements" else self._once(found)

    def kept(self, name: str, make: Callable[[Base], DataFrame]) -> DataFrame:
        """A table that others are made from: made once, and kept like what was read.

        Args:
            name: of the table.
            make: makes it from these rows.
        """
        if name not in self._kept:
            self._kept[name] = make(self).persist(StorageLevel.MEMORY_AND_DISK)
        return self._kept[name]

    def events(self) -> DataFrame:
        """The events that campaigns have kept, with the ``path`` of their run; logs have none."""
        found = [campaign_events(self._spark, each) for each in self._campaigns]
        if not found:
            return self._spark.createDataFrame([], EVENTS)
        return self._once(union(found))

    def close(self) -> None:
        """Let the workers forget what they have read."""
        for frame in (*self._kept.values(), self._dropped, self._rows):
            frame.unpersist()

    def _once(self, found: DataFrame) -> DataFrame:
        """Some rows, without those of runs that were read twice."""
        if not self._has_copies:
            return found
        return found.join(self._dropped.select("path"), "path", "left_anti")

    def _all(self, kind: str) -> DataFrame:
        if kind == "problems":
            schema = ", ".join(f"{name} {type_}" for name, type_ in STAGED[kind].items())
            found = [self._spark.createDataFrame(self._told, schema)]
        else:
            found = [campaign_rows(self._spark, each, kind) for each in self._campaigns]
        if self._logs or not found:
            found.append(base_table(self._rows, kind))
        return union(found)


def union(frames: list[DataFrame]) -> DataFrame:
    """The rows of all these frames; there is at least one."""
    return reduce(DataFrame.unionByName, frames)


def newest(*columns: str, before: Column | None = None) -> Column:
    """The values of some columns in the row of the newest run of a group.

    Args:
        columns: their names.
        before: what counts before the age: the greatest comes first.
    """
    first = [] if before is None else [before]
    return sql.max_by(sql.struct(*columns), sql.struct(*first, *AGE))


def numbers(base: Base) -> DataFrame:
    """The number of each run, from 1 for the oldest: whole numbers are compared faster than ages.

    There are as many as runs, so a worker has room for all of them.
    """
    return sql.broadcast(base.kept("numbers", _numbers))


def _numbers(base: Base) -> DataFrame:
    number = sql.row_number().over(Window.orderBy(*AGE)).cast("bigint")
    day = sql.expr("regexp_extract(started_at, '^[0-9]{4}-[0-9]{2}-[0-9]{2}', 0)")
    return base.table("runs").select(*AGE, "seed", number.alias("number"), day.alias("date"))


def numbered(base: Base) -> DataFrame:
    """All results, each with the ``number`` and the ``date`` of its run."""
    return base.table("results").join(numbers(base).select("path", "number", "date"), "path")


def _dropped(runs: DataFrame) -> DataFrame:
    """The problems of runs that were read more than once: all but one of each are left out.

    Logs with the same header are of the same run. If their contents differ, the one with the most
    that is broken is kept, and of these the one with the most results: so a copy that was made
    before the run had ended gives way to the whole log, and an embellished one to the true one.
    """
    best = [sql.desc("bad"), sql.desc("results"), sql.desc("complete"), sql.desc("content")]
    same = Window.partitionBy("run_id", "head").orderBy(*best, "path")
    is_copy = sql.expr("content = kept_content")
    found = runs.select(
        "*",
        sql.row_number().over(same).alias("place"),
        sql.first("path").over(same).alias("kept"),
        sql.first("content").over(same).alias("kept_content"),
    )
    what = sql.when(is_copy, "has the same content as ").otherwise("tells the same run unlike ")
    return found.where("place > 1").select(
        "path",
        sql.lit(0).cast("bigint").alias("line"),
        sql.when(is_copy, "duplicate").otherwise("conflict").alias("kind"),
        "run_id",
        sql.concat(what, "kept", sql.lit(": that is counted, and this is not")).alias("what"),
    )


def _shared_ids(runs: DataFrame) -> DataFrame:
    """The problems of logs of different runs with one id, as two may begin in the same second."""
    same = Window.partitionBy("run_id")
    first = sql.first("path").over(same.orderBy("path"))
    found = runs.where("origin = 'log'").select("*", first.alias("other"))
    what = sql.concat(
        sql.lit("is of another run than "), "other", sql.lit(", but has the same id: both count")
    )
    return found.where("path != other").select(
        "path",
        sql.lit(0).cast("bigint").alias("line"),
        sql.lit("same id").alias("kind"),
        "run_id",
        what.alias("what"),
    )
