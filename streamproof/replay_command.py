"""The command that shows a run again: a scenario, in words and pictures, or a saved failure."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from streamproof.failure_replay import replay_failures
from streamproof.playing import Wanted, play_with, target_of
from streamproof.scenarios.causes import what_matters
from streamproof.scenarios.comparing import compare as compared
from streamproof.scenarios.comparison_text import render_comparison
from streamproof.scenarios.pictures.html import render_html
from streamproof.scenarios.pictures.lanes import Picture, picture
from streamproof.scenarios.pictures.mermaid import render_mermaid
from streamproof.scenarios.pictures.perfetto import render_perfetto
from streamproof.scenarios.pictures.text import render_text
from streamproof.scenarios.played import Played
from streamproof.scenarios.playing import Judged
from streamproof.scenarios.reading import find, read
from streamproof.scenarios.scenario import Scenario, Setup
from streamproof.scenarios.stepping import step as walk
from streamproof.stores.errors import UsageError

__all__ = ["replay"]

EXIT_SURPRISED = 1
"""What the command ends with if a scenario does not come as it is expected to."""

Format = Literal["text", "html", "mermaid", "perfetto", "parquet"]

SUFFIXES: dict[Format, str] = {
    "html": ".html",
    "mermaid": ".mmd",
    "perfetto": ".trace.json",
    "parquet": ".parquet",
}
"""How the files of a format end; text is printed."""

RENDERERS: dict[Format, Callable[[Picture], str]] = {
    "html": render_html,
    "mermaid": render_mermaid,
    "perfetto": render_perfetto,
}

LEAST_WIDTH, MOST_WIDTH = 80, 120
"""The columns of a picture in text."""


def replay(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="SCENARIO|FILE...",
            help="A scenario of the library, a scenario file (.toml), either with @VARIANT, or "
            "failures that a run has saved (.json).",
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
    until: Annotated[
        int | None, typer.Option(min=0, metavar="MS", help="Show nothing after this moment.")
    ] = None,
    format_: Annotated[
        Format, typer.Option("--format", help="How the run is shown; all but text are files.")
    ] = "text",
    out: Annotated[Path, typer.Option(help="The directory that files go to.")] = Path(
        "streamproof-out"
    ),
    compare: Annotated[
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
    """Play a scenario in all its variants, or run a saved failure again, and show what happens.

    Exit codes: 0 all came as expected (or no failure fails any more), 1 something did not (or one
    still fails), 2 a failure cannot be tried on this machine, 3 usage, 70 an error of the simulator
    or the suite itself.
    """
    # A module in the current directory is found, as it is by other tools that load modules.
    sys.path.insert(0, str(Path.cwd()))
    failures = [each for each in targets if each.endswith(".json")]
    if failures and len(failures) < len(targets):
        raise UsageError("Scenarios and saved failures are replayed one by one: leave one out.")
    if failures:
        raise typer.Exit(replay_failures([Path(each) for each in failures], work_dir))
    wanted = Wanted(subject, tuple(defect or ()), seed, work_dir)
    told = tuple(set_ or ())
    changes = dict(map(_setting, told))
    chosen = [pair for each in targets for pair in _variants(each, changes)]
    console = Console(highlight=False)
    judged = [(each, play_with(*each, wanted, told)) for each in chosen]
    shown = [(each, _until(one, until)) for each, one in judged]
    if compare:
        _compare(console, [one.played for _, one in shown])
    elif step:
        (scenario, setup), last = shown[-1]
        _print_story(console, scenario)
        _print_verdict(console, setup, last)
        walk(last.played, console, input)
    else:
        for number, ((scenario, setup), one) in enumerate(shown):
            if number == 0 or shown[number - 1][0][0] is not scenario:
                _print_story(console, scenario)
                _print_hint(console, scenario, [each for each, _ in shown])
            drawn = _Drawn(format_, out, is_only=len(shown) == 1, everything=all_)
            _show(console, setup, one, drawn)
    is_as_written = not (told or wanted.defects or seed is not None)
    surprised = is_as_written and any(one.surprises for _, one in judged)
    raise typer.Exit(EXIT_SURPRISED if surprised else 0)


class _Drawn(NamedTuple):
    """How a run is drawn.

    Attributes:
        format: in words or in a file.
        out: where files go.
        is_only: whether no other run is shown beside it.
        everything: whether every event is drawn.
    """

    format: Format
    out: Path
    is_only: bool
    everything: bool


def _show(console: Console, setup: Setup, judged: Judged, drawn: _Drawn) -> None:
    _print_verdict(console, setup, judged)
    played, everything = judged.played, drawn.everything
    if drawn.format != "text":
        console.print(str(_written(played, drawn.format, drawn.out)), markup=False, soft_wrap=True)
    elif played.violations or everything or drawn.is_only:
        width = min(max(console.width, LEAST_WIDTH), MOST_WIDTH)
        shown = picture(played, what_matters(played) if played.violations else None)
        text = render_text(shown, width=width, **{"most": 0} if everything else {})
        console.print(Text(text), soft_wrap=True)
    console.print(Text(f"  $ {played.command}"), soft_wrap=True)


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


def _until(judged: Judged, until_ms: int | None) -> Judged:
    """The run up to a moment: what was found by then, and no more."""
    if until_ms is None:
        return judged
    played = judged.played
    events = [each for each in played.events if each.time <= until_ms]
    found = [
        each for each in played.violations if each.event is not None and each.event.time <= until_ms
    ]
    return judged._replace(played=replace(played, events=events, violations=found))


def _compare(console: Console, runs: list[Played]) -> None:
    """Show two runs side by side.

    Raises:
        UsageError: there are not two.
    """
    if len(runs) != 2:
        names = ", ".join(each.name for each in runs)
        raise UsageError(
            f"--compare needs two runs, and these are {len(runs)}: {names}. Name two variants, as "
            "NAME@fixed NAME@defect."
        )
    width = min(max(console.width, LEAST_WIDTH), MOST_WIDTH)
    console.print(Text(render_comparison(compared(*runs), width)), soft_wrap=True)


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
    found = judged.played.violations
    came = f"{found[0].requirement} is broken" if found else "every promise is kept"
    sign, how = ("[green]✓[/]", "as expected") if not judged.surprises else ("[red]✗[/]", "")
    words = ", ".join(filter(None, [came, how, f"{len(judged.played.events):,} events"]))
    console.print(f"{sign} [bold]{escape(setup.name)}[/]  {escape(words)}")
    if setup.variant.why:
        console.print(f"  {escape(setup.variant.why)}")
    for each in judged.surprises:
        console.print(f"  [red]{escape(each)}[/]")


def _written(played: Played, format_: Format, out: Path) -> Path:
    """The file that the picture of a run was written to.

    Raises:
        UsageError: it cannot be written.
    """
    name = "".join(each if each.isalnum() or each in "-_." else "-" for each in played.name)
    path = out / f"{name.strip('-')}{SUFFIXES[format_]}"
    try:
        out.mkdir(parents=True, exist_ok=True)
        if format_ == "parquet":
            # Whoever writes no trace needs no Arrow.
            from streamproof.sim.trace_files import TraceFile

            with TraceFile(path, played.name) as file:
                for event in played.events:
                    file(event)
        else:
            drawn = picture(played, what_matters(played) if played.violations else None)
            path.write_text(RENDERERS[format_](drawn), "utf-8")
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}. Choose another directory with --out."
        ) from error
    return path
