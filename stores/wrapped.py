"""Stores around another store, which pass every call on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from streamproof.stores.api import (
    ChangelogRecord,
    IsolationLevel,
    KeyValueIterator,
    KeyValueStore,
    Position,
    ReadOnlyKeyValueStore,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.errors import UnsupportedOperationError

__all__ = ["WrappedKeyValueStore", "WrappedStateStore"]

S = TypeVar("S", bound=StateStore)


class WrappedStateStore(StateStore, Generic[S]):
    """Passes the life cycle to an inner store of any kind (Kafka: WrappedStateStore)."""

    def __init__(self, inner: S) -> None:
        self._inner = inner

    @property
    def inner(self) -> S:
        """The store that is wrapped."""
        return self._inner

    @property
    def name(self) -> str:
        """The name of the inner store."""
        return self._inner.name

    @property
    def persistent(self) -> bool:
        """Whether the content outlives the process."""
        return self._inner.persistent

    @property
    def is_open(self) -> bool:
        """Whether the store can be read and written."""
        return self._inner.is_open

    @property
    def manages_offsets(self) -> bool:
        """Whether the inner store keeps changelog offsets itself (KIP-1035)."""
        return self._inner.manages_offsets

    @property
    def position(self) -> Position:
        """The input offsets that the content reflects (KIP-796)."""
        return self._inner.position

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the inner store, which registers its callback under the name of the root."""
        self._inner.init(context, root)

    def close(self) -> None:
        """Close the inner store."""
        self._inner.close()

    def flush(self) -> None:
        """Flush the inner store."""
        self._inner.flush()

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit the inner store."""
        self._inner.commit(changelog_offsets)

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """The committed offset of the inner store."""
        return self._inner.committed_offset(partition)

    def new_transaction(self) -> StateStore:
        """A new transaction of the inner store; this store, if that one has none (KIP-892)."""
        transaction = self._inner.new_transaction()
        return self if transaction is self._inner else transaction

    def approximate_num_uncommitted_entries(self) -> int:
        """About how many records of the inner store await ``commit``."""
        return self._inner.approximate_num_uncommitted_entries()

    def approximate_num_uncommitted_bytes(self) -> int:
        """About how many bytes of the inner store await ``commit``."""
        return self._inner.approximate_num_uncommitted_bytes()

    # --- the upgrade in place, if the inner store has one (KIP-258) --------------------

    def rebuild(self, partition: TopicPartition, records: Sequence[ChangelogRecord]) -> None:
        """Feed the new format of the inner store; see ``UpgradableStore.rebuild``."""
        self._upgradable.rebuild(partition, records)

    def rebuilt_offset(self, partition: TopicPartition) -> int | None:
        """The offset of the last record that was fed to the inner store."""
        offset: int | None = self._upgradable.rebuilt_offset(partition)
        return offset

    @property
    def prepared(self) -> bool:
        """Whether the new format of the inner store has caught up."""
        return bool(self._upgradable.prepared)

    @property
    def _upgradable(self) -> Any:
        if not callable(getattr(type(self._inner), "rebuild", None)):
            raise UnsupportedOperationError(f"Store {self.name!r} has no upgrade in place.")
        return self._inner


class WrappedKeyValueStore(WrappedStateStore[KeyValueStore], KeyValueStore):
    """Passes the life cycle to the inner store, and reads and writes to ``_target``.

    ``_target`` is the inner store too, unless a subclass points it elsewhere.
    """

    def __init__(self, inner: KeyValueStore) -> None:
        super().__init__(inner)
        self._target = inner

    @property
    def position(self) -> Position:
        """The input offsets that the content reflects (KIP-796)."""
        return self._target.position

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``, or ``None``."""
        return self._target.get(key)

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of ``key``; ``None`` deletes it."""
        self._target.put(key, value)

    def put_if_absent(self, key: bytes, value: bytes | None) -> bytes | None:
        """Set the value if the key has none; return the previous value, or ``None``."""
        return self._target.put_if_absent(key, value)

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Put all entries; if one key is ``None``, none is written."""
        self._target.put_all(entries)

    def delete(self, key: bytes) -> bytes | None:
        """Delete ``key`` and return the value it had, or ``None``."""
        return self._target.delete(key)

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The entries from ``from_key`` to ``to_key``, both inclusive, ascending."""
        return self._target.range(from_key, to_key)

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The same entries as ``range``, descending."""
        return self._target.reverse_range(from_key, to_key)

    def prefix_scan(self, prefix: bytes) -> KeyValueIterator:
        """Every entry whose key starts with ``prefix``, ascending."""
        return self._target.prefix_scan(prefix)

    def approximate_num_entries(self) -> int:
        """The approximate number of entries; it may leave out staged writes."""
        return self._inner.approximate_num_entries()

    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlyKeyValueStore:
        """The view that the inner store gives for queries."""
        return self._inner.read_only(isolation_level)
