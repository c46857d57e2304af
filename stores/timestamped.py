"""Key-value stores with timestamps: a layer over any store of bytes, and RocksDB below it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from streamproof.stores.api import (
    EntryIterator,
    IsolationLevel,
    KeyValueIterator,
    KeyValueStore,
    ReadOnlyKeyValueStore,
)
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.memory import InMemoryKeyValueStore
from streamproof.stores.timestamped_layer import (
    TIMESTAMPED,
    DecodedIterator,
    TimestampedLayer,
    TimestampedTransaction,
    ValueFormat,
)
from streamproof.stores.timestamped_lazy import LazyRocksDBStore, TransactionalLazyRocksDBStore
from streamproof.stores.timestamps import KeyValueWithTimestampStore, ValueAndTimestamp
from streamproof.stores.transactional import TransactionalKeyValueStore
from streamproof.stores.two_formats import UpgradableStore
from streamproof.stores.wrapped import WrappedKeyValueStore

__all__ = [
    "RocksDBLazyTimestampedStore",
    "RocksDBTimestampedStore",
    "TimestampedKeyValueStore",
    "TimestampedKeyValueTransaction",
    "TimestampedView",
    "default_store",
    "in_memory_store",
    "lazy_store",
    "transactional_store",
]


class TimestampedView:
    """Reads of stored bytes, with or without the timestamps.

    Args:
        stored: the holder of the bytes: a store, a transaction, or a view of one.
        form: how they are stored.

    Source: KIP-258, ReadOnlyKeyValueWithTimestampStore.
    """

    def __init__(self, stored: ReadOnlyKeyValueStore, form: ValueFormat = TIMESTAMPED) -> None:
        self._stored = stored
        self._form = form

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``, or ``None``."""
        stored = self._stored.get(key)
        return None if stored is None else self._form.value(stored)

    def get_with_timestamp(self, key: bytes) -> ValueAndTimestamp | None:
        """The value of ``key`` and its timestamp, or ``None``."""
        stored = self._stored.get(key)
        return None if stored is None else self._form.decode(stored)

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The entries from ``from_key`` to ``to_key``, both inclusive, ascending."""
        return DecodedIterator(self._stored.range(from_key, to_key), self._form.value)

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The same entries as ``range``, descending."""
        return DecodedIterator(self._stored.reverse_range(from_key, to_key), self._form.value)

    def range_with_timestamp(
        self, from_key: bytes | None, to_key: bytes | None
    ) -> EntryIterator[bytes, ValueAndTimestamp]:
        """The entries from ``from_key`` to ``to_key``, both inclusive, ascending."""
        return DecodedIterator(self._stored.range(from_key, to_key), self._form.decode)

    def all(self) -> KeyValueIterator:
        """Every entry, ascending."""
        return self.range(None, None)

    def reverse_all(self) -> KeyValueIterator:
        """Every entry, descending."""
        return self.reverse_range(None, None)

    def all_with_timestamp(self) -> EntryIterator[bytes, ValueAndTimestamp]:
        """Every entry, ascending."""
        return self.range_with_timestamp(None, None)

    def prefix_scan(self, prefix: bytes) -> KeyValueIterator:
        """Every entry whose key starts with ``prefix``, ascending."""
        return DecodedIterator(self._stored.prefix_scan(prefix), self._form.value)

    def approximate_num_entries(self) -> int:
        """The approximate number of entries; it may leave out staged writes."""
        return self._stored.approximate_num_entries()


class TimestampedKeyValueStore(
    TimestampedLayer[KeyValueStore], WrappedKeyValueStore, KeyValueWithTimestampStore
):
    """Keeps a timestamp with each value, over any key-value store of bytes.

    Args:
        inner: the store of ``timestamp ++ value``.

    Source: KIP-258; Kafka, MeteredTimestampedKeyValueStore.
    """

    def _use(self, inner: KeyValueStore, form: ValueFormat) -> None:
        super()._use(inner, form)
        self._target = inner
        self._view = TimestampedView(inner, form)

    def _transaction_over(self, staged: Any) -> TimestampedTransaction:
        return TimestampedKeyValueTransaction(staged)

    def read_only(self, isolation_level: IsolationLevel) -> TimestampedView:
        """The view that the inner store gives for queries, with timestamps."""
        return TimestampedView(self._inner.read_only(isolation_level), self._form)

    # --- values -----------------------------------------------------------------------

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``, or ``None``."""
        stored = self._target.get(key)
        return None if stored is None else self._form.value(stored)

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of ``key``, at the timestamp of the current record; ``None`` deletes."""
        self._target.put(key, self._form.encode(value, self._record_timestamp()))

    def put_if_absent(self, key: bytes, value: bytes | None) -> bytes | None:
        """Set the value if the key has none; return the previous value, or ``None``."""
        found = self.put_if_absent_with_timestamp(key, value, self._record_timestamp())
        return None if found is None else found.value

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Put all entries, at one timestamp; if one key is ``None``, none is written."""
        timestamp = self._record_timestamp()
        self._target.put_all((key, self._form.encode(value, timestamp)) for key, value in entries)

    def delete(self, key: bytes) -> bytes | None:
        """Delete ``key`` and return the value it had, or ``None``."""
        stored = self._target.delete(key)
        return None if stored is None else self._form.value(stored)

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The entries from ``from_key`` to ``to_key``, both inclusive, ascending."""
        return self._view.range(from_key, to_key)

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The same entries as ``range``, descending."""
        return self._view.reverse_range(from_key, to_key)

    def prefix_scan(self, prefix: bytes) -> KeyValueIterator:
        """Every entry whose key starts with ``prefix``, ascending."""
        return self._view.prefix_scan(prefix)

    # --- values with timestamps -------------------------------------------------------

    def get_with_timestamp(self, key: bytes) -> ValueAndTimestamp | None:
        """The value of ``key`` and its timestamp, or ``None``."""
        return self._view.get_with_timestamp(key)

    def put_with_timestamp(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        """Set the value of ``key`` and its timestamp; a value of ``None`` deletes it."""
        self._target.put(key, self._form.encode(value, timestamp))

    def put_if_absent_with_timestamp(
        self, key: bytes, value: bytes | None, timestamp: int
    ) -> ValueAndTimestamp | None:
        """Set the value if the key has none; return the previous one, or ``None``."""
        stored = self._target.put_if_absent(key, self._form.encode(value, timestamp))
        return None if stored is None else self._form.decode(stored)

    def put_all_with_timestamp(
        self, entries: Iterable[tuple[bytes, ValueAndTimestamp | None]]
    ) -> None:
        """Put all entries; if one key is ``None``, none is written."""
        self._target.put_all(
            (key, None if found is None else self._form.encode(found.value, found.timestamp))
            for key, found in entries
        )

    def delete_with_timestamp(self, key: bytes) -> ValueAndTimestamp | None:
        """Delete ``key`` and return its previous value, or ``None``."""
        stored = self._target.delete(key)
        return None if stored is None else self._form.decode(stored)

    def range_with_timestamp(
        self, from_key: bytes | None, to_key: bytes | None
    ) -> EntryIterator[bytes, ValueAndTimestamp]:
        """The entries from ``from_key`` to ``to_key``, both inclusive, ascending."""
        return self._view.range_with_timestamp(from_key, to_key)


class TimestampedKeyValueTransaction(TimestampedKeyValueStore, TimestampedTransaction):
    """A transaction whose staged values have timestamps; ``new_transaction`` makes it."""


class RocksDBTimestampedStore(UpgradableStore[KeyValueStore], TimestampedKeyValueStore):
    """A RocksDB key-value store with timestamps, which replaces a plain one (KIP-258)."""

    older_subject = "rocksdb"

    def _over(self, rows: KeyValueStore, version: int) -> KeyValueStore:
        return rows

    def _timestamped_over(self, stored: KeyValueStore) -> TimestampedKeyValueStore:
        return TimestampedKeyValueStore(stored)


class RocksDBLazyTimestampedStore(TimestampedKeyValueStore):
    """A RocksDB store with timestamps that migrates a plain store row by row, in its directory.

    Args:
        name: the name of the store.
        transactional: whether writes are staged until the commit (KIP-892).

    Source: KIP-258 as Kafka ships it, RocksDBTimestampedStore.
    """

    def __init__(self, name: str, *, transactional: bool = False) -> None:
        super().__init__(
            TransactionalKeyValueStore(TransactionalLazyRocksDBStore(name))
            if transactional
            else LazyRocksDBStore(name)
        )

    @property
    def capabilities(self) -> Capabilities:
        """What this store promises; the plain RocksDB store writes the older format."""
        return replace(
            super().capabilities, position=True, upgrades_from="rocksdb", downgrade=False
        )


def default_store(name: str = "store") -> KeyValueStore:
    """A new RocksDB store with timestamps, not initialised."""
    return RocksDBTimestampedStore(name)


def lazy_store(name: str = "store") -> KeyValueStore:
    """A new store that migrates a plain one row by row, not initialised."""
    return RocksDBLazyTimestampedStore(name)


def transactional_store(name: str = "store") -> KeyValueStore:
    """A new transactional RocksDB store with timestamps, not initialised."""
    return RocksDBTimestampedStore(name, transactional=True)


def in_memory_store(name: str = "store") -> KeyValueStore:
    """A new in-memory store with timestamps, not initialised."""
    return TimestampedKeyValueStore(InMemoryKeyValueStore(name))
