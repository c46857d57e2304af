"""Stores whose answers depend on irrelevant conditions; see the table in the package."""

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
"""The number of slots in a table that keeps one key for each slot."""


class _Boundary(RocksDBStore):
    """Hides the last row of a commit from scans until the row is written again."""

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
        # A commit begins after the last key of the previous commit.
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
    """Empties values of one repeated byte at opening, because they look like padding."""
    return _Compacting(NAME)


class _FirstOfBatch(RocksDBStore):
    def restore(self, batch: Sequence[ChangelogRecord]) -> None:
        records = {record.key: record for record in reversed(batch)}
        super().restore(list(records.values()))


def first_record_of_a_batch_counts() -> KeyValueStore:
    """Keeps the first of several records of a key in a batch."""
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
    """Appends restored values to existing values."""
    return _Appending(NAME)


class _Trimming(RocksDBStore):
    def restore(self, batch: Sequence[ChangelogRecord]) -> None:
        super().restore(
            [each._replace(value=each.value and each.value.rstrip(b"\x00")) for each in batch]
        )


def restored_values_lose_their_zeros() -> KeyValueStore:
    """Strips the trailing zero bytes of a restored value as padding."""
    return _Trimming(NAME)


class _Slots(RocksDBStore):
    """One key for each slot: a new key replaces the key that the slot held."""

    def put(self, key: bytes, value: bytes | None) -> None:
        with super().range(None, None) as rows:
            others = [other for other, _ in rows if other != key and _slot(other) == _slot(key)]
        for other in others:
            super().put(other, None)
        super().put(key, value)


def _slot(key: bytes) -> int:
    return sum(key) % SLOTS


def keys_share_a_slot() -> KeyValueStore:
    """Keeps only the last of several keys with the same hash."""
    return _Slots(NAME)


class _ForgetsWhy(RocksDBStore):
    def put_if_absent(self, key: bytes, value: bytes | None) -> bytes | None:
        existing = super().put_if_absent(key, value)
        return value if existing is None else existing


def put_if_absent_tells_the_new_value() -> KeyValueStore:
    """Returns the value after the call instead of the value before."""
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
    """Stages its own writes correctly. The mistake is in the transactions that it returns."""

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
    """Uses the byte 0xFF as the upper bound of a range that has only a lower bound."""
    return _HighKeys(NAME)


class forward_windows_only(_Wrong):
    """Drops a window that starts before another window of the same key."""

    def __init__(self) -> None:
        super().__init__()
        self.latest: dict[bytes, int] = {}

    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        if window_start >= self.latest.get(key, 0):
            self.latest[key] = window_start
            self.right.put(key, value, window_start)


class point_fetch_rounds_down(_Wrong):
    """Rounds the time of a single-window fetch down to ten milliseconds."""

    def fetch(self, key: bytes, time: int) -> Any:
        return self.right.fetch(key, time - time % 10)


class forward_sessions_only(_Wrong):
    """Drops a session that ends before another session of the same key."""

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
