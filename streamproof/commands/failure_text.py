"""Failures on a terminal: one program for each probable cause, in as many lines as there are."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from streamproof.conformance.catalogue import load_catalogue
from streamproof.conformance.failure_groups import FailureGroup
from streamproof.conformance.results import Failure

__all__ = ["GroupsText", "whole"]

MOST_CHARACTERS = 300
"""The most characters of a sentence about a failure."""

MOST_IDS = 6
"""The most requirements that are listed beneath a failure."""

LEAST_PROGRAM = 8
"""The fewest lines of a program that are worth showing."""

MOST_CALLS = 8
"""The most calls of a traceback in a line each; the report has the whole traceback."""

MOST_COLUMNS = 80
"""The most characters in a line that nobody copies."""

SHORTEST_COMMENT = 20
"""The fewest characters of a comment that are worth showing."""

_CALL = re.compile(r'^  File "(.+)", line (\d+), in (.+)\n(?:    (.+))?', re.MULTILINE)
"""A call in a traceback, with its line of the source."""


def whole(text: str, style: str = "") -> Text:
    """A line that is never broken, so that it can be copied."""
    return Text(text, style=style, no_wrap=True)


class GroupsText:
    """The groups of failures of a run.

    Args:
        groups: the groups, the weightiest first.
        out: the directory of the report.
        height: the number of lines that some parts take.
    """

    def __init__(
        self,
        groups: Sequence[FailureGroup],
        out: Path,
        height: Callable[[Iterable[RenderableType]], int],
    ) -> None:
        self._groups = groups
        self._out = out
        self._height = height

    def within(self, room: int) -> list[RenderableType]:
        """The groups in at most so many lines: whole, or else in a line, or else counted."""
        shown: list[RenderableType] = []
        for number, group in enumerate(self._groups):
            # Each of the rest gets its line first.
            left = room - self._height(shown) - self._lines_of_rest(number + 1)
            parts = self._parts(group, left, is_first=number == 0)
            if not parts:
                return [*shown, *self._rest(number, room - self._height(shown))]
            shown += parts
        return shown

    def _lines_of_rest(self, number: int) -> int:
        # A traceback of the first group is worth more than a line for each of the others.
        most = 2 if number == 1 and self._groups[0].first.traceback else 5
        return min(len(self._groups) - number, most) + 1 if number < len(self._groups) else 0

    def _rest(self, number: int, room: int) -> list[RenderableType]:
        """A line for each of the remaining groups, as far as there is room."""
        rest = self._groups[number:]
        fitting = len(rest) if len(rest) + 1 <= room else max(room - 2, 0)
        lines: list[RenderableType] = [Text(), *(self._in_short(each) for each in rest[:fitting])]
        if hidden := len(rest) - fitting:
            noun = "cause" if hidden == 1 else "causes"
            lines.append(whole(f"… and {hidden} more probable {noun}: see the report", "dim"))
        return lines

    def _in_short(self, group: FailureGroup) -> Text:
        others = len(group.requirements) - 1
        beneath = f", and {others} more" if others else ""
        return _head(group.first).append(beneath, style="dim")

    def _parts(self, group: FailureGroup, room: int, *, is_first: bool) -> list[RenderableType]:
        """A group whole, with its program cut if it is the first; nothing if there is no room."""
        before: list[RenderableType] = [Text(), _head(group.first), *_sentences(group.first)]
        after = [*_beneath(group), *self._commands(group.first)]
        program = group.first.program.splitlines()
        lines = room - self._height([*before, *after])
        if len(program) > lines:
            if not is_first:
                return []
            shown = program[: max(lines - 1, LEAST_PROGRAM)]
            is_cut = len(shown) < len(program)
            program = [*shown, "… the rest is in the report"] if is_cut else program
        # The program comes first: whoever runs it sees the traceback, too.
        before += _traceback(group.first, lines - len(program))
        return [*before, *(whole(f"    {_in_width(each)}", "cyan") for each in program), *after]

    def _commands(self, failure: Failure) -> list[Text]:
        commands = [failure.reproduce]
        if failure.saved:
            saved = str(self._out / failure.saved)
            commands.append(shlex.join(["streamproof", "replay", saved]))
        return [whole(f"  $ {each}", "dim") for each in commands]


def _head(failure: Failure) -> Text:
    head = whole(f"✗ {failure.subject} {failure.requirement} ", "bold red")
    head.append(f"({failure.level}) {failure.title}", style="bold")
    return head.append(f" [{failure.shape}]" if failure.shape else "", style="dim")


def _sentences(failure: Failure) -> list[RenderableType]:
    requirement = load_catalogue().get(failure.requirement)
    texts = {
        "promise": failure.promise,
        "tried": failure.tried,
        "expected": failure.expected,
        "found": failure.found,
        "usually": requirement.usual_cause if requirement else "",
        "mend": requirement.usual_cure if requirement else "",
    }
    rows: list[RenderableType] = []
    for name, text in texts.items():
        if text:
            grid = Table.grid(padding=(0, 1))
            grid.add_column(width=10)
            grid.add_column()
            grid.add_row(f"  {name}", escape(_short(text)))
            rows.append(grid)
    return rows


def _traceback(failure: Failure, room: int) -> list[Text]:
    """The calls of the store before it raised, the innermost last, in at most so many lines."""
    *earlier, last = failure.traceback.split("Traceback (most recent call last):\n")
    calls = [
        f"{file}:{line} {name}(): {source}" for file, line, name, source in _CALL.findall(last)
    ]
    if any(earlier):
        calls.insert(0, "(raised while another exception was handled: see the report)")
    room = min(room, MOST_CALLS)
    if len(calls) > room:
        calls = ["(earlier calls are in the report)", *calls[len(calls) - room + 1 :]]
    names = ["called", *[""] * (len(calls) - 1)]
    shown = [f"  {name:9}{call}" for name, call in zip(names, calls, strict=False)]
    return [whole(_cut(line, MOST_COLUMNS)) for line in shown] if room > 1 else []


def _in_width(line: str) -> str:
    """A line of a program, whose comment fits on the terminal."""
    code, mark, comment = line.partition("  # ")
    if not mark or code.startswith("#"):
        return line[:400]
    most = MOST_COLUMNS - len(f"    {code}{mark}")
    return f"{code}{mark}{_cut(comment, most)}" if most >= SHORTEST_COMMENT else code


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _beneath(group: FailureGroup) -> list[RenderableType]:
    """The other requirements that the same cause breaks."""
    others = group.requirements[1:]
    if not others:
        return []
    more = f" and {len(others) - MOST_IDS} more" if len(others) > MOST_IDS else ""
    text = f"  probably the same cause: {', '.join(others[:MOST_IDS])}{more}"
    return [Text(text, style="dim")]


def _short(text: str) -> str:
    """A bounded text in one line without control characters, for a terminal."""
    text = " / ".join(filter(None, map(str.strip, text.splitlines()))).replace(": / ", ": ")
    clean = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return clean if len(clean) <= MOST_CHARACTERS else f"{clean[:MOST_CHARACTERS]}…"
