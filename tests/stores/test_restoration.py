"""How a restoration goes, what its listener is told, and the metrics that follow it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamproof.stores.api import ChangelogRecord, StateStoreContext, TopicPartition
from streamproof.stores.errors import InvalidStateStoreError, ProcessorStateError, StoreError
from streamproof.stores.memory import InMemoryKeyValueStore
from streamproof.stores.metrics import Metrics
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.runtime.restoration import Restoration, StateRestoreListener
from streamproof.stores.runtime.restore_metrics import (
    Part,
    StateUpdaterMetrics,
    TaskRestoreMetrics,
    TaskUpdateMetrics,
)

P0 = TopicPartition("streamproof-store-changelog", 0)
P1 = TopicPartition("streamproof-store-changelog", 1)


class Told(StateRestoreListener):
    """Notes down what it is told, and raises where it is asked to."""

    def __init__(self, fails_in: str = "") -> None:
        self.calls: list[tuple[object, ...]] = []
        self.fails_in = fails_in

    def note(self, name: str, *details: object) -> None:
        self.calls.append((name, *details))
        if name == self.fails_in:
            raise ValueError(f"broken {name}")

    def on_restore_start(
        self, partition: TopicPartition, store_name: str, starting_offset: int, ending_offset: int
    ) -> None:
        assert (partition, store_name) == (P0, "store")
        self.note("start", starting_offset, ending_offset)

    def on_batch_restored(
        self, partition: TopicPartition, store_name: str, batch_end_offset: int, num_restored: int
    ) -> None:
        assert (partition, store_name) == (P0, "store")
        self.note("batch", batch_end_offset, num_restored)

    def on_restore_end(
        self, partition: TopicPartition, store_name: str, total_restored: int
    ) -> None:
        assert (partition, store_name) == (P0, "store")
        self.note("end", total_restored)

    def on_restore_suspended(
        self, partition: TopicPartition, store_name: str, total_restored: int
    ) -> None:
        assert (partition, store_name) == (P0, "store")
        self.note("suspended", total_restored)


class Store:
    """Takes what is restored, and raises where it is asked to."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.broken = False

    def restore(self, records: Sequence[ChangelogRecord]) -> None:
        if self.broken:
            raise ProcessorStateError("The disk of the store is full.")
        self.offsets.extend(record.offset for record in records)


def records(*offsets: int) -> list[ChangelogRecord]:
    return [ChangelogRecord(b"k%d" % offset, b"v", offset) for offset in offsets]


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def told() -> Told:
    return Told()


def restoring(store: Store, told: StateRestoreListener | None, start: int, end: int) -> Restoration:
    return Restoration(P0, "store", store.restore, start=start, end=end, listener=told)


# --- how it goes ----------------------------------------------------------------------


def test_from_start_to_end(store: Store, told: Told) -> None:
    restoration = restoring(store, told, 2, 7)
    assert restoration.state == "ready"
    restoration.begin()
    assert restoration.restore(records(2, 3, 4)) == 3
    assert (restoration.state, restoration.position, restoration.remaining) == ("restoring", 5, 2)
    assert restoration.restore(records(5, 6)) == 2
    assert (restoration.state, restoration.remaining) == ("completed", 0)
    assert restoration.total_restored == 5
    assert store.offsets == [2, 3, 4, 5, 6]
    assert told.calls == [("start", 2, 7), ("batch", 4, 3), ("batch", 6, 2), ("end", 5)]


@pytest.mark.parametrize(("start", "end"), [(0, 0), (5, 5), (6, 5)])
def test_nothing_to_restore(store: Store, told: Told, start: int, end: int) -> None:
    """The listener is told of a start all the same."""
    restoration = restoring(store, told, start, end)
    restoration.begin()
    assert (restoration.state, restoration.remaining) == ("completed", 0)
    assert told.calls == [("start", start, end), ("end", 0)]


def test_without_a_listener(store: Store) -> None:
    """The methods of the base class do nothing, the one for a suspension among them."""
    restoration = restoring(store, None, 0, 2)
    restoration.begin()
    restoration.restore(records(0))
    restoration.suspend()
    restoration.begin()
    restoration.restore(records(1))
    assert (restoration.state, store.offsets) == ("completed", [0, 1])


def test_records_at_the_end_are_left(store: Store, told: Told) -> None:
    """A poll returns more than was there when the end was looked up."""
    restoration = restoring(store, told, 0, 3)
    restoration.begin()
    assert restoration.restore(records(0, 1, 2, 3, 4)) == 3
    assert store.offsets == [0, 1, 2]
    assert told.calls[1:] == [("batch", 2, 3), ("end", 3)]


def test_a_first_record_beyond_the_end_completes(store: Store, told: Told) -> None:
    """Compaction removed everything before it."""
    restoration = restoring(store, told, 0, 3)
    restoration.begin()
    assert restoration.restore(records(4, 5)) == 0
    assert (restoration.state, store.offsets) == ("completed", [])
    assert told.calls == [("start", 0, 3), ("end", 0)]


def test_the_position_of_the_consumer_completes(store: Store, told: Told) -> None:
    """KAFKA-12951: the log ends with a transaction marker, which is no record."""
    restoration = restoring(store, told, 0, 3)
    restoration.begin()
    assert restoration.restore(records(0, 1), position=2) == 2
    assert restoration.state == "restoring"
    assert restoration.restore([], position=3) == 0
    assert restoration.state == "completed"
    assert told.calls == [("start", 0, 3), ("batch", 1, 2), ("end", 2)]


def test_an_empty_poll_changes_nothing(store: Store, told: Told) -> None:
    restoration = restoring(store, told, 0, 3)
    restoration.begin()
    assert restoration.restore([]) == 0
    assert (restoration.state, restoration.position) == ("restoring", 0)
    assert told.calls == [("start", 0, 3)]


def test_what_is_restored_is_not_restored_again(store: Store, told: Told) -> None:
    restoration = restoring(store, told, 0, 4)
    restoration.begin()
    restoration.restore(records(0, 1))
    restoration.restore(records(0, 1, 2))
    assert store.offsets == [0, 1, 2]
    assert told.calls[-1] == ("batch", 2, 1)


def test_records_without_a_key_are_skipped(
    store: Store, told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    """With a warning that says which; they are passed all the same, also if they are the last."""
    restoration = restoring(store, told, 0, 3)
    restoration.begin()
    null_key: Any = None
    nameless = ChangelogRecord(null_key, b"v", 1)
    with caplog.at_level(logging.WARNING):
        assert restoration.restore([*records(0), nameless]) == 1
        assert restoration.restore([nameless._replace(offset=2)]) == 0
    beginnings = [record.getMessage().partition(", which")[0] for record in caplog.records]
    assert beginnings == [f"Skipping the record at offset {offset} of {P0}" for offset in (1, 2)]
    assert (restoration.state, store.offsets) == ("completed", [0])
    assert told.calls == [("start", 0, 3), ("batch", 0, 1), ("end", 1)]


# --- suspending -----------------------------------------------------------------------


def test_suspend_and_resume(store: Store, told: Told) -> None:
    """A resumption is a new start, from where it was, and to a new end."""
    restoration = restoring(store, told, 0, 4)
    restoration.suspend()
    assert (restoration.state, told.calls) == ("ready", [])
    restoration.begin()
    restoration.restore(records(0, 1))
    restoration.suspend()
    restoration.suspend()
    assert restoration.state == "suspended"
    restoration.begin(end=6)
    restoration.restore(records(2, 3, 4, 5))
    restoration.suspend()
    assert restoration.state == "completed"
    assert told.calls == [
        ("start", 0, 4),
        ("batch", 1, 2),
        ("suspended", 2),
        ("start", 2, 6),
        ("batch", 5, 4),
        ("end", 4),
    ]


def test_calls_at_the_wrong_time(store: Store) -> None:
    restoration = restoring(store, None, 0, 1)
    with pytest.raises(InvalidStateStoreError, match=r"is ready and takes no records; call begin"):
        restoration.restore(records(0))
    restoration.begin()
    with pytest.raises(InvalidStateStoreError, match=r"'store' from .*-0 is restoring; begin only"):
        restoration.begin()
    restoration.suspend()
    with pytest.raises(InvalidStateStoreError, match="is suspended and takes no records"):
        restoration.restore(records(0))
    restoration.begin()
    restoration.restore(records(0))
    with pytest.raises(InvalidStateStoreError, match="is completed; begin only"):
        restoration.begin()
    assert store.offsets == [0]


# --- errors ---------------------------------------------------------------------------


def test_an_error_of_the_store_suspends(store: Store, told: Told) -> None:
    """The batch counts as not restored, and comes again."""
    restoration = restoring(store, told, 0, 4)
    restoration.begin()
    restoration.restore(records(0, 1))
    store.broken = True
    with pytest.raises(ProcessorStateError, match="The disk of the store is full"):
        restoration.restore(records(2, 3))
    assert (restoration.state, restoration.position) == ("suspended", 2)
    store.broken = False
    restoration.begin()
    restoration.restore(records(2, 3))
    assert store.offsets == [0, 1, 2, 3]
    assert told.calls[2:] == [("suspended", 2), ("start", 2, 4), ("batch", 3, 2), ("end", 2)]


def test_the_error_of_the_store_comes_first(store: Store) -> None:
    """If the listener raises too, that is added to it."""
    restoration = restoring(store, Told("suspended"), 0, 4)
    restoration.begin()
    store.broken = True
    with pytest.raises(ProcessorStateError, match="disk") as caught:
        restoration.restore(records(0))
    (note,) = caught.value.__notes__
    assert " in on_restore_suspended, for store 'store'" in note
    assert restoration.state == "suspended"


@pytest.mark.parametrize("method", ["start", "batch", "end"])
def test_an_error_of_the_listener_names_it(store: Store, method: str) -> None:
    """What was restored is valid, and every method is called once, whatever the others raise."""
    told = Told(method)
    restoration = restoring(store, told, 0, 2)
    names = {"start": "on_restore_start", "batch": "on_batch_restored", "end": "on_restore_end"}
    message = rf"listener Told raised .*broken.* in {names[method]}, for store 'store'"
    if method == "start":
        with pytest.raises(StoreError, match=message):
            restoration.begin()
        restoration.restore(records(0, 1))
    else:
        restoration.begin()
        with pytest.raises(StoreError, match=message):
            restoration.restore(records(0, 1))
    assert (restoration.state, store.offsets) == ("completed", [0, 1])
    assert told.calls == [("start", 0, 2), ("batch", 1, 2), ("end", 2)]


def test_an_error_in_suspended_is_raised_once(store: Store) -> None:
    restoration = restoring(store, Told("suspended"), 0, 2)
    restoration.begin()
    with pytest.raises(StoreError, match="on_restore_suspended"):
        restoration.suspend()
    restoration.suspend()
    assert restoration.state == "suspended"


# --- with real stores -----------------------------------------------------------------


@given(cuts=st.lists(st.sampled_from(["poll", "suspend"]), max_size=12), size=st.integers(1, 4))
@settings(settings.get_profile("stores"), max_examples=100)
def test_however_it_is_cut_up(cuts: list[str], size: int) -> None:
    """Each start is followed by one end or suspension, and everything is restored once."""
    changelog = [ChangelogRecord(b"%d" % (n % 3), b"%d" % n, n) for n in range(10)]
    store, told = Store(), Told()
    restoration = restoring(store, told, 0, len(changelog))
    for cut in [*cuts, *["poll"] * len(changelog)]:
        if restoration.state == "completed":
            break
        if restoration.state != "restoring":
            restoration.begin()
        if cut == "suspend":
            restoration.suspend()
        else:
            at = restoration.position
            restoration.restore(changelog[at : at + size])
    assert store.offsets == list(range(10))
    names = [name for name, *_ in told.calls if name != "batch"]
    assert names == ["start", "suspended"] * (len(names) // 2 - 1) + ["start", "end"]
    assert sum(call[2] for call in told.calls if call[0] == "batch") == 10  # type: ignore[misc]


def test_a_real_store(make_context: Any) -> None:
    """It restores to the fold of the changelog, and is as far as it says after a restart."""
    context: StateStoreContext = make_context()
    for start, end in ((0, 2), (2, 4)):
        store = RocksDBStore("store")
        store.init(context, store)
        committed = store.committed_offset(P0)
        assert start == (0 if committed is None else committed + 1)
        callback = context.restore_callbacks["store"]
        restoration = Restoration(P0, "store", callback, start=start, end=end)
        restoration.begin()
        restoration.restore(records(0, 1, 2, 3)[start:])
        store.commit({P0: restoration.position - 1})
        store.close()
    store = RocksDBStore("store")
    store.init(context, store)
    assert [key for key, _ in store.all()] == [b"k0", b"k1", b"k2", b"k3"]
    store.close()


# --- metrics --------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def values(metrics: Metrics) -> dict[str, float]:
    return {row.name: row.value for row in metrics.rows()}


def test_task_metrics_follow_a_restoration(store: Store) -> None:
    """KAFKA-20711: gaps count, so that what remains ends at exactly 0."""
    metrics = Metrics("DEBUG", Clock())
    listener = TaskRestoreMetrics(metrics, "updater-1", "0_3")
    name = "restore-remaining-records-total"
    assert values(metrics)[name] == 0
    first = Restoration(P0, "store", store.restore, start=0, end=100, listener=listener)
    second = Restoration(P1, "store", store.restore, start=40, end=50, listener=listener)
    first.begin()
    second.begin()
    assert values(metrics)[name] == 110
    first.restore(records(0, 1, 59))
    assert values(metrics)[name] == 50
    assert values(metrics)["restore-total"] == 3
    assert values(metrics)["restore-rate"] == pytest.approx(3 / 30)
    second.suspend()
    assert values(metrics)[name] == 40
    first.restore(records(70), position=100)
    assert values(metrics)[name] == 0
    assert values(metrics)["restore-total"] == 4
    rows = metrics.rows()
    assert {row.group for row in rows} == {"stream-task-metrics"}
    assert {(row.name, row.level) for row in rows} == {
        ("restore-rate", "DEBUG"),
        ("restore-total", "DEBUG"),
        (name, "INFO"),
    }
    assert all(row.tags == {"thread-id": "updater-1", "task-id": "0_3"} for row in rows)
    listener.close()
    assert metrics.rows() == []


def test_metrics_of_a_standby() -> None:
    clock = Clock()
    metrics = Metrics("DEBUG", clock)
    update = TaskUpdateMetrics(metrics, "updater-1", "0_3")
    update.record(6)
    assert values(metrics) == {"update-rate": pytest.approx(6 / 30), "update-total": 6}
    clock.now += 60_000
    assert values(metrics) == {"update-rate": 0, "update-total": 6}
    update.close()
    assert metrics.rows() == []
    update = TaskUpdateMetrics(Metrics("INFO"), "updater-1", "0_3")
    update.record(6)


def test_thread_metrics() -> None:
    """Names, level and tag of KIP-869; rates of records and of calls."""
    metrics = Metrics("INFO", Clock())
    updater = StateUpdaterMetrics(metrics, "updater-1")
    updater.active_restoring_tasks = 2
    updater.standby_updating_tasks = 1
    updater.active_paused_tasks = 3
    updater.standby_paused_tasks = 4
    updater.record_restore_call(10)
    updater.record_restore_call(20)
    assert values(metrics) == {
        "active-restoring-tasks": 2,
        "standby-updating-tasks": 1,
        "active-paused-tasks": 3,
        "standby-paused-tasks": 4,
        "idle-ratio": 0,
        "active-restore-ratio": 0,
        "standby-update-ratio": 0,
        "checkpoint-ratio": 0,
        "restore-records-rate": 1,
        "restore-call-rate": pytest.approx(2 / 30),
    }
    for row in metrics.rows():
        assert (row.group, row.level) == ("stream-state-updater-metrics", "INFO")
        assert row.tags == {"thread-id": "updater-1"}
    updater.close()
    assert metrics.rows() == []


PARTS: tuple[Part, ...] = ("idle", "restoring", "updating", "checkpointing")
STEPS = st.lists(st.tuples(st.sampled_from(PARTS), st.integers(0, 90_000)), max_size=20)


@given(steps=STEPS)
@settings(settings.get_profile("stores"), max_examples=200)
def test_ratios_sum_to_one(steps: list[tuple[Part, int]]) -> None:
    """Once any time was spent; and only one of the two for restoring and updating is not 0."""
    clock = Clock()
    metrics = Metrics("INFO", clock)
    updater = StateUpdaterMetrics(metrics, "updater-1")
    for part, milliseconds in steps:
        updater.turn(part)
        clock.now += milliseconds
        found = values(metrics)
        ratios = [value for name, value in found.items() if name.endswith("-ratio")]
        assert len(ratios) == 4
        if milliseconds:
            assert sum(ratios) == pytest.approx(1)
        assert not (found["standby-update-ratio"] and found["active-restore-ratio"])


def test_ratios_are_of_the_last_windows() -> None:
    clock = Clock()
    metrics = Metrics("INFO", clock)
    updater = StateUpdaterMetrics(metrics, "updater-1")
    updater.turn("restoring")
    clock.now += 75
    updater.turn("checkpointing")
    clock.now += 25
    updater.turn("idle")
    found = values(metrics)
    assert (found["active-restore-ratio"], found["checkpoint-ratio"]) == (0.75, 0.25)
    clock.now += 60_000
    updater.turn("restoring")
    clock.now += 20_000
    found = values(metrics)
    assert (found["active-restore-ratio"], found["idle-ratio"]) == (0.25, 0.75)


def test_in_memory_restores_as_well(make_context: Any) -> None:
    context: StateStoreContext = make_context()
    store = InMemoryKeyValueStore("store")
    store.init(context, store)
    restoration = Restoration(P0, "store", context.restore_callbacks["store"], start=0, end=2)
    restoration.begin()
    restoration.restore([*records(0), ChangelogRecord(b"k0", None, 1)])
    assert list(store.all()) == []
    assert restoration.state == "completed"
    store.close()
