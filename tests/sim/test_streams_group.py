"""Groups whose brokers assign: epochs, tasks that are revoked first, fencing, and offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from streamproof.errors import UsageError
from streamproof.sim.application import StreamsConfig
from streamproof.sim.broker_errors import (
    FencedMemberEpochError,
    IllegalGenerationError,
    UnreleasedInstanceIdError,
)
from streamproof.sim.brokers.streams_group import Heartbeat, StreamsGroup, Told
from streamproof.sim.choices import Choices
from streamproof.sim.decisions.sticky_assignment import Share, assign_sticky
from streamproof.sim.instances import Instance
from streamproof.sim.invariants import Watch
from streamproof.sim.invariants.membership import StaticMembersComeBack
from streamproof.sim.plan_space import PlanSpace, draw
from streamproof.sim.simulation import run
from streamproof.sim.tasks.assignor import Subscription, ThreadAssignment
from streamproof.sim.trace import Event
from streamproof.sim.world_plan import Plan

TASKS = ("0_0", "0_1")


def group_of(*defects: str, standbys: int = 0) -> StreamsGroup:
    """A group with two tasks, each of which reads one partition."""

    def assign(members: dict[str, Share]) -> dict[str, Share]:
        return assign_sticky(members, TASKS, TASKS, num_standby_replicas=standbys)

    def tasks_of(partitions: Iterable[str]) -> set[str]:
        return {f"0_{each.removeprefix('in-')}" for each in partitions}

    has: Callable[[str], bool] = defects.__contains__
    return StreamsGroup(assign, tasks_of, mistakes=has)  # type: ignore[arg-type]


def beat(
    group: StreamsGroup, told: Told | None, *owned: str, now: int = 0, process: str = "a"
) -> Told:
    """A full heartbeat of a member that joins, or that knows what it was told."""
    member, epoch = (told.member_id, told.epoch) if told else ("", 0)
    return group.heartbeat(Heartbeat(member, epoch, Subscription(process, owned)), now)


def active(told: Told) -> tuple[str, ...]:
    """The tasks of an answer."""
    assert told.assignment is not None
    return told.assignment.active


def two_members(*defects: str) -> tuple[StreamsGroup, Told, Told]:
    """The first has both tasks and has heard of the second, which waits for one of them."""
    group = group_of(*defects)
    first = beat(group, None)
    assert active(first) == TASKS
    second = beat(group, None, process="b")
    return group, first, second


def test_a_task_is_given_up_in_the_old_epoch_and_then_handed_out() -> None:
    group, first, second = two_members()
    assert (second.epoch, active(second)) == (2, ())
    told = beat(group, first, *TASKS)
    assert (told.epoch, active(told)) == (1, ("0_0",))
    assert beat(group, second).assignment == ThreadAssignment()
    told = beat(group, told, "0_0")
    assert (told.epoch, active(told)) == (2, ("0_0",))
    assert active(beat(group, second)) == ("0_1",)


def test_who_does_not_give_up_in_time_is_left_out() -> None:
    group, first, second = two_members()
    beat(group, first, *TASKS)
    group.members[first.member_id].session_timeout_ms = 1_000_000
    group.members[second.member_id].session_timeout_ms = 1_000_000
    assert active(beat(group, second, now=299_999)) == ()
    assert active(beat(group, second, now=300_000)) == TASKS
    with pytest.raises(IllegalGenerationError, match="not a member"):
        beat(group, first, "0_0", now=300_001)


def test_an_answer_that_was_lost_is_given_again() -> None:
    """A member whose epoch is the one before is told the present one, unless it has too much."""
    group, first, _ = two_members()
    told = beat(group, beat(group, first, *TASKS), "0_0")
    again = beat(group, first, "0_0")
    assert (again.epoch, again.assignment) == (told.epoch, told.assignment)
    with pytest.raises(FencedMemberEpochError, match="is of epoch 1, and not of 2"):
        beat(group, first, *TASKS)


@pytest.mark.parametrize("is_wrong", [False, True])
def test_a_member_that_is_fenced_joins_anew(is_wrong: bool) -> None:
    """Under its id, and with epoch 0, without another epoch of the group (KAFKA-19233)."""
    group, first, _ = two_members(*(["refuses-fenced-members"] if is_wrong else []))
    anew = Told(first.member_id, 0)
    if is_wrong:
        with pytest.raises(IllegalGenerationError, match="knows it with epoch 1"):
            beat(group, anew)
    else:
        told = beat(group, anew)
        assert (told.member_id, told.epoch, active(told)) == (first.member_id, 1, ("0_0",))
        assert group.generation == 2


def test_a_static_member_comes_back_once_it_has_left() -> None:
    group = group_of()
    here = Heartbeat("", 0, Subscription("a"), instance_id="one")
    first = group.heartbeat(here, 0)
    with pytest.raises(UnreleasedInstanceIdError):
        group.heartbeat(here, 1)
    group.leave_for_now(first.member_id)
    back = group.heartbeat(here, 2)
    assert back.member_id != first.member_id
    assert (back.epoch, back.assignment) == (first.epoch, first.assignment)
    assert group.generation == 1


def commits(group: StreamsGroup, told: Told, partition: str, epoch: int) -> bool:
    """Whether an offset is taken, with and without a transaction."""
    answers = []
    for commit in (group.commit, lambda *more: group.commit_in_transaction(7, *more)):
        try:
            commit(told.member_id, epoch, {partition: 5})
            answers.append(True)
        except IllegalGenerationError:
            answers.append(False)
    assert len(set(answers)) == 1
    return answers[0]


@pytest.mark.parametrize("is_wrong", [False, True])
def test_offsets_of_an_older_epoch_are_taken_for_tasks_that_stayed(is_wrong: bool) -> None:
    """Not for a task that may have another owner (KAFKA-19779, KIP-1251)."""
    group, first, _ = two_members(*(["refuses-older-epochs"] if is_wrong else []))
    revoking = beat(group, first, *TASKS)
    assert commits(group, first, "in-1", 1)
    told = beat(group, revoking, "0_0")
    assert told.epoch == 2
    assert commits(group, first, "in-0", 1) is not is_wrong
    assert not commits(group, first, "in-1", 1)
    assert commits(group, first, "in-0", 2)
    assert not commits(group, first, "in-0", 3)
    assert not commits(group, Told("member-9", 1), "in-0", 1)


def test_tasks_stay_where_they_are_and_move_to_copies() -> None:
    """As far as the members have the same number of them."""
    tasks = [f"0_{number}" for number in range(4)]
    members = {
        "m1": Share("a", frozenset(tasks[:3])),
        "m2": Share("b", frozenset(), frozenset({"0_3"})),
    }
    placed = assign_sticky(members, tasks, tasks, num_standby_replicas=1)
    assert {name: each.active for name, each in placed.items()} == {
        "m1": {"0_0", "0_1"},
        "m2": {"0_2", "0_3"},
    }
    assert {name: each.standby for name, each in placed.items()} == {
        "m1": {"0_2", "0_3"},
        "m2": {"0_0", "0_1"},
    }


@pytest.mark.parametrize("looks_at_all", [True, False])
def test_copies_are_placed_wherever_a_process_is_left(looks_at_all: bool) -> None:
    """Also if the member with the least to do is in the process of the task (KAFKA-20899)."""
    members = {"m1": Share("a"), "m2": Share("a"), "m3": Share("b", frozenset({"0_1"}))}
    placed = assign_sticky(
        members, ["0_0", "0_1"], ["0_0"], num_standby_replicas=1, looks_at_all=looks_at_all
    )
    assert placed["m1"].active == {"0_0"}
    assert placed["m3"].standby == ({"0_0"} if looks_at_all else set())


STREAMS = PlanSpace(upgrades=[""], settings={"group_protocol": ["streams"]})


@pytest.mark.parametrize("seed", range(12))
def test_worlds_with_the_protocol_are_clean(seed: int) -> None:
    choices = Choices.seeded(seed)
    plan = draw(choices, STREAMS)
    assert plan.config.group_protocol == "streams"
    assert run(choices, plan).violations == []


def test_a_static_member_that_gave_a_task_up_comes_back_without_it() -> None:
    """Within its epoch, so the invariant asks the brokers what the member had."""

    def said(replaces: str, *between: tuple[str, dict[str, object]]) -> list[str]:
        joins = {"thread": "a/thread-0", "instance_id": "one"}
        has = {"generation": 1, "standby": []}
        watch = Watch([StaticMembersComeBack], exactly_once=True)
        for number, (kind, more) in enumerate(
            [
                ("group.member_joined", {**joins, "member": "m1", "replaces": ""}),
                ("thread.assigned", {**has, "active": ["0_0", "0_1"]}),
                *between,
                ("group.member_joined", {**joins, "member": "m2", "replaces": replaces}),
                ("thread.assigned", {**has, "active": ["0_0"]}),
            ]
        ):
            actor = "a/thread-0" if kind == "thread.assigned" else "brokers"
            watch(Event(number, number, actor, kind, "", "", -1, more))
        return [each.message for each in watch.violations]

    step = {"member": "m1", "epoch": 1, "since": {"0_0": 1}, "standby": [], "revoking": {"0_1": 1}}
    assert len(said("m1")) == 1
    assert said("m1", ("group.reconciled", step)) == []


def test_a_thread_that_has_lost_its_tasks_is_not_running() -> None:
    """Not even before it asks to join again, so that nothing is cleaned up meanwhile."""
    space = PlanSpace(guarantees=["exactly-once"], kinds=["pause"], plan={"activation": [0.9]})
    seen: list[int] = []
    instances: list[Instance] = []
    lost: set[str] = set()

    def watch(event: Event) -> None:
        if event.kind == "thread.lost":
            lost.add(event.actor)
        elif event.kind == "thread.subscribed":
            lost.discard(event.actor)
        elif event.kind == "thread.producer" and event.actor in lost:
            threads = [each for instance in instances for each in instance.threads]
            seen.extend(each.generation for each in threads if each.name == event.actor)

    for seed in range(6):
        choices = Choices.seeded(seed)
        plan = draw(choices, space)
        lost.clear()
        instances.clear()
        run(
            choices,
            plan,
            watchers=[watch],
            direct=lambda stage: instances.extend(stage.instances),
        )
    assert seen
    assert set(seen) == {-1}


def test_an_upgrade_needs_the_classic_protocol() -> None:
    plan = Plan(config=StreamsConfig(group_protocol="streams"), upgrade="offsets-up")
    with pytest.raises(UsageError, match='set group_protocol to "classic"'):
        run(Choices.seeded(0), plan)
