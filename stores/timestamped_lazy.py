"""A RocksDB store of values with timestamps that takes over a plain store row by row.

Kafka ships this migration for KIP-258. The directory of the plain store stays, and rows with
timestamps get their own column family beside the plain ones.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import RLock

from rocksdict import WriteBatch

from streamproof.stores.api import (
    NO_TIMESTAMP,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.iterators import Row
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.rocksdb_database import Database
from streamproof.stores.rocksdb_scans import scan_prefix, scan_range
from streamproof.stores.timestamps import encode_value_and_timestamp
from streamproof.stores.transactional import RocksDBTransaction, TransactionalRocksDBStore
from streamproof.stores.write_batch import WriteTarget, merge_over

__all__ = ["LazyRocksDBStore", "TransactionalLazyRocksDBStore"]

_logger = logging.getLogger("streamproof.stores")


class LazyRocksDBStore(RocksDBStore):
    """The stored bytes of values with timestamps, in the directory of a plain store.

    Plain rows that ``init`` finds count with the timestamp ``NO_TIMESTAMP``. A point read migrates
    the row that it finds, in one atomic write. A write removes the plain row. A scan merges the
    rows of both formats and migrates nothing. The migration is over when ``init`` finds no plain
    row. A plain store refuses the directory once this store has opened it.

    Source: Kafka, RocksDBTimestampedStore and DualColumnFamilyAccessor.
    """

    holds_timestamps = True
    _as_shipped = True

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._upgrading = False
        # A migration reads a row, and then writes it elsewhere. A write in between would be lost,
        # and a scan of both column families would see the row twice. So all of them take turns
        # while the store is upgrading.
        self._turn = RLock()

    @property
    def upgrading(self) -> bool:
        """Whether the store had plain rows when it was opened."""
        return self._upgrading

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the database, and see whether plain rows are left."""
        super().init(context, root)
        try:
            self._upgrading = self._has_plain_rows()
        except BaseException:
            self.close()
            raise
        _logger.info(
            "Opened store %r in %s mode.", self.name, "upgrade" if self._upgrading else "regular"
        )

    def get(self, key: bytes) -> bytes | None:
        """The stored value of ``key``, or ``None``; a plain row is migrated."""
        found = super().get(key)
        if found is not None or not self._upgrading:
            return found
        with self._turn:
            found = self.get_only(key)
            if found is not None and super().get(key) is None:
                self._write_entries(((key, found),))
            return found

    def get_only(self, key: bytes) -> bytes | None:
        """The stored value of ``key``, or ``None``; nothing is migrated."""
        if not self._upgrading:
            return super().get(key)
        with self._turn:
            found = super().get(key)
            plain = self._opened().plain
            if found is not None or plain is None:
                return found
            try:
                value: bytes | None = plain.get(key)
            except Exception as error:
                raise self._failure("cannot be read", error) from error
            return encode_value_and_timestamp(value, NO_TIMESTAMP)

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the stored value of ``key``, and remove its plain row; ``None`` deletes the key."""
        if self._upgrading:
            self.put_all(((key, value),))
        else:
            super().put(key, value)

    def delete(self, key: bytes) -> bytes | None:
        """Delete ``key`` and return the value it had, or ``None``."""
        with self._turn:
            return super().delete(key)

    def put_if_absent(self, key: bytes, value: bytes | None) -> bytes | None:
        """Set the value if the key has none; return the previous value, or ``None``."""
        with self._turn:
            return super().put_if_absent(key, value)

    def delete_range(self, from_key: bytes, to_key_exclusive: bytes) -> None:
        """Delete every key from ``from_key`` up to, not including, ``to_key_exclusive``."""
        with self._turn:
            super().delete_range(from_key, to_key_exclusive)

    def approximate_num_entries(self) -> int:
        """The estimates of both column families added up (Kafka: DualColumnFamilyAccessor)."""
        found = super().approximate_num_entries()
        plain = self._opened().plain
        if plain is None or not self._upgrading:
            return found
        return found + (plain.property_int_value("rocksdb.estimate-num-keys") or 0)

    def _has_plain_rows(self) -> bool:
        plain = self._opened().plain
        if plain is None:
            return False
        return next(scan_range(plain, None, None, reverse=False), None) is not None

    def _write_entries(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        with self._turn:
            super()._write_entries(entries)

    def _records(self, database: Database, batch: WriteBatch) -> WriteTarget:
        if self._upgrading:
            return database.records_of_both_formats(batch)
        return super()._records(database, batch)

    def _range_rows(
        self, database: Database, from_key: bytes | None, to_key: bytes | None, *, reverse: bool
    ) -> Iterator[Row]:
        if database.plain is None or not self._upgrading:
            return super()._range_rows(database, from_key, to_key, reverse=reverse)
        with self._turn:
            rows = scan_range(database.data, from_key, to_key, reverse=reverse)
            plain = scan_range(database.plain, from_key, to_key, reverse=reverse)
        return merge_over(_converted(plain), rows, reverse=reverse)

    def _prefix_rows(self, database: Database, prefix: bytes) -> Iterator[Row]:
        if database.plain is None or not self._upgrading:
            return super()._prefix_rows(database, prefix)
        with self._turn:
            rows = scan_prefix(database.data, prefix)
            plain = scan_prefix(database.plain, prefix)
        return merge_over(_converted(plain), rows, reverse=False)


class TransactionalLazyRocksDBStore(LazyRocksDBStore, TransactionalRocksDBStore):
    """The same with transactions.

    A migration changes no value, and so it does not wait for a commit: a rollback leaves the same
    content with or without the migration.

    Source: Kafka 4.4, DualColumnFamilyAccessorTransactionalTest.
    """

    def commit_transactions(
        self,
        transactions: Sequence[RocksDBTransaction],
        changelog_offsets: Mapping[TopicPartition, int | None],
    ) -> None:
        """Write the staged rows, the offsets and the position in one write."""
        with self._turn:
            super().commit_transactions(transactions, changelog_offsets)


def _converted(plain: Iterator[Row]) -> Iterator[Row]:
    return ((key, encode_value_and_timestamp(value, NO_TIMESTAMP)) for key, value in plain)
