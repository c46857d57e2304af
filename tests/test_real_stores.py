"""The examples on real databases keep what they claim, and those with a mistake are found.

A store whose database is not installed is skipped with the name of what is missing;
``pip install --group examples`` installs all of them.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from streamproof.reports.run_log import read_run_log

FOLDER = Path(__file__).resolve().parent.parent / "examples"
COMMAND = Path(sys.executable).parent / "streamproof"
# The areas that a few seconds of `smoke` can try; docs/real-stores.md has all of them.
AREAS = "LIFE,KV,RANGE,OFFSET,COMMIT,TXN,ISO,RESTORE,CRASH-003,CRASH-004,CRASH-005,CRASH-007"

SOUND = {
    ("sqlite_modes.py:wal_full", "exactly-once"): set[str](),
    # LMDB's keys have at most 511 bytes.
    ("lmdb_store.py:make", "exactly-once"): {"KV-013"},
    ("plyvel_store.py:make", "exactly-once"): set[str](),
    ("plyvel_store.py:make", "at-least-once"): set[str](),
    ("plyvel_transactions.py:make", "exactly-once"): set[str](),
    ("rocksdict_store.py:with_log", "at-least-once"): set[str](),
}
"""What each store is known to break."""

MISTAKEN = {
    "sqlite_modes.py:autocommit": "CRASH-004",
    "rocksdict_store.py:make": "CRASH-011",
}
"""A promise that each of these breaks on purpose."""


def broken(example: str, directory: Path, *, only: str, guarantee: str) -> set[str]:
    """Verify an example in the profile ``smoke``; the requirements that it breaks."""
    module = example.split("_", maxsplit=1)[0]
    package = "sqlite3" if module == "sqlite" else module
    if find_spec(package) is None:
        pytest.skip(f"examples/{example} needs the package {package}, which is not installed")
    options = ["--profile", "smoke", "--seed", "0", "--guarantee", guarantee, "--only", only]
    done = subprocess.run(
        [COMMAND, "verify", f"{FOLDER}/{example}", *options, "--out", str(directory)],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in {0, 1, 2}, done.stdout + done.stderr
    results = read_run_log(directory / "run.ndjson").results
    assert [r.requirement for r in results if r.status == "error"] == []
    assert {"pass", "fail"} & {r.status for r in results}, "nothing was tried"
    return {result.requirement for result in results if result.status == "fail"}


@pytest.mark.parametrize(("example", "guarantee"), SOUND)
def test_a_sound_store_breaks_nothing_new(example: str, guarantee: str, tmp_path: Path) -> None:
    found = broken(example, tmp_path, only=AREAS, guarantee=guarantee)

    assert found == SOUND[example, guarantee]


def test_duckdb_keeps_data_and_offsets_together(tmp_path: Path) -> None:
    """It is slow, so that it is asked for less."""
    only = "LIFE-003,OFFSET-003,CRASH-004"

    assert broken("duckdb_store.py:make", tmp_path, only=only, guarantee="exactly-once") == set()


@pytest.mark.parametrize("example", MISTAKEN)
def test_a_mistake_is_found(example: str, tmp_path: Path) -> None:
    requirement = MISTAKEN[example]

    found = broken(example, tmp_path, only=requirement, guarantee="exactly-once")

    assert found == {requirement}


@pytest.mark.parametrize(
    "path", [*FOLDER.glob("*_store.py"), *FOLDER.glob("*_[mt]*s.py")], ids=lambda path: path.name
)
def test_docstring_says_how_to_run_it(path: Path) -> None:
    assert f"streamproof verify examples/{path.name}:" in path.read_text()
