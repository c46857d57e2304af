"""Model stores of different releases on one disk: who keeps the offsets, and where (KIP-1035).

Before KIP-1035 the offsets of a task were in its ``.checkpoint`` file: under exactly-once only
while the task did not run, so that a crash left none, and a missing one said that the store cannot
be trusted. Since then the store has them itself. A newer release takes over what the file says,
and an older one refuses a store that has offsets in it, unless ``upgrade.from`` made the newer one
put them back into the file when it closed the store.

That is what real stores do in ``stores/legacy.py``, ``offset_import.py`` and ``downgrade.py``; here
each opening and each closing is one step that a crash does not divide.

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
"""Under at-least-once the file is written once the offset has grown by more than so many records.

It is 10,000 in Kafka; a run that short would never write one.
"""


def _has_lost_its_offsets(
    image: Image, context: StateStoreContext, left: Checkpoint | None
) -> bool:
    """Whether a release before KIP-1035 has crashed here, under exactly-once."""
    return context.exactly_once and left is None and not image.manages and bool(image.rows)


class ManagingStore(ModelStore):
    """A persistent store that has its offsets itself, where an older release may have been.

    Attributes:
        leaves_checkpoint: whether it is closed such that an older release can go on with it.
    """

    leaves_checkpoint = False

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open what is on the disk, and take over the offsets of an older release.

        Raises:
            TaskCorruptedError: the store was not closed, and cannot tell what was committed.
            ProcessorStateError: the disk is full; nothing has changed.
        """
        self._take_over(context)
        super().init(context, root)

    def _take_over(self, context: StateStoreContext) -> None:
        image = self._disk.image(context.state_dir, self._name)
        left = self._disk.checkpoints.get((context.state_dir, self._name))
        if not self._transactional and _has_lost_its_offsets(image, context, left):
            raise TaskCorruptedError(
                f"An older release has left records of store {self._name!r} in "
                f"{context.state_dir}, and no offsets: wipe it and restore."
            )
        if left is not None:
            self._disk.require_space(self._name)
            image.offsets, image.position = dict(left.offsets), left.position
            del self._disk.checkpoints[context.state_dir, self._name]
        image.manages = True

    def close(self) -> None:
        """Close the store, and put the offsets back into the file if an older release is to come.

        Raises:
            ProcessorStateError: the disk is full. It is closed then, as a crash would leave it.
        """
        context, image = self._context, self._image
        super().close()
        if context is not None and self.leaves_checkpoint:
            if image.offsets:
                left = Checkpoint(dict(image.offsets), image.position)
                self._disk.checkpoints[context.state_dir, self._name] = left
            image.offsets, image.manages = {}, False


class AheadStore(ManagingStore):
    """A store whose position on the disk is that of staged writes, too: for a defect."""

    def flush(self) -> None:
        """Bring the memtable to the page cache, and a position that is not that of it.

        Raises:
            ProcessorStateError: the disk is full; nothing has changed.
        """
        super().flush()
        self._image.position = self.position


class CheckpointingStore(ModelStore):
    """A persistent store of a release before KIP-1035, with its offsets in a file of the task.

    Attributes:
        keeps_checkpoint: whether the file stays there while the task runs: for a defect.
    """

    keeps_checkpoint = False

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open what is on the disk; under exactly-once the file is deleted.

        Raises:
            TaskCorruptedError: the store was not closed, or a newer release has opened it.
        """
        here = context.state_dir, self._name
        image, left = self._disk.image(*here), self._disk.checkpoints.get(here)
        if image.manages or _has_lost_its_offsets(image, context, left):
            reason = "a newer release has opened it" if image.manages else "it was not closed"
            raise TaskCorruptedError(
                f"Store {self._name!r} in {context.state_dir} cannot be used: {reason}. Wipe it "
                "and restore."
            )
        super().init(context, root)
        self._status_open = False
        if left is not None:
            self._offsets, self._position = dict(left.offsets), left.position.copy()
            self._committed_position = left.position
        if context.exactly_once:
            self._disk.checkpoints.pop(here, None)

    def flush(self) -> None:
        """Bring the memtable to the page cache; the offsets are not part of it.

        Raises:
            ProcessorStateError: the disk is full; nothing has changed.
        """
        super().flush()
        self._image.offsets = {}

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Remember the offsets, and write the file if it is due; without any, delete it.

        Under exactly-once there is a commit only when the task does not process.

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

        From now on no offset vouches for what is there, under exactly-once (KAFKA-20685).
        """
        context = self._opened()
        if context.exactly_once and not self.keeps_checkpoint:
            self._disk.checkpoints.pop((context.state_dir, self._name), None)
        super().put(key, value)

    def close(self) -> None:
        """Close the store, and under at-least-once write the file.

        Raises:
            ProcessorStateError: the disk is full. It is closed then, as a crash would leave it.
        """
        context = self._context
        super().close()
        if context is not None and not context.exactly_once and self._offsets:
            self._leave(context.state_dir)

    def _write(self, directory: Path) -> None:
        # The file must not promise what a loss of power may take.
        self.sync()
        self._leave(directory)

    def _leave(self, directory: Path) -> None:
        left = Checkpoint(dict(self._offsets), self._committed_position)
        self._disk.checkpoints[directory, self._name] = left
