"""The command line, as a person at a terminal uses it: run to its end, and refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

COMMAND = Path(sys.executable).parent / "streamproof"


def run(
    *arguments: str | Path, cwd: Path, code: int = 0, columns: int = 80, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command that ends as expected, and never with a traceback."""
    done = subprocess.run(
        [COMMAND, *arguments],
        cwd=cwd,
        env={**os.environ, "COLUMNS": str(columns)},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return done


def refused(*arguments: str | Path, cwd: Path) -> str:
    """The one line with which a command is refused, before it has said anything else."""
    done = run(*arguments, cwd=cwd, code=3)
    (line,) = done.stderr.splitlines()
    assert line.startswith("streamproof: ")
    assert done.stdout == ""
    return line
