"""Records of a crash: its point, the progress of the program, and the state afterwards."""

from __future__ import annotations

import errno
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from streamproof.conformance.crash.program import Program

__all__ = ["FAULTS", "CrashKind", "CrashPoint", "Crashed", "Observation"]

CrashKind = Literal["boundary", "line", "syscall", "derived", "enospc", "eio"]
"""The kinds of points; at a ``derived`` one, no process has died: the state is worked out."""

FAULTS: dict[str, int] = {"enospc": errno.ENOSPC, "eio": errno.EIO}
"""The kinds of points at which a system call fails, with the error of the call."""


@dataclass(frozen=True)
class CrashPoint:
    """The point at which a program is killed.

    Attributes:
        kind: the kind of the point; see :mod:`streamproof.conformance.crash.kill_engine`.
        operation: the index of the operation before or in which the program dies.
        n: the number of the line or system call before which it dies; 0 only counts them. For a
            derived state, the number of recorded calls in the operation by then.
        span: the number of operations over which system calls are counted. A call that fails may
            lie anywhere up to the end of the program.
        lasting: whether every call after the n-th fails, too.
        closing: whether the failure goes away at the end, and the store is then closed.
    """

    kind: CrashKind
    operation: int
    n: int = 0
    span: int = 1
    lasting: bool = False
    closing: bool = False


@dataclass(frozen=True)
class Crashed:
    """A program that was killed.

    Attributes:
        started: the number of operations that had at least started.
        finished: the number of operations that had returned.
        counted: the number of lines or system calls, if the point only counts.
        reached: whether the process died, or a call failed, at the point.
        error: how the subject failed before the kill: it ``raised``, ``ended the process`` or ``did
            not return``; empty if it did none of these.
        raised: the exception of the operation in which a call had failed.
        traceback: the part of the subject in the traceback of ``error`` or ``raised``.
        closed: whether the store was then closed without an exception.
        call: the system call before which the process died, or which failed, with its file and its
            size; empty at a point of another kind.
        place: the line of the store before which the process died, or which made the call, with
            its file and number; empty if that was elsewhere.
        before: the earlier crash from whose directory the program continued.
        store: the number of the store that this is about; 0 for all of the task.
    """

    program: Program
    point: CrashPoint
    directory: Path
    started: int = 0
    finished: int = 0
    counted: int = 0
    reached: bool = False
    error: str = ""
    raised: str = ""
    traceback: str = ""
    closed: bool = False
    call: str = ""
    place: str = ""
    before: Crashed | None = None
    store: int = 0

    @property
    def where(self) -> str:
        """The call and the line of the store at the point; empty if neither is known."""
        return ", ".join(filter(None, (self.call, self.place)))

    @property
    def names(self) -> set[str]:
        """All operations that had started, including those before an earlier crash."""
        started = {each.name for each in self.program.operations[: self.started]}
        return started | (self.before.names if self.before else set())

    @property
    def keys(self) -> list[bytes]:
        """All written keys, including those before an earlier crash, sorted."""
        return sorted({key for each in self.chain for key in each.program.keys})

    @property
    def chain(self) -> list[Crashed]:
        """This crash and the earlier ones, in order."""
        return [*(self.before.chain if self.before else []), self]

    def of(self, store: int) -> Crashed:
        """The crash of one of the stores of the program."""
        if not store:
            return self
        mine = [each.store == store for each in self.program.operations]
        return replace(
            self,
            program=self.program.of(store),
            store=store,
            started=sum(mine[: self.started]),
            finished=sum(mine[: self.finished]),
        )


class Observation(Struct, kw_only=True):
    """The state that a new process found in a crashed directory.

    Attributes:
        refused: the message with which the store reported a corrupted state.
        error: the exception of the store, and the stage in which it was raised.
        traceback: the part of the store in its traceback.
        offsets: the committed offset by partition, in the order of ``partitions_of``.
        content: the result of ``get`` for every key of the program.
        scanned: the result of ``all``, if the store can be scanned.
        position: the input offset by partition, if the store has a position.
        restored: the result of ``get`` after a replay and a commit of the changelog.
        restored_offsets: the committed offsets after the replay.
        reopened: whether the store was closed and opened again between replay and ``get``.
    """

    refused: str = ""
    error: str = ""
    traceback: str = ""
    offsets: list[int | None] = field(default_factory=list)
    content: dict[bytes, bytes] = field(default_factory=dict)
    scanned: list[tuple[bytes, bytes]] | None = None
    position: dict[int, int] = field(default_factory=dict)
    restored: dict[bytes, bytes] = field(default_factory=dict)
    restored_offsets: list[int | None] = field(default_factory=list)
    reopened: bool = False
