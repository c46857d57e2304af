"""Transactions on RocksDB: writes are staged in memory and applied together with offsets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from threading import RLock

from streamproof.stores.api import (
    IsolationLevel,
    KeyValueIterator,
    KeyValueStore,
    Position,
    ReadOnlyKeyValueStore,
    StateStore,
    StateStoreContext,
    TopicPartition,
    require_key,
)
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.errors import InvalidStateStoreError, UnsupportedOperationError
from streamproof.stores.iterators import Row, RowIterator, is_inverted, prefix_end
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.transactions import AbstractTransaction, AbstractTransactionalStore
from streamproof.stores.wrapped import WrappedKeyValueStore
from streamproof.stores.write_batch import NOT_STAGED, IndexedWriteBatch, StagedRange

__all__ = [
    "RocksDBTransaction",
    "TransactionalKeyValueStore",
    "TransactionalRocksDBStore",
    "TransactionalRows",
    "default_store",
]


class TransactionalRows(KeyValueStore, AbstractTransactionalStore):
    """Rows on RocksDB that stage writes in transactions, and apply them in one step."""

    @property
    @abstractmethod
    def context(self) -> StateStoreContext:
        """The context that ``init`` was called with."""

    @abstractmethod
    def commit_transactions(
        self,
        transactions: Sequence[RocksDBTransaction],
        changelog_offsets: Mapping[TopicPartition, int | None],
    ) -> None:
        """Write all staged records, the offsets and the position in one step."""

    @abstractmethod
    def get_only(self, key: bytes) -> bytes | None:
        """The same as ``get``, but without migrating a row."""

    @abstractmethod
    def range(self, from_key: bytes | None, to_key: bytes | None) -> RowIterator:
        """The entries from ``from_key`` to ``to_key``, both inclusive, ascending."""

    @abstractmethod
    def open_iterator(
        self, rows: Iterator[Row], on_close: Callable[[], None] | None = None
    ) -> RowIterator:
        """An iterator over ``rows`` that is closed with this store at the latest."""

    def create_transaction(self) -> RocksDBTransaction:
        """Make a transaction; ``new_transaction`` calls this, and tracks the result."""
        return RocksDBTransaction(self, self.context.isolation_level)

    def commit_all(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit every open transaction, oldest first, and the offsets, in one step."""
        transactions = [
            transaction
            for transaction in self.open_transactions
            if isinstance(transaction, RocksDBTransaction)
        ]
        self.commit_transactions(transactions, changelog_offsets)
        for transaction in transactions:
            # The records are written already, so that closing discards the overlay alone.
            transaction.close()

    def approximate_num_uncommitted_entries(self) -> int:
        """The staged entries of all open transactions (KIP-892)."""
        return sum(
            transaction.approximate_num_uncommitted_entries()
            for transaction in self.open_transactions
        )

    def approximate_num_uncommitted_bytes(self) -> int:
        """The staged bytes of keys and values of all open transactions (KIP-892)."""
        return sum(
            transaction.approximate_num_uncommitted_bytes()
            for transaction in self.open_transactions
        )


class TransactionalRocksDBStore(RocksDBStore, TransactionalRows):
    """A RocksDB store with transactions.

    Reads on the store itself see committed content only. Writes on the store itself go straight to
    the database, as a restoration needs it. A status row is not needed: staged writes reach the
    database only together with their offsets, so that a crash always leaves a commit.

    Source: KIP-892; Kafka 4.4, RocksDBStore with transactions enabled.
    """

    _marks_status = False

    @property
    def capabilities(self) -> Capabilities:
        """Callers must open transactions here; TransactionalKeyValueStore opens them itself."""
        return Capabilities(
            explicit_transactions=True,
            position=True,
            durability="flush",
            upgrades_from="rocksdb-legacy",
            downgrade=True,
            imports_offsets=True,
        )

    @property
    def context(self) -> StateStoreContext:
        """The context that ``init`` was called with."""
        if self._context is None:
            raise InvalidStateStoreError(
                f"Store {self.name!r} is not open; call init() before using it."
            )
        return self._context

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit every open transaction, oldest first, and the offsets, in one write.

        Source: KIP-892, StateStore#commit: "if this StateStore has any open transactions,
        they will be committed".
        """
        self.commit_all(changelog_offsets)

    def commit_transactions(
        self,
        transactions: Sequence[RocksDBTransaction],
        changelog_offsets: Mapping[TopicPartition, int | None],
    ) -> None:
        """Write all staged records, the offsets and the position in one write."""
        database = self._opened()
        batch = database.new_batch()
        records = self._records(database, batch)
        position = self.position
        for transaction in transactions:
            transaction.writes.apply_to(records)
            position.merge(transaction.staged_position)
        self._add_offsets(database, batch, changelog_offsets, position)
        database.write(batch)
        self._position = position

    def close(self) -> None:
        """Discard the staged writes of open transactions, then close."""
        self.close_transactions()
        super().close()


class RocksDBTransaction(AbstractTransaction, KeyValueStore):
    """Staged writes over a RocksDB store; it reads its own writes.

    The transaction stages its writes under at-least-once, too: READ_UNCOMMITTED allows other
    readers to see writes early, but does not promise that they do.

    Attributes:
        writes: the staged writes.
        staged_position: the input offsets of the staged writes.

    Source: KIP-892, RocksDBTransaction.
    """

    def __init__(self, store: TransactionalRows, isolation_level: IsolationLevel) -> None:
        super().__init__(store, isolation_level)
        self._base = store
        self._context = store.context
        self.writes = IndexedWriteBatch()
        self.staged_position = Position()

    @property
    def manages_offsets(self) -> bool:
        """Whether the store keeps changelog offsets itself (KIP-1035)."""
        return self._base.manages_offsets

    @property
    def position(self) -> Position:
        """The input offsets of the store and of the staged writes (KIP-796)."""
        position = self._base.position
        position.merge(self.staged_position)
        return position

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """The committed offset of the store."""
        return self._base.committed_offset(partition)

    def commit_transaction(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Write the staged records, the offsets and the position to the store in one step."""
        self._base.commit_transactions((self,), changelog_offsets)
        self.close_transaction()

    def close_transaction(self) -> None:
        """Discard the staged records and their position."""
        self.writes.clear()
        self.staged_position = Position()

    def flush(self) -> None:
        """Do nothing: staged writes stay staged until ``commit``."""
        self.validate_is_open()

    def get(self, key: bytes) -> bytes | None:
        """The staged value of ``key``, else the committed one, or ``None``."""
        require_key(key)
        self.validate_is_open()
        staged = self.writes.lookup(key)
        return self._base.get(key) if staged is NOT_STAGED else staged

    def put(self, key: bytes, value: bytes | None) -> None:
        """Stage a value; ``None`` stages a deletion."""
        if key is None:
            require_key(key)
        if not self._open:
            self.validate_is_open()
        if value is None:
            self.writes.delete(key)
        else:
            self.writes.put(key, value)
        if self._context.record_metadata is not None:
            self.staged_position.update(*self._context.record_metadata)

    def delete(self, key: bytes) -> bytes | None:
        """Stage the deletion of ``key`` and return the value it had, or ``None``."""
        require_key(key)
        self.validate_is_open()
        staged = self.writes.lookup(key)
        old = self._base.get_only(key) if staged is NOT_STAGED else staged
        self.put(key, None)
        return old

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Stage all entries; if one key is ``None``, none is staged."""
        self.validate_is_open()
        super().put_all(entries)

    def delete_range(self, from_key: bytes, to_key_exclusive: bytes) -> None:
        """Stage the deletion of every key from ``from_key`` up to, not including, the other."""
        require_key(from_key)
        require_key(to_key_exclusive)
        self.validate_is_open()
        self.writes.delete_range(from_key, to_key_exclusive)
        if self._context.record_metadata is not None:
            self.staged_position.update(*self._context.record_metadata)

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """Staged over committed entries, both bounds inclusive, ascending."""
        return self._scan(from_key, to_key, reverse=False)

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The same entries as ``range``, descending."""
        return self._scan(from_key, to_key, reverse=True)

    def prefix_scan(self, prefix: bytes) -> KeyValueIterator:
        """Staged over committed entries whose key starts with ``prefix``, ascending."""
        require_key(prefix)
        self.validate_is_open()
        staged = self.writes.snapshot(prefix, prefix_end(prefix), to_inclusive=False)
        return self._overlay(staged, lambda: self._base.prefix_scan(prefix))

    def approximate_num_entries(self) -> int:
        """About how many entries are committed. Staged writes do not count."""
        self.validate_is_open()
        return self._base.approximate_num_entries()

    def approximate_num_uncommitted_entries(self) -> int:
        """How many rows and range tombstones are staged (KIP-892)."""
        return len(self.writes)

    def approximate_num_uncommitted_bytes(self) -> int:
        """The bytes of all keys and values staged so far, overwritten ones included."""
        return self.writes.num_bytes

    def _scan(
        self, from_key: bytes | None, to_key: bytes | None, *, reverse: bool
    ) -> KeyValueIterator:
        self.validate_is_open()
        if is_inverted(from_key, to_key):
            return self._base.open_iterator(iter(()))
        staged = self.writes.snapshot(from_key, to_key, reverse=reverse)
        scan = self._base.reverse_range if reverse else self._base.range
        return self._overlay(staged, lambda: scan(from_key, to_key))

    def _overlay(
        self, staged: StagedRange, open_base: Callable[[], KeyValueIterator]
    ) -> KeyValueIterator:
        # The base is opened after the staged rows were copied; IndexedWriteBatch.snapshot says why.
        base = open_base()
        return self._base.open_iterator(staged(base), base.close)


class TransactionalKeyValueStore(WrappedKeyValueStore):
    """Keeps a transaction open on a transactional store, so that every write is staged.

    Under at-least-once this store opens no transaction, and writes go straight to the inner store:
    the commit interval is long there, and a transaction would buffer too many records.

    Source: KIP-892, "Transaction Management".
    """

    @property
    def capabilities(self) -> Capabilities:
        """What the inner store promises, with writes that are staged until the commit."""
        inner: Capabilities = getattr(self._inner, "capabilities", Capabilities())
        return replace(inner, transactional=True, explicit_transactions=True, read_only_views=True)

    def __init__(self, inner: KeyValueStore) -> None:
        super().__init__(inner)
        self._isolation_level = IsolationLevel.READ_COMMITTED
        # A commit holds this lock until the next transaction is open, and so does a query that
        # reads through the transaction: no query meets a transaction that has just ended.
        self._switching = RLock()

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the inner store, which a restoration writes to directly, and a transaction."""
        super().init(context, root)
        self._isolation_level = context.isolation_level
        self._begin()

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit the inner store with its open transactions, then open the next one."""
        with self._switching:
            self._inner.commit(changelog_offsets)
            self._begin()

    def close(self) -> None:
        """Discard the staged writes, and close the inner store."""
        with self._switching:
            self._inner.close()
            self._target = self._inner

    def delete_range(self, from_key: bytes, to_key_exclusive: bytes) -> None:
        """Delete every key from ``from_key`` up to, not including, ``to_key_exclusive``.

        Raises:
            UnsupportedOperationError: the inner store or its transactions cannot do that.
        """
        delete = getattr(self._target, "delete_range", None)
        if delete is None:
            raise UnsupportedOperationError(
                f"Store {self.name!r} cannot delete a range of keys, because its inner store has "
                "no delete_range(). Wrap a store that has one."
            )
        delete(from_key, to_key_exclusive)

    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlyKeyValueStore:
        """READ_COMMITTED reads the inner store, READ_UNCOMMITTED through the transaction.

        Source: Kafka 4.4, ReadOnlyKeyValueStore#readOnly.
        """
        if isolation_level is IsolationLevel.READ_COMMITTED:
            return self._inner.read_only(isolation_level)
        return _UncommittedView(self, self._switching)

    def _begin(self) -> None:
        if self._isolation_level is IsolationLevel.READ_UNCOMMITTED:
            return
        transaction = self._inner.new_transaction()
        if transaction is self._inner or not isinstance(transaction, KeyValueStore):
            raise InvalidStateStoreError(
                f"Store {self.name!r} returned no key-value transaction; wrap a store whose "
                "new_transaction() returns one."
            )
        self._target = transaction


class _UncommittedView:
    """Reads through the open transaction, for queries from other threads."""

    def __init__(self, store: KeyValueStore, switching: RLock) -> None:
        self._store = store
        self._switching = switching

    def get(self, key: bytes) -> bytes | None:
        with self._switching:
            return self._store.get(key)

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        with self._switching:
            return self._store.range(from_key, to_key)

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        with self._switching:
            return self._store.reverse_range(from_key, to_key)

    def all(self) -> KeyValueIterator:
        return self.range(None, None)

    def reverse_all(self) -> KeyValueIterator:
        return self.reverse_range(None, None)

    def prefix_scan(self, prefix: bytes) -> KeyValueIterator:
        with self._switching:
            return self._store.prefix_scan(prefix)

    def approximate_num_entries(self) -> int:
        with self._switching:
            return self._store.approximate_num_entries()


def default_store(name: str = "store") -> KeyValueStore:
    """A new transactional RocksDB store, not initialised."""
    return TransactionalKeyValueStore(TransactionalRocksDBStore(name))
