"""Runs one check against one subject, in the process that was forked for it."""

from __future__ import annotations

import contextlib
import re
import shutil
import time
import traceback
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import msgspec
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from msgspec import Struct, field

from streamproof.conformance.catalogue import load_catalogue
from streamproof.conformance.generators import Generators, mine_literals
from streamproof.conformance.heartbeat import Status
from streamproof.conformance.lab import Lab
from streamproof.conformance.registry import Check
from streamproof.conformance.saved_failures import Choices, Replay
from streamproof.conformance.settings import Settings, derive_seed
from streamproof.conformance.shapes import MOST_SHAPES, shape_of_words
from streamproof.conformance.subject import Subject
from streamproof.conformance.trial import Trial
from streamproof.conformance.value_codec import KeptExamples
from streamproof.conformance.violations import Skipped, SubjectRaised, Violation, brief

__all__ = ["CheckOutcome", "CheckRun", "Effort", "Evidence", "Finding", "run_check"]


class Evidence(Struct, kw_only=True):
    """How much was tried.

    Attributes:
        examples: generated programs, or one for a plain example.
        operations: calls on the subject.
        crash_points: real kills by kind of crash point.
        exercised: the requirements that were put to the test and held at least once.
        reached: names of what was reached, so that a search can tell whether it still learns:
            calls after each other with their kinds of answers, places to crash at, states.
        situations: how often what is interesting came about in simulated worlds, by name; what
            never did is 0.
        digest: stands for everything that happened in simulated worlds; empty without any.
    """

    examples: int = 0
    operations: int = 0
    crash_points: dict[str, int] = field(default_factory=dict)
    exercised: set[str] = field(default_factory=set)
    reached: set[str] = field(default_factory=set)
    situations: dict[str, int] = field(default_factory=dict)
    digest: str = ""


class Effort(Struct, frozen=True, kw_only=True):
    """What a check had spent when it found a promise broken, before it made the failure small.

    Attributes:
        seconds: since the check began.
        examples: programs and crashes, the last one included.
        crashes: how many of them were real kills or losses of power.
    """

    seconds: float
    examples: int
    crashes: int


class Finding(Struct, frozen=True, kw_only=True):
    """A broken promise, as a check reports it.

    Attributes:
        shape: in which way it is broken; see :mod:`streamproof.conformance.shapes`.
        choices: how to break it again.
    """

    requirement: str
    tried: str
    expected: str
    found: str
    program: str
    shape: str = ""
    choices: Choices = Choices()


class CheckOutcome(Struct, frozen=True, kw_only=True):
    """What one check found out.

    Attributes:
        findings: broken promises, at most one of a shape for each requirement.
        first: what it took to find each requirement broken for the first time.
        skipped: why the check could not be done on this machine; empty if it was done.
        suite_error: the traceback of a fault of the suite itself; empty if there was none.
        subject_error: how the subject kept the check from an answer: it hung, or died.
        round: in which round of the search it ran; the first is 0.
        replayed: the name of the saved failure that was made again, if it was for that.
    """

    check: str
    evidence: Evidence
    findings: list[Finding] = field(default_factory=list)
    first: dict[str, Effort] = field(default_factory=dict)
    skipped: str = ""
    suite_error: str = ""
    subject_error: str = ""
    duration_s: float = 0.0
    round: int = 0
    replayed: str = ""


class CheckRun:
    """One check, one subject, and a directory of its own to work in.

    Args:
        replay: a failure to be made again, instead of a search for new ones.
    """

    def __init__(
        self,
        check: Check,
        subject: Subject,
        settings: Settings,
        directory: Path,
        status: Status,
        *,
        replay: Replay | None = None,
    ) -> None:
        self.check = check
        self.subject = subject
        self.settings = settings
        self.directory = directory
        self.status = status
        self.evidence = Evidence()
        self.findings: dict[tuple[str, str], Finding] = {}
        self.first: dict[str, Effort] = {}
        self.replay = replay
        self._examples = KeptExamples(replay.choices.examples if replay else ())
        self._trials = 0
        self._begun = time.monotonic()

    @property
    def seed(self) -> int:
        """The seed of this check."""
        return derive_seed(self.settings.seed, self.check.name, self.settings.round)

    @property
    def exact(self) -> bool:
        """Whether a crash must leave the content of exactly one commit.

        Kafka 4.3 shipped offsets in the store, and not yet transactions.
        """
        return (
            self.settings.guarantee == "exactly-once"
            and self.settings.spec != "kafka-4.3"
            and self.subject.capabilities.transactional
        )

    def applies(self, requirement: str) -> bool:
        """Whether a requirement holds for this subject in this run."""
        return not load_catalogue()[requirement].why_not_applicable(
            self.subject.capabilities, self.settings.guarantee, self.settings.spec
        )

    def is_new(self, requirement: str, shape: str) -> bool:
        """Whether a requirement that applies has not been found broken in this shape yet.

        Once it has been found in 5 shapes, ``MOST_SHAPES``, no other one is new.
        """
        if (requirement, shape) in self.findings or not self.applies(requirement):
            return False
        return sum(each == requirement for each, _ in self.findings) < MOST_SHAPES

    def generators(self) -> Generators:
        """The strategies for this subject."""
        return Generators(mine_literals(self.subject.module))

    def new_directory(self) -> Path:
        """A new empty directory."""
        self._trials += 1
        directory = self.directory / f"t{self._trials}" / "task"
        directory.mkdir(parents=True)
        return directory

    @contextlib.contextmanager
    def trial(self, requirement: str | None = None) -> Iterator[Trial]:
        """A trial in a new directory; what the subject raises breaks the promise under test."""
        directory = self.new_directory()
        lab = Lab(self.subject, guarantee=self.settings.guarantee, directory=directory)
        trial = Trial(self, lab)
        trial.claim(requirement or self.check.requirements[0], self.check.tried)
        self.evidence.examples += 1
        try:
            yield trial
        except SubjectRaised as raised:
            self.noticed(raised.violation.requirement)
            raise raised.violation from raised
        finally:
            trial.close_all()
            shutil.rmtree(directory.parent, ignore_errors=True)

    def noticed(self, requirement: str) -> None:
        """Note what it took to find a promise broken, if it is the first time."""
        if requirement not in self.first:
            self.first[requirement] = Effort(
                seconds=time.monotonic() - self._begun,
                examples=self.evidence.examples,
                crashes=sum(self.evidence.crash_points.values()),
            )

    def record(self, violation: Violation, choices: Choices | None = None) -> None:
        """Keep the violation with the shortest program, of each shape of each requirement."""
        self.noticed(violation.requirement)
        finding = Finding(
            requirement=violation.requirement,
            tried=violation.tried,
            expected=self._without_paths(violation.expected),
            found=self._without_paths(violation.found),
            program=self._without_paths(violation.program),
            shape=violation.shape or shape_of_words(violation.expected, violation.found),
            choices=choices or Choices(),
        )
        key = (finding.requirement, finding.shape)
        known = self.findings.get(key)
        if known is None or len(finding.program) < len(known.program):
            self.findings[key] = finding

    def _without_paths(self, text: str) -> str:
        """A text without the names of our temporary directories, which differ from run to run."""
        return re.sub(rf"{re.escape(str(self.directory))}/t\d+/task", "<task directory>", text)

    def run_property(self, body: Callable[..., None], strategies: dict[str, Any]) -> None:
        """Run a property many times with generated arguments, and shrink what fails."""

        def once(**arguments: Any) -> None:
            with self.trial() as trial:
                body(trial, **arguments)
            if self.settings.round:
                # The first round is the same with and without a search that goes on.
                hypothesis.target(float(len(trial.reached)), label="reached")

        test = hypothesis.given(st.fixed_dictionaries(strategies))(lambda drawn: once(**drawn))
        # A seed switches the database off, so that the settings come after it.
        test = hypothesis.seed(self.seed)(test)
        self.shrinking(self.hypothesis_settings(self.settings.limits.examples)(test))

    def shrinking(self, test: Callable[[], Any]) -> None:
        """Run a Hypothesis test and record the shrunk violations that it ends with."""
        with hypothesis.reporting.with_reporter(lambda _: None):
            try:
                test()
            except unittest.SkipTest:
                # What was saved is no input of this check any more, so that it cannot fail.
                if self.replay is None:
                    raise
            except BaseException as error:
                violations = list(_violations_in(error))
                if not violations:
                    raise
                choices = Choices(examples=self._examples.take())
                for violation in violations:
                    self.record(violation, choices)

    def hypothesis_settings(self, examples: int, steps: int = 50) -> hypothesis.settings:
        """Settings under which a run depends on its seed alone, or repeats what was saved."""
        search = (Phase.generate, Phase.target, Phase.shrink)
        return hypothesis.settings(
            max_examples=examples,
            stateful_step_count=steps,
            database=self._examples,
            deadline=None,
            derandomize=False,
            print_blob=False,
            phases=search if self.replay is None else (Phase.reuse,),
            suppress_health_check=list(HealthCheck),
        )


def _violations_in(error: BaseException) -> Iterator[Violation]:
    """The violations that a Hypothesis test ended with: one, several, or a flaky one."""
    if isinstance(error, Violation):
        yield error
    elif isinstance(error, SubjectRaised):
        yield error.violation
    elif isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _violations_in(inner)
    elif error.__cause__ is not None:
        yield from _violations_in(error.__cause__)
    elif error.__context__ is not None:
        yield from _violations_in(error.__context__)


def run_check(run: CheckRun) -> CheckOutcome:
    """Run the check to its end, whatever it ends with."""
    started = time.monotonic()
    skipped = suite_error = ""
    check = run.check
    try:
        saved = run.replay.choices if run.replay else Choices()
        if run.replay is not None and (saved.crashes or saved.losses):
            _crash_again(run, run.replay)
        elif saved.worlds:
            _simulate_again(run, saved)
        elif check.raw:
            check.function(run)
        elif check.given is not None:
            run.run_property(check.function, check.given(run.generators()))
        else:
            with run.trial() as trial:
                check.function(trial)
    except Violation as violation:
        run.record(violation)
    except Skipped as reason:
        skipped = str(reason)
    except SubjectRaised as raised:
        run.record(raised.violation)
    except Exception as error:
        suite_error = f"{brief(error)}\n{traceback.format_exc()[-4000:]}"
    return CheckOutcome(
        check=check.name,
        evidence=run.evidence,
        findings=list(run.findings.values()),
        first=run.first,
        skipped=skipped,
        suite_error=suite_error,
        duration_s=time.monotonic() - started,
        round=run.settings.round,
        replayed=run.replay.name if run.replay else "",
    )


def _simulate_again(run: CheckRun, saved: Choices) -> None:
    """Repeat a simulated world."""
    # Whoever simulates nothing needs no simulator.
    from streamproof.conformance.simulated.world_campaign import WorldCampaign

    WorldCampaign(run).repeat(saved)


def _crash_again(run: CheckRun, replay: Replay) -> None:
    """Repeat a crash; what it breaks now is the concern of the requirement that it broke then."""
    # Whoever runs no crash needs no crash engine.
    from streamproof.conformance.crash.kill_campaign import Campaign
    from streamproof.conformance.power.power_campaign import PowerCampaign

    campaign = PowerCampaign if replay.choices.losses else Campaign
    campaign(run, 0).repeat(replay.choices)
    for finding in list(run.findings.values()):
        del run.findings[finding.requirement, finding.shape]
        kept = msgspec.structs.replace(finding, requirement=replay.requirement)
        run.findings[kept.requirement, kept.shape] = kept
