"""The common part of in-memory window and session stores: rows by time, expiry, and scans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple, TypeVar
from weakref import WeakSet

from sortedcontainers import SortedDict

from streamproof.stores.api import (
    NO_TIMESTAMP,
    ChangelogRecord,
    Position,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.errors import InvalidArgumentError, InvalidStateStoreError
from streamproof.stores.iterators import StoreIterator, is_inverted
from streamproof.stores.windows import LONG_MAX

__all__ = ["InMemoryTimedStore", "TimedRow"]

K = TypeVar("K")


class TimedRow(NamedTuple):
    """A value by time, key and a number, which separates rows of the same time and key."""

    time: int
    key: bytes
    number: int
    value: bytes


class InMemoryTimedStore(StateStore):
    """Rows in the order of their time, key and number, kept as long as the retention.

    The *stream time* is the largest time that was written. A row is expired once its time is
    not later than the stream time minus the retention. Expired rows leave the store at once; an
    older iterator still returns them until it is closed.

    An iterator takes the list of times when it is opened, and the rows of a time when it reaches
    that time. The iterator skips rows that were deleted since, sees updated values, and may see new
    rows.

    Args:
        name: the name of the store.
        retention_ms: how long rows are kept, in milliseconds.

    Raises:
        InvalidArgumentError: the retention is negative.

    Source: Kafka, InMemoryWindowStore and InMemorySessionStore.
    """

    def __init__(self, name: str, retention_ms: int) -> None:
        if retention_ms < 0:
            raise InvalidArgumentError(
                f"The retention of store {name!r} is {retention_ms} ms; give 0 or more."
            )
        self._name = name
        self._retention_ms = retention_ms
        self._context: StateStoreContext | None = None
        # Queries come from other threads, and a write may reorganise the sorted map under them.
        self._lock = Lock()
        self._iterators: WeakSet[StoreIterator[Any, Any]] = WeakSet()
        self._clear()

    def _clear(self) -> None:
        self._rows_by_time: SortedDict[int, SortedDict[tuple[bytes, int], bytes]] = SortedDict()
        self._stream_time = NO_TIMESTAMP
        self._dropped_records = 0
        self._position = Position()

    @property
    def name(self) -> str:
        """The name of the store."""
        return self._name

    @property
    def persistent(self) -> bool:
        """False: the content ends with the process."""
        return False

    @property
    def is_open(self) -> bool:
        """Whether the store can be read and written."""
        return self._context is not None

    @property
    def position(self) -> Position:
        """A copy of the input offsets that the content reflects (KIP-796)."""
        return self._position.copy()

    @property
    def dropped_records(self) -> int:
        """How many records came too late since ``init``, restored ones included."""
        return self._dropped_records

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Start empty and register how to restore.

        Raises:
            InvalidStateStoreError: the store is already open.
        """
        if self._context is not None:
            raise InvalidStateStoreError(f"Store {self._name!r} is already open; close it first.")
        self._context = context
        context.register(root, self._restore)

    def close(self) -> None:
        """Drop the content and close every iterator."""
        with self._lock:
            self._context = None
            self._clear()
            iterators = list(self._iterators)
        for iterator in iterators:
            iterator.close()

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Do nothing: the store has no durable data, and keeps no offsets."""
        self._opened()

    def _restore(self, batch: Sequence[ChangelogRecord]) -> None:
        self._opened()
        for record in batch:
            self._restore_record(record)

    def _restore_record(self, record: ChangelogRecord) -> None:
        raise NotImplementedError

    def _put(self, time: int, key: bytes, number: int, value: bytes | None) -> None:
        """Write a row for the record that is being processed."""
        context = self._opened()
        self._write(time, key, number, value)
        # The position moves even if the record came too late, because the record was processed.
        # InMemoryWindowStore of Kafka does the same in its put.
        if context.record_metadata is not None:
            self._position.update(*context.record_metadata)

    def _write(self, time: int, key: bytes, number: int, value: bytes | None) -> None:
        """Advance the stream time, and set, delete or drop the row."""
        with self._lock:
            self._expire(time)
            if time <= self._stream_time - self._retention_ms:
                self._dropped_records += 1
                return
            rows = self._rows_by_time.get(time)
            if value is not None:
                if rows is None:
                    rows = self._rows_by_time[time] = SortedDict()
                rows[key, number] = value
            elif rows is not None:
                rows.pop((key, number), None)
                if not rows:
                    del self._rows_by_time[time]

    def _expire(self, time: int) -> None:
        if time <= self._stream_time:
            return
        self._stream_time = time
        while self._rows_by_time:
            oldest, _ = self._rows_by_time.peekitem(0)
            if oldest > time - self._retention_ms:
                return
            # Only the store drops these rows. Open iterators keep references to them.
            del self._rows_by_time[oldest]

    def _value(self, time: int, key: bytes, number: int) -> bytes | None:
        self._opened()
        rows = self._rows_by_time.get(time)
        return None if rows is None else rows.get((key, number))

    def _scan(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        time_from: int,
        time_to: int,
        *,
        reverse: bool,
    ) -> Iterator[TimedRow]:
        """The rows within bounds, all inclusive; an inverted range of keys is empty."""
        self._opened()
        if is_inverted(key_from, key_to):
            return iter(())
        with self._lock:
            times = list(self._rows_by_time.irange(time_from, time_to, reverse=reverse))
            found = [(time, self._rows_by_time[time]) for time in times]
        return self._rows(found, key_from, key_to, reverse=reverse)

    def _rows(
        self,
        found: list[tuple[int, SortedDict[tuple[bytes, int], bytes]]],
        key_from: bytes | None,
        key_to: bytes | None,
        *,
        reverse: bool,
    ) -> Iterator[TimedRow]:
        # Every number of a row lies strictly between these two.
        first = None if key_from is None else (key_from, -LONG_MAX - 1)
        last = None if key_to is None else (key_to, LONG_MAX + 1)
        for time, rows in found:
            with self._lock:
                keys = list(rows.irange(first, last, reverse=reverse))
            for key, number in keys:
                value = rows.get((key, number))
                if value is not None:
                    yield TimedRow(time, key, number, value)

    def _iterator(self, entries: Iterator[tuple[K, bytes]]) -> StoreIterator[K, bytes]:
        with self._lock:
            self._opened()
            return StoreIterator(self._name, entries, self._iterators)

    def _opened(self) -> StateStoreContext:
        if self._context is None:
            raise InvalidStateStoreError(
                f"Store {self._name!r} is not open; call init() before using it."
            )
        return self._context
