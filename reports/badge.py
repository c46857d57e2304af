"""A badge: JSON for a shields.io endpoint."""

from __future__ import annotations

import json

from streamproof.conformance.verdict_rule import Outcome
from streamproof.reports.report_view import ReportView, SubjectView

__all__ = ["COLOUR_OF_PART", "render_badge"]

_COLOURS: dict[Outcome, str] = {
    "success": "brightgreen",
    "partial": "yellow",
    "incomplete": "lightgrey",
    "error": "orange",
    "failure": "red",
}


COLOUR_OF_PART = "blue"
"""The colour of a success that is about a part of the requirements."""


def render_badge(view: ReportView) -> str:
    """The badge of the run; with several subjects, the badge of the worst one.

    The colour comes from the verdict and never from a ratio: 56 of 57 is not nearly green. A run
    of a part of the requirements is never green, and its label says that it is a part.
    """
    outcome = view.outcome
    message: str = outcome
    if view.subjects:
        message = (_message_of_part if view.is_part else _message)(outcome, view.worst_first[0])
    is_kept_part = view.is_part and outcome == "success"
    badge = {
        "schemaVersion": 1,
        "label": f"state-store conformance{' (part)' if view.is_part else ''}",
        "message": message,
        "color": COLOUR_OF_PART if is_kept_part else _COLOURS[outcome],
    }
    return json.dumps(badge, ensure_ascii=False, indent=2) + "\n"


def _message_of_part(outcome: Outcome, subject: SubjectView) -> str:
    """The message of a run of a part: how many of all core requirements were kept."""
    if outcome not in ("success", "partial") or not subject.of_core:
        return _message(outcome, subject)
    kept = f"{subject.core.passed} of {subject.of_core} core"
    return kept if outcome == "success" else f"partial · {kept}"


def _message(outcome: Outcome, subject: SubjectView) -> str:
    core, extended = subject.core, subject.extended
    counts = " · ".join(
        f"{name} {tally.passed}/{tally.asked}"
        for name, tally in (("core", core), ("ext", extended))
        if tally.asked
    )
    if outcome in ("failure", "partial") and subject.broken:
        return subject.breaks.partition(" (")[0]
    if outcome == "success" and counts:
        return counts
    if outcome == "partial" and counts:
        return f"partial · {counts}"
    return outcome
