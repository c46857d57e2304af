"""The sentences at the top of a report: the findings of a run in one or two lines."""

from __future__ import annotations

from streamproof.reports.report_view import ReportView, SubjectView
from streamproof.reports.safe_text import cell
from streamproof.reports.wording import plural

__all__ = ["clause", "headline", "subline"]


def clause(subject: SubjectView) -> str:
    """The findings about one subject, in a few words that start with its name."""
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
    """The run in one sentence without its full stop: the worst finding, in calm words."""
    if not view.complete:
        return f"This run did not finish; it left {plural(view.answered, 'result')} and no verdict"
    if not view.subjects:
        return "No subject was tested"
    if len(view.subjects) > 1 and view.outcome == "success":
        return f"All {len(view.subjects)} subjects keep every core requirement asked of them"
    return clause(view.worst_first[0])


def subline(view: ReportView) -> str:
    """The second sentence: the other subjects, or the findings of a run that died."""
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
