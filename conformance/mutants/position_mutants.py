"""Stores with wrong positions, and wrong metrics; see the table in the package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamproof.stores.api import (
    KeyValueStore,
    Position,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.rocksdb_database import Database
from streamproof.stores.transactional import (
    RocksDBTransaction,
    TransactionalKeyValueStore,
    TransactionalRocksDBStore,
)

NAME = "store"


class _Forgotten(RocksDBStore):
    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        self._position = Position()


def position_not_kept() -> KeyValueStore:
    """Keeps the position only in memory (KAFKA-13605)."""
    return _Forgotten(NAME)


class _Backward(RocksDBStore):
    def _record_position(self) -> None:
        context = self._context
        if context is not None and context.record_metadata is not None:
            topic, partition, offset = context.record_metadata
            offsets = self._position.as_dict() | {TopicPartition(topic, partition): offset}
            self._position = Position(offsets)


def position_goes_back() -> KeyValueStore:
    """Keeps the offset of the latest record, not the largest offset."""
    return _Backward(NAME)


class _Mixed(RocksDBStore):
    def _record_position(self) -> None:
        context = self._context
        if context is not None and context.record_metadata is not None:
            topic, _, offset = context.record_metadata
            self._position.update(topic, 0, offset)


def position_mixes_partitions() -> KeyValueStore:
    """Keeps one offset for all partitions of a topic."""
    return _Mixed(NAME)


class _EarlyTransaction(RocksDBTransaction):
    def put(self, key: bytes, value: bytes | None) -> None:
        super().put(key, value)
        store: Any = self._base
        store._position.merge(self.staged_position)  # noqa: SLF001


class _Early(TransactionalRocksDBStore):
    def create_transaction(self) -> RocksDBTransaction:
        self._opened()
        return _EarlyTransaction(self, self.context.isolation_level)


def position_of_staged_writes() -> KeyValueStore:
    """Moves the position when a write is staged, not when it is committed (KAFKA-20760)."""
    return TransactionalKeyValueStore(_Early(NAME))


class _Lagging(TransactionalRocksDBStore):
    @staticmethod
    def _add_offsets(
        database: Database,
        batch: Any,
        changelog_offsets: Mapping[TopicPartition, int | None],
        position: Position,
    ) -> None:
        lagging = Position(
            {partition: max(offset - 1, 0) for partition, offset in position.as_dict().items()}
        )
        RocksDBStore._add_offsets(database, batch, changelog_offsets, lagging)  # noqa: SLF001


def position_of_the_commit_before() -> KeyValueStore:
    """Stores a position that is one record behind the commit."""
    return TransactionalKeyValueStore(_Lagging(NAME))
