"""Runs saved programs, each in a fork of one process that has imported streamproof before.

A program takes a second in a process of its own, nearly all of it for imports. A fork of a warm
process takes a tenth of that, and is as clean: the warm process has opened no store, has imported
no subject and has started no thread. Start this file with ``python -P``. It reads a path in each
line of its standard input, and answers each with the exit code of that program. What the program
prints is in a file beside it, with the suffix ``.out``.
"""

from __future__ import annotations

import atexit
import os
import runpy
import signal
import sys
import tempfile
import threading
import traceback
from pathlib import Path

# A fork does not have to import these.
import streamproof.conformance.subject
import streamproof.stores.rocksdb  # noqa: F401

__all__: list[str] = []

MOST_SECONDS = 120
"""The seconds after which a program is ended by SIGALRM."""


def main() -> None:
    """Run programs until the standard input ends."""
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _become(Path(line.strip()))
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _become(program: Path) -> None:
    """Run a program as ``python -P`` does, and end this process as Python would."""
    code = 1
    try:
        os.setpgid(0, 0)
        signal.alarm(MOST_SECONDS)
        out = os.open(program.with_suffix(".out"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(program.parent)
        # Some wrong stores write beside the directory that they are given.
        os.environ["TMPDIR"] = str(program.parent)
        tempfile.tempdir = None
        sys.argv = [str(program)]
        # A program that has to see system calls starts itself anew, from these arguments.
        sys.orig_argv = [sys.executable, "-P", str(program)]
        code = _code_of(program)
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _code_of(program: Path) -> int:
    """The exit code of a program, which prints the traceback of an exception."""
    try:
        runpy.run_path(str(program), run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    main()
