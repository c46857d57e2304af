"""Exploring simulated worlds: running seeds, keeping the runs, and shrinking each failure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import NamedTuple

import msgspec

from streamproof.conformance.store_worlds.hosted_worlds import Hosted
from streamproof.conformance.subject import binds_of, load_subject
from streamproof.errors import UsageError
from streamproof.scenarios.exploration_findings import (
    Finding,
    finding_of,
    findings,
    write_finding,
)
from streamproof.scenarios.exploration_ledger import Ledger
from streamproof.scenarios.shrinking import MOST_RUNS, ShrinkStep
from streamproof.scenarios.swarm_file import read_swarm
from streamproof.search_path import search_directory
from streamproof.sim.defects import require_defects
from streamproof.sim.exploration import Explored, SeededWorlds
from streamproof.sim.exploration import explore as explore_worlds
from streamproof.sim.patches import Patched, patch_at
from streamproof.sim.plan_space import EVERYTHING, PlanSpace
from streamproof.sim.steering import Steering
from streamproof.version import __version__

__all__ = [
    "Exploration",
    "ExploreRequest",
    "explore",
    "new_runs",
    "open_exploration",
    "shrunk_finding",
]

RUNS = 200
"""Worlds that are run by default."""


@dataclass(frozen=True, kw_only=True)
class ExploreRequest:
    """One exploration, as a user asks for it.

    Attributes:
        seed: the first seed; each world takes the next one.
        runs: how many worlds to run, unless there is a budget.
        budget_s: for how many seconds to run worlds; 0 to run a fixed number.
        swarm: a TOML file that limits which worlds are drawn; ``None`` to draw from all.
        defect: a mistake that the runtime makes; none if it is empty.
        subject: the store in the worlds; model stores if it is empty.
        patch: a mistake in a file of the user, as ``FILE.py:FUNCTION``; none if it is empty.
        seam: the function of the runtime that the patch replaces.
        jobs: how many worlds run at the same time.
        keep_going: whether to go on after the first failure.
        shrink_runs: how many worlds may be run to shrink one failure.
        out: the directory for runs and findings.
    """

    seed: int = 0
    runs: int = RUNS
    budget_s: float = 0.0
    swarm: Path | None = None
    defect: str = ""
    subject: str = ""
    patch: str = ""
    seam: str = ""
    jobs: int = 1
    keep_going: bool = False
    shrink_runs: int = MOST_RUNS
    out: Path = Path("streamproof-explored")


class Exploration(NamedTuple):
    """What an exploration came to.

    Attributes:
        runs: what came of each world, in the order of the seeds.
        findings: one failure of each kind, shrunk and written as a scenario; the worst first.
    """

    runs: list[Explored]
    findings: list[Finding]


def explore(
    *,
    runs: int = RUNS,
    seed: int = 0,
    defect: str = "",
    subject: str = "",
    swarm: Path | str | None = None,
    keep_going: bool = False,
    jobs: int = 1,
    out: Path | str = "streamproof-explored",
) -> Exploration:
    """Run simulated worlds, one for each seed, and shrink what breaks a promise.

    Each seed draws a whole world: topology, settings, input and faults. Every second world is
    drawn for something that few worlds have reached. The runs are kept in ``out``; a second call
    with the same arguments goes on after them.

    Args:
        runs: how many worlds to run in all.
        seed: the first seed; each world takes the next one.
        defect: a mistake that the simulated runtime makes, as ``streamproof defects`` lists them.
        subject: the store in the worlds; a fast model store by default.
        swarm: a TOML file that limits which worlds are drawn.
        keep_going: whether to go on after the first failure, and collect others.
        jobs: how many worlds run at the same time. With more than one, the calling program needs
            ``if __name__ == "__main__":``, because each process imports it again.
        out: the directory for runs and findings.

    Raises:
        UsageError: an argument is wrong, or ``out`` has the runs of another exploration.
    """
    request = ExploreRequest(
        seed=seed,
        runs=runs,
        swarm=None if swarm is None else Path(swarm),
        defect=defect,
        subject=subject,
        jobs=jobs,
        keep_going=keep_going,
        out=Path(out),
    )
    worlds, ledger = open_exploration(request)
    with ledger:
        for _ in new_runs(ledger, worlds, request):
            pass
        found = [shrunk_finding(worlds, each, request) for each in findings(ledger.runs)]
        return Exploration(ledger.runs, found)


def open_exploration(request: ExploreRequest) -> tuple[SeededWorlds, Ledger]:
    """The worlds of an exploration, and the ledger with the runs that it did before.

    Raises:
        UsageError: something in the request is wrong, or its directory has other runs.
    """
    if request.defect:
        require_defects([request.defect])
    search_directory()
    swarm = read_swarm(request.swarm) if request.swarm else EVERYTHING
    worlds = _patched(_worlds(swarm, request.defect, request.subject), request)
    what = {
        "version": __version__,
        "seed": request.seed,
        "defect": request.defect,
        "subject": request.subject,
        "swarm": msgspec.to_builtins(swarm),
    }
    if request.patch:
        what |= {"patch": request.patch, "seam": request.seam}
    return worlds, Ledger(request.out, what)


def _worlds(space: PlanSpace, defect: str, subject: str) -> SeededWorlds:
    """The worlds to explore.

    Raises:
        UsageError: the store or the defect does not fit.
    """
    if not subject:
        return SeededWorlds(space, defect)
    if binds_of(subject) == "runtime":
        raise UsageError(
            "--subject takes a store; the simulated runtime is in every world anyway. Leave "
            "--subject out, and add --defect for a mistake of the runtime."
        )
    fitting = space.for_store(load_subject(subject).capabilities)
    return SeededWorlds(fitting, defect, Hosted(subject, str(Path.cwd())), subject)


def _patched(worlds: SeededWorlds, request: ExploreRequest) -> SeededWorlds:
    """The same worlds with the patch of the request, if it has one.

    Raises:
        UsageError: the patch cannot be used.
    """
    if not request.patch:
        if request.seam:
            raise UsageError("--seam names what a patch replaces: add --patch FILE.py:FUNCTION.")
        return worlds
    patch = patch_at(request.patch, request.seam, Path.cwd())
    return replace(worlds, simulate=Patched(patch, worlds.simulate), patch=patch)


def new_runs(ledger: Ledger, worlds: SeededWorlds, request: ExploreRequest) -> Iterator[Explored]:
    """Run the worlds that are not in the ledger yet, and add each to it.

    This ends with the last seed, with the budget, or with the first failure.
    """
    if not request.keep_going and any(map(_ends_exploration, ledger.runs)):
        return
    start = request.seed + len(ledger.runs)
    seeds = count(start) if request.budget_s else range(start, request.seed + request.runs)
    ends = time.monotonic() + request.budget_s if request.budget_s else float("inf")
    steering = Steering(worlds.possible)
    for each in ledger.runs:
        steering.next_goal()
        steering.reached(each.reached)
    running = explore_worlds(seeds, worlds, jobs=request.jobs, steering=steering)
    with closing(running):  # type: ignore[type-var]
        for each in running:
            ledger.add(each)
            yield each
            if time.monotonic() >= ends or (not request.keep_going and _ends_exploration(each)):
                return


def _ends_exploration(run: Explored) -> bool:
    return bool(run.violations or run.problem)


def shrunk_finding(
    worlds: SeededWorlds,
    run: Explored,
    request: ExploreRequest,
    progress: Callable[[ShrinkStep], None] | None = None,
) -> Finding:
    """Shrink a failure, and write it as a scenario, a test and a picture.

    Args:
        worlds: the worlds that were explored.
        run: the run that failed.
        request: the exploration.
        progress: called after each world that is run on the way.

    Raises:
        UsageError: the run does not fail any more, or fails in another way.
    """
    shrunk = finding_of(worlds, run, request.shrink_runs, progress)
    return write_finding(request.out, shrunk, run, worlds.subject)
