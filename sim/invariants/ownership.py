"""The owners of tasks: one in each generation of the group, and one thread in each process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace import Event

__all__ = [
    "AssignedTasksAreKept",
    "LostTasksAreGivenUp",
    "OneHolderInAProcess",
    "OneOwnerInAGeneration",
    "OwnersFollowEachOther",
    "RestoringIsPaired",
]


class OneOwnerInAGeneration(Invariant):
    """No task is assigned to two members as active in the same generation (KIP-429)."""

    name = "a task has one owner in each generation"
    requirement = "REBAL-001"
    situation = "two threads got tasks in the same generation"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._generation = -1
        self._owners: dict[str, str] = {}
        # The threads that have got tasks in this generation.
        self._takers: set[str] = set()

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {"thread.assigned": self._assigned}

    def _assigned(self, event: Event) -> Iterator[str]:
        generation = event.attributes["generation"]
        if generation < self._generation:
            return
        if generation > self._generation:
            self._generation, self._owners, self._takers = generation, {}, set()
        for task in event.attributes["active"]:
            owner = self._owners.setdefault(task, event.actor)
            self._takers.add(owner)
            if owner != event.actor:
                yield (
                    f"task {task} has two owners in generation {generation}: "
                    f"{owner} and {event.actor}"
                )
        self.tried |= len(self._takers) > 1


class OwnersFollowEachOther(Invariant):
    """A revoked task gets no new owner in the same generation (KIP-429)."""

    name = "a task has a new owner only after the old one has given it up"
    requirement = "REBAL-002"
    situation = "a task moved from one thread to another"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._active: dict[str, list[str]] = {}
        self._given: dict[tuple[int, str], str] = {}
        # By task, the thread that got it last.
        self._last: dict[str, str] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "thread.assigned": self._assigned,
            "thread.lost": self._lost,
            "thread.died": self._lost,
            "instance.crashed": self._gone,
            "instance.stopped": self._gone,
        }

    def _assigned(self, event: Event) -> Iterator[str]:
        generation, active = event.attributes["generation"], event.attributes["active"]
        for task in active:
            self._given[generation, task] = event.actor
            self.tried |= self._last.get(task, event.actor) != event.actor
            self._last[task] = event.actor
        for task in self._active.get(event.actor, ()):
            owner = self._given.get((generation, task), event.actor)
            if owner != event.actor:
                yield f"task {task} was given to {owner} while {event.actor} still had it"
        self._active[event.actor] = active

    def _lost(self, event: Event) -> Iterator[str]:
        self._active.pop(event.actor, None)
        yield from ()

    def _gone(self, event: Event) -> Iterator[str]:
        for actor in list(self._active):
            if actor.startswith(f"{event.actor}/"):
                del self._active[actor]
        yield from ()


class AssignedTasksAreKept(Invariant):
    """A thread has an assigned task, or tries to open it, until it closes it (KAFKA-8187)."""

    name = "a thread that joins again still has what it was assigned"
    requirement = "TASK-008"
    situation = "a thread with tasks joined again"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._assigned: dict[str, list[str]] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "thread.assigned": self._assign,
            "thread.subscribed": self._subscribe,
            "task.closed": self._closed,
            "thread.lost": self._gone,
            "thread.died": self._gone,
            "thread.stopped": self._gone,
            "instance.crashed": self._crash,
            "instance.stopped": self._crash,
        }

    def _assign(self, event: Event) -> Iterable[str]:
        self._assigned[event.actor] = list(event.attributes["active"])
        return ()

    def _closed(self, event: Event) -> Iterable[str]:
        # A thread that stops closes its tasks, and may join once more before it leaves.
        mine = self._assigned.get(event.actor, [])
        if event.task in mine:
            mine.remove(event.task)
        return ()

    def _subscribe(self, event: Event) -> Iterator[str]:
        for task in self._assigned.get(event.actor, ()):
            self.tried = True
            if task not in event.attributes["owned"]:
                yield f"task {task} was assigned to {event.actor}, which no longer reports it"

    def _gone(self, event: Event) -> Iterable[str]:
        self._assigned.pop(event.actor, None)
        return ()

    def _crash(self, event: Event) -> Iterable[str]:
        prefix = f"{event.actor}/"
        for actor in [each for each in self._assigned if each.startswith(prefix)]:
            del self._assigned[actor]
        return ()


class OneHolderInAProcess(Invariant):
    """A task is open in at most one thread of a process, by the lock of its directory.

    Kafka takes no lock for a task without stores (StateManagerUtil#registerStateStores), nor in an
    application without persistent stores (StateDirectory#lock).
    """

    name = "a task is open in one thread of a process at a time"
    requirement = "TASK-006"
    situation = "another thread of the process opened a task"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._open: dict[tuple[str, str], str] = {}
        # By process and task, the thread that opened it last.
        self._last: dict[tuple[str, str], str] = {}
        # The tasks with persistent stores.
        self._locked: set[str] = set()

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "store.opened": self._store,
            "task.state": self._state,
            "instance.crashed": self._gone,
            "instance.stopped": self._stopped,
        }

    def _store(self, event: Event) -> Iterable[str]:
        if event.attributes["persistent"]:
            self._locked.add(event.task)
        return ()

    def _state(self, event: Event) -> Iterator[str]:
        process = event.process
        here = process, event.task
        after = event.attributes["after"]
        if after == "CLOSED":
            self._open.pop(here, None)
        elif after in ("RESTORING", "RUNNING"):
            holder = self._open.setdefault(here, event.actor)
            is_locked = event.task in self._locked
            self.tried |= is_locked and self._last.get(here, event.actor) != event.actor
            self._last[here] = event.actor
            if is_locked and holder != event.actor:
                yield f"task {event.task} is open in both {holder} and {event.actor}"

    def _gone(self, event: Event) -> Iterator[str]:
        for process, task in list(self._open):
            if process == event.actor:
                del self._open[process, task]
        yield from ()

    def _stopped(self, event: Event) -> Iterator[str]:
        left = sorted(task for process, task in self._open if process == event.actor)
        yield from self._gone(event)
        if left:
            yield f"{event.actor} was stopped, but its tasks {', '.join(left)} are still open"


class RestoringIsPaired(Invariant):
    """Each start of a restoration is followed by one end or one suspension (KIP-869)."""

    name = "each restoration that starts is ended or suspended once"
    requirement = "LISTEN-101"
    situation = "a restoration ended, and another was suspended"
    drawn_from: ClassVar = {
        "kinds": ["bounce"],
        "plan": {"activation": [0.5], "persistent": [False]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By updater and changelog, the task.
        self._started: dict[tuple[str, str], str] = {}
        # The ways in which restorations have ended.
        self._ways: set[str] = set()

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "restore.start": self._start,
            "restore.batch": self._batch,
            "restore.end": self._end,
            "restore.suspended": self._end,
            "task.state": self._state,
            "instance.crashed": self._gone,
        }

    def _start(self, event: Event) -> Iterator[str]:
        here = event.actor, event.partition
        if here in self._started:
            yield f"the restoration of {event.partition} starts again, but has not ended"
        self._started[here] = event.task

    def _batch(self, event: Event) -> Iterator[str]:
        if (event.actor, event.partition) not in self._started:
            yield f"a batch of {event.partition} is restored, but no restoration has started"

    def _end(self, event: Event) -> Iterator[str]:
        here = event.actor, event.partition
        if here not in self._started:
            yield f"the restoration of {event.partition} ends, but has not started"
        self._ways.add(event.kind)
        self.tried |= len(self._ways) > 1
        self._started.pop(here, None)

    def _state(self, event: Event) -> Iterator[str]:
        """The restoration of a suspended task has to end, because listeners wait for its end."""
        if event.attributes["after"] != "SUSPENDED":
            return
        process = event.process
        for (actor, partition), task in list(self._started.items()):
            if task == event.task and actor.partition("/")[0] == process:
                del self._started[actor, partition]
                yield f"task {task} was given up, but the restoration of {partition} did not end"

    def _gone(self, event: Event) -> Iterator[str]:
        prefix = f"{event.actor}/"
        self._started = {
            at: task for at, task in self._started.items() if not at[0].startswith(prefix)
        }
        yield from ()


class LostTasksAreGivenUp(Invariant):
    """A thread that has lost its tasks reports none of them when it joins again (KIP-429).

    Other members may own them by now. This holds for tasks that run or restore, and for those that
    the thread has not opened yet.
    """

    name = "a thread that has lost its tasks owns none when it joins again"
    requirement = "REBAL-012"
    situation = "a thread that had lost active tasks joined again"
    drawn_from: ClassVar = {
        "kinds": ["pause", "cut"],
        "plan": {"instances": [2, 3], "threads": [2]},
        "settings": {"group_protocol": ["classic"]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By thread, its active tasks; and the threads that have lost theirs.
        self._active: dict[str, list[str]] = {}
        self._lost: set[str] = set()

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "thread.assigned": self._assigned,
            "thread.lost": self._loses,
            "thread.subscribed": self._joins,
        }

    def _assigned(self, event: Event) -> Iterator[str]:
        self._active[event.actor] = event.attributes["active"]
        self._lost.discard(event.actor)
        yield from ()

    def _loses(self, event: Event) -> Iterator[str]:
        self._lost.add(event.actor)
        yield from ()

    def _joins(self, event: Event) -> Iterator[str]:
        # A recording of Kafka's own threads may tell of the loss too late.
        if event.actor not in self._lost or self.history.of_kafka:
            return
        self._lost.discard(event.actor)
        self.tried |= bool(self._active.get(event.actor))
        if event.attributes["owned"]:
            yield (
                f"{event.actor} has lost its tasks, but reports {event.attributes['owned']} as its "
                "own when it joins again"
            )
