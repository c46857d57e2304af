"""Which client gets which tasks: examples.

What holds of every assignment is in ``streamproof.conformance.runtime_checks.assignment_checks``.
"""

from __future__ import annotations

from streamproof.sim.decisions.assignment import ClientState, assign
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


def test_an_unknown_sum_is_not_the_sum_of_a_running_task() -> None:
    """Work does not move to a client that cannot tell how far it is (KAFKA-10319)."""
    clients = {
        "a": ClientState(1, {TASKS[0]: UNKNOWN_OFFSET_SUM}),
        "b": ClientState(1, {TASKS[0]: 0}),
    }
    assert assign(clients, TASKS[:1], []).clients["b"].active == {TASKS[0]}


def test_an_unknown_lag_ranks_first_among_those_that_are_not_caught_up() -> None:
    """Kafka compares lags as numbers, and the sentinel for an unknown one is -3."""
    clients = {
        "a": ClientState(1, {TASKS[0]: 50_000}),
        "b": ClientState(1, {TASKS[0]: UNKNOWN_OFFSET_SUM}),
    }
    assert assign(clients, TASKS[:1], []).clients["b"].active == {TASKS[0]}
