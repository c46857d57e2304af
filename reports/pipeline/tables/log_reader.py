"""Reads thousands of run logs with Spark, each once, into the rows that all tables start from.

The rows of all kinds travel as one table, with the kind in the column ``row``. Nearly all rows are
results, so the columns are those of results. A row of any other kind is a JSON object in one more
column.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
from pyspark.sql import functions as sql

from streamproof.reports.pipeline.tables.columns import TABLES
from streamproof.reports.pipeline.tables.log_rows import Columns, read_log
from streamproof.reports.pipeline.tables.sources import Sources

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["STAGED", "base_table", "staged_rows"]

BYTES_A_TASK = 16 * 1024 * 1024
"""Bytes of logs for each task: reading them takes a few times as long as starting the task."""

ROWS_A_BATCH = 20_000
"""How many rows are gathered before Spark gets them, so that small logs share a batch."""

_EXTRA = {
    "runs": {"bad": "bigint", "head": "string", "content": "string"},
    "subjects": {"stated": "string", "judged": "boolean"},
    "situations": {"path": "string", "run_id": "string", "started_at": "string"},
    "requirements": {"path": "string", "run_id": "string", "started_at": "string"},
}
_ABSENT = {"runs": {"verdict"}, "subjects": {"verdict"}, "situations": {"runs"}}


def _staged() -> dict[str, dict[str, str]]:
    found = {}
    kinds = ("runs", "subjects", "requirements", "results", "failures", "situations", "problems")
    for kind in kinds:
        columns = {column.name: column.type for column in TABLES[kind].columns}
        columns.update(_EXTRA.get(kind, {}))
        absent = _ABSENT.get(kind, set())
        found[kind] = {name: type_ for name, type_ in columns.items() if name not in absent}
    return found


STAGED: dict[str, dict[str, str]] = _staged()
"""The kinds of rows that a log is read into: the columns of each, with their types."""

_TRAVELLING = {"row": "string", **STAGED["results"], "told": "string"}
_ARROW = {"string": pa.string(), "bigint": pa.int64(), "boolean": pa.bool_()}
_SCHEMA = pa.schema([(name, _ARROW[type_]) for name, type_ in _TRAVELLING.items()])


def staged_rows(spark: SparkSession, sources: Sources) -> DataFrame:
    """The rows of all kinds in the logs. Workers read the logs on demand, the driver reads few now.

    Args:
        spark: the session.
        sources: the logs. Driver and workers see them at the same paths.
    """
    if sources.few:
        paths = pa.RecordBatch.from_pydict({"path": pa.array(sources.logs, pa.string())})
        return spark.createDataFrame(pa.Table.from_batches(_read([paths]), _SCHEMA))
    tasks = max(1, min(len(sources.logs), -(-sources.size // BYTES_A_TASK)))
    told = spark.createDataFrame([(path,) for path in sources.logs], "path string")
    return told.repartition(tasks).mapInArrow(_read, _sql(_TRAVELLING))


def base_table(rows: DataFrame, kind: str) -> DataFrame:
    """The rows of one kind."""
    found = rows.where(rows["row"] == kind)
    if kind == "results":
        return found.select(*STAGED[kind])
    told = sql.from_json("told", _sql(STAGED[kind]), {"mode": "FAILFAST"})
    return found.select(told.alias("told")).select("told.*")


def _sql(columns: dict[str, str]) -> str:
    """A schema as Spark SQL writes it."""
    return ", ".join(f"`{name}` {type_}" for name, type_ in columns.items())


def _read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Reads logs in a worker."""
    kept = _Kept()
    for batch in batches:
        for path in batch.column("path").to_pylist():
            kept.add(read_log(path))
            if kept.count >= ROWS_A_BATCH:
                yield from kept.take()
    yield from kept.take()


class _Kept:
    """Rows that are gathered until there are enough of them.

    Every log describes the same requirements, at length. Only the newest description is kept.
    """

    def __init__(self) -> None:
        self._rows: defaultdict[str, Columns] = defaultdict(dict)
        self._newest: dict[str, tuple[tuple[str, ...], Columns, int]] = {}
        self.count = 0

    def add(self, rows: dict[str, Columns]) -> None:
        for kind, columns in rows.items():
            if kind == "requirements":
                self._describe(columns)
                continue
            kept = self._rows[kind]
            for name, values in columns.items():
                kept.setdefault(name, []).extend(values)
            self.count += len(columns["path"])

    def _describe(self, columns: Columns) -> None:
        # All rows are of one run.
        age = tuple(columns[name][0] for name in ("started_at", "run_id", "path") if columns[name])
        for index, requirement in enumerate(columns["requirement"]):
            newest = self._newest.get(requirement)
            if newest is None or newest[0] < age:
                self._newest[requirement] = age, columns, index

    def take(self) -> Iterator[pa.RecordBatch]:
        """Return one batch for each kind, and begin anew."""
        newest = list(self._newest.values())
        if newest:
            names = newest[0][1]
            self._rows["requirements"] = {
                name: [columns[name][index] for _, columns, index in newest] for name in names
            }
        for kind, columns in self._rows.items():
            if columns["path"]:
                yield _batch(kind, columns)
        self._rows.clear()
        self._newest.clear()
        self.count = 0


def _batch(kind: str, columns: Columns) -> pa.RecordBatch:
    count = len(columns["path"])
    if kind != "results":
        rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
        columns = {"told": [msgspec.json.encode(row).decode() for row in rows]}
    columns["row"] = [kind] * count
    arrays = [
        pa.array(columns[field.name], field.type)
        if field.name in columns
        else pa.nulls(count, field.type)
        for field in _SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)
