"""Stores with wrong timestamps or wrong upgrades; see the table in the package."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from rocksdict import WriteBatch

from streamproof.stores.api import (
    NO_TIMESTAMP,
    ChangelogRecord,
    KeyValueStore,
    RestoreCallback,
    StateStore,
    StateStoreContext,
)
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.iterators import Row
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.rocksdb_database import Database
from streamproof.stores.rocksdb_scans import scan_range
from streamproof.stores.timestamped import RocksDBTimestampedStore, TimestampedKeyValueStore
from streamproof.stores.timestamped_lazy import LazyRocksDBStore
from streamproof.stores.timestamps import encode_value_and_timestamp
from streamproof.stores.write_batch import WriteTarget

NAME = "store"


class _NewerWins(RocksDBTimestampedStore):
    def put_with_timestamp(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        there = self.get_with_timestamp(key)
        if there is None or timestamp >= there.timestamp:
            super().put_with_timestamp(key, value, timestamp)


def older_timestamp_ignored() -> KeyValueStore:
    """Ignores a write with an older timestamp as too late."""
    return _NewerWins(NAME)


class _NoRecord(RocksDBTimestampedStore):
    def _record_timestamp(self) -> int:
        return NO_TIMESTAMP


def record_timestamp_ignored() -> KeyValueStore:
    """Writes no timestamp if the caller names none."""
    return _NoRecord(NAME)


class _RestoredAnew(RocksDBTimestampedStore):
    def _restoring(self, restore: RestoreCallback) -> RestoreCallback:
        right = super()._restoring(restore)

        def restore_without(records: Sequence[ChangelogRecord]) -> None:
            right([record._replace(timestamp=NO_TIMESTAMP) for record in records])

        return restore_without


def restored_without_timestamp() -> KeyValueStore:
    """Forgets the timestamps of changelog records."""
    return _RestoredAnew(NAME)


class _RestoredTwice(RocksDBTimestampedStore):
    def _restoring(self, restore: RestoreCallback) -> RestoreCallback:
        right = super()._restoring(restore)
        seen: set[int] = set()

        def restore_again(records: Sequence[ChangelogRecord]) -> None:
            right(
                [
                    record._replace(timestamp=NO_TIMESTAMP) if record.offset in seen else record
                    for record in records
                ]
            )
            seen.update(record.offset for record in records)

        return restore_again


def restored_again_without_timestamp() -> KeyValueStore:
    """Forgets the timestamps of changelog records that it has restored before."""
    return _RestoredTwice(NAME)


class _Sniffing(RocksDBTimestampedStore):
    def _restoring(self, restore: RestoreCallback) -> RestoreCallback:
        right = super()._restoring(restore)

        def restore_sniffing(records: Sequence[ChangelogRecord]) -> None:
            right(
                [
                    record._replace(value=record.value[8:])
                    if record.value is not None and record.value[:1] in (b"\xff", b"\x00")
                    else record
                    for record in records
                ]
            )

        return restore_sniffing


def timestamps_are_guessed() -> KeyValueStore:
    """Mistakes the first bytes of a value for a stored timestamp."""
    return _Sniffing(NAME)


class _Lazy(TimestampedKeyValueStore):
    """A store that migrates lazily, based on a wrong store of the encoded bytes."""

    def __init__(self, inner: LazyRocksDBStore) -> None:
        super().__init__(inner)

    @property
    def capabilities(self) -> Capabilities:
        return replace(
            super().capabilities, position=True, upgrades_from="rocksdb", downgrade=False
        )


class _Zero(LazyRocksDBStore):
    def get_only(self, key: bytes) -> bytes | None:
        found = super().get_only(key)
        surrogate = encode_value_and_timestamp(b"", NO_TIMESTAMP)
        if found is not None and found.startswith(surrogate):
            return encode_value_and_timestamp(found[8:], 0)
        return found


def old_values_at_time_zero() -> KeyValueStore:
    """Gives the values of the older format the timestamp 0."""
    return _Lazy(_Zero(NAME))


class _PlainStays(LazyRocksDBStore):
    def _records(self, database: Database, batch: WriteBatch) -> WriteTarget:
        return RocksDBStore._records(self, database, batch)  # noqa: SLF001


def old_entries_come_back() -> KeyValueStore:
    """Deletes only in the new format, so the old entry shows again."""
    return _Lazy(_PlainStays(NAME))


class _NewRowsOnly(LazyRocksDBStore):
    def _range_rows(
        self, database: Database, from_key: bytes | None, to_key: bytes | None, *, reverse: bool
    ) -> Iterator[Row]:
        return scan_range(database.data, from_key, to_key, reverse=reverse)


def scans_miss_old_entries() -> KeyValueStore:
    """Scans only the new format."""
    return _Lazy(_NewRowsOnly(NAME))


class _TwoSteps(LazyRocksDBStore):
    def _write_entries(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        listed = list(entries)
        database = self._opened()
        if self._upgrading and database.plain is not None:
            for key, _ in listed:
                database.plain.delete(key)
            # The disk now has the entry in neither format.
            database.flush()
        super()._write_entries(listed)


def migrates_in_two_steps() -> KeyValueStore:
    """Deletes the old entry on disk before the new one is written."""
    return _Lazy(_TwoSteps(NAME))


class _Emptied(RocksDBStore):
    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        if not (self.directory(context) / "upgraded").exists():
            with self.all() as rows:
                for key, _ in list(rows):
                    self.put(key, None)
            self.flush()
            (self.directory(context) / "upgraded").touch()


def offset_without_the_old_data() -> KeyValueStore:
    """Takes over the committed offset of the older format but none of its entries."""
    return _Emptied(NAME)


class _Careless(RocksDBTimestampedStore):
    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, upgrades_from=f"{__name__}:forgets_newer_formats")


class _Forgets(RocksDBStore):
    def init(self, context: StateStoreContext, root: StateStore) -> None:
        newer = self.directory(context).with_name(f"{self.name}-v2")
        aside: Any = None
        if newer.is_dir():
            aside = newer.rename(newer.with_name("aside"))
        try:
            super().init(context, root)
        finally:
            if aside is not None:
                aside.rename(newer)


def forgets_newer_formats() -> KeyValueStore:
    """An older store that starts empty and ignores the files of a newer store."""
    return _Forgets(NAME)


def downgrade_shows_nothing() -> KeyValueStore:
    """A newer store whose older version ignores its files."""
    return _Careless(NAME)
