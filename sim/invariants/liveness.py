"""What must come about once faults have stopped, and what must not be done without need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from streamproof.sim.invariants.base import Invariant, Observer
from streamproof.sim.invariants.history import History
from streamproof.sim.trace import Event

__all__ = ["EveryTaskRuns", "NothingIsWipedWithoutNeed", "UncommittedBytesAreBounded"]


class EveryTaskRuns(Invariant):
    """Once nothing fails any more, every task runs somewhere (O4)."""

    name = "once faults have stopped, every task runs"
    requirement = "TASK-008"

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._tasks: list[str] = []
        # A zombie may begin to run a task that has another owner by now.
        self._running: dict[tuple[str, str], None] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "application.started": self._start,
            "task.state": self._state,
            "instance.crashed": self._gone,
        }

    def _start(self, event: Event) -> Iterator[str]:
        self._tasks = event.attributes["tasks"]
        yield from ()

    def _state(self, event: Event) -> Iterator[str]:
        if event.attributes["after"] == "RUNNING":
            self._running[event.task, event.actor] = None
        else:
            self._running.pop((event.task, event.actor), None)
        yield from ()

    def _gone(self, event: Event) -> Iterator[str]:
        prefix = f"{event.actor}/"
        self._running = {each: None for each in self._running if not each[1].startswith(prefix)}
        yield from ()

    def at_end(self) -> Iterator[str]:
        running = {task for task, _ in self._running}
        for task in self._tasks:
            if task not in running:
                yield f"task {task} does not run anywhere"


class NothingIsWipedWithoutNeed(Invariant):
    """What was closed cleanly is kept, and opened again as it was (KAFKA-10166, KAFKA-19712)."""

    name = "what was closed cleanly is not wiped when it is opened"
    requirement = "TASK-009"

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._clean: set[tuple[str, str]] = set()

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "task.closed": self._closed,
            "store.opened": self._opened,
            "task.wiped": self._wiped,
        }

    def _closed(self, event: Event) -> Iterator[str]:
        here = event.actor.partition("/")[0], event.task
        if event.attributes["closing"] == "CLEAN":
            self._clean.add(here)
        else:
            self._clean.discard(here)
        yield from ()

    def _opened(self, event: Event) -> Iterator[str]:
        if event.attributes["wipe"]:
            yield from self._wiped(event)
        else:
            self._clean.discard((event.actor.partition("/")[0], event.task))

    def _wiped(self, event: Event) -> Iterator[str]:
        here = event.actor.partition("/")[0], event.task
        if here in self._clean:
            self._clean.discard(here)
            yield f"task {event.task} was closed cleanly by {here[0]}, and is wiped there"


class UncommittedBytesAreBounded(Invariant):
    """What a thread has staged stays within its bound, but for one round (KIP-892)."""

    name = "a thread commits when its stores have staged too much"
    requirement = "TASK-010"

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._most = -1
        self._over: dict[str, int] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "application.started": self._start,
            "thread.staged": self._staged,
            "thread.committed": self._committed,
            # A commit that fails is tried again, or the tasks begin anew.
            "thread.timed_out": self._committed,
            "thread.lost": self._committed,
            "task.corrupted": self._committed,
            "instance.crashed": self._gone,
            "task.processed": self._process,
        }

    def _start(self, event: Event) -> Iterator[str]:
        self._most = event.attributes["max_uncommitted_bytes"]
        yield from ()

    def _staged(self, event: Event) -> Iterator[str]:
        if 0 < self._most < event.attributes["bytes"]:
            self._over[event.actor] = event.attributes["bytes"]
        yield from ()

    def _committed(self, event: Event) -> Iterator[str]:
        self._over.pop(event.actor, None)
        yield from ()

    def _gone(self, event: Event) -> Iterator[str]:
        for actor in list(self._over):
            if actor.startswith(f"{event.actor}/"):
                del self._over[actor]
        yield from ()

    def _process(self, event: Event) -> Iterator[str]:
        over = self._over.pop(event.actor, None)
        if over is not None:
            yield (
                f"{event.actor} had staged {over} bytes, more than {self._most}, "
                "and processed on without a commit"
            )
