"""Programs that are too long are made shorter by running them.

Hypothesis makes drawn programs small, and campaigns leave out operations. The program of a check
that always does the same is as long as the check. Here it is shortened as text: a statement may go
if the program still fails in the same way with the store, *and still passes with right stores*.
The right stores are the oracle, so no shorter program asserts what no promise says. One has
transactions, one has none and one has a cache: they differ in what a close keeps that was not
committed, and in when a write is logged.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any

from streamproof.conformance.lab import Lab
from streamproof.conformance.program_text import LONGEST_PROGRAM, fails_by_itself
from streamproof.conformance.running_call import RunningCall
from streamproof.conformance.subject import Subject, load_subject

__all__ = ["passes", "shorter", "too_long"]

MOST_RUNS = 200
"""The most times that a program is run to make it shorter."""

MOST_STATEMENTS = 60_000
"""The most statements in all these runs."""

MOST_SECONDS = 10.0
"""The seconds after which a run counts as a hang."""

MOST_ANSWERS = 3
"""The most answers that are tried as the one that a program asserts."""

MOST_ALIKE = 3
"""The most statements in a row that differ in a number alone; more become a loop."""

RIGHT = {
    "key-value": (
        (
            "rocksdb-timestamped-transactional",
            "rocksdb-transactional",
            "rocksdb-stack-transactional",
        ),
        ("rocksdb", "in-memory"),
        ("rocksdb-stack", "rocksdb-timestamped-stack"),
    ),
    "window": (
        ("rocksdb-window-transactional",),
        ("rocksdb-window-timestamped", "in-memory-window"),
        ("rocksdb-window-timestamped-stack",),
    ),
    "session": (
        ("rocksdb-session-transactional",),
        ("rocksdb-session-timestamped", "in-memory-session"),
        ("rocksdb-session-timestamped-stack",),
    ),
}
"""Right stores by kind: with transactions, without, and with a cache, which logs its writes late.
Of each group, the first store with which a program passes is an oracle."""

_ELSEWHERE = re.compile(
    r"lab\.(?:crash|simulate|power_loss)\(|Lab\.|Thread|fork|\b(?:judge|verify)\("
)
"""What a program does that is not done over and over in this process, or has no right store."""

_NUMBER = re.compile(r"\d+")

MakeLab = Callable[[Subject], Lab]


def too_long(program: str) -> bool:
    """Whether a program has too many lines, or the same line again and again."""
    lines = [each.strip() for each in program.splitlines() if each.strip()]
    alike = max((len(list(each)) for _, each in groupby(lines)), default=0)
    return len(lines) > LONGEST_PROGRAM or alike > 1


def shorter(program: str, subject: Subject, make_lab: MakeLab, status: RunningCall) -> str:
    """A shorter program that fails in the same way, or else the same program.

    Args:
        program: the program, which ends with what fails.
        subject: the store with which it fails.
        make_lab: makes a lab with an empty directory for a store.
        status: where a run of a program is reported, in case it hangs.
    """
    if _ELSEWHERE.search(program) or not fails_by_itself(program):
        return program
    runs = _Runs(subject, make_lab, status)
    statements = _statements(program)
    failing = runs.ending(statements, subject)
    right = runs.right_stores(statements) if failing else []
    if not right:
        return program

    def still_fails(some: list[str]) -> bool:
        fails = runs.ending(some, subject) == failing
        return fails and not any(runs.ending(some, each) for each in right)

    statements = _with_one_answer(statements, runs, right[0], still_fails)
    folded = list(_folded(statements))
    if folded != statements and still_fails(folded):
        statements = folded
    return _text(program, _with_fewer(statements, still_fails))


def passes(program: str, subject: Subject, make_lab: MakeLab, status: RunningCall) -> bool:
    """Whether a program passes with a right store of the same kind as a subject.

    The arguments are those of :func:`shorter`. A program that cannot be run here counts as passing.
    """
    if _ELSEWHERE.search(program):
        return True
    return bool(_Runs(subject, make_lab, status).right_stores(_statements(program)))


class _Runs:
    """Runs of a program and of shorter ones.

    Args:
        subject: the store under test.
        make_lab: makes a lab with an empty directory for a store.
        status: where a run is reported.
    """

    def __init__(self, subject: Subject, make_lab: MakeLab, status: RunningCall) -> None:
        self._status = status
        self._kind = subject.capabilities.kind
        self._make_lab = make_lab
        self._left = MOST_RUNS
        self._statements_left = MOST_STATEMENTS

    def right_stores(self, statements: list[str]) -> list[Subject]:
        """Right stores with which the program passes, at most one of each group."""
        groups = (map(load_subject, names) for names in RIGHT[self._kind])
        found = (
            next((each for each in stores if not self.ending(statements, each)), None)
            for stores in groups
        )
        return [each for each in found if each]

    def ending(self, statements: list[str], subject: Subject) -> str:
        """The type of the error of the last statement; empty without one.

        A program that fails earlier, or for which no run is left, ends in its own way.
        """
        return self.run(statements, subject)[0]

    def run(self, statements: list[str], subject: Subject) -> tuple[str, dict[str, Any]]:
        """How a program ends, and its variables."""
        if self._left <= 0 or self._statements_left <= 0:
            return "no run is left", {}
        self._left -= 1
        self._statements_left -= sum(map(_times, statements))
        lab = self._make_lab(subject)
        variables: dict[str, Any] = {"lab": lab}
        try:
            with (
                contextlib.redirect_stdout(io.StringIO()),
                self._status.operation("a program that is made shorter"),
                _at_most(MOST_SECONDS),
            ):
                return _ending(statements, variables), variables
        finally:
            for each in reversed(list(variables.values())):
                if each is not lab and callable(getattr(each, "close", None)):
                    with contextlib.suppress(BaseException):
                        each.close()
            shutil.rmtree(lab.directory.parent, ignore_errors=True)


def _ending(statements: list[str], variables: dict[str, Any]) -> str:
    for number, each in enumerate(statements):
        try:
            exec(compile(each, "<program>", "exec"), variables)  # noqa: S102 - a program of ours.
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException as error:
            name = type(error).__name__
            return name if number == len(statements) - 1 else f"{name} before the end"
    return ""


@contextlib.contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raise in the block if it takes longer."""

    def too_late(*_: object) -> None:
        raise TimeoutError("a shorter program hangs")

    before = signal.signal(signal.SIGALRM, too_late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _statements(program: str) -> list[str]:
    """The statements of a program, without that which makes the lab."""
    lines = program.splitlines()
    found = []
    for node in ast.parse(program).body:
        text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
        if not text.startswith("lab = Lab("):
            found.append(text)
    return found


def _with_one_answer(
    statements: list[str],
    runs: _Runs,
    right: Subject,
    still_fails: Callable[[list[str]], bool],
) -> list[str]:
    """The program that asserts one answer only, if it asserts many at once."""
    node = ast.parse(statements[-1]).body[0]
    if not (
        isinstance(node, ast.Assert)
        and isinstance(node.test, ast.Compare)
        and isinstance(node.test.left, ast.List)
        and isinstance(node.test.comparators[0], ast.List)
    ):
        return statements
    source = statements[-1]
    names = list(map(ast.unparse, node.test.left.elts))
    values = list(map(ast.unparse, node.test.comparators[0].elts))
    sign = "!=" if isinstance(node.test.ops[0], ast.NotEq) else "=="
    _, found = runs.run(statements[:-1], right)
    comment = re.search(r"  # [^\n]*$", source)
    telling = [
        (name, value)
        for name, value in zip(names, values, strict=False)
        if name in found and (sign == "!=") == (found[name] != eval(value, found))  # noqa: S307
    ]
    for name, value in telling[:MOST_ANSWERS]:
        last = f"assert {name} {sign} {value}{comment[0] if comment else ''}"
        others = {*names} - {name}
        some = [each for each in statements[:-1] if each.partition(" = ")[0] not in others]
        if still_fails([*some, last]):
            return [*some, last]
    return statements


def _with_fewer(statements: list[str], still_fails: Callable[[list[str]], bool]) -> list[str]:
    """The program without what may go: large parts first, from the end."""
    *kept, last = statements
    size = max(len(kept) // 2, 1)
    while True:
        end = len(kept)
        while end > 0:
            start = max(end - size, 0)
            fewer = [*kept[:start], *kept[end:]]
            if still_fails([*fewer, last]):
                kept = fewer
            end = start
        if size == 1:
            return [*kept, last]
        size //= 2


def _folded(statements: list[str]) -> Iterator[str]:
    """The program with a loop for statements in a row that differ in a number alone."""
    for template, some in groupby(statements, key=lambda each: _NUMBER.sub("0", each)):
        group = list(some)
        yield from _loop(group) if len(group) > MOST_ALIKE and "\n" not in template else group


def _times(statement: str) -> int:
    """How often the body of a statement is run: a loop runs its body many times."""
    loop = re.match(r"for n in range\((\d+), (\d+)\)", statement)
    return int(loop[2]) - int(loop[1]) if loop else 1


def _loop(group: list[str]) -> list[str]:
    """One loop for statements in which one number in a bytes literal counts up."""
    rows = [_NUMBER.findall(each) for each in group]
    changing = [place for place, some in enumerate(zip(*rows, strict=True)) if len({*some}) > 1]
    first = [int(row[changing[0]]) for row in rows] if len(changing) == 1 else []
    if not first or first != list(range(first[0], first[0] + len(first))):
        return group
    places = list(_NUMBER.finditer(group[0]))
    number = places[changing[0]]
    literal = next(
        (
            each
            for each in re.finditer(r"b'[^'\\%]*'", group[0])
            if number.start() in range(*each.span())
        ),
        None,
    )
    if literal is None:
        return group
    width = f"0{len(number[0])}" if len({len(row[changing[0]]) for row in rows}) == 1 else ""
    before, after = group[0][: number.start()], group[0][number.end() : literal.end()]
    body = f"{before}%{width}d{after} % n{group[0][literal.end() :]}"
    return [f"for n in range({first[0]}, {first[-1] + 1}):\n    {body}"]


def _text(program: str, statements: Iterable[str]) -> str:
    """The whole program, with its lab."""
    lines = program.splitlines()
    lab = next(each for each in lines if each.startswith("lab = Lab("))
    body = [each for each in statements if not each.startswith(("from ", "import "))]
    written = "\n".join([lab, *body])
    imports = [each for each in lines if each.startswith(("from ", "import "))]
    kept = [needed for each in imports if (needed := _needed(each, written))]
    return "\n".join([*kept, "", written, ""])


def _needed(line: str, written: str) -> str:
    """The import of the names that a program uses; empty if it uses none."""
    start, _, names = line.partition(" import ")
    used = [each for each in names.split(", ") if re.search(rf"\b{each}\b", written)]
    return f"{start} import {', '.join(used)}" if used else ""
