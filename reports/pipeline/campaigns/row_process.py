"""A row in a process of its own, which may hang, die or fork without harm to its worker.

Both sides of that process are here: :func:`isolated` starts it, and :func:`main` is what it runs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import IO, cast

import msgspec
from msgspec import Struct

from streamproof.errors import UsageError
from streamproof.reports.pipeline.campaigns.chunk_files import RowRecords
from streamproof.reports.pipeline.campaigns.row_records import recorded
from streamproof.reports.pipeline.campaigns.units import Unit
from streamproof.reports.pipeline.campaigns.verify_row import records_of_log
from streamproof.reports.pipeline.campaigns.world_row import perform
from streamproof.search_path import search_directory

__all__ = ["COMMAND", "FOUND", "RowOrder", "isolated", "main", "too_long"]

COMMAND = (sys.executable, "-P", "-m", __name__)
"""The command that starts the process of a row."""

FOUND = "found.json"
"""The file in the scratch directory with the records of a row."""

STDERR = "stderr.log"
"""The file in the scratch directory with the standard error of a process."""

TAIL_BYTES = 4096
"""How much of the end of that file is read: a process may have written gigabytes."""


class RowOrder(Struct, frozen=True, kw_only=True):
    """What the process of a row reads, as a line of JSON on its standard input.

    The process ends when its input ends, so that it does not outlive the worker.

    Attributes:
        unit: the row.
        directory: of the campaign.
        scratch: an empty directory; ``found.json`` is there in the end.
    """

    unit: Unit
    directory: str
    scratch: str


def isolated(unit: Unit, directory: Path, scratch: Path) -> RowRecords:
    """Run a row in a process of its own.

    Args:
        unit: the row.
        directory: of the campaign.
        scratch: an empty directory, for files.
    """
    return recorded(unit, directory, lambda: _answer(unit, directory, scratch))


def _answer(unit: Unit, directory: Path, scratch: Path) -> RowRecords:
    """The records that the process of a row leaves.

    Raises:
        UsageError: the process took too long, or died and left nothing.
    """
    limit_s = unit.conditions.limit_s
    order = RowOrder(unit=unit, directory=str(directory), scratch=str(scratch))
    code = _run(order, limit_s)
    if code is None:
        raise UsageError(too_long(limit_s))
    with contextlib.suppress(FileNotFoundError):
        return msgspec.json.decode((scratch / FOUND).read_bytes(), type=RowRecords)
    how = f"died of {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
    last = _last_line(scratch)
    problem = f"its process {how}, without an answer{f' ({last})' if last else ''}"
    if unit.kind == "verify":
        return records_of_log(unit, scratch, problem)
    raise UsageError(problem)


def _run(order: RowOrder, limit_s: float) -> int | None:
    """Run the process of a row in a session of its own, and end the session with the process.

    Args:
        order: the row.
        limit_s: when to end a process that has not ended, in seconds.

    Returns:
        The exit code, or the negative number of the signal that ended the process. ``None`` if
        the process took too long.
    """
    with Path(order.scratch, STDERR).open("wb") as log:
        process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=log,
            # All processes that the row starts can be ended with it.
            start_new_session=True,
        )
    # The input stays open until the process has ended, because the process ends with its input.
    stdin = cast(IO[bytes], process.stdin)
    try:
        with contextlib.suppress(BrokenPipeError):
            stdin.write(msgspec.json.encode(order) + b"\n")
            stdin.flush()
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        with contextlib.suppress(BrokenPipeError):
            stdin.close()


def _last_line(scratch: Path) -> str:
    """The last line that a process has written to its standard error; empty if there is none."""
    with (scratch / STDERR).open("rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - TAIL_BYTES))
        lines = log.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:300] if lines else ""


def too_long(limit_s: float) -> str:
    """The problem of a row that took longer than its plan allows."""
    return f"it took longer than {limit_s:g} s, and was ended; see limit_s in the plan"


def main() -> None:
    """Run the row that the standard input names, and write its records."""
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=RowOrder)
    Thread(target=_end_with_input, daemon=True).start()
    search_directory()
    scratch = Path(order.scratch)
    found = perform(order.unit, Path(order.directory), scratch)
    # A store may fork: then both processes come here, and either answer is whole.
    unfinished = scratch / f"{FOUND}-{os.getpid()}"
    unfinished.write_bytes(msgspec.json.encode(found))
    unfinished.rename(scratch / FOUND)


def _end_with_input() -> None:
    """Wait for the end of the input, which comes with that of the worker; then end the session."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
