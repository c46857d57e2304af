"""One RocksDB database on disk: opening, atomic flushing, and closing it.

The write-ahead log is off, as in Kafka Streams: what is on disk is the state at the last
flush. That state is consistent because a flush covers all column families at once. RocksDB
does so for the flushes that it starts itself (``atomic_flush``), but rocksdict's ``flush()``
and ``close()`` flush one column family each, so that a crash between two of them leaves
data without their offsets, or offsets without their data.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rocksdict import (
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

from streamproof.stores.errors import ProcessorStateError

__all__ = ["DATA_COLUMN_FAMILY", "OFFSETS_COLUMN_FAMILY", "TIMESTAMPED_COLUMN_FAMILY", "Database"]

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

_POLL_S = 0.0005
_GIVE_UP_S = 1.0
"""How long rows may stay in memory while no flush is running before that is an error."""


class Database:
    """An open database with the data and, if the store manages its offsets, the offsets.

    Args:
        directory: where the files are; it is created if it is not there.
        with_offsets: whether there is an ``offsets`` column family.
        write_buffer_bytes: the size of the write buffers; ``None`` for Kafka's defaults.
        timestamped: whether the records are in a column family of their own, beside the one in
            which plain records were kept (KIP-258, as shipped).

    Attributes:
        data: the records.
        plain: the records of the plain format, if ``timestamped``, or ``None``.
        offsets: the rows beside the records, or ``None``.
        was_without_offsets: whether the database was there already, with no column
            family for offsets: a version before KIP-1035 wrote it.

    Raises:
        ProcessorStateError: the database cannot be read, written or locked, or it has
            column families that this version does not know. Nothing is deleted then.
    """

    def __init__(
        self,
        directory: Path,
        *,
        with_offsets: bool,
        write_buffer_bytes: int | None,
        timestamped: bool = False,
    ) -> None:
        self.directory = directory
        families = {DATA_COLUMN_FAMILY: _options(write_buffer_bytes or _DATA_BUFFER_BYTES)}
        if timestamped:
            families[TIMESTAMPED_COLUMN_FAMILY] = _options(write_buffer_bytes or _DATA_BUFFER_BYTES)
        if with_offsets:
            families[OFFSETS_COLUMN_FAMILY] = _options(write_buffer_bytes or _OFFSETS_BUFFER_BYTES)
        with self._failing("cannot be opened"):
            _prepare(directory)
        found = _reject_unknown_families(directory, frozenset(families))
        self.was_without_offsets = bool(found) and OFFSETS_COLUMN_FAMILY not in found
        with self._failing("cannot be opened"):
            root = Rdict(str(directory), families[DATA_COLUMN_FAMILY], column_families=families)
        self._root = self.data = root
        self.plain: Rdict | None = None
        self.offsets: Rdict | None = None
        self._data_handle: ColumnFamily | None = None
        self._plain_handle: ColumnFamily | None = None
        self._offsets_handle: ColumnFamily | None = None
        self._write_options = WriteOptions()
        # The type stub calls it a method; it is a property.
        self._write_options.disable_wal = True  # type: ignore[method-assign,assignment]
        root.set_write_options(self._write_options)
        if timestamped:
            self.plain, self.data = root, self._family(TIMESTAMPED_COLUMN_FAMILY)
            self._data_handle = root.get_column_family_handle(TIMESTAMPED_COLUMN_FAMILY)
            self._plain_handle = root.get_column_family_handle(DATA_COLUMN_FAMILY)
        if with_offsets:
            self.offsets = self._family(OFFSETS_COLUMN_FAMILY)
            self._offsets_handle = root.get_column_family_handle(OFFSETS_COLUMN_FAMILY)

    def _family(self, name: str) -> Rdict:
        family = self._root.get_column_family(name)
        family.set_write_options(self._write_options)
        return family

    def new_batch(self) -> WriteBatch:
        """An empty batch of writes to the records."""
        batch = WriteBatch(raw_mode=True)
        batch.set_default_column_family(self._data_handle)
        return batch

    def delete_plain_row(self, batch: WriteBatch, key: bytes) -> None:
        """Add the deletion of a record of the plain format to ``batch``."""
        batch.delete(key, self._plain_handle)

    def put_offsets_row(self, batch: WriteBatch, key: bytes, value: bytes | None) -> None:
        """Add a row beside the records to ``batch``; ``None`` deletes it."""
        if value is None:
            batch.delete(key, self._offsets_handle)
        else:
            batch.put(key, value, self._offsets_handle)

    def write(self, batch: WriteBatch) -> None:
        """Apply ``batch``, which is used up by it, in one step."""
        with self._failing("cannot be written"):
            self._root.write(batch, self._write_options)

    def flush(self) -> None:
        """Write all buffers to disk, all column families in one atomic step.

        The one call of rocksdict, besides a checkpoint, that flushes atomically is a manual
        compaction, which begins with a flush. It is asked to compact what lies behind all
        keys of the smaller column family, so that the flush is nearly all that it does.
        """
        with self._failing("cannot be flushed"):
            if self.offsets is None and self.plain is None:
                self.data.flush()
                return
            smallest = self.data if self.offsets is None else self.offsets
            smallest.compact_range(_BEHIND_ALL_KEYS, None)
            self._await_empty_buffers()

    def _await_empty_buffers(self) -> None:
        """Wait until no row is only in memory any more.

        If a flush that RocksDB started itself is under way, the compaction returns before
        its own flush has ended; and it does not report a flush that failed. The buffers tell
        both: rows that stay there while no flush is running or due will stay for good.
        """
        families = self._families()
        idle_since = None
        while any(_values(families, _UNFLUSHED_PROPERTIES)):
            if any(_values(families, _FLUSHING_PROPERTIES)):
                idle_since = None
            elif idle_since is None:
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > _GIVE_UP_S:
                raise OSError("rows are still only in memory, and no flush is running")
            time.sleep(_POLL_S)

    def close(self) -> None:
        """Flush atomically, then release the files and their lock.

        If the flush fails, the handles are dropped and not closed one by one: the
        destructor of the database then tries one last flush, which is atomic too.
        """
        try:
            self.flush()
        except ProcessorStateError:
            self._drop_handles()
            self.offsets = self.plain = None
            del self.data, self._root
            raise
        self.release()

    def release(self) -> None:
        """Give the files and their lock back, once no iterator is left that uses them.

        ``Rdict.close`` flushes one column family, so there must be nothing left to flush:
        a crash between the two calls would tear records and offsets apart.
        """
        self._drop_handles()
        for family in reversed(self._families()):
            family.close()

    def _families(self) -> list[Rdict]:
        """All column families that are open, that of the database itself first."""
        others = (self.data, self.plain, self.offsets)
        return [
            self._root,
            *(family for family in others if family is not None and family is not self._root),
        ]

    def _drop_handles(self) -> None:
        self._data_handle = self._plain_handle = self._offsets_handle = None

    @contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise ProcessorStateError(
                f"The database {self.directory} {what}: {error}. Nothing was deleted. "
                f"{_remedy(str(error))}"
            ) from error


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


def _prepare(directory: Path) -> None:
    """Make the directory, and refuse one that lost the file that names its manifest.

    Without CURRENT, RocksDB would take the directory for a new one and forget the data.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if not (directory / "CURRENT").exists() and any(directory.glob("*.sst")):
        raise FileNotFoundError("the file CURRENT is missing beside data files (*.sst)")


def _reject_unknown_families(directory: Path, known: frozenset[str]) -> frozenset[str]:
    """The column families of an existing database; none if there is no database yet."""
    if not (directory / "CURRENT").exists():
        return frozenset()
    try:
        found = Rdict.list_cf(str(directory))
    except Exception as error:
        raise ProcessorStateError(
            f"The database {directory} cannot be read: {error}. Nothing was deleted. "
            f"{_remedy(str(error))}"
        ) from error
    unknown = sorted(set(found) - known)
    if unknown:
        raise ProcessorStateError(
            f"The database {directory} has the column families {', '.join(unknown)}, which "
            f"this store does not know (it knows {', '.join(sorted(known))}): another version "
            "or another kind of store wrote it. Use that store, or wipe the directory and "
            "restore from the changelog."
        )
    return frozenset(found)


def _remedy(error: str) -> str:
    if "lock" in error.lower():
        return "Another store or process has it open: close that one first."
    if "corrupt" in error.lower() or "CURRENT" in error or "MANIFEST" in error:
        return "The files are damaged: wipe the directory and restore from the changelog."
    return "Check that the path is a directory that can be written, and that the disk has space."


def _values(families: Iterable[Rdict], properties: Iterable[str]) -> Iterator[int]:
    """Each of the properties of each column family."""
    for family in families:
        for name in properties:
            yield family.property_int_value(name) or 0
