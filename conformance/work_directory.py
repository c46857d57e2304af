"""Where the databases of a run are."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from streamproof.conformance.disk_room import memory_with_room, why_no_room
from streamproof.conformance.owned_directories import WORK, delete_abandoned, own_directory
from streamproof.errors import UsageError

__all__ = ["work_directory"]


@contextlib.contextmanager
def work_directory(parent: Path | None = None) -> Iterator[Path]:
    """A directory for the databases of a run, deleted at its end; see :func:`memory_with_room`.

    Args:
        parent: the folder for the directory. Abandoned directories in that folder stay, because
            locks may not work on a file system that several machines share.

    Raises:
        UsageError: the directory cannot be made, or has no room.
    """
    place = memory_with_room() if parent is None else parent
    try:
        if parent is None:
            delete_abandoned(place)
        owned = own_directory(WORK, place)
    except OSError as error:
        raise UsageError(
            f"The work directory cannot be made in {place}: {error.strerror}. "
            "Choose another one with --work-dir."
        ) from error
    try:
        if no_room := why_no_room(owned.path):
            raise UsageError(f"Nothing was judged in {owned.path.parent}: {no_room}.")
        yield owned.path
    finally:
        owned.delete()
