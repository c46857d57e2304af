"""Stores in which something matters that must not; see the table in the package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from streamproof.conformance.mutants.window_mutants import _Wrong
from streamproof.stores.api import (
    ChangelogRecord,
    KeyValueStore,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.iterators import RowIterator
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.transactional import (
    RocksDBTransaction,
    TransactionalKeyValueStore,
    TransactionalRocksDBStore,
)
from streamproof.stores.windowed import memory_sessions

NAME = "store"

SLOTS = 8
"""Of how many keys a table with collisions keeps one each."""


class _Boundary(RocksDBStore):
    """Hides the last row of a commit from scans, until it is written again."""

    def __init__(self) -> None:
        super().__init__(NAME)
        self._last: bytes | None = None
        self._boundaries: list[bytes | None] = []

    def put(self, key: bytes, value: bytes | None) -> None:
        super().put(key, value)
        self._last = key

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        super().commit(changelog_offsets)
        self._boundaries.append(self._last)

    def range(self, from_key: bytes | None, to_key: bytes | None) -> RowIterator:
        # What lies between two commits begins after the key at which the earlier one ended.
        inner = {key for key in self._boundaries[:-1] if key != self._last}
        rows = super().range(from_key, to_key)
        return self.open_iterator((row for row in rows if row[0] not in inner), rows.close)


def scans_miss_the_boundary_of_a_commit() -> KeyValueStore:
    """Leaves the last keys of earlier commits out of scans."""
    return _Boundary()


class _Compacting(RocksDBStore):
    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        with super().range(None, None) as rows:
            idle = [key for key, value in rows if len(set(value)) < 2 and len(value) > 0]
        for key in idle:
            self.put(key, b"")


def opening_compacts_values() -> KeyValueStore:
    """Empties the values of one repeated byte, which look like padding, when it opens."""
    return _Compacting(NAME)


class _FirstOfBatch(RocksDBStore):
    def restore(self, batch: Sequence[ChangelogRecord]) -> None:
        records = {record.key: record for record in reversed(batch)}
        super().restore(list(records.values()))


def first_record_of_a_batch_counts() -> KeyValueStore:
    """Keeps, of several records of a key in a batch, the first."""
    return _FirstOfBatch(NAME)


class _Appending(RocksDBStore):
    def restore(self, batch: Sequence[ChangelogRecord]) -> None:
        known = {record.key: self.get(record.key) for record in batch}
        super().restore(batch)
        for key, value in known.items():
            restored = self.get(key)
            if value and restored:
                self.put(key, value + restored)


def restoring_again_appends() -> KeyValueStore:
    """Appends what it restores to what is there."""
    return _Appending(NAME)


class _Trimming(RocksDBStore):
    def restore(self, batch: Sequence[ChangelogRecord]) -> None:
        super().restore(
            [each._replace(value=each.value and each.value.rstrip(b"\x00")) for each in batch]
        )


def restored_values_lose_their_zeros() -> KeyValueStore:
    """Takes the zero bytes at the end of a restored value for padding."""
    return _Trimming(NAME)


class _Slots(RocksDBStore):
    """One key for each slot: the last key that was put there moves the one before out."""

    def put(self, key: bytes, value: bytes | None) -> None:
        with super().range(None, None) as rows:
            others = [other for other, _ in rows if other != key and _slot(other) == _slot(key)]
        for other in others:
            super().put(other, None)
        super().put(key, value)


def _slot(key: bytes) -> int:
    return sum(key) % SLOTS


def keys_share_a_slot() -> KeyValueStore:
    """Keeps one key of those that collide in a table without chains: the last."""
    return _Slots(NAME)


class _ForgetsWhy(RocksDBStore):
    def put_if_absent(self, key: bytes, value: bytes | None) -> bytes | None:
        existing = super().put_if_absent(key, value)
        return value if existing is None else existing


def put_if_absent_tells_the_new_value() -> KeyValueStore:
    """Answers with the value that is there afterwards, and not with the one before."""
    return _ForgetsWhy(NAME)


class _DeleteWins(RocksDBTransaction):
    explicit = True

    def put(self, key: bytes, value: bytes | None) -> None:
        if self.explicit and value is not None and self.writes.lookup(key) is None:
            return
        super().put(key, value)


class _Deleting(TransactionalRocksDBStore):
    def create_transaction(self) -> RocksDBTransaction:
        return _DeleteWins(self, self.context.isolation_level)


class _OwnIsRight(TransactionalKeyValueStore):
    """What the store stages itself is right; the mistake is in what it gives away."""

    def _begin(self) -> None:
        super()._begin()
        if isinstance(self._target, _DeleteWins):
            self._target.explicit = False


def delete_wins_in_a_transaction() -> KeyValueStore:
    """Ignores a put to a key that the same transaction has deleted."""
    return _OwnIsRight(_Deleting(NAME))


class _HighKeys(RocksDBStore):
    def range(self, from_key: bytes | None, to_key: bytes | None) -> RowIterator:
        if from_key is not None and to_key is None:
            to_key = b"\xff"
        return super().range(from_key, to_key)


def open_ranges_end_at_ff() -> KeyValueStore:
    """Takes the byte 0xFF for the end of all keys where a range has a lower bound only."""
    return _HighKeys(NAME)


class forward_windows_only(_Wrong):
    """Drops a window that starts before one that the same key already has."""

    def __init__(self) -> None:
        super().__init__()
        self.latest: dict[bytes, int] = {}

    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        if window_start >= self.latest.get(key, 0):
            self.latest[key] = window_start
            self.right.put(key, value, window_start)


class point_fetch_rounds_down(_Wrong):
    """Aligns the time of a fetch of one window to ten milliseconds."""

    def fetch(self, key: bytes, time: int) -> Any:
        return self.right.fetch(key, time - time % 10)


class forward_sessions_only(_Wrong):
    """Drops a session that ends before one that the same key already has."""

    make = staticmethod(memory_sessions.default_store)

    def __init__(self) -> None:
        super().__init__()
        self.latest: dict[bytes, int] = {}

    def put(self, session: Any, aggregate: bytes | None) -> None:
        (key, (_, end)) = session
        if end >= self.latest.get(key, 0):
            self.latest[key] = end
            self.right.put(session, aggregate)


class range_of_sessions_excludes_its_end(_Wrong):
    """Leaves out the sessions of the upper key of a range."""

    make = staticmethod(memory_sessions.default_store)

    def fetch_range(self, from_key: bytes | None, to_key: bytes | None) -> Any:
        entries = self.right.fetch_range(from_key, to_key)
        upper: Iterable[bytes | None] = () if to_key is None else (to_key,)
        return self.changed(entries, lambda rows: (row for row in rows if row[0].key not in upper))
