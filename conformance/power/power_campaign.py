"""Take the power away from a program in many ways, judge what is left, and make failures small."""

from __future__ import annotations

import itertools
import math
import shutil
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from streamproof.conformance.check_context import CheckContext
from streamproof.conformance.crash.crash_judge import POSITION, Ruling, judge
from streamproof.conformance.crash.kill_campaign import lines_of, replay_lines
from streamproof.conformance.crash.kill_engine import BATCH
from streamproof.conformance.crash.program import Program
from streamproof.conformance.oracle import changelog_of
from streamproof.conformance.power.disk import JOURNALLED, PORTABLE, Disk, FileSystem, disk_of
from streamproof.conformance.power.disk_states import DAMAGES, Damage, State, choose, smaller
from streamproof.conformance.power.power_engine import Loss, PowerEngine, Recording
from streamproof.conformance.power.syscall_recorder import recorder_is_loaded
from streamproof.conformance.power.syscall_trace import Trace, Tree
from streamproof.conformance.program_text import render_program
from streamproof.conformance.saved_failures import SavedChoices
from streamproof.conformance.shapes import shape_of_words
from streamproof.conformance.value_codec import decode_value, encode_value
from streamproof.conformance.violations import Skipped, Violation, violation_of

__all__ = ["PowerCampaign", "promise_of"]

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
"""As ``POWER-009``, where only what was flushed is durable."""

SHRINK_STATES = 24
"""States that are tried on each smaller program."""

MOST_LINES = 8
"""Lost calls that are described in a program, at most."""


def promise_of(ruling: Ruling, damage: Damage, durability: str) -> str:
    """The requirement of this area that a ruling on a crash is about."""
    if ruling.requirement == "CRASH-008" and durability == "flush":
        return FLUSHED
    return OF_RULING.get(ruling.requirement, OF_DAMAGE[damage])


class PowerCampaign:
    """The losses of power of one check.

    Args:
        run: the check.
        limit: how many states it may look at.
        file_system: what every state keeps to.

    Raises:
        Skipped: system calls cannot be recorded here.
    """

    def __init__(self, run: CheckContext, limit: int, file_system: FileSystem = JOURNALLED) -> None:
        if not recorder_is_loaded():
            raise Skipped("no C compiler (cc, gcc or clang) was found to record system calls")
        self._run = run
        self._engine = PowerEngine(run)
        self._file_system = file_system
        # It is asked about alone, so that it hides nothing that binds more.
        self._asks_position = "POWER-013" in run.check.requirements
        self._left = limit
        self._budget = 0

    def lose(
        self,
        program: Program,
        damages: Sequence[Damage] = DAMAGES,
        *,
        share: float = 1.0,
        before: Loss | None = None,
    ) -> list[Loss]:
        """Take the power away after every call of a program, or a share of what is left of them.

        Returns:
            What was judged and is of one piece; the directories are gone.

        Raises:
            Skipped: files are written in a way that cannot be recorded.
        """
        if before is not None:
            changelog = changelog_of(self._engine.history(before.crashed))
            program = program.resumed([write.record() for write in changelog])
        recording = self._record(program, before)
        disk = disk_of(recording.trace, self._file_system)
        limit = math.ceil(self._left * share / len(damages))
        whole = []
        for damage in damages:
            most = min(limit, self._left)
            chosen = list(choose(disk, recording.trace, damage, most))
            if most and not chosen:
                # Such a state cannot be: whatever it takes was synced in between.
                self._run.evidence.exercised.add(OF_DAMAGE[damage])
            for loss, rulings in self._judge(recording, chosen):
                self._left -= 1
                self._count()
                if self._note(loss, rulings):
                    whole.append(loss)
        return whole

    def _record(self, program: Program, before: Loss | None) -> Recording:
        recording = self._engine.record(program, before)
        if recording.error:
            self._run.record(self._raised(recording))
        if recording.escaped:
            files = ", ".join(recording.escaped[:5])
            raise Skipped(f"not judged: what is written to {files} cannot be recorded")
        return recording

    def _count(self) -> None:
        counts = self._run.evidence.crash_points
        counts["power"] = counts.get("power", 0) + 1
        self._run.evidence.examples += 1

    def _note(self, loss: Loss, rulings: Sequence[Ruling]) -> bool:
        """Note how promises fared; whether all were kept."""
        for ruling in rulings:
            promise = self._promise(loss, ruling)
            if not ruling.broken:
                self._run.evidence.exercised.add(promise)
            elif self._run.is_new(promise, _shape(ruling)):
                self._shrink_and_record(loss, ruling)
        return not rulings[-1].broken

    def _promise(self, loss: Loss, ruling: Ruling) -> str:
        durability = self._run.subject.capabilities.durability
        return promise_of(ruling, loss.state.damage, durability)

    def _judge(
        self, recording: Recording, states: Iterable[tuple[State, Tree]]
    ) -> Iterator[tuple[Loss, list[Ruling]]]:
        """Make states, and the rulings on each of their stores, up to the first broken one."""
        capabilities = self._run.subject.capabilities
        stores = recording.program.stores
        for batch in _batches(states, BATCH):
            losses = [self._engine.leave(recording, state, tree) for state, tree in batch]
            views = [each.crashed.of(store) for each in losses for store in stores]
            histories = [self._engine.history(each) for each in views]
            seen = iter(self._engine.observe(views, histories))
            judged = zip(views, histories, seen, strict=True)
            try:
                for loss in losses:
                    rulings: list[Ruling] = []
                    for store in stores:
                        found = judge(*next(judged), capabilities, position=self._asks_position)
                        if not (rulings and rulings[-1].broken):
                            rulings += [each._replace(store=store) for each in found]
                    yield loss, rulings
            finally:
                for loss in losses:
                    shutil.rmtree(loss.crashed.directory.parent, ignore_errors=True)

    # Making failures small.

    def _shrink_and_record(self, loss: Loss, ruling: Ruling) -> None:
        """Make a program small, and what is lost of it, as long as the same promise is broken."""
        self._run.noticed(self._promise(loss, ruling))
        self._budget = self._run.settings.limits.shrink_kills
        broken = loss, ruling
        chunk = max(1, (len(loss.recording.program) - 1) // 2)
        while chunk and not loss.recording.before:
            end = len(broken[0].recording.program)
            while end > 1:
                start = max(1, end - chunk)
                broken = self._without(*broken, start, end) or broken
                end = start
            chunk //= 2
        self._record_loss(*self._less_lost(*broken))

    def _record_loss(self, loss: Loss, ruling: Ruling) -> None:
        """Record a broken promise with the losses of power that show it."""
        try:
            losses = [_encoded(each) for each in loss.chain]
        except TypeError:
            # It is repeated from its seed.
            losses = []
        promise, shape = self._wanted(loss, ruling)
        choices = SavedChoices(losses=losses, requirement=promise, shape=shape)
        self._run.record(self._violation(loss, ruling), choices)

    def repeat(self, choices: SavedChoices) -> None:
        """Lose the power again as it was saved, and record what breaks in the same shape.

        Threads of a database move the calls of the system, so that a loss which is none of this
        recording, or does no harm, is followed by others that do the same kind of damage.
        """
        self._budget = self._run.settings.limits.shrink_kills
        before: Loss | None = None
        for number, saved in enumerate(choices.losses, start=1):
            program, state = _decoded(saved)
            if state.damage == "scattered":
                self._file_system = PORTABLE
            recording = self._record(program, before)
            states = self._saved_first(recording, state)
            if number < len(choices.losses):
                before = self._engine.leave(recording, *next(states))
                shutil.rmtree(before.crashed.directory.parent, ignore_errors=True)
                continue
            wanted = choices.requirement, choices.shape
            if broken := self._first_break(recording, states, wanted):
                self._record_loss(*broken)

    def _saved_first(self, recording: Recording, state: State) -> Iterator[tuple[State, Tree]]:
        """A saved state, if it can be one of this recording, and others with the same damage."""
        disk = disk_of(recording.trace, self._file_system)
        lost = state.lost | {call for call, _ in state.torn}
        pending = {each.call for each in disk.pending(state.after)}
        if state.after <= len(recording.trace.calls) and lost <= pending:
            yield state, state.tree(disk)
        yield from choose(disk, recording.trace, state.damage, SHRINK_STATES)
        # Nothing can be lost any more: what is left is what a process would leave.
        yield State(len(recording.trace.calls)), disk.tree(len(recording.trace.calls))

    def _without(
        self, loss: Loss, ruling: Ruling, start: int, end: int
    ) -> tuple[Loss, Ruling] | None:
        """The failure without some operations, if it is still there."""
        operations = loss.recording.program.operations
        program = Program(operations[:start] + operations[end:])
        if not program.alternates or self._budget <= 0:
            return None
        recording = self._engine.record(program)
        if recording.error or recording.escaped:
            return None
        disk = disk_of(recording.trace, self._file_system)
        states = choose(disk, recording.trace, loss.state.damage, SHRINK_STATES)
        return self._first_break(recording, states, self._wanted(loss, ruling))

    def _less_lost(self, loss: Loss, ruling: Ruling) -> tuple[Loss, Ruling]:
        """The failure with as little lost as possible; to lose all is as simple."""
        recording, disk = loss.recording, disk_of(loss.recording.trace, self._file_system)
        broken: tuple[Loss, Ruling] | None = (loss, ruling)
        while broken and not _loses_all(disk, broken[0].state):
            loss, ruling = broken
            states = [(state, state.tree(disk)) for state in smaller(disk, loss.state)]
            broken = self._first_break(recording, states, self._wanted(loss, ruling))
        return broken or (loss, ruling)

    def _wanted(self, loss: Loss, ruling: Ruling) -> tuple[str, str]:
        return self._promise(loss, ruling), _shape(ruling)

    def _first_break(
        self,
        recording: Recording,
        states: Iterable[tuple[State, Tree]],
        wanted: tuple[str, str],
    ) -> tuple[Loss, Ruling] | None:
        """The first of some states that breaks the same promise in the same way."""
        for loss, rulings in self._judge(recording, itertools.islice(states, self._budget)):
            self._budget -= 1
            if rulings[-1].broken and self._wanted(loss, rulings[-1]) == wanted:
                return loss, rulings[-1]
        return None

    # What is reported.

    def _raised(self, recording: Recording) -> Violation:
        """The subject raised while the power was still there."""
        operations = recording.program.operations
        operation = operations[max(len(recording.trace.started) - 1, 0)]
        ruling = Ruling("CRASH-001", "no exception", f"{operation.name} raised {recording.error}")
        lines = lines_of(recording.whole, self._run.subject.opener, shows_position=False)
        source = self._rendered(["", "def doomed():", *lines, "", "doomed()"])
        kind = violation_of(self._run.check.requirements[0], _shape(ruling))
        return kind("run the program", ruling.expected, ruling.broken, source)

    def _violation(self, loss: Loss, ruling: Ruling) -> Violation:
        kind = violation_of(self._promise(loss, ruling), _shape(ruling))
        where = ", ".join(_where(each) for each in loss.chain)
        where = f"{where}, open, read, replay the changelog"
        return kind(where, ruling.expected, ruling.broken, self._source(loss, ruling))

    def _source(self, loss: Loss, ruling: Ruling) -> str:
        """The program, and how the power is lost, as one that runs as it stands."""
        opener = self._run.subject.opener
        stores = [store for store in loss.recording.program.stores if store]
        lines = [f"lab_{store} = lab.beside({store})" for store in stores]
        for number, each in enumerate(loss.chain, start=1):
            name = "doomed" if number == 1 else f"doomed_{number}"
            # The whole program runs: its last operations are lost, or had begun by then.
            shows_position = ruling.requirement == POSITION
            body = lines_of(each.recording.whole, opener, shows_position=shows_position)
            lines += ["", f"def {name}():", *body, "", *self._power_loss(each, name)]
        if ruling.store:
            lines.append(f"lab = lab_{ruling.store}")
        lines.append(f"store = lab.{opener}()")
        if ruling.after_replay:
            lines += replay_lines(self._run, loss.crashed.of(ruling.store), ruling)
        short = f"expected {ruling.expected}, found {ruling.broken}"[:200]
        lines.append(f"print({ruling.read or 'store.is_open'})  # {short}")
        return self._rendered(lines)

    def _rendered(self, lines: list[str]) -> str:
        return render_program(self._run.subject.name, self._run.settings.guarantee, lines)

    def _power_loss(self, loss: Loss, name: str) -> list[str]:
        """How the power is lost, as lines of a program."""
        state, trace = loss.state, loss.recording.trace
        arguments = [name, f"after={state.after}"]
        comments = [f"# The power goes after call {_described(trace, state.after)}."]
        if _loses_all(disk_of(trace, JOURNALLED), state):
            comments.append("# All that was not synced is lost.")
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
    """A loss of power as it is saved."""
    state = loss.state
    torn = [[call, *piece] for call, piece in state.torn]
    return encode_value(
        [loss.recording.program, state.after, sorted(state.lost), torn, state.damage]
    )


def _decoded(saved: Any) -> tuple[Program, State]:
    """The program and the state that :func:`_encoded` made this of."""
    program, after, lost, torn, damage = decode_value(saved)
    pieces = tuple((call, (start, end)) for call, start, end in torn)
    return program, State(after, frozenset(lost), pieces, damage)


def _batches(states: Iterable[tuple[State, Tree]], size: int) -> Iterator[list[tuple[State, Tree]]]:
    iterator = iter(states)
    while batch := list(itertools.islice(iterator, size)):
        yield batch


def _loses_all(disk: Disk, state: State) -> bool:
    """Whether all that may be lost is lost."""
    return not state.torn and state.lost == {each.call for each in disk.pending(state.after)}


def _shape(ruling: Ruling) -> str:
    return f"{shape_of_words(ruling.expected, ruling.broken, ruling.read)}-after-power"


def _described(trace: Trace, number: int) -> str:
    return f"{number}: {trace.describe(number)}" if number else "0: nothing was done yet"


def _where(loss: Loss) -> str:
    """How the power is lost, in words."""
    operations = loss.recording.program.operations
    started = max(loss.crashed.started - 1, 0)
    call = _described(loss.recording.trace, loss.state.after)
    lost = f"{len(loss.state.lost)} of the calls before it" if loss.state.lost else ""
    torn = "a part of one write" if loss.state.torn else ""
    what = " and ".join(filter(None, (lost, torn))) or "nothing"
    return f"lose the power in {operations[started].name} after call {call}, and {what}"
