"""Files of events, to be read by Spark, and of what was found in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from streamproof.errors import UsageError
from streamproof.reports.pipeline.rechecking.run_invariants import FINDINGS, RecheckFinding
from streamproof.reports.pipeline.rechecking.validation import COLUMNS
from streamproof.sim.trace_files import require_trace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["event_files", "read_events", "write_findings"]

EVENTS = "events"
"""The directory of a campaign in which its events are."""

UNFINISHED = "_temporary"
"""The directory in which Spark has what it has not finished; it is gone in the end."""

BATCH = 10_000
"""Findings that are in memory before they are written."""


def event_files(paths: Iterable[Path]) -> list[Path]:
    """The files with events, each of them once; their ends have been looked at.

    Args:
        paths: traces, directories of traces at any depth, and directories of campaigns.

    Raises:
        UsageError: there is none, or one of them cannot be read.
    """
    files: dict[Path, None] = {}
    for path in paths:
        files |= dict.fromkeys(each.resolve() for each in _files_in(path))
    for each in files:
        require_trace(each)
    return list(files)


def _files_in(path: Path) -> list[Path]:
    if not path.exists():
        raise UsageError(f"There is no {path}. Name a trace, or a directory with traces.")
    if not path.is_dir():
        return [path]
    directory = path / EVENTS if (path / EVENTS).is_dir() else path
    if (directory / UNFINISHED).exists():
        raise UsageError(
            f"{directory} was not written to its end: {UNFINISHED} is in it still. Write it anew."
        )
    # What begins so is not finished, or says something of the other files.
    found = [
        each
        for each in sorted(directory.rglob("*.parquet"))
        if each.is_file() and not any(part[0] in "._" for part in each.relative_to(directory).parts)
    ]
    if not found:
        raise UsageError(f"There are no events in {directory}: it has no file *.parquet.")
    return found


def read_events(spark: SparkSession, files: Sequence[Path]) -> DataFrame:
    """The events of all files as one table, of which nothing is read yet.

    Args:
        spark: its workers must see the files under the same paths.
        files: as :func:`event_files` has found them.
    """
    schema = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS.items())
    # A bracket in a name is a bracket, and no pattern.
    paths = [re.sub(r"[][{}*?\\]", r"\\\g<0>", f"file://{each}") for each in files]
    return spark.read.schema(schema).parquet(*paths)


def write_findings(findings: DataFrame, directory: Path) -> Iterable[RecheckFinding]:
    """Write what was found, in the order of runs, as ``violations.parquet`` and ``.ndjson``.

    Args:
        findings: what was found, with the columns of ``RecheckFinding``.
        directory: where the files go. Those that are there are replaced once it is complete.

    Returns:
        The findings, one after the other; all of them have to be taken.
    """
    parquet, lines = (directory / f"violations.{each}" for each in ("parquet", "ndjson"))
    unfinished = [each.with_name(f".{each.name}") for each in (parquet, lines)]
    encode = msgspec.json.Encoder().encode
    with pq.ParquetWriter(unfinished[0], FINDINGS) as table, unfinished[1].open("wb") as text:
        batch: list[RecheckFinding] = []
        for row in findings.orderBy("run", "sequence", "invariant", "message").toLocalIterator():
            finding = RecheckFinding(**row.asDict())
            text.write(encode(finding) + b"\n")
            batch.append(finding)
            if len(batch) == BATCH:
                _write(table, batch)
            yield finding
        _write(table, batch)
    for each, path in zip(unfinished, (parquet, lines), strict=True):
        each.replace(path)


def _write(table: pq.ParquetWriter, batch: list[RecheckFinding]) -> None:
    table.write_table(pa.Table.from_pylist(msgspec.to_builtins(batch), schema=FINDINGS))
    batch.clear()
