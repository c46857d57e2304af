"""Saved failures, run again: just these, and whether they still fail."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from streamproof.conformance.check_engine import CheckTask, Engine, work_directory
from streamproof.conformance.check_loader import checks_for
from streamproof.conformance.check_records import CheckOutcome
from streamproof.conformance.saved_failures import SavedFailure, read_failure
from streamproof.conformance.session import still_fails
from streamproof.conformance.settings import Settings
from streamproof.errors import UsageError
from streamproof.exit_codes import ExitCode

__all__ = ["replay_failures"]


def replay_failures(paths: Sequence[Path], work_dir: Path | None) -> int:
    """Run saved failures again, and say whether they still fail; returns what to exit with.

    Args:
        paths: files that a run has saved.
        work_dir: where the databases go; see :func:`work_directory`.
    """
    codes = [_replay(saved, work_dir) for saved in [read_failure(path) for path in paths]]
    worst_first = (ExitCode.SUITE_ERROR, ExitCode.FAILURE, ExitCode.PARTIAL)
    return next((code for code in worst_first if code in codes), 0)


def _replay(saved: SavedFailure, work_dir: Path | None) -> int:
    """Run one saved failure again; returns what to exit with."""
    check = checks_for(saved.subject).get(saved.check)
    if check is None:
        raise UsageError(
            f"{saved.name} was found by the check {saved.check}, which this version does not have; "
            "run the version that saved it."
        )
    settings = Settings(
        guarantee=saved.guarantee,
        spec=saved.spec,
        profile=saved.profile,
        seed=saved.seed,
        operation_timeout_s=saved.timeout_s,
        round=saved.round,
    )
    outcomes: list[CheckOutcome] = []
    with work_directory(work_dir) as directory, Engine(settings, directory, 1) as engine:
        engine.load([saved.subject])
        task = CheckTask(saved.subject, check, saved.round, saved.replay())
        engine.run([task], lambda _, outcome: outcomes.append(outcome))
    (outcome,) = outcomes
    if outcome.suite_error:
        print(f"{saved.subject} {saved.name}: the suite itself failed: {outcome.suite_error}")
        return ExitCode.SUITE_ERROR
    if outcome.skipped:
        print(f"{saved.subject} {saved.name}: cannot be tried here: {outcome.skipped}")
        return ExitCode.PARTIAL
    if not still_fails(saved, outcome):
        print(f"{saved.subject} {saved.name}: does not fail any more.")
        return 0
    found = next((each for each in outcome.findings if each.shape == saved.shape), None)
    print(f"{saved.subject} {saved.name}: still fails.")
    print(found.program if found else outcome.subject_error)
    return ExitCode.FAILURE
