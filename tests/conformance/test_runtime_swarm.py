"""The swarm as checks: what is explored, what is said of it, and how a failure is made smaller."""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from found_worlds import seek

from streamproof.conformance.catalogue import load_catalogue, requirements_that_bind
from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_records import CheckOutcome
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.check_runner import run_check
from streamproof.conformance.running_call import RunningCall
from streamproof.conformance.runtime_checks import swarm_checks as swarm
from streamproof.conformance.runtime_checks import world_programs as shrinking
from streamproof.conformance.runtime_checks.world_programs import Seeded, smallest_program
from streamproof.conformance.settings import Settings
from streamproof.conformance.subject import load_subject
from streamproof.conformance.verdicts import result_of
from streamproof.sim.application import StreamsConfig
from streamproof.sim.choices import Choices
from streamproof.sim.coverage_marks import MARKS
from streamproof.sim.defects import DEFECTS
from streamproof.sim.invariants import INVARIANTS, Invariant
from streamproof.sim.invariants.liveness import EveryTaskRuns
from streamproof.sim.nemesis import KINDS
from streamproof.sim.plan_space import PlanSpace, draw
from streamproof.sim.topologies import ORDINARY_TOPOLOGIES, TOPOLOGIES
from streamproof.sim.workloads import WorkloadConfig
from streamproof.sim.world_plan import Plan

CHECKS = load_checks("runtime")
SWARM = ["swarm.aggregations", "swarm.joins", "swarm.pipelines"]


def outcome(directory: Path, name: str, subject: str = "runtime", **settings: Any) -> CheckOutcome:
    """What becomes of a check, run here and now."""
    directory.mkdir(exist_ok=True)
    asked = Settings(**{"profile": "smoke", "seed": 0, **settings})
    status = RunningCall(directory / "status", create=True)
    return run_check(CheckRun(CHECKS[name], load_subject(subject), asked, directory, status))


def test_whatever_an_invariant_or_a_defect_stands_for_binds_the_runtime() -> None:
    """And the swarm is one of its checks."""
    bound = {each.id for each in requirements_that_bind("runtime")}
    for invariant in INVARIANTS:
        assert invariant.requirement in bound
        assert set(SWARM) <= set(load_catalogue()[invariant.requirement].checks)
    assert {each.requirement for each in DEFECTS.values()} <= bound


def test_each_topology_is_explored_by_one_check() -> None:
    """Ten seeds in a row have all of them but those that are asked for."""
    kinds = [swarm._kind(name) for name in TOPOLOGIES]
    assert {f"swarm.{kind}" for kind in kinds} == set(SWARM)
    count = len(ORDINARY_TOPOLOGIES)
    assert sorted(swarm.topology_of(seed) for seed in range(count)) == sorted(ORDINARY_TOPOLOGIES)


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_the_swarm_finds_nothing_and_says_how_much_it_tried(guarantee: str, tmp_path: Path) -> None:
    """Worlds, events and situations; those that did not come about are named, too."""
    found = outcome(tmp_path, "swarm.pipelines", guarantee=guarantee)
    assert (found.findings, found.suite_error) == ([], "")
    evidence = found.evidence
    assert evidence.examples > 2
    assert evidence.operations > 1_000
    assert set(MARKS) < evidence.situations.keys()
    assert any(evidence.situations.values())
    short = {"exactly-once": {"EOS-001", "EOS-002", "EOS-003"}, "at-least-once": {"ALOS-001"}}
    everywhere = {"TASK-005", "TASK-006", "TASK-008", "REBAL-001", "ASSIGN-001"}
    assert short[guarantee] | everywhere <= evidence.exercised
    others = short["at-least-once" if guarantee == "exactly-once" else "exactly-once"]
    assert not (others - {"EOS-003"}) & evidence.exercised


UPGRADED = "an older release opened two stores of a task that a newer one had closed for it"
"""The situation of UPGRADE-101."""


def without_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the swarm run its ordinary worlds only."""
    monkeypatch.setattr(swarm, "_space_of", lambda *_: None)


def test_a_promise_whose_situation_never_came_about_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three worlds without an upgrade say nothing about upgrades, and the reason says so."""
    without_search(monkeypatch)
    found = outcome(tmp_path, "swarm.pipelines")
    assert found.evidence.examples == 3
    assert "UPGRADE-101" not in found.evidence.exercised
    assert found.evidence.untried["UPGRADE-101"] == f"no world showed that {UPGRADED}"
    result = result_of("runtime", load_catalogue()["UPGRADE-101"], [found])
    assert (result.status, result.reason) == ("skip", f"no world showed that {UPGRADED}")
    assert not found.evidence.exercised & found.evidence.untried.keys()


def test_what_is_missing_after_the_ordinary_worlds_is_searched_for(tmp_path: Path) -> None:
    """In the worlds that the invariant names."""
    found = outcome(tmp_path, "swarm.pipelines", profile="quick")
    assert {"UPGRADE-105", "UPGRADE-106"} <= found.evidence.exercised
    assert found.evidence.examples > 12
    # A mapping pipeline has no joins, so nothing of a join is searched for.
    of_joins = {"IDLE-001", "IDLE-002", "STANDBY-001", "UPGRADE-101"}
    assert found.evidence.untried.keys() >= of_joins


def test_all_invariants_of_a_promise_must_be_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of several is not enough: TASK-008 has three."""

    class Never(EveryTaskRuns):
        name = "never tried"
        situation = "pigs fly"
        observers: ClassVar = {"pigs.fly": lambda _: ()}  # type: ignore[assignment]

        def at_end(self) -> Iterator[str]:
            yield from ()

    monkeypatch.setattr(swarm, "INVARIANTS", (*INVARIANTS, Never))
    without_search(monkeypatch)
    found = outcome(tmp_path, "swarm.pipelines")
    assert found.evidence.untried["TASK-008"] == "no world showed that pigs fly"
    assert "TASK-008" not in found.evidence.exercised


@pytest.mark.parametrize("invariant", INVARIANTS, ids=lambda each: each.__name__)
def test_each_invariant_names_its_situation_and_worlds_that_have_it(
    invariant: type[Invariant],
) -> None:
    """The worlds are plans that can be drawn, and one of a few has the situation."""
    assert re.fullmatch(r"[a-z].*[a-z]", invariant.situation)
    asked = Settings(guarantee=load_catalogue()[invariant.requirement].guarantees[0])
    space = swarm._space_of(invariant, list(TOPOLOGIES), asked)
    assert space is not None
    plan = draw(Choices.seeded(1), space)
    assert not invariant.drawn_from or space.has(plan)

    def tried(seed: int) -> bool | None:
        return invariant.name in Seeded(seed, space).run().tried or None

    seek(f"{invariant.requirement} {invariant.name}", tried, most=60)


def test_the_same_seed_is_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings, counts and digests; the next round is another one.

    That worlds which are searched for are the same, too: see test_runtime_command.py.
    """
    without_search(monkeypatch)
    runs = [outcome(tmp_path / name, "swarm.pipelines", seed=8) for name in ("a", "b")]
    first, second = (
        (each.findings, each.evidence.situations, each.evidence.operations, each.evidence.digest)
        for each in runs
    )
    assert first == second
    assert len(runs[0].evidence.digest) == 32
    other = outcome(tmp_path / "c", "swarm.pipelines", seed=8, round=1)
    assert other.evidence.digest != runs[0].evidence.digest


def test_a_defect_is_found_and_made_smaller(tmp_path: Path) -> None:
    """The program shows it once more, and has no more in it than it needs."""
    found = outcome(tmp_path, "swarm.aggregations", "runtime:keeps-stale-offset", profile="quick")
    findings = {each.requirement: each for each in found.findings}
    finding = findings["TASK-002"]
    assert len(finding.program.splitlines()) == 9
    assert finding.shape == "a-store-that-is-closed-cleanly"
    assert finding.found.startswith("with seed ")
    with pytest.raises(AssertionError) as caught:
        exec(finding.program)  # noqa: S102 - it is ours.
    assert set(re.findall(r"[A-Z]+-\d{3}", str(caught.value))) == {"TASK-002"}
    assert "    plan={" in finding.program
    assert "defects=['keeps-stale-offset']" in finding.program
    # The bound promise is broken: there is no need to go on.
    assert found.evidence.examples < 24


def test_the_first_world_of_a_seed_is_that_of_the_seed() -> None:
    """So that what was found is found again at once."""
    world = Seeded(4, PlanSpace(topologies=[swarm.topology_of(4)], guarantees=["exactly-once"]))
    assert world.run().digest == world.run().digest
    names: dict[str, Any] = {}
    exec(world.program, names)  # noqa: S102 - it is ours.
    assert names["run"].digest == world.run().digest


SPACE = PlanSpace(
    topologies=["count"], guarantees=["at-least-once"], settings={"transactional": [True]}
)

PLAN = Plan(
    instances=3,
    threads=2,
    config=StreamsConfig(max_task_idle_ms=500, commit_interval_ms=5_000),
    workload=WorkloadConfig(late=0.5),
    kinds=KINDS,
)


def test_a_plan_becomes_as_plain_as_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the failure needs stays: two instances, crashes, and late records."""

    def breaks(self: Seeded, _requirements: AbstractSet[str]) -> bool:
        plan = self.plan
        assert plan is not None
        return plan.threads == 2 and "crash" in plan.kinds and plan.workload.late > 0

    monkeypatch.setattr(Seeded, "breaks", breaks)
    world = Seeded(5, PlanSpace(topologies=["count"], guarantees=["exactly-once"]))
    program = smallest_program(world, PLAN, {"TASK-001"}, 100)
    expected = Plan(
        instances=1,
        threads=2,
        partitions=1,
        kinds=("crash",),
        activation=0.0,
        workload=WorkloadConfig(late=0.5, records=20),
    )
    names: dict[str, Any] = {}
    exec(program.rpartition("\n")[0], names)  # noqa: S102
    assert names["run"].plan == expected


def test_no_more_worlds_are_run_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With none that breaks anything, the world is told as it was found."""
    tried: list[Seeded] = []

    def breaks(self: Seeded, _requirements: AbstractSet[str]) -> bool:
        tried.append(self)
        return False

    monkeypatch.setattr(Seeded, "breaks", breaks)
    world = Seeded(5, SPACE)
    program = smallest_program(world, PLAN, {"TASK-001"}, 3)
    assert len(tried) == 3
    assert "plan=" not in program
    assert f"drawn_from={msgspec.to_builtins(SPACE)!r}" in program


def test_what_raises_is_the_suite_s_own_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not blamed on the runtime."""

    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError("in an invariant")

    monkeypatch.setattr(shrinking, "run", fails)
    found = outcome(tmp_path, "swarm.joins")
    assert found.findings == []
    assert found.suite_error.startswith("ZeroDivisionError: in an invariant")
