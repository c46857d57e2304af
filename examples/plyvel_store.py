"""A custom state store on LevelDB that writes at once, as RocksDB's did before transactions.

It needs ``pip install plyvel``. Run the conformance suite against it::

    streamproof verify examples/plyvel_store.py:make

A ``put`` goes to the database, and not into a transaction. So uncommitted writes survive a crash,
and a store of this kind is right only if it knows that they may be there:

1. *Offsets after data.* LevelDB writes one log in order, so an offset is never there without the
   writes before it. All offsets of a commit are one ``write_batch``.
2. *A mark.* The first write after a commit sets it, in one batch; the commit takes it away, in
   the batch of the offsets. Under exactly-once, an ``init`` that finds the mark raises
   ``TaskCorruptedError``: the runtime wipes the directory, and restores from the changelog. Under
   at-least-once the replay from the committed offset overwrites whatever is there. Restored
   records need no mark: they were committed in the changelog.
3. *Durable against the death of the process.* The log is handed to the kernel, not synced.
   Syncing the last write would not do for loss of power: LevelDB starts a new log file
   when a buffer is full, and syncs only the one that it writes to.

Entries and metadata have prefixes of their own, so that no key can meet an offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any
from weakref import WeakSet

import plyvel

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
    TaskCorruptedError,
    TopicPartition,
    require_key,
)

ENTRIES = b"e"
AFTER_ENTRIES = b"f"
OFFSETS = b"o"
MARK = b"m"
"""There while the database holds writes that no commit covers."""


class PlyvelStore(KeyValueStore):
    """A key-value store of bytes in one LevelDB database."""

    capabilities = Capabilities(durability="process")

    name = "plyvel"
    persistent = True
    manages_offsets = True

    def __init__(self) -> None:
        self._db: Any = None
        self._is_marked = False
        self._iterators: WeakSet[StoreIterator[bytes, bytes]] = WeakSet()

    # The life of the store.

    @property
    def is_open(self) -> bool:
        """Whether the store can be read and written."""
        return self._db is not None

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the database below the task's directory, and mark it as open."""
        directory = context.state_dir / self.name
        options: dict[str, Any] = {"create_if_missing": True, "paranoid_checks": True}
        if context.write_buffer_bytes is not None:
            options["write_buffer_size"] = context.write_buffer_bytes
        with translated(f"Opening the database {directory}"):
            directory.mkdir(parents=True, exist_ok=True)
            db = plyvel.DB(str(directory), **options)
        try:
            with translated(f"Reading the database {directory}"):
                self._is_marked = db.get(MARK) is not None
            require_committed(directory, marked=self._is_marked and context.exactly_once)
        except BaseException:
            db.close()
            raise
        self._db = db
        context.register(root, self.restore)

    def close(self) -> None:
        """Close the database; after a clean close, the runtime knows better than the mark."""
        for iterator in list(self._iterators):
            iterator.close()
        db, self._db = self._db, None
        if db is not None:
            try:
                with translated(f"Closing store {self.name!r}"):
                    db.delete(MARK)
            finally:
                db.close()

    # Committing and restoring.

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Write all offsets in one batch; the data is in the log before them."""
        db = self._opened()
        with self._written("Committing"), db.write_batch(transaction=True) as batch:
            batch.delete(MARK)
            if not changelog_offsets:
                for key in list(db.iterator(prefix=OFFSETS, include_value=False)):
                    batch.delete(key)
            for partition, offset in changelog_offsets.items():
                if offset is None:
                    batch.delete(offset_key(partition))
                else:
                    batch.put(offset_key(partition), b"%d" % offset)
        self._is_marked = False

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """The last committed offset of ``partition``."""
        db = self._opened()
        with translated(f"Reading the offset of store {self.name!r}"):
            value = db.get(offset_key(partition))
        return None if value is None else int(value)

    def restore(self, batch: Sequence[ChangelogRecord]) -> None:
        """Write changelog records; to apply a batch twice changes nothing."""
        db = self._opened()
        with self._written("Restoring"), db.write_batch(transaction=True) as rows:
            for record in batch:
                put_or_delete(rows, ENTRIES + record.key, record.value)

    # Reading and writing.

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``, or ``None``."""
        require_key(key)
        db = self._opened()
        with translated(f"Reading from store {self.name!r}"):
            value: bytes | None = db.get(ENTRIES + key)
        return value

    def put(self, key: bytes, value: bytes | None) -> None:
        """Write a value, or with ``None`` a deletion."""
        require_key(key)
        db = self._opened()
        with self._written("Writing to"), db.write_batch(transaction=True) as batch:
            if not self._is_marked:
                batch.put(MARK, b"")
            put_or_delete(batch, ENTRIES + key, value)
        self._is_marked = True

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The entries between two keys, both inclusive; LevelDB compares keys as bytes."""
        return self._scan(from_key, to_key, reverse=False)

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The same entries, descending."""
        return self._scan(from_key, to_key, reverse=True)

    def prefix_scan(self, prefix: bytes) -> KeyValueIterator:
        """The entries whose key starts with ``prefix``."""
        require_key(prefix)
        return self._snapshot(self._opened().iterator(prefix=ENTRIES + prefix))

    def approximate_num_entries(self) -> int:
        """The number of entries; LevelDB has to read all keys for it."""
        keys = self._opened().iterator(prefix=ENTRIES, include_value=False)
        return sum(1 for _ in keys)

    # What the methods above have in common.

    def _scan(
        self, from_key: bytes | None, to_key: bytes | None, *, reverse: bool
    ) -> KeyValueIterator:
        start = ENTRIES + (from_key or b"")
        stop = AFTER_ENTRIES if to_key is None else ENTRIES + to_key
        bounds = {"stop": stop, "include_stop": to_key is not None}
        if not reverse:
            return self._snapshot(self._opened().iterator(start=start, **bounds))
        # With a ``start``, plyvel 1.5 yields nothing in reverse where it is the only key.
        return self._snapshot(self._opened().iterator(reverse=True, **bounds), lowest=start)

    def _snapshot(self, rows: Any, *, lowest: bytes = ENTRIES) -> KeyValueIterator:
        # LevelDB's iterators read the state of the moment at which they were made.
        inside = takewhile(lambda row: row[0] >= lowest, rows)
        entries = ((key[1:], value) for key, value in inside)
        return StoreIterator(self.name, entries, self._iterators, rows.close)

    @contextmanager
    def _written(self, action: str) -> Iterator[None]:
        # LevelDB would go on behind a record that it wrote in part, and lose what follows when it
        # reads its log again. So the store must be opened anew, and the mark stays.
        try:
            with translated(f"{action} store {self.name!r}"):
                yield
        except ProcessorStateError:
            db, self._db = self._db, None
            db.close()
            raise

    def _opened(self) -> Any:
        if self._db is None:
            raise InvalidStateStoreError(f"Store {self.name!r} is not open; call init().")
        return self._db


def require_committed(directory: Path, *, marked: bool) -> None:
    """Raise TaskCorruptedError if the mark tells of writes that no commit covers."""
    if marked:
        raise TaskCorruptedError(
            f"The store in {directory} was not closed well, and may hold writes of an aborted "
            "transaction; wipe the directory and restore from the changelog."
        )


def put_or_delete(batch: Any, key: bytes, value: bytes | None) -> None:
    """Add a write to a batch; a value of ``None`` is a deletion."""
    if value is None:
        batch.delete(key)
    else:
        batch.put(key, value)


def offset_key(partition: TopicPartition) -> bytes:
    """Where the offset of a partition is; its number is behind the last dash."""
    return OFFSETS + str(TopicPartition(*partition)).encode()


@contextmanager
def translated(action: str) -> Iterator[None]:
    """Turn what the package and the file system raise into the error of a store."""
    try:
        yield
    except (OSError, plyvel.Error) as error:
        raise ProcessorStateError(f"{action} failed: {error}") from error


def make() -> PlyvelStore:
    """A store that is not open yet."""
    return PlyvelStore()
