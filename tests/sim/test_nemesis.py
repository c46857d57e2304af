"""What goes wrong with instances, and what they leave behind when they are stopped."""

from __future__ import annotations

from itertools import pairwise

import pytest
from disturbed_worlds import disturbed

from streamproof.errors import UsageError
from streamproof.sim.application import Application, StreamsConfig
from streamproof.sim.choices import Choices
from streamproof.sim.instances import Instance
from streamproof.sim.invariants import INVARIANTS, Watch
from streamproof.sim.nemesis import (
    DRIFTS_PPM,
    GRACE_MS,
    KINDS,
    RARE_KINDS,
    Nemesis,
    drawn_drift,
    rolling_bounce,
    stop_in_time,
)
from streamproof.sim.tasks.stream_task import TaskState
from streamproof.sim.topologies import TOPOLOGIES
from streamproof.sim.topologies.reference import differences
from streamproof.sim.trace import Event
from streamproof.sim.workloads import Workload, WorkloadConfig
from streamproof.sim.world import World

GUARANTEES = pytest.mark.parametrize("exactly_once", [True, False], ids=["EOS", "ALOS"])
KINDS_OF_STORE = pytest.mark.parametrize("transactional", [False, True], ids=["plain", "staging"])

TRACES = {
    "crash": "instance.crashed",
    "power": "disk.power_lost",
    "fill": "disk.full",
    "bounce": "instance.stopped",
    "hold": "instance.paused",
}
"""What can be seen of each kind; of a cut and a pause, only what others make of it."""


def config_of(*, exactly_once: bool, transactional: bool = False) -> StreamsConfig:
    """A configuration with a short session."""
    return StreamsConfig(
        exactly_once=exactly_once,
        transactional=transactional,
        session_timeout_ms=6_000,
        commit_interval_ms=100 if exactly_once else 1_000,
        flush_probability=0.3,
        group_membership_operation="LEAVE_GROUP",
    )


class Small:
    """A calm world with a counting application, to do something to.

    Attributes:
        events: all of them.
        watch: the invariants.
    """

    def __init__(self, *, exactly_once: bool, transactional: bool = False, count: int = 2) -> None:
        self.events: list[Event] = []
        self.watch = Watch(INVARIANTS, exactly_once=exactly_once)
        self.world = World(Choices.seeded(5), [self.watch, self.events.append], activation=0)
        self.topology = TOPOLOGIES["count"].topology(3)
        config = config_of(exactly_once=exactly_once, transactional=transactional)
        self.application = Application(self.world, self.topology, config)
        self.instances = [Instance(self.application, f"instance-{n}", 2) for n in range(count)]
        work = WorkloadConfig(records=300, max_pause_ms=1_000)
        self.workload = Workload(self.world, self.application.cluster, self.topology, work)
        for each in self.instances:
            each.start()

    def of(self, kind: str) -> list[Event]:
        """The events of a kind."""
        return [each for each in self.events if each.kind == kind]

    def run(self, milliseconds: int) -> None:
        """Let the time pass."""
        self.world.time.run(until=self.world.now + milliseconds)

    def run_to_the_end(self) -> None:
        """Until everything that comes in was processed."""
        if not self.workload.ended.triggered:
            self.world.time.run(until=self.workload.ended)
        self.run(30_000)

    def unexpected(self) -> list[str]:
        """What is committed and should not be, or the other way round."""
        cluster = self.application.cluster
        logs = {name: cluster.committed_records(name) for name in cluster.logs}
        expected = TOPOLOGIES["count"].expected(self.topology, logs, ordered=False)
        return differences(expected, logs, cached=False)


# The nemesis.


@pytest.mark.parametrize("kind", [*KINDS, *RARE_KINDS])
def test_whatever_goes_wrong_is_survived(kind: str) -> None:
    """Nothing is broken, and when all is healed, every task runs and every instance is up."""
    run = disturbed(2, config_of(exactly_once=True), (kind,), activation=0)
    assert (list(run.violations), list(run.unexpected)) == ([], [])
    assert kind not in TRACES or run.of(TRACES[kind])
    [healed] = run.of("world.healed")
    assert healed.time >= 30_000
    assert all(each.host is not None and each.host.is_up for each in run.instances)


@GUARANTEES
@KINDS_OF_STORE
def test_all_of_it_together(*, exactly_once: bool, transactional: bool) -> None:
    """With the faults of the network, and clocks that are wrong."""
    config = config_of(exactly_once=exactly_once, transactional=transactional)
    for seed in range(3):
        run = disturbed(seed, config, KINDS)
        assert (list(run.violations), list(run.unexpected)) == ([], [])
        assert run.world.faults.on == []
        assert run.of("thread.committed")


def test_a_long_pause_or_cut_makes_a_zombie() -> None:
    """The group goes on without it, and it finds out later."""
    for kind in ("pause", "cut"):
        runs = [disturbed(seed, config_of(exactly_once=True), (kind,)) for seed in range(3)]
        assert any(run.of("group.left_out") for run in runs)
        assert any(run.of("thread.lost") for run in runs)


def test_a_process_dies_before_it_has_wiped_a_task() -> None:
    """Between both, and the next process of the instance wipes what it finds."""
    config = config_of(exactly_once=True)
    runs = [disturbed(seed, config, ("wipe",), activation=0) for seed in range(6)]
    assert [list(run.violations) for run in runs] == [[]] * len(runs)
    died = 0
    for run in runs:
        wiping = [each for each in run.events if each.kind.startswith(("task.wip", "instance.c"))]
        for one, other in pairwise(wiping):
            died += (one.kind, other.kind) == ("task.wiping", "instance.crashed")
    assert died > 0


def test_an_unknown_kind_is_refused() -> None:
    """With those that there are."""
    small = Small(exactly_once=True, count=1)
    with pytest.raises(UsageError, match=r"'flood' is not a fault .* Choose some of: crash"):
        Nemesis(small.world, small.application.network, small.instances, ("crash", "flood"))


def test_without_a_kind_there_is_only_the_end() -> None:
    """All faults end when they should."""
    small = Small(exactly_once=True, count=1)
    nemesis = Nemesis(small.world, small.application.network, small.instances, (), safety_ms=2_000)
    small.world.time.process(nemesis.run())
    small.world.time.run(until=nemesis.healed)
    assert small.world.now == 2_000


def test_clocks_drift() -> None:
    """The plainest choice is a clock that is right; an instance keeps its own through restarts."""
    assert drawn_drift(Choices.recorded([])) == 0
    assert {drawn_drift(Choices.seeded(seed)) for seed in range(50)} == set(DRIFTS_PPM)
    small = Small(exactly_once=True, count=1)
    fast = Instance(small.application, "fast", drift_ppm=500)
    for _ in range(2):
        fast.start()
        assert fast.host is not None
        small.run(10_000)
        assert fast.host.now == small.world.now + small.world.now * 500 // 1_000_000
        fast.crash()


# Stopping.


@GUARANTEES
@KINDS_OF_STORE
def test_an_instance_that_is_stopped_leaves_nothing(
    *, exactly_once: bool, transactional: bool
) -> None:
    """No lock, no open store, no member, no transaction; and what it leaves can be gone on with."""
    small = Small(exactly_once=exactly_once, transactional=transactional, count=1)
    small.run(8_000)
    [instance] = small.instances
    done = small.world.time.process(instance.stop())
    small.world.time.run(until=done)
    assert small.world.now < 9_000
    assert instance.host is None
    assert instance.disk.open_stores == []
    assert instance.disk.process is None
    [stopped] = small.of("instance.stopped")
    assert stopped.attributes["leaks"] == []
    assert {each.attributes["closing"] for each in small.of("task.closed")} == {"CLEAN"}
    cluster = small.application.cluster
    assert not cluster.group(small.topology.application_id).members
    small.run(5_000)
    assert all(log.last_stable_offset == log.end for log in cluster.logs.values())
    opened = len(small.of("store.opened"))
    instance.start()
    small.run_to_the_end()
    again = small.of("store.opened")[opened:]
    # What was closed cleanly is kept, with its offsets.
    assert len(again) == 3
    assert all(each.offset >= 0 and not each.attributes["wipe"] for each in again)
    assert (small.watch.end(), small.unexpected() if exactly_once else []) == ([], [])


@GUARANTEES
def test_a_rolling_bounce(*, exactly_once: bool) -> None:
    """All are restarted, nothing is wiped, and everything is processed."""
    small = Small(exactly_once=exactly_once, count=3)
    small.run(5_000)
    bounce = rolling_bounce(small.world, small.instances)
    small.world.time.run(until=small.world.time.process(bounce))
    stopped = small.of("instance.stopped")
    assert [each.actor for each in stopped] == ["instance-0", "instance-1", "instance-2"]
    assert [each.attributes["leaks"] for each in stopped] == [[], [], []]
    assert not small.of("instance.crashed")
    assert not small.of("task.wiped")
    small.run_to_the_end()
    assert (small.watch.end(), small.unexpected() if exactly_once else []) == ([], [])


def test_who_does_not_stop_in_time_is_killed() -> None:
    """As when the brokers do not answer any more."""
    small = Small(exactly_once=True, count=1)
    # A record is not committed yet, and the commit waits for the brokers.
    small.run(8_690)
    [instance] = small.instances
    small.application.network.cut(instance.name)
    began = small.world.now
    done = small.world.time.process(stop_in_time(small.world, instance))
    small.world.time.run(until=done)
    assert small.world.now == began + GRACE_MS
    assert instance.host is None
    assert [each.actor for each in small.of("instance.crashed")] == ["instance-0"]
    assert not small.of("instance.stopped")


def test_to_stop_who_does_not_run_is_no_mistake() -> None:
    """Nothing happens, and it can be started."""
    small = Small(exactly_once=True, count=1)
    [instance] = small.instances
    instance.crash()
    small.world.time.run(until=small.world.time.process(instance.stop()))
    assert not small.of("instance.stopped")
    instance.start()
    small.run(60_000)
    states = {task.state for thread in instance.threads for task in thread.tasks.values()}
    assert states == {TaskState.RUNNING}


def test_an_instance_that_is_paused_keeps_its_tasks_and_does_nothing() -> None:
    """It stays a member; what comes later is processed once it is resumed (KIP-834)."""
    events: list[Event] = []
    world = World(Choices.seeded(3), [events.append], activation=0)
    application = Application(world, TOPOLOGIES["count"].topology(2), config_of(exactly_once=True))
    instance = Instance(application, "instance-0", 2)
    instance.start()
    world.time.run(until=5_000)
    (thread, _) = instance.threads
    mine = sorted(thread.tasks)
    instance.pause()
    instance.pause()
    for number in range(2):
        record = {"key": b"k", "value": b"v", "timestamp": 0}
        application.cluster.produce(f"in-{number}", [record])
    world.time.run(until=60_000)
    assert sorted(thread.tasks) == mine
    assert not [each for each in events if each.kind == "task.processed"]
    instance.resume()
    world.time.run(until=65_000)
    assert len([each for each in events if each.kind == "task.processed"]) == 2
    kinds = [each.kind for each in events if each.actor == "instance-0"]
    assert kinds == ["instance.started", "instance.paused", "instance.resumed"]


def test_what_is_assigned_during_a_pause_waits() -> None:
    """Its stores are open, and nothing is restored; a new process is not paused any more."""
    events: list[Event] = []
    world = World(Choices.seeded(4), [events.append], activation=0)
    application = Application(world, TOPOLOGIES["count"].topology(2), config_of(exactly_once=True))
    instance = Instance(application, "instance-0")
    instance.start()
    instance.pause()
    world.time.run(until=20_000)
    (thread,) = instance.threads
    assert {task.state for task in thread.tasks.values()} == {TaskState.RESTORING}
    assert not [each for each in events if each.kind == "restore.start"]
    instance.crash()
    assert not instance.is_paused
    instance.start()
    world.time.run(until=60_000)
    (thread,) = instance.threads
    assert {task.state for task in thread.tasks.values()} == {TaskState.RUNNING}
