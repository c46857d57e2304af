"""Requests and replies: they take time, and either may be lost or late.

A request whose reply is lost was carried out. Its sender cannot tell it from a request that never
arrived: in both cases it gets the same time-out.

A request that is on its way arrives, whatever becomes of its sender meanwhile: the sender may have
died, or may have given the request up, because the network or a broker held it up for too long.

Sources: KIP-890, "Motivation"; Kafka, NetworkClient, which closes the connection of a request that
timed out, while a broker may still have the request in its queue.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, Generic, TypeVar

from simpy.events import Event, Timeout

from streamproof.sim.actor_hosts import Host
from streamproof.sim.broker_errors import (
    BrokerError,
    CoordinatorNotAvailableError,
    RequestTimeoutError,
)
from streamproof.sim.world import World

__all__ = ["REQUEST_TIMEOUT_MS", "RETRY_BACKOFF_MS", "Network", "at_once"]

T = TypeVar("T")

REQUEST_TIMEOUT_MS = 30_000
"""``request.timeout.ms``."""

RETRY_BACKOFF_MS = 100
"""``retry.backoff.ms``: the pause before a request is sent to a new coordinator."""

_LATENCY_MS = 4
"""A message takes 1 to this many milliseconds."""

_SLOW_MS = 2_000
"""A slow message takes up to this many milliseconds more."""

_LATE_MS = 20_000
"""A message that the network holds up takes up to this many milliseconds more."""

_MAY_BE_LATE = frozenset(
    {"init producer", "add partitions", "produce", "add offsets", "end transaction"}
)
"""The requests that the network may hold up: those of producers.

A late commit of a consumer would take its offset back, and Kafka has no defence against that.
"""


def at_once() -> int:
    """The brokers carry the request out when it arrives."""
    return 0


class _Request(Generic[T]):
    """A request on its way, which may outlive its sender.

    Args:
        sender: the host that sends it.
        what: its name.
        handle: carries it out, at the brokers.
        queue_ms: how long the brokers leave it waiting if it arrives now, in milliseconds.

    Attributes:
        held_ms: how long it is held up after its arrival, in milliseconds.
        held: happens when a request that was held up is carried out; ``None`` for any other.
        is_given_up: whether its sender has given it up, and waits for no reply.
        is_lost: whether the request or its reply is lost.
        reply: the answer of the brokers, once they have carried it out.
    """

    __slots__ = (
        "handle",
        "held",
        "held_ms",
        "is_given_up",
        "is_lost",
        "queue_ms",
        "reply",
        "sender",
        "what",
    )

    def __init__(
        self, sender: Host, what: str, handle: Callable[[], T], queue_ms: Callable[[], int]
    ) -> None:
        self.sender = sender
        self.what = what
        self.handle = handle
        self.queue_ms = queue_ms
        self.held_ms = 0
        self.held: Timeout | None = None
        self.is_given_up = False
        self.is_lost = False
        self.reply: Any = None

    def carry_out(self) -> None:
        """Carry it out. A refusal travels back like any other reply."""
        try:
            self.reply = self.handle()
        except BrokerError as error:
            self.reply = error


def _refusal(reply: object) -> BrokerError | None:
    """Why the brokers have refused a request, or a part of it; ``None`` if they have not."""
    replies = reply.values() if isinstance(reply, dict) else (reply,)
    return next((each for each in replies if isinstance(each, BrokerError)), None)


class Network:
    """The network between hosts and brokers.

    Args:
        world: the world.
        request_timeout_ms: how long a caller waits for a reply.
        never_late: the requests that the network does not hold up unless a scenario says so,
            because the brokers have no defence against them.
    """

    def __init__(
        self,
        world: World,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        *,
        never_late: Iterable[str] = (),
    ) -> None:
        self._world = world
        self._timeout_ms = request_timeout_ms
        self._may_be_late = _MAY_BE_LATE.difference(never_late)
        self._cut: set[str] = set()

    def cut(self, host: str) -> None:
        """Separate a host from the brokers: nothing passes in either direction."""
        self._cut.add(host)

    def heal(self, host: str) -> None:
        """Connect a host again."""
        self._cut.discard(host)

    def is_cut(self, host: str) -> bool:
        """Whether a host is separated from the brokers."""
        return host in self._cut

    def call(
        self,
        sender: Host,
        what: str,
        handle: Callable[[], T],
        *,
        queue_ms: Callable[[], int] = at_once,
    ) -> Generator[Event, Any, T]:
        """Send a request to the brokers, and wait for the reply.

        Args:
            sender: the host of the sender.
            what: the name of the request, for the trace.
            handle: carries the request out, at the brokers. A late request is carried out when its
                sender has gone on, so the function must know its arguments beforehand.
            queue_ms: how long the brokers leave a request waiting that arrives now, in
                milliseconds.

        Raises:
            RequestTimeoutError: no reply came; the request may have been carried out, or may still
                arrive.
            BrokerError: the brokers refused it.
        """
        started = self._world.now
        while True:
            request = _Request(sender, what, handle, queue_ms)
            reply = yield from self._exchange(request, started)
            if not isinstance(reply, CoordinatorNotAvailableError):
                break
            self._world.marks.sometimes("a request came to a coordinator that was away")
            if self._world.now - started >= self._timeout_ms:
                raise RequestTimeoutError(f"{what}: {reply}") from reply
            # Clients find the new coordinator without the caller, and send the request again.
            yield self._world.time.timeout(RETRY_BACKOFF_MS)
        if isinstance(reply, BrokerError):
            raise reply
        return reply

    def carry(self, sender: str, what: str) -> Generator[Event, Any, bool]:
        """Take a message to or from a client of the application; return whether it arrived.

        An instance that is separated from the brokers is not separated from these clients.

        Args:
            sender: the sender.
            what: the name of the message, for scripted faults.
        """
        yield self._world.time.timeout(self._latency(sender, what))
        return not self._world.faults.happens("network.request_lost", sender, what)

    def _exchange(
        self, request: _Request[T], started: int
    ) -> Generator[Event, Any, T | BrokerError]:
        """One request, and its reply."""
        world, sender, what = self._world, request.sender.name, request.what
        arrival = world.time.timeout(self._latency(sender, what))
        # The request arrives before its sender goes on, and even if its sender has died.
        arrival.callbacks.append(lambda _: self._arrive(request))
        yield arrival
        if request.held is not None:
            if request.held_ms >= self._timeout_ms - (world.now - started):
                request.is_given_up = True
                yield from self._time_out(started, what)
            yield request.held
        if request.is_lost:
            yield from self._time_out(started, what)
        yield world.time.timeout(self._latency(sender, what))
        reply: T | BrokerError = request.reply
        return reply

    def _arrive(self, request: _Request[Any]) -> None:
        """A request reaches the brokers, which carry it out, now or later."""
        world, sender, what = self._world, request.sender, request.what
        if not sender.is_alive:
            # Its process has died while the request was on its way.
            if sender.name not in self._cut:
                world.marks.sometimes("a request arrived after its sender had died")
                request.carry_out()
            return
        if self._is_lost("network.request_lost", sender.name, what):
            world.marks.sometimes("a request was lost before it was carried out")
            world.trace.emit("network.request_lost", sender.name, what=what)
            request.is_lost = True
            return
        held_ms = request.queue_ms() or self._late_ms(sender.name, what)
        if held_ms:
            world.trace.emit("network.request_held", sender.name, what=what, held_ms=held_ms)
            request.held_ms, request.held = held_ms, world.time.timeout(held_ms)
            request.held.callbacks.append(lambda _: self._carry_out_late(request))
            return
        request.carry_out()
        if self._is_lost("network.reply_lost", sender.name, what):
            world.marks.sometimes("a reply was lost after the request was carried out")
            world.trace.emit("network.reply_lost", sender.name, what=what)
            request.is_lost = True

    def _carry_out_late(self, request: _Request[Any]) -> None:
        """Carry out a request that was held up; nobody may wait for the reply any more."""
        request.carry_out()
        if not request.is_given_up and request.sender.is_alive:
            return
        refusal = _refusal(request.reply)
        marks = self._world.marks
        marks.sometimes("a request arrived after its sender had given it up")
        marks.sometimes(
            "a request that came too late was refused",
            holds=refusal is not None,
        )
        self._world.trace.emit(
            "network.request_late",
            "brokers",
            sender=request.sender.name,
            what=request.what,
            refusal="" if refusal is None else type(refusal).__name__,
        )

    def _is_lost(self, site: str, host: str, what: str) -> bool:
        return self._world.faults.happens(site, host, what) or host in self._cut

    def _late_ms(self, host: str, what: str) -> int:
        """How long the network holds a request up, in milliseconds; mostly 0."""
        faults = self._world.faults
        if what not in self._may_be_late and faults.scripted is None:
            return 0
        late = faults.happens("network.late", host, what)
        return self._world.choices.between(1, _LATE_MS) if late else 0

    def _latency(self, host: str, what: str) -> int:
        latency = self._world.choices.between(1, _LATENCY_MS)
        if self._world.faults.happens("network.slow", host, what):
            latency += self._world.choices.between(1, _SLOW_MS)
        return latency

    def _time_out(self, started: int, what: str) -> Generator[Event, Any, None]:
        """Wait until the time is up, and raise."""
        left = self._timeout_ms - (self._world.now - started)
        if left > 0:
            yield self._world.time.timeout(left)
        raise RequestTimeoutError(f"{what}: no reply within {self._timeout_ms} ms.")
