"""The rows that all tables start from, with every run of logs and campaigns exactly once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, reduce
from pathlib import Path
from threading import RLock

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
    """The rows of each kind, without duplicate runs.

    The first table that needs the logs reads them. The workers keep the rows, on their disks if
    they do not fit into memory.

    Args:
        spark: the session.
        sources: the run logs and campaigns.
    """

    def __init__(self, spark: SparkSession, sources: Sources) -> None:
        self._spark = spark
        self._logs = sources.logs
        told = {each: list(campaign_problems(each)) for each in sources.campaigns}
        # If the manifest cannot be read, nothing of the campaign can.
        manifests = {str(Path(each, CAMPAIGN_FILE)) for each in sources.campaigns}
        self._campaigns = [
            each for each, rows in told.items() if not any(row[0] in manifests for row in rows)
        ]
        self._told = [row for rows in told.values() for row in rows]
        self._rows = staged_rows(spark, sources).persist(StorageLevel.MEMORY_AND_DISK)
        self._dropped = _dropped(self._all("runs")).persist(StorageLevel.MEMORY_AND_DISK)
        self._kept: dict[str, DataFrame] = {}
        # Several tables may be made side by side.
        self._lock = RLock()

    @cached_property
    def _has_copies(self) -> bool:
        """Whether a run was read twice; usually none was, and no row need be left out."""
        return not self._dropped.isEmpty()

    def table(self, kind: str) -> DataFrame:
        """The rows of one kind, of every run once."""
        found = self._all(kind)
        if kind == "problems":
            return union([found, self._dropped, _shared_ids(self.table("runs"))])
        # Of several copies of a log, any may describe the requirements.
        return found if kind == "requirements" else self._once(found)

    def kept(self, name: str, make: Callable[[Base], DataFrame]) -> DataFrame:
        """A table that others are made from; it is made once, and kept like the rows.

        Args:
            name: the name of the table.
            make: makes the table from these rows.
        """
        with self._lock:
            if name not in self._kept:
                self._kept[name] = make(self).persist(StorageLevel.MEMORY_AND_DISK)
            return self._kept[name]

    def events(self) -> DataFrame:
        """The events that campaigns kept, with the ``path`` of their run; logs have no events."""
        found = [campaign_events(self._spark, each) for each in self._campaigns]
        if not found:
            return self._spark.createDataFrame([], EVENTS)
        return self._once(union(found))

    def close(self) -> None:
        """Let the workers release the rows."""
        for frame in (*self._kept.values(), self._dropped, self._rows):
            frame.unpersist()

    def _once(self, found: DataFrame) -> DataFrame:
        """Some rows, without those of duplicate runs."""
        with self._lock:
            has_copies = self._has_copies
        if not has_copies:
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
    """The rows of all these frames, of which there must be at least one."""
    return reduce(DataFrame.unionByName, frames)


def newest(*columns: str, before: Column | None = None) -> Column:
    """The values of some columns in the row of the newest run of a group.

    Args:
        columns: their names.
        before: an expression that counts before the age; the greatest value wins.
    """
    first = [] if before is None else [before]
    return sql.max_by(sql.struct(*columns), sql.struct(*first, *AGE))


def numbers(base: Base) -> DataFrame:
    """The number of each run, from 1 for the oldest: whole numbers are compared faster than ages.

    There is one number for each run, so they fit into the memory of a worker.
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
    """The problems of duplicate runs: all but one copy of each run are left out.

    Logs with the same header are of the same run. If their contents differ, the log with the most
    broken promises is kept, and among several of these the one with the most results. So the
    complete log wins over a copy made during the run, and the true log over an embellished one.
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
    """The problems of different runs with the same id, which may begin in the same second."""
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
