"""The process of one row of a campaign, which may die with it: `python -m` starts it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from threading import Thread

import msgspec

from streamproof.conformance.simulated.hosted_play import Wanted, play_with
from streamproof.conformance.simulated.hosted_worlds import Hosted
from streamproof.conformance.subject import load_subject
from streamproof.reports.pipeline.campaigns.row import Doer, perform
from streamproof.reports.pipeline.campaigns.row_process import FOUND, Order
from streamproof.reports.pipeline.campaigns.units import Unit
from streamproof.search_path import search_directory

__all__ = ["main"]


def main() -> None:
    """Do what the line on the standard input says, and write what came of it."""
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=Order)
    Thread(target=_end_with_input, daemon=True).start()
    search_directory()
    scratch = Path(order.scratch)
    is_hosted = order.unit.kind != "verify" and order.unit.subject
    doer = _doer(order.unit, scratch) if is_hosted else None
    found = perform(order.unit, Path(order.directory), scratch, doer)
    # A store may fork: then both processes come here, and either answer is whole.
    unfinished = scratch / f"{FOUND}-{os.getpid()}"
    unfinished.write_bytes(msgspec.json.encode(found))
    unfinished.rename(scratch / FOUND)


def _doer(unit: Unit, scratch: Path) -> Doer:
    """How worlds are run with the store of a row; what a killed one leaves is in the scratch."""
    return Doer(
        narrowed=lambda space: space.for_store(load_subject(unit.subject).capabilities),
        simulate=Hosted(unit.subject, str(Path.cwd()), scratch),
        play=lambda scenario, setup: play_with(
            scenario, setup, Wanted(unit.subject, work_dir=scratch)
        ),
    )


def _end_with_input() -> None:
    """When whoever has started this process is gone, it ends, with all that it has started."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
