"""The outcomes of simulated worlds and scenarios, from the tables of campaigns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from streamproof.reports.pipeline.campaigns.campaign_tables import TableName, read_table
from streamproof.reports.pipeline.site.site_data import WorldFailure, WorldTotals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["MOST_WAYS", "read_world_failures", "read_worlds", "rows_with_defects"]

MOST_WAYS = 1000
"""How many ways in which worlds fail are read, and how many reasons for missing answers: those that
most worlds show."""

_Row = TypeVar("_Row")

_ASKED = ("kind", "subject", "guarantee", "defect")
_WAY = ("kind", "subject", "scenario", "defect", "requirement", "shape")


def read_worlds(spark: SparkSession, campaigns: Sequence[str]) -> tuple[WorldTotals, ...]:
    """How many worlds and scenarios of each kind there were, and their outcomes.

    Args:
        spark: does the work.
        campaigns: their directories.
    """
    from pyspark.sql import functions as sql

    if not campaigns:
        return ()
    counts = [
        sql.count_if(sql.col("outcome") == outcome).alias(name)
        for name, outcome in (("held", "pass"), ("broken", "fail"), ("silent", "error"))
    ]
    found = _runs(spark, campaigns).groupBy(*_ASKED)
    table = found.agg(sql.count("*").alias("count"), *counts, sql.sum("events").alias("events"))
    return _rows(table.orderBy(*_ASKED), WorldTotals)


def read_world_failures(spark: SparkSession, campaigns: Sequence[str]) -> tuple[WorldFailure, ...]:
    """Each way in which worlds and scenarios failed, with the shortest world that shows it.

    A row that raised an error or took too long is a failure without a requirement.
    """
    from pyspark.sql import functions as sql

    if not campaigns:
        return ()
    runs = _runs(spark, campaigns)
    found = _union(spark, campaigns, "failures").where("known = ''")
    mine = runs.select("directory", "row", "scenario", "defect", "topology", "events")
    broken = found.join(mine, ["directory", "row"]).withColumn("outcome", sql.lit("fail"))
    why = sql.expr("if(problem = '', summary, problem)").alias("found")
    nothing = [sql.lit("").alias(name) for name in ("requirement", "shape", "title", "expected")]
    no_event = [sql.lit(-1).cast("bigint").alias(name) for name in ("sequence", "time")]
    silent = runs.where("outcome = 'error'").select("*", why, *nothing, *no_event)
    told = (
        *("outcome", *_WAY, "found", "title", "expected", "seed", "guarantee", "topology"),
        *("events", "sequence", "time", "command", "row", "directory"),
    )
    every = broken.select(*told).unionByName(silent.select(*told))
    # Rows without an answer are told apart by their reason; worlds by what they break.
    key = ("outcome", *_WAY, sql.expr("if(outcome = 'error', found, '')").alias("why"))
    first = sql.min_by(
        sql.struct(*told), sql.struct("events", "seed", "row", "directory", "sequence", "found")
    )
    ways = every.groupBy(*key).agg(
        first.alias("first"), sql.count_distinct("directory", "row").alias("worlds")
    )
    order = (sql.desc("worlds"), "outcome", *_WAY, "found")
    return _rows(ways.select("first.*", "worlds").orderBy(*order).limit(MOST_WAYS), WorldFailure)


def rows_with_defects(spark: SparkSession, campaigns: Sequence[str]) -> DataFrame | None:
    """The ``path``, as in the tables, of rows with a deliberate mistake.

    The failures of such a row say nothing about a subject.
    """
    from pyspark.sql import functions as sql

    if not campaigns:
        return None
    path = sql.concat_ws("/", "directory", "row").alias("path")
    return _runs(spark, campaigns).where("defect != ''").select(path)


def _runs(spark: SparkSession, campaigns: Sequence[str]) -> DataFrame:
    """The worlds and scenarios of all campaigns; two copies of one count once."""
    found = _union(spark, campaigns, "runs").where("kind != 'verify'")
    return found.dropDuplicates(["row", "started_at"])


def _union(spark: SparkSession, campaigns: Sequence[str], name: TableName) -> DataFrame:
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as sql

    found = [
        read_table(spark, Path(each), name).withColumn("directory", sql.lit(each))
        for each in campaigns
    ]
    return reduce(DataFrame.unionByName, found)


def _rows(table: DataFrame, kind: type[_Row]) -> tuple[_Row, ...]:
    return tuple(msgspec.convert(record, kind) for record in table.toArrow().to_pylist())
