"""Chunks of rows in files: written completely or not at all, and mended after a kill."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from streamproof.reports.pipeline.campaigns.campaign_tables import (
    SCHEMA_VERSION,
    TABLES,
    FailureRow,
    ResultRow,
    RunRow,
    TableName,
)

__all__ = [
    "CampaignTally",
    "RowRecords",
    "chunk_name",
    "is_begun",
    "is_committed",
    "mend",
    "write_chunk",
]

UNFINISHED = "."
"""The prefix of the names of unfinished files, which Spark ignores."""

BROKEN = "broken"
"""The directory for files that cannot be read."""

COMMIT = "runs"
"""The table that is written last: its file makes a chunk count."""

METADATA = {"streamproof.campaign": str(SCHEMA_VERSION)}


class RowRecords(Struct, frozen=True, kw_only=True):
    """The records of one row of a plan.

    Attributes:
        run: the record that every row has.
    """

    run: RunRow
    results: list[ResultRow] = []
    failures: list[FailureRow] = []


def chunk_name(rows: Iterable[str]) -> str:
    """The name of the files for these rows; the same rows have the same name."""
    return f"{sha256(''.join(rows).encode()).hexdigest()[:24]}.parquet"


def is_begun(directory: Path) -> bool:
    """Whether any row of a campaign is finished, even if its file cannot be read now."""
    return any(
        each for name in (COMMIT, f"{BROKEN}/{COMMIT}") for each in (directory / name).glob("*")
    )


def is_committed(directory: Path, chunk: str) -> bool:
    """Whether the rows of a chunk are finished."""
    return (directory / COMMIT / chunk).exists()


def write_chunk(
    directory: Path, chunk: str, found: Sequence[RowRecords], traces: Sequence[Path]
) -> None:
    """Write the records of rows; when the file in ``runs`` exists, all other files do.

    Args:
        directory: of the campaign.
        chunk: its name.
        found: the records of the rows.
        traces: files with the events of some rows.
    """
    if traces:
        with _whole(directory / "events" / chunk) as unfinished:
            _join(traces, unfinished)
    tables: dict[TableName, list[Any]] = {
        "results": [each for one in found for each in one.results],
        "failures": [each for one in found for each in one.failures],
        "runs": [one.run for one in found],
    }
    for name, rows in tables.items():
        if rows:
            table = pa.Table.from_pylist(msgspec.to_builtins(rows), schema=TABLES[name])
            table = table.replace_schema_metadata(METADATA)
            with _whole(directory / name / chunk) as unfinished:
                pq.write_table(table, unfinished, compression="zstd")


def _join(traces: Sequence[Path], path: Path) -> None:
    """Write one file with all events; only one trace at a time is in memory."""
    with pq.ParquetWriter(path, pq.read_schema(traces[0]), compression="zstd") as writer:
        for each in traces:
            writer.write_table(pq.read_table(each))


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """An unfinished file that becomes the file at the end, safe even from a loss of power.

    If writing fails, nothing is left: the disk may be full.
    """
    unfinished = path.with_name(f"{UNFINISHED}{path.name}-{os.getpid()}")
    try:
        yield unfinished
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    unfinished.rename(path)
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def mend(directory: Path) -> list[str]:
    """Mend the tables before a campaign continues; returns a sentence for each change.

    Files that a killed process did not finish are deleted, because no reader counts them, and their
    rows run again. Files that cannot be read are moved to ``broken``, with all other files of their
    chunks, whose rows run again as well.
    """
    told = []
    unfinished = [each for name in TABLES for each in (directory / name).glob(f"{UNFINISHED}*")]
    whole = {each.name for each in (directory / COMMIT).glob("*.parquet")}
    unfinished += [
        each
        for name in TABLES
        for each in (directory / name).glob("*.parquet")
        if each.name not in whole
    ]
    for each in unfinished:
        each.unlink()
    if unfinished:
        told.append(f"{len(unfinished)} files that were not finished are made again.")
    broken = {each.name: reason for each, reason in _unreadable(directory)}
    for name, reason in sorted(broken.items()):
        for table in TABLES:
            path, aside = directory / table / name, directory / BROKEN / table / name
            if path.exists():
                aside.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(path, aside)
        told.append(
            f"{name} cannot be read ({reason}): it is in {directory / BROKEN} now, and its rows "
            "are done again."
        )
    return told


def _unreadable(directory: Path) -> Iterator[tuple[Path, str]]:
    for name, schema in TABLES.items():
        for each in (directory / name).glob("*.parquet"):
            try:
                columns = pq.read_schema(each).names
            except (OSError, pa.ArrowException) as error:
                yield each, str(error).strip().splitlines()[0].rstrip(".")
            else:
                if columns != schema.names:
                    yield each, f"it has not the columns of {name}"


class CampaignTally:
    """Counts the finished rows in the directory of a campaign, while workers write there.

    Args:
        directory: of the campaign.

    Attributes:
        outcomes: the number of rows with each outcome.
    """

    def __init__(self, directory: Path) -> None:
        self._runs = directory / COMMIT
        self._seen: set[str] = set()
        self.outcomes: Counter[str] = Counter()

    @property
    def rows(self) -> int:
        """The number of finished rows."""
        return self.outcomes.total()

    def look(self) -> None:
        """Count the new files."""
        new: set[str] = set()
        # A campaign that has just been started may have no directory yet.
        with contextlib.suppress(FileNotFoundError), os.scandir(self._runs) as entries:
            new = {each.name for each in entries if each.name.endswith(".parquet")}
        for name in new - self._seen:
            # There may be hundreds of thousands of files, and `read_table` takes twice as long.
            with pq.ParquetFile(self._runs / name) as file:
                self.outcomes.update(file.read(["outcome"])["outcome"].to_pylist())
            self._seen.add(name)
