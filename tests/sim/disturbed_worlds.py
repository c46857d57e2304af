"""Worlds in which a counting application is disturbed, and what is to be seen of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from streamproof.sim.application import Application, StreamsConfig
from streamproof.sim.choices import Choices
from streamproof.sim.disks import InstanceDisk
from streamproof.sim.instances import Instance
from streamproof.sim.invariants import INVARIANTS, InvariantViolation, Watch
from streamproof.sim.invariants.kept_stores import OF_MODEL_STORES
from streamproof.sim.nemesis import Nemesis, drawn_drift
from streamproof.sim.topologies import TOPOLOGIES
from streamproof.sim.topologies.reference import differences
from streamproof.sim.trace import Event
from streamproof.sim.workloads import Workload, WorkloadConfig
from streamproof.sim.world import World

MakeDisk = Callable[[World, str], InstanceDisk]

LIVENESS_MS = 90_000
"""Longer than a lost request, a session and a transaction take one after the other."""


@dataclass
class Run:
    """What came of a world.

    Attributes:
        world: the world at its end.
        application: what ran.
        instances: of it.
        violations: of the invariants.
        unexpected: what is committed and should not be, or the other way round.
        events: all of them.
    """

    world: World
    application: Application
    instances: list[Instance]
    violations: Sequence[InvariantViolation] = ()
    unexpected: Sequence[str] = ()
    events: list[Event] = field(default_factory=list)

    def kinds(self) -> set[str]:
        """The kinds of events that there were."""
        return {each.kind for each in self.events}

    def of(self, kind: str) -> list[Event]:
        """The events of a kind."""
        return [each for each in self.events if each.kind == kind]


def disturbed(
    seed: int,
    config: StreamsConfig,
    kinds: Sequence[str],
    make_disk: MakeDisk | None = None,
    *,
    safety_ms: int = 30_000,
    activation: float = 0.25,
    defects: Iterable[str] = (),
) -> Run:
    """Two instances with two threads count words, and the nemesis does this and that."""
    events: list[Event] = []
    # Some invariants know how model stores reach their disks, and real ones do so otherwise.
    left_out = OF_MODEL_STORES if make_disk else ()
    asked = [each for each in INVARIANTS if each not in left_out]
    watch = Watch(asked, exactly_once=config.exactly_once)
    world = World(
        Choices.seeded(seed), [watch, events.append], activation=activation, defects=defects
    )
    topology = TOPOLOGIES["count"].topology(2)
    application = Application(world, topology, config)
    instances = [
        Instance(
            application,
            name,
            2,
            disk=None if make_disk is None else make_disk(world, name),
            drift_ppm=drawn_drift(world.choices),
        )
        for name in ("instance-0", "instance-1")
    ]
    Workload(world, application.cluster, topology, WorkloadConfig(records=100))
    for each in instances:
        each.start()
    nemesis = Nemesis(world, application.network, instances, kinds, safety_ms=safety_ms)
    world.time.process(nemesis.run())
    try:
        world.time.run(until=nemesis.healed)
        world.time.run(until=world.now + LIVENESS_MS)
    finally:
        for each in instances:
            each.disk.close()
    logs = {name: application.cluster.committed_records(name) for name in application.cluster.logs}
    expected = TOPOLOGIES["count"].expected(topology, logs, ordered=False)
    unexpected = differences(expected, logs, cached=False) if config.exactly_once else []
    return Run(world, application, instances, watch.end(), unexpected, events)
