"""The punctuations of a task.

Sources: KIP-138; Kafka, PunctuationQueue and StreamTask#schedule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from streamproof.errors import UsageError
from streamproof.sim.decisions.punctuation import next_punctuation
from streamproof.sim.topology import PunctuationType, Punctuator

__all__ = ["Punctuations"]


@dataclass
class _Schedule:
    """One punctuation.

    Attributes:
        due: when the punctuation is due next; ``None`` until the first look at the clock, from
            which the interval counts.
    """

    kind: PunctuationType
    interval_ms: int
    punctuator: Punctuator
    due: int | None


class Punctuations:
    """The punctuations of a task."""

    def __init__(self) -> None:
        self._schedules: list[_Schedule] = []

    def schedule(self, interval_ms: int, kind: PunctuationType, punctuator: Punctuator) -> None:
        """Call a punctuator at each interval; see ``ProcessorContext.schedule``."""
        if interval_ms < 1:
            raise UsageError(
                f"A punctuation every {interval_ms} ms is not possible; give at least 1 ms."
            )
        first = 0 if kind == "stream time" else None
        self._schedules.append(_Schedule(kind, interval_ms, punctuator, first))

    def due(self, kind: PunctuationType, now: int) -> Iterator[tuple[Punctuator, int]]:
        """The punctuators that are due now, with their intervals; the longest overdue first."""
        following = [each for each in self._schedules if each.kind == kind]
        for each in following:
            if each.due is None:
                each.due = now + each.interval_ms
        for each in sorted(following, key=lambda each: each.due or 0):
            if each.due is not None and each.due <= now:
                each.due = next_punctuation(each.due, now, each.interval_ms)
                yield each.punctuator, each.interval_ms

    @property
    def next_wall_clock(self) -> int | None:
        """When the next punctuation by the clock of the host is due; ``None`` without one."""
        due = (each.due or 0 for each in self._schedules if each.kind == "wall-clock time")
        return min(due, default=None)

    def clear(self) -> None:
        """Remove all punctuations."""
        self._schedules.clear()
