"""The state updater: where restorations begin and end, who waits, and what is told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from streamproof.sim.broker_errors import OffsetOutOfRangeError, UpdaterDiedError
from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.choices import Choices
from streamproof.sim.clients.producer import Producer
from streamproof.sim.fault_sites import SITES
from streamproof.sim.model_store import ModelDisk, ModelStore
from streamproof.sim.network import Network
from streamproof.sim.tasks.state_updater import StateUpdater, UpdaterConfig
from streamproof.sim.tasks.store_holder import topic_partition
from streamproof.sim.tasks.stream_task import StreamTask, TaskState
from streamproof.sim.tasks.task_config import TaskConfig
from streamproof.sim.topology import ProcessorContext, Subtopology, Topology
from streamproof.sim.trace import Event
from streamproof.sim.updater_metrics import RATIOS
from streamproof.sim.world import World
from streamproof.stores.api import ChangelogRecord
from streamproof.stores.errors import StoreError
from streamproof.stores.metrics import Metrics
from streamproof.stores.runtime.restoration import StandbyUpdateListener, StateRestoreListener


def nothing(_context: ProcessorContext, _topic: str, _record: LogEntry) -> None:
    """Does nothing."""


TOPOLOGY = Topology(
    "app",
    (Subtopology(("in",), nothing, ("one", "two")), Subtopology(("in",), nothing)),
    {"in": 3},
)


def changelog(store: str, partition: int) -> str:
    """The changelog of a store."""
    return f"app-{store}-changelog-{partition}"


class Heard(StateRestoreListener, StandbyUpdateListener):
    """Notes every call, and may raise in one of them."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.raises_in = ""

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("on_"):
            return super().__getattribute__(name)

        def note(*details: Any) -> None:
            self.calls.append((name.removeprefix("on_"), *details))
            if name == self.raises_in:
                raise ValueError("no more of this")

        return note

    def of(self, partition: str) -> list[str]:
        """The calls about one changelog, by name."""
        return [each[0] for each in self.calls if each[1] == topic_partition(partition)]


class Bench:
    """An updater, and changelogs to restore from."""

    def __init__(
        self,
        seed: int = 0,
        *,
        activation: float = 0,
        commit_interval_ms: int = 1_000,
        sites: Mapping[str, float] = SITES,
    ) -> None:
        self.events: list[Event] = []
        self.world = World(
            Choices.seeded(seed), [self.events.append], sites=sites, activation=activation
        )
        self.cluster = Cluster(self.world, TOPOLOGY.topics)
        self.host = self.world.host("instance-0")
        self.registry = Metrics("DEBUG", lambda: self.host.now)
        self.network = Network(self.world, request_timeout_ms=400)
        self.producer = Producer(self.world, self.host, self.network, self.cluster)
        self.disk = ModelDisk()
        self.heard = Heard()
        self.updater = StateUpdater(
            self.world,
            self.host,
            self.network,
            self.cluster,
            UpdaterConfig(
                "read_committed",
                "app",
                commit_interval_ms,
                listener=self.heard,
                standby_listener=self.heard,
            ),
            actor="instance-0/updater-0",
            registry=self.registry,
        )

    def write(self, partition: str, *values: bytes, **more: Any) -> None:
        """Records of one key."""
        some = [{"key": b"k", "value": value, "timestamp": 0, **more} for value in values]
        self.cluster.produce(partition, some)

    def end(self, partition: str, *, commit: bool) -> None:
        """The marker of the open transaction."""
        self.cluster.logs[partition].end_transaction(9, commit=commit, timestamp=0)
        self.cluster.tell_readers(partition)

    def transaction(self, partition: str, value: bytes, sequence: int, *, commit: bool) -> None:
        """A transaction with one record, and its marker."""
        self.write(partition, value, producer=9, sequence=sequence, transactional=True)
        self.end(partition, commit=commit)

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
            lambda name: ModelStore(name, self.disk),
            self.producer,
            was_empty=True,
        )
        return made

    def wait(self, milliseconds: int = 1_000) -> None:
        """Let time pass."""
        self.world.time.run(until=self.world.now + milliseconds)

    def told(self, partition: str) -> list[tuple[str, dict[str, Any]]]:
        """What was told of a changelog."""
        return [
            (each.kind.removeprefix("restore."), each.attributes)
            for each in self.events
            if each.kind.startswith("restore.") and each.partition == partition
        ]


def test_an_active_task_comes_back_whole() -> None:
    """Both stores; the end is told once, with how much it was."""
    bench = Bench()
    bench.write(changelog("one", 0), b"1", b"2")
    task = bench.task()
    bench.updater.add(task, is_active=True)
    bench.wait()
    assert bench.updater.restored == [task]
    assert bench.updater.tasks == []
    assert task.store("one").get(b"k") == b"2"
    assert bench.told(changelog("one", 0)) == [
        ("start", {"records": 0, "start": 0, "end": 2}),
        ("batch", {"records": 2, "remaining": 0}),
        ("end", {"records": 0, "total": 2}),
    ]
    assert [kind for kind, _ in bench.told(changelog("two", 0))] == ["start", "end"]


def test_a_task_without_stores_comes_back_at_once() -> None:
    """There is nothing to wait for."""
    bench = Bench()
    task = bench.task("1_0")
    bench.updater.add(task, is_active=True)
    assert bench.updater.restored == [task]


def test_it_goes_on_after_what_the_store_has() -> None:
    """From the committed offset on."""
    bench = Bench()
    bench.write(changelog("one", 0), b"1", b"2", b"3")
    task = bench.task()
    task.apply(changelog("one", 0), [LogEntry(1, 0, b"k", b"2")])
    bench.updater.add(task, is_active=True)
    bench.wait()
    assert bench.told(changelog("one", 0))[0] == ("start", {"records": 0, "start": 2, "end": 3})


def test_markers_and_aborted_records_at_the_end() -> None:
    """The position passes them, so that it ends (KAFKA-12951)."""
    bench = Bench()
    bench.transaction(changelog("one", 0), b"1", 0, commit=True)
    bench.transaction(changelog("one", 0), b"2", 1, commit=False)
    task = bench.task()
    bench.updater.add(task, is_active=True)
    bench.wait()
    assert bench.updater.restored == [task]
    assert task.store("one").get(b"k") == b"1"


def test_it_waits_for_an_open_transaction() -> None:
    """Of the owner before: it may yet be committed, and then it belongs to the store."""
    bench = Bench()
    bench.write(changelog("one", 0), b"1")
    bench.write(changelog("one", 0), b"2", producer=9, transactional=True)
    task = bench.task()
    bench.updater.add(task, is_active=True)
    bench.wait()
    assert bench.updater.restored == []
    bench.end(changelog("one", 0), commit=True)
    bench.wait()
    assert bench.updater.restored == [task]
    assert task.store("one").get(b"k") == b"2"


def test_a_standby_stays_and_follows() -> None:
    """It is never handed back, and nothing is told of it as of a restoration."""
    bench = Bench()
    bench.write(changelog("one", 0), b"1")
    task = bench.task()
    bench.updater.add(task, is_active=False)
    bench.wait()
    bench.write(changelog("one", 0), b"2")
    bench.wait()
    assert bench.updater.tasks == [task]
    assert task.store("one").get(b"k") == b"2"
    assert bench.told(changelog("one", 0)) == []


def test_standbys_wait_for_active_tasks() -> None:
    """As long as one is restored, they are not read."""
    bench = Bench()
    bench.write(changelog("one", 1), b"1")
    bench.write(changelog("one", 0), b"1", producer=9, transactional=True)
    active, standby = bench.task("0_0"), bench.task("0_1")
    bench.updater.add(active, is_active=True)
    bench.updater.add(standby, is_active=False)
    bench.wait()
    assert standby.store("one").get(b"k") is None
    bench.end(changelog("one", 0), commit=False)
    bench.wait()
    assert standby.store("one").get(b"k") == b"1"


def test_a_task_is_taken_away_in_the_middle() -> None:
    """Each start is followed by one end or one suspension; what ended is not suspended."""
    bench = Bench()
    bench.write(changelog("two", 0), b"1", producer=9, transactional=True)
    task = bench.task()
    bench.updater.add(task, is_active=True)
    bench.wait()
    assert bench.updater.remove("0_0") is task
    assert bench.updater.remove("0_0") is None
    assert [kind for kind, _ in bench.told(changelog("one", 0))] == ["start", "end"]
    assert [kind for kind, _ in bench.told(changelog("two", 0))] == ["start", "suspended"]


def test_a_task_is_taken_away_when_it_is_done() -> None:
    """It has not been fetched yet, and is given all the same."""
    bench = Bench()
    task = bench.task()
    bench.updater.add(task, is_active=True)
    bench.wait()
    assert bench.updater.remove("0_0") is task
    assert bench.updater.restored == []


def test_a_changelog_that_is_cut_off() -> None:
    """The store is older than what is left of it: the task cannot be restored from here."""
    bench = Bench()
    bench.write(changelog("one", 0), b"1", b"2", b"3")
    task, other = bench.task(), bench.task("0_1")
    task.apply(changelog("one", 0), bench.cluster.logs[changelog("one", 0)].entries[:1])
    bench.cluster.logs[changelog("one", 0)].delete_before(2)
    bench.updater.add(task, is_active=True)
    bench.updater.add(other, is_active=True)
    bench.wait()
    ((failed, error),) = bench.updater.failed
    assert failed is task
    assert isinstance(error, OffsetOutOfRangeError)
    assert bench.updater.restored == [other]


def test_a_store_without_an_offset_begins_where_the_log_begins() -> None:
    """What is deleted before that belongs to no store."""
    bench = Bench()
    bench.write(changelog("one", 0), b"1", b"2", b"3")
    bench.cluster.logs[changelog("one", 0)].delete_before(2)
    task = bench.task()
    bench.updater.add(task, is_active=True)
    bench.wait()
    assert bench.updater.restored == [task]
    assert task.next_restored(changelog("one", 0)) == 3


@pytest.mark.parametrize("seed", range(25))
def test_whatever_happens_it_ends_in_the_content_of_the_changelog(seed: int) -> None:
    """Replies lost, fetches empty, transactions aborted, and the task taken away in between."""
    bench = Bench(seed, activation=0.5, sites={**SITES, "updater.died": 0.0})
    random = Choices.seeded(seed + 1000)
    name = changelog("one", 0)
    for sequence in range(random.between(1, 30)):
        bench.transaction(name, b"%d" % sequence, sequence, commit=random.chance(0.7))
    task = bench.task()
    bench.updater.add(task, is_active=True)
    for _ in range(random.below(4)):
        bench.wait(random.between(1, 300))
        if task in bench.updater.tasks:
            bench.updater.remove("0_0")
            bench.updater.add(task, is_active=True)
    bench.wait(20_000)
    assert bench.updater.restored == [task]
    committed = bench.cluster.committed_records(name)
    assert task.store("one").get(b"k") == (committed[-1].value if committed else None)
    kinds = [kind for kind, _ in bench.told(name) if kind != "batch"]
    assert kinds[::2] == ["start"] * (len(kinds) // 2)
    assert kinds[-1] == "end"


def test_a_closed_updater_does_nothing() -> None:
    """Its actor ends, and its consumer fetches no more."""
    bench = Bench()
    bench.updater.close()
    bench.wait()
    bench.updater.add(bench.task(), is_active=True)
    bench.wait()
    assert bench.updater.restored == []


# Listeners.


def test_a_listener_hears_of_a_restoration() -> None:
    """What the trace says, with the store and the offset of the last record (KIP-869)."""
    bench = Bench()
    bench.write(changelog("one", 0), b"1", b"2")
    bench.updater.add(bench.task(), is_active=True)
    bench.wait()
    one = topic_partition(changelog("one", 0))
    assert [each for each in bench.heard.calls if each[1] == one] == [
        ("restore_start", one, "one", 0, 2),
        ("batch_restored", one, "one", 1, 2),
        ("restore_end", one, "one", 2),
    ]
    assert bench.heard.of(changelog("two", 0)) == ["restore_start", "restore_end"]


def test_a_listener_hears_of_a_standby() -> None:
    """And of nothing else: what a standby does is no restoration (KIP-988)."""
    bench = Bench()
    bench.write(changelog("one", 0), b"1", b"2")
    bench.updater.add(bench.task(), is_active=False)
    bench.wait()
    bench.updater.remove("0_0", "promoted")
    one, two = (topic_partition(changelog(store, 0)) for store in ("one", "two"))
    assert [each for each in bench.heard.calls if each[1] == one] == [
        ("update_start", one, "one", 0),
        ("batch_loaded", one, "one", "0_0", 1, 2, 2),
        ("update_suspended", one, "one", 1, 2, "promoted"),
    ]
    assert bench.heard.calls[-1] == ("update_suspended", two, "two", -1, 0, "promoted")


def test_from_standby_to_active_and_back() -> None:
    """The stores stay open, and each start comes to its end."""
    bench = Bench()
    name = changelog("one", 0)
    bench.write(name, b"1")
    task = bench.task()
    store = task.store("one")
    bench.updater.add(task, is_active=False)
    bench.wait()
    assert bench.updater.remove("0_0", "promoted") is task
    bench.write(name, b"2")
    bench.updater.add(task, is_active=True)
    bench.wait()
    assert bench.updater.remove("0_0") is task
    bench.updater.add(task, is_active=False)
    bench.wait()
    bench.updater.close()
    assert task.store("one") is store
    assert store.is_open
    assert store.get(b"k") == b"2"
    assert bench.heard.of(name) == [
        *("update_start", "batch_loaded", "update_suspended"),
        *("restore_start", "batch_restored", "restore_end"),
        *("update_start", "update_suspended"),
    ]


def test_a_task_that_goes_before_its_end_is_known_is_not_told_of() -> None:
    """It never began: the brokers do not answer."""
    bench = Bench()
    bench.network.cut("instance-0")
    bench.updater.add(bench.task(), is_active=True)
    bench.wait()
    bench.updater.remove("0_0")
    assert bench.heard.calls == []


def test_to_close_suspends_whoever_is_there() -> None:
    """An active task in the middle, and a standby."""
    bench = Bench()
    bench.write(changelog("one", 0), b"1", producer=9, transactional=True)
    bench.updater.add(bench.task(), is_active=True)
    bench.wait()
    bench.updater.close()
    assert bench.heard.of(changelog("one", 0)) == ["restore_start", "restore_suspended"]
    assert bench.updater.tasks == []


@pytest.mark.parametrize("method", ["on_restore_start", "on_batch_restored", "on_restore_end"])
def test_a_listener_that_raises_ends_the_updater(method: str) -> None:
    """All its tasks have failed, whole pairs were told, and who comes later fails at once."""
    bench = Bench()
    bench.heard.raises_in = method
    bench.write(changelog("one", 0), b"1")
    bench.write(changelog("one", 1), b"1", producer=9, transactional=True)
    task, other, late = bench.task(), bench.task("0_1"), bench.task("0_2")
    bench.updater.add(task, is_active=True)
    bench.updater.add(other, is_active=True)
    bench.wait()
    bench.updater.add(late, is_active=True)
    assert isinstance(bench.updater.fatal, UpdaterDiedError)
    assert "ValueError('no more of this')" in str(bench.updater.fatal)
    gone = [failed for failed, _ in bench.updater.failed] + bench.updater.restored
    assert sorted(each.id for each in gone) == ["0_0", "0_1", "0_2"]
    for name in (changelog("one", 0), changelog("one", 1)):
        told = [each for each in bench.heard.of(name) if each != "batch_restored"]
        assert told in (["restore_start", "restore_end"], ["restore_start", "restore_suspended"])


def test_a_store_that_raises_fails_its_task_only() -> None:
    """The others go on."""
    bench = Bench()
    for number in (0, 1):
        bench.write(changelog("one", number), b"1")
    task, other = bench.task(), bench.task("0_1")

    def refuse(_: list[ChangelogRecord]) -> None:
        raise StoreError("disk full")

    task.stores["one"].restore = refuse
    bench.updater.add(task, is_active=True)
    bench.updater.add(other, is_active=True)
    bench.wait()
    ((failed, error),) = bench.updater.failed
    assert failed is task
    assert str(error) == "disk full"
    assert bench.updater.restored == [other]
    assert bench.heard.of(changelog("one", 0)) == ["restore_start", "restore_suspended"]
    # Given up meanwhile, it must not come back to be begun anew.
    bench.updater.remove(task.id)
    assert bench.updater.failed == []


def test_an_updater_may_die_by_itself() -> None:
    """A fault of the world; whatever it had has failed."""
    bench = Bench(activation=1, sites={**SITES, "updater.died": 1.0})
    task = bench.task()
    bench.updater.add(task, is_active=False)
    bench.wait(100_000)
    assert bench.updater.failed == [(task, bench.updater.fatal)]
    assert bench.world.marks.hits["a state updater died"] == 1


# Committing, pausing.


def test_what_is_restored_is_committed_now_and_then() -> None:
    """So that a crash in the middle does not begin from the start (KAFKA-12634)."""
    bench = Bench(commit_interval_ms=200)
    name = changelog("one", 0)
    bench.write(name, b"1")
    bench.write(name, b"2", producer=9, transactional=True)
    task = bench.task()
    bench.updater.add(task, is_active=True)
    bench.wait()
    assert task.store("one").committed_offset(topic_partition(name)) == 0
    commits = [each for each in bench.events if each.kind == "store.committed"]
    bench.wait(5_000)
    # Without anything new there is nothing to commit.
    assert [each for each in bench.events if each.kind == "store.committed"] == commits


def test_a_paused_task_is_not_read_and_is_committed() -> None:
    """It counts as paused, nothing is told of it, and it goes on where it was (KIP-834)."""
    bench = Bench()
    name = changelog("one", 0)
    bench.write(name, b"1")
    task = bench.task()
    bench.updater.add(task, is_active=False)
    bench.wait()
    bench.updater.pause("0_0")
    bench.wait()
    bench.write(name, b"2")
    bench.wait(10_000)
    assert task.store("one").get(b"k") == b"1"
    assert task.store("one").committed_offset(topic_partition(name)) == 0
    gauges = bench.updater.metrics.gauges()
    assert (gauges["standby-updating-tasks"], gauges["standby-paused-tasks"]) == (0, 1)
    bench.updater.resume("0_0")
    bench.wait()
    assert task.store("one").get(b"k") == b"2"
    assert "update_suspended" not in bench.heard.of(name)


def test_standbys_go_on_while_the_active_tasks_are_paused() -> None:
    """A paused task holds nobody up; a task that is not here can be paused without a mistake."""
    bench = Bench()
    bench.write(changelog("one", 1), b"1")
    active, standby = bench.task("0_0"), bench.task("0_1")
    bench.updater.add(active, is_active=True)
    bench.updater.pause("0_0")
    bench.updater.pause("9_9")
    bench.updater.resume("9_9")
    bench.updater.add(standby, is_active=False)
    bench.wait()
    assert bench.updater.restored == []
    assert standby.store("one").get(b"k") == b"1"


# Metrics.


def test_the_counts_and_ratios_of_an_updater() -> None:
    """The ratios sum to 1, and only one of restoring and updating is not zero."""
    bench = Bench(commit_interval_ms=100)
    for value in range(50):
        bench.write(changelog("one", 0), b"%d" % value)
        bench.write(changelog("one", 1), b"%d" % value)
    bench.write(changelog("one", 0), b"x", producer=9, transactional=True)
    bench.updater.add(bench.task("0_0"), is_active=True)
    bench.updater.add(bench.task("0_1"), is_active=False)
    bench.wait(30_000)
    gauges = bench.updater.metrics.gauges()
    assert gauges["active-restoring-tasks"] == gauges["standby-updating-tasks"] == 1
    assert gauges["active-restore-ratio"] > 0.9
    assert gauges["standby-update-ratio"] == 0
    assert sum(gauges[each] for each in RATIOS) == pytest.approx(1)
    assert bench.updater.metrics.remaining == {"0_0": 1}


def test_an_updater_without_tasks_is_idle() -> None:
    """For all of the time."""
    bench = Bench()
    bench.wait(20_000)
    task = bench.task("1_0")
    bench.updater.add(task, is_active=True)
    bench.updater.add(bench.task("0_0"), is_active=True)
    bench.wait(100)
    gauges = bench.updater.metrics.gauges()
    assert gauges["idle-ratio"] > 0.99
    assert bench.updater.restored[0] is task


def test_a_task_is_measured_until_it_leaves_its_thread() -> None:
    """What was restored stays to be read when it is done."""
    bench = Bench()
    bench.write(changelog("one", 0), b"1", b"2", b"3")
    task = bench.task()
    bench.updater.add(task, is_active=True)
    bench.wait()
    assert bench.updater.restored.pop() is task
    found = {
        each.name: each.value for each in bench.updater.metrics.rows() if "task-id" in each.tags
    }
    assert found["restore-total"] == 3
    assert found["restore-remaining-records-total"] == 0
    bench.updater.remove("0_0")
    assert not [each for each in bench.updater.metrics.rows() if "task-id" in each.tags]


def test_the_successor_of_a_dead_updater_goes_on_measuring() -> None:
    """Its own metrics are new, and those of the tasks that were handed back are the old ones."""
    bench = Bench()
    bench.write(changelog("one", 0), b"1", b"2", b"3")
    task = bench.task()
    bench.updater.add(task, is_active=True)
    bench.wait()
    bench.heard.raises_in = "on_update_start"
    bench.updater.add(bench.task("0_1"), is_active=False)
    bench.wait()
    dead = bench.updater
    assert isinstance(dead.fatal, UpdaterDiedError)
    assert {each.tags["task-id"] for each in dead.metrics.rows()} == {"0_0", "0_1"}
    dead.remove("0_1")
    successor = StateUpdater(
        bench.world,
        bench.host,
        bench.network,
        bench.cluster,
        UpdaterConfig("read_committed", "app", 1_000),
        actor="instance-0/updater-0",
        registry=bench.registry,
        predecessor=dead,
    )
    assert successor.restored == [task]
    found = {each.name: each.value for each in successor.metrics.rows() if "task-id" in each.tags}
    assert found["restore-total"] == 3
    assert set(RATIOS) <= successor.metrics.gauges().keys()
    successor.close()
    assert successor.metrics.rows() == []


# Changelogs that are inputs.


class SourceBench(Bench):
    """The first store of its task is filled from the input: that is its changelog, too."""

    NAME = "in-0"

    def task(self, task_id: str = "0_0") -> StreamTask:
        """A task whose stores are open."""
        made = super().task(task_id)
        made.stores["one"].changelog = self.NAME
        return made

    def commit(self, offset: int) -> None:
        """Commit an offset of the input."""
        group = self.cluster.group("app")
        group._committed[self.NAME] = offset


def test_an_input_is_restored_as_far_as_it_is_committed() -> None:
    """What is behind will be processed; without a commit, that is everything (KAFKA-8755)."""
    bench = SourceBench()
    bench.write("in-0", b"1", b"2", b"3")
    bench.commit(2)
    task = bench.task()
    bench.updater.add(task, is_active=True)
    bench.wait()
    assert bench.updater.restored == [task]
    assert task.store("one").get(b"k") == b"2"

    bench = SourceBench()
    bench.write("in-0", b"1")
    task = bench.task()
    bench.updater.add(task, is_active=True)
    bench.wait()
    assert bench.updater.restored == [task]
    assert task.store("one").get(b"k") is None


def test_it_waits_until_the_committed_offset_is_stable() -> None:
    """What is in a transaction of the owner before would be lacking for good."""
    bench = SourceBench()
    bench.write("in-0", b"1", b"2")
    group = bench.cluster.group("app")
    group._pending[7] = {"in-0": 2}
    task = bench.task()
    bench.updater.add(task, is_active=True)
    bench.wait()
    assert bench.updater.restored == []
    group.end_transaction(7, commit=True)
    bench.wait()
    assert bench.updater.restored == [task]
    assert task.store("one").get(b"k") == b"2"


def test_a_standby_follows_an_input_no_further_than_it_is_committed() -> None:
    """It keeps what it has fetched until the limit has moved, and the limit never goes back."""
    bench = SourceBench()
    bench.write("in-0", b"1", b"2", b"3")
    task = bench.task()
    bench.updater.add(task, is_active=False)
    bench.wait(5_000)
    assert task.store("one").get(b"k") is None
    bench.commit(1)
    bench.wait(5_000)
    assert task.store("one").get(b"k") == b"1"
    bench.commit(0)
    bench.write("in-0", b"4")
    bench.wait(5_000)
    assert task.store("one").get(b"k") == b"1"
    bench.commit(4)
    bench.wait(5_000)
    assert task.store("one").get(b"k") == b"4"
    assert bench.world.marks.hits["a standby was held back at the committed offset"] > 0
    assert task.state is TaskState.RESTORING


def test_a_batch_whose_task_goes_meanwhile_is_not_applied() -> None:
    """Not even if the task is back before it is: it begins anew, from what its store has."""
    bench = Bench(activation=1, sites={**dict.fromkeys(SITES, 0.0), "updater.slow": 1.0})
    name = changelog("one", 0)
    bench.write(name, *(b"%d" % number for number in range(10)))
    task = bench.task()
    bench.updater.add(task, is_active=True)
    while not bench.told(name):
        bench.wait(1)
    bench.wait(20)
    assert task.next_restored(name) == 0
    bench.updater.remove("0_0")
    bench.updater.add(task, is_active=True)
    bench.wait(30_000)
    assert bench.updater.restored == [task]
    assert task.store("one").get(b"k") == b"9"
    assert bench.heard.of(name) == [
        *("restore_start", "restore_suspended"),
        *("restore_start", "batch_restored", "restore_end"),
    ]
