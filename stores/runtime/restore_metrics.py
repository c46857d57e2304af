"""The metrics of restorations: of the thread that restores, and of each task.

Source: KIP-869, "Restoration metrics"; Kafka, StateUpdaterMetrics and TaskMetrics.
"""

from __future__ import annotations

from typing import Literal

from streamproof.stores.api import TopicPartition
from streamproof.stores.metrics import MetricDefinition, Metrics, Scope, Sensor
from streamproof.stores.runtime.metered import TASK_GROUP
from streamproof.stores.runtime.restoration import StateRestoreListener

__all__ = [
    "ACTIVE_TASK_METRICS",
    "REMAINING_RECORDS",
    "RESTORE_CALLS",
    "RESTORE_RECORDS",
    "STANDBY_PROCESS_RATIO",
    "STANDBY_TASK_METRICS",
    "THREAD_GAUGES",
    "UPDATER_GROUP",
    "Part",
    "StateUpdaterMetrics",
    "TaskRestoreMetrics",
    "TaskUpdateMetrics",
]

UPDATER_GROUP = "stream-state-updater-metrics"
"""The group of metrics of a state updater; tag ``thread-id``."""

Part = Literal["idle", "restoring", "updating", "checkpointing"]
"""What a state updater spends its time on: waiting, restoring active tasks, updating standbys, or
committing restored records to the stores."""

_OTHER_WORK: dict[Part, Part] = {"restoring": "updating", "updating": "restoring"}


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
    "The number of records, or of offsets, that remain to be restored, for an active task.",
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

STANDBY_PROCESS_RATIO = MetricDefinition(
    "standby-process-ratio",
    TASK_GROUP,
    "DEBUG",
    "gauge",
    "Deprecated: the fraction of time a stream thread spent on processing this standby task.",
)
"""Always 0, because stream threads do not process standbys any more. Kafka 4.0 removed it."""


class StateUpdaterMetrics:
    """The metrics of one state updater: its tasks, and how it spends its time.

    The updater calls ``turn`` whenever it turns to another part of its work. The ratios are those
    of the last windows of time. An updater restores active tasks or updates standbys, and never
    does both at a time. So only one of these two ratios is not zero: a change from one to the other
    forgets the time of the other. Kafka since 4.3 keeps that time, so that for a while neither
    ratio is zero.

    Args:
        metrics: where the metrics are registered.
        thread_id: the tag ``thread-id``: the name of the updater's thread.
        keeps_window: whether a change keeps the time of the other work, as Kafka does.

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
        self._keeps_window = keeps_window
        # A new updater waits until it gets a task.
        self._part: Part = "idle"
        self._since = metrics.clock()
        self._spent: dict[Part, Sensor] = {
            part: metrics.unnamed_sensor()
            for part in ("idle", "restoring", "updating", "checkpointing")
        }
        self._register(thread_id)

    def _register(self, thread_id: str) -> None:
        tags = {"thread-id": thread_id}
        values = {
            "active-restoring-tasks": lambda: self.active_restoring_tasks,
            "standby-updating-tasks": lambda: self.standby_updating_tasks,
            "active-paused-tasks": lambda: self.active_paused_tasks,
            "standby-paused-tasks": lambda: self.standby_paused_tasks,
            "idle-ratio": lambda: self._ratio("idle"),
            "active-restore-ratio": lambda: self._ratio("restoring"),
            "standby-update-ratio": lambda: self._ratio("updating"),
            "checkpoint-ratio": lambda: self._ratio("checkpointing"),
        }
        for name, value in values.items():
            self._metrics.gauge(self._scope, THREAD_GAUGES[name], tags, value)
        definitions = (RESTORE_RECORDS, RESTORE_CALLS)
        self._records = self._metrics.sensor(self._scope, definitions, tags)

    def turn(self, part: Part) -> None:
        """Record that the updater now turns to another part of its work, or to the same again.

        The time since the last call, or since the beginning, belongs to the part that ends.
        """
        now = self._metrics.clock()
        self._spent[self._part].record(now - self._since)
        self._part, self._since = part, now
        other = _OTHER_WORK.get(part)
        if other is not None and not self._keeps_window:
            self._spent[other] = self._metrics.unnamed_sensor()

    def record_restore_call(self, num_records: int) -> None:
        """Record one call that restored or updated this many records, of any task."""
        self._records.record(num_records)

    def close(self) -> None:
        """Remove the metrics."""
        self._metrics.remove(self._scope)

    def _ratio(self, part: Part) -> float:
        """The share of a part in the time spent; 0 before any time has passed."""
        spent = {each: sensor.recent_total() for each, sensor in self._spent.items()}
        spent[self._part] += self._metrics.clock() - self._since
        total = sum(spent.values())
        return spent[part] / total if total else 0.0


class TaskRestoreMetrics(StateRestoreListener):
    """The metrics of an active task's restorations, which it follows as a listener.

    The proposal counts the remaining work in records: a restored record reduces the offsets between
    start and end by 1, and nothing remains once the restoration has ended. Compacted records and
    transaction markers are passed without being restored, so this count is too large until then.
    Kafka counts in offsets, which come to exactly 0 (KAFKA-20711).

    Args:
        metrics: where the metrics are registered.
        thread_id: the tag ``thread-id``.
        task_id: the tag ``task-id``.
        counts_offsets: whether the remaining work is counted in offsets, as Kafka does.

    Source: KIP-869; Kafka, TaskMetrics.
    """

    def __init__(
        self, metrics: Metrics, thread_id: str, task_id: str, *, counts_offsets: bool = True
    ) -> None:
        tags = {"thread-id": thread_id, "task-id": task_id}
        self._metrics = metrics
        self._scope: Scope = (thread_id, task_id, "restore")
        self._counts_offsets = counts_offsets
        # By changelog, what remains and the end.
        self._remaining: dict[TopicPartition, tuple[int, int]] = {}
        self._records = metrics.sensor(self._scope, ACTIVE_TASK_METRICS, tags)
        metrics.gauge(self._scope, REMAINING_RECORDS, tags, lambda: self.remaining)

    @property
    def remaining(self) -> int:
        """How many records or offsets of all changelog partitions remain to be restored."""
        return sum(max(left, 0) for left, _ in list(self._remaining.values()))

    def on_restore_start(
        self, partition: TopicPartition, store_name: str, starting_offset: int, ending_offset: int
    ) -> None:
        self._remaining[partition] = ending_offset - starting_offset, ending_offset

    def on_batch_restored(
        self, partition: TopicPartition, store_name: str, batch_end_offset: int, num_restored: int
    ) -> None:
        left, end = self._remaining[partition]
        left = end - batch_end_offset - 1 if self._counts_offsets else left - num_restored
        self._remaining[partition] = left, end
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
        with_deprecated: whether the deprecated ``standby-process-ratio`` is there, too.

    Source: KIP-869; Kafka, TaskMetrics.
    """

    def __init__(
        self, metrics: Metrics, thread_id: str, task_id: str, *, with_deprecated: bool = False
    ) -> None:
        tags = {"thread-id": thread_id, "task-id": task_id}
        self._metrics = metrics
        self._scope: Scope = (thread_id, task_id, "update")
        self._records = metrics.sensor(self._scope, STANDBY_TASK_METRICS, tags)
        if with_deprecated:
            metrics.gauge(self._scope, STANDBY_PROCESS_RATIO, tags, lambda: 0.0)

    def record(self, num_records: int) -> None:
        """Record that this many records were updated."""
        self._records.record(num_records)

    def close(self) -> None:
        """Remove the metrics, when the task leaves its thread."""
        self._metrics.remove(self._scope)
