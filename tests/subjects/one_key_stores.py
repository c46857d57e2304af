"""Right window and session stores that read one key at a time, and forward only.

They refuse every scan over several keys, every range of keys and every backward fetch, in
transactions and views as well, and declare so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pkgutil import resolve_name
from typing import Any

from streamproof.stores.api import IsolationLevel
from streamproof.stores.builtin import BUILTIN
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.errors import UnsupportedOperationError

SEVERAL_KEYS = ("all", "fetch_all", "fetch_range", "find_sessions_range", "find_sessions_between")


class OneKeyStore:
    """A store that reads one key at a time."""

    def __init__(self, store: Any, capabilities: Capabilities) -> None:
        self._store = store
        self.capabilities = replace(capabilities, scan=False, ranges=False, reverse=False)

    def __getattr__(self, name: str) -> Any:
        refused = name.removesuffix("_with_timestamp") in SEVERAL_KEYS
        return refuse(name) if refused or name.startswith("backward_") else self._attribute(name)

    def _attribute(self, name: str) -> Any:
        return getattr(self._store, name)

    def new_transaction(self) -> OneKeyStore:
        """A transaction that reads one key at a time."""
        inner = self._store.new_transaction()
        return self if inner is self._store else OneKeyStore(inner, self.capabilities)

    def read_only(self, isolation_level: IsolationLevel) -> OneKeyStore:
        """A view that reads one key at a time."""
        return OneKeyStore(self._store.read_only(isolation_level), self.capabilities)


def refuse(method: str) -> Callable[..., Any]:
    """A method that is not supported."""

    def refused(*_: object) -> Any:
        raise UnsupportedOperationError(f"This store reads one key at a time: no {method}.")

    return refused


def of(builtin: str, *names: str) -> OneKeyStore:
    """A built-in store that reads one key at a time."""
    store: Any = resolve_name(BUILTIN[builtin].factory)(*names)
    return OneKeyStore(store, store.capabilities)


def windows(name: str = "store") -> OneKeyStore:
    """Windows on RocksDB, with transactions."""
    return of("rocksdb-window-transactional", name)


def windows_in_memory() -> OneKeyStore:
    """Windows in memory."""
    return of("in-memory-window")


def windows_with_timestamps() -> OneKeyStore:
    """Windows on RocksDB, with timestamps."""
    return of("rocksdb-window-timestamped")


def duplicates() -> OneKeyStore:
    """Windows on RocksDB that keep every put."""
    return of("rocksdb-window-duplicates")


def sessions(name: str = "store") -> OneKeyStore:
    """Sessions on RocksDB, with transactions."""
    return of("rocksdb-session-transactional", name)


def sessions_in_memory() -> OneKeyStore:
    """Sessions in memory."""
    return of("in-memory-session")


def sessions_with_timestamps() -> OneKeyStore:
    """Sessions on RocksDB, with timestamps."""
    return of("rocksdb-session-timestamped")
