"""Opens a store in a process of its own: one that holds it, or one that lacks something.

Usage: ``other_process.py holder|unprivileged|few_files store directory``

``holder`` opens the store, puts a row, prints ``open``, and commits and closes once its input ends.
The others try to open it, print the error, and, with ``few_files``, what is there once they may
open more files.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
from pathlib import Path
from typing import cast

from streamproof.stores.api import (
    EXACTLY_ONCE,
    PROCESSING_GUARANTEE_CONFIG,
    KeyValueStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.builtin import BUILTIN
from streamproof.stores.errors import StoreError

PARTITION = TopicPartition("streamproof-store-changelog", 0)
NOBODY = 65534

_, role, name, argument = sys.argv


def opened(directory: Path) -> KeyValueStore:
    """The store, opened."""
    store = cast(KeyValueStore, BUILTIN[name]())
    configs = {PROCESSING_GUARANTEE_CONFIG: EXACTLY_ONCE}
    store.init(StateStoreContext(directory, app_configs=configs), store)
    return store


def try_to_open(directory: Path) -> None:
    """Print the error that opening raises; anything but an error of a store is a traceback."""
    try:
        opened(directory)
    except StoreError as error:
        print(f"{type(error).__name__}: {error}")  # noqa: T201  # This is the output.


def holder() -> None:
    """Have the store open until the input ends."""
    store = opened(Path(argument))
    store.put(b"held", b"1")
    print("open", flush=True)  # noqa: T201  # This is the output.
    sys.stdin.read()
    store.commit({PARTITION: 77})
    store.close()


def unprivileged() -> None:
    """Try to open the store as a user to whom the directory does not belong."""
    with tempfile.TemporaryDirectory() as scratch:
        # Whatever is imported late must be imported while the files can be read.
        opened(Path(scratch)).close()
    # The directories above need not be accessible then.
    os.chdir(argument)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    try_to_open(Path())


def few_files() -> None:
    """Try to open the store with no more than three files that may be opened for it."""
    with tempfile.TemporaryDirectory() as scratch:
        opened(Path(scratch)).close()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 3, limits[1]))
    try_to_open(Path(argument))
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    store = opened(Path(argument))
    print(len(list(store.all())), store.committed_offset(PARTITION))  # noqa: T201
    store.close()


{"holder": holder, "unprivileged": unprivileged, "few_files": few_files}[role]()
