"""Judge stores that keep their promises again and again: whatever is found is a false alarm.

Run by ``nox -s false_alarms -- SEEDS [--java] [option of verify ...]``; each seed is a run of all
stores. SEEDS is how many, from 0 on, or the first and the last with a hyphen between them:
``13-19``. With ``--java`` the stores are those in Java. Ctrl-C ends it with the table of the seeds
that were done.
A failure here is a mistake of the suite, or a promise that a store of ours does not keep after all.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from java_classes import RIGHT_JAVA_STORES, compile_right_stores
from rich.console import Console
from rich.table import Table

from streamproof.exit_codes import ExitCode
from streamproof.reports.run_log import RunLog, read_run_log
from streamproof.stores.builtin import BUILTIN

OURS = [name for name, store in BUILTIN.items() if store.extra is None]
SQLITE = f"{Path(__file__).parent.parent / 'examples' / 'sqlite_store.py'}:make"
GOOD = [*OURS, SQLITE]

TRUE_ALARMS = {
    ("single-file", "LIFE-021"),
    *((name, "ISO-024") for name in (SQLITE, *RIGHT_JAVA_STORES)),
}
"""A store from before KIP-1035 does not manage its offsets. The store on SQLite and those in Java
stage their writes under at-least-once, too. All are told so."""


def judge(stores: list[str], seed: int, options: list[str], out: Path) -> RunLog:
    """One run over all stores; a run without an end ends this program, too."""
    command = [sys.executable, "-P", "-m", "streamproof", "verify", *stores]
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
    seeds, options = seeds_of(sys.argv[1]), sys.argv[2:]
    in_java = options[:1] == ["--java"]
    options = options[in_java:]
    stores = [*RIGHT_JAVA_STORES] if in_java else GOOD
    kills = dict.fromkeys(stores, 0)
    answers = dict.fromkeys(stores, 0)
    alarms: dict[str, list[str]] = {name: [] for name in stores}
    done: list[int] = []
    with TemporaryDirectory() as place, suppress(KeyboardInterrupt):
        if in_java:
            os.environ["CLASSPATH"] = compile_right_stores(Path(place))
        for seed in seeds:
            log = judge(stores, seed, options, Path(place) / str(seed))
            for check in log.checks:
                kills[check.subject] += sum(check.crash_points.values())
            for result in log.results:
                answers[result.subject] += result.status == "pass"
                is_true = (result.subject, result.requirement) in TRUE_ALARMS
                if result.status in ("fail", "error") and not is_true:
                    alarms[result.subject].append(f"{result.requirement} (seed {seed})")
            done.append(seed)
    table = Table("store", "promises held", "crashes", "false alarms", box=None)
    for name in stores:
        found = ", ".join(alarms[name]) or "none"
        table.add_row(Path(name).name, f"{answers[name]:,}", f"{kills[name]:,}", found)
    told = " ".join(options) or "none"
    Console().print(f"seeds {', '.join(map(str, done))}; options: {told}")
    Console().print(table)
    sys.exit(any(alarms.values()))


if __name__ == "__main__":
    main()
