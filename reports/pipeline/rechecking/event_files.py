"""Reads files of events with Spark, and writes files of findings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from streamproof.errors import UsageError
from streamproof.reports.pipeline.rechecking.run_invariants import FINDINGS, RecheckFinding
from streamproof.reports.pipeline.rechecking.validation import COLUMNS
from streamproof.sim.arrow import pa, pq
from streamproof.sim.trace_files import require_trace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["event_files", "read_events", "write_findings"]

EVENTS = "events"
"""The directory of a campaign with its events."""

UNFINISHED = "_temporary"
"""The directory with unfinished files of Spark; Spark removes it at the end."""

BATCH = 10_000
"""How many findings are held in memory before they are written."""


def event_files(paths: Iterable[Path]) -> list[Path]:
    """The files with events, each of them once; checks that they are complete.

    Args:
        paths: traces, directories of traces at any depth, and directories of campaigns.

    Raises:
        UsageError: there is no file, or a file cannot be read.
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
    # These prefixes mark unfinished files, and files about other files.
    found = [
        each
        for each in sorted(directory.rglob("*.parquet"))
        if each.is_file() and not any(part[0] in "._" for part in each.relative_to(directory).parts)
    ]
    if not found:
        raise UsageError(f"There are no events in {directory}: it has no file *.parquet.")
    return found


def read_events(spark: SparkSession, files: Sequence[Path]) -> DataFrame:
    """The events of all files as one table, which is not read yet.

    Args:
        spark: its workers must see the files under the same paths.
        files: as :func:`event_files` has found them.
    """
    schema = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS.items())
    # A bracket in a name must not be taken for a pattern.
    paths = [re.sub(r"[][{}*?\\]", r"\\\g<0>", f"file://{each}") for each in files]
    return spark.read.schema(schema).parquet(*paths)


def write_findings(findings: DataFrame, directory: Path) -> Iterable[RecheckFinding]:
    """Write findings in the order of runs, as ``violations.parquet`` and ``.ndjson``.

    Args:
        findings: a table with the columns of ``RecheckFinding``.
        directory: the directory for the files. Existing files are replaced at the end.

    Returns:
        The findings, one after the other; the caller must take all of them.
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
