"""The file of an exploration: one line for each run, written when the run ends.

A killed exploration therefore loses no finished run, and can continue.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from streamproof.errors import UsageError
from streamproof.sim.exploration import Explored
from streamproof.sim.world_plan import WORLD_VERSION, require_world_version

__all__ = ["LEDGER", "Ledger"]

LEDGER = "explored.ndjson"
"""The name of the file in the directory of an exploration."""

FORMAT = 2
"""The version of the file. An exploration never continues in a file of another version."""


class Ledger:
    """The file in which an exploration keeps its runs. An existing file is continued.

    The first line describes the exploration. Each further line is the result of one run, in the
    order of the seeds. A killed process may leave a torn last line, which is dropped.

    Args:
        directory: the directory of the file; it is created if necessary.
        what: everything that determines the run of a seed, as plain data.

    Attributes:
        path: the file.
        runs: the runs in the file.
        torn: whether a torn line was dropped.

    Raises:
        UsageError: the directory cannot be written, or holds another exploration.
    """

    def __init__(self, directory: Path, what: dict[str, Any]) -> None:
        self.path = directory / LEDGER
        self.runs: list[Explored] = []
        self.torn = False
        table = {"format": FORMAT, "world": WORLD_VERSION, **what}
        header = msgspec.json.encode(table, order="deterministic") + b"\n"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            text = self.path.read_bytes() if self.path.exists() else b""
            whole = self._read(text, header)
            self._file = self.path.open("r+b" if text else "wb")
            self._file.truncate(whole)
            self._file.seek(whole)
        except OSError as error:
            raise UsageError(
                f"The output directory {str(directory)!r} cannot be written: {error.strerror}. "
                "Choose another one with --out."
            ) from error
        if not whole:
            self._write(header)

    def _read(self, text: bytes, header: bytes) -> int:
        """Read the runs in the file; return the number of bytes in whole lines."""
        whole = text.rfind(b"\n") + 1
        self.torn = whole < len(text)
        lines = text[:whole].splitlines(keepends=True)
        if lines and lines[0] != header:
            require_world_version(
                _world_version(lines[0]),
                str(self.path),
                "Explore anew, in another directory with --out.",
            )
            raise UsageError(
                f"{self.path} holds the runs of another exploration: {lines[0].decode().strip()}, "
                f"not {header.decode().strip()}. Choose another directory with --out."
            )
        for number, line in enumerate(lines[1:], start=2):
            try:
                self.runs.append(msgspec.json.decode(line, type=Explored))
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise UsageError(
                    f"{self.path}, line {number}: this is no run: {error}. The file is unchanged; "
                    "choose another directory with --out."
                ) from error
        return whole

    def add(self, run: Explored) -> None:
        """Keep a run. Once this returns, a kill of the process cannot lose the run."""
        self.runs.append(run)
        self._write(msgspec.json.encode(run) + b"\n")

    def _write(self, line: bytes) -> None:
        self._file.write(line)
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        # One sync at the end is enough: a loss of power before it costs only the last lines,
        # whose seeds then run again.
        os.fsync(self._file.fileno())
        self._file.close()


def _world_version(header: bytes) -> int:
    """The version of the simulated world in the header of a file; 0 if the header has none."""
    try:
        version = msgspec.json.decode(header)["world"]
    except (msgspec.MsgspecError, UnicodeDecodeError, LookupError, TypeError):
        return 0
    return version if isinstance(version, int) else 0
