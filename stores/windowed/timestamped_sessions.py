"""Session stores with timestamps: a layer over any session store of bytes, and RocksDB below it.

Kafka has shipped no such store.
"""

from __future__ import annotations

from typing import Any

from streamproof.stores.api import EntryIterator, IsolationLevel, KeyValueStore
from streamproof.stores.sessions import (
    ReadOnlySessionStore,
    SessionStore,
    SessionWithTimestampStore,
)
from streamproof.stores.timestamped_layer import (
    TIMESTAMPED,
    DecodedIterator,
    TimestampedLayer,
    TimestampedTransaction,
    ValueFormat,
)
from streamproof.stores.timestamps import ValueAndTimestamp
from streamproof.stores.two_formats import UpgradableStore, Version2RocksDBStore
from streamproof.stores.windowed.memory_sessions import InMemorySessionStore
from streamproof.stores.windowed.rocksdb_sessions import RETENTION_MS, RocksDBSessionStore
from streamproof.stores.windows import LONG_MAX, Windowed, WindowedIterator

__all__ = [
    "TimestampedRocksDBSessionStore",
    "TimestampedSessionStore",
    "TimestampedSessionTransaction",
    "TimestampedSessionView",
    "default_store",
    "in_memory_store",
]


class TimestampedSessionView:
    """Reads of sessions of stored bytes, with or without the timestamps.

    Args:
        stored: the holder of the bytes: a session store, a transaction, or a view of one.
        form: how they are stored.

    Source: KIP-258, ReadOnlySessionWithTimestampStore.
    """

    def __init__(self, stored: ReadOnlySessionStore, form: ValueFormat = TIMESTAMPED) -> None:
        self._stored = stored
        self._form = form

    def _values(self, rows: WindowedIterator) -> WindowedIterator:
        return DecodedIterator(rows, self._form.value)

    def fetch_session(self, key: bytes, start: int, end: int) -> bytes | None:
        """The aggregate of exactly this session, or ``None``."""
        stored = self._stored.fetch_session(key, start, end)
        return None if stored is None else self._form.value(stored)

    def fetch(self, key: bytes) -> WindowedIterator:
        """All sessions of ``key``, by end, the oldest first."""
        return self._values(self._stored.fetch(key))

    def backward_fetch(self, key: bytes) -> WindowedIterator:
        """The same sessions as ``fetch``, in the opposite order."""
        return self._values(self._stored.backward_fetch(key))

    def fetch_range(self, key_from: bytes | None, key_to: bytes | None) -> WindowedIterator:
        """All sessions of the keys within bounds."""
        return self._values(self._stored.fetch_range(key_from, key_to))

    def backward_fetch_range(
        self, key_from: bytes | None, key_to: bytes | None
    ) -> WindowedIterator:
        """The same sessions as ``fetch_range``, in the opposite order."""
        return self._values(self._stored.backward_fetch_range(key_from, key_to))

    def find_sessions(
        self, key: bytes, earliest_session_end: int, latest_session_start: int
    ) -> WindowedIterator:
        """The sessions of ``key`` that end no earlier and start no later than given."""
        times = earliest_session_end, latest_session_start
        return self._values(self._stored.find_sessions(key, *times))

    def backward_find_sessions(
        self, key: bytes, earliest_session_end: int, latest_session_start: int
    ) -> WindowedIterator:
        """The same sessions as ``find_sessions``, in the opposite order."""
        times = earliest_session_end, latest_session_start
        return self._values(self._stored.backward_find_sessions(key, *times))

    def find_sessions_range(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_session_end: int,
        latest_session_start: int,
    ) -> WindowedIterator:
        """``find_sessions`` for the keys within bounds."""
        times = earliest_session_end, latest_session_start
        return self._values(self._stored.find_sessions_range(key_from, key_to, *times))

    def backward_find_sessions_range(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_session_end: int,
        latest_session_start: int,
    ) -> WindowedIterator:
        """The same sessions as ``find_sessions_range``, in the opposite order."""
        times = earliest_session_end, latest_session_start
        return self._values(self._stored.backward_find_sessions_range(key_from, key_to, *times))

    def find_sessions_between(
        self, earliest_session_end: int, latest_session_end: int
    ) -> WindowedIterator:
        """The sessions of all keys that end between the times, both inclusive."""
        times = earliest_session_end, latest_session_end
        return self._values(self._stored.find_sessions_between(*times))

    def fetch_session_with_timestamp(
        self, key: bytes, start: int, end: int
    ) -> ValueAndTimestamp | None:
        """The aggregate of exactly this session, or ``None``."""
        stored = self._stored.fetch_session(key, start, end)
        return None if stored is None else self._form.decode(stored)

    def fetch_with_timestamp(self, key: bytes) -> EntryIterator[Windowed, ValueAndTimestamp]:
        """All sessions of ``key``, by end, the oldest first."""
        return DecodedIterator(self._stored.fetch(key), self._form.decode)

    def fetch_range_with_timestamp(
        self, key_from: bytes | None, key_to: bytes | None
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        """All sessions of the keys within bounds."""
        return self.find_sessions_range_with_timestamp(key_from, key_to, 0, LONG_MAX)

    def find_sessions_with_timestamp(
        self, key: bytes, earliest_session_end: int, latest_session_start: int
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        """The sessions of ``key`` that end no earlier and start no later than given."""
        rows = self._stored.find_sessions(key, earliest_session_end, latest_session_start)
        return DecodedIterator(rows, self._form.decode)

    def find_sessions_range_with_timestamp(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_session_end: int,
        latest_session_start: int,
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        """``find_sessions_with_timestamp`` for the keys within bounds."""
        times = earliest_session_end, latest_session_start
        rows = self._stored.find_sessions_range(key_from, key_to, *times)
        return DecodedIterator(rows, self._form.decode)


class TimestampedSessionStore(
    TimestampedSessionView, TimestampedLayer[SessionStore], SessionWithTimestampStore
):
    """Keeps a timestamp with each aggregate, over any session store of bytes.

    Args:
        inner: the store of ``timestamp ++ aggregate``.

    Source: KIP-258, SessionWithTimestampStore.
    """

    def __init__(self, inner: SessionStore) -> None:
        TimestampedLayer.__init__(self, inner)

    def _use(self, inner: SessionStore, form: ValueFormat) -> None:
        super()._use(inner, form)
        self._stored = inner

    def _transaction_over(self, staged: Any) -> TimestampedTransaction:
        return TimestampedSessionTransaction(staged)

    def read_only(self, isolation_level: IsolationLevel) -> TimestampedSessionView:
        """The view that the inner store gives for queries, with timestamps."""
        return TimestampedSessionView(self._inner.read_only(isolation_level), self._form)

    @property
    def dropped_records(self) -> int:
        """How many records came too late since ``init``."""
        return self._inner.dropped_records

    def put(self, session: Windowed, aggregate: bytes | None) -> None:
        """Set the aggregate with the timestamp of the record that is being processed."""
        self.put_with_timestamp(session, aggregate, self._record_timestamp())

    def put_with_timestamp(
        self, session: Windowed, aggregate: bytes | None, timestamp: int
    ) -> None:
        """Set the aggregate and the timestamp of a session; ``None`` removes it."""
        self._inner.put(session, self._form.encode(aggregate, timestamp))


class TimestampedSessionTransaction(TimestampedSessionStore, TimestampedTransaction):
    """Staged sessions with timestamps; ``new_transaction`` makes it."""


class _Version2Sessions(RocksDBSessionStore):
    _rows_class = Version2RocksDBStore


class TimestampedRocksDBSessionStore(UpgradableStore[SessionStore], TimestampedSessionStore):
    """A RocksDBSessionStore with timestamps, which replaces a plain one (KIP-258).

    Args:
        name: the name of the store.
        transactional: whether writes are staged until the commit (KIP-892).
        figures: the retention and the other figures of a RocksDBSessionStore.
    """

    older_subject = "rocksdb-session"

    def __init__(self, name: str, *, transactional: bool = False, **figures: Any) -> None:
        self._figures = figures
        UpgradableStore.__init__(self, name, transactional=transactional)

    def _over(self, rows: KeyValueStore, version: int) -> SessionStore:
        kind = _Version2Sessions if version == 2 else RocksDBSessionStore
        return kind(rows.name, inner=rows, **self._figures)

    def _timestamped_over(self, stored: SessionStore) -> TimestampedSessionStore:
        return TimestampedSessionStore(stored)


def default_store(name: str = "store") -> SessionWithTimestampStore:
    """A new session store with timestamps and transactions, which keeps sessions for 180 s."""
    return TimestampedRocksDBSessionStore(name, transactional=True, retention_ms=RETENTION_MS)


def in_memory_store(name: str = "store") -> SessionWithTimestampStore:
    """The same in memory, without transactions."""
    return TimestampedSessionStore(InMemorySessionStore(name, retention_ms=RETENTION_MS))
