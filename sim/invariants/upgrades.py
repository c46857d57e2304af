"""Upgrades lose nothing: each process finds the offsets and the content of its predecessor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace import Event
from streamproof.sim.upgraded_formats import NEWER

__all__ = ["ClosedStoreKeepsItsOffset"]

Place = tuple[str, str, str, str]
"""A process, a task, the changelog of one of its stores, and the directory of the store."""


class ClosedStoreKeepsItsOffset(Invariant):
    """A cleanly closed store is opened with the offset that it had, by any release.

    An earlier offset would restore records again that the store has (KIP-1035, Upgrade and
    Downgrade). A store that had to be wiped in between starts over.
    """

    name = "a store that was closed cleanly is opened with the offset that it had"
    requirement = "UPGRADE-101"
    situation = "an older release opened two stores of a task that a newer one had closed for it"
    drawn_from: ClassVar = {
        "topologies": ["stream-stream-join"],
        "upgrades": ["offsets-down"],
        "plan": {"persistent": [True]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._closing: dict[tuple[str, str, str], int] = {}
        self._closed: dict[Place, int] = {}
        # By process, its release with its configuration; by closed store, that of its last owner.
        self._releases: dict[str, Mapping[str, Any]] = {}
        self._closed_by: dict[tuple[str, str, str], Mapping[str, Any]] = {}
        # By process, task and changelog: the directory that is open, and how far the newer format
        # beside it was built.
        self._open: dict[tuple[str, str, str], str] = {}
        self._rebuilt: dict[tuple[str, str, str], int] = {}
        self._in_memory: set[tuple[str, str, str]] = set()
        self._segmented: set[tuple[str, str, str]] = set()
        # By process and task, the changelogs of the stores that an older release went on with.
        self._gone_back: dict[tuple[str, str], set[str]] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "store.closing": self._close,
            "task.closed": self._confirm,
            "task.wiped": self._forget,
            "state.cleaned": self._forget,
            "store.opened": self._opened,
            "store.rebuilt": self._rebuild,
            "instance.started": self._start,
            "instance.crashed": self._crash,
            "disk.listed": self._list,
        }

    def _start(self, event: Event) -> Iterator[str]:
        self._releases[event.actor] = event.attributes
        yield from ()

    def _crash(self, event: Event) -> Iterator[str]:
        """Forget stores that were being built: they may be lost or wiped."""
        for here in [each for each in self._rebuilt if each[0] == event.actor]:
            del self._rebuilt[here]
        for here in [each for each in self._open if each[0] == event.actor]:
            del self._open[here]
        yield from ()

    def _list(self, event: Event) -> Iterator[str]:
        """Forget directories that are gone: an older format was deleted."""
        places = event.attributes["places"]
        for place in [each for each in self._closed if each[0] == event.process]:
            if place[3] not in places.get(place[1], ()):
                del self._closed[place]
        yield from ()

    def _rebuild(self, event: Event) -> Iterator[str]:
        self._rebuilt[_store(event)] = event.offset
        yield from ()

    def _close(self, event: Event) -> Iterator[str]:
        store = _store(event)
        # Each segment has the offset, so a store without rows may have no place for it.
        is_kept = event.attributes["rows"] or store not in self._segmented
        self._closing[store] = event.offset if is_kept else -1
        yield from ()

    def _confirm(self, event: Event) -> Iterator[str]:
        here = event.process, event.task
        for store in [each for each in self._closing if each[:2] == here]:
            offset, directory = self._closing.pop(store), self._open.get(store, "")
            # If a store could not be closed, its task is not closed cleanly, and the newer format
            # may be lost, too.
            if event.attributes["closing"] != "CLEAN":
                self._rebuilt.pop(store, None)
                continue
            if store in self._in_memory:
                continue
            self._closed[*store, directory] = offset
            self._closed_by[store] = self._releases.get(event.process, {})
            if store in self._rebuilt and not directory.endswith(NEWER):
                # The newer format, which was built beside it, goes on from where it was.
                self._closed[*store, f"{directory}{NEWER}"] = self._rebuilt[store]
        for store in [each for each in self._open if each[:2] == here]:
            del self._open[store]
        yield from ()

    def _forget(self, event: Event) -> Iterator[str]:
        here = event.process, event.task
        self._closed = {
            place: offset for place, offset in self._closed.items() if place[:2] != here
        }
        self._rebuilt = {
            store: offset for store, offset in self._rebuilt.items() if store[:2] != here
        }
        yield from ()

    def _opened(self, event: Event) -> Iterator[str]:
        store, directory = _store(event), event.attributes["place"]
        self._open[store] = directory
        if not event.attributes["persistent"]:
            self._in_memory.add(store)
        if event.attributes["segmented"]:
            self._segmented.add(store)
        if (*store, directory) in self._closed:
            now, before = self._releases.get(event.process, {}), self._closed_by[store]
            if before["manages_offsets"] and not now["manages_offsets"]:
                self._gone_back.setdefault(store[:2], set()).add(event.partition)
                self.tried |= len(self._gone_back[store[:2]]) > 1
        left = self._closed.pop((*store, directory), -1)
        # What was closed in the other format holds until that is opened again, or is built on.
        self._closed.pop((*store, f"{directory}{NEWER}"), None)
        if not event.attributes["wipe"] and max(event.offset, -1) < left:
            yield (
                f"the store of {event.partition} was closed by {store[0]} at offset {left}, but is "
                f"opened at offset {event.offset}"
            )


def _store(event: Event) -> tuple[str, str, str]:
    return event.process, event.task, event.partition
