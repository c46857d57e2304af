"""What members report to the leader of their group, and what they are told (KIP-258, KIP-268).

The version of each release is listed here once more, so that a wrong number in the releases of the
simulator is found. The formats in a report are compared with a listing of the disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace import Event
from streamproof.sim.upgraded_formats import NEWER

__all__ = [
    "EmptyAnswerIsForTheTooNew",
    "FormatsAreThoseOnTheDisk",
    "MirrorsAreAnsweredInTheirVersion",
    "VersionIsThatOfTheRelease",
    "formats_in",
    "has_newer_alone",
]

VERSION_OF = {"0.10.0": 1, "1.1": 2, "1.2": 3, "2.5": 6, "4.2": 11, "4.3": 11}
"""The newest metadata version by release. KIP-258 calls its own release 1.2."""

PROBEABLE = 3
"""Older versions have neither a supported version nor formats, and cannot be probed."""

NAMES_FORMATS = "1.2"
"""The release whose Subscriptions name formats of stores; Kafka shipped none that does."""

Formats = Mapping[str, Sequence[int]] | None


def has_newer_alone(formats: Formats) -> bool:
    """Whether a report names only stores of the newer format."""
    return formats is not None and all(list(each) == [2] for each in formats.values())


def formats_in(places: Mapping[str, Sequence[str]]) -> dict[str, list[int]]:
    """The formats of each store, by the directories of all tasks."""
    found: dict[str, set[int]] = {}
    for place in {each for places_of_task in places.values() for each in places_of_task}:
        found.setdefault(place.removesuffix(NEWER), set()).add(2 if place.endswith(NEWER) else 1)
    return {store: sorted(each) for store, each in found.items()}


class _Members(Invariant):
    """An invariant that knows the processes, and the reports of their threads.

    Attributes:
        releases: the attributes of ``instance.started``, by process.
        reports: the reports of each thread of the present processes, in order.
        leaders: by generation, the release of its leader. The leader may have been restarted with
            another release before a member takes the assignment.
        members: by generation, what the leader read and assigned, by member.
    """

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self.releases: dict[str, Mapping[str, Any]] = {}
        self.reports: dict[str, list[Mapping[str, Any]]] = {}
        self.leaders: dict[int, str] = {}
        self.members: dict[int, Mapping[str, Any]] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "instance.started": self._start,
            "thread.died": self._die,
            "thread.subscribed": self._subscribe,
            "group.assigned": self._assign,
            "group.probed": self._probe,
            "thread.answered": self._answer,
        }

    def _start(self, event: Event) -> Iterator[str]:
        self.releases[event.actor] = event.attributes
        prefix = f"{event.actor}/"
        for thread in [each for each in self.reports if each.startswith(prefix)]:
            del self.reports[thread]
        yield from ()

    def _die(self, event: Event) -> Iterator[str]:
        # Another thread of the same name replaces it, and reports for the first time.
        self.reports.pop(event.actor, None)
        yield from ()

    def _subscribe(self, event: Event) -> Iterator[str]:
        self.reports.setdefault(event.actor, []).append(event.attributes)
        yield from ()

    def _assign(self, event: Event) -> Iterator[str]:
        self.leaders[event.attributes["generation"]] = self.releases[event.process]["release"]
        self.members[event.attributes["generation"]] = event.attributes["members"]
        yield from ()

    def _probe(self, event: Event) -> Iterator[str]:
        self.leaders[event.attributes["generation"]] = self.releases[event.process]["release"]
        yield from ()

    def _answer(self, event: Event) -> Iterator[str]:
        del event
        yield from ()

    def _last_report(self, thread: str) -> Mapping[str, Any] | None:
        reports = self.reports.get(thread, ())
        return reports[-1] if reports else None


class VersionIsThatOfTheRelease(_Members):
    """A thread reports in the version of its release first, or in that of ``upgrade.from``.

    From version 3 on, a report also names the newest version that its sender supports, and the
    leader reads that.

    A release from before version probing cannot read a newer report. So an instance with such an
    ``upgrade.from`` keeps to the version of that release (KAFKA-6054).
    """

    name = "a thread reports in the metadata version of its release, or of upgrade.from"
    requirement = "UPGRADE-106"
    situation = "an instance with upgrade.from 0.10.0 met a member of that release"
    drawn_from: ClassVar = {
        "upgrades": ["metadata-up", "format-in-place-from-first"],
        "plan": {"instances": [2, 3]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By process, what all reports of its threads tell: a group may still have those of a dead
        # process. An old report has no place for the version that its sender supports.
        self._sent: dict[str, set[tuple[int, int]]] = {}

    def _assign(self, event: Event) -> Iterator[str]:
        yield from super()._assign(event)
        for name, each in event.attributes["members"].items():
            read, sent = (each["used"], each["supported"]), self._sent.get(each["process"])
            if sent and read not in sent:
                yield f"the leader takes the versions of {name} for {read}, not one of {sent}"

    def _subscribe(self, event: Event) -> Iterator[str]:
        is_first = event.actor not in self.reports
        yield from super()._subscribe(event)
        process = self.releases[event.process]
        release, older = process["release"], process["upgrade_from"]
        used, supported = event.attributes["used"], event.attributes["supported"]
        told = used, supported if used >= PROBEABLE else used
        self._sent.setdefault(event.process, set()).add(told)
        if supported != VERSION_OF[release]:
            yield (
                f"{event.actor} supports version {supported}, "
                f"but that of release {release} is {VERSION_OF[release]}"
            )
        self.tried |= self._first_versions_meet()
        keeps = VERSION_OF.get(older, PROBEABLE) < PROBEABLE
        wanted = VERSION_OF[older if keeps else release]
        if (keeps or is_first) and used != wanted:
            because = f"upgrade.from is {older}" if keeps else f"its release is {release}"
            yield f"{event.actor} reports in version {used} instead of {wanted}: {because}"

    def _first_versions_meet(self) -> bool:
        """Whether members of version 1 and members that keep to it are in the group."""
        processes = {thread.partition("/")[0] for thread, each in self.reports.items() if each}
        releases = [self.releases[each] for each in processes]
        has_old = any(VERSION_OF[each["release"]] == 1 for each in releases)
        return has_old and any(VERSION_OF.get(each["upgrade_from"]) == 1 for each in releases)


class FormatsAreThoseOnTheDisk(_Members):
    """A report names the formats of each store as the disk has them, and the leader reads that.

    After the second bounce of an upgrade in place, a store has both formats. In a roll-over it has
    the newer one alone. A store without any directory will be made in the newer format.
    """

    name = "a report names the formats of each store on the disk"
    requirement = "UPGRADE-107"
    situation = "a thread reported a store of which the disk had both formats"
    drawn_from: ClassVar = {"upgrades": ["format-in-place"], "plan": {"persistent": [True]}}

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._listed: dict[str, Mapping[str, Sequence[str]]] = {}
        # By process, all reports of its threads: a group may still have those of a dead process.
        self._sent: dict[str, list[tuple[int, Formats]]] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {**super().observers, "disk.listed": self._list}

    def _list(self, event: Event) -> Iterator[str]:
        self._listed[event.actor] = event.attributes["places"]
        yield from ()

    def _subscribe(self, event: Event) -> Iterator[str]:
        yield from super()._subscribe(event)
        formats, used = event.attributes["formats"], event.attributes["used"]
        self._sent.setdefault(event.process, []).append((used, formats))
        names = self.releases[event.process]["release"] == NAMES_FORMATS and used >= PROBEABLE
        if (formats is not None) is not names:
            yield f"{event.actor} reports the formats {formats} in version {used}"
        if formats is None or not names:
            return
        found = formats_in(self._listed.get(event.actor, {}))
        self.tried |= [1, 2] in found.values()
        for store in sorted({*found, *formats}):
            if formats.get(store) != found.get(store, [2]):
                yield (
                    f"{event.actor} reports the formats {formats.get(store)} of store {store}, "
                    f"but the disk has {found.get(store, 'none')}"
                )

    def _assign(self, event: Event) -> Iterator[str]:
        yield from super()._assign(event)
        for name, each in event.attributes["members"].items():
            sent = self._sent.get(each["process"], [])
            read = each["used"], each["formats"]
            if sent and read not in sent:
                yield f"the leader takes the report of {name} for {read}, but {sent[-1]} was sent"


class EmptyAnswerIsForTheTooNew(_Members):
    """A leader sends an empty assignment to members that are too new for it, and to no others.

    The empty assignment names the version that the leader supports.
    """

    name = "only a member that is too new for the leader gets an empty assignment"
    requirement = "UPGRADE-108"
    situation = "a member was too new for the leader"
    drawn_from: ClassVar = {"upgrades": ["sums-up"]}

    def _answer(self, event: Event) -> Iterator[str]:
        release = self.leaders.get(event.attributes["generation"])
        report = self._last_report(event.actor)
        if release is None or report is None:
            return
        is_too_new = report["used"] > VERSION_OF[release]
        self.tried |= is_too_new
        if event.attributes["empty"] is not is_too_new:
            got = "an empty assignment" if event.attributes["empty"] else "tasks"
            yield (
                f"{event.actor} reported in version {report['used']} and gets {got}, "
                f"but the leader reads up to version {VERSION_OF[release]}"
            )
        told = event.attributes["commonly_supported"]
        if is_too_new and told != VERSION_OF[release]:
            yield (
                f"{event.actor} is told to use version {told}, "
                f"but the leader supports {VERSION_OF[release]}"
            )


class MirrorsAreAnsweredInTheirVersion(_Members):
    """While old members report in version 2, they get version 2, and mirrors of them version 3.

    A member with both formats gets version 2 as well: its upgrade in place is not complete.
    """

    name = "old members are answered in the oldest version, and mirrors in their own"
    requirement = "UPGRADE-109"
    situation = "a new member mirrored old ones"
    drawn_from: ClassVar = {"upgrades": ["format-roll-over"]}

    def _answer(self, event: Event) -> Iterator[str]:
        members = self.members.get(event.attributes["generation"], {})
        report, version = self._last_report(event.actor), event.attributes["version"]
        oldest = min((each["used"] for each in members.values()), default=PROBEABLE)
        if report is None or oldest >= PROBEABLE or event.attributes["empty"]:
            return
        formats = [each["formats"] for each in members.values() if each["process"] == event.process]
        is_mirror = bool(formats) and all(map(has_newer_alone, formats))
        self.tried |= is_mirror
        wanted = report["used"] if is_mirror else oldest
        if version != wanted:
            kind = "has the newer format alone" if is_mirror else "has the older format"
            yield f"{event.actor} {kind}, but gets version {version} instead of {wanted}"
