"""Stores with one mistake about upgrades, restorations or metrics."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bad_file_stores import breaks
from file_store import CAPABILITIES, Content, FileStore, InPlaceFileStore, OlderFileStore

from streamproof.stores.api import (
    NO_TIMESTAMP,
    ChangelogRecord,
    Position,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.errors import ProcessorStateError
from streamproof.stores.metrics import MetricDefinition, Metrics, Sensor
from streamproof.stores.runtime.metered import COMMIT_METRICS, FLUSH_METRICS, UNCOMMITTED_BYTES

# Upgrades.


@breaks("UPGRADE-001")
class OlderFormatUnknown(FileStore):
    def upgraded(self) -> Content:
        raise ProcessorStateError(f"{self.older} is of a format that is not known.")


@breaks("UPGRADE-002")
class OffsetInvented(FileStore):
    def upgraded(self) -> Content:
        content = super().upgraded()
        content.offsets = {key: offset + 1 for key, offset in content.offsets.items()}
        return content


@breaks("UPGRADE-003")
class OffsetWithoutRows(FileStore):
    def upgraded(self) -> Content:
        return replace(super().upgraded(), rows={})


@breaks("UPGRADE-004")
class RebuildIgnoresTombstones(FileStore):
    def upgraded(self) -> Content:
        return Content()

    def restore(self, records: Sequence[ChangelogRecord]) -> None:
        super().restore([record for record in records if record.value is not None])


@breaks("UPGRADE-005")
class SecondOpeningDropsTheOld(FileStore):
    def choose_format(self) -> None:
        again = self.newer.exists()
        super().choose_format()
        if again:
            content = Content.load(self.newer)
            rows = content.rows.items()
            content.rows = {key: row for key, row in rows if row.timestamp != NO_TIMESTAMP}
            content.save(self.newer)


@breaks("UPGRADE-006")
class OldRowsComeBack(FileStore):
    def choose_format(self) -> None:
        kept = Content.load(self.older)
        super().choose_format()
        if kept.rows:
            kept.save(self.older)
            content = Content.load(self.newer)
            content.rows = {**kept.rows, **content.rows}
            content.save(self.newer)


@breaks("UPGRADE-007")
class OnlyWhatWasReadIsKept(FileStore):
    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        self.seen: set[bytes] = set()

    def get(self, key: bytes) -> bytes | None:
        self.seen.add(key)
        return super().get(key)

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        rows = self.content.rows
        self.content.rows = {
            key: row
            for key, row in rows.items()
            if key in self.seen or row.timestamp != NO_TIMESTAMP
        }
        super().commit(changelog_offsets)
        self.content.rows = rows


@breaks("UPGRADE-008")
class OldValuesAtTimeZero(FileStore):
    def upgraded(self) -> Content:
        content = super().upgraded()
        content.rows = {key: row._replace(timestamp=0) for key, row in content.rows.items()}
        return content


class BeginsAnew(OlderFileStore):
    """An older store that overlooks the newer format."""

    def choose_format(self) -> None:
        self.live = self.older


@breaks("UPGRADE-009")
class DowngradeShowsNothing(FileStore):
    capabilities = replace(CAPABILITIES, upgrades_from=f"{__file__}:BeginsAnew")


class Destructive(OlderFileStore):
    """An older store that refuses, but not before it has deleted."""

    def choose_format(self) -> None:
        try:
            super().choose_format()
        finally:
            self.newer.unlink(missing_ok=True)
            Content(offsets={TopicPartition("streamproof-store-changelog", 0): 7}).save(self.older)


@breaks("UPGRADE-010")
class RefusedDowngradeDestroys(FileStore):
    capabilities = replace(CAPABILITIES, upgrades_from=f"{__file__}:Destructive")


@breaks("UPGRADE-021")
class DowngradeLosesTheOffset(FileStore):
    def downgraded(self, content: Content) -> Content:
        return replace(super().downgraded(content), offsets={})


@breaks("UPGRADE-022")
class DowngradeLosesThePosition(FileStore):
    def downgraded(self, content: Content) -> Content:
        return replace(super().downgraded(content), position=Position())


@breaks("UPGRADE-022")
class DowngradeAddsToThePosition(FileStore):
    def downgraded(self, content: Content) -> Content:
        position = Position({**content.position.as_dict(), TopicPartition("#commits", 0): 1})
        return replace(super().downgraded(content), position=position)


@breaks("UPGRADE-023")
class UpgradeLosesThePosition(FileStore):
    def upgraded(self) -> Content:
        return replace(super().upgraded(), position=Position())


@breaks("UPGRADE-011")
class TakenOverRowsStay(FileStore):
    def restore(self, records: Sequence[ChangelogRecord]) -> None:
        rows = self.content.rows
        kept = {key: row for key, row in rows.items() if row.timestamp == NO_TIMESTAMP}
        super().restore(records)
        rows.update(kept)


@breaks("UPGRADE-012")
class OffsetsUpgradedFirst(FileStore):
    def choose_format(self) -> None:
        if self.older.exists() and not self.newer.exists():
            replace(self.upgraded(), rows={}).save(self.newer)
            Content.load(self.older).save(self.newer)
        super().choose_format()


@breaks("UPGRADE-013")
class OffsetsCommittedFirst(FileStore):
    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        offsets = {key: each for key, each in changelog_offsets.items() if each is not None}
        replace(Content.load(self.live), offsets=offsets).save(self.live)
        super().commit(changelog_offsets)


class SavesAtOnce(OlderFileStore):
    """An older store that saves every write, and offsets when it commits."""

    capabilities = replace(OlderFileStore.capabilities, transactional=False)

    def write(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        super().write(key, value, timestamp)
        self.content.save(self.live)


@breaks("UPGRADE-014")
class UncommittedRowsAreTrusted(FileStore):
    capabilities = replace(CAPABILITIES, upgrades_from=f"{__file__}:SavesAtOnce")


@breaks("UPGRADE-014")
class UncleanStopOverlooked(FileStore):
    capabilities = replace(
        CAPABILITIES,
        transactional=False,
        explicit_transactions=False,
        upgrades_from=f"{__file__}:SavesAtOnce",
    )


@breaks("UPGRADE-015")
class PreparedFormatIsLive(InPlaceFileStore):
    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        if self.live == self.older and self.filled.exists():
            self.content = self.beside.copy()


@breaks("UPGRADE-016")
class PreparedTooEarly(InPlaceFileStore):
    prepared = True


@breaks("UPGRADE-017")
class PreparedInVain(InPlaceFileStore):
    def upgraded(self) -> Content:
        return Content() if self.filled.exists() else super().upgraded()


@breaks("UPGRADE-018")
class NoWayBack(InPlaceFileStore):
    def rebuild(self, partition: TopicPartition, records: Sequence[ChangelogRecord]) -> None:
        super().rebuild(partition, records)
        self.beside.save(self.newer)


@breaks("UPGRADE-019")
class OffsetRebuiltFirst(InPlaceFileStore):
    def rebuild(self, partition: TopicPartition, records: Sequence[ChangelogRecord]) -> None:
        self.beside.offsets[partition] = records[-1].offset
        self.beside.save(self.filled)
        super().rebuild(partition, records)


# Restorations.


@breaks("LISTEN-001")
class LastRecordLost(FileStore):
    def restore(self, records: Sequence[ChangelogRecord]) -> None:
        super().restore(records[:-1] or records)


@breaks("LISTEN-002")
class EachBatchBeginsAnew(FileStore):
    def restore(self, records: Sequence[ChangelogRecord]) -> None:
        self.content.rows.clear()
        super().restore(records)


class BatchBehind(FileStore):
    """Applies a batch when the next one comes."""

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        self.waiting: Sequence[ChangelogRecord] = ()
        super().init(context, root)

    def restore(self, records: Sequence[ChangelogRecord]) -> None:
        super().restore(self.waiting)
        self.waiting = records


@breaks("LISTEN-003")
class NothingIsAwaited(BatchBehind):
    """Without another batch, the last one never shows."""


@breaks("LISTEN-006")
class GoesOnTooLate(BatchBehind):
    """What the listener was told of is not there when it raises."""


@breaks("LISTEN-004")
class RestoredRowsNotSaved(FileStore):
    restored: frozenset[bytes] = frozenset()

    def restore(self, records: Sequence[ChangelogRecord]) -> None:
        super().restore(records)
        self.restored = frozenset(record.key for record in records)

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        rows = self.content.rows
        self.content.rows = {key: row for key, row in rows.items() if key not in self.restored}
        super().commit(changelog_offsets)
        self.content.rows = rows


@breaks("LISTEN-005")
class EmptyBatchIsTheEnd(FileStore):
    def restore(self, records: Sequence[ChangelogRecord]) -> None:
        if not records:
            self.content.rows.clear()
        super().restore(records)


@breaks("LISTEN-007")
class SmallBatches(FileStore):
    def restore(self, records: Sequence[ChangelogRecord]) -> None:
        super().restore(records[:500])


@breaks("LISTEN-008")
class LiveIterators(FileStore):
    def range(self, from_key: bytes | None, to_key: bytes | None) -> Any:
        return ((key, row.value) for key, row in self.content.rows.items())


# Metrics.


class MeasuredOtherwise(FileStore):
    """A store that registers other definitions, tags or functions."""

    definitions: tuple[MetricDefinition, ...] = COMMIT_METRICS
    scope_has_task = True

    def tags(self, task_id: str) -> dict[str, str]:
        """The tags of every metric."""
        return {"thread-id": "thread", "task-id": task_id, "file-state-id": self.name}

    def measure(self, metrics: Metrics, task_id: str) -> None:
        self.scope = ("thread", task_id) if self.scope_has_task else ("thread",)
        self.commits = metrics.sensor(self.scope, self.definitions, self.tags(task_id))
        metrics.gauge(self.scope, UNCOMMITTED_BYTES, self.tags(task_id), self.num_bytes)

    def num_bytes(self) -> float:
        """What uncommitted-bytes says."""
        return self.approximate_num_uncommitted_bytes()


@breaks("METRIC-001")
class NoMaximum(MeasuredOtherwise):
    definitions = COMMIT_METRICS[:2]


@breaks("METRIC-002")
class NamedByItsType(MeasuredOtherwise):
    def tags(self, task_id: str) -> dict[str, str]:
        return {"thread-id": "thread", "task-id": task_id, "file-state-id": "file"}


@breaks("METRIC-003")
class AlwaysRecorded(MeasuredOtherwise):
    definitions = tuple(replace(each, level="INFO") for each in COMMIT_METRICS)


class RecordsMore(MeasuredOtherwise):
    """A store that records something else at a commit."""

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        super().commit(changelog_offsets)
        self.record_more()

    def record_more(self) -> None:
        """What is recorded after the commit."""
        self.commits.record(1)


@breaks("METRIC-004")
class CommitsCountTwice(RecordsMore):
    """Once more than it should."""


@breaks("METRIC-005")
class NegativeLatency(MeasuredOtherwise):
    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        right, self.commits = self.commits, Sensor(recording=False)
        super().commit(changelog_offsets)
        self.commits = right
        right.record(-1)


@breaks("METRIC-005")
class LatencyInPicoseconds(MeasuredOtherwise):
    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        right, self.commits = self.commits, Sensor(recording=False)
        began = time.monotonic_ns()
        super().commit(changelog_offsets)
        self.commits = right
        right.record((time.monotonic_ns() - began) * 1000)


@breaks("METRIC-006")
class CommitIsAFlush(RecordsMore):
    def measure(self, metrics: Metrics, task_id: str) -> None:
        super().measure(metrics, task_id)
        self.flushes = metrics.sensor(self.scope, FLUSH_METRICS, self.tags(task_id))

    def record_more(self) -> None:
        self.flushes.record(1)


@breaks("METRIC-007")
class RowsAreNotBytes(MeasuredOtherwise):
    def num_bytes(self) -> float:
        return len(self.content.rows)


@breaks("METRIC-008")
class ReadingResets(MeasuredOtherwise):
    def num_bytes(self) -> float:
        found, self.uncommitted_bytes = self.uncommitted_bytes, 0
        return found


@breaks("METRIC-009")
class MetricsStayBehind(FileStore):
    def close(self) -> None:
        self.scope = ()
        super().close()


@breaks("METRIC-010")
class TasksShareMetrics(MeasuredOtherwise):
    scope_has_task = False
