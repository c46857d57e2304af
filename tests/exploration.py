"""Explore the swarm, without a defect or with each of them in turn.

Run by ``nox -s exploration -- seeds FROM TO`` or ``nox -s exploration -- defects TO [NAME ...]``.
The first must find nothing, and reach every mark; the second must find each defect, each time that
it searches, with at most TO seeds.
"""

from __future__ import annotations

import math
import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from rich.console import Console
from rich.progress import track
from rich.table import Table

from streamproof.sim.coverage_marks import MARKS
from streamproof.sim.defects import DEFECTS
from streamproof.sim.exploration import Explored, Searched, explore, search

CONSOLE = Console(width=120)
JOBS = os.cpu_count() or 1

SEARCHES = 5
"""How often each defect is searched for, so that there is a median."""

APART = 1_000_000
"""The distance of the first seeds of two searches."""


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
    """Search for each defect several times, with seeds of its own; whether it was always found."""
    names = names or sorted(DEFECTS)
    jobs = [(name, start) for name in names for start in range(0, SEARCHES * APART, APART)]
    table = Table("defect", "requirement", "median", "seeds", "other promises", box=None)
    done: dict[str, list[Searched]] = {name: [] for name in names}
    missed = 0
    with ProcessPoolExecutor(JOBS, mp_context=get_context("spawn")) as pool:
        running = [pool.submit(search, name, start, most) for name, start in jobs]
        for each in track(as_completed(running), total=len(running), console=CONSOLE):
            found = each.result()
            done[found.defect].append(found)
            if len(done[found.defect]) == SEARCHES:
                missed += any(one.seeds is None for one in done[found.defect])
                _print_row(found.defect, done[found.defect])
    for name in names:
        table.add_row(*_row(name, done[name]))
    CONSOLE.print(table)
    return not missed


def _row(defect: str, searched: list[Searched]) -> list[str]:
    """A defect, and what it took to find it."""
    counts = sorted(math.inf if each.seeds is None else each.seeds for each in searched)
    shown = ["never" if count == math.inf else str(count) for count in counts]
    others = sum((each.others for each in searched), Counter[str]())
    told = ", ".join(f"{name} {count}" for name, count in sorted(others.items()))
    return [defect, DEFECTS[defect].requirement, shown[len(shown) // 2], " ".join(shown), told]


def _print_row(defect: str, searched: list[Searched]) -> None:
    """Tell it at once, as the rest may take hours."""
    CONSOLE.print("  ".join(_row(defect, searched)[:4]))


def main() -> None:
    """Exit with 1 if something was found that should not be, or the other way round."""
    what, number, *rest = sys.argv[1:]
    good = clean(int(number), int(rest[0])) if what == "seeds" else defects(int(number), rest)
    sys.exit(not good)


if __name__ == "__main__":
    main()
