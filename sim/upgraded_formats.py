"""Model stores of two formats on one disk: plain values, and values with timestamps (KIP-258).

The newer format is in a place of its own, ``<store>-v2``, with its own offsets. Whoever has it as
the live one restores it from its own offset on, and discards the older one once it has come as far.
An upgrade in place prepares that: the older format is served, and the newer one is built beside it
from the changelog. That is what real stores do in ``stores/upgrade.py``; as there, what is live
follows from the configuration of the instance alone, and not from what others in the group do.

Source: KIP-258, In-place upgrade and Offline upgrade.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from streamproof.sim.upgraded_stores import ManagingStore
from streamproof.stores.api import (
    ChangelogRecord,
    KeyValueIterator,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.checkpoint import OFFSET_UNKNOWN

__all__ = ["NEWER", "PreparingStore", "TimestampedStore", "timestamped"]

NEWER = "-v2"
"""What the place of the newer format is called, behind the name of the store."""

_TIMESTAMP_BYTES = 8


def timestamped(value: bytes | None, timestamp: int) -> bytes | None:
    """A value of the newer format: the timestamp, in 8 bytes, and the plain value."""
    if value is None:
        return None
    return timestamp.to_bytes(_TIMESTAMP_BYTES, "big", signed=True) + value


class TimestampedStore(ManagingStore):
    """A store in the newer format, which shows plain values.

    Attributes:
        discards: whether the older format is deleted once this one has come as far.
        takes_older_offsets: whether it begins where the older format ends: for a defect.
    """

    discards = True
    takes_older_offsets = False

    @property
    def name(self) -> str:
        """The name of the store, which its place on the disk is not."""
        return self._name.removesuffix(NEWER)

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open what is on the disk; an older format is not touched before this one is as far.

        Raises:
            TaskCorruptedError: the store was not closed, and cannot tell what was committed.
        """
        super().init(context, root)
        self._is_new = not self._image.rows and not self._image.offsets
        older = self._disk.images(context.state_dir).get(self.name)
        if self.takes_older_offsets and older is not None:
            self._offsets = {**self._offsets, **older.offsets}
        self._discard_older()

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit, and delete the older format if this one is as far now.

        Raises:
            ProcessorStateError: a commit is to last, and the disk is full.
        """
        super().commit(changelog_offsets)
        self._discard_older()

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """The offset that was committed last; ``OFFSET_UNKNOWN`` if there was nothing at all.

        Only the older format is there then: that is no sign of a crash.
        """
        found = super().committed_offset(partition)
        return OFFSET_UNKNOWN if found is None and self._is_new else found

    def _discard_older(self) -> None:
        directory = self._opened().state_dir
        older = self._disk.images(directory).get(self.name)
        if older is None or not self.discards:
            return
        if self._offsets and all(
            self._offsets.get(partition, -1) >= offset
            for partition, offset in older.offsets.items()
        ):
            # What takes its place must not be lost together with the power.
            self.sync()
            self._disk.discard(directory, self.name)

    def restore(self, batch: Sequence[ChangelogRecord]) -> None:
        """Apply changelog records, with their timestamps."""
        super().restore(
            [each._replace(value=timestamped(each.value, each.timestamp)) for each in batch]
        )

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of ``key``, with the time of the record; ``None`` deletes it."""
        super().put(key, timestamped(value, self._opened().record_timestamp))

    def get(self, key: bytes) -> bytes | None:
        """The plain value of ``key``, or ``None``."""
        value = super().get(key)
        return None if value is None else value[_TIMESTAMP_BYTES:]

    def _iterator(self, rows: Iterable[tuple[bytes, bytes]]) -> KeyValueIterator:
        return super()._iterator((key, value[_TIMESTAMP_BYTES:]) for key, value in rows)


class PreparingStore(ManagingStore):
    """A store whose older format is live, while the newer one is built beside it."""

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open both formats.

        Raises:
            TaskCorruptedError: the live one was not closed, and cannot tell what was committed.
        """
        super().init(context, root)
        place = f"{self._name}{NEWER}"
        if self._disk.image(context.state_dir, place).is_open:
            # It was live, and crashed, before the upgrade was taken back.
            self._disk.discard(context.state_dir, place)
        # What stages its writes marks no status: nothing but the changelog is ever in there.
        self._newer = TimestampedStore(place, self._disk, transactional=True)
        self._newer.discards = False
        self._next: dict[TopicPartition, int] = {}
        # What the runtime restores is the live format; the other one is fed.
        own = replace(context, restore_callbacks={}, changelog=None, metrics=None)
        self._newer.init(own, self._newer)

    def close(self) -> None:
        """Close both formats.

        Raises:
            ProcessorStateError: the disk is full. They are closed then, as after a crash.
        """
        if not self.is_open:
            return
        try:
            self._newer.close()
        finally:
            super().close()

    def next_offset(self, partition: TopicPartition) -> int:
        """The first offset of the changelog that was not looked at for the newer format."""
        offset = self._newer.committed_offset(partition)
        return self._next.get(partition, max(-1 if offset is None else offset, -1) + 1)

    def feed(
        self, partition: TopicPartition, batch: Sequence[ChangelogRecord], next_offset: int
    ) -> None:
        """Apply the next records of the changelog to the newer format.

        Args:
            partition: of the changelog.
            batch: the records; none, if there are only markers, or what was aborted.
            next_offset: where to go on.
        """
        if batch:
            self._newer.restore(batch)
            self._newer.commit({partition: batch[-1].offset})
        self._next[partition] = next_offset

    def is_prepared(self, partition: TopicPartition) -> bool:
        """Whether the newer format is as far as the live one has committed."""
        live = self.committed_offset(partition)
        return live is not None and self.next_offset(partition) > live
