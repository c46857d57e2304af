"""Where the databases of a run have room.

A store whose disk is full raises, loses writes, or dies, and is right to do so.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

__all__ = ["memory_with_room", "why_no_room"]

LEAST_FREE_BYTES = 16 * 1024**2
"""With less free space, nothing that a check found can be trusted. One file of a database seldom
needs more at once."""

MEMORY_NEEDED_BYTES = 2 * 1024**3
"""The free space that the memory file system must have to hold databases."""


def memory_with_room() -> Path | None:
    """The memory file system, if databases may be kept there; else the default place is right.

    The page cache outlives a killed process, so a memory file system shows the same crashes as a
    disk, and is much faster.
    """
    memory = Path("/dev/shm")  # noqa: S108 - private directories are made in it.
    if not os.access(memory, os.W_OK | os.X_OK):
        return None
    return memory if shutil.disk_usage(memory).free >= MEMORY_NEEDED_BYTES else None


def why_no_room(directory: Path) -> str:
    """Why nothing can be judged in a directory, and what to do; empty if there is room."""
    if shutil.disk_usage(directory).free >= LEAST_FREE_BYTES:
        return ""
    return (
        "the disk of the work directory is full; free some space, or choose another directory "
        "with --work-dir"
    )
