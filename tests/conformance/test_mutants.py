"""Every deliberately wrong store is caught by the promise that it breaks, and no right one is."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streamproof.conformance.catalogue import load_catalogue
from streamproof.conformance.engine import Engine, work_directory
from streamproof.conformance.mutants import MUTANTS, Mutant
from streamproof.conformance.registry import load_checks
from streamproof.conformance.results import Failure, Guarantee, Profile, RequirementResult, Spec
from streamproof.conformance.run import CheckOutcome
from streamproof.conformance.session import Observer, Session, select_requirements
from streamproof.conformance.settings import Settings
from streamproof.conformance.verdicts import failure_of, result_of, untested_result
from streamproof.stores.capabilities import Capabilities

SEED = 0


Group = tuple[str, Spec, Guarantee]


def group_of(mutant: Mutant) -> Group:
    """Mutants of one module that are run in the same way are run together."""
    return mutant.module, mutant.spec, mutant.guarantee


class Runs:
    """Runs the checks of a group of mutants, and of their right counterparts.

    Most mistakes show in the smoke profile; what it misses is run in the quick profile too.
    """

    def __init__(self, directory: Path, group: Group) -> None:
        self.directory = directory
        _, self.spec, self.guarantee = group
        mutants = [each for each in MUTANTS if group_of(each) == group]
        self.capabilities: dict[str, Capabilities] = {}
        self.outcomes: dict[tuple[str, str], CheckOutcome] = {}
        self._run(
            "smoke", {(name, m.requirement) for m in mutants for name in (m.subject, *m.right)}
        )
        asked = {(each.subject, each.requirement) for each in mutants}
        self._run("quick", {pair for pair in asked if self.result(*pair)[0].status != "fail"})

    def _run(self, profile: Profile, asked: set[tuple[str, str]]) -> None:
        """Run the checks of requirements on subjects."""
        settings = Settings(profile=profile, spec=self.spec, guarantee=self.guarantee, seed=SEED)
        (self.directory / profile).mkdir(parents=True)
        with Engine(settings, self.directory / profile, jobs=2) as engine:
            for name, info in engine.load(sorted({subject for subject, _ in asked})).items():
                self.capabilities[name] = Capabilities(**info.capabilities)  # type: ignore[arg-type]
            pairs = {
                (subject, load_checks()[name])
                for subject, identifier in asked
                if not self.unsupported(subject, identifier)
                for name in load_catalogue()[identifier].checks
            }
            engine.run(sorted(pairs, key=lambda pair: (-pair[1].weight, pair[0])), self._keep)

    def _keep(self, subject: str, outcome: CheckOutcome) -> None:
        self.outcomes[subject, outcome.check] = outcome

    def unsupported(self, subject: str, identifier: str) -> bool:
        """Whether a requirement does not hold for a subject."""
        requirement, capabilities = load_catalogue()[identifier], self.capabilities[subject]
        found = untested_result(subject, requirement, capabilities, self.guarantee, self.spec)
        return found is not None

    def result(self, subject: str, identifier: str) -> tuple[RequirementResult, Failure | None]:
        """The result of a requirement, and its failure if it has one."""
        requirement = load_catalogue()[identifier]
        outcomes = [self.outcomes[subject, name] for name in requirement.checks]
        return (
            result_of(subject, requirement, outcomes),
            failure_of(subject, requirement, outcomes, "command"),
        )


RunsOf = Callable[[Mutant], Runs]


@pytest.fixture(scope="module")
def runs_of() -> Iterator[RunsOf]:
    """The runs of a mutant's group, made when the first of them is asked for."""
    with work_directory() as directory:

        @functools.cache
        def make(group: Group) -> Runs:
            return Runs(directory / "-".join(group), group)

        yield lambda mutant: make(group_of(mutant))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught(mutant: Mutant, runs_of: RunsOf) -> None:
    """By the requirement it is bound to, with a program that shows it."""
    result, failure = runs_of(mutant).result(mutant.subject, mutant.requirement)
    assert result.status == "fail", result.reason
    assert failure is not None
    assert mutant.subject in failure.program
    compile(failure.program, mutant.name, "exec")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_its_right_counterparts_are_not(mutant: Mutant, runs_of: RunsOf) -> None:
    """Each store of ours that the requirement is about keeps it, and at least one is."""
    runs = runs_of(mutant)
    asked = [name for name in mutant.right if not runs.unsupported(name, mutant.requirement)]
    assert asked
    for name in asked:
        result, failure = runs.result(name, mutant.requirement)
        assert failure is None, failure
        assert result.status == "pass", result.reason


@pytest.mark.parametrize(
    "name", ["tombstones_dropped_on_commit", "stale_offset_after_empty_commit"]
)
def test_a_session_of_one_requirement_catches_it(name: str) -> None:
    """As `verify --only` runs it, the verdict is a failure and the failure is in the records."""
    (mutant,) = (each for each in MUTANTS if each.name == name)
    settings = Settings(profile="quick", spec=mutant.spec, seed=SEED)
    records: list[object] = []

    class Keeping(Observer):
        """Keeps what is recorded."""

        def record(self, record: object) -> None:
            records.append(record)

    with work_directory() as directory, Engine(settings, directory, jobs=2) as engine:
        infos = engine.load([mutant.subject])
        session = Session(infos, settings, select_requirements([mutant.requirement]))
        session.run(engine, Keeping())
    (verdict,) = session.verdicts()
    assert verdict.verdict == "failure"
    (failure,) = session.failures
    assert failure in records
    assert failure.requirement == mutant.requirement
    assert f"--only {mutant.requirement}" in failure.reproduce


def test_the_table_of_mutants() -> None:
    """At least a dozen, no two alike, each bound to a requirement that has checks and applies."""
    assert len(MUTANTS) >= 12
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    for mutant in MUTANTS:
        requirement = load_catalogue()[mutant.requirement]
        assert requirement.checks
        assert mutant.spec in requirement.specs
        assert mutant.mistake
