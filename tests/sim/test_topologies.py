"""Topologies: each one writes what its reference says, in a task alone and in a whole world."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamproof.sim.application import Application, StreamsConfig
from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.choices import Choices
from streamproof.sim.clients.producer import Producer
from streamproof.sim.instances import Instance
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.model_store import ModelDisk, ModelStore
from streamproof.sim.tasks.stream_task import StreamTask, TaskState
from streamproof.sim.tasks.task_config import TaskConfig
from streamproof.sim.topologies import TOPOLOGIES
from streamproof.sim.topologies.joins import GRACE_MS, WINDOW_MS
from streamproof.sim.topologies.reference import Logs, content, differences
from streamproof.sim.topology import Topology, partition_for
from streamproof.sim.trace import Trace
from streamproof.sim.workloads import Workload, WorkloadConfig
from streamproof.sim.world import World
from streamproof.stores.api import StateStoreContext
from streamproof.stores.memory import InMemoryKeyValueStore
from streamproof.stores.runtime.cache import RecordCache

Record = tuple[int, bytes, bytes | None, int]
"""The number of the input, key, value and timestamp."""

RECORDS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from([b"a", b"ab", b"b"]),
        st.sampled_from([b"x", b"y", b"10", b"11", None]),
        st.integers(0, 9_000),
    ),
    max_size=25,
)


class Logged:
    """Takes what a task sends, as a producer does whose brokers are never away."""

    def __init__(self, logs: dict[str, list[LogEntry]]) -> None:
        self.logs = logs
        self.written: dict[str, int] = {}

    def send(self, partition: str, key: bytes, value: bytes | None, timestamp: int) -> None:
        """Append a record."""
        log = self.logs[partition]
        self.written[partition] = len(log)
        log.append(LogEntry(len(log), timestamp, key, value))


def filled(topology: Topology, records: list[Record]) -> dict[str, list[LogEntry]]:
    """Logs with these records in the inputs."""
    logs: dict[str, list[LogEntry]] = {
        f"{topic}-{number}": []
        for topic, count in topology.topics.items()
        for number in range(count)
    }
    for which, key, value, timestamp in records:
        topic = topology.inputs[which % len(topology.inputs)]
        log = logs[f"{topic}-{partition_for(key, topology.partitions[topic])}"]
        log.append(LogEntry(len(log), timestamp, key, value))
    return logs


def run_tasks(
    topology: Topology,
    logs: dict[str, list[LogEntry]],
    *,
    choices: Choices,
    ordered: bool = True,
    cache: RecordCache | None = None,
) -> Logs:
    """Let each task process everything, one after the other, without a fault."""
    producer = cast(Producer, Logged(logs))
    idle = 0 if ordered else -1
    config = TaskConfig(
        exactly_once=True,
        transactional=False,
        max_task_idle_ms=idle,
        mode="proposal",
        partitions=topology.topics,
    )
    tables = dict(global_stores(topology, logs))
    for task_id, spec in topology.tasks.items():
        disk = ModelDisk()
        task = StreamTask(
            task_id,
            spec,
            config,
            choices=choices,
            trace=Trace(lambda: 0),
            actor="test",
            cache=cache,
            global_stores=tables,
        )
        task.open(
            Path(task_id), lambda name, disk=disk: ModelStore(name, disk), producer, was_empty=True
        )
        task.become(TaskState.RUNNING)
        left = {each: list(logs[each]) for each in spec.inputs}
        while any(left.values()):
            # In order, everything is there from the start; else it comes in any portions.
            for partition, records in left.items():
                count = len(records) if ordered else choices.below(len(records) + 1)
                task.queues.add(partition, records[:count])
                del records[:count]
            task.queues.update_lags(dict.fromkeys(spec.inputs, 0).get)
            while task.process(0):
                if choices.chance(0.2):
                    task.punctuate_stream_time()
                if choices.chance(0.2):
                    task.flush_caches()
        task.punctuate_wall_clock(0)
        task.punctuate_wall_clock(1_000_000)
        task.flush_caches()
    return logs


def global_stores(
    topology: Topology, logs: Mapping[str, list[LogEntry]]
) -> Iterator[tuple[str, InMemoryKeyValueStore]]:
    """The global stores, full from the start."""
    for name, topic in topology.global_stores.items():
        store = InMemoryKeyValueStore(name)
        store.init(StateStoreContext(Path("global")), store)
        for partition, records in logs.items():
            if partition.rpartition("-")[0] == topic:
                store.put_all(content(records).items())
        yield name, store


@pytest.mark.parametrize("name", TOPOLOGIES)
@settings(max_examples=60, deadline=None)
@given(records=RECORDS, seed=st.integers(0, 999), cached=st.sampled_from([0, 1, 300, 100_000]))
def test_the_tasks_write_what_the_reference_says(
    name: str, records: list[Record], seed: int, cached: int
) -> None:
    """Whatever the ties, and whenever the record caches are flushed."""
    family = TOPOLOGIES[name]
    topology = family.topology(2)
    logs = run_tasks(
        topology,
        filled(topology, records),
        choices=Choices.seeded(seed),
        cache=RecordCache(cached) if cached else None,
    )
    assert differences(family.expected(topology, logs), logs, cached=cached > 0) == []


@pytest.mark.parametrize("name", TOPOLOGIES)
@settings(max_examples=60, deadline=None)
@given(records=RECORDS, seed=st.integers(0, 999))
def test_less_is_expected_without_order(name: str, records: list[Record], seed: int) -> None:
    """If the inputs are read in any portions, and nobody waits for any of them."""
    family = TOPOLOGIES[name]
    topology = family.topology(1)
    logs = run_tasks(
        topology, filled(topology, records), choices=Choices.seeded(seed), ordered=False
    )
    assert differences(family.expected(topology, logs, ordered=False), logs) == []


@pytest.mark.parametrize(
    ("name", "records"),
    [
        (
            "stream-table-join",
            [(0, b"k", b"order", 10), (1, b"k", b"old", 5), (1, b"k", b"new", 11)],
        ),
        (
            "stream-stream-join",
            [
                (0, b"k", b"l", 0),
                (0, b"k", b"late", WINDOW_MS + GRACE_MS + 1),
                (1, b"k", b"r", 0),
            ],
        ),
    ],
)
def test_an_out_of_order_choice_shows(name: str, records: list[Record]) -> None:
    """One side is processed before the other was there: that differs, but only from order."""
    family = TOPOLOGIES[name]
    topology = family.topology(1)
    ordered = run_tasks(topology, filled(topology, records), choices=Choices.recorded([]))
    assert differences(family.expected(topology, ordered), ordered) == []

    first, second = topology.inputs
    logs = filled(topology, records)
    task = StreamTask(
        "0_0",
        topology.tasks["0_0"],
        TaskConfig(
            exactly_once=True,
            transactional=False,
            max_task_idle_ms=-1,
            mode="proposal",
            partitions=topology.topics,
        ),
        choices=Choices.recorded([]),
        trace=Trace(lambda: 0),
        actor="test",
    )
    disk = ModelDisk()
    producer = cast(Producer, Logged(logs))
    task.open(Path("0_0"), lambda name: ModelStore(name, disk), producer, was_empty=True)
    task.become(TaskState.RUNNING)
    for topic in (first, second):
        task.queues.add(f"{topic}-0", logs[f"{topic}-0"])
        while task.process(0):
            pass
    assert any(
        each.startswith("out, key b'k'")
        for each in differences(family.expected(topology, logs), logs)
    )
    assert differences(family.expected(topology, logs, ordered=False), logs) == []


BUSY = WorkloadConfig(records=60, late=0.2, tombstones=0.1, transactional=0.3, skewed=True)

ENOUGH_IDLE_MS = 5_000
"""More than a record of the workload is late, and a transaction open."""


def calm_world(name: str, seed: int, **options: Any) -> tuple[World, Logs]:
    """What two instances make of a workload without a fault: the world, and what was committed."""
    topology = TOPOLOGIES[name].topology(2)
    # What a join writes depends on the order of its inputs, so that it has to wait for them.
    is_join = len(topology.subtopologies[0].sources) > 1
    config = StreamsConfig(max_task_idle_ms=ENOUGH_IDLE_MS if is_join else 0, **options)
    history = LogHistory(exactly_once=config.exactly_once)
    world = World(Choices.seeded(seed), [history.see], activation=0)
    application = Application(world, topology, config)
    for number in range(2):
        Instance(application, f"instance-{number}").start()
    workload = Workload(world, application.cluster, topology, BUSY)
    world.time.run(until=workload.ended)
    world.time.run(until=world.now + 20_000)
    return world, {each: list(history.visible(each)) for each in application.cluster.logs}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"transactional": True, "statestore_cache_max_bytes": 2_000},
        {"exactly_once": False, "commit_interval_ms": 700, "statestore_cache_max_bytes": 100_000},
        {"idling": "kafka", "buffered_records_per_partition": 2},
    ],
    ids=["exactly-once", "transactional-cached", "at-least-once-cached", "as-shipped"],
)
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_a_calm_world_writes_what_the_reference_says(name: str, options: dict[str, Any]) -> None:
    """With late records, tombstones and aborted transactions in the input, and two instances."""
    _, logs = calm_world(name, 7, **options)
    assert sum(len(logs[f"out-{number}"]) for number in range(2)) > 10
    family = TOPOLOGIES[name]
    expected = family.expected(family.topology(2), logs)
    assert differences(expected, logs, cached="statestore_cache_max_bytes" in options) == []


def test_a_world_is_the_same_again() -> None:
    """Same seed, same digest; another seed, another one."""
    digests = [calm_world("punctuated-count", seed)[0].trace.digest for seed in (1, 1, 2)]
    assert digests[0] == digests[1] != digests[2]
