"""``streamproof recheck``: judges recorded events again, on Spark."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from streamproof.commands.options import Master, Remote, make_directory
from streamproof.commands.terminal import terminal
from streamproof.exit_codes import ExitCode
from streamproof.reports.safe_text import cell
from streamproof.reports.wording import plural

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streamproof.reports.pipeline.rechecking.run_invariants import RecheckFinding

__all__ = ["recheck"]

MOST_TOLD = 10
"""At most 10 runs that could not be judged are named, and at most 10 that came twice."""


EventsArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="EVENTS",
        help="A trace in Parquet, a directory of traces, or the directory of a campaign.",
    ),
]

InvariantOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Judge by this invariant only, or by the invariants of this requirement. "
        "Repeatable. Default: all invariants.",
    ),
]

SetsOption = Annotated[
    bool,
    typer.Option(
        "--sets",
        help="Check all events at once, for runs that are too large for one worker. Fewer "
        "promises can be checked this way.",
    ),
]

OutOption = Annotated[
    Path,
    typer.Option(metavar="DIR", help="Write the violations to DIR, as Parquet and NDJSON."),
]


def recheck(
    events: EventsArgument,
    *,
    invariant: InvariantOption = None,
    sets: SetsOption = False,
    master: Master = "",
    remote: Remote = "",
    out: OutOption = Path("streamproof-rechecked"),
) -> None:
    """Judge recorded events again, with Spark.

    Newer invariants can judge older runs, and the runs of other runtimes. docs/events.md describes
    the events. Needs Java, and `pip install 'streamproof[spark]'`.

    Exit codes:
      0    every promise is kept
      1    a promise is broken
      3    the command line is wrong, or a run cannot be judged
    """
    asked = _Asked(events, tuple(invariant or ()), sets, master, remote, out)
    raise typer.Exit(_recheck(terminal(), asked))


class _Asked(NamedTuple):
    """The options of the command."""

    events: list[Path]
    invariants: tuple[str, ...]
    sets: bool
    master: str
    remote: str
    out: Path


def _recheck(console: Console, asked: _Asked) -> int:
    """Judge the events, write what is found, and sum up; returns the exit code."""
    from streamproof.reports.pipeline.rechecking.event_files import (
        event_files,
        read_events,
        write_findings,
    )
    from streamproof.reports.pipeline.rechecking.run_invariants import find_invariants
    from streamproof.reports.pipeline.rechecking.set_checks import recheck_sets
    from streamproof.reports.pipeline.rechecking.whole_runs import recheck_files
    from streamproof.reports.pipeline.spark import session

    chosen = find_invariants(asked.invariants)
    files = event_files(asked.events)
    make_directory(asked.out)
    spark = session(asked.master, asked.remote, "streamproof recheck")
    table = read_events(spark, files)
    judging = (
        recheck_sets(table, chosen if asked.invariants else None)
        if asked.sets
        else nullcontext(recheck_files(spark, files, chosen))
    )
    summary = _Summary()
    with judging as judged:
        for each in write_findings(judged, asked.out):
            summary.add(each)
    summary.print(console, table)
    where = asked.out / "violations.parquet"
    console.print(Text(f"All of it is in {where} and .ndjson."), soft_wrap=True)
    if summary.violations:
        return ExitCode.FAILURE
    return ExitCode.USAGE if summary.unreadable else ExitCode.SUCCESS


class _Summary:
    """What findings came to, without keeping them."""

    def __init__(self) -> None:
        self.violations: Counter[tuple[str, str]] = Counter()
        self.unreadable = 0
        self._runs: Counter[tuple[str, str]] = Counter()
        self._first: dict[tuple[str, str], RecheckFinding] = {}
        # Findings come run by run.
        self._last: dict[tuple[str, str], str] = {}
        self._told: list[RecheckFinding] = []
        self._duplicates = 0

    def add(self, finding: RecheckFinding) -> None:
        """Count a finding."""
        if finding.what != "violation":
            duplicate = finding.what == "duplicate"
            self._duplicates += duplicate
            self.unreadable += not duplicate
            if (self._duplicates if duplicate else self.unreadable) <= MOST_TOLD:
                self._told.append(finding)
            return
        key = finding.requirement, finding.invariant
        self.violations[key] += 1
        self._first.setdefault(key, finding)
        if self._last.get(key) != finding.run:
            self._last[key] = finding.run
            self._runs[key] += 1

    def print(self, console: Console, events: DataFrame) -> None:
        """Print what was found in events."""
        count, runs = events.count(), events.select("run").distinct().count()
        violations = self.violations.total()
        found = plural(violations, "violation") if violations else "no violation"
        console.print(f"{plural(count, 'event')} of {plural(runs, 'run')}: {found}.")
        if self.violations:
            console.print(self._table())
        for each in self._told:
            sign = "2x" if each.what == "duplicate" else "✗"
            console.print(Text(f"{sign} {cell(each.run)}: {cell(each.message)}"), soft_wrap=True)
        for count, told in (
            (self.unreadable, "cannot be judged"),
            (self._duplicates, "came twice"),
        ):
            if count > MOST_TOLD:
                console.print(f"{count:,} runs {told}; the first {MOST_TOLD} are named.")

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("requirement", no_wrap=True)
        for heading in ("violations", "runs"):
            table.add_column(heading, justify="right")
        table.add_column("what does not hold, and where at first")
        for key, count in self.violations.most_common():
            first = self._first[key]
            at = f"event {first.sequence}" if first.sequence >= 0 else "the end"
            where = f"{cell(first.run)}, {at}: {cell(first.message)}"
            what = Text.assemble((cell(key[1]), "bold"), f"\n{where}")
            table.add_row(Text(cell(key[0])), f"{count:,}", f"{self._runs[key]:,}", what)
        return table
