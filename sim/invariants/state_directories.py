"""State directories: no stopped instance leaves any in use, and none that is needed is deleted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace import Event

__all__ = [
    "HotDirectoryIsKept",
    "NothingIsCleanedWhileRestoring",
    "NothingIsLeftInUse",
    "OutdatedDirectoriesAreDeleted",
]

_SLOW_STEP_MS = 2_000
"""A step of a slow disk takes up to so long."""

_TRUE_CLOCKS = 0.99
"""The least share of a duration that has really passed when an instance's clock says it is over."""


class NothingIsLeftInUse(Invariant):
    """A stopped instance has released everything: no task is locked, and no store is open (O4).

    The instance tells what it finds in use. Besides, it must have closed each task whose stores it
    has opened; in a recording of Kafka, not every opening has a task.
    """

    name = "an instance that was stopped has nothing in use"
    requirement = "TASK-007"
    situation = "an instance was stopped"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By process, the tasks whose stores are open.
        self._open: dict[str, dict[str, None]] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "store.opened": self._opened,
            "task.closed": self._closed,
            "instance.crashed": self._gone,
            "instance.stopped": self._stopped,
        }

    def _opened(self, event: Event) -> Iterator[str]:
        if not self.history.of_kafka:
            self._open.setdefault(event.process, {})[event.task] = None
        yield from ()

    def _closed(self, event: Event) -> Iterator[str]:
        self._open.get(event.process, {}).pop(event.task, None)
        yield from ()

    def _gone(self, event: Event) -> Iterator[str]:
        self._open.pop(event.process, None)
        yield from ()

    def _stopped(self, event: Event) -> Iterator[str]:
        self.tried = True
        for each in event.attributes["leaks"]:
            yield f"{event.actor} was stopped, but {each}"
        for task in self._open.pop(event.process, ()):
            yield f"{event.actor} was stopped, but has not closed the stores of task {task}"


class HotDirectoryIsKept(Invariant):
    """Only directories that were unused for long are cleaned up (KAFKA-20805).

    A task without stores has nothing in its directory, and Kafka locks none for it.
    """

    name = "the directory of a task is cleaned up only if it was not used for long"
    requirement = "TASK-011"
    situation = "the directory of a closed task was cleaned up"
    drawn_from: ClassVar = {
        "settings": {"state_cleanup_delay_ms": [1_000]},
        "plan": {"instances": [3]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._open: dict[tuple[str, str], None] = {}
        self._closed: dict[tuple[str, str], int] = {}
        self._changelogs: Mapping[str, list[str]] = {}
        self._delay_ms = self._max_age_ms = 0
        # The processes that have started, and have no thread yet.
        self._starting: set[str] = set()

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "application.started": self._configured,
            "instance.started": self._started,
            "thread.producer": self._begun,
            "task.state": self._state,
            "instance.crashed": self._gone,
            "instance.stopped": self._gone,
            "state.cleaned": self._cleaned,
        }

    def _configured(self, event: Event) -> Iterator[str]:
        self._changelogs = event.attributes["changelogs"]
        self._delay_ms = event.attributes["state_cleanup_delay_ms"]
        self._max_age_ms = event.attributes["state_cleanup_dir_max_age_ms"]
        yield from ()

    def _started(self, event: Event) -> Iterator[str]:
        self._starting.add(event.actor)
        yield from ()

    def _begun(self, event: Event) -> Iterator[str]:
        self._starting.discard(event.process)
        yield from ()

    def _state(self, event: Event) -> Iterator[str]:
        here = event.process, event.task
        if event.attributes["after"] == "CLOSED":
            self._open.pop(here, None)
            self._closed[here] = event.time
        else:
            self._open[here] = None
        yield from ()

    def _gone(self, event: Event) -> Iterator[str]:
        self._open = {each: None for each in self._open if each[0] != event.actor}
        yield from ()

    def _cleaned(self, event: Event) -> Iterator[str]:
        here = event.actor, event.task
        if not self._changelogs.get(event.task):
            return
        if here in self._open:
            yield f"the directory of task {event.task} was deleted while the task was open"
        self.tried |= here in self._closed
        closed, name, least_ms = self._closed.get(here), "state.cleanup.delay.ms", self._delay_ms
        if event.actor in self._starting:
            name, least_ms = "state.cleanup.dir.max.age.ms", self._max_age_ms
        if closed is not None and event.time - closed < least_ms * _TRUE_CLOCKS:
            yield (
                f"the directory of task {event.task} was deleted {event.time - closed} ms after "
                f"its last use, but {name} is {least_ms}"
            )


class OutdatedDirectoriesAreDeleted(Invariant):
    """A process that starts deletes what nobody has used for too long (KIP-1259)."""

    name = "a process that starts keeps no directory that is older than the maximum age"
    requirement = "TASK-072"
    situation = "a process started with a directory that was too old"
    drawn_from: ClassVar = {
        "upgrades": [""],
        "kinds": ["crash", "bounce"],
        "plan": {"instances": [3], "persistent": [True]},
        "settings": {"state_cleanup_dir_max_age_ms": [1_000]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._max_age_ms = -1
        # By process and task, the last time at which its directory was in use for sure.
        self._used: dict[tuple[str, str], int] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "application.started": self._start,
            "store.opened": self._use,
            "task.closed": self._use,
            "state.found": self._use,
            "state.opened": self._looked,
            "state.cleaned": self._cleaned,
        }

    def _start(self, event: Event) -> Iterator[str]:
        self._max_age_ms = event.attributes["state_cleanup_dir_max_age_ms"]
        yield from ()

    def _use(self, event: Event) -> Iterator[str]:
        self._used[event.process, event.task] = event.time
        yield from ()

    def _looked(self, event: Event) -> Iterator[str]:
        age = event.time - self._used.get((event.process, event.task), event.time)
        if 0 <= self._max_age_ms < age * _TRUE_CLOCKS:
            yield (
                f"{event.actor} keeps the directory of task {event.task}, which was used {age} ms "
                f"ago, but state.cleanup.dir.max.age.ms is {self._max_age_ms}"
            )

    def _cleaned(self, event: Event) -> Iterator[str]:
        used = self._used.pop((event.process, event.task), event.time)
        self.tried |= 0 <= self._max_age_ms < (event.time - used) * _TRUE_CLOCKS
        yield from ()


class NothingIsCleanedWhileRestoring(Invariant):
    """The cleaner begins a round only while all active tasks of its process run.

    A round takes time if the disk is slow, and the process may begin to restore meanwhile. Time in
    which the process stands still does not count.
    """

    name = "a directory is cleaned up only while all active tasks of the process run"
    requirement = "TASK-073"
    situation = "the directory of a task was cleaned up beside running tasks"
    drawn_from: ClassVar = {
        "settings": {"state_cleanup_delay_ms": [1_000]},
        "plan": {"instances": [3]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # The longest round, in milliseconds.
        self._round_ms = 0
        # By process, when it started.
        self._started: dict[str, int] = {}
        # By thread, its active tasks that do not run, and since when there are any. A thread
        # without an assignment has one without a name.
        self._waiting: dict[str, set[str]] = {}
        self._since: dict[str, int] = {}
        # By process that stands still, since when.
        self._still: dict[str, int] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "application.started": self._configure,
            "instance.started": self._start,
            "instance.stood_still": self._stand_still,
            "instance.went_on": self._go_on,
            "thread.producer": self._begin,
            "thread.assigned": self._assigned,
            "task.state": self._state,
            "thread.lost": self._lost,
            "state.cleaned": self._cleaned,
        }

    def _configure(self, event: Event) -> Iterator[str]:
        self._round_ms = _SLOW_STEP_MS * len(event.attributes["tasks"])
        yield from ()

    def _start(self, event: Event) -> Iterator[str]:
        self._started[event.actor] = event.time
        for thread in [each for each in self._waiting if each.startswith(f"{event.actor}/")]:
            del self._waiting[thread]
        yield from ()

    def _stand_still(self, event: Event) -> Iterator[str]:
        self._still[event.actor] = event.time
        yield from ()

    def _go_on(self, event: Event) -> Iterator[str]:
        still_ms = event.time - self._still.pop(event.actor, event.time)
        for thread in self._since:
            if thread.startswith(f"{event.actor}/"):
                self._since[thread] += still_ms
        yield from ()

    def _begin(self, event: Event) -> Iterator[str]:
        if event.actor not in self._waiting:
            self._wait(event, {""})
        yield from ()

    def _assigned(self, event: Event) -> Iterator[str]:
        states = self.history.copies.states
        active = event.attributes["active"]
        self._wait(event, {each for each in active if states.get((event.actor, each)) != "RUNNING"})
        yield from ()

    def _state(self, event: Event) -> Iterator[str]:
        waiting = self._waiting.get(event.actor)
        if waiting and event.attributes["after"] == "RUNNING":
            waiting.discard(event.task)
        yield from ()

    def _lost(self, event: Event) -> Iterator[str]:
        self._wait(event, {""})
        yield from ()

    def _wait(self, event: Event, tasks: set[str]) -> None:
        if not self._waiting.get(event.actor):
            self._since[event.actor] = event.time
        self._waiting[event.actor] = tasks

    def _cleaned(self, event: Event) -> Iterator[str]:
        # Directories that are too old are deleted as the process starts, by another rule.
        if self._started.get(event.actor) == event.time:
            return
        self.tried = True
        for thread, tasks in self._waiting.items():
            since = self._since[thread]
            is_here = thread.startswith(f"{event.actor}/")
            if is_here and tasks and event.time - since > self._round_ms:
                what = f"{min(tasks)} of {thread} does not run" if any(tasks) else thread
                yield (
                    f"the directory of task {event.task} was cleaned up, although {what} has been "
                    f"waiting since {since} ms"
                )
