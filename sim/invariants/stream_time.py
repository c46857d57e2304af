"""Punctuations by stream time get the time of a record, and not that of a clock (KIP-138)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace import Event

__all__ = ["StreamTimeIsThatOfRecords"]


class StreamTimeIsThatOfRecords(Invariant):
    """A punctuation by stream time gets the largest timestamp that its task has processed.

    A task goes on from the times that were committed, which are those of records that the task had
    processed in some thread before.
    """

    name = "a punctuation by stream time gets the largest timestamp that was processed"
    requirement = "TASK-079"
    situation = "a punctuation by stream time was called"
    drawn_from: ClassVar = {"topologies": ["punctuated-count"]}

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By task, all timestamps that it has processed anywhere.
        self._times: dict[str, set[int]] = {}
        # By thread and task, the largest one since the task runs there.
        self._latest: dict[tuple[str, str], int] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "task.processed": self._process,
            "task.state": self._state,
            "task.punctuated": self._punctuate,
        }

    def _process(self, event: Event) -> Iterable[str]:
        time, owner = event.attributes["timestamp"], (event.actor, event.task)
        self._times.setdefault(event.task, set()).add(time)
        if time > self._latest.get(owner, -1):
            self._latest[owner] = time
        return ()

    def _state(self, event: Event) -> Iterator[str]:
        self._latest.pop((event.actor, event.task), None)
        yield from ()

    def _punctuate(self, event: Event) -> Iterator[str]:
        if event.attributes["clock"] != "stream time":
            return
        self.tried = True
        time = event.attributes["timestamp"]
        latest = self._latest.get((event.actor, event.task), -1)
        if time < latest or time not in self._times.get(event.task, ()):
            yield (
                f"task {event.task} punctuates by stream time at {time}, but the largest timestamp "
                f"that it has processed is {latest}"
            )
