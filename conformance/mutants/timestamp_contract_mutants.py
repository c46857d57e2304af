"""Stores with timestamps that break one method, the stored bytes or the changelog."""

from __future__ import annotations

import struct
from typing import Any

from streamproof.stores.api import (
    NO_TIMESTAMP,
    EntryIterator,
    IsolationLevel,
    KeyValueIterator,
    KeyValueStore,
    StateStore,
)
from streamproof.stores.runtime.changelogging import (
    ChangeLoggingTimestampedKeyValueStore,
    ChangeLoggingTimestampedSessionStore,
    ChangeLoggingTimestampedWindowStore,
)
from streamproof.stores.sessions import SessionStore
from streamproof.stores.timestamped import RocksDBTimestampedStore, TimestampedView
from streamproof.stores.timestamped_layer import (
    TIMESTAMPED,
    DecodedIterator,
    ValueFormat,
)
from streamproof.stores.timestamps import ValueAndTimestamp, encode_value_and_timestamp
from streamproof.stores.windowed.memory_sessions import InMemorySessionStore
from streamproof.stores.windowed.memory_windows import InMemoryWindowStore
from streamproof.stores.windowed.timestamped_sessions import (
    TimestampedRocksDBSessionStore,
    TimestampedSessionStore,
    TimestampedSessionView,
)
from streamproof.stores.windowed.timestamped_windows import (
    TimestampedRocksDBWindowStore,
    TimestampedWindowStore,
    TimestampedWindowView,
)
from streamproof.stores.windows import LONG_MAX, Windowed, WindowedIterator, WindowStore

NAME = "store"
RETENTION: dict[str, Any] = {"retention_ms": 180_000}
WINDOWS: dict[str, Any] = {**RETENTION, "window_size_ms": 10_000}

_LITTLE = struct.Struct("<q")


def _encode_little(value: bytes | None, timestamp: int) -> bytes | None:
    return None if value is None else _LITTLE.pack(timestamp) + value


def _decode_little(stored: bytes) -> ValueAndTimestamp:
    return ValueAndTimestamp(stored[8:], *_LITTLE.unpack_from(stored))


def _encode_behind(value: bytes | None, timestamp: int) -> bytes | None:
    return None if value is None else value + timestamp.to_bytes(8, "big", signed=True)


def _decode_behind(stored: bytes) -> ValueAndTimestamp:
    return ValueAndTimestamp(stored[:-8], int.from_bytes(stored[-8:], "big", signed=True))


def _encode_beside_sign(value: bytes | None, timestamp: int) -> bytes | None:
    sign = 2**63 if timestamp < 0 else 0
    return None if value is None else (sign + abs(timestamp)).to_bytes(8, "big") + value


def _decode_beside_sign(stored: bytes) -> ValueAndTimestamp:
    amount = int.from_bytes(stored[:8], "big")
    return ValueAndTimestamp(stored[8:], 2**63 - amount if amount >= 2**63 else amount)


LITTLE = ValueFormat(_encode_little, _decode_little, lambda stored: stored[8:])
BEHIND = ValueFormat(_encode_behind, _decode_behind, lambda stored: stored[:-8])


class _LittleEndian(RocksDBTimestampedStore):
    def _use(self, inner: KeyValueStore, form: ValueFormat) -> None:
        super()._use(inner, LITTLE if form is TIMESTAMPED else form)


def timestamp_in_little_endian() -> KeyValueStore:
    """Stores the timestamp in the order of the processor."""
    return _LittleEndian(NAME)


BESIDE_SIGN = ValueFormat(_encode_beside_sign, _decode_beside_sign, lambda stored: stored[8:])


class _BesideSign(RocksDBTimestampedStore):
    def _use(self, inner: KeyValueStore, form: ValueFormat) -> None:
        super()._use(inner, BESIDE_SIGN if form is TIMESTAMPED else form)


def timestamp_beside_its_sign() -> KeyValueStore:
    """Stores the amount of a negative timestamp, behind a bit for its sign."""
    return _BesideSign(NAME)


class _DeletesStoredBytes(RocksDBTimestampedStore):
    def delete(self, key: bytes) -> bytes | None:
        return self._target.delete(key)


def delete_returns_the_stored_bytes() -> KeyValueStore:
    """A plain delete returns the timestamp before the value."""
    return _DeletesStoredBytes(NAME)


class _ReversedStoredBytes(RocksDBTimestampedStore):
    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        return self._target.reverse_range(from_key, to_key)


def reverse_scans_yield_the_stored_bytes() -> KeyValueStore:
    """Plain scans in reverse yield the timestamp before each value."""
    return _ReversedStoredBytes(NAME)


class _Behind(TimestampedRocksDBWindowStore):
    def _use(self, inner: WindowStore, form: ValueFormat) -> None:
        super()._use(inner, BEHIND if form is TIMESTAMPED else form)


def timestamp_behind_the_value() -> WindowStore:
    """Stores the timestamp behind the value."""
    return _Behind(NAME, **WINDOWS)


class _StoredBytesLogged(ChangeLoggingTimestampedKeyValueStore):
    def _log(self, key: bytes, value: bytes | None, timestamp: int | None = None) -> None:
        known = NO_TIMESTAMP if timestamp is None else timestamp
        super()._log(key, encode_value_and_timestamp(value, known), timestamp)


def stored_bytes_logged() -> KeyValueStore:
    """Sends the stored bytes to the changelog."""
    return _StoredBytesLogged(RocksDBTimestampedStore(NAME))


class _RecordTimeLogged(ChangeLoggingTimestampedWindowStore):
    def _log(self, key: bytes, value: bytes | None, timestamp: int | None = None) -> None:
        super()._log(key, value)


def windows_logged_at_record_time() -> WindowStore:
    """Sends values to the changelog at the time of the input record."""
    return _RecordTimeLogged(TimestampedRocksDBWindowStore(NAME, **WINDOWS))


class _SessionRecordTimeLogged(ChangeLoggingTimestampedSessionStore):
    def _log(self, key: bytes, value: bytes | None, timestamp: int | None = None) -> None:
        super()._log(key, value)


def sessions_logged_at_record_time() -> SessionStore:
    """Sends aggregates to the changelog at the time of the input record."""
    return _SessionRecordTimeLogged(TimestampedRocksDBSessionStore(NAME, **RETENTION))


class _PairsAtRecordTime(ChangeLoggingTimestampedWindowStore):
    def put_value_and_timestamp(
        self, key: bytes, stamped: ValueAndTimestamp | None, window_start: int | None = None
    ) -> None:
        start = NO_TIMESTAMP if window_start is None else window_start
        self._inner.put_value_and_timestamp(key, stamped, start)
        self._log_window(key, None if stamped is None else stamped.value, start)


def pairs_logged_at_record_time() -> WindowStore:
    """Sends only pairs of a value and a timestamp to the changelog at the time of the record."""
    return _PairsAtRecordTime(TimestampedRocksDBWindowStore(NAME, **WINDOWS))


class _TimelessView(TimestampedView):
    def get_with_timestamp(self, key: bytes) -> ValueAndTimestamp | None:
        return ValueAndTimestamp.make(self.get(key), NO_TIMESTAMP)


class _TimelessViews(RocksDBTimestampedStore):
    def read_only(self, isolation_level: IsolationLevel) -> TimestampedView:
        return _TimelessView(self._inner.read_only(isolation_level), self._form)


def views_lose_timestamps() -> KeyValueStore:
    """Views answer with the timestamp -1."""
    return _TimelessViews(NAME, transactional=True)


class _TimedAfterTheEnd(RocksDBTimestampedStore):
    def new_transaction(self) -> StateStore:
        transaction: Any = super().new_transaction()
        right = transaction.get_with_timestamp

        def get_with_timestamp(key: bytes) -> ValueAndTimestamp | None:
            get = right if transaction.is_open else self.get_with_timestamp
            found: ValueAndTimestamp | None = get(key)
            return found

        transaction.get_with_timestamp = get_with_timestamp
        answer: StateStore = transaction
        return answer


def ended_transaction_reads_timestamps() -> KeyValueStore:
    """Answers with timestamps after the end of a transaction, as if it were the store."""
    return _TimedAfterTheEnd(NAME, transactional=True)


class _WindowView(TimestampedWindowView):
    def fetch_range_with_timestamp(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        rows = self.fetch_range(key_from, key_to, time_from, time_to)
        return DecodedIterator(rows, lambda value: ValueAndTimestamp(value, NO_TIMESTAMP))


class _WindowViews(TimestampedRocksDBWindowStore):
    def read_only(self, isolation_level: IsolationLevel) -> TimestampedWindowView:
        return _WindowView(self._inner.read_only(isolation_level), self._form)


def view_scans_lose_timestamps() -> WindowStore:
    """Scans of a view over windows yield the timestamp -1."""
    return _WindowViews(NAME, **WINDOWS)


class _SessionView(TimestampedSessionView):
    def find_sessions_range_with_timestamp(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_session_end: int,
        latest_session_start: int,
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        return self.fetch_range_with_timestamp(key_from, key_to)

    def fetch_range_with_timestamp(
        self, key_from: bytes | None, key_to: bytes | None
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        return DecodedIterator(self._stored.fetch_range(key_from, key_to), self._form.decode)


class _SessionViews(TimestampedRocksDBSessionStore):
    def read_only(self, isolation_level: IsolationLevel) -> TimestampedSessionView:
        return _SessionView(self._inner.read_only(isolation_level), self._form)


def view_searches_ignore_their_times() -> SessionStore:
    """Searches of a view over sessions with timestamps ignore the times."""
    return _SessionViews(NAME, **RETENTION)


class _PairAtRecordTime(RocksDBTimestampedStore):
    def put_value_and_timestamp(self, key: bytes, stamped: ValueAndTimestamp | None) -> None:
        self.put(key, None if stamped is None else stamped.value)


def pairs_put_at_record_time() -> KeyValueStore:
    """Drops the timestamp of a pair that is put."""
    return _PairAtRecordTime(NAME)


class _EndlessScans(TimestampedWindowStore):
    def fetch_all_with_timestamp(
        self, time_from: int, time_to: int
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        return self.all_with_timestamp()


def window_scans_ignore_their_times() -> WindowStore:
    """fetch_all_with_timestamp ignores the times."""
    return _EndlessScans(InMemoryWindowStore(NAME, **WINDOWS))


class _LateWindows(TimestampedWindowStore):
    def fetch_between_with_timestamp(
        self, key: bytes, time_from: int, time_to: int
    ) -> EntryIterator[int, ValueAndTimestamp]:
        return super().fetch_between_with_timestamp(key, time_from, LONG_MAX)


def window_fetches_ignore_the_last_time() -> WindowStore:
    """fetch_between_with_timestamp ignores the later of its times."""
    return _LateWindows(InMemoryWindowStore(NAME, **WINDOWS))


class _EarlyWindows(TimestampedRocksDBWindowStore):
    def fetch_range_with_timestamp(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        return super().fetch_range_with_timestamp(None, key_to, time_from, time_to)


def window_ranges_ignore_the_first_key() -> WindowStore:
    """fetch_range_with_timestamp ignores the first key."""
    return _EarlyWindows(NAME, **WINDOWS)


class _TimedPlainWindows(TimestampedWindowStore):
    def fetch_all(self, time_from: int, time_to: int) -> WindowedIterator:
        return self._stored.fetch_all(time_from, time_to)


def plain_window_scans_yield_the_stored_bytes() -> WindowStore:
    """A plain fetch_all yields the timestamp before each value."""
    return _TimedPlainWindows(InMemoryWindowStore(NAME, **WINDOWS))


class _FirstWindow(TimestampedWindowStore):
    def put_with_timestamp(
        self, key: bytes, value: bytes | None, timestamp: int, window_start: int | None = None
    ) -> None:
        super().put_with_timestamp(key, value, timestamp, window_start or 0)


def puts_into_the_first_window() -> WindowStore:
    """A put without a window goes into the window that starts at 0."""
    return _FirstWindow(InMemoryWindowStore(NAME, **WINDOWS))


class _WindowOfTheTimestamp(TimestampedWindowStore):
    def put_with_timestamp(
        self, key: bytes, value: bytes | None, timestamp: int, window_start: int | None = None
    ) -> None:
        start = timestamp if window_start is None else window_start
        super().put_with_timestamp(key, value, timestamp, start)


def puts_into_the_window_of_the_timestamp() -> WindowStore:
    """A put without a window goes into the window that starts at the timestamp of the value."""
    return _WindowOfTheTimestamp(InMemoryWindowStore(NAME, **WINDOWS))


class _LateStarts(TimestampedSessionStore):
    def find_sessions_with_timestamp(
        self, key: bytes, earliest_session_end: int, latest_session_start: int
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        return super().find_sessions_with_timestamp(key, earliest_session_end, 2**63 - 1)


class _LateKeys(TimestampedSessionStore):
    def find_sessions_range_with_timestamp(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_session_end: int,
        latest_session_start: int,
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        return super().find_sessions_range_with_timestamp(
            key_from, None, earliest_session_end, latest_session_start
        )


def session_searches_ignore_the_last_key() -> SessionStore:
    """find_sessions_range_with_timestamp ignores the last key."""
    return _LateKeys(InMemorySessionStore(NAME, **RETENTION))


class _EmptiesRemoved(TimestampedSessionStore):
    def remove(self, session: Windowed) -> None:
        self.put(session, b"")


def removed_sessions_are_empty() -> SessionStore:
    """Remove leaves the session with an empty aggregate."""
    return _EmptiesRemoved(InMemorySessionStore(NAME, **RETENTION))


def session_searches_ignore_starts() -> SessionStore:
    """find_sessions_with_timestamp ignores the latest start."""
    return _LateStarts(InMemorySessionStore(NAME, **RETENTION))
