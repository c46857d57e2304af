"""Exploration: many runs of the swarm, on several cores, and what they came to together."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from itertools import islice
from threading import Thread
from typing import NamedTuple

from msgspec import Struct

from streamproof.sim.choices import Choices
from streamproof.sim.defects import DEFECTS
from streamproof.sim.plan_space import EVERYTHING, PlanSpace, draw
from streamproof.sim.simulation import Outcome, run
from streamproof.sim.world_plan import Plan

__all__ = ["Explored", "Searched", "SeededWorlds", "Simulate", "explore", "search"]

CHUNK = 4
"""Runs that a process takes at a time."""

AHEAD = 3
"""Chunks for each process that are handed out before their turn has come to be told."""

Simulate = Callable[..., Outcome]
"""Runs a world as ``simulation.run`` does, with choices, a plan, ``defects`` and ``watchers``."""


@dataclass(frozen=True)
class SeededWorlds:
    """The worlds that seeds stand for; it can be pickled.

    Attributes:
        space: the plans that they are drawn from.
        defect: the mistake that the runtime makes; none if it is empty.
        simulate: runs a world.
        subject: the name of the store in the worlds; empty for model stores.

    Raises:
        UsageError: the defect does no harm in the space.
    """

    space: PlanSpace = EVERYTHING
    defect: str = ""
    simulate: Simulate = run
    subject: str = ""

    def __post_init__(self) -> None:
        # A defect that can do no harm is refused before the first world is run.
        self.space.for_defect(self.defect)

    @property
    def defects(self) -> tuple[str, ...]:
        """The mistakes that the runtime makes: one, or none."""
        return (self.defect,) if self.defect else ()

    def draw(self, choices: Choices) -> Plan:
        """Draw the plan of a world; with a defect, a plan in which the defect can do harm."""
        return draw(choices, self.space.for_defect(self.defect))


class Explored(Struct, frozen=True):
    """What is kept of one run.

    Attributes:
        seed: it tells the whole run.
        topology: its name.
        exactly_once: the guarantee.
        digest: stands for everything that happened.
        events: how many events there were.
        violations: what did not hold: requirement and message.
        invariant: the name of the invariant that found the first of them; empty if all held.
        marks: how often each situation came about.
        problem: what was raised; empty if the run came to its end.
    """

    seed: int
    topology: str = ""
    exactly_once: bool = True
    digest: str = ""
    events: int = 0
    violations: tuple[tuple[str, str], ...] = ()
    invariant: str = ""
    marks: dict[str, int] = {}
    problem: str = ""


def explore(
    seeds: Iterable[int], worlds: SeededWorlds | None = None, *, jobs: int = 1
) -> Iterator[Explored]:
    """Run the world of each seed; yield the results in the order of the seeds.

    Args:
        seeds: of the worlds; they may be infinitely many.
        worlds: what a seed stands for; without it, any plan and no defect.
        jobs: processes that run at a time.
    """
    one = _Run(worlds or SeededWorlds())
    if jobs == 1:
        yield from map(one, seeds)
        return
    # A fork would take the threads of databases along that this process may have opened.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin)
    left = iter(seeds)
    running: deque[Future[list[Explored]]] = deque()
    try:
        while chunk := list(islice(left, CHUNK)):
            running.append(pool.submit(_some, one, chunk))
            if len(running) >= AHEAD * jobs:
                yield from running.popleft().result()
        while running:
            yield from running.popleft().result()
    finally:
        # Whoever has seen enough does not wait for what was handed out ahead.
        pool.shutdown(cancel_futures=True)


class Searched(NamedTuple):
    """What came of one search for a defect.

    Attributes:
        defect: its name.
        seeds: how many it took to find it; ``None`` if that was not enough.
        others: in how many runs another promise than its own was broken on the way.
    """

    defect: str
    seeds: int | None
    others: Counter[str]


def search(defect: str, start: int, most: int) -> Searched:
    """Explore from a seed on until a defect breaks the promise that it is said to break.

    Args:
        defect: its name.
        start: the first seed; the next is one larger.
        most: how many seeds to try, at most.
    """
    wanted, others = DEFECTS[defect].requirement, Counter[str]()
    for each in explore(range(start, start + most), SeededWorlds(defect=defect)):
        requirements = {requirement for requirement, _ in each.violations}
        if wanted in requirements:
            return Searched(defect, each.seed - start + 1, others)
        others.update(sorted(requirements))
    return Searched(defect, None, others)


@dataclass(frozen=True)
class _Run:
    """Runs the world of a seed."""

    worlds: SeededWorlds

    def __call__(self, seed: int) -> Explored:
        choices, worlds = Choices.seeded(seed), self.worlds
        try:
            plan = worlds.draw(choices)
            outcome = worlds.simulate(choices, plan, defects=worlds.defects)
        except Exception as error:  # noqa: BLE001 - one run that breaks must not end the others
            return Explored(seed, problem=f"{type(error).__name__}: {error}")
        return Explored(
            seed,
            outcome.plan.topology,
            outcome.plan.config.exactly_once,
            outcome.digest,
            outcome.events,
            tuple((each.requirement, each.message) for each in outcome.violations),
            outcome.violations[0].invariant if outcome.violations else "",
            dict(outcome.marks),
        )


def _some(one: _Run, seeds: list[int]) -> list[Explored]:
    return [one(seed) for seed in seeds]


def _begin() -> None:
    """Get a process ready: Ctrl-C is for the one that has started it, and it ends with that."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        # Nobody is left to take what this process would still come to.
        os._exit(1)
