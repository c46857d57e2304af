"""Kills a store in a forked child, again and again, and tells what each crash left.

It runs in a process of its own, which never opens a database itself: the threads of
RocksDB do not survive a fork. The result is JSON on standard output: for every crash the
committed offset, the distinct values found, how many rows, and whether the work was done.

Usage: ``crash_zygote.py lines|times store operation directory count``
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, cast

from streamproof.stores.api import (
    EXACTLY_ONCE,
    PROCESSING_GUARANTEE_CONFIG,
    WRITE_BUFFER_BYTES_CONFIG,
    KeyValueStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.builtin import BUILTIN
from streamproof.stores.errors import TaskCorruptedError

PARTITION = TopicPartition("log", 0)
KEYS = [b"key-%03d" % number for number in range(200)]


def _context(directory: Path, exactly_once: bool) -> StateStoreContext:
    configs: dict[str, object] = {WRITE_BUFFER_BYTES_CONFIG: 65536}
    if exactly_once:
        configs[PROCESSING_GUARANTEE_CONFIG] = EXACTLY_ONCE
    return StateStoreContext(state_dir=directory, app_configs=configs)


def _round(store: KeyValueStore, number: int) -> None:
    """Give every key the same new value, which equals the offset that is committed."""
    store.put_all((key, b"%08d" % number) for key in KEYS)
    store.commit({PARTITION: number})


def _kill_at_line(countdown: int) -> None:
    """Die by SIGKILL before the n-th line of Python that runs from now on."""
    left = countdown

    def trace(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal left
        if event == "line":
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)


def _in_child(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return child


def _work(name: str, operation: str, directory: Path, arm: Callable[[], object]) -> None:
    store = cast(KeyValueStore, BUILTIN[name]())
    context = _context(directory, exactly_once=True)
    store.init(context, store)
    _round(store, 1)
    store.flush()
    _round(store, 2)
    arm()
    if operation == "close":
        store.close()
    elif operation == "flush":
        store.flush()
    else:
        for number in range(3, 100_000):
            _round(store, number)
            if operation == "rounds-and-flushes":
                store.flush()


def _inspect(name: str, directory: Path) -> dict[str, object]:
    """What is on disk, seen by a process that opens it without asking for exactly-once."""
    reader, writer = os.pipe()

    def look() -> None:
        store = cast(KeyValueStore, BUILTIN[name]())
        trusted = True
        try:
            store.init(_context(directory, exactly_once=True), store)
        except TaskCorruptedError:
            trusted = False
            store.init(_context(directory, exactly_once=False), store)
        rows = dict(store.all())
        found = {
            "offset": store.committed_offset(PARTITION),
            "values": sorted({int(value) for value in rows.values()}),
            "rows": len(rows),
            "trusted": trusted,
        }
        os.write(writer, json.dumps(found).encode())

    child = _in_child(look)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        content = pipe.read()
    os.waitpid(child, 0)
    return cast(dict[str, object], json.loads(content))


def _die_at_each_line(name: str, operation: str, directory: Path, most: int) -> list[object]:
    crashes: list[object] = []
    for point in range(1, most + 1):
        shutil.rmtree(directory, ignore_errors=True)
        arm = partial(_kill_at_line, point)
        child = _in_child(partial(_work, name, operation, directory, arm))
        done = os.waitpid(child, 0)[1] == 0
        crashes.append({"done": done, **_inspect(name, directory)})
        if done:
            break
    return crashes


def _die_at_times(name: str, operation: str, directory: Path, count: int) -> list[object]:
    choices = random.Random(7)
    crashes: list[object] = []
    for _ in range(count):
        shutil.rmtree(directory, ignore_errors=True)
        reader, writer = os.pipe()
        ready = partial(os.write, writer, b"!")
        child = _in_child(partial(_work, name, operation, directory, ready))
        os.read(reader, 1)
        time.sleep(choices.uniform(0, 0.03))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)
        crashes.append({"done": False, **_inspect(name, directory)})
    return crashes


if __name__ == "__main__":
    _, how, store_name, operation_name, path, number_of_crashes = sys.argv
    engine = {"lines": _die_at_each_line, "times": _die_at_times}[how]
    found = engine(store_name, operation_name, Path(path), int(number_of_crashes))
    sys.stdout.write(json.dumps(found))
