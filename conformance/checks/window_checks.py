"""Windows: which windows a store holds, and which of them a fetch finds."""

from __future__ import annotations

from functools import partial

from streamproof.conformance.check_registry import check
from streamproof.conformance.claimed_methods import in_both_directions
from streamproof.conformance.lab import CHANGELOG
from streamproof.conformance.trial import Entry, Handle, Trial
from streamproof.conformance.windowed_trial import Times
from streamproof.conformance.windows_oracle import Entries, WindowedContent
from streamproof.stores.windowed.keys import window_key
from streamproof.stores.windows import LONG_MAX, Window, Windowed

Puts = list[tuple[bytes, int]]
"""The windows to put: keys, and the ticks at which their windows start."""


def times_of(t: Trial) -> Times:
    """Times that suit the subject."""
    return Times(t.lab.subject.capabilities)


def filled(t: Trial, puts: Puts, *, commit_at: int = 0) -> tuple[Handle, WindowedContent]:
    """A store with numbered values. The first ``commit_at`` of them are committed."""
    times = times_of(t)
    store = t.open_store()
    content = WindowedContent(times)
    for number, (key, tick) in enumerate(puts):
        if commit_at and number == commit_at:
            store.commit({CHANGELOG: number})
        start = times.at(tick)
        store.put(key, b"%d" % number, start)
        content.put(times.windowed(key, start), b"%d" % number)
    return store, content


def within(
    content: WindowedContent,
    keys: tuple[bytes | None, bytes | None],
    starts: tuple[int, int],
) -> Entries:
    """The entries whose keys and window starts lie within inclusive bounds."""
    low, high = keys
    return [
        (windowed, value)
        for windowed, value in content.entries()
        if (low is None or windowed.key >= low)
        and (high is None or windowed.key <= high)
        and starts[0] <= windowed.window.start <= starts[1]
    ]


def of_key(entries: Entries) -> list[Entry]:
    """The entries of one key, in the form that a fetch of that key yields."""
    return [(windowed.window.start, value) for windowed, value in entries]


def expect_oldest_first(t: Trial, found: list[Entry], expected: list[Entry]) -> None:
    """Demand the windows of one key. A wrong order alone breaks the promise on the order."""
    t.expect_in_any_order(found, expected)
    tried, requirement = t.tried, t.requirement
    t.claim("WIN-008", f"{tried}; they must come oldest first")
    t.expect(found, expected)
    t.claim(requirement, tried)


@check("WIN-001", "WIN-002", "WIN-003")
def put_then_fetch(t: Trial) -> None:
    """Put windows, fetch each, overwrite one, and fetch others."""
    now = times_of(t).base
    t.claim("WIN-002", "fetch a window that was never put")
    store = t.open_store()
    t.expect(store.fetch(b"a", now), None)
    t.claim("WIN-001", "put windows of two keys, then fetch each")
    store.put(b"a", b"1", now)
    store.put(b"a", b"2", now + 1)
    store.put(b"b", b"3", now)
    t.expect(store.fetch(b"a", now), b"1")
    t.expect(store.fetch(b"a", now + 1), b"2")
    t.expect(store.fetch(b"b", now), b"3")
    t.claim("WIN-002", "fetch windows next to those that were put")
    for key, start in ((b"a", now - 1), (b"a", now + 2), (b"b", now + 1), (b"c", now)):
        t.expect(store.fetch(key, start), None)
    t.claim("WIN-003", "put one window twice, then fetch it and its neighbours")
    store.put(b"a", b"9", now)
    t.expect(store.fetch(b"a", now), b"9")
    t.expect(store.fetch(b"a", now + 1), b"2")
    t.expect(store.scan("fetch_between", b"a", now, now + 1), [(now, b"9"), (now + 1, b"2")])


@check("WIN-004")
def delete_one_window(t: Trial) -> None:
    """Delete one of three windows of a key."""
    t.claim("WIN-004", "delete one of three windows of a key, then read")
    times = times_of(t)
    first, second, last = times.at(0), times.at(7), times.at(15)
    store = t.open_store()
    for start, value in ((first, b"1"), (second, b"2"), (last, b"3")):
        store.put(b"a", value, start)
    store.put(b"b", b"4", second)
    store.put(b"a", None, second)
    expected = [(first, b"1"), (last, b"3")]
    for number in range(2):
        t.expect(store.fetch(b"a", second), None)
        t.expect(store.scan("fetch_between", b"a", first, last), expected)
        t.expect(store.fetch(b"b", second), b"4")
        store.commit({CHANGELOG: number})
    t.claim("WIN-004", "put a deleted window again, then fetch it")
    store.put(b"a", b"5", second)
    t.expect(store.fetch(b"a", second), b"5")


@check("WIN-005")
def delete_absent_window(t: Trial) -> None:
    """Delete absent windows."""
    t.claim("WIN-005", "put None into absent windows, then read")
    now = times_of(t).base
    store = t.open_store()
    store.put(b"a", None, now)
    t.expect(store.scan("fetch_between", b"a", 0, LONG_MAX), [])
    if t.has("all"):
        t.expect(store.scan("all"), [])
    store.put(b"a", b"1", now)
    for key, start in ((b"a", now + 1), (b"a", now - 1), (b"aa", now), (b"b", now)):
        store.put(key, None, start)
        t.expect(store.fetch(b"a", now), b"1")
        t.expect(store.scan("fetch_between", b"a", now - 1, now + 1), [(now, b"1")])


@check("WIN-006")
def empty_value_is_a_value(t: Trial) -> None:
    """Put an empty value into a window."""
    now = times_of(t).base
    t.claim("WIN-006", "put an empty value into a window, then read it")
    store = t.open_store()
    store.put(b"a", b"", now)
    t.expect(store.fetch(b"a", now), b"")
    t.expect(store.scan("fetch_between", b"a", now, now), [(now, b"")])


@check(
    "WIN-007",
    "WIN-008",
    "WIN-009",
    given=lambda g: {"puts": g.windows(), "first": g.ticks(), "last": g.ticks()},
)
def time_ranges(t: Trial, puts: Puts, first: int, last: int) -> None:
    """Put windows in any order, then fetch the windows of a key between two times."""
    t.claim("WIN-007", "fetch the windows of a key between two times")
    times = times_of(t)
    store, content = filled(t, puts, commit_at=len(puts) // 2)
    bounds = times.at(first), times.at(last)
    for key in sorted({key for key, _ in puts}):
        t.claim("WIN-007", "fetch the windows of a key between two times")
        expected = of_key(within(content, (key, key), bounds))
        expect_oldest_first(t, store.scan("fetch_between", key, *bounds), expected)
        if t.has("backward_fetch_between"):
            t.claim("WIN-009", "fetch the windows of a key backward")
            t.expect(store.scan("backward_fetch_between", key, *bounds), expected[::-1])


@check("WIN-007", "WIN-008", "WIN-009", "WIN-012")
def time_ranges_by_example(t: Trial) -> None:
    """Fetch time ranges that end at, before and after existing windows."""
    times = times_of(t)
    t.claim("WIN-007", "fetch time ranges that end exactly at the starts of windows")
    store, content = filled(t, [(b"a", 5), (b"a", 0), (b"b", 2), (b"a", 2), (b"a", 3)])
    at = times.at
    for first, last in ((0, 5), (1, 4), (2, 3), (2, 2), (0, 0), (4, 4), (6, 7), (3, 15)):
        expected = of_key(within(content, (b"a", b"a"), (at(first), at(last))))
        expect_oldest_first(t, store.scan("fetch_between", b"a", at(first), at(last)), expected)
    t.expect(store.scan("fetch_between", b"a", 0, at(0) - 1), [])
    everything = of_key(within(content, (b"a", b"a"), (0, at(15))))
    if t.has("backward_fetch_between"):
        t.claim("WIN-009", "fetch time ranges backward")
        t.expect(store.scan("backward_fetch_between", b"a", 0, at(15)), everything[::-1])
        t.expect(store.scan("backward_fetch_between", b"a", at(1), at(4)), everything[::-1][1:3])
    t.claim("WIN-012", "fetch a time range whose end is before its start")
    for method in filter(t.has, in_both_directions("fetch_between")):
        t.expect(store.scan(method, b"a", at(3), at(2)), [])
    if t.has("fetch_all"):
        t.expect(store.scan("fetch_all", at(6), at(2)), [])


@check(
    "WIN-010",
    "WIN-011",
    "WIN-012",
    given=lambda g: {
        "puts": g.windows(),
        "keys": g.key_ranges(),
        "first": g.ticks(),
        "last": g.ticks(),
    },
)
def key_ranges(
    t: Trial, puts: Puts, keys: tuple[bytes | None, bytes | None], first: int, last: int
) -> None:
    """Put windows of several keys, then fetch a range of keys between two times."""
    t.require("fetch_range")
    times = times_of(t)
    starts = times.at(first), times.at(last)
    low, high = keys
    if first > last or (low is not None and high is not None and low > high):
        t.claim("WIN-012", "fetch a range of keys or times whose end is before its start")
    elif None in keys:
        t.claim("WIN-011", "fetch a range of keys that is open on one side, between two times")
    else:
        t.claim("WIN-010", "fetch a range of keys between two times")
    store, content = filled(t, puts, commit_at=len(puts) // 2)
    expected = within(content, keys, starts)
    t.expect_in_any_order(store.scan("fetch_range", low, high, *starts), expected)
    if t.has("backward_fetch_range"):
        backward = store.scan("backward_fetch_range", low, high, *starts)[::-1]
        t.expect_in_any_order(backward, expected)


@check("WIN-010", "WIN-011", "WIN-012")
def key_ranges_by_example(t: Trial) -> None:
    """Fetch ranges of keys and times that end at existing windows and next to them."""
    t.require("fetch_range")
    times = times_of(t)
    t.claim("WIN-010", "fetch ranges that end exactly at existing keys and windows")
    puts = [(b"a", 0), (b"a", 6), (b"b", 2), (b"c", 4), (b"c", 15), (b"\xff", 6)]
    store, content = filled(t, puts)
    at = times.at
    everything = (at(0), at(15))
    for low, high in ((b"a", b"c"), (b"b", b"b"), (b"aa", b"bb"), (b"c", b"\xff")):
        for starts in (everything, (at(2), at(6)), (at(3), at(3))):
            expected = within(content, (low, high), starts)
            t.expect_in_any_order(store.scan("fetch_range", low, high, *starts), expected)
    t.claim("WIN-011", "fetch ranges of keys that are open on one side")
    for keys in ((None, b"b"), (b"b", None), (None, None)):
        for starts in (everything, (at(1), at(4))):
            expected = within(content, keys, starts)
            t.expect_in_any_order(store.scan("fetch_range", *keys, *starts), expected)
    t.claim("WIN-012", "fetch ranges whose end is before their start")
    t.expect(store.scan("fetch_range", b"c", b"a", *everything), [])
    t.expect(store.scan("fetch_range", None, None, at(6), at(2)), [])


@check("WIN-013")
def range_of_one_key(t: Trial) -> None:
    """Fetch single keys, and ranges from each key to itself."""
    t.claim("WIN-013", "fetch a single key, and the range from the key to itself")
    times = times_of(t)
    puts = [(key, tick) for tick in (9, 0, 4) for key in (b"a", b"aa", b"a\x00", b"b")]
    store, content = filled(t, puts)
    for key in (b"a", b"aa", b"a\x00", b"b", b"c"):
        for starts in ((times.at(0), times.at(15)), (times.at(3), times.at(8))):
            expected = within(content, (key, key), starts)
            t.expect(store.scan("fetch_between", key, *starts), of_key(expected))
            t.expect(store.scan("fetch_range", key, key, *starts), expected)
            if t.has("backward_fetch_range"):
                found = store.scan("backward_fetch_range", key, key, *starts)
                t.expect(found, expected[::-1])


@check("WIN-015", given=lambda g: {"puts": g.windows(), "first": g.ticks(), "last": g.ticks()})
def everything_is_found(t: Trial, puts: Puts, first: int, last: int) -> None:
    """Read all windows of all keys, and all windows between two times."""
    t.claim("WIN-015", "read all windows of all keys, and all windows between two times")
    times = times_of(t)
    starts = times.at(first), times.at(last)
    store, content = filled(t, puts, commit_at=len(puts) // 2)
    t.expect_in_any_order(store.scan("all"), content.entries())
    expected = within(content, (None, None), starts)
    t.expect_in_any_order(store.scan("fetch_all", *starts), expected)


@check("WIN-014", given=lambda g: {"puts": g.windows()})
def backward_is_the_mirror(t: Trial, puts: Puts) -> None:
    """Read several keys forward and backward."""
    t.claim("WIN-014", "read several keys forward and backward, which must be mirror images")
    times = times_of(t)
    store, content = filled(t, puts, commit_at=len(puts) // 2)
    starts = times.at(1), times.at(12)
    scans: list[tuple[str, tuple[bytes | int | None, ...]]] = [
        ("all", ()),
        ("fetch_all", starts),
        ("fetch_range", (None, None, *starts)),
        ("fetch_range", (b"a", b"b", 0, times.at(15))),
    ]
    for method, arguments in scans:
        if t.has(method):
            forward = store.scan(method, *arguments)
            t.expect(store.scan(f"backward_{method}", *arguments), forward[::-1])
    if t.has("all"):
        t.expect_in_any_order(store.scan("backward_all")[::-1], content.entries())


@check("WIN-016")
def declared_order(t: Trial) -> None:
    """Read several keys with windows in several segments, and look at the order."""
    capabilities = t.lab.subject.capabilities
    by = "start" if capabilities.scan_order == "time" else "segment and key"
    t.claim("WIN-016", f"read several keys in the declared order: by {by}")
    times = times_of(t)
    puts = [(key, tick) for tick in (11, 0, 15, 6, 3) for key in (b"b", b"c", b"a")]
    store, content = filled(t, puts)
    expected = content.entries()
    if t.has("all"):
        t.expect(store.scan("all"), expected)
    if t.has("backward_all"):
        t.expect(store.scan("backward_all"), expected[::-1])
    if t.has("fetch_range"):
        t.expect(store.scan("fetch_range", None, None, 0, times.at(15)), expected)
        some = within(content, (b"a", b"b"), (times.at(3), times.at(11)))
        t.expect(store.scan("fetch_range", b"a", b"b", times.at(3), times.at(11)), some)


@check("WIN-017")
def keys_are_exact(t: Trial) -> None:
    """Fetch keys that start with another key, or with another key followed by a time."""
    t.claim("WIN-017", "put keys that resemble each other, then fetch each of them")
    times = times_of(t)
    now, last = times.at(0), times.at(15)
    keys = [
        b"a",
        b"aa",
        b"a\x00",
        b"a\x00\x00",
        b"a\xff",
        b"ab",
        b"\x00",
        b"\x00\x00",
        b"\xff",
        b"\xff\xff",
        window_key(b"a", now),
        window_key(b"a", now)[:-4],
        window_key(b"a", last)[:-1],
        window_key(b"\x00", now),
    ]
    store = t.open_store()
    content = WindowedContent(times)
    for number, key in enumerate(keys):
        for start in (now, now + 1, last):
            value = b"%d/%d" % (number, start)
            store.put(key, value, start)
            content.put(times.windowed(key, start), value)
    for key in keys:
        expected = within(content, (key, key), (now, last))
        t.expect(store.scan("fetch_between", key, now, last), of_key(expected))
        t.expect(store.scan("fetch_between", key, now + 1, now + 1), of_key(expected[1:2]))
        if t.has("fetch_range"):
            t.expect(store.scan("fetch_range", key, key, now, last), expected)
        if not times.can.retain_duplicates:
            t.expect(store.fetch(key, now), expected[0][1])
    if not t.has("fetch_range"):
        return
    t.claim("WIN-017", "fetch ranges whose bounds are prefixes of existing keys")
    for low, high in ((b"a", b"aa"), (b"a", b"a\x00"), (b"", b"a"), (b"\x00", b"a"), (b"aa", b"b")):
        expected = within(content, (low, high), (now, last))
        t.expect_in_any_order(store.scan("fetch_range", low, high, now, last), expected)


@check("WIN-018")
def window_ends(t: Trial) -> None:
    """Look at the ends of the windows that scans yield."""
    t.claim("WIN-018", "read windows of several keys and look at their starts and ends")
    size = t.lab.subject.capabilities.window_size_ms
    times = times_of(t)
    store, _ = filled(t, [(b"a", 0), (b"b", 15)])
    first, last = (
        Windowed(key, Window(start, start + size))
        for key, start in ((b"a", times.at(0)), (b"b", times.at(15)))
    )
    expected = [(first, b"0"), (last, b"1")]
    for method, arguments in (("all", ()), ("fetch_range", (b"a", b"b", 0, times.at(15)))):
        if t.has(method):
            t.expect(store.scan(method, *arguments), expected)
        if t.has(f"backward_{method}"):
            t.expect(store.scan(f"backward_{method}", *arguments), expected[::-1])


@check("WIN-019")
def end_of_time(t: Trial) -> None:
    """Put windows that start just before the end of time."""
    t.claim("WIN-019", "put windows that start just before the end of time, then read them")
    times = times_of(t)
    size = times.can.window_size_ms
    # A window that starts at the end of time would be empty, and Kafka's TimeWindow refuses that.
    late = {LONG_MAX - size - 1, LONG_MAX - 2, LONG_MAX - 1}
    starts = sorted(start for start in late if start >= times.first_readable(LONG_MAX))
    store = t.open_store()
    for start in starts:
        store.put(b"a", b"%d" % start, start)
    expected = [(start, b"%d" % start) for start in starts]
    t.expect(store.scan("fetch_between", b"a", 0, LONG_MAX), expected)
    if t.has("backward_fetch_between"):
        t.expect(store.scan("backward_fetch_between", b"a", 0, LONG_MAX), expected[::-1])
    t.expect(store.scan("fetch_between", b"a", LONG_MAX - 1, LONG_MAX), expected[-1:])
    windows = [
        (Windowed(b"a", Window(start, min(start + size, LONG_MAX))), value)
        for start, value in expected
    ]
    if t.has("all"):
        t.expect(store.scan("all"), windows)
        t.expect(store.scan("fetch_all", 0, LONG_MAX), windows)
    if t.has("backward_all"):
        t.expect(store.scan("backward_all"), windows[::-1])
    if t.has("fetch_range"):
        t.expect(store.scan("fetch_range", b"a", None, LONG_MAX - 1, LONG_MAX), windows[-1:])


@check("WIN-020")
def before_time(t: Trial) -> None:
    """Fetch between times, some of which are negative."""
    t.claim("WIN-020", "fetch from a time before 0")
    store = t.open_store()
    store.put(b"a", b"1", 0)
    store.put(b"a", b"2", 1)
    for early in (-1, -LONG_MAX - 1):
        t.expect(store.scan("fetch_between", b"a", early, 1), [(0, b"1"), (1, b"2")])
        if t.has("backward_fetch_between"):
            t.expect(store.scan("backward_fetch_between", b"a", early, 0), [(0, b"1")])
        if t.has("fetch_range"):
            t.expect(len(store.scan("fetch_range", None, None, early, 1)), 2)
        t.expect(store.scan("fetch_between", b"a", early, -1), [])
        if t.has("fetch_all"):
            t.expect(len(store.scan("fetch_all", early, 0)), 1)
            t.expect(store.scan("fetch_all", early, -1), [])


@check("WIN-021")
def windows_across_segments(t: Trial) -> None:
    """Read one key's windows in several segments, some committed and some not."""
    t.claim("WIN-021", "put windows over the whole retention, then fetch across all of it")
    times = times_of(t)
    ticks = (15, 3, 12, 4, 9, 0)
    store, content = filled(t, [(b"a", tick) for tick in ticks], commit_at=3)
    for first, last in ((0, 15), (3, 4), (4, 12), (9, 15)):
        starts = times.at(first), times.at(last)
        expected = of_key(within(content, (b"a", b"a"), starts))
        t.expect(store.scan("fetch_between", b"a", *starts), expected)
        if t.has("backward_fetch_between"):
            t.expect(store.scan("backward_fetch_between", b"a", *starts), expected[::-1])
    for tick, value in ((3, b"1"), (4, b"3"), (15, b"0")):
        found = store.scan("fetch_between", b"a", times.at(tick), times.at(tick))
        t.expect(found, [(times.at(tick), value)])


@check("WIN-022", "WIN-023")
def bad_input(t: Trial) -> None:
    """Pass None for a key, and put windows that start before 0."""
    now = times_of(t).base
    t.claim("WIN-022", "pass None for the key")
    store = t.open_store()
    t.expect_raises(lambda: store.put(None, b"1", now), "put(None, …) raises")
    if not t.lab.subject.capabilities.retain_duplicates:
        t.expect_raises(lambda: store.fetch(None, now), "fetch(None, …) raises")
    for method in filter(t.has, in_both_directions("fetch_between")):
        t.expect_raises(partial(store.scan, method, None, 0, now), f"{method}(None, …) raises")
    t.claim("WIN-023", "put a window that starts before 0")
    t.expect_raises(lambda: store.put(b"a", b"1", -1), "put at -1 raises")
    t.claim("WIN-023", "read after a window that starts before 0 was refused")
    t.expect(store.scan("fetch_between", b"a", -1, now), [])
    store.put(b"a", b"2", now)
    t.expect(store.scan("fetch_between", b"a", -1, now), [(now, b"2")])


@check("WIN-024")
def closed_store(t: Trial) -> None:
    """Call every method of a closed window store."""
    now = times_of(t).base
    t.claim("WIN-024", "use a store after it was closed")
    store = t.open_store()
    store.put(b"a", b"1", now)
    store.close()
    t.expect_raises(lambda: store.put(b"a", b"2", now), "put raises")
    t.expect_raises(lambda: store.fetch(b"a", now), "fetch raises")
    scans: list[tuple[str, tuple[bytes | int | None, ...]]] = [
        ("fetch_between", (b"a", 0, now)),
        ("fetch_range", (None, None, 0, now)),
        ("fetch_all", (0, now)),
        ("all", ()),
    ]
    for method, arguments in scans:
        for name in filter(t.has, in_both_directions(method)):
            t.expect_raises(partial(store.scan, name, *arguments), f"{name} raises")
