"""The kill engine: run a program in a child, kill it at a point, and look at what is left.

The page cache survives the death of a process: what was handed to the kernel is there, what
was still in the memory of the process is gone. Points are of three kinds:

``boundary``
    between two operations of the program;
``line``
    before the n-th line of Python that one operation runs;
``syscall``
    before the n-th write-like system call from one operation to the end of another.

A system call may also fail instead, once or from then on, so that the disk is full or broken:

``enospc``, ``eio``
    the n-th write-like system call fails. The program ends where an operation raises, or at its
    end, and the process dies; or the failure goes away, the store is closed, and then it dies.

Points are counted in a first run that is not killed before its end, then enumerated; where
there are more of them than may be used, evenly spread ones are taken.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import pickle  # noqa: F401 - see below
import select
import shutil
import signal
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from streamproof.conformance.check_context import CheckContext
from streamproof.conformance.crash import triggers
from streamproof.conformance.crash.crash_records import FAULTS, Crashed, CrashPoint, Observation
from streamproof.conformance.crash.program import Program
from streamproof.conformance.lab import ChangelogRecord, Lab
from streamproof.conformance.oracle import History, Write, changelog_of, ends_of, partitions_of
from streamproof.conformance.trial import SCAN_LIMIT
from streamproof.conformance.violations import brief
from streamproof.stores.api import TopicPartition
from streamproof.stores.errors import TaskCorruptedError
from streamproof.stores.host.client import kill_hosts

# rocksdict imports pickle when it opens its first database, which would be in every doomed
# process; here it is done once, before they are forked. That saves a third of their time.

__all__ = [
    "BATCH",
    "KillEngine",
]

BATCH = 24
"""How many crashed directories one inspecting process looks at."""

REOPEN_EVERY = 4
"""After one in so many restorations the store is closed and reopened before it is read."""

RESTORE_BATCH = 3
"""Records in one batch of a restoration: small, so that there are several batches."""


class _Progress:
    """How far a doomed process came, in memory that it shares with us."""

    _STARTED, _FINISHED, _COUNT, _MISSED, _RAISED, _CLOSED = range(6)
    _ERROR_AT = 64

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)
        self._words = memoryview(self._memory).cast("q")

    def reset(self) -> None:
        self._memory[:] = bytes(mmap.PAGESIZE)

    def set(self, started: int, finished: int) -> None:
        self._words[self._STARTED] = started
        self._words[self._FINISHED] = finished

    def count(self, n: int) -> None:
        self._words[self._COUNT] = n

    def missed(self) -> None:
        """The point was not reached."""
        self._words[self._MISSED] = 1

    def closed(self) -> None:
        self._words[self._CLOSED] = 1

    def fail(self, error: BaseException, *, expected: bool = False) -> None:
        """Something was raised; ``expected`` if a call of the system had failed before."""
        self._words[self._RAISED] = expected
        text = brief(error).encode("utf-8", "replace")[:1000]
        self._memory[self._ERROR_AT : self._ERROR_AT + len(text)] = text

    def crashed(self, crashed: Crashed) -> Crashed:
        """A program whose process is dead, with what became of it."""
        words = self._words
        end = self._memory.find(b"\0", self._ERROR_AT)
        text = self._memory[self._ERROR_AT : end].decode("utf-8", "replace")
        expected = bool(words[self._RAISED])
        return replace(
            crashed,
            started=words[self._STARTED],
            finished=words[self._FINISHED],
            counted=words[self._COUNT],
            reached=not words[self._MISSED],
            error="" if expected else text,
            raised=text if expected else "",
            closed=bool(words[self._CLOSED]),
        )


@dataclass(frozen=True)
class _Doomed:
    """A process that is to die, and where it tells how far it came."""

    pid: int
    progress: _Progress
    crashed: Crashed


class KillEngine:
    """Kills programs of one subject and observes what is left of them."""

    def __init__(self, run: CheckContext) -> None:
        self._run = run
        self._progress = _Progress()
        self._kept: list[Any] = []
        self._death = ""
        self.syscalls = triggers.shim_is_loaded()

    def lab(self, directory: Path) -> Lab:
        """The subject in a directory."""
        return Lab(self._run.subject, guarantee=self._run.settings.guarantee, directory=directory)

    def kill(self, program: Program, point: CrashPoint, before: Crashed | None = None) -> Crashed:
        """Run a program in a child, on what a crash before it left, and kill it at a point."""
        doomed = self._start(program, point, before, self._progress)
        _, status = os.waitpid(doomed.pid, 0)
        self._run.status.clear()
        return self._end(doomed, status)

    def kill_all(
        self, program: Program, points: Sequence[CrashPoint], before: Crashed | None = None
    ) -> list[Crashed]:
        """As ``kill``, at each point.

        Where calls fail, all processes run at the same time, as a store may wait for a while
        before it gives up; one that takes longer than a single call may is ended as a hang.
        """
        if not any(point.kind in FAULTS for point in points):
            return [self.kill(program, point, before) for point in points]
        started = [self._start(program, point, before, _Progress()) for point in points]
        limit = self._run.settings.operation_timeout_s
        deadline = time.monotonic() + limit
        crashes = []
        for doomed in started:
            hangs = not _ended(doomed.pid, deadline)
            if hangs:
                os.kill(doomed.pid, signal.SIGKILL)
            _, status = os.waitpid(doomed.pid, 0)
            crashed = self._end(doomed, status)
            error = f"no end: nothing within {limit:g} s" if hangs else crashed.error
            crashes.append(replace(crashed, error=error))
        return crashes

    def _start(
        self, program: Program, point: CrashPoint, before: Crashed | None, progress: _Progress
    ) -> _Doomed:
        directory = self._run.new_directory()
        if before is not None:
            shutil.copytree(before.directory, directory, symlinks=True, dirs_exist_ok=True)
        progress.reset()
        pid = os.fork()
        if pid == 0:
            self._progress = progress
            self._doom(program, point, directory, again=before is not None)
        return _Doomed(pid, progress, Crashed(program, point, directory, before=before))

    def _end(self, doomed: _Doomed, status: int) -> Crashed:
        """What became of a process that is dead."""
        crashed = doomed.progress.crashed(doomed.crashed)
        self._run.evidence.operations += crashed.started
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            # It did not die by our hand.
            return replace(crashed, error=f"an end of the process: {_how_it_ended(status)}")
        return crashed

    def count(self, program: Program, point: CrashPoint, before: Crashed | None = None) -> int:
        """How many lines or system calls there are at a point."""
        crashed = self.kill(program, replace(point, n=0), before)
        shutil.rmtree(crashed.directory.parent, ignore_errors=True)
        return crashed.counted

    def _doom(
        self, program: Program, point: CrashPoint, directory: Path, *, again: bool
    ) -> NoReturn:
        """Perform the program until it is killed."""
        stores: dict[int, Any] = {}
        if self._run.subject.is_remote:
            triggers.share_fate()
        try:
            self._perform(program, point, directory, stores)
        except TaskCorruptedError as refusal:
            # After a crash it may ask to be wiped, and is then not used any more.
            refused = again and not stores and not self._run.subject.capabilities.transactional
            self._stop(point, None if refused else refusal)
        except BaseException as error:
            self._stop(point, error)
        else:
            self._stop(point, None)
        if point.closing:
            self._close(stores)
        triggers.die()

    def _perform(
        self, program: Program, point: CrashPoint, directory: Path, stores: dict[int, Any]
    ) -> None:
        lab = self.lab(directory)
        labs = {number: lab.beside(number) if number else lab for number in program.stores}
        last = point.operation + point.span if point.kind not in FAULTS else len(program)
        for index, operation in enumerate(program.operations):
            if index == point.operation and point.kind == "boundary":
                self._arm(point)
            if index == last:
                self._disarm(point)
            self._progress.set(index + 1, index)
            with self._calling(point, operation.source()[:200]):
                # The lines of one operation are counted; the harness adds none to them.
                if index == point.operation and point.kind != "boundary":
                    self._arm(point)
                store = operation.perform(labs[operation.store], stores.get(operation.store))
                if index + 1 == last and point.kind == "line":
                    self._disarm(point)
            stores[operation.store] = store
            self._progress.set(index + 1, index + 1)

    def _calling(self, point: CrashPoint, call: str) -> AbstractContextManager[None]:
        """Tell the supervisor which call runs; ``kill_all`` itself looks for calls that hang."""
        return (
            contextlib.nullcontext() if point.kind in FAULTS else self._run.status.operation(call)
        )

    def _arm(self, point: CrashPoint) -> None:
        if point.kind == "boundary":
            triggers.die()
        elif point.kind == "line" and point.n:
            triggers.arm_lines(point.n)
        elif point.kind == "line":
            triggers.count_lines(self._progress.count)
        else:
            error = FAULTS.get(point.kind, 0)
            triggers.arm_syscalls(
                point.n or triggers.COUNT_ONLY, error=error, lasting=point.lasting
            )

    def _disarm(self, point: CrashPoint) -> None:
        if point.kind in ("syscall", *FAULTS) and not point.n and triggers.counted_syscalls():
            self._progress.count(triggers.counted_syscalls())
        triggers.disarm()

    def _stop(self, point: CrashPoint, error: BaseException | None) -> None:
        """Note how a program ended that the point itself did not kill."""
        failed = point.kind in FAULTS and 0 < point.n <= triggers.counted_syscalls()
        self._disarm(point)
        if not failed:
            self._progress.missed()
        if error is not None:
            self._progress.fail(error, expected=failed and isinstance(error, Exception))

    def _close(self, stores: dict[int, Any]) -> None:
        """Close the stores; that it may raise after a failure is no matter."""
        with contextlib.suppress(BaseException):
            for store in stores.values():
                store.close()
            self._progress.closed()

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
                    found.reopened = True
                    store.close()
                    store = lab.rows()
                    self._kept.append(store)
                found.restored = _read(store, crashed.keys)
                partitions = partitions_of(history)
                found.restored_offsets = [store.committed_offset(each) for each in partitions]
        except BaseException as error:
            found.error = f"{stage} the store raised {brief(error)}"
        # Hosts would pile up, as stores are not closed here; a store in this process has none.
        kill_hosts()
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
        found.content = _read(store, crashed.keys)
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


def _missing(
    changelog: list[Write], offsets: dict[TopicPartition, int | None]
) -> list[ChangelogRecord]:
    """The records after the committed offset of their partition; all, where there is none."""
    return [
        write.record()
        for write in changelog
        if write.offset > (-1 if (end := offsets.get(write.partition)) is None else end)
    ]


def _ended(pid: int, deadline: float) -> bool:
    """Whether a child ends before a moment of ``time.monotonic``; it waits for that."""
    descriptor = os.pidfd_open(pid)
    try:
        left = max(0.0, deadline - time.monotonic())
        return bool(select.select([descriptor], [], [], left)[0])
    finally:
        os.close(descriptor)


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
