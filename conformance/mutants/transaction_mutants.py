"""Stores with wrong transactions, restorations or metrics; see the table in the package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from streamproof.stores.api import (
    ChangelogRecord,
    IsolationLevel,
    KeyValueIterator,
    KeyValueStore,
    Position,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.iterators import RowIterator
from streamproof.stores.memory import InMemoryKeyValueStore
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.runtime.changelogging import ChangeLoggingKeyValueStore
from streamproof.stores.runtime.metered import metered
from streamproof.stores.transactional import (
    RocksDBTransaction,
    TransactionalKeyValueStore,
    TransactionalRocksDBStore,
    TransactionalRows,
)

NAME = "store"

CHUNK = 512
"""The records that a restoration writes at a time."""

UNKNOWN_TIMESTAMP = b"\xff" * 8
"""The eight bytes of an unknown timestamp."""


# Transactions. Each store makes its own kind of transaction.


def _transactional(transaction_class: type[RocksDBTransaction]) -> KeyValueStore:
    class Store(TransactionalRocksDBStore):
        def create_transaction(self) -> RocksDBTransaction:
            self._opened()
            return transaction_class(self, self.context.isolation_level)

    return TransactionalKeyValueStore(Store(NAME))


class _DiscardsAfterAnError(TransactionalRocksDBStore):
    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        try:
            super().commit(changelog_offsets)
        finally:
            for transaction in self.open_transactions:
                transaction.close()


def failed_commit_discards() -> KeyValueStore:
    """Ends its transactions even if the commit fails."""
    return TransactionalKeyValueStore(_DiscardsAfterAnError(NAME))


class _ReadsTheStore(RocksDBTransaction):
    def get(self, key: bytes) -> bytes | None:
        self.validate_is_open()
        return self._base.get(key)


def transaction_reads_the_store() -> KeyValueStore:
    """Reads past its own writes."""
    return _transactional(_ReadsTheStore)


class _Unmerged(RocksDBTransaction):
    def range(self, from_key: bytes | None, to_key: bytes | None) -> RowIterator:
        self.validate_is_open()
        return self._base.range(from_key, to_key)


def transaction_scans_the_store() -> KeyValueStore:
    """Scans only committed entries."""
    return _transactional(_Unmerged)


class _NeverEnds(RocksDBTransaction):
    def _finish(self) -> None:
        super()._finish()
        self._open = True

    @property
    def is_open(self) -> bool:
        return self in self._base.open_transactions


def ended_transaction_goes_on() -> KeyValueStore:
    """Accepts writes after its end."""
    return _transactional(_NeverEnds)


class _ScansPrefixes(RocksDBTransaction):
    def prefix_scan(self, prefix: bytes) -> KeyValueIterator:
        return super().prefix_scan(prefix) if self._open else self._base.prefix_scan(prefix)


def ended_transaction_scans_prefixes() -> KeyValueStore:
    """Scans a prefix after its end, as if it were the store."""
    return _transactional(_ScansPrefixes)


class _CloseWrites(RocksDBTransaction):
    def close_transaction(self) -> None:
        if self.writes:
            self._base.commit_transactions((self,), {TopicPartition("none", 0): None})
        super().close_transaction()


class _CloseWritesStore(TransactionalRocksDBStore):
    def create_transaction(self) -> RocksDBTransaction:
        return _CloseWrites(self, self.context.isolation_level)

    def close_transactions(self) -> None:
        for transaction in self.open_transactions:
            # When the store closes, the transaction ends correctly.
            RocksDBTransaction.close_transaction(transaction)  # type: ignore[arg-type]
        super().close_transactions()


def closed_transaction_is_committed() -> KeyValueStore:
    """Writes staged entries on close, as a file does."""
    return TransactionalKeyValueStore(_CloseWritesStore(NAME))


class _BatchWritten(RocksDBTransaction):
    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        self._base.put_all(entries)


def batch_of_a_transaction_is_written() -> KeyValueStore:
    """Writes a batch to the store at once."""
    return _transactional(_BatchWritten)


class _OnlyTheOldest(TransactionalRocksDBStore):
    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        for transaction in self.open_transactions[2:]:
            transaction.close()
        super().commit(changelog_offsets)


def commit_takes_two_transactions() -> KeyValueStore:
    """Commits its own transaction and one more."""
    return TransactionalKeyValueStore(_OnlyTheOldest(NAME))


class _NeverLess(TransactionalRocksDBStore):
    most = 0

    def approximate_num_uncommitted_bytes(self) -> int:
        self.most = max(self.most, super().approximate_num_uncommitted_bytes())
        return self.most


def uncommitted_bytes_never_fall() -> KeyValueStore:
    """Also counts committed bytes as uncommitted."""
    return TransactionalKeyValueStore(_NeverLess(NAME))


class _CountsValues(RocksDBTransaction):
    def __init__(self, store: TransactionalRows, isolation_level: IsolationLevel) -> None:
        super().__init__(store, isolation_level)
        self._deleted: set[bytes] = set()

    def put(self, key: bytes, value: bytes | None) -> None:
        super().put(key, value)
        (self._deleted.add if value is None else self._deleted.discard)(key)

    def approximate_num_uncommitted_entries(self) -> int:
        return super().approximate_num_uncommitted_entries() - len(self._deleted)


def staged_deletes_are_not_counted() -> KeyValueStore:
    """Counts staged values alone, although the commit writes the deletes, too."""
    return _transactional(_CountsValues)


# Restoration.


class first_record_of_a_key_wins(RocksDBStore):
    """Restores each key of a batch once, from its first record."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def restore(self, batch: Sequence[ChangelogRecord]) -> None:
        first: dict[bytes, ChangelogRecord] = {}
        for record in batch:
            first.setdefault(record.key, record)
        super().restore(list(first.values()))


class restored_values_lose_a_timestamp(RocksDBStore):
    """Strips bytes that look like a timestamp."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def restore(self, batch: Sequence[ChangelogRecord]) -> None:
        super().restore(
            [
                record._replace(value=record.value and record.value.removeprefix(UNKNOWN_TIMESTAMP))
                for record in batch
            ]
        )


class _RestoresByPut(TransactionalKeyValueStore):
    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        context.register(root, self._restore)

    def _restore(self, batch: Sequence[ChangelogRecord]) -> None:
        for record in batch:
            self.put(record.key, record.value)


def restored_records_are_staged() -> KeyValueStore:
    """Restores through its own transaction."""
    return _RestoresByPut(TransactionalRocksDBStore(NAME))


class _LogsRestored(ChangeLoggingKeyValueStore):
    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        context.register(root, self._restore)

    def _restore(self, batch: Sequence[ChangelogRecord]) -> None:
        for record in batch:
            self.put(record.key, record.value)


def restoring_is_logged() -> KeyValueStore:
    """Sends restored records to the changelog again."""
    return _LogsRestored(RocksDBStore(NAME))


class _DeletesUnlogged(ChangeLoggingKeyValueStore):
    def delete(self, key: bytes) -> bytes | None:
        old: bytes | None = self._inner.delete(key)
        return old


def deletes_are_not_logged() -> KeyValueStore:
    """Sends no tombstone for a delete."""
    return _DeletesUnlogged(RocksDBStore(NAME))


class empty_batch_raises(RocksDBStore):
    """Reads the last record of every batch, even of an empty one."""

    def __init__(self) -> None:
        super().__init__(NAME)
        self._restored_to = -1

    def restore(self, batch: Sequence[ChangelogRecord]) -> None:
        super().restore(batch)
        self._restored_to = batch[-1].offset


class last_chunk_of_a_batch_lost(RocksDBStore):
    """Restores large batches in chunks, and forgets the last, smaller chunk."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def restore(self, batch: Sequence[ChangelogRecord]) -> None:
        for number in range(max(1, len(batch) // CHUNK)):
            super().restore(batch[number * CHUNK : (number + 1) * CHUNK])


class restoring_closes_iterators(RocksDBStore):
    """Closes open iterators before it restores."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def restore(self, batch: Sequence[ChangelogRecord]) -> None:
        for iterator in list(self._iterators):
            iterator.close()
        super().restore(batch)


class restored_again_is_added(InMemoryKeyValueStore):
    """Adds to the existing value, as a counter does."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        context.register(root, self._add)

    def _add(self, batch: Sequence[ChangelogRecord]) -> None:
        seen: set[bytes] = set()
        for record in batch:
            old = self.get(record.key) if record.key not in seen else None
            seen.add(record.key)
            value = record.value
            self._write(record.key, old + value if old and value else value)


# Metrics.


def _with_metrics(change: Callable[[Any, Any], None]) -> Any:
    """A metered store that changes itself or its metrics once they are registered."""
    store: Any = metered(RocksDBStore(NAME), "rocksdb")
    right = store._register  # noqa: SLF001

    def register(metrics: Any, task_id: str) -> None:
        right(metrics, task_id)
        change(store, metrics)

    store._register = register  # noqa: SLF001
    return store


def _registered_in(task_id: str) -> Any:
    """A metered store that names this task in its metrics, whatever its task is."""
    store: Any = metered(RocksDBStore(NAME), "rocksdb")
    right = store._register  # noqa: SLF001
    store._register = lambda metrics, _: right(metrics, task_id)  # noqa: SLF001
    return store


def metrics_without_the_task() -> Any:
    """Registers metrics that do not name the task."""
    return _registered_in("")


def commit_is_a_flush() -> Any:
    """Also records a commit as a flush."""
    store: Any = metered(RocksDBStore(NAME), "rocksdb")
    right = store.commit

    def commit(changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        right(changelog_offsets)
        store._flushes.record(0.0)  # noqa: SLF001

    store.commit = commit
    return store


def commits_take_no_time() -> Any:
    """Counts its commits, and measures a latency of 0 for each."""

    def change(store: Any, _: Any) -> None:
        record = store._commits.record  # noqa: SLF001
        store._commits = SimpleNamespace(record=lambda _: record(0.0))  # noqa: SLF001

    return _with_metrics(change)


def largest_latency_is_the_mean() -> Any:
    """Gives the mean latency for the largest."""

    def change(store: Any, metrics: Any) -> None:
        of_the_store = metrics._scopes[store._scope].metrics  # noqa: SLF001
        largest = of_the_store["commit-latency-max"]
        mean = of_the_store["commit-latency-avg"].value
        of_the_store["commit-latency-max"] = largest._replace(value=mean)

    return _with_metrics(change)


def mean_latency_is_the_last() -> Any:
    """Gives the latency of the last commit for the mean."""

    def change(store: Any, metrics: Any) -> None:
        last = [0.0]
        record = store._commits.record  # noqa: SLF001

        def note(latency: float) -> None:
            last.append(latency)
            record(latency)

        store._commits = SimpleNamespace(record=note)  # noqa: SLF001
        of_the_store = metrics._scopes[store._scope].metrics  # noqa: SLF001
        mean = of_the_store["commit-latency-avg"]
        of_the_store["commit-latency-avg"] = mean._replace(value=lambda: last[-1])

    return _with_metrics(change)


def flush_metrics_are_gone() -> Any:
    """Has removed the deprecated flush metrics."""

    def change(store: Any, metrics: Any) -> None:
        entry = metrics._scopes[store._scope]  # noqa: SLF001
        for name in [each for each in entry.metrics if each.startswith("flush-")]:
            del entry.metrics[name]

    return _with_metrics(change)


def staged_bytes_are_not_counted() -> Any:
    """Stages writes, and says that no byte is uncommitted."""

    class Store(TransactionalKeyValueStore):
        def approximate_num_uncommitted_bytes(self) -> int:
            return 0

    return metered(Store(TransactionalRocksDBStore(NAME)), "rocksdb")


def staged_bytes_are_unknown() -> Any:
    """Stages writes, and says that it does not know how many bytes are uncommitted."""

    class Store(TransactionalKeyValueStore):
        def approximate_num_uncommitted_bytes(self) -> int:
            return -1

    return metered(Store(TransactionalRocksDBStore(NAME)), "rocksdb")


def commits_of_all_tasks_together() -> Any:
    """Registers its metrics only under the name of the store."""
    return _registered_in("0_0")


# Position.


class batches_move_no_position(RocksDBStore):
    """Does not move the position in put_all."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        checked = list(entries)
        position = self._position.copy()
        super().put_all(checked)
        self._position = position


class position_is_given_away(RocksDBStore):
    """Returns its own position instead of a copy."""

    def __init__(self) -> None:
        super().__init__(NAME)

    @property
    def position(self) -> Position:
        return self._position
