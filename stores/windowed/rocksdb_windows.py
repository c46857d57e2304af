"""Window stores on RocksDB: plain and timestamped, with and without transactions."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from streamproof.stores.api import (
    IsolationLevel,
    KeyValueIterator,
    KeyValueStore,
    require_key,
)
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.checkpointing import LegacyCheckpointingStateStore
from streamproof.stores.errors import InvalidArgumentError
from streamproof.stores.iterators import StoreIterator, is_inverted
from streamproof.stores.transactional import TransactionalKeyValueStore, TransactionalRocksDBStore
from streamproof.stores.transactions import Transaction
from streamproof.stores.windowed.keys import (
    WINDOW_SUFFIX_BYTES,
    key_bounds,
    parse_window_key,
    require_time,
    window_key,
)
from streamproof.stores.windowed.segment_databases import SegmentDatabases, SegmentOffset
from streamproof.stores.windowed.segmented_reads import (
    SEGMENT_BYTES,
    SegmentedReads,
    SegmentedView,
    Timeline,
    default_segment_interval_ms,
)
from streamproof.stores.windowed.segments import (
    SegmentedStore,
    SegmentedTransaction,
    SegmentedWrites,
)
from streamproof.stores.windowed.transactional_segments import TransactionalSegmentDatabases
from streamproof.stores.windows import (
    LONG_MAX,
    ReadOnlyWindowStore,
    Window,
    Windowed,
    WindowedIterator,
    WindowIterator,
    WindowStore,
)

__all__ = [
    "RocksDBWindowStore",
    "default_store",
    "duplicates_store",
    "legacy_segments_store",
    "segments_store",
    "transactional_segments_store",
    "transactional_store",
]

RETENTION_MS = 180_000
WINDOW_SIZE_MS = 10_000

_MAX_SEQUENCE = 2**31 - 1
_START = struct.Struct(">q")


class _WindowReads(SegmentedReads):
    """The reading methods of a window store over rows; a view for queries has only these.

    Attributes:
        window_size_ms: how long a window is, in milliseconds.
    """

    window_size_ms: int

    def fetch(self, key: bytes, window_start: int) -> bytes | None:
        """The value of ``key`` in the window that starts then, or ``None``."""
        if key is None:
            require_key(key)
        if not 0 <= window_start <= LONG_MAX:
            self._require_open()
            return None
        return self._get(window_start, window_key(key, window_start))

    def fetch_between(self, key: bytes, time_from: int, time_to: int) -> WindowIterator:
        """The values of ``key`` in the windows that start between the times, oldest first."""
        return self._between(key, time_from, time_to, reverse=False)

    def backward_fetch_between(self, key: bytes, time_from: int, time_to: int) -> WindowIterator:
        """The same entries as ``fetch_between``, in the opposite order."""
        return self._between(key, time_from, time_to, reverse=True)

    def fetch_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> WindowedIterator:
        """The values of the keys within bounds, in windows that start between the times."""
        return self._range(key_from, key_to, time_from, time_to, reverse=False)

    def backward_fetch_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> WindowedIterator:
        """The same entries as ``fetch_range``, in the opposite order."""
        return self._range(key_from, key_to, time_from, time_to, reverse=True)

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

    def _between(
        self, key: bytes, time_from: int, time_to: int, *, reverse: bool
    ) -> StoreIterator[int, bytes]:
        require_key(key)
        time_from, time_to = max(time_from, 0), min(time_to, LONG_MAX)
        if time_from > time_to:
            return self._nothing()
        bounds = window_key(key, time_from), window_key(key, time_to, _MAX_SEQUENCE)
        start_of, at = _START.unpack_from, SEGMENT_BYTES + len(key)
        length = at + WINDOW_SUFFIX_BYTES

        def read(rows: KeyValueIterator, first: int, last: int) -> Iterator[tuple[int, bytes]]:
            # Both bounds begin with the key, so a row of the right length belongs to this key.
            for row, value in rows:
                if len(row) == length:
                    (start,) = start_of(row, at)
                    if first <= start <= last:
                        yield start, value

        return self._scan(time_from, time_to, bounds, read, reverse=reverse)

    def _range(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        time_from: int,
        time_to: int,
        *,
        reverse: bool,
    ) -> StoreIterator[Windowed, bytes]:
        time_from, time_to = max(time_from, 0), min(time_to, LONG_MAX)
        if is_inverted(key_from, key_to) or time_from > time_to:
            return self._nothing()
        # Building named tuples through their base class takes half the time, and each row needs
        # one.
        size, start_of, new = self.window_size_ms, _START.unpack_from, tuple.__new__
        low, full_until = b"" if key_from is None else key_from, LONG_MAX - size

        def read(rows: KeyValueIterator, first: int, last: int) -> Iterator[tuple[Windowed, bytes]]:
            for row, value in rows:
                at = len(row) - WINDOW_SUFFIX_BYTES
                (start,) = start_of(row, at)
                if first <= start <= last:
                    key = row[SEGMENT_BYTES:at]
                    if low <= key and (key_to is None or key <= key_to):
                        end = start + size if start < full_until else LONG_MAX
                        yield new(Windowed, (key, new(Window, (start, end)))), value

        bounds = key_bounds(key_from, key_to, window_key(b"", time_to, _MAX_SEQUENCE))
        return self._scan(time_from, time_to, bounds, read, reverse=reverse)


class _WindowView(SegmentedView, _WindowReads):
    """A view of a window store, for queries from other threads."""


class _WindowWrites(_WindowReads, SegmentedWrites):
    """``put`` too.

    Attributes:
        retain_duplicates: whether every put is kept.
    """

    retain_duplicates: bool = False

    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        """Set the value of ``key`` in a window; ``None`` deletes it."""
        if key is None:
            require_key(key)
        if not 0 <= window_start <= LONG_MAX:
            require_time(window_start, "window start")
        if not self.retain_duplicates:
            self._put(window_start, window_key(key, window_start), value)
        elif value is None:
            self._require_open()
        else:
            sequence = self._owner.next_sequence()
            self._put(window_start, window_key(key, window_start, sequence), value)


class RocksDBWindowStore(_WindowWrites, SegmentedStore, WindowStore):
    """Windows in segments of one RocksDB database (Kafka: RocksDBWindowStore).

    A put is dropped if its whole segment is expired. A window that is kept although it is older
    than the retention cannot be read.

    Args:
        name: the name of the store.
        retention_ms: how long windows are kept after their start, in milliseconds.
        window_size_ms: how long a window is, in milliseconds.
        segment_interval_ms: the length of a segment; by default half of the retention, and
            at least 60 s.
        retain_duplicates: keep every put; then a put of ``None`` is ignored.
        inner: the key-value store for the rows; by default a plain RocksDB store. With
            ``TransactionalKeyValueStore`` writes are staged until the commit.

    Raises:
        InvalidArgumentError: the retention, the interval or the size is out of range.
    """

    def __init__(
        self,
        name: str,
        *,
        retention_ms: int,
        window_size_ms: int,
        segment_interval_ms: int | None = None,
        retain_duplicates: bool = False,
        inner: KeyValueStore | None = None,
    ) -> None:
        super().__init__(
            inner or self._rows_class(name),
            retention_ms=retention_ms,
            segment_interval_ms=segment_interval_ms,
        )
        if not 0 <= window_size_ms <= retention_ms:
            raise InvalidArgumentError(
                f"The windows of store {name!r} are {window_size_ms} ms long; choose a size from 0 "
                f"to the retention of {retention_ms} ms."
            )
        self.window_size_ms = window_size_ms
        self.retain_duplicates = retain_duplicates

    @property
    def capabilities(self) -> Capabilities:
        """What this store promises; transactions and durability are those of the inner store."""
        return self._claims(
            kind="window",
            window_size_ms=self.window_size_ms,
            retain_duplicates=self.retain_duplicates,
        )

    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlyWindowStore:
        """A view of committed rows, or of all rows, for queries from other threads."""
        seen = self._view_of(isolation_level)
        if seen is None:
            return self
        view = _WindowView(*seen)
        view.window_size_ms = self.window_size_ms
        return view

    def _make_transaction(self, inner: Transaction, timeline: Timeline) -> SegmentedTransaction:
        return self._like_this(RocksDBWindowTransaction(self, inner, timeline))

    def _like_this(self, transaction: RocksDBWindowTransaction) -> RocksDBWindowTransaction:
        transaction.window_size_ms = self.window_size_ms
        transaction.retain_duplicates = self.retain_duplicates
        return transaction

    def _time_of(self, key: bytes) -> int:
        _, start, sequence = parse_window_key(key)
        # A put after the restoration must not replace a restored row, so continue from its number.
        self.sequence = max(self.sequence, sequence)
        return start


class RocksDBWindowTransaction(_WindowWrites, SegmentedTransaction, WindowStore):
    """Staged windows over a window store; it reads its own writes (KIP-892)."""


def default_store(name: str = "store") -> RocksDBWindowStore:
    """A new window store: windows of 10 s, kept for 180 s."""
    return RocksDBWindowStore(name, retention_ms=RETENTION_MS, window_size_ms=WINDOW_SIZE_MS)


def transactional_store(name: str = "store") -> RocksDBWindowStore:
    """The same with transactions."""
    return RocksDBWindowStore(
        name,
        retention_ms=RETENTION_MS,
        window_size_ms=WINDOW_SIZE_MS,
        inner=TransactionalKeyValueStore(TransactionalRocksDBStore(name)),
    )


def duplicates_store(name: str = "store") -> RocksDBWindowStore:
    """The same as ``default_store``, but every put is kept."""
    return RocksDBWindowStore(
        name, retention_ms=RETENTION_MS, window_size_ms=WINDOW_SIZE_MS, retain_duplicates=True
    )


def segments_store(
    segment_offset: SegmentOffset = "minimum", name: str = "store"
) -> RocksDBWindowStore:
    """The same as ``default_store``, with one database for each segment."""
    interval = default_segment_interval_ms(RETENTION_MS)
    store = RocksDBWindowStore(
        name,
        retention_ms=RETENTION_MS,
        window_size_ms=WINDOW_SIZE_MS,
        inner=SegmentDatabases(name, segment_interval_ms=interval, segment_offset=segment_offset),
    )
    store.upgrades_from = f"{__name__}:legacy_segments_store"
    return store


def transactional_segments_store(name: str = "store") -> RocksDBWindowStore:
    """The same as ``segments_store``, with transactions."""
    segments = TransactionalSegmentDatabases(
        name, segment_interval_ms=default_segment_interval_ms(RETENTION_MS)
    )
    store = RocksDBWindowStore(
        name,
        retention_ms=RETENTION_MS,
        window_size_ms=WINDOW_SIZE_MS,
        inner=TransactionalKeyValueStore(segments),
    )
    store.upgrades_from = f"{__name__}:legacy_segments_store"
    return store


def legacy_segments_store(name: str = "store") -> RocksDBWindowStore:
    """The same as ``segments_store`` before KIP-1035, with the offsets in a file."""
    segments = SegmentDatabases(
        name,
        segment_interval_ms=default_segment_interval_ms(RETENTION_MS),
        manages_offsets=False,
    )
    return RocksDBWindowStore(
        name,
        retention_ms=RETENTION_MS,
        window_size_ms=WINDOW_SIZE_MS,
        inner=LegacyCheckpointingStateStore(segments, offset_delta_threshold=0),
    )
