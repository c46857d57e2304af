"""The check of Kafka Streams itself: worlds that real processes play, and all invariants watching.

Worlds are those of ``explore --on kafka``. Variants of the library that break nothing and can be
played follow. A requirement counts as tried only if each of its invariants could be judged, and the
situation of each came about; nothing else counts as held.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from streamproof.conformance.check_registry import check
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.failure_shapes import shape_of_invariant
from streamproof.conformance.program_text import verifying_program
from streamproof.conformance.saved_failures import SavedChoices
from streamproof.conformance.subject import release_of_runtime
from streamproof.conformance.violations import Unusable, violation_of
from streamproof.errors import UsageError
from streamproof.scenarios.kafka.observable import OF_BROKERS
from streamproof.scenarios.kafka.real_search import Failure, confirmed, failures_of
from streamproof.scenarios.kafka.real_settings import has_other_releases, why_not, why_not_shared
from streamproof.scenarios.kafka.real_worlds import FOUND, drawn_world, real_worlds_of
from streamproof.scenarios.kafka.shared_broker import RealRun, SharedBroker
from streamproof.scenarios.scenario import Crash, Scenario, Setup
from streamproof.scenarios.scenario_reader import library, read
from streamproof.sim.invariants import INVARIANTS
from streamproof.sim.invariants.log_history import LogHistory

__all__ = ["right_variants"]

PROMISES = tuple(sorted({each.requirement for each in INVARIANTS}))
"""The requirements of the invariants."""

AGAIN = 2
"""How often a world that failed is played again, so that the report says whether it comes again."""

ROUND = 1_000_000
"""The distance between the seeds of two rounds of a search."""

KILLS = "process"
"""The kind of crash point: a process is killed."""


class _World(NamedTuple):
    """A world to play: its seed, ``None`` for a scenario of the library."""

    seed: int | None
    scenario: Scenario
    setup: Setup


@check(*PROMISES, raw=True, weight=100)
def plays(run: CheckRun) -> None:
    """Run applications of real processes from many seeds, with kills, stops, freezes and pauses."""
    try:
        broker = SharedBroker(release_of_runtime(run.subject.name), run.new_directory())
    except UsageError as error:
        raise Unusable(str(error)) from error
    with broker:
        worlds = _Worlds(run, broker)
        for each in worlds.wanted():
            worlds.visit(each)
        worlds.report()


def right_variants(release: str, *, exactly_once: bool) -> Iterator[tuple[Scenario, Setup]]:
    """The variants of the library that break nothing, and that a release can play in such worlds.

    Args:
        release: the release of Kafka.
        exactly_once: the guarantee.
    """
    for path in library().values():
        scenario = read(path)
        for setup in scenario.setups.values():
            is_right = not setup.variant.breaks and not setup.variant.releases
            is_meant = setup.plan.config.exactly_once == exactly_once
            moments = [each.when for each in scenario.file.timeline if each.when is not None]
            # The names of partitions are others in worlds that share a broker, and a broker that
            # is shared cannot stand still.
            is_simple = (
                not why_not_shared(scenario.file.timeline)
                and not has_other_releases(setup.plan)
                and all(not each.partition and each.kind not in OF_BROKERS for each in moments)
            )
            if is_right and is_meant and is_simple and not why_not(scenario, setup, release):
                yield scenario, setup


class _Worlds:
    """The worlds of one check, and what they have shown."""

    def __init__(self, run: CheckRun, broker: SharedBroker) -> None:
        self._run = run
        self._broker = broker
        self._exactly_once = run.settings.guarantee == "exactly-once"
        worlds = real_worlds_of(release_of_runtime(run.subject.name))
        self._space = msgspec.structs.replace(worlds, guarantees=[run.settings.guarantee])
        self._tried: set[str] = set()
        self._unjudged: dict[str, str] = {}
        self._unplayed: list[str] = []

    def wanted(self) -> Iterator[_World]:
        """The worlds of this run: those of saved failures, or the next seeds and the library."""
        settings, limits = self._run.settings, self._run.settings.limits
        first = settings.seed + settings.round * ROUND
        seeds: list[int] | range = range(first, first + limits.real_worlds)
        if self._run.replay is not None:
            seeds = self._run.replay.choices.plays
        for seed in seeds:
            scenario = drawn_world(seed, self._space)
            yield _World(seed, scenario, scenario.setups[FOUND])
        if self._run.replay is not None:
            return
        release = release_of_runtime(self._run.subject.name)
        variants = list(right_variants(release, exactly_once=self._exactly_once))
        for number in range(min(limits.real_scenarios, len(variants))):
            yield _World(None, *variants[(first + number) % len(variants)])

    def visit(self, world: _World) -> None:
        """Play a world, and record what it shows."""
        try:
            played = self._broker.play(world.scenario, world.setup)
        except UsageError as error:
            self._unplayed.append(f"{world.scenario.name}: {error}")
            return
        evidence = self._run.evidence
        evidence.examples += 1
        evidence.operations += len(played.recorded.events)
        timeline = world.scenario.file.timeline
        kills = sum(
            isinstance(each, Crash)
            for number, each in enumerate(timeline)
            if number not in played.undone
        )
        evidence.crash_points[KILLS] = evidence.crash_points.get(KILLS, 0) + kills
        self._tried |= played.judgement.tried
        self._unjudged.update(played.judgement.unjudged)
        for failure in failures_of(played):
            self._record(world, failure)

    def _record(self, world: _World, failure: Failure) -> None:
        run, (requirement, invariant) = self._run, failure.shape
        shape = shape_of_invariant(invariant)
        if not run.is_new(requirement, shape):
            return

        def play(scenario: Scenario) -> RealRun:
            return self._broker.play(scenario, world.setup)

        again = confirmed(play, world.scenario, failure.shape, AGAIN)
        found = (
            f"in {world.scenario.name} ({world.setup.name}): {failure.message}. It came again in "
            f"{again.times} of {again.plays} plays"
        )
        violation = violation_of(requirement, shape)
        plays = [] if world.seed is None else [world.seed]
        settings = run.settings
        program = verifying_program(
            run.subject.name,
            guarantee=settings.guarantee,
            profile=settings.profile,
            only=[requirement],
            seed=settings.seed,
        )
        run.record(violation(run.check.tried, invariant, found, program), SavedChoices(plays=plays))

    def report(self) -> None:
        """Write down what was tried, and why the rest was not."""
        evidence = self._run.evidence
        if not evidence.examples:
            raise Unusable(f"No world could be played. {self._unplayed[0]}")
        for each in INVARIANTS:
            if not each(LogHistory(exactly_once=self._exactly_once)).observers:
                continue
            evidence.exercised.add(each.requirement)
            if each.name in self._unjudged:
                evidence.untried[each.requirement] = f"not judged: {self._unjudged[each.name]}"
            elif each.name not in self._tried:
                reason = f"no world showed that {each.situation}"
                evidence.untried.setdefault(each.requirement, reason)
        evidence.exercised -= evidence.untried.keys()
