"""The offsets of a log follow each other, so that no part of it is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import GROUP_TARGET, LogHistory
from streamproof.sim.trace import Event

__all__ = ["OffsetsAreContinuous"]


class OffsetsAreContinuous(Invariant):
    """Each record or marker of a partition has the offset after that of the one before.

    A log of the simulator cannot break this. Events that were collected from real brokers can, if a
    part of the log is missing, came twice, or is in the wrong order. This is no promise of a store.
    """

    name = "the offsets of a log follow each other"
    requirement = "EVENTS"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._last: dict[str, int] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {"log.appended": self._entry, "transaction.marker": self._entry}

    def _entry(self, event: Event) -> Iterator[str]:
        if event.partition.startswith(GROUP_TARGET):
            return
        before = self._last.get(event.partition, event.offset - 1)
        self._last[event.partition] = event.offset
        if event.offset != before + 1:
            yield f"{event.partition} has an entry at {event.offset} after the one at {before}"
