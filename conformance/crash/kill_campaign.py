"""Crash a program at many points, judge what is left, and make the first failure small."""

from __future__ import annotations

import contextlib
import itertools
import math
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from streamproof.conformance.check_context import CheckContext
from streamproof.conformance.crash.crash_judge import (
    POSITION,
    Ruling,
    history_of,
    judge,
    state_of,
)
from streamproof.conformance.crash.crash_records import (
    FAULTS,
    Crashed,
    CrashKind,
    CrashPoint,
    Observation,
)
from streamproof.conformance.crash.kill_engine import BATCH, KillEngine
from streamproof.conformance.crash.program import Program
from streamproof.conformance.oracle import History, changelog_of, ends_of, partitions_of
from streamproof.conformance.program_text import render, render_program
from streamproof.conformance.sampling import spread
from streamproof.conformance.saved_failures import SavedChoices
from streamproof.conformance.shapes import shape_of_words
from streamproof.conformance.value_codec import decode_value, encode_value
from streamproof.conformance.violations import Violation, violation_of

__all__ = ["KillCampaign", "lines_of", "replay_lines"]

SHRINK_POINTS = 48
"""Points of one kind that are tried on each smaller program."""


class KillCampaign:
    """The crashes of one check.

    Args:
        run: the check.
        limit: how many kills it may spend on searching.
        before: a crash; every program goes on from what it left.

    Attributes:
        left: how many kills may still be spent.
    """

    def __init__(self, run: CheckContext, limit: int, before: Crashed | None = None) -> None:
        self._run = run
        self._engine = KillEngine(run)
        self.left = limit
        self._before = before
        # It is asked about alone, so that it hides nothing that binds more.
        self._asks_position = POSITION in run.check.requirements
        self._budget = 0

    @property
    def counts_syscalls(self) -> bool:
        """Whether system calls can be crash points here."""
        return self._engine.syscalls

    def boundaries(self, program: Program, share: float = 1.0) -> None:
        """Kill a program between every two of its operations, and after the last."""
        indices = spread(len(program), math.floor(self.left * share))
        self._search(program, [CrashPoint("boundary", index) for index in indices])

    def lines(self, program: Program, operation: int, share: float = 1.0) -> None:
        """Kill a program before every line of Python that one operation runs."""
        point = CrashPoint("line", operation)
        self._enumerate(program, point, share)

    def syscalls(
        self, program: Program, operation: int, *, span: int = 1, share: float = 1.0
    ) -> None:
        """Kill a program before every write-like system call of some operations."""
        if self._engine.syscalls:
            self._enumerate(program, CrashPoint("syscall", operation, span=span), share)

    def faults(
        self, program: Program, operation: int, kind: CrashKind, *, share: float = 1.0
    ) -> None:
        """Let every write-like system call from one operation on fail.

        It fails once, or it and all after it; a disk that is full stays full. Then the process
        dies, or the fault goes away and the store is closed.
        """
        if not self._engine.syscalls:
            return
        often = (True,) if kind == "enospc" else (False, True)
        ways = list(itertools.product(often, (False, True)))
        limit = math.ceil(self.left * share / len(ways))
        if limit <= 0:
            return
        point = CrashPoint(kind, operation, span=len(program) - operation)
        numbers = spread(self._count(program, point), limit)
        # All of them together, as several processes wait at the same time.
        points = [
            replace(point, n=n, lasting=lasting, closing=closing)
            for lasting, closing in ways
            for n in numbers
        ]
        self._search(program, points)

    def points(self, program: Program, operation: int, count: int) -> list[CrashPoint]:
        """Some points from one operation on to crash at first, before a campaign goes on there.

        They are system calls, or, where these cannot be counted, ends of operations.
        """
        if self._engine.syscalls:
            point = CrashPoint("syscall", operation, span=len(program) - operation)
            total = self._count(program, point)
            if total:
                return [replace(point, n=n) for n in spread(total, count)]
        ends = spread(len(program) - operation, count)
        return [CrashPoint("boundary", operation + end) for end in ends]

    @contextlib.contextmanager
    def after(self, program: Program, point: CrashPoint, limit: int) -> Iterator[KillCampaign]:
        """A campaign of up to ``limit`` kills that goes on from what a crash at a point left."""
        crashed = self._engine.kill(self._resumed(program), point, self._before)
        if crashed.error:
            self._note(crashed, [_raised(crashed)])
        again = KillCampaign(self._run, 0 if crashed.error else min(limit, self.left), crashed)
        given = again.left
        yield again
        self.left -= given - again.left
        shutil.rmtree(crashed.directory.parent, ignore_errors=True)

    def _resumed(self, program: Program) -> Program:
        """The program, told what the crash before it left to be replayed."""
        if self._before is None:
            return program
        history = history_of(self._before, self._run.subject.capabilities, exact=self._run.exact)
        return program.resumed([write.record() for write in changelog_of(history)])

    def _enumerate(self, program: Program, point: CrashPoint, share: float) -> None:
        limit = math.ceil(self.left * share)
        if limit > 0:
            numbers = spread(self._count(program, point), limit)
            self._search(program, [replace(point, n=n) for n in numbers])

    def _count(self, program: Program, point: CrashPoint) -> int:
        """How many points of this kind there are."""
        return self._engine.count(self._resumed(program), point, self._before)

    def _search(self, program: Program, points: Sequence[CrashPoint]) -> None:
        """Kill at every point; each promise that is broken is made small and recorded."""
        self.left -= len(points)
        for crashed, rulings in self._crash(self._resumed(program), points):
            self._note(crashed, rulings)

    def _note(self, crashed: Crashed, rulings: Sequence[Ruling]) -> None:
        for ruling in rulings:
            if not ruling.broken:
                self._run.evidence.exercised.add(ruling.requirement)
            elif self._run.is_new(ruling.requirement, shape_of(crashed, ruling)):
                self._shrink_and_record(crashed, ruling)

    def repeat(self, choices: SavedChoices, number: int = 0) -> None:
        """Crash again as it was saved, and record what breaks in the same shape.

        Threads of a database move the calls of the system, so that a crash which does no harm
        at its point is tried at the others of its kind in the same operation.
        """
        program, point = decode_value(choices.crashes[number])
        if number + 1 < len(choices.crashes):
            with self.after(program, point, 0) as again:
                again.repeat(choices, number + 1)
            return
        self._budget = self._run.settings.limits.shrink_kills
        wanted = choices.requirement, choices.shape
        broken = next(self._breaks(self._crash(program, [point]), wanted), None)
        broken = broken or self._first_break(program, point, wanted)
        if broken:
            self._record(*broken)

    def _crash(
        self, program: Program, points: Sequence[CrashPoint], *, search: bool = True
    ) -> Iterable[tuple[Crashed, list[Ruling]]]:
        for at in range(0, len(points), BATCH):
            crashes = []
            for crashed in self._engine.kill_all(program, points[at : at + BATCH], self._before):
                kind = crashed.point.kind
                if crashed.error:
                    yield crashed, [_raised(crashed)]
                elif crashed.reached or kind == "boundary":
                    crashes.append(crashed)
                    if search:
                        counts = self._run.evidence.crash_points
                        counts[kind] = counts.get(kind, 0) + 1
                        self._run.evidence.examples += 1
                        self._run.evidence.reached.add(_place(crashed))
                    continue
                shutil.rmtree(crashed.directory.parent, ignore_errors=True)
            yield from zip(crashes, self._judge(crashes), strict=True)
            for crashed in crashes:
                shutil.rmtree(crashed.directory.parent, ignore_errors=True)

    def _judge(self, crashes: Sequence[Crashed]) -> Iterator[list[Ruling]]:
        """The rulings on each crash: on each of its stores, up to the first that is broken."""
        capabilities = self._run.subject.capabilities
        views = [each.of(store) for each in crashes for store in each.program.stores]
        histories = [history_of(each, capabilities, exact=self._run.exact) for each in views]
        judged: Iterator[tuple[Crashed, History, Observation]] = zip(
            views, histories, self._engine.observe(views, histories), strict=True
        )
        for crashed in crashes:
            rulings: list[Ruling] = []
            for store in crashed.program.stores:
                view, history, seen = next(judged)
                self._run.evidence.reached.add(state_of(history, seen))
                found = judge(view, history, seen, capabilities, position=self._asks_position)
                if not (rulings and rulings[-1].broken):
                    rulings += [each._replace(store=store) for each in found]
            yield rulings

    def _shrink_and_record(self, crashed: Crashed, ruling: Ruling) -> None:
        """Make the program small, as long as a crash of the same kind breaks the same promise."""
        self._run.noticed(ruling.requirement)
        self._budget = self._run.settings.limits.shrink_kills
        if crashed.error and crashed.point.kind in FAULTS:
            # It may be a hang, which is not waited for again and again.
            self._record(crashed, ruling)
            return
        broken = self._cut(crashed, ruling)
        chunk = max(1, (len(broken[0].program) - 1) // 2)
        while chunk:
            # The opening stays, and so does the operation that dies.
            end = self._last_droppable(broken[0])
            while end > 1:
                start = max(1, end - chunk)
                broken = self._without(broken, start, end) or broken
                end = start
            chunk //= 2
        self._record(*broken)

    def _record(self, crashed: Crashed, ruling: Ruling) -> None:
        """Record a broken promise with the crashes that show it."""
        try:
            crashes = [encode_value([each.program, each.point]) for each in crashed.chain]
        except TypeError:
            # It is repeated from its seed.
            crashes = []
        shape = shape_of(crashed, ruling)
        choices = SavedChoices(crashes=crashes, requirement=ruling.requirement, shape=shape)
        self._run.record(self._violation(crashed, ruling), choices)

    def _last_droppable(self, crashed: Crashed) -> int:
        """The end of the operations that may be left out."""
        if crashed.point.kind == "boundary":
            return len(crashed.program)
        return crashed.point.operation

    def _cut(self, crashed: Crashed, ruling: Ruling) -> tuple[Crashed, Ruling]:
        """End the program with the operation that died, and arm nothing but that operation."""
        program = Program(crashed.program.operations[: crashed.started])
        if crashed.point.kind == "boundary":
            return replace(crashed, program=program), ruling
        point = replace(crashed.point, operation=crashed.started - 1, span=1)
        wanted = ruling.requirement, shape_of(crashed, ruling)
        return self._first_break(program, point, wanted) or (crashed, ruling)

    def _without(
        self, broken: tuple[Crashed, Ruling], start: int, end: int
    ) -> tuple[Crashed, Ruling] | None:
        """The failure without some operations before the crash, if it is still there."""
        crashed, ruling = broken
        operations = crashed.program.operations
        program = Program(operations[:start] + operations[end:])
        if not program.alternates:
            return None
        point = replace(crashed.point, operation=crashed.point.operation - (end - start))
        return self._first_break(program, point, (ruling.requirement, shape_of(crashed, ruling)))

    def _first_break(
        self, program: Program, point: CrashPoint, wanted: tuple[str, str]
    ) -> tuple[Crashed, Ruling] | None:
        """The first crash of a program that breaks the same promise in the same shape."""
        if self._budget <= 0:
            return None
        points = [point]
        if point.kind != "boundary":
            count = self._engine.count(program, point, self._before)
            points = [replace(point, n=n) for n in spread(count, SHRINK_POINTS)]
        return next(self._breaks(self._crash(program, points, search=False), wanted), None)

    def _breaks(
        self, crashes: Iterable[tuple[Crashed, list[Ruling]]], wanted: tuple[str, str]
    ) -> Iterator[tuple[Crashed, Ruling]]:
        """Those of some crashes that break a promise in a shape."""
        for crashed, rulings in crashes:
            self._budget -= 1
            last = rulings[-1] if rulings else None
            if last and last.broken and (last.requirement, shape_of(crashed, last)) == wanted:
                yield crashed, last

    def _violation(self, crashed: Crashed, ruling: Ruling) -> Violation:
        where = ", ".join(describe(each) for each in crashed.chain)
        where = f"{where}, reopen, read, replay the changelog"
        if crashed.error and crashed.point.kind not in FAULTS:
            where = "run the program, up to where the process was to be killed"
        program = self._source(crashed, ruling)
        kind = violation_of(ruling.requirement, shape_of(crashed, ruling))
        return kind(where, ruling.expected, ruling.broken, program)

    def _source(self, crashed: Crashed, ruling: Ruling) -> str:
        """The crashed program as one that runs as it stands."""
        opener = self._run.subject.opener
        stores = [store for store in crashed.program.stores if store]
        lines = [f"lab_{store} = lab.beside({store})" for store in stores]
        for number, each in enumerate(crashed.chain, start=1):
            name = "doomed" if number == 1 else f"doomed_{number}"
            shows_position = ruling.requirement == POSITION
            lines += ["", f"def {name}():", *lines_of(each, opener, shows_position=shows_position)]
            lines += ["", f"lab.crash({name})"]
        if ruling.store:
            lines.append(f"lab = lab_{ruling.store}")
        lines.append(f"store = lab.{opener}()")
        if ruling.after_replay:
            lines += replay_lines(self._run, crashed.of(ruling.store), ruling)
        short = f"expected {ruling.expected}, found {ruling.broken}"[:200]
        lines.append(f"print({ruling.read or 'store.is_open'})  # {short}")
        return render_program(self._run.subject.name, self._run.settings.guarantee, lines)


def replay_lines(run: CheckContext, crashed: Crashed, ruling: Ruling) -> list[str]:
    """The replay of the changelog after the crash, as lines of a program."""
    history = history_of(crashed, run.subject.capabilities, exact=run.exact)
    changelog = changelog_of(history)
    lines = []
    for partition in partitions_of(history):
        records = [write.record() for write in changelog if write.partition == partition]
        name = render(partition)
        lines.append(f"offset = store.committed_offset({name})")
        lines.append("start = -1 if offset is None else offset")
        lines.append(f"changelog = {render(records)}")
        lines.append("lab.restore(store, [each for each in changelog if each.offset > start])")
    lines.append(f"store.commit({render(ends_of(changelog))})")
    again = ["store.close()", f"store = lab.{run.subject.opener}()"] if ruling.reopened else []
    return [*lines, *again]


def lines_of(crashed: Crashed, opener: str, *, shows_position: bool) -> list[str]:
    """The operations of a program, with what kills it, as the lines of a function."""
    point = crashed.point
    lines = []
    indent = "    "
    # The process dies at the end of the program, or where it was armed before.
    for index, operation in enumerate(crashed.program.operations[: crashed.started]):
        if operation.record and shows_position:
            topic, partition, offset = operation.record
            lines.append(f"{indent}lab.processing({topic!r}, {partition}, {offset})")
        if index == point.operation and point.kind != "boundary":
            lines.append(f"{indent}lab.arm({_trigger(point)})")
            if point.closing:
                lines.append(f"{indent}try:")
                indent *= 2
        lines.append(f"{indent}{operation.source(opener)}")
    if point.closing:
        lines += ["    finally:", "        lab.disarm()", "        store.close()"]
    return lines


def _trigger(point: CrashPoint) -> str:
    """What a lab is armed with."""
    if point.kind not in FAULTS:
        return f"{point.kind}={point.n}"
    lasting = ", lasting=True" if point.lasting else ""
    return f"syscall={point.n}, error={point.kind.upper()!r}{lasting}"


def _place(crashed: Crashed) -> str:
    """Where a program died: two crashes in one place are much alike."""
    operation = crashed.program.operations[max(crashed.started - 1, 0)]
    return f"{len(crashed.chain)} {operation.name} {crashed.point.kind} {crashed.point.n}"


def shape_of(crashed: Crashed, ruling: Ruling) -> str:
    """The shape of a broken promise: how it is broken, and the faults that had to be there."""
    words = shape_of_words(ruling.expected, ruling.broken, ruling.read)
    faults = dict.fromkeys(each.point.kind for each in crashed.chain if each.point.kind in FAULTS)
    return "-after-".join([words, *faults])


def describe(crashed: Crashed) -> str:
    """Where a program was killed, or what failed in it, in words."""
    point = crashed.point
    operations = crashed.program.operations
    if point.kind == "boundary":
        return f"kill the process after {operations[crashed.started - 1].name}"
    name = operations[point.operation].name
    if point.kind == "line":
        return f"kill the process before line of Python {point.n} of {name}"
    if point.kind == "syscall":
        return f"kill the process before write-like system call {point.n} of {name}"
    following = " and all after it" if point.lasting else ""
    then = "close" if point.closing else "kill the process"
    call = f"write-like system call {point.n} of {name}{following}"
    return f"let {call} fail with {point.kind.upper()}, {then}"


def _raised(crashed: Crashed) -> Ruling:
    """The subject raised before it could be killed: a promise is broken without any crash."""
    operation = crashed.program.operations[max(crashed.started - 1, 0)]
    if crashed.point.kind in FAULTS:
        expected = "the operation to return, or to raise an Exception"
        return Ruling("CRASH-001", expected, f"{operation.name} led to {crashed.error}")
    return Ruling("CRASH-001", "no exception", f"{operation.name} raised {crashed.error}")
