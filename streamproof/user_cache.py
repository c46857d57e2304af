"""The directory for files that take long to make and can be made again."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["made_user_cache", "user_cache"]


def user_cache() -> Path:
    """Our directory in the user's cache. It may be unusable, and need not exist."""
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        home = Path("/nonexistent")
    return Path(home) / "streamproof"


def made_user_cache() -> Path:
    """Our directory in the user's cache, made for this user alone if it is missing.

    Raises:
        OSError: it cannot be made.
    """
    directory = user_cache()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory
