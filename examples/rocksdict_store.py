"""A custom state store on RocksDB as one writes it first, and the mistake in it.

Run the conformance suite against both of its factories::

    streamproof verify examples/rocksdict_store.py:make
    streamproof verify examples/rocksdict_store.py:with_log

Entries and offsets have a column family each. The changelog can restore everything, so ``make``
saves the write-ahead log and does not flush at a commit, as Kafka Streams does. What is in memory
reaches the disk when a buffer is full, by ``flush``, and when the store is closed. ``close`` lets
go of the offsets and then of the database that they belong to, which looks natural. But each of
the two steps flushes one family, and a process that dies between them leaves an offset without
its entries: a restore begins there, and the entries are lost for good. Kafka Streams is safe
because it sets ``atomic_flush``; rocksdict's ``flush`` and ``close`` are for one family, whatever
that option says.

``with_log`` leaves the log on. It has one order for all families, so that an offset is never there
without the entries before it. What remains is that writes go to the database at once: those that
no commit covers survive a crash. Under exactly-once the store would have to notice
(``CRASH-009``); ``plyvel_store.py`` shows how. Under at-least-once nothing is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import cast
from weakref import WeakSet

from rocksdict import Options, Rdict, WriteBatch, WriteOptions

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


class RocksdictStore(KeyValueStore):
    """A key-value store of bytes in two column families of one RocksDB database."""

    name = "rocksdict"
    persistent = True
    manages_offsets = True

    def __init__(self, *, log: bool) -> None:
        self._log = log
        # Without the log, a commit is durable once it was flushed.
        self.capabilities = Capabilities(durability="process" if log else "flush")
        self._entries: Rdict | None = None
        self._iterators: WeakSet[StoreIterator[bytes, bytes]] = WeakSet()

    # The life of the store.

    @property
    def is_open(self) -> bool:
        """Whether the store can be read and written."""
        return self._entries is not None

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the database below the task's directory."""
        directory = context.state_dir / self.name
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.create_missing_column_families(True)
        if context.write_buffer_bytes is not None:
            options.set_write_buffer_size(context.write_buffer_bytes)
        families = {"default": options, "offsets": options}
        with translated(f"Opening the database {directory}"):
            directory.mkdir(parents=True, exist_ok=True)
            self._entries = Rdict(str(directory), options, column_families=families)
        self._offsets = self._entries.get_column_family("offsets")
        self._write_options = WriteOptions()
        # It is a property, whatever the package's own annotation says.
        self._write_options.disable_wal = not self._log  # type: ignore[assignment, method-assign]
        context.register(root, self.restore)

    def close(self) -> None:
        """Close both families, which flushes them."""
        for iterator in list(self._iterators):
            iterator.close()
        entries, self._entries = self._entries, None
        if entries is not None:
            with translated(f"Closing store {self.name!r}"):
                self._offsets.close()
                entries.close()

    # Committing and restoring.

    def flush(self) -> None:
        """Flush the entries, and then the offsets that reach up to them."""
        entries = self._opened()
        with translated(f"Flushing store {self.name!r}"):
            entries.flush()
            self._offsets.flush()

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Write all offsets in one batch."""
        entries = self._opened()
        family = entries.get_column_family_handle("offsets")
        batch = WriteBatch(raw_mode=True)
        with translated(f"Committing store {self.name!r}"):
            if not changelog_offsets:
                for key in list(self._offsets.keys()):
                    batch.delete(key, family)
            for partition, offset in changelog_offsets.items():
                if offset is None:
                    batch.delete(offset_key(partition), family)
                else:
                    batch.put(offset_key(partition), b"%d" % offset, family)
            entries.write(batch, self._write_options)

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """The last committed offset of ``partition``."""
        self._opened()
        with translated(f"Reading the offset of store {self.name!r}"):
            value = self._offsets.get(offset_key(partition))
        return None if value is None else int(value)

    def restore(self, batch: Sequence[ChangelogRecord]) -> None:
        """Write changelog records; to apply a batch twice changes nothing."""
        for record in batch:
            self.put(record.key, record.value)

    # Reading and writing.

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``, or ``None``."""
        require_key(key)
        entries = self._opened()
        with translated(f"Reading from store {self.name!r}"):
            value: bytes | None = entries.get(key)
        return value

    def put(self, key: bytes, value: bytes | None) -> None:
        """Write a value, or with ``None`` a deletion."""
        require_key(key)
        entries = self._opened()
        with translated(f"Writing to store {self.name!r}"):
            if value is None:
                entries.delete(key, self._write_options)
            else:
                entries.put(key, value, self._write_options)

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The entries between two keys, both inclusive; RocksDB compares keys as bytes."""
        rows = self._rows(from_key, backwards=False)
        return self._iterator(takewhile(lambda row: to_key is None or row[0] <= to_key, rows))

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The same entries, descending."""
        rows = self._rows(to_key, backwards=True)
        return self._iterator(takewhile(lambda row: from_key is None or row[0] >= from_key, rows))

    def prefix_scan(self, prefix: bytes) -> KeyValueIterator:
        """The entries whose key starts with ``prefix``."""
        require_key(prefix)
        rows = self._rows(prefix, backwards=False)
        return self._iterator(takewhile(lambda row: row[0].startswith(prefix), rows))

    def approximate_num_entries(self) -> int:
        """RocksDB's own estimate."""
        estimate = self._opened().property_int_value("rocksdb.estimate-num-keys")
        return int(estimate or 0)

    # What the methods above have in common.

    def _rows(self, start: bytes | None, *, backwards: bool) -> Iterator[Row]:
        # RocksDB's iterators read the state of the moment at which they were made.
        return cast(Iterator[Row], self._opened().items(backwards=backwards, from_key=start))

    def _iterator(self, rows: Iterator[Row]) -> KeyValueIterator:
        return StoreIterator(self.name, rows, self._iterators)

    def _opened(self) -> Rdict:
        if self._entries is None:
            raise InvalidStateStoreError(f"Store {self.name!r} is not open; call init().")
        return self._entries


def offset_key(partition: TopicPartition) -> bytes:
    """Where the offset of a partition is; its number is behind the last dash."""
    return str(TopicPartition(*partition)).encode()


@contextmanager
def translated(action: str) -> Iterator[None]:
    """Turn what the package raises, bare ``Exception``, into the error of a store."""
    try:
        yield
    except (InvalidStateStoreError, ProcessorStateError):
        raise
    except Exception as error:
        raise ProcessorStateError(f"{action} failed: {error}") from error


def make() -> RocksdictStore:
    """The mistake: no log, and one flush for each family."""
    return RocksdictStore(log=False)


def with_log() -> RocksdictStore:
    """The log keeps the order of all writes."""
    return RocksdictStore(log=True)
