"""Makes worlds for the store under test from scenarios of the library."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from streamproof.conformance.results import Guarantee
from streamproof.errors import UsageError
from streamproof.scenarios.real_stores import needs_model_stores
from streamproof.scenarios.scenario import Scenario, Setup
from streamproof.scenarios.scenario_reader import library, read
from streamproof.sim.plan_space import PlanSpace
from streamproof.sim.world_plan import Plan, with_staging
from streamproof.stores.capabilities import Capabilities

__all__ = ["has_standbys", "names_for", "plan_of_variant", "scenario_of"]


@cache
def _all() -> dict[str, tuple[Scenario, Setup]]:
    """All variants of library scenarios without a defect of the runtime."""
    return {
        f"{scenario.name}@{setup.name}": (scenario, setup)
        for scenario in map(read, library().values())
        for setup in scenario.setups.values()
        if not (setup.variant.defects or setup.variant.patch)
        and not setup.variant.breaks
        # Recorded choices fit only the stores with which they were recorded.
        and not scenario.file.choices.recorded
    }


def names_for(capabilities: Capabilities, guarantee: Guarantee) -> Iterator[str]:
    """The variants that fit a store, by name.

    Args:
        capabilities: the claims of the store.
        guarantee: the guarantee of the run; each variant needs one of the two.
    """
    space = PlanSpace(guarantees=[guarantee]).for_store(capabilities)
    for name, (scenario, setup) in _all().items():
        plan = with_staging(setup.plan, transactional=capabilities.transactional)
        if space.has(plan) and not needs_model_stores(scenario, setup):
            yield name


def has_standbys(name: str) -> bool:
    """Whether a variant has standbys.

    Raises:
        UsageError: no variant has this name.
    """
    return _named(name)[1].plan.config.assignor.num_standby_replicas > 0


def scenario_of(name: str) -> Scenario:
    """The scenario of a variant.

    Raises:
        UsageError: no variant has this name.
    """
    return _named(name)[0]


def plan_of_variant(name: str, *, transactional: bool) -> Plan:
    """The plan of a variant, for stores that stage their writes, or do not.

    Raises:
        UsageError: no variant has this name.
    """
    return with_staging(_named(name)[1].plan, transactional=transactional)


def _named(name: str) -> tuple[Scenario, Setup]:
    if name not in _all():
        raise UsageError(
            f"There is no variant {name!r} of a scenario that a store could be put into. It may be "
            "from another version of streamproof; `streamproof scenarios` lists those that there "
            "are."
        )
    return _all()[name]
