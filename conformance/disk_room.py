"""Whether the disk has room for the databases of a run.

A store whose disk is full raises, loses writes, or dies, and is right to do so.
"""

from __future__ import annotations

import shutil
from pathlib import Path

__all__ = ["why_no_room"]

LEAST_FREE_BYTES = 16 * 1024**2
"""With less free space, nothing that a check found can be trusted. One file of a database seldom
needs more at once."""


def why_no_room(directory: Path) -> str:
    """Why nothing can be judged in a directory, and what to do; empty if there is room."""
    if shutil.disk_usage(directory).free >= LEAST_FREE_BYTES:
        return ""
    return (
        "the disk of the work directory is full; free some space, or choose another directory "
        "with --work-dir"
    )
