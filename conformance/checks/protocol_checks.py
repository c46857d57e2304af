"""The store inside simulated tasks, which are killed, moved, cut off and started again."""

from __future__ import annotations

from random import Random

from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.registry import check

JUDGED = (
    "PROTOCOL-001",
    "PROTOCOL-002",
    "PROTOCOL-003",
    "PROTOCOL-004",
    "PROTOCOL-005",
    "PROTOCOL-006",
    "PROTOCOL-007",
    "PROTOCOL-008",
    "PROTOCOL-011",
)
"""What every world is judged by."""

SCENARIOS_PER_WORLD = 3
"""Scenarios that are played for each world that the profile allows: they are much shorter."""

MOST_MORE_WORLDS = 8
"""Worlds, at most, beyond those of the profile."""


@check(*JUDGED, raw=True, weight=40)
def killed(run: CheckRun) -> None:
    """Kill the processes of a simulated application, and at times restart them cleanly."""
    explore(run, ("crash", "crash", "bounce"))


@check(*JUDGED, "PROTOCOL-010", raw=True, weight=40)
def moved(run: CheckRun) -> None:
    """Kill and bounce the processes of an application with standbys, which take over."""
    explore(run, ("crash", "bounce"), instances=2, standbys=1)


@check(*JUDGED, raw=True, weight=40)
def cut_off(run: CheckRun) -> None:
    """Let processes stand still, lose the brokers, run out of disk, and come back as zombies."""
    explore(run, ("crash", "bounce", "pause", "cut", "fill", "hold"), instances=2)


@check("PROTOCOL-009", raw=True, weight=30)
def same_twice(run: CheckRun) -> None:
    """Run the same world twice, in which processes are bounced and none is killed."""
    explore(run, ("bounce", "hold"), twice=True)


@check(*JUDGED, "PROTOCOL-010", raw=True, weight=40)
def library(run: CheckRun) -> None:
    """Play the crash scenarios that come with streamproof, those that the store can be put into.

    More of them are played than the profile allows if a promise was not put to the test by any.
    """
    # Whoever simulates nothing needs no simulator.
    from streamproof.conformance.simulated.scenario_worlds import names_for
    from streamproof.conformance.simulated.store_world import Simulated, is_ordered, topologies_for
    from streamproof.conformance.simulated.world_campaign import WorldCampaign

    claims = run.subject.capabilities
    names = list(
        names_for(run.settings.guarantee, topologies_for(claims), cached=is_ordered(claims))
    )
    Random(run.seed).shuffle(names)
    campaign = WorldCampaign(run)
    wanted = {each for each in run.check.requirements if run.applies(each)}
    for number, name in enumerate(names):
        is_enough = number >= SCENARIOS_PER_WORLD * run.settings.limits.task_worlds
        if is_enough and not wanted - run.evidence.exercised:
            break
        campaign.search(Simulated(seed=0, scenario=name))


def explore(
    run: CheckRun,
    kinds: tuple[str, ...],
    *,
    instances: int = 1,
    standbys: int = 0,
    twice: bool = False,
) -> None:
    """Try as many worlds as the profile allows, in which things of some kinds go wrong.

    A few more are tried if a promise was not put to the test by any of them.
    """
    # Whoever simulates nothing needs no simulator.
    from streamproof.conformance.simulated.store_world import drawn
    from streamproof.conformance.simulated.world_campaign import WorldCampaign

    campaign = WorldCampaign(run)
    random = Random(run.seed)
    wanted = {each for each in run.check.requirements if run.applies(each)}
    for number in range(run.settings.limits.task_worlds + MOST_MORE_WORLDS):
        if number >= run.settings.limits.task_worlds and not wanted - run.evidence.exercised:
            break
        campaign.search(
            drawn(
                random,
                run.subject.capabilities,
                kinds,
                instances=instances,
                standbys=standbys,
                twice=twice,
            )
        )
