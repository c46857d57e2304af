"""``streamproof mutants``: runs stores that are wrong on purpose, and prints which are caught."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from streamproof.commands.options import (
    CORES,
    DEFAULT_OUT,
    Checks,
    FirstSeed,
    WorkDirectory,
    make_directory,
    names_in,
)
from streamproof.commands.terminal import terminal
from streamproof.conformance.check_records import CheckOutcome
from streamproof.conformance.kill_matrix import (
    GroupRun,
    Trying,
    area_rows,
    group_runs,
    row_of,
    select_mutants,
)
from streamproof.conformance.kill_results import ENOUGH, MATRIX_VERSION, KillMatrix, MutantRow
from streamproof.conformance.mutants import Mutant
from streamproof.conformance.settings import Settings
from streamproof.conformance.work_directory import work_directory
from streamproof.exit_codes import ExitCode
from streamproof.reports.kill_matrix_report import render_matrix
from streamproof.version import __version__

__all__ = ["mutants"]

CHECKS_FROM_COLUMNS = 110
"""A terminal needs at least 110 columns to show the checks that killed each mutant."""


NamesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME", help="The mutants to run. Default: all."),
]

ListOption = Annotated[
    bool, typer.Option("--list", help="List the mutants and their mistakes, and run none.")
]

OnlyOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="IDS",
        show_default=False,
        help="Run only mutants that break these requirements or areas, separated by commas. "
        "Repeatable.",
    ),
]

ProfileOption = Annotated[
    Literal["smoke", "quick"], typer.Option(help="Try as much as `verify` does with this profile.")
]

SeedsOption = Annotated[int, typer.Option(min=1, metavar="N", help="Run each mutant with N seeds.")]

EverythingOption = Annotated[
    bool,
    typer.Option(
        "--all",
        help="Test every requirement, to see which others each mutant breaks. Slow.",
    ),
]

RatesOption = Annotated[
    bool,
    typer.Option(
        "--rates",
        help="Only tell how many of the seeds find each mutant, and which mutants too few find: "
        "shrink no failure, run no right store, and end a mutant as soon as it is caught.",
    ),
]

OutOption = Annotated[
    Path, typer.Option(metavar="DIR", help="Write mutants.json and mutants.md to DIR.")
]


def mutants(
    names: NamesArgument = None,
    *,
    list_: ListOption = False,
    only: OnlyOption = None,
    profile: ProfileOption = "quick",
    seeds: SeedsOption = 1,
    seed: FirstSeed = 0,
    everything: EverythingOption = False,
    rates: RatesOption = False,
    jobs: Checks = CORES,
    out: OutOption = DEFAULT_OUT,
    work_dir: WorkDirectory = None,
) -> None:
    """Show that the suite catches stores that are wrong on purpose.

    Each mutant is a store with one mistake, and runs against the requirement that must catch it.

    Exit codes:
      0    every mutant is caught, with --rates by enough seeds, and no right
           store is blamed
      1    a mutant survives, with --rates too few seeds catch it, or a right
           store is blamed
      3    the command line is wrong
      130  interrupted; what was done by then is kept
    """
    console = terminal()
    chosen = select_mutants(names or [], names_in(only or ()))
    if list_:
        console.print(_listed(chosen))
        return
    make_directory(out)
    matrix = _run(console, chosen, _Asked(profile, seed, seeds, everything, rates, jobs, work_dir))
    paths = {out / "mutants.json": msgspec.json.format(msgspec.json.encode(matrix), indent=2)}
    paths[out / "mutants.md"] = render_matrix(matrix).encode()
    for path, content in paths.items():
        path.write_bytes(content)
    _show(console, matrix)
    for path in paths:
        console.print(f"Report: {escape(str(path))}", soft_wrap=True)
    if not matrix.complete:
        raise typer.Exit(ExitCode.INTERRUPTED)
    caught = not _rarely_found(matrix) if rates else _killed(matrix) == len(matrix.rows)
    raise typer.Exit(0 if caught else ExitCode.FAILURE)


class _Asked(NamedTuple):
    """The options of the command that decide what is run."""

    profile: Literal["smoke", "quick"]
    seed: int
    seeds: int
    everything: bool
    rates: bool
    jobs: int
    work_dir: Path | None


def _run(console: Console, chosen: list[Mutant], asked: _Asked) -> KillMatrix:
    """Run the mutants with each seed; what is interrupted keeps what was done."""
    tries: dict[Mutant, dict[int, Trying]] = {mutant: {} for mutant in chosen}
    likely: dict[str, str] = {}
    started = time.monotonic()
    complete = False
    with contextlib.suppress(KeyboardInterrupt):
        with work_directory(asked.work_dir) as directory, _Progress(console) as progress:
            for seed in range(asked.seed, asked.seed + asked.seeds):
                settings = Settings(profile=asked.profile, seed=seed, shrinks=not asked.rates)
                runs = group_runs(
                    chosen,
                    settings,
                    everything=asked.everything,
                    with_right=not asked.rates,
                    # With --all, every check has something to tell.
                    likely=likely if asked.rates and not asked.everything else None,
                )
                for group in runs:
                    place = directory / "group"
                    group.run(place, asked.jobs, progress.planned, progress.watch(group, tries))
                    shutil.rmtree(place, ignore_errors=True)
                    likely |= {each.subject: tries[each][seed].by for each in group.mutants}
        complete = True
    rows = [row_of(mutant, tried) for mutant, tried in tries.items() if tried]
    return KillMatrix(
        matrix_version=MATRIX_VERSION,
        tool_version=__version__,
        profile=asked.profile,
        seed=asked.seed,
        seeds=asked.seeds,
        everything=asked.everything,
        complete=complete,
        duration_s=round(time.monotonic() - started, 3),
        rows=rows,
        areas=area_rows(rows),
    )


class _Progress:
    """A line of progress on a terminal, and a line for each mutant that is done."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._total = 0
        self._bar = Progress(
            TextColumn("checks"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task("checks", total=0)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def planned(self, checks: int) -> None:
        """Add checks to the number that the bar shows."""
        self._total += checks
        self._bar.update(self._task, total=self._total)

    def watch(
        self, group: GroupRun, tries: dict[Mutant, dict[int, Trying]]
    ) -> Callable[[str, CheckOutcome], None]:
        """A function to call with each outcome of a group; it keeps the results of mutants."""
        left = list(group.mutants)

        def ended(_subject: str, _outcome: CheckOutcome) -> None:
            self._bar.update(self._task, advance=1)
            for mutant in [each for each in left if group.finished(each)]:
                left.remove(mutant)
                seed = group.settings.seed
                tries[mutant][seed] = group.trying(mutant)
                self._line(row_of(mutant, {seed: tries[mutant][seed]}), seed)

        return ended

    def _line(self, row: MutantRow, seed: int) -> None:
        text = f"{row.mutant} {row.outcome} by {row.requirement}, seed {seed}"
        if row.outcome == "killed":
            self._console.print(Text(f"✓ {text}, {row.seconds:.2f} s"), soft_wrap=True)
        else:
            line = f"✗ {row.mutant}: {row.outcome}, {row.requirement}, {row.reason}"
            self._console.print(Text(line, style="red"), soft_wrap=True)


def _show_rates(console: Console, matrix: KillMatrix) -> None:
    """Name the mutants that were found too rarely, and count the others."""
    rarely = _rarely_found(matrix)
    for row in rarely:
        line = (
            f"✗ {row.mutant}, {row.requirement}: found with {row.found} of {len(row.seeds)} seeds"
        )
        console.print(Text(line, style="red"), soft_wrap=True)
    console.print(
        f"{len(matrix.rows) - len(rarely)} of {len(matrix.rows)} mutants were found with at least "
        f"{ENOUGH:.0%} of their seeds.",
        soft_wrap=True,
    )


def _rarely_found(matrix: KillMatrix) -> list[MutantRow]:
    """The mutants that too small a share of the seeds has found, the least first."""
    return sorted((row for row in matrix.rows if row.rate < ENOUGH), key=lambda row: row.rate)


def _killed(matrix: KillMatrix) -> int:
    return sum(row.outcome == "killed" for row in matrix.rows)


def _listed(chosen: list[Mutant]) -> Table:
    table = _table("mutant", "requirement", "mistake")
    for mutant in chosen:
        table.add_row(mutant.name, mutant.requirement, escape(mutant.mistake))
    return table


def _table(*headings: str) -> Table:
    """A table that never cuts its first columns, because users copy them."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in headings:
        numeric = heading in ("s", "tries", "crashes", "requirements", "mutants", "killed")
        table.add_column(
            heading,
            no_wrap=heading not in ("mistake", "by"),
            overflow="fold",
            justify="right" if numeric else "left",
        )
    return table


def _show(console: Console, matrix: KillMatrix) -> None:
    """Print the matrix by mutant and by area, and how it ended."""
    headings = ["", "mutant", "requirement", "s", "tries", "crashes", "by"]
    # A narrow terminal has no room for the checks; the files that are written have them all.
    is_wide = console.width >= CHECKS_FROM_COLUMNS
    by_mutant = _table(*(headings if is_wide else headings[:-1]))
    for row in matrix.rows:
        mark, style = ("✓", "") if row.outcome == "killed" else ("✗", "red")
        numbers = ((row.seconds, ".2f"), (row.examples, "g"), (row.crashes, "g"))
        cells = ["" if number is None else format(number, how) for number, how in numbers]
        by = [", ".join(row.by)] if is_wide else []
        by_mutant.add_row(mark, row.mutant, row.requirement, *cells, *by, style=style)
    by_area = _table("area", "requirements", "with mutants", "mutants", "killed", "s")
    for area in [each for each in matrix.areas if each.mutants]:
        counts = (area.requirements, area.with_mutants, area.mutants, area.killed)
        seconds = "" if area.seconds is None else f"{area.seconds:.2f}"
        by_area.add_row(area.title, *map(str, counts), seconds)
    for table in (by_mutant, by_area):
        console.print()
        console.print(table)
    console.print()
    for row in matrix.rows:
        if row.outcome != "killed":
            line = f"✗ {row.mutant} ({row.mistake}): {row.outcome}: {row.reason}"
            console.print(Text(line, style="red"), soft_wrap=True)
        elif row.collateral:
            console.print(f"{row.mutant} also breaks {', '.join(row.collateral)}", soft_wrap=True)
    if matrix.seeds > 1:
        _show_rates(console, matrix)
    head = "" if matrix.complete else "Interrupted. "
    console.print(
        f"{head}{_killed(matrix)} of {len(matrix.rows)} mutants killed by their requirement, "
        f"profile {matrix.profile}, {matrix.duration_s:.0f} s.",
        soft_wrap=True,
    )
