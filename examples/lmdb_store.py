"""A custom state store on LMDB, with data and offsets in one transaction.

It needs ``pip install lmdb``. Run the conformance suite against it::

    streamproof verify examples/lmdb_store.py:make
    streamproof verify examples/lmdb_store.py:make_without_sync

What LMDB gives, and what it asks for:

1. *One write transaction is always open.* ``put`` writes into it, ``commit`` adds the offsets
   and ends it, and a crash forgets it. LMDB keeps what it changed in memory.
2. *A returned commit is synced.* ``make_without_sync`` leaves that to the kernel, so a commit
   survives the death of the process and not the loss of power, after which LMDB itself says that
   the whole database may be damaged.
3. *A second writer would wait for ever* for LMDB's lock. A file lock, which refuses it at once,
   takes the place of that lock: there is one process, and in it one transaction.
4. *Keys have at most 511 bytes*, and at least one. Every key is stored behind a byte of ours, so
   that the empty key has a place. A key of more than 510 bytes is refused: that is the price of
   this database, and the suite reports it (``KV-013``).
5. *A new file is not made in one step*, and LMDB refuses one whose first pages did not reach the
   disk. So it is made under another name, synced, and renamed.
6. *Nothing has a checksum.* LMDB maps its file, and reading beyond the end of one that was cut
   off would kill the process, so ``init`` compares the sizes first.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import takewhile
from pathlib import Path
from threading import RLock
from typing import TypeVar
from weakref import WeakSet

import lmdb

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

Row = tuple[bytes, bytes]


MAP_BYTES = 64 * 1024**3
"""The address space that the file may grow into; it costs nothing until it is used."""

KEY_MARK = b"k"
"""Stands before every key, because LMDB has no empty keys."""

MAX_KEY_BYTES = 510
"""The longest key of a caller; LMDB is built for 511 bytes, and one is ours."""

_Result = TypeVar("_Result")


class LmdbStore(KeyValueStore):
    """A transactional key-value store of bytes in one LMDB environment."""

    name = "lmdb"
    persistent = True
    manages_offsets = True

    def __init__(self, *, sync: bool = True) -> None:
        self._sync = sync
        # An iterator looks up each entry when it gets there, and so may see later writes.
        self.capabilities = Capabilities(
            transactional=True,
            iterator_view="weak",
            durability="power" if sync else "process",
        )
        self._env: lmdb.Environment | None = None
        self._opened = ExitStack()
        # Queries come from other threads, and an LMDB transaction serves one at a time.
        self._lock = RLock()
        self._iterators: WeakSet[StoreIterator[bytes, bytes]] = WeakSet()
        self._uncommitted_entries = 0
        self._uncommitted_bytes = 0

    # The life of the store.

    @property
    def is_open(self) -> bool:
        """Whether the store can be read and written."""
        return self._env is not None

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the environment below the task's directory; it is in its last commit."""
        directory = context.state_dir / self.name
        try:
            with ExitStack() as opened:
                directory.mkdir(parents=True, exist_ok=True)
                opened.callback(os.close, lock_file(directory / "in-use"))
                if not (directory / "data.mdb").exists():
                    make_environment(directory)
                env = open_environment(directory, sync=self._sync)
                opened.callback(env.close)
                require_whole(env, directory / "data.mdb")
                self._entries = env.open_db(b"entries", create=False)
                self._offsets = env.open_db(b"offsets", create=False)
                self._txn = env.begin(write=True)
                self._env, self._opened = env, opened.pop_all()
        except (OSError, lmdb.Error) as error:
            message = f"The LMDB environment {directory} cannot be used: {error}"
            raise ProcessorStateError(message) from error
        self._staged_nothing()
        context.register(root, self.restore)

    def close(self) -> None:
        """Abort the open transaction, and close the environment."""
        with self._lock:
            for iterator in list(self._iterators):
                iterator.close()
            if self._env is not None:
                self._env = None
                self._txn.abort()
                self._opened.close()

    # Committing and restoring.

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit the writes and the offsets in one transaction, and begin the next."""
        self._run(lambda: self._commit(changelog_offsets))
        self._staged_nothing()

    def _commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        if not changelog_offsets:
            self._txn.drop(self._offsets, delete=False)
        for partition, offset in changelog_offsets.items():
            key = str(TopicPartition(*partition)).encode()
            if offset is None:
                self._txn.delete(key, db=self._offsets)
            else:
                self._txn.put(key, b"%d" % offset, db=self._offsets)
        self._txn.commit()
        assert self._env is not None  # noqa: S101 - or there was no transaction
        self._txn = self._env.begin(write=True)

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """The last committed offset of ``partition``."""
        key = str(TopicPartition(*partition)).encode()
        value = self._run(lambda: self._txn.get(key, db=self._offsets))
        return None if value is None else int(value)

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

    # Reading and writing.

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``, or ``None``."""
        require_key(key)
        return self._run(lambda: self._txn.get(marked(key), db=self._entries))

    def put(self, key: bytes, value: bytes | None) -> None:
        """Stage a value, or with ``None`` a deletion."""
        require_key(key)
        if value is None:
            self._run(lambda: self._txn.delete(marked(key), db=self._entries))
        else:
            self._run(lambda: self._txn.put(marked(key), value, db=self._entries))
        self._uncommitted_entries += 1
        self._uncommitted_bytes += len(key) + len(value or b"")

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The entries between two keys, both inclusive; LMDB compares keys as bytes."""
        return self._scan(from_key, lambda key: to_key is None or key <= to_key)

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The same entries, descending."""
        return self._scan(to_key, lambda key: from_key is None or key >= from_key, reverse=True)

    def prefix_scan(self, prefix: bytes) -> KeyValueIterator:
        """The entries whose key starts with ``prefix``."""
        require_key(prefix)
        return self._scan(prefix, lambda key: key.startswith(prefix))

    def approximate_num_entries(self) -> int:
        """The number of entries, the staged ones included."""
        count: int = self._run(lambda: self._txn.stat(self._entries)["entries"])
        return count

    # What the methods above have in common.

    def _scan(
        self, start: bytes | None, inside: Callable[[bytes], bool], *, reverse: bool = False
    ) -> KeyValueIterator:
        first = self._run(lambda: self._seek(start, reverse=reverse, past=False))
        rows = takewhile(lambda row: inside(row[0]), self._walk(first, reverse=reverse))
        return StoreIterator(self.name, rows, self._iterators)

    def _walk(self, row: Row | None, *, reverse: bool) -> Iterator[Row]:
        # A cursor ends with its transaction, at the next commit, and an iterator must not. So each
        # step looks for the neighbour of the last key.
        while row is not None:
            yield row
            row = self._run(partial(self._seek, row[0], reverse=reverse, past=True))

    def _seek(self, key: bytes | None, *, reverse: bool, past: bool) -> Row | None:
        """The entry at ``key`` (unless ``past`` it), or else its neighbour."""
        with self._txn.cursor(self._entries) as cursor:
            if key is None:
                found = cursor.last() if reverse else cursor.first()
            else:
                found = cursor.set_range(marked(key))
                is_there = found and cursor.key() == marked(key)
                if reverse and not found:
                    found = cursor.last()
                elif reverse and (past or not is_there):
                    found = cursor.prev()
                elif past and is_there:
                    found = cursor.next()
            return (cursor.key()[1:], cursor.value()) if found else None

    def _run(self, action: Callable[[], _Result]) -> _Result:
        with self._lock:
            if self._env is None:
                raise InvalidStateStoreError(f"Store {self.name!r} is not open; call init().")
            try:
                return action()
            except lmdb.Error as error:
                # A write that failed spoils the transaction. Later ones must not be committed
                # without it, so the store has to be opened anew.
                self.close()
                raise ProcessorStateError(f"Store {self.name!r} failed: {error}") from error

    def _staged_nothing(self) -> None:
        self._uncommitted_entries = self._uncommitted_bytes = 0


def marked(key: bytes) -> bytes:
    """The key as LMDB gets it.

    Raises:
        ValueError: it is longer than LMDB allows.
    """
    if len(key) > MAX_KEY_BYTES:
        raise ValueError(
            f"The key has {len(key)} bytes, and LMDB takes at most {MAX_KEY_BYTES}; shorten it."
        )
    return KEY_MARK + key


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


def open_environment(directory: Path, *, sync: bool) -> lmdb.Environment:
    """Open LMDB's file in a directory, or make it, without LMDB's own lock."""
    return lmdb.open(str(directory), map_size=MAP_BYTES, max_dbs=2, sync=sync, lock=False)


def make_environment(directory: Path) -> None:
    """Make the file elsewhere, and rename it once it is synced."""
    fresh = directory / "new"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    with open_environment(fresh, sync=True) as env:
        env.open_db(b"entries")
        env.open_db(b"offsets")
        env.sync(force=True)
    (fresh / "data.mdb").rename(directory / "data.mdb")
    for place in (directory, directory.parent):
        sync_directory(place)


def require_whole(env: lmdb.Environment, path: Path) -> None:
    """Raise OSError if the file is shorter than the pages that LMDB has put into it."""
    needed = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
    size = path.stat().st_size
    if size < needed:
        raise OSError(f"{path} has {size} bytes instead of {needed}; wipe it and restore.")


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make() -> LmdbStore:
    """A store whose commits are synced."""
    return LmdbStore()


def make_without_sync() -> LmdbStore:
    """A store whose commits the kernel writes to the disk when it likes."""
    return LmdbStore(sync=False)
