"""The RocksDB store of Quix Streams, driven through the package's own classes.

The adapter needs ``pip install 'streamproof[quix]'``.

The package as the contract sees it (read in quixstreams 3.28):

- *Transactional.* A ``PartitionTransaction`` keeps its writes in memory, and ``flush`` writes
  them with the changelog offset as one RocksDB ``WriteBatch``.
- *Durable against the death of the process.* The write-ahead log is on and not synced: the
  option ``use_fsync`` chooses how RocksDB syncs a file when it does, not that it does.
- *One offset per partition.* A database belongs to one partition of one store and holds one
  number, without a topic. The offset of quix is that of the last changelog record that the content
  reflects (``Checkpoint.commit`` passes the offsets of the producer's delivery reports). ``commit``
  uses offsets in the same sense, so the adapter passes them on unchanged.
- *Nothing to forget offsets with*, and a lower offset is refused (``InvalidChangelogOffset``).
- *Many key spaces.* Each message key has a prefix of its own, and a transaction may write to
  several column families. ``make`` uses one prefix; ``prefixes`` spreads the keys over many of
  both, which share one commit and one offset. A row is kept under the prefix, ``|`` and the key, so
  the prefix ``a`` with the key ``b|c`` is the prefix ``a|b`` with the key ``c``, if keys are bytes.
- *One directory for all partitions.* A store keeps a database for each in a folder of its number.
- *No iteration* that sees a transaction's own writes: ``iter_items`` of the partition reads flushed
  rows, and the transaction has no public iterator.
"""

from __future__ import annotations

import logging
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, NoReturn
from zlib import crc32

from streamproof.errors import UsageError
from streamproof.stores.adapters import task_partition, translated
from streamproof.stores.api import (
    ChangelogRecord,
    IsolationLevel,
    KeyValueIterator,
    KeyValueStore,
    StateStore,
    StateStoreContext,
    TopicPartition,
    require_key,
)
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.errors import (
    InvalidStateStoreError,
    TaskCorruptedError,
    UnsupportedOperationError,
)
from streamproof.stores.key_spaces import cut
from streamproof.stores.transactions import AbstractTransaction, AbstractTransactionalStore

try:
    # A dependency of a dependency warns when it is imported, whatever the filters are; the
    # warnings are recorded instead of shown, and the filters are put back afterwards.
    with warnings.catch_warnings(record=True):
        from quixstreams.state.metadata import (
            CHANGELOG_CF_MESSAGE_HEADER,
            DEFAULT_PREFIX,
            SEPARATOR,
        )
        from quixstreams.state.recovery import RecoveryPartition
        from quixstreams.state.rocksdb import RocksDBOptions, RocksDBStorePartition
        from quixstreams.state.rocksdb.exceptions import RocksDBCorruptedError
        from quixstreams.state.rocksdb.transaction import RocksDBPartitionTransaction
except ImportError as error:
    raise UsageError(
        f"Quix Streams cannot be imported ({error}). Run: pip install 'streamproof[quix]'."
    ) from error

__all__ = ["QuixStreamsStore", "QuixStreamsTransaction", "make", "prefixes"]

# Without any handler Python prints a library's warnings on stderr. A program that configures
# logging still gets them.
logging.getLogger("quixstreams").addHandler(logging.NullHandler())


FAMILIES = ("default", "second", "third")
"""The column families of a store with several key spaces."""


class _Place(NamedTuple):
    """Where the package keeps a row: the key, its prefix, and the column family."""

    key: bytes
    prefix: bytes = DEFAULT_PREFIX
    family: str = FAMILIES[0]

    @property
    def row_key(self) -> bytes:
        """The key of the row in its column family, and of its records in the changelog."""
        return self.prefix + SEPARATOR + self.key if self.prefix else self.key


class _ChangelogMessage:
    """The part of a consumer's message that quix's recovery reads."""

    def __init__(self, record: ChangelogRecord, place: _Place) -> None:
        self._record = record
        self._place = place

    def headers(self) -> list[tuple[str, bytes]]:
        return [(CHANGELOG_CF_MESSAGE_HEADER, self._place.family.encode())]

    def key(self) -> bytes:
        return self._place.row_key

    def value(self) -> bytes | None:
        return self._record.value

    def offset(self) -> int:
        return self._record.offset


@dataclass
class _Opened:
    """What exists while the store is open; ``own`` is the partition that its offset is about."""

    own: TopicPartition
    partition: RocksDBStorePartition
    recovery: RecoveryPartition
    transaction: RocksDBPartitionTransaction
    recovering: bool = False


class _QuixKeyValueStore(KeyValueStore):
    """The key-value methods on a quix transaction, for the store and its transactions alike."""

    _is_spread: bool
    """Whether keys lie in many prefixes and several column families."""

    def _place_of(self, key: bytes) -> _Place:
        if not self._is_spread:
            return _Place(key)
        prefix, rest = cut(key)
        return _Place(rest, prefix, FAMILIES[crc32(key) % len(FAMILIES)])

    @abstractmethod
    def _quix(self, *, write: bool) -> RocksDBPartitionTransaction:
        """The transaction to read or write; raises InvalidStateStoreError if not open."""

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key`` as this transaction sees it."""
        quix = self._quix(write=False)
        require_key(key)
        with translated(f"Reading from store {self.name!r}"):
            place = self._place_of(key)
            value: bytes | None = quix.get_bytes(place.key, place.prefix, cf_name=place.family)
        return value

    def put(self, key: bytes, value: bytes | None) -> None:
        """Stage a value, or with ``None`` a deletion, in memory."""
        quix = self._quix(write=True)
        require_key(key)
        with translated(f"Writing to store {self.name!r}"):
            place = self._place_of(key)
            if value is None:
                quix.delete(place.key, place.prefix, cf_name=place.family)
            else:
                quix.set_bytes(place.key, value, place.prefix, cf_name=place.family)

    def approximate_num_uncommitted_entries(self) -> int:
        """0 or unknown (-1): the package tells only whether there are any."""
        return -1 if self._quix(write=False).changed else 0

    def approximate_num_uncommitted_bytes(self) -> int:
        """0 or unknown (-1): the package tells only whether there are any."""
        return self.approximate_num_uncommitted_entries()

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """Not available: the package has no public iteration over a transaction."""
        self._refuse_scan()

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """Not available: the package has no public iteration over a transaction."""
        self._refuse_scan()

    def prefix_scan(self, prefix: bytes) -> KeyValueIterator:
        """Not available: the package has no public iteration over a transaction."""
        self._refuse_scan()

    def approximate_num_entries(self) -> int:
        """Not available: the package does not count."""
        self._refuse_scan()

    def _refuse_scan(self) -> NoReturn:
        self._quix(write=False)
        raise UnsupportedOperationError(
            "Quix Streams cannot iterate over a transaction or count its entries. Commit, and read "
            "the store."
        )


class QuixStreamsStore(_QuixKeyValueStore, AbstractTransactionalStore):
    """One ``RocksDBStorePartition``, with one quix transaction open at any time."""

    capabilities = Capabilities(
        transactional=True,
        explicit_transactions=True,
        several_partitions=False,
        scan=False,
        ranges=False,
        reverse=False,
        prefix_scan=False,
        entry_count=False,
        durability="process",
        forgets_offsets=False,
        tasks_share_directory=True,
    )

    def __init__(self, name: str = "store", *, is_spread: bool = False) -> None:
        super().__init__()
        self._name = name
        self._is_spread = is_spread
        self._open: _Opened | None = None

    @property
    def name(self) -> str:
        """The name of the store."""
        return self._name

    @property
    def persistent(self) -> bool:
        """Always: RocksDB keeps files."""
        return True

    @property
    def manages_offsets(self) -> bool:
        """Always: the offset is in a column family of the same database."""
        return True

    @property
    def is_open(self) -> bool:
        """Whether the database is open."""
        return self._open is not None

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open ``<state_dir>/<name>/<partition>``, as quix names it.

        It is opened without retries, and a corrupt one is not replaced.
        """
        options = RocksDBOptions(open_max_retries=0, on_corrupted_recreate=False)
        if context.write_buffer_bytes is not None:
            options = replace(options, write_buffer_size=context.write_buffer_bytes)
        path = context.state_dir / self._name / str(task_partition(context))
        with translated(f"Opening the database at {path}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                partition = RocksDBStorePartition(str(path), options=options)
            except RocksDBCorruptedError as error:
                raise TaskCorruptedError(str(error)) from error
            for each in FAMILIES if self._is_spread else ():
                partition.get_or_create_column_family(each)
        own = TopicPartition(context.changelog_topic(self._name), task_partition(context))
        # The watermarks tell quix's recovery manager when to stop reading the topic. Here the
        # runtime knows that, and nothing that is called on this object looks at them.
        recovery = RecoveryPartition(
            changelog_name=own.topic,
            partition_num=own.partition,
            store_partition=partition,
            committed_offsets={},
            lowwater=0,
            highwater=0,
        )
        self._open = _Opened(own, partition, recovery, partition.begin())
        context.register(root, self._restore)

    def close(self) -> None:
        """Drop staged writes and close the database."""
        self.close_transactions()
        opened, self._open = self._open, None
        if opened is not None:
            # The method has no annotations, which a strict type checker minds where it is called.
            close: Callable[[], object] = opened.partition.close
            with translated(f"Closing store {self._name!r}"):
                close()

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """``prepare`` and ``flush`` the transaction, as quix's checkpoint does, and begin another.

        Transactions that ``new_transaction`` began and that are still open are flushed before
        it, one by one: the package has no commit over several (KIP-892, StateStore#commit).

        The package writes nothing at all, the offset included, if the transaction has no
        writes (a note in its ``flush`` says so). A transaction that failed stays the current
        one, and quix refuses any further use of it, until the store is closed.

        Raises:
            ProcessorStateError: quix refused or failed.
            UnsupportedOperationError: the map asks to forget an offset, or is not about the
                one partition that the database has an offset for.
        """
        opened = self._opened()
        current = self._quix(write=True)
        for transaction in self.open_transactions:
            transaction.commit(changelog_offsets)
        self.flush_transaction(current, changelog_offsets)
        opened.transaction = opened.partition.begin()

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """``get_changelog_offset``, which is about the one partition that the database is for."""
        opened = self._opened()
        if partition != opened.own:
            return None
        with translated(f"Reading the offset of store {self._name!r}"):
            offset: int | None = opened.partition.get_changelog_offset()
        return offset

    def approximate_num_uncommitted_entries(self) -> int:
        """0, or unknown (-1) if this store or an open transaction of it has staged writes."""
        staged = (each.approximate_num_uncommitted_entries() for each in self.open_transactions)
        return min(super().approximate_num_uncommitted_entries(), *staged, 0)

    def create_transaction(self) -> QuixStreamsTransaction:
        """Begin a separate quix transaction."""
        opened = self._opened()
        self._finish_recovery(opened)
        return QuixStreamsTransaction(self, opened.partition.begin(), is_spread=self._is_spread)

    def flush_transaction(
        self,
        transaction: RocksDBPartitionTransaction,
        changelog_offsets: Mapping[TopicPartition, int | None],
    ) -> None:
        """Flush ``transaction`` with the one offset that the map may hold."""
        opened = self._opened()
        if any(partition != opened.own for partition in changelog_offsets):
            raise UnsupportedOperationError(
                f"Quix Streams keeps one offset per database, so the database of {opened.own} "
                f"cannot keep {dict(changelog_offsets)}. Commit only the offset of {opened.own}."
            )
        offset = next(iter(changelog_offsets.values()), None)
        if offset is None and opened.partition.get_changelog_offset() is not None:
            raise UnsupportedOperationError(
                "Quix Streams cannot forget a stored offset. Wipe its directory instead."
            )
        with translated(f"Committing store {self._name!r}"):
            transaction.prepare()
            transaction.flush(changelog_offset=offset)

    def _restore(self, batch: Sequence[ChangelogRecord]) -> None:
        """Hand each record to quix's own recovery, which writes it with its offset at once."""
        opened = self._opened()
        with translated(f"Restoring store {self._name!r}"):
            for record in batch:
                opened.recovering = True
                message: Any = _ChangelogMessage(record, self._place_of(record.key))
                opened.recovery.recover_from_changelog_message(message)

    def _finish_recovery(self, opened: _Opened) -> None:
        """Tell quix that recovery is over: its manager does so before it processes again.

        The contract has no such call, so the first write or commit after a restore counts.
        Older releases have no such method.
        """
        complete = getattr(opened.recovery, "complete_recovery", None)
        if opened.recovering and complete is not None:
            with translated(f"Completing the recovery of store {self._name!r}"):
                complete()
        opened.recovering = False

    def _opened(self) -> _Opened:
        if self._open is None:
            raise InvalidStateStoreError(
                f"Store {self._name!r} is not open; call init() before using it."
            )
        return self._open

    def _quix(self, *, write: bool) -> RocksDBPartitionTransaction:
        opened = self._opened()
        if write:
            self._finish_recovery(opened)
        return opened.transaction


class QuixStreamsTransaction(AbstractTransaction, _QuixKeyValueStore):
    """A transaction from ``begin()``: it sees its own writes and flushed writes of others."""

    def __init__(
        self,
        store: QuixStreamsStore,
        transaction: RocksDBPartitionTransaction,
        *,
        is_spread: bool,
    ) -> None:
        super().__init__(store, IsolationLevel.READ_COMMITTED)
        self._is_spread = is_spread
        self._owner = store
        self._transaction = transaction

    def commit_transaction(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """``prepare`` and ``flush``."""
        self._owner.flush_transaction(self._transaction, changelog_offsets)

    def close_transaction(self) -> None:
        """Nothing to do: a quix transaction that is not flushed leaves no trace."""

    def _quix(self, *, write: bool) -> RocksDBPartitionTransaction:
        self.validate_is_open()
        return self._transaction


def make(name: str = "store") -> QuixStreamsStore:
    """A store that is not open yet, for ``streamproof verify``."""
    return QuixStreamsStore(name)


def prefixes(name: str = "store") -> QuixStreamsStore:
    """The same, with its keys spread over prefixes and column families of one database."""
    return QuixStreamsStore(name, is_spread=True)
