"""Temporary directories that outlive their owner only until somebody makes the next one.

A process that is killed leaves its directory behind. So it locks a file beside the directory. The
kernel unlocks the file when the process and all its forks are gone, and whoever makes the next
directory deletes both.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

__all__ = ["LAB", "LOCK", "WORK", "OwnedDirectory", "delete_abandoned", "own_directory"]

LAB = "streamproof-lab-"
"""The prefix of the names of the directories of labs."""

WORK = "streamproof-work-"
"""The prefix of the names of the work directories of runs."""

LOCK = ".lock"
"""The suffix of the locked file beside a directory."""


class OwnedDirectory(NamedTuple):
    """A directory that this process and its forks own.

    Attributes:
        path: the directory.
        lock: the locked file beside the directory.
        descriptor: the open file, which holds the lock.
    """

    path: Path
    lock: Path
    descriptor: int

    def delete(self) -> None:
        """Delete the directory, and give the lock back."""
        _delete(self.path, self.lock)
        with contextlib.suppress(OSError):
            os.close(self.descriptor)


def own_directory(prefix: str, place: Path | None) -> OwnedDirectory:
    """Make a directory whose name begins with a prefix.

    Args:
        prefix: the start of the name.
        place: the folder of the directory; by default that of temporary files.

    Raises:
        OSError: the directory cannot be made.
    """
    descriptor, name = tempfile.mkstemp(prefix=prefix, suffix=LOCK, dir=place)
    lock = Path(name)
    # If this file system has no locks, no other process can lock and delete the directory either.
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    lock.with_suffix("").mkdir(mode=0o700)
    return OwnedDirectory(lock.with_suffix(""), lock, descriptor)


def delete_abandoned(place: Path | None) -> None:
    """Delete the directories of labs and runs whose owners were killed."""
    folder = place or Path(tempfile.gettempdir())
    for lock in (*folder.glob(f"{LAB}*{LOCK}"), *folder.glob(f"{WORK}*{LOCK}")):
        # The lock may be gone by now, belong to another user, or be in use.
        with contextlib.suppress(OSError):
            descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found = os.fstat(descriptor)
                if found.st_uid == os.geteuid() and found.st_nlink:
                    _delete(lock.with_suffix(""), lock)
            finally:
                os.close(descriptor)


def _delete(directory: Path, lock: Path) -> None:
    """Delete a directory. If a file remains, the lock stays, so that somebody tries again."""
    shutil.rmtree(directory, ignore_errors=True)
    if not directory.exists():
        lock.unlink(missing_ok=True)
