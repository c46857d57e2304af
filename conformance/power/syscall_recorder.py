"""Builds, loads and starts the recorder of system calls."""

from __future__ import annotations

import ctypes
import os
import traceback
from collections.abc import Callable
from pathlib import Path

from streamproof.conformance.crash.triggers import (
    WHY_UNSEEN,
    counted_syscalls,
    die,
)
from streamproof.errors import UsageError
from streamproof.stores.syscalls.preloaded_libraries import CannotBuildError, preload, preloaded
from streamproof.stores.syscalls.syscall_trace import SyscallTrace, calls_that_made, read_trace

__all__ = ["mark", "preload_environment", "recorder_is_loaded", "run_recorded"]

REFUSED = (
    "the system did not load {libraries}; allow LD_PRELOAD for the Python that runs streamproof"
)


def preload_environment(directory: Path) -> dict[str, str]:
    """The environment of a process that shall see system calls, or know why it cannot."""
    try:
        libraries = preload(directory)
    except CannotBuildError as error:
        return {WHY_UNSEEN: str(error)}
    return {"LD_PRELOAD": libraries, WHY_UNSEEN: REFUSED.format(libraries=libraries)}


def recorder_is_loaded() -> bool:
    """Whether this process was started with the recorder."""
    return hasattr(preloaded(), "streamproof_record")


def run_recorded(doomed: Callable[[], object], root: Path, log: Path) -> tuple[SyscallTrace, int]:
    """Run ``doomed`` in a process of its own, which is killed at the end of ``doomed``.

    The recorder writes every call that changes a file to ``log``.

    Returns:
        The recorded calls below ``root``, and the status of the process as from ``os.waitpid``:
        killed by SIGKILL, or the exit code 1 if ``doomed`` raised.

    Raises:
        UsageError: the recorder is not loaded.
    """
    if not recorder_is_loaded():
        raise UsageError(
            "System calls cannot be recorded here: call Lab.record_system_calls() of "
            "streamproof first, before anything else."
        )
    before = calls_that_made(root)
    log.write_bytes(b"")
    pid = os.fork()
    if pid == 0:
        try:
            _record(log, root)
            doomed()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        # The log is complete: when the process dies, no call of its threads or of a store host is
        # made but not yet written down.
        preloaded().streamproof_freeze()
        die()
    _, status = os.waitpid(pid, 0)
    return read_trace(log.read_bytes(), root, before), status


def _record(log: Path, root: Path) -> None:
    """From now on, append every call that changes a file of the same file system to ``log``.

    Processes that start from now on, such as store hosts, append their calls, too.
    """
    os.environ["STREAMPROOF_RECORD"] = f"{log}\n{root}"
    error = preloaded().streamproof_record(os.fsencode(log), os.fsencode(root))
    if error:
        raise UsageError(f"The log {log} cannot be written: {os.strerror(error)}.")


def mark(operation: int, *, returned: bool) -> None:
    """Write to the log that an operation starts, or that it has returned.

    The shim, if it is armed, says how many write-like system calls there were by then.
    """
    words = map(ctypes.c_long, (operation, returned, counted_syscalls()))
    preloaded().streamproof_mark(*words)
