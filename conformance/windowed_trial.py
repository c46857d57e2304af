"""Window and session stores in a trial, seen as values by key and time.

Both kinds make the same promises about expiry, iterators, restoring and transactions, so one check
covers both. The time of a window is its start, and the time of a session is its end. The check
calls the methods of the store itself, and a report prints those calls.
"""

from __future__ import annotations

from streamproof.conformance.generators import TICKS
from streamproof.conformance.lab import ChangelogRecord, IsolationLevel
from streamproof.conformance.trial import Handle, Trial
from streamproof.conformance.windows_oracle import Ageing, Entries
from streamproof.stores.windowed.keys import session_key, window_key, windowed
from streamproof.stores.windows import LONG_MAX, Window, Windowed

__all__ = ["Timed", "Times", "claim"]

SESSION_MS = 5
"""The length of the sessions in a trial, in milliseconds."""

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

    def record(
        self, key: bytes, value: bytes | None, time: int, offset: int = 0
    ) -> ChangelogRecord:
        """The changelog record of a put; duplicates are numbered by their offsets."""
        start, end = self.windowed(key, time).window
        if self.can.kind == "session":
            return ChangelogRecord(session_key(key, start, end), value, offset)
        sequence = offset if self.can.retain_duplicates else 0
        return ChangelogRecord(window_key(key, start, sequence), value, offset)


class Timed:
    """A store, a transaction or a view; values are put and read by key and time."""

    def __init__(self, t: Trial, handle: Handle | None = None) -> None:
        self.t = t
        self.can = t.lab.subject.capabilities
        self.times = Times(self.can)
        self.handle = handle if handle is not None else t.open_store()

    def put(self, key: bytes, value: bytes | None, time: int) -> None:
        """Put into the window that starts, or the session that ends, at a time."""
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
        direction = "backward_" if backward else ""
        if self.can.kind == "session":
            return self.handle.scan(f"{direction}fetch", key)
        found = self.handle.scan(f"{direction}fetch_between", key, 0, LONG_MAX)
        return [(self.times.windowed(key, start), value) for start, value in found]

    def of_keys(self, low: bytes | None, high: bytes | None, *, backward: bool = False) -> Entries:
        """All values of the keys within bounds."""
        direction = "backward_" if backward else ""
        times = () if self.can.kind == "session" else (0, LONG_MAX)
        return self.handle.scan(f"{direction}fetch_range", low, high, *times)

    def all(self) -> Entries:
        """All values of all keys."""
        if self.can.kind == "session":
            return self.of_keys(None, None)
        return self.handle.scan("all")

    def iterate(self) -> Handle:
        """An open iterator over all values of all keys."""
        if self.can.kind == "session":
            return self.handle.iterate("fetch_range", None, None)
        return self.handle.iterate("all")

    def dropped(self) -> int:
        """The number of records that came too late."""
        count: int = self.handle.read("dropped_records")
        return count

    def reopen(self) -> Timed:
        """Close the store and open a new one in the same directory."""
        return Timed(self.t, self.t.reopen_store(self.handle))

    def begin(self) -> Timed:
        """A transaction on the store."""
        return Timed(self.t, self.handle.begin())

    def view(self, level: IsolationLevel) -> Timed:
        """A view at an isolation level."""
        return Timed(self.t, self.handle.view(level))
