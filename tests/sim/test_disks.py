"""Disks of the model: what a crash takes, what a loss of power takes, and when they are full."""

from __future__ import annotations

from pathlib import Path

import pytest
from disturbed_worlds import disturbed
from hypothesis import given
from hypothesis import strategies as st

from streamproof.sim.application import StreamsConfig
from streamproof.sim.choices import Choices
from streamproof.sim.disks import SLOW_MS, SimulatedDisk
from streamproof.sim.model_store import WRITEBACK_MS, ModelDisk, ModelStore
from streamproof.sim.world import World
from streamproof.stores.api import StateStoreContext, TopicPartition
from streamproof.stores.errors import ProcessorStateError

LOG = TopicPartition("log", 0)
LAST = [2**30]
"""Choices that lose all that can be lost."""


class Clock:
    """A time that is set by hand, in milliseconds."""

    now = 0


def opened(disk: ModelDisk, durability: str = "flush") -> ModelStore:
    """A store of a task, under at-least-once."""
    store = ModelStore("store", disk, durability=durability)  # type: ignore[arg-type]
    store.init(StateStoreContext(state_dir=Path("0_0")), store)
    return store


@pytest.mark.parametrize(
    ("durability", "crash", "power"),
    [("flush", None, None), ("process", b"1", None), ("power", b"1", b"1")],
)
def test_a_commit_lasts_as_it_is_declared(
    durability: str, crash: bytes | None, power: bytes | None
) -> None:
    """Without another flush, through a crash and through a loss of power."""
    disk = ModelDisk()
    store = opened(disk, durability)
    store.put(b"a", b"1")
    store.commit({LOG: 1})
    assert opened(disk).get(b"a") == crash
    disk.lose_power(Choices.recorded(LAST))
    assert opened(disk).get(b"a") == power


def test_what_is_flushed_outlives_a_crash_and_may_not_outlive_the_power() -> None:
    """Rows, offsets and status of one flush are lost together; a close syncs."""
    disk = ModelDisk()
    store = opened(disk)
    store.put(b"a", b"1")
    store.put(b"b", b"1")
    store.commit({LOG: 1})
    store.close()
    store = opened(disk)
    store.put(b"a", b"2")
    store.put(b"b", None)
    store.put(b"c", b"2")
    store.commit({LOG: 2})
    store.write_memtable()
    again = opened(disk)
    assert [again.get(key) for key in (b"a", b"b", b"c")] == [b"2", None, b"2"]
    assert disk.lose_power(Choices.recorded([0])) == 0
    assert opened(disk).committed_offset(LOG) == 2
    store.put(b"a", b"3")
    store.commit({LOG: 3})
    store.write_memtable()
    assert disk.lose_power(Choices.recorded(LAST)) == 1
    again = opened(disk)
    assert [again.get(key) for key in (b"a", b"b", b"c")] == [b"2", None, b"2"]
    assert again.committed_offset(LOG) == 2
    # What has outlived one loss of power is on the disk.
    assert disk.lose_power(Choices.recorded(LAST)) == 0


def test_after_a_while_the_system_has_written_everything() -> None:
    """So that only what was flushed lately can be lost."""
    clock = Clock()
    disk = ModelDisk(lambda: clock.now)
    store = opened(disk)
    for value in (b"1", b"2"):
        store.put(b"a", value)
        store.write_memtable()
        clock.now += WRITEBACK_MS - 1
    assert disk.lose_power(Choices.recorded(LAST)) == 1
    assert opened(disk).get(b"a") == b"1"


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from([b"a", b"b"]), st.sampled_from([None, b"1"])),
        st.tuples(st.sampled_from(["commit", "flush", "sync", "power"])),
    ),
    max_size=30,
)


@given(steps=STEPS, lost=st.lists(st.integers(0, 30), max_size=8))
def test_a_loss_of_power_leaves_one_of_the_latest_flushes(
    steps: list[tuple[object, ...]], lost: list[int]
) -> None:
    """At any time it is what one flush since the last sync has left, that one included."""
    disk, choices = ModelDisk(), Choices.recorded(lost)
    store = opened(disk)
    image = disk.image(Path("0_0"), "store")
    left = [(dict(image.rows), dict(image.offsets))]
    for number, (what, *arguments) in enumerate(steps):
        if what == "put":
            store.put(*arguments)  # type: ignore[arg-type]
        elif what == "commit":
            store.commit({LOG: number})
        elif what == "power":
            disk.lose_power(choices)
            assert (image.rows, image.offsets) in left
            left = [(dict(image.rows), dict(image.offsets))]
            store = opened(disk)
        else:
            store.sync() if what == "sync" else store.write_memtable()
            now = dict(image.rows), dict(image.offsets)
            left = [now] if what == "sync" else [*left, now]


def world() -> World:
    """A world in which nothing goes wrong by itself."""
    return World(Choices.recorded([]), activation=0)


def test_a_full_disk_refuses_a_flush() -> None:
    """And what was in memory is there still; a close fails, and leaves what a crash leaves."""
    disk = SimulatedDisk(world(), "instance-0")
    store = disk.make_store("store", transactional=False)
    store.init(StateStoreContext(state_dir=disk.directory("0_0")), store)
    store.put(b"a", b"1")
    disk.is_full = True
    with pytest.raises(ProcessorStateError, match="disk of instance-0 is full"):
        store.write_memtable()
    assert store.get(b"a") == b"1"
    with pytest.raises(ProcessorStateError):
        store.close()
    assert disk.open_stores == []
    disk.is_full = False
    store.init(StateStoreContext(state_dir=disk.directory("0_0")), store)
    assert store.get(b"a") is None


def test_a_slow_disk_takes_time() -> None:
    """Some steps do, and not too much."""
    slow = World(Choices.seeded(3), activation=1, sites={"disk.slow": 0.5, "disk.full": 0.0})
    disk = SimulatedDisk(slow, "instance-0")
    delays = [disk.delay_ms for _ in range(100)]
    assert 20 < delays.count(0) < 80
    assert max(delays) <= SLOW_MS
    assert SimulatedDisk(world(), "instance-0").delay_ms == 0


@pytest.mark.parametrize("exactly_once", [True, False], ids=["EOS", "ALOS"])
@pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transactional"])
def test_a_thread_whose_store_cannot_be_written_is_replaced(
    *, exactly_once: bool, transactional: bool
) -> None:
    """The thread dies, as it does in Kafka; nothing is lost, and in the end all tasks run."""
    died = 0
    for seed in range(3):
        config = StreamsConfig(
            exactly_once=exactly_once,
            transactional=transactional,
            session_timeout_ms=6_000,
            flush_probability=0.5,
        )
        run = disturbed(seed, config, ("fill",), activation=0)
        assert (list(run.violations), list(run.unexpected)) == ([], [])
        died += len(run.of("thread.died"))
        assert run.world.marks.hits["a thread died and was replaced"] == len(run.of("thread.died"))
    assert died > 0


@pytest.mark.parametrize("exactly_once", [True, False], ids=["EOS", "ALOS"])
def test_nothing_is_lost_for_good_with_the_power(*, exactly_once: bool) -> None:
    """What was not synced is restored from the changelog, as after a crash."""
    lost = 0
    for seed in range(4):
        config = StreamsConfig(
            exactly_once=exactly_once,
            transactional=True,
            session_timeout_ms=6_000,
            flush_probability=0.5,
        )
        run = disturbed(seed, config, ("power",), activation=0)
        assert (list(run.violations), list(run.unexpected)) == ([], [])
        lost += sum(each.attributes["flushes"] for each in run.of("disk.power_lost"))
    assert lost > 0
