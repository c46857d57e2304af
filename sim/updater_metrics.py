"""The metrics of a state updater and its tasks: KIP-869's, on the clock of the simulated host.

``streamproof.stores.runtime.restore_metrics`` defines the names and the formulas once, so that a
real runtime and a simulated one measure alike. This module connects them with the state updater of
a simulated thread.

Source: KIP-869, "Restoration metrics"; Kafka, StateUpdaterMetrics and TaskMetrics.
"""

from __future__ import annotations

from streamproof.sim.decisions.idling import Mode
from streamproof.stores.metrics import MetricRow, Metrics
from streamproof.stores.runtime.restoration import StateRestoreListener
from streamproof.stores.runtime.restore_metrics import (
    UPDATER_GROUP,
    StateUpdaterMetrics,
    TaskRestoreMetrics,
    TaskUpdateMetrics,
)

__all__ = ["RATIOS", "UpdaterMetrics"]

RATIOS = ("idle-ratio", "active-restore-ratio", "standby-update-ratio", "checkpoint-ratio")
"""The shares of a state updater's time. They sum to 1 once it has spent any time."""


class UpdaterMetrics:
    """The metrics of one state updater and of its tasks.

    Args:
        thread_id: the tag ``thread-id``: the name of the updater.
        registry: where the metrics are registered.
        mode: the rules of the proposal, or those that Kafka ships. They differ in three points.
            Under ``proposal``, one of the ratios of restoring and updating is always 0, the
            remaining work is counted in records, and a standby has ``standby-process-ratio``.
            ``kafka`` keeps the old window of the ratios at a switch between restoring and updating,
            counts offsets, and has removed the deprecated ratio.
        predecessor: the metrics of an updater of the same thread that died. The metrics of its
            tasks are taken over, because these tasks have not left their thread.

    Attributes:
        thread: the metrics of the updater.
    """

    def __init__(
        self,
        thread_id: str,
        registry: Metrics,
        mode: Mode = "proposal",
        *,
        predecessor: UpdaterMetrics | None = None,
    ) -> None:
        self._thread_id = thread_id
        self._registry = registry
        self._as_shipped = mode == "kafka"
        self.thread = StateUpdaterMetrics(registry, thread_id, keeps_window=self._as_shipped)
        self._active: dict[str, TaskRestoreMetrics] = {}
        self._standby: dict[str, TaskUpdateMetrics] = {}
        if predecessor is not None:
            predecessor.hand_over(self._active, self._standby)

    def add(self, task_id: str, *, is_active: bool) -> StateRestoreListener:
        """Begin to measure a task; return the listener that must hear of its restoration."""
        self.remove(task_id)
        if not is_active:
            self._standby[task_id] = TaskUpdateMetrics(
                self._registry, self._thread_id, task_id, with_deprecated=not self._as_shipped
            )
            return StateRestoreListener()
        found = self._active[task_id] = TaskRestoreMetrics(
            self._registry, self._thread_id, task_id, counts_offsets=self._as_shipped
        )
        return found

    def remove(self, task_id: str) -> None:
        """Remove the metrics of a task. Call this when the task leaves its thread."""
        for found in (self._active.pop(task_id, None), self._standby.pop(task_id, None)):
            if found is not None:
                found.close()

    def updated(self, task_id: str, count: int) -> None:
        """Record that a standby got this many records."""
        self._standby[task_id].record(count)

    @property
    def remaining(self) -> dict[str, int]:
        """The number of records or offsets that each active task still has to restore."""
        return {name: each.remaining for name, each in sorted(self._active.items())}

    def rows(self) -> list[MetricRow]:
        """The current values of the metrics of the updater and its tasks."""
        return [
            each for each in self._registry.rows() if each.tags.get("thread-id") == self._thread_id
        ]

    def gauges(self) -> dict[str, float]:
        """The current metrics of the updater, by Kafka's names."""
        return {row.name: row.value for row in self.rows() if row.group == UPDATER_GROUP}

    def hand_over(
        self, active: dict[str, TaskRestoreMetrics], standby: dict[str, TaskUpdateMetrics]
    ) -> None:
        """Hand the metrics of the tasks to a successor."""
        active |= self._active
        standby |= self._standby
        self._active.clear()
        self._standby.clear()

    def retire(self) -> None:
        """Remove the metrics of the updater. The metrics of its tasks stay for its successor."""
        self.thread.close()

    def close(self) -> None:
        """Remove all metrics."""
        for name in [*self._active, *self._standby]:
            self.remove(name)
        self.thread.close()
