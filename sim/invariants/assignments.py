"""Invariants of the assignments that the leader of a group makes.

One event has both the knowledge and the decision of the leader, so every rule checks that event
alone. The rules are computed independently of the assignor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any, ClassVar

from streamproof.sim.decisions.lag import (
    LATEST_OFFSET,
    UNKNOWN_OFFSET_SUM,
    is_caught_up,
    task_lag,
)
from streamproof.sim.decisions.versions import EARLIEST_PROBEABLE_VERSION, OFFSET_SUM_VERSION
from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace import Event

__all__ = [
    "CopiesAreApart",
    "EachTaskIsSharedOutOnce",
    "EndsAreThoseOfTheLogs",
    "GroupLooksAgain",
    "MembersAgreeOnAVersion",
    "MembersReportWhatTheyHave",
    "StandbysAreAsManyAsAsked",
    "WarmUpsAreBounded",
    "WorkGoesWhereTheStateIs",
    "WorkIsEven",
]

LOOK_AGAIN_SLACK_MS = 60_000
"""How much a requested rebalance may be late. Its initiator may stand still, be cut off, or wait
for the reply to a lost request, but for no longer than this."""


class _Assignments(Invariant):
    """An invariant of the decisions of the leader."""

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._settings: dict[str, Any] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {"application.started": self._start, "group.assigned": self._assigned}

    def _start(self, event: Event) -> Iterator[str]:
        self._settings = event.attributes
        yield from ()

    def _assigned(self, event: Event) -> Iterator[str]:
        raise NotImplementedError


def _threads(event: Event) -> dict[str, int]:
    """By process, how many threads it has."""
    found: dict[str, int] = {}
    for each in event.attributes["members"].values():
        if not each["probed"]:
            found[each["process"]] = found.get(each["process"], 0) + 1
    return found


def _lags(event: Event, task: str) -> dict[str, int]:
    """By process, its lag with a task; a process that does not report it lacks all of it."""
    end = event.attributes["ends"][task]
    found: dict[str, int] = {}
    for each in event.attributes["members"].values():
        # A process that only makes copies for now does not count, nor a report that is too new.
        is_client = each["process"] in event.attributes["clients"] and not each["probed"]
        if task not in each["sums"] or not is_client:
            continue
        lag, process = task_lag(each["sums"][task], end), each["process"]
        before = found.get(process, lag)
        # Of two threads, the one with the smaller lag speaks for the process.
        found[process] = min(before, lag, key=_worth)
    return {process: found.get(process, end) for process in event.attributes["clients"]}


def _worth(lag: int) -> float:
    """What a report of a thread says about its process: the last is an unknown lag."""
    if lag == UNKNOWN_OFFSET_SUM:
        return float("inf")
    return -1 if lag == LATEST_OFFSET else lag


class EachTaskIsSharedOutOnce(_Assignments):
    """Each task is active in one place. Until its owner gives it up, no other thread gets it."""

    name = "an assignment gives each task to one owner"
    requirement = "ASSIGN-001"
    situation = "tasks were shared out among two processes"

    def _assigned(self, event: Event) -> Iterator[str]:
        more = event.attributes
        members: dict[str, Any] = more["members"]
        self.tried |= len(more["clients"]) > 1
        owned = {task: name for name, each in members.items() for task in each["owned"]}
        given: dict[str, str] = {}
        for name, each in members.items():
            for task in each["active"]:
                if given.setdefault(task, name) != name:
                    yield f"task {task} is given to both {given[task]} and {name}"
        for task in [*more["ends"], *more["stateless"]]:
            places = [name for name, each in more["clients"].items() if task in each["active"]]
            if len(places) != 1:
                yield f"task {task} is active in {len(places)} processes: {places}"
            elif task in given and members[given[task]]["process"] != places[0]:
                yield f"task {task} is meant for {places[0]}, but {given[task]} gets it"
            elif task not in given and task not in owned:
                yield f"task {task} has no owner, and the assignment gives it none"


class CopiesAreApart(_Assignments):
    """No process has a task twice: a copy beside its active task would die with it (KIP-441)."""

    name = "a process has a task in one role"
    requirement = "ASSIGN-002"
    situation = "a task and a copy of it were shared out"
    drawn_from: ClassVar = {"plan": {"instances": [3]}}

    def _assigned(self, event: Event) -> Iterator[str]:
        for process, roles in event.attributes["clients"].items():
            tasks = [task for each in ("active", "standby", "warmup") for task in roles[each]]
            self.tried |= bool(roles["standby"] or roles["warmup"])
            for task in sorted({task for task in tasks if tasks.count(task) > 1}):
                yield f"{process} gets task {task} in more than one role"
        copies: dict[tuple[str, str], str] = {}
        for name, member in event.attributes["members"].items():
            for task in member["active"] + member["standby"]:
                here = member["process"], task
                if copies.setdefault(here, name) != name:
                    yield f"{copies[here]} and {name} of {here[0]} both get task {task}"


class StandbysAreAsManyAsAsked(_Assignments):
    """Each stateful task has the configured number of standbys, or one on every other process."""

    name = "a stateful task has as many standbys as configured, as far as there are processes"
    requirement = "ASSIGN-003"
    situation = "standbys were asked for, and there was a process for them"
    drawn_from: ClassVar = {"plan": {"instances": [3]}}

    def _assigned(self, event: Event) -> Iterator[str]:
        clients = event.attributes["clients"]
        wanted = min(self._settings["num_standby_replicas"], len(clients) - 1)
        self.tried |= wanted > 0 and bool(event.attributes["ends"])
        for task in event.attributes["ends"]:
            standbys = [name for name, roles in clients.items() if task in roles["standby"]]
            if len(standbys) != wanted:
                yield f"task {task} has {len(standbys)} standbys, {standbys}, instead of {wanted}"


class WorkGoesWhereTheStateIs(_Assignments):
    """A task goes to a caught-up process, or else to one with the least lag (KIP-441)."""

    name = "a task is active where its state is"
    requirement = "ASSIGN-004"
    situation = "one process was caught up with a task, and another was not"
    drawn_from: ClassVar = {"plan": {"instances": [3]}}

    def _assigned(self, event: Event) -> Iterator[str]:
        acceptable = self._settings["acceptable_recovery_lag"]
        for task in event.attributes["ends"]:
            lags = _lags(event, task)
            caught_up = [name for name, lag in lags.items() if is_caught_up(lag, acceptable)]
            self.tried |= 0 < len(caught_up) < len(event.attributes["clients"])
            for process, roles in event.attributes["clients"].items():
                if task not in roles["active"] or process in caught_up:
                    continue
                # Kafka compares the lags as numbers, the sentinels included. So a task stays with a
                # process whose lag is unknown: none is less than -3.
                if lags[process] == min(lags.values()):
                    continue
                if caught_up:
                    yield f"task {task} goes to {process}, although {caught_up} are caught up"
                else:
                    yield f"task {task} goes to {process}, but its lag is not the least: {lags}"


class EndsAreThoseOfTheLogs(_Assignments):
    """The leader compares with the ends of logs, and of inputs with their committed offsets."""

    name = "the ends of changelogs are those of the logs, and of inputs the committed offsets"
    requirement = "ASSIGN-015"
    situation = "a leader assigned while an input that is a changelog had uncommitted records"
    drawn_from: ClassVar = {"topologies": ["reused-table-join"], "kinds": ["crash", "bounce"]}

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By task, the last known sum: no end goes back.
        self._before: dict[str, int] = {}
        self._generation = 0

    def _assigned(self, event: Event) -> Iterator[str]:
        # A leader that stood still until the group went on without it knows only earlier ends.
        is_late = event.attributes["generation"] < self._generation
        self._generation = max(self._generation, event.attributes["generation"])
        sources, changelogs = self._settings["sources"], self._settings["changelogs"]
        for task, end in event.attributes["ends"].items():
            logs = sum(self.history.log(each).end for each in changelogs[task])
            behind = sum(
                self.history.log(each).end - self.history.committed.get(each, 0)
                for each in changelogs[task]
                if each in sources
            )
            self.tried |= behind > 0
            least, most = 0 if is_late else self._before.get(task, 0), logs - behind
            if not least <= end <= most:
                yield f"{task} ends between {least} and {most}, but the leader takes {end} for it"
            if not is_late:
                self._before[task] = min(end, most)


class WarmUpsAreBounded(_Assignments):
    """At most ``max.warmup.replicas`` copies warm up at a time (KIP-441)."""

    name = "no more tasks are warmed up than max.warmup.replicas"
    requirement = "ASSIGN-005"
    situation = "a task was warmed up"
    drawn_from: ClassVar = {"plan": {"instances": [3]}}

    def _assigned(self, event: Event) -> Iterator[str]:
        count = sum(len(each["warmup"]) for each in event.attributes["clients"].values())
        most = self._settings["max_warmup_replicas"]
        self.tried |= count > 0
        if count > most:
            yield f"{count} tasks are warmed up, but max.warmup.replicas is {most}"


class WorkIsEven(_Assignments):
    """Once no task is moving, no thread has more than one task more than another.

    Source: Kafka, HighAvailabilityTaskAssignor#shouldMoveATask.
    """

    name = "an assignment that is final is even"
    requirement = "ASSIGN-006"
    situation = "an assignment that is final shared tasks out among two processes"

    def _assigned(self, event: Event) -> Iterator[str]:
        more, threads = event.attributes, _threads(event)
        if more["probing"]:
            # Tasks that warm up will be moved; the load is even only after that.
            return
        self.tried |= len(threads) > 1
        for kind, tasks in (("", {*more["ends"], *more["stateless"]}), ("stateful ", more["ends"])):
            load = {
                name: sum(task in tasks for task in roles["active"]) / threads[name]
                for name, roles in more["clients"].items()
            }
            for busy, idle in permutations(load, 2):
                # As long as a move leaves the other client no busier, Kafka moves a task.
                if load[busy] - load[idle] >= 1 / threads[busy] + 1 / threads[idle] - 1e-9:
                    yield (
                        f"{busy} has {load[busy]} {kind}tasks per thread, "
                        f"but {idle} has {load[idle]}"
                    )


class MembersReportWhatTheyHave(Invariant):
    """A member reports the state that its process has of each task (KAFKA-10319, KAFKA-20893).

    ``LATEST_OFFSET``, -2, stands only for a running active task. A sum of offsets is never
    negative. A process that reports a closed task has as much of it when it opens the task.
    """

    name = "a member reports of each task what its process has"
    requirement = "ASSIGN-007"
    situation = "a task was opened whose state had been reported"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._changelogs: dict[str, Sequence[str]] = {}
        # By process, its open tasks.
        self._open: set[tuple[str, str]] = set()
        # By process and closed task, the sum that was reported for it.
        self._said: dict[tuple[str, str], int] = {}
        # By process and task that is being opened, the offsets that its stores had.
        self._found: dict[tuple[str, str], dict[str, int]] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "application.started": self._start,
            "thread.subscribed": self._subscribed,
            "task.state": self._state,
            "store.opened": self._opened,
            "task.wiped": self._wiped,
            "state.cleaned": self._wiped,
            "instance.crashed": self._gone,
            "instance.stopped": self._gone,
        }

    def _start(self, event: Event) -> Iterator[str]:
        self._changelogs = event.attributes["changelogs"]
        yield from ()

    def _subscribed(self, event: Event) -> Iterator[str]:
        process = event.process
        for task, total in event.attributes["sums"].items():
            if total == LATEST_OFFSET:
                # Another thread of the process may have the task, too, until it closes it.
                if self.history.copies.states.get((event.actor, task)) != "RUNNING":
                    yield f"{event.actor} reports that task {task} runs, but it does not"
                continue
            if total == UNKNOWN_OFFSET_SUM:
                continue
            end = sum(self.history.log(each).end for each in self._changelogs[task])
            if not 0 <= total <= end:
                yield (
                    f"{event.actor} reports the offset sum {total} for task {task}, "
                    f"but the ends of its changelogs add up to {end}"
                )
            if (process, task) not in self._open:
                self._said[process, task] = total

    def _state(self, event: Event) -> Iterator[str]:
        here = event.process, event.task
        after = event.attributes["after"]
        if after == "CLOSED":
            self._open.discard(here)
        else:
            self._open.add(here)
        if after == "RESTORING":
            total = sum(self._found.pop(here, {}).values())
            self.tried |= here in self._said
            said = self._said.pop(here, 0)
            if said > total:
                yield (
                    f"{here[0]} reported the offset sum {said} for task {event.task}, "
                    f"but its stores have {total}"
                )
        yield from ()

    def _opened(self, event: Event) -> Iterator[str]:
        here = event.process, event.task
        self._found.setdefault(here, {})[event.partition] = max(event.offset + 1, 0)
        if event.attributes["segmented"] and event.offset < 0:
            # A store that has no segment has no place for the offset that it reached.
            self._said.pop(here, None)
        yield from ()

    def _wiped(self, event: Event) -> Iterator[str]:
        # Stores that were deleted on purpose existed when they were reported.
        here = event.process, event.task
        self._said.pop(here, None)
        self._found.pop(here, None)
        yield from ()

    def _gone(self, event: Event) -> Iterator[str]:
        self._open = {each for each in self._open if each[0] != event.actor}
        for places in (self._said, self._found):
            for here in [each for each in places if each[0] == event.actor]:
                del places[here]
        yield from ()


class GroupLooksAgain(_Assignments):
    """As long as a task is moving, the next rebalance begins in time (KIP-441)."""

    name = "a rebalance follows an assignment that is not final"
    requirement = "ASSIGN-008"
    situation = "an assignment left tasks that still have to move"
    drawn_from: ClassVar = {"plan": {"instances": [3]}}

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._due: int | None = None

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            **super().observers,
            "thread.subscribed": self._subscribed,
            "thread.committed": self._pass,
            # A group at rest commits nothing.
            "thread.metrics": self._pass,
        }

    def _assigned(self, event: Event) -> Iterator[str]:
        self._due = None
        if event.attributes["probing"] and event.attributes["version"] >= OFFSET_SUM_VERSION:
            self.tried = True
            interval_ms = self._settings["probing_rebalance_interval_ms"]
            self._due = event.time + interval_ms + LOOK_AGAIN_SLACK_MS
        yield from ()

    def _subscribed(self, event: Event) -> Iterator[str]:
        del event
        self._due = None
        yield from ()

    def _pass(self, event: Event) -> Iterator[str]:
        if self._due is not None and event.time > self._due:
            due, self._due = self._due, None
            yield f"tasks are being moved, but no rebalance came before {due} ms"


class MembersAgreeOnAVersion(_Assignments):
    """An assignment uses the oldest version of its members, which all can read (KIP-268).

    A member that gets an older version than its own next uses the version that all support.
    """

    name = "members of different releases agree on a metadata version"
    requirement = "ASSIGN-011"
    situation = "members with different metadata versions shared a group"
    drawn_from: ClassVar = {"upgrades": ["sums-up"], "plan": {"instances": [2, 3]}}

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By thread, the version that it has to use next.
        self._agreed: dict[str, int] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            **super().observers,
            "thread.answered": self._answered,
            "thread.subscribed": self._subscribed,
            "instance.started": self._started,
            "thread.died": self._died,
        }

    def _assigned(self, event: Event) -> Iterator[str]:
        version, members = event.attributes["version"], event.attributes["members"]
        oldest = min(each["used"] for each in members.values())
        self.tried |= len({each["supported"] for each in members.values()}) > 1
        if version != oldest:
            yield f"the assignment is in version {version}, but the oldest in use is {oldest}"
        for name, each in members.items():
            if each["supported"] < version:
                yield (
                    f"{name} gets an assignment in version {version}, "
                    f"but supports only {each['supported']}"
                )

    def _answered(self, event: Event) -> Iterator[str]:
        if event.attributes["version"] >= EARLIEST_PROBEABLE_VERSION:
            self._agreed[event.actor] = event.attributes["commonly_supported"]
        yield from ()

    def _subscribed(self, event: Event) -> Iterator[str]:
        used = event.attributes["used"]
        agreed = self._agreed.pop(event.actor, used)
        if used != agreed:
            yield (
                f"{event.actor} uses version {used}, "
                f"although it was told that all members support {agreed}"
            )

    def _died(self, event: Event) -> Iterator[str]:
        # Its replacement begins with its own version.
        self._agreed.pop(event.actor, None)
        yield from ()

    def _started(self, event: Event) -> Iterator[str]:
        prefix = f"{event.actor}/"
        self._agreed = {
            name: version for name, version in self._agreed.items() if not name.startswith(prefix)
        }
        yield from ()
