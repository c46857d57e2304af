"""Runs a campaign: hands the unfinished rows of a plan to Spark until all are finished."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from streamproof.errors import UsageError
from streamproof.reports.pipeline.campaigns.campaign_plan import CampaignPlan, RowSeries
from streamproof.reports.pipeline.campaigns.campaign_tables import (
    MANIFEST,
    SCHEMA_VERSION,
    TABLES,
    finished_rows,
)
from streamproof.reports.pipeline.campaigns.chunk_files import CampaignTally, is_begun, mend
from streamproof.reports.pipeline.campaigns.executor import ATTEMPTS, CHUNK, DONE, Worker
from streamproof.reports.pipeline.campaigns.units import frame, swarm_path, swarm_text
from streamproof.sim.world_plan import WORLD_VERSION, require_world_version
from streamproof.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["CampaignDirectory", "Progress", "opened", "pending", "run"]

PARTS = 4
"""Partitions of worlds for each core: few, because a task of Spark costs about 40 ms, and more
than one, because some take longer than others."""

MOST_WORLDS = 16 * CHUNK
"""About how many worlds a partition of a very large plan has: a few minutes of work, so that a slow
machine does not keep the campaign waiting for hours."""

ALONE_PARTS = 64
"""The most partitions for each core of rows with processes, which take about a second each."""

IDLE_JOBS = 3
"""How many jobs in a row may fail without progress."""

LOOK_EVERY_S = 1.0
"""The shortest time between two looks at the finished rows."""

LOOKING_SHARE = 0.1
"""The inverse of the share of time for these looks: listing a million files takes long."""


@dataclass(frozen=True)
class CampaignDirectory:
    """A directory in which a plan is carried out.

    Attributes:
        plan: the plan of the campaign.
        directory: its path, which must be the same for every worker.
        mended: a sentence for each repair before the campaign continues.
    """

    plan: CampaignPlan
    directory: Path
    mended: tuple[str, ...]


@dataclass(frozen=True)
class Progress:
    """The progress of a campaign.

    Attributes:
        rows: the number of rows in the plan.
        before: the number of rows that were finished before this run of the command.
        tally: counts the finished rows.
        elapsed_s: seconds since Spark began with the rest.
    """

    rows: int
    before: int
    tally: CampaignTally
    elapsed_s: float

    def __str__(self) -> str:
        # If a lost worker and its successor both wrote a row, it counts once.
        done, failed = min(self.tally.rows, self.rows), self.tally.outcomes["fail"]
        rate = (done - self.before) / max(self.elapsed_s, 0.001)
        text = f"{done:,} of {self.rows:,} rows, {rate:.1f}/s, {failed:,} failed"
        errors = self.tally.outcomes["error"]
        return f"{text}, {errors:,} without an answer" if errors else text


def opened(plan: CampaignPlan, directory: Path) -> CampaignDirectory:
    """A directory for a plan: a new one, or one in which the same plan continues.

    Raises:
        UsageError: the directory cannot be written, has another plan or rows of another version of
            the simulated world, or is in use by another process.
    """
    directory = directory.absolute()
    known = {
        "schema_version": SCHEMA_VERSION,
        "tool_version": __version__,
        "world_version": WORLD_VERSION,
        "plan_digest": plan.digest,
    }
    try:
        told = _require_same(directory, known)
        for name in (*TABLES, "logs", "swarms"):
            (directory / name).mkdir(parents=True, exist_ok=True)
        _lock(directory)
        # The attempts of a killed process mean nothing now.
        shutil.rmtree(directory / ATTEMPTS, ignore_errors=True)
        (directory / ATTEMPTS).mkdir(exist_ok=True)
        for each in plan.series:
            swarm = each.conditions.swarm
            path = swarm_path(directory, swarm)
            if path and not path.exists():
                path.write_text(swarm_text(swarm), "utf-8")
        told += mend(directory)
        series = [each._asdict() for each in plan.series]
        _write(directory / MANIFEST, {**known, "plan": str(plan.path.absolute()), "series": series})
    except OSError as error:
        raise UsageError(
            f"The output directory {str(directory)!r} cannot be written: {error.strerror}. "
            "Choose another one with --out."
        ) from error
    return CampaignDirectory(plan, directory, tuple(told))


def _require_same(directory: Path, wanted: dict[str, Any]) -> list[str]:
    """Check that a directory has no other plan; returns sentences for the user.

    A plan without a finished row is replaced: the user may have corrected it.

    Raises:
        UsageError: the directory has another plan, other files, or rows of another version of the
            simulated world.
    """
    manifest = directory / MANIFEST
    if not manifest.exists():
        if directory.is_dir() and any(directory.iterdir()):
            raise UsageError(
                f"{directory} is not empty, and has no {MANIFEST}: it is no directory of a "
                "campaign. Choose another one with --out."
            )
        return []
    try:
        # A campaign of an older streamproof names no version of the world.
        found = {"world_version": 0, **json.loads(manifest.read_text("utf-8"))}
        different = [name for name in wanted if found[name] != wanted[name]]
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{manifest} cannot be read: {error}. Nothing was changed: choose another directory "
            "with --out."
        ) from error
    if different and not is_begun(directory):
        return ["The plan that was here before had no finished row; this plan replaces it."]
    require_world_version(
        found["world_version"], str(manifest), "Choose another directory with --out."
    )
    if different:
        told = ", ".join(
            f"its {name} is {found[name]}, and this one's is {wanted[name]}" for name in different
        )
        raise UsageError(
            f"{directory} has another campaign: {told}. Choose another directory with --out."
        )
    return []


def _lock(directory: Path) -> None:
    """Keep other processes out of the directory until this one ends.

    Raises:
        UsageError: another process uses the directory.
    """
    descriptor = os.open(directory / "lock", os.O_CREAT | os.O_RDWR, 0o644)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise UsageError(
            f"{directory}: another process carries out a campaign there. Wait for its end, or "
            "choose another directory with --out."
        ) from error


def _write(path: Path, content: dict[str, Any]) -> None:
    unfinished = path.with_name(f".{path.name}")
    unfinished.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    unfinished.rename(path)


def run(
    spark: SparkSession,
    campaign: CampaignDirectory,
    tell: Callable[[Progress], None],
    chunk: int = CHUNK,
) -> Progress:
    """Run the unfinished rows; returns the progress at the end.

    Args:
        spark: the session.
        campaign: the directory, and the plan.
        tell: called with the progress about once a second.
        chunk: the number of rows that are written together.

    Raises:
        UsageError: the workers of Spark cannot run rows, or their disk is full.
    """
    directory = campaign.directory
    attempts = directory / ATTEMPTS / uuid4().hex
    attempts.mkdir()
    worker = Worker(str(directory), attempts.name, str(Path.cwd()), chunk)
    tally, started = CampaignTally(directory), time.monotonic()
    tally.look()
    before = tally.rows
    rows = campaign.plan.rows

    def progress() -> Progress:
        tally.look()
        return Progress(rows, before, tally, time.monotonic() - started)

    begun: set[str] = set()
    idle = 0
    try:
        while True:
            seen = (progress().tally.rows, len(begun))
            error = _carry_out(spark, campaign, worker, lambda: tell(progress()))
            if error is None:
                return progress()
            if f"[Errno {errno.ENOSPC}]" in str(error):
                # Another attempt would run all rows of a chunk again, and fail in the same way.
                raise UsageError(
                    f"The disk is full: {_reason(error)}. Make room in {directory}, and where "
                    "workers have their databases. Finished rows are kept, and the same "
                    "command continues."
                ) from error
            # From now on, a row during which a worker died runs in a process of its own. So a job
            # that failed because of too many such rows gets further the next time.
            begun.update(each.name for each in attempts.iterdir())
            idle = idle + 1 if (progress().tally.rows, len(begun)) == seen else 0
            if idle == IDLE_JOBS:
                raise UsageError(
                    f"The workers of Spark cannot run rows: {_reason(error)}. They need "
                    "streamproof in their Python, and the output directory under the same path."
                ) from error
    finally:
        shutil.rmtree(attempts, ignore_errors=True)


def _carry_out(
    spark: SparkSession, campaign: CampaignDirectory, worker: Worker, look: Callable[[], None]
) -> Exception | None:
    """Let Spark run the unfinished rows; returns the error that ended the job, or ``None``."""
    errors: list[Exception] = []

    def work() -> None:
        try:
            pending(spark, campaign).mapInArrow(worker, DONE).count()
        except Exception as error:  # noqa: BLE001 - told by the thread that waits for this one
            errors.append(error)

    thread = Thread(target=work, daemon=True)
    thread.start()
    pause_s = LOOK_EVERY_S
    try:
        while thread.is_alive():
            thread.join(pause_s)
            begun = time.monotonic()
            look()
            pause_s = max(LOOK_EVERY_S, (time.monotonic() - begun) / LOOKING_SHARE)
    except BaseException:
        spark.interruptAll()
        thread.join()
        raise
    return errors[0] if errors else None


def pending(spark: SparkSession, campaign: CampaignDirectory) -> DataFrame:
    """The unfinished rows in partitions; the rows that may take longest come first.

    Spark begins the partitions in their order, so that no core is left with an hour of work when
    the others have none.

    Args:
        spark: the session; more cores give more partitions.
        campaign: the plan, and the directory with the finished rows.
    """
    directory, cores = campaign.directory, _cores(spark)
    done = finished_rows(spark, directory) if is_begun(directory) else None
    turns: dict[int, list[RowSeries]] = {}
    for each in campaign.plan.series:
        turns.setdefault(each.turn, []).append(each)
    parts = []
    for _, some in sorted(turns.items()):
        left = frame(spark, some)
        left = left if done is None else left.join(done, "row", "left_anti")
        rows = sum(each.end - each.first for each in some)
        if some[0].is_isolated:
            # With so few rows, each range has one row, so that no row waits for another.
            left = left.repartitionByRange(min(rows, ALONE_PARTS * cores), "row")
        else:
            parts_of_worlds = max(PARTS * cores, rows // MOST_WORLDS)
            left = left.repartition(min(rows, parts_of_worlds), "row")
        # In this order, a worker that takes over from another one finds the same chunks.
        parts.append(left.sortWithinPartitions("row"))
    return reduce(lambda table, part: table.unionByName(part), parts)


def _cores(spark: SparkSession) -> int:
    """How many tasks run at a time; 8 if a Connect server does not say."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:  # noqa: BLE001 - the class depends on the version of PySpark
        return 8


def _reason(error: Exception) -> str:
    """The line with the Python error in an error of Spark, or else its first line."""
    lines = [each.strip() for each in str(error).splitlines() if each.strip()]
    python = [each for each in lines if "Error: " in each and not each.startswith("at ")]
    return (python or lines or [type(error).__name__])[-1 if python else 0].rstrip(".")
