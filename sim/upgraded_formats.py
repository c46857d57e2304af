"""Model stores of two formats on one disk: plain values, and values with timestamps (KIP-258).

The newer format lies in its own place, ``<store>-v2``, with its own offsets. An instance that
serves the newer format restores it from those offsets. An upgrade in place prepares this step: the
instance serves the older format, and builds the newer one beside it from the changelog. Real stores
do the same in ``stores/format_upgrade.py``. The runtime says which formats a store opens.

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
"""The suffix that names the place of the newer format, after the name of the store."""

_TIMESTAMP_BYTES = 8


def timestamped(value: bytes | None, timestamp: int) -> bytes | None:
    """A value of the newer format: the timestamp, in 8 bytes, and the plain value."""
    if value is None:
        return None
    return timestamp.to_bytes(_TIMESTAMP_BYTES, "big", signed=True) + value


class TimestampedStore(ManagingStore):
    """A store in the newer format. It shows plain values.

    Attributes:
        discards: whether the store deletes the older format once this one has caught up.
        takes_older_offsets: whether this format begins where the older one ends; a defect.
    """

    discards = True
    takes_older_offsets = False

    @property
    def name(self) -> str:
        """The name of the store, without the suffix of its place on the disk."""
        return self._name.removesuffix(NEWER)

    @property
    def place(self) -> str:
        """The name of its place on the disk."""
        return self._name

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the files on the disk; delete an older format only if this one has caught up.

        Raises:
            TaskCorruptedError: the store was not closed, so its committed offset is unknown.
        """
        super().init(context, root)
        self._is_new = not self._image.rows and not self._image.offsets
        older = self._disk.images(context.state_dir).get(self.name)
        if self.takes_older_offsets and older is not None:
            self._offsets = {**self._offsets, **older.offsets}
        self._discard_older()

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit, and delete the older format if this one has caught up.

        Raises:
            ProcessorStateError: the commit must survive a crash, and the disk is full.
        """
        super().commit(changelog_offsets)
        self._discard_older()

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """The last committed offset; ``OFFSET_UNKNOWN`` if this format was empty at its opening.

        An empty newer format beside an older one is no sign of a crash.
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
            # Sync first: after the deletion the newer format is the only one, and a loss of power
            # must not take it.
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
    """A store that serves its older format, and builds the newer one beside it."""

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open both formats.

        Raises:
            TaskCorruptedError: the live format was not closed, so its committed offset is unknown.
        """
        super().init(context, root)
        place = f"{self._name}{NEWER}"
        self._is_new = not self._image.rows and not self._image.offsets
        if self._disk.image(context.state_dir, place).is_open:
            # The newer format was live when the process crashed, and the upgrade was taken back
            # afterwards: the rows may hold aborted writes.
            self._disk.discard(context.state_dir, place)
        # A store that stages its writes keeps no mark "open" on the disk. The newer format needs
        # none, because it only ever holds committed records of the changelog.
        self._newer = TimestampedStore(place, self._disk, transactional=True)
        self._newer.discards = False
        # The runtime restores the live format only. The newer one gets its records from feed(),
        # so its callback must not replace the one of the live format.
        own = replace(context, restore_callbacks={}, changelog=None, metrics=None)
        self._newer.init(own, self._newer)

    def close(self) -> None:
        """Close both formats.

        Raises:
            ProcessorStateError: the disk is full. Both formats are closed then, as after a crash.
        """
        if not self.is_open:
            return
        try:
            self._newer.close()
        finally:
            super().close()

    @property
    def is_preparing(self) -> bool:
        """Whether the newer format can be fed."""
        return self.is_open

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """The last committed offset; ``OFFSET_UNKNOWN`` if this format was empty at its opening."""
        found = super().committed_offset(partition)
        return OFFSET_UNKNOWN if found is None and self._is_new else found

    def rebuild(self, partition: TopicPartition, records: Sequence[ChangelogRecord]) -> None:
        """Apply the next records of the changelog to the newer format."""
        if records:
            self._newer.restore(records)
            self._newer.commit({partition: records[-1].offset})

    def rebuilt_offset(self, partition: TopicPartition) -> int | None:
        """The offset of the last record that was applied to the newer format."""
        return self._newer.committed_offset(partition)
