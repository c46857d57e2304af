"""Stores that do not manage their offsets, on a real disk: the warning, and the files of a task."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from streamproof.conformance.runtime_checks.heard_logs import heard
from streamproof.conformance.runtime_checks.probe import Probe, scripted
from streamproof.conformance.runtime_checks.small_application import SmallApplication
from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.disks import InstanceDisk, RealDisk
from streamproof.sim.topology import ProcessorContext, Subtopology, Topology
from streamproof.sim.world import World
from streamproof.stores.api import KeyValueStore
from streamproof.stores.memory import InMemoryKeyValueStore
from streamproof.stores.rocksdb import RocksDBStore

__all__: list[str] = []

TASKS = 2
STORES = ("copies", "firsts", "managed", "volatile")
UNMANAGED = ("copies", "firsts")
"""Those of the stores that are on the disk and do not manage their offsets."""


@scripted("TASK-060")
def unmanaged_offsets_are_warned_of(probe: Probe) -> None:
    """Listen to the log while a process opens stores with and without offsets."""
    with _application(probe) as app:
        for start in ("first", "second"):
            with heard(logging.WARNING) as texts:
                app.start()
            named = {name for name in STORES for text in texts if f"'{name}'" in text}
            told = f"at the {start} start, warnings of {sorted(named)}"
            probe.demand(f"warnings of {list(UNMANAGED)}", told, holds=named == set(UNMANAGED))
            app.send(b"a")
            app.wait(1_000)
            app.stop()


@scripted("TASK-061")
def offsets_lie_in_the_file_of_the_task(probe: Probe) -> None:
    """Read the files of two tasks as they run, after a close, and after a crash."""
    _expect_files(probe, {".checkpoint": UNMANAGED})


@scripted("TASK-062")
def offsets_lie_in_a_file_for_each_store(probe: Probe) -> None:
    """Read the files of two tasks as they run, after a close, and after a crash."""
    _expect_files(probe, {f".checkpoint_{name}": (name,) for name in UNMANAGED})


def _expect_files(probe: Probe, stores: dict[str, tuple[str, ...]]) -> None:
    """Expect these files in the directory of each task, each with the offsets of these stores."""
    for exactly_once in (True, False):
        with heard(logging.WARNING), _application(probe, exactly_once=exactly_once) as app:
            for keys in ((b"a", b"b", b"a"), (b"c", b"a")):
                app.start()
                for task in range(TASKS):
                    app.send(*keys, *([b"d"] * task), partition=f"in-{task}")
                app.wait(2_000)
                # Under exactly-once a file says that the task was closed.
                _expect_lines(probe, app, {} if exactly_once else stores)
                app.stop()
                _expect_lines(probe, app, stores)
            first = len(probe.events)
            app.start()
            restored = [each for each in probe.events[first:] if each.kind == "store.restored"]
            probe.expect([], [each.partition for each in restored if _is_unmanaged(each.partition)])
            app.send(b"e", b"f")
            app.crash()
            if exactly_once:
                _expect_lines(probe, app, {})


def _is_unmanaged(partition: str) -> bool:
    return partition.startswith(tuple(f"app-{name}-" for name in UNMANAGED))


def _expect_lines(probe: Probe, app: SmallApplication, stores: dict[str, tuple[str, ...]]) -> None:
    for task in range(TASKS):
        directory = app.instance.disk.directory(f"0_{task}")
        found = {
            str(each.relative_to(directory)): sorted(each.read_text().splitlines()[2:])
            for each in directory.rglob(".checkpoint*")
        }
        expected = {
            file: sorted(
                f"app-{name}-changelog {task} {_last_offset(app, name, task)}" for name in names
            )
            for file, names in stores.items()
        }
        probe.expect((f"0_{task}", expected), (f"0_{task}", found))


def _last_offset(app: SmallApplication, store: str, task: int) -> int:
    """The offset of the last record in the changelog, as the brokers have it."""
    log = app.application.cluster.logs[f"app-{store}-changelog-{task}"]
    return max(each.offset for each in log.entries if not each.control)


@contextmanager
def _application(probe: Probe, **config: Any) -> Iterator[SmallApplication]:
    """An application whose tasks have all four kinds of stores on a real disk."""
    root: Path = probe.new_directory()

    def make_disk(world: World) -> InstanceDisk:
        return RealDisk(world, "instance-0", root / "disk", _store, offset_delta_threshold=0)

    part = Subtopology(("in",), _process, STORES)
    app = SmallApplication(
        probe, Topology("app", (part,), {"in": TASKS}), make_disk=make_disk, **config
    )
    try:
        yield app
    finally:
        app.instance.disk.close()


def _store(name: str) -> KeyValueStore:
    if name == "volatile":
        return InMemoryKeyValueStore(name)
    return RocksDBStore(name, manages_offsets=name == "managed")


def _process(context: ProcessorContext, _: str, record: LogEntry) -> None:
    """Write each record into all stores, but only the first of each key into ``firsts``."""
    for name in STORES:
        if name == "firsts":
            context.store(name).put_if_absent(record.key, record.value)
        else:
            context.store(name).put(record.key, record.value)
