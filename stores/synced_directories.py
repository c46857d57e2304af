"""Directories that are still there after a loss of power."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["make_directory", "sync_directory"]


def make_directory(directory: Path) -> None:
    """Make a directory, and those above it that are missing, so that they last.

    Raises:
        OSError: it cannot be made, or is a file.
    """
    if not directory.is_dir():
        make_directory(directory.parent)
        directory.mkdir(exist_ok=True)
        sync_directory(directory.parent)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory last, which to sync a file does not do: ``fsync(2)``."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
