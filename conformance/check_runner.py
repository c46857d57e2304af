"""Runs one check to its end, as a search or to replay a saved failure."""

from __future__ import annotations

import time
import traceback

from streamproof.conformance.check_records import CheckOutcome
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.crash.kill_campaign import KillCampaign
from streamproof.conformance.power.power_campaign import PowerCampaign
from streamproof.conformance.saved_failures import Replay, SavedChoices
from streamproof.conformance.violations import (
    Lacking,
    Skipped,
    SubjectRaised,
    Unusable,
    Violation,
    brief,
)

__all__ = ["run_check"]


def run_check(run: CheckRun) -> CheckOutcome:
    """Run a check, and turn an exception into a part of the outcome."""
    started = time.monotonic()
    skipped = unusable = suite_error = ""
    try:
        _run(run)
    except Violation as violation:
        run.record(violation)
    except Skipped as reason:
        skipped = str(reason)
        if isinstance(reason, Lacking):
            run.evidence.lacking = skipped
    except SubjectRaised as raised:
        run.record(raised.violation)
    except Unusable as reason:
        unusable = str(reason)
    except Exception as error:
        suite_error = f"{brief(error)}\n{traceback.format_exc()[-4000:]}"
    if suite_error:
        run.look_for_room()
    if run.no_room:
        # Whatever went wrong, neither the store nor the suite is to blame for it.
        skipped, suite_error = run.no_room, ""
        run.evidence.lacking = run.no_room
        run.evidence.exercised.clear()
        run.findings.clear()
        run.first.clear()
    return CheckOutcome(
        check=run.check.name,
        evidence=run.evidence,
        findings=list(run.findings.values()),
        first=run.first,
        skipped=skipped,
        unusable=unusable,
        suite_error=suite_error,
        duration_s=time.monotonic() - started,
        round=run.settings.round,
        replayed=run.replay.name if run.replay else "",
    )


def _run(run: CheckRun) -> None:
    check = run.check
    if run.replay is not None and _crash_again(run, run.replay):
        return
    if check.raw:
        check.function(run)
    elif check.given is not None:
        run.run_property(check.function, check.given(run.generators()))
    else:
        with run.trial() as trial:
            check.function(trial)


def _crash_again(run: CheckRun, replay: Replay) -> bool:
    """Replay a crash, a loss of power or a world; false if the failure is none of these."""
    choices = replay.choices
    if choices.worlds:
        _simulate_again(run, choices)
    elif choices.losses:
        PowerCampaign(run, 0).repeat(choices)
    elif choices.crashes:
        KillCampaign(run, 0).repeat(choices)
    else:
        return False
    return True


def _simulate_again(run: CheckRun, choices: SavedChoices) -> None:
    # The simulator takes long to import, and few checks need it.
    from streamproof.conformance.store_worlds.world_campaign import WorldCampaign

    WorldCampaign(run).repeat(choices)
