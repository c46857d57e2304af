"""A process that another process has started, with the part of ``Popen`` that a host needs."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess

__all__ = ["UNKNOWN_CODE", "AdoptedProcess"]

UNKNOWN_CODE = 256
"""No process ends with this exit code."""


class AdoptedProcess:
    """A process that this one can talk to, but not wait for.

    Args:
        pid: the process id.
        stdin: the descriptor of its standard input.
        stdout: the descriptor of its standard output.
        death: a descriptor of the process, which shows when the process has ended.

    Attributes:
        returncode: ``None``, or ``UNKNOWN_CODE`` once ``poll`` has found that the process ended.
    """

    returncode: int | None = None

    def __init__(self, pid: int, stdin: int, stdout: int, death: int) -> None:
        self.pid = pid
        self.stdin = os.fdopen(stdin, "wb", buffering=0)
        self.stdout = os.fdopen(stdout, "rb", buffering=0)
        self._death = death

    def poll(self) -> int | None:
        """The exit code, once the process has ended: only its parent is told which one."""
        if select.select([self._death], [], [], 0)[0]:
            self.returncode = UNKNOWN_CODE
        return self.returncode

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the process has ended.

        Raises:
            subprocess.TimeoutExpired: it has not ended within so many seconds.
        """
        if not select.select([self._death], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)

    def kill(self) -> None:
        """Kill the process, if it is alive."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._death, signal.SIGKILL)
