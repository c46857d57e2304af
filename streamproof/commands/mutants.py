"""The command that runs the deliberately wrong stores, and prints which of them are caught."""

from __future__ import annotations

import contextlib
import os
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

from streamproof.conformance.check_engine import work_directory
from streamproof.conformance.check_records import CheckOutcome
from streamproof.conformance.kill_matrix import (
    GroupRun,
    Trying,
    area_rows,
    group_runs,
    row_of,
    select_mutants,
)
from streamproof.conformance.kill_results import MATRIX_VERSION, KillMatrix, MutantRow
from streamproof.conformance.mutants import Mutant
from streamproof.conformance.settings import Settings
from streamproof.errors import UsageError
from streamproof.exit_codes import ExitCode
from streamproof.reports.kill_matrix_report import render_matrix
from streamproof.version import __version__

__all__ = ["mutants"]

CHECKS_FROM_COLUMNS = 110
"""How wide a terminal has to be for a column with the checks that have killed a mutant."""


def mutants(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Which mutants. Default: all.")
    ] = None,
    *,
    list_: Annotated[
        bool, typer.Option("--list", help="List the mutants and their mistakes, and run none.")
    ] = False,
    only: Annotated[
        str, typer.Option(help="Requirement ids or areas they are bound to, separated by commas.")
    ] = "",
    profile: Annotated[
        Literal["smoke", "quick"], typer.Option(help="How much to try, as `verify` does.")
    ] = "quick",
    seeds: Annotated[int, typer.Option(min=1, help="With how many seeds to run each.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="The first seed; the next is one larger.")] = 0,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Ask every requirement, to see which others they break; slow."),
    ] = False,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=1, help="Checks at a time. Default: one a core.")
    ] = os.cpu_count() or 1,
    out: Annotated[
        Path, typer.Option(help="The directory that mutants.json and mutants.md go to.")
    ] = Path("streamproof-out"),
    work_dir: Annotated[
        Path | None,
        typer.Option(help="Where the databases go. Default: /dev/shm if it has room, else /tmp."),
    ] = None,
) -> None:
    """Run the deliberately wrong stores, each against the requirement that must catch it.

    Exit codes: 0 all are caught and no right store is blamed, 1 otherwise, 3 usage,
    130 interrupted: what was done by then is kept.
    """
    console = Console(highlight=False)
    chosen = select_mutants(names or [], [each.strip() for each in only.split(",") if each.strip()])
    if list_:
        console.print(_listed(chosen))
        return
    _make(out)
    matrix = _run(console, chosen, _Asked(profile, seed, seeds, everything, jobs, work_dir))
    paths = {out / "mutants.json": msgspec.json.format(msgspec.json.encode(matrix), indent=2)}
    paths[out / "mutants.md"] = render_matrix(matrix).encode()
    for path, content in paths.items():
        path.write_bytes(content)
    _show(console, matrix)
    for path in paths:
        console.print(f"Report: {escape(str(path))}", soft_wrap=True)
    if not matrix.complete:
        raise typer.Exit(ExitCode.INTERRUPTED)
    raise typer.Exit(0 if _killed(matrix) == len(matrix.rows) else ExitCode.FAILURE)


class _Asked(NamedTuple):
    """What the command was asked for."""

    profile: Literal["smoke", "quick"]
    seed: int
    seeds: int
    everything: bool
    jobs: int
    work_dir: Path | None


def _make(out: Path) -> None:
    """Make the output directory, before anything is run in vain."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"The output directory {str(out)!r} cannot be made: {error.strerror}. "
            "Choose another one with --out."
        ) from error


def _run(console: Console, chosen: list[Mutant], asked: _Asked) -> KillMatrix:
    """Run the mutants with each seed; what is interrupted keeps what was done."""
    tries: dict[Mutant, dict[int, Trying]] = {mutant: {} for mutant in chosen}
    started = time.monotonic()
    complete = False
    with contextlib.suppress(KeyboardInterrupt):
        with work_directory(asked.work_dir) as directory, _Progress(console) as progress:
            for seed in range(asked.seed, asked.seed + asked.seeds):
                settings = Settings(profile=asked.profile, seed=seed)
                runs = group_runs(chosen, settings, everything=asked.everything)
                for group in runs:
                    place = directory / "group"
                    group.run(place, asked.jobs, progress.planned, progress.watch(group, tries))
                    shutil.rmtree(place, ignore_errors=True)
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
        """More checks are to be run."""
        self._total += checks
        self._bar.update(self._task, total=self._total)

    def watch(
        self, group: GroupRun, tries: dict[Mutant, dict[int, Trying]]
    ) -> Callable[[str, CheckOutcome], None]:
        """What is to be told of each outcome of a group; it keeps what it makes of mutants."""
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


def _killed(matrix: KillMatrix) -> int:
    return sum(row.outcome == "killed" for row in matrix.rows)


def _listed(chosen: list[Mutant]) -> Table:
    table = _table("mutant", "requirement", "mistake")
    for mutant in chosen:
        table.add_row(mutant.name, mutant.requirement, escape(mutant.mistake))
    return table


def _table(*headings: str) -> Table:
    """A table whose first columns are never cut, as they are there to be copied."""
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
    head = "" if matrix.complete else "Interrupted. "
    console.print(
        f"{head}{_killed(matrix)} of {len(matrix.rows)} mutants killed by their requirement, "
        f"profile {matrix.profile}, {matrix.duration_s:.0f} s.",
        soft_wrap=True,
    )
