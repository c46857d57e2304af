"""The state updater: where restorations begin and end, who waits, and what is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.brokers.log import Entry
from streamproof.sim.choices import Choices
from streamproof.sim.clients.producer import Producer
from streamproof.sim.errors import OffsetOutOfRangeError
from streamproof.sim.model_store import ModelDisk, ModelStore
from streamproof.sim.network import Network
from streamproof.sim.tasks.stream_task import StreamTask, TaskConfig
from streamproof.sim.tasks.updater import StateUpdater
from streamproof.sim.topology import ProcessorContext, Subtopology, Topology
from streamproof.sim.trace import Event
from streamproof.sim.world import World


def nothing(_context: ProcessorContext, _topic: str, _record: Entry) -> None:
    """Does nothing."""


TOPOLOGY = Topology(
    "app",
    (Subtopology(("in",), nothing, ("one", "two")), Subtopology(("in",), nothing)),
    {"in": 3},
)


def changelog(store: str, partition: int) -> str:
    """The changelog of a store."""
    return f"app-{store}-changelog-{partition}"


class Bench:
    """An updater, and changelogs to restore from."""

    def __init__(self, seed: int = 0, *, activation: float = 0) -> None:
        self.events: list[Event] = []
        self.world = World(Choices.seeded(seed), [self.events.append], activation=activation)
        self.cluster = Cluster(self.world, TOPOLOGY.topics)
        self.host = self.world.host("instance-0")
        self.network = Network(self.world, request_timeout_ms=400)
        self.producer = Producer(self.world, self.host, self.network, self.cluster)
        self.disk = ModelDisk()
        self.updater = StateUpdater(
            self.world,
            self.host,
            self.network,
            self.cluster,
            isolation="read_committed",
            actor="instance-0/updater-0",
        )

    def write(self, partition: str, *values: bytes, **more: Any) -> None:
        """Records of one key."""
        some = [{"key": b"k", "value": value, "timestamp": 0, **more} for value in values]
        self.cluster.produce(partition, some)

    def transaction(self, partition: str, value: bytes, sequence: int, *, commit: bool) -> None:
        """A transaction with one record, and its marker."""
        self.write(partition, value, producer=9, sequence=sequence, transactional=True)
        self.cluster.logs[partition].end_transaction(9, commit=commit, timestamp=0)

    def task(self, task_id: str = "0_0") -> StreamTask:
        """A task whose stores are open."""
        made = StreamTask(
            task_id,
            TOPOLOGY.tasks[task_id],
            TaskConfig(True, False, 0, "proposal", TOPOLOGY.topics),
            choices=self.world.choices,
            trace=self.world.trace,
            actor="instance-0/thread-0",
        )
        made.open(
            Path(task_id),
            lambda name: ModelStore(name, self.disk),
            self.producer,
            was_empty=True,
        )
        return made

    def wait(self, milliseconds: int = 1_000) -> None:
        """Let time pass."""
        self.world.time.run(until=self.world.now + milliseconds)

    def told(self, partition: str) -> list[tuple[str, dict[str, Any]]]:
        """What was told of a changelog."""
        return [
            (each.kind.removeprefix("restore."), each.attributes)
            for each in self.events
            if each.kind.startswith("restore.") and each.partition == partition
        ]


def test_an_active_task_comes_back_whole() -> None:
    """Both stores; the end is told once, with how much it was."""
    bench = Bench()
    bench.write(changelog("one", 0), b"1", b"2")
    task = bench.task()
    bench.updater.add(task, is_active=True)
    bench.wait()
    assert bench.updater.restored == [task]
    assert bench.updater.tasks == []
    assert task.store("one").get(b"k") == b"2"
    assert bench.told(changelog("one", 0)) == [
        ("start", {"records": 0, "start": 0, "end": 2}),
        ("batch", {"records": 2, "remaining": 0}),
        ("end", {"records": 0, "total": 2}),
    ]
    assert [kind for kind, _ in bench.told(changelog("two", 0))] == ["start", "end"]


def test_a_task_without_stores_comes_back_at_once() -> None:
    """There is nothing to wait for."""
    bench = Bench()
    task = bench.task("1_0")
    bench.updater.add(task, is_active=True)
    assert bench.updater.restored == [task]


def test_it_goes_on_after_what_the_store_has() -> None:
    """From the committed offset on."""
    bench = Bench()
    bench.write(changelog("one", 0), b"1", b"2", b"3")
    task = bench.task()
    task.apply(changelog("one", 0), [Entry(1, 0, b"k", b"2")])
    bench.updater.add(task, is_active=True)
    bench.wait()
    assert bench.told(changelog("one", 0))[0] == ("start", {"records": 0, "start": 2, "end": 3})


def test_markers_and_aborted_records_at_the_end() -> None:
    """The position passes them, so that it ends (KAFKA-12951)."""
    bench = Bench()
    bench.transaction(changelog("one", 0), b"1", 0, commit=True)
    bench.transaction(changelog("one", 0), b"2", 1, commit=False)
    task = bench.task()
    bench.updater.add(task, is_active=True)
    bench.wait()
    assert bench.updater.restored == [task]
    assert task.store("one").get(b"k") == b"1"


def test_it_waits_for_an_open_transaction() -> None:
    """Of the owner before: it may yet be committed, and then it belongs to the store."""
    bench = Bench()
    bench.write(changelog("one", 0), b"1")
    bench.write(changelog("one", 0), b"2", producer=9, transactional=True)
    task = bench.task()
    bench.updater.add(task, is_active=True)
    bench.wait()
    assert bench.updater.restored == []
    bench.cluster.logs[changelog("one", 0)].end_transaction(9, commit=True, timestamp=0)
    bench.wait()
    assert bench.updater.restored == [task]
    assert task.store("one").get(b"k") == b"2"


def test_a_standby_stays_and_follows() -> None:
    """It is never handed back, and nothing is told of it as of a restoration."""
    bench = Bench()
    bench.write(changelog("one", 0), b"1")
    task = bench.task()
    bench.updater.add(task, is_active=False)
    bench.wait()
    bench.write(changelog("one", 0), b"2")
    bench.wait()
    assert bench.updater.tasks == [task]
    assert task.store("one").get(b"k") == b"2"
    assert bench.told(changelog("one", 0)) == []


def test_standbys_wait_for_active_tasks() -> None:
    """As long as one is restored, they are not read."""
    bench = Bench()
    bench.write(changelog("one", 1), b"1")
    bench.write(changelog("one", 0), b"1", producer=9, transactional=True)
    active, standby = bench.task("0_0"), bench.task("0_1")
    bench.updater.add(active, is_active=True)
    bench.updater.add(standby, is_active=False)
    bench.wait()
    assert standby.store("one").get(b"k") is None
    bench.cluster.logs[changelog("one", 0)].end_transaction(9, commit=False, timestamp=0)
    bench.wait()
    assert standby.store("one").get(b"k") == b"1"


def test_a_task_is_taken_away_in_the_middle() -> None:
    """Each start is followed by one end or one suspension; what ended is not suspended."""
    bench = Bench()
    bench.write(changelog("two", 0), b"1", producer=9, transactional=True)
    task = bench.task()
    bench.updater.add(task, is_active=True)
    bench.wait()
    assert bench.updater.remove("0_0") is task
    assert bench.updater.remove("0_0") is None
    assert [kind for kind, _ in bench.told(changelog("one", 0))] == ["start", "end"]
    assert [kind for kind, _ in bench.told(changelog("two", 0))] == ["start", "suspended"]


def test_a_task_is_taken_away_when_it_is_done() -> None:
    """It has not been fetched yet, and is given all the same."""
    bench = Bench()
    task = bench.task()
    bench.updater.add(task, is_active=True)
    bench.wait()
    assert bench.updater.remove("0_0") is task
    assert bench.updater.restored == []


def test_a_changelog_that_is_cut_off() -> None:
    """The store is older than what is left of it: the task cannot be restored from here."""
    bench = Bench()
    bench.write(changelog("one", 0), b"1", b"2", b"3")
    bench.cluster.logs[changelog("one", 0)].delete_before(2)
    task, other = bench.task(), bench.task("0_1")
    bench.updater.add(task, is_active=True)
    bench.updater.add(other, is_active=True)
    bench.wait()
    ((failed, error),) = bench.updater.failed
    assert failed is task
    assert isinstance(error, OffsetOutOfRangeError)
    assert bench.updater.restored == [other]


@pytest.mark.parametrize("seed", range(25))
def test_whatever_happens_it_ends_in_the_content_of_the_changelog(seed: int) -> None:
    """Replies lost, fetches empty, transactions aborted, and the task taken away in between."""
    bench = Bench(seed, activation=0.5)
    random = Choices.seeded(seed + 1000)
    name = changelog("one", 0)
    for sequence in range(random.between(1, 30)):
        bench.transaction(name, b"%d" % sequence, sequence, commit=random.chance(0.7))
    task = bench.task()
    bench.updater.add(task, is_active=True)
    for _ in range(random.below(4)):
        bench.wait(random.between(1, 300))
        if task in bench.updater.tasks:
            bench.updater.remove("0_0")
            bench.updater.add(task, is_active=True)
    bench.wait(20_000)
    assert bench.updater.restored == [task]
    committed = bench.cluster.committed_records(name)
    assert task.store("one").get(b"k") == (committed[-1].value if committed else None)
    kinds = [kind for kind, _ in bench.told(name) if kind != "batch"]
    assert kinds[::2] == ["start"] * (len(kinds) // 2)
    assert kinds[-1] == "end"


def test_a_closed_updater_does_nothing() -> None:
    """Its actor ends, and its consumer fetches no more."""
    bench = Bench()
    bench.updater.close()
    bench.wait()
    bench.updater.add(bench.task(), is_active=True)
    bench.wait()
    assert bench.updater.restored == []
