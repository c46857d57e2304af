"""The swarm: one number tells the whole run, all is well without a defect, and not with one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamproof.errors import UsageError
from streamproof.sim import simulation
from streamproof.sim.choices import Choices
from streamproof.sim.defects import DEFECTS
from streamproof.sim.exploration import explore, search
from streamproof.sim.plan_space import PlanSpace, draw
from streamproof.sim.simulation import run
from streamproof.sim.topologies import TOPOLOGIES
from streamproof.sim.trace import Event, first_divergence
from streamproof.sim.trace_files import TraceFile, read_trace
from streamproof.sim.workloads import WorkloadConfig
from streamproof.sim.world_plan import Plan

SHORT = Plan(safety_ms=8_000, workload=WorkloadConfig(records=20))
"""A run of some seconds, with crashes, pauses and cuts."""


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_broken_without_a_defect(seed: int) -> None:
    """Whatever goes wrong around it, the runtime keeps all promises."""
    assert run(Choices.seeded(seed)).violations == []


@pytest.mark.parametrize(
    "seed", [122, 1253, 3763, 4514, 5103, 5197, 5913, 6599, 6621, 7598, 10894, 16639, 23265, 23343]
)
def test_what_seldom_comes_about_breaks_nothing_either(seed: int) -> None:
    """Worlds in which the runtime, or an invariant, once was wrong: one of a thousand."""
    assert run(Choices.seeded(seed)).violations == []


IN_PLACE = PlanSpace(
    topologies=["count", "windowed-count", "session-count", "punctuated-count"],
    guarantees=["exactly-once"],
    upgrades=["format-in-place"],
    plan={"persistent": [True], "instances": [2, 3]},
    settings={"store_rules": ["proposal"]},
)
"""Aggregations whose stores are upgraded in place."""


JOINS = PlanSpace(
    topologies=[
        "stream-table-join",
        "reused-table-join",
        "stream-stream-join",
        "global-table-join",
    ],
    guarantees=["at-least-once"],
    settings={"store_rules": ["kafka"]},
)
"""Joins under at-least-once."""

QUERIED = PlanSpace(
    topologies=["count", "windowed-count", "session-count", "punctuated-count"],
    guarantees=["exactly-once"],
    plan={"query_clients": [2]},
    settings={"store_rules": ["kafka"]},
)
"""Aggregations under exactly-once that two clients query."""


@pytest.mark.parametrize(
    ("seed", "space"),
    [(20, IN_PLACE), (20511, JOINS), (26419, QUERIED)],
    ids=["UPGRADE-111", "QUERY-116", "QUERY-114"],
)
def test_nothing_is_broken_in_parts_of_the_space_either(seed: int, space: PlanSpace) -> None:
    """Further worlds of a situation in which an invariant, or the runtime, once was wrong."""
    choices = Choices.seeded(seed)
    assert run(choices, draw(choices, space)).violations == []


@pytest.mark.parametrize("topology", sorted(TOPOLOGIES))
def test_every_topology_is_run_to_its_end(topology: str) -> None:
    """And has processed what came in."""
    choices = Choices.seeded(1)
    outcome = run(choices, draw(choices, PlanSpace(topologies=[topology])))
    assert outcome.plan.topology == topology
    assert outcome.violations == []
    assert outcome.events > 100


def test_the_same_seed_is_the_same_run(tmp_path: Path) -> None:
    """With and without a trace, event by event."""
    events: list[Event] = []
    path = tmp_path / "trace.parquet"
    first = run(Choices.seeded(5), watchers=[events.append])
    with TraceFile(path, "5") as file:
        second = run(Choices.seeded(5), watchers=[file])
    third = run(Choices.seeded(5))
    assert first.digest == second.digest == third.digest
    assert first.events == len(events)
    divergence = first_divergence(
        [(each.sequence, each.time, each.actor, each.kind) for each in events],  # type: ignore[misc]
        [(each.sequence, each.time, each.actor, each.kind) for each in read_trace(path)],  # type: ignore[misc]
    )
    assert divergence is None


def test_the_order_of_hashes_decides_nothing() -> None:
    """In other processes, under three values of PYTHONHASHSEED."""
    program = (
        "from streamproof.sim.choices import Choices\n"
        "from streamproof.sim.simulation import run\n"
        "print(*(run(Choices.seeded(seed)).digest for seed in range(3)))\n"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-P", "-c", program],
            check=True,
            capture_output=True,
            text=True,
            env={"PYTHONHASHSEED": each},
        ).stdout
        for each in ("0", "1", "4711")
    }
    assert len(digests) == 1
    assert digests.pop().split() == [run(Choices.seeded(seed)).digest for seed in range(3)]


def test_a_world_that_makes_too_many_events_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that begins anew for ever would make millions of them."""
    seeds = range(5)
    whole = [run(Choices.seeded(seed)).events for seed in seeds]
    monkeypatch.setattr(simulation, "_MOST_EVENTS", (0, 0, 0))
    short = [run(Choices.seeded(seed)).events for seed in seeds]
    assert all(fewer <= more for fewer, more in zip(short, whole, strict=True))
    assert short != whole


def test_the_time_is_not_up_in_the_midst_of_a_rebalance() -> None:
    """Copies that never catch up are probed for ever, and the application never rests."""
    space = PlanSpace(
        kinds=["pause", "cut"],
        plan={"instances": [2, 3], "threads": [2]},
        settings={"group_protocol": ["classic"]},
    )
    choices = Choices.seeded(70_014)
    assert run(choices, draw(choices, space)).violations == []


def test_recorded_choices_are_the_same_run() -> None:
    """They replay it without the seed."""
    first = run(Choices.seeded(3, recording=True), SHORT)
    assert run(Choices.recorded(first.choices), SHORT).digest == first.digest


@settings(max_examples=5, suppress_health_check=list(HealthCheck), deadline=None)
@given(st.data())
def test_hypothesis_can_choose(data: st.DataObject) -> None:
    """Any choices are a run, and all is well in it."""
    calm = Plan(partitions=1, safety_ms=500, kinds=("crash",), workload=WorkloadConfig(records=2))
    assert run(Choices.hypothesis(data), calm).violations == []


@pytest.mark.parametrize(
    "defect",
    [
        "restores-aborted-records",
        "commits-store-first",
        "closes-lost-tasks-cleanly",
        "commits-fetched-offsets",
        "commits-last-record",
        "keeps-stale-offset",
    ],
)
def test_a_defect_is_found(defect: str) -> None:
    """Within a few seeds; the rest of them take an exploration of their own."""
    assert search(defect, 0, 200).seeds is not None


def test_exploring_side_by_side_is_exploring() -> None:
    """Two processes find what one finds, in the same order."""
    assert list(explore(range(4), jobs=2)) == list(explore(range(4)))


def test_an_unknown_defect_is_refused() -> None:
    """With the names that there are."""
    with pytest.raises(UsageError, match=f"no defect 'typo'. Choose one of: .*{min(DEFECTS)}"):
        run(Choices.seeded(0), SHORT, defects=["typo"])


def test_each_defect_says_what_it_is() -> None:
    """And which promise it breaks, under which guarantee."""
    for name, defect in DEFECTS.items():
        assert name == name.lower()
        assert defect.what.endswith(".")
        assert set(defect.guarantees) <= {"exactly-once", "at-least-once"}
        assert defect.source
