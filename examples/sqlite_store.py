"""A custom state store on SQLite that keeps its promises, in one file.

Run the conformance suite against it::

    streamproof verify examples/sqlite_store.py:make

Three decisions make it right, and ``sqlite_side_file.py`` shows what one wrong decision costs:

1. A write transaction is always open. ``put`` stages into it, and a crash rolls it back, because
   SQLite does so when the file is opened again.
2. The changelog offsets are a table of the *same* database, so ``commit`` is one transaction.
3. ``synchronous = EXTRA`` syncs the file and its directory, so a commit survives loss of power.

The class inherits from nothing: a store is whatever has the methods. ``capabilities`` says what
it promises, and every promise is tested.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

from streamproof import (
    Capabilities,
    ChangelogRecord,
    InvalidStateStoreError,
    IsolationLevel,
    Position,
    ProcessorStateError,
    StateStore,
    StateStoreContext,
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


class SqliteStore:
    """A transactional key-value store of bytes in one SQLite file."""

    capabilities = Capabilities(transactional=True, durability="power")

    persistent = True
    manages_offsets = True

    def __init__(self, name: str = "sqlite") -> None:
        self.name = name
        self._db: sqlite3.Connection | None = None
        self._uncommitted_entries = 0
        self._uncommitted_bytes = 0
        self._iterators: WeakSet[Entries] = WeakSet()

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
            self._db = self._connect(path, context)
        except (OSError, sqlite3.Error) as error:
            raise ProcessorStateError(f"The database {path} cannot be used: {error}") from error
        self._staged_nothing()
        context.register(root, self.restore)

    def close(self) -> None:
        """Close the database; closing it rolls back what was not committed."""
        for entries in list(self._iterators):
            entries.close()
        if self._db is not None:
            self._db.close()
            self._db = None

    # Committing and restoring.

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit the staged writes and the offsets in one transaction, and begin the next."""
        if not changelog_offsets:
            self._execute("DELETE FROM offsets")
        for (topic, partition), offset in changelog_offsets.items():
            if offset is None:
                self._execute(
                    "DELETE FROM offsets WHERE topic = ? AND partition = ?", topic, partition
                )
            else:
                self._execute("REPLACE INTO offsets VALUES (?, ?, ?)", topic, partition, offset)
        self._execute("COMMIT")
        self._execute("BEGIN IMMEDIATE")
        self._staged_nothing()

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """The last committed offset of ``partition``; nobody asks in the middle of a commit."""
        sql = "SELECT offset FROM offsets WHERE topic = ? AND partition = ?"
        rows = self._execute(sql, partition.topic, partition.partition)
        return rows[0][0] if rows else None

    def restore(self, batch: Sequence[ChangelogRecord]) -> None:
        """Stage changelog records; to apply a batch twice changes nothing."""
        for record in batch:
            self.put(record.key, record.value)

    def flush(self) -> None:
        """Do nothing: only ``commit`` makes writes durable."""
        self._connection()

    def new_transaction(self) -> Self:
        """There is one transaction only, so the store stands for it."""
        return self

    def approximate_num_uncommitted_entries(self) -> int:
        """How many writes await ``commit``."""
        return self._uncommitted_entries

    def approximate_num_uncommitted_bytes(self) -> int:
        """How many bytes of keys and values await ``commit``."""
        return self._uncommitted_bytes

    @property
    def position(self) -> Position:
        """Unknown: ``capabilities`` does not claim it."""
        return Position()

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
            self._execute("REPLACE INTO entries VALUES (?, ?)", key, value)
        self._uncommitted_entries += 1
        self._uncommitted_bytes += len(key) + len(value or b"")

    def put_if_absent(self, key: bytes, value: bytes | None) -> bytes | None:
        """Set the value unless there is one; return the one that was there."""
        existing = self.get(key)
        if existing is None:
            self.put(key, value)
        return existing

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Put all entries in order, or none if a key is ``None``."""
        checked = list(entries)
        for key, _ in checked:
            require_key(key)
        for key, value in checked:
            self.put(key, value)

    def delete(self, key: bytes) -> bytes | None:
        """Delete ``key`` and return the value it had."""
        old = self.get(key)
        self.put(key, None)
        return old

    def range(self, from_key: bytes | None, to_key: bytes | None) -> Entries:
        """The entries between two keys, both inclusive; SQLite compares blobs as bytes."""
        return self._entries(self._execute(RANGE, from_key, to_key))

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> Entries:
        """The same entries, descending."""
        return self._entries(self._execute(RANGE, from_key, to_key)[::-1])

    def all(self) -> Entries:
        """Every entry."""
        return self.range(None, None)

    def reverse_all(self) -> Entries:
        """Every entry, descending."""
        return self.reverse_range(None, None)

    def prefix_scan(self, prefix: bytes) -> Entries:
        """The entries whose key starts with ``prefix``."""
        return self._entries(self._execute(PREFIX_SCAN, prefix))

    def approximate_num_entries(self) -> int:
        """The number of entries, the staged ones included."""
        count: int = self._execute("SELECT count(*) FROM entries")[0][0]
        return count

    def read_only(self, isolation_level: IsolationLevel) -> Self:
        """The store is its own view: ``capabilities`` does not claim isolated ones."""
        return self

    # What the methods above have in common.

    def _connect(self, path: Path, context: StateStoreContext) -> sqlite3.Connection:
        # Queries come from other threads, and SQLite serialises them. With ``None`` as isolation
        # level, Python opens no transactions of its own behind our back.
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
        try:
            db.execute("PRAGMA synchronous = EXTRA")
            if context.write_buffer_bytes is not None:
                kibibytes = max(1, context.write_buffer_bytes // 1024)
                db.execute(f"PRAGMA cache_size = -{kibibytes}")
            # A damaged file is reported and left alone. To replace it would lose the offsets,
            # and with them the knowledge that there is something to restore.
            damage = db.execute("PRAGMA quick_check(1)").fetchone()[0]
            if damage != "ok":
                raise sqlite3.DatabaseError(damage)
            db.executescript(SCHEMA)
            # The write lock is held until ``close``: a second instance fails right here.
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.Error:
            db.close()
            raise
        return db

    def _entries(self, rows: list[tuple[bytes, bytes]]) -> Entries:
        # All rows are fetched at once: a cursor that is read while the table changes may show
        # either state of a row, and a snapshot is what ``capabilities`` promises.
        entries = Entries(rows)
        self._iterators.add(entries)
        return entries

    def _staged_nothing(self) -> None:
        self._uncommitted_entries = self._uncommitted_bytes = 0

    def _connection(self) -> sqlite3.Connection:
        if self._db is None:
            raise InvalidStateStoreError(f"Store {self.name!r} is not open; call init().")
        return self._db

    def _execute(self, sql: str, *arguments: object) -> list[Any]:
        db = self._connection()
        try:
            return db.execute(sql, arguments).fetchall()
        except sqlite3.Error as error:
            # Some failures (a full disk) make SQLite roll back. Later writes would then be
            # committed without the earlier ones, so the store must be opened anew.
            if not db.in_transaction:
                self.close()
            raise ProcessorStateError(f"Store {self.name!r} failed: {error}") from error


class Entries:
    """A snapshot of entries that can be closed."""

    def __init__(self, rows: list[tuple[bytes, bytes]]) -> None:
        self._rows: Iterator[tuple[bytes, bytes]] | None = iter(rows)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[bytes, bytes]:
        if self._rows is None:
            raise InvalidStateStoreError("The iterator is closed; ask the store for another one.")
        return next(self._rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Forget the rows."""
        self._rows = None


def make(name: str = "sqlite") -> SqliteStore:
    """A store that is not open yet: this is what ``streamproof verify`` calls."""
    return SqliteStore(name)
