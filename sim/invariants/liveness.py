"""Progress once faults have stopped, and work that must not be done without need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace import Event

__all__ = [
    "EveryTaskRuns",
    "EveryThreadTakesPart",
    "NothingIsWipedWithoutNeed",
    "UncommittedBytesAreBounded",
]


class EveryTaskRuns(Invariant):
    """Once faults have stopped, every task runs somewhere (O4)."""

    name = "once faults have stopped, every task runs"
    requirement = "TASK-008"
    situation = "an application came to its end after a fault"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._tasks: list[str] = []
        # A zombie may begin to run a task that already has a new owner.
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
        self.tried = self.history.has_failed
        running = {task for task, _ in self._running}
        for task in self._tasks:
            if task not in running:
                yield f"task {task} does not run anywhere"


class EveryThreadTakesPart(Invariant):
    """Once faults have stopped, every thread is part of the last generation (O4)."""

    name = "once faults have stopped, every thread follows the group"
    requirement = "TASK-008"
    situation = "an application came to its end after a fault"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By live thread, its last generation; -1 before the first.
        self._generations: dict[str, int] = {}
        self._last = -1

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "thread.producer": self._lives,
            "thread.assigned": self._assigned,
            "thread.died": self._ended,
            "thread.stopped": self._ended,
            "instance.crashed": self._gone,
            "instance.stopped": self._gone,
        }

    def _lives(self, event: Event) -> Iterable[str]:
        self._generations.setdefault(event.actor, -1)
        return ()

    def _assigned(self, event: Event) -> Iterable[str]:
        generation = self._generations[event.actor] = event.attributes["generation"]
        self._last = max(self._last, generation)
        return ()

    def _ended(self, event: Event) -> Iterable[str]:
        self._generations.pop(event.actor, None)
        return ()

    def _gone(self, event: Event) -> Iterable[str]:
        prefix = f"{event.actor}/"
        for actor in [each for each in self._generations if each.startswith(prefix)]:
            del self._generations[actor]
        return ()

    def at_end(self) -> Iterator[str]:
        self.tried = self.history.has_failed
        for actor, generation in self._generations.items():
            if generation != self._last:
                yield f"{actor} follows generation {generation}, but the group is in {self._last}"


class NothingIsWipedWithoutNeed(Invariant):
    """A cleanly closed task keeps its stores, and opens them unchanged (KAFKA-10166, KAFKA-19712).

    A release before KIP-1035 must wipe stores that a newer one closed without ``upgrade.from``.
    """

    name = "what was closed cleanly is not wiped when it is opened"
    requirement = "TASK-009"
    situation = "a task was opened that its process had closed cleanly"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By process and cleanly closed task, whether an older release can open it.
        self._clean: dict[tuple[str, str], bool] = {}
        # The same, while the process examines the task before its threads start.
        self._scanning: dict[tuple[str, str], bool] = {}
        # By process, whether its stores keep their own offsets, and also write them to files.
        self._releases: dict[str, tuple[bool, bool]] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "instance.started": self._started,
            "task.closed": self._closed,
            "store.opened": self._opened,
            "task.wiped": self._wiped,
            "state.opened": self._scanned,
            "state.found": self._kept,
        }

    def _started(self, event: Event) -> Iterator[str]:
        more = event.attributes
        self._releases[event.actor] = more["manages_offsets"], bool(more["upgrade_from"])
        yield from ()

    def _is_for_older(self, process: str) -> bool:
        manages, gives_back = self._releases.get(process, (True, False))
        return gives_back or not manages

    def _scanned(self, event: Event) -> Iterator[str]:
        # A process that dies while it examines a task leaves the task open.
        here = event.actor, event.task
        self._scanning.clear()
        if here in self._clean:
            self._scanning[here] = self._clean.pop(here)
        yield from ()

    def _kept(self, event: Event) -> Iterator[str]:
        manages, gives_back = self._releases.get(event.actor, (True, False))
        for here, was_for_older in self._scanning.items():
            self._clean[here] = gives_back if manages else was_for_older
        self._scanning.clear()
        yield from ()

    def _closed(self, event: Event) -> Iterator[str]:
        here = event.process, event.task
        if event.attributes["closing"] == "CLEAN":
            self._clean[here] = self._is_for_older(here[0])
        else:
            self._clean.pop(here, None)
        yield from ()

    def _opened(self, event: Event) -> Iterator[str]:
        if event.attributes["wipe"]:
            yield from self._wiped(event)
        else:
            was_clean = self._clean.pop((event.process, event.task), None) is not None
            self.tried |= was_clean

    def _wiped(self, event: Event) -> Iterator[str]:
        here = event.process, event.task
        is_for_older = self._clean.pop(here, None)
        manages = self._releases.get(here[0], (True, False))[0]
        if is_for_older is not None and (manages or is_for_older):
            yield f"task {event.task} was closed cleanly by {here[0]}, but is wiped there"


class UncommittedBytesAreBounded(Invariant):
    """What a thread has staged stays within its share, except for one round (KIP-892)."""

    name = "a thread commits when its stores have staged too much"
    requirement = "TASK-010"
    situation = "a limit of staged bytes was set, and a thread exceeded it"
    drawn_from: ClassVar = {"settings": {"transactional": [True], "max_uncommitted_bytes": [100]}}

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._over: dict[str, str] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "thread.staged": self._staged,
            "thread.committed": self._committed,
            # A store may stage restored records, which its task commits before it runs. What is
            # still staged then is told again before the next record is processed.
            "store.committed": self._committed,
            # A failed commit is retried, or the tasks start over.
            "thread.timed_out": self._committed,
            "thread.lost": self._committed,
            "task.corrupted": self._committed,
            "instance.crashed": self._gone,
            "task.processed": self._process,
        }

    def _staged(self, event: Event) -> Iterator[str]:
        self.tried = True
        more = event.attributes
        self._over[event.actor] = f"{more['records']} records with {more['bytes']} bytes"
        yield from ()

    def _committed(self, event: Event) -> Iterator[str]:
        self._over.pop(event.actor, None)
        yield from ()

    def _gone(self, event: Event) -> Iterator[str]:
        for actor in list(self._over):
            if actor.startswith(f"{event.actor}/"):
                del self._over[actor]
        yield from ()

    def _process(self, event: Event) -> Iterable[str]:
        over = self._over.pop(event.actor, None)
        if over is None:
            return ()
        what = f"{event.actor} had staged {over}, more than its share of the limits,"
        return [f"{what} but went on processing without a commit"]
