"""A row of a plan: a world drawn from a seed, a scenario, or a verification."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from streamproof.conformance.store_worlds.hosted_play import Wanted, play_with
from streamproof.conformance.store_worlds.hosted_worlds import Hosted
from streamproof.conformance.subject import load_subject
from streamproof.reports.pipeline.campaigns.campaign_plan import KeepEvents
from streamproof.reports.pipeline.campaigns.campaign_tables import FailureRow, RunRow
from streamproof.reports.pipeline.campaigns.chunk_files import RowRecords
from streamproof.reports.pipeline.campaigns.row_records import (
    command_of,
    failure_row,
    recorded,
    run_row,
)
from streamproof.reports.pipeline.campaigns.units import Unit
from streamproof.reports.pipeline.campaigns.verify_row import verify
from streamproof.scenarios.scenario_reader import find, read
from streamproof.sim.choices import Choices
from streamproof.sim.exploration import Simulate
from streamproof.sim.invariants import InvariantViolation
from streamproof.sim.plan_space import draw
from streamproof.sim.simulation import run as run_world
from streamproof.sim.trace import Event
from streamproof.sim.trace_files import TraceFile

__all__ = ["EVENTS", "perform"]

EVENTS = "events.parquet"
"""The file in the scratch directory of a row with its events, if they are kept."""


def perform(unit: Unit, directory: Path, scratch: Path) -> RowRecords:
    """Run a row in this process; an error that ends the row is what was found.

    Args:
        unit: the row.
        directory: of the campaign; it is in the commands that show the same again.
        scratch: an empty directory, for files.
    """
    match unit.kind:
        case "verify":
            return recorded(unit, directory, lambda: verify(unit, scratch))
        case "scenario":
            return recorded(unit, directory, lambda: _play(unit, scratch))
        case "simulate":
            return recorded(unit, directory, lambda: _simulate(unit, directory, scratch))


def _simulate(unit: Unit, directory: Path, scratch: Path) -> RowRecords:
    """Run the world of a seed, with the store of the row if it has one."""
    conditions = unit.conditions
    space = conditions.swarm
    simulate: Simulate = run_world
    if unit.subject:
        space = space.for_store(load_subject(unit.subject).capabilities)
        simulate = Hosted(unit.subject, str(Path.cwd()), scratch)
    choices = Choices.seeded(unit.seed)
    plan = draw(choices, space.for_defect(unit.defect))
    events: list[Event] = []
    outcome = simulate(
        choices,
        plan,
        defects=[unit.defect] if unit.defect else [],
        watchers=[] if conditions.keep_events == "none" else [events.append],
    )
    run = run_row(
        unit,
        outcome="fail" if outcome.violations else "pass",
        guarantee=_guarantee(exactly_once=plan.config.exactly_once),
        topology=plan.topology,
        digest=outcome.digest,
        events=outcome.events,
        marks={name: hits for name, hits in outcome.marks.items() if hits},
        command=command_of(unit, directory),
    )
    _keep(events, conditions.keep_events, run, scratch)
    return RowRecords(run=run, failures=[_broken(run, each) for each in outcome.violations])


def _play(unit: Unit, scratch: Path) -> RowRecords:
    """Play a variant of a scenario, with the store of the row if it has one."""
    target, _, variant = unit.scenario.rpartition("@")
    scenario = read(find(target))
    setup = scenario.setups[variant]
    judged = play_with(scenario, setup, Wanted(unit.subject, work_dir=scratch))
    played = judged.played
    run = run_row(
        unit,
        outcome="fail" if judged.surprises else "pass",
        guarantee=_guarantee(exactly_once=played.exactly_once),
        topology=setup.plan.topology,
        digest=played.digest,
        events=len(played.events),
        command=command_of(unit, Path()),
    )
    _keep(played.events, unit.conditions.keep_events, run, scratch)
    broken = next(iter(played.violations), None)
    failures = [
        _broken(run, broken, each)
        if broken is not None
        else failure_row(run, requirement="", shape="unexpected", found=each)
        for each in judged.surprises
    ]
    return RowRecords(run=run, failures=failures)


def _guarantee(*, exactly_once: bool) -> str:
    return "exactly-once" if exactly_once else "at-least-once"


def _broken(run: RunRow, violation: InvariantViolation, found: str = "") -> FailureRow:
    """The record of a promise that was broken in a world."""
    event = violation.event
    return failure_row(
        run,
        requirement=violation.requirement,
        shape=violation.invariant,
        sequence=-1 if event is None else event.sequence,
        time=-1 if event is None else event.time,
        found=found or violation.message,
    )


def _keep(events: Iterable[Event], keep: KeepEvents, run: RunRow, scratch: Path) -> None:
    """Write the events of a world, if they are to be kept."""
    if keep == "all" or (keep == "failures" and run.outcome == "fail"):
        with TraceFile(scratch / EVENTS, run.row) as file:
            for event in events:
                file(event)
