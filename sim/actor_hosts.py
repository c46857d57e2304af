"""Hosts: the processes that actors run in. A host can die, pause, and have a clock that is wrong.

Actors are simpy processes. When their host dies, they are not resumed any more: none of their
``finally`` and ``except`` blocks runs, as in a process that was killed.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any

import simpy
from simpy.events import Event, Process

from streamproof.stores.errors import InvalidArgumentError

__all__ = ["Actor", "Host", "Steps"]

Steps = Generator[Event, Any, Any]
"""The steps of an actor: a generator that yields the events that the actor waits for."""


class Actor(Process):
    """A simpy process that is resumed only while its host is alive and not paused."""

    def __init__(self, host: Host, steps: Steps) -> None:
        self._host = host
        super().__init__(host.time, steps)

    def _resume(self, event: Event) -> None:
        host = self._host
        if host.is_up:
            super()._resume(event)
            return
        # A failed event whose only listener is dead must not fail the simulation.
        event._defused = True  # noqa: SLF001 - simpy's own way to say so
        if host.is_alive:
            host.defer(self, event)

    def resume_late(self, event: Event, _: Event) -> None:
        """Go on after a pause, with an event that happened during the pause."""
        if self._host.is_up:
            super()._resume(event)


class Host:
    """A process of an operating system, or a machine.

    Args:
        time: the time of the world.
        name: the name of the host, for the trace.
        drift_ppm: how much faster its clock runs than the time of the world, in millionths.

    Attributes:
        is_alive: whether the host has not died.
        is_up: whether the host is alive and not paused.
    """

    def __init__(self, time: simpy.Environment, name: str, *, drift_ppm: int = 0) -> None:
        self.time = time
        self.name = name
        self._drift_ppm = drift_ppm
        self._actors: list[Actor] = []
        self._deferred: list[tuple[Actor, Event]] = []
        self.is_alive = True
        self.is_up = True

    @property
    def now(self) -> int:
        """The time of the host's own clock, in milliseconds."""
        now = int(self.time.now)
        return now + now * self._drift_ppm // 1_000_000

    def start(self, steps: Steps) -> Actor:
        """Start an actor.

        Raises:
            InvalidArgumentError: the host is dead.
        """
        if not self.is_alive:
            raise InvalidArgumentError(
                f"{self.name} is dead, so no process can start on it; make a new host."
            )
        actor = Actor(self, steps)
        # Actors that have ended are forgotten. All others are kept, even when the host is dead:
        # the garbage collector would close their generators, and so run clean-up code that a dead
        # process does not run.
        self._actors = [each for each in self._actors if each.is_alive]
        self._actors.append(actor)
        return actor

    def crash(self) -> None:
        """Die: no actor takes another step."""
        self.is_alive = self.is_up = False
        self._deferred.clear()

    def pause(self) -> None:
        """Stand still, as in a long garbage collection: the world goes on without it."""
        self.is_up = False

    def resume(self) -> None:
        """Go on after a pause. The events that actors waited for may have happened long ago."""
        if not self.is_alive or self.is_up:
            return
        self.is_up = True
        deferred, self._deferred = self._deferred, []
        for actor, event in deferred:
            wake = self.time.event()
            wake.callbacks.append(partial(actor.resume_late, event))
            wake.succeed()

    def defer(self, actor: Actor, event: Event) -> None:
        """Keep an event for an actor until the pause is over."""
        self._deferred.append((actor, event))
