"""The shim between a process and libc counts, kills, and lets calls fail, here and elsewhere."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from streamproof.stores.syscalls.preloaded_libraries import build_shim
from streamproof.stores.syscalls.shim_control import Control

WRITES = """
    import os, sys
    from pathlib import Path

    done = []
    descriptor = os.open(sys.argv[1], os.O_WRONLY)
    sys.stdin.readline()
    for number in range(4):
        try:
            os.write(descriptor, b"x")
            done.append("ok")
        except OSError as error:
            done.append(error.errno)
    # Nothing is counted any more when the answer is given.
    sys.stdin.readline()
    print(*done)
"""
"""Four system calls between two lines of input."""

# What measures coverage writes, too, and its calls would be counted.
UNMEASURED = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shim; every machine that runs these tests has a C compiler."""
    built = build_shim(tmp_path_factory.mktemp("shim"))
    assert built is not None
    return built


class Writer:
    """A process that writes four times, with the shim between it and libc."""

    def __init__(self, shim: Path, directory: Path) -> None:
        self.control = Control(directory / "control")
        self.file = directory / "file"
        # An open that creates the file would be counted.
        self.file.touch()
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WRITES), str(self.file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**UNMEASURED, "LD_PRELOAD": str(shim), **self.control.environment},
        )

    def write(self) -> None:
        """Let it write."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def end(self) -> list[bytes]:
        """What became of each write; the process is at its end."""
        self.control.arm(0)
        output, _ = self.process.communicate(b"\n", timeout=60)
        return output.split()


def settle(writer: Writer, count: int) -> None:
    """Wait until so many calls were counted."""
    while writer.control.counted < count:
        assert writer.process.poll() is None
        time.sleep(0.001)


def test_another_process_counts_and_goes_on(shim: Path, tmp_path: Path) -> None:
    """With -1, calls are only counted."""
    writer = Writer(shim, tmp_path)
    writer.control.arm(-1)
    writer.write()
    settle(writer, 4)
    assert writer.end() == [b"ok"] * 4
    assert writer.file.read_bytes() == b"xxxx"


def test_another_process_is_killed_before_the_call(shim: Path, tmp_path: Path) -> None:
    """With n, n-1 calls are made."""
    writer = Writer(shim, tmp_path)
    writer.control.arm(3)
    writer.write()
    writer.process.communicate(timeout=60)
    assert writer.process.returncode == -signal.SIGKILL
    assert writer.control.has_killed()
    assert writer.file.read_bytes() == b"xx"


def test_a_process_that_is_disarmed_too_late_was_killed(shim: Path, tmp_path: Path) -> None:
    """Its death may be noticed after it was disarmed: its store must not be blamed."""
    writer = Writer(shim, tmp_path)
    writer.control.arm(3)
    writer.write()
    writer.process.communicate(timeout=60)
    writer.control.arm(0)
    assert writer.control.has_killed()


@pytest.mark.parametrize("n", [-1, 5])
def test_a_process_that_ends_by_itself_was_not_killed(shim: Path, tmp_path: Path, n: int) -> None:
    """Neither if its calls are only counted, nor before the one that it was armed for."""
    writer = Writer(shim, tmp_path)
    writer.control.arm(n)
    writer.write()
    settle(writer, 4)
    writer.process.kill()
    writer.process.communicate(timeout=60)
    assert not writer.control.has_killed()


@pytest.mark.parametrize("lasting", [False, True])
def test_a_call_fails_in_another_process(shim: Path, tmp_path: Path, *, lasting: bool) -> None:
    """Once, or from then on; a call that fails writes nothing."""
    writer = Writer(shim, tmp_path)
    writer.control.arm(2, error=errno.ENOSPC, lasting=lasting)
    writer.write()
    settle(writer, 4)
    assert not writer.control.has_killed()
    full = b"%d" % errno.ENOSPC
    rest = [full, full] if lasting else [b"ok", b"ok"]
    assert writer.end() == [b"ok", full, *rest]
    assert writer.file.read_bytes() == (b"x" if lasting else b"xxx")


def test_an_open_that_creates_is_counted(shim: Path, tmp_path: Path) -> None:
    """A file that comes into being is a change; an open of a file that is there is none."""
    program = """
        import os, sys
        from streamproof.conformance.crash.triggers import arm_syscalls, counted_syscalls, disarm

        arm_syscalls(-1)
        os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
        created = counted_syscalls()
        os.open(sys.argv[1], os.O_WRONLY)
        print(created, counted_syscalls())
        disarm()
    """
    done = subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(program), str(tmp_path / "file")],
        env={**os.environ, "LD_PRELOAD": str(shim)},
        capture_output=True,
        check=True,
    )
    assert done.stdout.split() == [b"1", b"1"]


def test_a_call_fails_in_this_process(shim: Path, tmp_path: Path) -> None:
    """The process arms itself, and without a control file nobody else is concerned."""
    program = """
        import errno, os, sys
        from streamproof.conformance.crash.triggers import arm_syscalls, counted_syscalls, disarm

        descriptor = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
        arm_syscalls(2, error=errno.EIO)
        os.write(descriptor, b"a")
        try:
            os.fsync(descriptor)
        except OSError as error:
            failed = error.errno
        os.write(descriptor, b"b")
        count = counted_syscalls()
        disarm()
        print(count, failed)
    """
    done = subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(program), str(tmp_path / "file")],
        env={**os.environ, "LD_PRELOAD": str(shim)},
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split() == [b"3", b"%d" % errno.EIO]
    assert (tmp_path / "file").read_bytes() == b"ab"
