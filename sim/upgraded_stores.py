"""Model stores of different releases on one disk: where each release keeps offsets (KIP-1035).

Before KIP-1035 the ``.checkpoint`` file of a task held its offsets. Under exactly-once the file
existed only while the task did not run. A crash left no file, and a missing file said that the
store cannot be trusted. Since KIP-1035 the store itself holds the offsets. A newer release imports
the offsets of the file. An older release refuses a store that holds offsets, unless the newer one
ran with ``upgrade.from`` and wrote them back into the file when it closed the store.

Real stores do the same in ``stores/checkpointing.py``, ``offset_import.py`` and
``offset_downgrade.py``. Here each opening and each closing is a single step: a crash comes
before it or after it.

Sources: KIP-1035, Upgrade and Downgrade; Kafka 4.2, ProcessorStateManager#checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from streamproof.sim.model_store import Checkpoint, Image, ModelStore
from streamproof.stores.api import StateStore, StateStoreContext, TopicPartition
from streamproof.stores.errors import TaskCorruptedError

__all__ = ["OFFSET_DELTA_THRESHOLD", "AheadStore", "CheckpointingStore", "ManagingStore"]

OFFSET_DELTA_THRESHOLD = 10
"""Under at-least-once, a commit writes the file once the offsets grew by more than this number.

Kafka uses 10,000. The runs here are too short to ever reach that.
"""


def _has_lost_its_offsets(
    image: Image, context: StateStoreContext, left: Checkpoint | None
) -> bool:
    """Whether a release before KIP-1035 crashed on this disk, under exactly-once."""
    return context.exactly_once and left is None and not image.manages and bool(image.rows)


class ManagingStore(ModelStore):
    """A persistent store that keeps its own offsets, on a disk that an older release may have used.

    Attributes:
        leaves_checkpoint: whether ``close`` leaves a file that an older release can continue from.
    """

    leaves_checkpoint = False

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the files on the disk, and import the offsets of an older release.

        Raises:
            TaskCorruptedError: the store was not closed, so its committed offset is unknown.
            ProcessorStateError: the disk is full; nothing has changed.
        """
        # Import first: the model store reads the offsets when it opens.
        self._take_over(context)
        super().init(context, root)

    def _take_over(self, context: StateStoreContext) -> None:
        image = self._disk.image(context.state_dir, self._name)
        left = self._disk.checkpoints.get((context.state_dir, self._name))
        if not self._transactional and _has_lost_its_offsets(image, context, left):
            raise TaskCorruptedError(
                f"An older release left records of store {self._name!r} in {context.state_dir}, "
                "but no offsets: wipe and restore the store."
            )
        if left is not None:
            # Check the space before any change: a full disk must leave the file as it was.
            self._disk.require_space(self._name)
            image.offsets, image.position = dict(left.offsets), left.position
            del self._disk.checkpoints[context.state_dir, self._name]
        image.manages = True

    def close(self) -> None:
        """Close the store; move the offsets back into the file if an older release comes next.

        Raises:
            ProcessorStateError: the disk is full. The store is closed then, as after a crash.
        """
        context, image = self._context, self._image
        # Closing brings the last commit to the disk, and the file must have its offsets.
        super().close()
        if context is not None and self.leaves_checkpoint:
            if image.offsets:
                left = Checkpoint(dict(image.offsets), image.position)
                self._disk.checkpoints[context.state_dir, self._name] = left
            image.offsets, image.manages = {}, False


class AheadStore(ManagingStore):
    """A defect: the position on the disk includes staged writes."""

    def write_memtable(self) -> None:
        """Write the memtable to the page cache, together with a position that is too far ahead.

        Raises:
            ProcessorStateError: the disk is full; nothing has changed.
        """
        super().write_memtable()
        self._image.position = self.position


class CheckpointingStore(ModelStore):
    """A persistent store of a release before KIP-1035; a file of the task holds its offsets.

    Attributes:
        keeps_checkpoint: whether the file stays on the disk while the task runs; a defect.
    """

    keeps_checkpoint = False

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the files on the disk; under exactly-once, delete the file with the offsets.

        Raises:
            TaskCorruptedError: the store was not closed, or a newer release has opened it.
        """
        here = context.state_dir, self._name
        image, left = self._disk.image(*here), self._disk.checkpoints.get(here)
        if image.manages or _has_lost_its_offsets(image, context, left):
            reason = "a newer release has opened it" if image.manages else "it was not closed"
            raise TaskCorruptedError(
                f"Store {self._name!r} in {context.state_dir} cannot be used: {reason}. Wipe and "
                "restore it."
            )
        super().init(context, root)
        self._status_open = False
        if left is not None:
            self._offsets, self._position = dict(left.offsets), left.position.copy()
            self._committed_position = left.position
        if context.exactly_once:
            self._disk.checkpoints.pop(here, None)

    def write_memtable(self) -> None:
        """Write the memtable to the page cache, without the offsets.

        Raises:
            ProcessorStateError: the disk is full; nothing has changed.
        """
        super().write_memtable()
        self._image.offsets = {}

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Remember the offsets, and write the file if it is due; without offsets, delete it.

        Under exactly-once, a release before KIP-1035 commits only while the task does not process.

        Raises:
            ProcessorStateError: the disk is full.
        """
        super().commit(changelog_offsets)
        directory = self._opened().state_dir
        left = self._disk.checkpoints.get((directory, self._name))
        written = {} if left is None else left.offsets
        delta = sum(each - written.get(name, -1) for name, each in self._offsets.items())
        if not self._offsets:
            self._disk.checkpoints.pop((directory, self._name), None)
        elif self._opened().exactly_once or not 0 <= delta <= OFFSET_DELTA_THRESHOLD:
            self._write(directory)

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of ``key``; ``None`` deletes it.

        Under exactly-once, this deletes the file: its offsets no longer describe the content
        (KAFKA-20685).
        """
        context = self._opened()
        if context.exactly_once and not self.keeps_checkpoint:
            self._disk.checkpoints.pop((context.state_dir, self._name), None)
        super().put(key, value)

    def close(self) -> None:
        """Close the store, and under at-least-once write the file.

        Raises:
            ProcessorStateError: the disk is full. The store is closed then, as after a crash.
        """
        context = self._context
        super().close()
        if context is not None and not context.exactly_once and self._offsets:
            self._leave(context.state_dir)

    def _write(self, directory: Path) -> None:
        # Sync before the file is written: its offsets must not cover rows that a loss of power
        # could still take.
        self.sync()
        self._leave(directory)

    def _leave(self, directory: Path) -> None:
        left = Checkpoint(dict(self._offsets), self._committed_position)
        self._disk.checkpoints[directory, self._name] = left
