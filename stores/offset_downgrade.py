"""Leaves a store in the form that a version before KIP-1035 can go on with.

If ``upgrade.from`` names a version before 4.3, closing a store takes these steps, in this order:

.. code-block:: text

    1  flush         records, offsets, position and the mark of a clean close, in one step
    2  .checkpoint   the changelog offsets, merged with those of the task's other stores
    3  .position     the input offsets, in the directory of the store
    4  drop          the offsets column family, which older versions do not know

A kill before the end of step 4 leaves the column family. An older version then refuses the
database. A newer version goes on with the offsets in the column family, which are the same as in
the files, and removes them from the files. A kill after step 4 leaves only the files. An older
version then finds what it would have written itself, and a newer version imports it. The files must
be written before the drop: in the other order a kill in between would lose the offsets.

Kafka has shipped step 2 only, so that the older version refuses the database, and wipes it.

Source: KIP-1035, "Downgrade"; Kafka 4.3, LegacyCheckpointingStateStore#maybeDowngradeOffsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from streamproof.stores.api import (
    Position,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.checkpoint import (
    OFFSET_UNKNOWN,
    TASK_CHECKPOINT,
    OffsetCheckpoint,
    changelog_partition,
)
from streamproof.stores.offset_import import POSITION_FILE
from streamproof.stores.offsets import (
    POSITION_KEY,
    STATUS_KEY,
    decode_long,
    decode_partition,
    decode_position,
)
from streamproof.stores.rocksdb_database import Database
from streamproof.stores.rocksdb_scans import scan_range

__all__ = ["Downgrade", "add_to_task_checkpoint", "leave_for_older_version"]

Downgrade = Literal["proposed", "shipped"]
"""The steps for the older version: all four of KIP-1035, or those that Kafka takes."""


def leave_for_older_version(
    database: Database, context: StateStoreContext, store_name: str, how: Downgrade
) -> None:
    """Take the steps that the module describes. The database stays open, and must be closed.

    Args:
        database: a database with offsets, in which the store was marked as closed.
        context: the context of the store.
        store_name: the name of the store.
        how: whether to take all steps, or only the first two, as Kafka does.

    Raises:
        ProcessorStateError: the database or a file cannot be written, or the task's file is
            malformed. The column family stays then.
    """
    # Flush before any file promises the offsets. Drop the column family last, so that after a
    # failure the database still has them.
    database.flush()
    offsets, position = _committed(database)
    add_to_task_checkpoint(context, store_name, offsets)
    if how == "proposed":
        OffsetCheckpoint(database.directory / POSITION_FILE).write(position.as_dict())
        database.drop_offsets()


def add_to_task_checkpoint(
    context: StateStoreContext, store_name: str, offsets: Mapping[TopicPartition, int]
) -> None:
    """Write the offsets of a store into the task's ``.checkpoint``, in place of older ones.

    Without offsets the file says that none is known: an older version takes records without an
    entry for the sign of a crash.

    Raises:
        ProcessorStateError: the file is malformed, or it cannot be written.
    """
    own = changelog_partition(context, store_name)
    if not offsets and own is not None:
        offsets = {own: OFFSET_UNKNOWN}
    topic = context.changelog_topic(store_name)
    task_file = OffsetCheckpoint(Path(context.state_dir) / TASK_CHECKPOINT)
    of_others = {
        partition: offset
        for partition, offset in task_file.read(strict=True).items()
        if partition.topic != topic
    }
    task_file.write({**of_others, **offsets})


def _committed(database: Database) -> tuple[dict[TopicPartition, int], Position]:
    if database.offsets is None:
        return {}, Position()
    rows = dict(scan_range(database.offsets, None, None, reverse=False))
    rows.pop(STATUS_KEY, None)
    position = rows.pop(POSITION_KEY, None)
    return (
        {decode_partition(key): decode_long(value) for key, value in rows.items()},
        Position() if position is None else decode_position(position),
    )
