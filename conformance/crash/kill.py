"""The kill engine: run a program in a child, kill it at a point, and look at what is left.

The page cache survives the death of a process: what was handed to the kernel is there, what
was still in the memory of the process is gone. Points are of three kinds:

``boundary``
    between two operations of the program;
``line``
    before the n-th line of Python that one operation runs;
``syscall``
    before the n-th write-like system call from one operation to the end of another.

Points are counted in a first run that is not killed before its end, then enumerated; where
there are more of them than may be used, evenly spread ones are taken.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import signal
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct, field

from streamproof.conformance.crash import triggers
from streamproof.conformance.crash.program import Program
from streamproof.conformance.lab import ChangelogRecord, Lab
from streamproof.conformance.oracle import History, Write
from streamproof.conformance.trial import SCAN_LIMIT
from streamproof.conformance.violations import brief
from streamproof.stores.api import TopicPartition
from streamproof.stores.errors import TaskCorruptedError

if TYPE_CHECKING:
    from streamproof.conformance.run import CheckRun

__all__ = [
    "CrashPoint",
    "Crashed",
    "KillEngine",
    "Observation",
    "changelog_of",
    "ends_of",
    "partitions_of",
    "spread",
]

Kind = Literal["boundary", "line", "syscall"]

BATCH = 24
"""How many crashed directories one inspecting process looks at."""

REOPEN_EVERY = 4
"""After one in so many restorations the store is closed and reopened before it is read."""

RESTORE_BATCH = 3
"""Records in one batch of a restoration: small, so that there are several batches."""


@dataclass(frozen=True)
class CrashPoint:
    """Where a program is killed.

    Attributes:
        kind: see the module.
        operation: the index of the operation before or in which it dies.
        n: before which line or system call; 0 only counts them.
        span: how many operations system calls are counted over.
    """

    kind: Kind
    operation: int
    n: int = 0
    span: int = 1


@dataclass(frozen=True)
class Crashed:
    """A program that was killed.

    Attributes:
        started: how many operations had at least started.
        finished: how many had returned.
        counted: lines or system calls counted by a point that only counts.
        reached: whether the process died at the point, rather than after it.
        error: what the subject raised before the process could be killed.
    """

    program: Program
    point: CrashPoint
    directory: Path
    started: int
    finished: int
    counted: int
    reached: bool
    error: str = ""


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
    """

    refused: str = ""
    error: str = ""
    offsets: list[int | None] = field(default_factory=list)
    content: dict[bytes, bytes] = field(default_factory=dict)
    scanned: list[tuple[bytes, bytes]] | None = None
    position: dict[int, int] = field(default_factory=dict)
    restored: dict[bytes, bytes] = field(default_factory=dict)
    restored_offsets: list[int | None] = field(default_factory=list)


def spread(count: int, limit: int) -> list[int]:
    """The numbers 1 to ``count``, or ``limit`` of them, evenly spread, both ends included."""
    if count <= limit:
        return list(range(1, count + 1))
    if limit < 2:
        return [1 + count // 2][:limit]
    return sorted({1 + round(i * (count - 1) / (limit - 1)) for i in range(limit)})


class _Progress:
    """How far a doomed process came, in memory that it shares with us."""

    _LAYOUT = struct.Struct("4q")

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)
        self._words = memoryview(self._memory).cast("q")
        self._error_at = self._LAYOUT.size

    def reset(self) -> None:
        self._memory[:] = bytes(mmap.PAGESIZE)

    def set(self, started: int, finished: int) -> None:
        self._words[0] = started
        self._words[1] = finished

    def count(self, n: int) -> None:
        self._words[2] = n

    def survived(self) -> None:
        self._words[3] = 1

    def fail(self, error: BaseException) -> None:
        text = brief(error).encode("utf-8", "replace")[:1000]
        self._memory[self._error_at : self._error_at + len(text)] = text

    def read(self) -> tuple[int, int, int, bool, str]:
        words = self._words
        end = self._memory.find(b"\0", self._error_at)
        text = self._memory[self._error_at : end].decode("utf-8", "replace")
        return words[0], words[1], words[2], bool(words[3]), text


class KillEngine:
    """Kills programs of one subject and observes what is left of them."""

    def __init__(self, run: CheckRun) -> None:
        self._run = run
        self._progress = _Progress()
        self._kept: list[Any] = []
        self._death = ""
        self.syscalls = triggers.shim_is_loaded()

    def lab(self, directory: Path) -> Lab:
        """The subject in a directory."""
        return Lab(self._run.subject, guarantee=self._run.settings.guarantee, directory=directory)

    def kill(self, program: Program, point: CrashPoint) -> Crashed:
        """Run a program in a child and kill it at a point."""
        directory = self._run.new_directory()
        self._progress.reset()
        pid = os.fork()
        if pid == 0:
            self._doom(program, point, directory)
        _, status = os.waitpid(pid, 0)
        self._run.status.clear()
        started, finished, counted, survived, error = self._progress.read()
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            # It did not die by our hand.
            error = f"an end of the process: {_how_it_ended(status)}"
        self._run.evidence.operations += started
        return Crashed(program, point, directory, started, finished, counted, not survived, error)

    def count(self, program: Program, point: CrashPoint) -> int:
        """How many lines or system calls there are at a point."""
        return self.kill(program, replace(point, n=0)).counted

    def _doom(self, program: Program, point: CrashPoint, directory: Path) -> None:
        """Perform the program until it is killed; never returns."""
        try:
            lab = self.lab(directory)
            store = None
            last = point.operation + point.span
            for index, operation in enumerate(program.operations):
                if index == point.operation and point.kind == "boundary":
                    self._arm(point)
                if index == last:
                    self._disarm(point)
                self._progress.set(index + 1, index)
                with self._run.status.operation(operation.source()[:200]):
                    # The lines of one operation are counted; the harness adds none to them.
                    if index == point.operation and point.kind != "boundary":
                        self._arm(point)
                    store = operation.perform(lab, store)
                    if index + 1 == last and point.kind == "line":
                        self._disarm(point)
                self._progress.set(index + 1, index + 1)
            self._disarm(point)
            self._progress.survived()
        except BaseException as error:
            triggers.disarm()
            self._progress.fail(error)
        os.kill(os.getpid(), signal.SIGKILL)

    def _arm(self, point: CrashPoint) -> None:
        if point.kind == "boundary":
            os.kill(os.getpid(), signal.SIGKILL)
        elif point.kind == "syscall":
            triggers.arm_syscalls(point.n or triggers.COUNT_ONLY)
        elif point.n:
            triggers.arm_lines(point.n)
        else:
            triggers.count_lines(self._progress.count)

    def _disarm(self, point: CrashPoint) -> None:
        if point.kind == "syscall" and not point.n and triggers.counted_syscalls():
            self._progress.count(triggers.counted_syscalls())
        triggers.disarm()

    # What is left.

    def observe(
        self, crashes: Sequence[Crashed], histories: Sequence[History]
    ) -> list[Observation]:
        """Look at crashed directories, each in a process that has opened nothing else of it."""
        observations: list[Observation] = []
        while len(observations) < len(crashes):
            at = len(observations)
            batch = list(zip(crashes[at : at + BATCH], histories[at : at + BATCH], strict=True))
            found = self._observe_in_child(batch)
            if len(found) < len(batch):
                # The process died over one directory: that is the observation about it.
                found.append(Observation(error=self._death))
            observations += found
        return observations

    def _observe_in_child(self, batch: list[tuple[Crashed, History]]) -> list[Observation]:
        target = batch[0][0].directory.parent / "observations"
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException), target.open("wb") as file:
                for number, (crashed, history) in enumerate(batch):
                    observation = self._look(crashed, history, reopen=not number % REOPEN_EVERY)
                    line = msgspec.msgpack.encode(observation)
                    file.write(len(line).to_bytes(8, "big") + line)
                    file.flush()
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        call = self._run.status.current()
        during = f" while {call[0]}" if call else ""
        self._death = f"the process ended{during}: {_how_it_ended(status)}"
        self._run.status.clear()
        found = []
        if target.is_file():
            data = target.read_bytes()
            while data:
                size = int.from_bytes(data[:8], "big")
                line, data = data[8 : 8 + size], data[8 + size :]
                if len(line) == size:
                    found.append(msgspec.msgpack.decode(line, type=Observation))
        return found

    def _look(self, crashed: Crashed, history: History, *, reopen: bool) -> Observation:
        """Open, read, replay the changelog, commit, read; in a process of its own."""
        lab = self.lab(crashed.directory)
        found = Observation()
        stage = "opening"
        try:
            with self._run.status.operation("opening the store after the crash"):
                store = self._open(lab, found)
            # Closing takes as long as all the rest; the process ends soon, and it does that.
            self._kept.append(store)
            stage = "reading"
            with self._run.status.operation("reading the store after the crash"):
                self._read(store, crashed, history, found)
            stage = "restoring"
            with self._run.status.operation("restoring the store after the crash"):
                self._replay(lab, store, history, found)
                if reopen:
                    store.close()
                    store = lab.rows()
                    self._kept.append(store)
                found.restored = _read(store, crashed.program.keys)
                partitions = partitions_of(history)
                found.restored_offsets = [store.committed_offset(each) for each in partitions]
        except BaseException as error:
            found.error = f"{stage} the store raised {brief(error)}"
        return found

    def _open(self, lab: Lab, found: Observation) -> Any:
        try:
            return lab.rows()
        except TaskCorruptedError as refusal:
            found.refused = brief(refusal)
            lab.wipe()
            return lab.rows()

    def _read(self, store: Any, crashed: Crashed, history: History, found: Observation) -> None:
        found.offsets = [store.committed_offset(each) for each in partitions_of(history)]
        found.content = _read(store, crashed.program.keys)
        if self._run.subject.capabilities.scan:
            found.scanned = _entries(store)
        if self._run.subject.capabilities.position:
            offsets = store.position.as_dict()
            found.position = {partition: offset for (_, partition), offset in offsets.items()}

    def _replay(self, lab: Lab, store: Any, history: History, found: Observation) -> None:
        changelog = changelog_of(history)
        offsets = dict(zip(partitions_of(history), found.offsets, strict=True))
        records = _missing(changelog, offsets)
        for at in range(0, len(records), RESTORE_BATCH):
            lab.restore(store, records[at : at + RESTORE_BATCH])
        store.commit(ends_of(changelog))


def changelog_of(history: History) -> list[Write]:
    """What the changelog holds after the crash, as a reader of it sees it.

    Under exactly-once the transaction is committed before the store is, and what was
    not committed is aborted, and never read. Under at-least-once everything is there.
    """
    if history.exact:
        return history.writes[: history.commits[-1].writes]
    return history.writes


def partitions_of(history: History) -> list[TopicPartition]:
    """Every partition that a write or a commit names, sorted."""
    named = {write.partition for write in history.writes}
    for commit in history.commits:
        named.update(commit.offsets)
    return sorted(named)


def ends_of(changelog: list[Write]) -> dict[TopicPartition, int]:
    """The last offset of each partition."""
    return {write.partition: write.offset for write in changelog}


def _missing(
    changelog: list[Write], offsets: dict[TopicPartition, int | None]
) -> list[ChangelogRecord]:
    """The records after the committed offset of their partition; all, where there is none."""
    return [
        write.record()
        for write in changelog
        if write.offset > (-1 if (end := offsets.get(write.partition)) is None else end)
    ]


def _how_it_ended(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


def _read(store: Any, keys: list[bytes]) -> dict[bytes, bytes]:
    content = {}
    for key in keys:
        value = store.get(key)
        if value is not None:
            content[key] = bytes(value)
    return content


def _entries(store: Any) -> list[tuple[bytes, bytes]]:
    iterator = store.all()
    some = itertools.islice(iterator, SCAN_LIMIT)
    entries = [(bytes(entry[0]), bytes(entry[1])) for entry in some]
    if hasattr(iterator, "close"):
        iterator.close()
    return entries
