"""The queues of a task: when the task takes a record, which one, and the stream time after it."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from streamproof.conformance.runtime_checks.probe import Probe, decision
from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.choices import Choices
from streamproof.sim.decisions.idling import DISABLED, Mode
from streamproof.sim.tasks.record_queues import NO_TIME, PartitionGroup

__all__: list[str] = []

ADDED = st.lists(
    st.tuples(st.sampled_from(["in-0", "in-1"]), st.integers(0, 9), st.booleans()),
    min_size=1,
    max_size=20,
)
"""Arriving records by partition and timestamp, and whether the task takes one afterwards."""

Added = list[tuple[str, int, bool]]

ARRIVES = "record"
"""Instead of a lag: a record comes, and is taken."""

NEWS = st.sampled_from([0, ARRIVES, 0, None, 0, -2, ARRIVES, 5])
STEPS = st.lists(st.tuples(st.sampled_from([60, 0, 1, 99, 100]), NEWS), min_size=4, max_size=12)
"""News of an empty input, each some milliseconds after the one before: mostly its lag."""

Steps = list[tuple[int, int | str | None]]
MODES = st.sampled_from(["proposal", "kafka"])
LAGS = st.none() | st.integers(-1, 5)


def _group(probe: Probe, inputs: int = 2, *, idle_ms: int = -1, **more: Any) -> PartitionGroup:
    return PartitionGroup(
        [f"in-{number}" for number in range(inputs)],
        Choices.seeded(0),
        max_task_idle_ms=idle_ms,
        defect=probe.defect,
        **more,
    )


class _Awaited:
    """An empty input beside one with a record, and whether a task must wait for it.

    Args:
        idle_ms: ``max.task.idle.ms``.
    """

    def __init__(self, idle_ms: int) -> None:
        self._idle_ms = idle_ms
        self._lag: int | None = None
        self._since: int | None = None
        self._times = 0

    def is_told(self, lag: int | None) -> None:
        """The lag becomes known, or unknown."""
        self._lag = lag

    def has_record(self) -> None:
        """A record of the input was buffered."""
        self._since = None

    def expected(self, now: int) -> tuple[str, bool]:
        """The requirement that rules at a time, and whether the task may go on."""
        lacks = self._lag is None or self._lag > 0
        if lacks:
            self._since = None
        elif self._since is None:
            self._since = now
            self._times += 1
        if self._idle_ms == DISABLED:
            return "IDLE-003", True
        if lacks or self._since is None:
            return "IDLE-002", False
        if not self._idle_ms:
            return "IDLE-004", True
        return ("IDLE-005" if self._times == 1 else "IDLE-006"), now - self._since >= self._idle_ms


@decision(
    "IDLE-002",
    "IDLE-003",
    "IDLE-004",
    "IDLE-005",
    "IDLE-006",
    steps=STEPS,
    idle_ms=st.sampled_from([100, -1, 0, 1, 100]),
    mode=MODES,
)
def waits_for_an_empty_input(probe: Probe, steps: Steps, idle_ms: int, mode: Mode) -> None:
    """Tell a task with a buffered record of another input's lags and records, as time passes."""
    group, awaited = _group(probe, idle_ms=idle_ms, mode=mode), _Awaited(idle_ms)
    group.add("in-0", [LogEntry(0, 9, b"k", b"v")])
    now = 0
    for waited, news in steps:
        now += waited
        if news == ARRIVES:
            group.add("in-1", [LogEntry(0, 0, b"k", b"v")])
            group.readiness(now)
            group.next_record()
            awaited.has_record()
        else:
            lag = None if news is None else int(news)
            group.update_lags({"in-0": 0, "in-1": lag}.__getitem__)
            awaited.is_told(lag)
        requirement, may_go_on = awaited.expected(now)
        probe.about(requirement)
        probe.expect((now, may_go_on), (now, group.readiness(now).ready))


@decision("IDLE-007", idle_ms=st.integers(1, 60_000), inputs=st.integers(3, 6))
def idles_side_by_side(probe: Probe, idle_ms: int, inputs: int) -> None:
    """Tell a task with a buffered record that all its other inputs have caught up."""
    group = _group(probe, inputs, idle_ms=idle_ms)
    group.add("in-0", [LogEntry(0, 0, b"k", b"v")])
    group.update_lags(lambda _: 0)
    found = [group.readiness(now).ready for now in (0, idle_ms - 1, idle_ms)]
    probe.expect([False, False, True], found)


@decision("IDLE-008", lags=st.tuples(LAGS, LAGS), idle_ms=st.sampled_from([-1, 0, 100]))
def nothing_to_process(probe: Probe, lags: tuple[int | None, int | None], idle_ms: int) -> None:
    """Ask a task that has no buffered record, at once and after every idle time."""
    group = _group(probe, idle_ms=idle_ms)
    group.update_lags(dict(zip(group.partitions, lags, strict=True)).__getitem__)
    probe.expect([False, False], [group.readiness(now).ready for now in (0, 10**6)])


@decision("IDLE-013", lag=LAGS, full=st.booleans())
def asks_for_no_lag(probe: Probe, lag: int | None, full: bool) -> None:
    """Let a task update its lags with max.task.idle.ms = -1, and count what it asks."""
    asked: list[str] = []

    def current_lag(partition: str) -> int | None:
        asked.append(partition)
        return lag

    group = _group(probe, idle_ms=-1)
    if full:
        group.add("in-0", [LogEntry(0, 0, b"k", b"v")])
    group.update_lags(current_lag)
    probe.expect([], asked)


@decision("IDLE-001", "IDLE-010", added=ADDED)
def taken_in_order(probe: Probe, added: Added) -> None:
    """Buffer random records, and take some records in between."""
    group = _group(probe)
    heads: dict[str, list[int]] = {"in-0": [], "in-1": []}
    latest = NO_TIME
    for offset, (partition, time, take) in enumerate(added):
        group.add(partition, [LogEntry(offset, time, b"k", b"v")])
        heads[partition].append(time)
        if not take:
            continue
        taken = group.next_record()
        least = min(times[0] for times in heads.values() if times)
        probe.about("IDLE-001")
        probe.expect(least, None if taken is None else taken[1].timestamp)
        if taken is not None:
            latest = max(latest, heads[taken[0]].pop(0))
        probe.about("IDLE-010")
        probe.expect(latest, group.stream_time)


@decision("IDLE-011", count=st.integers(0, 6), limit=st.integers(1, 4))
def paused_when_full(probe: Probe, count: int, limit: int) -> None:
    """Buffer records up to and beyond the limit, and take them one by one."""
    group = _group(probe, limit=limit)
    records = [LogEntry(offset, offset, b"k", b"v") for offset in range(count)]
    probe.expect(count > limit, group.add("in-0", records))
    for left in reversed(range(count)):
        group.next_record()
        probe.expect(left <= limit, group.has_space("in-0"))
