"""What is sent to the changelog of a store, and what is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from streamproof.errors import UsageError
from streamproof.stores.api import (
    ChangelogRecord,
    IsolationLevel,
    KeyValueStore,
    RecordMetadata,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.errors import InvalidStateStoreError, NullArgumentError, StoreError
from streamproof.stores.memory import InMemoryKeyValueStore
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.runtime.changelogging import ChangeLoggingStore, change_logging
from streamproof.stores.runtime.layers import WindowLayer, capabilities_of, find_layer
from streamproof.stores.sessions import SessionStore
from streamproof.stores.timestamped import RocksDBTimestampedStore
from streamproof.stores.timestamps import ValueAndTimestamp
from streamproof.stores.transactional import TransactionalKeyValueStore, TransactionalRocksDBStore
from streamproof.stores.transactions import Transaction
from streamproof.stores.windowed.keys import session_key, window_key
from streamproof.stores.windowed.memory_sessions import default_store as memory_session_store
from streamproof.stores.windowed.memory_windows import InMemoryWindowStore
from streamproof.stores.windowed.memory_windows import default_store as memory_window_store
from streamproof.stores.windowed.rocksdb_sessions import (
    default_store as session_store,
)
from streamproof.stores.windowed.rocksdb_windows import (
    RocksDBWindowStore,
)
from streamproof.stores.windowed.rocksdb_windows import (
    default_store as window_store,
)
from streamproof.stores.windowed.timestamped_sessions import (
    default_store as timestamped_session_store,
)
from streamproof.stores.windowed.timestamped_windows import (
    default_store as timestamped_window_store,
)
from streamproof.stores.windows import Window, Windowed, WindowStore

MakeContext = Callable[..., StateStoreContext]
Sent = tuple[str, bytes, bytes | None, int]
P0 = TopicPartition("streamproof-store-changelog", 0)
SESSION = Windowed(b"a", Window(5, 9))
NOW = 70
"""The timestamp of the record that is being processed."""


@pytest.fixture
def log() -> list[Sent]:
    """What was sent to the changelog."""
    return []


@pytest.fixture
def context(make_context: MakeContext, log: list[Sent]) -> StateStoreContext:
    context = make_context()
    context.changelog = lambda *record: log.append(record)
    context.record_metadata = RecordMetadata("input", 0, 7)
    context.record_timestamp = NOW
    return context


def sent(log: list[Sent]) -> list[tuple[bytes, bytes | None]]:
    """Keys and values since the last time; all at the record's timestamp, from the store."""
    found = [(key, value) for _, key, value, _ in log]
    assert all((name, timestamp) == ("store", NOW) for name, _, _, timestamp in log)
    log.clear()
    return found


def restored(make: Callable[[], Any], log: Sequence[Sent], context: StateStoreContext) -> Any:
    """A new store, in a directory of its own, that was restored from what was sent."""
    context.state_dir = context.state_dir.with_name("restored")
    store = make()
    store.init(context, store)
    records = [ChangelogRecord(key, value, n, ts) for n, (_, key, value, ts) in enumerate(log)]
    context.restore_callbacks["store"](records)
    return store


# --- key-value ------------------------------------------------------------------------


@pytest.mark.parametrize("make", [InMemoryKeyValueStore, RocksDBStore, RocksDBTimestampedStore])
def test_key_value(
    context: StateStoreContext, log: list[Sent], make: Callable[[str], KeyValueStore]
) -> None:
    """ChangeLoggingKeyValueBytesStoreTest."""
    store = change_logging(make("store"))
    store.init(context, store)
    store.put(b"a", b"1")
    store.put(b"a", None)
    assert sent(log) == [(b"a", b"1"), (b"a", None)]
    assert store.put_if_absent(b"a", b"2") is None
    assert sent(log) == [(b"a", b"2")]
    assert store.put_if_absent(b"a", b"3") == b"2"
    assert sent(log) == []
    store.put_all(iter([(b"b", b""), (b"c", b"4"), (b"b", None)]))
    assert sent(log) == [(b"b", b""), (b"c", b"4"), (b"b", None)]
    assert store.delete(b"c") == b"4"
    assert store.delete(b"absent") is None
    assert sent(log) == [(b"c", None), (b"absent", None)]
    assert list(store.all()) == [(b"a", b"2")]
    assert capabilities_of(store).change_logging
    store.close()


def test_timestamps_go_with_the_plain_values(context: StateStoreContext, log: list[Sent]) -> None:
    """ChangeLoggingTimestampedKeyValueBytesStoreTest; a tombstone has the record's timestamp."""
    store = change_logging(RocksDBTimestampedStore("store"))
    store.init(context, store)
    store.put_with_timestamp(b"a", b"1", 10)
    store.put_with_timestamp(b"b", None, 20)
    store.put(b"c", b"3")
    assert store.put_if_absent_with_timestamp(b"d", b"4", 40) is None
    assert store.put_if_absent_with_timestamp(b"d", b"5", 50) == ValueAndTimestamp(b"4", 40)
    store.put_all_with_timestamp(iter([(b"e", ValueAndTimestamp(b"6", 60)), (b"a", None)]))
    assert store.delete_with_timestamp(b"c") == ValueAndTimestamp(b"3", NOW)
    assert log == [
        ("store", b"a", b"1", 10),
        ("store", b"b", None, NOW),
        ("store", b"c", b"3", NOW),
        ("store", b"d", b"4", 40),
        ("store", b"e", b"6", 60),
        ("store", b"a", None, NOW),
        ("store", b"c", None, NOW),
    ]
    expected = list(store.all_with_timestamp())
    assert expected == [(b"d", ValueAndTimestamp(b"4", 40)), (b"e", ValueAndTimestamp(b"6", 60))]
    assert list(store.range_with_timestamp(b"e", None)) == expected[1:]
    assert store.get_with_timestamp(b"d") == ValueAndTimestamp(b"4", 40)
    store.close()
    again = restored(lambda: RocksDBTimestampedStore("store"), log, context)
    assert list(again.all_with_timestamp()) == expected
    again.close()


def test_the_inner_store_is_written_first(context: StateStoreContext) -> None:
    """When a record is sent, the store has it."""
    store = change_logging(InMemoryKeyValueStore("store"))
    seen: list[bytes | None] = []
    context.changelog = lambda _, key, __, ___: seen.append(store.get(key))
    store.init(context, store)
    store.put(b"a", b"1")
    store.put_all([(b"b", b"2"), (b"b", b"3")])
    store.delete(b"a")
    assert seen == [b"1", b"3", b"3", None]
    store.close()


def test_what_raised_is_not_logged(
    context: StateStoreContext, log: list[Sent], monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = InMemoryKeyValueStore("store")
    store = change_logging(inner)
    store.init(context, store)
    entries: Any = [(b"a", b"1"), (None, b"2")]
    with pytest.raises(NullArgumentError):
        store.put_all(entries)

    def fail(*_: object) -> None:
        raise StoreError("no")

    with monkeypatch.context() as patch:
        patch.setattr(inner, "put", fail)
        for call in (store.put, store.put_if_absent):
            with pytest.raises(StoreError, match="no"):
                call(b"a", b"1")
        with pytest.raises(StoreError, match="no"):
            store.delete(b"a")
    store.close()
    with pytest.raises(InvalidStateStoreError):
        store.put(b"a", b"1")
    assert log == []


def test_restoring_is_not_logged(context: StateStoreContext, log: list[Sent]) -> None:
    store = change_logging(RocksDBStore("store"))
    store.init(context, store)
    context.restore_callbacks["store"]([ChangelogRecord(b"a", b"1", 0)])
    assert store.get(b"a") == b"1"
    assert log == []
    store.close()


def test_without_a_changelog(make_context: MakeContext) -> None:
    """Nobody listens, and everything works; views are those of the inner store."""
    store = change_logging(RocksDBStore("store"))
    context = make_context()
    store.init(context, store)
    store.put(b"a", b"1")
    store.commit({P0: 3})
    assert store.committed_offset(P0) == 3
    assert store.read_only(IsolationLevel.READ_COMMITTED).get(b"a") == b"1"
    assert store.new_transaction() is store
    store.close()


# --- windows and sessions -------------------------------------------------------------


@pytest.mark.parametrize("make", [window_store, memory_window_store])
def test_windows(
    context: StateStoreContext, log: list[Sent], make: Callable[[], WindowStore]
) -> None:
    """ChangeLoggingWindowBytesStoreTest#shouldLogPuts; a put that comes too late is logged."""
    store = change_logging(make())
    store.init(context, store)
    store.put(b"a", b"1", 5)
    store.put(b"a", None, 5)
    store.put(b"b", b"2", 1_000_000)
    store.put(b"late", b"3", 5)
    assert store.dropped_records == 1
    assert [(key.key, value) for key, value in store.all()] == [(b"b", b"2")]
    with pytest.raises(ValueError, match="out of range"):
        store.put(b"a", b"1", -1)
    assert sent(log) == [
        (window_key(b"a", 5), b"1"),
        (window_key(b"a", 5), None),
        (window_key(b"b", 1_000_000), b"2"),
        (window_key(b"late", 5), b"3"),
    ]
    store.close()


@pytest.mark.parametrize(
    "make",
    [
        lambda: RocksDBWindowStore(
            "store", retention_ms=180_000, window_size_ms=10, retain_duplicates=True
        ),
        lambda: InMemoryWindowStore(
            "store", retention_ms=180_000, window_size_ms=10, retain_duplicates=True
        ),
    ],
)
def test_duplicates_have_the_numbers_of_their_rows(
    context: StateStoreContext, log: list[Sent], make: Callable[[], WindowStore]
) -> None:
    """ChangeLoggingWindowBytesStoreTest#shouldRetainDuplicatesWhenSet; None is ignored."""
    store = change_logging(make())
    store.init(context, store)
    for value in (b"1", b"1", None, b"2"):
        store.put(b"a", value, 5)
    keys = [key for _, key, _, _ in log]
    assert keys == sorted(set(keys))
    assert [value for _, _, value, _ in log] == [b"1", b"1", b"2"]
    rows = list(store.all())
    assert [value for _, value in rows] == [b"1", b"1", b"2"]
    store.close()
    again = restored(make, log, context)
    assert list(again.all()) == rows
    again.close()


def test_duplicates_go_on_after_a_restart(context: StateStoreContext, log: list[Sent]) -> None:
    """What is put after a restart takes the place of nothing that was logged before."""

    def make() -> WindowStore:
        return RocksDBWindowStore(
            "store", retention_ms=180_000, window_size_ms=10, retain_duplicates=True
        )

    for value in (b"1", b"2"):
        store = change_logging(make())
        store.init(context, store)
        store.put(b"a", value, 5)
        store.commit({P0: len(log)})
        store.close()
    again = restored(make, log, context)
    assert [value for _, value in again.all()] == [b"1", b"2"]
    again.close()


def test_duplicates_without_numbers_cannot_be_logged() -> None:
    class Silent(WindowLayer[WindowStore]):
        capabilities = capabilities_of(
            InMemoryWindowStore("x", retention_ms=10, window_size_ms=1, retain_duplicates=True)
        )

    with pytest.raises(UsageError, match="give it a property sequence"):
        change_logging(Silent(memory_window_store()))


@pytest.mark.parametrize("make", [session_store, memory_session_store])
def test_sessions(
    context: StateStoreContext, log: list[Sent], make: Callable[[], SessionStore]
) -> None:
    """ChangeLoggingSessionBytesStoreTest#shouldLogPuts, shouldLogRemoves."""
    store = change_logging(make())
    store.init(context, store)
    store.put(SESSION, b"1")
    store.remove(SESSION)
    store.remove(Windowed(b"absent", Window(1, 2)))
    store.put(Windowed(b"b", Window(1, 2)), b"2")
    assert sent(log) == [
        (session_key(b"a", 5, 9), b"1"),
        (session_key(b"a", 5, 9), None),
        (session_key(b"absent", 1, 2), None),
        (session_key(b"b", 1, 2), b"2"),
    ]
    assert [value for _, value in store.fetch(b"b")] == [b"2"]
    store.close()


def test_windows_and_sessions_with_timestamps(context: StateStoreContext, log: list[Sent]) -> None:
    """Plain values are sent, at their timestamps, and restored with them."""
    windows = change_logging(timestamped_window_store())
    windows.init(context, windows)
    windows.put(b"a", b"1", 5)
    windows.put_with_timestamp(b"b", b"2", 20, 5)
    windows.put_with_timestamp(b"c", None, 30, 5)
    assert log == [
        ("store", window_key(b"a", 5), b"1", NOW),
        ("store", window_key(b"b", 5), b"2", 20),
        ("store", window_key(b"c", 5), None, NOW),
    ]
    expected = list(windows.all_with_timestamp())
    assert [stamped.timestamp for _, stamped in expected] == [NOW, 20]
    windows.close()
    again = restored(timestamped_window_store, log, context)
    assert list(again.all_with_timestamp()) == expected
    again.close()
    log.clear()
    context.state_dir = context.state_dir.with_name("sessions")
    sessions = change_logging(timestamped_session_store())
    sessions.init(context, sessions)
    sessions.put(SESSION, b"1")
    sessions.put_with_timestamp(SESSION, b"2", 20)
    sessions.put_with_timestamp(SESSION, None, 30)
    key = session_key(b"a", 5, 9)
    assert log == [
        ("store", key, b"1", NOW),
        ("store", key, b"2", 20),
        ("store", key, None, NOW),
    ]
    sessions.close()


# --- transactions ---------------------------------------------------------------------


def test_a_transaction_logs_what_it_stages(context: StateStoreContext, log: list[Sent]) -> None:
    """When it is staged; and so does another transaction that it opens."""
    store = change_logging(TransactionalKeyValueStore(TransactionalRocksDBStore("store")))
    store.init(context, store)
    opened = store.new_transaction()
    assert isinstance(opened, Transaction)
    assert isinstance(opened, ChangeLoggingStore)
    transaction: Any = opened
    assert transaction.isolation_level is IsolationLevel.READ_COMMITTED
    with transaction:
        transaction.put(b"a", b"1")
        assert sent(log) == [(b"a", b"1")]
        assert (transaction.get(b"a"), store.get(b"a")) == (b"1", None)
        with transaction.new_transaction() as another:
            another.put(b"b", b"2")
            assert sent(log) == [(b"b", b"2")]
        transaction.commit({P0: 1})
    assert not transaction.is_open
    assert list(store.all()) == [(b"a", b"1")]
    assert store.committed_offset(P0) == 1
    store.close()


TRANSACTIONS: dict[
    str, tuple[Callable[[], StateStore], Callable[[Any], None], Callable[[Any], bytes | None]]
] = {
    "key-value": (
        lambda: RocksDBTimestampedStore("store", transactional=True),
        lambda t: t.put_with_timestamp(b"a", b"1", NOW),
        lambda t: t.get(b"a"),
    ),
    "window": (
        timestamped_window_store,
        lambda t: t.put_with_timestamp(b"a", b"1", NOW, 5),
        lambda t: t.fetch(b"a", 5),
    ),
    "session": (
        timestamped_session_store,
        lambda t: t.put_with_timestamp(SESSION, b"1", NOW),
        lambda t: t.fetch_session(b"a", 5, 9),
    ),
}
"""How each kind with timestamps is made, written and read."""


@pytest.mark.parametrize("kind", TRANSACTIONS)
def test_transactions_of_every_kind(context: StateStoreContext, log: list[Sent], kind: str) -> None:
    make, write, read = TRANSACTIONS[kind]
    keys = {"key-value": b"a", "window": window_key(b"a", 5), "session": session_key(b"a", 5, 9)}
    store: Any = change_logging(make())
    store.init(context, store)
    transaction: Any = store.new_transaction()
    write(transaction)
    assert sent(log) == [(keys[kind], b"1")]
    assert (read(transaction), read(store)) == (b"1", None)
    transaction.commit({P0: 1})
    assert read(store) == b"1"
    store.close()


def test_a_transaction_of_duplicates(context: StateStoreContext, log: list[Sent]) -> None:
    """It takes its numbers from the store, as its rows do."""

    def make() -> WindowStore:
        inner = TransactionalKeyValueStore(TransactionalRocksDBStore("store"))
        return RocksDBWindowStore(
            "store", retention_ms=180_000, window_size_ms=10, retain_duplicates=True, inner=inner
        )

    store = change_logging(make())
    store.init(context, store)
    transaction: Any = store.new_transaction()
    for value in (b"1", None, b"2"):
        transaction.put(b"a", value, 5)
    transaction.commit({P0: 1})
    store.put(b"a", b"3", 5)
    assert [value for _, value in store.all()] == [b"1", b"2", b"3"]
    store.close()
    again = restored(make, log, context)
    assert [value for _, value in again.all()] == [b"1", b"2", b"3"]
    again.close()


def test_layers_are_found() -> None:
    inner = InMemoryKeyValueStore("store")
    store = change_logging(inner)
    assert find_layer(store, InMemoryKeyValueStore) is inner
    assert find_layer(store, type(store)) is store
    assert find_layer(store, RocksDBStore) is None
    assert find_layer(None, RocksDBStore) is None


class OtherStore(StateStore):
    """A store of no kind that is known."""

    name = "other"
    persistent = is_open = False

    def init(self, context: StateStoreContext, root: StateStore) -> None: ...

    def close(self) -> None: ...


def test_what_cannot_be_logged() -> None:
    with pytest.raises(
        UsageError, match="Store 'other' is a OtherStore, whose writes cannot be logged"
    ):
        change_logging(OtherStore())
