"""What a campaign costs besides its rows, in seconds of CPU.

- Rows that do nothing: what each costs to hand out and to keep, and what each chunk costs.
- A plan of a million rows: made, and compared with what is done.
- A directory with 10,000 files in ``runs``: opened again, counted, and read by Spark.

All processes count: the driver, its JVM, and the workers. Starting them does not. A busy machine
gives about the same numbers as an idle one.

Run: ``python -P benchmarks/campaign_scale.py [ROWS [PLANNED [FILES]]]``
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyarrow as pa

from streamproof.reports.pipeline.campaigns import driver as running
from streamproof.reports.pipeline.campaigns import executor as executing
from streamproof.reports.pipeline.campaigns.campaign_plan import read_plan
from streamproof.reports.pipeline.campaigns.campaign_tables import RunRow, read_table
from streamproof.reports.pipeline.campaigns.chunk_files import (
    CampaignTally,
    RowRecords,
    chunk_name,
    mend,
    write_chunk,
)
from streamproof.reports.pipeline.campaigns.driver import CampaignDirectory, opened, pending, run
from streamproof.reports.pipeline.campaigns.executor import Worker
from streamproof.reports.pipeline.campaigns.units import IDENTITY, Unit, frame, row_id
from streamproof.reports.pipeline.spark import session
from streamproof.sim.coverage_marks import MARKS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS, PLANNED, FILES = 50_000, 1_000_000, 10_000

ROWS_IN_FILE = 16
"""In the directory with many files; a chunk of worlds has up to 256."""

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def processes() -> dict[int, list[str]]:
    """This process and all below it, with what ``/proc/PID/stat`` says of each after its name."""
    stats = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            stats[int(path.name)] = (path / "stat").read_text().rpartition(")")[2].split()
    below = {os.getpid()}
    while more := {each for each, stat in stats.items() if int(stat[1]) in below} - below:
        below |= more
    return {each: stats[each] for each in below}


def cpu_s() -> float:
    """Seconds of CPU that these have taken, with those of processes that have ended."""
    return TICK_S * sum(int(ticks) for stat in processes().values() for ticks in stat[11:15])


def driver_mib() -> str:
    """The most memory that the two processes of the driver have had: Python, and the JVM."""
    most = {}
    for each in processes():
        with suppress(OSError):
            lines = Path(f"/proc/{each}/status").read_text().splitlines()
            status = dict(line.split(":\t", 1) for line in lines)
            if each == os.getpid() or status["Name"] == "java":
                most[status["Name"]] = int(status["VmHWM"].split()[0]) // 1024
    return ", ".join(f"{name} {size:,} MiB at most" for name, size in most.items())


def timed(what: str, per: int, action: Callable[[], object]) -> None:
    """Do the work, and print its cost in all and for each repetition."""
    before = cpu_s()
    action()
    took = cpu_s() - before
    print(f"{what:50} {took:8.2f} s {1e6 * took / per:10,.1f} µs each", flush=True)


def nothing(unit: Unit, *_: object) -> RowRecords:
    """What is kept of a row that does nothing: about as much as of a world."""
    marks = dict.fromkeys(list(MARKS)[:20], 3)
    told = {"outcome": "pass", "topology": "count", "digest": unit.row * 2, "marks": marks}
    return RowRecords(run=RunRow(row=unit.row, kind=unit.kind, seed=unit.seed, **told))


class Idle(Worker):
    """A worker whose rows do nothing."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        executing.perform = nothing
        yield from super().__call__(batches)


def campaign_of(directory: Path, name: str, rows: int) -> CampaignDirectory:
    """A directory for a plan of this number of worlds."""
    plan = directory / f"{name}.toml"
    plan.write_text(f"[[simulate]]\nseeds = [0, {rows}]\n", "utf-8")
    return opened(read_plan(plan), directory / name)


def idle_rows(spark: SparkSession, directory: Path, rows: int) -> None:
    """What a row and a chunk cost if there is nothing to do."""
    running.Worker = Idle
    run(spark, campaign_of(directory, "warm", 64), lambda _: None)
    for chunk in (16, 256):
        campaign = campaign_of(directory, f"chunks-of-{chunk}", rows)
        what = f"{rows:,} rows that do nothing, {chunk} in a file"
        timed(what, rows, partial(run, spark, campaign, lambda _: None, chunk))
        files = list(campaign.directory.glob("runs/*.parquet"))
        size = sum(each.stat().st_size for each in files)
        print(f"  {len(files):,} files, {size / rows:,.0f} bytes a row")


def planned(spark: SparkSession, directory: Path, rows: int) -> None:
    """What it costs to make a plan, and to share out what is left of it."""
    campaign = campaign_of(directory, "planned", rows)
    table = frame(spark, campaign.plan.series)
    timed(f"a plan of {rows:,} rows", rows, table.write.format("noop").mode("append").save)
    left = pending(spark, campaign)
    timed("  shared out", rows, left.write.format("noop").mode("append").save)


def many_files(spark: SparkSession, directory: Path, count: int) -> None:
    """What it costs to go on where there are many files, and all is done."""
    campaign = campaign_of(directory, "files", count * ROWS_IN_FILE)
    (series,) = campaign.plan.series

    def write() -> None:
        for number in range(count):
            found = []
            for seed in range(number * ROWS_IN_FILE, (number + 1) * ROWS_IN_FILE):
                values = (*series[:-2], seed)
                unit = Unit(row=row_id(*values), **dict(zip(IDENTITY, values, strict=True)))
                found.append(nothing(unit))
            name = chunk_name(each.run.row for each in found)
            write_chunk(campaign.directory, name, found, [])

    tally = CampaignTally(campaign.directory)
    timed(f"{count:,} files of {ROWS_IN_FILE} rows written", count, write)
    timed("  looked through before a campaign goes on", count, lambda: mend(campaign.directory))
    timed("  counted for the first time", count, tally.look)
    timed("  counted again, as it is each second", count, tally.look)
    timed("  read by Spark", count, read_table(spark, campaign.directory, "runs").count)
    left = pending(spark, campaign)
    timed("  compared with the plan", count, left.count)
    assert left.count() == 0


def main() -> None:
    """Measure all of it."""
    rows, plan, files = (
        int(sys.argv[each]) if len(sys.argv) > each else default
        for each, default in ((1, ROWS), (2, PLANNED), (3, FILES))
    )
    before = cpu_s()
    spark = session("local[2]")
    print(f"{'Spark is there':50} {cpu_s() - before:8.2f} s")
    with TemporaryDirectory() as name:
        directory = Path(name)
        idle_rows(spark, directory, rows)
        planned(spark, directory, plan)
        print(f"  {driver_mib()}")
        many_files(spark, directory, files)
        print(f"  {driver_mib()}")


if __name__ == "__main__":
    main()
