"""How long streamproof takes to start, against the bare interpreter.

The limits are 50 ms for ``import streamproof``, 300 ms for ``streamproof --help``, and 400 ms for
``streamproof verify --help``, on a machine that does nothing else. Run it with ``python -P``, or in
a directory other than the root of the repository.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

TIMES = 15
"""The best of 15 starts is shown: what else the machine does only ever adds to a start."""

COMMAND = str(Path(sys.executable).parent / "streamproof")

STARTS = {
    "the bare interpreter": ([sys.executable, "-P", "-c", "pass"], None),
    "import streamproof": ([sys.executable, "-P", "-c", "import streamproof"], 50),
    "streamproof --help": ([COMMAND, "--help"], 300),
    "streamproof verify --help": ([COMMAND, "verify", "--help"], 400),
}
"""What is started, and how many milliseconds it may take."""


def best_ms(command: list[str], directory: str) -> float:
    """The shortest time that a command took, in milliseconds."""
    taken = []
    for _ in range(TIMES):
        started = time.perf_counter()
        subprocess.run(command, cwd=directory, check=True, stdout=subprocess.DEVNULL)
        taken.append(time.perf_counter() - started)
    return min(taken) * 1000


def main() -> None:
    """Start each, and print a line for it."""
    with TemporaryDirectory() as directory:
        bare = 0.0
        for name, (command, limit) in STARTS.items():
            found = best_ms(command, directory)
            bare = bare or found
            beyond = f"{found - bare:6.0f} ms more than the interpreter" if limit else ""
            told = f", limit {limit} ms" if limit else ""
            print(f"{name:26} {found:6.0f} ms{told:14} {beyond}".rstrip())


if __name__ == "__main__":
    main()
