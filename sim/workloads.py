"""Workloads: the input of an application, drawn from choices.

Each input topic has a producer with its own pace. The workload sends bursts of records with
silences between them. Some bursts are in transactions, and some of these are aborted: so readers
meet markers and aborted records, and a partition may end with them (KAFKA-6607). Records reach the
brokers at once, and exactly once, so that the run knows which records the application had to
process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from msgspec import Struct
from simpy.events import Event

from streamproof.errors import UsageError
from streamproof.sim.actor_hosts import Steps
from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.choices import Choices
from streamproof.sim.clients.external_producer import TRANSACTION_TIMEOUT_MS, OutsideProducer
from streamproof.sim.decisions.refusals import NO_VALID_TIMESTAMP, REFUSED, UNREADABLE
from streamproof.sim.topology import Topology, partition_for
from streamproof.sim.world import World

__all__ = ["MAX_PACE", "OVERSIZED_BYTES", "RecordSource", "Sent", "Workload", "WorkloadConfig"]

OVERSIZED_BYTES = 200
"""The length by which the value of a large record is longer than that of others."""

_SHARES = ("late", "tombstones", "transactional", "aborted", "unprocessable", "oversized")
"""The settings that are shares."""

DRAWN_RECORDS, DRAWN_AFTER_FAULTS = 40, 12
"""The records of one topic of a drawn world, and the most of them after the last fault. In the same
time, many small worlds show more mistakes than fewer large ones do, and a world in which nothing
goes wrong any more shows none.
"""

MAX_PACE = 4
"""The silences of one topic are up to this many times as long as those of another."""


@dataclass(frozen=True)
class WorkloadConfig:
    """The properties of all input records. Each share is a number from 0 to 1.

    Attributes:
        records: the number of records for each topic, including those of aborted transactions.
        records_after_faults: the most of them that are sent after the last fault; -1 sets no bound.
        keys: the number of keys.
        skewed: whether some keys are much more frequent than others.
        max_burst: the most records of a burst.
        max_pause_ms: the longest silence after a burst, at the quickest pace.
        late: the share of records with a timestamp before the time at which they are sent.
        max_lateness_ms: how far before, at most.
        tombstones: the share of records without a value.
        transactional: the share of bursts in transactions. Unless it is 0, the last burst is in a
            transaction.
        aborted: the share of transactions that are aborted.
        max_open_ms: how long a transaction is open, at most.
        retention_ms: ``retention.ms`` of the inputs from which no task restores a table: the age at
            which their records are deleted, read or not; -1 keeps them.
        unprocessable: the share of records that no task can process, in inputs that are no tables:
            without a valid timestamp, not to be read, or refused by the processor.
        oversized: the share of records with a value of more than ``OVERSIZED_BYTES`` bytes.

    Raises:
        UsageError: a number is out of range.
    """

    records: int = 100
    records_after_faults: int = -1
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
    retention_ms: int = -1
    unprocessable: float = 0.0
    oversized: float = 0.0

    def __post_init__(self) -> None:
        for name in ("keys", "max_burst", "max_pause_ms", "max_lateness_ms", "max_open_ms"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}; give at least 1.")
        for name in _SHARES:
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name} is {getattr(self, name)}; give a share from 0 to 1.")
        if self.records < 0 or self.max_open_ms >= TRANSACTION_TIMEOUT_MS:
            raise UsageError(
                f"records is {self.records} and max_open_ms is {self.max_open_ms}; give 0 or more "
                f"records, and less than {TRANSACTION_TIMEOUT_MS} ms."
            )
        if self.retention_ms < -1:
            raise UsageError(
                f"retention_ms is {self.retention_ms}; give milliseconds from 0, or -1 to keep all."
            )
        if self.records_after_faults != -1 and self.records_after_faults < 1:
            raise UsageError(
                f"records_after_faults is {self.records_after_faults}; give at least 1, or -1 to "
                "set no bound."
            )

    @classmethod
    def drawn(cls, choices: Choices, records: int = DRAWN_RECORDS) -> WorkloadConfig:
        """A workload of one run, which has each trait in about every other run."""
        return cls(
            records=records,
            records_after_faults=DRAWN_AFTER_FAULTS,
            keys=choices.pick((5, 1, 2, 20)),
            skewed=choices.chance(0.5),
            max_burst=choices.pick((4, 1, 30)),
            max_pause_ms=choices.pick((400, 50, 3_000)),
            late=choices.pick((0.0, 0.1, 0.5)),
            max_lateness_ms=choices.pick((3_000, 20_000)),
            tombstones=choices.pick((0.0, 0.1)),
            transactional=choices.pick((0.0, 0.3, 1.0)),
        )


class Sent(Struct, frozen=True, gc=False):
    """A record that was sent, and was not aborted."""

    partition: str
    offset: int
    key: bytes
    value: bytes | None
    timestamp: int


class DrawnRecord(NamedTuple):
    """A record of an input, in milliseconds of virtual time."""

    key: bytes
    value: bytes | None
    timestamp: int


class RecordSource:
    """Draws the records of one input, one after the other.

    Args:
        choices: they decide.
        topic: the input.
        config: the properties of the records.
        is_table: whether the input is a table, whose records can all be processed.

    Attributes:
        count: how many records were drawn.
    """

    def __init__(
        self, choices: Choices, topic: str, config: WorkloadConfig, *, is_table: bool
    ) -> None:
        self._choices = choices
        self._topic = topic
        self._config = config
        self._unprocessable = 0.0 if is_table else config.unprocessable
        self.count = 0

    def draw(self, now: int) -> DrawnRecord:
        """The next record, sent at a time."""
        choices, config = self._choices, self._config
        keys = choices.between(1, config.keys) if config.skewed else config.keys
        key = b"key-%d" % choices.below(keys)
        # Each value is unique, so that no two records look alike.
        value = None
        if not choices.chance(config.tombstones):
            value = b"%s-%d" % (self._topic.encode(), self.count)
            if config.oversized and choices.chance(config.oversized):
                value += b"x" * OVERSIZED_BYTES
        timestamp = now
        if choices.chance(config.late):
            timestamp = max(timestamp - choices.between(1, config.max_lateness_ms), 0)
        if self._unprocessable and choices.chance(self._unprocessable):
            value, timestamp = self._spoiled(value, timestamp)
        self.count += 1
        return DrawnRecord(key, value, timestamp)

    def _spoiled(self, value: bytes | None, timestamp: int) -> tuple[bytes | None, int]:
        """A value and a timestamp with which no task can process a record."""
        prefix = self._choices.pick((b"", UNREADABLE, REFUSED))
        if value is None or not prefix:
            return value, NO_VALID_TIMESTAMP
        return prefix + value, timestamp


class Workload:
    """The producers of all inputs of an application. They begin at once.

    Args:
        world: the world.
        cluster: the brokers.
        topology: the topology, whose inputs are filled.
        config: the properties of the records.
        healed: an event that happens when all faults have ended for good, if there are faults.

    Attributes:
        sent: the records that readers of committed data see in the end, by partition, in order.
        ended: an event that happens when everything is sent, and every transaction is decided. From
            then on the application has to come to rest.
    """

    def __init__(
        self,
        world: World,
        cluster: Cluster,
        topology: Topology,
        config: WorkloadConfig,
        healed: Event | None = None,
    ) -> None:
        self._world = world
        self._config = config
        self.sent: dict[str, list[Sent]] = {
            partition: [] for topic in topology.inputs for partition in cluster.partitions_of(topic)
        }
        host = world.host("workload")
        producers = [
            host.start(
                _Producer(
                    world, cluster, topic, config, self.sent, is_table=topic in topology.tables
                ).run(healed)
            )
            for topic in topology.inputs
        ]
        self.ended: Event = world.time.all_of(producers)


class _Producer:
    """The producer of one topic."""

    def __init__(
        self,
        world: World,
        cluster: Cluster,
        topic: str,
        config: WorkloadConfig,
        sent: dict[str, list[Sent]],
        *,
        is_table: bool,
    ) -> None:
        self._world = world
        self._topic = topic
        self._config = config
        self._source = RecordSource(world.choices, topic, config, is_table=is_table)
        self._sent = sent
        self._partitions = len(cluster.partitions_of(topic))
        self._producer = OutsideProducer(world, cluster, f"workload-{topic}")

    def run(self, healed: Event | None) -> Steps:
        """Send everything, or less if all faults end before."""
        choices, config = self._world.choices, self._config
        records, has_bound = config.records, config.records_after_faults != -1
        yield from self._producer.begin()
        pace = choices.between(1, MAX_PACE)
        while self._source.count < records:
            yield self._world.time.timeout(choices.between(1, config.max_pause_ms * pace))
            if has_bound and healed is not None and healed.triggered:
                has_bound = False
                records = min(records, self._source.count + config.records_after_faults)
            count = min(choices.between(1, config.max_burst), records - self._source.count)
            is_last = self._source.count + count == records
            # The last burst leaves a marker at the end of its partitions.
            if choices.chance(config.transactional) or (is_last and config.transactional):
                yield from self._send_in_transaction(count)
            else:
                for _ in range(count):
                    record = self._draw()
                    self._keep(self._producer.send(*record), *record)
        self._world.trace.emit(
            "workload.ended", "workload", topic=self._topic, records=self._source.count
        )

    def _send_in_transaction(self, count: int) -> Steps:
        """Send a burst in a transaction, and commit or abort it."""
        world = self._world
        commit = not world.choices.chance(self._config.aborted)
        for number in range(count):
            if number and world.choices.chance(0.5):
                yield world.time.timeout(
                    world.choices.between(1, max(self._config.max_open_ms // count, 1))
                )
            record = self._draw()
            offset = yield from self._producer.send_in_transaction(*record)
            if commit:
                self._keep(offset, *record)
        yield from self._producer.end(commit=commit)

    def _draw(self) -> tuple[str, bytes, bytes | None, int]:
        """A record: its partition, key, value and timestamp."""
        drawn = self._source.draw(self._world.now)
        return f"{self._topic}-{partition_for(drawn.key, self._partitions)}", *drawn

    def _keep(
        self, offset: int, partition: str, key: bytes, value: bytes | None, timestamp: int
    ) -> None:
        self._sent[partition].append(Sent(partition, offset, key, value, timestamp))
