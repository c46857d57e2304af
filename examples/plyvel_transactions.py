"""A custom state store with transactions (KIP-892), built on LevelDB, which has none.

It needs ``pip install plyvel``. Run the conformance suite against it::

    streamproof verify examples/plyvel_transactions.py:make

LevelDB gives two things: a batch that is written as a whole, and iterators that read the state of
the moment at which they were made. The rest is made of memory:

1. *Writes are staged in a sorted map*, and laid over the database for whoever may see them. A
   commit is one synced batch of the staged rows, the offsets and the position, so that a crash
   finds all of it or nothing.
2. *The store has a transaction of its own* for plain ``put``, and ``new_transaction()`` gives more
   of them, apart from each other. ``commit`` of the store commits all that are open.
3. *Queries from other threads* get a view by ``read_only``: of the database without what is
   staged, or the store itself. One lock makes a commit one step for both.
4. *What fails to write closes the store.* LevelDB would go on behind a record that it wrote in
   part, and lose what follows when it reads its log again.

``plyvel_store.py`` is the same database without transactions: simpler, and under exactly-once
restored from the beginning after most crashes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from heapq import merge
from itertools import takewhile
from operator import itemgetter
from threading import RLock
from typing import Any
from weakref import WeakSet

import plyvel
from sortedcontainers import SortedDict

from streamproof import (
    AbstractTransaction,
    AbstractTransactionalStore,
    Capabilities,
    ChangelogRecord,
    InvalidStateStoreError,
    IsolationLevel,
    KeyValueIterator,
    KeyValueStore,
    Position,
    ProcessorStateError,
    StateStore,
    StateStoreContext,
    StoreIterator,
    TopicPartition,
    require_key,
)

ENTRIES = b"e"
AFTER_ENTRIES = b"f"
OFFSETS = b"o"
POSITION = b"p"


class Staged:
    """The writes of one transaction; a value of ``None`` is a deletion."""

    def __init__(self) -> None:
        self.rows: SortedDict[bytes, bytes | None] = SortedDict()
        self.position = Position()
        self.num_bytes = 0

    def put(self, key: bytes, value: bytes | None, source: tuple[str, int, int] | None) -> None:
        """Stage a write that comes from an input record, if it is known which."""
        self.rows[key] = value
        self.num_bytes += len(key) + len(value or b"")
        if source is not None:
            self.position.update(*source)


class TransactionalPlyvelStore(AbstractTransactionalStore, KeyValueStore):
    """A transactional key-value store of bytes in one LevelDB database."""

    capabilities = Capabilities(
        transactional=True,
        explicit_transactions=True,
        read_only_views=True,
        position=True,
        durability="power",
    )

    name = "plyvel-transactions"
    persistent = True
    manages_offsets = True

    def __init__(self) -> None:
        super().__init__()
        self._db: Any = None
        self._lock = RLock()
        self._iterators: WeakSet[StoreIterator[bytes, bytes]] = WeakSet()
        self._staged = Staged()
        self._committed_position = Position()
        self._context: StateStoreContext | None = None

    # The life of the store.

    @property
    def is_open(self) -> bool:
        """Whether the store can be read and written."""
        return self._db is not None

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the database below the task's directory; it is in its last commit."""
        directory = context.state_dir / self.name
        with translated(f"Opening the database {directory}"):
            directory.mkdir(parents=True, exist_ok=True)
            # Without the checks, LevelDB would leave out what it cannot read, and say nothing.
            db = plyvel.DB(str(directory), create_if_missing=True, paranoid_checks=True)
        self._committed_position = decoded(db.get(POSITION))
        self._staged = Staged()
        self._context = context
        self._db = db
        context.register(root, self.restore)

    def close(self) -> None:
        """Discard what is staged, and close the database."""
        with self._lock:
            self.close_transactions()
            for iterator in list(self._iterators):
                iterator.close()
            db, self._db = self._db, None
            if db is not None:
                db.close()

    # Committing and restoring.

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit the store's own transaction and all that are open, oldest first."""
        with self._lock:
            transactions = [t for t in self.open_transactions if isinstance(t, PlyvelTransaction)]
            self.write([self._staged, *(t.staged for t in transactions)], changelog_offsets)
            self._staged = Staged()
            for transaction in transactions:
                transaction.close()

    def write(
        self, transactions: Iterable[Staged], offsets: Mapping[TopicPartition, int | None]
    ) -> None:
        """Write what is staged, the offsets and the position as one synced batch."""
        with self._lock:
            db = self.opened()
            batch = db.write_batch(sync=True)
            position = self._committed_position.copy()
            for staged in transactions:
                position.merge(staged.position)
                for key, value in staged.rows.items():
                    put_or_delete(batch, ENTRIES + key, value)
            put_or_delete(batch, POSITION, encoded(position))
            if not offsets:
                for key in list(db.iterator(prefix=OFFSETS, include_value=False)):
                    batch.delete(key)
            for partition, offset in offsets.items():
                number = None if offset is None else b"%d" % offset
                put_or_delete(batch, offset_key(partition), number)
            self._write(batch, "Committing")
            self._committed_position = position

    def _write(self, batch: Any, action: str) -> None:
        try:
            with translated(f"{action} store {self.name!r}"):
                batch.write()
        except ProcessorStateError:
            self.close()
            raise

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """The last committed offset of ``partition``."""
        with translated(f"Reading the offset of store {self.name!r}"):
            value = self.opened().get(offset_key(partition))
        return None if value is None else int(value)

    def restore(self, batch: Sequence[ChangelogRecord]) -> None:
        """Write changelog records; they were committed there, so every reader may see them.

        The batch is synced: the commit that comes later syncs only the log file of its time.
        """
        with self._lock:
            rows = self.opened().write_batch(sync=True)
            for record in batch:
                put_or_delete(rows, ENTRIES + record.key, record.value)
            self._write(rows, "Restoring")

    def create_transaction(self) -> PlyvelTransaction:
        """Make a transaction; ``new_transaction`` keeps track of it."""
        self.opened()
        return PlyvelTransaction(self)

    def approximate_num_uncommitted_entries(self) -> int:
        """How many keys await ``commit``, in all transactions."""
        open_ones = sum(t.approximate_num_uncommitted_entries() for t in self.open_transactions)
        return len(self._staged.rows) + open_ones

    def approximate_num_uncommitted_bytes(self) -> int:
        """How many bytes of keys and values were staged, in all transactions."""
        open_ones = sum(t.approximate_num_uncommitted_bytes() for t in self.open_transactions)
        return self._staged.num_bytes + open_ones

    @property
    def position(self) -> Position:
        """The input offsets of what is committed and of what the store itself staged."""
        return self.position_with(self._staged)

    def position_with(self, staged: Staged) -> Position:
        """The input offsets of what is committed and of what one transaction staged."""
        position = self._committed_position.copy()
        position.merge(staged.position)
        return position

    # Reading and writing.

    def get(self, key: bytes) -> bytes | None:
        """The staged value of ``key``, or else the committed one, or ``None``."""
        return self.lookup(self._staged, key)

    def put(self, key: bytes, value: bytes | None) -> None:
        """Stage a value, or with ``None`` a deletion."""
        self.stage(self._staged, key, value)

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The entries between two keys, both inclusive; LevelDB compares keys as bytes."""
        return self.scan(self._staged, from_key, to_key)

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The same entries, descending."""
        return self.scan(self._staged, from_key, to_key, reverse=True)

    def prefix_scan(self, prefix: bytes) -> KeyValueIterator:
        """The entries whose key starts with ``prefix``."""
        require_key(prefix)
        return self.scan(self._staged, prefix, prefix_end(prefix), inclusive=False)

    def approximate_num_entries(self) -> int:
        """The number of committed entries; LevelDB has to read all keys for it."""
        with self.scan(Staged(), None, None) as entries:
            return sum(1 for _ in entries)

    def read_only(
        self, isolation_level: IsolationLevel
    ) -> CommittedView | TransactionalPlyvelStore:
        """A view of what is committed; the store itself shows what is staged, too."""
        return CommittedView(self) if isolation_level is IsolationLevel.READ_COMMITTED else self

    # What the store, its transactions and its views have in common.

    def stage(self, staged: Staged, key: bytes, value: bytes | None) -> None:
        """Add a write to those of one transaction."""
        require_key(key)
        with self._lock:
            self.opened()
            staged.put(key, value, self._context.record_metadata if self._context else None)

    def lookup(self, staged: Staged, key: bytes) -> bytes | None:
        """The value of ``key`` with staged writes over the database."""
        require_key(key)
        with self._lock, translated(f"Reading from store {self.name!r}"):
            db = self.opened()
            value: bytes | None = staged.rows[key] if key in staged.rows else db.get(ENTRIES + key)
            return value

    def scan(
        self,
        staged: Staged,
        low: bytes | None,
        high: bytes | None,
        *,
        inclusive: bool = True,
        reverse: bool = False,
    ) -> StoreIterator[bytes, bytes]:
        """The entries between two keys, with staged writes over the database, as of now."""
        start = ENTRIES + (low or b"")
        stop = AFTER_ENTRIES if high is None else ENTRIES + high
        # With a ``start``, plyvel 1.5 yields nothing in reverse where it is the only key.
        bounds = {"reverse": True} if reverse else {"start": start}
        with self._lock:
            db = self.opened()
            keys = staged.rows.irange(low, high, (True, inclusive), reverse=reverse)
            changed = {key: staged.rows[key] for key in keys}
            include_stop = inclusive and high is not None
            rows = db.iterator(stop=stop, include_stop=include_stop, **bounds)
        inside = takewhile(lambda row: row[0] >= start, rows)
        kept = ((key[1:], value) for key, value in inside if key[1:] not in changed)
        written = ((key, value) for key, value in changed.items() if value is not None)
        entries = merge(written, kept, key=itemgetter(0), reverse=reverse)
        return StoreIterator(self.name, entries, self._iterators, rows.close)

    def opened(self) -> Any:
        """The database.

        Raises:
            InvalidStateStoreError: the store is not open.
        """
        if self._db is None:
            raise InvalidStateStoreError(f"Store {self.name!r} is not open; call init().")
        return self._db


class PlyvelTransaction(AbstractTransaction, KeyValueStore):
    """Staged writes over the committed entries of a store; it reads its own."""

    def __init__(self, store: TransactionalPlyvelStore) -> None:
        super().__init__(store, IsolationLevel.READ_COMMITTED)
        self._base = store
        self.staged = Staged()

    @property
    def manages_offsets(self) -> bool:
        """The store keeps changelog offsets itself."""
        return True

    @property
    def position(self) -> Position:
        """The input offsets of what is committed and of what is staged here."""
        return self._base.position_with(self.staged)

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """The committed offset of the store."""
        return self._base.committed_offset(partition)

    def commit_transaction(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Write what is staged here and the offsets in one step."""
        self._base.write([self.staged], changelog_offsets)

    def close_transaction(self) -> None:
        """Discard what is staged here."""
        self.staged = Staged()

    def get(self, key: bytes) -> bytes | None:
        """The staged value of ``key``, or else the committed one, or ``None``."""
        self.validate_is_open()
        return self._base.lookup(self.staged, key)

    def put(self, key: bytes, value: bytes | None) -> None:
        """Stage a value, or with ``None`` a deletion."""
        self.validate_is_open()
        self._base.stage(self.staged, key, value)

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The entries between two keys, both inclusive."""
        self.validate_is_open()
        return self._base.scan(self.staged, from_key, to_key)

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The same entries, descending."""
        self.validate_is_open()
        return self._base.scan(self.staged, from_key, to_key, reverse=True)

    def prefix_scan(self, prefix: bytes) -> KeyValueIterator:
        """The entries whose key starts with ``prefix``."""
        require_key(prefix)
        self.validate_is_open()
        return self._base.scan(self.staged, prefix, prefix_end(prefix), inclusive=False)

    def approximate_num_entries(self) -> int:
        """The number of committed entries."""
        self.validate_is_open()
        return self._base.approximate_num_entries()

    def approximate_num_uncommitted_entries(self) -> int:
        """How many keys await ``commit``."""
        return len(self.staged.rows)

    def approximate_num_uncommitted_bytes(self) -> int:
        """How many bytes of keys and values were staged."""
        return self.staged.num_bytes


class CommittedView:
    """What is committed, for queries from other threads."""

    def __init__(self, store: TransactionalPlyvelStore) -> None:
        self._store = store
        self._nothing = Staged()

    def get(self, key: bytes) -> bytes | None:
        """The committed value of ``key``, or ``None``."""
        return self._store.lookup(self._nothing, key)

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The committed entries between two keys, both inclusive."""
        return self._store.scan(self._nothing, from_key, to_key)

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The same entries, descending."""
        return self._store.scan(self._nothing, from_key, to_key, reverse=True)

    def all(self) -> KeyValueIterator:
        """Every committed entry."""
        return self.range(None, None)

    def reverse_all(self) -> KeyValueIterator:
        """Every committed entry, descending."""
        return self.reverse_range(None, None)

    def prefix_scan(self, prefix: bytes) -> KeyValueIterator:
        """The committed entries whose key starts with ``prefix``."""
        require_key(prefix)
        return self._store.scan(self._nothing, prefix, prefix_end(prefix), inclusive=False)

    def approximate_num_entries(self) -> int:
        """The number of committed entries."""
        return self._store.approximate_num_entries()


def put_or_delete(batch: Any, key: bytes, value: bytes | None) -> None:
    """Add a write to a batch; a value of ``None`` is a deletion."""
    if value is None:
        batch.delete(key)
    else:
        batch.put(key, value)


def offset_key(partition: TopicPartition) -> bytes:
    """Where the offset of a partition is; its number is behind the last dash."""
    return OFFSETS + str(TopicPartition(*partition)).encode()


def encoded(position: Position) -> bytes:
    """A position as it is stored."""
    return json.dumps([[*p, offset] for p, offset in position.as_dict().items()]).encode()


def decoded(stored: bytes | None) -> Position:
    """The position that was stored, or an empty one."""
    rows = json.loads(stored or b"[]")
    return Position({TopicPartition(topic, number): offset for topic, number, offset in rows})


@contextmanager
def translated(action: str) -> Iterator[None]:
    """Turn what the package and the file system raise into the error of a store."""
    try:
        yield
    except (OSError, plyvel.Error) as error:
        raise ProcessorStateError(f"{action} failed: {error}") from error


def prefix_end(prefix: bytes) -> bytes | None:
    """The smallest key after every key that starts with ``prefix``; ``None`` if there is none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def make() -> TransactionalPlyvelStore:
    """A store that is not open yet."""
    return TransactionalPlyvelStore()
