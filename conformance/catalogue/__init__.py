"""The requirement catalogue: every promise, as data, one TOML file an area.

An entry says what is promised, how binding it is, where the promise comes from, for whom
it holds, and which checks test it, or why none does. Ids are never renumbered.

Most entries bind a store. Those that bind the runtime around it are put to the simulated one; in
areas that both have, their numbers begin with 101.
"""

from __future__ import annotations

import functools
from importlib.resources import files
from typing import Literal

import msgspec
from msgspec import Struct, field

from streamproof.conformance.results import Guarantee, Level, Spec
from streamproof.stores.capabilities import Capabilities

__all__ = ["AREAS", "Binds", "Requirement", "load_catalogue", "requirements_that_bind"]

Binds = Literal["store", "runtime"]
"""Whom a requirement binds: a state store, or the runtime whose tasks use it."""

AREAS = {
    "LIFE": "Life cycle",
    "KV": "Point operations",
    "RANGE": "Scans and iterators",
    "TS": "Timestamps",
    "WIN": "Windows",
    "SESS": "Sessions",
    "OFFSET": "Changelog offsets",
    "COMMIT": "Commit",
    "TXN": "Transactions",
    "ISO": "Isolation",
    "POS": "Position",
    "CRASH": "Crash consistency",
    "POWER": "Loss of power",
    "RESTORE": "Restoration",
    "LISTEN": "Restore listener",
    "UPGRADE": "Upgrade and downgrade",
    "METRIC": "Metrics",
    "ERR": "Bad input",
    "PROTOCOL": "Inside simulated tasks",
    "IDLE": "Task idling",
    "LAG": "Lag",
    "TASK": "Tasks and their state",
    "EOS": "Exactly-once processing",
    "ALOS": "At-least-once processing",
    "REBAL": "Rebalances",
    "ASSIGN": "Assignment",
    "STANDBY": "Standby tasks",
}
"""The areas of this release and their titles, in the order in which reports show them."""

AREA_NEEDS: dict[str, tuple[str, ...]] = {
    "KV": ("key_value",),
    "RANGE": ("key_value",),
    "TS": ("timestamped",),
    "WIN": ("window",),
    "SESS": ("session",),
    "POS": ("position", "rows"),
    "POWER": ("manages_offsets", "persistent", "rows"),
    "UPGRADE": ("upgrades_from", "rows"),
    "METRIC": ("metrics", "rows"),
}
"""The capabilities that every requirement of an area depends on."""

DEFAULT_NEEDS = ("rows",)
"""Those of the other areas: their checks put and get, in windows and sessions too."""


class Requirement(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One checkable promise.

    Attributes:
        id: ``AREA-NNN``, never renumbered.
        title: a few words.
        level: how binding it is, in the sense of RFC 2119.
        core: whether skipping it makes a verdict partial.
        promise: the promise in our own words.
        source: proposal and section, and the Kafka class or test where one shipped.
        checks: the checks that test it, as ``module.function``.
        untested: why no check does, if none does.
        binds: whom it binds.
        needs: capabilities it depends on; ``!name`` means that it must be absent. The runtime
            has none.
        guarantees: the guarantees under which it holds.
        specs: the specifications that contain it.
    """

    id: str
    title: str
    level: Level
    core: bool
    promise: str
    source: str
    checks: list[str] = field(default_factory=list)
    untested: str = ""
    binds: Binds = "store"
    needs: list[str] = field(default_factory=list)
    guarantees: list[Guarantee] = field(default_factory=lambda: ["exactly-once", "at-least-once"])
    specs: list[Spec] = field(default_factory=lambda: ["kips", "kafka-4.3", "kafka-4.4"])

    @property
    def area(self) -> str:
        """The part of the id before the number."""
        return self.id.rpartition("-")[0]

    def why_not_applicable(
        self, capabilities: Capabilities, guarantee: Guarantee, spec: Spec
    ) -> str:
        """Why the requirement does not hold for this subject in this run; empty if it does."""
        area_needs = AREA_NEEDS.get(self.area, DEFAULT_NEEDS) if self.binds == "store" else ()
        for need in (*area_needs, *self.needs):
            wanted = not need.startswith("!")
            if has_capability(capabilities, need.removeprefix("!")) != wanted:
                return _why_not(capabilities, need)
        if guarantee not in self.guarantees:
            return f"holds under {self.guarantees[0]} only"
        if spec not in self.specs:
            return f"not part of {spec}: holds for {', '.join(self.specs)}"
        return ""


def has_capability(capabilities: Capabilities, name: str) -> bool:
    """Whether a subject has a capability, or one that follows from several.

    ``snapshot_iterators`` follows from ``iterator_view``, ``isolated_reads`` means that there is
    a way to read past staged writes; ``power_durability`` and ``flush_durability`` are what
    ``durability`` says; ``rows`` means that a put overwrites, so that the store can be
    seen as a key-value store (see :mod:`streamproof.conformance.as_key_value`).
    """
    if name == "key_value":
        return capabilities.kind == "key-value"
    if name in ("window", "session"):
        return capabilities.kind == name
    if name == "rows":
        return not capabilities.retain_duplicates
    if name.endswith("_durability"):
        return f"{capabilities.durability}_durability" == name
    if name == "snapshot_iterators":
        return capabilities.iterator_view == "snapshot"
    if name == "isolated_reads":
        views = capabilities.read_only_views and capabilities.transactional
        return capabilities.explicit_transactions or views
    return bool(getattr(capabilities, name))


def _why_not(capabilities: Capabilities, need: str) -> str:
    """What a subject is, or claims, that a need does not allow."""
    if need in ("key_value", "window", "session"):
        return f"the subject is a {capabilities.kind} store"
    if need == "rows":
        return "the subject retains duplicates: a put does not overwrite"
    if need.endswith("_durability"):
        return f"the subject declares the durability {capabilities.durability}"
    if need.startswith("!"):
        return f"the subject claims {need.removeprefix('!')}"
    return f"the subject does not claim {need}"


class _Area(Struct, forbid_unknown_fields=True):
    requirement: list[Requirement]


@functools.cache
def load_catalogue() -> dict[str, Requirement]:
    """All requirements by id, in the order of the areas and of their numbers."""
    found: dict[str, Requirement] = {}
    for area in AREAS:
        text = files(__name__).joinpath(f"{area.lower()}.toml").read_text(encoding="utf-8")
        for requirement in msgspec.toml.decode(text, type=_Area).requirement:
            if requirement.area != area or requirement.id in found:
                raise ValueError(f"{area.lower()}.toml: {requirement.id} is misplaced or doubled.")
            found[requirement.id] = requirement
    return found


def requirements_that_bind(binds: Binds) -> list[Requirement]:
    """The requirements of one kind, in the order of the catalogue."""
    return [each for each in load_catalogue().values() if each.binds == binds]
