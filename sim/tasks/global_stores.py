"""Global stores: tables that every instance reads as a whole, before its tasks run and ever after.

No task ever writes to them, so that a global store needs no changelog: its topic is the changelog.
A global store commits the offsets of all partitions of the topic, and a later process reads on from
there. A store in memory, and one that must be wiped, reads its topic from the start.

Under exactly-once, a store that stages nothing and was not closed cannot be trusted. It is wiped
when it is opened. Kafka 4.4 does not do so, and each start of the process fails (KAFKA-21034). If
the topic has lost the next record, the stores are wiped, and the process ends: whoever looks after
it starts it again (KAFKA-10306).

Sources: KIP-99; KIP-1035, StateStore#commit; Kafka, GlobalStreamThread, GlobalStateManagerImpl and
GlobalStateUpdateTask.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import suppress
from typing import Any

from simpy.events import Event

from streamproof.sim.actor_hosts import Host, Steps
from streamproof.sim.broker_errors import OffsetOutOfRangeError, RequestTimeoutError
from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.brokers.partition_log import Isolation, LogEntry
from streamproof.sim.clients.consumer import Consumer, Polled
from streamproof.sim.network import Network
from streamproof.sim.state_directory import GLOBAL_STORES, StateDirectory
from streamproof.sim.tasks.store_holder import topic_partition
from streamproof.sim.world import World
from streamproof.stores.api import ChangelogRecord, KeyValueStore
from streamproof.stores.checkpoint import OFFSET_UNKNOWN
from streamproof.stores.errors import ProcessorStateError, TaskCorruptedError

__all__ = ["POLL_MS", "GlobalTable"]

POLL_MS = 100
"""``poll.ms``: how long a poll waits for records."""


class GlobalTable:
    """The global stores of one process. They begin to read at once.

    Args:
        world: the world.
        host: the process.
        network: the way to the brokers.
        cluster: the brokers.
        topics: by store, the topic that fills it.
        disk: the state directory of the process.
        commit_interval_ms: how long the stores may go without a commit.
        isolation: ``read_committed`` under exactly-once, so that nothing of an aborted transaction
            gets into a store (KAFKA-6782).
        flush_probability: the probability that the stores are flushed after a batch.
        fail: ends the process, because its global stores cannot go on.

    Attributes:
        stores: the stores by name, to be read only.
        restored: an event that happens once the stores have everything that was committed at the
            start. No task may run before.

    Raises:
        ProcessorStateError: the files of a store cannot be used.
    """

    def __init__(
        self,
        world: World,
        host: Host,
        network: Network,
        cluster: Cluster,
        topics: Mapping[str, str],
        *,
        disk: StateDirectory,
        commit_interval_ms: int,
        isolation: Isolation,
        flush_probability: float = 0.0,
        fail: Callable[[], None] = lambda: None,
    ) -> None:
        self._world = world
        self._host = host
        self._network = network
        self._cluster = cluster
        if world.defect("global-table-reads-aborted"):
            isolation = "read_uncommitted"
        self._isolation: Isolation = isolation
        self._actor = f"{host.name}/global"
        self._disk = disk
        self._fail = fail
        self._flush_probability = flush_probability
        self._context = disk.context(GLOBAL_STORES)
        self._partitions = {
            partition: store
            for store, topic in topics.items()
            for partition in cluster.partitions_of(topic)
        }
        self._consumer = Consumer(world, host, network, cluster, isolation=isolation)
        self._commit_interval_ms = commit_interval_ms
        self._last_commit = host.now
        # By partition, the offset of the last record that its store has.
        self._offsets: dict[str, int] = {}
        self._is_dirty = False
        self.stores: dict[str, KeyValueStore] = {}
        self._open(topics)
        self.restored: Event = world.time.event()
        host.start(self._run())

    def _open(self, names: Iterable[str]) -> None:
        """Open all stores; wipe them first if one of them cannot be trusted."""
        self._disk.lock(GLOBAL_STORES, self._actor)
        try:
            self._open_each(names)
        except TaskCorruptedError as error:
            self._close_stores()
            if self._world.defect("keeps-unclean-global-stores"):
                raise ProcessorStateError(str(error)) from error
            self._world.marks.sometimes("a global store that was not closed was read anew")
            self._wipe("it was not closed")
            self._open_each(names)
        for partition, name in self._partitions.items():
            store = self.stores[name]
            offset = store.committed_offset(topic_partition(partition))
            if offset is not None and offset != OFFSET_UNKNOWN:
                self._offsets[partition] = offset
            self._world.trace.emit(
                "global.opened",
                self._actor,
                partition=partition,
                offset=self._offsets.get(partition, -1),
                store=name,
                persistent=store.persistent,
            )

    def _wipe(self, reason: str) -> None:
        self._disk.wipe(GLOBAL_STORES)
        self._world.trace.emit("global.wiped", self._actor, reason=reason)

    def _open_each(self, names: Iterable[str]) -> None:
        for name in names:
            self.stores[name] = self._disk.make_global_store(name)
            self.stores[name].init(self._context, self.stores[name])

    def close(self) -> None:
        """Commit and close all stores. A disk without space leaves them as after a crash."""
        with suppress(ProcessorStateError):
            for name in self.stores:
                self._commit_store(name)
        self._close_stores()
        self._disk.unlock(GLOBAL_STORES, self._actor)

    def _close_stores(self) -> None:
        for store in self.stores.values():
            with suppress(ProcessorStateError):
                store.close()

    def _run(self) -> Steps:
        ends = yield from self._find_ends()
        self._consumer.assign(self._partitions)
        for partition in self._partitions:
            known = self._offsets.get(partition)
            start = self._cluster.logs[partition].log_start if known is None else known + 1
            self._consumer.seek(partition, start)
        while True:
            polled = yield from self._poll()
            if polled is None:
                return
            for partition, records in polled.records.items():
                self._apply(partition, records)
            if polled.records and not self._maybe_flush():
                return
            # The position decides, not the last record: markers may come after it (KAFKA-12951).
            positions = {each: self._consumer.position(each) for each in ends}
            if not self.restored.triggered and all(
                (positions[each] or 0) >= end for each, end in ends.items()
            ):
                self._tell_restored()
                self.restored.succeed()
            yield from self._maybe_commit()

    def _find_ends(self) -> Generator[Event, Any, dict[str, int]]:
        """Ask for the ends of the committed records, until an answer comes."""
        logs, committed = self._cluster.logs, self._isolation == "read_committed"
        while True:
            try:
                ends: dict[str, int] = yield from self._network.call(
                    self._host,
                    "list offsets",
                    lambda: {
                        each: logs[each].last_stable_offset if committed else logs[each].end
                        for each in self._partitions
                    },
                )
            except RequestTimeoutError:
                continue
            return ends

    def _maybe_flush(self) -> bool:
        """Fill the memory of the stores from time to time; return whether they could be written."""
        if not self._world.choices.chance(self._flush_probability):
            return True
        try:
            self.flush()
        except ProcessorStateError:
            # The disk is full: Kafka's global thread ends, and its client with it.
            self._fail()
            return False
        return True

    def flush(self) -> None:
        """Let all stores write their memory to the disk, as when their buffers are full.

        Raises:
            ProcessorStateError: the disk is full.
        """
        for name, store in self.stores.items():
            self._disk.fill_memtable(store)
            partitions = [each for each, owner in self._partitions.items() if owner == name]
            self._world.trace.emit(
                "global.flushed", self._actor, store=name, partitions=sorted(partitions)
            )

    def _tell_restored(self) -> None:
        """Emit the rows and offsets of all stores, so that invariants can compare them."""
        rows = {}
        for name, store in self.stores.items():
            with store.all() as entries:
                rows[name] = [[key, value] for key, value in entries]
        self._world.trace.emit(
            "global.restored", self._actor, rows=rows, offsets=dict(sorted(self._offsets.items()))
        )

    def _poll(self) -> Generator[Event, Any, Polled | None]:
        """The next records; ``None`` if the log lacks the position, and the process ends."""
        while True:
            try:
                polled: Polled = yield from self._consumer.poll(POLL_MS)
            except OffsetOutOfRangeError as error:
                self._world.marks.sometimes("the topic of a global store had lost its next record")
                if self._world.defect("global-store-skips-a-gap"):
                    partition = error.args[1]
                    self._consumer.seek(partition, self._cluster.logs[partition].log_start)
                    continue
                self._close_stores()
                self._wipe("its next record is gone")
                self._fail()
                return None
            return polled

    def _maybe_commit(self) -> Steps:
        """Commit all stores, if it is time. A disk without space may have some the next time."""
        now = self._host.now
        if not self._is_dirty or now - self._last_commit <= self._commit_interval_ms:
            return
        self._last_commit = now
        with suppress(ProcessorStateError):
            for name in self.stores:
                yield self._world.time.timeout(self._disk.delay_ms)
                self._commit_store(name)
            self._is_dirty = False

    def _commit_store(self, name: str) -> None:
        """Commit all partitions of a store at once: one commit, one moment for a crash."""
        offsets = {
            partition: offset
            for partition, offset in self._offsets.items()
            if self._partitions[partition] == name
        }
        if offsets:
            self.stores[name].commit({topic_partition(each): at for each, at in offsets.items()})
            self._world.trace.emit("global.committed", self._actor, store=name, offsets=offsets)

    def _apply(self, partition: str, records: list[LogEntry]) -> None:
        store = self._partitions[partition]
        self._context.restore_callbacks[store](
            [ChangelogRecord(each.key, each.value, each.offset, each.timestamp) for each in records]
        )
        self._offsets[partition] = records[-1].offset
        self._is_dirty = True
        self._world.trace.emit(
            "global.applied",
            self._actor,
            partition=partition,
            offset=records[-1].offset,
            store=store,
            records=len(records),
        )
