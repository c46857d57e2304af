"""The example host in Rust is judged like any other store, and the mistake in it is found."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from streamproof.reports.run_log import RunLog, read_run_log

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "rust-host"
COMMAND = Path(sys.executable).parent / "streamproof"


@pytest.fixture(scope="module")
def host() -> Path:
    """The program; what cargo has built before is used again."""
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed, so the host in Rust is neither built nor verified")
    subprocess.run(
        ["cargo", "build", "--release", "--locked", "--quiet", "--target-dir", "target"],
        cwd=FOLDER,
        check=True,
    )
    return FOLDER / "target" / "release" / "redb-host"


def verified(command: str, directory: Path, *options: str, code: int = 0) -> RunLog:
    """The log of a run in the smallest profile."""
    done = subprocess.run(
        [COMMAND, "verify", f"cmd:{command}", "--profile", "smoke", "--seed", "0", *options],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return read_run_log(directory / "streamproof-out" / "run.ndjson")


@pytest.mark.parametrize(
    ("options", "promises"),
    [
        ("--dir {dir}", {"KV-015", "RANGE-015", "OFFSET-013", "POWER-001"}),
        ("--kind window", {"WIN-007", "WIN-031", "WIN-038", "POWER-001"}),
    ],
)
def test_the_host_keeps_its_promises(
    options: str, promises: set[str], host: Path, tmp_path: Path
) -> None:
    """All that bind it: it is killed, and loses its power."""
    log = verified(f"{host} {options}", tmp_path)

    assert {r.requirement for r in log.results if r.status in {"fail", "error"}} == set()
    passed = {r.requirement: r for r in log.results if r.status == "pass"}
    assert promises | {"CRASH-003", "CRASH-004"} <= passed.keys()
    # Written through libc, the database is killed in the middle of its own system calls.
    assert passed["CRASH-003"].crash_points["syscall"] > 0


def test_offsets_in_a_transaction_of_their_own_are_found(host: Path, tmp_path: Path) -> None:
    command = f"{host} --bug offsets-first --dir {{dir}}"
    log = verified(command, tmp_path, "--only", "CRASH-003", code=1)

    assert {failure.requirement for failure in log.failures} == {"CRASH-003"}
    assert all("lab.arm(syscall=" in failure.program for failure in log.failures)


def test_a_wrong_option_is_told(host: Path) -> None:
    done = subprocess.run([host, "--bug"], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "usage: redb-host" in done.stderr
