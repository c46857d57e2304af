"""The defects of processing: each is caught, by the invariant that is named for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamproof.sim.application import StreamsConfig
from streamproof.sim.choices import Choices
from streamproof.sim.decisions.idling import Mode
from streamproof.sim.defects import DEFECTS
from streamproof.sim.simulation import run
from streamproof.sim.workloads import WorkloadConfig
from streamproof.sim.world_plan import Plan

CALM = Plan(
    partitions=2,
    instances=1,
    kinds=(),
    activation=0,
    safety_ms=20_000,
    workload=WorkloadConfig(records=60, max_pause_ms=100),
)

LATE = replace(CALM.workload, late=0.4)

CROWDED = replace(CALM.workload, max_pause_ms=20)

RESTARTED = replace(CALM, topology="session-count", kinds=("crash", "bounce"), workload=LATE)

PLANS: dict[str, Plan] = {
    # In a calm run, the logs end as they should.
    "sends-outside-the-transaction": replace(CALM, topology="count"),
    "forgets-partition-times": RESTARTED,
    "leaves-caches-unflushed": replace(
        CALM, topology="count", config=StreamsConfig(statestore_cache_max_bytes=100_000)
    ),
    "chooses-by-largest-time": replace(
        CALM, topology="stream-stream-join", workload=replace(CROWDED, late=0.4)
    ),
    "ignores-lag": replace(CALM, topology="stream-table-join", activation=1, workload=CROWDED),
    "counts-open-transactions-as-lag": replace(
        CALM, topology="stream-table-join", workload=replace(CROWDED, transactional=1.0)
    ),
    "leaves-input-paused": replace(
        CALM, topology="stateless", config=StreamsConfig(buffered_records_per_partition=1)
    ),
    "punctuates-while-paused": replace(CALM, topology="punctuated-count", kinds=("hold",)),
    "forgets-punctuations": replace(CALM, topology="punctuated-count"),
    "counts-one-task-alone": replace(
        CALM,
        topology="count",
        partitions=3,
        config=StreamsConfig(
            transactional=True, commit_interval_ms=9_000, max_uncommitted_bytes=30
        ),
        workload=replace(CALM.workload, keys=20),
    ),
    "global-table-reads-aborted": replace(
        CALM,
        topology="global-table-join",
        workload=replace(CALM.workload, transactional=0.7, aborted=0.7),
    ),
}

SEEDS = 60
"""So many runs are enough for each of them."""


@pytest.mark.parametrize("defect", PLANS)
def test_it_is_caught(defect: str) -> None:
    """In one of a few runs, by the promise that it is said to break."""
    found = (
        {
            each.requirement
            for each in run(Choices.seeded(seed), PLANS[defect], defects=[defect]).violations
        }
        for seed in range(SEEDS)
    )
    assert any(DEFECTS[defect].requirement in each for each in found)


@pytest.mark.parametrize("mode", ["proposal", "kafka"])
@pytest.mark.parametrize("defect", PLANS)
def test_the_same_without_a_defect_holds(defect: str, mode: Mode) -> None:
    """The plans break nothing by themselves, by the rules of the proposal and as shipped."""
    plan = PLANS[defect]
    plan = replace(plan, config=replace(plan.config, idling=mode))
    for seed in range(2):
        assert run(Choices.seeded(seed), plan).violations == []
