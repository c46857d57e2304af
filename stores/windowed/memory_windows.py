"""The in-memory window store: rows by window start, lost when the store closes."""

from __future__ import annotations

from streamproof.stores.api import ChangelogRecord, require_key
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.errors import InvalidArgumentError
from streamproof.stores.windowed.keys import parse_window_key, require_time, windowed
from streamproof.stores.windowed.memory_rows import InMemoryTimedStore
from streamproof.stores.windows import WindowedIterator, WindowIterator, WindowStore

__all__ = ["InMemoryWindowStore", "default_store"]

_RETENTION_MS = 180_000
_WINDOW_SIZE_MS = 10_000

_LARGEST_SEQUENCE = 2**31 - 1
"""The sequence number has 31 bits and starts over after this one."""


class InMemoryWindowStore(InMemoryTimedStore, WindowStore):
    """Windows in a sorted map (Kafka: InMemoryWindowStore).

    A put is dropped and counted if ``window_start <= stream time - retention_ms``. Scans over
    several keys go by window start, then by key, then by sequence number.

    Args:
        name: the name of the store.
        retention_ms: how long a window is kept after its start, in milliseconds.
        window_size_ms: the size of the windows, in milliseconds.
        retain_duplicates: whether the store keeps every put, rather than the last one.

    Raises:
        InvalidArgumentError: the size is negative, or larger than the retention.
    """

    def __init__(
        self,
        name: str,
        *,
        retention_ms: int,
        window_size_ms: int,
        retain_duplicates: bool = False,
    ) -> None:
        super().__init__(name, retention_ms)
        if not 0 <= window_size_ms <= retention_ms:
            raise InvalidArgumentError(
                f"The windows of store {name!r} are {window_size_ms} ms long; choose a size from 0 "
                f"to the retention of {retention_ms} ms."
            )
        self._window_size_ms = window_size_ms
        self._retain_duplicates = retain_duplicates

    def _clear(self) -> None:
        super()._clear()
        self._sequence = 0

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
            kind="window",
            position=True,
            retention_ms=self._retention_ms,
            window_size_ms=self._window_size_ms,
            expiry="record",
            scan_order="time",
            retain_duplicates=self._retain_duplicates,
        )

    @property
    def sequence(self) -> int:
        """The sequence number of the last duplicate."""
        return self._sequence

    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        """Set the value of ``key`` in a window; ``None`` deletes it."""
        require_key(key)
        require_time(window_start, "window start")
        if self._retain_duplicates:
            # No row has this number yet, so a value of None deletes nothing.
            self._sequence = (self._sequence + 1) & _LARGEST_SEQUENCE
        self._put(window_start, key, self._sequence, value)

    def _restore_record(self, record: ChangelogRecord) -> None:
        key, start, sequence = parse_window_key(record.key)
        if self._retain_duplicates:
            # Continue from the restored numbers, so that a later put replaces no restored row.
            self._sequence = sequence
        self._write(start, key, sequence, record.value)

    def fetch(self, key: bytes, window_start: int) -> bytes | None:
        """The value of ``key`` in the window that starts then, or ``None``.

        If duplicates are retained, the result is always ``None``, because a window has no single
        value.
        """
        require_key(key)
        return self._value(window_start, key, 0)

    def fetch_between(self, key: bytes, time_from: int, time_to: int) -> WindowIterator:
        """The values of ``key`` in the windows that start between the times, oldest first."""
        return self._fetch_key(key, time_from, time_to, reverse=False)

    def backward_fetch_between(self, key: bytes, time_from: int, time_to: int) -> WindowIterator:
        """The same entries as ``fetch_between``, in the opposite order."""
        return self._fetch_key(key, time_from, time_to, reverse=True)

    def fetch_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> WindowedIterator:
        """The values of the keys within bounds, in windows that start between the times."""
        return self._fetch_keys(key_from, key_to, time_from, time_to, reverse=False)

    def backward_fetch_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> WindowedIterator:
        """The same entries as ``fetch_range``, in the opposite order."""
        return self._fetch_keys(key_from, key_to, time_from, time_to, reverse=True)

    def _fetch_key(
        self, key: bytes, time_from: int, time_to: int, *, reverse: bool
    ) -> WindowIterator:
        require_key(key)
        rows = self._scan(key, key, time_from, time_to, reverse=reverse)
        return self._iterator((row.time, row.value) for row in rows)

    def _fetch_keys(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        time_from: int,
        time_to: int,
        *,
        reverse: bool,
    ) -> WindowedIterator:
        rows = self._scan(key_from, key_to, time_from, time_to, reverse=reverse)
        size = self._window_size_ms
        return self._iterator((windowed(row.key, row.time, size), row.value) for row in rows)


def default_store(name: str = "store") -> WindowStore:
    """A new in-memory window store, not initialised."""
    return InMemoryWindowStore(name, retention_ms=_RETENTION_MS, window_size_ms=_WINDOW_SIZE_MS)
