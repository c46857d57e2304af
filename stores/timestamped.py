"""Key-value stores with timestamps: a wrapper over any store of bytes, and RocksDB below it.

Below the wrapper, a value is ``timestamp ++ value``, and no layer looks into it. Above the wrapper
are values, or values with their timestamps. A changelog record has the plain value; the
restoration puts the timestamp of the record before it. No code guesses from the bytes of a value
whether a timestamp is in it: a plain value may begin with any eight bytes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Generic, NamedTuple, Self, TypeVar

from streamproof.stores.api import (
    NO_TIMESTAMP,
    UPGRADE_FROM_CONFIG,
    UPGRADE_MODE_CONFIG,
    ChangelogRecord,
    EntryIterator,
    IsolationLevel,
    KeyValueIterator,
    KeyValueStore,
    ReadOnlyKeyValueStore,
    RestoreCallback,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.errors import InvalidStateStoreError, UnsupportedOperationError
from streamproof.stores.format_upgrade import (
    BackgroundRebuild,
    OlderFormat,
    finish_discarding,
    upgrade_mode,
)
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.rocksdb_database import committed_offsets
from streamproof.stores.timestamped_lazy import LazyRocksDBStore, TransactionalLazyRocksDBStore
from streamproof.stores.timestamps import (
    KeyValueWithTimestampStore,
    ValueAndTimestamp,
    decode_value_and_timestamp,
    encode_value_and_timestamp,
)
from streamproof.stores.transactional import TransactionalKeyValueStore, TransactionalRocksDBStore
from streamproof.stores.transactions import Transaction
from streamproof.stores.wrapped import WrappedKeyValueStore

__all__ = [
    "RocksDBLazyTimestampedStore",
    "RocksDBTimestampedStore",
    "TimestampedKeyValueStore",
    "TimestampedTransaction",
    "TimestampedView",
    "TransactionalVersion2RocksDBStore",
    "Version2RocksDBStore",
    "default_store",
    "lazy_store",
    "transactional_store",
]

V = TypeVar("V")

_logger = logging.getLogger("streamproof.stores")


class _Format(NamedTuple):
    """How a value and its timestamp are stored, and how they are read back."""

    encode: Callable[[bytes | None, int], bytes | None]
    decode: Callable[[bytes], ValueAndTimestamp]
    value: Callable[[bytes], bytes]


def _value_of(stored: bytes) -> bytes:
    # A slice alone would be faster, but it would take damaged bytes, too short for a timestamp, for
    # an empty value.
    return stored[8:] if len(stored) >= 8 else decode_value_and_timestamp(stored).value


def _same(value: bytes) -> bytes:
    return value


_TIMESTAMPED = _Format(encode_value_and_timestamp, decode_value_and_timestamp, _value_of)

_PLAIN = _Format(
    lambda value, _: value, lambda stored: ValueAndTimestamp(stored, NO_TIMESTAMP), _same
)
"""The plain format: a write drops the timestamp, and a read finds none."""


class _DecodedIterator(Generic[V]):
    """An iterator over stored rows that decodes their values."""

    __slots__ = ("_decode", "_rows")

    def __init__(self, rows: KeyValueIterator, decode: Callable[[bytes], V]) -> None:
        self._rows = rows
        self._decode = decode

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[bytes, V]:
        key, stored = next(self._rows)
        return key, self._decode(stored)

    def peek_next_key(self) -> bytes:
        """The key that ``next`` will return, without advancing."""
        return self._rows.peek_next_key()

    def close(self) -> None:
        """Release the rows; closing twice is harmless."""
        self._rows.close()

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


class TimestampedView:
    """Reads of stored bytes, with or without the timestamps.

    Args:
        stored: the holder of the bytes: a store, a transaction, or a view of one.
        form: how they are stored.

    Source: KIP-258, ReadOnlyKeyValueWithTimestampStore.
    """

    def __init__(self, stored: ReadOnlyKeyValueStore, form: _Format = _TIMESTAMPED) -> None:
        self._stored = stored
        self._form = form

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``, or ``None``."""
        stored = self._stored.get(key)
        return None if stored is None else self._form.value(stored)

    def get_with_timestamp(self, key: bytes) -> ValueAndTimestamp | None:
        """The value of ``key`` and its timestamp, or ``None``."""
        stored = self._stored.get(key)
        return None if stored is None else self._form.decode(stored)

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The entries from ``from_key`` to ``to_key``, both inclusive, ascending."""
        return _DecodedIterator(self._stored.range(from_key, to_key), self._form.value)

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The same entries as ``range``, descending."""
        return _DecodedIterator(self._stored.reverse_range(from_key, to_key), self._form.value)

    def range_with_timestamp(
        self, from_key: bytes | None, to_key: bytes | None
    ) -> EntryIterator[bytes, ValueAndTimestamp]:
        """The entries from ``from_key`` to ``to_key``, both inclusive, ascending."""
        return _DecodedIterator(self._stored.range(from_key, to_key), self._form.decode)

    def all(self) -> KeyValueIterator:
        """Every entry, ascending."""
        return self.range(None, None)

    def reverse_all(self) -> KeyValueIterator:
        """Every entry, descending."""
        return self.reverse_range(None, None)

    def all_with_timestamp(self) -> EntryIterator[bytes, ValueAndTimestamp]:
        """Every entry, ascending."""
        return self.range_with_timestamp(None, None)

    def prefix_scan(self, prefix: bytes) -> KeyValueIterator:
        """Every entry whose key starts with ``prefix``, ascending."""
        return _DecodedIterator(self._stored.prefix_scan(prefix), self._form.value)

    def approximate_num_entries(self) -> int:
        """The approximate number of entries; it may leave out staged writes."""
        return self._stored.approximate_num_entries()


class TimestampedKeyValueStore(WrappedKeyValueStore, KeyValueWithTimestampStore):
    """Keeps a timestamp with each value, over any store of bytes.

    The inner store may have transactions. Transactions and views of this store then read and write
    values with timestamps too.

    Args:
        inner: the store of ``timestamp ++ value``.

    Source: KIP-258; Kafka, MeteredTimestampedKeyValueStore.
    """

    def __init__(self, inner: KeyValueStore) -> None:
        super().__init__(inner)
        self._context: StateStoreContext | None = None
        self._use(inner, _TIMESTAMPED)

    def _use(self, inner: KeyValueStore, form: _Format) -> None:
        self._inner = self._target = inner
        self._form = form
        self._view = TimestampedView(inner, form)

    @property
    def capabilities(self) -> Capabilities:
        """What the inner store promises, with timestamps."""
        inner = getattr(self._inner, "capabilities", Capabilities())
        return replace(inner, timestamped=True)

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the inner store, and register a callback that restores with timestamps."""
        self._inner.init(context, root)
        self._context = context
        restore = context.restore_callbacks.get(root.name)
        if restore is not None:
            context.register(root, self._restoring(restore))

    def _restoring(self, restore: RestoreCallback) -> RestoreCallback:
        encode = self._form.encode

        def restore_stored(records: Sequence[ChangelogRecord]) -> None:
            restore([r._replace(value=encode(r.value, r.timestamp)) for r in records])

        return restore_stored

    def new_transaction(self) -> StateStore:
        """A transaction that keeps timestamps; this store, if the inner one has none (KIP-892)."""
        transaction = self._inner.new_transaction()
        if transaction is self._inner:
            return self
        if not isinstance(transaction, Transaction) or not isinstance(transaction, KeyValueStore):
            raise InvalidStateStoreError(
                f"Store {self.name!r} returned no key-value transaction; wrap a store whose "
                "new_transaction() returns one."
            )
        level = transaction.isolation_level
        return TimestampedTransaction(transaction, level, self._context, self._form)

    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlyKeyValueStore:
        """The view that the inner store gives for queries; with timestamps: a TimestampedView."""
        return TimestampedView(self._inner.read_only(isolation_level), self._form)

    # --- values -----------------------------------------------------------------------

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``, or ``None``."""
        stored = self._target.get(key)
        return None if stored is None else self._form.value(stored)

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of ``key``, at the timestamp of the current record; ``None`` deletes."""
        self._target.put(key, self._form.encode(value, self._record_timestamp()))

    def put_if_absent(self, key: bytes, value: bytes | None) -> bytes | None:
        """Set the value if the key has none; return the previous value, or ``None``."""
        found = self.put_if_absent_with_timestamp(key, value, self._record_timestamp())
        return None if found is None else found.value

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Put all entries, at one timestamp; if one key is ``None``, none is written."""
        timestamp = self._record_timestamp()
        self._target.put_all((key, self._form.encode(value, timestamp)) for key, value in entries)

    def delete(self, key: bytes) -> bytes | None:
        """Delete ``key`` and return the value it had, or ``None``."""
        stored = self._target.delete(key)
        return None if stored is None else self._form.value(stored)

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The entries from ``from_key`` to ``to_key``, both inclusive, ascending."""
        return self._view.range(from_key, to_key)

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The same entries as ``range``, descending."""
        return self._view.reverse_range(from_key, to_key)

    def prefix_scan(self, prefix: bytes) -> KeyValueIterator:
        """Every entry whose key starts with ``prefix``, ascending."""
        return self._view.prefix_scan(prefix)

    # --- values with timestamps -------------------------------------------------------

    def get_with_timestamp(self, key: bytes) -> ValueAndTimestamp | None:
        """The value of ``key`` and its timestamp, or ``None``."""
        return self._view.get_with_timestamp(key)

    def put_with_timestamp(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        """Set the value of ``key`` and its timestamp; a value of ``None`` deletes it."""
        self._target.put(key, self._form.encode(value, timestamp))

    def put_if_absent_with_timestamp(
        self, key: bytes, value: bytes | None, timestamp: int
    ) -> ValueAndTimestamp | None:
        """Set the value if the key has none; return the previous one, or ``None``."""
        stored = self._target.put_if_absent(key, self._form.encode(value, timestamp))
        return None if stored is None else self._form.decode(stored)

    def put_all_with_timestamp(
        self, entries: Iterable[tuple[bytes, ValueAndTimestamp | None]]
    ) -> None:
        """Put all entries; if one key is ``None``, none is written."""
        self._target.put_all(
            (key, None if found is None else self._form.encode(found.value, found.timestamp))
            for key, found in entries
        )

    def delete_with_timestamp(self, key: bytes) -> ValueAndTimestamp | None:
        """Delete ``key`` and return its previous value, or ``None``."""
        stored = self._target.delete(key)
        return None if stored is None else self._form.decode(stored)

    def range_with_timestamp(
        self, from_key: bytes | None, to_key: bytes | None
    ) -> EntryIterator[bytes, ValueAndTimestamp]:
        """The entries from ``from_key`` to ``to_key``, both inclusive, ascending."""
        return self._view.range_with_timestamp(from_key, to_key)

    def _record_timestamp(self) -> int:
        return NO_TIMESTAMP if self._context is None else self._context.record_timestamp


class TimestampedTransaction(TimestampedKeyValueStore, Transaction):
    """A transaction whose staged values have timestamps.

    ``TimestampedKeyValueStore.new_transaction`` makes it.

    Args:
        stored: the transaction that stages the stored bytes.
        isolation_level: which writes of other transactions it sees.
        context: the context that the runtime gave the store.
        form: how values and timestamps are stored.

    Source: KIP-892, Transaction.
    """

    def __init__(
        self,
        stored: KeyValueStore,
        isolation_level: IsolationLevel,
        context: StateStoreContext | None,
        form: _Format,
    ) -> None:
        super().__init__(stored)
        self._use(stored, form)
        self._context = context
        self._isolation_level = isolation_level

    @property
    def isolation_level(self) -> IsolationLevel:
        """What this transaction sees of other transactions' writes."""
        return self._isolation_level

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Do nothing: a transaction needs no opening."""


class Version2RocksDBStore(RocksDBStore):
    """The stored bytes of values with timestamps, in ``<state_dir>/rocksdb/<name>-v2``."""

    _timestamped = True
    format_version = 2


class TransactionalVersion2RocksDBStore(Version2RocksDBStore, TransactionalRocksDBStore):
    """The same with transactions."""


class RocksDBTimestampedStore(TimestampedKeyValueStore):
    """A RocksDB store with timestamps, in ``<state_dir>/rocksdb/<name>-v2`` (KIP-258).

    While an upgrade is being prepared (``upgrade.from`` and ``upgrade.mode``), the plain store in
    ``<state_dir>/rocksdb/<name>`` is live instead. The older format drops timestamps, and reads
    find ``NO_TIMESTAMP``. :mod:`streamproof.stores.format_upgrade` describes all steps of an
    upgrade.

    Args:
        name: the name of the store.
        transactional: whether writes are staged until the commit (KIP-892).
    """

    def __init__(self, name: str, *, transactional: bool = False) -> None:
        self._transactional = transactional
        super().__init__(self._new_format(name))
        # Set while the new format is live.
        self._older: OlderFormat | None = None
        self._rebuild: BackgroundRebuild | None = None

    @property
    def capabilities(self) -> Capabilities:
        """What this store promises; the plain RocksDB store writes the older format."""
        return replace(
            super().capabilities,
            position=True,
            upgrades_from="rocksdb",
            in_place_upgrade=True,
            downgrade=False,
        )

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the live format, and the one beside it, if an upgrade needs both.

        Raises:
            ProcessorStateError: the files cannot be read, written or locked, or they are of a
                newer format only.
            TaskCorruptedError: exactly-once, and the live format was not closed cleanly.
            UsageError: ``upgrade.mode`` is unknown, or ``upgrade.from`` is not a version.
            InvalidStateStoreError: the store is already open.
        """
        if self.is_open:
            raise InvalidStateStoreError(f"Store {self.name!r} is already open; close it first.")
        mode = upgrade_mode(context)
        old = RocksDBStore(self.name).directory(context)
        new = Version2RocksDBStore(self.name).directory(context)
        self._older = None
        if mode is None:
            self._open_new(context, root, OlderFormat(old, new))
            return
        finish_discarding(old)
        finish_discarding(new)
        partitions = committed_offsets(old)
        self._use(self._old_format(self.name), _PLAIN)
        super().init(context, root)
        _logger.info("Store %r is live in the old format (upgrade mode %s).", self.name, mode)
        if mode == "in_place":
            rebuilt = TimestampedKeyValueStore(TransactionalVersion2RocksDBStore(self.name))
            try:
                self._rebuild = BackgroundRebuild(rebuilt, new, self._inner, partitions, context)
                self._rebuild.report()
            except BaseException:
                self.close()
                raise

    def _open_new(self, context: StateStoreContext, root: StateStore, older: OlderFormat) -> None:
        self._use(self._new_format(self.name), _TIMESTAMPED)
        super().init(context, root)
        self._older = older
        self._older.discard_if_reached(self._inner)

    def _new_format(self, name: str) -> KeyValueStore:
        if self._transactional:
            return TransactionalKeyValueStore(TransactionalVersion2RocksDBStore(name))
        return Version2RocksDBStore(name)

    def _old_format(self, name: str) -> KeyValueStore:
        if self._transactional:
            return TransactionalKeyValueStore(TransactionalRocksDBStore(name))
        return RocksDBStore(name)

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit the live format, and discard the old one once its offsets are reached."""
        super().commit(changelog_offsets)
        if self._older is not None:
            self._older.discard_if_reached(self._inner, changelog_offsets)

    def close(self) -> None:
        """Close the rebuild, which reads the live format, and then the live format."""
        rebuild, self._rebuild = self._rebuild, None
        try:
            if rebuild is not None:
                rebuild.close()
        finally:
            super().close()

    # --- the rebuild of an in-place upgrade -------------------------------------------

    def rebuild(self, partition: TopicPartition, records: Sequence[ChangelogRecord]) -> None:
        """Feed the new format, beside the live one, with the next records of the changelog.

        Any thread may call this method. The first record to feed is the one after
        ``rebuilt_offset``. When the new format has caught up with the old one, an INFO message says
        so.

        Raises:
            UnsupportedOperationError: no upgrade in place is being prepared.
            InvalidStateStoreError: the store was closed during the rebuild.

        Source: KIP-258, "In-place upgrade".
        """
        self._rebuilding().feed(partition, records)

    def rebuilt_offset(self, partition: TopicPartition) -> int | None:
        """The offset of the last record that was fed, also before a crash; ``None`` if none was.

        Raises:
            UnsupportedOperationError: no upgrade in place is being prepared.
        """
        return self._rebuilding().offset(partition)

    @property
    def prepared(self) -> bool:
        """Whether the new format has reached the last commit of the live one.

        Raises:
            UnsupportedOperationError: no upgrade in place is being prepared.
        """
        return self._rebuilding().prepared

    def _rebuilding(self) -> BackgroundRebuild:
        if self._rebuild is None:
            raise UnsupportedOperationError(
                f"Store {self.name!r} is not being rebuilt. Open it with {UPGRADE_FROM_CONFIG}, "
                f"and with {UPGRADE_MODE_CONFIG} in_place."
            )
        return self._rebuild


class RocksDBLazyTimestampedStore(TimestampedKeyValueStore):
    """A RocksDB store with timestamps that migrates a plain store row by row, in its directory.

    Args:
        name: the name of the store.
        transactional: whether writes are staged until the commit (KIP-892).

    Source: KIP-258 as Kafka ships it, RocksDBTimestampedStore.
    """

    def __init__(self, name: str, *, transactional: bool = False) -> None:
        super().__init__(
            TransactionalKeyValueStore(TransactionalLazyRocksDBStore(name))
            if transactional
            else LazyRocksDBStore(name)
        )

    @property
    def capabilities(self) -> Capabilities:
        """What this store promises; the plain RocksDB store writes the older format."""
        return replace(
            super().capabilities, position=True, upgrades_from="rocksdb", downgrade=False
        )


def default_store() -> KeyValueStore:
    """A new RocksDB store with timestamps named ``store``, not initialised."""
    return RocksDBTimestampedStore("store")


def lazy_store() -> KeyValueStore:
    """A new store named ``store`` that migrates a plain one row by row, not initialised."""
    return RocksDBLazyTimestampedStore("store")


def transactional_store() -> KeyValueStore:
    """A new transactional RocksDB store with timestamps named ``store``, not initialised."""
    return RocksDBTimestampedStore("store", transactional=True)
