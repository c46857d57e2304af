"""A long campaign whose driver is killed once, and then a worker: the counts are exact in the end.

    python -P tests/pipeline/killed_campaign.py [SEEDS] [DIRECTORY]

With 20,000 seeds, which is the default, it takes about ten minutes on two quiet cores.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import mkdtemp

import pyarrow.dataset as ds
from rich.console import Console

from streamproof.reports.pipeline.campaigns.campaign_plan import read_plan
from streamproof.reports.pipeline.campaigns.chunk_files import CampaignTally

CONSOLE = Console(highlight=False)

PLAN = """
[[simulate]]
seeds = [0, {seeds}]

[[verify]]
subjects = [
  "in-memory", "rocksdb", "rocksdb-transactional", "rocksdb-window", "rocksdb-session",
]
profiles = ["smoke"]
"""

KILL_DRIVER_AT, KILL_WORKER_AT = 0.25, 0.6
"""How much of the rows is done when they are killed."""


def start(plan: Path, out: Path) -> subprocess.Popen[bytes]:
    """Start the command, on two cores."""
    command = [str(Path(sys.executable).with_name("streamproof")), "campaign", str(plan)]
    command += ["--out", str(out), "--jobs", "2"]
    CONSOLE.print(f"$ {shlex.join(command)}")
    return subprocess.Popen(command)


def wait(process: subprocess.Popen[bytes], out: Path, least: int) -> None:
    """Wait until so many rows are done."""
    tally = CampaignTally(out)
    while tally.rows < least:
        if process.poll() is not None:
            raise SystemExit(f"The campaign has ended too soon, with {process.returncode}.")
        time.sleep(0.2)
        tally.look()
    CONSOLE.print(f"{tally.rows:,} rows are done.")


def workers(process: int) -> list[int]:
    """The Python workers of a driver: the children of the daemon that its JVM has started."""
    parents: dict[int, int] = {}
    daemons = set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if b"pyspark.daemon" in (path / "cmdline").read_bytes():
                daemons.add(int(path.name))
        except OSError:
            continue
    return [
        each for each in daemons if parents[each] in daemons and _is_below(each, process, parents)
    ]


def _is_below(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    while pid in parents and pid != ancestor:
        pid = parents[pid]
    return pid == ancestor


def main() -> None:
    """Kill, go on, and count."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    directory = Path(sys.argv[2] if len(sys.argv) > 2 else mkdtemp(prefix="streamproof-killed-"))
    path, out = directory / "plan.toml", directory / "out"
    path.write_text(PLAN.format(seeds=seeds), "utf-8")
    rows = read_plan(path).rows
    first = start(path, out)
    wait(first, out, int(KILL_DRIVER_AT * rows))
    first.kill()
    first.wait()
    CONSOLE.print("The driver was killed.")
    second = start(path, out)
    wait(second, out, int(KILL_WORKER_AT * rows))
    victim = workers(second.pid)[0]
    os.kill(victim, signal.SIGKILL)
    CONSOLE.print(f"The worker {victim} was killed.")
    if second.wait() not in (0, 1):
        raise SystemExit(f"The campaign has ended with {second.returncode}.")
    runs = ds.dataset(sorted((out / "runs").glob("*.parquet"))).to_table(
        columns=["row", "kind", "outcome"]
    )
    counts = Counter(zip(*(runs[each].to_pylist() for each in ("kind", "outcome")), strict=True))
    for (kind, outcome), count in sorted(counts.items()):
        CONSOLE.print(f"{kind:10} {outcome:8} {count:>8,}")
    different = len(set(runs["row"].to_pylist()))
    if not len(runs) == different == rows:
        raise SystemExit(f"{rows} rows were asked for: {len(runs)} are there, {different} differ.")
    CONSOLE.print(f"{rows:,} rows, each of them once, in {out}.")


if __name__ == "__main__":
    main()
