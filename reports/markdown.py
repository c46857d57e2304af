"""A summary in Markdown for the page of a build or a pull request: at most forty lines."""

from __future__ import annotations

import re
from collections import Counter

from streamproof.conformance.verdict_rule import Shown
from streamproof.reports.headlines import headline, subline
from streamproof.reports.report_view import FailureGroupView, ReportView, StatusTally, SubjectView
from streamproof.reports.safe_text import cell
from streamproof.reports.wording import STRENGTHS, duration, plural

__all__ = ["MAX_LINES", "render_markdown"]

MAX_LINES = 40
_SUBJECTS = 12
_FAILURES = 5
_NOTES = 3
_IDS = 8
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!&:@$^])")


def render_markdown(view: ReportView) -> str:
    """The verdict, the counts of each subject, and the worst failures with their commands."""
    part = " (part of the requirements)" if view.is_part else ""
    lines = [
        f"## streamproof: {_plain(view.outcome)}{part}",
        "",
        f"**{_plain(headline(view), 300)}.**",
    ]
    if more := subline(view):
        lines += ["", _plain(more, 600)]
    lines += ["", *_table(view), *_strengths(view), *_failures(view), *_notes(view), "", _run(view)]
    assert len(lines) <= MAX_LINES, f"{len(lines)} lines"  # noqa: S101 (of our own making)
    return "\n".join(lines) + "\n"


def _table(view: ReportView) -> list[str]:
    lines = [
        (
            "| subject | verdict | core kept | extended kept | fail | known | error | skip "
            "| no result | not asked | crashes |"
        ),
        "|:--|:--|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    shown = view.worst_first[:_SUBJECTS]
    lines += [_row(subject) for subject in shown]
    if rest := len(view.subjects) - len(shown):
        lines += ["", f"{plural(rest, 'more subject')} in the full report."]
    return lines


def _row(subject: SubjectView) -> str:
    def count(*statuses: Shown) -> str:
        both = (subject.core.counts, subject.extended.counts)
        return f"{sum(counts[status] for counts in both for status in statuses):,}"

    columns = [
        _plain(subject.info.name, 60),
        f"**{subject.outcome}**",
        _kept(subject, subject.core),
        _kept(subject, subject.extended),
        count("fail"),
        count("known"),
        count("error"),
        count("skip"),
        count("no result"),
        count("unsupported", "untested"),
        f"{subject.evidence.kills:,}",
    ]
    return f"| {' | '.join(columns)} |"


def _kept(subject: SubjectView, tally: StatusTally) -> str:
    # Nobody knows how many requirements a run that died would still have tested.
    if subject.outcome == "incomplete":
        return f"{tally.passed} so far"
    asked = " asked" if subject.of_core else ""
    return f"{tally.passed} of {tally.asked}{asked}"


def _strengths(view: ReportView) -> list[str]:
    """How strong the evidence for kept promises is, over all subjects."""
    counts: Counter[str] = Counter()
    for subject in view.subjects:
        counts.update(subject.strengths)
    if not counts:
        return []
    words = [f"{counts[each]:,} {each}" for each in STRENGTHS if counts[each]]
    return ["", f"Evidence for what was kept: {', '.join(words)}."]


def _notes(view: ReportView) -> list[str]:
    if not view.notes:
        return []
    shown = view.notes[:_NOTES]
    lines = [""]
    for note in shown:
        about = f" {_plain(note.subject, 60)}:" if note.subject else ""
        lines.append(f"- {note.kind}:{about} {_plain(note.text, 400)}")
    if rest := len(view.notes) - len(shown):
        lines.append(f"- and {plural(rest, 'more note')} in the full report")
    return lines


def _failures(view: ReportView) -> list[str]:
    if not view.groups:
        return []
    shown = view.groups[:_FAILURES]
    lines = ["", "### Failures, by probable cause", "", *map(_group, shown)]
    if rest := len(view.groups) - len(shown):
        lines.append(f"- and {plural(rest, 'more cause')} in the full report")
    return lines


def _group(group: FailureGroupView) -> str:
    record = group.first.record
    shape = f" [{_plain(record.shape, 80)}]" if record.shape else ""
    known = f" (known: {_plain(record.known)})" if record.known else ""
    return (
        f"- **{record.level}** {_plain(record.requirement, 40)}, {_plain(record.subject, 60)}: "
        f"{_plain(record.title)}{shape}{known}. {_code(record.reproduce)}{_beneath(group)}"
    ).rstrip()


def _beneath(group: FailureGroupView) -> str:
    """The other requirements that the same cause breaks."""
    ids = dict.fromkeys(each.record.requirement for each in group.others)
    others = [each for each in ids if each != group.first.record.requirement]
    more = f" and {len(others) - _IDS} more" if len(others) > _IDS else ""
    return f" Also breaks {_plain(', '.join(others[:_IDS]))}{more}." if others else ""


def _run(view: ReportView) -> str:
    header = view.header
    parts = [
        f"streamproof {_plain(header.tool_version, 40)}",
        f"specification {header.spec}",
        header.guarantee,
        f"profile {header.profile}",
        f"seed {header.seed}",
    ]
    if view.footer:
        parts.append(f"took {duration(view.footer.duration_s)}")
    return f"<sub>{' · '.join(parts)}</sub>"


def _plain(text: str, limit: int = 200) -> str:
    """``text`` on one line, with all markup of Markdown and HTML escaped."""
    return _SPECIAL.sub(r"\\\1", cell(text, limit))


def _code(text: str) -> str:
    """``text`` as a code span, even if the text contains backticks."""
    line = cell(text, 400)
    if not line.strip():
        return ""
    fence = "`" * (max(map(len, re.findall("`+", line)), default=0) + 1)
    pad = " " if "`" in line else ""
    return f"{fence}{pad}{line}{pad}{fence}"
