"""Real stores run in simulated tasks, are killed there, and every run of a seed is the same."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from disturbed_worlds import Run, disturbed

from streamproof.errors import UsageError
from streamproof.sim.application import StreamsConfig
from streamproof.sim.broker_errors import SubjectError
from streamproof.sim.choices import Choices
from streamproof.sim.decisions.recovery import OFFSET_UNKNOWN
from streamproof.sim.disks import RealDisk
from streamproof.sim.trace import first_divergence
from streamproof.sim.world import World
from streamproof.stores.api import (
    EXACTLY_ONCE,
    PROCESSING_GUARANTEE_CONFIG,
    KeyValueStore,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.errors import ProcessorStateError, TaskCorruptedError
from streamproof.stores.memory import InMemoryKeyValueStore
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.transactional import TransactionalKeyValueStore, TransactionalRocksDBStore

EXAMPLES = Path(__file__).parents[2] / "examples"
LOG = TopicPartition("count-counts-changelog", 0)
MakeStore = Callable[[str], KeyValueStore]


def sqlite_store(name: str) -> KeyValueStore:
    """A store that is not ours, and has a name of its own, whatever it is called here."""
    assert name
    sys.path.insert(0, str(EXAMPLES))
    try:
        from sqlite_store import SqliteStore
    finally:
        sys.path.remove(str(EXAMPLES))
    made: Any = SqliteStore()
    return made  # type: ignore[no-any-return]


STORES: dict[str, tuple[MakeStore, bool]] = {
    "rocksdb": (RocksDBStore, False),
    "rocksdb-transactional": (
        lambda name: TransactionalKeyValueStore(TransactionalRocksDBStore(name)),
        True,
    ),
    "rocksdb-with-checkpoints": (lambda name: RocksDBStore(name, manages_offsets=False), False),
    "sqlite": (sqlite_store, True),
    "in-memory": (InMemoryKeyValueStore, False),
}
"""How each is made, and whether it stages its writes."""


def world() -> World:
    """A world in which nothing goes wrong by itself."""
    return World(Choices.recorded([]), activation=0)


def context_of(directory: Path) -> StateStoreContext:
    """A task that has its state in a directory, under exactly-once."""
    return StateStoreContext(
        state_dir=directory, app_configs={PROCESSING_GUARANTEE_CONFIG: EXACTLY_ONCE}
    )


def opened(disk: RealDisk, *, transactional: bool = False) -> KeyValueStore:
    """The store of a task on a disk."""
    store = disk.make_store("counts", transactional=transactional)
    store.init(context_of(disk.directory("0_0")), store)
    return store


SEEDS = {"crash": 1, "bounce": 2}
"""Worlds for each kind of trouble, in which instances find what they left."""


def run_of(kind: str, root: Path, trouble: str, *, exactly_once: bool) -> Run:
    """A disturbed world with real stores in it."""
    make, transactional = STORES[kind]
    config = StreamsConfig(
        exactly_once=exactly_once,
        transactional=transactional,
        session_timeout_ms=6_000,
        commit_interval_ms=100 if exactly_once else 1_000,
    )
    return disturbed(
        SEEDS[trouble],
        config,
        (trouble,),
        lambda world, name: RealDisk(world, name, root / name, make),
        safety_ms=20_000,
    )


@pytest.mark.parametrize("exactly_once", [True, False], ids=["EOS", "ALOS"])
@pytest.mark.parametrize("kind", STORES)
def test_a_run_with_real_stores_is_the_same_twice(
    tmp_path: Path, kind: str, *, exactly_once: bool
) -> None:
    """Contents included, through crashes that lose what was not flushed; and nothing is broken."""
    found = False
    for trouble in ("crash", "bounce"):
        first = run_of(kind, tmp_path / f"{trouble}-1", trouble, exactly_once=exactly_once)
        second = run_of(kind, tmp_path / f"{trouble}-2", trouble, exactly_once=exactly_once)
        assert first_divergence(first.events, second.events) is None
        assert first.world.trace.digest == second.world.trace.digest
        assert (list(first.violations), list(first.unexpected)) == ([], [])
        assert len(first.of("instance.started")) > 2
        files = [*(tmp_path / f"{trouble}-1").rglob("*/0_0/counts/*")]
        assert bool(files) == (kind != "in-memory")
        found |= any(each.attributes["rows"] for each in first.of("store.found"))
    assert found == (kind != "in-memory")


def test_a_run_with_rocksdb_is_the_same_in_another_process(tmp_path: Path) -> None:
    """Whatever the hashes of strings are there."""
    here = run_of("rocksdb", tmp_path / "here", "crash", exactly_once=True).world.trace.digest
    program = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from pathlib import Path\n"
        "from test_stores_in_tasks import run_of\n"
        f"root = Path({str(tmp_path / 'there')!r})\n"
        "print(run_of('rocksdb', root, 'crash', exactly_once=True).world.trace.digest)\n"
    )
    there = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    assert there.stdout.strip() == here


def test_a_crash_leaves_what_a_kill_leaves(tmp_path: Path) -> None:
    """Of RocksDB what was flushed, of SQLite what was committed, of a store in memory nothing."""
    found = {}
    for kind, (make, transactional) in STORES.items():
        disk = RealDisk(world(), "instance-0", tmp_path / kind, make)
        store = opened(disk)
        store.put(b"flushed", b"1")
        store.commit({LOG: 5})
        disk.fill_memtable(store)
        store.put(b"lost", b"1")
        if kind == "rocksdb-transactional":
            # A commit of RocksDB lasts from the next flush on.
            store.commit({LOG: 6})
        before = disk.directory("0_0")
        disk.crash()
        assert not store.is_open
        assert not before.exists()
        with suppress(TaskCorruptedError):
            again = opened(disk, transactional=transactional)
            found[kind] = again.get(b"flushed"), again.get(b"lost"), again.committed_offset(LOG)
            again.close()
        assert disk.open_stores == []
    # Under exactly-once the others must be wiped, because they were not closed.
    assert found == {
        "rocksdb-transactional": (b"1", None, 5),
        "sqlite": (b"1", None, 5),
        "in-memory": (None, None, None),
    }


def test_many_flushes_and_crashes(tmp_path: Path) -> None:
    """Compactions are under way when the process dies, and what is left can be opened."""
    disk = RealDisk(world(), "instance-0", tmp_path / "disk", STORES["rocksdb-transactional"][0])
    for process in range(5):
        store = opened(disk)
        for number in range(8):
            key = b"%d-%d" % (process, number)
            store.put(key, b"x" * 1_000)
            store.commit({LOG: 10 * process + number})
            disk.fill_memtable(store)
        disk.crash()
    store = opened(disk)
    with store.all() as rows:
        assert len(list(rows)) == 40
    assert store.committed_offset(LOG) == 47
    store.close()


def test_what_is_on_a_disk(tmp_path: Path) -> None:
    """Tasks of which there is something; a store in memory leaves nothing."""
    disk = RealDisk(world(), "instance-0", tmp_path / "disk", RocksDBStore)
    assert (disk.tasks, disk.is_empty("0_0")) == ([], True)
    opened(disk).close()
    assert (disk.tasks, disk.is_empty("0_0")) == (["0_0"], False)
    disk.wipe("0_0")
    assert (disk.tasks, disk.is_empty("0_0")) == ([], True)
    memory = RealDisk(world(), "instance-1", tmp_path / "memory", InMemoryKeyValueStore)
    opened(memory).close()
    assert memory.tasks == []


def test_a_directory_that_is_in_use_is_refused(tmp_path: Path) -> None:
    """What is in it would be part of the run."""
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="is not empty"):
        RealDisk(world(), "instance-0", tmp_path, RocksDBStore)


def test_the_power_of_real_stores_does_not_fail_here(tmp_path: Path) -> None:
    """It is not said to be simulated where it is not."""
    disk = RealDisk(world(), "instance-0", tmp_path / "disk", RocksDBStore)
    with pytest.raises(UsageError, match="in the area POWER"):
        disk.lose_power()


class Raising(InMemoryKeyValueStore):
    """Raises what no store may raise, at its third write."""

    writes = 0

    def put(self, key: bytes, value: bytes | None) -> None:
        self.writes += 1
        if self.writes == 3:
            raise ZeroDivisionError("oops")
        super().put(key, value)


def test_a_store_that_raises_ends_the_run_and_is_named(tmp_path: Path) -> None:
    """It is the store that is to blame, and not the simulator."""
    with pytest.raises(SubjectError) as raised:
        disturbed(
            0,
            StreamsConfig(),
            (),
            lambda world, name: RealDisk(world, name, tmp_path / name, Raising),
        )
    assert "Store 'counts' (Raising) raised ZeroDivisionError from put(): oops." in str(
        raised.value
    )


class Unregistered(InMemoryKeyValueStore):
    """Does not say how it is restored."""

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open, and register nothing."""
        self._context = context
        assert root.name


def test_a_store_that_cannot_be_restored_is_named(tmp_path: Path) -> None:
    """As soon as it is opened."""
    disk = RealDisk(world(), "instance-0", tmp_path / "disk", Unregistered)
    with pytest.raises(SubjectError, match=r"no way to restore it: call context\.register"):
        opened(disk)


def test_a_store_with_checkpoints_that_was_closed_without_an_offset_is_kept(
    tmp_path: Path,
) -> None:
    """It says so; but one that was not closed has no offset, and that is all there is to say."""
    make = STORES["rocksdb-with-checkpoints"][0]
    disk = RealDisk(world(), "instance-0", tmp_path / "disk", make)
    store = opened(disk)
    assert store.committed_offset(LOG) is None
    store.commit({LOG: OFFSET_UNKNOWN})
    store.close()
    store = opened(disk)
    assert store.committed_offset(LOG) == OFFSET_UNKNOWN
    store.commit({LOG: 3})
    store.close()
    store = opened(disk)
    assert store.committed_offset(LOG) == 3
    disk.crash()
    with pytest.raises(TaskCorruptedError):
        opened(disk)


def test_after_a_run_the_files_are_free(tmp_path: Path) -> None:
    """Another store can open what was left open, and finds it as it was."""
    disk = RealDisk(world(), "instance-0", tmp_path / "disk", RocksDBStore)
    store = opened(disk)
    store.put(b"a", b"1")
    disk.close()
    assert (store.is_open, disk.open_stores) == (False, [])
    again = opened(disk)
    assert again.get(b"a") == b"1"
    again.close()


def test_a_full_disk_fails_flushes_and_commits_of_real_stores(tmp_path: Path) -> None:
    """And nothing is written."""
    disk = RealDisk(world(), "instance-0", tmp_path / "disk", STORES["sqlite"][0])
    store = opened(disk)
    disk.is_full = True
    store.put(b"a", b"1")
    for fails in (lambda: disk.fill_memtable(store), lambda: store.commit({LOG: 1})):
        with pytest.raises(ProcessorStateError, match="disk of instance-0 is full"):
            fails()
    store.close()
    disk.is_full = False
    store = opened(disk)
    assert (store.get(b"a"), store.committed_offset(LOG)) == (None, None)
    store.close()
