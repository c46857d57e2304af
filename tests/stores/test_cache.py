"""A cached store: what it holds back, and what is read through it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamproof.stores.api import (
    ChangelogRecord,
    IsolationLevel,
    KeyValueStore,
    RecordMetadata,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.errors import InvalidStateStoreError, NullArgumentError, StoreError
from streamproof.stores.memory import InMemoryKeyValueStore
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.runtime.cache import (
    CACHE_MAX_BYTES,
    ENTRY_OVERHEAD_BYTES,
    CachingKeyValueStore,
    CachingTimestampedKeyValueStore,
    FlushedRecord,
    RecordCache,
)
from streamproof.stores.runtime.layers import capabilities_of
from streamproof.stores.timestamped import RocksDBTimestampedStore
from streamproof.stores.timestamps import ValueAndTimestamp
from streamproof.stores.transactional import TransactionalKeyValueStore, TransactionalRocksDBStore
from streamproof.stores.transactions import Transaction

MakeContext = Callable[..., StateStoreContext]
P0 = TopicPartition("streamproof-store-changelog", 0)

ONE = 1 + 1 + ENTRY_OVERHEAD_BYTES
"""What an entry with a key and a value of one byte each counts."""

MERGED = [(b"a", b"1"), (b"b", b"new"), (b"d", b"4"), (b"e", b"5")]
"""What ``fill`` leads to."""


class Cached(NamedTuple):
    store: CachingKeyValueStore
    inner: InMemoryKeyValueStore
    cache: RecordCache
    context: StateStoreContext
    flushed: list[FlushedRecord]


@pytest.fixture
def cached(make_context: MakeContext) -> Iterator[Cached]:
    """An open store in memory behind a large cache; nobody listens yet."""
    inner, cache, context = InMemoryKeyValueStore("store"), RecordCache(), make_context()
    store = CachingKeyValueStore(inner, cache)
    store.init(context, store)
    yield Cached(store, inner, cache, context, [])
    store.close()


def fill(cached: Cached) -> None:
    """Entries in the store only, in the cache only, in both, and deleted in the cache."""
    for key, value in ((b"a", b"1"), (b"b", b"old"), (b"c", b"3"), (b"e", b"5")):
        cached.inner.put(key, value)
    cached.store.put(b"b", b"new")
    cached.store.put(b"c", None)
    cached.store.put(b"d", b"4")


def rows(store: KeyValueStore) -> list[tuple[bytes, bytes]]:
    return list(store.all())


# --- holding back ---------------------------------------------------------------------


def test_writes_stay_in_the_cache_until_a_flush(cached: Cached) -> None:
    """shouldPutGetToFromCache, shouldDeleteItemsFromCache."""
    store, inner, cache, *_ = cached
    store.put(b"a", b"1")
    store.put(b"a", b"2")
    assert (store.get(b"a"), inner.get(b"a")) == (b"2", None)
    assert (len(cache), cache.num_bytes) == (1, ONE)
    store.flush_cache()
    assert inner.get(b"a") == b"2"
    assert store.delete(b"a") == b"2"
    assert (store.get(b"a"), inner.get(b"a")) == (None, b"2")
    store.flush_cache()
    assert inner.get(b"a") is None
    assert len(cache) == 0


@pytest.mark.parametrize("through", ["flush", "commit", "close"])
def test_what_ends_a_batch_flushes_first(make_context: MakeContext, through: str) -> None:
    """A commit covers everything that was written before it."""
    store = CachingKeyValueStore(RocksDBStore("store"), RecordCache())
    store.init(make_context(), store)
    store.put(b"a", b"1")
    if through == "flush":
        store.flush()
    elif through == "commit":
        store.commit({P0: 4})
    assert store.inner.get(b"a") == (None if through == "close" else b"1")
    store.close()
    again = RocksDBStore("store")
    again.init(make_context(), again)
    assert again.get(b"a") == b"1"
    assert again.committed_offset(P0) == (4 if through == "commit" else None)
    again.close()


def test_put_if_absent_and_delete_see_the_cache(cached: Cached) -> None:
    store, inner, *_ = cached
    inner.put(b"old", b"0")
    assert store.put_if_absent(b"old", b"1") == b"0"
    assert store.put_if_absent(b"new", b"1") is None
    assert store.put_if_absent(b"new", b"2") == b"1"
    assert store.delete(b"old") == b"0"
    assert store.delete(b"old") is None
    assert store.put_if_absent(b"old", b"3") is None
    assert rows(store) == [(b"new", b"1"), (b"old", b"3")]
    assert rows(inner) == [(b"old", b"0")]


def test_put_all_writes_nothing_if_a_key_is_none(cached: Cached) -> None:
    entries: Any = [(b"a", b"1"), (None, b"2")]
    with pytest.raises(NullArgumentError):
        cached.store.put_all(entries)
    assert len(cached.cache) == 0
    cached.store.put_all([(b"a", b"1"), (b"b", b"2")])
    assert len(cached.cache) == 2


def test_keys_must_not_be_none(cached: Cached) -> None:
    store: Any = cached.store
    for call in (store.get, store.delete, store.prefix_scan):
        with pytest.raises(NullArgumentError):
            call(None)
    for call in (store.put, store.put_if_absent):
        with pytest.raises(NullArgumentError):
            call(None, b"1")


# --- merged reads ---------------------------------------------------------------------


def test_scans_merge(cached: Cached) -> None:
    """shouldIterateAllStoredItems, shouldIterateOverRange and their reverses; prefixes too."""
    fill(cached)
    store = cached.store
    assert rows(store) == MERGED
    assert list(store.reverse_all()) == MERGED[::-1]
    assert list(store.range(b"b", b"d")) == MERGED[1:3]
    assert list(store.reverse_range(b"b", b"d")) == MERGED[1:3][::-1]
    assert list(store.range(None, b"b")) == MERGED[:2]
    assert list(store.reverse_range(b"d", None)) == MERGED[2:][::-1]
    assert store.approximate_num_entries() == 4
    store.put(b"dd", b"6")
    store.put(b"d\xff", b"7")
    assert [key for key, _ in store.prefix_scan(b"d")] == [b"d", b"dd", b"d\xff"]
    assert list(store.prefix_scan(b"c")) == []


def test_an_inverted_range_is_empty_and_warned_of(
    cached: Cached, caplog: pytest.LogCaptureFixture
) -> None:
    fill(cached)
    view = cached.store.read_only(IsolationLevel.READ_UNCOMMITTED)
    with caplog.at_level(logging.WARNING):
        assert list(cached.store.range(b"e", b"a")) == []
        assert list(view.reverse_range(b"e", b"a")) == []
    assert [each.name for each in caplog.records].count("streamproof.stores") == 2


def test_an_open_iterator_is_not_disturbed_by_a_flush(make_context: MakeContext) -> None:
    """On RocksDB it shows the moment at which it was opened."""
    store = CachingKeyValueStore(RocksDBStore("store"), RecordCache())
    store.init(make_context(), store)
    store.put(b"a", b"1")
    store.put(b"b", b"2")
    iterator = store.all()
    assert next(iterator) == (b"a", b"1")
    store.put(b"b", None)
    store.put(b"c", b"3")
    store.flush_cache()
    assert iterator.peek_next_key() == b"b"
    assert list(iterator) == [(b"b", b"2")]
    open_at_close = store.all()
    store.close()
    with pytest.raises(InvalidStateStoreError):
        next(open_at_close)


def test_views(cached: Cached) -> None:
    """READ_COMMITTED bypasses the cache; READ_UNCOMMITTED merges, and leaves its order alone."""
    fill(cached)
    committed = cached.store.read_only(IsolationLevel.READ_COMMITTED)
    assert (committed.get(b"b"), committed.get(b"d")) == (b"old", None)
    assert list(committed.all()) == rows(cached.inner)
    view = cached.store.read_only(IsolationLevel.READ_UNCOMMITTED)
    assert [view.get(key) for key in (b"a", b"b", b"c", b"d")] == [b"1", b"new", None, b"4"]
    assert list(view.all()) == list(view.range(None, None)) == MERGED
    assert list(view.reverse_all()) == list(view.reverse_range(None, None)) == MERGED[::-1]
    assert list(view.prefix_scan(b"b")) == [(b"b", b"new")]
    assert view.approximate_num_entries() == 4
    cached.cache.resize(3 * ONE)
    assert view.get(b"b") == b"new"
    cached.store.close()
    with pytest.raises(InvalidStateStoreError):
        view.get(b"b")
    with pytest.raises(InvalidStateStoreError):
        view.all()


def test_a_view_is_whole_while_another_thread_flushes(cached: Cached) -> None:
    """No reader sees a key twice, or not at all, while entries go from the cache to the store."""
    store = cached.store
    keys = [bytes([number]) for number in range(20)]
    store.put_all((key, b"0") for key in keys)
    view = store.read_only(IsolationLevel.READ_UNCOMMITTED)
    done = threading.Event()
    wrong: list[object] = []

    def read() -> None:
        while not done.is_set():
            found = [key for key, _ in view.all()]
            if found != keys or view.get(keys[7]) is None:
                wrong.append(found)

    reader = threading.Thread(target=read)
    reader.start()
    for round_number in range(100):
        store.put_all((key, b"%d" % round_number) for key in keys)
        store.flush_cache()
    done.set()
    reader.join()
    assert wrong == []


# --- clean entries --------------------------------------------------------------------


def test_what_was_read_is_cached(cached: Cached) -> None:
    """A second read does not ask the store; a scan or an absent key caches nothing."""
    store, inner, cache, *_ = cached
    inner.put(b"a", b"1")
    assert rows(store) == [(b"a", b"1")]
    assert (store.get(b"b"), len(cache)) == (None, 0)
    assert (store.get(b"a"), len(cache)) == (b"1", 1)
    inner.put(b"a", b"beneath the cache")
    assert store.get(b"a") == b"1"


def test_clean_entries_are_not_forwarded(cached: Cached) -> None:
    """ThreadCacheTest#shouldNotForwardCleanEntryOnEviction."""
    store, inner, cache, *_, flushed = cached
    store.set_flush_listener(flushed.append)
    inner.put(b"a", b"1")
    assert store.get(b"a") == b"1"
    cache.resize(0)
    assert len(cache) == 0
    store.flush_cache()
    assert flushed == []


def test_restoring_goes_beneath_the_cache(cached: Cached) -> None:
    """What is cached is older than what is restored after it, and is not read any more."""
    store, inner, cache, context, flushed = cached
    store.set_flush_listener(flushed.append)
    inner.put(b"read", b"0")
    assert store.get(b"read") == b"0"
    store.put(b"written", b"0")
    restore = context.restore_callbacks["store"]
    restore([ChangelogRecord(b"read", b"1", 0), ChangelogRecord(b"written", b"1", 1)])
    assert [record.new_value for record in flushed] == [b"0"]
    assert rows(store) == [(b"read", b"1"), (b"written", b"1")]
    assert (store.get(b"read"), store.get(b"written")) == (b"1", b"1")
    assert len(cache) == 2


def test_another_transaction_is_not_hidden_by_the_cache(make_context: MakeContext) -> None:
    inner = TransactionalKeyValueStore(TransactionalRocksDBStore("store"))
    cache = RecordCache()
    store = CachingKeyValueStore(inner, cache)
    store.init(make_context(), store)
    store.put(b"a", b"1")
    store.commit({P0: 0})
    assert (store.get(b"a"), len(cache)) == (b"1", 1)
    transaction = store.new_transaction()
    assert isinstance(transaction, Transaction)
    assert isinstance(transaction, KeyValueStore)
    transaction.put(b"a", b"2")
    assert store.get(b"a") == b"1"
    transaction.commit({P0: 1})
    assert (store.get(b"a"), len(cache)) == (b"2", 0)
    store.put(b"b", b"3")
    store.commit({P0: 2})
    assert len(cache) == 0
    assert rows(store) == [(b"a", b"2"), (b"b", b"3")]
    store.close()


def test_a_store_without_transactions_is_its_own(cached: Cached) -> None:
    assert cached.store.new_transaction() is cached.store


# --- what it promises --------------------------------------------------------------


def test_uncommitted_writes_are_counted_in_the_cache_too(make_context: MakeContext) -> None:
    """If the inner store has transactions: what is cached awaits the commit as well."""
    inner = TransactionalKeyValueStore(TransactionalRocksDBStore("store"))
    store = CachingKeyValueStore(inner, RecordCache())
    assert store.approximate_num_uncommitted_bytes() == 0
    store.init(make_context(), store)

    def uncommitted() -> tuple[int, int]:
        return (
            store.approximate_num_uncommitted_entries(),
            store.approximate_num_uncommitted_bytes(),
        )

    store.put(b"key", b"value")
    store.put(b"key", b"1")
    store.delete(b"other")
    assert uncommitted() == (2, 4 + 5)
    store.flush_cache()
    assert uncommitted() == (2, 4 + 5)
    store.commit({P0: 1})
    assert uncommitted() == (0, 0)
    store.close()


def test_without_transactions_nothing_is_uncommitted(cached: Cached) -> None:
    cached.store.put(b"a", b"1")
    assert cached.store.approximate_num_uncommitted_entries() == 0
    assert cached.store.approximate_num_uncommitted_bytes() == 0


def test_capabilities() -> None:
    """Without transactions the levels of a view differ, so that views are not claimed."""
    plain = CachingKeyValueStore(RocksDBStore("store"), RecordCache())
    assert not capabilities_of(plain).read_only_views
    inner = TransactionalKeyValueStore(TransactionalRocksDBStore("store"))
    assert capabilities_of(CachingKeyValueStore(inner, RecordCache())) == capabilities_of(inner)


# --- closing --------------------------------------------------------------------------


def test_a_closed_store_raises(cached: Cached) -> None:
    store = cached.store
    store.put(b"a", b"1")
    store.close()
    store.close()
    assert not store.is_open
    calls: list[Callable[[], object]] = [
        lambda: store.get(b"a"),
        lambda: store.put(b"a", b"1"),
        lambda: store.put_all([]),
        lambda: store.put_all([(b"a", b"1")]),
        lambda: store.put_if_absent(b"a", b"1"),
        lambda: store.delete(b"a"),
        store.all,
        store.reverse_all,
        lambda: store.range(b"a", b"b"),
        lambda: store.range(b"b", b"a"),
        lambda: store.reverse_range(b"a", b"b"),
        lambda: store.prefix_scan(b"a"),
        store.approximate_num_entries,
        store.flush,
        store.flush_cache,
        lambda: store.commit({P0: 1}),
    ]
    for call in calls:
        with pytest.raises(InvalidStateStoreError):
            call()
    store.init(cached.context, store)
    assert rows(store) == []


@pytest.mark.parametrize(
    ("failing", "first"),
    [
        ({"put"}, "cannot put"),
        ({"close"}, "cannot close"),
        ({"put", "close"}, "cannot put"),
    ],
)
def test_every_layer_is_closed_and_the_first_error_wins(
    cached: Cached, monkeypatch: pytest.MonkeyPatch, failing: set[str], first: str
) -> None:
    """shouldCloseWrappedStoreAndCacheAfterErrorDuringCacheFlush and its siblings."""
    store, inner, cache, *_ = cached
    store.put(b"a", b"1")
    closed: list[bool] = []
    close = inner.close

    def fail_to_put(*_: object) -> None:
        raise StoreError("cannot put")

    def note_close() -> None:
        closed.append(True)
        close()
        if "close" in failing:
            raise StoreError("cannot close")

    if "put" in failing:
        monkeypatch.setattr(inner, "put", fail_to_put)
    monkeypatch.setattr(inner, "close", note_close)
    with pytest.raises(StoreError, match=first) as caught:
        store.close()
    assert closed == [True]
    assert len(cache) == 0
    if len(failing) == 2:
        assert caught.value.__notes__ == ["After that: StoreError: cannot close"]
    monkeypatch.undo()
    store.close()


# --- timestamps -----------------------------------------------------------------------


def test_timestamps(make_context: MakeContext) -> None:
    """They are cached with the values, and reach the inner store, whatever is processed then."""
    context = make_context()
    inner = RocksDBTimestampedStore("store")
    store = CachingTimestampedKeyValueStore(inner, RecordCache())
    store.init(context, store)
    inner.put_with_timestamp(b"old", b"0", 1)
    context.record_timestamp = 50
    store.put(b"a", b"1")
    store.put_with_timestamp(b"b", b"2", 20)
    store.put_all_with_timestamp([(b"c", ValueAndTimestamp(b"3", 30)), (b"d", None)])
    context.record_timestamp = 90
    expected = [
        (b"a", ValueAndTimestamp(b"1", 50)),
        (b"b", ValueAndTimestamp(b"2", 20)),
        (b"c", ValueAndTimestamp(b"3", 30)),
        (b"old", ValueAndTimestamp(b"0", 1)),
    ]
    view: Any = store.read_only(IsolationLevel.READ_UNCOMMITTED)
    for _ in range(2):
        assert list(store.all_with_timestamp()) == expected
        assert list(store.range_with_timestamp(b"b", b"c")) == expected[1:3]
        assert list(view.all_with_timestamp()) == expected
        assert [store.get_with_timestamp(key) for key, _ in expected] == [
            stamped for _, stamped in expected
        ]
        assert view.get_with_timestamp(b"b") == ValueAndTimestamp(b"2", 20)
        assert view.get_with_timestamp(b"old") == ValueAndTimestamp(b"0", 1)
        assert store.get(b"b") == b"2"
        store.flush_cache()
    assert list(inner.all_with_timestamp()) == expected
    assert store.get_with_timestamp(b"none") is None
    assert store.put_if_absent_with_timestamp(b"b", b"x", 1) == ValueAndTimestamp(b"2", 20)
    assert store.put_if_absent_with_timestamp(b"e", b"x", 1) is None
    assert store.delete_with_timestamp(b"b") == ValueAndTimestamp(b"2", 20)
    assert store.get_with_timestamp(b"b") is None
    assert store.get_with_timestamp(b"e") == ValueAndTimestamp(b"x", 1)
    context.restore_callbacks["store"]([ChangelogRecord(b"e", b"y", 0, timestamp=5)])
    assert store.get_with_timestamp(b"e") == ValueAndTimestamp(b"y", 5)
    null_key: Any = [(b"f", ValueAndTimestamp(b"1", 1)), (None, None)]
    with pytest.raises(NullArgumentError):
        store.put_all_with_timestamp(null_key)
    assert store.get(b"f") is None
    assert context.record_timestamp == 90
    store.close()


# --- against a plain store ------------------------------------------------------------

KEYS = st.sampled_from([b"", b"a", b"ab", b"b", b"\xff"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, st.sampled_from([b"", b"1", b"22", None])),
        st.tuples(st.just("delete"), KEYS),
        st.tuples(st.just("put_if_absent"), KEYS, st.just(b"3")),
        st.tuples(st.just("get"), KEYS),
        st.tuples(st.just("reverse_range"), KEYS, KEYS),
        st.tuples(st.just("prefix_scan"), KEYS),
        st.tuples(st.just("all")),
        st.tuples(st.just("flush")),
    ),
    max_size=30,
)


@given(steps=STEPS, max_bytes=st.sampled_from([0, ONE, 3 * ONE, CACHE_MAX_BYTES]))
@settings(settings.get_profile("stores"), max_examples=200)
def test_a_cache_changes_no_answer(
    make_context: MakeContext, steps: list[tuple[Any, ...]], max_bytes: int
) -> None:
    """Whatever its size, and ends in the same content and position."""
    inner, plain = InMemoryKeyValueStore("inner"), InMemoryKeyValueStore("plain")
    cache = RecordCache(max_bytes)
    store = CachingKeyValueStore(inner, cache)
    context = make_context()
    store.init(context, store)
    plain.init(context, plain)
    for offset, (method, *arguments) in enumerate(steps):
        context.record_metadata = RecordMetadata("input", offset % 2, offset)
        found = [getattr(each, method)(*arguments) for each in (store, plain)]
        if method in {"reverse_range", "prefix_scan", "all"}:
            found = [list(rows) for rows in found]
        assert found[0] == found[1]
        assert cache.num_bytes <= max_bytes
    store.flush_cache()
    assert rows(inner) == rows(plain)
    assert inner.position == store.position == plain.position
    store.close()
    assert (len(cache), cache.num_bytes) == (0, 0)
