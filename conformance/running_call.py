"""The call that a check is making right now, in memory that outlives the process.

The supervisor reads it to tell which call on the subject hangs, or killed the process. It also
reads which promise the check has first seen broken, long before the check ends: a check makes the
program of a failure as small as can be.
"""

from __future__ import annotations

import mmap
import struct
import time
from pathlib import Path
from typing import Self

__all__ = ["RunningCall"]

_CALL_BYTES = 512
_HEADER = struct.Struct("dH")
_NOTICED = struct.Struct("32s")
"""The requirement, behind the call."""


class RunningCall:
    """A small shared file with the running call on the subject, and the time of its start."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        if create:
            path.write_bytes(bytes(_CALL_BYTES + _NOTICED.size))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _CALL_BYTES + _NOTICED.size)

    def operation(self, call: str) -> Self:
        """Report ``call`` as the running call, until the block of a ``with`` statement ends.

        A check makes thousands of calls, and a generator for each would take as long as many calls.
        """
        text = call.encode("utf-8", "replace")[: _CALL_BYTES - _HEADER.size]
        self._memory[_HEADER.size : _HEADER.size + len(text)] = text
        _HEADER.pack_into(self._memory, 0, time.monotonic(), len(text))
        return self

    def __enter__(self) -> None:
        """Do nothing: the call is reported already."""

    def __exit__(self, *_: object) -> None:
        self.clear()

    def clear(self) -> None:
        """Report that no call on the subject is running."""
        _HEADER.pack_into(self._memory, 0, 0.0, 0)

    def current(self) -> tuple[str, float] | None:
        """The running call and its age in seconds; ``None`` if no call is running."""
        started, length = _HEADER.unpack_from(self._memory, 0)
        if not started:
            return None
        text = bytes(self._memory[_HEADER.size : _HEADER.size + length])
        return text.decode("utf-8", "replace"), time.monotonic() - started

    def notice(self, requirement: str) -> None:
        """Report a requirement that the check sees broken; a check does so once."""
        _NOTICED.pack_into(self._memory, _CALL_BYTES, requirement.encode())

    @property
    def noticed(self) -> str:
        """The requirement that the check saw broken first; empty as long as none is."""
        requirement: bytes = _NOTICED.unpack_from(self._memory, _CALL_BYTES)[0]
        return requirement.rstrip(b"\0").decode()

    def close(self) -> None:
        """Unmap the file."""
        self._memory.close()
