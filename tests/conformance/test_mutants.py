"""Every deliberately wrong store is caught by the promise that it breaks.

That no right one is: see test_right_counterparts.py.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from msgspec import structs
from saved_programs import UNSURE, ProgramRunner, alike

from streamproof.conformance.catalogue import load_catalogue
from streamproof.conformance.check_engine import Engine
from streamproof.conformance.kill_matrix import Group, GroupRun, group_of
from streamproof.conformance.mutants import MUTANTS, Mutant
from streamproof.conformance.program_text import LONGEST_PROGRAM, ONLY_SHOWN, WHY_LONG
from streamproof.conformance.results import Profile
from streamproof.conformance.settings import Settings
from streamproof.conformance.verify_session import Observer, Session, select_requirements
from streamproof.conformance.work_directory import work_directory

SETTINGS = Settings(seed=0, profile="smoke", operation_timeout_s=120.0)
"""No mutant hangs, so a call that takes long is one of a busy machine."""

SOON = 1
"""How many mutants of a group are run with the tests that answer soon."""

MOST = 6
"""How many others are run together: the runs of all must end within the limit of one test."""


LONG = {
    # Smoke misses it, and the check that catches it takes long in quick.
    "offsets_in_a_write_before_rows": "offsets_flushed_before_data, of the same requirement",
    # The stores keep a database for each segment.
    "newest_segment_offset": "offsets_written_before_rows, of the same requirement",
    "segments_deleted_in_place": "tests/stores/test_segment_databases.py kills while segments go",
    "data_flushed_alone": "offsets_flushed_before_data, of the same checks",
    # Their checks play all scenarios and worlds, with each right store.
    "get_misses_rows_of_the_last_process": "restoring_stops_at_a_tombstone, of the same checks",
    "get_misses_restored_rows": "restoring_stops_at_a_tombstone, of the same checks",
    "staged_rows_reach_the_journal": "commit_keeps_deleted_rows, of the same checks",
    "views_wait_for_the_commit": "views_miss_restored_rows, of the same checks",
    "wiped_after_every_crash": "restoring_stops_at_a_tombstone, of the same checks",
    # Its check looks at views for long.
    "ranges_show_staged_rows": "scans_show_staged_rows, of staged rows as well",
}
"""Mutants whose runs take longest, and what covers them; they are run with the longer tests."""


class Caught(NamedTuple):
    """What caught a mutant."""

    profile: Profile
    check: str


CAUGHT_BY_FILE = Path(__file__).parent / "caught_by.json"

CAUGHT_BY = {
    name: Caught(*each) for name, each in json.loads(CAUGHT_BY_FILE.read_text("utf-8")).items()
}
"""What caught each mutant last, only to save time: where it catches nothing any more, all checks of
the requirement run. To renew the file, run these tests with ``STREAMPROOF_UPDATE_GOLDENS=1``."""


class Runs:
    """Runs of a group of mutants, each of a check that catches the mutant if any does."""

    def __init__(self, directory: Path, group: Sequence[Mutant]) -> None:
        self._directory = directory
        first = group[0]
        self._settings = structs.replace(SETTINGS, spec=first.spec, guarantee=first.guarantee)
        self._narrowed: dict[str, GroupRun] = {}
        likely = {each.name: CAUGHT_BY.get(each.name, Caught("smoke", "")) for each in group}
        in_smoke = [each for each in group if likely[each.name].profile == "smoke"]
        known = [each for each in in_smoke if likely[each.name].check]
        self._smoke("known", {each: likely[each.name].check for each in known})
        self._smoke("found", self._searched([each for each in in_smoke if self._lacks(each)]))
        for each in filter(self._lacks, group):
            self._quick(each, likely[each.name].check)

    def of(self, mutant: Mutant) -> GroupRun:
        """The run of a check that catches the mutant, with the failure made small."""
        return self._narrowed[mutant.name]

    def _lacks(self, mutant: Mutant) -> bool:
        return mutant.name not in self._narrowed

    def _searched(self, mutants: Sequence[Mutant]) -> dict[Mutant, str]:
        """The check that catches each mutant that smoke catches, of all of its requirement.

        Nothing is shrunk: several checks may catch a mutant, and the program of one is enough. It
        is the clearest program: one that needs no threads, if there is one.
        """
        run = self._run("search", mutants, shrinks=False)
        found = {each: run.result(each.subject, each.requirement) for each in mutants}
        return {
            each: failure.check
            for each, (result, failure) in found.items()
            if result.status == "fail" and failure is not None
        }

    def _smoke(self, name: str, checks: Mapping[Mutant, str]) -> None:
        """Run a check of each mutant in the smoke profile."""
        narrowed = {each.subject: (check,) for each, check in checks.items()}
        run = self._run(name, [*checks], narrowed=narrowed)
        for each, check in checks.items():
            # A mutant that depends on threads may be caught once, and not the next time.
            if is_caught(run, each):
                self._keep(each, run, Caught("smoke", check))

    def _quick(self, mutant: Mutant, likely: str) -> None:
        """Run checks in the quick profile until one catches what smoke misses.

        The right counterparts run, too, because no test asks them so much otherwise.
        """
        checks = load_catalogue()[mutant.requirement].checks
        for check in sorted(checks, key=lambda each: each != likely):
            name = f"{mutant.name}-{check}"
            narrowed = dict.fromkeys((mutant.subject, *mutant.right), (check,))
            run = self._run(name, [mutant], profile="quick", narrowed=narrowed, with_right=True)
            if is_caught(run, mutant):
                break
        self._keep(mutant, run, Caught("quick", check))

    def _keep(self, mutant: Mutant, run: GroupRun, caught: Caught) -> None:
        self._narrowed[mutant.name] = run
        if os.environ.get("STREAMPROOF_UPDATE_GOLDENS") and is_caught(run, mutant):
            CAUGHT_BY[mutant.name] = caught
            lines = [f"{json.dumps(each)}: {json.dumps(CAUGHT_BY[each])}" for each in CAUGHT_BY]
            CAUGHT_BY_FILE.write_text("{\n" + ",\n".join(sorted(lines)) + "\n}\n", "utf-8")

    def _run(
        self,
        name: str,
        mutants: Sequence[Mutant],
        *,
        narrowed: Mapping[str, Collection[str]] = MappingProxyType({}),
        with_right: bool = False,
        **settings: Any,
    ) -> GroupRun:
        changed = structs.replace(self._settings, **settings)
        run = GroupRun(mutants, changed, narrowed=narrowed, with_right=with_right)
        if mutants:
            run.run(self._directory / name, jobs=2)
        assert all(map(run.finished, mutants))
        return run


def is_caught(run: GroupRun, mutant: Mutant) -> bool:
    """Whether a run found that a mutant breaks its requirement."""
    return run.result(mutant.subject, mutant.requirement)[0].status == "fail"


RunsOf = Callable[[Mutant], Runs]


def members(group: Group) -> list[Mutant]:
    """The mutants of a group in their order, but those whose runs take longest come last."""
    found = [each for each in MUTANTS if group_of(each) == group]
    return sorted(found, key=lambda each: each.name in LONG)


@pytest.fixture(scope="module")
def runs_of() -> Iterator[RunsOf]:
    """The runs of a mutant's group, made when the first of them is asked for."""
    with work_directory() as directory:

        @functools.cache
        def make(group: Group, start: int) -> Runs:
            end = start + MOST if start else SOON
            return Runs(directory / "-".join([*group, str(start)]), members(group)[start:end])

        def runs(mutant: Mutant) -> Runs:
            group, place = _place(mutant)
            start = place - (place - SOON) % MOST if place >= SOON else 0
            return make(group, start)

        yield runs


# One mutant after the other, and those of a group together: where tests run side by side, runs that
# they share are then made once.
def case(mutant: Mutant) -> Any:
    """A mutant; it is run with the longer tests, unless it is one of the first of its group."""
    first = [each for each in members(group_of(mutant))[:SOON] if each.name not in LONG]
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
    """By the requirement it is bound to, with a program that shows it.

    Where it takes the quick profile, the right counterparts keep the requirement in it.
    """
    run = runs_of(mutant).of(mutant)
    assert set(run.trying(mutant).right.values()) <= {"pass"}
    result, failure = run.result(mutant.subject, mutant.requirement)
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
    _, failure = runs_of(mutant).of(mutant).result(mutant.subject, mutant.requirement)
    assert failure is not None
    is_sure = ONLY_SHOWN not in failure.program.splitlines()[:2]
    assert is_sure or mutant.name in UNSURE, failure.program
    code, output = runner.run(failure.program)
    if mutant.name in UNSURE:
        assert code in ((0, 1) if is_sure else (1, 2)), (output, failure.program)
    else:
        assert code == 1, (output, failure.program)
    for name in alike(mutant.subject, mutant.right)[:1]:
        code, output = runner.run(failure.program.replace(mutant.subject, name))
        assert code == (0 if is_sure else 2), (output, failure.program)


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
