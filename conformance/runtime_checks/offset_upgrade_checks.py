"""Upgrades to stores that manage their offsets, in a small application (KIP-1035, "Upgrade")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from streamproof.conformance.runtime_checks.probe import Probe, scripted
from streamproof.conformance.runtime_checks.small_application import (
    SmallApplication,
    table_and_input,
)
from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.disks import InstanceDisk, RealDisk, SimulatedDisk
from streamproof.sim.releases import BEFORE_OFFSETS, LATEST, Release
from streamproof.sim.topology import ProcessorContext
from streamproof.sim.world import World
from streamproof.stores.api import KeyValueStore
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.rocksdb import RocksDBStore

__all__: list[str] = []

TASKS = 2
STORES = ("imports", "takes")
STALE, AHEAD = 0, 9_999
"""Offsets that no store of these applications is at."""


class _Takes(RocksDBStore):
    """Manages its offsets, and imports none: the runtime has to hand them over."""

    _is_whole = False

    @property
    def capabilities(self) -> Capabilities:
        """Those of the store, without the import."""
        return replace(super().capabilities, imports_offsets=False, downgrade=False)


class _RealStores:
    """The stores of an application, which do not manage their offsets before the upgrade."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._manages_offsets = False

    def disk(self, world: World) -> InstanceDisk:
        """The disk with these stores."""
        return RealDisk(world, "instance-0", self._root / "disk", self._make)

    def upgrade(self) -> None:
        """Let the next stores manage their offsets."""
        self._manages_offsets = True

    def _make(self, name: str) -> KeyValueStore:
        kind = _Takes if name == "takes" else RocksDBStore
        return kind(name, manages_offsets=self._manages_offsets)


@scripted("UPGRADE-119")
def models_go_on(probe: Probe) -> None:
    """Close model stores with the release before the proposal, and open them with the present."""
    for exactly_once in (True, False):
        app = _application(
            probe, lambda world: SimulatedDisk(world, "instance-0"), exactly_once=exactly_once
        )
        _upgrade(probe, app)


@scripted("UPGRADE-119")
def real_stores_go_on(probe: Probe) -> None:
    """Do the same with stores on a real disk, and leave offsets in the file of the task again."""
    for exactly_once in (True, False):
        stores = _RealStores(probe.new_directory())
        app = _application(probe, stores.disk, exactly_once=exactly_once)
        try:
            _upgrade(probe, app, stores.upgrade)
            for offset in (STALE, AHEAD):
                app.stop()
                _leave_offsets(app, offset)
                _expect_kept(probe, app, LATEST)
        finally:
            app.instance.disk.close()


def _application(
    probe: Probe, make_disk: Callable[[World], InstanceDisk], *, exactly_once: bool
) -> SmallApplication:
    """Two tasks with two stores each, whose changelogs have different lengths."""
    probe.events.clear()
    topology = table_and_input(_putting, partitions=TASKS, stores=STORES)
    return SmallApplication(
        probe, topology, make_disk=make_disk, exactly_once=exactly_once, transactional=False
    )


def _putting(context: ProcessorContext, _: str, record: LogEntry) -> None:
    """Put each record into one store, and into the other if its key is new there."""
    context.store("imports").put(record.key, record.value)
    context.store("takes").put_if_absent(record.key, record.value)


def _upgrade(probe: Probe, app: SmallApplication, change: Callable[[], object] = int) -> None:
    """Close with the older release, open with the newer one, and go on.

    Args:
        probe: the probe.
        app: the application.
        change: called between the releases.
    """
    app.instance.release = BEFORE_OFFSETS
    app.start()
    _send(app, b"a", b"b", b"a")
    app.stop()
    change()
    _expect_kept(probe, app, LATEST)
    _send(app, b"c", b"a")


def _expect_kept(probe: Probe, app: SmallApplication, release: Release) -> None:
    """Open the stores, and expect their last offsets and rows, and no restoration."""
    rows = _rows(probe)
    first = len(probe.events)
    app.instance.release = release
    app.start()
    events = probe.events[first:]
    probe.expect([], [each.kind for each in events if each.kind == "task.wiped"])
    probe.expect([], [each.partition for each in events if each.kind == "store.restored"])
    opened = {each.partition: each.offset for each in events if each.kind == "store.opened"}
    probe.expect(_last_offsets(app), opened)
    found = {
        each.partition: dict(each.attributes["rows"])
        for each in events
        if each.kind == "store.found"
    }
    probe.expect(rows, found)
    app.wait(1_000)


def _rows(probe: Probe) -> dict[str, dict[bytes, bytes]]:
    """What the tasks have put into each store."""
    rows: dict[str, dict[bytes, bytes]] = {}
    for each in probe.of("store.put"):
        rows.setdefault(each.partition, {})[each.attributes["key"]] = each.attributes["value"]
    return rows


def _last_offsets(app: SmallApplication) -> dict[str, int]:
    """The offset of the last record in each changelog, as the brokers have it."""
    return {
        name: max(each.offset for each in log.entries if not each.control)
        for name, log in app.application.cluster.logs.items()
        if "-changelog-" in name
    }


def _leave_offsets(app: SmallApplication, offset: int) -> None:
    """Leave a file of the older release in each task, which has an offset for each store."""
    for task in range(TASKS):
        lines = [f"app-{name}-changelog {task} {offset}" for name in STORES]
        content = "\n".join(["0", str(len(lines)), *lines, ""])
        (app.instance.disk.directory(f"0_{task}") / ".checkpoint").write_text(content)


def _send(app: SmallApplication, *keys: bytes) -> None:
    """Send records to each task, and one more to the second."""
    for task in range(TASKS):
        app.send(*keys, *([b"d"] * task), partition=f"in-{task}")
    app.wait(2_000)
