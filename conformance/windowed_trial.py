"""Window and session stores in a trial, seen as values by key and time.

Both kinds make the same promises about expiry, iterators, restoring and transactions, so one check
covers both. The time of a window is its start, and the time of a session is its end. The check
calls the methods of the store itself, and a report prints those calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from streamproof.conformance.generators import TICKS
from streamproof.conformance.lab import ChangelogRecord, IsolationLevel
from streamproof.conformance.trial import Entry, Handle, Trial
from streamproof.conformance.windows_oracle import Ageing, Entries
from streamproof.stores.windowed.keys import (
    parse_session_key,
    parse_window_key,
    session_key,
    window_key,
    windowed,
)
from streamproof.stores.windows import LONG_MAX, Window, Windowed

__all__ = ["ONE_KEY", "Timed", "Times", "WindowedHandle", "claim", "everything"]

SESSION_MS = 5
"""The length of the sessions in a trial, in milliseconds."""

ONE_KEY = b"a"
"""The key of an open iterator, if the store claims no way to read several keys."""

NEAR = 8
"""The number of ticks a millisecond apart; later ticks are spread over the retention."""


def claim(t: Trial, window: str, session: str, tried: str) -> None:
    """Name the promise under test: the one for windows, or the same one for sessions."""
    t.claim(session if t.lab.subject.capabilities.kind == "session" else window, tried)


class Times(Ageing):
    """The times of windows and sessions, from the declarations of the subject."""

    @property
    def base(self) -> int:
        """The first tick: 4 ms before the start of a segment other than the first."""
        return 10 * self.interval_ms - 4

    def at(self, tick: int) -> int:
        """A time within one retention from ``base``: the first few lie around a segment's start.

        The last tick is the latest time at which an entry of the first tick is still readable.
        """
        if tick < NEAR:
            return self.base + tick
        last = self.can.retention_ms - 1
        return self.base + NEAR + (tick - NEAR) * (last - NEAR) // (TICKS - 1 - NEAR)

    def windowed(self, key: bytes, time: int) -> Windowed:
        """The window that starts, or the session that ends, at a time."""
        if self.can.kind == "session":
            return Windowed(key, Window(max(time - SESSION_MS, 0), time))
        return windowed(key, time, self.can.window_size_ms)

    def named(self, key: bytes, start: Any) -> Any:
        """The key and the window of an entry that has the start alone; a wrong start is kept."""
        return self.windowed(key, start) if isinstance(start, int) else start

    def key_of(self, record: ChangelogRecord) -> bytes:
        """The key of a window or session in a record of the changelog."""
        if self.can.kind == "session":
            return parse_session_key(record.key).key
        return parse_window_key(record.key)[0]

    def record(
        self, key: bytes, value: bytes | None, time: int, offset: int = 0
    ) -> ChangelogRecord:
        """The changelog record of a put; duplicates are numbered by their offsets."""
        start, end = self.windowed(key, time).window
        if self.can.kind == "session":
            return ChangelogRecord(session_key(key, start, end), value, offset)
        sequence = offset if self.can.retain_duplicates else 0
        return ChangelogRecord(window_key(key, start, sequence), value, offset)


def of_key(handle: Handle, times: Times, key: bytes, *, backward: bool = False) -> Entries:
    """All values of one key, by time."""
    direction = "backward_" if backward else ""
    if times.can.kind == "session":
        return handle.scan(f"{direction}fetch", key)
    found = handle.scan(f"{direction}fetch_between", key, 0, LONG_MAX)
    return [(times.named(key, start), value) for start, value in found]


def everything(handle: Handle, times: Times, keys: Iterable[bytes]) -> Entries:
    """All values of all keys, by a scan or a range that the store claims, or else key by key.

    ``keys`` are all keys that were written. Key by key, the entries are put in the declared order.
    """
    scans: dict[str, tuple[int | None, ...]] = {
        "all": (),
        "fetch_range": (None, None, 0, LONG_MAX),
    }
    if times.can.kind == "session":
        scans = {"fetch_range": (None, None), "find_sessions_between": (0, LONG_MAX)}
    for method, arguments in scans.items():
        if handle.trial.has(method):
            return handle.scan(method, *arguments)
    found = [entry for key in sorted(keys) for entry in of_key(handle, times, key)]
    return sorted(found, key=lambda entry: times.rank(entry[0]))


class WindowsOfKey(Handle):
    """An open iterator over the windows of one key, whose entries get the key."""

    def __init__(self, iterator: Handle, times: Times, key: bytes) -> None:
        super().__init__(iterator.trial, iterator.raw, iterator.label)
        self.times = times
        self.key = key

    def advance(self) -> Entry | None:
        """The next entry; ``None`` at the end."""
        entry = super().advance()
        return None if entry is None else (self.times.named(self.key, entry[0]), entry[1])

    def remaining(self) -> list[Entry]:
        """The remaining entries."""
        return [(self.times.named(self.key, start), value) for start, value in super().remaining()]

    def peek_next_key(self) -> Any:
        """The next key, without advancing."""
        return self.times.named(self.key, self.call("peek_next_key"))


class WindowedHandle(Handle):
    """A store, a transaction or a view, whose keys are windows or sessions of keys.

    It has the methods of a key-value store, which call those of the store itself.
    """

    def __init__(self, trial: Trial, raw: Any, label: str, times: Times) -> None:
        super().__init__(trial, raw, label)
        self._times = times

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of a key-value store, or of the store itself."""
        if method in ("get", "put", "delete", "put_if_absent", "put_all"):
            return getattr(self, method)(*arguments)
        return super().call(method, *arguments)

    def get(self, at: Windowed) -> Any:
        """The value; if the store retains duplicates, all of them."""
        if self._times.can.retain_duplicates:
            start = at.window.start
            found = super().scan("fetch_between", at.key, start, start)
            return tuple(value for _, value in found) or None
        return self._get(at, "")

    def get_with_timestamp(self, at: Windowed) -> Any:
        """The value with its timestamp."""
        return self._get(at, "_with_timestamp")

    def _get(self, place: Windowed, suffix: str) -> Any:
        if self._is_session:
            return self._call(f"fetch_session{suffix}", (place.key, *place.window))
        return self._call(f"fetch{suffix}", (place.key, place.window.start))

    def put(self, at: Windowed, value: bytes | None) -> None:
        """Set the value; ``None`` deletes it."""
        if self._is_session:
            self._call("put", (at, value))
        else:
            self._call("put", (at.key, value, at.window.start))

    def put_with_timestamp(self, at: Windowed, value: bytes | None, timestamp: int) -> None:
        """Set the value with a timestamp."""
        if self._is_session:
            self._call("put_with_timestamp", (at, value, timestamp))
        else:
            arguments = (at.key, value, timestamp, at.window.start)
            self._call("put_with_timestamp", arguments)

    def delete(self, at: Windowed) -> Any:
        """Delete, and return the old value."""
        old = self.get(at)
        if self._is_session:
            self._call("remove", (at,))
        else:
            self.put(at, None)
        return old

    def put_if_absent(self, at: Windowed, value: bytes | None) -> Any:
        """Put unless there is a value."""
        old = self.get(at)
        if old is None:
            self.put(at, value)
        return old

    def put_all(self, entries: Iterable[tuple[Windowed, bytes | None]]) -> None:
        """Put pairs in order."""
        for at, value in entries:
            self.put(at, value)

    def scan(self, method: str, *arguments: Any) -> list[Entry]:
        """Read a whole scan; entries that have the start of a window alone get their key."""
        return [
            (self._times.named(arguments[0], key) if arguments else key, value)
            for key, value in super().scan(method, *arguments)
        ]

    def iterate(self, method: str, *arguments: Any) -> Handle:
        """Open an iterator and leave it open."""
        inner = super().iterate(method, *arguments)
        return WindowsOfKey(inner, self._times, arguments[0] if arguments else b"")

    def begin(self) -> Handle:
        """Open a transaction on the store."""
        return self._like(super().begin())

    def view(self, level: IsolationLevel) -> Handle:
        """A read-only view at an isolation level."""
        return self._like(super().view(level))

    def _like(self, handle: Handle) -> WindowedHandle:
        return WindowedHandle(handle.trial, handle.raw, handle.label, self._times)

    @property
    def _is_session(self) -> bool:
        return self._times.can.kind == "session"


class Timed:
    """A store, a transaction or a view; values are put and read by key and time.

    Attributes:
        keys: the keys that were written, also by the store, its transactions and its predecessors.
    """

    def __init__(
        self, t: Trial, handle: Handle | None = None, keys: set[bytes] | None = None
    ) -> None:
        self.t = t
        self.can = t.lab.subject.capabilities
        self.times = Times(self.can)
        self.handle = handle if handle is not None else t.open_store()
        self.keys = set() if keys is None else keys

    @property
    def reads_several_keys(self) -> bool:
        """Whether the store claims a way to read the values of several keys."""
        return self.can.scan or self.can.ranges

    def restore(self, records: Sequence[ChangelogRecord]) -> None:
        """Apply a batch of changelog records, as the runtime does."""
        self.keys.update(map(self.times.key_of, records))
        self.t.restore(self.handle, list(records))

    def put(self, key: bytes, value: bytes | None, time: int) -> None:
        """Put into the window that starts, or the session that ends, at a time."""
        self.keys.add(key)
        if self.can.kind == "session":
            self.handle.put(self.times.windowed(key, time), value)
        else:
            self.handle.put(key, value, time)

    def get(self, key: bytes, time: int) -> bytes | None:
        """The value at a time; of duplicates, which have no point fetch, the first."""
        answer: bytes | None
        if self.can.kind == "session":
            answer = self.handle.fetch_session(key, *self.times.windowed(key, time).window)
        elif self.can.retain_duplicates:
            found = self.handle.scan("fetch_between", key, time, time)
            answer = found[0][1] if found else None
        else:
            answer = self.handle.fetch(key, time)
        return answer

    def entry(self, key: bytes, value: bytes, time: int) -> tuple[Windowed, bytes]:
        """The entry of a scan for a put."""
        return self.times.windowed(key, time), value

    def of_key(self, key: bytes, *, backward: bool = False) -> Entries:
        """All values of one key, by time."""
        return of_key(self.handle, self.times, key, backward=backward)

    def of_keys(self, low: bytes | None, high: bytes | None, *, backward: bool = False) -> Entries:
        """All values of the keys within bounds."""
        direction = "backward_" if backward else ""
        return self.handle.scan(f"{direction}fetch_range", low, high, *self._all_times)

    @property
    def _all_times(self) -> tuple[int, ...]:
        """The bounds of time in a range of keys; a range of sessions has none."""
        return () if self.can.kind == "session" else (0, LONG_MAX)

    def all(self) -> Entries:
        """All values of all keys."""
        return everything(self.handle, self.times, self.keys)

    def iterate(self) -> Handle:
        """An open iterator over all values of all keys, or of ``ONE_KEY``."""
        is_session = self.can.kind == "session"
        if not self.reads_several_keys:
            if is_session:
                return self.handle.iterate("fetch", ONE_KEY)
            inner = self.handle.iterate("fetch_between", ONE_KEY, 0, LONG_MAX)
            return WindowsOfKey(inner, self.times, ONE_KEY)
        if self.can.ranges and (is_session or not self.can.scan):
            return self.handle.iterate("fetch_range", None, None, *self._all_times)
        if is_session:
            return self.handle.iterate("find_sessions_between", 0, LONG_MAX)
        return self.handle.iterate("all")

    def dropped(self) -> int:
        """The number of records that came too late."""
        count: int = self.handle.read("dropped_records")
        return count

    def reopen(self) -> Timed:
        """Close the store and open a new one in the same directory."""
        return Timed(self.t, self.t.reopen_store(self.handle), self.keys)

    def begin(self) -> Timed:
        """A transaction on the store."""
        return Timed(self.t, self.handle.begin(), self.keys)

    def view(self, level: IsolationLevel) -> Timed:
        """A view at an isolation level."""
        return Timed(self.t, self.handle.view(level), self.keys)
