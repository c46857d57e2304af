"""One database for each segment: the way up from a version before KIP-1035, and the way back."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from streamproof.errors import UsageError
from streamproof.stores.api import (
    UPGRADE_FROM_CONFIG,
    KeyValueStore,
    RecordMetadata,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.checkpoint import OFFSET_UNKNOWN, OffsetCheckpoint
from streamproof.stores.checkpointing import LegacyCheckpointingStateStore
from streamproof.stores.errors import TaskCorruptedError
from streamproof.stores.rocksdb_database import column_families
from streamproof.stores.windowed.segment_databases import SegmentDatabases
from streamproof.stores.windowed.segmented_reads import STATE_ROW, segment_prefix

INTERVAL = 1_000
P0 = TopicPartition("streamproof-store-changelog", 0)
FOREIGN = TopicPartition("streamproof-other-changelog", 0)
INPUT = TopicPartition("input", 0)
DOWNGRADE = {UPGRADE_FROM_CONFIG: "4.2"}
ROWS = {segment_prefix(0) + b"a": b"1", segment_prefix(2) + b"b": b"2"}

MakeContext = Callable[..., StateStoreContext]
pytestmark = pytest.mark.parametrize("exactly_once", [True, False], ids=["EOS", "ALOS"])


def newer() -> SegmentDatabases:
    """The store as it is."""
    return SegmentDatabases("store", segment_interval_ms=INTERVAL)


def older() -> LegacyCheckpointingStateStore:
    """The store as it was before KIP-1035."""
    inner = SegmentDatabases("store", segment_interval_ms=INTERVAL, manages_offsets=False)
    return LegacyCheckpointingStateStore(inner, offset_delta_threshold=0)


def checkpoint(context: StateStoreContext) -> OffsetCheckpoint:
    """The file with the offsets of the task."""
    return OffsetCheckpoint(context.state_dir / ".checkpoint")


def position(context: StateStoreContext) -> OffsetCheckpoint:
    """The file with the position, where Kafka has it."""
    return OffsetCheckpoint(context.state_dir / "store.position")


def write(store: KeyValueStore, context: StateStoreContext, offset: int) -> None:
    """Put all rows while an input record is being processed, and commit."""
    context.record_metadata = RecordMetadata("input", 0, offset)
    for key, value in ROWS.items():
        store.put(key, value)
    store.put(STATE_ROW, b"stream time")
    context.record_metadata = None
    store.commit({P0: offset})


def content(store: KeyValueStore) -> dict[bytes, bytes]:
    """The rows that belong to segments."""
    with store.all() as rows:
        return {key: value for key, value in rows if key != STATE_ROW}


@pytest.fixture
def left(make_context: MakeContext, exactly_once: bool) -> StateStoreContext:
    """What a version before KIP-1035 leaves: segments, and files beside them."""
    context = make_context(exactly_once=exactly_once, **DOWNGRADE)
    context.state_dir.mkdir(parents=True)
    checkpoint(context).write({FOREIGN: 3})
    store = older()
    store.init(context, store)
    write(store, context, 7)
    store.close()
    assert checkpoint(context).read() == {FOREIGN: 3, P0: 7}
    assert position(context).read() == {INPUT: 7}
    return make_context(exactly_once=exactly_once)


@pytest.mark.usefixtures("exactly_once")
def test_offsets_and_position_are_taken_over_once(left: StateStoreContext) -> None:
    """They are in the databases then, and in no file."""
    for _ in range(2):
        store = newer()
        store.init(left, store)
        assert store.committed_offset(P0) == 7
        assert store.position.as_dict() == {INPUT: 7}
        assert content(store) == ROWS
        assert checkpoint(left).read() == {FOREIGN: 3}
        assert not position(left).path.exists()
        store.close()


def test_an_older_store_that_was_not_closed(left: StateStoreContext, exactly_once: bool) -> None:
    """It has records without offsets: under exactly-once they may be those of a crash."""
    checkpoint(left).write({FOREIGN: 3})
    store = newer()
    if exactly_once:
        with pytest.raises(TaskCorruptedError, match="not closed cleanly"):
            store.init(left, store)
        assert not any((left.state_dir / "store").glob("store.meta"))
    else:
        store.init(left, store)
        assert store.committed_offset(P0) is None
        assert content(store) == ROWS
        store.close()


@pytest.mark.usefixtures("exactly_once")
def test_offsets_without_segments_are_dropped(left: StateStoreContext) -> None:
    """Otherwise a restoration would skip the records that are gone."""
    for path in (left.state_dir / "store").glob("store.*"):
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
    store = newer()
    store.init(left, store)
    assert store.committed_offset(P0) is None
    assert checkpoint(left).read() == {FOREIGN: 3}
    store.close()


def test_the_way_back(make_context: MakeContext, exactly_once: bool) -> None:
    """The directory is as an older version has it, which goes on with it; so does the newer one."""
    context = make_context(exactly_once=exactly_once, **DOWNGRADE)
    store = newer()
    store.init(context, store)
    checkpoint(context).write({FOREIGN: 3})
    write(store, context, 7)
    for offset in (8, 9):
        store.close()
        directory = context.state_dir / "store"
        assert {path.name for path in directory.iterdir()} == {"store.0", "store.2000"}
        assert {column_families(path) for path in directory.iterdir()} == {frozenset({"default"})}
        assert checkpoint(context).read() == {FOREIGN: 3, P0: offset - 1}
        assert position(context).read() == {INPUT: offset - 1}
        old = older()
        old.init(make_context(exactly_once=exactly_once), old)
        assert (old.committed_offset(P0), content(old)) == (offset - 1, ROWS)
        assert old.position.as_dict() == {INPUT: offset - 1}
        old.close()
        store = newer()
        store.init(context, store)
        assert (store.committed_offset(P0), content(store)) == (offset - 1, ROWS)
        assert store.position.as_dict() == {INPUT: offset - 1}
        write(store, context, offset)
    store.close()


def test_without_an_offset_it_is_noted_that_none_is_known(
    make_context: MakeContext, exactly_once: bool
) -> None:
    """Otherwise the older version would take the records for those of a crash."""
    context = make_context(exactly_once=exactly_once, **DOWNGRADE)
    store = newer()
    store.init(context, store)
    store.put(segment_prefix(0) + b"a", b"1")
    store.close()
    assert checkpoint(context).read() == {P0: OFFSET_UNKNOWN}
    store.init(context, store)
    assert store.committed_offset(P0) is None
    store.close()


def test_an_unknown_version_stops_the_opening(
    make_context: MakeContext, exactly_once: bool
) -> None:
    """Before anything is touched."""
    context = make_context(exactly_once=exactly_once, **{UPGRADE_FROM_CONFIG: "latest"})
    store = newer()
    with pytest.raises(UsageError, match=r"upgrade\.from"):
        store.init(context, store)
    assert not context.state_dir.exists()
    assert not store.is_open


KILLED = """
import os, pathlib, sys
from streamproof.stores.api import StateStoreContext
from streamproof.stores.offset_import import OffsetImport
from streamproof.stores.windowed import segment_databases
from streamproof.stores.windowed.segment_databases import SegmentDatabases

name, guarantee, number = sys.argv[2], sys.argv[3], int(sys.argv[4])
owner = segment_databases.OneSegment
if name in ("finish",):
    owner = OffsetImport
elif name in ("_delete",):
    owner = SegmentDatabases
elif name in ("add_to_task_checkpoint", "sync_directory"):
    owner = segment_databases
method = getattr(owner, name)
calls = 0

def dying(*arguments, **more):
    global calls
    calls += 1
    if calls == number:
        os.kill(os.getpid(), 9)
    return method(*arguments, **more)

setattr(owner, name, dying)
configs = {"processing.guarantee": guarantee, "upgrade.from": "4.2"}
context = StateStoreContext(state_dir=pathlib.Path(sys.argv[1]), app_configs=configs)
store = SegmentDatabases("store", segment_interval_ms=1_000)
store.init(context, store)
store.close()
"""


def killed(context: StateStoreContext, name: str, number: int) -> None:
    """Open and close the store in a process that dies before the call of a method."""
    guarantee = context.app_configs["processing.guarantee"]
    arguments = [str(context.state_dir), name, guarantee, str(number)]
    died = subprocess.run([sys.executable, "-P", "-c", KILLED, *arguments], check=False)
    assert died.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("commit_all", 1),
        ("commit_all", 2),
        ("commit_all", 3),
        ("finish", 1),
        ("mark_closed", 2),
        ("add_to_task_checkpoint", 1),
        ("_delete", 1),
        ("sync_directory", 1),
        ("close_without_offsets", 1),
        ("close_without_offsets", 2),
    ],
)
def test_a_kill_on_the_way_up_or_back(
    left: StateStoreContext, name: str, number: int, exactly_once: bool
) -> None:
    """The newer store has all rows and the offset, or says that it must be restored."""
    killed(left, name, number)
    store = newer()
    try:
        store.init(left, store)
    except TaskCorruptedError:
        # Under exactly-once a store without transactions cannot trust a crash while it was open.
        assert exactly_once
        assert name in ("commit_all", "finish", "mark_closed")
        return
    assert content(store) == ROWS
    assert store.committed_offset(P0) == 7
    assert store.position.as_dict() == {INPUT: 7}
    assert checkpoint(left).read() == {FOREIGN: 3}
    store.close()
