"""The metrics of running worlds: mistakes in their wiring are found from the trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from found_worlds import seek

from streamproof.sim import metrics_reading
from streamproof.sim.choices import Choices
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.invariants.measurements import TasksAreCounted
from streamproof.sim.invariants.samples import Samples
from streamproof.sim.plan_space import PlanSpace, draw
from streamproof.sim.simulation import run
from streamproof.sim.tasks import stream_task
from streamproof.sim.tasks.state_updater import StateUpdater
from streamproof.sim.tasks.task_metrics import TaskMetrics
from streamproof.sim.trace import Event
from streamproof.sim.updater_metrics import UpdaterMetrics
from streamproof.stores.metrics import Metrics, Sensor
from streamproof.stores.runtime.metered import MeteredStore
from streamproof.stores.runtime.restore_metrics import (
    StateUpdaterMetrics,
    TaskRestoreMetrics,
    TaskUpdateMetrics,
)

WORLDS = 120
"""As many as the profile ``quick`` runs."""

SELDOM = {"METRIC-101": 240}
"""By requirement, how many worlds it takes until one shows a mistake that few of them show."""

Right = Callable[..., Any]


def nothing(_: Right) -> Right:
    """The call has no effect."""
    return lambda *_args, **_more: None


def twice(right: Right) -> Right:
    """The call is made two times."""

    def wrong(*args: Any) -> None:
        right(*args)
        right(*args)

    return wrong


def swapped(one: str, other: str) -> Callable[[Right], Right]:
    """One part of the work is taken for another."""
    exchange = {one: other, other: one}
    return lambda right: lambda self, part: right(self, exchange.get(part, part))


def without_records(right: Right) -> Right:
    """Calls count, and their records do not."""
    return lambda self, _records: right(self, 0)


def doubled(right: Right) -> Right:
    """Each record counts twice."""
    return lambda self, task, count: right(self, task, 2 * count)


def removing_what_is_restored(right: Right) -> Right:
    """The metrics of a task end with its restoration."""

    def wrong(self: StateUpdater) -> None:
        before = len(self.restored)
        right(self)
        for task in self.restored[before:]:
            self.metrics.remove(task.id)

    return wrong


def with_the_name_of_the_thread(right: Right) -> Right:
    """The metrics of the updater have the thread-id of the stream thread."""

    def wrong(self: UpdaterMetrics, thread_id: str, *args: Any, **more: Any) -> None:
        right(self, thread_id.replace("updater", "thread"), *args, **more)

    return wrong


def with_the_other_mode(right: Right) -> Right:
    """What remains is counted by the rules of the other mode."""

    def wrong(self: TaskRestoreMetrics, *args: Any, counts_offsets: bool) -> None:
        right(self, *args, counts_offsets=not counts_offsets)

    return wrong


def flushing_first(right: Right) -> Right:
    """A commit begins with a flush."""

    def wrong(self: MeteredStore, offsets: Any) -> None:
        self.flush()
        right(self, offsets)

    return wrong


def unmeasured(_: Right) -> Right:
    """Tasks open their stores without a layer that measures."""
    return lambda store, *_args, **_more: store


def without_latencies(right: Right) -> Right:
    """Latencies are registered, and nothing is recorded."""
    return lambda row: None if "latency" in row.name else right(row)


def with_all_samples(_: Right) -> Right:
    """Old windows are never forgotten."""
    return lambda self, _now: list(self._samples)


def keeping_both(right: Right) -> Right:
    """A ratio keeps its samples when the updater goes over to other work, as Kafka shipped it."""

    def wrong(self: StateUpdaterMetrics, *args: Any, **_: Any) -> None:
        right(self, *args, keeps_window=True)

    return wrong


def both(right: Right) -> Right:
    """A standby counts as paused as well."""

    def wrong(self: StateUpdater, updating: Any, change: int) -> None:
        right(self, updating, change)
        self.metrics.thread.standby_paused_tasks += 0 if updating.is_active else change

    return wrong


THREAD, TASK, STANDBY = StateUpdaterMetrics, TaskRestoreMetrics, TaskUpdateMetrics

MISTAKES: list[tuple[str, Any, str, Callable[[Right], Right]]] = [
    ("METRIC-114", THREAD, "_ratio", swapped("idle", "checkpointing")),
    ("METRIC-114", THREAD, "_ratio", swapped("restoring", "updating")),
    ("METRIC-114", THREAD, "_ratio", swapped("idle", "restoring")),
    ("METRIC-114", THREAD, "turn", nothing),
    ("METRIC-114", StateUpdater, "_turn", swapped("idle", "checkpointing")),
    ("METRIC-114", StateUpdater, "_turn", swapped("restoring", "updating")),
    ("METRIC-105", THREAD, "__init__", keeping_both),
    ("METRIC-109", THREAD, "record_restore_call", nothing),
    ("METRIC-109", THREAD, "record_restore_call", twice),
    ("METRIC-109", THREAD, "record_restore_call", without_records),
    ("METRIC-107", TASK, "on_batch_restored", nothing),
    ("METRIC-107", TASK, "on_batch_restored", twice),
    ("METRIC-107", TASK, "close", nothing),
    ("METRIC-107", StateUpdater, "_hand_back", removing_what_is_restored),
    ("METRIC-108", UpdaterMetrics, "updated", nothing),
    ("METRIC-108", UpdaterMetrics, "updated", doubled),
    ("METRIC-108", STANDBY, "close", nothing),
    ("METRIC-101", TASK, "__init__", with_the_other_mode),
    ("METRIC-116", UpdaterMetrics, "__init__", with_the_name_of_the_thread),
    ("METRIC-118", stream_task, "metered", unmeasured),
    ("METRIC-118", MeteredStore, "commit", flushing_first),
    ("METRIC-118", metrics_reading, "_value", without_latencies),
    ("METRIC-112", StateUpdater, "_count", nothing),
    ("METRIC-112", StateUpdater, "_count", both),
    ("METRIC-110", TaskMetrics, "close", nothing),
]


@pytest.mark.parametrize(
    ("requirement", "owner", "name", "mistake"),
    MISTAKES,
    ids=[f"{each[0]}-{each[2]}-{number}" for number, each in enumerate(MISTAKES)],
)
def test_a_mistake_is_found_in_a_world(
    requirement: str,
    owner: Any,
    name: str,
    mistake: Callable[[Right], Right],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owner, name, mistake(getattr(owner, name)))

    def attempt(seed: int) -> set[str] | None:
        return {each.requirement for each in run(Choices.seeded(seed)).violations} or None

    world = f"measurements {requirement} {owner.__name__}.{name} {mistake.__name__}"
    assert requirement in seek(world, attempt, most=SELDOM.get(requirement, WORLDS))


def test_a_rate_that_never_drops_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each requirement of a rate or a ratio may find it first."""
    monkeypatch.setattr(Sensor, "_live", with_all_samples(Sensor._live))
    wanted = {"METRIC-107", "METRIC-108", "METRIC-109", "METRIC-114"}

    def attempt(seed: int) -> set[str] | None:
        found = {each.requirement for each in run(Choices.seeded(seed)).violations}
        return found & wanted or None

    seek("a rate that never drops", attempt)


def test_samples_agree_with_the_registry() -> None:
    """Two computations of the same formulas, for a few recordings."""
    now = 0
    sensor, samples = Metrics(clock=lambda: now).unnamed_sensor(), Samples()
    for pause, value in ((0, 5), (10_000, 0), (25_000, 7), (31_000, 1), (70_000, 3), (40_000, 2)):
        now += pause
        sensor.record(value)
        samples.record(now, value)
        now += 500
        assert samples.rate(now) == pytest.approx(sensor.measure("rate"))
        assert samples.calls(now) == pytest.approx(sensor.measure("call-rate"))
        assert samples.recent_total(now) == sensor.recent_total()
        assert samples.total == sensor.measure("total")


def test_a_thread_that_dies_while_it_opens_stores_measures_none() -> None:
    """The disk is full, so the task never has a state that could change."""
    choices = Choices.seeded(506)
    plan = draw(choices, PlanSpace(plan={"query_clients": [2]}))
    assert run(choices, plan).violations == []


def test_a_task_keeps_its_role_until_it_is_opened_again() -> None:
    """An assignment that makes a standby active may wait for a commit whose reply was lost."""
    counted = TasksAreCounted(LogHistory(exactly_once=True))
    gauges = dict.fromkeys(
        ("active-restoring-tasks", "active-paused-tasks", "standby-paused-tasks"), 0.0
    )

    def told(kind: str, actor: str = "one/thread-0", task: str = "", **more: Any) -> list[str]:
        event = Event(0, 0, actor, kind, task, "", -1, more)
        return list(counted.observers[kind](event))

    def measured(standbys: float) -> list[str]:
        found = {**gauges, "standby-updating-tasks": standbys}
        return told("updater.metrics", "one/updater-0", gauges=found)

    assert told("thread.assigned", active=[], standby=["0_0"]) == []
    assert told("task.state", task="0_0", before="CREATED", after="RESTORING") == []
    assert told("thread.assigned", active=["0_0"], standby=[]) == []
    assert measured(1.0) == []
    assert measured(0.0)

    assert told("task.state", task="0_0", before="RESTORING", after="SUSPENDED") == []
    assert told("task.state", task="0_0", before="CREATED", after="RESTORING") == []
    assert measured(1.0)
