"""What becomes of the stores on a disk: kept with their offsets, or deleted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory, suffix_of
from streamproof.sim.trace import Event

__all__ = [
    "OF_MODEL_STORES",
    "NoErrorWipesWhatIsStaged",
    "StoreResumesFromItsOffset",
    "WhatIsUncleanIsNotKept",
]

Place = tuple[str, str]
"""A process, and a changelog partition."""


class _OnDisk(Invariant):
    """An invariant that follows the persistent stores of the present release.

    Attributes:
        stages: whether stores stage their writes.
        is_proposal: whether the rules are those of the proposals.
    """

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self.stages = False
        self.is_proposal = True
        self._others: set[str] = set()
        # By process and task, the changelogs of its open stores.
        self._partitions: dict[tuple[str, str], set[str]] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "application.started": self._configured,
            "instance.started": self._started,
            "store.opened": self._opened,
            "store.flushed": self._flushed,
            "task.closed": self._closed,
            "disk.power_lost": self._lost_power,
            "state.cleaned": self._cleaned,
        }

    def _configured(self, event: Event) -> Iterator[str]:
        self.stages = event.attributes["transactional"]
        self.is_proposal = event.attributes["store_rules"] == "proposal"
        yield from ()

    def _started(self, event: Event) -> Iterator[str]:
        more = event.attributes
        if not more["manages_offsets"] or more["upgrade_from"] or more["formats"] != [1]:
            # Other releases keep offsets elsewhere, and other formats elsewhere again.
            self._others.add(event.actor)
            self._forget(event.actor)
        yield from ()

    def _opened(self, event: Event) -> Iterator[str]:
        if event.attributes["persistent"] and event.process not in self._others:
            yield from self._found_open(event)
            here = event.process, event.task
            self._partitions.setdefault(here, set()).add(event.partition)

    def _closed(self, event: Event) -> Iterator[str]:
        for partition in self._partitions.pop((event.process, event.task), ()):
            self._ended((event.process, partition), event.attributes["closing"])
        yield from ()

    def _flushed(self, event: Event) -> Iterator[str]:
        if event.partition in self._partitions.get((event.process, event.task), ()):
            self._written((event.process, event.partition))
        yield from ()

    def _lost_power(self, event: Event) -> Iterator[str]:
        self._forget(event.actor)
        yield from ()

    def _cleaned(self, event: Event) -> Iterator[str]:
        self._forget(event.actor, suffix_of(event.task))
        yield from ()

    def _found_open(self, event: Event) -> Iterable[str]:
        """Check a store that was opened."""
        return ()

    def _written(self, place: Place) -> None:
        """Note that the memory of a store reached the disk."""

    def _ended(self, place: Place, closing: str) -> None:
        """Note that a store was closed."""

    def _forget(self, process: str, suffix: str = "") -> None:
        """Expect nothing any more of the stores of a process whose changelog ends like this."""


class StoreResumesFromItsOffset(_OnDisk):
    """A store is opened with the offset that was on its disk (KIP-892, KIP-1035).

    Under exactly-once, a store that stages nothing has to be wiped unless it was closed cleanly.
    """

    name = "a store goes on from the offset that was on its disk"
    requirement = "TASK-053"
    situation = "a store was opened again whose disk had an offset"
    drawn_from: ClassVar = {"kinds": ["crash"], "settings": {"flush_probability": [0.5]}}

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._committed: dict[Place, int] = {}
        self._on_disk: dict[Place, int] = {}
        # By process, when its disk was full last: a store that was closed then wrote nothing.
        self._full: dict[str, int] = {}
        self._now = 0

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {**super().observers, "store.committed": self._commit, "disk.full": self._fill}

    def _commit(self, event: Event) -> Iterator[str]:
        self._committed[event.process, event.partition] = event.offset
        yield from ()

    def _fill(self, event: Event) -> Iterator[str]:
        self._full[event.actor] = event.time
        yield from ()

    def _closed(self, event: Event) -> Iterator[str]:
        self._now = event.time
        yield from super()._closed(event)

    def _found_open(self, event: Event) -> Iterator[str]:
        place = event.process, event.partition
        if event.attributes["segmented"]:
            # Each segment has an offset of its own, so the store may have to begin before the last.
            self._on_disk.pop(place, None)
            return
        expected = self._on_disk.get(place, -1)
        if expected >= 0:
            self.tried = True
        if event.offset < expected and expected >= 0:
            yield (
                f"the store of {event.partition} is opened by {event.process} with offset "
                f"{event.offset}, but its disk had offset {expected}: the store was lost or wiped"
            )
        if not self._keeps_after_errors:
            self._on_disk.pop(place, None)
        self._committed[place] = event.offset

    def _written(self, place: Place) -> None:
        if self._keeps_after_errors:
            self._on_disk[place] = self._committed.get(place, -1)

    def _ended(self, place: Place, closing: str) -> None:
        if closing == "CLEAN" or (closing == "DIRTY" and self._keeps_after_errors):
            if self._full.get(place[0]) != self._now:
                self._on_disk[place] = self._committed.get(place, -1)
        else:
            self._on_disk.pop(place, None)

    @property
    def _keeps_after_errors(self) -> bool:
        return self.stages or not self.history.exactly_once

    def _forget(self, process: str, suffix: str = "") -> None:
        for place in [each for each in self._on_disk if _is_of(each, process, suffix)]:
            del self._on_disk[place]


class WhatIsUncleanIsNotKept(_OnDisk):
    """Under exactly-once, a store that stages nothing starts empty unless it was closed cleanly."""

    name = "a store that was not closed cleanly starts empty"
    requirement = "TASK-003"
    situation = "a store that stages nothing was opened after a crash or an error"
    drawn_from: ClassVar = {
        "kinds": ["crash"],
        "settings": {"transactional": [False], "flush_probability": [0.5]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._unclean: set[Place] = set()

    @property
    def observers(self) -> Mapping[str, Observer]:
        if not self.history.exactly_once:
            return {}
        return {**super().observers, "store.found": self._found}

    def _written(self, place: Place) -> None:
        if not self.stages:
            self._unclean.add(place)

    def _ended(self, place: Place, closing: str) -> None:
        if closing == "CLEAN":
            self._unclean.discard(place)
        elif not self.stages:
            self._unclean.add(place)

    def _found(self, event: Event) -> Iterator[str]:
        place = event.process, event.partition
        if place not in self._unclean:
            return
        self.tried = True
        self._unclean.discard(place)
        rows = event.attributes["rows"]
        if rows or event.offset >= 0:
            yield (
                f"the store of {event.partition} in task {event.task} was not closed cleanly, but "
                f"is kept with {len(rows)} rows and offset {event.offset}"
            )

    def _forget(self, process: str, suffix: str = "") -> None:
        self._unclean = {each for each in self._unclean if not _is_of(each, process, suffix)}


class NoErrorWipesWhatIsStaged(_OnDisk):
    """As proposed, no error of the runtime wipes a store that stages its writes (KIP-892)."""

    name = "no error wipes a store that stages its writes"
    requirement = "TASK-054"
    situation = "a task whose stores stage their writes was closed after an error"
    drawn_from: ClassVar = {
        "kinds": ["crash", "cut"],
        "settings": {"transactional": [True], "store_rules": ["proposal"]},
    }

    @property
    def observers(self) -> Mapping[str, Observer]:
        if not self.history.exactly_once:
            return {}
        return {
            **super().observers,
            "task.wiped": self._wiped,
            "restore.start": self._starts,
            "update.start": self._starts,
            "log.deleted": self._deleted,
        }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # The tasks of which a store can never be complete, because its next record is gone.
        self._incomplete: set[tuple[str, str]] = set()
        # The tasks that were closed last, by process: only then does an error wipe them.
        self._ended_tasks: set[tuple[str, str]] = set()

    def _opened(self, event: Event) -> Iterator[str]:
        self._ended_tasks.discard((event.process, event.task))
        yield from super()._opened(event)

    def _closed(self, event: Event) -> Iterator[str]:
        here = event.process, event.task
        has_erred = event.attributes["closing"] != "CLEAN" and here not in self._incomplete
        self._incomplete.discard(here)
        if has_erred and self.stages and self.is_proposal:
            self.tried = True
            self._ended_tasks.add(here)
        yield from super()._closed(event)

    def _starts(self, event: Event) -> Iterator[str]:
        if event.attributes["start"] < self.history.forgotten.starts.get(event.partition, 0):
            self._incomplete.add((event.process, event.task))
        yield from ()

    def _deleted(self, event: Event) -> Iterator[str]:
        for process, copy in self.history.copies.following(event.partition):
            if copy.offset + 1 < event.offset:
                self._incomplete.add((process, copy.task))
        yield from ()

    def _wiped(self, event: Event) -> Iterator[str]:
        if (event.process, event.task) in self._ended_tasks:
            yield f"task {event.task} is wiped by {event.actor} after an error"


def _is_of(place: Place, process: str, suffix: str) -> bool:
    return place[0] == process and place[1].endswith(suffix)


OF_MODEL_STORES: tuple[type[Invariant], ...] = (
    StoreResumesFromItsOffset,
    WhatIsUncleanIsNotKept,
    NoErrorWipesWhatIsStaged,
)
"""The invariants that hold for model stores: a flush writes content and offset in one step."""
