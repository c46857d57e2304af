"""The simplest model of a window or session store.

The *time* of a window is its start, and that of a session its end, in milliseconds. The stream time
of a store is the largest time put so far. It determines the records that the store drops or hides,
together with the declared ``retention_ms``, ``segment_interval_ms``, ``expiry`` and ``scan_order``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from streamproof.stores.capabilities import Capabilities
from streamproof.stores.windows import Windowed

__all__ = ["Ageing", "Entries", "WindowedContent"]

Entries = list[tuple[Windowed, bytes]]


@dataclass(frozen=True)
class Ageing:
    """The rules for dropping, hiding and ordering entries under these capabilities."""

    can: Capabilities

    def time_of(self, windowed: Windowed) -> int:
        """The start of a window, the end of a session."""
        start, end = windowed.window
        return end if self.can.kind == "session" else start

    def first_readable(self, stream_time: int) -> int:
        """The earliest time that is not expired."""
        return stream_time - self.can.retention_ms + 1

    def first_kept(self, stream_time: int) -> int:
        """The earliest time whose puts are not dropped."""
        if self.can.expiry == "record":
            return self.first_readable(stream_time)
        interval = self.interval_ms
        return self.segment_of(stream_time - self.can.retention_ms) * interval

    @property
    def interval_ms(self) -> int:
        """The length of a segment; half the retention for a store that declares none."""
        return self.can.segment_interval_ms or max(self.can.retention_ms // 2, 1)

    def segment_of(self, time: int) -> int:
        """The number of the segment of a time."""
        return time // self.interval_ms

    def rank(self, windowed: Windowed) -> tuple[int | bytes, ...]:
        """The sort key of an entry in a scan over several keys; sessions may tie."""
        time = self.time_of(windowed)
        if self.can.scan_order == "time":
            return (time, windowed.key)
        return (self.segment_of(time), windowed.key, time)

    def in_order(self, found: Iterable[Windowed]) -> bool:
        """Whether a scan over several keys came in the declared order.

        Entries of a key and of its prefix may be mixed: a segment sorts by bytes in which the time
        follows the key.
        """
        seen = list(found)
        keys = {windowed.key for windowed in seen}
        if self.is_total(keys):
            return is_sorted(self.rank(windowed) for windowed in seen)
        return all(
            is_sorted(self.time_of(windowed) for windowed in seen if windowed.key == key)
            for key in keys
        )

    def is_total(self, keys: Iterable[bytes]) -> bool:
        """Whether the declared order tells the place of every entry of these keys."""
        mixed = any(after.startswith(key) for key, after in pairwise(sorted(keys)))
        return self.can.scan_order == "time" or not mixed


def is_sorted(values: Iterable[Any]) -> bool:
    """Whether values ascend; equal ones may follow each other."""
    found = list(values)
    return found == sorted(found)


@dataclass
class WindowedContent:
    """The expected content of a store.

    Attributes:
        ageing: the rules from the declarations of the store.
        stream_time: the largest time put so far; -1 before the first put.
        dropped: the number of puts that came too late.
        rows: the values by window; only a store that retains duplicates has several in one window.
    """

    ageing: Ageing
    stream_time: int = -1
    dropped: int = 0
    rows: dict[Windowed, tuple[bytes, ...]] = field(default_factory=dict)

    def put(self, windowed: Windowed, value: bytes | None) -> None:
        """Set a value; ``None`` deletes it, or is ignored where duplicates are retained."""
        duplicates = self.ageing.can.retain_duplicates
        if value is None and duplicates:
            return
        time = self.ageing.time_of(windowed)
        self.stream_time = max(self.stream_time, time)
        if time < self.ageing.first_kept(self.stream_time):
            self.dropped += 1
        elif value is None:
            self.rows.pop(windowed, None)
        else:
            self.rows[windowed] = (*self.rows.get(windowed, ()), value) if duplicates else (value,)

    def get(self, windowed: Windowed) -> bytes | None:
        """The readable value."""
        return dict(self.entries()).get(windowed)

    def entries(self) -> Entries:
        """All readable entries, in the declared order; sessions that tie go by their start."""
        first = self.ageing.first_readable(self.stream_time)
        readable = [each for each in self.rows if self.ageing.time_of(each) >= first]
        readable.sort(key=lambda each: (self.ageing.rank(each), each.window))
        return [(each, value) for each in readable for value in self.rows[each]]
