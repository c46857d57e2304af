"""The progress of a state updater's restorations, and the announcer that reports it.

Each start is followed by exactly one end or one suspension, unless the process dies before.

Sources: KIP-869, StateRestoreListener; KIP-988, StandbyUpdateListener; Kafka, StoreChangelogReader.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.decisions.restore_range import remaining_after
from streamproof.sim.tasks.store_holder import topic_partition
from streamproof.sim.tasks.stream_task import StreamTask
from streamproof.sim.trace import Trace
from streamproof.sim.updater_metrics import UpdaterMetrics
from streamproof.stores.runtime.restoration import (
    StandbyUpdateListener,
    StateRestoreListener,
    SuspendReason,
)

__all__ = ["Announcer", "ChangelogRestoration", "Updating"]


@dataclass
class ChangelogRestoration:
    """The restoration of one changelog.

    Attributes:
        store: the name of the store.
        is_source: whether the changelog is an input of the task, too.
        end: the first offset that is not restored; ``None`` until it is known. A standby has an end
            only if the changelog is an input: the committed offset, which moves.
        start: the first restored offset; ``None`` before the start.
        total: how many records were applied since the start.
        is_complete: whether the store lacks nothing; a standby is never complete.
        kept: fetched records that are behind the end for now.
    """

    store: str
    is_source: bool
    end: int | None = None
    start: int | None = None
    total: int = 0
    is_complete: bool = False
    kept: list[LogEntry] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """Whether the restoration has begun, and has not ended."""
        return self.start is not None and not self.is_complete


class Updating:
    """A task that a state updater has.

    Args:
        task: the task, with open stores.
        is_active: whether the task is handed back when it is complete; a standby stays.
        measure: follows the restorations of an active task for its metrics.

    Attributes:
        changelogs: its restorations, by partition.
        is_paused: whether the task waits until it is resumed.
        has_news: whether records were applied since its last commit.
    """

    def __init__(self, task: StreamTask, *, is_active: bool, measure: StateRestoreListener) -> None:
        self.task = task
        self.is_active = is_active
        self.measure = measure
        self.changelogs = {
            each.changelog: ChangelogRestoration(name, each.changelog in task.spec.inputs)
            for name, each in task.stores.items()
        }
        self.is_paused = False
        self.has_news = False


class Announcer:
    """Reports the progress of restorations to the trace, the metrics and the listeners.

    Args:
        trace: the trace of the world.
        actor: the name of the updater.
        metrics: the metrics of the updater.
        listener: follows active tasks.
        standby_listener: follows standbys.
        counts_records: whether the remaining work counts records instead of offsets, a mistake.

    Attributes:
        raised: the first error of a listener. The announcer goes on after an error, so that each
            start gets its end. The updater decides how to handle the error.
    """

    def __init__(
        self,
        trace: Trace,
        actor: str,
        metrics: UpdaterMetrics,
        listener: StateRestoreListener,
        standby_listener: StandbyUpdateListener,
        *,
        counts_records: bool = False,
    ) -> None:
        self._counts_records = counts_records
        self._trace = trace
        self._actor = actor
        self._metrics = metrics
        self._listener = listener
        self._standby_listener = standby_listener
        self.raised: Exception | None = None

    def started(self, updating: Updating, partition: str) -> None:
        """Report that a restoration begins, even an empty one, or that the updates of a standby do.

        Call this once the restoration has a start, and that of an active task an end.
        """
        each = updating.changelogs[partition]
        start, end = each.start or 0, each.end or 0
        where = topic_partition(partition), each.store
        if updating.is_active:
            self._emit("restore.start", updating, partition, start=start, end=end)
            updating.measure.on_restore_start(*where, start, end)
            self._tell(self._listener.on_restore_start, *where, start, end)
        else:
            self._emit("update.start", updating, partition, start=start)
            self._tell(self._standby_listener.on_update_start, *where, start)

    def applied(
        self, updating: Updating, partition: str, offset: int, count: int, log_end: int | None
    ) -> None:
        """Report that a batch was applied.

        Args:
            updating: the task.
            partition: the changelog.
            offset: the offset of the last record in the batch.
            count: the number of records in the batch, at least 1.
            log_end: the end of the changelog; ``None`` if it is not known.
        """
        each = updating.changelogs[partition]
        where = topic_partition(partition), each.store
        if updating.is_active:
            remaining = remaining_after(each.end or 0, offset, each.start or 0)
            if self._counts_records:
                remaining = (each.end or 0) - (each.start or 0) - each.total
            self._emit("restore.batch", updating, partition, offset, count, remaining=remaining)
            updating.measure.on_batch_restored(*where, offset, count)
            self._tell(self._listener.on_batch_restored, *where, offset, count)
        else:
            task_id = updating.task.id
            self._emit("update.batch", updating, partition, offset, count, is_input=each.is_source)
            self._metrics.updated(task_id, count)
            loaded = self._standby_listener.on_batch_loaded
            self._tell(loaded, *where, task_id, offset, count, log_end)

    def ended(self, updating: Updating, partition: str) -> None:
        """Report that a restoration is complete."""
        each = updating.changelogs[partition]
        where = topic_partition(partition), each.store
        self._emit("restore.end", updating, partition, total=each.total)
        updating.measure.on_restore_end(*where, each.total)
        self._tell(self._listener.on_restore_end, *where, each.total)

    def suspended(
        self, updating: Updating, partition: str, log_end: int | None, reason: SuspendReason
    ) -> None:
        """Report that a restoration ends early, or that the updates of a standby end."""
        each = updating.changelogs[partition]
        where = topic_partition(partition), each.store
        if updating.is_active:
            self._emit("restore.suspended", updating, partition, total=each.total)
            updating.measure.on_restore_suspended(*where, each.total)
            self._tell(self._listener.on_restore_suspended, *where, each.total)
        else:
            offset = updating.task.next_restored(partition) - 1
            end = -1 if log_end is None else log_end
            self._emit("update.suspended", updating, partition, offset, reason=reason)
            self._tell(self._standby_listener.on_update_suspended, *where, offset, end, reason)

    def _tell(self, method: Callable[..., None], *details: object) -> None:
        try:
            method(*details)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the listener's
            self.raised = self.raised or error

    def _emit(
        self,
        kind: str,
        updating: Updating,
        partition: str,
        offset: int = -1,
        records: int = 0,
        **more: Any,
    ) -> None:
        self._trace.emit(
            kind,
            self._actor,
            task=updating.task.id,
            partition=partition,
            offset=offset,
            records=records,
            **more,
        )
