"""State directories: locks, sums, what is found at the start, and what is cleaned up."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest
from disturbed_worlds import disturbed
from found_worlds import seek
from hand_made_events import made

from streamproof.sim.actor_hosts import Host
from streamproof.sim.application import StreamsConfig
from streamproof.sim.choices import Choices
from streamproof.sim.clients.producer import Producer
from streamproof.sim.decisions.recovery import OFFSET_UNKNOWN, Closing
from streamproof.sim.disks import InstanceDisk, RealDisk, SimulatedDisk
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.invariants.state_directories import NothingIsLeftInUse
from streamproof.sim.state_directory import StateDirectory, next_offset_sum, sum_at_close
from streamproof.sim.tasks.store_holder import topic_partition
from streamproof.sim.tasks.stream_task import StreamTask
from streamproof.sim.tasks.task_config import TaskConfig
from streamproof.sim.topologies import TOPOLOGIES
from streamproof.sim.topology import TaskSpec
from streamproof.sim.trace import Event
from streamproof.sim.world import World
from streamproof.stores.api import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    PROCESSING_GUARANTEE_CONFIG,
    KeyValueStore,
    StateStore,
    StateStoreContext,
)
from streamproof.stores.errors import ProcessorStateError
from streamproof.stores.memory import InMemoryKeyValueStore
from streamproof.stores.rocksdb import RocksDBStore

TASKS = TOPOLOGIES["count"].topology(2).tasks
CHANGELOGS = {name: spec.changelogs["counts"] for name, spec in TASKS.items()}
DELAY_MS = 1_000


def changelog_of(store: str, task_id: str) -> str:
    """The changelog partition of a store of a task."""
    return CHANGELOGS[task_id].replace("counts", store)


def with_stores(task_id: str, *names: str) -> dict[str, TaskSpec]:
    """The one task of a topology, with these stores."""
    changelogs = {name: changelog_of(name, task_id) for name in names}
    return {task_id: TASKS["0_0"]._replace(changelogs=changelogs)}


class Machine:
    """A disk, and the processes that run on it one after the other."""

    def __init__(
        self,
        make_disk: Callable[[World], InstanceDisk] = lambda world: SimulatedDisk(
            world, "instance-0"
        ),
        *,
        exactly_once: bool = True,
    ) -> None:
        self.events: list[Event] = []
        self.world = World(Choices.recorded([]), [self.events.append], activation=0)
        self.config = TaskConfig(
            exactly_once=exactly_once,
            transactional=False,
            max_task_idle_ms=0,
            mode="proposal",
            partitions={"in": 2},
        )
        self.disk = make_disk(self.world)
        self.host: Host | None = None

    def process(self, tasks: Mapping[str, TaskSpec] = TASKS) -> StateDirectory:
        """A new process, which has looked at what is there."""
        self.host = self.world.host("instance-0")
        directory = StateDirectory(self.world, self.host, self.disk, self.config)
        directory.initialize_startup_stores(tasks)
        return directory

    def crash(self, tasks: Mapping[str, TaskSpec] = TASKS) -> StateDirectory:
        """The process dies, and another one begins."""
        assert self.host is not None
        self.host.crash()
        self.disk.crash()
        return self.process(tasks)

    def store(self, task_id: str, offset: int | None, name: str = "counts") -> KeyValueStore:
        """An open store of a task, with a record and a committed offset."""
        guarantee = EXACTLY_ONCE if self.config.exactly_once else AT_LEAST_ONCE
        store = self.disk.make_store(name, transactional=False)
        context = StateStoreContext(
            state_dir=self.disk.directory(task_id),
            task_id=task_id,
            app_configs={PROCESSING_GUARANTEE_CONFIG: guarantee},
        )
        store.init(context, store)
        store.put(b"a", b"1")
        if offset is not None:
            store.commit({topic_partition(changelog_of(name, task_id)): offset})
        return store

    def task(self, task_id: str, spec: TaskSpec | None = None) -> StreamTask:
        """A task that has nothing open."""
        return StreamTask(
            task_id,
            spec or TASKS[task_id],
            self.config,
            choices=self.world.choices,
            trace=self.world.trace,
            actor="instance-0/thread-0",
        )


# Locks.


def test_a_task_belongs_to_one_thread_at_a_time() -> None:
    """Its owner may lock it twice; to unlock what another one has does nothing (KAFKA-12288)."""
    directory = Machine().process()
    assert directory.lock("0_0", "a")
    assert directory.lock("0_0", "a")
    assert not directory.lock("0_0", "b")
    directory.unlock("0_0", "b")
    assert not directory.lock("0_0", "b")
    directory.unlock("0_0", "a")
    assert directory.lock("0_0", "b")
    assert directory.leaks == ["0_0 is locked by b"]
    directory.unlock_all("b")
    assert directory.leaks == []


def test_locks_end_with_the_process() -> None:
    """They are in its memory."""
    machine = Machine()
    directory = machine.process()
    assert directory.lock("0_0", "a")
    assert machine.crash().lock("0_0", "b")


def test_two_processes_cannot_have_one_state_directory() -> None:
    """The second is refused, until the first ends, in whichever way."""
    machine = Machine()
    directory = machine.process()
    with pytest.raises(ProcessorStateError, match="is in use by instance-0: stop that process"):
        machine.process()
    directory.close()
    machine.process()
    machine.crash()


# What is found at the start.


def test_what_was_closed_is_found() -> None:
    """With the offset that comes next; nothing is left open or locked."""
    machine = Machine()
    machine.process()
    machine.store("0_0", 7).close()
    directory = machine.crash()
    assert directory.sums("a") == {"0_0": 8}
    assert directory.leaks == []
    [found] = [each for each in machine.events if each.kind == "state.found"]
    assert (found.task, found.attributes["total"]) == ("0_0", 8)


@pytest.mark.parametrize("offset", [7, None])
def test_what_was_not_closed_is_left_to_whoever_is_assigned_it(offset: int | None) -> None:
    """Under exactly-once it counts as nothing, and is not wiped at the start."""
    machine = Machine()
    machine.process()
    store = machine.store("0_0", offset)
    store.write_memtable()
    directory = machine.crash()
    assert directory.sums("a") == {}
    assert not directory.is_empty("0_0")
    assert directory.leaks == []


def test_without_an_offset_a_closed_store_counts_as_nothing() -> None:
    """It has data that nobody vouches for; a sum of 0 would say that it is known to be empty."""
    machine = Machine()
    machine.process()
    machine.store("0_0", None).close()
    assert machine.crash().sums("a") == {}


def test_an_offset_that_is_known_to_be_unknown_counts_as_the_start() -> None:
    """-4 says that the store was restored from an empty changelog."""
    machine = Machine()
    machine.process()
    machine.store("0_0", OFFSET_UNKNOWN).close()
    assert machine.crash().sums("a") == {"0_0": 0}


def test_under_at_least_once_what_was_not_closed_counts() -> None:
    """As far as it was flushed."""
    machine = Machine(exactly_once=False)
    machine.process()
    store = machine.store("0_0", 7)
    store.write_memtable()
    store.commit({topic_partition(CHANGELOGS["0_0"]): 9})
    assert machine.crash().sums("a") == {"0_0": 8}


def test_a_store_that_was_opened_to_look_is_as_it_was(tmp_path: Path) -> None:
    """Whoever opens it next need not wipe it, also if the process died after it had looked."""
    machine = Machine(lambda world: RealDisk(world, "instance-0", tmp_path / "disk", RocksDBStore))
    machine.process()
    machine.store("0_0", 7).close()
    for _ in range(3):
        assert machine.crash().sums("a") == {"0_0": 8}
    store = machine.store("0_0", None)
    assert store.committed_offset(topic_partition(CHANGELOGS["0_0"])) == 7
    store.close()


def test_what_is_in_memory_is_not_there_any_more(tmp_path: Path) -> None:
    """Whatever was known of it while it was open (KAFKA-20893)."""

    def make(name: str) -> KeyValueStore:
        return (InMemoryKeyValueStore if name == "memory" else RocksDBStore)(name)

    machine = Machine(lambda world: RealDisk(world, "instance-0", tmp_path / "disk", make))
    directory = machine.process()
    spec = TASKS["0_0"]._replace(changelogs={"memory": "memory-0", "counts": CHANGELOGS["0_0"]})
    task = machine.task("0_0", spec)
    producer: Producer | None = None
    make_store = partial(directory.make_store, formats=(1,))
    task.open(directory.directory("0_0"), make_store, producer, was_empty=True)  # type: ignore[arg-type]
    task.stores["memory"].offset, task.stores["counts"].offset = 100, 7
    assert next_offset_sum(task) == 109
    total = sum_at_close(task, Closing.CLEAN)
    assert total == 8
    task.suspend()
    task.close(Closing.CLEAN)
    directory.closed(task, total, Closing.CLEAN)
    assert directory.sums("a") == {"0_0": 8}
    assert directory.leaks == []
    # The files of a store that is in memory are none, and so it is not opened at the start.
    assert machine.crash().sums("a") == {"0_0": 8}


def test_a_store_whose_files_cannot_be_used_ends_the_start(tmp_path: Path) -> None:
    """It is not for the start to delete them."""
    machine = Machine(lambda world: RealDisk(world, "instance-0", tmp_path / "disk", RocksDBStore))
    machine.process()
    machine.store("0_0", 7).close()
    machine.store("0_1", 7).close()
    current = next(machine.disk.directory("0_1").rglob("CURRENT"))
    current.write_bytes(b"nonsense")
    with pytest.raises(ProcessorStateError, match="Nothing was deleted"):
        machine.crash()
    assert machine.disk.open_stores == []


def test_the_sum_is_over_all_stores_of_the_task() -> None:
    """A store without an offset adds nothing to it."""
    machine = Machine()
    machine.process()
    machine.store("0_0", 9).close()
    machine.store("0_0", 4, "other").close()
    machine.store("0_0", OFFSET_UNKNOWN, "new").close()
    assert machine.crash(with_stores("0_0", "counts", "other", "new")).sums("a") == {"0_0": 15}


def test_only_tasks_of_the_topology_that_have_files_are_opened() -> None:
    """A task from another topology is left alone, and nothing is made for one without files."""
    machine = Machine()
    machine.process()
    machine.store("0_0", 9).close()
    directory = machine.crash(with_stores("0_1", "counts"))
    assert directory.sums("a") == {}
    assert not directory.is_empty("0_0")
    assert directory.is_empty("0_1")
    assert not [each for each in machine.events if each.kind == "state.found"]


def test_offsets_of_older_releases_count_from_the_start(tmp_path: Path) -> None:
    """Opening a store imports the offset that its older release kept in a file."""

    def machine_with(*, manages_offsets: bool) -> Machine:
        root = tmp_path / str(manages_offsets)
        make = partial(RocksDBStore, manages_offsets=manages_offsets)
        return Machine(lambda world: RealDisk(world, "instance-0", root, make))

    older, newer = machine_with(manages_offsets=False), machine_with(manages_offsets=True)
    older.process()
    older.store("0_0", 9).close()
    shutil.copytree(older.disk.directory("0_0"), newer.disk.directory("0_0"))
    assert newer.process().sums("a") == {"0_0": 10}


def test_a_store_in_memory_is_not_opened_at_the_start(tmp_path: Path) -> None:
    """It has nothing from before, and does not count."""

    class Unopenable(InMemoryKeyValueStore):
        def init(self, context: StateStoreContext, root: StateStore) -> None:
            raise AssertionError("opened")

    def make(name: str) -> KeyValueStore:
        return (Unopenable if name == "memory" else RocksDBStore)(name)

    machine = Machine(lambda world: RealDisk(world, "instance-0", tmp_path / "disk", make))
    machine.process()
    machine.store("0_0", 9).close()
    assert machine.crash(with_stores("0_0", "counts", "memory")).sums("a") == {"0_0": 10}


def test_a_task_with_one_distrusted_store_has_no_sum(tmp_path: Path) -> None:
    """The other stores of the task are closed again, and other tasks are found."""
    machine = Machine(lambda world: RealDisk(world, "instance-0", tmp_path / "disk", RocksDBStore))
    machine.process()
    machine.store("0_0", 9).close()
    machine.store("0_0", None, "other").close()
    machine.store("0_1", 9).close()
    tasks = with_stores("0_0", "counts", "other") | with_stores("0_1", "counts")
    directory = machine.crash(tasks)
    assert directory.sums("a") == {"0_1": 10}
    assert directory.leaks == []


# Sums.


def test_each_thread_tells_of_what_no_other_one_has() -> None:
    """What another one has open, that one knows better."""
    machine = Machine()
    machine.process()
    for name in TASKS:
        machine.store(name, 7).close()
    directory = machine.crash()
    assert directory.lock("0_0", "a")
    assert directory.sums("a") == {"0_0": 8, "0_1": 8}
    assert directory.sums("b") == {"0_1": 8}


def test_each_close_says_how_far_a_task_is() -> None:
    """After a corruption, or if a store could not be closed, nothing is known."""
    machine = Machine()
    directory = machine.process()
    task = machine.task("0_0")
    directory.closed(task, 8, Closing.CLEAN)
    directory.closed(task, 20, Closing.DIRTY)
    assert directory.sums("a") == {"0_0": 20}
    directory.closed(task, None, Closing.DIRTY)
    assert directory.sums("a") == {}
    directory.closed(task, 8, Closing.CLEAN)
    directory.closed(task, 20, Closing.CORRUPTED)
    assert directory.sums("a") == {}
    directory.closed(task, 8, Closing.CLEAN)
    directory.wipe("0_0")
    assert directory.sums("a") == {}


# The cleaner.


def cleaning(machine: Machine, directory: StateDirectory, until: int) -> list[str]:
    """The tasks that are cleaned up until then, with the time."""
    assert machine.host is not None
    machine.host.start(directory.clean(DELAY_MS))
    machine.world.time.run(until=until)
    return [
        f"{each.task} at {each.time}" for each in machine.events if each.kind == "state.cleaned"
    ]


def test_what_nobody_has_used_for_long_is_deleted() -> None:
    """And is not told of any more."""
    machine = Machine()
    machine.process()
    machine.store("0_0", 7).close()
    directory = machine.crash()
    assert cleaning(machine, directory, 10 * DELAY_MS) == [f"0_0 at {2 * DELAY_MS}"]
    assert directory.is_empty("0_0")
    assert directory.sums("a") == {}
    assert machine.world.marks.hits["the directory of a task was cleaned up"] == 1


def test_what_a_thread_has_is_never_deleted() -> None:
    """However long it has not been closed; once it is closed, its time begins (KAFKA-20805)."""
    machine = Machine()
    machine.process()
    machine.store("0_0", 7).close()
    directory = machine.crash()
    assert directory.lock("0_0", "a")
    assert cleaning(machine, directory, 50 * DELAY_MS + 500) == []
    directory.closed(machine.task("0_0"), 8, Closing.CLEAN)
    directory.unlock("0_0", "a")
    machine.world.time.run(until=51 * DELAY_MS + 500)
    assert not directory.is_empty("0_0")
    machine.world.time.run(until=60 * DELAY_MS)
    assert directory.is_empty("0_0")


def test_nothing_is_deleted_while_the_process_does_not_run() -> None:
    """A thread that restores or joins may be about to get the task."""
    machine = Machine()
    machine.process()
    machine.store("0_0", 7).close()
    directory, is_running = machine.crash(), False
    assert machine.host is not None
    machine.host.start(directory.clean(DELAY_MS, lambda: is_running))
    machine.world.time.run(until=10 * DELAY_MS)
    assert not directory.is_empty("0_0")
    is_running = True
    machine.world.time.run(until=12 * DELAY_MS)
    assert directory.is_empty("0_0")


@pytest.mark.parametrize(("max_age_ms", "is_kept"), [(-1, True), (1_000, True), (999, False)])
def test_what_is_too_old_at_the_start_is_deleted(max_age_ms: int, *, is_kept: bool) -> None:
    """Before any store is opened (KIP-1259)."""
    machine = Machine()
    machine.process()
    machine.store("0_0", 7).close()
    machine.crash().lock("0_0", "a")
    machine.world.time.run(until=machine.world.now + 1_000)
    assert machine.host is not None
    machine.host.crash()
    machine.disk.crash()
    host = machine.world.host("instance-0")
    directory = StateDirectory(machine.world, host, machine.disk, machine.config)
    directory.clean_outdated(max_age_ms)
    assert directory.is_empty("0_0") is not is_kept


def test_a_directory_is_free_after_it_was_looked_at() -> None:
    """Whether it was deleted or not: who is assigned the task can have it (KAFKA-16025)."""
    machine = Machine()
    machine.process()
    machine.store("0_0", 7).close()
    directory = machine.crash()
    assert cleaning(machine, directory, DELAY_MS + 1) == []
    assert directory.leaks == []
    machine.world.time.run(until=5 * DELAY_MS)
    assert directory.is_empty("0_0")
    assert directory.lock("0_0", "a")


# What goes wrong if one of these is forgotten.


@pytest.mark.parametrize(
    ("defect", "requirement"),
    [
        ("keeps-lock-after-cleaning", "TASK-007"),
        ("forgets-last-use", "TASK-011"),
        ("leaves-startup-stores-open", "TASK-007"),
    ],
)
def test_a_mistake_with_directories_is_found(defect: str, requirement: str) -> None:
    """In one of a few worlds with restarts and nothing else; without it there is nothing."""
    config = StreamsConfig(
        session_timeout_ms=6_000,
        state_cleanup_delay_ms=DELAY_MS,
        group_membership_operation="LEAVE_GROUP",
    )

    def attempt(seed: int) -> bool | None:
        assert list(disturbed(seed, config, ("bounce",), activation=0).violations) == []
        run = disturbed(seed, config, ("bounce",), activation=0, defects=[defect])
        return requirement in {each.requirement for each in run.violations} or None

    assert seek(f"directories {defect}", attempt, most=60)


PLACE = {"task": "0_0", "partition": "app-s-changelog-0"}
OPENED = made(1, "instance-0/thread-0", "store.opened", **PLACE)
CLOSED = made(2, "instance-0/thread-0", "task.closed", task="0_0", closing="CLEAN")
CRASHED = made(2, "instance-0", "instance.crashed")


@pytest.mark.parametrize(
    ("events", "count"),
    [([], 0), ([OPENED], 1), ([OPENED, CLOSED], 0), ([OPENED, CRASHED], 0)],
)
def test_an_instance_closes_what_it_has_opened(events: list[Event], count: int) -> None:
    """Also where the instance itself finds nothing in use."""
    see = NothingIsLeftInUse(LogHistory(exactly_once=False)).observers
    stopped = made(3, "instance-0", "instance.stopped", leaks=[])
    found = [each for event in [*events, stopped] for each in see[event.kind](event)]
    assert len(found) == count
