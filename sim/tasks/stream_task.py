"""A task: one partition of a subtopology, with its stores.

What a task does takes no time and is not interrupted; the thread that runs it decides when each
step is done, and the host may die between any two.

Sources: KIP-892, KIP-1035; Kafka, StreamTask and ProcessorStateManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from streamproof.sim.brokers.log import Entry
from streamproof.sim.choices import Choices
from streamproof.sim.clients.producer import Producer
from streamproof.sim.decisions.commits import committable_offset, needs_commit
from streamproof.sim.decisions.idling import Mode
from streamproof.sim.decisions.recovery import (
    OFFSET_UNKNOWN,
    Closing,
    Found,
    Traits,
    commits_after,
    opening,
)
from streamproof.sim.tasks.queues import PartitionGroup
from streamproof.sim.topology import TaskSpec, partition_for
from streamproof.sim.trace import Trace
from streamproof.stores.api import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    PROCESSING_GUARANTEE_CONFIG,
    ChangelogRecord,
    KeyValueStore,
    RecordMetadata,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.errors import InvalidStateStoreError, TaskCorruptedError
from streamproof.stores.runtime.changelogging import change_logging

__all__ = ["StoreHolder", "StreamTask", "TaskConfig", "TaskState", "topic_partition"]


class TaskState(Enum):
    """How far a task is in its life, and what may follow."""

    CREATED = "it has no stores yet"
    RESTORING = "its stores are open, and lack something"
    RUNNING = "it processes"
    SUSPENDED = "it was taken away, and its stores are open"
    CLOSED = "it has nothing open"


_FOLLOWS = {
    TaskState.CREATED: {TaskState.RESTORING, TaskState.SUSPENDED, TaskState.CLOSED},
    TaskState.RESTORING: {TaskState.RUNNING, TaskState.SUSPENDED},
    TaskState.RUNNING: {TaskState.SUSPENDED},
    TaskState.SUSPENDED: {TaskState.RESTORING, TaskState.CLOSED},
    TaskState.CLOSED: {TaskState.CREATED},
}


@dataclass(frozen=True)
class TaskConfig:
    """What is the same for all tasks of an application.

    Attributes:
        exactly_once: the guarantee.
        transactional: whether the stores stage their writes until the commit.
        max_task_idle_ms: how long a task waits for an empty input.
        mode: the rules for that.
        partitions: of every topic.
    """

    exactly_once: bool
    transactional: bool
    max_task_idle_ms: int
    mode: Mode
    partitions: Mapping[str, int]


@dataclass
class StoreHolder:
    """A store of a task, and how far it is.

    Attributes:
        store: what processors write to.
        changelog: its changelog partition.
        offset: of the last changelog record that it has; ``None`` if that is not known.
        restore: applies changelog records to it.
    """

    store: KeyValueStore
    changelog: str
    offset: int | None
    restore: Callable[[list[ChangelogRecord]], None]


def topic_partition(name: str) -> TopicPartition:
    """``topic-0``, as stores name it."""
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


class StreamTask:
    """An active task, or a standby, which is never made to process.

    Args:
        task_id: its name.
        spec: its inputs, stores and processor.
        config: what is the same for all tasks.
        choices: decides between records of the same timestamp.
        trace: is told what it does.
        actor: the thread that runs it, for the trace.

    Attributes:
        state: how far it is.
        stores: its stores by name; empty unless they are open.
        commit_needed: whether it has done something since its last commit.
        corrupted: whether its stores cannot be trusted any more.
    """

    def __init__(
        self,
        task_id: str,
        spec: TaskSpec,
        config: TaskConfig,
        *,
        choices: Choices,
        trace: Trace,
        actor: str,
    ) -> None:
        self.id = task_id
        self.spec = spec
        self._config = config
        self._trace = trace
        self._actor = actor
        self._context: StateStoreContext | None = None
        self._producer: Producer | None = None
        self.queues = PartitionGroup(
            spec.inputs, choices, max_task_idle_ms=config.max_task_idle_ms, mode=config.mode
        )
        self._consumed: dict[str, int] = {}
        self.state = TaskState.CREATED
        self.stores: dict[str, StoreHolder] = {}
        self.commit_needed = False
        self.corrupted = False

    @property
    def traits(self) -> Traits:
        """What the rules of recovery ask."""
        return Traits(self._config.exactly_once, self._config.transactional)

    # Opening and closing.

    def open(
        self,
        directory: Path,
        make_store: Callable[[str], KeyValueStore],
        producer: Producer,
        *,
        was_empty: bool,
    ) -> None:
        """Open all stores, and find out how far they are.

        Args:
            directory: of the task.
            make_store: makes a store, by name, that is not open.
            producer: sends what is written.
            was_empty: whether there was nothing in the directory.

        Raises:
            TaskCorruptedError: wipe the directory, and begin anew; nothing is open then.
        """
        guarantee = EXACTLY_ONCE if self._config.exactly_once else AT_LEAST_ONCE
        self._producer = producer
        self._context = StateStoreContext(
            state_dir=directory,
            task_id=self.id,
            app_configs={PROCESSING_GUARANTEE_CONFIG: guarantee},
            changelog=self._log,
        )
        try:
            for name, changelog in self.spec.changelogs.items():
                self._open_store(name, changelog, make_store(name), was_empty=was_empty)
        except TaskCorruptedError:
            self._close_stores()
            raise
        self.become(TaskState.RESTORING)

    def _open_store(
        self, name: str, changelog: str, inner: KeyValueStore, *, was_empty: bool
    ) -> None:
        context = self._opened()
        store: Any = change_logging(inner)
        store.init(context, store)
        restore = context.restore_callbacks[store.name]
        holder = StoreHolder(store, changelog, None, restore)
        self.stores[name] = holder
        offset = store.committed_offset(topic_partition(changelog))
        start = opening(self.traits, Found(offset, was_empty))
        self._emit(
            "store.opened",
            partition=changelog,
            offset=-1 if offset is None else offset,
            store=name,
            wipe=start.wipe,
        )
        if start.wipe:
            raise TaskCorruptedError(f"Store {name!r} of task {self.id} has data and no offset.")
        holder.offset = None if offset == OFFSET_UNKNOWN else offset

    def use(self, producer: Producer) -> None:
        """Send with another producer from now on; nothing of the one before is in doubt here."""
        self._producer = producer

    def become(self, state: TaskState) -> None:
        """Go over into another state.

        Raises:
            InvalidStateStoreError: that cannot follow: the runtime has made a mistake.
        """
        if state not in _FOLLOWS[self.state]:
            raise InvalidStateStoreError(
                f"Task {self.id} cannot become {state.name}: it is {self.state.name}."
            )
        self._emit("task.state", before=self.state.name, after=state.name)
        self.state = state

    def suspend(self) -> None:
        """Stop processing; the stores stay open."""
        if self.state is not TaskState.SUSPENDED:
            self.queues.clear()
            self._consumed.clear()
            self.become(TaskState.SUSPENDED)

    def close(self, closing: Closing) -> None:
        """Close all stores; the task was suspended.

        Args:
            closing: how it ends, which says whether the offsets are committed.
        """
        self.commit_stores(closing)
        self._close_stores()
        self.commit_needed = False
        self.become(TaskState.CLOSED)

    def revive(self) -> None:
        """Begin anew after it was closed."""
        self.become(TaskState.CREATED)
        self.corrupted = False

    def _close_stores(self) -> None:
        holders, self.stores = list(self.stores.values()), {}
        for holder in holders:
            holder.store.close()

    # Restoring.

    def next_restored(self, changelog: str) -> int:
        """The first offset of a changelog that its store lacks."""
        offset = self._holder(changelog).offset
        return 0 if offset is None else offset + 1

    def apply(self, changelog: str, records: Iterable[Entry]) -> None:
        """Restore a batch."""
        holder = self._holder(changelog)
        batch = [
            ChangelogRecord(each.key, each.value, each.offset, each.timestamp) for each in records
        ]
        if batch:
            holder.restore(batch)
            holder.offset = batch[-1].offset
            self._emit(
                "store.restored", partition=changelog, offset=holder.offset, records=len(batch)
            )

    def _holder(self, changelog: str) -> StoreHolder:
        return next(each for each in self.stores.values() if each.changelog == changelog)

    # Processing.

    @property
    def stream_time(self) -> int:
        """The largest timestamp that was processed."""
        return self.queues.stream_time

    def store(self, name: str) -> KeyValueStore:
        """A store, for the processor."""
        return self.stores[name].store

    def forward(
        self, topic: str, key: bytes, value: bytes | None, timestamp: int | None = None
    ) -> None:
        """Send a record to a topic."""
        if timestamp is None:
            timestamp = self._opened().record_timestamp
        partition = f"{topic}-{partition_for(key, self._config.partitions[topic])}"
        self._sender().send(partition, key, value, timestamp)

    def process(self, now: int) -> bool:
        """Process the next record if the task is ready; whether there was one."""
        if self.state is not TaskState.RUNNING or not self.queues.readiness(now).ready:
            return False
        taken = self.queues.next_record()
        if taken is None:
            return False
        partition, record = taken
        topic, _, number = partition.rpartition("-")
        context = self._opened()
        context.record_metadata = RecordMetadata(topic, int(number), record.offset)
        context.record_timestamp = record.timestamp
        self._emit(
            "task.processed", partition=partition, offset=record.offset, timestamp=record.timestamp
        )
        self.spec.subtopology.process(self, topic, record)
        self._consumed[partition] = record.offset
        self.commit_needed = True
        return True

    # Committing.

    def committable_offsets(self, positions: Mapping[str, int | None]) -> dict[str, int]:
        """What is to be committed of the inputs.

        Args:
            positions: of the consumer.
        """
        found = {}
        for partition in self.spec.inputs:
            consumed, head = self._consumed.get(partition), self.queues.head_offset(partition)
            if consumed is None and not (head is None and positions.get(partition)):
                continue
            offset = committable_offset(head, positions.get(partition))
            if offset is not None:
                found[partition] = offset
        return found

    def has_passed_markers(self, positions: Mapping[str, int | None]) -> bool:
        """Whether a position is beyond the last record, so that it should be committed, too."""
        return any(
            self.queues.head_offset(partition) is None
            and needs_commit(self._consumed.get(partition), positions.get(partition))
            for partition in self.spec.inputs
        )

    def note_written(self) -> None:
        """Take over how far the changelogs are written, as the brokers have confirmed it."""
        written = self._sender().written
        for holder in self.stores.values():
            offset = written.get(holder.changelog)
            if offset is not None and (holder.offset is None or offset > holder.offset):
                holder.offset = offset

    def commit_stores(self, closing: Closing) -> None:
        """Commit the offsets to the stores, if the rules say so; forget them if corrupted."""
        if closing is Closing.CORRUPTED:
            for holder in self.stores.values():
                holder.store.commit({})
        elif commits_after(self.traits, closing):
            for name in self.stores:
                self.commit_store(name)

    def commit_store(self, name: str) -> None:
        """Commit the offset of one store to it."""
        holder = self.stores[name]
        offset = OFFSET_UNKNOWN if holder.offset is None else holder.offset
        holder.store.commit({topic_partition(holder.changelog): offset})
        self._emit("store.committed", partition=holder.changelog, offset=max(offset, -1))

    def committed(self) -> None:
        """The commit is done."""
        self.commit_needed = False

    def uncommitted_bytes(self) -> int:
        """What the stores have staged."""
        return sum(
            max(each.store.approximate_num_uncommitted_bytes(), 0) for each in self.stores.values()
        )

    def _log(self, store: str, key: bytes, value: bytes | None, timestamp: int) -> None:
        self._sender().send(self.spec.changelogs[store], key, value, timestamp)

    def _sender(self) -> Producer:
        if self._producer is None:
            raise InvalidStateStoreError(f"Task {self.id} is not open.")
        return self._producer

    def _opened(self) -> StateStoreContext:
        if self._context is None:
            raise InvalidStateStoreError(f"Task {self.id} is not open.")
        return self._context

    def _emit(self, kind: str, *, partition: str = "", offset: int = -1, **more: Any) -> None:
        self._trace.emit(
            kind, self._actor, task=self.id, partition=partition, offset=offset, **more
        )
