"""Exploration: many runs of the swarm on several cores, and their joint results."""

from __future__ import annotations

import gc
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

from streamproof.sim.broker_errors import PatchError
from streamproof.sim.choices import Choices
from streamproof.sim.defects import DEFECTS
from streamproof.sim.patches import Patch
from streamproof.sim.plan_space import EVERYTHING, PlanSpace, draw
from streamproof.sim.simulation import Outcome, run
from streamproof.sim.situations import GOALS
from streamproof.sim.steering import BEHIND, Steering
from streamproof.sim.world_plan import Plan

__all__ = ["Explored", "Searched", "SeededWorlds", "Simulate", "explore", "search"]

CHUNK = 2
"""The number of runs that a process gets at once."""

AHEAD = 3
"""The number of chunks for each process that are handed out ahead of the next result."""

_Order = tuple[int, str]
"""A seed, and what its world is drawn for."""

Simulate = Callable[..., Outcome]
"""Runs a world as ``simulation.run`` does, with choices, a plan, ``defects`` and ``watchers``."""


@dataclass(frozen=True)
class SeededWorlds:
    """The meaning of a seed: how its world is drawn and run. Instances can be pickled.

    Attributes:
        space: the plans that the worlds are drawn from.
        defect: the mistake that the runtime makes; empty for none.
        simulate: runs a world.
        subject: the name of the store in the worlds; empty for model stores.
        patch: the patch that ``simulate`` applies to the runtime; ``None`` without one.

    Raises:
        UsageError: the defect does no harm in the space.
    """

    space: PlanSpace = EVERYTHING
    defect: str = ""
    simulate: Simulate = run
    subject: str = ""
    patch: Patch | None = None

    def __post_init__(self) -> None:
        # Refuse a defect that can do no harm here, before any world runs in another process.
        self.space.for_defect(self.defect)

    @property
    def defects(self) -> tuple[str, ...]:
        """The mistakes that the runtime makes: one, or none."""
        return (self.defect,) if self.defect else ()

    @property
    def possible(self) -> PlanSpace:
        """The plans that are drawn from; with a defect, those in which the defect can do harm."""
        return self.space.for_defect(self.defect)

    def draw(self, choices: Choices, goal: str = "") -> Plan:
        """Draw the plan of a world.

        Args:
            choices: they decide.
            goal: what the world is drawn for, of ``GOALS``; empty for the whole space.
        """
        part = self.possible.meet(GOALS[goal]) if goal else None
        return draw(choices, part or self.possible)


class Explored(Struct, frozen=True):
    """A summary of one run.

    Attributes:
        seed: the seed, which determines the whole run, together with the goal.
        goal: what the world was drawn for, of ``GOALS``; empty for the whole space.
        topology: the name of the topology.
        exactly_once: whether the guarantee was exactly-once.
        digest: identifies the sequence of all events.
        events: the number of events.
        violations: the broken promises: requirement and message.
        invariant: the name of the invariant that broke first; empty if all held.
        marks: how often the run reached each situation that it reached.
        tried: the invariants whose situation came about, of those that are goals.
        problem: the error that ended the run; empty if the run completed.
    """

    seed: int
    goal: str = ""
    topology: str = ""
    exactly_once: bool = True
    digest: str = ""
    events: int = 0
    violations: tuple[tuple[str, str], ...] = ()
    invariant: str = ""
    marks: dict[str, int] = {}
    tried: tuple[str, ...] = ()
    problem: str = ""

    @property
    def reached(self) -> list[str]:
        """The names of all that the run reached."""
        return [*(name for name, hits in self.marks.items() if hits), *self.tried]


def explore(
    seeds: Iterable[int],
    worlds: SeededWorlds | None = None,
    *,
    jobs: int = 1,
    steering: Steering | None = None,
) -> Iterator[Explored]:
    """Run the world of each seed; yield the results in the order of the seeds.

    Args:
        seeds: the seeds of the worlds; the sequence may be infinite.
        worlds: the meaning of a seed; by default any plan and no defect.
        jobs: the number of processes.
        steering: chooses what each world is drawn for; by default, all are drawn from the whole
            space.
    """
    one = _Run(worlds or SeededWorlds())
    orders = ((seed, steering.next_goal() if steering else "") for seed in seeds)
    for each in _run_all(one, orders, jobs):
        if steering:
            steering.reached(each.reached)
        yield each


def _run_all(one: _Run, orders: Iterator[_Order], jobs: int) -> Iterator[Explored]:
    if jobs == 1:
        yield from map(one, orders)
        return
    # Spawn, because a fork would copy the locks of databases that this process may have open, but
    # not the threads that release them.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin)
    most = min(AHEAD * jobs, BEHIND // CHUNK)
    running: deque[Future[list[Explored]]] = deque()
    try:
        while chunk := list(islice(orders, CHUNK)):
            running.append(pool.submit(_some, one, chunk))
            if len(running) >= most:
                yield from running.popleft().result()
        while running:
            yield from running.popleft().result()
    finally:
        # A caller that stops early must not wait for the chunks that have not begun.
        pool.shutdown(cancel_futures=True)


class Searched(NamedTuple):
    """The result of a search for a defect.

    Attributes:
        defect: the name of the defect.
        seeds: the number of seeds until the defect showed; ``None`` if it never did.
        others: the number of runs that broke another requirement, by requirement.
    """

    defect: str
    seeds: int | None
    others: Counter[str]


def search(defect: str, start: int, most: int) -> Searched:
    """Explore one seed after the other until a defect breaks its own requirement.

    Args:
        defect: the name of the defect.
        start: the first seed.
        most: the largest number of seeds to try.
    """
    wanted, others = DEFECTS[defect].requirement, Counter[str]()
    worlds = SeededWorlds(defect=defect)
    steering = Steering(worlds.possible)
    for each in explore(range(start, start + most), worlds, steering=steering):
        requirements = {requirement for requirement, _ in each.violations}
        if wanted in requirements:
            return Searched(defect, each.seed - start + 1, others)
        others.update(sorted(requirements))
    return Searched(defect, None, others)


@dataclass(frozen=True)
class _Run:
    """Runs the world of a seed."""

    worlds: SeededWorlds

    def __call__(self, order: _Order) -> Explored:
        seed, goal = order
        choices, worlds = Choices.seeded(seed), self.worlds
        try:
            plan = worlds.draw(choices, goal)
            outcome = worlds.simulate(choices, plan, defects=worlds.defects)
        except PatchError:
            raise
        except Exception as error:  # noqa: BLE001 - one run that breaks must not end the others
            return Explored(seed, goal, problem=f"{type(error).__name__}: {error}")
        return Explored(
            seed,
            goal,
            outcome.plan.topology,
            outcome.plan.config.exactly_once,
            outcome.digest,
            outcome.events,
            tuple((each.requirement, each.message) for each in outcome.violations),
            outcome.violations[0].invariant if outcome.violations else "",
            {name: hits for name, hits in outcome.marks.items() if hits},
            tuple(name for name in outcome.tried if name in GOALS),
        )


def _some(one: _Run, orders: list[_Order]) -> list[Explored]:
    return [one(order) for order in orders]


def _begin() -> None:
    """Prepare a worker process: it ignores Ctrl-C, and ends together with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    # What is imported by now never becomes garbage, and would be looked at again and again.
    gc.freeze()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        # Nobody is left to take the results. sys.exit would end this thread alone.
        os._exit(1)
