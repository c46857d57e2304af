"""Restoring tasks that are taken away: they keep what was restored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace import Event

__all__ = ["RestoringTasksAreClosedCleanly"]

_LEAST_TIMEOUT_MS = 1_000
"""No request of a commit times out before, so that until then no commit has failed for that."""

_TROUBLES = (
    "disk.full",
    "task.corrupted",
    "task.timed_out",
    "thread.died",
    "thread.timed_out",
    "updater.died",
    "updater.failed",
)
"""The kinds of events after which a task may be closed as after an error."""


class RestoringTasksAreClosedCleanly(Invariant):
    """A task that is taken away while it is restored is closed cleanly, with what was restored.

    It has written nothing of its own, so that its stores are what its changelogs say. This holds
    after a loss as well. If the commit of a running task fails meanwhile, all tasks that are taken
    away are closed as after an error.
    """

    name = "a restoring task that is taken away is closed cleanly"
    requirement = "TASK-082"
    situation = "a task was taken away while it was restored"
    drawn_from: ClassVar = {
        "kinds": ["crash", "bounce", "cut"],
        "plan": {"instances": [2, 3]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By thread and suspended task, its state before.
        self._before: dict[tuple[str, str], str] = {}
        # By thread, when it got its last assignment, and the number of that event.
        self._assigned: dict[str, tuple[int, int]] = {}
        # The threads whose commit may have failed since then.
        self._uncommitted: set[str] = set()
        # By process, the number of the last event of trouble.
        self._trouble: dict[str, int] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            **dict.fromkeys(_TROUBLES, self._fail),
            "thread.assigned": self._assign,
            "thread.committed": self._commit,
            "task.state": self._state,
            "task.closed": self._closed,
        }

    def _fail(self, event: Event) -> Iterable[str]:
        self._trouble[event.process] = event.sequence
        return ()

    def _assign(self, event: Event) -> Iterable[str]:
        self._assigned[event.actor] = event.time, event.sequence
        states = self.history.copies.states.items()
        if any(thread == event.actor and state == "RUNNING" for (thread, _), state in states):
            self._uncommitted.add(event.actor)
        else:
            self._uncommitted.discard(event.actor)
        return ()

    def _commit(self, event: Event) -> Iterable[str]:
        self._uncommitted.discard(event.actor)
        return ()

    def _state(self, event: Event) -> Iterable[str]:
        if event.attributes["after"] == "SUSPENDED":
            self._before[event.actor, event.task] = event.attributes["before"]
        return ()

    def _closed(self, event: Event) -> Iterator[str]:
        before = self._before.pop((event.actor, event.task), "")
        # A recording of Kafka's own threads does not tell of all that may go wrong.
        if before != "RESTORING" or self.history.of_kafka:
            return
        since, sequence = self._assigned.get(event.actor, (-_LEAST_TIMEOUT_MS, -1))
        was_told = event.time - since < _LEAST_TIMEOUT_MS
        has_failed = self._trouble.get(event.process, -1) > sequence
        if not was_told or has_failed or event.actor in self._uncommitted:
            return
        self.tried = True
        if event.attributes["closing"] != "CLEAN":
            yield (
                f"{event.actor} closes task {event.task} as after an error when it is taken away, "
                "although it was only restored, and nothing had gone wrong"
            )
