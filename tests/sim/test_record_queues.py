"""The records that a task has buffered: order, time, limits, and idling."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.choices import Choices
from streamproof.sim.decisions.idling import Mode
from streamproof.sim.tasks.record_queues import NO_TIME, PartitionGroup


def records(*timestamps: int) -> list[LogEntry]:
    """Records with these timestamps, at the offsets from 0 on."""
    return [LogEntry(offset, timestamp, b"k", b"v") for offset, timestamp in enumerate(timestamps)]


def group(
    *partitions: str, idle: int = 0, limit: int = 1000, mode: Mode = "proposal"
) -> PartitionGroup:
    """Empty queues."""
    return PartitionGroup(
        partitions or ("a", "b"),
        Choices.recorded([]),
        max_task_idle_ms=idle,
        limit=limit,
        mode=mode,
    )


def drained(queues: PartitionGroup) -> list[tuple[str, int]]:
    """All records, as they are processed: partition and timestamp."""
    found = []
    while (taken := queues.next_record()) is not None:
        found.append((taken[0], taken[1].timestamp))
    return found


def test_the_heads_decide() -> None:
    """By head timestamp, not by the largest one seen (KAFKA-3514, KAFKA-8347)."""
    queues = group()
    queues.add("a", records(1, 5, 3))
    queues.add("b", records(2, 4, 6))
    assert drained(queues) == [("a", 1), ("b", 2), ("b", 4), ("a", 5), ("a", 3), ("b", 6)]


def test_stream_time_never_goes_back() -> None:
    """It is the largest that was processed, not the largest that is buffered."""
    queues = group("a")
    queues.add("a", records(1, 5, 3, 9))
    times = []
    while queues.next_record():
        times.append(queues.stream_time)
    assert times == [1, 5, 5, 9]
    assert queues.partition_times == {"a": 9}


def test_a_tie_is_a_choice() -> None:
    """Either partition may come first, and the order within each is kept."""
    firsts = set()
    for seed in range(20):
        queues = PartitionGroup(["a", "b"], Choices.seeded(seed), max_task_idle_ms=0)
        for name in ("a", "b"):
            queues.add(name, records(7, 7))
        order = drained(queues)
        assert sorted(order) == [("a", 7), ("a", 7), ("b", 7), ("b", 7)]
        firsts.add(order[0][0])
    assert firsts == {"a", "b"}


def test_a_full_queue_is_paused_and_resumed() -> None:
    """Above the limit; resumed at the limit."""
    queues = group("a", limit=2)
    assert not queues.add("a", records(1, 2))
    assert queues.add("a", records(3))
    assert not queues.has_space("a")
    queues.next_record()
    assert queues.has_space("a")


def test_it_waits_for_what_the_broker_has() -> None:
    """The lags are those of the last poll; what is not known any more is forgotten."""
    queues = group()
    queues.add("a", records(1))
    assert queues.readiness(0).waiting == {"b": "lag unknown"}
    queues.update_lags({"a": 0, "b": 3}.get)
    assert queues.readiness(0).waiting == {"b": "data on the broker"}
    queues.update_lags({"a": 0, "b": 0}.get)
    assert queues.readiness(0).ready
    queues.update_lags({"a": 0, "b": None}.get)
    assert not queues.readiness(0).ready


def test_it_idles_once_and_begins_anew_with_data() -> None:
    """The time that it waited does not count for the next time."""
    queues = group(idle=100)
    queues.add("a", records(1, 2, 3))
    queues.update_lags({"b": 0}.get)
    assert [queues.readiness(now).ready for now in (0, 99, 100, 150)] == [False, False, True, True]
    queues.add("b", records(9))
    assert queues.readiness(160).ready
    assert drained(queues)[-1] == ("b", 9)
    queues.add("a", records(10))
    assert not queues.readiness(170).ready


@pytest.mark.parametrize("mode", ["proposal", "kafka"])
def test_suspending_forgets(mode: Mode) -> None:
    """Records, lags and times; Kafka keeps the deadlines."""
    queues = group(idle=100, mode=mode)
    queues.add("a", records(5))
    queues.update_lags({"b": 0}.get)
    queues.readiness(0)
    queues.clear()
    assert (queues.buffered("a"), queues.stream_time) == (0, NO_TIME)
    assert queues.head_offset("a") is None
    queues.add("a", records(6))
    queues.update_lags({"b": 0}.get)
    assert queues.readiness(120).ready is (mode == "kafka")


def test_times_survive_a_restart() -> None:
    """They are committed with the offsets, so that late stays late."""
    queues = group()
    queues.set_times({"a": 50, "b": 20})
    assert queues.stream_time == 50
    queues.add("b", records(30))
    queues.next_record()
    assert (queues.stream_time, queues.partition_times) == (50, {"a": 50, "b": 30})


@given(
    st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=1, max_size=3), st.integers(0, 99)
)
def test_sorted_inputs_come_out_sorted(inputs: list[list[int]], seed: int) -> None:
    """Whatever the ties; and nothing is lost."""
    names = [f"in-{number}" for number in range(len(inputs))]
    queues = PartitionGroup(names, Choices.seeded(seed), max_task_idle_ms=0)
    for name, timestamps in zip(names, inputs, strict=True):
        queues.add(name, records(*sorted(timestamps)))
    found = drained(queues)
    expected = sorted(chain.from_iterable(inputs))
    assert [timestamp for _, timestamp in found] == expected
    assert queues.stream_time == max(expected, default=NO_TIME)
