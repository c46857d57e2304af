"""A real application is killed, and its logs are held to the reference of the simulator."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from streamproof.errors import UsageError
from streamproof.scenarios.kafka.application import Application, RealRecord
from streamproof.scenarios.kafka.cluster import start_broker
from streamproof.scenarios.kafka.processes import Processes
from streamproof.sim.topologies import TOPOLOGIES
from streamproof.sim.topologies.reference import differences
from streamproof.stores.jvm.kafka_jars import DEFAULT_RELEASE

LATE = {"processing.guarantee": "exactly_once_v2", "commit.interval.ms": "9000"}
SOON = {**LATE, "commit.interval.ms": "100"}
TOPICS = ["in", "out", "count-counts-changelog"]
DONE_S = 60.0


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


def test_an_application_without_its_input_never_runs(application: Application) -> None:
    with pytest.raises(UsageError, match=r"(?s)instance-0 .* never runs\. .*It wrote last:"):
        application.start("instance-0", SOON)


def test_a_client_that_fails_tells_why(application: Application) -> None:
    with pytest.raises(UsageError, match=r"(?s)failed \(create\)\. It wrote last:.*partitions"):
        application.create({"in": 0})
