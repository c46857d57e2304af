"""State directories: no stopped instance leaves any in use, and none that is needed is deleted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace import Event

__all__ = ["HotDirectoryIsKept", "NothingIsLeftInUse"]

_TRUE_CLOCKS = 0.99
"""The least share of a duration that has really passed when an instance's clock says it is over."""


class NothingIsLeftInUse(Invariant):
    """A stopped instance has released everything: no task is locked, and no store is open (O4)."""

    name = "an instance that was stopped has nothing in use"
    requirement = "TASK-007"
    situation = "an instance was stopped"

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {"instance.stopped": self._stopped}

    def _stopped(self, event: Event) -> Iterator[str]:
        self.tried = True
        for each in event.attributes["leaks"]:
            yield f"{event.actor} was stopped, but {each}"


class HotDirectoryIsKept(Invariant):
    """Only directories that were unused for long are cleaned up (KAFKA-20805)."""

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

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "task.state": self._state,
            "instance.crashed": self._gone,
            "instance.stopped": self._gone,
            "state.cleaned": self._cleaned,
        }

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
        if here in self._open:
            yield f"the directory of task {event.task} was deleted while the task was open"
        self.tried |= here in self._closed
        closed, delay_ms = self._closed.get(here), event.attributes["delay_ms"]
        if closed is not None and event.time - closed < delay_ms * _TRUE_CLOCKS:
            yield (
                f"the directory of task {event.task} was deleted {event.time - closed} ms after "
                f"its last use, but state.cleanup.delay.ms is {delay_ms}"
            )
