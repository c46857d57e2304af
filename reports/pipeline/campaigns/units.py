"""Units of work: the rows of a plan as a table that Spark makes and distributes."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from msgspec import Struct

from streamproof.reports.pipeline.campaigns.campaign_plan import Conditions, RowSeries
from streamproof.reports.pipeline.campaigns.campaign_tables import RowKind
from streamproof.sim.plan_space import EVERYTHING, PlanSpace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Unit", "frame", "row_id", "swarm_path", "swarm_text"]

LONG = 10_000
"""A longer series is made as a range, and not spread out from a single row."""


class Unit(Struct, frozen=True, kw_only=True):
    """One row of a plan; but for ``row`` and ``seed``, its attributes are those of ``RowSeries``.

    Attributes:
        row: its id: 32 hexadecimal digits that follow from all other columns.
        seed: determines every random decision; -1 in a scenario.
    """

    row: str
    kind: RowKind
    subject: str
    scenario: str
    defect: str
    guarantee: str
    settings: str
    seed: int

    @property
    def conditions(self) -> Conditions:
        """The settings that have no column of their own."""
        return msgspec.json.decode(self.settings, type=Conditions)

    @property
    def is_isolated(self) -> bool:
        """Whether the row runs foreign code, and so has a process of its own."""
        return self.kind == "verify" or bool(self.subject)


IDENTITY = tuple(each for each in Unit.__struct_fields__ if each != "row")
"""The columns that the id of a row follows from."""


def row_id(*values: Any) -> str:
    """The id of a row, from the values of its other columns."""
    return sha256("\n".join(map(str, values)).encode()).hexdigest()[:32]


def frame(spark: SparkSession, series: Iterable[RowSeries]) -> DataFrame:
    """The rows of these series, which share no row; the driver never holds all rows."""
    from pyspark.sql import functions as f

    long: list[RowSeries] = []
    short: list[RowSeries] = []
    for each in series:
        (short if each.end - each.first <= LONG else long).append(each)
    columns = [*RowSeries._fields[:-2], "seed"]
    parts = [_ranged(spark, each) for each in long]
    if short:
        # Spark takes a table of Arrow as it is, and needs Python workers for a list.
        spread = spark.createDataFrame(
            pa.Table.from_pylist([each._asdict() for each in short], _SERIES)
        )
        seeds = f.explode(f.sequence("first", f.col("end") - 1)).alias("seed")
        parts.append(spread.select(*columns[:-1], seeds))
    table = parts[0]
    for part in parts[1:]:
        table = table.unionByName(part)
    row = f.substring(f.sha2(f.concat_ws("\n", *IDENTITY), 256), 1, 32).alias("row")
    return table.select(row, *columns)


_SERIES = pa.schema(
    [(name, pa.int64() if name in {"first", "end"} else pa.string()) for name in RowSeries._fields]
)
"""The types of a table of series."""


def _ranged(spark: SparkSession, series: RowSeries) -> DataFrame:
    from pyspark.sql import functions as f

    same = [f.lit(value).alias(name) for name, value in series._asdict().items()]
    return spark.range(series.first, series.end).select(*same[:-2], f.col("id").alias("seed"))


def swarm_path(directory: Path, swarm: PlanSpace) -> Path | None:
    """The file of a campaign for ``streamproof explore --swarm``.

    Returns:
        ``None`` if worlds are drawn from the whole swarm, so that no file is needed.
    """
    if swarm == EVERYTHING:
        return None
    return directory / "swarms" / f"{row_id(swarm_text(swarm))[:12]}.toml"


def swarm_text(swarm: PlanSpace) -> str:
    """The swarm as TOML; its values are written as in JSON."""
    table = msgspec.to_builtins(swarm)
    flat = {name: value for name, value in table.items() if isinstance(value, list)}
    lines = [f"{name} = {json.dumps(value)}" for name, value in flat.items()]
    for name, options in table.items():
        if isinstance(options, dict):
            lines += [
                f"[{name}]",
                *(f"{key} = {json.dumps(each)}" for key, each in options.items()),
            ]
    return "\n".join([*lines, ""])
