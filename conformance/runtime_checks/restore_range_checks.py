"""The range of a restoration: its end and its records, over random logs."""

from __future__ import annotations

from hypothesis import strategies as st

from streamproof.conformance.runtime_checks.probe import Probe, decision
from streamproof.sim.decisions import restore_range

__all__: list[str] = []

ENDS = st.integers(0, 60)
LOGS = st.lists(st.integers(0, 60), unique=True, max_size=20).map(sorted)
COMMITTED = st.none() | st.integers(0, 80)


@decision("TASK-020", end=ENDS, committed=COMMITTED)
def ends_with_the_log(probe: Probe, end: int, committed: int | None) -> None:
    """Compute the end of a restoration from a changelog."""
    probe.expect(end, probe.call(restore_range.end_of, end, committed))


@decision("TASK-021", end=ENDS, committed=COMMITTED)
def inputs_end_where_committed(probe: Probe, end: int, committed: int | None) -> None:
    """Compute the end of a restoration from an input topic."""
    found = probe.call(restore_range.end_of, end, committed, is_source=True)
    probe.expect(0 if committed is None else min(end, committed), found)


@decision("TASK-022", log=LOGS, end=ENDS, steps=st.lists(st.integers(1, 5), max_size=20))
def complete_when_all_is_applied(probe: Probe, log: list[int], end: int, steps: list[int]) -> None:
    """Restore a log with gaps, in batches of random sizes, until the restoration is complete."""
    applied: list[int] = []
    buffered: list[int] = []
    rest, position = list(log), 0
    sizes = iter(steps)
    # Each round fetches records, or applies all remaining ones.
    for _ in range(len(log) + 2):
        if probe.call(restore_range.is_complete, end, position, buffered):
            break
        count = next(sizes, len(rest))
        buffered, rest = buffered + rest[:count], rest[count:]
        # Markers follow the last record, and the position passes them.
        position = rest[0] if rest else 61
        done = probe.call(restore_range.applicable, buffered, end)
        applied, buffered = applied + buffered[:done], buffered[done:]
    else:
        probe.demand("the restoration to end", "an endless restoration", holds=False)
    probe.expect([offset for offset in log if offset < end], applied)


@decision("TASK-023", buffered=LOGS, end=ENDS)
def nothing_beyond_the_end(probe: Probe, buffered: list[int], end: int) -> None:
    """Apply a batch that may reach beyond the end."""
    count = probe.call(restore_range.applicable, buffered, end)
    probe.expect([each for each in buffered if each < end], buffered[:count])


@decision("METRIC-106", start=ENDS, applied=st.none() | ENDS, end=ENDS)
def what_remains_counts_offsets(probe: Probe, start: int, applied: int | None, end: int) -> None:
    """Compute the remaining offsets of a restoration."""
    found = probe.call(restore_range.remaining_after, end, applied, start)
    first = start if applied is None else applied + 1
    probe.expect(len(range(first, end)), found)
