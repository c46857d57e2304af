"""The records that a row of a plan leaves, whatever kind of row it is."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import msgspec

from streamproof.conformance.results import Guarantee
from streamproof.conformance.settings import Settings
from streamproof.conformance.verify_session import verify_command
from streamproof.errors import UsageError
from streamproof.reports.pipeline.campaigns.campaign_tables import FailureRow, RunRow
from streamproof.reports.pipeline.campaigns.chunk_files import RowRecords
from streamproof.reports.pipeline.campaigns.units import Unit, swarm_path
from streamproof.version import __version__

__all__ = [
    "command_of",
    "failed_to_run",
    "failure_row",
    "problem_of",
    "recorded",
    "run_row",
    "settings_of",
]


def _now() -> str:
    """This moment in UTC, ISO 8601, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def run_row(unit: Unit, **found: Any) -> RunRow:
    """The record of a row: its settings, and what was found."""
    asked = msgspec.to_builtins(unit)
    if unit.kind == "verify":
        asked |= {"spec": unit.conditions.spec, "profile": unit.conditions.profile}
    return RunRow(**asked | {"started_at": _now(), **found})


def failure_row(run: RunRow, **found: Any) -> FailureRow:
    """The record of a failure, with all that it has in common with the record of its row."""
    names = ("row", "kind", "subject", "version", "guarantee", "seed")
    same = {name: getattr(run, name) for name in names}
    return FailureRow(**same | {"command": run.command, **found})


def failed_to_run(unit: Unit, directory: Path, problem: str) -> RowRecords:
    """The records of a row without an answer."""
    # JSON and Arrow can hold no half of a character, which a message may have.
    text = problem.encode("utf-8", "backslashreplace").decode()
    command = command_of(unit, directory)
    return RowRecords(
        run=run_row(unit, outcome="error", problem=text, command=command, guarantee=unit.guarantee)
    )


def recorded(unit: Unit, directory: Path, carry_out: Callable[[], RowRecords]) -> RowRecords:
    """Carry out a row, and say how long it took; an error that ends the row is what was found."""
    started_at, started = _now(), time.monotonic()
    try:
        found = carry_out()
    except Exception as error:  # noqa: BLE001 - one row that breaks must not end the others
        found = failed_to_run(unit, directory, problem_of(error))
    run = msgspec.structs.replace(
        found.run,
        started_at=found.run.started_at or started_at,
        # The process of a row knows better how long the row took.
        duration_s=found.run.duration_s or round(time.monotonic() - started, 3),
        tool_version=__version__,
    )
    return msgspec.structs.replace(found, run=run)


def problem_of(error: Exception) -> str:
    """The reason for a missing answer that an error gives."""
    kind = "" if isinstance(error, UsageError) else f"{type(error).__name__}: "
    return f"{kind}{error}"


def command_of(unit: Unit, directory: Path) -> str:
    """The command that shows the result of a row again."""
    if unit.kind == "verify":
        return verify_command([unit.subject], settings_of(unit), unit.conditions.only)
    words = ["streamproof"]
    if unit.kind == "scenario":
        words += ["replay", unit.scenario]
    else:
        words += ["explore", "--seed", str(unit.seed), "--runs", "1"]
        words += ["--defect", unit.defect] if unit.defect else []
        path = swarm_path(directory, unit.conditions.swarm)
        words += ["--swarm", str(path)] if path else []
    return shlex.join([*words, *(["--subject", unit.subject] if unit.subject else [])])


def settings_of(unit: Unit) -> Settings:
    """The settings of a verification."""
    asked = unit.conditions
    # Of all kinds of rows, verifications have a guarantee from the start.
    guarantee = cast(Guarantee, unit.guarantee)
    return Settings(guarantee=guarantee, spec=asked.spec, profile=asked.profile, seed=unit.seed)
