"""Scenarios of the library as worlds for the store under test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from streamproof.conformance.results import Guarantee
from streamproof.errors import UsageError
from streamproof.scenarios.real_stores import needs_model_stores
from streamproof.scenarios.scenario import Scenario, Setup
from streamproof.scenarios.scenario_reader import library, read
from streamproof.sim.world_plan import Plan

__all__ = ["names_for", "plan_of_variant", "scenario_of"]


@cache
def _all() -> dict[str, tuple[Scenario, Setup]]:
    """Every variant of every scenario of the library in which the runtime makes no mistake."""
    return {
        f"{scenario.name}@{setup.name}": (scenario, setup)
        for scenario in map(read, library().values())
        for setup in scenario.setups.values()
        if not setup.variant.defects
        and not setup.variant.breaks
        # What was recorded was recorded with other stores.
        and not scenario.file.choices.recorded
    }


def names_for(guarantee: Guarantee, topologies: list[str], *, cached: bool) -> Iterator[str]:
    """The variants that a store can be put into, by name.

    Args:
        guarantee: of the run: a scenario is about one of them.
        topologies: those that the store can be used in.
        cached: whether there may be a record cache in front of it.
    """
    for name, (scenario, setup) in _all().items():
        config = setup.plan.config
        if (
            config.exactly_once == (guarantee == "exactly-once")
            and setup.plan.topology in topologies
            and not setup.plan.upgrade
            and (cached or not config.statestore_cache_max_bytes)
            and not needs_model_stores(scenario, setup)
        ):
            yield name


def scenario_of(name: str) -> Scenario:
    """The scenario of a variant.

    Raises:
        UsageError: there is no such variant.
    """
    return _named(name)[0]


def plan_of_variant(name: str, *, transactional: bool) -> Plan:
    """The plan of a variant, for stores that stage their writes, or do not.

    Raises:
        UsageError: there is no such variant.
    """
    plan = _named(name)[1].plan
    bound = plan.config.max_uncommitted_bytes if transactional else -1
    config = replace(plan.config, transactional=transactional, max_uncommitted_bytes=bound)
    return replace(plan, config=config)


def _named(name: str) -> tuple[Scenario, Setup]:
    if name not in _all():
        raise UsageError(
            f"There is no variant {name!r} of a scenario that a store could be put into. It may be "
            "from another version of streamproof; `streamproof scenarios` lists those that there "
            "are."
        )
    return _all()[name]
