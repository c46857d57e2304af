"""Cuts the power of programs in many ways, and judges the states that the disk may be in."""

from __future__ import annotations

import itertools
import math
import shutil
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from streamproof.conformance.check_context import CheckContext
from streamproof.conformance.crash import triggers
from streamproof.conformance.crash.crash_judge import POSITION, history_of
from streamproof.conformance.crash.crash_records import Crashed, CrashPoint
from streamproof.conformance.crash.inspector import BATCH
from streamproof.conformance.crash.kill_engine import KillEngine
from streamproof.conformance.crash.program import Program
from streamproof.conformance.crash.program_campaign import ProgramCampaign, batches, lines_of
from streamproof.conformance.failure_shapes import shape_of_words
from streamproof.conformance.oracle import History
from streamproof.conformance.power.power_engine import Loss, PowerEngine, Recording
from streamproof.conformance.ruling import Ruling
from streamproof.conformance.saved_failures import SavedChoices
from streamproof.conformance.value_codec import decode_value, encode_value
from streamproof.conformance.violations import Violation, violation_of
from streamproof.stores.capabilities import LATE
from streamproof.stores.syscalls.disk import JOURNALLED, PORTABLE, DiskModel, FileSystem
from streamproof.stores.syscalls.disk_states import (
    DAMAGES,
    Damage,
    DiskState,
    Left,
    choose,
    smaller,
)
from streamproof.stores.syscalls.syscall_trace import SyscallTrace

__all__ = ["PowerCampaign", "history_after_power", "promise_of"]

OF_DAMAGE: dict[Damage, str] = {
    "lost": "POWER-001",
    "torn": "POWER-002",
    "reordered": "POWER-003",
    "hollow": "POWER-004",
    "nameless": "POWER-005",
    "scattered": "POWER-014",
}
"""The promise that a store is consistent after a kind of damage."""

OF_RULING = {
    "CRASH-002": "POWER-006",
    "CRASH-007": "POWER-007",
    "CRASH-008": "POWER-009",
    "CRASH-009": "POWER-015",
    "CRASH-010": "POWER-006",
    "RESTORE-006": "POWER-008",
    POSITION: "POWER-013",
}
"""The promises that have a requirement of their own, whatever the damage."""

FLUSHED = "POWER-010"
"""The counterpart of ``POWER-009`` for stores that only make flushed commits durable."""

LEFT_OUT = (
    "states of the disk with {files} were not judged, because not all that is written there can be "
    "recorded; if no promise depends on a file, declare it in disposable_files"
)
"""What a check left out, and why."""

SHRINK_STATES = 24
"""The number of states that are tried on each smaller program."""

MOST_LINES = 8
"""The most lost calls that a program describes."""


def promise_of(ruling: Ruling, damage: Damage, durability: str) -> str:
    """The requirement of this area that corresponds to a ruling on a crash."""
    if ruling.requirement == "CRASH-008" and durability in LATE:
        return FLUSHED
    return OF_RULING.get(ruling.requirement, OF_DAMAGE[damage])


def history_after_power(run: CheckContext, crashed: Crashed) -> History:
    """The history until the power was cut, with the commits that must survive."""
    capabilities = run.subject.capabilities
    history = history_of(crashed, capabilities, exact=run.exact)
    if capabilities.durability == "process":
        # The store promised nothing. Offsets and content must still belong together.
        history.durable = 0
    return history


class PowerCampaign(ProgramCampaign[Loss]):
    """The losses of power of one check.

    Args:
        run: the check.
        limit: the most states to look at.
        file_system: the promises that every state keeps.

    Raises:
        Lacking: system calls cannot be recorded here.
    """

    def __init__(self, run: CheckContext, limit: int, file_system: FileSystem = JOURNALLED) -> None:
        triggers.require_seen()
        super().__init__(run, OF_RULING[POSITION])
        self._engine = PowerEngine(run)
        self._file_system = file_system
        self._left = limit
        self._latest: tuple[Program, CrashPoint, str] | None = None

    def lose(
        self,
        program: Program,
        damages: Sequence[Damage] = DAMAGES,
        *,
        share: float = 1.0,
        before: Loss | None = None,
    ) -> list[Loss]:
        """Cut the power after calls of a program, with a share of the remaining states.

        States that depend on writes that cannot be recorded are left out. The promises that hold in
        the other states then count only where a commit had returned.

        Returns:
            The losses that broke no promise. Their directories are deleted.
        """
        program = self._resumed(program, before.crashed if before else None)
        recording = self._recorded(program, before)
        disk = recording.disk(self._file_system)
        limit = math.ceil(self._left * share / len(damages))
        chosen: list[Left] = []
        for damage in damages:
            most = min(limit, self._left)
            some = list(choose(disk, recording.trace, damage, most))
            if most and not some and not disk.unknown:
                # The store synced in between, so this damage cannot happen.
                self._run.held(OF_DAMAGE[damage])
            chosen += some
            self._left -= len(some)
        whole = []
        # All kinds of damage together, because each batch of states takes a process to look at it.
        for loss, rulings in self._judged(recording, chosen):
            if rulings[-1].broken or not disk.unknown or "commit" in loss.returned:
                self._count()
                self._note(loss, rulings)
            if not rulings[-1].broken:
                whole.append(loss)
        return whole

    def _recorded(self, program: Program, before: Loss | None) -> Recording:
        recording = self._engine.record(program, before)
        if recording.error:
            self._run.record(self._raised(recording))
        if escaped := recording.escaped:
            self._run.evidence.left_out = LEFT_OUT.format(files=", ".join(escaped[:5]))
        return recording

    def _count(self) -> None:
        counts = self._run.evidence.crash_points
        counts["power"] = counts.get("power", 0) + 1
        self._run.evidence.examples += 1

    def repeat(self, choices: SavedChoices) -> None:
        """Repeat a saved loss of power, and record a failure of the same shape.

        Threads of a database shift its system calls from run to run. So the saved loss may not fit
        the new recording, or may show no failure. Then others with the same kind of damage follow.
        """
        self._tries = self._shrink_limit
        before: Loss | None = None
        for number, saved in enumerate(choices.losses, start=1):
            program, state = _decoded(saved)
            if state.damage == "scattered":
                self._file_system = PORTABLE
            recording = self._recorded(program, before)
            states = self._saved_first(recording, state)
            if number < len(choices.losses):
                before = self._engine.leave(recording, *next(states))
                shutil.rmtree(before.crashed.directory.parent, ignore_errors=True)
                continue
            wanted = choices.requirement, choices.shape
            if broken := self._first_break(self._within_tries(recording, states), wanted):
                self._record_again(*broken)

    def _saved_first(self, recording: Recording, state: DiskState) -> Iterator[Left]:
        """A saved state, if it fits this recording, and others with the same damage."""
        disk = recording.disk(self._file_system)
        lost = state.lost | {call for call, _ in state.torn}
        pending = {each.call for each in disk.pending(state.after)}
        known = disk.is_known(state.after, state.lost)
        if state.after <= len(recording.trace.calls) and lost <= pending and known:
            yield state, state.tree(disk)
        yield from choose(disk, recording.trace, state.damage, SHRINK_STATES)
        yield from _at_the_end(recording, self._file_system)

    # Judging.

    def _history(self, crashed: Crashed) -> History:
        return history_after_power(self._run, crashed)

    def _judged(
        self, recording: Recording, states: Iterable[Left], first: int = BATCH
    ) -> Iterator[tuple[Loss, list[Ruling]]]:
        """Make each state, and yield its rulings."""
        for batch in batches(states, first):
            yield from self._judge([self._engine.leave(recording, *each) for each in batch])

    def _within_tries(
        self, recording: Recording, states: Iterable[Left]
    ) -> Iterator[tuple[Loss, list[Ruling]]]:
        """The rulings on no more states than tries are left, for a search for one failure."""
        return self._judged(recording, itertools.islice(states, max(0, self._tries)), first=1)

    # Making failures small.

    def _shrunk(self, case: Loss, ruling: Ruling) -> tuple[Loss, Ruling]:
        if not case.recording.before:
            case, ruling = self._with_fewer_operations(case, ruling)
        return self._less_lost(case, ruling)

    def _last_droppable(self, case: Loss) -> int:
        return len(case.recording.program)

    def _tried_again(
        self, case: Loss, program: Program, *, dropped: int
    ) -> Iterator[tuple[Loss, list[Ruling]]]:
        recording = self._engine.record(program)
        if not recording.error:
            disk = recording.disk(self._file_system)
            chosen = choose(disk, recording.trace, case.state.damage, SHRINK_STATES)
            states = itertools.chain(_at_the_end(recording, self._file_system), chosen)
            yield from self._within_tries(recording, states)

    def _less_lost(self, loss: Loss, ruling: Ruling) -> tuple[Loss, Ruling]:
        """The failure with as little lost as possible. Losing everything counts as simple, too."""
        recording, disk = loss.recording, loss.recording.disk(self._file_system)
        # A loss at the end needs no numbers of calls, which differ where threads of a store write.
        ends = self._within_tries(recording, _at_the_end(recording, self._file_system))
        if broken := self._first_break(ends, self._broken_by(loss, ruling)):
            return broken
        broken = (loss, ruling)
        while broken and not _loses_all(disk, broken[0].state):
            loss, ruling = broken
            states = [(state, state.tree(disk)) for state in smaller(disk, loss.state)]
            again = self._within_tries(recording, states)
            broken = self._first_break(again, self._broken_by(loss, ruling))
        return broken or (loss, ruling)

    # Writing failures down.

    def _raised(self, recording: Recording) -> Violation:
        """The violation of a subject that raised before the power was cut."""
        operations = recording.program.operations
        operation = operations[max(len(recording.trace.started) - 1, 0)]
        ruling = Ruling("CRASH-001", "no exception", f"{operation.name}() {recording.error}")
        lines = lines_of(recording.whole, self._run.subject.opener, shows_position=False)
        source = self._rendered(["", "def doomed():", *lines, "", "doomed()"])
        kind = violation_of(self._run.check.requirements[0], _shape(ruling))
        violation = kind("run the program", ruling.expected, ruling.broken, source)
        violation.traceback = recording.traceback
        return violation

    def _broken_by(self, case: Loss, ruling: Ruling) -> tuple[str, str]:
        durability = self._run.subject.capabilities.durability
        return promise_of(ruling, case.state.damage, durability), _shape(ruling)

    def _saved(self, case: Loss) -> dict[str, list[Any]]:
        return {"losses": [_encoded(each) for each in case.chain]}

    def _tried(self, case: Loss, ruling: Ruling) -> str:
        where = ", ".join(self._where(each) for each in case.chain)
        return f"{where}, open, read, replay the changelog"

    def _where(self, loss: Loss) -> str:
        """The loss of power, in words."""
        operation = loss.recording.program.operations[max(loss.crashed.started - 1, 0)]
        call = self._last_call(loss)
        return f"cut the power in {operation.name}() after call {call}, lose {_lost(loss)}"

    def _last_call(self, loss: Loss) -> str:
        """The last call before the loss of power, with its number and the line of the store."""
        after = loss.state.after
        number, _, call = _described(loss.recording.trace, after).partition(": ")
        place = self._place(loss)
        return f"{number} ({call}{f', {place}' if place else ''})"

    def _place(self, loss: Loss) -> str:
        """The line of the store that made the last call before the loss; empty if unknown.

        A process that dies before this call tells the line.
        """
        recording = loss.recording
        operation = max(loss.crashed.started - 1, 0)
        number = loss.state.after - recording.trace.started[operation]
        is_known = recording.before is None and recording.trace.counts_all(operation)
        is_told = self._run.settings.shrinks and not self._run.postpones
        if not (is_known and number and is_told):
            return ""
        program, point = recording.program, CrashPoint("syscall", operation, number)
        if self._latest is None or self._latest[:2] != (program, point):
            crashed = KillEngine(self._run).kill(program, point)
            shutil.rmtree(crashed.directory.parent, ignore_errors=True)
            self._latest = program, point, crashed.place
        return self._latest[2]

    def _crashed(self, case: Loss) -> Crashed:
        return case.crashed

    def _doomed(self, case: Loss) -> Crashed:
        # The whole program runs, and then the loss of power undoes its last calls.
        return case.recording.whole

    def _death(self, case: Loss, name: str) -> list[str]:
        state, trace = case.state, case.recording.trace
        # A store that is mended makes other calls, so the end of all calls gets no number.
        after = [f"after={state.after}"] if state.after < len(trace.calls) else []
        arguments = [name, *after]
        comments = [f"# The power is cut after call {self._last_call(case)}."]
        if _loses_all(case.recording.disk(), state):
            comments.append("# All unsynced data is lost.")
        else:
            arguments.append(f"lost={sorted(state.lost)}")
            lost = [_described(trace, call) for call in sorted(state.lost)]
            comments += [f"# Lost: call {each}." for each in lost[:MOST_LINES]]
        if state.torn:
            arguments.append(f"torn={dict(state.torn)}")
            comments += [
                f"# Bytes {start} to {end} survive of call {_described(trace, call)}."
                for call, (start, end) in state.torn
            ]
        return [*comments, f"lab.power_loss({', '.join(arguments)})"]


def _encoded(loss: Loss) -> Any:
    """A loss of power in its saved form."""
    state = loss.state
    torn = [[call, *piece] for call, piece in state.torn]
    return encode_value(
        [loss.recording.program, state.after, sorted(state.lost), torn, state.damage]
    )


def _decoded(saved: Any) -> tuple[Program, DiskState]:
    """The program and the state from which :func:`_encoded` made this data."""
    program, after, lost, torn, damage = decode_value(saved)
    pieces = tuple((call, (start, end)) for call, start, end in torn)
    return program, DiskState(after, frozenset(lost), pieces, damage)


def _at_the_end(recording: Recording, file_system: FileSystem) -> Iterator[Left]:
    """After all calls, lose all that may be lost, or nothing, as where a process is killed."""
    disk, end = recording.disk(file_system), len(recording.trace.calls)
    # The damage tells a replay which file system lost the calls.
    damage: Damage = "scattered" if file_system == PORTABLE else "lost"
    for lost in (frozenset(each.call for each in disk.pending(end)), frozenset[int]()):
        if disk.is_known(end, lost):
            state = DiskState(end, lost, damage=damage)
            yield state, state.tree(disk)


def _loses_all(disk: DiskModel, state: DiskState) -> bool:
    """Whether a state loses everything that may be lost."""
    return not state.torn and state.lost == {each.call for each in disk.pending(state.after)}


def _shape(ruling: Ruling) -> str:
    return f"{shape_of_words(ruling.expected, ruling.broken, ruling.read)}-after-power"


def _described(trace: SyscallTrace, number: int) -> str:
    return f"{number}: {trace.describe(number)}" if number else "0: nothing has been written"


def _lost(loss: Loss) -> str:
    """What a loss of power loses, in words."""
    trace, state = loss.recording.trace, loss.state
    if _loses_all(loss.recording.disk(), state) and state.lost:
        return "all that was not synced"
    calls = f"{len(state.lost)} of the calls before"
    if len(state.lost) == 1:
        (number,) = state.lost
        calls = "that call" if number == state.after else f"call {_described(trace, number)}"
    torn = "a part of one write" if state.torn else ""
    return " and ".join(filter(None, (calls if state.lost else "", torn))) or "nothing"
