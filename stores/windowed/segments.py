"""Windows and sessions in segments of a key-value store: the common part of both kinds of store.

All segments lie in one store, so that they share one commit and one set of offsets, and a crash
leaves all of them at the same moment. An expired segment is dropped by deleting its range of keys.

The row with the stream time is written before a segment is dropped, and with every commit. So a
crash never leaves a store that lacks rows which its own stream time does not call expired.

Source: Kafka, AbstractRocksDBSegmentedBytesStore, AbstractSegments and LogicalKeyValueSegments.
"""

from __future__ import annotations

import logging
import struct
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import RLock
from typing import Any, cast
from weakref import WeakSet

from streamproof.stores.api import (
    ChangelogRecord,
    IsolationLevel,
    KeyValueStore,
    Position,
    RestoreCallback,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.errors import (
    InvalidArgumentError,
    InvalidStateStoreError,
    ProcessorStateError,
)
from streamproof.stores.iterators import StoreIterator
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.transactions import Transaction
from streamproof.stores.windowed.segment_databases import SegmentDatabases
from streamproof.stores.windowed.segmented_reads import (
    STATE_ROW,
    RowReads,
    RowStore,
    SegmentedReads,
    Timeline,
    default_segment_interval_ms,
    segment_prefix,
)
from streamproof.stores.wrapped import WrappedKeyValueStore

__all__ = ["SegmentedStore", "SegmentedTransaction", "SegmentedWrites", "ViewParts"]

_LONG = struct.Struct(">q")
_STATE = struct.Struct(">qi")

_MAX_SEGMENTS = 1_000
"""The most segments that a retention may span, because a scan opens an iterator for each."""

_LARGEST_SEQUENCE = 2**31 - 1
"""The sequence number has 31 bits and starts over after this one."""

ViewParts = tuple[str, RowReads, Timeline, WeakSet[StoreIterator[Any, Any]], RLock]
"""The arguments of a SegmentedView."""

_logger = logging.getLogger("streamproof.stores")


class SegmentedWrites(SegmentedReads, StateStore):
    """Reads and writes rows of a timeline, and leaves all else to the store of the rows."""

    _rows: RowStore
    _inner: StateStore

    @property
    def name(self) -> str:
        """The name of the store."""
        return self._name

    @property
    def persistent(self) -> bool:
        """Whether the content outlives the process."""
        return self._inner.persistent

    @property
    def is_open(self) -> bool:
        """Whether it can be read and written."""
        return self._inner.is_open

    @property
    def manages_offsets(self) -> bool:
        """Whether the store keeps the changelog offsets with the rows (KIP-1035)."""
        return self._inner.manages_offsets

    @property
    def position(self) -> Position:
        """The input offsets that the content reflects (KIP-796)."""
        return self._inner.position

    @property
    def stream_time(self) -> int:
        """The largest time of a record so far, in milliseconds; -1 before the first."""
        return self._timeline.stream_time

    @property
    def dropped_records(self) -> int:
        """How many records came too late since ``init``, in transactions too."""
        return self._owner.dropped

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """The offset of the last commit, or ``None``."""
        return self._inner.committed_offset(partition)

    def flush(self) -> None:
        """Write cached data to disk. Staged writes stay staged."""
        self._inner.flush()

    def approximate_num_uncommitted_entries(self) -> int:
        """About how many records of all segments await ``commit``."""
        return self._inner.approximate_num_uncommitted_entries()

    def approximate_num_uncommitted_bytes(self) -> int:
        """About how many bytes of all segments await ``commit``."""
        return self._inner.approximate_num_uncommitted_bytes()

    @property
    @abstractmethod
    def _owner(self) -> SegmentedStore:
        """The store that this is, or that this transaction belongs to."""

    def _put(self, time: int, key: bytes, value: bytes | None) -> None:
        timeline = self._timeline
        stream_time = timeline.stream_time
        segment = time // timeline.segment_interval_ms
        if time > stream_time:
            timeline.own = time
            if timeline.first_segment(time) > timeline.dropped_before:
                self._drop_expired()
        elif segment < timeline.first_segment(stream_time):
            self._require_open()
            self._owner.count_dropped(time)
            return
        self._rows.put(segment_prefix(segment) + key, value)

    def _drop_expired(self) -> None:
        timeline = self._timeline
        first = timeline.first_segment(timeline.stream_time)
        self.keep_state()
        with self._owner.no_input_record():
            # Delete from the very beginning: an earlier deletion may have been discarded, or may
            # not have reached the disk.
            self._rows.delete_range(segment_prefix(0), segment_prefix(first))
        timeline.dropped_before = first

    def prepare_commit(self, stream_time: int) -> None:
        """Write the rows that a commit up to ``stream_time`` needs beside its records."""
        timeline = self._timeline
        timeline.own = max(timeline.own, stream_time)
        if timeline.first_segment(timeline.stream_time) > timeline.dropped_before:
            self._drop_expired()
        else:
            self.keep_state()

    def keep_state(self) -> None:
        """Keep the stream time and the last sequence number among the rows."""
        stream_time = self._timeline.stream_time
        if stream_time >= 0:
            with self._owner.no_input_record():
                self._rows.put(STATE_ROW, _STATE.pack(stream_time, self._owner.sequence))


class SegmentedStore(SegmentedWrites):
    """A store of windows or sessions, in segments of a key-value store of bytes.

    The stream time is committed with the rows, so that a record that comes too late before a
    restart also comes too late after it (KAFKA-12718). A transaction that is discarded takes its
    changes of the stream time along.

    Args:
        inner: the key-value store, transactional or not, that holds the rows.
        retention_ms: how long a row is kept, in milliseconds of stream time; at least 1.
        segment_interval_ms: the length of a segment in milliseconds, at least a
            thousandth of the retention; by default half of it, and at least 60 s.

    Attributes:
        lock: held during a commit, and while a view reads several segments.
        iterators: the open iterators.
        dropped: how many records came too late since ``init``.
        sequence: the last sequence number that a duplicate got.
        upgrades_from: the subject that writes the older format of the files, as capabilities name
            it; empty without an older one.

    Raises:
        InvalidArgumentError: the retention or the interval is out of range, or ``inner`` has its
            rows in another format on RocksDB.
    """

    _rows_class: type[RocksDBStore] = RocksDBStore
    """The store of the rows, and the format in which RocksDB has them (KIP-258)."""

    def __init__(
        self, inner: KeyValueStore, *, retention_ms: int, segment_interval_ms: int | None = None
    ) -> None:
        self._require_format(inner)
        interval = segment_interval_ms
        if interval is None:
            interval = default_segment_interval_ms(retention_ms)
        if retention_ms < 1 or interval < 1 or retention_ms // interval > _MAX_SEGMENTS:
            raise InvalidArgumentError(
                f"Store {inner.name!r} cannot keep a retention of {retention_ms} ms in segments of "
                f"{interval} ms. Give at least 1 ms for both, and at most {_MAX_SEGMENTS} segments "
                "in a retention."
            )
        self._committed = Timeline(retention_ms, interval)
        timeline = replace(self._committed, base=self._committed)
        super().__init__(inner.name, cast(RowStore, inner), timeline, WeakSet())
        self._inner: KeyValueStore = inner
        self._context: StateStoreContext | None = None
        self._transactions: WeakSet[SegmentedTransaction] = WeakSet()
        self._restore_rows: RestoreCallback | None = None
        self.lock = RLock()
        self.dropped = 0
        self.sequence = 0
        self.upgrades_from = ""

    def _require_format(self, inner: KeyValueStore) -> None:
        stored: object = inner
        while isinstance(stored, WrappedKeyValueStore):
            stored = stored.inner
        found = stored.format_version if isinstance(stored, RocksDBStore | SegmentDatabases) else 0
        if found and found != self._rows_class.format_version:
            raise InvalidArgumentError(
                f"Store {inner.name!r} needs the format {self._rows_class.format_version} of its "
                f"rows, and {type(stored).__name__} has the format {found}: plain values and "
                f"values with timestamps must not share files. Use {self._rows_class.__name__}."
            )

    @property
    def inner(self) -> KeyValueStore:
        """The key-value store that holds the rows."""
        return self._inner

    @property
    def iterators(self) -> WeakSet[StoreIterator[Any, Any]]:
        """The open iterators over this store, its transactions and its views."""
        return self._iterators

    @property
    def context(self) -> StateStoreContext:
        """The context that ``init`` was called with."""
        if self._context is None:
            raise InvalidStateStoreError(
                f"Store {self._name!r} is not open; call init() before using it."
            )
        return self._context

    @property
    def _owner(self) -> SegmentedStore:
        return self

    @property
    def _has_transactions(self) -> bool:
        claims: Capabilities = getattr(self._inner, "capabilities", Capabilities())
        return claims.explicit_transactions

    def _claims(self, **claims: Any) -> Capabilities:
        """The capabilities of the inner store, with the ``claims`` of this one."""
        inner: Capabilities = getattr(self._inner, "capabilities", Capabilities())
        return Capabilities(
            persistent=inner.persistent,
            manages_offsets=inner.manages_offsets,
            transactional=inner.transactional,
            explicit_transactions=inner.explicit_transactions,
            read_only_views=inner.read_only_views,
            several_partitions=inner.several_partitions,
            durability=inner.durability,
            position=True,
            prefix_scan=False,
            entry_count=False,
            retention_ms=self._timeline.retention_ms,
            segment_interval_ms=self._timeline.segment_interval_ms,
            expiry="segment",
            scan_order="segment",
            upgrades_from=self.upgrades_from,
            downgrade=inner.downgrade and bool(self.upgrades_from),
            imports_offsets=inner.imports_offsets,
            **claims,
        )

    # --- life cycle -------------------------------------------------------------------

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the inner store, read the stream time, and register the callback that restores.

        Raises:
            ProcessorStateError: the files cannot be read, written or locked, or are damaged.
            TaskCorruptedError: exactly-once, and the store was not closed cleanly.
            InvalidStateStoreError: the store is already open.
        """
        self._inner.init(context, root)
        self._context = context
        self._restore_rows = context.restore_callbacks[root.name]
        try:
            self._load_state()
        except BaseException:
            self._inner.close()
            raise
        context.register(root, self._restore)

    def _load_state(self) -> None:
        self.dropped = 0
        stored = self._rows.get(STATE_ROW)
        stream_time, self.sequence = (-1, 0) if stored is None else self._decode_state(stored)
        # Without transactions the store may have rows that are later than the committed time.
        with self._rows.reverse_range(None, STATE_ROW) as rows:
            for key, _ in rows:
                if key != STATE_ROW:
                    (newest,) = _LONG.unpack_from(key)
                    stream_time = max(stream_time, newest * self._timeline.segment_interval_ms)
                    break
        self._committed.own = stream_time
        self._timeline.own = -1
        self._timeline.dropped_before = 0

    def _decode_state(self, stored: bytes) -> tuple[int, int]:
        try:
            stream_time, sequence = _STATE.unpack(stored)
        except struct.error as error:
            raise ProcessorStateError(
                f"The stream time of store {self._name!r} has {len(stored)} bytes instead of "
                f"{_STATE.size}: the store is damaged, or another kind of store wrote it. Wipe the "
                "store's directory and restore from the changelog."
            ) from error
        return stream_time, sequence

    def close(self) -> None:
        """Close the iterators and the inner store; closing twice is harmless."""
        if not self._inner.is_open:
            return
        for iterator in list(self._iterators):
            iterator.close()
        try:
            # Without transactions rows outlive a close without a commit, and so must their time.
            self.keep_state()
        finally:
            self._inner.close()

    # --- commit -----------------------------------------------------------------------

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit the rows of all segments, the stream time and the offsets in one step.

        Source: KIP-892, StateStore#commit; KIP-1035.
        """
        with self.lock:
            transactions = [each for each in self._transactions if each.is_open]
            stream_time = max(each.stream_time for each in (self, *transactions))
            for each in transactions:
                each.prepare_commit(stream_time)
            if not transactions:
                # A put may go past open transactions, straight to the disk.
                self.prepare_commit(stream_time)
            self._inner.commit(changelog_offsets)
            self.has_committed(stream_time)

    def has_committed(self, stream_time: int, dropped_before: int = 0) -> None:
        """Note the stream time of a commit, and the first segment that was not dropped."""
        self._committed.own = max(self._committed.own, stream_time)
        self._timeline.dropped_before = max(self._timeline.dropped_before, dropped_before)

    @contextmanager
    def no_input_record(self) -> Iterator[None]:
        """A block in which writes belong to no input record, and move no position."""
        context = self.context
        metadata, context.record_metadata = context.record_metadata, None
        try:
            yield
        finally:
            context.record_metadata = metadata

    def count_dropped(self, time: int) -> None:
        """Count a record that came too late."""
        self.dropped += 1
        _logger.debug("Store %r drops a record of %d: its segment is expired.", self._name, time)

    def next_sequence(self) -> int:
        """A new number for a duplicate.

        Numbers are unique, even if a transaction is discarded. They wrap around after 2**31 - 1.
        """
        self.sequence = (self.sequence + 1) & _LARGEST_SEQUENCE
        return self.sequence

    # --- transactions and views -------------------------------------------------------

    def new_transaction(self) -> StateStore:
        """A transaction over all segments; this store, if the inner one has none (KIP-892)."""
        inner = self._inner.new_transaction()
        if inner is self._inner:
            return self
        timeline = replace(self._timeline, own=-1)
        transaction = self._make_transaction(cast(Transaction, inner), timeline)
        self._transactions.add(transaction)
        return transaction

    @abstractmethod
    def _make_transaction(self, inner: Transaction, timeline: Timeline) -> SegmentedTransaction:
        """A transaction of this kind of store."""

    def _view_of(self, isolation_level: IsolationLevel) -> ViewParts | None:
        """The parts of a view; ``None`` if the store is its own view."""
        rows = self._inner.read_only(isolation_level)
        if rows is self._inner and not self._has_transactions:
            return None
        # Under at-least-once nothing is staged, and every reader sees all rows.
        staged = self.context.isolation_level is IsolationLevel.READ_COMMITTED
        committed = staged and isolation_level is IsolationLevel.READ_COMMITTED
        timeline = self._committed if committed else self._timeline
        return self._name, rows, timeline, self._iterators, self.lock

    # --- restoring --------------------------------------------------------------------

    def _restore(self, batch: Sequence[ChangelogRecord]) -> None:
        """Move the stream time to the latest changelog record, and apply all in one write."""
        timed = [(self._time_of(record.key), record) for record in batch]
        for time, record in timed:
            if time < 0:
                raise ProcessorStateError(
                    f"The changelog of store {self._name!r} has the key {record.key!r} at offset "
                    f"{record.offset}, whose time is negative: the record is damaged, or another "
                    "kind of store wrote it. Check the changelog topic; nothing of the batch was "
                    "restored."
                )
        if self._restore_rows is None:
            raise InvalidStateStoreError(
                f"Store {self._name!r} is not open; call init() before restoring it."
            )
        with self.lock:
            self.has_committed(max((time for time, _ in timed), default=-1))
            self._restore_rows(list(self._restored(timed)))

    def _restored(self, timed: Iterable[tuple[int, ChangelogRecord]]) -> Iterator[ChangelogRecord]:
        stream_time = self._timeline.stream_time
        first = self._timeline.first_segment(stream_time)
        offset = -1
        for time, record in timed:
            segment = time // self._timeline.segment_interval_ms
            offset = record.offset
            if segment < first:
                self.count_dropped(time)
            else:
                yield record._replace(key=segment_prefix(segment) + record.key)
        if stream_time >= 0:
            # A restoration goes past staged writes, and so must this row. The next commit drops
            # segments.
            state = _STATE.pack(stream_time, self.sequence)
            yield ChangelogRecord(STATE_ROW, state, offset)

    @abstractmethod
    def _time_of(self, key: bytes) -> int:
        """The time in a key of the changelog; negative if it is not a possible time.

        Raises:
            ProcessorStateError: the key is too short.
        """


class SegmentedTransaction(SegmentedWrites, Transaction):
    """A transaction over all segments of a store, with its own stream time.

    Source: KIP-892, "a wrapper TransactionalSegment will also be provided".
    """

    def __init__(self, store: SegmentedStore, inner: Transaction, timeline: Timeline) -> None:
        super().__init__(store.name, cast(RowStore, inner), timeline, store.iterators)
        self._store = store
        self._inner: Transaction = inner

    @property
    def _owner(self) -> SegmentedStore:
        return self._store

    @property
    def isolation_level(self) -> IsolationLevel:
        """What this transaction sees of other transactions' writes."""
        return self._inner.isolation_level

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Do nothing: a transaction needs no opening."""

    def new_transaction(self) -> StateStore:
        """Another transaction on the same store."""
        return self._store.new_transaction()

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Write the staged rows of all segments and the offsets in one step, and close."""
        with self._store.lock:
            self.prepare_commit(self.stream_time)
            self._inner.commit(changelog_offsets)
            self._store.has_committed(self.stream_time, self._timeline.dropped_before)

    def close(self) -> None:
        """Discard the staged rows and close; closing twice is harmless."""
        self._inner.close()
