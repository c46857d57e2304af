"""Metered stores: what they register, what they measure, and that they cost nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from streamproof.errors import UsageError
from streamproof.stores.api import (
    ChangelogRecord,
    IsolationLevel,
    KeyValueStore,
    RecordMetadata,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.errors import InvalidStateStoreError, StoreError
from streamproof.stores.memory import InMemoryKeyValueStore
from streamproof.stores.metrics import Metrics
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.runtime.layers import capabilities_of, find_layer
from streamproof.stores.runtime.metered import MeteredStore, metered, task_scope
from streamproof.stores.sessions import SessionStore
from streamproof.stores.timestamped import transactional_store as timestamped_store
from streamproof.stores.timestamps import ValueAndTimestamp
from streamproof.stores.transactional import default_store as transactional_store
from streamproof.stores.windowed.memory_sessions import default_store as memory_session_store
from streamproof.stores.windowed.memory_windows import default_store as memory_window_store
from streamproof.stores.windowed.timestamped_sessions import (
    default_store as timestamped_session_store,
)
from streamproof.stores.windowed.timestamped_windows import (
    default_store as timestamped_window_store,
)
from streamproof.stores.windows import Window, Windowed, WindowStore

MakeContext = Callable[..., StateStoreContext]
P0 = TopicPartition("streamproof-store-changelog", 0)
SESSION = Windowed(b"a", Window(5, 9))

STORES: dict[str, tuple[Callable[[], StateStore], str]] = {
    "key-value": (lambda: RocksDBStore("store"), "state-id"),
    "transactional": (transactional_store, "state-id"),
    "timestamped": (timestamped_store, "state-id"),
    "window": (memory_window_store, "window-state-id"),
    "timestamped window": (timestamped_window_store, "window-state-id"),
    "session": (memory_session_store, "session-state-id"),
    "timestamped session": (timestamped_session_store, "session-state-id"),
}


class Clock:
    """A clock that goes on by a millisecond whenever it is asked."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


@pytest.fixture
def metrics() -> Metrics:
    return Metrics("DEBUG", Clock())


def opened(store: StateStore, context: StateStoreContext, metrics: Metrics | None) -> None:
    context.metrics = metrics
    store.init(context, store)


def values(metrics: Metrics) -> dict[str, float]:
    return {row.name: row.value for row in metrics.rows()}


@pytest.mark.parametrize("kind", STORES)
def test_names_groups_levels_and_tags(
    make_context: MakeContext, metrics: Metrics, kind: str
) -> None:
    """They are those of KIP-1035 for each kind of store, and gone after the close."""
    make, tag = STORES[kind]
    store = metered(make(), "rocksdb", thread_id="thread-1")
    assert metrics.rows() == []
    opened(store, make_context(), metrics)
    rows = [row for row in metrics.rows() if row.group == "stream-state-metrics"]
    assert {(row.name, row.level) for row in rows} == {
        ("commit-rate", "DEBUG"),
        ("commit-latency-avg", "DEBUG"),
        ("commit-latency-max", "DEBUG"),
        ("flush-rate", "DEBUG"),
        ("flush-latency-avg", "DEBUG"),
        ("flush-latency-max", "DEBUG"),
        ("uncommitted-bytes", "INFO"),
    }
    expected = {"thread-id": "thread-1", "task-id": "0_0", f"rocksdb-{tag}": "store"}
    assert all(row.tags == expected for row in rows)
    assert capabilities_of(store).metrics
    store.close()
    assert not [row for row in metrics.rows() if row.group == "stream-state-metrics"]
    store.close()


def test_the_thread_is_the_one_that_opens(make_context: MakeContext, metrics: Metrics) -> None:
    store = metered(InMemoryKeyValueStore("store"), "in-memory")
    thread = threading.Thread(target=opened, args=(store, make_context(), metrics), name="opener")
    thread.start()
    thread.join()
    assert {row.tags["thread-id"] for row in metrics.rows()} == {"opener"}
    store.close()


def test_commits_and_flushes_are_measured(make_context: MakeContext, metrics: Metrics) -> None:
    """The clock goes on by 1 ms between the two times that it is asked: 1,000,000 ns."""
    store = metered(InMemoryKeyValueStore("store"), "in-memory")
    opened(store, make_context(), metrics)
    store.commit({P0: 1})
    store.commit({P0: 2})
    found = values(metrics)
    assert found["commit-latency-avg"] == found["commit-latency-max"] == 1_000_000
    assert found["commit-rate"] == pytest.approx(2 / 30, rel=0.01)
    assert found["flush-rate"] == 0
    store.flush()
    assert values(metrics)["flush-latency-max"] == 1_000_000
    assert values(metrics)["flush-rate"] == pytest.approx(1 / 30, rel=0.01)
    store.close()


def test_what_raises_is_measured_too(
    make_context: MakeContext, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = InMemoryKeyValueStore("store")
    store = metered(inner, "in-memory")
    opened(store, make_context(), metrics)

    def fail(*_: object) -> None:
        raise StoreError("no")

    monkeypatch.setattr(inner, "commit", fail)
    monkeypatch.setattr(inner, "flush", fail)
    with pytest.raises(StoreError, match="no"):
        store.commit({P0: 1})
    with pytest.raises(StoreError, match="no"):
        store.flush()
    assert values(metrics)["commit-rate"] > 0
    assert values(metrics)["flush-rate"] > 0
    monkeypatch.undo()
    store.close()


def test_metrics_are_removed_even_if_close_raises(
    make_context: MakeContext, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka, MeteredKeyValueStoreTest#shouldRemoveMetricsEvenIfWrappedStoreThrowsOnClose."""
    inner = RocksDBStore("store")
    store = metered(inner, "rocksdb")
    opened(store, make_context(), metrics)
    assert metrics.rows()

    def fail() -> None:
        raise StoreError("cannot be closed")

    with monkeypatch.context() as patch:
        patch.setattr(inner, "close", fail)
        with pytest.raises(StoreError, match="cannot be closed"):
            store.close()
    assert metrics.rows() == []
    store.close()


def test_nothing_is_registered_if_init_raises(make_context: MakeContext, metrics: Metrics) -> None:
    blocker = RocksDBStore("store")
    blocker.init(make_context(), blocker)
    store = metered(RocksDBStore("store"), "rocksdb")
    with pytest.raises(StoreError):
        opened(store, make_context(), metrics)
    assert metrics.rows() == []
    blocker.close()


def test_levels(make_context: MakeContext) -> None:
    """At INFO only the gauge is there."""
    metrics = Metrics("INFO", Clock())
    store = metered(RocksDBStore("store"), "rocksdb")
    opened(store, make_context(), metrics)
    store.commit({P0: 1})
    assert list(values(metrics)) == ["uncommitted-bytes"]
    store.close()


def test_without_metrics(make_context: MakeContext) -> None:
    """Nobody measures, and everything works."""
    store = metered(RocksDBStore("store"), "rocksdb")
    opened(store, make_context(), None)
    store.put(b"a", b"1")
    store.commit({P0: 1})
    store.flush()
    assert (store.get(b"a"), store.committed_offset(P0)) == (b"1", 1)
    store.close()
    assert not store.is_open


def test_uncommitted_bytes(make_context: MakeContext, metrics: Metrics) -> None:
    store = metered(transactional_store(), "rocksdb")
    opened(store, make_context(), metrics)
    assert values(metrics)["uncommitted-bytes"] == 0
    store.put(b"key", b"value")
    assert values(metrics)["uncommitted-bytes"] == 8
    store.commit({P0: 1})
    assert values(metrics)["uncommitted-bytes"] == 0
    store.close()


def test_records_cost_nothing(make_context: MakeContext, metrics: Metrics) -> None:
    """The methods for records are those of the inner store itself, those for all stores are not."""
    inner = RocksDBStore("store")
    store = metered(inner, "rocksdb")
    for name in ("get", "put", "put_all", "delete", "range", "all", "prefix_scan", "read_only"):
        assert getattr(store, name) == getattr(inner, name)
    for name in ("init", "commit", "flush", "close", "new_transaction"):
        assert getattr(store, name) != getattr(inner, name)
    opened(store, make_context(), metrics)
    store.put(b"a", b"1")
    assert store.read_only(IsolationLevel.READ_COMMITTED).get(b"a") == b"1"
    assert (store.name, store.persistent, store.manages_offsets) == ("store", True, True)
    assert store.new_transaction() is store
    store.close()
    with pytest.raises(InvalidStateStoreError):
        store.get(b"a")


@pytest.fixture
def records(make_context: MakeContext, metrics: Metrics) -> Iterator[list[StateStore]]:
    """One open metered store of each kind, in directories of their own."""
    stores = []
    for kind, (make, _) in STORES.items():
        context = make_context()
        context.state_dir /= kind.replace(" ", "-")
        context.record_metadata = RecordMetadata("input", 0, 7)
        context.record_timestamp = 70
        stores.append(metered(make(), "rocksdb"))
        opened(stores[-1], context, metrics)
    yield stores
    for store in stores:
        store.close()


def test_every_kind_passes_everything_on(records: list[StateStore]) -> None:
    """Reads find what was written, with and without timestamps, and the position follows."""
    for store in records:
        if isinstance(store, KeyValueStore):
            store.put(b"a", b"1")
            assert (store.get(b"a"), list(store.all())) == (b"1", [(b"a", b"1")])
        elif isinstance(store, WindowStore):
            store.put(b"a", b"1", 5)
            assert (store.fetch(b"a", 5), len(list(store.all()))) == (b"1", 1)
        elif isinstance(store, SessionStore):
            store.put(SESSION, b"1")
            assert store.fetch_session(b"a", 5, 9) == b"1"
            assert list(store.find_sessions_between(0, 9)) == [(SESSION, b"1")]
        assert store.position.as_dict() == {TopicPartition("input", 0): 7}
        assert isinstance(store, MeteredStore)
        assert find_layer(store, type(store.inner)) is store.inner
    timestamped, window, session = records[2], records[4], records[6]
    at_70 = ValueAndTimestamp(b"1", 70)
    assert timestamped.get_with_timestamp(b"a") == at_70  # type: ignore[attr-defined]
    assert window.fetch_with_timestamp(b"a", 5) == at_70  # type: ignore[attr-defined]
    assert session.fetch_session_with_timestamp(b"a", 5, 9) == at_70  # type: ignore[attr-defined]


def test_dropped_records_of_a_task(make_context: MakeContext, metrics: Metrics) -> None:
    """The stores of a task share the metric, which outlives them until the task goes."""
    windows = metered(memory_window_store(), "in-memory", thread_id="thread-1")
    sessions = metered(memory_session_store(), "in-memory", thread_id="thread-1")
    context = make_context()
    opened(windows, context, metrics)
    opened(sessions, context, metrics)
    assert values(metrics)["dropped-records-total"] == 0
    for start in (1_000_000, 1, 2):
        windows.put(b"a", b"1", start)
    assert windows.dropped_records == 2
    windows.commit({})
    assert values(metrics)["dropped-records-total"] == 2
    windows.commit({})
    assert values(metrics)["dropped-records-total"] == 2
    for end in (1_000_000, 1):
        sessions.put(Windowed(b"a", Window(1, end)), b"1")
    windows.close()
    sessions.close()
    (rate, total) = metrics.rows()
    assert (rate.name, rate.group, rate.level) == (
        "dropped-records-rate",
        "stream-task-metrics",
        "INFO",
    )
    assert rate.value > 0
    assert (total.name, total.value) == ("dropped-records-total", 3)
    assert total.tags == {"thread-id": "thread-1", "task-id": "0_0"}
    metrics.remove(task_scope("thread-1", "0_0"))
    assert metrics.rows() == []


def test_restoring_reaches_the_inner_store(make_context: MakeContext, metrics: Metrics) -> None:
    store = metered(RocksDBStore("store"), "rocksdb")
    context = make_context()
    opened(store, context, metrics)
    context.restore_callbacks["store"]([ChangelogRecord(b"a", b"1", 0)])
    assert store.get(b"a") == b"1"
    store.close()


class OtherStore(StateStore):
    """A store of no kind that is known."""

    name = "other"
    persistent = is_open = False

    def init(self, context: StateStoreContext, root: StateStore) -> None: ...

    def close(self) -> None: ...


def test_what_cannot_be_metered() -> None:
    with pytest.raises(UsageError, match="Store 'other' is a OtherStore, which has no metrics"):
        metered(OtherStore(), "custom")
