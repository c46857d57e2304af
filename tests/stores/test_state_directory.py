"""Task directories: locks, the scan at the start, cleaning up, and how far tasks are behind."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from streamproof.stores.api import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    PROCESSING_GUARANTEE_CONFIG,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.checkpoint import OFFSET_UNKNOWN, OffsetCheckpoint
from streamproof.stores.errors import ProcessorStateError
from streamproof.stores.legacy import LegacyCheckpointingStateStore
from streamproof.stores.memory import InMemoryKeyValueStore
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.runtime.state_directory import (
    LATEST_OFFSET,
    UNKNOWN_OFFSET_SUM,
    StateDirectory,
    StoreFactory,
    offset_sum,
    persistent_offsets,
)

P0, P1 = TopicPartition("app-a-changelog", 0), TopicPartition("app-b-changelog", 0)
CONFIGS = {PROCESSING_GUARANTEE_CONFIG: EXACTLY_ONCE}


def _context(directory: StateDirectory, task_id: str) -> StateStoreContext:
    return StateStoreContext(
        directory.task_directory(task_id),
        application_id="app",
        task_id=task_id,
        app_configs=CONFIGS,
    )


def _write(directory: StateDirectory, task_id: str, store: StateStore, offset: int | None) -> None:
    """Let a store of a task commit an offset, and close."""
    context = _context(directory, task_id)
    store.init(context, store)
    topic, number = context.changelog_topic(store.name), int(task_id.rpartition("_")[2])
    store.commit({TopicPartition(topic, number): offset})
    store.close()


def _rocksdb(name: str) -> StoreFactory:
    return lambda: RocksDBStore(name)


def _scan(
    directory: StateDirectory,
    stores: Mapping[str, list[StoreFactory]],
    guarantee: str = EXACTLY_ONCE,
) -> None:
    directory.scan(
        stores,
        application_id="app",
        app_configs={PROCESSING_GUARANTEE_CONFIG: guarantee},
        now_ms=0,
    )


# --- the application ------------------------------------------------------------------


def test_one_process_has_the_directory(tmp_path: Path) -> None:
    """Another process, and another instance, are refused until the lock is released."""
    program = (
        "import sys; from pathlib import Path\n"
        "from streamproof.stores.runtime.state_directory import StateDirectory\n"
        "StateDirectory(Path(sys.argv[1])).open()\n"
    )
    command = [sys.executable, "-P", "-c", program, str(tmp_path / "app")]
    with StateDirectory(tmp_path / "app"):
        refused = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "ProcessorStateError" in refused.stderr
        assert f"{tmp_path / 'app' / '.lock'} cannot be locked" in refused.stderr
        with pytest.raises(ProcessorStateError, match="another process uses the directory"):
            StateDirectory(tmp_path / "app").open()
    assert subprocess.run(command, check=False).returncode == 0
    again = StateDirectory(tmp_path / "app")
    again.open()
    again.close()
    again.close()


def test_directory_that_cannot_be_made(tmp_path: Path) -> None:
    """The file and the reason are named."""
    (tmp_path / "app").write_text("in the way")
    with pytest.raises(ProcessorStateError, match=r"app/\.lock cannot be locked.*Check"):
        StateDirectory(tmp_path / "app").open()


# --- tasks ----------------------------------------------------------------------------


def test_tasks_with_state(tmp_path: Path) -> None:
    """Those that have files besides offsets, in the order of their numbers."""
    directory = StateDirectory(tmp_path / "app")
    assert directory.task_ids() == []
    for task_id in ("10_1", "2_0", "2_11", "1_0", "not-a-task"):
        (directory.task_directory(task_id) / "rocksdb").mkdir(parents=True)
    directory.task_directory("3_0").mkdir()
    (directory.task_directory("4_0") / ".checkpoint_store").mkdir(parents=True)
    (directory.root / "5_0").write_text("a file")
    assert directory.task_ids() == ["1_0", "2_0", "2_11", "10_1"]


def test_task_locks(tmp_path: Path) -> None:
    """One owner at a time, who may lock again; others can neither lock nor unlock."""
    directory = StateDirectory(tmp_path)
    assert directory.lock("0_0", "thread-1")
    assert directory.lock("0_0", "thread-1")
    assert not directory.lock("0_0", "thread-2")
    directory.unlock("0_0", "thread-2", now_ms=0)
    assert directory.owner("0_0") == "thread-1"
    directory.unlock("0_0", "thread-1", now_ms=0)
    assert directory.owner("0_0") is None
    assert directory.lock("0_0", "thread-2")


def test_unlocking_notes_the_last_use(tmp_path: Path) -> None:
    """A directory in which nothing was written for hours was in use all the same."""
    directory = StateDirectory(tmp_path)
    task = directory.task_directory("0_0")
    task.mkdir()
    os.utime(task, ns=(0, 0))
    directory.lock("0_0", "thread")
    directory.unlock("0_0", "another", now_ms=5_000)
    assert task.stat().st_mtime_ns == 0
    directory.unlock("0_0", "thread", now_ms=7_200_000)
    assert task.stat().st_mtime_ns == 7_200_000 * 10**6
    assert directory.clean(600_000, now_ms=7_200_000 + 600_000) == []
    assert directory.clean(600_000, now_ms=7_200_000 + 600_001) == ["0_0"]
    assert not task.exists()


def test_cleaning_leaves_locked_tasks_and_forgets_the_others(tmp_path: Path) -> None:
    """What is removed is no longer counted, and nothing but tasks is removed."""
    directory = StateDirectory(tmp_path / "app")
    with directory:
        for task_id in ("0_0", "0_1"):
            _write(directory, task_id, RocksDBStore("a"), 4)
            directory.update(task_id, {P0: 4})
            directory.lock(task_id, "thread")
        (directory.root / "global").mkdir()
        directory.unlock("0_1", "thread", now_ms=1000)
        assert directory.clean(100, now_ms=5000) == ["0_1"]
        assert directory.task_offset_sums() == {"0_0": 5}
        assert directory.task_lag("0_1", {P0: 20}) == 20
        names = sorted(each.name for each in directory.root.iterdir())
        assert names == [".lock", "0_0", "global"]


def test_interrupted_removal_is_finished(tmp_path: Path) -> None:
    """What a crash leaves of a removal is no task, and is removed by the next cleaning."""
    directory = StateDirectory(tmp_path)
    (tmp_path / ".removed-0_0" / "rocksdb").mkdir(parents=True)
    _write(directory, "0_0", RocksDBStore("a"), 4)
    directory.update("0_0", {P0: 4})
    assert directory.task_ids() == ["0_0"]
    directory.remove("0_0")
    assert list(tmp_path.iterdir()) == []
    assert directory.task_offset_sums() == {}
    directory.remove("0_0")
    (tmp_path / ".removed-0_1" / "rocksdb").mkdir(parents=True)
    assert directory.clean(0, now_ms=0) == []
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_removed_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The task is named, and cleaning goes on with the next one."""
    directory = StateDirectory(tmp_path)
    for task_id in ("0_0", "0_1"):
        directory.task_directory(task_id).mkdir()
        directory.lock(task_id, "thread")
        directory.unlock(task_id, "thread", now_ms=0)
    rename = Path.rename

    def fail(path: Path, target: Path) -> Path:
        if path.name == "0_0":
            raise OSError("no")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail)
    with caplog.at_level(logging.WARNING, logger="streamproof.stores"):
        assert directory.clean(0, now_ms=1) == ["0_1"]
    assert "of task 0_0 cannot be removed: no" in caplog.text


# --- the scan -------------------------------------------------------------------------


def test_scan_finds_the_offsets_of_closed_tasks(tmp_path: Path) -> None:
    """Of the tasks in the topology that have files; nothing is made for the others."""
    directory = StateDirectory(tmp_path)
    _write(directory, "0_0", RocksDBStore("a"), 9)
    _write(directory, "0_0", RocksDBStore("b"), 4)
    _write(directory, "0_1", RocksDBStore("a"), None)
    _write(directory, "7_0", RocksDBStore("a"), 5)
    both = [_rocksdb("a"), _rocksdb("b")]
    _scan(directory, {"0_0": both, "0_1": both, "0_2": both})
    assert directory.task_offset_sums() == {"0_0": 15, "0_1": 0}
    assert not directory.task_directory("0_2").exists()
    # The stores were closed cleanly, and the locks given back.
    _scan(directory, {"0_0": both})
    assert directory.owner("0_0") is None


def test_scan_imports_the_offsets_of_older_versions(tmp_path: Path) -> None:
    """Opening a store is what imports them, so that they count from the start."""
    directory = StateDirectory(tmp_path)
    _write(directory, "0_0", RocksDBStore("a", manages_offsets=False), None)
    legacy = LegacyCheckpointingStateStore(RocksDBStore("b", manages_offsets=False))
    _write(directory, "0_0", legacy, 4)
    OffsetCheckpoint(tmp_path / "0_0" / ".checkpoint").write({P0: 9})
    _scan(directory, {"0_0": [_rocksdb("a"), _rocksdb("b")]})
    assert directory.task_offset_sums() == {"0_0": 15}


def test_scan_leaves_volatile_stores_alone(tmp_path: Path) -> None:
    """They have nothing from before, are not opened, and do not count."""

    class Unopenable(InMemoryKeyValueStore):
        def init(self, context: StateStoreContext, root: StateStore) -> None:
            raise AssertionError("opened")

    directory = StateDirectory(tmp_path)
    _write(directory, "0_0", RocksDBStore("a"), 9)
    _scan(directory, {"0_0": [_rocksdb("a"), lambda: Unopenable("b")]})
    assert directory.task_offset_sums() == {"0_0": 10}


def test_scan_leaves_locked_tasks_alone(tmp_path: Path) -> None:
    """Whoever has a task notes its offsets."""
    directory = StateDirectory(tmp_path)
    _write(directory, "0_0", RocksDBStore("a"), 9)
    directory.lock("0_0", "thread")
    _scan(directory, {"0_0": [_rocksdb("a")]})
    assert directory.task_offset_sums() == {}
    assert directory.owner("0_0") == "thread"


def test_scan_defers_corrupted_tasks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """They are logged and left as they are; the other stores of the task are closed."""
    directory = StateDirectory(tmp_path)
    _write(directory, "0_0", RocksDBStore("a"), 9)
    _write(directory, "0_1", RocksDBStore("a"), 9)
    crashed = RocksDBStore("b", manages_offsets=False)
    crashed.init(_context(directory, "0_0"), crashed)
    crashed.put(b"a", b"1")
    crashed.close()
    both = [_rocksdb("a"), _rocksdb("b")]
    with caplog.at_level(logging.WARNING, logger="streamproof.stores"):
        _scan(directory, {"0_0": both, "0_1": both[:1]})
    assert "Task 0_0 is left for its first assignment" in caplog.text
    assert directory.task_offset_sums() == {"0_1": 10}
    _scan(directory, {"0_0": both}, guarantee=AT_LEAST_ONCE)
    assert directory.task_offset_sums() == {"0_0": 10, "0_1": 10}


def test_scan_names_the_task_of_any_other_error(tmp_path: Path) -> None:
    """The stores that were opened are closed, and the lock is given back."""
    directory = StateDirectory(tmp_path)
    _write(directory, "0_0", RocksDBStore("a"), 9)
    (tmp_path / "0_0" / "rocksdb" / "b").write_text("in the way")
    with pytest.raises(ProcessorStateError, match=r"stores of task 0_0 in .*rocksdb/b cannot be"):
        _scan(directory, {"0_0": [_rocksdb("a"), _rocksdb("b")]})
    assert directory.owner("0_0") is None
    _scan(directory, {"0_0": [_rocksdb("a")]})
    assert directory.task_offset_sums() == {"0_0": 10}


# --- offsets --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ({}, 0),
        ({P0: 0}, 1),
        ({P0: 9, P1: 4}, 15),
        ({P0: 9, P1: None}, 10),
        ({P0: 9, P1: OFFSET_UNKNOWN}, 10),
        ({P0: 2**63 - 1}, 2**63 - 1),
        ({P0: 2**63 - 2, P1: 5}, 2**63 - 1),
    ],
)
def test_offset_sum(offsets: dict[TopicPartition, int | None], expected: int) -> None:
    """Each offset counts one more record; what is not known counts none; sums do not overflow."""
    assert offset_sum(offsets) == expected


def test_only_persistent_stores_count(tmp_path: Path) -> None:
    """The content of others is gone with the task, whatever its offset was (KAFKA-20893)."""

    class Remembering(InMemoryKeyValueStore):
        def committed_offset(self, partition: TopicPartition) -> int | None:
            return 100

    directory = StateDirectory(tmp_path)
    context = _context(directory, "0_0")
    stores: list[StateStore] = [RocksDBStore("a"), Remembering("b")]
    for store in stores:
        store.init(context, store)
    stores[0].commit({P0: 9})
    assert persistent_offsets(stores, context) == {P0: 9}
    for store in stores:
        store.close()


def test_lag_of_closed_and_unknown_tasks(tmp_path: Path) -> None:
    """The distance to the ends; all of the changelog for a task without files here."""
    directory = StateDirectory(tmp_path)
    directory.update("0_0", {P0: 9, P1: 4})
    assert directory.task_lag("0_0", {P0: 10, P1: 5}) == 0
    assert directory.task_lag("0_0", {P0: 100, P1: 15}) == 100
    assert directory.task_lag("0_9", {P0: 100, P1: 15}) == 115


def test_lag_of_a_running_task(tmp_path: Path) -> None:
    """It has the latest offsets whatever these are, until it is closed."""
    directory = StateDirectory(tmp_path)
    directory.update("0_0", {P0: 9})
    directory.mark_running("0_0")
    assert directory.task_offset_sums() == {"0_0": LATEST_OFFSET}
    assert directory.task_lag("0_0", {P0: 100}) == LATEST_OFFSET == -2
    assert directory.task_lag("0_0", None) == LATEST_OFFSET
    directory.update("0_0", {P0: 49})
    assert directory.task_lag("0_0", {P0: 100}) == 50


def test_lag_of_a_task_that_is_ahead(tmp_path: Path) -> None:
    """The changelog was made anew, or the store is damaged: nothing of it is worth anything."""
    directory = StateDirectory(tmp_path)
    directory.update("0_0", {P0: 9})
    assert directory.task_lag("0_0", {P0: 4}) == 4


def test_lag_without_end_offsets(tmp_path: Path) -> None:
    """It is not known, which is not the same as the latest."""
    directory = StateDirectory(tmp_path)
    directory.update("0_0", {P0: 9})
    assert directory.task_lag("0_0", None) == UNKNOWN_OFFSET_SUM == -3


def test_end_offsets_do_not_overflow(tmp_path: Path) -> None:
    """As the sums, that of the ends stays in the range of a long."""
    directory = StateDirectory(tmp_path)
    assert directory.task_lag("0_0", {P0: 2**63 - 1, P1: 2**63 - 1}) == 2**63 - 1


def test_sums_from_many_threads(tmp_path: Path) -> None:
    """Updates, questions and locks from several threads at a time lose nothing."""
    directory = StateDirectory(tmp_path)

    def work(thread: int) -> int:
        won = 0
        for number in range(200):
            directory.update(f"{thread}_{number}", {P0: number})
            assert directory.task_offset_sums()[f"{thread}_{number}"] == number + 1
            won += directory.lock(f"0_{number}", f"thread-{thread}")
        return won

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(work, range(4))) == 200
    assert len(directory.task_offset_sums()) == 800
