"""Segments in databases of their own, with transactions over all of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from streamproof.stores.api import (
    WRITE_BUFFER_BYTES_CONFIG,
    Position,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.errors import ProcessorStateError
from streamproof.stores.rocksdb_database import Database
from streamproof.stores.windowed.rocksdb_windows import (
    RETENTION_MS,
    RocksDBWindowStore,
    segments_store,
    transactional_segments_store,
)
from streamproof.stores.windowed.segment_journal import JournalWrite, SegmentJournal
from streamproof.stores.windowed.transactional_segments import TransactionalSegmentDatabases

MakeContext = Callable[..., StateStoreContext]
P0 = TopicPartition("streamproof-store-changelog", 0)
STARTS = (0, RETENTION_MS // 2, RETENTION_MS - 1)
"""The starts of windows in three segments."""


def opened(
    make: Callable[[], RocksDBWindowStore], context: StateStoreContext
) -> RocksDBWindowStore:
    store = make()
    store.init(context, store)
    return store


def put_everywhere(store: RocksDBWindowStore, value: bytes) -> None:
    for start in STARTS:
        store.put(b"key", value, start)


def values(store: RocksDBWindowStore) -> list[bytes | None]:
    return [store.fetch(b"key", start) for start in STARTS]


def killed(context: StateStoreContext, name: str) -> StateStoreContext:
    """The context of a task whose files are those that a kill would leave now."""
    copy = Path(context.state_dir).with_name(name)
    shutil.copytree(context.state_dir, copy)
    return replace(context, state_dir=copy, restore_callbacks={})


def test_a_kill_after_a_commit_loses_nothing(make_context: MakeContext) -> None:
    context = make_context()
    store = opened(transactional_segments_store, context)
    put_everywhere(store, b"1")
    store.commit({P0: 2})
    put_everywhere(store, b"staged")
    found = opened(transactional_segments_store, killed(context, "killed"))
    assert values(found) == [b"1"] * 3
    assert found.committed_offset(P0) == 2
    found.close()
    store.close()


@pytest.mark.parametrize("goes_on", [False, True], ids=["closes", "goes on"])
def test_a_commit_that_no_segment_could_take_is_repeated(
    make_context: MakeContext, monkeypatch: pytest.MonkeyPatch, *, goes_on: bool
) -> None:
    """The journal has the commit, and forgets it only once the segments have it."""
    context = make_context()
    store = opened(transactional_segments_store, context)
    put_everywhere(store, b"1")
    with monkeypatch.context() as full:
        full.setattr(TransactionalSegmentDatabases, "_create_segment", no_space)
        with pytest.raises(ProcessorStateError, match="no space"):
            store.commit({P0: 2})
    if goes_on:
        store.commit({P0: 2})
        assert values(store) == [b"1"] * 3
    store.close()
    found = opened(transactional_segments_store, make_context())
    assert found.committed_offset(P0) == 2
    assert values(found) == [b"1"] * 3
    found.close()


def no_space(*_: object, **__: object) -> NoReturn:
    raise ProcessorStateError("There is no space for a segment.")


def test_a_journal_that_could_not_be_written_forgets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log may have the write that failed, and would lose the writes before it."""
    journal = SegmentJournal(tmp_path, None)
    journal.commit([JournalWrite(b"a", b"1")], {P0: 0}, Position())
    with monkeypatch.context() as full:
        full.setattr(Database, "write", no_space)
        with pytest.raises(ProcessorStateError, match="no space"):
            journal.append([JournalWrite(b"b", b"2")])
    journal.forget()
    assert list(journal.writes()) == [JournalWrite(b"a", b"1")]
    journal.close()


def test_a_segment_that_flushed_alone_is_no_commit(make_context: MakeContext) -> None:
    context = make_context()
    store = opened(transactional_segments_store, context)
    put_everywhere(store, b"1")
    store.commit({P0: 2})
    store.flush()
    put_everywhere(store, b"2")
    store.commit({P0: 5})
    segments = store.inner.inner  # type: ignore[attr-defined]
    segments._segments[1].flush()
    found = opened(transactional_segments_store, killed(context, "killed"))
    assert values(found) == [b"2"] * 3
    assert found.committed_offset(P0) == 5
    found.close()
    store.close()


def test_files_without_transactions_are_taken_over(make_context: MakeContext) -> None:
    context = make_context()
    plain = opened(segments_store, context)
    put_everywhere(plain, b"1")
    plain.commit({P0: 2})
    plain.close()
    store = opened(transactional_segments_store, context)
    assert (values(store), store.committed_offset(P0)) == ([b"1"] * 3, 2)
    put_everywhere(store, b"2")
    store.commit({P0: 5})
    store.close()
    with pytest.raises(ProcessorStateError, match=r"store\.journal.*with transactions"):
        opened(segments_store, context)


def test_the_journal_is_emptied(make_context: MakeContext) -> None:
    context = make_context(**{WRITE_BUFFER_BYTES_CONFIG: 4096})
    store = opened(transactional_segments_store, context)
    for number in range(50):
        put_everywhere(store, b"%d" % number + b"." * 200)
        store.commit({P0: number})
    journal = store.inner.inner._journal  # type: ignore[attr-defined]
    assert journal.num_bytes < 3 * 4096
    assert len(list(journal.writes())) < 50
    store.close()
    store = opened(transactional_segments_store, context)
    assert [value and value[:2] for value in values(store)] == [b"49"] * 3
    assert store.committed_offset(P0) == 49
    store.close()
