"""Stores with timestamps that replace a plain store on RocksDB: the three ways of KIP-258.

The common part of key-value, window and session stores. A kind of store says how each format is
made; this module opens the live one, and prepares and finishes the upgrade.
:mod:`streamproof.stores.format_upgrade` describes all steps, and the states that a kill may leave.

:meth:`UpgradableStore.rebuild`, :meth:`~UpgradableStore.rebuilt_offset` and
:attr:`~UpgradableStore.prepared` are what a runtime drives in the background.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, TypeVar

from streamproof.stores.api import (
    UPGRADE_FROM_CONFIG,
    UPGRADE_MODE_CONFIG,
    ChangelogRecord,
    KeyValueStore,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.errors import InvalidStateStoreError, UnsupportedOperationError
from streamproof.stores.format_upgrade import (
    BackgroundRebuild,
    OlderFormat,
    finish_discarding,
)
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.rocksdb_database import committed_offsets
from streamproof.stores.timestamped_layer import PLAIN, TIMESTAMPED, TimestampedLayer
from streamproof.stores.transactional import TransactionalKeyValueStore, TransactionalRocksDBStore
from streamproof.stores.upgrade_configs import upgrade_mode

__all__ = [
    "TransactionalVersion2RocksDBStore",
    "UpgradableStore",
    "Version2RocksDBStore",
]

S = TypeVar("S", bound=StateStore)

_logger = logging.getLogger("streamproof.stores")


class Version2RocksDBStore(RocksDBStore):
    """The stored bytes of values with timestamps, in ``<state_dir>/rocksdb/<name>-v2``."""

    holds_timestamps = True
    format_version = 2


class TransactionalVersion2RocksDBStore(Version2RocksDBStore, TransactionalRocksDBStore):
    """The same with transactions."""


class UpgradableStore(TimestampedLayer[S]):
    """A store with timestamps, in ``<state_dir>/rocksdb/<name>-v2`` (KIP-258).

    While an upgrade is being prepared (``upgrade.from`` and ``upgrade.mode``), the plain store in
    ``<state_dir>/rocksdb/<name>`` is live instead. The older format drops timestamps, and reads
    find ``NO_TIMESTAMP``.

    Args:
        name: the name of the store.
        transactional: whether writes are staged until the commit (KIP-892).

    Attributes:
        older_subject: the subject that writes the plain format, as capabilities name it.
    """

    older_subject: ClassVar[str]

    def __init__(self, name: str, *, transactional: bool = False) -> None:
        self._transactional = transactional
        super().__init__(self._new_format(name))
        # Set while the new format is live.
        self._older: OlderFormat | None = None
        self._rebuild: BackgroundRebuild | None = None

    @abstractmethod
    def _over(self, rows: KeyValueStore, version: int) -> S:
        """A store of this kind over its rows, which are of this version of the format."""

    @abstractmethod
    def _timestamped_over(self, stored: S) -> TimestampedLayer[S]:
        """A store of this kind with timestamps, over one of the new format."""

    def _new_format(self, name: str) -> S:
        if self._transactional:
            rows = TransactionalKeyValueStore(TransactionalVersion2RocksDBStore(name))
            return self._over(rows, 2)
        return self._over(Version2RocksDBStore(name), 2)

    def _old_format(self, name: str) -> S:
        if self._transactional:
            return self._over(TransactionalKeyValueStore(TransactionalRocksDBStore(name)), 1)
        return self._over(RocksDBStore(name), 1)

    @property
    def capabilities(self) -> Capabilities:
        """What this store promises."""
        return replace(
            super().capabilities,
            position=True,
            upgrades_from=self.older_subject,
            in_place_upgrade=True,
            downgrade=False,
        )

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the live format, and the one beside it, if an upgrade needs both.

        Raises:
            ProcessorStateError: the files cannot be read, written or locked, or they are of a
                newer format only.
            TaskCorruptedError: exactly-once, and the live format was not closed cleanly.
            UsageError: ``upgrade.from`` and ``upgrade.mode`` do not fit together.
            InvalidStateStoreError: the store is already open.
        """
        if self.is_open:
            raise InvalidStateStoreError(f"Store {self.name!r} is already open; close it first.")
        mode = upgrade_mode(context)
        name = self.name
        old = RocksDBStore(name).directory(context)
        new = Version2RocksDBStore(name).directory(context)
        self._older = None
        if mode is None:
            older = OlderFormat(old, new)
            self._use(self._new_format(name), TIMESTAMPED)
            super().init(context, root)
            self._older = older
            self._discard_older()
            return
        finish_discarding(old)
        finish_discarding(new)
        partitions = committed_offsets(old)
        self._use(self._old_format(name), PLAIN)
        super().init(context, root)
        _logger.info("Store %r is live in the old format (upgrade mode %s).", name, mode)
        if mode == "in_place":
            # A store of staged writes marks no status: it holds committed records alone.
            stored = self._over(TransactionalVersion2RocksDBStore(name), 2)
            rebuilt = self._timestamped_over(stored)
            try:
                self._rebuild = BackgroundRebuild(rebuilt, new, self._inner, partitions, context)
                self._rebuild.report()
            except BaseException:
                self.close()
                raise

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit the live format, and discard the old one once its offsets are reached."""
        super().commit(changelog_offsets)
        self._discard_older(changelog_offsets)

    def _discard_older(self, committed: Mapping[TopicPartition, int | None] | None = None) -> None:
        if self._older is not None:
            self._older.discard_if_reached(self._inner, committed or {})

    def close(self) -> None:
        """Close the rebuild, which reads the live format, and then the live format."""
        rebuild, self._rebuild = self._rebuild, None
        try:
            if rebuild is not None:
                rebuild.close()
        finally:
            super().close()

    # --- the rebuild of an in-place upgrade -------------------------------------------

    def rebuild(self, partition: TopicPartition, records: Sequence[ChangelogRecord]) -> None:
        """Feed the new format, beside the live one, with the next records of the changelog.

        Any thread may call this method. The first record to feed is the one after
        ``rebuilt_offset``. When the new format has caught up with the old one, an INFO message says
        so.

        Raises:
            UnsupportedOperationError: no upgrade in place is being prepared.
            InvalidStateStoreError: the store was closed during the rebuild.

        Source: KIP-258, "In-place upgrade".
        """
        self._rebuilding().feed(partition, records)

    def rebuilt_offset(self, partition: TopicPartition) -> int | None:
        """The offset of the last record that was fed, also before a crash; ``None`` if none was.

        Raises:
            UnsupportedOperationError: no upgrade in place is being prepared.
        """
        return self._rebuilding().offset(partition)

    @property
    def prepared(self) -> bool:
        """Whether the new format has reached the last commit of the live one.

        Raises:
            UnsupportedOperationError: no upgrade in place is being prepared.
        """
        return self._rebuilding().prepared

    def _rebuilding(self) -> BackgroundRebuild:
        if self._rebuild is None:
            raise UnsupportedOperationError(
                f"Store {self.name!r} is not being rebuilt. Open it with {UPGRADE_FROM_CONFIG}, "
                f"and with {UPGRADE_MODE_CONFIG} in_place."
            )
        return self._rebuild
