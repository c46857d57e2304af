"""The brokers together: partitions, transactions and groups, and what happens in them by itself.

What is asked of the brokers takes effect at once here; the network is what takes time. Two things
go on without being asked: markers of decided transactions are written, one after the other, and
what takes too long is ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from simpy.events import Event

from streamproof.sim.brokers.groups import GroupCoordinator
from streamproof.sim.brokers.log import Entry, Fetched, Isolation, PartitionLog
from streamproof.sim.brokers.transactions import Marker, ProducerIdentity, TransactionCoordinator
from streamproof.sim.hosts import Steps
from streamproof.sim.world import World
from streamproof.stores.errors import InvalidArgumentError

__all__ = ["GROUP_TARGET", "Cluster"]

GROUP_TARGET = "group:"
"""What the name of a group begins with among the targets of a transaction."""

_CHECK_EVERY_MS = 1_000
"""How often time-outs of transactions and members are looked for; Kafka: 10 s for transactions."""

_MARKER_MS = 3
"""A marker takes from 1 to so many milliseconds to be written."""

_LATE_MARKER_MS = 500
"""A delayed one takes up to so many more."""


class Cluster:
    """All brokers, as one host that never dies.

    Args:
        world: the world.
        partitions: by topic, how many it has; at least 1.

    Attributes:
        logs: the log of each partition, named ``topic-0``.
        groups: the groups, by name.
        transactions: the coordinator of all transactions.
    """

    def __init__(self, world: World, partitions: Mapping[str, int]) -> None:
        for topic, count in partitions.items():
            if count < 1:
                raise InvalidArgumentError(
                    f"Topic {topic!r} has {count} partitions; it needs at least 1."
                )
        self._world = world
        self._partitions = dict(partitions)
        self.logs = {
            f"{topic}-{number}": PartitionLog()
            for topic, count in partitions.items()
            for number in range(count)
        }
        self.groups: dict[str, GroupCoordinator[Any, Any]] = {}
        self.transactions = TransactionCoordinator()
        self._appended: dict[str, list[Event]] = {}
        self._host = world.host("brokers")
        self._markers_due = world.time.event()
        self._host.start(self._write_markers())
        self._host.start(self._end_what_takes_too_long())

    def partitions_of(self, topic: str) -> list[str]:
        """The partitions of a topic."""
        return [f"{topic}-{number}" for number in range(self._partitions[topic])]

    def group(self, name: str, rebalance_timeout_ms: int = 300_000) -> GroupCoordinator[Any, Any]:
        """A group, made when it is first asked for."""
        if name not in self.groups:
            self.groups[name] = GroupCoordinator(rebalance_timeout_ms)
        return self.groups[name]

    # Records.

    def produce(self, partition: str, records: Iterable[Mapping[str, Any]]) -> list[int]:
        """Append records, in order, all or none of them; their offsets.

        Args:
            partition: where to.
            records: the arguments of ``PartitionLog.append``.

        Raises:
            OutOfOrderSequenceError: records of the producer are missing before these.
            ProducerFencedError: a later epoch of the producer was here.
        """
        log = self.logs[partition]
        offsets = [log.append(**each) for each in records]
        self._wake(partition)
        return offsets

    def fetch(
        self, positions: Mapping[str, int], isolation: Isolation, max_records: int
    ) -> dict[str, Fetched]:
        """What there is from each position on; any prefix of it, and sometimes nothing.

        Raises:
            OffsetOutOfRangeError: a position is out of range.
        """
        found = {}
        for partition, position in positions.items():
            count = max_records
            if self._world.faults.happens("broker.empty_fetch"):
                count = self._world.choices.below(max_records)
            found[partition] = self.logs[partition].fetch(position, isolation, count)
        return found

    def wait_for_records(self, partitions: Iterable[str]) -> Event:
        """An event that comes about with the next record or marker in one of the partitions."""
        event = self._world.time.event()
        for partition in partitions:
            self._appended.setdefault(partition, []).append(event)
        return event

    def stop_waiting(self, event: Event, partitions: Iterable[str]) -> None:
        """Forget an event that nobody waits for any more."""
        for partition in partitions:
            waiting = self._appended.get(partition, [])
            if event in waiting:
                waiting.remove(event)

    # Transactions.

    def end_transaction(
        self, transactional_id: str, identity: ProducerIdentity, *, commit: bool
    ) -> None:
        """Decide a transaction; its markers follow.

        Raises:
            ProducerFencedError: another producer has begun under the id.
            InvalidTxnStateError: there is nothing to end.
        """
        self.transactions.end(transactional_id, identity, commit=commit)
        self.markers_due()

    def init_producer(self, transactional_id: str, timeout_ms: int) -> ProducerIdentity:
        """A new producer under a transactional id, which fences the one before.

        Raises:
            ConcurrentTransactionsError: try again once the markers are written.
        """
        try:
            return self.transactions.init_producer(transactional_id, timeout_ms)
        finally:
            self.markers_due()

    def add_offsets(
        self,
        transactional_id: str,
        identity: ProducerIdentity,
        group: str,
        member: tuple[str, int],
        offsets: Mapping[str, int],
    ) -> None:
        """Add offsets of a group to a transaction (KIP-447).

        Raises:
            ProducerFencedError: another producer has begun under the id.
            IllegalGenerationError: the member is not of the current generation.
        """
        target = GROUP_TARGET + group
        self.transactions.add(transactional_id, identity, [target], self._world.now)
        self.group(group).commit_in_transaction(identity.producer, *member, offsets)

    def markers_due(self) -> None:
        """Let the markers be written that are to be written."""
        if not self._markers_due.triggered:
            self._markers_due.succeed()

    def _write_markers(self) -> Steps:
        """Write one marker after the other; between two of them, readers see the difference."""
        world = self._world
        while True:
            pending = self.transactions.pending_markers()
            if not pending:
                self._markers_due = world.time.event()
                yield self._markers_due
                continue
            delay = world.choices.between(1, _MARKER_MS)
            if world.faults.happens("broker.marker_delayed"):
                delay += world.choices.between(1, _LATE_MARKER_MS)
            yield world.time.timeout(delay)
            self._write(world.choices.pick(pending))

    def _write(self, marker: Marker) -> None:
        world, identity = self._world, marker.identity
        if marker.target.startswith(GROUP_TARGET):
            group = self.group(marker.target.removeprefix(GROUP_TARGET))
            group.end_transaction(identity.producer, commit=marker.commit)
        else:
            self.logs[marker.target].end_transaction(
                identity.producer, commit=marker.commit, timestamp=world.now, epoch=identity.epoch
            )
            self._wake(marker.target)
        complete = self.transactions.marked(marker)
        world.marks.sometimes(
            "one partition showed a transaction before another did", holds=not complete
        )
        world.trace.emit(
            "transaction.marker",
            "brokers",
            partition=marker.target,
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
            for name, group in self.groups.items():
                for member in group.advance(world.now):
                    world.trace.emit("group.member_left_out", "brokers", group=name, member=member)

    def _wake(self, partition: str) -> None:
        for event in self._appended.pop(partition, ()):
            if not event.triggered:
                event.succeed(partition)

    # What an observer sees, who is no part of the world.

    def committed_records(self, partition: str) -> list[Entry]:
        """The records that a reader of committed data sees once all transactions have ended."""
        log = self.logs[partition]
        return log.fetch(log.log_start, "read_committed", max(log.end, 1)).records
