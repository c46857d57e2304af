"""The producer: idempotent, and transactional if it has a transactional id.

Records are sent in the background, a little after ``send``, and again until they arrive. The
records of a transaction are therefore in the logs before the transaction is decided.

Sources: KIP-98, KIP-447; Kafka, KafkaProducer, TransactionManager.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import Any, TypeVar

from simpy.events import Event

from streamproof.sim.actor_hosts import Host, Steps
from streamproof.sim.broker_errors import (
    BrokerError,
    ConcurrentTransactionsError,
    InvalidTxnStateError,
    RequestTimeoutError,
)
from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.brokers.group_coordinator import NO_TIMES
from streamproof.sim.brokers.transaction_coordinator import (
    ProducerIdentity,
    TransactionVersion,
)
from streamproof.sim.network import Network, at_once
from streamproof.sim.world import World

__all__ = ["LINGER_MS", "MAX_BLOCK_MS", "TRANSACTION_TIMEOUT_MS", "Producer"]

LINGER_MS = 100
"""``linger.ms``, as Kafka Streams sets it: how long the producer gathers records for a request."""

TRANSACTION_TIMEOUT_MS = 10_000
"""``transaction.timeout.ms``, as Kafka Streams sets it."""

MAX_BLOCK_MS = 60_000
"""``max.block.ms``: how long a call retries before it gives up."""

_RETRY_MS = 20
"""The pause before a request is sent again, in milliseconds."""

T = TypeVar("T")


class Producer:
    """A producer of one thread.

    Args:
        world: the world.
        host: the process of the producer.
        network: the way to the brokers.
        cluster: the brokers.
        transactional_id: the transactional id; empty for a producer without transactions.
        transaction_timeout_ms: how long a transaction may take, in milliseconds.
        max_block_ms: how long the producer repeats a request, in milliseconds.
        version: the version of the protocol of transactions that it speaks.

    Attributes:
        written: the offset of the last record that the brokers have confirmed, by partition.
        in_transaction: whether a transaction has begun, and not ended.
        error: the refusal that the background sender got; every later call raises it.
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
        version: TransactionVersion = 2,
    ) -> None:
        self._version: TransactionVersion = version
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
        """Get an identity, and fence the producer that had the transactional id before.

        Raises:
            RequestTimeoutError: the transaction before did not end in time.
        """
        coordinator = self._cluster.transactions

        def identify() -> ProducerIdentity:
            if not self._transactional_id:
                return coordinator.new_producer()
            return self._cluster.init_producer(
                self._transactional_id, self._transaction_timeout_ms, version=self._version
            )

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
        """Queue a record to be sent, in the open transaction or in a new one.

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
        """Wait until the brokers have confirmed all records.

        Raises:
            BrokerError: a record was refused.
        """
        yield from self._confirmed()
        self._raise_error()

    def _confirmed(self) -> Steps:
        """Wait until no record is in flight, or until the producer has failed."""
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
        """Add offsets of a group to the open transaction, or to a new one (KIP-447).

        Args:
            group: the group.
            member: the id and the generation of the member that commits.
            offsets: the offsets by partition.
            times: the times that these partitions have reached (KAFKA-7994).

        Raises:
            ProducerFencedError: another producer has begun under the id.
            IllegalGenerationError: the member is not of the current generation.
            RequestTimeoutError: no reply came.
        """
        identity = self._identified()
        # Before the request: if its reply is lost, the transaction may have them anyway.
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
            RequestTimeoutError: no reply came: whether the transaction is committed is unknown.
            BrokerError: the commit was refused.
        """
        yield from self.flush()
        yield from self._end(commit=True)

    def abort(self) -> Steps:
        """Abort the transaction, and drop records that were not sent yet.

        A producer that was refused has nothing to abort: its successor fences it, or its
        transaction times out.

        Raises:
            BrokerError: it was refused.
        """
        self._drop()
        # Records in flight belong to this transaction, and must not arrive in the next one.
        yield from self._confirmed()
        if self.in_transaction and (self.error is None or self.has_given_up):
            yield from self._end(commit=False)

    @property
    def has_given_up(self) -> bool:
        """Whether it has given up a record, which may still arrive."""
        return isinstance(self.error, RequestTimeoutError)

    def start_over(self) -> Steps:
        """Abort the transaction of a record that was given up, and go on with the same identity.

        The record may be on its way, and arrive after the marker of the abort. In version 1, the
        producer therefore asks for a new epoch; in version 2, it has one by the abort.

        Raises:
            BrokerError: it was refused.

        Sources: KIP-360; KIP-890; Kafka, TransactionManager#bumpIdempotentEpochAndResetIdIfNeeded.
        """
        yield from self.abort()
        if self._version == 1:
            name, identity = self._transactional_id, self._identified()
            self._take(
                (
                    yield from self._retried(
                        "init producer", lambda: self._cluster.raise_epoch(name, identity)
                    )
                )
            )
        self._world.marks.sometimes("a record was given up, and its transaction was aborted")
        self.error = None
        self._host.start(self._send_in_background())

    def close(self) -> None:
        """Send nothing more."""
        self._is_closed = True
        _come_about(self._work)

    def _end(self, *, commit: bool) -> Steps:
        identity = self._identified()

        def end() -> ProducerIdentity:
            try:
                return self._cluster.end_transaction(
                    self._transactional_id, identity, commit=commit
                )
            except InvalidTxnStateError:
                # The brokers do not know a transaction to which nothing was added.
                if commit:
                    raise
                return identity

        self._take((yield from self._retried("end transaction", end)))
        self.in_transaction = False
        self._added.clear()

    def _take(self, identity: ProducerIdentity) -> None:
        """Have this identity from now on; a new epoch begins its sequence numbers anew."""
        if identity != self._identity:
            self._identity = identity
            self._sequences.clear()

    def _drop(self) -> None:
        for partition, records in self._buffered.items():
            # The sequence numbers of dropped records are free: the next record takes the first.
            self._sequences[partition] -= len(records)
            self._unconfirmed -= len(records)
        self._buffered.clear()

    def _send_in_background(self) -> Steps:
        """Send the queued records, one request after the other."""
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
        name, identity = self._transactional_id, self._identified()
        if name and new and self._version == 1:
            # Before any record: the coordinator writes markers only to partitions that it knows.
            # In version 2, the broker of a partition adds it with the first record.
            yield from self._retried(
                "add partitions", lambda: self._cluster.add_partitions(name, identity, new)
            )
            self._added.update(new)
        offsets = yield from self._retried(
            "produce",
            lambda: {
                partition: self._cluster.produce(partition, records, transactional_id=name)
                for partition, records in batches.items()
            },
            queue_ms=partial(self._cluster.queue_ms, tuple(batches)),
        )
        for partition, found in offsets.items():
            self.written[partition] = max(found[-1], self.written.get(partition, -1))

    def _retried(
        self, what: str, handle: Callable[[], T], queue_ms: Callable[[], int] = at_once
    ) -> Generator[Event, Any, T]:
        """Ask until an answer comes, or until the time is up."""
        deadline = self._world.now + self._max_block_ms
        while True:
            try:
                return (yield from self._network.call(self._host, what, handle, queue_ms=queue_ms))
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
