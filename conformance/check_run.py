"""The run of one check against one subject, in the process that was forked for the check."""

from __future__ import annotations

import contextlib
import shutil
import unittest
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy

from streamproof.conformance.check_context import CheckContext
from streamproof.conformance.check_registry import Check
from streamproof.conformance.generators import Generators, mine_literals
from streamproof.conformance.lab import Lab
from streamproof.conformance.program_runs import made_sure
from streamproof.conformance.program_shrinking import passes, shorter, too_long
from streamproof.conformance.program_text import fails_by_itself, only_shown
from streamproof.conformance.random_steps import EffortSpent
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
        self._seeds = 0

    def record(
        self,
        violation: Violation,
        choices: SavedChoices | None = None,
        *,
        is_large: bool = False,
        is_whole: bool = False,
    ) -> None:
        """Keep a violation, with a program that is as short and as sure as can be.

        ``is_whole`` programs have all that a check did before, and nobody has shortened them. Of a
        violation that ``is_large``, nobody has tried the program.
        """
        if is_large:
            violation.program = only_shown(violation.program)
        elif self.settings.shrinks and self._may_be_kept(violation):
            # A full disk, say, must not take the finding away: its program is long, then.
            with contextlib.suppress(OSError, ValueError, StreamproofError):
                violation.program = self._tried_out(violation, is_whole=is_whole)
        super().record(violation, choices, is_large=is_large)

    def _may_be_kept(self, violation: Violation) -> bool:
        """Whether the program of a violation is shorter than the known one, or surer."""
        known = self.known(violation)
        if known is None or not violation.program:
            return bool(violation.program)
        if fails_by_itself(known.program):
            return len(violation.program) < len(known.program)
        return violation.program not in known.program

    def _tried_out(self, violation: Violation, *, is_whole: bool) -> str:
        """The program of a violation, after runs with the subject and with right stores."""

        def make_lab(subject: Subject) -> Lab:
            guarantee = self.settings.guarantee
            return Lab(subject, guarantee=guarantee, directory=self.new_directory())

        program, is_remote = violation.program, self.subject.is_remote
        if violation.weaker not in ("", program) and not passes(
            program, self.subject, make_lab, self.status
        ):
            # The check has compared another form of the answer than the program reads.
            program = violation.weaker
        if is_whole or too_long(program):
            short = shorter(program, self.subject, make_lab, self.status)
            is_new = short != program
            sure = made_sure(short, self.new_directory(), is_remote=is_remote, is_new=is_new)
            # What a store keeps in its process may come from the programs that were run before.
            if not is_new or fails_by_itself(sure):
                return sure
        return made_sure(program, self.new_directory(), is_remote=is_remote)

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

        def once(drawn: dict[str, Any]) -> None:
            with self.trial() as trial:
                body(trial, **drawn)

        drawn_from, examples = st.fixed_dictionaries(strategies), self.settings.limits.examples
        self.run_seeded(lambda: once, drawn_from, examples)

    def run_programs(
        self, new_body: Callable[[], Callable[[DataObject], None]], programs: int
    ) -> None:
        """Run programs that draw what they do, and shrink failures.

        Args:
            new_body: makes a function that draws and runs one program.
            programs: the number of programs.
        """
        most_shrunk = self.settings.limits.store_failures
        # A program that does not run draws nothing, and Hypothesis then sees no other one to try.
        self.run_seeded(new_body, st.data(), programs, runs_all=True, most_shrunk=most_shrunk)

    def run_seeded(
        self,
        new_body: Callable[[], Callable[[Any], None]],
        strategy: SearchStrategy[Any],
        count: int,
        *,
        alike: int = 1,
        runs_all: bool = False,
        most_shrunk: int = 0,
    ) -> None:
        """Run examples that are drawn from a seed each, and shrink failures.

        Of the examples of one seed, Hypothesis makes the first as small as possible, and most of
        the others alike: 25 of them have a third of the values of 25 independent ones. So an
        example is the second one of its seed. The first one runs for one seed alone.

        Args:
            new_body: makes a function that runs one example.
            strategy: draws the example.
            count: the number of seeds.
            alike: the number of examples of a seed. Alike ones have values that are equal or small.
            runs_all: whether the first example runs for every seed.
            most_shrunk: the most failures to shrink; 0 for two of each requirement, and for those
                that come up while another one is shrunk.
        """

        def seeded(number: int, *phases: Phase) -> Callable[[], None]:
            body = new_body()
            skips = number > first and self.replay is None and not runs_all

            # Hypothesis wants a function, and asks it for its name.
            def example(drawn: Any) -> None:
                nonlocal skips
                if skips:
                    skips = False
                else:
                    body(drawn)

            test = hypothesis.given(strategy)(example)
            test = hypothesis.seed(derive_seed(self.seed, "program", number))(test)
            return self._settings(1 + alike, *phases, every=not most_shrunk)(test)

        def smallest(number: int) -> None:
            try:
                seeded(number, *phases)()
            except EffortSpent:
                self._examples = KeptExamples(self._examples.take())
                seeded(number, Phase.reuse)()

        # A check may have several properties, each with seeds of its own.
        first, self._seeds = self._seeds, self._seeds + count
        phases = (Phase.generate, Phase.shrink) if self.settings.shrinks else (Phase.generate,)
        if self.replay is not None:
            self.shrinking(seeded(first), is_drawn=True)
            return
        shrunk = 0
        for number in range(first, first + count):
            if self._finds_new(seeded(number, Phase.generate)):
                self.shrinking(partial(smallest, number), is_drawn=True)
                shrunk += 1
            if shrunk == (most_shrunk or 2 * len(self.check.requirements)):
                break

    def _finds_new(self, test: Callable[[], Any]) -> bool:
        """Whether a test fails in a way that this check has not found yet."""
        with _quiet():
            try:
                test()
            except BaseException as error:
                found = list(_violations_in(error))
                if not found:
                    raise
                return any(self.is_new(each.requirement, each.shape) for each in found)
        return False

    def shrinking(self, test: Callable[[], Any], *, is_drawn: bool = False) -> None:
        """Run a test, and record its violations.

        Hypothesis has shrunk the programs of a test that is drawn.
        """
        with _quiet():
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
                    self.record(violation, choices, is_whole=not is_drawn)

    def _settings(self, examples: int, *phases: Phase, every: bool) -> hypothesis.settings:
        """Settings that make a run depend on its seed alone, or replay saved choices.

        ``every`` failure that comes up is shrunk, or else the first alone.
        """
        return hypothesis.settings(
            max_examples=examples,
            database=self._examples,
            deadline=None,
            derandomize=False,
            print_blob=False,
            report_multiple_bugs=every,
            phases=phases if self.replay is None else (Phase.reuse,),
            suppress_health_check=list(HealthCheck),
        )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Let Hypothesis report nothing: neither what it draws, nor that large values have long texts.

    It warns only of some runs of a program, so a warning that is an error would end those alone.
    """
    with warnings.catch_warnings(), hypothesis.reporting.with_reporter(lambda _: None):
        warnings.filterwarnings("ignore", "Generating overly large repr")
        yield


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
