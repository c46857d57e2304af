"""A model of a window or session store with a database for each segment of time.

Each segment has all committed offsets, and each flushes on its own. So after a crash the segments
may have different offsets, and the store has to say one of them. The least offset is always safe:
the changelog has everything after it. Kafka 4.3.1 says that of the newest segment, and what an
older segment had in memory is lost without a word.

A new segment is on the disk as soon as it is made. It has the committed offset of the store, as
it lacks nothing of what came before; in Kafka it has none until the next commit. As long as one
segment has no offset, the store has none.

Sources: Kafka, AbstractSegments#commit and #committedOffset, KeyValueSegments; KAFKA-20663.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy

from streamproof.sim.model_store import ModelDisk, ModelStore
from streamproof.stores.api import (
    ChangelogRecord,
    IsolationLevel,
    Position,
    StateStore,
    StateStoreContext,
    TopicPartition,
    require_key,
)
from streamproof.stores.capabilities import Durability

__all__ = ["SegmentOf", "SegmentedStore"]

SegmentOf = Callable[[bytes], int]
"""The number of the segment that a key belongs to: the time of its row, in segment intervals."""


class SegmentedStore(ModelStore):
    """A persistent key-value store whose keys have times, with a database for each segment.

    Args:
        name: the name of the store.
        disk: the disk of its host.
        segment_of: the segment of a key.
        transactional: whether the store can stage writes until ``commit`` (KIP-892).
        durability: the extra work of a commit.
        trusts_newest: whether the store says the offset of its newest segment that has one.
    """

    def __init__(
        self,
        name: str,
        disk: ModelDisk,
        segment_of: SegmentOf,
        *,
        transactional: bool,
        durability: Durability,
        trusts_newest: bool = False,
    ) -> None:
        super().__init__(name, disk, transactional=transactional, durability=durability)
        self._segment_of = segment_of
        self._trusts_newest = trusts_newest
        self._segments: dict[int, ModelStore] = {}

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open all segments on the disk.

        Raises:
            TaskCorruptedError: a segment was not closed, and cannot tell committed data from other.
        """
        prefix = f"{self._name}."
        found = [name for name in self._disk.images(context.state_dir) if name.startswith(prefix)]
        segments = {
            int(name.removeprefix(prefix)): self._made(name, context) for name in sorted(found)
        }
        self._context, self._segments = context, dict(sorted(segments.items()))
        context.register(root, self.restore)

    def _made(self, name: str, context: StateStoreContext) -> ModelStore:
        made = ModelStore(
            name, self._disk, transactional=self._transactional, durability=self._durability
        )
        made.init(context, made)
        del context.restore_callbacks[name]
        return made

    def _segment(self, key: bytes) -> ModelStore:
        """The segment of a key; a new one is made on the disk."""
        context, number = self._opened(), self._segment_of(key)
        if number not in self._segments:
            name = f"{self._name}.{number}"
            if not self._trusts_newest:
                self._disk.image(context.state_dir, name).offsets = self._committed()
            self._segments[number] = self._made(name, context)
            self._segments = dict(sorted(self._segments.items()))
        return self._segments[number]

    def _committed(self) -> dict[TopicPartition, int]:
        """The committed offset of the store, by partition."""
        names = {each for segment in self._segments.values() for each in segment._offsets}  # noqa: SLF001
        found = {each: self.committed_offset(each) for each in sorted(names)}
        return {each: offset for each, offset in found.items() if offset is not None}

    @property
    def segments(self) -> list[int]:
        """The numbers of its segments, the newest first."""
        return list(reversed(self._segments))

    def has_memory_beside(self, number: int) -> bool:
        """Whether another segment than this one has anything that is not on the disk."""
        others = (each for name, each in self._segments.items() if name != number)
        return any(each._memtable for each in others)  # noqa: SLF001 - parts of this store

    def write_segment(self, number: int) -> list[bytes]:
        """Let one segment write its memory, as when its buffer is full; return the written keys.

        Raises:
            ProcessorStateError: the disk is full; nothing has changed.
        """
        segment = self._segments[number]
        written = list(segment._memtable)  # noqa: SLF001 - a part of this store
        segment.write_memtable()
        return written

    def write_memtable(self) -> None:
        """Write the memory of all segments."""
        for each in self._segments.values():
            each.write_memtable()

    def sync(self) -> None:
        """Flush all segments, and make them survive a loss of power."""
        for each in self._segments.values():
            each.sync()

    def close(self) -> None:
        """Close all segments, the oldest first. Closing twice is harmless.

        Raises:
            ProcessorStateError: the disk is full. The store is closed then.
        """
        if self._context is None:
            return
        try:
            for each in self._segments.values():
                each.close()
        finally:
            self._context = None
            for iterator in list(self._iterators):
                iterator.close()

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit all segments, one after the other, with the same offsets."""
        self._opened()
        for each in self._segments.values():
            each.commit(changelog_offsets)

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """The committed offset of the segments; ``None`` without one."""
        self._opened()
        found = [each.committed_offset(partition) for each in self._segments.values()]
        known = [each for each in found if each is not None]
        if self._trusts_newest:
            return known[-1] if known else None
        return min(known) if known and len(known) == len(found) else None

    def restore(self, batch: Sequence[ChangelogRecord]) -> None:
        """Apply changelog records to their segments."""
        self._opened()
        for record in batch:
            self._segment(record.key).restore([record])

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``, or ``None``."""
        require_key(key)
        self._opened()
        # A query may ask for a key that belongs to no window, and so to no segment.
        values = (each.get(key) for each in self._segments.values())
        return next((value for value in values if value is not None), None)

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of ``key``; ``None`` deletes it."""
        require_key(key)
        self._segment(key).put(key, value)

    @property
    def position(self) -> Position:
        """The input offsets that the content reflects: those of all segments (KIP-796)."""
        position = Position()
        for each in self._segments.values():
            position.merge(each.position)
        return position

    def approximate_num_uncommitted_entries(self) -> int:
        """How many keys are staged."""
        return sum(each.approximate_num_uncommitted_entries() for each in self._segments.values())

    def approximate_num_uncommitted_bytes(self) -> int:
        """How many bytes are staged, keys and values."""
        return sum(each.approximate_num_uncommitted_bytes() for each in self._segments.values())

    def read_only(self, isolation_level: IsolationLevel) -> ModelStore:
        """A view for queries: under READ_COMMITTED, this store as if nothing were staged."""
        if isolation_level is IsolationLevel.READ_UNCOMMITTED:
            return self
        view = copy(self)
        view._segments = {  # noqa: SLF001 - its own kind
            number: each.read_only(isolation_level) for number, each in self._segments.items()
        }
        return view

    def _rows(self) -> dict[bytes, bytes]:
        self._opened()
        rows: dict[bytes, bytes] = {}
        for each in self._segments.values():
            rows |= each._rows()  # noqa: SLF001 - a part of this store
        return rows
