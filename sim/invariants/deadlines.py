"""The waits of tasks for the brokers: they end (KIP-572)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace import Event

__all__ = ["WaitsOfTasksEnd"]


class WaitsOfTasksEnd(Invariant):
    """A task that gets no answer for longer than ``task.timeout.ms`` ends its thread."""

    name = "a task that gets no answer for task.timeout.ms ends its thread"
    requirement = "TASK-067"
    situation = "a task got no answer for longer than task.timeout.ms"
    drawn_from: ClassVar = {
        "kinds": ["cut"],
        "plan": {"activation": [0.5]},
        "settings": {
            "task_timeout_ms": [1_000],
            "request_timeout_ms": [1_000],
            "max_block_ms": [2_000],
            "session_timeout_ms": [10_000],
        },
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._limit_ms = 0.0
        # By thread and task, the first time-out since the task made progress.
        self._first: dict[tuple[str, str], int] = {}
        # By thread, the task whose time is up.
        self._doomed: dict[str, str] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "application.started": self._started,
            "task.timed_out": self._timed_out,
            "task.processed": self._progressed,
            # A record that is left out is done with, too.
            "record.dropped": self._progressed,
            "task.state": self._changed,
            "thread.committed": self._committed,
            "thread.died": self._over,
            "instance.crashed": self._ended,
            "instance.stopped": self._ended,
        }

    def _started(self, event: Event) -> Iterable[str]:
        # The clock of a host may be fast or slow by half a thousandth.
        self._limit_ms = 1.001 * event.attributes["task_timeout_ms"] + 2
        return ()

    def _timed_out(self, event: Event) -> Iterator[str]:
        if (doomed := self._doomed.get(event.actor)) is not None:
            yield (
                f"{doomed} of {event.actor} got no answer for too long, but the thread goes on "
                f"waiting for {event.task}"
            )
        first = self._first.setdefault((event.actor, event.task), event.time)
        if event.time - first > self._limit_ms:
            self.tried = True
            self._doomed[event.actor] = event.task

    def _progressed(self, event: Event) -> Iterable[str]:
        if self._first:
            self._first.pop((event.actor, event.task), None)
        return ()

    def _changed(self, event: Event) -> Iterable[str]:
        if event.attributes["after"] in ("RUNNING", "CLOSED"):
            self._first.pop((event.actor, event.task), None)
        return ()

    def _committed(self, event: Event) -> Iterable[str]:
        if self._first:
            self._first = {at: each for at, each in self._first.items() if at[0] != event.actor}
        return ()

    def _over(self, event: Event) -> Iterable[str]:
        self._doomed.pop(event.actor, None)
        return self._committed(event)

    def _ended(self, event: Event) -> Iterable[str]:
        prefix = f"{event.actor}/"
        self._first = {at: each for at, each in self._first.items() if not at[0].startswith(prefix)}
        self._doomed = {
            thread: each for thread, each in self._doomed.items() if not thread.startswith(prefix)
        }
        return ()

    def at_end(self) -> Iterator[str]:
        for thread, task in self._doomed.items():
            yield f"{task} of {thread} got no answer for too long, but the thread did not end"
