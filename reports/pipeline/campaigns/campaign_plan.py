"""The plan of a campaign: a TOML file, and the series of rows that it describes.

.. code-block:: toml

    [[simulate]]                        # a world for each seed, subject and defect
    seeds = [0, 20_000]                 # from, to; the last one is left out
    subjects = [""]                     # "" is the model stores
    defects = ["", "ignores-lag"]       # "" is a runtime without a mistake
    guarantees = ["exactly-once"]       # this and more as in a file for `explore --swarm`
    keep_events = "failures"            # or "none", or "all"

    [[scenarios]]                       # each variant of these scenarios, for each subject
    names = ["KAFKA-7192"]              # or "all" of the library
    variants = ["fixed"]                # all, if it is left out

    [[verify]]                          # a `streamproof verify` for each combination
    subjects = ["rocksdb", "my_store:Store"]
    guarantees = ["exactly-once", "at-least-once"]
    specs = ["kips"]
    profiles = ["quick"]
    seeds = [0, 5]
    only = ["CRASH"]

In each block, ``limit_s`` is the time limit of one row in seconds.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

from streamproof.conformance.results import Guarantee, Profile, Spec
from streamproof.conformance.subject import binds_of, load_subject
from streamproof.conformance.verify_session import select_requirements
from streamproof.errors import StreamproofError, UsageError
from streamproof.near_names import near_names
from streamproof.reports.pipeline.campaigns.campaign_tables import RowKind
from streamproof.scenarios.real_stores import needs_model_stores
from streamproof.scenarios.scenario_reader import find, library, read
from streamproof.scenarios.swarm_file import check_space
from streamproof.sim.defects import require_defects
from streamproof.sim.plan_space import EVERYTHING, PlanSpace

__all__ = ["CampaignPlan", "Conditions", "KeepEvents", "RowSeries", "read_plan"]

KeepEvents = Literal["none", "failures", "all"]

LAST_SEED = 2**63 - 1
"""The tables have no place for a larger one."""

Seeds = tuple[Annotated[int, Meta(ge=0, le=LAST_SEED)], Annotated[int, Meta(ge=1, le=LAST_SEED)]]
"""The first seed, and the first one after the last."""

Seconds = Annotated[float, Meta(gt=0, le=10_000_000)]
"""More than a hundred days is a slip, and the timers of the system cannot hold much more."""

WORLD_LIMIT_S = 300.0
"""The time limit of a world without one in the plan; most take a few hundredths of a second."""

VERIFY_LIMIT_S = 3_600.0
"""The time limit of a verification without one in the plan."""


class SimulateBlock(PlanSpace, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Worlds drawn from a part of the swarm, and watched by all invariants.

    Attributes:
        seeds: the seeds of the worlds.
        subjects: the stores in them, in turn; the empty name means the model stores.
        defects: the mistakes of the runtime, in turn; the empty name means none.
        keep_events: the worlds whose events are kept.
        limit_s: the time limit of a world, in seconds.
    """

    seeds: Seeds
    subjects: tuple[str, ...] = ("",)
    defects: tuple[str, ...] = ("",)
    keep_events: KeepEvents = "failures"
    limit_s: Seconds = WORLD_LIMIT_S


class ScenariosBlock(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Scenarios, each in all its variants.

    Attributes:
        names: names in the library, ``all``, or paths that every worker can read.
        variants: the variants; all, if this is empty. A name means all variants that the matrix
            makes of it.
        subjects: the stores in them, in turn; the empty name means the model stores.
        keep_events: the runs whose events are kept.
        limit_s: the time limit of a run, in seconds.
    """

    names: list[str] | Literal["all"] = "all"
    variants: list[str] = []
    subjects: tuple[str, ...] = ("",)
    keep_events: KeepEvents = "failures"
    limit_s: Seconds = WORLD_LIMIT_S


class VerifyBlock(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Runs of ``streamproof verify``.

    Attributes:
        subjects: the subjects to judge, in turn.
        guarantees: the guarantees, in turn.
        specs: the specifications, in turn.
        profiles: the profiles, in turn.
        seeds: the seeds of all random decisions, in turn.
        only: ids or areas of requirements; all, if this is empty.
        limit_s: the time limit of a run, in seconds.
    """

    subjects: Annotated[list[str], Meta(min_length=1)]
    guarantees: tuple[Guarantee, ...] = ("exactly-once",)
    specs: tuple[Spec, ...] = ("kips",)
    profiles: tuple[Profile, ...] = ("quick",)
    seeds: Seeds = (0, 1)
    only: list[str] = []
    limit_s: Seconds = VERIFY_LIMIT_S


class _PlanFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a plan file."""

    simulate: list[SimulateBlock] = []
    scenarios: list[ScenariosBlock] = []
    verify: list[VerifyBlock] = []


class Conditions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of a row that have no column of their own.

    Attributes:
        swarm: the space that a world is drawn from.
        keep_events: whether its events are kept.
        spec, profile, only: the options of ``verify``.
        limit_s: the time limit of the row, in seconds.
    """

    swarm: PlanSpace = EVERYTHING
    keep_events: KeepEvents = "none"
    spec: Spec = "kips"
    profile: Profile = "quick"
    only: list[str] = []
    limit_s: float = 0.0

    def encoded(self) -> str:
        """The conditions as a JSON object; equal conditions give equal texts."""
        return msgspec.json.encode(self, order="deterministic").decode()


_LONGEST_FIRST: tuple[Profile, ...] = ("full", "quick", "smoke")


class RowSeries(NamedTuple):
    """Rows that differ in nothing but the seed.

    Attributes:
        kind: the kind of the rows.
        subject: the store; empty for model stores.
        scenario: ``NAME@VARIANT``; empty for other kinds.
        defect: the mistake of the runtime; empty for none.
        guarantee: of ``verify``; other kinds draw it, or take it from the scenario.
        settings: :class:`Conditions`, encoded.
        first: the first seed; -1 in a scenario.
        end: the first seed after the last.
    """

    kind: RowKind
    subject: str
    scenario: str
    defect: str
    guarantee: str
    settings: str
    first: int
    end: int

    @property
    def conditions(self) -> Conditions:
        """The settings of its rows that have no column of their own."""
        return msgspec.json.decode(self.settings, type=Conditions)

    @property
    def is_isolated(self) -> bool:
        """Whether each row runs foreign code, and so has a process of its own."""
        return self.kind == "verify" or bool(self.subject)

    @property
    def turn(self) -> int:
        """The place of the series: 0 comes first, and has the rows that may take longest."""
        if self.kind == "verify":
            return _LONGEST_FIRST.index(self.conditions.profile)
        return len(_LONGEST_FIRST) + (not self.is_isolated)


@dataclass(frozen=True)
class CampaignPlan:
    """The rows that a campaign carries out.

    Attributes:
        path: the plan file.
        series: all rows; no row is in two series.
        left_out: parts of the plan that cannot be carried out, in a sentence each.
    """

    path: Path
    series: tuple[RowSeries, ...]
    left_out: tuple[str, ...]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(each.end - each.first for each in self.series)

    @property
    def digest(self) -> str:
        """32 hexadecimal digits that follow from all rows."""
        return sha256(msgspec.json.encode(self.series)).hexdigest()[:32]


def read_plan(path: Path, *, allow_patches: bool = False) -> CampaignPlan:
    """Read the plan of a campaign.

    Args:
        path: the plan.
        allow_patches: whether scenarios of the user may bring Python code into the runtime. Those
            of the library always may.

    Raises:
        UsageError: the plan cannot be read, or is wrong.
    """
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"{path}: the plan cannot be read: {reason}.") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: this is not TOML: {error}.") from error
    try:
        file = msgspec.convert(table, _PlanFile)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {_told(str(error))}") from error
    series: list[RowSeries] = []
    left_out: list[str] = []
    for place, block in _blocks(file):
        try:
            if isinstance(block, ScenariosBlock) and not allow_patches:
                _refuse_patches(block)
            series += _series_of(block, path, left_out)
        except StreamproofError as error:
            told = str(error).removeprefix(f"{path}: ")
            raise UsageError(f"{path}: `{place}`: {told}") from error
    if not series:
        raise UsageError(
            f"{path}: the plan is empty. Add a [[simulate]], [[scenarios]] or [[verify]]."
        )
    return CampaignPlan(path, _merged(series), tuple(left_out))


def _merged(series: Iterable[RowSeries]) -> tuple[RowSeries, ...]:
    """The same rows, each one in exactly one series."""
    merged: dict[tuple[str, ...], list[RowSeries]] = {}
    for each in sorted(series, key=lambda one: one.first):
        alike = merged.setdefault(each[:-2], [])
        if alike and each.first <= alike[-1].end:
            alike[-1] = alike[-1]._replace(end=max(alike[-1].end, each.end))
        else:
            alike.append(each)
    return tuple(each for alike in merged.values() for each in alike)


def _blocks(file: _PlanFile) -> Iterator[tuple[str, SimulateBlock | ScenariosBlock | VerifyBlock]]:
    """All blocks, with the place of each."""
    for name in ("simulate", "scenarios", "verify"):
        for number, block in enumerate(getattr(file, name)):
            yield f"{name}[{number}]", block


_BLOCKS: dict[str, type[Struct]] = {
    "simulate": SimulateBlock,
    "scenarios": ScenariosBlock,
    "verify": VerifyBlock,
}


def _told(error: str) -> str:
    """The part that does not have the form of a plan, with its place and the allowed values."""
    text, _, place = error.partition(" - at `$")
    keys = place.rstrip("`").lstrip(".")
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", text)
    if text == "Expected `array`, got `object`" and keys in _BLOCKS:
        return f"[{keys}] is one block of several, as there may be: write [[{keys}]]."
    if not unknown:
        return f"`{keys}` is wrong: {text[0].lower()}{text[1:]}." if keys else f"{text}."
    block = _BLOCKS.get(keys.partition("[")[0], _PlanFile)
    known = sorted(block.__struct_fields__)
    near = near_names(unknown[1], known, most=1)
    hint = f"did you mean {near}?" if near else f"there are: {', '.join(known)}."
    return f"`{'.'.join(filter(None, (keys, unknown[1])))}` is no key of a plan; {hint}"


def _series_of(
    block: SimulateBlock | ScenariosBlock | VerifyBlock, path: Path, left_out: list[str]
) -> Iterator[RowSeries]:
    """The rows that a block describes."""
    if isinstance(block, ScenariosBlock):
        yield from _scenarios(block, left_out)
        return
    first, end = block.seeds
    if first >= end:
        raise UsageError(f"`seeds` is [from, to], and [{first}, {end}] contains no seed.")
    yield from (_simulate(block, path) if isinstance(block, SimulateBlock) else _verify(block))


def _simulate(block: SimulateBlock, path: Path) -> Iterator[RowSeries]:
    swarm = PlanSpace(**{name: getattr(block, name) for name in PlanSpace.__struct_fields__})
    check_space(swarm, path)
    require_defects(filter(None, block.defects))
    _require_stores(filter(None, block.subjects))
    conditions = Conditions(swarm=swarm, keep_events=block.keep_events, limit_s=block.limit_s)
    for subject, defect in product(block.subjects, block.defects):
        swarm.for_defect(defect)
        yield RowSeries("simulate", subject, "", defect, "", conditions.encoded(), *block.seeds)


def _scenarios(block: ScenariosBlock, left_out: list[str]) -> Iterator[RowSeries]:
    _require_stores(filter(None, block.subjects))
    conditions = Conditions(keep_events=block.keep_events, limit_s=block.limit_s).encoded()
    names = [*library()] if block.names == "all" else block.names
    known: set[str] = set()
    for scenario in (read(find(each)) for each in names):
        target = scenario.name if library().get(scenario.name) == scenario.path else scenario.path
        known.update(each.partition(" ")[0] for each in scenario.setups)
        for subject, setup in product(block.subjects, scenario.setups.values()):
            if block.variants and setup.name.partition(" ")[0] not in block.variants:
                continue
            name = f"{target}@{setup.name}"
            if subject and (reason := needs_model_stores(scenario, setup)):
                left_out.append(f"{name} with {subject}: {reason}.")
            else:
                yield RowSeries("scenario", subject, name, "", "", conditions, -1, 0)
    for each in block.variants:
        if each not in known:
            raise UsageError(f"no scenario has the variant {each!r}; there are: {sorted(known)}.")


def _refuse_patches(block: ScenariosBlock) -> None:
    """Refuse scenarios outside of the library that bring Python code.

    Raises:
        UsageError: a variant has a patch.
    """
    for name in [] if block.names == "all" else block.names:
        scenario = read(find(name))
        if library().get(scenario.name) == scenario.path:
            continue
        for setup in scenario.setups.values():
            is_meant = not block.variants or setup.name.partition(" ")[0] in block.variants
            if setup.variant.patch and is_meant:
                raise UsageError(
                    f"{name}@{setup.name} runs the Python code of {setup.variant.patch} in every "
                    "worker: add --allow-patches, or name other variants."
                )


def _verify(block: VerifyBlock) -> Iterator[RowSeries]:
    for subject in block.subjects:
        load_subject(subject)
        select_requirements(block.only, binds_of(subject))
    for subject, guarantee, spec, profile in product(
        block.subjects, block.guarantees, block.specs, block.profiles
    ):
        conditions = Conditions(spec=spec, profile=profile, only=block.only, limit_s=block.limit_s)
        yield RowSeries("verify", subject, "", "", guarantee, conditions.encoded(), *block.seeds)


def _require_stores(subjects: Iterable[str]) -> None:
    """Check that all subjects are stores, which can be put into a world.

    Raises:
        UsageError: a subject cannot be found, or is the runtime.
    """
    for subject in subjects:
        if binds_of(subject) == "runtime":
            raise UsageError(
                f"subjects are stores, and {subject!r} is the runtime, which is in every world. "
                "Add its mistakes to `defects`."
            )
        load_subject(subject)
