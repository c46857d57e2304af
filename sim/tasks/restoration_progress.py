"""What a state updater knows of the tasks that it has, and whom it tells how they get on.

Each start is followed by exactly one end or one suspension, whatever happens in between, unless the
process dies.

Sources: KIP-869, StateRestoreListener; KIP-988, StandbyUpdateListener; Kafka, StoreChangelogReader.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.decisions.restore_range import remaining_after
from streamproof.sim.tasks.stream_task import StreamTask, topic_partition
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
        store: that it is for.
        is_source: whether the changelog is an input of the task, too.
        end: the first offset that is not restored; ``None`` until it is known, and for standbys,
            unless the changelog is an input: then it is the committed offset, and moves.
        start: where it began; ``None`` before that.
        total: records that were applied since the start.
        is_complete: whether nothing is lacking; a standby never is.
        kept: what was fetched and is still behind the end.
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
        """Whether it has begun, and has not ended."""
        return self.start is not None and not self.is_complete


class Updating:
    """A task that a state updater has.

    Args:
        task: whose stores are open.
        is_active: whether it is to be handed back; a standby stays.
        measure: follows the restorations of an active task for its metrics.

    Attributes:
        changelogs: its restorations, by partition.
        is_paused: whether it waits until it is resumed.
        has_news: whether something was applied since its last commit.
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
    """Tells the trace, the metrics and the listeners how restorations get on.

    Args:
        trace: of the world.
        actor: the updater.
        metrics: of the updater.
        listener: is told of active tasks.
        standby_listener: is told of standbys.
        counts_records: whether what remains counts records, not offsets, and so too many.

    Attributes:
        raised: the first error of a listener. All are told all the same, so that what was started
            comes to its end; what becomes of the error is the updater's affair.
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
        """A restoration begins, even if there is nothing to restore; or the updates of a standby.

        The restoration has a start, and that of an active task an end.
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
        """A batch was applied.

        Args:
            updating: the task.
            partition: the changelog.
            offset: of the last record of the batch.
            count: its records, at least 1.
            log_end: the end of the changelog, as far as it is known.
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
        """A restoration lacks nothing."""
        each = updating.changelogs[partition]
        where = topic_partition(partition), each.store
        self._emit("restore.end", updating, partition, total=each.total)
        updating.measure.on_restore_end(*where, each.total)
        self._tell(self._listener.on_restore_end, *where, each.total)

    def suspended(
        self, updating: Updating, partition: str, log_end: int | None, reason: SuspendReason
    ) -> None:
        """A restoration that has begun ends early, or the updates of a standby end."""
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
