"""Runs the rows of a Python worker of Spark, chunk by chunk."""

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

from streamproof.conformance.work_directory import work_directory
from streamproof.reports.pipeline.campaigns.chunk_files import (
    RowRecords,
    chunk_name,
    is_committed,
    write_chunk,
)
from streamproof.reports.pipeline.campaigns.row_process import isolated, too_long
from streamproof.reports.pipeline.campaigns.row_records import failed_to_run
from streamproof.reports.pipeline.campaigns.units import Unit
from streamproof.reports.pipeline.campaigns.verify_row import LOG
from streamproof.reports.pipeline.campaigns.world_row import EVENTS, perform
from streamproof.reports.verification import RUN_LOG

__all__ = ["ATTEMPTS", "CHUNK", "DONE", "Worker"]

CHUNK = 256
"""The number of rows that are written together, and at most run again after a kill."""

ATTEMPTS = "attempts"
"""The subdirectory of the campaign with a file for each row that is running."""

DONE = "rows bigint"
"""The answer of a worker to Spark: the number of rows in each chunk."""


@dataclass(frozen=True)
class Worker:
    """Runs rows of a plan and writes their records; called by ``mapInArrow``.

    Attributes:
        directory: the directory of the campaign, under the same path for every worker.
        session: the name of this run of the command; attempts of an earlier run do not count.
        current: the directory with modules and files of the plan, if it exists on this machine.
        chunk: the number of rows that are written together.
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
        """Groups of rows that are written together; a row with its own process is written alone."""
        for alone, some in itertools.groupby(units, lambda unit: unit.is_isolated):
            while chunk := list(itertools.islice(some, 1 if alone else self.chunk)):
                yield chunk

    def _do(self, units: list[Unit]) -> None:
        directory = Path(self.directory)
        chunk = chunk_name(each.row for each in units)
        if is_committed(directory, chunk):
            # Spark lost the worker that wrote this chunk, or its answer.
            return
        with work_directory() as work:
            traces, found = [], []
            for unit in units:
                scratch = work / unit.row
                scratch.mkdir()
                found.append(self._attempt(unit, directory, scratch))
                # The events of a row without an answer may be cut off.
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
        run = isolated if unit.is_isolated or died else _in_time
        found = run(unit, directory, scratch)
        path.unlink(missing_ok=True)
        return found


def _keep_log(log: Path, kept: Path) -> None:
    """Keep the log of a verification and its saved failures, so that reports can use them."""
    if (log / RUN_LOG).exists():
        unfinished = kept.with_name(f".{kept.name}-{os.getpid()}")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        shutil.copy(log / RUN_LOG, unfinished)
        if (log / "failures").is_dir():
            shutil.copytree(log / "failures", unfinished / "failures")
        shutil.rmtree(kept, ignore_errors=True)
        unfinished.rename(kept)


class _RowTooLongError(BaseException):
    """A world takes too long. No code in a world catches this, as it is no ``Exception``."""


def _in_time(unit: Unit, directory: Path, scratch: Path) -> RowRecords:
    """Run a row in this process, and end it when its time is over."""
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
