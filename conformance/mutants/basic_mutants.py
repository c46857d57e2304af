"""Stores with mistakes in the plain methods; see the table in the package."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from weakref import WeakSet

from sortedcontainers import SortedDict

from streamproof.stores.api import (
    KeyValueIterator,
    KeyValueStore,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.errors import InvalidStateStoreError
from streamproof.stores.iterators import RowIterator, StoreIterator
from streamproof.stores.memory import InMemoryKeyValueStore
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.single_file import SingleFileStore
from streamproof.stores.transactional import TransactionalKeyValueStore, TransactionalRocksDBStore
from streamproof.stores.transactions import Transaction

NAME = "store"

INT_MAX = 2**31 - 1
"""The largest signed number of four bytes."""

LONGEST = 2**16 - 1
"""The largest length that two bytes can hold, in bytes."""

SPILLED_BYTES = 64 * 1024
"""More staged bytes reach the database before the commit."""

SPILLED_ROWS = 1_000
"""More staged rows reach the database before the commit."""

Offsets = Mapping[TopicPartition, int | None]


# The life cycle.


class open_flag_stays(RocksDBStore):
    """Stays open after close."""

    def __init__(self) -> None:
        super().__init__(NAME)

    @property
    def is_open(self) -> bool:
        return self._context is not None


class close_twice_raises(RocksDBStore):
    """Raises on a second close."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def close(self) -> None:
        self._opened()
        super().close()


class closed_store_is_empty(RocksDBStore):
    """Answers like an empty store after close."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def get(self, key: bytes) -> bytes | None:
        return super().get(key) if self.is_open else None


class rows_of_the_class(InMemoryKeyValueStore):
    """Keeps its rows in a class attribute, which all tasks share."""

    rows: SortedDict[bytes, bytes] = SortedDict()

    def __init__(self) -> None:
        super().__init__(NAME)

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        self._rows = self.rows


# Point operations.


class put_if_absent_overwrites(RocksDBStore):
    """Writes the value even if the key has one."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def put_if_absent(self, key: bytes, value: bytes | None) -> bytes | None:
        old = self.get(key)
        self.put(key, value)
        return old


class first_entry_of_a_batch_wins(RocksDBStore):
    """Writes each key of a batch once, with its first value."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        first: dict[bytes, bytes | None] = {}
        for key, value in entries:
            first.setdefault(key, value)
        super().put_all(first.items())


class delete_tells_nothing(RocksDBStore):
    """Deletes without reading the old value."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def delete(self, key: bytes) -> bytes | None:
        self.put(key, None)
        return None


class none_is_no_value(RocksDBStore):
    """Ignores a put of None."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def put(self, key: bytes, value: bytes | None) -> None:
        if value is not None:
            super().put(key, value)

    def delete(self, key: bytes) -> bytes | None:
        old = self.get(key)
        super().put(key, None)
        return old


class keys_end_at_a_zero(RocksDBStore):
    """Treats keys as C strings."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def get(self, key: bytes) -> bytes | None:
        return super().get(key.rstrip(b"\0") or key)

    def put(self, key: bytes, value: bytes | None) -> None:
        super().put(key.rstrip(b"\0") or key, value)


class lengths_of_two_bytes(RocksDBStore):
    """Keeps only as many bytes of a value as a two-byte length can count."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def put(self, key: bytes, value: bytes | None) -> None:
        super().put(key, value and value[:LONGEST])


class large_values_are_lost_at_opening(RocksDBStore):
    """Keeps large values in memory, as a store would that forgets to write their files."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        with self.all() as rows:
            large = [key for key, value in rows if len(value) > LONGEST]
        for key in large:
            super().put(key, None)


class batches_miss_the_cache(RocksDBStore):
    """Has a read cache that batches do not clear."""

    def __init__(self) -> None:
        super().__init__(NAME)
        self._cache: dict[bytes, bytes | None] = {}

    def get(self, key: bytes) -> bytes | None:
        if key not in self._cache:
            self._cache[key] = super().get(key)
        return self._cache[key]

    def put(self, key: bytes, value: bytes | None) -> None:
        super().put(key, value)
        self._cache[key] = value


class inverted_ranges_are_turned(RocksDBStore):
    """Swaps the bounds of a range if they are in the wrong order."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def range(self, from_key: bytes | None, to_key: bytes | None) -> RowIterator:
        if from_key is not None and to_key is not None:
            from_key, to_key = sorted((from_key, to_key))
        return super().range(from_key, to_key)


class the_empty_prefix_finds_nothing(RocksDBStore):
    """Takes a prefix without bytes for the prefix of no key."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def prefix_scan(self, prefix: bytes) -> RowIterator:
        return super().prefix_scan(prefix) if prefix else super().range(b"b", b"a")


class one_key_backward_is_none(RocksDBStore):
    """Takes equal bounds for an empty range, in reverse alone."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> RowIterator:
        if from_key is not None and from_key == to_key:
            return super().reverse_range(b"b", b"a")
        return super().reverse_range(from_key, to_key)


# Offsets.


class new_store_is_at_zero(RocksDBStore):
    """Starts with the offset 0."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def committed_offset(self, partition: TopicPartition) -> int | None:
        return super().committed_offset(partition) or 0


class commit_replaces_all_offsets(RocksDBStore):
    """Keeps only the offsets of the last commit."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def commit(self, changelog_offsets: Offsets) -> None:
        forgotten = dict.fromkeys(self.committed_offsets().keys() - changelog_offsets.keys())
        super().commit({**forgotten, **changelog_offsets})


class offsets_of_four_bytes(RocksDBStore):
    """Keeps offsets in four bytes instead of eight."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def commit(self, changelog_offsets: Offsets) -> None:
        super().commit(
            {
                partition: None if offset is None else offset & INT_MAX
                for partition, offset in changelog_offsets.items()
            }
        )


class none_is_offset_zero(RocksDBStore):
    """Treats None as the offset 0."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def commit(self, changelog_offsets: Offsets) -> None:
        super().commit({each: offset or 0 for each, offset in changelog_offsets.items()})


class partition_appended_to_the_topic(RocksDBStore):
    """Keeps an offset under the topic and the partition without a separator."""

    def __init__(self) -> None:
        super().__init__(NAME)

    @staticmethod
    def _key(partition: TopicPartition) -> TopicPartition:
        return TopicPartition(f"{partition.topic}{partition.partition}", 0)

    def commit(self, changelog_offsets: Offsets) -> None:
        super().commit({self._key(each): changelog_offsets[each] for each in changelog_offsets})

    def committed_offset(self, partition: TopicPartition) -> int | None:
        return super().committed_offset(self._key(partition))


class commit_without_writes_is_skipped(RocksDBStore):
    """Commits only if the store was written to."""

    def __init__(self) -> None:
        super().__init__(NAME)
        self._written = False

    def put(self, key: bytes, value: bytes | None) -> None:
        super().put(key, value)
        self._written = True

    def commit(self, changelog_offsets: Offsets) -> None:
        if self._written or not changelog_offsets:
            super().commit(changelog_offsets)
            self._written = False


# Commits.


class commit_with_nothing_new_raises(RocksDBStore):
    """Refuses to commit the offsets that it already has."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def commit(self, changelog_offsets: Offsets) -> None:
        if changelog_offsets and self.committed_offsets() == changelog_offsets:
            raise InvalidStateStoreError(f"Store {self.name!r} has nothing to commit.")
        super().commit(changelog_offsets)


class commit_flushes_nothing(SingleFileStore):
    """Writes its file only when it is closed, as if the default of commit did nothing."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def commit(self, changelog_offsets: Offsets) -> None:
        self._opened()

    def close(self) -> None:
        if self.is_open:
            self.flush()
        super().close()


class flush_is_refused(InMemoryKeyValueStore):
    """Raises on the deprecated flush, instead of doing nothing."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def flush(self) -> None:
        raise NotImplementedError("flush is deprecated; call commit.")


def offsets_left_to_the_runtime() -> KeyValueStore:
    """Is persistent, and leaves its offsets to a file of the runtime."""
    return RocksDBStore(NAME, manages_offsets=False)


class _FlushCommits(TransactionalKeyValueStore):
    def flush(self) -> None:
        # The offsets stay unchanged, so the commit does not show.
        self.commit({TopicPartition("none", 0): None})
        super().flush()


def flush_commits() -> KeyValueStore:
    """Commits staged writes on flush."""
    return _FlushCommits(TransactionalRocksDBStore(NAME))


class _CloseCommits(TransactionalKeyValueStore):
    def close(self) -> None:
        if self.is_open:
            self.commit({TopicPartition("none", 0): None})
        super().close()


def close_commits() -> KeyValueStore:
    """Commits staged writes on close."""
    return _CloseCommits(TransactionalRocksDBStore(NAME))


class _Spills(TransactionalKeyValueStore):
    def put(self, key: bytes, value: bytes | None) -> None:
        super().put(key, value)
        if self.approximate_num_uncommitted_bytes() > SPILLED_BYTES:
            super().commit({})


def large_transactions_spill() -> KeyValueStore:
    """Writes what is staged to the database once it is large."""
    return _Spills(TransactionalRocksDBStore(NAME))


class _SpillsRows(TransactionalKeyValueStore):
    def put(self, key: bytes, value: bytes | None) -> None:
        super().put(key, value)
        if self.approximate_num_uncommitted_entries() > SPILLED_ROWS:
            super().commit({})


def many_staged_rows_spill() -> KeyValueStore:
    """Writes what is staged to the database once it has many rows."""
    return _SpillsRows(TransactionalRocksDBStore(NAME))


class _LosesStaged(TransactionalKeyValueStore):
    def commit(self, changelog_offsets: Offsets) -> None:
        if isinstance(self._target, Transaction):
            self._target.close()
        super().commit(changelog_offsets)


def commit_discards_what_is_staged() -> KeyValueStore:
    """Closes the transaction before the commit, so the commit finds none."""
    return _LosesStaged(TransactionalRocksDBStore(NAME))


# Bad input.


class none_key_is_the_empty_key(RocksDBStore):
    """Treats None as the empty key."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def get(self, key: bytes) -> bytes | None:
        return super().get(key or b"")

    def put(self, key: bytes, value: bytes | None) -> None:
        super().put(key or b"", value)


class batch_written_up_to_the_bad_key(RocksDBStore):
    """Writes the entries of a batch one by one until it refuses one."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        for key, value in entries:
            self.put(key, value)


class another_directory_will_do(RocksDBStore):
    """Opens somewhere else if the directory cannot be used."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        directory = context.state_dir
        if not directory.is_dir():
            elsewhere = directory.with_name(f"{directory.name}-elsewhere")
            context = dataclasses.replace(context, state_dir=elsewhere)
        super().init(context, root)


class iterators_outlive_their_store(InMemoryKeyValueStore):
    """Returns iterators over a copy that the store does not track."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def _iterator(self, keys: list[bytes]) -> KeyValueIterator:
        rows = [(key, self._rows[key]) for key in keys]
        return StoreIterator(self.name, iter(rows), WeakSet())


# Growth.

MOST_ROWS = 1_000
"""The rows of a store that forgets the row which was unused for the longest time."""


class rows_limited_in_number(InMemoryKeyValueStore):
    """Is a cache of the rows that were used last."""

    def __init__(self) -> None:
        super().__init__(NAME)
        self._used: dict[bytes, None] = {}

    def _write(self, key: bytes, value: bytes | None) -> None:
        super()._write(key, value)
        self._used.pop(key, None)
        if value is not None:
            self._used[key] = None
        if len(self._used) > MOST_ROWS:
            oldest = next(iter(self._used))
            del self._used[oldest]
            super()._write(oldest, None)

    def get(self, key: bytes) -> bytes | None:
        if key in self._used:
            self._used[key] = self._used.pop(key)
        return super().get(key)
