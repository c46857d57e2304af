"""Upkeep by the brokers: they compact logs, delete old records, and fail over.

Each of these is a fault site, so a world without faults has no upkeep.

Sources: Kafka, LogCleaner and LogManager (cleanup.policy, delete.retention.ms, retention.ms,
segment.ms);
GroupCoordinator and TransactionCoordinator, which move to another broker when theirs fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from streamproof.errors import UsageError
from streamproof.sim.actor_hosts import Steps
from streamproof.sim.brokers.committed_offsets import CommittedOffsets
from streamproof.sim.brokers.partition_log import DELETE_RETENTION_MS, PartitionLog
from streamproof.sim.brokers.transaction_coordinator import TransactionCoordinator
from streamproof.sim.world import World

__all__ = [
    "CLEANER_BACKOFF_MS",
    "RETENTION_CHECK_MS",
    "TopicConfig",
    "clean_up",
    "delete_what_is_old",
    "fail_over",
    "forget_idle_transactions",
    "stall",
]

CLEANER_BACKOFF_MS = 15_000
"""``log.cleaner.backoff.ms``: how often the cleaner looks for something to compact."""

RETENTION_CHECK_MS = 10_000
"""The time between two deletions; Kafka: ``log.retention.check.interval.ms``, 5 minutes."""

_FAIL_OVER_CHECK_MS = 5_000
"""The time between two chances of a coordinator to fail."""

_LEAST_AWAY_MS = 500
_MOST_AWAY_MS = 8_000
"""The bounds of a failover: shorter than any session or transaction."""

_STALL_CHECK_MS = 5_000
"""The time between two chances of a broker to stall."""

_MOST_STALLED_MS = 15_000
"""The longest stall: longer than a client waits that is impatient, and than a transaction."""

_IDLE_CHECK_MS = 1_000
"""The time between two searches for idle transactional ids."""

_IDLE_MS = 2_000
"""The time without use after which a transactional id may expire; Kafka: 7 days."""

_KEPT_FOREVER = -1


@dataclass(frozen=True)
class TopicConfig:
    """How long the records of a topic are kept.

    Attributes:
        compacted: ``cleanup.policy`` has ``compact``: of each key, only the last record stays.
        retention_ms: ``retention.ms``, with ``delete`` in ``cleanup.policy``: the age in
            milliseconds at which records are deleted; -1 keeps them.
        delete_retention_ms: ``delete.retention.ms``: the least time that a tombstone stays, in
            milliseconds. A store that was away for longer misses the tombstone, and keeps the
            deleted entry.
        segment_ms: ``segment.ms``: how long a segment is written to, in milliseconds. Only whole
            segments are deleted, and the last one is not compacted. With 0, a segment may end
            after any record, as it does when it is large enough.
    """

    compacted: bool = False
    retention_ms: int = _KEPT_FOREVER
    delete_retention_ms: int = DELETE_RETENTION_MS
    segment_ms: int = 0

    def __post_init__(self) -> None:
        if self.retention_ms < _KEPT_FOREVER:
            raise UsageError(
                f"retention.ms is {self.retention_ms}; give milliseconds from 0, or -1 to keep "
                "everything."
            )
        for name in ("delete_retention_ms", "segment_ms"):
            if getattr(self, name) < 0:
                raise UsageError(
                    f"{name.replace('_', '.')} is {getattr(self, name)}; give milliseconds from 0."
                )


class Brokers(Protocol):
    """The part of a cluster that upkeep works on; the cluster itself starts the upkeep."""

    logs: dict[str, PartitionLog]
    transactions: TransactionCoordinator
    groups_are_away: bool
    stalls: dict[int, int]

    @property
    def groups(self) -> Mapping[str, CommittedOffsets]:
        """The groups, by name."""
        ...

    def partitions_of(self, topic: str) -> list[str]:
        """The names of the partitions of a topic."""
        ...

    def markers_due(self) -> None:
        """Write the markers of decided transactions."""
        ...


def clean_up(
    world: World, cluster: Brokers, configs: Mapping[str, TopicConfig], backoff_ms: int
) -> Steps:
    """Compact logs now and then, each up to a drawn offset. The last record always stays."""
    while True:
        yield world.time.timeout(backoff_ms)
        for name, log, config in _configured(cluster, configs):
            if not config.compacted or not world.faults.happens("broker.compacted", name):
                continue
            before = log.end - world.choices.below(max(log.end - log.log_start, 1))
            if config.segment_ms:
                before = max(before, log.active_segment(config.segment_ms))
            removed = log.compact(
                now=world.now, delete_retention_ms=config.delete_retention_ms, before=before
            )
            world.marks.sometimes("a changelog was compacted", holds=removed > 0)
            world.trace.emit(
                "log.compacted", "brokers", partition=name, offset=before, removed=removed
            )


def delete_what_is_old(world: World, cluster: Brokers, configs: Mapping[str, TopicConfig]) -> Steps:
    """Delete records beyond the retention of their topic, committed or not."""
    while True:
        yield world.time.timeout(RETENTION_CHECK_MS)
        for name, log, config in _configured(cluster, configs):
            if config.retention_ms == _KEPT_FOREVER:
                continue
            if not world.faults.happens("broker.retention", name):
                continue
            start = log.first_kept(world.now - config.retention_ms, config.segment_ms)
            if start > log.log_start:
                log.delete_before(start)
                what = "a changelog" if config.compacted else "an input or an output"
                world.marks.sometimes(f"old records of {what} were deleted")
                world.trace.emit(
                    "log.deleted", "brokers", partition=name, offset=start, reason="retention"
                )


def _configured(
    cluster: Brokers, configs: Mapping[str, TopicConfig]
) -> Iterator[tuple[str, PartitionLog, TopicConfig]]:
    for topic in sorted(configs):
        for name in cluster.partitions_of(topic):
            yield name, cluster.logs[name], configs[topic]


def fail_over(world: World, cluster: Brokers) -> Steps:
    """Take a coordinator away for a while, as if another broker had to load its state.

    Meanwhile the coordinator refuses requests, and clients try again. Decided transactions go on
    afterwards.
    """
    while True:
        yield world.time.timeout(_FAIL_OVER_CHECK_MS)
        if not world.faults.happens("broker.failed_over"):
            continue
        transactions = world.choices.chance(0.5)
        what = "transactions" if transactions else "groups"
        world.trace.emit("coordinator.away", "brokers", what=what)
        _set_away(cluster, world.now, transactions=transactions, away=True)
        yield world.time.timeout(world.choices.between(_LEAST_AWAY_MS, _MOST_AWAY_MS))
        world.trace.emit("coordinator.back", "brokers", what=what)
        _set_away(cluster, world.now, transactions=transactions, away=False)
        cluster.markers_due()


def _set_away(cluster: Brokers, now: int, *, transactions: bool, away: bool) -> None:
    if transactions:
        cluster.transactions.is_away = away
    else:
        cluster.groups_are_away = away
        for group in cluster.groups.values():
            group.is_away = away
            # Members could not reach the coordinator, so their silence must not count against
            # their sessions.
            group.hear_of_all(now)


def forget_idle_transactions(world: World, cluster: Brokers) -> Steps:
    """Let the transactional id of an idle producer expire (KAFKA-16699).

    The coordinator refuses the next request of the producer, as if another producer had fenced it.
    """
    while True:
        yield world.time.timeout(_IDLE_CHECK_MS)
        for name in cluster.transactions.idle_since(world.now - _IDLE_MS):
            if world.faults.happens("broker.transactional_id_expired", name):
                cluster.transactions.forget(name)
                world.marks.sometimes("a transactional id expired")
                world.trace.emit("transaction.id_expired", "brokers", transactional_id=name)


def stall(world: World, cluster: Brokers, count: int) -> Steps:
    """Let a broker stand still for a while, with all requests that write to its partitions.

    The requests are carried out afterwards, also those that their senders have given up (KIP-890).

    Args:
        world: the world.
        cluster: the brokers.
        count: how many brokers there are.
    """
    while True:
        yield world.time.timeout(_STALL_CHECK_MS)
        if not world.faults.happens("broker.stalled"):
            continue
        broker = world.choices.below(count)
        lasts_ms = world.choices.between(1, _MOST_STALLED_MS)
        cluster.stalls[broker] = world.now + lasts_ms
        world.trace.emit("broker.stalled", "brokers", broker=broker, lasts_ms=lasts_ms)
        yield world.time.timeout(lasts_ms)
        del cluster.stalls[broker]
