"""Records of a crash: where a program dies, how far it came, and what a new process finds."""

from __future__ import annotations

import errno
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from streamproof.conformance.crash.program import Program

__all__ = ["FAULTS", "CrashKind", "CrashPoint", "Crashed", "Observation"]

CrashKind = Literal["boundary", "line", "syscall", "enospc", "eio"]

FAULTS: dict[str, int] = {"enospc": errno.ENOSPC, "eio": errno.EIO}
"""The kinds of point at which a system call fails, with the error that it fails with."""


@dataclass(frozen=True)
class CrashPoint:
    """Where a program is killed.

    Attributes:
        kind: see the module.
        operation: the index of the operation before or in which it dies.
        n: before which line or system call; 0 only counts them.
        span: how many operations system calls are counted over; a call that is to fail is
            looked for up to the end of the program.
        lasting: whether every call after the n-th fails, too.
        closing: whether the failure goes away in the end, and the store is closed.
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
        started: how many operations had at least started.
        finished: how many had returned.
        counted: lines or system calls counted by a point that only counts.
        reached: whether the process died, or a call failed, at the point.
        error: how the subject failed before the process could be killed: it ``raised``, ``ended the
            process`` or ``did not return``; empty if it did none of these.
        raised: what the operation raised in which a call had failed.
        closed: whether the store was closed after that, and did not raise.
        before: the crash that left what the program began with; its directory was copied.
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
    closed: bool = False
    before: Crashed | None = None

    @property
    def names(self) -> set[str]:
        """The operations that had started, those before an earlier crash included."""
        started = {each.name for each in self.program.operations[: self.started]}
        return started | (self.before.names if self.before else set())

    @property
    def keys(self) -> list[bytes]:
        """Every key that is written, before an earlier crash too, sorted."""
        return sorted({key for each in self.chain for key in each.program.keys})

    @property
    def chain(self) -> list[Crashed]:
        """All crashes that led here, the first one first."""
        return [*(self.before.chain if self.before else []), self]

    def of(self, store: int) -> Crashed:
        """The crash as one of the stores of the program saw it."""
        if not store:
            return self
        mine = [each.store == store for each in self.program.operations]
        return replace(
            self,
            program=self.program.of(store),
            directory=self.directory / f"store-{store}",
            started=sum(mine[: self.started]),
            finished=sum(mine[: self.finished]),
        )


class Observation(Struct, kw_only=True):
    """What a new process found in a crashed directory.

    Attributes:
        refused: the message with which the store said that its state is corrupted.
        error: what the store raised, and in which stage.
        offsets: the committed offset by partition, in the order of ``partitions_of``.
        content: what ``get`` returned for every key of the program.
        scanned: what ``all`` returned, if the store can be scanned.
        position: the input offset by partition, if the store has a position.
        restored: what ``get`` returned after the changelog was replayed and committed.
        restored_offsets: the committed offsets after that.
        reopened: whether the store was closed and opened again in between.
    """

    refused: str = ""
    error: str = ""
    offsets: list[int | None] = field(default_factory=list)
    content: dict[bytes, bytes] = field(default_factory=dict)
    scanned: list[tuple[bytes, bytes]] | None = None
    position: dict[int, int] = field(default_factory=dict)
    restored: dict[bytes, bytes] = field(default_factory=dict)
    restored_offsets: list[int | None] = field(default_factory=list)
    reopened: bool = False
