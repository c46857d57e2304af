"""One RocksDB database on disk: opening, atomic flushing, and closing it.

The write-ahead log is off, as in Kafka Streams, so that the disk has the state of the last flush.
The state on disk is consistent only if a flush covers all column families at once. RocksDB does so
for the flushes that it starts itself (``atomic_flush``). But ``flush()`` and ``close()`` of
rocksdict flush one column family at a time: a crash between two of them leaves data without their
offsets, or offsets without their data. This module avoids both calls where rows could be torn
apart.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    ColumnFamily,
    DBCompactionStyle,
    DBCompressionType,
    Options,
    Rdict,
    WriteBatch,
    WriteOptions,
)

from streamproof.stores.api import TopicPartition
from streamproof.stores.error_translation import ErrorTranslation
from streamproof.stores.errors import ProcessorStateError
from streamproof.stores.offsets import (
    POSITION_KEY,
    STATUS_KEY,
    decode_long,
    decode_partition,
)
from streamproof.stores.rocksdb_scans import scan_range
from streamproof.stores.synced_directories import make_directory
from streamproof.stores.write_batch import WriteTarget

__all__ = [
    "DATA_COLUMN_FAMILY",
    "OFFSETS_COLUMN_FAMILY",
    "TIMESTAMPED_COLUMN_FAMILY",
    "Database",
    "column_families",
    "committed_offsets",
    "has_records",
    "is_write_stall",
    "offsets_in",
    "orphans",
]

DATA_COLUMN_FAMILY: Final = "default"
TIMESTAMPED_COLUMN_FAMILY: Final = "keyValueWithTimestamp"
OFFSETS_COLUMN_FAMILY: Final = "offsets"

# Kafka's figures: RocksDBStore#openDB and AbstractColumnFamilyAccessor.
_DATA_BUFFER_BYTES = 16 * 1024 * 1024
_OFFSETS_BUFFER_BYTES = 1024 * 1024
_MAX_WRITE_BUFFERS = 3
_BLOCK_CACHE_BYTES = 50 * 1024 * 1024
_BLOCK_BYTES = 4096

_BEHIND_ALL_KEYS = b"\xff" * 8
"""Greater than every key of the ``offsets`` column family."""

_UNFLUSHED_PROPERTIES = (
    "rocksdb.num-entries-active-mem-table",
    "rocksdb.num-entries-imm-mem-tables",
)
_FLUSHING_PROPERTIES = ("rocksdb.mem-table-flush-pending", "rocksdb.num-running-flushes")

_MOST_OPENING_THREADS = 16
_FILES_FOR_A_THREAD = 8

_POLL_S = 0.0005
_GIVE_UP_S = 1.0
"""Rows may stay in memory for this many seconds without a running flush; then it is an error."""

_FIRST_MANIFEST = "MANIFEST-000001"
"""The manifest of a new database, which is written before CURRENT; all others come after it."""

_CHECK_THE_DIRECTORY = "Check that the path is a writable directory, and that the disk has space."

_WIPE_AND_RESTORE = "wipe the directory and restore from the changelog."

_REMEDIES = (
    (
        ("while lock file", "lock hold by"),
        "Another store or process has the database open: close that one first.",
    ),
    (
        ("no space left", "file too large", "quota", "permission denied", "read-only file system"),
        _CHECK_THE_DIRECTORY,
    ),
    (
        ("too many open files",),
        "Allow the process to open more files (ulimit -n).",
    ),
    (
        ("unsupported format_version",),
        f"A newer version of RocksDB wrote the database: use that version, or {_WIPE_AND_RESTORE}",
    ),
    (
        ("corrupt", "current", "manifest", "is a directory"),
        f"The files are damaged: {_WIPE_AND_RESTORE}",
    ),
)
"""The remedy for a failure, by words of its message in lower case; the first match counts."""


class Database:
    """An open database with the data and, if the store manages its offsets, the offsets.

    Args:
        directory: the directory of the files; it is created if it does not exist.
        with_offsets: whether the database has an ``offsets`` column family.
        write_buffer_bytes: the size of the write buffers; ``None`` for Kafka's defaults.
        timestamped: whether the records have their own column family, beside that of plain records
            (KIP-258, as shipped).
        logged: whether writes go into a write-ahead log, so that they survive the process.

    Attributes:
        data: the records.
        plain: the records of the plain format, if ``timestamped``, or ``None``.
        offsets: the rows beside the records, or ``None``.

    Raises:
        ProcessorStateError: the database cannot be read, written or locked, or it has column
            families that this version does not know. No file is deleted.
    """

    def __init__(
        self,
        directory: Path,
        *,
        with_offsets: bool,
        write_buffer_bytes: int | None,
        timestamped: bool = False,
        logged: bool = False,
    ) -> None:
        self.directory = directory
        families = {DATA_COLUMN_FAMILY: _options(write_buffer_bytes or _DATA_BUFFER_BYTES)}
        if timestamped:
            families[TIMESTAMPED_COLUMN_FAMILY] = _options(write_buffer_bytes or _DATA_BUFFER_BYTES)
        if with_offsets:
            families[OFFSETS_COLUMN_FAMILY] = _options(write_buffer_bytes or _OFFSETS_BUFFER_BYTES)
            # A manual compaction of any range compacts a whole family of the universal style, and
            # so would every flush.
            families[OFFSETS_COLUMN_FAMILY].set_compaction_style(DBCompactionStyle.level())
        if write_buffer_bytes is not None:
            _use_little(families[DATA_COLUMN_FAMILY])
        with self._failing("cannot be opened"):
            _prepare(directory)
            threads = _opening_threads(directory)
        families[DATA_COLUMN_FAMILY].set_max_file_opening_threads(threads)
        try:
            root = Rdict(str(directory), families[DATA_COLUMN_FAMILY], column_families=families)
        except Exception as error:
            # RocksDB refuses families that it is not told of. Asking for them first takes a tenth
            # of the time of an opening.
            _reject_unknown_families(directory, frozenset(families))
            raise self.failure("cannot be opened", error) from error
        self._root = self.data = root
        self.plain: Rdict | None = None
        self.offsets: Rdict | None = None
        self._data_handle: ColumnFamily | None = None
        self._plain_handle: ColumnFamily | None = None
        self._offsets_handle: ColumnFamily | None = None
        self._write_options = _write_options(wait=True, logged=logged)
        self._synced = _write_options(wait=True, logged=logged, sync=logged)
        self._impatient = _write_options(wait=False)
        root.set_write_options(self._impatient)
        if timestamped:
            self.plain, self.data = root, self._family(TIMESTAMPED_COLUMN_FAMILY)
            self._data_handle = root.get_column_family_handle(TIMESTAMPED_COLUMN_FAMILY)
            self._plain_handle = root.get_column_family_handle(DATA_COLUMN_FAMILY)
        if with_offsets:
            self.offsets = self._family(OFFSETS_COLUMN_FAMILY)
            self._offsets_handle = root.get_column_family_handle(OFFSETS_COLUMN_FAMILY)

    def _family(self, name: str) -> Rdict:
        family = self._root.get_column_family(name)
        family.set_write_options(self._impatient)
        return family

    def new_batch(self) -> WriteBatch:
        """An empty batch of writes to the records."""
        batch = WriteBatch(raw_mode=True)
        batch.set_default_column_family(self._data_handle)
        return batch

    def records(self, batch: WriteBatch) -> WriteTarget:
        """A target for writes to the records, which adds them to ``batch``."""
        if self._data_handle is None:
            return batch
        return _TimestampedRecords(batch, self._data_handle)

    def records_of_both_formats(self, batch: WriteBatch) -> WriteTarget:
        """The same as ``records``, but each write also removes the record of the plain format."""
        return _RecordsOfBothFormats(batch, self._data_handle, self._plain_handle)

    def offsets_row(self, key: bytes) -> bytes | None:
        """The row of ``key`` beside the records; ``None`` without such a row."""
        if self.offsets is None:
            return None
        with self._failing("cannot be read"):
            row: bytes | None = self.offsets.get(key)
        return row

    def put_offsets_row(self, batch: WriteBatch, key: bytes, value: bytes | None) -> None:
        """Add a row beside the records to ``batch``; ``None`` deletes it."""
        if value is None:
            batch.delete(key, self._offsets_handle)
        else:
            batch.put(key, value, self._offsets_handle)

    def write(self, batch: WriteBatch, *, sync: bool = False) -> None:
        """Apply ``batch`` in one step. The batch cannot be used again.

        With ``sync``, a database with a write-ahead log returns once the log is on the disk.
        """
        with self._failing("cannot be written"):
            self._await_room()
            self._root.write(batch, self._synced if sync else self._write_options)

    def _await_room(self) -> None:
        """Wait until RocksDB has room in its buffers for a write, or raise the reason why not.

        RocksDB could wait itself, but rocksdict would block all Python threads during the wait.
        After a flush that failed for lack of space, they would wait for ever.
        """
        while not self._has_room():
            time.sleep(_POLL_S)

    def _has_room(self) -> bool:
        """Whether a write would begin at once; if RocksDB refuses to write, raise the reason.

        An empty batch is written to find out. The real batch cannot be tried, because a batch is
        used up even if its write fails.
        """
        try:
            self._root.write(WriteBatch(raw_mode=True), self._impatient)
        except Exception as error:
            if is_write_stall(error):
                return False
            raise
        return True

    def flush(self) -> None:
        """Write all buffers to disk, all column families in one atomic step.

        Only two calls of rocksdict flush atomically: a checkpoint, and a manual compaction, which
        begins with a flush. So this method compacts a range beyond all keys of the smaller column
        family, where it finds nothing to compact: the flush is nearly all of the work.
        """
        with self._failing("cannot be flushed"):
            self._await_room()
            if self.offsets is None and self.plain is None:
                self.data.flush()
                return
            smallest = self.data if self.offsets is None else self.offsets
            smallest.compact_range(_BEHIND_ALL_KEYS, None)
            self._await_empty_buffers()

    def _await_empty_buffers(self) -> None:
        """Wait until no row is in memory alone.

        The compaction may return before its own flush has ended, if RocksDB has started another
        flush in the background. And it does not report a flush that failed. After such a failure
        RocksDB waits for a flush that it never begins, and refuses to write. Rows that stay in the
        buffers while no flush is running or due will stay there for good.
        """
        families = self._families()
        idle_since = None
        while any(_values(families, _UNFLUSHED_PROPERTIES)):
            self._has_room()
            if any(_values(families, _FLUSHING_PROPERTIES)):
                idle_since = None
            elif idle_since is None:
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > _GIVE_UP_S:
                raise OSError("rows are still only in memory, and no flush is running")
            time.sleep(_POLL_S)

    def close(self) -> None:
        """Flush atomically, then release the files and their lock.

        If the flush fails, the handles are dropped, and not closed one by one: the destructor of
        the database then tries one last flush, which is atomic too.
        """
        try:
            self.flush()
        except ProcessorStateError:
            self._forget()
            raise
        self.release()

    def drop_offsets(self) -> None:
        """Delete the column family for offsets with all of its rows.

        Flush before: from here on, a flush covers the records alone.
        """
        with self._failing("cannot be rid of its offsets"):
            offsets, self.offsets = self.offsets, None
            if offsets is not None:
                # RocksDB does not drop a family that has an open handle.
                self._offsets_handle = None
                offsets.close()
                del offsets
                self._root.drop_column_family(OFFSETS_COLUMN_FAMILY)

    def release(self) -> None:
        """Release the files and their lock, once no iterator uses them.

        Nothing may be left to flush: ``Rdict.close`` flushes one column family at a time, and a
        crash between two of these calls would tear records and offsets apart.
        """
        families = self._families()
        self._forget()
        failure = None
        while families:
            try:
                families.pop().close()
            except Exception as error:  # noqa: BLE001 - RocksDB raises nothing more precise
                failure = error
        if failure is not None:
            raise self.failure("cannot be closed", failure) from failure

    def _families(self) -> list[Rdict]:
        """All open column families, beginning with that of the database itself."""
        others = (self.data, self.plain, self.offsets)
        return [
            self._root,
            *(family for family in others if family is not None and family is not self._root),
        ]

    def _forget(self) -> None:
        """Drop all references that keep the files open."""
        self._data_handle = self._plain_handle = self._offsets_handle = None
        self.offsets = self.plain = None
        del self.data, self._root

    def failure(self, what: str, error: Exception) -> ProcessorStateError:
        """The error to raise for a failure of RocksDB; ``what`` names the step that failed."""
        return ProcessorStateError(
            f"The database {self.directory} {what}: {error}. Nothing was deleted. "
            f"{_remedy(str(error))}"
        )

    def _failing(self, what: str) -> ErrorTranslation:
        return ErrorTranslation(Exception, partial(self.failure, what))


class _TimestampedRecords:
    """Writes to the records with timestamps.

    Unlike ``put`` and ``delete``, ``delete_range`` of rocksdict ignores the default column family
    of its batch, and must be given the family.
    """

    __slots__ = ("_batch", "_data", "delete", "put")

    def __init__(self, batch: WriteBatch, data: ColumnFamily) -> None:
        self._batch = batch
        self._data = data
        self.put, self.delete = batch.put, batch.delete

    def delete_range(self, begin: bytes, end: bytes, /) -> None:
        self._batch.delete_range(begin, end, self._data)


class _RecordsOfBothFormats:
    """Writes to the records with timestamps, and deletes the plain record of the same key."""

    __slots__ = ("_batch", "_data", "_plain")

    def __init__(
        self, batch: WriteBatch, data: ColumnFamily | None, plain: ColumnFamily | None
    ) -> None:
        self._batch = batch
        self._data = data
        self._plain = plain

    def put(self, key: bytes, value: bytes, /) -> None:
        self._batch.put(key, value, self._data)
        self._batch.delete(key, self._plain)

    def delete(self, key: bytes, /) -> None:
        self._batch.delete(key, self._data)
        self._batch.delete(key, self._plain)

    def delete_range(self, begin: bytes, end: bytes, /) -> None:
        self._batch.delete_range(begin, end, self._data)
        self._batch.delete_range(begin, end, self._plain)


def committed_offsets(directory: Path) -> dict[TopicPartition, int]:
    """The offsets in a database that is not open, read without changing or locking it.

    Without a database, or without a column family for offsets, the result is empty.

    Raises:
        ProcessorStateError: the database cannot be read.
    """
    found = column_families(directory)
    if not found:
        return {}
    try:
        root = _open_to_read(directory, found)
    except Exception as error:
        raise _unreadable(directory, error) from error
    if OFFSETS_COLUMN_FAMILY not in found:
        return {}
    return offsets_in(root.get_column_family(OFFSETS_COLUMN_FAMILY))


def offsets_in(family: Rdict) -> dict[TopicPartition, int]:
    """The committed offsets among the rows beside the records."""
    return {
        decode_partition(key): decode_long(value)
        for key, value in scan_range(family, None, None, reverse=False)
        if key not in (STATUS_KEY, POSITION_KEY)
    }


def has_records(directory: Path) -> bool:
    """Whether a database that is not open has records, read without changing or locking it.

    Raises:
        ProcessorStateError: the database cannot be read.
    """
    found = column_families(directory)
    if not found:
        return False
    try:
        root = _open_to_read(directory, found)
        families = [root.get_column_family(name) for name in found - {OFFSETS_COLUMN_FAMILY}]
    except Exception as error:
        raise _unreadable(directory, error) from error
    return any(True for each in families for _ in scan_range(each, None, None, reverse=False))


def _open_to_read(directory: Path, families: Iterable[str]) -> Rdict:
    return Rdict(
        str(directory),
        Options(raw_mode=True),
        column_families={name: Options(raw_mode=True) for name in families},
        access_type=AccessType.read_only(),
    )


def _use_little(options: Options) -> None:
    """Make openings quick: who asks for small buffers tests, and has little data.

    RocksDB would make room for many tables, and collect statistics.
    """
    options.set_table_cache_num_shard_bits(0)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)


def _options(write_buffer_bytes: int) -> Options:
    table = BlockBasedOptions()
    table.set_block_cache(Cache(_BLOCK_CACHE_BYTES))
    table.set_block_size(_BLOCK_BYTES)
    table.set_bloom_filter(10, False)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_atomic_flush(True)
    options.set_write_buffer_size(write_buffer_bytes)
    options.set_max_write_buffer_number(_MAX_WRITE_BUFFERS)
    options.set_block_based_table_factory(table)
    options.set_compaction_style(DBCompactionStyle.universal())
    options.set_compression_type(DBCompressionType.none())
    return options


def _write_options(*, wait: bool, logged: bool = False, sync: bool = False) -> WriteOptions:
    """Options of writes: ``wait`` for room in the buffers, or fail at once.

    ``logged`` and ``sync`` say whether the write-ahead log gets the write, and is synced.
    """
    options = WriteOptions()
    # The type stub calls it a method; it is a property.
    options.disable_wal = not logged  # type: ignore[method-assign,assignment]
    options.sync = sync
    options.no_slowdown = not wait
    return options


def is_write_stall(error: Exception) -> bool:
    """Whether a write failed only because RocksDB had no room for it at the moment."""
    return "Write stall" in str(error)


def _prepare(directory: Path) -> None:
    """Make the directory, and refuse a directory that lost its file CURRENT.

    CURRENT names the manifest. Without CURRENT, RocksDB would take the directory for a new one, and
    forget the data. A new database has its first manifest before CURRENT, but no data.
    """
    make_directory(directory)
    names = orphans(directory)
    if names:
        raise FileNotFoundError(f"the file CURRENT is missing beside {max(names)}")


def _opening_threads(directory: Path) -> int:
    """The number of threads that look at the files of a database when it is opened.

    RocksDB starts 16 for each column family, however few files there are. To start them takes a
    third of the time in which a small database is opened.
    """
    files = sum(each.suffix == ".sst" for each in directory.iterdir())
    return min(_MOST_OPENING_THREADS, 1 + files // _FILES_FOR_A_THREAD)


def orphans(directory: Path) -> set[str]:
    """The files that are left of a database without its file CURRENT."""
    if (directory / "CURRENT").exists():
        return set()
    names = {path.name for path in directory.iterdir()} if directory.is_dir() else set()
    return {
        name
        for name in names - {_FIRST_MANIFEST}
        if name.endswith(".sst") or name.startswith("MANIFEST-")
    }


def column_families(directory: Path) -> frozenset[str]:
    """The column families of an existing database; none without a database.

    RocksDB leaves out families that it cannot find in damaged files; opening finds the damage.

    Raises:
        ProcessorStateError: the database exists, and cannot be read.
    """
    try:
        if not (directory / "CURRENT").exists():
            return frozenset()
        return frozenset(Rdict.list_cf(str(directory)))
    except Exception as error:
        raise _unreadable(directory, error) from error


def _reject_unknown_families(directory: Path, known: frozenset[str]) -> None:
    """Raise if the database has unknown column families."""
    unknown = sorted(column_families(directory) - known)
    if TIMESTAMPED_COLUMN_FAMILY in unknown:
        raise ProcessorStateError(
            f"The database {directory} holds records with timestamps (column family "
            f"{TIMESTAMPED_COLUMN_FAMILY}), but this store keeps none and cannot downgrade it. Use "
            "the timestamped store, or wipe the directory and restore from the changelog."
        )
    if unknown:
        raise ProcessorStateError(
            f"The database {directory} has the column families {', '.join(unknown)}, which "
            f"this store does not know (known: {', '.join(sorted(known))}). Use the version and "
            "kind of store that wrote the database, or wipe the directory and restore from the "
            "changelog."
        )


def _unreadable(directory: Path, error: Exception) -> ProcessorStateError:
    return ProcessorStateError(
        f"The database {directory} cannot be read: {error}. Nothing was deleted. "
        f"{_remedy(str(error))}"
    )


def _remedy(error: str) -> str:
    """The remedy for a failure of RocksDB or the system; only its words tell which one it is."""
    error = error.lower()
    for words, remedy in _REMEDIES:
        if any(word in error for word in words):
            return remedy
    return _CHECK_THE_DIRECTORY


def _values(families: Iterable[Rdict], properties: Iterable[str]) -> Iterator[int]:
    """Each of the properties of each column family."""
    for family in families:
        for name in properties:
            yield family.property_int_value(name) or 0
