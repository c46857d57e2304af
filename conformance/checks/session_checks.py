"""Sessions: which sessions a store holds, and which of them a search finds."""

from __future__ import annotations

from functools import partial
from typing import Any

from streamproof.conformance.check_registry import check
from streamproof.conformance.claimed_methods import in_both_directions
from streamproof.conformance.lab import CHANGELOG
from streamproof.conformance.trial import Entry, Handle, Trial, arranged
from streamproof.conformance.windowed_trial import Times
from streamproof.conformance.windows_oracle import Entries, WindowedContent, is_sorted
from streamproof.stores.windowed.keys import session_key
from streamproof.stores.windows import LONG_MAX, Window, Windowed

Puts = list[tuple[bytes, int, int]]
"""The sessions to put: keys, and the ticks at which their sessions start and end."""


def session(key: bytes, start: int, end: int) -> Windowed:
    """A key and its session."""
    return Windowed(key, Window(start, end))


def times_of(t: Trial) -> Times:
    """Times that suit the subject."""
    return Times(t.lab.subject.capabilities)


def filled(t: Trial, puts: Puts, *, commit_at: int = 0) -> tuple[Handle, WindowedContent]:
    """A store with numbered aggregates. The first ``commit_at`` of them are committed."""
    times = times_of(t)
    store = t.open_store()
    content = WindowedContent(times)
    for number, (key, start, end) in enumerate(puts):
        if commit_at and number == commit_at:
            store.commit({CHANGELOG: number})
        put = session(key, times.at(start), times.at(end))
        store.put(put, b"%d" % number)
        content.put(put, b"%d" % number)
    return store, content


def found_by(
    content: WindowedContent,
    keys: tuple[bytes | None, bytes | None] = (None, None),
    earliest_end: int = 0,
    latest_start: int = LONG_MAX,
) -> Entries:
    """The sessions that a search finds, by key, start and end."""
    low, high = keys
    return arranged(
        [
            (windowed, value)
            for windowed, value in content.entries()
            if (low is None or windowed.key >= low)
            and (high is None or windowed.key <= high)
            and windowed.window.end >= earliest_end
            and windowed.window.start <= latest_start
        ]
    )


def expect_by_end(t: Trial, found: list[Entry], *, backward: bool = False) -> None:
    """Demand that the sessions of one key come in order of their ends."""
    ends = [windowed.window.end for windowed, _ in found]
    order = "latest first" if backward else "oldest first"
    t.expect_that(
        is_sorted(ends[::-1] if backward else ends), f"entries ordered by end, the {order}", found
    )


@check("SESS-001", "SESS-002", "SESS-003")
def put_then_fetch(t: Trial) -> None:
    """Put sessions, fetch each, overwrite one, and fetch others."""
    now = times_of(t).base
    t.claim("SESS-002", "fetch a session that was never put")
    store = t.open_store()
    t.expect(store.fetch_session(b"a", now, now + 5), None)
    t.claim("SESS-001", "put sessions with the same start, and with the same end, then fetch each")
    spans = {(now, now + 5): b"1", (now, now + 6): b"2", (now + 1, now + 5): b"3"}
    for (start, end), value in spans.items():
        store.put(session(b"a", start, end), value)
    store.put(session(b"b", now, now + 5), b"4")
    for (start, end), value in spans.items():
        t.expect(store.fetch_session(b"a", start, end), value)
    t.expect(store.fetch_session(b"b", now, now + 5), b"4")
    t.claim(
        "SESS-002", "fetch sessions that differ from a put session in the key, the start or the end"
    )
    for key, start, end in (
        (b"a", now, now + 4),
        (b"a", now - 1, now + 5),
        (b"a", now + 1, now + 6),
        (b"b", now, now + 6),
        (b"c", now, now + 5),
    ):
        t.expect(store.fetch_session(key, start, end), None)
    t.claim("SESS-003", "put one session twice, then fetch it and its neighbours")
    store.put(session(b"a", now, now + 5), b"9")
    t.expect(store.fetch_session(b"a", now, now + 5), b"9")
    t.expect(store.fetch_session(b"a", now, now + 6), b"2")
    t.expect(len(store.scan("fetch", b"a")), 3)


@check("SESS-004", "SESS-005")
def remove_one_session(t: Trial) -> None:
    """Remove sessions that share the key, the start or the end with other sessions."""
    t.claim("SESS-004", "remove one of the sessions of a key, then read")
    times = times_of(t)
    now, last = times.at(0), times.at(15)
    windows = [Window(now, now + 5), Window(now, now + 6), Window(now + 1, now + 5)]
    windows.append(Window(last, last))
    store = t.open_store()
    store.put(session(b"b", now, now + 5), b"other key")
    for window in windows:
        store.put(Windowed(b"a", window), b"1")

    def expect_gone(number: int) -> None:
        gone = windows.pop(0)
        for _ in range(2):
            t.expect(store.fetch_session(b"a", *gone), None)
            found = store.scan("fetch", b"a")
            t.expect(sorted(windowed.window for windowed, _ in found), sorted(windows))
            t.expect(store.fetch_session(b"b", now, now + 5), b"other key")
            store.commit({CHANGELOG: number})

    store.remove(Windowed(b"a", windows[0]))
    expect_gone(1)
    t.claim("SESS-005", "put None into one of the sessions of a key, then read")
    store.put(Windowed(b"a", windows[0]), None)
    expect_gone(2)


@check("SESS-006")
def remove_absent_session(t: Trial) -> None:
    """Remove absent sessions."""
    t.claim("SESS-006", "remove absent sessions, then read")
    now = times_of(t).base
    store = t.open_store()
    store.remove(session(b"a", now, now + 5))
    store.put(session(b"a", now, now + 5), None)
    t.expect(store.scan("fetch", b"a"), [])
    there = session(b"a", now, now + 5)
    store.put(there, b"1")
    for key, start, end in (
        (b"a", now, now + 4),
        (b"a", now + 1, now + 5),
        (b"aa", now, now + 5),
        (b"b", now, now + 5),
    ):
        store.remove(session(key, start, end))
        t.expect(store.fetch_session(b"a", now, now + 5), b"1")
        store.put(session(key, start, end), None)
        t.expect(store.scan("fetch", b"a"), [(there, b"1")])


@check("SESS-007")
def empty_aggregate_is_a_value(t: Trial) -> None:
    """Put an empty aggregate."""
    now = times_of(t).base
    t.claim("SESS-007", "put an empty aggregate, then read it")
    store = t.open_store()
    store.put(session(b"a", now, now), b"")
    t.expect(store.fetch_session(b"a", now, now), b"")
    t.expect(store.scan("fetch", b"a"), [(session(b"a", now, now), b"")])


@check("SESS-008", "SESS-009", given=lambda g: {"puts": g.sessions()})
def sessions_of_a_key(t: Trial, puts: Puts) -> None:
    """Put sessions in any order, then fetch all sessions of a key, forward and backward."""
    t.claim("SESS-008", "fetch all sessions of a key")
    store, content = filled(t, puts, commit_at=len(puts) // 2)
    for key in sorted({key for key, _, _ in puts}):
        t.claim("SESS-008", "fetch all sessions of a key: they must come in order of their ends")
        found = store.scan("fetch", key)
        t.expect_in_any_order(found, found_by(content, (key, key)))
        expect_by_end(t, found)
        if t.has("backward_fetch"):
            t.claim("SESS-009", "fetch all sessions of a key backward")
            backward = store.scan("backward_fetch", key)
            t.expect_in_any_order(backward, found)
            expect_by_end(t, backward, backward=True)


@check("SESS-008", "SESS-009")
def sessions_of_a_key_by_example(t: Trial) -> None:
    """Fetch sessions whose starts and ends are in different orders."""
    t.claim("SESS-008", "put sessions where the first to start is the last to end, then fetch")
    puts = [(b"a", 4, 5), (b"a", 0, 15), (b"aa", 2, 3), (b"a", 1, 2), (b"b", 0, 6), (b"a", 6, 9)]
    store, content = filled(t, puts)
    expected = sorted(found_by(content, (b"a", b"a")), key=lambda entry: entry[0].window.end)
    t.expect(store.scan("fetch", b"a"), expected)
    t.expect(store.scan("find_sessions", b"a", 0, LONG_MAX), expected)
    if t.has("backward_fetch"):
        t.claim("SESS-009", "fetch the sessions of a key backward")
        t.expect(store.scan("backward_fetch", b"a"), expected[::-1])
        t.expect(store.scan("backward_find_sessions", b"a", 0, LONG_MAX), expected[::-1])


@check(
    "SESS-010",
    "SESS-011",
    "SESS-016",
    given=lambda g: {"puts": g.sessions(), "earliest": g.ticks(), "latest": g.ticks()},
)
def searches(t: Trial, puts: Puts, earliest: int, latest: int) -> None:
    """Search for sessions that end no earlier and start no later than two times."""
    t.claim("SESS-010", "find the sessions that overlap a span of time")
    times = times_of(t)
    store, content = filled(t, puts, commit_at=len(puts) // 2)
    bounds = times.at(earliest), times.at(latest)
    if earliest > latest:
        t.claim("SESS-016", "find sessions that end after one time and start before an earlier one")
    for key in sorted({key for key, _, _ in puts}):
        expected = found_by(content, (key, key), *bounds)
        found = store.scan("find_sessions", key, *bounds)
        t.expect_in_any_order(found, expected)
        expect_by_end(t, found)
        if t.has("backward_find_sessions"):
            backward = store.scan("backward_find_sessions", key, *bounds)
            t.expect_in_any_order(backward, expected)
            expect_by_end(t, backward, backward=True)


@check("SESS-010", "SESS-011", "SESS-012", "SESS-016")
def searches_by_example(t: Trial) -> None:
    """Search for the sessions that a new record would merge."""
    times = times_of(t)
    unit = max(min(100, times.can.retention_ms // 6), 1)
    t.claim("SESS-010", "find the sessions that overlap a span of time")
    store = t.open_store()
    sessions = [
        session(b"a", number * unit + (number > 0), (number + 1) * unit) for number in range(5)
    ]
    for number, each in enumerate(sessions):
        store.put(each, b"%d" % number)
    entries = [(each, b"%d" % number) for number, each in enumerate(sessions)]
    t.expect(store.scan("find_sessions", b"a", unit + unit // 2 + 1, 3 * unit), entries[1:3])
    t.expect(store.scan("find_sessions", b"a", 0, 0), entries[:1])
    t.expect(store.scan("find_sessions", b"b", 0, 5 * unit), [])
    t.claim("SESS-011", "find sessions that end at the earliest end or start at the latest start")
    t.expect(store.scan("find_sessions", b"a", 2 * unit, 2 * unit + 1), entries[1:3])
    t.expect(store.scan("find_sessions", b"a", 2 * unit + 1, 2 * unit + 1), entries[2:3])
    t.expect(store.scan("find_sessions", b"a", 2 * unit, 2 * unit), entries[1:2])
    if t.has("backward_find_sessions"):
        found = store.scan("backward_find_sessions", b"a", 2 * unit, 2 * unit + 1)
        t.expect(found, entries[1:3][::-1])
    t.claim("SESS-012", "find sessions with an earliest end before 0")
    for earliest in (-1, -LONG_MAX - 1):
        t.expect(store.scan("find_sessions", b"a", earliest, 5 * unit), entries)
        if t.has("backward_find_sessions"):
            t.expect(store.scan("backward_find_sessions", b"a", earliest, 0), entries[:1])
        if t.has("find_sessions_range"):
            t.expect(store.scan("find_sessions_range", None, None, earliest, 0), entries[:1])
        if t.has("find_sessions_between"):
            t.expect(store.scan("find_sessions_between", earliest, unit), entries[:1])
            t.expect(store.scan("find_sessions_between", earliest, -1), [])
    t.claim("SESS-016", "find sessions with a latest start long before the earliest end")
    t.expect(store.scan("find_sessions", b"a", 4 * unit, 2 * unit), [])


@check("SESS-013", "SESS-016")
def searches_by_end(t: Trial) -> None:
    """Search for the sessions of all keys that end between two times."""
    t.require("find_sessions_between")
    t.claim("SESS-013", "find the sessions of all keys that end between two times")
    times = times_of(t)
    puts = [(b"a", 0, 0), (b"b", 1, 6), (b"c", 2, 15)]
    store, content = filled(t, puts)
    first, second, third = content.entries()
    low, middle, high = times.at(0), times.at(6), times.at(15)
    for earliest, latest, expected in (
        (low, middle, [first, second]),
        (low, middle - 1, [first]),
        (low + 1, middle, [second]),
        (middle - 1, high + 1, [second, third]),
        (low, high, [first, second, third]),
        (high, LONG_MAX, [third]),
        (high + 1, LONG_MAX, []),
    ):
        t.expect(store.scan("find_sessions_between", earliest, latest), expected)
    t.claim("SESS-016", "find the sessions that end between a time and an earlier one")
    t.expect(store.scan("find_sessions_between", high, low), [])


@check(
    "SESS-014",
    "SESS-015",
    "SESS-016",
    given=lambda g: {
        "puts": g.sessions(),
        "keys": g.key_ranges(),
        "earliest": g.ticks(),
        "latest": g.ticks(),
    },
)
def key_ranges(
    t: Trial, puts: Puts, keys: tuple[bytes | None, bytes | None], earliest: int, latest: int
) -> None:
    """Put sessions of several keys, then fetch and search a range of keys."""
    t.require("fetch_range")
    low, high = keys
    if low is not None and high is not None and low > high:
        t.claim("SESS-016", "read a range of keys whose lower bound is above the upper one")
    elif None in keys:
        t.claim("SESS-015", "read a range of keys that is open on one side")
    else:
        t.claim("SESS-014", "read a range of keys")
    times = times_of(t)
    store, content = filled(t, puts, commit_at=len(puts) // 2)
    bounds = times.at(earliest), times.at(latest)
    for method in filter(t.has, in_both_directions("fetch_range")):
        t.expect_in_any_order(store.scan(method, low, high), found_by(content, keys))
    for method in filter(t.has, in_both_directions("find_sessions_range")):
        found = store.scan(method, low, high, *bounds)
        t.expect_in_any_order(found, found_by(content, keys, *bounds))


@check("SESS-014", "SESS-015", "SESS-016")
def key_ranges_by_example(t: Trial) -> None:
    """Fetch and search ranges of keys that end at existing keys and next to them."""
    t.require("fetch_range")
    t.claim("SESS-014", "read ranges that end exactly at existing keys")
    times = times_of(t)
    puts = [(b"a", 0, 2), (b"a", 4, 6), (b"b", 1, 15), (b"c", 3, 3), (b"\xff", 6, 9)]
    store, content = filled(t, puts)
    bounds = times.at(3), times.at(5)
    for keys in ((b"a", b"c"), (b"b", b"b"), (b"aa", b"bb"), (b"c", b"\xff")):
        t.expect_in_any_order(store.scan("fetch_range", *keys), found_by(content, keys))
        found = store.scan("find_sessions_range", *keys, *bounds)
        t.expect_in_any_order(found, found_by(content, keys, *bounds))
    t.claim("SESS-015", "read ranges of keys that are open on one side")
    for open_keys in ((None, b"b"), (b"b", None), (None, None)):
        t.expect_in_any_order(store.scan("fetch_range", *open_keys), found_by(content, open_keys))
        found = store.scan("find_sessions_range", *open_keys, *bounds)
        t.expect_in_any_order(found, found_by(content, open_keys, *bounds))
    t.claim("SESS-016", "read a range of keys whose lower bound is above the upper one")
    t.expect(store.scan("fetch_range", b"c", b"a"), [])
    t.expect(store.scan("find_sessions_range", b"c", b"a", 0, LONG_MAX), [])
    if t.has("backward_fetch_range"):
        t.expect(store.scan("backward_fetch_range", b"c", b"a"), [])


@check("SESS-017")
def range_of_one_key(t: Trial) -> None:
    """Read single keys, and ranges from each key to itself."""
    t.claim("SESS-017", "read a single key, and the range from the key to itself")
    times = times_of(t)
    keys = (b"a", b"aa", b"a\x00", b"b")
    store, content = filled(t, [(key, 0, end) for end in (9, 0, 4) for key in keys])
    bounds = times.at(3), times.at(5)
    for key in (*keys, b"c"):
        expected = found_by(content, (key, key))
        t.expect(store.scan("fetch", key), expected)
        t.expect(store.scan("fetch_range", key, key), expected)
        if t.has("backward_fetch_range"):
            t.expect(store.scan("backward_fetch_range", key, key), expected[::-1])
        expected = found_by(content, (key, key), *bounds)
        t.expect(store.scan("find_sessions", key, *bounds), expected)
        t.expect(store.scan("find_sessions_range", key, key, *bounds), expected)


@check("SESS-018", "SESS-019")
def declared_order(t: Trial) -> None:
    """Read several keys with sessions in several segments, forward and backward."""
    capabilities = t.lab.subject.capabilities
    by = "end" if capabilities.scan_order == "time" else "segment and key"
    t.claim("SESS-019", f"read several keys in the declared order: by {by}")
    puts = [(key, 0, tick) for tick in (11, 0, 15, 6, 3) for key in (b"b", b"c", b"a")]
    store, content = filled(t, puts)
    expected = content.entries()
    if t.has("find_sessions_between"):
        t.expect(store.scan("find_sessions_between", 0, LONG_MAX), expected)
    if t.has("fetch_range"):
        t.expect(store.scan("fetch_range", None, None), expected)
        t.expect(store.scan("find_sessions_range", b"a", b"c", 0, LONG_MAX), expected)
    if not t.has("backward_fetch_range"):
        return
    t.claim("SESS-018", "read several keys backward")
    t.expect(store.scan("backward_fetch_range", None, None), expected[::-1])
    found = store.scan("backward_find_sessions_range", b"a", b"c", 0, LONG_MAX)
    t.expect(found, expected[::-1])


@check("SESS-020")
def keys_are_exact(t: Trial) -> None:
    """Fetch keys that start with another key, or with another key followed by times."""
    t.claim("SESS-020", "put keys that resemble each other, then fetch each of them")
    times = times_of(t)
    now, last = times.at(0), times.at(15)
    whole = session_key(b"a", now, last)
    keys = [b"a", b"aa", b"a\x00", b"a\x00\x00", b"a\xff", b"ab", b"\x00", b"\x00\x00"]
    keys += [b"\xff", b"\xff\xff", whole, whole[:-8], whole[:-1], session_key(b"\x00", now, now)]
    store = t.open_store()
    content = WindowedContent(times)
    for number, key in enumerate(keys):
        for start, end in ((now, now), (now, last), (last, last)):
            put = session(key, start, end)
            store.put(put, b"%d/%d" % (number, start))
            content.put(put, b"%d/%d" % (number, start))
    for key in keys:
        expected = found_by(content, (key, key))
        t.expect_in_any_order(store.scan("fetch", key), expected)
        t.expect_in_any_order(store.scan("find_sessions", key, now, last), expected)
        t.expect(store.scan("find_sessions", key, now, now - 1), [])
        t.expect(store.fetch_session(key, now, last), expected[1][1])
    if not t.has("fetch_range"):
        return
    t.claim("SESS-020", "read ranges whose bounds are prefixes of existing keys")
    for low, high in ((b"a", b"aa"), (b"a", b"a\x00"), (b"", b"a"), (b"\x00", b"a"), (b"aa", b"b")):
        t.expect_in_any_order(store.scan("fetch_range", low, high), found_by(content, (low, high)))


@check("SESS-021")
def old_starts(t: Trial) -> None:
    """Put sessions that started long ago and end within the retention."""
    t.claim("SESS-021", "put sessions that started long before the retention, then read them")
    times = times_of(t)
    stream = 4 * times.can.retention_ms + 12 * times.interval_ms
    readable = times.first_readable(stream)
    store = t.open_store()
    store.put(session(b"new", stream, stream), b"1")
    long_ago = [session(b"a", 0, readable), session(b"a", 1, stream - 1)]
    for each in long_ago:
        store.put(each, b"2")
    expected = [(each, b"2") for each in long_ago]
    for number in range(2):
        t.expect(store.scan("fetch", b"a"), expected)
        t.expect(store.scan("find_sessions", b"a", 0, 0), expected[:1])
        t.expect(store.scan("find_sessions", b"a", readable + 1, 1), expected[1:])
        for each in long_ago:
            t.expect(store.fetch_session(b"a", *each.window), b"2")
        store.commit({CHANGELOG: number})


@check("SESS-022")
def end_of_time(t: Trial) -> None:
    """Put sessions that end just before the end of time."""
    t.claim("SESS-022", "put sessions that end at the end of time, then read them")
    store = t.open_store()
    sessions = [
        session(b"a", LONG_MAX - 3, LONG_MAX - 2),
        session(b"a", LONG_MAX - 1, LONG_MAX - 1),
        session(b"a", 0, LONG_MAX),
    ]
    for number, each in enumerate(sessions):
        store.put(each, b"%d" % number)
    entries = [(each, b"%d" % number) for number, each in enumerate(sessions)]
    t.expect(store.scan("fetch", b"a"), entries)
    if t.has("backward_fetch"):
        t.expect(store.scan("backward_fetch", b"a"), entries[::-1])
    t.expect(store.scan("find_sessions", b"a", LONG_MAX, LONG_MAX), entries[2:])
    t.expect(store.scan("find_sessions", b"a", LONG_MAX - 1, LONG_MAX), entries[1:])
    if t.has("find_sessions_between"):
        t.expect(store.scan("find_sessions_between", LONG_MAX - 1, LONG_MAX), entries[1:])
    if t.has("find_sessions_range"):
        t.expect(store.scan("find_sessions_range", None, b"b", 0, LONG_MAX), entries)
    t.expect(store.fetch_session(b"a", 0, LONG_MAX), b"2")


@check("SESS-044", "SESS-045")
def bad_input(t: Trial) -> None:
    """Pass None for a key, and put sessions that end before they start."""
    now = times_of(t).base
    t.claim("SESS-044", "pass None for the key")
    store = t.open_store()
    null_key: Any = None
    t.expect_raises(lambda: store.put(session(null_key, 0, now), b"1"), "put of a None key raises")
    t.expect_raises(lambda: store.remove(session(null_key, 0, now)), "remove of a None key raises")
    t.expect_raises(lambda: store.fetch_session(None, 0, now), "fetch_session(None, …) raises")
    for method, arguments in (("fetch", ()), ("find_sessions", (0, now))):
        for name in filter(t.has, in_both_directions(method)):
            t.expect_raises(partial(store.scan, name, None, *arguments), f"{name}(None, …) raises")
    t.claim("SESS-045", "put sessions that end before they start, or start before 0")
    for start, end in ((now, now - 1), (-1, now), (-2, -1)):
        bad = session(b"a", start, end)
        t.expect_raises(partial(store.put, bad, b"1"), "put of a bad session raises")
    t.claim("SESS-045", "read after bad sessions were refused")
    t.expect(store.scan("find_sessions", b"a", -1, LONG_MAX), [])
    store.put(session(b"a", now, now), b"2")
    t.expect(store.scan("fetch", b"a"), [(session(b"a", now, now), b"2")])


@check("SESS-046")
def closed_store(t: Trial) -> None:
    """Call every method of a closed session store."""
    now = times_of(t).base
    t.claim("SESS-046", "use a store after it was closed")
    store = t.open_store()
    store.put(session(b"a", now, now), b"1")
    store.close()
    t.expect_raises(lambda: store.put(session(b"a", now, now), b"2"), "put raises")
    t.expect_raises(lambda: store.remove(session(b"a", now, now)), "remove raises")
    t.expect_raises(lambda: store.fetch_session(b"a", now, now), "fetch_session raises")
    scans: list[tuple[str, tuple[bytes | int | None, ...]]] = [
        ("fetch", (b"a",)),
        ("fetch_range", (None, None)),
        ("find_sessions", (b"a", 0, now)),
        ("find_sessions_range", (b"a", b"b", 0, now)),
    ]
    scans += [(f"backward_{method}", arguments) for method, arguments in scans]
    for method, arguments in [*scans, ("find_sessions_between", (0, now))]:
        if t.has(method):
            t.expect_raises(partial(store.scan, method, *arguments), f"{method} raises")
