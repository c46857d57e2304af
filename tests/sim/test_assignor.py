"""The leader's work: processes, then threads; and nobody gets what another one still has."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamproof.sim.decisions.lag import LATEST_OFFSET
from streamproof.sim.tasks.assignor import (
    AssignorConfig,
    Subscription,
    ThreadAssignment,
    share_out,
)

TASKS = [f"0_{number}" for number in range(4)]
ENDS = dict.fromkeys(TASKS, 100)
NO_TASKS: frozenset[str] = frozenset()


def shared(**subscriptions: Subscription) -> dict[str, ThreadAssignment]:
    """The assignment of four stateful tasks."""
    return share_out(subscriptions, ENDS, NO_TASKS, AssignorConfig()).threads


def test_threads_of_a_process_share_what_it_gets() -> None:
    """Evenly."""
    found = shared(m1=Subscription("a"), m2=Subscription("a"))
    assert [len(each.active) for each in found.values()] == [2, 2]


def test_a_thread_keeps_what_it_owns() -> None:
    """Even if the names would have it otherwise."""
    owned = {"m1": TASKS[2:], "m2": TASKS[:2]}
    sums = dict.fromkeys(TASKS, LATEST_OFFSET)
    found = shared(**{name: Subscription("a", tuple(tasks), sums) for name, tasks in owned.items()})
    assert {name: list(each.active) for name, each in found.items()} == owned


def test_what_is_owned_elsewhere_is_withheld() -> None:
    """Until it was given up; the group comes together again for it."""
    old = Subscription("a", tuple(TASKS), dict.fromkeys(TASKS, LATEST_OFFSET))
    new = Subscription("b", (), dict.fromkeys(TASKS, 100))
    found = shared(m1=old, m2=new)
    assert len(found["m1"].active) == 2
    assert found["m2"] == ThreadAssignment((), (), follow_up=True, probing=False)
    kept = found["m1"].active
    given_up = Subscription("a", kept, dict.fromkeys(TASKS, LATEST_OFFSET))
    found = shared(m1=given_up, m2=new)
    assert found["m1"].active == kept
    assert set(found["m2"].active) == set(TASKS) - set(kept)
    assert not found["m2"].follow_up


def test_warm_ups_are_standbys_to_a_thread() -> None:
    """And the group looks again."""
    old = Subscription("a", tuple(TASKS), dict.fromkeys(TASKS, LATEST_OFFSET))
    ends = dict.fromkeys(TASKS, 10**6)
    subscriptions = {"m1": old, "m2": Subscription("b")}
    found = share_out(subscriptions, ends, NO_TASKS, AssignorConfig()).threads
    assert set(found["m1"].active) == set(TASKS)
    assert len(found["m2"].standby) == 2
    assert found["m1"].probing


def test_stateless_tasks_are_shared_too() -> None:
    """All of them."""
    found = share_out(
        {"m1": Subscription("a"), "m2": Subscription("b")},
        {},
        frozenset(["1_0", "1_1", "1_2"]),
        AssignorConfig(),
    ).threads
    assert sorted(task for each in found.values() for task in each.active) == ["1_0", "1_1", "1_2"]


@given(
    st.dictionaries(
        st.sampled_from(["m1", "m2", "m3", "m4"]),
        st.tuples(st.sampled_from("ab"), st.sets(st.sampled_from(TASKS))),
        min_size=1,
    ),
    st.integers(0, 1),
)
def test_nobody_ever_runs_beside_another(
    members: dict[str, tuple[str, set[str]]], standbys: int
) -> None:
    """Whatever is owned: only the owner has it; what nobody owns, one gets or all wait for."""
    owners: dict[str, str] = {}
    for name, (_, wanted) in members.items():
        for task in wanted:
            owners.setdefault(task, name)
    subscriptions = {
        name: Subscription(
            process,
            tuple(sorted(task for task in wanted if owners[task] == name)),
            dict.fromkeys(sorted(wanted), LATEST_OFFSET),
        )
        for name, (process, wanted) in members.items()
    }
    config = AssignorConfig(num_standby_replicas=standbys)
    found = share_out(subscriptions, ENDS, NO_TASKS, config).threads
    given = [(task, name) for name, each in found.items() for task in each.active]
    assert len({task for task, _ in given}) == len(given)
    for task, name in given:
        assert owners.get(task, name) == name
    for task in set(TASKS) - {task for task, _ in given}:
        assert any(each.follow_up for each in found.values())
        assert task in owners
