"""Window stores with timestamps: a layer over any window store of bytes, and RocksDB below it."""

from __future__ import annotations

from typing import Any

from streamproof.stores.api import EntryIterator, IsolationLevel, KeyValueStore
from streamproof.stores.timestamped_layer import (
    TIMESTAMPED,
    DecodedIterator,
    TimestampedLayer,
    TimestampedTransaction,
    ValueFormat,
)
from streamproof.stores.timestamps import ValueAndTimestamp
from streamproof.stores.two_formats import UpgradableStore, Version2RocksDBStore
from streamproof.stores.windowed.memory_windows import InMemoryWindowStore
from streamproof.stores.windowed.rocksdb_windows import (
    RETENTION_MS,
    WINDOW_SIZE_MS,
    RocksDBWindowStore,
)
from streamproof.stores.windows import (
    LONG_MAX,
    ReadOnlyWindowStore,
    Windowed,
    WindowedIterator,
    WindowIterator,
    WindowStore,
    WindowWithTimestampStore,
)

__all__ = [
    "TimestampedRocksDBWindowStore",
    "TimestampedWindowStore",
    "TimestampedWindowTransaction",
    "TimestampedWindowView",
    "default_store",
    "in_memory_store",
]


class TimestampedWindowView:
    """Reads of windows of stored bytes, with or without the timestamps.

    Args:
        stored: the holder of the bytes: a window store, a transaction, or a view of one.
        form: how they are stored.

    Source: KIP-258, ReadOnlyWindowWithTimestampStore.
    """

    def __init__(self, stored: ReadOnlyWindowStore, form: ValueFormat = TIMESTAMPED) -> None:
        self._stored = stored
        self._form = form

    def fetch(self, key: bytes, window_start: int) -> bytes | None:
        """The value of ``key`` in the window that starts then, or ``None``."""
        stored = self._stored.fetch(key, window_start)
        return None if stored is None else self._form.value(stored)

    def fetch_between(self, key: bytes, time_from: int, time_to: int) -> WindowIterator:
        """The values of ``key`` in the windows that start between the times, oldest first."""
        rows = self._stored.fetch_between(key, time_from, time_to)
        return DecodedIterator(rows, self._form.value)

    def backward_fetch_between(self, key: bytes, time_from: int, time_to: int) -> WindowIterator:
        """The same entries as ``fetch_between``, in the opposite order."""
        rows = self._stored.backward_fetch_between(key, time_from, time_to)
        return DecodedIterator(rows, self._form.value)

    def fetch_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> WindowedIterator:
        """The values of the keys within bounds, in windows that start between the times."""
        rows = self._stored.fetch_range(key_from, key_to, time_from, time_to)
        return DecodedIterator(rows, self._form.value)

    def backward_fetch_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> WindowedIterator:
        """The same entries as ``fetch_range``, in the opposite order."""
        rows = self._stored.backward_fetch_range(key_from, key_to, time_from, time_to)
        return DecodedIterator(rows, self._form.value)

    def fetch_all(self, time_from: int, time_to: int) -> WindowedIterator:
        """The values of all keys in the windows that start between the times."""
        return self.fetch_range(None, None, time_from, time_to)

    def backward_fetch_all(self, time_from: int, time_to: int) -> WindowedIterator:
        """The same entries as ``fetch_all``, in the opposite order."""
        return self.backward_fetch_range(None, None, time_from, time_to)

    def all(self) -> WindowedIterator:
        """Every entry that is not expired."""
        return self.fetch_range(None, None, 0, LONG_MAX)

    def backward_all(self) -> WindowedIterator:
        """The same entries as ``all``, in the opposite order."""
        return self.backward_fetch_range(None, None, 0, LONG_MAX)

    def fetch_with_timestamp(self, key: bytes, window_start: int) -> ValueAndTimestamp | None:
        """The value of ``key`` in the window that starts then, or ``None``."""
        stored = self._stored.fetch(key, window_start)
        return None if stored is None else self._form.decode(stored)

    def fetch_between_with_timestamp(
        self, key: bytes, time_from: int, time_to: int
    ) -> EntryIterator[int, ValueAndTimestamp]:
        """The values of ``key`` in the windows that start between the times, oldest first."""
        rows = self._stored.fetch_between(key, time_from, time_to)
        return DecodedIterator(rows, self._form.decode)

    def fetch_range_with_timestamp(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        """The values of the keys within bounds, in windows that start between the times."""
        rows = self._stored.fetch_range(key_from, key_to, time_from, time_to)
        return DecodedIterator(rows, self._form.decode)

    def fetch_all_with_timestamp(
        self, time_from: int, time_to: int
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        """The values of all keys in the windows that start between the times."""
        return self.fetch_range_with_timestamp(None, None, time_from, time_to)

    def all_with_timestamp(self) -> EntryIterator[Windowed, ValueAndTimestamp]:
        """Every entry that is not expired."""
        return self.fetch_range_with_timestamp(None, None, 0, LONG_MAX)


class TimestampedWindowStore(
    TimestampedWindowView, TimestampedLayer[WindowStore], WindowWithTimestampStore
):
    """Keeps a timestamp with each value, over any window store of bytes.

    Args:
        inner: the store of ``timestamp ++ value``.

    Source: KIP-258; Kafka, MeteredTimestampedWindowStore.
    """

    def __init__(self, inner: WindowStore) -> None:
        TimestampedLayer.__init__(self, inner)

    def _use(self, inner: WindowStore, form: ValueFormat) -> None:
        super()._use(inner, form)
        self._stored = inner

    def _transaction_over(self, staged: Any) -> TimestampedTransaction:
        return TimestampedWindowTransaction(staged)

    def read_only(self, isolation_level: IsolationLevel) -> TimestampedWindowView:
        """The view that the inner store gives for queries, with timestamps."""
        return TimestampedWindowView(self._inner.read_only(isolation_level), self._form)

    @property
    def dropped_records(self) -> int:
        """How many records came too late since ``init``."""
        return self._inner.dropped_records

    @property
    def sequence(self) -> int:
        """The last sequence number of a duplicate, if the inner store retains duplicates."""
        number: int = getattr(self._inner, "sequence")  # noqa: B009 - no part of the contract
        return number

    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        """Set the value with the timestamp of the record that is being processed."""
        self.put_with_timestamp(key, value, self._record_timestamp(), window_start)

    def put_with_timestamp(
        self, key: bytes, value: bytes | None, timestamp: int, window_start: int | None = None
    ) -> None:
        """Set value and timestamp in a window, by default that of the current record."""
        if window_start is None:
            window_start = self._record_timestamp()
        self._inner.put(key, self._form.encode(value, timestamp), window_start)


class TimestampedWindowTransaction(TimestampedWindowStore, TimestampedTransaction):
    """Staged windows with timestamps; ``new_transaction`` makes it."""


class _Version2Windows(RocksDBWindowStore):
    _rows_class = Version2RocksDBStore


class TimestampedRocksDBWindowStore(UpgradableStore[WindowStore], TimestampedWindowStore):
    """A RocksDBWindowStore with timestamps, which replaces a plain one (KIP-258).

    Args:
        name: the name of the store.
        transactional: whether writes are staged until the commit (KIP-892).
        figures: the retention and the other figures of a RocksDBWindowStore.
    """

    older_subject = "rocksdb-window"

    def __init__(self, name: str, *, transactional: bool = False, **figures: Any) -> None:
        self._figures = figures
        UpgradableStore.__init__(self, name, transactional=transactional)

    def _over(self, rows: KeyValueStore, version: int) -> WindowStore:
        kind = _Version2Windows if version == 2 else RocksDBWindowStore
        return kind(rows.name, inner=rows, **self._figures)

    def _timestamped_over(self, stored: WindowStore) -> TimestampedWindowStore:
        return TimestampedWindowStore(stored)


def default_store(name: str = "store") -> WindowWithTimestampStore:
    """A new window store with timestamps and transactions: windows of 10 s, kept for 180 s."""
    return TimestampedRocksDBWindowStore(
        name, transactional=True, retention_ms=RETENTION_MS, window_size_ms=WINDOW_SIZE_MS
    )


def in_memory_store(name: str = "store") -> WindowWithTimestampStore:
    """The same in memory, without transactions."""
    return TimestampedWindowStore(
        InMemoryWindowStore(name, retention_ms=RETENTION_MS, window_size_ms=WINDOW_SIZE_MS)
    )
