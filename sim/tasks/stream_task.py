"""A task: one partition of a subtopology, with its stores.

A step of a task takes no time and is not interrupted. The thread decides when to take each step,
and the host may die between any two steps.

Sources: KIP-892, KIP-1035; Kafka, StreamTask and ProcessorStateManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType

from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.choices import Choices
from streamproof.sim.clients.producer import Producer
from streamproof.sim.decisions.commits import Uncommitted, committable_offset, needs_commit
from streamproof.sim.decisions.idling import Readiness, Waiting
from streamproof.sim.decisions.recovery import (
    OFFSET_UNKNOWN,
    Closing,
    FoundStore,
    Traits,
    commits_after,
    opening,
    wipes_after,
)
from streamproof.sim.decisions.refusals import is_left_out, is_too_large
from streamproof.sim.segmented_store import SegmentedStore
from streamproof.sim.tasks.punctuations import Punctuations
from streamproof.sim.tasks.record_handlers import RecordRefusedError
from streamproof.sim.tasks.record_queues import (
    NO_TIME,
    PartitionGroup,
)
from streamproof.sim.tasks.store_holder import StoreHolder, position_of, topic_partition
from streamproof.sim.tasks.task_config import TaskConfig
from streamproof.sim.tasks.task_metrics import TaskMetrics
from streamproof.sim.tasks.task_states import FOLLOWS, TaskState
from streamproof.sim.topology import PunctuationType, Punctuator, TaskSpec, partition_for
from streamproof.sim.trace import Trace
from streamproof.stores.api import (
    AT_LEAST_ONCE,
    NO_TIMESTAMP,
    PROCESSING_GUARANTEE_CONFIG,
    ChangelogRecord,
    IsolationLevel,
    KeyValueStore,
    RecordMetadata,
    RestoreCallback,
    StateStoreContext,
)
from streamproof.stores.errors import (
    InvalidStateStoreError,
    ProcessorStateError,
    TaskCorruptedError,
    UnsupportedOperationError,
)
from streamproof.stores.metrics import Metrics
from streamproof.stores.runtime.cache import (
    CachingKeyValueStore,
    CachingTimestampedKeyValueStore,
    RecordCache,
)
from streamproof.stores.runtime.changelogging import change_logging
from streamproof.stores.runtime.guard import guarded
from streamproof.stores.runtime.layers import call_all
from streamproof.stores.runtime.metered import metered
from streamproof.stores.timestamped import TimestampedKeyValueStore

__all__ = ["StreamTask", "TaskConfig", "TaskState"]


class StreamTask:
    """An active task, or a standby, which never processes.

    Args:
        task_id: the id of the task.
        spec: its inputs, stores and processor.
        config: the configuration of all tasks.
        choices: decides between records of the same timestamp.
        trace: takes the events of the task.
        actor: the thread that runs the task, for the trace.
        cache: the record cache of the thread, in front of each store; ``None`` for no cache.
        global_stores: the global stores of the instance by name. The task only reads them.
        metrics: where the metrics of the task are registered; ``None`` for nowhere.

    Attributes:
        state: the state of the task.
        punctuations: its punctuations, while it runs.
        stores: its stores by name; empty unless they are open.
        commit_needed: whether the task has done anything since its last commit.
        commit_requested: whether a processor has requested a commit since the last one.
        corrupted: whether its stores cannot be trusted any more.
        must_be_wiped: whether it is corrupted, but a store could not forget its offset.
        found_nothing: whether the last attempt to process found no record.
        has_run: whether it has run as an active task with the stores that are open.
        idling_since: since when the task has not been ready, by the clock of its host; ``None`` if
            it was ready last (Kafka: TaskMetadata#timeCurrentIdlingStarted).
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
        cache: RecordCache | None = None,
        global_stores: Mapping[str, KeyValueStore] = MappingProxyType({}),
        metrics: Metrics | None = None,
    ) -> None:
        self.id = task_id
        self.spec = spec
        self._config = config
        self._emit = partial(trace.emit, actor=actor, task=task_id)
        self._actor = actor
        self._context: StateStoreContext | None = None
        self._producer: Producer | None = None
        self._choices = choices
        self.queues = self._new_queues()
        self._registry = metrics
        self._metrics: TaskMetrics | None = None
        self._waiting: dict[str, Waiting] = {}
        self._enforced: tuple[str, ...] = ()
        self.has_run = False
        self.idling_since: int | None = None
        self._consumed: dict[str, int] = {}
        # The committed offsets, so that markers at the end of an input are committed only once.
        self._committed: dict[str, int] = {}
        self.punctuations = Punctuations()
        self._cache = cache
        self._global_stores = {name: guarded(each) for name, each in global_stores.items()}
        self.state = TaskState.CREATED
        self.stores: dict[str, StoreHolder] = {}
        self.commit_needed = False
        self.commit_requested = False
        self.corrupted = False
        self.must_be_wiped = False
        self.found_nothing = False

    def _new_queues(self) -> PartitionGroup:
        config = self._config
        return PartitionGroup(
            self.spec.inputs,
            self._choices,
            max_task_idle_ms=config.max_task_idle_ms,
            mode=config.mode,
            limit=config.buffered_records_per_partition,
            defect=config.defect,
        )

    @property
    def traits(self) -> Traits:
        """The properties that the rules of recovery depend on."""
        return self._config.traits

    @property
    def isolation_level(self) -> IsolationLevel:
        """The isolation level of the context, which queries read at by default (KIP-892)."""
        if self._config.defect("keeps-unclean-store") and self._config.exactly_once:
            # The defect lies about the guarantee, but to stores alone.
            return IsolationLevel.READ_COMMITTED
        return self._opened().isolation_level

    # Opening and closing.

    def open(
        self,
        directory: Path,
        make_store: Callable[[str], KeyValueStore],
        producer: Producer,
        *,
        was_empty: bool,
        app_configs: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Open all stores, and read their committed offsets.

        Args:
            directory: the directory of the task.
            make_store: makes a store, not open, given its name.
            producer: sends changelog records and output.
            was_empty: whether the directory was empty.
            app_configs: the configuration of the release, for the stores.

        Raises:
            TaskCorruptedError: wipe the directory, and start over. No store is open then.
            ProcessorStateError: the files cannot be used. No store is open then.
        """
        configs = self._config.store_configs
        if self._config.defect("keeps-unclean-store"):
            configs[PROCESSING_GUARANTEE_CONFIG] = AT_LEAST_ONCE
        self._producer = producer
        self._context = StateStoreContext(
            state_dir=directory,
            task_id=self.id,
            application_id=self._config.application_id,
            app_configs={**configs, **app_configs},
            changelog=self._log,
            metrics=self._registry,
        )
        try:
            self._open_stores(make_store, was_empty=was_empty)
        except ProcessorStateError:
            # The disk may be too full to close a store as well.
            with suppress(ProcessorStateError):
                self._close_stores()
            self._emit("task.closed", closing=Closing.DIRTY.name)
            raise
        self.become(TaskState.RESTORING)

    def _open_stores(self, make_store: Callable[[str], KeyValueStore], *, was_empty: bool) -> None:
        try:
            for name, changelog in self.spec.changelogs.items():
                self._open_store(name, changelog, make_store(name), was_empty=was_empty)
        except TaskCorruptedError:
            self._close_stores()
            raise

    def _open_store(
        self, name: str, changelog: str, inner: KeyValueStore, *, was_empty: bool
    ) -> None:
        context = self._opened()
        store = self._with_layers(name, inner)
        storage = "rocksdb" if inner.persistent else "in-memory"
        store = metered(store, storage, thread_id=self._actor)
        store.init(context, store)
        restore = context.restore_callbacks[store.name]
        holder = StoreHolder(store, inner, changelog, None, restore)
        self.stores[name] = holder
        offset = store.committed_offset(topic_partition(changelog))
        traits = self.traits._replace(persistent=inner.persistent)
        start = opening(traits, FoundStore(offset, was_empty))
        self._emit(
            "store.opened",
            partition=changelog,
            offset=-1 if offset is None else offset,
            store=name,
            wipe=start.wipe,
            persistent=inner.persistent,
            place=getattr(inner, "place", name),
            segmented=isinstance(inner, SegmentedStore),
        )
        if start.wipe:
            raise TaskCorruptedError(
                f"Store {name!r} of task {self.id} has data but no offset: wipe and restore it."
            )
        holder.offset = None if offset == OFFSET_UNKNOWN else offset

    def _with_layers(self, name: str, inner: KeyValueStore) -> KeyValueStore:
        """A store with the layers for timestamps, its changelog, and its record cache."""
        if name in self.spec.subtopology.timestamped:
            stamped = change_logging(TimestampedKeyValueStore(inner))
            if self._cache is None:
                return stamped
            return CachingTimestampedKeyValueStore(stamped, self._cache)
        store = change_logging(inner)
        return store if self._cache is None else CachingKeyValueStore(store, self._cache)

    def use(self, producer: Producer) -> None:
        """Send with another producer from now on. The state of the one before does not matter."""
        self._producer = producer

    def become(self, state: TaskState) -> None:
        """Change the state. A task that begins to run prepares its processor.

        Raises:
            InvalidStateStoreError: the new state cannot follow: the runtime has made a mistake.
        """
        if state not in FOLLOWS[self.state]:
            raise InvalidStateStoreError(
                f"Task {self.id} cannot become {state.name}: it is {self.state.name}."
            )
        self._emit("task.state", before=self.state.name, after=state.name)
        self.state = state
        if state is TaskState.RUNNING:
            self.has_run = True
            if self._registry is not None:
                buffered = self.queues.total_buffered
                self._metrics = TaskMetrics(self._registry, self._actor, self.id, buffered)
            self.spec.subtopology.init(self)

    def suspend(self) -> None:
        """Stop processing. The stores stay open."""
        if self.state is not TaskState.SUSPENDED:
            self.queues.clear()
            self._consumed.clear()
            self._committed.clear()
            self.punctuations.clear()
            if self._metrics is not None:
                self._metrics.close()
            self.become(TaskState.SUSPENDED)

    def recycle(self, *, is_active: bool) -> None:
        """Give a suspended task its other role; its stores stay open, with what they have.

        The record caches are emptied. From here on a restoration writes past them, so an entry that
        stayed would be older than the store below it (KAFKA-14172).

        Args:
            is_active: whether the task is an active one from now on, and no standby.

        Raises:
            ProcessorStateError: a store could not be committed.

        Source: Kafka, ProcessorStateManager#recycle.
        """
        if not self._config.defect("keeps-caches-when-recycled"):
            self._empty_caches()
        self.commit_stores(Closing.CLEAN)
        self.tell_contents("store.recycled")
        self.queues = self._new_queues()
        self._waiting, self._enforced, self.idling_since = {}, (), None
        self.commit_needed = self.commit_requested = False
        self._emit("task.recycled", is_active=is_active)
        self.become(TaskState.RESTORING)

    def _empty_caches(self) -> None:
        for holder in self.stores.values():
            if holder.cache is not None:
                holder.cache.entries().clear()

    def close(self, closing: Closing) -> None:
        """Close all stores of a suspended task.

        Entries that are still in a record cache belong to no commit, and must not reach a store.
        So the caches are emptied before the stores close, which would flush them.

        Args:
            closing: how the task ends, which decides whether the offsets are committed. A corrupted
                task forgets them.

        Raises:
            ProcessorStateError: a store failed. If the task is not closed cleanly, its stores are
                closed all the same, and another call closes the task.
        """
        self.corrupted |= closing is Closing.CORRUPTED
        self._empty_caches()
        self.commit_stores(closing)
        if closing is Closing.CLEAN:
            self.tell_contents("store.closing")
        self._close_stores(forgets_offsets=self._forgets_offsets(closing))
        self._emit("task.closed", closing=closing.name)
        self.commit_needed = self.commit_requested = False
        self.become(TaskState.CLOSED)

    def _forgets_offsets(self, closing: Closing) -> bool:
        """Whether the stores forget their offsets before they are closed.

        A store that is closed looks trustworthy if the process dies before the store is wiped.
        """
        is_doomed = wipes_after(self.traits, closing)
        if self._config.defect("keeps-offsets-of-doomed-stores"):
            is_doomed = False
        return is_doomed or closing is Closing.CORRUPTED

    def _close_stores(self, *, forgets_offsets: bool = False) -> None:
        holders, self.stores = list(self.stores.values()), {}
        forgotten = [partial(self._forget_offsets, each) for each in holders if forgets_offsets]
        # A store that cannot forget its offsets, or be closed, must not keep any store open.
        call_all([*forgotten, *(holder.store.close for holder in holders)])

    def _forget_offsets(self, holder: StoreHolder) -> None:
        try:
            holder.store.commit({})
        except UnsupportedOperationError:
            self.must_be_wiped = True

    # Restoring.

    def next_restored(self, changelog: str) -> int:
        """The offset after the last record that the store of a changelog has."""
        offset = self._holder(changelog).offset
        return 0 if offset is None else offset + 1

    def has_offset(self, changelog: str) -> bool:
        """Whether anybody knows how far the store of a changelog is."""
        return self._holder(changelog).offset is not None

    def apply(self, changelog: str, records: Iterable[LogEntry]) -> None:
        """Restore a batch of changelog records."""
        holder = self._holder(changelog)
        loses_times = self._config.defect("loses-timestamps-at-restoration")
        batch = [
            ChangelogRecord(
                each.key, each.value, each.offset, NO_TIMESTAMP if loses_times else each.timestamp
            )
            for each in records
        ]
        if batch:
            self._restore_callback(holder)(batch)
            holder.offset = batch[-1].offset
            self._emit(
                "store.restored", partition=changelog, offset=holder.offset, records=len(batch)
            )

    def _restore_callback(self, holder: StoreHolder) -> RestoreCallback:
        """What applies records to a store: our cache hears of them, and that of Kafka does not."""
        cache = holder.cache
        if cache is not None and self._config.defect("keeps-caches-when-recycled"):
            return cache.restore_below or holder.restore
        return holder.restore

    def _holder(self, changelog: str) -> StoreHolder:
        return next(each for each in self.stores.values() if each.changelog == changelog)

    # Processing.

    @property
    def stream_time(self) -> int:
        """The largest timestamp that the task has processed."""
        return self.queues.stream_time

    def store(self, name: str) -> KeyValueStore:
        """A store of the task or of the instance, for the processor.

        The store is guarded: a processor that committed it would vouch for records whose
        transaction may still be aborted, and one that closed it would end the task.
        """
        holder = self.stores.get(name)
        return self._global_stores[name] if holder is None else holder.guard

    def forward(
        self, topic: str, key: bytes, value: bytes | None, timestamp: int | None = None
    ) -> None:
        """Send a record to a topic."""
        if timestamp is None:
            timestamp = self._opened().record_timestamp
        # The topic of dead letters has one partition.
        partition = f"{topic}-{partition_for(key, self._config.partitions.get(topic, 1))}"
        is_output = topic != self._config.handlers.dead_letters
        if is_output and is_too_large(key, value, self._config.output_max_message_bytes):
            self._refuse(partition, key, value)
        else:
            self._sender().send(partition, key, value, timestamp)

    def _refuse(self, partition: str, key: bytes, value: bytes | None) -> None:
        """Leave an output record out that the brokers will never take, or end the thread."""
        size = len(key) + len(value or b"")
        self._emit("output.refused", partition=partition, key=key, size=size)
        leaves_out = is_left_out(self._config.handlers.production)
        if self._config.defect("swallows-production-errors"):
            leaves_out = True
        if not leaves_out or self._config.defect("fails-although-told-to-continue"):
            raise RecordRefusedError(
                f"A record of {size} bytes is too large for {partition}. Raise max.message.bytes, "
                "or let the production exception handler continue."
            )

    def schedule(self, interval_ms: int, kind: PunctuationType, punctuator: Punctuator) -> None:
        """Call a punctuator at each interval, as long as the task runs."""
        self.punctuations.schedule(interval_ms, kind, punctuator)

    def request_commit(self) -> None:
        """Ask for a commit."""
        self.commit_requested = True

    def defect(self, name: str) -> bool:
        """Whether an operator has to make this mistake."""
        return self._config.defect(name)

    def punctuate(self, now: int) -> bool:
        """Call the punctuators that are due, by stream time first; return whether any was."""
        by_stream_time = self.punctuate_stream_time()
        return self.punctuate_wall_clock(now) or by_stream_time

    def punctuate_stream_time(self) -> bool:
        """Call the punctuators that are due by stream time; return whether any was."""
        time = self.stream_time
        return time != NO_TIME and self._punctuate("stream time", time)

    def punctuate_wall_clock(self, now: int) -> bool:
        """Call the punctuators that are due by the clock of the host; return whether any was."""
        return self._punctuate("wall-clock time", now)

    def _punctuate(self, kind: PunctuationType, now: int) -> bool:
        if self.state is not TaskState.RUNNING:
            return False
        punctuated = False
        for punctuator, interval_ms in self.punctuations.due(kind, now):
            # A punctuation has no input record: its writes get its own time (Kafka: punctuate()).
            context = self._opened()
            context.record_metadata, context.record_timestamp = None, now
            self._emit("task.punctuated", clock=kind, timestamp=now, interval_ms=interval_ms)
            punctuator(now)
            punctuated = True
            self.commit_needed |= not self._config.defect("forgets-punctuations")
        return punctuated

    def process(self, now: int) -> bool:
        """Process the next record, if the task is ready; return whether it did."""
        if self.state is not TaskState.RUNNING:
            return False
        readiness = self.queues.readiness(now)
        self._note(readiness, now)
        taken = self.queues.next_record() if readiness.ready else None
        self.found_nothing = taken is None
        if taken is None:
            return False
        partition, record = taken
        if self.queues.is_refused(partition, record.offset):
            reason = self._reason_to_drop(record)
            if reason:
                self._drop(partition, record, reason)
                return True
        topic, _, number = partition.rpartition("-")
        context = self._opened()
        context.record_metadata = RecordMetadata(topic, int(number), record.offset)
        wall_clock = self._config.defect("stamps-rows-with-the-wall-clock")
        context.record_timestamp = now if wall_clock else record.timestamp
        if self._metrics is not None:
            self._metrics.lateness.record(self.stream_time - record.timestamp)
        self._emit(
            "task.processed",
            partition=partition,
            offset=record.offset,
            timestamp=record.timestamp,
            others=self.queues.others(partition),
            clock=now,
        )
        self.spec.subtopology.process(self, topic, record)
        self._consumed[partition] = record.offset
        self.commit_needed = True
        return True

    def _reason_to_drop(self, record: LogEntry) -> str:
        """Why a record is left out; empty if it is to be processed."""
        reason = self._config.handlers.reason_to_drop(record)
        is_taken = reason == "timestamp" and self._config.defect("takes-invalid-timestamps")
        return "" if is_taken else reason

    def _drop(self, partition: str, record: LogEntry, reason: str) -> None:
        """Leave a record out: its offset counts as processed, and a dead letter may tell of it."""
        self._emit("record.dropped", partition=partition, offset=record.offset, reason=reason)
        dead_letters = self._config.handlers.dead_letters
        if dead_letters and not self._config.defect("loses-dead-letters"):
            self.forward(dead_letters, record.key, record.value, max(record.timestamp, 0))
        self._consumed[partition] = record.offset
        self.commit_needed = True
        if self._config.defect("drops-what-follows"):
            self.queues.drop(partition)

    def _note(self, found: Readiness, now: int) -> None:
        """Emit changes of the inputs that the task waits for, and of those it does without."""
        if found.ready:
            self.idling_since = None
        elif self.idling_since is None:
            self.idling_since = now
        # A task without buffered records waits for any record, and for no input in particular.
        waiting = found.waiting if found.waiting and self.queues.total_buffered() else {}
        if waiting != self._waiting:
            self._waiting = waiting
            if waiting:
                self._emit("task.waiting", waiting=waiting)
        enforced = found.enforced if found.ready else ()
        if enforced and self._metrics is not None:
            self._metrics.enforced.record()
        if enforced != self._enforced:
            self._enforced = enforced
            if enforced:
                self._emit("task.enforced", inputs=enforced)

    # Committing.

    @property
    def consumed(self) -> dict[str, int]:
        """The offset of the last processed record, by partition."""
        return dict(self._consumed)

    def committable_offsets(self, positions: Mapping[str, int | None]) -> dict[str, int]:
        """The offsets of the inputs to commit.

        Args:
            positions: the positions of the consumer.
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

    def committable_times(self) -> dict[str, int]:
        """The times that the inputs have reached, to be committed beside the offsets.

        Without them stream time would restart with each owner of the task, and a record that was
        too late for one owner would be in time for the next (KAFKA-7994).
        """
        times = self.queues.partition_times
        return {partition: time for partition, time in times.items() if time != NO_TIME}

    def has_passed_markers(self, positions: Mapping[str, int | None]) -> bool:
        """Whether a position is beyond the last record, so that it has to be committed, too.

        A task that has not processed anything since it began may have passed markers as well. Kafka
        asks only about inputs with processed records: there a committed offset stays before an
        aborted transaction at the end of an input, until another record comes (KAFKA-6607).
        """
        for partition in self.spec.inputs:
            consumed, known = self._consumed.get(partition), self._committed.get(partition)
            if consumed is None and known is not None:
                consumed = known - 1
            position = positions.get(partition)
            is_empty = self.queues.head_offset(partition) is None
            if is_empty and position != known and needs_commit(consumed, position):
                return True
        return False

    def flush_caches(self) -> None:
        """Write the entries of the record caches to the stores, and send them on.

        Call this before the producer is flushed: otherwise the committed offsets would not cover
        these writes (Kafka: ProcessorStateManager#flushCache).
        """
        for holder in self.stores.values():
            if holder.cache is not None:
                holder.cache.flush_cache()

    def note_written(self) -> None:
        """Note the changelog offsets that the brokers have confirmed."""
        # A store that is restored from an input reflects the input up to the last processed record.
        written = {**self._sender().written, **self._consumed}
        for holder in self.stores.values():
            offset = written.get(holder.changelog)
            if offset is not None and (holder.offset is None or offset > holder.offset):
                holder.offset = offset

    def commit_stores(self, closing: Closing) -> None:
        """Commit the offsets to the stores, if the rules say so."""
        if commits_after(self.traits, closing):
            for name in self.stores:
                self.commit_store(name)

    def commit_store(self, name: str) -> None:
        """Commit the offset of one store to it."""
        holder = self.stores[name]
        offset = OFFSET_UNKNOWN if holder.offset is None else holder.offset
        holder.store.commit({topic_partition(holder.changelog): offset})
        self._emit("store.committed", partition=holder.changelog, offset=max(offset, -1))

    def begin_at(self, offsets: Mapping[str, int]) -> None:
        """Note the committed offsets that the inputs are read from."""
        self._committed |= offsets

    def committed(self, offsets: Mapping[str, int] | None = None) -> None:
        """Note that a commit is done, which included these offsets of inputs."""
        known = offsets or {}
        self._committed |= {each: known[each] for each in self.spec.inputs if each in known}
        self.commit_needed = self.commit_requested = False

    def uncommitted(self) -> Uncommitted:
        """How many records and bytes the stores have staged.

        A store that cannot count (-1) counts as 0, so that it takes nothing from the others.
        """
        stores = [each.store for each in self.stores.values()]
        return Uncommitted(
            sum(max(each.approximate_num_uncommitted_entries(), 0) for each in stores),
            sum(max(each.approximate_num_uncommitted_bytes(), 0) for each in stores),
        )

    def _log(self, store: str, key: bytes, value: bytes | None, timestamp: int) -> None:
        changelog = self.spec.changelogs[store]
        self._emit("store.put", partition=changelog, key=key, value=value)
        if changelog not in self.spec.inputs:
            self._sender().send(changelog, key, value, timestamp)
        sink = self.spec.subtopology.forwarded.get(store)
        if sink is not None:
            self.forward(sink, key, value, timestamp)

    def tell_contents(self, kind: str) -> None:
        """Emit the content of all stores, so that invariants can compare it with the logs."""
        for holder in self.stores.values():
            contents, timestamps = holder.contents()
            offset = -1 if holder.offset is None else holder.offset
            self._emit(
                kind,
                partition=holder.changelog,
                offset=offset,
                rows=contents,
                timestamps=timestamps,
                is_input=holder.changelog in self.spec.inputs,
                position=position_of(holder.database),
            )

    def _sender(self) -> Producer:
        if self._producer is None:
            raise InvalidStateStoreError(f"Task {self.id} is not open.")
        return self._producer

    def _opened(self) -> StateStoreContext:
        if self._context is None:
            raise InvalidStateStoreError(f"Task {self.id} is not open.")
        return self._context
