"""Groups with the streams protocol: the targets of the brokers, and the steps of members to them.

Which tasks a member has is known from its thread: it has a task from the opening to the close.

Sources: KIP-848, KIP-1071.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace import Event

__all__ = [
    "OffsetsAreRefusedForLostTasks",
    "TargetsHaveEachTaskOnce",
    "TargetsHaveTheirCopies",
    "TasksAreReleasedFirst",
]

_STREAMS: Mapping[str, object] = {"group_protocol": ["streams"]}


class TargetsHaveEachTaskOnce(Invariant):
    """A target assignment gives each task to one member, evenly."""

    name = "the brokers give each task to one member, and each member as many as the others"
    requirement = "ASSIGN-001"
    situation = "brokers shared tasks out among several members"
    drawn_from: ClassVar = {
        "upgrades": [""],
        "plan": {"instances": [2, 3]},
        "settings": {**_STREAMS},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._tasks: list[str] = []

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {"application.started": self._start, "group.targeted": self._targeted}

    def _start(self, event: Event) -> Iterable[str]:
        self._tasks = event.attributes["tasks"]
        return ()

    def _targeted(self, event: Event) -> Iterator[str]:
        members = event.attributes["members"]
        self.tried |= len(members) > 1
        for task in self._tasks:
            owners = [name for name, each in members.items() if task in each["active"]]
            if len(owners) != 1:
                yield f"task {task} has {len(owners)} owners in epoch {event.attributes['epoch']}"
        counts = [len(each["active"]) for each in members.values()]
        if max(counts) - min(counts) > 1 and max(counts) > -(-len(self._tasks) // len(members)):
            yield f"the members get {counts} tasks in epoch {event.attributes['epoch']}"


class TargetsHaveTheirCopies(Invariant):
    """A target assignment has the wanted copies of each stateful task, in different processes."""

    name = "the brokers place each copy that a process is left for"
    requirement = "ASSIGN-003"
    situation = "brokers placed copies of tasks"
    drawn_from: ClassVar = {
        "upgrades": [""],
        "plan": {"instances": [2, 3]},
        "settings": {**_STREAMS},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._wanted = 0

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {"application.started": self._start, "group.targeted": self._targeted}

    def _start(self, event: Event) -> Iterable[str]:
        self._wanted = event.attributes["num_standby_replicas"]
        return ()

    def _targeted(self, event: Event) -> Iterator[str]:
        members = event.attributes["members"]
        processes = {each["process"] for each in members.values()}
        wanted = min(self._wanted, len(processes) - 1)
        self.tried |= wanted > 0
        for task in event.attributes["stateful"]:
            places = [
                each["process"]
                for each in members.values()
                if task in each["active"] or task in each["standby"]
            ]
            if len(places) != len(set(places)) or len(places) != wanted + 1:
                yield (
                    f"task {task} is placed in {sorted(places)} in epoch "
                    f"{event.attributes['epoch']}, and should have {wanted} copies elsewhere"
                )


class _Members:
    """The members of the group, with the epochs in which they got their tasks.

    Attributes:
        threads: by the id of a member, its thread.
        since: by the id of a member, its active tasks, each with the epoch in which it got them;
            tasks that it has to give up included.
    """

    def __init__(self) -> None:
        self.threads: dict[str, str] = {}
        self.since: dict[str, dict[str, int]] = {}

    def joined(self, event: Event) -> None:
        """A member joins; a static one gets what its predecessor had."""
        before, member = event.attributes["replaces"], event.attributes["member"]
        thread = event.attributes["thread"]
        # A thread that died has a successor of its name, which is another member.
        self.threads = {
            name: each for name, each in self.threads.items() if each != thread and name != before
        }
        self.threads[member] = thread
        self.since[member] = self.since.pop(before, {})

    def reconciled(self, event: Event) -> None:
        """A member takes a step."""
        more = event.attributes
        self.since[more["member"]] = {**more["since"], **more["revoking"]}

    def gone(self, event: Event) -> None:
        """A member is removed."""
        self.threads.pop(event.attributes["member"], None)
        self.since.pop(event.attributes["member"], None)


class _OfMembers(Invariant):
    """An invariant that follows the members of the group."""

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._members = _Members()

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "group.member_joined": self._joined,
            "group.member_left": self._gone,
            "group.member_left_out": self._gone,
            "group.reconciled": self._reconciled,
        }

    def _joined(self, event: Event) -> Iterable[str]:
        self._members.joined(event)
        return ()

    def _gone(self, event: Event) -> Iterable[str]:
        self._members.gone(event)
        return ()

    def _reconciled(self, event: Event) -> Iterable[str]:
        self._members.reconciled(event)
        return ()


class TasksAreReleasedFirst(_OfMembers):
    """A member gets a task only once no other member has the task open (KIP-848).

    The thread of a member that was removed may have it open still: that thread is a zombie.
    """

    name = "the brokers hand a task over only once its owner has closed it"
    requirement = "REBAL-010"
    situation = "the brokers moved a task from one member to another"
    drawn_from: ClassVar = {
        "upgrades": [""],
        "plan": {"instances": [2, 3]},
        "kinds": ["crash", "bounce"],
        "settings": {**_STREAMS},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By thread, the active tasks that it has open.
        self._open: dict[str, set[str]] = {}
        # By thread, what it was assigned last.
        self._assigned: dict[str, list[str]] = {}
        # By task, the member that got it last.
        self._last: dict[str, str] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            **super().observers,
            "thread.assigned": self._assign,
            "task.state": self._state,
            "task.recycled": self._recycled,
            "instance.crashed": self._ended,
            "instance.stopped": self._ended,
        }

    def _assign(self, event: Event) -> Iterable[str]:
        self._assigned[event.actor] = event.attributes["active"]
        return ()

    def _state(self, event: Event) -> Iterable[str]:
        mine = self._open.setdefault(event.actor, set())
        if event.attributes["after"] == "CLOSED":
            mine.discard(event.task)
        elif event.task in self._assigned.get(event.actor, ()):
            mine.add(event.task)
        return ()

    def _recycled(self, event: Event) -> Iterable[str]:
        if not event.attributes["is_active"]:
            self._open.get(event.actor, set()).discard(event.task)
        return ()

    def _ended(self, event: Event) -> Iterable[str]:
        for thread in [each for each in self._open if each.startswith(f"{event.actor}/")]:
            del self._open[thread]
        return ()

    def _reconciled(self, event: Event) -> Iterator[str]:
        member = event.attributes["member"]
        had = self._members.since.get(member, {})
        self._members.reconciled(event)
        for task in event.attributes["since"].keys() - had.keys():
            self.tried |= self._last.get(task, member) != member
            self._last[task] = member
            for other, thread in self._members.threads.items():
                if other != member and task in self._open.get(thread, ()):
                    yield f"{member} gets task {task}, which {thread} of {other} has open"


class OffsetsAreRefusedForLostTasks(_OfMembers):
    """Offsets of a member are refused only if it has not had the tasks since (KIP-1251)."""

    name = "the brokers refuse offsets only of tasks that the member may have lost"
    requirement = "REBAL-011"
    situation = "the brokers refused the offsets of a member"
    drawn_from: ClassVar = {
        "upgrades": [""],
        "plan": {"instances": [2, 3], "activation": [0.5]},
        "kinds": ["crash", "cut", "pause"],
        "settings": {**_STREAMS, "session_timeout_ms": [10_000]},
    }

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            **super().observers,
            "group.commit_refused": self._refused,
        }

    def _refused(self, event: Event) -> Iterator[str]:
        self.tried = True
        member, epoch = event.attributes["member"], event.attributes["epoch"]
        had = self._members.since.get(member, {})
        tasks = event.attributes["tasks"]
        if tasks and all(task in had and had[task] <= epoch for task in tasks):
            yield (
                f"offsets of {', '.join(tasks)} by {member} in epoch {epoch} are refused, although "
                f"it has these tasks since epoch {max(had[task] for task in tasks)}"
            )
