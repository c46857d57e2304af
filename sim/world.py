"""One simulated world: the objects that all of its parts share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streamproof.sim.actor_hosts import Host
from streamproof.sim.choices import Choices
from streamproof.sim.coverage_marks import MARKS, Marks
from streamproof.sim.defects import require_defects
from streamproof.sim.fault_sites import ACTIVATION, SITES, Faults
from streamproof.sim.time import VirtualTime
from streamproof.sim.trace import Trace, Watcher

__all__ = ["World"]


class World:
    """Time, choices, faults and the trace of one run.

    Args:
        choices: makes every open decision.
        watchers: functions that get each event.
        sites: the faults that may happen, with their probabilities.
        activation: the probability that a fault site is on; 0 is a world without faults.
        defects: the mistakes that the runtime makes, by name; usually none.

    Attributes:
        choices: makes every open decision.
        time: virtual time, in milliseconds.
        trace: takes the events of the run.
        faults: decides which faults happen.
        marks: counts the situations that the run has reached.
    """

    def __init__(
        self,
        choices: Choices,
        watchers: Iterable[Watcher] = (),
        *,
        sites: Mapping[str, float] = SITES,
        activation: float = ACTIVATION,
        defects: Iterable[str] = (),
    ) -> None:
        self._defects = require_defects(defects)
        self.choices = choices
        self.time = VirtualTime(choices)
        self.marks = Marks(MARKS)
        self.trace = Trace(lambda: self.time.now, [self.marks.see, *watchers])
        self.faults = Faults(choices, sites, activation)

    @property
    def now(self) -> int:
        """The time of the world. An actor sees only the clock of its host."""
        return int(self.time.now)

    def defect(self, name: str) -> bool:
        """Whether the runtime makes this mistake."""
        return name in self._defects

    def host(self, name: str, *, drift_ppm: int = 0) -> Host:
        """A new host."""
        return Host(self.time, name, drift_ppm=drift_ppm)
