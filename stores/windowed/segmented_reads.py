"""Rows by time, in segments of a key-value store: their stream time, and their scans.

A row is stored under ``segment id ++ key``, with the id in 8 bytes, big-endian. One more row,
behind all segments, has the stream time.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from threading import RLock
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

from streamproof.stores.api import KeyValueIterator
from streamproof.stores.iterators import StoreIterator

__all__ = [
    "SEGMENT_BYTES",
    "STATE_ROW",
    "RowReads",
    "RowStore",
    "SegmentedReads",
    "SegmentedView",
    "Timeline",
    "default_segment_interval_ms",
    "segment_prefix",
]

_LONG = struct.Struct(">q")

SEGMENT_BYTES = _LONG.size

STATE_ROW = b"\xff" * SEGMENT_BYTES
"""The key of the row with the stream time (8 bytes) and the last sequence number (4 bytes).

The key sorts behind every segment, because the ids of segments are not negative.
"""

_MIN_SEGMENT_INTERVAL_MS = 60_000

T = TypeVar("T")


def default_segment_interval_ms(retention_ms: int) -> int:
    """Half of the retention, but at least 60 s (Kafka: Stores#persistentWindowStore)."""
    return max(retention_ms // 2, _MIN_SEGMENT_INTERVAL_MS)


def segment_prefix(segment: int) -> bytes:
    """The prefix of all keys of a segment."""
    return _LONG.pack(segment)


class RowReads(Protocol):
    """The source of rows: a key-value store, a transaction or a view."""

    def get(self, key: bytes) -> bytes | None: ...

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator: ...

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator: ...


class RowStore(RowReads, Protocol):
    """A key-value store that can also delete a range of keys."""

    def put(self, key: bytes, value: bytes | None) -> None: ...

    def delete_range(self, from_key: bytes, to_key_exclusive: bytes) -> None: ...


@dataclass(slots=True)
class Timeline:
    """The stream time of a store, as the store, a transaction or a view sees it.

    Stream time belongs to the rows that advanced it. If it outlived a transaction that is
    discarded, records that were in time would come too late when they are processed again, and
    would be lost although the changelog may have them. So the store, each transaction and each view
    have their own timelines, over the timeline of committed rows.

    Attributes:
        retention_ms: how long a row is kept, in milliseconds of stream time.
        segment_interval_ms: the length of a segment, in milliseconds.
        base: the timeline of committed rows; ``None`` for that timeline itself.
        own: the largest time of a row that was written here; -1 before the first.
        dropped_before: the first segment that has not been dropped here.
    """

    retention_ms: int
    segment_interval_ms: int
    base: Timeline | None = None
    own: int = -1
    dropped_before: int = 0

    @property
    def stream_time(self) -> int:
        """The largest time of a row that was committed or written here; -1 before the first."""
        base = self.base
        return self.own if base is None or self.own > base.own else base.own

    def first_segment(self, stream_time: int) -> int:
        """The oldest segment that is not expired; negative as long as no segment is expired."""
        return (stream_time - self.retention_ms) // self.segment_interval_ms

    @property
    def oldest_readable(self) -> int:
        """The smallest time of a row that may still be read."""
        return max(self.stream_time - self.retention_ms + 1, 0)

    def segments(self, time_from: int, time_to: int) -> range:
        """The segments that may have rows with times within the bounds."""
        last = min(time_to, self.stream_time)
        return range(time_from // self.segment_interval_ms, last // self.segment_interval_ms + 1)


class SegmentedReads:
    """Reads rows of a timeline. The key of a row is the part after the segment's prefix.

    Args:
        name: the name of the store, for messages.
        rows: the source of the rows.
        timeline: their stream time.
        iterators: the open iterators of the store.
    """

    def __init__(
        self,
        name: str,
        rows: RowReads,
        timeline: Timeline,
        iterators: WeakSet[StoreIterator[Any, Any]],
    ) -> None:
        self._name = name
        self._rows = rows
        self._timeline = timeline
        self._iterators = iterators

    def _get(self, time: int, key: bytes) -> bytes | None:
        timeline = self._timeline
        if time < timeline.oldest_readable:
            self._require_open()
            return None
        return self._rows.get(_LONG.pack(time // timeline.segment_interval_ms) + key)

    def _scan(
        self,
        time_from: int,
        time_to: int,
        bounds: tuple[bytes, bytes | None],
        read: Callable[[KeyValueIterator, int, int], Iterator[tuple[T, Any]]],
        *,
        reverse: bool,
    ) -> StoreIterator[T, Any]:
        """An iterator over the segments of a span of time.

        Args:
            time_from: the smallest time of a row, inclusive.
            time_to: the largest, inclusive.
            bounds: the bounds of the keys within each segment, inclusive; ``None`` is an open end.
            read: makes entries from the rows of a segment, with their prefixes, given both times;
                it leaves out rows that are not wanted.
            reverse: whether to go from the newest segment and the largest key down.
        """
        time_from = max(time_from, self._timeline.oldest_readable)
        segments = self._timeline.segments(time_from, time_to)
        if not segments:
            return self._nothing()
        with ExitStack() as opened:
            # All segments are opened now, so that the iterator shows the store at one moment.
            scans = [
                opened.enter_context(self._segment(segment, bounds, reverse=reverse))
                for segment in (reversed(segments) if reverse else segments)
            ]
            close = opened.pop_all().close
        entries = chain.from_iterable(read(rows, time_from, time_to) for rows in scans)
        return StoreIterator(self._name, entries, self._iterators, close)

    def _segment(
        self, segment: int, bounds: tuple[bytes, bytes | None], *, reverse: bool
    ) -> KeyValueIterator:
        prefix = _LONG.pack(segment)
        low, high = bounds
        scan = self._rows.reverse_range if reverse else self._rows.range
        # The prefix of the next segment itself is no row, so an inclusive bound does no harm.
        return scan(prefix + low, _LONG.pack(segment + 1) if high is None else prefix + high)

    def _nothing(self) -> StoreIterator[Any, Any]:
        self._require_open()
        return StoreIterator(self._name, iter(()), self._iterators)

    def _require_open(self) -> None:
        # A closed store, transaction or view raises its own error here.
        self._rows.get(STATE_ROW)


class SegmentedView(SegmentedReads):
    """Reads for queries from other threads: a scan sees all segments of a commit, or none.

    Args:
        name: the name of the store, for messages.
        rows: the source of the rows.
        timeline: the stream time of ``rows``.
        iterators: the open iterators of the store.
        lock: held by the store while it commits.
    """

    def __init__(
        self,
        name: str,
        rows: RowReads,
        timeline: Timeline,
        iterators: WeakSet[StoreIterator[Any, Any]],
        lock: RLock,
    ) -> None:
        super().__init__(name, rows, timeline, iterators)
        self._lock = lock

    def _get(self, time: int, key: bytes) -> bytes | None:
        with self._lock:
            return super()._get(time, key)

    def _scan(
        self,
        time_from: int,
        time_to: int,
        bounds: tuple[bytes, bytes | None],
        read: Callable[[KeyValueIterator, int, int], Iterator[tuple[T, Any]]],
        *,
        reverse: bool,
    ) -> StoreIterator[T, Any]:
        # The rows of each segment are a snapshot once its iterator is open.
        with self._lock:
            return super()._scan(time_from, time_to, bounds, read, reverse=reverse)
