"""How statuses of several runs become one, and statuses of many requirements a verdict.

These are the rules of :mod:`streamproof.conformance.verdict_rule` as expressions of Spark. A test
holds them against those functions.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as sql

from streamproof.conformance.verdict_rule import OUTCOME_ORDER, STATUS_ORDER
from streamproof.reports.pipeline.tables.columns import COUNTED
from streamproof.reports.wording import STRENGTHS

__all__ = [
    "TRIED",
    "allowed",
    "by_rank",
    "combined",
    "counts",
    "evidence",
    "number_of",
    "rank",
    "worse",
    "worst",
]

TRIED = "status IN ('pass', 'known', 'fail')"
"""Whether a requirement was put to the test, and gave an answer."""


def combined(status: str) -> Column:
    """The combined status of a group: the status that outweighs all others in a column."""
    return by_rank(sql.min(rank(status, STATUS_ORDER)), STATUS_ORDER)


def worst(verdict: str) -> Column:
    """The worst verdict of a group."""
    return by_rank(sql.min(rank(verdict, OUTCOME_ORDER)), OUTCOME_ORDER)


def worse(one: str, other: str) -> Column:
    """The worse of two verdicts."""
    ranks = (rank(each, OUTCOME_ORDER) for each in (one, other))
    return by_rank(sql.least(*ranks), OUTCOME_ORDER)


def counts(status: str) -> list[Column]:
    """How many rows of a group have each status, in the columns that all tables share."""
    return [number_of(f"{status} = '{each}'").alias(name) for each, name in COUNTED.items()]


def number_of(condition: str) -> Column:
    """For how many rows of a group a condition in SQL holds."""
    return sql.count_if(sql.expr(condition))


def allowed(status: str) -> Column:
    """``best_verdict`` over a group of rows, which have the columns ``level`` and ``core``."""
    broken = number_of(f"{status} = 'fail' AND level = 'MUST'")
    silent = number_of(f"{status} = 'error'")
    short = number_of(f"{status} IN ('fail', 'known', 'no result') OR {status} = 'skip' AND core")
    held = number_of(f"{status} = 'pass'")
    return (
        sql.when(broken > 0, "failure")
        .when(silent > 0, "error")
        .when((short > 0) | (held == 0), "partial")
        .otherwise("success")
    )


def evidence() -> list[Column]:
    """The evidence of a group of results, from those that tried the requirement."""
    crashes = ("crashes", "boundary", "line", "syscall", "other", "wiped")
    sums = ("examples", "operations", *crashes)
    strengths = [*STRENGTHS, ""]
    best = sql.min(rank(f"if({TRIED}, strength, NULL)", strengths))
    return [
        by_rank(best, strengths).alias("strength"),
        number_of(TRIED).alias("tried"),
        sql.count_distinct(sql.expr(f"if({TRIED}, seed, NULL)")).alias("seeds"),
        *[sql.sum(sql.expr(f"if({TRIED}, {name}, 0L)")).alias(name) for name in sums],
        sql.max(sql.expr(f"if({TRIED}, mutants, 0L)")).alias("mutants"),
        number_of(f"{TRIED} AND status != 'pass' AND crashes > 0").alias("caught"),
    ]


def rank(column: str, order: Iterable[str]) -> Column:
    """The place of a value in an order, from 1; an unknown value counts as the first."""
    place = sql.array_position(sql.array(*map(sql.lit, order)), sql.expr(column))
    return sql.when(place == 0, 1).otherwise(place)


def by_rank(place: Column, order: Iterable[str]) -> Column:
    """The value at a place in an order, from 1."""
    return sql.get(sql.array(*map(sql.lit, order)), place - 1)
