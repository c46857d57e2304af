"""How subjects do over versions and days, what changed between two sets of runs, what is flaky."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from streamproof.reports.tables.base import Base, newest, union
from streamproof.reports.tables.matrix import make_matrix
from streamproof.reports.tables.statuses import TRIED, combined, counts, number_of

__all__ = ["make_difference", "make_flaky", "make_trends"]

_DAY = "regexp_extract(started_at, '^[0-9]{4}-[0-9]{2}-[0-9]{2}', 0)"


def make_trends(base: Base) -> DataFrame:
    """The combined statuses of each subject by version, and by day."""
    day = sql.expr(_DAY)
    subjects = base.table("subjects").withColumn("date", day)
    results = base.table("results").withColumn("date", day)
    by_version = _trend(subjects, make_matrix(base), "version")
    of_day = results.groupBy("subject", "guarantee", "date", "requirement")
    by_date = _trend(subjects, of_day.agg(combined("status").alias("combined")), "date")
    return union([by_version, by_date])


def _trend(subjects: DataFrame, statuses: DataFrame, by: str) -> DataFrame:
    keys = ["subject", "guarantee", by]
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
    """Every requirement that is not as it was, by the newest version of each side."""
    keys = ["subject", "guarantee", "requirement"]
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
"""What is skipped now, and was broken, is not fixed."""


def _newest_version(base: Base) -> DataFrame:
    """The combined status of each requirement in the version that was tested last."""
    keys = ["subject", "guarantee"]
    versions = base.table("subjects").groupBy(*keys).agg(newest("version").alias("last"))
    versions = versions.select(*keys, "last.version")
    statuses = make_matrix(base).withColumnRenamed("combined", "status")
    return statuses.join(versions, [*keys, "version"], "left_semi")


def make_flaky(base: Base) -> DataFrame:
    """What held in some runs, and was broken in others that asked for the same."""
    cell = ["subject", "version", "guarantee", "requirement"]
    # The cells tell at once where there is nothing to look for, which is nearly everywhere.
    suspects = make_matrix(base).where("passed > 0 AND failed + known > 0").select(*cell)
    return (
        base.table("results")
        .where(TRIED)
        .join(suspects, cell, "left_semi")
        .groupBy(*cell, "spec")
        .agg(
            number_of("status = 'pass'").alias("held"),
            number_of("status != 'pass'").alias("broken"),
            _newest_with("status = 'pass'").alias("good"),
            _newest_with("status != 'pass'").alias("bad"),
        )
        .where("held > 0 AND broken > 0")
        .select(
            "*",
            sql.col("good.run_id").alias("held_run"),
            sql.col("bad.run_id").alias("broken_run"),
            sql.col("good.seed").alias("held_seed"),
            sql.col("bad.seed").alias("broken_seed"),
        )
    )


def _newest_with(condition: str) -> Column:
    return newest("run_id", "seed", before=sql.expr(condition))
