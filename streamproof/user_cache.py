"""The directory for files that take long to make and can be made again."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["user_cache"]


def user_cache() -> Path:
    """Our directory in the user's cache. It may be unusable, and need not exist."""
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        home = Path("/nonexistent")
    return Path(home) / "streamproof"
