"""Global stores: tables that every instance reads as a whole, before its tasks run and ever after.

They are in memory, and each process reads their topics from the start. No task ever writes to them,
so that a global store needs no changelog: its topic is the changelog.

Sources: KIP-99; Kafka, GlobalStreamThread, GlobalStateManagerImpl and GlobalStateUpdateTask.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

from simpy.events import Event

from streamproof.sim.actor_hosts import Host, Steps
from streamproof.sim.broker_errors import OffsetOutOfRangeError, RequestTimeoutError
from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.brokers.partition_log import Isolation, LogEntry
from streamproof.sim.clients.consumer import Consumer, Polled
from streamproof.sim.network import Network
from streamproof.sim.world import World
from streamproof.stores.api import ChangelogRecord, KeyValueStore, StateStoreContext
from streamproof.stores.memory import InMemoryKeyValueStore

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
        isolation: ``read_committed`` under exactly-once, so that nothing of an aborted transaction
            gets into a store (KAFKA-6782).

    Attributes:
        stores: the stores by name, to be read only.
        restored: an event that happens once the stores have everything that was committed at the
            start. No task may run before.
    """

    def __init__(
        self,
        world: World,
        host: Host,
        network: Network,
        cluster: Cluster,
        topics: Mapping[str, str],
        *,
        isolation: Isolation,
    ) -> None:
        self._world = world
        self._host = host
        self._network = network
        self._cluster = cluster
        if world.defect("global-table-reads-aborted"):
            isolation = "read_uncommitted"
        self._isolation: Isolation = isolation
        self._actor = f"{host.name}/global"
        self._context = StateStoreContext(state_dir=Path(host.name, "global"), task_id="global")
        self._partitions = {
            partition: store
            for store, topic in topics.items()
            for partition in cluster.partitions_of(topic)
        }
        self._consumer = Consumer(world, host, network, cluster, isolation=isolation)
        self.stores: dict[str, KeyValueStore] = {}
        for name in topics:
            self.stores[name] = InMemoryKeyValueStore(name)
            self.stores[name].init(self._context, self.stores[name])
        self.restored: Event = world.time.event()
        host.start(self._run())

    def _run(self) -> Steps:
        ends = yield from self._find_ends()
        self._consumer.assign(self._partitions)
        for partition in self._partitions:
            self._consumer.seek(partition, self._cluster.logs[partition].log_start)
        while True:
            polled = yield from self._poll()
            for partition, records in polled.records.items():
                self._apply(partition, records)
            # The position decides, not the last record: markers may come after it (KAFKA-12951).
            positions = {each: self._consumer.position(each) for each in ends}
            if not self.restored.triggered and all(
                (positions[each] or 0) >= end for each, end in ends.items()
            ):
                self._world.trace.emit("global.restored", self._actor)
                self.restored.succeed()

    def _find_ends(self) -> Generator[Event, Any, dict[str, int]]:
        """Ask for the ends of the committed records, until an answer comes."""
        logs, committed = self._cluster.logs, self._isolation == "read_committed"
        while True:
            try:
                ends: dict[str, int] = yield from self._network.call(
                    self._host.name,
                    "list offsets",
                    lambda: {
                        each: logs[each].last_stable_offset if committed else logs[each].end
                        for each in self._partitions
                    },
                )
            except RequestTimeoutError:
                continue
            return ends

    def _poll(self) -> Generator[Event, Any, Polled]:
        """The next records. Where the log lacks the position, go on at its start (KAFKA-10306)."""
        while True:
            try:
                polled: Polled = yield from self._consumer.poll(POLL_MS)
            except OffsetOutOfRangeError as error:
                partition = error.args[1]
                self._consumer.seek(partition, self._cluster.logs[partition].log_start)
                continue
            return polled

    def _apply(self, partition: str, records: list[LogEntry]) -> None:
        store = self._partitions[partition]
        self._context.restore_callbacks[store](
            [ChangelogRecord(each.key, each.value, each.offset, each.timestamp) for each in records]
        )
        self._world.trace.emit(
            "global.applied",
            self._actor,
            partition=partition,
            offset=records[-1].offset,
            store=store,
            records=len(records),
        )
