"""Workloads: what comes into an application from outside, drawn from choices.

Each input topic has a producer of its own, with a pace of its own. It sends bursts of records with
silences between, some of them in transactions, of which some are aborted: so readers meet markers
and aborted records, and a partition may end with them (KAFKA-6607). What is sent reaches the
brokers at once and once, so that it is known exactly what an application had to process.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from simpy.events import Event

from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.brokers.transactions import ProducerIdentity
from streamproof.sim.choices import Choices
from streamproof.sim.errors import (
    ConcurrentTransactionsError,
    CoordinatorNotAvailableError,
    InvalidPidMappingError,
)
from streamproof.sim.hosts import Steps
from streamproof.sim.topology import Topology, partition_for
from streamproof.sim.world import World
from streamproof.stores.errors import UsageError

__all__ = ["Sent", "Workload", "WorkloadConfig"]

T = TypeVar("T")

TRANSACTION_TIMEOUT_MS = 60_000
"""``transaction.timeout.ms``, as producers have it; no transaction here takes that long."""

_RETRY_MS = 20
"""The pause before a producer tries again to begin a transaction, in milliseconds."""

_MAX_PACE = 4
"""The silences of a topic are up to so many times as long as those of another."""


@dataclass(frozen=True)
class WorkloadConfig:
    """What the records of all topics are like. Each share is from 0 to 1.

    Attributes:
        records: how many are sent to each topic, those of aborted transactions included.
        keys: how many keys there are.
        skewed: whether some keys are much more frequent than others.
        max_burst: so many records are sent at a time at most.
        max_pause_ms: so long a topic is silent after a burst at most, at the quickest pace.
        late: the share of records that are older than the time at which they are sent.
        max_lateness_ms: so much older they are at most.
        tombstones: the share of records without a value.
        transactional: the share of bursts that are sent in a transaction; unless it is 0, the last
            burst is sent in one.
        aborted: the share of transactions that are aborted.
        max_open_ms: so long a transaction is open at most.

    Raises:
        UsageError: a number is out of range.
    """

    records: int = 100
    keys: int = 5
    skewed: bool = False
    max_burst: int = 4
    max_pause_ms: int = 400
    late: float = 0.0
    max_lateness_ms: int = 3_000
    tombstones: float = 0.0
    transactional: float = 0.0
    aborted: float = 0.25
    max_open_ms: int = 300

    def __post_init__(self) -> None:
        for name in ("keys", "max_burst", "max_pause_ms", "max_lateness_ms", "max_open_ms"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}: it must be at least 1.")
        for name in ("late", "tombstones", "transactional", "aborted"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name} is {getattr(self, name)}: a share is from 0 to 1.")
        if self.records < 0 or self.max_open_ms >= TRANSACTION_TIMEOUT_MS:
            raise UsageError(
                f"records is {self.records}, which must be 0 or more, and max_open_ms is "
                f"{self.max_open_ms}, which must be less than {TRANSACTION_TIMEOUT_MS}."
            )

    @classmethod
    def drawn(cls, choices: Choices, records: int = 100) -> WorkloadConfig:
        """A workload of one run: each trait is there in about every other run."""
        return cls(
            records=records,
            keys=choices.pick((5, 1, 2, 20)),
            skewed=choices.chance(0.5),
            max_burst=choices.pick((4, 1, 30)),
            max_pause_ms=choices.pick((400, 50, 3_000)),
            late=choices.pick((0.0, 0.1, 0.5)),
            max_lateness_ms=choices.pick((3_000, 20_000)),
            tombstones=choices.pick((0.0, 0.1)),
            transactional=choices.pick((0.0, 0.3, 1.0)),
        )


class Sent(NamedTuple):
    """A record that was sent, and was not aborted."""

    partition: str
    offset: int
    key: bytes
    value: bytes | None
    timestamp: int


class Workload:
    """The producers of all inputs of an application; they begin at once.

    Args:
        world: the world.
        cluster: the brokers.
        topology: whose inputs are filled.
        config: what the records are like.

    Attributes:
        sent: what readers of committed data will have seen in the end, by partition, in order.
        ended: comes about when everything is sent, and every transaction is decided. From then
            on the application has to come to rest.
    """

    def __init__(
        self, world: World, cluster: Cluster, topology: Topology, config: WorkloadConfig
    ) -> None:
        self._world = world
        self._config = config
        self.sent: dict[str, list[Sent]] = {
            partition: [] for topic in topology.inputs for partition in cluster.partitions_of(topic)
        }
        host = world.host("workload")
        producers = [
            host.start(_Producer(world, cluster, topic, config, self.sent).run())
            for topic in topology.inputs
        ]
        self.ended: Event = world.time.all_of(producers)


class _Producer:
    """What fills one topic."""

    def __init__(
        self,
        world: World,
        cluster: Cluster,
        topic: str,
        config: WorkloadConfig,
        sent: dict[str, list[Sent]],
    ) -> None:
        self._world = world
        self._cluster = cluster
        self._topic = topic
        self._config = config
        self._sent = sent
        self._partitions = len(cluster.partitions_of(topic))
        self._transactional_id = f"workload-{topic}"
        self._sequences: dict[str, int] = {}
        self._count = 0

    def run(self) -> Steps:
        """Send everything."""
        choices, config = self._world.choices, self._config
        identity = yield from self._begin()
        pace = choices.between(1, _MAX_PACE)
        while self._count < config.records:
            yield self._world.time.timeout(choices.between(1, config.max_pause_ms * pace))
            count = min(choices.between(1, config.max_burst), config.records - self._count)
            is_last = self._count + count == config.records
            # The last burst leaves a marker at the end of its partitions.
            if choices.chance(config.transactional) or (is_last and config.transactional):
                identity = yield from self._send_in_transaction(count, identity)
            else:
                for _ in range(count):
                    self._keep(self._send(*self._draw(), {}))
        self._world.trace.emit("workload.ended", "workload", topic=self._topic, records=self._count)

    def _send_in_transaction(
        self, count: int, identity: ProducerIdentity
    ) -> Generator[Event, Any, ProducerIdentity]:
        """Send a burst in a transaction, and commit or abort it; who the producer is by then."""
        world = self._world
        commit = not world.choices.chance(self._config.aborted)
        sent = []
        for number in range(count):
            if number and world.choices.chance(0.5):
                yield world.time.timeout(
                    world.choices.between(1, max(self._config.max_open_ms // count, 1))
                )
            partition, key, value, timestamp = self._draw()
            try:
                yield from self._add(identity, partition)
            except InvalidPidMappingError:
                # A silent producer is forgotten after a while, and begins anew.
                identity = yield from self._begin()
                yield from self._add(identity, partition)
            sequence = self._sequences.get(partition, 0)
            self._sequences[partition] = sequence + 1
            producer = {
                "producer": identity.producer,
                "epoch": identity.epoch,
                "sequence": sequence,
                "transactional": True,
            }
            sent.append(self._send(partition, key, value, timestamp, producer))
        if commit:
            for each in sent:
                self._keep(each)
        yield from self._insist(
            lambda: self._cluster.end_transaction(self._transactional_id, identity, commit=commit)
        )
        return identity

    def _begin(self) -> Generator[Event, Any, ProducerIdentity]:
        """Be a new producer."""
        self._sequences.clear()
        return (
            yield from self._insist(
                lambda: self._cluster.init_producer(self._transactional_id, TRANSACTION_TIMEOUT_MS)
            )
        )

    def _add(self, identity: ProducerIdentity, partition: str) -> Steps:
        """Take a partition into the transaction."""
        yield from self._insist(
            lambda: self._cluster.transactions.add(
                self._transactional_id, identity, [partition], self._world.now
            )
        )

    def _insist(self, ask: Callable[[], T]) -> Generator[Event, Any, T]:
        """Ask until the coordinator is there, and done with the transaction before."""
        while True:
            try:
                return ask()
            except (ConcurrentTransactionsError, CoordinatorNotAvailableError):
                yield self._world.time.timeout(_RETRY_MS)

    def _draw(self) -> tuple[str, bytes, bytes | None, int]:
        """A record: its partition, key, value and timestamp."""
        choices, config = self._world.choices, self._config
        keys = choices.between(1, config.keys) if config.skewed else config.keys
        key = b"key-%d" % choices.below(keys)
        # Each value is there once, so that every record can be told from every other.
        value = None
        if not choices.chance(config.tombstones):
            value = b"%s-%d" % (self._topic.encode(), self._count)
        timestamp = self._world.now
        if choices.chance(config.late):
            timestamp = max(timestamp - choices.between(1, config.max_lateness_ms), 0)
        self._count += 1
        return f"{self._topic}-{partition_for(key, self._partitions)}", key, value, timestamp

    def _send(
        self,
        partition: str,
        key: bytes,
        value: bytes | None,
        timestamp: int,
        producer: dict[str, Any],
    ) -> Sent:
        record = {"key": key, "value": value, "timestamp": timestamp, **producer}
        (offset,) = self._cluster.produce(partition, [record])
        return Sent(partition, offset, key, value, timestamp)

    def _keep(self, sent: Sent) -> None:
        self._sent[sent.partition].append(sent)
