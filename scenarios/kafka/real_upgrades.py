"""Upgrades and downgrades of real instances: each in turn restarts with another release.

The releases and their order are those of the simulated upgrade of the same name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from streamproof.scenarios.kafka.application import RUNNING_S, Application
from streamproof.scenarios.kafka.nemesis import ConfiguredInstances, Health
from streamproof.scenarios.kafka.processes import RealProcess
from streamproof.scenarios.kafka.real_disks import RealDisk
from streamproof.scenarios.kafka.real_settings import NEWEST_PATCHES, settings_of
from streamproof.sim.rolling_upgrade import UPGRADES
from streamproof.sim.world_plan import Plan

__all__ = ["Bounce", "UpgradedInstances", "bounces_of", "upgraded_instances"]


class Bounce(NamedTuple):
    """A restart of an instance with the next release.

    Attributes:
        at_ms: the time of the scenario.
        instance: its name.
    """

    at_ms: int
    instance: str


def bounces_of(plan: Plan) -> list[Bounce]:
    """The restarts of an upgrade, in order."""
    found: list[Bounce] = []
    for _ in UPGRADES[plan.upgrade][1:]:
        for number in range(plan.instances):
            at_ms = plan.upgrade_every_ms * (len(found) + 1)
            found.append(Bounce(at_ms, f"instance-{number}"))
    return found


class UpgradedInstances:
    """The instances of an application, each of which goes through the releases of an upgrade.

    Args:
        by_release: what starts the instances of each release, in the order of the upgrade.
        bounces: when they restart.
    """

    starting_s = RUNNING_S
    # No JVM stands by: what the next start needs is decided when it comes.
    is_ready = True

    def __init__(
        self, by_release: Sequence[ConfiguredInstances], bounces: Sequence[Bounce]
    ) -> None:
        self.bounces = bounces
        self._by_release = by_release
        self._at: dict[str, int] = {}

    def upgrade(self, name: str) -> None:
        """Let all later starts of an instance be of the next release."""
        self._at[name] = self._at.get(name, 0) + 1

    def begin(self, name: str) -> RealProcess:
        """Start an instance, without waiting for it."""
        return self._now(name).begin(name)

    def health(self, name: str, process: RealProcess) -> Health:
        """How a process of an instance is."""
        return self._now(name).health(name, process)

    def _now(self, name: str) -> ConfiguredInstances:
        return self._by_release[self._at.get(name, 0)]


def upgraded_instances(
    application: Application, plan: Plan, place: Path, disks: Mapping[str, RealDisk]
) -> UpgradedInstances:
    """The instances of a plan with an upgrade.

    Args:
        application: the application, of any of the releases.
        plan: the plan.
        place: a directory for the files that processes wait for.
        disks: the disks of the instances that may be full or lose their power.

    Raises:
        UsageError: a release is not there, or the application does not compile against it.
    """
    by_release = []
    for each in UPGRADES[plan.upgrade]:
        release = NEWEST_PATCHES[each.name]
        settings = settings_of(plan, release)
        if each.upgrade_from:
            settings["upgrade.from"] = each.upgrade_from
        by_release.append(ConfiguredInstances(application.of(release), settings, place, disks))
    return UpgradedInstances(by_release, bounces_of(plan))
