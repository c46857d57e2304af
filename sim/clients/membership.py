"""Membership in a group: joining, getting an assignment, staying alive, and being left out.

The protocol runs in the background, and its owner asks for the result, so that the owner can
process records during a rebalance.

Sources: KIP-62 (the interval between polls), KIP-345 (static members), KIP-429, KIP-1092 (leaving
at a close); Kafka, AbstractCoordinator and ConsumerCoordinator.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, cast

from simpy.events import Event

from streamproof.sim.actor_hosts import Host, Steps
from streamproof.sim.broker_errors import IllegalGenerationError, RequestTimeoutError
from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.brokers.group_coordinator import GroupCoordinator
from streamproof.sim.network import Network
from streamproof.sim.world import World

__all__ = [
    "HEARTBEAT_MS",
    "MAX_POLL_INTERVAL_MS",
    "SESSION_TIMEOUT_MS",
    "Membership",
    "MembershipConfig",
]

HEARTBEAT_MS = 3_000
"""``heartbeat.interval.ms``."""

SESSION_TIMEOUT_MS = 45_000
"""``session.timeout.ms``."""

MAX_POLL_INTERVAL_MS = 300_000
"""``max.poll.interval.ms``."""

_NOTICED_MS = 10
"""A poll that is late by less than this is no event: the member may not have noticed it yet."""

_ASK_AGAIN_MS = 1_000
"""How often a member asks whether the others have joined, unless the group changes before.

The real protocol waits for a reply instead.
"""

S = TypeVar("S")
A = TypeVar("A")

Assign = Callable[[dict[str, S]], Generator[Event, Any, dict[str, A]]]
"""The work of the leader: it makes the assignment of each member from all subscriptions."""


@dataclass(frozen=True)
class MembershipConfig:
    """How a member behaves.

    Attributes:
        group: the name of the group.
        session_timeout_ms: how long the member may be silent.
        heartbeat_ms: how often the member says that it is alive.
        instance_id: ``group.instance.id``, the name of a static member; empty for a dynamic one.
        leaves: whether the member leaves the group when its owner closes it.
        max_poll_interval_ms: how long its owner may take between two polls before the member leaves
            the group. A rebalance waits for the member as long.
    """

    group: str
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    heartbeat_ms: int = HEARTBEAT_MS
    instance_id: str = ""
    leaves: bool = True
    max_poll_interval_ms: int = MAX_POLL_INTERVAL_MS


class Membership(Generic[S, A]):
    """One member of a group.

    Args:
        world: the world.
        host: the process of the member.
        network: the way to the brokers.
        cluster: the brokers.
        config: how the member behaves.
        actor: its owner, for the trace.
        describe: makes the subscription, each time that the member joins.
        assign: makes the assignment, if the member leads the group.
        wake: wakes the owner when something has changed.

    Attributes:
        member_id: the id of the member; empty before the first join, and after it was left out.
        generation: the generation of the last assignment; -1 before the first.
        assignment: the last assignment, until the owner takes it; ``None`` without a new one.
        is_rebalancing: whether the member joins or is to join, or its owner has not taken the
            assignment yet.
        rebalance_in_progress: the same without the wish to join. Commits wait from the report to
            the group on, and not from the wish (Kafka: TaskManager#handleRebalanceStart).
        was_left_out: whether the group has gone on without the member: its tasks are lost.
    """

    def __init__(
        self,
        world: World,
        host: Host,
        network: Network,
        cluster: Cluster,
        config: MembershipConfig,
        *,
        actor: str,
        describe: Callable[[], S],
        assign: Assign[S, A],
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._world = world
        self._host = host
        self._network = network
        self._config = config
        self._actor = actor
        # A group that is made for another protocol has members of a class of its own.
        self._group: GroupCoordinator[S, A] = cast(Any, cluster.group(config.group))
        self._next_change = partial(cluster.next_change, config.group)
        self._describe = describe
        self._assign = assign
        self._wake = wake
        # When the owner polled last, and whether it polls now.
        self._polled_at = host.now
        self._is_polling = False
        # Whether the member waits for the others, or for its assignment.
        self._is_joining = False
        self._wanted = world.time.event()
        self._released = world.time.event()
        self._holders = 0
        self._is_closed = False
        self.member_id = ""
        self.generation = -1
        self.assignment: A | None = None
        self.is_rebalancing = self.rebalance_in_progress = False
        self.was_left_out = False
        host.start(self._run())
        host.start(self._watch_the_owner())

    @property
    def credentials(self) -> tuple[str, int]:
        """The member id and generation that fence a commit."""
        return self.member_id, self.generation

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Do not join inside this block.

        A commit must end in the generation in which it began, and a subscription must not describe
        the owner in the middle of a change.
        """
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            self._release()

    def rejoin(self) -> None:
        """Ask for a rebalance, which begins once the member has an answer to its last heartbeat.

        During a rebalance this does nothing more.
        """
        self.is_rebalancing = True
        if not self._wanted.triggered:
            self._wanted.succeed()

    def join_anew(self) -> None:
        """Ask for a rebalance, now that the owner has given all its tasks up."""
        self.rejoin()

    def take_assignment(self) -> A | None:
        """The assignment since the last call; ``None`` without a new one."""
        found, self.assignment = self.assignment, None
        if found is not None:
            self.is_rebalancing = self.rebalance_in_progress = False
            self._release()
        return found

    def take_loss(self) -> bool:
        """Whether the member was left out since the last call."""
        found, self.was_left_out = self.was_left_out, False
        self._release()
        return found

    def _release(self) -> None:
        if not self._released.triggered:
            self._released.succeed()

    @contextlib.contextmanager
    def polling(self) -> Iterator[None]:
        """The owner polls inside this block: it makes progress, however long that takes."""
        passed_ms = self._host.now - self._polled_at
        if passed_ms > self._config.max_poll_interval_ms + _NOTICED_MS:
            self._world.trace.emit(
                "thread.polled_late",
                self._actor,
                passed_ms=passed_ms,
                is_member=bool(self.member_id) and not self._is_joining,
            )
        self._is_polling = True
        yield
        self._is_polling, self._polled_at = False, self._host.now

    def close(self) -> Steps:
        """Take no further part, and leave the group if the member is to leave."""
        self._is_closed = True
        leaves = self._config.leaves and not self._world.defect("remains-although-asked-to-leave")
        if self.member_id and leaves:
            yield from self._leave(self.member_id, "close")

    def _leave(self, member_id: str, reason: str) -> Steps:
        # If no reply comes, the group learns of it once the session is over.
        with contextlib.suppress(RequestTimeoutError):
            yield from self._call("leave group", partial(self._be_removed, member_id, reason))

    def _be_removed(self, member_id: str, reason: str) -> None:
        """At the coordinator: the member is gone."""
        is_member = member_id in self._group.members
        self._group.leave(member_id, self._world.now)
        if is_member:
            self._world.trace.emit(
                "group.member_left",
                "brokers",
                group=self._config.group,
                member=member_id,
                reason=reason,
            )

    def abandon(self) -> None:
        """Take no further part, without telling the group."""
        self._is_closed = True

    def _run(self) -> Steps:
        """Join when the owner or the group wants it, and send heartbeats otherwise."""
        time = self._world.time
        while not self._is_closed:
            yield time.any_of([self._wanted, time.timeout(self._config.heartbeat_ms)])
            if self._is_closed:
                return
            try:
                if self._wanted.triggered or (self.member_id and (yield from self._heartbeat())):
                    yield from self._join()
            except IllegalGenerationError:
                # A member that has given up knows it, and its last heartbeat came too late.
                if not self.was_left_out:
                    self._be_left_out()
            except RequestTimeoutError:
                # The group may leave us out before the next try.
                if self.is_rebalancing:
                    self.rejoin()
            self._is_joining = False
            # The poll may have become due while the member joined.
            self._look_at_the_owner()

    def _watch_the_owner(self) -> Steps:
        """Look at the owner each time that its next poll may be due."""
        while not self._is_closed:
            yield self._world.time.timeout(self._look_at_the_owner())

    def _look_at_the_owner(self) -> int:
        """Leave the group if the owner is late to poll (KIP-62); in how many ms to look again.

        Who is no member, or joins, cannot leave; its next poll begins a new interval.
        """
        interval_ms = self._config.max_poll_interval_ms
        passed_ms = -1 if self._is_polling else self._host.now - self._polled_at
        if passed_ms <= interval_ms:
            return max(interval_ms - passed_ms, 1)
        is_member = self.member_id and not self._is_joining
        if is_member and not self._is_closed and not self._world.defect("lets-members-hang"):
            self._give_up()
        return interval_ms + 1

    def _give_up(self) -> None:
        """Leave, because the owner makes no progress. It joins anew when it polls again."""
        self._world.marks.sometimes("a member left because its thread did not poll in time")
        member_id = self.member_id
        self._be_left_out("its thread does not poll")
        # A static member says nothing: its session ends, unless it comes back (KIP-345).
        if not self._config.instance_id:
            self._host.start(self._leave(member_id, "poll interval"))

    def _heartbeat(self) -> Generator[Event, Any, bool]:
        asked: bool = yield from self._call(
            "heartbeat",
            lambda: self._group.heartbeat(self.member_id, self.generation, self._world.now),
        )
        self.is_rebalancing |= asked
        return asked

    def _join(self) -> Steps:
        self.is_rebalancing = self.rebalance_in_progress = True
        # The subscription must be true, so that the owner has to finish its change first.
        while self._holders or self.was_left_out or self.assignment is not None:
            self._released = self._world.time.event()
            yield self._released
        if self._is_closed:
            # A member that is about to leave does not join once more.
            return
        # During the wait the owner may have taken an assignment, which ended an earlier rebalance.
        self.is_rebalancing = self.rebalance_in_progress = True
        # A wish for another rebalance comes too late for this one from here on.
        self._wanted = self._world.time.event()
        self._is_joining = True
        described = self._describe()
        self.member_id = yield from self._call("join group", partial(self._be_added, described))
        while True:
            joined = yield from self._call(
                "join group",
                lambda: self._group.poll_join(self.member_id, self._world.now),
            )
            if joined is not None:
                break
            yield self._change()
        self.generation = joined.generation
        if joined.subscriptions:
            assignments = yield from self._assign(joined.subscriptions)
            yield from self._call(
                "sync group",
                lambda: self._group.sync(self.member_id, joined.generation, assignments),
            )
        yield from self._await_assignment(joined.generation)

    def _be_added(self, described: S) -> str:
        """At the coordinator: the member joins, and has this id from now on."""
        config = self._config
        before = "" if self.member_id else self._group.predecessor(config.instance_id)
        member_id = self._group.join(
            self.member_id,
            described,
            self._world.now,
            session_timeout_ms=config.session_timeout_ms,
            instance_id=config.instance_id,
            rebalance_timeout_ms=config.max_poll_interval_ms,
        )
        if member_id != self.member_id:
            self._world.marks.sometimes(
                "a static member took the place of its predecessor", holds=bool(before)
            )
            self._world.trace.emit(
                "group.member_joined",
                "brokers",
                group=config.group,
                member=member_id,
                thread=self._actor,
                instance_id=config.instance_id,
                replaces=before,
            )
        return member_id

    def _await_assignment(self, generation: int) -> Steps:
        while True:
            found = yield from self._call(
                "sync group", lambda: self._group.poll_sync(self.member_id, generation)
            )
            if found is not None:
                break
            if (yield from self._heartbeat()):
                # Another rebalance has begun before this one was assigned.
                self.rejoin()
                return
            yield self._change()
        self.assignment = found
        self._wake()

    def _change(self) -> Event:
        time = self._world.time
        return time.any_of([self._next_change(), time.timeout(_ASK_AGAIN_MS)])

    def _be_left_out(self, reason: str = "the group refuses it") -> None:
        left = self.member_id
        self.member_id, self.generation, self.assignment = "", -1, None
        self.was_left_out = self.rebalance_in_progress = True
        self._world.trace.emit("group.left_out", self._host.name, member=left, reason=reason)
        self.rejoin()
        self._wake()

    def _call(self, what: str, handle: Callable[[], Any]) -> Generator[Event, Any, Any]:
        return (yield from self._network.call(self._host, what, handle))
