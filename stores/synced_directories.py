"""Directories that survive a loss of power."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["make_directory", "sync_directory"]


def make_directory(directory: Path) -> None:
    """Make a directory and its missing parents, and make them durable.

    Raises:
        OSError: a directory cannot be made, or is a file.
    """
    if not directory.is_dir():
        make_directory(directory.parent)
        directory.mkdir(exist_ok=True)
        sync_directory(directory.parent)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable; to sync a file does not do that (``fsync(2)``)."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
