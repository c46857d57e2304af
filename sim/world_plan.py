"""The plan of a world: everything that is fixed before the world begins.

All other decisions are choices, made while the world runs. ``plan_space`` draws plans.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from streamproof.errors import UsageError
from streamproof.sim.application import StreamsConfig
from streamproof.sim.workloads import WorkloadConfig

__all__ = [
    "SAFETY_MS",
    "WORLD_VERSION",
    "Plan",
    "PlanError",
    "require_world_version",
    "with_staging",
]

WORLD_VERSION = 9
"""The version of the simulated world; raised whenever the run of any seed changes.

A file that keeps a seed or recorded choices keeps this number with them. A file of another version
is refused: its seeds and choices would lead to other runs.
"""

SAFETY_MS = 60_000
"""How long faults may happen, in virtual milliseconds."""

_LEAST = {
    "partitions": 1,
    "instances": 1,
    "threads": 1,
    "safety_ms": 1,
    "upgrade_every_ms": 0,
    "query_clients": 0,
}
"""The least value of each field that counts something, or is a time without a special value."""


class PlanError(UsageError):
    """A field of a plan is out of range (exit code 3).

    Attributes:
        field: the name of the field.
        what: the rest of a sentence that begins with the field.
    """

    def __init__(self, field: str, what: str) -> None:
        super().__init__(f"{field} {what}.")
        self.field = field
        self.what = what


@dataclass(frozen=True)
class Plan:
    """The plan of a world.

    Attributes:
        topology: the name of the topology in ``TOPOLOGIES``.
        partitions: the number of partitions of each input.
        instances: the number of instances.
        threads: the number of stream threads of each instance.
        config: the configuration of the application.
        workload: the input.
        kinds: the faults of instances, of ``nemesis.KINDS`` and ``nemesis.RARE_KINDS``.
        activation: the probability that a fault site is on.
        safety_ms: how long faults may happen, in virtual milliseconds.
        faults_after_input_ms: how long faults may happen after the last input; -1 sets no bound.
        upgrade: the name of an upgrade that happens meanwhile, in ``UPGRADES``; empty for none.
        upgrade_every_ms: the time before each step of the upgrade; 0 draws it.
        persistent: whether model stores keep their data on the disk, rather than in memory.
        query_clients: the number of clients that ask interactive queries.

    Raises:
        PlanError: a field is out of range.
    """

    topology: str = "count"
    partitions: int = 3
    instances: int = 2
    threads: int = 1
    config: StreamsConfig = field(default_factory=StreamsConfig)
    workload: WorkloadConfig = field(default_factory=WorkloadConfig)
    kinds: tuple[str, ...] = ("crash", "pause", "cut")
    activation: float = 0.25
    safety_ms: int = SAFETY_MS
    faults_after_input_ms: int = -1
    upgrade: str = ""
    upgrade_every_ms: int = 0
    persistent: bool = True
    query_clients: int = 0

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise PlanError(name, f"is {getattr(self, name)}; give at least {least}")
        if self.faults_after_input_ms < -1:
            raise PlanError(
                "faults_after_input_ms",
                f"is {self.faults_after_input_ms}; give milliseconds from 0, or -1 to set no bound",
            )
        if not 0 <= self.activation <= 1:
            raise PlanError("activation", f"is {self.activation}; give a probability from 0 to 1")


def with_staging(plan: Plan, *, transactional: bool) -> Plan:
    """The same plan for stores that stage their writes, or for stores that do not.

    A bound on staged writes means nothing to a store that stages none.

    Args:
        plan: any plan.
        transactional: whether the stores stage their writes.
    """
    config = replace(plan.config, transactional=transactional)
    if not transactional:
        config = replace(config, max_uncommitted_bytes=-1, max_uncommitted_records=-1)
    return replace(plan, config=config)


def require_world_version(version: int, name: str, remedy: str) -> None:
    """Refuse seeds and choices that belong to another version of the simulated world.

    Args:
        version: the version that was kept with them; 0 if none was.
        name: the file that holds them, for the message.
        remedy: a sentence with the remedy.

    Raises:
        UsageError: the version is not ``WORLD_VERSION``.
    """
    if version == WORLD_VERSION:
        return
    kept = f"version {version}" if version else "no version"
    raise UsageError(
        f"{name} carries {kept} of the simulated world, but this streamproof simulates version "
        f"{WORLD_VERSION}, so its seeds and choices would lead to other runs. {remedy}"
    )
