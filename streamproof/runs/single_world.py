"""Simulating one world by its seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from streamproof.conformance.store_worlds.hosted_worlds import Hosted
from streamproof.conformance.subject import load_subject
from streamproof.errors import UsageError
from streamproof.scenarios.recorded_run import RecordedRun
from streamproof.search_path import search_directory
from streamproof.sim.choices import Choices
from streamproof.sim.exploration import Simulate
from streamproof.sim.plan_space import PlanSpace, draw
from streamproof.sim.simulation import run
from streamproof.sim.trace import Event
from streamproof.sim.world_plan import Plan

__all__ = ["simulate"]

T = TypeVar("T")


def simulate(
    seed: int,
    *,
    drawn_from: Mapping[str, Any] | None = None,
    plan: Mapping[str, Any] | None = None,
    defects: Iterable[str] = (),
    subject: str = "",
) -> RecordedRun:
    """Simulate the world of a seed, and return its events and what is broken in it.

    The seed decides everything, on any machine: ``simulate(7).digest`` is always the same.

    Args:
        seed: draws the plan of the world, and then everything that happens.
        drawn_from: limits the plan that is drawn, with the keys of a swarm file.
        plan: the plan itself instead of a drawn one, such as ``{"instances": 3}``; a field that is
            left out has its default.
        defects: mistakes that the runtime makes; ``streamproof defects`` lists them.
        subject: the store in the world, as ``streamproof verify`` takes it; a fast model store by
            default.

    Raises:
        UsageError: there is no such field, value, defect or store.
    """
    search_directory()
    space = _converted(drawn_from or {}, PlanSpace, "drawn_from")
    simulate_world: Simulate = run
    if subject:
        space = space.for_store(load_subject(subject).capabilities)
        simulate_world = Hosted(subject, str(Path.cwd()))
    choices = Choices.seeded(seed)
    # The plan is drawn even where another one is used, so that all later choices stay the same.
    drawn = draw(choices, space)
    used = drawn if plan is None else _plan_of(plan)
    events: list[Event] = []
    names = tuple(defects)
    outcome = simulate_world(choices, used, defects=names, watchers=[events.append])
    return RecordedRun(f"seed {seed}", used, names, events, outcome.violations, outcome.digest)


def _plan_of(changes: Mapping[str, Any]) -> Plan:
    """The plan that differs from the default plan in these fields."""
    _require_fields(changes, Plan(), "plan")
    return _converted(changes, Plan, "plan")


def _require_fields(changes: Mapping[str, Any], default: Any, name: str) -> None:
    """Refuse what is no field of a dataclass, because msgspec would leave it out silently."""
    known = {each.name: getattr(default, each.name) for each in fields(default)}
    for key, value in changes.items():
        if key not in known:
            raise UsageError(f"{name} has no field {key!r}; it has: {', '.join(sorted(known))}.")
        if is_dataclass(known[key]) and isinstance(value, Mapping):
            _require_fields(value, known[key], f"{name}[{key!r}]")


def _converted(value: Mapping[str, Any], kind: type[T], name: str) -> T:
    try:
        return msgspec.convert(dict(value), kind)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{name} is wrong: {error}. docs/scenarios.md lists the values."
        ) from error
