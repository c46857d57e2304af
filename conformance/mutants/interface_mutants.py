"""Stores whose transactions, counts or views break a part of KIP-892 that is easily forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from streamproof.stores.api import (
    IsolationLevel,
    KeyValueIterator,
    KeyValueStore,
    ReadOnlyKeyValueStore,
    StateStore,
    TopicPartition,
)
from streamproof.stores.sessions import SessionStore
from streamproof.stores.timestamped import RocksDBTimestampedStore
from streamproof.stores.transactional import (
    RocksDBTransaction,
    TransactionalKeyValueStore,
    TransactionalRocksDBStore,
)
from streamproof.stores.windowed.rocksdb_sessions import (
    RETENTION_MS,
    RocksDBSessionStore,
)
from streamproof.stores.windows import WindowedIterator
from streamproof.stores.wrapped import WrappedKeyValueStore

NAME = "store"
SPILLED_BYTES = 100_000
"""How many bytes a transaction keeps in memory, if it spills."""


def _transactional(transaction_class: type[RocksDBTransaction]) -> KeyValueStore:
    class Store(TransactionalRocksDBStore):
        def create_transaction(self) -> RocksDBTransaction:
            self._opened()
            return transaction_class(self, self.context.isolation_level)

    return TransactionalKeyValueStore(Store(NAME))


# The interface of a transaction.


class _FlushWrites(RocksDBTransaction):
    def flush(self) -> None:
        self._base.commit_transactions((self,), {TopicPartition("none", 0): None})
        self.close_transaction()


def flush_commits_a_transaction() -> KeyValueStore:
    """Writes what a transaction has staged at a flush, as an earlier draft had it."""
    return _transactional(_FlushWrites)


class _OverwritesIfAbsent(RocksDBTransaction):
    def put_if_absent(self, key: bytes, value: bytes | None) -> bytes | None:
        existing = self.get(key)
        self.put(key, value)
        return existing


def transaction_overwrites_if_absent() -> KeyValueStore:
    """A transaction puts a value that is not absent, too."""
    return _transactional(_OverwritesIfAbsent)


class _TimesOfTheStore(RocksDBTimestampedStore):
    def new_transaction(self) -> StateStore:
        transaction: Any = super().new_transaction()
        transaction.range_with_timestamp = self.range_with_timestamp
        answer: StateStore = transaction
        return answer


def transaction_scans_old_timestamps() -> KeyValueStore:
    """A transaction scans values with timestamps past its own writes."""
    return _TimesOfTheStore(NAME, transactional=True)


class _SearchesTheStore(RocksDBSessionStore):
    def new_transaction(self) -> StateStore:
        transaction: Any = super().new_transaction()

        def find_sessions_between(earliest_end: int, latest_end: int) -> WindowedIterator:
            return self.find_sessions_between(earliest_end, latest_end)

        transaction.find_sessions_between = find_sessions_between
        answer: StateStore = transaction
        return answer


def transaction_searches_the_store() -> SessionStore:
    """A transaction finds the committed sessions between two times."""
    inner = TransactionalKeyValueStore(TransactionalRocksDBStore(NAME))
    return _SearchesTheStore(NAME, retention_ms=RETENTION_MS, inner=inner)


def ended_transaction_searches_the_store() -> SessionStore:
    """The same store: an ended transaction finds sessions, too."""
    return transaction_searches_the_store()


# The end of a transaction.


class _CommitsAll(RocksDBTransaction):
    def commit_transaction(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        store: Any = self._base
        store.commit_transactions(store.open_transactions, changelog_offsets)
        for each in store.open_transactions:
            each.close_transaction()


def commit_takes_all_transactions() -> KeyValueStore:
    """The commit of a transaction writes what all the others have staged."""
    return _transactional(_CommitsAll)


class _ClosesAll(RocksDBTransaction):
    def close_transaction(self) -> None:
        for each in self._base.open_transactions:
            RocksDBTransaction.close_transaction(each)  # type: ignore[arg-type]
        super().close_transaction()


def close_discards_all_transactions() -> KeyValueStore:
    """The close of a transaction discards what all the others have staged."""
    return _transactional(_ClosesAll)


class _CallsEarly(RocksDBTransaction):
    def _finish(self) -> None:
        callbacks, self._on_close = self._on_close, []
        for callback in callbacks:
            callback()
        self._open = False


def callbacks_come_too_early() -> KeyValueStore:
    """Calls the callbacks while the transaction is still open."""
    return _transactional(_CallsEarly)


class _StaysOpen(TransactionalRocksDBStore):
    def commit_all(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        self.commit_transactions(self.open_transactions, changelog_offsets)  # type: ignore[arg-type]
        for transaction in self.open_transactions:
            transaction.close_transaction()


class store_commit_ends_nothing(_StaysOpen):
    """The commit of a store leaves its transactions open, with nothing in them."""

    def __init__(self) -> None:
        super().__init__(NAME)


class _OpenAtLeastOnce(RocksDBTransaction):
    def validate_is_open(self) -> None:
        if self.isolation_level is IsolationLevel.READ_COMMITTED:
            super().validate_is_open()


def ended_transaction_reads_at_least_once() -> KeyValueStore:
    """An ended transaction can be read under at-least-once."""
    return _transactional(_OpenAtLeastOnce)


class _FailsAgain(RocksDBTransaction):
    def close(self) -> None:
        if self.isolation_level is IsolationLevel.READ_UNCOMMITTED:
            self.validate_is_open()
        super().close()


def closing_again_fails_at_least_once() -> KeyValueStore:
    """Under at-least-once, an ended transaction refuses to be closed."""
    return _transactional(_FailsAgain)


class _Spills(RocksDBTransaction):
    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        super().put_all(entries)
        if self.approximate_num_uncommitted_bytes() > SPILLED_BYTES:
            self._base.put_all(list(entries))


def large_transaction_spills() -> KeyValueStore:
    """Writes a batch to the store at once if it is large."""
    return _transactional(_Spills)


# Counts.


class _MeasuresNothing(TransactionalKeyValueStore):
    def approximate_num_uncommitted_bytes(self) -> int:
        return 0


def staged_bytes_are_not_measured() -> KeyValueStore:
    """Counts its staged entries, and not their bytes."""
    return _MeasuresNothing(TransactionalRocksDBStore(NAME))


class _MeasuresTooMuch(TransactionalKeyValueStore):
    def approximate_num_uncommitted_bytes(self) -> int:
        return super().approximate_num_uncommitted_bytes() * 1000


def uncommitted_bytes_are_thousandfold() -> KeyValueStore:
    """Takes bytes for kilobytes."""
    return _MeasuresTooMuch(TransactionalRocksDBStore(NAME))


# Views.


class _BackwardView(WrappedKeyValueStore):
    """Reads committed rows, but scans backward what is staged."""

    def __init__(self, committed: KeyValueStore, staged: KeyValueStore) -> None:
        super().__init__(committed)
        self._staged = staged

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        bounded = from_key is not None or to_key is not None
        return (self._staged if bounded else self._inner).reverse_range(from_key, to_key)


class _Backward(TransactionalKeyValueStore):
    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlyKeyValueStore:
        if isolation_level is IsolationLevel.READ_COMMITTED:
            return _BackwardView(self._inner, self)
        return super().read_only(isolation_level)


def ranges_backward_show_staged_rows() -> KeyValueStore:
    """A READ_COMMITTED view shows staged rows in a range that is read backward."""
    return _Backward(TransactionalRocksDBStore(NAME))
