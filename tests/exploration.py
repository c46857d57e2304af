"""Explore the swarm, without a defect or with each of them in turn.

Run by ``nox -s exploration -- seeds FROM TO`` or ``nox -s exploration -- defects TO [NAME ...]``.
The first must find nothing, and reach every situation at least once in a thousand worlds; the
second must find each defect, each time that it searches, with at most TO seeds. With ``--out``, the
first keeps its runs, and the same command goes on after them. Two such files of the same seeds are
equal byte by byte, whatever the processes, as each line has the digest of a run.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.progress import track
from rich.table import Table

from streamproof.runs.exploration import ExploreRequest, new_runs, open_exploration
from streamproof.sim.defects import DEFECTS
from streamproof.sim.exploration import Explored, Searched, search
from streamproof.sim.situations import GOALS, situations_of

CONSOLE = Console(width=120)
JOBS = os.cpu_count() or 1

SEARCHES = 5
"""How often each defect is searched for, so that there is a median."""

APART = 1_000_000
"""The distance of the first seeds of two searches."""

OFTEN = 1_000
"""In so many worlds, each situation must be reached once."""


def clean(first: int, last: int, jobs: int, out: Path) -> bool:
    """Explore without a defect; whether nothing was found, and every situation reached."""
    request = ExploreRequest(seed=first, runs=last - first, jobs=jobs, keep_going=True, out=out)
    worlds, ledger = open_exploration(request)
    with ledger:
        for each in ledger.runs:
            _print_broken(each)
        before = len(ledger.runs)
        new = new_runs(ledger, worlds, request)
        for each in track(new, completed=before, total=request.runs, console=CONSOLE):
            _print_broken(each)
    lacking = _print_situations(ledger.runs)
    _print_guarantees(ledger.runs)
    return not lacking and not any(map(_broken, ledger.runs))


def _broken(each: Explored) -> str:
    """What a run has broken; empty if nothing."""
    return each.problem or (" ".join(each.violations[0]) if each.violations else "")


def _print_broken(each: Explored) -> None:
    if broken := _broken(each):
        goal = f", drawn for {each.goal}" if each.goal else ""
        CONSOLE.print(f"seed {each.seed} ({each.topology}, {_guarantee(each)}{goal}): {broken}")


def _print_situations(runs: list[Explored]) -> list[str]:
    """Print in how many runs each situation came about; return those that are too rare."""
    # In how many runs a situation came about says more than how often.
    counts = Counter(dict.fromkeys([*situations_of([]), *GOALS], 0))
    for each in runs:
        counts.update(each.reached)
    least = max(1, len(runs) // OFTEN)
    table = Table("situation", "worlds", box=None)
    for name, count in sorted(counts.items(), key=lambda item: (item[1], item[0])):
        table.add_row(name, f"{count:,}" + (f", fewer than {least}" if count < least else ""))
    CONSOLE.print(table)
    return [name for name, count in counts.items() if count < least]


def _print_guarantees(runs: Iterable[Explored]) -> None:
    """Print how many worlds of each guarantee were clean."""
    worlds, clean, events = Counter[str](), Counter[str](), 0
    for each in runs:
        guarantee = _guarantee(each)
        worlds[guarantee] += 1
        clean[guarantee] += not _broken(each)
        events += each.events
    for guarantee, count in sorted(worlds.items()):
        CONSOLE.print(f"{guarantee}: {clean[guarantee]:,} of {count:,} worlds are clean")
    CONSOLE.print(f"{events:,} events")


def _guarantee(each: Explored) -> str:
    """The guarantee of a run; a run that broke down has told none."""
    if each.problem:
        return "not known"
    return "exactly-once" if each.exactly_once else "at-least-once"


def defects(most: int, names: list[str], jobs: int) -> bool:
    """Search for each defect several times, with seeds of its own; whether it was always found."""
    names = names or sorted(DEFECTS)
    searches = [(name, start) for name in names for start in range(0, SEARCHES * APART, APART)]
    table = Table("defect", "requirement", "median", "seeds", "other promises", box=None)
    done: dict[str, list[Searched]] = {name: [] for name in names}
    missed = 0
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        running = [pool.submit(search, name, start, most) for name, start in searches]
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
    options = _options()
    if options.what == "defects":
        good = defects(options.last, options.names, options.jobs)
    elif options.out:
        good = clean(options.first, options.last, options.jobs, options.out)
    else:
        with TemporaryDirectory() as out:
            good = clean(options.first, options.last, options.jobs, Path(out))
    sys.exit(not good)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    several = argparse.ArgumentParser(add_help=False)
    several.add_argument("--jobs", type=int, default=JOBS, help="how many processes run worlds")
    parts = parser.add_subparsers(dest="what", required=True)
    seeds = parts.add_parser("seeds", parents=[several], help="explore without a defect")
    seeds.add_argument("first", type=int, metavar="FROM", help="the first seed")
    seeds.add_argument("last", type=int, metavar="TO", help="the seed after the last one")
    seeds.add_argument("--out", type=Path, help="where to keep the runs, and to go on")
    each = parts.add_parser("defects", parents=[several], help="search for each defect")
    each.add_argument("last", type=int, metavar="TO", help="the most seeds of a search")
    each.add_argument("names", nargs="*", metavar="NAME", help="the defects; all by default")
    options = parser.parse_args()
    if unknown := set(getattr(options, "names", ())) - DEFECTS.keys():
        parser.error(f"there is no defect {', '.join(sorted(unknown))}")
    return options


if __name__ == "__main__":
    main()
