"""The metrics of restorations: of the thread that restores, and of each task.

Source: KIP-869, "Restoration metrics"; Kafka, StateUpdaterMetrics and TaskMetrics.
"""

from __future__ import annotations

from streamproof.stores.api import TopicPartition
from streamproof.stores.metrics import MetricDefinition, Metrics, Scope, Sensor
from streamproof.stores.runtime.metered import TASK_GROUP
from streamproof.stores.runtime.restoration import StateRestoreListener

__all__ = [
    "ACTIVE_TASK_METRICS",
    "REMAINING_RECORDS",
    "RESTORE_CALLS",
    "RESTORE_RECORDS",
    "STANDBY_TASK_METRICS",
    "THREAD_GAUGES",
    "UPDATER_GROUP",
    "StateUpdaterMetrics",
    "TaskRestoreMetrics",
    "TaskUpdateMetrics",
]

UPDATER_GROUP = "stream-state-updater-metrics"
"""The group of metrics of a state updater; tag ``thread-id``."""


def _thread_gauge(name: str, description: str) -> MetricDefinition:
    return MetricDefinition(name, UPDATER_GROUP, "INFO", "gauge", description)


THREAD_GAUGES = {
    gauge.name: gauge
    for gauge in (
        _thread_gauge("active-restoring-tasks", "The number of active tasks that are restoring."),
        _thread_gauge("standby-updating-tasks", "The number of standby tasks that are updating."),
        _thread_gauge("active-paused-tasks", "The number of active tasks paused restoring."),
        _thread_gauge("standby-paused-tasks", "The number of standby tasks paused updating."),
        _thread_gauge("idle-ratio", "The fraction of time the thread spent on being idle."),
        _thread_gauge(
            "active-restore-ratio",
            "The fraction of time the thread spent on restoring active tasks.",
        ),
        _thread_gauge(
            "standby-update-ratio",
            "The fraction of time the thread spent on updating standby tasks.",
        ),
        _thread_gauge(
            "checkpoint-ratio",
            "The fraction of time the thread spent on checkpointing restored progress.",
        ),
    )
}
"""The gauges of a state updater by name; its ratios are of the last windows, and sum to 1."""

RESTORE_RECORDS = MetricDefinition(
    "restore-records-rate",
    UPDATER_GROUP,
    "INFO",
    "rate",
    "The average number of records restored or updated per second, of all tasks.",
)
RESTORE_CALLS = MetricDefinition(
    "restore-call-rate",
    UPDATER_GROUP,
    "INFO",
    "call-rate",
    "The average number of restore calls per second.",
)

ACTIVE_TASK_METRICS = (
    MetricDefinition(
        "restore-rate",
        TASK_GROUP,
        "DEBUG",
        "rate",
        "The average number of records restored per second, for an active task.",
    ),
    MetricDefinition(
        "restore-total",
        TASK_GROUP,
        "DEBUG",
        "total",
        "The total number of records restored, for an active task.",
    ),
)
REMAINING_RECORDS = MetricDefinition(
    "restore-remaining-records-total",
    TASK_GROUP,
    "INFO",
    "gauge",
    "The number of offsets that remain to be restored, for an active task.",
)

STANDBY_TASK_METRICS = (
    MetricDefinition(
        "update-rate",
        TASK_GROUP,
        "DEBUG",
        "rate",
        "The average number of records updated per second, for a standby task.",
    ),
    MetricDefinition(
        "update-total",
        TASK_GROUP,
        "DEBUG",
        "total",
        "The total number of records updated, for a standby task.",
    ),
)


class StateUpdaterMetrics:
    """The metrics of one state updater: its tasks, and how it spends its time.

    The updater records each of its rounds with ``record_round``. The ratios are those of the last
    windows of time. An updater restores active tasks or updates standbys, and never does both at a
    time. So only one of these two ratios is not zero: a change from one to the other begins a new
    window. Kafka since 4.3 keeps the old window, so that for a while neither ratio is zero.

    Args:
        metrics: where the metrics are registered.
        thread_id: the tag ``thread-id``: the name of the updater's thread.
        keeps_window: whether a change keeps the old window, as Kafka does.

    Attributes:
        active_restoring_tasks: how many active tasks are restoring.
        standby_updating_tasks: how many standby tasks are updating.
        active_paused_tasks: how many active tasks are paused.
        standby_paused_tasks: how many standby tasks are paused.

    Source: KIP-869; Kafka, DefaultStateUpdater.StateUpdaterMetrics; KAFKA-18369.
    """

    def __init__(self, metrics: Metrics, thread_id: str, *, keeps_window: bool = False) -> None:
        self.active_restoring_tasks = 0
        self.standby_updating_tasks = 0
        self.active_paused_tasks = 0
        self.standby_paused_tasks = 0
        self._metrics = metrics
        self._scope: Scope = (thread_id, "state-updater")
        self._restoring_active = True
        self._keeps_window = keeps_window
        self._new_window()
        self._register(thread_id)

    def _new_window(self) -> None:
        self._idle = self._metrics.unnamed_sensor()
        self._restore = self._metrics.unnamed_sensor()
        self._update = self._metrics.unnamed_sensor()
        self._checkpoint = self._metrics.unnamed_sensor()

    def _register(self, thread_id: str) -> None:
        tags = {"thread-id": thread_id}
        values = {
            "active-restoring-tasks": lambda: self.active_restoring_tasks,
            "standby-updating-tasks": lambda: self.standby_updating_tasks,
            "active-paused-tasks": lambda: self.active_paused_tasks,
            "standby-paused-tasks": lambda: self.standby_paused_tasks,
            "idle-ratio": lambda: self._ratio(self._idle),
            "active-restore-ratio": lambda: self._ratio(self._restore),
            "standby-update-ratio": lambda: self._ratio(self._update),
            "checkpoint-ratio": lambda: self._ratio(self._checkpoint),
        }
        for name, value in values.items():
            self._metrics.gauge(self._scope, THREAD_GAUGES[name], tags, value)
        definitions = (RESTORE_RECORDS, RESTORE_CALLS)
        self._records = self._metrics.sensor(self._scope, definitions, tags)

    def record_round(
        self,
        *,
        idle_ms: float,
        restore_ms: float,
        checkpoint_ms: float,
        restoring_active: bool,
    ) -> None:
        """Record how one round of the updater's loop spent its time.

        Args:
            idle_ms: waiting, in milliseconds.
            restore_ms: restoring or updating, in milliseconds.
            checkpoint_ms: committing restored records to the stores, in milliseconds.
            restoring_active: whether active tasks are restored, rather than standbys updated.
        """
        if restoring_active is not self._restoring_active:
            self._restoring_active = restoring_active
            if not self._keeps_window:
                self._new_window()
        self._idle.record(idle_ms)
        (self._restore if restoring_active else self._update).record(restore_ms)
        self._checkpoint.record(checkpoint_ms)

    def record_restore_call(self, num_records: int) -> None:
        """Record one call that restored or updated this many records, of any task."""
        self._records.record(num_records)

    def close(self) -> None:
        """Remove the metrics."""
        self._metrics.remove(self._scope)

    def _ratio(self, part: Sensor) -> float:
        """The share of the recorded time; 0 before any time was recorded."""
        parts = (self._idle, self._restore, self._update, self._checkpoint)
        total = sum(each.recent_total() for each in parts)
        return part.recent_total() / total if total else 0.0


class TaskRestoreMetrics(StateRestoreListener):
    """The metrics of an active task's restorations, which it follows as a listener.

    The remaining work is counted in offsets, not in records. Compacted records and transaction
    markers are passed without being restored, and only offsets make the count end at exactly 0
    (KAFKA-20711).

    Args:
        metrics: where the metrics are registered.
        thread_id: the tag ``thread-id``.
        task_id: the tag ``task-id``.

    Source: KIP-869; Kafka, TaskMetrics.
    """

    def __init__(self, metrics: Metrics, thread_id: str, task_id: str) -> None:
        tags = {"thread-id": thread_id, "task-id": task_id}
        self._metrics = metrics
        self._scope: Scope = (thread_id, task_id, "restore")
        self._remaining: dict[TopicPartition, tuple[int, int]] = {}
        self._records = metrics.sensor(self._scope, ACTIVE_TASK_METRICS, tags)
        metrics.gauge(self._scope, REMAINING_RECORDS, tags, lambda: self.remaining)

    @property
    def remaining(self) -> int:
        """How many offsets of all changelog partitions remain to be restored."""
        return sum(max(end - position, 0) for position, end in list(self._remaining.values()))

    def on_restore_start(
        self, partition: TopicPartition, store_name: str, starting_offset: int, ending_offset: int
    ) -> None:
        self._remaining[partition] = starting_offset, ending_offset

    def on_batch_restored(
        self, partition: TopicPartition, store_name: str, batch_end_offset: int, num_restored: int
    ) -> None:
        _, end = self._remaining[partition]
        self._remaining[partition] = batch_end_offset + 1, end
        self._records.record(num_restored)

    def on_restore_end(
        self, partition: TopicPartition, store_name: str, total_restored: int
    ) -> None:
        self._remaining.pop(partition, None)

    def on_restore_suspended(
        self, partition: TopicPartition, store_name: str, total_restored: int
    ) -> None:
        self._remaining.pop(partition, None)

    def close(self) -> None:
        """Remove the metrics, when the task leaves its thread."""
        self._metrics.remove(self._scope)


class TaskUpdateMetrics:
    """The metrics of a standby task's updates.

    Args:
        metrics: where the metrics are registered.
        thread_id: the tag ``thread-id``.
        task_id: the tag ``task-id``.

    Source: KIP-869; Kafka, TaskMetrics.
    """

    def __init__(self, metrics: Metrics, thread_id: str, task_id: str) -> None:
        tags = {"thread-id": thread_id, "task-id": task_id}
        self._metrics = metrics
        self._scope: Scope = (thread_id, task_id, "update")
        self._records = metrics.sensor(self._scope, STANDBY_TASK_METRICS, tags)

    def record(self, num_records: int) -> None:
        """Record that this many records were updated."""
        self._records.record(num_records)

    def close(self) -> None:
        """Remove the metrics, when the task leaves its thread."""
        self._metrics.remove(self._scope)
