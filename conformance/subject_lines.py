"""Which lines of Python belong to the subject, and how a report shows such a line."""

from __future__ import annotations

import functools
import linecache
import sysconfig
import traceback
from pathlib import Path

from streamproof.conformance.violations import brief

__all__ = ["is_of_subject", "line_at", "told"]

_HARNESS = str(Path(__file__).resolve().parent)
"""Lines of the suite itself are no crash points of the subject; those of its mutants are."""

_MUTANTS = str(Path(_HARNESS) / "mutants")

_STANDARD_LIBRARY = (sysconfig.get_path("stdlib"), "<frozen ")
"""Lines of Python's own library are no crash points either. Opening a store runs thousands of them.
Those that write make system calls, which are points of their own."""


@functools.cache
def is_of_subject(file: str) -> bool:
    """Whether the lines of a file belong to the subject."""
    if file.startswith(_HARNESS):
        return file.startswith(_MUTANTS)
    # Packages may be installed below the standard library.
    return not file.startswith(_STANDARD_LIBRARY) or "-packages" in file


def line_at(file: str, number: int) -> str:
    """A line of a file, such as ``store.py:63 self.file.write(row)``."""
    return f"{Path(file).name}:{number} {linecache.getline(file, number).strip()}".strip()


def told(error: BaseException) -> str:
    """An exception in one line, with the line of the subject that raised it, if there is one."""
    frames = traceback.walk_tb(error.__traceback__)
    places = [(frame.f_code.co_filename, line) for frame, line in frames]
    mine = [each for each in places if is_of_subject(each[0])]
    return brief(error) + (f" ({brief(line_at(*mine[-1]))})" if mine else "")
