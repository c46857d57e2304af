"""A cache in front of a store. Of several writes of a key, only the last one passes through.

A *dirty* entry is one that the inner store does not have yet; a *clean* entry was read from the
inner store, or flushed to it. A flush writes the dirty entries in the order of their puts, each
under the input record that it came with.

Source: Kafka, CachingKeyValueStore.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar
from weakref import WeakSet

from streamproof.stores.api import (
    NO_TIMESTAMP,
    ChangelogRecord,
    EntryIterator,
    IsolationLevel,
    KeyValueIterator,
    KeyValueStore,
    Position,
    ReadOnlyKeyValueStore,
    RecordMetadata,
    RestoreCallback,
    StateStore,
    StateStoreContext,
    TopicPartition,
    require_key,
)
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.errors import InvalidStateStoreError, StoreError
from streamproof.stores.iterators import StoreIterator, is_inverted, prefix_end
from streamproof.stores.runtime.layers import TimestampedKeyValueLayer, call_all, capabilities_of
from streamproof.stores.runtime.record_cache import (
    CACHE_MAX_BYTES,
    ENTRY_OVERHEAD_BYTES,
    CachedEntry,
    RecordCache,
    StoreCache,
)
from streamproof.stores.timestamps import KeyValueWithTimestampStore, ValueAndTimestamp
from streamproof.stores.wrapped import WrappedKeyValueStore
from streamproof.stores.write_batch import merge_over

__all__ = [
    "CACHE_MAX_BYTES",
    "ENTRY_OVERHEAD_BYTES",
    "CachingKeyValueStore",
    "CachingTimestampedKeyValueStore",
    "FlushListener",
    "FlushedRecord",
    "RecordCache",
]

_MAX_FLUSH_PASSES = 100
"""After this many rounds, a flush gives up on a listener that never stops writing."""

T = TypeVar("T")


class FlushedRecord(NamedTuple):
    """A write that left the cache.

    Attributes:
        key: the key.
        new_value: the written value; ``None`` for a deletion.
        old_value: the previous value of the inner store; ``None`` if the key had none, or if the
            listener did not ask for old values.
        timestamp: the timestamp of the value, in milliseconds.
        metadata: the input record that the write came with, not the one that is being processed
            when it leaves the cache (KAFKA-13714).
    """

    key: bytes
    new_value: bytes | None
    old_value: bytes | None
    timestamp: int
    metadata: RecordMetadata | None


FlushListener = Callable[[FlushedRecord], None]
"""Receives every write that leaves the cache. A listener may itself write to the store."""


class _Merged:
    """Reads of a cached store: dirty entries, laid over the rows below."""

    def __init__(self, store: CachingKeyValueStore, below: ReadOnlyKeyValueStore) -> None:
        self._store = store
        self._below = below

    def get(self, key: bytes) -> bytes | None:
        require_key(key)
        with self._store.cache.lock:
            entry = self._store.entries().dirty.get(key)
            return self._below.get(key) if entry is None else entry.value

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        return self._scan(self._below.range, from_key, to_key, _value)

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        return self._scan(self._below.reverse_range, from_key, to_key, _value, reverse=True)

    def all(self) -> KeyValueIterator:
        return self.range(None, None)

    def reverse_all(self) -> KeyValueIterator:
        return self.reverse_range(None, None)

    def prefix_scan(self, prefix: bytes) -> KeyValueIterator:
        require_key(prefix)
        with self._store.cache.lock:
            entries = self._store.entries()
            dirty = entries.dirty_between(
                prefix, prefix_end(prefix), to_inclusive=False, reverse=False
            )
            rows = self._below.prefix_scan(prefix)
        return self._store.iterator(rows, [(key, entry.value) for key, entry in dirty])

    def approximate_num_entries(self) -> int:
        return self._below.approximate_num_entries()

    def _scan(
        self,
        scan: Callable[[bytes | None, bytes | None], EntryIterator[bytes, T]],
        from_key: bytes | None,
        to_key: bytes | None,
        value_of: Callable[[CachedEntry], T | None],
        *,
        reverse: bool = False,
    ) -> EntryIterator[bytes, T]:
        # The lock keeps a flush from coming between the two sides, so that the scan shows one
        # moment.
        with self._store.cache.lock:
            entries = self._store.entries()
            if is_inverted(from_key, to_key):
                return self._store.iterator(None, [])
            dirty = entries.dirty_between(from_key, to_key, to_inclusive=True, reverse=reverse)
            rows = scan(from_key, to_key)
        staged = [(key, value_of(entry)) for key, entry in dirty]
        return self._store.iterator(rows, staged, reverse=reverse)


class _TimestampedMerged(_Merged):
    """The same with timestamps."""

    _below: Any  # A view with timestamps, which has no separate contract.

    def get_with_timestamp(self, key: bytes) -> ValueAndTimestamp | None:
        require_key(key)
        with self._store.cache.lock:
            entry = self._store.entries().dirty.get(key)
            if entry is not None:
                return _value_and_timestamp(entry)
            found: ValueAndTimestamp | None = self._below.get_with_timestamp(key)
            return found

    def range_with_timestamp(
        self, from_key: bytes | None, to_key: bytes | None
    ) -> EntryIterator[bytes, ValueAndTimestamp]:
        scan = self._below.range_with_timestamp
        return self._scan(scan, from_key, to_key, _value_and_timestamp)

    def all_with_timestamp(self) -> EntryIterator[bytes, ValueAndTimestamp]:
        return self.range_with_timestamp(None, None)


class CachingKeyValueStore(WrappedKeyValueStore):
    """Holds writes to a key-value store back in a cache, until the cache is full or flushed.

    ``commit``, ``flush`` and ``close`` flush the cache first, so that they cover all writes so far.
    Queries see cached writes with READ_UNCOMMITTED only. Restored records go to the inner store;
    the cache is flushed before, because its writes are older than the restored records.

    Args:
        inner: the store that is cached.
        cache: the cache, which stores of one thread share.

    Attributes:
        cache: the cache.
        restore_below: restores into the inner store and leaves the cache as it is, which may then
            be older than the inner store; ``None`` until the store is open.

    Source: Kafka, CachingKeyValueStore.
    """

    def __init__(self, inner: KeyValueStore, cache: RecordCache) -> None:
        super().__init__(inner)
        self.cache = cache
        self._merged = _Merged(self, inner)
        self._context: StateStoreContext
        self._entries: StoreCache | None = None
        self._position = Position()
        self._iterators: WeakSet[StoreIterator[Any, Any]] = WeakSet()
        self._listener: FlushListener | None = None
        self._send_old_values = False
        self.restore_below: RestoreCallback | None = None

    @property
    def capabilities(self) -> Capabilities:
        """What the inner store promises.

        Without transactions both isolation levels of a view would have to agree, which they do not
        while writes are cached.
        """
        inner = capabilities_of(self._inner)
        return replace(inner, read_only_views=inner.read_only_views and inner.transactional)

    @property
    def position(self) -> Position:
        """The input offsets of the inner store and of cached writes (KIP-796)."""
        position = self._inner.position.copy()
        position.merge(self._position)
        return position

    def set_flush_listener(self, listener: FlushListener, *, send_old_values: bool = False) -> None:
        """Pass every write that leaves the cache to a listener.

        With a listener, a deletion of a key that the inner store does not have is dropped: neither
        the listener nor the inner store ever saw the key. The position of the inner store then
        stays behind the input record of the deletion, which is safe: a position may promise less
        than the content has, but never more.

        Args:
            listener: receives the writes.
            send_old_values: whether the listener gets the old value too, which costs a read.

        Source: Kafka, CachedStateStore#setFlushListener.
        """
        self._listener = listener
        self._send_old_values = send_old_values

    # --- life cycle -------------------------------------------------------------------

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the inner store, and register a callback that restores beneath the cache."""
        self._inner.init(context, root)
        self._context = context
        self._position = Position()
        self._entries = StoreCache(self.cache, self._write)
        self.restore_below = restore = context.restore_callbacks.get(root.name)
        if restore is not None:
            context.register(root, self._restoring(restore))

    def _restoring(self, restore: RestoreCallback) -> RestoreCallback:
        def restore_beneath(records: Sequence[ChangelogRecord]) -> None:
            with self.cache.lock:
                self.flush_cache()
                self.entries().clear()
                restore(records)

        return restore_beneath

    def flush_cache(self) -> None:
        """Write everything that is dirty to the inner store.

        The runtime calls it before it computes the changelog offsets of a commit.

        Raises:
            StoreError: the flush listener answers every write with another write to this store.

        Source: Kafka, CachedStateStore#flushCache.
        """
        with self.cache.lock:
            entries = self.entries()
            for _ in range(_MAX_FLUSH_PASSES):
                if not entries.dirty:
                    return
                entries.flush()
        raise StoreError(
            f"The cache of store {self.name!r} cannot be flushed: its flush listener wrote to the "
            f"store in each of {_MAX_FLUSH_PASSES} rounds. Make the listener stop writing."
        )

    def flush(self) -> None:
        """Flush the cache, then the inner store."""
        self.flush_cache()
        self._inner.flush()

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Flush the cache, then commit the inner store."""
        self.flush_cache()
        self._inner.commit(changelog_offsets)

    def close(self) -> None:
        """Flush the cache, leave it, and close the inner store; the first error wins.

        Source: Kafka, CachingInMemoryKeyValueStoreTest
        #shouldCloseWrappedStoreAndCacheAfterErrorDuringCacheFlush.
        """
        if self._entries is None:
            self._inner.close()
            return
        call_all((self._close_iterators, self.flush_cache, self._leave_cache, self._inner.close))

    def _close_iterators(self) -> None:
        for iterator in list(self._iterators):
            iterator.close()

    def _leave_cache(self) -> None:
        with self.cache.lock:
            self.entries().clear()
            self._entries = None
            self._position = Position()

    def new_transaction(self) -> StateStore:
        """A transaction of the inner store, beside the cache (KIP-892).

        As it changes the inner store beneath the cache, only dirty entries are cached from now on.
        """
        transaction = self._inner.new_transaction()
        if transaction is self._inner:
            return self
        with self.cache.lock:
            entries = self.entries()
            entries.keeps_clean = False
            entries.drop_clean()
        return transaction

    def approximate_num_uncommitted_entries(self) -> int:
        """Those of the inner store and, if it has transactions, those that are cached."""
        return self._with_dirty(
            self._inner.approximate_num_uncommitted_entries(), lambda cached: len(cached.dirty)
        )

    def approximate_num_uncommitted_bytes(self) -> int:
        """Those of the inner store and, if it has transactions, those that are cached."""
        return self._with_dirty(
            self._inner.approximate_num_uncommitted_bytes(), lambda cached: cached.num_dirty_bytes
        )

    def _with_dirty(self, below: int, dirty: Callable[[StoreCache], int]) -> int:
        if below < 0 or self._entries is None or not self._is_transactional:
            return below
        return below + dirty(self._entries)

    @cached_property
    def _is_transactional(self) -> bool:
        # Each layer would make its claims anew, and a thread asks after every round of its loop.
        return capabilities_of(self._inner).transactional

    # --- reads and writes -------------------------------------------------------------

    def get(self, key: bytes) -> bytes | None:
        entry = self._find(key)
        return None if entry is None else entry.value

    def _find(self, key: bytes) -> CachedEntry | None:
        if key is None:
            require_key(key)
        with self.cache.lock:
            entries = self.entries()
            entry = entries.get(key)
            if entry is None:
                entry = self._read(key)
                if entry is not None:
                    entries.keep(key, entry)
            return entry

    def _read(self, key: bytes) -> CachedEntry | None:
        value = self._inner.get(key)
        return None if value is None else CachedEntry(value, NO_TIMESTAMP, None)

    def put(self, key: bytes, value: bytes | None) -> None:
        self._put(key, value, None)

    def _put(self, key: bytes, value: bytes | None, timestamp: int | None) -> None:
        """Cache a write, by default with the timestamp of the input record."""
        if key is None:
            require_key(key)
        with self.cache.lock:
            entries, context = self.entries(), self._context
            metadata = context.record_metadata
            if timestamp is None or value is None:
                timestamp = context.record_timestamp
            if metadata is not None:
                self._position.update(*metadata)
            entries.put(key, CachedEntry(value, timestamp, metadata))

    # These call get and put, so they go through the cache.
    put_if_absent = KeyValueStore.put_if_absent
    delete = KeyValueStore.delete

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        self.entries()
        KeyValueStore.put_all(self, entries)

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        return self._merged.range(from_key, to_key)

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        return self._merged.reverse_range(from_key, to_key)

    def prefix_scan(self, prefix: bytes) -> KeyValueIterator:
        return self._merged.prefix_scan(prefix)

    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlyKeyValueStore:
        """READ_COMMITTED reads beneath the cache, READ_UNCOMMITTED through it.

        Source: Kafka 4.4, CachingInMemoryKeyValueStoreTest#shouldReadCommittedBypassCacheForGet.
        """
        below = self._inner.read_only(isolation_level)
        if isolation_level is IsolationLevel.READ_COMMITTED:
            return below
        return type(self._merged)(self, below)

    # --- for the parts of this module -------------------------------------------------

    def entries(self) -> StoreCache:
        """The entries of this store in the cache.

        Raises:
            InvalidStateStoreError: the store is closed.
        """
        if self._entries is None:
            raise InvalidStateStoreError(
                f"Store {self.name!r} is not open; call init() before using it."
            )
        return self._entries

    def iterator(
        self,
        rows: EntryIterator[bytes, Any] | None,
        dirty: list[tuple[bytes, Any]],
        *,
        reverse: bool = False,
    ) -> StoreIterator[bytes, Any]:
        """An iterator over dirty rows, laid over those below, that is closed with this store."""
        if rows is None:
            return StoreIterator(self.name, iter(()), self._iterators)
        merged = merge_over(iter(rows), dirty, reverse=reverse) if dirty else iter(rows)
        return StoreIterator(self.name, merged, self._iterators, rows.close)

    def _write(self, key: bytes, entry: CachedEntry) -> None:
        """Write an entry as if its input record were being processed, and tell the listener."""
        listener, old_value = self._listener, None
        if listener is not None and (self._send_old_values or entry.value is None):
            old_value = self._inner.get(key)
            if old_value is None and entry.value is None:
                return
        context = self._context
        current = context.record_metadata, context.record_timestamp
        context.record_metadata, context.record_timestamp = entry.metadata, entry.timestamp
        try:
            self._inner.put(key, entry.value)
            if listener is not None:
                old_value = old_value if self._send_old_values else None
                listener(
                    FlushedRecord(key, entry.value, old_value, entry.timestamp, entry.metadata)
                )
        finally:
            context.record_metadata, context.record_timestamp = current


class CachingTimestampedKeyValueStore(CachingKeyValueStore, TimestampedKeyValueLayer):
    """The same for a key-value store with timestamps.

    A write leaves the cache with its own timestamp as that of its input record, which the inner
    store then keeps.
    """

    _merged: _TimestampedMerged
    _inner: KeyValueWithTimestampStore

    def __init__(self, inner: KeyValueWithTimestampStore, cache: RecordCache) -> None:
        super().__init__(inner, cache)
        self._merged = _TimestampedMerged(self, inner)

    def _read(self, key: bytes) -> CachedEntry | None:
        found = self._inner.get_with_timestamp(key)
        return None if found is None else CachedEntry(found.value, found.timestamp, None)

    def get_with_timestamp(self, key: bytes) -> ValueAndTimestamp | None:
        entry = self._find(key)
        return None if entry is None else _value_and_timestamp(entry)

    def put_with_timestamp(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        self._put(key, value, timestamp)

    put_if_absent_with_timestamp = KeyValueWithTimestampStore.put_if_absent_with_timestamp
    delete_with_timestamp = KeyValueWithTimestampStore.delete_with_timestamp

    def put_all_with_timestamp(
        self, entries: Iterable[tuple[bytes, ValueAndTimestamp | None]]
    ) -> None:
        self.entries()
        checked = list(entries)
        for key, _ in checked:
            require_key(key)
        for key, stamped in checked:
            value, timestamp = (None, None) if stamped is None else stamped
            self._put(key, value, timestamp)

    def range_with_timestamp(
        self, from_key: bytes | None, to_key: bytes | None
    ) -> EntryIterator[bytes, ValueAndTimestamp]:
        return self._merged.range_with_timestamp(from_key, to_key)


def _value(entry: CachedEntry) -> bytes | None:
    return entry.value


def _value_and_timestamp(entry: CachedEntry) -> ValueAndTimestamp | None:
    return ValueAndTimestamp.make(entry.value, entry.timestamp)
