"""Marks: situations that *some* run must reach; without them, an exploration has a blind spot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from streamproof.errors import UsageError
from streamproof.sim.trace import Event

__all__ = ["MARKS", "Marks"]

MARKS = (
    "a batch was refused for one partition and taken for another",
    "a changelog was compacted",
    "a disk was full",
    "a changelog had lost the next record of a store",
    "a commit was requested before it was due",
    "a corrupted task was offered to the group",
    "a directory was too old when its process started",
    "a fetch was throttled",
    "a member had to give tasks up before its epoch",
    "a member left because its thread did not poll in time",
    "a member that the group still had joined anew",
    "a member waited for the task of another",
    "a metadata version was probed",
    "a global store that was not closed was read anew",
    "a leader did not know the lag of a client",
    "a leader took a committed offset for the end of an input",
    "a loss of power took what was flushed",
    "a newer format was prepared while the older one was served",
    "a process died before it had wiped a task",
    "a punctuation was due",
    "a record was given up, and its transaction was aborted",
    "a record that could not be processed was left out",
    "a reply was lost after the request was carried out",
    "a request arrived after its sender had died",
    "a request arrived after its sender had given it up",
    "a request came to a coordinator that was away",
    "a request that came too late was refused",
    "a request was lost before it was carried out",
    "a restoration was suspended",
    "a segment of a window store was flushed before another",
    "a standby became an active task with its stores open",
    "a standby was held back at the committed offset",
    "a state updater died",
    "a static member took the place of its predecessor",
    "a static member waited for its predecessor",
    "a store had missed a tombstone",
    "a task idled",
    "a task that had run before became active again with its stores open",
    "a task waited for a lag that was not known",
    "a task waited for records that the broker had",
    "a task was committed while it was restored",
    "a task went on without an empty input",
    "a task whose offsets were not to be had waited",
    "a task whose directory was taken waited",
    "a thread died and was replaced",
    "a thread died because a task got no answer for too long",
    "a transaction was aborted because it took too long",
    "a transactional id expired",
    "an output record was too large for its topic",
    "an active task became a standby with its stores open",
    "an instance was restarted with another release",
    "an input was paused because its buffer was full",
    "an input was reset because its position was gone",
    "committed records of a repartition topic were deleted",
    "new instances took over from old ones",
    "old records of a changelog were deleted",
    "old records of an input or an output were deleted",
    "one partition showed a transaction before another did",
    "two requests of a producer were on their way",
    "the directory of a task was cleaned up",
    "the group looked again at what was on its way",
    "the topic of a global store had lost its next record",
)
"""The situations that an exploration must have reached."""


EVENT_MARKS: dict[str, str] = {
    "output.refused": "an output record was too large for its topic",
    "record.dropped": "a record that could not be processed was left out",
    "input.paused": "an input was paused because its buffer was full",
    "task.enforced": "a task went on without an empty input",
    "task.punctuated": "a punctuation was due",
}
"""The marks that each event of a kind hits."""

WAITING_MARKS: dict[str, str] = {
    "data on the broker": "a task waited for records that the broker had",
    "idling": "a task idled",
    "lag unknown": "a task waited for a lag that was not known",
}
"""The marks of a waiting task, by the reason of the wait."""


class Marks:
    """Counts how often a run reached each situation.

    Args:
        names: the names of all marks.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._hits: Counter[str] = Counter(dict.fromkeys(names, 0))

    def sometimes(self, name: str, *, holds: bool = True) -> None:
        """Count a situation, if ``holds``.

        Raises:
            UsageError: no mark has this name.
        """
        if name not in self._hits:
            raise UsageError(f"There is no mark {name!r}; add it to MARKS.")
        self._hits[name] += holds

    def see(self, event: Event) -> None:
        """Count the situations that an event shows."""
        if event.kind in EVENT_MARKS:
            self.sometimes(EVENT_MARKS[event.kind])
        elif event.kind == "task.waiting":
            for reason in event.attributes["waiting"].values():
                self.sometimes(WAITING_MARKS[reason])

    def add(self, hits: Mapping[str, int]) -> None:
        """Add the hits of another run, to sum up many runs."""
        self._hits.update(hits)

    @property
    def hits(self) -> dict[str, int]:
        """The number of hits of each mark, by name."""
        return dict(sorted(self._hits.items()))

    @property
    def never(self) -> list[str]:
        """The marks without a hit."""
        return [name for name, count in self.hits.items() if not count]
