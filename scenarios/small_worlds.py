"""Worlds that are small from the start, in which a failure is looked for again.

A failure of thousands of events often needs one process, three records and one fault. To leave out
everything else step by step is slow, and often fails, because each step changes all later choices.
So shrinking first looks for the same failure in small worlds of the same kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from streamproof.sim.choices import Choices
from streamproof.sim.fault_sites import SITES
from streamproof.sim.world_plan import Plan

__all__ = ["small_choices", "small_plans"]

FEW_RECORDS = (3, 20)
"""The numbers of records of each input."""

MOST_MS = 15_000
"""The longest time with faults, in virtual milliseconds."""

SHARES = (1.0, 0.5, 0.15)
"""The shares of the choices that a seed draws; the others are the plainest ones."""

UPGRADE_EVERY_MS = 1_000
"""The time before each step of an upgrade, in virtual milliseconds."""


def small_plans(plan: Plan) -> list[Plan]:
    """Plans of the same kind with fewer processes and records, the smallest first.

    All of them have one partition and one thread, except the last ones if the plan has more.

    Args:
        plan: a plan that fails.
    """
    found: dict[Plan, None] = {}
    for threads, partitions in ((1, 1), (plan.threads, 1), (plan.threads, plan.partitions)):
        for instances, records in product(range(1, plan.instances + 1), FEW_RECORDS):
            small = replace(
                plan,
                instances=instances,
                threads=threads,
                partitions=partitions,
                workload=replace(plan.workload, records=min(records, plan.workload.records)),
                safety_ms=min(plan.safety_ms, MOST_MS),
                upgrade_every_ms=UPGRADE_EVERY_MS if plan.upgrade else plan.upgrade_every_ms,
            )
            found[small] = None
    return list(found)


def small_choices(plan: Plan, failed: Sequence[int], seed: int) -> tuple[Plan, Choices]:
    """The choices of a small world, and its plan.

    Half of the worlds have the fault sites of the run that failed, and the others have none. The
    seed draws all choices, or only some of them: a plain world has fewer events.

    Args:
        plan: one of the small plans.
        failed: the choices of the run that failed; the first ones switch its fault sites on.
        seed: the seed of all other choices.
    """
    share = SHARES[seed // 2 % len(SHARES)]
    if seed % 2:
        return replace(plan, activation=0.0), Choices.sparse(seed, share, recording=True)
    sites = failed[: len(SITES)] if 0 < plan.activation < 1 else ()
    return plan, Choices.sparse(seed, share, first=sites, recording=True)
