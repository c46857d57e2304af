"""Where Python looks for the modules that a subject names."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["search_directory"]


def search_directory(directory: str | Path | None = None) -> None:
    """Let modules in a directory be imported, as pytest and other tools allow it.

    The console script of streamproof does not put the current directory into ``sys.path``, so
    without this call ``streamproof verify mystore:make`` would not find ``mystore.py``.

    Args:
        directory: the directory; the current one, if it is not given.
    """
    place = str(directory or Path.cwd())
    if place not in sys.path:
        sys.path.insert(0, place)
