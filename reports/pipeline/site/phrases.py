"""The sentences of a report on many runs."""

from __future__ import annotations

from streamproof.conformance.failure_groups import broken_words
from streamproof.conformance.verdict_rule import Outcome
from streamproof.reports.pipeline.site.site_builder import CHANGES, Site, VersionSeries
from streamproof.reports.pipeline.site.site_data import WorldTotals
from streamproof.reports.safe_text import cell
from streamproof.reports.wording import plural

__all__ = [
    "clause",
    "compared",
    "headline",
    "period",
    "simulated",
    "subline",
    "worlds_clause",
    "worlds_name",
]

_MANY: dict[Outcome, str] = {
    "failure": "{} a promise of level MUST",
    "error": "{} a requirement without an answer",
    "incomplete": "{} no verdict",
    "partial": "{} a partial verdict",
}
_VERBS: dict[Outcome, tuple[str, str]] = {
    "failure": ("breaks", "break"),
    "error": ("leaves", "leave"),
    "incomplete": ("has", "have"),
    "partial": ("has", "have"),
}


def headline(site: Site) -> str:
    """The report in one sentence without its full stop: the worst finding, in calm words."""
    worlds = site.honest_worlds
    if not site.series:
        return (
            f"No store was verified; {worlds_clause(site)}" if worlds else "No subject was tested"
        )
    failing = any(each.broken or each.silent for each in worlds)
    part = ", in runs of a part of the requirements (--only)" if site.is_part else ""
    return _of_subjects(site) + part + (f"; {worlds_clause(site)}" if failing else "")


def _of_subjects(site: Site) -> str:
    if len(site.series) == 1:
        return clause(site.series[0])
    outcome = site.worst_first[0].outcome
    if outcome == "success":
        return f"All {len(site.series)} subjects keep every core requirement asked of them"
    count = sum(series.outcome == outcome for series in site.series)
    words = _MANY[outcome].format(_VERBS[outcome][count != 1])
    return f"{count} of {plural(len(site.series), 'subject')} {words}"


def subline(site: Site) -> str:
    """The evidence behind the headline, and the changes."""
    runs = site.rows.runs
    words = []
    if site.series:
        seeds = plural(len({run.seed for run in runs}), "seed")
        on = f"on {plural(len(runs), 'run')} with {seeds}{_from_to(site)}"
        words.append(f"The newest version of each subject, {on}.")
    if site.rows.worlds:
        words.append(simulated(site))
    if site.changes:
        words.append(f"{compared(site)}: {_counted(site)}.")
    return " ".join(words)


def simulated(site: Site) -> str:
    """How many worlds and scenarios campaigns have simulated, as a sentence."""
    kinds = (("simulate", "world"), ("scenario", "scenario"))
    counts = [
        (sum(each.count for each in site.rows.worlds if each.kind == kind), noun)
        for kind, noun in kinds
    ]
    words = " and ".join(plural(count, noun) for count, noun in counts if count)
    if not words:
        return "No world was simulated."
    wrong = sum(each.count for each in site.rows.worlds if each.defect)
    aside = f", {wrong:,} of them with a deliberate mistake" if wrong else ""
    return f"{words} {'was' if words.startswith('1 ') else 'were'} simulated{aside}."


def worlds_clause(site: Site) -> str:
    """The outcome of the worlds without a deliberate mistake."""
    count, broken, silent = (
        sum(getattr(each, name) for each in site.honest_worlds)
        for name in ("count", "broken", "silent")
    )
    if not count:
        return "no world was simulated without a deliberate mistake"
    of = f"of {plural(count, 'simulated world')}"
    parts = [f"{broken:,} {of} {'breaks' if broken == 1 else 'break'} a promise"] if broken else []
    if silent:
        verb = "gives" if silent == 1 else "give"
        parts.append(
            f"{silent:,} {verb} no answer" if parts else f"{silent:,} {of} {verb} no answer"
        )
    return " and ".join(parts) or f"{plural(count, 'simulated world')} broke no promise"


def worlds_name(worlds: WorldTotals) -> str:
    """The settings that a group of worlds shares."""
    kind = "scenarios" if worlds.kind == "scenario" else "worlds"
    guarantee = f", {worlds.guarantee}" if worlds.guarantee else ""
    return cell(f"{kind} with {worlds.subject or 'model stores'}{guarantee}")


def compared(site: Site) -> str:
    """The state that the changes are compared with."""
    if site.rows.baseline:
        return f"Compared with the baseline, {cell(site.rows.baseline, 120)}"
    return "Compared with the version before"


def _counted(site: Site) -> str:
    return ", ".join(f"{site.changed[kind]:,} {kind}" for kind in CHANGES if site.changed[kind])


def clause(series: VersionSeries) -> str:
    """The findings about the newest version of a subject, in a few words after its name."""
    name = cell(f"{series.label} {series.version}".strip(), 100)
    core, extended = series.core, series.extended
    if series.broken:
        broken, asked = core.broken + extended.broken, core.asked + extended.asked
        return f"{name} {broken_words(broken, asked, core.broken, 0)}"
    silent = series.count("error")
    untried = core.counts["skip"] + core.counts["no result"]
    if series.outcome == "incomplete":
        return f"{name} has no verdict"
    if silent:
        return f"{name} left {plural(silent, 'requirement')} without an answer"
    if known := series.count("known"):
        return f"{name} breaks {plural(known, 'requirement')}, in ways that are known"
    if untried:
        return f"{name} breaks nothing, but {plural(untried, 'core requirement')} went untried"
    if core.asked and core.passed == core.asked:
        return f"{name} keeps all {plural(core.asked, 'core requirement')}"
    return f"{name} keeps {core.passed + extended.passed} of {core.asked + extended.asked}"


def period(site: Site) -> tuple[str, str]:
    """The days on which the first and the last run started, UTC; empty without a run."""
    days = sorted(run.started_at[:10] for run in site.rows.runs if run.started_at)
    return (days[0], days[-1]) if days else ("", "")


def _from_to(site: Site) -> str:
    first, last = period(site)
    if not first:
        return ""
    return f", on {first}" if first == last else f", from {first} to {last}"
