"""Judge stores whose authors planted one mistake each, and had read the contract but no check.

Run by ``nox -s planted -- [name of a store ...] [option of verify ...]``. A wrong store that keeps
every promise that was tried is a survivor: the class of its mistake is not tried well enough. A
right one that breaks a promise is a false alarm. Each store has a line as soon as it is judged.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeGuard

from rich.console import Console

from streamproof.exit_codes import ExitCode
from streamproof.reports.run_log import read_run_log

PLANTED = Path(__file__).parent / "planted"

MOST_NAMED = 4
"""The most broken requirements that the table names for one store."""


class Planted(NamedTuple):
    """A planted store: the name of its subject, and the first sentence of its docstring."""

    subject: str
    mistake: str

    @property
    def name(self) -> str:
        """The name of its class or factory."""
        return self.subject.rpartition(":")[2]

    @property
    def is_right(self) -> bool:
        """Whether the store is right, as far as its author can tell."""
        return self.mistake.startswith("RIGHT")


def planted() -> list[Planted]:
    """The stores of all modules: public classes, and public functions without a parameter."""
    found = []
    for module in sorted(PLANTED.glob("*.py")):
        for node in ast.parse(module.read_text()).body:
            if is_store(node):
                summary = (ast.get_docstring(node) or "").partition("\n\n")[0]
                found.append(Planted(f"{module.stem}:{node.name}", " ".join(summary.split())))
    return found


def is_store(node: ast.stmt) -> TypeGuard[ast.ClassDef | ast.FunctionDef]:
    """Whether a statement of a module makes a store, and not a base or a helper of one."""
    if isinstance(node, ast.FunctionDef):
        has_parameters = bool(node.args.args or node.args.vararg or node.args.kwonlyargs)
        return not has_parameters and not node.name.startswith("_")
    return isinstance(node, ast.ClassDef) and not node.name.startswith("_")


def judge(store: Planted, options: list[str], out: Path) -> list[str]:
    """The requirements that a store breaks."""
    command = [sys.executable, "-P", "-m", "streamproof", "verify", store.subject]
    command += ["--no-bank", "--out", str(out), *options]
    done = subprocess.run(command, cwd=PLANTED, check=False, stdout=subprocess.DEVNULL)
    if done.returncode == ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if done.returncode not in (ExitCode.SUCCESS, ExitCode.FAILURE, ExitCode.PARTIAL):
        sys.exit(f"The run of {store.name} gave no verdict: exit code {done.returncode}.")
    results = read_run_log(out / "run.ndjson").results
    return [each.requirement for each in results if each.status == "fail"]


def tell(text: str) -> None:
    """Print a line as it is."""
    Console().print(text, markup=False, highlight=False, soft_wrap=True)


def main() -> None:
    """Print a line for each store; exit with 1 if one of them was judged wrongly."""
    every = planted()
    names = {store.name for store in every} & {*sys.argv[1:]}
    options = [each for each in sys.argv[1:] if each not in names]
    wrongly = []
    with TemporaryDirectory() as out, suppress(KeyboardInterrupt):
        for store in every:
            if names and store.name not in names:
                continue
            begun = time.monotonic()
            broken = judge(store, options, Path(out) / store.name)
            if bool(broken) == store.is_right:
                wrongly.append(store.name)
            more = f" and {len(broken) - MOST_NAMED} more" if len(broken) > MOST_NAMED else ""
            named = ", ".join(broken[:MOST_NAMED]) + more or "nothing"
            seconds = f"{time.monotonic() - begun:.0f} s"
            tell(f"{store.subject}: {seconds}, breaks {named}. {store.mistake}")
    tell(f"Judged wrongly: {', '.join(wrongly) or 'none'}.")
    sys.exit(bool(wrongly))


if __name__ == "__main__":
    main()
