"""The group coordinator of the classic protocol: the members of a group, and their generation.

A rebalance has two steps, as in the classic protocol: all members join, and then the leader of the
group hands in the assignment. A member that does not join in time is left out. A member of an
earlier generation cannot commit any more.

Sources: KIP-345 (static members), KIP-429 (cooperative rebalancing); Kafka, GroupCoordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

from streamproof.sim.broker_errors import IllegalGenerationError
from streamproof.sim.brokers.committed_offsets import CommittedOffsets

__all__ = ["GroupCoordinator", "GroupMember", "GroupState", "Joined"]

S = TypeVar("S")
"""The subscription of a member, which it sends when it joins."""

A = TypeVar("A")
"""The assignment of a member, which the leader makes."""


class GroupState(Enum):
    """The state of a group."""

    EMPTY = "it has no members"
    JOINING = "it waits for all members to join"
    SYNCING = "it waits for the leader's assignment"
    STABLE = "all members have their assignment"


@dataclass
class GroupMember(Generic[S, A]):
    """A member of a group.

    Attributes:
        subscription: its subscription when it joined last.
        instance_id: the name of a static member; empty for a dynamic one.
        rebalance_timeout_ms: how long a rebalance waits for the member to join again.
        joined: whether it has joined the current rebalance.
        last_heartbeat: when the coordinator heard of it last, in milliseconds.
        assignment: its assignment of the current generation; ``None`` before the leader has handed
            it in.
    """

    subscription: S
    session_timeout_ms: int
    instance_id: str = ""
    rebalance_timeout_ms: int = 0
    joined: bool = True
    last_heartbeat: int = 0
    assignment: A | None = None


@dataclass(frozen=True)
class Joined(Generic[S]):
    """The answer that a member gets once all have joined.

    Attributes:
        generation: the new generation of the member.
        subscriptions: the subscriptions of all members, for the leader; empty for the others.
    """

    generation: int
    leader: str
    subscriptions: dict[str, S] = field(default_factory=dict)


class GroupCoordinator(CommittedOffsets, Generic[S, A]):
    """One consumer group with the classic protocol.

    Args:
        rebalance_timeout_ms: how long a rebalance waits for members that do not join again, if they
            do not say so themselves.
        ignores_generation: whether it takes offsets from members of an earlier generation.
        forgets_takeovers: whether the coordinator that comes next does not know of static members
            that came back.
        changed: a callback for each change of the state.
        left_out: a callback for each member that is left out, with its id.

    Attributes:
        generation: the number of the last completed rebalance; 0 before the first.
        state: the state of the group.
        members: the members by id, in the order in which they came.
    """

    def __init__(
        self,
        rebalance_timeout_ms: int,
        *,
        ignores_generation: bool = False,
        forgets_takeovers: bool = False,
        changed: Callable[[], None] = lambda: None,
        left_out: Callable[[str], None] = lambda _: None,
    ) -> None:
        super().__init__()
        self._changed = changed
        self._left_out = left_out
        self._ignores_generation = ignores_generation
        self._forgets_takeovers = forgets_takeovers
        # By member id, the id that the member took over since the last rebalance.
        self._taken_over: dict[str, str] = {}
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._deadline = 0
        self._next_member = 0
        self.generation = 0
        self.state = GroupState.EMPTY
        self.members: dict[str, GroupMember[S, A]] = {}

    @property
    def leader(self) -> str:
        """The member that assigns: the one that came first."""
        return next(iter(self.members), "")

    def join(
        self,
        member_id: str,
        subscription: S,
        now: int,
        *,
        session_timeout_ms: int = 45_000,
        instance_id: str = "",
        rebalance_timeout_ms: int = 0,
    ) -> str:
        """Join, or join again, which begins a rebalance; return the id of the member.

        Args:
            member_id: the id of the member; empty for a new one.
            subscription: its subscription.
            now: the time, in milliseconds.
            session_timeout_ms: how long the member may be silent.
            instance_id: the name of a static member. A process that comes back under this name
                fences its predecessor and gets its assignment, without a rebalance.
            rebalance_timeout_ms: how long a rebalance waits for the member to join again; 0 for the
                time of the group. Kafka's clients send ``max.poll.interval.ms``.

        Raises:
            IllegalGenerationError: the group has no member of that id.
        """
        self._require_here()
        if member_id and member_id not in self.members:
            raise self._unknown(member_id)
        if not member_id and (found := self.predecessor(instance_id)):
            return self._take_over(found, subscription, now)
        if not member_id:
            self._next_member += 1
            member_id = f"member-{self._next_member}"
            self.members[member_id] = GroupMember(
                subscription,
                session_timeout_ms,
                instance_id,
                rebalance_timeout_ms or self._rebalance_timeout_ms,
            )
        member = self.members[member_id]
        member.subscription, member.last_heartbeat = subscription, now
        self._begin_rebalance(now)
        member.joined = True
        return member_id

    def poll_join(self, member_id: str, now: int) -> Joined[S] | None:
        """The new generation, once all have joined or the time is up; ``None`` before that.

        Raises:
            IllegalGenerationError: the member was left out meanwhile.
        """
        self._require_here()
        if member_id in self.members:
            # A member that waits for the others is alive, and has joined the current rebalance.
            self.members[member_id].last_heartbeat = now
            self.members[member_id].joined = True
        self.advance(now)
        if member_id not in self.members:
            raise self._unknown(member_id)
        if self.state is GroupState.JOINING:
            return None
        # A static leader that comes back to a stable group does not assign again (KIP-814).
        leads = member_id == self.leader and self.state is GroupState.SYNCING
        subscriptions = {name: each.subscription for name, each in self.members.items()}
        return Joined(self.generation, self.leader, subscriptions if leads else {})

    def sync(self, member_id: str, generation: int, assignments: Mapping[str, A]) -> None:
        """Take the assignment of all members from the leader.

        Raises:
            IllegalGenerationError: the caller does not lead this generation.
        """
        self._require(member_id, generation)
        if member_id != self.leader:
            raise IllegalGenerationError(
                f"{member_id} does not lead the group, so it cannot assign tasks."
            )
        if self.state is GroupState.SYNCING:
            for name, member in self.members.items():
                member.assignment = assignments.get(name)
            self.state = GroupState.STABLE
            self._changed()

    def poll_sync(self, member_id: str, generation: int) -> A | None:
        """The assignment of a member; ``None`` as long as the leader has not handed it in.

        Raises:
            IllegalGenerationError: another generation has begun.
        """
        member = self._require(member_id, generation)
        return member.assignment if self.state is GroupState.STABLE else None

    def heartbeat(self, member_id: str, generation: int, now: int) -> bool:
        """Note that a member is alive; return whether it has to join a rebalance.

        Raises:
            IllegalGenerationError: it is not a member of this generation any more.
        """
        self._require_here()
        self.advance(now)
        self._require(member_id, generation).last_heartbeat = now
        return self.state is GroupState.JOINING

    def leave(self, member_id: str, now: int) -> None:
        """Remove a dynamic member. A member that the group does not have is no error."""
        self._require_here()
        if self.members.pop(member_id, None) is not None:
            self._begin_rebalance(now)

    def predecessor(self, instance_id: str) -> str:
        """The id of the static member that has this name now; empty without one."""
        found = (name for name, each in self.members.items() if each.instance_id == instance_id)
        return next(found, "") if instance_id else ""

    def advance(self, now: int) -> list[str]:
        """Leave out the members that were silent, or did not join in time; return their ids.

        Call this as time passes. The other methods call it themselves where the answer depends on
        it.
        """
        if self.is_away:
            return []
        late = [
            name
            for name, each in self.members.items()
            if now - each.last_heartbeat >= each.session_timeout_ms
            or (self.state is GroupState.JOINING and now >= self._deadline and not each.joined)
        ]
        for name in late:
            del self.members[name]
            self._left_out(name)
        if late:
            self._begin_rebalance(now)
        if self.state is GroupState.JOINING and all(each.joined for each in self.members.values()):
            self._complete_join()
        return late

    def hear_of_all(self, now: int) -> None:
        """Restart the wait for the members, as a coordinator does that has just moved here."""
        if self._forgets_takeovers:
            self.members = {
                self._taken_over.get(name, name): each for name, each in self.members.items()
            }
        for each in self.members.values():
            each.last_heartbeat = now

    def _begin_rebalance(self, now: int) -> None:
        if not self.members:
            self.state = GroupState.EMPTY
            return
        if self.state is GroupState.JOINING:
            # A member that has already joined does not join again.
            return
        self.state = GroupState.JOINING
        waits = (each.rebalance_timeout_ms for each in self.members.values())
        self._deadline = now + max(waits)
        for each in self.members.values():
            each.joined = False
        self._changed()

    def _complete_join(self) -> None:
        if not self.members:
            self.state = GroupState.EMPTY
            return
        self.generation += 1
        self.state = GroupState.SYNCING
        # The assignment of the new generation is kept with the ids of its members.
        self._taken_over.clear()
        for each in self.members.values():
            each.assignment = None
        self._changed()

    def _take_over(self, before: str, subscription: S, now: int) -> str:
        self._next_member += 1
        member_id = f"member-{self._next_member}"
        # The member takes the place of its predecessor, so that the leader stays the leader.
        self.members = {
            member_id if name == before else name: each for name, each in self.members.items()
        }
        member = self.members[member_id]
        member.subscription, member.last_heartbeat = subscription, now
        self._taken_over[member_id] = before
        if self.state is GroupState.SYNCING:
            # The leader assigns by the ids of before (Kafka, GroupMetadataManager).
            self._begin_rebalance(now)
        member.joined = True
        self._changed()
        return member_id

    def _require_owner(self, member_id: str, epoch: int, partitions: Iterable[str]) -> None:
        del partitions
        if not self._ignores_generation:
            self._require(member_id, epoch)

    def _require(self, member_id: str, generation: int) -> GroupMember[S, A]:
        self._require_here()
        if member_id not in self.members:
            raise self._unknown(member_id)
        if generation != self.generation:
            raise IllegalGenerationError(
                f"{member_id} is of generation {generation}, but the group is in "
                f"{self.generation}: join again."
            )
        return self.members[member_id]

    @staticmethod
    def _unknown(member_id: str) -> IllegalGenerationError:
        return IllegalGenerationError(f"{member_id} is not a member of the group.")
