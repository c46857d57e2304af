"""Kills a process at a given point: before a line of Python, or a write-like system call."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from streamproof.conformance.subject_lines import is_of_subject, own_line, places_of
from streamproof.conformance.violations import Lacking
from streamproof.errors import UsageError
from streamproof.stores.host import client as host
from streamproof.stores.syscalls.preloaded_libraries import preloaded
from streamproof.stores.syscalls.shim_control import Control

__all__ = [
    "arm_lines",
    "arm_syscalls",
    "count_lines",
    "counted_syscalls",
    "described_call",
    "die",
    "disarm",
    "require_seen",
    "share_fate",
    "shim_is_loaded",
    "tell_calls",
    "trace_lines",
    "why_unseen",
]

WHY_UNSEEN = "STREAMPROOF_UNSEEN"
"""The variable that tells a process why it may lack the libraries that see system calls."""

COUNT_ONLY = -1
"""Armed with this number, a trigger counts and never kills."""

TRACE_SIGNAL = signal.SIGRTMAX - 1
"""At this signal, ``faulthandler`` writes the traceback of the thread that gets it."""

_fate: list[Control] = []
"""The shim of the hosts, if the subject lives in them; at most one."""


def arm_lines(n: int, tell: Callable[[str], object] = str) -> None:
    """Kill this process before the n-th line of Python that is run from now on.

    Before it dies, the process tells the subject's own line, with its file and its number.
    """
    remaining = n

    def on_line(frame: FrameType) -> None:
        nonlocal remaining
        remaining -= 1
        if remaining == 0:
            tell(own_line(places_of(frame)))
            die()

    trace_lines(on_line)


def count_lines(report: Callable[[int], None]) -> None:
    """From now on, report the number of executed lines of Python to ``report``."""
    count = 0

    def on_line(_: FrameType) -> None:
        nonlocal count
        count += 1
        report(count)

    trace_lines(on_line)


def described_call(told: str, trace: str, directory: Path) -> tuple[str, str]:
    """A system call in words, and the line of the subject in which it was made.

    Args:
        told: the call, as the shim has written it down; empty if it made none.
        trace: the traceback of the thread that made the call, as ``faulthandler`` writes it.
        directory: the directory to which paths are shown relative.
    """
    name, size, *paths = told.split("\n") if told else ("", "-1")
    files = [_relative(each, directory) for each in paths if each]
    amount = "" if size == "-1" else f"{int(size):,} bytes"
    if len(files) > 1 or "write" not in name:
        to = f" to {files[1] if len(files) > 1 else amount}" if len(files) > 1 or amount else ""
        call = f"{name} of {files[0] if files else 'a file'}{to}"
    else:
        call = f"{name} of {amount} to {files[0] if files else 'a file'}"
    lines = re.findall(r'File "(.*)", line (\d+) in', trace)
    return call if told else "", own_line((file, int(number)) for file, number in lines)


def _relative(path: str, directory: Path) -> str:
    """A path below a directory, relative to it; of any other path the last name."""
    below = Path(path).is_relative_to(directory)
    return str(Path(path).relative_to(directory)) if below else Path(path).name


def trace_lines(on_line: Callable[[FrameType], None]) -> None:
    """From now on, call ``on_line`` before each line of the subject that this thread runs."""
    if _fate:
        # The subject lives in another process, so no line of this process belongs to it.
        return

    def tracer(frame: FrameType, event: str, _: Any) -> Any:
        if not is_of_subject(frame.f_code.co_filename):
            # Returning None leaves this frame untraced, but not the frames that it calls.
            return None
        if event == "line":
            on_line(frame)
        return tracer

    sys.settrace(tracer)


def disarm() -> None:
    """Stop counting lines and system calls."""
    sys.settrace(None)
    if _fate:
        _fate[0].arm(0)
    elif shim_is_loaded():
        preloaded().streamproof_arm(*map(ctypes.c_long, (0, 0, 0)))


def shim_is_loaded() -> bool:
    """Whether this process was started with the shim, and so can count system calls."""
    return hasattr(preloaded(), "streamproof_arm")


def why_unseen() -> str:
    """Why this process cannot see system calls, and what to do; empty if it sees them.

    Every check, report and replay takes its reason from here.
    """
    if shim_is_loaded():
        return ""
    return os.environ.get(WHY_UNSEEN, "this process was started without the shim")


def require_seen() -> None:
    """Skip what needs to see system calls, in a process that cannot.

    Raises:
        Lacking: this process does not see system calls.
    """
    if why := why_unseen():
        raise Lacking(why)


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
        preloaded().streamproof_arm(*map(ctypes.c_long, (n, error, lasting)))


def counted_syscalls() -> int:
    """The number of write-like system calls since ``arm_syscalls``."""
    if _fate:
        return _fate[0].counted
    return int(preloaded().streamproof_count())


def tell_calls(descriptor: int) -> None:
    """From now on, write down the call at which this process dies or a call fails, in a file.

    The block of a :class:`Control` is at the start of the file, and the traceback of the thread
    that makes the call at the position of the descriptor.
    """
    if shim_is_loaded():
        preloaded().streamproof_share(os.fsencode(_file_of(descriptor)))
        faulthandler.register(TRACE_SIGNAL, file=descriptor, all_threads=False)
        preloaded().streamproof_trace(ctypes.c_int(TRACE_SIGNAL))


def _file_of(descriptor: int) -> Path:
    """The file of an open descriptor, for any process."""
    return Path(f"/proc/{os.getpid()}/fd/{descriptor}")


def share_fate(descriptor: int | None = None) -> None:
    """From now on, arm the store hosts of this process instead of itself, and die with them.

    The block of their :class:`Control` is in the file of a descriptor, or in one of its own.
    """
    # A file without a name vanishes with its last user, even if all of them are killed.
    block = os.memfd_create("streamproof-shim") if descriptor is None else descriptor
    _fate[:] = [Control(_file_of(block))]
    os.environ.update(_fate[0].environment)
    host.die_with_hosts(_fate[0].has_killed)


def die() -> NoReturn:
    """Kill the store hosts of this process, and then the process itself, by SIGKILL."""
    host.kill_hosts()
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")
