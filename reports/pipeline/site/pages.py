"""The pages of the report site: files that need no network, no server and no other program.

Every string in a page is escaped by :mod:`~streamproof.reports.templating`. Links are made of names
of pages, which come from :func:`~streamproof.reports.pipeline.site.page_names.page_names`, and
never of text. The pages' own security policy forbids any script and style but the site's, and
loading anything else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from streamproof.conformance.verdict_rule import Shown
from streamproof.reports.pipeline.site import charts, phrases, templates
from streamproof.reports.pipeline.site.site_builder import CHANGES, Site, VersionSeries
from streamproof.reports.pipeline.site.site_data import Distribution, Promise
from streamproof.reports.report_view import StatusTally
from streamproof.reports.safe_text import cell
from streamproof.reports.templating import asset, environment
from streamproof.reports.wording import OUTCOMES, STATUSES, STRENGTHS
from streamproof.sim.defects import DEFECTS

__all__ = ["MOST_ROWS", "render_pages"]

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")

MOST_ROWS = 1000
"""How many rows a long table shows; the CSV file beside the page has all of them."""

MOST_FAILING = 50
"""How many ways in which worlds fail are shown in full."""

PAGES = {
    "index": "Overview",
    "matrix": "Matrix",
    "failures": "Failures",
    "worlds": "Worlds",
    "changes": "Changes",
    "trends": "Trends",
    "evidence": "Evidence",
    "flaky": "Flaky",
    "problems": "Problems",
    "runs": "Runs",
    "legend": "Legend",
    "document": "Document",
}
"""The pages at the top of the site, and what the navigation calls them."""


PROBLEM_KINDS = {
    "unreadable": "The file is no log or table, or is cut off. Nothing in the file counts.",
    "newer": "A newer streamproof wrote the file, and this version cannot read it. Upgrade.",
    "too large": "The file is larger than the largest file that is read.",
    "duplicate": "The same run was read twice. It counts once.",
    "conflict": "Two logs of one run differ. The log with more broken promises counts.",
    "same id": "Different runs have the same id. All of them count.",
}
"""The meaning of each kind of problem, and its consequence."""


def render_pages(site: Site) -> Iterator[tuple[str, bytes]]:
    """Every file of the site: its path, with ``/``, and what is in it.

    The same rows give the same bytes, in the same order.
    """
    style = asset("report.css") + "\n" + asset("site.css", templates) + _page_foot(site)
    yield "assets/site.css", style.encode()
    yield "assets/site.js", (asset("common.js") + asset("site.js", templates)).encode()
    yield "assets/search.js", _search_index(site).encode()
    for name in PAGES:
        yield f"{name}.html", _page(site, name, "", page=name)
    for subject, series in site.subjects.items():
        values = {"subject": subject, "all_series": series, "about": _about(site, subject)}
        yield f"subjects/{series[0].page}.html", _page(site, "subject", "../", **values)
    for promise in site.promises.values():
        path = f"requirements/{site.requirement_pages[promise.requirement]}.html"
        yield path, _page(site, "requirement", "../", **_requirement(site, promise))
    for failure in site.failures:
        yield f"failures/{failure.page}.html", _page(site, "failure", "../", failure=failure)


def _page_foot(site: Site) -> str:
    """The foot of every printed page, so that no page can be put into another report."""
    words = f"streamproof compliance report {site.digest}"
    return f'@page {{ @bottom-left {{ content: "{words}"; }} }}\n'


def _page(site: Site, name: str, root: str, page: str = "", **values: Any) -> bytes:
    template = _environment().get_template(f"{name}.html.j2")
    return template.render(site=site, root=root, page=page, **values).encode()


def _search_index(site: Site) -> str:
    """The search index as a script, because a page that was opened from a disk cannot fetch."""
    found: list[tuple[str, str, str]] = []
    for subject, series in site.subjects.items():
        found.append((cell(subject), "subject", f"subjects/{series[0].page}.html"))
    for promise in site.promises.values():
        text = cell(f"{promise.requirement} {promise.title}")
        page = site.requirement_pages[promise.requirement]
        found.append((text, "requirement", f"requirements/{page}.html"))
    for failure in site.failures:
        parts = (failure.promise.requirement, failure.newest.shape, failure.series.label)
        text = cell(" ".join(part for part in parts if part))
        found.append((text, "failure", f"failures/{failure.page}.html"))
    # ASCII, and no less-than sign: whatever shows or embeds this cannot take it for markup.
    text = json.dumps(found).replace("<", "\\u003c")
    return f'"use strict";\nwindow.streamproofPages = {text};\n'


def _about(site: Site, subject: str) -> Any:
    """The newest version's description of itself, if it has one."""
    newest = site.subjects[subject][0].version
    rows = [row for row in site.rows.subjects if row.subject == subject]
    return next((row for row in rows if row.version == newest), rows[-1] if rows else None)


def _requirement(site: Site, promise: Promise) -> dict[str, Any]:
    requirement = promise.requirement
    asked = [series for series in site.series if requirement in series.rows]
    return {
        "promise": promise,
        "asked": asked,
        "failures": [each for each in site.failures if each.promise.requirement == requirement],
        "flaky": [row for row in site.rows.flaky if row.requirement == requirement],
        "intervals": _intervals(requirement, asked),
        "mutants": max(
            (cell.mutants for series in asked for cell in _cells(series, requirement)), default=0
        ),
    }


def _cells(series: VersionSeries, requirement: str) -> list[Any]:
    return [each for each in series.rows[requirement] if each is not None]


def _intervals(requirement: str, asked: list[VersionSeries]) -> list[charts.Interval]:
    """The intervals of the newest versions whose processes were killed."""
    found = []
    for series in asked:
        cell = series.newest.get(requirement)
        if cell and cell.low is not None and cell.high is not None:
            found.append(charts.Interval(series.label, cell.low, cell.high, bool(cell.caught)))
    return found


@cache
def _environment() -> Environment:
    found = environment(templates)
    found.globals.update(
        pages=PAGES,
        statuses=STATUSES,
        outcomes=OUTCOMES,
        strengths=STRENGTHS,
        changes=CHANGES,
        not_kept=charts.NOT_KEPT,
        most_rows=MOST_ROWS,
        most_failing=MOST_FAILING,
        defects=DEFECTS,
        problem_kinds=PROBLEM_KINDS,
        phrases=phrases,
        strip=charts.strip,
        columns=_columns,
        lines=charts.lines,
        interval_chart=charts.intervals,
        quantiles=charts.quantiles,
        measures=_measures,
        days=_days,
        daily_points=_daily_points,
        by_seed=_by_seed,
        batches=_batches,
        both=_both,
    )
    found.filters.update(percent=_percent, share=_share, when=_when)
    return found


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _share(share: float) -> str:
    return f"{100 * share:.1f} %"


def _when(started_at: str) -> str:
    """A time to the second, as people read it; any other text stays as it is."""
    if _MOMENT.match(started_at):
        return f"{started_at[:10]} {started_at[11:19]}"
    return cell(started_at, 40)


def _both(tallies: tuple[StatusTally, StatusTally]) -> StatusTally:
    """Core and extended requirements together."""
    core, extended = tallies
    return StatusTally(
        {status: core.counts[status] + extended.counts[status] for status in STATUSES}
    )


def _columns(series: VersionSeries, label: str) -> Markup:
    tallies = [_both(each).counts for each in series.tallies]
    return charts.columns(tallies, [version or "–" for version in series.versions], label)


def _measures(found: tuple[Distribution, ...]) -> dict[str, list[Distribution]]:
    """Distributions by measure: one chart has one unit."""
    measures: dict[str, list[Distribution]] = {}
    for each in found:
        measures.setdefault(each.measure, []).append(each)
    return measures


def _days(site: Site) -> list[tuple[str, float, int]]:
    """For each day, the share of tested requirements that were kept, and how many were tested."""
    totals: dict[str, dict[Shown, int]] = {}
    for day in site.rows.days:
        total = totals.setdefault(day.date, dict.fromkeys(STATUSES, 0))
        for status, count in day.counts.items():
            total[status] += count
    tallies = {date: StatusTally(total) for date, total in sorted(totals.items())}
    return [
        (date, tally.passed / tally.asked, tally.asked)
        for date, tally in tallies.items()
        if tally.asked
    ]


def _daily_points(days: list[tuple[str, float, int]]) -> list[tuple[str, float]]:
    return [(date, share) for date, share, _ in days]


def _by_seed(site: Site) -> str:
    """The seeds of all runs, the first twelve in full."""
    seeds = sorted({run.seed for run in site.rows.runs})
    shown = ", ".join(map(str, seeds[:12]))
    return shown + (f" and {len(seeds) - 12:,} more" if len(seeds) > 12 else "")


def _batches(all_series: tuple[VersionSeries, ...], size: int) -> list[tuple[VersionSeries, ...]]:
    """Groups of subjects that fit beside each other on paper."""
    return [all_series[start : start + size] for start in range(0, len(all_series), size)]
