"""Transactions as KIP-892 proposes them: the interface, and a base class for each of its sides."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from streamproof.stores.api import IsolationLevel, StateStore, StateStoreContext, TopicPartition
from streamproof.stores.errors import InvalidStateStoreError

__all__ = ["AbstractTransaction", "AbstractTransactionalStore", "Transaction"]


class Transaction(StateStore):
    """A view of a store that keeps its writes to itself until they are committed.

    A transaction has the whole interface of a store, so that it can stand in for a store. But
    ``init`` does nothing, and ``commit`` and ``close`` end this transaction only. A transaction
    reads its own writes and belongs to one thread. Commit or close each transaction once; a
    ``with`` statement closes it at the end of the block.

    Source: KIP-892, org.apache.kafka.streams.state.Transaction.
    """

    @property
    @abstractmethod
    def isolation_level(self) -> IsolationLevel:
        """Whether this transaction sees the uncommitted writes of others."""

    @abstractmethod
    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Write the staged records and the offsets to the store in one step, and close."""

    @abstractmethod
    def close(self) -> None:
        """Discard the staged records, and close. Closing twice is harmless."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class AbstractTransaction(Transaction):
    """A transaction without its storage: whether it is open, and the callbacks for its end.

    Source: KIP-892, org.apache.kafka.streams.state.AbstractTransaction.
    """

    def __init__(self, store: AbstractTransactionalStore, isolation_level: IsolationLevel) -> None:
        self._store = store
        self._isolation_level = isolation_level
        self._open = True
        self._on_close: list[Callable[[], None]] = []

    def add_close_callback(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once this transaction has been committed or closed."""
        self._on_close.append(callback)

    @property
    def name(self) -> str:
        """The name of the store that this transaction belongs to."""
        return self._store.name

    @property
    def persistent(self) -> bool:
        """Whether the store outlives the process."""
        return self._store.persistent

    @property
    def isolation_level(self) -> IsolationLevel:
        """Whether this transaction sees the uncommitted writes of others."""
        return self._isolation_level

    @property
    def is_open(self) -> bool:
        """Whether this transaction can be read and written."""
        return self._open

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Do nothing: a transaction is open from the start."""

    def new_transaction(self) -> StateStore:
        """Another transaction on the same store (KIP-892, Transaction#newTransaction)."""
        return self._store.new_transaction()

    def validate_is_open(self) -> None:
        """Raise InvalidStateStoreError if this transaction has ended."""
        if not self._open:
            raise InvalidStateStoreError(
                f"The transaction on store {self.name!r} has ended; call new_transaction()."
            )

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Write the staged records and the offsets to the store in one step, and close.

        A transaction whose write fails stays open, so that the caller can retry or close it.
        """
        self.validate_is_open()
        self.commit_transaction(changelog_offsets)
        self._finish()

    def close(self) -> None:
        """Discard the staged records, and close. Closing twice is harmless."""
        if self._open:
            self.close_transaction()
            self._finish()

    def _finish(self) -> None:
        self._open = False
        callbacks, self._on_close = self._on_close, []
        for callback in callbacks:
            callback()

    @abstractmethod
    def commit_transaction(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Write the staged records and the offsets to the store in one step."""

    @abstractmethod
    def close_transaction(self) -> None:
        """Discard the staged records."""


class AbstractTransactionalStore(StateStore):
    """A store that knows its open transactions, and closes them before itself.

    Source: KIP-892, org.apache.kafka.streams.state.AbstractTransactionalStore.
    """

    def __init__(self) -> None:
        # A dict keeps the order of creation, which is the order in which commit applies them.
        self._open_transactions: dict[AbstractTransaction, None] = {}

    @abstractmethod
    def create_transaction(self) -> AbstractTransaction:
        """Make a transaction. ``new_transaction`` calls this, and tracks the result."""

    def new_transaction(self) -> AbstractTransaction:
        """Open a transaction, which ends with its commit, its close, or the close of the store."""
        transaction = self.create_transaction()
        self._open_transactions[transaction] = None
        transaction.add_close_callback(lambda: self._open_transactions.pop(transaction, None))
        return transaction

    @property
    def open_transactions(self) -> tuple[AbstractTransaction, ...]:
        """The open transactions, oldest first."""
        return tuple(self._open_transactions)

    def close_transactions(self) -> None:
        """Close every open transaction, and discard its staged records."""
        for transaction in self.open_transactions:
            transaction.close()
