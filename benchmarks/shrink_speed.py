"""How small failures become, and how long that takes, on one core.

Forty failures are taken from the defects of the runtime: the first seed that shows each defect,
from a few seeds. A failure is small enough if its world has at most 200 events, or at most ten
times the events that matter. Shrinking one failure may take a minute of processor time.

Run: ``python -P benchmarks/shrink_speed.py [FAILURES] [FIRST]``, for the number of failures, and
for the number of the first one among the forty.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from itertools import islice

from rich.console import Console
from rich.table import Table

from streamproof.scenarios.shrinking import Failing, shrink
from streamproof.sim.choices import Choices
from streamproof.sim.defects import DEFECTS
from streamproof.sim.plan_space import EVERYTHING, draw
from streamproof.sim.simulation import run

FAILURES = 40

MOST_SEEDS = 12
"""The seeds that are tried for one defect. Rarer defects are left out."""

SMALL_EVENTS, FACTOR = 200, 10
"""A failure is small with this many events, or with this many events for each one that matters."""

MOST_SECONDS = 60.0


def failures() -> Iterator[tuple[str, int, Failing]]:
    """Failures of different kinds: the defect, the number of events, and the failing run.

    Every second defect comes first, so that neighbours, which are alike, are far from each other.
    """
    names = list(DEFECTS)
    for name in (*names[::2], *names[1::2]):
        space = EVERYTHING.for_defect(name)
        for seed in range(MOST_SEEDS):
            choices = Choices.seeded(seed, recording=True)
            plan = draw(choices, space)
            drawn = choices.count
            outcome = run(choices, plan, defects=[name])
            if outcome.violations:
                failing = Failing(f"seed {seed}", plan, choices.drawn[drawn:], (name,))
                yield name, outcome.events, failing
                break


def main(count: int, first: int) -> None:
    """Print a table of what was measured, and end with 1 if a failure stays too large or slow."""
    table = Table("defect", "seed", "before", "after", "matter", "runs", "seconds", "", box=None)
    missed = 0
    for name, events, failing in islice(failures(), first, min(first + count, FAILURES)):
        started = time.process_time()
        shrunk = shrink(failing)
        seconds = time.process_time() - started
        after, matters = len(shrunk.played.events), len(shrunk.matters)
        is_small = after <= max(SMALL_EVENTS, FACTOR * matters)
        is_met = is_small and seconds <= MOST_SECONDS
        missed += not is_met
        words = (failing.name.removeprefix("seed "), f"{events:,}", f"{after:,}", f"{matters}")
        told = "" if is_met else "too large" if not is_small else "too slow"
        table.add_row(name, *words, f"{shrunk.runs:,}", f"{seconds:.1f}", told)
        print(name, *words, shrunk.runs, f"{seconds:.1f}", told, file=sys.stderr, flush=True)
    Console().print(table)
    sys.exit(missed > 0)


if __name__ == "__main__":
    main(*(int(each) for each in (*sys.argv[1:], *("40", "0")[len(sys.argv) - 1 :])))
