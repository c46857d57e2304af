"""Stores as Kafka Streams stacks them: metered, cached, change-logging, and the store itself.

A store that offers transactions also gets a layer that keeps one open (KIP-892).

Source: Kafka, Stores and StoreBuilder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

from streamproof.errors import UsageError
from streamproof.stores.api import KeyValueStore, StateStore
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.runtime.cache import CachingKeyValueStore, CachingTimestampedKeyValueStore
from streamproof.stores.runtime.changelogging import change_logging
from streamproof.stores.runtime.metered import metered
from streamproof.stores.runtime.record_cache import RecordCache
from streamproof.stores.runtime.transactions import with_transactions
from streamproof.stores.sessions import SessionWithTimestampStore
from streamproof.stores.timestamped import RocksDBTimestampedStore
from streamproof.stores.timestamps import KeyValueWithTimestampStore
from streamproof.stores.transactional import TransactionalRocksDBStore
from streamproof.stores.windowed import timestamped_sessions, timestamped_windows
from streamproof.stores.windowed.rocksdb_windows import (
    RETENTION_MS,
    WINDOW_SIZE_MS,
    RocksDBWindowStore,
)
from streamproof.stores.windows import WindowWithTimestampStore

__all__ = [
    "StoreBuilder",
    "default_store",
    "timestamped_session_store",
    "timestamped_store",
    "timestamped_window_store",
    "transactional_store",
    "transactional_window_store",
]

S = TypeVar("S", bound=StateStore)

_SMALL_CACHE_BYTES = 4 * 1024
"""Small, so that entries are evicted within a short program."""


class StoreBuilder(Generic[S]):
    """Puts the layers of the runtime around new stores; the metered layer is always the outermost.

    Args:
        supplier: makes a store that is not open: a key-value, window or session store, with
            or without timestamps.
        store_type: the storage below the store, for the tags of its metrics; by default ``rocksdb``
            if it is persistent, else ``in-memory``.
        thread_id: the tag ``thread-id`` of its metrics; by default, the name of the thread
            that opens the store.

    Source: Kafka, StoreBuilder.
    """

    def __init__(
        self,
        supplier: Callable[[], S],
        *,
        store_type: str | None = None,
        thread_id: str | None = None,
    ) -> None:
        self._supplier = supplier
        self._store_type = store_type
        self._thread_id = thread_id
        self._cache: RecordCache | None = None
        self._logging = False

    def with_caching(self, cache: RecordCache) -> Self:
        """Hold writes back in this cache. Only key-value stores can be cached."""
        self._cache = cache
        return self

    def with_logging(self) -> Self:
        """Send writes to ``context.changelog``: with a cache, when they leave the cache."""
        self._logging = True
        return self

    def build(self) -> S:
        """A new store with its layers, not open yet.

        Raises:
            UsageError: the store is of a kind that cannot be cached, logged or metered.
        """
        # A layer has the contract of the store that it is put around.
        store: Any = with_transactions(self._supplier())
        default_type = "rocksdb" if store.persistent else "in-memory"
        if self._logging:
            store = change_logging(store)
        if self._cache is not None:
            store = _cached(store, self._cache)
        built: S = metered(store, self._store_type or default_type, thread_id=self._thread_id)
        return built


def _cached(store: StateStore, cache: RecordCache) -> KeyValueStore:
    if isinstance(store, KeyValueWithTimestampStore):
        return CachingTimestampedKeyValueStore(store, cache)
    if isinstance(store, KeyValueStore):
        return CachingKeyValueStore(store, cache)
    raise UsageError(
        f"Store {store.name!r} is a {type(store).__name__}, but only key-value stores can be "
        "cached: build it without with_caching()."
    )


def default_store(name: str = "store") -> KeyValueStore:
    """A new RocksDB store: metered, with a small cache, and change-logging."""
    builder = StoreBuilder(lambda: RocksDBStore(name))
    return builder.with_caching(RecordCache(_SMALL_CACHE_BYTES)).with_logging().build()


def timestamped_store(name: str = "store") -> KeyValueStore:
    """The same with the timestamps of records (KIP-258)."""
    builder = StoreBuilder(lambda: RocksDBTimestampedStore(name))
    return builder.with_caching(RecordCache(_SMALL_CACHE_BYTES)).with_logging().build()


def transactional_store(name: str = "store") -> KeyValueStore:
    """A new RocksDB store whose transactions the runtime opens, and which logs."""
    return StoreBuilder(lambda: TransactionalRocksDBStore(name)).with_logging().build()


def transactional_window_store(name: str = "store") -> RocksDBWindowStore:
    """The same for windows of 10 s, kept for 180 s."""
    builder = StoreBuilder(
        lambda: RocksDBWindowStore(
            name,
            retention_ms=RETENTION_MS,
            window_size_ms=WINDOW_SIZE_MS,
            inner=TransactionalRocksDBStore(name),
        )
    )
    return builder.with_logging().build()


def timestamped_window_store(name: str = "store") -> WindowWithTimestampStore:
    """Windows with the timestamps of records and with transactions: metered, and logging."""
    return StoreBuilder(lambda: timestamped_windows.default_store(name)).with_logging().build()


def timestamped_session_store(name: str = "store") -> SessionWithTimestampStore:
    """The same for sessions."""
    return StoreBuilder(lambda: timestamped_sessions.default_store(name)).with_logging().build()
