"""A campaign: rows of a plan that are not done yet, handed to Spark until all are."""

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
from streamproof.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["CampaignDirectory", "Progress", "opened", "pending", "run"]

PARTS = 4
"""Partitions of worlds for each core: few, because a task of Spark costs about 40 ms, and more
than one, because some take longer than others."""

MOST_WORLDS = 16 * CHUNK
"""So many worlds a partition has, about, where there are very many: a few minutes of work, so that
a slow machine keeps nobody waiting for hours."""

ALONE_PARTS = 64
"""Partitions for each core, at most, of rows with a process of their own: each takes a second."""

IDLE_JOBS = 3
"""So many jobs in a row may fail without getting any further."""

LOOK_EVERY_S = 1.0
"""How often it is looked what is done, at most."""

LOOKING_SHARE = 0.1
"""How much of the time that may take: a directory with a million files has a long list."""


@dataclass(frozen=True)
class CampaignDirectory:
    """A directory in which a plan is carried out.

    Attributes:
        plan: what is to be done.
        directory: where it is kept; every worker sees it under this path.
        mended: what had to be put in order before it goes on, a sentence each.
    """

    plan: CampaignPlan
    directory: Path
    mended: tuple[str, ...]


@dataclass(frozen=True)
class Progress:
    """How far a campaign is.

    Attributes:
        rows: how many there are in all.
        before: how many were done before this run of the command.
        tally: what is done.
        elapsed_s: seconds since Spark was given the rest.
    """

    rows: int
    before: int
    tally: CampaignTally
    elapsed_s: float

    def __str__(self) -> str:
        # A row that two workers have written, as one that was lost may have, is one row.
        done, failed = min(self.tally.rows, self.rows), self.tally.outcomes["fail"]
        rate = (done - self.before) / max(self.elapsed_s, 0.001)
        text = f"{done:,} of {self.rows:,} rows, {rate:.1f}/s, {failed:,} failed"
        errors = self.tally.outcomes["error"]
        return f"{text}, {errors:,} without an answer" if errors else text


def opened(plan: CampaignPlan, directory: Path) -> CampaignDirectory:
    """A directory for a plan: a new one, or one in which the same plan goes on.

    Raises:
        UsageError: it cannot be written, another plan is carried out there, or another process
            is at work there.
    """
    directory = directory.absolute()
    known = {
        "schema_version": SCHEMA_VERSION,
        "tool_version": __version__,
        "plan_digest": plan.digest,
    }
    try:
        told = _require_same(directory, known)
        for name in (*TABLES, "logs", "swarms"):
            (directory / name).mkdir(parents=True, exist_ok=True)
        _lock(directory)
        # Those of a process that was killed mean nothing now.
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
    """See that no other plan is carried out in a directory; what is to be told of it.

    A plan of which no row is done gives way: it may have been mended since.

    Raises:
        UsageError: one is, or there is something else in it.
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
        found = json.loads(manifest.read_text("utf-8"))
        different = [name for name in wanted if found[name] != wanted[name]]
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{manifest} cannot be read: {error}. Nothing was changed: choose another directory "
            "with --out."
        ) from error
    if different and not is_begun(directory):
        return ["No row was done of the plan that was here before: this one is in its place."]
    if different:
        told = ", ".join(
            f"its {name} is {found[name]}, and this one's is {wanted[name]}" for name in different
        )
        raise UsageError(
            f"{directory} has another campaign: {told}. Choose another directory with --out."
        )
    return []


def _lock(directory: Path) -> None:
    """Keep other processes out until this one ends: what they have not finished is not theirs.

    Raises:
        UsageError: another process is at work there.
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
    """Carry out what is not done yet; how far it is in the end.

    Args:
        spark: the session.
        campaign: the directory, and the plan.
        tell: is told how far it is, about once a second.
        chunk: rows that are written together.

    Raises:
        UsageError: the workers of Spark cannot run rows, or have no room for what they find.
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
                # To try again would cost all the rows of a chunk, and end in the same way.
                raise UsageError(
                    f"The disk is full: {_reason(error)}. Make room in {directory}, and where "
                    "workers have their databases. What is finished is kept, and the same "
                    "command goes on."
                ) from error
            # A row during which a worker has died is done in a process of its own from now on: so
            # a job that had too many of them gets further when it is begun again.
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
    """Let Spark run what is left; why it has given up, or ``None``."""
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
    """The rows that are not done, shared out: those that may take longest come first.

    Spark begins the partitions in their order. So no core is left with an hour of work when the
    others have none.

    Args:
        spark: the session; the more it does at a time, the more partitions there are.
        campaign: the plan, and the directory that says what is done.
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
            # Ranges of so few rows have a row each: none of them waits for another one's end.
            left = left.repartitionByRange(min(rows, ALONE_PARTS * cores), "row")
        else:
            parts_of_worlds = max(PARTS * cores, rows // MOST_WORLDS)
            left = left.repartition(min(rows, parts_of_worlds), "row")
        # A worker that takes over from another one so finds the same chunks.
        parts.append(left.sortWithinPartitions("row"))
    return reduce(lambda table, part: table.unionByName(part), parts)


def _cores(spark: SparkSession) -> int:
    """How many tasks run at a time; 8, where a Connect server does not tell."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:  # noqa: BLE001 - the class depends on the version of PySpark
        return 8


def _reason(error: Exception) -> str:
    """The line of an error of Spark that says what went wrong in Python, or else its first."""
    lines = [each.strip() for each in str(error).splitlines() if each.strip()]
    python = [each for each in lines if "Error: " in each and not each.startswith("at ")]
    return (python or lines or [type(error).__name__])[-1 if python else 0].rstrip(".")
