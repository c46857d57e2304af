"""Requirements by subjects, versions and guarantees, and the verdicts on these."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from streamproof.reports.tables.base import Base, newest
from streamproof.reports.tables.columns import COUNTED
from streamproof.reports.tables.statuses import (
    allowed,
    combined,
    counts,
    evidence,
    number_of,
    severity,
    worse,
    worst,
)

__all__ = ["make_cells", "make_matrix", "make_runs", "make_subjects", "make_verdicts"]

_WHO = ("subject", "version", "guarantee")


def make_subjects(base: Base) -> DataFrame:
    """Each subject in each run, with a verdict that is no better than its results allow."""
    return base.kept("subjects", _subjects)


def _subjects(base: Base) -> DataFrame:
    best = base.table("results").groupBy("path", "subject").agg(allowed("status").alias("best"))
    # Worlds say what they found broken and no more: there is nothing to see their verdict by.
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
    """The combined status and the newest of each requirement of each subject."""
    return make_cells(base)


def make_cells(base: Base) -> DataFrame:
    """The matrix, with the evidence for each of its cells: both take one look at all results."""
    return base.kept("cells", _cells)


def _cells(base: Base) -> DataFrame:
    about = ("status", "area", "level", "core", "run_id", "started_at")
    found = (
        base.table("results")
        .groupBy(*_WHO, "requirement")
        .agg(
            combined("status").alias("combined"),
            newest(*about, before=sql.expr("status != 'no result'")).alias("last"),
            newest("reason", before=severity("status"))["reason"].alias("reason"),
            number_of("status != 'no result'").alias("runs"),
            *counts("status"),
            *evidence(),
        )
    )
    last = {"latest": "status", "latest_run": "run_id", "latest_at": "started_at"}
    return found.select(
        "*",
        "last.area",
        "last.level",
        "last.core",
        *[sql.col(f"last.{name}").alias(column) for column, name in last.items()],
    )


def make_verdicts(base: Base) -> DataFrame:
    """The verdict on each subject, over all runs and by the newest results."""
    broken = sql.expr(
        "collect_list(requirement) FILTER (WHERE combined = 'fail' AND level = 'MUST')"
    )
    found = (
        make_matrix(base)
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
