"""Kills a process at a given point: before a line of Python, or a write-like system call."""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import signal
import struct
import sys
import sysconfig
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from streamproof.conformance.crash.preloaded_libraries import build_library
from streamproof.errors import UsageError
from streamproof.stores.host import client as host

__all__ = [
    "Control",
    "arm_lines",
    "arm_syscalls",
    "build_shim",
    "count_lines",
    "counted_syscalls",
    "die",
    "disarm",
    "share_fate",
    "shim_is_loaded",
]

COUNT_ONLY = -1
"""Armed with this number, a trigger counts and never kills."""

_HARNESS = str(Path(__file__).resolve().parent.parent)
"""Lines of the suite itself are no crash points of the subject; those of its mutants are."""

_fate: list[Control] = []
"""The shim of the hosts, if the subject lives in them; at most one."""

_MUTANTS = str(Path(_HARNESS) / "mutants")

_STANDARD_LIBRARY = (sysconfig.get_path("stdlib"), "<frozen ")
"""Lines of Python's own library are no crash points either. Opening a store runs thousands of them.
Those that write make system calls, which are points of their own."""


def arm_lines(n: int) -> None:
    """Kill this process before the n-th line of Python that is run from now on."""
    remaining = n

    def on_line() -> None:
        nonlocal remaining
        remaining -= 1
        if remaining == 0:
            die()

    _trace(on_line)


def count_lines(report: Callable[[int], None]) -> None:
    """From now on, report the number of executed lines of Python to ``report``."""
    count = 0

    def on_line() -> None:
        nonlocal count
        count += 1
        report(count)

    _trace(on_line)


def _trace(on_line: Callable[[], None]) -> None:
    if _fate:
        # The subject lives in another process, so no line of this process belongs to it.
        return

    def tracer(frame: FrameType, event: str, _: Any) -> Any:
        if not _counts(frame.f_code.co_filename):
            # Returning None leaves this frame untraced, but not the frames that it calls.
            return None
        if event == "line":
            on_line()
        return tracer

    sys.settrace(tracer)


@functools.cache
def _counts(file: str) -> bool:
    """Whether the lines of a file are crash points."""
    if file.startswith(_HARNESS):
        return file.startswith(_MUTANTS)
    # Packages may be installed below the standard library.
    return not file.startswith(_STANDARD_LIBRARY) or "-packages" in file


def disarm() -> None:
    """Stop counting lines and system calls."""
    sys.settrace(None)
    if _fate:
        _fate[0].arm(0)
    elif shim_is_loaded():
        _shim().streamproof_arm(*map(ctypes.c_long, (0, 0, 0)))


def shim_is_loaded() -> bool:
    """Whether this process was started with the shim, and so can count system calls."""
    return hasattr(_shim(), "streamproof_arm")


def arm_syscalls(n: int, *, error: int = 0, lasting: bool = False) -> None:
    """Act at the n-th write-like system call from now on; -1 only counts.

    Without an ``error`` this process dies before that call. With an ``error``, an errno, the call
    is not made and fails with that error. With ``lasting``, every later call fails, too.

    Raises:
        UsageError: the shim is not loaded.
    """
    if not shim_is_loaded():
        raise UsageError(
            "System calls cannot be counted here: call Lab.count_system_calls() of "
            "streamproof first, before anything else."
        )
    if _fate:
        _fate[0].arm(n, error=error, lasting=lasting)
    else:
        _shim().streamproof_arm(*map(ctypes.c_long, (n, error, lasting)))


def counted_syscalls() -> int:
    """The number of write-like system calls since ``arm_syscalls``."""
    if _fate:
        return _fate[0].counted
    return int(_shim().streamproof_count())


def share_fate() -> None:
    """From now on, arm the store hosts of this process instead of itself, and die with them."""
    # A file without a name vanishes with its last user, even if all of them are killed.
    block = os.memfd_create("streamproof-shim")
    _fate[:] = [Control(Path(f"/proc/{os.getpid()}/fd/{block}"))]
    os.environ.update(_fate[0].environment)
    host.die_with_hosts()


def die() -> NoReturn:
    """Kill the store hosts of this process, and then the process itself, by SIGKILL."""
    host.kill_hosts()
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


class Control:
    """The shim of another process, which is started with ``environment``.

    Args:
        path: the file for the control block; an old file is replaced.
    """

    _LAYOUT = struct.Struct("4q")
    _VARIABLE = "STREAMPROOF_SHIM_CONTROL"

    def __init__(self, path: Path) -> None:
        self.environment = {self._VARIABLE: str(path)}
        path.write_bytes(bytes(self._LAYOUT.size))
        with path.open("r+b") as file:
            self._block = mmap.mmap(file.fileno(), self._LAYOUT.size)

    def arm(self, n: int, *, error: int = 0, lasting: bool = False) -> None:
        """Arm the other process like :func:`arm_syscalls`; 0 disarms it."""
        # The number comes last, because the other process acts as soon as it is set.
        self._LAYOUT.pack_into(self._block, 0, 0, 0, error, lasting)
        struct.pack_into("q", self._block, 0, n)

    @property
    def counted(self) -> int:
        """The number of write-like system calls since ``arm``."""
        return int(self._LAYOUT.unpack_from(self._block)[1])


def _shim() -> ctypes.CDLL:
    shim = ctypes.CDLL(None)
    if hasattr(shim, "streamproof_count"):
        shim.streamproof_count.restype = ctypes.c_long
    return shim


def build_shim(directory: Path) -> Path | None:
    """The shim, compiled if necessary; ``None`` without a C compiler."""
    return build_library(files(__package__).joinpath("shim.c"), directory, "-ldl")
