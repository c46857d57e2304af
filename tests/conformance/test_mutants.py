"""Every deliberately wrong store is caught by the promise that it breaks, and no right one is."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import pytest
from msgspec import structs

from streamproof.conformance.catalogue import load_catalogue
from streamproof.conformance.check_engine import Engine, work_directory
from streamproof.conformance.kill_matrix import Group, GroupRun, group_of, group_runs
from streamproof.conformance.mutants import MUTANTS, Mutant
from streamproof.conformance.program_text import LONGEST_PROGRAM, WHY_LONG
from streamproof.conformance.results import Profile
from streamproof.conformance.settings import Settings
from streamproof.conformance.subject import load_subject
from streamproof.conformance.verify_session import Observer, Session, select_requirements

SETTINGS = Settings(seed=0, operation_timeout_s=120.0)
"""No mutant hangs, so a call that takes long is one of a busy machine."""

ONLY_SHOWN = {
    "commit_flushes",
    "offsets_among_the_rows",
    "committing_threads_share_a_batch",
    "reader_goes_back_to_an_older_snapshot",
}
"""Mutants whose program only shows what was found. Threads take turns as they please, and what is
found in files, in references or in the table of metrics is no answer of the store."""

RIGHT_IN_ANOTHER_WAY = {"iterators_outlive_their_store"}
"""Mutants whose program a right store fails: the promise allows an answer or an error."""

MOST = 2
"""How many mutants are run together: the runs of all must end within the limit of one test."""


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
    """The mutants of a group, in their order."""
    return [each for each in MUTANTS if group_of(each) == group]


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


PROGRAMS_OF = ("anomaly_mutants", "basic_mutants", "canary_mutant", "commit_mutants")
"""The modules of mutants whose programs are run. A program takes a second with each store, and the
programs of the other modules only have to compile."""


def with_programs(mutants: Sequence[Mutant]) -> list[Mutant]:
    """The mutants whose programs are run, those of a group together."""
    return sorted((each for each in mutants if each.module in PROGRAMS_OF), key=group_of)


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
    assert_small(failure.program)
    compile(failure.program, mutant.name, "exec")


def assert_small(program: str) -> None:
    """A program is short, or says why not; and no line follows itself again and again."""
    lines = [each.strip() for each in program.splitlines()]
    assert len(lines) <= LONGEST_PROGRAM or lines[0] == WHY_LONG, program
    repeated = max(len(list(each)) for line, each in groupby(lines) if line)
    # To put or restore a thing twice may be what breaks a store; and metrics are read over time.
    assert repeated <= 3, program


@pytest.mark.parametrize(
    "mutant", with_programs(MUTANTS), ids=lambda mutant: mutant.name, scope="module"
)
def test_the_program_fails_until_the_store_is_mended(
    mutant: Mutant, runs_of: RunsOf, tmp_path: Path
) -> None:
    """With the wrong store it ends with 1, and with a right one with 0."""
    runs = runs_of(mutant)
    _, failure = runs.result(mutant.subject, mutant.requirement)
    assert failure is not None
    (tmp_path / "program.py").write_text(failure.program)
    ended = ran(tmp_path / "program.py")
    only_shown = mutant.requirement.startswith("METRIC-") or mutant.name in ONLY_SHOWN
    assert "SyntaxError" not in ended.stderr
    assert ended.returncode == 1 or only_shown, (ended, failure.program)
    opener = load_subject(mutant.subject).opener
    # A program on keys and values does not run on windows.
    right = [each for each in runs.trying(mutant).right if load_subject(each).opener == opener]
    for name in right[:1] if mutant.name not in RIGHT_IN_ANOTHER_WAY else []:
        (tmp_path / "mended.py").write_text(failure.program.replace(mutant.subject, name))
        ended = ran(tmp_path / "mended.py")
        assert ended.returncode == 0, (failure.program, ended.stderr)


def ran(program: Path) -> subprocess.CompletedProcess[str]:
    """A run of a program in a process of its own, which leaves nothing behind."""
    command = [sys.executable, "-P", program]
    # Some wrong stores write beside the directory that they are given.
    environment = {**os.environ, "TMPDIR": str(program.parent)}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=600
    )


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
