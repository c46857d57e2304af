"""Worlds of the swarm as programs, and smaller worlds that break the same promise."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import msgspec

from streamproof.conformance.settings import Settings
from streamproof.scenarios.plan_shrinking import changed_fields, plainest
from streamproof.sim.choices import Choices
from streamproof.sim.plan_space import PlanSpace, draw
from streamproof.sim.simulation import Outcome, run
from streamproof.sim.trace import Watcher
from streamproof.sim.world_plan import Plan

__all__ = ["Seeded", "smallest_program", "within"]


@dataclass(frozen=True)
class Seeded:
    """A world that follows from a seed.

    Attributes:
        seed: draws everything that is not given.
        space: the plans that its plan is drawn from.
        defect: the mistake that the runtime makes; empty for none.
        plan: replaces the drawn plan; all other choices stay the same.
    """

    seed: int
    space: PlanSpace
    defect: str = ""
    plan: Plan | None = None

    def run(self, watchers: Iterable[Watcher] = ()) -> Outcome:
        """Simulate the world, and show each event to the watchers."""
        choices = Choices.seeded(self.seed)
        drawn = draw(choices, self.space)
        defects = [self.defect] if self.defect else []
        return run(choices, self.plan or drawn, defects=defects, watchers=watchers)

    def breaks(self, requirements: AbstractSet[str]) -> bool:
        """Whether the run of the world breaks all these promises."""
        return requirements <= {each.requirement for each in self.run().violations}

    @property
    def program(self) -> str:
        """A Python program that runs the world and fails with the broken promises."""
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
                "assert not run.violations, '\\n'.join(map(str, run.violations))",
            ]
        )


def smallest_program(world: Seeded, plan: Plan, requirements: AbstractSet[str], tries: int) -> str:
    """A program that breaks promises, with the simplest plan that the tries found.

    Args:
        world: the world that broke them.
        plan: its drawn plan.
        requirements: the broken requirements; a simpler world must break them, too.
        tries: how many worlds may be run in the search.
    """
    found = plainest(plan, lambda each: replace(world, plan=each).breaks(requirements), tries)
    return (world if found == plan else replace(world, plan=found)).program


def within(space: PlanSpace, asked: Settings) -> PlanSpace:
    """The plans with the guarantee of a run, and with the rules of its specification."""
    rules = "proposal" if asked.spec == "kips" else "kafka"
    return msgspec.structs.replace(
        space,
        guarantees=[asked.guarantee],
        settings={**space.settings, "store_rules": [rules]},
    )
