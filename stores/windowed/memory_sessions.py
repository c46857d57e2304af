"""The in-memory session store: rows by session end, lost when the store closes."""

from __future__ import annotations

from streamproof.stores.api import ChangelogRecord, require_key
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.sessions import SessionStore
from streamproof.stores.windowed.keys import parse_session_key, require_session
from streamproof.stores.windowed.memory_rows import InMemoryTimedStore
from streamproof.stores.windows import LONG_MAX, Window, Windowed, WindowedIterator

__all__ = ["InMemorySessionStore", "default_store"]

_RETENTION_MS = 180_000


class InMemorySessionStore(InMemoryTimedStore, SessionStore):
    """Sessions in a sorted map (Kafka: InMemorySessionStore).

    A put is dropped and counted if ``end <= stream time - retention_ms``. Scans go by session
    end, then by key, then by session start, the latest first.

    Args:
        name: the name of the store.
        retention_ms: how long a session is kept after its end, in milliseconds.
    """

    def __init__(self, name: str, *, retention_ms: int) -> None:
        super().__init__(name, retention_ms)

    @property
    def capabilities(self) -> Capabilities:
        """What this store promises."""
        return Capabilities(
            persistent=False,
            manages_offsets=False,
            read_only_views=True,
            prefix_scan=False,
            entry_count=False,
            iterator_view="weak",
            kind="session",
            position=True,
            retention_ms=self._retention_ms,
            expiry="record",
            scan_order="time",
        )

    def put(self, session: Windowed, aggregate: bytes | None) -> None:
        """Set the aggregate of a session; ``None`` removes it."""
        key, (start, end) = session
        require_key(key)
        require_session(session)
        # The number of a row is its negated start, so that later starts come first.
        self._put(end, key, -start, aggregate)

    def _restore_record(self, record: ChangelogRecord) -> None:
        key, (start, end) = parse_session_key(record.key)
        self._write(end, key, -start, record.value)

    def fetch_session(self, key: bytes, start: int, end: int) -> bytes | None:
        """The aggregate of exactly this session, or ``None``."""
        require_key(key)
        return self._value(end, key, -start)

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
        require_key(key)
        return self.find_sessions_range(key, key, earliest_session_end, latest_session_start)

    def backward_find_sessions(
        self, key: bytes, earliest_session_end: int, latest_session_start: int
    ) -> WindowedIterator:
        """The same sessions as ``find_sessions``, in the opposite order."""
        require_key(key)
        return self.backward_find_sessions_range(
            key, key, earliest_session_end, latest_session_start
        )

    def find_sessions_range(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_session_end: int,
        latest_session_start: int,
    ) -> WindowedIterator:
        """``find_sessions`` for the keys within bounds."""
        ends = (earliest_session_end, LONG_MAX)
        return self._find(key_from, key_to, ends, latest_session_start, reverse=False)

    def backward_find_sessions_range(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_session_end: int,
        latest_session_start: int,
    ) -> WindowedIterator:
        """The same sessions as ``find_sessions_range``, in the opposite order."""
        ends = (earliest_session_end, LONG_MAX)
        return self._find(key_from, key_to, ends, latest_session_start, reverse=True)

    def find_sessions_between(
        self, earliest_session_end: int, latest_session_end: int
    ) -> WindowedIterator:
        """The sessions of all keys that end between the times, both inclusive."""
        ends = (earliest_session_end, latest_session_end)
        return self._find(None, None, ends, LONG_MAX, reverse=False)

    def _find(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        ends: tuple[int, int],
        latest_session_start: int,
        *,
        reverse: bool,
    ) -> WindowedIterator:
        rows = self._scan(key_from, key_to, *ends, reverse=reverse)
        return self._iterator(
            (Windowed(row.key, Window(-row.number, row.time)), row.value)
            for row in rows
            if -row.number <= latest_session_start
        )


def default_store(name: str = "store") -> SessionStore:
    """A new in-memory session store, not initialised."""
    return InMemorySessionStore(name, retention_ms=_RETENTION_MS)
