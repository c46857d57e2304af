"""What worlds are drawn for: the same for any number of processes, and more of what is scarce."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from streamproof.sim.choices import Choices
from streamproof.sim.coverage_marks import MARKS
from streamproof.sim.exploration import SeededWorlds, explore
from streamproof.sim.invariants import INVARIANTS
from streamproof.sim.plan_space import EVERYTHING, PlanSpace, draw
from streamproof.sim.simulation import run
from streamproof.sim.situations import GOALS, in_short, situations_of
from streamproof.sim.steering import BEHIND, Steering

COUNTS = PlanSpace(topologies=["count"], kinds=["crash", "power"])


def test_goals_are_situations_or_invariants_that_exist() -> None:
    names = {each.name for each in INVARIANTS} | set(situations_of([]))
    assert GOALS.keys() <= names
    assert set(MARKS) < set(situations_of([]))


@pytest.mark.parametrize("goal", GOALS)
def test_each_goal_has_plans(goal: str) -> None:
    """Those that are drawn for it are in its space."""
    assert GOALS[goal].has(draw(Choices.seeded(1), GOALS[goal]))


def test_every_second_world_is_drawn_from_the_whole_space() -> None:
    steering = Steering(EVERYTHING, behind=0)
    goals = []
    for _ in range(20):
        goals.append(steering.next_goal())
        steering.reached([])
    assert not any(goals[::2])
    assert all(goals[1::2])
    # What nobody reaches does not take the worlds of the others.
    assert len(set(goals[1::2])) == 10


def test_what_was_reached_least_comes_next() -> None:
    steering = Steering(COUNTS, behind=0)
    for _ in range(300):
        steering.next_goal()
        steering.reached(
            each for each in GOALS if each != "the fault power with the topology count"
        )
    drawn = Counter(_goals(steering, 40))
    assert drawn["the fault power with the topology count"] == 20


def _goals(steering: Steering, worlds: int) -> list[str]:
    found = []
    for _ in range(worlds):
        found.append(steering.next_goal())
        steering.reached([])
    return found


def test_what_later_worlds_know_does_not_depend_on_what_has_ended() -> None:
    """One asks as late as it may, the other as early as it may."""
    reached = [[name for number, name in enumerate(GOALS) if number % (n + 2)] for n in range(80)]
    late, early = Steering(EVERYTHING), Steering(EVERYTHING)
    one = []
    for each in reached:
        one.append(late.next_goal())
        late.reached(each)
    two = [early.next_goal() for _ in range(BEHIND)]
    for each in reached:
        two.append(early.next_goal())
        early.reached(each)
    assert one == two[: len(one)]


def test_goals_of_another_space_are_left_out() -> None:
    goals = set(_goals(Steering(COUNTS), 400)) - {""}
    assert goals
    assert all(COUNTS.meet(GOALS[each]) for each in goals)
    assert not any("windowed-count" in each or "the fault hold" in each for each in goals)


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (PlanSpace(), COUNTS, COUNTS),
        (
            PlanSpace(kinds=["power", "cut"]),
            COUNTS,
            PlanSpace(topologies=["count"], kinds=["power"]),
        ),
        (PlanSpace(topologies=["stateless"]), COUNTS, None),
        (PlanSpace(plan={"threads": [1, 2]}), PlanSpace(plan={"threads": [3]}), None),
        (PlanSpace(settings={"transactional": [True]}), PlanSpace(upgrades=["sums-up"]), None),
    ],
)
def test_spaces_meet(one: PlanSpace, other: PlanSpace, both: PlanSpace | None) -> None:
    assert one.meet(other) == both
    assert other.meet(one) == both


def test_steered_worlds_are_the_same_with_any_number_of_processes() -> None:
    worlds = SeededWorlds(PlanSpace(plan={"safety_ms": [15_000]}))

    def runs(jobs: int) -> list[object]:
        steering = Steering(worlds.possible)
        return list(islice(explore(range(40), worlds, jobs=jobs, steering=steering), 40))

    assert runs(1) == runs(2)
    assert any(each.goal for each in explore(range(2), worlds, steering=Steering(worlds.possible)))


@pytest.mark.parametrize("seed", [63, 113, 139, 148, 207, 224])
def test_worlds_that_few_draw_are_clean(seed: int) -> None:
    """A reset leaves records out of aggregates, and a disk may have rows that no changelog has."""
    choices = Choices.seeded(seed)
    plan = draw(choices, GOALS["a filtered or mapped row keeps its timestamp"])
    assert run(choices, plan).violations == []


def test_situations_in_short() -> None:
    """A fault has one entry, with its topologies; everything is sorted."""
    names = [
        "the fault power with the topology count",
        "a task idled",
        "the fault network.late",
        "the fault power with the topology session-count",
    ]
    told = ["a task idled", "the fault network.late", "the fault power with count, session-count"]
    assert in_short(names) == told
