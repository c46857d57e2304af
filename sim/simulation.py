"""The swarm: simulate one world, with all its faults, from a seed.

Topology, settings, instances, workload and faults are choices, and so is everything that follows.
Therefore one number determines the whole run, and a failing run can be shrunk.

Source: Groce et al., Swarm Testing (2012): runs with a few features each, drawn anew every time,
find bugs that a run with all features hides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from streamproof.errors import UsageError
from streamproof.sim.actor_hosts import Steps
from streamproof.sim.application import Application
from streamproof.sim.choices import Choices
from streamproof.sim.disks import InstanceDisk, SimulatedDisk
from streamproof.sim.instances import Instance
from streamproof.sim.invariants import INVARIANTS, Invariant, InvariantViolation, Watch
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.nemesis import Nemesis, drawn_drift
from streamproof.sim.plan_space import draw
from streamproof.sim.query_clients import QueryClients
from streamproof.sim.rolling_upgrade import ROLL_OVER, RollingUpgrade
from streamproof.sim.situations import fault_situations
from streamproof.sim.stream_thread import StreamThread
from streamproof.sim.tasks.stream_task import StreamTask, TaskState
from streamproof.sim.topologies import TOPOLOGIES
from streamproof.sim.trace import Watcher
from streamproof.sim.workloads import Workload
from streamproof.sim.world import World
from streamproof.sim.world_plan import Plan

__all__ = ["Direct", "MakeDisk", "Outcome", "Stage", "run"]

LIVENESS_MS = 240_000
"""The time that the application has to come to rest after the last fault and the last input. It is
twice the sum of a lost request, an expired session and an abandoned transaction."""

_LAST_REBALANCE_MS = 10_000
"""How long a rebalance may take that goes on when the time is up, in virtual milliseconds."""

_MOST_EVENTS = 100_000, 1_000, 300
"""How many events may follow the last fault: in all, and more for each task and for each input
record. A thread that begins anew for ever makes millions, and tells nothing more with them."""

MakeDisk = Callable[[World, str], InstanceDisk]
"""Makes the disk of an instance, by its name."""


class Stage(NamedTuple):
    """The parts of a world before it begins, for a function that directs it."""

    world: World
    application: Application
    instances: Sequence[Instance]
    queries: QueryClients


Direct = Callable[[Stage], None]
"""Prepares a world for events that follow a script, instead of choices."""

_CHECK_MS = 1_000
"""The time between two looks whether the world has come to rest."""

_METRICS_MS = 5_000
"""The time between two readings of all metrics. They take no time, and change nothing."""


@dataclass(frozen=True)
class Outcome:
    """The result of a run.

    Attributes:
        plan: the plan of the world.
        violations: the broken promises, in the order of their discovery.
        digest: identifies the sequence of all events.
        events: the number of events.
        marks: how often the run reached each situation; see ``situations``.
        ended_ms: the virtual time at the end of the run.
        choices: all choices of the run, if they were recorded.
        tried: the names of the invariants whose situation came about.
    """

    plan: Plan
    violations: Sequence[InvariantViolation]
    digest: str
    events: int
    marks: Mapping[str, int]
    ended_ms: int
    choices: Sequence[int]
    tried: Sequence[str] = ()


def run(
    choices: Choices,
    plan: Plan | None = None,
    *,
    defects: Iterable[str] = (),
    invariants: Sequence[type[Invariant]] = INVARIANTS,
    watchers: Iterable[Watcher] = (),
    make_disk: MakeDisk | None = None,
    direct: Direct | None = None,
) -> Outcome:
    """Simulate one world: first faults, then time to recover. Stop at the first violation.

    After a violation, the step that is going on ends, and no other begins.

    Args:
        choices: makes every decision.
        plan: the plan of the world; without it, the first choices draw one of all plans.
        defects: the mistakes that the runtime makes.
        invariants: the promises that must hold.
        watchers: functions that get each event.
        make_disk: makes the disk of an instance; without it, the disk holds model stores.
        direct: prepares the world before its first event.

    Raises:
        UsageError: no defect has one of the names, or the plan has an upgrade and a group with the
            streams protocol.
        InvariantError: an invariant itself raised an error.
        SubjectError: a store raised an error that the contract does not allow.
    """
    # The order of the constructions below is part of the world: each takes choices, and the same
    # seed must give the same run.
    if plan is None:
        plan = draw(choices)
    if plan.upgrade and plan.config.group_protocol == "streams":
        raise UsageError(
            f"The upgrade {plan.upgrade!r} is one of the classic protocol: set group_protocol to "
            '"classic", or leave the upgrade out.'
        )
    watch = Watch(invariants, exactly_once=plan.config.exactly_once)
    world = World(choices, [watch, *watchers], activation=plan.activation, defects=defects)
    watch.broken = world.time.stop
    swarm = _Swarm(world, plan, watch.history, make_disk)
    try:
        if direct is not None:
            direct(swarm.stage)
        swarm.begin()
        while not watch.violations and not swarm.is_over():
            world.time.run(until=world.time.now + _CHECK_MS)
            swarm.read_metrics()
    finally:
        swarm.close()
    violations = list(watch.violations) or watch.end()
    return Outcome(
        plan,
        violations,
        world.trace.digest,
        world.trace.count,
        world.marks.hits | fault_situations(plan.topology, world.faults.fired),
        world.now,
        choices.drawn,
        watch.tried,
    )


class _Swarm:
    """Builds and runs the parts of a world that its plan names."""

    def __init__(
        self, world: World, plan: Plan, history: LogHistory, make_disk: MakeDisk | None
    ) -> None:
        self._world = world
        self._plan = plan
        self._history = history
        self._topology = TOPOLOGIES[plan.topology].topology(plan.partitions)
        self._application = Application(
            world, self._topology, plan.config, input_retention_ms=plan.workload.retention_ms
        )
        self._cluster = self._application.cluster
        count = 2 * plan.instances if plan.upgrade in ROLL_OVER else plan.instances
        self._instances = [
            self._instance(f"instance-{number}", make_disk) for number in range(count)
        ]
        queries = QueryClients(self._application, self._instances, plan.query_clients)
        self.stage = Stage(world, self._application, self._instances, queries)
        self._upgrade = RollingUpgrade(world, self._instances, plan.upgrade, plan.upgrade_every_ms)
        self._nemesis = Nemesis(
            world,
            self._application.network,
            self._instances,
            # The simulator does not know which data real stores lose with the power.
            [each for each in plan.kinds if make_disk is None or each != "power"],
            safety_ms=plan.safety_ms,
        )
        self._healed = world.time.all_of((self._nemesis.healed, self._upgrade.done))
        self._workload = Workload(world, self._cluster, self._topology, plan.workload, self._healed)
        # The time since which input, faults and upgrade have ended; 0 before.
        self._since = 0
        # The number of events at which the time is up all the same; 0 as long as faults may come.
        self._last_event = 0
        # The time since which all input is processed and committed; 0 while some is not.
        self._rested = 0

    def begin(self) -> None:
        """Start the instances, the upgrade and the nemesis."""
        for each in self._instances:
            each.start()
        self._world.time.process(self._upgrade.run())
        is_bounded = self._plan.faults_after_input_ms != -1
        calm = self._world.time.process(self._after_input()) if is_bounded else None
        self._world.time.process(self._nemesis.run(calm))

    def _after_input(self) -> Steps:
        yield self._workload.ended
        yield self._world.time.timeout(self._plan.faults_after_input_ms)

    def _instance(self, name: str, make_disk: MakeDisk | None) -> Instance:
        disk = (
            SimulatedDisk(self._world, name, persistent=self._plan.persistent)
            if make_disk is None
            else make_disk(self._world, name)
        )
        drift = drawn_drift(self._world.choices)
        return Instance(self._application, name, self._plan.threads, disk=disk, drift_ppm=drift)

    def close(self) -> None:
        """Close the files of real stores."""
        for each in self._instances:
            each.disk.close()

    def is_over(self) -> bool:
        """Whether the world has come to rest, or its time is up."""
        now = self._world.now
        if not self._healed.triggered:
            return False
        if self._makes_too_many_events():
            return True
        if not self._workload.ended.triggered:
            return False
        self._since = self._since or now
        if now >= self._since + LIVENESS_MS:
            # Probing rebalances may go on for ever, and the time may be up in the midst of one.
            is_late = now >= self._since + LIVENESS_MS + _LAST_REBALANCE_MS
            return is_late or self._all_follow_the_group()
        running = self._running_tasks()
        # A requested commit may still wait to repeat a lost request. After a reset to the end of an
        # input, records that were processed before it may not be committed yet.
        is_idle = not any(task.commit_requested or task.commit_needed for task in running)
        # Punctuations go on for ever, and each needs a commit, so the rest itself may have some.
        is_resting = self._has_all_committed(running) and (is_idle or self._rested > 0)
        self._rested = (self._rested or now) if is_resting else 0
        settled_at = self._rested + TOPOLOGIES[self._plan.topology].settle_ms
        is_settled = is_resting and is_idle and now >= settled_at
        return is_settled and self._all_follow_the_group() and not self._is_moving_tasks()

    def _makes_too_many_events(self) -> bool:
        count = self._world.trace.count
        if not self._last_event:
            in_all, for_task, for_record = _MOST_EVENTS
            tasks, records = len(self._application.tasks), self._plan.workload.records
            self._last_event = count + in_all + for_task * tasks + for_record * records
        return count > self._last_event

    def read_metrics(self) -> None:
        """Read the metrics of all processes that can answer, if it is time for that."""
        if self._world.now % _METRICS_MS:
            return
        for each in self._instances:
            if each.host is not None and each.host.is_up:
                for thread in each.threads:
                    thread.read_metrics()

    def _threads(self) -> list[StreamThread]:
        return [thread for each in self._instances for thread in each.threads]

    def _running_tasks(self) -> list[StreamTask]:
        return [
            task
            for thread in self._threads()
            for task in thread.tasks.values()
            if task.state is TaskState.RUNNING
        ]

    def _has_all_committed(self, running: Sequence[StreamTask]) -> bool:
        """Whether all tasks run, and all input is processed and committed."""
        ends = {
            partition: self._cluster.logs[partition].end
            for spec in self._application.tasks.values()
            for partition in spec.inputs
        }
        committed, resets = self._history.committed, self._history.forgotten.resets
        return {task.id for task in running} == self._application.tasks.keys() and all(
            end in (committed.get(partition, 0), resets.get(partition))
            for partition, end in ends.items()
        )

    def _is_moving_tasks(self) -> bool:
        """Whether the group still has to look again at its last assignment (KIP-441)."""
        return any(thread.is_probing for thread in self._threads())

    def _all_follow_the_group(self) -> bool:
        group = self._cluster.group(self._topology.application_id)
        return all(each.generation == group.generation for each in self._threads())
