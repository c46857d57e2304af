"""Running a saved failure again: only this failure, and whether it still fails."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

from streamproof.conformance.check_engine import CheckTask, Engine
from streamproof.conformance.check_loader import checks_for
from streamproof.conformance.check_records import CheckOutcome
from streamproof.conformance.program_text import with_class_path
from streamproof.conformance.saved_failures import SavedFailure
from streamproof.conformance.settings import Settings
from streamproof.conformance.verify_session import still_fails, why_untried
from streamproof.conformance.work_directory import work_directory
from streamproof.errors import UsageError

__all__ = ["RepeatedFailure", "repeat_failure"]


class RepeatedFailure(NamedTuple):
    """What came of a saved failure that was run again.

    Attributes:
        saved: the failure.
        outcome: ``fails`` as before, or is ``mended``; ``untried`` if it cannot be tried on this
            machine, and ``broken`` if streamproof itself failed.
        detail: the program that shows the failure, or why there is no answer.
    """

    saved: SavedFailure
    outcome: Literal["fails", "mended", "untried", "broken"]
    detail: str = ""


def repeat_failure(saved: SavedFailure, work_dir: Path | None = None) -> RepeatedFailure:
    """Run a saved failure again.

    Args:
        saved: the failure.
        work_dir: the directory for databases; see :func:`work_directory`.

    Raises:
        UsageError: this version does not have the check that found the failure.
    """
    outcome = _outcome(saved, work_dir)
    if outcome.suite_error:
        return RepeatedFailure(saved, "broken", outcome.suite_error)
    if why := why_untried(saved, outcome):
        return RepeatedFailure(saved, "untried", why)
    if not still_fails(saved, outcome):
        return RepeatedFailure(saved, "mended")
    found = next((each for each in outcome.findings if each.shape == saved.shape), None)
    if found is None:
        return RepeatedFailure(saved, "fails", outcome.subject_error)
    return RepeatedFailure(saved, "fails", with_class_path(found.program, saved.subject))


def _outcome(saved: SavedFailure, work_dir: Path | None) -> CheckOutcome:
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
    return outcome
