"""The canary: a store that must fail, tried first in every run, in the same way as any subject.

At every crash it loses rows that its offset covers. To catch it, every part of the suite has to
work: the process that starts checks, a fork, a real kill, the process that reads what is left, the
judge, and the record of the finding. If it is not caught, one of these parts is broken, and a clean
result for any other store means nothing.
"""

from __future__ import annotations

from streamproof.conformance.check_engine import CheckTask
from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_records import CheckOutcome
from streamproof.conformance.mutants import CANARY
from streamproof.errors import SuiteError, UsageError

__all__ = ["CANARY_SUBJECT", "CanaryError", "canary_task", "require_caught"]

CANARY_SUBJECT = CANARY.subject
"""The name of the canary as a subject."""

CHECK = "crash.between_operations"
"""The check that must catch the canary: the quickest one that kills, and it needs no compiler."""


class CanaryError(SuiteError):
    """The suite did not catch the canary."""


def canary_task() -> CheckTask:
    """The first task of a run: the check of the canary."""
    return CheckTask(CANARY_SUBJECT, load_checks()[CHECK], profile="smoke")


def require_caught(outcome: CheckOutcome) -> str:
    """The requirement that caught the canary.

    Raises:
        CanaryError: no requirement caught it.
        UsageError: this machine lacks what every check needs.
    """
    if any(finding.requirement == CANARY.requirement for finding in outcome.findings):
        return CANARY.requirement
    if outcome.evidence.lacking and outcome.skipped:
        raise UsageError(f"Nothing was judged: {outcome.skipped}.")
    problem = outcome.suite_error or outcome.subject_error or outcome.skipped
    because = problem.splitlines()[0] if problem else f"{CHECK} found nothing"
    raise CanaryError(
        f"The suite does not work on this machine: {CANARY_SUBJECT} breaks {CANARY.requirement}, "
        f"but the suite did not notice it ({because}). Do not trust results for other stores. Run "
        f"`streamproof mutants {CANARY.name}` to find the reason."
    )
