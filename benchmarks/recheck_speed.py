"""How many events a second are judged again, on one core, and what that time is spent on.

- Reading events from their columns, and judging them, without Spark.
- The same on one worker, once Spark and the worker are warm: where the files are read, and by
  ``applyInArrow``, for which Spark moves all events.
- The checks over all events at once, on the same events.

Run: ``python -P benchmarks/recheck_speed.py``
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from streamproof.reports.pipeline.rechecking.event_files import event_files, read_events
from streamproof.reports.pipeline.rechecking.run_invariants import judge, recheck
from streamproof.reports.pipeline.rechecking.set_checks import recheck_sets
from streamproof.reports.pipeline.rechecking.whole_runs import recheck_files
from streamproof.reports.pipeline.spark import session
from streamproof.sim.choices import Choices
from streamproof.sim.invariants import INVARIANTS, Watch
from streamproof.sim.simulation import run
from streamproof.sim.trace_files import TraceFile, events_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SEEDS = 24
"""Runs of the swarm that are kept."""

COPIES = 16
"""How often each run is copied, each time under another name."""

TARGET = 200_000
"""Events a second and core."""


def rate(count: int, work: Callable[[], object]) -> float:
    """Events a second, by the time of this process's processor."""
    started = time.process_time()
    work()
    return count / (time.process_time() - started)


def wall_rate(count: int, work: Callable[[], int]) -> float:
    """Events a second of the better of two times, after one that is not counted."""
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        if work():
            sys.exit("The runs are wrong, and should not be.")
        seconds.append(time.perf_counter() - started)
    return count / min(seconds[1:])


def keep(directory: Path) -> list[pa.Table]:
    """Write runs of the swarm, and as many copies of each; the runs."""
    tables = []
    for seed in range(SEEDS):
        path = directory / f"{seed}.parquet"
        with TraceFile(path, str(seed)) as file:
            run(Choices.seeded(seed), watchers=[file])
        table = pq.read_table(path)
        tables.append(table)
        copies = [
            table.set_column(0, table.schema.field(0), [[f"{seed}-{copy}"] * len(table)])
            for copy in range(COPIES)
        ]
        pq.write_table(pa.concat_tables(copies), path)
    return tables


def watch(tables: list[pa.Table]) -> float:
    """Events a second that the invariants alone look at."""
    runs = [list(events_of(each)) for each in tables]

    def all_runs() -> None:
        for events in runs:
            watching = Watch(INVARIANTS, exactly_once=events[0].attributes["exactly_once"])
            for event in events:
                watching(event)
            watching.end()

    return rate(sum(map(len, runs)), all_runs)


def by_sets(events: DataFrame) -> int:
    """How much is found by the checks over all events at once."""
    with recheck_sets(events) as findings:
        return findings.count()


def measured() -> dict[str, float]:
    """Events a second and core, by the way in which they are judged."""
    rates = {}
    with TemporaryDirectory() as folder:
        tables = keep(Path(folder))
        count = sum(map(len, tables))
        rates["read from columns"] = rate(count, lambda: [list(events_of(each)) for each in tables])
        rates["watched by all invariants"] = watch(tables)
        rates["judged, without Spark"] = rate(
            count, lambda: [list(judge(each, INVARIANTS)) for each in tables]
        )
        spark = session("local[1]", settings={"spark.sql.shuffle.partitions": "4"})
        files = event_files([Path(folder)])
        events = read_events(spark, files)
        ways = {
            "judged, where files are read": lambda: recheck_files(spark, files).count(),
            "judged, applyInArrow": lambda: recheck(events).count(),
            "all at once": lambda: by_sets(events),
        }
        for name, work in ways.items():
            rates[name] = wall_rate(count * COPIES, work)
        spark.stop()
    print(f"{count * COPIES:,} events of {SEEDS * COPIES} runs.")
    return rates


def main() -> None:
    """Print a table of what was measured."""
    table = Table("events a second and core", "measured", "target", box=None)
    for name, found in measured().items():
        table.add_row(name, f"{found:,.0f}", f"{TARGET:,}" if name.startswith("judged") else "")
    Console().print(table)


if __name__ == "__main__":
    main()
