"""Rows that run other people's code, or kill workers: each in a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from streamproof.reports.pipeline.campaigns.chunk_files import Found
from streamproof.reports.pipeline.campaigns.row import failed_to_run
from streamproof.reports.pipeline.campaigns.units import Unit

__all__ = ["FOUND", "Order", "isolated"]

FOUND = "found.json"
"""The file in the scratch directory that says what a row came to."""

STDERR = "stderr.log"

TAIL_BYTES = 4096
"""So much of the end of what it has said is looked at: it may have said gigabytes."""


class Order(Struct, frozen=True, kw_only=True):
    """What such a process is told, as a line of JSON on its standard input.

    It ends when its input does, so that it does not outlive who has started it.

    Attributes:
        unit: the row.
        directory: of the campaign.
        scratch: an empty directory; ``found.json`` is there in the end.
    """

    unit: Unit
    directory: str
    scratch: str


def isolated(unit: Unit, directory: Path, scratch: Path) -> Found:
    """Do what a row asks for in a process of its own.

    Args:
        unit: the row.
        directory: of the campaign.
        scratch: an empty directory, for files.
    """
    limit_s = unit.conditions.limit_s
    order = Order(unit=unit, directory=str(directory), scratch=str(scratch))
    with (scratch / STDERR).open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "streamproof.reports.pipeline.campaigns.row_main"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=log,
            # All that it starts can be ended with it.
            start_new_session=True,
        )
        try:
            if process.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.write(msgspec.json.encode(order) + b"\n")
                    process.stdin.flush()
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            problem = f"it took longer than {limit_s:g} s, and was ended; see limit_s in the plan"
            return failed_to_run(unit, directory, problem)
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if process.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.close()
    return _found(unit, directory, scratch, process.returncode)


def _found(unit: Unit, directory: Path, scratch: Path, code: int) -> Found:
    """What the process has written before it ended."""
    with contextlib.suppress(FileNotFoundError):
        return msgspec.json.decode((scratch / FOUND).read_bytes(), type=Found)
    how = f"died of {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
    with (scratch / STDERR).open("rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - TAIL_BYTES))
        lines = log.read().decode("utf-8", "replace").strip().splitlines()
    last = f" ({lines[-1][:300]})" if lines else ""
    return failed_to_run(unit, directory, f"its process {how}, without an answer{last}")
