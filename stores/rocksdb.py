"""The RocksDB store: records and changelog offsets in one database, flushed together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from weakref import WeakSet

from rocksdict import WriteBatch

from streamproof.stores.api import (
    ChangelogRecord,
    KeyValueStore,
    Position,
    StateStore,
    StateStoreContext,
    TopicPartition,
    require_key,
)
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.errors import InvalidStateStoreError, TaskCorruptedError
from streamproof.stores.format_upgrade import format_directory, refuse_newer_formats
from streamproof.stores.iterators import Row, RowIterator, StoreIterator, is_inverted
from streamproof.stores.offset_downgrade import Downgrade, leave_for_older_version
from streamproof.stores.offset_import import OffsetImport
from streamproof.stores.offsets import (
    POSITION_KEY,
    STATUS_CLOSED,
    STATUS_KEY,
    STATUS_OPEN,
    decode_long,
    decode_position,
    encode_long,
    encode_partition,
    encode_position,
)
from streamproof.stores.rocksdb_database import Database, is_write_stall, offsets_in
from streamproof.stores.rocksdb_scans import scan_prefix, scan_range
from streamproof.stores.upgrade_configs import upgrade_use
from streamproof.stores.write_batch import WriteTarget

__all__ = ["RocksDBStore", "default_store"]


class RocksDBStore(KeyValueStore):
    """A persistent store in ``<state_dir>/rocksdb/<name>`` (Kafka: RocksDBStore).

    Writes go to RocksDB at once, with the write-ahead log off. ``commit`` adds the offsets and the
    position in one write, and flushes nothing. Whenever RocksDB flushes, records and offsets reach
    the disk together. So after a crash the offsets never promise records that are lost, but the
    store may have records beyond the offsets. Under exactly-once such records may belong to an
    aborted transaction. Therefore a status row says whether the store was closed cleanly, and
    ``init`` raises TaskCorruptedError if it was not.

    Args:
        name: the name of the store.
        manages_offsets: whether the store keeps its offsets. If not, it has no offsets, no stored
            position and no status, as before KIP-1035, and ``flush`` makes the records durable.
        downgrade: the files that ``close`` leaves if ``upgrade.from`` names a version before 4.3.
            ``proposed`` leaves everything that such a version needs to continue. ``shipped`` leaves
            only a checkpoint file, as Kafka does.

    Source: KIP-1035; KIP-892, "Atomic Checkpointing"; Kafka 4.3, RocksDBStore.
    """

    _marks_status = True
    """Whether the store needs the status row to tell a clean close from a crash."""

    holds_timestamps = False
    """Whether the records are in the column family for values with timestamps."""

    _is_whole = True
    """Whether the files of older versions are about this store, and not about one that has it as a
    part."""

    _as_shipped = False
    """Whether the store reads the configuration as Kafka does, which has no ``upgrade.mode``."""

    format_version = 1
    """The version of the format, which the name of the directory tells (KIP-258)."""

    def __init__(
        self, name: str, *, manages_offsets: bool = True, downgrade: Downgrade = "proposed"
    ) -> None:
        super().__init__()
        self._name = name
        self._manages_offsets = manages_offsets
        self._downgrade = downgrade
        self._downgrading = False
        self._context: StateStoreContext | None = None
        self._database: Database | None = None
        self._position = Position()
        self._iterators: WeakSet[RowIterator] = WeakSet()

    @property
    def capabilities(self) -> Capabilities:
        """The promises of this store. A commit becomes durable with the next flush."""
        managed = self._manages_offsets
        return Capabilities(
            manages_offsets=managed,
            read_only_views=True,
            position=managed,
            durability="flush",
            upgrades_from="rocksdb-legacy" if managed else "",
            downgrade=managed and self._downgrade == "proposed",
            imports_offsets=managed,
        )

    @property
    def name(self) -> str:
        """The name of the store."""
        return self._name

    @property
    def persistent(self) -> bool:
        """True: the content outlives the process."""
        return True

    @property
    def manages_offsets(self) -> bool:
        """Whether the changelog offsets are kept in the database (KIP-1035)."""
        return self._manages_offsets

    @property
    def is_open(self) -> bool:
        """Whether the store can be read and written."""
        return self._database is not None

    @property
    def position(self) -> Position:
        """A copy of the input offsets that the content reflects (KIP-796)."""
        return self._position.copy()

    def directory(self, context: StateStoreContext) -> Path:
        """The directory of this store's files, below the directory of its task."""
        return format_directory(self._plain_directory(context), self.format_version)

    def _plain_directory(self, context: StateStoreContext) -> Path:
        return Path(context.state_dir) / "rocksdb" / self._name

    # --- life cycle -------------------------------------------------------------------

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the database, import the offsets of an older version, and register the callback.

        Raises:
            ProcessorStateError: the files cannot be read, written or locked, or they are of a
                newer format only.
            TaskCorruptedError: exactly-once, and the store was not closed cleanly.
            InvalidStateStoreError: the store is already open.
            UsageError: ``upgrade.from`` and ``upgrade.mode`` do not fit together.
        """
        if self._database is not None:
            raise InvalidStateStoreError(f"Store {self._name!r} is already open; close it first.")
        use = upgrade_use(context, shipped=self._as_shipped or self._downgrade == "shipped")
        if use in (None, "offsets"):
            # While an upgrade is prepared, the formats stand beside each other on purpose.
            refuse_newer_formats(self._plain_directory(context), self.format_version)
        directory = self.directory(context)
        has_files = self._manages_offsets and self._is_whole
        self._downgrading = has_files and use == "offsets"
        left = OffsetImport(context, self._name, directory) if has_files else None
        if left is not None:
            left.prepare(exactly_once=context.exactly_once)
        database = Database(
            directory,
            with_offsets=self._manages_offsets,
            write_buffer_bytes=context.write_buffer_bytes,
            timestamped=self.holds_timestamps,
        )
        try:
            if left is not None:
                left.into(database)
            self._open_offsets(database, context)
        except BaseException:
            database.release()
            raise
        self._context = context
        self._database = database
        context.register(root, self.restore)

    def _open_offsets(self, database: Database, context: StateStoreContext) -> None:
        self._position = Position()
        if database.offsets is None:
            return
        # A store with transactions checks the status as well, although it writes none: it may open
        # the files of a store without transactions, which has crashed.
        if context.exactly_once and database.offsets_row(STATUS_KEY) == STATUS_OPEN:
            raise TaskCorruptedError(
                f"Store {self._name!r} in {database.directory} was not closed cleanly, and may "
                "hold records of an aborted transaction. Wipe the directory and "
                "restore from the changelog."
            )
        stored = database.offsets_row(POSITION_KEY)
        if stored is not None:
            self._position = decode_position(stored)
        if self._marks_status:
            self._write_status(database, STATUS_OPEN)

    @staticmethod
    def _write_status(database: Database, status: bytes) -> None:
        batch = database.new_batch()
        database.put_offsets_row(batch, STATUS_KEY, status)
        database.write(batch)

    def close(self) -> None:
        """Close the iterators, flush, and release the directory. Closing twice is harmless.

        With ``upgrade.from``, the files are left in the form that an older version reads
        (KIP-1035, "Downgrade").
        """
        database, self._database = self._database, None
        if database is None:
            return
        # An iterator that is still open would keep the lock on the directory.
        for iterator in list(self._iterators):
            iterator.close()
        try:
            if self._manages_offsets and self._marks_status:
                # The status reaches the disk in one step with the last records, when the database
                # flushes.
                self._write_status(database, STATUS_CLOSED)
            if self._downgrading and self._context is not None:
                leave_for_older_version(database, self._context, self._name, self._downgrade)
        finally:
            database.close()

    def flush(self) -> None:
        """Write everything to disk: records, offsets and position in one atomic step."""
        self._opened().flush()

    # --- commit -----------------------------------------------------------------------

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Store the offsets and the position. They become durable with the records, at a flush.

        An empty map forgets all offsets. ``None`` forgets the offset of one partition.
        Source: KIP-1035, StateStore#commit; Kafka 4.3 for forgetting (KAFKA-17411).
        """
        database = self._opened()
        if self._manages_offsets:
            batch = database.new_batch()
            self._add_offsets(database, batch, changelog_offsets, self._position)
            database.write(batch)

    @staticmethod
    def _add_offsets(
        database: Database,
        batch: WriteBatch,
        changelog_offsets: Mapping[TopicPartition, int | None],
        position: Position,
    ) -> None:
        if not changelog_offsets and database.offsets is not None:
            for key, _ in scan_range(database.offsets, None, None, reverse=False):
                if key not in (STATUS_KEY, POSITION_KEY):
                    database.put_offsets_row(batch, key, None)
        for partition, offset in changelog_offsets.items():
            value = None if offset is None else encode_long(offset)
            database.put_offsets_row(batch, encode_partition(partition), value)
        database.put_offsets_row(batch, POSITION_KEY, encode_position(position))

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """The offset of the last commit, or ``None`` (KIP-1035, StateStore#committedOffset)."""
        stored = self._opened().offsets_row(encode_partition(partition))
        return None if stored is None else decode_long(stored)

    def committed_offsets(self) -> dict[TopicPartition, int]:
        """The committed offsets of all partitions."""
        offsets = self._opened().offsets
        return {} if offsets is None else offsets_in(offsets)

    def restore(self, batch: Sequence[ChangelogRecord]) -> None:
        """Apply changelog records in one write, in order, so that the last record of a key wins."""
        self._write_entries((record.key, record.value) for record in batch)

    # --- reads and writes -------------------------------------------------------------

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``, or ``None``."""
        if key is None:
            require_key(key)
        data = self._opened().data
        try:
            value: bytes | None = data.get(key)
        except Exception as error:
            raise self._failure("cannot be read", error) from error
        return value

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of ``key``; ``None`` deletes it."""
        if key is None:
            require_key(key)
        data = self._opened().data
        try:
            if value is None:
                data.delete(key)
            else:
                data.put(key, value)
        except Exception as error:
            if not is_write_stall(error):
                raise self._failure("cannot be written", error) from error
            self._write_entries([(key, value)])
        self._record_position()

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Put all entries in one write; if one key is ``None``, none is written."""
        checked = list(entries)
        for key, _ in checked:
            require_key(key)
        self._write_entries(checked)
        self._record_position()

    def delete(self, key: bytes) -> bytes | None:
        """Delete ``key`` and return the value it had, or ``None``."""
        old = self.get_only(key)
        self.put(key, None)
        return old

    def get_only(self, key: bytes) -> bytes | None:
        """The same as ``get``, but without migrating a row (Kafka: RocksDBStore#getOnly)."""
        return self.get(key)

    def delete_range(self, from_key: bytes, to_key_exclusive: bytes) -> None:
        """Delete every key from ``from_key`` up to, not including, ``to_key_exclusive``."""
        require_key(from_key)
        require_key(to_key_exclusive)
        database = self._opened()
        if from_key < to_key_exclusive:
            batch = database.new_batch()
            self._records(database, batch).delete_range(from_key, to_key_exclusive)
            database.write(batch)
        self._record_position()

    def range(self, from_key: bytes | None, to_key: bytes | None) -> RowIterator:
        """The entries from ``from_key`` to ``to_key``, both inclusive, ascending."""
        return self._scan(from_key, to_key, reverse=False)

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> RowIterator:
        """The same entries as ``range``, descending."""
        return self._scan(from_key, to_key, reverse=True)

    def prefix_scan(self, prefix: bytes) -> RowIterator:
        """Every entry whose key starts with ``prefix``, ascending."""
        require_key(prefix)
        return self.open_iterator(self._prefix_rows(self._opened(), prefix))

    def approximate_num_entries(self) -> int:
        """RocksDB's estimate. A key that was overwritten or deleted may count more than once."""
        return self._opened().data.property_int_value("rocksdb.estimate-num-keys") or 0

    def open_iterator(
        self, rows: Iterator[Row], on_close: Callable[[], None] | None = None
    ) -> RowIterator:
        """An iterator over ``rows`` that is closed with this store at the latest."""
        return StoreIterator(self._name, rows, self._iterators, on_close)

    def _scan(self, from_key: bytes | None, to_key: bytes | None, *, reverse: bool) -> RowIterator:
        database = self._opened()
        if is_inverted(from_key, to_key):
            return self.open_iterator(iter(()))
        return self.open_iterator(self._range_rows(database, from_key, to_key, reverse=reverse))

    def _range_rows(
        self, database: Database, from_key: bytes | None, to_key: bytes | None, *, reverse: bool
    ) -> Iterator[Row]:
        return scan_range(database.data, from_key, to_key, reverse=reverse)

    def _prefix_rows(self, database: Database, prefix: bytes) -> Iterator[Row]:
        return scan_prefix(database.data, prefix)

    def _records(self, database: Database, batch: WriteBatch) -> WriteTarget:
        """The target of writes to the records that will join ``batch``."""
        return database.records(batch)

    def _write_entries(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        database = self._opened()
        batch = database.new_batch()
        records = self._records(database, batch)
        for key, value in entries:
            if value is None:
                records.delete(key)
            else:
                records.put(key, value)
        database.write(batch)

    def _record_position(self) -> None:
        context = self._context
        if context is not None and context.record_metadata is not None:
            self._position.update(*context.record_metadata)

    def _failure(self, what: str, error: Exception) -> Exception:
        # RocksDB's failures arrive as plain Exception; anything else is a wrong argument.
        return self._opened().failure(what, error) if type(error) is Exception else error

    def _opened(self) -> Database:
        if self._database is None:
            raise InvalidStateStoreError(
                f"Store {self._name!r} is not open; call init() before using it."
            )
        return self._database


def default_store(name: str = "store") -> KeyValueStore:
    """A new RocksDB store, not initialised."""
    return RocksDBStore(name)
