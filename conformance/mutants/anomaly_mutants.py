"""Stores with wrong isolation.

See the table in the package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streamproof.stores.api import (
    IsolationLevel,
    KeyValueIterator,
    KeyValueStore,
    ReadOnlyKeyValueStore,
    TopicPartition,
)
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.transactional import (
    RocksDBTransaction,
    TransactionalKeyValueStore,
    TransactionalRocksDBStore,
)
from streamproof.stores.write_batch import NOT_STAGED, IndexedWriteBatch

NAME = "store"

Offsets = Mapping[TopicPartition, int | None]


class _View:
    """A view that passes every read on to the store. A mutant changes one of the reads."""

    def __init__(self, store: KeyValueStore) -> None:
        self.store = store

    def get(self, key: bytes) -> bytes | None:
        return self.store.get(key)

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        return self.store.range(from_key, to_key)

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        return self.store.reverse_range(from_key, to_key)

    def all(self) -> KeyValueIterator:
        return self.range(None, None)

    def reverse_all(self) -> KeyValueIterator:
        return self.reverse_range(None, None)

    def prefix_scan(self, prefix: bytes) -> KeyValueIterator:
        return self.store.prefix_scan(prefix)

    def approximate_num_entries(self) -> int:
        return self.store.approximate_num_entries()


class _StagedScan(_View):
    def __init__(self, store: KeyValueStore, staging: KeyValueStore) -> None:
        super().__init__(store)
        self.staging = staging

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        return self.staging.range(from_key, to_key)


class _ScansStaged(TransactionalKeyValueStore):
    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlyKeyValueStore:
        if isolation_level is IsolationLevel.READ_COMMITTED:
            return _StagedScan(self._inner, self)
        return super().read_only(isolation_level)


def scans_show_staged_rows() -> KeyValueStore:
    """The gets of a view are right, but its scans read the transaction."""
    return _ScansStaged(TransactionalRocksDBStore(NAME))


class _ReusedBatch(TransactionalRocksDBStore):
    def create_transaction(self) -> RocksDBTransaction:
        transaction = _Leftovers(self, self.context.isolation_level)
        transaction.writes = self.__dict__.setdefault("_free", IndexedWriteBatch())
        self.__dict__["_free"] = IndexedWriteBatch()
        return transaction


class _Leftovers(RocksDBTransaction):
    def close_transaction(self) -> None:
        self._base.__dict__["_free"] = self.writes


def rolled_back_rows_are_reused() -> KeyValueStore:
    """Gives the batch of a transaction to the next one and clears the batch too late."""
    return TransactionalKeyValueStore(_ReusedBatch(NAME))


class _WritesThrough(RocksDBTransaction):
    def put(self, key: bytes, value: bytes | None) -> None:
        staged = self.writes.lookup(key)
        if staged is not NOT_STAGED:
            self._base.put(key, staged)
        super().put(key, value)


class _MakesRoom(TransactionalRocksDBStore):
    def create_transaction(self) -> RocksDBTransaction:
        return _WritesThrough(self, self.context.isolation_level)


def overwritten_rows_reach_the_store() -> KeyValueStore:
    """Writes a staged value to the database when a later value replaces it."""
    return TransactionalKeyValueStore(_MakesRoom(NAME))


class _HalfRemembered(_View):
    def __init__(self, store: KeyValueStore) -> None:
        super().__init__(store)
        self.known: dict[bytes, bytes | None] = {}

    def get(self, key: bytes) -> bytes | None:
        if key not in self.known:
            self.known[key] = self.store.get(key)
        return self.known[key]


class _Remembers(TransactionalKeyValueStore):
    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlyKeyValueStore:
        if isolation_level is IsolationLevel.READ_COMMITTED:
            return _HalfRemembered(self._inner)
        return super().read_only(isolation_level)


def view_keeps_what_it_read() -> KeyValueStore:
    """Gives a view a cache that no commit clears."""
    return _Remembers(TransactionalRocksDBStore(NAME))


class _TwoSnapshots(_View):
    """Reads from two copies in turn, one of which is one commit behind."""

    def __init__(self, store: KeyValueStore) -> None:
        super().__init__(store)
        self.copies = [dict(store.all())] * 2
        self.turn = 0

    def get(self, key: bytes) -> bytes | None:
        now = dict(self.store.all())
        if now != self.copies[1]:
            self.copies = [self.copies[1], now]
            self.turn = 1
        else:
            self.turn = 1 - self.turn
        return self.copies[self.turn].get(key)


class _InTurn(TransactionalKeyValueStore):
    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlyKeyValueStore:
        if isolation_level is IsolationLevel.READ_COMMITTED:
            return _TwoSnapshots(self._inner)
        return super().read_only(isolation_level)


def reader_goes_back_to_an_older_snapshot() -> KeyValueStore:
    """Lets a view read from the newest snapshot, then from the previous one."""
    return _InTurn(TransactionalRocksDBStore(NAME))


class _LastRowLate(TransactionalRocksDBStore):
    """Holds back the last row of a commit until a reader reads the row a second time."""

    def commit_transactions(
        self, transactions: Sequence[RocksDBTransaction], changelog_offsets: Offsets
    ) -> None:
        self.late: dict[bytes, bytes | None] = {}
        for transaction in transactions:
            rows = list(transaction.writes.snapshot(None, None)(iter(())))
            if len(rows) > 1:
                self.late[rows[-1][0]] = super().get(rows[-1][0])
        super().commit_transactions(transactions, changelog_offsets)

    def get(self, key: bytes) -> bytes | None:
        late = self.__dict__.get("late", {})
        return late.pop(key) if key in late else super().get(key)


def last_row_of_a_commit_comes_late() -> KeyValueStore:
    """At first shows a commit without its last row."""
    return TransactionalKeyValueStore(_LastRowLate(NAME))


class _WritesBack(RocksDBTransaction):
    def get(self, key: bytes) -> bytes | None:
        value = super().get(key)
        if value is not None and self.writes.lookup(key) is NOT_STAGED:
            self.writes.put(key, value)
        return value


class _Wholesale(TransactionalRocksDBStore):
    def create_transaction(self) -> RocksDBTransaction:
        return _WritesBack(self, self.context.isolation_level)


def commit_writes_back_what_was_read() -> KeyValueStore:
    """Commits the rows that a transaction read along with those that it wrote."""
    return TransactionalKeyValueStore(_Wholesale(NAME))


class _ReadsOthers(RocksDBTransaction):
    def get(self, key: bytes) -> bytes | None:
        if self.writes.lookup(key) is NOT_STAGED:
            for other in self._base.open_transactions:
                if isinstance(other, RocksDBTransaction):
                    staged = other.writes.lookup(key)
                    if staged is not NOT_STAGED:
                        return staged
        return super().get(key)


class _Open(TransactionalRocksDBStore):
    def create_transaction(self) -> RocksDBTransaction:
        return _ReadsOthers(self, self.context.isolation_level)


def transactions_read_each_other() -> KeyValueStore:
    """Looks up a key in every open transaction."""
    return TransactionalKeyValueStore(_Open(NAME))


class _OneOverlay(TransactionalRocksDBStore):
    def commit_transactions(
        self, transactions: Sequence[RocksDBTransaction], changelog_offsets: Offsets
    ) -> None:
        super().commit_transactions(transactions, changelog_offsets)
        for other in self.open_transactions:
            if isinstance(other, RocksDBTransaction):
                other.writes.clear()


def commit_clears_other_transactions() -> KeyValueStore:
    """Discards the staged writes of every open transaction when one of them commits."""
    return TransactionalKeyValueStore(_OneOverlay(NAME))


class _Copy(_View):
    def __init__(self, store: KeyValueStore) -> None:
        super().__init__(store)
        self.copy = dict(store.all())

    def get(self, key: bytes) -> bytes | None:
        return self.copy.get(key, self.store.get(key))


class _CopiesStaged(TransactionalKeyValueStore):
    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlyKeyValueStore:
        if isolation_level is IsolationLevel.READ_UNCOMMITTED:
            return _Copy(self)
        return super().read_only(isolation_level)


def uncommitted_view_is_a_copy() -> KeyValueStore:
    """Gives a READ_UNCOMMITTED view a copy of the content at its creation."""
    return _CopiesStaged(TransactionalRocksDBStore(NAME))


class _UnlockedViews(TransactionalKeyValueStore):
    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlyKeyValueStore:
        if isolation_level is IsolationLevel.READ_UNCOMMITTED:
            return _View(self)
        return super().read_only(isolation_level)


def uncommitted_view_takes_no_lock() -> KeyValueStore:
    """Lets a READ_UNCOMMITTED view read a transaction that a commit ends meanwhile."""
    return _UnlockedViews(TransactionalRocksDBStore(NAME))


class _PlainCopy(RocksDBStore):
    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlyKeyValueStore:
        return _HalfRemembered(self)


def plain_view_keeps_what_it_read() -> KeyValueStore:
    """Gives a store without transactions views that cache every read."""
    return _PlainCopy(NAME)


class _Unlocked(TransactionalRocksDBStore):
    """Stages the rows of all concurrently committing transactions in one batch."""

    def commit_transactions(
        self, transactions: Sequence[RocksDBTransaction], changelog_offsets: Offsets
    ) -> None:
        pending: dict[bytes, bytes] = self.__dict__.setdefault("pending", {})
        for transaction in transactions:
            pending.update(transaction.writes.snapshot(None, None)(iter(())))
        for key, value in list(pending.items()):
            # Here another thread may add its rows and write these too, so its readers see half.
            self._write_entries([(key, value)])
            pending.pop(key, None)
        super().commit_transactions((), changelog_offsets)


def committing_threads_share_a_batch() -> KeyValueStore:
    """Lets transactions that commit on several threads write each other's rows."""
    return TransactionalKeyValueStore(_Unlocked(NAME))
