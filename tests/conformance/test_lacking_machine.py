"""A machine that lacks something is never taken for a store that breaks or keeps a promise."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_lines import CommandLine

from streamproof import cli
from streamproof.conformance import disk_room
from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.check_runner import run_check
from streamproof.conformance.running_call import RunningCall
from streamproof.conformance.settings import Settings
from streamproof.conformance.subject import load_subject
from streamproof.conformance.work_directory import work_directory
from streamproof.errors import UsageError
from streamproof.exit_codes import ExitCode

WHY = "no C compiler (cc, gcc or clang) was found; install gcc or clang"


def test_a_run_without_a_compiler_says_what_it_did_not_try(command_line: CommandLine) -> None:
    """Beside the verdict, in the terminal and in every report, with the remedy."""
    command_line.environment["PATH"] = str(command_line.cwd)
    ended = command_line.verify("rocksdb-transactional", "--only", "CRASH-012", "--no-bank")
    assert ended.code == 0
    assert ended.log.footer is not None
    (verdict,) = ended.log.footer.verdicts
    assert verdict.verdict == "success"
    # And it is a part of a run only.
    assert verdict.of_core > 90
    assert f"this run asked 1 of {verdict.of_core} core requirements" in verdict.summary
    assert verdict.untried == (
        f"this machine could not try everything ({WHY}); "
        "tried only in part: 1 requirement (CRASH-012)"
    )
    assert f"untried {verdict.subject} {verdict.untried}" in " ".join(ended.stdout.split())
    for report in ("junit.xml", "report.html", "summary.md"):
        text = (ended.out / report).read_text().replace("\\", "")
        assert verdict.untried in text, report


def test_a_must_that_cannot_be_tried_makes_a_run_partial(command_line: CommandLine) -> None:
    """Although it is not core."""
    command_line.environment["PATH"] = str(command_line.cwd)
    ended = command_line.verify("rocksdb", "--only", "ERR-003,ERR-008", "--no-bank")
    assert ended.code == 2
    assert ended.results["ERR-008"].status == "skip"
    assert not ended.results["ERR-008"].core
    assert "1 MUST requirement could not be tried: ERR-008" in ended.stdout


WRONG = """
from streamproof.stores.memory import InMemoryKeyValueStore

class Store(InMemoryKeyValueStore):
    def get(self, key):
        return None

def make():
    return Store("mine")
"""


@pytest.mark.parametrize("is_full", [False, True])
def test_a_full_disk_is_no_failure_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_full: bool
) -> None:
    """What a check finds on a full disk proves nothing, and is not tried."""
    (tmp_path / "mine.py").write_text(WRONG)
    if is_full:
        monkeypatch.setattr(disk_room, "LEAST_FREE_BYTES", 2**62)
    subject = load_subject(f"{tmp_path / 'mine.py'}:make")
    check = load_checks()["kv.put_then_get"]
    status = RunningCall(tmp_path / "status", create=True)
    outcome = run_check(CheckRun(check, subject, Settings(), tmp_path, status))
    assert bool(outcome.findings) is not is_full
    assert outcome.skipped == outcome.evidence.lacking
    assert outcome.skipped.startswith("the disk of the work directory is full; ") is is_full
    assert outcome.suite_error == ""


def test_a_run_does_not_begin_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the directory that was made for it is deleted."""
    monkeypatch.setattr(disk_room, "LEAST_FREE_BYTES", 2**62)
    text = f"Nothing was judged in {tmp_path}: the disk of the work directory is full; "
    with pytest.raises(UsageError, match=text), work_directory(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


def test_a_bank_that_takes_nothing_does_not_end_a_run(command_line: CommandLine) -> None:
    """The failure is that of the run; the run says that the bank does not have it."""
    (command_line.cwd / "mine.py").write_text(WRONG)
    (command_line.cwd / "bank").write_text("no directory")
    ended = command_line.verify("mine.py:make", "--only", "KV-001", "--bank", "bank")
    assert ended.code == 1
    assert (ended.out / ended.failures["KV-001"].saved).is_file()
    (note,) = ended.log.notes
    assert note.kind == "warning"
    assert note.text.endswith("Choose another bank with --bank, or --no-bank.")
    assert (ended.out / "report.html").is_file()


def test_a_disk_that_takes_no_more_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And is no broken promise: neither a traceback nor exit code 1."""

    def full(**_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "out/run.ndjson")

    monkeypatch.setattr(cli, "app", full)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == ExitCode.USAGE
    assert capsys.readouterr().err == (
        "streamproof: out/run.ndjson: No space left on device. Free some space, or choose "
        "directories that can be written.\n"
    )


@pytest.mark.parametrize("method", ["count_system_calls", "record_system_calls"])
def test_a_program_that_cannot_be_tried_does_not_blame_the_store(
    tmp_path: Path, method: str
) -> None:
    """It ends with 2, in one sentence."""
    program = tmp_path / "program.py"
    program.write_text(f"from streamproof import Lab\nLab.{method}()\nraise AssertionError\n")
    environment = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-P", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"streamproof: This cannot be tried here, because system calls cannot be seen: {WHY}.\n"
    )
