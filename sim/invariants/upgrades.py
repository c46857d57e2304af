"""Upgrades lose nothing: each process finds the offsets and the content of its predecessor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace import Event

__all__ = ["ClosedStoreKeepsItsOffset", "MirrorsOnlyCopy"]

Place = tuple[str, str, str]
"""A process, a task, and the changelog of one of its stores."""


class ClosedStoreKeepsItsOffset(Invariant):
    """A cleanly closed store is opened with the offset that it had, by any release.

    An earlier offset would restore records again that the store has (KIP-1035, Upgrade and
    Downgrade). A store that had to be wiped in between starts over.
    """

    name = "a store that was closed cleanly is opened with the offset that it had"
    requirement = "UPGRADE-101"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._closing: dict[Place, int] = {}
        self._closed: dict[Place, int] = {}
        self._rebuilt: dict[Place, int] = {}
        # The processes that have switched to a newer format.
        self._timestamped: set[str] = set()
        self._in_memory: set[Place] = set()

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "store.closing": self._close,
            "task.closed": self._confirm,
            "task.wiped": self._forget,
            "state.cleaned": self._forget,
            "store.opened": self._open,
            "store.rebuilt": self._rebuild,
            "instance.started": self._start,
            "instance.crashed": self._crash,
        }

    def _crash(self, event: Event) -> Iterator[str]:
        """Forget stores that were being built: they may be lost or wiped."""
        for place in [each for each in self._rebuilt if each[0] == event.actor]:
            del self._rebuilt[place]
        yield from ()

    def _rebuild(self, event: Event) -> Iterator[str]:
        self._rebuilt[_place(event)] = event.offset
        yield from ()

    def _start(self, event: Event) -> Iterator[str]:
        """A newer format continues from the offset up to which it was built."""
        if event.attributes["formats"] == [2] and event.actor not in self._timestamped:
            self._timestamped.add(event.actor)
            for place in [each for each in self._closed if each[0] == event.actor]:
                self._closed[place] = self._rebuilt.get(place, -1)
        yield from ()

    def _close(self, event: Event) -> Iterator[str]:
        self._closing[_place(event)] = event.offset
        yield from ()

    def _confirm(self, event: Event) -> Iterator[str]:
        here = event.process, event.task
        for place in [each for each in self._closing if each[:2] == here]:
            offset = self._closing.pop(place)
            # If a store could not be closed, its task is not closed cleanly.
            if event.attributes["closing"] == "CLEAN" and place not in self._in_memory:
                self._closed[place] = offset
        yield from ()

    def _forget(self, event: Event) -> Iterator[str]:
        here = event.process, event.task
        for places in (self._closed, self._rebuilt):
            for place in [each for each in places if each[:2] == here]:
                del places[place]
        yield from ()

    def _open(self, event: Event) -> Iterator[str]:
        place = _place(event)
        if not event.attributes["persistent"]:
            self._in_memory.add(place)
        left = self._closed.pop(place, -1)
        if not event.attributes["wipe"] and max(event.offset, -1) < left:
            yield (
                f"the store of {event.partition} was closed by {place[0]} at offset {left}, but is "
                f"opened at offset {event.offset}"
            )


def _place(event: Event) -> Place:
    return event.process, event.task, event.partition


class MirrorsOnlyCopy(Invariant):
    """In a rolling upgrade, instances of the newer format copy all tasks and run none (KIP-258).

    Otherwise there would be no way back, and tasks would run before they are restored.
    """

    name = "instances of the newer format copy every task before they take one over"
    requirement = "UPGRADE-105"

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {"group.assigned": self._assigned}

    def _assigned(self, event: Event) -> Iterator[str]:
        members = event.attributes["members"]
        newer = {name: each for name, each in members.items() if each["formats"] == [2]}
        if not newer or all(each["formats"] != [1] for each in members.values()):
            return
        for name, each in newer.items():
            if each["active"]:
                yield f"{name} has only the newer format, but already gets {each['active']}"
        copied = {task for each in newer.values() for task in each["standby"]}
        for task in event.attributes["ends"]:
            if task not in copied:
                yield f"no member with the newer format copies task {task}"
