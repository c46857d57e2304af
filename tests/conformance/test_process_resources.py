"""What a process holds and writes elsewhere: seen where it is there, and only there."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from command_lines import CommandLine

from streamproof.conformance.process_resources import (
    FileWatch,
    children,
    count_handles,
    count_threads,
    open_files,
)

MUTANTS = "streamproof.conformance.mutants.hygiene_mutants"


def test_open_files_are_those_below_the_directory(tmp_path: Path) -> None:
    """Deleted ones as well, as they hold their space; a directory beside it is another."""
    inside, beside = tmp_path / "task", tmp_path / "task-2"
    for directory in (inside, beside):
        directory.mkdir()
    assert open_files(inside) == []
    with (inside / "a").open("w"), (inside / "b").open("w"), (beside / "c").open("w"):
        (inside / "b").unlink()
        assert open_files(inside) == ["a", "b"]
    assert open_files(inside) == []


def test_handles_threads_and_processes_are_counted() -> None:
    """One more of each is one more."""
    handles, threads, before = count_handles(), count_threads(), children()
    ends = os.pipe()
    assert count_handles() == handles + 2
    for end in ends:
        os.close(end)
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    assert count_threads() == threads + 1
    done.set()
    thread.join()
    with subprocess.Popen(["sleep", "60"]) as process:
        assert set(children()) - set(before) == {process.pid}
        process.kill()
    assert children() == before


def test_a_watch_sees_what_is_written_elsewhere(tmp_path: Path) -> None:
    """Whether it is open or closed again, by Python or not; only what is still there counts."""
    task, other = tmp_path / "task", tmp_path / "other"
    task.mkdir()
    other.mkdir()
    (other / "read").write_text("before")
    watch = FileWatch(task)
    (task / "inside").write_text("1")
    (other / "read").read_text()
    (other / "closed").write_text("1")
    (other / "temporary").write_text("1")
    (other / "temporary").unlink()
    (other / "made").mkdir()
    (other / "closed").rename(other / "renamed")
    unheard = os.open(other / "open", os.O_CREAT | os.O_WRONLY)
    watch.look()
    os.close(unheard)
    names = [Path(path).name for path in watch.left()]
    assert names == ["made", "open", "renamed"]


def test_a_watch_ends(tmp_path: Path) -> None:
    """What is written later is no concern of it, and two do not disturb each other."""
    task = tmp_path / "task"
    task.mkdir()
    first, second = FileWatch(task), FileWatch(tmp_path)
    (tmp_path / "a").write_text("1")
    assert first.left() == [str(tmp_path / "a")]
    (tmp_path / "b").write_text("1")
    assert second.left() == []


@pytest.mark.parametrize(
    ("mutant", "requirement", "found"),
    [
        ("notes_beside_the_task", "LIFE-014", "notes.txt"),
        ("file_stays_open", "LIFE-015", "closed"),
        ("processes_pile_up", "LIFE-018", "10 more processes"),
    ],
)
def test_what_a_subject_leaves_is_told_and_removed(
    command_line: CommandLine, mutant: str, requirement: str, found: str
) -> None:
    """The suite goes on, and nothing remains, not even a process that left its session."""
    only = f"{requirement},KV-001"
    ended = command_line.verify(f"{MUTANTS}:{mutant}", "--only", only, "--no-bank")
    assert list(ended.failures) == [requirement]
    assert found in ended.failures[requirement].found
    assert ended.results["KV-001"].status == "pass"


def test_a_watch_that_has_ended_needs_no_names_of_its_module(tmp_path: Path) -> None:
    """An interpreter that ends clears them, and tells its audit hooks of more."""
    program = f"""
from pathlib import Path
from streamproof.conformance import process_resources

process_resources.FileWatch(Path({str(tmp_path)!r})).left()
vars(process_resources).clear()
Path({str(tmp_path / "late")!r}).touch()
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert (tmp_path / "late").exists()
