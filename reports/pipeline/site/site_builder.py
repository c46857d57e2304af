"""Arranges the rows of many runs for reading.

Statuses and verdicts are those of the rows, with one exception: a verdict that is better than the
statuses allow is lowered to the best verdict that they allow. A requirement without a row for a
version is shown as *no result*, and never as kept.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby

import msgspec

from streamproof.conformance.catalogue import AREAS
from streamproof.conformance.verdict_rule import (
    LEVELS,
    Outcome,
    RatedStatus,
    Shown,
    badness,
    best_verdict,
    worst,
)
from streamproof.reports.pipeline.site.page_names import page_names
from streamproof.reports.pipeline.site.site_data import (
    ChangeKind,
    Flaky,
    Promise,
    SiteCell,
    SiteFailure,
    SiteRows,
    StatusChange,
    VerdictRow,
    WorldFailure,
    WorldTotals,
)
from streamproof.reports.report_view import StatusTally
from streamproof.reports.wording import STATUSES

__all__ = [
    "CHANGES",
    "BrokenPromise",
    "Key",
    "Site",
    "VersionSeries",
    "area_of",
    "arrange",
    "kind_of_change",
    "version_key",
]

Key = tuple[str, str]
"""Subject and guarantee; each version of such a pair has one verdict."""

CHANGES: dict[ChangeKind, str] = {
    "broken": "The requirement fails now, and did not fail before.",
    "fixed": "The requirement failed before, and was now tried and held.",
    "changed": "The status changed in another way; a requirement that is skipped now is not fixed.",
    "added": "There was no result before.",
    "removed": "There is no result now.",
}
"""Every kind of change and its meaning, the most pressing first."""

_AREAS = list(AREAS)
_FAILED: frozenset[Shown] = frozenset({"fail", "known"})
_WORD = re.compile(r"\d+|[A-Za-z]+")


@dataclass(frozen=True)
class VersionSeries:
    """The versions of one subject under one guarantee, the newest last: that tested last.

    Attributes:
        label: its name in this report: the subject, with the guarantee if there are several.
        page: of the subject, without folder and suffix.
        rows: the cells of each requirement, one for each version, ``None`` without a result.
        outcomes: the verdict on each version.
        tallies: the statuses of each version: core, and extended requirements.
    """

    subject: str
    guarantee: str
    label: str
    page: str
    versions: tuple[str, ...]
    rows: dict[str, tuple[SiteCell | None, ...]]
    outcomes: tuple[Outcome, ...]
    tallies: tuple[tuple[StatusTally, StatusTally], ...]

    @property
    def key(self) -> Key:
        return self.subject, self.guarantee

    @property
    def anchor(self) -> str:
        """Where the series is on the page of its subject."""
        return page_names([self.guarantee])[self.guarantee]

    @property
    def version(self) -> str:
        """The newest version."""
        return self.versions[-1]

    @property
    def outcome(self) -> Outcome:
        """The verdict on the newest version."""
        return self.outcomes[-1]

    @property
    def core(self) -> StatusTally:
        return self.tallies[-1][0]

    @property
    def extended(self) -> StatusTally:
        return self.tallies[-1][1]

    @property
    def broken(self) -> int:
        return self.core.broken + self.extended.broken

    @cached_property
    def newest(self) -> dict[str, SiteCell]:
        """The cells of the newest version, by requirement."""
        return {key: cells[-1] for key, cells in self.rows.items() if cells[-1] is not None}

    def count(self, status: Shown) -> int:
        """How many requirements have the status in the newest version."""
        return self.core.counts[status] + self.extended.counts[status]

    def status(self, requirement: str) -> Shown:
        cell = self.newest.get(requirement)
        return cell.status if cell else "no result"

    def statuses(self, requirement: str) -> tuple[Shown, ...]:
        """The status in each version."""
        cells = self.rows.get(requirement, (None,) * len(self.versions))
        return tuple(cell.status if cell else "no result" for cell in cells)

    def since(self, requirement: str) -> str:
        """The first version with the present status, after which the status did not change."""
        statuses = self.statuses(requirement)
        index = len(statuses) - 1
        while index and statuses[index - 1] == statuses[-1]:
            index -= 1
        return self.versions[index]


@dataclass(frozen=True)
class BrokenPromise:
    """One way in which a promise is broken, over all runs and versions that found it.

    Attributes:
        records: as the runs found it, the newest version first.
        versions: the oldest first.
        now: whether the newest version of the subject fails the requirement in this way.
    """

    page: str
    series: VersionSeries
    promise: Promise
    records: tuple[SiteFailure, ...]
    versions: tuple[str, ...]
    now: bool

    @property
    def newest(self) -> SiteFailure:
        return self.records[0]

    @property
    def of_baseline(self) -> bool:
        """Whether only the baseline has this failure."""
        return self.newest.of_baseline


@dataclass(frozen=True)
class Site:
    """The whole content of the pages.

    Attributes:
        outcome: the worst verdict on a subject, or that of simulated worlds if it is worse.
        areas: the requirements of each area, with its name, in the order of the catalogue.
        failures: those of the newest versions first, and the worst of them first.
        changes: the most pressing first.
        requirement_pages: of each requirement, without folder and suffix.
    """

    rows: SiteRows
    outcome: Outcome
    series: tuple[VersionSeries, ...]
    areas: tuple[tuple[str, str, tuple[Promise, ...]], ...]
    failures: tuple[BrokenPromise, ...]
    changes: tuple[StatusChange, ...]
    requirement_pages: dict[str, str]

    @cached_property
    def is_part(self) -> bool:
        """Whether every run asked only a part of the requirements."""
        runs = self.rows.runs
        return bool(runs) and all(" --only " in run.command for run in runs)

    @cached_property
    def broken_now(self) -> tuple[BrokenPromise, ...]:
        """The failures that newest versions have."""
        return tuple(failure for failure in self.failures if failure.now)

    @cached_property
    def honest_worlds(self) -> tuple[WorldTotals, ...]:
        """The worlds without a deliberate mistake, in which every promise must hold."""
        return tuple(each for each in self.rows.worlds if not each.defect)

    @cached_property
    def defects(self) -> dict[str, tuple[tuple[WorldTotals, ...], tuple[WorldFailure, ...]]]:
        """The worlds with each deliberate mistake, and their failures."""
        return {
            name: (
                tuple(each for each in self.rows.worlds if each.defect == name),
                tuple(each for each in self.rows.world_failures if each.defect == name),
            )
            for name in sorted({each.defect for each in self.rows.worlds if each.defect})
        }

    @cached_property
    def failing_worlds(self) -> tuple[WorldFailure, ...]:
        """The failures of worlds without a deliberate mistake, those without an answer last."""
        found = [each for each in self.rows.world_failures if not each.defect]
        return tuple(sorted(found, key=lambda each: (each.outcome == "error", -each.worlds)))

    @cached_property
    def digest(self) -> str:
        """16 hexadecimal digits that follow from all rows of the report, in any order."""
        found = hashlib.sha256()
        for name in SiteRows.__struct_fields__:
            value = getattr(self.rows, name)
            # Values without the names of classes, which may change from release to release.
            rows = sorted(map(_values, value)) if isinstance(value, tuple) else [value]
            found.update("\n".join([name, *rows, ""]).encode("utf-8", "backslashreplace"))
        return found.hexdigest()[:16]

    @cached_property
    def by_key(self) -> dict[Key, VersionSeries]:
        return {series.key: series for series in self.series}

    @cached_property
    def promises(self) -> dict[str, Promise]:
        return {each.requirement: each for _, _, promises in self.areas for each in promises}

    @cached_property
    def subjects(self) -> dict[str, tuple[VersionSeries, ...]]:
        """The series of each subject."""
        found: dict[str, list[VersionSeries]] = defaultdict(list)
        for series in self.series:
            found[series.subject].append(series)
        return {subject: tuple(each) for subject, each in found.items()}

    @cached_property
    def failures_of(self) -> dict[tuple[Key, str], tuple[BrokenPromise, ...]]:
        """The failures by series and requirement."""
        found: dict[tuple[Key, str], list[BrokenPromise]] = defaultdict(list)
        for failure in self.failures:
            found[failure.series.key, failure.promise.requirement].append(failure)
        return {key: tuple(each) for key, each in found.items()}

    @cached_property
    def flaky_of(self) -> dict[tuple[Key, str], list[Flaky]]:
        found: dict[tuple[Key, str], list[Flaky]] = defaultdict(list)
        for row in self.rows.flaky:
            found[(row.subject, row.guarantee), row.requirement].append(row)
        return dict(found)

    @cached_property
    def flaky(self) -> list[Flaky]:
        """The flaky results, those of the newest versions first."""

        def is_old(row: Flaky) -> bool:
            series = self.by_key.get((row.subject, row.guarantee))
            return series is None or row.version != series.version

        return sorted(self.rows.flaky, key=is_old)

    @cached_property
    def changed(self) -> Counter[ChangeKind]:
        return Counter(change.kind for change in self.changes)

    @cached_property
    def worst_first(self) -> list[VersionSeries]:
        def key(series: VersionSeries) -> tuple[int, int, int]:
            return badness(series.outcome), -series.core.broken, -series.extended.broken

        return sorted(self.series, key=key)

    @cached_property
    def weak(self) -> list[tuple[Promise, tuple[VersionSeries, ...]]]:
        """The promises kept on weak evidence, with their subjects, the most often weak first."""
        found = []
        for promise in self.promises.values():
            weak = tuple(
                series
                for series in self.series
                if (cell := series.newest.get(promise.requirement))
                and cell.status == "pass"
                and cell.strength in ("weak", "example only")
            )
            if weak:
                found.append((promise, weak))
        return sorted(found, key=lambda each: -len(each[1]))

    @cached_property
    def never_tried(self) -> list[Promise]:
        """Requirements that were tested for no newest version of any subject."""
        tried: frozenset[Shown] = frozenset({"pass", "fail", "known"})
        return [
            promise
            for promise in self.promises.values()
            if not any(series.status(promise.requirement) in tried for series in self.series)
        ]


def _values(row: object) -> str:
    return repr(msgspec.structs.astuple(row) if isinstance(row, msgspec.Struct) else row)


def arrange(rows: SiteRows) -> Site:
    """Arranges rows for the pages."""
    promises = _by_area(rows)
    known = {each.requirement: each for each in promises}
    series = _all_series(rows, known)
    areas = tuple(
        (code, AREAS.get(code, code), tuple(each))
        for code, each in groupby(promises, key=lambda promise: area_of(promise.requirement))
    )
    changes = rows.changes if rows.baseline else tuple(_since_last(series))
    return Site(
        rows=rows,
        outcome=_outcome(rows, series),
        series=series,
        areas=areas,
        failures=_failures(rows, series, known),
        changes=tuple(sorted(changes, key=_change_key)),
        requirement_pages=page_names(known),
    )


def _outcome(rows: SiteRows, all_series: tuple[VersionSeries, ...]) -> Outcome:
    """The worst verdict on a subject; a world that fails is a failure, whatever the subjects do."""
    found = [series.outcome for series in all_series]
    honest = [each for each in rows.worlds if not each.defect]
    if any(each.broken for each in honest):
        found.append("failure")
    elif any(each.silent for each in honest):
        found.append("error")
    elif honest and not found:
        found.append("success")
    return worst(found) if found else "error"


def version_key(version: str) -> tuple[tuple[int, int, str], ...]:
    """Sorts versions as people do: 1.9 before 1.10, and 2.0rc1 before 2.0.

    It decides between versions that were tested at the same time.
    """
    words = _WORD.findall(version)
    key = [(2, int(word[:18]), "") if word.isdecimal() else (0, 0, word) for word in words]
    return (*key, (1, 0, version))


def area_of(requirement: str) -> str:
    """The area of a requirement's id."""
    return requirement.rpartition("-")[0] or requirement


def kind_of_change(before: Shown | None, after: Shown | None) -> ChangeKind | None:
    """How the status of a requirement changed; ``None`` if it is the same."""
    if before == after:
        return None
    if before is None:
        return "added"
    if after is None:
        return "removed"
    if after == "fail":
        return "broken"
    return "fixed" if before in _FAILED and after == "pass" else "changed"


def _by_area(rows: SiteRows) -> list[Promise]:
    """All requirements in the order of the catalogue, with those that only some rows name."""
    known = {each.requirement: each for each in rows.promises}
    mentioned = {
        *(row.requirement for row in rows.cells),
        *(row.requirement for row in rows.failures),
        *(row.requirement for row in rows.changes),
        *(row.requirement for row in rows.flaky),
    }
    for requirement in mentioned - known.keys():
        known[requirement] = Promise(requirement=requirement, title="", level="MUST", core=True)

    def place(promise: Promise) -> tuple[int, str, str]:
        area = area_of(promise.requirement)
        index = _AREAS.index(area) if area in _AREAS else len(_AREAS)
        return index, area, promise.requirement

    return sorted(known.values(), key=place)


def _all_series(rows: SiteRows, known: dict[str, Promise]) -> tuple[VersionSeries, ...]:
    cells: dict[Key, dict[str, dict[str, SiteCell]]] = defaultdict(lambda: defaultdict(dict))
    for cell in rows.cells:
        key = (cell.subject, cell.guarantee)
        cells[key][cell.version][cell.requirement] = cell
    stated: dict[Key, dict[str, VerdictRow]] = defaultdict(dict)
    for row in rows.verdicts:
        stated[row.subject, row.guarantee][row.version] = row
    keys = sorted({*cells, *stated})
    labels = _labels(keys)
    pages = page_names(subject for subject, _ in keys)
    return tuple(
        _series(
            key,
            label=labels[key],
            page=pages[key[0]],
            cells=cells[key],
            stated=stated[key],
            known=known,
        )
        for key in keys
    )


def _labels(keys: Sequence[Key]) -> dict[Key, str]:
    """The shortest unique names of the series, with the guarantee only if there are several."""
    several = len({guarantee for _, guarantee in keys}) > 1
    return {key: f"{key[0]} ({key[1]})" if several else key[0] for key in keys}


def _series(
    key: Key,
    *,
    label: str,
    page: str,
    cells: dict[str, dict[str, SiteCell]],
    stated: dict[str, VerdictRow],
    known: dict[str, Promise],
) -> VersionSeries:
    def age(version: str) -> tuple[str, tuple[tuple[int, int, str], ...]]:
        return (stated[version].latest_at if version in stated else ""), version_key(version)

    versions = sorted({*cells, *stated}, key=age)
    by_version = [cells.get(version, {}) for version in versions]
    # A newer version must answer for every requirement that an older one was tested for. A new
    # requirement is not held against versions that were tested before it existed.
    asked = [
        sorted(due)
        for due in accumulate((found.keys() for found in by_version), lambda a, b: a | b)
    ]
    return VersionSeries(
        *key,
        label=label,
        page=page,
        versions=tuple(versions),
        rows={each: tuple(found.get(each) for found in by_version) for each in asked[-1]},
        outcomes=tuple(
            worst(
                [
                    stated[version].verdict if version in stated else "incomplete",
                    _best_possible(found, due, known),
                ]
            )
            for version, found, due in zip(versions, by_version, asked, strict=True)
        ),
        tallies=tuple(
            (
                _tally(found, [each for each in due if known[each].core]),
                _tally(found, [each for each in due if not known[each].core]),
            )
            for found, due in zip(by_version, asked, strict=True)
        ),
    )


def _tally(found: dict[str, SiteCell], requirements: list[str]) -> StatusTally:
    """The statuses of these requirements in one version; a missing result is counted as such."""
    counts: dict[Shown, int] = dict.fromkeys(STATUSES, 0)
    for requirement in requirements:
        counts[_shown(found, requirement)] += 1
    return StatusTally(counts)


def _best_possible(
    found: dict[str, SiteCell], asked: list[str], known: dict[str, Promise]
) -> Outcome:
    """The best verdict that the statuses allow; a version without any result is an error."""
    if not found:
        return "error"
    promises = (known[each] for each in asked)
    return best_verdict(
        RatedStatus(promise.level, promise.core, _shown(found, promise.requirement))
        for promise in promises
    )


def _shown(found: dict[str, SiteCell], requirement: str) -> Shown:
    return found[requirement].status if requirement in found else "no result"


def _failures(
    rows: SiteRows, all_series: tuple[VersionSeries, ...], known: dict[str, Promise]
) -> tuple[BrokenPromise, ...]:
    """One for each series, requirement and shape."""
    by_key = {series.key: series for series in all_series}
    ways: dict[tuple[Key, str, str], list[SiteFailure]] = defaultdict(list)
    for row in rows.failures:
        key = (row.subject, row.guarantee)
        if key in by_key:
            ways[key, row.requirement, row.shape].append(row)
    names = page_names(_way_name(*way) for way in ways)
    found = [
        _broken(names[_way_name(*way)], by_key[way[0]], known[way[1]], records)
        for way, records in ways.items()
    ]
    order = list(known)

    def urgency(failure: BrokenPromise) -> tuple[bool, bool, int, bool, int, str]:
        promise = failure.promise
        return (
            not failure.now,
            bool(failure.newest.known),
            LEVELS.index(promise.level),
            not promise.core,
            order.index(promise.requirement),
            failure.page,
        )

    return tuple(sorted(found, key=urgency))


def _way_name(key: Key, requirement: str, shape: str) -> str:
    return "-".join(part for part in (requirement, shape, *key) if part)


def _broken(
    page: str, series: VersionSeries, promise: Promise, records: list[SiteFailure]
) -> BrokenPromise:
    order = {version: place for place, version in enumerate(series.versions)}

    def age(row: SiteFailure) -> tuple[bool, int, str]:
        return not row.of_baseline, order.get(row.version, -1), row.run_id

    newest_first = sorted(records, key=age, reverse=True)
    return BrokenPromise(
        page=page,
        series=series,
        promise=promise,
        records=tuple(newest_first),
        versions=tuple(dict.fromkeys(row.version for row in reversed(newest_first))),
        now=series.status(promise.requirement) in _FAILED
        and newest_first[0].version == series.version
        and not newest_first[0].of_baseline,
    )


def _since_last(all_series: tuple[VersionSeries, ...]) -> Iterable[StatusChange]:
    """What changed between the last two versions of each series."""
    for series in all_series:
        if len(series.versions) < 2:
            continue
        for requirement, cells in series.rows.items():
            before, after = (cell.status if cell else None for cell in cells[-2:])
            if kind := kind_of_change(before, after):
                yield StatusChange(
                    subject=series.subject,
                    guarantee=series.guarantee,
                    requirement=requirement,
                    kind=kind,
                    before=before,
                    after=after,
                    version_before=series.versions[-2],
                    version_after=series.version,
                )


def _change_key(change: StatusChange) -> tuple[int, str, str, str]:
    kinds = list(CHANGES)
    return (
        kinds.index(change.kind),
        change.requirement,
        change.subject,
        change.guarantee,
    )
