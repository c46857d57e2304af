"""Windows and sessions on RocksDB: segments, both layouts, offsets, transactions, restarts."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
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
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.errors import (
    InvalidArgumentError,
    InvalidStateStoreError,
    ProcessorStateError,
    TaskCorruptedError,
)
from streamproof.stores.sessions import SessionStore
from streamproof.stores.timestamps import ValueAndTimestamp
from streamproof.stores.windowed import (
    rocksdb_sessions,
    rocksdb_windows,
    timestamped_sessions,
    timestamped_windows,
)
from streamproof.stores.windowed.keys import key_bounds, session_key, window_key
from streamproof.stores.windowed.memory_windows import InMemoryWindowStore
from streamproof.stores.windowed.rocksdb_windows import RocksDBWindowStore
from streamproof.stores.windowed.segment_databases import SegmentDatabases
from streamproof.stores.windows import LONG_MAX, Window, Windowed

RETENTION, SIZE, INTERVAL = 120_000, 3, 60_000
CHANGELOG = TopicPartition("streamproof-store-changelog", 0)

MakeContext = Callable[..., StateStoreContext]
Open = Callable[..., Any]


@pytest.fixture
def opened(make_context: MakeContext) -> Iterator[Open]:
    """Opens stores in one task directory, and closes in the end what is left open."""
    stores = []

    def open_one(make: Callable[[], Any], *, exactly_once: bool = True) -> Any:
        store = make()
        context = make_context(exactly_once=exactly_once)
        store.init(context, store)
        store.of_test = context
        stores.append(store)
        return store

    yield open_one
    for store in stores:
        store.close()


def windows(inner: Any = None, **arguments: Any) -> RocksDBWindowStore:
    """A window store with Kafka's figures."""
    figures = {"retention_ms": RETENTION, "window_size_ms": SIZE} | arguments
    return RocksDBWindowStore("store", inner=inner, **figures)


def databases(segment_offset: Any = "minimum") -> RocksDBWindowStore:
    """The same with one database for each segment."""
    return windows(
        SegmentDatabases("store", segment_interval_ms=INTERVAL, segment_offset=segment_offset)
    )


LAYOUTS = pytest.mark.parametrize("make", [windows, databases])


def starts(store: Any) -> list[int]:
    """The window starts of everything that can be read."""
    with store.all() as entries:
        return [windowed.window.start for windowed, _ in entries]


@LAYOUTS
def test_scans_go_by_segment_key_and_time(make: Callable[[], Any], opened: Open) -> None:
    """The order that RocksDB gives, forward and backward."""
    store = opened(make)
    for key, start in ((b"b", 1), (b"a", 2), (b"b", INTERVAL), (b"a", INTERVAL + 1)):
        store.put(key, b"%d" % start, start)
    expected = [(b"a", 2), (b"b", 1), (b"a", INTERVAL + 1), (b"b", INTERVAL)]
    with store.all() as forward, store.backward_all() as backward:
        assert [(each.key, each.window.start) for each, _ in forward] == expected
        assert [(each.key, each.window.start) for each, _ in backward] == expected[::-1]


@LAYOUTS
def test_a_put_is_dropped_if_its_whole_segment_is_expired(
    make: Callable[[], Any], opened: Open
) -> None:
    """Kafka: AbstractWindowBytesStoreTest#shouldMeasureExpiredRecords."""
    store = opened(make)
    store.put(b"k", b"now", 240_000)
    store.put(b"k", b"late", 0)
    assert store.dropped_records == 1
    store.put(b"k", b"kept", 120_001)
    assert store.dropped_records == 1
    assert store.fetch(b"k", 0) is None
    assert starts(store) == [120_001, 240_000]


@LAYOUTS
def test_what_is_kept_but_too_old_cannot_be_read(make: Callable[[], Any], opened: Open) -> None:
    """A segment is dropped as a whole; reads look at each record."""
    store = opened(make)
    store.put(b"k", b"old", 60_000)
    store.put(b"k", b"now", 180_000)
    assert store.fetch(b"k", 60_000) is None
    assert starts(store) == [180_000]
    store.put(b"k", b"older", 60_001)
    assert store.fetch(b"k", 60_001) == b"older"


@LAYOUTS
@pytest.mark.parametrize("exactly_once", [True, False])
def test_late_is_late_after_a_restart_too(
    make: Callable[[], Any], exactly_once: bool, opened: Open
) -> None:
    """The stream time is committed with the records (KAFKA-12718)."""
    store = opened(make, exactly_once=exactly_once)
    store.put(b"k", b"now", 240_000)
    store.put(b"k", None, 240_000)
    store.commit({CHANGELOG: 1})
    store.close()
    again = opened(make, exactly_once=exactly_once)
    assert again.stream_time == 240_000
    again.put(b"k", b"late", 0)
    assert again.dropped_records == 1
    assert again.committed_offset(CHANGELOG) == 1


@LAYOUTS
def test_an_open_iterator_outlives_the_segment_that_it_reads(
    make: Callable[[], Any], opened: Open
) -> None:
    """Expired data are dropped once nobody reads them (shouldNotExpireFromOpenIterator)."""
    store = opened(make)
    for start in range(3):
        store.put(b"k", b"%d" % start, start)
    entries = store.all()
    next(entries)
    store.put(b"k", b"now", 400_000)
    assert [each.window.start for each, _ in entries] == [1, 2]
    entries.close()
    store.commit({CHANGELOG: 3})
    assert starts(store) == [400_000]


def test_segment_directories_go_when_they_expire(opened: Open) -> None:
    """One directory for each live segment, and one for what belongs to none."""
    store = opened(databases)
    directory = Path(store.of_test.state_dir) / "store"
    for start in (0, INTERVAL, 2 * INTERVAL):
        store.put(b"k", b"v", start)
    names = {path.name for path in directory.glob("store.*")}
    assert names == {"store.meta", "store.0", "store.60000", "store.120000"}
    store.put(b"k", b"v", 5 * INTERVAL)
    names = {path.name for path in directory.glob("store.*")}
    assert names == {"store.meta", "store.300000"}


def test_an_interrupted_deletion_is_finished_and_never_read(opened: Open) -> None:
    """What is set aside is no segment any more."""
    store = opened(databases)
    store.put(b"k", b"v", 0)
    store.commit({CHANGELOG: 0})
    store.close()
    directory = Path(store.of_test.state_dir) / "store"
    (directory / "store.0").rename(directory / "store.0.deleted")
    again = opened(databases)
    assert starts(again) == []
    assert not list(directory.glob("*.deleted"))


@pytest.mark.parametrize("old", ["store-197001010001", "store:60000"])
def test_segments_with_old_names_are_found(old: str, opened: Open) -> None:
    """Kafka: shouldLoadSegmentsWithOldStyleDateFormattedName, ...ColonFormattedName."""
    store = opened(databases)
    store.put(b"k", b"v", INTERVAL)
    store.commit({CHANGELOG: 0})
    store.close()
    directory = Path(store.of_test.state_dir) / "store"
    (directory / "store.60000").rename(directory / old)
    again = opened(databases)
    assert again.fetch(b"k", INTERVAL) == b"v"


def test_an_unclean_segment_corrupts_the_store_and_leaves_no_lock(
    opened: Open, make_context: MakeContext
) -> None:
    """Kafka: shouldThrowTaskCorruptedExceptionIfSegmentIsInInvalidState, KAFKA-20808."""
    store = opened(databases)
    store.put(b"k", b"v", INTERVAL)
    store.commit({CHANGELOG: 0})
    store.flush()
    directory = Path(store.of_test.state_dir) / "store"
    # As a crash leaves it, with the row that says "open"; no flush is under way.
    crashed = directory.with_name("crashed")
    shutil.copytree(directory, crashed)
    store.close()
    shutil.rmtree(directory)
    crashed.rename(directory)
    context = make_context()
    damaged = databases()
    with pytest.raises(TaskCorruptedError, match=r"store\.meta"):
        damaged.init(context, damaged)
    assert not damaged.is_open
    tolerant = opened(databases, exactly_once=False)
    assert tolerant.fetch(b"k", INTERVAL) == b"v"


SEGMENTS_APART = """
import os, pathlib, sys
from streamproof.stores.api import StateStoreContext, TopicPartition
from streamproof.stores.windowed.rocksdb_windows import RocksDBWindowStore
from streamproof.stores.windowed.segment_databases import SegmentDatabases

changelog = TopicPartition("streamproof-store-changelog", 0)
inner = SegmentDatabases("store", segment_interval_ms=60_000)
store = RocksDBWindowStore("store", retention_ms=120_000, window_size_ms=3, inner=inner)
store.init(StateStoreContext(state_dir=pathlib.Path(sys.argv[1])), store)
store.put(b"k", b"old", 0)
store.put(b"k", b"new", 60_000)
store.commit({changelog: 1})
store.flush()
store.put(b"k", b"lost", 1)
store.put(b"k", b"newer", 60_001)
store.commit({changelog: 3})
# As full write buffers do: the newer segment is on disk, and the older one is behind.
inner._segments[1].flush()
inner._segments[-1].flush()
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize(
    ("choice", "offset", "lost"), [("minimum", 1, False), ("oldest", 1, False), ("newest", 3, True)]
)
def test_which_segment_answers_for_the_offset(
    choice: str, offset: int, lost: bool, opened: Open, make_context: MakeContext
) -> None:
    """Only the minimum is safe: with the newest, a replay misses what another segment lost."""

    def make() -> RocksDBWindowStore:
        return databases(choice)

    directory = make_context(exactly_once=False).state_dir
    command = [sys.executable, "-P", "-c", SEGMENTS_APART, str(directory)]
    died = subprocess.run(command, check=False)
    assert died.returncode == -signal.SIGKILL
    store = opened(make, exactly_once=False)
    assert store.committed_offset(CHANGELOG) == offset
    assert store.fetch(b"k", INTERVAL + 1) == b"newer"
    changelog = [(2, window_key(b"k", 1), b"lost"), (3, window_key(b"k", INTERVAL + 1), b"newer")]
    store.of_test.restore_callbacks["store"](
        [ChangelogRecord(key, value, at) for at, key, value in changelog if at > offset]
    )
    assert (store.fetch(b"k", 1) is None) is lost


def test_a_new_segment_lacks_nothing_that_is_committed(opened: Open) -> None:
    """It does not send the store back to the beginning, neither at once nor after a restart."""
    store = opened(databases)
    store.put(b"k", b"v", 0)
    store.commit({CHANGELOG: 7})
    store.put(b"k", b"v", INTERVAL)
    assert store.committed_offset(CHANGELOG) == 7
    store.close()
    again = opened(databases)
    again.put(b"k", b"v", 2 * INTERVAL)
    assert again.committed_offset(CHANGELOG) == 7
    again.commit({})
    assert again.committed_offset(CHANGELOG) is None


def test_position_is_that_of_all_segments(opened: Open) -> None:
    """Kafka: shouldRestoreMergedPositionFromMultipleSegmentsAfterRestart."""
    store = opened(databases)
    for offset, start in enumerate((0, INTERVAL)):
        store.of_test.record_metadata = RecordMetadata("input", offset, 10 + offset)
        store.put(b"k", b"v", start)
    expected = {TopicPartition("input", 0): 10, TopicPartition("input", 1): 11}
    assert store.position.as_dict() == expected
    store.commit({CHANGELOG: 1})
    store.close()
    assert opened(databases).position.as_dict() == expected


def test_committing_the_stream_time_claims_no_input_record(opened: Open) -> None:
    """The record that is being processed at a commit need not have written to this store."""
    store = opened(windows)
    store.put(b"k", b"v", 5)
    store.of_test.record_metadata = RecordMetadata("input", 0, 99)
    store.commit({CHANGELOG: 0})
    assert store.position.as_dict() == {}
    assert store.of_test.record_metadata == RecordMetadata("input", 0, 99)


def test_the_stream_time_of_a_discarded_transaction_goes_with_it(opened: Open) -> None:
    """A record of an aborted transaction makes no other record come too late."""
    store = opened(rocksdb_windows.transactional_store)
    store.put(b"k", b"v", 0)
    store.commit({CHANGELOG: 0})
    transaction = store.new_transaction()
    transaction.put(b"k", b"future", 1_000_000)
    assert transaction.fetch(b"k", 0) is None
    transaction.close()
    assert store.stream_time == 0
    assert store.fetch(b"k", 0) == b"v"
    other = store.new_transaction()
    other.put(b"k", b"future", 1_000_000)
    other.commit({CHANGELOG: 1})
    assert store.stream_time == 1_000_000
    assert starts(store) == [1_000_000]
    with pytest.raises(InvalidStateStoreError):
        other.put(b"k", b"again", 1_000_001)


def test_a_transaction_covers_all_segments(opened: Open) -> None:
    """Views of what is committed see all segments of a commit, or none (KAFKA-20768)."""
    store = opened(rocksdb_windows.transactional_store)
    for start in (0, 90_000):
        store.put(b"k", b"staged", start)
    committed = store.read_only(IsolationLevel.READ_COMMITTED)
    uncommitted = store.read_only(IsolationLevel.READ_UNCOMMITTED)
    assert starts(committed) == []
    assert committed.fetch(b"k", 90_000) is None
    assert starts(uncommitted) == starts(store) == [0, 90_000]
    assert store.approximate_num_uncommitted_entries() == 2
    store.commit({CHANGELOG: 1})
    assert starts(committed) == [0, 90_000]
    assert store.approximate_num_uncommitted_bytes() == 0


def test_duplicates_go_on_after_a_restart_and_a_restoration(opened: Open) -> None:
    """No sequence number is used twice; a put of None is ignored."""
    store = opened(rocksdb_windows.duplicates_store)
    store.put(b"k", b"1", 5)
    store.put(b"k", b"1", 5)
    store.put(b"k", None, 5)
    store.commit({CHANGELOG: 1})
    store.close()
    again = opened(rocksdb_windows.duplicates_store)
    again.of_test.restore_callbacks["store"]([ChangelogRecord(window_key(b"k", 5, 9), b"9", 2)])
    again.put(b"k", b"last", 5)
    with again.fetch_between(b"k", 0, 10) as entries:
        assert list(entries) == [(5, b"1"), (5, b"1"), (5, b"9"), (5, b"last")]


def test_restored_records_that_are_expired_are_dropped(opened: Open) -> None:
    """Stream time goes on over the whole batch first, as RocksDB's stores do in Kafka."""
    store = opened(windows)
    records = [
        ChangelogRecord(window_key(b"k", 0), b"late", 0),
        ChangelogRecord(window_key(b"k", 500_000), b"now", 1),
    ]
    store.of_test.restore_callbacks["store"](records)
    assert store.dropped_records == 1
    assert starts(store) == [500_000]
    with pytest.raises(ProcessorStateError, match="too short"):
        store.of_test.restore_callbacks["store"]([ChangelogRecord(b"short", b"v", 2)])


def test_timestamped_windows(opened: Open) -> None:
    """The timestamp is kept beside the value; plain reads give the value alone."""
    store = opened(timestamped_windows.default_store)
    store.put_with_timestamp(b"k", b"v", 42, 5)
    store.of_test.record_timestamp = 43
    store.put(b"k", b"w", 6)
    assert store.fetch(b"k", 5) == b"v"
    assert store.fetch_with_timestamp(b"k", 6) == ValueAndTimestamp(b"w", 43)
    with store.fetch_between_with_timestamp(b"k", 0, 9) as entries:
        assert [timed.timestamp for _, timed in entries] == [42, 43]
    transaction = store.new_transaction()
    transaction.put_with_timestamp(b"k", None, 44, 5)
    assert transaction.fetch_with_timestamp(b"k", 5) is None
    transaction.close()
    assert store.fetch_with_timestamp(b"k", 5) == ValueAndTimestamp(b"v", 42)
    store.of_test.restore_callbacks["store"]([ChangelogRecord(window_key(b"k", 7), b"x", 0, 45)])
    assert store.read_only(IsolationLevel.READ_COMMITTED).fetch(b"k", 7) == b"x"
    with store.all_with_timestamp() as entries:
        assert [timed.timestamp for _, timed in entries] == [42, 43, 45]


def test_timestamped_sessions(opened: Open) -> None:
    """The same for sessions."""
    store = opened(timestamped_sessions.default_store)
    session = Windowed(b"k", Window(3, 8))
    store.put_with_timestamp(session, b"v", 42)
    assert store.fetch_session(b"k", 3, 8) == b"v"
    assert store.fetch_session_with_timestamp(b"k", 3, 8) == ValueAndTimestamp(b"v", 42)
    record = ChangelogRecord(session_key(b"k", 9, 9), b"x", 0, 43)
    store.of_test.restore_callbacks["store"]([record])
    with store.fetch_with_timestamp(b"k") as entries:
        assert [timed for _, timed in entries] == [
            ValueAndTimestamp(b"v", 42),
            ValueAndTimestamp(b"x", 43),
        ]
    store.remove(session)
    with store.find_sessions_with_timestamp(b"k", -5, 100) as entries:
        assert [windowed.window for windowed, _ in entries] == [Window(9, 9)]


def test_sessions_that_overlap_are_found(opened: Open) -> None:
    """Kafka: shouldFindSessionsToMerge, shouldFetchExactSession, shouldRemove."""
    store: SessionStore = opened(rocksdb_sessions.default_store)
    for start in range(0, 500, 100):
        store.put(Windowed(b"k", Window(start + (start > 0), start + 100)), b"%d" % start)
    with store.find_sessions(b"k", 150, 300) as entries:
        assert [windowed.window for windowed, _ in entries] == [Window(101, 200), Window(201, 300)]
    with store.backward_find_sessions(b"k", 150, 300) as entries:
        assert [value for _, value in entries] == [b"200", b"100"]
    assert store.fetch_session(b"k", 101, 200) == b"100"
    assert store.fetch_session(b"k", 101, 201) is None
    store.remove(Windowed(b"k", Window(101, 200)))
    with store.find_sessions_between(100, 300) as entries:
        assert [windowed.window.end for windowed, _ in entries] == [100, 300]


def test_figures_that_make_no_sense() -> None:
    """A retention of nothing keeps nothing."""
    with pytest.raises(InvalidArgumentError, match="at least 1 ms"):
        windows(retention_ms=0)


KEYS = st.sampled_from([b"", b"a", b"a\x00", b"aa", b"a" + b"\x00" * 8, b"b", b"\xff", b"\xff" * 9])
TIMES = st.one_of(st.integers(0, 12), st.sampled_from([INTERVAL - 1, INTERVAL, RETENTION - 1]))


@given(KEYS, KEYS, st.sampled_from([0, 5, INTERVAL, LONG_MAX]))
@settings(derandomize=True, deadline=None, database=None)
def test_bounds_of_keys_cover_every_row(one: bytes, other: bytes, latest: int) -> None:
    """However keys begin with one another, and whatever the times are."""
    low, high = min(one, other), max(one, other)
    first, last = key_bounds(low, high, window_key(b"", latest, 2**31 - 1))
    assert last is not None
    for key in (low, high, low + b"\x00", high[:-1]):
        for time in (0, latest):
            if low <= key <= high:
                assert first <= window_key(key, time) <= last


@given(
    puts=st.lists(st.tuples(KEYS, TIMES, st.sampled_from([b"1", b"2", None])), max_size=12),
    keys=st.tuples(st.one_of(st.none(), KEYS), st.one_of(st.none(), KEYS)),
    times=st.tuples(st.integers(-5, RETENTION), st.integers(-5, LONG_MAX)),
    committed=st.integers(0, 12),
)
@settings(derandomize=True, deadline=None, database=None, max_examples=60)
@pytest.mark.parametrize("make", [windows, databases, rocksdb_windows.transactional_store])
def test_all_layouts_agree_with_the_store_in_memory(  # noqa: PLR0917 - what Hypothesis draws
    make: Callable[[], Any],
    tmp_path_factory: pytest.TempPathFactory,
    puts: list[tuple[bytes, int, bytes | None]],
    keys: tuple[bytes | None, bytes | None],
    times: tuple[int, int],
    committed: int,
) -> None:
    """The same rows by point and by scan, as long as nothing expires."""
    store = make()
    other = InMemoryWindowStore("store", retention_ms=2 * RETENTION, window_size_ms=SIZE)
    store.window_size_ms = SIZE
    for each in (store, other):
        context = StateStoreContext(state_dir=tmp_path_factory.mktemp("task"))
        each.init(context, each)
        for number, (key, start, value) in enumerate(puts):
            each.put(key, value, start)
            if number == committed:
                each.commit({CHANGELOG: number})
    for key, start, _ in puts:
        assert store.fetch(key, start) == other.fetch(key, start)
        with store.fetch_between(key, *times) as found, other.fetch_between(key, *times) as wanted:
            assert list(found) == list(wanted)
    with store.fetch_range(*keys, *times) as found, other.fetch_range(*keys, *times) as wanted:
        assert sorted(found) == sorted(wanted)
    with store.backward_all() as backward, store.all() as forward:
        assert list(backward)[::-1] == list(forward)
    store.close()
    other.close()
