"""Which lines of Python belong to the subject, and how a report shows them."""

from __future__ import annotations

import functools
import linecache
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from itertools import dropwhile, takewhile
from pathlib import Path
from types import FrameType

from streamproof.conformance.violations import brief
from streamproof.stores import error_translation, host

__all__ = ["is_of_subject", "own_line", "places_of", "told", "traceback_of"]

_HARNESS = str(Path(__file__).resolve().parent)
"""Lines of the suite itself are no crash points of the subject; those of its mutants are."""

_MUTANTS = str(Path(_HARNESS) / "mutants")

_STANDARD_LIBRARY = (sysconfig.get_path("stdlib"), "<frozen ")
"""Lines of Python's own library are no crash points either. Opening a store runs thousands of them.
Those that write make system calls, which are points of their own."""

_STORES = str(Path(host.__file__).parent.parent)
"""Our stores, and the defaults of the contract, on which a subject may be built."""

_PASSING_ON = (str(Path(host.__file__).parent), error_translation.__file__)
"""Lines that pass on an error of others, which say nothing: among them the client of a store in
another process."""

MOST_LINES = 60
"""The most lines of a traceback. Of a longer one, the middle is left out."""


@functools.cache
def is_of_subject(file: str) -> bool:
    """Whether the lines of a file belong to the subject."""
    if file.startswith(_HARNESS):
        return not _is_of_harness(file)
    # Packages may be installed below the standard library.
    return not file.startswith(_STANDARD_LIBRARY) or "-packages" in file


Place = tuple[str, int]
"""A file, and the number of a line in it."""


def places_of(frame: FrameType) -> Iterator[Place]:
    """The lines that run in a frame and in its callers, from the inside out."""
    outer: FrameType | None = frame
    while outer is not None:
        yield outer.f_code.co_filename, outer.f_lineno
        outer = outer.f_back


def own_line(places: Iterable[Place]) -> str:
    """The innermost line of the subject's own code among places from the inside out, if any.

    A store that is built on ours runs lines of ours. They are shown only if no line of its own has
    called them: if the store is ours, or the method is a default of the contract.
    """
    stack = [*places]
    suite = [n for n, (file, _) in enumerate(stack) if _is_of_harness(file)]
    # Further out are those who called the suite. A thread of the subject has no suite around it.
    called = stack[: suite[-1]] if suite else stack
    inside = dropwhile(lambda each: not is_of_subject(each[0]), called)
    mine = takewhile(lambda each: not _is_of_harness(each[0]), inside)
    shown = [each for each in mine if is_of_subject(each[0])]
    own = [each for each in shown if not each[0].startswith(_STORES)]
    return _line_at(*(own or shown)[0]) if shown else ""


def _is_of_harness(file: str) -> bool:
    return file.startswith(_HARNESS) and not file.startswith(_MUTANTS)


def _line_at(file: str, number: int) -> str:
    """A line of a file, such as ``store.py:63 self.file.write(row)``."""
    return f"{Path(file).name}:{number} {linecache.getline(file, number).strip()}".strip()


def told(error: BaseException) -> str:
    """An exception in one line, with the line of the subject that raised it, if there is one."""
    frames = traceback.walk_tb(error.__traceback__)
    places = [(frame.f_code.co_filename, line) for frame, line in frames]
    mine = [each for each in places if is_of_subject(each[0]) and not _is_of_suite(each[0])]
    return brief(error) + (f" ({brief(_line_at(*mine[-1]))})" if mine else "")


def traceback_of(error: BaseException) -> str:
    """The traceback of an exception in the code of the subject; empty if none of it was running.

    The traceback begins with the first call of the subject, and has no lines of the suite. Files
    are named as below the directory from which Python imports them.
    """
    whole = traceback.TracebackException.from_exception(error)
    if not _cut(whole):
        return ""
    lines = [brief(line) for line in "".join(whole.format()).splitlines()]
    if len(lines) > MOST_LINES:
        half = MOST_LINES // 2
        left_out = f"  … {len(lines) - 2 * half} lines are left out …"
        lines = [*lines[:half], left_out, *lines[-half:]]
    return "\n".join(lines)


def _cut(raised: traceback.TracebackException) -> bool:
    """Leave out the frames of the suite, and causes without any other; whether a frame is left."""
    mine = dropwhile(lambda frame: not is_of_subject(frame.filename), raised.stack)
    kept = [frame for frame in mine if not _is_of_suite(frame.filename)]
    raised.stack = traceback.StackSummary.from_list(
        [
            traceback.FrameSummary(_short(each.filename), each.lineno, each.name, line=each.line)
            for each in kept
        ]
    )
    if raised.__cause__ and not _cut(raised.__cause__):
        raised.__cause__ = None
    if raised.__context__ and not _cut(raised.__context__):
        raised.__context__ = None
    return bool(kept or raised.__cause__ or raised.__context__)


def _is_of_suite(file: str) -> bool:
    return _is_of_harness(file) or file.startswith(_PASSING_ON)


def _short(file: str) -> str:
    """The name of a file below the directory from which Python imports it."""
    path = Path(file)
    above = [Path(each or ".").resolve() for each in sys.path]
    names = [str(path.relative_to(each)) for each in above if path.is_relative_to(each)]
    return min(names, key=len, default=file)
