"""What a store in a host is asked, by kind: its reads, and its views for queries."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from msgspec.json import Decoder

from streamproof.stores.api import EntryIterator, KeyValueIterator
from streamproof.stores.host.process import HostProcess
from streamproof.stores.host.protocol import Page
from streamproof.stores.host.remote_calls import Calls, Rows
from streamproof.stores.timestamps import ValueAndTimestamp
from streamproof.stores.windows import Windowed, WindowedIterator, WindowIterator

__all__ = ["NUMBER", "TIMED", "VALUE", "KeyValueReads", "SessionReads", "View", "WindowReads"]

VALUE: Decoder[bytes | None] = Decoder(bytes | None)
TIMED: Decoder[ValueAndTimestamp | None] = Decoder(ValueAndTimestamp | None)
NUMBER = Decoder(int)

_ROWS: Rows[bytes, bytes] = Rows(bytes, Page[bytes, bytes])
_TIMED_ROWS: Rows[bytes, ValueAndTimestamp] = Rows(bytes, Page[bytes, ValueAndTimestamp])
_STARTS: Rows[int, bytes] = Rows(int, Page[int, bytes])
_TIMED_STARTS: Rows[int, ValueAndTimestamp] = Rows(int, Page[int, ValueAndTimestamp])
_WINDOWED: Rows[Windowed, bytes] = Rows(Windowed, Page[Windowed, bytes])
_TIMED_WINDOWED: Rows[Windowed, ValueAndTimestamp] = Rows(
    Windowed, Page[Windowed, ValueAndTimestamp]
)


class KeyValueReads(Calls):
    """The reads of a key-value store."""

    _kind = "key-value"

    def get(self, key: bytes) -> bytes | None:
        return self._ask(VALUE, "get", key)

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        return self._scan(_ROWS, "range", from_key, to_key)

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        return self._scan(_ROWS, "reverse_range", from_key, to_key)

    def all(self) -> KeyValueIterator:
        return self._scan(_ROWS, "all")

    def reverse_all(self) -> KeyValueIterator:
        return self._scan(_ROWS, "reverse_all")

    def prefix_scan(self, prefix: bytes) -> KeyValueIterator:
        return self._scan(_ROWS, "prefix_scan", prefix)

    def approximate_num_entries(self) -> int:
        return self._ask(NUMBER, "approximate_num_entries")

    def get_with_timestamp(self, key: bytes) -> ValueAndTimestamp | None:
        return self._ask(TIMED, "get_with_timestamp", key)

    def range_with_timestamp(
        self, from_key: bytes | None, to_key: bytes | None
    ) -> EntryIterator[bytes, ValueAndTimestamp]:
        return self._scan(_TIMED_ROWS, "range_with_timestamp", from_key, to_key)

    def all_with_timestamp(self) -> EntryIterator[bytes, ValueAndTimestamp]:
        return self._scan(_TIMED_ROWS, "all_with_timestamp")


class WindowReads(Calls):
    """The reads of a window store."""

    _kind = "window"

    def fetch(self, key: bytes, window_start: int) -> bytes | None:
        return self._ask(VALUE, "fetch", key, window_start)

    def fetch_between(self, key: bytes, time_from: int, time_to: int) -> WindowIterator:
        return self._scan(_STARTS, "fetch_between", key, time_from, time_to)

    def backward_fetch_between(self, key: bytes, time_from: int, time_to: int) -> WindowIterator:
        return self._scan(_STARTS, "backward_fetch_between", key, time_from, time_to)

    def fetch_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> WindowedIterator:
        return self._scan(_WINDOWED, "fetch_range", key_from, key_to, time_from, time_to)

    def backward_fetch_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> WindowedIterator:
        return self._scan(_WINDOWED, "backward_fetch_range", key_from, key_to, time_from, time_to)

    def fetch_all(self, time_from: int, time_to: int) -> WindowedIterator:
        return self._scan(_WINDOWED, "fetch_all", time_from, time_to)

    def backward_fetch_all(self, time_from: int, time_to: int) -> WindowedIterator:
        return self._scan(_WINDOWED, "backward_fetch_all", time_from, time_to)

    def all(self) -> WindowedIterator:
        return self._scan(_WINDOWED, "all")

    def backward_all(self) -> WindowedIterator:
        return self._scan(_WINDOWED, "backward_all")

    def fetch_with_timestamp(self, key: bytes, window_start: int) -> ValueAndTimestamp | None:
        return self._ask(TIMED, "fetch_with_timestamp", key, window_start)

    def fetch_between_with_timestamp(
        self, key: bytes, time_from: int, time_to: int
    ) -> EntryIterator[int, ValueAndTimestamp]:
        return self._scan(_TIMED_STARTS, "fetch_between_with_timestamp", key, time_from, time_to)

    def fetch_range_with_timestamp(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        bounds = (key_from, key_to, time_from, time_to)
        return self._scan(_TIMED_WINDOWED, "fetch_range_with_timestamp", *bounds)

    def fetch_all_with_timestamp(
        self, time_from: int, time_to: int
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        return self._scan(_TIMED_WINDOWED, "fetch_all_with_timestamp", time_from, time_to)

    def all_with_timestamp(self) -> EntryIterator[Windowed, ValueAndTimestamp]:
        return self._scan(_TIMED_WINDOWED, "all_with_timestamp")


class SessionReads(Calls):
    """The reads of a session store."""

    _kind = "session"

    def fetch_session(self, key: bytes, start: int, end: int) -> bytes | None:
        return self._ask(VALUE, "fetch_session", key, start, end)

    def fetch(self, key: bytes) -> WindowedIterator:
        return self._scan(_WINDOWED, "fetch", key)

    def backward_fetch(self, key: bytes) -> WindowedIterator:
        return self._scan(_WINDOWED, "backward_fetch", key)

    def fetch_range(self, key_from: bytes | None, key_to: bytes | None) -> WindowedIterator:
        return self._scan(_WINDOWED, "fetch_range", key_from, key_to)

    def backward_fetch_range(
        self, key_from: bytes | None, key_to: bytes | None
    ) -> WindowedIterator:
        return self._scan(_WINDOWED, "backward_fetch_range", key_from, key_to)

    def find_sessions(
        self, key: bytes, earliest_session_end: int, latest_session_start: int
    ) -> WindowedIterator:
        times = (earliest_session_end, latest_session_start)
        return self._scan(_WINDOWED, "find_sessions", key, *times)

    def backward_find_sessions(
        self, key: bytes, earliest_session_end: int, latest_session_start: int
    ) -> WindowedIterator:
        times = (earliest_session_end, latest_session_start)
        return self._scan(_WINDOWED, "backward_find_sessions", key, *times)

    def find_sessions_range(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_session_end: int,
        latest_session_start: int,
    ) -> WindowedIterator:
        times = (earliest_session_end, latest_session_start)
        return self._scan(_WINDOWED, "find_sessions_range", key_from, key_to, *times)

    def backward_find_sessions_range(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_session_end: int,
        latest_session_start: int,
    ) -> WindowedIterator:
        times = (earliest_session_end, latest_session_start)
        return self._scan(_WINDOWED, "backward_find_sessions_range", key_from, key_to, *times)

    def find_sessions_between(
        self, earliest_session_end: int, latest_session_end: int
    ) -> WindowedIterator:
        times = (earliest_session_end, latest_session_end)
        return self._scan(_WINDOWED, "find_sessions_between", *times)

    def fetch_session_with_timestamp(
        self, key: bytes, start: int, end: int
    ) -> ValueAndTimestamp | None:
        return self._ask(TIMED, "fetch_session_with_timestamp", key, start, end)

    def fetch_with_timestamp(self, key: bytes) -> EntryIterator[Windowed, ValueAndTimestamp]:
        return self._scan(_TIMED_WINDOWED, "fetch_with_timestamp", key)

    def fetch_range_with_timestamp(
        self, key_from: bytes | None, key_to: bytes | None
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        return self._scan(_TIMED_WINDOWED, "fetch_range_with_timestamp", key_from, key_to)

    def find_sessions_with_timestamp(
        self, key: bytes, earliest_session_end: int, latest_session_start: int
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        times = (earliest_session_end, latest_session_start)
        return self._scan(_TIMED_WINDOWED, "find_sessions_with_timestamp", key, *times)

    def find_sessions_range_with_timestamp(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_session_end: int,
        latest_session_start: int,
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        bounds = (key_from, key_to, earliest_session_end, latest_session_start)
        return self._scan(_TIMED_WINDOWED, "find_sessions_range_with_timestamp", *bounds)


class View(Calls):
    """A view of a remote store, for queries. A class of reads comes with it."""

    def __init__(self, store: Calls, on: int) -> None:
        self._store = store
        self._name = store._name  # noqa: SLF001 - a part of the store
        self._iterators = store._iterators  # noqa: SLF001 - its iterators close with the store
        self._on = on

    def _host_of(self) -> HostProcess:
        return self._store._host_of()  # noqa: SLF001 - it has none of its own

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        return
