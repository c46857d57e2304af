"""The runs of an exploration in a file: nothing is lost, and nothing is mixed up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamproof.errors import UsageError
from streamproof.scenarios.exploration_ledger import LEDGER, Ledger
from streamproof.sim.exploration import Explored
from streamproof.sim.world_plan import WORLD_VERSION

WHAT: dict[str, Any] = {"seed": 0, "defect": ""}

RUNS = [
    Explored(0, topology="count", digest="a" * 32, events=12, marks={"a task idled": 2}),
    Explored(
        1,
        "a task idled",
        "stateless",
        violations=(("TASK-001", "it is wrong"),),
        invariant="it is right",
    ),
    Explored(2, problem="ValueError: what?"),
]


def kept(directory: Path) -> list[Explored]:
    """The runs in a directory."""
    with Ledger(directory, WHAT) as ledger:
        return ledger.runs


def test_what_was_kept_is_there_again(tmp_path: Path) -> None:
    """All of each run, in order, and more comes after it."""
    with Ledger(tmp_path / "out", WHAT) as ledger:
        assert ledger.runs == []
        for run in RUNS[:2]:
            ledger.add(run)
    with Ledger(tmp_path / "out", WHAT) as again:
        assert again.runs == RUNS[:2]
        assert not again.torn
        again.add(RUNS[2])
    assert kept(tmp_path / "out") == RUNS


def test_a_run_is_in_the_file_as_soon_as_it_was_added(tmp_path: Path) -> None:
    """A process that is killed then has lost nothing."""
    with Ledger(tmp_path, WHAT) as ledger:
        ledger.add(RUNS[0])
        assert (tmp_path / LEDGER).read_bytes().count(b"\n") == 2


@pytest.mark.parametrize("lost", [1, 5, 40])
def test_a_torn_line_is_dropped(tmp_path: Path, lost: int) -> None:
    """And nothing before it; what comes next begins on a line of its own."""
    with Ledger(tmp_path, WHAT) as ledger:
        for run in RUNS[:2]:
            ledger.add(run)
    path = tmp_path / LEDGER
    path.write_bytes(path.read_bytes()[:-lost])
    with Ledger(tmp_path, WHAT) as again:
        assert again.torn
        assert again.runs == RUNS[:1]
        again.add(RUNS[1])
    assert kept(tmp_path) == RUNS[:2]


def test_a_torn_first_line_is_begun_again(tmp_path: Path) -> None:
    """There was no run yet."""
    (tmp_path / LEDGER).write_bytes(b'{"def')
    with Ledger(tmp_path, WHAT) as ledger:
        assert (ledger.torn, ledger.runs) == (True, [])
        ledger.add(RUNS[0])
    assert kept(tmp_path) == RUNS[:1]


def test_another_exploration_is_refused(tmp_path: Path) -> None:
    """And nothing of the first one is changed."""
    with Ledger(tmp_path, WHAT) as ledger:
        ledger.add(RUNS[0])
    before = (tmp_path / LEDGER).read_bytes()
    with pytest.raises(UsageError, match=r"holds the runs of another exploration: .*--out"):
        Ledger(tmp_path, {**WHAT, "seed": 7})
    assert (tmp_path / LEDGER).read_bytes() == before


@pytest.mark.parametrize("world", [b'"world":0', b'"else":1', b'"world":"one"'])
def test_an_exploration_of_another_version_of_the_world_is_refused(
    tmp_path: Path, world: bytes
) -> None:
    """Its seeds lead to other runs now; an older file names no version at all."""
    with Ledger(tmp_path, WHAT) as ledger:
        ledger.add(RUNS[0])
    path = tmp_path / LEDGER
    before = path.read_bytes().replace(f'"world":{WORLD_VERSION}'.encode(), world)
    path.write_bytes(before)
    with pytest.raises(UsageError, match=r"carries no version of the simulated world, .*--out"):
        Ledger(tmp_path, WHAT)
    assert path.read_bytes() == before


def test_a_line_that_is_no_run_is_refused(tmp_path: Path) -> None:
    """With its number; nothing is dropped but what was torn at the end."""
    with Ledger(tmp_path, WHAT) as ledger:
        ledger.add(RUNS[0])
    path = tmp_path / LEDGER
    before = path.read_bytes() + b"scribbled\n"
    path.write_bytes(before)
    with pytest.raises(UsageError, match="line 3: this is no run"):
        Ledger(tmp_path, WHAT)
    assert path.read_bytes() == before


def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """With its name."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"'.*file' cannot be written: .*--out"):
        Ledger(tmp_path / "file", WHAT)
