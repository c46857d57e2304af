"""The checks of timestamps, positions, upgrades, restorations and metrics: each catches a mistake.

The stores are dictionaries in files. Checks that kill are run by the engine, in other processes.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_lines import SUBJECTS

from streamproof.conformance.catalogue import load_catalogue, requirements_that_bind
from streamproof.conformance.check_engine import Engine
from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_records import CheckFinding, CheckOutcome
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.check_runner import run_check
from streamproof.conformance.mutants import MUTANTS
from streamproof.conformance.results import Profile
from streamproof.conformance.running_call import RunningCall
from streamproof.conformance.settings import Settings
from streamproof.conformance.subject import Subject
from streamproof.conformance.work_directory import work_directory

sys.path.append(str(SUBJECTS))

import bad_file_upgrades  # noqa: F401 - importing it registers its stores
from bad_file_stores import WRONG
from file_store import FileStore, FileStoreOfOldPositions, InPlaceFileStore

CATALOGUE = load_catalogue()
AREAS = ("TS", "POS", "LISTEN", "UPGRADE", "METRIC")
NOT_IN_FILES = {"window", "session", "retention_ms", "change_logging", "read_only_views"}
"""What no dictionary in a file has. Built-in stores are the right ones there."""
REQUIREMENTS = [
    each
    for each in requirements_that_bind("store")
    if each.area in AREAS and not NOT_IN_FILES & set(each.needs)
]
# Random programs also use transactions in ways that these stores are too simple for.
CHECKS = {
    name: load_checks()[name]
    for each in REQUIREMENTS
    for name in each.checks
    if name != "model.random_programs"
}
POSITION_FILES = {
    "position.position_file_is_taken_over",
    "position.position_file_of_a_downgrade_is_taken_over",
}


def right_stores(check: str) -> list[type[FileStore]]:
    """The stores that keep all promises of a check, and that give it something to try."""
    if check in POSITION_FILES:
        return [FileStoreOfOldPositions]
    stores = [FileStore, InPlaceFileStore] if check in UPGRADES else [FileStore]
    return [store for store in stores if asked(store, check)]


def asked(store: type[FileStore], check: str) -> set[str]:
    """The requirements of a check that apply to a store."""
    return {
        each
        for each in CHECKS[check].requirements
        if not CATALOGUE[each].why_not_applicable(store.capabilities, "exactly-once", "kips")
    }


UPGRADES = {name for each in REQUIREMENTS if each.area == "UPGRADE" for name in each.checks}
CASES = [(store, check) for check in CHECKS for store in right_stores(check)]
KILLING = {name for name, check in CHECKS.items() if check.raw}
SEED = 3

# The list grows when a store is opened that is named by its file.
WRONG_STORES = tuple(WRONG)

Run = Callable[[type[FileStore], str, Profile], CheckOutcome]


def name_of(store: type[FileStore]) -> str:
    """What names a store on the command line."""
    return f"{SUBJECTS / store.__module__}.py:{store.__name__}"


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Runs one check on one store: here, or in processes of its own if it kills."""
    with pytest.MonkeyPatch.context() as patch, work_directory() as directory:
        patch.setenv("PYTHONPATH", str(SUBJECTS))

        @functools.cache
        def outcome(store: type[FileStore], check: str, profile: Profile) -> CheckOutcome:
            settings = Settings(profile=profile, seed=SEED)
            own = directory / store.__name__ / check / profile
            own.mkdir(parents=True)
            if check in KILLING:
                return killed(store, check, settings, own)
            module = sys.modules[store.__module__]
            subject = Subject(name_of(store), store, store.capabilities, module)
            status = RunningCall(own / "status", create=True)
            return run_check(CheckRun(CHECKS[check], subject, settings, own, status))

        yield outcome


def killed(store: type[FileStore], check: str, settings: Settings, own: Path) -> CheckOutcome:
    """What a check found that kills."""
    outcomes: list[CheckOutcome] = []
    with Engine(settings, own, jobs=2) as engine:
        engine.load([name_of(store)])
        engine.run([(name_of(store), CHECKS[check])], lambda _, found: outcomes.append(found))
    (outcome,) = outcomes
    return outcome


@pytest.mark.parametrize(("store", "check"), CASES)
def test_a_check_holds_for_the_right_store(store: type[FileStore], check: str, run: Run) -> None:
    """There is no finding, and all that it is about was put to the test."""
    outcome = run(store, check, "smoke")
    assert outcome.findings == []
    assert (outcome.suite_error, outcome.subject_error, outcome.skipped) == ("", "", "")
    assert outcome.evidence.exercised >= asked(store, check)


def test_everything_is_asked_of_a_right_store() -> None:
    """Every requirement of these areas applies to one of them, and has a check."""
    tried = {each for store, check in CASES for each in asked(store, check)}
    assert {each.id for each in REQUIREMENTS} == tried & {each.id for each in REQUIREMENTS}


def test_every_requirement_has_a_wrong_store() -> None:
    """No requirement of these areas is without a mistake that it must catch."""
    wrong = {requirement for requirement, _ in WRONG_STORES}
    wrong |= {mutant.requirement for mutant in MUTANTS}
    assert {each.id for each in REQUIREMENTS} <= wrong


@pytest.mark.parametrize(
    ("requirement", "store"),
    WRONG_STORES,
    ids=[f"{requirement}-{store.__name__}" for requirement, store in WRONG_STORES],
)
def test_a_wrong_store_is_caught(requirement: str, store: type[FileStore], run: Run) -> None:
    """By the requirement that it breaks, with programs, and without a fault of the suite."""
    found = findings(requirement, store, run)
    assert found
    for finding in found:
        compile(finding.program, requirement, "exec")


def findings(requirement: str, store: type[FileStore], run: Run) -> list[CheckFinding]:
    """What is found about one requirement; the first of its checks suffices."""
    for check in (each for each in CATALOGUE[requirement].checks if each in CHECKS):
        outcome = run(store, check, "quick")
        assert (outcome.suite_error, outcome.subject_error) == ("", "")
        found = [each for each in outcome.findings if each.requirement == requirement]
        if found:
            return found
    return []


RUNNABLE = (
    "TS-005",
    "POS-003",
    "POS-012",
    "UPGRADE-003",
    "UPGRADE-013",
    "UPGRADE-014",
    "UPGRADE-015",
    "UPGRADE-019",
    "LISTEN-002",
    "LISTEN-005",
)
"""Requirements whose programs use something of a lab that others do not."""


def ran(finding: CheckFinding, directory: Path) -> subprocess.CompletedProcess[str]:
    """A run of the program of a finding."""
    program = directory / "program.py"
    program.write_text(finding.program)
    return subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(SUBJECTS)},
    )


@pytest.mark.parametrize("requirement", RUNNABLE)
def test_a_printed_program_runs_as_it_stands(requirement: str, run: Run, tmp_path: Path) -> None:
    """It fails where the wrong answer is."""
    found = findings(requirement, dict(reversed(WRONG_STORES))[requirement], run)
    assert found
    for finding in found:
        ended = ran(finding, tmp_path)
        assert ended.returncode == 1, finding.program
        *_, line = finding.program.splitlines()
        assert f"    {line}\n" in ended.stderr
        assert ended.stderr.splitlines()[-1].startswith("AssertionError")


def test_a_printed_program_compares_the_metric(run: Run, tmp_path: Path) -> None:
    """That which is wrong, with its right value."""
    finding, *_ = findings("METRIC-010", dict(WRONG_STORES)["METRIC-010"], run)
    ended = ran(finding, tmp_path)
    assert ended.returncode == 1
    *_, line = finding.program.splitlines()
    assert line.startswith("assert round(metrics['commit-rate'].value")
    assert line in ended.stderr
