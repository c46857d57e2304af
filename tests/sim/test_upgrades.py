"""Rolling upgrades: nothing is lost, and nothing is restored again, while releases are mixed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from streamproof.errors import UsageError
from streamproof.sim.application import Application, StreamsConfig
from streamproof.sim.choices import Choices
from streamproof.sim.disks import InstanceDisk, RealDisk
from streamproof.sim.instances import Instance
from streamproof.sim.invariants import INVARIANTS
from streamproof.sim.model_store import ModelDisk
from streamproof.sim.releases import BEFORE_OFFSETS
from streamproof.sim.rolling_upgrade import UPGRADES, RollingUpgrade
from streamproof.sim.simulation import MakeDisk, Outcome, run
from streamproof.sim.tasks.assignor import AssignorConfig
from streamproof.sim.topologies import TOPOLOGIES
from streamproof.sim.trace import Event
from streamproof.sim.upgraded_stores import (
    OFFSET_DELTA_THRESHOLD,
    CheckpointingStore,
    ManagingStore,
)
from streamproof.sim.workloads import WorkloadConfig
from streamproof.sim.world import World
from streamproof.sim.world_plan import Plan
from streamproof.stores.api import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    PROCESSING_GUARANTEE_CONFIG,
    KeyValueStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.errors import TaskCorruptedError
from streamproof.stores.rocksdb import RocksDBStore

GUARANTEES = pytest.mark.parametrize("exactly_once", [True, False], ids=["EOS", "ALOS"])

CHANGELOG = TopicPartition("app-s-changelog", 0)


# The stores.


def opened(
    kind: type[ManagingStore | CheckpointingStore], disk: ModelDisk, *, exactly_once: bool = True
) -> ManagingStore | CheckpointingStore:
    """A store of a release, open on this disk."""
    store = kind("s", disk)
    guarantee = EXACTLY_ONCE if exactly_once else AT_LEAST_ONCE
    context = StateStoreContext(Path("0_0"), app_configs={PROCESSING_GUARANTEE_CONFIG: guarantee})
    store.init(context, store)
    return store


def filled(
    kind: type[ManagingStore | CheckpointingStore], disk: ModelDisk, *, exactly_once: bool = True
) -> ManagingStore | CheckpointingStore:
    """The same, with a record and its offset, 7."""
    store = opened(kind, disk, exactly_once=exactly_once)
    store.put(b"k", b"v")
    store.commit({CHANGELOG: 7})
    return store


@GUARANTEES
def test_a_newer_release_takes_the_checkpoint_over(*, exactly_once: bool) -> None:
    """And the file is gone then."""
    disk = ModelDisk()
    filled(CheckpointingStore, disk, exactly_once=exactly_once).close()
    assert disk.checkpoints
    store = opened(ManagingStore, disk, exactly_once=exactly_once)
    assert (store.committed_offset(CHANGELOG), store.get(b"k")) == (7, b"v")
    assert not disk.checkpoints


@GUARANTEES
def test_an_older_release_goes_on_with_what_was_left_for_it(*, exactly_once: bool) -> None:
    """With ``upgrade.from``, closing the store puts the offsets back."""
    disk = ModelDisk()
    store = filled(ManagingStore, disk, exactly_once=exactly_once)
    assert isinstance(store, ManagingStore)
    store.leaves_checkpoint = True
    store.close()
    older = opened(CheckpointingStore, disk, exactly_once=exactly_once)
    assert (older.committed_offset(CHANGELOG), older.get(b"k")) == (7, b"v")


@GUARANTEES
def test_an_older_release_refuses_what_a_newer_one_has_opened(*, exactly_once: bool) -> None:
    """It cannot know what is in there: the task is wiped."""
    disk = ModelDisk()
    filled(ManagingStore, disk, exactly_once=exactly_once).close()
    with pytest.raises(TaskCorruptedError, match="a newer release has opened it"):
        opened(CheckpointingStore, disk, exactly_once=exactly_once)


@pytest.mark.parametrize("kind", [CheckpointingStore, ManagingStore])
def test_a_crash_of_an_older_release_is_seen(kind: type[CheckpointingStore]) -> None:
    """Under exactly-once there is no file while it runs, and so none afterwards."""
    disk = ModelDisk()
    filled(CheckpointingStore, disk).close()
    store = opened(CheckpointingStore, disk)
    store.put(b"k", b"aborted")
    store.write_memtable()
    assert not disk.checkpoints
    with pytest.raises(TaskCorruptedError):
        opened(kind, disk)


def test_a_store_that_runs_has_no_checkpoint() -> None:
    """The one of the end of the restoration is deleted with the first write (KAFKA-20685)."""
    disk = ModelDisk()
    store = opened(CheckpointingStore, disk)
    store.commit({CHANGELOG: 3})
    assert disk.checkpoints
    store.put(b"k", b"v")
    assert not disk.checkpoints


def test_under_at_least_once_the_file_is_written_now_and_then() -> None:
    """Once the offset has grown enough; what it promises is on the disk, and replay mends it."""
    disk = ModelDisk()
    store = filled(CheckpointingStore, disk, exactly_once=False)
    assert not disk.checkpoints
    store.commit({CHANGELOG: OFFSET_DELTA_THRESHOLD})
    [left] = disk.checkpoints.values()
    assert left.offsets == {CHANGELOG: OFFSET_DELTA_THRESHOLD}
    disk.lose_power(Choices.recorded([1, 1, 1]))
    again = opened(CheckpointingStore, disk, exactly_once=False)
    assert (again.committed_offset(CHANGELOG), again.get(b"k")) == (10, b"v")


def test_what_is_corrupted_has_no_offsets() -> None:
    """Nor is there a file of it; a wiped task has neither."""
    disk = ModelDisk()
    store = filled(CheckpointingStore, disk, exactly_once=False)
    store.commit({})
    store.close()
    assert not disk.checkpoints
    disk.wipe(Path("0_0"))
    filled(CheckpointingStore, disk).close()
    assert disk.checkpoints
    disk.wipe(Path("0_0"))
    assert not disk.checkpoints


# Worlds.


def plan_of(upgrade: str, *, exactly_once: bool, standbys: int = 0) -> Plan:
    """Three instances with two threads, of which nothing goes wrong, with input all the time."""
    config = StreamsConfig(
        exactly_once=exactly_once,
        session_timeout_ms=6_000,
        commit_interval_ms=200,
        flush_probability=0.3,
        probing_rebalance_interval_ms=5_000,
        assignor=AssignorConfig(num_standby_replicas=standbys),
    )
    return Plan(
        instances=3,
        threads=2,
        config=config,
        workload=WorkloadConfig(records=300, max_pause_ms=500),
        kinds=(),
        activation=0,
        upgrade=upgrade,
    )


def upgraded(
    plan: Plan, seed: int = 1, *, defects: Sequence[str] = (), make_disk: MakeDisk | None = None
) -> tuple[Outcome, list[Event]]:
    """What came of it, and all events."""
    events: list[Event] = []
    choices = Choices.seeded(seed)
    outcome = run(choices, plan, defects=defects, watchers=[events.append], make_disk=make_disk)
    return outcome, events


def of(events: list[Event], kind: str) -> list[Event]:
    """The events of a kind."""
    return [each for each in events if each.kind == kind]


@GUARANTEES
@pytest.mark.parametrize("upgrade", [each for each in sorted(UPGRADES) if "format" not in each])
def test_a_calm_upgrade_restores_nothing_again(upgrade: str, *, exactly_once: bool) -> None:
    """Each instance goes through all releases; without a preparation, going down wipes."""
    outcome, events = upgraded(plan_of(upgrade, exactly_once=exactly_once, standbys=1))
    assert list(outcome.violations) == []
    started = [each.attributes["release"] for each in of(events, "instance.started")]
    assert started == [release.name for release in UPGRADES[upgrade] for _ in range(3)]
    is_unprepared = upgrade == "offsets-down-unprepared"
    assert bool(of(events, "task.wiped")) == is_unprepared
    again = [each for each in of(events, "store.opened") if each.offset >= 0]
    assert again or is_unprepared or len(UPGRADES[upgrade]) == 1


@GUARANTEES
@pytest.mark.parametrize("upgrade", ["offsets-up", "offsets-down", "offsets-up-and-down"])
def test_an_upgrade_with_crashes(upgrade: str, *, exactly_once: bool) -> None:
    """In between, and with losses of power and lost replies."""
    calm = plan_of(upgrade, exactly_once=exactly_once)
    plan = replace(calm, kinds=("crash", "power"), activation=0.25)
    outcome, events = upgraded(plan, seed=3)
    assert list(outcome.violations) == []
    assert of(events, "instance.crashed")
    assert of(events, "instance.started")[-1].attributes["release"] == UPGRADES[upgrade][-1].name


def test_members_of_different_releases_agree_on_a_version() -> None:
    """A newer one meets an older leader, is probed, goes down, and all go up in the end."""
    outcome, events = upgraded(plan_of("sums-up", exactly_once=True))
    assert list(outcome.violations) == []
    assert outcome.marks["a metadata version was probed"]
    used = [each.attributes["version"] for each in of(events, "group.assigned")]
    assert set(used) == {6, 11}
    assert used == sorted(used)


@pytest.mark.parametrize(
    ("defect", "upgrade", "rule"),
    [
        ("keeps-its-version", "sums-up", "ASSIGN-011"),
        ("keeps-checkpoint-while-running", "none-before-offsets", "TASK-003"),
    ],
)
def test_a_mistake_is_found(defect: str, upgrade: str, rule: str) -> None:
    """And the same world is well without it."""
    plan = replace(plan_of(upgrade, exactly_once=True), kinds=("crash",))
    seed = next(
        seed
        for seed in range(40)
        if rule
        in {each.requirement for each in upgraded(plan, seed, defects=[defect])[0].violations}
    )
    assert list(upgraded(plan, seed)[0].violations) == []


def test_an_unknown_upgrade_is_refused() -> None:
    """With those that there are."""
    with pytest.raises(UsageError, match=r"no upgrade 'typo'\. Choose one of: format-in-place, "):
        run(Choices.seeded(0), Plan(upgrade="typo"))


def test_without_an_upgrade_nobody_is_restarted() -> None:
    """And it is done at once."""
    world = World(Choices.seeded(0), activation=0)
    application = Application(world, TOPOLOGIES["count"].topology(1), StreamsConfig())
    instance = Instance(application, "instance-0")
    upgrade = RollingUpgrade(world, [instance], "")
    before = instance.release
    world.time.process(upgrade.run())
    world.time.run(until=upgrade.done)
    assert (world.now, instance.release) == (0, before)


# Real stores.


class Releases:
    """Makes the disks of instances, on which real stores are as their release has them."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def __call__(self, world: World, name: str) -> InstanceDisk:
        """The disk of an instance."""

        def make(store: str) -> KeyValueStore:
            return RocksDBStore(store, manages_offsets=disk.release.manages_offsets)

        disk = RealDisk(world, name, self._root / name, make)
        return disk


@GUARANTEES
@pytest.mark.parametrize("upgrade", ["offsets-up", "offsets-down"])
def test_real_stores_are_upgraded(upgrade: str, tmp_path: Path, *, exactly_once: bool) -> None:
    """RocksDB with and without offsets of its own: nothing is wiped, with crashes nothing lost."""
    short = WorkloadConfig(records=80, max_pause_ms=500)
    plan = plan_of(upgrade, exactly_once=exactly_once)
    calm = replace(plan, instances=2, threads=1, workload=short)
    outcome, events = upgraded(calm, make_disk=Releases(tmp_path / "calm"))
    assert list(outcome.violations) == []
    assert not of(events, "task.wiped")
    wild = replace(calm, kinds=("crash",))
    outcome, events = upgraded(wild, make_disk=Releases(tmp_path / "wild"))
    assert list(outcome.violations) == []
    assert of(events, "instance.crashed")


def test_what_an_upgrade_must_keep_is_an_invariant() -> None:
    """It is watched in every run."""
    assert "UPGRADE-101" in {each.requirement for each in INVARIANTS}
    assert not BEFORE_OFFSETS.manages_offsets
