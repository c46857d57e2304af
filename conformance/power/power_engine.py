"""The power engine runs and records a program once, and then makes the states of a loss of power.

No power is lost for real. The program runs to its end in a child process. The recording of its
calls determines the possible states of the disk, had the power gone after any of them. The engine
makes each state in a directory of its own, where the store then opens.
"""

from __future__ import annotations

import os
import shutil
import signal
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from streamproof.conformance.check_context import CheckContext
from streamproof.conformance.crash.crash_records import Crashed, CrashPoint
from streamproof.conformance.crash.inspector import how_it_ended
from streamproof.conformance.crash.program import Program
from streamproof.conformance.power.disk import JOURNALLED, disk_of
from streamproof.conformance.power.disk_states import DiskState
from streamproof.conformance.power.syscall_recorder import mark, run_recorded
from streamproof.conformance.power.syscall_trace import SyscallTrace, Tree, actual_tree, write_tree
from streamproof.conformance.violations import brief
from streamproof.stores.errors import TaskCorruptedError

__all__ = ["Loss", "PowerEngine", "Recording"]


@dataclass(frozen=True)
class Recording:
    """A program with its recorded run.

    Attributes:
        trace: the recorded calls.
        error: how the subject failed: it ``raised`` or ``ended the process``; empty if it did not.
        escaped: the files with unrecorded writes, whose states cannot be known.
        before: the earlier loss of power whose state the program started with.
    """

    program: Program
    trace: SyscallTrace
    error: str = ""
    escaped: tuple[str, ...] = ()
    before: Loss | None = None

    @property
    def whole(self) -> Crashed:
        """The program, as if it had been killed at its end."""
        started, finished = len(self.trace.started), len(self.trace.returned)
        before = self.before.crashed if self.before else None
        point = CrashPoint("boundary", started)
        return Crashed(self.program, point, Path(), started, finished, before=before)


@dataclass(frozen=True)
class Loss:
    """A state that a loss of power may leave.

    Attributes:
        crashed: the program up to the loss, and the directory with the state.
    """

    recording: Recording
    state: DiskState
    crashed: Crashed

    def tree(self) -> Tree:
        """The content of the disk in this state."""
        return self.state.tree(disk_of(self.recording.trace, JOURNALLED))

    @property
    def chain(self) -> list[Loss]:
        """The earlier losses of power in order, and then this one."""
        before = self.recording.before
        return [*(before.chain if before else []), self]


class PowerEngine:
    """Records programs of one subject, and makes the states after a loss of power."""

    def __init__(self, run: CheckContext) -> None:
        self._run = run

    def record(self, program: Program, before: Loss | None = None) -> Recording:
        """Run and record a program, after an earlier loss of power if there is one."""
        directory = self._run.new_directory()
        if before is not None:
            write_tree(before.tree(), directory)
        log, error = directory.parent / "calls", directory.parent / "error"
        doomed = partial(self._perform, program, directory, error, again=before is not None)
        trace, status = run_recorded(doomed, directory, log)
        self._run.status.clear()
        self._run.evidence.operations += len(trace.started)
        text = error.read_text() if error.is_file() else ""
        if not text and os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            text = f"ended the process: {how_it_ended(status)}"
        escaped = tuple(_escaped(trace, directory))
        shutil.rmtree(directory.parent, ignore_errors=True)
        return Recording(program, trace, text, escaped, before)

    def _perform(self, program: Program, directory: Path, error: Path, *, again: bool) -> None:
        """Perform a program, and write its exception to a file."""
        lab = self._run.lab(directory)
        labs = {number: lab.beside(number) if number else lab for number in program.stores}
        stores: dict[int, Any] = {}
        try:
            for index, operation in enumerate(program.operations):
                mark(index, returned=False)
                with self._run.status.operation(operation.source()[:200]):
                    store = operation.perform(labs[operation.store], stores.get(operation.store))
                stores[operation.store] = store
                mark(index, returned=True)
        except TaskCorruptedError as refusal:
            # After a loss of power the store may ask to be wiped, which ends the program.
            if not again or stores or self._run.subject.capabilities.transactional:
                error.write_text(f"raised {brief(refusal)}", "utf-8", "replace")
        except BaseException as raised:
            error.write_text(f"raised {brief(raised)}", "utf-8", "replace")

    def leave(self, recording: Recording, state: DiskState, tree: Tree) -> Loss:
        """Make a state in a directory of its own."""
        directory = self._run.new_directory()
        write_tree(tree, directory)
        started, finished = recording.trace.operations(state.after)
        crashed = replace(recording.whole, directory=directory, started=started, finished=finished)
        return Loss(recording, state, crashed)


def _escaped(trace: SyscallTrace, directory: Path) -> list[str]:
    """The files with unrecorded writes: mapped files, or files that differ from the record."""
    expected = disk_of(trace, JOURNALLED).tree(len(trace.calls))
    found = actual_tree(directory)
    paths = sorted(expected.keys() | found.keys())
    missing = object()
    differing = [path for path in paths if expected.get(path, missing) != found.get(path, missing)]
    return sorted({*trace.escaped, *differing})
