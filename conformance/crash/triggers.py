"""What kills a process at a given point: a line of Python, or a write-like system call."""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from types import FrameType
from typing import Any

from streamproof.stores.errors import UsageError

__all__ = [
    "Control",
    "arm_lines",
    "arm_syscalls",
    "build_shim",
    "count_lines",
    "counted_syscalls",
    "disarm",
    "shim_is_loaded",
]

COUNT_ONLY = -1
"""Armed with this number, a trigger counts and never kills."""

_HARNESS = str(Path(__file__).resolve().parent.parent)
"""Lines of the suite itself are no crash points of the subject; those of its mutants are."""

_MUTANTS = str(Path(_HARNESS) / "mutants")


def arm_lines(n: int) -> None:
    """Kill this process before the n-th line of Python that is run from now on."""
    remaining = n

    def on_line() -> None:
        nonlocal remaining
        remaining -= 1
        if remaining == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    _trace(on_line)


def count_lines(report: Callable[[int], None]) -> None:
    """From now on, tell ``report`` the number of lines of Python that were run."""
    count = 0

    def on_line() -> None:
        nonlocal count
        count += 1
        report(count)

    _trace(on_line)


def _trace(on_line: Callable[[], None]) -> None:
    def tracer(frame: FrameType, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if name.startswith(_HARNESS) and not name.startswith(_MUTANTS):
            # Returning None leaves this frame untraced; frames that it calls still are.
            return None
        if event == "line":
            on_line()
        return tracer

    sys.settrace(tracer)


def disarm() -> None:
    """Stop counting lines and system calls."""
    sys.settrace(None)
    if shim_is_loaded():
        _shim().streamproof_arm(*map(ctypes.c_long, (0, 0, 0)))


def shim_is_loaded() -> bool:
    """Whether this process was started with the shim, so that system calls can be counted."""
    return hasattr(_shim(), "streamproof_arm")


def arm_syscalls(n: int, *, error: int = 0, lasting: bool = False) -> None:
    """Act at the n-th write-like system call from now on; -1 only counts.

    Without an ``error`` this process is killed before that call. With one, an errno, the call is
    not made and fails with it; with ``lasting``, so does every one after it.

    Raises:
        UsageError: the shim is not loaded.
    """
    if not shim_is_loaded():
        raise UsageError(
            "System calls cannot be counted here: call count_system_calls() of "
            "streamproof.conformance.lab first, before anything else."
        )
    _shim().streamproof_arm(*map(ctypes.c_long, (n, error, lasting)))


def counted_syscalls() -> int:
    """How many write-like system calls there were since ``arm_syscalls``."""
    return int(_shim().streamproof_count())


class Control:
    """The shim of another process, which is started with ``environment``.

    Args:
        path: the file of the control block; it is made anew.
    """

    _LAYOUT = struct.Struct("4q")
    _VARIABLE = "STREAMPROOF_SHIM_CONTROL"

    def __init__(self, path: Path) -> None:
        self.environment = {self._VARIABLE: str(path)}
        path.write_bytes(bytes(self._LAYOUT.size))
        with path.open("r+b") as file:
            self._block = mmap.mmap(file.fileno(), self._LAYOUT.size)

    def arm(self, n: int, *, error: int = 0, lasting: bool = False) -> None:
        """As :func:`arm_syscalls`; 0 disarms."""
        # The number comes last: the other process acts on it.
        self._LAYOUT.pack_into(self._block, 0, 0, 0, error, lasting)
        struct.pack_into("q", self._block, 0, n)

    @property
    def counted(self) -> int:
        """How many write-like system calls there were since ``arm``."""
        return int(self._LAYOUT.unpack_from(self._block)[1])


def _shim() -> ctypes.CDLL:
    shim = ctypes.CDLL(None)
    if hasattr(shim, "streamproof_count"):
        shim.streamproof_count.restype = ctypes.c_long
    return shim


def build_shim(directory: Path) -> Path | None:
    """Compile the shim into ``directory``; ``None`` if there is no C compiler that can."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    source = directory / "shim.c"
    target = directory / "streamproof-shim.so"
    source.write_bytes(files(__package__).joinpath("shim.c").read_bytes())
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(target), str(source), "-ldl"]
    done = subprocess.run(command, capture_output=True, check=False)
    return target if done.returncode == 0 and target.is_file() else None
