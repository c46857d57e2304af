"""A state updater in a small world: its restorations, and the calls to its listeners (KIP-869)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from streamproof.conformance.runtime_checks.probe import Probe, scripted
from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.clients.producer import Producer
from streamproof.sim.model_store import ModelDisk, ModelStore
from streamproof.sim.network import Network
from streamproof.sim.tasks.state_updater import StateUpdater, UpdaterConfig
from streamproof.sim.tasks.stream_task import StreamTask, TaskConfig
from streamproof.sim.topology import ProcessorContext, Subtopology, Topology
from streamproof.stores.runtime.restoration import StandbyUpdateListener, StateRestoreListener

__all__: list[str] = []

LOG = "app-one-changelog-0"
OTHER = "app-one-changelog-1"
TOLD = ("restore.start", "restore.batch", "restore.end", "restore.suspended")


def _nothing(_context: ProcessorContext, _topic: str, _record: LogEntry) -> None:
    """Does nothing, because these checks process no record."""


TOPOLOGY = Topology("app", (Subtopology(("in",), _nothing, ("one",)),), {"in": 2})


class _Heard(StateRestoreListener, StandbyUpdateListener):
    """Notes every call, and may raise in one of them."""

    def __init__(self, raises_in: str = "") -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.raises_in = raises_in

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("on_"):
            return super().__getattribute__(name)

        def note(partition: object, *details: object) -> None:
            self.calls.append((str(partition), name.removeprefix("on_"), *details))
            if name == self.raises_in:
                raise ValueError("no more of this")

        return note


class _Bench:
    """An updater, and two changelogs to restore from."""

    def __init__(
        self, probe: Probe, raises_in: str = "", listener: StateRestoreListener | None = None
    ) -> None:
        self.world = probe.world()
        self.heard = _Heard(raises_in)
        self.cluster = Cluster(self.world, TOPOLOGY.topics)
        host = self.world.host("instance-0")
        network = Network(self.world)
        self._producer = Producer(self.world, host, network, self.cluster)
        self._disk = ModelDisk()
        config = UpdaterConfig(
            "read_committed",
            "app",
            commit_interval_ms=1_000,
            listener=listener or self.heard,
            standby_listener=self.heard,
        )
        self._new_updater = partial(
            StateUpdater,
            self.world,
            host,
            network,
            self.cluster,
            config,
            actor="instance-0/updater-0",
        )
        self.updater = self._new_updater()

    def replace_updater(self) -> None:
        """Let another updater take the place of one that died, as the stream thread does."""
        self.updater = self._new_updater(predecessor=self.updater)

    def write(self, log: str, *values: bytes, **more: Any) -> None:
        """Records of one key."""
        some = [{"key": b"k", "value": value, "timestamp": 0, **more} for value in values]
        self.cluster.produce(log, some)

    def open_transaction(self, log: str) -> Callable[[], None]:
        """Write a record in an open transaction, and return the call that commits it."""
        self.write(log, b"last", producer=9, transactional=True)

        def commit() -> None:
            self.cluster.logs[log].end_transaction(9, commit=True, timestamp=0)
            self.cluster.tell_readers(log)

        return commit

    def task(self, task_id: str = "0_0") -> StreamTask:
        """A task whose stores are open."""
        made = StreamTask(
            task_id,
            TOPOLOGY.tasks[task_id],
            TaskConfig(True, False, 0, "proposal", TOPOLOGY.topics),
            choices=self.world.choices,
            trace=self.world.trace,
            actor="instance-0/thread-0",
        )
        made.open(
            Path(task_id),
            lambda name: ModelStore(name, self._disk),
            self._producer,
            was_empty=True,
        )
        return made

    def wait(self, milliseconds: int = 1_000) -> None:
        """Let time pass."""
        self.world.time.run(until=self.world.now + milliseconds)

    def told(self, log: str) -> list[tuple[Any, ...]]:
        """The calls about one changelog, by name and with their details."""
        return [each[1:] for each in self.heard.calls if _is(each[0], log)]


def _is(partition: str, log: str) -> bool:
    """Whether the text of a partition is about a changelog."""
    topic, _, number = log.rpartition("-")
    return topic in partition and number in partition.replace(topic, "")


@scripted("LISTEN-103")
def start_batches_end(probe: Probe) -> None:
    """Restore a store with two records and a store with none."""
    bench = _Bench(probe)
    bench.write(LOG, b"1", b"2")
    bench.updater.add(bench.task("0_0"), is_active=True)
    bench.updater.add(bench.task("0_1"), is_active=True)
    bench.wait()
    # The offset of a batch is that of its last record.
    expected = [
        ("restore_start", "one", 0, 2),
        ("batch_restored", "one", 1, 2),
        ("restore_end", "one", 2),
    ]
    probe.expect(expected, bench.told(LOG))
    probe.expect([("restore_start", "one", 0, 0), ("restore_end", "one", 0)], bench.told(OTHER))


@scripted("LISTEN-104")
def suspended_and_started_again(probe: Probe) -> None:
    """Remove a task in the middle of its restoration, and add it again."""
    bench = _Bench(probe)
    bench.write(LOG, b"1", b"2")
    commit = bench.open_transaction(LOG)
    task = bench.task()
    bench.updater.add(task, is_active=True)
    bench.wait()
    probe.expect(expected=True, found=bench.updater.remove("0_0") is task)
    commit()
    bench.updater.add(task, is_active=True)
    bench.wait()
    # The last record and the marker after it remain. The restoration applies the record.
    expected = [
        ("restore_start", "one", 0, 3),
        ("batch_restored", "one", 1, 2),
        ("restore_suspended", "one", 2),
        ("restore_start", "one", 2, 4),
        ("batch_restored", "one", 2, 1),
        ("restore_end", "one", 1),
    ]
    probe.expect(expected, bench.told(LOG))
    probe.expect(b"last", task.store("one").get(b"k"))


@scripted("LISTEN-105")
def a_completed_one_is_not_suspended(probe: Probe) -> None:
    """Remove a task whose restoration is complete."""
    bench = _Bench(probe)
    bench.write(LOG, b"1")
    bench.updater.add(bench.task(), is_active=True)
    bench.wait()
    bench.updater.remove("0_0")
    bench.updater.close()
    names = [each[0] for each in bench.told(LOG)]
    probe.expect(["restore_start", "batch_restored", "restore_end"], names)


@scripted("LISTEN-106")
def a_listener_that_raises(probe: Probe) -> None:
    """Let each method of the listener raise while the updater has two tasks."""
    for method in ("on_restore_start", "on_batch_restored", "on_restore_end"):
        bench = _Bench(probe, raises_in=method)
        bench.write(LOG, b"1")
        bench.open_transaction(OTHER)
        for task_id in ("0_0", "0_1"):
            bench.updater.add(bench.task(task_id), is_active=True)
        bench.wait()
        probe.demand(
            f"the exception of {method} to end the updater",
            "a running updater",
            holds="no more of this" in str(bench.updater.fatal),
        )
        gone = [task.id for task, _ in bench.updater.failed]
        gone += [task.id for task in bench.updater.restored]
        probe.expect(["0_0", "0_1"], sorted(gone))


@scripted("LISTEN-107")
def standbys_have_a_listener_of_their_own(probe: Probe) -> None:
    """Update a standby, and make it the active task."""
    bench = _Bench(probe)
    bench.write(LOG, b"1", b"2")
    bench.updater.add(bench.task(), is_active=False)
    bench.wait()
    bench.updater.remove("0_0", "promoted")
    expected = [
        ("update_start", "one", 0),
        ("batch_loaded", "one", "0_0", 1, 2, 2),
        ("update_suspended", "one", 1, 2, "promoted"),
    ]
    probe.expect(expected, bench.told(LOG))


@scripted("STANDBY-002")
def standbys_wait_for_active_tasks(probe: Probe) -> None:
    """Restore an active task that waits for a transaction, while the updater also has a standby."""
    bench = _Bench(probe)
    commit = bench.open_transaction(LOG)
    bench.write(OTHER, b"1")
    standby = bench.task("0_1")
    bench.updater.add(bench.task("0_0"), is_active=True)
    bench.updater.add(standby, is_active=False)
    bench.wait()
    probe.expect(None, standby.store("one").get(b"k"))
    commit()
    bench.wait()
    probe.expect(b"1", standby.store("one").get(b"k"))


@scripted("STANDBY-003")
def standbys_follow(probe: Probe) -> None:
    """Write to the changelog of an up-to-date standby."""
    bench = _Bench(probe)
    task = bench.task()
    bench.updater.add(task, is_active=False)
    for value in (b"1", b"2", b"3"):
        bench.write(LOG, value)
        bench.wait()
        probe.expect(value, task.store("one").get(b"k"))
    probe.expect(["0_0"], [each.id for each in bench.updater.tasks])


@scripted("TASK-030")
def waits_for_an_open_transaction(probe: Probe) -> None:
    """Restore a changelog that ends with an open transaction of the previous owner."""
    bench = _Bench(probe)
    bench.write(LOG, b"1")
    commit = bench.open_transaction(LOG)
    task = bench.task()
    bench.updater.add(task, is_active=True)
    bench.wait(5_000)
    probe.demand("an unfinished restoration", "a finished one", holds=not bench.updater.restored)
    commit()
    bench.wait()
    probe.expect(["0_0"], [each.id for each in bench.updater.restored])
    probe.expect(b"last", task.store("one").get(b"k"))


@scripted("TASK-031")
def commits_while_it_restores(probe: Probe) -> None:
    """Restore a task for longer than the commit interval."""
    bench = _Bench(probe)
    bench.write(LOG, b"1", b"2")
    bench.open_transaction(LOG)
    bench.updater.add(bench.task(), is_active=True)
    bench.wait(3_000)
    probe.expect([1], [each.offset for each in probe.of("store.committed")])


@scripted("LISTEN-108")
def nothing_has_to_be_overridden(probe: Probe) -> None:
    """Suspend a restoration with a listener that overrides no method."""
    bench = _Bench(probe, listener=StateRestoreListener())
    bench.open_transaction(LOG)
    task = bench.task()
    bench.updater.add(task, is_active=True)
    bench.wait()
    probe.expect(expected=True, found=bench.updater.remove("0_0") is task)
    probe.expect(None, bench.updater.fatal)
    probe.expect(["restore.start", "restore.suspended"], [each.kind for each in probe.of(*TOLD)])


@scripted("METRIC-112")
def tasks_are_counted(probe: Probe) -> None:
    """Restore and update tasks, pause them, resume one, and remove them."""
    bench = _Bench(probe)
    bench.open_transaction(LOG)
    bench.updater.add(bench.task("0_0"), is_active=True)
    bench.updater.add(bench.task("0_1"), is_active=False)
    bench.wait()
    probe.expect((1, 1, 0, 0), _counts(bench))
    for task_id in ("0_0", "0_1"):
        bench.updater.pause(task_id)
    probe.expect((0, 0, 1, 1), _counts(bench))
    bench.updater.resume("0_0")
    probe.expect((1, 0, 0, 1), _counts(bench))
    for task_id in ("0_0", "0_1"):
        bench.updater.remove(task_id)
    probe.expect((0, 0, 0, 0), _counts(bench))


@scripted("METRIC-113")
def metrics_outlive_the_updater(probe: Probe) -> None:
    """Let an updater die after it handed a task back, and let another one take its place."""
    bench = _Bench(probe)
    bench.write(LOG, b"1", b"2")
    bench.updater.add(bench.task("0_0"), is_active=True)
    bench.wait()
    probe.expect(["0_0"], [each.id for each in bench.updater.restored])
    bench.open_transaction(OTHER)
    bench.heard.raises_in = "on_restore_start"
    bench.updater.add(bench.task("0_1"), is_active=True)
    bench.wait()
    probe.demand("a dead updater", "a running one", holds=bench.updater.fatal is not None)
    probe.expect({"0_0": 2}, _restore_totals(bench))
    bench.replace_updater()
    probe.expect({"0_0": 2}, _restore_totals(bench))
    bench.updater.remove("0_0")
    probe.expect({}, _restore_totals(bench))


def _restore_totals(bench: _Bench) -> dict[str, float]:
    """The metric restore-total of each task that has it."""
    rows = bench.updater.metrics.rows()
    return {row.tags["task-id"]: row.value for row in rows if row.name == "restore-total"}


def _counts(bench: _Bench) -> tuple[float, ...]:
    """The numbers of running and paused tasks, each for active tasks and standbys."""
    gauges = bench.updater.metrics.gauges()
    names = (
        "active-restoring-tasks",
        "standby-updating-tasks",
        "active-paused-tasks",
        "standby-paused-tasks",
    )
    return tuple(gauges[name] for name in names)
