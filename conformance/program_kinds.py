"""What random programs have to know of each kind of store: its keys, its scans and its promises.

Programs draw the place of a window or session as a :class:`Spot`, whose times follow the stream
time. So what they put comes in time, too late, or so late in time that older entries expire.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple, Protocol, Self

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from streamproof.conformance.claimed_methods import in_both_directions, is_claimed
from streamproof.conformance.generators import TICKS
from streamproof.conformance.lab import ChangelogRecord
from streamproof.conformance.trial import Entry, Handle, Trial
from streamproof.conformance.windowed_trial import Times, WindowedHandle
from streamproof.conformance.windows_oracle import Ageing
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.windowed.keys import session_key, window_key
from streamproof.stores.windows import LONG_MAX, Window, Windowed

__all__ = ["Bounds", "Kind", "Moment", "Promises", "ScanMethod", "Spot", "TimedKind", "kind_of"]

Keys = SearchStrategy[bytes]


class Promises(NamedTuple):
    """The promises that a kind of store has an own requirement for.

    Attributes:
        answers: every answer equals that of a sorted dictionary.
        scans: so does every scan.
        survives: an open iterator survives later writes.
        snapshot: an open iterator shows no later write.
        closes: an iterator that has ended, or is closed twice, does no harm.
        closed: nor does an iterator of a closed store.
        peeks: an iterator shows its next key without advancing; empty if no promise says so.
        rolled_back: a rollback undoes the stream time; empty if the kind has none.
        hidden: a staged stream time is hidden; empty if the kind has none.
    """

    answers: str
    scans: str
    survives: str
    snapshot: str
    closes: str
    closed: str
    peeks: str = ""
    rolled_back: str = ""
    hidden: str = ""


class ScanMethod(NamedTuple):
    """A method that yields several entries."""

    name: str

    @property
    def plain(self) -> str:
        """The name without its direction, and without what it yields."""
        name = self.name.removesuffix("_with_timestamp").removeprefix("backward_")
        return name.removeprefix("reverse_")

    @property
    def backward(self) -> bool:
        """Whether it yields the last key first."""
        return self.name.startswith(("reverse_", "backward_"))

    @property
    def stamped(self) -> bool:
        """Whether it yields values with their timestamps."""
        return self.name.endswith("_with_timestamp")


class Bounds(NamedTuple):
    """The arguments of a scan, whether a key lies within them, and whether it is of one key."""

    arguments: tuple[Any, ...]
    within: Callable[[Any], bool]
    one_key: bool = False


def _is_between(low: bytes | None, high: bytes | None, key: bytes) -> bool:
    return (low is None or low <= key) and (high is None or key <= high)


class Kind(Protocol):
    """What random programs know of a kind of store."""

    promises: Promises
    scans: tuple[ScanMethod, ...]
    refusing: tuple[str, ...]

    @property
    def ageing(self) -> Ageing | None:
        """The rules of expiry, if entries expire."""

    def samples(self) -> tuple[tuple[Any, ...], tuple[tuple[Any, Any], ...]]:
        """Where to put what a scan reads, and pairs of bounds whose edges are among them."""

    def edges(self) -> tuple[tuple[Any, ...], tuple[tuple[Any, Any], ...]]:
        """Where to put what scans read, and pairs of bounds that are easy to get wrong.

        They are open, empty, equal, inverted, all 0xFF, or just beside a key or the start of a
        segment of time.
        """

    def many(self, count: int) -> tuple[list[Any], tuple[Any, Any]]:
        """Up to ``count`` places in order, and bounds within which every scan reads hundreds."""

    def open(self, t: Trial) -> Handle:
        """Open the store."""

    def keys(self, keys: Keys) -> SearchStrategy[Any]:
        """Where to put, from the strategy for keys."""

    def bounds(self, keys: SearchStrategy[bytes | None]) -> SearchStrategy[Any]:
        """A bound of a scan, from the strategy for its key."""

    def at(self, drawn: Any, now: int) -> Any:
        """The key, window or session that was drawn, at a stream time."""

    def bounds_of(self, method: ScanMethod, low: Any, high: Any, now: int) -> Bounds:
        """The bounds of a scan, from two drawn ones."""

    def ordered(self, found: Iterable[Any], bounds: Bounds) -> bool:
        """Whether a scan over these keys has one order, apart from keys that tie."""

    def rank(self, key: Any) -> Any:
        """The place of a key in the order of scans."""

    def in_order(self, found: Iterable[Any]) -> bool:
        """Whether the keys of a forward scan come in the declared order."""

    def joined(self, found: list[Entry], *, backward: bool) -> list[tuple[Any, Any]]:
        """The entries of a scan, one for each key: values of one window go together."""

    def may_delete(self, key: Any, times: tuple[int, int]) -> bool:
        """Whether a promise says what a delete does while the stream time is between two times."""

    def marker(self, key: bytes, time: int) -> Any:
        """A key at a time."""

    def record(self, key: Any, value: bytes | None, offset: int, at: int) -> ChangelogRecord:
        """The changelog record of a write."""


def kind_of(can: Capabilities) -> Kind:
    """The kind of a store with these capabilities."""
    return KeyValueKind(can) if can.kind == "key-value" else TimedKind(can)


EDGE_KEYS = (b"a", b"a\x00", b"a\xff", b"a\xff\xff", b"aa", b"b", b"c", b"\xff", b"\xff\xff")
"""Keys beside which bounds are easy to get wrong."""

EDGE_BOUNDS: tuple[tuple[bytes | None, bytes | None], ...] = (
    *((None, None), (b"", b""), (b"", b"a"), (None, b""), (b"", None), (b"b", b"")),
    *((b"b", b"b"), (b"bb", b"bb"), (b"\xff", b"\xff"), (b"a\xff", b"a\xff")),
    *((b"c", b"a"), (b"\xff", b"\x00"), (b"a\x00", b"b"), (b"a\x01", b"b\x00"), (b"a", b"a\xff")),
    *((b"b", None), (None, b"b"), (b"\xff", None), (b"\xff\xff", None), (None, b"\xff")),
    (b"\xff\xff\xff", None),
)
"""Bounds of keys: open, empty, equal, inverted, all 0xFF, or just beside a key."""

KEY_VALUE_SCANS = {
    "all": ("scan",),
    "range": ("ranges",),
    "reverse_all": ("reverse", "ranges"),
    "reverse_range": ("reverse", "ranges"),
    "prefix_scan": ("prefix_scan",),
    "range_with_timestamp": ("timestamped", "ranges"),
}
"""The scans of a key-value store, with the capabilities that they need."""


class KeyValueKind:
    """Keys and values."""

    promises = Promises(
        "KV-015", "RANGE-015", "RANGE-010", "RANGE-011", "RANGE-012", "ERR-007", "", "", ""
    )
    ageing = None
    refusing: tuple[str, ...] = ("get", "put", "delete", "put_if_absent", "put_all")

    def __init__(self, can: Capabilities) -> None:
        self.can = can
        self.scans = tuple(
            ScanMethod(name)
            for name, needs in KEY_VALUE_SCANS.items()
            if all(getattr(can, each) for each in needs)
        )

    def samples(self) -> tuple[tuple[Any, ...], tuple[tuple[Any, Any], ...]]:
        bounds = ((b"a", b"z"), (b"a", b"b"), (b"b", None), (None, b"b"), (b"b", b"a"))
        return (b"a", b"b", b"c"), bounds

    def edges(self) -> tuple[tuple[Any, ...], tuple[tuple[Any, Any], ...]]:
        return EDGE_KEYS, EDGE_BOUNDS

    def many(self, count: int) -> tuple[list[Any], tuple[Any, Any]]:
        return [b"a%04d" % number for number in range(count)], (b"a", None)

    def open(self, t: Trial) -> Handle:
        return t.open()

    def keys(self, keys: Keys) -> SearchStrategy[Any]:
        return keys

    def bounds(self, keys: SearchStrategy[bytes | None]) -> SearchStrategy[Any]:
        return keys

    def at(self, drawn: Any, now: int) -> Any:
        return drawn

    def bounds_of(self, method: ScanMethod, low: Any, high: Any, now: int) -> Bounds:
        """The bounds of a scan, from two drawn keys. A prefix is the first of them."""
        if method.plain == "prefix_scan":
            prefix = b"a" if low is None else low
            return Bounds((prefix,), lambda key: key.startswith(prefix))
        if method.plain == "range":
            return Bounds((low, high), partial(_is_between, low, high))
        return Bounds((), lambda _: True)

    def ordered(self, found: Iterable[Any], bounds: Bounds) -> bool:
        return self.can.ranges

    def rank(self, key: Any) -> Any:
        return key

    def in_order(self, found: Iterable[Any]) -> bool:
        return True

    def joined(self, found: list[Entry], *, backward: bool) -> list[tuple[Any, Any]]:
        return found

    def may_delete(self, key: Any, times: tuple[int, int]) -> bool:
        return True

    def marker(self, key: bytes, time: int) -> Any:
        return key

    def record(self, key: Any, value: bytes | None, offset: int, at: int) -> ChangelogRecord:
        return ChangelogRecord(key, value, offset, at)


class Moment(NamedTuple):
    """A time that depends on the stream time: milliseconds after an edge, or a tick."""

    edge: str
    after: int = 0


MOMENTS = (
    *(Moment("tick", tick) for tick in (0, 3, 4, 5, 9, TICKS - 1)),
    *(Moment("now"), Moment("now", 1), Moment("interval"), Moment("retention")),
    *(Moment("kept"), Moment("kept", -1), Moment("readable"), Moment("readable", -1)),
)
"""Times within one retention, around the expiry, and a little later."""

EDGES_OF_TIME = (Moment("least"), Moment("least", 1), Moment("largest"))
"""The bounds of time that lie outside all windows."""


class Spot(NamedTuple):
    """A drawn window or session: a window has the first of the moments alone."""

    key: bytes
    moment: Moment
    other: Moment


class TimeBound(NamedTuple):
    """A drawn bound of keys and of times."""

    key: bytes | None
    moment: Moment

    @classmethod
    def of(cls, drawn: Any, edge: str) -> Self:
        """A bound that was drawn; one that is a key alone is open in time."""
        return drawn if isinstance(drawn, cls) else cls(drawn, Moment(edge))


EDGES_OF_TICKS = (3, 4, 5, 9, TICKS - 1)
"""Ticks around the start of a segment, within one, and the latest."""

OF_WINDOWS = (
    *("fetch_between", "backward_fetch_between", "fetch_range", "backward_fetch_range"),
    *("all", "backward_all", "fetch_all", "backward_fetch_all"),
)
OF_SESSIONS = (
    *in_both_directions("fetch", "find_sessions", "fetch_range", "find_sessions_range"),
    "find_sessions_between",
)
STAMPED_OF_WINDOWS = ("fetch_between", "fetch_range", "all", "fetch_all")
STAMPED_OF_SESSIONS = ("find_sessions", "find_sessions_range")


class TimedKind:
    """Windows or sessions of keys, which expire."""

    refusing: tuple[str, ...] = ("get", "put")

    def __init__(self, can: Capabilities) -> None:
        self.can = can
        self.times = Times(can)
        self.ageing = self.times
        self.is_session = can.kind == "session"
        area = "SESS" if self.is_session else "WIN"
        numbers = (47, 47, 33, 34, 31, 32, 30, 50, 51) if self.is_session else _WINDOW_NUMBERS
        self.promises = Promises(*(f"{area}-{number:03}" for number in numbers))
        names = OF_SESSIONS if self.is_session else OF_WINDOWS
        stamped = STAMPED_OF_SESSIONS if self.is_session else STAMPED_OF_WINDOWS
        if can.timestamped:
            names += tuple(f"{each}_with_timestamp" for each in stamped)
        self.scans = tuple(ScanMethod(each) for each in names if is_claimed(each, can))

    def samples(self) -> tuple[tuple[Any, ...], tuple[tuple[Any, Any], ...]]:
        early, middle, late = (Moment("tick", tick) for tick in (0, 4, 9))
        spans = ((early, early), (early, middle), (middle, late), (late, late))
        spots = [Spot(key, *span) for key in (b"a", b"aa", b"b") for span in spans]
        edges = [(early, middle), (middle, late), (middle, middle), (late, early)]
        keys = ((b"a", b"b"), (b"a", b"aa"), (None, b"aa"), (b"aa", None))
        bounds = [
            (TimeBound(low, first), TimeBound(high, last))
            for low, high in keys
            for first, last in edges
        ]
        return tuple(spots), ((b"a", None), *bounds)

    def edges(self) -> tuple[tuple[Any, ...], tuple[tuple[Any, Any], ...]]:
        """One bound of keys and all of times, and one of times and all of keys."""
        ticks = [Moment("tick", each) for each in EDGES_OF_TICKS]
        spots = [
            Spot(key, tick, ticks[number % len(ticks)])
            for number, key in enumerate((*EDGE_KEYS, *EDGE_KEYS))
            for tick in (ticks[number % len(ticks)], ticks[-1 - number % len(ticks)])
        ]
        least, first, largest = EDGES_OF_TIME
        before, start, after, within, last = ticks
        times = [(least, largest), (least, least), (least, first), (largest, largest)]
        times += [(each, each) for each in ticks]
        times += [(start, before), (last, start), (before, start), (start, after), (after, within)]
        times += [(least, start), (start, largest), (last, largest), (first, before)]
        keys: tuple[tuple[bytes | None, bytes | None], ...] = ((b"a", b"a"), *EDGE_BOUNDS)
        bounds = [(TimeBound(b"a", low), TimeBound(b"b", high)) for low, high in times]
        bounds += [(TimeBound(low, least), TimeBound(high, largest)) for low, high in keys]
        return tuple(dict.fromkeys(spots)), tuple(bounds)

    def many(self, count: int) -> tuple[list[Any], tuple[Any, Any]]:
        """Half of them are of one key, and half of a key each."""
        half, first = count // 2, self.times.base
        step = max((self.can.retention_ms - 1) // half, 1)
        last = first + min(half * step, self.can.retention_ms) - 1
        places = [self.times.windowed(b"a", time) for time in range(first, last + 1, step)]
        places += [self.times.windowed(b"a%04d" % number, last) for number in range(half)]
        return places, (b"a", None)

    def open(self, t: Trial) -> Handle:
        store = t.open_store()
        return WindowedHandle(t, store.raw, store.label, self.times)

    def keys(self, keys: Keys) -> SearchStrategy[Any]:
        moments = st.sampled_from(MOMENTS)
        other = moments if self.is_session else st.just(MOMENTS[0])
        return st.builds(Spot, keys, moments, other)

    def bounds(self, keys: SearchStrategy[bytes | None]) -> SearchStrategy[Any]:
        return st.builds(TimeBound, keys, st.sampled_from((*EDGES_OF_TIME, *MOMENTS)))

    def at(self, drawn: Any, now: int) -> Any:
        if isinstance(drawn, Windowed):
            return drawn
        if not isinstance(drawn, Spot):
            return self.times.windowed(drawn, self.times.at(drawn[0] % TICKS))
        one, other = self._time(drawn.moment, now), self._time(drawn.other, now)
        if self.is_session:
            return Windowed(drawn.key, Window(min(one, other), max(one, other)))
        return self.times.windowed(drawn.key, one)

    def _time(self, moment: Moment, now: int) -> int:
        times, edge = self.times, moment.edge
        if edge == "tick":
            return times.at(moment.after)
        edges = {
            "now": now,
            "interval": now + times.interval_ms,
            "retention": now + self.can.retention_ms,
            "kept": times.first_kept(now),
            "readable": times.first_readable(now),
        }
        return max(edges[edge] + moment.after, 0)

    def bounds_of(self, method: ScanMethod, low: Any, high: Any, now: int) -> Bounds:
        first, last = TimeBound.of(low, "least"), TimeBound.of(high, "largest")
        keys = (first.key, last.key)
        times = (self._bound(first.moment, now), self._bound(last.moment, now))
        if method.plain in ("find_sessions", "find_sessions_range"):
            # The gap after a record never ends before time 0, and Kafka refuses such a search.
            times = (times[0], max(times[1], 0))
        if method.plain in ("fetch", "fetch_between", "find_sessions"):
            key = first.key or b"a"
            arguments: tuple[Any, ...] = (key,) if method.plain == "fetch" else (key, *times)
            return Bounds(arguments, partial(self._is_within, method, (key, key), times), True)
        if method.plain in ("all", "fetch_all", "find_sessions_between"):
            keys = (None, None)
            arguments = () if method.plain == "all" else times
        elif method.plain == "fetch_range" and self.is_session:
            arguments = keys
        else:
            arguments = (*keys, *times)
        return Bounds(arguments, partial(self._is_within, method, keys, times))

    def _bound(self, moment: Moment, now: int) -> int:
        outside = {"least": -1 + moment.after, "largest": LONG_MAX}
        return outside[moment.edge] if moment.edge in outside else self._time(moment, now)

    def _is_within(
        self,
        method: ScanMethod,
        keys: tuple[bytes | None, bytes | None],
        times: tuple[int, int],
        windowed: Windowed,
    ) -> bool:
        start, end = windowed.window
        if not _is_between(*keys, windowed.key):
            return False
        if method.plain in ("find_sessions", "find_sessions_range"):
            return end >= times[0] and start <= times[1]
        if method.plain == "all" or (self.is_session and method.plain != "find_sessions_between"):
            return True
        return times[0] <= self.times.time_of(windowed) <= times[1]

    def ordered(self, found: Iterable[Any], bounds: Bounds) -> bool:
        return bounds.one_key or self.times.is_total({windowed.key for windowed in found})

    def rank(self, key: Any) -> Any:
        return self.times.rank(key)

    def in_order(self, found: Iterable[Any]) -> bool:
        return self.times.in_order(found)

    def joined(self, found: list[Entry], *, backward: bool) -> list[tuple[Any, Any]]:
        if not self.can.retain_duplicates:
            return found
        groups = groupby(found[::-1] if backward else found, key=lambda entry: entry[0])
        joined = [(key, tuple(value for _, value in group)) for key, group in groups]
        return joined[::-1] if backward else joined

    def may_delete(self, key: Any, times: tuple[int, int]) -> bool:
        """A session store decides whether removals of expired or future sessions count."""
        least, largest = times
        time = self.times.time_of(key)
        return not self.is_session or self.times.first_readable(largest) <= time <= least

    def marker(self, key: bytes, time: int) -> Any:
        return self.times.windowed(key, time)

    def record(self, key: Any, value: bytes | None, offset: int, at: int) -> ChangelogRecord:
        start, end = key.window
        inner = session_key(key.key, start, end) if self.is_session else window_key(key.key, start)
        return ChangelogRecord(inner, value, offset, at)


_WINDOW_NUMBERS = (52, 52, 41, 42, 39, 40, 38, 55, 56)
