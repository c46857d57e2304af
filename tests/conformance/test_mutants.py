"""Every deliberately wrong store is caught by the promise that it breaks, and no right one is."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from saved_programs import UNSURE, ProgramRunner, alike

from streamproof.conformance.catalogue import load_catalogue
from streamproof.conformance.check_engine import Engine, work_directory
from streamproof.conformance.kill_matrix import Group, GroupRun, group_of, group_runs
from streamproof.conformance.mutants import MUTANTS, Mutant
from streamproof.conformance.program_text import LONGEST_PROGRAM, ONLY_SHOWN, WHY_LONG
from streamproof.conformance.results import Profile
from streamproof.conformance.settings import Settings
from streamproof.conformance.verify_session import Observer, Session, select_requirements

SETTINGS = Settings(seed=0, operation_timeout_s=120.0)
"""No mutant hangs, so a call that takes long is one of a busy machine."""

MOST = 2
"""How many mutants are run together: the runs of all must end within the limit of one test."""


LONG = {
    # Smoke misses it, and all checks of CRASH-003 take long in quick.
    "offsets_in_a_write_before_rows": "offsets_flushed_before_data, of the same requirement",
    # The stores keep a database for each segment.
    "newest_segment_offset": "offsets_written_before_rows, of the same requirement",
    "data_flushed_alone": "offsets_flushed_before_data, of the same checks",
    # Their checks play all scenarios and worlds, with each right store.
    "get_misses_restored_rows": "restoring_stops_at_a_tombstone, of the same checks",
    "staged_rows_reach_the_journal": "commit_keeps_deleted_rows, of the same checks",
    "wiped_after_every_crash": "restoring_stops_at_a_tombstone, of the same checks",
}
"""Mutants whose runs take longest, and what covers them; they are run with the longer tests."""


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
        (runs,) = group_runs(mutants, structs.replace(SETTINGS, profile=profile), most=len(mutants))
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


def members(group: Group) -> list[Mutant]:
    """The mutants of a group in their order, but those whose runs take longest come last."""
    found = [each for each in MUTANTS if group_of(each) == group]
    return sorted(found, key=lambda each: each.name in LONG)


@pytest.fixture(scope="module")
def runs_of() -> Iterator[RunsOf]:
    """The runs of a mutant's group, made when the first of them is asked for."""
    with work_directory() as directory:

        @functools.cache
        def make(group: Group, part: int) -> Runs:
            mutants = members(group)[part * MOST : (part + 1) * MOST]
            return Runs(directory / "-".join([*group, str(part)]), mutants)

        def runs(mutant: Mutant) -> Runs:
            group = group_of(mutant)
            return make(group, members(group).index(mutant) // MOST)

        yield lambda mutant: runs(mutant).of(mutant)


# One mutant after the other, and those of a group together: where tests run side by side, runs that
# they share are then made once.
def case(mutant: Mutant) -> Any:
    """A mutant; it is run with the longer tests, unless it is one of the first of its group."""
    first = [each for each in members(group_of(mutant))[:MOST] if each.name not in LONG]
    others = LONG.get(mutant.name, ", ".join(each.name for each in first))
    marks = [] if mutant in first else [pytest.mark.full(covered_by=others)]
    return pytest.param(mutant, marks=marks, id=mutant.name)


def _place(mutant: Mutant) -> tuple[Group, int]:
    """The group of a mutant, and its number in the group: neighbours share their runs."""
    group = group_of(mutant)
    return group, members(group).index(mutant)


each_mutant = pytest.mark.parametrize(
    "mutant", list(map(case, sorted(MUTANTS, key=_place))), scope="module"
)


@each_mutant
def test_a_mutant_is_caught(mutant: Mutant, runs_of: RunsOf) -> None:
    """By the requirement it is bound to, with a program that shows it."""
    result, failure = runs_of(mutant).result(mutant.subject, mutant.requirement)
    assert result.status == "fail", result.reason
    assert failure is not None
    assert mutant.subject in failure.program
    assert_small(failure.program)
    compile(failure.program, mutant.name, "exec")


def assert_small(program: str) -> None:
    """A program is short, or says why not; and no line follows itself again and again."""
    lines = [each.strip() for each in program.splitlines()]
    assert len(lines) <= LONGEST_PROGRAM or lines[0] == WHY_LONG, program
    repeated = max(len(list(each)) for line, each in groupby(lines) if line)
    # To put or restore a thing twice may be what breaks a store; and metrics are read over time.
    assert repeated <= 3, program


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProgramRunner]:
    """Runs programs as processes of their own would."""
    with ProgramRunner(tmp_path_factory.mktemp("programs")) as runner:
        yield runner


@each_mutant
def test_the_program_fails_until_the_store_is_mended(
    mutant: Mutant, runs_of: RunsOf, runner: ProgramRunner
) -> None:
    """With the wrong store it ends with 1, and with a right one with 0; else it says so first."""
    runs = runs_of(mutant)
    _, failure = runs.result(mutant.subject, mutant.requirement)
    assert failure is not None
    is_sure = ONLY_SHOWN not in failure.program.splitlines()[:2]
    assert is_sure or mutant.name in UNSURE, failure.program
    code, output = runner.run(failure.program)
    if mutant.name in UNSURE:
        assert code in ((0, 1) if is_sure else (1, 2)), (output, failure.program)
    else:
        assert code == 1, (output, failure.program)
    for name in alike(mutant.subject, runs.trying(mutant).right)[:1]:
        code, output = runner.run(failure.program.replace(mutant.subject, name))
        assert code == (0 if is_sure else 2), (output, failure.program)


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
    settings = structs.replace(SETTINGS, profile="quick", spec=mutant.spec)
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
