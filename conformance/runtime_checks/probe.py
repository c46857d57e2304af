"""The tools of the runtime checks: a probe records each call and shows the calls of a failure."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from hypothesis import strategies as st

from streamproof.conformance.check_registry import check
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.results import Guarantee, Spec
from streamproof.conformance.runtime_checks.decision_programs import (
    Call,
    asking,
    judging,
    source_of,
    text,
)
from streamproof.conformance.runtime_checks.world_programs import within
from streamproof.conformance.settings import derive_seed
from streamproof.conformance.subject import defect_of
from streamproof.conformance.violations import Skipped, brief, violation_of
from streamproof.sim.choices import Choices
from streamproof.sim.plan_space import PlanSpace, draw
from streamproof.sim.simulation import Direct, run
from streamproof.sim.trace import Event, Watcher
from streamproof.sim.world import World
from streamproof.sim.world_plan import Plan

__all__ = ["Probe", "decision", "scripted"]

ALIKE = 8
"""The number of examples of a seed. A decision takes no time, and its mistakes often show where two
of its values are equal, or small."""

SHOWN_EVENTS = 12
"""The number of last events of a world that a failure shows."""

P = ParamSpec("P")
R = TypeVar("R")


class Probe:
    """One try of a check.

    Args:
        run: the run that collects evidence and violations.
        requirement: the tested requirement; see ``about``.
        drawn: the drawn values of the check, if it draws any.

    Attributes:
        events: the events of the worlds of this try.
    """

    def __init__(self, run: CheckRun, requirement: str, drawn: Mapping[str, Any]) -> None:
        self._run = run
        self._requirement = requirement
        # As they are before a function can change them.
        self._drawn = source_of(dict(drawn)) if drawn else None
        self._calls: list[Call] = []
        self.events: list[Event] = []
        run.evidence.examples += 1

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the run."""
        return self._run.settings.guarantee

    @property
    def spec(self) -> Spec:
        """The normative text of the run."""
        return self._run.settings.spec

    def about(self, requirement: str) -> None:
        """Name the requirement that the following demands test."""
        self._requirement = requirement

    def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Ask for a decision. The function must not raise."""
        self._run.evidence.operations += 1
        self._calls.append(Call.to(function, args, kwargs))
        try:
            answer = function(*args, **kwargs)
        except Exception as error:
            raise self._violation("an answer", f"raised {brief(error)}") from error
        self._calls[-1] = self._calls[-1]._replace(answer=answer)
        return answer

    def expect(self, expected: object, found: object) -> None:
        """Demand that two values are equal."""
        if expected != found:
            program = asking(self._calls, expected, found)
            raise self._violation(text(expected), text(found), program)

    def demand(self, expected: str, found: str = "the opposite", *, holds: bool) -> None:
        """Demand a condition that is described in words."""
        if not holds:
            raise self._violation(expected, found)

    def need(self, situation: str, *, holds: bool) -> None:
        """End the check untried, unless its world has the situation that the check is about.

        Raises:
            Skipped: the situation did not come about.
        """
        if not holds:
            raise Skipped(f"the world of the check did not have {situation}")

    def skip(self, reason: str) -> None:
        """Say that the requirement was not put to the test, and why."""
        self._run.evidence.untried[self._requirement] = reason

    def defect(self, name: str) -> bool:
        """Whether the runtime under test makes this mistake."""
        return name == defect_of(self._run.subject.name)

    @property
    def defects(self) -> list[str]:
        """The mistakes that the runtime under test makes: one, or none."""
        defect = defect_of(self._run.subject.name)
        return [defect] if defect else []

    def world(self) -> World:
        """A new world without faults, but with the defect of the subject in it."""
        choices = Choices.seeded(self._run.seed)
        return World(choices, [self.note], activation=0, defects=self.defects)

    def play(self, plan: Plan, direct: Direct | None = None) -> list[Event]:
        """Run a whole application without faults, and return its events.

        Every choice is the plainest one, and the defect of the subject is in the world.

        Args:
            plan: the plan of the world.
            direct: starts a script, before the first event.
        """
        first = len(self.events)
        run(
            Choices.recorded([]),
            plan,
            defects=self.defects,
            invariants=(),
            watchers=[self.note],
            direct=direct,
        )
        return self.events[first:]

    def explore(self, space: PlanSpace, number: int, direct: Direct, watch: Watcher) -> None:
        """Run an application with faults, which a number and the seed of the run draw.

        The defect of the subject is in the world. No invariant judges it: the check does.

        Args:
            space: the plans that its plan is drawn from.
            number: the number of the world.
            direct: prepares it, before the first event.
            watch: gets each of its events.
        """
        choices = Choices.seeded(derive_seed(self._run.seed, "world", number))
        run(
            choices,
            draw(choices, within(space, self._run.settings)),
            defects=self.defects,
            invariants=(),
            watchers=[watch, self.note],
            direct=direct,
        )

    def new_directory(self) -> Path:
        """A new empty directory, for the files of real stores."""
        return self._run.new_directory()

    def of(self, *kinds: str) -> list[Event]:
        """The events of these kinds, of all worlds so far."""
        return [each for each in self.events if each.kind in kinds]

    def note(self, event: Event) -> None:
        """Take an event of a world of this try down, for the report of a failure."""
        self.events.append(event)
        self._run.evidence.operations += 1

    def _violation(self, expected: str, found: str, program: str = "") -> Exception:
        shape = "raised" if found.startswith("raised ") else "changed-answer"
        told = [f"  {each}" for each in self.events[-SHOWN_EVENTS:]]
        if told:
            found = "\n".join([found, "after these events:", *told])
        cause = violation_of(self._requirement, shape)
        run = self._run
        again = judging(
            run.check.name, self._calls, self._drawn, run.settings, defect_of(run.subject.name)
        )
        return cause(run.check.tried, expected, found, program or again)


Body = Callable[..., None]


def decision(*requirements: str, **strategies: st.SearchStrategy[Any]) -> Callable[[Body], Body]:
    """Register a property of pure functions as a check. It gets a probe and the drawn values."""

    def register(function: Body) -> Body:
        @functools.wraps(function)
        def drive(run: CheckRun) -> None:
            def once(drawn: dict[str, Any]) -> None:
                function(Probe(run, requirements[0], drawn), **drawn)
                run.evidence.exercised.update(requirements)

            drawn_from, seeds = st.fixed_dictionaries(strategies), run.settings.limits.examples
            run.run_seeded(lambda: once, drawn_from, seeds, alike=ALIKE)

        return check(*requirements, raw=True)(drive)

    return register


def scripted(*requirements: str) -> Callable[[Body], Body]:
    """Register a function that plays one situation as a check. It gets a probe."""

    def register(function: Body) -> Body:
        @functools.wraps(function)
        def drive(run: CheckRun) -> None:
            function(Probe(run, requirements[0], {}))
            run.evidence.exercised |= set(requirements) - run.evidence.untried.keys()

        return check(*requirements, raw=True)(drive)

    return register
