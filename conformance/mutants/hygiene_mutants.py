"""Stores that leak resources; see the table in the package."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path
from typing import ClassVar

from streamproof.stores.api import StateStore, StateStoreContext
from streamproof.stores.rocksdb import RocksDBStore

NAME = "store"

SLEEP_S = 600
"""The lifetime of a leaked process in seconds, if nothing ends the process earlier."""


class rows_beside_the_task(RocksDBStore):
    """Keeps its files in a directory of its own choice."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def _plain_directory(self, context: StateStoreContext) -> Path:
        return context.state_dir.parent / f"shared-{context.task_id}"


class notes_beside_the_task(RocksDBStore):
    """Writes a log file outside the task directory."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def close(self) -> None:
        if self.is_open and self._context is not None:
            notes = self._context.state_dir.parent / "notes.txt"
            with notes.open("a") as file:
                file.write(f"{self.name} was closed\n")
        super().close()


class file_stays_open(RocksDBStore):
    """Opens a file and forgets to close it."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def close(self) -> None:
        if self.is_open and self._context is not None:
            os.open(self._context.state_dir / "closed", os.O_CREAT | os.O_WRONLY)
        super().close()


class handles_pile_up(RocksDBStore):
    """Makes a pipe at every opening, to wake a thread that no longer exists."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        os.pipe()


class threads_pile_up(RocksDBStore):
    """Starts a thread at every opening that waits forever."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        threading.Thread(target=threading.Event().wait, daemon=True).start()


class processes_pile_up(RocksDBStore):
    """Starts a process at every opening and never ends it."""

    processes: ClassVar[list[subprocess.Popen[bytes]]] = []

    def __init__(self) -> None:
        super().__init__(NAME)

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        # A daemon has its own session, so the process does not end with its parent's group.
        self.processes.append(subprocess.Popen(["sleep", str(SLEEP_S)], start_new_session=True))


class refused_opening_holds_a_file(RocksDBStore):
    """Opens a file before the database, and leaves it open if the database cannot be opened."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        marker = os.open(context.state_dir / "opening", os.O_CREAT | os.O_WRONLY)
        super().init(context, root)
        os.close(marker)


class claims_prefix_scans(RocksDBStore):
    """Claims prefix scans without the method for them."""

    prefix_scan = None  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__(NAME)
