"""What leaves the record cache, and when: listeners, positions, and the bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from streamproof.stores.api import (
    NO_TIMESTAMP,
    KeyValueStore,
    Position,
    RecordMetadata,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.errors import InvalidArgumentError, StoreError
from streamproof.stores.memory import InMemoryKeyValueStore
from streamproof.stores.runtime.cache import (
    CACHE_MAX_BYTES,
    ENTRY_OVERHEAD_BYTES,
    CachingKeyValueStore,
    FlushedRecord,
    RecordCache,
)

MakeContext = Callable[..., StateStoreContext]
P0 = TopicPartition("streamproof-store-changelog", 0)
INPUT = TopicPartition("input", 0)

ONE = 1 + 1 + ENTRY_OVERHEAD_BYTES
"""What an entry with a key and a value of one byte each counts."""


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


def rows(store: KeyValueStore) -> list[tuple[bytes, bytes]]:
    return list(store.all())


# --- flush listener and position ------------------------------------------------------


def processing(cached: Cached, offset: int, partition: int = 0) -> None:
    cached.context.record_metadata = RecordMetadata("input", partition, offset)
    cached.context.record_timestamp = offset * 10


def test_each_key_is_forwarded_once_with_its_last_value(cached: Cached) -> None:
    """shouldForwardDirtyItemsWhenFlushCalled; in the order in which the values were put."""
    store, *_, flushed = cached
    store.set_flush_listener(flushed.append)
    for offset, key in enumerate((b"b", b"a", b"b", b"c")):
        processing(cached, offset)
        store.put(key, b"%d" % offset)
    cached.context.record_metadata = None
    store.flush_cache()
    assert flushed == [
        FlushedRecord(b"a", b"1", None, 10, RecordMetadata("input", 0, 1)),
        FlushedRecord(b"b", b"2", None, 20, RecordMetadata("input", 0, 2)),
        FlushedRecord(b"c", b"3", None, 30, RecordMetadata("input", 0, 3)),
    ]
    store.flush_cache()
    assert len(flushed) == 3


@pytest.mark.parametrize("send_old_values", [True, False])
def test_old_values(cached: Cached, send_old_values: bool) -> None:
    """shouldForwardOldValuesWhenEnabled, shouldNotForwardOldValuesWhenDisabled."""
    store, *_, flushed = cached
    store.set_flush_listener(flushed.append, send_old_values=send_old_values)

    def changes() -> list[tuple[bytes | None, bytes | None]]:
        store.flush_cache()
        found = [(record.new_value, record.old_value) for record in flushed]
        flushed.clear()
        return found

    store.put(b"a", b"1")
    assert changes() == [(b"1", None)]
    store.put(b"a", b"2")
    store.put(b"a", b"3")
    assert changes() == [(b"3", b"1" if send_old_values else None)]
    store.put(b"a", None)
    assert changes() == [(None, b"3" if send_old_values else None)]
    store.put(b"a", b"4")
    store.put(b"a", b"5")
    store.put(b"a", None)
    assert changes() == []


def test_put_and_delete_leave_no_trace(cached: Cached) -> None:
    """shouldAvoidFlushingDeletionsWithoutDirtyKeys: neither written nor forwarded."""
    written: list[bytes] = []
    store, inner, *_, flushed = cached
    put = inner.put

    def note(key: bytes, value: bytes | None) -> None:
        written.append(key)
        put(key, value)

    vars(inner)["put"] = note
    store.set_flush_listener(flushed.append)
    store.put(b"a", b"1")
    store.delete(b"a")
    store.flush_cache()
    assert (written, flushed) == ([], [])
    assert len(cached.cache) == 0


def test_a_deletion_is_written_if_nobody_listens(cached: Cached) -> None:
    cached.inner.put(b"a", b"1")
    cached.store.put(b"a", None)
    cached.store.flush_cache()
    assert rows(cached.inner) == []


def test_position_is_that_of_the_original_record(cached: Cached) -> None:
    """KAFKA-13714: put at offset 5, evicted while offset 9 is processed; and the other way."""
    store, inner, cache, context, flushed = cached
    store.set_flush_listener(flushed.append)
    cache.resize(ONE)
    processing(cached, 5)
    store.put(b"a", b"1")
    assert inner.position == Position()
    assert store.position == Position({INPUT: 5})
    processing(cached, 9)
    store.put(b"b", b"2")
    assert (inner.get(b"a"), inner.get(b"b")) == (b"1", b"2")
    assert [record.metadata for record in flushed] == [
        RecordMetadata("input", 0, 5),
        RecordMetadata("input", 0, 9),
    ]
    assert context.record_metadata == RecordMetadata("input", 0, 9)
    assert context.record_timestamp == 90


def test_position_after_an_eviction(cached: Cached) -> None:
    """What is evicted while a later record is read does not take its position."""
    store, inner, cache, *_ = cached
    inner.put(b"read", b"0")
    cache.resize(5 + ONE - 1)
    processing(cached, 5)
    store.put(b"a", b"1")
    processing(cached, 9)
    assert store.get(b"read") == b"0"
    assert inner.get(b"a") == b"1"
    assert inner.position == Position({INPUT: 5})


def test_no_position_is_lost(cached: Cached) -> None:
    """A value that replaces one of another input partition, or of none, flushes that one first."""
    store, inner, *_ = cached
    processing(cached, 5, partition=1)
    store.put(b"a", b"1")
    processing(cached, 7)
    store.put(b"a", b"2")
    processing(cached, 3)
    store.put(b"a", b"3")
    cached.context.record_metadata = None
    store.put(b"a", b"4")
    assert inner.get(b"a") == b"3"
    store.flush_cache()
    assert inner.get(b"a") == b"4"
    expected = Position({TopicPartition("input", 1): 5, INPUT: 7})
    assert inner.position == store.position == expected


def test_the_context_is_restored_if_a_flush_raises(cached: Cached) -> None:
    store, *_ = cached

    def fail(_: FlushedRecord) -> None:
        raise StoreError("no")

    store.set_flush_listener(fail)
    processing(cached, 5)
    store.put(b"a", b"1")
    processing(cached, 9)
    with pytest.raises(StoreError, match="no"):
        store.flush_cache()
    assert cached.context.record_metadata == RecordMetadata("input", 0, 9)
    store.set_flush_listener(cached.flushed.append)
    store.flush_cache()
    assert [record.timestamp for record in cached.flushed] == [50]


def test_what_cannot_be_written_stays_dirty(
    cached: Cached, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed flush loses nothing: the next one writes it."""
    store, inner, cache, *_ = cached
    store.put_all([(b"a", b"1"), (b"b", b"2"), (b"c", None)])

    def fail(key: bytes, *_: object) -> None:
        raise StoreError(f"cannot write {key!r}")

    with monkeypatch.context() as patch:
        patch.setattr(inner, "put", fail)
        with pytest.raises(StoreError, match="cannot write b'a'"):
            store.flush_cache()
        with pytest.raises(StoreError, match="cannot write"):
            cache.resize(0)
    assert rows(store) == [(b"a", b"1"), (b"b", b"2")]
    assert rows(inner) == []
    store.flush_cache()
    assert rows(inner) == [(b"a", b"1"), (b"b", b"2")]


@pytest.mark.parametrize("max_bytes", [0, ONE, CACHE_MAX_BYTES])
def test_a_listener_may_write_to_the_store(cached: Cached, max_bytes: int) -> None:
    """NamedCacheTest#shouldBeReentrantAndNotBreakLRU: also to the key that is being flushed."""
    store, inner, cache, *_, flushed = cached
    cache.resize(max_bytes)

    def write_more(record: FlushedRecord) -> None:
        flushed.append(record)
        if record.key == b"a":
            store.put(b"c", b"from a")
        if record.new_value == b"2":
            store.put(b"b", b"again")

    store.set_flush_listener(write_more)
    store.put(b"a", b"1")
    store.put(b"b", b"2")
    store.flush_cache()
    expected = [(b"a", b"1"), (b"b", b"again"), (b"c", b"from a")]
    assert rows(inner) == rows(store) == expected
    assert sorted(record.new_value or b"" for record in flushed) == [
        b"1",
        b"2",
        b"again",
        b"from a",
    ]
    assert cache.num_bytes <= max_bytes


def test_a_listener_that_never_stops_is_an_error(cached: Cached) -> None:
    store, *_ = cached
    store.set_flush_listener(lambda record: store.put(record.key, b"and again"))
    store.put(b"a", b"1")
    with pytest.raises(StoreError, match="flush listener wrote to the store in each of 100"):
        store.commit({P0: 1})
    store.set_flush_listener(cached.flushed.append)
    store.flush_cache()
    assert rows(cached.inner) == [(b"a", b"and again")]


def test_no_timestamp_is_the_default(cached: Cached) -> None:
    cached.store.set_flush_listener(cached.flushed.append)
    cached.store.put(b"a", b"1")
    cached.store.flush_cache()
    assert cached.flushed == [FlushedRecord(b"a", b"1", None, NO_TIMESTAMP, None)]


# --- the bound ------------------------------------------------------------------------


def test_size_zero_writes_through(cached: Cached) -> None:
    cached.cache.resize(0)
    cached.store.put(b"a", b"1")
    assert cached.inner.get(b"a") == b"1"
    assert (len(cached.cache), cached.cache.num_bytes) == (0, 0)
    assert cached.store.get(b"a") == b"1"


def test_an_eviction_flushes_all_that_is_dirty(cached: Cached) -> None:
    """NamedCacheTest#shouldFlushDirtEntriesOnEviction: the others stay, as clean entries."""
    store, inner, cache, *_, flushed = cached
    store.set_flush_listener(flushed.append)
    cache.resize(3 * ONE)
    for key in (b"a", b"b", b"c"):
        store.put(key, b"1")
    assert (rows(inner), flushed) == ([], [])
    store.put(b"d", b"1")
    assert [record.key for record in flushed] == [b"a", b"b", b"c", b"d"]
    assert (len(cache), cache.num_bytes) == (3, 3 * ONE)
    store.flush_cache()
    assert len(flushed) == 4


def test_the_entry_that_was_not_used_leaves(cached: Cached) -> None:
    """Reading and writing count as use."""
    store, inner, cache, *_ = cached
    for key in (b"a", b"b", b"c"):
        store.put(key, b"1")
    store.flush_cache()
    store.get(b"a")
    store.put(b"b", b"2")
    cache.resize(2 * ONE)
    for key in (b"a", b"b", b"c"):
        inner.put(key, b"beneath")
    assert [store.get(key) for key in (b"a", b"b")] == [b"1", b"2"]
    assert store.get(b"c") == b"beneath"


def test_one_bound_for_all_stores(make_context: MakeContext) -> None:
    """The eldest entry leaves, whichever store it belongs to; the other store is not flushed."""
    cache, context = RecordCache(3 * ONE), make_context()
    first, second = (
        CachingKeyValueStore(InMemoryKeyValueStore(name), cache) for name in ("first", "second")
    )
    for store in (first, second):
        store.init(context, store)
    first.put(b"a", b"1")
    second.put(b"a", b"2")
    first.put(b"b", b"1")
    second.put(b"b", b"2")
    assert rows(first.inner) == [(b"a", b"1"), (b"b", b"1")]
    assert rows(second.inner) == []
    assert len(cache) == 3
    first.close()
    assert len(cache) == 2
    assert rows(second) == [(b"a", b"2"), (b"b", b"2")]
    second.close()
    assert (len(cache), cache.num_bytes) == (0, 0)


def test_resizing(cached: Cached) -> None:
    """ThreadCacheTest#shouldResizeAndShrink."""
    store, inner, cache, *_ = cached
    for number in range(10):
        store.put(b"%d" % number, b"1")
    cache.resize(4 * ONE)
    assert (len(cache), cache.num_bytes, cache.max_bytes) == (4, 4 * ONE, 4 * ONE)
    assert len(rows(inner)) == 10
    cache.resize(CACHE_MAX_BYTES)
    store.put(b"x", b"1")
    assert (len(cache), len(rows(inner))) == (5, 10)
    with pytest.raises(InvalidArgumentError, match="give 0 to write everything through"):
        cache.resize(-1)
    with pytest.raises(InvalidArgumentError):
        RecordCache(-1)


def test_an_entry_that_is_too_large_goes_on_at_once(cached: Cached) -> None:
    cached.cache.resize(ONE)
    cached.store.put(b"a", b"x" * 100)
    assert cached.inner.get(b"a") == b"x" * 100
    assert len(cached.cache) == 0
