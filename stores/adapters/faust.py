"""The RocksDB store of Faust (faust-streaming), driven through the package's own class.

The adapter needs ``pip install 'streamproof[faust]'``.

The package as the contract sees it (read in faust-streaming 0.15):

- *Not transactional.* Every write goes to RocksDB at once; nothing is staged or rolled back, not
  even under ``processing_guarantee="exactly_once"``.
- *The offset is written after the data*, in a put of its own: when the changelog record is
  acknowledged (at-least-once) or when the source offsets are committed (exactly-once). The offset
  of faust is that of the last changelog record that the content reflects. ``commit`` uses offsets
  in the same sense, so the adapter passes them on unchanged.
- *One database per partition*, all in one directory, each named after the table and the partition.
  The offsets of several partitions live in several databases.
- *Durable against the death of the process*: the write-ahead log is on and not synced.
- *Nothing to forget offsets with.*
- *A reserved key.* The offset is a row of the database under a key that begins with ``__faust``.
  A user who writes that key writes the offset.
- *Iteration without a promised order.*

Faust picks the database by the event that is being processed, and asks its app and its table
for a few settings; small stand-ins of ours take their place. Everything else is the package.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypeVar

from streamproof.errors import UsageError
from streamproof.stores.adapters import task_partition, translated
from streamproof.stores.api import (
    ChangelogRecord,
    KeyValueIterator,
    KeyValueStore,
    StateStore,
    StateStoreContext,
    TopicPartition,
    require_key,
)
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.errors import InvalidStateStoreError, UnsupportedOperationError
from streamproof.stores.iterators import RowIterator, StoreIterator

try:
    from faust.serializers.registry import Registry
    from faust.stores.rocksdb import Store
    from faust.streams import _current_event
    from faust.types import TP
except ImportError as error:
    raise UsageError(
        f"Faust cannot be imported ({error}). Run: pip install 'streamproof[faust]'."
    ) from error

__all__ = ["FaustStore", "make"]

# Without any handler Python prints a library's warnings on stderr. A program that configures
# logging still gets them.
for _logger in ("faust", "mode"):
    logging.getLogger(_logger).addHandler(logging.NullHandler())

_Result = TypeVar("_Result")


@dataclass
class _Event:
    """The part of ``faust.Event`` that the store reads; faust refers to it weakly."""

    message: SimpleNamespace


class FaustStore(KeyValueStore):
    """``faust.stores.rocksdb.Store`` with the driver rocksdict, for the partition of one task."""

    capabilities = Capabilities(
        transactional=False,
        several_partitions=False,
        scan=True,
        ranges=False,
        reverse=False,
        prefix_scan=False,
        entry_count=True,
        durability="process",
        iterator_view="weak",
        forgets_offsets=False,
        tasks_share_directory=True,
    )

    def __init__(self, name: str = "faust") -> None:
        self._name = name
        self._store: Store | None = None
        self._event = _Event(SimpleNamespace())
        self._changelog = TopicPartition("", 0)
        # Those whose offset may be stored, as far as this instance knows.
        self._partitions: set[TopicPartition] = set()
        self._iterators: weakref.WeakSet[RowIterator] = weakref.WeakSet()

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
        """Always: the offset is a reserved key of the same database."""
        return True

    @property
    def is_open(self) -> bool:
        """Whether ``init`` was called and ``close`` not yet."""
        return self._store is not None

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the task's database below ``<state_dir>``, as faust's recovery does first."""
        topic = context.changelog_topic(self._name)
        own = TP(topic, task_partition(context))
        app: Any = SimpleNamespace(
            conf=SimpleNamespace(tabledir=context.state_dir, table_key_index_size=1000),
            assignor=SimpleNamespace(assigned_actives=lambda: {own}),
            serializers=Registry(key_serializer="raw", value_serializer="raw"),
        )
        table: Any = SimpleNamespace(
            name=self._name, is_global=False, use_partitioner=False, changelog_topic_name=topic
        )
        options: dict[str, Any] = {"driver": "rocksdict"}
        if context.write_buffer_bytes is not None:
            options["write_buffer_size"] = context.write_buffer_bytes
        with translated(f"Opening the database of {self._name!r} below {context.state_dir}"):
            store = Store("rocksdb:", app, table, options=options)
            # Databases are opened by their first use, and deletions do not count as one:
            # recovery asks for the persisted offset of every assigned partition at the start.
            store.persisted_offset(own)
        self._store = store
        self._event = _Event(SimpleNamespace(partition=own.partition))
        self._changelog = TopicPartition(*own)
        self._partitions = {self._changelog}
        context.register(root, self._restore)

    def close(self) -> None:
        """Stop the store in a separate event loop.

        Faust lets go of its databases instead of closing them, so open iterators go first.
        """
        for entries in list(self._iterators):
            entries.close()
        store, self._store = self._store, None
        if store is not None:
            loop = asyncio.new_event_loop()
            try:
                with translated(f"Stopping store {self._name!r}"):
                    loop.run_until_complete(store.stop())
            finally:
                loop.close()

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Set the persisted offset of each partition: the data has been written before.

        Raises:
            UnsupportedOperationError: an offset that is stored would have to be forgotten.
        """
        store = self._opened()
        forget = [p for p, offset in changelog_offsets.items() if offset is None]
        for partition in forget if changelog_offsets else self._partitions:
            if self.committed_offset(partition) is not None:
                raise UnsupportedOperationError(
                    "Faust cannot forget a stored offset. Wipe the directory of the store instead."
                )
        with translated(f"Committing store {self._name!r}"):
            for partition, offset in changelog_offsets.items():
                if offset is not None:
                    self._partitions.add(partition)
                    store.set_persisted_offset(TP(*partition), offset)

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """``persisted_offset``: by the number of the partition, whatever the topic is called."""
        store = self._opened()
        with translated(f"Reading the offset of store {self._name!r}"):
            offset: int | None = store.persisted_offset(TP(*partition))
        return offset

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``, by the package's mapping."""
        store = self._opened()
        require_key(key)
        with translated(f"Reading from store {self._name!r}"):
            try:
                value: bytes = self._during_event(lambda: store[key])
            except KeyError:
                return None
        return value

    def put(self, key: bytes, value: bytes | None) -> None:
        """Write a value, or with ``None`` a deletion, to RocksDB at once."""
        store = self._opened()
        require_key(key)
        with translated(f"Writing to store {self._name!r}"):
            if value is None:
                self._during_event(lambda: store.__delitem__(key))
            else:
                self._during_event(lambda: store.__setitem__(key, value))

    def all(self) -> KeyValueIterator:
        """Every entry of the task's partition, in the order of the package."""
        return StoreIterator(self._name, iter(self._opened().items()), self._iterators)

    def approximate_num_entries(self) -> int:
        """The exact number of entries: the package counts by iterating."""
        return len(self._opened())

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """Not available."""
        raise self._unavailable("a range")

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """Not available."""
        raise self._unavailable("a descending range")

    def prefix_scan(self, prefix: bytes) -> KeyValueIterator:
        """Not available."""
        raise self._unavailable("a prefix scan")

    def _restore(self, batch: Sequence[ChangelogRecord]) -> None:
        """Apply a batch as faust's recovery does; faust stores the batch's last offset itself."""
        store = self._opened()
        own = TP(*self._changelog)
        events: list[Any] = [
            _Event(
                SimpleNamespace(
                    tp=own, partition=own.partition, offset=r.offset, key=r.key, value=r.value
                )
            )
            for r in batch
        ]
        with translated(f"Restoring store {self._name!r}"):
            store.apply_changelog_batch(events, to_key=lambda key: key, to_value=lambda v: v)

    def _during_event(self, action: Callable[[], _Result]) -> _Result:
        """Run ``action`` as if the task's event were being processed, as faust's streams do."""
        event: Any = weakref.ref(self._event)
        token = _current_event.set(event)
        try:
            return action()
        finally:
            _current_event.reset(token)

    def _unavailable(self, what: str) -> UnsupportedOperationError:
        self._opened()
        return UnsupportedOperationError(
            f"Faust's store has no {what.removeprefix('a ')}. Use all() or get()."
        )

    def _opened(self) -> Store:
        # A stopped faust store opens its databases again when it is used. Not even asking it
        # keeps the contract's life cycle apart from that.
        if self._store is None:
            raise InvalidStateStoreError(
                f"Store {self._name!r} is not open; call init() before using it."
            )
        return self._store


def make(name: str = "faust") -> FaustStore:
    """A store that is not open yet, for ``streamproof verify``."""
    return FaustStore(name)
