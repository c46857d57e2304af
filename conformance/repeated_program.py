"""Runs a program several times, each time in a fork of this process.

``python -m streamproof.conformance.repeated_program PROGRAM RUNS SECONDS`` ends with ``FAILS`` if
the program ends with an error each time. To start an interpreter and to import the suite takes much
longer than to run a program, so one interpreter serves all runs. It has opened no store and started
no thread, so each of its forks is as good as a new one.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import tempfile
from pathlib import Path

from streamproof.conformance.lab import Lab

__all__ = ["FAILS", "RECORDING", "fails", "main"]

FAILS = 10
"""The exit code for a program that ends with an error each time; no crash of Python has it."""

RECORDING = "Lab.record_system_calls("
"""The call of a program that records system calls."""

_COUNTING = "Lab.count_system_calls("


def main() -> None:
    """Run the program of the command line."""
    path, runs, seconds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    program = path.read_text("utf-8")
    # A fork cannot load a library. These calls start this process anew, with what they need.
    if RECORDING in program:
        Lab.record_system_calls()
    if _COUNTING in program:
        Lab.count_system_calls()
    sys.exit(FAILS if all(fails(program, path.parent, seconds) for _ in range(runs)) else 0)


def fails(program: str, directory: Path, seconds: int) -> bool:
    """Whether a program ends with an error, in a process of its own.

    Args:
        program: the program.
        directory: an empty directory for its temporary files.
        seconds: after so long the program is ended, and does not show the failure.
    """
    pid = os.fork()
    if pid == 0:
        code = 1
        # Whatever happens here, this process ends, and never returns into its caller.
        with contextlib.suppress(BaseException):
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(seconds)
            tempfile.tempdir = str(directory)
            # The labs of the program delete their directories at its end, and nothing else does.
            atexit._clear()  # noqa: SLF001 - nothing public does this
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            try:
                exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})  # noqa: S102
                code = 0
            except SystemExit as ended:
                # A program that could not try anything ends with 2, and so shows nothing.
                code = ended.code if isinstance(ended.code, int) else 1
            finally:
                atexit._run_exitfuncs()  # noqa: SLF001
        os._exit(code)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status) == 1


if __name__ == "__main__":
    main()
