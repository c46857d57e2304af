"""The members of the group: how they leave, come back, and are not forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace import Event

__all__ = [
    "CorruptedTasksAreOffered",
    "HangingMembersLeave",
    "MembersAreNotForgotten",
    "MembersLeaveAsAsked",
    "StaticMembersComeBack",
]

_UNCERTAIN_MS = 5_000
"""Longer than a slow message: so long, a member and its group may know different things."""


class _Members:
    """The members that the coordinator has, by its events.

    Attributes:
        threads: by the id of a member, its thread.
    """

    def __init__(self) -> None:
        self.threads: dict[str, str] = {}

    def joined(self, event: Event) -> None:
        """A member joins; a static one takes the place of its predecessor."""
        self.threads.pop(event.attributes["replaces"], None)
        self.threads[event.attributes["member"]] = event.attributes["thread"]

    def gone(self, event: Event) -> str:
        """A member is removed; return its thread, or nothing if it was removed before."""
        return self.threads.pop(event.attributes["member"], "")


class MembersLeaveAsAsked(Invariant):
    """A thread that stops leaves the group, or remains in it, as it is told (KIP-1153).

    A member whose request was lost, or whose coordinator was away, could not leave.
    """

    name = "a thread that stops leaves the group if it is to leave, and only then"
    requirement = "REBAL-006"
    situation = "a thread that was to leave the group stopped, or one that was to remain"
    drawn_from: ClassVar = {
        "kinds": ["bounce"],
        "settings": {"group_membership_operation": ["LEAVE_GROUP"]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._members = _Members()
        self._leaves: dict[str, bool] = {}
        # By thread, the id that it has now, and since when.
        self._current: dict[str, tuple[str, int]] = {}
        # Threads that were answered since they joined. Others do not know their id to leave with.
        self._answered: set[str] = set()
        # Processes of which a request to join or to leave was lost.
        self._excused: set[str] = set()
        # The time at which the coordinator comes back; the present while it is away.
        self._away_until = -_UNCERTAIN_MS
        self._is_away = False

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "instance.started": self._started,
            "group.member_joined": self._joined,
            "group.member_left_out": self._left_out,
            "group.member_left": self._left,
            "group.left_out": self._refused,
            "thread.assigned": self._told,
            "thread.died": self._died,
            "network.request_lost": self._lost,
            "network.reply_lost": self._lost,
            "coordinator.away": self._away,
            "coordinator.back": self._back,
            "thread.stopped": self._stopped,
        }

    def _started(self, event: Event) -> Iterable[str]:
        self._leaves[event.actor] = event.attributes["leaves_group"]
        self._excused.discard(event.actor)
        for thread in [each for each in self._current if each.startswith(f"{event.actor}/")]:
            del self._current[thread]
        return ()

    def _refused(self, event: Event) -> Iterable[str]:
        for thread, (member, _) in list(self._current.items()):
            if member == event.attributes["member"]:
                del self._current[thread]
        return ()

    def _died(self, event: Event) -> Iterable[str]:
        self._current.pop(event.actor, None)
        return ()

    def _joined(self, event: Event) -> Iterable[str]:
        self._members.joined(event)
        thread = event.attributes["thread"]
        self._current[thread] = event.attributes["member"], event.time
        self._answered.discard(thread)
        return ()

    def _told(self, event: Event) -> Iterable[str]:
        self._answered.add(event.actor)
        return ()

    def _left_out(self, event: Event) -> Iterable[str]:
        self._members.gone(event)
        return ()

    def _left(self, event: Event) -> Iterator[str]:
        thread = self._members.gone(event)
        process = thread.partition("/")[0]
        if event.attributes["reason"] == "close" and not self._leaves.get(process, True):
            yield f"{thread} leaves the group when it stops, although it is to remain"

    def _lost(self, event: Event) -> Iterable[str]:
        if event.attributes["what"] in ("join group", "leave group"):
            self._excused.add(event.process)
        return ()

    def _away(self, event: Event) -> Iterable[str]:
        self._is_away |= event.attributes["what"] == "groups"
        return ()

    def _back(self, event: Event) -> Iterable[str]:
        if event.attributes["what"] == "groups":
            self._is_away, self._away_until = False, event.time
        return ()

    def _stopped(self, event: Event) -> Iterator[str]:
        thread, process = event.actor, event.process
        member, since = self._current.get(thread, ("", 0))
        self.tried |= bool(member)
        is_member = member in self._members.threads
        if not self._leaves.get(process) or process in self._excused or self._is_away:
            return
        is_member &= thread in self._answered
        if is_member and event.time - max(self._away_until, since) > _UNCERTAIN_MS:
            yield f"{thread} has stopped and was to leave the group, where {member} is a member"


class MembersAreNotForgotten(Invariant):
    """The group refuses a member only after it has removed or replaced it (KAFKA-10284)."""

    name = "the group refuses only members that it has removed or replaced"
    requirement = "REBAL-007"
    situation = "a coordinator moved after a static member had come back"
    drawn_from: ClassVar = {
        "kinds": ["crash", "bounce"],
        "plan": {"activation": [0.5], "upgrade": [""]},
        "settings": {"static_members": [True], "session_timeout_ms": [10_000]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._members = _Members()
        self._has_come_back = False

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "group.member_joined": self._joined,
            "group.member_left_out": self._gone,
            "group.member_left": self._gone,
            "group.left_out": self._refused,
            "coordinator.back": self._back,
        }

    def _joined(self, event: Event) -> Iterable[str]:
        self._members.joined(event)
        self._has_come_back |= bool(event.attributes["replaces"])
        return ()

    def _gone(self, event: Event) -> Iterable[str]:
        self._members.gone(event)
        return ()

    def _back(self, event: Event) -> Iterable[str]:
        self.tried |= self._has_come_back and event.attributes["what"] == "groups"
        return ()

    def _refused(self, event: Event) -> Iterator[str]:
        member = event.attributes["member"]
        thread = self._members.threads.get(member)
        if thread is not None and event.attributes["reason"] == "the group refuses it":
            yield (
                f"the group refuses {member} of {thread}, and has neither removed nor replaced it"
            )


class StaticMembersComeBack(Invariant):
    """A static member that comes back in time gets the assignment of its predecessor (KIP-345)."""

    name = "a static member that comes back takes the place and the tasks of its predecessor"
    requirement = "REBAL-005"
    situation = "a static member took the place of its predecessor, without a rebalance"
    drawn_from: ClassVar = {
        "kinds": ["bounce", "crash"],
        "plan": {"upgrade": [""]},
        "settings": {"static_members": [True], "session_timeout_ms": [10_000]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._members = _Members()
        # By name of a static member, its id.
        self._names: dict[str, str] = {}
        # By the id of a member, its thread.
        self._threads: dict[str, str] = {}
        # By thread, its last generation, active tasks and standbys.
        self._had: dict[str, tuple[int, list[str], list[str]]] = {}
        # Threads that have come back, and have got no assignment since.
        self._back: set[str] = set()

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "group.member_joined": self._joined,
            "group.member_left_out": self._gone,
            "group.member_left": self._gone,
            "group.reconciled": self._reconciled,
            "thread.assigned": self._assigned,
        }

    def _joined(self, event: Event) -> Iterator[str]:
        name, more = event.attributes["instance_id"], event.attributes
        self._threads[more["member"]] = more["thread"]
        if not name:
            return
        before = self._names.get(name, "")
        if before in self._members.threads and before != more["replaces"]:
            yield f"{name} comes back, and does not take the place of {before}"
        self._members.joined(event)
        self._names[name] = more["member"]
        if more["replaces"]:
            self._back.add(more["thread"])

    def _gone(self, event: Event) -> Iterable[str]:
        self._members.gone(event)
        return ()

    def _reconciled(self, event: Event) -> Iterable[str]:
        # With the streams protocol, the tasks of a member may change within its epoch.
        more = event.attributes
        thread = self._threads.get(more["member"])
        if thread is not None:
            self._had[thread] = more["epoch"], sorted(more["since"]), more["standby"]
        return ()

    def _assigned(self, event: Event) -> Iterator[str]:
        more = event.attributes
        now = more["generation"], more["active"], more["standby"]
        before = self._had.get(event.actor)
        self._had[event.actor] = now
        if event.actor not in self._back:
            return
        self._back.discard(event.actor)
        if before is None or before[0] != now[0]:
            return
        self.tried = True
        if before != now:
            yield (
                f"{event.actor} comes back in generation {now[0]} and gets {now[1]} and the "
                f"standbys {now[2]}, where it had {before[1]} and {before[2]}"
            )


class HangingMembersLeave(Invariant):
    """A thread that does not poll for ``max.poll.interval.ms`` is no member any more (KIP-62).

    A process that stood still could not notice.
    """

    name = "a thread that does not poll in time leaves the group"
    requirement = "REBAL-008"
    situation = "a thread polled later than max.poll.interval.ms allows"
    drawn_from: ClassVar = {
        "kinds": ["crash"],
        "plan": {"activation": [0.5]},
        "settings": {
            "max_poll_interval_ms": [6_000],
            "request_timeout_ms": [30_000],
            "session_timeout_ms": [10_000],
        },
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._went_on: dict[str, int] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {"instance.went_on": self._resumed, "thread.polled_late": self._polled}

    def _resumed(self, event: Event) -> Iterable[str]:
        self._went_on[event.actor] = event.time
        return ()

    def _polled(self, event: Event) -> Iterator[str]:
        passed_ms = event.attributes["passed_ms"]
        if self._went_on.get(event.process, -1) >= event.time - passed_ms - _UNCERTAIN_MS:
            return
        self.tried = True
        if event.attributes["is_member"]:
            yield f"{event.actor} has not polled for {passed_ms} ms, and is a member nonetheless"


class CorruptedTasksAreOffered(Invariant):
    """Under exactly-once, a thread with a corrupted active task joins again (KAFKA-12486)."""

    name = "a thread whose active task is corrupted lets the group rebalance"
    requirement = "REBAL-009"
    situation = "an active task was corrupted under exactly-once, and its thread lived on"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By thread, its first corrupted task since it joined last.
        self._waiting: dict[str, str] = {}
        # By thread, its active tasks.
        self._active: dict[str, list[str]] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        if not self.history.exactly_once:
            return {}
        return {
            "thread.assigned": self._assigned,
            "task.corrupted": self._corrupted,
            "thread.subscribed": self._joined,
            "thread.lost": self._over,
            "thread.died": self._over,
            "thread.stopped": self._over,
            "instance.crashed": self._ended,
            "instance.stopped": self._ended,
        }

    def _assigned(self, event: Event) -> Iterable[str]:
        self._active[event.actor] = event.attributes["active"]
        return ()

    def _corrupted(self, event: Event) -> Iterable[str]:
        # If a state updater dies, the stores are not at fault.
        is_active = event.task in self._active.get(event.actor, ())
        if is_active and "updater" not in event.attributes["reason"]:
            self._waiting.setdefault(event.actor, event.task)
        return ()

    def _joined(self, event: Event) -> Iterable[str]:
        self.tried |= self._waiting.pop(event.actor, None) is not None
        return ()

    def _over(self, event: Event) -> Iterable[str]:
        self._waiting.pop(event.actor, None)
        return ()

    def _ended(self, event: Event) -> Iterable[str]:
        prefix = f"{event.actor}/"
        self._waiting = {
            thread: task for thread, task in self._waiting.items() if not thread.startswith(prefix)
        }
        return ()

    def at_end(self) -> Iterator[str]:
        for thread, task in self._waiting.items():
            yield f"{task} of {thread} was corrupted, and {thread} never joined the group again"
