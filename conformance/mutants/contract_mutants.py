"""Stores that break the contract of KIP-892 and KIP-1035 outside of crashes; see the package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, ClassVar
from weakref import WeakSet

from streamproof.stores.api import (
    UPGRADE_FROM_CONFIG,
    IsolationLevel,
    KeyValueIterator,
    KeyValueStore,
    ReadOnlyKeyValueStore,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.checkpoint import TASK_CHECKPOINT, OffsetCheckpoint
from streamproof.stores.iterators import RowIterator
from streamproof.stores.memory import InMemoryKeyValueStore
from streamproof.stores.offset_import import POSITION_FILE, position_files
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.transactional import (
    RocksDBTransaction,
    TransactionalKeyValueStore,
    TransactionalRocksDBStore,
)
from streamproof.stores.windowed.rocksdb_windows import (
    RETENTION_MS,
    WINDOW_SIZE_MS,
    RocksDBWindowStore,
)
from streamproof.stores.windowed.segment_journal import JournalWrite
from streamproof.stores.windowed.segmented_reads import default_segment_interval_ms
from streamproof.stores.windowed.transactional_segments import TransactionalSegmentDatabases
from streamproof.stores.wrapped import WrappedKeyValueStore
from streamproof.stores.write_batch import NOT_STAGED

NAME = "store"


def _transactional(transaction_class: type[RocksDBTransaction]) -> KeyValueStore:
    class Store(TransactionalRocksDBStore):
        def create_transaction(self) -> RocksDBTransaction:
            self._opened()
            return transaction_class(self, self.context.isolation_level)

    return TransactionalKeyValueStore(Store(NAME))


# Uncommitted numbers.


class _CannotCount(TransactionalRocksDBStore):
    def approximate_num_uncommitted_entries(self) -> int:
        return -1

    def approximate_num_uncommitted_bytes(self) -> int:
        return -1


def cannot_count() -> KeyValueStore:
    """A right store: it answers -1 at all times, because it cannot count."""
    return TransactionalKeyValueStore(_CannotCount(NAME))


class _AlwaysZero(TransactionalRocksDBStore):
    def approximate_num_uncommitted_entries(self) -> int:
        return 0

    def approximate_num_uncommitted_bytes(self) -> int:
        return 0


def uncommitted_is_always_zero() -> KeyValueStore:
    """Counts nothing."""
    return TransactionalKeyValueStore(_AlwaysZero(NAME))


class _CountsOne(TransactionalRocksDBStore):
    def approximate_num_uncommitted_entries(self) -> int:
        return max(
            (each.approximate_num_uncommitted_entries() for each in self.open_transactions),
            default=0,
        )


def largest_transaction_counts() -> KeyValueStore:
    """Counts the entries of its largest transaction alone."""
    return TransactionalKeyValueStore(_CountsOne(NAME))


# Transactions.


class _Uncommitted(TransactionalRocksDBStore):
    def create_transaction(self) -> RocksDBTransaction:
        self._opened()
        return RocksDBTransaction(self, IsolationLevel.READ_UNCOMMITTED)


def isolation_level_is_fixed() -> KeyValueStore:
    """Makes transactions of the same isolation level under each guarantee."""
    return TransactionalKeyValueStore(_Uncommitted(NAME))


class _ItselfAgain(RocksDBTransaction):
    def new_transaction(self) -> StateStore:
        return self


def transaction_returns_itself() -> KeyValueStore:
    """Returns the transaction itself with its writes, as a store without transactions does."""
    return _transactional(_ItselfAgain)


class _InitDiscards(RocksDBTransaction):
    def init(self, context: StateStoreContext, root: StateStore) -> None:
        self.close_transaction()


def init_discards_a_transaction() -> KeyValueStore:
    """Begins anew in init."""
    return _transactional(_InitDiscards)


class _BlockCommits(RocksDBTransaction):
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.is_open and error is None:
            self.commit({TopicPartition("none", 0): None})
        super().__exit__(kind, error, trace)


def block_commits_a_transaction() -> KeyValueStore:
    """Commits at the end of a block, as a database connection does."""
    return _transactional(_BlockCommits)


class _OpensWhileOpen(RocksDBTransaction):
    def new_transaction(self) -> StateStore:
        self.validate_is_open()
        return super().new_transaction()


def ended_transaction_opens_none() -> KeyValueStore:
    """Refuses to open a transaction from one that has ended, as it refuses to be read."""
    return _transactional(_OpensWhileOpen)


class _OpensCommitted(RocksDBTransaction):
    def new_transaction(self) -> StateStore:
        return RocksDBTransaction(self._base, IsolationLevel.READ_COMMITTED)


def level_is_not_handed_on() -> KeyValueStore:
    """A transaction opens transactions of one level under each guarantee."""
    return _transactional(_OpensCommitted)


class _ReadsPastStaged(RocksDBTransaction):
    """Reads the store under READ_UNCOMMITTED, as if its writes were there already."""

    @property
    def _hides_staged(self) -> bool:
        return self.isolation_level is IsolationLevel.READ_UNCOMMITTED


class _GetsPastStaged(_ReadsPastStaged):
    def get(self, key: bytes) -> bytes | None:
        self.validate_is_open()
        return self._base.get(key) if self._hides_staged else super().get(key)


def gets_past_staged_at_least_once() -> KeyValueStore:
    """Its transactions do not get their own writes under at-least-once."""
    return _transactional(_GetsPastStaged)


class _ScansPastStaged(_ReadsPastStaged):
    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        self.validate_is_open()
        scan = self._base.range if self._hides_staged else super().range
        return scan(from_key, to_key)


def scans_past_staged_at_least_once() -> KeyValueStore:
    """Its transactions do not scan their own writes under at-least-once."""
    return _transactional(_ScansPastStaged)


class _SilentEnd(RocksDBTransaction):
    def _finish(self) -> None:
        self._on_close.clear()
        super()._finish()


def ended_transactions_stay() -> KeyValueStore:
    """Drops the callbacks of a transaction instead of calling them."""
    return _transactional(_SilentEnd)


class _OpensTransactions(TransactionalRocksDBStore):
    def new_transaction(self) -> RocksDBTransaction:
        transaction = RocksDBTransaction(self, self.context.isolation_level)
        self._open_transactions[transaction] = None
        transaction.add_close_callback(lambda: self._open_transactions.pop(transaction, None))
        return transaction


def transactions_are_made_elsewhere() -> KeyValueStore:
    """Opens transactions without its create_transaction."""
    return TransactionalKeyValueStore(_OpensTransactions(NAME))


class _WritesAtOnce(RocksDBTransaction):
    def put(self, key: bytes, value: bytes | None) -> None:
        self.validate_is_open()
        self._base.put(key, value)


class transaction_stages_nothing(TransactionalRocksDBStore):
    """Offers transactions whose writes go to the store at once."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def create_transaction(self) -> RocksDBTransaction:
        self._opened()
        return _WritesAtOnce(self, self.context.isolation_level)


def offers_transactions() -> KeyValueStore:
    """A right store that leaves it to the runtime to open its transactions."""
    return TransactionalRocksDBStore(NAME)


# Isolation.


class _CommittedRows:
    """The view of a store that hides its staged writes from readers of each level."""

    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlyKeyValueStore:
        inner: KeyValueStore = self._inner  # type: ignore[attr-defined]
        return inner.read_only(IsolationLevel.READ_COMMITTED)


class _Hiding(_CommittedRows, TransactionalKeyValueStore):
    pass


def hides_staged_writes() -> KeyValueStore:
    """Right as proposed: nobody else reads a staged write, under READ_UNCOMMITTED neither."""
    return _Hiding(TransactionalRocksDBStore(NAME))


class _Locked(WrappedKeyValueStore):
    def get(self, key: bytes) -> bytes | None:
        staging: Any = getattr(self._inner, "_target", self._inner)
        is_staged = staging.writes.lookup(key) is not NOT_STAGED
        return None if is_staged else self._inner.get(key)


class _LocksStaged(TransactionalKeyValueStore):
    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlyKeyValueStore:
        if isolation_level is IsolationLevel.READ_UNCOMMITTED:
            return _Locked(self)
        return super().read_only(isolation_level)


def staged_keys_are_locked() -> KeyValueStore:
    """Shows no value at all of a key with a staged write."""
    return _LocksStaged(TransactionalRocksDBStore(NAME))


class _AlwaysStages(TransactionalKeyValueStore):
    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        self._isolation_level = IsolationLevel.READ_COMMITTED
        self._begin()


def stages_at_least_once() -> KeyValueStore:
    """Right as shipped: stages its writes under each guarantee."""
    return _AlwaysStages(TransactionalRocksDBStore(NAME))


class _Snapshot(WrappedKeyValueStore):
    """Reads the store, and scans what was there at the last commit."""

    rows: Sequence[tuple[bytes, bytes]] = ()

    def all(self) -> KeyValueIterator:
        return RowIterator(NAME, iter(self.rows), WeakSet())


class _RangeSnapshot(_Snapshot):
    """Reads and scans the store, but takes ranges from the last commit."""

    def all(self) -> KeyValueIterator:
        return self._inner.all()

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        low, high = from_key or b"", to_key
        rows = [row for row in self.rows if low <= row[0] and (high is None or row[0] <= high)]
        return RowIterator(NAME, iter(rows), WeakSet())


class _ScansCommitted(TransactionalKeyValueStore):
    view: type[_Snapshot] = _Snapshot

    def __init__(self, inner: TransactionalRocksDBStore) -> None:
        super().__init__(inner)
        self._views: list[_Snapshot] = []

    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlyKeyValueStore:
        del isolation_level
        self._views.append(self.view(self))
        self._look()
        return self._views[-1]

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        super().commit(changelog_offsets)
        self._look()

    def _look(self) -> None:
        with self.all() as found:
            rows = list(found)
        for each in self._views:
            each.rows = rows


class _ScansHideStaged(WrappedKeyValueStore):
    """Reads staged writes, and scans what is committed."""

    def all(self) -> KeyValueIterator:
        return self._committed().all()

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        return self._committed().range(from_key, to_key)

    def _committed(self) -> ReadOnlyKeyValueStore:
        return self._inner.read_only(IsolationLevel.READ_COMMITTED)


class _HalfUncommitted(TransactionalKeyValueStore):
    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlyKeyValueStore:
        if isolation_level is IsolationLevel.READ_UNCOMMITTED:
            return _ScansHideStaged(self)
        return super().read_only(isolation_level)


def uncommitted_views_scan_the_commit() -> KeyValueStore:
    """READ_UNCOMMITTED views get staged writes, and scan committed ones."""
    return _HalfUncommitted(TransactionalRocksDBStore(NAME))


def views_scan_the_last_commit() -> KeyValueStore:
    """Views get each write at once, but scan what was there at the last commit."""
    return _ScansCommitted(TransactionalRocksDBStore(NAME))


class _RangesCommitted(_ScansCommitted):
    view = _RangeSnapshot


def views_take_ranges_from_the_last_commit() -> KeyValueStore:
    """Views get and scan each write at once, but not in a range of keys."""
    return _RangesCommitted(TransactionalRocksDBStore(NAME))


def close_discards_at_least_once() -> KeyValueStore:
    """The same store: a close without a commit loses writes under at-least-once, too."""
    return stages_at_least_once()


# Offsets.


class volatile_store_claims_offsets(InMemoryKeyValueStore):
    """Says that it manages its offsets, although they die with the process."""

    capabilities = replace(InMemoryKeyValueStore.capabilities, manages_offsets=True)

    def __init__(self) -> None:
        super().__init__(NAME)

    @property
    def manages_offsets(self) -> bool:
        return True


class volatile_store_returns_offsets(InMemoryKeyValueStore):
    """Returns the offsets of its last commit, although it claims none."""

    capabilities = InMemoryKeyValueStore.capabilities

    def __init__(self) -> None:
        super().__init__(NAME)
        self._offsets: dict[TopicPartition, int | None] = {}

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        super().commit(changelog_offsets)
        self._offsets.update(changelog_offsets)

    def committed_offset(self, partition: TopicPartition) -> int | None:
        return self._offsets.get(partition)


class input_offsets_are_dropped(RocksDBStore):
    """Keeps the offsets of its changelog alone."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        super().commit(
            {
                each: offset
                for each, offset in changelog_offsets.items()
                if each.topic.endswith("-changelog")
            }
        )


class checkpoint_is_ignored(RocksDBStore):
    """Declares that it takes over the offsets of an older version, and reads no file."""

    _is_whole = False

    def __init__(self) -> None:
        super().__init__(NAME)

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, imports_offsets=True)


class checkpoint_comes_back(RocksDBStore):
    """Takes over the offsets of an older version, and leaves them in the file."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        file = OffsetCheckpoint(context.state_dir / TASK_CHECKPOINT)
        left = file.read()
        super().init(context, root)
        file.write(left)


class one_partition_is_imported(RocksDBStore):
    """Takes over the offset of the partition that has the number of its task alone."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        file, own = (
            OffsetCheckpoint(context.state_dir / TASK_CHECKPOINT),
            context.changelog_topic(NAME),
        )
        file.remove([each for each in file.read() if each.topic == own and each.partition])
        super().init(context, root)


class commit_flushes(RocksDBStore):
    """Flushes at each commit, as before KIP-1035."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        super().commit(changelog_offsets)
        self.flush()


class position_file_stays(RocksDBStore):
    """Leaves the position file of an older version where it was, as shipped."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        files = [each.path for each in position_files(context, NAME, self.directory(context))]
        content = {path: path.read_bytes() for path in files if path.exists()}
        super().init(context, root)
        for path, before in content.items():
            path.write_bytes(before)


class position_file_of_a_downgrade_stays(RocksDBStore):
    """Deletes the position file of the task, and not that in the directory of the store."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        path = self.directory(context) / POSITION_FILE
        before = path.read_bytes() if path.exists() else None
        super().init(context, root)
        if before is not None:
            path.write_bytes(before)


class _Misreads(RocksDBStore):
    """Reads another release in the configuration than it has."""

    releases: ClassVar[dict[str, str | None]]

    def __init__(self) -> None:
        super().__init__(NAME)

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        release = context.app_configs.get(UPGRADE_FROM_CONFIG)
        configs = {
            **context.app_configs,
            UPGRADE_FROM_CONFIG: self.releases.get(str(release), release),
        }
        super().init(replace(context, app_configs=configs), root)
        # Input records are told to the context that the caller has.
        self._context = context


class offsets_in_files_for_every_release(_Misreads):
    """Leaves its offsets in files for a release that reads them in the stores, too."""

    releases: ClassVar[dict[str, str | None]] = {"4.3": "4.2"}


class offsets_in_files_for_one_release(_Misreads):
    """Leaves its offsets in files for some of the older releases only."""

    releases: ClassVar[dict[str, str | None]] = {"2.3": None, "3.0": None, "4.0": None}


# Segments with transactions.


def _segments(rows: type[TransactionalSegmentDatabases]) -> RocksDBWindowStore:
    interval = default_segment_interval_ms(RETENTION_MS)
    return RocksDBWindowStore(
        NAME,
        retention_ms=RETENTION_MS,
        window_size_ms=WINDOW_SIZE_MS,
        inner=TransactionalKeyValueStore(rows(NAME, segment_interval_ms=interval)),
    )


class _NothingRepeated(TransactionalSegmentDatabases):
    def _apply(self, writes: Iterable[JournalWrite]) -> None:
        is_opening = not isinstance(writes, list)
        super()._apply(() if is_opening else writes)


def journal_is_not_repeated() -> RocksDBWindowStore:
    """Opens segments as a crash left them, with the offsets of the journal."""
    return _segments(_NothingRepeated)


class _ForgetsEarly(TransactionalSegmentDatabases):
    def _empty_if_large(self) -> None:
        self._journal.forget()


def journal_is_forgotten_too_early() -> RocksDBWindowStore:
    """Empties the journal once the writes are in the memory of the segments."""
    return _segments(_ForgetsEarly)
