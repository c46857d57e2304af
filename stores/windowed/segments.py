"""Rows by time, in segments of a key-value store, and what windows and sessions share.

A row is stored under ``segment id ++ key``, the id in 8 bytes, big-endian. All segments lie in
one store, so that they share one commit, one set of offsets and one story after a crash. An
expired segment is dropped by deleting its range of keys.

Source: Kafka, AbstractRocksDBSegmentedBytesStore, AbstractSegments and LogicalKeyValueSegments.
"""

from __future__ import annotations

import logging
import struct
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar, cast
from weakref import WeakSet

from streamproof.stores.api import (
    ChangelogRecord,
    IsolationLevel,
    KeyValueIterator,
    KeyValueStore,
    Position,
    RestoreCallback,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.errors import InvalidArgumentError, InvalidStateStoreError
from streamproof.stores.iterators import Row, StoreIterator
from streamproof.stores.transactions import Transaction

__all__ = [
    "SEGMENT_BYTES",
    "STREAM_TIME_ROW",
    "Rows",
    "SegmentedReads",
    "SegmentedStore",
    "SegmentedTransaction",
    "SegmentedWrites",
    "Timeline",
    "default_segment_interval_ms",
    "segment_prefix",
]

_LONG = struct.Struct(">q")
SEGMENT_BYTES = _LONG.size

STREAM_TIME_ROW = b"\xff" * SEGMENT_BYTES + b"stream-time"
"""Where the stream time is kept; it sorts behind every segment, whose ids are not negative."""

_MIN_SEGMENT_INTERVAL_MS = 60_000

T = TypeVar("T")
_logger = logging.getLogger("streamproof.stores")


def default_segment_interval_ms(retention_ms: int) -> int:
    """Half of the retention, but at least 60 s (Kafka: Stores#persistentWindowStore)."""
    return max(retention_ms // 2, _MIN_SEGMENT_INTERVAL_MS)


def segment_prefix(segment: int) -> bytes:
    """What the rows of a segment begin with."""
    return _LONG.pack(segment)


class RowReads(Protocol):
    """What rows are read from: a key-value store, a transaction or a view."""

    def get(self, key: bytes) -> bytes | None: ...

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator: ...

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator: ...


class Rows(RowReads, Protocol):
    """A key-value store that can delete a range of keys too."""

    def put(self, key: bytes, value: bytes | None) -> None: ...

    def delete_range(self, from_key: bytes, to_key_exclusive: bytes) -> None: ...


@dataclass(slots=True)
class Timeline:
    """How far the time of a store has come, and what follows from it.

    Attributes:
        retention_ms: how long a row is kept, in milliseconds of stream time.
        segment_interval_ms: the length of a segment, in milliseconds.
        stream_time: the largest time of a row so far; -1 before the first.
        first_segment: the oldest segment that is not expired.
        last_segment: the newest segment that may hold rows.
        dropped: how many records came too late.
    """

    retention_ms: int
    segment_interval_ms: int
    stream_time: int = -1
    first_segment: int = 0
    last_segment: int = -1
    dropped: int = 0

    def advance(self, time: int) -> bool:
        """Let stream time go on to ``time``; whether that makes segments expire."""
        if time <= self.stream_time:
            return False
        self.stream_time = time
        self.last_segment = max(self.last_segment, time // self.segment_interval_ms)
        first = max((time - self.retention_ms) // self.segment_interval_ms, 0)
        expires = first > self.first_segment
        self.first_segment = max(first, self.first_segment)
        return expires

    @property
    def oldest_readable(self) -> int:
        """The smallest time of a row that may still be read."""
        return max(self.stream_time - self.retention_ms + 1, 0)

    def segments(self, time_from: int, time_to: int) -> range:
        """The segments that rows with times between the bounds may be in."""
        first = max(time_from // self.segment_interval_ms, self.first_segment)
        last = min(time_to // self.segment_interval_ms, self.last_segment)
        return range(first, last + 1)


class SegmentedReads:
    """Reads rows of a timeline; the key of a row is what follows the segment's prefix.

    Args:
        name: the name of the store, for messages.
        rows: what is read.
        timeline: how far time has come.
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
        read: Callable[[Iterator[Row], int, int], Iterator[tuple[T, bytes]]],
        *,
        reverse: bool,
    ) -> StoreIterator[T, Any]:
        """An iterator over the segments of a span of time.

        Args:
            time_from: the smallest time of a row, inclusive.
            time_to: the largest, inclusive.
            bounds: of the keys within each segment, inclusive; ``None`` is an open end.
            read: makes entries from the rows of a segment, given both times; rows that are not
                wanted are left out here.
            reverse: whether to go from the newest segment and the largest key down.
        """
        self._require_open()
        time_from = max(time_from, self._timeline.oldest_readable)
        segments = self._timeline.segments(time_from, time_to)
        opened = ExitStack()
        # All segments are opened now, so that the iterator shows one moment.
        scans = [
            opened.enter_context(self._segment(segment, bounds, reverse=reverse))
            for segment in (reversed(segments) if reverse else segments)
        ]
        entries = (entry for rows in scans for entry in read(_rows_of(rows), time_from, time_to))
        return StoreIterator(self._name, entries, self._iterators, opened.close)

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
        # Every store, transaction and view says by itself that it is closed.
        self._rows.get(STREAM_TIME_ROW)


class SegmentedWrites(SegmentedReads):
    """Writes rows of a timeline too."""

    _rows: Rows

    @property
    def dropped_records(self) -> int:
        """How many records came too late and were dropped, restored ones included."""
        return self._timeline.dropped

    def _put(self, time: int, key: bytes, value: bytes | None) -> None:
        timeline = self._timeline
        if time > timeline.stream_time and timeline.advance(time):
            self._drop_expired()
        segment = time // timeline.segment_interval_ms
        if segment < timeline.first_segment:
            self._require_open()
            self._count_dropped(time)
            return
        self._rows.put(_LONG.pack(segment) + key, value)

    def _drop_expired(self) -> None:
        # From the very beginning: an earlier deletion may have been rolled back.
        first = self._timeline.first_segment
        self._rows.delete_range(_LONG.pack(0), _LONG.pack(first))

    def _count_dropped(self, time: int) -> None:
        self._timeline.dropped += 1
        _logger.debug("Store %r drops a record of %d: its segment is expired.", self._name, time)


class SegmentedStore(SegmentedWrites, StateStore):
    """A store of windows or sessions, in segments of a key-value store of bytes.

    The stream time is committed with the rows, so that a record that comes too late before a
    restart comes too late after it (KAFKA-12718). What a transaction that is
    discarded did to the stream time is discarded with it.

    Args:
        inner: the key-value store, transactional or not, that holds the rows.
        retention_ms: how long a row is kept, in milliseconds of stream time.
        segment_interval_ms: the length of a segment in milliseconds; by default half of
            the retention, and at least 60 s.
    """

    def __init__(
        self, inner: KeyValueStore, *, retention_ms: int, segment_interval_ms: int | None = None
    ) -> None:
        interval = segment_interval_ms or default_segment_interval_ms(retention_ms)
        if retention_ms < 1 or interval < 1:
            raise InvalidArgumentError(
                f"Store {inner.name!r}: the retention {retention_ms} ms and the segment interval "
                f"{interval} ms must be at least 1 ms."
            )
        super().__init__(inner.name, cast(Rows, inner), Timeline(retention_ms, interval), WeakSet())
        self._inner = inner
        self._context: StateStoreContext | None = None
        self._stored_stream_time = -1
        self._transactions: WeakSet[SegmentedTransaction] = WeakSet()
        self._restore_rows: RestoreCallback | None = None

    @property
    def name(self) -> str:
        """The name of the store."""
        return self._name

    @property
    def inner(self) -> KeyValueStore:
        """The key-value store that holds the rows."""
        return self._inner

    @property
    def persistent(self) -> bool:
        """Whether the content outlives the process."""
        return self._inner.persistent

    @property
    def is_open(self) -> bool:
        """Whether the store can be read and written."""
        return self._inner.is_open

    @property
    def manages_offsets(self) -> bool:
        """Whether the changelog offsets are kept with the rows (KIP-1035)."""
        return self._inner.manages_offsets

    @property
    def position(self) -> Position:
        """The input offsets that the content reflects (KIP-796)."""
        return self._inner.position

    @property
    def stream_time(self) -> int:
        """The largest time of a record so far, in milliseconds; -1 before the first."""
        return self._timeline.stream_time

    def _claims(self, **claims: Any) -> Capabilities:
        """What the inner store promises, with ``claims`` of this one."""
        inner: Capabilities = getattr(self._inner, "capabilities")  # noqa: B009
        return Capabilities(
            manages_offsets=inner.manages_offsets,
            transactional=inner.transactional,
            explicit_transactions=inner.explicit_transactions,
            read_only_views=inner.read_only_views,
            durability=inner.durability,
            position=True,
            ranges=False,
            reverse=False,
            prefix_scan=False,
            entry_count=False,
            retention_ms=self._timeline.retention_ms,
            segment_interval_ms=self._timeline.segment_interval_ms,
            expiry="segment",
            scan_order="segment",
            **claims,
        )

    # --- life cycle -------------------------------------------------------------------

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the inner store, find out how far time has come, and register how to restore."""
        self._inner.init(context, root)
        self._restore_rows = context.restore_callbacks[root.name]
        self._context = context
        try:
            self._load_timeline()
        except BaseException:
            self._inner.close()
            raise
        context.register(root, self._restore)

    def _load_timeline(self) -> None:
        old = self._timeline
        self._timeline = Timeline(old.retention_ms, old.segment_interval_ms)
        stored = self._rows.get(STREAM_TIME_ROW)
        self._stored_stream_time = -1 if stored is None else _LONG.unpack(stored)[0]
        self._timeline.advance(self._stored_stream_time)
        # Without transactions there may be rows of a later time than was committed.
        with self._inner.reverse_range(None, STREAM_TIME_ROW[:SEGMENT_BYTES]) as rows:
            for key, _ in rows:
                newest = _LONG.unpack_from(key)[0]
                self._timeline.last_segment = max(self._timeline.last_segment, newest)
                break

    def close(self) -> None:
        """Close the iterators and the inner store; closing twice is harmless."""
        for iterator in list(self._iterators):
            iterator.close()
        self._inner.close()

    def flush(self) -> None:
        """Write cached data to disk."""
        self._inner.flush()

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit the rows of all segments, the stream time and the offsets in one step.

        Source: KIP-892, StateStore#commit; KIP-1035.
        """
        for transaction in self._transactions:
            if transaction.is_open:
                self._timeline.advance(transaction.stream_time)
        if self._timeline.stream_time != self._stored_stream_time:
            put_stream_time(self._rows, self._context, self._timeline.stream_time)
        self._inner.commit(changelog_offsets)
        self._stored_stream_time = self._timeline.stream_time

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """The offset of the last commit, or ``None``."""
        return self._inner.committed_offset(partition)

    def approximate_num_uncommitted_entries(self) -> int:
        """About how many records of all segments await ``commit``."""
        return self._inner.approximate_num_uncommitted_entries()

    def approximate_num_uncommitted_bytes(self) -> int:
        """About how many bytes of all segments await ``commit``."""
        return self._inner.approximate_num_uncommitted_bytes()

    # --- transactions -----------------------------------------------------------------

    def new_transaction(self) -> StateStore:
        """A transaction over all segments; this store, if the inner one has none (KIP-892)."""
        inner = self._inner.new_transaction()
        if inner is self._inner:
            return self
        timeline = replace(self._timeline, dropped=0)
        transaction = self._make_transaction(cast(Transaction, inner), timeline)
        self._transactions.add(transaction)
        return transaction

    @abstractmethod
    def _make_transaction(self, inner: Transaction, timeline: Timeline) -> SegmentedTransaction:
        """A transaction of this kind of store."""

    @property
    def context(self) -> StateStoreContext:
        """What the runtime told this store at ``init``."""
        if self._context is None:
            raise InvalidStateStoreError(
                f"Store {self._name!r} is not open; call init() before using it."
            )
        return self._context

    def committed(self, transaction: SegmentedTransaction) -> None:
        """Take over the time of a transaction that was committed."""
        self._timeline.advance(transaction.stream_time)
        self._timeline.dropped += transaction.dropped_records
        self._stored_stream_time = self._timeline.stream_time

    # --- restoring --------------------------------------------------------------------

    def _restore(self, batch: Sequence[ChangelogRecord]) -> None:
        """Apply changelog records in one write, after time has gone on to the latest of them."""
        timed = [(self._time_of(record.key), record) for record in batch]
        if not timed or self._restore_rows is None:
            return
        if self._timeline.advance(max(time for time, _ in timed)):
            self._drop_expired()
        self._restore_rows(list(self._restored(timed)))

    def _restored(self, timed: Iterable[tuple[int, ChangelogRecord]]) -> Iterator[ChangelogRecord]:
        for time, record in timed:
            segment = time // self._timeline.segment_interval_ms
            if segment < self._timeline.first_segment:
                self._count_dropped(time)
            else:
                value = self._restored_value(record)
                yield record._replace(key=_LONG.pack(segment) + record.key, value=value)

    def _restored_value(self, record: ChangelogRecord) -> bytes | None:
        """The value of a changelog record as it is stored."""
        return record.value

    @abstractmethod
    def _time_of(self, key: bytes) -> int:
        """The time that a key of the changelog holds."""


class SegmentedTransaction(SegmentedWrites, Transaction):
    """A transaction over all segments of a store; it has a stream time of its own.

    Source: KIP-892, "a wrapper TransactionalSegment will also be provided".
    """

    def __init__(self, store: SegmentedStore, inner: Transaction, timeline: Timeline) -> None:
        super().__init__(store.name, cast(Rows, inner), timeline, WeakSet())
        self._store = store
        self._inner = inner
        self._started_at = timeline.stream_time

    @property
    def name(self) -> str:
        """The name of the store that this transaction belongs to."""
        return self._name

    @property
    def persistent(self) -> bool:
        """Whether the store outlives the process."""
        return self._inner.persistent

    @property
    def manages_offsets(self) -> bool:
        """Whether the store keeps changelog offsets itself (KIP-1035)."""
        return self._inner.manages_offsets

    @property
    def is_open(self) -> bool:
        """Whether this transaction can still be read and written."""
        return self._inner.is_open

    @property
    def isolation_level(self) -> IsolationLevel:
        """What this transaction sees of other transactions' writes."""
        return self._inner.isolation_level

    @property
    def position(self) -> Position:
        """The input offsets of the store and of the staged writes (KIP-796)."""
        return self._inner.position

    @property
    def stream_time(self) -> int:
        """The largest time of a record that the store or this transaction has seen."""
        return self._timeline.stream_time

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Do nothing: a transaction needs no opening."""

    def new_transaction(self) -> StateStore:
        """Another transaction on the same store."""
        return self._store.new_transaction()

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """The committed offset of the store."""
        return self._inner.committed_offset(partition)

    def flush(self) -> None:
        """Do nothing: staged writes stay staged until ``commit``."""
        self._inner.flush()

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Write the staged rows of all segments and the offsets in one step, and close."""
        if self._timeline.stream_time != self._started_at:
            put_stream_time(self._rows, self._store.context, self._timeline.stream_time)
        self._inner.commit(changelog_offsets)
        self._store.committed(self)
        self._close_iterators()

    def close(self) -> None:
        """Discard the staged rows and close; closing twice is harmless."""
        self._close_iterators()
        self._inner.close()

    def _close_iterators(self) -> None:
        for iterator in list(self._iterators):
            iterator.close()

    def approximate_num_uncommitted_entries(self) -> int:
        """How many rows of all segments are staged."""
        return self._inner.approximate_num_uncommitted_entries()

    def approximate_num_uncommitted_bytes(self) -> int:
        """The bytes of what is staged in all segments."""
        return self._inner.approximate_num_uncommitted_bytes()


def put_stream_time(rows: Rows, context: StateStoreContext | None, stream_time: int) -> None:
    """Keep the stream time among the rows; it stands for no input record."""
    metadata = None
    if context is not None:
        metadata, context.record_metadata = context.record_metadata, None
    try:
        rows.put(STREAM_TIME_ROW, _LONG.pack(stream_time))
    finally:
        if context is not None:
            context.record_metadata = metadata


def _rows_of(rows: KeyValueIterator) -> Iterator[Row]:
    """Rows without the prefix of their segment."""
    return ((key[SEGMENT_BYTES:], value) for key, value in rows)
