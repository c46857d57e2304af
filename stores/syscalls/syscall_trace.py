"""The system calls by which a program changed the disk, read from the log of the recorder.

The number of a call counts the calls that changed something below the root directory. Calls
elsewhere on the same file system are left out, and do not count.
"""

from __future__ import annotations

import stat
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

__all__ = [
    "Call",
    "CallKind",
    "SyscallTrace",
    "Tree",
    "Way",
    "actual_tree",
    "calls_that_made",
    "read_trace",
    "write_tree",
]

_RECORD = struct.Struct("=8q")

Tree = dict[str, bytes | str | None]
"""The tree below a directory, by path: the content of a file, the target of a link, ``None`` for a
directory."""


class CallKind:
    """The kinds of calls, with the letters of ``recorder.c``."""

    CREATE: Final = "c"
    RESIZE: Final = "t"
    WRITE: Final = "w"
    ZERO: Final = "z"
    SYNC: Final = "s"
    SYNC_ALL: Final = "a"
    RENAME: Final = "r"
    EXCHANGE: Final = "e"
    LINK: Final = "l"
    SYMLINK: Final = "y"
    UNLINK: Final = "u"
    MKDIR: Final = "d"
    MARK: Final = "m"
    ESCAPE: Final = "x"


class Way:
    """The ways in which bytes are written, with the numbers of ``recorder.c``."""

    PLAIN: Final = 0
    SYNCHRONOUS: Final = 1
    MAPPED: Final = 2


class Call(NamedTuple):
    """One call, or a change of a mapped file that was found before the next call.

    Attributes:
        kind: one of :class:`CallKind`.
        inode: the changed file or directory; for a change of names, the target of the name.
        directory: the inode of the directory of ``name``.
        other: the inode of the directory of ``second``; for a write, one of :class:`Way`.
        offset: the start of a write, or of the synced bytes of a mapped file.
        length: the number of written or synced bytes, or the new size in bytes; 0 if a whole file
            is synced. Of a mark, the number of write-like system calls before it.
        name: the name that is made, removed, or renamed.
        second: the new name; for a symbolic link, its target.
        data: the written bytes.
    """

    kind: str
    inode: int = 0
    directory: int = 0
    other: int = 0
    offset: int = 0
    length: int = 0
    name: str = ""
    second: str = ""
    data: bytes = b""


@dataclass
class SyscallTrace:
    """The calls of a program below one directory.

    Attributes:
        root: the inode of the directory.
        before: calls that would make the earlier content; they have no number.
        calls: the calls; the first one has the number 1.
        started: for each operation that started, the number of calls before it.
        returned: for each operation that returned, the number of calls by then.
        counted: for each operation that started, the number of write-like system calls that the
            shim had counted before it; the last number is that at the latest return.
        escaped: files with writes that are not recorded, each with the number of calls before them.
    """

    root: int
    before: list[Call] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    started: list[int] = field(default_factory=list)
    returned: list[int] = field(default_factory=list)
    counted: list[int] = field(default_factory=lambda: [0])
    escaped: list[tuple[int, int]] = field(default_factory=list)

    def operations(self, after: int) -> tuple[int, int]:
        """The numbers of operations that had started and returned after ``after`` calls."""
        started = sum(each <= after for each in self.started)
        return started, sum(each <= after for each in self.returned)

    def counts_all(self, operation: int) -> bool:
        """Whether the shim has counted just the recorded calls of an operation that returned."""
        if operation >= len(self.returned):
            return False
        recorded = self.returned[operation] - self.started[operation]
        return recorded == self.counted[operation + 1] - self.counted[operation]

    def describe(self, number: int) -> str:
        """A call, in words."""
        names = {self.root: "the directory"}
        for call in [*self.before, *self.calls[:number]]:
            if call.name and call.kind != CallKind.LINK:
                names[call.inode] = call.second if call.other else call.name
        call = self.calls[number - 1]
        name = names.get(call.inode, "a file")
        match call.kind:
            case CallKind.WRITE if call.other == Way.MAPPED:
                return f"store {call.length} bytes at {call.offset} of the mapped {name}"
            case CallKind.WRITE:
                return f"write {call.length} bytes at {call.offset} of {name}"
            case CallKind.SYNC if call.length:
                return f"sync {call.length} bytes at {call.offset} of the mapped {name}"
            case CallKind.ZERO:
                return f"zero {call.length} bytes at {call.offset} of {name}"
            case CallKind.RESIZE:
                return f"resize {name} to {call.length} bytes"
            case CallKind.RENAME | CallKind.EXCHANGE:
                return f"rename {call.name} to {call.second}"
        verb = _VERBS[call.kind]
        return f"{verb} {call.name or name}" if call.kind != CallKind.SYNC_ALL else verb


_VERBS = {
    CallKind.CREATE: "create",
    CallKind.LINK: "link",
    CallKind.MKDIR: "make the directory",
    CallKind.SYMLINK: "link",
    CallKind.SYNC: "sync",
    CallKind.SYNC_ALL: "sync everything",
    CallKind.UNLINK: "remove",
}


def read_trace(log: bytes, root: Path, before: Sequence[Call] = ()) -> SyscallTrace:
    """The calls in a log that change the tree below ``root``.

    ``before`` is the result of :func:`calls_that_made` before the first call.
    """
    trace = SyscallTrace(root.stat().st_ino, list(before))
    known = {trace.root: str(root)} | {call.inode: call.name for call in before if call.name}
    for call in _calls(log):
        if call.kind == CallKind.MARK:
            (trace.returned if call.other else trace.started).append(len(trace.calls))
            trace.counted[len(trace.returned) :] = [call.length]
        elif call.kind == CallKind.ESCAPE:
            if call.inode in known:
                trace.escaped.append((call.inode, len(trace.calls)))
        elif call.kind == CallKind.SYNC_ALL or not known.keys().isdisjoint(call[1:4]):
            trace.calls.append(call)
            if call.inode and (call.directory in known or call.other in known):
                known[call.inode] = call.second or call.name
        elif call.kind == CallKind.CREATE and not call.name:
            # A file without a name may get a name below the root later.
            trace.calls.append(call)
            known[call.inode] = "a file without a name"
    return trace


def _calls(log: bytes) -> Iterator[Call]:
    at = 0
    while at < len(log):
        kind, inode, directory, other, offset, length, name, second = _RECORD.unpack_from(log, at)
        at += _RECORD.size
        first_name = log[at : at + name].decode("utf-8", "surrogateescape")
        at += name
        second_name = log[at : at + second].decode("utf-8", "surrogateescape")
        at += second
        data = b""
        if kind == ord(CallKind.WRITE):
            data = log[at : at + length]
            at += length
        yield Call(
            chr(kind), inode, directory, other, offset, length, first_name, second_name, data
        )


def calls_that_made(root: Path) -> list[Call]:
    """Calls that would make the present tree below a directory."""
    calls = []
    for path in sorted(root.rglob("*")):
        found = path.lstat()
        directory = path.parent.stat().st_ino
        if stat.S_ISLNK(found.st_mode):
            where = str(path.readlink())
            calls.append(
                Call(CallKind.SYMLINK, found.st_ino, directory, name=path.name, second=where)
            )
        elif stat.S_ISDIR(found.st_mode):
            calls.append(Call(CallKind.MKDIR, found.st_ino, directory, name=path.name))
        elif stat.S_ISREG(found.st_mode):
            data = path.read_bytes()
            calls.append(Call(CallKind.CREATE, found.st_ino, directory, name=path.name))
            calls.append(Call(CallKind.WRITE, found.st_ino, length=len(data), data=data))
    return calls


def actual_tree(root: Path) -> Tree:
    """The files, links and directories below a directory. Others, such as pipes, are left out."""
    found: Tree = {}
    for path in sorted(root.rglob("*")):
        mode = path.lstat().st_mode
        name = str(path.relative_to(root))
        if stat.S_ISREG(mode):
            found[name] = path.read_bytes()
        elif stat.S_ISLNK(mode):
            found[name] = str(path.readlink())
        elif stat.S_ISDIR(mode):
            found[name] = None
    return found


def write_tree(tree: Tree, directory: Path) -> None:
    """Make files, links and directories below an empty directory."""
    for name, content in tree.items():
        path = directory / name
        if content is None:
            path.mkdir()
        elif isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.symlink_to(content)
