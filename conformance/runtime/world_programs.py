"""Worlds of the swarm as programs, and smaller worlds that break the same promise."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import msgspec

from streamproof.scenarios.plan_shrinking import changed_fields, plainest
from streamproof.sim.choices import Choices
from streamproof.sim.plan_space import PlanSpace, draw
from streamproof.sim.simulation import Outcome, run
from streamproof.sim.trace import Watcher
from streamproof.sim.world_plan import Plan

__all__ = ["Seeded", "smallest_program"]


@dataclass(frozen=True)
class Seeded:
    """A world that follows from a seed.

    Attributes:
        seed: it draws all that is not given.
        space: the plans that its plan is drawn from.
        defect: the mistake that the runtime makes; none if it is empty.
        plan: what the run is like instead of what was drawn; all other choices stay as they are.
    """

    seed: int
    space: PlanSpace
    defect: str = ""
    plan: Plan | None = None

    def run(self, watchers: Iterable[Watcher] = ()) -> Outcome:
        """Simulate it, and show each event to the watchers."""
        choices = Choices.seeded(self.seed)
        drawn = draw(choices, self.space)
        defects = [self.defect] if self.defect else []
        return run(choices, self.plan or drawn, defects=defects, watchers=watchers)

    def breaks(self, requirements: AbstractSet[str]) -> bool:
        """Whether all these promises are broken in it."""
        return requirements <= {each.requirement for each in self.run().violations}

    @property
    def program(self) -> str:
        """The world as a Python program that prints what is broken in it."""
        arguments = [f"{self.seed}"]
        if space := msgspec.to_builtins(self.space):
            arguments.append(f"drawn_from={space!r}")
        if self.plan is not None:
            arguments.append(f"plan={changed_fields(self.plan)!r}")
        if self.defect:
            arguments.append(f"defects=[{self.defect!r}]")
        return "\n".join(
            [
                "from streamproof import simulate",
                "",
                "run = simulate(",
                *(f"    {each}," for each in arguments),
                ")",
                "print(*run.violations, sep='\\n')",
            ]
        )


def smallest_program(world: Seeded, plan: Plan, requirements: AbstractSet[str], tries: int) -> str:
    """A program that breaks promises, with a plan as plain as so many tries can make it.

    Args:
        world: what broke them.
        plan: what was drawn for it.
        requirements: what was broken, and still has to be.
        tries: how many worlds may be run for it.
    """
    found = plainest(plan, lambda each: replace(world, plan=each).breaks(requirements), tries)
    return (world if found == plan else replace(world, plan=found)).program
