"""The command that shows a run: a scenario or a trace, in pictures, or a saved failure."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from streamproof.commands.failure_replay import replay_failures
from streamproof.commands.run_drawing import Format, View, compare, draw, summary
from streamproof.conformance.simulated.hosted_play import Wanted, play_with, target_of
from streamproof.errors import UsageError
from streamproof.exit_codes import ExitCode
from streamproof.scenarios.play import Judged
from streamproof.scenarios.scenario import Scenario, Setup
from streamproof.scenarios.scenario_reader import find, library, read
from streamproof.scenarios.state.walk import step as walk
from streamproof.search_path import search_directory

__all__ = ["replay"]


def replay(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="SCENARIO|FILE...",
            help="A scenario of the library, a scenario file (.toml), either with @VARIANT; "
            "failures that a run has saved (.json); or a trace (.parquet), a directory of traces "
            "or of a campaign.",
        ),
    ],
    *,
    subject: Annotated[
        str, typer.Option(help="The store in it, as in `verify`. Default: a fast model store.")
    ] = "",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Another setting; can be repeated."),
    ] = None,
    defect: Annotated[
        list[str] | None,
        typer.Option(help="One more mistake that the runtime makes; can be repeated."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Where all that is left open follows from.")
    ] = None,
    run: Annotated[
        list[str] | None,
        typer.Option("--run", metavar="ID", help="A run of a trace that has several; repeatable."),
    ] = None,
    until: Annotated[
        int | None,
        typer.Option(min=0, metavar="MS", help="Show nothing after this moment."),
    ] = None,
    format_: Annotated[
        Format, typer.Option("--format", help="How the run is shown; all but text are files.")
    ] = "text",
    out: Annotated[Path, typer.Option(help="The directory that files go to.")] = Path(
        "streamproof-out"
    ),
    compare_: Annotated[
        bool, typer.Option("--compare", help="Two runs side by side: two targets, or variants.")
    ] = False,
    step: Annotated[
        bool, typer.Option("--step", help="Walk through the run event by event.")
    ] = False,
    all_: Annotated[
        bool, typer.Option("--all", help="Show every event, and not only what matters.")
    ] = False,
    work_dir: Annotated[
        Path | None,
        typer.Option(help="Where databases go. Default: /dev/shm if it has room, else /tmp."),
    ] = None,
) -> None:
    """Play a scenario in all its variants, show a trace, or run a saved failure again.

    Exit codes: 0 all came as expected (or every promise is kept in a trace, or no failure fails any
    more), 1 something did not, 2 a failure cannot be tried on this machine, 3 usage, 70 an error of
    the simulator or the suite itself.
    """
    search_directory()
    kinds = {_kind(each) for each in targets}
    if len(kinds) > 1:
        raise UsageError("Scenarios, traces and saved failures are replayed one kind at a time.")
    wanted, told = Wanted(subject, tuple(defect or ()), seed, work_dir), tuple(set_ or ())
    view = View(format_, out, all_, until, compare_, step)
    console = Console(highlight=False)
    if kinds == {"failure"}:
        code = replay_failures([Path(each) for each in targets], work_dir)
    elif kinds == {"trace"}:
        _require_for_trace(wanted, told, format_)
        # Whoever reads no trace needs no Arrow.
        from streamproof.commands.trace_replay import replay_traces

        code = replay_traces(console, [Path(each) for each in targets], run or (), view)
    elif run:
        raise UsageError("--run names a run of a trace, and this is none: leave it out.")
    else:
        code = _replay_scenarios(console, targets, wanted, told, view)
    raise typer.Exit(code)


def _replay_scenarios(
    console: Console, targets: list[str], wanted: Wanted, told: tuple[str, ...], view: View
) -> int:
    """Play scenarios, and show them; returns what to exit with."""
    changes = dict(map(_setting, told))
    chosen = [pair for each in targets for pair in _variants(each, changes)]
    judged = [(each, play_with(*each, wanted, told)) for each in chosen]
    shown = [(each, one._replace(played=view.of(one.played))) for each, one in judged]
    if view.is_compared:
        compare(console, [one.played for _, one in shown], "NAME@fixed NAME@defect")
    elif view.is_walked:
        (scenario, setup), last = shown[-1]
        _print_story(console, scenario)
        _print_verdict(console, setup, last)
        walk(last.played, console, input)
    else:
        for number, ((scenario, setup), one) in enumerate(shown):
            if number == 0 or shown[number - 1][0][0] is not scenario:
                _print_story(console, scenario)
                _print_hint(console, scenario, [each for each, _ in shown])
            _print_verdict(console, setup, one)
            draw(console, one.played, view, is_only=len(shown) == 1)
    is_as_written = not (told or wanted.defects or wanted.seed is not None)
    surprised = is_as_written and any(one.surprises for _, one in judged)
    return ExitCode.FAILURE if surprised else 0


def _kind(target: str) -> str:
    """What a target is: a ``failure``, a ``trace`` or a ``scenario``."""
    if target.endswith(".json"):
        return "failure"
    is_directory = Path(target).is_dir() and target not in library()
    return "trace" if target.endswith(".parquet") or is_directory else "scenario"


def _require_for_trace(wanted: Wanted, told: tuple[str, ...], format_: Format) -> None:
    """See that nothing is asked for that a trace cannot be any more.

    Raises:
        UsageError: something is.
    """
    asked = {
        "--subject": wanted.subject,
        "--set": told,
        "--defect": wanted.defects,
        "--seed": wanted.seed is not None,
        "--work-dir": wanted.work_dir,
    }
    for name in (name for name, is_asked in asked.items() if is_asked):
        raise UsageError(
            f"{name} is for a run that is made, and what is in a trace has happened. Leave it out, "
            "or replay a scenario."
        )
    if format_ == "parquet":
        raise UsageError("--format parquet: a trace is in Parquet already. Choose another format.")


def _print_hint(console: Console, scenario: Scenario, chosen: list[tuple[Scenario, Setup]]) -> None:
    """How to see variants of a scenario side by side, if there are several."""
    names = [shlex.quote(target_of(*each)) for each in chosen if each[0] is scenario]
    if len(names) > 1:
        text = f"Side by side: streamproof replay {' '.join(names[-2:])} --compare"
        console.print(Text(text, style="dim"), soft_wrap=True)
        console.print()


def _setting(text: str) -> tuple[str, Any]:
    """A key and its value: JSON, or else a word.

    Raises:
        UsageError: there is no ``=``.
    """
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageError(f"--set {text}: write KEY=VALUE, as max_task_idle_ms=500.")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def _variants(target: str, changes: dict[str, Any]) -> list[tuple[Scenario, Setup]]:
    """The runs that a target means."""
    name, at, variant = target.rpartition("@")
    scenario = read(find(name if at else target), changes)
    if not at:
        return [(scenario, each) for each in scenario.setups.values()]
    found = [each for each in scenario.setups.values() if each.name.partition(" ")[0] == variant]
    found = [each for each in scenario.setups.values() if each.name == variant] or found
    if not found:
        raise UsageError(
            f"{scenario.name} has no variant {variant!r}; it has: {', '.join(scenario.setups)}."
        )
    return [(scenario, each) for each in found]


def _print_story(console: Console, scenario: Scenario) -> None:
    file = scenario.file
    console.print(f"[bold]{escape(scenario.name)}[/]  {escape(file.title)}")
    if file.story:
        console.print(Padding(escape(" ".join(file.story.split())), (1, 0, 0, 2)))
    if file.sources:
        console.print(f"  [dim]{escape(', '.join(file.sources))}[/]")
    console.print()


def _print_verdict(console: Console, setup: Setup, judged: Judged) -> None:
    """Whether a variant came as it was expected, and what it shows."""
    sign, how = ("[green]✓[/]", "as expected") if not judged.surprises else ("[red]✗[/]", "")
    words = summary(judged.played, how)
    console.print(f"{sign} [bold]{escape(setup.name)}[/]  {escape(words)}")
    if setup.variant.why:
        console.print(f"  {escape(setup.variant.why)}")
    for each in judged.surprises:
        console.print(f"  [red]{escape(each)}[/]")
