"""Timestamps: stores that keep a timestamp with each value (KIP-258)."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from streamproof.conformance.check_registry import check
from streamproof.conformance.generators import Generators
from streamproof.conformance.lab import CHANGELOG, ChangelogRecord, IsolationLevel
from streamproof.conformance.trial import Handle, Trial
from streamproof.conformance.violations import Skipped
from streamproof.conformance.windowed_trial import Times
from streamproof.stores.api import NO_TIMESTAMP
from streamproof.stores.timestamps import ValueAndTimestamp
from streamproof.stores.windows import LONG_MAX, Windowed

Timed = tuple[bytes, int] | None

EDGES = (NO_TIMESTAMP, 0, 1, 255, 256, 2**31, 1_700_000_000_000, 2**63 - 1)
"""Timestamps that an encoding may get wrong."""

LIKE_TIMESTAMPS = (
    b"\xff" * 8 + b"value",
    (1_700_000_000_000).to_bytes(8, "big") + b"value",
    (1_700_000_000_000).to_bytes(8, "big"),
    b"\x00" * 8,
    b"\x00" * 16,
)
"""Values that begin like a stored timestamp."""


def timestamps() -> SearchStrategy[int]:
    """A timestamp, in milliseconds; small ones collide."""
    return st.one_of(st.sampled_from(EDGES), st.integers(0, 2**40))


def writes(g: Generators) -> SearchStrategy[list[tuple[bytes, bytes | None, int]]]:
    """Puts and, with the value ``None``, deletes, with timestamps."""
    keys = st.sampled_from(g.edge_keys[:6])
    return st.lists(
        st.tuples(keys, st.one_of(st.none(), g.values()), timestamps()), min_size=1, max_size=8
    )


def timed(answer: Any) -> Timed:
    """An answer of the subject as a plain pair."""
    return None if answer is None else (answer[0], answer[1])


def expect_timed(t: Trial, store: Handle, key: bytes, expected: Timed) -> None:
    """Demand a value and its timestamp."""
    t.expect(timed(store.get_with_timestamp(key)), expected)


def folded(writes: list[tuple[bytes, bytes | None, int]]) -> dict[bytes, Timed]:
    """The content that the last write of each key leaves."""
    return {key: None if value is None else (value, at) for key, value, at in writes}


@check("TS-001", "TS-002", given=lambda g: {"writes": writes(g)})
def round_trip(t: Trial, writes: list[tuple[bytes, bytes | None, int]]) -> None:
    """Put values with timestamps, and read them."""
    store = t.open()
    for key, value, at in writes:
        store.put_with_timestamp(key, value, at)
    for key, expected in folded(writes).items():
        t.claim("TS-001", "put a value with a timestamp, and read both")
        expect_timed(t, store, key, expected)
        t.claim("TS-002", "put a value with a timestamp, and read the value without it")
        t.expect(store.get(key), None if expected is None else expected[0])


@check("TS-002")
def plain_answers(t: Trial) -> None:
    """Call the plain methods that write a value and return the one from before."""
    store = t.open()
    expect_plain_answers(t, store)
    if t.lab.subject.capabilities.explicit_transactions:
        expect_plain_answers(t, store.begin())


def expect_plain_answers(t: Trial, store: Handle) -> None:
    """Demand that the plain methods of a store or a transaction return values alone."""
    t.claim("TS-002", "put a value with a timestamp, and get it back with the plain methods")
    store.put_with_timestamp(b"a", b"1", 10)
    t.expect(store.get(b"a"), b"1")
    t.expect(store.put_if_absent(b"a", b"2"), b"1")
    t.expect(store.delete(b"a"), b"1")
    t.expect(store.get(b"a"), None)


@check("TS-003", "TS-004")
def plain_put(t: Trial) -> None:
    """Put without a timestamp, during the processing of an input record and outside it."""
    store = t.open()
    for at in (1_234, 1_200):
        t.claim("TS-003", "put in each way while a record with a timestamp is being processed")
        put_in_every_plain_way(t, store, at)
    t.claim("TS-004", "put in each way while no record is being processed")
    put_in_every_plain_way(t, store, NO_TIMESTAMP)


def put_in_every_plain_way(t: Trial, store: Handle, at: int) -> None:
    """Call each method that puts a value without a timestamp, and read the timestamps."""
    value = b"%d" % at
    if at == NO_TIMESTAMP:
        t.idle()
    else:
        t.processing(at, timestamp=at)
    store.put(b"put", value)
    store.put_if_absent(b"absent" + value, value)
    store.put_all([(b"all", value), (b"together", value)])
    for key in (b"put", b"absent" + value, b"all", b"together"):
        expect_timed(t, store, key, (value, at))


@check("TS-005", "TS-006")
def overwrite_and_delete(t: Trial) -> None:
    """Overwrite with older and newer timestamps, and delete."""
    store = t.open()
    t.claim("TS-005", "overwrite a value with an older and with a newer timestamp")
    for value, at in ((b"1", 100), (b"2", 50), (b"2", 200), (b"2", 10)):
        store.put_with_timestamp(b"a", value, at)
        expect_timed(t, store, b"a", (value, at))
    t.claim("TS-006", "put None with a timestamp")
    store.put_with_timestamp(b"a", None, 300)
    expect_timed(t, store, b"a", None)
    t.expect(store.get(b"a"), None)
    store.put_with_timestamp(b"never", None, 300)
    expect_timed(t, store, b"never", None)


@check("TS-007")
def put_if_absent(t: Trial) -> None:
    """Put with timestamps only if the key is absent."""
    t.claim("TS-007", "put_if_absent_with_timestamp on an absent and on a present key")
    store = t.open()
    t.expect(timed(store.put_if_absent_with_timestamp(b"a", b"1", 10)), None)
    t.expect(timed(store.put_if_absent_with_timestamp(b"a", b"2", 20)), (b"1", 10))
    expect_timed(t, store, b"a", (b"1", 10))


@check("TS-008")
def delete(t: Trial) -> None:
    """Delete, and read the returned value and timestamp."""
    t.claim("TS-008", "delete_with_timestamp on a present and on an absent key")
    store = t.open()
    store.put_with_timestamp(b"a", b"1", 10)
    t.expect(timed(store.delete_with_timestamp(b"a")), (b"1", 10))
    t.expect(timed(store.delete_with_timestamp(b"a")), None)
    expect_timed(t, store, b"a", None)


@check("TS-009")
def put_all(t: Trial) -> None:
    """Put several values with timestamps at once."""
    t.claim("TS-009", "put_all_with_timestamp, with a delete among the entries")
    store = t.open()
    store.put_with_timestamp(b"b", b"old", 1)
    store.put_all_with_timestamp(
        [(b"a", ValueAndTimestamp(b"1", 10)), (b"b", None), (b"c", ValueAndTimestamp(b"3", 30))]
    )
    for key, expected in ((b"a", (b"1", 10)), (b"b", None), (b"c", (b"3", 30))):
        expect_timed(t, store, key, expected)


@check("TS-010")
def null_keys(t: Trial) -> None:
    """Pass None for a key."""
    t.claim("TS-010", "pass None for a key with a timestamp")
    store = t.open()
    store.put_with_timestamp(b"a", b"1", 10)
    t.expect_raises(lambda: store.get_with_timestamp(None), "get_with_timestamp(None) raises")
    t.expect_raises(lambda: store.put_with_timestamp(None, b"1", 1), "put with key None raises")
    bad = [(b"a", ValueAndTimestamp(b"2", 20)), (None, ValueAndTimestamp(b"3", 30))]
    t.expect_raises(lambda: store.put_all_with_timestamp(bad), "put_all with key None raises")
    expect_timed(t, store, b"a", (b"1", 10))


class Scan(NamedTuple):
    """A scan and the entries that it must yield, with timestamps."""

    method: str
    arguments: tuple[bytes, ...]
    entries: list[tuple[bytes, tuple[bytes, int]]]


@check("TS-011", "TS-012", given=lambda g: {"writes": writes(g)})
def scans(t: Trial, writes: list[tuple[bytes, bytes | None, int]]) -> None:
    """Scan with and without timestamps."""
    store = t.open()
    for key, value, at in writes:
        store.put_with_timestamp(key, value, at)
    expected = sorted((key, pair) for key, pair in folded(writes).items() if pair is not None)
    low, high = b"a", b"b"
    between = [(key, pair) for key, pair in expected if low <= key <= high]
    t.claim("TS-011", "scan with timestamps")
    for method, arguments, wanted in (
        ("all_with_timestamp", (), expected),
        ("range_with_timestamp", (low, high), between),
        ("range_with_timestamp", (None, high), [e for e in expected if e[0] <= high]),
        ("range_with_timestamp", (low, None), [e for e in expected if e[0] >= low]),
    ):
        if t.has(method):
            found = store.scan(method, *arguments)
            t.expect([(key, timed(value)) for key, value in found], wanted)
    t.claim("TS-012", "scan without timestamps")
    plain = [
        Scan("all", (), expected),
        Scan("range", (low, high), between),
        Scan("reverse_all", (), expected[::-1]),
        Scan("reverse_range", (low, high), between[::-1]),
        Scan("prefix_scan", (low,), [each for each in expected if each[0].startswith(low)]),
    ]
    for each in plain:
        if t.has(each.method):
            found = store.scan(each.method, *each.arguments)
            t.expect(found, [(key, pair[0]) for key, pair in each.entries])


@check("TS-013", given=lambda g: {"writes": writes(g)})
def reopened(t: Trial, writes: list[tuple[bytes, bytes | None, int]]) -> None:
    """Commit, close and reopen, then read the timestamps."""
    t.claim("TS-013", "put values with timestamps, commit, close, and read with a new store")
    store = t.open()
    for key, value, at in writes:
        store.put_with_timestamp(key, value, at)
    store.commit({CHANGELOG: len(writes) - 1})
    store = t.reopen(store)
    for key, expected in folded(writes).items():
        expect_timed(t, store, key, expected)


@check("TS-014", "TS-015", given=lambda g: {"writes": writes(g)})
def restored(t: Trial, writes: list[tuple[bytes, bytes | None, int]]) -> None:
    """Restore plain values whose records have timestamps."""
    t.claim("TS-014", "restore records with timestamps")
    store = t.open()
    records = [ChangelogRecord(key, value, n, at) for n, (key, value, at) in enumerate(writes)]
    t.restore(store, records)
    for key, expected in folded(writes).items():
        expect_timed(t, store, key, expected)
    t.claim("TS-015", "restore the records once more, and read values and timestamps")
    t.restore(store, records)
    for key, expected in folded(writes).items():
        expect_timed(t, store, key, expected)


@check("TS-016")
def values_are_opaque(t: Trial) -> None:
    """Put and restore values that begin like a stored timestamp."""
    t.claim("TS-016", "put, commit and restore values that look like timestamps")
    store = t.open()
    for number, value in enumerate(LIKE_TIMESTAMPS):
        store.put_with_timestamp(b"put%d" % number, value, 7)
    records = [
        ChangelogRecord(b"restored%d" % number, value, number, 8)
        for number, value in enumerate(LIKE_TIMESTAMPS)
    ]
    t.restore(store, records)
    for _ in range(2):
        for number, value in enumerate(LIKE_TIMESTAMPS):
            expect_timed(t, store, b"put%d" % number, (value, 7))
            expect_timed(t, store, b"restored%d" % number, (value, 8))
        store.commit({CHANGELOG: 9})


@check("TS-017")
def discarded(t: Trial) -> None:
    """Overwrite a committed value in a transaction, and discard the transaction."""
    t.claim("TS-017", "overwrite in a transaction, close it, and read value and timestamp")
    store = t.open()
    store.put_with_timestamp(b"a", b"1", 10)
    store.commit({CHANGELOG: 0})
    transaction = store.begin()
    transaction.put_with_timestamp(b"a", b"2", 20)
    t.expect(timed(transaction.get_with_timestamp(b"a")), (b"2", 20))
    transaction.put_with_timestamp(b"b", b"3", 30)
    transaction.close()
    expect_timed(t, store, b"a", (b"1", 10))
    expect_timed(t, store, b"b", None)


@check("TS-018")
def committed_in_a_transaction(t: Trial) -> None:
    """Commit values with timestamps in a transaction."""
    t.claim("TS-018", "write in a transaction, commit it, and read value and timestamp")
    store = t.open()
    transaction = store.begin()
    transaction.put_with_timestamp(b"a", b"1", 10)
    transaction.delete_with_timestamp(b"a")
    transaction.put_with_timestamp(b"a", b"2", 5)
    transaction.commit({CHANGELOG: 2})
    expect_timed(t, store, b"a", (b"2", 5))
    store = t.reopen(store)
    expect_timed(t, store, b"a", (b"2", 5))


# --- the stored bytes, and the changelog ----------------------------------------------------


@check("TS-019")
def stored_bytes(t: Trial) -> None:
    """Write in every way, look for the values in the files, and at the bytes before them."""
    t.claim("TS-019", "put and restore values with timestamps, close, and look at the files")
    store = t.open()
    stored = put_incompressible(t, store)
    records = [
        ChangelogRecord(b"restored%d" % at, incompressible(b"restored%d" % at), number, at)
        for number, at in enumerate((77, NO_TIMESTAMP))
    ]
    t.restore(store, records)
    stored |= {each.value: each.timestamp for each in records if each.value is not None}
    store.commit({CHANGELOG: len(records) - 1})
    store.close()
    for value, at in stored.items():
        found = t.files_with(value)
        if not found:
            raise Skipped("No file has a value as it was put, so nobody can see how it is stored.")
        expected = at.to_bytes(8, "big", signed=True)
        t.expect_that(expected in found, f"{expected!r}, the timestamp, before the value", found)


def put_incompressible(t: Trial, store: Handle) -> dict[bytes, int]:
    """Put values with every method that puts, and return their timestamps."""
    stored = {}
    for at in (1_700_000_000_123, 258, NO_TIMESTAMP):
        value = incompressible(b"%d" % at)
        store.put_with_timestamp(b"key%d" % at, value, at)
        stored[value] = at
    pairs = {b"one": 65_537, b"another": 5}
    store.put_all_with_timestamp(
        [(key, ValueAndTimestamp(incompressible(key), at)) for key, at in pairs.items()]
    )
    stored |= {incompressible(key): at for key, at in pairs.items()}
    t.processing(0, timestamp=1_234)
    store.put(b"plain", incompressible(b"plain"))
    t.idle()
    return {**stored, incompressible(b"plain"): 1_234}


def incompressible(text: bytes) -> bytes:
    """A value that nothing can make shorter, so that it lies in a file as it is."""
    return hashlib.sha256(text).digest()


@check("TS-020", given=lambda g: {"writes": writes(g)})
def changelog_records(t: Trial, writes: list[tuple[bytes, bytes | None, int]]) -> None:
    """Write with timestamps, look at the changelog, and restore a new store from it."""
    t.claim("TS-020", "put values with timestamps, commit, and look at the changelog")
    store = t.open()
    key_of = {}
    for number, (key, value, at) in enumerate(writes):
        # An input record with another timestamp than any of the writes.
        t.processing(number, timestamp=3)
        store.put_with_timestamp(key, value, at)
        changelog_key = getattr(store.raw, "changelog_key", lambda key: key)
        key_of[changelog_key(key)] = key
    store.commit({CHANGELOG: len(writes) - 1})
    records = [each._replace(key=key_of.get(each.key, each.key)) for each in t.lab.logged]
    last = {each.key: each for each in records}
    logged_as = {key: changelog_key for changelog_key, key in key_of.items()}
    for key, expected in folded(writes).items():
        # The changelog need not have a tombstone for a key that never had a value.
        record = last.get(key)
        sent = None if record is None or record.value is None else (record.value, record.timestamp)
        t.expect(t.asked(_sent(logged_as[key]), sent), expected)
    t.claim("TS-020", "restore a new store from the records that a store wrote to its changelog")
    store.close()
    t.wipe()
    other = t.open()
    t.restore(other, records)
    for key, expected in folded(writes).items():
        expect_timed(t, other, key, expected)


@check("TS-020")
def every_write_is_logged(t: Trial) -> None:
    """Write in every way, in a transaction too, and compare the changelog with the store."""
    t.claim("TS-020", "write with every method, commit, and compare the changelog with the store")
    store = t.open()
    write_in_every_way(t, store, b"")
    store.commit({CHANGELOG: 0})
    expect_logged(t, store)
    if t.lab.subject.capabilities.explicit_transactions:
        t.claim("TS-020", "write in a transaction, commit it, and compare the changelog")
        transaction = store.begin()
        write_in_every_way(t, transaction, b"again")
        transaction.commit({CHANGELOG: 1})
        expect_logged(t, store)


def write_in_every_way(t: Trial, store: Handle, more: bytes) -> None:
    """Call each method that writes, for values and for deletes, with one input record each."""
    pair = ValueAndTimestamp(b"pair" + more, 40)
    ways: list[tuple[str, tuple[Any, ...]]] = [
        ("put", (b"put", b"1" + more)),
        ("put_with_timestamp", (b"timed", b"2" + more, 20)),
        ("put_with_timestamp", (b"older", b"3" + more, 5)),
        ("put_if_absent_with_timestamp", (b"absent" + more, b"4", 30)),
        ("put_if_absent_with_timestamp", (b"timed", b"5", 31)),
        ("put_if_absent", (b"missing" + more, b"8")),
        ("put_all", ([(b"many", b"9" + more), (b"put", b"10" + more)],)),
        ("put_all_with_timestamp", ([(b"all", pair), (b"older", None)],)),
        ("put_with_timestamp", (b"gone", b"6", 50)),
        ("delete_with_timestamp", (b"gone",)),
        ("put", (b"late", b"7" + more)),
    ]
    if t.run.applies("TS-022"):
        ways.append(("put_value_and_timestamp", (b"pair", pair)))
    for number, (method, arguments) in enumerate(ways):
        # The time of each input record is another one than that of every value.
        t.processing(number, timestamp=100 + number)
        store.call(method, *arguments)
    t.idle()


WRITTEN = (
    *(b"put", b"timed", b"older", b"absent", b"absentagain", b"missing", b"missingagain"),
    *(b"many", b"pair", b"all"),
)
"""The keys that ``write_in_every_way`` leaves with a value, or without one."""


def expect_logged(t: Trial, store: Handle) -> None:
    """Demand that the last record of each key has the value and the timestamp of the store."""
    last = {each.key: each for each in t.lab.logged}
    changelog_key = getattr(store.raw, "changelog_key", lambda key: key)
    for key in (*WRITTEN, b"gone", b"late"):
        held = timed(store.get_with_timestamp(key))
        record = last.get(changelog_key(key))
        sent = None if record is None or record.value is None else (record.value, record.timestamp)
        t.expect(t.asked(_sent(changelog_key(key)), sent), held)


def _sent(key: bytes) -> str:
    """The value and the timestamp of the last record of a key, as an expression of a program."""
    pair = "each.value if each.value is None else (each.value, each.timestamp)"
    return f"next(({pair} for each in reversed(lab.logged) if each.key == {key!r}), None)"


# --- every kind of store --------------------------------------------------------------------

PUTS = (
    (b"a", b"1", 10, 0),
    (b"a", b"2", 40, 9),
    (b"a", b"3", 5, 15),
    (b"ab", b"4", 30, 7),
    (b"b", b"5", NO_TIMESTAMP, 8),
    (b"b", b"6", 2**40, 15),
)
"""Keys, values, timestamps, and ticks of windows and sessions in several segments."""

Stored = dict[Windowed, tuple[bytes, int]]


def put_all_times(t: Trial, store: Handle) -> Stored:
    """Put windows or sessions with timestamps, and return them."""
    can = t.lab.subject.capabilities
    stored: Stored = {}
    for key, value, at, tick in PUTS:
        time = Times(can).at(tick)
        windowed = Times(can).windowed(key, time)
        if can.kind == "session":
            store.put_with_timestamp(windowed, value, at)
        else:
            store.put_with_timestamp(key, value, at, time)
        stored[windowed] = (value, at)
    return stored


def expect_scan(
    t: Trial, reader: Handle, method: str, arguments: tuple[Any, ...], stored: Stored
) -> None:
    """Demand that a scan with timestamps yields exactly ``stored``, as the plain scan does.

    The plain scan yields the values alone. A scan that the subject does not claim is left out.
    """
    if not t.has(method):
        return
    found = [(k, timed(value)) for k, value in reader.scan(f"{method}_with_timestamp", *arguments)]
    t.expect_in_any_order(found, sorted(stored.items()))
    plain = reader.scan(method, *arguments)
    t.expect(plain, [(key, stored[key][0]) for key, _ in found])


KEY_BOUNDS = ((b"a", b"ab"), (b"ab", b"b"))
"""The first and the last key of ranges that leave out the last key, or the first."""


def expect_window_scans(t: Trial, reader: Handle, stored: Stored) -> None:
    """Demand the timestamps in all fetches and scans of windows, with times that just fit."""
    starts = sorted(key.window.start for key in stored)

    def chosen(low: bytes, high: bytes, time_from: int, time_to: int) -> Stored:
        return {
            key: value
            for key, value in stored.items()
            if low <= key.key <= high and time_from <= key.window.start <= time_to
        }

    for times in ((starts[0], starts[-1]), (starts[0] + 1, starts[-1] - 1)):
        for key in (b"a", b"ab"):
            mine = chosen(key, key, *times)
            between = sorted((each.window.start, value) for each, value in mine.items())
            found = reader.scan("fetch_between_with_timestamp", key, *times)
            t.expect([(start, timed(value)) for start, value in found], between)
            plain = [(start, pair[0]) for start, pair in between]
            t.expect(reader.scan("fetch_between", key, *times), plain)
        for keys in KEY_BOUNDS:
            expect_scan(t, reader, "fetch_range", (*keys, *times), chosen(*keys, *times))
        expect_scan(t, reader, "fetch_all", times, chosen(b"", b"\xff", *times))
    expect_scan(t, reader, "all", (), stored)


def expect_session_scans(t: Trial, reader: Handle, stored: Stored) -> None:
    """Demand the timestamps in all fetches and searches of sessions, with times that just fit."""
    first, last = min(key.window.end for key in stored), max(key.window.start for key in stored)

    def chosen(low: bytes, high: bytes, earliest_end: int, latest_start: int) -> Stored:
        return {
            key: value
            for key, value in stored.items()
            if low <= key.key <= high
            and key.window.end >= earliest_end
            and key.window.start <= latest_start
        }

    for key in (b"a", b"ab"):
        expect_scan(t, reader, "fetch", (key,), chosen(key, key, 0, LONG_MAX))
    for keys in KEY_BOUNDS:
        expect_scan(t, reader, "fetch_range", keys, chosen(*keys, 0, LONG_MAX))
    for times in ((first, last), (first + 1, last - 1)):
        for key in (b"a", b"b"):
            expect_scan(t, reader, "find_sessions", (key, *times), chosen(key, key, *times))
        for keys in KEY_BOUNDS:
            arguments = (*keys, *times)
            expect_scan(t, reader, "find_sessions_range", arguments, chosen(*arguments))


def expect_all_scans(t: Trial, reader: Handle, stored: Stored) -> None:
    """Demand the timestamps in all scans of windows or of sessions."""
    if t.lab.subject.capabilities.kind == "session":
        expect_session_scans(t, reader, stored)
    else:
        expect_window_scans(t, reader, stored)


@check("TS-021")
def views(t: Trial) -> None:
    """Read values and timestamps through views of both isolation levels."""
    t.claim("TS-021", "put values with timestamps, commit, and read them through views")
    store = t.open()
    store.put_with_timestamp(b"a", b"1", 10)
    store.put_with_timestamp(b"b", b"2", 20)
    store.commit({CHANGELOG: 1})
    for level in IsolationLevel:
        view = store.view(level)
        expect_timed(t, view, b"a", (b"1", 10))
        expect_timed(t, view, b"b", (b"2", 20))
        expect_timed(t, view, b"c", None)
        t.expect(view.get(b"a"), b"1")
    store.put_with_timestamp(b"a", b"3", 30)
    expect_timed(t, store.view(IsolationLevel.READ_UNCOMMITTED), b"a", (b"3", 30))
    found = timed(store.view(IsolationLevel.READ_COMMITTED).get_with_timestamp(b"a"))
    t.expect_that(
        found in ((b"1", 10), (b"3", 30)), "the value of one put, with its timestamp", found
    )


@check("TS-026")
def view_scans(t: Trial) -> None:
    """Scan values and timestamps through views of both isolation levels."""
    t.claim("TS-026", "put values with timestamps, commit, and scan them through views")
    can = t.lab.subject.capabilities
    if can.kind != "key-value":
        store = t.open_store()
        stored = put_all_times(t, store)
        store.commit({CHANGELOG: len(PUTS) - 1})
        for level in IsolationLevel:
            expect_all_scans(t, store.view(level), stored)
        return
    if not can.ranges:
        raise Skipped("The store does not claim ranges.")
    store = t.open()
    entries = [(b"%d" % number, (b"v%d" % number, at)) for number, at in enumerate(EDGES)]
    for key, (value, at) in entries:
        store.put_with_timestamp(key, value, at)
    store.commit({CHANGELOG: len(EDGES) - 1})
    for level in IsolationLevel:
        view = store.view(level)
        if t.has("all_with_timestamp"):
            found = view.scan("all_with_timestamp")
            t.expect([(key, timed(value)) for key, value in found], entries)
        for low, high in ((2, 4), (0, 4), (2, len(EDGES) - 1)):
            found = view.scan("range_with_timestamp", b"%d" % low, b"%d" % high)
            t.expect([(key, timed(value)) for key, value in found], entries[low : high + 1])


@check("TS-022")
def pairs_are_put(t: Trial) -> None:
    """Put pairs of a value and its timestamp."""
    t.claim("TS-022", "put a ValueAndTimestamp, put another one if absent, and put None")
    store = t.open()
    store.put_value_and_timestamp(b"a", ValueAndTimestamp(b"1", 10))
    expect_timed(t, store, b"a", (b"1", 10))
    stamped = ValueAndTimestamp(b"2", 20)
    t.expect(timed(store.put_value_and_timestamp_if_absent(b"a", stamped)), (b"1", 10))
    t.expect(timed(store.put_value_and_timestamp_if_absent(b"b", stamped)), None)
    expect_timed(t, store, b"a", (b"1", 10))
    expect_timed(t, store, b"b", (b"2", 20))
    store.put_value_and_timestamp(b"a", None)
    expect_timed(t, store, b"a", None)


@check("TS-023")
def window_scans(t: Trial) -> None:
    """Fetch and scan windows with timestamps."""
    t.claim("TS-023", "put windows with timestamps, and fetch and scan them")
    store = t.open_store()
    expect_window_scans(t, store, put_all_times(t, store))


@check("TS-024")
def window_of_the_record(t: Trial) -> None:
    """Put without naming a window, while a record is being processed."""
    t.claim("TS-024", "put with a timestamp, and name no window")
    store = t.open_store()
    first, second = (Times(t.lab.subject.capabilities).at(tick) for tick in (3, 9))
    t.processing(1, timestamp=first)
    # The timestamp of a value may differ from that of the record.
    store.put_with_timestamp(b"a", b"1", first + 1)
    t.processing(2, timestamp=second)
    store.put_value_and_timestamp(b"a", ValueAndTimestamp(b"2", second + 1))
    t.idle()
    t.expect(timed(store.fetch_with_timestamp(b"a", first)), (b"1", first + 1))
    t.expect(timed(store.fetch_with_timestamp(b"a", second)), (b"2", second + 1))


@check("TS-025")
def session_scans(t: Trial) -> None:
    """Fetch and search sessions with timestamps, and remove one."""
    t.claim("TS-025", "put sessions with timestamps, and fetch and search them")
    store = t.open_store()
    stored = put_all_times(t, store)
    expect_session_scans(t, store, stored)
    by_none, by_remove, *_ = list(stored)
    store.put_with_timestamp(by_none, None, 99)
    del stored[by_none]
    expect_session_scans(t, store, stored)
    store.remove(by_remove)
    del stored[by_remove]
    expect_session_scans(t, store, stored)
