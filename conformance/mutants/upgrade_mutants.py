"""Stores with wrong formats, or that misread the configuration of an upgrade (KIP-258)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from streamproof.conformance.lab import CHANGELOG as PARTITION
from streamproof.stores.api import (
    NO_TIMESTAMP,
    UPGRADE_FROM_CONFIG,
    UPGRADE_MODE_CONFIG,
    ChangelogRecord,
    KeyValueStore,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.checkpoint import TASK_CHECKPOINT, OffsetCheckpoint
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.sessions import SessionStore
from streamproof.stores.timestamped import RocksDBTimestampedStore
from streamproof.stores.transactional import TransactionalKeyValueStore
from streamproof.stores.two_formats import TransactionalVersion2RocksDBStore, UpgradableStore
from streamproof.stores.windowed.rocksdb_sessions import RocksDBSessionStore
from streamproof.stores.windowed.rocksdb_windows import RocksDBWindowStore
from streamproof.stores.windowed.timestamped_sessions import (
    TimestampedRocksDBSessionStore,
    TimestampedSessionStore,
)
from streamproof.stores.windowed.timestamped_windows import (
    TimestampedRocksDBWindowStore,
    TimestampedWindowStore,
)
from streamproof.stores.windows import WindowStore

NAME = "store"
RETENTION_MS = 180_000
WINDOW_SIZE_MS = 10_000

Configs = dict[str, Any]


# --- one directory for both formats -------------------------------------------------------


class _UnmarkedWindows(TimestampedWindowStore):
    def _require_format(self, inner: WindowStore) -> None:
        return

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, upgrades_from="rocksdb-window", downgrade=False)


def windows_share_a_directory() -> WindowStore:
    """Keeps windows with timestamps in the directory of plain windows."""
    return _UnmarkedWindows(
        RocksDBWindowStore(NAME, retention_ms=RETENTION_MS, window_size_ms=WINDOW_SIZE_MS)
    )


class _UnmarkedSessions(TimestampedSessionStore):
    def _require_format(self, inner: SessionStore) -> None:
        return

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, upgrades_from="rocksdb-session", downgrade=False)


def sessions_share_a_directory() -> SessionStore:
    """Keeps sessions with timestamps in the directory of plain sessions."""
    return _UnmarkedSessions(RocksDBSessionStore(NAME, retention_ms=RETENTION_MS))


class _OtherName(RocksDBTimestampedStore):
    _place: Path | None = None

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        self._place = Path(context.state_dir) / "rocksdb"
        self._rename(f"{NAME}.new", f"{NAME}-v2")
        super().init(context, root)

    def close(self) -> None:
        super().close()
        self._rename(f"{NAME}-v2", f"{NAME}.new")

    def _rename(self, old: str, new: str) -> None:
        if self._place is not None and (self._place / old).is_dir():
            (self._place / old).rename(self._place / new)


def format_without_a_version() -> KeyValueStore:
    """Keeps the new format in a directory whose name has no version."""
    return _OtherName(NAME)


class _OtherNameWhenNew(_OtherName):
    _is_new = False

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        self._is_new |= not RocksDBStore(NAME).directory(context).exists()
        super().init(context, root)

    def _rename(self, old: str, new: str) -> None:
        if self._is_new:
            super()._rename(old, new)


def new_store_without_a_version() -> KeyValueStore:
    """Keeps the new format in a directory without a version, if there is no older one."""
    return _OtherNameWhenNew(NAME)


class _AlwaysStamped(RocksDBStore):
    def put(self, key: bytes, value: bytes | None) -> None:
        super().put(key, None if value is None else bytes(8) + value)


def plain_store_that_stamps() -> KeyValueStore:
    """A plain store that writes the format with timestamps."""
    return _AlwaysStamped(NAME)


class _NoPlainStore(RocksDBTimestampedStore):
    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, upgrades_from=f"{__name__}:plain_store_that_stamps")


def plain_store_replaced() -> KeyValueStore:
    """A store with timestamps whose plain store writes timestamps, too."""
    return _NoPlainStore(NAME)


# --- the configuration --------------------------------------------------------------------


class _Misreading(UpgradableStore[Any]):
    """A store that reads another configuration than it was given."""

    read: Callable[[Configs], Configs]

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        configs = self.read(dict(context.app_configs))
        super().init(replace(context, app_configs=configs), root)


def _always_in_place(configs: Configs) -> Configs:
    if configs.get(UPGRADE_MODE_CONFIG) == "roll_over":
        configs[UPGRADE_MODE_CONFIG] = "in_place"
    return configs


class _RollsOverInPlace(_Misreading, TimestampedRocksDBWindowStore):
    read = staticmethod(_always_in_place)


def roll_over_makes_a_new_format() -> WindowStore:
    """Opens the new format beside the older one before a roll-over, too."""
    return _RollsOverInPlace(NAME, retention_ms=RETENTION_MS, window_size_ms=WINDOW_SIZE_MS)


class _SessionsInPlace(_Misreading, TimestampedRocksDBSessionStore):
    read = staticmethod(_always_in_place)


def roll_over_rebuilds() -> SessionStore:
    """Fills the new format before a roll-over, too."""
    return _SessionsInPlace(NAME, retention_ms=RETENTION_MS)


def _any_mode(configs: Configs) -> Configs:
    if UPGRADE_FROM_CONFIG in configs and UPGRADE_MODE_CONFIG in configs:
        roll_over = configs[UPGRADE_MODE_CONFIG] == "roll_over"
        configs[UPGRADE_MODE_CONFIG] = "roll_over" if roll_over else "in_place"
    return configs


def _drafted_modes(configs: Configs) -> Configs:
    if configs.get(UPGRADE_MODE_CONFIG) == "prepare_in_place_upgrade":
        configs[UPGRADE_MODE_CONFIG] = "in_place"
    return configs


class _DraftedModes(_Misreading, RocksDBTimestampedStore):
    read = staticmethod(_drafted_modes)


def drafted_mode_accepted() -> KeyValueStore:
    """Takes the mode of a draft of the proposal for in_place."""
    return _DraftedModes(NAME)


class _AnyMode(_Misreading, RocksDBTimestampedStore):
    read = staticmethod(_any_mode)


def any_mode_accepted() -> KeyValueStore:
    """Takes every unknown mode for in_place."""
    return _AnyMode(NAME)


def _any_release(configs: Configs) -> Configs:
    if UPGRADE_FROM_CONFIG in configs:
        configs[UPGRADE_FROM_CONFIG] = "1.1"
    return configs


def _one_release_forgotten(configs: Configs) -> Configs:
    is_forgotten = configs.get(UPGRADE_FROM_CONFIG) == "0.11.0.x"
    if is_forgotten and configs.get(UPGRADE_MODE_CONFIG) == "in_place":
        del configs[UPGRADE_FROM_CONFIG]
    return configs


class _OneReleaseForgotten(_Misreading, TimestampedRocksDBSessionStore):
    read = staticmethod(_one_release_forgotten)


def one_release_prepares_nothing() -> SessionStore:
    """Opens the new format at once in an upgrade in place from 0.11.0."""
    return _OneReleaseForgotten(NAME, retention_ms=RETENTION_MS)


class _AnyRelease(_Misreading, RocksDBTimestampedStore):
    read = staticmethod(_any_release)


def any_release_accepted() -> KeyValueStore:
    """Takes every text in upgrade.from for an old release."""
    return _AnyRelease(NAME)


def _mode_optional(configs: Configs) -> Configs:
    if UPGRADE_MODE_CONFIG not in configs:
        configs.pop(UPGRADE_FROM_CONFIG, None)
    return configs


class _ModeOptional(_Misreading, RocksDBTimestampedStore):
    read = staticmethod(_mode_optional)


def mode_not_needed() -> KeyValueStore:
    """Opens the new format if upgrade.from has no mode."""
    return _ModeOptional(NAME)


def _release_optional(configs: Configs) -> Configs:
    if UPGRADE_MODE_CONFIG in configs:
        configs.setdefault(UPGRADE_FROM_CONFIG, "1.1")
    return configs


class _ReleaseOptional(_Misreading, RocksDBTimestampedStore):
    read = staticmethod(_release_optional)


def mode_alone_prepares_an_upgrade() -> KeyValueStore:
    """Prepares an upgrade for a mode alone."""
    return _ReleaseOptional(NAME)


def _uses_confused(configs: Configs) -> Configs:
    if UPGRADE_FROM_CONFIG in configs:
        configs |= {UPGRADE_FROM_CONFIG: "1.1", UPGRADE_MODE_CONFIG: "in_place"}
    return configs


class _UsesConfused(_Misreading, RocksDBTimestampedStore):
    read = staticmethod(_uses_confused)


def downgrade_prepares_an_upgrade() -> KeyValueStore:
    """Takes the downgrade of offsets for an upgrade of formats."""
    return _UsesConfused(NAME)


class _Alone(RocksDBStore):
    _file: OffsetCheckpoint | None = None

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        if UPGRADE_FROM_CONFIG in context.app_configs:
            self._file = OffsetCheckpoint(Path(context.state_dir) / TASK_CHECKPOINT)

    def close(self) -> None:
        super().close()
        if self._file is not None and self._file.exists:
            offsets = self._file.read()
            self._file.write({p: each for p, each in offsets.items() if p.topic == PARTITION.topic})


def downgrade_forgets_other_stores() -> KeyValueStore:
    """Leaves a file that has its own offsets alone."""
    return _Alone(NAME)


# --- the rebuild --------------------------------------------------------------------------


class _Silent(RocksDBTimestampedStore):
    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        if self._rebuild is not None:
            self._rebuild._reported = True  # noqa: SLF001 - the mistake


def readiness_not_logged() -> KeyValueStore:
    """Never says that the upgrade is prepared."""
    return _Silent(NAME)


class _ReportsWhenFed(RocksDBTimestampedStore):
    def init(self, context: StateStoreContext, root: StateStore) -> None:
        logger = logging.getLogger("streamproof.stores")
        before, logger.disabled = logger.disabled, True
        try:
            super().init(context, root)
        finally:
            logger.disabled = before


def readiness_not_logged_again() -> KeyValueStore:
    """Says nothing if it is opened with a new format that is complete."""
    return _ReportsWhenFed(NAME)


class _LiveIsReady(TimestampedRocksDBWindowStore):
    def rebuild(self, partition: TopicPartition, records: Sequence[ChangelogRecord]) -> None:
        super().rebuild(partition, records[-1:])


class _NoTimestamps(RocksDBTimestampedStore):
    def rebuild(self, partition: TopicPartition, records: Sequence[ChangelogRecord]) -> None:
        super().rebuild(partition, [each._replace(timestamp=NO_TIMESTAMP) for each in records])


def rebuilds_without_timestamps() -> KeyValueStore:
    """Fills the new format as if it took over the rows of the older one."""
    return _NoTimestamps(NAME)


class _TakesOver(RocksDBTimestampedStore):
    def init(self, context: StateStoreContext, root: StateStore) -> None:
        older = RocksDBStore(NAME)
        has_older = older.directory(context).exists()
        is_upgraded = has_older and UPGRADE_FROM_CONFIG not in context.app_configs
        super().init(context, root)
        if is_upgraded and self.committed_offset(PARTITION) is None:
            self._take_over(older, replace(context, metrics=None))

    def _take_over(self, older: RocksDBStore, context: StateStoreContext) -> None:
        older.init(context, older)
        offset = older.committed_offset(PARTITION)
        with older.all() as found:
            rows = list(found)
        older.close()
        for key, value in rows:
            self.put_with_timestamp(key, value, NO_TIMESTAMP)
        self.commit({PARTITION: offset})


def offline_upgrade_takes_rows_over() -> KeyValueStore:
    """Copies the rows of the older format without timestamps, as Kafka ships it."""
    return _TakesOver(NAME)


def windows_rebuilt_in_part() -> WindowStore:
    """Fills the new format with the last record of each batch."""
    return _LiveIsReady(NAME, retention_ms=RETENTION_MS, window_size_ms=WINDOW_SIZE_MS)


# --- crashes ------------------------------------------------------------------------------


class _OffsetBeside(TransactionalVersion2RocksDBStore):
    """The offsets are in a file, which is on the disk before the rows."""

    _file: OffsetCheckpoint | None = None

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        self._file = OffsetCheckpoint(self.directory(context).with_suffix(".offsets"))

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        super().commit(changelog_offsets)
        if self._file is not None:
            known = {key: value for key, value in changelog_offsets.items() if value is not None}
            self._file.write({**self._file.read(), **known})

    def committed_offset(self, partition: TopicPartition) -> int | None:
        return None if self._file is None else self._file.read().get(partition)


def _beside(rows: KeyValueStore, version: int) -> KeyValueStore:
    """The rows of the new format, with their offsets in a file."""
    if version == 1:
        return rows
    staged = isinstance(rows, TransactionalKeyValueStore)
    return TransactionalKeyValueStore(_OffsetBeside(NAME)) if staged else _OffsetBeside(NAME)


class _WindowsBeside(TimestampedRocksDBWindowStore):
    def _over(self, rows: KeyValueStore, version: int) -> WindowStore:
        return super()._over(_beside(rows, version), version)


def rebuilt_windows_lose_rows() -> WindowStore:
    """Writes the offset of the new format to a file before its windows are on the disk."""
    return _WindowsBeside(
        NAME, transactional=True, retention_ms=RETENTION_MS, window_size_ms=WINDOW_SIZE_MS
    )


class _SessionsBeside(TimestampedRocksDBSessionStore):
    def _over(self, rows: KeyValueStore, version: int) -> SessionStore:
        return super()._over(_beside(rows, version), version)


def rebuilt_sessions_lose_rows() -> SessionStore:
    """Writes the offset of the new format to a file before its sessions are on the disk."""
    return _SessionsBeside(NAME, transactional=True, retention_ms=RETENTION_MS)
