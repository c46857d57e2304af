"""A badge: JSON for a shields.io endpoint."""

from __future__ import annotations

import json

from streamproof.conformance.verdict_rule import Outcome
from streamproof.reports.report_view import ReportView, SubjectView
from streamproof.reports.wording import plural

__all__ = ["render_badge"]

_COLOURS: dict[Outcome, str] = {
    "success": "brightgreen",
    "partial": "yellow",
    "incomplete": "lightgrey",
    "error": "orange",
    "failure": "red",
}


def render_badge(view: ReportView) -> str:
    """The badge of the run; with several subjects, the badge of the worst one.

    The colour comes from the verdict and never from a ratio: 56 of 57 is not nearly green.
    """
    outcome = view.outcome
    message = outcome if not view.subjects else _message(outcome, view.worst_first[0])
    badge = {
        "schemaVersion": 1,
        "label": "state-store conformance",
        "message": message,
        "color": _COLOURS[outcome],
    }
    return json.dumps(badge, ensure_ascii=False, indent=2) + "\n"


def _message(outcome: Outcome, subject: SubjectView) -> str:
    core, extended = subject.core, subject.extended
    counts = " · ".join(
        f"{name} {tally.passed}/{tally.asked}"
        for name, tally in (("core", core), ("ext", extended))
        if tally.asked
    )
    if outcome == "failure" and core.broken:
        return plural(core.broken, "core failure")
    if outcome == "failure" and extended.broken:
        return plural(extended.broken, "extended failure")
    if outcome == "success" and counts:
        return counts
    if outcome == "partial" and counts:
        return f"partial · {counts}"
    return outcome
