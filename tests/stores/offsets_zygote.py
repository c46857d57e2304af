"""Kills a store while it imports the offsets of an older version, or leaves them for one.

It runs in a process of its own, which never opens a database itself: the threads of
RocksDB do not survive a fork. The result is JSON on standard output: for every crash what an
older and a newer version found afterwards, and whether the work was done. Between two system calls
that write, a kill leaves the same files wherever it hits.

Usage: ``offsets_zygote.py import|downgrade directory``
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from streamproof.conformance.crash import triggers
from streamproof.stores.api import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    PROCESSING_GUARANTEE_CONFIG,
    UPGRADE_FROM_CONFIG,
    RecordMetadata,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.checkpoint import OffsetCheckpoint
from streamproof.stores.errors import ProcessorStateError
from streamproof.stores.rocksdb import RocksDBStore

OWN = TopicPartition("streamproof-store-changelog", 0)
OF_ANOTHER_STORE = TopicPartition("streamproof-other-changelog", 0)
INPUT = TopicPartition("input", 0)
KEYS = [b"key-%02d" % number for number in range(20)]

MOST_POINTS = 2000


def _context(directory: Path, guarantee: str, **configs: object) -> StateStoreContext:
    configs[PROCESSING_GUARANTEE_CONFIG] = guarantee
    return StateStoreContext(directory, app_configs=configs)


def _round(store: RocksDBStore, context: StateStoreContext, number: int) -> None:
    """Give every key a value that equals the offset, and the position of the input."""
    context.record_metadata = RecordMetadata(INPUT.topic, INPUT.partition, number)
    store.put_all((key, b"%d" % number) for key in KEYS)
    store.commit({OWN: number})


def _files(directory: Path) -> tuple[OffsetCheckpoint, OffsetCheckpoint]:
    position = directory / "rocksdb" / "store" / ".position"
    return OffsetCheckpoint(directory / ".checkpoint"), OffsetCheckpoint(position)


def _older_version_wrote(directory: Path) -> None:
    context = _context(directory, EXACTLY_ONCE)
    store = RocksDBStore("store", manages_offsets=False)
    store.init(context, store)
    _round(store, context, 7)
    store.close()
    checkpoint, position = _files(directory)
    checkpoint.write({OF_ANOTHER_STORE: 3, OWN: 7})
    position.write({INPUT: 7})


def _import(directory: Path, arm: Callable[[], None]) -> None:
    store = RocksDBStore("store")
    arm()
    store.init(_context(directory, EXACTLY_ONCE), store)
    triggers.disarm()


def _newer_version_ran(directory: Path) -> None:
    directory.mkdir(parents=True)
    checkpoint, _ = _files(directory)
    checkpoint.write({OF_ANOTHER_STORE: 3})


def _downgrade(directory: Path, arm: Callable[[], None]) -> None:
    context = _context(directory, AT_LEAST_ONCE, **{UPGRADE_FROM_CONFIG: "4.2"})
    store = RocksDBStore("store")
    store.init(context, store)
    _round(store, context, 1)
    store.flush()
    _round(store, context, 2)
    arm()
    store.close()
    triggers.disarm()


def _seen(store: RocksDBStore, offset: int | None, position: int | None) -> dict[str, Any]:
    rows = list(store.all())
    values = sorted({int(value) for _, value in rows})
    return {"rows": len(rows), "values": values, "offset": offset, "position": position}


def _seen_by_older_version(directory: Path) -> dict[str, Any] | None:
    """What a version before KIP-1035 finds; ``None`` if it refuses the database."""
    store = RocksDBStore("store", manages_offsets=False)
    try:
        store.init(_context(directory, AT_LEAST_ONCE), store)
    except ProcessorStateError:
        return None
    checkpoint, position = _files(directory)
    return _seen(store, checkpoint.read().get(OWN), position.read().get(INPUT))


def _seen_by_newer_version(directory: Path, guarantee: str) -> dict[str, Any]:
    """What this version finds, what it leaves in the file, and whether it imports it again."""
    store = RocksDBStore("store")
    store.init(_context(directory, guarantee), store)
    found = _seen(store, store.committed_offset(OWN), store.position.as_dict().get(INPUT))
    found["left"] = list(map(str, _files(directory)[0].read()))
    store.commit({})
    store.close()
    store.init(_context(directory, guarantee), store)
    found["imported again"] = store.committed_offset(OWN)
    return found


def _in_child(work: Callable[[], object]) -> tuple[bool, Any]:
    """Whether ``work`` got to its end, and what it returned."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.write(writer, json.dumps(work()).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    done = os.waitpid(child, 0)[1] == 0
    return done, json.loads(answer) if done else None


def _crashes(operation: str, directory: Path) -> list[object]:
    prepare, work, guarantee = {
        "import": (_older_version_wrote, _import, EXACTLY_ONCE),
        "downgrade": (_newer_version_ran, _downgrade, AT_LEAST_ONCE),
    }[operation]
    template = directory.with_name("template")
    _in_child(partial(prepare, template))
    crashes: list[object] = []
    for point in range(1, MOST_POINTS):
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(template, directory)
        done, _ = _in_child(partial(work, directory, partial(triggers.arm_syscalls, point)))
        _, older = _in_child(partial(_seen_by_older_version, directory))
        _, newer = _in_child(partial(_seen_by_newer_version, directory, guarantee))
        crashes.append({"done": done, "older": older, "newer": newer})
        if done:
            break
    return crashes


if __name__ == "__main__":
    _, operation_name, path = sys.argv
    sys.stdout.write(json.dumps(_crashes(operation_name, Path(path))))
