"""What a recording tells of kills is what kills leave, and only a real kill blames a store."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_lines import SUBJECTS
from java_classes import RIGHT_JAVA_STORES

from streamproof.conformance.check_engine import Engine
from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_records import CheckOutcome
from streamproof.conformance.settings import Settings
from streamproof.conformance.value_codec import decode_value
from streamproof.conformance.work_directory import work_directory

ROOT = Path(__file__).resolve().parents[2]
COMPARISON = ROOT / "tests" / "derived_against_real.py"
SQLITE = f"{ROOT / 'examples' / 'sqlite_store.py'}:make"
ELSEWHERE = f"{SUBJECTS / 'store_elsewhere.py'}:make"
JOURNALLED = "streamproof.conformance.mutants.crash_mutants:journalled"
LEDGER, _ = RIGHT_JAVA_STORES
FAULTY = "streamproof.conformance.mutants.canary_mutant:offsets_written_before_rows"


def compared(subject: str) -> list[dict[str, Any]]:
    """What recordings and real kills of two programs lead to."""
    command = [sys.executable, "-P", str(COMPARISON), subject, "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=200)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == 2
    return found


def expect_those_of_kills(subject: str) -> None:
    """The recording tells each of them, and one more: that after the last call."""
    for each in compared(subject):
        known, counted = each["calls"]
        assert known == counted > 0
        assert each["only real"] == []
        assert 0 <= each["derived"] - each["real"] <= 1


@pytest.mark.parametrize("subject", [SQLITE, JOURNALLED])
def test_states_are_those_that_real_kills_leave(subject: str) -> None:
    expect_those_of_kills(subject)


def test_states_of_a_store_in_java(classes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLASSPATH", str(classes))
    expect_those_of_kills(LEDGER)


def test_states_of_a_store_with_threads_can_be_recorded() -> None:
    """Its threads take another turn in each run, so that single states may differ."""
    for each in compared("rocksdb"):
        assert each["derived"] > each["real"] / 2 > 0


def outcome_of(subject: str, check: str) -> CheckOutcome:
    """The outcome of a check."""
    found: list[CheckOutcome] = []
    settings = Settings(seed=1, profile="quick")
    with work_directory() as directory, Engine(settings, directory, jobs=1) as engine:
        engine.load([subject])
        engine.run([(subject, load_checks()[check])], lambda _, outcome: found.append(outcome))
    (outcome,) = found
    assert (outcome.suite_error, outcome.subject_error, outcome.skipped) == ("", "", "")
    return outcome


@pytest.mark.parametrize("check", ["crash.between_operations", "crash.in_every_system_call"])
def test_most_kills_of_a_right_store_are_derived(check: str) -> None:
    outcome = outcome_of("rocksdb-transactional", check)
    counts = dict(outcome.evidence.crash_points)
    derived = counts.pop("derived")
    assert not outcome.findings
    assert derived > 4 * sum(counts.values()) > 0


def test_a_failure_is_what_a_real_kill_has_shown() -> None:
    outcome = outcome_of(FAULTY, "crash.between_operations")
    assert outcome.findings
    for each in outcome.findings:
        ((_, point),) = map(decode_value, each.choices.crashes)
        assert point.kind == "boundary"


def test_a_failure_needs_few_real_kills() -> None:
    """Recordings find it and make it small; kills show it, and are tried at a sample of points."""
    evidence = outcome_of(FAULTY, "crash.between_operations").evidence
    assert evidence.crash_points["derived"] > 3 * evidence.crash_points["boundary"] > 0


def test_a_store_that_keeps_its_data_elsewhere_is_not_blamed() -> None:
    """The directories that a recording leads to are empty, but the store is right."""
    outcome = outcome_of(ELSEWHERE, "crash.between_operations")
    assert not outcome.findings
    assert outcome.evidence.crash_points["boundary"] > 50
