"""What is done with a failure of real processes: it is played again, made smaller, and simulated.

Real processes repeat no run exactly, so a failure has no seed that shows it again for sure. A world
that failed is played again, and the share of failures is told. Actions are left out as long as the
failure stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from streamproof.scenarios.director import Director
from streamproof.scenarios.kafka.real_worlds import FOUND, world_of
from streamproof.scenarios.kafka.shared_broker import RealRun
from streamproof.scenarios.scenario import AnyAction, Scenario, Send
from streamproof.scenarios.shrinking import Failing, Shape
from streamproof.sim.choices import Choices
from streamproof.sim.simulation import Outcome, run
from streamproof.sim.world_plan import Plan

__all__ = [
    "Confirmed",
    "Directed",
    "Failure",
    "Play",
    "confirmed",
    "expecting",
    "failures_of",
    "simulated",
    "smaller",
]

AGAIN = 3
"""How often a world that failed is played again."""

TRIES = 2
"""How often a smaller world is played until the failure does not stay in it."""

SIMULATED = 100
"""How many simulated worlds of the same plan are tried."""

ENDED = ("ended by itself", "went to the state ERROR")
"""What the nemesis says of an instance that nobody has stopped or killed."""

EXCEPTION = re.compile(r"(?:Caused by: )?\b([a-z][\w.]*\.(\w+(?:Exception|Error)))\b(?:: (.*))?")
"""An exception in the log of an instance."""

RUNS_ON = "an instance runs until it is stopped or killed"

RESTS = "once faults have stopped, all input is processed and committed"

LIVENESS = "TASK-008"
"""The requirement that both belong to: once faults stop, every task runs."""

Play = Callable[[Scenario], RealRun]
"""Plays a world for real."""


class Failure(NamedTuple):
    """A broken promise in a real run: the requirement, the invariant, and what was found."""

    shape: Shape
    message: str


def failures_of(run: RealRun) -> list[Failure]:
    """The broken promises of a run. What ended an instance comes first: it may cause the others."""
    found = [_ended(each) for each in run.wrong if any(words in each for words in ENDED)]
    found += [
        Failure(Shape(each.requirement, each.invariant), each.finding)
        for each in run.judgement.violations
    ]
    if not found and not run.has_come_to_rest:
        waited = "the application has not come to rest, and nothing more happens"
        found.append(Failure(Shape(LIVENESS, RESTS), waited))
    return found


def _ended(told: str) -> Failure:
    causes = EXCEPTION.findall(told)
    _, name, text = causes[-1] if causes else ("", "", "")
    shape = Shape(LIVENESS, f"{RUNS_ON} ({name})" if name else RUNS_ON)
    first = told.splitlines()[0].partition(". It wrote")[0]
    return Failure(shape, f"{first}: {name}: {text}" if name else told)


class Confirmed(NamedTuple):
    """How often a failure came again.

    Attributes:
        times: how often.
        plays: of so many plays.
    """

    times: int
    plays: int


def confirmed(play: Play, scenario: Scenario, shape: Shape, plays: int = AGAIN) -> Confirmed:
    """Play a world again, and count how often it fails in the same way."""
    times = sum(_fails(play, scenario, shape) for _ in range(plays))
    return Confirmed(times, plays)


def _fails(play: Play, scenario: Scenario, shape: Shape) -> bool:
    return any(each.shape == shape for each in failures_of(play(scenario)))


def smaller(play: Play, scenario: Scenario, shape: Shape, most_plays: int) -> Scenario:
    """A world with fewer actions that still fails in the same way.

    Args:
        play: plays a world.
        scenario: the world that fails.
        shape: how it fails.
        most_plays: the most plays.
    """
    plan = scenario.setups[FOUND].plan
    timeline, left = list(scenario.file.timeline), most_plays
    size = len(timeline) // 2
    while size and left > 0:
        at = 0
        while at < len(timeline) and left > 0:
            fewer = [*timeline[:at], *timeline[at + size :]]
            tried = world_of(scenario.name, plan, fewer)
            # A world without input has nothing to fail with.
            tries = min(TRIES, left) if any(isinstance(each, Send) for each in fewer) else 0
            stays = False
            for _ in range(tries):
                left -= 1
                stays = _fails(play, tried, shape)
                if stays:
                    break
            timeline, at = (fewer, at) if stays else (timeline, at + size)
        size //= 2
    return world_of(scenario.name, plan, timeline)


@dataclass(frozen=True)
class Directed:
    """Simulates worlds with a timeline, as ``simulation.run`` does without one.

    Attributes:
        timeline: what happens.
    """

    timeline: Sequence[AnyAction]

    def __call__(self, choices: Choices, plan: Plan, **others: object) -> Outcome:
        """Run one world."""
        director = Director(self.timeline, choices)
        watchers = [*others.pop("watchers", ()), director.see]  # type: ignore[misc]
        return run(
            director.choices,
            plan,
            watchers=watchers,
            direct=director.direct,
            **others,  # type: ignore[arg-type]
        )


def simulated(scenario: Scenario, requirement: str, worlds: int = SIMULATED) -> Failing | None:
    """A simulated run of the same plan that breaks this requirement first; ``None`` if none did.

    The first world makes the plainest choices, and each other one those of a seed.

    Args:
        scenario: the world.
        requirement: what real processes broke.
        worlds: how many simulated worlds are tried.
    """
    plan, simulate = scenario.setups[FOUND].plan, Directed(scenario.file.timeline)
    for seed in range(worlds):
        choices = Choices.seeded(seed, recording=True) if seed else Choices.recorded([])
        outcome = simulate(choices, plan)
        if outcome.violations and outcome.violations[0].requirement == requirement:
            name = f"{scenario.name}, simulated with seed {seed}"
            return Failing(name, plan, choices.drawn, simulate=simulate)
    return None


def expecting(scenario: Scenario, shape: Shape) -> Scenario:
    """The same world, which expects its failure.

    That an instance ends by itself is no promise that a scenario can expect.
    """
    breaks = () if shape.invariant.startswith((RUNS_ON, RESTS)) else (shape.requirement,)
    return world_of(scenario.name, scenario.setups[FOUND].plan, scenario.file.timeline, breaks)
