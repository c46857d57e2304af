"""Work directories: that of a killed process is deleted by the next run, and no other ever is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_lines import until

from streamproof.conformance.lab import Lab
from streamproof.conformance.work_directory import work_directory

OWNER = """
import os, signal
from streamproof.conformance.work_directory import work_directory

with work_directory() as directory:
    (directory / "database").mkdir()
    (directory / "database" / "log").write_text("not finished")
    fork = os.fork()
    if fork:
        print(directory, fork, flush=True)
    signal.pause()
"""


@pytest.fixture
def owner() -> Iterator[tuple[subprocess.Popen[str], int, Path]]:
    """A process with a work directory, its fork, and the directory."""
    command = [sys.executable, "-P", "-c", OWNER]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    directory, fork = process.stdout.readline().split()
    yield process, int(fork), Path(directory)
    process.kill()
    process.communicate()


def is_left_by_the_next_run(directory: Path) -> bool:
    lock = directory.with_name(f"{directory.name}.lock")
    with work_directory():
        assert directory.exists() == lock.exists()
        return directory.exists()


def test_what_a_killed_process_leaves_is_deleted_by_the_next_run(
    owner: tuple[subprocess.Popen[str], int, Path],
) -> None:
    """But not before the last of its forks is gone, which may be writing there."""
    process, fork, directory = owner
    assert is_left_by_the_next_run(directory)
    process.kill()
    process.wait()
    assert is_left_by_the_next_run(directory)
    os.kill(fork, signal.SIGKILL)
    assert until(lambda: not is_left_by_the_next_run(directory))


LAB = """
import os, signal
from streamproof import Lab

lab = Lab("in-memory")
lab.copied()
fork = os.fork()
if fork:
    print(lab.directory.parent, fork, flush=True)
signal.pause()
"""


def test_what_a_killed_program_leaves_is_deleted_by_the_next_lab(tmp_path: Path) -> None:
    """With its copies, and not before the last of its forks is gone."""
    command = [sys.executable, "-P", "-c", LAB]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stdout is not None
        directory, fork = process.stdout.readline().split()
        process.kill()
    Lab("in-memory").remove()
    assert sorted(each.name for each in Path(directory).iterdir()) == ["task", "task-copy-1"]
    os.kill(int(fork), signal.SIGKILL)

    def is_left() -> bool:
        Lab("in-memory").remove()
        return Path(directory).exists() or Path(f"{directory}.lock").exists()

    assert until(lambda: not is_left())


def test_a_lab_leaves_nothing() -> None:
    lab = Lab("in-memory")
    lab.copied()
    place, name = lab.directory.parent.parent, lab.directory.parent.name
    assert name.startswith("streamproof-lab-")
    lab.remove()
    assert list(place.glob(f"{name}*")) == []


def test_what_may_be_of_somebody_else_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory without a lock, one of another user, and all in a place that was asked for."""
    with work_directory() as directory:
        place = directory.parent
    without, abandoned = (place / f"streamproof-work-{name}" for name in ("nolock", "dead"))
    asked = tmp_path / "streamproof-work-there"
    for each in (without, abandoned, asked):
        each.mkdir()
    for each in (abandoned, asked):
        each.with_name(f"{each.name}.lock").touch()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "geteuid", lambda: os.getuid() + 1)
            assert is_left_by_the_next_run(abandoned)
        with work_directory(tmp_path):
            assert asked.exists()
        with work_directory():
            assert not abandoned.exists()
            assert without.exists()
    finally:
        without.rmdir()


def test_nothing_is_left(tmp_path: Path) -> None:
    """Neither the directory nor its lock, also where there is nothing to delete any more."""
    with work_directory(tmp_path) as directory:
        assert directory.parent == tmp_path
        assert directory.stat().st_mode & 0o777 == 0o700
        directory.rmdir()
    assert list(tmp_path.iterdir()) == []
