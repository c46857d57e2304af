"""What ``streamproof verify`` prints while a run goes on, and at its end."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Self, get_args

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from streamproof.conformance.catalogue import AREAS
from streamproof.conformance.check_records import CheckOutcome
from streamproof.conformance.check_registry import Check
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

SHOWN_FAILURES = 8
"""The terminal lists at most 8 failures; the report has all of them."""

SHOWN_LINES = 40
"""The terminal shows at most 40 lines of a program."""


class ConsoleObserver(Observer):
    """Shows the progress of a run, and sums it up at the end.

    On a terminal there is a line of progress for each subject; elsewhere a plain line whenever
    a subject is done or a promise turns out to be broken.
    """

    def __init__(self, console: Console, session: Session) -> None:
        self._console = console
        self._session = session
        self._left = Counter(subject for subject, _ in session.plan())
        self._crashes: Counter[str] = Counter()
        self._losses_of_power = 0
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

    def started(self, subject: str, check: Check) -> None:
        """A check has started: nothing to show."""

    def ended(self, subject: str, outcome: CheckOutcome) -> None:
        """Advance the bar of a subject."""
        self._crashes[subject] += sum(outcome.evidence.crash_points.values())
        self._losses_of_power += outcome.evidence.crash_points.get("power", 0)
        is_first = outcome.round <= self._session.settings.round
        self._left[subject] -= is_first
        self._progress.update(self._bars[subject], advance=is_first, crashes=self._crashes[subject])
        if is_first and not self._left[subject] and not self._console.is_terminal:
            self._line(f"{subject}: done, {self._crashes[subject]:,} crashes")

    def record(self, record: CheckRecord | RequirementResult | Failure | Note) -> None:
        """Show a record that tells of a broken promise, and keep what the summary needs."""
        if isinstance(record, Failure):
            text = f"{record.subject} breaks {record.requirement}, {record.title}"
            if record.known:
                self._console.print(Text(f"≈ {text}: known", style="yellow"), soft_wrap=True)
            else:
                self._console.print(Text(f"✗ {text}", style="red"), soft_wrap=True)
        elif isinstance(record, Note):
            self._notes.append(record)
        elif isinstance(record, CheckRecord):
            self._situations.update(record.situations)

    def _line(self, text: str) -> None:
        self._console.print(escape(text), soft_wrap=True)

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
        console = self._console
        console.print()
        console.print(self._matrix())
        legend = "  ".join(f"{mark} {status}" for status, (mark, _) in _MARKS.items())
        console.print(legend, style="dim", soft_wrap=True)
        self._failures(report.parent)
        console.print()
        for note in self._notes:
            about = f"{note.subject}: " if note.subject else ""
            console.print(f"{note.kind:8} {escape(about + note.text)}", soft_wrap=True)
        if self._notes:
            console.print()
        for each in footer.verdicts:
            line = Text(f"{each.verdict.upper():8}", style=_VERDICT_STYLES[each.verdict])
            line.append(f" {each.subject} {each.summary}", style="default")
            console.print(line)
        kills = sum(self._crashes.values()) - self._losses_of_power
        crashes = f"{kills:,} real kills and {self._losses_of_power:,} losses of power"
        # The runtime is simulated: no process of it is ever killed.
        told = f"{crashes}, " if self._crashes.total() or not self._situations else ""
        console.print()
        console.print(f"{told}{footer.duration_s:.1f} s in all.", style="dim")
        console.print(f"Evidence: {self._strengths()}.", style="dim", soft_wrap=True)
        if self._situations:
            console.print(self._situations_seen(), style="dim", soft_wrap=True)
        # Paths and commands are printed whole, so that they can be copied.
        console.print(f"Report: {escape(str(report))}", soft_wrap=True)
        console.print("Reproduce:")
        console.print(escape(footer.reproduce), soft_wrap=True)

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
        """How many situations came about in simulated worlds, and the names of the others."""
        never = sorted(name for name, hits in self._situations.items() if not hits)
        seen = f"{len(self._situations) - len(never)} of {len(self._situations)}"
        more = f"; never: {', '.join(never)}" if never else ""
        return f"Situations that came about: {seen}{more}."

    def _matrix(self) -> Table:
        """A table of areas by subjects: how many requirements have each status.

        An area without a requirement that applies to any subject is left out.
        """
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        table.add_column("area", no_wrap=True)
        for subject in self._session.results:
            table.add_column(escape(subject), overflow="fold")
        for area, title in AREAS.items():
            counts = [
                Counter(r.status for r in results if r.requirement.startswith(f"{area}-"))
                for results in self._session.results.values()
            ]
            if any(set(each) - {"unsupported"} for each in counts):
                table.add_row(title, *map(_cell, counts))
        return table

    def _failures(self, out: Path) -> None:
        failures = self._session.failures_worst_first()
        for failure in failures[:SHOWN_FAILURES]:
            self._console.print()
            head = Text(f"✗ {failure.subject} {failure.requirement} ", style="bold red")
            head.append(f"({failure.level}) {failure.title}", style="bold")
            head.append(f" [{failure.shape}]" if failure.shape else "", style="dim")
            self._console.print(head)
            for name, text in (
                ("promise", failure.promise),
                ("tried", failure.tried),
                ("expected", failure.expected),
                ("found", failure.found),
            ):
                grid = Table.grid(padding=(0, 1))
                grid.add_column(width=10)
                grid.add_column()
                grid.add_row(f"  {name}", escape(_short(text)))
                self._console.print(grid)
            program = failure.program.splitlines()
            if len(program) > SHOWN_LINES:
                program = [*program[:SHOWN_LINES], "… the rest is in the report"]
            for line in program:
                self._console.print(Text(f"    {line[:400]}", style="cyan"), soft_wrap=True)
            if failure.also_found_by:
                others = f"  also found by {', '.join(failure.also_found_by)}"
                self._console.print(Text(others, style="dim"), soft_wrap=True)
            commands = [failure.reproduce]
            if failure.saved:
                commands.append(shlex.join(["streamproof", "replay", str(out / failure.saved)]))
            for command in commands:
                self._console.print(Text(f"  $ {command}", style="dim"), soft_wrap=True)
        hidden = len(failures) - SHOWN_FAILURES
        if hidden > 0:
            self._console.print(f"\n… and {hidden} more failures: see the report.")


def _cell(counts: Counter[Status]) -> Text:
    text = Text()
    for status, (mark, style) in _MARKS.items():
        if counts[status]:
            text.append(f"{mark}{counts[status]} ", style=style)
    return text


def _short(text: str, limit: int = 300) -> str:
    """A bounded text without control characters, for a terminal."""
    clean = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return clean if len(clean) <= limit else clean[:limit] + "…"
