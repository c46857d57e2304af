"""The command that lists the scenarios of the library, tells one, or plays them all."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from streamproof.conformance.simulated.hosted_play import Wanted, play_with
from streamproof.exit_codes import ExitCode
from streamproof.scenarios.real_stores import needs_model_stores
from streamproof.scenarios.scenario import Scenario, Setup
from streamproof.scenarios.scenario_reader import find, library, read

__all__ = ["list_scenarios"]


def list_scenarios(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="Tell this one. Default: list all.")
    ] = "",
    *,
    play: Annotated[
        bool, typer.Option("--play", help="Play every variant of all, and say how each came.")
    ] = False,
    subject: Annotated[
        list[str] | None,
        typer.Option(help="A store to play them with, besides the model store; can be repeated."),
    ] = None,
    work_dir: Annotated[
        Path | None,
        typer.Option(help="Where databases go. Default: /dev/shm if it has room, else /tmp."),
    ] = None,
) -> None:
    """List the crash scenarios that come with streamproof, tell one, or play them all.

    Exit codes: 0 all came as expected, 1 one did not, 3 usage, 70 an error of the simulator itself.
    """
    console = Console(highlight=False)
    chosen = [read(find(name))] if name else [read(path) for path in library().values()]
    if play:
        stores = [Wanted(each, work_dir=work_dir) for each in ("", *(subject or ()))]
        raise typer.Exit(ExitCode.FAILURE if _play_all(console, chosen, stores) else 0)
    if name:
        _tell(console, chosen[0])
        return
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("scenario", no_wrap=True)
    table.add_column("what it is about")
    for each in chosen:
        table.add_row(each.name, escape(each.file.title))
    console.print(table)
    console.print(
        f"{len(chosen)} scenarios. `streamproof scenarios NAME` tells one, with its variants; "
        "`streamproof replay NAME` plays it.",
        style="dim",
        soft_wrap=True,
    )


def _tell(console: Console, scenario: Scenario) -> None:
    """All that is to be known of one scenario before it is played."""
    file = scenario.file
    console.print(f"[bold]{escape(scenario.name)}[/]  {escape(file.title)}\n")
    console.print(escape(" ".join(file.story.split())))
    grid = Table.grid(padding=(0, 2))
    grid.add_row("sources", escape(", ".join(file.sources)))
    for setup in scenario.setups.values():
        expected = " or ".join(setup.variant.breaks)
        grid.add_row(
            escape(setup.name),
            escape(f"{setup.variant.why} ").lstrip()
            + (f"Breaks {escape(expected)}." if expected else "Everything holds."),
        )
    console.print()
    console.print(grid)
    # A path is there to be copied, so that it is never cut.
    console.print(f"file     {escape(str(scenario.path))}", soft_wrap=True)
    console.print(f"\n  $ streamproof replay {escape(scenario.name)}", soft_wrap=True)


def _play_all(console: Console, chosen: list[Scenario], stores: list[Wanted]) -> bool:
    """Play every variant with every store, and print a table; whether one did not come right."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("scenario", no_wrap=True)
    table.add_column("variant")
    for wanted in stores:
        table.add_column(wanted.subject or "model store")
    surprising: list[str] = []
    runs = [(scenario, setup) for scenario in chosen for setup in scenario.setups.values()]
    columns = (TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("playing", total=len(runs))
        for scenario, setup in runs:
            progress.update(task, description=scenario.name)
            cells = [_cell(scenario, setup, wanted, surprising) for wanted in stores]
            table.add_row(escape(scenario.name), escape(setup.name), *cells)
            progress.advance(task)
    console.print(table)
    counts = (len(chosen), "scenario"), (len(runs), "variant"), (len(surprising), "surprise")
    told = (f"{count} {what}{'s' if count != 1 else ''}" for count, what in counts)
    console.print(f"{', '.join(told)}.")
    if surprising:
        console.print(Text(f"  $ {surprising[0]}"), soft_wrap=True)
    return bool(surprising)


def _cell(scenario: Scenario, setup: Setup, wanted: Wanted, surprising: list[str]) -> str:
    """How one variant came with one store; what shows a surprise is added to those that do."""
    if wanted.subject and (reason := needs_model_stores(scenario, setup)):
        return f"[dim]not played: {escape(reason)}[/]"
    judged = play_with(scenario, setup, wanted)
    if judged.surprises:
        surprising.append(judged.played.command)
        return f"[red]✗ {escape(judged.surprises[0])}[/]"
    found = judged.played.violations
    return f"[green]✓[/] {escape(found[0].requirement)} breaks" if found else "[green]✓[/] holds"
