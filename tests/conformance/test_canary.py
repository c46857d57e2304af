"""The canary: every run begins with a store that must fail, and ends there if it does not."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from command_lines import CommandLine

from streamproof.cli import main
from streamproof.conformance import canary
from streamproof.conformance.canary import CanaryError, canary_task, require_caught
from streamproof.conformance.catalogue import load_catalogue
from streamproof.conformance.check_engine import Engine
from streamproof.conformance.check_records import CheckEvidence, CheckOutcome
from streamproof.conformance.mutants import CANARY, MUTANTS
from streamproof.conformance.settings import Settings
from streamproof.conformance.work_directory import work_directory
from streamproof.reports.run_log import read_run_log


def outcome_of(settings: Settings) -> CheckOutcome:
    """What becomes of the canary in a run with these settings."""
    outcomes: list[CheckOutcome] = []
    with work_directory() as directory, Engine(settings, directory, jobs=1) as engine:
        engine.load([CANARY.subject])
        engine.run([canary_task()], lambda _, outcome: outcomes.append(outcome))
    (outcome,) = outcomes
    return outcome


@pytest.mark.parametrize(
    ("seed", "guarantee", "spec"),
    [
        (0, "exactly-once", "kips"),
        (1, "at-least-once", "kips"),
        (2**40, "exactly-once", "kafka-4.3"),
        (3, "at-least-once", "kafka-4.4"),
    ],
)
def test_it_is_caught_in_every_run(seed: int, guarantee: str, spec: str) -> None:
    """With any seed, and few kills whatever the profile of the run is."""
    settings = Settings(profile="full", seed=seed, guarantee=guarantee, spec=spec)  # type: ignore[arg-type]
    outcome = outcome_of(settings)
    assert require_caught(outcome) == "CRASH-005"
    crashes = outcome.evidence.crash_points
    assert 0 < crashes["boundary"] <= 12
    assert 0 < crashes["derived"] <= 12
    assert crashes.keys() == {"boundary", "derived"}


def test_it_is_one_of_the_mutants() -> None:
    """The table of mutants has it, and the check that is run tests its requirement."""
    assert CANARY in MUTANTS
    assert canary_task().check.name in load_catalogue()[CANARY.requirement].checks


def test_the_log_says_that_it_was_caught(command_line: CommandLine) -> None:
    """It is no subject of the run: no record is about it but the footer."""
    ended = command_line.verify("in-memory", "--only", "LIFE-001", "--no-bank")
    assert ended.code == 0
    log = read_run_log(command_line.out / "run.ndjson")
    assert log.footer is not None
    assert log.footer.canary == "CRASH-005"
    assert [subject.name for subject in log.header.subjects] == ["in-memory"]
    assert {check.subject for check in log.checks} == {"in-memory"}


def test_it_can_be_a_subject(command_line: CommandLine) -> None:
    """Whoever asks for it gets its verdict."""
    ended = command_line.verify(CANARY.subject, "--only", "CRASH-005", "--no-bank")
    assert ended.code == 1
    assert list(ended.failures) == ["CRASH-005"]


def test_a_suite_that_misses_it_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run ends at once, with one message, the exit code of the suite and no verdict."""
    monkeypatch.setattr(canary, "CHECK", "life.opens_and_closes")
    words = ["verify", "in-memory", "--only", "LIFE-001", "--no-bank", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["streamproof", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 70
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert "does not work on this machine" in lines[0]
    assert "life.opens_and_closes found nothing" in lines[0]
    log = read_run_log(tmp_path / "run.ndjson")
    assert not log.complete


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        ({}, "crash.between_operations found nothing"),
        ({"suite_error": "KeyError: 7\nTraceback"}, "KeyError: 7"),
        ({"subject_error": "close() did not return within 20 s"}, "close() did not return"),
        ({"skipped": "no processes"}, "no processes"),
    ],
)
def test_the_message_says_why(changes: dict[str, str], because: str) -> None:
    """What kept the check from an answer, if anything did."""
    outcome = CheckOutcome(check="crash.between_operations", evidence=CheckEvidence(), **changes)  # type: ignore[arg-type]
    with pytest.raises(CanaryError, match=re.escape(because)):
        require_caught(outcome)
