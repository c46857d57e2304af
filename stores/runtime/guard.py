"""The guard: the store as a processor holds it, without the calls that belong to the runtime."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar, cast

from streamproof.stores.api import (
    IsolationLevel,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.errors import UnsupportedOperationError

__all__ = ["guarded"]

S = TypeVar("S", bound=StateStore)


def guarded(store: S) -> S:
    """A view of a store of any kind that passes every call on, except the life-cycle calls.

    A commit from within a processor would make the store believe that records are committed
    while their transaction may still be aborted. So ``init``, ``commit`` and ``close`` raise
    UnsupportedOperationError and leave the store alone. A processor requests a commit of its
    task from its context instead. ``flush`` is passed on, with a DeprecationWarning. A store
    that is its own transaction or its own view is guarded there as well, since either would be
    a way around the guard.

    Args:
        store: the store. The runtime goes on using the store itself, without the guard.

    Source: KIP-1035, "StateStore Implementations"; Kafka, AbstractReadWriteDecorator.
    """
    return cast(S, _GuardedStore(store))


class _GuardedStore:
    __slots__ = ("_store",)

    def __init__(self, store: StateStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def init(self, context: StateStoreContext, root: StateStore) -> NoReturn:
        """Raise UnsupportedOperationError."""
        self._refuse("init", "The runtime has opened it already.")

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> NoReturn:
        """Raise UnsupportedOperationError."""
        self._refuse("commit", "Request a commit of the task from the processor's context.")

    def close(self) -> NoReturn:
        """Raise UnsupportedOperationError."""
        self._refuse("close", "The runtime closes it with its task.")

    def flush(self) -> None:
        """Pass the call on; it has no effect that a processor could rely on."""
        warnings.warn(
            f"flush() of store {self._store.name!r} is deprecated (KIP-1035): request a commit of "
            "the task from the processor's context.",
            DeprecationWarning,
            stacklevel=2,
        )
        self._store.flush()

    def new_transaction(self) -> Any:
        """A transaction of the store; this view, if it has none."""
        return self._guarded_if_same(self._store.new_transaction())

    def read_only(self, isolation_level: IsolationLevel) -> Any:
        """A view of the store for queries; this view, if it has none."""
        return self._guarded_if_same(cast(Any, self._store).read_only(isolation_level))

    def _guarded_if_same(self, found: object) -> object:
        return self if found is self._store else found

    def _refuse(self, method: str, instead: str) -> NoReturn:
        raise UnsupportedOperationError(
            f"A processor must not call {method}() of store {self._store.name!r}: only the runtime "
            f"may. {instead}"
        )
