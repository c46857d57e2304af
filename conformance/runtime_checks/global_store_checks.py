"""The global store of a small application: its commits, its restoration, and what waits for it."""

from __future__ import annotations

from streamproof.conformance.runtime_checks.probe import Probe, scripted
from streamproof.conformance.runtime_checks.small_application import (
    Call,
    SmallApplication,
    table_and_input,
)
from streamproof.sim.clients.consumer import MAX_POLL_RECORDS
from streamproof.stores.api import TopicPartition

__all__: list[str] = []

PARTITIONS = 3

LONG = 3 * MAX_POLL_RECORDS
"""Records in a long partition: more than one poll returns."""


@scripted("TASK-063")
def partitions_are_committed_at_once(probe: Probe) -> None:
    """Fill a table of three partitions, and follow the commits, a crash and a stop."""
    for exactly_once, transactional in ((True, True), (False, True), (False, False)):
        app = SmallApplication(
            probe,
            table_and_input(table_partitions=PARTITIONS),
            exactly_once=exactly_once,
            transactional=transactional,
        )
        for partition in range(PARTITIONS):
            app.send(*([b"%d" % partition] * (partition + 1)), partition=f"table-{partition}")
        app.start()
        app.wait(1_000)
        _expect_commits(probe, app, first=0)
        _update(app)
        app.wait(1_000)
        _expect_commits(probe, app, first=0)
        app.fill_memtables()
        app.crash()
        _expect_resumed(probe, app, missing=PARTITIONS - 1)
        _update(app)
        app.wait(500)
        app.stop()
        _expect_resumed(probe, app, missing=PARTITIONS - 1)


@scripted("TASK-064")
def tasks_wait_for_the_global_stores(probe: Probe) -> None:
    """Start a process whose table has one long, one short and one empty partition."""
    for restarts in (False, True):
        app = SmallApplication(probe, table_and_input(table_partitions=PARTITIONS))
        app.send(*[b"%d" % each for each in range(LONG)], partition="table-0")
        app.send(b"short", partition="table-1")
        app.start()
        first, missing = 0, LONG + 1
        if restarts:
            app.stop()
            app.send(*[b"more"] * LONG, partition="table-2")
            first, missing = len(app.calls), LONG
            probe.events.clear()
            app.start()
        (joined, *_) = (each.time for each in probe.of("thread.subscribed"))
        read = sum(each.argument for each in _called(app, "restore", first) if each.time <= joined)
        probe.expect(missing, read)
        probe.events.clear()


def _update(app: SmallApplication) -> None:
    """Write to all partitions but one, whose offset must be committed nonetheless."""
    for partition in range(1, PARTITIONS):
        app.send(b"more", partition=f"table-{partition}")


def _expect_resumed(probe: Probe, app: SmallApplication, missing: int) -> None:
    """Start another process after a few more records, and expect that it reads only these."""
    _update(app)
    first = len(app.calls)
    app.start()
    app.wait(1_000)
    probe.expect(missing, sum(each.argument for each in _called(app, "restore", first)))
    _expect_commits(probe, app, first)
    expected = {b"%d" % each: b"v" for each in range(PARTITIONS)} | {b"more": b"v"}
    probe.expect(expected, dict(_called(app, "init", first)[-1].store.all()))


def _expect_commits(probe: Probe, app: SmallApplication, first: int) -> None:
    """Expect that each commit has all partitions, and the last one all records."""
    offsets = [each.argument for each in _called(app, "commit", first)]
    probe.demand("a commit of the global store", "none", holds=bool(offsets))
    logs = app.application.cluster.logs
    partitions = [TopicPartition("table", each) for each in range(PARTITIONS)]
    probe.expect([partitions] * len(offsets), [sorted(each) for each in offsets])
    expected = {each: logs[str(each)].end - 1 for each in partitions}
    probe.expect(expected, offsets[-1])


def _called(app: SmallApplication, method: str, first: int) -> list[Call]:
    return [
        each for each in app.calls[first:] if each.method == method and each.store.name == "global"
    ]
