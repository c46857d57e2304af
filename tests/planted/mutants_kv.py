"""Wrong key-value stores: each class has exactly one mistake, which its docstring names."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path
from weakref import WeakSet

from streamproof.stores.api import NO_TIMESTAMP, IsolationLevel, require_key
from streamproof.stores.checkpoint import TASK_CHECKPOINT, OffsetCheckpoint
from streamproof.stores.iterators import StoreIterator, is_inverted
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.runtime.cache import CachingKeyValueStore
from streamproof.stores.runtime.changelogging import change_logging
from streamproof.stores.runtime.metered import _MeteredKeyValueStore
from streamproof.stores.runtime.record_cache import RecordCache, StoreCache
from streamproof.stores.timestamped import RocksDBTimestampedStore
from streamproof.stores.transactional import (
    RocksDBTransaction,
    TransactionalKeyValueStore,
    TransactionalRocksDBStore,
    _UncommittedView,
)

PIECE_BYTES = 32 * 1024
LARGE_VALUE_BYTES = 32 * 1024
LONGEST_KEY = 1024


# --- data and offsets on crashes -------------------------------------------------------


class _Pieces:
    """A write target that writes a batch to the database whenever it is large."""

    def __init__(self, store, database):
        self._store, self._database = store, database
        self._new()

    def _new(self):
        self.batch = self._database.new_batch()
        self._records = self._store._records(self._database, self.batch)
        self._bytes = 0

    def _grown(self, count):
        self._bytes += count
        if self._bytes > PIECE_BYTES:
            self._database.write(self.batch)
            self._new()

    def put(self, key, value):
        self._records.put(key, value)
        self._grown(len(key) + len(value))

    def delete(self, key):
        self._records.delete(key)
        self._grown(len(key))

    def delete_range(self, begin, end):
        self._records.delete_range(begin, end)


class _InnerInPieces(TransactionalRocksDBStore):
    def commit_transactions(self, transactions, changelog_offsets):
        database = self._opened()
        pieces = _Pieces(self, database)
        position = self.position
        for transaction in transactions:
            transaction.writes.apply_to(pieces)
            position.merge(transaction.staged_position)
        self._add_offsets(database, pieces.batch, changelog_offsets, position)
        database.write(pieces.batch)
        self._position = position


class LargeCommitInPieces(TransactionalKeyValueStore):
    """A commit of more than 32 KiB is written in several batches, with the offsets in the last."""

    def __init__(self):
        super().__init__(_InnerInPieces("store"))


class _InnerOffsetsFirst(TransactionalRocksDBStore):
    def flush(self):
        database = self._opened()
        with database._failing("cannot be flushed"):
            database._await_room()
            database.offsets.flush()
            database.data.flush()


class FlushOffsetsFirst(TransactionalKeyValueStore):
    """``flush`` flushes the column families one by one, the offsets before the records."""

    def __init__(self):
        super().__init__(_InnerOffsetsFirst("store"))


class _InnerOffsetsWait(TransactionalRocksDBStore):
    def __init__(self, name):
        super().__init__(name)
        self._waiting = {}

    def init(self, context, root):
        super().init(context, root)
        self._waiting = {}

    def commit_transactions(self, transactions, changelog_offsets):
        if not changelog_offsets:
            self._waiting = {}
        elif transactions and not any(len(each.writes) for each in transactions):
            self._opened()
            self._waiting.update(changelog_offsets)
            return
        else:
            changelog_offsets = {**self._waiting, **changelog_offsets}
        super().commit_transactions(transactions, changelog_offsets)
        self._waiting = {}

    def committed_offset(self, partition):
        stored = super().committed_offset(partition)
        return self._waiting.get(partition, stored)

    def committed_offsets(self):
        merged = {**super().committed_offsets(), **self._waiting}
        return {each: offset for each, offset in merged.items() if offset is not None}

    def close(self):
        if self._database is not None and self._waiting:
            self.close_transactions()
            super().commit_transactions((), self._waiting)
            self._waiting = {}
        super().close()


class OffsetsOnlyCommitWaits(TransactionalKeyValueStore):
    """A commit without writes keeps its offsets in memory until the next commit with writes."""

    def __init__(self):
        super().__init__(_InnerOffsetsWait("store"))


# --- sizes -----------------------------------------------------------------------------


class LongKeysCut(RocksDBStore):
    """Keys are cut after 1024 bytes, so that long keys with a common beginning are one key."""

    def __init__(self):
        super().__init__("store")

    @staticmethod
    def _cut(key):
        return key if key is None else key[:LONGEST_KEY]

    def get(self, key):
        return super().get(self._cut(key))

    def put(self, key, value):
        super().put(self._cut(key), value)

    def put_all(self, entries):
        super().put_all([(self._cut(key), value) for key, value in entries])

    def restore(self, batch):
        super().restore([record._replace(key=self._cut(record.key)) for record in batch])


class _ThroughTransaction(RocksDBTransaction):
    def put(self, key, value):
        require_key(key)
        self.validate_is_open()
        if value is None or len(value) <= LARGE_VALUE_BYTES or key in self.writes._rows:
            super().put(key, value)
            return
        self._base._write_entries([(key, value)])
        if self._context.record_metadata is not None:
            self.staged_position.update(*self._context.record_metadata)


class _InnerThrough(TransactionalRocksDBStore):
    def create_transaction(self):
        return _ThroughTransaction(self, self.context.isolation_level)


class LargeValuesGoThrough(TransactionalKeyValueStore):
    """A value of more than 32 KiB is not staged but written to the database at once."""

    def __init__(self):
        super().__init__(_InnerThrough("store"))


# --- iterators -------------------------------------------------------------------------


class _LiveRows(list):
    """Staged rows whose values are looked up when the scan reaches them."""

    def __init__(self, rows, staged):
        super().__init__(rows)
        self._staged = staged

    def __iter__(self):
        for key, value in super().__iter__():
            yield key, self._staged.get(key, value)


class _LazyTransaction(RocksDBTransaction):
    def _overlay(self, staged, open_base):
        staged._rows = _LiveRows(staged._rows, self.writes._rows)
        return super()._overlay(staged, open_base)


class _InnerLazy(TransactionalRocksDBStore):
    def create_transaction(self):
        return _LazyTransaction(self, self.context.isolation_level)


class LazyStagedIterator(TransactionalKeyValueStore):
    """An open iterator looks staged values up when it reaches them, and so sees later puts."""

    def __init__(self):
        super().__init__(_InnerLazy("store"))


class PrefixScanOutlivesStore(RocksDBStore):
    """The iterator of ``prefix_scan`` is not registered, so ``close`` leaves it open, with its lock."""

    def __init__(self):
        super().__init__("store")

    def prefix_scan(self, prefix):
        require_key(prefix)
        return StoreIterator(self._name, self._prefix_rows(self._opened(), prefix), WeakSet())


# --- views, isolation, threads ---------------------------------------------------------


class _MissView:
    def __init__(self, below):
        self._below = below
        self._missing = set()

    def __getattr__(self, name):
        return getattr(self._below, name)

    def get(self, key):
        require_key(key)
        if key in self._missing and self._below.is_open:
            return None
        value = self._below.get(key)
        if value is None:
            self._missing.add(key)
        return value


class ViewRemembersMisses(TransactionalKeyValueStore):
    """A committed view remembers which keys were absent, and never sees a later commit of them."""

    def __init__(self):
        super().__init__(TransactionalRocksDBStore("store"))

    def read_only(self, isolation_level):
        view = super().read_only(isolation_level)
        return _MissView(view) if isolation_level is IsolationLevel.READ_COMMITTED else view


class _ShowsDeleted(_UncommittedView):
    def _scan(self, from_key, to_key, reverse):
        with self._switching:
            target = self._store._target
            if not isinstance(target, RocksDBTransaction) or is_inverted(from_key, to_key):
                name = "reverse_range" if reverse else "range"
                return getattr(self._store, name)(from_key, to_key)
            target.validate_is_open()
            staged = target.writes.snapshot(from_key, to_key, reverse=reverse)
            staged._rows = [row for row in staged._rows if row[1] is not None]
            base = target._base
            scan = base.reverse_range if reverse else base.range
            return target._overlay(staged, lambda: scan(from_key, to_key))

    def range(self, from_key, to_key):
        return self._scan(from_key, to_key, False)

    def reverse_range(self, from_key, to_key):
        return self._scan(from_key, to_key, True)


class UncommittedRangeShowsDeleted(TransactionalKeyValueStore):
    """Ranges of an uncommitted view ignore staged deletions, while ``get`` respects them."""

    def __init__(self):
        super().__init__(TransactionalRocksDBStore("store"))

    def read_only(self, isolation_level):
        if isolation_level is IsolationLevel.READ_COMMITTED:
            return super().read_only(isolation_level)
        return _ShowsDeleted(self, self._switching)


class UncommittedViewUnlocked(TransactionalKeyValueStore):
    """Uncommitted views take no lock, so a query from another thread may meet an ended transaction."""

    def __init__(self):
        super().__init__(TransactionalRocksDBStore("store"))

    def read_only(self, isolation_level):
        if isolation_level is IsolationLevel.READ_COMMITTED:
            return super().read_only(isolation_level)
        return _UncommittedView(self, nullcontext())


# --- transactions ----------------------------------------------------------------------


class _InnerNewestFirst(TransactionalRocksDBStore):
    def commit_transactions(self, transactions, changelog_offsets):
        super().commit_transactions(list(transactions)[::-1], changelog_offsets)


class NewestTransactionFirst(TransactionalKeyValueStore):
    """RIGHT: the commit applies open transactions newest first; the contract lets any of them win."""

    def __init__(self):
        super().__init__(_InnerNewestFirst("store"))


class _PositionTransaction(RocksDBTransaction):
    def close(self):
        if self._open:
            self._base._position.merge(self.staged_position)
        super().close()


class _InnerPosition(TransactionalRocksDBStore):
    def create_transaction(self):
        return _PositionTransaction(self, self.context.isolation_level)


class RollbackKeepsPosition(TransactionalKeyValueStore):
    """A transaction that is rolled back leaves its position in the store, and the next commit keeps it."""

    def __init__(self):
        super().__init__(_InnerPosition("store"))


class _ListTransaction(RocksDBTransaction):
    def put_all(self, entries):
        if isinstance(entries, list | tuple):
            super().put_all(entries)
            return
        self.validate_is_open()
        for key, value in entries:
            self.put(key, value)


class _InnerLists(TransactionalRocksDBStore):
    def create_transaction(self):
        return _ListTransaction(self, self.context.isolation_level)


class PutAllChecksListsOnly(TransactionalKeyValueStore):
    """``put_all`` of a generator stages the entries before a ``None`` key; only lists are checked first."""

    def __init__(self):
        super().__init__(_InnerLists("store"))


class _InnerShared(TransactionalRocksDBStore):
    _staging = {}

    def create_transaction(self):
        transaction = super().create_transaction()
        if not self.open_transactions:
            transaction.writes = self._staging.setdefault(self.name, transaction.writes)
        return transaction


class StagingSharedByName(TransactionalKeyValueStore):
    """Two stores of one name in one process (two tasks) share the buffer of staged writes."""

    def __init__(self):
        super().__init__(_InnerShared("store"))


# --- restoration, timestamps -----------------------------------------------------------


class _InnerRestore(TransactionalRocksDBStore):
    def restore(self, batch):
        deleted, latest = [], {}
        for record in batch:
            if record.value is not None:
                latest[record.key] = record.value
            elif record.key in latest:
                del latest[record.key]
            else:
                deleted.append((record.key, None))
        self._write_entries([*deleted, *latest.items()])


class RestoreCancelsTombstone(TransactionalKeyValueStore):
    """In a restored batch, a put and a later tombstone of its key cancel out, so an older row stays."""

    def __init__(self):
        super().__init__(_InnerRestore("store"))


class RestoredTimestampsFromClock(RocksDBTimestampedStore):
    """A restored record without a timestamp (-1) gets the current time of the machine."""

    def __init__(self):
        super().__init__("store")

    def init(self, context, root):
        super().init(context, root)
        restore = context.restore_callbacks[root.name]

        def stamped(records):
            now = int(time.time() * 1000)
            restore(
                [r._replace(timestamp=now) if r.timestamp == NO_TIMESTAMP else r for r in records]
            )

        context.register(root, stamped)


# --- downgrade -------------------------------------------------------------------------


class DowngradeOverwritesTaskCheckpoint(RocksDBStore):
    """A downgrade writes ``.checkpoint`` anew, without the entries of the task's other stores."""

    def __init__(self):
        super().__init__("store")

    def close(self):
        leaving = self._database is not None and self._downgrading and self._context is not None
        super().close()
        if leaving:
            topic = self._context.changelog_topic(self.name)
            file = OffsetCheckpoint(Path(self._context.state_dir) / TASK_CHECKPOINT)
            found = file.read(strict=True)
            own = {each: offset for each, offset in found.items() if each.topic == topic}
            if own != found:
                file.write(own)


# --- caches, metrics -------------------------------------------------------------------


class _ForgetfulCache(StoreCache):
    def evict(self, key):
        if key in self.dirty and self.dirty[key].value is None:
            self._remove(key)
            return
        super().evict(key)


class CacheForgetsEvictedDeletes(CachingKeyValueStore):
    """A cached deletion that is evicted for lack of room is dropped and not written to the store."""

    def __init__(self):
        super().__init__(change_logging(RocksDBStore("store")), RecordCache(4 * 1024))

    def init(self, context, root):
        super().init(context, root)
        self._entries = _ForgetfulCache(self.cache, self._write)


class CommitLatencyUnit(_MeteredKeyValueStore):
    """The latency of commits is recorded in milliseconds instead of nanoseconds."""

    def __init__(self):
        super().__init__(RocksDBStore("store"), "rocksdb")

    def commit(self, changelog_offsets):
        if self._metrics is None:
            self._inner.commit(changelog_offsets)
            return
        clock = self._metrics.clock
        start = clock()
        try:
            self._inner.commit(changelog_offsets)
        finally:
            self._commits.record(clock() - start)
