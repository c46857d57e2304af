"""What a punctuator writes has the time of its punctuation, and not that of a record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace import Event

__all__ = ["PunctuatedWritesHaveTheirTime"]

_Row = tuple[str, bytes, bytes | None]
"""A changelog, a key and a value."""


class PunctuatedWritesHaveTheirTime(Invariant):
    """A record of a changelog that only punctuators have written has the time of one of them.

    With record caches, nobody knows who has written what is flushed.
    """

    name = "what a punctuator writes has the time of its punctuation"
    requirement = "TASK-081"
    situation = "a record that only punctuators write came into a changelog"
    drawn_from: ClassVar = {
        "topologies": ["punctuated-count"],
        "settings": {"statestore_cache_max_bytes": [0]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._is_cached = False
        # By thread and task that is punctuated, the time; others process records.
        self._now: dict[tuple[str, str], int] = {}
        # By row, the times of the punctuations that have written it.
        self._times: dict[_Row, set[int]] = {}
        # The rows that are written without a punctuation, too.
        self._others: set[_Row] = set()

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "application.started": self._start,
            "task.punctuated": self._punctuate,
            "task.processed": self._process,
            "store.put": self._put,
            "log.appended": self._append,
        }

    def _start(self, event: Event) -> Iterable[str]:
        self._is_cached = event.attributes["statestore_cache_max_bytes"] > 0
        return ()

    def _punctuate(self, event: Event) -> Iterable[str]:
        self._now[event.actor, event.task] = event.attributes["timestamp"]
        return ()

    def _process(self, event: Event) -> Iterable[str]:
        self._now.pop((event.actor, event.task), None)
        return ()

    def _put(self, event: Event) -> Iterable[str]:
        row = event.partition, event.attributes["key"], event.attributes["value"]
        now = self._now.get((event.actor, event.task))
        if now is None:
            self._others.add(row)
        else:
            self._times.setdefault(row, set()).add(now)
        return ()

    def _append(self, event: Event) -> Iterable[str]:
        more = event.attributes
        row = event.partition, more["key"], more["value"]
        times = self._times.get(row)
        if times is None or row in self._others or self._is_cached:
            return ()
        self.tried = True
        if more["timestamp"] in times:
            return ()
        what = f"{event.partition} has {more['key']!r} = {more['value']!r}"
        when = f"timestamp {more['timestamp']}, but only punctuators wrote this, at {sorted(times)}"
        return [f"{what} with {when}"]
