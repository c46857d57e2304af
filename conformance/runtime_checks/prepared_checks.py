"""Upgrades of formats in a small application: both bounces, the rows afterwards, and the log."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from streamproof.conformance.runtime_checks.heard_logs import heard
from streamproof.conformance.runtime_checks.probe import Probe, scripted
from streamproof.conformance.runtime_checks.small_application import (
    SmallApplication,
    table_and_input,
)
from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.disks import RealDisk, SimulatedDisk
from streamproof.sim.releases import (
    BEFORE_FORMATS,
    PREPARING_IN_PLACE,
    ROLLING_OVER,
    WITH_FORMATS,
    Release,
)
from streamproof.sim.topology import ProcessorContext
from streamproof.stores.timestamped import RocksDBTimestampedStore

__all__: list[str] = []

TASKS = 2
STORES = ("rows", "more")


@scripted("UPGRADE-112")
def again_after_a_restart(probe: Probe) -> None:
    """Restart a prepared process, after a stop and after a crash, with input before and without."""
    for is_real in (False, True):
        app = _application(probe, is_real=is_real)
        try:
            _start(app, BEFORE_FORMATS)
            _send(app)
            app.stop()
            _start(app, PREPARING_IN_PLACE)
            _expect_prepared(probe, 0)
            for end, sends in ((app.stop, False), (app.stop, True), (app.crash, False)):
                if sends:
                    _send(app)
                end()
                first = len(probe.events)
                with heard(logging.INFO) as texts:
                    _start(app, PREPARING_IN_PLACE)
                _expect_prepared(probe, first)
                said = [text for text in texts if app.instance.name in text]
                probe.demand("one message at INFO", f"{said}", holds=len(said) == 1)
        finally:
            app.instance.disk.close()
        probe.events.clear()


@scripted("UPGRADE-112")
def goes_on_after_the_second_bounce(probe: Probe) -> None:
    """Make the second bounce of one process, while another one still reports in version 2."""
    app = _application(probe, is_real=False)
    try:
        _start(app, PREPARING_IN_PLACE)
        app.joined_by(PREPARING_IN_PLACE)
        app.wait(20_000)
        app.stop()
        app.instance.release = WITH_FORMATS
        app.instance.start()
        app.wait(20_000)
        first = len(probe.events)
        _send(app)
        app.wait(10_000)
    finally:
        app.instance.disk.close()
    name, now = app.instance.name, probe.events[first:]
    tasks = {task for thread in app.instance.threads for task in thread.tasks}
    logs, built = {}, {}
    for each in now:
        if each.kind == "log.appended" and "-changelog-" in each.partition:
            logs[each.partition] = each.offset
        if each.kind == "store.rebuilt" and each.actor == name:
            built[each.partition] = each.offset
    mine = {partition: offset for partition, offset in logs.items() if _task_of(partition) in tasks}
    probe.need("records in the changelogs of the process", holds=bool(mine))
    probe.expect(mine, built)


@scripted("UPGRADE-114")
def progress_and_readiness_are_logged(probe: Probe) -> None:
    """Copy two tasks in a roll-over, first while the new instance is paused, and read its log."""
    app = _application(probe, is_real=False)
    try:
        _start(app, ROLLING_OVER)
        _send(app)
        with heard(logging.INFO) as texts:
            new = app.joined_by(WITH_FORMATS)
            new.pause()
            app.wait(20_000)
            before = [text for text in texts if new.name in text]
            new.resume()
            app.wait(20_000)
            after = [text for text in texts if new.name in text][len(before) :]
    finally:
        app.instance.disk.close()
    ends = {
        each.partition: each.offset
        for each in probe.of("log.appended")
        if "-changelog-" in each.partition
    }
    for partition, last in ends.items():
        for texts, offset in ((before, -1), (after, last)):
            expected = f"{partition} on {new.name} is at offset {offset} of {last}."
            probe.demand(expected, f"{texts}", holds=any(expected in text for text in texts))
    said = [[text for text in texts if "ready" in text] for texts in (before, after)]
    probe.demand("one message that all is ready", f"{said}", holds=[*map(len, said)] == [0, 1])


def _task_of(changelog: str) -> str:
    return f"0_{changelog.rpartition('-')[2]}"


@scripted("UPGRADE-116")
def upgraded_rows_have_the_time_of_their_records(probe: Probe) -> None:
    """Upgrade real stores in place with two bounces, and compare their rows with the changelogs."""
    made: list[RocksDBTimestampedStore] = []
    app = _application(probe, is_real=True, made=made)
    try:
        _start(app, BEFORE_FORMATS)
        _send(app)
        app.stop()
        _start(app, PREPARING_IN_PLACE)
        _send(app, b"b")
        app.stop()
        _start(app, WITH_FORMATS)
        found = sorted((each.name, _rows(each)) for each in made if each.is_open)
    finally:
        app.instance.disk.close()
    logged: dict[str, dict[bytes, tuple[bytes, int]]] = {}
    for each in probe.of("log.appended"):
        if "-changelog-" in each.partition:
            more = each.attributes
            logged.setdefault(each.partition, {})[more["key"]] = more["value"], more["timestamp"]
    times = {at for rows in logged.values() for _, at in rows.values()}
    probe.need("rows of different times", holds=len(times) > 1)
    probe.expect(sorted((name.split("-")[1], rows) for name, rows in _sorted(logged)), found)


def _rows(store: RocksDBTimestampedStore) -> list[tuple[bytes, tuple[bytes, int]]]:
    """All rows with their timestamps, by key."""
    with store.all_with_timestamp() as rows:
        return [(key, (row.value, row.timestamp)) for key, row in rows]


def _sorted(
    logged: dict[str, dict[bytes, tuple[bytes, int]]],
) -> Iterator[tuple[str, list[tuple[bytes, tuple[bytes, int]]]]]:
    for changelog, rows in logged.items():
        yield changelog, sorted(rows.items())


def _application(
    probe: Probe, *, is_real: bool, made: list[RocksDBTimestampedStore] | None = None
) -> SmallApplication:
    """Two tasks with two stores each: model stores, or real ones, which are added to ``made``."""

    def make(name: str) -> RocksDBTimestampedStore:
        store = RocksDBTimestampedStore(name)
        if made is not None:
            made.append(store)
        return store

    root = probe.new_directory()
    topology = table_and_input(_putting, partitions=TASKS, stores=STORES)
    return SmallApplication(
        probe,
        topology,
        transactional=False,
        make_disk=lambda world: (
            RealDisk(world, "instance-0", root / "disk", make)
            if is_real
            else SimulatedDisk(world, "instance-0")
        ),
    )


def _putting(context: ProcessorContext, _: str, record: LogEntry) -> None:
    for name in STORES:
        context.store(name).put(record.key, record.value)


def _start(app: SmallApplication, release: Release) -> None:
    app.instance.release = release
    app.start()
    # The background task reads a changelog at least once in a second.
    app.wait(10_000)


def _send(app: SmallApplication, *keys: bytes) -> None:
    for task in range(TASKS):
        app.send(*(keys or (b"a", b"b", b"a")), partition=f"in-{task}")
    app.wait(2_000)


def _expect_prepared(probe: Probe, first: int) -> None:
    """Expect one message since an event, with the last offset of each changelog."""
    said = [each for each in probe.events[first:] if each.kind == "instance.prepared"]
    probe.demand("one message that all stores are prepared", f"{len(said)}", holds=len(said) == 1)
    logs: dict[str, int] = {}
    for each in probe.events:
        if each.kind == "log.appended" and "-changelog-" in each.partition:
            logs[each.partition] = each.offset
    probe.expect(logs, said[0].attributes["stores"])
