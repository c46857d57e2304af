"""What ``streamproof replay`` prints: of scenarios, of traces, and of saved failures."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from streamproof.commands.replay_drawing import compare, draw, summary
from streamproof.commands.replay_view import View
from streamproof.conformance.store_worlds.hosted_play import target_of
from streamproof.exit_codes import ExitCode
from streamproof.runs.scenario_runs import ScenarioRun
from streamproof.scenarios.event_words import harmless
from streamproof.scenarios.play import Judged
from streamproof.scenarios.recorded_run import RecordedRun
from streamproof.scenarios.scenario import Scenario
from streamproof.scenarios.state.walk import step as walk

if TYPE_CHECKING:
    from streamproof.runs.failure_runs import RepeatedFailure

__all__ = ["print_repeated", "print_unjudged", "print_why", "show_scenarios", "show_traces"]

EXIT_CODES = {
    "broken": ExitCode.SUITE_ERROR,
    "fails": ExitCode.FAILURE,
    "untried": ExitCode.PARTIAL,
    "mended": ExitCode.SUCCESS,
}
"""What a saved failure that was run again stands for, the worst first."""


def show_scenarios(console: Console, runs: Sequence[ScenarioRun], view: View) -> None:
    """Show scenarios that were played.

    Raises:
        UsageError: two runs are to be compared, and there are not two; or a file cannot be written.
    """
    shown = [each._replace(judged=_cut(each, view)) for each in runs]
    if view.is_compared:
        runs_shown = [each.judged.played for each in shown]
        compare(console, runs_shown, view, "NAME@fixed NAME@defect")
    elif view.is_walked:
        last = shown[-1]
        _print_story(console, last.scenario)
        _print_verdict(console, last)
        walk(last.judged.played, console, input)
    else:
        for number, each in enumerate(shown):
            if number == 0 or shown[number - 1].scenario is not each.scenario:
                _print_story(console, each.scenario)
                _print_hint(console, each.scenario, shown)
            _print_verdict(console, each)
            draw(console, each.judged.played, view, is_only=len(shown) == 1)
            if view.everything:
                print_unjudged(console, each.judged.played)


def _cut(run: ScenarioRun, view: View) -> Judged:
    return run.judged._replace(played=view.of(run.judged.played))


def show_traces(console: Console, runs: Iterable[RecordedRun], view: View) -> None:
    """Show runs of traces.

    Raises:
        UsageError: two runs are to be compared, and there are not two; or a file cannot be written.
    """
    shown = [view.of(each) for each in runs]
    if view.is_compared:
        compare(console, shown, view, "--run FIRST --run SECOND")
        return
    for each in shown[-1:] if view.is_walked else shown:
        sign = "[red]✗[/]" if each.violations else "[green]✓[/]"
        console.print(f"{sign} [bold]{escape(harmless(each.name))}[/]  {escape(summary(each))}")
        if each.story:
            console.print(Padding(escape(each.story), (0, 0, 0, 2)))
        if view.is_walked:
            walk(each, console, input)
        else:
            draw(console, each, view)
        print_unjudged(console, each)


def print_unjudged(console: Console, run: RecordedRun) -> None:
    """Say which promises were not judged, and why; those of one reason stand together."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in run.unjudged.items():
        by_reason.setdefault(reason, []).append(name)
    if by_reason:
        console.print("  [dim]Not judged, as the recording lacks what they need:[/]")
    for reason, names in sorted(by_reason.items()):
        console.print(Padding(Text(f"{'; '.join(names)}: {reason}", style="dim"), (0, 0, 0, 4)))


def print_why(console: Console, reasons: Iterable[str]) -> None:
    """Say why a comparison ends with 1: it shows two runs, and judges neither."""
    for each in reasons:
        console.print(
            Text(f"✗ {each.rstrip('.')}. So the exit code is 1.", style="red"), soft_wrap=True
        )


def print_repeated(console: Console, repeated: RepeatedFailure) -> ExitCode:
    """Say what came of a saved failure; returns the exit code that the failure stands for."""
    words = {
        "broken": f"the suite itself failed: {repeated.detail}",
        "fails": "still fails.",
        "untried": f"cannot be tried here: {repeated.detail.rstrip('.')}.",
        "mended": "does not fail any more.",
    }
    saved = repeated.saved
    line = f"{saved.subject} {saved.name}: {words[repeated.outcome]}"
    console.print(Text(line), soft_wrap=True)
    if repeated.outcome == "fails":
        console.print(Text(repeated.detail), soft_wrap=True)
    return EXIT_CODES[repeated.outcome]


def _print_hint(console: Console, scenario: Scenario, runs: Iterable[ScenarioRun]) -> None:
    """Say how to see two variants of a scenario side by side, if several were played."""
    names = [
        shlex.quote(target_of(each.scenario, each.setup))
        for each in runs
        if each.scenario is scenario
    ]
    if len(names) > 1:
        text = f"Side by side: streamproof replay {' '.join(names[-2:])} --compare"
        console.print(Text(text, style="dim"), soft_wrap=True)
        console.print()


def _print_story(console: Console, scenario: Scenario) -> None:
    file = scenario.file
    console.print(f"[bold]{escape(scenario.name)}[/]  {escape(file.title)}")
    if file.story:
        console.print(Padding(escape(" ".join(file.story.split())), (1, 0, 0, 2)))
    if file.sources:
        console.print(f"  [dim]{escape(', '.join(file.sources))}[/]")
    console.print()


def _print_verdict(console: Console, run: ScenarioRun) -> None:
    """Say whether a variant came as expected, and what it shows."""
    judged, variant = run.judged, run.setup
    sign, how = ("[green]✓[/]", "as expected") if not judged.surprises else ("[red]✗[/]", "")
    words = summary(judged.played, how)
    console.print(f"{sign} [bold]{escape(variant.name)}[/]  {escape(words)}")
    if variant.variant.why:
        console.print(f"  {escape(variant.variant.why)}")
    for each in judged.surprises:
        console.print(f"  [red]{escape(each)}[/]")
