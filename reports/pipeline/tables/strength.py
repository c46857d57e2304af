"""The evidence for a requirement over all runs, and the estimate from kills.

A run of a crash requirement kills until it finds a violation. So among the crashes of several runs,
each run that found the requirement broken counts as one crash with a fault.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from streamproof.reports.pipeline.tables.base_rows import Base
from streamproof.reports.pipeline.tables.matrix import make_cells

__all__ = ["make_strength"]

_Z = 1.959963984540054
"""The quantile of the normal distribution for an interval of 95 %."""


_DIGITS = 12
"""Roots and powers differ in the 16th digit, by engine and processor; the same runs shall not."""


def make_strength(base: Base) -> DataFrame:
    """The evidence for each requirement of each subject, over all runs that tried it."""
    tried = make_cells(base).where("tried > 0").withColumn("runs", sql.col("tried"))
    ends = {"kill_share": _share("caught"), "kill_low": _low(), "kill_high": _high()}
    return tried.withColumns({name: sql.round(end, _DIGITS) for name, end in ends.items()})


def _share(count: str) -> Column:
    return sql.expr(f"if(crashes = 0, 0D, {count} / crashes)")


def _low() -> Column:
    """The lower end of Wilson's interval; 0 where no crash has shown a fault."""
    return sql.when(sql.expr("caught = 0"), 0.0).otherwise(_wilson("-"))


def _high() -> Column:
    """The upper end of Wilson's interval; where no crash has shown a fault, the exact bound.

    If a kill showed a fault with a greater probability, that many crashes without a fault would
    occur in less than 5 % of all cases.
    """
    nothing = sql.expr("1D - pow(0.05D, 1D / crashes)")
    return (
        sql.when(sql.expr("crashes = 0"), 1.0)
        .when(sql.expr("caught = 0"), nothing)
        .otherwise(_wilson("+"))
    )


def _wilson(sign: str) -> Column:
    """An end of Wilson's interval for ``caught`` of ``crashes``."""
    n, p, z2 = "cast(crashes AS double)", "(caught / crashes)", f"{_Z**2}D"
    spread = f"{_Z}D * sqrt({p} * (1D - {p}) / {n} + {z2} / (4D * {n} * {n}))"
    return sql.expr(f"({p} + {z2} / (2D * {n}) {sign} {spread}) / (1D + {z2} / {n})")
