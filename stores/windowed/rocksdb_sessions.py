"""Session stores on RocksDB: plain and timestamped, with and without transactions."""

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
from streamproof.stores.iterators import StoreIterator, is_inverted
from streamproof.stores.sessions import (
    ReadOnlySessionStore,
    SessionStore,
)
from streamproof.stores.transactional import TransactionalKeyValueStore, TransactionalRocksDBStore
from streamproof.stores.transactions import Transaction
from streamproof.stores.windowed.keys import (
    SESSION_SUFFIX_BYTES,
    key_bounds,
    parse_session_key,
    require_session,
    session_key,
)
from streamproof.stores.windowed.segmented_reads import (
    SEGMENT_BYTES,
    SegmentedReads,
    SegmentedView,
    Timeline,
)
from streamproof.stores.windowed.segments import (
    SegmentedStore,
    SegmentedTransaction,
    SegmentedWrites,
)
from streamproof.stores.windows import LONG_MAX, Window, Windowed, WindowedIterator

__all__ = [
    "RocksDBSessionStore",
    "default_store",
    "transactional_store",
]

RETENTION_MS = 180_000

_TIMES = struct.Struct(">qq")
_LAST_SUFFIX = session_key(b"", LONG_MAX, LONG_MAX)


class _SessionReads(SegmentedReads):
    """The reading methods of a session store over rows; a view for queries has only these."""

    def fetch_session(self, key: bytes, start: int, end: int) -> bytes | None:
        """The aggregate of exactly this session, or ``None``."""
        if key is None:
            require_key(key)
        if not 0 <= start <= end <= LONG_MAX:
            self._require_open()
            return None
        return self._get(end, session_key(key, start, end))

    def fetch(self, key: bytes) -> WindowedIterator:
        """All sessions of ``key``, by end, the oldest first."""
        return self.find_sessions(key, 0, LONG_MAX)

    def backward_fetch(self, key: bytes) -> WindowedIterator:
        """The same sessions as ``fetch``, in the opposite order."""
        return self.backward_find_sessions(key, 0, LONG_MAX)

    def fetch_range(self, key_from: bytes | None, key_to: bytes | None) -> WindowedIterator:
        """All sessions of the keys within bounds."""
        return self.find_sessions_range(key_from, key_to, 0, LONG_MAX)

    def backward_fetch_range(
        self, key_from: bytes | None, key_to: bytes | None
    ) -> WindowedIterator:
        """The same sessions as ``fetch_range``, in the opposite order."""
        return self.backward_find_sessions_range(key_from, key_to, 0, LONG_MAX)

    def find_sessions(
        self, key: bytes, earliest_session_end: int, latest_session_start: int
    ) -> WindowedIterator:
        """The sessions of ``key`` that end no earlier and start no later than given."""
        times = earliest_session_end, latest_session_start
        return self._of_key(key, *times, reverse=False)

    def backward_find_sessions(
        self, key: bytes, earliest_session_end: int, latest_session_start: int
    ) -> WindowedIterator:
        """The same sessions as ``find_sessions``, in the opposite order."""
        times = earliest_session_end, latest_session_start
        return self._of_key(key, *times, reverse=True)

    def find_sessions_range(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_session_end: int,
        latest_session_start: int,
    ) -> WindowedIterator:
        """``find_sessions`` for the keys within bounds."""
        times = earliest_session_end, LONG_MAX, latest_session_start
        return self._range(key_from, key_to, *times, reverse=False)

    def backward_find_sessions_range(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_session_end: int,
        latest_session_start: int,
    ) -> WindowedIterator:
        """The same sessions as ``find_sessions_range``, in the opposite order."""
        times = earliest_session_end, LONG_MAX, latest_session_start
        return self._range(key_from, key_to, *times, reverse=True)

    def find_sessions_between(
        self, earliest_session_end: int, latest_session_end: int
    ) -> WindowedIterator:
        """The sessions of all keys that end between the times, both inclusive."""
        times = earliest_session_end, latest_session_end, LONG_MAX
        return self._range(None, None, *times, reverse=False)

    def _of_key(
        self,
        key: bytes,
        earliest_end: int,
        latest_start: int,
        *,
        reverse: bool,
    ) -> StoreIterator[Windowed, bytes]:
        require_key(key)
        if earliest_end > LONG_MAX:
            return self._nothing()
        bounds = session_key(key, 0, max(earliest_end, 0)), key + _LAST_SUFFIX
        times_of, at = _TIMES.unpack_from, SEGMENT_BYTES + len(key)
        length = at + SESSION_SUFFIX_BYTES

        def read(rows: KeyValueIterator, first: int, last: int) -> Iterator[tuple[Windowed, bytes]]:
            # Both bounds begin with the key, so a row of the right length belongs to this key.
            for row, aggregate in rows:
                if len(row) == length:
                    end, start = times_of(row, at)
                    if first <= end <= last and start <= latest_start:
                        yield Windowed(key, Window(start, end)), aggregate

        return self._scan(max(earliest_end, 0), LONG_MAX, bounds, read, reverse=reverse)

    def _range(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_end: int,
        latest_end: int,
        latest_start: int,
        *,
        reverse: bool,
    ) -> StoreIterator[Windowed, bytes]:
        first_end, last_end = max(earliest_end, 0), min(latest_end, LONG_MAX)
        if is_inverted(key_from, key_to) or first_end > last_end:
            return self._nothing()

        times_of = _TIMES.unpack_from
        low = b"" if key_from is None else key_from

        def read(rows: KeyValueIterator, first: int, last: int) -> Iterator[tuple[Windowed, bytes]]:
            for row, aggregate in rows:
                at = len(row) - SESSION_SUFFIX_BYTES
                end, start = times_of(row, at)
                if first <= end <= last and start <= latest_start:
                    key = row[SEGMENT_BYTES:at]
                    if low <= key and (key_to is None or key <= key_to):
                        yield Windowed(key, Window(start, end)), aggregate

        bounds = key_bounds(key_from, key_to, _LAST_SUFFIX)
        return self._scan(first_end, last_end, bounds, read, reverse=reverse)


class _SessionView(SegmentedView, _SessionReads):
    """A view of a session store, for queries from other threads."""


class _SessionWrites(_SessionReads, SegmentedWrites):
    """``put`` and ``remove`` too."""

    def put(self, session: Windowed, aggregate: bytes | None) -> None:
        """Set the aggregate of a session; ``None`` removes it."""
        require_key(session.key)
        require_session(session)
        start, end = session.window
        self._put(end, session_key(session.key, start, end), aggregate)


class RocksDBSessionStore(_SessionWrites, SegmentedStore, SessionStore):
    """Sessions in segments of one RocksDB database (Kafka: RocksDBSessionStore).

    A session belongs to the segment of its end. A put is dropped if its whole segment is expired.
    A session that is kept although it is older than the retention cannot be read.

    Args:
        name: the name of the store.
        retention_ms: how long sessions are kept after their end, in milliseconds.
        segment_interval_ms: the length of a segment; by default half of the retention, and
            at least 60 s.
        inner: the key-value store for the rows; by default a plain RocksDB store. With
            ``TransactionalKeyValueStore`` writes are staged until the commit.
    """

    def __init__(
        self,
        name: str,
        *,
        retention_ms: int,
        segment_interval_ms: int | None = None,
        inner: KeyValueStore | None = None,
    ) -> None:
        super().__init__(
            inner or self._rows_class(name),
            retention_ms=retention_ms,
            segment_interval_ms=segment_interval_ms,
        )

    @property
    def capabilities(self) -> Capabilities:
        """What this store promises; transactions and durability are those of the inner store."""
        return self._claims(kind="session")

    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlySessionStore:
        """A view of committed rows, or of all rows, for queries from other threads."""
        seen = self._view_of(isolation_level)
        if seen is None:
            return self
        return _SessionView(*seen)

    def _make_transaction(self, inner: Transaction, timeline: Timeline) -> SegmentedTransaction:
        return RocksDBSessionTransaction(self, inner, timeline)

    def _time_of(self, key: bytes) -> int:
        start, end = parse_session_key(key).window
        return end if 0 <= start <= end else -1


class RocksDBSessionTransaction(_SessionWrites, SegmentedTransaction, SessionStore):
    """Staged sessions over a session store; it reads its own writes (KIP-892)."""


def default_store(name: str = "store") -> RocksDBSessionStore:
    """A new session store that keeps sessions for 180 s."""
    return RocksDBSessionStore(name, retention_ms=RETENTION_MS)


def transactional_store(name: str = "store") -> RocksDBSessionStore:
    """The same with transactions."""
    return RocksDBSessionStore(
        name,
        retention_ms=RETENTION_MS,
        inner=TransactionalKeyValueStore(TransactionalRocksDBStore(name)),
    )
