"""What listeners hear of restorations: each batch as it was applied, and an end only if it is one.

The rows and offsets of the stores are known from other events, and the ends from the logs. So a
listener that hears wrong numbers is noticed even if the metrics agree with these numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace import Event

__all__ = ["BatchesAreHeardAsApplied", "EndsAreHeardWhenNothingIsLeft"]

_Place = tuple[str, str]
"""A process, and a changelog partition."""


class BatchesAreHeardAsApplied(Invariant):
    """A batch is told with the offset and the number of records that the store has taken."""

    name = "a listener hears the last offset and the number of records of each batch"
    requirement = "LISTEN-103"
    situation = "a batch of several records was restored"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # The batches that were applied and not told yet: offset and number of records.
        self._applied: dict[_Place, tuple[int, int]] = {}
        # How many records were applied since the restoration began.
        self._totals: dict[_Place, int] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "restore.start": self._start,
            "store.restored": self._restored,
            "restore.batch": self._batch,
            "update.batch": self._batch,
            "restore.end": self._end,
            "restore.suspended": self._end,
        }

    def _start(self, event: Event) -> Iterator[str]:
        self._totals[event.process, event.partition] = 0
        yield from ()

    def _restored(self, event: Event) -> Iterable[str]:
        place, records = (event.process, event.partition), event.attributes["records"]
        self._applied[place] = event.offset, records
        self._totals[place] = self._totals.get(place, 0) + records
        self.tried |= records > 1
        return ()

    def _batch(self, event: Event) -> Iterable[str]:
        told = event.offset, event.attributes["records"]
        applied = self._applied.pop((event.process, event.partition), None)
        if applied == told:
            return ()
        was = "nothing" if applied is None else f"{applied[1]} records up to {applied[0]}"
        heard = f"{told[1]} records of {event.partition} up to {told[0]}"
        return [f"a listener of {event.actor} hears of {heard}, but the store has taken {was}"]

    def _end(self, event: Event) -> Iterator[str]:
        total = self._totals.get((event.process, event.partition), 0)
        if event.attributes["total"] != total:
            yield (
                f"a listener of {event.actor} hears of {event.attributes['total']} records of "
                f"{event.partition} in all, but {total} were restored"
            )


class EndsAreHeardWhenNothingIsLeft(Invariant):
    """A restoration is told to have ended only if the store has all records before its end."""

    name = "a listener hears of the end of a restoration only if nothing is left to restore"
    requirement = "LISTEN-103"
    situation = "a restoration with records ended"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By place, the next offset to restore, and the end.
        self._next: dict[_Place, int] = {}
        self._ends: dict[_Place, int] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "restore.start": self._start,
            "store.restored": self._restored,
            "restore.end": self._end,
        }

    def _start(self, event: Event) -> Iterator[str]:
        place = event.process, event.partition
        self._next[place], self._ends[place] = event.attributes["start"], event.attributes["end"]
        yield from ()

    def _restored(self, event: Event) -> Iterable[str]:
        self._next[event.process, event.partition] = event.offset + 1
        return ()

    def _end(self, event: Event) -> Iterator[str]:
        place, partition = (event.process, event.partition), event.partition
        end = self._ends.get(place, 0)
        self.tried |= end > 0
        start = max(self._next.get(place, 0), self.history.forgotten.starts.get(partition, 0))
        # What a compaction has met may be gone, as a later record may take its place.
        start = max(start, self.history.compacted.get(partition, 0))
        left = next(iter(self.history.visible(partition, start)), None)
        if left is not None and left.offset < end:
            yield (
                f"a listener of {event.actor} hears that {partition} is restored up to {end}, but "
                f"the record at {left.offset} was not"
            )
