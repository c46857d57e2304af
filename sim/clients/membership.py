"""Membership in a group: joining, getting an assignment, staying alive, and being left out.

The protocol runs in the background, and its owner asks for the result, so that the owner can
process records during a rebalance.

Sources: KIP-429; Kafka, AbstractCoordinator and ConsumerCoordinator.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Any, Generic, TypeVar

from simpy.events import Event

from streamproof.sim.actor_hosts import Host, Steps
from streamproof.sim.broker_errors import IllegalGenerationError, RequestTimeoutError
from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.network import Network
from streamproof.sim.world import World

__all__ = ["HEARTBEAT_MS", "SESSION_TIMEOUT_MS", "Membership"]

HEARTBEAT_MS = 3_000
"""``heartbeat.interval.ms``."""

SESSION_TIMEOUT_MS = 45_000
"""``session.timeout.ms``."""

_ASK_AGAIN_MS = 1_000
"""How often a member asks whether the others have joined, unless the group changes before.

The real protocol waits for a reply instead.
"""

S = TypeVar("S")
A = TypeVar("A")

Assign = Callable[[dict[str, S]], Generator[Event, Any, dict[str, A]]]
"""The work of the leader: it makes the assignment of each member from all subscriptions."""


class Membership(Generic[S, A]):
    """One member of a group.

    Args:
        world: the world.
        host: the process of the member.
        network: the way to the brokers.
        cluster: the brokers.
        group: the name of the group.
        describe: makes the subscription, each time that the member joins.
        assign: makes the assignment, if the member leads the group.
        session_timeout_ms: how long the member may be silent.
        heartbeat_ms: how often the member says that it is alive.
        wake: wakes the owner when something has changed.

    Attributes:
        member_id: the id of the member; empty before the first join, and after it was left out.
        generation: the generation of the last assignment; -1 before the first.
        assignment: the last assignment, until the owner takes it; ``None`` without a new one.
        is_rebalancing: whether the member joins, or its owner has not taken the assignment yet.
        was_left_out: whether the group has gone on without the member: its tasks are lost.
    """

    def __init__(
        self,
        world: World,
        host: Host,
        network: Network,
        cluster: Cluster,
        *,
        group: str,
        describe: Callable[[], S],
        assign: Assign[S, A],
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        heartbeat_ms: int = HEARTBEAT_MS,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._world = world
        self._host = host
        self._network = network
        self._group = cluster.group(group)
        self._next_change = partial(cluster.next_change, group)
        self._describe = describe
        self._assign = assign
        self._session_timeout_ms = session_timeout_ms
        self._heartbeat_ms = heartbeat_ms
        self._wake = wake
        self._wanted = world.time.event()
        self._released = world.time.event()
        self._holders = 0
        self._is_closed = False
        self.member_id = ""
        self.generation = -1
        self.assignment: A | None = None
        self.is_rebalancing = False
        self.was_left_out = False
        host.start(self._run())

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
        """Ask for a rebalance. During a rebalance this does nothing more."""
        self.is_rebalancing = True
        if not self._wanted.triggered:
            self._wanted.succeed()

    def take_assignment(self) -> A | None:
        """The assignment since the last call; ``None`` without a new one."""
        found, self.assignment = self.assignment, None
        if found is not None:
            self.is_rebalancing = False
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

    def leave(self) -> Steps:
        """Leave the group, and take no further part in it."""
        self._is_closed = True
        if self.member_id:
            try:
                yield from self._call(
                    "leave group", lambda: self._group.leave(self.member_id, self._world.now)
                )
            except RequestTimeoutError:
                # If no reply comes, the group learns of it once the session is over.
                return

    def abandon(self) -> None:
        """Take no further part, without telling the group."""
        self._is_closed = True

    def _run(self) -> Steps:
        """Join when the owner or the group wants it, and send heartbeats otherwise."""
        time = self._world.time
        while not self._is_closed:
            yield time.any_of([self._wanted, time.timeout(self._heartbeat_ms)])
            if self._is_closed:
                return
            try:
                if self._wanted.triggered or (self.member_id and (yield from self._heartbeat())):
                    yield from self._join()
            except IllegalGenerationError:
                self._be_left_out()
            except RequestTimeoutError:
                # The group may leave us out before the next try.
                if self.is_rebalancing:
                    self.rejoin()

    def _heartbeat(self) -> Generator[Event, Any, bool]:
        asked: bool = yield from self._call(
            "heartbeat",
            lambda: self._group.heartbeat(self.member_id, self.generation, self._world.now),
        )
        self.is_rebalancing |= asked
        return asked

    def _join(self) -> Steps:
        self.is_rebalancing = True
        # The subscription must be true, so that the owner has to finish its change first.
        while self._holders or self.was_left_out or self.assignment is not None:
            self._released = self._world.time.event()
            yield self._released
        if self._is_closed:
            # A member that is about to leave does not join once more.
            return
        # During the wait the owner may have taken an assignment, which ended an earlier rebalance.
        self.is_rebalancing = True
        # A wish for another rebalance comes too late for this one from here on.
        self._wanted = self._world.time.event()
        described = self._describe()
        self.member_id = yield from self._call(
            "join group",
            lambda: self._group.join(
                self.member_id,
                described,
                self._world.now,
                session_timeout_ms=self._session_timeout_ms,
            ),
        )
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

    def _be_left_out(self) -> None:
        self.member_id, self.generation, self.assignment = "", -1, None
        self.was_left_out = True
        self._world.trace.emit("group.left_out", self._host.name)
        self.rejoin()
        self._wake()

    def _call(self, what: str, handle: Callable[[], Any]) -> Generator[Event, Any, Any]:
        return (yield from self._network.call(self._host.name, what, handle))
