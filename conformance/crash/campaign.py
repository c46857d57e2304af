"""Crash a program at many points, judge what is left, and make the first failure small."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from streamproof.conformance.crash.judge import Ruling, history_of, judge
from streamproof.conformance.crash.kill import BATCH, Crashed, CrashPoint, KillEngine, spread
from streamproof.conformance.crash.program import Program
from streamproof.conformance.trial import render_program
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
                elif ruling.requirement not in known:
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
                yield crashed, judge(crashed, history, observation, capabilities)
                shutil.rmtree(crashed.directory.parent, ignore_errors=True)

    def _shrink_and_record(self, crashed: Crashed, ruling: Ruling) -> None:
        """Drop operations as long as the same promise is broken by a crash of the same kind."""
        budget = self._run.settings.limits.shrink_kills
        index = len(crashed.program) - 1
        while index > 0 and budget > 0:
            moved = index < crashed.point.operation
            program = crashed.program.without(index)
            point = crashed.point
            if moved:
                point = replace(point, operation=point.operation - 1)
            if index != crashed.point.operation or point.kind == "boundary":
                spent, smaller = self._first_break(program, point, ruling.requirement)
                budget -= spent
                if smaller is not None:
                    crashed, ruling = smaller
                    index = min(index, len(crashed.program))
            index -= 1
        self._run.record(self._violation(crashed, ruling))

    def _first_break(
        self, program: Program, point: CrashPoint, requirement: str
    ) -> tuple[int, tuple[Crashed, Ruling] | None]:
        """The first crash of a smaller program that breaks the same promise, and the cost."""
        points = [point]
        if point.kind != "boundary":
            count = self._engine.count(program, point)
            points = [replace(point, n=n) for n in spread(count, SHRINK_POINTS)]
        elif point.operation > len(program):
            return 0, None
        spent = 1
        for crashed, rulings in self._crash(program, points, search=False):
            spent += 1
            if rulings and rulings[-1].broken and rulings[-1].requirement == requirement:
                return spent, (crashed, rulings[-1])
        return spent, None

    def _violation(self, crashed: Crashed, ruling: Ruling) -> Violation:
        requirement = violation_of(ruling.requirement)
        where = f"kill the process {describe(crashed)}, reopen, read, replay the changelog"
        return requirement(where, ruling.expected, ruling.broken, self._source(crashed, ruling))

    def _source(self, crashed: Crashed, ruling: Ruling) -> str:
        """The crashed program as one that runs as it stands."""
        point = crashed.point
        lines = ["", "def doomed():"]
        for index, operation in enumerate(crashed.program.operations):
            if index == point.operation:
                lines.append(
                    "    lab.die()"
                    if point.kind == "boundary"
                    else f"    lab.arm({point.kind}={point.n})"
                )
                if point.kind == "boundary":
                    break
            lines.append(f"    {operation.source()}")
            if point.kind == "line" and index == point.operation:
                break
        lines += ["", "lab.crash(doomed)", "store = lab.open()"]
        short = f"expected {ruling.expected}, found {ruling.broken}"[:200]
        if ruling.requirement == "RESTORE-006":
            lines.append("# Then replay the changelog from store.committed_offset(…):")
        lines.append(f"print({ruling.read or 'store.is_open'})  # {short}")
        return render_program(self._run.subject.name, self._run.settings.guarantee, lines)


def describe(crashed: Crashed) -> str:
    """Where a program was killed, in words."""
    point = crashed.point
    operations = crashed.program.operations
    if point.kind == "boundary":
        return f"after operation {point.operation} of {len(operations)}"
    thing = "line of Python" if point.kind == "line" else "write-like system call"
    return f"before {thing} {point.n} of {operations[point.operation].name}"


def _raised(crashed: Crashed) -> Ruling:
    """The subject raised before it could be killed: a promise is broken without any crash."""
    operation = crashed.program.operations[max(crashed.started - 1, 0)]
    return Ruling("CRASH-001", "no exception", f"{operation.source()[:200]} raised {crashed.error}")
