"""The checkpoint file, and the wrapper that keeps one beside a store."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from streamproof.stores.api import StateStoreContext, TopicPartition
from streamproof.stores.checkpoint import OFFSET_UNKNOWN, OffsetCheckpoint
from streamproof.stores.errors import ProcessorStateError, TaskCorruptedError, UsageError
from streamproof.stores.legacy import LegacyCheckpointingStateStore
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
        ("1\n0\n", 1, "version 1 is not known"),
        ("0\n", 2, "found nothing"),
        ("0\nx\n", 2, "found 'x'"),
        ("0\n2\nt 0 1\n", 2, "2 offsets are announced, 1 are there"),
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
    """A file that cannot be written does not stop the commit."""
    context = make_context(exactly_once=False)
    store = _legacy(threshold=0)
    store.init(context, store)
    _file(context).path.mkdir()
    with caplog.at_level(logging.WARNING, logger="streamproof.stores"):
        store.commit({P0: 1})
    assert "were not written" in caplog.text
    assert store.committed_offset(P0) == 1
    store.close()


def test_only_legacy_stores_are_wrapped() -> None:
    """Stores that need no file are refused, with the reason."""
    with pytest.raises(UsageError, match="not persistent"):
        LegacyCheckpointingStateStore(InMemoryKeyValueStore("store"))
    with pytest.raises(UsageError, match="managing its offsets"):
        LegacyCheckpointingStateStore(RocksDBStore("store"))
