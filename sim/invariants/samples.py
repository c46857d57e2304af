"""Recordings over the last windows of time, computed from events alone.

The simulated runtime measures with ``streamproof.stores.metrics``. Invariants judge its metrics, so
they compute the expected values here, by Kafka's formulas and without that module.

Source: Kafka, SampledStat, WindowedSum and Rate, with the default of two windows of 30 s.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Samples"]

_WINDOW_MS = 30_000
_KEPT_MS = 2 * _WINDOW_MS


@dataclass
class _Window:
    start: int
    count: int = 0
    total: int = 0


class Samples:
    """Values with their times.

    Attributes:
        total: the sum of all values since the beginning.
    """

    def __init__(self) -> None:
        self._windows: list[_Window] = []
        self.total = 0

    def record(self, now: int, value: int = 1) -> None:
        """Add a value, at a time in milliseconds."""
        if not self._windows or now - self._windows[-1].start >= _WINDOW_MS:
            self._windows = [*self._recent(now), _Window(now)]
        self._windows[-1].count += 1
        self._windows[-1].total += value
        self.total += value

    def recent_total(self, now: int) -> int:
        """The sum of the values in the last windows."""
        return sum(each.total for each in self._recent(now))

    def rate(self, now: int) -> float:
        """The sum of the values in the last windows per second."""
        return self.recent_total(now) / self._seconds(now)

    def calls(self, now: int) -> float:
        """The number of the values in the last windows per second."""
        return sum(each.count for each in self._recent(now)) / self._seconds(now)

    def _recent(self, now: int) -> list[_Window]:
        return [each for each in self._windows if each.start > now - _KEPT_MS]

    def _seconds(self, now: int) -> float:
        """The time since the first of the last windows began, and at least one whole window more.

        So a rate does not jump when the first values come.
        """
        recent = self._recent(now)
        elapsed = now - recent[0].start if recent else 0
        return (elapsed if elapsed >= _WINDOW_MS else elapsed + _WINDOW_MS) / 1000
