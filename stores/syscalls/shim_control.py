"""The block by which a process arms the shim of another one."""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path

__all__ = ["Control"]


class Control:
    """The shim of another process, which is started with ``environment``.

    Args:
        path: the file that begins with the control block, made if it is missing.
    """

    _LAYOUT = struct.Struct("4q1024s")
    _KILLED = struct.Struct("q")
    _VARIABLE = "STREAMPROOF_SHIM_CONTROL"

    def __init__(self, path: Path) -> None:
        self.environment = {self._VARIABLE: str(path)}
        with path.open("a+b") as file:
            size = self._LAYOUT.size + self._KILLED.size
            file.truncate(max(file.seek(0, os.SEEK_END), size))
            self._block = mmap.mmap(file.fileno(), size)
        self._block[:] = bytes(size)

    def arm(self, n: int, *, error: int = 0, lasting: bool = False) -> None:
        """Arm the other process like :func:`arm_syscalls`; 0 disarms it."""
        # The number comes last, because the other process acts as soon as it is set.
        self._LAYOUT.pack_into(self._block, 0, 0, 0, error, lasting, b"")
        struct.pack_into("q", self._block, 0, n)

    @property
    def counted(self) -> int:
        """The number of write-like system calls since ``arm``."""
        return int(self._LAYOUT.unpack_from(self._block)[1])

    @property
    def told(self) -> str:
        """The call at which the shim acted first since ``arm``; empty if there is none yet."""
        return self.told_call(bytes(self._block))

    def has_killed(self) -> bool:
        """Whether the other process dies, or has died, at a call that it was armed for.

        A thread in the background may make that call just before the process is disarmed.
        """
        (killed,) = self._KILLED.unpack_from(self._block, self._LAYOUT.size)
        return bool(killed)

    @classmethod
    def told_call(cls, block: bytes) -> str:
        """The call in a control block, as the shim has written it down."""
        told: bytes = cls._LAYOUT.unpack_from(block)[4]
        return told.partition(b"\0")[0].decode("utf-8", "replace")
