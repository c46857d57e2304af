"""Imports the offsets and the position that versions before KIP-1035 kept in files.

.. code-block:: text

    <task>/.checkpoint                  the changelog offsets of all stores of the task
    <task>/.checkpoint_<store>          the same of one store, by LegacyCheckpointingStateStore
    <task>/<store>.position             the position of a store, where Kafka has it
    <task>/rocksdb/<store>/.position    the position of a store, where KIP-1035 looks for it

Each is a checkpoint file. A position has input partitions in it instead of changelog partitions.
The entries are those of a whole store, also of a store with a database for each segment.

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
from collections.abc import Iterable, Sequence
from pathlib import Path

from streamproof.stores.api import Position, StateStoreContext, TopicPartition
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

__all__ = ["POSITION_FILE", "OffsetImport", "position_files", "position_in"]

POSITION_FILE = ".position"
"""The file in the directory of a store that holds its position (KIP-1035)."""

_logger = logging.getLogger("streamproof.stores")


def position_files(
    context: StateStoreContext, store_name: str, directory: Path
) -> tuple[OffsetCheckpoint, OffsetCheckpoint]:
    """The files that may have the position of a store: where Kafka has it, and KIP-1035's."""
    return (
        OffsetCheckpoint(Path(context.state_dir) / f"{store_name}{POSITION_FILE}"),
        OffsetCheckpoint(directory / POSITION_FILE),
    )


def position_in(files: Iterable[OffsetCheckpoint]) -> Position:
    """The position that files hold together; empty without a file.

    Raises:
        ProcessorStateError: a file is malformed; the message names the file and the line.
    """
    position = Position()
    for file in files:
        position.merge(Position(file.read(strict=True)))
    return position


class OffsetImport:
    """The files that older versions left for one store, read before its database is opened.

    Args:
        context: the context of the store.
        store_name: the name of the store.
        directory: the directory of its database, or of the databases of its segments.

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
        offsets_file = OffsetCheckpoint(state_dir / f"{TASK_CHECKPOINT}_{store_name}")
        positions = position_files(context, store_name, directory)
        self._of_store = (offsets_file, *positions)
        in_task = self._of_task.read(strict=True)
        self._own = {each: offset for each, offset in in_task.items() if each.topic == topic}
        self.offsets = smallest_offsets(self._own, offsets_file.read(strict=True))
        self.position = position_in(positions)

    def __bool__(self) -> bool:
        """Whether anything has to be imported or removed."""
        return bool(self.offsets or self.position.as_dict())

    @property
    def known_offsets(self) -> dict[TopicPartition, int]:
        """The changelog offsets, without those that a file calls unknown."""
        return {each: offset for each, offset in self.offsets.items() if offset >= 0}

    def prepare(self, *, exactly_once: bool, databases: Sequence[Path] | None = None) -> None:
        """Judge the files. Call this before a database is opened, since opening may make one.

        Args:
            exactly_once: whether records without offsets are those of a crash.
            databases: the directories of the segments' databases; by default the store has one
                database, in its directory.

        Raises:
            TaskCorruptedError: under exactly-once, an older version crashed, and left records
                without offsets. The files are unchanged.
        """
        databases = [self._directory] if databases is None else databases
        families = {family for each in databases for family in column_families(each)}
        if not families and not any(orphans(each) for each in databases):
            self._drop()
        elif exactly_once and not self.offsets and OFFSETS_COLUMN_FAMILY not in families:
            self._require_no_records(databases)

    def into(self, database: Database) -> None:
        """Import the entries that the database lacks, durably, and remove them from the files.

        Raises:
            ProcessorStateError: the database or a file cannot be written.
        """
        if not self or database.offsets is None:
            return
        batch = database.new_batch()
        for partition, offset in self.known_offsets.items():
            key = encode_partition(partition)
            if database.offsets.get(key) is None:
                database.put_offsets_row(batch, key, encode_long(offset))
        if database.offsets.get(POSITION_KEY) is None:
            database.put_offsets_row(batch, POSITION_KEY, encode_position(self.position))
        database.write(batch)
        database.flush()
        self.finish()

    def finish(self) -> None:
        """Remove the entries from the files, once a database has them on the disk.

        Raises:
            ProcessorStateError: a file cannot be written.
        """
        self._remove()
        _logger.info("Store %r took over the offsets of an older version.", self._store_name)

    def _require_no_records(self, databases: Sequence[Path]) -> None:
        if any(has_records(each) for each in databases):
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
