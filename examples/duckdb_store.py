"""A custom state store on DuckDB, whose content can be queried with SQL where it lies.

It needs ``pip install duckdb``. Run the conformance suite against it::

    streamproof verify examples/duckdb_store.py:make

DuckDB is made for large scans and not for single rows: one ``put`` takes about a millisecond. Who
wants to analyse the state of a task beside its processing may pay that. What makes it right:

1. A transaction is always open. ``put`` writes into it, ``commit`` adds the offsets and ends it.
   A returned commit is in the synced write-ahead log.
2. DuckDB lets a process open a file twice, and shares it then. Two stores in one directory would
   each commit over the other, so a file lock comes before it.
3. After any error the transaction, and at times the database, is spoilt until it is opened
   anew. The store closes itself.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import RLock
from typing import Any
from weakref import WeakSet

import duckdb

from streamproof import (
    Capabilities,
    ChangelogRecord,
    InvalidStateStoreError,
    KeyValueIterator,
    KeyValueStore,
    ProcessorStateError,
    StateStore,
    StateStoreContext,
    StoreIterator,
    TopicPartition,
    require_key,
)

SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS offsets (
    topic VARCHAR, partition INTEGER, "offset" BIGINT NOT NULL, PRIMARY KEY (topic, partition)
);
"""


class DuckdbStore(KeyValueStore):
    """A transactional key-value store of bytes in one DuckDB file."""

    capabilities = Capabilities(transactional=True, durability="power")

    name = "duckdb"
    persistent = True
    manages_offsets = True

    def __init__(self) -> None:
        self._db: duckdb.DuckDBPyConnection | None = None
        self._opened = ExitStack()
        # Queries come from other threads, and a connection serves one at a time.
        self._lock = RLock()
        self._iterators: WeakSet[StoreIterator[bytes, bytes]] = WeakSet()
        self._uncommitted: list[int] = []

    # The life of the store.

    @property
    def is_open(self) -> bool:
        """Whether the store can be read and written."""
        return self._db is not None

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the database; DuckDB replays what its write-ahead log holds as committed."""
        directory = context.state_dir / self.name
        try:
            with ExitStack() as opened:
                directory.mkdir(parents=True, exist_ok=True)
                opened.callback(os.close, lock_file(directory / "in-use"))
                # A task has one thread; DuckDB would start one for each core.
                db = duckdb.connect(directory / "state.duckdb", config={"threads": 1})
                opened.callback(db.close)
                db.execute(SCHEMA)
                sync_directories(directory, context.state_dir)
                db.execute("BEGIN")
                self._db, self._opened = db, opened.pop_all()
        except (OSError, duckdb.Error) as error:
            message = f"The database in {directory} cannot be used: {error}"
            raise ProcessorStateError(message) from error
        self._uncommitted.clear()
        context.register(root, self.restore)

    def close(self) -> None:
        """Close the database; closing it rolls back what was not committed."""
        with self._lock:
            for iterator in list(self._iterators):
                iterator.close()
            self._db = None
            self._opened.close()

    # Committing and restoring.

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit the writes and the offsets in one transaction, and begin the next."""
        with self._lock:
            if not changelog_offsets:
                self._execute("DELETE FROM offsets")
            for (topic, partition), offset in changelog_offsets.items():
                if offset is None:
                    sql = "DELETE FROM offsets WHERE topic = ? AND partition = ?"
                    self._execute(sql, topic, partition)
                else:
                    sql = "INSERT OR REPLACE INTO offsets VALUES (?, ?, ?)"
                    self._execute(sql, topic, partition, offset)
            self._execute("COMMIT")
            self._execute("BEGIN")
            self._uncommitted.clear()

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """The last committed offset of ``partition``; nobody asks in the middle of a commit."""
        sql = 'SELECT "offset" FROM offsets WHERE topic = ? AND partition = ?'
        rows = self._execute(sql, partition.topic, partition.partition)
        return rows[0][0] if rows else None

    def restore(self, batch: Sequence[ChangelogRecord]) -> None:
        """Stage changelog records; to apply a batch twice changes nothing."""
        for record in batch:
            self.put(record.key, record.value)

    def approximate_num_uncommitted_entries(self) -> int:
        """How many writes await ``commit``."""
        return len(self._uncommitted)

    def approximate_num_uncommitted_bytes(self) -> int:
        """How many bytes of keys and values await ``commit``."""
        return sum(self._uncommitted)

    # Reading and writing.

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``, or ``None``."""
        require_key(key)
        rows = self._execute("SELECT value FROM entries WHERE key = ?", key)
        return rows[0][0] if rows else None

    def put(self, key: bytes, value: bytes | None) -> None:
        """Stage a value, or with ``None`` a deletion."""
        require_key(key)
        if value is None:
            self._execute("DELETE FROM entries WHERE key = ?", key)
        else:
            self._execute("INSERT OR REPLACE INTO entries VALUES (?, ?)", key, value)
        self._uncommitted.append(len(key) + len(value or b""))

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The entries between two keys, both inclusive; DuckDB compares blobs as bytes."""
        return self._select("key >= ?", from_key, "key <= ?", to_key)

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The same entries, descending."""
        return self._select("key >= ?", from_key, "key <= ?", to_key, order="DESC")

    def prefix_scan(self, prefix: bytes) -> KeyValueIterator:
        """The entries whose key starts with ``prefix``."""
        require_key(prefix)
        return self._select("key >= ?", prefix, "key < ?", prefix_end(prefix))

    def approximate_num_entries(self) -> int:
        """The number of entries, the staged ones included."""
        count: int = self._execute("SELECT count(*) FROM entries")[0][0]
        return count

    # What the methods above have in common.

    def _select(
        self, lower: str, low: bytes | None, upper: str, high: bytes | None, order: str = "ASC"
    ) -> KeyValueIterator:
        bounds = [(sql, key) for sql, key in ((lower, low), (upper, high)) if key is not None]
        where = " AND ".join(["true", *(sql for sql, _ in bounds)])
        sql = f"SELECT key, value FROM entries WHERE {where} ORDER BY key {order}"  # noqa: S608 - no input
        # All rows are fetched at once: the next statement on the connection ends the result.
        rows = self._execute(sql, *(key for _, key in bounds))
        return StoreIterator(self.name, iter(rows), self._iterators)

    def _execute(self, sql: str, *arguments: object) -> list[Any]:
        with self._lock:
            if self._db is None:
                raise InvalidStateStoreError(f"Store {self.name!r} is not open; call init().")
            try:
                return self._db.execute(sql, arguments).fetchall()
            except duckdb.Error as error:
                self.close()
                raise ProcessorStateError(f"Store {self.name!r} failed: {error}") from error


def lock_file(path: Path) -> int:
    """Lock a file until the descriptor is closed, or the process dies; return the descriptor.

    Raises:
        OSError: another store holds the lock.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def sync_directories(*directories: Path) -> None:
    """Make the names in these directories durable."""
    for directory in directories:
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def prefix_end(prefix: bytes) -> bytes | None:
    """The smallest key after every key that starts with ``prefix``; ``None`` if there is none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def make() -> DuckdbStore:
    """A store that is not open yet."""
    return DuckdbStore()
