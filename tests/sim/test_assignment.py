"""Tasks go where their state is, are spread evenly in the end, and no more copies are made."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamproof.sim.decisions.assignment import Assignment, Client, assign
from streamproof.sim.decisions.lag import (
    LATEST_OFFSET,
    MAX_OFFSET,
    UNKNOWN_OFFSET_SUM,
    is_caught_up,
    offset_sum,
    task_lag,
)

TASKS = [f"0_{number}" for number in range(6)]

LAGS = st.dictionaries(
    st.sampled_from(TASKS),
    st.sampled_from([LATEST_OFFSET, UNKNOWN_OFFSET_SUM, 0, 5, 10_000, 10_001, 10**6]),
)
CLIENTS = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d"]),
    st.builds(Client, st.integers(1, 3), LAGS),
    min_size=1,
)


def all_active(found: Assignment) -> list[str]:
    """Every active task, as often as it was given."""
    return sorted(task for each in found.clients.values() for task in each.active)


def test_without_state_tasks_are_spread_by_threads() -> None:
    """Three tasks a thread."""
    found = assign({"a": Client(1, {}), "b": Client(1, {})}, TASKS, [])
    assert [len(found.clients[name].active) for name in "ab"] == [3, 3]
    found = assign({"a": Client(1, {}), "b": Client(2, {})}, TASKS, [])
    assert [len(found.clients[name].active) for name in "ab"] == [2, 4]
    assert not found.probing


def test_a_new_client_warms_up_first() -> None:
    """All work stays with the one that has the state, and two copies at a time are made."""
    running = Client(1, dict.fromkeys(TASKS, LATEST_OFFSET))
    found = assign({"new": Client(1, {}), "old": running}, TASKS, [])
    assert found.clients["old"].active == set(TASKS)
    assert len(found.clients["new"].warmup) == 2
    assert found.probing


def test_a_client_that_has_warmed_up_gets_the_task() -> None:
    """It is caught up, if not to the last record."""
    running = Client(1, dict.fromkeys(TASKS[:2], LATEST_OFFSET))
    found = assign({"a": Client(1, {TASKS[0]: 10_000}), "b": running}, TASKS[:2], [])
    assert found.clients["a"].active == {TASKS[0]}
    assert found.clients["b"].active == {TASKS[1]}
    assert not found.probing


def test_a_standby_takes_over_without_a_copy() -> None:
    """The client that should have the task becomes the standby meanwhile."""
    clients = {
        "a": Client(1, {}),
        "b": Client(1, {TASKS[0]: 0}),
    }
    found = assign(clients, TASKS[:1], [], num_standby_replicas=1)
    assert found.clients["b"].active == {TASKS[0]}
    assert found.clients["a"].standby == {TASKS[0]}
    assert found.clients["a"].warmup == set()


def test_nobody_is_caught_up() -> None:
    """The one that lacks least keeps the task (KAFKA-13600)."""
    clients = {"a": Client(1, {TASKS[0]: 90_000}), "b": Client(1, {TASKS[0]: 50_000})}
    found = assign(clients, TASKS[:1], [])
    assert found.clients["b"].active == {TASKS[0]}
    assert found.clients["a"].warmup == {TASKS[0]}


def test_an_unknown_sum_is_not_the_sum_of_a_running_task() -> None:
    """Work does not move to a client that cannot tell how far it is (KAFKA-10319)."""
    clients = {"a": Client(1, {TASKS[0]: UNKNOWN_OFFSET_SUM}), "b": Client(1, {TASKS[0]: 0})}
    assert assign(clients, TASKS[:1], []).clients["b"].active == {TASKS[0]}


@given(
    CLIENTS,
    st.sets(st.sampled_from(TASKS)),
    st.sets(st.sampled_from(["1_0", "1_1", "1_2"])),
    st.integers(0, 2),
    st.integers(0, 3),
)
def test_what_holds_of_every_assignment(
    clients: dict[str, Client], stateful: set[str], stateless: set[str], standbys: int, warmups: int
) -> None:
    """Each task is active once, nobody has a task twice, and the budgets are kept."""
    found = assign(
        clients,
        stateful,
        stateless,
        num_standby_replicas=standbys,
        max_warmup_replicas=warmups,
    )
    assert all_active(found) == sorted(stateful | stateless)
    assert sum(len(each.warmup) for each in found.clients.values()) <= warmups
    for each in found.clients.values():
        assert not each.active & each.standby
        assert not each.active & each.warmup
        assert not each.standby & each.warmup
        assert not (each.standby | each.warmup) & stateless
    for task in stateful:
        copies = sum(task in each.standby for each in found.clients.values())
        assert copies == min(standbys, len(clients) - 1)


@given(CLIENTS, st.sets(st.sampled_from(TASKS)))
def test_the_same_group_is_assigned_the_same(
    clients: dict[str, Client], stateful: set[str]
) -> None:
    """In whatever order the clients come."""
    backwards = dict(reversed(clients.items()))
    assert assign(clients, stateful, []) == assign(backwards, stateful, [])


@given(
    st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.integers(1, 3), min_size=1),
    st.sets(st.sampled_from(TASKS), min_size=1),
    st.integers(0, 1),
    st.data(),
)
def test_a_group_comes_to_rest(
    threads: dict[str, int], stateful: set[str], standbys: int, data: st.DataObject
) -> None:
    """If copies are made between two looks, the moves end, and the load is even (KAFKA-10455)."""
    lags: dict[str, dict[str, int]] = {name: data.draw(LAGS) for name in threads}
    for _ in range(2 * len(TASKS) * len(threads) + 2):
        clients = {name: Client(threads[name], lags[name]) for name in threads}
        found = assign(clients, stateful, [], num_standby_replicas=standbys)
        if not found.probing:
            break
        for name, each in found.clients.items():
            # Who has a copy keeps up; the others fall behind.
            lags[name] = dict.fromkeys(lags[name], 10**6)
            lags[name] |= dict.fromkeys(each.standby | each.warmup, 0)
            lags[name] |= dict.fromkeys(each.active, LATEST_OFFSET)
    assert not found.probing
    loads = [len(found.clients[name].active) / threads[name] for name in threads]
    assert max(loads) - min(loads) <= 1


SUMS = st.dictionaries(
    st.sampled_from(TASKS),
    st.sampled_from([LATEST_OFFSET, UNKNOWN_OFFSET_SUM, 0, 50, 95, 100, 150]),
)


def lags_of(sums: dict[str, int]) -> dict[str, int]:
    """The lags of a client that reports these sums, behind ends of 100."""
    return {task: task_lag(total, 100) for task, total in sums.items()}


@given(
    st.dictionaries(st.sampled_from(["a", "b", "c"]), SUMS, min_size=1),
    st.sampled_from([0, 5, 60]),
    st.integers(0, 1),
    st.integers(0, 2),
)
def test_work_goes_where_the_state_is(
    sums: dict[str, dict[str, int]], acceptable: int, standbys: int, warmups: int
) -> None:
    """To a client that is caught up; else to the one that lacks least, whoever has a standby."""
    clients = {name: Client(1, lags_of(each)) for name, each in sums.items()}
    found = assign(
        clients,
        TASKS,
        [],
        num_standby_replicas=standbys,
        max_warmup_replicas=warmups,
        acceptable_recovery_lag=acceptable,
    )
    for task in TASKS:
        [owner] = [name for name, each in found.clients.items() if task in each.active]
        lags = {name: each.lags[task] for name, each in clients.items() if task in each.lags}
        caught_up = {name for name, lag in lags.items() if is_caught_up(lag, acceptable)}
        if caught_up:
            assert owner in caught_up
            continue
        known = {name: lag for name, lag in lags.items() if lag != UNKNOWN_OFFSET_SUM}
        if known:
            assert known.get(owner) == min(known.values())


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), SUMS, min_size=1), st.integers(0, 1))
def test_it_is_even_unless_something_is_on_its_way(
    sums: dict[str, dict[str, int]], standbys: int
) -> None:
    """Within one task a thread; and a warm-up is always followed by another look."""
    clients = {name: Client(1, lags_of(each)) for name, each in sums.items()}
    found = assign(
        clients, TASKS, ["1_0", "1_1"], num_standby_replicas=standbys, acceptable_recovery_lag=0
    )
    counts = [len(each.active) for each in found.clients.values()]
    assert found.probing or max(counts) - min(counts) <= 1
    assert found.probing or not any(each.warmup for each in found.clients.values())


@given(
    st.lists(st.sampled_from([LATEST_OFFSET, UNKNOWN_OFFSET_SUM, 0, 7, 100, 101, MAX_OFFSET])),
    st.integers(0, 100),
)
def test_a_sentinel_is_never_part_of_a_sum(reported: list[int], end: int) -> None:
    """Its lag is itself, every other lag is between 0 and the end; and sums are never negative."""
    for total in reported:
        lag = task_lag(total, end)
        if total in (LATEST_OFFSET, UNKNOWN_OFFSET_SUM):
            assert lag == total
        else:
            assert 0 <= lag <= end
        assert is_caught_up(lag, 0) == (lag in (LATEST_OFFSET, 0))
    assert offset_sum(None if each < 0 else each for each in reported) >= 0
