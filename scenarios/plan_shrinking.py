"""Makes a plan plainer: fewer processes, faults and records, and the usual settings.

Explorations, checks of the runtime and checks of stores all shrink the plans of failing worlds
here. ``shrinking`` goes on with the choices of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from typing import Any

from streamproof.sim.world_plan import Plan

__all__ = ["changed_fields", "plainest", "with_smaller_numbers"]

FEW_RECORDS = (1, 2, 3, 5, 10, 20, 50)
"""The numbers of records that are tried for each input, the smallest first."""

SHORT_MS = (1_000, 2_000, 4_000, 8_000, 15_000, 30_000)
"""The lengths of the time with faults that are tried, in virtual milliseconds, the shortest
first."""

USUAL = Plan()
"""The plan that fields are set back to, unless the caller knows a plainer one."""


def plainest(
    plan: Plan, still_fails: Callable[[Plan], bool], most_runs: int, usual: Plan = USUAL
) -> Plan:
    """The plainest plan found that still fails: the one with the fewest unusual fields.

    Args:
        plan: a plan that fails.
        still_fails: whether another plan fails in the same way.
        most_runs: the most calls of ``still_fails``.
        usual: the plan that the fields are set back to.
    """
    found = plan
    # A change that did not help at first may help once other fields are plainer.
    for change in 2 * list(_changes(plan, usual)):
        smaller = _changed(found, change)
        if most_runs <= 0 or smaller in (found, plan):
            continue
        most_runs -= 1
        if still_fails(smaller):
            found = smaller
    return found


Change = tuple[tuple[str, ...], Any]
"""A field, named by the path to it, and its new value."""


def with_smaller_numbers(plan: Plan, still_fails: Callable[[Plan], bool]) -> Plan:
    """The plan with the fewest records and the shortest time for faults that still fails.

    Args:
        plan: a plan that fails.
        still_fails: whether another plan fails in the same way.
    """
    for records in FEW_RECORDS:
        fewer = replace(plan, workload=replace(plan.workload, records=records))
        if records >= plan.workload.records:
            break
        if still_fails(fewer):
            plan = fewer
            break
    for safety_ms in SHORT_MS:
        shorter = replace(plan, safety_ms=safety_ms)
        if safety_ms >= plan.safety_ms:
            break
        if still_fails(shorter):
            return shorter
    return plan


def _changes(plan: Plan, usual: Plan) -> Iterator[Change]:
    """The changes that may make a plan plainer; the largest come first."""
    for name in ("instances", "threads", "partitions"):
        yield (name,), 1
    yield ("kinds",), ()
    for kind in plan.kinds:
        yield ("kinds",), tuple(each for each in plan.kinds if each != kind)
    yield ("activation",), 0.0
    for name in ("topology", "safety_ms", "upgrade", "persistent", "query_clients"):
        yield (name,), getattr(usual, name)
    for name in ("workload", "config"):
        for each in fields(getattr(plan, name)):
            if each.name not in ("exactly_once", "transactional"):
                yield (name, each.name), getattr(getattr(usual, name), each.name)
    yield ("workload", "records"), 20


def _changed(value: Any, change: Change) -> Any:
    (name, *rest), wanted = change
    if rest:
        wanted = _changed(getattr(value, name), (tuple(rest), wanted))
    elif name == "kinds":
        # An earlier step may have left out a kind; it stays out.
        wanted = tuple(each for each in value.kinds if each in wanted)
    return replace(value, **{name: wanted})


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def changed_fields(value: Any) -> dict[str, Any]:
    """The fields of a dataclass that differ from their defaults, as plain data."""
    changed = {
        each.name: getattr(value, each.name)
        for each in fields(value)
        if getattr(value, each.name) != _default(each)
    }
    return {
        name: changed_fields(found) if is_dataclass(found) else found
        for name, found in changed.items()
    }
