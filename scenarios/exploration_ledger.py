"""The runs of an exploration, kept as they end: a line each, and nothing is lost with a process."""

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

FORMAT = 1
"""The version of the file. An exploration never continues in a file of another version."""


class Ledger:
    """The file in which an exploration keeps its runs; what is there is gone on with.

    The first line says what is explored, each other one what came of a run, in the order of the
    seeds. A last line that was torn, because the process was killed, is dropped.

    Args:
        directory: where the file is; it is made if it is not there.
        what: all that decides what the run of a seed is, as plain data.

    Attributes:
        path: the file.
        runs: what was in it.
        torn: whether a torn line was dropped.

    Raises:
        UsageError: the directory cannot be written, or something else is explored in it.
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
        """Take in what is there; how many bytes of it are whole lines."""
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
                f"{self.path} has the runs of another exploration: {lines[0].decode().strip()}, "
                f"and not {header.decode().strip()}. Choose another directory with --out."
            )
        for number, line in enumerate(lines[1:], start=2):
            try:
                self.runs.append(msgspec.json.decode(line, type=Explored))
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise UsageError(
                    f"{self.path}, line {number}: this is no run: {error}. Nothing was changed: "
                    "choose another directory with --out."
                ) from error
        return whole

    def add(self, run: Explored) -> None:
        """Keep a run: it is in the file when this returns, also if the process is killed then."""
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
        # A loss of power may take lines that were written, and nothing that is before them.
        os.fsync(self._file.fileno())
        self._file.close()


def _world_version(header: bytes) -> int:
    """The version of the simulated world that a file was written with; 0 if it names none."""
    try:
        version = msgspec.json.decode(header)["world"]
    except (msgspec.MsgspecError, UnicodeDecodeError, LookupError, TypeError):
        return 0
    return version if isinstance(version, int) else 0
