"""What a RocksDB store takes over from the files of a version before KIP-1035."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from streamproof.stores.api import RecordMetadata, StateStoreContext, TopicPartition
from streamproof.stores.checkpoint import (
    OFFSET_UNKNOWN,
    OffsetCheckpoint,
    changelog_partition,
    smallest_offsets,
)
from streamproof.stores.checkpointing import LegacyCheckpointingStateStore
from streamproof.stores.errors import ProcessorStateError, TaskCorruptedError
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.transactional import TransactionalRocksDBStore

MakeContext = Callable[..., StateStoreContext]
P0 = TopicPartition("streamproof-store-changelog", 0)
P1 = TopicPartition("streamproof-store-changelog", 1)
FOREIGN = TopicPartition("streamproof-other-changelog", 0)
INPUT = TopicPartition("input", 0)
INPUT_1 = TopicPartition("input", 1)


def _write_older(context: StateStoreContext, *, flushed: bool = True) -> None:
    """Let a version before KIP-1035 write a record; what is not flushed is lost."""
    store = RocksDBStore("store", manages_offsets=False)
    store.init(context, store)
    if flushed:
        store.put(b"a", b"1")
    store.close()


def _open(context: StateStoreContext) -> RocksDBStore:
    store = RocksDBStore("store")
    store.init(context, store)
    return store


def _checkpoint(context: StateStoreContext, suffix: str = "") -> OffsetCheckpoint:
    return OffsetCheckpoint(context.state_dir / f".checkpoint{suffix}")


def _positions(context: StateStoreContext) -> tuple[OffsetCheckpoint, OffsetCheckpoint]:
    in_store = context.state_dir / "rocksdb" / "store" / ".position"
    return OffsetCheckpoint(in_store), OffsetCheckpoint(context.state_dir / "store.position")


@pytest.mark.parametrize("exactly_once", [True, False])
def test_offsets_of_the_task_file(make_context: MakeContext, exactly_once: bool) -> None:
    """All partitions of the own topic are taken over; the other stores' entries stay."""
    context = make_context(exactly_once=exactly_once)
    _write_older(context)
    _checkpoint(context).write({P0: 7, FOREIGN: 3, P1: 8})
    store = _open(context)
    assert (store.committed_offset(P0), store.committed_offset(P1)) == (7, 8)
    assert store.committed_offset(FOREIGN) is None
    assert store.get(b"a") == b"1"
    assert _checkpoint(context).path.read_text() == f"0\n1\n{FOREIGN.topic} 0 3\n"
    store.close()
    store = _open(context)
    assert (store.committed_offset(P0), store.committed_offset(P1)) == (7, 8)
    store.close()


def test_empty_task_file_is_deleted(make_context: MakeContext) -> None:
    """When the last entry was taken over, no file is left."""
    context = make_context()
    _write_older(context)
    _checkpoint(context).write({P0: 7})
    _open(context).close()
    assert not _checkpoint(context).path.exists()


def test_offsets_of_the_store_file(make_context: MakeContext) -> None:
    """Every entry of ``.checkpoint_<store>`` is the store's, and the file is deleted."""
    context = make_context()
    _write_older(context)
    _checkpoint(context, "_store").write({P0: 7, FOREIGN: 3})
    store = _open(context)
    assert (store.committed_offset(P0), store.committed_offset(FOREIGN)) == (7, 3)
    assert not _checkpoint(context, "_store").path.exists()
    store.close()


def test_of_two_files_the_smaller_offset_counts(make_context: MakeContext) -> None:
    """One of them is stale, and the smaller offset never promises records that are not there."""
    context = make_context()
    _write_older(context)
    _checkpoint(context).write({P0: 7, P1: 9})
    _checkpoint(context, "_store").write({P0: 8, P1: OFFSET_UNKNOWN})
    store = _open(context)
    assert (store.committed_offset(P0), store.committed_offset(P1)) == (7, None)
    store.close()


def test_a_legacy_store_becomes_one_that_manages_offsets(make_context: MakeContext) -> None:
    """What the wrapper left at its close is what the store without it starts from."""
    context = make_context()
    legacy = LegacyCheckpointingStateStore(RocksDBStore("store", manages_offsets=False))
    legacy.init(context, legacy)
    legacy.put(b"a", b"1")
    legacy.commit({P0: 7})
    legacy.close()
    store = _open(context)
    assert store.committed_offset(P0) == 7
    store.close()


@pytest.mark.parametrize("place", [0, 1])
def test_position_file(make_context: MakeContext, place: int) -> None:
    """The position comes from either place, is stored, and its file is deleted."""
    context = make_context()
    _write_older(context)
    _checkpoint(context).write({P0: 7})
    file = _positions(context)[place]
    file.write({INPUT: 5, INPUT_1: 6})
    for _ in range(2):
        store = _open(context)
        assert store.position.as_dict() == {INPUT: 5, INPUT_1: 6}
        assert not file.path.exists()
        store.close()


def test_positions_of_both_places_are_merged(make_context: MakeContext) -> None:
    """Offsets of a position only grow, so that the larger one counts."""
    context = make_context()
    _write_older(context)
    _checkpoint(context).write({P0: 7})
    for file, offset in zip(_positions(context), (5, 6), strict=True):
        file.write({INPUT: offset})
    store = _open(context)
    assert store.position.as_dict() == {INPUT: 6}
    store.close()


def test_what_the_database_has_wins(make_context: MakeContext) -> None:
    """An entry for a partition that has an offset is removed and changes nothing."""
    context = make_context()
    store = _open(context)
    context.record_metadata = RecordMetadata("input", 0, 2)
    store.put(b"a", b"1")
    store.commit({P0: 20})
    store.close()
    _checkpoint(context).write({P0: 7, P1: 8})
    _positions(context)[0].write({INPUT: 9})
    store = _open(context)
    assert (store.committed_offset(P0), store.committed_offset(P1)) == (20, 8)
    assert store.position.as_dict() == {INPUT: 2}
    assert not _checkpoint(context).path.exists()
    assert not _positions(context)[0].path.exists()
    store.close()


def test_imported_once(make_context: MakeContext) -> None:
    """An offset that was imported and then forgotten does not come back."""
    context = make_context()
    _write_older(context)
    _checkpoint(context).write({P0: 7})
    store = _open(context)
    store.commit({})
    store.close()
    store = _open(context)
    assert store.committed_offset(P0) is None
    store.close()


def test_unknown_offset_is_not_a_crash(make_context: MakeContext) -> None:
    """-4 says that no offset is known: the records are kept, and restored from the start."""
    context = make_context()
    _write_older(context)
    _checkpoint(context).write({P0: OFFSET_UNKNOWN})
    for _ in range(2):
        store = _open(context)
        assert store.committed_offset(P0) is None
        assert store.get(b"a") == b"1"
        assert not _checkpoint(context).path.exists()
        store.close()


@pytest.mark.parametrize("kind", [RocksDBStore, TransactionalRocksDBStore])
def test_records_without_offsets_are_a_crash(
    make_context: MakeContext, kind: type[RocksDBStore]
) -> None:
    """Under exactly-once, however often it is tried, and nothing is touched."""
    context = make_context()
    _write_older(context)
    _checkpoint(context).write({FOREIGN: 3})
    directory = context.state_dir / "rocksdb" / "store"
    before = sorted(each.name for each in directory.iterdir())
    for _ in range(2):
        store = kind("store")
        with pytest.raises(TaskCorruptedError, match=r"'store'.*not closed cleanly.*Wipe"):
            store.init(context, store)
        assert not store.is_open
        assert sorted(each.name for each in directory.iterdir()) == before
    assert _checkpoint(context).read() == {FOREIGN: 3}


def test_records_without_offsets_under_at_least_once(make_context: MakeContext) -> None:
    """There is no offset, so that the changelog is replayed from its start."""
    context = make_context(exactly_once=False)
    _write_older(context)
    store = _open(context)
    assert store.committed_offset(P0) is None
    assert store.get(b"a") == b"1"
    store.close()


def test_no_records_and_no_offsets_is_not_a_crash(make_context: MakeContext) -> None:
    """A store that was opened and never written has nothing that could be wrong."""
    context = make_context()
    _write_older(context, flushed=False)
    store = _open(context)
    assert store.committed_offset(P0) is None
    store.close()


def test_offsets_without_a_database_are_dropped(
    make_context: MakeContext, caplog: pytest.LogCaptureFixture
) -> None:
    """Their records are gone: imported, they would keep the changelog from being replayed."""
    context = make_context()
    context.state_dir.mkdir(parents=True)
    _checkpoint(context).write({P0: 7, FOREIGN: 3})
    _positions(context)[1].write({INPUT: 5})
    with caplog.at_level(logging.WARNING, logger="streamproof.stores"):
        store = _open(context)
    assert store.committed_offset(P0) is None
    assert store.position.as_dict() == {}
    assert _checkpoint(context).read() == {FOREIGN: 3}
    assert not _positions(context)[1].path.exists()
    assert "no database" in caplog.text
    store.close()


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        ("", 1, "found nothing"),
        ("1\n0\n", 1, "the version is 1"),
        ("0\n2\nstreamproof-store-changelog 0 7\n", 2, "expected 2 offsets, but found 1"),
        ("0\n1\nstreamproof-store-changelog 0 -2\n", 3, "offset -2 is negative"),
        ("0\n1\nstreamproof-store-changelog 0 12", 3, "the line does not end"),
        ("0\n2\nt 0 1\nt 0 2\n", 4, "t-0 occurs twice"),
        ("0\n1\nstreamproof-store-changelog 0\n", 3, "expected 'topic partition offset'"),
    ],
)
@pytest.mark.parametrize(
    "file", [".checkpoint", ".checkpoint_store", "store.position", "rocksdb/store/.position"]
)
def test_malformed_files_stop_the_import(
    make_context: MakeContext, file: str, content: str, line: int, problem: str
) -> None:
    """The file, the line and the problem are named, and nothing is deleted or opened."""
    context = make_context()
    _write_older(context)
    path = context.state_dir / file
    path.write_text(content)
    store = RocksDBStore("store")
    with pytest.raises(ProcessorStateError) as error:
        store.init(context, store)
    assert f"{path}, line {line}: " in str(error.value)
    assert problem in str(error.value)
    assert path.read_text() == content
    _write_older(context)


def test_a_store_without_offsets_imports_nothing(make_context: MakeContext) -> None:
    """The files belong to who keeps the offsets of such a store."""
    context = make_context()
    context.state_dir.mkdir(parents=True)
    _checkpoint(context).write({P0: 7})
    _write_older(context)
    assert _checkpoint(context).read() == {P0: 7}


def test_partitions_are_removed_from_a_file(tmp_path: Path) -> None:
    """The others stay as they are; a file that would not change is not written."""
    file = OffsetCheckpoint(tmp_path / ".checkpoint")
    file.remove({P0})
    assert not file.path.exists()
    file.write({P0: 1, P1: OFFSET_UNKNOWN})
    written = file.path.stat().st_ino
    file.remove({FOREIGN})
    assert file.path.stat().st_ino == written
    file.remove({P0})
    assert file.read() == {P1: OFFSET_UNKNOWN}
    file.remove({P0, P1})
    assert not file.path.exists()


def test_smallest_offsets() -> None:
    """All partitions are there, and -4 is smaller than every offset."""
    assert smallest_offsets({P0: 3, P1: 5}, {P1: 4, FOREIGN: 0}) == {P0: 3, P1: 4, FOREIGN: 0}
    assert smallest_offsets({P0: OFFSET_UNKNOWN}, {P0: 3}) == {P0: OFFSET_UNKNOWN}
    assert smallest_offsets({}, {}) == {}


def test_changelog_partition(tmp_path: Path) -> None:
    """It has the number of the task; the task of the global stores has none."""
    context = StateStoreContext(tmp_path, application_id="app", task_id="2_13")
    assert changelog_partition(context, "s") == TopicPartition("app-s-changelog", 13)
    assert changelog_partition(StateStoreContext(tmp_path, task_id="global"), "s") is None


def test_offsets_beside_a_damaged_database_are_kept(make_context: MakeContext) -> None:
    """A database that lost the file CURRENT is refused, and is not taken for a new one."""
    context = make_context()
    _write_older(context)
    _checkpoint(context).write({P0: 7})
    (context.state_dir / "rocksdb" / "store" / "CURRENT").unlink()
    store = RocksDBStore("store")
    with pytest.raises(ProcessorStateError, match="CURRENT is missing"):
        store.init(context, store)
    assert _checkpoint(context).read() == {P0: 7}
