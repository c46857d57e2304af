"""Run every program that the wrong stores of the kill matrix leave, with the store and a right one.

Run by ``nox -s saved_programs -- [NAME ...] [--profile P] [--seed N] [--all] [-j N]``. NAME is a
mutant; without one, all are run. A run of a mutant saves one program for each promise that the
checks of its requirement see broken, and for each shape of that; with ``--all``, of every check.
Each program must end with 1 with the mutant, and with 0 with a right store. A program that cannot
make sure of that says so in its first line, and is counted apart. Ctrl-C ends it with the counts of
the mutants that were done.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import NamedTuple, Self

from rich.console import Console
from rich.table import Table

from streamproof.conformance.catalogue import load_catalogue
from streamproof.conformance.kill_matrix import GroupRun, group_runs, select_mutants
from streamproof.conformance.mutants import MUTANTS, Mutant
from streamproof.conformance.program_text import fails_by_itself
from streamproof.conformance.settings import Settings
from streamproof.conformance.subject import load_subject
from streamproof.conformance.verdicts import failures_of
from streamproof.conformance.work_directory import work_directory

UNSURE = {
    "closed_one_by_one": "threads of RocksDB make some of the system calls of a close",
    "committing_threads_share_a_batch": "two threads have to commit at once",
    "migrates_in_two_steps": "threads of RocksDB have to flush between two writes",
    "newest_segment_offset": "threads of RocksDB have to flush one segment before another",
    "offsets_of_all_stores_together": "the store goes through a set, whose order differs each time",
    "offsets_in_a_write_before_rows": "threads of RocksDB have to flush between two writes",
    "rebuilt_windows_lose_rows": "the store waits for a flush, and each look at it is lines",
    "restored_in_any_order": "the store draws the order at random",
    "segments_deleted_in_place": "the file system orders the files that are deleted",
    "unclean_stop_unnoticed": "threads of RocksDB have to flush what is not committed",
}
"""Mutants whose program cannot make sure that it shows the failure, each with the reason."""


class ProgramRunner:
    """Runs programs as processes of their own would.

    Args:
        directory: a directory for a directory of each program, which is deleted.
    """

    def __init__(self, directory: Path) -> None:
        self._directories = (directory / str(number) for number in count())
        self._runner = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).with_name("program_runner.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Without input, the runner ends.
        with self._runner:
            pass

    def run(self, program: str) -> tuple[int, str]:
        """The exit code and the output of a program."""
        assert self._runner.stdin is not None
        assert self._runner.stdout is not None
        directory = next(self._directories)
        directory.mkdir()
        path = directory / "program.py"
        path.write_text(program)
        print(path, file=self._runner.stdin, flush=True)
        code = int(self._runner.stdout.readline())
        output = path.with_suffix(".out").read_text(errors="replace")
        shutil.rmtree(directory)
        return code, output


def alike(subject: str, right: Iterable[str]) -> list[str]:
    """The right stores that a program of a subject can run with, the most similar one first.

    A program on keys does not run on windows, and one that goes on after a kill does not run on a
    store that asks to be wiped then, because it has no transactions.
    """
    kind, claims = kind_of(subject)
    kinds = {name: kind_of(name) for name in right}
    fitting = [name for name in right if kinds[name][0] == kind]
    return sorted(fitting, key=lambda name: len(kinds[name][1] ^ claims))


def kind_of(subject: str) -> tuple[tuple[str, bool], set[tuple[str, bool | int | str]]]:
    """How a program opens a subject, whether the subject has transactions, and all its claims."""
    loaded = load_subject(subject)
    kind = loaded.opener, loaded.capabilities.transactional
    return kind, set(loaded.info().capabilities.items())


class Saved(NamedTuple):
    """A program that a run of a mutant has saved.

    Attributes:
        name: the mutant, the requirement and the shape.
        right: the right stores that the program can run with, the most similar one first.
    """

    name: str
    subject: str
    program: str
    right: list[str]


def saved_by(run: GroupRun, mutant: Mutant) -> list[Saved]:
    """The programs that a run of a mutant saves: one for each requirement and shape."""
    outcomes = [each for (name, _), each in run.outcomes.items() if name == mutant.subject]
    broken = {finding.requirement for each in outcomes for finding in each.findings}
    (right,) = (each.right for each in MUTANTS if each.name == mutant.name)
    return [
        Saved(
            f"{mutant.name} {failure.requirement}-{failure.shape}",
            mutant.subject,
            failure.program,
            alike(mutant.subject, right),
        )
        for requirement in sorted(broken)
        for failure, _ in failures_of(
            mutant.subject, load_catalogue()[requirement], outcomes, lambda _: "command"
        )
    ]


def judged(saved: Saved, runner: ProgramRunner) -> tuple[str, str]:
    """What a program shows, in a few words, and what it printed if it did wrong."""
    code, output = runner.run(saved.program)
    is_sure = fails_by_itself(saved.program)
    if not is_sure:
        return ("says so, showed it", "") if code == 1 else ("says so, showed nothing", "")
    if code != 1:
        return "does not show it", output or f"exit code {code}"
    for name in saved.right[:1]:
        code, output = runner.run(saved.program.replace(saved.subject, name))
        if code:
            return "fails with a right store", f"{name}: {output}"
    return "fails", ""


WRONG = ("does not show it", "fails with a right store")
"""What no program may do."""


def main() -> None:
    """Print the counts, and each program that does wrong; exit with 1 if there is one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--profile", choices=("smoke", "quick"), default="smoke")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("-j", "--jobs", type=int, default=2)
    asked = parser.parse_args()
    settings = Settings(profile=asked.profile, seed=asked.seed, operation_timeout_s=120.0)
    # Their right counterparts are not judged here: the programs alone are run with them.
    chosen = [replace(each, right=()) for each in select_mutants(asked.names)]
    console, counts, done = Console(), Counter[str](), 0
    with (
        suppress(KeyboardInterrupt),
        TemporaryDirectory() as programs,
        ProgramRunner(Path(programs)) as runner,
        work_directory() as directory,
    ):
        for run in group_runs(chosen, settings, everything=asked.all):
            run.run(directory / "group", asked.jobs)
            shutil.rmtree(directory / "group", ignore_errors=True)
            for mutant in run.mutants:
                found = saved_by(run, mutant)
                if not found:
                    counts["not caught"] += 1
                    console.print(f"{mutant.name}: not caught", soft_wrap=True, markup=False)
                for saved in found:
                    how, output = judged(saved, runner)
                    counts[how] += 1
                    if how != "fails":
                        console.rule(f"{saved.name}: {how}")
                        console.print(saved.program, output, sep="\n", soft_wrap=True, markup=False)
                done += 1
            console.print(f"{done} of {len(chosen)} mutants: {dict(counts)}", markup=False)
    table = Table("programs", "how many", box=None)
    for how, many in counts.most_common():
        table.add_row(how, str(many))
    console.print(table)
    sys.exit(any(counts[each] for each in WRONG))


if __name__ == "__main__":
    main()
