"""A real application is killed, and its logs are held to the reference of the simulator."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from streamproof.errors import UsageError
from streamproof.scenarios.kafka.application import Application, RealRecord
from streamproof.scenarios.kafka.cluster import start_broker
from streamproof.scenarios.kafka.processes import Processes
from streamproof.scenarios.kafka.real_settings import settings_of, topics_of
from streamproof.sim.topologies import TOPOLOGIES
from streamproof.sim.topologies.reference import differences
from streamproof.sim.world_plan import Plan
from streamproof.stores.jvm.kafka_jars import DEFAULT_RELEASE

# The transaction must still be open when somebody has seen it, which takes long on a busy machine.
LATE = {
    "processing.guarantee": "exactly_once_v2",
    "commit.interval.ms": "600000",
    "producer.transaction.timeout.ms": "900000",
}
SOON = {**LATE, "commit.interval.ms": "100"}
TOPICS = ["in", "out", "count-counts-changelog"]
DONE_S = 120.0

# Every input has these, with one timestamp after the other; one is a tombstone.
ROWS: list[tuple[bytes, bytes | None, int]] = [
    (b"a", b"1x", 0),
    (b"b", b"2y", 700),
    (b"a", b"3x", 1400),
    (b"b", None, 2100),
    (b"a", b"4y", 9000),
    (b"b", b"5x", 9700),
]


@pytest.fixture
def application() -> Iterator[Application]:
    with Processes() as processes:
        yield Application(processes, start_broker(processes, DEFAULT_RELEASE), "count")


def send(application: Application, first: int) -> None:
    """Send three records to each of two partitions; one of them is a tombstone."""
    for partition in range(2):
        key = b"key-%d" % partition
        values = [b"1", None if partition and first else b"2", b"3"]
        rows = [RealRecord(-1, key, value, first + at) for at, value in enumerate(values)]
        application.send("in", partition, rows)


def until(
    application: Application, records: int, *, committed: bool
) -> dict[str, list[RealRecord]]:
    """All logs, once the output has so many records."""
    deadline = time.monotonic() + DONE_S
    while time.monotonic() < deadline:
        logs = application.read(TOPICS, committed=committed)
        if sum(len(rows) for name, rows in logs.items() if name.startswith("out-")) >= records:
            return logs
    raise AssertionError("the output never came")


def test_the_outputs_of_a_killed_application_are_exact(application: Application) -> None:
    """It is killed with an open transaction, which its successor must not count."""
    application.create({"in": 2, "out": 2})
    send(application, 0)
    killed = application.start("instance-0", LATE)
    until(application, 6, committed=False)
    killed.kill()
    send(application, 1000)
    application.start("instance-0", SOON)
    logs = until(application, 12, committed=True)
    all_logs = application.read(TOPICS, committed=False)
    family = TOPOLOGIES["count"]

    assert differences(family.expected(family.topology(2), logs), logs) == []
    # The kill did hit a transaction, and whoever reads it sees that records count twice.
    assert differences(family.expected(family.topology(2), all_logs), all_logs) != []


@pytest.mark.parametrize("name", sorted(TOPOLOGIES.keys() - {"count"}))
def test_the_outputs_of_each_topology_are_those_of_the_reference(name: str) -> None:
    plan = Plan(topology=name, partitions=1)
    family = TOPOLOGIES[name]
    topology = family.topology(plan.partitions)
    with Processes() as processes:
        application = Application(processes, start_broker(processes, DEFAULT_RELEASE), name)
        application.create(topics_of(plan))
        for at, topic in enumerate(topology.inputs):
            rows = [RealRecord(-1, key, value, time + at) for key, value, time in ROWS]
            application.send(topic, 0, rows)
        # Long enough that the inputs of a task are processed in their order.
        application.start(
            "instance-0", {**settings_of(plan, DEFAULT_RELEASE), "max.task.idle.ms": "3000"}
        )
        deadline = time.monotonic() + DONE_S
        found, logs = ["nothing was read"], {}
        while found and time.monotonic() < deadline:
            logs = application.read([*topology.topics])
            found = differences(family.expected(topology, logs), logs)

    assert found == []
    assert all(any(each.startswith(f"{topic}-") for each in logs) for topic in topology.outputs)


def test_an_application_without_its_input_never_runs(application: Application) -> None:
    with pytest.raises(UsageError, match=r"(?s)instance-0 .* never runs\. .*It wrote last:"):
        application.start("instance-0", SOON)


def test_a_client_that_fails_tells_why(application: Application) -> None:
    with pytest.raises(UsageError, match=r"(?s)failed \(create\)\. It wrote last:.*partitions"):
        application.create({"in": 0})
