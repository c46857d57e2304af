"""How much memory a verification takes at most: the sum over all of its processes.

Run by ``python benchmarks/memory.py [SUBJECT ...]``; without subjects, for each built-in store that
needs no extra. What processes share is counted once, in proportion (``Pss``), as they are forks
of each other.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from streamproof.stores.builtin import BUILTIN

LIMIT_BYTES = 10**9
"""What a run of any subject may take: 1 GB."""

POLL_S = 0.1
"""How often it is looked at, in seconds; what is shorter may be missed."""


def descendants(pid: int) -> list[int]:
    """A process and all that descend from it."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found


def memory_of(pid: int) -> int:
    """The memory of a process in bytes, with its share of what it has in common with others."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return 0


def peak(subject: str, out: str) -> int:
    """The most that a quick run of a subject takes, in bytes."""
    command = [sys.executable, "-P", "-m", "streamproof", "verify", subject, "--profile", "quick"]
    command += ["--seed", "0", "--out", out, "--no-bank"]
    most = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            most = max(most, sum(map(memory_of, descendants(process.pid))))
            time.sleep(POLL_S)
    return most


def main() -> None:
    """Print a line for each subject; exit with 1 if one takes too much."""
    subjects = sys.argv[1:] or [name for name, each in BUILTIN.items() if each.extra is None]
    too_much = False
    with TemporaryDirectory() as out:
        for subject in subjects:
            found = peak(subject, out)
            too_much |= found > LIMIT_BYTES
            print(f"{subject:36} {found / 1e6:6.0f} MB at most", flush=True)
    sys.exit(too_much)


if __name__ == "__main__":
    main()
