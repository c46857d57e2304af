"""A failing run made small: the same promise is broken in the same way, by less.

A run follows from its plan and its choices. The plan becomes plainer first: fewer processes,
records and faults, settings as they are by default. Then the choices: ranges of them are set to 0,
the plainest there is, from coarse to fine, and what is left is lowered. Whatever is tried counts
only if it breaks the same requirement, found by the same invariant. Nothing here is left to
chance: the same failing run becomes the same small one.

Source: Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input (2002).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

from streamproof.errors import UsageError
from streamproof.scenarios.plan_shrinking import plainest, with_smaller_numbers
from streamproof.scenarios.recorded_run import RecordedRun
from streamproof.scenarios.slicing import what_matters
from streamproof.sim.choices import Choices
from streamproof.sim.exploration import Simulate
from streamproof.sim.invariants import InvariantViolation
from streamproof.sim.simulation import Outcome, run
from streamproof.sim.trace import Event, Watcher
from streamproof.sim.world_plan import Plan

__all__ = [
    "MOST_RUNS",
    "Failing",
    "Shape",
    "ShrinkStep",
    "Shrunk",
    "shape_of",
    "shrink",
]

MOST_RUNS = 600
"""Worlds that are run to make one failure smaller, unless something else is asked for."""

RESEEDED = 2
"""If a smaller plan does not fail with the choices of the larger one, so many others are tried."""

SLACK = 1.2
"""A plainer plan may lead to so many times as many events: its choices are made smaller later. It
never leads to more than there were at first."""

SMALL_RECORDS, SMALL_MS = (3, 20), 15_000
"""A small world has so many records for each input, and faults for so long, at most."""

SMALL_SEEDS = 8
"""The same failure is looked for with so many seeds in each of some small worlds."""

MOST_SMALL_EVENTS = 1_000
"""A world that is small from the start has no more events than that."""

COARSE = 8
"""So many ranges of choices are set to 0 at first, and so many times as many in each next round."""

ODDS = 1 << 16
"""So many options has a choice whether something happens; the largest numbers mean that it does."""

IMPROBABLE = (0.01, 0.1, 0.3, 0.6)
"""What happens with a probability of no more than that does not happen if the choice is less than
the rest: so it may as well be 0. The least comes first, as it changes most."""


class Shape(NamedTuple):
    """What tells one failure from another: a requirement, and the invariant that found it."""

    requirement: str
    invariant: str


def shape_of(violation: InvariantViolation) -> Shape:
    """The shape of a failure."""
    return Shape(violation.requirement, violation.invariant)


@dataclass(frozen=True)
class Failing:
    """A run that breaks a promise.

    Attributes:
        name: what was run, as ``seed 7``.
        plan: what the run is like.
        choices: all choices that were made after the plan was drawn.
        defects: the mistakes that the runtime makes.
        simulate: runs a world.
    """

    name: str
    plan: Plan
    choices: Sequence[int]
    defects: tuple[str, ...] = ()
    simulate: Simulate = run


class ShrinkStep(NamedTuple):
    """How far shrinking has come.

    Attributes:
        runs: worlds that were run so far.
        events: of the smallest run so far.
        choices: of the smallest run so far that are not 0.
    """

    runs: int
    events: int
    choices: int


@dataclass(frozen=True)
class Shrunk:
    """The smallest run that was found.

    Attributes:
        plan: what it is like.
        choices: all choices after the plan, without zeros at the end.
        defects: the mistakes that the runtime makes.
        violations: what does not hold; the first is of the shape that was asked for.
        runs: how many worlds were run for it.
        played: the run, with all that happened.
        matters: the sequences of the events that matter.
    """

    plan: Plan
    choices: Sequence[int]
    defects: tuple[str, ...]
    violations: Sequence[InvariantViolation]
    runs: int
    played: RecordedRun
    matters: frozenset[int]


def shrink(
    world: Failing, most_runs: int = MOST_RUNS, progress: Callable[[ShrinkStep], None] | None = None
) -> Shrunk:
    """Make a failing run small.

    Args:
        world: the run.
        most_runs: so many worlds are run for it at most, and one more to tell the result.
        progress: is told after each of them.

    Raises:
        UsageError: nothing is broken in it.
    """
    search = _Search(world, most_runs, progress)
    search.try_small_worlds()
    parts, before = 1, None
    # What did not help once may help when other things are plainer.
    while before != (search.plan, search.values) or parts < len(search.values):
        before, parts = (search.plan, search.values), parts * COARSE
        search.make_numbers_smaller()
        search.make_plan_plainer()
        search.set_alike_to_zero()
        search.set_ranges_to_zero(parts)
    search.lower()
    return _told(world, search)


def _told(world: Failing, search: _Search) -> Shrunk:
    """The smallest run once more, with all that happens in it."""
    events: list[Event] = []
    choices = Choices.recorded(search.values)
    outcome = world.simulate(choices, search.plan, defects=world.defects, watchers=[events.append])
    pairs = choices.pairs
    while pairs and not pairs[-1][1]:
        pairs.pop()
    played = RecordedRun(
        world.name,
        search.plan,
        world.defects,
        events,
        outcome.violations,
        outcome.digest,
        pairs,
    )
    return Shrunk(
        search.plan,
        [choice for _, choice in pairs],
        world.defects,
        outcome.violations,
        search.runs,
        played,
        what_matters(played),
    )


class _TooLongError(Exception):
    """A run has become longer than one that is to be smaller may be."""


class _Search:
    """The smallest run so far, and what is tried to find a smaller one.

    Attributes:
        plan: of the smallest run.
        values: its choices, without zeros at the end.
        runs: how many worlds were run.
    """

    def __init__(
        self, world: Failing, most_runs: int, progress: Callable[[ShrinkStep], None] | None
    ) -> None:
        self._world = world
        self._most_runs = most_runs
        self._progress = progress
        self._tried: set[tuple[Plan, tuple[int, ...]]] = set()
        self.plan = world.plan
        self.values: list[int] = list(world.choices)
        self._offered: list[int] = []
        self.runs = 0
        self._events = 0
        # Whether the choices are still as a seed has drawn them.
        self._is_raw = True
        choices = Choices.recorded(self.values)
        outcome = world.simulate(choices, world.plan, defects=world.defects)
        if not outcome.violations:
            raise UsageError(
                f"{world.name} breaks no promise with the plan and the choices that were given: "
                "there is nothing to make smaller. Give those of the run that failed."
            )
        self._shape = shape_of(outcome.violations[0])
        self._first_events = outcome.events
        self._take(world.plan, choices, outcome)

    def try_small_worlds(self) -> None:
        """Look for the same failure in worlds that are small from the start."""
        was = self.plan
        for instances, most_records in product(range(1, was.instances + 1), SMALL_RECORDS):
            plan = replace(
                was,
                partitions=1,
                instances=instances,
                threads=1,
                workload=replace(was.workload, records=min(most_records, was.workload.records)),
                safety_ms=min(was.safety_ms, SMALL_MS),
            )
            # The one with the fewest events is taken.
            found = [
                self._try(
                    plan,
                    Choices.seeded(seed, recording=True),
                    min(self._events, MOST_SMALL_EVENTS),
                    (-1, seed),
                )
                for seed in range(SMALL_SEEDS)
            ]
            if any(found):
                return

    def make_plan_plainer(self) -> None:
        """Take the plan closer to its defaults, with fewer processes and faults."""
        plainest(self.plan, self._fails_with, self._most_runs)

    def make_numbers_smaller(self) -> None:
        """Send fewer records, and let faults happen for a shorter time."""
        with_smaller_numbers(self.plan, self._fails_with)

    def _fails_with(self, plan: Plan) -> bool:
        """Whether another plan breaks the same, with these choices or with others."""
        was = self.plan
        if plan.safety_ms > was.safety_ms or plan.workload.records > was.workload.records:
            # As it is by default is plainer, and longer.
            return False
        most = min(round(self._events * SLACK) + 20, self._first_events)
        if self._try(plan, Choices.recorded(self.values), most, tuple(self.values)):
            return True
        # Settings decide little of what follows; and choices that were worked on are worth more.
        return (
            self._is_raw
            and plan.config == was.config
            and any(
                self._try(plan, Choices.seeded(seed, recording=True), most, (-1, seed))
                for seed in range(RESEEDED)
            )
        )

    def set_alike_to_zero(self) -> None:
        """Set choices to 0 that stand for the same: those that decide nothing, and of one kind."""
        self._is_raw = False
        for share in IMPROBABLE:
            least = round(ODDS * (1 - share))
            pairs = enumerate(zip(self._offered, self.values, strict=True))
            if self._without([at for at, (of, value) in pairs if of == ODDS and 0 < value < least]):
                break
        # Choices of the same number of options are mostly of the same place in the runtime.
        for options in sorted(set(self._offered) - {ODDS}):
            self._without([at for at in self._places() if self._offered[at] == options])

    def set_ranges_to_zero(self, parts: int) -> None:
        """Set ranges of choices to 0: the last ones first, from coarse to fine.

        Args:
            parts: how many ranges there are at last; more are not tried.
        """
        size = len(self._places())
        finest = max(size // parts, 1)
        while size >= finest:
            # What comes early decides what comes late, so that late ones do not move early ones.
            end = len(self._places())
            while end > 0:
                places = self._places()
                start = max(end - size, 0)
                self._without(places[start:end])
                end = start
            size //= 2

    def _without(self, places: Sequence[int]) -> bool:
        values = self.values.copy()
        for place in places:
            values[place] = 0
        return bool(places) and self._try_values(values)

    def lower(self) -> None:
        """Lower single choices to the least that still fails."""
        for place in reversed(self._places()):
            least = 0
            while place < len(self.values) and self.values[place] - least > 1:
                middle = (self.values[place] + least) // 2
                values = self.values.copy()
                values[place] = middle
                if not self._try_values(values):
                    least = middle

    def _places(self) -> list[int]:
        """Where choices are that are not the plainest."""
        return [place for place, value in enumerate(self.values) if value]

    def _try_values(self, values: Sequence[int]) -> bool:
        return self._try(self.plan, Choices.recorded(values), self._events, tuple(values))

    def _try(self, plan: Plan, choices: Choices, most_events: int, key: tuple[int, ...]) -> bool:
        """Run a world; take it over if it breaks the same, and has no more events than that."""
        if self.runs >= self._most_runs or (plan, key) in self._tried:
            return False
        self._tried.add((plan, key))
        self.runs += 1
        outcome = self._bounded(plan, choices, most_events)
        fails = outcome is not None and self._is_same(outcome)
        if outcome is not None and fails:
            self._take(plan, choices, outcome)
        if self._progress is not None:
            self._progress(ShrinkStep(self.runs, self._events, len(self._places())))
        return fails

    def _bounded(self, plan: Plan, choices: Choices, most_events: int) -> Outcome | None:
        """What came of a world; ``None`` if it takes too long, or cannot be run."""
        most_choices = 2 * len(self.values) + 10 * most_events

        def watch(event: Event) -> None:
            if event.sequence > most_events or choices.count > most_choices:
                raise _TooLongError

        watchers: list[Watcher] = [watch]
        try:
            return self._world.simulate(
                choices, plan, defects=self._world.defects, watchers=watchers
            )
        except Exception:  # noqa: BLE001 - whatever it is, it is not the failure that is looked for
            return None

    def _is_same(self, outcome: Outcome) -> bool:
        return bool(outcome.violations) and shape_of(outcome.violations[0]) == self._shape

    def _take(self, plan: Plan, choices: Choices, outcome: Outcome) -> None:
        self.plan, self._events = plan, outcome.events
        # Choices that were not asked for any more are gone, and so are zeros at the end.
        self.values, self._offered = list(choices.drawn), list(choices.offered)
        while self.values and not self.values[-1]:
            self.values.pop()
            self._offered.pop()
