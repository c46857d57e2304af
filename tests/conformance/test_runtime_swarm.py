"""The swarm as checks: what is explored, what is said of it, and how a failure is made smaller."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import msgspec
import pytest

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
from streamproof.sim.application import StreamsConfig
from streamproof.sim.coverage_marks import MARKS
from streamproof.sim.defects import DEFECTS
from streamproof.sim.invariants import INVARIANTS
from streamproof.sim.nemesis import KINDS
from streamproof.sim.plan_space import PlanSpace
from streamproof.sim.topologies import TOPOLOGIES
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


def note(printed: list[Any]) -> Callable[..., None]:
    """A ``print`` that keeps what it is given."""
    return lambda *some, **_: printed.extend(some)


def test_whatever_an_invariant_or_a_defect_stands_for_binds_the_runtime() -> None:
    """And the swarm is one of its checks."""
    bound = {each.id for each in requirements_that_bind("runtime")}
    for invariant in INVARIANTS:
        assert invariant.requirement in bound
        assert load_catalogue()[invariant.requirement].checks[:3] == SWARM
    assert {each.requirement for each in DEFECTS.values()} <= bound


def test_each_topology_is_explored_by_one_check() -> None:
    """Ten seeds in a row have all of them."""
    kinds = [swarm._kind(name) for name in TOPOLOGIES]
    assert {f"swarm.{kind}" for kind in kinds} == set(SWARM)
    count = len(TOPOLOGIES)
    assert sorted(swarm.topology_of(seed) for seed in range(count)) == sorted(TOPOLOGIES)


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_the_swarm_finds_nothing_and_says_how_much_it_tried(guarantee: str, tmp_path: Path) -> None:
    """Worlds, events and situations; those that did not come about are named, too."""
    found = outcome(tmp_path, "swarm.pipelines", guarantee=guarantee)
    assert (found.findings, found.suite_error) == ([], "")
    evidence = found.evidence
    assert evidence.examples == 2
    assert evidence.operations > 1_000
    assert evidence.situations.keys() == set(MARKS)
    assert any(evidence.situations.values())
    short = {"exactly-once": {"EOS-001", "EOS-002", "EOS-003"}, "at-least-once": {"ALOS-001"}}
    everywhere = {"TASK-005", "TASK-006", "TASK-008", "REBAL-001", "ASSIGN-001"}
    assert short[guarantee] | everywhere <= evidence.exercised
    others = short["at-least-once" if guarantee == "exactly-once" else "exactly-once"]
    assert not (others - {"EOS-003"}) & evidence.exercised


def test_the_same_seed_is_the_same_run(tmp_path: Path) -> None:
    """Findings, counts and digests; the next round is another one."""
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
    printed: list[Any] = []
    exec(finding.program, {"print": note(printed)})  # noqa: S102 - it is ours.
    assert {each.requirement for each in printed} == {"TASK-002"}
    assert "    plan={" in finding.program
    assert "defects=['keeps-stale-offset']" in finding.program
    # The bound promise is broken: there is no need to go on.
    assert found.evidence.examples < 24


def test_the_first_world_of_a_seed_is_that_of_the_seed() -> None:
    """So that what was found is found again at once."""
    world = Seeded(4, PlanSpace(topologies=[swarm.topology_of(4)], guarantees=["exactly-once"]))
    assert world.run().digest == world.run().digest
    printed: list[str] = []
    exec(world.program.replace("violations, sep='\\n'", "digest, sep=''"), {"print": note(printed)})  # noqa: S102
    assert "".join(printed) == world.run().digest


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
