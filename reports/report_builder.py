"""Arranges a run log for reading.

The builder does not trust a run to have gone well. A log without a footer is *incomplete*, whatever
its results are. A requirement without a result is shown as *no result*. A stated verdict that is
better than the results allow is lowered to the best verdict that they allow.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from itertools import groupby

from streamproof.conformance.catalogue import AREAS, load_catalogue
from streamproof.conformance.failure_groups import group_failures
from streamproof.conformance.results import (
    CheckRecord,
    Failure,
    Footer,
    RequirementResult,
    Strength,
    SubjectInfo,
    Verdict,
)
from streamproof.conformance.verdict_rule import (
    Outcome,
    RatedStatus,
    Shown,
    best_verdict,
    worst,
)
from streamproof.reports.report_view import (
    Area,
    Evidence,
    FailureGroupView,
    FailureView,
    ReportCell,
    ReportRow,
    ReportView,
    StatusTally,
    SubjectView,
)
from streamproof.reports.run_log import RunLog
from streamproof.reports.wording import STATUSES, STRENGTHS

__all__ = ["build_view"]

_AREAS = list(AREAS)


class _Anchors:
    """Names for places in a page: readable, harmless in a URL, and unique."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def give(self, *parts: str) -> str:
        slugs = (re.sub(r"[^A-Za-z0-9._]+", "-", part).strip("-")[:80] for part in parts)
        wanted = "-".join(slugs)
        name, number = wanted, 1
        while name in self._given:
            number += 1
            name = f"{wanted}-{number}"
        self._given.add(name)
        return name


def build_view(log: RunLog) -> ReportView:
    """Arranges a run log for the reports."""
    anchors = _Anchors()
    results = {(result.subject, result.requirement): result for result in log.results}
    known = _requirements(log)
    groups = _groups(log, known, anchors)
    failures = [each for group in groups for each in (group.first, *group.others)]
    rows = [_row(known[key], log.header.subjects, results, failures, anchors) for key in known]
    rows.sort(key=lambda row: (*_area_key(row.area), row.urgency, row.requirement))
    areas = sorted(
        (
            _area_of(code, tuple(each), len(log.header.subjects))
            for code, each in groupby(rows, key=lambda row: row.area)
        ),
        # Within each kind, the areas keep their order.
        key=lambda area: area.rows[0].urgency,
    )
    causes = Counter(each.first.record.subject for each in groups if not each.first.record.known)
    subjects = tuple(
        _subject(info, rows, log, causes[info.name], anchors) for info in log.header.subjects
    )
    return ReportView(
        header=log.header,
        footer=log.footer,
        outcome=_outcome(log.footer, subjects),
        subjects=subjects,
        areas=tuple(areas),
        groups=groups,
        notes=tuple(log.notes),
    )


def _outcome(footer: Footer | None, subjects: tuple[SubjectView, ...]) -> Outcome:
    if footer is None:
        return "incomplete"
    if not subjects:
        return "error"
    return worst([footer.verdict, *(subject.outcome for subject in subjects)])


def _area_of(code: str, rows: tuple[ReportRow, ...], subjects: int) -> Area:
    return Area(
        code=code,
        name=AREAS.get(code, code),
        rows=rows,
        tallies=tuple(_tally(row.cells[index].status for row in rows) for index in range(subjects)),
    )


def _area(requirement: str) -> str:
    return requirement.rpartition("-")[0] or requirement


def _area_key(area: str) -> tuple[int, str]:
    return (_AREAS.index(area) if area in _AREAS else len(_AREAS), area)


def _requirements(log: RunLog) -> dict[str, RequirementResult | Failure]:
    """The first record about each requirement in the log, in the order of the records.

    If a run died between a failure and its result, the failure stands for the requirement.
    """
    known: dict[str, RequirementResult | Failure] = {}
    records: list[RequirementResult | Failure] = [*log.results, *log.failures]
    for record in records:
        known.setdefault(record.requirement, record)
    for requirement in log.header.requirements:
        known.setdefault(requirement, _never_reached(requirement))
    return known


def _never_reached(requirement: str) -> RequirementResult:
    """Stands for a requirement that was planned, but has no record in the log."""
    return RequirementResult(
        subject="",
        requirement=requirement,
        title="not reached before the run ended",
        promise="",
        source="",
        level="MUST",
        core=True,
        status="skip",
    )


def _groups(
    log: RunLog, known: dict[str, RequirementResult | Failure], anchors: _Anchors
) -> tuple[FailureGroupView, ...]:
    """All failures by cause; a failed result without a failure record counts as well."""
    recorded = {(failure.subject, failure.requirement) for failure in log.failures}
    bare = [
        Failure(
            subject=result.subject,
            requirement=result.requirement,
            check=", ".join(result.checks),
            title=result.title,
            promise=result.promise,
            source=result.source,
            level=result.level,
            core=result.core,
            tried="",
            program="",
            expected="",
            found=result.reason,
            reproduce=log.header.command,
        )
        for result in log.results
        if result.status == "fail" and (result.subject, result.requirement) not in recorded
    ]

    def viewed(failure: Failure, same_as: str = "") -> FailureView:
        requirement = load_catalogue().get(failure.requirement)
        return FailureView(
            failure,
            _is_core(known[failure.requirement]),
            anchors.give("f", failure.subject, failure.requirement),
            same_as,
            requirement.usual_cause if requirement else "",
            requirement.usual_cure if requirement else "",
        )

    return tuple(
        FailureGroupView(
            viewed(group.first),
            tuple(viewed(each, group.first.requirement) for each in group.others),
        )
        for group in group_failures([*log.failures, *bare])
    )


def _is_core(record: RequirementResult | Failure) -> bool:
    # A failure does not say whether its requirement is core. Without a result, assume the worse.
    return record.core if isinstance(record, RequirementResult) else True


def _row(
    about: RequirementResult | Failure,
    subjects: list[SubjectInfo],
    results: dict[tuple[str, str], RequirementResult],
    failures: list[FailureView],
    anchors: _Anchors,
) -> ReportRow:
    requirement = about.requirement
    broken: dict[str, str] = {}
    for failure in failures:
        if failure.record.requirement == requirement:
            broken.setdefault(failure.record.subject, failure.anchor)
    return ReportRow(
        requirement=requirement,
        area=_area(requirement),
        title=about.title,
        promise=about.promise,
        source=about.source,
        level=about.level,
        core=_is_core(about),
        checks=tuple(about.checks) if isinstance(about, RequirementResult) else (about.check,),
        anchor=anchors.give("r", requirement),
        cells=tuple(
            _cell(subject.name, results.get((subject.name, requirement)), broken)
            for subject in subjects
        ),
    )


def _cell(subject: str, result: RequirementResult | None, broken: dict[str, str]) -> ReportCell:
    anchor = broken.get(subject, "")
    if result is None:
        status: Shown = "fail" if anchor else "no result"
        reason = "" if anchor else "the run has no result for this requirement"
        return ReportCell(subject, status, reason, Evidence(0, 0, {}), 0.0, anchor, "", 0)
    return ReportCell(
        subject=subject,
        status="fail" if anchor and result.status != "known" else result.status,
        reason=result.reason,
        evidence=Evidence(result.examples, result.operations, result.crash_points, result.wiped),
        duration_s=result.duration_s,
        anchor=anchor,
        strength=result.strength,
        mutants=result.mutants,
    )


def _subject(
    info: SubjectInfo, rows: list[ReportRow], log: RunLog, causes: int, anchors: _Anchors
) -> SubjectView:
    index = log.header.subjects.index(info)
    mine = [(row, row.cells[index]) for row in rows]
    stated = {verdict.subject: verdict for verdict in log.footer.verdicts} if log.footer else {}
    outcome: Outcome = "incomplete"
    summary = "The run ended before there was a verdict."
    if verdict := stated.get(info.name):
        outcome = worst([verdict.verdict, _best_possible(mine)])
        summary = verdict.summary
        if outcome != verdict.verdict:
            summary = f"The results do not bear out the stated verdict ({verdict.verdict})."
    return SubjectView(
        info=info,
        anchor=anchors.give("s", info.name),
        outcome=outcome,
        summary=summary,
        untried=verdict.untried if verdict else "",
        of_core=verdict.of_core if verdict else 0,
        core=_tally(cell.status for row, cell in mine if row.core),
        extended=_tally(cell.status for row, cell in mine if not row.core),
        # Over checks, not over requirements: a check that serves several requirements counts once.
        evidence=_sum(
            Evidence(check.examples, check.operations, check.crash_points, check.wiped)
            for check in log.checks
            if check.subject == info.name
        ),
        causes=causes,
        strengths=_strengths(cell.strength for _, cell in mine),
        situations=_situations(check for check in log.checks if check.subject == info.name),
    )


def _strengths(found: Iterable[Strength]) -> dict[Strength, int]:
    counts = Counter(found)
    return {each: counts[each] for each in STRENGTHS if counts[each]}


def _situations(checks: Iterable[CheckRecord]) -> dict[str, int]:
    """How often each situation came about; one that never came about counts 0."""
    found: dict[str, int] = {}
    for check in checks:
        for name, hits in check.situations.items():
            found[name] = found.get(name, 0) + hits
    return dict(sorted(found.items()))


def _best_possible(mine: list[tuple[ReportRow, ReportCell]]) -> Verdict:
    """The best verdict that these results allow; a subject without any result is an error."""
    if not mine:
        return "error"
    return best_verdict(RatedStatus(row.level, row.core, cell.status) for row, cell in mine)


def _tally(statuses: Iterable[Shown]) -> StatusTally:
    counts: dict[Shown, int] = dict.fromkeys(STATUSES, 0)
    for status in statuses:
        counts[status] += 1
    return StatusTally(counts)


def _sum(parts: Iterable[Evidence]) -> Evidence:
    examples = operations = wiped = 0
    crashes: dict[str, int] = {}
    for part in parts:
        examples += part.examples
        operations += part.operations
        wiped += part.wiped
        for kind, count in part.crashes.items():
            crashes[kind] = crashes.get(kind, 0) + count
    return Evidence(examples, operations, dict(sorted(crashes.items())), wiped)
