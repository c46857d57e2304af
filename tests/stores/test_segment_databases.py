"""One database for each segment: what is on disk after kills, failures and wrong openings."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import pytest

from streamproof.stores.api import (
    ChangelogRecord,
    KeyValueStore,
    RecordMetadata,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.errors import (
    InvalidArgumentError,
    InvalidStateStoreError,
    NullArgumentError,
    ProcessorStateError,
    TaskCorruptedError,
)
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.windowed.segment_databases import SegmentDatabases
from streamproof.stores.windowed.segmented_reads import segment_prefix

INTERVAL = 1_000
P0, P1 = TopicPartition("log", 0), TopicPartition("log", 1)
STATE_KEY = b"\xff" * 8

MakeContext = Callable[..., StateStoreContext]
Open = Callable[..., SegmentDatabases]


@pytest.fixture
def opened(make_context: MakeContext) -> Iterator[Open]:
    """Opens stores in one task directory, and closes in the end what is left open."""
    stores = []

    def open_one(*, exactly_once: bool = False, **arguments: Any) -> SegmentDatabases:
        store = SegmentDatabases("store", segment_interval_ms=INTERVAL, **arguments)
        context = make_context(exactly_once=exactly_once)
        store.init(context, store)
        stores.append(store)
        return store

    yield open_one
    for store in stores:
        store.close()


@pytest.fixture
def directory(make_context: MakeContext) -> Path:
    """Where the databases are."""
    return make_context().state_dir / "store"


def row(segment: int, key: bytes = b"k") -> bytes:
    """A key of a row in a segment."""
    return segment_prefix(segment) + key


def names(directory: Path) -> set[str]:
    """The directories of the store."""
    return {path.name for path in directory.glob("store*")}


def rows_of(store: KeyValueStore) -> list[tuple[bytes, bytes]]:
    """Every row."""
    with store.all() as rows:
        return list(rows)


class Elsewhere(RocksDBStore):
    """A database that somebody put among the segments."""

    def __init__(self, path: Path) -> None:
        super().__init__("elsewhere")
        self.path = path

    def directory(self, context: StateStoreContext) -> Path:
        return self.path


PRELUDE = """
import os, pathlib, sys
from streamproof.stores.api import RecordMetadata, StateStoreContext, TopicPartition
from streamproof.stores.windowed.segment_databases import SegmentDatabases
from streamproof.stores.windowed.segmented_reads import segment_prefix

P0, P1 = TopicPartition("log", 0), TopicPartition("log", 1)
context = StateStoreContext(state_dir=pathlib.Path(sys.argv[1]))
store = SegmentDatabases("store", segment_interval_ms=1_000)
store.init(context, store)

def put(segment, key, offset):
    context.record_metadata = RecordMetadata("input", 0, offset)
    store.put(segment_prefix(segment) + key, b"%d" % offset)

def flush(*segments):
    # As full write buffers do, one database at a time.
    for segment in segments:
        store._segments[segment].flush()

def die():
    os.kill(os.getpid(), 9)
"""


@pytest.fixture
def killed(make_context: MakeContext) -> Callable[[str], None]:
    """Runs a program with an open store in a process of its own, which is killed in the end."""

    def run(program: str) -> None:
        command = [sys.executable, "-P", "-c", PRELUDE + program + "\ndie()\n"]
        died = subprocess.run([*command, str(make_context().state_dir)], check=False)
        assert died.returncode == -signal.SIGKILL

    return run


Killed = Callable[[str], None]


# --- as a key-value store -----------------------------------------------------------------


def test_rows_go_to_the_database_of_their_prefix(opened: Open, directory: Path) -> None:
    """And what has no segment's prefix goes to the one that has no time."""
    store = opened()
    store.put_all([(row(2, b"b"), b"1"), (row(0), b"2"), (row(2, b"a"), b"3")])
    store.put(STATE_KEY, b"state")
    assert names(directory) == {"store.meta", "store.0", "store.2000"}
    everything = [(row(0), b"2"), (row(2, b"a"), b"3"), (row(2, b"b"), b"1"), (STATE_KEY, b"state")]
    assert rows_of(store) == everything
    with store.reverse_all() as rows:
        assert list(rows) == everything[::-1]
    with store.range(row(0, b"z"), row(2, b"a")) as rows:
        assert list(rows) == everything[1:2]
    with store.reverse_range(None, row(2)) as rows:
        assert list(rows) == everything[2::-1]
    with store.prefix_scan(segment_prefix(2)) as rows:
        assert list(rows) == everything[1:3]
    with store.prefix_scan(STATE_KEY) as rows:
        assert list(rows) == everything[3:]
    with store.range(row(2), row(1)) as rows:
        assert list(rows) == []
    assert store.approximate_num_entries() == 4
    assert store.get(row(0)) == b"2"
    assert store.delete(row(0)) == b"2"
    assert store.get(row(0)) is store.get(row(1)) is None
    assert names(directory) == {"store.meta", "store.0", "store.2000"}


def test_what_cannot_be_a_row(opened: Open) -> None:
    """Nothing of a batch is written if one of its keys is wrong."""
    store = opened()
    nothing: Any = None
    with pytest.raises(InvalidArgumentError, match="too short"):
        store.put(b"short", b"v")
    with pytest.raises(NullArgumentError):
        store.put_all([(row(0), b"v"), (nothing, b"v")])
    with pytest.raises(InvalidArgumentError, match="too short"):
        store.put_all([(row(0), b"v"), (b"short", b"v")])
    assert rows_of(store) == []
    with pytest.raises(InvalidStateStoreError, match="already open"):
        store.init(StateStoreContext(state_dir=Path("nowhere")), store)
    store.close()
    calls: list[Callable[[], object]] = [
        lambda: store.get(row(0)),
        lambda: store.put(row(0), b"v"),
        lambda: store.put_all([]),
        lambda: store.delete_range(row(0), row(1)),
        lambda: store.committed_offset(P0),
        lambda: store.commit({P0: 1}),
        lambda: store.restore([]),
        store.flush,
        store.all,
        store.approximate_num_entries,
    ]
    for call in calls:
        with pytest.raises(InvalidStateStoreError):
            call()


def test_restoring_writes_once_for_each_segment(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka: shouldCreateWriteBatches. The order within a segment is kept."""
    store = opened()
    batches = []
    restore = RocksDBStore.restore

    def noted(segment: RocksDBStore, batch: Any) -> None:
        batches.append((segment.name, len(batch)))
        restore(segment, batch)

    monkeypatch.setattr(RocksDBStore, "restore", noted)
    segments = (0, 1, 0, 1, 0)
    store.restore([ChangelogRecord(row(each), b"%d" % at, at) for at, each in enumerate(segments)])
    assert sorted(batches) == [("store.0", 3), ("store.1000", 2)]
    assert rows_of(store) == [(row(0), b"4"), (row(1), b"3")]


# --- after a kill -------------------------------------------------------------------------


def test_offsets_and_position_are_those_of_one_commit(opened: Open, killed: Killed) -> None:
    """Even if partitions came and went in between; and the next crash finds them again."""
    killed("""
put(0, b"a", 10); put(1, b"a", 11)
store.commit({P0: 1}); store.flush()
put(0, b"b", 12)
store.commit({P0: 2, P1: 5}); flush(0)
put(1, b"b", 13)
store.commit({P0: None}); flush(1, -1)
put(1, b"c", 14)
""")
    for _ in range(2):
        store = opened()
        # The oldest segment is behind: what it holds is the second commit.
        assert (store.committed_offset(P0), store.committed_offset(P1)) == (2, 5)
        assert store.position.as_dict() == {TopicPartition("input", 0): 12}
        assert store.get(row(0, b"b")) == b"12"
        store.close()


def test_a_commit_of_before_the_crash_is_not_compared_with_one_of_after(
    opened: Open, killed: Killed
) -> None:
    """A segment that had been ahead is brought in line before anything is committed."""
    killed("""
put(0, b"a", 1); put(1, b"a", 1)
store.commit({P0: 10}); store.flush()
store.commit({P0: 20}); store.commit({P0: 30}); flush(1)
""")
    # It goes on from 10 and is killed again, when the other segment alone has reached the disk.
    killed("""
assert store.committed_offset(P0) == 10
put(1, b"b", 2); put(0, b"b", 2)
store.commit({P0: 12}); flush(0, -1)
""")
    store = opened()
    assert store.committed_offset(P0) == 10
    assert store.get(row(1, b"b")) is None


@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_segment_without_a_commit_or_a_record_has_no_say(
    exactly_once: bool, opened: Open, directory: Path, killed: Killed
) -> None:
    """That is what a kill leaves of a segment which is being created."""
    store = opened()
    store.put(row(0), b"v")
    store.commit({P0: 7})
    store.close()
    (directory / "store.1000").mkdir()
    again = opened(exactly_once=exactly_once)
    assert again.committed_offset(P0) == 7
    again.close()
    half = Elsewhere(directory / "store.2000")
    half.init(StateStoreContext(state_dir=directory), half)
    half.close()
    last = opened(exactly_once=exactly_once)
    assert last.committed_offset(P0) == 7
    last.put(row(2), b"v")
    last.close()
    killed('put(2, b"w", 1); flush(2)')
    assert opened().committed_offset(P0) == 7


def test_a_segment_of_before_the_first_commit_has_a_say(opened: Open, killed: Killed) -> None:
    """It is empty after the kill because it lost a record, and not because it had none."""
    killed('put(0, b"a", 1); store.commit({P0: 1}); flush(-1)')
    store = opened()
    assert store.committed_offset(P0) is None
    assert rows_of(store) == []
    assert store.position.as_dict() == {}


def test_a_half_created_segment_has_a_say_once_it_was_found(
    opened: Open, directory: Path, killed: Killed
) -> None:
    """It gets the number of the last commit before it gets a record."""
    (directory / "store.0").mkdir(parents=True)
    killed('put(0, b"a", 1); store.commit({P0: 1}); flush(-1)')
    assert opened().committed_offset(P0) is None


def test_a_segment_with_records_and_no_commit_sends_the_store_back_to_the_beginning(
    opened: Open, directory: Path
) -> None:
    """Nobody knows what it lacks."""
    store = opened()
    store.put(row(0), b"v")
    store.commit({P0: 7})
    store.close()
    stranger = Elsewhere(directory / "store.1000")
    stranger.init(StateStoreContext(state_dir=directory), stranger)
    stranger.put(row(1), b"w")
    stranger.close()
    again = opened()
    assert again.committed_offset(P0) is None
    assert rows_of(again) == [(row(0), b"v"), (row(1), b"w")]


def test_forgetting_is_of_all_segments(opened: Open) -> None:
    """An empty map forgets everything, ``None`` one partition, whatever was flushed."""
    store = opened()
    store.put_all([(row(0), b"v"), (row(1), b"v")])
    store.commit({P0: 1, P1: 2})
    store.commit({P0: None})
    assert (store.committed_offset(P0), store.committed_offset(P1)) == (None, 2)
    store.close()
    again = opened()
    assert (again.committed_offset(P0), again.committed_offset(P1)) == (None, 2)
    again.commit({})
    assert again.committed_offset(P1) is None
    again.close()
    assert opened().committed_offset(P1) is None


def test_creating_a_segment_flushes_the_others(opened: Open, killed: Killed) -> None:
    """So that segments that nobody writes to any more do not hold the offset back for good."""
    killed("""
put(0, b"a", 1)
store.commit({P0: 1})
put(1, b"a", 2)
store.commit({P0: 2}); flush(1)
""")
    store = opened()
    assert store.committed_offset(P0) == 1
    assert store.get(row(0, b"a")) == b"1"


def test_exactly_once_tells_a_kill_by_any_segment(
    killed: Killed, make_context: MakeContext
) -> None:
    """Kafka: shouldThrowTaskCorruptedExceptionIfSegmentIsInInvalidState; nothing stays open."""
    killed('put(0, b"a", 1); put(1, b"a", 1); store.commit({P0: 1}); flush(1)')
    for _ in range(2):
        store = SegmentDatabases("store", segment_interval_ms=INTERVAL)
        with pytest.raises(TaskCorruptedError, match=r"/store/store\."):
            store.init(make_context(), store)
        assert not store.is_open


def test_a_drop_is_behind_the_state_that_justifies_it(opened: Open, killed: Killed) -> None:
    """What a segment's expiry follows from is on the disk before the segment is gone."""
    killed("""
put(0, b"a", 1)
store.commit({P0: 1}); store.flush()
store.put(b"\\xff" * 8, b"stream time")
store.delete_range(segment_prefix(0), segment_prefix(1))
""")
    store = opened()
    assert rows_of(store) == [(STATE_KEY, b"stream time")]


KILLED_AT_LINES = """
# A process that opens no database itself, as the threads of RocksDB do not survive a fork.
import json, os, pathlib, shutil, sys
from streamproof.stores.api import StateStoreContext, TopicPartition
from streamproof.stores.windowed.segment_databases import SegmentDatabases
from streamproof.stores.windowed.segmented_reads import segment_prefix

P0 = TopicPartition("log", 0)
directory = pathlib.Path(sys.argv[1])

def opened():
    store = SegmentDatabases("store", segment_interval_ms=1_000)
    store.init(StateStoreContext(state_dir=directory), store)
    return store

def trace(frame, event, argument):
    global left
    if "segment_databases" not in frame.f_code.co_filename:
        return None
    left -= event == "line"
    if left == 0:
        os.kill(os.getpid(), 9)
    return trace

def work():
    store = opened()
    store.put(segment_prefix(0) + b"a", b"1")
    store.commit({P0: 1})
    store.flush()
    sys.settrace(trace)
    store.put(segment_prefix(5) + b"b", b"2")
    store.commit({P0: 2})
    store.put(b"\\xff" * 8, b"late")
    store.delete_range(segment_prefix(0), segment_prefix(1))
    store.commit({P0: 3})
    store.close()

def look():
    store = opened()
    with store.all() as rows:
        values = sorted(value.decode() for _, value in rows)
    os.write(writer, json.dumps([store.committed_offset(P0), values]).encode() + b"\\n")

def in_child(task):
    child = os.fork()
    if child == 0:
        try:
            task()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1]

writer = os.dup(1)
for line in range(1, 1_000, 4):
    shutil.rmtree(directory, ignore_errors=True)
    left = line
    ended = in_child(work)
    assert ended in (0, 9), ended
    assert in_child(look) == 0
    if ended == 0:
        break
"""


def test_killed_at_lines_of_creating_committing_dropping_and_closing() -> None:
    """No line is such that a record is missing up to the offset that is found."""
    # A SIGKILL leaves the page cache alone, so files in memory serve as well, and faster.
    memory = Path("/dev/shm")  # noqa: S108  # A fresh directory is made in it.
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as directory:
        command = [sys.executable, "-P", "-c", KILLED_AT_LINES, str(Path(directory) / "task")]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    outcomes = [json.loads(line) for line in ended.stdout.splitlines()]
    assert len(outcomes) > 30
    for offset, values in outcomes:
        # The record of the first segment may go once its expiry is on the disk.
        assert "1" in values or "late" in values
        assert offset == 1 or "2" in values
    assert {offset for offset, _ in outcomes} >= {1, 3}


# --- failures and wrong openings ----------------------------------------------------------


def test_a_segment_that_cannot_be_opened_is_not_remembered(
    opened: Open, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka: shouldNotRetainFailedSegmentSoRecoveryStaysRecoverable (KAFKA-20808)."""
    store = opened()
    store.put(row(0), b"v")
    (directory / "store.1000").write_text("no directory")
    for _ in range(2):
        with pytest.raises(ProcessorStateError, match=r"store\.1000"):
            store.put(row(1), b"v")
    (directory / "store.1000").unlink()

    def full(_: RocksDBStore) -> None:
        raise ProcessorStateError("The disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(RocksDBStore, "flush", full)
        with pytest.raises(ProcessorStateError, match="full"):
            store.put(row(1), b"v")
    assert store.get(row(1)) is None
    store.put(row(1), b"v")
    assert store.get(row(1)) == b"v"


def test_one_opening_at_a_time(opened: Open, make_context: MakeContext) -> None:
    """Also before there is any segment; the first store goes on undisturbed."""
    store = opened()
    store.put(row(0), b"v")
    other = SegmentDatabases("store", segment_interval_ms=INTERVAL)
    with pytest.raises(ProcessorStateError, match="no other store has it open"):
        other.init(make_context(), other)
    assert not other.is_open
    assert store.get(row(0)) == b"v"
    store.close()
    assert rows_of(opened()) == [(row(0), b"v")]


def test_a_file_where_the_directory_should_be(directory: Path, make_context: MakeContext) -> None:
    """The message names it, and it is left alone."""
    directory.parent.mkdir(parents=True)
    directory.write_text("a file")
    store = SegmentDatabases("store", segment_interval_ms=INTERVAL)
    with pytest.raises(ProcessorStateError, match=str(directory)):
        store.init(make_context(), store)
    assert directory.read_text() == "a file"


def test_another_segment_interval_is_refused(opened: Open, make_context: MakeContext) -> None:
    """Rows would be looked for in the wrong segments, and new ones made beside the old."""
    store = opened()
    store.put(row(1), b"v")
    store.close()
    other = SegmentDatabases("store", segment_interval_ms=700)
    with pytest.raises(ProcessorStateError, match="another segment interval"):
        other.init(make_context(), other)
    assert rows_of(opened()) == [(row(1), b"v")]


@pytest.mark.parametrize("old", ["store-197001010001", "store:60999"])
def test_old_names_are_rounded_to_segments_and_replace_nothing(
    old: str, opened: Open, directory: Path, make_context: MakeContext
) -> None:
    """Kafka: KeyValueSegmentsTest, the migrations of names."""
    store = opened()
    store.put(row(60), b"v")
    store.close()
    (directory / "store.60000").rename(directory / old)
    (directory / "other-197001010001").mkdir()
    again = opened()
    assert rows_of(again) == [(row(60), b"v")]
    again.close()
    assert (directory / "other-197001010001").is_dir()
    (directory / old).mkdir()
    damaged = SegmentDatabases("store", segment_interval_ms=INTERVAL)
    with pytest.raises(ProcessorStateError, match=r"store\.60000 exists"):
        damaged.init(make_context(), damaged)
    (directory / old).rmdir()
    assert rows_of(opened()) == [(row(60), b"v")]


def test_a_segment_goes_when_its_last_iterator_does(opened: Open, directory: Path) -> None:
    """Kafka: shouldCleanupSegmentsThatHaveExpired, shouldNotExpireFromOpenIterator."""
    store = opened()
    store.put_all([(row(0, b"%d" % number), b"v") for number in range(5)])
    store.put(row(1), b"v")
    entries = store.range(segment_prefix(0), row(1))
    next(entries)
    store.delete_range(row(0)[:8], row(1)[:8])
    assert store.get(row(0, b"0")) is None
    store.commit({P0: 1})
    assert "store.0" in names(directory)
    assert len(list(entries)) == 5
    entries.close()
    store.commit({P0: 2})
    assert names(directory) == {"store.meta", "store.1000"}
    entries = store.range(row(1), None)
    store.delete_range(row(1)[:8], row(2)[:8])
    store.close()
    assert names(directory) == {"store.meta"}
    with pytest.raises(InvalidStateStoreError):
        next(entries)


def test_position_of_records_that_are_not_committed(opened: Open) -> None:
    """It is followed at once, and kept with a commit only (KIP-796, KIP-1035)."""
    store = opened()
    context = cast(Any, store)._context
    context.record_metadata = RecordMetadata("input", 0, 1)
    store.put(row(0), b"v")
    store.commit({P0: 1})
    context.record_metadata = RecordMetadata("input", 0, 2)
    store.put(row(1), b"v")
    assert store.position.as_dict() == {TopicPartition("input", 0): 2}
    store.close()
    assert opened().position.as_dict() == {TopicPartition("input", 0): 1}
