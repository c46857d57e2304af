"""The content of every report as plain data; made by :mod:`.report_builder`."""

from __future__ import annotations

from dataclasses import dataclass

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
    "FailureView",
    "ReportCell",
    "ReportRow",
    "ReportView",
    "StatusTally",
    "SubjectView",
]


@dataclass(frozen=True)
class Evidence:
    """How much was tried: generated programs, calls, and real kills by kind of crash point."""

    examples: int
    operations: int
    crashes: dict[str, int]

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
        strengths: how many promises were kept on evidence of each strength, the strongest first.
        situations: how often each interesting situation came about in simulated worlds, by name.
    """

    info: SubjectInfo
    anchor: str
    outcome: Outcome
    summary: str
    core: StatusTally
    extended: StatusTally
    evidence: Evidence
    strengths: dict[Strength, int]
    situations: dict[str, int]

    @property
    def broken(self) -> int:
        return self.core.broken + self.extended.broken


@dataclass(frozen=True)
class FailureView:
    """One broken promise, ready to be linked to."""

    record: Failure
    core: bool
    anchor: str


@dataclass(frozen=True)
class ReportView:
    """The whole content of the reports.

    Attributes:
        outcome: the worst of all subjects; ``incomplete`` if the run did not finish.
        failures: the worst first.
    """

    header: Header
    footer: Footer | None
    outcome: Outcome
    subjects: tuple[SubjectView, ...]
    areas: tuple[Area, ...]
    failures: tuple[FailureView, ...]
    notes: tuple[Note, ...]

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
