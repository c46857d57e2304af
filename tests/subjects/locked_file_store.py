"""The dictionary in a file, with a lock that keeps other processes out of its directory."""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path

from streamproof.stores.api import StateStore, StateStoreContext
from streamproof.stores.errors import ProcessorStateError

sys.path.append(str(Path(__file__).resolve().parent))

from file_store import FileStore


class LockedFileStore(FileStore):
    """The store; ``FileStore`` is the same one without the lock."""

    def __init__(self) -> None:
        super().__init__()
        self.locked: int | None = None

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        self.lock(context.state_dir / "lock")
        super().init(context, root)

    def lock(self, path: Path) -> None:
        """Keep other processes out until ``close``."""
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise ProcessorStateError(f"Another process has locked {path}.") from error
        self.locked = descriptor

    def close(self) -> None:
        super().close()
        if self.locked is not None:
            os.close(self.locked)
            self.locked = None
