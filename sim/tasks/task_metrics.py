"""The metrics of a task that processes: how late its records are, and how it waits for them.

Sources: KIP-353, KIP-695; Kafka, TaskMetrics.
"""

from __future__ import annotations

from collections.abc import Callable

from streamproof.stores.metrics import MetricDefinition, Metrics, Scope
from streamproof.stores.runtime.metered import TASK_GROUP

__all__ = ["BUFFER_COUNT", "ENFORCED_PROCESSING", "RECORD_LATENESS", "TaskMetrics"]

ENFORCED_PROCESSING = (
    MetricDefinition(
        "enforced-processing-rate",
        TASK_GROUP,
        "DEBUG",
        "rate",
        "The average number of times per second that a task went on without an empty input.",
    ),
    MetricDefinition(
        "enforced-processing-total",
        TASK_GROUP,
        "DEBUG",
        "total",
        "How often a task went on without an empty input.",
    ),
)

RECORD_LATENESS = (
    MetricDefinition(
        "record-lateness-avg",
        TASK_GROUP,
        "DEBUG",
        "avg",
        "By how many milliseconds of stream time records were late, on average.",
    ),
    MetricDefinition(
        "record-lateness-max",
        TASK_GROUP,
        "DEBUG",
        "max",
        "By how many milliseconds of stream time a record was late at most.",
    ),
)

BUFFER_COUNT = MetricDefinition(
    "active-buffer-count",
    TASK_GROUP,
    "DEBUG",
    "gauge",
    "How many records are buffered, of all inputs of the task.",
)


class TaskMetrics:
    """The metrics of one task.

    Args:
        metrics: where the metrics are registered.
        thread_id: the tag ``thread-id``.
        task_id: the tag ``task-id``.
        buffered: returns the number of buffered records.

    Attributes:
        enforced: records each time that the task goes on without an empty input.
        lateness: records how far each record is behind stream time, in milliseconds.
    """

    def __init__(
        self, metrics: Metrics, thread_id: str, task_id: str, buffered: Callable[[], int]
    ) -> None:
        tags = {"thread-id": thread_id, "task-id": task_id}
        scope: Scope = (thread_id, task_id, "process")
        self._metrics, self._scope = metrics, scope
        self.enforced = metrics.sensor(scope, ENFORCED_PROCESSING, tags)
        self.lateness = metrics.sensor(scope, RECORD_LATENESS, tags)
        metrics.gauge(scope, BUFFER_COUNT, tags, buffered)

    def close(self) -> None:
        """Remove the metrics."""
        self._metrics.remove(self._scope)
