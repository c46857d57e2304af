"""The queues of a task: which record the task takes, and the stream time after it."""

from __future__ import annotations

from hypothesis import strategies as st

from streamproof.conformance.runtime_checks.probe import Probe, decision
from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.choices import Choices
from streamproof.sim.tasks.record_queues import NO_TIME, PartitionGroup

__all__: list[str] = []

ADDED = st.lists(
    st.tuples(st.sampled_from(["in-0", "in-1"]), st.integers(0, 9), st.booleans()),
    min_size=1,
    max_size=20,
)
"""Arriving records by partition and timestamp, and whether the task takes one afterwards."""

Added = list[tuple[str, int, bool]]


def _group(probe: Probe, limit: int = 1_000) -> PartitionGroup:
    return PartitionGroup(
        ["in-0", "in-1"], Choices.seeded(0), max_task_idle_ms=-1, limit=limit, defect=probe.defect
    )


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
    group = _group(probe, limit)
    records = [LogEntry(offset, offset, b"k", b"v") for offset in range(count)]
    probe.expect(count > limit, group.add("in-0", records))
    for left in reversed(range(count)):
        group.next_record()
        probe.expect(left <= limit, group.has_space("in-0"))
