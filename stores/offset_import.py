"""Imports the offsets and the position that versions before KIP-1035 kept in files.

.. code-block:: text

    <task>/.checkpoint                  the changelog offsets of all stores of the task
    <task>/.checkpoint_<store>          the same of one store, by LegacyCheckpointingStateStore
    <task>/<store>.position             the position of a store, where Kafka has it
    <task>/rocksdb/<store>/.position    the position of a store, where KIP-1035 looks for it

Each is a checkpoint file. A position has input partitions in it instead of changelog partitions.

The entries of a store are written into its database, flushed, and only then removed from the files.
A kill before the flush changes nothing. A kill after the flush leaves entries that the database
has, too. The next opening keeps the entries of the database and removes the others, so that no
entry is imported a second time, after the store has moved on.

If the database is gone, the records that the entries promise are gone, too. The entries are then
dropped, with a warning, before a new database is made: in an empty database they would make the
next restoration skip these records in silence.

Source: KIP-1035, "Upgrade" and "Interactive Query .position Offsets"; Kafka 4.3,
LegacyCheckpointingStateStore#migrateLegacyOffsets.
"""

from __future__ import annotations

import logging
from pathlib import Path

from streamproof.stores.api import Position, StateStoreContext
from streamproof.stores.checkpoint import TASK_CHECKPOINT, OffsetCheckpoint, smallest_offsets
from streamproof.stores.errors import TaskCorruptedError
from streamproof.stores.offsets import (
    POSITION_KEY,
    encode_long,
    encode_partition,
    encode_position,
)
from streamproof.stores.rocksdb_database import (
    OFFSETS_COLUMN_FAMILY,
    Database,
    column_families,
    has_records,
    orphans,
)

__all__ = ["POSITION_FILE", "OffsetImport"]

POSITION_FILE = ".position"
"""The file in the directory of a store that holds its position (KIP-1035)."""

_logger = logging.getLogger("streamproof.stores")


class OffsetImport:
    """The files that older versions left for one store, read before its database is opened.

    Args:
        context: the context of the store.
        store_name: the name of the store.
        directory: the directory of its database.

    Attributes:
        offsets: the changelog offsets; OFFSET_UNKNOWN (-4) where a file says that none is known.
        position: the input offsets that the content reflects.

    Raises:
        ProcessorStateError: a file is malformed; the message names the file and the line.
    """

    def __init__(self, context: StateStoreContext, store_name: str, directory: Path) -> None:
        state_dir = Path(context.state_dir)
        topic = context.changelog_topic(store_name)
        self._store_name = store_name
        self._directory = directory
        self._of_task = OffsetCheckpoint(state_dir / TASK_CHECKPOINT)
        self._of_store = (
            OffsetCheckpoint(state_dir / f"{TASK_CHECKPOINT}_{store_name}"),
            OffsetCheckpoint(state_dir / f"{store_name}{POSITION_FILE}"),
            OffsetCheckpoint(directory / POSITION_FILE),
        )
        in_task = self._of_task.read(strict=True)
        self._own = {each: offset for each, offset in in_task.items() if each.topic == topic}
        in_store, *positions = [file.read(strict=True) for file in self._of_store]
        self.offsets = smallest_offsets(self._own, in_store)
        self.position = Position()
        for found in positions:
            self.position.merge(Position(found))

    def __bool__(self) -> bool:
        """Whether anything has to be imported or removed."""
        return bool(self.offsets or self.position.as_dict())

    def prepare(self, *, exactly_once: bool) -> None:
        """Judge the files. Call this before the database is opened, since opening may make one.

        Raises:
            TaskCorruptedError: under exactly-once, an older version crashed, and left records
                without offsets. The files are unchanged.
        """
        families = column_families(self._directory)
        if not families and not orphans(self._directory):
            self._drop()
        elif exactly_once and not self.offsets and OFFSETS_COLUMN_FAMILY not in families:
            self._require_no_records()

    def into(self, database: Database) -> None:
        """Import the entries that the database lacks, durably, and remove them from the files.

        Raises:
            ProcessorStateError: the database or a file cannot be written.
        """
        if not self or database.offsets is None:
            return
        batch = database.new_batch()
        for partition, offset in self.offsets.items():
            key = encode_partition(partition)
            if offset >= 0 and database.offsets.get(key) is None:
                database.put_offsets_row(batch, key, encode_long(offset))
        if database.offsets.get(POSITION_KEY) is None:
            database.put_offsets_row(batch, POSITION_KEY, encode_position(self.position))
        database.write(batch)
        database.flush()
        self._remove()
        _logger.info("Store %r took over the offsets of an older version.", self._store_name)

    def _require_no_records(self) -> None:
        if has_records(self._directory):
            raise TaskCorruptedError(
                f"Store {self._store_name!r} has records in {self._directory} that a version "
                f"before KIP-1035 wrote, but no offsets in {self._of_task.path}: the store was not "
                "closed cleanly. Wipe the directory and restore from the changelog."
            )

    def _drop(self) -> None:
        if self:
            _logger.warning(
                "There are offsets or a position of store %r in %s, but no database in %s. They "
                "are removed, and the store is restored from the start of its changelog.",
                self._store_name,
                self._of_task.path.parent,
                self._directory,
            )
            self._remove()
            self.offsets = {}
            self.position = Position()

    def _remove(self) -> None:
        if self._own:
            self._of_task.remove(self._own.keys())
        for file in self._of_store:
            if file.path.exists():
                file.delete()
