"""A summary in Markdown for the page of a build, and a badge."""

from __future__ import annotations

import json
import re

from streamproof.conformance.verdict_rule import Outcome, Shown
from streamproof.reports.badge import COLOUR_OF_PART
from streamproof.reports.pipeline.site.phrases import compared, headline, subline
from streamproof.reports.pipeline.site.site_builder import BrokenPromise, Site, VersionSeries
from streamproof.reports.safe_text import cell
from streamproof.reports.wording import plural

__all__ = ["render_badge", "render_markdown"]

_SUBJECTS = 25
_LINES = 8
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!&:@$^])")

_COLOURS: dict[Outcome, str] = {
    "success": "brightgreen",
    "partial": "yellow",
    "incomplete": "lightgrey",
    "error": "orange",
    "failure": "red",
}


def render_markdown(site: Site) -> bytes:
    """The verdict, each subject, and the worst of what is broken, changed and flaky."""
    lines = [f"## streamproof: {site.outcome}", "", f"**{_plain(headline(site), 300)}.**", ""]
    lines += [_plain(subline(site), 600), "", *_table(site)]
    lines += _section("Broken", _broken(site)) + _section("Worlds that fail", _worlds(site))
    lines += _section(_plain(compared(site)), _changed(site))
    lines += _section("Flaky", _flaky(site)) + _section("Could not be read", _problems(site))
    return ("\n".join(lines) + "\n").encode()


def render_badge(site: Site) -> bytes:
    """A badge for a shields.io endpoint. Its colour comes from the verdict, never from a ratio."""
    is_kept_part = site.is_part and site.outcome == "success"
    badge = {
        "schemaVersion": 1,
        "label": f"state-store compliance{' (part)' if site.is_part else ''}",
        "message": _message(site),
        "color": COLOUR_OF_PART if is_kept_part else _COLOURS[site.outcome],
    }
    return (json.dumps(badge, ensure_ascii=False, indent=2) + "\n").encode()


def _message(site: Site) -> str:
    if not site.series and site.honest_worlds:
        return f"{site.outcome} · {plural(sum(each.count for each in site.honest_worlds), 'world')}"
    subjects = plural(len(site.series), "subject")
    broken = sum(series.broken > 0 for series in site.series)
    if broken:
        return f"{broken} of {subjects} failing"
    return f"{site.outcome} · {subjects}"


def _table(site: Site) -> list[str]:
    if not site.series:
        return []
    lines = [
        "| subject | version | verdict | core kept | extended kept | broken | no answer |",
        "|:--|:--|:--|--:|--:|--:|--:|",
        *(_row(series) for series in site.worst_first[:_SUBJECTS]),
    ]
    if rest := len(site.series) - _SUBJECTS:
        lines += ["", f"{plural(rest, 'more subject')} in the full report."] if rest > 0 else []
    return lines


def _row(series: VersionSeries) -> str:
    silent = series.count("error") + series.count("skip") + series.count("no result")
    columns = [
        _plain(series.label, 60),
        _plain(series.version, 40),
        f"**{series.outcome}**",
        f"{series.core.passed} of {series.core.asked}",
        f"{series.extended.passed} of {series.extended.asked}",
        str(series.broken),
        str(silent),
    ]
    return f"| {' | '.join(columns)} |"


def _section(title: str, lines: list[str]) -> list[str]:
    """A section with its first lines and the number of further lines; nothing if it is empty."""
    if not lines:
        return []
    shown = [f"- {line}" for line in lines[:_LINES]]
    if rest := len(lines) - len(shown):
        shown.append(f"- and {rest:,} more in the full report")
    return ["", f"### {title}", "", *shown]


def _broken(site: Site) -> list[str]:
    return [
        f"**{way.promise.level}** {_plain(way.promise.requirement, 40)}, "
        f"{_plain(way.series.label, 60)}: {_plain(way.promise.title)}{_shape(way)}"
        for way in site.broken_now
    ]


def _worlds(site: Site) -> list[str]:
    return [
        f"{_plain(each.requirement or each.scenario or each.kind, 60)}, "
        f"{_plain(each.subject or 'model stores', 60)}: {_plain(each.found)}; "
        f"see it with {_plain(each.command, 300)}"
        for each in site.failing_worlds
    ]


def _shape(way: BrokenPromise) -> str:
    known = f"known: {way.newest.known}" if way.newest.known else ""
    words = "; ".join(_plain(text, 120) for text in (way.newest.shape, known) if text)
    return f" ({words})" if words else ""


def _changed(site: Site) -> list[str]:
    return [
        f"**{each.kind}** {_plain(each.requirement, 40)}, {_plain(each.subject, 60)}: "
        f"{_then(each.before, each.version_before, 'before')}, "
        f"{_then(each.after, each.version_after, 'now')}"
        for each in site.changes
    ]


def _then(status: Shown | None, version: str, otherwise: str) -> str:
    """A status with its version, or with *before* or *now* if the version is unknown."""
    where = f"in {_plain(version, 40)}" if version else otherwise
    return f"{status or 'no result'} {where}"


def _flaky(site: Site) -> list[str]:
    return [
        f"{_plain(row.requirement, 40)}, {_plain(row.subject, 60)} {_plain(row.version, 40)}: "
        f"kept in {plural(row.held, 'run')}, broken in {plural(row.broken, 'run')}"
        for row in site.rows.flaky
    ]


def _problems(site: Site) -> list[str]:
    return [f"{_plain(each.path)}: {_plain(each.what)}" for each in site.rows.problems]


def _plain(text: str, limit: int = 200) -> str:
    """``text`` on one line, with all markup of Markdown and HTML escaped."""
    return _SPECIAL.sub(r"\\\1", cell(text, limit))
