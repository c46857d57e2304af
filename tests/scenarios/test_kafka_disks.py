"""The disk of a real instance is full, and loses its power."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from streamproof.errors import UsageError
from streamproof.scenarios.kafka import real_disks
from streamproof.scenarios.kafka.real_disks import RealDisk, store_of
from streamproof.scenarios.kafka.real_play import play_for_real
from streamproof.scenarios.play import Judged
from streamproof.scenarios.scenario_reader import find, read
from streamproof.stores.jvm.kafka_jars import DEFAULT_RELEASE
from streamproof.stores.syscalls.preloaded_libraries import CannotBuildError
from streamproof.stores.syscalls.syscall_trace import actual_tree

# Writes two files as RocksDB does, and syncs the first one.
WRITES = """
import os, sys
root = sys.argv[1]
for name, is_synced in (("000001.sst", True), ("000002.sst", False)):
    fd = os.open(f"{root}/{name}", os.O_CREAT | os.O_WRONLY)
    os.write(fd, b"x" * 2000)
    if is_synced:
        os.fsync(fd)
"""

# Tries to write and to delete a file, and tells what came of that.
TRIES = """
import os, sys
for what in (lambda path: open(path, "w").close(), os.unlink):
    try:
        what(sys.argv[1])
        print("done")
    except OSError as error:
        print(os.strerror(error.errno))
"""


def run(disk: RealDisk, program: str, *arguments: object) -> list[str]:
    """Run a program in Python as a process of an instance; what it prints."""
    words = [sys.executable, "-S", "-c", program, *map(str, arguments)]
    done = subprocess.run(words, env=dict(disk.begin()), capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "instance-0-state"


@pytest.fixture
def disk(root: Path, tmp_path: Path) -> RealDisk:
    return RealDisk(root, tmp_path)


def test_what_was_synced_outlives_a_loss_of_power(disk: RealDisk, root: Path) -> None:
    run(disk, WRITES, root)
    lost = disk.lose_power(0)

    assert actual_tree(root) == {"000001.sst": b"x" * 2000}
    assert lost == 1


def test_other_seeds_leave_other_legal_states(disk: RealDisk, root: Path, tmp_path: Path) -> None:
    """The second file is gone, whole, empty or torn, and the first one always whole."""
    left = set()
    for seed in range(8):
        disk = RealDisk(root, tmp_path)
        for each in root.glob("*"):
            each.unlink()
        run(disk, WRITES, root)
        disk.lose_power(seed)
        tree = actual_tree(root)
        left.add(tree.pop("000002.sst", None))
        assert tree == {"000001.sst": b"x" * 2000}

    assert len(left) > 2


def test_all_processes_since_the_last_loss_of_power_count(disk: RealDisk, root: Path) -> None:
    """What a killed process wrote is in the page cache only, whoever writes after it."""
    run(disk, WRITES, root)
    run(disk, "import os, sys; os.close(os.open(sys.argv[1], os.O_CREAT))", root / "later")
    disk.lose_power(0)
    run(disk, WRITES.replace("0000", "1000"), root)
    disk.lose_power(0)

    assert actual_tree(root) == {"000001.sst": b"x" * 2000, "100001.sst": b"x" * 2000}


def test_writes_that_nobody_saw_are_told(disk: RealDisk, root: Path) -> None:
    run(disk, WRITES, root)
    (root / "behind-our-back").touch()

    with pytest.raises(UsageError, match=r"is not known: behind-our-back changed without"):
        disk.lose_power(0)


def test_a_full_disk_refuses_what_needs_space_below_the_directory(
    disk: RealDisk, root: Path, tmp_path: Path
) -> None:
    """The rest of the machine has space, and files can be deleted everywhere."""
    run(disk, WRITES, root)
    disk.fill()

    assert run(disk, TRIES, root / "000001.sst") == ["done", "done"]
    assert run(disk, TRIES, root / "0_0") == [
        "No space left on device",
        "No such file or directory",
    ]
    assert run(disk, TRIES, tmp_path / "elsewhere") == ["done", "done"]
    assert disk.refused == "0_0"
    assert disk.empty()
    assert not disk.empty()
    assert run(disk, TRIES, root / "0_0") == ["done", "done"]


def test_without_a_compiler_the_reason_is_told(
    monkeypatch: pytest.MonkeyPatch, root: Path, tmp_path: Path
) -> None:
    def fail(_: Path) -> str:
        raise CannotBuildError("no C compiler (cc, gcc or clang) was found; install gcc or clang")

    monkeypatch.setattr(real_disks, "preload", fail)

    with pytest.raises(UsageError, match=r"lose its power here: no C compiler .* install gcc"):
        RealDisk(root, tmp_path)


@pytest.mark.parametrize(
    ("file", "store"),
    [("count/0_0/rocksdb/counts/000012.sst", "counts"), ("count/.lock", "")],
)
def test_the_store_of_a_file(file: str, store: str) -> None:
    assert store_of(file) == store


def played(name: str, variant: str) -> Judged:
    scenario = read(find(name))
    return play_for_real(scenario, scenario.setups[variant], DEFAULT_RELEASE)


def test_a_real_instance_loses_its_power() -> None:
    """RocksDB syncs what it flushes, so an instance loses nothing that a kill leaves."""
    judged = played("KIP-892-power-loss", "at-least-once")
    kinds = [each.kind for each in judged.played.events]
    (lost,) = [each for each in judged.played.events if each.kind == "disk.power_lost"]

    assert list(judged.played.violations) == []
    assert lost.attributes["flushes"] == 0
    assert "restore.end" in kinds[kinds.index("disk.power_lost") :]


def test_a_real_instance_stops_on_a_full_disk() -> None:
    """RocksDB does not say that it could not write, so the task counts as closed, and is wiped."""
    judged = played("KIP-1035-full-disk", "in-place")
    kinds = [each.kind for each in judged.played.events]
    of_disks = [each for each in kinds if each.startswith("disk.")]

    assert list(judged.played.violations) == []
    assert of_disks == ["disk.filled", "disk.full", "disk.emptied"]
    assert kinds.index("disk.emptied") < kinds.index("task.wiped")
