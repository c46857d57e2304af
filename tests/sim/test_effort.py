"""What a run costs, counted in steps of the world: what has nothing to do takes none."""

from __future__ import annotations

from typing import Any

import pytest

from streamproof.sim.application import Application, StreamsConfig
from streamproof.sim.choices import Choices
from streamproof.sim.instances import Instance
from streamproof.sim.tasks.assignor import AssignorConfig
from streamproof.sim.time import VirtualTime
from streamproof.sim.topologies import TOPOLOGIES
from streamproof.sim.topology import partition_for
from streamproof.sim.world import World

START_MS = 30_000
"""By then all tasks run."""


class Counted:
    """An application without faults, whose steps are counted."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, topology: str, partitions: int, **config: Any
    ) -> None:
        self.steps = 0
        step = VirtualTime.step

        def counted(time: VirtualTime) -> None:
            self.steps += 1
            step(time)

        monkeypatch.setattr(VirtualTime, "step", counted)
        self.world = World(Choices.seeded(0), activation=0)
        self.partitions = partitions
        application = Application(
            self.world, TOPOLOGIES[topology].topology(partitions), StreamsConfig(**config)
        )
        self.cluster = application.cluster
        for number in range(2):
            Instance(application, f"instance-{number}").start()
        self.run(START_MS)

    def run(self, milliseconds: int) -> int:
        """The steps of a while."""
        before = self.steps
        self.world.time.run(until=self.world.now + milliseconds)
        return self.steps - before

    def send(self, records: int) -> None:
        """Records of different keys."""
        for number in range(records):
            key = b"key-%d" % number
            partition = f"in-{partition_for(key, self.partitions)}"
            record = {"key": key, "value": b"v", "timestamp": self.world.now}
            self.cluster.produce(partition, [record])


@pytest.mark.parametrize("topology", ["count", "stream-table-join", "punctuated-count"])
@pytest.mark.parametrize("standbys", [0, 1])
def test_an_idle_application_takes_few_steps(
    monkeypatch: pytest.MonkeyPatch, topology: str, standbys: int
) -> None:
    """It says that it is alive, and looks at the clock; nobody polls ten times a second."""
    config = AssignorConfig(num_standby_replicas=standbys)
    counted = Counted(monkeypatch, topology, 6, assignor=config)
    # Two members, each of which has a heartbeat every 3 s, of a few steps each; and the brokers
    # look at their time-outs once a second.
    assert counted.run(60_000) < 60 * 15


def test_a_record_costs_the_same_among_many_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a round costs depends on what is done in it, not on how many tasks there are."""
    costs = []
    for partitions in (4, 40):
        with monkeypatch.context() as context:
            counted = Counted(context, "count", partitions)
            counted.send(40)
            costs.append(counted.run(10_000))
    # The records are in one partition each, at most: more partitions have more markers.
    assert costs[1] < costs[0] * 4


def test_a_task_is_woken_by_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it had nothing to do."""
    counted = Counted(monkeypatch, "count", 2)
    counted.run(60_000)
    counted.send(10)
    counted.run(1_000)
    written = sum(len(counted.cluster.committed_records(f"out-{number}")) for number in (0, 1))
    assert written == 10
