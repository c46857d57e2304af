"""Global tables: read as a whole before anything runs, and kept up to date."""

from __future__ import annotations

from typing import Any

import pytest

from streamproof.errors import UsageError
from streamproof.sim.application import Application, StreamsConfig
from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.brokers.partition_log import Isolation
from streamproof.sim.choices import Choices
from streamproof.sim.disks import SimulatedDisk
from streamproof.sim.instances import Instance
from streamproof.sim.network import Network
from streamproof.sim.state_directory import StateDirectory
from streamproof.sim.tasks.global_stores import GlobalTable
from streamproof.sim.tasks.task_config import TaskConfig
from streamproof.sim.topologies import TOPOLOGIES
from streamproof.sim.topologies.reference import content
from streamproof.sim.topology import Subtopology, Topology
from streamproof.sim.trace import Event
from streamproof.sim.workloads import Workload, WorkloadConfig
from streamproof.sim.world import World

TASKS = TaskConfig(
    exactly_once=True, transactional=True, max_task_idle_ms=0, mode="proposal", partitions={}
)


class Bench:
    """A cluster with a topic, and what one process makes of it."""

    def __init__(self, *, partitions: int = 1) -> None:
        self.events: list[Event] = []
        self.world = World(Choices.seeded(0), [self.events.append], activation=0)
        self.cluster = Cluster(self.world, {"table": partitions})
        self.disk = SimulatedDisk(self.world, "instance-0")
        self.ended = 0

    def put(self, key: bytes, value: bytes | None, **more: Any) -> None:
        """Append a record to the first partition."""
        self.cluster.produce("table-0", [{"key": key, "value": value, "timestamp": 0, **more}])

    def started(self, isolation: Isolation = "read_committed") -> GlobalTable:
        """A table that begins to read."""
        self.host = self.world.host("instance-0")
        self.disk.crash()
        return GlobalTable(
            self.world,
            self.host,
            Network(self.world),
            self.cluster,
            {"rows": "table"},
            disk=StateDirectory(self.world, self.host, self.disk, TASKS),
            commit_interval_ms=100,
            isolation=isolation,
            fail=self.end,
        )

    def end(self) -> None:
        """The table cannot go on."""
        self.ended += 1

    def after(self, milliseconds: int, table: GlobalTable) -> dict[bytes, bytes]:
        """Its rows, a while later."""
        if milliseconds:
            self.world.time.run(until=self.world.now + milliseconds)
        return dict(table.stores["rows"].all())


def test_it_is_whole_before_anything_runs() -> None:
    """All that was there at the start; what comes later follows."""
    bench = Bench()
    for key, value in ((b"a", b"1"), (b"b", b"2"), (b"a", None), (b"c", b"3")):
        bench.put(key, value)
    table = bench.started()
    bench.world.time.run(until=table.restored)
    assert dict(table.stores["rows"].all()) == {b"b": b"2", b"c": b"3"}
    bench.put(b"b", None)
    bench.put(b"a", b"4")
    assert bench.after(1_000, table) == {b"a": b"4", b"c": b"3"}
    kinds = [each.kind for each in bench.events if each.kind.startswith("global")]
    assert kinds[:3] == ["global.opened", "global.applied", "global.restored"]


def test_an_empty_topic_is_whole() -> None:
    """There is nothing to wait for."""
    bench = Bench(partitions=3)
    table = bench.started()
    assert bench.after(1_000, table) == {}
    assert table.restored.triggered


@pytest.mark.parametrize("commit", [True, False])
def test_it_ends_with_a_marker(*, commit: bool) -> None:
    """Nothing of an aborted transaction gets in, and the marker at the end is passed.

    KAFKA-6782 and KAFKA-12951.
    """
    bench = Bench()
    bench.put(b"a", b"1")
    transactions = bench.cluster.transactions
    identity = bench.cluster.init_producer("outside", 10_000)
    transactions.add("outside", identity, ["table-0"], 0)
    bench.put(b"a", b"2", producer=identity.producer, transactional=True)
    bench.cluster.end_transaction("outside", identity, commit=commit)
    bench.world.time.run(until=100)
    assert bench.cluster.logs["table-0"].entries[-1].control
    committed, uncommitted = bench.started(), bench.started("read_uncommitted")
    assert bench.after(1_000, committed) == {b"a": b"2" if commit else b"1"}
    assert bench.after(0, uncommitted) == {b"a": b"2"}
    assert committed.restored.triggered
    assert uncommitted.restored.triggered


def test_a_log_that_has_lost_its_start_is_no_end() -> None:
    """It goes on from where the log begins now (KAFKA-10306, KAFKA-7443)."""
    bench = Bench()
    bench.put(b"0", b"x")
    table = bench.started()
    assert set(bench.after(1_000, table)) == {b"0"}
    bench.host.pause()
    for number in range(1, 5):
        bench.put(b"%d" % number, b"x")
    bench.cluster.logs["table-0"].delete_before(3)
    bench.host.resume()
    # The reader cannot know what the lost records said, so the process has to begin anew.
    bench.world.time.run(until=bench.world.now + 1_000)
    assert bench.ended == 1
    assert [each.kind for each in bench.events][-1] == "global.wiped"
    bench.host.crash()
    assert set(bench.after(1_000, bench.started())) == {b"3", b"4"}


def test_each_process_reads_the_table_anew() -> None:
    """No task runs before; in the end all instances have the same rows."""
    events: list[Event] = []
    world = World(Choices.seeded(4), [events.append], activation=0)
    topology = TOPOLOGIES["global-table-join"].topology(2)
    application = Application(world, topology, StreamsConfig())
    workload = Workload(world, application.cluster, topology, WorkloadConfig(tombstones=0.2))
    instances = [Instance(application, f"instance-{number}", 2) for number in range(2)]
    for each in instances:
        each.start()
    world.time.run(until=world.now + 3_000)
    instances[0].crash()
    world.time.run(until=world.now + 1_000)
    instances[0].start()
    world.time.run(until=workload.ended)
    world.time.run(until=world.now + 60_000)
    logs = application.cluster.logs
    rows = {
        key: value
        for partition in logs
        if partition.startswith("table-")
        for key, value in content(application.cluster.committed_records(partition)).items()
    }
    assert rows
    firsts = [
        next(each.sequence for each in events if each.kind == kind)
        for kind in ("global.restored", "task.processed")
    ]
    assert firsts == sorted(firsts)
    restored = [each.actor for each in events if each.kind == "global.restored"]
    assert sorted(restored) == ["instance-0/global", "instance-0/global", "instance-1/global"]
    for each in instances:
        assert each.threads
        (table,) = {thread._global_table for thread in each.threads}
        assert table is not None
        assert dict(table.stores["rows"].all()) == rows


@pytest.mark.parametrize(
    ("stores", "table", "message"),
    [
        ({"rows": "nowhere"}, "table", "'rows' is filled from 'nowhere'"),
        ({"rows": "in"}, "table", "'rows' is filled from 'in'"),
        ({"counts": "table"}, "table", "Give the store a unique name"),
    ],
)
def test_a_global_store_that_cannot_be_is_refused(
    stores: dict[str, str], table: str, message: str
) -> None:
    """It has a topic of its own, and a name of its own."""
    part = Subtopology(("in",), lambda *_: None, ("counts",))
    with pytest.raises(UsageError, match=message):
        Topology("app", (part,), {"in": 1, table: 1}, stores)
