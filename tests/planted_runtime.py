"""Search for mistakes in the runtime whose authors had read no invariant: tests/planted has them.

Run by ``nox -s planted_runtime -- [--budget TIME] [--seed N] [mistake ...]``. Each mistake is a
patch in one of the files ``planted/*runtime_patches.py``, and is searched for by ``streamproof
explore`` until an invariant finds it, or until the time is over. A mistake that nothing finds is a
survivor: no invariant sees it, or too few worlds are such that it shows. Ctrl-C ends the search
with the table of the mistakes so far.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec
from rich.console import Console
from rich.table import Column, Table

from streamproof.exit_codes import ExitCode
from streamproof.scenarios.exploration_ledger import LEDGER
from streamproof.sim.exploration import Explored

PLANTED = Path(__file__).parent / "planted"

PATCHES = (PLANTED / "runtime_patches.py", PLANTED / "second_runtime_patches.py")


class PlantedPatch(NamedTuple):
    """A mistake: the file and the function, the seam that this function replaces, a summary."""

    file: Path
    function: str
    seam: str
    mistake: str


class Search(NamedTuple):
    """The search for one mistake: the worlds that were run, and what broke in the last one.

    Attributes:
        problem: the error with which a world has ended instead; empty if none has.
    """

    worlds: int
    requirements: list[str]
    invariant: str
    problem: str = ""


def planted() -> list[PlantedPatch]:
    """The mistakes of the files, in their order; functions that begin with ``_`` help them."""
    found = []
    for file in PATCHES:
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                seam, _, mistake = (ast.get_docstring(node) or "").partition(": ")
                found.append(PlantedPatch(file, node.name, seam, mistake))
    return found


def search(patch: PlantedPatch, budget: str, seed: str, out: Path) -> Search:
    """Explore worlds with one mistake until one breaks a promise, or until the time is over."""
    command = [sys.executable, "-P", "-m", "streamproof", "explore", "-j", "1"]
    command += ["--patch", f"{patch.file}:{patch.function}", "--seam", patch.seam]
    command += ["--budget", budget, "--seed", seed, "--shrink-runs", "0", "--out", str(out)]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    if done.returncode == ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if done.returncode not in (ExitCode.SUCCESS, ExitCode.FAILURE, ExitCode.SUITE_ERROR):
        sys.exit(f"The search for {patch.function} ended with exit code {done.returncode}.")
    _, *lines = (out / LEDGER).read_bytes().splitlines()
    runs = [msgspec.json.decode(line, type=Explored) for line in lines]
    broken = next((run for run in runs if run.violations), None)
    if broken is None:
        problem = next((run.problem for run in runs if run.problem), "")
        return Search(len(runs), [], "", problem)
    requirements = list(dict.fromkeys(requirement for requirement, _ in broken.violations))
    return Search(len(runs), requirements, broken.invariant)


def main() -> None:
    """Print a line for each mistake; exit with 1 if one of them survived."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", default="60s", help="the time for each mistake, such as 60s")
    parser.add_argument("--seed", default="0", help="the seed of the first world")
    parser.add_argument("mistakes", nargs="*", help="the functions to search for; all by default")
    options = parser.parse_args()
    unknown = set(options.mistakes) - {each.function for each in planted()}
    if unknown:
        parser.error(f"no file of mistakes has {', '.join(sorted(unknown))}")
    mistake = Column("mistake", no_wrap=True)
    table = Table(mistake, "worlds", "seconds", "broken", "by the invariant", box=None)
    survivors = []
    with TemporaryDirectory() as out, suppress(KeyboardInterrupt):
        for patch in planted():
            if options.mistakes and patch.function not in options.mistakes:
                continue
            Console(stderr=True).print(f"{patch.function}: {patch.mistake}", highlight=False)
            begun = time.monotonic()
            found = search(patch, options.budget, options.seed, Path(out) / patch.function)
            if not found.requirements:
                survivors.append(patch.function)
            seconds = f"{time.monotonic() - begun:.0f}"
            broken = ", ".join(found.requirements) or found.problem or "nothing"
            table.add_row(patch.function, str(found.worlds), seconds, broken, found.invariant)
    Console().print(table)
    Console().print(f"Survived: {', '.join(survivors) or 'none'}.")
    sys.exit(bool(survivors))


if __name__ == "__main__":
    main()
