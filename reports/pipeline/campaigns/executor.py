"""What a Python worker of Spark does with its share of the rows: it runs them, chunk by chunk."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pyarrow as pa

from streamproof.conformance.check_engine import work_directory
from streamproof.reports.pipeline.campaigns.chunk_files import (
    RowRecords,
    chunk_name,
    is_committed,
    write_chunk,
)
from streamproof.reports.pipeline.campaigns.own_process import too_long
from streamproof.reports.pipeline.campaigns.row import EVENTS, perform
from streamproof.reports.pipeline.campaigns.row_process import isolated
from streamproof.reports.pipeline.campaigns.row_records import failed_to_run
from streamproof.reports.pipeline.campaigns.units import Unit
from streamproof.reports.pipeline.campaigns.verify_row import LOG, verify

__all__ = ["ATTEMPTS", "CHUNK", "DONE", "Worker"]

CHUNK = 256
"""Rows that are written together; so many are done again where a worker is killed, at most."""

ATTEMPTS = "attempts"
"""The directory, below that of the campaign, with a file for each row that is under way."""

DONE = "rows bigint"
"""What a worker tells Spark: how many rows each chunk had."""


@dataclass(frozen=True)
class Worker:
    """Runs rows of a plan and writes what they come to, as ``mapInArrow`` calls it.

    Attributes:
        directory: of the campaign; every worker sees it under this path.
        session: names this run of the command: attempts of an earlier one do not count.
        current: the directory in which modules and files of a plan are looked for, if it is there.
        chunk: rows that are written together.
    """

    directory: str
    session: str
    current: str
    chunk: int = CHUNK

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run all rows; the answer is one row for each chunk."""
        with contextlib.suppress(OSError):
            os.chdir(self.current)
        units = (Unit(**row) for batch in batches for row in batch.to_pylist())
        for chunk in self._chunks(units):
            self._do(chunk)
            yield pa.RecordBatch.from_pydict({"rows": [len(chunk)]})

    def _chunks(self, units: Iterable[Unit]) -> Iterator[list[Unit]]:
        """Rows that are written together: one that has a process of its own is written alone."""
        for alone, some in itertools.groupby(units, lambda unit: unit.is_isolated):
            while chunk := list(itertools.islice(some, 1 if alone else self.chunk)):
                yield chunk

    def _do(self, units: list[Unit]) -> None:
        directory = Path(self.directory)
        chunk = chunk_name(each.row for each in units)
        if is_committed(directory, chunk):
            # Spark has lost this worker, or its answer, after the chunk was written.
            return
        with work_directory() as work:
            traces, found = [], []
            for unit in units:
                scratch = work / unit.row
                scratch.mkdir()
                found.append(self._attempt(unit, directory, scratch))
                # Those of a row without an answer may have no end.
                if found[-1].run.outcome != "error" and (scratch / EVENTS).exists():
                    traces.append((scratch / EVENTS).rename(work / f"{unit.row}.parquet"))
                _keep_log(scratch / LOG, directory / "logs" / unit.row)
                shutil.rmtree(scratch, ignore_errors=True)
            write_chunk(directory, chunk, found, traces)

    def _attempt(self, unit: Unit, directory: Path, scratch: Path) -> RowRecords:
        """Run a row, in a process of its own if a worker has died during this row before.

        So a row that kills its process becomes an error, and a row that was under way by chance
        is done.
        """
        path = directory / ATTEMPTS / self.session / unit.row
        died = path.exists()
        path.touch()
        if unit.kind == "verify":
            run = verify
        else:
            run = isolated if unit.is_isolated or died else _in_time
        found = run(unit, directory, scratch)
        path.unlink(missing_ok=True)
        return found


def _keep_log(log: Path, kept: Path) -> None:
    """Keep the log of a verification and its saved failures: reports can be made again."""
    if (log / "run.ndjson").exists():
        unfinished = kept.with_name(f".{kept.name}-{os.getpid()}")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        shutil.copy(log / "run.ndjson", unfinished)
        if (log / "failures").is_dir():
            shutil.copytree(log / "failures", unfinished / "failures")
        shutil.rmtree(kept, ignore_errors=True)
        unfinished.rename(kept)


class _RowTooLongError(BaseException):
    """A world takes too long. Nothing in it catches this, because it is no ``Exception``."""


def _in_time(unit: Unit, directory: Path, scratch: Path) -> RowRecords:
    """Run a row here, and give it up when its time is over."""
    limit_s = unit.conditions.limit_s
    before = signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        return perform(unit, directory, scratch)
    except _RowTooLongError:
        return failed_to_run(unit, directory, too_long(limit_s))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _give_up(*_: object) -> NoReturn:
    raise _RowTooLongError
