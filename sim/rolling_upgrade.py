"""Upgrades and downgrades: all instances are restarted with another release, one after the other.

Meanwhile input goes on, and whatever else may go wrong does. So for a while instances of both
releases are members of one group, and each may get the tasks that the other one had.

Sources: KIP-258 and KIP-1035, Compatibility, Deprecation, and Migration Plan; KIP-268.
"""

from __future__ import annotations

from collections.abc import Sequence

from simpy.events import Event

from streamproof.errors import UsageError
from streamproof.sim.hosts import Steps
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
"""What each instance is a release of, one after the other, by name of the upgrade.

Some begin with an old release and stay there: what it does must be right as well.
"""

OFFLINE = frozenset(["format-offline"])
"""Upgrades for which all instances are stopped, and then all are started."""

ROLL_OVER = frozenset(["format-roll-over"])
"""Upgrades in which, in the end, as many new instances take over, and the old ones are stopped."""

_MAX_APART_MS = 8_000
"""The next instance is restarted after so many milliseconds at most."""

_MAX_COPYING_MS = 15_000
"""New instances have so many milliseconds at most before the old ones are stopped."""

_MAX_DOWN_MS = 2_000
"""An instance is started again after so many milliseconds at most."""


class RollingUpgrade:
    """Brings all instances from the first release of an upgrade to its last.

    Args:
        world: the world.
        instances: in the order in which they are restarted; none of them has been started. If the
            upgrade rolls over, the second half of them are those that take over.
        upgrade: its name in ``UPGRADES``; if it is empty, nothing is done.
        every_ms: so many milliseconds lie before each step; drawn, if it is 0.

    Attributes:
        done: comes about once every instance runs the last release.

    Raises:
        UsageError: there is no such upgrade.
    """

    def __init__(
        self, world: World, instances: Sequence[Instance], upgrade: str, every_ms: int = 0
    ) -> None:
        if upgrade and upgrade not in UPGRADES:
            raise UsageError(
                f"There is no upgrade {upgrade!r}. There are: {', '.join(sorted(UPGRADES))}."
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
        """Restart all instances, once for each further release; to be started as a process."""
        for release in self._releases[1:]:
            yield from self._all_at_once(release) if self._is_offline else self._roll(release)
        if self._new:
            yield from self._roll_over()
        self.done.succeed()

    def _quiet(self, most: int) -> Event:
        """The time before the next step: drawn up to so many milliseconds, if it is not given."""
        world = self._world
        return world.time.timeout(self._every_ms or world.choices.between(1, most))

    def _roll_over(self) -> Steps:
        """Start the new instances, let them make copies, and stop the old ones."""
        world = self._world
        for each in self._new:
            each.is_retired = False
            each.start()
        yield self._quiet(_MAX_COPYING_MS)
        for each in self._instances:
            each.is_retired = True
            yield from stop_in_time(world, each)
        world.marks.sometimes("new instances took over from old ones")

    def _all_at_once(self, release: Release) -> Steps:
        yield self._quiet(_MAX_APART_MS)
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
            # Whoever starts it again, if it dies meanwhile, starts the other release.
            each.release = release
            yield from stop_in_time(world, each)
            world.marks.sometimes("an instance was restarted with another release")
            yield world.time.timeout(world.choices.between(1, _MAX_DOWN_MS))
            each.start()
