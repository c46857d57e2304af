"""Every deliberately wrong store is caught by the promise that it breaks, and no right one is."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from streamproof.conformance.catalogue import load_catalogue
from streamproof.conformance.check_engine import Engine, work_directory
from streamproof.conformance.kill_matrix import Group, GroupRun, group_of, group_runs
from streamproof.conformance.mutants import MUTANTS, Mutant
from streamproof.conformance.results import Profile
from streamproof.conformance.settings import Settings
from streamproof.conformance.verify_session import Observer, Session, select_requirements

SEED = 0


class Runs:
    """Runs of a group of mutants.

    Most mistakes show in the smoke profile; what it misses is run in the quick profile too.
    """

    def __init__(self, directory: Path, group: Sequence[Mutant]) -> None:
        self.smoke = self._run(directory, "smoke", group)
        missed = [each for each in group if not self._is_caught(self.smoke, each)]
        self.quick = self._run(directory, "quick", missed) if missed else None
        self.missed = missed

    def _run(self, directory: Path, profile: Profile, mutants: Sequence[Mutant]) -> GroupRun:
        (runs,) = group_runs(mutants, Settings(profile=profile, seed=SEED), most=len(mutants))
        runs.run(directory / profile, jobs=2)
        assert all(map(runs.finished, mutants))
        return runs

    @staticmethod
    def _is_caught(runs: GroupRun, mutant: Mutant) -> bool:
        return runs.result(mutant.subject, mutant.requirement)[0].status == "fail"

    def of(self, mutant: Mutant) -> GroupRun:
        """The run that counts for a mutant."""
        return self.quick if self.quick and mutant in self.missed else self.smoke


RunsOf = Callable[[Mutant], GroupRun]


@pytest.fixture(scope="module")
def runs_of() -> Iterator[RunsOf]:
    """The runs of a mutant's group, made when the first of them is asked for."""
    with work_directory() as directory:

        @functools.cache
        def make(group: Group) -> Runs:
            mutants = [each for each in MUTANTS if group_of(each) == group]
            return Runs(directory / "-".join(group), mutants)

        yield lambda mutant: make(group_of(mutant)).of(mutant)


# One mutant after the other, and those of a group together: where tests run side by side, runs that
# they share are then made once.
each_mutant = pytest.mark.parametrize(
    "mutant", sorted(MUTANTS, key=group_of), ids=lambda mutant: mutant.name, scope="module"
)


@each_mutant
def test_a_mutant_is_caught(mutant: Mutant, runs_of: RunsOf) -> None:
    """By the requirement it is bound to, with a program that shows it."""
    result, failure = runs_of(mutant).result(mutant.subject, mutant.requirement)
    assert result.status == "fail", result.reason
    assert failure is not None
    assert mutant.subject in failure.program
    compile(failure.program, mutant.name, "exec")


@each_mutant
def test_its_right_counterparts_are_not(mutant: Mutant, runs_of: RunsOf) -> None:
    """Each store of ours that the requirement is about keeps it, and at least one is."""
    runs = runs_of(mutant)
    right = runs.trying(mutant).right
    assert right
    for name, status in right.items():
        result, failure = runs.result(name, mutant.requirement)
        assert failure is None, failure
        assert status == "pass", result.reason


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
    """At least sixty, no two alike, each bound to a requirement that has checks and applies."""
    assert len(MUTANTS) >= 60
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    for mutant in MUTANTS:
        requirement = load_catalogue()[mutant.requirement]
        assert requirement.checks
        assert mutant.spec in requirement.specs
        assert mutant.mistake
