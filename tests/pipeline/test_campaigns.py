"""Campaigns: every row is done once, whoever dies, and the tables say what the rows came to."""

from __future__ import annotations

import errno
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from campaign_plans import FAULTY, SUBJECTS, plan_of, worlds
from pyspark import cloudpickle
from pyspark.sql import functions as f
from typer.testing import CliRunner

from streamproof.cli import app
from streamproof.errors import UsageError
from streamproof.exit_codes import ExitCode
from streamproof.reports.pipeline.campaigns import driver as running
from streamproof.reports.pipeline.campaigns import executor as executing
from streamproof.reports.pipeline.campaigns.campaign_plan import read_plan
from streamproof.reports.pipeline.campaigns.campaign_tables import TableName, read_table
from streamproof.reports.pipeline.campaigns.chunk_files import CampaignTally, RowRecords
from streamproof.reports.pipeline.campaigns.driver import (
    CampaignDirectory,
    Progress,
    opened,
    pending,
    run,
)
from streamproof.reports.pipeline.campaigns.executor import Worker
from streamproof.reports.pipeline.campaigns.units import Unit
from streamproof.reports.run_log import read_run_log
from streamproof.sim.exploration import SeededWorlds, explore
from streamproof.sim.trace import Event
from streamproof.sim.trace_files import read_trace
from streamproof.sim.world_plan import WORLD_VERSION

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

COMMAND = Path(sys.executable).parent / "streamproof"

# The workers of Spark cannot import a test; so what it gives them goes along as code.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def carried_out(
    spark: SparkSession, tmp_path: Path, text: str, chunk: int = 4
) -> tuple[CampaignDirectory, Progress]:
    campaign = opened(plan_of(tmp_path, text), tmp_path / "out")
    return campaign, run(spark, campaign, lambda _: None, chunk)


def rows(spark: SparkSession, campaign: CampaignDirectory, name: TableName = "runs") -> list[Row]:
    """What a reader of a campaign sees."""
    return list(read_table(spark, campaign.directory, name).collect())


def files(campaign: CampaignDirectory, name: TableName = "runs") -> list[dict[str, Any]]:
    """What the workers have written: each row once, if no reader has to look at that."""
    paths = sorted((campaign.directory / name).glob("*.parquet"))
    return [row for path in paths for row in pq.read_table(path).to_pylist()]


def test_worlds_are_those_that_an_exploration_runs(spark: SparkSession, tmp_path: Path) -> None:
    """The same seeds come to the same digests, marks and failures."""
    text = worlds(0, 4, "defects = ['', 'commits-last-record']")
    campaign, progress = carried_out(spark, tmp_path, text)
    found = rows(spark, campaign)
    assert progress.rows == progress.tally.rows == len(found) == 8
    swarm = campaign.plan.series[0].conditions.swarm
    expected = {
        (defect, each.seed): each
        for defect in ("", "commits-last-record")
        for each in explore(range(4), SeededWorlds(swarm, defect))
    }
    for row in found:
        one = expected.pop((row["defect"], row["seed"]))
        assert (row["digest"], row["events"], row["topology"]) == (
            one.digest,
            one.events,
            one.topology,
        )
        assert row["outcome"] == ("fail" if one.violations else "pass")
        assert row["marks"] == {name: hits for name, hits in one.marks.items() if hits}
        assert row["guarantee"] == ("exactly-once" if one.exactly_once else "at-least-once")
    assert not expected
    failures = rows(spark, campaign, "failures")
    failed = {each["row"] for each in found if each["outcome"] == "fail"}
    assert len(failed) == 3
    assert {each["row"] for each in failures} == failed
    # By default, only the events of worlds that failed are kept.
    assert {each["run"] for each in rows(spark, campaign, "events")} == failed


def test_events_are_kept_of_the_worlds_that_the_plan_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Every file of events is a trace, with a run for each row."""
    text = worlds(0, 3, "keep_events = 'all'") + worlds(0, 2, FAULTY, "keep_events = 'none'")
    campaign, progress = carried_out(spark, tmp_path, text)
    assert progress.tally.outcomes == {"pass": 3, "fail": 2}
    counts = {each["row"]: each["events"] for each in files(campaign) if not each["defect"]}
    assert Counter(each["run"] for each in files(campaign, "events")) == counts
    events = [each for path in campaign.directory.glob("events/*") for each in read_trace(path)]
    assert len(events) == sum(counts.values())
    assert all(isinstance(each, Event) for each in events)


REAL = """
[[scenarios]]
names = ["KAFKA-10167"]
variants = ["fixed"]
subjects = ["", "rocksdb"]
[[verify]]
subjects = ["streamproof.conformance.mutants.store_mutants:tombstones_dropped_on_commit"]
profiles = ["smoke"]
only = ["KV-004", "KV-001"]
"""


def test_real_stores_scenarios_and_verifications(spark: SparkSession, tmp_path: Path) -> None:
    """A real store has processes of its own; the log of a verification is kept with its tables."""
    world = worlds(0, 1, "subjects = ['rocksdb']", "keep_events = 'all'")
    campaign, _ = carried_out(spark, tmp_path, world + REAL)
    found = files(campaign)
    outcomes = Counter((each["kind"], each["subject"], each["outcome"]) for each in found)
    mutant = "streamproof.conformance.mutants.store_mutants:tombstones_dropped_on_commit"
    assert outcomes == {
        ("simulate", "rocksdb", "pass"): 1,
        ("scenario", "", "pass"): 1,
        ("scenario", "rocksdb", "pass"): 1,
        ("verify", mutant, "fail"): 1,
    }
    (world_row,) = (each for each in found if each["kind"] == "simulate")
    kept = Counter(each["run"] for each in files(campaign, "events"))
    assert kept == {world_row["row"]: world_row["events"]}
    (judged,) = (each for each in found if each["kind"] == "verify")
    log = read_run_log(campaign.directory / "logs" / judged["row"] / "run.ndjson")
    results = files(campaign, "results")
    assert {(each["requirement"], each["status"]) for each in results} == {
        (each.requirement, each.status) for each in log.results
    }
    assert {each["row"] for each in results} == {judged["row"]}
    (failure,) = files(campaign, "failures")
    assert (failure["requirement"], failure["found"]) == ("KV-004", log.failures[0].found)
    assert (campaign.directory / failure["saved"]).is_file()
    assert judged["run_id"] == log.header.run_id


def test_a_world_that_takes_too_long(spark: SparkSession, tmp_path: Path) -> None:
    text = "[[simulate]]\nseeds = [0, 2]\nlimit_s = 0.0001\nkeep_events = 'all'"
    campaign, progress = carried_out(spark, tmp_path, text)
    assert progress.tally.outcomes == {"error": 2}
    for each in files(campaign):
        assert each["problem"].startswith("it took longer than 0.0001 s")
        assert each["command"] == f"streamproof explore --seed {each['seed']} --runs 1"
    assert files(campaign, "events") == []


class KilledWorker(Worker):
    """A worker that somebody kills while it runs row 2; row 5 kills any process it is run in."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        perform, isolated = executing.perform, executing.isolated
        module = Path(self.directory).parent / "subjects.py"

        def die(unit: Unit, *arguments: Any) -> RowRecords:
            if unit.seed in {2, 5}:
                os.kill(os.getpid(), signal.SIGKILL)
            return perform(unit, *arguments)

        def die_again(unit: Unit, *arguments: Any) -> RowRecords:
            if unit.seed == 5:
                unit = msgspec.structs.replace(unit, subject=f"{module}:Killer")
            return isolated(unit, *arguments)

        executing.perform, executing.isolated = die, die_again
        try:
            yield from super().__call__(batches)
        finally:
            executing.perform, executing.isolated = perform, isolated


def test_rows_during_which_a_worker_dies(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was killed by chance is done; a row that kills its process is an error."""
    (tmp_path / "subjects.py").write_text(SUBJECTS, "utf-8")
    monkeypatch.setattr(running, "Worker", KilledWorker)
    campaign, progress = carried_out(spark, tmp_path, worlds(0, 6))
    found = {each["seed"]: each for each in rows(spark, campaign)}
    assert sorted(found) == [*range(6)]
    assert progress.tally.rows == 6
    assert [seed for seed, each in found.items() if each["outcome"] == "error"] == [5]
    assert found[5]["problem"].startswith("its process died of SIGKILL, without an answer")
    swarm = campaign.plan.series[0].conditions.swarm
    (by_chance,) = explore([2], SeededWorlds(swarm))
    assert found[2]["digest"] == by_chance.digest
    assert list((campaign.directory / "attempts").iterdir()) == []


class LostWorker(Worker):
    """A worker whose answer is lost after it has written its first chunk."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        lost = Path(self.directory, "logs", "lost")
        for batch in super().__call__(batches):
            if not lost.exists():
                lost.touch()
                raise ConnectionResetError
            yield batch


def test_a_chunk_whose_answer_was_lost_is_not_done_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "Worker", LostWorker)
    campaign, _ = carried_out(spark, tmp_path, worlds(0, 12))
    assert (campaign.directory / "logs" / "lost").exists()
    assert sorted(each["seed"] for each in files(campaign)) == [*range(12)]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            ModuleNotFoundError("No module named 'streamproof'"),
            r"cannot run rows: .*No module named 'streamproof'",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            r"The disk is full: OSError: \[Errno 28\] No space left on device\. Make room",
        ),
    ],
)
def test_workers_that_cannot_run_anything(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    told: str,
) -> None:
    """A campaign does not try again and again what never works."""

    class Broken(Worker):
        def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            raise error

    monkeypatch.setattr(running, "Worker", Broken)
    with pytest.raises(UsageError, match=told):
        carried_out(spark, tmp_path, worlds(0, 1))


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def foreign(path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), path)


def test_files_that_cannot_be_read_are_made_again(spark: SparkSession, tmp_path: Path) -> None:
    """They are put aside with all of their chunk; nothing is counted twice, and the rest stays."""
    campaign, _ = carried_out(spark, tmp_path, worlds(0, 5, FAULTY), chunk=1)
    before = {each["row"]: each["digest"] for each in files(campaign)}
    chunks = sorted((campaign.directory / "failures").iterdir())
    damaged = {
        "runs": (chunks[0].name, truncated),
        "failures": (chunks[1].name, foreign),
        "events": (chunks[2].name, truncated),
    }
    for table, (name, damage) in damaged.items():
        damage(campaign.directory / table / name)
    names = {name for name, _ in damaged.values()}
    others = [each for each in campaign.directory.glob("*/*.parquet") if each.name not in names]
    written = {each: each.stat().st_mtime_ns for each in others}
    again = opened(campaign.plan, campaign.directory)
    assert len(again.mended) == 3
    for (table, (name, _)), told in zip(
        sorted(damaged.items(), key=lambda each: each[1][0]), again.mended, strict=True
    ):
        assert told.startswith(f"{name} cannot be read (")
        assert (campaign.directory / "broken" / table / name).exists()
        assert not (campaign.directory / "runs" / name).exists()
    run(spark, again, lambda _: None, 1)
    found = files(again)
    assert {each["row"]: each["digest"] for each in found} == before
    assert len(found) == 5
    assert {each: each.stat().st_mtime_ns for each in others} == written


def test_what_was_not_finished_does_not_count(spark: SparkSession, tmp_path: Path) -> None:
    """Not for a reader, and not for the next run of the command, which deletes it and says so."""
    campaign, _ = carried_out(spark, tmp_path, worlds(0, 4, FAULTY), chunk=1)
    failures = len(files(campaign, "failures"))
    name = min((campaign.directory / "failures").iterdir()).name
    # As if the process had been killed before the last of the files of this chunk.
    (campaign.directory / "runs" / name).unlink()
    (campaign.directory / "runs" / f".{name}-1").write_bytes(b"PAR1")
    assert len(rows(spark, campaign)) == 3
    assert len(rows(spark, campaign, "failures")) < failures
    again = opened(campaign.plan, campaign.directory)
    assert again.mended == ("3 files that were not finished are made again.",)
    run(spark, again, lambda _: None, 1)
    assert len(files(again)) == 4
    assert len(files(again, "failures")) == failures


def test_a_row_in_two_files_counts_once(spark: SparkSession, tmp_path: Path) -> None:
    """As it may be where a cluster has lost a worker that lived on."""
    campaign, _ = carried_out(spark, tmp_path, worlds(0, 3, FAULTY), chunk=3)
    counts = {name: len(files(campaign, name)) for name in ("runs", "failures", "events")}
    assert all(counts.values())
    for path in list(campaign.directory.glob("*/*.parquet")):
        path.with_name(f"f{path.name}").write_bytes(path.read_bytes())
    assert {name: len(rows(spark, campaign, name)) for name in counts} == counts


def test_another_plan_is_refused(tmp_path: Path) -> None:
    """If any row of the one before is done; and a manifest that cannot be understood, always."""
    directory = tmp_path / "out"
    opened(plan_of(tmp_path, "[[simulate]]\nseeds = [0, 4]"), directory)
    (directory / "runs" / "0.parquet").touch()
    other = plan_of(tmp_path, "[[simulate]]\nseeds = [0, 5]")
    with pytest.raises(UsageError, match="has another campaign: its plan_digest is"):
        opened(other, directory)
    manifest = directory / "campaign.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "schema_version": 9}))
    with pytest.raises(UsageError, match="its schema_version is 9, and this one's is 1"):
        opened(plan_of(tmp_path, "[[simulate]]\nseeds = [0, 4]"), directory)
    manifest.write_text("{")
    with pytest.raises(UsageError, match="cannot be read"):
        opened(other, directory)
    assert (directory / "runs" / "0.parquet").exists()


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        ({"world_version": WORLD_VERSION + 1}, f"carries version {WORLD_VERSION + 1} of the"),
        ({}, "carries no version of the"),
    ],
)
def test_rows_of_another_world_are_refused(tmp_path: Path, kept: dict[str, int], told: str) -> None:
    """Before anything runs: the rows of one campaign would come from two worlds."""
    out = tmp_path / "out"
    plan = plan_of(tmp_path, "[[simulate]]\nseeds = [0, 4]")
    opened(plan, out)
    (out / "runs" / "0.parquet").touch()
    manifest = out / "campaign.json"
    content = json.loads(manifest.read_text())
    assert content.pop("world_version") == WORLD_VERSION
    manifest.write_text(json.dumps({**content, **kept}))
    before = manifest.read_bytes()
    # Without a Java, the campaign could not start Spark.
    done = subprocess.run(
        [COMMAND, "campaign", plan.path, "--out", out],
        env={**os.environ, "JAVA_HOME": "/nowhere"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == ExitCode.USAGE, done.stderr
    assert done.stderr.startswith(f"streamproof: {manifest} {told} simulated world, but this")
    assert done.stderr.endswith("Choose another directory with --out.\n")
    assert manifest.read_bytes() == before
    assert [each.name for each in out.glob("runs/*")] == ["0.parquet"]


def test_a_plan_of_which_nothing_is_done_may_be_mended(tmp_path: Path) -> None:
    directory = tmp_path / "out"
    opened(plan_of(tmp_path, "[[simulate]]\nseeds = [0, 4]"), directory)
    other = plan_of(tmp_path, "[[simulate]]\nseeds = [0, 5]")
    (told,) = opened(other, directory).mended
    assert told.startswith("The plan that was here before had no finished row")
    assert json.loads((directory / "campaign.json").read_text())["plan_digest"] == other.digest


def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "[[simulate]]\nseeds = [0, 4]")
    with pytest.raises(UsageError, match="is no directory of a campaign"):
        opened(plan, tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["plan.toml"]


LENGTHS = """
[[simulate]]
seeds = [0, 6]
[[simulate]]
seeds = [0, 3]
subjects = ["rocksdb"]
[[verify]]
subjects = ["in-memory"]
profiles = ["smoke", "full"]
seeds = [0, 5]
"""


def test_what_may_take_longest_is_begun_first(spark: SparkSession, tmp_path: Path) -> None:
    """And no row with a process of its own waits for another one in the same partition."""
    table = pending(spark, opened(plan_of(tmp_path, LENGTHS), tmp_path / "out"))
    parts = table.groupBy(
        f.spark_partition_id().alias("part"),
        "kind",
        f.col("settings").contains("full").alias("full"),
        f.col("subject").alias("subject"),
    ).count()
    found = [tuple(row) for row in parts.orderBy("part").collect()]
    assert [(*what, count) for _, *what, count in found[:13]] == [
        *[("verify", True, "in-memory", 1)] * 5,
        *[("verify", False, "in-memory", 1)] * 5,
        *[("simulate", False, "rocksdb", 1)] * 3,
    ]
    assert {(kind, subject) for _, kind, _, subject, _ in found[13:]} == {("simulate", "")}
    assert sum(count for *_, count in found[13:]) == 6


def test_what_is_no_campaign_has_no_tables(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no campaign\.json"):
        read_table(spark, tmp_path, "runs")


@pytest.mark.usefixtures("spark")
def test_the_command_sums_up(tmp_path: Path) -> None:
    """Kinds and outcomes, distinct failures, what never came about, and how to see the worst."""
    plan_of(
        tmp_path,
        f"[[simulate]]\nseeds = [0, 4]\n{FAULTY}\ntopologies = ['count']",
    )
    out = tmp_path / "out"
    asked = ["campaign", str(tmp_path / "plan.toml"), "--out", str(out)]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 1, done.output
    failed = files(opened(read_plan(tmp_path / "plan.toml"), out), "failures")
    assert failed
    for each in failed:
        assert f"{each['requirement']} {each['shape']}" in done.output
    assert "4 of 4 rows" in done.output
    assert "Marks never reached: " in done.output
    command = shlex.split(done.output.splitlines()[-1])
    assert command[:3] == ["$", "streamproof", "explore"]
    assert int(command[command.index("--seed") + 1]) in {each["seed"] for each in failed}
    assert Path(command[-1]).read_text() == 'topologies = ["count"]\n'
    again = CliRunner().invoke(app, asked)
    assert again.exit_code == 1
    assert "4 of 4 rows, 0.0/s" in again.output


@contextmanager
def started(plan: Path, out: Path) -> Iterator[subprocess.Popen[str]]:
    """The command, which is killed in the end, if it has not ended by then."""
    with subprocess.Popen(
        [COMMAND, "campaign", plan, "--out", out, "--jobs", "3"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=plan.parent,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def rows_done(out: Path) -> int:
    """How many rows are done."""
    tally = CampaignTally(out)
    tally.look()
    return tally.rows


def wait_for_rows(process: subprocess.Popen[str], out: Path, least: int) -> None:
    """Wait until so many rows are done."""
    while rows_done(out) < least:
        assert process.poll() is None
        time.sleep(0.05)


def test_a_driver_that_is_killed_and_one_that_is_interrupted(
    spark: SparkSession, tmp_path: Path
) -> None:
    """What is finished stays, and the same command goes on with the rest.

    Two rows wait for a file to be there, so that none of the three runs can be too quick. Nobody
    may wait for long, because a store that does not answer is given up.
    """
    module = tmp_path / "subjects.py"
    module.write_text(SUBJECTS, "utf-8")
    waiting = f"subjects = ['{module}:First', '{module}:Second']"
    plan = plan_of(tmp_path, worlds(0, 8) + worlds(8, 9, waiting))
    out = tmp_path / "out"
    with started(plan.path, out) as first:
        wait_for_rows(first, out, 1)
        with pytest.raises(UsageError, match="another process carries out a campaign there"):
            opened(plan, out)
        first.kill()
        # Its JVM has the same output, so that this waits for the end of both.
        first.communicate()
    killed = rows_done(out)
    (tmp_path / "First").touch()
    with started(plan.path, out) as second:
        wait_for_rows(second, out, killed + 1)
        second.send_signal(signal.SIGINT)
        output, _ = second.communicate()
    assert second.returncode == 130
    assert output.splitlines()[-1] == f"  $ streamproof campaign {plan.path} --out {out} --jobs 3"
    interrupted = rows_done(out)
    assert 1 <= killed < interrupted < 10
    (tmp_path / "Second").touch()
    campaign = opened(plan, out)
    progress = run(spark, campaign, lambda _: None)
    assert progress.before == interrupted
    assert progress.tally.rows == 10
    found = rows(spark, campaign)
    assert sorted(each["seed"] for each in found) == [*range(8), 8, 8]
    assert {each["outcome"] for each in found} == {"pass"}
