"""Kills an upgrade of a store's format in a forked child, and tells what each kill left.

It runs in a process of its own, which never opens a database itself: the threads of
RocksDB do not survive a fork. The result is JSON on standard output, for every kill: which
directories were there, whether the work was done, up to which offset the new format was rebuilt,
and whether all data came back, opened as the new format, and as the old one and then switched.

Usage: ``upgrade_zygote.py lines|syscalls offline|switch|rebuild plain|transactional directory``

Before the work that is killed, an old store holds two thirds of the changelog; for ``switch``
an upgrade in place has been prepared as well.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from streamproof.conformance.crash.triggers import arm_syscalls
from streamproof.stores import format_upgrade as upgrade
from streamproof.stores import timestamped
from streamproof.stores.api import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    NO_TIMESTAMP,
    PROCESSING_GUARANTEE_CONFIG,
    UPGRADE_FROM_CONFIG,
    UPGRADE_MODE_CONFIG,
    WRITE_BUFFER_BYTES_CONFIG,
    ChangelogRecord,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.timestamped import RocksDBTimestampedStore

PARTITION = TopicPartition("streamproof-store-changelog", 0)
FILLING = b"." * 2000
"""Makes the buffers overflow now and then, so that a kill leaves a part of the work on disk."""

CHANGELOG = [
    ChangelogRecord(
        b"key-%02d" % (offset % 20),
        None if offset % 7 == 3 else b"value-%02d" % offset + FILLING,
        offset,
        1000 + offset,
    )
    for offset in range(60)
]
MOST_POINTS = 2000
TRACED_MODULES = (upgrade.__file__, timestamped.__file__)
TRACED_METHODS = ("init", "_open_new", "_discard_old", "commit", "rebuild", "close")
"""The lines of the first module and of these methods of the second are points to be killed at."""

Content = dict[bytes, tuple[bytes, int]]


def _expected(*, timestamps: bool) -> Content:
    content: Content = {}
    for key, value, _, timestamp in CHANGELOG:
        content.pop(key, None)
        if value is not None:
            content[key] = (value, timestamp if timestamps else NO_TIMESTAMP)
    return content


class Lab:
    """One task directory, and how stores are opened in it.

    Attributes:
        rebuilt: up to which offset the new format was there when its rebuild last began.
    """

    def __init__(self, directory: Path, transactional: bool) -> None:
        self.directory = directory
        self.transactional = transactional
        self.rebuilt: int | None = None

    def open(self, mode: str | None) -> tuple[RocksDBTimestampedStore, StateStoreContext]:
        """Open a store as an instance does that prepares an upgrade, or runs the new version."""
        # Without transactions, a crash under exactly-once would ask for wiping everything.
        guarantee = EXACTLY_ONCE if self.transactional else AT_LEAST_ONCE
        configs: dict[str, object] = {
            PROCESSING_GUARANTEE_CONFIG: guarantee,
            WRITE_BUFFER_BYTES_CONFIG: 65536,
        }
        if mode is not None:
            configs |= {UPGRADE_FROM_CONFIG: "1.1.x", UPGRADE_MODE_CONFIG: mode}
        context = StateStoreContext(state_dir=self.directory, app_configs=configs)
        store = RocksDBTimestampedStore("store", transactional=self.transactional)
        store.init(context, store)
        return store, context

    def run(self, mode: str | None, *, upto: int = len(CHANGELOG), rebuild: bool = False) -> bool:
        """Open, replay the changelog to the live store and maybe the rebuild, look, and close."""
        store, context = self.open(mode)
        done = store.committed_offset(PARTITION)
        replay = CHANGELOG[0 if done is None else done + 1 : upto]
        for start in range(0, len(replay), 15):
            batch = replay[start : start + 15]
            context.restore_callbacks["store"](batch)
            store.commit({PARTITION: batch[-1].offset})
        if rebuild:
            fed = self.rebuilt = store.rebuilt_offset(PARTITION)
            for start in range(0 if fed is None else fed + 1, len(CHANGELOG), 15):
                store.rebuild(PARTITION, CHANGELOG[start : start + 15])
        complete = dict(store.all_with_timestamp()) == _expected(timestamps=mode is None)
        complete &= not rebuild or store.prepared
        store.close()
        return complete

    def names(self) -> list[str]:
        """Which directories there are."""
        parent = self.directory / "rocksdb"
        return sorted(path.name for path in parent.iterdir()) if parent.is_dir() else []


def _kill_at_line(countdown: int) -> None:
    """Die by SIGKILL before the n-th line of the upgrade that runs from now on."""
    left = countdown

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal left
        code = frame.f_code
        if code.co_filename not in TRACED_MODULES or (
            code.co_filename == timestamped.__file__ and code.co_name not in TRACED_METHODS
        ):
            return None
        if event == "line":
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)


def _in_child(work: Callable[[], object]) -> tuple[bool, bytes]:
    """Run ``work`` in a child; whether it returned, and what it returned as JSON."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            result = json.dumps(work()).encode()
            sys.settrace(None)
            os.write(writer, result)
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        content = pipe.read()
    return os.waitpid(child, 0)[1] == 0, content


def _prepare(lab: Lab, work: str) -> None:
    lab.run("roll_over", upto=40)
    if work == "switch":
        lab.run("in_place", upto=40, rebuild=True)


def _work(lab: Lab, work: str, arm: Callable[[], object]) -> None:
    arm()
    if work == "rebuild":
        lab.run("in_place", rebuild=True)
    else:
        lab.run(None)


def _inspect(left: Path, transactional: bool) -> dict[str, object]:
    """Whether everything comes back, as the new format, and as the old and then the new one."""
    found = Lab(left, transactional).names()
    copy = left.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(left, copy)
    as_new, as_old = Lab(left, transactional), Lab(copy, transactional)
    return {
        "found": found,
        "new": as_new.run(None),
        "old": as_old.run("in_place", rebuild=True),
        "rebuilt": as_old.rebuilt,
        "switched": as_old.run(None),
        "left": [as_new.names(), as_old.names()],
    }


def _die_at_each_point(how: str, work: str, transactional: bool, parent: Path) -> list[object]:
    template = parent / "template"
    done, _ = _in_child(partial(_prepare, Lab(template, transactional), work))
    assert done, "preparing failed"  # What follows would mean nothing.
    arm = {"lines": _kill_at_line, "syscalls": arm_syscalls}[how]
    crashes: list[object] = []
    for point in range(1, MOST_POINTS):
        directory = parent / "0_0"
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(template, directory)
        lab = Lab(directory, transactional)
        done, _ = _in_child(partial(_work, lab, work, partial(arm, point)))
        _, content = _in_child(partial(_inspect, directory, transactional))
        crashes.append({"done": done, **json.loads(content)})
        if done:
            break
    return crashes


if __name__ == "__main__":
    _, how_to_kill, what_to_do, kind, path = sys.argv
    left_by_kills = _die_at_each_point(how_to_kill, what_to_do, kind == "transactional", Path(path))
    sys.stdout.write(json.dumps(left_by_kills))
