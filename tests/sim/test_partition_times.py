"""Times that outlive their task: what was too late before a restart is too late after it."""

from __future__ import annotations

import pytest

from streamproof.sim.application import Application, StreamsConfig
from streamproof.sim.brokers.group_coordinator import GroupCoordinator
from streamproof.sim.choices import Choices
from streamproof.sim.instances import Instance
from streamproof.sim.topologies import TOPOLOGIES
from streamproof.sim.topologies.reference import differences
from streamproof.sim.topologies.windowed_count import GRACE_MS, SIZE_MS
from streamproof.sim.world import World
from streamproof.stores.windowed.keys import parse_window_key


@pytest.fixture
def group() -> tuple[GroupCoordinator[str, str], str]:
    """A group with one member."""
    found: GroupCoordinator[str, str] = GroupCoordinator(60_000)
    member = found.join("", "subscription", 0)
    found.poll_join(member, 0)
    return found, member


def test_times_are_committed_with_offsets(group: tuple[GroupCoordinator[str, str], str]) -> None:
    """At once, or with the transaction; those of an aborted one are forgotten."""
    coordinator, member = group
    generation = coordinator.generation
    assert coordinator.committed_time("in-0") is None
    coordinator.commit(member, generation, {"in-0": 1}, times={"in-0": 70})
    assert coordinator.committed_time("in-0") == 70
    for producer, commit, expected in ((1, False, 70), (2, True, 80)):
        coordinator.commit_in_transaction(
            producer, member, generation, {"in-0": 2}, times={"in-0": 80}
        )
        assert coordinator.committed_time("in-0") == 70
        coordinator.end_transaction(producer, commit=commit)
        assert coordinator.committed_time("in-0") == expected
    coordinator.commit(member, generation, {"in-0": 3})
    assert coordinator.committed_time("in-0") == 80


@pytest.mark.parametrize("exactly_once", [True, False])
@pytest.mark.parametrize("crash", [True, False])
def test_late_stays_late(*, exactly_once: bool, crash: bool) -> None:
    """Whether the process dies between two late records, or not (KAFKA-7994)."""
    world = World(Choices.seeded(0), activation=0)
    family = TOPOLOGIES["windowed-count"]
    topology = family.topology(1)
    application = Application(
        world, topology, StreamsConfig(exactly_once=exactly_once, session_timeout_ms=6_000)
    )
    cluster = application.cluster
    instance = Instance(application, "instance-0")
    instance.start()
    closes = SIZE_MS + GRACE_MS
    for number, timestamp in enumerate([0, closes, 1, 2, closes + 1]):
        cluster.produce("in-0", [{"key": b"k", "value": b"v", "timestamp": timestamp}])
        world.time.run(until=world.now + 20_000)
        if crash and number == 2:
            instance.crash()
            instance.start()
            world.time.run(until=world.now + 20_000)
    logs = {each: cluster.committed_records(each) for each in cluster.logs}
    assert differences(family.expected(topology, logs), logs) == []
    found = [(parse_window_key(each.key)[1], each.value) for each in logs["out-0"]]
    assert found == [(0, b"1"), (closes, b"1"), (0, None), (closes, b"2")]
