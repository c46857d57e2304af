"""The common part of campaigns that stop a program by a kill or by a loss of power."""

from __future__ import annotations

import itertools
import shutil
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from streamproof.conformance.case_campaign import CaseCampaign
from streamproof.conformance.check_context import CheckContext
from streamproof.conformance.crash.crash_judge import POSITION, history_of, judge
from streamproof.conformance.crash.crash_records import FAULTS, Crashed, CrashPoint, Observation
from streamproof.conformance.crash.inspector import BATCH, Inspector
from streamproof.conformance.crash.program import Program
from streamproof.conformance.oracle import History, changelog_of, ends_of, partitions_of
from streamproof.conformance.program_text import assertion, render, short_comment
from streamproof.conformance.ruling import Ruling

__all__ = ["ProgramCampaign", "batches", "lines_of"]


class Stopped(Protocol):
    """A case: a stopped program, and the stopped programs before it."""

    @property
    def chain(self) -> Sequence[Any]:
        """The earlier cases in order, and then this case."""


Case = TypeVar("Case", bound=Stopped)
Item = TypeVar("Item")


class ProgramCampaign(CaseCampaign[Case]):
    """A campaign whose cases are programs, each stopped at some point.

    Args:
        run: the check.
        position: the requirement about the position of a store. It is judged only if the check
            asks for it, because a broken position would hide a weightier broken promise.
    """

    def __init__(self, run: CheckContext, position: str) -> None:
        super().__init__(run, run.settings.limits.shrink_kills)
        self._inspector = Inspector(run)
        self._asks_position = position in run.check.requirements

    # Judging.

    def _history(self, crashed: Crashed) -> History:
        """The history until a program was stopped, with the commits that must survive."""
        return history_of(crashed, self._run.subject.capabilities, exact=self._run.exact)

    def _resumed(self, program: Program, before: Crashed | None) -> Program:
        """The program, with the changelog that an earlier crash left to replay."""
        if before is None:
            return program
        changelog = changelog_of(self._history(before))
        return program.resumed([write.record() for write in changelog])

    def _judge(self, cases: Sequence[Case]) -> Iterator[tuple[Case, list[Ruling]]]:
        """Each case with the rulings on its stores, up to the first broken one.

        The directories of the cases are deleted afterwards, because many cases would fill the disk.
        """
        capabilities = self._run.subject.capabilities
        crashes = [self._crashed(case) for case in cases]
        views = [each.of(store) for each in crashes for store in each.program.stores]
        histories = [self._history(each) for each in views]
        try:
            seen = self._inspector.observe(views, histories)
            judged = iter(zip(views, histories, seen, strict=True))
            for case, crashed in zip(cases, crashes, strict=True):
                rulings: list[Ruling] = []
                for store in crashed.program.stores:
                    view, history, found = next(judged)
                    self._reached(history, found)
                    some = judge(view, history, found, capabilities, position=self._asks_position)
                    if not (rulings and rulings[-1].broken):
                        wiped = bool(found.refused)
                        rulings += [each._replace(store=store, wiped=wiped) for each in some]
                yield case, rulings
        finally:
            for crashed in crashes:
                shutil.rmtree(crashed.directory.parent, ignore_errors=True)

    def _reached(self, history: History, found: Observation) -> None:
        """Record a state that a case left."""

    # Making failures small.

    def _with_fewer_operations(self, case: Case, ruling: Ruling) -> tuple[Case, Ruling]:
        """Leave out operations in ever smaller chunks, while the same promise stays broken."""
        broken = case, ruling
        chunk = max(1, (len(self._crashed(case).program) - 1) // 2)
        while chunk:
            # The first operation opens the store and the last one dies, so both stay.
            end = self._last_droppable(broken[0])
            while end > 1:
                start = max(1, end - chunk)
                broken = self._without(*broken, start, end) or broken
                end = start
            chunk //= 2
        return broken

    def _without(
        self, case: Case, ruling: Ruling, start: int, end: int
    ) -> tuple[Case, Ruling] | None:
        """The failure without the operations from ``start`` to ``end``, if it still occurs."""
        operations = self._crashed(case).program.operations
        program = Program(operations[:start] + operations[end:])
        if not program.alternates:
            return None
        again = self._tried_again(case, program, dropped=end - start)
        return self._first_break(again, self._broken_by(case, ruling))

    # Writing failures down.

    def _lines(self, case: Case, ruling: Ruling) -> list[str]:
        opener = self._run.subject.opener
        crashed = self._crashed(case)
        lines = [f"lab_{store} = lab.beside({store})" for store in crashed.program.stores if store]
        for number, each in enumerate(case.chain, start=1):
            name = "doomed" if number == 1 else f"doomed_{number}"
            body = lines_of(
                self._doomed(each), opener, shows_position=ruling.requirement == POSITION
            )
            lines += ["", f"def {name}():", *body, "", *self._death(each, name)]
        if ruling.store:
            lines.append(f"lab = lab_{ruling.store}")
        # A store without transactions may ask to be wiped after a crash.
        whole = self._run.subject.capabilities.transactional
        lines.append(f"store = lab.{opener if whole else 'open_after_crash'}()")
        if ruling.after_replay:
            lines += self._replay_lines(crashed.of(ruling.store), ruling)
        wrong = f"expected {ruling.expected}, found {ruling.broken}"
        short = short_comment(self._run.without_paths(wrong))
        if not ruling.read:
            return [*lines[:-1], f"{lines[-1]}  # {short}"]
        if ruling.beside is None:
            return [*lines, _assertion(crashed, ruling, short)]
        offsets, committed = ruling.beside
        lines.append(f"offsets = {offsets}")
        read = f"({ruling.read}, offsets)"
        return [*lines, assertion(read, (ruling.answer, committed), short)]

    def _replay_lines(self, crashed: Crashed, ruling: Ruling) -> list[str]:
        """The replay of the changelog after the crash, as lines of a program."""
        history = self._history(crashed)
        changelog = changelog_of(history)
        lines = []
        for partition in partitions_of(history):
            records = [write.record() for write in changelog if write.partition == partition]
            lines.append(f"offset = store.committed_offset({render(partition)})")
            lines.append("start = -1 if offset is None else offset")
            lines.append(f"changelog = {render(records)}")
            lines.append("lab.restore(store, [each for each in changelog if each.offset > start])")
        lines.append(f"store.commit({render(ends_of(changelog))})")
        again = ["store.close()", f"store = lab.{self._run.subject.opener}()"]
        return [*lines, *(again if ruling.reopened else [])]

    # Each kind of campaign defines these methods.

    @abstractmethod
    def _crashed(self, case: Case) -> Crashed:
        """The program up to its end, with the directory that it left."""

    @abstractmethod
    def _last_droppable(self, case: Case) -> int:
        """The index after the last operation that may be left out."""

    @abstractmethod
    def _tried_again(
        self, case: Case, program: Program, *, dropped: int
    ) -> Iterator[tuple[Case, list[Ruling]]]:
        """Stop a smaller program like that of a case, without ``dropped`` of its operations."""

    @abstractmethod
    def _doomed(self, case: Case) -> Crashed:
        """The program that the doomed function of a report runs."""

    @abstractmethod
    def _death(self, case: Case, name: str) -> list[str]:
        """Lines that call the doomed function ``name`` and stop it at the same point."""


def batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """All items in ever larger batches, of which the first has ``size``, and none above ``BATCH``.

    Whoever stops at one of the first items needs few of them.
    """
    some = iter(items)
    while batch := list(itertools.islice(some, size)):
        yield batch
        size = min(2 * size, BATCH)


def _assertion(crashed: Crashed, ruling: Ruling, comment: str) -> str:
    """A line that fails as long as the finding is there."""
    line = assertion(ruling.read, ruling.answer, comment)
    right = _comparison(ruling.legal)
    if ruling.legal and len(right) < len(line):
        # A process that dies at another moment leaves another wrong answer.
        return f"assert {ruling.read} {right}  # {comment}"
    went_on = not crashed.raised and (crashed.closed or not crashed.point.closing)
    if crashed.point.kind in FAULTS and went_on:
        # The store told no error of a failed call. One that does has to keep less.
        return line.replace("assert ", "assert error or ", 1)
    return line


def _comparison(legal: Sequence[Any]) -> str:
    """The second half of a comparison that holds for these values alone."""
    values = [each for n, each in enumerate(legal) if each not in legal[:n]]
    return f"== {render(values[0])}" if len(values) == 1 else f"in {render(values)}"


def lines_of(crashed: Crashed, opener: str, *, shows_position: bool) -> list[str]:
    """The operations of a program and its kill, as the lines of a function."""
    point = crashed.point
    lines = []
    indent = "    "
    # The process dies at the end of the program, unless an armed point kills it earlier.
    for index, operation in enumerate(crashed.program.operations[: crashed.started]):
        if operation.record and shows_position:
            topic, partition, offset = operation.record
            lines.append(f"{indent}lab.processing({topic!r}, {partition}, {offset})")
        if index == point.operation and point.kind != "boundary":
            before = "at" if point.kind in FAULTS else "before"
            where = f"  # {before} {short_comment(crashed.where)}" if crashed.where else ""
            lines.append(f"{indent}lab.arm({_trigger(point)}){where}")
            if point.closing:
                lines.append(f"{indent}try:")
                indent *= 2
        lines.append(f"{indent}{operation.source(opener)}")
    if point.closing:
        lines += ["    finally:", "        lab.disarm()", "        store.close()"]
    return lines


def _trigger(point: CrashPoint) -> str:
    """The arguments of ``lab.arm`` for a crash point."""
    if point.kind not in FAULTS:
        return f"{point.kind}={point.n}"
    lasting = ", lasting=True" if point.lasting else ""
    return f"syscall={point.n}, error={point.kind.upper()!r}{lasting}"
