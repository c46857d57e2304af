"""Runtimes whose state updaters work, or measure their work, wrongly (KIP-869)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from broken_runtimes import Break, Patch, telling, with_attribute

from streamproof.conformance.runtime_checks import application_checks
from streamproof.errors import StreamproofError
from streamproof.sim.actor_hosts import Steps
from streamproof.sim.stream_thread import StreamThread
from streamproof.sim.tasks.restoration_progress import Announcer, Updating
from streamproof.sim.tasks.state_updater import StateUpdater
from streamproof.sim.tasks.stream_task import StreamTask
from streamproof.sim.updater_metrics import UpdaterMetrics
from streamproof.sim.world import World
from streamproof.stores.api import TopicPartition
from streamproof.stores.runtime import restore_metrics
from streamproof.stores.runtime.restore_metrics import (
    STANDBY_PROCESS_RATIO,
    Part,
    StateUpdaterMetrics,
    TaskRestoreMetrics,
    TaskUpdateMetrics,
)

__all__ = ["WRONG_UPDATERS"]

turn = StateUpdater._turn


def without(part: Part) -> Break:
    """An updater does not notice that it turns to a part of its work."""

    def wrong(self: StateUpdater, now: Part) -> None:
        if now != part:
            turn(self, now)

    return with_attribute(StateUpdater, "_turn", wrong)


measure = StateUpdaterMetrics.turn


def paused_as_restoring(patch: Patch) -> None:
    """The time for which all tasks are paused counts as restoring."""

    def wrong(self: StateUpdaterMetrics, part: Part) -> None:
        measure(self, "restoring" if part == "idle" and self.active_paused_tasks else part)

    patch.setattr(StateUpdaterMetrics, "turn", wrong)


def forgetting_standbys(patch: Patch) -> None:
    """A new updater takes over the metrics of active tasks alone."""
    right = UpdaterMetrics.hand_over

    def wrong(
        self: UpdaterMetrics,
        active: dict[str, TaskRestoreMetrics],
        standby: dict[str, TaskUpdateMetrics],
    ) -> None:
        for each in self._standby.values():
            each.close()
        self._standby.clear()
        right(self, active, standby)

    patch.setattr(UpdaterMetrics, "hand_over", wrong)


fail = StateUpdater._fail


def counting_the_failed(self: StateUpdater, updating: Updating, error: StreamproofError) -> None:
    """A task that failed still counts."""
    fail(self, updating, error)
    self._count(updating, 1)


def updating_on(patch: Patch) -> None:
    """A standby whose updates have started is updated on, whatever comes."""
    right = StateUpdater._assign

    def wrong(self: StateUpdater) -> None:
        started = {
            partition
            for updating in self._going
            for partition, each in updating.changelogs.items()
            if not updating.is_active and each.start is not None
        }
        right(self)
        if self._restoring:
            for each in started:
                self._consumer.add([each])
                if self._consumer.position(each) is None:
                    updating = self._owner(each)
                    if updating is not None:
                        self._consumer.seek(each, updating.task.next_restored(each))

    patch.setattr(StateUpdater, "_assign", wrong)


make = StateUpdater.__init__


def telling_of_first_threads(self: StateUpdater, *given: Any, actor: str, **more: Any) -> None:
    """Only the first updater of a process tells the listeners."""
    make(self, *given, actor=actor, **more)
    if not actor.endswith("-0"):
        self._announcer._tell = lambda *_: None  # type: ignore[method-assign]


def silent_after_the_first(self: StateUpdater, world: World, *given: Any, **more: Any) -> None:
    """An updater that takes the place of another, or of a lost process, tells nothing."""
    make(self, world, *given, **more)
    known = vars(world).setdefault("known_updaters", set())
    if more["actor"] in known:
        self._announcer._tell = lambda *_: None  # type: ignore[method-assign]
    known.add(more["actor"])


check_updater = StreamThread._check_updater


def waiting_for_restorations(self: StreamThread) -> Steps:
    """A stream thread does nothing until its state updater has restored all active tasks."""
    while any(each.is_active for each in self._updater._updating.values()):
        yield self._world.time.timeout(50)
    yield from check_updater(self)


def without_deprecation(patch: Patch) -> None:
    """A metric that will be removed does not say so."""
    described = replace(STANDBY_PROCESS_RATIO, description="The share of a standby.")
    for module in (restore_metrics, application_checks):
        patch.setattr(module, "STANDBY_PROCESS_RATIO", described)


def telling_the_end_later(patch: Patch) -> None:
    """A listener hears of the end of a restoration when the task already runs."""
    right = StreamTask.process
    late: dict[str, list[Callable[[], None]]] = {}
    tell = Announcer._tell

    def keep(self: Announcer, method: Callable[..., None], *given: Any) -> None:
        if method.__name__ == "on_restore_end":
            late.setdefault(self._actor, []).append(lambda: tell(self, method, *given))
        else:
            tell(self, method, *given)

    def process(self: StreamTask, now: int) -> bool:
        for told in late.pop(self._actor.replace("/thread-", "/updater-"), []):
            told()
        return right(self, now)

    patch.setattr(Announcer, "_tell", keep)
    patch.setattr(StreamTask, "process", process)


commit_all = StateUpdater._commit


def committing_once(self: StateUpdater) -> Steps:
    """An updater commits what it restores once, and then no more."""
    if not vars(self).get("has_committed"):
        vars(self)["has_committed"] = any(each.has_news for each in self._updating.values())
        yield from commit_all(self)


def from_the_first_offset(
    self: TaskRestoreMetrics, partition: TopicPartition, _store: str, _start: int, end: int
) -> None:
    """What remains begins with the end, wherever a restoration starts."""
    self._remaining[partition] = end, end


def of_one_store(self: TaskRestoreMetrics) -> int:
    """What remains is that of the store which lacks most."""
    return max((left for left, _ in self._remaining.values()), default=0)


pause = StateUpdater.pause


def unregistering_the_paused(self: StateUpdater, task_id: str) -> None:
    """The metrics of a task end when it is paused."""
    pause(self, task_id)
    self.metrics.remove(task_id)


SHARES = "state_updater.time_is_measured_from_outside"
CALLS = "restore_listener.calls_are_those_of_the_stores"

WRONG_UPDATERS: list[tuple[str, str, Break]] = [
    ("METRIC-114", SHARES, without("idle")),
    ("METRIC-114", SHARES, without("restoring")),
    ("METRIC-114", SHARES, without("updating")),
    ("METRIC-114", SHARES, paused_as_restoring),
    ("METRIC-113", "state_updater.metrics_outlive_the_updater", forgetting_standbys),
    (
        "METRIC-112",
        "state_updater.failed_tasks_are_not_counted",
        with_attribute(StateUpdater, "_fail", counting_the_failed),
    ),
    (
        "METRIC-116",
        "application.tasks_run_while_others_restore",
        with_attribute(StreamThread, "_check_updater", waiting_for_restorations),
    ),
    ("METRIC-111", "application.the_deprecated_ratio_stays", without_deprecation),
    ("STANDBY-002", "state_updater.updates_stop_for_an_active_task", updating_on),
    (
        "LISTEN-109",
        "application.every_updater_tells_the_listeners",
        with_attribute(StateUpdater, "__init__", telling_of_first_threads),
    ),
    ("LISTEN-110", CALLS, with_attribute(StateUpdater, "__init__", silent_after_the_first)),
    (
        "METRIC-113",
        "state_updater.metrics_outlive_the_updater",
        with_attribute(StateUpdater, "pause", unregistering_the_paused),
    ),
    (
        "METRIC-117",
        "state_updater.what_remains_counts_records",
        with_attribute(TaskRestoreMetrics, "on_restore_start", from_the_first_offset),
    ),
    (
        "METRIC-117",
        "state_updater.what_remains_counts_records",
        with_attribute(TaskRestoreMetrics, "remaining", property(of_one_store)),
    ),
    (
        "METRIC-106",
        "state_updater.what_remains_counts_offsets",
        with_attribute(TaskRestoreMetrics, "remaining", property(of_one_store)),
    ),
    ("LISTEN-110", CALLS, telling_the_end_later),
    (
        "TASK-031",
        "state_updater.commits_while_it_restores",
        with_attribute(StateUpdater, "_commit", committing_once),
    ),
    ("LISTEN-110", CALLS, telling("on_restore_suspended", lambda total: (total + 1,))),
]
"""The requirement, the check, and a change that makes the runtime wrong."""
