"""The outermost layer of a store: it measures commits, and counts uncommitted bytes.

Source: KIP-1035, "Metrics"; KIP-892; Kafka, MeteredKeyValueStore and StateStoreMetrics.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, TypeVar, cast

from streamproof.errors import UsageError
from streamproof.stores.api import KeyValueStore, StateStore, StateStoreContext, TopicPartition
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.metrics import MetricDefinition, Metrics, Scope, Sensor
from streamproof.stores.runtime.layers import (
    SessionLayer,
    TimestampedKeyValueLayer,
    TimestampedSessionLayer,
    TimestampedWindowLayer,
    WindowLayer,
    capabilities_of,
    has_contract,
)
from streamproof.stores.sessions import SessionStore, SessionWithTimestampStore
from streamproof.stores.timestamps import KeyValueWithTimestampStore
from streamproof.stores.windows import WindowStore, WindowWithTimestampStore
from streamproof.stores.wrapped import WrappedKeyValueStore

__all__ = [
    "COMMIT_METRICS",
    "DROPPED_RECORDS_METRICS",
    "FLUSH_METRICS",
    "STORE_GROUP",
    "TASK_GROUP",
    "UNCOMMITTED_BYTES",
    "MeteredStore",
    "metered",
    "task_scope",
]

S = TypeVar("S", bound=StateStore)

STORE_GROUP = "stream-state-metrics"
"""The group of metrics of a store; tags ``thread-id``, ``task-id`` and ``<type>-state-id``."""

TASK_GROUP = "stream-task-metrics"
"""The group of metrics of a task; tags ``thread-id`` and ``task-id``."""

COMMIT_METRICS = (
    MetricDefinition(
        "commit-rate",
        STORE_GROUP,
        "DEBUG",
        "call-rate",
        "The average number of calls to commit per second.",
    ),
    MetricDefinition(
        "commit-latency-avg",
        STORE_GROUP,
        "DEBUG",
        "avg",
        "The average latency of calls to commit, in nanoseconds.",
    ),
    MetricDefinition(
        "commit-latency-max",
        STORE_GROUP,
        "DEBUG",
        "max",
        "The maximum latency of calls to commit, in nanoseconds.",
    ),
)
"""The metrics of ``commit`` (KIP-1035)."""

FLUSH_METRICS = (
    MetricDefinition(
        "flush-rate",
        STORE_GROUP,
        "DEBUG",
        "call-rate",
        "Deprecated: the average number of calls to flush per second.",
    ),
    MetricDefinition(
        "flush-latency-avg",
        STORE_GROUP,
        "DEBUG",
        "avg",
        "Deprecated: the average latency of calls to flush, in nanoseconds.",
    ),
    MetricDefinition(
        "flush-latency-max",
        STORE_GROUP,
        "DEBUG",
        "max",
        "Deprecated: the maximum latency of calls to flush, in nanoseconds.",
    ),
)
"""The metrics of ``flush``, which the runtime does not call any more (KIP-1035)."""

UNCOMMITTED_BYTES = MetricDefinition(
    "uncommitted-bytes",
    STORE_GROUP,
    "INFO",
    "gauge",
    "About how many bytes await the commit; -1 if the store does not know.",
)
"""The metric of ``approximate_num_uncommitted_bytes`` (KIP-892, as Kafka 4.4 ships it)."""

DROPPED_RECORDS_METRICS = (
    MetricDefinition(
        "dropped-records-rate",
        TASK_GROUP,
        "INFO",
        "rate",
        "The average number of dropped records per second.",
    ),
    MetricDefinition(
        "dropped-records-total",
        TASK_GROUP,
        "INFO",
        "total",
        "The total number of dropped records.",
    ),
)
"""How many records the window and session stores of a task dropped because they came too late."""

_NS_PER_MS = 1_000_000


def task_scope(thread_id: str, task_id: str) -> Scope:
    """The scope of the metrics that all stores of a task share.

    They stay when a store is closed; the runtime removes them together with the task (KIP-869).
    """
    return (thread_id, task_id)


class MeteredStore(StateStore):
    """The common part of the metered stores of all kinds; ``metered`` makes one.

    Reads and writes are the inner store's own methods, so that this layer does not slow them down.

    Args:
        inner: the store that is measured.
        store_type: the storage below the store, such as ``rocksdb`` or ``in-memory``.
        thread_id: the tag ``thread-id``; by default, the name of the thread that calls ``init``.

    Attributes:
        contract: the contract of the stores of this kind.
    """

    contract: ClassVar[type[StateStore]]
    _tag = "state-id"
    # Each kind of layer has its own type of inner store.
    _inner: Any

    def __init__(self, inner: StateStore, store_type: str, *, thread_id: str | None = None) -> None:
        # The layer that this class is combined with takes the inner store.
        super().__init__(inner)  # type: ignore[call-arg]
        self._store_type = store_type
        self._thread_id = thread_id
        self._metrics: Metrics | None = None
        self._scope: Scope = ()
        self._commits = self._flushes = self._drops = Sensor(recording=False)
        self._num_dropped = 0
        vars(self).update({name: getattr(inner, name) for name in _record_methods(self.contract)})

    @property
    def capabilities(self) -> Capabilities:
        """What the inner store promises, with metrics."""
        return replace(capabilities_of(self._inner), metrics=True)

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the inner store and register its metrics; without ``context.metrics``, none."""
        self._inner.init(context, root)
        if context.metrics is not None:
            self._register(context.metrics, context.task_id)

    def _register(self, metrics: Metrics, task_id: str) -> None:
        thread_id = self._thread_id or threading.current_thread().name
        name = self._inner.name
        task_tags = {"thread-id": thread_id, "task-id": task_id}
        tags = {**task_tags, f"{self._store_type}-{self._tag}": name}
        scope = (thread_id, task_id, f"{self._store_type}-{self._tag}", name)
        self._metrics, self._scope = metrics, scope
        self._commits = metrics.sensor(scope, COMMIT_METRICS, tags)
        self._flushes = metrics.sensor(scope, FLUSH_METRICS, tags)
        uncommitted_bytes = self._inner.approximate_num_uncommitted_bytes
        metrics.gauge(scope, UNCOMMITTED_BYTES, tags, uncommitted_bytes)
        self._num_dropped = 0
        if not issubclass(self.contract, KeyValueStore):
            tasks = task_scope(thread_id, task_id)
            self._drops = metrics.sensor(tasks, DROPPED_RECORDS_METRICS, task_tags)

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit the inner store; how long it takes is recorded even if it raises."""
        if self._metrics is None:
            self._inner.commit(changelog_offsets)
            return
        clock = self._metrics.clock
        start = clock()
        try:
            self._inner.commit(changelog_offsets)
        finally:
            self._commits.record((clock() - start) * _NS_PER_MS)
        self._record_drops()

    def flush(self) -> None:
        """Flush the inner store; how long it takes is recorded even if it raises."""
        if self._metrics is None:
            self._inner.flush()
            return
        clock = self._metrics.clock
        start = clock()
        try:
            self._inner.flush()
        finally:
            self._flushes.record((clock() - start) * _NS_PER_MS)

    def close(self) -> None:
        """Close the inner store; its metrics are removed even if that raises.

        Source: Kafka, MeteredKeyValueStoreTest#shouldRemoveMetricsEvenIfWrappedStoreThrowsOnClose.
        """
        metrics, self._metrics = self._metrics, None
        if metrics is None:
            self._inner.close()
            return
        try:
            self._record_drops()
            self._inner.close()
        finally:
            metrics.remove(self._scope)

    def _record_drops(self) -> None:
        # The store counts anyway; asking it now and then leaves its put alone.
        num_dropped = getattr(self._inner, "dropped_records", 0)
        if num_dropped > self._num_dropped:
            self._drops.record(num_dropped - self._num_dropped)
            self._num_dropped = num_dropped


class _MeteredKeyValueStore(MeteredStore, WrappedKeyValueStore):
    contract = KeyValueStore


class _MeteredTimestampedKeyValueStore(MeteredStore, TimestampedKeyValueLayer):
    contract = KeyValueWithTimestampStore


class _MeteredWindowStore(MeteredStore, WindowLayer[WindowStore]):
    contract = WindowStore
    _tag = "window-state-id"


class _MeteredTimestampedWindowStore(MeteredStore, TimestampedWindowLayer):
    contract = WindowWithTimestampStore
    _tag = "window-state-id"


class _MeteredSessionStore(MeteredStore, SessionLayer[SessionStore]):
    contract = SessionStore
    _tag = "session-state-id"


class _MeteredTimestampedSessionStore(MeteredStore, TimestampedSessionLayer):
    contract = SessionWithTimestampStore
    _tag = "session-state-id"


_LAYERS: tuple[type[MeteredStore], ...] = (
    _MeteredTimestampedKeyValueStore,
    _MeteredKeyValueStore,
    _MeteredTimestampedWindowStore,
    _MeteredWindowStore,
    _MeteredTimestampedSessionStore,
    _MeteredSessionStore,
)
"""The special contracts before the general ones, as the first that fits is taken."""


def metered(store: S, store_type: str, *, thread_id: str | None = None) -> S:
    """A key-value, window or session store around another one that measures it.

    The metrics are registered at ``init`` and removed at ``close``.

    Args:
        store: the store that is measured.
        store_type: the storage below the store, such as ``rocksdb`` or ``in-memory``; it is part of
            the tag ``<type>-state-id``, ``<type>-window-state-id`` or ``<type>-session-state-id``.
        thread_id: the tag ``thread-id``; by default, the name of the thread that calls ``init``.

    Raises:
        UsageError: the store is of no kind that can be measured.
    """
    for layer in _LAYERS:
        if has_contract(store, layer.contract):
            return cast(S, layer(store, store_type, thread_id=thread_id))
    raise UsageError(
        f"Store {store.name!r} is a {type(store).__name__}, which has no metrics. Use a key-value, "
        "window or session store."
    )


def _record_methods(contract: type[StateStore]) -> list[str]:
    """The methods of a contract that are not those of every store."""
    shared = dir(StateStore)
    return [
        name
        for name in dir(contract)
        if not name.startswith("_") and name not in shared and callable(getattr(contract, name))
    ]
