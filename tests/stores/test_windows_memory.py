"""InMemoryWindowStore: what Kafka's tests of window stores ask, and programs against a model."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
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
from streamproof.stores.windowed.keys import window_key
from streamproof.stores.windowed.memory_windows import InMemoryWindowStore, default_store
from streamproof.stores.windows import LONG_MAX, Window, Windowed

RETENTION, SIZE = 120_000, 3
START = 59_996
"""Kafka's figures: AbstractWindowBytesStoreTest."""

MakeContext = Callable[..., StateStoreContext]
MakeStore = Callable[..., tuple[InMemoryWindowStore, StateStoreContext]]


@pytest.fixture
def make_store(make_context: MakeContext) -> Iterator[MakeStore]:
    """Makes open stores and closes them in the end."""
    stores = []

    def make(**arguments: Any) -> tuple[InMemoryWindowStore, StateStoreContext]:
        arguments = {"retention_ms": RETENTION, "window_size_ms": SIZE} | arguments
        store, context = InMemoryWindowStore("store", **arguments), make_context()
        store.init(context, store)
        stores.append(store)
        return store, context

    yield make
    for store in stores:
        store.close()


@pytest.fixture
def store(make_store: MakeStore) -> InMemoryWindowStore:
    """An open store with Kafka's figures."""
    return make_store()[0]


def entry(key: bytes, start: int, value: bytes) -> tuple[Windowed, bytes]:
    """An entry as a scan over several keys yields it."""
    return Windowed(key, Window(start, start + SIZE)), value


def restore(context: StateStoreContext, *rows: tuple[bytes, int, int, bytes | None]) -> None:
    """Apply rows of key, start, sequence number and value as records of the changelog."""
    records = [
        ChangelogRecord(window_key(key, start, sequence), value, offset)
        for offset, (key, start, sequence, value) in enumerate(rows)
    ]
    context.restore_callbacks["store"](records)


def test_bounds_of_time_are_inclusive_window_starts(store: InMemoryWindowStore) -> None:
    """Kafka: testRangeAndSinglePointFetch, testPutAndFetchBefore, testPutAndFetchAfter."""
    for step in range(6):
        store.put(b"k", b"%d" % step, START + step)
    assert store.fetch(b"k", START + 2) == b"2"
    assert store.fetch(b"k", START + 6) is None
    for first in range(-4, 8):
        for last in range(first - 1, 8):
            expected = [(START + step, b"%d" % step) for step in range(6) if first <= step <= last]
            times = (START + first, START + last)
            assert list(store.fetch_between(b"k", *times)) == expected
            assert list(store.backward_fetch_between(b"k", *times)) == expected[::-1]
            assert [value for _, value in store.fetch_all(*times)] == [v for _, v in expected]


def test_scans_of_all_keys_go_by_start_and_then_by_key(store: InMemoryWindowStore) -> None:
    """Kafka: shouldGetAll, shouldGetBackwardAll, and its order in memory."""
    for key, start in ((b"b", 5), (b"a", 7), (b"", 7), (b"c", 0), (b"a", 5), (b"a\x00", 5)):
        store.put(key, b"v" + key, start)
    expected = [
        entry(b"c", 0, b"vc"),
        entry(b"a", 5, b"va"),
        entry(b"a\x00", 5, b"va\x00"),
        entry(b"b", 5, b"vb"),
        entry(b"", 7, b"v"),
        entry(b"a", 7, b"va"),
    ]
    assert list(store.all()) == expected
    assert list(store.backward_all()) == expected[::-1]
    assert list(store.fetch_all(1, 5)) == expected[1:4]
    assert list(store.backward_fetch_all(1, 5)) == expected[1:4][::-1]
    assert list(store.fetch_all(1, 4)) == []


def test_bounds_of_keys_are_inclusive_or_open(store: InMemoryWindowStore) -> None:
    """Kafka: testFetchRange, testBackwardFetchRange."""
    rows = [(b"a", 1), (b"b", 2), (b"bb", 3), (b"c", 4)]
    for key, start in rows:
        store.put(key, key, start)
    entries = [entry(key, start, key) for key, start in rows]
    for key_from, key_to, expected in (
        (b"a", b"b", entries[:2]),
        (b"b", b"c", entries[1:]),
        (None, b"b", entries[:2]),
        (b"bb", None, entries[2:]),
        (None, None, entries),
        (b"d", b"e", []),
    ):
        assert list(store.fetch_range(key_from, key_to, 0, 9)) == expected
        assert list(store.backward_fetch_range(key_from, key_to, 0, 9)) == expected[::-1]
    assert list(store.fetch_range(b"a", b"c", 2, 3)) == entries[1:3]
    assert list(store.fetch_range(b"a", b"c", 3, 2)) == []


def test_one_key_equals_a_range_of_one_key(store: InMemoryWindowStore) -> None:
    """Kafka: shouldReturnSameResultsForSingleKeyFetchAndEqualKeyRangeFetch."""
    for start in (1, 2, 5):
        store.put(b"a", b"%d" % start, start)
        store.put(b"aa", b"x", start)
    one = list(store.fetch_between(b"a", 0, LONG_MAX))
    several = list(store.fetch_range(b"a", b"a", 0, LONG_MAX))
    assert [(windowed.window.start, value) for windowed, value in several] == one
    assert len(one) == 3


def test_inverted_keys_are_empty_and_warn(
    store: InMemoryWindowStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka: shouldNotThrowInvalidRangeExceptionWithNegativeFromKey."""
    store.put(b"a", b"1", 0)
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="streamproof.stores"):
        assert list(store.fetch_range(b"b", b"a", 0, 9)) == []
        assert list(store.backward_fetch_range(b"b", b"a", 0, 9)) == []
    assert len(caplog.records) == 2


def test_keys_are_exact_up_to_the_end_of_time(make_store: MakeStore) -> None:
    """Kafka: shouldFetchAndIterateOverExactKeys, shouldFetchAndIterateOverExactBinaryKeys."""
    for keys in ((b"a", b"aa"), (b"\x00", b"\x00\x00"), (b"\xff", b"\xff\xff", b"\xff\x00")):
        store, _ = make_store(retention_ms=LONG_MAX)
        starts = (0, 1, 0x7A00000000000000 - 1, LONG_MAX - 1)
        for start in starts:
            for key in keys:
                store.put(key, b"%d" % len(key) + key, start)
        for key in keys:
            value = b"%d" % len(key) + key
            assert list(store.fetch_between(key, 0, LONG_MAX)) == [(s, value) for s in starts]
            assert store.fetch(key, starts[2]) == value
        last = [windowed for windowed, _ in store.fetch_range(keys[0], None, LONG_MAX - 1, 2**70)]
        # The window ends with time itself.
        assert last == [Windowed(key, Window(LONG_MAX - 1, LONG_MAX)) for key in sorted(keys)]


def test_the_end_of_time_and_what_is_before_time(make_store: MakeStore) -> None:
    """A put needs a time from 0 to 2^63 - 1; the bounds of a query may be anything."""
    store, _ = make_store()
    for start in (-1, LONG_MAX + 1):
        with pytest.raises(InvalidArgumentError, match="window start"):
            store.put(b"k", b"v", start)
    store.put(b"k", b"v", 0)
    assert list(store.fetch_between(b"k", -(2**63), 0)) == [(0, b"v")]
    assert list(store.fetch_all(-5, -1)) == []
    assert store.fetch(b"k", -1) is None
    store.put(b"k", b"w", LONG_MAX)
    assert list(store.all()) == [(Windowed(b"k", Window(LONG_MAX, LONG_MAX)), b"w")]


def test_update_and_delete(store: InMemoryWindowStore) -> None:
    """Kafka: testDeleteAndUpdate, shouldGetAllNonDeletedRecords, shouldReturnNullOnWindowNotFound.

    An empty value is a value.
    """
    for start in (0, 1, 2):
        store.put(b"k", b"one", start)
    store.put(b"k", b"", 0)
    store.put(b"k", None, 1)
    store.put(b"k", None, 9)
    assert list(store.fetch_between(b"k", 0, 9)) == [(0, b""), (2, b"one")]
    assert store.fetch(b"k", 0) == b""
    assert store.fetch(b"k", 1) is None
    assert store.fetch(b"other", 0) is None


def test_duplicates_are_kept_in_their_order(make_store: MakeStore) -> None:
    """Kafka: testPutSameKeyTimestamp, testFetchDuplicates; a value of None is ignored."""
    store, _ = make_store(retain_duplicates=True)
    for value in (b"1", b"2", b"2", None, b"0"):
        store.put(b"k", value, 7)
    store.put(b"a", b"9", 7)
    expected = [(7, b"1"), (7, b"2"), (7, b"2"), (7, b"0")]
    assert list(store.fetch_between(b"k", 7, 7)) == expected
    assert list(store.backward_fetch_between(b"k", 0, 9)) == expected[::-1]
    assert [value for _, value in store.all()] == [b"9", b"1", b"2", b"2", b"0"]
    assert store.capabilities.retain_duplicates


def test_the_sequence_of_duplicates_starts_over_after_31_bits(make_store: MakeStore) -> None:
    """After 2^31 puts nothing fails, although the order of duplicates is another one then."""
    store, context = make_store(retain_duplicates=True)
    restore(context, (b"k", 7, 2**31 - 2, b"1"))
    store.put(b"k", b"2", 7)
    store.put(b"k", b"3", 7)
    store.put(b"k", b"4", 7)
    values = [value for _, value in store.fetch_between(b"k", 0, 9)]
    assert values == [b"3", b"4", b"1", b"2"]


def test_too_late_records_are_dropped_and_counted(make_store: MakeStore) -> None:
    """Kafka: shouldMeasureExpiredRecords. A window is too late from stream time - retention on."""
    store, context = make_store()
    context.record_metadata = RecordMetadata("in", 0, 4)
    store.put(b"k", b"late", 0)
    store.put(b"k", b"now", 240_000)
    context.record_metadata = RecordMetadata("in", 0, 5)
    store.put(b"k", b"late", 0)
    store.put(b"k", b"late", 120_000)
    store.put(b"k", None, 120_000)
    assert store.dropped_records == 3
    store.put(b"k", b"just", 120_001)
    assert store.dropped_records == 3
    assert list(store.fetch_between(b"k", 0, LONG_MAX)) == [(120_001, b"just"), (240_000, b"now")]
    # The record was processed, although nothing was kept of it.
    assert store.position.as_dict() == {("in", 0): 5}


def test_windows_expire_as_stream_time_advances(make_store: MakeStore) -> None:
    """Kafka: testExpiration, shouldNotThrowExceptionWhenFetchRangeIsExpired."""
    store, _ = make_store(retention_ms=100)
    for start in (0, 50, 99):
        store.put(b"k", b"v", start)
    assert [start for start, _ in store.fetch_between(b"k", 0, 999)] == [0, 50, 99]
    for stream_time, alive in ((100, [50, 99, 100]), (149, [50, 99, 100, 149])):
        store.put(b"k", b"v", stream_time)
        assert [start for start, _ in store.fetch_between(b"k", 0, 999)] == alive
    # A deletion advances the stream time, too.
    store.put(b"k", None, 249)
    assert list(store.all()) == []
    assert list(store.fetch_all(0, 100)) == []
    assert store.fetch(b"k", 149) is None
    assert store.dropped_records == 0


def test_no_retention_keeps_nothing(make_store: MakeStore) -> None:
    store, _ = make_store(retention_ms=0, window_size_ms=0)
    store.put(b"k", b"v", 5)
    assert (list(store.all()), store.dropped_records) == ([], 1)


def test_an_open_iterator_keeps_what_expires(make_store: MakeStore) -> None:
    """Kafka: shouldNotExpireFromOpenIterator."""
    store, _ = make_store()
    for key, value, start in ((b"1", b"a", 0), (b"1", b"b", 10), (b"2", b"c", 5), (b"2", b"d", 15)):
        store.put(key, value, start)
    first, second = store.fetch_between(b"1", 0, 50), store.fetch_between(b"2", 0, 50)
    backward = store.backward_all()
    store.put(b"1", b"e", 2 * RETENTION)
    assert list(store.all()) == [entry(b"1", 2 * RETENTION, b"e")]
    assert next(first) == (0, b"a")
    assert list(second) == [(5, b"c"), (15, b"d")]
    assert list(first) == [(10, b"b")]
    assert [value for _, value in backward] == [b"d", b"b", b"c", b"a"]
    assert list(store.fetch_between(b"1", 0, 50)) == []


def test_writes_during_a_scan(store: InMemoryWindowStore) -> None:
    """Kafka: shouldNotThrowConcurrentModificationException; deleted rows are skipped."""
    for start in (0, 1, 2, 3):
        store.put(b"k", b"%d" % start, start)
    scan = store.all()
    assert next(scan) == entry(b"k", 0, b"0")
    store.put(b"k", None, 1)
    store.put(b"k", None, 2)
    store.put(b"k", b"again", 2)
    store.put(b"a", b"new", 3)
    store.put(b"z", b"new", 0)
    store.put(b"k", b"later", 9)
    rest = list(scan)
    assert entry(b"k", 3, b"3") in rest
    assert len(rest) == len(set(rest))
    assert all(windowed != Windowed(b"k", Window(1, 1 + SIZE)) for windowed, _ in rest)


def test_peek_does_not_advance(store: InMemoryWindowStore) -> None:
    """Kafka: testWindowIteratorPeek, testValueIteratorPeek."""
    store.put(b"a", b"1", 4)
    store.put(b"b", b"2", 5)
    scan, values = store.all(), store.fetch_between(b"b", 0, 9)
    assert scan.peek_next_key() == Windowed(b"a", Window(4, 4 + SIZE))
    assert next(scan) == entry(b"a", 4, b"1")
    assert scan.peek_next_key().key == b"b"
    assert (values.peek_next_key(), next(values)) == (5, (5, b"2"))
    with pytest.raises(StopIteration):
        values.peek_next_key()


def test_an_iterator_closed_early_leaves_others_alone(store: InMemoryWindowStore) -> None:
    """Kafka: shouldEarlyClosedIteratorStillGetAllRecords."""
    store.put(b"a", b"1", 0)
    store.put(b"a", b"2", 1)
    with store.all() as scan:
        next(scan)
    assert len(list(store.all())) == 2
    with pytest.raises(InvalidStateStoreError):
        next(scan)


def test_restoring_equals_writing(make_store: MakeStore) -> None:
    """Kafka: shouldRestore. A batch can be applied twice, and a tombstone deletes."""
    store, context = make_store()
    for _ in range(2):
        restore(
            context,
            (b"a", 1, 0, b"1"),
            (b"b", 1, 0, b"2"),
            (b"a", 1, 0, None),
            (b"a", 2, 0, b"3"),
        )
        assert list(store.all()) == [entry(b"b", 1, b"2"), entry(b"a", 2, b"3")]
    assert store.dropped_records == 0


def test_restored_duplicates_are_no_more_than_they_were(make_store: MakeStore) -> None:
    """A batch can be applied twice, and what is put afterwards replaces none of it."""
    store, context = make_store(retain_duplicates=True)
    for _ in range(2):
        restore(context, (b"k", 1, 1, b"1"), (b"k", 1, 2, b"2"))
    store.put(b"k", b"3", 1)
    assert [value for _, value in store.fetch_between(b"k", 1, 1)] == [b"1", b"2", b"3"]


def test_restoring_advances_the_stream_time_record_by_record(make_store: MakeStore) -> None:
    """Kafka: shouldMeasureExpiredRecordsDroppedDuringRestoreAsRecords."""
    store, context = make_store()
    restore(context, (b"k", 0, 0, b"1"), (b"k", RETENTION, 0, b"2"), (b"k", 0, 0, b"3"))
    assert store.dropped_records == 1
    assert list(store.all()) == [entry(b"k", RETENTION, b"2")]


def test_position_follows_the_records(make_store: MakeStore) -> None:
    """Kafka: shouldMatchPositionAfterPut. A closed store has no content, so no position."""
    store, context = make_store()
    store.put(b"a", b"1", 0)
    assert store.position.as_dict() == {}
    context.record_metadata = RecordMetadata("in", 1, 7)
    store.put(b"a", b"1", 0)
    context.record_metadata = RecordMetadata("in", 0, 3)
    store.put(b"b", None, 0)
    assert store.position.as_dict() == {("in", 1): 7, ("in", 0): 3}
    store.close()
    store.init(context, store)
    assert store.position.as_dict() == {}


def test_null_keys_are_rejected(store: InMemoryWindowStore) -> None:
    """Kafka: shouldThrowNullPointerExceptionOnPutNullKey, ...OnGetNullKey."""
    nothing = cast(Any, None)
    for call in (
        lambda: store.put(nothing, b"1", 0),
        lambda: store.fetch(nothing, 0),
        lambda: store.fetch_between(nothing, 0, 1),
        lambda: store.backward_fetch_between(nothing, 0, 1),
    ):
        with pytest.raises(NullArgumentError):
            call()
    assert list(store.all()) == []


def test_closed_store_rejects_every_call(make_store: MakeStore) -> None:
    """After close every call and every open iterator raises; opening again starts empty."""
    store, context = make_store()
    store.put(b"a", b"1", RETENTION)
    store.put(b"a", b"1", 0)
    scan = store.all()
    store.close()
    store.close()
    for call in (
        lambda: store.put(b"a", b"1", 0),
        lambda: store.fetch(b"a", 0),
        lambda: store.fetch_between(b"a", 0, 1),
        lambda: store.backward_fetch_between(b"a", 0, 1),
        lambda: store.fetch_range(b"b", b"a", 0, 1),
        lambda: store.backward_fetch_all(0, 1),
        store.all,
        store.backward_all,
        lambda: store.commit({}),
        lambda: next(scan),
        lambda: restore(context, (b"a", 0, 0, b"1")),
    ):
        with pytest.raises(InvalidStateStoreError):
            call()
    assert not store.is_open
    store.init(context, store)
    assert (list(store.all()), store.dropped_records) == ([], 0)
    store.put(b"a", b"1", 0)
    assert store.fetch(b"a", 0) == b"1"
    with pytest.raises(InvalidStateStoreError, match="already open"):
        store.init(context, store)


def test_what_is_not_there(store: InMemoryWindowStore) -> None:
    """No transactions, no offsets, nothing durable: the store is its own view."""
    partition = TopicPartition("log", 0)
    store.commit({partition: 5})
    assert store.committed_offset(partition) is None
    assert (store.persistent, store.manages_offsets) == (False, False)
    assert store.new_transaction() is store
    assert store.read_only(IsolationLevel.READ_COMMITTED) is store
    assert store.approximate_num_uncommitted_bytes() == 0


def test_sizes_that_make_no_sense() -> None:
    for retention, size in ((-1, 0), (10, 11), (10, -1)):
        with pytest.raises(InvalidArgumentError, match="'w'"):
            InMemoryWindowStore("w", retention_ms=retention, window_size_ms=size)


def test_the_default_store() -> None:
    claims = cast(InMemoryWindowStore, default_store()).capabilities
    assert (claims.kind, claims.retention_ms, claims.window_size_ms) == ("window", 180_000, 10_000)
    assert (claims.expiry, claims.scan_order) == ("record", "time")


def test_queries_from_other_threads(make_store: MakeStore) -> None:
    """Scans in another thread meet no error and no disorder while windows come and go."""
    store, _ = make_store(retention_ms=100)
    problems: list[object] = []
    done = threading.Event()

    def query() -> None:
        try:
            while not done.is_set():
                forth = [(entry.window.start, entry.key) for entry, _ in store.all()]
                back = [start for start, _ in store.backward_fetch_between(b"7", 0, LONG_MAX)]
                if forth != sorted(set(forth)) or back != sorted(set(back), reverse=True):
                    problems.append((forth, back))
        except Exception as error:  # noqa: BLE001  # The test shows it.
            problems.append(error)

    thread = threading.Thread(target=query)
    thread.start()
    for number in range(5000):
        value = None if number % 5 == 0 else b"x"
        store.put(b"%d" % (number * 7919 % 50), value, number // 10)
    done.set()
    thread.join()
    assert problems == []


# --- programs against a model -------------------------------------------------------------

keys = st.sampled_from([b"", b"a", b"a\x00", b"aa", b"b", b"\xff"])
times = st.integers(0, 40)
bounds = st.integers(-5, 60)
puts = st.tuples(keys, st.none() | st.binary(max_size=1), times)


class Model:
    """All puts in a list, read again and again; a retention of 20 ms."""

    def __init__(self, *, duplicates: bool) -> None:
        self.duplicates = duplicates
        self.rows: list[tuple[int, bytes, int, bytes]] = []
        self.stream_time = -1
        self.dropped = 0

    def put(self, key: bytes, value: bytes | None, start: int) -> None:
        self.stream_time = max(self.stream_time, start)
        if start <= self.stream_time - 20:
            self.dropped += 1
            return
        if not self.duplicates:
            self.rows = [row for row in self.rows if row[:2] != (start, key)]
        if value is not None:
            self.rows.append((start, key, len(self.rows), value))
        self.rows = [row for row in self.rows if row[0] > self.stream_time - 20]

    def scan(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> list[tuple[Windowed, bytes]]:
        return [
            entry(key, start, value)
            for start, key, _, value in sorted(self.rows, key=lambda row: row[:2])
            if (key_from is None or key_from <= key)
            and (key_to is None or key <= key_to)
            and time_from <= start <= time_to
        ]


@settings(settings.get_profile("stores"), max_examples=200)
@given(
    program=st.lists(puts, max_size=25),
    query=st.tuples(st.none() | keys, st.none() | keys, bounds, bounds),
    duplicates=st.booleans(),
    restored=st.booleans(),
)
def test_random_programs_equal_a_list(
    make_context: MakeContext,
    program: list[tuple[bytes, bytes | None, int]],
    query: tuple[bytes | None, bytes | None, int, int],
    duplicates: bool,
    restored: bool,
) -> None:
    """Any puts, restored or not, lead to what a list of them would hold."""
    store, context = (
        InMemoryWindowStore(
            "store", retention_ms=20, window_size_ms=SIZE, retain_duplicates=duplicates
        ),
        make_context(),
    )
    store.init(context, store)
    model = Model(duplicates=duplicates)
    for number, (key, value, start) in enumerate(program):
        if restored:
            restore(context, (key, start, number if duplicates else 0, value))
        else:
            store.put(key, value, start)
        model.put(key, value, start)
        assert store.dropped_records == model.dropped
        expected = model.scan(*query)
        assert list(store.fetch_range(*query)) == expected
        assert list(store.backward_fetch_range(*query)) == expected[::-1]
        everything = model.scan(None, None, -1, 99)
        assert list(store.all()) == everything
        if not duplicates:
            values = [
                value for windowed, value in everything if windowed == entry(key, start, b"")[0]
            ]
            assert store.fetch(key, start) == (values[0] if values else None)
        one = [(row[0].window.start, row[1]) for row in everything if row[0].key == key]
        assert list(store.fetch_between(key, 0, 99)) == one
    store.close()


@settings(settings.get_profile("stores"), max_examples=200)
@given(
    before=st.lists(puts, max_size=15),
    after=st.lists(st.tuples(st.booleans(), puts), max_size=15),
    reverse=st.booleans(),
)
def test_an_open_iterator_loses_and_repeats_nothing(
    make_context: MakeContext,
    before: list[tuple[bytes, bytes | None, int]],
    after: list[tuple[bool, tuple[bytes, bytes | None, int]]],
    reverse: bool,
) -> None:
    """Rows that no later write touched come exactly once, in order, also if they expire."""
    store, context = (
        InMemoryWindowStore("store", retention_ms=20, window_size_ms=SIZE),
        make_context(),
    )
    store.init(context, store)
    for key, value, start in before:
        store.put(key, value, start)
    old = list(store.backward_all() if reverse else store.all())
    scan, seen = store.backward_all() if reverse else store.all(), []
    written = set(old)
    for step, (key, value, start) in after:
        if step:
            seen += [row for row in [next(scan, None)] if row is not None]
        store.put(key, value, start)
        written.add(entry(key, start, value or b""))
    seen += scan
    touched = {entry(key, start, b"")[0] for _, (key, _, start) in after}
    assert [row for row in seen if row[0] not in touched] == [
        row for row in old if row[0] not in touched
    ]
    order = [(windowed.window.start, windowed.key) for windowed, _ in seen]
    assert order == sorted(set(order), reverse=reverse)
    assert set(seen) <= written
    store.close()
