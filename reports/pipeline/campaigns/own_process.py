"""Processes that may hang, die or fork without harm to the worker that started them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

__all__ = ["STDERR", "last_line", "run_alone", "too_long"]

STDERR = "stderr.log"
"""The file in the scratch directory with the standard error of a process."""

TAIL_BYTES = 4096
"""How much of the end of that file is read: a process may have written gigabytes."""

_PR_SET_PDEATHSIG = 1
"""Of ``prctl``: the signal that a process gets when its parent dies."""


def run_alone(
    command: Sequence[str], scratch: Path, limit_s: float, line: bytes | None = None
) -> int | None:
    """Run a command in a session of its own, and end the session with the command.

    No process outlives the worker. A command that gets a line must end when its input ends; any
    other command is killed.

    Args:
        command: the words of the command.
        scratch: the directory for the standard error.
        limit_s: when to end a command that has not ended, in seconds.
        line: a line for the standard input, which stays open until the command has ended.

    Returns:
        The exit code, or the negative number of the signal that ended the process. ``None`` if
        the command took too long.
    """
    with (scratch / STDERR).open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL if line is None else subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=log,
            # All processes that the command starts can be ended with it.
            start_new_session=True,
            preexec_fn=_die_with_parent if line is None else None,  # noqa: PLW1509
        )
    try:
        if process.stdin is not None and line is not None:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(line)
                process.stdin.flush()
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()


_LIBC = ctypes.CDLL(None)


def _die_with_parent() -> None:
    """Let Linux kill this process when its parent dies.

    This runs between fork and exec, where a lock of another thread would never be released; a
    call into a library that is loaded takes none.
    """
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def last_line(scratch: Path) -> str:
    """The last line that a process has written to its standard error, if there is one."""
    with (scratch / STDERR).open("rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - TAIL_BYTES))
        lines = log.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:300] if lines else ""


def too_long(limit_s: float) -> str:
    """The problem of a row that took longer than its plan allows."""
    return f"it took longer than {limit_s:g} s, and was ended; see limit_s in the plan"
