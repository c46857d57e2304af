"""A task: what it finds, restores, processes and commits, with model and real stores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.choices import Choices
from streamproof.sim.clients.producer import Producer
from streamproof.sim.decisions.recovery import Closing
from streamproof.sim.model_store import ModelDisk, ModelStore
from streamproof.sim.network import Network
from streamproof.sim.tasks.store_holder import StoreHolder, topic_partition
from streamproof.sim.tasks.stream_task import StreamTask, TaskState
from streamproof.sim.tasks.task_config import TaskConfig
from streamproof.sim.topology import ProcessorContext, Subtopology, Topology
from streamproof.sim.trace import Event
from streamproof.sim.world import World
from streamproof.stores.api import ChangelogRecord, KeyValueStore, TopicPartition
from streamproof.stores.errors import (
    InvalidStateStoreError,
    ProcessorStateError,
    TaskCorruptedError,
    UnsupportedOperationError,
)
from streamproof.stores.memory import InMemoryKeyValueStore
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.runtime.cache import RecordCache


def count(context: ProcessorContext, _: str, record: LogEntry) -> None:
    """Counts the records of each key."""
    store = context.store("counts")
    number = int(store.get(record.key) or b"0") + 1
    store.put(record.key, b"%d" % number)
    context.forward("out", record.key, b"%d" % number)


TOPOLOGY = Topology(
    "app", (Subtopology(("in",), count, ("counts",), ("out",)),), {"in": 1, "out": 1}
)
CHANGELOG = "app-counts-changelog-0"


def write_memtable(task: StreamTask) -> None:
    """Let its store write to the disk, as when its memtable is full."""
    store = task.stores["counts"].database
    store.write_memtable() if isinstance(store, ModelStore) else store.flush()


class Bench:
    """One task in a calm world."""

    def __init__(
        self,
        directory: Path,
        *,
        exactly_once: bool = True,
        transactional: bool = False,
        real: bool = False,
        cache: RecordCache | None = None,
    ) -> None:
        self.events: list[Event] = []
        self.world = World(Choices.seeded(0), [self.events.append], activation=0)
        self.cluster = Cluster(self.world, TOPOLOGY.topics)
        self.host = self.world.host("instance-0")
        self.network = Network(self.world)
        self.producer = Producer(self.world, self.host, self.network, self.cluster)
        self.run(self.producer.init())
        self.config = TaskConfig(exactly_once, transactional, 0, "proposal", TOPOLOGY.topics)
        self.directory = directory
        self.disk = ModelDisk()
        self.real = real
        self.cache = cache

    def run(self, steps: Any) -> Any:
        """Let the host do it."""
        return self.world.time.run(until=self.host.start(steps))

    def make_store(self, name: str) -> KeyValueStore:
        """A store of the kind that is asked for."""
        if self.real:
            return RocksDBStore(name)
        return ModelStore(name, self.disk, transactional=self.config.transactional)

    def task(self, topology: Topology = TOPOLOGY) -> StreamTask:
        """A task without open stores."""
        return StreamTask(
            "0_0",
            topology.tasks["0_0"],
            self.config,
            choices=self.world.choices,
            trace=self.world.trace,
            actor="instance-0/thread-0",
            cache=self.cache,
        )

    def opened(self) -> StreamTask:
        """A task with its stores open."""
        task = self.task()
        was_empty = self.disk.is_empty(self.directory) and not any(self.directory.iterdir())
        task.open(self.directory, self.make_store, self.producer, was_empty=was_empty)
        return task

    def running(self) -> StreamTask:
        """A task that processes."""
        task = self.opened()
        task.become(TaskState.RUNNING)
        return task

    def feed(self, task: StreamTask, *keys: bytes, first: int = 0) -> None:
        """Records for it."""
        some = [LogEntry(first + n, 10 * (first + n), key, b"v") for n, key in enumerate(keys)]
        task.queues.add("in-0", some)
        while task.process(0):
            pass

    def commit(self, task: StreamTask, closing: Closing = Closing.COMMIT) -> None:
        """The steps of a commit that concern the task."""
        task.flush_caches()
        self.run(self.producer.flush())
        task.note_written()
        task.commit_stores(closing)
        task.committed()


@pytest.fixture(params=["model", "real"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Bench]:
    """Makes a bench with the fast store, or with RocksDB."""

    def make(**options: Any) -> Bench:
        return Bench(tmp_path, real=request.param == "real", **options)

    return make


def test_what_is_processed_is_logged_and_sent_on(bench: Callable[..., Bench]) -> None:
    """To the store, to its changelog and to the output; the task has something to commit."""
    world = bench()
    task = world.running()
    world.feed(task, b"a", b"b", b"a")
    assert task.commit_needed
    assert task.stream_time == 20
    world.run(world.producer.flush())
    found = [(each.key, each.value) for each in world.cluster.committed_records(CHANGELOG)]
    assert found == [(b"a", b"1"), (b"b", b"1"), (b"a", b"2")]
    assert [each.timestamp for each in world.cluster.committed_records("out-0")] == [0, 10, 20]
    task.suspend()
    task.close(Closing.CLEAN)


def test_a_commit_covers_what_was_confirmed(bench: Callable[..., Bench]) -> None:
    """Under at-least-once each commit reaches the store; the next task goes on from there."""
    world = bench(exactly_once=False)
    task = world.running()
    world.feed(task, b"a", b"a")
    task.note_written()
    assert task.stores["counts"].offset is None
    world.commit(task)
    assert task.stores["counts"].offset == 1
    assert not task.commit_needed
    task.suspend()
    task.close(Closing.DIRTY)
    again = world.opened()
    assert again.next_restored(CHANGELOG) == 2
    assert again.store("counts").get(b"a") == b"2"
    again.suspend()
    again.close(Closing.CLEAN)


def test_exactly_once_commits_offsets_only_at_the_end(bench: Callable[..., Bench]) -> None:
    """While it runs, no offset vouches for data that may still be aborted."""
    world = bench()
    task = world.running()
    world.feed(task, b"a")
    world.commit(task)
    assert not [each for each in world.events if each.kind == "store.committed"]
    task.suspend()
    task.close(Closing.CLEAN)
    committed = [each for each in world.events if each.kind == "store.committed"]
    assert [(each.partition, each.offset) for each in committed] == [(CHANGELOG, 0)]


def test_a_store_without_records_is_healthy_afterwards(bench: Callable[..., Bench]) -> None:
    """It is known that there is no offset (KAFKA-19712)."""
    world = bench()
    for _ in range(2):
        task = world.running()
        task.suspend()
        task.close(Closing.CLEAN)
    assert [each.attributes["wipe"] for each in world.events if each.kind == "store.opened"] == [
        False,
        False,
    ]


def test_a_processor_cannot_end_or_commit_its_store(bench: Callable[..., Bench]) -> None:
    """These calls belong to the runtime: they raise, and the task goes on with its store."""
    world = bench()
    task = world.running()
    world.feed(task, b"a")
    held = task.store("counts")
    with pytest.raises(UnsupportedOperationError, match="Request a commit of the task"):
        held.commit({topic_partition(CHANGELOG): 9})
    with pytest.raises(UnsupportedOperationError, match="closes it with its task"):
        held.close()
    assert task.store("counts") is held
    world.feed(task, b"a", first=1)
    assert held.get(b"a") == b"2"
    assert task.stores["counts"].store.is_open
    assert task.stores["counts"].store.committed_offset(topic_partition(CHANGELOG)) is None


def test_data_without_an_offset_is_not_trusted(tmp_path: Path) -> None:
    """Under exactly-once and without transactions; nothing stays open."""
    for exactly_once, transactional in ((True, False), (True, True), (False, False)):
        world = Bench(tmp_path, exactly_once=exactly_once, transactional=transactional)
        task = world.running()
        world.feed(task, b"a")
        write_memtable(task)
        # The host dies: the task is dropped. What it had flushed has no offset.
        if exactly_once and not transactional:
            with pytest.raises(TaskCorruptedError):
                world.opened()
        else:
            assert world.opened().next_restored(CHANGELOG) == 0


def test_a_corrupted_task_forgets_its_offsets(bench: Callable[..., Bench]) -> None:
    """So that nobody goes on from them, even if the files stay (KAFKA-10664)."""
    world = bench(exactly_once=False)
    task = world.running()
    world.feed(task, b"a")
    world.commit(task)
    task.suspend()
    task.close(Closing.CORRUPTED)
    again = world.opened()
    assert again.next_restored(CHANGELOG) == 0
    again.suspend()
    again.close(Closing.CLEAN)


def test_a_store_that_cannot_forget_its_offset_must_be_wiped(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task says so, and closes the store."""
    world = bench(exactly_once=False)
    task = world.running()
    store = task.stores["counts"].database

    def refuse(_: object) -> None:
        raise UnsupportedOperationError("The store keeps its offsets.")

    monkeypatch.setattr(store, "commit", refuse)
    task.suspend()
    task.close(Closing.CORRUPTED)
    assert task.must_be_wiped
    assert not store.is_open


def test_a_corrupted_task_is_closed_even_if_its_disk_is_full(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that cannot forget its offsets is closed, and the next try ends the task."""
    world = bench(exactly_once=False)
    task = world.running()
    store = task.stores["counts"].database

    def fail(_: object) -> None:
        raise ProcessorStateError("The disk is full.")

    monkeypatch.setattr(store, "commit", fail)
    task.suspend()
    with pytest.raises(ProcessorStateError, match="disk is full"):
        task.close(Closing.CORRUPTED)
    assert not store.is_open
    task.close(Closing.CORRUPTED)
    assert task.state is TaskState.CLOSED


def test_a_task_that_cannot_open_its_second_store_is_closed(tmp_path: Path) -> None:
    """So that nobody takes the store that was opened before the error for an open one."""
    world = Bench(tmp_path)
    pair = Topology("app", (Subtopology(("in",), count, ("counts", "more")),), {"in": 1})
    made: list[KeyValueStore] = []

    def make(name: str) -> KeyValueStore:
        if made:
            raise ProcessorStateError("The disk is full.")
        made.append(world.make_store(name))
        return made[0]

    task = world.task(pair)
    with pytest.raises(ProcessorStateError, match="disk is full"):
        task.open(tmp_path, make, world.producer, was_empty=True)
    assert not made[0].is_open
    assert [each.kind for each in world.events[-2:]] == ["store.opened", "task.closed"]


def test_restoring_leads_to_the_content_of_the_changelog(bench: Callable[..., Bench]) -> None:
    """Nothing of it is sent to the changelog again."""
    world = bench()
    task = world.opened()
    entries = [LogEntry(0, 5, b"a", b"1"), LogEntry(2, 6, b"b", b"1"), LogEntry(3, 7, b"a", None)]
    task.apply(CHANGELOG, entries[:2])
    assert task.next_restored(CHANGELOG) == 3
    task.apply(CHANGELOG, entries[2:])
    task.apply(CHANGELOG, [])
    assert list(task.store("counts").all()) == [(b"b", b"1")]
    world.run(world.producer.flush())
    assert world.cluster.logs[CHANGELOG].end == 0
    task.suspend()
    task.close(Closing.CLEAN)


def test_what_is_committed_of_the_inputs(tmp_path: Path) -> None:
    """The next record in the buffer, else the position; nothing before the first record."""
    world = Bench(tmp_path)
    task = world.running()
    assert task.committable_offsets({"in-0": None}) == {}
    task.queues.add("in-0", [LogEntry(4, 0, b"a", b"v"), LogEntry(7, 0, b"a", b"v")])
    task.process(0)
    assert task.committable_offsets({"in-0": 9}) == {"in-0": 7}
    assert not task.has_passed_markers({"in-0": 9})
    task.process(0)
    assert task.committable_offsets({"in-0": 9}) == {"in-0": 9}
    assert task.has_passed_markers({"in-0": 9})
    assert not task.has_passed_markers({"in-0": 8})
    task.committed({"in-0": 9, "other-0": 3})
    assert not task.has_passed_markers({"in-0": 9})
    assert task.has_passed_markers({"in-0": 10})


def test_an_aborted_end_is_committed_after_a_restart(tmp_path: Path) -> None:
    """Even if there is no record behind the offset at which the task began."""
    world = Bench(tmp_path)
    task = world.running()
    assert not task.has_passed_markers({"in-0": 9})
    task.begin_at({"in-0": 4})
    assert not task.has_passed_markers({"in-0": None})
    assert not task.has_passed_markers({"in-0": 4})
    assert task.has_passed_markers({"in-0": 9})
    assert task.committable_offsets({"in-0": 9}) == {"in-0": 9}
    task.committed({"in-0": 9})
    assert not task.has_passed_markers({"in-0": 9})


def test_staged_bytes_are_told(tmp_path: Path) -> None:
    """For the limit on what is not committed (KIP-892)."""
    world = Bench(tmp_path, transactional=True)
    task = world.running()
    world.feed(task, b"a")
    assert task.uncommitted() == (1, 2)
    world.commit(task)
    assert task.uncommitted() == (0, 0)


def test_a_store_that_cannot_count_takes_nothing_from_the_others(tmp_path: Path) -> None:
    """A count of -1 says that the number of staged bytes is unknown."""

    class Uncounted(InMemoryKeyValueStore):
        def approximate_num_uncommitted_entries(self) -> int:
            return -1

        def approximate_num_uncommitted_bytes(self) -> int:
            return -1

    world = Bench(tmp_path, transactional=True)
    task = world.running()
    world.feed(task, b"a")
    other = Uncounted("other")
    task.stores["other"] = StoreHolder(other, other, "other-0", None, lambda _: None)
    assert task.uncommitted() == (1, 2)


def logged(world: Bench, partition: str) -> list[tuple[bytes, bytes | None, int]]:
    """What has arrived in a partition: key, value and timestamp."""
    world.run(world.producer.flush())
    return [
        (each.key, each.value, each.timestamp)
        for each in world.cluster.committed_records(partition)
    ]


def test_a_cache_holds_writes_back_until_the_commit(bench: Callable[..., Bench]) -> None:
    """Only the last of a key goes on, with its own timestamp; and the commit covers it."""
    world = bench(exactly_once=False, cache=RecordCache(100_000))
    task = world.running()
    world.feed(task, b"a", b"b", b"a")
    assert logged(world, CHANGELOG) == []
    assert task.store("counts").get(b"a") == b"2"
    assert task.stores["counts"].database.get(b"a") is None
    write_memtable(task)
    assert logged(world, CHANGELOG) == []
    world.commit(task)
    assert logged(world, CHANGELOG) == [(b"b", b"1", 10), (b"a", b"2", 20)]
    assert task.stores["counts"].offset == 1
    assert task.stores["counts"].database.get(b"a") == b"2"
    task.suspend()
    task.close(Closing.CLEAN)
    again = world.opened()
    assert again.next_restored(CHANGELOG) == 2
    again.suspend()
    again.close(Closing.CLEAN)


@pytest.mark.parametrize("closing", [Closing.DIRTY, Closing.CORRUPTED, Closing.CLEAN])
def test_what_is_cached_dies_with_the_task(bench: Callable[..., Bench], closing: Closing) -> None:
    """No write that is in no commit gets into a store or a changelog when a task is closed."""
    world = bench(exactly_once=False, cache=RecordCache(100_000))
    task = world.running()
    world.feed(task, b"a")
    world.commit(task)
    world.feed(task, b"a", b"b", first=1)
    task.suspend()
    task.close(closing)
    assert logged(world, CHANGELOG) == [(b"a", b"1", 0)]
    again = world.opened()
    assert list(again.store("counts").all()) == [(b"a", b"1")]
    again.suspend()
    again.close(Closing.CLEAN)


def test_a_full_cache_lets_go(bench: Callable[..., Bench]) -> None:
    """Before the commit, with the timestamps of the records that were cached (KAFKA-13714)."""
    world = bench(exactly_once=False, cache=RecordCache(1))
    task = world.running()
    world.feed(task, b"a", b"b")
    assert logged(world, CHANGELOG) == [(b"a", b"1", 0), (b"b", b"1", 10)]
    task.suspend()
    task.close(Closing.CLEAN)


def test_it_restores_beneath_the_cache(bench: Callable[..., Bench]) -> None:
    """And nothing of that is dirty."""
    world = bench(cache=RecordCache(100_000))
    task = world.opened()
    task.apply(CHANGELOG, [LogEntry(0, 5, b"a", b"1")])
    assert task.store("counts").get(b"a") == b"1"
    task.flush_caches()
    assert logged(world, CHANGELOG) == []
    task.suspend()
    task.close(Closing.CLEAN)


def test_a_recycled_task_keeps_its_store_open(bench: Callable[..., Bench]) -> None:
    """It goes on from what the store has, with an empty cache, in either role."""
    world = bench(cache=RecordCache())
    task = world.running()
    world.feed(task, b"a", b"a")
    world.commit(task)
    holder = task.stores["counts"]
    assert holder.cache is not None
    assert [*holder.cache.entries().entries] == [b"a"]
    task.suspend()
    task.recycle(is_active=False)
    assert (task.state, task.stores["counts"]) == (TaskState.RESTORING, holder)
    assert holder.cache.entries().entries == {}
    assert task.next_restored(CHANGELOG) == 1
    task.apply(CHANGELOG, [LogEntry(1, 0, b"a", b"7")])
    task.suspend()
    task.recycle(is_active=True)
    task.become(TaskState.RUNNING)
    world.feed(task, b"a", first=2)
    assert holder.store.get(b"a") == b"8"
    roles = [each.attributes["is_active"] for each in world.events if each.kind == "task.recycled"]
    assert roles == [False, True]
    assert [each.kind for each in world.events].count("store.opened") == 1


def test_what_a_get_reads_is_told(tmp_path: Path) -> None:
    """An entry in the cache hides the row below, whichever is newer."""
    world = Bench(tmp_path, cache=RecordCache())
    task = world.running()
    world.feed(task, b"a")
    world.commit(task)
    cache = task.stores["counts"].cache
    assert cache is not None
    assert cache.restore_below is not None
    cache.restore_below([ChangelogRecord(b"a", b"5", 1), ChangelogRecord(b"b", b"6", 2)])
    task.tell_contents("store.running")
    assert world.events[-1].attributes["rows"] == [[b"a", b"1"], [b"b", b"6"]]


@pytest.mark.parametrize("cached", [False, True])
def test_updates_are_sent_on(tmp_path: Path, *, cached: bool) -> None:
    """At once, or, with a cache, when they leave it; with the timestamp of the update."""
    world = Bench(tmp_path, cache=RecordCache(100_000) if cached else None)

    def put(context: ProcessorContext, _: str, record: LogEntry) -> None:
        context.store("rows").put(record.key, record.value)

    part = Subtopology(("in",), put, ("rows",), ("out",), forwarded={"rows": "out"})
    topology = Topology("app", (part,), {"in": 1, "out": 1})
    task = world.task(topology)
    world.cluster = Cluster(world.world, topology.topics)
    world.producer = Producer(world.world, world.host, world.network, world.cluster)
    world.run(world.producer.init())
    task.open(tmp_path, world.make_store, world.producer, was_empty=True)
    task.become(TaskState.RUNNING)
    records = [LogEntry(0, 0, b"a", b"1"), LogEntry(1, 10, b"a", b"2"), LogEntry(2, 20, b"b", None)]
    task.queues.add("in-0", records)
    while task.process(0):
        pass
    everything = [(b"a", b"1", 0), (b"a", b"2", 10), (b"b", None, 20)]
    assert logged(world, "out-0") == ([] if cached else everything)
    task.flush_caches()
    assert logged(world, "out-0") == everything[1 if cached else 0 :]
    assert logged(world, "app-rows-changelog-0") == logged(world, "out-0")


def test_a_life(tmp_path: Path) -> None:
    """Each state follows another; what cannot follow is a mistake of the runtime."""
    world = Bench(tmp_path)
    task = world.running()
    with pytest.raises(InvalidStateStoreError, match="cannot become CLOSED: it is RUNNING"):
        task.close(Closing.CLEAN)
    assert not task.process(0)
    task.suspend()
    task.suspend()
    world.feed(task, b"a")
    assert not task.commit_needed
    task.close(Closing.CLEAN)
    states = [
        cast(str, each.attributes["after"]) for each in world.events if each.kind == "task.state"
    ]
    assert states == ["RESTORING", "RUNNING", "SUSPENDED", "CLOSED"]


def test_a_store_whose_changelog_is_an_input_is_not_logged(tmp_path: Path) -> None:
    """What was read is there already; the store is as far as that was processed."""

    def keep(context: ProcessorContext, _: str, record: LogEntry) -> None:
        context.store("rows").put(record.key, record.value)

    table = Topology(
        "app", (Subtopology(("in",), keep, ("rows",), reused={"rows": "in"}),), {"in": 1}
    )
    world = Bench(tmp_path)
    task = world.task(table)
    task.open(tmp_path, world.make_store, world.producer, was_empty=True)
    task.become(TaskState.RUNNING)
    world.feed(task, b"a", b"b")
    world.commit(task, Closing.CLEAN)
    assert task.store("rows").get(b"b") == b"v"
    assert world.producer.written == {}
    assert world.cluster.logs["in-0"].end == 0
    assert task.store("rows").committed_offset(TopicPartition("in", 0)) == 1
