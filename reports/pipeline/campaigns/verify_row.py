"""Rows that verify a subject."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

from streamproof.conformance.results import Failure, RequirementResult
from streamproof.errors import StreamproofError, UsageError
from streamproof.reports.pipeline.campaigns.campaign_tables import FailureRow, ResultRow, RunRow
from streamproof.reports.pipeline.campaigns.chunk_files import RowRecords
from streamproof.reports.pipeline.campaigns.row_records import (
    failure_row,
    problem_of,
    run_row,
    settings_of,
)
from streamproof.reports.pipeline.campaigns.units import Unit
from streamproof.reports.run_log import read_run_log
from streamproof.reports.verification import RUN_LOG, VerifyRequest, run_verification

__all__ = ["LOG", "records_of_log", "verify"]

LOG = "log"
"""The directory in the scratch directory with the run log and the reports of a verification."""

_OUTCOMES = {"success": "pass", "partial": "partial", "failure": "fail", "error": "error"}


def verify(unit: Unit, scratch: Path) -> RowRecords:
    """Verify the subject of a row, and take over the content of the run log.

    Args:
        unit: the row.
        scratch: an empty directory, for files.

    Raises:
        UsageError: the verification did not begin.
    """
    request = VerifyRequest(
        subjects=(unit.subject,),
        settings=settings_of(unit),
        only=tuple(unit.conditions.only),
        out=scratch / LOG,
        work_dir=scratch,
        # One check at a time: the other cores have rows of their own to work on.
        jobs=1,
    )
    try:
        run_verification(request)
    except Exception as error:  # noqa: BLE001 - the log has what was found before the error
        return records_of_log(unit, scratch, problem_of(error))
    return records_of_log(unit, scratch, "the verification was interrupted")


def records_of_log(unit: Unit, scratch: Path, problem: str) -> RowRecords:
    """The records of a row from the run log of its verification.

    Args:
        unit: the row.
        scratch: the directory for the files of the row.
        problem: the reason why the run log may lack its end.

    Raises:
        UsageError: there is no run log, for this reason.
    """
    try:
        log = read_run_log(scratch / LOG / RUN_LOG)
    except StreamproofError as error:
        raise UsageError(problem) from error
    header, footer = log.header, log.footer
    (info,) = header.subjects
    marks: Counter[str] = Counter()
    for check in log.checks:
        marks.update(check.situations)
    verdict = footer.verdict if footer else "error"
    run = run_row(
        unit,
        outcome=_OUTCOMES[verdict],
        problem="" if footer else problem,
        marks=dict(marks),
        verdict=verdict if footer else "",
        summary=footer.verdicts[0].sentence if footer else "",
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
    # The reason tells what the machine lacks.
    del fields["subject"], fields["lacking"]
    names = ("row", "run_id", "started_at", "seed", "subject", "version", "guarantee")
    same = {name: getattr(run, name) for name in (*names, "spec", "profile")}
    return ResultRow(**same, **fields)


def _failure(run: RunRow, failure: Failure) -> FailureRow:
    fields = msgspec.structs.asdict(failure)
    names = set(FailureRow.__struct_fields__)
    told = {name: value for name, value in fields.items() if name in names}
    saved = f"logs/{run.row}/{failure.saved}" if failure.saved else ""
    return failure_row(run, **told | {"saved": saved, "command": failure.reproduce})
