"""Reads the metrics of a stream thread as a user does, and puts them into the trace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from math import isnan

from streamproof.sim.trace import Trace
from streamproof.stores.metrics import MetricRow, Metrics
from streamproof.stores.runtime.metered import STORE_GROUP, TASK_GROUP
from streamproof.stores.runtime.restore_metrics import REMAINING_RECORDS, UPDATER_GROUP

__all__ = ["emit_metrics"]

_STATE_ID = "-state-id"

Values = dict[str, float | None]
"""By the name of a metric, its value; ``None`` if nothing was recorded."""


def emit_metrics(trace: Trace, metrics: Metrics, thread: str, updater: str) -> None:
    """Emit the current values of all metrics of a thread and of its state updater.

    Args:
        trace: takes the events.
        metrics: where the metrics of both are registered.
        thread: the tag ``thread-id`` of the stream thread.
        updater: the tag ``thread-id`` of its state updater.
    """
    rows = metrics.rows()
    of_updater = [each for each in rows if each.tags.get("thread-id") == updater]
    tasks = _by_task(each for each in of_updater if each.group == TASK_GROUP)
    remaining = REMAINING_RECORDS.name
    trace.emit(
        "updater.metrics",
        updater,
        gauges={each.name: each.value for each in of_updater if each.group == UPDATER_GROUP},
        tasks=tasks,
        remaining={
            task: int(found[remaining] or 0) for task, found in tasks.items() if remaining in found
        },
    )
    of_thread = [each for each in rows if each.tags.get("thread-id") == thread]
    stores: defaultdict[str, dict[str, Values]] = defaultdict(dict)
    for each in of_thread:
        if each.group == STORE_GROUP:
            (store,) = (value for tag, value in each.tags.items() if tag.endswith(_STATE_ID))
            stores[each.tags["task-id"]].setdefault(store, {})[each.name] = _value(each)
    tasks_that_run = _by_task(each for each in of_thread if each.group == TASK_GROUP)
    trace.emit("thread.metrics", thread, stores=dict(stores), tasks=sorted(tasks_that_run))


def _by_task(rows: Iterable[MetricRow]) -> dict[str, Values]:
    found: defaultdict[str, Values] = defaultdict(dict)
    for each in rows:
        found[each.tags["task-id"]][each.name] = _value(each)
    return dict(found)


def _value(row: MetricRow) -> float | None:
    return None if isnan(row.value) else row.value
