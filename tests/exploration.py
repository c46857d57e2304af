"""Explore the swarm, without a defect or with each of them in turn.

Run by ``nox -s exploration -- seeds FROM TO`` or ``nox -s exploration -- defects TO [NAME ...]``.
The first must find nothing, and reach every mark; the second must find each defect.
"""

from __future__ import annotations

import os
import sys
from collections import Counter

from rich.console import Console
from rich.progress import track
from rich.table import Table

from streamproof.sim.defects import DEFECTS
from streamproof.sim.exploration import Explored, explore
from streamproof.sim.marks import MARKS

CONSOLE = Console(width=120)
JOBS = os.cpu_count() or 1


def clean(first: int, last: int) -> bool:
    """Explore without a defect; whether nothing was found, and every mark reached."""
    marks: Counter[str] = Counter(dict.fromkeys(MARKS, 0))
    runs: Counter[str] = Counter()
    events, bad = 0, 0
    seeds = range(first, last)
    for each in track(explore(seeds, jobs=JOBS), total=len(seeds), console=CONSOLE):
        # In how many runs a situation came about says more than how often.
        marks.update(mark for mark, count in each.marks.items() if count)
        runs[each.topology] += 1
        events += each.events
        if each.violations or each.problem:
            bad += 1
            CONSOLE.print(f"seed {each.seed} ({each.topology}): {_what(each)}")
    table = Table("mark", "runs", box=None)
    for mark, count in sorted(marks.items()):
        table.add_row(mark, f"{count:,}")
    CONSOLE.print(table)
    CONSOLE.print(f"{len(seeds):,} seeds, {events:,} events, {bad} of them with a violation")
    CONSOLE.print(", ".join(f"{name}: {count}" for name, count in sorted(runs.items())))
    return not bad and all(marks.values())


def _what(each: Explored) -> str:
    return each.problem or " ".join(each.violations[0])


def defects(most: int, names: list[str]) -> bool:
    """Explore with each defect until it is found; whether all were."""
    table = Table(
        "defect", "requirement", "found at seed", "other promises broken on the way", box=None
    )
    missed = 0
    for name in track(names or sorted(DEFECTS), console=CONSOLE):
        wanted, others = DEFECTS[name].requirement, Counter[str]()
        found = "never"
        for each in explore(range(most), defect=name, jobs=1):
            requirements = {requirement for requirement, _ in each.violations}
            others.update(sorted(requirements - {wanted}))
            if wanted in requirements:
                found = str(each.seed)
                break
        missed += found == "never"
        table.add_row(name, wanted, found, ", ".join(sorted(others)))
    CONSOLE.print(table)
    return not missed


def main() -> None:
    """Exit with 1 if something was found that should not be, or the other way round."""
    what, number, *rest = sys.argv[1:]
    good = clean(int(number), int(rest[0])) if what == "seeds" else defects(int(number), rest)
    sys.exit(not good)


if __name__ == "__main__":
    main()
