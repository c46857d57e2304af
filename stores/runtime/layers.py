"""Layers: stores around other stores of the same kind, which pass every call on.

A layer overrides the methods that it adds something to. The contracts describe the methods.
Source: Kafka, WrappedStateStore.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from streamproof.stores.api import (
    EntryIterator,
    IsolationLevel,
    KeyValueStore,
    StateStore,
)
from streamproof.stores.capabilities import Capabilities, Kind
from streamproof.stores.sessions import (
    ReadOnlySessionStore,
    SessionStore,
    SessionWithTimestampStore,
)
from streamproof.stores.timestamps import KeyValueWithTimestampStore, ValueAndTimestamp
from streamproof.stores.windows import (
    ReadOnlyWindowStore,
    Windowed,
    WindowedIterator,
    WindowIterator,
    WindowStore,
    WindowWithTimestampStore,
)
from streamproof.stores.wrapped import WrappedKeyValueStore, WrappedStateStore

__all__ = [
    "SessionLayer",
    "TimestampedKeyValueLayer",
    "TimestampedSessionLayer",
    "TimestampedWindowLayer",
    "WindowLayer",
    "call_all",
    "capabilities_of",
    "find_layer",
    "has_contract",
]

W = TypeVar("W", bound=WindowStore)
SE = TypeVar("SE", bound=SessionStore)
L = TypeVar("L")


def find_layer(store: object, kind: type[L]) -> L | None:
    """The outermost layer of this kind, from ``store`` inwards; ``None`` if no layer is of it.

    For example, ``find_layer(store, CachingKeyValueStore)`` finds the layer of a cached store that
    takes a flush listener.
    """
    while store is not None and not isinstance(store, kind):
        store = getattr(store, "inner", None)
    return store


def capabilities_of(store: StateStore) -> Capabilities:
    """What a store declares about itself; the defaults if it declares nothing."""
    return cast(Capabilities, getattr(store, "capabilities", Capabilities()))


def has_contract(store: object, contract: type[Any]) -> bool:
    """Whether a store has the methods of a contract.

    A store that inherits from a contract has it. Any other store declares its contract by its
    kind, because it is enough that a store has the methods.
    """
    if isinstance(store, StateStore):
        return isinstance(store, contract)
    claims: Capabilities = getattr(store, "capabilities", Capabilities())
    return _CONTRACTS[claims.kind, claims.timestamped] is contract


_CONTRACTS: dict[tuple[Kind, bool], type[Any]] = {
    ("key-value", False): KeyValueStore,
    ("key-value", True): KeyValueWithTimestampStore,
    ("window", False): WindowStore,
    ("window", True): WindowWithTimestampStore,
    ("session", False): SessionStore,
    ("session", True): SessionWithTimestampStore,
}
"""The contract of each kind of store, without and with timestamps."""


def call_all(steps: Iterable[Callable[[], object]]) -> None:
    """Call every step, even if an earlier one raises; then raise the first error, if any.

    The messages of later errors are added to the first error as notes, so that none is lost.
    """
    first: Exception | None = None
    for step in steps:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - the first one is raised below
            if first is None:
                first = error
            else:
                first.add_note(f"After that: {type(error).__name__}: {error}")
    if first is not None:
        raise first


class TimestampedKeyValueLayer(WrappedKeyValueStore, KeyValueWithTimestampStore):
    """A layer around a key-value store with timestamps."""

    _inner: KeyValueWithTimestampStore

    def __init__(self, inner: KeyValueWithTimestampStore) -> None:
        super().__init__(inner)

    def get_with_timestamp(self, key: bytes) -> ValueAndTimestamp | None:
        return self._inner.get_with_timestamp(key)

    def put_with_timestamp(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        self._inner.put_with_timestamp(key, value, timestamp)

    def put_if_absent_with_timestamp(
        self, key: bytes, value: bytes | None, timestamp: int
    ) -> ValueAndTimestamp | None:
        return self._inner.put_if_absent_with_timestamp(key, value, timestamp)

    def put_all_with_timestamp(
        self, entries: Iterable[tuple[bytes, ValueAndTimestamp | None]]
    ) -> None:
        self._inner.put_all_with_timestamp(entries)

    def delete_with_timestamp(self, key: bytes) -> ValueAndTimestamp | None:
        return self._inner.delete_with_timestamp(key)

    def range_with_timestamp(
        self, from_key: bytes | None, to_key: bytes | None
    ) -> EntryIterator[bytes, ValueAndTimestamp]:
        return self._inner.range_with_timestamp(from_key, to_key)


class WindowLayer(WrappedStateStore[W], WindowStore):
    """A layer around a window store."""

    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        self._inner.put(key, value, window_start)

    def fetch(self, key: bytes, window_start: int) -> bytes | None:
        return self._inner.fetch(key, window_start)

    def fetch_between(self, key: bytes, time_from: int, time_to: int) -> WindowIterator:
        return self._inner.fetch_between(key, time_from, time_to)

    def backward_fetch_between(self, key: bytes, time_from: int, time_to: int) -> WindowIterator:
        return self._inner.backward_fetch_between(key, time_from, time_to)

    def fetch_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> WindowedIterator:
        return self._inner.fetch_range(key_from, key_to, time_from, time_to)

    def backward_fetch_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> WindowedIterator:
        return self._inner.backward_fetch_range(key_from, key_to, time_from, time_to)

    @property
    def dropped_records(self) -> int:
        return self._inner.dropped_records

    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlyWindowStore:
        return self._inner.read_only(isolation_level)


class TimestampedWindowLayer(WindowLayer[WindowWithTimestampStore], WindowWithTimestampStore):
    """A layer around a window store with timestamps."""

    def put_with_timestamp(
        self, key: bytes, value: bytes | None, timestamp: int, window_start: int | None = None
    ) -> None:
        self._inner.put_with_timestamp(key, value, timestamp, window_start)

    def fetch_with_timestamp(self, key: bytes, window_start: int) -> ValueAndTimestamp | None:
        return self._inner.fetch_with_timestamp(key, window_start)

    def fetch_between_with_timestamp(
        self, key: bytes, time_from: int, time_to: int
    ) -> EntryIterator[int, ValueAndTimestamp]:
        return self._inner.fetch_between_with_timestamp(key, time_from, time_to)

    def fetch_range_with_timestamp(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        return self._inner.fetch_range_with_timestamp(key_from, key_to, time_from, time_to)


class SessionLayer(WrappedStateStore[SE], SessionStore):
    """A layer around a session store."""

    def put(self, session: Windowed, aggregate: bytes | None) -> None:
        self._inner.put(session, aggregate)

    def remove(self, session: Windowed) -> None:
        self._inner.remove(session)

    def fetch_session(self, key: bytes, start: int, end: int) -> bytes | None:
        return self._inner.fetch_session(key, start, end)

    def fetch(self, key: bytes) -> WindowedIterator:
        return self._inner.fetch(key)

    def backward_fetch(self, key: bytes) -> WindowedIterator:
        return self._inner.backward_fetch(key)

    def fetch_range(self, key_from: bytes | None, key_to: bytes | None) -> WindowedIterator:
        return self._inner.fetch_range(key_from, key_to)

    def backward_fetch_range(
        self, key_from: bytes | None, key_to: bytes | None
    ) -> WindowedIterator:
        return self._inner.backward_fetch_range(key_from, key_to)

    def find_sessions(
        self, key: bytes, earliest_session_end: int, latest_session_start: int
    ) -> WindowedIterator:
        return self._inner.find_sessions(key, earliest_session_end, latest_session_start)

    def backward_find_sessions(
        self, key: bytes, earliest_session_end: int, latest_session_start: int
    ) -> WindowedIterator:
        return self._inner.backward_find_sessions(key, earliest_session_end, latest_session_start)

    def find_sessions_range(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_session_end: int,
        latest_session_start: int,
    ) -> WindowedIterator:
        times = earliest_session_end, latest_session_start
        return self._inner.find_sessions_range(key_from, key_to, *times)

    def backward_find_sessions_range(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_session_end: int,
        latest_session_start: int,
    ) -> WindowedIterator:
        times = earliest_session_end, latest_session_start
        return self._inner.backward_find_sessions_range(key_from, key_to, *times)

    def find_sessions_between(
        self, earliest_session_end: int, latest_session_end: int
    ) -> WindowedIterator:
        return self._inner.find_sessions_between(earliest_session_end, latest_session_end)

    @property
    def dropped_records(self) -> int:
        return self._inner.dropped_records

    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlySessionStore:
        return self._inner.read_only(isolation_level)


class TimestampedSessionLayer(SessionLayer[SessionWithTimestampStore], SessionWithTimestampStore):
    """A layer around a session store with timestamps."""

    def put_with_timestamp(
        self, session: Windowed, aggregate: bytes | None, timestamp: int
    ) -> None:
        self._inner.put_with_timestamp(session, aggregate, timestamp)

    def fetch_session_with_timestamp(
        self, key: bytes, start: int, end: int
    ) -> ValueAndTimestamp | None:
        return self._inner.fetch_session_with_timestamp(key, start, end)

    def fetch_with_timestamp(self, key: bytes) -> EntryIterator[Windowed, ValueAndTimestamp]:
        return self._inner.fetch_with_timestamp(key)

    def fetch_range_with_timestamp(
        self, key_from: bytes | None, key_to: bytes | None
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        return self._inner.fetch_range_with_timestamp(key_from, key_to)

    def find_sessions_with_timestamp(
        self, key: bytes, earliest_session_end: int, latest_session_start: int
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        times = earliest_session_end, latest_session_start
        return self._inner.find_sessions_with_timestamp(key, *times)

    def find_sessions_range_with_timestamp(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_session_end: int,
        latest_session_start: int,
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        times = earliest_session_end, latest_session_start
        return self._inner.find_sessions_range_with_timestamp(key_from, key_to, *times)
