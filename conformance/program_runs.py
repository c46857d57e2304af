"""Programs are run, before a report says that they show a failure.

The threads of a store go on while the doomed process dies, and a store may draw random numbers. So
what a check has found once may be missing the next time, and a program that says otherwise would
mislead. Most programs are run in a fork of the check, which takes no time. Some are run as their
readers will run them, in a new interpreter. One that writes a lot: how far such threads come
depends on the disk and on preloaded libraries. One that records system calls: a fork of the check
cannot load the recorder. And those of a check with threads of a store, which may hold a lock in a
fork. What one thread does is the same each time, so that one run is enough there. A recording is
made anew in each run, and threads of a store shift the numbers of its calls.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from streamproof.conformance.crash import triggers
from streamproof.conformance.program_text import END_OF_SHOWN, ONLY_SHOWN

__all__ = ["made_sure"]

RUNS = 5
"""The number of times in a row that a program has to fail whose outcome may depend on threads."""

FEW_RUNS = 2
"""The number of times in a row that any other program has to fail, if a run takes no time."""

_RACES = ("lab.meet(", "Thread(")
"""Calls of programs with threads of their own."""

_NUMBERED = ("after=", "lost=[")
"""Arguments that name recorded calls by their numbers."""

_THREADED = ("lab.crash(", "lab.simulate(", *_NUMBERED, *_RACES)
"""Parts of programs whose outcome may depend on threads: of the store, or of its runtime."""

_LOOP = "    for n in range("
"""What a doomed function does that writes a lot."""

_RECORDING = "Lab.record_system_calls("

_ANEW = (_LOOP, _RECORDING)
"""What a program has that a fork of the check cannot show."""

MOST_SECONDS = 20
"""The seconds after which a run in a fork is ended. Such a program does not show the failure."""

MOST_SECONDS_ANEW = 120
"""The same of a run in a new interpreter, which a busy machine takes long to start, perhaps twice.

No limit for calls of the store holds here: a program that takes long is no store that hangs.
"""


def made_sure(program: str, directory: Path) -> str:
    """A program; if it does not fail each time that it is run, it says so, and ends with 2.

    Args:
        program: the program.
        directory: an empty directory for the program, which is deleted.
    """
    if ONLY_SHOWN in program:
        return program
    has_threads = "lab.crash(" not in program and _has_threads()
    anew = has_threads or _has(_ANEW, program)
    is_alike = has_threads and not _has((*_NUMBERED, *_RACES), program)
    runs = 1 if is_alike else RUNS if _has(_THREADED, program) else FEW_RUNS
    try:
        fails = _fails_anew if anew else _fails
        is_sure = all(fails(program, directory) for _ in range(runs))
    finally:
        shutil.rmtree(directory.parent, ignore_errors=True)
    return program if is_sure else f"{ONLY_SHOWN}\n{program}{END_OF_SHOWN}\n"


def _has(calls: tuple[str, ...], program: str) -> bool:
    return any(call in program for call in calls)


def _has_threads() -> bool:
    """Whether this process has more than one thread, whoever started them."""
    return len([*Path("/proc/self/task").iterdir()]) > 1


def _fails(program: str, directory: Path) -> bool:
    """Whether a program ends with an error, in a process of its own."""
    pid = os.fork()
    if pid == 0:
        code = 1
        # Whatever happens here, this process ends, and never returns into the check.
        with contextlib.suppress(BaseException):
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(MOST_SECONDS)
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


def _fails_anew(program: str, directory: Path) -> bool:
    """Whether a program ends with an error, in a new interpreter."""
    path = directory / "program.py"
    path.write_text(program, "utf-8")
    # As its reader starts the program: nothing is preloaded, and nothing says why that failed.
    preloaded = ("LD_PRELOAD", triggers.WHY_UNSEEN)
    environment = {name: text for name, text in os.environ.items() if name not in preloaded}
    try:
        done = subprocess.run(
            [sys.executable, "-P", path],
            env=environment,
            # A process that the store leaves behind would keep a pipe open.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=MOST_SECONDS_ANEW,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 1
