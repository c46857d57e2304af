"""The store inside simulated tasks that are killed, moved, cut off and restarted."""

from __future__ import annotations

from random import Random

from streamproof.conformance.check_registry import check
from streamproof.conformance.check_run import CheckRun

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
"""The requirements that judge every world."""

QUERIED = ("QUERY-001", "QUERY-002", "QUERY-004")
"""The requirements that queries judge in every world that has query clients."""

SCENARIOS_PER_WORLD = 3
"""The scenarios for each world that the profile allows. Scenarios are much shorter than worlds."""

MOST_MORE_WORLDS = 16
"""The most worlds or scenarios beyond the number of the profile."""

RESTARTS = ("crash", "bounce")
"""The faults after which a process opens its stores again."""


def import_simulator() -> None:
    """Import what the checks import. A run without these checks does not load the simulator."""
    from streamproof.conformance.store_worlds import (  # noqa: F401
        scenario_worlds,
        store_world,
        world_campaign,
    )


@check(*JUDGED, *QUERIED, raw=True, weight=40, prepare=import_simulator)
def killed(run: CheckRun) -> None:
    """Kill the processes of a simulated application, and sometimes restart them cleanly."""
    explore(run, ("crash", "crash", "bounce"))


@check(
    *JUDGED, "PROTOCOL-010", *QUERIED, "QUERY-003", raw=True, weight=40, prepare=import_simulator
)
def moved(run: CheckRun) -> None:
    """Kill and bounce the processes of an application whose standbys take over."""
    explore(run, ("crash", "bounce"), instances=2, standbys=1)


@check(*JUDGED, *QUERIED, raw=True, weight=40, prepare=import_simulator)
def cut_off(run: CheckRun) -> None:
    """Let processes pause, lose the brokers, run out of disk space and return as zombies."""
    explore(run, ("crash", "bounce", "pause", "cut", "fill", "hold"), instances=2)


@check("PROTOCOL-009", raw=True, weight=30, prepare=import_simulator)
def same_twice(run: CheckRun) -> None:
    """Run a world twice in which processes are bounced but none is killed."""
    explore(run, ("bounce", "hold"), twice=True)


@check(*JUDGED, "PROTOCOL-010", raw=True, weight=40, prepare=import_simulator)
def library(run: CheckRun) -> None:
    """Play the crash scenarios of the library that fit the store.

    The check plays a few more scenarios than the profile allows until every requirement was
    exercised, first those with standbys, which are rare.
    """
    # Imported here, so that a run without these checks does not load the simulator.
    from streamproof.conformance.store_worlds.scenario_worlds import has_standbys, names_for
    from streamproof.conformance.store_worlds.store_world import StoreWorld
    from streamproof.conformance.store_worlds.world_campaign import WorldCampaign

    names = list(names_for(run.subject.capabilities, run.settings.guarantee))
    Random(run.seed).shuffle(names)
    campaign = WorldCampaign(run)
    wanted = {each for each in run.check.requirements if run.applies(each)}
    limit = SCENARIOS_PER_WORLD * run.settings.limits.task_worlds
    more = sorted(names[limit:], key=lambda name: not has_standbys(name))[:MOST_MORE_WORLDS]
    for number, name in enumerate([*names[:limit], *more]):
        if number >= limit and not wanted - run.evidence.exercised:
            break
        campaign.search(StoreWorld(seed=0, scenario=name))


def explore(
    run: CheckRun,
    kinds: tuple[str, ...],
    *,
    instances: int = 1,
    standbys: int = 0,
    twice: bool = False,
) -> None:
    """Try as many worlds as the profile allows, with faults of the given kinds.

    The check tries a few more worlds until every requirement was exercised. These worlds have only
    restarts, if the kinds include any, because every requirement is about stores that are reopened.
    """
    # Imported here, so that a run without these checks does not load the simulator.
    from streamproof.conformance.store_worlds.store_world import drawn
    from streamproof.conformance.store_worlds.world_campaign import WorldCampaign

    campaign = WorldCampaign(run)
    first = Random(run.seed).randrange(2**31)
    wanted = {each for each in run.check.requirements if run.applies(each)}
    limit = run.settings.limits.task_worlds
    restarts = tuple(each for each in kinds if each in RESTARTS) or kinds
    for number in range(limit + MOST_MORE_WORLDS):
        is_more = number >= limit
        if is_more and not wanted - run.evidence.exercised:
            break
        campaign.search(
            drawn(
                first + number,
                run.subject.capabilities,
                restarts if is_more else kinds,
                instances=instances,
                standbys=standbys,
                twice=twice,
            )
        )
