"""Stores with all the layers of the runtime around them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamproof.errors import UsageError
from streamproof.stores.api import (
    ChangelogRecord,
    KeyValueStore,
    RecordMetadata,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.builtin import BUILTIN
from streamproof.stores.memory import InMemoryKeyValueStore
from streamproof.stores.metrics import Metrics
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.runtime.builder import StoreBuilder, default_store
from streamproof.stores.runtime.cache import (
    CachingKeyValueStore,
    CachingTimestampedKeyValueStore,
    FlushedRecord,
    RecordCache,
)
from streamproof.stores.runtime.changelogging import (
    ChangeLoggingKeyValueStore,
    ChangeLoggingTimestampedKeyValueStore,
    ChangeLoggingWindowStore,
)
from streamproof.stores.runtime.layers import capabilities_of, find_layer
from streamproof.stores.runtime.metered import MeteredStore
from streamproof.stores.sessions import SessionStore
from streamproof.stores.timestamped import RocksDBTimestampedStore, TimestampedKeyValueStore
from streamproof.stores.timestamps import KeyValueWithTimestampStore, ValueAndTimestamp
from streamproof.stores.transactional import (
    TransactionalKeyValueStore,
    TransactionalRocksDBStore,
)
from streamproof.stores.transactional import default_store as transactional_store
from streamproof.stores.two_formats import TransactionalVersion2RocksDBStore
from streamproof.stores.windowed.memory_sessions import default_store as session_store
from streamproof.stores.windowed.rocksdb_sessions import RocksDBSessionStore
from streamproof.stores.windowed.rocksdb_windows import RocksDBWindowStore
from streamproof.stores.windowed.rocksdb_windows import default_store as window_store
from streamproof.stores.windows import Window, Windowed, WindowStore

MakeContext = Callable[..., StateStoreContext]
P0 = TopicPartition("streamproof-store-changelog", 0)


def layers(store: Any) -> list[type[object]]:
    """The classes of a store and of what is in it, from the outermost in."""
    found = []
    while store is not None:
        found.append(type(store))
        store = getattr(store, "inner", None)
    return found


def test_order_of_the_layers() -> None:
    """Metered, cached, change-logging, and the store itself."""
    outermost, *others = layers(default_store())
    assert issubclass(outermost, MeteredStore)
    assert others == [CachingKeyValueStore, ChangeLoggingKeyValueStore, RocksDBStore]
    builder = StoreBuilder(lambda: RocksDBTimestampedStore("store"))
    store = builder.with_logging().with_caching(RecordCache()).build()
    assert isinstance(store, KeyValueWithTimestampStore)
    assert layers(store)[1:4] == [
        CachingTimestampedKeyValueStore,
        ChangeLoggingTimestampedKeyValueStore,
        RocksDBTimestampedStore,
    ]
    assert layers(StoreBuilder(window_store).with_logging().build())[1:3] == [
        ChangeLoggingWindowStore,
        RocksDBWindowStore,
    ]


def test_every_build_is_a_new_store() -> None:
    """Each with the layers that were asked for; without any, it is metered only."""
    builder = StoreBuilder(lambda: InMemoryKeyValueStore("store"))
    first, second = builder.build(), builder.build()
    assert first is not second
    assert layers(first)[1:] == [InMemoryKeyValueStore]


def test_capabilities() -> None:
    capabilities = capabilities_of(default_store())
    assert capabilities.metrics
    assert capabilities.change_logging
    assert capabilities.position
    assert capabilities.durability == "flush"
    assert not capabilities_of(StoreBuilder(window_store).build()).change_logging
    assert type(BUILTIN["rocksdb-stack"]()) is type(default_store())


@pytest.mark.parametrize("make", [window_store, session_store])
def test_only_key_value_stores_can_be_cached(make: Callable[[], StateStore]) -> None:
    with pytest.raises(UsageError, match=r"only key-value stores can be cached: build it without"):
        StoreBuilder(make).with_caching(RecordCache()).build()


def test_tags(make_context: MakeContext) -> None:
    """The type of the store follows from where it keeps its rows, unless it is given."""
    metrics = Metrics()
    context = make_context()
    context.metrics = metrics
    for supplier, store_type, tag in (
        (lambda: RocksDBStore("a"), None, "rocksdb-state-id"),
        (lambda: InMemoryKeyValueStore("b"), None, "in-memory-state-id"),
        (lambda: InMemoryKeyValueStore("c"), "custom", "custom-state-id"),
    ):
        store = StoreBuilder(supplier, store_type=store_type, thread_id="thread-1").build()
        store.init(context, store)
        (row,) = metrics.rows()
        assert row.tags == {"thread-id": "thread-1", "task-id": "0_0", tag: store.name}
        store.close()


def test_a_stack_at_work(make_context: MakeContext) -> None:
    """What is put twice is logged, forwarded and written once, as its own input record."""
    store = default_store()
    context = make_context()
    context.metrics = Metrics("DEBUG")
    log: list[tuple[bytes, bytes | None, int]] = []
    flushed: list[FlushedRecord] = []
    context.changelog = lambda _, key, value, timestamp: log.append((key, value, timestamp))
    store.init(context, store)
    cached = find_layer(store, CachingKeyValueStore)
    assert cached is not None
    cached.set_flush_listener(flushed.append)
    for offset in (3, 4):
        context.record_metadata = RecordMetadata("input", 0, offset)
        context.record_timestamp = offset * 10
        store.put(b"a", b"%d" % offset)
    context.record_metadata = RecordMetadata("input", 0, 9)
    assert (store.get(b"a"), log) == (b"4", [])
    cached.flush_cache()
    assert log == [(b"a", b"4", 40)]
    store.commit({P0: 0})
    assert [(record.new_value, record.timestamp) for record in flushed] == [(b"4", 40)]
    assert store.position.as_dict() == {TopicPartition("input", 0): 4}
    assert any(row.name == "commit-rate" and row.value for row in context.metrics.rows())
    store.close()
    assert context.metrics.rows() == []
    inner = RocksDBStore("store")
    inner.init(context, inner)
    assert (list(inner.all()), inner.committed_offset(P0)) == ([(b"a", b"4")], 0)
    assert inner.position.as_dict() == {TopicPartition("input", 0): 4}
    inner.close()


def test_restoring_goes_past_all_layers(make_context: MakeContext) -> None:
    """Nothing of it is cached or logged, and timestamps come from the changelog."""
    cache = RecordCache()
    builder = StoreBuilder(lambda: RocksDBTimestampedStore("store"))
    store = builder.with_caching(cache).with_logging().build()
    context = make_context()
    log: list[object] = []
    context.changelog = lambda *record: log.append(record)
    store.init(context, store)
    context.restore_callbacks["store"]([ChangelogRecord(b"a", b"1", 0, timestamp=5)])
    assert (len(cache), log) == (0, [])
    assert store.get_with_timestamp(b"a") == ValueAndTimestamp(b"1", 5)
    store.close()


def test_windows_and_sessions(make_context: MakeContext) -> None:
    log: list[bytes] = []
    windows = StoreBuilder(window_store).with_logging().build()
    sessions = StoreBuilder(session_store).with_logging().build()
    context = make_context()
    context.changelog = lambda _, key, __, ___: log.append(key)
    windows.init(context, windows)
    sessions.init(context, sessions)
    windows.put(b"a", b"1", 5)
    sessions.put(Windowed(b"a", Window(5, 9)), b"1")
    assert [len(key) for key in log] == [1 + 12, 1 + 16]
    assert windows.fetch(b"a", 5) == sessions.fetch_session(b"a", 5, 9) == b"1"
    windows.close()
    sessions.close()


WRITES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.sampled_from([b"1", b"2" * 90, None])),
        st.just("commit"),
    ),
    max_size=25,
)


@given(writes=WRITES, max_bytes=st.sampled_from([0, 150, 400, 10_000]))
@settings(settings.get_profile("stores"), max_examples=30)
@pytest.mark.parametrize("make", [lambda: RocksDBStore("store"), transactional_store])
def test_the_changelog_is_the_store(
    tmp_path_factory: pytest.TempPathFactory,
    make_context: MakeContext,
    make: Callable[[], KeyValueStore],
    writes: list[Any],
    max_bytes: int,
) -> None:
    """After each commit, what was logged folds to the content, and to what a restart finds."""
    context = make_context()
    context.state_dir = tmp_path_factory.mktemp("task")
    log: list[tuple[bytes, bytes | None]] = []
    context.changelog = lambda _, key, value, __: log.append((key, value))
    cache = RecordCache(max_bytes)
    store = StoreBuilder(make).with_caching(cache).with_logging().build()
    store.init(context, store)

    def folded() -> dict[bytes, bytes]:
        return {key: value for key, value in dict(log).items() if value is not None}

    for write in [*writes, "commit"]:
        if write != "commit":
            store.put(*write)
            continue
        store.commit({P0: len(log)})
        assert dict(store.all()) == folded()
    store.close()
    again = make()
    again.init(context, again)
    assert dict(again.all()) == folded()
    again.close()


@pytest.mark.parametrize(
    "make",
    [
        lambda: TransactionalRocksDBStore("store"),
        lambda: TimestampedKeyValueStore(TransactionalVersion2RocksDBStore("store")),
        lambda: RocksDBWindowStore(
            "store",
            retention_ms=100_000,
            window_size_ms=10,
            inner=TransactionalRocksDBStore("store"),
        ),
        lambda: RocksDBSessionStore(
            "store", retention_ms=100_000, inner=TransactionalRocksDBStore("store")
        ),
    ],
)
def test_a_store_that_offers_transactions_gets_one(
    make: Callable[[], Any], make_context: MakeContext
) -> None:
    """The runtime opens a transaction at init, and the next one after each commit (KIP-892)."""

    def put(store: Any, value: bytes) -> None:
        if isinstance(store, WindowStore):
            store.put(b"key", value, 0)
        elif isinstance(store, SessionStore):
            store.put(Windowed(b"key", Window(0, 5)), value)
        else:
            store.put(b"key", value)

    store = StoreBuilder(make).with_logging().build()
    store.init(replace(make_context(), changelog=lambda *_: None), store)
    for number in range(2):
        assert store.approximate_num_uncommitted_entries() == 0
        put(store, b"%d" % number)
        assert store.approximate_num_uncommitted_entries() >= 1
        store.commit({P0: number})
    store.close()


def test_a_store_that_stages_its_writes_gets_no_other_layer() -> None:
    built = layers(StoreBuilder(transactional_store).build())
    assert built.count(TransactionalKeyValueStore) == 1
