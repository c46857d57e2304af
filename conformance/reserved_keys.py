"""Keys that a store may keep for itself: in the packages that it imports, and in its files.

A store that keeps its offsets among the rows, under a key of its own, loses them as soon as a user
writes that key. Nobody else knows the key, but its bytes stand in the code and on the disk.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from streamproof.conformance.generators import constants_of

__all__ = ["keys_in_imports", "keys_on_disk"]

MODULES = 60
"""The most modules whose constants are looked at."""

KEYS = 120
"""The most keys from either place."""

FILES = 40
"""The most files that are read."""

FILE_BYTES = 256 * 1024
"""The bytes that are read of a file."""

_RUN = re.compile(rb"[\x21-\x7e]{3,80}(?:\x00[\x21-\x7e]{2,80})*")
"""Visible characters, with a zero byte between them at most."""

_WORD = re.compile(rb"[A-Za-z_][A-Za-z0-9_.:-]{2,79}")

_TELLING = re.compile(rb"offset|position|checkpoint|commit|meta|changelog|version|status|__|\x00")
"""What the names of keys for a store's own use contain."""


def keys_in_imports(module: ModuleType | None) -> tuple[bytes, ...]:
    """The constants that look like keys, in a module and in the packages that it imports."""
    found: set[bytes] = set()
    for each in _imported(module):
        found.update(text for text in constants_of(each) if _TELLING.search(text))
    return _first(found)


def _imported(module: ModuleType | None) -> Iterator[ModuleType]:
    """A module and what it imports, the nearest first, without the standard library and ours."""
    waiting = [] if module is None else [module]
    seen = {each.__name__ for each in waiting}
    while waiting and len(seen) <= MODULES:
        current = waiting.pop(0)
        yield current
        for value in list(vars(current).values()):
            home = value if isinstance(value, ModuleType) else None
            name = home.__name__ if home else getattr(value, "__module__", None)
            if isinstance(name, str) and name not in seen and _may_belong(name):
                seen.add(name)
                waiting += [sys.modules[name]] if name in sys.modules else []


def _may_belong(name: str) -> bool:
    """Whether a module may be part of a store: it is neither Python's nor the suite's."""
    top, *below = name.split(".")
    ours = top == "streamproof" and below[:1] != ["stores"]
    return top not in sys.stdlib_module_names and not ours


def keys_on_disk(directory: Path) -> tuple[bytes, ...]:
    """The runs of bytes that look like keys, in the files of a directory."""
    found: set[bytes] = set()
    files = sorted(each for each in directory.rglob("*") if each.is_file())
    for file in files[:FILES]:
        with file.open("rb") as opened:
            content = opened.read(FILE_BYTES)
        for run in _RUN.findall(content):
            found.update(_keys_in(run))
    return _first(found)


def _keys_in(run: bytes) -> Iterator[bytes]:
    """The keys that a run of bytes may hold: its neighbours may be a length and a value."""
    yield from _WORD.findall(run)
    if _TELLING.search(run):
        for start in range(3):
            yield run[start:]
            yield run[start:].rstrip(b"0123456789")


def _first(found: set[bytes]) -> tuple[bytes, ...]:
    """The most telling keys, the shortest first."""
    ranked = sorted(found, key=lambda key: (not _TELLING.search(key), len(key), key))
    return tuple(key for key in ranked if key)[:KEYS]
