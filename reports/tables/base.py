"""The rows that all tables start from: of every run once, from run logs and from campaigns."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from streamproof.reports.tables.campaigns import campaign_rows
from streamproof.reports.tables.reading import STAGED, base_table, staged_rows
from streamproof.reports.tables.sources import Sources

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["AGE", "Base"]

AGE = ("started_at", "run_id", "path")
"""The columns by which runs are put in order, the oldest first."""


class Base:
    """The rows of each kind, with what was read twice left out.

    Logs are read by the first table that needs them, and what was read is kept by the workers,
    on disk where it does not fit into memory.

    Args:
        spark: the session.
        sources: what is read.
    """

    def __init__(self, spark: SparkSession, sources: Sources) -> None:
        from pyspark import StorageLevel

        self._spark = spark
        self._sources = sources
        self._rows = staged_rows(spark, sources).persist(StorageLevel.MEMORY_AND_DISK)
        runs = [base_table(self._rows, "runs"), *self._of_campaigns("runs")]
        self._dropped = _dropped(_union(runs)).persist(StorageLevel.MEMORY_AND_DISK)

    def table(self, kind: str) -> DataFrame:
        """The rows of one kind, of every run once."""
        found = _union([base_table(self._rows, kind), *self._of_campaigns(kind)])
        if kind == "problems":
            return _union([found, self._dropped.select(*STAGED["problems"]), _shared_ids(self)])
        if kind == "requirements":
            # It is of no account which of two equal logs has described a requirement.
            return found
        left_out = self._dropped.where("is_dropped").select("path")
        return found.join(left_out, "path", "left_anti").select(*STAGED[kind])

    def events(self) -> DataFrame | None:
        """The events that campaigns have kept; ``None`` if there is no campaign."""
        from streamproof.reports.campaigns.tables import read_table

        found = [
            read_table(self._spark, Path(each), "events") for each in self._sources.campaigns
        ]
        return _union(found) if found else None

    def _of_campaigns(self, kind: str) -> list[DataFrame]:
        return [campaign_rows(self._spark, each, kind) for each in self._sources.campaigns]

    def close(self) -> None:
        """Let the workers forget what they have read."""
        self._dropped.unpersist()
        self._rows.unpersist()


def _union(frames: list[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other), frames)


def _dropped(runs: DataFrame) -> DataFrame:
    """The problems of runs that were read more than once: these are left out, but for one.

    Logs with the same header are of the same run. If their contents differ, the one with the most
    that is broken is kept, and of these the one with the most results: so a log that was copied
    before its run had ended gives way to the whole one, and one that was embellished to the true
    one.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 - this is what all of Spark's pages call it

    best = [F.desc("bad"), F.desc("results"), F.desc("complete"), F.desc("content"), F.asc("path")]
    same = Window.partitionBy("run_id", "head").orderBy(*best)
    found = runs.select(
        "*",
        F.row_number().over(same).alias("place"),
        F.first("path").over(same).alias("kept"),
        F.first("content").over(same).alias("kept_content"),
    ).where("place > 1")
    is_copy = F.col("content") == F.col("kept_content")
    return found.select(
        "path",
        F.lit(0).cast("bigint").alias("line"),
        F.when(is_copy, "duplicate").otherwise("conflict").alias("kind"),
        "run_id",
        F.when(is_copy, F.concat(F.lit("has the same content as "), "kept"))
        .otherwise(F.concat(F.lit("tells the same run otherwise than "), "kept"))
        .alias("what"),
        F.lit(True).alias("is_dropped"),  # noqa: FBT003
    )
