"""Offsets in a file beside the store, for stores that do not manage offsets themselves."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import cast

from streamproof.errors import UsageError
from streamproof.stores.api import (
    KeyValueStore,
    Position,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.checkpoint import (
    OFFSET_UNKNOWN,
    TASK_CHECKPOINT,
    OffsetCheckpoint,
    changelog_partition,
    smallest_offsets,
)
from streamproof.stores.errors import (
    InvalidStateStoreError,
    ProcessorStateError,
    TaskCorruptedError,
)
from streamproof.stores.offset_downgrade import add_to_task_checkpoint
from streamproof.stores.offset_import import position_files, position_in
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.upgrade_configs import is_downgrade
from streamproof.stores.windowed.segmented_reads import RowStore
from streamproof.stores.wrapped import WrappedKeyValueStore

__all__ = ["LegacyCheckpointingStateStore", "default_store", "own_checkpoint"]

FindCheckpoint = Callable[[StateStoreContext, str], OffsetCheckpoint]
"""Finds the file of a store, given its context and its name."""

_logger = logging.getLogger("streamproof.stores")


def own_checkpoint(context: StateStoreContext, store_name: str) -> OffsetCheckpoint:
    """The file ``.checkpoint_<store>`` in the directory of the task."""
    return OffsetCheckpoint(Path(context.state_dir) / f"{TASK_CHECKPOINT}_{store_name}")


class LegacyCheckpointingStateStore(WrappedKeyValueStore):
    """Keeps the offsets of a persistent store in the file ``.checkpoint_<store>`` of the task.

    Records are always flushed before the file is written, so that the file never promises records
    that are not on disk. Under exactly-once the file exists only while the store is closed: a crash
    leaves no file, and a missing file means that the store must be wiped and restored.

    Versions before KIP-1035 kept the offsets in the task's ``.checkpoint``. ``init`` moves the
    offsets of this store from there into its own file: it writes them first, and removes them from
    the other file after that. If ``upgrade.from`` names a version before 4.3, ``close`` moves them
    back in the same way.

    The position is kept in the file ``<store>.position`` of the task, and is written before the
    offsets. ``init`` also reads the file that a downgrade leaves in the directory of the store.

    Args:
        inner: a persistent store that does not manage offsets.
        offset_delta_threshold: under at-least-once, a commit writes the file once the offsets of
            all partitions together have grown by more than this number.
        changelog_partitions: the partitions of this store; entries of others are ignored. Without
            partitions the store is not logged, and no file is written. ``None`` stands for all
            partitions in the store's own file, and those of its changelog topic in the task's.
        find_checkpoint: finds the file, if a runtime keeps it in another place.

    Source: KIP-1035; Kafka 4.3, LegacyCheckpointingStateStore.
    """

    capabilities = Capabilities(durability="flush", imports_offsets=True)

    def __init__(
        self,
        inner: KeyValueStore,
        *,
        offset_delta_threshold: int = 10_000,
        changelog_partitions: Collection[TopicPartition] | None = None,
        find_checkpoint: FindCheckpoint = own_checkpoint,
    ) -> None:
        super().__init__(inner)
        if not inner.persistent or inner.manages_offsets:
            raise UsageError(
                f"Store {inner.name!r} needs no checkpoint file: it is "
                f"{'not persistent' if not inner.persistent else 'managing its offsets itself'}. "
                "Use it without LegacyCheckpointingStateStore."
            )
        self._threshold = offset_delta_threshold
        self._partitions = changelog_partitions
        self._find_checkpoint = find_checkpoint
        self._exactly_once = False
        self._corrupted = False
        self._context: StateStoreContext | None = None
        self._downgrading = False
        self._checkpoint: OffsetCheckpoint | None = None
        self._offsets: dict[TopicPartition, int] = {}
        self._written: dict[TopicPartition, int] = {}
        self._is_overdue = False
        self._position_files: tuple[OffsetCheckpoint, ...] = ()
        self._found_position = Position()

    @property
    def position(self) -> Position:
        """The input offsets that the content reflects: those of the file, and of later writes."""
        position = self._found_position.copy()
        position.merge(super().position)
        return position

    @property
    def manages_offsets(self) -> bool:
        """True: this wrapper manages the offsets for the store."""
        return True

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Read the files and open the inner store. Under exactly-once, delete the store's own file.

        Raises:
            ProcessorStateError: a file is malformed, or the inner store cannot be opened.
            TaskCorruptedError: under exactly-once, the store has records but no file.
            UsageError: ``upgrade.from`` and ``upgrade.mode`` do not fit together.
        """
        _logger.warning(
            "Store %r is persistent and does not manage its changelog offsets; they are kept in "
            "a file beside it, which is deprecated. Implement commit(), committed_offset() and "
            "manages_offsets (KIP-1035).",
            self.name,
        )
        self._downgrading = self._is_logged and is_downgrade(context)
        checkpoint = self.checkpoint(context)
        written = self._read(context, checkpoint)
        directory = getattr(self._inner, "directory", lambda _: Path(context.state_dir) / self.name)
        self._position_files = position_files(context, self.name, directory(context))
        self._found_position = position_in(self._position_files)
        if context.exactly_once and self._is_logged and not checkpoint.exists:
            self._require_no_records(context)
        super().init(context, root)
        # Delete the file only once the store is open: if the opening fails, nothing has changed.
        # From here on, a missing file means that the store was not closed cleanly.
        if context.exactly_once:
            checkpoint.delete()
        self._context = context
        self._exactly_once = context.exactly_once
        self._corrupted = False
        self._checkpoint = checkpoint
        self._offsets = {partition: offset for partition, offset in written.items() if offset >= 0}
        self._written = dict(self._offsets)
        self._is_overdue = False

    def checkpoint(self, context: StateStoreContext) -> OffsetCheckpoint:
        """The file with the offsets of this store."""
        return self._find_checkpoint(context, self.name)

    def _read(
        self, context: StateStoreContext, checkpoint: OffsetCheckpoint
    ) -> dict[TopicPartition, int]:
        """The offsets of this store, after those of the task's file were moved into its own."""
        written = checkpoint.read()
        if self._partitions is not None:
            written = {each: offset for each, offset in written.items() if each in self._partitions}
        task_file = OffsetCheckpoint(Path(context.state_dir) / TASK_CHECKPOINT)
        moved = {
            partition: offset
            for partition, offset in task_file.read(strict=True).items()
            if self._owns(partition, context)
        }
        if moved:
            # A file of this store that knows no offset does not stand against one that does.
            known = {each: offset for each, offset in written.items() if offset >= 0}
            written = smallest_offsets(known, moved)
            # Write before the removal: after a crash between the two, both files have the offsets,
            # and the next opening takes the smaller ones again.
            checkpoint.write(written)
            task_file.remove(moved)
        return written

    @property
    def _is_logged(self) -> bool:
        return self._partitions is None or bool(self._partitions)

    def _owns(self, partition: TopicPartition, context: StateStoreContext) -> bool:
        if self._partitions is None:
            return partition.topic == context.changelog_topic(self.name)
        return partition in self._partitions

    def delete_range(self, from_key: bytes, to_key_exclusive: bytes) -> None:
        """Delete every key from ``from_key`` up to, not including, ``to_key_exclusive``."""
        cast(RowStore, self._inner).delete_range(from_key, to_key_exclusive)

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Remember the offsets. Under at-least-once, flush and write the file when it is due.

        An offset that is forgotten, or becomes smaller, is written at once: otherwise the file
        would promise records after a crash that the store does not have.
        """
        self._opened()
        offsets = dict(self._offsets) if changelog_offsets else {}
        for partition, offset in changelog_offsets.items():
            if offset is None:
                offsets.pop(partition, None)
            else:
                offsets[partition] = offset
        self._offsets = offsets
        promises_more = any(
            partition not in offsets or offsets[partition] < offset
            for partition, offset in self._written.items()
        )
        if not self._exactly_once and (promises_more or self._delta() > self._threshold):
            # Flush first: the offsets in the file must not cover records that a crash could take.
            self._inner.flush()
            try:
                self._write(self._offsets)
            except ProcessorStateError as error:
                # Without the file the next restoration is only longer.
                _logger.warning("The offsets of store %r were not written: %s", self.name, error)
                self._is_overdue = True

    def flush(self) -> None:
        """Flush the inner store, and write the file if the last commit could not.

        Raises:
            ProcessorStateError: the file cannot be written.
        """
        super().flush()
        if self._is_overdue:
            self._write(self._offsets)

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """The offset of the last commit, or of the file, or ``None``."""
        self._opened()
        return self._offsets.get(partition)

    def mark_corrupted(self) -> None:
        """Note that the content cannot be trusted, so that ``close`` writes no file.

        Source: Kafka 4.3, ProcessorStateManager#markChangelogAsCorrupted.
        """
        self._corrupted = True

    def close(self) -> None:
        """Flush and close the inner store, then write the file.

        Raises:
            ProcessorStateError: the inner store cannot be flushed, or the file not be written.
        """
        if self._checkpoint is None:
            return
        try:
            # A store need not flush when it is closed: that was the work of the runtime.
            if not self._corrupted:
                self._inner.flush()
        finally:
            self._inner.close()
        try:
            if not self._corrupted:
                self._write(self._offsets or self._unknown_offsets())
                self._move_to_task_checkpoint()
        finally:
            self._checkpoint = None

    def _unknown_offsets(self) -> dict[TopicPartition, int]:
        """The entries of a file without offsets. Under exactly-once, no file would mean a crash."""
        if not self._exactly_once or self._context is None:
            return {}
        own = changelog_partition(self._context, self.name)
        return dict.fromkeys(self._partitions or ([] if own is None else [own]), OFFSET_UNKNOWN)

    def _write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Write the files of the position and of the offsets."""
        if not self._is_logged:
            return
        self._write_position()
        self._opened().write(offsets)
        self._written = dict(offsets)
        self._is_overdue = False

    def _write_position(self) -> None:
        """Write the position to where Kafka has it, in place of all files that were read."""
        file, *others = self._position_files
        file.write(self.position.as_dict())
        for other in others:
            if other.path.exists():
                other.delete()

    def _move_to_task_checkpoint(self) -> None:
        """Leave the offsets where an older version looks for them, if one comes next."""
        if not self._downgrading or self._context is None:
            return
        try:
            add_to_task_checkpoint(self._context, self.name, self._offsets)
            self._opened().delete()
        except ProcessorStateError as error:
            _logger.warning("The offsets of store %r were not moved: %s", self.name, error)

    def _delta(self) -> int:
        written = self._written
        return sum(offset - written.get(p, -1) for p, offset in self._offsets.items())

    def _require_no_records(self, context: StateStoreContext) -> None:
        state_dir = Path(context.state_dir)
        for directory in (state_dir / "rocksdb" / self.name, state_dir / self.name):
            if directory.is_dir() and any(directory.iterdir()):
                raise TaskCorruptedError(
                    f"Store {self.name!r} has files in {directory}, but no offsets in "
                    f"{state_dir}: the store was not closed cleanly. Wipe the directory and "
                    "restore from the changelog."
                )

    def _opened(self) -> OffsetCheckpoint:
        if self._checkpoint is None:
            raise InvalidStateStoreError(
                f"Store {self.name!r} is not open; call init() before using it."
            )
        return self._checkpoint


def default_store(name: str = "store") -> KeyValueStore:
    """A new store that writes its offsets file at every commit."""
    inner = RocksDBStore(name, manages_offsets=False)
    return LegacyCheckpointingStateStore(inner, offset_delta_threshold=0)
