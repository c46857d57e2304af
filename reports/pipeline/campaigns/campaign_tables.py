"""The tables of a campaign: the results of each row of its plan, in Parquet.

.. code-block:: text

    DIR/campaign.json     the plan, and the versions of streamproof, the world and the schema
    DIR/runs/             one row for each finished row of the plan; a file here finishes it
    DIR/results/          the result of each requirement of a `verify` row
    DIR/failures/         ways in which a promise is broken
    DIR/events/           the events of worlds whose events are kept
    DIR/logs/ROW/         the run log of a `verify` row, and its saved failures

Rows are written in chunks: one file for each table that the chunk has rows for, all with the same
name. The file in ``runs`` comes last. A file of another table counts only if ``runs`` has a file of
the same name; :func:`read_table` leaves out all other files.
"""

from __future__ import annotations

import types
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

import pyarrow as pa
from msgspec import Struct

from streamproof.errors import UsageError
from streamproof.sim.trace_files import SCHEMA as EVENTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "SCHEMA_VERSION",
    "TABLES",
    "FailureRow",
    "ResultRow",
    "RowKind",
    "RowOutcome",
    "RunRow",
    "TableName",
    "arrow_schema",
    "finished_rows",
    "is_campaign",
    "read_table",
]

SCHEMA_VERSION = 1
"""Raised when a table changes in a way that an older reader would misread."""

MANIFEST = "campaign.json"
"""The file that describes the campaign in a directory."""

RowKind = Literal["simulate", "scenario", "verify"]

RowOutcome = Literal["pass", "partial", "fail", "error"]
"""The outcome of a row of the plan.

``pass``: every promise held, or a scenario ended as expected. ``partial``: the verdict of
``verify`` is partial. ``fail``: a promise is broken, or a scenario ended unexpectedly. ``error``:
the row gave no answer, because it raised an error, died or took too long.
"""

TableName = Literal["runs", "results", "failures", "events"]


class RunRow(Struct, frozen=True, kw_only=True):
    """The result of one row of the plan.

    Attributes:
        row: the id of the row: 32 hexadecimal digits that follow from its settings.
        subject: the store; empty for model stores.
        scenario: ``NAME@VARIANT``; empty for other kinds.
        defect: the mistake of the runtime; empty if none.
        settings: the settings without a column of their own, as a JSON object.
        guarantee: the guarantee that the row ran under; empty if it did not get that far.
        seed: determines every random decision; -1 in a scenario.
        problem: the reason for a missing answer; empty if there is an answer.
        topology: of the simulated application; empty if there is none.
        digest: follows from all events of a simulated world.
        events: the number of events in the world.
        marks: how often each interesting situation came about.
        verdict: of ``verify``; empty otherwise.
        summary: the verdict in one sentence.
        package: the distribution that the subject comes from, if known.
        version: the version of that distribution.
        description: the subject in one line.
        capabilities: what the subject claims, as a JSON object.
        profile: of ``verify``; empty otherwise.
        spec: of ``verify``; empty otherwise.
        run_id: of the run log; empty without one.
        started_at: UTC, ISO 8601.
        duration_s: the duration in seconds.
        command: the command that shows the same result.
        tool_version: of streamproof.
    """

    row: str
    kind: RowKind
    subject: str = ""
    scenario: str = ""
    defect: str = ""
    settings: str = "{}"
    guarantee: str = ""
    seed: int = -1
    outcome: RowOutcome
    problem: str = ""
    topology: str = ""
    digest: str = ""
    events: int = 0
    marks: dict[str, int] = {}
    verdict: str = ""
    summary: str = ""
    package: str = ""
    version: str = ""
    description: str = ""
    capabilities: str = "{}"
    profile: str = ""
    spec: str = ""
    run_id: str = ""
    started_at: str = ""
    duration_s: float = 0.0
    command: str = ""
    tool_version: str = ""


class ResultRow(Struct, frozen=True, kw_only=True):
    """The result of one requirement in a ``verify`` row.

    From ``requirement`` on, the attributes are those of ``conformance.results.RequirementResult``.

    Attributes:
        row: the id of the row of the plan; ``runs`` has the rest of it.
    """

    row: str
    run_id: str
    started_at: str
    seed: int
    subject: str
    version: str
    guarantee: str
    spec: str
    profile: str
    requirement: str
    title: str
    promise: str
    source: str
    level: str
    core: bool
    status: str
    reason: str = ""
    checks: list[str] = []
    examples: int = 0
    operations: int = 0
    crash_points: dict[str, int] = {}
    wiped: int = 0
    duration_s: float = 0.0
    strength: str = ""
    mutants: int = 0


class FailureRow(Struct, frozen=True, kw_only=True):
    """One way in which a row of the plan found a promise broken.

    Attributes:
        row: the id of the row of the plan; ``runs`` has the rest of it.
        requirement: its id; empty if a scenario ended unexpectedly.
        shape: the name of the invariant, or the name that the check gives this way to break the
            promise.
        check: the check that found it; empty in a simulated world.
        sequence: the event by which it was found; -1 at the end of a world, or if there is none.
        time: when that was, in virtual milliseconds; -1 if there is no such event.
        tried: what the check did.
        program: the smallest program that shows it: runnable Python; empty if there is none.
        expected: what the promise demands.
        found: what happened instead.
        command: the command that shows the same failure.
        saved: the file that repeats only this failure, from the directory of the campaign; empty
            if none.
        known: the reason why a known failure does not count; empty otherwise.
    """

    row: str
    kind: RowKind
    subject: str
    version: str = ""
    guarantee: str = ""
    seed: int = -1
    requirement: str
    shape: str
    check: str = ""
    level: str = ""
    core: bool = False
    title: str = ""
    promise: str = ""
    source: str = ""
    sequence: int = -1
    time: int = -1
    tried: str = ""
    program: str = ""
    expected: str = ""
    found: str
    command: str
    saved: str = ""
    known: str = ""


@cache
def arrow_schema(struct: type[Struct]) -> pa.Schema:
    """The columns for the fields of a record; none of them is ever null."""
    hints = get_type_hints(struct)
    return pa.schema(
        [pa.field(each, _type(hints[each]), nullable=False) for each in struct.__struct_fields__]
    )


def _type(hint: Any) -> Any:
    """The Arrow type for a type of Python."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return pa.string()
    if origin is list:
        return pa.list_(pa.field("element", _type(inner[0]), nullable=False))
    if origin is dict:
        return pa.map_(_type(inner[0]), pa.field("value", _type(inner[1]), nullable=False))
    return _PLAIN[hint]


_PLAIN = types.MappingProxyType(
    {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
)

TABLES: dict[TableName, pa.Schema] = {
    "runs": arrow_schema(RunRow),
    "results": arrow_schema(ResultRow),
    "failures": arrow_schema(FailureRow),
    "events": EVENTS,
}
"""The columns of each table; the column ``run`` of events is the id of the row of the plan."""


def is_campaign(directory: Path) -> bool:
    """Whether a directory has a campaign."""
    return (directory / MANIFEST).is_file()


def read_table(spark: SparkSession, directory: Path, name: TableName) -> DataFrame:
    """A table of a campaign, with each finished row of the plan exactly once.

    Raises:
        UsageError: the directory has no campaign.
    """
    if not is_campaign(directory):
        raise UsageError(
            f"{directory} is no directory of a campaign: it has no {MANIFEST}. `streamproof "
            "campaign PLAN --out DIR` makes one."
        )
    counted = _files(spark, directory, "runs").groupBy("row").agg({"file": "min"})
    counted = counted.withColumnsRenamed({"row": "counted", "min(file)": "counted_file"})
    table = _files(spark, directory, name)
    row = table["run" if name == "events" else "row"]
    both = (row == counted["counted"]) & (table["file"] == counted["counted_file"])
    return table.join(counted, both, "left_semi").drop("file")


def finished_rows(spark: SparkSession, directory: Path) -> DataFrame:
    """The ids of the finished rows; a row that is in two files is here twice.

    Opening a file costs Spark more than reading it, so each file is opened once.
    """
    return _files(spark, directory, "runs").select("row")


def _files(spark: SparkSession, directory: Path, name: TableName) -> DataFrame:
    """All rows of a table, with the file that each is in."""
    from pyspark.sql.functions import col
    from pyspark.sql.pandas.types import from_arrow_schema

    path = directory / name
    # A damaged file costs only its own rows; `mend` and the table of problems report it.
    reader = spark.read.schema(from_arrow_schema(TABLES[name])).option("ignoreCorruptFiles", "true")
    table = reader.parquet(str(path.absolute()))
    return table.select("*", col("_metadata.file_name").alias("file"))
