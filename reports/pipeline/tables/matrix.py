"""Requirements by subjects, versions and guarantees, and the verdicts on these."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from streamproof.conformance.verdict_rule import LEVELS, STATUS_ORDER
from streamproof.reports.pipeline.tables.base_rows import AREA, Base, newest, numbered, numbers
from streamproof.reports.pipeline.tables.columns import COUNTED
from streamproof.reports.pipeline.tables.statuses import (
    allowed,
    by_rank,
    counts,
    evidence,
    number_of,
    rank,
    worse,
    worst,
)

__all__ = ["make_cells", "make_matrix", "make_runs", "make_subjects", "make_verdicts"]

_WHO = ("subject", "version", "guarantee", "spec")
_CELL = (*_WHO, "requirement")

_NUMBERS = 2**40
"""More than the number of any run, so that two more values fit beside one into 64 bits."""


def make_subjects(base: Base) -> DataFrame:
    """Each subject in each run, with a verdict that is no better than its results allow."""
    return base.kept("subjects", _subjects)


def _subjects(base: Base) -> DataFrame:
    best = base.table("results").groupBy("path", "subject").agg(allowed("status").alias("best"))
    # Worlds report only broken promises, so their verdict cannot be checked against statuses.
    found = sql.expr("CASE WHEN NOT judged THEN stated ELSE coalesce(best, 'error') END")
    verdict = sql.when(sql.expr("stated = ''"), "incomplete").otherwise(worse("stated", "found"))
    return (
        base.table("subjects")
        .join(best, ["path", "subject"], "left")
        .withColumn("found", found)
        .withColumn("verdict", verdict)
    )


def make_runs(base: Base) -> DataFrame:
    """Each run, with a verdict that is no better than those on its subjects."""
    subjects = make_subjects(base).groupBy("path").agg(worst("verdict").alias("found"))
    verdict = sql.when(~sql.col("complete"), "incomplete").otherwise(worse("stated", "found"))
    nobody = sql.expr("coalesce(found, if(origin = 'log', 'error', stated))")
    return (
        base.table("runs")
        .join(subjects, "path", "left")
        .withColumn("found", nobody)
        .withColumn("verdict", verdict)
    )


def make_matrix(base: Base) -> DataFrame:
    """The combined and the newest status of each requirement of each subject."""
    last = numbers(base).selectExpr(
        "number AS last_number", "run_id AS latest_run", "started_at AS latest_at"
    )
    # Most results have no reason. The others are joined only to the cells that show them.
    shown = ["subject", "requirement", "worst_number"]
    reasons = numbered(base).where("reason != ''").withColumnRenamed("number", "worst_number")
    found = make_cells(base).join(last, "last_number")
    return found.join(reasons.select(*shown, "reason"), shown, "left").fillna("", "reason")


def make_cells(base: Base) -> DataFrame:
    """The base of the matrix, the evidence and more, made in one pass over all results."""
    return base.kept("cells", _cells)


def _cells(base: Base) -> DataFrame:
    """Aggregates only whole numbers, so that Spark need not sort the results by cell.

    Several values of a result are packed into one number, the most important value in front. The
    greatest number is that of the result that counts.
    """
    weight = len(STATUS_ORDER) - rank("status", STATUS_ORDER)
    is_decided = sql.expr("cast(status != 'no result' AS bigint)")
    run = is_decided * _NUMBERS + sql.col("number")
    says = (rank("status", STATUS_ORDER) * 4 + rank("level", LEVELS)) * 2 + sql.expr("int(core)")
    found = (
        numbered(base)
        .withColumn("last", run * 128 + says)
        .withColumn("worst", weight * _NUMBERS + sql.col("number"))
        # Then all results of a cell are in one partition, and seeds can be counted there.
        .repartition(*_CELL)
        .groupBy(*_CELL)
        .agg(
            sql.max("last").alias("last"),
            sql.max("worst").alias("worst"),
            _newest_with("status = 'pass'").alias("held_number"),
            _newest_with("status IN ('fail', 'known')").alias("broken_number"),
            number_of("status != 'no result'").alias("runs"),
            *counts("status"),
            *evidence(),
        )
    )
    return found.select(
        "*",
        sql.expr(AREA).alias("area"),
        by_rank(sql.expr("last DIV 2 % 4"), LEVELS).alias("level"),
        sql.expr("last % 2 = 1").alias("core"),
        by_rank(sql.expr("last DIV 8 % 16"), STATUS_ORDER).alias("latest"),
        sql.expr(f"last DIV 128 % {_NUMBERS}").alias("last_number"),
        by_rank(sql.expr(f"{len(STATUS_ORDER)} - worst DIV {_NUMBERS}"), STATUS_ORDER).alias(
            "combined"
        ),
        sql.expr(f"worst % {_NUMBERS}").alias("worst_number"),
    )


def _newest_with(condition: str) -> Column:
    """The number of the newest run with such a result; null if there is none."""
    return sql.max(sql.expr(f"if({condition}, number, NULL)"))


def make_verdicts(base: Base) -> DataFrame:
    """The verdict on each subject, over all runs and by the newest results."""
    broken = sql.expr(
        "collect_list(requirement) FILTER (WHERE combined = 'fail' AND level = 'MUST')"
    )
    found = (
        make_cells(base)
        .select(*_WHO, "requirement", "combined", "latest", "level", "core")
        .groupBy(*_WHO)
        .agg(
            allowed("combined").alias("all_allow"),
            allowed("latest").alias("latest_allow"),
            sql.array_join(sql.array_sort(broken), ", ").alias("broken"),
            sql.count("*").alias("requirements"),
            *counts("combined"),
        )
    )
    told = (
        make_subjects(base)
        .join(base.table("runs").select("path", "seed", "complete"), "path")
        .groupBy(*_WHO)
        .agg(
            worst("if(complete, verdict, NULL)").alias("said"),
            newest("verdict")["verdict"].alias("newest"),
            sql.min("started_at").alias("first_at"),
            sql.max("started_at").alias("latest_at"),
            sql.count("*").alias("runs"),
            number_of("NOT complete").alias("incomplete"),
            sql.count_distinct("seed").alias("seeds"),
        )
    )
    nothing: dict[str, bool | float | int | str] = {
        "all_allow": "partial",
        "latest_allow": "partial",
        "broken": "",
        "requirements": 0,
        **dict.fromkeys(COUNTED.values(), 0),
        "said": "incomplete",
    }
    return (
        told.join(found, [*_WHO], "left")
        .fillna(nothing)
        .withColumn("combined", worse("all_allow", "said"))
        .withColumn("latest", worse("latest_allow", "newest"))
    )
