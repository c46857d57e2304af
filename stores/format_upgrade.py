"""The formats of a store, in directories beside each other, and how one replaces the other.

The plain format is in ``rocksdb/<name>``, and the format with timestamps, version 2, is in
``rocksdb/<name>-v2`` (KIP-258). Kafka allows no ``~`` in the name of a store, so that
``rocksdb/<name>~discarded`` cannot be a store: a directory with such a name is garbage, and is
deleted.

The configuration, and the directories on disk, decide how a timestamped store opens:

.. code-block:: text

    upgrade.mode      live     beside it
    "in_place"        old      new, filled from the changelog by rebuild()
    "roll_over"       old      nothing
    no upgrade        new      old, if it exists, until the new one has reached it

:mod:`streamproof.stores.upgrade_configs` says when an upgrade is being prepared.

A live format that does not exist yet is made empty: its committed offset is ``None``, and the
changelog fills it. The old directory is discarded once the new format has committed offsets, and
has reached each offset of the old one; the store checks this when it opens, and at each commit. So
an upgrade without a rebuild keeps both directories until its restoration is complete.

A process that is killed at any moment leaves one of these states:

.. code-block:: text

    old                   the upgrade has not begun: opens as old or, empty, as new
    old, part of new      each format goes on from its own committed offset
    old, all of new       the old format is discarded when the new one is opened
    new, old discarded    the deletion goes on when the store is opened in any mode
    new                   the upgrade is done
    old, new discarded    the new format crashed while it was live, under exactly-once, and the
                          upgrade was taken back: the rebuild begins from the start

Each format keeps its offsets in its own database, and flushes them together with its records, so
that a replay of the changelog from these offsets completes it. A deletion begins with a rename. The
rename is made durable before the first file is deleted, so that half of a directory is never opened
as data.
"""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Final

from streamproof.stores.api import (
    UPGRADE_FROM_CONFIG,
    UPGRADE_MODE_CONFIG,
    ChangelogRecord,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.errors import (
    InvalidStateStoreError,
    ProcessorStateError,
    TaskCorruptedError,
)
from streamproof.stores.rocksdb_database import (
    DATA_COLUMN_FAMILY,
    OFFSETS_COLUMN_FAMILY,
    column_families,
    committed_offsets,
)
from streamproof.stores.synced_directories import sync_directory

__all__ = [
    "BackgroundRebuild",
    "OlderFormat",
    "discard",
    "finish_discarding",
    "format_directory",
    "has_reached",
    "offsets_to_reach",
    "refuse_newer_formats",
]

_DISCARDED: Final = "~discarded"

_PLAIN_FAMILIES: Final = frozenset((DATA_COLUMN_FAMILY, OFFSETS_COLUMN_FAMILY))

_logger = logging.getLogger("streamproof.stores")


def format_directory(plain: Path, version: int) -> Path:
    """The directory of a version of the format, given that of the plain format, version 1."""
    return plain if version == 1 else plain.with_name(f"{plain.name}-v{version}")


def refuse_newer_formats(plain: Path, version: int) -> None:
    """Raise if a store exists only in formats that are newer than ``version``.

    A plain store may itself have a name that ends in ``-v2``; its column families tell it from a
    newer format.

    Args:
        plain: the directory of the plain format.
        version: the newest version of the format that is understood.

    Raises:
        ProcessorStateError: the store was upgraded, and a downgrade is not possible; or the
            directories cannot be read.
    """
    known = (format_directory(plain, number) for number in range(1, version + 1))
    try:
        if any((each / "CURRENT").exists() for each in known) or not plain.parent.is_dir():
            return
        directories = sorted(plain.parent.iterdir())
    except OSError as error:
        raise ProcessorStateError(
            f"The directory {plain.parent} cannot be searched for the formats of a store: {error}. "
            "Check that the path is a writable directory."
        ) from error
    newer_name = re.compile(rf"{re.escape(plain.name)}-v(\d+)")
    for directory in directories:
        match = newer_name.fullmatch(directory.name)
        if match and int(match[1]) > version and not _is_plain_store(directory):
            raise ProcessorStateError(
                f"The store {plain.name!r} has a newer format in {directory}, but this store reads "
                f"formats up to version {version}, and a downgrade is not possible. Run the newer "
                "version again, or delete that directory and restore from the changelog."
            )


def _is_plain_store(directory: Path) -> bool:
    families = column_families(directory)
    if not families or not families <= _PLAIN_FAMILIES:
        return False
    # A damaged database may look as if it had fewer column families; reading it raises.
    committed_offsets(directory)
    return True


def discard(directory: Path) -> None:
    """Delete a directory so that a crash never leaves a part of it under its name.

    A failure is logged: it costs disk space, but no data.
    """
    finish_discarding(directory)
    _logger.info("Deleting %s, which is no longer needed.", directory)
    try:
        directory.rename(_aside(directory))
        sync_directory(directory.parent)
    except OSError as error:
        _logger.warning("%s cannot be renamed before its deletion: %s", directory, error)
        return
    _delete(_aside(directory))


def finish_discarding(directory: Path) -> None:
    """Finish a deletion that a crash has interrupted in ``discard``."""
    aside = _aside(directory)
    if aside.exists():
        _logger.info("Finishing the interrupted deletion of %s.", aside)
        _delete(aside)


def _aside(directory: Path) -> Path:
    return directory.with_name(directory.name + _DISCARDED)


def _delete(directory: Path) -> None:
    try:
        shutil.rmtree(directory)
    except OSError as error:
        _logger.warning(
            "%s cannot be deleted: %s. The next opening of the store tries again.", directory, error
        )


def offsets_to_reach(directory: Path) -> dict[TopicPartition, int]:
    """The committed offsets of a format that will be replaced; none if it is damaged.

    An old store that cannot be read, or was not closed cleanly, must not stop the upgrade: the new
    store is filled from the changelog, and needs nothing from the old one.
    """
    try:
        return committed_offsets(directory)
    except ProcessorStateError as error:
        _logger.warning("The old format is damaged, but the upgrade does not need it. %s", error)
        return {}


def has_reached(store: StateStore, offsets: Mapping[TopicPartition, int | None]) -> bool:
    """Whether ``store`` has committed each of these offsets, or a larger one.

    An offset of ``None`` counts as not reached.
    """
    for partition, offset in offsets.items():
        found = store.committed_offset(partition)
        if found is None or offset is None or found < offset:
            return False
    return True


class OlderFormat:
    """The directory of an older format, which stays until a newer one has reached its offsets.

    Make it before the newer format is opened: it also finishes deletions that were interrupted.

    Args:
        directory: the directory of the older format, which need not exist.
        newer: the directory of the newer format.
    """

    def __init__(self, directory: Path, newer: Path) -> None:
        finish_discarding(directory)
        finish_discarding(newer)
        self._directory = directory if directory.is_dir() else None
        self._offsets: dict[TopicPartition, int] = {}
        self._partitions: set[TopicPartition] = set()
        if self._directory is not None:
            self._offsets = offsets_to_reach(directory)
            self._partitions = set(committed_offsets(newer))

    def discard_if_reached(
        self, store: StateStore, committed: Iterable[TopicPartition] = ()
    ) -> None:
        """Discard the older format once its offsets are reached, or any if it has none.

        Args:
            store: the newer format.
            committed: the partitions of the last commit.
        """
        to_reach = self._offsets or dict.fromkeys((*self._partitions, *committed), 0)
        if self._directory is not None and to_reach and has_reached(store, to_reach):
            # The new format must be on disk before the old one is deleted: a loss of power in
            # between would leave neither.
            store.flush()
            discard(self._directory)
            self._directory = None


class BackgroundRebuild:
    """The new format of a store, filled from the changelog while the old one is live.

    The new format has its own committed offsets, so that a rebuild continues after a crash. The
    methods may be called from any thread.

    Args:
        store: a store of the new format, not open, that marks no status; it is opened here.
        directory: where that store has its files.
        live: the store of the old format; it is closed after this rebuild.
        partitions: the changelog partitions that the live store had committed before.
        context: the context of the live store.

    Raises:
        ProcessorStateError: the files of the new format cannot be read, written or locked.

    Source: KIP-258, "In-place upgrade".
    """

    def __init__(
        self,
        store: StateStore,
        directory: Path,
        live: StateStore,
        partitions: Iterable[TopicPartition],
        context: StateStoreContext,
    ) -> None:
        self._store = store
        self._live = live
        self._partitions = {*partitions, *committed_offsets(directory)}
        self._lock = Lock()
        self._reported = False
        # The runtime restores the live store. This store registers nothing: ``feed`` restores it.
        own = replace(context, restore_callbacks={}, changelog=None, metrics=None)
        try:
            store.init(own, store)
        except TaskCorruptedError as error:
            # The new format was live when the process crashed, and the upgrade was taken back
            # afterwards.
            _logger.warning("The new format is rebuilt from the start. %s", error)
            discard(directory)
            store.init(own, store)
        self._restore = own.restore_callbacks[store.name]

    def feed(self, partition: TopicPartition, records: Sequence[ChangelogRecord]) -> None:
        """Apply the next records of a changelog partition, and commit the offset of the last.

        Raises:
            InvalidStateStoreError: the store was closed.
            ProcessorStateError: the files cannot be written.
        """
        if not records:
            return
        with self._lock:
            self._require_open()
            self._restore(records)
            self._store.commit({partition: records[-1].offset})
            self._partitions.add(partition)
            self._report()

    def offset(self, partition: TopicPartition) -> int | None:
        """The offset of the last record that was fed; ``None`` before the first."""
        with self._lock:
            self._require_open()
            return self._store.committed_offset(partition)

    @property
    def prepared(self) -> bool:
        """Whether each offset that the live store has committed is reached."""
        with self._lock:
            self._require_open()
            return self._has_reached_live()

    def report(self) -> None:
        """Say in the log, once, that the upgrade is prepared, if it is; ``feed`` does so too."""
        with self._lock:
            self._report()

    def close(self) -> None:
        """Write everything to disk and close; closing twice is harmless."""
        with self._lock:
            self._store.close()

    def _has_reached_live(self) -> bool:
        live = {p: self._live.committed_offset(p) for p in self._partitions}
        return bool(live) and has_reached(self._store, live)

    def _report(self) -> None:
        if self._reported or not self._has_reached_live():
            return
        # Flush first: the operator may restart every instance once the message appears.
        self._store.flush()
        self._reported = True
        _logger.info(
            "Store %r is prepared for the upgrade: the new format has caught up with the old one. "
            "When every store of every instance is ready, remove %s and %s, and restart.",
            self._store.name,
            UPGRADE_FROM_CONFIG,
            UPGRADE_MODE_CONFIG,
        )

    def _require_open(self) -> None:
        if not self._store.is_open:
            raise InvalidStateStoreError(
                f"Store {self._store.name!r} is not open; call init() before feeding it."
            )
