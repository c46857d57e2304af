"""What is done for one row of a plan: a world that is drawn, a scenario, or `verify`."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from streamproof.conformance.results import Failure, RequirementResult
from streamproof.errors import StreamproofError, UsageError
from streamproof.reports.pipeline.campaigns.campaign_plan import KeepEvents
from streamproof.reports.pipeline.campaigns.campaign_tables import FailureRow, ResultRow, RunRow
from streamproof.reports.pipeline.campaigns.chunk_files import Found
from streamproof.reports.pipeline.campaigns.units import Unit, swarm_path
from streamproof.reports.run_log import RunLog, read_run_log
from streamproof.scenarios.play import Judged, play
from streamproof.scenarios.scenario import Scenario, Setup
from streamproof.scenarios.scenario_reader import find, read
from streamproof.sim.choices import Choices
from streamproof.sim.exploration import Simulate
from streamproof.sim.invariants import InvariantViolation
from streamproof.sim.plan_space import PlanSpace, draw
from streamproof.sim.simulation import run
from streamproof.sim.trace import Event
from streamproof.sim.trace_files import TraceFile
from streamproof.version import __version__

__all__ = ["EVENTS", "LOG", "Doer", "failed_to_run", "perform"]

EVENTS = "events.parquet"
"""The file in the scratch directory of a row that its events are in, if they are kept."""

LOG = "log"
"""The directory in there that ``verify`` writes to."""


def _now() -> str:
    """This moment in UTC, ISO 8601, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True)
class Doer:
    """How worlds are run: with model stores, unless somebody brings others.

    Attributes:
        narrowed: what is left of a swarm for the store of a row.
        simulate: runs a world with that store.
        play: plays a variant of a scenario with it.
    """

    narrowed: Callable[[PlanSpace], PlanSpace] = lambda space: space
    simulate: Simulate = run
    play: Callable[[Scenario, Setup], Judged] = play


def perform(unit: Unit, directory: Path, scratch: Path, doer: Doer | None = None) -> Found:
    """Do what a row of a plan asks for; an error that it ends with is what was found.

    Args:
        unit: the row.
        directory: of the campaign; it is in the commands that show the same again.
        scratch: an empty directory, for files.
        doer: how worlds are run.
    """
    started_at, started = _now(), time.monotonic()
    doer = doer or Doer()
    try:
        if unit.kind == "verify":
            found = _verify(unit, scratch)
        elif unit.kind == "scenario":
            found = _play(unit, scratch, doer)
        else:
            found = _simulate(unit, directory, scratch, doer)
    except Exception as error:  # noqa: BLE001 - one row that breaks must not end the others
        kind = "" if isinstance(error, UsageError) else f"{type(error).__name__}: "
        found = failed_to_run(unit, directory, f"{kind}{error}")
    duration_s = round(time.monotonic() - started, 3)
    told = msgspec.structs.replace(
        found.run,
        started_at=found.run.started_at or started_at,
        duration_s=duration_s,
        tool_version=__version__,
    )
    return msgspec.structs.replace(found, run=told)


def failed_to_run(unit: Unit, directory: Path, problem: str) -> Found:
    """What is kept of a row that there is no answer for."""
    # JSON and Arrow can hold no half of a character, which a message may have.
    text = problem.encode("utf-8", "backslashreplace").decode()
    command = _command(unit, directory)
    return Found(
        run=_run(unit, outcome="error", problem=text, command=command, guarantee=unit.guarantee)
    )


def _run(unit: Unit, **found: Any) -> RunRow:
    """What is kept of a row: what it asks for, and what was found."""
    asked = msgspec.to_builtins(unit)
    if unit.kind == "verify":
        asked |= {"spec": unit.conditions.spec, "profile": unit.conditions.profile}
    return RunRow(**asked | {"started_at": _now(), **found})


def _command(unit: Unit, directory: Path) -> str:
    """What a user types to see the same."""
    conditions = unit.conditions
    words = ["streamproof"]
    if unit.kind == "verify":
        words += _verify_words(unit)
    elif unit.kind == "scenario":
        words += ["replay", unit.scenario]
    else:
        words += ["explore", "--seed", str(unit.seed), "--runs", "1"]
        words += ["--defect", unit.defect] if unit.defect else []
        path = swarm_path(directory, conditions.swarm)
        words += ["--swarm", str(path)] if path else []
    words += ["--subject", unit.subject] if unit.subject and unit.kind != "verify" else []
    return shlex.join(words)


# Worlds.


def _simulate(unit: Unit, directory: Path, scratch: Path, doer: Doer) -> Found:
    """Run the world of a seed."""
    conditions = unit.conditions
    choices = Choices.seeded(unit.seed)
    plan = draw(choices, doer.narrowed(conditions.swarm).for_defect(unit.defect))
    events: list[Event] = []
    outcome = doer.simulate(
        choices,
        plan,
        defects=[unit.defect] if unit.defect else [],
        watchers=[] if conditions.keep_events == "none" else [events.append],
    )
    run = _run(
        unit,
        outcome="fail" if outcome.violations else "pass",
        guarantee=_guarantee(exactly_once=plan.config.exactly_once),
        topology=plan.topology,
        digest=outcome.digest,
        events=outcome.events,
        marks={name: hits for name, hits in outcome.marks.items() if hits},
        command=_command(unit, directory),
    )
    _keep(events, conditions.keep_events, run, scratch)
    return Found(run=run, failures=[_broken(run, each) for each in outcome.violations])


def _play(unit: Unit, scratch: Path, doer: Doer) -> Found:
    """Play a variant of a scenario."""
    target, _, variant = unit.scenario.rpartition("@")
    scenario = read(find(target))
    setup = scenario.setups[variant]
    judged = doer.play(scenario, setup)
    played = judged.played
    run = _run(
        unit,
        outcome="fail" if judged.surprises else "pass",
        guarantee=_guarantee(exactly_once=played.exactly_once),
        topology=setup.plan.topology,
        digest=played.digest,
        events=len(played.events),
        command=_command(unit, Path()),
    )
    _keep(played.events, unit.conditions.keep_events, run, scratch)
    broken = next(iter(played.violations), None)
    failures = [
        _broken(run, broken, each)
        if broken is not None
        else FailureRow(
            **_same(run), requirement="", shape="unexpected", found=each, command=run.command
        )
        for each in judged.surprises
    ]
    return Found(run=run, failures=failures)


def _guarantee(*, exactly_once: bool) -> str:
    return "exactly-once" if exactly_once else "at-least-once"


def _same(run: RunRow) -> dict[str, Any]:
    """What a failure has in common with its run."""
    names = ("row", "kind", "subject", "version", "guarantee", "seed")
    return {name: getattr(run, name) for name in names}


def _broken(run: RunRow, violation: InvariantViolation, found: str = "") -> FailureRow:
    """A promise that was broken in a world."""
    event = violation.event
    return FailureRow(
        **_same(run),
        requirement=violation.requirement,
        shape=violation.invariant,
        sequence=-1 if event is None else event.sequence,
        time=-1 if event is None else event.time,
        found=found or violation.message,
        command=run.command,
    )


def _keep(events: Any, keep: KeepEvents, run: RunRow, scratch: Path) -> None:
    """Write the events of a world, if they are to be kept."""
    if keep == "all" or (keep == "failures" and run.outcome == "fail"):
        with TraceFile(scratch / EVENTS, run.row) as file:
            for event in events:
                file(event)


# Verification.


def _verify_words(unit: Unit) -> list[str]:
    """The command of a verification, without its name."""
    asked = unit.conditions
    words = ["verify", unit.subject, "--guarantee", unit.guarantee, "--spec", asked.spec]
    words += ["--profile", asked.profile, "--seed", str(unit.seed)]
    return [*words, "--only", ",".join(asked.only)] if asked.only else words


def _verify(unit: Unit, scratch: Path) -> Found:
    """Let ``streamproof verify`` judge a subject, and take over what its log says."""
    out = scratch / LOG
    # One check at a time: the other cores have rows of their own to work on.
    own = ["--jobs", "1", "--no-bank", "--out", str(out), "--work-dir", str(scratch)]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "streamproof", *_verify_words(unit), *own],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    told = done.stderr.decode("utf-8", "replace").strip().splitlines()
    reason = told[-1].removeprefix("streamproof: ") if told else "it said nothing"
    try:
        log = read_run_log(out / "run.ndjson")
    except StreamproofError as error:
        raise UsageError(f"verify ended with {done.returncode}: {reason}") from error
    return _of_log(unit, log, f"verify ended with {done.returncode} before its end: {reason}")


def _of_log(unit: Unit, log: RunLog, died: str) -> Found:
    """What a run log says."""
    header, footer = log.header, log.footer
    (info,) = header.subjects
    marks: Counter[str] = Counter()
    for check in log.checks:
        marks.update(check.situations)
    verdict = footer.verdict if footer else "error"
    run = _run(
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
    return Found(
        run=run,
        results=[_result(run, each) for each in log.results],
        failures=[_failure(run, each) for each in log.failures],
    )


_OUTCOMES = {"success": "pass", "partial": "partial", "failure": "fail", "error": "error"}


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
    return FailureRow(
        **_same(run) | told | {"saved": saved, "command": failure.reproduce},
    )
