"""The run of one check against one subject, in the process that was forked for the check."""

from __future__ import annotations

import contextlib
import shutil
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from streamproof.conformance.check_context import CheckContext
from streamproof.conformance.check_registry import Check
from streamproof.conformance.generators import Generators, mine_literals
from streamproof.conformance.lab import Lab
from streamproof.conformance.program_shrinking import shorter, too_long
from streamproof.conformance.running_call import RunningCall
from streamproof.conformance.saved_failures import Replay, SavedChoices
from streamproof.conformance.settings import Settings, derive_seed
from streamproof.conformance.subject import Subject
from streamproof.conformance.trial import Trial
from streamproof.conformance.value_codec import KeptExamples
from streamproof.conformance.violations import SubjectRaised, Violation
from streamproof.errors import StreamproofError

__all__ = ["CheckRun"]


class CheckRun(CheckContext):
    """A check with the means to try a subject: trials, and properties of Hypothesis."""

    def __init__(
        self,
        check: Check,
        subject: Subject,
        settings: Settings,
        directory: Path,
        status: RunningCall,
        *,
        replay: Replay | None = None,
    ) -> None:
        super().__init__(check, subject, settings, directory, status, replay=replay)
        self._examples = KeptExamples(replay.choices.examples if replay else ())

    def record(self, violation: Violation, choices: SavedChoices | None = None) -> None:
        """Keep a violation, with a shorter program if its own is too long."""
        shape = violation.shape
        if too_long(violation.program) and self.is_new(violation.requirement, shape):

            def make_lab(subject: Subject) -> Lab:
                guarantee = self.settings.guarantee
                return Lab(subject, guarantee=guarantee, directory=self.new_directory())

            # A full disk, say, must not take the finding away: its program is long, then.
            with contextlib.suppress(OSError, ValueError, StreamproofError):
                violation.program = shorter(violation.program, self.subject, make_lab, self.status)
        super().record(violation, choices)

    def generators(self) -> Generators:
        """The strategies for this subject."""
        return Generators(mine_literals(self.subject.module))

    @contextlib.contextmanager
    def trial(self, requirement: str | None = None) -> Iterator[Trial]:
        """A trial in a new directory; an exception of the subject breaks the promise under test."""
        directory = self.new_directory()
        trial = Trial(self, self.lab(directory))
        trial.claim(requirement or self.check.requirements[0], self.check.tried)
        self.evidence.examples += 1
        try:
            yield trial
        except SubjectRaised as raised:
            self.noticed(raised.violation.requirement)
            raise raised.violation from raised
        finally:
            self.look_for_room()
            trial.close_all()
            shutil.rmtree(directory.parent, ignore_errors=True)

    def run_property(self, body: Callable[..., None], strategies: dict[str, Any]) -> None:
        """Run a property many times with generated arguments, and shrink what fails."""

        def once(**arguments: Any) -> None:
            with self.trial() as trial:
                body(trial, **arguments)
            if self.settings.round:
                # The first round must be the same with and without a time budget.
                hypothesis.target(float(len(trial.reached)), label="reached")

        test = hypothesis.given(st.fixed_dictionaries(strategies))(lambda drawn: once(**drawn))
        # A seed switches the database off, so the settings must come after the seed.
        test = hypothesis.seed(self.seed)(test)
        self.shrinking(self.hypothesis_settings(self.settings.limits.examples)(test))

    def run_programs(
        self, new_body: Callable[[], Callable[[DataObject], None]], programs: int
    ) -> None:
        """Run programs that draw what they do, each from a seed of its own, and shrink failures.

        Of the examples of one seed, Hypothesis makes the first as small as possible, and most of
        the others alike. So each program is the second example of its seed.

        Args:
            new_body: makes a function that draws and runs one program.
            programs: the number of programs.
        """

        def seeded(number: int, *phases: Phase) -> Callable[[], None]:
            body = new_body()

            # Hypothesis wants a function, and asks it for its name.
            def program(data: DataObject) -> None:
                body(data)

            test = hypothesis.given(st.data())(program)
            test = hypothesis.seed(derive_seed(self.seed, "program", number))(test)
            settings = self.hypothesis_settings(2)
            if phases:
                settings = hypothesis.settings(settings, phases=phases, report_multiple_bugs=False)
            return settings(test)

        if self.replay is not None:
            self.shrinking(seeded(0))
            return
        shrunk = 0
        for number in range(programs):
            if self._finds_new(seeded(number, Phase.generate)):
                self.shrinking(seeded(number, Phase.generate, Phase.shrink))
                shrunk += 1
            if shrunk == self.settings.limits.store_failures:
                break

    def _finds_new(self, test: Callable[[], Any]) -> bool:
        """Whether a test fails in a way that this check has not found yet."""
        with hypothesis.reporting.with_reporter(lambda _: None):
            try:
                test()
            except BaseException as error:
                found = list(_violations_in(error))
                if not found:
                    raise
                return any(self.is_new(each.requirement, each.shape) for each in found)
        return False

    def shrinking(self, test: Callable[[], Any]) -> None:
        """Run a Hypothesis test, and record its shrunk violations."""
        with hypothesis.reporting.with_reporter(lambda _: None):
            try:
                test()
            except unittest.SkipTest:
                # The check has changed and rejects the saved choices, so nothing can fail.
                if self.replay is None:
                    raise
            except BaseException as error:
                violations = list(_violations_in(error))
                if not violations:
                    raise
                choices = SavedChoices(examples=self._examples.take())
                for violation in violations:
                    self.record(violation, choices)

    def hypothesis_settings(self, examples: int, steps: int = 50) -> hypothesis.settings:
        """Settings that make a run depend on its seed alone, or replay saved choices."""
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
