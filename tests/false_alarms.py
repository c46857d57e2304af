"""Judge stores that keep their promises again and again: whatever is found is a false alarm.

Run by ``nox -s false_alarms -- SEEDS [option of verify ...]``; each seed is a run of all stores.
SEEDS is how many, from 0 on, or the first and the last with a hyphen between them: ``13-19``.
Ctrl-C ends it with the table of the seeds that were done.
A failure here is a mistake of the suite, or a promise that a store of ours does not keep after all.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from streamproof.exit_codes import ExitCode
from streamproof.reports.run_log import RunLog, read_run_log
from streamproof.stores.builtin import BUILTIN

OURS = [name for name, store in BUILTIN.items() if store.extra is None]
SQLITE = f"{Path(__file__).parent.parent / 'examples' / 'sqlite_store.py'}:make"
GOOD = [*OURS, SQLITE]

TRUE_ALARMS = {("single-file", "LIFE-021"), (SQLITE, "ISO-024")}
"""A store from before KIP-1035 does not manage its offsets. The store on SQLite stages its writes
under at-least-once, too. Both are told so."""


def judge(seed: int, options: list[str], out: Path) -> RunLog:
    """One run over all stores; a run without an end ends this program, too."""
    command = [sys.executable, "-P", "-m", "streamproof", "verify", *GOOD]
    command += ["--seed", str(seed), "--out", str(out), *options]
    done = subprocess.run(command, check=False)
    log = read_run_log(out / "run.ndjson")
    if done.returncode == ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if not log.complete:
        sys.exit(f"The run with seed {seed} did not come to its end: exit code {done.returncode}.")
    return log


def seeds_of(text: str) -> range:
    """The seeds that the first argument asks for."""
    first, _, last = text.rpartition("-")
    return range(int(first), int(last) + 1) if first else range(int(last))


def main() -> None:
    """Print a line for each store; exit with 1 if anything was found."""
    kills = dict.fromkeys(GOOD, 0)
    answers = dict.fromkeys(GOOD, 0)
    alarms: dict[str, list[str]] = {name: [] for name in GOOD}
    done: list[int] = []
    with TemporaryDirectory() as out, suppress(KeyboardInterrupt):
        for seed in seeds_of(sys.argv[1]):
            log = judge(seed, sys.argv[2:], Path(out) / str(seed))
            for check in log.checks:
                kills[check.subject] += sum(check.crash_points.values())
            for result in log.results:
                answers[result.subject] += result.status == "pass"
                is_true = (result.subject, result.requirement) in TRUE_ALARMS
                if result.status in ("fail", "error") and not is_true:
                    alarms[result.subject].append(f"{result.requirement} (seed {seed})")
            done.append(seed)
    table = Table("store", "promises held", "crashes", "false alarms", box=None)
    for name in GOOD:
        found = ", ".join(alarms[name]) or "none"
        table.add_row(Path(name).name, f"{answers[name]:,}", f"{kills[name]:,}", found)
    options = " ".join(sys.argv[2:]) or "none"
    Console().print(f"seeds {', '.join(map(str, done))}; options: {options}")
    Console().print(table)
    sys.exit(any(alarms.values()))


if __name__ == "__main__":
    main()
