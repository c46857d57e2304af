"""A simulated world for the store under test, in plain values from which it can be made again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import msgspec
from msgspec import Struct

from streamproof.conformance.store_worlds.scenario_worlds import plan_of_variant
from streamproof.errors import UsageError
from streamproof.sim.application import StreamsConfig
from streamproof.sim.choices import Choices
from streamproof.sim.plan_space import Options, PlanSpace, draw
from streamproof.sim.tasks.assignor import AssignorConfig
from streamproof.sim.workloads import WorkloadConfig
from streamproof.sim.world_plan import WORLD_VERSION, Plan, require_world_version, with_staging
from streamproof.stores.capabilities import Capabilities

__all__ = ["USUAL", "StoreWorld", "arguments_of", "drawn", "plan_of", "values_of", "world_of"]

USUAL = Plan(
    partitions=1,
    instances=1,
    kinds=(),
    activation=0.0,
    # A few faults are enough, and keep a world cheap.
    safety_ms=30_000,
    config=StreamsConfig(
        commit_interval_ms=100,
        flush_probability=0.0,
        probing_rebalance_interval_ms=5_000,
        # The smallest value that Kafka allows.
        session_timeout_ms=6_000,
        assignor=AssignorConfig(acceptable_recovery_lag=5),
        # A store shows more when it is closed and opened again.
        recycles_tasks=False,
        # A process that stops gives its tasks to others at once.
        group_membership_operation="LEAVE_GROUP",
    ),
    # The pauses between records are long enough that records arrive as long as faults happen.
    workload=WorkloadConfig(records=40, keys=3, max_pause_ms=1_000),
)
"""The plainest plan for a store. A program names only the fields that differ from it."""


class StoreWorld(Struct, frozen=True, kw_only=True):
    """A world. The run adds the guarantee, and the store says whether it stages writes.

    Attributes:
        seed: the seed of every decision that the plan leaves open.
        plan: the plan of the world.
        twice: whether the world runs twice, with equal runs expected.
        scenario: a scenario of the library with its variant, as ``KAFKA-7192@fixed``. It replaces
            the seed and the plan.
    """

    seed: int
    plan: Plan = USUAL
    twice: bool = False
    scenario: str = ""


def drawn(
    seed: int,
    capabilities: Capabilities,
    kinds: tuple[str, ...],
    *,
    instances: int = 1,
    standbys: int = 0,
    twice: bool = False,
) -> StoreWorld:
    """A small world that fits a store.

    The topologies take turns, so that a few seeds in a row cover as many of them as possible.

    Args:
        seed: draws the plan, and every decision in the world.
        capabilities: the claims of the store.
        kinds: the faults of instances; a kind that appears twice is twice as frequent.
        instances: the least number of processes.
        standbys: ``num.standby.replicas``.
        twice: whether the world runs twice.
    """
    assignor = replace(USUAL.config.assignor, num_standby_replicas=standbys)
    space = PlanSpace(
        plan={
            **_fixed(USUAL, "topology", "upgrade", "config", "workload"),
            "partitions": [1, 2],
            "instances": [instances, instances, instances + 1],
            "threads": [1, 1, 2],
            "kinds": [kinds],
            "activation": [0.0, 0.25],
            "query_clients": [1, 0, 2],
        },
        settings={
            **_fixed(USUAL.config, *_OF_THE_RUN),
            "commit_interval_ms": [100, 1_000, 5_000],
            "flush_probability": [0.05, 0.0, 0.5],
            "statestore_cache_max_bytes": [0, 0, 200],
            "max_uncommitted_bytes": [-1, 100],
            "assignor": [assignor],
        },
        workload={
            **_fixed(USUAL.workload),
            "records": [40, 80],
            "keys": [3, 1, 8],
            "tombstones": [0.0, 0.1],
        },
    ).for_store(capabilities)
    topology = space.topologies[seed % len(space.topologies)]
    space = msgspec.structs.replace(space, topologies=[topology])
    plan = draw(Choices.seeded(seed), space)
    return StoreWorld(seed=seed, plan=_without_run(plan), twice=twice)


_OF_THE_RUN = ("exactly_once", "transactional")
"""Settings that the run and the store determine, so worlds do not name them."""


def _fixed(owner: Any, *without: str) -> Options:
    """The fields of a dataclass, each with its value as its only option."""
    names = [each.name for each in fields(owner) if each.name not in without]
    return {name: [getattr(owner, name)] for name in names}


def _without_run(plan: Plan) -> Plan:
    usual = {name: getattr(USUAL.config, name) for name in _OF_THE_RUN}
    return replace(plan, config=replace(plan.config, **usual))


def plan_of(world: StoreWorld, *, exactly_once: bool, transactional: bool) -> Plan:
    """The whole plan of a world.

    Args:
        world: the world.
        exactly_once: the guarantee.
        transactional: whether the store stages its writes.
    """
    if world.scenario:
        return plan_of_variant(world.scenario, transactional=transactional)
    plan = with_staging(world.plan, transactional=transactional)
    return replace(plan, config=replace(plan.config, exactly_once=exactly_once))


# Worlds as plain values.


def values_of(world: StoreWorld) -> dict[str, Any]:
    """A world as plain values, from which :func:`world_of` makes it again.

    Fields of the plan, of its settings and of its workload form one flat list: their names differ.
    """
    if world.scenario:
        return {"seed": world.seed, "scenario": world.scenario}
    usual = _flat(_table(USUAL))
    values = {
        name: value for name, value in _flat(_table(world.plan)).items() if value != usual[name]
    }
    twice = {"twice": True} if world.twice else {}
    return {"world": WORLD_VERSION, "seed": world.seed, **twice, **values}


def arguments_of(world: StoreWorld) -> str:
    """A world as the arguments of a call."""
    return ", ".join(f"{name}={value!r}" for name, value in values_of(world).items())


def world_of(values: Mapping[str, Any]) -> StoreWorld:
    """A world from its plain values.

    Raises:
        UsageError: the values describe no world, or one of another version.
    """
    own = {name: each for name, each in values.items() if name in _OWN}
    changes = {name: each for name, each in values.items() if name not in _OWN}
    usual = _table(USUAL)
    try:
        for name in sorted(changes.keys() - _flat(usual).keys() - {"world"}):
            raise msgspec.ValidationError(f"a world has no {name!r}")  # noqa: TRY301 - told below
        # The table lacks the settings of the run, and msgspec leaves missing fields unset.
        plan = _without_run(msgspec.convert(_changed(usual, changes), Plan))
        world = msgspec.convert({**own, "plan": plan}, StoreWorld)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"This is no world to simulate: {error}. If another version of streamproof wrote it, "
            "use that version."
        ) from error
    require_world_version(
        values.get("world", WORLD_VERSION), "The world", "Verify the store again with this version."
    )
    return world


_OWN = ("seed", "twice", "scenario")


def _table(plan: Plan) -> dict[str, Any]:
    """A plan as nested tables, without the settings that the run and the store determine."""
    table: dict[str, Any] = msgspec.to_builtins(plan)
    for name in _OF_THE_RUN:
        del table["config"][name]
    return table


def _flat(table: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in table.items():
        found |= _flat(value) if isinstance(value, dict) else {name: value}
    return found


def _changed(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _changed(value, changes) if isinstance(value, dict) else changes.get(name, value)
        for name, value in table.items()
    }
