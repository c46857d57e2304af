"""The check of an application: it runs without faults, and then with faults drawn from a seed."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from streamproof.conformance.application_checks.fault_plans import AnyFault, draw_faults, told
from streamproof.conformance.application_checks.log_comparison import compared, differences
from streamproof.conformance.check_registry import check
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.failure_shapes import shape_of_invariant, shape_of_text
from streamproof.conformance.program_text import verifying_program
from streamproof.conformance.saved_failures import SavedChoices
from streamproof.conformance.settings import derive_seed
from streamproof.conformance.violations import Unusable, violation_of
from streamproof.errors import UsageError
from streamproof.scenarios.kafka.application_file import read_application
from streamproof.scenarios.kafka.real_play import judgement_of
from streamproof.scenarios.kafka.user_play import (
    NotRunningError,
    Played,
    build,
    play_application,
)
from streamproof.scenarios.scenario import Crash
from streamproof.sim.invariants import INVARIANTS
from streamproof.sim.invariants.log_history import LogHistory

__all__: list[str] = []

DAY_MS = 24 * 3600 * 1000

KILLS = "process"
"""The kind of crash point: a process of an application is killed."""

OF_KAFKA = "This promise binds Kafka Streams, not the application."

NAME_INPUTS = "Name every topic that the application reads in [[inputs]]."

FAULTLESS = "run without faults"

RUNS_AGAIN = "all instances to run again, and to process all their input"


class _Faults(NamedTuple):
    """The faults of a run: its number, ``None`` without any, and the faults in words."""

    number: int | None
    how: str


@check("APP-001", "APP-002", "APP-003", "APP-004", "APP-005", "APP-006", raw=True, weight=100)
def kills_and_restarts(run: CheckRun) -> None:
    """Run the application without faults and with faults, and compare what its logs have."""
    try:
        trial = _Trial(run)
    except UsageError as error:
        hint = f"\n{NAME_INPUTS}" if "MissingSourceTopic" in str(error) else ""
        raise Unusable(f"{error}{hint}") from error
    replayed = run.replay.choices.plays if run.replay else []
    for number in replayed or range(run.settings.limits.application_runs):
        trial.run_with_faults(number)
    trial.report()


class _Trial:
    """The runs of an application in one check.

    Args:
        run: the check.

    Raises:
        UsageError: the application cannot be run, even without faults.
    """

    def __init__(self, run: CheckRun) -> None:
        self._run = run
        self._file = read_application(Path(run.subject.name))
        build(self._file)
        # All runs of a day have the same times, so that windows are the same.
        today = int(time.time() * 1000) // DAY_MS * DAY_MS
        self._records = self._file.records(run.seed, today)
        self._tried: set[str] = set()
        self._unjudged: dict[str, str] = {}
        self._faults = 0
        self._steady: str | None = None
        self._reference = self._played([])
        self._require_sound(self._reference)
        self._judge_invariants(self._reference, _Faults(None, FAULTLESS))

    def run_with_faults(self, number: int) -> None:
        """Run the application with the faults of a number, and record what that breaks."""
        random = Random(derive_seed(self._run.seed, "faults", number))
        faults = draw_faults(self._file, len(self._records), random)
        try:
            played = self._played(faults)
        except NotRunningError as error:
            tried = _Faults(number, told(faults))
            self._record(tried, "APP-006", "does-not-come-back", (RUNS_AGAIN, str(error)))
            return
        happened = [each for at, each in enumerate(faults) if at not in played.undone]
        if not happened:
            return
        self._faults += len(happened)
        kinds = self._run.evidence.crash_points
        kills = sum(isinstance(each, Crash) for each in happened)
        kinds[KILLS] = kinds.get(KILLS, 0) + kills
        tried = _Faults(number, told(happened))
        self._judge_return(played, tried)
        self._judge_logs(played, tried)
        self._judge_invariants(played, tried)

    def report(self) -> None:
        """Write down what was tried, and why the rest was not."""
        evidence = self._run.evidence
        own = compared(self._file, self._reference.logs) | {"APP-006"}
        never = "no fault came about: the run ended before its moment"
        for each in self._run.check.requirements:
            if self._steady:
                evidence.untried[each] = self._steady
            elif not self._faults:
                evidence.untried[each] = never
            elif each not in own:
                evidence.untried[each] = "the run without faults has nothing of the kind"
        if self._steady:
            evidence.untried.pop("APP-006", None)
        evidence.exercised |= own - evidence.untried.keys()
        self._report_invariants()

    def _report_invariants(self) -> None:
        """A requirement of the runtime was tried if all its invariants were."""
        evidence, exactly_once = self._run.evidence, self._file.exactly_once
        for each in INVARIANTS:
            if not each(LogHistory(exactly_once=exactly_once)).observers:
                continue
            evidence.exercised.add(each.requirement)
            if each.name in self._unjudged:
                evidence.untried[each.requirement] = f"not judged: {self._unjudged[each.name]}"
            elif each.name not in self._tried:
                evidence.untried[each.requirement] = f"no run showed that {each.situation}"
        evidence.exercised -= evidence.untried.keys()

    def _played(self, faults: Sequence[AnyFault]) -> Played:
        place = self._run.new_directory()
        try:
            played = play_application(self._file, self._records, faults, place)
        finally:
            self._run.look_for_room()
            shutil.rmtree(place.parent, ignore_errors=True)
        self._run.evidence.examples += 1
        self._run.evidence.operations += len(played.recorded.events)
        return played

    def _require_sound(self, reference: Played) -> None:
        """Raise UsageError if a run without faults shows nothing to compare with."""
        name = self._file.path.name
        if reference.wrong:
            raise UsageError(f"{name}: in a run without faults, {reference.wrong[0]}")
        if not reference.has_come_to_rest:
            behind = reference.behind or "a task is not running, or output is still written"
            raise UsageError(
                f"{name}: a run without faults does not come to rest (rests_s is "
                f"{self._file.application.rests_s:g}): {behind}. Commit more often "
                "(commit.interval.ms), or raise rests_s."
            )
        for output in self._file.outputs:
            if not any(each.rpartition("-")[0] == output.topic for each in reference.logs):
                raise UsageError(
                    f"{name}: a run without faults writes nothing to the output {output.topic}. "
                    "Correct its name, or send input that leads to output."
                )

    def _judge_return(self, played: Played, tried: _Faults) -> None:
        if played.wrong:
            self._record(tried, "APP-006", "ended", (RUNS_AGAIN, played.wrong[0]))
        elif not played.has_come_to_rest:
            found = played.behind or "a task that does not run, or output without an end"
            seconds = f"{self._file.application.rests_s:g} s"
            patience = (
                f"given up after {seconds} of silence (rests_s), or five times as long. A producer "
                f"with a transaction.timeout.ms of {seconds} or more asks for a longer rests_s"
            )
            errors = "".join(f"\n  {each}" for each in played.errors)
            wrote = f". The instances wrote these errors:{errors}" if errors else ""
            self._record(tried, "APP-006", "stuck", (RUNS_AGAIN, f"{found}; {patience}{wrote}"))

    def _judge_logs(self, played: Played, tried: _Faults) -> None:
        if not played.has_come_to_rest:
            # What is still to come is not lost.
            return
        found = differences(self._file, self._reference.logs, played.logs)
        if not found or self._is_unsteady():
            return
        for each in found:
            shape = f"{each.shape}-{shape_of_text(each.topic)}"
            self._record(tried, each.requirement, shape, (each.expected, each.found))

    def _is_unsteady(self) -> bool:
        """Whether two runs without faults differ, so that faults are not to blame."""
        if self._steady is None:
            other = self._played([])
            found = differences(self._file, self._reference.logs, other.logs)
            self._steady = ""
            if found:
                first = found[0]
                self._steady = (
                    "two runs without faults differ, so nothing can be compared: "
                    f"{first.expected}, and then {first.found}"
                )
        return bool(self._steady)

    def _judge_invariants(self, played: Played, tried: _Faults) -> None:
        # An application that is stuck keeps Kafka Streams from what it must do in the end.
        judged = judgement_of(played.recorded, has_ended=played.has_come_to_rest)
        self._tried |= judged.tried
        self._unjudged.update(judged.unjudged)
        for each in judged.violations:
            found = f"{each.finding}. {OF_KAFKA}"
            shape = shape_of_invariant(each.invariant)
            self._record(tried, each.requirement, shape, (each.invariant, found))

    def _record(self, tried: _Faults, requirement: str, shape: str, texts: tuple[str, str]) -> None:
        """Record a broken promise, once for each shape of it, with what was expected and found."""
        run = self._run
        if not run.is_new(requirement, shape):
            return
        violation = violation_of(requirement, shape)
        plays = [] if tried.number is None else [tried.number]
        program = verifying_program(
            run.subject.name,
            profile=run.settings.profile,
            only=[requirement],
            seed=run.settings.seed,
        )
        run.record(violation(tried.how, *texts, program), SavedChoices(plays=plays))
