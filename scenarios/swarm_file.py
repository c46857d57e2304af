"""Swarm files: TOML that restricts the plans that an exploration draws.

.. code-block:: toml

    topologies = ["count", "stream-table-join"]
    guarantees = ["exactly-once"]
    upgrades = [""]                     # "" is a run without an upgrade
    kinds = ["crash", "power"]          # what may go wrong with instances

    [plan]                              # fields of sim.world_plan.Plan, each with its options
    instances = [2, 3]

    [settings]                          # of sim.application.StreamsConfig
    max_task_idle_ms = [-1, 0, 500]

    [workload]                          # of sim.workloads.WorkloadConfig
    records = [20]

Fields that the file does not name stay unrestricted.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from streamproof.errors import UsageError
from streamproof.sim.application import StreamsConfig
from streamproof.sim.nemesis import KINDS, RARE_KINDS
from streamproof.sim.plan_space import Options, PlanSpace
from streamproof.sim.rolling_upgrade import UPGRADES
from streamproof.sim.topologies import TOPOLOGIES
from streamproof.sim.workloads import WorkloadConfig
from streamproof.sim.world_plan import Plan

__all__ = ["check_space", "read_swarm"]


def read_swarm(path: Path) -> PlanSpace:
    """Read the plan space of a swarm file.

    Raises:
        UsageError: the file cannot be read, or names something that does not exist.
    """
    try:
        space = msgspec.convert(tomllib.loads(path.read_text("utf-8")), PlanSpace)
    except OSError as error:
        raise UsageError(f"{path}: the file cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: this is not TOML: {error}.") from error
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{path}: {error}. A swarm file has the keys topologies, guarantees, upgrades and "
            "kinds, and the tables plan, settings and workload."
        ) from error
    check_space(space, path)
    return space


def check_space(space: PlanSpace, path: Path) -> None:
    """Refuse a space that names something that does not exist.

    Args:
        space: the plans that may be drawn.
        path: the file that names them.

    Raises:
        UsageError: a name or a value is unknown.
    """
    for key, known in (
        ("topologies", [*TOPOLOGIES]),
        ("upgrades", ["", *UPGRADES]),
        ("kinds", [*KINDS, *RARE_KINDS]),
    ):
        for name in getattr(space, key):
            if name not in known:
                raise UsageError(
                    f"{path}: {key} has the unknown name {name!r}. The known names are: "
                    f"{', '.join(filter(None, known))}."
                )
    _require_options(path, "plan", space.plan, _PLAIN_PLAN)
    _require_options(path, "settings", space.settings, _PLAIN_SETTINGS)
    _require_options(path, "workload", space.workload, _plain_fields(WorkloadConfig()))


def _plain_fields(value: Any) -> dict[str, Any]:
    """The fields that are numbers, strings or booleans, with their defaults."""
    return {
        name: default
        for name, default in vars(value).items()
        if isinstance(default, bool | int | float | str)
    }


_PLAIN_PLAN = {
    name: default
    for name, default in _plain_fields(Plan()).items()
    if name not in ("topology", "upgrade")
}

_PLAIN_SETTINGS = {
    name: default
    for name, default in _plain_fields(StreamsConfig()).items()
    if name != "exactly_once"
}
"""The settings without the guarantee, which has a key of its own."""


def _require_options(path: Path, table: str, options: Options, known: Mapping[str, Any]) -> None:
    """Refuse unknown fields, and options of the wrong type or value."""
    for name, values in options.items():
        if name not in known:
            raise UsageError(
                f"{path}: [{table}] has no field {name!r}; it has: {', '.join(known)}."
            )
        kind = type(known[name])
        wrong = [each for each in values if not _fits(each, kind)]
        if wrong or not values:
            what = f"{wrong[0]!r} is none" if wrong else "the list is empty"
            raise UsageError(
                f"{path}: [{table}] {name} must be a list of options, each a {kind.__name__}: "
                f"{what}."
            )
        for value in values:
            _try_option(path, table, name, value)


def _fits(value: Any, kind: type) -> bool:
    return type(value) is kind or (kind is float and type(value) is int)


def _try_option(path: Path, table: str, name: str, value: Any) -> None:
    try:
        if table == "settings":
            replace(StreamsConfig(), **{name: value})
        elif table == "workload":
            replace(WorkloadConfig(), **{name: value})
        else:
            replace(Plan(), **{name: value})
    except UsageError as error:
        raise UsageError(f"{path}: [{table}] {name}: {error}") from error
