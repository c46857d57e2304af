"""The swarm: whole applications from many seeds, with faults, and all invariants watching.

The topology of every second world follows from its seed alone. Each of the others is drawn for
something that the check has reached least (``sim/steering.py``). Besides, only the guarantee, the
specification and a defect change the world of a seed. So the first world of ``--seed N`` is that of
seed N.

A requirement counts as tried only if the *situation* of each of its invariants came about in a
world (``Invariant.situation``): nobody knows whether an application that never was upgraded would
have survived an upgrade. Further worlds are run for situations that are missing after the ordinary
worlds. If a situation never comes about, its requirement is skipped, and the reason names it.
"""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b

import msgspec

from streamproof.conformance.check_registry import check
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.failure_shapes import shape_of_invariant
from streamproof.conformance.runtime_checks.world_programs import (
    Seeded,
    smallest_program,
    within,
)
from streamproof.conformance.settings import Settings
from streamproof.conformance.subject import defect_of
from streamproof.conformance.violations import violation_of
from streamproof.sim.defects import DEFECTS
from streamproof.sim.invariants import INVARIANTS, Invariant, InvariantViolation
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.plan_space import PlanSpace
from streamproof.sim.simulation import Outcome
from streamproof.sim.situations import GOALS, situations_of
from streamproof.sim.steering import Steering
from streamproof.sim.topologies import ORDINARY_TOPOLOGIES, TOPOLOGIES

__all__ = ["topology_of"]

PROMISES = tuple(sorted({each.requirement for each in INVARIANTS}))
"""The requirements of the invariants."""

ROUND = 1_000_000
"""The distance between the seeds of two rounds of a search. No profile runs as many seeds."""


def topology_of(seed: int) -> str:
    """The name of the topology that the world of a seed has."""
    return ORDINARY_TOPOLOGIES[seed % len(ORDINARY_TOPOLOGIES)]


@check(*PROMISES, raw=True, weight=50)
def aggregations(run: CheckRun) -> None:
    """Run aggregations from many seeds, with crashes and other faults."""
    _explore(run, [name for name in TOPOLOGIES if _kind(name) == "aggregations"])


@check(*PROMISES, raw=True, weight=50)
def joins(run: CheckRun) -> None:
    """Run joins of streams and tables from many seeds, with crashes and other faults."""
    _explore(run, [name for name in TOPOLOGIES if _kind(name) == "joins"])


@check(*PROMISES, raw=True, weight=40)
def pipelines(run: CheckRun) -> None:
    """Run mapping and repartitioning pipelines from many seeds, with crashes and other faults."""
    _explore(run, [name for name in TOPOLOGIES if _kind(name) == "pipelines"])


def _kind(topology: str) -> str:
    """The one check that runs a topology."""
    if topology.endswith(("join", "table-operators")):
        return "joins"
    is_aggregation = topology.endswith("count") and topology != "last-byte-count"
    return "aggregations" if is_aggregation else "pipelines"


def _explore(run: CheckRun, topologies: list[str]) -> None:
    """Run worlds of these topologies, and record the broken invariants."""
    exploration = _Exploration(run, topologies)
    exploration.run_ordinary_worlds()
    if not exploration.defect:
        exploration.search_for_situations()
    exploration.report()


class _Exploration:
    """The worlds of one check, and what they have shown.

    After the ordinary worlds, the exploration runs further worlds for each invariant whose
    situation has not come about: a few worlds of the part of the space that the invariant names.
    """

    def __init__(self, run: CheckRun, topologies: list[str]) -> None:
        self.defect = defect_of(run.subject.name)
        self._run = run
        self._topologies = topologies
        self._seen: set[str] = set()
        self._situations = Counter(dict.fromkeys(situations_of(topologies), 0))
        self._digest = blake2b(digest_size=16)
        exactly_once = run.settings.guarantee == "exactly-once"
        # By name, the invariants that have something to observe under this guarantee, and whose
        # situation has not come about.
        self._untried = {
            each.name: each
            for each in INVARIANTS
            if each(LogHistory(exactly_once=exactly_once)).observers
        }
        self._promises = {each.requirement for each in self._untried.values()}
        self._first = run.settings.seed + run.settings.round * ROUND

    def run_ordinary_worlds(self) -> None:
        """Run the worlds of the profile; with a defect, only until the defect has shown itself."""
        limits = self._run.settings.limits
        worlds = limits.worlds_with_defect if self.defect else limits.worlds
        asked = DEFECTS[self.defect].topology if self.defect else ""
        possible = within(PlanSpace(topologies=self._topologies), self._run.settings)
        if asked and asked not in self._topologies:
            return
        possible = possible.for_defect(self.defect)
        steering = Steering(possible, behind=0)
        for seed in range(self._first, self._first + worlds):
            topology = asked or topology_of(seed)
            if topology not in self._topologies:
                continue
            goal = steering.next_goal()
            part = possible.meet(GOALS[goal] if goal else PlanSpace(topologies=[topology]))
            reached = self._visit(Seeded(seed, part or possible, self.defect))
            steering.reached(reached)
            if self.defect and DEFECTS[self.defect].requirement in self._run.first:
                break

    def search_for_situations(self) -> None:
        """Run further worlds for the situations that have not come about, a few for each."""
        limits = self._run.settings.limits
        first = self._first + limits.worlds
        for name, invariant in list(self._untried.items()):
            space = _space_of(invariant, self._topologies, self._run.settings)
            for seed in range(first, first + limits.worlds_for_situation):
                if space is None or name not in self._untried:
                    break
                self._visit(Seeded(seed, space))

    def report(self) -> None:
        """Write down how much was tried, and which situations never came about."""
        evidence = self._run.evidence
        evidence.digest = self._digest.hexdigest()
        evidence.situations = dict(sorted(self._situations.items()))
        for each in self._untried.values():
            evidence.untried[each.requirement] = f"no world showed that {each.situation}"
        evidence.exercised |= self._promises - evidence.untried.keys()
        # A search goes on as long as runs reach new situations.
        evidence.reached |= {name for name, hits in self._situations.items() if hits} | self._seen

    def _visit(self, world: Seeded) -> list[str]:
        """Run a world, record what it shows, and return the names of all that it reached."""
        outcome = world.run([lambda event: self._seen.add(event.kind)])
        for name in outcome.tried:
            self._untried.pop(name, None)
        self._digest.update(outcome.digest.encode())
        self._situations.update(outcome.marks)
        self._run.evidence.examples += 1
        self._run.evidence.operations += outcome.events
        _record(self._run, world, outcome)
        return [*(name for name, hits in outcome.marks.items() if hits), *outcome.tried]


def _space_of(
    invariant: type[Invariant], topologies: list[str], asked: Settings
) -> PlanSpace | None:
    """The plans of these topologies that have a situation often; ``None`` if none has it."""
    space = msgspec.convert(invariant.drawn_from, PlanSpace)
    wanted = space.topologies or ORDINARY_TOPOLOGIES
    fitting = [each for each in topologies if each in wanted]
    if not fitting:
        return None
    return within(msgspec.structs.replace(space, topologies=fitting), asked)


def _record(run: CheckRun, world: Seeded, outcome: Outcome) -> None:
    """Record the new violations of a world, with one program that shows all of them."""
    new: dict[tuple[str, str], InvariantViolation] = {}
    for each in outcome.violations:
        key = each.requirement, shape_of_invariant(each.invariant)
        if key not in run.findings:
            new.setdefault(key, each)
    if not new:
        return
    broken = {requirement for requirement, _ in new}
    program = smallest_program(world, outcome.plan, broken, run.settings.limits.shrink_worlds)
    for (requirement, shape), each in new.items():
        cause = violation_of(requirement, shape)
        found = f"with seed {world.seed}: {each.finding}"
        run.record(cause(run.check.tried, each.invariant, found, program))
