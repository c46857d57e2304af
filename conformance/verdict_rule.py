"""The one rule that turns the statuses of requirements into a verdict.

Every run log, report, page and table gets its verdicts from here. The expression that Spark runs
in :mod:`streamproof.reports.pipeline.tables.statuses` states the rule a second time, because
Spark cannot call Python at that speed; a test holds it against :func:`best_verdict`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeVar

from streamproof.conformance.results import Level, Status, Verdict

__all__ = [
    "LEVELS",
    "OUTCOME_ORDER",
    "STATUS_ORDER",
    "Outcome",
    "RatedStatus",
    "Shown",
    "badness",
    "best_verdict",
    "worst",
]

Shown = Status | Literal["no result"]
"""The displayed status of a requirement. A run that died may have lost a result."""

Outcome = Verdict | Literal["incomplete"]
"""The outcome of one subject or run: its verdict, or that the run died without one."""

LEVELS: tuple[Level, ...] = ("MUST", "SHOULD", "MAY")
"""The levels of requirements, the weightiest first."""

STATUS_ORDER: tuple[Shown, ...] = (
    "fail",
    "known",
    "error",
    "skip",
    "pass",
    "unsupported",
    "untested",
    "no result",
)
"""The statuses of one requirement in several runs: the first of these that occurs counts.

The last three only say that this run tried nothing, so any status of another run counts more.
"""

OUTCOME_ORDER: tuple[Outcome, ...] = (
    "failure",
    "error",
    "incomplete",
    "partial",
    "success",
)
"""Every outcome, the worst first."""

AnyOutcome = TypeVar("AnyOutcome", bound=Outcome)


class RatedStatus(NamedTuple):
    """The status of one requirement, and its weight: its level, and whether it is core."""

    level: Level
    core: bool
    status: Shown


def best_verdict(statuses: Iterable[RatedStatus]) -> Verdict:
    """The best verdict that these statuses allow.

    A broken MUST is a failure, and a missing answer is an error. The verdict is partial where a
    SHOULD or MAY is broken, a failure is known, a core requirement was skipped, a result is
    missing, or nothing was kept: a skip must never look like a pass. A check may find nothing to
    try in a store; so the skip of a requirement that is not core takes nothing away.
    """
    found = set(statuses)
    if any(each.status == "fail" and each.level == "MUST" for each in found):
        return "failure"
    if any(each.status == "error" for each in found):
        return "error"
    if any(map(_takes_away, found)) or not any(each.status == "pass" for each in found):
        return "partial"
    return "success"


def _takes_away(rated: RatedStatus) -> bool:
    """Whether this status makes a verdict partial at best."""
    return rated.status in ("fail", "known", "no result") or (rated.status == "skip" and rated.core)


def badness(outcome: Outcome) -> int:
    """The rank of an outcome: the smaller, the worse."""
    return OUTCOME_ORDER.index(outcome)


def worst(outcomes: Iterable[AnyOutcome]) -> AnyOutcome:
    """The worst of several outcomes, of which there must be at least one."""
    return min(outcomes, key=badness)
