"""What a person sees while ``streamproof explore`` runs, and when it has ended."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Self

from rich.console import Console
from rich.padding import Padding
from rich.progress import Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from streamproof.scenarios.exploration_findings import findings, shape_found
from streamproof.scenarios.exploration_ledger import Ledger
from streamproof.scenarios.shrinking import Shape, ShrinkStep
from streamproof.sim.exploration import Explored
from streamproof.sim.plan_space import PlanSpace
from streamproof.sim.situations import in_short, situations_of

__all__ = [
    "ExplorationProgress",
    "ShrinkingProgress",
    "WorldsProgress",
    "print_summary",
    "problem_line",
]

LINE_EVERY = 50
"""Where the output is no terminal, a line is printed after every 50 worlds."""


class WorldsProgress(ABC):
    """Shows how far a search is: one changing line on a terminal, new lines elsewhere.

    Args:
        console: where to print.
        ledger: the runs that were done before.
        before: the line before the first world has ended.
        line_every: where the output is no terminal, the number of worlds for each line.
    """

    def __init__(self, console: Console, ledger: Ledger, before: str, line_every: int) -> None:
        self._console = console
        self._line_every = line_every
        self._began = time.monotonic()
        self._ran = 0
        self._shapes = {shape for each in ledger.runs if (shape := shape_found(each))}
        self._bar = Progress(
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._line = self._bar.add_task(before, total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def ran(self, run: Explored) -> None:
        """Count a world that was run, and name its failure if the failure is new."""
        self._ran += 1
        shape = shape_found(run)
        if shape is not None and shape not in self._shapes:
            self._shapes.add(shape)
            self._console.print(_found_line(run, shape), soft_wrap=True)
        self._bar.update(self._line, description=self._line_now())
        if not self._console.is_terminal and self._ran % self._line_every == 0:
            self._console.print(self._line_now())

    @abstractmethod
    def _line_now(self) -> str:
        """How far the search is."""


class ExplorationProgress(WorldsProgress):
    """Shows how far an exploration of the simulator is, with the situations that came about."""

    def __init__(self, console: Console, ledger: Ledger, space: PlanSpace) -> None:
        super().__init__(console, ledger, "exploring", LINE_EVERY)
        self._situations = _situations(space)
        self._reached = {name for each in ledger.runs for name in each.marks}

    def ran(self, run: Explored) -> None:
        """Count a world that was run, and what came about in it."""
        self._reached.update(run.marks)
        super().ran(run)

    def _line_now(self) -> str:
        rate = self._ran / max(time.monotonic() - self._began, 0.001)
        return (
            f"{_count(self._ran, 'run')}, {rate:.1f}/s, {len(self._shapes)} found, "
            f"{len(self._reached & self._situations)} of {len(self._situations)} situations"
        )


def _found_line(run: Explored, shape: Shape) -> Text:
    message = run.violations[0][1]
    return Text(f"✗ seed {run.seed} ({run.topology}) {shape.requirement}: {message}", style="red")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' if number != 1 else ''}"


def _situations(space: PlanSpace) -> set[str]:
    """The situations that the worlds of a space should reach."""
    return set(situations_of(space.topologies, space.kinds))


def print_summary(console: Console, ledger: Ledger, space: PlanSpace) -> None:
    """Print how many worlds were run, and which situations came about in them.

    Args:
        console: where to print.
        ledger: the runs.
        space: the plans that their worlds were drawn from.
    """
    events = sum(each.events for each in ledger.runs)
    failed = sum(bool(each.violations) for each in ledger.runs)
    ways = len(findings(ledger.runs))
    came = f"{failed:,} of them broken, in {_count(ways, 'way')}" if failed else "none broken"
    console.print(f"{_count(len(ledger.runs), 'run')}, {_count(events, 'event')}; {came}.")
    possible = _situations(space)
    never = possible.difference(*(each.marks for each in ledger.runs))
    came_about = len(possible) - len(never)
    console.print(f"{came_about} of {len(possible)} situations came about.")
    if never:
        names = "; ".join(in_short(never))
        console.print(Padding(Text(f"Not reached: {names}."), (0, 0, 0, 2)))


def problem_line(run: Explored, subject: str, patch: str = "") -> Text:
    """One line on a run that raised an error, which blames nobody who may be right.

    Args:
        run: the run.
        subject: the store inside its tasks; empty without one.
        patch: the patch of its runtime, as ``FILE.py:FUNCTION``; empty without one.
    """
    blame = "This is a mistake in the simulator."
    if patch:
        blame = (
            f"Either the patch {patch} leaves the runtime unable to go on, which "
            f"`streamproof explore --seed {run.seed} --runs 1` without it tells, or this is a "
            "mistake in the simulator."
        )
    elif subject:
        blame = (
            f"Either what {subject} answers cannot be worked with, which `streamproof verify` "
            "tells, or this is a mistake in the simulator."
        )
    return Text(f"✗ seed {run.seed} came to no end: {run.problem}. {blame}", style="red")


class ShrinkingProgress:
    """Shows on a terminal how far the shrinking of one failure is."""

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

    def tell(self, step: ShrinkStep) -> None:
        """Show the smallest run so far."""
        line = f"{self._name}: {step.runs} runs, {step.events:,} events, {step.choices:,} choices"
        self._bar.update(self._line, description=line)
