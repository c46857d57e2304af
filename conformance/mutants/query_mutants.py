"""Stores whose views show clients something wrong while a task runs; see the package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from streamproof.stores.api import (
    EntryIterator,
    IsolationLevel,
    KeyValueIterator,
    Position,
    ReadOnlyKeyValueStore,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.memory import InMemoryKeyValueStore
from streamproof.stores.transactional import TransactionalRocksDBStore

NAME = "store"


class _View:
    """Forwards to a store what a subclass does not read itself."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def all(self) -> EntryIterator[bytes, bytes]:
        found: EntryIterator[bytes, bytes] = self.range(None, None)
        return found


class _StagedRanges(_View):
    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        transactions: tuple[Any, ...] = self._store.open_transactions
        newest = transactions[-1] if transactions else self._store
        found: KeyValueIterator = newest.range(from_key, to_key)
        return found


class ranges_show_staged_rows(TransactionalRocksDBStore):
    """Scans of a committed view go through the transaction; gets do not."""

    def __init__(self) -> None:
        super().__init__(NAME)

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, transactional=True, read_only_views=True)

    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlyKeyValueStore:
        return cast(ReadOnlyKeyValueStore, _StagedRanges(self))


class _OldRows(_View):
    def get(self, key: bytes) -> bytes | None:
        value: bytes | None = self._store.shown.get(key)
        return value

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        old = InMemoryKeyValueStore(NAME)
        old.init(self._store.context, old)
        for key, value in self._store.shown.items():
            old.put(key, value)
        return old.range(from_key, to_key)


class _WithOldViews(InMemoryKeyValueStore):
    """Its views show the rows in ``shown``."""

    def __init__(self) -> None:
        super().__init__(NAME)
        self.context: StateStoreContext | None = None
        self.shown: dict[bytes, bytes] = {}

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        self.context = context
        self.shown = {}

    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlyKeyValueStore:
        return cast(ReadOnlyKeyValueStore, _OldRows(self))


class views_wait_for_the_commit(_WithOldViews):
    """Views are renewed by a commit only, as if every write were staged."""

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        super().commit(changelog_offsets)
        self.shown = dict(self._rows)


class views_miss_restored_rows(_WithOldViews):
    """Views learn of a row when it is put, and never of a restored one."""

    def put(self, key: bytes, value: bytes | None) -> None:
        super().put(key, value)
        if value is None:
            self.shown.pop(key, None)
        else:
            self.shown[key] = value


class position_waits_for_the_commit(InMemoryKeyValueStore):
    """Rows can be read at once, but the position is that of the last commit."""

    def __init__(self) -> None:
        super().__init__(NAME)
        self._told = Position()

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        self._told = Position()

    @property
    def position(self) -> Position:
        return self._told.copy()

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        super().commit(changelog_offsets)
        self._told = self._position.copy()
