"""The archive of the classes that a Spark session loads; with it, the next session starts sooner.

To load and check thousands of classes is a quarter of a report on a few runs. A JVM can write the
classes that it has loaded to a file when it ends, and another JVM maps that file. The JVM that
writes takes 4 s longer, and 5 s more after the command has ended; the file has 170 MB. Where the
cache does not outlive the machine this would be in vain, so nothing is written in a job of CI.

Source: Java, ``-XX:ArchiveClassesAtExit`` and ``-XX:SharedArchiveFile`` (JEP 350).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

from streamproof.user_cache import made_user_cache

__all__ = ["archive_options"]

_MAGIC = (0xF00BABA8).to_bytes(4, "little")
"""The first bytes of an archive. Java writes them last, so a file that has them is whole."""

_LEAST_BYTES = 2 * 1024**3
"""The free space on the disk of the cache below which no archive is made."""

_GIVEN_UP_S = 3600.0
"""The age at which a file that is not whole is deleted."""


def archive_options(java: str, spark: str, *, makes: bool) -> str:
    """The options of a JVM that uses the archive, or makes it if there is none yet.

    Args:
        java: what ``java -version`` prints.
        spark: the version of Spark, and where it is installed. Java itself ignores an archive of
            other jars.
        makes: whether the JVM may make an archive.

    Returns:
        The options as one text, quoted. The text is empty where Java has no archives, the cache is
        unusable, or there is no archive and none may be made: ``makes`` is false, the environment
        has the variable ``CI``, or the disk is nearly full.
    """
    # Other virtual machines have no such archives, or other options for them.
    if "Server VM" not in java:
        return ""
    digest = hashlib.sha256(f"{java}\n{spark}".encode()).hexdigest()[:16]
    name = f"spark-{digest}"
    with suppress(OSError):
        cache = made_user_cache()
        _take_over_made(cache, name)
        archive = _whole(cache, name)
        if archive is not None:
            # Without a log, Java does not complain of an archive that it cannot use.
            return f'"-XX:SharedArchiveFile={archive}" -Xshare:auto -Xlog:disable'
        is_kept = makes and "CI" not in os.environ and os.access(cache, os.W_OK)
        if is_kept and shutil.disk_usage(cache).free >= _LEAST_BYTES:
            made = cache / f"{name}.{os.getpid()}.made"
            return f'"-XX:ArchiveClassesAtExit={made}" -Xlog:disable'
    return ""


def _take_over_made(cache: Path, name: str) -> None:
    """Name an archive that a JVM has made; delete what a JVM did not finish, or made in vain."""
    for made in cache.glob(f"{name}.*.made"):
        with made.open("rb") as file:
            is_whole = file.read(len(_MAGIC)) == _MAGIC
        found = made.stat()
        is_old = time.time() - found.st_mtime > _GIVEN_UP_S
        if is_whole and _whole(cache, name) is None:
            made.replace(cache / f"{name}.{found.st_size}.jsa")
        elif is_whole or is_old:
            made.unlink()


def _whole(cache: Path, name: str) -> Path | None:
    """The archive, which has its size in its name: Java crashes with one that was cut off."""
    for archive in cache.glob(f"{name}.*.jsa"):
        if archive.name == f"{name}.{archive.stat().st_size}.jsa":
            return archive
    return None
