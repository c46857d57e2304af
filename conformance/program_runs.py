"""Programs are run, before a report says that they show a failure.

The threads of a store go on while the doomed process dies, and a store may draw random numbers. So
what a check has found once may be missing the next time, and a program that says otherwise would
mislead. Most programs are run in a fork of the check, which takes no time. Some are run as their
readers will run them, in a new interpreter, which forks for each run. One that writes a lot: how
far such threads come depends on the disk and on preloaded libraries. One that records system calls:
a fork of the check cannot load the recorder. And those of a check with threads of a store, which
may hold a lock in a fork. What one thread does is the same each time, so that one run is enough
there. A recording is made anew in each run, and threads of a store shift the numbers of its calls.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from streamproof.conformance import repeated_program
from streamproof.conformance.crash import triggers
from streamproof.conformance.program_text import ONLY_SHOWN, only_shown
from streamproof.conformance.repeated_program import RECORDING, fails

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

_ANEW = (_LOOP, RECORDING)
"""What a program has that a fork of the check cannot show."""

MOST_SECONDS = 20
"""The seconds after which a run in a fork of the check is ended: it does not show the failure."""

MOST_SECONDS_ANEW = 120
"""The same of a new interpreter, which a busy machine takes long to start, and of each of its runs.

No limit for calls of the store holds here: a program that takes long is no store that hangs.
"""


def made_sure(
    program: str, directory: Path, *, is_remote: bool = False, is_new: bool = False
) -> str:
    """A program; if it does not fail each time that it is run, it says so, and ends with 2.

    Args:
        program: the program.
        directory: an empty directory for the program, which is deleted.
        is_remote: whether a store host serves the store. A fork of the check would talk to the
            hosts of the check, and each run starts hosts of its own, which takes long.
        is_new: whether the check itself has never done what the program does. The program of a
            store host is run in any case, then.
    """
    if ONLY_SHOWN in program or (is_remote and not is_new and not _has(_THREADED, program)):
        shutil.rmtree(directory.parent, ignore_errors=True)
        return program
    has_threads = "lab.crash(" not in program and _has_threads()
    anew = is_remote or has_threads or _has(_ANEW, program)
    is_alike = has_threads and not _has((*_NUMBERED, *_RACES), program)
    is_single = is_remote or is_alike
    runs = 1 if is_single else RUNS if _has(_THREADED, program) else FEW_RUNS
    try:
        if anew:
            is_sure = _fails_anew(program, directory, runs)
        else:
            is_sure = all(fails(program, directory, MOST_SECONDS) for _ in range(runs))
    finally:
        shutil.rmtree(directory.parent, ignore_errors=True)
    return program if is_sure else only_shown(program)


def _has(calls: tuple[str, ...], program: str) -> bool:
    return any(call in program for call in calls)


def _has_threads() -> bool:
    """Whether this process has more than one thread, whoever started them."""
    return len([*Path("/proc/self/task").iterdir()]) > 1


def _fails_anew(program: str, directory: Path, runs: int) -> bool:
    """Whether a program ends with an error each time, in forks of a new interpreter."""
    path = directory / "program.py"
    path.write_text(program, "utf-8")
    # As its reader starts the program: nothing is preloaded, and nothing says why that failed.
    preloaded = ("LD_PRELOAD", triggers.WHY_UNSEEN)
    environment = {name: text for name, text in os.environ.items() if name not in preloaded}
    words = (path, runs, MOST_SECONDS_ANEW)
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", repeated_program.__name__, *map(str, words)],
            env=environment,
            # A process that the store leaves behind would keep a pipe open.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=MOST_SECONDS_ANEW * (1 + runs),
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == repeated_program.FAILS
