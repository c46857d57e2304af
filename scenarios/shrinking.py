"""Shrinks a failing run to a smaller run that breaks the same promise in the same way.

The plan and the choices of a run determine it. Shrinking first looks for the same failure in worlds
that are small from the start. Then it simplifies the plan: fewer processes, records and faults, and
default settings. Then it sets ranges of choices to 0, the plainest option, from coarse to fine, and
lowers the remaining choices. A candidate counts only if the same invariant finds the same
requirement broken. Shrinking is deterministic: the same failing run always gives the same small
run. The limits are numbers of worlds and events, not times.

Source: Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input (2002).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from streamproof.errors import UsageError
from streamproof.scenarios.plan_shrinking import plainest, with_smaller_numbers
from streamproof.scenarios.recorded_run import RecordedRun
from streamproof.scenarios.slicing import what_matters
from streamproof.scenarios.small_worlds import small_choices, small_plans
from streamproof.sim.choices import Choices
from streamproof.sim.exploration import Simulate
from streamproof.sim.invariants import InvariantViolation
from streamproof.sim.patches import Patch
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

MOST_RUNS = 3_000
"""The default number of worlds that one failure may cost."""

MOST_EVENTS = 600_000
"""The most events of all these worlds together, which take less than a minute."""

EVENTS_OF_A_START = 50
"""A world costs as much as these events before its first event."""

RESEEDED = 2
"""How many seeds are tried with a smaller plan that does not fail with the choices so far."""

SLACK = 10
"""How many events a plainer plan may add: shrinking its choices removes events later. No plan may
exceed the number of events of the original run."""

ROUNDS = (6, 12, 24)
"""How many seeds are tried in each small world, one round after the other until one fails."""

FEW_EVENTS = 200
"""A run with more events is looked for once more, in small worlds with the plainer plan."""

MORE_SEEDS = 12
"""How many further seeds are tried in the first small world that fails."""

MOST_SMALL_EVENTS = 1_000
"""The most events of a world that is small from the start. Most seeds do not fail there, so their
runs must end early."""

COARSE = 8
"""The number of ranges in the first round of setting choices to 0. Each further round multiplies
the number by this factor: early rounds change the plan most, so fine ranges would be wasted."""

ODDS = 1 << 16
"""The number of options of a yes-or-no choice with a probability. The largest options mean yes."""

IMPROBABLE = (0.01, 0.1, 0.3, 0.6)
"""Probabilities of yes-or-no choices. A choice below ``ODDS`` times (1 - probability) means no for
every event that is at most this probable, so 0 means the same. The smallest probability covers
most choices, so it comes first."""


class Shape(NamedTuple):
    """The identity of a failure: the broken requirement and the invariant that found it."""

    requirement: str
    invariant: str


def shape_of(violation: InvariantViolation) -> Shape:
    """The shape of a failure."""
    return Shape(violation.requirement, violation.invariant)


@dataclass(frozen=True)
class Failing:
    """A run that breaks a promise.

    Attributes:
        name: the name of the run, such as ``seed 7``.
        plan: the plan of its world.
        choices: all choices of the run after the draw of the plan.
        defects: the defects that are switched on in the runtime.
        simulate: the function that runs a world.
        patch: the patch that ``simulate`` applies to the runtime; ``None`` without one.
    """

    name: str
    plan: Plan
    choices: Sequence[int]
    defects: tuple[str, ...] = ()
    simulate: Simulate = run
    patch: Patch | None = None


class ShrinkStep(NamedTuple):
    """The progress of shrinking.

    Attributes:
        runs: the number of worlds run so far.
        events: the number of events of the smallest run so far.
        choices: the number of its choices that are not 0.
    """

    runs: int
    events: int
    choices: int


@dataclass(frozen=True)
class Shrunk:
    """The smallest run that was found.

    Attributes:
        plan: the plan of its world.
        choices: all choices after the plan, without zeros at the end.
        defects: the defects that are switched on in the runtime.
        violations: the broken invariants; the first one has the shape of the original failure.
        runs: the number of worlds that shrinking has run.
        played: the run with all its events.
        matters: the sequence numbers of the events that matter.
        patch: the patch that the runtime has; ``None`` without one.
    """

    plan: Plan
    choices: Sequence[int]
    defects: tuple[str, ...]
    violations: Sequence[InvariantViolation]
    runs: int
    played: RecordedRun
    matters: frozenset[int]
    patch: Patch | None = None


def shrink(
    world: Failing, most_runs: int = MOST_RUNS, progress: Callable[[ShrinkStep], None] | None = None
) -> Shrunk:
    """Shrink a failing run.

    Args:
        world: the run.
        most_runs: the most worlds to run; one more run then records the result.
        progress: receives the progress after each world.

    Raises:
        UsageError: the run breaks no promise.
    """
    search = _Search(world, most_runs, progress)
    search.try_small_worlds(until=0.3)
    search.simplify(until=0.6)
    if search.is_large:
        # The plan is plain by now, so the worlds of its kind are small, and many fail.
        search.try_small_worlds(until=0.8)
    search.simplify(until=1)
    search.lower()
    return _told(world, search)


def _told(world: Failing, search: _Search) -> Shrunk:
    """The smallest run, run once more to record its events."""
    events: list[Event] = []
    choices = Choices.recorded(search.values)
    outcome = world.simulate(choices, search.plan, defects=world.defects, watchers=[events.append])
    pairs = choices.pairs
    while pairs and not pairs[-1][1]:
        pairs.pop()
    played = RecordedRun(
        world.name,
        search.plan,
        world.defects if world.patch is None else (*world.defects, world.patch.name),
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
        world.patch,
    )


class _TooLongError(Exception):
    """A candidate is no smaller than the run that it should replace."""


class _Search:
    """The search for a smaller run: the smallest run so far, and the steps to a smaller one.

    Attributes:
        plan: the plan of the smallest run.
        values: its choices, without zeros at the end.
        runs: the number of worlds run so far.
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
        # The part of all worlds and events that may be spent for now, and the last seed used.
        self._until = 1.0
        self._seed = -1
        # The events of all worlds so far.
        self._cost = 0
        self._events = 0
        # Whether all choices still come from a seed, so that no work is lost with other seeds.
        self._is_raw = True
        choices = Choices.recorded(self.values)
        outcome = world.simulate(choices, world.plan, defects=world.defects)
        if not outcome.violations:
            raise UsageError(
                f"{world.name} breaks no promise with this plan and these choices, so there is "
                "nothing to shrink. Pass the plan and the choices of the run that failed."
            )
        self._shape = shape_of(outcome.violations[0])
        self._first_events = outcome.events
        self._take(world.plan, choices, outcome)

    @property
    def is_large(self) -> bool:
        """Whether the smallest run has more events than somebody likes to read."""
        return self._events > FEW_EVENTS

    def try_small_worlds(self, until: float) -> None:
        """Look for the same failure in worlds that are small from the start.

        Args:
            until: the part of all worlds and events after which the search goes on otherwise.
        """
        self._until = until
        failed, plans = list(self.values), small_plans(self.plan)
        for count in ROUNDS:
            for plan in plans:
                # All seeds run: each hit lowers the limit, so the run with the fewest events stays.
                found = [self._fails_small(plan, failed) for _ in range(count)]
                if any(found):
                    for _ in range(MORE_SEEDS):
                        self._fails_small(plan, failed)
                    return

    def simplify(self, until: float) -> None:
        """Make the plan plainer, and set choices to 0, as long as the same promise breaks.

        Args:
            until: the part of all worlds and events after which the search goes on otherwise.
        """
        self._until = until
        parts, before = 1, None
        # A step that fails at first may succeed after other steps, so all of them repeat.
        while before != (self.plan, self.values) or parts < len(self.values):
            if self._spent() >= until:
                break
            before, parts = (self.plan, self.values), parts * COARSE
            self.make_numbers_smaller()
            self.make_plan_plainer()
            self.set_alike_to_zero()
            self.set_ranges_to_zero(parts)

    def _fails_small(self, small: Plan, failed: Sequence[int]) -> bool:
        self._seed += 1
        plan, choices = small_choices(small, failed, self._seed)
        return self._try(plan, choices, min(self._events, MOST_SMALL_EVENTS), (-2, self._seed))

    def make_plan_plainer(self) -> None:
        """Bring the plan closer to its defaults, with fewer processes and faults."""
        plainest(self.plan, self._fails_with, self._most_runs)

    def make_numbers_smaller(self) -> None:
        """Send fewer records, and shorten the time with faults."""
        with_smaller_numbers(self.plan, self._fails_with)

    def _fails_with(self, plan: Plan) -> bool:
        """Whether another plan fails in the same way, with these choices or with other ones."""
        was = self.plan
        if plan.safety_ms > was.safety_ms or plan.workload.records > was.workload.records:
            # The default value is plainer, but makes the run longer.
            return False
        most = min(self._events + SLACK, self._first_events)
        if self._try(plan, Choices.recorded(self.values), most, tuple(self.values)):
            return True
        # Other settings change few choices, so other seeds would seldom help. Choices that are
        # already shrunk are worth more than a plainer plan.
        return (
            self._is_raw
            and plan.config == was.config
            and any(
                self._try(plan, Choices.seeded(seed, recording=True), most, (-1, seed))
                for seed in range(RESEEDED)
            )
        )

    def set_alike_to_zero(self) -> None:
        """Set all choices of one kind to 0 at a time, starting with choices that decide nothing."""
        self._is_raw = False
        for share in IMPROBABLE:
            least = round(ODDS * (1 - share))
            pairs = enumerate(zip(self._offered, self.values, strict=True))
            if self._without([at for at, (of, value) in pairs if of == ODDS and 0 < value < least]):
                break
        # Choices with the same number of options mostly come from the same place in the runtime.
        for options in sorted(set(self._offered) - {ODDS}):
            self._without([at for at in self._places() if self._offered[at] == options])

    def set_ranges_to_zero(self, parts: int) -> None:
        """Set ranges of choices to 0: the last ones first, from coarse to fine.

        Args:
            parts: the number of ranges in the finest step.
        """
        size = len(self._places())
        finest = max(size // parts, 1)
        while size >= finest:
            # A choice affects only later ones, so the places of earlier choices stay valid.
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
        """Lower single choices to the least value that still fails."""
        for place in reversed(self._places()):
            least = 0
            while place < len(self.values) and self.values[place] - least > 1:
                middle = (self.values[place] + least) // 2
                values = self.values.copy()
                values[place] = middle
                if not self._try_values(values):
                    least = middle

    def _places(self) -> list[int]:
        """The places of the choices that are not 0."""
        return [place for place, value in enumerate(self.values) if value]

    def _try_values(self, values: Sequence[int]) -> bool:
        return self._try(self.plan, Choices.recorded(values), self._events, tuple(values))

    def _spent(self) -> float:
        """The part of the worlds, or of their events, that has been used; 1 is all of it."""
        runs = self.runs / self._most_runs if self._most_runs else 1
        return max(runs, self._cost / MOST_EVENTS)

    def _try(self, plan: Plan, choices: Choices, most_events: int, key: tuple[int, ...]) -> bool:
        """Run a world, and keep it if it fails in the same way within this number of events."""
        if self._spent() >= self._until or (plan, key) in self._tried:
            return False
        self._tried.add((plan, key))
        self.runs += 1
        outcome = self._bounded(plan, choices, most_events)
        self._cost += EVENTS_OF_A_START + (most_events if outcome is None else outcome.events)
        fails = outcome is not None and self._is_same(outcome)
        if outcome is not None and fails:
            self._take(plan, choices, outcome)
        if self._progress is not None:
            self._progress(ShrinkStep(self.runs, self._events, len(self._places())))
        return fails

    def _bounded(self, plan: Plan, choices: Choices, most_events: int) -> Outcome | None:
        """The outcome of a world; ``None`` if it becomes too long, or cannot run."""
        most_choices = 2 * len(self.values) + 10 * most_events

        def watch(event: Event) -> None:
            if event.sequence > most_events or choices.count > most_choices:
                raise _TooLongError

        watchers: list[Watcher] = [watch]
        try:
            return self._world.simulate(
                choices, plan, defects=self._world.defects, watchers=watchers
            )
        except Exception:  # noqa: BLE001 - a world that cannot run shows no violation
            return None

    def _is_same(self, outcome: Outcome) -> bool:
        return bool(outcome.violations) and shape_of(outcome.violations[0]) == self._shape

    def _take(self, plan: Plan, choices: Choices, outcome: Outcome) -> None:
        self.plan, self._events = plan, outcome.events
        # The run drew only these choices. Zeros at the end are left out, because a recording
        # that has ended gives zeros anyway.
        self.values, self._offered = list(choices.drawn), list(choices.offered)
        while self.values and not self.values[-1]:
            self.values.pop()
            self._offered.pop()
