"""The checkpoint file, and the wrapper that keeps one beside a store."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from streamproof.errors import UsageError
from streamproof.stores.api import UPGRADE_FROM_CONFIG, StateStoreContext, TopicPartition
from streamproof.stores.checkpoint import OFFSET_UNKNOWN, OffsetCheckpoint, StoreCheckpoint
from streamproof.stores.checkpointing import LegacyCheckpointingStateStore
from streamproof.stores.errors import ProcessorStateError, TaskCorruptedError
from streamproof.stores.memory import InMemoryKeyValueStore
from streamproof.stores.rocksdb import RocksDBStore

MakeContext = Callable[..., StateStoreContext]
P0, P1 = TopicPartition("app-store-changelog", 0), TopicPartition("app-store-changelog", 1)
GOLDEN = "0\n2\napp-store-changelog 0 1234\napp-store-changelog 1 -4\n"


def test_checkpoint_format(tmp_path: Path) -> None:
    """The file is, byte for byte, what Kafka writes; it is read back; no file is empty."""
    checkpoint = OffsetCheckpoint(tmp_path / ".checkpoint")
    assert checkpoint.read() == {}
    checkpoint.write({P0: 1234, P1: OFFSET_UNKNOWN})
    assert checkpoint.path.read_text() == GOLDEN
    assert checkpoint.read() == {P0: 1234, P1: -4}
    assert [path.name for path in tmp_path.iterdir()] == [".checkpoint"]
    checkpoint.write({})
    assert not checkpoint.path.exists()
    checkpoint.delete()


def test_invalid_offsets_are_dropped_when_reading(tmp_path: Path) -> None:
    """A negative offset in a file is left out, together with its place in the count."""
    checkpoint = OffsetCheckpoint(tmp_path / "file")
    checkpoint.path.write_text("0\n2\nt 0 -2\nt 1 5\n")
    assert checkpoint.read() == {TopicPartition("t", 1): 5}


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        ("", 1, "found nothing"),
        ("1\n0\n", 1, "the version is 1"),
        ("0\n", 2, "found nothing"),
        ("0\nx\n", 2, "found 'x'"),
        ("0\n2\nt 0 1\n", 2, "expected 2 offsets, but found 1"),
        ("0\n1\nt 0\n", 3, "found 't 0'"),
        ("0\n1\nt 0 one\n", 3, "found 't 0 one'"),
        ("0\n1\nt 0 1 2\n", 3, "found 't 0 1 2'"),
    ],
)
def test_malformed_checkpoint(content: str, line: int, problem: str, tmp_path: Path) -> None:
    """Errors name the file, the line, and what was found there."""
    checkpoint = OffsetCheckpoint(tmp_path / "file")
    checkpoint.path.write_text(content)
    with pytest.raises(ProcessorStateError) as error:
        checkpoint.read()
    assert f"file, line {line}: " in str(error.value)
    assert problem in str(error.value)


def test_stores_share_a_checkpoint(tmp_path: Path) -> None:
    """Each has entries of its own, under the topic that it knows; the last one deletes the file."""
    path = tmp_path / ".checkpoint"
    one = StoreCheckpoint(path, "app-one-changelog", "own-changelog")
    two = StoreCheckpoint(path, "app-two-changelog", "own-changelog")
    partition = TopicPartition("own-changelog", 3)
    one.write({partition: 5})
    assert (one.exists, two.exists) == (True, False)
    two.write({partition: 7})
    one.write({partition: 6})
    assert (one.read(), two.read()) == ({partition: 6}, {partition: 7})
    assert path.read_text() == "0\n2\napp-two-changelog 3 7\napp-one-changelog 3 6\n"
    one.delete()
    assert (one.read(), two.read()) == ({}, {partition: 7})
    two.write({})
    assert not path.exists()


def test_checkpoint_that_cannot_be_written(tmp_path: Path) -> None:
    """An invalid offset and a missing directory are reported; nothing is left behind."""
    checkpoint = OffsetCheckpoint(tmp_path / "missing" / "file")
    with pytest.raises(ProcessorStateError, match="Offset -1 of app-store-changelog-0"):
        checkpoint.write({P0: -1})
    with pytest.raises(ProcessorStateError, match="Check that its directory exists"):
        checkpoint.write({P0: 1})


def _legacy(threshold: int = 10) -> LegacyCheckpointingStateStore:
    inner = RocksDBStore("store", manages_offsets=False)
    return LegacyCheckpointingStateStore(inner, offset_delta_threshold=threshold)


def _file(context: StateStoreContext) -> OffsetCheckpoint:
    return OffsetCheckpoint(Path(context.state_dir) / ".checkpoint_store")


def _of_task(context: StateStoreContext) -> OffsetCheckpoint:
    return OffsetCheckpoint(Path(context.state_dir) / ".checkpoint")


def test_default_threshold_is_ten_thousand_records(make_context: MakeContext) -> None:
    """10,000 records since the last write are not enough, one more is."""
    inner = RocksDBStore("store", manages_offsets=False)
    store = LegacyCheckpointingStateStore(inner)
    context = make_context(exactly_once=False)
    store.init(context, store)
    store.commit({P0: 9_999})
    assert not _file(context).path.exists()
    store.commit({P0: 10_000})
    assert _file(context).read() == {P0: 10_000}
    store.commit({P0: 20_000})
    assert _file(context).read() == {P0: 10_000}
    store.commit({P0: 20_001})
    assert _file(context).read() == {P0: 20_001}
    store.close()


def test_at_least_once_writes_when_the_delta_exceeds_the_threshold(
    make_context: MakeContext,
) -> None:
    """The threshold counts records since the last write, and reaching it is not enough."""
    context = make_context(exactly_once=False)
    store = _legacy(threshold=10)
    store.init(context, store)
    store.commit({P0: 9})
    assert not _file(context).path.exists()
    store.commit({P0: 10})
    assert _file(context).read() == {P0: 10}
    store.commit({P0: 15, P1: 4})
    assert _file(context).read() == {P0: 10}
    store.commit({P1: 5})
    assert _file(context).read() == {P0: 15, P1: 5}
    store.commit({P0: 16})
    assert store.committed_offset(P0) == 16
    store.close()
    assert _file(context).read() == {P0: 16, P1: 5}


def test_forgetting_is_written_at_once(make_context: MakeContext) -> None:
    """An offset that was forgotten must not come back after a crash."""
    context = make_context(exactly_once=False)
    store = _legacy(threshold=0)
    store.init(context, store)
    store.commit({P0: 9, P1: 9})
    store.commit({P1: None})
    assert _file(context).read() == {P0: 9}
    store.commit({})
    assert not _file(context).path.exists()
    assert store.committed_offset(P0) is None
    store.close()


def test_falling_offset_is_written_at_once(make_context: MakeContext) -> None:
    """After a crash, the larger one would promise records that are not there."""
    context = make_context(exactly_once=False)
    store = _legacy(threshold=1000)
    _file(context).path.parent.mkdir(parents=True)
    _file(context).write({P0: 500})
    store.init(context, store)
    store.commit({P0: 3})
    assert _file(context).read() == {P0: 3}
    store.close()


def test_exactly_once_has_a_file_only_while_closed(make_context: MakeContext) -> None:
    """The file is deleted by init, not written by commit, and written by close."""
    context = make_context()
    store = _legacy(threshold=0)
    for number in range(2):
        store.init(context, store)
        assert not _file(context).path.exists()
        assert store.committed_offset(P0) == (None if number == 0 else 5)
        store.put(b"a", b"1")
        store.commit({P0: 5})
        assert not _file(context).path.exists()
        store.close()
        assert _file(context).read() == {P0: 5}


def test_exactly_once_without_any_offset_still_closes_cleanly(make_context: MakeContext) -> None:
    """The file then says that the offset is unknown, which is not the sign of a crash."""
    store = _legacy()
    for _ in range(2):
        context = make_context()
        store.init(context, store)
        assert store.committed_offset(P0) is None
        store.close()
        partition = TopicPartition(context.changelog_topic("store"), 0)
        assert _file(context).read() == {partition: OFFSET_UNKNOWN}


@pytest.mark.parametrize("exactly_once", [True, False])
def test_corrupted_store_writes_no_file(make_context: MakeContext, exactly_once: bool) -> None:
    """Its content is not to be trusted, and under exactly-once a missing file says so."""
    context = make_context(exactly_once=exactly_once)
    store = _legacy()
    store.init(context, store)
    store.put(b"a", b"1")
    store.commit({P0: 5})
    store.mark_corrupted()
    store.close()
    assert not store.is_open
    assert not _file(context).path.exists()
    if exactly_once:
        with pytest.raises(TaskCorruptedError):
            store.init(context, store)
        _file(context).write({P0: OFFSET_UNKNOWN})
    # What was marked is the content that was there then, and not the store for good.
    store.init(context, store)
    store.commit({P0: 6})
    store.close()
    assert _file(context).read() == {P0: 6}


def test_foreign_partitions_are_ignored(make_context: MakeContext) -> None:
    """Of both files only the store's own partitions count, if they are given."""
    context = make_context()
    context.state_dir.mkdir(parents=True)
    _file(context).write({P0: 5, P1: 6})
    inner = RocksDBStore("store", manages_offsets=False)
    store = LegacyCheckpointingStateStore(inner, changelog_partitions=[P0])
    store.init(context, store)
    assert (store.committed_offset(P0), store.committed_offset(P1)) == (5, None)
    store.close()
    assert _file(context).read() == {P0: 5}
    _of_task(context).write({P0: 4, P1: 6})
    store.init(context, store)
    assert (store.committed_offset(P0), store.committed_offset(P1)) == (4, None)
    assert _of_task(context).read() == {P1: 6}
    store.close()


def test_a_store_that_is_not_logged_has_no_file(make_context: MakeContext) -> None:
    """There is no changelog that an offset could be in, and nothing to restore from."""
    context = make_context()
    inner = RocksDBStore("store", manages_offsets=False)
    store = LegacyCheckpointingStateStore(inner, offset_delta_threshold=0, changelog_partitions=[])
    for _ in range(2):
        store.init(context, store)
        store.put(b"a", b"1")
        store.commit({P0: 5})
        store.close()
        assert not _file(context).path.exists()


@pytest.mark.parametrize("exactly_once", [True, False])
def test_offsets_of_the_task_file_are_moved(make_context: MakeContext, exactly_once: bool) -> None:
    """They were kept there before KIP-1035; what belongs to other stores stays."""
    context = make_context(exactly_once=exactly_once)
    own = TopicPartition(context.changelog_topic("store"), 0)
    plain = RocksDBStore("store", manages_offsets=False)
    plain.init(context, plain)
    plain.put(b"a", b"1")
    plain.close()
    _of_task(context).write({own: 7, P0: 3})
    store = _legacy()
    store.init(context, store)
    assert store.committed_offset(own) == 7
    assert store.get(b"a") == b"1"
    assert _of_task(context).read() == {P0: 3}
    assert _file(context).path.exists() is not exactly_once
    store.close()
    assert _file(context).read() == {own: 7}


def test_moving_goes_on_after_a_crash(make_context: MakeContext) -> None:
    """Killed between writing the one file and changing the other, both have the offset."""
    context = make_context()
    context.state_dir.mkdir(parents=True)
    own = TopicPartition(context.changelog_topic("store"), 0)
    _of_task(context).write({own: 7})
    _file(context).write({own: 7})
    store = _legacy()
    store.init(context, store)
    assert store.committed_offset(own) == 7
    assert not _of_task(context).path.exists()
    store.close()


def test_malformed_task_file_stops_init(make_context: MakeContext) -> None:
    """An entry that cannot be understood might be that of another store."""
    context = make_context()
    context.state_dir.mkdir(parents=True)
    _of_task(context).path.write_text("0\n1\nsome-topic 0 -7\n")
    store = _legacy()
    with pytest.raises(ProcessorStateError, match=r"\.checkpoint, line 3: offset -7"):
        store.init(context, store)
    assert not store.is_open


def test_downgrade_moves_the_offsets_back(make_context: MakeContext) -> None:
    """An older version reads the task's file alone; without an offset it finds -4 there."""
    context = make_context(**{UPGRADE_FROM_CONFIG: "4.2"})
    own = TopicPartition(context.changelog_topic("store"), 0)
    store = _legacy()
    context.state_dir.mkdir(parents=True)
    _of_task(context).write({P0: 3})
    for offset in (None, 7, 8):
        store.init(context, store)
        assert _of_task(context).read() == {P0: 3}
        if offset is not None:
            store.commit({own: offset})
        store.close()
        assert not _file(context).path.exists()
        assert _of_task(context).read() == {P0: 3, own: offset or OFFSET_UNKNOWN}
    _of_task(context).path.write_text("nonsense\n")
    with pytest.raises(ProcessorStateError, match="line 1"):
        store.init(context, store)


def test_failing_downgrade_is_a_warning(
    make_context: MakeContext, caplog: pytest.LogCaptureFixture
) -> None:
    """The offsets are then left in the store's own file."""
    context = make_context(**{UPGRADE_FROM_CONFIG: "4.2"})
    store = _legacy()
    store.init(context, store)
    store.commit({P0: 7})
    _of_task(context).path.write_text("nonsense\n")
    with caplog.at_level(logging.WARNING, logger="streamproof.stores"):
        store.close()
    assert "were not moved" in caplog.text
    assert _file(context).read() == {P0: 7}


def test_missing_file_beside_records_is_corruption(make_context: MakeContext) -> None:
    """Under exactly-once it means a crash; under at-least-once it does not."""
    context = make_context()
    store = _legacy()
    store.init(context, store)
    store.put(b"a", b"1")
    store.close()
    _file(context).delete()
    with pytest.raises(TaskCorruptedError, match="not closed cleanly"):
        store.init(context, store)
    lenient = make_context(exactly_once=False)
    store.init(lenient, store)
    assert store.get(b"a") == b"1"
    store.close()


def test_malformed_file_stops_init(make_context: MakeContext) -> None:
    """The inner store is not opened when the file cannot be read."""
    context = make_context()
    context.state_dir.mkdir(parents=True)
    _file(context).path.write_text("nonsense")
    store = _legacy()
    with pytest.raises(ProcessorStateError, match="checkpoint_store, line 1"):
        store.init(context, store)
    assert not store.is_open
    store.close()


def test_a_warning_says_that_the_store_is_legacy(
    make_context: MakeContext, caplog: pytest.LogCaptureFixture
) -> None:
    """Persistent without managing offsets: one warning at init."""
    store = _legacy()
    with caplog.at_level(logging.WARNING, logger="streamproof.stores"):
        store.init(make_context(), store)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    store.close()


def test_failing_write_is_a_warning(
    make_context: MakeContext, caplog: pytest.LogCaptureFixture
) -> None:
    """A file that cannot be written does not stop the commit; flush and close need it."""
    context = make_context(exactly_once=False)
    store = _legacy(threshold=0)
    store.init(context, store)
    _file(context).path.mkdir()
    with caplog.at_level(logging.WARNING, logger="streamproof.stores"):
        store.commit({P0: 1})
    assert "were not written" in caplog.text
    assert store.committed_offset(P0) == 1
    with pytest.raises(ProcessorStateError):
        store.flush()
    with pytest.raises(ProcessorStateError):
        store.close()
    assert not store.is_open


def test_a_flush_writes_what_a_commit_could_not(make_context: MakeContext) -> None:
    """A flush that returns makes the last commit durable, whatever failed before."""
    context = make_context(exactly_once=False)
    store = _legacy(threshold=0)
    store.init(context, store)
    _file(context).path.mkdir()
    store.commit({P0: 1})
    _file(context).path.rmdir()
    store.flush()
    assert _file(context).read() == {P0: 1}
    store.close()


def test_only_legacy_stores_are_wrapped() -> None:
    """Stores that need no file are refused, with the reason."""
    with pytest.raises(UsageError, match="not persistent"):
        LegacyCheckpointingStateStore(InMemoryKeyValueStore("store"))
    with pytest.raises(UsageError, match="managing its offsets"):
        LegacyCheckpointingStateStore(RocksDBStore("store"))
