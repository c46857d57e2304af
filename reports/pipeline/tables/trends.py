"""Subjects over versions and days, changes between two sets of runs, and flaky results."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from streamproof.reports.pipeline.tables.base_rows import Base, newest, numbered, numbers, union
from streamproof.reports.pipeline.tables.matrix import make_cells
from streamproof.reports.pipeline.tables.statuses import combined, counts, number_of

__all__ = ["make_difference", "make_flaky", "make_trends"]


def make_trends(base: Base) -> DataFrame:
    """The combined statuses of each subject by version, and by day."""
    subjects = base.table("subjects").join(numbers(base).select("path", "date"), "path")
    by_version = _trend(subjects, make_cells(base), "version")
    of_day = numbered(base).groupBy("subject", "guarantee", "spec", "date", "requirement")
    by_date = _trend(subjects, of_day.agg(combined("status").alias("combined")), "date")
    return union([by_version, by_date])


def _trend(subjects: DataFrame, statuses: DataFrame, by: str) -> DataFrame:
    keys = ["subject", "guarantee", "spec", by]
    tallies = statuses.groupBy(*keys).agg(
        number_of("combined NOT IN ('unsupported', 'untested')").alias("asked"),
        *counts("combined"),
    )
    runs = subjects.groupBy(*keys).agg(
        sql.count("*").alias("runs"), sql.min("started_at").alias("first_at")
    )
    share = sql.expr("if(asked = 0, 0D, passed / asked)")
    found = runs.join(tallies, keys, "left").fillna(0).withColumn("share", share)
    return found.withColumnRenamed(by, "point").withColumn("by", sql.lit(by))


def make_difference(baseline: Base, current: Base) -> DataFrame:
    """Every requirement whose status changed between the newest versions of both sides."""
    keys = ["subject", "guarantee", "spec", "requirement"]
    before, after = (_newest_version(base) for base in (baseline, current))
    columns = ("status", "version", "area", "level", "core")
    both = before.select(*keys, sql.struct(*columns).alias("old")).join(
        after.select(*keys, sql.struct(*columns).alias("new")), keys, "full"
    )
    told = [sql.coalesce(f"new.{each}", f"old.{each}").alias(each) for each in columns[2:]]
    return both.select(
        *keys,
        *told,
        sql.expr(_CHANGE).alias("change"),
        *[
            sql.coalesce(f"{side}.{column}", sql.lit("")).alias(name)
            for side, column, name in (
                ("old", "status", "before"),
                ("new", "status", "after"),
                ("old", "version", "version_before"),
                ("new", "version", "version_after"),
            )
        ],
    ).where("before != after")


_CHANGE = """
    CASE WHEN old IS NULL THEN 'added' WHEN new IS NULL THEN 'removed'
    WHEN new.status = 'fail' THEN 'broken'
    WHEN new.status = 'pass' AND old.status IN ('fail', 'known') THEN 'fixed'
    ELSE 'changed' END
"""
"""A requirement that was broken and is skipped now is not fixed."""


def _newest_version(base: Base) -> DataFrame:
    """The combined status of each requirement in the version that was tested last."""
    keys = ["subject", "guarantee", "spec"]
    versions = base.table("subjects").groupBy(*keys).agg(newest("version").alias("last"))
    versions = versions.select(*keys, "last.version")
    statuses = make_cells(base).withColumnRenamed("combined", "status")
    return statuses.join(versions, [*keys, "version"], "left_semi")


def make_flaky(base: Base) -> DataFrame:
    """Requirements that held in some runs and were broken in others with the same settings."""
    cells = make_cells(base).where("passed > 0 AND failed + known > 0")
    found = cells.withColumns({"held": sql.col("passed"), "broken": sql.expr("failed + known")})
    for what in ("held", "broken"):
        newest_run = numbers(base).selectExpr(
            f"number AS {what}_number", f"run_id AS {what}_run", f"seed AS {what}_seed"
        )
        found = found.join(newest_run, f"{what}_number")
    return found
