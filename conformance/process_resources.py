"""The files, threads and child processes of processes, and the files that one wrote elsewhere.

Most facts come from ``/proc``, which also shows the files that databases in C have open. A file
that is written and closed at once does not show there. Only an audit hook sees such a file, and
only if Python wrote it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

__all__ = [
    "FileWatch",
    "children",
    "count_handles",
    "count_threads",
    "families",
    "members",
    "open_files",
    "session",
]

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT

_OF_THE_SYSTEM = ("/dev/", "/proc/", "/sys/")
"""Folders of the system, in which no store keeps data."""

_IN_MEMORY = "/dev/shm/"  # noqa: S108 - it is only compared with
"""The folder for files in memory. They count as files although it lies in a system folder."""

_DELETED = " (deleted)"
"""The suffix that the system adds to the name of a file that is deleted but still open."""


def _links(process: int | None = None) -> dict[int, str]:
    """The paths behind the open descriptors of a process; ``None`` is this one."""
    found = {}
    with contextlib.suppress(FileNotFoundError):
        for link in list(Path(f"/proc/{process or 'self'}/fd").iterdir()):
            # The descriptor that lists the directory is gone by now.
            with contextlib.suppress(OSError):
                found[int(link.name)] = str(link.readlink())
    return found


def open_files(directory: Path, processes: Iterable[int | None] = (None,)) -> list[str]:
    """The files below a directory that processes have open, by default this one."""
    base = f"{os.path.realpath(directory)}/"
    paths = {path for each in processes for path in _links(each).values()}
    below = {path.removesuffix(_DELETED) for path in paths if path.startswith(base)}
    return sorted(path.removeprefix(base) for path in below)


def count_handles(processes: Iterable[int | None] = (None,)) -> int:
    """The number of open descriptors of processes, by default this one: files, pipes, sockets."""
    return sum(len(_links(each)) for each in processes)


def count_threads(processes: Iterable[int | None] = (None,)) -> int:
    """The number of threads of processes, by default this one, threads of libraries included."""
    found = 0
    for each in processes:
        with contextlib.suppress(FileNotFoundError):
            found += len(list(Path(f"/proc/{each or 'self'}/task").iterdir()))
    return found


def children(of: Iterable[int] | None = None) -> list[int]:
    """The processes that some processes have started and not waited for; by default this one."""
    parents = {os.getpid()} if of is None else {*of}
    return [pid for pid, parent, *_ in _processes() if parent in parents]


def families(of: Iterable[int]) -> list[int]:
    """Some processes, and all that descend from them."""
    found: set[int] = set()
    new = {*of}
    while new:
        found |= new
        new = {*children(new)} - found
    return sorted(found)


def members(group: int) -> list[int]:
    """The processes of a process group."""
    return [pid for pid, _, its_group, _ in _processes() if its_group == group]


def session(leader: int) -> list[int]:
    """The processes of a session."""
    return [pid for pid, _, _, its_session in _processes() if its_session == leader]


def _processes() -> list[tuple[int, int, int, int]]:
    """All processes: their ids, parents, process groups and sessions."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name of a program may contain spaces and brackets. The parent is the second field
            # after the last bracket, the group is the third, and the session is the fourth.
            _, *numbers = path.read_text().rpartition(")")[2].split()[:4]
            parent, group, its_session = map(int, numbers)
            found.append((int(path.parent.name), parent, group, its_session))
    return sorted(found)


class FileWatch:
    """Records the files outside a directory that this process writes to from now on."""

    _watching: list[FileWatch] = []  # noqa: RUF012 - an audit hook can never be taken off again
    _hooked = False

    def __init__(self, directory: Path) -> None:
        self._base = os.path.realpath(directory)
        self._before = set(_links().values())
        self._seen: set[str] = set()
        if not FileWatch._hooked:
            FileWatch._hooked = True
            # The hook outlives the names of this module, which an interpreter clears at its end.
            sys.addaudithook(partial(_heard, FileWatch._watching))
        FileWatch._watching.append(self)

    def look(self) -> None:
        """Record the files that are open for writing at this moment."""
        for number, path in _links().items():
            if path not in self._before and _is_for_writing(number):
                self.note(path)

    def note(self, path: str) -> None:
        """Record a path that the process writes to."""
        path = os.path.realpath(path)
        inside = path == self._base or path.startswith(f"{self._base}/")
        if path.startswith("/") and not inside and not _is_of_no_account(path):
            self._seen.add(path)

    def left(self) -> list[str]:
        """End the watch; return the files written outside the directory that still exist."""
        self.look()
        FileWatch._watching.remove(self)
        return sorted(path for path in self._seen if Path(path).exists())


def _is_of_no_account(path: str) -> bool:
    """Whether a path is no data of a store: a file of the system, or compiled Python code."""
    of_the_system = path.startswith(_OF_THE_SYSTEM) and not path.startswith(_IN_MEMORY)
    return of_the_system or "__pycache__" in path


def _is_for_writing(descriptor: int) -> bool:
    with contextlib.suppress(OSError):
        text = Path(f"/proc/self/fdinfo/{descriptor}").read_text()
        flags = next(line.split()[1] for line in text.splitlines() if line.startswith("flags:"))
        return bool(int(flags, 8) & (os.O_WRONLY | os.O_RDWR))
    return False


def _heard(watching: list[FileWatch], event: str, arguments: tuple[Any, ...]) -> None:
    """Pass on the paths that Python is about to write to."""
    if not watching:
        return
    for path in _written(event, arguments):
        if isinstance(path, str | bytes | os.PathLike):
            for watch in watching:
                watch.note(os.fsdecode(path))


def _written(event: str, arguments: tuple[Any, ...]) -> Iterable[Any]:
    """The paths that an audit event of Python is about to write to."""
    if event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING:
        return arguments[:1]
    if event in ("os.mkdir", "sqlite3.connect"):
        return arguments[:1]
    if event in ("os.rename", "os.link", "os.symlink"):
        return arguments[1:2]
    return ()
