"""The formats of stores during an upgrade: which one is live, built and deleted (KIP-258)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.invariants.metadata_versions import NAMES_FORMATS, PROBEABLE
from streamproof.sim.trace import Event
from streamproof.sim.upgraded_formats import NEWER

__all__ = [
    "LiveFormatIsThatOfTheAssignment",
    "OlderFormatIsDeletedInTime",
    "OnlyAnUpgradeInPlaceBuilds",
    "PreparedStoresAreBuilt",
]


class OpenStore(NamedTuple):
    """A store that a thread has open.

    Attributes:
        thread: the thread.
        task: its task.
        place: its directory.
        offset: the offset that it was opened with; below 0 without one.
        persistent: whether it is on the disk.
    """

    thread: str
    task: str
    place: str
    offset: int
    persistent: bool


class Formats(Invariant):
    """An invariant that knows processes, their open stores, and the answers to their threads.

    Attributes:
        live_format: what decides which format is live.
        releases: the attributes of ``instance.started``, by process.
        stores: the open stores by process and changelog.
        versions: the metadata version of the last assignment, by thread of a present process. An
            assignment that a thread lost before it had taken it does not count.
    """

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self.live_format = ""
        self.releases: dict[str, Mapping[str, Any]] = {}
        self.stores: dict[tuple[str, str], OpenStore] = {}
        self.versions: dict[str, int] = {}
        # By thread with an assignment that it has not taken yet, the version of the one before.
        self._versions_before: dict[str, int] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "application.started": self._begin,
            "instance.started": self._start,
            "instance.crashed": self._end,
            "instance.stopped": self._end,
            "thread.answered": self._answer,
            "thread.lost": self._lose,
            "thread.died": self._die,
            "disk.listed": self._list,
            "store.opened": self._open,
            "task.closed": self._close,
        }

    def _begin(self, event: Event) -> Iterator[str]:
        self.live_format = event.attributes["live_format"]
        yield from ()

    def _start(self, event: Event) -> Iterator[str]:
        self.releases[event.actor] = event.attributes
        yield from self._end(event)

    def _end(self, event: Event) -> Iterator[str]:
        self.stores = {here: each for here, each in self.stores.items() if here[0] != event.actor}
        prefix = f"{event.actor}/"
        self.versions, self._versions_before = (
            {thread: each for thread, each in known.items() if not thread.startswith(prefix)}
            for known in (self.versions, self._versions_before)
        )
        yield from ()

    def _answer(self, event: Event) -> Iterator[str]:
        if not event.attributes["empty"]:
            self._versions_before[event.actor] = self.versions.get(event.actor, 0)
            self.versions[event.actor] = event.attributes["version"]
        yield from ()

    def _lose(self, event: Event) -> Iterator[str]:
        """A thread has lost its place in the group, perhaps in the middle of an assignment."""
        if event.actor in self._versions_before:
            self.versions[event.actor] = self._versions_before.pop(event.actor)
        yield from ()

    def _list(self, event: Event) -> Iterator[str]:
        """A thread reports the disk once it has taken an assignment, and when it joins."""
        self._versions_before.pop(event.actor, None)
        yield from ()

    def _die(self, event: Event) -> Iterator[str]:
        # The thread that replaces it has got no assignment yet.
        self.versions.pop(event.actor, None)
        self._versions_before.pop(event.actor, None)
        yield from ()

    def _open(self, event: Event) -> Iterator[str]:
        more = event.attributes
        self.stores[event.process, event.partition] = OpenStore(
            event.actor, event.task, more["place"], event.offset, more["persistent"]
        )
        yield from ()

    def _close(self, event: Event) -> Iterator[str]:
        self.stores = {
            here: each
            for here, each in self.stores.items()
            if (here[0], each.task) != (event.process, event.task)
        }
        yield from ()

    def _waits(self, process: str) -> bool:
        """Whether the assignment decides which format of a process is live."""
        return self.live_format == "assignment" and self.configured(process) == [2]

    def configured(self, process: str) -> list[int]:
        """The formats that the configuration of a process asks for, the live one first."""
        release = self.releases[process]
        if release["release"] != NAMES_FORMATS:
            return [1]
        mode = release["upgrade_mode"] if release["upgrade_from"] else ""
        return {"in_place": [1, 2], "roll_over": [1]}.get(mode, [2])


class LiveFormatIsThatOfTheAssignment(Formats):
    """An assignment in version 3 makes the newer format live, and an older one leaves the older.

    While an upgrade is prepared, the older format is live in any case. Where the configuration
    decides, the newer format is live without ``upgrade.mode``.
    """

    name = "the format that is live is that of the assignment"
    requirement = "UPGRADE-110"
    situation = "an instance had prepared the newer format, and older members remained"
    drawn_from: ClassVar = {
        "upgrades": ["format-in-place"],
        "plan": {"persistent": [True]},
        "settings": {"live_format": ["assignment"]},
    }

    def _open(self, event: Event) -> Iterator[str]:
        yield from super()._open(event)
        yield from self._judge(event.process, event.partition)

    def _list(self, event: Event) -> Iterator[str]:
        """No store of a thread is open in another format than that of the assignment it took."""
        yield from super()._list(event)
        for (process, partition), each in self.stores.items():
            if each.thread == event.actor:
                yield from self._judge(process, partition)

    def _judge(self, process: str, partition: str) -> Iterator[str]:
        store = self.stores[process, partition]
        is_newer = self.configured(process) == [2]
        version = self.versions.get(store.thread, 0)
        if self._waits(process):
            is_newer = version >= PROBEABLE
            self.tried |= not is_newer
        if store.persistent and store.place.endswith(NEWER) is not is_newer:
            yield (
                f"{store.thread} serves {partition} from {store.place}, "
                f"but its last assignment has version {version}"
            )


class OlderFormatIsDeletedInTime(Formats):
    """An assignment in version 3 deletes the directories of the older format; nothing else does."""

    name = "the older format is deleted by an assignment in version 3, and not before"
    requirement = "UPGRADE-111"
    situation = "an assignment in version 3 reached an instance with both formats"
    drawn_from: ClassVar = {
        "upgrades": ["format-in-place", "format-offline"],
        "plan": {"persistent": [True]},
        "settings": {"live_format": ["assignment"]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By process and task, the directories of the older format that its disk had last.
        self._older: dict[tuple[str, str], set[str]] = {}
        # The processes that ever got version 3: their directories may be gone at any time.
        self._upgraded: set[str] = set()
        # By thread of a present process, whether it has taken an assignment in version 3.
        self._is_done: dict[str, bool] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            **super().observers,
            "task.wiped": self._forget,
            "state.cleaned": self._forget,
        }

    def _end(self, event: Event) -> Iterator[str]:
        yield from super()._end(event)
        prefix = f"{event.actor}/"
        self._is_done = {
            thread: each for thread, each in self._is_done.items() if not thread.startswith(prefix)
        }

    def _forget(self, event: Event) -> Iterator[str]:
        self._older.pop((event.process, event.task), None)
        yield from ()

    def _open(self, event: Event) -> Iterator[str]:
        yield from super()._open(event)
        place = event.attributes["place"]
        if event.attributes["persistent"] and not place.endswith(NEWER):
            self._older.setdefault((event.process, event.task), set()).add(place)

    def _answer(self, event: Event) -> Iterator[str]:
        yield from super()._answer(event)
        self._is_done[event.actor] = False
        if self.versions.get(event.actor, 0) >= PROBEABLE and self._waits(event.process):
            self._upgraded.add(event.process)
            self.tried |= any(
                owner == event.process and bool(places)
                for (owner, _), places in self._older.items()
            )

    def _die(self, event: Event) -> Iterator[str]:
        yield from super()._die(event)
        self._is_done[event.actor] = False

    def _list(self, event: Event) -> Iterator[str]:
        yield from super()._list(event)
        if self.live_format != "assignment":
            return
        places = event.attributes["places"]
        yield from self._judge_open_stores(event.process, places)
        older = {
            task: {each for each in names if not each.endswith(NEWER)}
            for task, names in places.items()
        }
        yield from self._judge_deleted(event.process, older)
        if event.actor in self._is_done:
            self._is_done[event.actor] = self.versions.get(event.actor, 0) >= PROBEABLE
        yield from self._judge_kept(event.process, older)

    def _judge_open_stores(
        self, process: str, places: Mapping[str, Sequence[str]]
    ) -> Iterator[str]:
        for (owner, partition), store in self.stores.items():
            is_mine = owner == process and store.persistent
            if is_mine and store.place not in places.get(store.task, ()):
                yield f"{store.thread} serves {partition} from {store.place}, which is gone"

    def _judge_deleted(self, process: str, older: Mapping[str, set[str]]) -> Iterator[str]:
        for (owner, task), places in list(self._older.items()):
            gone = places - older.get(task, set())
            if owner == process and gone and process not in self._upgraded:
                yield f"{process} deleted {sorted(gone)} of task {task} before version 3"
        self._older |= {(process, task): places for task, places in older.items()}

    def _judge_kept(self, process: str, older: Mapping[str, set[str]]) -> Iterator[str]:
        threads = [each for each in self._is_done if each.startswith(f"{process}/")]
        if not self._waits(process) or not threads or not all(map(self._is_done.get, threads)):
            return
        for task, places in older.items():
            if places:
                yield f"{process} got version 3, but keeps {sorted(places)} of task {task}"


class PreparedStoresAreBuilt(Formats):
    """An instance says that it is prepared once it has built all its stores, standbys included.

    In an upgrade in place every instance says so some time: an operator who waits for that does not
    wait in vain.
    """

    name = "an instance that says that it is prepared has built all its stores"
    requirement = "UPGRADE-112"
    situation = "an instance with a standby had prepared the newer format of its stores"
    drawn_from: ClassVar = {
        "upgrades": ["format-in-place"],
        "plan": {"persistent": [True], "instances": [2, 3]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._said: set[str] = set()
        self._built: dict[tuple[str, str], int] = {}
        self._standbys: dict[str, list[str]] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            **super().observers,
            "store.rebuilt": self._build,
            "instance.prepared": self._prepared,
            "upgrade.awaited": self._awaited,
            "thread.assigned": self._assign,
        }

    def _assign(self, event: Event) -> Iterator[str]:
        self._standbys[event.actor] = event.attributes["standby"]
        yield from ()

    def _end(self, event: Event) -> Iterator[str]:
        yield from super()._end(event)
        self._said.discard(event.actor)

    def _build(self, event: Event) -> Iterator[str]:
        here = event.process, event.partition
        self._built[here] = max(event.offset, self._built.get(here, -1))
        if here in self.stores and self.stores[here].place.endswith(NEWER):
            yield f"{event.process} builds the newer format of {event.partition}, which is live"

    def _prepared(self, event: Event) -> Iterator[str]:
        process, said = event.actor, event.attributes["stores"]
        self._said.add(process)
        for (owner, partition), store in self.stores.items():
            if owner != process or not store.persistent:
                continue
            if partition not in said:
                yield f"{process} says that it is prepared, but has not built {partition}"
                continue
            built = self._built.get((process, partition), -1)
            self.tried |= store.task in self._standbys.get(store.thread, ())
            # Nobody builds what retention or a compaction has taken.
            last = self.history.last_kept(partition, store.offset + 1)
            if min(built, said[partition]) < last:
                yield (
                    f"{process} says that it is prepared, but has built {partition} only up to "
                    f"offset {min(built, said[partition])}, and of what the live format has, the "
                    f"last record in the log is {last}"
                )

    def _awaited(self, event: Event) -> Iterator[str]:
        if event.attributes["message"] == "instance.prepared":
            for process in sorted(set(event.attributes["instances"]) - self._said):
                yield f"{process} has never said that its stores are prepared"


class OnlyAnUpgradeInPlaceBuilds(Formats):
    """An old instance of a roll-over, and one without an upgrade, builds no newer format."""

    name = "an instance builds a newer format only in an upgrade in place"
    requirement = "UPGRADE-113"
    situation = "an old instance of a roll-over had stores"
    drawn_from: ClassVar = {"upgrades": ["format-roll-over"], "plan": {"persistent": [True]}}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            **super().observers,
            "store.rebuilt": self._build,
        }

    def _build(self, event: Event) -> Iterator[str]:
        release = self.releases[event.process]
        if release["upgrade_mode"] != "in_place" and not self._waits(event.process):
            mode = release["upgrade_mode"] or "not set"
            yield f"{event.process} builds {event.partition}, but upgrade.mode is {mode}"

    def _list(self, event: Event) -> Iterator[str]:
        yield from super()._list(event)
        if self.releases[event.process]["upgrade_mode"] != "roll_over":
            return
        self.tried |= any(event.attributes["places"].values())
        for task, places in event.attributes["places"].items():
            newer: Sequence[str] = [each for each in places if each.endswith(NEWER)]
            if newer:
                yield f"{event.process} rolls over, but has {newer} of task {task}"
