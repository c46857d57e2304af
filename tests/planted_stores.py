"""Judge stores whose authors planted one mistake each, and had read the contract but no check.

Run by ``nox -s planted -- [option of verify ...]``. A wrong store that keeps every promise that was
tried is a survivor: the class of its mistake is not tried well enough. A right one that breaks a
promise is a false alarm. Ctrl-C ends it with the table of the stores that were judged.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from streamproof.exit_codes import ExitCode
from streamproof.reports.run_log import read_run_log

PLANTED = Path(__file__).parent / "planted"

RIGHT = {
    "SqliteRight",
    "ChecksummedLogRight",
    "SqliteWalRight",
    "EventSegmentsRight",
    "DeltaAndBaseRight",
    "MappedSlotsRight",
}
"""The stores that are right, as far as those who planted them can tell."""

MOST_NAMED = 4
"""The most broken requirements that the table names for one store."""


class Planted(NamedTuple):
    """A planted store: the name of its subject, and the first sentence of its docstring."""

    subject: str
    mistake: str

    @property
    def name(self) -> str:
        """The name of its class."""
        return self.subject.rpartition(":")[2]


def planted() -> list[Planted]:
    """The stores of all modules. Bases have names that begin with an underscore."""
    found = []
    for module in sorted(PLANTED.glob("*.py")):
        for node in ast.parse(module.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                summary = (ast.get_docstring(node) or "").partition("\n\n")[0]
                found.append(Planted(f"{module.stem}:{node.name}", " ".join(summary.split())))
    return found


def judge(store: Planted, options: list[str], out: Path) -> list[str]:
    """The requirements that a store breaks."""
    command = [sys.executable, "-P", "-m", "streamproof", "verify", store.subject]
    command += ["--no-bank", "--out", str(out), *options]
    done = subprocess.run(command, cwd=PLANTED, check=False)
    if done.returncode == ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if done.returncode not in (ExitCode.SUCCESS, ExitCode.FAILURE, ExitCode.PARTIAL):
        sys.exit(f"The run of {store.name} gave no verdict: exit code {done.returncode}.")
    results = read_run_log(out / "run.ndjson").results
    return [each.requirement for each in results if each.status == "fail"]


def main() -> None:
    """Print a line for each store; exit with 1 if one of them was judged wrongly."""
    table = Table("store", "seconds", "breaks", "mistake", box=None)
    wrongly = []
    with TemporaryDirectory() as out, suppress(KeyboardInterrupt):
        for store in planted():
            begun = time.monotonic()
            broken = judge(store, sys.argv[1:], Path(out) / store.name)
            if bool(broken) == (store.name in RIGHT):
                wrongly.append(store.name)
            more = f" and {len(broken) - MOST_NAMED} more" if len(broken) > MOST_NAMED else ""
            named = ", ".join(broken[:MOST_NAMED]) + more or "nothing"
            table.add_row(store.name, f"{time.monotonic() - begun:.0f}", named, store.mistake)
    Console().print(table)
    Console().print(f"Judged wrongly: {', '.join(wrongly) or 'none'}.")
    sys.exit(bool(wrongly))


if __name__ == "__main__":
    main()
