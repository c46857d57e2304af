"""A producer outside of the application: it fills inputs, in transactions or without.

Its records reach the brokers at once, and exactly once, so that the run knows which records the
application had to process. The producer tries again while a coordinator is away.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from simpy.events import Event

from streamproof.sim.actor_hosts import Steps
from streamproof.sim.broker_errors import (
    ConcurrentTransactionsError,
    CoordinatorNotAvailableError,
    InvalidPidMappingError,
)
from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.brokers.transaction_coordinator import ProducerIdentity
from streamproof.sim.world import World

__all__ = ["TRANSACTION_TIMEOUT_MS", "OutsideProducer"]

T = TypeVar("T")

TRANSACTION_TIMEOUT_MS = 60_000
"""``transaction.timeout.ms``, as producers have it; no transaction here takes that long."""

_RETRY_MS = 20
"""The pause before it tries again to begin a transaction, in milliseconds."""


class OutsideProducer:
    """A producer outside of the application.

    Args:
        world: the world.
        cluster: the brokers.
        transactional_id: the transactional id of the producer.
    """

    def __init__(self, world: World, cluster: Cluster, transactional_id: str) -> None:
        self._world = world
        self._cluster = cluster
        self._transactional_id = transactional_id
        self._identity = ProducerIdentity(-1, -1)
        self._sequences: dict[str, int] = {}

    def begin(self) -> Steps:
        """Become a new producer, with a new identity."""
        self._sequences.clear()
        self._identity = yield from self._insist(
            lambda: self._cluster.init_producer(self._transactional_id, TRANSACTION_TIMEOUT_MS)
        )

    def send(self, partition: str, key: bytes, value: bytes | None, timestamp: int) -> int:
        """Send a record without a transaction; return its offset."""
        record = {"key": key, "value": value, "timestamp": timestamp}
        (offset,) = self._cluster.produce(partition, [record])
        return offset

    def send_in_transaction(
        self, partition: str, key: bytes, value: bytes | None, timestamp: int
    ) -> Generator[Event, Any, int]:
        """Send a record in the open transaction, or in a new one; return its offset."""
        try:
            yield from self._add(partition)
        except InvalidPidMappingError:
            # The brokers forget a silent producer after a while; it then needs a new identity.
            yield from self.begin()
            yield from self._add(partition)
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = sequence + 1
        record = {
            "key": key,
            "value": value,
            "timestamp": timestamp,
            "producer": self._identity.producer,
            "epoch": self._identity.epoch,
            "sequence": sequence,
            "transactional": True,
        }
        (offset,) = self._cluster.produce(partition, [record])
        return offset

    def end(self, *, commit: bool) -> Steps:
        """Commit or abort the open transaction."""
        identity = self._identity
        yield from self._insist(
            lambda: self._cluster.end_transaction(self._transactional_id, identity, commit=commit)
        )

    def _add(self, partition: str) -> Steps:
        """Take a partition into the transaction."""
        yield from self._insist(
            lambda: self._cluster.add_partitions(
                self._transactional_id, self._identity, [partition]
            )
        )

    def _insist(self, ask: Callable[[], T]) -> Generator[Event, Any, T]:
        """Ask until the coordinator is back, and has completed the transaction before."""
        while True:
            try:
                return ask()
            except (ConcurrentTransactionsError, CoordinatorNotAvailableError):
                yield self._world.time.timeout(_RETRY_MS)
