"""Worlds that a test needs are looked for, and not named by their seeds.

A change of the simulated world gives every seed another run. A test says what its world must show,
and the first seed that shows it is taken. ``found_seeds.json`` has the seeds that were found last,
only to save time: a seed that shows nothing any more is passed over. To renew the file, run the
tests with ``STREAMPROOF_UPDATE_GOLDENS=1``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

__all__ = ["seek"]

T = TypeVar("T")

_FILE = Path(__file__).parent / "found_seeds.json"


def seek(name: str, attempt: Callable[[int], T | None], *, most: int = 300) -> T:
    """What the first seed shows for which the attempt gives something.

    Args:
        name: of the world, among all tests.
        attempt: runs the world of a seed; ``None`` if it does not show what the test needs.
        most: so many seeds are tried.

    Raises:
        AssertionError: no seed shows it.
    """
    known: dict[str, int] = json.loads(_FILE.read_text("utf-8"))
    seeds = [known[name]] if name in known else []
    for seed in [*seeds, *range(most)]:
        found = attempt(seed)
        if found is not None:
            if os.environ.get("STREAMPROOF_UPDATE_GOLDENS") and known.get(name) != seed:
                known[name] = seed
                _FILE.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n", "utf-8")
            return found
    raise AssertionError(f"None of {most} seeds shows what {name!r} needs.")
