"""Derives the states that kills of a program would leave, from one recorded run of the program.

The page cache survives the death of a process. So what a kill leaves is what the calls of the
process have written by then, and the recording of one run says that for every moment of this run.
Looking at such a state saves the run of the program up to that moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from streamproof.conformance.check_context import CheckContext
from streamproof.conformance.crash import triggers
from streamproof.conformance.crash.crash_records import Crashed, CrashPoint
from streamproof.conformance.crash.program import Program
from streamproof.conformance.power.power_engine import PowerEngine, Recording
from streamproof.conformance.power.syscall_recorder import recorder_is_loaded
from streamproof.sampling import spread
from streamproof.stores.syscalls.disk_states import digest_of
from streamproof.stores.syscalls.syscall_trace import SyscallTrace, Tree, write_tree

__all__ = ["DERIVABLE", "DerivedKills"]

DERIVABLE = ("boundary", "syscall")
"""The kinds of points whose states a recording tells. No call is made before a line of Python."""

Moment = tuple[int, int, int]
"""A number of recorded calls, and the numbers of operations that had started and returned."""


class DerivedKills:
    """The states that kills of programs of one subject would leave."""

    def __init__(self, run: CheckContext) -> None:
        self._run = run
        self._engine = PowerEngine(run)
        self._latest: tuple[Program, Crashed | None, Recording | None] | None = None

    def count(self, program: Program, point: CrashPoint, before: Crashed | None) -> int | None:
        """The number of write-like system calls at a point; ``None`` if it is not known."""
        recording = self._recording(program, before)
        if recording is None or point.kind != "syscall":
            return None
        counted = recording.trace.counted
        return counted[point.operation + point.span] - counted[point.operation]

    def crashes(
        self, program: Program, points: Sequence[CrashPoint], before: Crashed | None
    ) -> Iterator[Crashed] | None:
        """Different states that kills at such points would leave, each in a directory of its own.

        Returns:
            The states, made lazily; ``None`` if they cannot be derived.
        """
        recording = self._recording(program, before)
        if recording is None:
            return None
        return self._left(recording, sorted({*_moments(recording.trace, points)}))

    def near(
        self, program: Program, point: CrashPoint, limit: int, before: Crashed | None
    ) -> Iterator[Crashed]:
        """Up to ``limit`` states that kills at a point, and at others of its kind near it, leave.

        The nearest come first, and they are made lazily. There are none if they cannot be derived.
        """
        recording = self._recording(program, before)
        if recording is None:
            return
        trace = recording.trace
        wanted = trace.started[point.operation] + point.n - 1 if point.kind == "syscall" else 0
        moments = {*_moments(trace, [point] * (limit if point.kind == "syscall" else 1))}
        nearest = sorted(moments, key=lambda moment: (abs(moment[0] - wanted), moment))
        disk = recording.disk()
        yield from self._made(recording, ((each, disk.tree(each[0])) for each in nearest))

    def _left(self, recording: Recording, moments: Sequence[Moment]) -> Iterator[Crashed]:
        trees = recording.disk().trees(after for after, _, _ in moments)
        return self._made(recording, zip(moments, trees, strict=True))

    def _made(
        self, recording: Recording, states: Iterable[tuple[Moment, Tree]]
    ) -> Iterator[Crashed]:
        """The different ones among some states, each in a directory of its own."""
        seen = set()
        for (after, started, returned), tree in states:
            looks = digest_of(tree), started, returned
            if looks not in seen:
                seen.add(looks)
                directory = self._run.new_directory()
                write_tree(tree, directory)
                operation = max(started - 1, 0)
                calls = after - recording.trace.started[operation]
                yield replace(
                    recording.whole,
                    point=CrashPoint("derived", operation, calls),
                    directory=directory,
                    started=started,
                    finished=returned,
                    reached=True,
                )

    def _recording(self, program: Program, before: Crashed | None) -> Recording | None:
        """The recording of a program; ``None`` unless it shows all that the program writes."""
        if triggers.why_unseen() or not recorder_is_loaded():
            return None
        if self._latest is None or self._latest[:2] != (program, before):
            made = self._engine.record(program, killed=before)
            is_whole = len(made.trace.returned) == len(program) and not made.error
            usable = made if is_whole and not made.escaped else None
            self._latest = program, before, usable
        return self._latest[2]


def _moments(trace: SyscallTrace, points: Sequence[CrashPoint]) -> Iterator[Moment]:
    """As many moments as there are points, where the points are; ``points`` are of one kind."""
    first = points[0]
    if first.kind == "boundary":
        ends = [*trace.started, len(trace.calls)]
        yield from ((ends[each.operation], each.operation, each.operation) for each in points)
        return
    start, end = trace.started[first.operation], trace.returned[first.operation + first.span - 1]
    for number in spread(end - start + 1, len(points)):
        after = start + number - 1
        yield after, *trace.operations(after)
