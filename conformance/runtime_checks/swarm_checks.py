"""The swarm: whole applications from many seeds, with faults, and all invariants watching.

Only the guarantee and a defect change the world of a seed: the topology follows from the seed, and
everything else is drawn from it. So the first world of ``--seed N`` is that of seed N.
"""

from __future__ import annotations

import re
from collections import Counter
from hashlib import blake2b

from streamproof.conformance.check_registry import check
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.results import Guarantee
from streamproof.conformance.runtime_checks.world_programs import Seeded, smallest_program
from streamproof.conformance.subject import defect_of
from streamproof.conformance.violations import violation_of
from streamproof.sim.defects import DEFECTS
from streamproof.sim.invariants import INVARIANTS, Invariant, InvariantViolation
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.plan_space import PlanSpace
from streamproof.sim.simulation import Outcome
from streamproof.sim.topologies import TOPOLOGIES

__all__ = ["topology_of"]

PROMISES = tuple(sorted({each.requirement for each in INVARIANTS}))
"""The requirements of the invariants."""

ROUND = 1_000_000
"""The distance between the seeds of two rounds of a search. No profile runs as many seeds."""


def topology_of(seed: int) -> str:
    """The name of the topology that the world of a seed has."""
    return list(TOPOLOGIES)[seed % len(TOPOLOGIES)]


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
    if topology.endswith("join"):
        return "joins"
    is_aggregation = topology.endswith("count") and topology != "last-byte-count"
    return "aggregations" if is_aggregation else "pipelines"


def _explore(run: CheckRun, topologies: list[str]) -> None:
    """Run the worlds of these topologies, and record the broken invariants."""
    defect = defect_of(run.subject.name)
    seen: set[str] = set()
    situations: Counter[str] = Counter()
    digest = blake2b(digest_size=16)
    limits = run.settings.limits
    first = run.settings.seed + run.settings.round * ROUND
    for seed in range(first, first + (limits.worlds_with_defect if defect else limits.worlds)):
        if topology_of(seed) not in topologies:
            continue
        world = _world(seed, defect, run.settings.guarantee)
        outcome = world.run([lambda event: seen.add(event.kind)])
        digest.update(outcome.digest.encode())
        situations.update(outcome.marks)
        run.evidence.examples += 1
        run.evidence.operations += outcome.events
        _record(run, world, outcome)
        if defect and DEFECTS[defect].requirement in run.first:
            break
    run.evidence.digest = digest.hexdigest()
    run.evidence.situations = dict(sorted(situations.items()))
    run.evidence.exercised |= _exercised(seen, run.settings.guarantee == "exactly-once")
    # A search goes on as long as runs reach new situations.
    run.evidence.reached |= {name for name, hits in situations.items() if hits} | seen


def _world(seed: int, defect: str, guarantee: Guarantee) -> Seeded:
    """The world of a seed. With a defect, a world in which the defect can do harm."""
    space = PlanSpace(topologies=[topology_of(seed)], guarantees=[guarantee])
    return Seeded(seed, space.for_defect(defect), defect)


def _exercised(seen: set[str], exactly_once: bool) -> set[str]:
    """The requirements of the invariants that have seen an event that could break them."""

    def could_break(invariant: type[Invariant]) -> bool:
        kinds = set(invariant(LogHistory(exactly_once=exactly_once)).observers)
        return bool((kinds - {"application.started"} or kinds) & seen)

    return {each.requirement for each in INVARIANTS if could_break(each)}


def _record(run: CheckRun, world: Seeded, outcome: Outcome) -> None:
    """Record the new violations of a world, with one program that shows all of them."""
    new: dict[tuple[str, str], InvariantViolation] = {}
    for each in outcome.violations:
        key = each.requirement, _shape(each)
        if key not in run.findings:
            new.setdefault(key, each)
    if not new:
        return
    broken = {requirement for requirement, _ in new}
    program = smallest_program(world, outcome.plan, broken, run.settings.limits.shrink_worlds)
    for (requirement, shape), each in new.items():
        cause = violation_of(requirement, shape)
        where = f"found by {each.event}" if each.event else "found at the end"
        found = f"with seed {world.seed}: {each.message}; {where}"
        run.record(cause(run.check.tried, each.invariant, found, program))


def _shape(violation: InvariantViolation) -> str:
    """The part of a shape that separates the invariants of one requirement."""
    words = re.findall(r"[a-z]+", violation.invariant.lower())
    return "-".join(words[:6])
