"""Runs a world with the store under test inside, and judges the run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from streamproof.conformance.results import Guarantee, Spec
from streamproof.conformance.store_worlds.scenario_worlds import scenario_of
from streamproof.conformance.store_worlds.store_world import StoreWorld, plan_of, world_of
from streamproof.conformance.store_worlds.subject_disks import disks_of
from streamproof.conformance.store_worlds.world_judge import (
    SAME_TWICE,
    Breach,
    Situations,
    breach_of,
    breach_of_error,
    invariants_for,
    is_kept,
    refused,
)
from streamproof.conformance.subject import Subject
from streamproof.conformance.violations import brief
from streamproof.scenarios.play import direct
from streamproof.sim.choices import Choices
from streamproof.sim.disks import InstanceDisk, SimulatedDisk
from streamproof.sim.hosted_store import WatchCall
from streamproof.sim.simulation import MakeDisk, Outcome, run
from streamproof.sim.trace import Event, first_divergence
from streamproof.sim.world import World
from streamproof.stores.errors import TaskCorruptedError

__all__ = ["Tried", "simulate", "try_world"]


class Tried:
    """The result of a world.

    Attributes:
        world: the world.
        breach: the promise that the store broke; ``None`` if it broke none.
        situations: the promises that the world put to the test.
        marks: the marks of the simulator that the world reached.
    """

    def __init__(self, world: StoreWorld, situations: Situations) -> None:
        self.world = world
        self.breach: Breach | None = None
        self.situations = situations
        self.marks: list[str] = []


def try_world(
    subject: Subject,
    world: StoreWorld,
    directory: Path,
    watch: WatchCall,
    *,
    guarantee: Guarantee,
    spec: Spec,
) -> Tried:
    """Run a world with a store inside, and judge it.

    A mistake counts against the store only if the same world with model stores makes none.

    Args:
        subject: the store.
        world: the world.
        directory: an empty directory; it is empty again afterwards.
        watch: observes the start and the end of each call of the store.
        guarantee: the processing guarantee.
        spec: the spec; under one without transactions, the runtime does not rely on them.

    Raises:
        RuntimeError: the simulator makes a mistake with model stores as well.
    """
    trial = _WorldTrial(subject, world, guarantee=guarantee, spec=spec)
    tried = trial.run(directory, watch)
    if tried.breach is not None and (wrong := trial.control()):
        raise RuntimeError(
            f"The simulator is wrong, also with model stores, in {world}: {wrong}. This is a "
            "mistake of the suite."
        )
    return tried


def simulate(
    subject: Subject,
    world: Mapping[str, Any],
    directory: Path,
    *,
    guarantee: Guarantee,
    spec: Spec,
) -> str:
    """Run a world given by its arguments; return the mistake, or an empty text.

    Raises:
        UsageError: the arguments describe no world.
    """
    breach = try_world(
        subject, world_of(world), directory, nullcontext, guarantee=guarantee, spec=spec
    ).breach
    return breach.found if breach else ""


class _WorldTrial:
    """One world with a store of one kind."""

    def __init__(
        self, subject: Subject, world: StoreWorld, *, guarantee: Guarantee, spec: Spec
    ) -> None:
        capabilities = subject.capabilities
        exactly_once = guarantee == "exactly-once"
        transactional = capabilities.transactional and spec != "kafka-4.3"
        self._subject = subject
        self._world = world
        plan = plan_of(world, exactly_once=exactly_once, transactional=transactional)
        if capabilities.transactional and not transactional:
            # The store stages its writes all the same, but the runtime does not know that.
            plan = replace(plan, query_clients=0)
        self._plan = plan
        self._kept = is_kept(capabilities, exactly_once=exactly_once, transactional=transactional)
        # Of two equal runs only the difference counts; other worlds find other mistakes.
        self._invariants = (
            ()
            if world.twice
            else invariants_for(capabilities, guarantee, spec, transactional=transactional)
        )

    def run(self, directory: Path, watch: WatchCall) -> Tried:
        """Run the world, twice if it asks for that."""
        tried, events = self._once(directory / "first", watch)
        if self._world.twice and tried.breach is None:
            again, others = self._once(directory / "second", watch)
            tried.breach = again.breach or _difference(events, others)
            tried.situations.seen[SAME_TWICE] = None
        return tried

    def _once(self, directory: Path, watch: WatchCall) -> tuple[Tried, list[Event]]:
        situations = Situations(
            exactly_once=self._plan.config.exactly_once,
            kept=self._kept,
            standbys=self._plan.config.assignor.num_standby_replicas > 0,
        )
        tried, events = Tried(self._world, situations), list[Event]()
        openings = _Openings(watch)
        watchers = [situations, events.append] if self._world.twice else [situations]
        try:
            outcome = self._run(watchers, disks_of(self._subject, directory, openings))
        except Exception as error:
            tried.breach = breach_of_error(error)
        else:
            tried.marks = [name for name, count in outcome.marks.items() if count]
            if outcome.violations:
                tried.breach = breach_of(outcome.violations[0], situations)
            elif self._kept and openings.refused:
                tried.breach = refused(openings.refused, situations)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        return tried, events

    def _run(self, watchers: list[Any], make_disk: MakeDisk) -> Outcome:
        if self._world.scenario:
            director = direct(scenario_of(self._world.scenario))
            return run(
                director.choices,
                self._plan,
                invariants=self._invariants,
                watchers=[*watchers, director.see],
                make_disk=make_disk,
                direct=director.direct,
            )
        choices = Choices.seeded(self._world.seed)
        return run(
            choices, self._plan, invariants=self._invariants, watchers=watchers, make_disk=make_disk
        )

    def control(self) -> str:
        """The mistake in the same world with model stores; empty unless the simulator is wrong."""
        claims = self._subject.capabilities

        def make_disk(world: World, name: str) -> InstanceDisk:
            return SimulatedDisk(world, name, claims.durability, persistent=claims.persistent)

        runs = 2 if self._world.twice else 1
        try:
            outcomes = [self._run([], make_disk) for _ in range(runs)]
        except Exception as error:
            return brief(error)
        if outcomes[0].violations:
            return str(outcomes[0].violations[0])
        return "" if outcomes[0].digest == outcomes[-1].digest else "two equal runs differ"


class _Openings:
    """Counts how often a store asks to be wiped when it is opened.

    Args:
        watch: another observer of each call of the store.

    Attributes:
        refused: the number of times.
    """

    def __init__(self, watch: WatchCall) -> None:
        self._watch = watch
        self.refused = 0

    @contextmanager
    def __call__(self, call: str) -> Iterator[None]:
        try:
            with self._watch(call):
                yield
        except TaskCorruptedError:
            self.refused += call == "init()"
            raise


def _difference(first: list[Event], second: list[Event]) -> Breach | None:
    divergence = first_divergence(first, second)
    if divergence is None:
        return None
    event = divergence.first or divergence.second
    kind = event.kind.replace(".", "-") if event else "end"
    return Breach(SAME_TWICE, f"changed-{kind}", "two equal runs to be the same", str(divergence))
