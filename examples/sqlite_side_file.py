"""The same store with the classic mistake: the offsets are in a file beside the database.

Run the conformance suite against it, and it fails::

    streamproof verify examples/sqlite_side_file.py:make

Each half is written with care. The data is committed in one SQLite transaction; the offsets go
to a temporary file that is synced and renamed, as every guide recommends. But there are two
halves. If the process dies after ``COMMIT`` and before the rename, the store comes back with the
new data and the old offset, and exactly-once processing applies the same records twice.
The other order is worse: an offset without its data makes a restore skip records for good.

``sqlite_store.py`` has the cure: one more table. Inheriting from ``KeyValueStore``, as here,
saves the methods that have defaults; it is otherwise the same store.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

from streamproof import (
    Capabilities,
    ChangelogRecord,
    InvalidStateStoreError,
    KeyValueStore,
    ProcessorStateError,
    StateStore,
    StateStoreContext,
    TopicPartition,
    require_key,
)

SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
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


class SqliteSideFileStore(KeyValueStore):
    """A key-value store in one SQLite file, with its offsets in a JSON file."""

    # It believes this of itself, as its author does.
    capabilities = Capabilities(transactional=True, durability="power")

    def __init__(self, name: str = "sqlite-side-file") -> None:
        self._name = name
        self._db: sqlite3.Connection | None = None
        self._offsets: dict[TopicPartition, int] = {}
        self._offsets_path = Path()
        self._uncommitted_entries = 0
        self._uncommitted_bytes = 0
        self._iterators: WeakSet[Entries] = WeakSet()

    # The life of the store.

    @property
    def name(self) -> str:
        """The name of the store."""
        return self._name

    @property
    def persistent(self) -> bool:
        """The content outlives the process."""
        return True

    @property
    def manages_offsets(self) -> bool:
        """The store keeps changelog offsets itself."""
        return True

    @property
    def is_open(self) -> bool:
        """Whether the store can be read and written."""
        return self._db is not None

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the database and read the side file."""
        path = context.state_dir / f"{self.name}.sqlite"
        self._offsets_path = path.with_suffix(".offsets.json")
        try:
            context.state_dir.mkdir(parents=True, exist_ok=True)
            offsets = self._read_offsets()
            self._db = self._connect(path, context)
        except (OSError, ValueError, sqlite3.Error) as error:
            raise ProcessorStateError(f"The files of {path} cannot be used: {error}") from error
        self._offsets = offsets
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
        """Commit the staged writes, and then the offsets: the gap between them is the mistake."""
        self._execute("COMMIT")
        self._execute("BEGIN IMMEDIATE")
        self._staged_nothing()

        merged: dict[TopicPartition, int | None] = {**self._offsets, **changelog_offsets}
        offsets = {p: o for p, o in merged.items() if changelog_offsets and o is not None}
        self._write_offsets(offsets)
        self._offsets = offsets

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """The last committed offset of ``partition``."""
        self._connection()
        return self._offsets.get(partition)

    def restore(self, batch: Sequence[ChangelogRecord]) -> None:
        """Stage changelog records; to apply a batch twice changes nothing."""
        for record in batch:
            self.put(record.key, record.value)

    def approximate_num_uncommitted_entries(self) -> int:
        """How many writes await ``commit``."""
        return self._uncommitted_entries

    def approximate_num_uncommitted_bytes(self) -> int:
        """How many bytes of keys and values await ``commit``."""
        return self._uncommitted_bytes

    def _read_offsets(self) -> dict[TopicPartition, int]:
        if not self._offsets_path.exists():
            return {}
        rows = json.loads(self._offsets_path.read_text())
        return {TopicPartition(topic, partition): offset for topic, partition, offset in rows}

    def _write_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        temporary = self._offsets_path.with_suffix(".tmp")
        try:
            with temporary.open("w") as file:
                json.dump([[*partition, offset] for partition, offset in offsets.items()], file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._offsets_path)
            # A rename is durable once the directory is synced.
            directory = os.open(self._offsets_path.parent, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        except OSError as error:
            raise ProcessorStateError(f"{self._offsets_path} was not written: {error}") from error

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

    def range(self, from_key: bytes | None, to_key: bytes | None) -> Entries:
        """The entries between two keys, both inclusive; SQLite compares blobs as bytes."""
        return self._entries(self._execute(RANGE, from_key, to_key))

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> Entries:
        """The same entries, descending."""
        return self._entries(self._execute(RANGE, from_key, to_key)[::-1])

    def prefix_scan(self, prefix: bytes) -> Entries:
        """The entries whose key starts with ``prefix``."""
        return self._entries(self._execute(PREFIX_SCAN, prefix))

    def approximate_num_entries(self) -> int:
        """The number of entries, the staged ones included."""
        count: int = self._execute("SELECT count(*) FROM entries")[0][0]
        return count

    # What the methods above have in common.

    def _connect(self, path: Path, context: StateStoreContext) -> sqlite3.Connection:
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
        try:
            db.execute("PRAGMA synchronous = EXTRA")
            if context.write_buffer_bytes is not None:
                kibibytes = max(1, context.write_buffer_bytes // 1024)
                db.execute(f"PRAGMA cache_size = -{kibibytes}")
            damage = db.execute("PRAGMA quick_check(1)").fetchone()[0]
            if damage != "ok":
                raise sqlite3.DatabaseError(damage)
            db.executescript(SCHEMA)
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.Error:
            db.close()
            raise
        return db

    def _entries(self, rows: list[tuple[bytes, bytes]]) -> Entries:
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
            if not db.in_transaction:
                self.close()
            raise ProcessorStateError(f"Store {self.name!r} failed: {error}") from error


class Entries:
    """A snapshot of entries that can be closed."""

    def __init__(self, rows: list[tuple[bytes, bytes]]) -> None:
        # The next one is the last, where taking it away costs nothing.
        self._rows: list[tuple[bytes, bytes]] | None = rows[::-1]

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[bytes, bytes]:
        rows = self._remaining()
        if not rows:
            raise StopIteration
        return rows.pop()

    def peek_next_key(self) -> bytes:
        """The key that comes next, which stays next."""
        rows = self._remaining()
        if not rows:
            raise StopIteration
        return rows[-1][0]

    def _remaining(self) -> list[tuple[bytes, bytes]]:
        if self._rows is None:
            raise InvalidStateStoreError("The iterator is closed; ask the store for another one.")
        return self._rows

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


def make() -> SqliteSideFileStore:
    """A store that is not open yet: this is what ``streamproof verify`` calls."""
    return SqliteSideFileStore()
