"""The requirement catalogue: every promise as data, in one TOML file for each area.

An entry holds the promise, its level, its source, the conditions under which it holds, and the
checks that test it, or the reason why no check does. Ids are never renumbered.

Most entries bind a store. The others bind the runtime around the stores, and the checks put them
to the simulated runtime. In an area with both kinds, the numbers of the runtime begin with 101.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from importlib.resources import files
from typing import Literal

import msgspec
import tomli
from msgspec import Struct, field, structs

from streamproof.conformance.results import Guarantee, Level, Spec
from streamproof.stores.capabilities import LATE, Capabilities, answers_queries

__all__ = [
    "AREAS",
    "Binds",
    "Requirement",
    "load_catalogue",
    "requirements_that_bind",
    "unmet_need",
]

Binds = Literal["store", "runtime", "application", "real-runtime"]
"""The party that a requirement binds: a state store, the runtime whose tasks use the store, or an
application on Kafka Streams."""

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
    "QUERY": "Interactive queries",
    "APP": "Applications",
}
"""The areas and their titles, in the order of reports."""

SWARM = "swarm."
"""The beginning of the names of checks that try whatever has an invariant."""

OF_APPLICATIONS = ["fault.kills_and_restarts"]
"""The check of applications."""

OF_REAL_RUNTIMES = ["real_world.plays"]
"""The check of Kafka itself."""

NOT_RECORDED = (
    "not tried: no invariant of recorded runs asks for it, only checks that call the simulated "
    "runtime"
)
"""Why a requirement of the runtime is not put to Kafka itself."""

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
"""The capabilities that every requirement of an area needs."""

DEFAULT_NEEDS = ("rows",)
"""The needs of all other areas: their checks put and get, in windows and sessions too."""


class Requirement(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One checkable promise.

    Attributes:
        id: ``AREA-NNN``, never renumbered.
        title: a few words.
        level: how binding the requirement is, in the sense of RFC 2119.
        core: whether skipping the requirement makes a verdict partial.
        promise: the promise in our own words.
        source: proposal and section, and the Kafka class or test if Kafka has shipped one.
        usual_cause: how implementations usually break the promise.
        usual_cure: how they usually mend it.
        implies: ids of requirements that hold wherever this one does.
        checks: the checks that test the requirement, as ``module.function``.
        untested: the reason why no check tests the requirement, if none does.
        binds: the party that the requirement binds.
        needs: the capabilities that the requirement needs; ``!name`` means that the subject must
            lack the capability. Requirements of the runtime need none.
        guarantees: the guarantees under which the requirement holds.
        specs: the specifications that contain the requirement.
    """

    id: str
    title: str
    level: Level
    core: bool
    promise: str
    source: str
    usual_cause: str = ""
    usual_cure: str = ""
    implies: list[str] = field(default_factory=list)
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
        if need := unmet_need(capabilities, (*area_needs, *self.needs)):
            return _why_not(capabilities, need)
        if guarantee not in self.guarantees:
            return f"holds under {self.guarantees[0]} only"
        if spec not in self.specs:
            return f"not part of {spec}: holds for {', '.join(self.specs)}"
        return ""


def unmet_need(capabilities: Capabilities, needs: Iterable[str]) -> str:
    """The first of some needs that a subject does not meet; empty if the subject meets them all.

    A need is the name of a capability, or ``!name``: the subject must lack the capability.
    """
    for need in needs:
        if has_capability(capabilities, need.removeprefix("!")) == need.startswith("!"):
            return need
    return ""


UNCLAIMED = "the subject does not claim "
"""How the reason begins why a requirement is not asked, before the name of the capability."""


def has_capability(capabilities: Capabilities, name: str) -> bool:
    """Whether a subject has a capability, declared or derived from declared ones.

    The derived capabilities:

    - ``snapshot_iterators`` follows from ``iterator_view``.
    - ``isolated_reads``: the subject has a way to read past staged writes.
    - ``power_durability``, ``flush_durability`` and ``late_durability`` follow from ``durability``.
    - ``answers_queries``: the subject stages no writes, or has views beneath them.
    - ``several_keys``: the subject has a way to read the windows or sessions of several keys.
    - ``rows``: a put overwrites, so that checks can use the store as a key-value store (see
      :mod:`streamproof.conformance.as_key_value`).
    """
    if name == "key_value":
        return capabilities.kind == "key-value"
    if name in ("window", "session"):
        return capabilities.kind == name
    if name == "rows":
        return not capabilities.retain_duplicates
    if name == "late_durability":
        return capabilities.durability in LATE
    if name.endswith("_durability"):
        return f"{capabilities.durability}_durability" == name
    if name == "snapshot_iterators":
        return capabilities.iterator_view == "snapshot"
    if name == "isolated_reads":
        views = capabilities.read_only_views and capabilities.transactional
        return capabilities.explicit_transactions or views
    if name == "answers_queries":
        return answers_queries(capabilities)
    if name == "several_keys":
        return capabilities.scan or capabilities.ranges
    return bool(getattr(capabilities, name))


def _why_not(capabilities: Capabilities, need: str) -> str:
    """The property or claim of a subject that contradicts a need."""
    if need in ("key_value", "window", "session"):
        return f"the subject is a {capabilities.kind} store"
    if need == "rows":
        return "the subject retains duplicates: a put does not overwrite"
    if need == "several_keys":
        return "the subject claims neither scan nor ranges"
    if need == "answers_queries":
        return f"{UNCLAIMED}read_only_views"
    if need.endswith("_durability"):
        return f"the subject declares the durability {capabilities.durability}"
    if need.startswith("!"):
        return f"the subject claims {need.removeprefix('!')}"
    return f"{UNCLAIMED}{need}"


class _Area(Struct, forbid_unknown_fields=True):
    requirement: list[Requirement]


@functools.cache
def load_catalogue() -> dict[str, Requirement]:
    """All requirements by id, in the order of the areas and of their numbers."""
    found: dict[str, Requirement] = {}
    for area in AREAS:
        text = files(__name__).joinpath(f"{area.lower()}.toml").read_text(encoding="utf-8")
        for requirement in msgspec.convert(tomli.loads(text), _Area).requirement:
            if requirement.area != area or requirement.id in found:
                raise ValueError(f"{area.lower()}.toml: {requirement.id} is misplaced or doubled.")
            found[requirement.id] = requirement
    return found


def requirements_that_bind(binds: Binds) -> list[Requirement]:
    """The requirements of one kind, in the order of the catalogue.

    An application stands on the runtime. So its runs also try the requirements of the runtime for
    which there is an invariant, which is what the swarm tries. They take nothing away from the
    verdict where nobody could observe what they need.
    """
    if binds == "real-runtime":
        return [_put_to_kafka(each) for each in requirements_that_bind("runtime")]
    if binds != "application":
        return [each for each in load_catalogue().values() if each.binds == binds]
    return [
        each if each.binds == binds else structs.replace(each, core=False, checks=OF_APPLICATIONS)
        for each in load_catalogue().values()
        if each.binds == binds or any(name.startswith(SWARM) for name in each.checks)
    ]


def _put_to_kafka(requirement: Requirement) -> Requirement:
    """A requirement of the runtime as it is put to Kafka itself.

    What nobody could observe takes nothing away from the verdict, and never counts as held.
    """
    if any(name.startswith(SWARM) for name in requirement.checks):
        return structs.replace(requirement, core=False, checks=OF_REAL_RUNTIMES)
    return structs.replace(requirement, core=False, checks=[], untested=NOT_RECORDED)
