"""What ``streamproof verify`` prints while a run goes on, and at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self, get_args

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from streamproof.commands.failure_text import GroupsText, whole
from streamproof.conformance.catalogue import AREAS
from streamproof.conformance.check_records import CheckOutcome
from streamproof.conformance.results import (
    CheckRecord,
    Failure,
    Footer,
    Note,
    RequirementResult,
    Status,
    Strength,
    Verdict,
)
from streamproof.conformance.verify_session import Observer, Session

__all__ = ["ConsoleObserver"]

_VERDICT_STYLES: dict[Verdict, str] = {
    "success": "bold green",
    "partial": "bold yellow",
    "failure": "bold red",
    "error": "bold magenta",
}

_MARKS: dict[Status, tuple[str, str]] = {
    "fail": ("✗", "red"),
    "error": ("!", "magenta"),
    "known": ("≈", "yellow"),
    "skip": ("○", "yellow"),
    "pass": ("✓", "green"),
    "unsupported": ("–", "dim"),
    "untested": ("·", "dim"),
}
"""A mark and a style for each status, worst first."""

_WELL: set[Status] = {"pass", "unsupported", "untested"}
"""The statuses in which nothing is wrong."""

MOST_LINES = 60
"""The most lines that a run prints: what does not fit is in the report."""

MOST_HEADING_LINES = 3
"""The most lines that the names of subjects take above a matrix."""

MOST_AREAS = 3
"""The most areas that are named in the totals of a subject; the report has all."""

MOST_TOLD_AT_ONCE = 6
"""The most broken promises that are told while the run goes on."""

MOST_NAMED = 4
"""The most situations that are named because no world had them; the report names all."""

FEWEST_LINES = 12
"""The lines that failures get at least, however much else there is to say."""


class ConsoleObserver(Observer):
    """Shows the progress of a run, and sums it up at the end.

    On a terminal there is a line of progress for each subject; elsewhere a plain line whenever
    a subject is done or a promise turns out to be broken.
    """

    def __init__(self, console: Console, session: Session) -> None:
        self._console = console
        self._session = session
        self._told: set[tuple[str, str, str]] = set()
        self._suspected: set[str] = set()
        self._printed = 0
        self._left = Counter(subject for subject, _ in session.plan())
        self._total = self._left.copy()
        self._crashes: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()
        self._wiped = 0
        self._notes: list[Note] = []
        self._situations: Counter[str] = Counter()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("checks  {task.fields[crashes]:>6,} crashes"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._bars = {
            subject: self._progress.add_task(escape(subject), total=total, crashes=0)
            for subject, total in self._left.items()
        }

    def __enter__(self) -> Self:
        self._progress.start()
        if not self._console.is_terminal:
            for subject, total in self._left.items():
                self._line(f"{subject}: {total} checks")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def noticed(self, subject: str, requirement: str) -> None:
        """Show the first sign of a failure of a subject, long before its program is small."""
        if subject not in self._suspected and not any(each == subject for each, *_ in self._told):
            self._suspected.add(subject)
            text = f"{subject} seems to break {requirement}; the smallest program is looked for"
            self._line(f"? {text}", "yellow")

    def ended(self, subject: str, outcome: CheckOutcome) -> None:
        """Advance the bar of a subject."""
        self._crashes[subject] += sum(outcome.evidence.crash_points.values())
        self._kinds.update(outcome.evidence.crash_points)
        self._wiped += outcome.evidence.wiped
        is_first = outcome.round <= self._session.settings.round
        self._left[subject] -= is_first
        self._progress.update(self._bars[subject], advance=is_first, crashes=self._crashes[subject])
        if is_first and not self._left[subject] and not self._console.is_terminal:
            self._line(f"{subject}: done, {self._crashes[subject]:,} crashes")

    def shrinking(self, subject: str, failures: int) -> None:
        """Make the bar of a subject longer: a check goes on for each failure."""
        self._total[subject] += failures
        self._progress.update(self._bars[subject], total=self._total[subject])

    def shrunk(self, subject: str) -> None:
        """Advance the bar of a subject."""
        self._progress.update(self._bars[subject], advance=1)

    def record(self, record: CheckRecord | RequirementResult | Failure | Note) -> None:
        """Show a record that tells of a broken promise, and keep what the summary needs."""
        if isinstance(record, Failure):
            self._tell(record)
        elif isinstance(record, Note):
            self._notes.append(record)
        elif isinstance(record, CheckRecord):
            self._situations.update(record.situations)

    def _tell(self, failure: Failure) -> None:
        """Show at once that a promise is broken, each once, unless enough is shown."""
        broken = (failure.subject, failure.requirement, failure.known)
        if broken in self._told:
            return
        self._told.add(broken)
        if len(self._told) > MOST_TOLD_AT_ONCE:
            return
        text = f"{failure.subject} breaks {failure.requirement}, {failure.title}"
        mark, style = ("≈", "yellow") if failure.known else ("✗", "red")
        more = ": known" if failure.known else ""
        self._line(f"{mark} {text}{more}", style)
        if len(self._told) == MOST_TOLD_AT_ONCE:
            self._line("… more may follow, and are told at the end", "dim")

    def _line(self, text: str, style: str = "") -> None:
        self._printed += 1
        self._console.print(Text(text, style=style), soft_wrap=True)

    # The end.

    def interrupted(self, command: str, report: Path) -> None:
        """Print how many results an interrupted run has, and the command that repeats the run."""
        done = sum(len(results) for results in self._session.results.values())
        self._console.print(f"Interrupted: {done} results so far.")
        self._console.print(f"Report: {escape(str(report))}", soft_wrap=True)
        self._console.print("Reproduce:")
        self._console.print(escape(command), soft_wrap=True)

    def summarise(self, footer: Footer, report: Path) -> None:
        """Print the matrix, the failures, the verdicts, and last the command to reproduce."""
        head, tail = self._head(), self._tail(footer, report)
        room = MOST_LINES - self._printed - self._height([*head, *tail])
        groups = GroupsText(self._session.failure_groups(), report.parent, self._height)
        for each in [*head, *groups.within(max(room, FEWEST_LINES)), *tail]:
            # Paths and commands are printed whole, so that they can be copied.
            self._console.print(each, soft_wrap=isinstance(each, Text) and each.no_wrap)

    def _height(self, parts: Iterable[RenderableType]) -> int:
        """The lines that these parts take on the terminal."""
        return sum(
            1
            if isinstance(each, Text) and each.no_wrap
            else len(self._console.render_lines(each, pad=False))
            for each in parts
        )

    def _head(self) -> list[RenderableType]:
        """The matrix with its legend."""
        legend = "  ".join(f"{mark} {status}" for status, (mark, _) in _MARKS.items())
        matrix = self._matrix()
        # Nobody can read rows of several lines below names that are cut into short pieces.
        fits = self._height([matrix]) <= matrix.row_count + MOST_HEADING_LINES
        return [Text(), matrix if fits else self._totals(), whole(legend, "dim")]

    def _tail(self, footer: Footer, report: Path) -> list[RenderableType]:
        """The notes, the verdicts, the evidence, and where to go on."""
        parts: list[RenderableType] = [Text()]
        for note in self._notes:
            about = f"{note.subject}: " if note.subject else ""
            parts.append(whole(f"{note.kind:8} {about + note.text}"))
        if self._notes:
            parts.append(Text())
        for each in footer.verdicts:
            line = Text(f"{each.verdict.upper():8}", style=_VERDICT_STYLES[each.verdict])
            parts.append(line.append(f" {each.subject} {each.summary}", style="default"))
            if each.untried:
                parts.append(Text(f"untried  {each.subject} {each.untried}", style="yellow"))
        power, derived = self._kinds["power"], self._kinds["derived"]
        kills = self._kinds.total() - power - derived
        crashes = f"{kills:,} real kills, {derived:,} derived ones and {power:,} losses of power"
        if self._wiped:
            crashes += f" ({self._wiped:,} with a wipe, as the store asked)"
        # The runtime is simulated: no process of it is ever killed.
        told = f"{crashes}, " if self._crashes.total() or not self._situations else ""
        parts += [
            Text(),
            whole(f"{told}{footer.duration_s:.1f} s in all.", "dim"),
            whole(f"Evidence: {self._strengths()}.", "dim"),
        ]
        if self._situations:
            parts.append(whole(self._situations_seen(), "dim"))
        again = [f"Report: {report}", "Reproduce:", footer.reproduce]
        return [*parts, *map(whole, again)]

    def _strengths(self) -> str:
        """How many promises were kept, by the strength of the evidence."""
        counts = Counter(
            result.strength
            for results in self._session.results.values()
            for result in results
            if result.strength
        )
        words = [f"{counts[each]} {each}" for each in get_args(Strength) if counts[each]]
        return ", ".join(words) or "none"

    def _situations_seen(self) -> str:
        """How many situations came about in worlds, and the names of some of the others."""
        never = sorted(name for name, hits in self._situations.items() if not hits)
        seen = f"{len(self._situations) - len(never)} of {len(self._situations)}"
        named, rest = never[:MOST_NAMED], len(never[MOST_NAMED:])
        more = f"; never: {', '.join(named)}" if never else ""
        if rest:
            more += f", and {rest} that the report names"
        return f"Situations that came about: {seen}{more}."

    def _matrix(self) -> Table:
        """A table of areas by subjects: how many requirements have each status.

        An area in which nothing is wrong with any subject is counted with the others like it.
        """
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        table.add_column("area", no_wrap=True)
        for subject in self._session.results:
            table.add_column(escape(subject), overflow="fold")
        well: list[list[Counter[Status]]] = []
        for area, title in AREAS.items():
            counts = [_counts(results, area) for results in self._session.results.values()]
            if any(set(each) - _WELL for each in counts):
                table.add_row(title, *map(_cell, counts))
            elif any(each["pass"] for each in counts):
                well.append(counts)
        if well:
            others = "other areas" if table.row_count else "areas"
            table.add_row(
                f"{len(well)} {others}", *(_cell(_sum(each)) for each in zip(*well, strict=True))
            )
        return table

    def _totals(self) -> Table:
        """A table of subjects, if the matrix is too wide: the totals, and where most is broken."""
        subjects = self._session.results
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        longest = max(map(len, subjects))
        table.add_column("subject", overflow="fold", no_wrap=longest <= self._console.width // 2)
        table.add_column("requirements", no_wrap=True)
        table.add_column("broken in")
        for subject, results in subjects.items():
            areas = {title: _counts(results, area) for area, title in AREAS.items()}
            table.add_row(escape(subject), _cell(_sum(areas.values())), _broken(areas))
        return table


def _counts(results: Iterable[RequirementResult], area: str) -> Counter[Status]:
    """How many requirements of an area have each status."""
    return Counter(each.status for each in results if each.requirement.startswith(f"{area}-"))


def _broken(areas: Mapping[str, Counter[Status]]) -> str:
    """The areas in which most is broken, with the numbers of broken requirements."""
    broken = +Counter({title: each["fail"] + each["error"] for title, each in areas.items()})
    named = [f"{title} {number}" for title, number in broken.most_common(MOST_AREAS)]
    return ", ".join([*named, "…"] if len(broken) > MOST_AREAS else named)


def _sum(counts: Iterable[Counter[Status]]) -> Counter[Status]:
    return sum(counts, Counter())


def _cell(counts: Counter[Status]) -> Text:
    text = Text()
    for status, (mark, style) in _MARKS.items():
        if counts[status]:
            text.append(f"{mark}{counts[status]} ", style=style)
    return text
