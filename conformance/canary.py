"""The canary: a store that must fail, tried first in every run, in the same way as any subject.

It loses rows that its offset covers at every crash. Finding that out takes the whole way: a process
that starts checks, a fork, a real kill, another process that reads, the judge, and the way
of a finding back. If it is not caught, something on that way is broken, and that nothing was
found in other stores means nothing.
"""

from __future__ import annotations

from streamproof.conformance.check_engine import CheckTask
from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_records import CheckOutcome
from streamproof.conformance.mutants import CANARY
from streamproof.errors import SuiteError

__all__ = ["CANARY_SUBJECT", "CanaryError", "canary_task", "require_caught"]

CANARY_SUBJECT = CANARY.subject
"""What names the store."""

CHECK = "crash.between_operations"
"""The quickest of the checks that kill; it needs no compiler."""


class CanaryError(SuiteError):
    """The suite did not find the store wrong that it must find wrong."""


def canary_task() -> CheckTask:
    """The check to begin with."""
    return CheckTask(CANARY_SUBJECT, load_checks()[CHECK], profile="smoke")


def require_caught(outcome: CheckOutcome) -> str:
    """The requirement by which the canary was caught.

    Raises:
        CanaryError: it was not caught.
    """
    if any(finding.requirement == CANARY.requirement for finding in outcome.findings):
        return CANARY.requirement
    problem = outcome.suite_error or outcome.subject_error or outcome.skipped
    because = problem.splitlines()[0] if problem else f"{CHECK} found nothing"
    raise CanaryError(
        f"The suite does not work here: it did not find out that {CANARY_SUBJECT} breaks "
        f"{CANARY.requirement} ({because}). So nothing that it says of other stores can be "
        f"trusted. Find out more with `streamproof mutants {CANARY.name}`."
    )
