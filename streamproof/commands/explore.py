"""The command that explores worlds, and makes what it finds small."""

from __future__ import annotations

import os
import shlex
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Annotated, NamedTuple, Self

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from streamproof.conformance.budget import parse_duration
from streamproof.conformance.simulated.hosted_worlds import Hosted
from streamproof.conformance.subject import binds_of, load_subject
from streamproof.errors import UsageError
from streamproof.exit_codes import ExitCode
from streamproof.scenarios.exploration_findings import (
    Finding,
    finding_of,
    findings,
    name_of,
    shape_found,
    write_finding,
)
from streamproof.scenarios.exploration_ledger import Ledger
from streamproof.scenarios.shrinking import MOST_RUNS, Shape, Step
from streamproof.scenarios.swarm_file import read_swarm
from streamproof.search_path import search_directory
from streamproof.sim.coverage_marks import MARKS
from streamproof.sim.defects import require_defects
from streamproof.sim.exploration import Explored, SeededWorlds
from streamproof.sim.exploration import explore as explore_worlds
from streamproof.sim.plan_space import EVERYTHING, PlanSpace
from streamproof.version import __version__

__all__ = ["explore"]

RUNS = 200
"""Worlds that are run unless something else is asked for."""

TOLD_EVERY = 50
"""Where there is no terminal, a line is printed whenever so many more worlds were run."""


class _Asked(NamedTuple):
    """What the command was asked for."""

    first: int
    runs: int
    budget_s: float
    jobs: int
    keep_going: bool
    shrink_runs: int
    out: Path


def explore(
    *,
    runs: Annotated[
        int | None, typer.Option(min=1, help=f"How many worlds to run in all. Default: {RUNS}.")
    ] = None,
    budget: Annotated[
        str, typer.Option(help="Run worlds for so long instead, such as 90s, 10m or 1h.")
    ] = "",
    swarm: Annotated[
        Path | None, typer.Option(help="A TOML file that says what worlds are drawn from.")
    ] = None,
    defect: Annotated[
        str,
        typer.Option(help="A mistake that the runtime makes; `streamproof defects` lists them."),
    ] = "",
    subject: Annotated[
        str, typer.Option(help="The store in the worlds, as in `verify`. Default: model stores.")
    ] = "",
    seed: Annotated[int, typer.Option(min=0, help="The first seed; the next is one larger.")] = 0,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=1, help="Worlds at a time. Default: one a core.")
    ] = os.cpu_count() or 1,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Go on after a failure, and collect others.")
    ] = False,
    shrink_runs: Annotated[
        int, typer.Option(min=0, help="Worlds to run to make each failure smaller, at most.")
    ] = MOST_RUNS,
    out: Annotated[
        Path,
        typer.Option(help="The directory for runs and findings; what is there is gone on with."),
    ] = Path("streamproof-explored"),
) -> None:
    """Explore simulated worlds: each seed draws one, with faults, and all invariants watch it.

    It stops at the first failure, makes it small, and writes it as a scenario to replay. After
    Ctrl-C or a kill, the same command goes on where it was.

    Exit codes: 0 nothing was found, 1 something was, 3 usage, 70 an error of the simulator itself,
    130 interrupted.
    """
    if runs is not None and budget:
        raise UsageError("--runs and --budget exclude each other: leave one of them out.")
    if defect:
        require_defects([defect])
    search_directory()
    chosen = read_swarm(swarm) if swarm else EVERYTHING
    worlds = _worlds(chosen, defect, subject)
    budget_s = parse_duration(budget) if budget else 0.0
    asked = _Asked(seed, runs or RUNS, budget_s, jobs, keep_going, shrink_runs, out)
    what = {"version": __version__, "seed": seed, "defect": defect, "subject": subject}
    what["swarm"] = msgspec.to_builtins(chosen)
    console = Console(highlight=False)
    with Ledger(out, what) as ledger:
        code = _explore(console, ledger, worlds, asked)
    raise typer.Exit(code)


def _worlds(space: PlanSpace, defect: str, subject: str) -> SeededWorlds:
    """The worlds that are asked for.

    Raises:
        UsageError: the store or the defect does not fit.
    """
    if not subject:
        return SeededWorlds(space, defect)
    if binds_of(subject) == "runtime":
        raise UsageError(
            "--subject is a store: the runtime is in every world. Leave it out, and add --defect "
            "for a mistake of the runtime."
        )
    fitting = space.for_store(load_subject(subject).capabilities)
    return SeededWorlds(fitting, defect, Hosted(subject, str(Path.cwd())), subject)


def _explore(console: Console, ledger: Ledger, worlds: SeededWorlds, asked: _Asked) -> int:
    """Run worlds, make failures small, and sum up; what to exit with."""
    if ledger.torn:
        console.print("The last line of the runs was torn: that run is done again.")
    if ledger.runs:
        console.print(f"{len(ledger.runs):,} runs were done before; this goes on after them.")
    try:
        with _Watch(console, ledger) as watch:
            for each in _new_runs(ledger, worlds, asked):
                ledger.add(each)
                watch.ran(each)
        _sum_up(console, ledger)
        written = _make_small(console, ledger, worlds, asked)
    except KeyboardInterrupt:
        console.print(
            f"Interrupted after {len(ledger.runs):,} runs, which are kept in {ledger.path}. The "
            "same command goes on.",
            soft_wrap=True,
        )
        return ExitCode.INTERRUPTED
    if problems := [each for each in ledger.runs if each.problem]:
        console.print(_problem_line(problems[0], worlds.subject), soft_wrap=True)
        return ExitCode.SUITE_ERROR
    if not written:
        console.print("Nothing was found.")
        return 0
    worst = written[0]
    words = ["streamproof", "replay", f"{worst.scenario}@{worst.variant}"]
    if worlds.subject:
        words += ["--subject", worlds.subject]
    console.print(f"Reproduce: {escape(shlex.join(words))}", soft_wrap=True)
    return ExitCode.FAILURE


def _problem_line(run: Explored, subject: str) -> Text:
    """What is said of a run that came to no end."""
    blame = (
        f"Either what {subject} answers cannot be worked with, which `streamproof verify` tells, "
        "or this is a mistake in the simulator."
        if subject
        else "This is a mistake in the simulator."
    )
    return Text(f"✗ seed {run.seed} came to no end: {run.problem}. {blame}", style="red")


def _new_runs(ledger: Ledger, worlds: SeededWorlds, asked: _Asked) -> Iterator[Explored]:
    """What comes of the worlds that were not run yet, as long as there is reason to go on."""
    if not asked.keep_going and any(map(_is_reason_to_stop, ledger.runs)):
        return
    start = asked.first + len(ledger.runs)
    seeds = count(start) if asked.budget_s else range(start, asked.first + asked.runs)
    ends = time.monotonic() + asked.budget_s if asked.budget_s else float("inf")
    running = explore_worlds(seeds, worlds, jobs=asked.jobs)
    with closing(running):  # type: ignore[type-var]
        for each in running:
            yield each
            if time.monotonic() >= ends or (not asked.keep_going and _is_reason_to_stop(each)):
                return


def _is_reason_to_stop(run: Explored) -> bool:
    return bool(run.violations or run.problem)


class _Watch:
    """Shows how an exploration goes: a line that changes on a terminal, and new lines elsewhere."""

    def __init__(self, console: Console, ledger: Ledger) -> None:
        self._console = console
        self._started = time.monotonic()
        self._ran = 0
        self._marks = {name for each in ledger.runs for name, hits in each.marks.items() if hits}
        self._shapes = {shape for each in ledger.runs if (shape := shape_found(each))}
        self._bar = Progress(
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._line = self._bar.add_task("exploring", total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def ran(self, run: Explored) -> None:
        """A world was run."""
        self._ran += 1
        self._marks.update(name for name, hits in run.marks.items() if hits)
        shape = shape_found(run)
        if shape is not None and shape not in self._shapes:
            self._shapes.add(shape)
            self._console.print(_found_line(run, shape), soft_wrap=True)
        self._bar.update(self._line, description=self._told())
        if not self._console.is_terminal and self._ran % TOLD_EVERY == 0:
            self._console.print(self._told())

    def _told(self) -> str:
        rate = self._ran / max(time.monotonic() - self._started, 0.001)
        return (
            f"{_count(self._ran, 'run')}, {rate:.1f}/s, {len(self._shapes)} found, "
            f"{len(self._marks)} of {len(MARKS)} situations"
        )


def _found_line(run: Explored, shape: Shape) -> Text:
    message = run.violations[0][1]
    return Text(f"✗ seed {run.seed} ({run.topology}) {shape.requirement}: {message}", style="red")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' if number != 1 else ''}"


def _sum_up(console: Console, ledger: Ledger) -> None:
    """What was run, and which situations came about."""
    marks: Counter[str] = Counter(dict.fromkeys(MARKS, 0))
    for each in ledger.runs:
        marks.update(name for name, hits in each.marks.items() if hits)
    events = sum(each.events for each in ledger.runs)
    failed = sum(bool(each.violations) for each in ledger.runs)
    ways = len(findings(ledger.runs))
    came = f"{failed:,} of them broken, in {_count(ways, 'way')}" if failed else "none broken"
    console.print(f"{_count(len(ledger.runs), 'run')}, {_count(events, 'event')}; {came}.")
    never = [name for name, hits in marks.items() if not hits]
    console.print(f"{len(marks) - len(never)} of {len(marks)} situations came about.")
    for name in never:
        console.print(f"  not reached: {name}")


def _make_small(
    console: Console, ledger: Ledger, worlds: SeededWorlds, asked: _Asked
) -> list[Finding]:
    """Make each distinct failure small, and write it; the worst comes first."""
    written = []
    for run_ in findings(ledger.runs):
        with _Smaller(console, name_of(run_)) as smaller:
            shrunk = finding_of(worlds, run_, asked.shrink_runs, smaller.tell)
        finding = write_finding(asked.out, shrunk, run_, worlds.subject)
        written.append(finding)
        events = len(shrunk.played.events)
        console.print(
            f"{finding.scenario}: {len(shrunk.matters)} of {events:,} events matter "
            f"({run_.events:,} before {shrunk.runs} runs made it smaller).",
            soft_wrap=True,
        )
    return written


class _Smaller:
    """Shows how a failure becomes smaller, on a terminal."""

    def __init__(self, console: Console, name: str) -> None:
        self._name = name
        self._bar = Progress(
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._line = self._bar.add_task(f"making {name} smaller", total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def tell(self, step: Step) -> None:
        """Another world was run."""
        told = f"{self._name}: {step.runs} runs, {step.events:,} events, {step.choices:,} choices"
        self._bar.update(self._line, description=told)
