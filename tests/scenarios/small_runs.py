"""A run that fits on a page, told event by event, with a mistake and without it.

One task counts. It processes two records and commits, processes a third one, and its process is
killed; the next process finds the store. With the mistake, the third write was part of the commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamproof.scenarios.recorded_run import RecordedRun
from streamproof.scenarios.state.fold import take_in
from streamproof.sim.application import StreamsConfig
from streamproof.sim.invariants import InvariantViolation
from streamproof.sim.run_state import Moment
from streamproof.sim.trace import Event, Trace
from streamproof.sim.world_plan import Plan

THREAD = "instance-0/thread-0"
CHANGELOG = "count-counts-changelog-0"

Rows = list[list[bytes]]


class SmallRun:
    """Tells the events of the run."""

    def __init__(self, *, is_broken: bool) -> None:
        self.is_broken = is_broken
        self.now = 0
        self.events: list[Event] = []
        self.emit = Trace(lambda: self.now, [self.events.append]).emit

    def played(self) -> RecordedRun:
        """The whole run."""
        for part in (self.begins, self.commits, self.is_killed, self.comes_back):
            part()
        violations = []
        if self.is_broken:
            found = next(each for each in reversed(self.events) if each.kind == "store.found")
            violations = [
                InvariantViolation("what is kept is committed", "TASK-003", "key-0 is 3", found)
            ]
        return RecordedRun(
            "small run",
            Plan(partitions=1, instances=1, config=StreamsConfig(transactional=True)),
            ("commits-too-much",) if self.is_broken else (),
            self.events,
            violations,
            "b" * 32 if self.is_broken else "f" * 32,
        )

    def begins(self) -> None:
        """Three records come in, and the task begins to run."""
        self.emit(
            "application.started",
            "count",
            tasks=["0_0"],
            exactly_once=True,
            transactional=True,
            changelogs={"0_0": [CHANGELOG]},
        )
        self.starts()
        for offset in range(3):
            self.appended("in-0", offset, b"record", producer=-1)
        self.now = 100
        self.opens([], -1)

    def starts(self) -> None:
        """A process starts, and its thread has a producer."""
        self.emit("instance.started", "instance-0", release="4.3", manages_offsets=True)
        self.emit("thread.producer", THREAD, producer=7)

    def opens(self, rows: Rows, offset: int) -> None:
        """The task is assigned, and opened, and has nothing to restore."""
        self.emit("thread.assigned", THREAD, generation=1, active=["0_0"], standby=[])
        self.store("store.opened", offset, store="counts", wipe=False, persistent=True)
        self.task("task.state", before="CREATED", after="RESTORING")
        self.store("store.found", offset, rows=rows, is_input=False, position={})

    def runs(self, rows: Rows, offset: int) -> None:
        """The task begins to run."""
        self.task("task.state", before="RESTORING", after="RUNNING")
        self.store("store.running", offset, rows=rows, is_input=False, position={})

    def commits(self) -> None:
        """Two records are processed and committed."""
        self.now = 200
        self.runs([], -1)
        self.task("task.waiting", waiting={"in-0": "idling"})
        for offset in range(2):
            self.processes(offset)
        if self.is_broken:
            self.store("store.put", key=b"key-0", value=b"3")
        self.now = 1_000
        self.emit("offsets.added", "brokers", group="count", producer=7, offsets={"in-0": 2})
        self.decided(commit=True)
        self.emit("offsets.committed", "brokers", group="count", offsets={"in-0": 2})
        self.emit("thread.committed", THREAD, tasks=["0_0"], offsets={"in-0": 2})
        self.store("store.committed", 1)
        self.store("store.flushed")

    def is_killed(self) -> None:
        """A third record is processed, and the process is killed."""
        self.now = 1_500
        self.processes(2)
        self.now = 1_800
        self.emit("instance.crashed", "instance-0")
        self.emit("transaction.timed_out", "brokers", transactional_id="count-instance-0-0")
        self.marker(4, commit=False)

    def comes_back(self) -> None:
        """The next process opens the store."""
        self.now = 4_000
        self.starts()
        rows = [[b"key-0", b"3" if self.is_broken else b"2"]]
        self.opens(rows, 1)
        if not self.is_broken:
            self.runs(rows, 1)

    def processes(self, offset: int) -> None:
        """A record is counted, and the count is logged."""
        others: dict[str, Any] = {}
        self.task(
            "task.processed", "in-0", offset, timestamp=10 * offset, others=others, clock=self.now
        )
        count = str(offset + 1).encode()
        self.store("store.put", key=b"key-0", value=count)
        self.appended(CHANGELOG, offset if offset < 2 else 3, count, producer=7)

    def decided(self, *, commit: bool) -> None:
        """The transaction ends, and its marker is written."""
        self.emit(
            "transaction.decided",
            "brokers",
            transactional_id="count-instance-0-0",
            producer=7,
            commit=commit,
        )
        self.marker(2, commit=commit)

    def marker(self, offset: int, *, commit: bool) -> None:
        """A marker is written to the changelog."""
        self.emit(
            "transaction.marker",
            "brokers",
            partition=CHANGELOG,
            offset=offset,
            producer=7,
            transactional_id="count-instance-0-0",
            commit=commit,
            complete=True,
        )

    def appended(self, partition: str, offset: int, value: bytes, *, producer: int) -> None:
        """A record is appended."""
        self.emit(
            "log.appended",
            "brokers",
            partition=partition,
            offset=offset,
            key=b"key-0",
            value=value,
            timestamp=10 * offset,
            producer=producer,
            transactional=producer >= 0,
        )

    def task(self, kind: str, partition: str = "", offset: int = -1, **more: Any) -> None:
        """An event of the task."""
        self.emit(kind, THREAD, task="0_0", partition=partition, offset=offset, **more)

    def store(self, kind: str, offset: int = -1, **more: Any) -> None:
        """An event of the store."""
        self.emit(kind, THREAD, task="0_0", partition=CHANGELOG, offset=offset, **more)


def small_run(*, is_broken: bool = False) -> RecordedRun:
    """The run, with the mistake or without it."""
    return SmallRun(is_broken=is_broken).played()


def folded(events: Sequence[Event]) -> Moment:
    """The moment after some events."""
    moment = Moment()
    for event in events:
        take_in(moment, event)
    return moment


def told(*more: tuple[str, str, dict[str, Any]]) -> Moment:
    """The small run up to the third write, and what happens then: kind, actor and the rest."""
    small = SmallRun(is_broken=False)
    small.begins()
    small.commits()
    small.processes(2)
    for kind, actor, attributes in more:
        small.emit(kind, actor, **attributes)
    return folded(small.events)
