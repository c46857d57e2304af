"""The kill engine runs a program in a child process, and kills the process at a point.

The page cache survives the death of a process. So data that reached the kernel stays, and data in
the memory of the process is lost. Points are of three kinds:

``boundary``
    between two operations of the program;
``line``
    before the n-th line of Python that one operation runs;
``syscall``
    before the n-th write-like system call from one operation to the end of another.

At a point a system call may also fail, once or from then on, as on a full or broken disk:

``enospc``, ``eio``
    the n-th write-like system call fails. The program stops at the first operation that raises, or
    at its end. Then the process dies; or the failure goes away, the store is closed, and then the
    process dies.

A first run, which is killed only at its end, counts the points. If their number exceeds the limit,
the engine takes evenly spread points.
"""

from __future__ import annotations

import contextlib
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

from streamproof.conformance.check_context import CheckContext
from streamproof.conformance.crash import triggers
from streamproof.conformance.crash.crash_records import FAULTS, Crashed, CrashPoint
from streamproof.conformance.crash.inspector import how_it_ended
from streamproof.conformance.crash.program import Program
from streamproof.conformance.process_resources import families
from streamproof.conformance.subject_lines import told, traceback_of
from streamproof.conformance.violations import brief
from streamproof.patience import Patience
from streamproof.stores.errors import TaskCorruptedError
from streamproof.stores.syscalls.shim_control import Control

# rocksdict imports pickle when it opens its first database. Importing pickle here, before the fork,
# saves every doomed process a third of its time.

__all__ = [
    "KillEngine",
]

ENDS_POLL_S = 0.25
"""How often a process is looked at that has taken longer than its limit."""

SYSCALL_KINDS = ("syscall", *FAULTS)
"""The kinds of points that are write-like system calls."""


class _Progress:
    """The progress of a doomed process, in a file without a name, which both processes map.

    The first page is for the shim, the second has the progress, the next two the stack at the
    point, and the last two the traceback of an exception.
    """

    _STARTED, _FINISHED, _COUNT, _MISSED, _RAISED, _CLOSED = range(6)
    _ERROR_AT = 64
    _PLACE_AT = 2048
    _TRACE_AT = 2 * mmap.PAGESIZE
    _RAISED_AT = 4 * mmap.PAGESIZE
    _BYTES = 6 * mmap.PAGESIZE

    def __init__(self) -> None:
        self.file = os.fdopen(os.memfd_create("streamproof-progress"), "w+b", buffering=0)
        self.file.truncate(self._BYTES)
        self._all = mmap.mmap(self.file.fileno(), self._BYTES)
        self._memory = memoryview(self._all)[mmap.PAGESIZE : self._TRACE_AT]
        self._words = self._memory.cast("q")

    def reset(self) -> None:
        self._all[:] = bytes(self._BYTES)
        # The doomed process writes its traceback at this position.
        self.file.seek(self._TRACE_AT)

    def set(self, started: int, finished: int) -> None:
        self._words[self._STARTED] = started
        self._words[self._FINISHED] = finished

    def count(self, n: int) -> None:
        self._words[self._COUNT] = n

    def missed(self) -> None:
        """The program did not reach the point."""
        self._words[self._MISSED] = 1

    def closed(self) -> None:
        self._words[self._CLOSED] = 1

    def tell(self, place: str) -> None:
        """The line of Python before which the process dies."""
        self._write(self._PLACE_AT, brief(place))

    def _write(self, at: int, text: str) -> None:
        data = text.encode("utf-8", "replace")[:1000]
        self._memory[at : at + len(data)] = data

    def _read(self, at: int) -> str:
        return bytes(self._memory[at:]).partition(b"\0")[0].decode("utf-8", "replace")

    def fail(self, error: BaseException, *, expected: bool = False) -> None:
        """An exception; ``expected`` if a system call had failed before."""
        self._words[self._RAISED] = expected
        self._write(self._ERROR_AT, told(error))
        room = self._BYTES - self._RAISED_AT
        # The end of a traceback tells most. The rest of the pages may have the end of a deep stack.
        trace = traceback_of(error).encode("utf-8", "replace")[-room:]
        self._all[self._RAISED_AT :] = trace.ljust(room, b"\0")

    def crashed(self, crashed: Crashed) -> Crashed:
        """A program whose process is dead, with its outcome."""
        words = self._words
        text = self._read(self._ERROR_AT)
        trace = self._all[self._TRACE_AT : self._RAISED_AT].decode("utf-8", "replace")
        raised = self._all[self._RAISED_AT :].rstrip(b"\0").decode("utf-8", "replace")
        call, line = triggers.described_call(
            Control.told_call(self._all[: mmap.PAGESIZE]), trace, crashed.directory
        )
        expected = bool(words[self._RAISED])
        return replace(
            crashed,
            started=words[self._STARTED],
            finished=words[self._FINISHED],
            counted=words[self._COUNT],
            reached=not words[self._MISSED],
            error=f"raised {text}" if text and not expected else "",
            raised=text if expected else "",
            traceback=raised if text else "",
            closed=bool(words[self._CLOSED]),
            call=call,
            place=line or self._read(self._PLACE_AT),
        )


@dataclass(frozen=True)
class _Doomed:
    """A process that will die, and the shared memory that shows its progress."""

    pid: int
    progress: _Progress
    crashed: Crashed


class KillEngine:
    """Kills programs of one subject."""

    def __init__(self, run: CheckContext) -> None:
        self._run = run
        self._progress = _Progress()

    def kill(self, program: Program, point: CrashPoint, before: Crashed | None = None) -> Crashed:
        """Run a program in a child, after an earlier crash if there is one; kill it at a point.

        Raises:
            Lacking: the point is a system call, and this process does not see system calls.
        """
        doomed = self._start(program, point, before, self._progress)
        _, status = os.waitpid(doomed.pid, 0)
        self._run.status.clear()
        return self._end(doomed, status)

    def kill_all(
        self, program: Program, points: Sequence[CrashPoint], before: Crashed | None = None
    ) -> list[Crashed]:
        """Kill a program at each point, like ``kill``.

        Points with failing calls run at the same time, because a store may wait for a while before
        it gives up. A process that runs longer than the limit for one call counts as a hang; the
        time in which it waits for a processor is left out.
        """
        if not any(point.kind in FAULTS for point in points):
            return [self.kill(program, point, before) for point in points]
        started = [self._start(program, point, before, _Progress()) for point in points]
        limit = self._run.settings.operation_timeout_s
        began = time.monotonic()
        crashes = []
        for doomed in started:
            hangs = not _ends(doomed.pid, began, limit)
            if hangs:
                os.kill(doomed.pid, signal.SIGKILL)
            _, status = os.waitpid(doomed.pid, 0)
            crashed = self._end(doomed, status)
            error = f"did not return within {limit:g} s" if hangs else crashed.error
            crashes.append(replace(crashed, error=error))
        return crashes

    def _start(
        self, program: Program, point: CrashPoint, before: Crashed | None, progress: _Progress
    ) -> _Doomed:
        if point.kind in SYSCALL_KINDS:
            triggers.require_seen()
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
        """The outcome of a dead process."""
        crashed = doomed.progress.crashed(doomed.crashed)
        self._run.evidence.operations += crashed.started
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            # The subject ended the process before the engine did.
            return replace(crashed, error=f"ended the process: {how_it_ended(status)}")
        return crashed

    def count(self, program: Program, point: CrashPoint, before: Crashed | None = None) -> int:
        """The number of lines or system calls at a point."""
        crashed = self.kill(program, replace(point, n=0), before)
        shutil.rmtree(crashed.directory.parent, ignore_errors=True)
        return crashed.counted

    def _doom(
        self, program: Program, point: CrashPoint, directory: Path, *, again: bool
    ) -> NoReturn:
        """Perform the program until it is killed."""
        stores: dict[int, Any] = {}
        if self._run.subject.is_remote:
            triggers.share_fate(self._progress.file.fileno())
        elif point.kind in SYSCALL_KINDS:
            triggers.tell_calls(self._progress.file.fileno())
        try:
            self._perform(program, point, directory, stores)
        except TaskCorruptedError as refusal:
            # After a crash the store may ask to be wiped, which ends the program.
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
        lab = self._run.lab(directory)
        labs = {number: lab.beside(number) if number else lab for number in program.stores}
        last = point.operation + point.span if point.kind not in FAULTS else len(program)
        for index, operation in enumerate(program.operations):
            if index == point.operation and point.kind == "boundary":
                self._arm(point)
            if index == last:
                self._disarm(point)
            self._progress.set(index + 1, index)
            with self._calling(point, operation.source()[:200]):
                # Only lines of the operation count; none of the lines here may be among them.
                if index == point.operation and point.kind != "boundary":
                    self._arm(point)
                store = operation.perform(labs[operation.store], stores.get(operation.store))
                if index + 1 == last and point.kind == "line":
                    self._disarm(point)
            stores[operation.store] = store
            self._progress.set(index + 1, index + 1)

    def _calling(self, point: CrashPoint, call: str) -> AbstractContextManager[None]:
        """Report the running call, unless ``kill_all`` looks for hanging calls itself."""
        return (
            contextlib.nullcontext() if point.kind in FAULTS else self._run.status.operation(call)
        )

    def _arm(self, point: CrashPoint) -> None:
        if point.kind == "boundary":
            triggers.die()
        elif point.kind == "line" and point.n:
            triggers.arm_lines(point.n, self._progress.tell)
        elif point.kind == "line":
            triggers.count_lines(self._progress.count)
        else:
            error = FAULTS.get(point.kind, 0)
            triggers.arm_syscalls(
                point.n or triggers.COUNT_ONLY, error=error, lasting=point.lasting
            )

    def _disarm(self, point: CrashPoint) -> None:
        if point.kind in SYSCALL_KINDS and not point.n and triggers.counted_syscalls():
            self._progress.count(triggers.counted_syscalls())
        triggers.disarm()

    def _stop(self, point: CrashPoint, error: BaseException | None) -> None:
        """Record how a program ended without a kill."""
        failed = point.kind in FAULTS and 0 < point.n <= triggers.counted_syscalls()
        self._disarm(point)
        if not failed:
            self._progress.missed()
        if error is not None:
            self._progress.fail(error, expected=failed and isinstance(error, Exception))

    def _close(self, stores: dict[int, Any]) -> None:
        """Close the stores; after a failed call, an exception here breaks no promise."""
        with contextlib.suppress(BaseException):
            for store in stores.values():
                store.close()
            self._progress.closed()


def _ends(pid: int, began: float, limit_s: float) -> bool:
    """Wait for a child that began at a moment of ``time.monotonic``; whether it ends in time."""
    descriptor = os.pidfd_open(pid)
    # All processes that work for the child are as young as the child.
    patience = Patience(limit_s, waits={})
    try:
        left = max(0.0, began + limit_s - time.monotonic())
        while not select.select([descriptor], [], [], left)[0]:
            if patience.is_over(time.monotonic() - began, lambda: families([pid])):
                return False
            left = ENDS_POLL_S
        return True
    finally:
        os.close(descriptor)
