"""The nemesis: what goes wrong with instances, and the bounce that an operator does on purpose.

A run has two phases. In the *safety phase* instances die, stand still, are cut off, and run out of
disk: whatever is promised at any time must hold there. Then all is healed and stays so: that is the
*liveness phase*, in which everything that was asked for has to come about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simpy.events import Event

from streamproof.errors import UsageError
from streamproof.sim.choices import Choices
from streamproof.sim.hosts import Steps
from streamproof.sim.instance_faults import Troubles
from streamproof.sim.instances import Instance
from streamproof.sim.network import Network
from streamproof.sim.world import World

__all__ = [
    "DRIFTS_PPM",
    "GRACE_MS",
    "KINDS",
    "Nemesis",
    "drawn_drift",
    "rolling_bounce",
    "stop_in_time",
]

KINDS = ("crash", "pause", "cut", "fill", "bounce", "power", "hold")
"""What can go wrong: a process is killed, stands still, is separated from the brokers, has a full
disk, is stopped cleanly and started again, loses its power, or is told to hold its work."""

DRIFTS_PPM = (0, 100, -100, 500, -500)
"""By how many millionths a clock is too fast; the worst are those of a bad quartz."""

GRACE_MS = 30_000
"""So long a process may take to stop, before it is killed."""

_MAX_QUIET_MS = 8_000
"""Something goes wrong at least once in so many milliseconds, if the last has ended."""

_MAX_DOWN_MS = 5_000
"""A process that ended is started again after so many milliseconds at most."""

_MAX_TROUBLE_MS = 15_000
"""A pause, a cut or a full disk lasts so long at most: longer than a session of a member."""


def drawn_drift(choices: Choices) -> int:
    """By how much the clock of an instance is too fast, in millionths."""
    return choices.pick(DRIFTS_PPM)


class Nemesis:
    """Lets things go wrong for a while, one after the other, and then heals them all.

    Args:
        world: the world.
        network: of the application.
        instances: whom it may hurt.
        kinds: what may go wrong; nothing, if there is none.
        safety_ms: when everything is healed.

    Attributes:
        healed: comes about when nothing goes wrong any more.

    Raises:
        UsageError: there is no such kind.
    """

    def __init__(
        self,
        world: World,
        network: Network,
        instances: Sequence[Instance],
        kinds: Sequence[str] = ("crash", "pause", "cut", "fill", "bounce"),
        *,
        safety_ms: int = 60_000,
    ) -> None:
        unknown = [each for each in kinds if each not in KINDS]
        if unknown:
            raise UsageError(
                f"{unknown[0]!r} is nothing that can go wrong; there are: {', '.join(KINDS)}."
            )
        self._world = world
        self._troubles = Troubles(world, network)
        self._instances = instances
        self._kinds = list(kinds)
        self._safety_ms = safety_ms
        self._ways: dict[str, Callable[[Instance], Steps]] = {
            "crash": self._crash,
            "pause": self._pause,
            "cut": self._cut,
            "fill": self._fill,
            "bounce": self._bounce,
            "power": self._power,
            "hold": self._hold,
        }
        self.healed: Event = world.time.event()

    def run(self) -> Steps:
        """The safety phase, up to the moment when all is healed; to be started as a process."""
        world = self._world
        while self._kinds:
            left = self._safety_ms - world.now
            quiet = world.choices.between(1, _MAX_QUIET_MS)
            if quiet >= left:
                break
            yield world.time.timeout(quiet)
            victim = world.choices.pick(self._instances)
            yield from self._ways[world.choices.pick(self._kinds)](victim)
        yield world.time.timeout(max(0, self._safety_ms - world.now))
        self._heal()

    def _heal(self) -> None:
        """Repair everything, and start what does not run."""
        self._world.faults.stop()
        self._world.trace.emit("world.healed", "nemesis")
        for each in self._instances:
            self._troubles.end(each)
        self.healed.succeed()

    def _crash(self, instance: Instance) -> Steps:
        instance.crash()
        yield from self._start_later(instance)

    def _power(self, instance: Instance) -> Steps:
        instance.lose_power()
        yield from self._start_later(instance)

    def _bounce(self, instance: Instance) -> Steps:
        yield from stop_in_time(self._world, instance)
        yield from self._start_later(instance)

    def _start_later(self, instance: Instance) -> Steps:
        yield self._world.time.timeout(self._world.choices.between(1, _MAX_DOWN_MS))
        instance.start()

    def _pause(self, instance: Instance) -> Steps:
        self._troubles.pause(instance)
        yield self._trouble()
        self._troubles.resume(instance)

    def _hold(self, instance: Instance) -> Steps:
        instance.pause()
        yield self._trouble()
        instance.resume()

    def _cut(self, instance: Instance) -> Steps:
        self._troubles.cut(instance)
        yield self._trouble()
        self._troubles.heal(instance)

    def _fill(self, instance: Instance) -> Steps:
        self._troubles.fill(instance)
        yield self._trouble()
        self._troubles.empty(instance)

    def _trouble(self) -> Event:
        return self._world.time.timeout(self._world.choices.between(1, _MAX_TROUBLE_MS))


def stop_in_time(world: World, instance: Instance, grace_ms: int = GRACE_MS) -> Steps:
    """Stop an instance, and kill it if it does not stop in time, as whoever supervises it does.

    Args:
        world: the world.
        instance: the instance.
        grace_ms: how long it may take, in milliseconds.
    """
    stopping = world.time.process(instance.stop())
    yield world.time.any_of([stopping, world.time.timeout(grace_ms)])
    instance.crash()


def rolling_bounce(
    world: World, instances: Sequence[Instance], *, down_ms: int = 1_000, apart_ms: int = 10_000
) -> Steps:
    """Restart all instances cleanly, one after the other.

    Args:
        world: the world.
        instances: in the order in which they are restarted.
        down_ms: how long each is away.
        apart_ms: how long the others have before the next one is stopped.
    """
    for each in instances:
        yield from stop_in_time(world, each)
        yield world.time.timeout(down_ms)
        each.start()
        yield world.time.timeout(apart_ms)
