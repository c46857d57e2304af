"""Exploration: many runs of the swarm, on several cores, and what they came to together."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from msgspec import Struct

from streamproof.sim.choices import Choices
from streamproof.sim.defects import DEFECTS
from streamproof.sim.swarm import run

__all__ = ["Explored", "explore", "seeds_to_find"]

CHUNK = 4
"""Runs that a process takes at a time."""


class Explored(Struct, frozen=True):
    """What is kept of one run.

    Attributes:
        seed: it tells the whole run.
        topology: its name.
        exactly_once: the guarantee.
        digest: stands for everything that happened.
        events: how many events there were.
        violations: what did not hold: requirement and message.
        marks: how often each situation came about.
        problem: what was raised; empty if the run came to its end.
    """

    seed: int
    topology: str = ""
    exactly_once: bool = True
    digest: str = ""
    events: int = 0
    violations: tuple[tuple[str, str], ...] = ()
    marks: dict[str, int] = {}
    problem: str = ""


def explore(seeds: Iterable[int], *, defect: str = "", jobs: int = 1) -> Iterator[Explored]:
    """Run the swarm with each of these seeds; what comes of them, in the order of the seeds.

    Args:
        seeds: of the runs.
        defect: a mistake that the runtime makes; none if it is empty.
        jobs: processes that run at a time.
    """
    if jobs == 1:
        yield from map(partial(_one, defect=defect), seeds)
        return
    # A fork would take the threads of databases along that this process may have opened.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        yield from pool.map(partial(_one, defect=defect), seeds, chunksize=CHUNK)


def seeds_to_find(defect: str, seeds: Iterable[int], *, jobs: int = 1) -> list[int]:
    """The seeds with which a defect breaks the promise that it is said to break."""
    wanted = DEFECTS[defect].requirement
    return [
        each.seed
        for each in explore(seeds, defect=defect, jobs=jobs)
        if any(requirement == wanted for requirement, _ in each.violations)
    ]


def _one(seed: int, *, defect: str) -> Explored:
    exactly_once = transactional = upgrade = None
    if defect:
        known = DEFECTS[defect]
        exactly_once = "EOS" in known.guarantees if len(known.guarantees) == 1 else None
        transactional = known.transactional
        upgrade = known.upgrade or None
    choices = Choices.seeded(seed)
    try:
        outcome = run(
            choices,
            defects=[defect] if defect else (),
            exactly_once=exactly_once,
            transactional=transactional,
            upgrade=upgrade,
        )
    except Exception as error:  # noqa: BLE001 - one run that breaks must not end the others
        return Explored(seed, problem=f"{type(error).__name__}: {error}")
    return Explored(
        seed,
        outcome.plan.topology,
        outcome.plan.config.exactly_once,
        outcome.digest,
        outcome.events,
        tuple((each.requirement, each.message) for each in outcome.violations),
        dict(outcome.marks),
    )
