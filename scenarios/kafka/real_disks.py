"""The disk of a real instance, which loses its power or is full.

Nothing needs a disk of its own. The instance runs with libraries before libc: one records each call
that changes a file, so that it is known what a loss of power may take, and one lets calls fail.
"""

from __future__ import annotations

import fcntl
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from errno import ENOSPC
from pathlib import Path

from streamproof.errors import UsageError
from streamproof.stores.syscalls.disk import JOURNALLED, disk_of
from streamproof.stores.syscalls.disk_states import drawn_state
from streamproof.stores.syscalls.preloaded_libraries import CannotBuildError, preload
from streamproof.stores.syscalls.shim_control import Control
from streamproof.stores.syscalls.syscall_trace import (
    Call,
    Tree,
    actual_tree,
    calls_that_made,
    read_trace,
    write_tree,
)

__all__ = ["RealDisk", "store_of"]

STILL_S = 5.0
"""The most that one system call of an instance may take, in seconds."""

POLL_S = 0.001
"""The time between two looks whether a system call is over, in seconds."""

FLUSHED = ".sst"
"""The ending of the files of RocksDB; a flush makes one."""


class RealDisk:
    """The disk with the state directory of one instance. It outlives the processes.

    Args:
        root: the state directory.
        place: a directory for the files that this needs.

    Raises:
        UsageError: the libraries before libc cannot be compiled here.
    """

    def __init__(self, root: Path, place: Path) -> None:
        self._root = root
        self._log = place / f"{root.name}-calls"
        # What the directory had before the first recorded call.
        self._before: list[Call] | None = None
        self._control = Control(place / f"{root.name}-shim")
        self._is_full = False
        try:
            self._libraries = preload(place)
        except CannotBuildError as error:
            raise UsageError(
                f"No disk of a real instance can fail or lose its power here: {error}."
            ) from error

    def begin(self) -> Mapping[str, str]:
        """The environment of a process of the instance, which is about to start."""
        self._root.mkdir(parents=True, exist_ok=True)
        if self._before is None:
            self._before = calls_that_made(self._root)
            self._log.write_bytes(b"")
        return {
            "LD_PRELOAD": self._libraries,
            # The calls of all processes since the last loss of power are in one log.
            "STREAMPROOF_RECORD": f"{self._log}\n{self._root}",
            "STREAMPROOF_SHIM_ROOT": str(self._root),
            **self._control.environment,
        }

    @contextmanager
    def still(self) -> Iterator[None]:
        """No system call of the instance is between being made and being recorded in this block.

        Raises:
            UsageError: the instance makes one call for too long.
        """
        if self._before is None:
            yield
            return
        with self._log.open("rb") as file:
            deadline = time.monotonic() + STILL_S
            while not _locks(file.fileno()):
                if time.monotonic() > deadline:
                    raise UsageError(
                        f"A system call below {self._root} takes longer than {STILL_S:g} s, so "
                        "nobody knows what of it is on the disk. Play again."
                    )
                time.sleep(POLL_S)
            yield

    def lose_power(self, seed: int) -> int:
        """Leave what a loss of power may leave. No process may use the directory any more.

        Args:
            seed: which of the legal states; with 0, all that was not synced is lost.

        Returns:
            How many flushes of RocksDB were lost, as a whole or in part.

        Raises:
            UsageError: the calls of the instance were not all seen, so no state is known to be
                legal.
        """
        if self._before is None:
            return 0
        trace = read_trace(self._log.read_bytes(), self._root, self._before)
        disk, end = disk_of(trace, JOURNALLED), len(trace.calls)
        kept = disk.tree(end)
        self._require_same(kept, actual_tree(self._root))
        left = drawn_state(disk, end, seed).tree(disk)
        shutil.rmtree(self._root)
        self._root.mkdir()
        write_tree(left, self._root)
        self._before = None
        return sum(
            1
            for name, content in kept.items()
            if name.endswith(FLUSHED) and left.get(name) != content
        )

    def _require_same(self, expected: Tree, found: Tree) -> None:
        """Raise UsageError unless the recorded calls lead to what the directory has."""
        unseen = sorted(
            name
            for name in expected.keys() | found.keys()
            if name not in expected or name not in found or expected[name] != found[name]
        )
        if unseen:
            raise UsageError(
                f"What a loss of power may leave of {self._root.name} is not known: "
                f"{', '.join(unseen[:3])} changed without a system call that could be recorded."
            )

    def fill(self) -> None:
        """Let the disk be full: what needs space fails with ENOSPC."""
        self._is_full = True
        self._control.arm(1, error=ENOSPC, lasting=True)

    def empty(self) -> bool:
        """Let the disk have space again; whether it was full."""
        was_full, self._is_full = self._is_full, False
        self._control.arm(0)
        return was_full

    @property
    def refused(self) -> str:
        """The first file that could not be written since the disk is full; empty if there is none.

        It is relative to the state directory.
        """
        _, _, file, *_ = f"{self._control.told}\n\n\n".split("\n")
        return str(Path(file).relative_to(self._root)) if file else ""


def store_of(file: str) -> str:
    """The store that a file of a state directory belongs to; empty if it is of none.

    Args:
        file: the file, as ``APPLICATION/TASK/rocksdb/STORE/000012.sst``.
    """
    parts = Path(file).parts
    return parts[3] if len(parts) > 4 else ""


def _locks(descriptor: int) -> bool:
    """Try to take the lock that the recorder holds while a call is made and written down."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
