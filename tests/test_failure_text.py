"""A program on the terminal is shown whole, or is said to be cut."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.text import Text

from streamproof.commands.failure_text import LEAST_PROGRAM, GroupsText
from streamproof.conformance.catalogue import load_catalogue
from streamproof.conformance.failure_groups import group_failures
from streamproof.conformance.results import Failure


@pytest.mark.parametrize("lines", range(1, 2 * LEAST_PROGRAM))
@pytest.mark.parametrize("room", [0, 2 * LEAST_PROGRAM])
def test_a_rest_is_named_if_there_is_one(lines: int, room: int) -> None:
    about = load_catalogue()["KV-001"]
    failure = Failure(
        subject="s",
        requirement=about.id,
        check="",
        title=about.title,
        promise=about.promise,
        source=about.source,
        level=about.level,
        core=about.core,
        program="".join(f"line{number}\n" for number in range(lines)),
        expected="",
        found="None",
        tried="",
        known="",
        reproduce="",
        shape="",
    )
    groups = GroupsText(group_failures([failure]), Path("out"), lambda parts: len(list(parts)))
    shown = [each.plain for each in groups.within(room) if isinstance(each, Text)]
    program = [each for each in shown if each.startswith("    line")]

    assert ("    … the rest is in the report" in shown) == (len(program) < lines)
