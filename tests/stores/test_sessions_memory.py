"""InMemorySessionStore: what Kafka's tests of session stores ask, and programs against a model."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamproof.stores.api import (
    ChangelogRecord,
    IsolationLevel,
    RecordMetadata,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.errors import (
    InvalidArgumentError,
    InvalidStateStoreError,
    NullArgumentError,
)
from streamproof.stores.windowed.keys import session_key
from streamproof.stores.windowed.memory_sessions import InMemorySessionStore, default_store
from streamproof.stores.windows import LONG_MAX, Window, Windowed

RETENTION = 10_000
"""Kafka's figure: AbstractSessionBytesStoreTest."""

MakeContext = Callable[..., StateStoreContext]
MakeStore = Callable[..., tuple[InMemorySessionStore, StateStoreContext]]
Entry = tuple[Windowed, bytes]


@pytest.fixture
def make_store(make_context: MakeContext) -> Iterator[MakeStore]:
    """Makes open stores and closes them in the end."""
    stores = []

    def make(retention_ms: int = RETENTION) -> tuple[InMemorySessionStore, StateStoreContext]:
        store, context = InMemorySessionStore("store", retention_ms=retention_ms), make_context()
        store.init(context, store)
        stores.append(store)
        return store, context

    yield make
    for store in stores:
        store.close()


@pytest.fixture
def store(make_store: MakeStore) -> InMemorySessionStore:
    """An open store with Kafka's figures."""
    return make_store()[0]


def session(key: bytes, start: int, end: int) -> Windowed:
    """A key and a session of it."""
    return Windowed(key, Window(start, end))


def put_all(store: InMemorySessionStore, entries: Iterable[Entry]) -> None:
    """Put entries in order."""
    for windowed, aggregate in entries:
        store.put(windowed, aggregate)


def restore(context: StateStoreContext, *rows: tuple[Windowed, bytes | None]) -> None:
    """Apply sessions and aggregates as records of the changelog."""
    records = [
        ChangelogRecord(session_key(key, *window), value, offset)
        for offset, ((key, window), value) in enumerate(rows)
    ]
    context.restore_callbacks["store"](records)


def test_sessions_that_overlap_a_span(store: InMemorySessionStore) -> None:
    """Kafka: shouldFindSessionsToMerge, shouldPutAndFindSessionsInRange, and their opposites."""
    entries = [
        (session(b"a", start, end), b"%d" % end)
        for start, end in ((0, 100), (101, 200), (201, 300), (301, 400), (401, 500))
    ]
    put_all(store, reversed(entries))
    store.put(session(b"aa", 150, 250), b"x")
    for span, expected in (
        ((150, 300), entries[1:3]),
        ((200, 300), entries[1:3]),
        ((201, 300), entries[2:3]),
        ((0, LONG_MAX), entries),
        ((501, LONG_MAX), []),
        ((300, 100), []),
    ):
        assert list(store.find_sessions(b"a", *span)) == expected
        assert list(store.backward_find_sessions(b"a", *span)) == expected[::-1]


def test_bounds_may_be_before_time(store: InMemorySessionStore) -> None:
    """Kafka: shouldFindValuesWithinMergingSessionWindowRange."""
    entries = [(session(b"a", 0, 0), b"1"), (session(b"a", 1000, 1000), b"2")]
    put_all(store, entries)
    assert list(store.find_sessions(b"a", -1, 1000)) == entries
    assert list(store.backward_find_sessions(b"a", -1, 1000)) == entries[::-1]
    assert list(store.find_sessions(b"a", -5, -1)) == []
    assert store.fetch_session(b"a", -1, -1) is None


def test_sessions_by_their_ends(store: InMemorySessionStore) -> None:
    """Kafka: shouldFindSessionsForTimeRange."""
    entries = [
        (session(b"a", 0, 0), b"5"),
        (session(b"b", 10, 20), b"10"),
        (session(b"c", 30, 40), b"15"),
    ]
    put_all(store, entries)
    for ends, expected in (
        ((0, 20), entries[:2]),
        ((0, 19), entries[:1]),
        ((1, 20), entries[1:2]),
        ((19, 41), entries[1:]),
        ((0, 40), entries),
        ((-9, 2**70), entries),
        ((40, 0), []),
    ):
        assert list(store.find_sessions_between(*ends)) == expected


def test_order_is_end_then_key_then_start_from_the_latest(store: InMemorySessionStore) -> None:
    """Kafka: shouldFetchAllSessionsWithSameRecordKey, shouldFetchAllSessionsWithinKeyRange."""
    expected = [
        (session(b"b", 3, 4), b"1"),
        (session(b"a", 5, 5), b"2"),
        (session(b"a", 2, 5), b"3"),
        (session(b"a", 0, 5), b"4"),
        (session(b"a\x00", 1, 5), b"5"),
        (session(b"b", 5, 5), b"6"),
        (session(b"a", 1, 9), b"7"),
    ]
    put_all(store, expected[::2] + expected[1::2])
    assert list(store.fetch_range(None, None)) == expected
    assert list(store.backward_fetch_range(None, None)) == expected[::-1]
    of_a = [row for row in expected if row[0].key == b"a"]
    assert list(store.fetch(b"a")) == of_a
    assert list(store.backward_fetch(b"a")) == of_a[::-1]
    up_to_a = [row for row in expected if row[0].key <= b"a\x00"]
    assert list(store.fetch_range(None, b"a\x00")) == up_to_a
    assert list(store.fetch_range(b"a", b"a\x00")) == up_to_a
    assert list(store.backward_fetch_range(b"a", b"a\x00")) == up_to_a[::-1]
    assert list(store.fetch_range(b"b", None)) == [row for row in expected if row[0].key == b"b"]
    assert list(store.find_sessions_range(None, None, 5, 1)) == [expected[i] for i in (3, 4, 6)]


def test_one_key_equals_a_range_of_one_key(store: InMemorySessionStore) -> None:
    """Kafka: shouldReturnSameResultsForSingleKeyFindSessionsAndEqualKeyRangeFindSessions."""
    for key in (b"a", b"aa", b"b"):
        put_all(store, [(session(key, 0, 10), key), (session(key, 30, 40), key)])
    assert list(store.find_sessions_range(b"aa", b"aa", 0, 20)) == [(session(b"aa", 0, 10), b"aa")]
    assert list(store.find_sessions(b"aa", 0, 20)) == [(session(b"aa", 0, 10), b"aa")]
    backward = list(store.backward_find_sessions_range(b"aa", b"aa", 0, 99))
    assert backward == list(store.backward_find_sessions(b"aa", 0, 99))
    assert len(backward) == 2


def test_exactly_this_session(store: InMemorySessionStore) -> None:
    """Kafka: shouldFetchExactSession, shouldReturnNullOnSessionNotFound. Empty is a value."""
    for start, end in ((0, 4), (1, 4), (0, 5)):
        store.put(session(b"a", start, end), b"%d%d" % (start, end))
    store.put(session(b"b", 1, 5), b"")
    assert store.fetch_session(b"a", 0, 4) == b"04"
    assert store.fetch_session(b"a", 1, 4) == b"14"
    assert store.fetch_session(b"a", 0, 5) == b"05"
    assert store.fetch_session(b"a", 1, 5) is None
    assert store.fetch_session(b"b", 1, 5) == b""


def test_update_and_remove(store: InMemorySessionStore) -> None:
    """Kafka: shouldRemove, shouldRemoveOnNullAggValue.

    Removing what is not there is no error: shouldNotThrowExceptionRemovingNonexistentKey.
    """
    for end in (1, 2, 3):
        store.put(session(b"a", 0, end), b"old")
    store.put(session(b"a", 0, 2), b"new")
    store.remove(session(b"a", 0, 1))
    store.put(session(b"a", 0, 3), None)
    store.remove(session(b"a", 9, 9))
    store.remove(session(b"z", 0, 2))
    assert list(store.fetch_range(None, None)) == [(session(b"a", 0, 2), b"new")]


def test_keys_are_exact(make_store: MakeStore) -> None:
    """Kafka: shouldFetchExactKeys, shouldFetchAndIterateOverExactBinaryKeys."""
    for keys in ((b"a", b"aa"), (b"", b"\x00", b"\x00\x00"), (b"\xff", b"\xff\x00", b"\xff\xff")):
        store, _ = make_store(LONG_MAX)
        ends = (0, 10, 0x7A00000000000000 - 2, LONG_MAX - 1)
        for end in ends:
            put_all(store, ((session(key, 0, end), b"%d" % end + key) for key in keys))
        for key in keys:
            expected = [(session(key, 0, end), b"%d" % end + key) for end in ends]
            assert list(store.fetch(key)) == expected
            assert list(store.find_sessions(key, 0, LONG_MAX)) == expected
            assert list(store.backward_find_sessions(key, 10, 0)) == expected[:0:-1]


def test_inverted_keys_are_empty_and_warn(
    store: InMemorySessionStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka: shouldNotThrowInvalidRangeExceptionWithNegativeFromKey."""
    store.put(session(b"a", 0, 1), b"1")
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="streamproof.stores"):
        assert list(store.fetch_range(b"b", b"a")) == []
        assert list(store.backward_fetch_range(b"b", b"a")) == []
        assert list(store.find_sessions_range(b"b", b"a", 0, 9)) == []
        assert list(store.backward_find_sessions_range(b"b", b"a", 0, 9)) == []
    assert len(caplog.records) == 4


def test_sessions_that_make_no_sense(store: InMemorySessionStore) -> None:
    """A session starts at 0 or later, and ends no earlier, and no later than time itself."""
    for start, end in ((-1, 5), (5, 4), (0, LONG_MAX + 1)):
        for change in (lambda entry: store.put(entry, b"1"), store.remove):
            with pytest.raises(InvalidArgumentError):
                change(session(b"a", start, end))
    store.put(session(b"a", LONG_MAX, LONG_MAX), b"1")
    assert list(store.fetch(b"a")) == [(session(b"a", LONG_MAX, LONG_MAX), b"1")]


def test_a_negative_retention_is_rejected() -> None:
    with pytest.raises(InvalidArgumentError, match="'s'"):
        InMemorySessionStore("s", retention_ms=-1)


def test_too_late_sessions_are_dropped_and_counted(make_store: MakeStore) -> None:
    """Kafka: shouldMeasureExpiredRecords. What counts is the end of a session."""
    store, context = make_store()
    store.put(session(b"a", 0, 120_000), b"now")
    context.record_metadata = RecordMetadata("in", 0, 5)
    store.put(session(b"a", 0, 0), b"late")
    store.put(session(b"a", 0, 110_000), b"late")
    store.remove(session(b"a", 0, 110_000))
    assert store.dropped_records == 3
    store.put(session(b"a", 0, 110_001), b"just")
    store.put(session(b"b", 0, 120_000), b"now")
    assert store.dropped_records == 3
    assert [entry.window.end for entry, _ in store.fetch(b"a")] == [110_001, 120_000]
    # The record was processed, although nothing was kept of it.
    assert store.position.as_dict() == {("in", 0): 5}


def test_sessions_expire_as_stream_time_advances(store: InMemorySessionStore) -> None:
    """Kafka: shouldRemoveExpired, shouldNotFetchExpiredSessions."""
    put_all(
        store,
        [
            (session(b"a", 0, 0), b"1"),
            (session(b"aa", 0, RETENTION // 2), b"2"),
            (session(b"a", RETENTION // 2, RETENTION), b"3"),
        ],
    )
    alive = [(session(b"aa", 0, 5000), b"2"), (session(b"a", 5000, RETENTION), b"3")]
    assert list(store.fetch_range(None, None)) == alive
    assert list(store.backward_fetch_range(b"a", b"aa")) == alive[::-1]
    assert list(store.fetch(b"a")) == alive[1:]
    assert list(store.find_sessions(b"a", 0, 0)) == []
    assert list(store.find_sessions_between(0, 4999)) == []
    assert store.fetch_session(b"a", 0, 0) is None
    store.remove(session(b"z", 0, 3 * RETENTION))
    assert list(store.fetch_range(None, None)) == []
    assert store.dropped_records == 0


def test_an_open_iterator_keeps_what_expires(store: InMemorySessionStore) -> None:
    """Kafka: InMemorySessionStoreTest#shouldNotExpireFromOpenIterator."""
    entries = [
        (session(b"a", 0, 0), b"1"),
        (session(b"aa", 0, 10), b"2"),
        (session(b"a", 10, 20), b"3"),
    ]
    put_all(store, entries)
    scan, backward = store.find_sessions_range(b"a", b"b", 0, 10), store.backward_fetch(b"a")
    assert next(scan) == entries[0]
    later = (session(b"aa", 10, 4 * RETENTION), b"4")
    put_all(store, [later])
    assert list(scan) == entries[1:]
    assert list(backward) == [entries[2], entries[0]]
    assert list(store.find_sessions_range(b"a", b"b", 0, 10)) == [later]


def test_peek_does_not_advance(store: InMemorySessionStore) -> None:
    """Kafka: testIteratorPeek, testIteratorPeekBackward."""
    entries = [(session(b"a", 0, 0), b"1"), (session(b"a", 10, 20), b"2")]
    put_all(store, entries)
    for scan, expected in (
        (store.fetch(b"a"), entries),
        (store.backward_fetch(b"a"), entries[::-1]),
    ):
        for entry in expected:
            assert (scan.peek_next_key(), scan.peek_next_key()) == (entry[0], entry[0])
            assert next(scan) == entry
        with pytest.raises(StopIteration):
            scan.peek_next_key()


def test_restoring_equals_writing(make_store: MakeStore) -> None:
    """Kafka: shouldRestore. A batch can be applied twice, and a tombstone removes."""
    store, context = make_store()
    gone, kept = session(b"a", 1, 2), session(b"a", 0, 2)
    for _ in range(2):
        restore(context, (gone, b"1"), (kept, b"2"), (gone, None), (kept, b"3"))
        assert list(store.fetch_range(None, None)) == [(kept, b"3")]
    assert store.dropped_records == 0


def test_restoring_advances_the_stream_time_record_by_record(make_store: MakeStore) -> None:
    """Kafka: shouldMeasureExpiredRecordsDroppedDuringRestoreAsRecords."""
    store, context = make_store()
    early, late = session(b"a", 0, 0), session(b"a", 0, RETENTION)
    restore(context, (early, b"1"), (late, b"2"), (early, b"3"))
    assert store.dropped_records == 1
    assert list(store.fetch(b"a")) == [(late, b"2")]


def test_position_follows_the_records(make_store: MakeStore) -> None:
    """Kafka: shouldMatchPositionAfterPut. A closed store has no content, so no position."""
    store, context = make_store()
    context.record_metadata = RecordMetadata("in", 1, 7)
    store.put(session(b"a", 0, 1), b"1")
    context.record_metadata = RecordMetadata("in", 0, 3)
    store.remove(session(b"b", 0, 1))
    assert store.position.as_dict() == {("in", 1): 7, ("in", 0): 3}
    store.close()
    store.init(context, store)
    assert store.position.as_dict() == {}


def test_null_keys_are_rejected(store: InMemorySessionStore) -> None:
    """Kafka: shouldThrowNullPointerExceptionOn{FindSessions,Fetch,Remove,Put}NullKey."""
    nothing = cast(Any, None)
    for call in (
        lambda: store.put(session(nothing, 0, 1), b"1"),
        lambda: store.remove(session(nothing, 0, 1)),
        lambda: store.fetch_session(nothing, 0, 1),
        lambda: store.fetch(nothing),
        lambda: store.backward_fetch(nothing),
        lambda: store.find_sessions(nothing, 0, 1),
        lambda: store.backward_find_sessions(nothing, 0, 1),
    ):
        with pytest.raises(NullArgumentError):
            call()
    assert list(store.fetch_range(None, None)) == []


def test_closed_store_rejects_every_call(make_store: MakeStore) -> None:
    """After close every call and every open iterator raises; opening again starts empty."""
    store, context = make_store()
    one = session(b"a", 0, 1)
    put_all(store, [(session(b"a", 0, 2 * RETENTION), b"1"), (one, b"late")])
    scan = store.fetch(b"a")
    store.close()
    store.close()
    for call in (
        lambda: store.put(one, b"1"),
        lambda: store.remove(one),
        lambda: store.fetch_session(b"a", 0, 1),
        lambda: store.fetch(b"a"),
        lambda: store.backward_fetch(b"a"),
        lambda: store.fetch_range(b"b", b"a"),
        lambda: store.backward_fetch_range(None, None),
        lambda: store.find_sessions(b"a", 0, 1),
        lambda: store.backward_find_sessions(b"a", 0, 1),
        lambda: store.find_sessions_between(0, 1),
        lambda: store.commit({}),
        lambda: next(scan),
        lambda: restore(context, (one, b"1")),
    ):
        with pytest.raises(InvalidStateStoreError):
            call()
    assert not store.is_open
    store.init(context, store)
    assert (list(store.fetch_range(None, None)), store.dropped_records) == ([], 0)
    store.put(one, b"1")
    assert store.fetch_session(b"a", 0, 1) == b"1"
    with pytest.raises(InvalidStateStoreError, match="already open"):
        store.init(context, store)


def test_what_is_not_there(store: InMemorySessionStore) -> None:
    """No transactions, no offsets, nothing durable: the store is its own view."""
    partition = TopicPartition("log", 0)
    store.commit({partition: 5})
    assert store.committed_offset(partition) is None
    assert (store.persistent, store.manages_offsets) == (False, False)
    assert store.new_transaction() is store
    assert store.read_only(IsolationLevel.READ_COMMITTED) is store


def test_the_default_store() -> None:
    claims = cast(InMemorySessionStore, default_store()).capabilities
    assert (claims.kind, claims.retention_ms, claims.window_size_ms) == ("session", 180_000, 0)
    assert (claims.expiry, claims.scan_order) == ("record", "time")


def test_queries_from_other_threads(make_store: MakeStore) -> None:
    """Scans in another thread meet no error and no disorder while sessions come and go."""
    store, _ = make_store(100)
    problems: list[object] = []
    done = threading.Event()

    def query() -> None:
        try:
            while not done.is_set():
                order = [
                    (end, key, -start) for (key, (start, end)), _ in store.fetch_range(None, None)
                ]
                if order != sorted(set(order)):
                    problems.append(order)
        except Exception as error:  # noqa: BLE001  # The test shows it.
            problems.append(error)

    thread = threading.Thread(target=query)
    thread.start()
    for number in range(5000):
        windowed = session(b"%d" % (number * 7919 % 50), number // 20, number // 10)
        store.put(windowed, None if number % 5 == 0 else b"x")
    done.set()
    thread.join()
    assert problems == []


# --- programs against a model -------------------------------------------------------------

keys = st.sampled_from([b"", b"a", b"a\x00", b"aa", b"b", b"\xff"])
times = st.integers(0, 40)
bounds = st.integers(-5, 60)
sessions = st.builds(
    lambda key, one, other: session(key, min(one, other), max(one, other)), keys, times, times
)
puts = st.tuples(sessions, st.none() | st.binary(max_size=1))


class Model:
    """The sessions in a dict; a retention of 20 ms."""

    def __init__(self) -> None:
        self.aggregates: dict[Windowed, bytes] = {}
        self.stream_time = -1
        self.dropped = 0

    def put(self, windowed: Windowed, aggregate: bytes | None) -> None:
        self.stream_time = max(self.stream_time, windowed.window.end)
        if windowed.window.end <= self.stream_time - 20:
            self.dropped += 1
        elif aggregate is None:
            self.aggregates.pop(windowed, None)
        else:
            self.aggregates[windowed] = aggregate

    def find(
        self, key_from: bytes | None, key_to: bytes | None, earliest_end: int, latest_start: int
    ) -> list[Entry]:
        found = [
            (windowed, aggregate)
            for windowed, aggregate in self.aggregates.items()
            if (key_from is None or key_from <= windowed.key)
            and (key_to is None or windowed.key <= key_to)
            and windowed.window.end > self.stream_time - 20
            and windowed.window.end >= earliest_end
            and windowed.window.start <= latest_start
        ]
        return sorted(found, key=lambda row: (row[0].window.end, row[0].key, -row[0].window.start))


@settings(settings.get_profile("stores"), max_examples=200)
@given(
    program=st.lists(puts, max_size=25),
    query=st.tuples(st.none() | keys, st.none() | keys, bounds, bounds),
    restored=st.booleans(),
)
def test_random_programs_equal_a_dict(
    make_context: MakeContext,
    program: list[tuple[Windowed, bytes | None]],
    query: tuple[bytes | None, bytes | None, int, int],
    restored: bool,
) -> None:
    """Any puts, restored or not, lead to what a dict would hold."""
    store, context = InMemorySessionStore("store", retention_ms=20), make_context()
    store.init(context, store)
    model = Model()
    for windowed, aggregate in program:
        restore(context, (windowed, aggregate)) if restored else store.put(windowed, aggregate)
        model.put(windowed, aggregate)
        assert store.dropped_records == model.dropped
        expected = model.find(*query)
        assert list(store.find_sessions_range(*query)) == expected
        assert list(store.backward_find_sessions_range(*query)) == expected[::-1]
        everything = model.find(None, None, -1, 99)
        assert list(store.fetch_range(None, None)) == everything
        assert list(store.fetch(windowed.key)) == [
            r for r in everything if r[0].key == windowed.key
        ]
        ends = (query[2], query[3])
        between = [row for row in everything if ends[0] <= row[0].window.end <= ends[1]]
        assert list(store.find_sessions_between(*ends)) == between
        found = store.fetch_session(windowed.key, *windowed.window)
        assert found == dict(everything).get(windowed)
    store.close()


@settings(settings.get_profile("stores"), max_examples=200)
@given(
    before=st.lists(puts, max_size=15),
    after=st.lists(st.tuples(st.booleans(), puts), max_size=15),
    reverse=st.booleans(),
)
def test_an_open_iterator_loses_and_repeats_nothing(
    make_context: MakeContext,
    before: list[tuple[Windowed, bytes | None]],
    after: list[tuple[bool, tuple[Windowed, bytes | None]]],
    reverse: bool,
) -> None:
    """Sessions that no later write touched come exactly once, in order, also if they expire."""
    store, context = InMemorySessionStore("store", retention_ms=20), make_context()
    store.init(context, store)
    for windowed, aggregate in before:
        store.put(windowed, aggregate)
    opened = store.backward_fetch_range if reverse else store.fetch_range
    old, scan = list(opened(None, None)), opened(None, None)
    seen: list[Entry] = []
    for step, (windowed, aggregate) in after:
        if step:
            seen += [row for row in [next(scan, None)] if row is not None]
        store.put(windowed, aggregate)
    seen += scan
    touched = {windowed for _, (windowed, _) in after}
    assert [row for row in seen if row[0] not in touched] == [
        row for row in old if row[0] not in touched
    ]
    order = [(end, key, -start) for (key, (start, end)), _ in seen]
    assert order == sorted(set(order), reverse=reverse)
    assert set(seen) <= {*old, *((entry, value or b"") for _, (entry, value) in after)}
    store.close()
