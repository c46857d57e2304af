"""The words of the reports: what every status and verdict is called and means, and headlines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamproof.conformance.results import Strength
from streamproof.conformance.verdict_rule import Outcome, Shown
from streamproof.reports.safe_text import cell

if TYPE_CHECKING:
    from streamproof.reports.report_view import ReportView, SubjectView

__all__ = [
    "OUTCOMES",
    "STATUSES",
    "STRENGTHS",
    "clause",
    "duration",
    "headline",
    "plural",
    "subline",
]

STATUSES: dict[Shown, str] = {
    "fail": "Broken, with a program that shows it.",
    "known": "Broken, but only in ways that the file of known failures lists, until a given day. "
    "It never counts as kept.",
    "error": "No answer: the subject hung or died, or the suite itself failed.",
    "skip": "Could not be tried on this machine. A skip is never a pass.",
    "no result": "The run ended before this requirement was decided.",
    "pass": "Tried, and held, on the evidence shown beside it.",
    "unsupported": "Not asked: the subject does not claim the capability, or the promise does not "
    "hold under the chosen guarantee or specification.",
    "untested": "Not asked: no check exists, for the reason given.",
}
"""Every status and its meaning, the most pressing first."""

STRENGTHS: dict[Strength, str] = {
    "strong": "At least 25 generated programs or 100 crashes, and it is known to catch at least "
    "one deliberately wrong store.",
    "moderate": "One of these two.",
    "weak": "Programs were generated or processes were killed, but fewer.",
    "example only": "The same few programs are run every time.",
}
"""Every strength of evidence and its meaning, the strongest first."""

OUTCOMES: dict[Outcome, str] = {
    "failure": "A requirement of level MUST is broken.",
    "error": "No MUST is broken, but at least one check gave no answer.",
    "incomplete": "The run died or was stopped before it could give a verdict.",
    "partial": "No MUST is broken, known failures aside; but a SHOULD or MAY is broken, a "
    "failure is known, a core requirement was skipped, a result is missing, or nothing was tried.",
    "success": "Nothing is broken, and every core requirement that was asked was kept.",
}
"""Every verdict and its meaning, the worst first."""


def plural(count: int, noun: str, several: str = "") -> str:
    """``1 failure``, ``2 failures``; ``several`` is the plural where it is not just an s."""
    return f"{count:,} {noun if count == 1 else several or noun + 's'}"


def duration(seconds: float) -> str:
    """A length of time as one reads it: ``0.4 s``, ``12 s``, ``3 min 5 s``, ``2 h 0 min``."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60} min"


def clause(subject: SubjectView) -> str:
    """What the run found out about one subject, in a few words that start with its name."""
    name = cell(subject.info.name, 60)
    core, extended = subject.core, subject.extended
    if core.broken or extended.broken:
        parts = []
        if core.broken:
            parts.append(f"{core.broken} of {plural(core.asked, 'core requirement')}")
        if extended.broken:
            parts.append(f"{extended.broken} of {plural(extended.asked, 'extended requirement')}")
        return f"{name} breaks {' and '.join(parts)}"
    silent = core.counts["error"] + extended.counts["error"]
    known = core.counts["known"] + extended.counts["known"]
    skipped = core.counts["skip"] + core.counts["no result"]
    if subject.outcome == "incomplete":
        return f"{name} has no verdict"
    if silent:
        return f"{name} left {plural(silent, 'requirement')} without an answer"
    if known:
        return f"{name} breaks {plural(known, 'requirement')}, in ways that are known"
    if skipped:
        return f"{name} breaks nothing, but {plural(skipped, 'core requirement')} went untried"
    if core.asked and core.passed == core.asked:
        return f"{name} keeps all {plural(core.asked, 'core requirement')}"
    if extended.asked and extended.passed == extended.asked:
        return f"{name} keeps all {plural(extended.asked, 'extended requirement')}"
    return f"{name} was asked nothing that it could keep or break"


def headline(view: ReportView) -> str:
    """The run in one sentence, without its full stop: the worst finding, calmly."""
    if not view.complete:
        return f"This run did not finish; it left {plural(view.answered, 'result')} and no verdict"
    if not view.subjects:
        return "No subject was tested"
    if len(view.subjects) > 1 and view.outcome == "success":
        return f"All {len(view.subjects)} subjects keep every core requirement asked of them"
    return clause(view.worst_first[0])


def subline(view: ReportView) -> str:
    """The rest of the story: the other subjects, or what a run that died had found."""
    if not view.complete:
        broken = [
            f"{cell(subject.info.name, 60)} breaks {plural(subject.broken, 'requirement')}"
            for subject in view.worst_first
            if subject.broken
        ]
        found = f"So far, {_joined(broken)}" if broken else "So far, nothing was found broken"
        return f"{found}. What is not listed below is unknown, not kept."
    if view.outcome == "success":
        return ""
    rest = [clause(subject) for subject in view.worst_first[1:]]
    return f"{_joined(rest)}." if rest else ""


def _joined(clauses: list[str]) -> str:
    shown = clauses[:4]
    if len(clauses) > len(shown):
        shown.append(f"{len(clauses) - len(shown)} more are listed below")
    return "; ".join(shown)
