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
from streamproof.sim.simulation import Outcome, run
from streamproof.sim.world_plan import Plan

__all__ = ["Draw", "Explored", "Searched", "Simulate", "drawn_plan", "explore", "search"]

CHUNK = 4
"""Runs that a process takes at a time."""

AHEAD = 3
"""Chunks for each process that are handed out before their turn has come to be told."""

Draw = Callable[[Choices, str], Plan]
"""Draws the plan of a run, in which a defect, if there is one, can matter."""

Simulate = Callable[..., Outcome]
"""Runs a world as ``swarm.run`` does: given choices and a plan, ``defects`` and ``watchers``."""


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


def drawn_plan(choices: Choices, defect: str) -> Plan:
    """The plan that the swarm draws; with a defect, one in which that matters.

    Args:
        choices: they draw it.
        defect: its name; empty for none.
    """
    if not defect:
        return Plan.drawn(choices)
    known = DEFECTS[defect]
    return Plan.drawn(
        choices,
        exactly_once="EOS" in known.guarantees if len(known.guarantees) == 1 else None,
        transactional=known.transactional,
        upgrade=known.upgrade or None,
    )


def explore(
    seeds: Iterable[int],
    *,
    defect: str = "",
    jobs: int = 1,
    draw: Draw = drawn_plan,
    simulate: Simulate = run,
) -> Iterator[Explored]:
    """Run the swarm with each of these seeds; what comes of them, in the order of the seeds.

    Args:
        seeds: of the runs; there may be no end of them.
        defect: a mistake that the runtime makes; none if it is empty.
        jobs: processes that run at a time.
        draw: draws the plan of a run. With several processes, it is pickled.
        simulate: runs a world; the same holds.
    """
    one = _Run(defect, draw, simulate)
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
    for each in explore(range(start, start + most), defect=defect):
        requirements = {requirement for requirement, _ in each.violations}
        if wanted in requirements:
            return Searched(defect, each.seed - start + 1, others)
        others.update(sorted(requirements))
    return Searched(defect, None, others)


@dataclass(frozen=True)
class _Run:
    """Runs the world of a seed."""

    defect: str
    draw: Draw
    simulate: Simulate

    def __call__(self, seed: int) -> Explored:
        choices = Choices.seeded(seed)
        try:
            plan = self.draw(choices, self.defect)
            outcome = self.simulate(choices, plan, defects=[self.defect] if self.defect else [])
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
