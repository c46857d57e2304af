"""How a failure looks on the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs
from rich.console import Console
from rich.text import Text

from streamproof.commands.failure_text import LEAST_PROGRAM, GroupsText
from streamproof.conformance.catalogue import load_catalogue
from streamproof.conformance.failure_groups import group_failures
from streamproof.conformance.results import Failure

ABOUT = load_catalogue()["KV-001"]

FAILURE = Failure(
    subject="s",
    requirement=ABOUT.id,
    check="",
    title=ABOUT.title,
    promise=ABOUT.promise,
    source=ABOUT.source,
    level=ABOUT.level,
    core=ABOUT.core,
    program="",
    expected="",
    found="None",
    tried="",
    known="",
    reproduce="",
    shape="",
)


def groups_of(failure: Failure) -> GroupsText:
    return GroupsText(group_failures([failure]), Path("out"), lambda parts: len(list(parts)))


@pytest.mark.parametrize("lines", range(1, 2 * LEAST_PROGRAM))
@pytest.mark.parametrize("room", [0, 2 * LEAST_PROGRAM])
def test_a_rest_is_named_if_there_is_one(lines: int, room: int) -> None:
    program = "".join(f"line{number}\n" for number in range(lines))
    failure = structs.replace(FAILURE, program=program)
    groups = groups_of(failure)
    shown = [each.plain for each in groups.within(room) if isinstance(each, Text)]
    told = [each for each in shown if each.startswith("    line")]

    assert ("    … the rest is in the report" in shown) == (len(told) < lines)


def test_lines_of_a_finding_are_one_line() -> None:
    """What a terminal cannot show is marked, but the end of a line is nothing to mark."""
    failure = structs.replace(FAILURE, found="0\nafter these events:\n  #0 a\x1b\n  #1 b\n")
    console = Console(width=120, no_color=True)
    with console.capture() as capture:
        console.print(*groups_of(failure).within(40), sep="\n")
    (found,) = [each for each in capture.get().splitlines() if each.startswith("  found")]
    wanted = "found 0 / after these events: #0 a\N{REPLACEMENT CHARACTER} / #1 b"
    assert " ".join(found.split()) == wanted
