"""The format of windows and sessions with timestamps, and how it replaces the plain format.

The formats are in directories of their own, named as those of key-value stores (KIP-258):
``rocksdb/<name>`` has plain values, and ``rocksdb/<name>-v2`` has values with timestamps.
:mod:`streamproof.stores.format_upgrade` has the rules. The upgrade is the offline one: the new
format begins without an offset, the changelog fills it, and then the old directory is deleted.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamproof.stores.api import StateStore, StateStoreContext, TopicPartition
from streamproof.stores.format_upgrade import OlderFormat
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.timestamped import Version2RocksDBStore
from streamproof.stores.windowed.segments import SegmentedStore

__all__ = ["TimestampedSegments"]


class TimestampedSegments(SegmentedStore):
    """A store of windows or sessions with timestamps, which replaces a plain one of its name."""

    _rows_class = Version2RocksDBStore
    _older: OlderFormat | None = None

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the format with timestamps, and delete the plain one if it is not needed.

        Raises:
            ProcessorStateError: the files cannot be read, written or locked, or are damaged.
            TaskCorruptedError: exactly-once, and the store was not closed cleanly.
            InvalidStateStoreError: the store is already open.
        """
        if not self._inner.is_open:
            older, newer = (
                kind(self._name).directory(context) for kind in (RocksDBStore, Version2RocksDBStore)
            )
            self._older = OlderFormat(older, newer)
        super().init(context, root)
        if self._older is not None:
            self._older.discard_if_reached(self._inner)

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit the rows, the stream time and the offsets; the plain format may go after that."""
        super().commit(changelog_offsets)
        if self._older is not None:
            self._older.discard_if_reached(self._inner, changelog_offsets)
