"""Shrinking: the same promise, broken by less, in the same way each time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from found_worlds import seek

from streamproof.errors import UsageError
from streamproof.scenarios.plan_shrinking import changed_fields, plainest
from streamproof.scenarios.shrinking import (
    Failing,
    ShrinkStep,
    shape_of,
    shrink,
)
from streamproof.scenarios.small_worlds import small_plans
from streamproof.sim.application import StreamsConfig
from streamproof.sim.choices import Choices
from streamproof.sim.defects import DEFECTS
from streamproof.sim.invariants import InvariantViolation
from streamproof.sim.plan_space import PlanSpace, draw
from streamproof.sim.simulation import Outcome, run
from streamproof.sim.trace import Event, Watcher
from streamproof.sim.workloads import WorkloadConfig
from streamproof.sim.world_plan import Plan

SHORT = PlanSpace(plan={"safety_ms": [15_000]})
"""Worlds for which 300 runs are enough: shrinking a long one may take more."""


def failing(defect: str) -> Failing:
    """A run in which a defect breaks its promise, by an event if an event can show that."""

    def attempt(seed: int) -> Failing | None:
        choices = Choices.seeded(seed, recording=True)
        plan = draw(choices, SHORT.for_defect(defect))
        drawn = choices.count
        broken = run(choices, plan, defects=[defect]).violations
        if [each.requirement for each in broken[:1]] != [DEFECTS[defect].requirement]:
            return None
        if broken[0].event is None and defect != "commits-last-record":
            return None
        return Failing(f"seed {seed}", plan, choices.drawn[drawn:], (defect,))

    return seek(f"shrinking {defect}", attempt)


@pytest.mark.parametrize(
    "defect", ["keeps-stale-offset", "commits-fetched-offsets", "restores-aborted-records"]
)
def test_a_failure_becomes_small_and_stays_the_same(defect: str) -> None:
    """At most ten events for each one that matters, or 200, and the run replays strictly."""
    world = failing(defect)
    before = run(Choices.recorded(world.choices), world.plan, defects=[defect])
    steps: list[ShrinkStep] = []
    shrunk = shrink(world, 300, steps.append)
    assert shape_of(shrunk.violations[0]) == shape_of(before.violations[0])
    # Both runs end at the event that breaks the promise.
    assert len(shrunk.played.events) < before.events
    assert len(shrunk.played.events) <= max(200, 10 * len(shrunk.matters))
    assert 3 < len(shrunk.matters) < 60
    assert shrunk.runs <= 300
    assert [each.runs for each in steps] == list(range(1, shrunk.runs + 1))
    assert not shrunk.choices or shrunk.choices[-1]
    again = run(Choices.strict(shrunk.played.choices), shrunk.plan, defects=[defect])
    assert again.digest == shrunk.played.digest
    lenient = run(Choices.recorded(shrunk.choices), shrunk.plan, defects=[defect])
    assert lenient.digest == shrunk.played.digest


def test_shrinking_leaves_nothing_to_chance() -> None:
    """The same run becomes the same small one."""
    first, second = (shrink(failing("commits-last-record"), 60) for _ in range(2))
    assert (first.plan, first.choices, first.runs) == (second.plan, second.choices, second.runs)
    assert first.played.digest == second.played.digest


def test_a_run_that_breaks_nothing_is_refused() -> None:
    """There is nothing to make smaller."""
    calm = Plan(safety_ms=1_000, kinds=(), workload=WorkloadConfig(records=2))
    with pytest.raises(UsageError, match="seed 4 breaks no promise"):
        shrink(Failing("seed 4", calm, []))


def test_a_world_ends_at_the_event_that_breaks_a_promise() -> None:
    """Only the step of that event goes on: nothing happens at a later time."""
    world, events = failing("keeps-stale-offset"), list[Event]()
    choices = Choices.recorded(world.choices)
    broken = run(choices, world.plan, defects=world.defects, watchers=[events.append])
    found = broken.violations[0].event
    assert found is not None
    assert events[-1].time == found.time


def test_small_plans_begin_with_the_smallest() -> None:
    """One process, one partition and three records come first; the last are as many as before."""
    plan = Plan(partitions=3, instances=3, threads=2, workload=WorkloadConfig(records=100))
    plans = small_plans(plan)
    first, last = plans[0], plans[-1]
    assert (first.instances, first.threads, first.partitions, first.workload.records) == (
        1,
        1,
        1,
        3,
    )
    assert (last.instances, last.threads, last.partitions) == (3, 2, 3)
    assert all(each.safety_ms <= 15_000 for each in plans)


def test_a_sparse_seed_mostly_makes_the_plainest_choice() -> None:
    """The given choices come first, and all others follow from the seed."""
    one, other = (Choices.sparse(3, 0.2, first=[7, 99], recording=True) for _ in range(2))
    drawn = [one.below(10) for _ in range(500)]
    assert drawn == [other.below(10) for _ in range(500)]
    assert drawn[:2] == [7, 9]
    assert 350 < drawn.count(0) < 480


class Simulated:
    """Stands for a world: it makes 100 choices of 10, and some of them break a promise.

    Attributes:
        runs: how often it was run.
    """

    def __init__(self) -> None:
        self.runs = 0

    def __call__(
        self,
        choices: Choices,
        plan: Plan,
        *,
        defects: Iterable[str] = (),
        watchers: Iterable[Watcher] = (),
    ) -> Outcome:
        """The 18th choice must be 4 or more, and the 80th 7 or more; the 40th says what breaks."""
        del defects, watchers
        self.runs += 1
        drawn = [choices.below(10) for _ in range(100)]
        violations = []
        if drawn[17] >= 4 and drawn[79] >= 7:
            requirement = "TASK-001" if drawn[39] else "TASK-002"
            violations = [InvariantViolation("it holds", requirement, "it does not", None)]
        return Outcome(plan, violations, str(drawn), 100, {}, {}, 0, choices.drawn)


NINES = [9] * 100


def test_choices_become_the_least_that_still_fails() -> None:
    """And never another failure: the 40th choice is not 0."""
    simulate = Simulated()
    world = Failing("all nines", Plan(), NINES, simulate=simulate)
    shrunk = shrink(world, 2_000)
    values = {place: value for place, value in enumerate(shrunk.choices) if value}
    assert values == {17: 4, 39: 1, 79: 7}
    assert len(shrunk.choices) == 80
    assert shrunk.violations[0].requirement == "TASK-001"
    assert shrunk.plan.instances == 1
    # One run says what is broken, and one tells the result.
    assert simulate.runs == shrunk.runs + 2


@pytest.mark.parametrize("most", [0, 1, 17])
def test_no_more_worlds_are_run_than_allowed(most: int) -> None:
    """What was found by then is the result."""
    simulate = Simulated()
    shrunk = shrink(Failing("all nines", Plan(), NINES, simulate=simulate), most)
    assert shrunk.runs == most
    assert simulate.runs == most + 2
    assert shrunk.violations[0].requirement == "TASK-001"


def test_a_world_that_cannot_be_run_is_not_smaller() -> None:
    """Whatever is raised there, it is not the failure that is looked for."""
    simulate = Simulated()

    def with_two_instances(choices: Choices, plan: Plan, **more: Any) -> Outcome:
        if plan.instances == 1:
            raise ZeroDivisionError("nobody is there")
        return simulate(choices, plan, **more)

    shrunk = shrink(Failing("two", Plan(), NINES, simulate=with_two_instances), 300)
    assert shrunk.plan.instances == 2


def test_a_plan_becomes_the_plainest_that_fails() -> None:
    """With a bound on how often it is asked."""
    plan = Plan(instances=3, threads=2, config=StreamsConfig(max_task_idle_ms=500))
    asked: list[Plan] = []

    def fails(other: Plan) -> bool:
        asked.append(other)
        return other.threads == 2

    found = plainest(plan, fails, 100)
    assert (found.instances, found.threads, found.partitions) == (1, 2, 1)
    assert found.config == StreamsConfig()
    assert len(asked) <= 100
    assert plainest(plan, lambda _: False, 5) == plan


def test_a_plan_is_told_by_what_is_changed() -> None:
    """Without what is as it is by default."""
    plan = replace(Plan(), instances=1, workload=WorkloadConfig(records=2))
    assert changed_fields(plan) == {"instances": 1, "workload": {"records": 2}}
    assert changed_fields(Plan()) == {}
