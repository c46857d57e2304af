"""The state at any moment of a run, folded from its events.

Nothing runs again: each event is applied to the state before it. So a trace from a file can be
examined as well as a run that has just ended.
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
"""The number of events between two snapshots, and so the most events to apply for a moment. More
snapshots would take more memory."""


def take_in(moment: Moment, event: Event) -> None:
    """Apply an event to the state before it. An event of an unknown kind changes nothing."""
    moment.sequence, moment.time = event.sequence, event.time
    kind = KINDS.get(event.kind)
    if kind is not None and not isinstance(kind.effect, Absent):
        kind.effect(moment, event)


class Moments:
    """The moments of a run, each of which is folded from the nearest snapshot before it.

    Args:
        events: the events of the run, in order.
        defects: the defects that were switched on in the runtime.
    """

    def __init__(self, events: Sequence[Event], defects: Iterable[str] = ()) -> None:
        self._events = events
        # Snapshots before the first event and after each thousandth, made when first needed.
        self._kept = [Moment(defects)]

    def at(self, sequence: int) -> Moment:
        """The moment right after an event.

        Args:
            sequence: the number of the event. A smaller number than the first one gives the
                beginning, a larger one than the last the end.
        """
        count = bisect_right(self._events, sequence, key=lambda event: event.sequence)
        nearest = count // SNAPSHOT_EVERY
        while len(self._kept) <= nearest:
            self._keep()
        return self._after(nearest, count)

    def _keep(self) -> None:
        """Make and keep the next snapshot."""
        count = len(self._kept) * SNAPSHOT_EVERY
        self._kept.append(self._after(len(self._kept) - 1, count))

    def _after(self, kept: int, count: int) -> Moment:
        """The moment after a number of events, folded from a snapshot."""
        moment = self._kept[kept].copy()
        for event in self._events[kept * SNAPSHOT_EVERY : count]:
            take_in(moment, event)
        return moment


def moments(played: RecordedRun) -> Moments:
    """All moments of a run."""
    return Moments(played.events, played.defects)
