"""Every deliberately wrong store is caught by the promise that it breaks, and no right one is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamproof.conformance.catalogue import load_catalogue
from streamproof.conformance.engine import Engine, work_directory
from streamproof.conformance.mutants import MUTANTS, Mutant
from streamproof.conformance.registry import load_checks
from streamproof.conformance.results import Failure, RequirementResult, Spec
from streamproof.conformance.run import CheckOutcome
from streamproof.conformance.session import Observer, Session, select_requirements
from streamproof.conformance.settings import Settings
from streamproof.conformance.verdicts import failure_of, result_of, untested_result
from streamproof.stores.capabilities import Capabilities

SEED = 0


class Runs:
    """Runs the checks of a requirement in the quick profile, each check once a subject."""

    def __init__(self, directory: Path, spec: Spec) -> None:
        self.settings = Settings(profile="quick", spec=spec, seed=SEED)
        self.engine = Engine(self.settings, directory, jobs=2)
        mutants = [mutant for mutant in MUTANTS if mutant.spec == spec]
        subjects = {name for mutant in mutants for name in (mutant.subject, *mutant.right)}
        self.capabilities = {
            name: Capabilities(**info.capabilities)  # type: ignore[arg-type]
            for name, info in self.engine.load(sorted(subjects)).items()
        }
        self.outcomes: dict[tuple[str, str], CheckOutcome] = {}
        self.engine.run(
            sorted(
                {
                    (subject, load_checks()[name])
                    for mutant in mutants
                    for name in load_catalogue()[mutant.requirement].checks
                    for subject in (mutant.subject, *mutant.right)
                    if not self.unsupported(subject, mutant.requirement)
                },
                key=lambda pair: (-pair[1].weight, pair[0]),
            ),
            self._keep,
        )

    def _keep(self, subject: str, outcome: CheckOutcome) -> None:
        self.outcomes[subject, outcome.check] = outcome

    def unsupported(self, subject: str, identifier: str) -> bool:
        """Whether a requirement does not hold for a subject."""
        result = untested_result(
            subject,
            load_catalogue()[identifier],
            self.capabilities[subject],
            self.settings.guarantee,
            self.settings.spec,
        )
        return result is not None

    def result(self, subject: str, identifier: str) -> tuple[RequirementResult, Failure | None]:
        """The result of a requirement, and its failure if it has one."""
        requirement = load_catalogue()[identifier]
        outcomes = [self.outcomes[subject, name] for name in requirement.checks]
        return (
            result_of(subject, requirement, outcomes),
            failure_of(subject, requirement, outcomes, "command"),
        )


@pytest.fixture(scope="module")
def runs() -> Iterator[dict[Spec, Runs]]:
    """All that is needed to judge the mutants and their right counterparts, run once."""
    found: dict[Spec, Runs] = {}
    specs = sorted({mutant.spec for mutant in MUTANTS})
    with work_directory() as directory:
        for spec in specs:
            (directory / spec).mkdir()
            found[spec] = Runs(directory / spec, spec)
        yield found
        for each in found.values():
            each.engine.stop()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught(mutant: Mutant, runs: dict[Spec, Runs]) -> None:
    """By the requirement it is bound to, with a program that shows it."""
    result, failure = runs[mutant.spec].result(mutant.subject, mutant.requirement)
    assert result.status == "fail", result.reason
    assert failure is not None
    assert mutant.subject in failure.program
    compile(failure.program, mutant.name, "exec")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_its_right_counterparts_are_not(mutant: Mutant, runs: dict[Spec, Runs]) -> None:
    """Each store of ours that the requirement is about keeps it, and at least one is."""
    each = runs[mutant.spec]
    asked = [name for name in mutant.right if not each.unsupported(name, mutant.requirement)]
    assert asked
    for name in asked:
        result, failure = each.result(name, mutant.requirement)
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
