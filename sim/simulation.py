"""The swarm: a world that a seed draws, with everything in it that may go wrong.

Topology, settings, instances, workload and faults are choices, as all that follows is: so one
number tells the whole run, and a run that fails can be made smaller.

Source: Groce et al., Swarm Testing (2012): a run with a few features, drawn anew each time, finds
what a run with all of them hides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from streamproof.sim.application import Application, StreamsConfig
from streamproof.sim.choices import Choices
from streamproof.sim.clients.consumer import MAX_POLL_RECORDS
from streamproof.sim.clients.membership import HEARTBEAT_MS
from streamproof.sim.clients.producer import MAX_BLOCK_MS
from streamproof.sim.disks import Disk, SimulatedDisk
from streamproof.sim.instances import Instance
from streamproof.sim.invariants import INVARIANTS, Invariant, Violation, Watch
from streamproof.sim.invariants.log_history import History
from streamproof.sim.nemesis import KINDS, Nemesis, drawn_drift
from streamproof.sim.network import REQUEST_TIMEOUT_MS
from streamproof.sim.rolling_upgrade import ROLL_OVER, UPGRADES, RollingUpgrade
from streamproof.sim.stream_thread import StreamThread
from streamproof.sim.tasks.assignor import AssignorConfig
from streamproof.sim.tasks.stream_task import TaskState
from streamproof.sim.topologies import TOPOLOGIES
from streamproof.sim.trace import Watcher
from streamproof.sim.workloads import Workload, WorkloadConfig
from streamproof.sim.world import World

__all__ = ["Direct", "MakeDisk", "Outcome", "Plan", "Stage", "run"]

SAFETY_MS = 60_000
"""So long faults may happen, in virtual time."""

LIVENESS_MS = 240_000
"""So long the application has after that to come to rest: twice what a lost request, a session and
a transaction that nobody ends may take one after the other."""

MakeDisk = Callable[[World, str], Disk]
"""Makes the disk of an instance, by its name."""


class Stage(NamedTuple):
    """The parts of a world that has not begun yet, for whoever directs what happens in it."""

    world: World
    application: Application
    instances: Sequence[Instance]


Direct = Callable[[Stage], None]
"""Gets a world ready for what is to happen in it by plan, and not by choice."""

_CHECK_MS = 1_000
"""How often it is looked whether everything has come to rest."""


@dataclass(frozen=True)
class Plan:
    """What a run is like.

    Attributes:
        topology: its name in ``TOPOLOGIES``.
        partitions: of each input.
        instances: how many processes there are.
        threads: how many stream threads each of them has.
        config: of the application.
        workload: what comes in.
        kinds: what goes wrong with instances, of ``nemesis.KINDS``.
        activation: how probable it is that a fault site is on.
        safety_ms: so long faults may happen.
        upgrade: which upgrade goes on meanwhile, of ``UPGRADES``; none if it is empty.
        upgrade_every_ms: so many milliseconds lie before each step of it; drawn, if it is 0.
        persistent: whether model stores are on the disk, or in memory only.
    """

    topology: str = "count"
    partitions: int = 3
    instances: int = 2
    threads: int = 1
    config: StreamsConfig = field(default_factory=StreamsConfig)
    workload: WorkloadConfig = field(default_factory=WorkloadConfig)
    kinds: tuple[str, ...] = ("crash", "pause", "cut")
    activation: float = 0.25
    safety_ms: int = SAFETY_MS
    upgrade: str = ""
    upgrade_every_ms: int = 0
    persistent: bool = True

    @classmethod
    def drawn(
        cls,
        choices: Choices,
        *,
        exactly_once: bool | None = None,
        transactional: bool | None = None,
        topology: str | None = None,
        upgrade: str | None = None,
    ) -> Plan:
        """The plan of one run of the swarm.

        Args:
            choices: they draw what is not given.
            exactly_once: the guarantee.
            transactional: whether stores stage their writes.
            topology: its name.
            upgrade: its name; empty for none.
        """
        strict = choices.chance(0.5)
        staged = choices.chance(0.5)
        exactly_once = strict if exactly_once is None else exactly_once
        transactional = staged if transactional is None else transactional
        drawn = choices.pick(sorted(TOPOLOGIES))
        standbys = choices.pick((0, 1))
        # With Kafka's, what goes wrong is over before a client gives up.
        patience = choices.pick(((REQUEST_TIMEOUT_MS, MAX_BLOCK_MS), (1_000, 2_000)))
        request_timeout_ms, max_block_ms = patience
        config = StreamsConfig(
            exactly_once=exactly_once,
            transactional=transactional,
            commit_interval_ms=choices.pick((100, 1_000, 5_000)),
            max_task_idle_ms=choices.pick((0, -1, 500)),
            idling=choices.pick(("proposal", "proposal", "kafka")),
            transaction_timeout_ms=10_000,
            request_timeout_ms=request_timeout_ms,
            max_block_ms=max_block_ms,
            max_uncommitted_bytes=choices.pick((-1, 100)) if transactional else -1,
            max_poll_records=choices.pick((MAX_POLL_RECORDS, 3)),
            flush_probability=choices.pick((0.05, 0.0, 0.5)),
            probing_rebalance_interval_ms=choices.pick((20_000, 5_000)),
            session_timeout_ms=choices.pick((10_000, 6_000)),
            heartbeat_interval_ms=choices.pick((HEARTBEAT_MS, 500)),
            statestore_cache_max_bytes=choices.pick((0, 0, 200)),
            buffered_records_per_partition=choices.pick((1_000, 2)),
            state_cleanup_delay_ms=choices.pick((600_000, 5_000, 1_000)),
            assignor=AssignorConfig(
                num_standby_replicas=standbys,
                acceptable_recovery_lag=choices.pick((10_000, 0, 5)),
            ),
        )
        return cls(
            topology=topology or drawn,
            partitions=choices.between(1, 3),
            instances=choices.between(1, 3),
            threads=choices.between(1, 2),
            config=config,
            workload=WorkloadConfig.drawn(choices),
            # More of them are killed than anything else: that is what this is about.
            kinds=tuple(kind for kind in KINDS if choices.chance(0.7 if kind == "crash" else 0.3)),
            # What the last fault has left is found by the end; what it was before that may be
            # mended by the next fault. So short runs find what long ones do not.
            safety_ms=choices.pick((SAFETY_MS, 15_000)),
            activation=choices.pick((0.25, 0.5)),
            upgrade=_drawn_upgrade(choices, upgrade, transactional=transactional),
            persistent=not choices.chance(0.1),
        )


def _drawn_upgrade(choices: Choices, wanted: str | None, *, transactional: bool) -> str:
    """The name of an upgrade, in some of the runs, or whenever one is wanted."""
    drawn = choices.pick(sorted(UPGRADES)) if choices.chance(0.3) else ""
    if wanted is not None:
        return wanted
    # No release of before KIP-1035 has stores that stage their writes.
    manages = all(each.manages_offsets for each in UPGRADES.get(drawn, ()))
    return drawn if manages or not transactional else ""


@dataclass(frozen=True)
class Outcome:
    """What came of a run.

    Attributes:
        plan: what it was like.
        violations: what did not hold, in the order in which it was found.
        digest: stands for everything that happened.
        events: how many events there were.
        marks: how often each situation came about.
        fired: how often each fault site fired.
        ended_ms: when everything had come to rest, or the time was up.
        choices: all choices that were made, if they were recorded.
    """

    plan: Plan
    violations: Sequence[Violation]
    digest: str
    events: int
    marks: Mapping[str, int]
    fired: Mapping[str, int]
    ended_ms: int
    choices: Sequence[int]


def run(
    choices: Choices,
    plan: Plan | None = None,
    *,
    defects: Iterable[str] = (),
    invariants: Sequence[type[Invariant]] = INVARIANTS,
    watchers: Iterable[Watcher] = (),
    make_disk: MakeDisk | None = None,
    direct: Direct | None = None,
    exactly_once: bool | None = None,
    transactional: bool | None = None,
    topology: str | None = None,
    upgrade: str | None = None,
) -> Outcome:
    """Simulate one world: faults at first, then time to recover, and stop at the first violation.

    Args:
        choices: all decisions.
        plan: what the run is like; drawn, if it is not given.
        defects: the mistakes that the runtime makes.
        invariants: what must hold.
        watchers: are given each event.
        make_disk: makes the disk of an instance; without it, model stores are on it.
        direct: gets the world ready, before anything happens in it.
        exactly_once: the guarantee, if the plan is drawn.
        transactional: whether stores stage their writes, if the plan is drawn.
        topology: its name, if the plan is drawn.
        upgrade: its name, if the plan is drawn; empty for none.

    Raises:
        UsageError: there is no such defect.
        InvariantError: an invariant raised.
        SubjectError: a store raised what no store may raise.
    """
    if plan is None:
        plan = Plan.drawn(
            choices,
            exactly_once=exactly_once,
            transactional=transactional,
            topology=topology,
            upgrade=upgrade,
        )
    watch = Watch(invariants, exactly_once=plan.config.exactly_once)
    world = World(choices, [watch, *watchers], activation=plan.activation, defects=defects)
    swarm = _Swarm(world, plan, watch.history, make_disk)
    try:
        if direct is not None:
            direct(swarm.stage)
        swarm.begin()
        while not watch.violations and not swarm.is_over():
            world.time.run(until=world.time.now + _CHECK_MS)
    finally:
        swarm.close()
    violations = list(watch.violations) or watch.end()
    return Outcome(
        plan,
        violations,
        world.trace.digest,
        world.trace.count,
        world.marks.hits,
        dict(world.faults.fired),
        world.now,
        choices.drawn,
    )


class _Swarm:
    """The parts of a world that the plan asks for."""

    def __init__(
        self, world: World, plan: Plan, history: History, make_disk: MakeDisk | None
    ) -> None:
        self._world = world
        self._plan = plan
        self._history = history
        self._topology = TOPOLOGIES[plan.topology].topology(plan.partitions)
        self._application = Application(world, self._topology, plan.config)
        self._cluster = self._application.cluster
        count = 2 * plan.instances if plan.upgrade in ROLL_OVER else plan.instances
        self._instances = [
            self._instance(f"instance-{number}", make_disk) for number in range(count)
        ]
        self.stage = Stage(world, self._application, self._instances)
        self._workload = Workload(world, self._cluster, self._topology, plan.workload)
        self._upgrade = RollingUpgrade(world, self._instances, plan.upgrade, plan.upgrade_every_ms)
        self._nemesis = Nemesis(
            world,
            self._application.network,
            self._instances,
            # What real stores lose with the power is not simulated.
            [each for each in plan.kinds if make_disk is None or each != "power"],
            safety_ms=plan.safety_ms,
        )
        # When nothing came in any more, and nothing failed; 0 before that.
        self._since = 0
        # Since when everything that came in is processed and committed; 0 if it is not.
        self._rested = 0

    def begin(self) -> None:
        """Start the instances, and what happens to them."""
        for each in self._instances:
            each.start()
        self._world.time.process(self._upgrade.run())
        self._world.time.process(self._nemesis.run())

    def _instance(self, name: str, make_disk: MakeDisk | None) -> Instance:
        disk = (
            SimulatedDisk(self._world, name, persistent=self._plan.persistent)
            if make_disk is None
            else make_disk(self._world, name)
        )
        drift = drawn_drift(self._world.choices)
        return Instance(self._application, name, self._plan.threads, disk=disk, drift_ppm=drift)

    def close(self) -> None:
        """Free the files of real stores."""
        for each in self._instances:
            each.disk.close()

    def is_over(self) -> bool:
        """Whether everything is done, or there is no time left."""
        now = self._world.now
        ended = (self._nemesis.healed, self._workload.ended, self._upgrade.done)
        if not all(each.triggered for each in ended):
            return False
        self._since = self._since or now
        if now >= self._since + LIVENESS_MS:
            return True
        self._rested = (self._rested or now) if self._is_at_rest() else 0
        # A group may look again and again at what is on its way: it still rests in between.
        settled_at = self._rested + TOPOLOGIES[self._plan.topology].settle_ms
        return self._rested > 0 and now >= settled_at and self._all_follow_the_group()

    def _threads(self) -> list[StreamThread]:
        return [thread for each in self._instances for thread in each.threads]

    def _is_at_rest(self) -> bool:
        running = [
            task
            for thread in self._threads()
            for task in thread.tasks.values()
            if task.state is TaskState.RUNNING
        ]
        # What was asked for may still wait for a request that got lost.
        if any(task.commit_requested for task in running):
            return False
        ends = {
            partition: self._cluster.logs[partition].end
            for spec in self._application.tasks.values()
            for partition in spec.inputs
        }
        committed = self._history.committed
        return {task.id for task in running} == self._application.tasks.keys() and all(
            committed.get(partition, 0) == end for partition, end in ends.items()
        )

    def _all_follow_the_group(self) -> bool:
        group = self._cluster.group(self._topology.application_id)
        return all(each.generation == group.generation for each in self._threads())
