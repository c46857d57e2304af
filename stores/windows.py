"""The contract of a window store: values by key and window start (Kafka: WindowStore).

Times are in milliseconds. The *stream time* of a store is the largest window start that was
put. A window is *expired* once its start is older than the retention, measured from the
stream time; what is put into an expired window is dropped and counted.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple, Protocol

from streamproof.stores.api import EntryIterator, IsolationLevel, StateStore
from streamproof.stores.timestamps import ValueAndTimestamp

__all__ = [
    "LONG_MAX",
    "ReadOnlyWindowStore",
    "Window",
    "WindowIterator",
    "WindowStore",
    "WindowWithTimestampStore",
    "Windowed",
    "WindowedIterator",
]

LONG_MAX = 2**63 - 1
"""The end of time: a window that would end later ends here."""


class Window(NamedTuple):
    """A span of time in milliseconds.

    The end of a time window is exclusive, and its start plus its size. The end of a session
    is inclusive: the time of its last record.
    """

    start: int
    end: int


class Windowed(NamedTuple):
    """A key and its window (Kafka: Windowed)."""

    key: bytes
    window: Window


WindowIterator = EntryIterator[int, bytes]
"""The values of one key by window start."""

WindowedIterator = EntryIterator[Windowed, bytes]
"""Values of several keys by key and window."""


class ReadOnlyWindowStore(Protocol):
    """What an interactive query may call (Kafka: ReadOnlyWindowStore).

    Bounds of keys and times are inclusive, and times are those of window starts. ``None`` as a
    key bound leaves that side open; an inverted range is empty. The entries of one key come in the
    order of their windows. The order of several keys is the store's (``Capabilities.scan_order``).
    """

    def fetch(self, key: bytes, window_start: int) -> bytes | None:
        """The value of ``key`` in the window that starts then, or ``None``."""
        ...

    def fetch_between(self, key: bytes, time_from: int, time_to: int) -> WindowIterator:
        """The values of ``key`` in the windows that start between the times, oldest first."""
        ...

    def backward_fetch_between(self, key: bytes, time_from: int, time_to: int) -> WindowIterator:
        """The same entries as ``fetch_between``, in the opposite order."""
        ...

    def fetch_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> WindowedIterator:
        """The values of the keys within bounds, in windows that start between the times."""
        ...

    def backward_fetch_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> WindowedIterator:
        """The same entries as ``fetch_range``, in the opposite order."""
        ...

    def fetch_all(self, time_from: int, time_to: int) -> WindowedIterator:
        """The values of all keys in the windows that start between the times."""
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

    A key of ``None`` raises NullArgumentError, a window start below 0 InvalidArgumentError,
    and every call on a closed store InvalidStateStoreError.

    In the changelog the key of an entry is ``key ++ window start ++ sequence number``, 8 and
    4 bytes, big-endian; the sequence number is 0 unless duplicates are retained.
    """

    @abstractmethod
    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        """Set the value of ``key`` in a window; ``None`` deletes it.

        What is put into an expired window is dropped and counted in ``dropped_records``. A
        store that retains duplicates keeps every put, and ignores a value of ``None``.
        """

    @abstractmethod
    def fetch(self, key: bytes, window_start: int) -> bytes | None:
        """The value of ``key`` in the window that starts then, or ``None``.

        Undefined for a store that retains duplicates.
        """

    @abstractmethod
    def fetch_between(self, key: bytes, time_from: int, time_to: int) -> WindowIterator:
        """The values of ``key`` in the windows that start between the times, oldest first."""

    @abstractmethod
    def backward_fetch_between(self, key: bytes, time_from: int, time_to: int) -> WindowIterator:
        """The same entries as ``fetch_between``, in the opposite order."""

    @abstractmethod
    def fetch_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> WindowedIterator:
        """The values of the keys within bounds, in windows that start between the times."""

    @abstractmethod
    def backward_fetch_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> WindowedIterator:
        """The same entries as ``fetch_range``, in the opposite order."""

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

    @property
    @abstractmethod
    def dropped_records(self) -> int:
        """How many records came too late and were dropped, restored ones included.

        Source: Kafka, the metric ``dropped-records-total``.
        """

    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlyWindowStore:
        """A view for queries from other threads; a store without transactions is its own view."""
        return self


class WindowWithTimestampStore(WindowStore):
    """A window store that keeps the timestamp of each record (KIP-258).

    ``put`` writes the timestamp of the record that is being processed, as
    KeyValueWithTimestampStore does; the reading methods of WindowStore give the value alone.
    """

    @abstractmethod
    def put_with_timestamp(
        self, key: bytes, value: bytes | None, timestamp: int, window_start: int
    ) -> None:
        """Set the value and the timestamp of ``key`` in a window; ``None`` deletes it."""

    @abstractmethod
    def fetch_with_timestamp(self, key: bytes, window_start: int) -> ValueAndTimestamp | None:
        """The value of ``key`` in the window that starts then, or ``None``."""

    @abstractmethod
    def fetch_between_with_timestamp(
        self, key: bytes, time_from: int, time_to: int
    ) -> EntryIterator[int, ValueAndTimestamp]:
        """The values of ``key`` in the windows that start between the times, oldest first."""

    @abstractmethod
    def fetch_range_with_timestamp(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        """The values of the keys within bounds, in windows that start between the times."""

    def fetch_all_with_timestamp(
        self, time_from: int, time_to: int
    ) -> EntryIterator[Windowed, ValueAndTimestamp]:
        """The values of all keys in the windows that start between the times."""
        return self.fetch_range_with_timestamp(None, None, time_from, time_to)

    def all_with_timestamp(self) -> EntryIterator[Windowed, ValueAndTimestamp]:
        """Every entry that is not expired."""
        return self.fetch_range_with_timestamp(None, None, 0, LONG_MAX)
