"""Punctuations keep their schedule: each interval has one of them at most (KIP-138)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace import Event

__all__ = ["PunctuationsKeepTheirSchedule"]

_Schedule = tuple[str, str, str, int]
"""A thread, a task, a clock and an interval in milliseconds."""

_Due = tuple[int, int]
"""When a punctuation is due next: after the first time, and at the second one at the latest."""


class PunctuationsKeepTheirSchedule(Invariant):
    """A punctuation is called at most once for each multiple of its interval that has passed.

    By stream time, the multiples begin at 0. By wall-clock time nobody knows where they begin, but
    each punctuation tells more of it.
    """

    name = "each interval has one punctuation at most"
    requirement = "TASK-029"
    situation = "a punctuation was called again"
    # A task runs again without a new processor if it becomes a standby in between.
    drawn_from: ClassVar = {
        "topologies": ["punctuated-count"],
        "upgrades": [""],
        "plan": {"instances": [2, 3]},
        "settings": {"recycles_tasks": [True]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._due: dict[_Schedule, _Due] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {"task.state": self._begin, "task.punctuated": self._punctuate}

    def _begin(self, event: Event) -> Iterable[str]:
        # A task that begins to run schedules its punctuations anew.
        for schedule in [each for each in self._due if each[:2] == (event.actor, event.task)]:
            del self._due[schedule]
        return ()

    def _punctuate(self, event: Event) -> Iterator[str]:
        more, time = event.attributes, event.attributes["timestamp"]
        clock, interval_ms = more["clock"], more["interval_ms"]
        schedule = event.actor, event.task, clock, interval_ms
        due = self._due.get(schedule, (-1, 0) if clock == "stream time" else None)
        self.tried |= schedule in self._due
        if due is not None and time <= due[0]:
            self._due[schedule] = _next(None, time, interval_ms)
            yield (
                f"task {event.task} punctuates by {clock} at {time}, but is to do so every "
                f"{interval_ms} ms, and not again before {due[0] + 1}"
            )
        else:
            self._due[schedule] = _next(due, time, interval_ms)


def _next(due: _Due | None, time: int, interval_ms: int) -> _Due:
    """When a punctuation is due after one at a time, as far as that is known."""
    if due is not None:
        late_ms = max(time - due[1], 0) // interval_ms * interval_ms
        after, latest = due[0] + late_ms, min(due[1] + late_ms, time)
        if time - after <= interval_ms:
            return after + interval_ms, latest + interval_ms
    return time, time + interval_ms
