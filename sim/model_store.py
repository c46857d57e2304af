"""A fast model of a store, with a separate step for each move of data towards the disk.

The model has the layers of a real store: staged writes until the commit, if the store has
transactions; a memtable, which a crash takes away; and flushed rows. The store never flushes on its
own: the world chooses when. Data can be lost in two ways. When the process dies, everything that
was not flushed is lost. When the power fails, flushed data that was not synced may be lost, too,
the latest first.

Sources: KIP-892, KIP-1035; Kafka, RocksDBStore, with atomic flush and without a log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from weakref import WeakSet

from streamproof.sim.choices import Choices
from streamproof.stores.api import (
    ChangelogRecord,
    IsolationLevel,
    KeyValueIterator,
    KeyValueStore,
    Position,
    StateStore,
    StateStoreContext,
    TopicPartition,
    require_key,
)
from streamproof.stores.capabilities import Durability
from streamproof.stores.errors import InvalidStateStoreError, TaskCorruptedError
from streamproof.stores.iterators import RowIterator, StoreIterator, is_inverted, prefix_end

__all__ = ["WRITEBACK_MS", "Checkpoint", "Image", "ModelDisk", "ModelStore", "Undo"]

WRITEBACK_MS = 30_000
"""After this many milliseconds the system has written flushed data, synced or not (Linux)."""


class Undo(NamedTuple):
    """The state before a flush, which a loss of power may bring back.

    Attributes:
        at: the time of the flush, in milliseconds.
        rows: the records that the flush replaced; ``None`` for a key that had no record.
        offsets: the offsets before the flush.
        position: the position before the flush.
        is_open: the status before the flush.
    """

    at: int
    rows: dict[bytes, bytes | None]
    offsets: dict[TopicPartition, int]
    position: Position
    is_open: bool


@dataclass
class Image:
    """The data of one store on the disk.

    Attributes:
        rows: the records.
        offsets: the committed offset by changelog partition.
        position: the input offsets that the rows reflect.
        is_open: the status, which is true until the store is closed.
        manages: whether the data has a place for offsets, which releases before KIP-1035 lack.
        unsynced: the flushes that are only in the page cache, oldest first.
    """

    rows: dict[bytes, bytes] = field(default_factory=dict)
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    position: Position = field(default_factory=Position)
    is_open: bool = False
    manages: bool = False
    unsynced: list[Undo] = field(default_factory=list)

    def undo(self) -> None:
        """Take the last flush back."""
        last = self.unsynced.pop()
        for key, value in last.rows.items():
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value
        self.offsets, self.position, self.is_open = last.offsets, last.position, last.is_open


class Checkpoint(NamedTuple):
    """The entries of one store in the ``.checkpoint`` file of a task, and the position beside it.

    Attributes:
        offsets: the committed offset by changelog partition.
        position: the input offsets that the rows reflect.
    """

    offsets: dict[TopicPartition, int]
    position: Position


class ModelDisk:
    """The disk of one host: the images of its stores, by directory and name.

    Args:
        now: the time, in milliseconds.
        require_space: called before a flush with the name of the store; it raises
            ProcessorStateError if the disk is full.

    Attributes:
        checkpoints: the files of older releases, by directory and store. They are synced at once.
    """

    def __init__(
        self,
        now: Callable[[], int] = lambda: 0,
        require_space: Callable[[str], None] = lambda _: None,
    ) -> None:
        # By the directory of the task, and by the name of the store.
        self._images: dict[Path, dict[str, Image]] = {}
        self.checkpoints: dict[tuple[Path, str], Checkpoint] = {}
        self.now = now
        self.require_space = require_space

    def image(self, directory: Path, name: str) -> Image:
        """The image of a store, empty at first."""
        return self._images.setdefault(directory, {}).setdefault(name, Image())

    def images(self, directory: Path) -> Mapping[str, Image]:
        """The images of all stores of a task, by name."""
        return self._images.get(directory, {})

    def discard(self, directory: Path, name: str) -> None:
        """Delete one store of a task. A loss of power does not bring it back."""
        self._images.get(directory, {}).pop(name, None)

    def is_empty(self, directory: Path) -> bool:
        """Whether no store of a task has any data."""
        return directory not in self._images

    def wipe(self, directory: Path) -> None:
        """Delete the stores of a task."""
        self._images.pop(directory, None)
        for place in [each for each in self.checkpoints if each[0] == directory]:
            del self.checkpoints[place]

    @property
    def directories(self) -> list[Path]:
        """The directories of tasks with data, in order."""
        return sorted(self._images)

    def lose_power(self, choices: Choices) -> int:
        """Lose some of the latest flushes of each store that were not synced.

        A flush is lost as a whole or not at all, and every flush after a lost one is lost as well:
        real databases check their files when they open, and stop at the first torn one. A wiped
        task stays wiped.

        Returns:
            The number of lost flushes.
        """
        lost = 0
        images = [
            image
            for directory in self.directories
            for _, image in sorted(self._images[directory].items())
        ]
        for image in images:
            oldest = self.now() - WRITEBACK_MS
            count = choices.below(1 + sum(each.at > oldest for each in image.unsynced))
            for _ in range(count):
                image.undo()
            lost += count
            image.unsynced.clear()
        return lost


class ModelStore(KeyValueStore):
    """A key-value store on a model disk.

    Args:
        name: the name of the store.
        disk: the disk of its host. When the host dies, the store is dropped, and the disk is left.
        transactional: whether the store can stage writes until ``commit`` (KIP-892). The context
            says whether it does: as proposed, under READ_COMMITTED only.
        durability: the extra work of a commit: nothing (``flush``), a flush (``process``), or a
            flush and a sync (``power``).
        persistent: whether the store is on the disk at all. If not, it is empty whenever it opens.
    """

    def __init__(
        self,
        name: str,
        disk: ModelDisk,
        *,
        transactional: bool = False,
        durability: Durability = "flush",
        persistent: bool = True,
    ) -> None:
        self._name = name
        self._disk = disk
        self._transactional = transactional
        self._durability = durability
        self._persistent = persistent
        self._context: StateStoreContext | None = None
        self._image = Image()
        self._iterators: WeakSet[RowIterator] = WeakSet()
        self._begin()

    def _begin(self) -> None:
        # Later layers hide earlier ones; None is a deletion.
        self._staged: dict[bytes, bytes | None] = {}
        self._staged_position = Position()
        self._memtable: dict[bytes, bytes | None] = {}
        self._offsets: dict[TopicPartition, int] = {}
        self._position = Position()
        self._committed_position = Position()

    @property
    def name(self) -> str:
        """The name of the store."""
        return self._name

    @property
    def persistent(self) -> bool:
        """Whether flushed data outlives the process."""
        return self._persistent

    @property
    def manages_offsets(self) -> bool:
        """Whether the store is persistent: another one has nothing to keep (KIP-1035)."""
        return self._persistent

    @property
    def is_open(self) -> bool:
        """Whether the store can be read and written."""
        return self._context is not None

    @property
    def position(self) -> Position:
        """The input offsets that the content reflects, staged writes included (KIP-796)."""
        position = self._position.copy()
        position.merge(self._staged_position)
        return position

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the data on the disk.

        Raises:
            TaskCorruptedError: the store was not closed, and cannot tell committed data from other.
        """
        image = self._disk.image(context.state_dir, self._name) if self._persistent else Image()
        if image.is_open and context.exactly_once and not self._transactional:
            raise TaskCorruptedError(
                f"Store {self._name!r} in {context.state_dir} was not closed: wipe and restore it."
            )
        self._image, self._context = image, context
        self._begin()
        self._offsets = dict(image.offsets)
        self._position = image.position.copy()
        self._committed_position = image.position
        # The status reaches the disk with the next flush, like all other data.
        self._status_open = not self._transactional
        context.register(root, self.restore)

    def close(self) -> None:
        """Sync, mark the store as closed, and drop staged writes. Closing twice is harmless.

        Raises:
            ProcessorStateError: the disk is full. The store is closed then, and the disk is as
                after a crash.
        """
        if self._context is None:
            return
        self._status_open = False
        try:
            self.sync()
        finally:
            self._context = None
            for iterator in list(self._iterators):
                iterator.close()

    def write_memtable(self) -> None:
        """Write the memtable to the page cache: rows, offsets, position and status together.

        A database does so by itself when its memtable is full, and the runtime never asks for it.

        Raises:
            ProcessorStateError: the disk is full; nothing has changed.
        """
        self._opened()
        self._disk.require_space(self._name)
        image = self._image
        self._note_replaced(image)
        for key, value in self._memtable.items():
            if value is None:
                image.rows.pop(key, None)
            else:
                image.rows[key] = value
        self._memtable.clear()
        image.offsets = dict(self._offsets)
        image.position = self._committed_position
        image.is_open = self._status_open

    def _note_replaced(self, image: Image) -> None:
        now = self._disk.now()
        while image.unsynced and image.unsynced[0].at <= now - WRITEBACK_MS:
            del image.unsynced[0]
        before = {key: image.rows.get(key) for key in self._memtable}
        image.unsynced.append(Undo(now, before, image.offsets, image.position, image.is_open))

    def sync(self) -> None:
        """Flush, and make the flushed data survive a loss of power.

        Raises:
            ProcessorStateError: the disk is full.
        """
        self.write_memtable()
        self._image.unsynced.clear()

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Move the staged writes and these offsets into the memtable. An empty map forgets all.

        Raises:
            ProcessorStateError: the commit has to flush, and the disk is full.
        """
        self._opened()
        self._memtable.update(self._staged)
        self._staged.clear()
        self._position.merge(self._staged_position)
        self._staged_position = Position()
        # The commit writes the position as a row, like the offsets.
        self._committed_position = self._position.copy()
        if not changelog_offsets:
            self._offsets.clear()
        for partition, offset in changelog_offsets.items():
            if offset is None:
                self._offsets.pop(partition, None)
            else:
                self._offsets[partition] = offset
        if self._durability == "power":
            self.sync()
        elif self._durability == "process":
            self.write_memtable()

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """The last committed offset; ``None`` without one, or if the store is not persistent."""
        self._opened()
        return self._offsets.get(partition) if self._persistent else None

    def restore(self, batch: Sequence[ChangelogRecord]) -> None:
        """Apply changelog records. They are committed already, and so they are not staged."""
        self._opened()
        self._memtable.update((record.key, record.value) for record in batch)

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``, or ``None``."""
        require_key(key)
        self._opened()
        for layer in (self._staged, self._memtable):
            if key in layer:
                return layer[key]
        return self._image.rows.get(key)

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of ``key``; ``None`` deletes it."""
        require_key(key)
        record = self._opened().record_metadata
        staging = self._transactional and self._opened().stages
        (self._staged if staging else self._memtable)[key] = value
        if record is not None:
            (self._staged_position if staging else self._position).update(*record)

    def approximate_num_uncommitted_entries(self) -> int:
        """How many keys are staged."""
        return len(self._staged)

    def approximate_num_uncommitted_bytes(self) -> int:
        """How many bytes are staged, keys and values."""
        return sum(len(key) + len(value or b"") for key, value in self._staged.items())

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The entries from ``from_key`` to ``to_key``, both inclusive, ascending."""
        return self._scan(from_key, to_key)

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The same entries as ``range``, descending."""
        return self._scan(from_key, to_key, reverse=True)

    def prefix_scan(self, prefix: bytes) -> KeyValueIterator:
        """Every entry whose key starts with ``prefix``, ascending."""
        require_key(prefix)
        end = prefix_end(prefix)
        rows = self._rows()
        keys = sorted(key for key in rows if key >= prefix and (end is None or key < end))
        return self._iterator((key, rows[key]) for key in keys)

    def approximate_num_entries(self) -> int:
        """The exact number of entries."""
        return len(self._rows())

    def read_only(self, isolation_level: IsolationLevel) -> ModelStore:
        """A view for queries: under READ_COMMITTED, this store as if nothing were staged."""
        if isolation_level is IsolationLevel.READ_UNCOMMITTED:
            return self
        # The view shares everything that is not staged.
        view = copy(self)
        view._staged, view._staged_position = {}, Position()  # noqa: SLF001 - its own kind
        return view

    def _scan(
        self, from_key: bytes | None, to_key: bytes | None, *, reverse: bool = False
    ) -> KeyValueIterator:
        rows = self._rows()
        if is_inverted(from_key, to_key):
            return self._iterator(())
        low = b"" if from_key is None else from_key
        keys = (key for key in rows if key >= low and (to_key is None or key <= to_key))
        return self._iterator((key, rows[key]) for key in sorted(keys, reverse=reverse))

    def _rows(self) -> dict[bytes, bytes]:
        """All entries at this moment."""
        self._opened()
        rows: dict[bytes, bytes | None] = {**self._image.rows, **self._memtable, **self._staged}
        return {key: value for key, value in rows.items() if value is not None}

    def _iterator(self, rows: Iterable[tuple[bytes, bytes]]) -> KeyValueIterator:
        moment: Iterator[tuple[bytes, bytes]] = iter(list(rows))
        return StoreIterator(self._name, moment, self._iterators)

    def _opened(self) -> StateStoreContext:
        if self._context is None:
            raise InvalidStateStoreError(
                f"Store {self._name!r} is not open; call init() before using it."
            )
        return self._context
