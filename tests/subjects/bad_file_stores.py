"""Stores with one mistake about timestamps or positions, by the requirement that must notice it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from file_store import Content, FileStore, FileTransaction

from streamproof.stores.api import (
    NO_TIMESTAMP,
    ChangelogRecord,
    Position,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.timestamps import ValueAndTimestamp, encode_value_and_timestamp

S = TypeVar("S", bound=type[FileStore])

WRONG: list[tuple[str, type[FileStore]]] = []
"""Which requirement must catch which class."""


def breaks(requirement: str) -> Callable[[S], S]:
    """Register a class as one that a requirement must catch."""

    def register(store: S) -> S:
        WRONG.append((requirement, store))
        return store

    return register


# Timestamps.


@breaks("TS-001")
class NoNegativeTimestamps(FileStore):
    def put_with_timestamp(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        super().put_with_timestamp(key, value, max(timestamp, 0))


@breaks("TS-002")
class GetShowsTheTimestamp(FileStore):
    def get(self, key: bytes) -> bytes | None:
        row = self.get_with_timestamp(key)
        return encode_value_and_timestamp(*row) if row else None


@breaks("TS-003")
class RecordTimestampIgnored(FileStore):
    def put(self, key: bytes, value: bytes | None) -> None:
        self.write(key, value, NO_TIMESTAMP)


@breaks("TS-004")
class NoTimestampIsZero(FileStore):
    def put(self, key: bytes, value: bytes | None) -> None:
        self.write(key, value, max(self.opened().record_timestamp, 0))


@breaks("TS-005")
class OlderTimestampIgnored(FileStore):
    def put_with_timestamp(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        row = self.get_with_timestamp(key)
        if row is None or row.timestamp <= timestamp:
            super().put_with_timestamp(key, value, timestamp)


@breaks("TS-006")
class NoneLeavesTheTimestamp(FileStore):
    def put_with_timestamp(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        super().put_with_timestamp(key, value or b"", timestamp)


@breaks("TS-007")
class PutIfAbsentTellsNothing(FileStore):
    def put_if_absent_with_timestamp(
        self, key: bytes, value: bytes | None, timestamp: int
    ) -> ValueAndTimestamp | None:
        super().put_if_absent_with_timestamp(key, value, timestamp)
        return None


@breaks("TS-008")
class DeleteForgetsTheTimestamp(FileStore):
    def delete_with_timestamp(self, key: bytes) -> ValueAndTimestamp | None:
        old = super().delete_with_timestamp(key)
        return old and old._replace(timestamp=NO_TIMESTAMP)


@breaks("TS-009")
class OneTimestampForAll(FileStore):
    def put_all_with_timestamp(
        self, entries: Iterable[tuple[bytes, ValueAndTimestamp | None]]
    ) -> None:
        rows = list(entries)
        timestamp = next((row.timestamp for _, row in rows if row), NO_TIMESTAMP)
        super().put_all_with_timestamp(
            (key, row and row._replace(timestamp=timestamp)) for key, row in rows
        )


@breaks("TS-010")
class PutAllStopsHalfWay(FileStore):
    def put_all_with_timestamp(
        self, entries: Iterable[tuple[bytes, ValueAndTimestamp | None]]
    ) -> None:
        for entry in entries:
            super().put_all_with_timestamp([entry])


@breaks("TS-011")
class ScansWithoutTimestamps(FileStore):
    def range_with_timestamp(self, from_key: bytes | None, to_key: bytes | None) -> Any:
        for key, value in self.range(from_key, to_key):
            yield key, ValueAndTimestamp(value, NO_TIMESTAMP)


@breaks("TS-012")
class ScansShowTimestamps(FileStore):
    def range(self, from_key: bytes | None, to_key: bytes | None) -> Any:
        for key, row in self.rows_between(from_key, to_key):
            yield key, encode_value_and_timestamp(*row)


@breaks("TS-013")
class TimestampsNotSaved(FileStore):
    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        rows = self.content.rows
        rows.update({key: row._replace(timestamp=NO_TIMESTAMP) for key, row in rows.items()})


@breaks("TS-014")
class RestoredWithoutTimestamps(FileStore):
    def restore(self, records: Sequence[ChangelogRecord]) -> None:
        super().restore([record._replace(timestamp=NO_TIMESTAMP) for record in records])


@breaks("TS-015")
class RestoredTwiceIsEncodedTwice(FileStore):
    def init(self, context: StateStoreContext, root: StateStore) -> None:
        self.seen: set[int] = set()
        super().init(context, root)

    def restore(self, records: Sequence[ChangelogRecord]) -> None:
        for record in records:
            again = record.value is not None and record.offset in self.seen
            stored = encode_value_and_timestamp(record.value, record.timestamp)
            super().restore([record._replace(value=stored) if again else record])
            self.seen.add(record.offset)


@breaks("TS-016")
class TimestampsAreGuessed(FileStore):
    def restore(self, records: Sequence[ChangelogRecord]) -> None:
        for record in records:
            value = record.value
            if value is not None and value[:1] in (b"\xff", b"\x00"):
                value = value[8:]
            super().restore([record._replace(value=value)])


class TransactionalStore(FileStore):
    """A store with wrong transactions."""

    transaction: type[FileTransaction] = FileTransaction

    def new_transaction(self) -> StateStore:
        return self.transaction(self)


class TimestampAtOnce(FileTransaction):
    """Writes timestamps past the transaction."""

    def write(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        super().write(key, value, timestamp)
        old = self.store.content.rows.get(key)
        if old is not None:
            self.store.content.rows[key] = old._replace(timestamp=timestamp)


@breaks("TS-017")
class TimestampsOutliveTheTransaction(TransactionalStore):
    transaction = TimestampAtOnce


class WithoutTimestamps(FileTransaction):
    """Commits values alone."""

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        rows = self.content.rows
        rows.update({key: row._replace(timestamp=NO_TIMESTAMP) for key, row in rows.items()})
        super().commit(changelog_offsets)


@breaks("TS-018")
class TransactionsLoseTimestamps(TransactionalStore):
    transaction = WithoutTimestamps


# Position.


@breaks("POS-001")
class PositionBeginsAtZero(FileStore):
    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        self.content.position.update("input", 0, 0)


@breaks("POS-002")
class PositionStands(FileStore):
    def move_position(self) -> None:
        return


@breaks("POS-003")
class PositionGoesBack(FileStore):
    def move_position(self) -> None:
        record = self.opened().record_metadata
        if record is not None:
            offsets = self.content.position.as_dict()
            offsets[TopicPartition(record.topic, record.partition)] = record.offset
            self.content.position = Position(offsets)


@breaks("POS-004")
class PartitionsShareAnOffset(FileStore):
    def move_position(self) -> None:
        record = self.opened().record_metadata
        if record is not None:
            self.content.position.update(record.topic, 0, record.offset)


@breaks("POS-005")
class DeletesDoNotCount(FileStore):
    def write(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        before = self.content.position.copy()
        super().write(key, value, timestamp)
        if value is None:
            self.content.position = before


@breaks("POS-006")
class NoRecordIsOneMore(FileStore):
    def move_position(self) -> None:
        super().move_position()
        if self.opened().record_metadata is None:
            for (topic, partition), offset in self.position.as_dict().items():
                self.content.position.update(topic, partition, offset + 1)


@breaks("POS-007")
class PositionNotSaved(FileStore):
    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        self.content.position = Position()


@breaks("POS-008")
class RestoredRecordsCount(FileStore):
    def restore(self, records: Sequence[ChangelogRecord]) -> None:
        super().restore(records)
        for record in records:
            self.content.position.update("input", 0, record.offset)


@breaks("POS-009")
class PositionSavedByClose(FileStore):
    def close(self) -> None:
        if self.is_open:
            committed = Content.load(self.live)
            committed.position = self.content.position
            committed.save(self.live)
        super().close()


class MovesTheStore(FileTransaction):
    """Moves the position of the store when a write is staged."""

    def move_position(self) -> None:
        super().move_position()
        self.store.content.position = self.content.position.copy()


@breaks("POS-010")
class PositionOfStagedWrites(TransactionalStore):
    transaction = MovesTheStore


@breaks("POS-011")
class PositionIsShared(FileStore):
    @property
    def position(self) -> Position:
        return self.content.position


@breaks("POS-012")
class PositionOfTheCommitBefore(FileStore):
    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        now = self.content.position
        self.content.position = Content.load(self.live).position
        super().commit(changelog_offsets)
        self.content.position = now
