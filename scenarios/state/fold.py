"""The state at any moment of a run, folded from its events alone.

Nothing is run again: each event is applied to the state before it. So a trace that was read from a
file can be looked into as well as a run that has just ended.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from streamproof.scenarios.recorded_run import RecordedRun
from streamproof.sim.event_kinds import KINDS, Absent
from streamproof.sim.run_state import Moment
from streamproof.sim.trace import Event

__all__ = ["Moments", "moments", "take_in"]

SNAPSHOT_EVERY = 1_000
"""So many events at most are taken in to get to a moment from one that was kept."""


def take_in(moment: Moment, event: Event) -> None:
    """Apply an event to the state before it. An event of an unknown kind changes nothing."""
    moment.sequence, moment.time = event.sequence, event.time
    kind = KINDS.get(event.kind)
    if kind is not None and not isinstance(kind.effect, Absent):
        kind.effect(moment, event)


class Moments:
    """All moments of a run, each of them within reach.

    Args:
        events: of the run, in order.
        defects: the mistakes that the runtime has made.
    """

    def __init__(self, events: Sequence[Event], defects: Iterable[str] = ()) -> None:
        self._events = events
        # Before the first event, and after each thousandth, as far as it was asked for.
        self._kept = [Moment(defects)]

    def at(self, sequence: int) -> Moment:
        """The moment right after an event.

        Args:
            sequence: of the event; before the first one it is the beginning, past the last the end.
        """
        count = bisect_right(self._events, sequence, key=lambda event: event.sequence)
        nearest = count // SNAPSHOT_EVERY
        while len(self._kept) <= nearest:
            self._keep()
        return self._after(nearest, count)

    def _keep(self) -> None:
        """Keep the next moment."""
        count = len(self._kept) * SNAPSHOT_EVERY
        self._kept.append(self._after(len(self._kept) - 1, count))

    def _after(self, kept: int, count: int) -> Moment:
        """The moment after so many events, from one that was kept."""
        moment = self._kept[kept].copy()
        for event in self._events[kept * SNAPSHOT_EVERY : count]:
            take_in(moment, event)
        return moment


def moments(played: RecordedRun) -> Moments:
    """All moments of a run."""
    return Moments(played.events, played.defects)
