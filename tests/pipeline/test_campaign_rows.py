"""Rows that have a process of their own, and files that are written whole or not at all."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from campaign_plans import SUBJECTS, plan_of, worlds

from streamproof.reports.pipeline.campaigns.campaign_tables import RunRow
from streamproof.reports.pipeline.campaigns.chunk_files import Found, write_chunk
from streamproof.reports.pipeline.campaigns.driver import opened
from streamproof.reports.pipeline.campaigns.row import failed_to_run
from streamproof.reports.pipeline.campaigns.row_process import Order, isolated
from streamproof.reports.pipeline.campaigns.units import IDENTITY, Unit, row_id


def unit_of(tmp_path: Path, subject: str, limit_s: float) -> Unit:
    """The row of a small world with one of these stores."""
    (tmp_path / "subjects.py").write_text(SUBJECTS, "utf-8")
    text = worlds(0, 1, f"limit_s = {limit_s}", f"subjects = ['{tmp_path}/subjects.py:{subject}']")
    return first_unit(tmp_path, text)


def first_unit(tmp_path: Path, text: str) -> Unit:
    """The first row of a plan that has one series."""
    (series,) = plan_of(tmp_path, text).series
    values = (*series[:-2], 0)
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
    order = Order(unit=unit, directory=str(tmp_path), scratch=str(scratch))
    row = subprocess.Popen(
        [sys.executable, "-P", "-m", "streamproof.reports.pipeline.campaigns.row_main"],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    row.communicate(msgspec.json.encode(order) + b"\n")
    assert row.returncode == -signal.SIGKILL
    assert not (scratch / "found.json").exists()


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
        write_chunk(directory, "0.parquet", [Found(run=row)], [])
    assert list((directory / "runs").iterdir()) == []
