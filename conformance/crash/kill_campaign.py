"""Kills programs at many points, and judges the state after each kill.

Between operations and at system calls, most states are derived from one recorded run. A new
failure among them counts only if a real kill at the same point shows it, too. If none does, every
point is killed for real; otherwise a sample is. A failure is made small with recordings as well,
and a real kill confirms the smaller program. So what a report says of a store, a dead process has
shown.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from streamproof.conformance.check_context import CheckContext
from streamproof.conformance.crash import triggers
from streamproof.conformance.crash.crash_judge import POSITION, state_of
from streamproof.conformance.crash.crash_records import (
    FAULTS,
    Crashed,
    CrashKind,
    CrashPoint,
    Observation,
)
from streamproof.conformance.crash.inspector import BATCH
from streamproof.conformance.crash.kill_engine import KillEngine
from streamproof.conformance.crash.program import Program
from streamproof.conformance.crash.program_campaign import ProgramCampaign, batches
from streamproof.conformance.failure_shapes import shape_of_words
from streamproof.conformance.oracle import History
from streamproof.conformance.power.derived_kills import DERIVABLE, DerivedKills
from streamproof.conformance.ruling import Ruling
from streamproof.conformance.saved_failures import SavedChoices
from streamproof.conformance.value_codec import decode_value, encode_value
from streamproof.sampling import spread

__all__ = ["KillCampaign", "describe", "ends_of_operations", "ruling_of_error"]

REAL_SHARE = 8
"""One in this number of points, and at least one, is killed for real, whatever else is known."""

FLUSH_SHARE = 3
"""One in this number of kills between operations comes right after a flush."""

FEWEST_DERIVED = 3
"""The fewest points for which a recorded run costs less than the kills."""

SHRINK_POINTS = 48
"""The number of points of one kind that are tried on each smaller program."""

CONFIRMATIONS = 3
"""How often a smaller program must break the promise again, if it is killed between operations.

A store may write in the background. A program that fails by luck alone shows a reader nothing.
"""

TRIES_OF_A_STATE = 12
"""The most real kills that look for the failure of one derived state."""


class KillCampaign(ProgramCampaign[Crashed]):
    """The crashes of one check.

    Args:
        run: the check.
        limit: the number of kills for searching.
        before: an earlier crash; every program continues from the files that it left.

    Attributes:
        left: the number of kills left for searching.
    """

    def __init__(self, run: CheckContext, limit: int, before: Crashed | None = None) -> None:
        super().__init__(run, POSITION)
        self._engine = KillEngine(run)
        self._derived = DerivedKills(run)
        self.left = limit
        self._before = before
        # While a failure is made small with recordings: the ever smaller cases that broke again.
        self._told: list[tuple[Crashed, Ruling]] | None = None

    def _sees_syscalls(self) -> bool:
        """Whether system calls can be points on this machine; notes the reason if they cannot."""
        self._run.evidence.lacking = triggers.why_unseen()
        return not self._run.evidence.lacking

    def boundaries(self, program: Program, share: float = 1.0) -> None:
        """Kill a program between every two of its operations, and after the last."""
        indices = ends_of_operations(program, math.floor(self.left * share))
        self._search(program, [CrashPoint("boundary", index) for index in indices])

    def lines(self, program: Program, operation: int, share: float = 1.0) -> None:
        """Kill a program before every line of Python that one operation runs."""
        point = CrashPoint("line", operation)
        self._enumerate(program, point, share)

    def syscalls(
        self, program: Program, operation: int, *, span: int = 1, share: float = 1.0
    ) -> None:
        """Kill a program before every write-like system call of some operations."""
        if self._sees_syscalls():
            self._enumerate(program, CrashPoint("syscall", operation, span=span), share)

    def faults(
        self, program: Program, operation: int, kind: CrashKind, *, share: float = 1.0
    ) -> None:
        """Make each write-like system call from one operation on fail, in a run of its own.

        The call fails alone, or together with all later ones, because a full disk stays full. Then
        the process dies, or the fault goes away and the store is closed.
        """
        if not self._sees_syscalls():
            return
        often = (True,) if kind == "enospc" else (False, True)
        ways = list(itertools.product(often, (False, True)))
        limit = math.ceil(self.left * share / len(ways))
        if limit <= 0:
            return
        point = CrashPoint(kind, operation, span=len(program) - operation)
        numbers = spread(self._count(program, point), limit)
        # One search for all points: the engine then runs the processes side by side. A store may
        # wait long after a failed call, and these waits should overlap.
        points = [
            replace(point, n=n, lasting=lasting, closing=closing)
            for lasting, closing in ways
            for n in numbers
        ]
        self._search(program, points)

    def points(self, program: Program, operation: int, count: int) -> list[CrashPoint]:
        """Points from one operation on, for the first of two crashes.

        The points are system calls or, if these cannot be counted, the ends of operations.
        """
        if self._sees_syscalls():
            point = CrashPoint("syscall", operation, span=len(program) - operation)
            total = self._count(program, point)
            if total:
                return [replace(point, n=n) for n in spread(total, count)]
        ends = spread(len(program) - operation, count)
        return [CrashPoint("boundary", operation + end) for end in ends]

    @contextlib.contextmanager
    def after(self, program: Program, point: CrashPoint, limit: int) -> Iterator[KillCampaign]:
        """A campaign of up to ``limit`` kills that continues after a crash at a point."""
        crashed = self._engine.kill(self._resumed(program, self._before), point, self._before)
        if crashed.error:
            self._note(crashed, [ruling_of_error(crashed)])
        again = KillCampaign(self._run, 0 if crashed.error else min(limit, self.left), crashed)
        given = again.left
        yield again
        self.left -= given - again.left
        shutil.rmtree(crashed.directory.parent, ignore_errors=True)

    def _enumerate(self, program: Program, point: CrashPoint, share: float) -> None:
        limit = math.ceil(self.left * share)
        if limit > 0:
            numbers = spread(self._count(program, point), limit)
            self._search(program, [replace(point, n=n) for n in numbers])

    def _count(self, program: Program, point: CrashPoint) -> int:
        """The number of points of this kind."""
        program = self._resumed(program, self._before)
        known = self._derived.count(program, point, self._before)
        return self._engine.count(program, point, self._before) if known is None else known

    def _search(self, program: Program, points: Sequence[CrashPoint]) -> None:
        """Kill a program at every point, or look at what kills would leave; record the rulings."""
        self.left -= len(points)
        program = self._resumed(program, self._before)
        if not self._keeps_promises_derived(program, points):
            for crashed, rulings in self._judged(program, points):
                self._note(crashed, rulings)

    def _keeps_promises_derived(self, program: Program, points: Sequence[CrashPoint]) -> bool:
        """Whether there are derived states of such points, and kills show each new failure, too.

        Each of these failures is recorded as a kill shows it. Then follows a sample of real kills.
        """
        if len(points) < FEWEST_DERIVED or points[0].kind not in DERIVABLE:
            return False
        states = self._derived.crashes(program, points, self._before)
        if states is None:
            return False
        sample = spread(len(points), max(1, len(points) // REAL_SHARE))
        killed = self._killed(program, [points[n - 1] for n in sample])
        # The kills come last, and one process looks at them together with the last states.
        cases = itertools.chain(states, killed)
        while batch := list(itertools.islice(cases, BATCH)):
            for crashed, rulings in self._judge(batch):
                is_derived = crashed.point.kind == "derived"
                if is_derived and not all(self._is_shown(crashed, each) for each in rulings):
                    return False
                self._count_crash(crashed)
                self._note(crashed, rulings)
        return True

    def _killed(self, program: Program, points: Sequence[CrashPoint]) -> Iterator[Crashed]:
        """Kill a program at each point, and record an error; yield the crashes to be judged."""
        for crashed in self._engine.kill_all(program, points, self._before):
            if not crashed.error and (crashed.reached or crashed.point.kind == "boundary"):
                yield crashed
                continue
            if crashed.error:
                self._note(crashed, [ruling_of_error(crashed)])
            shutil.rmtree(crashed.directory.parent, ignore_errors=True)

    def _is_shown(self, state: Crashed, ruling: Ruling) -> bool:
        """Whether a real kill shows what a derived state breaks, unless that is no news."""
        if not self._is_news(state, ruling):
            return True
        self._tries = TRIES_OF_A_STATE
        shown = self._broken_again(_as_killed(state), ruling)
        if shown is None:
            return False
        crashed, found = shown
        self._count_crash(crashed)
        self._note(crashed, [found])
        return True

    def _is_news(self, crashed: Crashed, ruling: Ruling) -> bool:
        """Whether a ruling finds a promise broken that this check asks for, in a new shape."""
        return bool(ruling.broken) and self._run.is_new(*self._broken_by(crashed, ruling))

    def repeat(self, choices: SavedChoices, number: int = 0) -> None:
        """Repeat a saved crash, and record a failure of the same shape.

        Threads of a database shift its system calls from run to run. So if the saved point shows no
        failure, the other points of its kind in the same operation are tried.
        """
        program, point = decode_value(choices.crashes[number])
        if number + 1 < len(choices.crashes):
            with self.after(program, point, 0) as again:
                again.repeat(choices, number + 1)
            return
        self._tries = self._shrink_limit
        wanted = choices.requirement, choices.shape
        broken = self._first_break(self._judged(program, [point]), wanted)
        broken = broken or self._first_break(self._crashes_like(program, point), wanted)
        if broken:
            self._record_again(*broken)

    # Judging.

    def _judged(
        self, program: Program, points: Sequence[CrashPoint], *, search: bool = True
    ) -> Iterator[tuple[Crashed, list[Ruling]]]:
        """Kill a program at each point; yield each crash with its rulings."""
        # A search needs all; whoever looks for one failure stops at the first that shows it.
        for batch in batches(points, BATCH if search else 1):
            crashes = []
            for crashed in self._engine.kill_all(program, batch, self._before):
                if crashed.error:
                    yield crashed, [ruling_of_error(crashed)]
                elif crashed.reached or crashed.point.kind == "boundary":
                    crashes.append(crashed)
                    if search:
                        self._count_crash(crashed)
                    continue
                shutil.rmtree(crashed.directory.parent, ignore_errors=True)
            yield from self._judge(crashes)

    def _count_crash(self, crashed: Crashed) -> None:
        evidence, kind = self._run.evidence, crashed.point.kind
        evidence.crash_points[kind] = evidence.crash_points.get(kind, 0) + 1
        evidence.examples += 1
        evidence.reached.add(_place(crashed))

    def _reached(self, history: History, found: Observation) -> None:
        self._run.evidence.reached.add(state_of(history, found))

    # Making failures small.

    def _is_small(self, case: Crashed) -> bool:
        # The error may be a hang, and shrinking would wait for the hang again and again.
        return bool(case.error) and case.point.kind in FAULTS

    def _shrunk(self, case: Crashed, ruling: Ruling) -> tuple[Crashed, Ruling]:
        if self._is_small(case):
            return case, ruling
        told = self._shrunk_by_recordings(case, ruling)
        return told or self._with_fewer_operations(*self._cut(case, ruling))

    def _shrunk_by_recordings(self, case: Crashed, ruling: Ruling) -> tuple[Crashed, Ruling] | None:
        """A smaller case that recordings have told and a real kill has shown; ``None`` without one.

        It takes half of the tries at most. The rest is for real kills.
        """
        if case.error or case.point.kind not in DERIVABLE:
            return None
        half = self._tries // 2
        self._tries -= half
        self._told = told = []
        try:
            told.append(self._cut(case, ruling))
            self._with_fewer_operations(*told[0])
        finally:
            self._told = None
        self._tries += half
        # Threads may take other turns in a kill than in a recording: then a larger program may do.
        for number in dict.fromkeys(len(told) >> shift for shift in range(3)):
            if shown := self._broken_again(*told[max(number - 1, 0)]):
                return shown
        return None

    def _broken_again(self, case: Crashed, ruling: Ruling) -> tuple[Crashed, Ruling] | None:
        """The failure of a case as a real kill shows it; each time, if that is between operations.

        A store may write in the background, so a few more kills may be needed for the first one.
        """
        broken = case, ruling
        times = 1 + CONFIRMATIONS if case.point.kind == "boundary" else 1
        for _ in range(times):
            again = self._crashes_like(broken[0].program, broken[0].point)
            found = self._first_break(again, self._broken_by(*broken))
            if found is None:
                return None
            broken = found
        return broken

    def _cut(self, crashed: Crashed, ruling: Ruling) -> tuple[Crashed, Ruling]:
        """End the program with the operation that died, and count in that operation only."""
        program = Program(crashed.program.operations[: crashed.started])
        if crashed.point.kind == "boundary":
            return replace(crashed, program=program), ruling
        point = replace(crashed.point, operation=crashed.started - 1, span=1)
        again = self._crashes_like(program, point)
        return self._first_break(again, self._broken_by(crashed, ruling)) or (crashed, ruling)

    def _last_droppable(self, case: Crashed) -> int:
        return len(case.program) if case.point.kind == "boundary" else case.point.operation

    def _tried_again(
        self, case: Crashed, program: Program, *, dropped: int
    ) -> Iterator[tuple[Crashed, list[Ruling]]]:
        point = replace(case.point, operation=case.point.operation - dropped)
        return self._crashes_like(program, point)

    def _without(
        self, case: Crashed, ruling: Ruling, start: int, end: int
    ) -> tuple[Crashed, Ruling] | None:
        """The failure without some operations, if it occurs each time."""
        broken = super()._without(case, ruling, start, end)
        if broken is not None and self._told is not None:
            self._told.append(broken)
        elif broken is not None and case.point.kind == "boundary":
            return self._broken_again(*broken)
        return broken

    def _crashes_like(
        self, program: Program, point: CrashPoint
    ) -> Iterator[tuple[Crashed, list[Ruling]]]:
        """Kill a program at a point, and then at other points of its kind in the same operations.

        While recordings tell, look at the states that they tell instead.
        """
        if self._told is not None:
            states = self._derived.near(program, point, SHRINK_POINTS, self._before)
            for batch in batches(states, 1):
                for crashed, rulings in self._judge(batch):
                    yield _as_killed(crashed), rulings
            return
        yield from self._judged(program, [point], search=False)
        if point.kind != "boundary":
            count = self._engine.count(program, point, self._before)
            others = sorted(spread(count, SHRINK_POINTS), key=lambda n: abs(n - point.n))
            points = [replace(point, n=n) for n in others if n != point.n]
            yield from self._judged(program, points, search=False)

    # Writing failures down.

    def _broken_by(self, case: Crashed, ruling: Ruling) -> tuple[str, str]:
        return ruling.requirement, shape_of(case, ruling)

    def _saved(self, case: Crashed) -> dict[str, list[Any]]:
        return {"crashes": [encode_value([each.program, each.point]) for each in case.chain]}

    def _tried(self, case: Crashed, ruling: Ruling) -> str:
        if case.error and case.point.kind not in FAULTS:
            return "run the program up to the point of the kill"
        where = ", ".join(describe(each) for each in case.chain)
        return f"{where}, reopen, read, replay the changelog"

    def _crashed(self, case: Crashed) -> Crashed:
        return case

    def _doomed(self, case: Crashed) -> Crashed:
        return case

    def _death(self, case: Crashed, name: str) -> list[str]:
        # A program that goes on after a failed call is judged with what ended it.
        return [f"{'error = ' if case.point.kind in FAULTS else ''}lab.crash({name})"]


def _as_killed(state: Crashed) -> Crashed:
    """A derived state, as a kill leaves it that ends the program there."""
    operation = state.started - 1
    point = CrashPoint("syscall", operation, state.point.n + 1)
    if state.started == state.finished:
        point = CrashPoint("boundary", state.started)
    return replace(state, program=Program(state.program.operations[: state.started]), point=point)


def ends_of_operations(program: Program, limit: int) -> list[int]:
    """The ends of up to ``limit`` operations, evenly spread, by their numbers from 1 on.

    If not all can be tried, a third of them are ends of flushes: only there does a store that makes
    flushed commits durable promise anything of what it has just committed.
    """
    flushes = [n for n, each in enumerate(program.operations, start=1) if each.name == "flush"]
    if len(program) <= limit or not flushes:
        return spread(len(program), limit)
    chosen = {flushes[each - 1] for each in spread(len(flushes), limit // FLUSH_SHARE)}
    return sorted({*chosen, *spread(len(program), limit - len(chosen))})


def _place(crashed: Crashed) -> str:
    """The place of a crash: two crashes in one place are much alike."""
    operation = crashed.program.operations[max(crashed.started - 1, 0)]
    return f"{len(crashed.chain)} {operation.name} {crashed.point.kind} {crashed.point.n}"


def shape_of(crashed: Crashed, ruling: Ruling) -> str:
    """The shape of a broken promise, with the faults of the disk before it."""
    words = shape_of_words(ruling.expected, ruling.broken, ruling.read)
    faults = dict.fromkeys(each.point.kind for each in crashed.chain if each.point.kind in FAULTS)
    return "-after-".join([words, *faults])


def describe(crashed: Crashed) -> str:
    """The place of a kill, or the failed call, in words."""
    point = crashed.point
    operations = crashed.program.operations
    if point.kind == "boundary":
        return f"kill the process after {operations[crashed.started - 1].name}()"
    died_in = f"{operations[max(crashed.started - 1, 0)].name}()"
    line = f" ({crashed.place})" if crashed.place else ""
    first = f"{operations[point.operation].name}()"
    if point.kind == "line":
        before = crashed.place or f"line {point.n} of Python that runs in it"
        return f"kill the process in {first} before {before}"
    call = f"the {crashed.call}" if crashed.call else f"system call {point.n} from {first} on"
    if point.kind == "syscall":
        return f"kill the process in {died_in} before {call}{line}"
    # An operation may swallow the error of a call, and then it is not the last one.
    where = f" in {died_in}" if crashed.raised else ""
    following = " and all later calls" if point.lasting else ""
    then = "close the store" if point.closing else "kill the process"
    return f"let {call}{where}{line}{following} fail with {point.kind.upper()}, {then}"


def ruling_of_error(crashed: Crashed) -> Ruling:
    """The violation of a subject that failed before the kill, and so without any crash."""
    operation = crashed.program.operations[max(crashed.started - 1, 0)].name
    expected, traceback = "no exception", crashed.traceback
    if crashed.point.kind in FAULTS:
        expected = "the operation to return, or to raise an Exception"
    has_ended = crashed.raised or crashed.finished == len(crashed.program)
    if crashed.point.closing and has_ended:
        # What the operation raised was allowed; the close after it is to blame.
        operation, traceback = "close", ""
    return Ruling("CRASH-001", expected, f"{operation}() {crashed.error}", traceback=traceback)
