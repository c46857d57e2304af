"""Roll-over upgrades: new instances copy, say that they are ready, and take over (KIP-258)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from streamproof.sim.invariants.invariant import Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.invariants.metadata_versions import PROBEABLE, has_newer_alone
from streamproof.sim.invariants.store_formats import Formats
from streamproof.sim.trace import Event
from streamproof.sim.upgraded_formats import NEWER

__all__ = ["CopiesTakeOverWhenReady", "MirrorsOnlyCopy", "ReadyCopiesAreComplete"]


class MirrorsOnlyCopy(Formats):
    """In a roll-over, instances of the newer format copy all tasks and run none (KIP-258).

    Otherwise there would be no way back, and tasks would run before they are restored. The reports
    are taken as their threads sent them, so a leader that misreads a report is found.
    """

    name = "instances of the newer format copy every task before they take one over"
    requirement = "UPGRADE-105"
    situation = "members with the newer format outnumbered those with the older one in a group"
    drawn_from: ClassVar = {
        "upgrades": ["format-roll-over"],
        "plan": {"instances": [2, 3]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By process, the versions and the formats in the reports of its threads. Those from before
        # a restart count, because the group keeps a dead member until its session times out.
        self._sent: dict[str, list[tuple[int, Mapping[str, list[int]] | None]]] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            **super().observers,
            "thread.subscribed": self._subscribe,
            "group.assigned": self._assigned,
        }

    def _subscribe(self, event: Event) -> Iterator[str]:
        used, formats = event.attributes["used"], event.attributes["formats"]
        self._sent.setdefault(event.process, []).append((used, formats))
        yield from ()

    def _formats(self, member: Mapping[str, Any]) -> Mapping[str, list[int]] | None:
        """The formats of a member: those that the leader read, if some thread has sent them."""
        read: tuple[int, Mapping[str, list[int]] | None] = member["used"], member["formats"]
        sent = self._sent.get(member["process"], [read])
        _, found = read if read in sent else sent[-1]
        return found

    def _assigned(self, event: Event) -> Iterator[str]:
        members = {
            name: each for name, each in event.attributes["members"].items() if not each["probed"]
        }
        both = {
            each["process"] for each in members.values() if not has_newer_alone(self._formats(each))
        }
        newer = {name: each for name, each in members.items() if each["process"] not in both}
        if not newer or all(each["used"] >= PROBEABLE for each in members.values()):
            return
        # Old instances stop one after the other, so the new ones outnumber them for a while.
        self.tried |= len(newer) > len(members) - len(newer)
        for name, each in newer.items():
            if each["active"]:
                yield f"{name} has only the newer format, but already gets {each['active']}"
        copied = {task for each in newer.values() for task in each["standby"]}
        for task in event.attributes["ends"]:
            if task not in copied:
                yield f"no member with the newer format copies task {task}"


class _Copies(Formats):
    """An invariant that knows how far the copies are.

    Attributes:
        changelogs: the changelogs of all stateful tasks.
        targets: by process and changelog, the last record that a copy could read when it was
            opened.
        offsets: by process and changelog, the last record that the store has.
        said: the present processes that have said that they are ready.
    """

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self.changelogs: list[str] = []
        self.targets: dict[tuple[str, str], int] = {}
        self.offsets: dict[tuple[str, str], int] = {}
        self.said: set[str] = set()
        # By partition and producer, the first record of its transaction without a marker.
        self._unmarked: dict[tuple[str, int], int] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            **super().observers,
            "store.restored": self._restore,
            "instance.ready": self._ready,
            "log.appended": self._append,
            "transaction.marker": self._mark,
        }

    def _begin(self, event: Event) -> Iterator[str]:
        yield from super()._begin(event)
        for each in event.attributes["changelogs"].values():
            self.changelogs += each

    def _append(self, event: Event) -> Iterator[str]:
        if event.attributes["transactional"]:
            here = event.partition, event.attributes["producer"]
            self._unmarked.setdefault(here, event.offset)
        yield from ()

    def _mark(self, event: Event) -> Iterator[str]:
        self._unmarked.pop((event.partition, event.attributes["producer"]), None)
        yield from ()

    def _end(self, event: Event) -> Iterator[str]:
        yield from super()._end(event)
        self.said.discard(event.actor)

    def _open(self, event: Event) -> Iterator[str]:
        yield from super()._open(event)
        here = event.process, event.partition
        self.targets[here] = self._last_stable(event.partition)
        # A store without an offset may have one of several numbers below 0.
        self.offsets[here] = max(event.offset, -1)

    def _restore(self, event: Event) -> Iterator[str]:
        self.offsets[event.process, event.partition] = event.offset
        yield from ()

    def _ready(self, event: Event) -> Iterator[str]:
        self.said.add(event.actor)
        yield from ()

    def _last_stable(self, partition: str) -> int:
        """The last record of a changelog that any reader may see; -1 without one."""
        stable = self.history.log(partition).end
        if self.history.exactly_once:
            unmarked = (each for (name, _), each in self._unmarked.items() if name == partition)
            stable = min(unmarked, default=stable)
        if not partition.rpartition("-")[0].endswith("-changelog"):
            # A copy of an input lacks records that its active task has not committed.
            stable = min(stable, self.history.committed.get(partition, 0))
        return self.history.last_kept(partition, stable)

    def _lacks(self, process: str, partition: str) -> bool:
        here = process, partition
        return self.offsets.get(here, -1) < self.targets.get(here, -1)


class ReadyCopiesAreComplete(_Copies):
    """A new instance says that it is ready once its copies have all that there was to copy."""

    name = "an instance that says that it is ready has complete copies"
    requirement = "UPGRADE-114"
    situation = "a new instance of a roll-over had copied a store"
    drawn_from: ClassVar = {"upgrades": ["format-roll-over"]}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {**super().observers, "upgrade.awaited": self._awaited}

    def _ready(self, event: Event) -> Iterator[str]:
        yield from super()._ready(event)
        process, said = event.actor, event.attributes["copies"]
        if not any(thread.startswith(f"{process}/") for thread in self.versions):
            yield f"{process} says that it is ready, but has no assignment yet"
        for owner, partition in self.stores:
            if owner != process:
                continue
            self.tried = True
            if partition not in said:
                yield f"{process} says that it is ready, but does not name its copy of {partition}"
            elif self._lacks(process, partition):
                yield (
                    f"{process} says that it is ready, but its copy of {partition} ends at offset "
                    f"{self.offsets[process, partition]}, and there was offset "
                    f"{self.targets[process, partition]} when it was opened"
                )

    def _awaited(self, event: Event) -> Iterator[str]:
        if event.attributes["message"] == "instance.ready":
            for process in sorted(set(event.attributes["instances"]) - self.said):
                yield f"{process} has never said that its copies are ready"


class CopiesTakeOverWhenReady(_Copies):
    """The first old instance is stopped when new instances have complete copies of all stores.

    A copy that was complete when its process said so may start over before that, as a state updater
    can die. The operator has waited for what was said.
    """

    name = "old instances are stopped when new ones are ready to take over"
    requirement = "UPGRADE-115"
    situation = "old instances of a roll-over were stopped"
    drawn_from: ClassVar = {"upgrades": ["format-roll-over"]}

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._has_begun = False
        # By process and changelog, the copies that were complete when their process said so.
        self._complete: set[tuple[str, str]] = set()

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {**super().observers, "instance.retired": self._retire}

    def _ready(self, event: Event) -> Iterator[str]:
        yield from super()._ready(event)
        self._complete.update(
            here for here in self.stores if here[0] == event.actor and self._is_complete(*here)
        )

    def _end(self, event: Event) -> Iterator[str]:
        yield from super()._end(event)
        self._complete = {here for here in self._complete if here[0] != event.actor}

    def _is_complete(self, process: str, partition: str) -> bool:
        """Whether an open store of a process is a copy in the newer format that lacks nothing."""
        store = self.stores[process, partition]
        is_newer = store.place.endswith(NEWER) or not store.persistent
        is_copy = is_newer and self.configured(process) == [2]
        return is_copy and not self._lacks(process, partition)

    def _retire(self, event: Event) -> Iterator[str]:
        if self._has_begun:
            # A new instance may die while the old ones are stopped, one after the other.
            return
        self._has_begun = self.tried = True
        complete = self._complete | {
            here for here in self.stores if here[0] in self.said and self._is_complete(*here)
        }
        copied = {partition for _, partition in complete}
        for partition in self.changelogs:
            if partition not in copied:
                yield f"{event.actor} is stopped, but no new instance is ready with {partition}"
