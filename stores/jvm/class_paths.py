"""Which of two class paths comes first.

The archive of classes is for a class path that begins with the jars of the host. The jars of a user
come first, because they may have another build of Kafka. They can as well come last if that changes
nothing: if no class or resource is in both, but for jars that both have.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit
from zipfile import BadZipFile, ZipFile

__all__ = ["may_come_last"]

_MANIFEST = "META-INF/MANIFEST.MF"


def may_come_last(class_path: Sequence[str], jars: Sequence[Path]) -> bool:
    """Whether a class path may follow some jars, and every file is found where it was before.

    Args:
        class_path: jars and directories, as ``java -cp`` takes them.
        jars: the jars before it.
    """
    try:
        known = {name for jar in jars for name in _files_of(jar)}
        have = {(jar.name, jar.stat().st_size) for jar in jars}
        return not any(
            name in known
            for entry in _expanded(class_path)
            if entry.is_dir() or (entry.name, entry.stat().st_size) not in have
            for name in _files_of(entry)
        )
    except (OSError, BadZipFile):
        # The JVM says what is wrong with an entry.
        return False


def _expanded(class_path: Sequence[str]) -> Iterator[Path]:
    """The entries that exist, with the jars behind a wildcard and those that a manifest names."""
    seen = set()
    left = [Path(each) for each in reversed(class_path)]
    while left:
        entry = left.pop()
        if entry.name == "*":
            left += [each for each in entry.parent.iterdir() if each.suffix.lower() == ".jar"]
        elif entry.exists() and entry not in seen:
            seen.add(entry)
            yield entry
            left += [] if entry.is_dir() else _named_by(entry)


def _named_by(jar: Path) -> list[Path]:
    """The jars and directories that the manifest of a jar adds to the class path."""
    with ZipFile(jar) as opened:
        if _MANIFEST not in opened.namelist():
            return []
        text = opened.read(_MANIFEST).decode("utf-8", "replace")
    # A long line goes on behind a line break and a space.
    found = re.search(r"^Class-Path: (.*)$", re.sub(r"\r?\n ", "", text), re.MULTILINE)
    base = jar.absolute().as_uri()
    urls = found[1].split() if found else []
    return [Path(unquote(urlsplit(urljoin(base, each)).path)) for each in urls]


def _files_of(entry: Path) -> Iterator[str]:
    """The classes and resources in a jar or a directory: the files in folders of packages."""
    found: Iterator[str]
    if entry.is_dir():
        found = (
            (Path(folder) / each).relative_to(entry).as_posix()
            for folder, _, names in os.walk(entry)
            for each in names
        )
    else:
        with ZipFile(entry) as opened:
            found = iter([each for each in opened.namelist() if not each.endswith("/")])
    # Each jar has its own description there, and a license at its top.
    yield from (each for each in found if "/" in each and not each.startswith("META-INF/"))
