"""The kill matrix: every deliberately wrong store against the requirement that must catch it.

Each mutant is bound to one requirement. The mutant is *killed* if a check finds that it breaks this
requirement; breaking another requirement is not enough. The correct stores from which the mutant is
made run beside it, and must keep the requirement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import NamedTuple

from msgspec.structs import replace

from streamproof.conformance.catalogue import (
    AREAS,
    Requirement,
    load_catalogue,
    requirements_that_bind,
)
from streamproof.conformance.check_engine import Engine
from streamproof.conformance.check_loader import checks_of, load_checks
from streamproof.conformance.check_records import CheckOutcome, Effort
from streamproof.conformance.check_registry import Check
from streamproof.conformance.kill_results import AreaRow, MutantOutcome, MutantRow
from streamproof.conformance.mutants import MUTANTS, Mutant
from streamproof.conformance.results import (
    Failure,
    Guarantee,
    RequirementResult,
    Spec,
    Status,
)
from streamproof.conformance.settings import Settings
from streamproof.conformance.verdicts import (
    applicable,
    failure_of,
    result_of,
    untested_result,
)
from streamproof.conformance.verify_session import select_requirements
from streamproof.errors import UsageError
from streamproof.stores.capabilities import Capabilities

__all__ = [
    "Group",
    "GroupRun",
    "Trying",
    "area_rows",
    "group_of",
    "group_runs",
    "groups_of",
    "row_of",
    "select_mutants",
]

MOST_TOGETHER = 8
"""The most mutants that are loaded at a time. Each takes a process that waits for its checks."""

Group = tuple[str, Spec, Guarantee]


def group_of(mutant: Mutant) -> Group:
    """Groups of mutants that run together: mutants of one module with the same settings."""
    return mutant.module, mutant.spec, mutant.guarantee


def groups_of(mutants: Iterable[Mutant], most: int = MOST_TOGETHER) -> list[list[Mutant]]:
    """Groups of up to ``most`` mutants that run together."""
    groups: dict[Group, list[Mutant]] = {}
    for mutant in mutants:
        groups.setdefault(group_of(mutant), []).append(mutant)
    return [
        group[start : start + most]
        for group in groups.values()
        for start in range(0, len(group), most)
    ]


def select_mutants(names: Sequence[str], only: Sequence[str] = ()) -> list[Mutant]:
    """The mutants with these names that are bound to these requirements or areas.

    Without names and with an empty ``only``, these are all mutants.

    Raises:
        UsageError: a name, requirement or area is unknown, or no mutant matches both.
    """
    known = {mutant.name for mutant in MUTANTS}
    for name in names:
        if name not in known:
            raise UsageError(
                f"There is no mutant {name!r}; `streamproof mutants --list` lists them all."
            )
    bound = {requirement.id for requirement in select_requirements(only)}
    chosen = [
        mutant
        for mutant in MUTANTS
        if mutant.requirement in bound and (not names or mutant.name in names)
    ]
    if not chosen:
        raise UsageError(
            "No mutant is bound to the chosen requirements; `streamproof mutants --list` shows "
            "the requirement of each mutant."
        )
    return chosen


class GroupRun:
    """The checks of a group of mutants, and of their correct counterparts.

    Args:
        mutants: the mutants of one group.
        settings: the settings of the run. The group replaces the spec and the guarantee.
        everything: whether to run all checks that apply to a mutant, not only those of its
            requirement.
        with_right: whether to run the correct counterparts at all.
        narrowed: by subject, the names of the only checks to run; without an entry, all checks of
            the requirements.
        likely: to run no further check for a mutant that is caught: by subject, the check to run
            first, where one is known. The light ones come before the others.
    """

    def __init__(
        self,
        mutants: Sequence[Mutant],
        settings: Settings,
        *,
        everything: bool = False,
        with_right: bool = True,
        narrowed: Mapping[str, Collection[str]] = MappingProxyType({}),
        likely: Mapping[str, str] | None = None,
    ) -> None:
        self.mutants = mutants
        self.settings = settings
        self.capabilities: dict[str, Capabilities] = {}
        self.outcomes: dict[tuple[str, str], CheckOutcome] = {}
        self._everything = everything
        self._with_right = with_right
        self._narrowed = narrowed
        self._likely = likely

    def run(
        self,
        directory: Path,
        jobs: int,
        on_plan: Callable[[int], None] = lambda _: None,
        on_outcome: Callable[[str, CheckOutcome], None] = lambda *_: None,
    ) -> None:
        """Run the checks in a directory, ``jobs`` at a time.

        ``on_plan`` receives the number of checks, and -1 for each that turns out to be needless;
        ``on_outcome`` receives each outcome.
        """
        subjects = {name for each in self.mutants for name in self._subjects(each)}
        directory.mkdir(parents=True)

        def keep(subject: str, outcome: CheckOutcome) -> None:
            self.outcomes[subject, outcome.check] = outcome
            on_outcome(subject, outcome)

        with Engine(self.settings, directory, jobs) as engine:
            for name, info in engine.load(sorted(subjects)).items():
                self.capabilities[name] = Capabilities(**info.capabilities)  # type: ignore[arg-type]
            pairs = {pair for mutant in self.mutants for pair in self._plan(mutant)}
            on_plan(len(pairs))
            for part in self._parts(pairs):
                engine.run(self._needed(part, on_plan), keep)

    def _needed(
        self, part: Iterable[tuple[str, str]], on_plan: Callable[[int], None]
    ) -> Iterator[tuple[str, Check]]:
        """The checks that are needed when their turn comes."""
        for subject, name in part:
            if self._is_enough(subject):
                on_plan(-1)
            else:
                yield subject, load_checks()[name]

    def _parts(self, pairs: Iterable[tuple[str, str]]) -> list[list[tuple[str, str]]]:
        """The checks in their order; a part starts when the one before has ended."""

        def weight(pair: tuple[str, str]) -> int:
            return load_checks()[pair[1]].weight

        if self._likely is None:
            # Heavy checks start first, so that none of them ends long after all others.
            return [sorted(pairs, key=lambda pair: (-weight(pair), *pair))]
        light_first = sorted(pairs, key=lambda pair: (weight(pair), *pair))
        likely = [pair for pair in light_first if self._likely.get(pair[0]) == pair[1]]
        return [likely, [pair for pair in light_first if pair not in likely]]

    def _is_enough(self, subject: str) -> bool:
        """Whether a mutant is caught, and needs no further check."""
        if self._likely is None:
            return False
        mine = [each for each in self.mutants if each.subject == subject]
        return all(self.result(subject, each.requirement)[0].status == "fail" for each in mine)

    def _subjects(self, mutant: Mutant) -> tuple[str, ...]:
        """A mutant and its correct counterparts, if these run."""
        return (mutant.subject, *(mutant.right if self._with_right else ()))

    def _plan(self, mutant: Mutant) -> set[tuple[str, str]]:
        """The checks for a mutant, each with its subject."""
        asked = [
            (name, load_catalogue()[mutant.requirement])
            for name in self._subjects(mutant)
            if not self.unsupported(name, mutant.requirement)
        ]
        if self._everything:
            asked += [(mutant.subject, requirement) for requirement in self._applicable(mutant)]
        return {
            (subject, check) for subject, each in asked for check in self._checks(subject, each)
        }

    def _checks(self, subject: str, requirement: Requirement) -> list[str]:
        names = checks_of(requirement, subject, self.capabilities[subject])
        return [each for each in names if each in self._narrowed.get(subject, names)]

    def _applicable(self, mutant: Mutant) -> list[Requirement]:
        return applicable(
            requirements_that_bind("store"),
            self.capabilities[mutant.subject],
            self.settings.guarantee,
            self.settings.spec,
        )

    def unsupported(self, subject: str, identifier: str) -> bool:
        """Whether a requirement does not apply to a subject."""
        return self._untested(subject, load_catalogue()[identifier]) is not None

    def _untested(self, subject: str, requirement: Requirement) -> RequirementResult | None:
        capabilities = self.capabilities[subject]
        guarantee, spec = self.settings.guarantee, self.settings.spec
        return untested_result(subject, requirement, capabilities, guarantee, spec)

    def finished(self, mutant: Mutant) -> bool:
        """Whether all checks for a mutant have ended, or one that is enough."""
        if not {*self._subjects(mutant)} <= self.capabilities.keys():
            return False
        return self._is_enough(mutant.subject) or self._plan(mutant) <= self.outcomes.keys()

    def result(self, subject: str, identifier: str) -> tuple[RequirementResult, Failure | None]:
        """The result of a requirement, and its failure if it has one."""
        requirement = load_catalogue()[identifier]
        untested = self._untested(subject, requirement)
        if untested is not None:
            return untested, None
        names = self._checks(subject, requirement)
        pairs = [(subject, name) for name in names]
        outcomes = [self.outcomes[pair] for pair in pairs if pair in self.outcomes]
        return (
            result_of(subject, requirement, outcomes),
            failure_of(subject, requirement, outcomes, "command"),
        )

    def trying(self, mutant: Mutant) -> Trying:
        """The result of a finished mutant."""
        requirement = load_catalogue()[mutant.requirement]
        result, _ = self.result(mutant.subject, mutant.requirement)
        finders = [
            outcome
            for name in requirement.checks
            if (outcome := self.outcomes.get((mutant.subject, name)))
            and any(each.requirement == requirement.id for each in outcome.findings)
        ]
        efforts = {outcome.check: _effort(outcome, requirement.id) for outcome in finders}
        by = min(efforts, key=lambda check: efforts[check].seconds, default="")
        return Trying(
            status=result.status,
            reason=result.reason,
            by=by,
            effort=efforts.get(by),
            right={
                name: self.result(name, mutant.requirement)[0].status
                for name in self._subjects(mutant)[1:]
                if not self.unsupported(name, mutant.requirement)
            },
            collateral=self._collateral(mutant),
        )

    def _collateral(self, mutant: Mutant) -> list[str]:
        """The other requirements that a mutant was found to break."""
        if not self._everything:
            return []
        broken = {
            finding.requirement
            for (subject, _), outcome in self.outcomes.items()
            if subject == mutant.subject
            for finding in outcome.findings
        }
        counted = {requirement.id for requirement in self._applicable(mutant)}
        return sorted(broken & counted - {mutant.requirement})


def _effort(outcome: CheckOutcome, requirement: str) -> Effort:
    """The effort of a check until it found a requirement broken.

    Some checks know only at the end which requirement to blame. For those, the first finding of any
    requirement counts.
    """
    first = outcome.first.get(requirement)
    return first or min(outcome.first.values(), key=lambda each: each.seconds)


class Trying(NamedTuple):
    """The result of a mutant with one seed.

    Attributes:
        by: the check that was the quickest to find the requirement broken; empty if none did.
        effort: the effort of that check until then.
        right: the result of the requirement for each correct counterpart.
        collateral: other requirements that were found broken, if all checks ran.
    """

    status: Status
    reason: str
    by: str
    effort: Effort | None
    right: dict[str, Status]
    collateral: list[str]


def row_of(mutant: Mutant, tries: dict[int, Trying]) -> MutantRow:
    """The row of a mutant, from its results with each seed."""
    survived = [(seed, each) for seed, each in tries.items() if each.status != "fail"]
    wrong = [
        (seed, name, status)
        for seed, each in tries.items()
        for name, status in each.right.items()
        if status != "pass"
    ]
    outcome: MutantOutcome = "killed"
    reason = ""
    if survived:
        seed, each = survived[0]
        outcome, reason = "survived", f"{each.status} with seed {seed}: {each.reason}".rstrip(": ")
    elif wrong:
        seed, name, status = wrong[0]
        outcome, reason = "false alarm", f"{name} with seed {seed}: {status}"
    efforts = [each.effort for each in tries.values() if each.effort]
    right = {name: status for each in tries.values() for name, status in each.right.items()}
    return MutantRow(
        mutant=mutant.name,
        subject=mutant.subject,
        mistake=mutant.mistake,
        requirement=mutant.requirement,
        outcome=outcome,
        reason=reason,
        by=[
            check for check, _ in Counter(each.by for each in tries.values()).most_common() if check
        ],
        seeds=list(tries),
        found=len(tries) - len(survived),
        seconds=round(median(each.seconds for each in efforts), 3) if efforts else None,
        examples=median(each.examples for each in efforts) if efforts else None,
        crashes=median(each.crashes for each in efforts) if efforts else None,
        right=right | {name: status for _, name, status in reversed(wrong)},
        collateral=sorted({other for each in tries.values() for other in each.collateral}),
    )


def group_runs(
    mutants: Sequence[Mutant],
    settings: Settings,
    *,
    everything: bool = False,
    with_right: bool = True,
    likely: Mapping[str, str] | None = None,
    most: int = MOST_TOGETHER,
) -> list[GroupRun]:
    """Runs of up to ``most`` mutants each. No run has started yet."""
    return [
        GroupRun(
            group,
            replace(settings, spec=group[0].spec, guarantee=group[0].guarantee),
            everything=everything,
            with_right=with_right,
            likely=likely,
        )
        for group in groups_of(mutants, most)
    ]


def area_rows(rows: Iterable[MutantRow]) -> list[AreaRow]:
    """A row for each area in the order of the catalogue, areas without mutants included."""
    rows = list(rows)
    found = []
    asked = requirements_that_bind("store")
    for area, title in AREAS.items():
        if not any(each.area == area for each in asked):
            continue
        mine = [row for row in rows if row.area == area]
        times = [row.seconds for row in mine if row.seconds is not None]
        found.append(
            AreaRow(
                area=area,
                title=title,
                requirements=sum(each.area == area and bool(each.checks) for each in asked),
                with_mutants=len({row.requirement for row in mine}),
                mutants=len(mine),
                killed=sum(row.outcome == "killed" for row in mine),
                seconds=round(median(times), 3) if times else None,
            )
        )
    return found
