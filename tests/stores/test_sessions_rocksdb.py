"""Session stores on RocksDB: what Kafka's tests ask, transactions, and programs against a model."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamproof.stores.api import (
    ChangelogRecord,
    IsolationLevel,
    RecordMetadata,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.errors import (
    InvalidArgumentError,
    InvalidStateStoreError,
    NullArgumentError,
    ProcessorStateError,
)
from streamproof.stores.transactional import TransactionalKeyValueStore, TransactionalRocksDBStore
from streamproof.stores.windowed import rocksdb_sessions, timestamped_sessions
from streamproof.stores.windowed.keys import session_key
from streamproof.stores.windowed.rocksdb_sessions import (
    RocksDBSessionStore,
)
from streamproof.stores.windowed.segment_databases import SegmentDatabases
from streamproof.stores.windowed.timestamped_sessions import TimestampedRocksDBSessionStore
from streamproof.stores.windows import LONG_MAX, Window, Windowed

RETENTION, INTERVAL = 10_000, 60_000
"""Kafka's figures: AbstractSessionBytesStoreTest."""

CHANGELOG = TopicPartition("log", 0)

MakeContext = Callable[..., StateStoreContext]
MakeStore = Callable[..., Any]


def plain(**arguments: Any) -> RocksDBSessionStore:
    """All segments in one database, with Kafka's figures."""
    figures = {"retention_ms": RETENTION, "segment_interval_ms": INTERVAL} | arguments
    return RocksDBSessionStore("store", **figures)


def transactional(**arguments: Any) -> RocksDBSessionStore:
    """The same, with writes staged until the commit."""
    return plain(inner=TransactionalKeyValueStore(TransactionalRocksDBStore("store")), **arguments)


def databases(**arguments: Any) -> RocksDBSessionStore:
    """One database for each segment."""
    interval = arguments.get("segment_interval_ms", INTERVAL)
    return plain(inner=SegmentDatabases("store", segment_interval_ms=interval), **arguments)


class Timestamped(TimestampedRocksDBSessionStore):
    """A store with timestamps that shows what the store below it knows."""

    @property
    def stream_time(self) -> int:
        return self._below.stream_time

    @property
    def context(self) -> StateStoreContext:
        return self._below.context

    @property
    def _below(self) -> RocksDBSessionStore:
        assert isinstance(self.inner, RocksDBSessionStore)
        return self.inner


def timestamped(**arguments: Any) -> TimestampedRocksDBSessionStore:
    """All segments in one database, with the timestamps of records and with transactions."""
    figures = {"retention_ms": RETENTION, "segment_interval_ms": INTERVAL} | arguments
    return Timestamped("store", transactional=True, **figures)


LAYOUTS = pytest.mark.parametrize("make", [plain, transactional, databases, timestamped])
STAGING = (transactional, timestamped)


@pytest.fixture
def opened(make_context: MakeContext) -> Iterator[MakeStore]:
    """Opens stores in one task directory, and closes in the end what is left open."""
    stores: list[StateStore] = []

    def open_one(store: Any, *, exactly_once: bool = True) -> Any:
        context = make_context(exactly_once=exactly_once)
        store.init(context, store)
        stores.append(store)
        return store

    yield open_one
    for store in stores:
        store.close()


def session(key: bytes, start: int, end: int) -> Windowed:
    """A key and its session."""
    return Windowed(key, Window(start, end))


def fill(store: Any, *sessions: tuple[bytes, int, int]) -> None:
    """Put sessions whose aggregates are their starts and ends."""
    for key, start, end in sessions:
        store.put(session(key, start, end), b"%d-%d" % (start, end))


def listed(entries: Any) -> list[Any]:
    """What an iterator yields; it is closed."""
    with entries:
        return list(entries)


def spans(entries: Any) -> list[tuple[bytes, int, int]]:
    """The keys, starts and ends that an iterator yields; it is closed."""
    return [(key, start, end) for (key, (start, end)), _ in listed(entries)]


def restore(store: Any, *rows: tuple[Windowed, bytes | None]) -> None:
    """Apply sessions and aggregates as records of the changelog."""
    records = [
        ChangelogRecord(session_key(each.key, *each.window), value, offset)
        for offset, (each, value) in enumerate(rows)
    ]
    store.context.restore_callbacks["store"](records)


# --- Kafka's contracts --------------------------------------------------------------------


@LAYOUTS
def test_sessions_that_overlap_a_span(make: MakeStore, opened: MakeStore) -> None:
    """Kafka: shouldFindSessionsToMerge, shouldPutAndFindSessionsInRange, and their opposites."""
    store = opened(make())
    rows = [(b"k", start + (start > 0), start + 100) for start in range(0, 500, 100)]
    fill(store, *rows, (b"j", 150, 300))
    assert spans(store.find_sessions(b"k", 150, 300)) == rows[1:3]
    assert spans(store.backward_find_sessions(b"k", 150, 300)) == rows[1:3][::-1]
    assert spans(store.find_sessions(b"k", 200, 201)) == rows[1:3]
    assert spans(store.find_sessions(b"k", 201, 200)) == []
    assert spans(store.find_sessions(b"k", 501, 9999)) == []
    both = spans(store.find_sessions_range(b"j", b"k", 150, 300))
    assert sorted(both) == [(b"j", 150, 300), *rows[1:3]]
    assert spans(store.backward_find_sessions_range(b"j", b"k", 150, 300)) == both[::-1]
    assert spans(store.find_sessions_range(None, b"j", 0, 300)) == [(b"j", 150, 300)]


@LAYOUTS
def test_bounds_may_be_before_and_after_time(make: MakeStore, opened: MakeStore) -> None:
    """Kafka: shouldFindValuesWithinMergingSessionWindowRange, (Backward)."""
    store = opened(make())
    rows = [(b"k", 0, 0), (b"k", 1000, 1000)]
    fill(store, *rows)
    assert spans(store.find_sessions(b"k", -1, 1000)) == rows
    assert spans(store.backward_find_sessions(b"k", -1, 1000)) == rows[::-1]
    assert spans(store.find_sessions(b"k", -1, -1)) == []
    assert spans(store.find_sessions(b"k", LONG_MAX + 1, LONG_MAX)) == []
    assert spans(store.find_sessions(b"k", -(2**70), 2**70)) == rows


@LAYOUTS
def test_sessions_by_their_ends(make: MakeStore, opened: MakeStore) -> None:
    """Kafka: shouldFindSessionsForTimeRange."""
    store = opened(make())
    fill(store, (b"a", 0, 0), (b"b", 10, 20), (b"c", 30, 40))
    for first, last, count in ((0, 20, 2), (0, 19, 1), (1, 20, 1), (19, 41, 2), (0, 40, 3)):
        assert len(spans(store.find_sessions_between(first, last))) == count
    assert spans(store.find_sessions_between(20, 19)) == []
    assert len(spans(store.find_sessions_between(-5, 2**70))) == 3


@LAYOUTS
def test_order_is_segment_then_key_then_end_then_start(make: MakeStore, opened: MakeStore) -> None:
    """Kafka: shouldFetchAllSessionsWithSameRecordKey, shouldFetchAllSessionsWithinKeyRange."""
    store = opened(make(retention_ms=2 * INTERVAL))
    rows = [
        (b"a", 0, 70),
        (b"a", 60, 70),
        (b"a", 5, 80),
        (b"b", 0, 10),
        (b"c", 3, 3),
        (b"a", 10, INTERVAL),
        (b"b", 0, INTERVAL + 5),
    ]
    fill(store, *rows[::-1])
    assert spans(store.fetch_range(None, None)) == rows
    assert spans(store.backward_fetch_range(None, None)) == rows[::-1]
    assert spans(store.fetch(b"a")) == [*rows[:3], rows[5]]
    assert spans(store.backward_fetch(b"a")) == [*rows[:3], rows[5]][::-1]
    assert spans(store.fetch_range(b"b", b"c")) == [rows[3], rows[4], rows[6]]
    assert spans(store.fetch_range(b"b", None)) == [rows[3], rows[4], rows[6]]
    assert spans(store.fetch_range(None, b"a")) == [*rows[:3], rows[5]]
    assert spans(store.fetch_range(b"x", b"y")) == []


@LAYOUTS
def test_one_key_equals_a_range_of_one_key(make: MakeStore, opened: MakeStore) -> None:
    """Kafka: shouldReturnSameResultsForSingleKeyFindSessionsAndEqualKeyRangeFindSessions."""
    store = opened(make())
    fill(store, (b"a", 0, 1), (b"aa", 2, 3), (b"a", 4, 5), (b"aa", 6, 7))
    for key in (b"a", b"aa", b"b"):
        assert listed(store.find_sessions(key, 1, 6)) == listed(
            store.find_sessions_range(key, key, 1, 6)
        )
        assert listed(store.fetch(key)) == listed(store.fetch_range(key, key))


@LAYOUTS
def test_exactly_this_session(make: MakeStore, opened: MakeStore) -> None:
    """Kafka: shouldFetchExactSession, shouldReturnNullOnSessionNotFound. Empty is a value."""
    store = opened(make())
    fill(store, (b"k", 0, 4), (b"k", 5, 3 + 2), (b"j", 0, 5))
    store.put(session(b"k", 2, 4), b"")
    assert store.fetch_session(b"k", 2, 4) == b""
    assert store.fetch_session(b"k", 0, 4) == b"0-4"
    for key, start, end in (
        (b"k", 1, 4),
        (b"k", 0, 5),
        (b"i", 0, 4),
        (b"k", 4, 0),
        (b"k", -1, 4),
        (b"k", 0, LONG_MAX + 1),
    ):
        assert store.fetch_session(key, start, end) is None


@LAYOUTS
def test_update_and_remove(make: MakeStore, opened: MakeStore) -> None:
    """Kafka: shouldRemove, shouldRemoveOnNullAggValue, and removing what is not there."""
    store = opened(make())
    fill(store, (b"a", 0, 1000), (b"a", 1500, 2500), (b"b", 0, 1000))
    store.put(session(b"a", 0, 1000), b"updated")
    assert store.fetch_session(b"a", 0, 1000) == b"updated"
    store.remove(session(b"a", 0, 1000))
    store.put(session(b"b", 0, 1000), None)
    store.remove(session(b"a", 0, 1001))
    assert spans(store.fetch_range(None, None)) == [(b"a", 1500, 2500)]


@LAYOUTS
def test_keys_are_exact(make: MakeStore, opened: MakeStore) -> None:
    """Kafka: shouldFetchExactKeys, shouldFetchAndIterateOverExactBinaryKeys."""
    store = opened(make(retention_ms=LONG_MAX, segment_interval_ms=LONG_MAX // 2))
    keys = [b"", b"a", b"aa", b"a\x00", b"\x00", b"\x00\x00", b"\xff", b"\xff\xff", b"a\x7f"]
    # With the longest retention and the latest stream time, 1 is the first end to be kept.
    times = [(0, 1), (1, 1), (1, LONG_MAX - 1), (LONG_MAX, LONG_MAX)]
    rows = [(key, start, end) for key in keys for start, end in times]
    fill(store, *rows)
    for key in keys:
        expected = [row for row in rows if row[0] == key]
        assert spans(store.fetch(key)) == expected
        assert spans(store.backward_fetch(key)) == expected[::-1]
        assert spans(store.find_sessions(key, 1, 1)) == expected[:3]
        assert spans(store.fetch_range(key, key)) == expected
    everything = spans(store.fetch_range(b"", b"\xff\xff"))
    assert sorted(everything) == sorted(rows)
    assert spans(store.backward_fetch_range(None, None)) == everything[::-1]


@LAYOUTS
def test_inverted_keys_are_empty_and_warn(
    make: MakeStore, opened: MakeStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka: shouldNotThrowInvalidRangeExceptionWithNegativeFromKey."""
    store = opened(make())
    fill(store, (b"k", 0, 1))
    with caplog.at_level(logging.WARNING, "streamproof.stores"):
        assert spans(store.fetch_range(b"z", b"a")) == []
        assert spans(store.backward_find_sessions_range(b"z", b"a", 0, 9)) == []
    assert len(caplog.records) == 2


@LAYOUTS
def test_sessions_that_make_no_sense(make: MakeStore, opened: MakeStore) -> None:
    """A session starts at 0 or later, and ends no earlier, and no later than time itself."""
    store = opened(make())
    for start, end in ((-1, 5), (5, 4), (0, LONG_MAX + 1)):
        for call in (lambda each: store.put(each, b"v"), store.remove):
            with pytest.raises(InvalidArgumentError):
                call(session(b"k", start, end))
    assert store.stream_time == -1


@LAYOUTS
def test_null_keys_are_rejected(make: MakeStore, opened: MakeStore) -> None:
    """Kafka: shouldThrowNullPointerExceptionOn{FindSessions,Fetch,Remove,Put}NullKey."""
    store = opened(make())
    nothing: Any = None
    calls: list[Callable[[], object]] = [
        lambda: store.put(session(nothing, 0, 1), b"v"),
        lambda: store.remove(session(nothing, 0, 1)),
        lambda: store.fetch(None),
        lambda: store.backward_fetch(None),
        lambda: store.fetch_session(None, 0, 1),
        lambda: store.find_sessions(None, 0, 1),
        lambda: store.backward_find_sessions(None, 0, 1),
    ]
    for call in calls:
        with pytest.raises(NullArgumentError):
            call()


@LAYOUTS
def test_too_late_sessions_are_dropped_and_counted(make: MakeStore, opened: MakeStore) -> None:
    """Kafka: shouldMeasureExpiredRecords. What counts is the segment of a session's end."""
    store = opened(make())
    fill(store, (b"k", 0, 120_000), (b"k", 0, 0), (b"k", 50_000, 59_999), (b"k", 0, 120_000))
    assert store.dropped_records == 2
    # A segment that is not expired as a whole takes what can no longer be read.
    fill(store, (b"k", 0, 60_000), (b"k", 0, 110_000), (b"k", 0, 110_001))
    assert store.dropped_records == 2
    assert spans(store.fetch(b"k")) == [(b"k", 0, 110_001), (b"k", 0, 120_000)]


@LAYOUTS
def test_expired_sessions_are_not_found(make: MakeStore, opened: MakeStore) -> None:
    """Kafka: shouldRemoveExpired, shouldNotFetchExpiredSessions."""
    store = opened(make())
    fill(store, (b"a", 0, 0), (b"b", 0, 1), (b"a", 9_000, 10_000))
    assert store.fetch_session(b"a", 0, 0) is None
    expected = [(b"a", 9_000, 10_000), (b"b", 0, 1)]
    assert spans(store.fetch_range(None, None)) == expected
    assert spans(store.backward_fetch_range(None, None)) == expected[::-1]
    assert spans(store.fetch(b"a")) == spans(store.backward_fetch(b"a")) == expected[:1]
    assert spans(store.find_sessions(b"a", 0, 0)) == []
    assert spans(store.find_sessions_between(0, 0)) == []


@LAYOUTS
def test_peek_does_not_advance(make: MakeStore, opened: MakeStore) -> None:
    """Kafka: testIteratorPeek, testIteratorPeekBackward."""
    store = opened(make())
    fill(store, (b"a", 0, 0), (b"a", 1, 1))
    for entries in (store.fetch(b"a"), store.backward_fetch(b"a"), store.fetch_range(None, None)):
        with entries:
            for _ in range(2):
                assert entries.peek_next_key() == entries.peek_next_key() == next(entries)[0]
            with pytest.raises(StopIteration):
                entries.peek_next_key()


@LAYOUTS
def test_restoring_equals_writing(make: MakeStore, opened: MakeStore) -> None:
    """Kafka: shouldRestore. A batch can be applied twice, and a tombstone removes."""
    store = opened(make())
    one, two, three = (session(b"k", start, start + 5) for start in (0, 10, 20))
    for _ in range(2):
        restore(store, (one, b"1"), (two, b"2"), (one, None), (three, b"3"))
        assert listed(store.fetch(b"k")) == [(two, b"2"), (three, b"3")]
    assert store.approximate_num_uncommitted_entries() == 0
    late = session(b"k", 0, 0)
    restore(store, (late, b"late"), (session(b"k", 0, 5 * INTERVAL), b"new"))
    assert store.dropped_records == 1
    assert spans(store.fetch(b"k")) == [(b"k", 0, 5 * INTERVAL)]
    for key in (b"short", b"k" + b"\xff" * 16, session_key(b"k", 6, 5)):
        with pytest.raises(ProcessorStateError, match="another kind of store wrote it"):
            store.context.restore_callbacks["store"]([ChangelogRecord(key, b"v", 9)])


@LAYOUTS
def test_a_closed_store_rejects_every_call(make: MakeStore, opened: MakeStore) -> None:
    """After close every call and every open iterator raises; the store can be opened again."""
    store = opened(make())
    fill(store, (b"k", 0, 5 * INTERVAL), (b"k", 1, 5 * INTERVAL))
    store.commit({CHANGELOG: 1})
    entries = store.fetch(b"k")
    entries.peek_next_key()
    store.close()
    store.close()
    calls: list[Callable[[], object]] = [
        lambda: fill(store, (b"k", 0, 5 * INTERVAL)),
        lambda: fill(store, (b"k", 0, 0)),
        lambda: store.remove(session(b"k", 0, 0)),
        lambda: store.fetch(b"k"),
        lambda: store.backward_fetch(b"k"),
        lambda: store.fetch_session(b"k", 0, 0),
        lambda: store.fetch_session(b"k", 0, 5 * INTERVAL),
        lambda: store.fetch_session(b"k", -1, 0),
        lambda: store.find_sessions(b"k", 2**70, 0),
        lambda: store.find_sessions_between(0, 5),
        lambda: store.fetch_range(None, None),
        lambda: store.backward_fetch_range(None, None),
        lambda: store.commit({CHANGELOG: 1}),
        store.flush,
        lambda: next(entries),
        entries.peek_next_key,
    ]
    for call in calls:
        with pytest.raises(InvalidStateStoreError):
            call()
    opened(store)
    assert len(spans(store.fetch(b"k"))) == 2


@LAYOUTS
def test_position_and_stream_time_are_committed(make: MakeStore, opened: MakeStore) -> None:
    """Kafka: shouldMatchPositionAfterPut; KIP-1035; what is late stays late (KAFKA-12718)."""
    store = opened(make())
    store.context.record_metadata = RecordMetadata("input", 3, 7)
    fill(store, (b"k", 0, 5 * INTERVAL))
    store.remove(session(b"k", 0, 5 * INTERVAL))
    expected = {TopicPartition("input", 3): 7}
    assert store.position.as_dict() == expected
    store.commit({CHANGELOG: 2})
    store.close()
    again = opened(make())
    assert again.position.as_dict() == expected
    assert again.committed_offset(CHANGELOG) == 2
    assert again.stream_time == 5 * INTERVAL
    fill(again, (b"k", 0, 0))
    assert again.dropped_records == 1


def test_what_the_stores_claim() -> None:
    """The figures of the factories, and what the layers below make of them."""
    for factory, staged in (
        (rocksdb_sessions.default_store, False),
        (rocksdb_sessions.transactional_store, True),
    ):
        found = factory().capabilities
        assert (found.kind, found.expiry, found.scan_order) == ("session", "segment", "segment")
        assert (found.retention_ms, found.segment_interval_ms) == (180_000, 90_000)
        assert (found.transactional, found.explicit_transactions) == (staged, staged)
        assert found.position
        assert not found.timestamped
    assert timestamped_sessions.default_store().capabilities.timestamped


# --- transactions and views ---------------------------------------------------------------


@pytest.mark.parametrize("make", STAGING)
def test_views_and_transactions_show_what_they_should(make: MakeStore, opened: MakeStore) -> None:
    """Kafka: readOnlyCommittedShouldHideStagedSessions, readOnlyFindSessionsShouldRespect..."""
    store = opened(make(retention_ms=2 * INTERVAL))
    fill(store, (b"k", 0, 5))
    store.commit({CHANGELOG: 0})
    committed = store.read_only(IsolationLevel.READ_COMMITTED)
    uncommitted = store.read_only(IsolationLevel.READ_UNCOMMITTED)
    fill(store, (b"k", 7, 8), (b"k", 9, 6 * INTERVAL))
    assert spans(committed.fetch(b"k")) == [(b"k", 0, 5)]
    assert spans(committed.find_sessions_between(0, LONG_MAX)) == [(b"k", 0, 5)]
    assert committed.fetch_session(b"k", 0, 5) == b"0-5"
    assert committed.fetch_session(b"k", 7, 8) is None
    assert spans(uncommitted.find_sessions(b"k", 0, LONG_MAX)) == [(b"k", 9, 6 * INTERVAL)]
    assert uncommitted.fetch_session(b"k", 0, 5) is None
    with store.new_transaction() as transaction:
        transaction.put(session(b"k", 1, 2), b"own")
        assert transaction.fetch_session(b"k", 1, 2) == b"own"
        assert spans(transaction.backward_fetch(b"k")) == [(b"k", 0, 5), (b"k", 1, 2)]
        transaction.remove(session(b"k", 0, 5))
        assert spans(transaction.fetch_range(b"k", b"k")) == [(b"k", 1, 2)]
    assert spans(committed.backward_fetch_range(None, None)) == [(b"k", 0, 5)]
    store.commit({CHANGELOG: 1})
    assert spans(committed.fetch(b"k")) == [(b"k", 9, 6 * INTERVAL)]


def test_timestamps_of_aggregates(opened: MakeStore) -> None:
    """A plain put takes that of the record which is being processed (KIP-258)."""
    store = opened(timestamped())
    store.context.record_timestamp = 42
    fill(store, (b"k", 0, 5))
    with store.new_transaction() as transaction:
        transaction.put_with_timestamp(session(b"k", 1, 5), b"v", 43)
        fill(transaction, (b"k", 2, 5))
        assert transaction.fetch_session_with_timestamp(b"k", 2, 5) == (b"2-5", 42)
        transaction.commit({CHANGELOG: 0})
    found = listed(store.fetch_with_timestamp(b"k"))
    # The transaction was committed alone: the put of the store is still staged, and it is seen.
    assert [(each.window.start, value) for each, value in found] == [
        (0, (b"0-5", 42)),
        (1, (b"v", 43)),
        (2, (b"2-5", 42)),
    ]
    assert listed(store.find_sessions_range_with_timestamp(b"k", b"k", 0, 1)) == found[:2]
    assert listed(store.fetch_range_with_timestamp(None, None)) == found
    store.put_with_timestamp(session(b"k", 0, 5), None, 44)
    assert store.fetch_session_with_timestamp(b"k", 0, 5) is None


# --- programs against a model -------------------------------------------------------------

KEYS = st.sampled_from([b"", b"a", b"a\x00", b"aa", b"b", b"\xff"])
BOUNDS = st.integers(-5, 60)
STEPS = st.one_of(
    st.tuples(KEYS, st.integers(0, 40), st.integers(0, 9), st.none() | st.binary(max_size=1)),
    st.sampled_from(["commit", "reopen"]),
)
SMALL_RETENTION, SMALL_INTERVAL = 20, 6


class Model:
    """A dict of what was put, with a retention of 20 ms in segments of 6 ms."""

    def __init__(self) -> None:
        self.rows: dict[Windowed, bytes] = {}
        self.stream_time = -1

    def copy(self) -> Model:
        other = Model()
        other.rows, other.stream_time = dict(self.rows), self.stream_time
        return other

    def put(self, each: Windowed, value: bytes | None) -> bool:
        """Whether the record is kept."""
        self.stream_time = max(self.stream_time, each.window.end)
        first = (self.stream_time - SMALL_RETENTION) // SMALL_INTERVAL
        if each.window.end // SMALL_INTERVAL < first:
            return False
        self.rows.pop(each, None)
        if value is not None:
            self.rows[each] = value
        return True

    def find(
        self, key_from: bytes | None, key_to: bytes | None, earliest_end: int, latest_start: int
    ) -> list[tuple[Windowed, bytes]]:
        """In the order of rows: by segment, and in it by the bytes of key, end and start."""
        first = max(earliest_end, self.stream_time - SMALL_RETENTION + 1)
        found = [
            each
            for each in self.rows
            if first <= each.window.end
            and each.window.start <= latest_start
            and (key_from is None or key_from <= each.key)
            and (key_to is None or each.key <= key_to)
        ]
        found.sort(
            key=lambda each: (
                each.window.end // SMALL_INTERVAL,
                session_key(each.key, *each.window),
            )
        )
        return [(each, self.rows[each]) for each in found]


def check_reads(store: Any, model: Model, query: tuple[Any, Any, int, int]) -> None:
    """Compare everything that can be read."""
    expected = model.find(*query)
    assert listed(store.find_sessions_range(*query)) == expected
    assert listed(store.backward_find_sessions_range(*query)) == expected[::-1]
    everything = model.find(None, None, 0, 99)
    assert listed(store.fetch_range(None, None)) == everything
    low, high = query[2:]
    between = [row for row in everything if low <= row[0].window.end <= high]
    assert listed(store.find_sessions_between(low, high)) == between
    for each in list(model.rows):
        assert store.fetch_session(each.key, *each.window) == dict(everything).get(each)
        of_key = [row for row in everything if row[0].key == each.key]
        assert listed(store.fetch(each.key)) == of_key
        assert listed(store.backward_fetch(each.key)) == of_key[::-1]


@pytest.mark.parametrize(
    ("make", "examples"), [(plain, 25), (transactional, 25), (databases, 10), (timestamped, 15)]
)
def test_random_programs_equal_a_dict(
    make: MakeStore,
    examples: int,
    make_context: MakeContext,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Puts, commits and restarts lead to what a dict would hold."""

    @settings(settings.get_profile("stores"), max_examples=examples)
    @given(
        program=st.lists(STEPS, max_size=20),
        query=st.tuples(st.none() | KEYS, st.none() | KEYS, BOUNDS, BOUNDS),
    )
    def run(program: list[Any], query: tuple[Any, Any, int, int]) -> None:
        run_program(make, make_context(), tmp_path_factory.mktemp("task"), program, query)

    run()


def run_program(
    make: MakeStore,
    context: StateStoreContext,
    directory: Path,
    program: list[Any],
    query: tuple[Any, Any, int, int],
) -> None:
    """One program, checked after every step."""
    context.state_dir = directory
    figures = {"retention_ms": SMALL_RETENTION, "segment_interval_ms": SMALL_INTERVAL}
    store = make(**figures)
    store.init(context, store)
    model, committed, dropped = Model(), Model(), 0
    for step in program:
        if step == "commit":
            store.commit({CHANGELOG: 1})
            committed = model.copy()
        elif step == "reopen":
            store.close()
            store = make(**figures)
            store.init(context, store)
            # What is staged ends with the store; without transactions nothing is.
            model, dropped = (committed if make in STAGING else model).copy(), 0
        else:
            key, start, length, value = step
            each = session(key, start, start + length)
            dropped += not model.put(each, value)
            store.put(each, value)
        assert (store.stream_time, store.dropped_records) == (model.stream_time, dropped)
        check_reads(store, model, query)
    store.close()
