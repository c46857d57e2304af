"""The group coordinator of the streams protocol: the broker assigns, and each member follows.

The group has an epoch, which grows with each change of its members and stands for one target
assignment. Each member has an epoch of its own, and comes to the target step by step: first it
gives up the tasks that it is to lose, in its old epoch; once it has said so, it is of the new
epoch, and gets each task that no other member has any more. Members learn of that by their
heartbeats.

Sources: KIP-848, "Rebalance Process"; KIP-1071; KIP-1251 (which offsets are taken); Kafka,
CurrentAssignmentBuilder and StreamsGroup of the group coordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from streamproof.sim.broker_errors import (
    FencedMemberEpochError,
    IllegalGenerationError,
    UnreleasedInstanceIdError,
)
from streamproof.sim.brokers.committed_offsets import CommittedOffsets
from streamproof.sim.decisions.sticky_assignment import Share
from streamproof.sim.tasks.assignor import Subscription, ThreadAssignment

__all__ = ["JOINING_EPOCH", "Heartbeat", "StreamsGroup", "StreamsGroupMember", "Told"]

JOINING_EPOCH = 0
"""The epoch of a member that joins, for the first time or anew."""

AssignTasks = Callable[[Mapping[str, Share]], dict[str, Share]]
"""Makes the target of each member from what all members have."""


class Heartbeat(NamedTuple):
    """A heartbeat.

    Attributes:
        member_id: the id of the member; empty for a new one.
        epoch: the epoch that the member knows; ``JOINING_EPOCH`` to join.
        report: its process and its active tasks, if the member says what it has; ``None`` in a
            short heartbeat.
        session_timeout_ms: how long the member may be silent.
        rebalance_timeout_ms: how long it may take to give tasks up.
        instance_id: the name of a static member; empty for a dynamic one.
        thread: the owner of the member, for the trace.
    """

    member_id: str
    epoch: int
    report: Subscription | None = None
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    instance_id: str = ""
    thread: str = ""


class Told(NamedTuple):
    """The answer to a heartbeat.

    Attributes:
        member_id: the id of the member.
        epoch: the epoch of the member.
        assignment: the tasks of the member; ``None`` if they are as before.
    """

    member_id: str
    epoch: int
    assignment: ThreadAssignment | None = None


@dataclass
class StreamsGroupMember:
    """A member of the group.

    Attributes:
        subscription: its last report.
        session_timeout_ms: how long it may be silent.
        rebalance_timeout_ms: how long it may take to give tasks up.
        instance_id: the name of a static member; empty for a dynamic one.
        epoch: the epoch of the member.
        previous_epoch: the epoch before: the answer with the newer one may have been lost.
        since: its active tasks, each with the epoch in which the member got it.
        standby: the tasks of which it keeps a copy.
        revoking: the tasks that it has to give up before it gets any other, likewise.
        revoke_until: when these tasks must be given up; 0 without any.
        waits: whether another member still has a task of its target.
        is_away: whether a static member has said that it will come back.
        last_heartbeat: when the coordinator heard of it last, in milliseconds.
    """

    subscription: Subscription
    session_timeout_ms: int
    rebalance_timeout_ms: int
    instance_id: str = ""
    epoch: int = 0
    previous_epoch: int = 0
    since: dict[str, int] = field(default_factory=dict)
    standby: frozenset[str] = frozenset()
    revoking: dict[str, int] = field(default_factory=dict)
    revoke_until: int = 0
    waits: bool = False
    is_away: bool = False
    last_heartbeat: int = 0

    @property
    def assignment(self) -> ThreadAssignment:
        """The tasks that the member is to have now."""
        return ThreadAssignment(tuple(sorted(self.since)), tuple(sorted(self.standby)))


class StreamsGroup(CommittedOffsets):
    """One group.

    Args:
        assign: makes the target assignment.
        tasks_of: the tasks that read any of some partitions.
        mistakes: the defects of the coordinator, which are usually off.
        joined: a callback for each member that comes: its heartbeat, its id, and the id that its
            name had before, if it is a static member that comes back.
        targeted: a callback for each target assignment: its epoch, and the share of each member.
        reconciled: a callback for each step of a member, with its id.
        left_out: a callback for each member that is left out, with its id.
        refused: a callback for refused offsets: the id and epoch of the member, and the tasks.

    Attributes:
        generation: the epoch of the group.
        members: the members by id, in the order in which they came.
    """

    def __init__(
        self,
        assign: AssignTasks,
        tasks_of: Callable[[Iterable[str]], set[str]],
        *,
        mistakes: Callable[[str], bool] = lambda _: False,
        joined: Callable[[Heartbeat, str, str], None] = lambda _, __, ___: None,
        targeted: Callable[[int, Mapping[str, Share]], None] = lambda _, __: None,
        reconciled: Callable[[str, StreamsGroupMember], None] = lambda _, __: None,
        left_out: Callable[[str], None] = lambda _: None,
        refused: Callable[[str, int, set[str]], None] = lambda _, __, ___: None,
    ) -> None:
        super().__init__()
        self._assign = assign
        self._tasks_of = tasks_of
        self._has = mistakes
        self._joined = joined
        self._targeted = targeted
        self._reconciled = reconciled
        self._left_out = left_out
        self._refused = refused
        self._next_member = 0
        self._targets: dict[str, Share] = {}
        self.generation = 0
        self.members: dict[str, StreamsGroupMember] = {}

    def heartbeat(self, beat: Heartbeat, now: int) -> Told:
        """Take a heartbeat, and move the member on, if it may.

        Raises:
            IllegalGenerationError: the group has no such member.
            FencedMemberEpochError: the member is behind: it must give everything up and join anew.
            UnreleasedInstanceIdError: another process has the name of the static member.
        """
        self._require_here()
        self.advance(now)
        joins = beat.epoch == JOINING_EPOCH
        member_id = self._join(beat, now) if joins else self._require_known(beat)
        member = self.members[member_id]
        member.last_heartbeat = now
        if beat.report is not None:
            member.subscription = beat.report
        before = member.assignment
        self._reconcile(member_id, beat.report, now)
        is_news = joins or beat.report is not None or beat.epoch != member.epoch
        is_news |= member.assignment != before
        return Told(member_id, member.epoch, member.assignment if is_news else None)

    def leave(self, member_id: str, now: int) -> None:
        """Remove a member. A member that the group does not have is no error."""
        self._require_here()
        if self.members.pop(member_id, None) is not None:
            self.advance(now)
            self._make_target()

    def leave_for_now(self, member_id: str) -> None:
        """Note that a static member will come back: within its session, its tasks are kept."""
        self._require_here()
        if member_id in self.members:
            self.members[member_id].is_away = True

    def advance(self, now: int) -> None:
        """Leave out the members that were silent, or did not give tasks up in time."""
        if self.is_away:
            return
        late = [
            name
            for name, each in self.members.items()
            if now - each.last_heartbeat >= each.session_timeout_ms or 0 < each.revoke_until <= now
        ]
        for name in late:
            del self.members[name]
            self._left_out(name)
        if late:
            self._make_target()

    def hear_of_all(self, now: int) -> None:
        """Restart the wait for the members, as a coordinator does that has just moved here."""
        for each in self.members.values():
            each.last_heartbeat = now

    # Members.

    def _join(self, beat: Heartbeat, now: int) -> str:
        """A member joins, or joins anew; return its id."""
        if beat.report is None:
            raise IllegalGenerationError("A member that joins has to say what it has.")
        if beat.member_id in self.members:
            self._rejoin(beat.member_id)
            return beat.member_id
        member_id = beat.member_id
        if not member_id:
            self._next_member += 1
            member_id = f"member-{self._next_member}"
        for name, each in self.members.items():
            if beat.instance_id and each.instance_id == beat.instance_id:
                self._take_over(name, member_id)
                self._joined(beat, member_id, name)
                return member_id
        self.members[member_id] = StreamsGroupMember(
            beat.report,
            beat.session_timeout_ms,
            beat.rebalance_timeout_ms,
            beat.instance_id,
            last_heartbeat=now,
        )
        self._joined(beat, member_id, "")
        self._make_target()
        return member_id

    def _rejoin(self, member_id: str) -> None:
        """A member that the group still has joins anew: it has nothing any more (KAFKA-19233)."""
        member = self.members[member_id]
        if self._has("refuses-fenced-members") and member.epoch:
            raise IllegalGenerationError(
                f"{member_id} joins, but the group knows it with epoch {member.epoch}."
            )
        member.since = dict.fromkeys(member.since, max(member.epoch, 1))

    def _take_over(self, before: str, member_id: str) -> None:
        """A static member comes back under another id, and gets what it had (KIP-848)."""
        if not self.members[before].is_away:
            raise UnreleasedInstanceIdError(
                f"{before} has the name, and has not said that it would leave."
            )
        self.members = {
            member_id if name == before else name: each for name, each in self.members.items()
        }
        self._targets[member_id] = self._targets.pop(before)
        self.members[member_id].is_away = False

    def _require_known(self, beat: Heartbeat) -> str:
        member = self.members.get(beat.member_id)
        if member is None:
            raise IllegalGenerationError(f"{beat.member_id} is not a member of the group.")
        if beat.epoch == member.epoch:
            return beat.member_id
        # The answer with the newer epoch was lost.
        owned = set(beat.report.owned) if beat.report else None
        if beat.epoch == member.previous_epoch and owned is not None and owned <= set(member.since):
            return beat.member_id
        raise FencedMemberEpochError(
            f"{beat.member_id} is of epoch {beat.epoch}, and not of {member.epoch}: join again."
        )

    # Assignments.

    def _make_target(self) -> None:
        """Begin another epoch of the group, with a target assignment of its own."""
        self.generation += 1
        if not self.members:
            self._targets = {}
            return
        self._targets = self._assign(
            {
                name: Share(
                    each.subscription.process,
                    frozenset(each.since) | frozenset(each.revoking),
                    each.standby,
                )
                for name, each in self.members.items()
            }
        )
        self._targeted(self.generation, self._targets)

    def _reconcile(self, member_id: str, report: Subscription | None, now: int) -> None:
        """Take the next step from what a member has to its target, if it may be taken."""
        member = self.members[member_id]
        before, epoch = replace(member), member.epoch
        if member.revoking:
            if report is None or member.revoking.keys() & set(report.owned):
                return
            member.revoking, member.revoke_until = {}, 0
            epoch += 1
        elif epoch == self.generation and not member.waits:
            return
        target = self._targets[member_id]
        lost = {task: at for task, at in member.since.items() if task not in target.active}
        kept = {task: at for task, at in member.since.items() if task in target.active}
        if lost and not self._has("hands-tasks-out-unreleased"):
            member.revoking, member.revoke_until = lost, now + member.rebalance_timeout_ms
            member.standby &= target.standby
        else:
            epoch = self.generation
            free = target.active - self._owned_by_others(member_id)
            kept |= {task: epoch for task in free if task not in kept}
            member.standby = target.standby
        member.waits = member.revoking == {} and kept.keys() != target.active
        if epoch != member.epoch:
            member.previous_epoch, member.epoch = member.epoch, epoch
        member.since = kept
        if member != before:
            self._reconciled(member_id, member)

    def _owned_by_others(self, member_id: str) -> set[str]:
        """The tasks that another member has, or has not given up yet."""
        if self._has("hands-tasks-out-unreleased"):
            return set()
        others = [each for name, each in self.members.items() if name != member_id]
        return {task for each in others for task in (*each.since, *each.revoking)}

    # Offsets.

    def _require_owner(self, member_id: str, epoch: int, partitions: Iterable[str]) -> None:
        """Take offsets of an older epoch as well, if the member has the tasks since then.

        Sources: KIP-1251; KAFKA-19779.
        """
        if self._has("ignores-generation"):
            return
        member, tasks = self.members.get(member_id), self._tasks_of(partitions)
        if member is not None and epoch == member.epoch:
            return
        if member is not None and epoch < member.epoch and not self._has("refuses-older-epochs"):
            had = {**member.since, **member.revoking}
            if all(task in had and had[task] <= epoch for task in tasks):
                return
        self._refused(member_id, epoch, tasks)
        raise IllegalGenerationError(
            f"{member_id} commits in epoch {epoch}, and does not have all of {sorted(tasks)} since."
        )
