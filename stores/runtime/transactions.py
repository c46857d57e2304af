"""The runtime's transactions: one for each store that offers transactions, open at all times.

A layer opens a transaction when its store is opened, and the next one after each commit. The
processors read and write the transaction. A restoration writes past it, to the store.

Under at-least-once no transaction is opened, and writes go to the store at once: the commit
interval is long there, and a transaction would hold too many records.

Source: KIP-892, "Transaction Management".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from threading import RLock
from typing import Any

from streamproof.stores.api import (
    IsolationLevel,
    KeyValueStore,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.errors import InvalidStateStoreError
from streamproof.stores.runtime.layers import (
    SessionLayer,
    TimestampedKeyValueLayer,
    TimestampedSessionLayer,
    TimestampedWindowLayer,
    WindowLayer,
    capabilities_of,
    has_contract,
)
from streamproof.stores.sessions import SessionStore, SessionWithTimestampStore
from streamproof.stores.timestamps import KeyValueWithTimestampStore
from streamproof.stores.transactional import TransactionalKeyValueStore
from streamproof.stores.windows import WindowStore, WindowWithTimestampStore
from streamproof.stores.wrapped import WrappedStateStore

__all__ = ["with_transactions"]


class _Transactions(WrappedStateStore[Any]):
    """Points a layer at the open transaction of its store.

    ``_inner`` is the transaction while one is open, and the store itself otherwise.
    """

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self._store = store
        self._isolation_level = IsolationLevel.READ_COMMITTED
        # A commit holds this lock until the next transaction is open.
        self._switching = RLock()

    @property
    def inner(self) -> Any:
        """The store that the transactions belong to."""
        return self._store

    @property
    def capabilities(self) -> Capabilities:
        """What the store promises, with writes that are staged until the commit."""
        return replace(capabilities_of(self._store), transactional=True, read_only_views=True)

    @property
    def is_open(self) -> bool:
        """Whether the store can be read and written."""
        return bool(self._store.is_open)

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the store, which a restoration writes to directly, and a transaction."""
        self._store.init(context, root)
        self._isolation_level = context.isolation_level
        self._begin()

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit the store with its open transactions, then open the next one."""
        with self._switching:
            self._store.commit(changelog_offsets)
            self._begin()

    def close(self) -> None:
        """Discard the staged writes, and close the store."""
        with self._switching:
            self._inner = self._store
            self._store.close()

    def flush(self) -> None:
        """Flush the store. Staged writes stay staged."""
        self._store.flush()

    def new_transaction(self) -> StateStore:
        """Another transaction of the store."""
        transaction: StateStore = self._store.new_transaction()
        return transaction

    def approximate_num_uncommitted_entries(self) -> int:
        """About how many records of all open transactions await ``commit``."""
        return int(self._store.approximate_num_uncommitted_entries())

    def approximate_num_uncommitted_bytes(self) -> int:
        """About how many bytes of all open transactions await ``commit``."""
        return int(self._store.approximate_num_uncommitted_bytes())

    def read_only(self, isolation_level: IsolationLevel) -> Any:
        """A view of committed rows: a store may hide staged ones under READ_UNCOMMITTED, too."""
        return self._store.read_only(isolation_level)

    def _begin(self) -> None:
        if self._isolation_level is IsolationLevel.READ_UNCOMMITTED:
            return
        transaction = self._store.new_transaction()
        if transaction is self._store:
            raise InvalidStateStoreError(
                f"Store {self.name!r} declares transactions, but new_transaction() returned the "
                "store itself. Correct its capabilities."
            )
        self._inner = transaction


class _TimestampedKeyValues(_Transactions, TimestampedKeyValueLayer):
    """A key-value store with timestamps and an open transaction."""

    @property
    def _target(self) -> Any:
        return self._inner

    @_target.setter
    def _target(self, _: Any) -> None:
        """Ignore the store that the base class would point at: ``_inner`` counts."""


class _Windows(_Transactions, WindowLayer[Any]):
    """A window store with an open transaction."""


class _TimestampedWindows(_Transactions, TimestampedWindowLayer):
    """A window store with timestamps and an open transaction."""


class _Sessions(_Transactions, SessionLayer[Any]):
    """A session store with an open transaction."""


class _TimestampedSessions(_Transactions, TimestampedSessionLayer):
    """A session store with timestamps and an open transaction."""


def with_transactions(store: Any) -> Any:
    """The store with a transaction that is open at all times, if the store offers transactions.

    A store that stages its writes itself is returned unchanged, and so is one without transactions.
    """
    claims = capabilities_of(store)
    if claims.transactional or not claims.explicit_transactions:
        return store
    for kind, layer in _LAYERS.items():
        if has_contract(store, kind):
            return layer(store)
    return store


_LAYERS: dict[type[Any], type[Any]] = {
    WindowWithTimestampStore: _TimestampedWindows,
    WindowStore: _Windows,
    SessionWithTimestampStore: _TimestampedSessions,
    SessionStore: _Sessions,
    KeyValueWithTimestampStore: _TimestampedKeyValues,
    KeyValueStore: TransactionalKeyValueStore,
}
"""The layer for each kind of store; a store with timestamps is of the kind without, too."""
