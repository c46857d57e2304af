"""Windows and sessions with timestamps, in a directory beside the plain format (KIP-258)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamproof.stores.api import ChangelogRecord, StateStoreContext, TopicPartition
from streamproof.stores.errors import InvalidArgumentError, ProcessorStateError
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.transactional import TransactionalKeyValueStore, TransactionalRocksDBStore
from streamproof.stores.two_formats import TransactionalVersion2RocksDBStore, Version2RocksDBStore
from streamproof.stores.windowed.keys import session_key, window_key
from streamproof.stores.windowed.rocksdb_sessions import RocksDBSessionStore
from streamproof.stores.windowed.rocksdb_windows import RocksDBWindowStore
from streamproof.stores.windowed.segment_databases import SegmentDatabases
from streamproof.stores.windowed.timestamped_sessions import (
    TimestampedRocksDBSessionStore,
    TimestampedSessionStore,
)
from streamproof.stores.windowed.timestamped_windows import (
    TimestampedRocksDBWindowStore,
    TimestampedWindowStore,
)
from streamproof.stores.windows import Window, Windowed

P0 = TopicPartition("streamproof-store-changelog", 0)
VALUE = b"\0" * 8 + b"looks like a timestamp"
SESSION = Windowed(b"a", Window(0, 10))

MakeContext = Callable[..., StateStoreContext]


def windows(kind: Callable[..., Any], **arguments: Any) -> Any:
    """A window store, plain or with timestamps."""
    return kind("store", retention_ms=60_000, window_size_ms=10, **arguments)


def sessions(kind: Callable[..., Any], **arguments: Any) -> Any:
    """A session store, plain or with timestamps."""
    return kind("store", retention_ms=60_000, **arguments)


class Windows:
    """One entry of a window store."""

    key = window_key(b"a", 0)

    def plain(self, **arguments: Any) -> Any:
        return windows(RocksDBWindowStore, **arguments)

    def timestamped(self, **arguments: Any) -> Any:
        return windows(TimestampedRocksDBWindowStore, **arguments)

    layer = TimestampedWindowStore

    def put(self, store: Any) -> None:
        store.put(b"a", VALUE, 0)

    def get(self, store: Any) -> Any:
        return store.fetch(b"a", 0)

    def timed(self, store: Any) -> Any:
        return store.fetch_with_timestamp(b"a", 0)


class Sessions:
    """One entry of a session store."""

    key = session_key(b"a", 0, 10)

    def plain(self, **arguments: Any) -> Any:
        return sessions(RocksDBSessionStore, **arguments)

    def timestamped(self, **arguments: Any) -> Any:
        return sessions(TimestampedRocksDBSessionStore, **arguments)

    layer = TimestampedSessionStore

    def put(self, store: Any) -> None:
        store.put(SESSION, VALUE)

    def get(self, store: Any) -> Any:
        return store.fetch_session(b"a", 0, 10)

    def timed(self, store: Any) -> Any:
        return store.fetch_session_with_timestamp(b"a", 0, 10)


pytestmark = pytest.mark.parametrize("kind", [Windows(), Sessions()], ids=["window", "session"])


def test_a_plain_store_is_replaced(make_context: MakeContext, kind: Any) -> None:
    """The new format begins without an offset; the changelog fills it, and the old one goes."""
    context = make_context()
    store = kind.plain()
    store.init(context, store)
    kind.put(store)
    store.commit({P0: 4})
    store.close()
    store = kind.timestamped()
    store.init(context, store)
    assert store.committed_offset(P0) is None
    assert kind.get(store) is None
    directory = context.state_dir / "rocksdb"
    assert {path.name for path in directory.iterdir()} == {"store", "store-v2"}
    context.restore_callbacks["store"]([ChangelogRecord(kind.key, VALUE, 4, 1_234)])
    store.commit({P0: 3})
    assert (directory / "store").exists()
    store.commit({P0: 4})
    assert not (directory / "store").exists()
    assert tuple(kind.timed(store)) == (VALUE, 1_234)
    store.close()
    store = kind.timestamped()
    store.init(context, store)
    assert store.committed_offset(P0) == 4
    assert kind.get(store) == VALUE
    store.close()


def test_the_way_back_is_refused(make_context: MakeContext, kind: Any) -> None:
    """A plain store would show timestamps as values; it names the newer format instead."""
    context = make_context()
    store = kind.timestamped()
    store.init(context, store)
    kind.put(store)
    store.commit({P0: 4})
    store.close()
    plain = kind.plain()
    with pytest.raises(ProcessorStateError, match=r"newer format.*a downgrade is not possible"):
        plain.init(context, plain)
    store.init(context, store)
    assert kind.get(store) == VALUE
    store.close()


@pytest.mark.parametrize(
    "make",
    [
        lambda: RocksDBStore("store"),
        lambda: TransactionalKeyValueStore(TransactionalRocksDBStore("store")),
        lambda: SegmentDatabases("store", segment_interval_ms=60_000),
    ],
)
def test_rows_of_the_plain_format_are_refused(kind: Any, make: Callable[[], Any]) -> None:
    """Also under other layers: the values would lose their first eight bytes."""
    with pytest.raises(InvalidArgumentError, match=r"must not share files"):
        kind.layer(kind.plain(inner=make()))


@pytest.mark.parametrize("make", [Version2RocksDBStore, TransactionalVersion2RocksDBStore])
def test_plain_values_are_refused_in_the_new_format(kind: Any, make: Callable[[str], Any]) -> None:
    """They would lose eight bytes when they are read as values with timestamps."""
    with pytest.raises(InvalidArgumentError, match=r"must not share files. Use RocksDBStore"):
        kind.plain(inner=make("store"))
