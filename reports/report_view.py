"""The content of every report as plain data; made by :mod:`.report_builder`."""

from __future__ import annotations

from dataclasses import dataclass

from streamproof.conformance.failure_groups import broken_words
from streamproof.conformance.results import (
    Failure,
    Footer,
    Header,
    Level,
    Note,
    Strength,
    SubjectInfo,
)
from streamproof.conformance.verdict_rule import Outcome, Shown, badness
from streamproof.reports.wording import STATUSES

__all__ = [
    "Area",
    "Evidence",
    "FailureGroupView",
    "FailureView",
    "ReportCell",
    "ReportRow",
    "ReportView",
    "StatusTally",
    "SubjectView",
]


@dataclass(frozen=True)
class Evidence:
    """How much was tried: generated programs, calls, and crashes by kind of crash point.

    Attributes:
        wiped: the number of crashes after which the store asked to be wiped.
    """

    examples: int
    operations: int
    crashes: dict[str, int]
    wiped: int = 0

    @property
    def kills(self) -> int:
        return sum(self.crashes.values())


@dataclass(frozen=True)
class ReportCell:
    """The result of one requirement for one subject.

    Attributes:
        anchor: the anchor of the failure that shows it broken, or empty.
        strength: how much a pass is worth, or empty.
        mutants: how many deliberately wrong stores the requirement is known to catch.
    """

    subject: str
    status: Shown
    reason: str
    evidence: Evidence
    duration_s: float
    anchor: str
    strength: Strength
    mutants: int


@dataclass(frozen=True)
class ReportRow:
    """One requirement, with a cell for every subject in the header's order."""

    requirement: str
    area: str
    title: str
    promise: str
    source: str
    level: Level
    core: bool
    checks: tuple[str, ...]
    anchor: str
    cells: tuple[ReportCell, ...]

    @property
    def urgency(self) -> int:
        """The rank of the row: what is broken, then what was asked, then what was not asked."""
        statuses = {cell.status for cell in self.cells}
        if statuses & {"fail", "known", "error", "no result"}:
            return 0
        return 1 if statuses & {"pass", "skip"} else 2


@dataclass(frozen=True)
class StatusTally:
    """How many requirements have each status."""

    counts: dict[Shown, int]

    @property
    def passed(self) -> int:
        return self.counts["pass"]

    @property
    def broken(self) -> int:
        return self.counts["fail"]

    @property
    def asked(self) -> int:
        """How many requirements apply to the subject: skips, errors and missing results count."""
        return sum(self.counts.values()) - self.counts["unsupported"] - self.counts["untested"]


@dataclass(frozen=True)
class Area:
    """The requirements of one area, and how each subject did in it, in the header's order."""

    code: str
    name: str
    rows: tuple[ReportRow, ...]
    tallies: tuple[StatusTally, ...]


@dataclass(frozen=True)
class SubjectView:
    """One subject: its verdict, and the evidence for the verdict.

    Attributes:
        of_core: in a run of a part of the requirements, the number of core requirements that a
            whole run would ask; 0 if it is not known.
        untried: how much the machine could not try, why, and the remedy; empty if it lacks nothing.
        causes: the number of groups of failures that do not count as known.
        strengths: how many promises were kept on evidence of each strength, the strongest first.
        situations: how often each interesting situation came about in simulated worlds, by name.
    """

    info: SubjectInfo
    anchor: str
    outcome: Outcome
    summary: str
    untried: str
    of_core: int
    core: StatusTally
    extended: StatusTally
    evidence: Evidence
    causes: int
    strengths: dict[Strength, int]
    situations: dict[str, int]

    @property
    def broken(self) -> int:
        return self.core.broken + self.extended.broken

    @property
    def breaks(self) -> str:
        """How much the subject breaks, in the words of every headline."""
        asked = self.core.asked + self.extended.asked if self.outcome != "incomplete" else 0
        return broken_words(self.broken, asked, self.core.broken, self.causes)


@dataclass(frozen=True)
class FailureView:
    """One broken promise, ready to be linked to.

    Attributes:
        same_as: the requirement of the simplest failure that probably shares the cause; empty if
            this is it.
        usual_cause: how implementations usually break the promise; empty if it is not known.
        usual_cure: how they usually mend it.
    """

    record: Failure
    core: bool
    anchor: str
    same_as: str
    usual_cause: str
    usual_cure: str


@dataclass(frozen=True)
class FailureGroupView:
    """Failures that probably share a cause: the simplest, and the others."""

    first: FailureView
    others: tuple[FailureView, ...]


@dataclass(frozen=True)
class ReportView:
    """The whole content of the reports.

    Attributes:
        outcome: the worst of all subjects; ``incomplete`` if the run did not finish.
        groups: the failures by probable cause, the worst first.
    """

    header: Header
    footer: Footer | None
    outcome: Outcome
    subjects: tuple[SubjectView, ...]
    areas: tuple[Area, ...]
    groups: tuple[FailureGroupView, ...]
    notes: tuple[Note, ...]

    @property
    def failures(self) -> list[FailureView]:
        """All failures, those of one cause together."""
        return [each for group in self.groups for each in (group.first, *group.others)]

    @property
    def is_part(self) -> bool:
        """Whether the run asked a part of the requirements, so that its verdict is on that part."""
        return bool(self.header.only)

    @property
    def complete(self) -> bool:
        return self.footer is not None

    @property
    def rows(self) -> list[ReportRow]:
        return [row for area in self.areas for row in area.rows]

    @property
    def answered(self) -> int:
        """The number of results."""
        return sum(cell.status != "no result" for row in self.rows for cell in row.cells)

    @property
    def worst_first(self) -> list[SubjectView]:
        """The subjects, the worst first."""

        def key(subject: SubjectView) -> tuple[int, int, int]:
            return badness(subject.outcome), -subject.core.broken, -subject.extended.broken

        return sorted(self.subjects, key=key)

    @property
    def unanswered(self) -> list[tuple[ReportRow, ReportCell]]:
        """The results without an answer: errors and skips."""
        return [
            (row, cell)
            for row in self.rows
            for cell in row.cells
            if cell.status in ("error", "skip")
        ]

    @property
    def statuses(self) -> dict[Shown, int]:
        """How often each status that occurs does so, the most pressing first."""
        cells = [cell.status for row in self.rows for cell in row.cells]
        return {status: cells.count(status) for status in STATUSES if status in cells}
