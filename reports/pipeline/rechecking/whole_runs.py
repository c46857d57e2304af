"""Judges runs that are in one piece in one file, without moving their events between workers.

To distribute events by run, Spark converts every row four times, which takes as long as judging the
events. The files of a campaign do not need that, because each run is in one piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import to_builtins

from streamproof.reports.pipeline.rechecking.event_files import read_events
from streamproof.reports.pipeline.rechecking.run_invariants import COLUMNS, FINDINGS, judge, recheck
from streamproof.sim.invariants import INVARIANTS, Invariant
from streamproof.sim.trace_files import SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["mixed_files", "recheck_files"]

LARGEST = 64 << 20
"""The largest file, in bytes, that one worker judges alone, in at most half a minute; the runs of a
larger file are distributed."""

BYTES_A_TASK = 1 << 20
"""The bytes of files for each task. They take about half a second, ten times the cost of a task of
Spark."""

_PLACE = pa.schema([("path", pa.string()), ("run", pa.string())])


def recheck_files(
    spark: SparkSession, files: Sequence[Path], invariants: Sequence[type[Invariant]] = INVARIANTS
) -> DataFrame:
    """Judge every run by itself; a worker holds one run at a time.

    Args:
        spark: its workers must see the files under the same paths.
        files: as ``event_files`` has found them; at least one.
        invariants: the invariants to check. Workers must be able to import them.

    Returns:
        The findings, with the columns of ``RecheckFinding``.
    """
    chosen = tuple(invariants)
    mixed = mixed_files(spark, files)
    apart = [each for each in files if str(each) not in mixed]
    together = [each for each in files if str(each) in mixed]
    parts = []
    if apart:
        parts.append(_by_file(spark, apart, lambda path: _judged(path, chosen), COLUMNS))
    if together:
        parts.append(recheck(read_events(spark, together), chosen))
    return reduce(lambda one, other: one.unionByName(other), parts)


def mixed_files(spark: SparkSession, files: Sequence[Path]) -> set[str]:
    """The files that cannot be judged one by one: large ones, and those with a run in pieces.

    Args:
        spark: its workers must see the files under the same paths.
        files: as ``event_files`` has found them.
    """
    from pyspark.sql import functions as f

    pieces = _by_file(spark, files, _pieces, "path string, run string")
    scattered = (
        pieces.groupBy("run")
        .agg(f.count("*").alias("pieces"), f.collect_set("path").alias("paths"))
        .where("pieces > 1")
        .select(f.explode("paths").alias("path"))
        .distinct()
    )
    large = {str(each) for each in files if each.stat().st_size > LARGEST}
    return large | {each.path for each in scattered.collect()}


def _by_file(
    spark: SparkSession,
    files: Sequence[Path],
    work: Callable[[str], Iterator[pa.RecordBatch]],
    columns: str,
) -> DataFrame:
    """The findings of each file, in few tasks, because each task costs about 40 ms."""

    def work_all(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in batch.column("path").to_pylist():
                yield from work(path)

    size = sum(each.stat().st_size for each in files)
    tasks = min(len(files), -(-size // BYTES_A_TASK))
    paths = spark.createDataFrame([(str(each),) for each in files], "path string")
    return paths.repartition(tasks).mapInArrow(work_all, columns)


def _pieces(path: str) -> Iterator[pa.RecordBatch]:
    """The runs in a file, each as often as it has pieces."""
    with pq.ParquetFile(path) as file:
        pieces = groupby(_slices(file, ["run"]), itemgetter(0))
        runs = [run for run, _ in pieces]
    yield pa.RecordBatch.from_pydict({"path": [path] * len(runs), "run": runs}, schema=_PLACE)


def _judged(path: str, invariants: Sequence[type[Invariant]]) -> Iterator[pa.RecordBatch]:
    """The findings about the runs of a file, each of which is in one piece."""
    with pq.ParquetFile(path) as file:
        for _, slices in groupby(_slices(file, SCHEMA.names), itemgetter(0)):
            rows = pa.Table.from_batches([each for _, each in slices])
            found = to_builtins(list(judge(rows, invariants)))
            if found:
                yield pa.RecordBatch.from_pylist(found, schema=FINDINGS)


def _slices(
    file: pq.ParquetFile, columns: Sequence[str]
) -> Iterator[tuple[str | None, pa.RecordBatch]]:
    """Each run of a file with its consecutive rows, in the order of the file."""
    # Each core has a worker already.
    for batch in file.iter_batches(columns=list(columns), use_threads=False):
        ends = pc.run_end_encode(batch.column("run"))
        start = 0
        for run, end in zip(ends.values.to_pylist(), ends.run_ends.to_pylist(), strict=True):
            yield run, batch.slice(start, end - start)
            start = end
