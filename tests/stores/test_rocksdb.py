"""RocksDBStore: offsets, status, durability, and files that cannot be used."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rocksdict import Options, Rdict

from streamproof.stores.api import (
    WRITE_BUFFER_BYTES_CONFIG,
    Position,
    RecordMetadata,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.errors import (
    InvalidStateStoreError,
    ProcessorStateError,
    TaskCorruptedError,
)
from streamproof.stores.offsets import (
    decode_long,
    decode_position,
    encode_long,
    encode_partition,
    encode_position,
)
from streamproof.stores.rocksdb import RocksDBStore

MakeContext = Callable[..., StateStoreContext]
P0, P1 = TopicPartition("log", 0), TopicPartition("log", 1)


def _open(make_context: MakeContext, *, exactly_once: bool = True) -> RocksDBStore:
    store = RocksDBStore("store")
    store.init(make_context(exactly_once=exactly_once), store)
    return store


def test_offsets_come_back_after_a_clean_close(make_context: MakeContext) -> None:
    """committed_offset returns the last commit, also when the store is opened again."""
    store = _open(make_context)
    assert store.committed_offset(P0) is None
    store.commit({P0: 5, P1: 2**40})
    store.commit({P0: 6})
    assert (store.committed_offset(P0), store.committed_offset(P1)) == (6, 2**40)
    store.close()
    store = _open(make_context)
    assert (store.committed_offset(P0), store.committed_offset(P1)) == (6, 2**40)
    assert list(store.all()) == []
    store.close()


def test_offsets_can_be_forgotten(make_context: MakeContext) -> None:
    """None forgets one partition, an empty map all of them; the position stays."""
    context = make_context()
    store = RocksDBStore("store")
    store.init(context, store)
    context.record_metadata = RecordMetadata("in", 0, 9)
    store.put(b"a", b"1")
    store.commit({P0: 5, P1: 7})
    store.commit({P0: None})
    assert (store.committed_offset(P0), store.committed_offset(P1)) == (None, 7)
    store.commit({})
    assert store.committed_offset(P1) is None
    store.close()
    store = _open(make_context)
    assert store.committed_offset(P1) is None
    assert store.position.as_dict() == {("in", 0): 9}
    store.close()


def test_position_is_stored_at_commit_only(make_context: MakeContext) -> None:
    """What was not committed of the position is not there after opening again."""
    context = make_context()
    store = RocksDBStore("store")
    store.init(context, store)
    context.record_metadata = RecordMetadata("in", 0, 1)
    store.put(b"a", b"1")
    store.commit({P0: 1})
    context.record_metadata = RecordMetadata("in", 0, 2)
    store.put(b"a", b"2")
    store.close()
    store = _open(make_context)
    assert store.position.as_dict() == {("in", 0): 1}
    store.close()


def test_encodings_are_those_of_kafka() -> None:
    """The rows of the offsets column family, byte for byte."""
    assert encode_partition(P0) == b"log-0"
    assert encode_long(258) == b"\x00\x00\x00\x00\x00\x00\x01\x02"
    assert decode_long(encode_long(-4)) == -4
    position = Position({TopicPartition("in", 3): 258, TopicPartition("in", 1): 1})
    raw = (
        b"\x00\x00\x00\x00\x01\x00\x00\x00\x02in\x00\x00\x00\x02"
        b"\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01"
        b"\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x01\x02"
    )
    assert encode_position(position) == raw
    assert decode_position(raw) == position
    for damaged in (b"", b"\x07", raw[:-1]):
        with pytest.raises(ProcessorStateError, match="position"):
            decode_position(damaged)
    with pytest.raises(ProcessorStateError, match="3 bytes"):
        decode_long(b"abc")


def test_open_status_is_corruption_under_exactly_once_only(make_context: MakeContext) -> None:
    """A store that was flushed but not closed is refused, unless at-least-once."""
    store = _open(make_context)
    store.put(b"a", b"1")
    store.flush()
    # A copy of the quiescent directory stands for the crash.
    directory = store.directory(make_context())
    copy = subprocess.run(["cp", "-r", directory, f"{directory}.copy"], check=True)
    assert copy.returncode == 0
    store.close()
    _open(make_context).close()
    subprocess.run(["rm", "-r", directory], check=True)
    subprocess.run(["mv", f"{directory}.copy", directory], check=True)
    for _ in range(2):
        with pytest.raises(TaskCorruptedError, match="Wipe the directory"):
            _open(make_context)
    store = _open(make_context, exactly_once=False)
    assert store.get(b"a") == b"1"
    store.close()
    _open(make_context).close()


def test_directory_can_be_opened_again_with_iterators_left(make_context: MakeContext) -> None:
    """Close releases the lock although iterators were neither exhausted nor closed."""
    store = _open(make_context)
    store.put_all([(b"a", b"1"), (b"b", b"2")])
    iterators = [store.all(), store.reverse_range(b"a", None), store.prefix_scan(b"a")]
    next(iterators[0])
    store.close()
    again = _open(make_context)
    assert again.get(b"a") == b"1"
    with pytest.raises(InvalidStateStoreError):
        next(iterators[0])
    again.close()


def test_small_write_buffers_reach_the_disk(make_context: MakeContext) -> None:
    """The hint for the size of write buffers makes RocksDB flush within a short run."""
    context = make_context(**{WRITE_BUFFER_BYTES_CONFIG: 65536})
    store = RocksDBStore("store")
    store.init(context, store)
    for number in range(3000):
        store.put(b"%05d" % number, b"x" * 100)
    assert list(store.directory(context).glob("*.sst"))
    store.close()


def test_flush_waits_for_the_flush_before_it(make_context: MakeContext) -> None:
    """When it returns, no row is only in memory, even if RocksDB was flushing already.

    Nineteen rows fill a buffer, so that a flush of RocksDB's own is under way or due then.
    """
    store = RocksDBStore("store")
    store.init(make_context(**{WRITE_BUFFER_BYTES_CONFIG: 64 * 1024}), store)
    for number in range(120):
        for row in range(1 + number % 20):
            store.put(b"key%d" % row, b"." * 3000)
            store.commit({P0: number})
        store.flush()
        database = store._opened()

        assert database.offsets is not None
        for family in (database.data, database.offsets):
            for state in ("active", "imm"):
                left = family.property_int_value(f"rocksdb.num-entries-{state}-mem-table")
                assert not left
    store.close()


def test_delete_range(make_context: MakeContext) -> None:
    """The upper bound is not deleted; an inverted range deletes nothing."""
    store = _open(make_context)
    store.put_all((key, b"1") for key in (b"a", b"b", b"c"))
    store.delete_range(b"c", b"a")
    store.delete_range(b"a", b"c")
    assert list(store.all()) == [(b"c", b"1")]
    store.close()


def test_locked_by_this_process(make_context: MakeContext) -> None:
    """A second store on the directory is refused, and the first one lives on."""
    store = _open(make_context)
    with pytest.raises(ProcessorStateError, match="close that one first"):
        _open(make_context)
    store.put(b"a", b"1")
    store.close()
    with pytest.raises(InvalidStateStoreError, match="init"):
        store.get(b"a")


def test_locked_by_another_process(make_context: MakeContext) -> None:
    """A directory that a live process holds is refused, naming it."""
    directory = RocksDBStore("store").directory(make_context())
    program = (
        "import sys; from pathlib import Path; "
        "from streamproof.stores.rocksdb_database import Database; "
        "held = Database(Path(sys.argv[1]), with_offsets=True, write_buffer_bytes=None); "
        "print('open', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-P", "-c", program, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(ProcessorStateError, match=r"rocksdb/store.*close that one first"):
            _open(make_context)
        holder.kill()
    _open(make_context).close()


def _written(make_context: MakeContext) -> Path:
    store = _open(make_context)
    store.put_all((b"%05d" % number, b"x" * 50) for number in range(20_000))
    store.commit({P0: 1})
    store.close()
    return store.directory(make_context())


@pytest.mark.parametrize("victim", ["CURRENT", "MANIFEST-*"])
def test_damaged_files_are_named_and_left_alone(victim: str, make_context: MakeContext) -> None:
    """A database that cannot be read is refused; nothing is deleted or made anew."""
    directory = _written(make_context)
    path = next(directory.glob(victim))
    path.write_bytes(b"garbage")
    before = {file.name for file in directory.iterdir()}
    with pytest.raises(ProcessorStateError, match=r"rocksdb/store .*Nothing was deleted"):
        _open(make_context)
    assert {file.name for file in directory.iterdir()} >= before
    assert path.read_bytes() == b"garbage"


def test_missing_current_file_is_no_new_database(make_context: MakeContext) -> None:
    """Data files without the file that names the manifest are not taken for a fresh start."""
    directory = _written(make_context)
    (directory / "CURRENT").unlink()
    with pytest.raises(ProcessorStateError, match="CURRENT is missing"):
        _open(make_context)
    assert not (directory / "CURRENT").exists()


def test_scan_over_a_damaged_block_does_not_end_early(make_context: MakeContext) -> None:
    """A block that cannot be read raises, in both directions, and is no end of the data."""
    directory = _written(make_context)
    table = max(directory.glob("*.sst"), key=lambda path: path.stat().st_size)
    with table.open("r+b") as file:
        file.seek(table.stat().st_size // 2)
        file.write(b"\x00" * 200)
    store = _open(make_context)
    scans = [store.all, store.reverse_all]
    scans += [lambda: store.range(b"0", b"2"), lambda: store.reverse_range(b"0", b"2")]
    scans += [lambda: store.prefix_scan(b"")]
    for scan in scans:
        with pytest.raises(ProcessorStateError, match="after key"):
            list(scan())
    store.close()
    _open(make_context).close()


def test_a_file_where_the_directory_should_be(make_context: MakeContext) -> None:
    """A path that cannot be written is named together with what to check."""
    context = make_context()
    context.state_dir.parent.mkdir(parents=True, exist_ok=True)
    context.state_dir.write_text("in the way")
    with pytest.raises(ProcessorStateError, match=r"rocksdb/store cannot be opened.*Check"):
        _open(make_context)
    assert context.state_dir.read_text() == "in the way"


def test_unknown_column_family(make_context: MakeContext) -> None:
    """A column family of another version is named, and so is the remedy."""
    directory = _written(make_context)
    raw = Rdict(
        str(directory),
        Options(raw_mode=True),
        column_families={"default": Options(raw_mode=True), "offsets": Options(raw_mode=True)},
    )
    raw.create_column_family("keyValueWithTimestamp", Options(raw_mode=True))
    raw.close()
    del raw
    with pytest.raises(ProcessorStateError, match=r"keyValueWithTimestamp.*wipe the directory"):
        _open(make_context)


def test_interrupted_creation_is_finished(make_context: MakeContext) -> None:
    """A directory in which nothing but an empty configuration file was made is usable."""
    directory = RocksDBStore("store").directory(make_context())
    directory.mkdir(parents=True)
    (directory / "rocksdict-config.json").touch()
    _open(make_context).close()


def test_open_twice_is_refused(make_context: MakeContext, caplog: pytest.LogCaptureFixture) -> None:
    """Opening an open store again raises; nothing is logged by a normal life."""
    with caplog.at_level(logging.WARNING, logger="streamproof.stores"):
        store = _open(make_context)
        with pytest.raises(InvalidStateStoreError, match="already open"):
            store.init(make_context(), store)
        store.close()
    assert caplog.records == []
