"""What an exploration draws from: everything, or what a TOML file leaves of it.

.. code-block:: toml

    topologies = ["count", "stream-table-join"]
    guarantees = ["exactly-once"]
    upgrades = [""]                     # "" is a run without an upgrade
    kinds = ["crash", "power"]          # what may go wrong with instances

    [plan]                              # fields of sim.swarm.Plan, each with its options
    instances = [2, 3]

    [settings]                          # of sim.application.StreamsConfig
    max_task_idle_ms = [-1, 0, 500]

    [workload]                          # of sim.workloads.WorkloadConfig
    records = [20]

What is not named is drawn as ever.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from streamproof.errors import UsageError
from streamproof.sim.application import StreamsConfig
from streamproof.sim.choices import Choices
from streamproof.sim.defects import DEFECTS
from streamproof.sim.nemesis import KINDS
from streamproof.sim.rolling_upgrade import UPGRADES
from streamproof.sim.topologies import TOPOLOGIES
from streamproof.sim.workloads import WorkloadConfig
from streamproof.sim.world_plan import Plan

__all__ = ["EVERYTHING", "Swarm", "check_swarm", "drawn_from", "read_swarm"]

Options = dict[str, list[Any]]
"""By the name of a field, what it may be."""


class Swarm(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What an exploration draws from; what is empty is not restricted.

    Attributes:
        topologies: names in ``TOPOLOGIES``.
        guarantees: processing guarantees.
        upgrades: names in ``UPGRADES``; the empty name is a run without one.
        kinds: what may go wrong with instances, of ``nemesis.KINDS``; each is drawn or not.
        plan: fields of ``Plan``.
        settings: fields of ``StreamsConfig``.
        workload: fields of ``WorkloadConfig``.
    """

    topologies: list[str] = []
    guarantees: list[Literal["exactly-once", "at-least-once"]] = []
    upgrades: list[str] = []
    kinds: list[str] = []
    plan: Options = {}
    settings: Options = {}
    workload: Options = {}


EVERYTHING = Swarm()
"""Whatever the swarm can draw."""


def read_swarm(path: Path) -> Swarm:
    """Read what an exploration is to draw from.

    Raises:
        UsageError: the file cannot be read, or something in it is not there to be drawn.
    """
    try:
        swarm = msgspec.convert(tomllib.loads(path.read_text("utf-8")), Swarm)
    except OSError as error:
        raise UsageError(f"{path}: it cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: this is not TOML: {error}.") from error
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{path}: {error}. There are topologies, guarantees, upgrades and kinds, and the "
            "tables plan, settings and workload."
        ) from error
    check_swarm(swarm, path)
    return swarm


def check_swarm(swarm: Swarm, path: Path) -> None:
    """See that all that is named is there to be drawn.

    Args:
        swarm: what is left to draw from.
        path: the file that says so.

    Raises:
        UsageError: something is not there.
    """
    for key, known in (
        ("topologies", [*TOPOLOGIES]),
        ("upgrades", ["", *UPGRADES]),
        ("kinds", [*KINDS]),
    ):
        for name in getattr(swarm, key):
            if name not in known:
                raise UsageError(
                    f"{path}: {key} has {name!r}, and there are: {', '.join(filter(None, known))}."
                )
    _require_options(path, "plan", swarm.plan, _PLAIN_PLAN)
    _require_options(path, "settings", swarm.settings, _PLAIN_SETTINGS)
    _require_options(path, "workload", swarm.workload, _plain_fields(WorkloadConfig()))


def _plain_fields(value: Any) -> dict[str, Any]:
    """The fields that are numbers, words or truths, with their defaults."""
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
"""Guarantees have a key of their own."""


def _require_options(path: Path, table: str, options: Options, known: Mapping[str, Any]) -> None:
    """Whether each field is there, and each of its options is one that it can have."""
    for name, values in options.items():
        if name not in known:
            raise UsageError(f"{path}: [{table}] has no {name!r}; it has: {', '.join(known)}.")
        kind = type(known[name])
        wrong = [each for each in values if not _fits(each, kind)]
        if wrong or not values:
            what = f"{wrong[0]!r} is none" if wrong else "there is none"
            raise UsageError(
                f"{path}: [{table}] {name} is a list of what it may be, each a {kind.__name__}: "
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
        elif name in _COUNTED and value < 1:
            raise UsageError(f"{value} is too few: at least 1.")  # noqa: TRY301 - told below
    except UsageError as error:
        raise UsageError(f"{path}: [{table}] {name}: {error}") from error


_COUNTED = ("partitions", "instances", "threads", "safety_ms")
"""Fields of a plan of which there must be one at least."""


@dataclass(frozen=True)
class _Drawn:
    """Draws the plan of a run from what a swarm leaves."""

    swarm: Swarm

    def __call__(self, choices: Choices, defect: str) -> Plan:
        swarm, known = self.swarm, DEFECTS.get(defect)
        guarantees = known.guarantees if known else ("EOS", "ALOS")
        wanted = [_NAMES[each] for each in swarm.guarantees if _NAMES[each] in guarantees]
        fixed = guarantees if len(guarantees) == 1 else wanted
        exactly_once = choices.pick(fixed) == "EOS" if fixed else None
        upgrade = known.upgrade if known and known.upgrade else None
        if upgrade is None and swarm.upgrades:
            upgrade = choices.pick(swarm.upgrades)
        transactional = known.transactional if known else None
        if upgrade and not all(each.manages_offsets for each in UPGRADES[upgrade]):
            # No release of before KIP-1035 has stores that stage their writes.
            transactional = False
        plan = Plan.drawn(
            choices,
            exactly_once=exactly_once,
            transactional=transactional,
            topology=choices.pick(swarm.topologies) if swarm.topologies else None,
            upgrade=upgrade,
        )
        return self._restricted(choices, plan)

    def _restricted(self, choices: Choices, plan: Plan) -> Plan:
        swarm = self.swarm
        config = replace(plan.config, **_picked(choices, swarm.settings))
        workload = replace(plan.workload, **_picked(choices, swarm.workload))
        kinds = plan.kinds
        if swarm.kinds:
            # What was drawn of them; all, rather than nothing at all.
            kinds = tuple(each for each in kinds if each in swarm.kinds) or tuple(swarm.kinds)
        picked = _picked(choices, swarm.plan)
        return replace(plan, config=config, workload=workload, kinds=kinds, **picked)


_NAMES = {"exactly-once": "EOS", "at-least-once": "ALOS"}
"""The guarantees by the names that defects have for them."""


def _picked(choices: Choices, options: Options) -> dict[str, Any]:
    return {name: choices.pick(values) for name, values in options.items()}


def drawn_from(swarm: Swarm, defect: str = "") -> _Drawn:
    """What draws the plan of a run, as ``sim.exploration.Draw``; it can be pickled.

    With :data:`EVERYTHING` the run of a seed is that of ``sim.exploration.drawn_plan``.

    Args:
        swarm: what is left to draw from.
        defect: the mistake that the runtime is to make; empty for none.

    Raises:
        UsageError: the defect does no harm in what is left.
    """
    if defect:
        known = DEFECTS[defect]
        names = [name for name, short in _NAMES.items() if short in known.guarantees]
        if swarm.guarantees and not set(names) & set(swarm.guarantees):
            raise UsageError(
                f"The defect {defect!r} does no harm under {swarm.guarantees[0]}: add "
                f"{names[0]!r} to guarantees."
            )
        if known.upgrade and swarm.upgrades and known.upgrade not in swarm.upgrades:
            raise UsageError(
                f"The defect {defect!r} does no harm without the upgrade {known.upgrade!r}: add it "
                "to upgrades."
            )
    return _Drawn(swarm)
