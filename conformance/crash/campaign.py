"""Crash a program at many points, judge what is left, and make the first failure small."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from streamproof.conformance.crash.judge import POSITION, Ruling, history_of, judge
from streamproof.conformance.crash.kill import (
    BATCH,
    Crashed,
    CrashPoint,
    KillEngine,
    changelog_of,
    ends_of,
    partitions_of,
    spread,
)
from streamproof.conformance.crash.program import Program
from streamproof.conformance.trial import render, render_program
from streamproof.conformance.violations import Violation, violation_of

if TYPE_CHECKING:
    from streamproof.conformance.run import CheckRun

__all__ = ["Campaign"]

SHRINK_POINTS = 48
"""Points of one kind that are tried on each smaller program."""


class Campaign:
    """The crashes of one check.

    Args:
        run: the check.
        limit: how many kills it may spend on searching.
    """

    def __init__(self, run: CheckRun, limit: int) -> None:
        self._run = run
        self._engine = KillEngine(run)
        self._left = limit
        # It is asked about alone, so that it hides nothing that binds more.
        self._asks_position = POSITION in run.check.requirements
        self._budget = 0

    @property
    def counts_syscalls(self) -> bool:
        """Whether system calls can be crash points here."""
        return self._engine.syscalls

    def boundaries(self, program: Program) -> None:
        """Kill a program between every two of its operations, and after the last."""
        indices = spread(len(program), self._left)
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

    def _enumerate(self, program: Program, point: CrashPoint, share: float) -> None:
        limit = math.ceil(self._left * share)
        if limit:
            count = self._engine.count(program, point)
            self._search(program, [replace(point, n=n) for n in spread(count, limit)])

    def _search(self, program: Program, points: Sequence[CrashPoint]) -> None:
        """Kill at every point; each promise that is broken is made small and recorded."""
        self._left -= len(points)
        known = set(self._run.findings)
        for crashed, rulings in self._crash(program, points):
            for ruling in rulings:
                if not ruling.broken:
                    self._run.evidence.exercised.add(ruling.requirement)
                elif ruling.requirement not in known and self._run.applies(ruling.requirement):
                    known.add(ruling.requirement)
                    self._shrink_and_record(crashed, ruling)

    def _crash(
        self, program: Program, points: Sequence[CrashPoint], *, search: bool = True
    ) -> Iterable[tuple[Crashed, list[Ruling]]]:
        capabilities = self._run.subject.capabilities
        for at in range(0, len(points), BATCH):
            crashes = []
            for point in points[at : at + BATCH]:
                crashed = self._engine.kill(program, point)
                if crashed.error:
                    yield crashed, [_raised(crashed)]
                elif crashed.reached or crashed.point.kind == "boundary":
                    crashes.append(crashed)
                    if search:
                        counts = self._run.evidence.crash_points
                        counts[point.kind] = counts.get(point.kind, 0) + 1
            histories = [
                history_of(crashed, capabilities, exact=self._run.exact) for crashed in crashes
            ]
            seen = self._engine.observe(crashes, histories)
            for crashed, history, observation in zip(crashes, histories, seen, strict=True):
                if search:
                    self._run.evidence.examples += 1
                yield (
                    crashed,
                    judge(
                        crashed, history, observation, capabilities, position=self._asks_position
                    ),
                )
                shutil.rmtree(crashed.directory.parent, ignore_errors=True)

    def _shrink_and_record(self, crashed: Crashed, ruling: Ruling) -> None:
        """Make the program small, as long as a crash of the same kind breaks the same promise."""
        self._budget = self._run.settings.limits.shrink_kills
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
        self._run.record(self._violation(*broken))

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
        return self._first_break(program, point, ruling.requirement) or (crashed, ruling)

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
        return self._first_break(program, point, ruling.requirement)

    def _first_break(
        self, program: Program, point: CrashPoint, requirement: str
    ) -> tuple[Crashed, Ruling] | None:
        """The first crash of a smaller program that breaks the same promise."""
        if self._budget <= 0:
            return None
        points = [point]
        if point.kind != "boundary":
            count = self._engine.count(program, point)
            points = [replace(point, n=n) for n in spread(count, SHRINK_POINTS)]
        for crashed, rulings in self._crash(program, points, search=False):
            self._budget -= 1
            if rulings and rulings[-1].broken and rulings[-1].requirement == requirement:
                return crashed, rulings[-1]
        return None

    def _violation(self, crashed: Crashed, ruling: Ruling) -> Violation:
        where = f"kill the process {describe(crashed)}, reopen, read, replay the changelog"
        if crashed.error:
            where = "run the program, up to where the process was to be killed"
        program = self._source(crashed, ruling)
        return violation_of(ruling.requirement)(where, ruling.expected, ruling.broken, program)

    def _replay(self, crashed: Crashed) -> list[str]:
        """The replay of the changelog after the crash, as lines of a program."""
        history = history_of(crashed, self._run.subject.capabilities, exact=self._run.exact)
        changelog = changelog_of(history)
        lines = []
        for partition in partitions_of(history):
            records = [write.record() for write in changelog if write.partition == partition]
            name = render(partition)
            lines.append(f"offset = store.committed_offset({name})")
            lines.append("start = -1 if offset is None else offset")
            lines.append(f"changelog = {render(records)}")
            lines.append("lab.restore(store, [each for each in changelog if each.offset > start])")
        return [*lines, f"store.commit({render(ends_of(changelog))})"]

    def _source(self, crashed: Crashed, ruling: Ruling) -> str:
        """The crashed program as one that runs as it stands."""
        point = crashed.point
        opener = self._run.subject.opener
        lines = ["", "def doomed():"]
        # The process dies at the end of the program, or where it was armed before.
        for index, operation in enumerate(crashed.program.operations):
            if operation.record and ruling.requirement == POSITION:
                topic, partition, offset = operation.record
                lines.append(f"    lab.processing({topic!r}, {partition}, {offset})")
            if index == point.operation and point.kind != "boundary":
                lines.append(f"    lab.arm({point.kind}={point.n})")
            lines.append(f"    {operation.source(opener)}")
        lines += ["", "lab.crash(doomed)", f"store = lab.{opener}()"]
        if ruling.after_replay:
            lines += self._replay(crashed)
        short = f"expected {ruling.expected}, found {ruling.broken}"[:200]
        lines.append(f"print({ruling.read or 'store.is_open'})  # {short}")
        return render_program(self._run.subject.name, self._run.settings.guarantee, lines)


def describe(crashed: Crashed) -> str:
    """Where a program was killed, in words."""
    point = crashed.point
    operations = crashed.program.operations
    if point.kind == "boundary":
        return f"after {operations[crashed.started - 1].name}"
    thing = "line of Python" if point.kind == "line" else "write-like system call"
    return f"before {thing} {point.n} of {operations[point.operation].name}"


def _raised(crashed: Crashed) -> Ruling:
    """The subject raised before it could be killed: a promise is broken without any crash."""
    operation = crashed.program.operations[max(crashed.started - 1, 0)]
    return Ruling("CRASH-001", "no exception", f"{operation.name} raised {crashed.error}")
