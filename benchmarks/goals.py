"""Each figure of speed that the project has a goal for, beside its goal and where it began.

A row has what was measured, the goal, the figure at the beginning, and the last entry of
``history.jsonl``. What became more than 15 % slower than that entry is named at the end, and the
exit code is 2. Ratios are compared as they are told. Seconds are compared relative to the speed of
the machine: the seconds in which it makes 10 million additions, before and after. The goals
themselves are for two idle cores. Every figure is measured in a process of its own. ``--keep`` adds
an entry to the history for each figure, or for those that are measured together.

Run: ``python benchmarks/goals.py [--keep] [WORD ...]``; with words, only the figures whose names
have one of them are measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
HISTORY = Path(__file__).with_name("history.jsonl")
COMMAND = str(Path(sys.executable).with_name("streamproof"))

KAFKA = "kafka:rocksdb"
"""The store on the JVM that is measured beside our own on RocksDB."""

ADDITIONS = 10_000_000

SLOWER = 1.15
"""What takes this much more than in the last entry is named."""

Measured = dict[str, float]
"""Values by the name of the figure."""


class Figure(NamedTuple):
    """A figure with a goal.

    Attributes:
        unit: ``s``, ``/s``, ``x`` for a ratio, or ``MB``.
        goal: what it should be on two idle cores.
        began: what it was when the goal was set; ``None`` if nobody had measured it.
        more_is_better: whether a greater value is the better one.
    """

    unit: str
    goal: float
    began: float | None
    more_is_better: bool = False


FIGURES = {
    "verify SQLite, smoke": Figure("s", 3, 6.6),
    "first failure of a wrong store": Figure("s", 1, 3),
    "verify RocksDB, smoke": Figure("s", 6, 17.5),
    "verify RocksDB, quick": Figure("s", 20, 43),
    f"verify {KAFKA}, smoke": Figure("s", 60, 1_200),
    f"verify {KAFKA}, smoke, to RocksDB": Figure("x", 4, None),
    f"verify {KAFKA}, quick": Figure("s", 300, None),
    f"verify {KAFKA}, quick, to RocksDB": Figure("x", 4, None),
    "crash points": Figure("/s", 300, None, more_is_better=True),
    "crash points, of the raw loop": Figure("x", 0.5, 0.12, more_is_better=True),
    "events of 10 tasks, of bare simpy": Figure("x", 0.15, 0.069, more_is_better=True),
    "events of 1,000 tasks, of bare simpy": Figure("x", 0.12, 0.04, more_is_better=True),
    "worlds of two processes": Figure("/s", 52, 26, more_is_better=True),
    "window scan, to a raw scan": Figure("x", 2.5, 5.7),
    "report on two logs": Figure("s", 12, 30),
    "tables of 10,000 logs": Figure("s", 60, 64),
    "events judged again": Figure("/s", 200_000, 67_000, more_is_better=True),
    "events judged again, of the pure judge": Figure("x", 0.85, None, more_is_better=True),
    "installation of the core": Figure("MB", 60, 257),
}

ELSEWHERE = {
    "README's test command": ("8 min", "19 min"),
    ".ci/run": ("30 min", "25 min"),
}
"""Goals that only a whole run shows, with where they began; `.ci/run` prints its own times."""


def additions_s() -> float:
    """Seconds in which this machine makes 10 million additions, the best of three times."""
    best = float("inf")
    for _ in range(3):
        started = time.perf_counter()
        total = 0
        for _ in range(ADDITIONS):
            total += 1  # noqa: SIM113 - the additions are what is measured.
        best = min(best, time.perf_counter() - started)
    return best


def command_s(*words: str) -> float:
    """Seconds that a command of ours takes; it must not fail by itself."""
    started = time.perf_counter()
    done = subprocess.run([COMMAND, *words], stdout=subprocess.DEVNULL, check=False)
    assert done.returncode in {0, 1, 2}, words
    return time.perf_counter() - started


def verify_s(subject: str, profile: str, out: Path) -> float:
    """Seconds that a verification takes."""
    options = ("--profile", profile, "--seed", "1", "--no-bank", "--out", str(out))
    return command_s("verify", subject, *options)


def sqlite() -> Measured:
    """A run on a right store, and the time until a wrong one is told to be wrong."""
    with TemporaryDirectory() as out:
        seconds = verify_s(f"{ROOT}/examples/sqlite_store.py:make", "smoke", Path(out))
        wrong = f"{ROOT}/examples/sqlite_side_file.py:make"
        command = [COMMAND, "verify", wrong, "--profile", "smoke", "--seed", "1", "--no-bank"]
        started = time.perf_counter()
        with subprocess.Popen([*command, "--out", out], stdout=subprocess.PIPE, text=True) as run:
            assert run.stdout is not None
            next(line for line in run.stdout if line.startswith(("?", "✗")))
            told = time.perf_counter() - started
            run.stdout.read()
    return {"verify SQLite, smoke": seconds, "first failure of a wrong store": told}


def rocksdb() -> Measured:
    """Whole runs on our RocksDB store, and on Kafka's, which needs Java and Maven."""
    found = Measured()
    with TemporaryDirectory() as name:
        out = Path(name)
        # The first use of a release compiles the host, which is no time of a run.
        command_s("verify", KAFKA, "--profile", "smoke", "--only", "LIFE-001", "--out", name)
        for profile in ("smoke", "quick"):
            ours, theirs = (verify_s(each, profile, out) for each in ("rocksdb", KAFKA))
            found |= {
                f"verify RocksDB, {profile}": ours,
                f"verify {KAFKA}, {profile}": theirs,
                f"verify {KAFKA}, {profile}, to RocksDB": theirs / ours,
            }
    return found


def crash_points() -> Measured:
    """Derived crash points of our RocksDB store, on all cores."""
    from crash_speed import crash_rate, derived_until, raw_rate

    from streamproof.conformance.work_directory import work_directory

    with work_directory() as directory:
        raw = raw_rate(directory)
        derived = crash_rate("rocksdb", derived_until, directory)
    return {"crash points": derived, "crash points, of the raw loop": derived / raw}


def simulator() -> Measured:
    """Events a second, of what a bare loop of simpy makes."""
    from sim_speed import bare, busy

    loop = bare()
    return {
        "events of 10 tasks, of bare simpy": busy(10, 3_000)[0] / loop,
        "events of 1,000 tasks, of bare simpy": busy(1_000, 30_000)[0] / loop,
    }


def worlds() -> Measured:
    """Worlds a second, of two processes."""
    from campaign_speed import by_hand

    seeds = 600
    return {"worlds of two processes": seeds / by_hand(seeds)}


def windows() -> Measured:
    """A scan of windows, to a scan of raw rocksdict."""
    from store_speed import LINES, ratio_of

    (line,) = (each for each in LINES if each.what == "window scan")
    with TemporaryDirectory() as directory:
        return {"window scan, to a raw scan": ratio_of(line, Path(directory))}


def report() -> Measured:
    """A report on the logs of two runs, the start of Spark included."""
    with TemporaryDirectory() as name:
        for seed in ("1", "2"):
            out = f"{name}/runs/{seed}"
            command_s("verify", "in-memory", "--profile", "smoke", "--seed", seed, "--out", out)
        return {"report on two logs": command_s("report", f"{name}/runs", "--out", f"{name}/site")}


def tables() -> Measured:
    """All tables of 10,000 logs with a million results."""
    from tables_speed import all_tables_s

    return {"tables of 10,000 logs": all_tables_s(10_000, 100, "local[2]")}


def rechecking() -> Measured:
    """Events a second and core, and what Spark leaves of the pure judge's speed."""
    from recheck_speed import measured

    rates = measured()
    judged = rates["judged, where files are read"]
    return {
        "events judged again": judged,
        "events judged again, of the pure judge": judged / rates["judged, without Spark"],
    }


def installation() -> Measured:
    """The size of the package with all that it needs, in an environment of its own."""
    with TemporaryDirectory() as name:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", name, str(ROOT)]
        subprocess.run(pip, check=True)
        size = sum(each.stat().st_size for each in Path(name).rglob("*") if each.is_file())
    return {"installation of the core": size / 1e6}


MEASURES: dict[Callable[[], Measured], tuple[str, ...]] = {
    sqlite: ("verify SQLite, smoke", "first failure of a wrong store"),
    crash_points: ("crash points", "crash points, of the raw loop"),
    simulator: ("events of 10 tasks, of bare simpy", "events of 1,000 tasks, of bare simpy"),
    worlds: ("worlds of two processes",),
    windows: ("window scan, to a raw scan",),
    report: ("report on two logs",),
    rechecking: ("events judged again", "events judged again, of the pure judge"),
    installation: ("installation of the core",),
    tables: ("tables of 10,000 logs",),
    rocksdb: tuple(name for name in FIGURES if "RocksDB" in name or KAFKA in name),
}
"""What measures each figure, the quickest first."""


def measured_apart(measure: Callable[[], Measured]) -> Measured:
    """Measure in a process of its own; that of crash points has the recorder of system calls."""
    with TemporaryDirectory() as libraries:
        if measure is crash_points:
            from streamproof.stores.syscalls.preloaded_libraries import preload

            os.environ["LD_PRELOAD"] = preload(Path(libraries))
        try:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                return pool.submit(measure).result()
        finally:
            os.environ.pop("LD_PRELOAD", None)


def last_entry() -> Measured:
    """The newest value of each figure in the history, and the additions of that machine."""
    found: Measured = {}
    lines = HISTORY.read_text("utf-8").splitlines() if HISTORY.is_file() else []
    for entry in map(json.loads, lines):
        found |= {
            name: to_unit(name, value, entry["additions_s"])
            for name, value in entry["figures"].items()
        }
    return found


def to_unit(name: str, value: float, additions: float) -> float:
    """A figure that does not depend on the speed of the machine."""
    return {"s": value / additions, "/s": value * additions}.get(FIGURES[name].unit, value)


def change(name: str, value: float, before: float) -> float:
    """How many times as slow, or as large, a figure is as it was."""
    return before / value if FIGURES[name].more_is_better else value / before


def shown(name: str, value: float) -> str:
    """A value with its unit."""
    unit = FIGURES[name].unit
    return f"{value:,.0f}{unit}" if unit == "/s" else f"{value:.3g} {unit}"


def main() -> None:
    """Measure, print the table, and name what became slower; then the exit code is 2."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="add entries to the history")
    parser.add_argument("words", nargs="*", metavar="WORD")
    asked = parser.parse_args()
    before, found, speeds = last_entry(), Measured(), Measured()
    for measure, names in MEASURES.items():
        if not asked.words or any(word in name for word in asked.words for name in names):
            # Other machines on the same host may take processor time away, and for minutes.
            at_first = additions_s()
            values = measured_apart(measure)
            additions = (at_first + additions_s()) / 2
            found |= values
            speeds |= dict.fromkeys(values, additions)
            if asked.keep:
                keep(additions, values)
    table = Table("figure", "measured", "goal", "began at", "against the last entry", box=None)
    slower = []
    for name, value in found.items():
        figure, told = FIGURES[name], ""
        if name in before:
            ratio = change(name, to_unit(name, value, speeds[name]), before[name])
            told = f"{ratio:.2f} times as slow" if figure.unit != "MB" else f"{ratio:.2f}"
            slower += [name] if ratio > SLOWER else []
        goal = shown(name, figure.goal)
        began = "–" if figure.began is None else shown(name, figure.began)
        met = value >= figure.goal if figure.more_is_better else value <= figure.goal
        table.add_row(name, f"{shown(name, value)}{' ✓' if met else ''}", goal, began, told)
    for name, (goal, began) in ELSEWHERE.items():
        table.add_row(name, "not measured here", goal, began)
    console = Console()
    console.print(table)
    if speeds:
        least, most = min(speeds.values()), max(speeds.values())
        console.print(f"10 million additions took {least:.2f} to {most:.2f} s.")
    for name in slower:
        console.print(f"Slower by more than 15 %: {name}")
    sys.exit(2 if slower else 0)


def keep(additions: float, found: Measured) -> None:
    """Add an entry to the history."""
    entry = {
        "date": datetime.now(UTC).date().isoformat(),
        "additions_s": round(additions, 3),
        "figures": {name: float(f"{value:.4g}") for name, value in found.items()},
    }
    with HISTORY.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
