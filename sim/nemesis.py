"""The nemesis: faults of instances, and rolling restarts as an operator does them.

A run has two phases. In the *safety phase* instances die, stand still, lose their network and run
out of disk. Promises about every moment must hold there. Then the nemesis repairs everything, and
the *liveness phase* begins: promises about what finally happens must come true.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simpy.events import Event

from streamproof.errors import UsageError
from streamproof.sim.actor_hosts import Steps
from streamproof.sim.choices import Choices
from streamproof.sim.instance_faults import Troubles
from streamproof.sim.instances import Instance
from streamproof.sim.network import Network
from streamproof.sim.trace import Event as TraceEvent
from streamproof.sim.world import World

__all__ = [
    "DRIFTS_PPM",
    "GRACE_MS",
    "KINDS",
    "RARE_KINDS",
    "Nemesis",
    "drawn_drift",
    "rolling_bounce",
    "stop_in_time",
]

KINDS = ("crash", "pause", "cut", "fill", "bounce", "power", "hold")
"""The faults: a process is killed, stands still, loses its network, has a full disk, restarts
cleanly, loses its power, or gets paused (KIP-834), in the order of the names."""

RARE_KINDS = ("wipe",)
"""Faults that only searches for their situations draw: a process stands still until its group puts
it out, and is killed when it is about to wipe a task."""

DRIFTS_PPM = (0, 100, -100, 500, -500)
"""How fast a clock may be, in millionths; the extremes are those of a bad quartz."""

GRACE_MS = 30_000
"""The time that a process has to stop before it is killed."""

_MAX_QUIET_MS = 8_000
"""The longest time without a fault, from the end of one to the start of the next."""

_MAX_DOWN_MS = 5_000
"""The longest time that an ended process stays down."""

_MAX_TROUBLE_MS = 15_000
"""The longest pause, cut or full disk: longer than the session of a member."""


def drawn_drift(choices: Choices) -> int:
    """Draw how fast the clock of an instance is, in millionths."""
    return choices.pick(DRIFTS_PPM)


class Nemesis:
    """Causes faults, one after the other, and then heals them all.

    Args:
        world: the world.
        network: the network of the application.
        instances: the possible victims.
        kinds: the possible faults, of ``KINDS`` and ``RARE_KINDS``; none if empty.
        safety_ms: the time at which everything is healed, at the latest.

    Attributes:
        healed: triggers when all faults have ended for good.

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
        known = (*KINDS, *RARE_KINDS)
        unknown = [each for each in kinds if each not in known]
        if unknown:
            raise UsageError(
                f"{unknown[0]!r} is not a fault of instances. Choose some of: {', '.join(known)}."
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
            "wipe": self._wipe,
        }
        self.healed: Event = world.time.event()

    def run(self, calm: Event | None = None) -> Steps:
        """Run the safety phase, and heal everything at its end. Start this as a process.

        Args:
            calm: an event that ends the safety phase early.
        """
        world = self._world
        # A process, since a condition of simpy stops to look once a condition around it is met.
        over = world.time.process(self._is_over(calm))
        while self._kinds:
            yield world.time.timeout(world.choices.between(1, _MAX_QUIET_MS)) | over
            if over.triggered:
                break
            victim = world.choices.pick(self._instances)
            kind = world.choices.pick(self._kinds)
            world.faults.note(kind)
            yield from self._ways[kind](victim)
        if not over.processed:
            yield over
        self._heal()

    def _is_over(self, calm: Event | None) -> Steps:
        end = self._world.time.timeout(self._safety_ms)
        yield end if calm is None else end | calm

    def _heal(self) -> None:
        """End all faults, and start the instances that do not run."""
        # Stop the fault sites first: the instances that start now must meet no new fault.
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

    def _wipe(self, instance: Instance) -> Steps:
        """Let a process stand still, and kill it if it is about to wipe a task soon after that."""
        # No time passes before the files are gone, so no drawn moment would be in between.
        is_over = False

        def watch(event: TraceEvent) -> None:
            nonlocal is_over
            if event.kind == "task.wiping" and event.process == instance.name and not is_over:
                is_over = True
                # What starts comes before everything else of the same moment.
                self._world.time.process(self._kill_wiping(instance))

        self._world.trace.watch(watch)
        yield from self._pause(instance)
        yield self._world.time.timeout(_MAX_QUIET_MS)
        is_over = True
        self._troubles.end(instance)

    def _kill_wiping(self, instance: Instance) -> Steps:
        self._world.marks.sometimes("a process died before it had wiped a task")
        instance.crash()
        yield self._world.time.timeout(0)

    def _trouble(self) -> Event:
        return self._world.time.timeout(self._world.choices.between(1, _MAX_TROUBLE_MS))


def stop_in_time(world: World, instance: Instance, grace_ms: int = GRACE_MS) -> Steps:
    """Stop an instance, and kill it if it does not stop in time, as a supervisor does.

    Args:
        world: the world.
        instance: the instance.
        grace_ms: the time that the instance has to stop, in milliseconds.
    """
    stopping = world.time.process(instance.stop())
    yield world.time.any_of([stopping, world.time.timeout(grace_ms)])
    # An instance that has stopped has no process left, so this does nothing to it.
    instance.crash()


def rolling_bounce(
    world: World, instances: Sequence[Instance], *, down_ms: int = 1_000, apart_ms: int = 10_000
) -> Steps:
    """Restart all instances cleanly, one after the other.

    Args:
        world: the world.
        instances: the instances, in the order of their restarts.
        down_ms: the time that each instance stays down.
        apart_ms: the time between a start and the next stop.
    """
    for each in instances:
        yield from stop_in_time(world, each)
        yield world.time.timeout(down_ms)
        each.start()
        yield world.time.timeout(apart_ms)
