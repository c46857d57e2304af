"""The end of a program: lines that fail as long as a finding is there, and no longer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from streamproof.conformance.failure_shapes import answers
from streamproof.conformance.program_text import (
    END_OF_SHOWN,
    NO_ANSWER,
    assertion,
    brief_source,
    has_source,
    render,
    short_comment,
)

__all__ = ["ProgramEnding", "unless_refused"]

_ASSIGNMENT = re.compile(
    r"\w+ = |#|lab(?:_\d+)?\.(processing|idle|measure|restore|catch_up|wipe|open_and_close"
    r"|watch_files|look_at_files|watch_log)\("
)
"""The lines of a program that have no value to print."""


class ProgramEnding:
    """The noted lines of a program, which become one that fails.

    Args:
        lines: the lines, at least one.
        noted: the answers of lines, each with its line, because lines may have changed since.
        compared: the index of the first line whose answer is not compared yet.
    """

    def __init__(
        self, lines: Sequence[str], noted: Mapping[int, tuple[str, Any]], compared: int
    ) -> None:
        self._lines = list(lines)
        self._answers = noted
        self._compared = compared

    def _answer(self, number: int) -> Any:
        """The answer of a line; ``NO_ANSWER`` if it has none that a program can compare."""
        line, answer = self._answers.get(number, ("", NO_ANSWER))
        is_void = answer is None and not answers(line)
        known = line == self._lines[number] and has_source(answer) and not is_void
        return answer if known else NO_ANSWER

    def concluded(
        self, shape: str, compared: tuple[Any, Any], comment: str, *, allows_error: bool
    ) -> list[str]:
        """All lines of the program, which fails as long as the finding is there.

        Args:
            shape: the shape of the finding.
            compared: the right value and the wrong one, if the promise names a value.
            comment: what was expected and found.
            allows_error: whether an error in place of the last answer would keep the promise.
        """
        # The last line stands even if an earlier comparison of its answer held.
        first = min(self._compared, len(self._lines) - 1)
        ended = self._ended(first, shape, compared, comment)
        wanted, wrong = compared
        if allows_error and wanted is not NO_ANSWER:
            ended = [*self._lines[first:-1], *_found_or_error(self._lines[-1], wanted, wrong)]
        return [*self._lines[:first], *ended]

    def _ended(self, first: int, shape: str, compared: tuple[Any, Any], comment: str) -> list[str]:
        """The lines from the ``first`` on."""
        *before, line = self._lines[first:]
        if shape.startswith("raised-"):
            return [*before, f"{line}  # {comment}"]
        if shape.startswith("accepted-"):
            otherwise = f"    raise AssertionError({comment!r})"
            tried = ["try:", f"    {line}", "except Exception:", "    pass", "else:", otherwise]
            return [*before, *tried]
        wanted, wrong = compared
        if wrong is not NO_ANSWER and _same(self._answer(len(self._lines) - 1), wrong):
            return [*before, _comparison(line, wanted, wrong, comment)]
        return self._asserted(first, wanted, wrong, comment)

    def _asserted(self, first: int, wanted: Any, wrong: Any, comment: str) -> list[str]:
        """The lines from the ``first`` on, any of whose answers may belong to the finding."""
        last = len(self._lines) - 1
        numbers = [n for n in range(first, last) if answers(self._lines[n])]
        found = {n: self._answer(n) for n in (*numbers, last)}
        found = {n: answer for n, answer in found.items() if answer is not NO_ANSWER}
        lines = self._lines[first:]
        if not found:
            return [*lines[:-1], f"{_printed(lines[-1])}  # {comment}", END_OF_SHOWN]
        if [*found] == [last]:
            return [*lines[:-1], assertion(lines[-1], found[last], comment)]
        for n in found:
            lines[n - first] = f"answer_{n} = {self._lines[n]}"
        names = f"[{', '.join(f'answer_{n}' for n in found)}]"
        values = [*found.values()]
        if _same(values, wrong):
            return [*lines, _comparison(names, wanted, wrong, comment)]
        return [*lines, assertion(names, values, comment)]


def _printed(line: str) -> str:
    """A line of a program, which shows its value if it has one."""
    return line if _ASSIGNMENT.match(line) else f"print({line})"


def _same(one: Any, other: Any) -> bool:
    """Whether two values are equal and of one type."""
    return type(one) is type(other) and bool(one == other)


def unless_refused(call: str, *rest: str) -> list[str]:
    """Lines of a program in which an error of the first line, and of no other, is right."""
    then = [f"    {line}" for each in rest for line in each.splitlines()]
    return ["try:", f"    {call}", "except Exception:", "    pass", "else:", *then]


def _comparison(read: str, wanted: Any, wrong: Any, comment: str) -> str:
    """A line that fails unless an expression has the value that is wanted."""
    if not has_source(wanted) or wanted == wrong:
        return assertion(read, wrong, comment)
    return f"assert {read} == {render(wanted)}  # {short_comment(f'found {brief_source(wrong)}')}"


def _found_or_error(line: str, wanted: Any, wrong: Any) -> list[str]:
    """Lines that fail unless an expression has the value that is wanted, or raises."""
    value, comment = render(wanted), short_comment(f"found {brief_source(wrong)}, and no error")
    return [
        f"found = {value}",
        f"with suppress(Exception): found = {line}",
        f"assert found == {value}  # {comment}",
    ]
