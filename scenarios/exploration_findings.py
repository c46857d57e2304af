"""The distinct failures of an exploration: how they are found, shrunk and written down."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from streamproof.errors import UsageError
from streamproof.scenarios.pictures.lanes import picture
from streamproof.scenarios.pictures.text_lanes import render_text
from streamproof.scenarios.scenario_writer import pytest_text, scenario_text, variant_of
from streamproof.scenarios.shrinking import MOST_RUNS, Failing, Shape, ShrinkStep, Shrunk, shrink
from streamproof.sim.choices import Choices
from streamproof.sim.exploration import Explored, SeededWorlds
from streamproof.sim.invariants import INVARIANTS

__all__ = ["Finding", "finding_of", "findings", "name_of", "shape_found", "write_finding"]


def shape_found(run: Explored) -> Shape | None:
    """The shape of the failure of a run; ``None`` if it did not fail."""
    return Shape(run.violations[0][0], run.invariant) if run.violations else None


def findings(runs: Iterable[Explored]) -> list[Explored]:
    """The first run of each failure, the worst failure first. Equal shapes are one failure.

    The order of ``INVARIANTS`` says which failure is worse: the content of stores comes before the
    behaviour of the group.
    """
    first: dict[Shape, Explored] = {}
    for run in runs:
        shape = shape_found(run)
        if shape is not None:
            first.setdefault(shape, run)
    order = {each.name: number for number, each in enumerate(INVARIANTS)}
    return sorted(first.values(), key=lambda run: (order.get(run.invariant, -1), run.seed))


@dataclass(frozen=True)
class Finding:
    """A failure, shrunk and written down.

    Attributes:
        shrunk: the smallest run.
        scenario: the scenario file.
        variant: the variant of the scenario in which the promise is broken.
    """

    shrunk: Shrunk
    scenario: Path
    variant: str


def finding_of(
    worlds: SeededWorlds,
    run: Explored,
    most_runs: int = MOST_RUNS,
    progress: Callable[[ShrinkStep], None] | None = None,
) -> Shrunk:
    """Shrink the failure of a run.

    Args:
        worlds: the explored worlds.
        run: the run.
        most_runs: the most worlds to run.
        progress: receives the progress after each world.

    Raises:
        UsageError: the run no longer fails, or fails in another way.
    """
    shrunk = shrink(_failing(worlds, run), most_runs, progress)
    found = Shape(shrunk.violations[0].requirement, shrunk.violations[0].invariant)
    if found != shape_found(run):
        raise UsageError(
            f"Seed {run.seed} broke {run.violations[0][0]} in the exploration, but now breaks "
            f"{found.requirement}: the store or the simulator has changed since then. Explore "
            "again, and choose another directory with --out."
        )
    return shrunk


def _failing(worlds: SeededWorlds, run: Explored) -> Failing:
    """A run once more, with its choices."""
    choices = Choices.seeded(run.seed, recording=True)
    plan = worlds.draw(choices, run.goal)
    drawn = choices.count
    worlds.simulate(choices, plan, defects=worlds.defects)
    return Failing(
        f"seed {run.seed}",
        plan,
        choices.drawn[drawn:],
        worlds.defects,
        worlds.simulate,
        worlds.patch,
    )


def write_finding(directory: Path, shrunk: Shrunk, run: Explored, subject: str = "") -> Finding:
    """Write a scenario file, a test and a picture of a failure; replace older ones of the run.

    Args:
        directory: the directory for the files.
        shrunk: the smallest run.
        run: the explored run that was shrunk.
        subject: the store in the run; empty for model stores.
    """
    directory.mkdir(parents=True, exist_ok=True)
    name = name_of(run)
    scenario = directory / f"{name}.toml"
    text = scenario_text(shrunk, f"seed {run.seed}", directory, subject=subject)
    scenario.write_text(text, "utf-8")
    test = directory / f"test_{name.lower().replace('-', '_')}.py"
    test.write_text(pytest_text(shrunk, scenario.name, subject=subject), "utf-8")
    drawn = render_text(picture(shrunk.played, shrunk.matters))
    (directory / f"{name}.txt").write_text(drawn, "utf-8")
    return Finding(shrunk, scenario, variant_of(shrunk))


def name_of(run: Explored) -> str:
    """The name of the files of a finding, without their suffixes."""
    return f"{run.violations[0][0]}-seed-{run.seed}"
