"""The metrics of a state updater and its tasks: KIP-869's, on the clock of the simulated host.

What they are called, and how they follow from recordings, is said once, by
``streamproof.stores.runtime.restore_metrics``: a real runtime and a simulated one are measured
alike. Here is what a state updater of a simulated thread feeds, and what it can be asked.

Source: KIP-869, "Restoration metrics"; Kafka, StateUpdaterMetrics and TaskMetrics.
"""

from __future__ import annotations

from streamproof.sim.decisions.idling import Mode
from streamproof.stores.metrics import Clock, MetricRow, Metrics
from streamproof.stores.runtime.restoration import StateRestoreListener
from streamproof.stores.runtime.restore_metrics import (
    THREAD_GAUGES,
    UPDATER_GROUP,
    StateUpdaterMetrics,
    TaskRestoreMetrics,
    TaskUpdateMetrics,
)

__all__ = ["RATIOS", "UpdaterMetrics"]

RATIOS = ("idle-ratio", "active-restore-ratio", "standby-update-ratio", "checkpoint-ratio")
"""What a state updater spends its time on: they sum to 1 once it has spent any."""


class UpdaterMetrics:
    """The metrics of one state updater and of the tasks that it is given.

    Args:
        thread_id: the tag ``thread-id``: the name of the updater.
        clock: of the host, in milliseconds.
        mode: as the proposal says, one of the two ratios of restoring and updating is always zero;
            Kafka keeps the old window when it goes over from one to the other, so that for a while
            neither is.

    Attributes:
        registry: all metrics, from level DEBUG on.
        thread: those of the updater.
    """

    def __init__(self, thread_id: str, clock: Clock, mode: Mode = "proposal") -> None:
        self._thread_id = thread_id
        self.registry = Metrics("DEBUG", clock)
        self.thread = StateUpdaterMetrics(self.registry, thread_id, keeps_window=mode == "kafka")
        self._active: dict[str, TaskRestoreMetrics] = {}
        self._standby: dict[str, TaskUpdateMetrics] = {}

    def add(self, task_id: str, *, is_active: bool) -> StateRestoreListener:
        """Begin to measure a task; what is returned is to be told how its restoration goes."""
        self.remove(task_id)
        if not is_active:
            self._standby[task_id] = TaskUpdateMetrics(self.registry, self._thread_id, task_id)
            return StateRestoreListener()
        found = self._active[task_id] = TaskRestoreMetrics(self.registry, self._thread_id, task_id)
        return found

    def remove(self, task_id: str) -> None:
        """Forget a task: its metrics stay until it leaves its thread, restored or not."""
        for found in (self._active.pop(task_id, None), self._standby.pop(task_id, None)):
            if found is not None:
                found.close()

    def updated(self, task_id: str, count: int) -> None:
        """A standby was given this many records."""
        self._standby[task_id].record(count)

    @property
    def remaining(self) -> dict[str, int]:
        """How many offsets the active tasks lack still, by task."""
        return {name: each.remaining for name, each in sorted(self._active.items())}

    def rows(self) -> list[MetricRow]:
        """All metrics as of now."""
        return self.registry.rows()

    def gauges(self) -> dict[str, float]:
        """The counts and ratios of the updater as of now, by Kafka's names."""
        return {
            row.name: row.value
            for row in self.rows()
            if row.group == UPDATER_GROUP and row.name in THREAD_GAUGES
        }

    def close(self) -> None:
        """Remove all metrics."""
        for name in [*self._active, *self._standby]:
            self.remove(name)
        self.thread.close()
