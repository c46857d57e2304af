"""The purge of repartition topics: their committed records are not needed any more.

Only *committed* records may go: a record that was only consumed is read again after a crash
(KAFKA-17635).

Sources: KIP-204; Kafka, TaskManager#maybePurgeCommittedRecords.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from streamproof.sim.actor_hosts import Host, Steps
from streamproof.sim.broker_errors import BrokerError
from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.network import Network
from streamproof.sim.world import World

__all__ = ["REPARTITION_PURGE_INTERVAL_MS", "Purge"]

REPARTITION_PURGE_INTERVAL_MS = 30_000
"""``repartition.purge.interval.ms``."""


class Purge:
    """Deletes the committed records of repartition topics from time to time, for one thread.

    Args:
        world: the world.
        host: the process of the thread.
        network: the way to the brokers.
        cluster: the brokers.
        topics: the repartition topics; records of other topics are never deleted.
        interval_ms: the least time between two purges, in milliseconds.
    """

    def __init__(
        self,
        world: World,
        host: Host,
        network: Network,
        cluster: Cluster,
        topics: Collection[str],
        *,
        interval_ms: int = REPARTITION_PURGE_INTERVAL_MS,
    ) -> None:
        self._world = world
        self._host = host
        self._network = network
        self._cluster = cluster
        self._partitions = frozenset(
            partition for topic in topics for partition in cluster.partitions_of(topic)
        )
        self._interval_ms = interval_ms
        self._last = host.now
        self._is_waiting = False
        self._purgeable: dict[str, int] = {}

    def committed(self, offsets: Mapping[str, int]) -> None:
        """Note committed offsets of inputs: the records before them may go."""
        for partition, offset in offsets.items():
            if partition in self._partitions:
                self._purgeable[partition] = offset

    def maybe_purge(self) -> None:
        """Ask for a purge if it is time, and if the purge before was answered."""
        now = self._host.now
        if self._is_waiting or not self._purgeable or now - self._last <= self._interval_ms:
            return
        self._last, self._is_waiting = now, True
        offsets, self._purgeable = self._purgeable, {}
        self._host.start(self._purge(offsets))

    def _purge(self, offsets: Mapping[str, int]) -> Steps:
        def delete() -> int:
            before = sum(self._cluster.logs[each].log_start for each in offsets)
            after = sum(self._cluster.delete_records(each, offsets[each]) for each in offsets)
            return after - before

        try:
            deleted = yield from self._network.call(self._host, "delete records", delete)
            self._world.marks.sometimes(
                "committed records of a repartition topic were deleted", holds=deleted > 0
            )
        except BrokerError:
            # A lost request costs space alone: the next purge takes these records, too.
            pass
        self._is_waiting = False
