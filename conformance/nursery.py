"""The nursery: the process that imports the suite and forks a zygote for each subject.

This module is the supervisor's side; the other side is ``zygote.main``. To import the suite takes
half a second, so a command starts its nursery before it imports the rest of streamproof.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from streamproof.conformance import zygote
from streamproof.conformance.power.syscall_recorder import preload_environment
from streamproof.conformance.subject import binds_of
from streamproof.conformance.work_directory import work_directory
from streamproof.conformance.zygote import MOST_BYTES, Opening, Preparation
from streamproof.errors import UsageError
from streamproof.user_cache import made_user_cache

__all__ = ["LOAD_TIMEOUT_S", "STOP_S", "Nursery", "last_line", "started_nursery"]

STOP_S = 5.0
"""The time that a nursery or a zygote has to end before it is killed, in seconds."""

LOAD_TIMEOUT_S = 60.0
"""The time limit for importing the suite, or for loading a subject, in seconds."""


class Nursery:
    """A nursery, which starts at once and imports what the subjects need.

    Args:
        directory: the directory for the databases of the run.
        subjects: the names of the first subjects.

    Attributes:
        directory: the same directory.
    """

    def __init__(self, directory: Path, subjects: Iterable[str]) -> None:
        self.directory = directory
        environment = {**os.environ, **preload_environment(directory)}
        # Hypothesis keeps the constants of modules. By default, in the user's directory.
        environment["HYPOTHESIS_STORAGE_DIRECTORY"] = str(_lasting(directory) / "hypothesis")
        self._log = directory / "stderr.log"
        # A socket with packets delivers each message in one piece.
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(LOAD_TIMEOUT_S)
        with theirs, self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", zygote.__name__],
                stdin=theirs.fileno(),
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        kinds = sorted(set(map(binds_of, subjects)))
        preparation = Preparation(binds=kinds, sys_path=sys.path)
        # A nursery that is dead by now is noticed when it shall fork.
        with contextlib.suppress(OSError):
            self._socket.send(msgspec.json.encode(preparation))

    def fork(self, opening: Opening, streams: Sequence[int]) -> int:
        """Start a zygote with these standard streams, and return its process id.

        Raises:
            UsageError: no zygote started, because the suite cannot be imported.
        """
        answer = b""
        with contextlib.suppress(OSError):
            socket.send_fds(self._socket, [msgspec.json.encode(opening)], streams)
            answer = self._socket.recv(MOST_BYTES)
        if not answer:
            raise UsageError(
                f"Subject {opening.subject!r}: the process that imports the suite died, or took "
                f"more than {LOAD_TIMEOUT_S:.0f} s{last_line(self._log)}."
            )
        return int(answer)

    def stop(self) -> None:
        """End the nursery, after its zygotes have ended. Stopping twice is harmless."""
        self._socket.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S)
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def started_nursery(subjects: Iterable[str], work_dir: Path | None = None) -> Iterator[Nursery]:
    """A nursery for these subjects, in a work directory of its own; see :func:`work_directory`.

    Raises:
        UsageError: the work directory cannot be made, or has no room.
    """
    with work_directory(work_dir) as directory:
        nursery = Nursery(directory, subjects)
        try:
            yield nursery
        finally:
            nursery.stop()


def last_line(log: Path) -> str:
    """The last line of a process on its standard error, as the end of a message."""
    with contextlib.suppress(OSError):
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        if lines:
            return f" ({lines[-1][:300]})"
    return ""


def _lasting(directory: Path) -> Path:
    """A directory for what the next run needs, too; else that of this run."""
    with contextlib.suppress(OSError):
        cache = made_user_cache()
        if os.access(cache, os.W_OK | os.X_OK):
            return cache
    return directory
