"""``streamproof scenarios``: lists the scenarios of the library, shows one, or plays them all."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from streamproof.commands.options import (
    ClassPath,
    KafkaRelease,
    OfTheJvm,
    OnWorld,
    StoreLayer,
    WorkDirectory,
    release_of_world,
    subjects_with,
)
from streamproof.commands.terminal import terminal
from streamproof.conformance.store_worlds.hosted_play import Wanted, play_with, why_not_with
from streamproof.exit_codes import ExitCode
from streamproof.scenarios.kafka.real_settings import why_not
from streamproof.scenarios.scenario import Scenario, Setup
from streamproof.scenarios.scenario_reader import find, library, read

__all__ = ["list_scenarios"]


NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        show_default=False,
        help="Show this scenario, with its variants. Default: list all.",
    ),
]

PlayOption = Annotated[
    bool,
    typer.Option("--play", help="Play every variant, and print whether it came as expected."),
]

SubjectOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SUBJECT",
        help="Play the scenarios with this store, too, besides the model store. Repeatable.",
    ),
]


def list_scenarios(
    name: NameArgument = "",
    *,
    play: PlayOption = False,
    subject: SubjectOption = None,
    work_dir: WorkDirectory = None,
    class_path: ClassPath = "",
    kafka: KafkaRelease = "",
    layer: StoreLayer = "",
    on: OnWorld = "",
) -> None:
    """List the crash scenarios, show one, or play them all.

    Exit codes:
      0    everything came as expected
      1    a variant came other than expected
      3    the command line is wrong
      70   the simulator itself failed
    """
    console = terminal()
    chosen = [read(find(name))] if name else [read(path) for path in library().values()]
    if play:
        names = subjects_with(subject or (), OfTheJvm(class_path, kafka, layer))
        stores = [Wanted(each, work_dir=work_dir) for each in ("", *names)]
        if release := release_of_world(on, plays_scenarios=True):
            stores.append(Wanted(release=release))
        raise typer.Exit(ExitCode.FAILURE if _play_all(console, chosen, stores) else 0)
    if name:
        _show(console, chosen[0])
        return
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("scenario", no_wrap=True)
    table.add_column("what it is about")
    for each in chosen:
        table.add_row(each.name, escape(each.file.title))
    console.print(table)
    console.print(
        f"{len(chosen)} scenarios. `streamproof scenarios NAME` shows one, with its variants; "
        "`streamproof replay NAME` plays it.",
        style="dim",
        soft_wrap=True,
    )


def _show(console: Console, scenario: Scenario) -> None:
    """Print one scenario with its story and its variants."""
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
    # Users copy the path, so no terminal cuts it.
    console.print(f"file     {escape(str(scenario.path))}", soft_wrap=True)
    console.print(f"\n  $ streamproof replay {escape(scenario.name)}", soft_wrap=True)


def _play_all(console: Console, chosen: list[Scenario], stores: list[Wanted]) -> bool:
    """Play every variant with every store, and print a table; whether one came unexpected."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("scenario", no_wrap=True)
    table.add_column("variant")
    for wanted in stores:
        real = wanted.release and f"Kafka {wanted.release}"
        table.add_column(wanted.subject or real or "model store")
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
    """The cell of one variant with one store; a command that shows a surprise is kept."""
    if wanted.subject and (reason := why_not_with(wanted.subject, scenario, setup)):
        return f"[dim]not played: {escape(reason)}[/]"
    if wanted.release and (reason := why_not(scenario, setup, wanted.release)):
        return f"[dim]not played: {escape(reason)}[/]"
    judged = play_with(scenario, setup, wanted)
    if judged.surprises:
        surprising.append(judged.played.command)
        return f"[red]✗ {escape(judged.surprises[0])}[/]"
    found = judged.played.violations
    return f"[green]✓[/] {escape(found[0].requirement)} breaks" if found else "[green]✓[/] holds"
