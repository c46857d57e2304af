"""Worlds and scenarios with somebody's store in them: each in a process of its own.

Both sides of that process are here: :func:`isolated` starts it, and :func:`main` is what it runs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path
from threading import Thread

import msgspec
from msgspec import Struct

from streamproof.reports.pipeline.campaigns.chunk_files import RowRecords
from streamproof.reports.pipeline.campaigns.own_process import last_line, run_alone, too_long
from streamproof.reports.pipeline.campaigns.row import perform
from streamproof.reports.pipeline.campaigns.row_records import failed_to_run
from streamproof.reports.pipeline.campaigns.units import Unit
from streamproof.search_path import search_directory

__all__ = ["COMMAND", "FOUND", "RowOrder", "isolated", "main"]

COMMAND = (sys.executable, "-P", "-m", __name__)
"""The command that starts the process of a row."""

FOUND = "found.json"
"""The file in the scratch directory with the records of a row."""


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
    """Run a world or a scenario in a process of its own.

    Args:
        unit: the row.
        directory: of the campaign.
        scratch: an empty directory, for files.
    """
    limit_s = unit.conditions.limit_s
    order = RowOrder(unit=unit, directory=str(directory), scratch=str(scratch))
    code = run_alone(COMMAND, scratch, limit_s, msgspec.json.encode(order) + b"\n")
    if code is None:
        return failed_to_run(unit, directory, too_long(limit_s))
    with contextlib.suppress(FileNotFoundError):
        return msgspec.json.decode((scratch / FOUND).read_bytes(), type=RowRecords)
    how = f"died of {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
    last = last_line(scratch)
    told = f" ({last})" if last else ""
    return failed_to_run(unit, directory, f"its process {how}, without an answer{told}")


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
