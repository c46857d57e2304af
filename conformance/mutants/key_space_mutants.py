"""Stores that mix partitions, or stores of one task; see the table in the package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import ClassVar
from weakref import WeakSet

from streamproof.conformance.mutants.crash_mutants import JournalStore
from streamproof.stores.api import (
    NO_TIMESTAMP,
    ChangelogRecord,
    KeyValueIterator,
    Position,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.iterators import StoreIterator
from streamproof.stores.key_spaces import cut
from streamproof.stores.memory import InMemoryKeyValueStore
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.transactional import TransactionalKeyValueStore, TransactionalRocksDBStore
from streamproof.stores.windowed.memory_windows import InMemoryWindowStore

NAME = "store"

Offsets = Mapping[TopicPartition, int | None]


# Partitions.


class offsets_are_replaced_by_prefix(RocksDBStore):
    """Removes the old offset of a partition with all rows that begin with its name."""

    def __init__(self) -> None:
        super().__init__(NAME)
        self._seen: set[TopicPartition] = set()

    def commit(self, changelog_offsets: Offsets) -> None:
        names = tuple(map(str, changelog_offsets))
        gone = {each for each in self._seen if str(each).startswith(names)}
        self._seen.update(changelog_offsets)
        super().commit(dict.fromkeys(gone) | dict(changelog_offsets))


class dots_are_underscores(RocksDBStore):
    """Names the row of an offset like a metric, in which dots are underscores."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def commit(self, changelog_offsets: Offsets) -> None:
        super().commit({_flat(each): offset for each, offset in changelog_offsets.items()})

    def committed_offset(self, partition: TopicPartition) -> int | None:
        return super().committed_offset(_flat(partition))


def _flat(partition: TopicPartition) -> TopicPartition:
    return partition._replace(topic=partition.topic.replace(".", "_"))


class positions_of_four_bytes(RocksDBStore):
    """Stores the offsets of a position in four bytes."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def commit(self, changelog_offsets: Offsets) -> None:
        offsets = self._position.as_dict()
        self._position = Position({each: offset % 2**32 for each, offset in offsets.items()})
        super().commit(changelog_offsets)


class positions_by_joined_names(RocksDBStore):
    """Keeps the position of a record under its topic and number without a separator."""

    def __init__(self) -> None:
        super().__init__(NAME)
        self._joined: dict[str, TopicPartition] = {}

    def _record_position(self) -> None:
        context = self._context
        if context is not None and context.record_metadata is not None:
            topic, partition, offset = context.record_metadata
            own = TopicPartition(topic, partition)
            first = self._joined.setdefault(f"{topic}{partition}", own)
            self._position.update(*first, offset)


# Stores of one task.


class _Journalled(JournalStore):
    """A right store if its place tells all names apart."""

    def place(self) -> str:
        """The directory of the store, below that of its task."""
        return self.name

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        task = context.state_dir
        context.state_dir = task / self.place()
        try:
            super().init(context, root)
        finally:
            context.state_dir = task


def journalled(name: str = NAME) -> JournalStore:
    """The store without a mistake."""
    return _Journalled(name)


def one_place_for_every_name(name: str = NAME) -> JournalStore:
    """Has one directory for all stores of a task."""
    return JournalStore(name)


class _WithoutSuffix(_Journalled):
    def place(self) -> str:
        return str(Path(self.name).with_suffix(".journal"))


def names_lose_their_suffix(name: str = NAME) -> JournalStore:
    """Takes what follows the last dot of a name for the suffix of a file."""
    return _WithoutSuffix(name)


class _WithoutCase(_Journalled):
    def place(self) -> str:
        return self.name.lower()


def names_have_no_case(name: str = NAME) -> JournalStore:
    """Names tables after stores, in a database that ignores case."""
    return _WithoutCase(name)


class names_run_into_keys(InMemoryKeyValueStore):
    """Keeps the rows of all stores of a process in one map, behind the name and a dash."""

    rows: ClassVar[dict[bytes, bytes]] = {}

    def __init__(self, name: str = NAME) -> None:
        super().__init__(name)

    def _shared(self, key: bytes) -> bytes:
        return b"%s-%s" % (self.name.encode(), key)

    def get(self, key: bytes) -> bytes | None:
        found = super().get(key)
        return found if found is None else self.rows.get(self._shared(key))

    def put(self, key: bytes, value: bytes | None) -> None:
        super().put(key, value)
        if value is not None:
            self.rows[self._shared(key)] = value


class open_ranges_run_on(InMemoryKeyValueStore):
    """Ends a scan with an open upper side where the table ends, behind the rows of other stores."""

    opened: ClassVar[WeakSet[open_ranges_run_on]] = WeakSet()

    def __init__(self, name: str = NAME) -> None:
        super().__init__(name)
        self.opened.add(self)

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        own = super().range(from_key, to_key)
        if to_key is not None:
            return own
        behind = sorted(
            (each for each in self.opened if each.is_open and each.name > self.name),
            key=lambda each: each.name,
        )
        rows = chain(own, *(InMemoryKeyValueStore.range(each, None, None) for each in behind))
        return StoreIterator(self.name, rows, self._iterators)


class one_position_for_the_task(InMemoryKeyValueStore):
    """Keeps the position of all stores of a process in one place."""

    reached: ClassVar[Position] = Position()

    def __init__(self, name: str = NAME) -> None:
        super().__init__(name)

    def put(self, key: bytes, value: bytes | None) -> None:
        self._position = self.reached
        super().put(key, value)


class restores_the_newest(InMemoryKeyValueStore):
    """Hands restored records to the store that was opened last."""

    newest: ClassVar[restores_the_newest]

    def __init__(self, name: str = NAME) -> None:
        super().__init__(name)

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        type(self).newest = self

    def _restore(self, batch: Sequence[ChangelogRecord]) -> None:
        super(restores_the_newest, self.newest)._restore(batch)


class close_discards_for_all(TransactionalKeyValueStore):
    """Rolls back, when it is closed, what all stores of the process have staged."""

    opened: ClassVar[WeakSet[close_discards_for_all]] = WeakSet()

    def __init__(self, name: str = NAME) -> None:
        super().__init__(TransactionalRocksDBStore(name))
        self.opened.add(self)

    def discard(self) -> None:
        """Roll back what is staged, and go on."""
        self._target.close()
        self._begin()

    def close(self) -> None:
        for each in self.opened:
            if each is not self and each.is_open:
                each.discard()
        super().close()


class _TemporaryOfTheTask(_Journalled):
    def append(self, data: bytes) -> None:
        written = self.journal.read_bytes() if self.journal.exists() else b""
        self.temporary.write_bytes(written + data)
        self.temporary.replace(self.journal)

    @property
    def temporary(self) -> Path:
        """The new journal, before it is renamed."""
        return self.directory.parent.parent / "journal.new"

    def recover(self) -> None:
        if self.temporary.exists():
            self.temporary.replace(self.journal)
        super().recover()


def temporary_file_of_the_task(name: str = NAME) -> JournalStore:
    """Finishes at its opening what a crash left in the temporary file of all stores."""
    return _TemporaryOfTheTask(name)


class prefixes_run_into_keys(InMemoryKeyValueStore):
    """Joins the prefix of a key space and the key in there with a separator."""

    capabilities = replace(
        InMemoryKeyValueStore.capabilities,
        scan=False,
        ranges=False,
        reverse=False,
        prefix_scan=False,
    )

    def __init__(self) -> None:
        super().__init__(NAME)

    def get(self, key: bytes) -> bytes | None:
        return super().get(key and b"|".join(cut(key)))

    def put(self, key: bytes, value: bytes | None) -> None:
        super().put(key and b"|".join(cut(key)), value)


# Tasks of one process.


class by_partition(_Journalled):
    """A right store whose tasks may share a directory: each has a place by its partition."""

    capabilities = replace(_Journalled.capabilities, tasks_share_directory=True)

    def __init__(self) -> None:
        super().__init__(NAME)
        self._partition = ""

    def place(self) -> str:
        return f"{self.name}-{self._partition}"

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        self._partition = self.partition_of(context.task_id)
        super().init(context, root)

    def partition_of(self, task_id: str) -> str:
        """The part of the name of the place that tells tasks apart."""
        return task_id.rpartition("_")[2]


class partitions_of_one_digit(by_partition):
    """Tells partitions apart by the last digit of their number."""

    def partition_of(self, task_id: str) -> str:
        return task_id[-1]


class close_ends_every_task(InMemoryKeyValueStore):
    """Closes the stores of its name in all tasks, as if they were one connection."""

    opened: ClassVar[WeakSet[close_ends_every_task]] = WeakSet()

    def __init__(self, name: str = NAME) -> None:
        super().__init__(name)
        self.opened.add(self)

    def close(self) -> None:
        for each in list(self.opened):
            if each.name == self.name:
                InMemoryKeyValueStore.close(each)


class stream_time_of_the_process(InMemoryWindowStore):
    """Keeps the stream time of all stores of a process in one place."""

    newest: ClassVar[int] = NO_TIMESTAMP

    def __init__(self, name: str = NAME) -> None:
        super().__init__(name, retention_ms=180_000, window_size_ms=10_000)

    @property
    def _stream_time(self) -> int:
        return self.newest

    @_stream_time.setter
    def _stream_time(self, time: int) -> None:
        type(self).newest = max(time, self.newest)
