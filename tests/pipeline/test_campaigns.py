"""Campaigns: every row is done once, whoever dies, and the tables say what the rows came to."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from typer.testing import CliRunner

from streamproof.cli import app
from streamproof.reports.campaigns import executing, running
from streamproof.reports.campaigns.executing import Worker
from streamproof.reports.campaigns.isolating import Order
from streamproof.reports.campaigns.plan import Plan, read_plan
from streamproof.reports.campaigns.running import Campaign, Progress, opened, run
from streamproof.reports.campaigns.storing import Found, Tally
from streamproof.reports.campaigns.tables import TableName, read_table
from streamproof.reports.campaigns.units import IDENTITY, Unit, row_id
from streamproof.reports.runlog import read_run_log
from streamproof.sim.exploration import explore
from streamproof.sim.trace import Event
from streamproof.sim.trace_files import read_trace
from streamproof.stores.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

COMMAND = Path(sys.executable).parent / "streamproof"

# The workers of Spark cannot import a test; so what it gives them goes along as code.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def plan_of(tmp_path: Path, text: str) -> Plan:
    path = tmp_path / "plan.toml"
    path.write_text(text, "utf-8")
    return read_plan(path)


def carried_out(
    spark: SparkSession, tmp_path: Path, text: str, chunk: int = 4
) -> tuple[Campaign, Progress]:
    campaign = opened(plan_of(tmp_path, text), tmp_path / "out")
    return campaign, run(spark, campaign, lambda _: None, chunk)


def rows(spark: SparkSession, campaign: Campaign, name: TableName = "runs") -> list[Row]:
    return list(read_table(spark, campaign.directory, name).collect())


def test_worlds_are_those_that_an_exploration_runs(spark: SparkSession, tmp_path: Path) -> None:
    """The same seeds come to the same digests, marks and failures."""
    text = "[[simulate]]\nseeds = [0, 6]\ndefects = ['', 'commits-last-record']"
    campaign, progress = carried_out(spark, tmp_path, text)
    found = rows(spark, campaign)
    assert progress.rows == progress.tally.rows == len(found) == 12
    expected = {
        (defect, each.seed): each
        for defect in ("", "commits-last-record")
        for each in explore(range(6), defect=defect)
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
    assert failed
    assert {each["row"] for each in failures} == failed
    # By default, only the events of worlds that failed are kept.
    assert {each["run"] for each in rows(spark, campaign, "events")} == failed


def test_events_are_those_of_the_world(spark: SparkSession, tmp_path: Path) -> None:
    """Every file of events is a trace, with a run for each row."""
    text = "[[simulate]]\nseeds = [0, 3]\nkeep_events = 'all'"
    campaign, _ = carried_out(spark, tmp_path, text)
    counts = {each["row"]: each["events"] for each in rows(spark, campaign)}
    kept = Counter(each["run"] for each in rows(spark, campaign, "events"))
    assert kept == counts
    events = [each for path in campaign.directory.glob("events/*") for each in read_trace(path)]
    assert len(events) == sum(counts.values())
    assert all(isinstance(each, Event) for each in events)


def test_none_of_the_events_are_kept_if_none_is_wanted(spark: SparkSession, tmp_path: Path) -> None:
    text = "[[simulate]]\nseeds = [0, 4]\ndefects = ['commits-last-record']\nkeep_events = 'none'"
    campaign, progress = carried_out(spark, tmp_path, text)
    assert progress.tally.outcomes["fail"]
    assert list(campaign.directory.glob("events/*")) == []


REAL = """
[[simulate]]
seeds = [0, 1]
subjects = ["rocksdb"]
keep_events = "all"
[[scenarios]]
names = ["KAFKA-10167"]
subjects = ["", "rocksdb"]
[[verify]]
subjects = ["streamproof.conformance.mutants.stores:tombstones_dropped_on_commit"]
profiles = ["smoke"]
only = ["KV-004", "KV-001"]
"""


def test_real_stores_scenarios_and_verifications(spark: SparkSession, tmp_path: Path) -> None:
    """A real store has processes of its own; the log of a verification is kept with its tables."""
    campaign, _ = carried_out(spark, tmp_path, REAL)
    found = rows(spark, campaign)
    outcomes = Counter((each["kind"], each["subject"], each["outcome"]) for each in found)
    mutant = "streamproof.conformance.mutants.stores:tombstones_dropped_on_commit"
    assert outcomes == {
        ("simulate", "rocksdb", "pass"): 1,
        ("scenario", "", "pass"): 2,
        ("scenario", "rocksdb", "pass"): 2,
        ("verify", mutant, "fail"): 1,
    }
    (world,) = (each for each in found if each["kind"] == "simulate")
    kept = Counter(each["run"] for each in rows(spark, campaign, "events"))
    assert kept == {world["row"]: world["events"]}
    (judged,) = (each for each in found if each["kind"] == "verify")
    log = read_run_log(campaign.directory / "logs" / judged["row"] / "run.ndjson")
    results = rows(spark, campaign, "results")
    assert {(each["requirement"], each["status"]) for each in results} == {
        (each.requirement, each.status) for each in log.results
    }
    assert {each["row"] for each in results} == {judged["row"]}
    (failure,) = rows(spark, campaign, "failures")
    assert (failure["requirement"], failure["found"]) == ("KV-004", log.failures[0].found)
    assert (campaign.directory / failure["saved"]).is_file()
    assert judged["run_id"] == log.header.run_id


SUBJECTS = """
import os, signal, time
from streamproof.stores.memory import InMemoryKeyValueStore

class Own(InMemoryKeyValueStore):
    def __init__(self):
        super().__init__("store")

class Stuck(Own):
    def put(self, key, value):
        time.sleep(3600)

class Killer(Own):
    def put(self, key, value):
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_store_that_hangs_or_kills_its_process(spark: SparkSession, tmp_path: Path) -> None:
    """There is no answer for its row, and all the others are done."""
    module = tmp_path / "subjects.py"
    module.write_text(SUBJECTS, "utf-8")
    text = "\n".join(
        f"[[simulate]]\nseeds = [0, 1]\nlimit_s = {limit_s}\nsubjects = ['{subject}']"
        for subject, limit_s in (
            (f"{module}:Stuck", 8),
            (f"{module}:Killer", 60),
            ("", 60),
        )
    )
    campaign, _ = carried_out(spark, tmp_path, text)
    problems = {
        each["subject"]: (each["outcome"], each["problem"]) for each in rows(spark, campaign)
    }
    assert problems[""] == ("pass", "")
    outcome, problem = problems[f"{module}:Stuck"]
    assert (outcome, problem) == (
        "error",
        "it took longer than 8 s, and was ended; see limit_s in the plan",
    )
    outcome, problem = problems[f"{module}:Killer"]
    assert outcome == "error"
    assert problem.startswith("its process died of SIGKILL, without an answer")


def test_a_row_does_not_outlive_its_worker(tmp_path: Path) -> None:
    """Its process ends with the input that only the worker has the other end of."""
    module = tmp_path / "subjects.py"
    module.write_text(SUBJECTS, "utf-8")
    values = ("simulate", f"{module}:Stuck", "", "", "", '{"limit_s":60.0}', 0)
    unit = Unit(row=row_id(*values), **dict(zip(IDENTITY, values, strict=True)))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    order = Order(unit=unit, directory=str(tmp_path), scratch=str(scratch))
    row = subprocess.Popen(
        [sys.executable, "-P", "-m", "streamproof.campaign_row"],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    row.communicate(msgspec.json.encode(order) + b"\n")
    assert row.returncode == -signal.SIGKILL
    assert not (scratch / "found.json").exists()


def test_a_world_that_takes_too_long(spark: SparkSession, tmp_path: Path) -> None:
    text = "[[simulate]]\nseeds = [0, 3]\nlimit_s = 0.0001\nkeep_events = 'all'"
    campaign, progress = carried_out(spark, tmp_path, text)
    assert progress.tally.outcomes == {"error": 3}
    for each in rows(spark, campaign):
        assert each["problem"].startswith("it took longer than 0.0001 s")
        assert each["command"] == f"streamproof explore --seed {each['seed']} --runs 1"
    assert rows(spark, campaign, "events") == []


class KilledWorker(Worker):
    """A worker that somebody kills while it runs row 7, and row 100.

    Row 101 kills any process that it is run in.
    """

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        perform, isolated = executing.perform, executing.isolated
        module = Path(self.directory).parent / "subjects.py"

        def die(unit: Unit, *arguments: Any) -> Found:
            if unit.seed in {7, 100, 101}:
                os.kill(os.getpid(), signal.SIGKILL)
            return perform(unit, *arguments)

        def die_again(unit: Unit, *arguments: Any) -> Found:
            if unit.seed == 101:
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
    text = "[[simulate]]\nseeds = [0, 12]\n[[simulate]]\nseeds = [100, 102]"
    campaign, progress = carried_out(spark, tmp_path, text)
    found = {each["seed"]: each for each in rows(spark, campaign)}
    assert sorted(found) == [*range(12), 100, 101]
    assert progress.tally.rows == 14
    assert [seed for seed, each in found.items() if each["outcome"] == "error"] == [101]
    assert found[101]["problem"].startswith("its process died of SIGKILL, without an answer")
    for each in explore([7, 100]):
        assert found[each.seed]["digest"] == each.digest
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
    campaign, _ = carried_out(spark, tmp_path, "[[simulate]]\nseeds = [0, 20]")
    assert sorted(each["seed"] for each in rows(spark, campaign)) == [*range(20)]
    tables = [pq.read_table(each) for each in campaign.directory.glob("runs/*")]
    assert sum(len(each) for each in tables) == 20


def test_workers_that_cannot_run_anything(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A campaign does not try again and again what never works."""

    class Broken(Worker):
        def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            raise ModuleNotFoundError("No module named 'streamproof'")

    monkeypatch.setattr(running, "Worker", Broken)
    with pytest.raises(UsageError, match=r"cannot run rows: .*No module named 'streamproof'"):
        carried_out(spark, tmp_path, "[[simulate]]\nseeds = [0, 1]")


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def foreign(path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), path)


def test_files_that_cannot_be_read_are_made_again(spark: SparkSession, tmp_path: Path) -> None:
    """They are put aside with all of their chunk; nothing is counted twice, and the rest stays."""
    text = "[[simulate]]\nseeds = [0, 6]\ndefects = ['commits-last-record']"
    campaign, _ = carried_out(spark, tmp_path, text, chunk=1)
    before = {each["row"]: each["digest"] for each in rows(spark, campaign)}
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
    assert {each["row"]: each["digest"] for each in rows(spark, again)} == before
    assert len(rows(spark, again)) == 6
    assert {each: each.stat().st_mtime_ns for each in others} == written


def test_what_was_not_finished_does_not_count(spark: SparkSession, tmp_path: Path) -> None:
    """Not for a reader, and not for the next run of the command, which deletes it and says so."""
    text = "[[simulate]]\nseeds = [0, 4]\ndefects = ['commits-last-record']"
    campaign, _ = carried_out(spark, tmp_path, text, chunk=1)
    failures = len(rows(spark, campaign, "failures"))
    name = min((campaign.directory / "failures").iterdir()).name
    # As if the process had been killed before the last of the files of this chunk.
    (campaign.directory / "runs" / name).unlink()
    (campaign.directory / "runs" / f".{name}-1").write_bytes(b"PAR1")
    assert len(rows(spark, campaign)) == 3
    assert len(rows(spark, campaign, "failures")) < failures
    again = opened(campaign.plan, campaign.directory)
    assert again.mended == ("3 files that were not finished are made again.",)
    run(spark, again, lambda _: None, 1)
    assert len(rows(spark, again)) == 4
    assert len(rows(spark, again, "failures")) == failures


def test_a_row_in_two_files_counts_once(spark: SparkSession, tmp_path: Path) -> None:
    """As it may be where a cluster has lost a worker that lived on."""
    text = "[[simulate]]\nseeds = [0, 3]\ndefects = ['commits-last-record']"
    campaign, _ = carried_out(spark, tmp_path, text, chunk=3)
    counts = {name: len(rows(spark, campaign, name)) for name in ("runs", "failures", "events")}
    for path in list(campaign.directory.glob("*/*.parquet")):
        path.with_name(f"f{path.name}").write_bytes(path.read_bytes())
    assert {name: len(rows(spark, campaign, name)) for name in counts} == counts


def test_another_plan_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "out"
    opened(plan_of(tmp_path, "[[simulate]]\nseeds = [0, 4]"), directory)
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


def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "[[simulate]]\nseeds = [0, 4]")
    with pytest.raises(UsageError, match="is no directory of a campaign"):
        opened(plan, tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["plan.toml"]


def test_what_is_no_campaign_has_no_tables(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no campaign\.json"):
        read_table(spark, tmp_path, "runs")


def test_the_command_sums_up(spark: SparkSession, tmp_path: Path) -> None:
    """Kinds and outcomes, distinct failures, what never came about, and how to see the worst."""
    plan_of(
        tmp_path,
        "[[simulate]]\nseeds = [0, 8]\ndefects = ['commits-last-record']\ntopologies = ['count']",
    )
    out = tmp_path / "out"
    asked = ["campaign", str(tmp_path / "plan.toml"), "--out", str(out)]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 1, done.output
    failed = rows(spark, opened(read_plan(tmp_path / "plan.toml"), out), "failures")
    for each in failed:
        assert f"{each['requirement']} {each['shape']}" in done.output
    assert "8 of 8 rows" in done.output
    assert "Marks never reached: " in done.output
    command = shlex.split(done.output.splitlines()[-1])
    assert command[:3] == ["$", "streamproof", "explore"]
    assert int(command[command.index("--seed") + 1]) in {each["seed"] for each in failed}
    assert Path(command[-1]).read_text() == 'topologies = ["count"]\n'
    again = CliRunner().invoke(app, asked)
    assert again.exit_code == 1
    assert "8 of 8 rows, 0.0/s" in again.output


def started(plan: Path, out: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [COMMAND, "campaign", plan, "--out", out, "--jobs", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=plan.parent,
    )


def wait_for_rows(process: subprocess.Popen[str], out: Path, least: int) -> int:
    """Wait until so many rows are done; how many there are."""
    tally = Tally(out)
    while tally.rows < least:
        assert process.poll() is None
        time.sleep(0.05)
        tally.look()
    return tally.rows


def test_a_driver_that_is_killed_and_one_that_is_interrupted(
    spark: SparkSession, tmp_path: Path
) -> None:
    """What is finished stays, and the same command goes on with the rest."""
    plan = plan_of(tmp_path, "[[simulate]]\nseeds = [0, 240]")
    out = tmp_path / "out"
    first = started(plan.path, out)
    killed_at = wait_for_rows(first, out, 1)
    with pytest.raises(UsageError, match="another process carries out a campaign there"):
        opened(plan, out)
    first.kill()
    first.communicate()
    assert killed_at < 240
    second = started(plan.path, out)
    wait_for_rows(second, out, killed_at + 1)
    second.send_signal(signal.SIGINT)
    output, _ = second.communicate()
    assert second.returncode == 130
    assert output.splitlines()[-1] == f"  $ streamproof campaign {plan.path} --out {out} --jobs 2"
    campaign = opened(plan, out)
    progress = run(spark, campaign, lambda _: None)
    assert 0 < progress.before < 240
    found = rows(spark, campaign)
    assert sorted(each["seed"] for each in found) == [*range(240)]
    assert progress.tally.rows == 240
