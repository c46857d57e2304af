"""Rows that verify a subject, each by the command ``streamproof verify``."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import msgspec

from streamproof.conformance.results import Failure, RequirementResult
from streamproof.errors import StreamproofError, UsageError
from streamproof.reports.pipeline.campaigns.campaign_tables import FailureRow, ResultRow, RunRow
from streamproof.reports.pipeline.campaigns.chunk_files import RowRecords
from streamproof.reports.pipeline.campaigns.own_process import last_line, run_alone, too_long
from streamproof.reports.pipeline.campaigns.row_records import (
    failure_row,
    recorded,
    run_row,
    verify_words,
)
from streamproof.reports.pipeline.campaigns.units import Unit
from streamproof.reports.run_log import RunLog, read_run_log

__all__ = ["LOG", "verify"]

LOG = "log"
"""The directory in the scratch directory that ``streamproof verify`` writes to."""

PROGRAM = (sys.executable, "-P", "-m", "streamproof")
"""The program. Starting it as a user does keeps the command line out of what is imported here."""

_OUTCOMES = {"success": "pass", "partial": "partial", "failure": "fail", "error": "error"}


def verify(unit: Unit, directory: Path, scratch: Path) -> RowRecords:
    """Let ``streamproof verify`` judge a subject, and take over the content of its log.

    Args:
        unit: the row.
        directory: of the campaign.
        scratch: an empty directory, for files.
    """
    return recorded(unit, directory, lambda: _verify(unit, scratch))


def _verify(unit: Unit, scratch: Path) -> RowRecords:
    out, limit_s = scratch / LOG, unit.conditions.limit_s
    # One check at a time: the other cores have rows of their own to work on.
    own = ["--jobs", "1", "--no-bank", "--out", str(out), "--work-dir", str(scratch)]
    code = run_alone([*PROGRAM, *verify_words(unit), *own], scratch, limit_s)
    if code is None:
        raise UsageError(too_long(limit_s))
    reason = last_line(scratch).removeprefix("streamproof: ") or "it said nothing"
    try:
        log = read_run_log(out / "run.ndjson")
    except StreamproofError as error:
        raise UsageError(f"verify ended with {code}: {reason}") from error
    return _of_log(unit, log, f"verify ended with {code} before its end: {reason}")


def _of_log(unit: Unit, log: RunLog, died: str) -> RowRecords:
    """The records of a row from the run log of its verification."""
    header, footer = log.header, log.footer
    (info,) = header.subjects
    marks: Counter[str] = Counter()
    for check in log.checks:
        marks.update(check.situations)
    verdict = footer.verdict if footer else "error"
    run = run_row(
        unit,
        outcome=_OUTCOMES[verdict],
        problem="" if footer else died,
        marks=dict(marks),
        verdict=verdict if footer else "",
        summary=footer.verdicts[0].summary if footer else "",
        package=info.package,
        version=info.version,
        description=info.description,
        capabilities=msgspec.json.encode(info.capabilities, order="sorted").decode(),
        run_id=header.run_id,
        started_at=header.started_at,
        command=header.command,
    )
    return RowRecords(
        run=run,
        results=[_result(run, each) for each in log.results],
        failures=[_failure(run, each) for each in log.failures],
    )


def _result(run: RunRow, result: RequirementResult) -> ResultRow:
    fields = msgspec.structs.asdict(result)
    del fields["subject"]
    names = ("row", "run_id", "started_at", "seed", "subject", "version", "guarantee")
    same = {name: getattr(run, name) for name in (*names, "spec", "profile")}
    return ResultRow(**same, **fields)


def _failure(run: RunRow, failure: Failure) -> FailureRow:
    fields = msgspec.structs.asdict(failure)
    names = set(FailureRow.__struct_fields__)
    told = {name: value for name, value in fields.items() if name in names}
    saved = f"logs/{run.row}/{failure.saved}" if failure.saved else ""
    return failure_row(run, **told | {"saved": saved, "command": failure.reproduce})
