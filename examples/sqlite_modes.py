"""One store on SQLite in several modes: what each survives, and one that is a mistake.

Run the conformance suite against any of them, by the name of its factory::

    streamproof verify examples/sqlite_modes.py:wal_full

A killed process loses nothing that it handed to the kernel, so that every mode with a
transaction passes, synced or not. They differ in what the loss of power leaves:

============== ============= ============= =====================================================
factory        journal_mode  synchronous   after the loss of power, by SQLite's documentation
============== ============= ============= =====================================================
wal_full       WAL           FULL          every returned commit is there
wal_normal     WAL           NORMAL        the last commits may be lost, each as a whole
wal_off        WAL           OFF           the file may be damaged
delete_full    DELETE        FULL          the last commit may be rolled back: the name of the
                                           deleted journal may come back (``EXTRA`` syncs that)
delete_off     DELETE        OFF           the file may be damaged
autocommit     WAL           FULL          each *write* is there: see below
============== ============= ============= =====================================================

``autocommit`` is the mistake. Python's ``isolation_level=None`` means that SQLite commits every
statement by itself, unless somebody says ``BEGIN``, and here nobody does. Each write is safe and
synced; but the offset is a statement of its own after them, and so a crash leaves writes
without the offset that they belong to.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from weakref import WeakSet

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
CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS offsets (
    topic TEXT, partition INTEGER, offset INTEGER NOT NULL, PRIMARY KEY (topic, partition)
) WITHOUT ROWID;
"""

RANGE = """
SELECT key, value FROM entries
WHERE (?1 IS NULL OR key >= ?1) AND (?2 IS NULL OR key <= ?2) ORDER BY key
"""

# The substr of an empty blob is NULL, hence the case of the empty prefix.
PREFIX_SCAN = """
SELECT key, value FROM entries
WHERE key >= ?1 AND (?1 = x'' OR substr(key, 1, length(?1)) = ?1) ORDER BY key
"""


@dataclass(frozen=True)
class Mode:
    """How SQLite is asked to write.

    Attributes:
        journal: ``PRAGMA journal_mode``.
        synchronous: ``PRAGMA synchronous``.
        durability: what a returned commit survives with the two.
        transactions: whether writes are staged in a transaction until the commit.
    """

    journal: str
    synchronous: str
    durability: Literal["process", "power", "flush"]
    transactions: bool = True


class SqliteStore(KeyValueStore):
    """A key-value store of bytes in one SQLite file."""

    name = "sqlite"
    persistent = True
    manages_offsets = True

    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        # The author of ``autocommit`` believes in its transactions, too.
        self.capabilities = Capabilities(transactional=True, durability=mode.durability)
        self._db: sqlite3.Connection | None = None
        self._iterators: WeakSet[StoreIterator[bytes, bytes]] = WeakSet()
        self._uncommitted: list[int] = []

    # The life of the store.

    @property
    def is_open(self) -> bool:
        """Whether the store can be read and written."""
        return self._db is not None

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the database; SQLite rolls back what a crash left unfinished."""
        path = context.state_dir / f"{self.name}.sqlite"
        try:
            context.state_dir.mkdir(parents=True, exist_ok=True)
            db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
            try:
                self._prepare(db, context)
            except BaseException:
                db.close()
                raise
        except (OSError, sqlite3.Error) as error:
            raise ProcessorStateError(f"The database {path} cannot be used: {error}") from error
        self._db = db
        self._uncommitted.clear()
        context.register(root, self.restore)

    def _prepare(self, db: sqlite3.Connection, context: StateStoreContext) -> None:
        # With exclusive locking a second instance fails, and the index of the write-ahead log is
        # in the memory of the process instead of a file beside it.
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute(f"PRAGMA journal_mode = {self._mode.journal}")
        db.execute(f"PRAGMA synchronous = {self._mode.synchronous}")
        if context.write_buffer_bytes is not None:
            kibibytes = max(1, context.write_buffer_bytes // 1024)
            db.execute(f"PRAGMA cache_size = -{kibibytes}")
        # A damaged file is reported and left alone: an empty one in its place would hide the loss.
        damage = db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if damage != "ok":
            raise sqlite3.DatabaseError(damage)
        db.executescript(SCHEMA)
        # A write takes the lock, which is then held until the database is closed.
        db.execute("BEGIN IMMEDIATE")
        if not self._mode.transactions:
            db.execute("COMMIT")

    def close(self) -> None:
        """Close the database; closing it rolls back what was not committed."""
        for iterator in list(self._iterators):
            iterator.close()
        if self._db is not None:
            self._db.close()
            self._db = None

    # Committing and restoring.

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit the writes and the offsets."""
        if not changelog_offsets:
            self._execute("DELETE FROM offsets")
        for (topic, partition), offset in changelog_offsets.items():
            if offset is None:
                self._execute(
                    "DELETE FROM offsets WHERE topic = ? AND partition = ?", topic, partition
                )
            else:
                self._execute("REPLACE INTO offsets VALUES (?, ?, ?)", topic, partition, offset)
        if self._mode.transactions:
            self._execute("COMMIT")
            self._execute("BEGIN IMMEDIATE")
        self._uncommitted.clear()

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """The last committed offset of ``partition``; nobody asks in the middle of a commit."""
        sql = "SELECT offset FROM offsets WHERE topic = ? AND partition = ?"
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
        """Write a value, or with ``None`` a deletion."""
        require_key(key)
        if value is None:
            self._execute("DELETE FROM entries WHERE key = ?", key)
        else:
            self._execute("REPLACE INTO entries VALUES (?, ?)", key, value)
        self._uncommitted.append(len(key) + len(value or b""))

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The entries between two keys, both inclusive; SQLite compares blobs as bytes."""
        return self._snapshot(self._execute(RANGE, from_key, to_key))

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The same entries, descending."""
        return self._snapshot(self._execute(RANGE, from_key, to_key)[::-1])

    def prefix_scan(self, prefix: bytes) -> KeyValueIterator:
        """The entries whose key starts with ``prefix``."""
        return self._snapshot(self._execute(PREFIX_SCAN, prefix))

    def approximate_num_entries(self) -> int:
        """The number of entries, the uncommitted ones included."""
        count: int = self._execute("SELECT count(*) FROM entries")[0][0]
        return count

    def _snapshot(self, rows: list[tuple[bytes, bytes]]) -> KeyValueIterator:
        # All rows were fetched at once: a cursor that is read while the table changes may show
        # either state of a row.
        return StoreIterator(self.name, iter(rows), self._iterators)

    def _execute(self, sql: str, *arguments: object) -> list[Any]:
        if self._db is None:
            raise InvalidStateStoreError(f"Store {self.name!r} is not open; call init().")
        try:
            return self._db.execute(sql, arguments).fetchall()
        except sqlite3.Error as error:
            # Some failures (a full disk) make SQLite roll back. Later writes would then be
            # committed without the earlier ones, so the store must be opened anew.
            if self._mode.transactions and not self._db.in_transaction:
                self.close()
            raise ProcessorStateError(f"Store {self.name!r} failed: {error}") from error


def wal_full() -> SqliteStore:
    """A write-ahead log that every commit syncs."""
    return SqliteStore(Mode("WAL", "FULL", "power"))


def wal_normal() -> SqliteStore:
    """A write-ahead log that is synced before a checkpoint only."""
    return SqliteStore(Mode("WAL", "NORMAL", "process"))


def wal_off() -> SqliteStore:
    """A write-ahead log that nobody syncs."""
    return SqliteStore(Mode("WAL", "OFF", "process"))


def delete_full() -> SqliteStore:
    """A rollback journal, synced, whose deletion is the commit."""
    return SqliteStore(Mode("DELETE", "FULL", "process"))


def delete_off() -> SqliteStore:
    """A rollback journal that nobody syncs."""
    return SqliteStore(Mode("DELETE", "OFF", "process"))


def autocommit() -> SqliteStore:
    """The mistake: every statement commits by itself."""
    return SqliteStore(Mode("WAL", "FULL", "power", transactions=False))
