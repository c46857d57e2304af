"""Timestamped key-value stores: what they keep, restore and stage, and the lazy migration."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from rocksdict import Options, Rdict, WriteBatch

from streamproof.stores.api import (
    EXACTLY_ONCE,
    NO_TIMESTAMP,
    ChangelogRecord,
    IsolationLevel,
    KeyValueStore,
    RecordMetadata,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.builtin import BUILTIN
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.errors import InvalidStateStoreError, NullArgumentError, ProcessorStateError
from streamproof.stores.memory import InMemoryKeyValueStore
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.timestamped import (
    RocksDBLazyTimestampedStore,
    RocksDBTimestampedStore,
    TimestampedKeyValueStore,
    TimestampedKeyValueTransaction,
    TimestampedView,
)
from streamproof.stores.timestamped_lazy import LazyRocksDBStore, TransactionalLazyRocksDBStore
from streamproof.stores.timestamps import ValueAndTimestamp
from streamproof.stores.transactional import RocksDBTransaction
from streamproof.stores.transactions import Transaction
from streamproof.stores.two_formats import Version2RocksDBStore

MakeContext = Callable[..., StateStoreContext]
P0 = TopicPartition("log", 0)
SURROGATE = b"\xff" * 8

MAKERS: dict[str, Callable[[], TimestampedKeyValueStore]] = {
    "memory": lambda: TimestampedKeyValueStore(InMemoryKeyValueStore("store")),
    "version-2": lambda: RocksDBTimestampedStore("store"),
    "version-2-transactional": lambda: RocksDBTimestampedStore("store", transactional=True),
    "lazy": lambda: RocksDBLazyTimestampedStore("store"),
    "lazy-transactional": lambda: RocksDBLazyTimestampedStore("store", transactional=True),
}
TRANSACTIONAL = [name for name in MAKERS if name.endswith("transactional")]


def _opened(kind: str, context: StateStoreContext) -> TimestampedKeyValueStore:
    store = MAKERS[kind]()
    store.init(context, store)
    return store


@pytest.fixture
def context(make_context: MakeContext) -> StateStoreContext:
    """An exactly-once context."""
    return make_context()


@pytest.fixture(params=list(MAKERS))
def store(
    request: pytest.FixtureRequest, context: StateStoreContext
) -> Iterator[TimestampedKeyValueStore]:
    """An open store of each kind."""
    opened = _opened(request.param, context)
    yield opened
    opened.close()


@pytest.fixture(params=TRANSACTIONAL)
def transactional(
    request: pytest.FixtureRequest, context: StateStoreContext
) -> Iterator[TimestampedKeyValueStore]:
    """An open store of each kind that has transactions."""
    opened = _opened(request.param, context)
    yield opened
    opened.close()


def test_values_come_back_with_their_timestamps(
    store: TimestampedKeyValueStore, context: StateStoreContext
) -> None:
    """Every method that writes, read with and without timestamps, before and after a commit."""
    context.record_timestamp = 7
    store.put(b"a", b"1")
    store.put_with_timestamp(b"b", b"2", 20)
    assert store.put_if_absent(b"c", b"3") is None
    assert store.put_if_absent_with_timestamp(b"d", b"", 0) is None
    store.put_all([(b"e", b"5"), (b"f", None)])
    store.put_all_with_timestamp([(b"g", ValueAndTimestamp(b"7", -1)), (b"h", None)])
    expected = [(b"a", b"1", 7), (b"b", b"2", 20), (b"c", b"3", 7)]
    expected += [(b"d", b"", 0), (b"e", b"5", 7), (b"g", b"7", -1)]
    for _ in range(2):
        found = [(key, *entry) for key, entry in store.all_with_timestamp()]
        assert found == expected
        assert list(store.all()) == [(key, value) for key, value, _ in expected]
        assert list(store.reverse_all()) == [(k, v) for k, v, _ in reversed(expected)]
        assert list(store.prefix_scan(b"b")) == [(b"b", b"2")]
        assert [store.get_with_timestamp(key) for key, *_ in expected] == [
            ValueAndTimestamp(value, timestamp) for _, value, timestamp in expected
        ]
        assert [store.get(key) for key, *_ in expected] == [value for _, value, _ in expected]
        store.commit({P0: 1})
    assert store.get_with_timestamp(b"f") is store.get_with_timestamp(b"h") is None


def test_deletions_and_values_that_are_there(store: TimestampedKeyValueStore) -> None:
    """What was there is returned, with its timestamp if that is asked for; None deletes."""
    store.put_with_timestamp(b"a", b"1", 5)
    assert store.put_if_absent(b"a", b"2") == b"1"
    assert store.put_if_absent_with_timestamp(b"a", None, 9) == (b"1", 5)
    assert store.delete_with_timestamp(b"a") == (b"1", 5)
    assert store.delete_with_timestamp(b"a") is store.delete(b"a") is None
    store.put_with_timestamp(b"b", b"1", 6)
    assert store.delete(b"b") == b"1"
    for key in (b"c", b"d"):
        store.put_with_timestamp(key, b"1", 7)
    store.put_with_timestamp(b"c", None, 8)
    store.put(b"d", None)
    assert list(store.all()) == []
    assert ValueAndTimestamp.make(None, 5) is None
    assert ValueAndTimestamp.make(b"", 5) == (b"", 5)


def test_null_keys_are_rejected(store: TimestampedKeyValueStore) -> None:
    """A key of None raises, and a batch with one writes nothing."""
    nothing = cast(Any, None)
    for call in (
        lambda: store.get_with_timestamp(nothing),
        lambda: store.put_with_timestamp(nothing, b"1", 1),
        lambda: store.put_if_absent_with_timestamp(nothing, b"1", 1),
        lambda: store.delete_with_timestamp(nothing),
        lambda: store.put_all_with_timestamp(
            [(b"a", ValueAndTimestamp(b"1", 1)), (nothing, ValueAndTimestamp(b"2", 1))]
        ),
    ):
        with pytest.raises(NullArgumentError):
            call()
    assert list(store.all()) == []


def test_range_with_timestamps(store: TimestampedKeyValueStore) -> None:
    """Bounds are inclusive, a peek does not advance, and a closed iterator raises."""
    for number, key in enumerate((b"a", b"b", b"c", b"d")):
        store.put_with_timestamp(key, key, number)
    assert list(store.range_with_timestamp(b"b", b"c")) == [(b"b", (b"b", 1)), (b"c", (b"c", 2))]
    assert list(store.range_with_timestamp(b"c", b"b")) == []
    assert list(store.range(b"b", None)) == [(b"b", b"b"), (b"c", b"c"), (b"d", b"d")]
    assert list(store.reverse_range(None, b"b")) == [(b"b", b"b"), (b"a", b"a")]
    with store.all_with_timestamp() as entries:
        assert next(entries) == (b"a", (b"a", 0))
        assert entries.peek_next_key() == b"b"
        assert next(entries) == (b"b", (b"b", 1))
    with pytest.raises(InvalidStateStoreError):
        next(entries)
    left_open = store.range_with_timestamp(None, None)
    store.close()
    for _ in range(2):
        with pytest.raises(InvalidStateStoreError):
            next(left_open)
    with pytest.raises(InvalidStateStoreError):
        store.get_with_timestamp(b"a")


def test_restoring_takes_the_timestamp_of_the_record(
    store: TimestampedKeyValueStore, context: StateStoreContext
) -> None:
    """The last record of a key wins, and a value that looks like a stored one is a value."""
    lookalike = (1234).to_bytes(8, "big") + b"value"
    context.restore_callbacks["store"](
        [
            ChangelogRecord(b"a", b"old", 0, 10),
            ChangelogRecord(b"b", b"gone", 1, 11),
            ChangelogRecord(b"c", lookalike, 2, 12),
            ChangelogRecord(b"d", SURROGATE, 3),
            ChangelogRecord(b"b", None, 4, 14),
            ChangelogRecord(b"a", b"new", 5, 9),
        ]
    )
    restored = {b"a": (b"new", 9), b"c": (lookalike, 12), b"d": (SURROGATE, NO_TIMESTAMP)}
    assert dict(store.all_with_timestamp()) == restored
    # What was restored was not staged: it is there without a commit.
    view = store.read_only(IsolationLevel.READ_COMMITTED)
    assert isinstance(view, TimestampedView)
    assert dict(view.all_with_timestamp()) == restored


@pytest.mark.parametrize("kind", [name for name in MAKERS if name != "memory"])
def test_timestamps_and_position_survive(kind: str, make_context: MakeContext) -> None:
    """A clean close keeps values, timestamps, offset and position."""
    context = make_context()
    store = _opened(kind, context)
    context.record_metadata = RecordMetadata("in", 0, 3)
    store.put_with_timestamp(b"a", b"1", 2**62)
    store.commit({P0: 4})
    store.close()
    store = _opened(kind, make_context())
    assert store.get_with_timestamp(b"a") == (b"1", 2**62)
    assert store.committed_offset(P0) == 4
    assert store.position.as_dict() == {("in", 0): 3}
    store.close()


def test_stored_form_and_directory(make_context: MakeContext) -> None:
    """Eight bytes, big-endian, before the value, in ``rocksdb/<name>-v2``."""
    context = make_context()
    store = _opened("version-2", context)
    store.put_with_timestamp(b"a", b"value", 258)
    store.commit({P0: 1})
    store.close()
    directory = Version2RocksDBStore("store").directory(context)
    assert directory == context.state_dir / "rocksdb" / "store-v2"
    families = {name: Options(raw_mode=True) for name in Rdict.list_cf(str(directory))}
    database = Rdict(str(directory), Options(raw_mode=True), column_families=families)
    records = database.get_column_family("keyValueWithTimestamp")
    assert dict(records.items()) == {b"a": b"\x00\x00\x00\x00\x00\x00\x01\x02value"}
    assert dict(database.items()) == {}


def test_damaged_value_is_an_error(make_context: MakeContext) -> None:
    """What is too short for a timestamp is not taken for a value."""
    store = _opened("version-2", make_context())
    store.inner.put(b"a", b"short")
    for call in (lambda: store.get(b"a"), lambda: store.get_with_timestamp(b"a")):
        with pytest.raises(ProcessorStateError, match="5 bytes"):
            call()
    store.close()


def test_what_the_stores_promise() -> None:
    """Timestamps on top of what the store below promises."""
    memory = MAKERS["memory"]().capabilities
    assert (memory.timestamped, memory.persistent, memory.upgrades_from) == (True, False, "")
    for name in ("rocksdb-timestamped", "rocksdb-timestamped-lazy"):
        found = cast(TimestampedKeyValueStore, BUILTIN[name]()).capabilities
        assert found == Capabilities(
            timestamped=True,
            position=True,
            upgrades_from="rocksdb",
            in_place_upgrade=name == "rocksdb-timestamped",
            read_only_views=True,
            durability="flush",
            imports_offsets=True,
        )
    transactional = cast(TimestampedKeyValueStore, BUILTIN["rocksdb-timestamped-transactional"]())
    assert transactional.capabilities.explicit_transactions
    assert transactional.capabilities.transactional
    assert transactional.capabilities.timestamped


def _begin(store: TimestampedKeyValueStore) -> TimestampedKeyValueTransaction:
    transaction = store.new_transaction()
    assert isinstance(transaction, TimestampedKeyValueTransaction)
    assert isinstance(transaction, Transaction)
    return transaction


def test_transactions_keep_timestamps(
    transactional: TimestampedKeyValueStore, context: StateStoreContext
) -> None:
    """A transaction stages values with timestamps; only its commit shows them to others."""
    store = transactional
    store.put_with_timestamp(b"a", b"1", 1)
    store.commit({P0: 1})
    context.record_timestamp = 9
    with _begin(store) as rolled_back:
        rolled_back.put(b"a", b"lost")
        assert rolled_back.get_with_timestamp(b"a") == (b"lost", 9)
        assert rolled_back.isolation_level is IsolationLevel.READ_COMMITTED
    assert not rolled_back.is_open
    transaction = _begin(store)
    transaction.init(context, transaction)
    transaction.put_with_timestamp(b"b", b"2", 2)
    transaction.delete_with_timestamp(b"a")
    assert dict(transaction.all_with_timestamp()) == {b"b": (b"2", 2)}
    assert dict(store.all_with_timestamp()) == {b"a": (b"1", 1)}
    transaction.commit({P0: 2})
    assert dict(store.all_with_timestamp()) == {b"b": (b"2", 2)}
    assert store.committed_offset(P0) == 2


def test_views_have_timestamps(transactional: TimestampedKeyValueStore) -> None:
    """READ_COMMITTED hides what is staged, READ_UNCOMMITTED shows it."""
    store = transactional
    store.put_with_timestamp(b"a", b"1", 1)
    store.commit({P0: 1})
    store.put_with_timestamp(b"a", b"2", 2)
    committed = store.read_only(IsolationLevel.READ_COMMITTED)
    uncommitted = store.read_only(IsolationLevel.READ_UNCOMMITTED)
    assert isinstance(committed, TimestampedView)
    assert isinstance(uncommitted, TimestampedView)
    assert committed.get_with_timestamp(b"a") == (b"1", 1)
    assert uncommitted.get_with_timestamp(b"a") == (b"2", 2)
    assert list(committed.range_with_timestamp(b"a", b"a")) == [(b"a", (b"1", 1))]
    assert list(uncommitted.reverse_all()) == list(uncommitted.prefix_scan(b"a")) == [(b"a", b"2")]
    assert (committed.get(b"a"), committed.get(b"b")) == (b"1", None)
    assert committed.approximate_num_entries() == 1
    store.commit({P0: 2})
    assert committed.get_with_timestamp(b"a") == (b"2", 2)


@pytest.mark.parametrize("kind", ["memory", "version-2", "lazy"])
def test_a_store_without_transactions_is_its_own(kind: str, make_context: MakeContext) -> None:
    store = _opened(kind, make_context())
    assert store.new_transaction() is store
    store.close()


# --- the lazy migration ---------------------------------------------------------------


def _plain_store(make_context: MakeContext, rows: dict[bytes, bytes]) -> None:
    """What the plain store leaves: rows, an offset and a position."""
    context = make_context()
    store = RocksDBStore("store")
    store.init(context, store)
    context.record_metadata = RecordMetadata("in", 0, 1)
    store.put_all(rows.items())
    store.commit({P0: 1})
    store.close()


def _lazy(make_context: MakeContext) -> LazyRocksDBStore:
    context = make_context()
    store = LazyRocksDBStore("store")
    store.init(context, store)
    return store


def _plain_rows(store: LazyRocksDBStore) -> dict[bytes, bytes]:
    plain = store._opened().plain
    assert plain is not None
    return cast(dict[bytes, bytes], dict(plain.items()))


def test_a_new_store_opens_in_regular_mode(
    make_context: MakeContext, caplog: pytest.LogCaptureFixture
) -> None:
    """Also when it is opened again: there is no plain row."""
    with caplog.at_level(logging.INFO, logger="streamproof.stores"):
        for _ in range(2):
            store = _lazy(make_context)
            assert not store.upgrading
            store.put(b"a", SURROGATE + b"1")
            store.close()
    assert caplog.text.count("in regular mode") == 2


def test_migration_of_a_plain_store(make_context: MakeContext) -> None:
    """Point by point what moves a row, what removes it, and what leaves it where it is.

    Source: Kafka, RocksDBTimestampedStoreTest#shouldMigrateDataFromDefaultToTimestampColumnFamily.
    """
    rows = {b"key-%d" % number: b"%d" % number for number in range(1, 8)}
    _plain_store(make_context, rows)
    store = _lazy(make_context)
    assert store.upgrading
    assert (store.committed_offset(P0), store.position.as_dict()) == (1, {("in", 0): 1})
    assert store.approximate_num_entries() == 7
    # Reading finds the value after the surrogate timestamp, and moves the row.
    assert store.get(b"key-1") == SURROGATE + b"1"
    assert store.get(b"unknown") is None
    assert _plain_rows(store).keys() == rows.keys() - {b"key-1"}
    # Writing removes the plain row.
    store.put(b"key-2", b"timestmp-two")
    store.put(b"key-3", None)
    store.put(b"unknown", None)
    assert _plain_rows(store).keys() == {b"key-4", b"key-5", b"key-6", b"key-7"}
    # put_if_absent reads, and so moves; delete reads without moving.
    assert store.put_if_absent(b"key-4", b"ignored!") == SURROGATE + b"4"
    assert store.put_if_absent(b"key-5", None) == SURROGATE + b"5"
    assert store.put_if_absent(b"unknown", None) is None
    assert store.delete(b"key-6") == SURROGATE + b"6"
    assert store.delete(b"key-6") is None
    assert _plain_rows(store) == {b"key-7": b"7"}
    merged = [
        (b"key-1", SURROGATE + b"1"),
        (b"key-2", b"timestmp-two"),
        (b"key-4", SURROGATE + b"4"),
        (b"key-5", SURROGATE + b"5"),
        (b"key-7", SURROGATE + b"7"),
    ]
    for _ in range(2):
        assert list(store.all()) == merged
        assert list(store.reverse_all()) == merged[::-1]
        assert list(store.range(b"key-2", b"key-4")) == merged[1:3]
        assert list(store.reverse_range(b"key-5", None)) == merged[:2:-1]
        assert list(store.prefix_scan(b"key-7")) == merged[4:]
        assert list(store.prefix_scan(b"key-")) == merged
        # Scans have moved nothing, and opening again finds the same.
        assert _plain_rows(store) == {b"key-7": b"7"}
        store.close()
        store = _lazy(make_context)
        assert store.upgrading
    store.put_all([(b"key-7", b"timestmp-new")])
    assert _plain_rows(store) == {}
    store.close()
    store = _lazy(make_context)
    assert not store.upgrading
    assert store.get(b"key-7") == b"timestmp-new"
    store.close()


def test_new_rows_win_and_ranges_go_from_both(make_context: MakeContext) -> None:
    """A key in both column families counts once; restoring and delete_range reach both."""
    _plain_store(make_context, {b"a": b"1", b"b": b"2", b"c": b"3", b"d": b"4"})
    store = _lazy(make_context)
    database = store._opened()
    database.data.put(b"a", b"timestmp-new")
    assert store.get(b"a") == b"timestmp-new"
    assert next(store.all()) == (b"a", b"timestmp-new")
    assert len(list(store.all())) == 4
    store.delete_range(b"b", b"c")
    assert [key for key, _ in store.all()] == [b"a", b"c", b"d"]
    store.restore([ChangelogRecord(b"c", b"restored-c", 2), ChangelogRecord(b"d", None, 3)])
    assert [key for key, _ in store.all()] == [b"a", b"c"]
    assert _plain_rows(store) == {b"a": b"1"}
    store.delete(b"a")
    assert dict(store.all()) == {b"c": b"restored-c"}
    store.close()


@pytest.mark.parametrize("kind", ["lazy", "lazy-transactional"])
def test_plain_values_have_no_timestamp(kind: str, make_context: MakeContext) -> None:
    """Through the wrapper: old values with NO_TIMESTAMP, replayed ones with their own."""
    _plain_store(make_context, {b"a": b"1", b"b": b"2", b"c": b"3"})
    context = make_context()
    store = _opened(kind, context)
    assert store.get_with_timestamp(b"a") == (b"1", NO_TIMESTAMP)
    assert store.get(b"b") == b"2"
    context.restore_callbacks["store"]([ChangelogRecord(b"b", b"2", 1, 77)])
    expected = {b"a": (b"1", NO_TIMESTAMP), b"b": (b"2", 77), b"c": (b"3", NO_TIMESTAMP)}
    assert dict(store.all_with_timestamp()) == expected
    store.close()


def test_downgrade_to_the_plain_store_is_refused(make_context: MakeContext) -> None:
    """Once opened with timestamps, the plain store says why it does not open the directory."""
    _plain_store(make_context, {b"a": b"1"})
    _lazy(make_context).close()
    plain = RocksDBStore("store")
    with pytest.raises(ProcessorStateError, match="timestamps") as error:
        plain.init(make_context(), plain)
    assert "cannot downgrade" in str(error.value)
    store = _lazy(make_context)
    assert store.get(b"a") == SURROGATE + b"1"
    store.close()


def _transaction(store: TransactionalLazyRocksDBStore) -> RocksDBTransaction:
    transaction = store.new_transaction()
    assert isinstance(transaction, RocksDBTransaction)
    return transaction


def test_transactions_over_plain_rows(make_context: MakeContext) -> None:
    """Staged writes lie over both column families, and a rollback loses no row.

    Source: Kafka 4.4, DualColumnFamilyAccessorTransactionalTest.
    """
    rows = dict.fromkeys((b"a", b"b", b"c", b"d", b"e"), b"old")
    _plain_store(make_context, rows)
    context = make_context()
    store = TransactionalLazyRocksDBStore("store")
    store.init(context, store)
    converted = dict.fromkeys(rows, SURROGATE + b"old")
    for end in ("rollback", "commit"):
        transaction = _transaction(store)
        transaction.put(b"a", b"staged-a")
        transaction.delete_range(b"c", b"e")
        assert transaction.delete(b"b") == SURROGATE + b"old"
        transaction.put(b"f", b"staged-f")
        seen = {b"a": b"staged-a", b"e": converted[b"e"], b"f": b"staged-f"}
        assert dict(transaction.all()) == seen
        assert dict(transaction.reverse_range(b"a", b"d")) == {b"a": b"staged-a"}
        assert dict(transaction.prefix_scan(b"c")) == {}
        for key in (*rows, b"f", b"unknown"):
            assert transaction.get(key) == seen.get(key)
        # Others see what is committed, whether a row was migrated meanwhile or not.
        assert dict(store.all()) == converted
        if end == "rollback":
            transaction.close()
            assert dict(store.all()) == converted
        else:
            transaction.commit({P0: 2})
            assert dict(store.all()) == seen
    # What was never read is still a plain row of its own only if nothing wrote it.
    assert b"e" not in _plain_rows(store)
    assert _plain_rows(store) == {}
    store.close()


@pytest.fixture
def _eager_threads() -> Iterator[None]:
    """Let threads take turns as often as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-7)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_eager_threads")
def test_migration_does_not_lose_rows_to_other_threads(make_context: MakeContext) -> None:
    """While a writer overwrites rows and readers migrate them, no row is missed or set back."""
    keys = [b"key-%04d" % number for number in range(2000)]
    _plain_store(make_context, dict.fromkeys(keys, b"old"))
    store = _lazy(make_context)
    wrong: list[object] = []
    start = threading.Barrier(3)

    def read() -> None:
        start.wait()
        for number, key in enumerate(keys):
            wrong.extend([key] * (store.get(key) is None))
            if number % 200 == 0:
                found = [key for key, _ in store.all()]
                wrong.extend([len(found)] * (found != keys))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    start.wait()
    for key in keys:
        store.put(key, b"timestmp-new")
    for reader in readers:
        reader.join()
    assert wrong == []
    assert {value for _, value in store.all()} == {b"timestmp-new"}
    assert _plain_rows(store) == {}
    store.close()


def test_whoever_writes_while_upgrading_takes_a_turn(
    make_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other thread can write between the reading and the writing of a migration."""
    _plain_store(make_context, dict.fromkeys((b"a", b"b", b"c", b"d", b"e"), b"old"))
    context = make_context()
    store = TransactionalLazyRocksDBStore("store")
    store.init(context, store)
    database, free = store._opened(), []
    write = database.write

    def watched_write(batch: WriteBatch) -> None:
        other = threading.Thread(target=lambda: free.append(store._turn.acquire(blocking=False)))
        other.start()
        other.join()
        write(batch)

    monkeypatch.setattr(database, "write", watched_write)
    store.get(b"a")
    store.put(b"b", b"timestmp")
    store.delete(b"c")
    store.delete_range(b"d", b"e")
    store.restore([ChangelogRecord(b"e", b"timestmp", 0)])
    _transaction(store).put(b"f", b"timestmp")
    store.commit({P0: 2})
    assert free == [False] * 6
    assert [key for key, _ in store.all()] == [b"a", b"b", b"e", b"f"]
    store.close()


def test_lazy_store_is_opened_by_its_name(make_context: MakeContext) -> None:
    """The built-in subject takes over what the built-in plain store left."""
    plain = cast(KeyValueStore, BUILTIN["rocksdb"]())
    context = make_context()
    assert context.app_configs["processing.guarantee"] == EXACTLY_ONCE
    plain.init(context, plain)
    plain.put(b"a", b"1")
    plain.commit({P0: 0})
    plain.close()
    lazy = cast(TimestampedKeyValueStore, BUILTIN["rocksdb-timestamped-lazy"]())
    lazy.init(make_context(), lazy)
    assert dict(lazy.all()) == {b"a": b"1"}
    assert lazy.committed_offset(P0) == 0
    lazy.close()
