"""Upgrades and downgrades: each instance in turn restarts with another release.

Input goes on meanwhile, and so do the faults of the nemesis. For a while the group has members of
both releases, and each release may get tasks that the other one had.

Sources: KIP-258 and KIP-1035, Compatibility, Deprecation, and Migration Plan; KIP-268.
"""

from __future__ import annotations

from collections.abc import Sequence

from simpy.events import Event

from streamproof.errors import UsageError
from streamproof.sim.actor_hosts import Steps
from streamproof.sim.instances import Instance
from streamproof.sim.nemesis import stop_in_time
from streamproof.sim.releases import (
    BEFORE_FORMATS,
    BEFORE_OFFSETS,
    BEFORE_SUMS,
    DOWNGRADING,
    LATEST,
    PREPARING_IN_PLACE,
    ROLLING_OVER,
    WITH_FORMATS,
    Release,
)
from streamproof.sim.world import World

__all__ = ["OFFLINE", "ROLL_OVER", "UPGRADES", "RollingUpgrade"]

UPGRADES: dict[str, tuple[Release, ...]] = {
    "none-before-offsets": (BEFORE_OFFSETS,),
    "sums-up": (BEFORE_SUMS, LATEST),
    "offsets-up": (BEFORE_OFFSETS, LATEST),
    "offsets-down": (LATEST, DOWNGRADING, BEFORE_OFFSETS),
    "offsets-down-unprepared": (LATEST, BEFORE_OFFSETS),
    "format-in-place": (BEFORE_FORMATS, PREPARING_IN_PLACE, WITH_FORMATS),
    "format-roll-over": (BEFORE_FORMATS, ROLLING_OVER),
    "format-offline": (BEFORE_FORMATS, WITH_FORMATS),
    "offsets-up-and-down": (BEFORE_OFFSETS, DOWNGRADING, BEFORE_OFFSETS),
}
"""The releases that each instance runs, in order, by the name of the upgrade.

One "upgrade" stays on its old release: an old release alone must be correct, too.
"""

OFFLINE = frozenset(["format-offline"])
"""Upgrades that stop all instances before they start any of them again."""

ROLL_OVER = frozenset(["format-roll-over"])
"""Upgrades in which an equal number of new instances takes over, and the old ones stop."""

_MAX_APART_MS = 8_000
"""The longest time before the next instance restarts, in milliseconds."""

_MAX_COPYING_MS = 15_000
"""The longest time that new instances have before the old ones stop, in milliseconds."""

_MAX_DOWN_MS = 2_000
"""The longest time that an instance stays down, in milliseconds."""


class RollingUpgrade:
    """Brings all instances from the first release of an upgrade to its last.

    Args:
        world: the world.
        instances: the instances, in the order of their restarts; none has been started. If the
            upgrade rolls over, the second half takes over from the first.
        upgrade: its name in ``UPGRADES``; empty for no upgrade.
        every_ms: the time before each step, in milliseconds; 0 draws it.

    Attributes:
        done: triggers once every instance runs the last release.

    Raises:
        UsageError: no upgrade has this name.
    """

    def __init__(
        self, world: World, instances: Sequence[Instance], upgrade: str, every_ms: int = 0
    ) -> None:
        if upgrade and upgrade not in UPGRADES:
            raise UsageError(
                f"There is no upgrade {upgrade!r}. Choose one of: {', '.join(sorted(UPGRADES))}."
            )
        self._world = world
        self._instances = instances
        self._every_ms = every_ms
        self._releases = UPGRADES[upgrade] if upgrade else ()
        self._is_offline = upgrade in OFFLINE
        self._new: Sequence[Instance] = ()
        if upgrade in ROLL_OVER:
            half = len(instances) // 2
            self._instances, self._new = instances[:half], instances[half:]
        self.done: Event = world.time.event()
        for each in self._instances if upgrade else ():
            each.release = self._releases[0]
        for each in self._new:
            each.release, each.is_retired = WITH_FORMATS, True

    def run(self) -> Steps:
        """Restart all instances once for each further release. Start this as a process."""
        for release in self._releases[1:]:
            yield from self._all_at_once(release) if self._is_offline else self._roll(release)
        if self._new:
            yield from self._roll_over()
        self.done.succeed()

    def _quiet(self, most: int) -> Event:
        """Wait before the next step: the given time, or a drawn one of at most ``most`` ms."""
        world = self._world
        return world.time.timeout(self._every_ms or world.choices.between(1, most))

    def _roll_over(self) -> Steps:
        """Start the new instances, give them time to copy the state, and stop the old ones."""
        world = self._world
        for each in self._new:
            each.is_retired = False
            each.start()
        yield self._quiet(_MAX_COPYING_MS)
        for each in self._instances:
            # Retire before the stop: the nemesis must not start an old instance again.
            each.is_retired = True
            yield from stop_in_time(world, each)
        world.marks.sometimes("new instances took over from old ones")

    def _all_at_once(self, release: Release) -> Steps:
        yield self._quiet(_MAX_APART_MS)
        # Retire all before the first stop: the nemesis must not restart one of them while others
        # still stop, as no two releases may run at the same time.
        for each in self._instances:
            each.is_retired = True
        for each in self._instances:
            yield from stop_in_time(self._world, each)
        self._world.marks.sometimes("an instance was restarted with another release")
        for each in self._instances:
            each.release, each.is_retired = release, False
            each.start()

    def _roll(self, release: Release) -> Steps:
        world = self._world
        for each in self._instances:
            yield self._quiet(_MAX_APART_MS)
            # Set the release before the stop: if the instance dies meanwhile, the nemesis may start
            # it again, and must start the new release.
            each.release = release
            yield from stop_in_time(world, each)
            world.marks.sometimes("an instance was restarted with another release")
            yield world.time.timeout(world.choices.between(1, _MAX_DOWN_MS))
            each.start()
