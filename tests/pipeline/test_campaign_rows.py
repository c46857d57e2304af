"""Rows that have a process of their own, and files that are written whole or not at all."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from campaign_plans import SUBJECTS, plan_of, worlds

from streamproof.reports.pipeline.campaigns.campaign_tables import RunRow
from streamproof.reports.pipeline.campaigns.chunk_files import RowRecords, write_chunk
from streamproof.reports.pipeline.campaigns.driver import opened
from streamproof.reports.pipeline.campaigns.row_process import COMMAND, RowOrder, isolated
from streamproof.reports.pipeline.campaigns.row_records import failed_to_run
from streamproof.reports.pipeline.campaigns.units import IDENTITY, Unit, row_id
from streamproof.reports.pipeline.campaigns.verify_row import LOG


def unit_of(tmp_path: Path, subject: str, limit_s: float) -> Unit:
    """The row of a small world that puts records into one of these stores."""
    (tmp_path / "subjects.py").write_text(SUBJECTS, "utf-8")
    text = worlds(1, 2, f"limit_s = {limit_s}", f"subjects = ['{tmp_path}/subjects.py:{subject}']")
    return first_unit(tmp_path, text)


def verify_unit(tmp_path: Path, subject: str, more: str = "") -> Unit:
    """The row of a verification; ``gone.py`` is there only while the plan is read."""
    (tmp_path / "gone.py").write_text(SUBJECTS, "utf-8")
    text = f"[[verify]]\nsubjects = ['{subject.format(tmp_path)}']\nprofiles = ['smoke']\n{more}"
    unit = first_unit(tmp_path, text)
    (tmp_path / "gone.py").unlink()
    return unit


def first_unit(tmp_path: Path, text: str) -> Unit:
    """The first row of a plan that has one series."""
    (series,) = plan_of(tmp_path, text).series
    values = series[:-1]  # The last two are the first seed and the end of all.
    return Unit(row=row_id(*values), **dict(zip(IDENTITY, values, strict=True)))


@pytest.mark.parametrize(
    ("subject", "limit_s", "outcome", "problem"),
    [
        ("Stuck", 4, "error", "it took longer than 4 s, and was ended; see limit_s in the plan"),
        ("Killer", 300, "error", "its process died of SIGKILL, without an answer (zzz"),
        ("Leaver", 300, "fail", ""),
        ("Forker", 300, "pass", ""),
    ],
)
def test_a_store_that_hangs_or_ends_its_process(
    tmp_path: Path, subject: str, limit_s: float, outcome: str, problem: str
) -> None:
    """There is no answer for its row, whatever it says; and what it forks does not keep it up."""
    unit, scratch = unit_of(tmp_path, subject, limit_s), tmp_path / "scratch"
    scratch.mkdir()
    found = isolated(unit, tmp_path, scratch).run
    assert found.outcome == outcome, found.problem
    assert found.problem.startswith(problem)
    assert len(found.problem) < 400


def test_a_verification_without_an_answer_says_what_was_asked(tmp_path: Path) -> None:
    """Then a report counts it where its results would have counted, and lists it as a run."""
    text = "[[verify]]\nsubjects = ['in-memory']\nspecs = ['kafka-4.3']\nprofiles = ['smoke']"
    unit = first_unit(tmp_path, text)
    run = failed_to_run(unit, tmp_path, "it broke").run
    assert (run.outcome, run.spec, run.profile) == ("error", "kafka-4.3", "smoke")


def test_a_row_does_not_outlive_its_worker(tmp_path: Path) -> None:
    """Its process ends with the input that only the worker has the other end of."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    unit = unit_of(tmp_path, "Stuck", 60)
    order = RowOrder(unit=unit, directory=str(tmp_path), scratch=str(scratch))
    row = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, start_new_session=True)
    row.communicate(msgspec.json.encode(order) + b"\n")
    assert row.returncode == -signal.SIGKILL
    assert not (scratch / "found.json").exists()


WORKER = """
import json, sys
from pathlib import Path
from streamproof.reports.pipeline.campaigns.row_process import isolated
from streamproof.reports.pipeline.campaigns.units import Unit
isolated(Unit(**json.loads(sys.argv[1])), Path(), Path("scratch"))
"""


def test_a_verification_does_not_outlive_its_worker(tmp_path: Path) -> None:
    """All its processes end with the worker: its own, and those that it starts for checks."""
    (tmp_path / "subjects.py").write_text(SUBJECTS, "utf-8")
    unit = verify_unit(tmp_path, "{}/subjects.py:Telling")
    (tmp_path / "scratch").mkdir()
    command = [sys.executable, "-P", "-c", WORKER, msgspec.json.encode(unit).decode()]
    worker = subprocess.Popen(command, cwd=tmp_path)
    try:
        pids = processes_below(worker, wait_for_pid(worker, tmp_path / "pid"))
    finally:
        worker.kill()
        worker.wait()
    assert len(pids) >= 2, "The row has a process, and so has the check."
    end = time.monotonic() + 30
    while any(map(is_running, pids)):
        assert time.monotonic() < end
        time.sleep(0.05)


def wait_for_pid(worker: subprocess.Popen[bytes], path: Path) -> int:
    """Wait until a process has written its number to a file."""
    while not path.exists():
        assert worker.poll() is None
        time.sleep(0.05)
    return int(path.read_text())


def processes_below(worker: subprocess.Popen[bytes], pid: int) -> list[int]:
    """A process, and the processes between it and the worker that started them all."""
    found = []
    while pid != worker.pid:
        assert is_running(pid)
        found.append(pid)
        pid = int(status(pid)[1])
    return found


def is_running(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for yet does not."""
    try:
        return status(pid)[0] != "Z"
    except FileNotFoundError:
        return False


def status(pid: int) -> list[str]:
    """The state of a process, its parent, and more."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


@pytest.mark.parametrize(
    ("subject", "more", "problem"),
    [
        ("{}/gone.py:Own", "", "There is no file "),
        ("in-memory", "limit_s = 0.1", "it took longer than 0.1 s, and was ended; see limit_s"),
    ],
)
def test_a_verification_without_a_log(
    tmp_path: Path, subject: str, more: str, problem: str
) -> None:
    unit = verify_unit(tmp_path, subject, more)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    found = isolated(unit, tmp_path, scratch)
    assert found.run.outcome == "error"
    assert found.run.problem.startswith(problem)
    assert found.run.started_at
    assert found.run.duration_s
    assert found.run.command.startswith(f"streamproof verify {unit.subject}")


def test_a_verification_is_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker starts the process of the row, and the verification runs in that process."""
    started = started_instead(monkeypatch, "raise SystemExit('no log')")
    unit = verify_unit(tmp_path, "in-memory")
    found = isolated(unit, tmp_path, tmp_path)
    assert found.run.problem == "its process ended with 1, without an answer (no log)"
    assert started == [COMMAND]


def started_instead(monkeypatch: pytest.MonkeyPatch, code: str) -> list[tuple[str, ...]]:
    """Let Python run this code instead of every process that is started; what would have run."""
    started: list[tuple[str, ...]] = []
    popen = subprocess.Popen

    def start(command: tuple[str, ...], **options: Any) -> Any:
        started.append(command)
        return popen([sys.executable, "-c", code], **options)

    monkeypatch.setattr(subprocess, "Popen", start)
    return started


def test_a_verification_that_dies_keeps_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run log has all that was found by then; no verdict follows from a part of a run."""
    unit, scratch = verify_unit(tmp_path, "in-memory", "only = ['KV-001']"), tmp_path / "scratch"
    scratch.mkdir()
    whole = isolated(unit, tmp_path, scratch)
    assert whole.run.outcome == "pass", whole.run.problem
    log = scratch / LOG / "run.ndjson"
    *lines, footer = log.read_bytes().splitlines(keepends=True)
    assert b'"type":"footer"' in footer
    log.write_bytes(b"".join(lines))
    (scratch / "found.json").unlink()
    started_instead(monkeypatch, "import os; os.kill(os.getpid(), 9)")
    found = isolated(unit, tmp_path, scratch)
    assert found.run.outcome == "error"
    assert found.run.problem == "its process died of SIGKILL, without an answer"
    assert found.run.verdict == ""
    assert found.run.run_id == whole.run.run_id
    assert found.results == whole.results


def test_nothing_is_left_of_a_chunk_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a full disk is no fuller than before."""
    directory = opened(plan_of(tmp_path, worlds(0, 1)), tmp_path / "out").directory

    def fill_disk(_: pa.Table, path: Path, **__: Any) -> None:
        path.write_bytes(b"PAR1")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pq, "write_table", fill_disk)
    row = RunRow(row="0" * 32, kind="simulate", outcome="pass")
    with pytest.raises(OSError, match="No space left"):
        write_chunk(directory, "0.parquet", [RowRecords(run=row)], [])
    assert list((directory / "runs").iterdir()) == []
