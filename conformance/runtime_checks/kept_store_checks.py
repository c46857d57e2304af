"""Stores on the disk of a small application that crashes, or whose commit gets no answer."""

from __future__ import annotations

from streamproof.conformance.runtime_checks.probe import Probe, scripted
from streamproof.conformance.runtime_checks.small_application import (
    SmallApplication,
    table_and_input,
)

__all__: list[str] = []

TASKS = 2


@scripted("TASK-053")
def a_crash_keeps_what_is_on_the_disk(probe: Probe) -> None:
    """Kill the process after a commit that reached the disk, and start another one."""
    for exactly_once, transactional in ((True, True), (False, True), (False, False)):
        app = SmallApplication(probe, exactly_once=exactly_once, transactional=transactional)
        app.start()
        app.send(b"a", b"b", b"c")
        app.wait(1_000)
        app.fill_memtables()
        app.crash()
        first = len(probe.events)
        app.start()
        _expect_kept(probe, first)
        probe.expect(0, sum(each.argument for each in app.called("restore")))


@scripted("ASSIGN-012")
def what_a_crash_leaves_is_reported(probe: Probe) -> None:
    """Kill a process with two tasks, and read the first report of each thread of the next one."""
    for exactly_once, transactional in ((True, True), (False, True), (False, False)):
        probe.events.clear()
        app = SmallApplication(
            probe,
            table_and_input(partitions=TASKS),
            threads=2,
            exactly_once=exactly_once,
            transactional=transactional,
        )
        app.start()
        for task in range(TASKS):
            app.send(*[b"a", b"b", b"c"][: task + 2], partition=f"in-{task}")
        app.wait(1_000)
        app.fill_memtables()
        committed = {each.task: each.offset + 1 for each in probe.of("store.committed")}
        probe.need("a commit of each task", holds=len(committed) == TASKS)
        app.crash()
        probe.events.clear()
        app.start()
        reports: dict[str, dict[str, int]] = {}
        for each in probe.of("thread.subscribed"):
            reports.setdefault(each.actor, each.attributes["sums"])
        probe.expect([committed] * 2, list(reports.values()))


@scripted("TASK-054")
def a_commit_in_doubt_wipes_nothing(probe: Probe) -> None:
    """Cut an instance off until its commit times out, as proposed."""
    first = _cut_off_in_a_commit(probe)
    _expect_kept(probe, first)


@scripted("TASK-055")
def a_commit_in_doubt_wipes_as_shipped(probe: Probe) -> None:
    """Cut an instance off until its commit times out, under Kafka's rules."""
    first = _cut_off_in_a_commit(probe)
    kinds = {each.kind for each in probe.events[first:]}
    probe.demand("a wiped task", "none", holds="task.wiped" in kinds)
    probe.expect([-1], _opened(probe, first))


def _cut_off_in_a_commit(probe: Probe) -> int:
    """Let a commit of a store that stages time out; return the number of events before that."""
    app = SmallApplication(
        probe,
        exactly_once=True,
        transactional=True,
        commit_interval_ms=3_000,
        request_timeout_ms=500,
        max_block_ms=500,
        session_timeout_ms=30_000,
    )
    app.start()
    app.wait(4_000)
    # The first records are committed at once, because the interval is over; the next one is not.
    app.send(b"a", b"b", b"c")
    app.wait(1_000)
    app.send(b"d")
    app.wait(500)
    first = len(probe.events)
    app.application.network.cut("instance-0")
    app.wait(4_000)
    app.application.network.heal("instance-0")
    app.wait(20_000)
    timed_out = [each for each in probe.events[first:] if each.kind == "thread.timed_out"]
    probe.need("a commit that timed out", holds=bool(timed_out))
    return first


def _expect_kept(probe: Probe, first: int) -> None:
    """Expect that the store is opened again with its last offset, and that nothing is wiped."""
    committed = [each.offset for each in probe.events[:first] if each.kind == "store.committed"]
    probe.need("a commit of all records", holds=max(committed, default=-1) >= 2)
    wiped = [str(each) for each in probe.events[first:] if each.kind == "task.wiped"]
    probe.expect([], wiped)
    probe.expect(committed[-1:], _opened(probe, first))


def _opened(probe: Probe, first: int) -> list[int]:
    return [each.offset for each in probe.events[first:] if each.kind == "store.opened"]
