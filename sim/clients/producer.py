"""The producer: idempotent, and transactional if it has a transactional id.

Records are sent in the background, a little after they were handed in, and again until they
arrive: so what belongs to a transaction is in the logs before anybody decides about it.

Sources: KIP-98, KIP-447; Kafka, KafkaProducer, TransactionManager.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, TypeVar

from simpy.events import Event

from streamproof.sim.broker_errors import (
    BrokerError,
    ConcurrentTransactionsError,
    InvalidTxnStateError,
    RequestTimeoutError,
)
from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.brokers.group_coordinator import NO_TIMES
from streamproof.sim.brokers.transaction_coordinator import ProducerIdentity
from streamproof.sim.hosts import Host, Steps
from streamproof.sim.network import Network
from streamproof.sim.world import World

__all__ = ["LINGER_MS", "MAX_BLOCK_MS", "TRANSACTION_TIMEOUT_MS", "Producer"]

LINGER_MS = 100
"""``linger.ms``, as Kafka Streams sets it: how long records are gathered before they are sent."""

TRANSACTION_TIMEOUT_MS = 10_000
"""``transaction.timeout.ms``, as Kafka Streams sets it."""

MAX_BLOCK_MS = 60_000
"""``max.block.ms``: how long a call tries again before it gives up."""

_RETRY_MS = 20
"""The pause before a request is sent again, in milliseconds."""

T = TypeVar("T")


class Producer:
    """A producer of one thread.

    Args:
        world: the world.
        host: whose it is.
        network: the way to the brokers.
        cluster: the brokers.
        transactional_id: empty for a producer without transactions.
        transaction_timeout_ms: how long a transaction may take, in milliseconds.
        max_block_ms: how long a request is sent again before it is given up, in milliseconds.

    Attributes:
        written: by partition, the offset of the last record that the brokers have confirmed.
        in_transaction: whether a transaction was begun, and not ended.
        error: what the background sender was refused with; every later call raises it.
    """

    def __init__(
        self,
        world: World,
        host: Host,
        network: Network,
        cluster: Cluster,
        *,
        transactional_id: str = "",
        transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        max_block_ms: int = MAX_BLOCK_MS,
    ) -> None:
        self._world = world
        self._host = host
        self._network = network
        self._cluster = cluster
        self._transactional_id = transactional_id
        self._transaction_timeout_ms = transaction_timeout_ms
        self._max_block_ms = max_block_ms
        self._identity: ProducerIdentity | None = None
        self._sequences: dict[str, int] = {}
        self._added: set[str] = set()
        self._buffered: dict[str, list[dict[str, Any]]] = {}
        self._unconfirmed = 0
        self._work = world.time.event()
        self._hurry = world.time.event()
        self._idle = world.time.event()
        self._is_closed = False
        self.written: dict[str, int] = {}
        self.in_transaction = False
        self.error: BrokerError | None = None

    def init(self) -> Steps:
        """Get an identity, and fence who had the transactional id before.

        Raises:
            RequestTimeoutError: the transaction before did not end in time.
        """
        coordinator = self._cluster.transactions

        def identify() -> ProducerIdentity:
            if not self._transactional_id:
                return coordinator.new_producer()
            return self._cluster.init_producer(self._transactional_id, self._transaction_timeout_ms)

        self._identity = yield from self._retried("init producer", identify)
        self._host.start(self._send_in_background())

    @property
    def producer_id(self) -> int:
        """The id that the brokers gave it.

        Raises:
            InvalidTxnStateError: it has none yet.
        """
        return self._identified().producer

    def send(self, partition: str, key: bytes, value: bytes | None, timestamp: int) -> None:
        """Hand a record in; a transaction is begun if there is none.

        Raises:
            BrokerError: an earlier record was refused.
        """
        self._raise_error()
        identity = self._identified()
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = sequence + 1
        self.in_transaction = bool(self._transactional_id)
        self._buffered.setdefault(partition, []).append(
            {
                "key": key,
                "value": value,
                "timestamp": timestamp,
                "producer": identity.producer,
                "epoch": identity.epoch,
                "sequence": sequence,
                "transactional": self.in_transaction,
            }
        )
        self._unconfirmed += 1
        _come_about(self._work)

    def flush(self) -> Steps:
        """Wait until all records are confirmed.

        Raises:
            BrokerError: one was refused.
        """
        yield from self._confirmed()
        self._raise_error()

    def _confirmed(self) -> Steps:
        """Wait until nothing is on its way, or never will be again."""
        while self._unconfirmed and self.error is None:
            _come_about(self._hurry)
            if self._idle.triggered:
                self._idle = self._world.time.event()
            yield self._idle

    def send_offsets(
        self,
        group: str,
        member: tuple[str, int],
        offsets: Mapping[str, int],
        *,
        times: Mapping[str, int] = NO_TIMES,
    ) -> Steps:
        """Add offsets of a group to the transaction (KIP-447); one is begun if there is none.

        Args:
            group: the group.
            member: who commits, and of which generation it is.
            offsets: by partition.
            times: how far the times of these partitions have come (KAFKA-7994).

        Raises:
            ProducerFencedError: another producer has begun under the id.
            IllegalGenerationError: the member is not of the current generation.
            RequestTimeoutError: no reply came.
        """
        identity = self._identified()
        self.in_transaction = True
        yield from self._retried(
            "add offsets",
            lambda: self._cluster.add_offsets(
                self._transactional_id, identity, group, member, offsets, times=times
            ),
        )

    def commit(self) -> Steps:
        """Flush and commit the transaction.

        Raises:
            RequestTimeoutError: no reply came: whether it is committed is not known.
            BrokerError: it was refused.
        """
        yield from self.flush()
        yield from self._end(commit=True)

    def abort(self) -> Steps:
        """Abort the transaction; records that were not sent yet are dropped.

        A producer that was refused has nothing to abort: its successor fences it, or its
        transaction takes too long.

        Raises:
            BrokerError: it was refused.
        """
        self._drop()
        # What is on its way belongs to this transaction, and must not arrive in the next one.
        yield from self._confirmed()
        if self.in_transaction and self.error is None:
            yield from self._end(commit=False)

    def close(self) -> None:
        """Send nothing more."""
        self._is_closed = True
        _come_about(self._work)

    def _end(self, *, commit: bool) -> Steps:
        identity = self._identified()

        def end() -> None:
            try:
                self._cluster.end_transaction(self._transactional_id, identity, commit=commit)
            except InvalidTxnStateError:
                # A transaction to which nothing was added is unknown to the brokers.
                if commit:
                    raise

        yield from self._retried("end transaction", end)
        self.in_transaction = False
        self._added.clear()

    def _drop(self) -> None:
        for partition, records in self._buffered.items():
            # The numbers were not used: the next record of the partition has the first of them.
            self._sequences[partition] -= len(records)
            self._unconfirmed -= len(records)
        self._buffered.clear()

    def _send_in_background(self) -> Steps:
        """Send what was handed in, one request after the other."""
        world = self._world
        while not self._is_closed and self.error is None:
            if not self._buffered:
                self._work = world.time.event()
                yield self._work
                continue
            if not self._hurry.triggered:
                yield world.time.any_of([self._hurry, world.time.timeout(LINGER_MS)])
            self._hurry = world.time.event()
            batches, self._buffered = self._buffered, {}
            try:
                yield from self._send(batches)
            except BrokerError as error:
                self.error = error
            self._unconfirmed -= sum(map(len, batches.values()))
            _come_about(self._idle)

    def _send(self, batches: Mapping[str, list[dict[str, Any]]]) -> Steps:
        new = [each for each in batches if each not in self._added]
        if self._transactional_id and new:
            yield from self._retried("add partitions", lambda: self._add(new))
            self._added.update(new)
        offsets = yield from self._retried(
            "produce",
            lambda: {
                partition: self._cluster.produce(partition, records)
                for partition, records in batches.items()
            },
        )
        for partition, found in offsets.items():
            self.written[partition] = max(found[-1], self.written.get(partition, -1))

    def _add(self, partitions: list[str]) -> None:
        self._cluster.transactions.add(
            self._transactional_id, self._identified(), partitions, self._world.now
        )

    def _retried(self, what: str, handle: Callable[[], T]) -> Generator[Event, Any, T]:
        """Ask until there is an answer, or it takes too long."""
        deadline = self._world.now + self._max_block_ms
        while True:
            try:
                return (yield from self._network.call(self._host.name, what, handle))
            except (RequestTimeoutError, ConcurrentTransactionsError) as error:
                if self._world.now >= deadline:
                    raise RequestTimeoutError(
                        f"{what}: given up after {self._max_block_ms} ms: {error}"
                    ) from error
            yield self._world.time.timeout(_RETRY_MS)

    def _identified(self) -> ProducerIdentity:
        if self._identity is None:
            raise InvalidTxnStateError("The producer has no identity: call init() first.")
        return self._identity

    def _raise_error(self) -> None:
        if self.error is not None:
            raise self.error


def _come_about(event: Event) -> None:
    if not event.triggered:
        event.succeed()
