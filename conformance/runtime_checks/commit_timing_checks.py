"""Commits: when a thread commits and which offsets, over random positions and times."""

from __future__ import annotations

from hypothesis import strategies as st

from streamproof.conformance.runtime_checks.probe import Probe, decision, scripted
from streamproof.conformance.runtime_checks.small_application import (
    SmallApplication,
    copying,
    table_and_input,
)
from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.decisions import commits, punctuation
from streamproof.sim.decisions.commits import Uncommitted
from streamproof.sim.topology import ProcessorContext

__all__: list[str] = []

OFFSETS = st.none() | st.integers(0, 1_000)
MILLISECONDS = st.integers(0, 100_000)


@decision("TASK-024", head=OFFSETS, position=OFFSETS)
def the_next_to_process(probe: Probe, head: int | None, position: int | None) -> None:
    """Compute the offset that a commit of an input takes."""
    found = probe.call(commits.committable_offset, head, position)
    probe.expect(position if head is None else head, found)


@decision("TASK-025", consumed=OFFSETS, position=OFFSETS)
def passes_markers(probe: Probe, consumed: int | None, position: int | None) -> None:
    """Compute whether a commit is needed after the position passed only markers."""
    found = probe.call(commits.needs_commit, consumed, position)
    known = consumed is not None and position is not None
    probe.expect(known and (position or 0) - (consumed or 0) >= 2, found)


@decision("TASK-026", last=MILLISECONDS, passed=MILLISECONDS, interval=MILLISECONDS)
def after_the_interval(probe: Probe, last: int, passed: int, interval: int) -> None:
    """Compute whether a commit is due by its interval."""
    for passed_ms in (passed, interval, interval + 1):
        found = probe.call(
            commits.commit_is_due, last + passed_ms, last, commit_interval_ms=interval
        )
        probe.expect(passed_ms > interval, found)


@decision("TASK-068", last=MILLISECONDS, passed=MILLISECONDS, due=st.booleans())
def requested_commits_put_nothing_off(probe: Probe, last: int, passed: int, *, due: bool) -> None:
    """Compute when the next periodic commit is due after a commit that was due or requested."""
    found = probe.call(commits.periodic_commit_after, last + passed, last, due=due)
    probe.expect(last + passed if due else last, found)


@scripted("TASK-068")
def requested_commits_leave_the_beat_alone(probe: Probe) -> None:
    """Request a commit in the middle of an interval, and see when the next commit comes."""
    topology = table_and_input(_committing_on_request)
    application = SmallApplication(probe, topology, commit_interval_ms=_INTERVAL_MS)
    application.start()
    application.send(b"a")
    application.wait(2 * _INTERVAL_MS)
    application.send(b"b")
    application.wait(_INTERVAL_MS // 20)
    periodic = [each.time for each in probe.of("thread.committed")][-1]
    application.wait(_INTERVAL_MS * 6 // 10)
    application.send(_REQUEST)
    application.wait(_INTERVAL_MS // 20)
    requested = [each.time for each in probe.of("thread.committed")][-1]
    probe.need("a commit on request", holds=requested > periodic + _INTERVAL_MS // 2)
    application.send(b"c")
    application.wait(2 * _INTERVAL_MS)
    found = next(each.time for each in probe.of("thread.committed") if each.time > requested)
    probe.demand(
        f"a commit {_INTERVAL_MS} ms after the periodic one of {periodic} ms, and not after "
        f"the requested one of {requested} ms",
        f"the next commit at {found} ms",
        holds=found - periodic < _INTERVAL_MS * 13 // 10,
    )


_INTERVAL_MS = 4_000
_REQUEST = b"request"


def _committing_on_request(context: ProcessorContext, name: str, record: LogEntry) -> None:
    """Copy the record, and request a commit if its key asks for that."""
    copying(context, name, record)
    if record.key == _REQUEST:
        context.request_commit()


@decision("TASK-027", staged=st.integers(0, 1_000), most=st.integers(-1, 1_000))
def before_too_much_is_staged(probe: Probe, staged: int, most: int) -> None:
    """Compute whether a commit is due by the staged bytes of the stores."""
    for number in (staged, most, most + 1):
        found = probe.call(
            commits.commit_is_due,
            1,
            0,
            commit_interval_ms=30_000,
            staged=Uncommitted(0, max(number, 0)),
            limits=Uncommitted(-1, most),
        )
        probe.expect(most > 0 and number > most, found)


@decision(
    "TASK-028", iterations=st.integers(1, 1_000), late=st.booleans(), interrupted=st.booleans()
)
def looks_up_in_time(probe: Probe, iterations: int, late: bool, interrupted: bool) -> None:
    """Compute how many records each task takes before the thread pauses processing."""
    found = probe.call(
        commits.next_iterations, iterations, late_for_poll=late, interrupted=interrupted
    )
    probe.demand("at least one", str(found), holds=found >= 1)
    if late or interrupted:
        probe.demand(
            f"at most half of {iterations}, or 1", str(found), holds=found <= max(iterations / 2, 1)
        )
    else:
        probe.expect(iterations + 1, found)


@decision("TASK-029", due=MILLISECONDS, missed=MILLISECONDS, interval=st.integers(1, 10_000))
def punctuations_stay_on_their_beat(probe: Probe, due: int, missed: int, interval: int) -> None:
    """Compute the next due time of a late punctuation."""
    now = due + missed
    found = probe.call(punctuation.next_punctuation, due, now, interval)
    probe.expect(
        next(iter(range(due, now + interval + 1, interval)[missed // interval + 1 :])), found
    )
