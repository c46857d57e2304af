"""Requests and replies: they take time, and either may be lost.

A request whose reply is lost was carried out. Its sender cannot tell it from a request that never
arrived: in both cases it gets the same time-out.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from simpy.events import Event

from streamproof.sim.broker_errors import (
    BrokerError,
    CoordinatorNotAvailableError,
    RequestTimeoutError,
)
from streamproof.sim.world import World

__all__ = ["REQUEST_TIMEOUT_MS", "RETRY_BACKOFF_MS", "Network"]

T = TypeVar("T")

REQUEST_TIMEOUT_MS = 30_000
"""``request.timeout.ms``."""

RETRY_BACKOFF_MS = 100
"""``retry.backoff.ms``: the pause before a request is sent to a new coordinator."""

_LATENCY_MS = 4
"""A message takes 1 to this many milliseconds."""

_SLOW_MS = 2_000
"""A slow message takes up to this many milliseconds more."""


class Network:
    """The network between hosts and brokers.

    Args:
        world: the world.
        request_timeout_ms: how long a caller waits for a reply.
    """

    def __init__(self, world: World, request_timeout_ms: int = REQUEST_TIMEOUT_MS) -> None:
        self._world = world
        self._timeout_ms = request_timeout_ms
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

    def call(self, host: str, what: str, handle: Callable[[], T]) -> Generator[Event, Any, T]:
        """Send a request to the brokers, and wait for the reply.

        Args:
            host: the sender.
            what: the name of the request, for the trace.
            handle: carries the request out, at the brokers.

        Raises:
            RequestTimeoutError: no reply came; the request may have been carried out.
            BrokerError: the brokers refused it.
        """
        started = self._world.now
        while True:
            reply = yield from self._exchange(host, what, handle, started)
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
        self, host: str, what: str, handle: Callable[[], T], started: int
    ) -> Generator[Event, Any, T | BrokerError]:
        """One request, and its reply."""
        world = self._world
        yield world.time.timeout(self._latency(host, what))
        if self._is_lost("network.request_lost", host, what):
            world.marks.sometimes("a request was lost before it was carried out")
            world.trace.emit("network.request_lost", host, what=what)
            yield from self._time_out(started, what)
        reply = _carry_out(handle)
        if self._is_lost("network.reply_lost", host, what):
            world.marks.sometimes("a reply was lost after the request was carried out")
            world.trace.emit("network.reply_lost", host, what=what)
            yield from self._time_out(started, what)
        yield world.time.timeout(self._latency(host, what))
        return reply

    def _is_lost(self, site: str, host: str, what: str) -> bool:
        return self._world.faults.happens(site, host, what) or host in self._cut

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


def _carry_out(handle: Callable[[], T]) -> T | BrokerError:
    """The reply. A refusal travels back like any other reply."""
    try:
        return handle()
    except BrokerError as error:
        return error
