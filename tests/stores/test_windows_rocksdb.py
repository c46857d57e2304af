"""Window stores on RocksDB: what Kafka's tests ask, transactions, and programs against a model."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
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
from streamproof.stores.timestamps import decode_value_and_timestamp
from streamproof.stores.transactional import TransactionalKeyValueStore, TransactionalRocksDBStore
from streamproof.stores.transactions import Transaction
from streamproof.stores.windowed import rocksdb_windows, timestamped_windows
from streamproof.stores.windowed.keys import window_key
from streamproof.stores.windowed.rocksdb_windows import (
    RocksDBWindowStore,
)
from streamproof.stores.windowed.segment_databases import SegmentDatabases
from streamproof.stores.windowed.segmented_reads import segment_prefix
from streamproof.stores.windowed.timestamped_windows import TimestampedRocksDBWindowStore
from streamproof.stores.windows import LONG_MAX, Window, Windowed

RETENTION, SIZE, INTERVAL = 120_000, 3, 60_000
START = 59_996
"""Kafka's figures: AbstractWindowBytesStoreTest. The start is 4 ms before a new segment."""

CHANGELOG = TopicPartition("log", 0)

MakeContext = Callable[..., StateStoreContext]
MakeStore = Callable[..., Any]


def plain(**arguments: Any) -> RocksDBWindowStore:
    """All segments in one database, with Kafka's figures."""
    figures = {"retention_ms": RETENTION, "window_size_ms": SIZE} | arguments
    return RocksDBWindowStore("store", **figures)


def transactional(**arguments: Any) -> RocksDBWindowStore:
    """The same, with writes staged until the commit."""
    inner = TransactionalKeyValueStore(TransactionalRocksDBStore("store"))
    return plain(inner=inner, **arguments)


def explicit(**arguments: Any) -> RocksDBWindowStore:
    """The same, with transactions that must be asked for."""
    return plain(inner=TransactionalRocksDBStore("store"), **arguments)


def databases(**arguments: Any) -> RocksDBWindowStore:
    """One database for each segment."""
    interval = arguments.get("segment_interval_ms", INTERVAL)
    return plain(inner=SegmentDatabases("store", segment_interval_ms=interval), **arguments)


class Timestamped(TimestampedRocksDBWindowStore):
    """A store with timestamps that shows what the store below it knows."""

    @property
    def stream_time(self) -> int:
        return self._below.stream_time

    @property
    def context(self) -> StateStoreContext:
        return self._below.context

    @property
    def _below(self) -> RocksDBWindowStore:
        assert isinstance(self.inner, RocksDBWindowStore)
        return self.inner


def timestamped(**arguments: Any) -> TimestampedRocksDBWindowStore:
    """All segments in one database, with the timestamps of records."""
    figures = {"retention_ms": RETENTION, "window_size_ms": SIZE} | arguments
    return Timestamped("store", **figures)


def rows_below(store: Any) -> Any:
    """The key-value store that holds the rows."""
    return store.inner if isinstance(store, RocksDBWindowStore) else store.inner.inner


LAYOUTS = pytest.mark.parametrize("make", [plain, transactional, databases, timestamped])
IN_TRANSACTIONS = pytest.mark.parametrize("make", [transactional, explicit])


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


def entry(key: bytes, start: int, value: bytes) -> tuple[Windowed, bytes]:
    """An entry as a scan over several keys yields it."""
    return Windowed(key, Window(start, start + SIZE)), value


def listed(entries: Any) -> list[Any]:
    """What an iterator yields; it is closed."""
    with entries:
        return list(entries)


def restore(store: Any, *rows: tuple[bytes, int, int, bytes | None]) -> None:
    """Apply rows of key, start, sequence number and value as records of the changelog."""
    records = [
        ChangelogRecord(window_key(key, start, sequence), value, offset)
        for offset, (key, start, sequence, value) in enumerate(rows)
    ]
    store.context.restore_callbacks["store"](records)


# --- Kafka's contracts --------------------------------------------------------------------


@LAYOUTS
def test_bounds_of_time_are_inclusive_window_starts(make: MakeStore, opened: MakeStore) -> None:
    """Kafka: testRangeAndSinglePointFetch, testPutAndFetchBefore, testPutAndFetchAfter."""
    store = opened(make())
    for step in range(6):
        store.put(b"k", b"%d" % step, START + step)
    assert store.fetch(b"k", START + 2) == b"2"
    assert store.fetch(b"k", START + 6) is None
    for first in range(-4, 8):
        for last in range(first - 1, 8):
            expected = [(START + step, b"%d" % step) for step in range(6) if first <= step <= last]
            times = (START + first, START + last)
            assert listed(store.fetch_between(b"k", *times)) == expected
            assert listed(store.backward_fetch_between(b"k", *times)) == expected[::-1]
            assert [value for _, value in listed(store.fetch_all(*times))] == [
                value for _, value in expected
            ]


@LAYOUTS
def test_scans_of_all_keys_go_by_segment_then_key_then_start(
    make: MakeStore, opened: MakeStore
) -> None:
    """Kafka: shouldGetAll, shouldGetBackwardAll, shouldFetchAllInTimeRange on RocksDB."""
    store = opened(make())
    rows = [(b"b", 5), (b"a", 7), (b"", 7), (b"c", 0), (b"a", 5), (b"b", INTERVAL), (b"a", 70_000)]
    for key, start in rows:
        store.put(key, b"v" + key, start)
    expected = [
        entry(b"", 7, b"v"),
        entry(b"a", 5, b"va"),
        entry(b"a", 7, b"va"),
        entry(b"b", 5, b"vb"),
        entry(b"c", 0, b"vc"),
        entry(b"a", 70_000, b"va"),
        entry(b"b", INTERVAL, b"vb"),
    ]
    assert listed(store.all()) == expected
    assert listed(store.backward_all()) == expected[::-1]
    middle = [row for row in expected if 5 <= row[0].window.start <= INTERVAL]
    assert listed(store.fetch_all(5, INTERVAL)) == middle
    assert listed(store.backward_fetch_all(5, INTERVAL)) == middle[::-1]
    assert listed(store.fetch_all(8, INTERVAL - 1)) == []


@LAYOUTS
def test_bounds_of_keys_are_inclusive_or_open(make: MakeStore, opened: MakeStore) -> None:
    """Kafka: testFetchRange, testBackwardFetchRange."""
    store = opened(make())
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
        assert listed(store.fetch_range(key_from, key_to, 0, 9)) == expected
        assert listed(store.backward_fetch_range(key_from, key_to, 0, 9)) == expected[::-1]
    assert listed(store.fetch_range(b"a", b"c", 2, 3)) == entries[1:3]
    assert listed(store.fetch_range(b"a", b"c", 3, 2)) == []


@LAYOUTS
def test_one_key_equals_a_range_of_one_key(make: MakeStore, opened: MakeStore) -> None:
    """Kafka: shouldReturnSameResultsForSingleKeyFetchAndEqualKeyRangeFetch."""
    store = opened(make())
    for step, key in enumerate((b"a", b"aa", b"b", b"aa", b"a")):
        store.put(key, b"%d" % step, START + 2 * step)
    for key in (b"a", b"aa", b"b", b"c"):
        one = listed(store.fetch_between(key, 0, LONG_MAX))
        ranged = listed(store.fetch_range(key, key, 0, LONG_MAX))
        assert one == [(windowed.window.start, value) for windowed, value in ranged]


@LAYOUTS
def test_inverted_keys_are_empty_and_warn(
    make: MakeStore, opened: MakeStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka: shouldNotThrowInvalidRangeExceptionWithNegativeFromKey."""
    store = opened(make())
    store.put(b"k", b"v", 5)
    with caplog.at_level(logging.WARNING, "streamproof.stores"):
        assert listed(store.fetch_range(b"z", b"a", 0, 9)) == []
        assert listed(store.backward_fetch_range(b"z", b"a", 0, 9)) == []
    assert len(caplog.records) == 2
    assert "greater than its upper bound" in caplog.text


@pytest.mark.parametrize("make", [plain, transactional, timestamped])
def test_keys_are_exact_up_to_the_end_of_time(make: MakeStore, opened: MakeStore) -> None:
    """Kafka: shouldFetchAndIterateOverExactKeys, shouldFetchAndIterateOverExactBinaryKeys."""
    large = 0x7A00000000000000
    store = opened(make(retention_ms=large, window_size_ms=large))
    keys = [b"a", b"aa", b"a\x00", b"", b"\x00", b"\x00\x00", b"\xff", b"\xff\xff", b"a\x7a", b"z"]
    for key in keys:
        for start in (0, 1, large - 1):
            store.put(key, key + b"%d" % start, start)
    for key in keys:
        expected = [(start, key + b"%d" % start) for start in (0, 1, large - 1)]
        assert listed(store.fetch_between(key, 0, LONG_MAX)) == expected
        assert listed(store.backward_fetch_between(key, 0, LONG_MAX)) == expected[::-1]
        assert store.fetch(key, large - 1) == expected[2][1]
        ranged = listed(store.fetch_range(key, key, 0, LONG_MAX))
        assert [(windowed.key, value) for windowed, value in ranged] == [
            (key, value) for _, value in expected
        ]
    for low, high in pairwise(sorted(keys)):
        found = [windowed.key for windowed, _ in listed(store.fetch_range(low, high, 0, LONG_MAX))]
        assert sorted(found) == sorted([low, high] * 3)


@LAYOUTS
def test_the_end_of_time_and_what_is_before_time(make: MakeStore, opened: MakeStore) -> None:
    """A put needs a time from 0 to 2^63 - 1; the bounds of a query may be anything."""
    store = opened(make())
    for start in (-1, LONG_MAX + 1):
        with pytest.raises(InvalidArgumentError):
            store.put(b"k", b"v", start)
    store.put(b"k", b"last", LONG_MAX)
    end = (Windowed(b"k", Window(LONG_MAX, LONG_MAX)), b"last")
    assert listed(store.all()) == listed(store.fetch_all(-(2**70), 2**70)) == [end]
    assert listed(store.fetch_between(b"k", -1, LONG_MAX + 1)) == [(LONG_MAX, b"last")]
    assert listed(store.fetch_between(b"k", -5, -1)) == []
    assert listed(store.fetch_range(None, None, LONG_MAX + 1, LONG_MAX + 2)) == []
    assert store.fetch(b"k", LONG_MAX) == b"last"
    assert store.fetch(b"k", -1) is None
    assert store.fetch(b"k", LONG_MAX + 1) is None


@LAYOUTS
def test_update_and_delete(make: MakeStore, opened: MakeStore) -> None:
    """Kafka: testDeleteAndUpdate, shouldGetAllNonDeletedRecords, shouldReturnNullOnWindowNotFound."""  # noqa: E501
    store = opened(make())
    store.put(b"k", None, START)
    for value in (b"1", b"2", b""):
        store.put(b"k", value, START)
    store.put(b"k", b"next", START + 10)
    assert store.fetch(b"k", START) == b""
    assert store.fetch(b"k", START + 1) is None
    assert store.fetch(b"j", START) is None
    store.put(b"k", None, START)
    assert store.fetch(b"k", START) is None
    assert listed(store.all()) == [entry(b"k", START + 10, b"next")]


@LAYOUTS
def test_duplicates_are_kept_in_their_order(make: MakeStore, opened: MakeStore) -> None:
    """Kafka: testPutSameKeyTimestamp, testFetchDuplicates; a value of None is ignored."""
    store = opened(make(retain_duplicates=True))
    for value in (b"2", b"1", b"1", None, b"3"):
        store.put(b"k", value, START)
    store.put(b"k", b"later", START + 10)
    values = [b"2", b"1", b"1", b"3"]
    assert listed(store.fetch_between(b"k", 0, START)) == [(START, value) for value in values]
    assert listed(store.backward_fetch_between(b"k", 0, START)) == [
        (START, value) for value in values[::-1]
    ]
    assert listed(store.fetch_range(b"k", b"k", 0, START)) == [
        entry(b"k", START, value) for value in values
    ]


@LAYOUTS
def test_what_is_expired_cannot_be_fetched(make: MakeStore, opened: MakeStore) -> None:
    """Kafka: shouldNotThrowExceptionWhenFetchRangeIsExpired, shouldMeasureExpiredRecords."""
    store = opened(make())
    store.put(b"k", b"old", 10)
    store.put(b"k", b"new", 4 * RETENTION)
    assert listed(store.fetch_between(b"k", 0, 20)) == []
    assert listed(store.fetch_all(0, 20)) == []
    store.put(b"k", b"late", 20)
    store.put(b"k", None, 20)
    assert store.dropped_records == 2
    assert listed(store.all()) == [entry(b"k", 4 * RETENTION, b"new")]


@LAYOUTS
def test_peek_does_not_advance(make: MakeStore, opened: MakeStore) -> None:
    """Kafka: testWindowIteratorPeek, testValueIteratorPeek."""
    store = opened(make())
    store.put(b"k", b"1", START)
    store.put(b"k", b"2", START + 10)
    with store.all() as entries, store.fetch_between(b"k", 0, LONG_MAX) as values:
        for start in (START, START + 10):
            assert entries.peek_next_key() == entries.peek_next_key() == next(entries)[0]
            assert values.peek_next_key() == next(values)[0] == start
        with pytest.raises(StopIteration):
            entries.peek_next_key()
        with pytest.raises(StopIteration):
            next(values)


@LAYOUTS
def test_an_iterator_shows_the_moment_it_was_opened(make: MakeStore, opened: MakeStore) -> None:
    """In every segment, and whatever is written, committed or closed meanwhile."""
    store = opened(make())
    store.put(b"k", b"1", START)
    store.put(b"k", b"2", START + 10)
    early, late = store.all(), store.all()
    early.close()
    store.put(b"k", b"changed", START + 10)
    store.put(b"k", None, START)
    store.put(b"j", b"new", START)
    store.commit({CHANGELOG: 1})
    assert list(late) == [entry(b"k", START, b"1"), entry(b"k", START + 10, b"2")]
    late.close()
    late.close()
    assert listed(store.all()) == [entry(b"j", START, b"new"), entry(b"k", START + 10, b"changed")]


@LAYOUTS
def test_restoring_equals_writing(make: MakeStore, opened: MakeStore) -> None:
    """Kafka: testRestore, shouldHandleTombstoneRecords. A batch can be applied twice."""
    store = opened(make())
    rows = [(b"a", 5, 0, b"1"), (b"b", INTERVAL, 0, b"2"), (b"a", 5, 0, None), (b"c", 6, 0, b"3")]
    for _ in range(2):
        restore(store, *rows)
        assert listed(store.all()) == [entry(b"c", 6, b"3"), entry(b"b", INTERVAL, b"2")]
    assert store.approximate_num_uncommitted_entries() == 0
    assert store.approximate_num_uncommitted_bytes() == 0
    restore(store)
    committed = store.read_only(IsolationLevel.READ_COMMITTED)
    assert listed(committed.all()) == listed(store.all())


@LAYOUTS
def test_a_key_that_no_window_store_wrote_is_refused_before_anything_is_applied(
    make: MakeStore, opened: MakeStore
) -> None:
    """The batch is left alone as a whole."""
    store = opened(make())
    good = ChangelogRecord(window_key(b"k", 5), b"v", 0)
    with pytest.raises(ProcessorStateError, match="too short"):
        store.context.restore_callbacks["store"]([good, ChangelogRecord(b"short", b"v", 1)])
    before_time = ChangelogRecord(b"k" + b"\xff" * 12, b"v", 1)
    with pytest.raises(ProcessorStateError, match="whose time is negative"):
        store.context.restore_callbacks["store"]([good, before_time])
    assert listed(store.all()) == []
    assert store.stream_time == -1


@LAYOUTS
def test_what_a_restored_record_lets_expire_is_gone(make: MakeStore, opened: MakeStore) -> None:
    """Drops are counted, also those of records that come before the latest in their batch."""
    store = opened(make())
    store.put(b"k", b"old", 0)
    store.commit({CHANGELOG: 0})
    restore(store, (b"k", 1, 0, b"late"), (b"k", 5 * INTERVAL, 0, b"new"))
    assert store.dropped_records == 1
    assert listed(store.all()) == [entry(b"k", 5 * INTERVAL, b"new")]
    store.commit({CHANGELOG: 1})
    store.close()
    again = opened(make())
    assert again.stream_time == 5 * INTERVAL
    assert listed(rows_below(again).range(None, b"\x00" * 7 + b"\x03")) == []


@LAYOUTS
def test_position_follows_the_records(make: MakeStore, opened: MakeStore) -> None:
    """Kafka: shouldMatchPositionAfterPut; it is committed with the offsets (KIP-1035)."""
    store = opened(make())
    for number, start in enumerate((START, 2 * START, 3 * START)):
        store.context.record_metadata = RecordMetadata("input", number % 2, number)
        store.put(b"k", b"v", start)
    expected = {TopicPartition("input", 0): 2, TopicPartition("input", 1): 1}
    assert store.position.as_dict() == expected
    store.context.record_metadata = None
    store.commit({CHANGELOG: 3})
    store.close()
    assert opened(make()).position.as_dict() == expected


@LAYOUTS
def test_null_keys_are_rejected(make: MakeStore, opened: MakeStore) -> None:
    """Kafka: shouldThrowNullPointerExceptionOnPutNullKey, ...OnGetNullKey."""
    store = opened(make())
    calls: list[Callable[[], object]] = [
        lambda: store.put(None, b"v", 5),
        lambda: store.fetch(None, 5),
        lambda: store.fetch_between(None, 0, 9),
        lambda: store.backward_fetch_between(None, 0, 9),
    ]
    for call in calls:
        with pytest.raises(NullArgumentError):
            call()


def calls_on(store: Any) -> list[Callable[[], object]]:
    """Reads and writes of a store that has seen the time 400,000, some of which are in vain."""
    return [
        lambda: store.put(b"k", b"v", 400_000),
        lambda: store.put(b"k", None, 400_000),
        lambda: store.put(b"k", b"late", 0),
        lambda: store.fetch(b"k", 400_000),
        lambda: store.fetch(b"k", 0),
        lambda: store.fetch(b"k", -1),
        lambda: store.fetch_between(b"k", 0, 500_000),
        lambda: store.fetch_between(b"k", 9, 0),
        lambda: store.backward_fetch_between(b"k", 0, 500_000),
        lambda: store.fetch_range(None, None, 0, 5),
        lambda: store.fetch_range(b"a", b"z", 0, 500_000),
        lambda: store.backward_fetch_range(b"a", b"z", 0, 500_000),
        store.all,
        store.backward_all,
    ]


@LAYOUTS
@pytest.mark.parametrize("duplicates", [False, True])
def test_a_closed_store_rejects_every_call(
    make: MakeStore, duplicates: bool, opened: MakeStore
) -> None:
    """After close every call and every open iterator raises; the store can be opened again."""
    store = opened(make(retain_duplicates=duplicates))
    store.put(b"k", b"v", 400_000)
    store.put(b"k", b"w", 400_001)
    store.commit({CHANGELOG: 1})
    entries = store.all()
    entries.peek_next_key()
    callback = store.context.restore_callbacks["store"]
    store.close()
    store.close()
    assert not store.is_open
    for call in [
        *calls_on(store),
        store.flush,
        lambda: store.commit({CHANGELOG: 1}),
        lambda: store.committed_offset(CHANGELOG),
        lambda: callback([]),
        lambda: callback([ChangelogRecord(window_key(b"k", 5), b"v", 0)]),
        lambda: next(entries),
        entries.peek_next_key,
    ]:
        with pytest.raises(InvalidStateStoreError):
            call()
    opened(store)
    assert store.dropped_records == 0
    assert [value for _, value in listed(store.all())] == [b"v", b"w"]
    with pytest.raises(InvalidStateStoreError, match="already open"):
        store.init(store.context, store)
    assert store.is_open


@pytest.mark.parametrize(
    ("factory", "claims"),
    [
        (rocksdb_windows.default_store, {}),
        (rocksdb_windows.transactional_store, {"transactional": True}),
        (timestamped_windows.default_store, {"timestamped": True}),
        (rocksdb_windows.segments_store, {"read_only_views": True}),
        (rocksdb_windows.duplicates_store, {"retain_duplicates": True}),
    ],
)
def test_what_the_stores_claim(factory: Callable[[], Any], claims: dict[str, bool]) -> None:
    """The figures of the factories, and what the layers below make of them."""
    store = factory()
    found = store.capabilities
    assert (found.kind, found.expiry, found.scan_order) == ("window", "segment", "segment")
    assert (found.retention_ms, found.window_size_ms) == (180_000, 10_000)
    assert found.segment_interval_ms == 90_000
    assert found.position
    assert (found.ranges, found.reverse) == (True, True)
    assert (found.prefix_scan, found.entry_count) == (False, False)
    assert found.explicit_transactions is found.transactional
    for name, value in claims.items():
        assert getattr(found, name) is value
    assert (store.name, store.is_open) == ("store", False)


def test_figures_that_make_no_sense() -> None:
    """Kafka: Stores#persistentWindowStore rejects them too."""
    for figures in (
        {"segment_interval_ms": 0},
        {"segment_interval_ms": -1},
        {"segment_interval_ms": 100},
        {"retention_ms": -1},
        {"window_size_ms": RETENTION + 1},
        {"window_size_ms": -1},
    ):
        with pytest.raises(InvalidArgumentError):
            plain(**figures)


# --- timestamps ---------------------------------------------------------------------------


def test_the_changelog_holds_the_plain_value(opened: MakeStore) -> None:
    """The timestamp of a restored record is that of the record (KIP-258)."""
    store = opened(timestamped())
    record = ChangelogRecord(window_key(b"k", 5), b"\x00" * 8, 0, 42)
    store.context.restore_callbacks["store"]([record])
    assert store.fetch(b"k", 5) == b"\x00" * 8
    assert store.fetch_with_timestamp(b"k", 5) == (b"\x00" * 8, 42)
    with rows_below(store).all() as rows:
        stored = dict(rows)[b"\x00" * 8 + window_key(b"k", 5)]
    assert decode_value_and_timestamp(stored) == (b"\x00" * 8, 42)


def test_a_value_too_short_for_its_timestamp_is_damage(opened: MakeStore) -> None:
    """It is not taken for an empty one with a timestamp."""
    store = opened(timestamped())
    store.put(b"a", b"v", 5)
    rows_below(store).put(segment_prefix(0) + window_key(b"k", 5), b"short")
    with pytest.raises(ProcessorStateError, match="too short for its timestamp"):
        store.fetch(b"k", 5)
    with pytest.raises(ProcessorStateError, match="too short for its timestamp"):
        listed(store.all())


# --- stream time and transactions ---------------------------------------------------------


@pytest.mark.parametrize("make", [plain, databases, timestamped])
def test_stream_time_outlives_a_close_without_a_commit(make: MakeStore, opened: MakeStore) -> None:
    """Without transactions the rows do, and what was too late for them stays too late."""
    store = opened(make(), exactly_once=False)
    store.put(b"k", b"v", 5 * INTERVAL + 77)
    store.put(b"k", None, 5 * INTERVAL + 77)
    store.close()
    again = opened(make(), exactly_once=False)
    assert again.stream_time == 5 * INTERVAL + 77
    again.put(b"k", b"late", 0)
    assert again.dropped_records == 1


def test_stream_time_of_a_transaction_that_was_never_committed_is_forgotten(
    opened: MakeStore,
) -> None:
    """The records that it made too late are in time when they are processed again."""
    store = opened(transactional())
    store.put(b"k", b"1", 0)
    store.commit({CHANGELOG: 0})
    store.put(b"k", b"2", 5 * INTERVAL)
    assert store.fetch(b"k", 0) is None
    store.close()
    again = opened(transactional())
    assert again.stream_time == 0
    again.put(b"k", b"again", 1)
    assert again.dropped_records == 0
    assert listed(again.fetch_between(b"k", 0, LONG_MAX)) == [(0, b"1"), (1, b"again")]


def test_staged_stream_time_hides_nothing_from_readers_of_what_is_committed(
    opened: MakeStore,
) -> None:
    """READ_COMMITTED sees windows until the commit that lets them expire."""
    store = opened(transactional())
    store.put(b"k", b"old", 0)
    store.commit({CHANGELOG: 0})
    committed = store.read_only(IsolationLevel.READ_COMMITTED)
    uncommitted = store.read_only(IsolationLevel.READ_UNCOMMITTED)
    store.put(b"k", b"new", 5 * INTERVAL)
    assert (committed.fetch(b"k", 0), uncommitted.fetch(b"k", 0)) == (b"old", None)
    assert listed(committed.all()) == [entry(b"k", 0, b"old")]
    assert listed(uncommitted.all()) == [entry(b"k", 5 * INTERVAL, b"new")]
    store.commit({CHANGELOG: 1})
    assert committed.fetch(b"k", 0) is None
    assert listed(committed.all()) == listed(uncommitted.all())


@LAYOUTS
@pytest.mark.parametrize("exactly_once", [True, False])
def test_where_nothing_is_staged_all_views_are_the_same(
    make: MakeStore, exactly_once: bool, opened: MakeStore
) -> None:
    """Kafka: nonTransactionalStoreShouldReadIdenticallyAcrossIsolationLevels."""
    store = opened(make(), exactly_once=exactly_once)
    staging = make is transactional and exactly_once
    store.put(b"k", b"old", 0)
    store.put(b"k", b"new", 5 * INTERVAL)
    committed = store.read_only(IsolationLevel.READ_COMMITTED)
    assert (listed(committed.all()) == []) is staging
    assert (committed.fetch(b"k", 5 * INTERVAL) is None) is staging
    uncommitted = store.read_only(IsolationLevel.READ_UNCOMMITTED)
    assert listed(uncommitted.all()) == listed(store.all())


@IN_TRANSACTIONS
def test_transactions_see_what_others_have_committed(make: MakeStore, opened: MakeStore) -> None:
    """Also in segments that are newer than their own, and with the stream time of all."""
    store = opened(make())
    one, two = store.new_transaction(), store.new_transaction()
    assert all(isinstance(each, Transaction) for each in (one, two))
    one.put(b"k", b"one", INTERVAL)
    assert listed(two.all()) == []
    one.commit({CHANGELOG: 1})
    assert two.fetch(b"k", INTERVAL) == b"one"
    assert listed(two.fetch_between(b"k", 0, LONG_MAX)) == [(INTERVAL, b"one")]
    assert two.stream_time == INTERVAL
    two.put(b"k", b"two", 0)
    two.commit({CHANGELOG: 2})
    assert listed(store.all()) == [entry(b"k", 0, b"two"), entry(b"k", INTERVAL, b"one")]
    store.close()
    again = opened(make())
    # Committed last with a smaller time: stream time does not go back.
    assert again.stream_time == INTERVAL
    assert again.committed_offset(CHANGELOG) == 2


@IN_TRANSACTIONS
def test_a_commit_of_the_store_commits_its_transactions(make: MakeStore, opened: MakeStore) -> None:
    """KIP-892, StateStore#commit: open transactions are committed, and so is their time."""
    store = opened(make())
    first, second = store.new_transaction(), store.new_transaction()
    second.put(b"k", b"second", 4 * INTERVAL)
    first.put(b"k", b"first", 5 * INTERVAL)
    store.commit({CHANGELOG: 1})
    assert not first.is_open
    assert not second.is_open
    assert store.stream_time == 5 * INTERVAL
    store.close()
    again = opened(make())
    assert again.stream_time == 5 * INTERVAL
    assert [value for _, value in listed(again.all())] == [b"second", b"first"]


@IN_TRANSACTIONS
def test_a_transaction_drops_segments_only_if_it_is_committed(
    make: MakeStore, opened: MakeStore
) -> None:
    """The deletion of a range is staged like every other write."""
    store = opened(make())
    store.put(b"k", b"old", 0)
    store.commit({CHANGELOG: 0})
    transaction = store.new_transaction()
    transaction.put(b"k", b"new", 5 * INTERVAL)
    transaction.put(b"k", b"late", 1)
    assert transaction.dropped_records == store.dropped_records == 1
    assert listed(transaction.all()) == [entry(b"k", 5 * INTERVAL, b"new")]
    with transaction:
        pass
    assert listed(store.all()) == [entry(b"k", 0, b"old")]
    with store.new_transaction() as other:
        other.put(b"k", b"new", 5 * INTERVAL)
        other.commit({CHANGELOG: 1})
    assert listed(store.all()) == [entry(b"k", 5 * INTERVAL, b"new")]
    with rows_below(store).range(None, b"\x00" * 7 + b"\x03") as rows:
        assert list(rows) == []


@IN_TRANSACTIONS
@pytest.mark.parametrize("end", ["commit", "close", "store"])
def test_a_finished_transaction_rejects_every_call(
    make: MakeStore, end: str, opened: MakeStore
) -> None:
    """Committed, closed, or closed with its store."""
    store = opened(make())
    transaction = store.new_transaction()
    transaction.put(b"k", b"v", 400_000)
    if end == "commit":
        transaction.commit({CHANGELOG: 1})
    elif end == "close":
        transaction.close()
    else:
        store.close()
    transaction.close()
    for call in calls_on(transaction):
        with pytest.raises(InvalidStateStoreError):
            call()
    with pytest.raises(InvalidStateStoreError):
        transaction.commit({CHANGELOG: 2})
    assert not transaction.is_open


@pytest.mark.parametrize("make", [plain, databases])
def test_a_store_without_transactions_is_its_own(make: MakeStore, opened: MakeStore) -> None:
    """KIP-892: new_transaction() returns the store, and so does read_only()."""
    store = opened(make())
    assert store.new_transaction() is store
    assert store.read_only(IsolationLevel.READ_COMMITTED) is store


@IN_TRANSACTIONS
def test_duplicates_in_transactions(make: MakeStore, opened: MakeStore) -> None:
    """No two transactions give the same number; a restart goes on after all of them."""
    store = opened(make(retain_duplicates=True))
    one, two, discarded = (store.new_transaction() for _ in range(3))
    for transaction, value in ((one, b"1"), (two, b"2"), (discarded, b"-"), (one, b"3")):
        transaction.put(b"k", value, 5)
        transaction.put(b"k", None, 5)
    two.commit({CHANGELOG: 1})
    one.commit({CHANGELOG: 2})
    discarded.close()
    store.close()
    again = opened(make(retain_duplicates=True))
    with again.new_transaction() as transaction:
        transaction.put(b"k", b"4", 5)
        transaction.commit({CHANGELOG: 3})
    assert [value for _, value in listed(again.all())] == [b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("make", [plain, databases, transactional])
def test_duplicates_are_numbered_on_after_a_restart(make: MakeStore, opened: MakeStore) -> None:
    """And after a restoration; the number has 31 bits, and starts over after the largest."""
    store = opened(make(retain_duplicates=True))
    store.put(b"k", b"1", 5)
    store.commit({CHANGELOG: 0})
    store.close()
    again = opened(make(retain_duplicates=True))
    again.put(b"k", b"2", 5)
    restore(again, (b"k", 5, 2**31 - 2, b"3"))
    again.put(b"k", b"4", 5)
    assert [value for _, value in listed(again.all())] == [b"1", b"2", b"3", b"4"]
    again.put(b"k", b"5", 5)
    assert sorted(value for _, value in listed(again.all())) == [b"1", b"2", b"3", b"4", b"5"]


def test_a_view_sees_all_segments_of_a_commit_or_none(opened: MakeStore) -> None:
    """Kafka: readOnlyCommittedFetchAllShouldNotRaceConcurrentCommit."""
    store = opened(transactional())
    committed = store.read_only(IsolationLevel.READ_COMMITTED)
    torn: list[object] = []
    done = threading.Event()

    def query() -> None:
        try:
            while not done.is_set():
                values = [value for _, value in listed(committed.all())]
                if len(set(values)) > 1 or len(values) not in {0, 3}:
                    torn.append(values)
        except Exception as error:  # noqa: BLE001  # The test shows it.
            torn.append(error)

    thread = threading.Thread(target=query)
    thread.start()
    for number in range(400):
        # All of an older commit expires in this one, segment by segment.
        for segment in range(3):
            store.put(b"k", b"%d" % number, (3 * number + segment) * INTERVAL // 2)
            store.put(b"k", None, (3 * number + segment - 3) * INTERVAL // 2) if number else None
        store.commit({CHANGELOG: number})
    done.set()
    thread.join()
    assert torn == []


def test_a_damaged_stream_time_is_told(opened: MakeStore) -> None:
    """And the store is closed again, so that its directory can be wiped."""
    store = opened(plain())
    store.inner.put(b"\xff" * 8, b"odd")
    store.inner.close()
    damaged = plain()
    with pytest.raises(ProcessorStateError, match="stream time"):
        opened(damaged)
    assert not damaged.is_open


# --- programs against a model -------------------------------------------------------------

KEYS = st.sampled_from([b"", b"a", b"a\x00", b"aa", b"b", b"\xff"])
TIMES = st.integers(0, 40)
BOUNDS = st.integers(-5, 60)
STEPS = st.one_of(
    st.tuples(KEYS, st.none() | st.binary(max_size=1), TIMES),
    st.sampled_from(["commit", "reopen", "rollback"]),
)
SMALL_RETENTION, SMALL_INTERVAL = 20, 6


class Model:
    """A dict of what was put, with a retention of 20 ms in segments of 6 ms."""

    def __init__(self) -> None:
        self.rows: dict[tuple[bytes, int], bytes] = {}
        self.stream_time = -1

    def copy(self) -> Model:
        other = Model()
        other.rows, other.stream_time = dict(self.rows), self.stream_time
        return other

    def put(self, key: bytes, value: bytes | None, start: int) -> bool:
        """Whether the record is kept."""
        self.stream_time = max(self.stream_time, start)
        first = (self.stream_time - SMALL_RETENTION) // SMALL_INTERVAL
        if start // SMALL_INTERVAL < first:
            return False
        self.rows.pop((key, start), None)
        if value is not None:
            self.rows[key, start] = value
        return True

    def scan(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> list[tuple[Windowed, bytes]]:
        """In the order of rows: by segment, and in it by the bytes of key and time."""
        first = max(time_from, self.stream_time - SMALL_RETENTION + 1)
        found = sorted(
            (start // SMALL_INTERVAL, window_key(key, start), key, start)
            for key, start in self.rows
            if first <= start <= time_to
            and (key_from is None or key_from <= key)
            and (key_to is None or key <= key_to)
        )
        return [entry(key, start, self.rows[key, start]) for _, _, key, start in found]


def check_reads(store: Any, model: Model, query: tuple[Any, Any, int, int]) -> None:
    """Compare everything that can be read."""
    expected = model.scan(*query)
    assert listed(store.fetch_range(*query)) == expected
    assert listed(store.backward_fetch_range(*query)) == expected[::-1]
    everything = model.scan(None, None, 0, 99)
    assert listed(store.all()) == everything
    for key, start in list(model.rows):
        values = [value for row, value in everything if row == entry(key, start, b"")[0]]
        assert store.fetch(key, start) == (values[0] if values else None)
        one = [(row.window.start, value) for row, value in everything if row.key == key]
        assert listed(store.fetch_between(key, -1, 99)) == one


@pytest.mark.parametrize(
    ("make", "examples"), [(plain, 30), (transactional, 30), (databases, 10), (timestamped, 15)]
)
def test_random_programs_equal_a_dict(
    make: MakeStore,
    examples: int,
    make_context: MakeContext,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Puts, commits, restarts and rollbacks lead to what a dict would hold."""

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
        elif step == "rollback" and make is transactional:
            with store.new_transaction() as transaction:
                for start in (40, 90):
                    transaction.put(b"a", b"rolled back", start)
        elif isinstance(step, str):
            store.close()
            store = make(**figures)
            store.init(context, store)
            # What is staged ends with the store; without transactions nothing is.
            model, dropped = (committed if make is transactional else model).copy(), 0
        else:
            dropped += not model.put(*step)
            store.put(*step)
        assert (store.stream_time, store.dropped_records) == (model.stream_time, dropped)
        check_reads(store, model, query)
    store.close()
