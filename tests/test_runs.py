"""The public functions that run something: what they return, and what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamproof import (
    TraceFile,
    UsageError,
    explore,
    read_run_log,
    read_trace,
    replay,
    simulate,
    verify,
)

MUTANT = "streamproof.conformance.mutants.store_mutants:tombstones_dropped_on_commit"


def test_verify_returns_the_run_log(tmp_path: Path) -> None:
    log = verify("in-memory", only=["KV-004"], profile="smoke", seed=1, jobs=1, out=tmp_path)

    assert log.footer is not None
    assert log.footer.verdict == "success"
    assert [each.requirement for each in log.results] == ["KV-004"]
    assert log == read_run_log(tmp_path / "run.ndjson")
    assert (tmp_path / "report.html").is_file()


def test_verify_returns_failures_with_their_programs(tmp_path: Path) -> None:
    log = verify(MUTANT, only=["KV-004"], profile="smoke", seed=1, jobs=1, out=tmp_path)

    (failure,) = log.failures
    assert failure.program.startswith("from streamproof import ")
    assert list(tmp_path.glob("failures/**/*.json")) != []


@pytest.mark.parametrize(
    ("subjects", "only", "message"),
    [
        ((), (), "There is no subject"),
        (("in-memory", "runtime"), (), "verify them one by one"),
        (("in-memory",), ("KV-999",), "'KV-999'"),
    ],
)
def test_verify_refuses_what_it_cannot_run(
    subjects: tuple[str, ...], only: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=message):
        verify(*subjects, only=only, out=tmp_path / "out")

    assert not (tmp_path / "out").exists()


def test_replay_returns_each_variant() -> None:
    fixed, defect = replay("KAFKA-20685")

    assert fixed.violations == []
    assert defect.violations != []


def test_replay_returns_the_same_run_each_time() -> None:
    (first,), (second,) = (replay("KAFKA-20685@fixed") for _ in range(2))

    assert first.digest == second.digest
    assert first.events == second.events


def test_replay_reads_traces(tmp_path: Path) -> None:
    run = simulate(3)
    with TraceFile(tmp_path / "run.parquet", "three") as file:
        for event in run.events:
            file(event)

    (read,) = replay(tmp_path / "run.parquet")
    assert (read.name, read.events, read.violations) == ("three", run.events, [])
    assert list(read_trace(tmp_path / "run.parquet")) == run.events


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("failure.json", {}, "streamproof replay failure.json"),
        ("run.parquet", {"seed": 1}, "a trace cannot be changed"),
        ("KAFKA-20685", {"run": "one"}, "only traces have runs by name"),
        ("KAFKA-20685@typo", {}, "has no variant 'typo'"),
    ],
)
def test_replay_refuses_what_does_not_fit(
    target: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        replay(target, **options)


def test_explore_keeps_its_runs(tmp_path: Path) -> None:
    found = explore(runs=3, out=tmp_path)

    assert [each.seed for each in found.runs] == [0, 1, 2]
    assert found.findings == []
    assert explore(runs=3, out=tmp_path) == found


def test_a_seed_is_a_world() -> None:
    run = simulate(7)

    assert run.violations == []
    assert run.digest == simulate(7).digest
    assert run.plan is not None


def test_a_world_with_a_plan_and_a_defect() -> None:
    run = simulate(
        4,
        drawn_from={"topologies": ["count"], "guarantees": ["at-least-once"]},
        plan={"instances": 1, "config": {"exactly_once": False}},
        defects=["keeps-stale-offset"],
    )

    assert run.plan is not None
    assert (run.plan.instances, run.plan.config.exactly_once) == (1, False)
    assert run.defects == ("keeps-stale-offset",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"plan": {"instance": 1}}, "plan has no field 'instance'; it has: activation"),
        ({"plan": {"config": {"idle": 1}}}, r"plan\['config'\] has no field 'idle'"),
        ({"plan": {"instances": "two"}}, "plan is wrong: Expected `int`"),
        ({"drawn_from": {"topology": ["count"]}}, "drawn_from is wrong"),
        ({"defects": ["typo"]}, "There is no defect 'typo'"),
    ],
)
def test_a_world_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        simulate(1, **options)
