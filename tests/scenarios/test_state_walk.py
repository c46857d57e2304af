"""A walk through a run: where it goes, what it shows, and what it says to a line it cannot read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from small_runs import SmallRun, small_run

from streamproof.scenarios.recorded_run import RecordedRun
from streamproof.scenarios.state.walk import step
from streamproof.sim.choices import Choices
from streamproof.sim.invariants import InvariantViolation
from streamproof.sim.plan_space import PlanSpace, draw
from streamproof.sim.simulation import run
from streamproof.sim.trace import Event

GOLDEN = Path(__file__).parent / "golden"

WALKS = {
    "every-view": [
        "?",
        "who",
        "f",
        "task 0_0",
        "store 0_0",
        "log",
        "log in-0 2",
        "offsets",
        "txns",
    ],
    "to-and-fro": ["n", "", "n 20", "b 3", "g 26", "t 1500", "/crashed", "", "n 100", "n", "b 99"],
    "what-it-changes": ["g 7", "g 14", "g 15", "g 21", "g 22", "g 25", "g 26", "g 30", "g 36"],
    "nothing-there-yet": ["who", "task 0_0", "store 0_0", "log", "log x", "offsets", "txns"],
}


def walked(played: RecordedRun, lines: Sequence[str], width: int = 80) -> str:
    """What is shown for some lines, with the lines themselves."""
    file = StringIO()
    left = iter(lines)

    def read_line(prompt: str) -> str:
        try:
            line = next(left)
        except StopIteration:
            raise EOFError from None
        file.write(f"{prompt}{line}\n")
        return line

    step(played, Console(file=file, width=width), read_line)
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())


@pytest.mark.parametrize("name", WALKS)
def test_a_walk_is_the_golden_one(name: str) -> None:
    """Line by line (STREAMPROOF_UPDATE_GOLDENS=1 renews them)."""
    golden = GOLDEN / f"walk-{name}.txt"
    text = walked(small_run(is_broken=True), WALKS[name])
    if os.environ.get("STREAMPROOF_UPDATE_GOLDENS") == "1":
        golden.parent.mkdir(exist_ok=True)
        golden.write_bytes(text.encode())
    assert golden.read_bytes().decode() == text


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("xx", "'xx' is no command. The commands are: n, b, g, t, f, task,"),
        ("n x", "'x' is no number. Write, for example: n 10"),
        ("g", "'' is no number. Write, for example: g 120"),
        ("g 40", "There is no event 40; the last one is 39."),
        ("t 4001", "Nothing happens at 4001 ms or later; the end is at 4000 ms."),
        ("task", "The command needs a name. Write, for example: task 0_0"),
        ("task 9_9", "There is no task '9_9' here; there is none at this moment."),
        ("/", "The search needs a text, as in: /crash"),
        ("/nowhere", "No event contains 'nowhere'."),
        ("log nowhere", "There is no log 'nowhere' here; there is none at this moment."),
    ],
)
def test_a_line_that_says_nothing_is_answered(line: str, answer: str) -> None:
    """With what is wrong, and what to say; the walk goes on where it was."""
    text = walked(small_run(), [line, "n"])
    assert answer in text
    assert "#1 of 39" in text


def test_an_unknown_name_is_answered_with_those_there_are() -> None:
    """At this moment."""
    text = walked(small_run(), ["g 20", "task 9_9", "store x", "log x"])
    assert "There is no task '9_9' here; there are: 0_0." in text
    assert "There is no store 'x' here; there are: 0_0, counts." in text
    assert "There is no log 'x' here; there are: count-counts-changelog-0, in-0." in text


def test_an_empty_line_does_the_same_again() -> None:
    """What was wrong is not done again."""
    text = walked(small_run(), ["n 2", "xx", ""])
    assert "#4 of 39" in text


@pytest.mark.parametrize("lines", [["q", "n"], ["quit", "n"], []])
def test_it_ends_when_it_is_told_and_when_nobody_asks(lines: list[str]) -> None:
    """Nothing is shown after that."""
    assert "#1 of 39" not in walked(small_run(), lines)


def test_the_first_violation() -> None:
    """It is where it was found, or the end, or nowhere."""
    broken = small_run(is_broken=True)
    assert "broken here: what is kept is committed (TASK-003)" in walked(broken, ["f"])
    late = replace(
        broken, violations=[InvariantViolation("every task runs", "TASK-008", "none", None)]
    )
    assert "#38 of 38" in walked(late, ["f"])
    assert "This run breaks no promise." in walked(small_run(), ["f"])


def test_a_run_without_events() -> None:
    """The walk ends at once, without a prompt."""
    text = walked(replace(small_run(), events=[]), ["n"])
    assert text == "small run has no events, so it has no state to show.\n"


def test_events_that_are_left_out_are_stepped_over() -> None:
    """A part of a run can be walked through as well; numbers are those of the events."""
    small = small_run()
    part = replace(small, events=[each for each in small.events if each.sequence % 3 == 0])
    text = walked(part, ["n", "g 13", "t 1500"])
    assert "#3 of 39" in text
    assert "#15 of 39" in text
    assert "#27 of 39" in text


def test_what_looks_like_markup_is_shown_as_it_is() -> None:
    """Keys and values are those of a user."""
    small = SmallRun(is_broken=False)
    small.begins()
    small.store("store.put", key=b"[red]key", value=b"[/]")
    text = walked(replace(small_run(), events=small.events), ["n 99", "store 0_0"])
    assert "row [red]key: nothing → [/]" in text
    assert "[red]key   [/]     staged" in text


def test_real_runs_fit_into_80_columns() -> None:
    """Whatever is shown, at any event, and nothing of it raises."""
    events: list[Event] = []
    choices = Choices.seeded(7)
    plan = draw(choices, PlanSpace(topologies=["stream-table-join"], upgrades=[""]))
    outcome = run(choices, plan, watchers=[events.append])
    played = RecordedRun("seed 7", outcome.plan, (), events, outcome.violations, outcome.digest)
    views = ["who", "task 0_0", "store 0_0", "store rows", "log", "log table-0", "offsets", "txns"]
    lines = ["n 40", *views] * (len(events) // 40)
    assert max(len(line) for line in walked(played, lines).splitlines()) <= 80
