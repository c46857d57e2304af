"""When a task may process (KIP-695): examples, and what Kafka does by its own algorithm.

What holds of every decision is in ``streamproof.conformance.runtime_checks.idling_checks``.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproof.conformance.runtime_checks.idling_checks import INPUTS
from streamproof.sim.decisions.idling import Input, Mode, ready_to_process

MODES: tuple[Mode, ...] = ("proposal", "kafka")


def full(name: str = "full") -> Input:
    """A partition with a record in the buffer."""
    return Input(name, 1, 0)


def empty(lag: int | None, name: str = "empty") -> Input:
    """A partition with none."""
    return Input(name, 0, lag)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("idle", [0, 100])
def test_waits_until_the_lag_is_known_and_the_data_is_there(mode: Mode, idle: int) -> None:
    """However long that takes, and the idle time has not begun yet."""
    for lag, why in ((None, "lag unknown"), (3, "data on the broker")):
        found = ready_to_process(
            [full(), empty(lag)], {"empty": 5}, now=10**9, max_task_idle_ms=idle, mode=mode
        )
        assert not found.ready
        assert found.waiting == {"empty": why}
        assert found.deadlines == {}


@pytest.mark.parametrize("mode", MODES)
def test_idles_once_it_is_caught_up(mode: Mode) -> None:
    """From the first decision at which the lag is 0, for as long as it was told."""
    inputs = [full(), empty(0)]
    found = ready_to_process(inputs, {}, now=1000, max_task_idle_ms=100, mode=mode)
    assert (found.ready, found.waiting) == (False, {"empty": "idling"})
    assert found.deadlines == {"empty": 1100}
    found = ready_to_process(inputs, found.deadlines, now=1099, max_task_idle_ms=100, mode=mode)
    assert not found.ready
    found = ready_to_process(inputs, found.deadlines, now=1100, max_task_idle_ms=100, mode=mode)
    assert (found.ready, found.enforced) == (True, ("empty",))


@pytest.mark.parametrize("mode", MODES)
def test_with_zero_it_does_not_idle(mode: Mode) -> None:
    """Caught up is enough."""
    found = ready_to_process([full(), empty(0)], {}, now=7, max_task_idle_ms=0, mode=mode)
    assert (found.ready, found.enforced) == (True, ("empty",))


@pytest.mark.parametrize("mode", MODES)
def test_with_minus_one_it_never_waits(mode: Mode) -> None:
    """It takes what it has, whatever is known of the rest."""
    for lag in (None, 0, 9):
        inputs = [full(), empty(lag)]
        assert ready_to_process(inputs, {}, now=0, max_task_idle_ms=-1, mode=mode).ready
    nothing = ready_to_process([empty(0)], {}, now=0, max_task_idle_ms=-1, mode=mode)
    assert nothing.ready is (mode == "kafka")


def test_idle_times_add_up_in_kafka_alone() -> None:
    """With two empty partitions that are caught up, Kafka waits for one after the other."""
    inputs = [full(), empty(0, "a"), empty(0, "b")]
    ready_at: dict[Mode, int] = {}
    for mode in MODES:
        deadlines: dict[str, int] = {}
        for now in range(0, 400, 10):
            found = ready_to_process(inputs, deadlines, now=now, max_task_idle_ms=100, mode=mode)
            deadlines = found.deadlines
            if found.ready:
                ready_at[mode] = now
                break
    assert ready_at == {"proposal": 100, "kafka": 200}


def test_a_lag_that_a_seek_left_below_zero() -> None:
    """It is as good as 0; but Kafka takes -1 for a lag that is not known."""
    for mode, lag, ready in (
        ("proposal", -1, True),
        ("kafka", -1, False),
        ("proposal", -2, True),
        ("kafka", -2, True),
    ):
        inputs = [full(), empty(lag)]
        found = ready_to_process(inputs, {}, now=0, max_task_idle_ms=0, mode=mode)  # type: ignore[arg-type]
        assert found.ready is ready


def kafka(
    inputs: list[Input], deadlines: dict[str, int], now: int, idle: int
) -> tuple[bool, dict[str, int]]:
    """PartitionGroup#readyToProcess, step by step, as the facts about it say."""
    deadlines = dict(deadlines)
    lags = {each.partition: each.lag for each in inputs if each.lag is not None}
    enforced, queued = {}, []
    for each in inputs:
        name = each.partition
        if each.buffered > 0:
            deadlines.pop(name, None)
            queued.append(name)
            continue
        lag = lags.get(name, -1)
        if lag == -1:
            deadlines.pop(name, None)
            return False, deadlines
        if lag > 0:
            deadlines.pop(name, None)
            return False, deadlines
        if name not in deadlines:
            deadlines[name] = now + idle
        if now < deadlines[name]:
            return False, deadlines
        enforced[name] = deadlines[name]
    if not enforced:
        return True, deadlines
    return bool(queued), deadlines


@given(INPUTS, st.dictionaries(st.sampled_from(["in-0", "in-1", "in-2"]), st.integers(0, 9)))
def test_kafka_mode_is_what_kafka_does(inputs: list[Input], deadlines: dict[str, int]) -> None:
    """Against the algorithm written down in another way."""
    for now, idle in ((5, 0), (5, 3), (20, 3)):
        found = ready_to_process(inputs, deadlines, now=now, max_task_idle_ms=idle, mode="kafka")
        assert (found.ready, found.deadlines) == kafka(inputs, deadlines, now, idle)


@given(INPUTS, st.permutations(range(4)))
def test_the_order_does_not_matter_to_the_proposal(inputs: list[Input], order: list[int]) -> None:
    """Any order of the partitions gives the same decision."""
    other = [inputs[i] for i in order if i < len(inputs)]
    for now in (0, 50, 100):
        one = ready_to_process(inputs, {"in-1": 60}, now=now, max_task_idle_ms=30)
        two = ready_to_process(other, {"in-1": 60}, now=now, max_task_idle_ms=30)
        assert one._replace(enforced=()) == two._replace(enforced=())
        assert sorted(one.enforced) == sorted(two.enforced)


@given(INPUTS)
def test_a_ready_task_stays_ready(inputs: list[Input]) -> None:
    """As long as nothing arrives and nothing is learnt, time alone never makes it wait again."""
    deadlines: dict[str, int] = {}
    was_ready = False
    for now in range(0, 50, 10):
        found = ready_to_process(inputs, deadlines, now=now, max_task_idle_ms=20)
        assert found.ready >= was_ready
        was_ready, deadlines = found.ready, found.deadlines
