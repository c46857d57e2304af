"""The sentences at the top of a report: the findings of a run in one or two lines."""

from __future__ import annotations

from streamproof.reports.report_view import ReportView, SubjectView
from streamproof.reports.safe_text import cell
from streamproof.reports.wording import plural

__all__ = ["clause", "headline", "of_part", "subline"]


def clause(subject: SubjectView) -> str:
    """The findings about one subject, in a few words that start with its name."""
    name = cell(subject.info.name, 60)
    core, extended = subject.core, subject.extended
    if subject.broken:
        return f"{name} {subject.breaks}"
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
        return f"{name} keeps {_asked(subject, core.asked, 'core requirement')}"
    if extended.asked and extended.passed == extended.asked:
        return f"{name} keeps {_asked(subject, extended.asked, 'extended requirement')}"
    return f"{name} was asked nothing that it could keep or break"


def _asked(subject: SubjectView, count: int, noun: str) -> str:
    """All requirements of a kind that the run asked; of a part of them, it says so."""
    if not subject.of_core:
        return f"all {plural(count, noun)}"
    return f"the {plural(count, noun)} that this run asked for"


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
    """The next sentences: the other subjects, and what was not tried; or what a dead run found."""
    if not view.complete:
        broken = [
            f"{cell(subject.info.name, 60)} {subject.breaks}"
            for subject in view.worst_first
            if subject.broken
        ]
        found = f"So far, {_joined(broken)}" if broken else "So far, nothing was found broken"
        unknown = "What is not listed below is unknown, not kept."
        return " ".join(filter(None, [of_part(view), f"{found}. {unknown}"]))
    others = view.worst_first[1:] if view.outcome != "success" else []
    rest = [clause(subject) for subject in others]
    parts = [of_part(view), f"{_joined(rest)}." if rest else "", _untried(view)]
    return " ".join(filter(None, parts))


def of_part(view: ReportView) -> str:
    """That the run asked only a part of the requirements, in one sentence; empty if it did not."""
    if not view.is_part:
        return ""
    asked = f"This run asked only {cell(', '.join(view.header.only), 80)}"
    count = ""
    if len(view.subjects) == 1:
        (subject,) = view.subjects
        of_core = subject.of_core
        count = (
            f", {subject.core.asked:,} of {plural(of_core, 'core requirement')}" if of_core else ""
        )
    return f"{asked}{count}. It is no verdict on the other requirements."


def _untried(view: ReportView) -> str:
    """What the machine could not try, once for all subjects of which the same is said."""
    told: dict[str, list[str]] = {}
    for subject in view.worst_first:
        if subject.untried:
            told.setdefault(subject.untried, []).append(cell(subject.info.name, 60))
    alone = len(view.subjects) == 1
    sentences = [
        cell(text if alone else f"{', '.join(names)}: {text}", 600) for text, names in told.items()
    ]
    return " ".join(f"{each.rstrip('.')}." for each in sentences[:2])


def _joined(clauses: list[str]) -> str:
    shown = clauses[:4]
    if len(clauses) > len(shown):
        shown.append(f"{len(clauses) - len(shown)} more are listed below")
    return "; ".join(shown)
