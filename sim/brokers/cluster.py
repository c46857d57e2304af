"""The brokers together: partitions, transactions and groups.

A request takes effect at once when it reaches the brokers; only the network takes time. Two things
happen without a request: the markers of decided transactions are written one after the other, and
transactions and members that take too long are ended. ``upkeep`` has all other background work of
the brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from simpy.events import Event

from streamproof.sim.actor_hosts import Steps
from streamproof.sim.broker_errors import (
    BrokerError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
)
from streamproof.sim.brokers.committed_offsets import NO_TIMES
from streamproof.sim.brokers.group_coordinator import GroupCoordinator
from streamproof.sim.brokers.partition_log import (
    NO_PRODUCER,
    Fetched,
    Isolation,
    LogEntry,
    PartitionLog,
)
from streamproof.sim.brokers.streams_group import StreamsGroup
from streamproof.sim.brokers.transaction_coordinator import (
    Marker,
    ProducerIdentity,
    TransactionCoordinator,
    TransactionVersion,
)
from streamproof.sim.brokers.upkeep import (
    CLEANER_BACKOFF_MS,
    TopicConfig,
    clean_up,
    delete_what_is_old,
    fail_over,
    forget_idle_transactions,
    stall,
)
from streamproof.sim.fault_sites import NO_ANSWER
from streamproof.sim.world import World
from streamproof.stores.errors import InvalidArgumentError

__all__ = ["GROUP_TARGET", "Cluster"]

GROUP_TARGET = "group:"
"""The prefix of a group's name among the targets of a transaction."""

_CHECK_EVERY_MS = 1_000
"""How often the brokers look for expired transactions and members (Kafka: 10 s, transactions)."""

_MARKER_MS = 3
"""Writing a marker takes 1 to this many milliseconds."""

_THROTTLE_MS = 1_000
"""A reader that has used up its quota waits up to this many milliseconds."""

_LATE_MARKER_MS = 6_000
"""Writing a delayed marker takes up to this many milliseconds more."""

Group = GroupCoordinator[Any, Any] | StreamsGroup
"""A group with one of the protocols."""


class Cluster:
    """All brokers, as one host that never dies.

    Args:
        world: the world.
        partitions: the number of partitions of each topic, at least 1.
        configs: for each topic, how long its records stay; other topics keep them for good.
        verifies_partitions: ``transaction.partition.verification.enable``: whether a partition asks
            for the open transaction of the first record that it gets (KIP-890).
        brokers: the number of brokers that lead the partitions, at least 1.
        cleaner_backoff_ms: ``log.cleaner.backoff.ms``: how often a broker looks for logs to
            compact, in milliseconds, at least 1.

    Attributes:
        brokers: the number of brokers.
        logs: the log of each partition, named ``topic-0``.
        groups: the groups, by name.
        transactions: the coordinator of all transactions.
        groups_are_away: whether the coordinator of the groups is moving to another broker.
        stalls: by broker that carries out no requests now, the time until which it does not.
    """

    def __init__(
        self,
        world: World,
        partitions: Mapping[str, int],
        configs: Mapping[str, TopicConfig] | None = None,
        *,
        verifies_partitions: bool = True,
        brokers: int = 1,
        cleaner_backoff_ms: int = CLEANER_BACKOFF_MS,
    ) -> None:
        for topic, count in partitions.items():
            if count < 1:
                raise InvalidArgumentError(
                    f"Topic {topic!r} has {count} partitions; give at least 1."
                )
        for topic in configs or {}:
            if topic not in partitions:
                raise InvalidArgumentError(
                    f"The configured topic {topic!r} does not exist. Configure one of: "
                    f"{', '.join(sorted(partitions))}."
                )
        self._world = world
        self.brokers = brokers
        self._partitions = dict(partitions)
        # The partitions of a topic are spread over the brokers; each topic begins at the next one.
        self._leaders = {
            f"{topic}-{number}": (first + number) % brokers
            for first, (topic, count) in enumerate(partitions.items())
            for number in range(count)
        }
        checks = not world.defect("ignores-sequence-numbers")
        self.logs = {
            f"{topic}-{number}": PartitionLog(checks_sequences=checks)
            for topic, count in partitions.items()
            for number in range(count)
        }
        self.groups: dict[str, Group] = {}
        self.groups_are_away = False
        self.stalls: dict[int, int] = {}
        self.transactions = TransactionCoordinator(
            fences=not world.defect("does-not-fence-producer"),
            raises_epochs=not world.defect("keeps-epochs-between-transactions"),
        )
        self._verifies_partitions = verifies_partitions and not world.defect(
            "does-not-verify-partitions"
        )
        # The readers that wait for records, by partition, in the order in which they came.
        self._changes: dict[str, Event] = {}
        self._readers: dict[str, list[Callable[[str], None]]] = {}
        self._host = world.host("brokers")
        self._markers_due = world.time.event()
        self._host.start(self._write_markers())
        self._host.start(self._end_what_takes_too_long())
        self._host.start(clean_up(world, self, configs or {}, cleaner_backoff_ms))
        self._host.start(delete_what_is_old(world, self, configs or {}))
        self._host.start(fail_over(world, self))
        self._host.start(forget_idle_transactions(world, self))
        self._host.start(stall(world, self, brokers))

    def partitions_of(self, topic: str) -> list[str]:
        """The partitions of a topic."""
        return [f"{topic}-{number}" for number in range(self._partitions[topic])]

    def group(self, name: str, rebalance_timeout_ms: int = 300_000) -> Group:
        """A group; the first call makes one with the classic protocol."""
        if name not in self.groups:
            self.groups[name] = GroupCoordinator(
                rebalance_timeout_ms,
                ignores_generation=self._world.defect("ignores-generation"),
                forgets_takeovers=self._world.defect("forgets-who-came-back"),
                changed=partial(self._tell_of_change, name),
                left_out=partial(self._tell_of_loss, name),
            )
            self.groups[name].is_away = self.groups_are_away
        return self.groups[name]

    def next_change(self, group: str) -> Event:
        """An event that happens when the state of the group changes the next time.

        This stands for a request that waits at the brokers.
        """
        return self._changes.setdefault(group, self._world.time.event())

    def _tell_of_change(self, group: str) -> None:
        waiting = self._changes.pop(group, None)
        if waiting is not None:
            waiting.succeed()

    def _tell_of_loss(self, group: str, member: str) -> None:
        self._world.trace.emit("group.member_left_out", "brokers", group=group, member=member)

    # Records.

    def produce(
        self,
        partition: str,
        records: Sequence[Mapping[str, Any]],
        *,
        transactional_id: str = "",
    ) -> list[int]:
        """Append records in order, all or none of them, and return their offsets.

        Args:
            partition: the partition.
            records: the arguments of ``PartitionLog.append``, of one producer.
            transactional_id: the transactional id of the producer, in whose transaction the records
                must be; empty for a producer that is trusted.

        Raises:
            OutOfOrderSequenceError: records of the producer are missing before these.
            ProducerFencedError: a later epoch of the producer was here.
            InvalidTxnStateError: the producer has no open transaction with the partition.
            ConcurrentTransactionsError: the transaction before is not complete yet.
        """
        if transactional_id:
            self._admit(partition, records[0], transactional_id)
        log, emit = self.logs[partition], self._world.trace.emit
        offsets = []
        for record in records:
            end = log.end
            offset = log.append(**record)
            offsets.append(offset)
            if offset == end:
                # A repeated record is not appended again, and so it is no event.
                emit(
                    "log.appended",
                    "brokers",
                    partition=partition,
                    offset=offset,
                    key=record["key"],
                    value=record["value"],
                    timestamp=record["timestamp"],
                    producer=record.get("producer", NO_PRODUCER),
                    transactional=record.get("transactional", False),
                )
        self.tell_readers(partition)
        return offsets

    def _admit(self, partition: str, record: Mapping[str, Any], transactional_id: str) -> None:
        """Let the first record of a transaction into a partition, or refuse it (KIP-890).

        In version 2 this also adds the partition to the transaction.
        """
        identity = ProducerIdentity(record["producer"], record["epoch"])
        if self.logs[partition].is_open(identity.producer, identity.epoch):
            return
        known = self.transactions.of(transactional_id)
        if known is not None and known.version == 2:
            self.add_partitions(transactional_id, identity, [partition])
        elif self._verifies_partitions:
            self.transactions.require_open(transactional_id, identity, partition)

    def produce_all(
        self, batches: Mapping[str, Sequence[Mapping[str, Any]]], *, transactional_id: str = ""
    ) -> dict[str, list[int] | BrokerError]:
        """Append a batch to each of some partitions, as far as that is possible.

        Args:
            batches: by partition, the arguments of ``PartitionLog.append`` of its records.
            transactional_id: as for ``produce``.

        Returns:
            By partition, the offsets, or why the broker has refused the batch.
        """
        replies: dict[str, list[int] | BrokerError] = {}
        refused = 0
        for partition, records in batches.items():
            try:
                if self._world.faults.happens("broker.refused", partition):
                    self._lose_leader(partition, records[0]["producer"])
                replies[partition] = self.produce(
                    partition, records, transactional_id=transactional_id
                )
            except BrokerError as error:
                replies[partition] = error
                refused += 1
        if 0 < refused < len(replies):
            self._world.marks.sometimes(
                "a batch was refused for one partition and taken for another"
            )
        return replies

    def _lose_leader(self, partition: str, producer: int) -> None:
        """Refuse a batch, as a broker does that has just lost the partition."""
        self._world.trace.emit("broker.refused", "brokers", partition=partition, producer=producer)
        raise NotLeaderOrFollowerError(f"{partition} has another leader just now: try again.")

    def queue_ms(self, broker: int) -> int:
        """How long a request waits that comes to a broker now, in milliseconds; mostly 0."""
        return self.stalls[broker] - self._world.now if broker in self.stalls else 0

    def leader_of(self, partition: str) -> int:
        """The broker that leads a partition."""
        return self._leaders[partition]

    def fetch(
        self, partition: str, position: int, isolation: Isolation, max_records: int
    ) -> Fetched | None:
        """The records from a position on, or any prefix of them; ``None`` is no answer.

        Raises:
            OffsetOutOfRangeError: the position is out of range.
        """
        if self._world.faults.happens("broker.empty_fetch", partition):
            # The empty prefix matters most: the reader then lacks everything that the log has.
            cut = self._world.choices.below(NO_ANSWER + 1)
            max_records = min(cut, max_records)
            if cut == NO_ANSWER:
                # The leader of the partition has not answered, so that not even the end is known.
                return None
        return self.logs[partition].fetch(position, isolation, max_records)

    def throttle_ms(self) -> int:
        """How long a reader must wait, without records, because of its quota; mostly 0.

        Source: KIP-13, KIP-219; ``throttle_time_ms`` of a fetch response.
        """
        if not self._world.faults.happens("broker.throttled"):
            return 0
        self._world.marks.sometimes("a fetch was throttled")
        return self._world.choices.between(1, _THROTTLE_MS)

    def delete_records(self, partition: str, offset: int) -> int:
        """Delete all records before an offset, for good; return the new start of the log.

        Raises:
            OffsetOutOfRangeError: the offset is behind the end.

        Source: KIP-107, DeleteRecords.
        """
        log = self.logs[partition]
        if offset > log.end:
            raise OffsetOutOfRangeError(
                f"Records of {partition} cannot be deleted up to {offset}: its end is {log.end}. "
                "Give an offset up to its end."
            )
        if offset > log.log_start:
            log.delete_before(offset)
            self._world.trace.emit(
                "log.deleted", "brokers", partition=partition, offset=offset, reason="request"
            )
        return log.log_start

    def tell_of_records(self, partition: str, reader: Callable[[str], None]) -> None:
        """Call ``reader`` for each record and marker that is appended to a partition from now on.

        This stands for a fetch that waits at the brokers. ``reader`` gets the partition.
        """
        self._readers.setdefault(partition, []).append(reader)

    def stop_telling(self, partition: str, reader: Callable[[str], None]) -> None:
        """Do not call ``reader`` for a partition any more."""
        self._readers[partition].remove(reader)

    # Transactions.

    def end_transaction(
        self, transactional_id: str, identity: ProducerIdentity, *, commit: bool
    ) -> ProducerIdentity:
        """Decide a transaction; its markers follow. Return the identity for the next one.

        Raises:
            ProducerFencedError: another producer has begun under the id.
            InvalidTxnStateError: no transaction is open.
        """
        if self.transactions.end(transactional_id, identity, commit=commit):
            self._world.trace.emit(
                "transaction.decided",
                "brokers",
                transactional_id=transactional_id,
                producer=identity.producer,
                commit=commit,
            )
        self.markers_due()
        ended = self.transactions.of(transactional_id)
        return identity if ended is None else ended.identity

    def add_partitions(
        self, transactional_id: str, identity: ProducerIdentity, targets: Sequence[str]
    ) -> None:
        """Take partitions into the transaction of a producer; the first one begins it.

        Raises:
            ProducerFencedError: another producer has begun under the id.
            ConcurrentTransactionsError: the transaction before is not complete yet.
        """
        transactions = self.transactions
        if transactions.add(transactional_id, identity, targets, self._world.now):
            begun = transactions.of(transactional_id)
            self._world.trace.emit(
                "transaction.begun",
                "brokers",
                transactional_id=transactional_id,
                producer=identity.producer,
                epoch=identity.epoch,
                version=1 if begun is None else begun.version,
            )

    def init_producer(
        self, transactional_id: str, timeout_ms: int, *, version: TransactionVersion = 1
    ) -> ProducerIdentity:
        """A new producer under a transactional id; it fences its predecessor.

        Args:
            transactional_id: the id.
            timeout_ms: how long a transaction may take, in milliseconds.
            version: the version of the protocol that the producer speaks.

        Raises:
            ConcurrentTransactionsError: try again once the markers are written.
        """
        try:
            return self.transactions.init_producer(
                transactional_id, timeout_ms, self._world.now, version=version
            )
        finally:
            # A refusal, too, may have aborted an open transaction, which needs its markers.
            self.markers_due()

    def raise_epoch(self, transactional_id: str, identity: ProducerIdentity) -> ProducerIdentity:
        """Give a producer its next epoch (KIP-360).

        Raises:
            ProducerFencedError: another producer has begun under the id.
            ConcurrentTransactionsError: try again once the markers are written.
        """
        return self.transactions.raise_epoch(transactional_id, identity)

    def commit_offsets(
        self,
        group: str,
        member: tuple[str, int],
        offsets: Mapping[str, int],
        *,
        times: Mapping[str, int] = NO_TIMES,
    ) -> None:
        """Commit offsets of a group, and the times of partitions, outside of any transaction.

        Raises:
            IllegalGenerationError: the member is not of the current generation.
        """
        self.group(group).commit(*member, offsets, times=times)
        self._tell_committed(group, offsets)

    def _tell_committed(self, group: str, offsets: Mapping[str, int]) -> None:
        if offsets:
            self._world.trace.emit(
                "offsets.committed", "brokers", group=group, offsets=dict(offsets)
            )

    def add_offsets(
        self,
        transactional_id: str,
        identity: ProducerIdentity,
        group: str,
        member: tuple[str, int],
        offsets: Mapping[str, int],
        *,
        times: Mapping[str, int] = NO_TIMES,
    ) -> None:
        """Add offsets of a group, and the times of partitions, to a transaction (KIP-447).

        Raises:
            ProducerFencedError: another producer has begun under the id.
            IllegalGenerationError: the member is not of the current generation.
        """
        target = GROUP_TARGET + group
        self.add_partitions(transactional_id, identity, [target])
        self.group(group).commit_in_transaction(identity.producer, *member, offsets, times=times)
        self._world.trace.emit(
            "offsets.added",
            "brokers",
            group=group,
            producer=identity.producer,
            offsets=dict(offsets),
        )

    def markers_due(self) -> None:
        """Start writing the markers of decided transactions."""
        if not self._markers_due.triggered:
            self._markers_due.succeed()

    def _write_markers(self) -> Steps:
        """Write one marker after the other. Readers may see the first before the second."""
        world = self._world
        while True:
            pending = self._writable_markers()
            if not pending:
                self._markers_due = world.time.event()
                yield self._markers_due
                continue
            delay = world.choices.between(1, _MARKER_MS)
            if world.faults.happens("broker.marker_delayed"):
                delay += world.choices.between(1, _LATE_MARKER_MS)
            yield world.time.timeout(delay)
            # A coordinator may have moved away since.
            pending = self._writable_markers()
            if pending:
                self._write(world.choices.pick(pending))

    def _writable_markers(self) -> list[Marker]:
        """The markers whose coordinator is here; a coordinator that comes back writes its own."""
        if self.transactions.is_away:
            return []
        pending = self.transactions.pending_markers()
        if self.groups_are_away:
            return [each for each in pending if not each.target.startswith(GROUP_TARGET)]
        return pending

    def _write(self, marker: Marker) -> None:
        world, identity = self._world, marker.identity
        offset = -1
        if marker.target.startswith(GROUP_TARGET):
            group = marker.target.removeprefix(GROUP_TARGET)
            offsets = self.group(group).end_transaction(identity.producer, commit=marker.commit)
            self._tell_committed(group, offsets)
        else:
            offset = self.logs[marker.target].end_transaction(
                identity.producer, commit=marker.commit, timestamp=world.now, epoch=identity.epoch
            )
            self.tell_readers(marker.target)
        complete = self.transactions.marked(marker)
        world.marks.sometimes(
            "one partition showed a transaction before another did", holds=not complete
        )
        world.trace.emit(
            "transaction.marker",
            "brokers",
            partition=marker.target,
            offset=offset,
            producer=identity.producer,
            transactional_id=marker.transactional_id,
            commit=marker.commit,
            complete=complete,
        )

    def _end_what_takes_too_long(self) -> Steps:
        world = self._world
        while True:
            yield world.time.timeout(_CHECK_EVERY_MS)
            for transactional_id in self.transactions.expire(world.now):
                world.marks.sometimes("a transaction was aborted because it took too long")
                world.trace.emit(
                    "transaction.timed_out", "brokers", transactional_id=transactional_id
                )
                self.markers_due()
            for group in self.groups.values():
                group.advance(world.now)

    def tell_readers(self, partition: str) -> None:
        """Call the readers that wait for records of a partition."""
        for tell in self._readers.get(partition, ()):
            tell(partition)

    # For observers, which are no part of the world.

    def committed_records(self, partition: str) -> list[LogEntry]:
        """All records that were ever committed, including those that the log has given up."""
        return self.logs[partition].committed
