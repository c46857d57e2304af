"""Directories in the user's cache that are built once for each release of Kafka."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from hashlib import blake2b
from pathlib import Path

from streamproof.errors import UsageError
from streamproof.user_cache import made_user_cache, user_cache

__all__ = ["built_once"]

UNUSED_S = 60 * 24 * 3600.0
"""What was not used for so long is deleted when something else is built, in seconds."""


def built_once(
    name: str,
    depends_on: Iterable[str],
    make: Callable[[Path], None],
    finish: Callable[[Path], None] | None = None,
) -> Path:
    """A directory of the cache, which is built unless it is there.

    Args:
        name: the beginning of its name, which itself begins with ``kafka-`` and the release.
        depends_on: all else that the content depends on; the name ends with a digest of it.
        make: fills the directory while it has another name, which nobody else uses.
        finish: adds to the directory in its place what needs its path, and may be missing.

    Raises:
        UsageError: the cache cannot be written.
    """
    digest = blake2b("\0".join(depends_on).encode(), digest_size=8).hexdigest()
    target = user_cache() / f"{name}-{digest}"
    if target.is_dir():
        # The time tells which builds are in use. The cache may be read-only.
        with contextlib.suppress(OSError):
            os.utime(target)
        return target
    try:
        building = Path(tempfile.mkdtemp(dir=made_user_cache(), prefix=f"{target.name}-"))
    except OSError as error:
        raise UsageError(
            f"What is built for Kafka cannot be kept in {target.parent} ({error.strerror}). Set "
            "XDG_CACHE_HOME to another directory."
        ) from error
    try:
        make(building)
        _rename(building, target)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    if finish is not None:
        finish(target)
    _delete_unused(target.parent)
    return target


def _rename(building: Path, target: Path) -> None:
    """Put what was built in its place, unless another process was faster."""
    try:
        building.rename(target)
    except OSError:
        if not target.is_dir():
            raise


def _delete_unused(cache: Path) -> None:
    """Delete the builds that nobody has used for a long time: each has 20 MB."""
    for path in cache.glob("kafka-*"):
        # Another process may delete the same directory.
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < time.time() - UNUSED_S:
                shutil.rmtree(path)
