"""More wrong key-value stores, on SQLite, RocksDB and LevelDB: one mistake each, named first."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import sqlite3
import threading
from dataclasses import replace
from pathlib import Path
from weakref import WeakSet

import plyvel
from sortedcontainers import SortedDict
from volume_and_timing import _Log, make_directory, sync_directory

from streamproof import (
    Capabilities,
    InvalidStateStoreError,
    KeyValueStore,
    ProcessorStateError,
    StoreIterator,
    TopicPartition,
    require_key,
)
from streamproof.stores.api import IsolationLevel
from streamproof.stores.iterators import prefix_end
from streamproof.stores.offset_import import OffsetImport
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.rocksdb_scans import scan_prefix, scan_range
from streamproof.stores.transactional import (
    RocksDBTransaction,
    TransactionalKeyValueStore,
    TransactionalRocksDBStore,
)

logger = logging.getLogger("planted")

CHUNK_BYTES = 8 * 1024


class _Sqlite(KeyValueStore):
    """Rows and offsets in one SQLite database, whose transaction is open from commit to commit."""

    capabilities = Capabilities(transactional=True, durability="power")
    persistent = True
    manages_offsets = True
    pragmas = ("PRAGMA synchronous = EXTRA",)
    offset_type = "INTEGER"

    def __init__(self, name="planted"):
        self._name = name
        self.db = None
        self._iterators = WeakSet()
        self._staged = self._staged_bytes = 0

    # --- life cycle

    @property
    def name(self):
        return self._name

    @property
    def is_open(self):
        return self.db is not None

    def file(self, context):
        return Path(context.state_dir) / f"{self._name}.sqlite"

    def init(self, context, root):
        if self.db is not None:
            raise InvalidStateStoreError("The store is already open.")
        path = self.file(context)
        try:
            make_directory(path.parent)
            self.connect(path, context)
        except (OSError, sqlite3.Error) as error:
            raise ProcessorStateError(f"{path} cannot be used: {error}") from error
        self._staged = self._staged_bytes = 0
        context.register(root, self.restore)

    def connect(self, path, context):
        fresh = not path.exists()
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
        try:
            for pragma in self.pragmas:
                db.execute(pragma)
            self.require_whole(db)
            db.execute("BEGIN IMMEDIATE")
            self.make_tables(db)
            db.execute("COMMIT")
            self.opened_database(db, context, fresh=fresh)
            db.execute("BEGIN IMMEDIATE")
        except BaseException:
            db.close()
            raise
        if fresh:
            sync_directory(path.parent)
        self.db = db

    @staticmethod
    def require_whole(db):
        (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise sqlite3.DatabaseError(found)

    def make_tables(self, db):
        db.execute(
            "CREATE TABLE IF NOT EXISTS rows (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID"
        )
        db.execute(
            f"CREATE TABLE IF NOT EXISTS offsets (t TEXT, p INT, o {self.offset_type} NOT NULL,"
            " PRIMARY KEY (t, p)) WITHOUT ROWID"
        )

    def opened_database(self, db, context, *, fresh):
        """What an opening does beside the tables."""

    def close(self):
        if self.db is None:
            return
        for iterator in list(self._iterators):
            iterator.close()
        db, self.db = self.db, None
        db.close()

    def sql(self, sql, *arguments):
        if self.db is None:
            raise InvalidStateStoreError("The store is not open.")
        try:
            return self.db.execute(sql, arguments).fetchall()
        except sqlite3.Error as error:
            if not self.db.in_transaction:
                self.close()  # What was staged is gone, so nothing may be committed.
            raise ProcessorStateError(f"Store {self._name!r} failed: {error}") from error

    # --- commit

    def topic(self, partition):
        return partition[0]

    def commit(self, changelog_offsets):
        self.sql("SELECT 1")
        checked = [
            (self.topic(partition), int(partition[1]), None if offset is None else int(offset))
            for partition, offset in changelog_offsets.items()
        ]
        if not checked:
            self.sql("DELETE FROM offsets")
        for topic, number, offset in checked:
            if offset is None:
                self.sql("DELETE FROM offsets WHERE t = ? AND p = ?", topic, number)
            else:
                self.sql("REPLACE INTO offsets VALUES (?, ?, ?)", topic, number, offset)
        self.end_transaction()

    def end_transaction(self):
        self.sql("COMMIT")
        self.sql("BEGIN IMMEDIATE")
        self._staged = self._staged_bytes = 0

    def committed_offset(self, partition):
        found = self.sql(
            "SELECT o FROM offsets WHERE t = ? AND p = ?", self.topic(partition), partition[1]
        )
        return int(found[0][0]) if found else None

    def flush(self):
        self.sql("SELECT 1")

    def restore(self, batch):
        for record in batch:
            self.put(record.key, record.value)

    # --- rows

    def get(self, key):
        require_key(key)
        found = self.sql("SELECT v FROM rows WHERE k = ?", key)
        return found[0][0] if found else None

    def put(self, key, value):
        require_key(key)
        if value is None:
            self.sql("DELETE FROM rows WHERE k = ?", key)
        else:
            self.sql("REPLACE INTO rows VALUES (?, ?)", key, value)
        self._staged += 1
        self._staged_bytes += len(key) + len(value or b"")

    def between(self, low, high, *, closed=True, reverse=False):
        rows = self.sql(
            "SELECT k, v FROM rows WHERE (?1 IS NULL OR k >= ?1) AND (?2 IS NULL OR k < ?2 OR"
            " (?3 AND k = ?2)) ORDER BY k",
            low,
            high,
            closed,
        )
        return StoreIterator(self._name, iter(rows[::-1] if reverse else rows), self._iterators)

    def range(self, from_key, to_key):
        return self.between(from_key, to_key)

    def reverse_range(self, from_key, to_key):
        return self.between(from_key, to_key, reverse=True)

    def prefix_scan(self, prefix):
        require_key(prefix)
        return self.between(prefix, prefix_end(prefix), closed=False)

    def approximate_num_entries(self):
        return self.sql("SELECT count(*) FROM rows")[0][0]

    def approximate_num_uncommitted_entries(self):
        return self._staged

    def approximate_num_uncommitted_bytes(self):
        return self._staged_bytes


# --- commits and what they name --------------------------------------------------------


class ForgettingInTwoSteps(_Sqlite):
    """``commit({})`` commits the staged rows first, and forgets the offsets in a second transaction.

    Only the specifications of Kafka ask a store to forget offsets: ``--spec kafka-4.4``.
    """

    def commit(self, changelog_offsets):
        if not changelog_offsets:
            self.end_transaction()
        super().commit(changelog_offsets)


class OffsetsAsDoubles(_Sqlite):
    """Offsets are stored as floating-point numbers, so those beyond 2**53 are rounded."""

    offset_type = "REAL"


class TopicsCutAt64(_Sqlite):
    """The name of a topic is stored in a field of 64 bytes, so that long names with one beginning share their offsets."""

    def topic(self, partition):
        return partition[0][:64]


class RefusedCommitRollsBack(_Sqlite):
    """A commit that fails at its arguments rolls the transaction back, and with it what was staged."""

    def commit(self, changelog_offsets):
        try:
            super().commit(changelog_offsets)
        except ProcessorStateError:
            raise
        except Exception:
            if self.db is not None:
                self.sql("ROLLBACK")
                self.sql("BEGIN IMMEDIATE")
            raise


class ImportedOffsetsDeletedFirst(_Sqlite):
    """An opening deletes the offsets in ``.checkpoint`` before the transaction that takes them over is committed."""

    capabilities = Capabilities(transactional=True, durability="power", imports_offsets=True)

    def opened_database(self, db, context, *, fresh):
        left = OffsetImport(context, self._name, Path(context.state_dir) / f"{self._name}.none")
        if not left:
            return
        left.finish()
        if fresh:
            return  # Offsets without rows say nothing.
        db.execute("BEGIN IMMEDIATE")
        db.executemany(
            "INSERT OR IGNORE INTO offsets VALUES (?, ?, ?)",
            [(topic, number, offset) for (topic, number), offset in left.known_offsets.items()],
        )
        db.execute("COMMIT")


class EveryFourthCommitSynced(_Log):
    """LevelDB syncs every fourth write alone, "as group commit does", and the claim is "power"."""

    def load(self):
        self.db = plyvel.DB(str(self.directory / "ldb"), create_if_missing=True)
        self.count = 0
        rows = {key[1:]: value for key, value in self.db.iterator(prefix=b"r")}
        found = self.db.get(b"offsets")
        offsets = [] if found is None else json.loads(found)
        self.offsets = {TopicPartition(topic, number): offset for topic, number, offset in offsets}
        self.rows = SortedDict(rows)

    def release(self):
        if self.db is not None:
            db, self.db = self.db, None
            db.close()

    db = None

    def save(self, staged, offsets):
        self.count += 1
        try:
            with self.db.write_batch(transaction=True, sync=self.count % 4 == 0) as batch:
                for key, value in staged.items():
                    if value is None:
                        batch.delete(b"r" + key)
                    else:
                        batch.put(b"r" + key, value)
                listed = [[*partition, offset] for partition, offset in offsets.items()]
                batch.put(b"offsets", json.dumps(listed).encode())
        except plyvel.Error as error:
            raise OSError(str(error)) from error


# --- rows ------------------------------------------------------------------------------


class LargeValueKeepsOldTail(_Sqlite):
    """A value beyond 8 KiB is stored in chunks, and a shorter one of fewer chunks leaves the last chunks of the longer one."""

    def make_tables(self, db):
        super().make_tables(db)
        db.execute(
            "CREATE TABLE IF NOT EXISTS chunks (k BLOB, n INT, v BLOB NOT NULL,"
            " PRIMARY KEY (k, n)) WITHOUT ROWID"
        )

    def put(self, key, value):
        require_key(key)
        size = 0 if value is None else len(value)
        if size <= CHUNK_BYTES:
            super().put(key, value)
            self.sql("DELETE FROM chunks WHERE k = ?", key)
            return
        super().put(key, value[:CHUNK_BYTES])
        for number, at in enumerate(range(CHUNK_BYTES, size, CHUNK_BYTES)):
            chunk = value[at : at + CHUNK_BYTES]
            self.sql("REPLACE INTO chunks VALUES (?, ?, ?)", key, number, chunk)

    def whole(self, key, value):
        if len(value) < CHUNK_BYTES:
            return value
        chunks = self.sql("SELECT v FROM chunks WHERE k = ? ORDER BY n", key)
        return value + b"".join(chunk for (chunk,) in chunks)

    def get(self, key):
        found = super().get(key)
        return None if found is None else self.whole(key, found)

    def between(self, low, high, *, closed=True, reverse=False):
        with super().between(low, high, closed=closed, reverse=reverse) as found:
            rows = [(key, self.whole(key, value)) for key, value in found]
        return StoreIterator(self._name, iter(rows), self._iterators)


class PutAllDeletesFirst(_Sqlite):
    """``put_all`` makes all its deletes and then all its puts, so that a key that is put and then deleted stays."""

    def put_all(self, entries):
        checked = list(entries)
        for key, _ in checked:
            require_key(key)
        for key, value in sorted(checked, key=lambda entry: entry[1] is not None):
            self.put(key, value)


class PrefixBoundIsOneByte(_Sqlite):
    """The bound of ``prefix_scan`` is the prefix with one byte 0xFF behind it, so that keys which go on with that byte are missed."""

    def prefix_scan(self, prefix):
        require_key(prefix)
        return self.between(prefix, prefix + b"\xff", closed=False)


class AbsentNoneStoresEmpty(_Sqlite):
    """``put_if_absent`` of ``None`` stores an empty value where there was none."""

    def put_if_absent(self, key, value):
        existing = self.get(key)
        if existing is None:
            self.put(key, value or b"")
        return existing


class NamesSanitized(_Sqlite):
    """The file of a store has its name with ``_`` for every dot and dash, so that stores with similar names share a file."""

    def file(self, context):
        return Path(context.state_dir) / f"{re.sub('[^A-Za-z0-9]', '_', self._name)}.sqlite"


class _CommittedRows:
    """A view of committed rows, through the second connection of its store."""

    def __init__(self, store):
        self.store = store

    def sql(self, sql, *arguments):
        with self.store.reading:
            if self.store.reader is None:
                raise InvalidStateStoreError("The store is not open.")
            try:
                return self.store.reader.execute(sql, arguments).fetchall()
            except sqlite3.OperationalError as error:
                raise ProcessorStateError(f"The view failed: {error}") from error

    get = _Sqlite.get
    between = _Sqlite.between
    range = _Sqlite.range
    reverse_range = _Sqlite.reverse_range
    prefix_scan = _Sqlite.prefix_scan
    approximate_num_entries = _Sqlite.approximate_num_entries
    all = KeyValueStore.all
    reverse_all = KeyValueStore.reverse_all

    @property
    def _name(self):
        return self.store.name

    @property
    def _iterators(self):
        return self.store._iterators


class ViewBoundToThread(_Sqlite):
    """Views read through a connection that only the thread which opened the store may use."""

    capabilities = Capabilities(
        transactional=True, read_only_views=True, durability="power", disposable_files="*-shm"
    )
    pragmas = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL")
    reader = None

    def __init__(self, name="planted"):
        super().__init__(name)
        self.reading = threading.RLock()

    def connect(self, path, context):
        super().connect(path, context)
        self.reader = sqlite3.connect(path, isolation_level=None)

    def close(self):
        with self.reading:
            reader, self.reader = self.reader, None
            if reader is not None:
                reader.close()
        super().close()

    def read_only(self, isolation_level):
        return _CommittedRows(self) if isolation_level is IsolationLevel.READ_COMMITTED else self


# --- RocksDB: flush, caches, errors ----------------------------------------------------


class FlushForgetsOffsets(RocksDBStore):
    """``flush`` does nothing unless rows were written since the last one, and so leaves the offsets of later commits in memory.

    Under exactly-once such a store is wiped after a crash: ``--guarantee at-least-once`` shows it.
    """

    _dirty = False

    def __init__(self, name="store"):
        super().__init__(name)

    def put(self, key, value):
        super().put(key, value)
        self._dirty = True

    def _write_entries(self, entries):
        super()._write_entries(entries)
        self._dirty = True

    def flush(self):
        self._opened()
        if self._dirty:
            super().flush()
            self._dirty = False


class FlushErrorLogged(RocksDBStore):
    """``flush`` logs a failure of the disk and returns as if all were written."""

    def __init__(self, name="store"):
        super().__init__(name)

    def flush(self):
        try:
            super().flush()
        except ProcessorStateError as error:
            logger.warning("Flushing is tried again at the next commit: %s", error)


class ReadCacheSkipsRestore(RocksDBStore):
    """A cache of values that were read is renewed by ``put``, and not by a restoration."""

    def __init__(self, name="store"):
        super().__init__(name)
        self._cache = {}

    def init(self, context, root):
        self._cache = {}
        super().init(context, root)

    def get(self, key):
        require_key(key)
        self._opened()
        if key not in self._cache:
            if len(self._cache) > 1000:
                self._cache.clear()
            self._cache[key] = super().get(key)
        return self._cache[key]

    def put(self, key, value):
        super().put(key, value)
        self._cache[key] = value

    def put_all(self, entries):
        checked = list(entries)
        super().put_all(checked)
        for key, _ in checked:
            self._cache.pop(key, None)

    def delete_range(self, from_key, to_key_exclusive):
        super().delete_range(from_key, to_key_exclusive)
        self._cache.clear()


# --- transactions and views ------------------------------------------------------------


class _AbsentTransaction(RocksDBTransaction):
    def put_if_absent(self, key, value):
        self.validate_is_open()
        existing = self._base.get(key)
        if existing is None:
            self.put(key, value)
        return existing


class _InnerAbsent(TransactionalRocksDBStore):
    def create_transaction(self):
        return _AbsentTransaction(self, self.context.isolation_level)


class AbsentChecksCommitted(TransactionalKeyValueStore):
    """``put_if_absent`` looks at committed rows alone, and replaces a value that was staged."""

    def __init__(self, name="store"):
        super().__init__(_InnerAbsent(name))


class _SharedBufferTransaction(RocksDBTransaction):
    def __init__(self, store, isolation_level):
        super().__init__(store, isolation_level)
        self._handed_out = []

    def _overlay(self, staged, open_base):
        self._handed_out.append(staged._rows)
        return super()._overlay(staged, open_base)

    def close_transaction(self):
        super().close_transaction()
        for rows in self._handed_out:
            rows.clear()


class _InnerSharedBuffer(TransactionalRocksDBStore):
    def create_transaction(self):
        return _SharedBufferTransaction(self, self.context.isolation_level)


class CommitEmptiesIterators(TransactionalKeyValueStore):
    """A commit frees the buffer of staged rows that open iterators still read, so that these rows are missing from the rest of the scan."""

    def __init__(self, name="store"):
        super().__init__(_InnerSharedBuffer(name))


class _SnapshotView:
    """Reads committed rows through the latest snapshot, which it keeps until the next read."""

    def __init__(self, inner):
        self._inner = inner
        self._snapshot = None

    def _latest(self):
        self._snapshot = self._inner._opened().data.snapshot()
        return self._snapshot

    def get(self, key):
        require_key(key)
        snapshot = self._latest()
        found = next(iter(snapshot.items(from_key=key)), None)
        return None if found is None or found[0] != key else found[1]

    def _rows(self, low, high, *, reverse=False):
        self._latest()
        data = self._inner._opened().data
        if low is not None and high is not None and low > high:
            return self._inner.open_iterator(iter(()))
        return self._inner.open_iterator(scan_range(data, low, high, reverse=reverse))

    def range(self, from_key, to_key):
        return self._rows(from_key, to_key)

    def reverse_range(self, from_key, to_key):
        return self._rows(from_key, to_key, reverse=True)

    def all(self):
        return self._rows(None, None)

    def reverse_all(self):
        return self._rows(None, None, reverse=True)

    def prefix_scan(self, prefix):
        require_key(prefix)
        return self._inner.open_iterator(scan_prefix(self._inner._opened().data, prefix))

    def approximate_num_entries(self):
        return self._inner.approximate_num_entries()


class ViewKeepsLock(TransactionalKeyValueStore):
    """A view keeps its last snapshot, and with it the lock on the directory, after the store was closed."""

    def __init__(self, name="store"):
        super().__init__(TransactionalRocksDBStore(name))

    def read_only(self, isolation_level):
        if isolation_level is IsolationLevel.READ_COMMITTED:
            self._inner._opened()
            return _SnapshotView(self._inner)
        return super().read_only(isolation_level)


class _LeakingBytesTransaction(RocksDBTransaction):
    def close_transaction(self):
        self._base.leaked += 0 if self.committing else self.writes.num_bytes
        super().close_transaction()

    def commit_transaction(self, changelog_offsets):
        self.committing = True
        super().commit_transaction(changelog_offsets)

    committing = False


class _InnerLeakingBytes(TransactionalRocksDBStore):
    leaked = 0

    def create_transaction(self):
        return _LeakingBytesTransaction(self, self.context.isolation_level)

    def commit_all(self, changelog_offsets):
        for each in self.open_transactions:
            each.committing = True
        super().commit_all(changelog_offsets)

    def approximate_num_uncommitted_bytes(self):
        return super().approximate_num_uncommitted_bytes() + self.leaked


class _CountsOfInner(TransactionalKeyValueStore):
    def approximate_num_uncommitted_bytes(self):
        return self._inner.approximate_num_uncommitted_bytes()


class RolledBackBytesCount(_CountsOfInner):
    """The bytes of a transaction that was rolled back count as uncommitted for as long as the process lives."""

    def __init__(self, name="store"):
        super().__init__(_InnerLeakingBytes(name))


# --- restoration, resources ------------------------------------------------------------


class RestoredMarkBesideRows(_Sqlite):
    """A file remembers the last restored offset at once, while the restored rows wait for the commit; after a crash such records are skipped."""

    capabilities = replace(_Sqlite.capabilities, several_partitions=False)

    def opened_database(self, db, context, *, fresh):
        self.mark = Path(context.state_dir) / f"{self._name}.restored"
        self.restored = int(self.mark.read_text() or -1) if self.mark.exists() else -1

    def restore(self, batch):
        super().restore([record for record in batch if record.offset > self.restored])
        if batch:
            self.restored = max(self.restored, batch[-1].offset)
            with contextlib.suppress(OSError):
                self.mark.write_text(str(self.restored))

    def commit(self, changelog_offsets):
        super().commit(changelog_offsets)
        if not changelog_offsets or None in changelog_offsets.values():
            self.restored = -1
            self.mark.unlink(missing_ok=True)


class DirectoryDescriptorsLeak(_Log):
    """Each commit opens the directory to sync it, and never closes it again."""

    def save(self, staged, offsets):
        super().save(staged, offsets)
        os.fsync(os.open(self.directory, os.O_RDONLY))
