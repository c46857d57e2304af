"""The contract of a window store: values by key and window start (Kafka: WindowStore).

Times are in milliseconds. The *stream time* of a store is the largest window start that was ever
put. A window is *expired* once its start is not later than the stream time minus the retention. A
record that is put into an expired window is dropped and counted; a store that uses segments may
keep such a record as long as the segment has one window that is not expired.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple, Protocol

from streamproof.stores.api import EntryIterator, IsolationLevel, StateStore
from streamproof.stores.timestamps import ValueAndTimestamp, split

__all__ = [
    "LONG_MAX",
    "ReadOnlyWindowStore",
    "ReadOnlyWindowWithTimestampStore",
    "Window",
    "WindowIterator",
    "WindowStore",
    "WindowWithTimestampStore",
    "Windowed",
    "WindowedIterator",
]

LONG_MAX = 2**63 - 1
"""The end of time. A window that would end later ends here."""


class Window(NamedTuple):
    """A span of time in milliseconds.

    The end of a time window is exclusive: it is the start plus the size. The end of a session is
    inclusive: it is the time of the last record in the session.
    """

    start: int
    end: int


class Windowed(NamedTuple):
    """A key and its window (Kafka: Windowed)."""

    key: bytes
    window: Window


WindowIterator = EntryIterator[int, bytes]
"""The values of one key, by window start."""

WindowedIterator = EntryIterator[Windowed, bytes]
"""The values of several keys, by key and window."""


class ReadOnlyWindowStore(Protocol):
    """The methods that an interactive query may call (Kafka: ReadOnlyWindowStore).

    Bounds of keys and of times are inclusive, and the times are window starts. A key bound of
    ``None`` leaves that side open. A range whose first bound is beyond its second is empty. The
    entries of one key come in the order of their windows; the store says in which order it yields
    several keys (``Capabilities.scan_order``).
    """

    def fetch(self, key: bytes, window_start: int) -> bytes | None:
        """The value of ``key`` in the window that starts at ``window_start``, or ``None``."""
        ...

    def fetch_between(self, key: bytes, time_from: int, time_to: int) -> WindowIterator:
        """The values of ``key`` in the windows that start within the times, oldest first."""
        ...

    def backward_fetch_between(self, key: bytes, time_from: int, time_to: int) -> WindowIterator:
        """The same entries as ``fetch_between``, in the opposite order."""
        ...

    def fetch_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> WindowedIterator:
        """The values of the keys within the bounds, in windows that start within the times."""
        ...

    def backward_fetch_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> WindowedIterator:
        """The same entries as ``fetch_range``, in the opposite order."""
        ...

    def fetch_all(self, time_from: int, time_to: int) -> WindowedIterator:
        """The values of all keys, in windows that start within the times."""
        ...

    def backward_fetch_all(self, time_from: int, time_to: int) -> WindowedIterator:
        """The same entries as ``fetch_all``, in the opposite order."""
        ...

    def all(self) -> WindowedIterator:
        """Every entry that is not expired."""
        ...

    def backward_all(self) -> WindowedIterator:
        """The same entries as ``all``, in the opposite order."""
        ...


class WindowStore(StateStore):
    """A store of bytes by key and window start (Kafka: WindowStore<Bytes, byte[]>).

    A key of ``None`` raises NullArgumentError. A window start below 0 raises InvalidArgumentError.
    Every call on a closed store raises InvalidStateStoreError.

    The key of a changelog record is ``key ++ window start ++ sequence number``, with 8 bytes for
    the start and 4 for the number, big-endian. The sequence number tells the records of one key and
    window apart where the store retains duplicates; elsewhere it is 0.
    """

    @abstractmethod
    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        """Set the value of ``key`` in a window. A value of ``None`` deletes the entry.

        A put into an expired window is dropped and counted in ``dropped_records``. A store that
        retains duplicates keeps every put, and ignores a value of ``None``.
        """

    @abstractmethod
    def fetch(self, key: bytes, window_start: int) -> bytes | None:
        """The value of ``key`` in the window that starts at ``window_start``, or ``None``.

        The answer is undefined for a store that retains duplicates.
        """

    @abstractmethod
    def fetch_between(self, key: bytes, time_from: int, time_to: int) -> WindowIterator:
        """The values of ``key`` in the windows that start within the times, oldest first."""

    @abstractmethod
    def backward_fetch_between(self, key: bytes, time_from: int, time_to: int) -> WindowIterator:
        """The same entries as ``fetch_between``, in the opposite order."""

    @abstractmethod
    def fetch_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> WindowedIterator:
        """The values of the keys within the bounds, in windows that start within the times."""

    @abstractmethod
    def backward_fetch_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> WindowedIterator:
        """The same entries as ``fetch_range``, in the opposite order."""

    def fetch_all(self, time_from: int, time_to: int) -> WindowedIterator:
        """The values of all keys, in windows that start within the times."""
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

    @property
    @abstractmethod
    def dropped_records(self) -> int:
        """How many records came too late since ``init``, restored records included.

        Source: Kafka, the metric ``dropped-records-total``.
        """

    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlyWindowStore:
        """A view for queries from other threads; the store itself, if it has no transactions."""
        return self


class ReadOnlyWindowWithTimestampStore(ReadOnlyWindowStore, Protocol):
    """The methods of a query for values and timestamps (KIP-258).

    ``read_only`` of a store with timestamps returns such a view.
    """

    def fetch_with_timestamp(self, key: bytes, window_start: int) -> ValueAndTimestamp | None:
        """The value of ``key`` in the window that starts at ``window_start``, or ``None``."""
        ...

    def fetch_between_with_timestamp(
        self, key: bytes, time_from: int, time_to: int
    ) -> EntryIterator[int, ValueAndTimestamp]:
        """The values of ``key`` in the windows that start within the times, oldest first."""
        ...

    def fetch_range_with_timestamp(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        """The values of the keys within the bounds, in windows that start within the times."""
        ...

    def fetch_all_with_timestamp(
        self, time_from: int, time_to: int
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        """The values of all keys, in windows that start within the times."""
        ...

    def all_with_timestamp(self) -> EntryIterator[Windowed, ValueAndTimestamp]:
        """Every entry that is not expired."""
        ...


class WindowWithTimestampStore(WindowStore):
    """A window store that keeps the timestamp of each record (KIP-258).

    ``put`` writes the timestamp of the current record, as KeyValueWithTimestampStore does. The
    reading methods of WindowStore return the value without its timestamp.
    """

    @abstractmethod
    def put_with_timestamp(
        self, key: bytes, value: bytes | None, timestamp: int, window_start: int | None = None
    ) -> None:
        """Set the value and the timestamp of ``key`` in a window. ``None`` deletes the entry.

        Without ``window_start``, the window starts at the timestamp of the record that is being
        processed (Kafka: WindowStore#put(K, V)).

        Raises:
            InvalidArgumentError: ``window_start`` is negative, or it is missing and no record with
                a timestamp is being processed.
        """

    def put_value_and_timestamp(
        self, key: bytes, stamped: ValueAndTimestamp | None, window_start: int | None = None
    ) -> None:
        """``put_with_timestamp`` for a pair; ``None`` deletes the entry.

        Source: KIP-258, putWithTimestamp(K, ValueAndTimestamp, long).
        """
        self.put_with_timestamp(key, *split(stamped), window_start)

    @abstractmethod
    def fetch_with_timestamp(self, key: bytes, window_start: int) -> ValueAndTimestamp | None:
        """The value of ``key`` in the window that starts at ``window_start``, or ``None``."""

    @abstractmethod
    def fetch_between_with_timestamp(
        self, key: bytes, time_from: int, time_to: int
    ) -> EntryIterator[int, ValueAndTimestamp]:
        """The values of ``key`` in the windows that start within the times, oldest first."""

    @abstractmethod
    def fetch_range_with_timestamp(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        """The values of the keys within the bounds, in windows that start within the times."""

    def fetch_all_with_timestamp(
        self, time_from: int, time_to: int
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        """The values of all keys, in windows that start within the times."""
        return self.fetch_range_with_timestamp(None, None, time_from, time_to)

    def all_with_timestamp(self) -> EntryIterator[Windowed, ValueAndTimestamp]:
        """Every entry that is not expired."""
        return self.fetch_range_with_timestamp(None, None, 0, LONG_MAX)
