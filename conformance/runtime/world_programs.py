"""Worlds of the swarm as programs, and smaller worlds that break the same promise."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from streamproof.scenarios.shrinking import as_python, plainest
from streamproof.sim.choices import Choices
from streamproof.sim.simulation import Outcome, run
from streamproof.sim.trace import Watcher
from streamproof.sim.world_plan import Plan

__all__ = ["Seeded", "smallest_program"]


@dataclass(frozen=True)
class Seeded:
    """A world that follows from a seed.

    Attributes:
        seed: it draws all that is not given.
        topology: its name.
        exactly_once: the guarantee.
        transactional: whether stores stage their writes; drawn, if it is ``None``.
        upgrade: what goes on meanwhile, of ``UPGRADES``; drawn, if it is ``None``.
        defect: the mistake that the runtime makes; none if it is empty.
        plan: what the run is like instead of what was drawn; all other choices stay as they are.
    """

    seed: int
    topology: str
    exactly_once: bool
    transactional: bool | None = None
    upgrade: str | None = None
    defect: str = ""
    plan: Plan | None = None

    def run(self, watchers: Iterable[Watcher] = ()) -> Outcome:
        """Simulate it, and show each event to the watchers."""
        choices = Choices.seeded(self.seed)
        drawn = Plan.drawn(
            choices,
            exactly_once=self.exactly_once,
            transactional=self.transactional,
            topology=self.topology,
            upgrade=self.upgrade,
        )
        defects = [self.defect] if self.defect else []
        return run(choices, self.plan or drawn, defects=defects, watchers=watchers)

    def breaks(self, requirements: AbstractSet[str]) -> bool:
        """Whether all these promises are broken in it."""
        return requirements <= {each.requirement for each in self.run().violations}

    @property
    def program(self) -> str:
        """The same as Python."""
        drawn = f"exactly_once={self.exactly_once}, topology={self.topology!r}"
        if self.transactional is not None:
            drawn += f", transactional={self.transactional}"
        if self.upgrade is not None:
            drawn += f", upgrade={self.upgrade!r}"
        defects = f", defects=[{self.defect!r}]" if self.defect else ""
        changed = [] if self.plan is None else [f"plan = {as_python(self.plan)}"]
        return "\n".join(
            [
                "from streamproof.sim.application import StreamsConfig",
                "from streamproof.sim.choices import Choices",
                "from streamproof.sim.simulation import run",
                "from streamproof.sim.tasks.assignor import AssignorConfig",
                "from streamproof.sim.workloads import WorkloadConfig",
                "from streamproof.sim.world_plan import Plan",
                "",
                f"choices = Choices.seeded({self.seed})",
                f"plan = Plan.drawn(choices, {drawn})",
                *changed,
                f"print(*run(choices, plan{defects}).violations, sep='\\n')",
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
