"""Stores with wrong commits, scans and transactions; see the table in the package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rocksdict import WriteBatch

from streamproof.stores.api import (
    ChangelogRecord,
    IsolationLevel,
    KeyValueStore,
    ReadOnlyKeyValueStore,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.checkpoint import TASK_CHECKPOINT, OffsetCheckpoint
from streamproof.stores.iterators import RowIterator
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.rocksdb_database import Database
from streamproof.stores.rocksdb_scans import scan_range
from streamproof.stores.transactional import (
    RocksDBTransaction,
    TransactionalKeyValueStore,
    TransactionalRocksDBStore,
)

NAME = "store"


class _OffsetsFirst(Database):
    def flush(self) -> None:
        if self.offsets is not None:
            self.offsets.flush()
        self.data.flush()


class _DataAlone(Database):
    def flush(self) -> None:
        self.data.flush()


class _OneByOne(Database):
    def close(self) -> None:
        self.release()


class _OnDatabase(TransactionalRocksDBStore):
    """A store on a database with its own way to flush or close."""

    database_class: type[Database] = Database

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        self._opened().__class__ = self.database_class


class _OffsetsFirstStore(_OnDatabase):
    database_class = _OffsetsFirst


class _DataAloneStore(_OnDatabase):
    database_class = _DataAlone


class _OneByOneStore(_OnDatabase):
    database_class = _OneByOne


def offsets_flushed_before_data() -> KeyValueStore:
    """Flushes the offsets column family first."""
    return TransactionalKeyValueStore(_OffsetsFirstStore(NAME))


def data_flushed_alone() -> KeyValueStore:
    """Flushes only the data column family."""
    return TransactionalKeyValueStore(_DataAloneStore(NAME))


def closed_one_by_one() -> KeyValueStore:
    """Closes one column family after the other, and thereby flushes them one by one."""
    return TransactionalKeyValueStore(_OneByOneStore(NAME))


class _PutsOnly(TransactionalRocksDBStore):
    def commit_transactions(
        self,
        transactions: Sequence[RocksDBTransaction],
        changelog_offsets: Mapping[TopicPartition, int | None],
    ) -> None:
        for transaction in transactions:
            staged = transaction.writes.snapshot(None, None)(iter(()))
            entries = list(staged)
            transaction.writes.clear()
            for key, value in entries:
                transaction.writes.put(key, value)
        super().commit_transactions(transactions, changelog_offsets)


def tombstones_dropped_on_commit() -> KeyValueStore:
    """Forgets staged deletes at the commit."""
    return TransactionalKeyValueStore(_PutsOnly(NAME))


class _ExclusiveEnd(RocksDBStore):
    def range(self, from_key: bytes | None, to_key: bytes | None) -> RowIterator:
        rows = super().range(from_key, to_key)
        return self.open_iterator((row for row in rows if row[0] != to_key), rows.close)


def range_end_exclusive() -> KeyValueStore:
    """Leaves out the upper bound of a range."""
    return _ExclusiveEnd(NAME)


class _LiveIterator(RocksDBStore):
    def range(self, from_key: bytes | None, to_key: bytes | None) -> RowIterator:
        def rows() -> Iterable[tuple[bytes, bytes]]:
            # Each step reads the current store.
            last = None
            while True:
                found = scan_range(self._opened().data, last or from_key, to_key, reverse=False)
                later = next((row for row in found if last is None or row[0] > last), None)
                if later is None:
                    return
                last = later[0]
                yield later

        return self.open_iterator(iter(rows()))


def live_iterator() -> KeyValueStore:
    """Shows later writes to an open iterator."""
    return _LiveIterator(NAME)


class _NothingForgotten(RocksDBStore):
    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        if changelog_offsets:
            super().commit(changelog_offsets)


def stale_offset_after_empty_commit() -> KeyValueStore:
    """Treats an empty commit as no commit."""
    return _NothingForgotten(NAME)


class _Leaking(TransactionalRocksDBStore):
    def close_transactions(self) -> None:
        """Close no transaction."""


def transaction_leaks_on_close() -> KeyValueStore:
    """Leaves transactions open when the store is closed."""
    return TransactionalKeyValueStore(_Leaking(NAME))


class _OffsetsWrittenFirst(TransactionalRocksDBStore):
    def commit_transactions(
        self,
        transactions: Sequence[RocksDBTransaction],
        changelog_offsets: Mapping[TopicPartition, int | None],
    ) -> None:
        super().commit_transactions((), changelog_offsets)
        database = self._opened()
        batch = database.new_batch()
        records = self._records(database, batch)
        for transaction in transactions:
            transaction.writes.apply_to(records)
            self._position.merge(transaction.staged_position)
        database.write(batch)


def offsets_in_a_write_before_rows() -> KeyValueStore:
    """Writes the offsets of a commit first, and its rows in a second write."""
    return TransactionalKeyValueStore(_OffsetsWrittenFirst(NAME))


class _ClosesTransactionsLast(TransactionalRocksDBStore):
    def close(self) -> None:
        RocksDBStore.close(self)
        self.close_transactions()


def transactions_close_after_their_store() -> KeyValueStore:
    """Closes its transactions last, and not at all if closing the database fails."""
    return TransactionalKeyValueStore(_ClosesTransactionsLast(NAME))


class _ClosesTheOldest(TransactionalRocksDBStore):
    def close_transactions(self) -> None:
        for transaction in self.open_transactions[:3]:
            transaction.close()


def three_transactions_close() -> KeyValueStore:
    """Closes the three oldest of its transactions: its own, and two more."""
    return TransactionalKeyValueStore(_ClosesTheOldest(NAME))


class _BatchBypasses(TransactionalKeyValueStore):
    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        self._inner.put_all(entries)


def put_all_bypasses_transaction() -> KeyValueStore:
    """Writes batches straight to the database."""
    return _BatchBypasses(TransactionalRocksDBStore(NAME))


class _StagedShows(TransactionalKeyValueStore):
    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlyKeyValueStore:
        return self


def committed_reader_sees_staged() -> KeyValueStore:
    """Returns the store itself as the READ_COMMITTED view."""
    return _StagedShows(TransactionalRocksDBStore(NAME))


class _RowByRow(TransactionalRocksDBStore):
    def commit_transactions(
        self,
        transactions: Sequence[RocksDBTransaction],
        changelog_offsets: Mapping[TopicPartition, int | None],
    ) -> None:
        for transaction in transactions:
            for key, value in transaction.writes.snapshot(None, None)(iter(())):
                batch = WriteBatch(raw_mode=True)
                batch.put(key, value)
                self._opened().write(batch)
        super().commit_transactions(transactions, changelog_offsets)


def commit_row_by_row() -> KeyValueStore:
    """Shows half of a commit to readers on other threads."""
    return TransactionalKeyValueStore(_RowByRow(NAME))


class _LargestWins(RocksDBStore):
    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        kept = {
            partition: offset
            for partition, offset in changelog_offsets.items()
            if offset is None or offset > (self.committed_offset(partition) or -1)
        }
        if kept or not changelog_offsets:
            super().commit(kept)


def largest_offset_wins() -> KeyValueStore:
    """Never lets a committed offset go back."""
    return _LargestWins(NAME)


class _FileWins(RocksDBStore):
    def init(self, context: StateStoreContext, root: StateStore) -> None:
        left = OffsetCheckpoint(context.state_dir / TASK_CHECKPOINT).read()
        super().init(context, root)
        topic = context.changelog_topic(self.name)
        own = {each: offset for each, offset in left.items() if each.topic == topic}
        if own:
            self.commit(own)


def checkpoint_wins() -> KeyValueStore:
    """Takes the offset from the file at every opening, even if it has its own."""
    return _FileWins(NAME)


class _NoTombstones(RocksDBStore):
    def restore(self, batch: Sequence[ChangelogRecord]) -> None:
        super().restore([record for record in batch if record.value is not None])


def restore_skips_tombstones() -> KeyValueStore:
    """Restores values but no tombstones."""
    return _NoTombstones(NAME)


class _EmptyDeletes(RocksDBStore):
    def put(self, key: bytes, value: bytes | None) -> None:
        super().put(key, value or None)


def empty_value_deletes() -> KeyValueStore:
    """Tests whether a value is truthy instead of whether it is None."""
    return _EmptyDeletes(NAME)


class _PrefixOverflow(RocksDBStore):
    def prefix_scan(self, prefix: bytes) -> RowIterator:
        end = prefix[:-1] + bytes([(prefix[-1] + 1) % 256])
        rows = super().range(prefix, end)
        return self.open_iterator((row for row in rows if row[0] != end), rows.close)


def prefix_end_overflows() -> KeyValueStore:
    """Increments the last byte of a prefix without a carry."""
    return _PrefixOverflow(NAME)


class _Among(RocksDBStore):
    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        super().commit(changelog_offsets)
        for partition, offset in changelog_offsets.items():
            self.put(f"offset:{partition}".encode(), str(offset).encode())


def offsets_among_data() -> KeyValueStore:
    """Keeps offsets as entries under their own keys."""
    return _Among(NAME)


class _UnderOneKey(RocksDBStore):
    key = b"__table\x00offset__"

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        for offset in changelog_offsets.values():
            self.put(self.key, str(offset).encode())
        super().commit(changelog_offsets)

    def get(self, key: bytes) -> bytes | None:
        return None if key == self.key else super().get(key)


def offset_under_a_reserved_key() -> KeyValueStore:
    """Keeps the offset among the rows, under a key that users cannot have."""
    return _UnderOneKey(NAME)


class _ShortPartitions(RocksDBStore):
    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        super().commit({_short(each): at for each, at in changelog_offsets.items()})

    def committed_offset(self, partition: TopicPartition) -> int | None:
        return super().committed_offset(_short(partition))


def _short(partition: TopicPartition) -> TopicPartition:
    return TopicPartition(partition.topic, partition.partition & 0xFFFF)


def partitions_in_two_bytes() -> KeyValueStore:
    """Keeps two bytes of the number of a partition."""
    return _ShortPartitions(NAME)


class _LongTopics(RocksDBStore):
    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        super().commit({_cut(each): at for each, at in changelog_offsets.items()})

    def committed_offset(self, partition: TopicPartition) -> int | None:
        return super().committed_offset(_cut(partition))


def _cut(partition: TopicPartition) -> TopicPartition:
    return TopicPartition(partition.topic[:128], partition.partition)


def long_topics_are_cut() -> KeyValueStore:
    """Keeps the first 128 characters of the name of a topic."""
    return _LongTopics(NAME)


class _Unmarked(RocksDBStore):
    _marks_status = False


def unclean_stop_unnoticed() -> KeyValueStore:
    """Opens any files that a crash left, also under exactly-once."""
    return _Unmarked(NAME)
