"""Uses a store while the disk is full, frees it again, and tells what came of every step.

It runs in a process of its own, because it limits that process. The result is JSON on standard
output: the error of every step, or ``null``, and the content after the disk was freed.

Usage: ``full_disk.py limit|disk store directory``

With ``limit`` no file of the process may grow beyond 4 KiB, so that writing a data file fails.
With ``disk`` the file system that holds the directory is filled: it must be a small one.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import cast

from streamproof.stores.api import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    PROCESSING_GUARANTEE_CONFIG,
    WRITE_BUFFER_BYTES_CONFIG,
    KeyValueStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.builtin import BUILTIN
from streamproof.stores.errors import ProcessorStateError

PARTITION = TopicPartition("streamproof-store-changelog", 0)
ROWS = 1000
COMMIT_INTERVAL = 50
LIMIT_BYTES = 4096

_, how, name, argument = sys.argv
directory = Path(argument)
filler = directory.parent / "filler"
errors: dict[str, str | None] = {}


def fill() -> None:
    """Leave no room on the disk, or none again after RocksDB deleted a file."""
    if how == "limit":
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, most))
        return
    with filler.open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


def free() -> None:
    """Make room again."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    filler.unlink(missing_ok=True)


def opened(state_dir: Path) -> KeyValueStore:
    """The store, opened. Without transactions, exactly-once would refuse it after the failure."""
    store = cast(KeyValueStore, BUILTIN[name]())
    guarantee = EXACTLY_ONCE if "transactional" in name else AT_LEAST_ONCE
    configs = {PROCESSING_GUARANTEE_CONFIG: guarantee, WRITE_BUFFER_BYTES_CONFIG: 64 * 1024}
    store.init(StateStoreContext(state_dir, app_configs=configs), store)
    return store


def write(store: KeyValueStore, offsets: range) -> None:
    """Put the changelog records with these offsets, and commit at times."""
    for offset in offsets:
        store.put(b"%03d" % (offset % ROWS), b"%06d" % offset * 10)
        if offset % COMMIT_INTERVAL == COMMIT_INTERVAL - 1:
            store.commit({PARTITION: offset})


def attempt(step: str, call: Callable[[], object]) -> None:
    """Take a step and note what it raised."""
    try:
        call()
    except Exception as error:  # noqa: BLE001  # Which error it is, is what is to be found out.
        errors[step] = f"{type(error).__name__}: {error}"
    else:
        errors[step] = None


def attempt_opening(step: str, state_dir: Path) -> None:
    """Open a store on the full disk, and again if RocksDB had just made room for the opening."""
    for _ in range(10):
        fill()
        found: list[KeyValueStore] = []
        attempt(step, lambda found=found: found.append(opened(state_dir)))
        for store in found:
            with suppress(ProcessorStateError):
                store.close()
        if not found:
            return


def content(store: KeyValueStore) -> dict[str, int]:
    """The offset of the record that each key has its value from."""
    return {key.decode(): int(value[:6]) for key, value in store.all()}


def main() -> None:
    """Write while there is room, while there is none, and read when there is room again."""
    store = opened(directory)
    write(store, range(ROWS))
    store.flush()
    fill()
    attempt("write", lambda: write(store, range(ROWS, 6 * ROWS)))
    attempt("commit", lambda: store.commit({PARTITION: 6 * ROWS}))
    attempt("flush", store.flush)
    attempt("get", lambda: store.get(b"000"))
    attempt("scan", lambda: list(store.all()))
    attempt("close", store.close)
    attempt_opening("open", directory)
    attempt_opening("create", directory.with_name("0_1"))
    free()
    store, created = opened(directory), opened(directory.with_name("0_1"))
    write(created, range(1))
    result = {
        "errors": errors,
        "offset": store.committed_offset(PARTITION),
        "rows": content(store),
        "created": content(created),
    }
    store.close()
    created.close()
    print(json.dumps(result))  # noqa: T201  # This is the output.


main()
