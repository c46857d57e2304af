"""Workloads: what is sent is known, and has every trait that is asked for."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamproof.errors import UsageError
from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.choices import Choices
from streamproof.sim.fault_sites import SITES
from streamproof.sim.topologies import TOPOLOGIES
from streamproof.sim.topology import partition_for
from streamproof.sim.workloads import Workload, WorkloadConfig
from streamproof.sim.world import World

JOIN = TOPOLOGIES["stream-table-join"].topology(3)


def run(config: WorkloadConfig, seed: int = 0) -> tuple[Workload, Cluster, World]:
    """Everything that a workload sends into a join, with all markers written."""
    world = World(Choices.seeded(seed), activation=0)
    cluster = Cluster(world, JOIN.topics)
    workload = Workload(world, cluster, JOIN, config)
    world.time.run(until=workload.ended)
    world.time.run(until=world.now + 1_000)
    return workload, cluster, world


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_what_is_sent_is_what_readers_see(seed: int) -> None:
    """Of any workload: the committed records are those that it says it has sent, in order."""
    config = WorkloadConfig.drawn(Choices.seeded(seed), records=40)
    workload, cluster, _ = run(config, seed)
    for partition, sent in workload.sent.items():
        assert [(each.offset, each.key, each.value, each.timestamp) for each in sent] == [
            (each.offset, each.key, each.value, each.timestamp)
            for each in cluster.committed_records(partition)
        ]
    for topic in JOIN.inputs:
        entries = [
            each
            for partition in cluster.partitions_of(topic)
            for each in cluster.logs[partition].entries
            if not each.control
        ]
        assert len(entries) == 40


def test_a_plain_workload() -> None:
    """On time, with values that are all different, in the partition of the key."""
    workload, cluster, _ = run(WorkloadConfig(records=60, keys=4))
    assert sorted(workload.sent) == sorted(
        partition for topic in ("stream", "table") for partition in cluster.partitions_of(topic)
    )
    records = [each for sent in workload.sent.values() for each in sent]
    assert len({each.value for each in records}) == len(records) == 120
    assert {each.key for each in records} == {b"key-%d" % number for number in range(4)}
    for partition, sent in workload.sent.items():
        assert [each.timestamp for each in sent] == sorted(each.timestamp for each in sent)
        assert all(partition.endswith(f"-{partition_for(each.key, 3)}") for each in sent)


def test_traits() -> None:
    """Skew, late records, tombstones, bursts, aborted records, and markers at the end."""
    config = WorkloadConfig(
        records=300,
        keys=8,
        skewed=True,
        late=0.3,
        tombstones=0.2,
        transactional=0.5,
        aborted=0.3,
        max_burst=10,
    )
    workload, cluster, _ = run(config, seed=3)
    records = [each for sent in workload.sent.values() for each in sent]
    frequent = [sum(each.key == b"key-%d" % number for each in records) for number in range(8)]
    assert frequent[0] > 3 * frequent[7] > 0
    assert 300 < len(records) < 600
    assert any(each.value is None for each in records)
    late = 0
    for sent in workload.sent.values():
        times = [each.timestamp for each in sent]
        late += sum(after < before for before, after in pairwise(times))
    assert late > 20
    ends = [
        log.entries[-1].control
        for partition, log in cluster.logs.items()
        if partition in workload.sent
    ]
    assert any(ends)


def test_topics_have_their_own_pace() -> None:
    """In some run, one topic ends long before the other."""
    apart = []
    for seed in range(10):
        workload, _, _ = run(WorkloadConfig(records=50), seed)
        ends = [
            max(
                each.timestamp
                for partition, sent in workload.sent.items()
                for each in sent
                if partition.startswith(topic)
            )
            for topic in JOIN.inputs
        ]
        apart.append(max(ends) / min(ends))
    assert max(apart) > 2


@pytest.mark.parametrize("seed", range(8))
def test_few_records_come_after_the_last_fault(seed: int) -> None:
    """Not more than the bound for each topic, besides those of an open transaction."""
    world = World(Choices.seeded(seed), activation=0)
    cluster = Cluster(world, JOIN.topics)
    healed = world.time.event()
    config = WorkloadConfig(records_after_faults=7, transactional=0.5, aborted=0.0)
    workload = Workload(world, cluster, JOIN, config, healed)
    world.time.run(until=1_500)
    before = _records(workload)
    healed.succeed()
    world.time.run(until=workload.ended)
    after = {topic: count - before[topic] for topic, count in _records(workload).items()}
    assert all(0 < count < 7 + config.max_burst for count in after.values())
    assert max(_records(workload).values()) < config.records


def _records(workload: Workload) -> dict[str, int]:
    """How many records each topic was sent."""
    counts = dict.fromkeys(JOIN.inputs, 0)
    for partition, sent in workload.sent.items():
        counts[partition.rpartition("-")[0]] += len(sent)
    return counts


def test_same_choices_same_workload() -> None:
    """And other choices, another one."""
    config = WorkloadConfig(records=30, transactional=0.5, late=0.5)
    digests = [run(config, seed)[2].trace.digest for seed in (5, 5, 6)]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"keys": 0}, "keys is 0; give at least 1"),
        ({"max_burst": -1}, "max_burst is -1"),
        ({"late": 1.5}, "late is 1.5; give a share from 0 to 1"),
        ({"aborted": -0.1}, "aborted is -0.1"),
        ({"records": -1}, "records is -1 .* give 0 or more records"),
        ({"records_after_faults": 0}, "records_after_faults is 0; give at least 1, or -1"),
        ({"max_open_ms": 60_000}, "max_open_ms is 60000; .* less than 60000"),
    ],
)
def test_what_is_impossible_is_refused(wrong: dict[str, Any], message: str) -> None:
    """With the number, and what is allowed."""
    with pytest.raises(UsageError, match=message):
        WorkloadConfig(**wrong)


def test_a_coordinator_that_is_away_is_waited_for() -> None:
    """And a transactional id that has expired is taken anew: everything arrives in the end."""
    sites = {"broker.failed_over": 0.9, "broker.transactional_id_expired": 0.9}
    world = World(Choices.seeded(2), sites={**SITES, **sites}, activation=1)
    cluster = Cluster(world, JOIN.topics)
    config = WorkloadConfig(records=60, transactional=0.8, max_pause_ms=2_000)
    workload = Workload(world, cluster, JOIN, config)
    world.time.run(until=workload.ended)
    world.faults.stop()
    world.time.run(until=world.now + 30_000)
    assert world.faults.fired["broker.failed_over"] > 0
    assert world.faults.fired["broker.transactional_id_expired"] > 0
    for partition, sent in workload.sent.items():
        records = cluster.committed_records(partition)
        assert [each.offset for each in sent] == [each.offset for each in records]
