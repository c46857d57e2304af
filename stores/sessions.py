"""The contract of a session store: aggregates by key and session (Kafka: SessionStore).

A session is a span of time without a fixed length, from its first record to its last. Times are in
milliseconds. The *stream time* of a store is the largest session end that was ever put. A session
is *expired* once its end is further behind the stream time than the retention. An aggregate that
is put into an expired session is dropped and counted.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

from streamproof.stores.api import EntryIterator, IsolationLevel, StateStore
from streamproof.stores.timestamps import ValueAndTimestamp, split
from streamproof.stores.windows import Windowed, WindowedIterator

__all__ = [
    "ReadOnlySessionStore",
    "ReadOnlySessionWithTimestampStore",
    "SessionStore",
    "SessionWithTimestampStore",
]


class ReadOnlySessionStore(Protocol):
    """The methods that an interactive query may call (Kafka: ReadOnlySessionStore).

    Bounds are inclusive. A key bound of ``None`` leaves that side open. A range whose first bound
    is beyond its second is empty. The sessions of one key come in the order of their ends.
    """

    def fetch_session(self, key: bytes, start: int, end: int) -> bytes | None:
        """The aggregate of the session with exactly this start and end, or ``None``."""
        ...

    def fetch(self, key: bytes) -> WindowedIterator:
        """All sessions of ``key``, ordered by their ends, oldest first."""
        ...

    def backward_fetch(self, key: bytes) -> WindowedIterator:
        """The same sessions as ``fetch``, in the opposite order."""
        ...

    def fetch_range(self, key_from: bytes | None, key_to: bytes | None) -> WindowedIterator:
        """All sessions of the keys within the bounds."""
        ...

    def backward_fetch_range(
        self, key_from: bytes | None, key_to: bytes | None
    ) -> WindowedIterator:
        """The same sessions as ``fetch_range``, in the opposite order."""
        ...

    def find_sessions(
        self, key: bytes, earliest_session_end: int, latest_session_start: int
    ) -> WindowedIterator:
        """The sessions of ``key`` that end no earlier, and start no later, than the two times.

        A record at time ``t`` belongs to the sessions that the gap ``g`` joins to it:
        ``find_sessions(key, t - g, t + g)``.
        """
        ...

    def backward_find_sessions(
        self, key: bytes, earliest_session_end: int, latest_session_start: int
    ) -> WindowedIterator:
        """The same sessions as ``find_sessions``, in the opposite order."""
        ...

    def find_sessions_range(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_session_end: int,
        latest_session_start: int,
    ) -> WindowedIterator:
        """The same as ``find_sessions``, for all keys within the bounds."""
        ...

    def backward_find_sessions_range(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_session_end: int,
        latest_session_start: int,
    ) -> WindowedIterator:
        """The same sessions as ``find_sessions_range``, in the opposite order."""
        ...

    def find_sessions_between(
        self, earliest_session_end: int, latest_session_end: int
    ) -> WindowedIterator:
        """The sessions of all keys that end within the times, both inclusive."""
        ...


class SessionStore(StateStore):
    """A store of aggregates by key and session (Kafka: SessionStore<Bytes, byte[]>).

    A key of ``None`` raises NullArgumentError. A session that ends before it starts, or starts
    below 0, raises InvalidArgumentError. Every call on a closed store raises
    InvalidStateStoreError. The bounds of a query may be negative.

    The key of a changelog record is ``key ++ end ++ start``, 8 bytes for each time, big-endian.
    """

    @abstractmethod
    def put(self, session: Windowed, aggregate: bytes | None) -> None:
        """Set the aggregate of a session. An aggregate of ``None`` removes the session.

        A put into an expired session is dropped and counted in ``dropped_records``.
        """

    def remove(self, session: Windowed) -> None:
        """Remove a session. Removing a session that the store does not have is no error."""
        self.put(session, None)

    @abstractmethod
    def fetch_session(self, key: bytes, start: int, end: int) -> bytes | None:
        """The aggregate of the session with exactly this start and end, or ``None``."""

    @abstractmethod
    def fetch(self, key: bytes) -> WindowedIterator:
        """All sessions of ``key``, ordered by their ends, oldest first."""

    @abstractmethod
    def backward_fetch(self, key: bytes) -> WindowedIterator:
        """The same sessions as ``fetch``, in the opposite order."""

    @abstractmethod
    def fetch_range(self, key_from: bytes | None, key_to: bytes | None) -> WindowedIterator:
        """All sessions of the keys within the bounds."""

    @abstractmethod
    def backward_fetch_range(
        self, key_from: bytes | None, key_to: bytes | None
    ) -> WindowedIterator:
        """The same sessions as ``fetch_range``, in the opposite order."""

    @abstractmethod
    def find_sessions(
        self, key: bytes, earliest_session_end: int, latest_session_start: int
    ) -> WindowedIterator:
        """The sessions of ``key`` that end no earlier, and start no later, than the two times.

        A record at time ``t`` belongs to the sessions that the gap ``g`` joins to it:
        ``find_sessions(key, t - g, t + g)``.
        """

    @abstractmethod
    def backward_find_sessions(
        self, key: bytes, earliest_session_end: int, latest_session_start: int
    ) -> WindowedIterator:
        """The same sessions as ``find_sessions``, in the opposite order."""

    @abstractmethod
    def find_sessions_range(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_session_end: int,
        latest_session_start: int,
    ) -> WindowedIterator:
        """The same as ``find_sessions``, for all keys within the bounds."""

    @abstractmethod
    def backward_find_sessions_range(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_session_end: int,
        latest_session_start: int,
    ) -> WindowedIterator:
        """The same sessions as ``find_sessions_range``, in the opposite order."""

    @abstractmethod
    def find_sessions_between(
        self, earliest_session_end: int, latest_session_end: int
    ) -> WindowedIterator:
        """The sessions of all keys that end within the times, both inclusive."""

    @property
    @abstractmethod
    def dropped_records(self) -> int:
        """How many records were dropped because they came too late, restored records included.

        Source: Kafka, the metric ``dropped-records-total``.
        """

    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlySessionStore:
        """A view for queries from other threads; the store itself, if it has no transactions."""
        return self


class ReadOnlySessionWithTimestampStore(ReadOnlySessionStore, Protocol):
    """The methods of a query for aggregates and timestamps (KIP-258).

    ``read_only`` of a store with timestamps returns such a view. It has the searches too, as the
    view of a plain session store has.
    """

    def fetch_session_with_timestamp(
        self, key: bytes, start: int, end: int
    ) -> ValueAndTimestamp | None:
        """The aggregate of the session with exactly this start and end, or ``None``."""
        ...

    def fetch_with_timestamp(self, key: bytes) -> EntryIterator[Windowed, ValueAndTimestamp]:
        """All sessions of ``key``, ordered by their ends, oldest first."""
        ...

    def fetch_range_with_timestamp(
        self, key_from: bytes | None, key_to: bytes | None
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        """All sessions of the keys within the bounds."""
        ...

    def find_sessions_with_timestamp(
        self, key: bytes, earliest_session_end: int, latest_session_start: int
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        """The sessions of ``key`` that end no earlier, and start no later, than the two times."""
        ...

    def find_sessions_range_with_timestamp(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_session_end: int,
        latest_session_start: int,
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        """``find_sessions_with_timestamp`` for the keys within bounds."""
        ...


class SessionWithTimestampStore(SessionStore):
    """A session store that keeps the timestamp of each record (KIP-258; never shipped)."""

    @abstractmethod
    def put_with_timestamp(
        self, session: Windowed, aggregate: bytes | None, timestamp: int
    ) -> None:
        """Set the aggregate and the timestamp of a session; ``None`` removes it."""

    def put_value_and_timestamp(self, session: Windowed, stamped: ValueAndTimestamp | None) -> None:
        """``put_with_timestamp`` for a pair; ``None`` removes the session.

        Source: KIP-258, putWithTimestamp(Windowed, ValueAndTimestamp).
        """
        self.put_with_timestamp(session, *split(stamped))

    @abstractmethod
    def fetch_session_with_timestamp(
        self, key: bytes, start: int, end: int
    ) -> ValueAndTimestamp | None:
        """The aggregate of the session with exactly this start and end, or ``None``."""

    @abstractmethod
    def fetch_with_timestamp(self, key: bytes) -> EntryIterator[Windowed, ValueAndTimestamp]:
        """All sessions of ``key``, ordered by their ends, oldest first."""

    @abstractmethod
    def fetch_range_with_timestamp(
        self, key_from: bytes | None, key_to: bytes | None
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        """All sessions of the keys within the bounds."""

    @abstractmethod
    def find_sessions_with_timestamp(
        self, key: bytes, earliest_session_end: int, latest_session_start: int
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        """The sessions of ``key`` that end no earlier, and start no later, than the two times.

        A record at time ``t`` belongs to the sessions that the gap ``g`` joins to it:
        ``find_sessions(key, t - g, t + g)``.
        """

    @abstractmethod
    def find_sessions_range_with_timestamp(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_session_end: int,
        latest_session_start: int,
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        """``find_sessions_with_timestamp`` for the keys within bounds."""
