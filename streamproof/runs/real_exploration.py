"""Exploring worlds of real processes: playing seeds, keeping the runs, looking into failures."""

from __future__ import annotations

import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import NamedTuple

import msgspec

from streamproof.errors import UsageError
from streamproof.scenarios.exploration_findings import name_of, shape_found
from streamproof.scenarios.exploration_ledger import Ledger
from streamproof.scenarios.kafka.real_search import (
    Confirmed,
    confirmed,
    expecting,
    failures_of,
    simulated,
    smaller,
)
from streamproof.scenarios.kafka.real_worlds import FOUND, drawn_world, real_worlds_of
from streamproof.scenarios.kafka.shared_broker import RealRun, SharedBroker
from streamproof.scenarios.scenario import Scenario
from streamproof.scenarios.scenario_writer import drawn_scenario_text, scenario_text
from streamproof.scenarios.shrinking import MOST_RUNS, Shape, shrink
from streamproof.scenarios.swarm_file import read_swarm
from streamproof.sim.exploration import Explored
from streamproof.sim.plan_space import EVERYTHING, PlanSpace
from streamproof.version import __version__

__all__ = [
    "RealExploreRequest",
    "RealFinding",
    "new_real_runs",
    "open_real_exploration",
    "real_finding",
    "real_space",
]

RUNS = 30
"""Worlds that are played by default: about five minutes."""

MOST_PLAYS = 20
"""How many worlds are played to make one failure smaller, by default."""


@dataclass(frozen=True, kw_only=True)
class RealExploreRequest:
    """An exploration with real processes, as a user asks for it.

    Attributes:
        release: the release of Kafka.
        seed: the first seed; each world takes the next one.
        runs: how many worlds to play, unless there is a budget.
        budget_s: for how many seconds to play worlds; 0 to play a fixed number.
        swarm: a TOML file that limits which worlds are drawn; ``None`` to draw from all.
        jobs: how many worlds are played at the same time.
        keep_going: whether to go on after the first failure.
        most_plays: how many worlds may be played to make one failure smaller.
        out: the directory for runs and findings.
        bootstrap: the address of a cluster that is there already; empty to start a broker.
    """

    release: str
    seed: int = 0
    runs: int = RUNS
    budget_s: float = 0.0
    swarm: Path | None = None
    jobs: int = 1
    keep_going: bool = False
    most_plays: int = MOST_PLAYS
    out: Path = Path("streamproof-explored")
    bootstrap: str = ""


class RealFinding(NamedTuple):
    """A failure of real processes, and what became of it.

    Attributes:
        run: the run that failed.
        scenario: the scenario file with the smallest world.
        recording: the directory with what was recorded of the run that failed.
        again: how often the drawn world failed in the same way when it was played again.
        actions: how many actions the drawn world and the smallest world have.
        simulated: the scenario file of the same failure in the simulator; ``None`` if the
            simulator does not show it.
    """

    run: Explored
    scenario: Path
    recording: Path
    again: Confirmed
    actions: tuple[int, int]
    simulated: Path | None


def real_space(swarm: Path | None, release: str) -> PlanSpace:
    """The plans that worlds of a release are drawn from.

    Raises:
        UsageError: the file allows none that real processes can play.
    """
    wanted = read_swarm(swarm) if swarm else EVERYTHING
    met = real_worlds_of(release).meet(wanted)
    if met is None:
        raise UsageError(
            f"{swarm}: none of these worlds can be played by real processes. "
            "docs/real-worlds.md lists what they have."
        )
    return met


def open_real_exploration(request: RealExploreRequest) -> tuple[PlanSpace, Ledger]:
    """The plans of an exploration, and the ledger with the runs that it did before.

    Raises:
        UsageError: something in the request is wrong, or its directory has other runs.
    """
    space = real_space(request.swarm, request.release)
    what = {
        "version": __version__,
        "on": f"kafka@{request.release}",
        "seed": request.seed,
        "swarm": msgspec.to_builtins(space),
    }
    return space, Ledger(request.out, what)


def new_real_runs(
    broker: SharedBroker, ledger: Ledger, space: PlanSpace, request: RealExploreRequest
) -> Iterator[Explored]:
    """Play the worlds that are not in the ledger yet, and add each to it.

    This ends with the last seed, with the budget, or with the first failure.
    """
    if not request.keep_going and any(map(_ends, ledger.runs)):
        return
    start = request.seed + len(ledger.runs)
    ends = time.monotonic() + request.budget_s if request.budget_s else float("inf")
    seeds = count(start) if request.budget_s else iter(range(start, request.seed + request.runs))

    def play(seed: int) -> Explored:
        return _explored(broker, seed, space, request.out)

    running = _in_order(play, seeds, request.jobs, ends, broker.interrupt)
    with closing(running):  # type: ignore[type-var]
        for each in running:
            ledger.add(each)
            yield each
            if not request.keep_going and _ends(each):
                return


def _in_order(
    play: Callable[[int], Explored],
    seeds: Iterator[int],
    jobs: int,
    ends: float,
    give_up: Callable[[], None],
) -> Iterator[Explored]:
    """What came of each seed, in their order; none begins after the end.

    Whoever stops early waits for no world that is being played: it is given up.
    """
    pool = ThreadPoolExecutor(jobs)
    running: deque[Future[Explored]] = deque()
    try:
        for seed in seeds:
            if time.monotonic() >= ends:
                break
            running.append(pool.submit(play, seed))
            if len(running) >= jobs:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    except BaseException:
        give_up()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _ends(run: Explored) -> bool:
    return bool(run.violations)


def _explored(broker: SharedBroker, seed: int, space: PlanSpace, out: Path) -> Explored:
    """Play the world of a seed; what was recorded is kept if it failed."""
    scenario = drawn_world(seed, space)
    plan = scenario.setups[FOUND].plan
    keep = _recording_of(out, seed)
    shutil.rmtree(keep, ignore_errors=True)
    try:
        run = broker.play(scenario, scenario.setups[FOUND], keep)
    except UsageError as error:
        return Explored(seed, topology=plan.topology, problem=str(error))
    failures = failures_of(run)
    if not failures:
        shutil.rmtree(keep)
    return Explored(
        seed,
        topology=plan.topology,
        exactly_once=plan.config.exactly_once,
        events=len(run.recorded.events),
        violations=tuple((each.shape.requirement, each.message) for each in failures),
        invariant=failures[0].shape.invariant if failures else "",
        tried=tuple(sorted(run.judgement.tried)),
    )


def _recording_of(out: Path, seed: int) -> Path:
    return out / f"recording-{seed}"


def real_finding(
    broker: SharedBroker,
    run: Explored,
    space: PlanSpace,
    request: RealExploreRequest,
    progress: Callable[[str], None] = lambda _: None,
) -> RealFinding:
    """Play a world that failed again, make it smaller, try it in the simulator, and write all down.

    Args:
        broker: plays worlds.
        run: the run that failed.
        space: the plans that its world was drawn from.
        request: the exploration.
        progress: called with what begins now, in words.

    Raises:
        UsageError: the run did not fail.
    """
    shape = shape_found(run)
    if shape is None:
        raise UsageError(f"seed {run.seed} has broken no promise.")
    drawn = drawn_world(run.seed, space)

    def play(scenario: Scenario) -> RealRun:
        return broker.play(scenario, scenario.setups[FOUND])

    progress("played again")
    again = confirmed(play, drawn, shape)
    least = drawn
    if again.times:
        progress("made smaller")
        least = smaller(play, drawn, shape, request.most_plays)
    progress("tried in the simulator")
    path = request.out / f"{name_of(run)}.toml"
    actions = len(drawn.file.timeline), len(least.file.timeline)
    text = drawn_scenario_text(
        expecting(least, shape), FOUND, _story(run, again, actions, request.release)
    )
    path.write_text(text, "utf-8")
    found = _simulated(least, shape, request.out, name_of(run))
    return RealFinding(run, path, _recording_of(request.out, run.seed), again, actions, found)


def _story(run: Explored, again: Confirmed, actions: tuple[int, int], release: str) -> str:
    requirement, message = run.violations[0]
    return (
        f"Kafka {release} broke {requirement} in the world of seed {run.seed}, and in "
        f"{again.times} of {again.plays} further plays of it. {actions[1]} of {actions[0]} actions "
        "are left. "
        f"So it does not hold that {run.invariant}: {message.splitlines()[0]}"
    )


def _simulated(scenario: Scenario, shape: Shape, out: Path, name: str) -> Path | None:
    """The same failure in the simulator, made smaller and written down; ``None`` if it has none."""
    failing = simulated(scenario, shape.requirement)
    if failing is None:
        return None
    shrunk = shrink(failing, MOST_RUNS // 10)
    path = out / f"{name}-simulated.toml"
    text = scenario_text(shrunk, failing.name, out, timeline=scenario.file.timeline)
    path.write_text(text, "utf-8")
    return path
