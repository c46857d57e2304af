"""A state updater in a small world: its restorations, and the calls to its listeners (KIP-869)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import isclose
from pathlib import Path
from typing import Any

from streamproof.conformance.runtime_checks.probe import Probe, scripted
from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.clients.producer import Producer
from streamproof.sim.decisions.idling import Mode
from streamproof.sim.model_store import ModelDisk, ModelStore
from streamproof.sim.network import Network
from streamproof.sim.tasks.state_updater import StateUpdater, UpdaterConfig
from streamproof.sim.tasks.stream_task import StreamTask
from streamproof.sim.tasks.task_config import TaskConfig
from streamproof.sim.topology import ProcessorContext, Subtopology, Topology
from streamproof.stores.errors import ProcessorStateError
from streamproof.stores.metrics import Metrics
from streamproof.stores.runtime.restoration import StandbyUpdateListener, StateRestoreListener

__all__: list[str] = []

LOG = "app-one-changelog-0"
OTHER = "app-one-changelog-1"
SECOND = "app-two-changelog-0"
REMAINING = "restore-remaining-records-total"
TOLD = ("restore.start", "restore.batch", "restore.end", "restore.suspended")
RESTORE_METHODS = (
    "on_restore_start",
    "on_batch_restored",
    "on_restore_end",
    "on_restore_suspended",
)
UPDATE_METHODS = ("on_update_start", "on_batch_loaded", "on_update_suspended")


def _nothing(_context: ProcessorContext, _topic: str, _record: LogEntry) -> None:
    """Does nothing, because these checks process no record."""


TOPOLOGY = Topology("app", (Subtopology(("in",), _nothing, ("one",)),), {"in": 4})

TWO_STORES = Topology("app", (Subtopology(("in",), _nothing, ("one", "two")),), {"in": 4})


class _Heard(StateRestoreListener, StandbyUpdateListener):
    """Notes every call, and may raise in one of them."""

    def __init__(self, raises_in: str = "") -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.raises_in = raises_in
        self.at_start: Callable[[], None] = lambda: None

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("on_"):
            return super().__getattribute__(name)

        def note(partition: object, *details: object) -> None:
            self.calls.append((str(partition), name.removeprefix("on_"), *details))
            if name == "on_restore_start":
                self.at_start()
            if name == self.raises_in:
                raise ValueError("no more of this")

        return note


class _Older(StateRestoreListener):
    """Notes its calls, and inherits what the proposal adds."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def on_restore_start(self, *_: object) -> None:
        """Note the call."""
        self.calls.append("restore_start")

    def on_batch_restored(self, *_: object) -> None:
        """Note the call."""
        self.calls.append("batch_restored")

    def on_restore_end(self, *_: object) -> None:
        """Note the call."""
        self.calls.append("restore_end")


class _Bench:
    """An updater, and two changelogs to restore from."""

    def __init__(
        self,
        probe: Probe,
        raises_in: str = "",
        listener: StateRestoreListener | None = None,
        mode: Mode = "proposal",
        *,
        topology: Topology = TOPOLOGY,
    ) -> None:
        self.world = probe.world()
        self.heard = _Heard(raises_in)
        self.topology = topology
        self.cluster = Cluster(self.world, topology.topics)
        host = self.world.host("instance-0")
        network = Network(self.world)
        self._producer = Producer(self.world, host, network, self.cluster)
        self._disk = ModelDisk()
        config = UpdaterConfig(
            "read_committed",
            "app",
            commit_interval_ms=1_000,
            mode=mode,
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
            registry=Metrics("DEBUG", lambda: host.now),
        )
        self.updater = self._new_updater()

    def replace_updater(self) -> None:
        """Let another updater take the place of one that died, as the stream thread does."""
        self.updater = self._new_updater(predecessor=self.updater)

    def write(self, log: str, *values: bytes, **more: Any) -> None:
        """Records of one key."""
        some = [{"key": b"k", "value": value, "timestamp": 0, **more} for value in values]
        self.cluster.produce(log, some)

    def open_transaction(self, log: str, sequence: int = 0) -> Callable[[], None]:
        """Write a record in an open transaction, and return the call that commits it."""
        self.write(log, b"last", producer=9, sequence=sequence, transactional=True)

        def commit() -> None:
            self.cluster.logs[log].end_transaction(9, commit=True, timestamp=0)
            self.cluster.tell_readers(log)

        return commit

    def task(self, task_id: str = "0_0") -> StreamTask:
        """A task whose stores are open."""
        made = StreamTask(
            task_id,
            self.topology.tasks[task_id],
            TaskConfig(True, False, 0, "proposal", self.topology.topics),
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


@scripted("LISTEN-103")
def each_store_by_itself(probe: Probe) -> None:
    """Restore a task with two stores, one of which has to wait for a transaction."""
    bench = _Bench(probe, topology=TWO_STORES)
    bench.write(LOG, b"1", b"2", b"3")
    bench.write(SECOND, b"1")
    commit = bench.open_transaction(SECOND)
    bench.updater.add(bench.task(), is_active=True)
    bench.wait()
    expected = [
        ("restore_start", "one", 0, 3),
        ("batch_restored", "one", 2, 3),
        ("restore_end", "one", 3),
    ]
    probe.expect(expected, bench.told(LOG))
    second: list[tuple[Any, ...]] = [
        ("restore_start", "two", 0, 2),
        ("batch_restored", "two", 0, 1),
    ]
    probe.expect(second, bench.told(SECOND))
    commit()
    bench.wait()
    second += [("batch_restored", "two", 1, 1), ("restore_end", "two", 2)]
    probe.expect(second, bench.told(SECOND))
    probe.expect(expected, bench.told(LOG))


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


@scripted("LISTEN-111")
def a_failed_one_is_suspended(probe: Probe) -> None:
    """Let restorations fail: by the store, by a changelog that was cut off, and by the updater."""
    for fail in (_refuse_records, _cut_off, _kill_updater):
        bench = _Bench(probe)
        bench.write(LOG, b"1", b"2")
        commit = bench.open_transaction(LOG)
        task = bench.task()
        bench.updater.add(task, is_active=True)
        bench.wait()
        fail(bench, task)
        bench.wait()
        commit()
        bench.wait()
        probe.expect(["0_0"], [each.id for each, _ in bench.updater.failed])
        expected = [
            ("restore_start", "one", 0, 3),
            ("batch_restored", "one", 1, 2),
            ("restore_suspended", "one", 2),
        ]
        probe.expect(expected, bench.told(LOG))


def _refuse_records(_: _Bench, task: StreamTask) -> None:
    """Let the store refuse all further records."""

    def refuse(_: object) -> None:
        raise ProcessorStateError("The store takes no more records.")

    task.stores["one"].restore = refuse


def _cut_off(bench: _Bench, _: StreamTask) -> None:
    """Delete the records that are restored next."""
    log = bench.cluster.logs[LOG]
    bench.write(LOG, b"4")
    log.delete_before(log.end)


def _kill_updater(bench: _Bench, _: StreamTask) -> None:
    """Let the updater die."""
    bench.world.faults.scripted = lambda site, *_: site == "updater.died"


@scripted("LISTEN-106")
def a_listener_that_raises(probe: Probe) -> None:
    """Let each method of the listener raise while the updater has two tasks."""
    for method in RESTORE_METHODS + UPDATE_METHODS:
        bench = _Bench(probe, raises_in=method)
        bench.write(LOG, b"1")
        bench.open_transaction(OTHER)
        for task_id in ("0_0", "0_1"):
            bench.updater.add(bench.task(task_id), is_active=method in RESTORE_METHODS)
        bench.wait()
        gone = []
        if method.endswith("suspended"):
            # The restoration of this task waits for the transaction, so that it is suspended.
            removed = bench.updater.remove("0_1")
            gone = [] if removed is None else [removed.id]
            bench.wait()
        probe.demand(
            f"the exception of {method} to end the updater",
            "a running updater",
            holds="no more of this" in str(bench.updater.fatal),
        )
        gone += [task.id for task, _ in bench.updater.failed]
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


@scripted("STANDBY-002")
def updates_stop_for_an_active_task(probe: Probe) -> None:
    """Give an active task that waits for a transaction to an updater that updates a standby."""
    bench = _Bench(probe)
    bench.write(OTHER, b"1")
    standby = bench.task("0_1")
    bench.updater.add(standby, is_active=False)
    bench.wait()
    probe.expect(b"1", standby.store("one").get(b"k"))
    commit = bench.open_transaction(LOG)
    bench.updater.add(bench.task("0_0"), is_active=True)
    bench.wait()
    bench.write(OTHER, b"2")
    bench.wait(10_000)
    probe.expect(b"1", standby.store("one").get(b"k"))
    commit()
    bench.wait()
    probe.expect(b"2", standby.store("one").get(b"k"))


@scripted("METRIC-114")
def time_is_measured_from_outside(probe: Probe) -> None:
    """Let an updater wait, restore, pause and update for some seconds each, and read its ratios."""
    modes: tuple[Mode, ...] = ("proposal", "kafka")
    for mode in modes:
        bench = _Bench(probe, mode=mode)
        bench.wait(2_000)
        _expect_shares(probe, bench, idle=2)
        bench.write(LOG, b"1")
        commit = bench.open_transaction(LOG)
        bench.updater.add(bench.task("0_0"), is_active=True)
        bench.wait(3_000)
        _expect_shares(probe, bench, idle=2, restore=3)
        bench.updater.pause("0_0")
        bench.wait(4_000)
        _expect_shares(probe, bench, idle=6, restore=3)
        commit()
        bench.updater.resume("0_0")
        bench.wait(2_000)
        _expect_shares(probe, bench, idle=8, restore=3)
        bench.updater.add(bench.task("0_1"), is_active=False)
        bench.wait(5_000)
        kept = 3 if mode == "kafka" else 0
        _expect_shares(probe, bench, idle=8, restore=kept, update=5)
        bench.updater.remove("0_1")
        bench.wait(2_000)
        _expect_shares(probe, bench, idle=10, restore=kept, update=5)


def _expect_shares(
    probe: Probe, bench: _Bench, *, idle: int, restore: int = 0, update: int = 0
) -> None:
    """Compare the ratios with the seconds that an updater spent; its commits took no second."""
    spent = {
        "idle-ratio": idle,
        "active-restore-ratio": restore,
        "standby-update-ratio": update,
        "checkpoint-ratio": 0,
    }
    gauges = bench.updater.metrics.gauges()
    for name, seconds in spent.items():
        share = seconds / sum(spent.values())
        probe.demand(
            f"{name} of about {share:.3f}, after {spent} seconds",
            f"{gauges[name]:.3f}",
            holds=isclose(share, gauges[name], abs_tol=0.01),
        )


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
    """Restore a task for several commit intervals, with news in the first and in a later one."""
    bench = _Bench(probe)
    bench.write(LOG, b"1", b"2")
    commit = bench.open_transaction(LOG)
    # Another open transaction keeps the restoration going when the first one ends.
    bench.write(LOG, b"5", producer=8, sequence=0, transactional=True)
    bench.updater.add(bench.task(), is_active=True)
    bench.wait(3_000)
    probe.expect([1], [each.offset for each in probe.of("store.committed")])
    commit()
    bench.wait(3_000)
    probe.expect([1, 2], [each.offset for each in probe.of("store.committed")])


@scripted("LISTEN-108")
def nothing_has_to_be_overridden(probe: Probe) -> None:
    """Suspend a restoration with a listener that has the three methods from before the proposal."""
    listener = _Older()
    bench = _Bench(probe, listener=listener)
    bench.open_transaction(LOG)
    task = bench.task()
    bench.updater.add(task, is_active=True)
    bench.wait()
    probe.expect(expected=True, found=bench.updater.remove("0_0") is task)
    # The updater notices an error of the listener in its next round.
    bench.wait()
    probe.expect(None, bench.updater.fatal)
    probe.expect(["restore.start", "restore.suspended"], [each.kind for each in probe.of(*TOLD)])
    probe.expect(["restore_start"], listener.calls)


@scripted("METRIC-112")
def tasks_are_counted(probe: Probe) -> None:
    """Restore and update tasks, pause them, resume some, and remove them in each state."""
    bench = _Bench(probe)
    commit = bench.open_transaction(LOG)
    bench.open_transaction(OTHER)
    active, standbys = ("0_0", "0_1"), ("0_2", "0_3")
    for task_id in active + standbys:
        bench.updater.add(bench.task(task_id), is_active=task_id in active)
    bench.wait()
    probe.expect((2, 2, 0, 0), _counts(bench))
    # To pause a paused task, or to resume one that goes on, changes nothing.
    for task_id in (active[0], standbys[0], active[0], standbys[0]):
        bench.updater.pause(task_id)
        bench.updater.resume(active[1])
    probe.expect((1, 1, 1, 1), _counts(bench))
    for task_id in (active[1], standbys[1]):
        bench.updater.pause(task_id)
    probe.expect((0, 0, 2, 2), _counts(bench))
    for task_id in (active[0], standbys[0]):
        bench.updater.resume(task_id)
    probe.expect((1, 1, 1, 1), _counts(bench))
    commit()
    bench.wait()
    # The restoration of the first task is complete, and that of the second is paused.
    probe.expect((0, 1, 1, 1), _counts(bench))
    for task_id, left in zip(
        (*active, *standbys), ((0, 1, 1, 1), (0, 1, 0, 1), (0, 0, 0, 1), (0, 0, 0, 0)), strict=True
    ):
        bench.updater.remove(task_id)
        probe.expect((task_id, left), (task_id, _counts(bench)))


@scripted("METRIC-112")
def failed_tasks_are_not_counted(probe: Probe) -> None:
    """Let the store of an active task, and that of a standby, refuse the records."""
    for is_active in (True, False):
        bench = _Bench(probe)
        bench.write(LOG, b"1")
        task = bench.task("0_0")
        _refuse_records(bench, task)
        bench.updater.add(task, is_active=is_active)
        bench.wait()
        probe.need("a failed task", holds=[each.id for each, _ in bench.updater.failed] == ["0_0"])
        probe.expect((0, 0, 0, 0), _counts(bench))


@scripted("METRIC-113")
def metrics_outlive_the_updater(probe: Probe) -> None:
    """Pause a standby; let the updater die after it handed a task back, and replace it."""
    bench = _Bench(probe)
    bench.write(LOG, b"1", b"2")
    bench.updater.add(bench.task("0_0"), is_active=True)
    bench.wait()
    probe.expect(["0_0"], [each.id for each in bench.updater.restored])
    bench.write("app-one-changelog-2", b"1", b"2", b"3")
    bench.updater.add(bench.task("0_2"), is_active=False)
    bench.wait()
    bench.updater.pause("0_2")
    probe.expect({"0_0": 2, "0_2": 3}, _totals(bench))
    bench.updater.resume("0_2")
    bench.open_transaction(OTHER)
    bench.heard.raises_in = "on_restore_start"
    bench.updater.add(bench.task("0_1"), is_active=True)
    bench.wait()
    probe.need("a dead updater", holds=bench.updater.fatal is not None)
    # The failed tasks have not left their thread either, until the thread removes them.
    probe.expect({"0_0": 2, "0_1": 0, "0_2": 3}, _totals(bench))
    bench.updater.remove("0_1")
    probe.expect({"0_0": 2, "0_2": 3}, _totals(bench))
    bench.replace_updater()
    probe.expect({"0_0": 2, "0_2": 3}, _totals(bench))
    for task, left in (("0_2", {"0_0": 2}), ("0_0", {})):
        bench.updater.remove(task)
        probe.expect(left, _totals(bench))


@scripted("METRIC-117")
def what_remains_counts_records(probe: Probe) -> None:
    """Restore a changelog with a marker in its middle, by the rules of the proposal."""
    # Three of five offsets have restored records, and a restored record reduces the count by 1.
    _expect_remaining(probe, "proposal", [5, 2, 0])
    _expect_remaining_of_all_stores(probe, "proposal")


@scripted("METRIC-106")
def what_remains_counts_offsets(probe: Probe) -> None:
    """Restore a changelog with a marker in its middle, by Kafka's rules."""
    # The last restored record has offset 3, and one offset comes after it.
    _expect_remaining(probe, "kafka", [5, 1, 0])
    _expect_remaining_of_all_stores(probe, "kafka")


def _expect_remaining(probe: Probe, mode: Mode, expected: list[int]) -> None:
    """Read what remains before the first batch, before a transaction that is open, and at the end.

    The listener reads it at the start. The changelog has records at the offsets 0, 1, 3 and 4, and
    markers after the offsets 1 and 4.
    """
    bench = _Bench(probe, mode=mode)
    bench.write(LOG, b"1")
    commit = bench.open_transaction(LOG)
    commit()
    bench.write(LOG, b"2")
    commit = bench.open_transaction(LOG, sequence=1)
    seen: list[float] = []

    def read() -> None:
        seen.extend(value for _, value in _metrics(bench, REMAINING))

    bench.heard.at_start = read
    bench.updater.add(bench.task(), is_active=True)
    bench.wait()
    read()
    commit()
    bench.wait()
    read()
    probe.expect(expected, seen)


def _expect_remaining_of_all_stores(probe: Probe, mode: Mode) -> None:
    """Suspend and resume a task with two stores, both of which wait for transactions.

    No changelog has a marker yet, so that records and offsets are the same.
    """
    bench = _Bench(probe, mode=mode, topology=TWO_STORES)
    for log, values in ((LOG, (b"1", b"2")), (SECOND, (b"1", b"2", b"3"))):
        bench.write(log, *values)
        bench.open_transaction(log)
    task = bench.task()
    for _ in range(2):
        bench.updater.add(task, is_active=True)
        bench.wait()
        # Of each store, the record in the open transaction; the second time, nothing else is read.
        probe.expect([2], [each for _, each in _metrics(bench, REMAINING)])
        bench.updater.remove("0_0")


def _totals(bench: _Bench) -> dict[str, float]:
    """By task, the metric restore-total or update-total."""
    return dict(_metrics(bench, "restore-total", "update-total"))


def _metrics(bench: _Bench, *names: str) -> list[tuple[str, float]]:
    """The tasks that have one of these metrics, each with the value."""
    rows = bench.updater.metrics.rows()
    return [(each.tags["task-id"], each.value) for each in rows if each.name in names]


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
