"""Which client gets which tasks: examples.

What holds of every assignment is in ``streamproof.conformance.runtime_checks.assignment_checks``.
"""

from __future__ import annotations

from streamproof.sim.decisions.assignment import ClientState, ClientTasks, assign
from streamproof.sim.decisions.lag import LATEST_OFFSET, UNKNOWN_OFFSET_SUM

TASKS = [f"0_{number}" for number in range(6)]


def test_without_state_tasks_are_spread_by_threads() -> None:
    """Three tasks a thread."""
    found = assign({"a": ClientState(1, {}), "b": ClientState(1, {})}, TASKS, [])
    assert [len(found.clients[name].active) for name in "ab"] == [3, 3]
    found = assign({"a": ClientState(1, {}), "b": ClientState(2, {})}, TASKS, [])
    assert [len(found.clients[name].active) for name in "ab"] == [2, 4]
    assert not found.probing


def test_a_new_client_warms_up_first() -> None:
    """All work stays with the one that has the state, and two copies at a time are made."""
    running = ClientState(1, dict.fromkeys(TASKS, LATEST_OFFSET))
    found = assign({"new": ClientState(1, {}), "old": running}, TASKS, [])
    assert found.clients["old"].active == set(TASKS)
    assert len(found.clients["new"].warmup) == 2
    assert found.probing


def test_a_client_that_has_warmed_up_gets_the_task() -> None:
    """It is caught up, if not to the last record."""
    running = ClientState(1, dict.fromkeys(TASKS[:2], LATEST_OFFSET))
    found = assign({"a": ClientState(1, {TASKS[0]: 10_000}), "b": running}, TASKS[:2], [])
    assert found.clients["a"].active == {TASKS[0]}
    assert found.clients["b"].active == {TASKS[1]}
    assert not found.probing


def test_a_standby_takes_over_without_a_copy() -> None:
    """The client that should have the task becomes the standby meanwhile."""
    clients = {
        "a": ClientState(1, {}),
        "b": ClientState(1, {TASKS[0]: 0}),
    }
    found = assign(clients, TASKS[:1], [], num_standby_replicas=1)
    assert found.clients["b"].active == {TASKS[0]}
    assert found.clients["a"].standby == {TASKS[0]}
    assert found.clients["a"].warmup == set()


def test_nobody_is_caught_up() -> None:
    """The one that lacks least keeps the task (KAFKA-13600)."""
    clients = {"a": ClientState(1, {TASKS[0]: 90_000}), "b": ClientState(1, {TASKS[0]: 50_000})}
    found = assign(clients, TASKS[:1], [])
    assert found.clients["b"].active == {TASKS[0]}
    assert found.clients["a"].warmup == {TASKS[0]}


def test_an_unknown_lag_keeps_a_task() -> None:
    """Kafka compares lags as numbers: no lag is less than that of an unknown one, -3."""
    clients = {
        "a": ClientState(1, {TASKS[0]: UNKNOWN_OFFSET_SUM}),
        "b": ClientState(1, {TASKS[0]: 0}),
    }
    found = assign(clients, TASKS[:1], [])
    assert found.clients["a"].active == {TASKS[0]}
    assert not found.probing


def test_an_unknown_lag_does_not_count_as_caught_up() -> None:
    """Work moves to the client that has the state (KAFKA-10319)."""
    clients = {
        "a": ClientState(1, {TASKS[0]: 100_000}),
        "b": ClientState(1, {TASKS[0]: 0}),
        "c": ClientState(1, {TASKS[0]: UNKNOWN_OFFSET_SUM}),
    }
    assert assign(clients, TASKS[:1], []).clients["b"].active == {TASKS[0]}


def test_an_unknown_lag_ranks_first_among_those_that_are_not_caught_up() -> None:
    """Kafka compares lags as numbers, and the sentinel for an unknown one is -3."""
    clients = {
        "a": ClientState(1, {TASKS[0]: 50_000}),
        "b": ClientState(1, {TASKS[0]: UNKNOWN_OFFSET_SUM}),
    }
    assert assign(clients, TASKS[:1], []).clients["b"].active == {TASKS[0]}


def test_tasks_are_counted_off_by_their_numbers() -> None:
    """Task 0_2 comes before task 0_10."""
    lags = dict.fromkeys(["0_0", "0_2", "0_10"], 0)
    found = assign({"a": ClientState(1, lags), "b": ClientState(1, lags)}, lags, [])
    assert found.clients["a"].active == {"0_0", "0_10"}
    assert found.clients["b"].active == {"0_2"}


def test_a_copy_stays_where_the_state_is_without_a_warm_up() -> None:
    """The only warm-up is used for the active task; the standby moves without one."""
    full = ClientState(1, dict.fromkeys(TASKS[:2], 0))
    empty = ClientState(1, dict.fromkeys(TASKS[:2], 100_000))
    found = assign(
        {"a": empty, "b": full, "c": full},
        TASKS[:2],
        [],
        num_standby_replicas=1,
        max_warmup_replicas=1,
    )
    roles = [(each.active, each.standby, each.warmup) for each in found.clients.values()]
    assert roles == [
        (set(), set(), {"0_0"}),
        ({"0_1"}, {"0_0"}, set()),
        ({"0_0"}, {"0_1"}, set()),
    ]


def test_a_standby_goes_to_the_idlest_client() -> None:
    """All tasks count for the balance, not only the copies."""
    lags = dict.fromkeys(TASKS[:2], 0)
    clients = {"a": ClientState(2, lags), "b": ClientState(1, lags)}
    found = assign(clients, lags, ["1_0", "1_1"], num_standby_replicas=1)
    assert found.clients["a"] == ClientTasks({"0_0", "1_0", "1_1"}, {"0_1"})
    assert found.clients["b"] == ClientTasks({"0_1"}, {"0_0"})
