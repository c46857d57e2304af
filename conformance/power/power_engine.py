"""The power engine runs and records a program once, and then makes the states of a loss of power.

No power is lost for real. The program runs to its end in a child process. The recording of its
calls determines the possible states of the disk, had the power gone after any of them. The engine
makes each state in a directory of its own, where the store then opens.

A kill is a loss of power that loses nothing. So a recording also says what kills would have left.
"""

from __future__ import annotations

import os
import shutil
import signal
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from streamproof.conformance.check_context import CheckContext
from streamproof.conformance.crash import triggers
from streamproof.conformance.crash.crash_records import Crashed, CrashPoint
from streamproof.conformance.crash.inspector import how_it_ended
from streamproof.conformance.crash.program import Program
from streamproof.conformance.power.syscall_recorder import mark, run_recorded
from streamproof.conformance.subject_lines import told, traceback_of
from streamproof.stores.errors import TaskCorruptedError
from streamproof.stores.syscalls.disk import (
    JOURNALLED,
    ROOT,
    DiskModel,
    FileSystem,
    disk_of,
    is_disposable,
)
from streamproof.stores.syscalls.disk_states import DiskState
from streamproof.stores.syscalls.syscall_trace import SyscallTrace, Tree, actual_tree, write_tree

__all__ = ["Loss", "PowerEngine", "Recording"]


@dataclass(frozen=True)
class Recording:
    """A program with its recorded run.

    Attributes:
        trace: the recorded calls.
        error: how the subject failed: it ``raised`` or ``ended the process``; empty if it did not.
        traceback: the part of the subject in the traceback, if the subject raised.
        unseen: the nodes of files with writes that the recorder did not even notice.
        disposable: patterns of the names of files on which no promise depends.
        before: the earlier loss of power whose state the program started with.
        killed: the earlier kill from whose directory the program continued.
        disks: the effects of the calls, by the file system that they were worked out for.
    """

    program: Program
    trace: SyscallTrace
    error: str = ""
    traceback: str = ""
    unseen: frozenset[int] = frozenset()
    disposable: str = ""
    before: Loss | None = None
    killed: Crashed | None = None
    disks: dict[FileSystem, DiskModel] = field(default_factory=dict)

    def disk(self, file_system: FileSystem = JOURNALLED) -> DiskModel:
        """The effects of the calls under the promises of a file system."""
        if file_system not in self.disks:
            disk = disk_of(self.trace, file_system, self.disposable)
            disk.unknown |= dict.fromkeys(self.unseen, 0)
            self.disks[file_system] = disk
        return self.disks[file_system]

    @property
    def escaped(self) -> list[str]:
        """The files with writes that are not recorded, on which states of the disk may depend."""
        disk, end = self.disk(), len(self.trace.calls)
        nodes = {".": ROOT, **disk.nodes(end)}
        return [path for path, node in nodes.items() if node in disk.unknown]

    @property
    def whole(self) -> Crashed:
        """The program, as if it had been killed at its end."""
        started, finished = len(self.trace.started), len(self.trace.returned)
        before = self.before.crashed if self.before else self.killed
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

    @property
    def returned(self) -> set[str]:
        """The names of the operations that had returned before the loss."""
        return {each.name for each in self.crashed.program.operations[: self.crashed.finished]}

    def tree(self) -> Tree:
        """The content of the disk in this state."""
        return self.state.tree(self.recording.disk())

    @property
    def chain(self) -> list[Loss]:
        """The earlier losses of power in order, and then this one."""
        before = self.recording.before
        return [*(before.chain if before else []), self]


class PowerEngine:
    """Records programs of one subject, and makes the states after a loss of power."""

    def __init__(self, run: CheckContext) -> None:
        self._run = run

    def record(
        self, program: Program, before: Loss | None = None, *, killed: Crashed | None = None
    ) -> Recording:
        """Run and record a program, after an earlier loss of power or kill if there is one."""
        directory = self._run.new_directory()
        if before is not None:
            write_tree(before.tree(), directory)
        if killed is not None:
            shutil.copytree(killed.directory, directory, symlinks=True, dirs_exist_ok=True)
        log, error = directory.parent / "calls", directory.parent / "error"
        again = before is not None or killed is not None
        doomed = partial(self._perform, program, directory, error, again=again)
        trace, status = run_recorded(doomed, directory, log)
        self._run.status.clear()
        self._run.evidence.operations += len(trace.started)
        text, _, traceback = error.read_text().partition("\n") if error.is_file() else ("", "", "")
        if not text and os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            text = f"ended the process: {how_it_ended(status)}"
        disposable = self._run.subject.capabilities.disposable_files
        unseen = _unseen(trace, directory, disposable)
        self._run.look_for_room()
        shutil.rmtree(directory.parent, ignore_errors=True)
        return Recording(program, trace, text, traceback, unseen, disposable, before, killed)

    def _perform(self, program: Program, directory: Path, error: Path, *, again: bool) -> None:
        """Perform a program, and write its exception to a file."""
        lab = self._run.lab(directory)
        labs = {number: lab.beside(number) if number else lab for number in program.stores}
        stores: dict[int, Any] = {}
        if self._run.subject.is_remote:
            triggers.share_fate()
        triggers.arm_syscalls(triggers.COUNT_ONLY)
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
                _write_error(refusal, error)
        except BaseException as raised:
            _write_error(raised, error)

    def leave(self, recording: Recording, state: DiskState, tree: Tree) -> Loss:
        """Make a state in a directory of its own."""
        directory = self._run.new_directory()
        write_tree(tree, directory)
        started, finished = recording.trace.operations(state.after)
        crashed = replace(recording.whole, directory=directory, started=started, finished=finished)
        return Loss(recording, state, crashed)


def _write_error(raised: BaseException, file: Path) -> None:
    """Write an exception to a file: a line of words, then the traceback."""
    file.write_text(f"raised {told(raised)}\n{traceback_of(raised)}", "utf-8", "replace")


def _unseen(trace: SyscallTrace, directory: Path, disposable: str) -> frozenset[int]:
    """The nodes of the files that differ from what the record leads to; the root for names."""
    disk, end = disk_of(trace, JOURNALLED, disposable), len(trace.calls)
    nodes, expected, found = disk.nodes(end), disk.tree(end), actual_tree(directory)
    return frozenset(
        nodes[path] if path in expected and path in found else ROOT
        for path in expected.keys() | found.keys()
        if path not in expected or path not in found or expected[path] != found[path]
        if not is_disposable(Path(path).name, disposable)
    )
