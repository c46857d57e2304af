"""How a task waits for its inputs, and what it tells of that: events, metrics and marks."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, cast

import pytest

from streamproof.errors import UsageError
from streamproof.sim.application import Application, StreamsConfig
from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.choices import Choices
from streamproof.sim.clients.producer import Producer
from streamproof.sim.decisions.idling import Mode
from streamproof.sim.instances import Instance
from streamproof.sim.tasks.stream_task import StreamTask, TaskState
from streamproof.sim.tasks.task_config import TaskConfig
from streamproof.sim.topologies import TOPOLOGIES
from streamproof.sim.topologies.reference import differences
from streamproof.sim.topology import Subtopology, Topology
from streamproof.sim.trace import Event
from streamproof.sim.workloads import Workload, WorkloadConfig
from streamproof.sim.world import World
from streamproof.stores.metrics import Metrics


class Bench:
    """A task with two inputs that does nothing with its records."""

    def __init__(self, idle_ms: int, mode: Mode = "proposal") -> None:
        self.events: list[Event] = []
        self.world = World(Choices.recorded([]), [self.events.append], activation=0)
        self.now = 0
        self.metrics = Metrics("DEBUG", lambda: self.now)
        part = Subtopology(("a", "b"), lambda *_: None)
        topology = Topology("app", (part,), {"a": 1, "b": 1})
        self.task = StreamTask(
            "0_0",
            topology.tasks["0_0"],
            TaskConfig(
                exactly_once=True,
                transactional=False,
                max_task_idle_ms=idle_ms,
                mode=mode,
                partitions=topology.topics,
            ),
            choices=self.world.choices,
            trace=self.world.trace,
            actor="thread-0",
            metrics=self.metrics,
        )
        producer = cast(Producer, None)
        self.task.open(Path("0_0"), lambda _: pytest.fail("no store"), producer, was_empty=True)
        self.task.become(TaskState.RUNNING)

    def add(self, partition: str, *timestamps: int) -> None:
        """Buffer records."""
        self.task.queues.add(partition, [LogEntry(0, each, b"k", b"v") for each in timestamps])

    def process(self, now: int, **lags: int | None) -> bool:
        """Process a record if the task is ready, given the lags of the inputs."""
        self.now = now
        self.task.queues.update_lags({f"{topic}-0": lag for topic, lag in lags.items()}.get)
        return self.task.process(now)

    def told(self, kind: str) -> list[Any]:
        """The attributes of the events of a kind."""
        return [each.attributes for each in self.events if each.kind == kind]

    def measured(self) -> dict[str, float]:
        """The metrics by name."""
        return {each.name: each.value for each in self.metrics.rows()}


def test_each_reason_to_wait_is_told_once() -> None:
    """And since when; while there is nothing to process, there is nothing to tell."""
    bench = Bench(100)
    task = bench.task
    assert not bench.process(10, a=0, b=0)
    assert bench.told("task.waiting") == []
    bench.add("a-0", 5, 6)
    for now, lag in ((20, None), (21, None), (22, 3), (23, 0), (24, 0)):
        assert not bench.process(now, b=lag)
    assert [each["waiting"] for each in bench.told("task.waiting")] == [
        {"b-0": "lag unknown"},
        {"b-0": "data on the broker"},
        {"b-0": "idling"},
    ]
    assert task.idling_since == 10
    assert bench.process(123, b=0)
    assert task.idling_since is None
    assert [each["inputs"] for each in bench.told("task.enforced")] == [("b-0",)]
    hits = bench.world.marks.hits
    for mark in (
        "a task idled",
        "a task waited for a lag that was not known",
        "a task waited for records that the broker had",
        "a task went on without an empty input",
    ):
        assert hits[mark] == 1


def test_the_metrics_of_a_task() -> None:
    """What is enforced, how late records are, and what is buffered; gone when it is suspended."""
    bench = Bench(0)
    assert math.isnan(bench.measured()["record-lateness-avg"])
    bench.add("a-0", 50, 20, 40)
    assert bench.measured()["active-buffer-count"] == 3
    for now in range(3):
        assert bench.process(now, b=0)
    bench.add("a-0", 60)
    bench.add("b-0", 70)
    assert bench.process(5)
    found = bench.measured()
    assert found["enforced-processing-total"] == 3
    assert found["record-lateness-max"] == 30
    assert found["record-lateness-avg"] == (0 + 30 + 10 + 0) / 4
    assert found["active-buffer-count"] == 1
    assert {tuple(each.tags.values()) for each in bench.metrics.rows()} == {("thread-0", "0_0")}
    bench.task.suspend()
    assert bench.measured() == {}


def test_a_task_that_never_waits_enforces_nothing() -> None:
    """Then nobody asks what is missing."""
    bench = Bench(-1)
    bench.add("a-0", 1)
    assert bench.process(0)
    assert bench.told("task.enforced") == bench.told("task.waiting") == []
    assert bench.measured()["enforced-processing-total"] == 0


def test_the_order_of_the_inputs_is_a_choice_as_shipped() -> None:
    """There it is that of a hash map, and decides for which input the task waits first."""
    first = set()
    for seed in range(12):
        bench = Bench(100, "kafka")
        config = bench.task._config
        task = StreamTask(
            "0_1",
            bench.task.spec,
            config,
            choices=Choices.seeded(seed),
            trace=bench.world.trace,
            actor="thread-0",
        )
        first.add(tuple(task.queues.partitions))
    assert first == {("a-0", "b-0"), ("b-0", "a-0")}
    assert Bench(100).task.queues.partitions == ["a-0", "b-0"]


@pytest.mark.parametrize("mode", ["proposal", "kafka"])
def test_full_buffers_pause_their_inputs(mode: Mode) -> None:
    """With room for one record, everything is still processed, and in order."""
    events: list[Event] = []
    world = World(Choices.seeded(11), [events.append], activation=0)
    family = TOPOLOGIES["stream-table-join"]
    topology = family.topology(2)
    application = Application(
        world,
        topology,
        StreamsConfig(buffered_records_per_partition=1, idling=mode, max_task_idle_ms=3_000),
    )
    Instance(application, "instance-0").start()
    config = WorkloadConfig(records=80, max_burst=30, max_pause_ms=100, transactional=0.2)
    workload = Workload(world, application.cluster, topology, config)
    world.time.run(until=workload.ended)
    world.time.run(until=world.now + 30_000)
    logs = {each: application.cluster.committed_records(each) for each in application.cluster.logs}
    assert differences(family.expected(topology, logs), logs) == []
    assert sum(each.kind == "input.paused" for each in events) > 5
    assert world.marks.hits["an input was paused because its buffer was full"] > 5
    assert sum(each.kind == "task.processed" for each in events) == sum(
        map(len, workload.sent.values())
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"buffered_records_per_partition": 0},
            "buffered.records.per.partition is 0; give at least 1",
        ),
        (
            {"statestore_cache_max_bytes": -1},
            "statestore.cache.max.bytes is -1; give 0 for no cache",
        ),
        ({"max_task_idle_ms": -2}, "max.task.idle.ms is -2"),
        ({"max_poll_records": 0}, "max.poll.records is 0; give at least 1"),
        ({"request_timeout_ms": 0}, "request.timeout.ms is 0; give at least 1"),
        ({"max_block_ms": 0}, "max.block.ms is 0; give at least 1"),
        ({"heartbeat_interval_ms": 0}, "heartbeat.interval.ms is 0; give at least 1"),
    ],
)
def test_an_impossible_configuration_is_refused(wrong: dict[str, int], message: str) -> None:
    """Before the run, with the key and what is allowed."""
    with pytest.raises(UsageError, match=message):
        StreamsConfig(**cast(Any, wrong))
