"""Window and session stores seen as key-value stores, so that one suite can judge all kinds.

Every key stands for one window, or one session, of that key. The key determines which one, so a
put overwrites and a get finds what was put. The windows lie in different segments, so a check of
several keys is a check of several segments.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from streamproof.stores.api import (
    NO_TIMESTAMP,
    ChangelogRecord,
    IsolationLevel,
    TopicPartition,
    require_key,
)
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.timestamps import ValueAndTimestamp
from streamproof.stores.windowed.keys import session_key, window_key
from streamproof.stores.windows import LONG_MAX, Window, Windowed

__all__ = ["LATE", "SessionRows", "WindowRows", "rows_of"]

LATE = b"late: all others have expired"
"""The key that stands for a window or session so late that those of all other keys expire."""

LATE_RETENTIONS = 4
"""The start of that window or session, in retentions."""

SESSION_MS = 10
"""The length of the sessions that keys stand for, in milliseconds."""


class _Rows:
    """The common part of both kinds. Methods without keys go to the store itself."""

    def __init__(self, store: Any, capabilities: Capabilities) -> None:
        self.store = store
        self._capabilities = capabilities
        retention = capabilities.retention_ms
        # Nothing expires while all times are within one retention. The row of LATE is beyond it.
        self._late = LATE_RETENTIONS * retention
        self._starts = (0, retention // 2, max(retention - 1 - SESSION_MS, 0))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def start_of(self, key: bytes) -> int:
        """The start of the window or session that a key stands for, in milliseconds."""
        require_key(key)
        if key == LATE:
            return self._late
        return self._starts[zlib.crc32(key) % len(self._starts)]

    def put_if_absent(self, key: bytes, value: bytes | None) -> bytes | None:
        existing = self.get(key)
        if existing is None:
            self.put(key, value)
        return existing

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        checked = list(entries)
        for key, _ in checked:
            require_key(key)
        for key, value in checked:
            self.put(key, value)

    def delete(self, key: bytes) -> bytes | None:
        old = self.get(key)
        self.put(key, None)
        return old

    def put_if_absent_with_timestamp(
        self, key: bytes, value: bytes | None, timestamp: int
    ) -> ValueAndTimestamp | None:
        existing = self.get_with_timestamp(key)
        if existing is None:
            self.put_with_timestamp(key, value, timestamp)
        return existing

    def put_all_with_timestamp(
        self, entries: Iterable[tuple[bytes, ValueAndTimestamp | None]]
    ) -> None:
        checked = list(entries)
        for key, _ in checked:
            require_key(key)
        for key, timed in checked:
            value, timestamp = (None, NO_TIMESTAMP) if timed is None else timed
            self.put_with_timestamp(key, value, timestamp)

    def delete_with_timestamp(self, key: bytes) -> ValueAndTimestamp | None:
        old = self.get_with_timestamp(key)
        self.put_with_timestamp(key, None, NO_TIMESTAMP)
        return old

    def all(self) -> Iterator[tuple[bytes, bytes]]:
        """The entries. The iterator cannot be closed early, but a whole scan never does so."""
        with self._all() as entries:
            yield from ((windowed.key, value) for windowed, value in entries)

    def new_transaction(self) -> Any:
        transaction = self.store.new_transaction()
        return self if transaction is self.store else type(self)(transaction, self._capabilities)

    def read_only(self, isolation_level: IsolationLevel) -> Any:
        return type(self)(self.store.read_only(isolation_level), self._capabilities)

    def rebuild(self, partition: TopicPartition, records: Iterable[ChangelogRecord]) -> None:
        self.store.rebuild(partition, [self.record(each) for each in records])

    def put_value_and_timestamp_if_absent(
        self, key: bytes, stamped: ValueAndTimestamp | None
    ) -> ValueAndTimestamp | None:
        existing = self.get_with_timestamp(key)
        if existing is None:
            self.put_value_and_timestamp(key, stamped)
        return existing

    def record(self, record: ChangelogRecord) -> ChangelogRecord:
        """A record of a key-value changelog as one of this store's changelog."""
        return record._replace(key=self.changelog_key(record.key))

    def changelog_key(self, key: bytes) -> bytes:
        raise NotImplementedError

    def get(self, key: bytes) -> bytes | None:
        raise NotImplementedError

    def put(self, key: bytes, value: bytes | None) -> None:
        raise NotImplementedError

    def get_with_timestamp(self, key: bytes) -> ValueAndTimestamp | None:
        raise NotImplementedError

    def put_with_timestamp(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        raise NotImplementedError

    def put_value_and_timestamp(self, key: bytes, stamped: ValueAndTimestamp | None) -> None:
        raise NotImplementedError

    def _all(self) -> Any:
        raise NotImplementedError


class WindowRows(_Rows):
    """A window store in which each key uses one window."""

    def changelog_key(self, key: bytes) -> bytes:
        return window_key(key, self.start_of(key))

    def get(self, key: bytes) -> bytes | None:
        value: bytes | None = self.store.fetch(key, self.start_of(key))
        return value

    def put(self, key: bytes, value: bytes | None) -> None:
        self.store.put(key, value, self.start_of(key))

    def get_with_timestamp(self, key: bytes) -> ValueAndTimestamp | None:
        found: ValueAndTimestamp | None = self.store.fetch_with_timestamp(key, self.start_of(key))
        return found

    def put_with_timestamp(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        self.store.put_with_timestamp(key, value, timestamp, self.start_of(key))

    def put_value_and_timestamp(self, key: bytes, stamped: ValueAndTimestamp | None) -> None:
        self.store.put_value_and_timestamp(key, stamped, self.start_of(key))

    def _all(self) -> Any:
        return self.store.all()


class SessionRows(_Rows):
    """A session store in which each key uses one session."""

    def changelog_key(self, key: bytes) -> bytes:
        start = self.start_of(key)
        return session_key(key, start, start + SESSION_MS)

    def get(self, key: bytes) -> bytes | None:
        start = self.start_of(key)
        value: bytes | None = self.store.fetch_session(key, start, start + SESSION_MS)
        return value

    def put(self, key: bytes, value: bytes | None) -> None:
        start = self.start_of(key)
        self.store.put(Windowed(key, Window(start, start + SESSION_MS)), value)

    def delete(self, key: bytes) -> bytes | None:
        old = self.get(key)
        start = self.start_of(key)
        self.store.remove(Windowed(key, Window(start, start + SESSION_MS)))
        return old

    def get_with_timestamp(self, key: bytes) -> ValueAndTimestamp | None:
        start = self.start_of(key)
        found: ValueAndTimestamp | None = self.store.fetch_session_with_timestamp(
            key, start, start + SESSION_MS
        )
        return found

    def put_with_timestamp(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        start = self.start_of(key)
        session = Windowed(key, Window(start, start + SESSION_MS))
        self.store.put_with_timestamp(session, value, timestamp)

    def put_value_and_timestamp(self, key: bytes, stamped: ValueAndTimestamp | None) -> None:
        start = self.start_of(key)
        session = Windowed(key, Window(start, start + SESSION_MS))
        self.store.put_value_and_timestamp(session, stamped)

    def _all(self) -> Any:
        if self._capabilities.ranges:
            return self.store.fetch_range(None, None)
        return self.store.find_sessions_between(0, LONG_MAX)


def rows_of(store: Any, capabilities: Capabilities) -> Any:
    """A store seen as a key-value store. A key-value store is returned unchanged."""
    if capabilities.kind == "window":
        return WindowRows(store, capabilities)
    if capabilities.kind == "session":
        return SessionRows(store, capabilities)
    return store
