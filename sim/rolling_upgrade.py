"""Upgrades and downgrades: each instance in turn restarts with another release.

Input goes on meanwhile, and so do the faults of the nemesis. For a while the group has members of
both releases, and each release may get tasks that the other one had.

Sources: KIP-258 and KIP-1035, Compatibility, Deprecation, and Migration Plan; KIP-268.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
    FIRST,
    LATEST,
    PREPARING_IN_PLACE,
    PREPARING_IN_PLACE_FROM_FIRST,
    PREPARING_METADATA,
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
    "format-in-place-from-first": (FIRST, PREPARING_IN_PLACE_FROM_FIRST, WITH_FORMATS),
    "metadata-up": (FIRST, PREPARING_METADATA, BEFORE_FORMATS),
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

_PATIENCE_MS = 300_000
"""How long an operator waits for a message in the log of an instance, in milliseconds."""

_LOOKS_MS = 500
"""How often an operator looks into the logs, in milliseconds."""

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
            # An operator who does not watch the logs may make the second bounce too early.
            is_free = release.upgrade_mode == "in_place" and not self._every_ms
            if is_free and self._world.choices.chance(0.5):
                yield from self._await("instance.prepared", self._instances, self._is_prepared)
        if self._new:
            yield from self._roll_over()
        self.done.succeed()

    def _quiet(self, most: int) -> Event:
        """Wait before the next step: the given time, or a drawn one of at most ``most`` ms."""
        world = self._world
        return world.time.timeout(self._every_ms or world.choices.between(1, most))

    def _roll_over(self) -> Steps:
        """Start the new instances, and stop the old ones once all new ones say they are ready."""
        world = self._world
        for each in self._new:
            each.is_retired = False
            each.start()
        if world.defect("stops-old-instances-by-a-timer"):
            yield self._quiet(_MAX_APART_MS)
        else:
            yield from self._await("instance.ready", self._new, self._is_ready)
        for each in self._instances:
            world.trace.emit("instance.retired", each.name)
            # Retire before the stop: the nemesis must not start an old instance again.
            each.is_retired = True
            yield from stop_in_time(world, each)
        world.marks.sometimes("new instances took over from old ones")

    def _await(
        self, message: str, instances: Sequence[Instance], says: Callable[[], bool]
    ) -> Steps:
        """Wait until the logs of all these instances have a message, or the patience ends."""
        world = self._world
        for _ in range(_PATIENCE_MS // _LOOKS_MS):
            yield world.time.timeout(_LOOKS_MS)
            if says():
                break
        names = [each.name for each in instances]
        world.trace.emit("upgrade.awaited", "nemesis", message=message, instances=names)

    def _is_prepared(self) -> bool:
        """Whether all instances say that their stores are prepared for the second bounce."""
        return all(
            each.rebuild is not None and each.rebuild.is_prepared for each in self._instances
        )

    def _is_ready(self) -> bool:
        """Whether all new instances say that they are ready, with the copies of all stores.

        The group may have given a copy to a member that has died. Then nobody names this copy, and
        the operator waits until the group has given it to another member.
        """
        reports = [each.take_over for each in self._new]
        copies = {name for each in reports if each is not None for name in each.copies}
        return copies >= self._new[0].changelogs and all(
            each is not None and each.is_ready for each in reports
        )

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
