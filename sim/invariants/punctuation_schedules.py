"""Punctuations keep their schedule: each interval that has passed has one of them (KIP-138)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace import Event

__all__ = ["PunctuationsKeepTheirSchedule"]

_STREAM_TIME = "stream time"

_Owner = tuple[str, str]
"""A thread and a task."""

_Schedule = tuple[str, int]
"""A clock, and an interval in milliseconds."""

_Due = tuple[int, int]
"""When a punctuation is due next: after the first time, and at the second one at the latest."""


class PunctuationsKeepTheirSchedule(Invariant):
    """A punctuation is called once for the multiples of its interval that its clock has passed.

    By stream time, the multiples begin at 0, and the call comes in the round that passes one: at
    the latest, in the round before the second commit after that. By wall-clock time nobody knows
    where the multiples begin, but each punctuation tells more of it.
    """

    name = "each interval that has passed has one punctuation"
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
        # By thread and task, its stream time and its punctuations; each with when it is due next.
        self._times: dict[_Owner, int] = {}
        self._due: dict[_Owner, dict[_Schedule, _Due]] = {}
        # The tasks that were committed although one by stream time was due, and whether they have
        # processed a record since then.
        self._overdue: dict[_Owner, bool] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "task.state": self._begin,
            "task.processed": self._process,
            "task.punctuated": self._punctuate,
            "thread.committed": self._commit,
        }

    def _begin(self, event: Event) -> Iterable[str]:
        # A task that begins to run schedules its punctuations anew.
        owner = event.actor, event.task
        self._due.pop(owner, None)
        self._times.pop(owner, None)
        self._overdue.pop(owner, None)
        return ()

    def _process(self, event: Event) -> Iterable[str]:
        owner = event.actor, event.task
        if owner in self._times:
            self._times[owner] = max(self._times[owner], event.attributes["timestamp"])
            if owner in self._overdue:
                self._overdue[owner] = True
        return ()

    def _punctuate(self, event: Event) -> Iterator[str]:
        more, time = event.attributes, event.attributes["timestamp"]
        owner, schedule = (event.actor, event.task), (more["clock"], more["interval_ms"])
        clock, interval_ms = schedule
        schedules = self._due.setdefault(owner, {})
        due = schedules.get(schedule, (-1, 0) if clock == _STREAM_TIME else None)
        self.tried |= schedule in schedules
        if clock == _STREAM_TIME:
            self._times[owner] = max(time, self._times.get(owner, time))
            self._overdue.pop(owner, None)
        if due is not None and time <= due[0]:
            schedules[schedule] = _next(None, time, interval_ms)
            yield (
                f"task {event.task} punctuates by {clock} at {time}, but is to do so every "
                f"{interval_ms} ms, and not again before {due[0] + 1}"
            )
        else:
            schedules[schedule] = _next(due, time, interval_ms)

    def _commit(self, event: Event) -> Iterator[str]:
        if self.history.of_kafka:
            # A thread of Kafka also commits for reasons that no recording tells.
            return
        for task in event.attributes["tasks"]:
            owner = event.actor, task
            for (clock, interval_ms), due in self._due.get(owner, {}).items():
                if clock != _STREAM_TIME or self._times[owner] < due[1]:
                    continue
                if self._overdue.setdefault(owner, False):
                    yield (
                        f"task {task} is at stream time {self._times[owner]}, and does not "
                        f"punctuate every {interval_ms} ms: it was to do so at {due[1]}"
                    )


def _next(due: _Due | None, time: int, interval_ms: int) -> _Due:
    """When a punctuation is due after one at a time, as far as that is known."""
    if due is not None:
        late_ms = max(time - due[1], 0) // interval_ms * interval_ms
        after, latest = due[0] + late_ms, min(due[1] + late_ms, time)
        if time - after <= interval_ms:
            return after + interval_ms, latest + interval_ms
    return time, time + interval_ms
