"""The producer: idempotent, and transactional if it has a transactional id.

Records are sent in the background, a little after ``send``, and again until they arrive. The
records of a transaction are therefore in the logs before the transaction is decided.

A request has the records of all partitions that one broker leads. The broker may refuse the batch
of one partition, and take that of another. Several requests may be on their way, to several brokers
and to one. So the output and the changelog of one commit arrive at different times. Sequence
numbers keep the order within each partition.

Sources: KIP-98, KIP-447, KAFKA-5494; Kafka, KafkaProducer, TransactionManager.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from functools import partial
from typing import Any, TypeVar

from simpy.events import Event

from streamproof.sim.actor_hosts import Host, Steps
from streamproof.sim.broker_errors import (
    BrokerError,
    ConcurrentTransactionsError,
    CoordinatorNotAvailableError,
    InvalidTxnStateError,
    NotLeaderOrFollowerError,
    OutOfOrderSequenceError,
    RequestTimeoutError,
)
from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.brokers.committed_offsets import NO_TIMES
from streamproof.sim.brokers.transaction_coordinator import (
    ProducerIdentity,
    TransactionVersion,
)
from streamproof.sim.network import RETRY_BACKOFF_MS, Network
from streamproof.sim.world import World

__all__ = ["LINGER_MS", "MAX_BLOCK_MS", "MAX_IN_FLIGHT", "TRANSACTION_TIMEOUT_MS", "Producer"]

LINGER_MS = 100
"""``linger.ms``, as Kafka Streams sets it: how long the producer gathers records for a request."""

TRANSACTION_TIMEOUT_MS = 10_000
"""``transaction.timeout.ms``, as Kafka Streams sets it."""

MAX_BLOCK_MS = 60_000
"""``max.block.ms``: how long a call retries before it gives up."""

MAX_IN_FLIGHT = 5
"""``max.in.flight.requests.per.connection``: the most for which brokers keep the order."""

_RETRY_MS = 20
"""The pause before a request is sent again, in milliseconds."""

_RETRIABLE = (
    ConcurrentTransactionsError,
    CoordinatorNotAvailableError,
    NotLeaderOrFollowerError,
)
"""The refusals of a batch after which it is sent again."""

Batch = list[dict[str, Any]]
"""Records of one partition, in order, as ``PartitionLog.append`` takes them."""

Batches = dict[str, Batch]
"""A batch for each of some partitions."""

Reply = list[int] | BrokerError
"""The offsets of a batch, or why the broker has refused it."""

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
        max_in_flight: the most requests that may be on their way to a broker.

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
        max_in_flight: int = MAX_IN_FLIGHT,
    ) -> None:
        self._max_in_flight = max_in_flight
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
        self._buffered: Batches = {}
        self._unconfirmed = 0
        # Whether a broker has confirmed a record of the transaction.
        self._has_answer = False
        # By broker, the number of requests; by partition, the first sequences of their batches.
        self._in_flight = [0] * cluster.brokers
        self._flying: dict[str, list[int]] = {}
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
        is_outside = self._world.defect("sends-outside-the-transaction")
        self._buffered.setdefault(partition, []).append(
            {
                "key": key,
                "value": value,
                "timestamp": timestamp,
                "producer": identity.producer,
                "epoch": identity.epoch,
                "sequence": sequence,
                "transactional": self.in_transaction and not is_outside,
            }
        )
        self._unconfirmed += 1
        _come_about(self._work)

    def flush(self) -> Steps:
        """Wait until the brokers have confirmed all records.

        Raises:
            BrokerError: a record was refused.
        """
        yield from self._confirmed(by_one=self._world.defect("flushes-one-broker-alone"))
        self._raise_error()

    def flush_some(self, partitions: Collection[str]) -> Steps:
        """Wait until the brokers have confirmed the records of these partitions alone: a mistake.

        Raises:
            BrokerError: a record was refused.
        """
        yield from self._wait_while(lambda: any(map(self._is_sending, partitions)))
        self._raise_error()

    def _is_sending(self, partition: str) -> bool:
        """Whether a record of a partition waits to be confirmed."""
        return bool(self._buffered.get(partition) or self._flying.get(partition))

    def _confirmed(self, *, by_one: bool = False) -> Steps:
        """Wait until no record is in flight, or until the producer has failed.

        Args:
            by_one: whether the first records of a transaction that a broker confirms are enough.
        """
        yield from self._wait_while(
            lambda: self._unconfirmed > 0 and not (by_one and self._has_answer)
        )

    def _wait_while(self, is_sending: Callable[[], bool]) -> Steps:
        """Send at once what is buffered, and wait; a producer that has failed sends no more."""
        while self.error is None and is_sending():
            _come_about(self._hurry)
            yield self._next_change()

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
        while self.has_given_up and any(self._in_flight):
            yield self._next_change()
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
        self.in_transaction = self._has_answer = False
        self._added.clear()

    def _take(self, identity: ProducerIdentity) -> None:
        """Have this identity from now on; a new epoch begins its sequence numbers anew."""
        if identity != self._identity:
            self._identity = identity
            self._sequences.clear()
            self._flying.clear()

    def _drop(self) -> None:
        for partition, records in self._buffered.items():
            # The sequence numbers of dropped records are free: the next record takes the first. A
            # mistaken flush leaves records of an earlier identity, whose numbers are gone with it.
            free = sum(
                ProducerIdentity(each["producer"], each["epoch"]) == self._identity
                for each in records
            )
            if free:
                self._sequences[partition] -= free
            self._unconfirmed -= len(records)
        self._buffered.clear()

    def _send_in_background(self) -> Steps:
        """Gather the queued records into requests, one for each broker, and send them."""
        world = self._world
        while not self._is_closed and self.error is None:
            if not self._sendable():
                self._work = world.time.event()
                yield self._work
                continue
            if not self._hurry.triggered:
                yield world.time.any_of([self._hurry, world.time.timeout(LINGER_MS)])
            self._hurry = world.time.event()
            try:
                yield from self._add_to_transaction()
            except BrokerError as error:
                self._fail(error)
                return
            for broker, batches in self._drained().items():
                self._host.start(self._deliver(broker, batches))

    def _sendable(self) -> list[str]:
        """The partitions with queued records to whose leader another request may be on its way."""
        if max(self._in_flight) < self._max_in_flight:
            return list(self._buffered)
        leader_of, most = self._cluster.leader_of, self._max_in_flight
        return [each for each in self._buffered if self._in_flight[leader_of(each)] < most]

    def _add_to_transaction(self) -> Steps:
        """Take new partitions into the transaction, before any of their records, in version 1.

        The coordinator writes markers only to partitions that it knows. In version 2, the broker of
        a partition adds it with the first record.
        """
        if not self._transactional_id or self._version != 1:
            return
        new = [each for each in self._buffered if each not in self._added]
        if new:
            name, identity = self._transactional_id, self._identified()
            yield from self._retried(
                "add partitions", lambda: self._cluster.add_partitions(name, identity, new)
            )
            self._added.update(new)

    def _drained(self) -> dict[int, Batches]:
        """The queued records that may be sent now, by broker and partition."""
        requests: dict[int, Batches] = {}
        adds = self._transactional_id and self._version == 1
        for partition in self._sendable():
            if adds and partition not in self._added:
                # The record came while other partitions were added.
                continue
            batch = self._buffered.pop(partition)
            requests.setdefault(self._cluster.leader_of(partition), {})[partition] = batch
            self._flying.setdefault(partition, []).append(batch[0]["sequence"])
        for broker in requests:
            self._in_flight[broker] += 1
        return requests

    def _deliver(self, broker: int, batches: Batches) -> Steps:
        """Send a request to a broker, again and again, until it has taken all batches.

        A batch that comes before an earlier one of its partition is refused, and sent again.

        Source: KAFKA-5494; Kafka, Sender#completeBatch.
        """
        world, name, left = self._world, self._transactional_id, batches
        deadline = world.now + self._max_block_ms
        queue_ms = partial(self._cluster.queue_ms, broker)
        if sum(self._in_flight) > 1:
            world.marks.sometimes("two requests of a producer were on their way")
        while left and not self._has_ended():
            # A late request still has all batches that were left when it was sent.
            sent, left = left, dict(left)
            # Their order may change on the way, and the batches before them be there by the reply.
            behind = {each for each in left if self._is_behind(each, left[each])}
            handle = partial(self._cluster.produce_all, sent, transactional_id=name)
            try:
                replies = yield from self._network.call(
                    self._host, "produce", handle, queue_ms=queue_ms
                )
                refusal = self._settle(left, replies, behind)
            except RequestTimeoutError as error:
                refusal = error
            if left and not self._has_ended() and world.now >= deadline:
                what = f"produce: given up after {self._max_block_ms} ms: {refusal}"
                self._fail(RequestTimeoutError(what))
            elif left and not self._has_ended():
                yield from self._wait(left)
        self._in_flight[broker] -= 1
        self._unconfirmed -= sum(map(len, left.values()))
        _come_about(self._idle)
        _come_about(self._work)

    def _has_ended(self) -> bool:
        """Whether nothing more is sent."""
        return self._is_closed or self.error is not None

    def _settle(
        self, left: Batches, replies: Mapping[str, Reply], behind: set[str]
    ) -> BrokerError | None:
        """Take the batches that a broker has taken from those that are left; return a refusal.

        Those of the partitions ``behind`` were sent while an earlier one was on its way.
        """
        refusal: BrokerError | None = None
        for partition, reply in replies.items():
            if isinstance(reply, BrokerError):
                refusal = reply
                out_of_order = isinstance(reply, OutOfOrderSequenceError)
                if not (partition in behind if out_of_order else isinstance(reply, _RETRIABLE)):
                    self._fail(reply)
                continue
            batch = left.pop(partition)
            self._has_answer = True
            flying = self._flying.get(partition, [])
            # After a mistaken flush, a batch may come from before the numbers began anew.
            if batch[0]["sequence"] in flying:
                flying.remove(batch[0]["sequence"])
            self._unconfirmed -= len(batch)
            self.written[partition] = max(reply[-1], self.written.get(partition, -1))
        _come_about(self._idle)
        return refusal

    def _wait(self, left: Batches) -> Steps:
        """Wait before batches are sent again: for the batches before them, if there are any."""
        if not all(self._is_behind(*each) for each in left.items()):
            yield self._world.time.timeout(RETRY_BACKOFF_MS)
            return
        while self.error is None and all(self._is_behind(*each) for each in left.items()):
            yield self._next_change()

    def _is_behind(self, partition: str, batch: Batch) -> bool:
        """Whether an earlier batch of the partition is on its way."""
        # A new epoch has begun the numbers anew, and no batch of it may be on its way.
        first: int = batch[0]["sequence"]
        return first > min(self._flying.get(partition, ()), default=first)

    def _next_change(self) -> Event:
        """Happens when a batch is confirmed, or when the producer fails."""
        if self._idle.triggered:
            self._idle = self._world.time.event()
        return self._idle

    def _fail(self, error: BrokerError) -> None:
        """Send nothing more: the records lack something before them."""
        self.error = self.error or error
        _come_about(self._idle)

    def _retried(self, what: str, handle: Callable[[], T]) -> Generator[Event, Any, T]:
        """Ask until an answer comes, or until the time is up."""
        deadline = self._world.now + self._max_block_ms
        while True:
            try:
                return (yield from self._network.call(self._host, what, handle))
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
