"""Punctuations: when they are due, by which clock, and what they bring about in a task."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from streamproof.errors import UsageError
from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.choices import Choices
from streamproof.sim.clients.producer import Producer
from streamproof.sim.tasks.punctuations import Punctuations
from streamproof.sim.tasks.stream_task import StreamTask, TaskState
from streamproof.sim.tasks.task_config import TaskConfig
from streamproof.sim.topology import ProcessorContext, PunctuationType, Subtopology, Topology
from streamproof.sim.trace import Event, Trace


def called(punctuations: Punctuations, kind: PunctuationType, now: int) -> int:
    """How many punctuators are due."""
    return len(list(punctuations.due(kind, now)))


def test_once_after_a_gap() -> None:
    """Intervals that have passed are not made up for (Kafka: shouldPunctuateOnce...AfterGap)."""
    punctuations = Punctuations()
    punctuations.schedule(20, "stream time", lambda _: None)
    found = [called(punctuations, "stream time", now) for now in (0, 19, 20, 39, 142, 155, 160)]
    assert found == [1, 0, 1, 0, 1, 0, 1]
    assert called(punctuations, "wall-clock time", 1_000) == 0


def test_by_the_clock_it_begins_an_interval_later() -> None:
    """Counted from the first look at the clock."""
    punctuations = Punctuations()
    punctuations.schedule(10, "wall-clock time", lambda _: None)
    found = [called(punctuations, "wall-clock time", now) for now in (1_003, 1_012, 1_013, 1_050)]
    assert found == [0, 0, 1, 1]
    punctuations.clear()
    assert called(punctuations, "wall-clock time", 2_000) == 0


def test_what_has_waited_longest_comes_first() -> None:
    """Of several that are due."""
    order: list[str] = []
    punctuations = Punctuations()
    punctuations.schedule(30, "stream time", lambda _: order.append("slow"))
    punctuations.schedule(20, "stream time", lambda _: order.append("quick"))
    for now in (0, 50):
        for each, _ in punctuations.due("stream time", now):
            each(now)
    assert order == ["slow", "quick", "quick", "slow"]


def test_an_interval_has_a_length() -> None:
    """At least a millisecond."""
    with pytest.raises(UsageError, match="every 0 ms is not possible"):
        Punctuations().schedule(0, "stream time", lambda _: None)


class Sender:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes, int]] = []

    def send(self, partition: str, key: bytes, _: bytes | None, timestamp: int) -> None:
        """Keep it."""
        self.sent.append((partition, key, timestamp))


def opened(sender: Sender, events: list[Event]) -> StreamTask:
    """A task that sends something at each punctuation, and asks for a commit by stream time."""

    def init(context: ProcessorContext) -> None:
        def by_stream_time(_: int) -> None:
            context.forward("out", b"stream", b"")
            context.request_commit()

        context.schedule(10, "stream time", by_stream_time)
        context.schedule(10, "wall-clock time", lambda _: context.forward("out", b"wall", b""))

    part = Subtopology(("in",), lambda *_: None, sinks=("out",), init=init)
    topology = Topology("app", (part,), {"in": 1, "out": 1})
    task = StreamTask(
        "0_0",
        topology.tasks["0_0"],
        TaskConfig(
            exactly_once=True,
            transactional=False,
            max_task_idle_ms=0,
            mode="proposal",
            partitions=topology.topics,
        ),
        choices=Choices.recorded([]),
        trace=Trace(lambda: 0, [events.append]),
        actor="test",
    )
    task.open(
        Path("0_0"), lambda _: pytest.fail("no store"), cast(Producer, sender), was_empty=True
    )
    return task


def test_a_task_punctuates_while_it_runs() -> None:
    """Not before its first record by stream time; what it sends has the time of the clock."""
    events: list[Event] = []
    sender = Sender()
    task = opened(sender, events)
    assert not task.punctuate_wall_clock(100)
    task.become(TaskState.RUNNING)
    assert not task.punctuate_stream_time()
    assert not task.punctuate_wall_clock(100)
    assert not task.commit_needed
    task.queues.add("in-0", [LogEntry(0, 25, b"k", b"v")])
    assert task.process(0)
    task.committed()
    assert task.punctuate_stream_time()
    assert not task.punctuate_stream_time()
    assert (task.commit_needed, task.commit_requested) == (True, True)
    task.committed()
    assert not task.commit_requested
    assert task.punctuate_wall_clock(115)
    assert (task.commit_needed, task.commit_requested) == (True, False)
    assert sender.sent == [("out-0", b"stream", 25), ("out-0", b"wall", 115)]
    assert [
        (each.attributes["clock"], each.attributes["timestamp"])
        for each in events
        if each.kind == "task.punctuated"
    ] == [("stream time", 25), ("wall-clock time", 115)]


def test_a_suspended_task_forgets_its_schedule() -> None:
    """When it runs again, it begins anew."""
    task = opened(Sender(), [])
    task.become(TaskState.RUNNING)
    task.punctuate_wall_clock(0)
    task.suspend()
    assert not task.punctuate_wall_clock(50)
    task.become(TaskState.RESTORING)
    task.become(TaskState.RUNNING)
    assert not task.punctuate_wall_clock(50)
    assert task.punctuate_wall_clock(60)
