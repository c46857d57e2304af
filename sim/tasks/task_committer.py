"""The commit of the tasks of a thread, step by step: the host may die between any two steps.

Sources: KIP-447, KIP-892; Kafka, StreamThread#maybeCommit, TaskExecutor#commitOffsetsOrTransaction
and StreamsProducer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from typing import Any

from simpy.events import Event

from streamproof.sim.actor_hosts import Host, Steps
from streamproof.sim.application import Application
from streamproof.sim.broker_errors import BrokerError, RequestTimeoutError
from streamproof.sim.brokers.transaction_coordinator import TransactionVersion
from streamproof.sim.clients.consumer import Consumer
from streamproof.sim.clients.membership import Membership
from streamproof.sim.clients.producer import Producer
from streamproof.sim.clients.repartition_purge import Purge
from streamproof.sim.decisions.commits import (
    NOTHING,
    UNLIMITED,
    Uncommitted,
    commit_is_due,
    exceeds,
    periodic_commit_after,
)
from streamproof.sim.decisions.recovery import Closing, commits_after
from streamproof.sim.state_directory import StateDirectory
from streamproof.sim.tasks.stream_task import StreamTask

__all__ = ["Committer"]


class Committer:
    """Commits for a thread: it has the producer, and takes the steps of a commit in their order.

    Args:
        application: the application.
        host: the process of the thread.
        disk: the state directory of the process.
        consumer: the consumer of the thread, whose positions are committed.
        membership: the member that fences a commit.
        actor: the name of the thread, for the trace.
        transactional_id: the transactional id; empty under at-least-once.
        transaction_version: the version of the protocol of transactions that the producer speaks.
        limits: the share of the thread in the limits for staged records and bytes.

    Attributes:
        producer: the producer of all tasks; another one after each :meth:`renew_producer`.
    """

    def __init__(
        self,
        application: Application,
        host: Host,
        disk: StateDirectory,
        consumer: Consumer,
        membership: Membership[Any, Any],
        *,
        actor: str,
        transactional_id: str,
        transaction_version: TransactionVersion,
        limits: Uncommitted = UNLIMITED,
    ) -> None:
        self._transaction_version: TransactionVersion = transaction_version
        self._limits = limits
        self._application = application
        self._config = application.config
        self._world = application.world
        self._host = host
        self._disk = disk
        self._consumer = consumer
        self._membership = membership
        self._actor = actor
        self._transactional_id = transactional_id
        self._purge = Purge(
            self._world,
            host,
            application.network,
            application.cluster,
            application.topology.repartitions,
        )
        self._last_commit = host.now
        # The offsets of the last commits.
        self._known: dict[str, int] = {}
        self.producer = self._new_producer()

    def maybe_commit(
        self,
        running: Callable[[], Sequence[StreamTask]],
        active: Callable[[], Iterable[StreamTask]],
        *,
        requested: bool,
    ) -> Generator[Event, Any, bool]:
        """Commit the running tasks, if it is time; return whether it was.

        Args:
            running: returns the tasks that process.
            active: returns the tasks that process or restore: both may have staged bytes.
            requested: whether a processor has requested a commit.
        """
        staged = self._staged(active())
        due = commit_is_due(
            self._host.now,
            self._last_commit,
            commit_interval_ms=self._interval_ms,
            staged=staged,
            limits=UNLIMITED if self._world.defect("stages-without-bound") else self._limits,
        )
        if self._world.defect("purges-consumed-offsets"):
            consumed = (each for task in running() for each in task.consumed.items())
            self._purge.committed({partition: at + 1 for partition, at in consumed})
            self._purge.maybe_purge()
        if self._membership.rebalance_in_progress:
            return False
        if exceeds(staged, self._limits):
            self._world.trace.emit(
                "thread.staged", self._actor, records=staged.records, bytes=staged.bytes
            )
        if not (due or requested):
            return False
        with self._membership.held():
            yield from self.commit(running(), Closing.COMMIT)
        self._world.marks.sometimes("a commit was requested before it was due", holds=not due)
        self._last_commit = periodic_commit_after(self._host.now, self._last_commit, due=due)
        self._purge.maybe_purge()
        return True

    def _staged(self, tasks: Iterable[StreamTask]) -> Uncommitted:
        """What all tasks of the thread have staged."""
        counts = [task.uncommitted() for task in tasks]
        if self._world.defect("counts-one-task-alone"):
            return max(counts, default=NOTHING, key=lambda each: each.bytes)
        return _sum(counts)

    @property
    def may_be_due_early(self) -> bool:
        """Whether staged records or bytes may make a commit due."""
        return self._application.task_config.stages and any(each > 0 for each in self._limits)

    @property
    def _interval_ms(self) -> int:
        late = self._world.defect("commits-ten-times-too-late")
        return self._config.commit_interval_ms * (10 if late else 1)

    @property
    def due_in_ms(self) -> int:
        """The time until the next periodic commit, by the clock of the host; at least 1."""
        due = self._last_commit + self._interval_ms + 1
        return max(due - self._host.now, 1)

    def commit(self, tasks: Sequence[StreamTask], closing: Closing) -> Steps:
        """Commit tasks.

        The order of the steps makes the commit safe. Caches and producer are flushed first, so that
        the changelogs have every write. Then the input offsets are committed. The stores come last:
        an offset in a store vouches for changelog records, which must be committed by then.

        Args:
            tasks: all running tasks of the thread, since one transaction covers them all (KIP-447).
            closing: the reason for the commit.
        """
        positions = self._positions(tasks)
        due = [task for task in tasks if task.commit_needed or task.has_passed_markers(positions)]
        if not due and not self.producer.in_transaction:
            return
        yield from self._flush(due)
        offsets: dict[str, int] = {}
        times: dict[str, int] = {}
        for task in due:
            if not self._world.defect("keeps-stale-offset"):
                task.note_written()
            offsets |= task.committable_offsets(positions)
            times |= task.committable_times()
        if self._world.defect("commits-fetched-offsets"):
            offsets = {each: positions[each] or 0 for each in offsets}
        if self._world.defect("commits-store-first"):
            yield from self._commit_stores(due, closing)
        if self._config.exactly_once:
            yield from self._commit_transaction(offsets, times)
        elif offsets:
            group = self._application.topology.application_id
            member = self._membership.credentials
            yield from self._application.network.call(
                self._host,
                "commit offsets",
                lambda: self._application.cluster.commit_offsets(
                    group, member, offsets, times=times
                ),
            )
        self._purge.committed(offsets)
        self._world.trace.emit(
            "thread.committed", self._actor, tasks=[task.id for task in due], offsets=offsets
        )
        yield from self._commit_stores(due, closing)
        for task in due:
            task.committed(offsets)

    def _positions(self, tasks: Iterable[StreamTask]) -> dict[str, int | None]:
        """The position of the consumer in each input; it passes markers, too."""
        if self._world.defect("commits-last-record"):
            return {each: at + 1 for task in tasks for each, at in task.consumed.items()}
        return {each: self._consumer.position(each) for each in self._consumer.assignment}

    def _flush(self, due: list[StreamTask]) -> Steps:
        """Flush the record caches, and wait until the brokers have all records."""
        for task in due:
            if not self._world.defect("leaves-caches-unflushed"):
                task.flush_caches()
        if self._world.defect("flushes-changelogs-alone"):
            changelogs = [each for task in due for each in task.spec.changelogs.values()]
            yield from self.producer.flush_some(changelogs)
        elif not self._world.defect("commits-before-records-arrive"):
            yield from self.producer.flush()

    def _commit_stores(self, tasks: Iterable[StreamTask], closing: Closing) -> Steps:
        for task in tasks:
            if commits_after(task.traits, closing):
                for name in list(task.stores):
                    yield self._world.time.timeout(self._disk.delay_ms)
                    task.commit_store(name)

    def _commit_transaction(self, offsets: dict[str, int], times: dict[str, int]) -> Steps:
        """Commit all tasks of the thread in one transaction (KIP-447)."""
        if not offsets and not self.producer.in_transaction:
            return
        if self._world.defect("keeps-transaction-open") and offsets.items() <= self._known.items():
            return
        self._known |= offsets
        if offsets:
            group, member = self._application.topology.application_id, self._membership.credentials
            yield from self.producer.send_offsets(group, member, offsets, times=times)
        yield from self.producer.commit()

    def renew_producer(self, tasks: Iterable[StreamTask], *, first: bool = False) -> Steps:
        """Begin with a new producer, which fences its predecessor and aborts its open transaction.

        Args:
            tasks: the tasks that write with the new producer from now on.
            first: whether this is the first producer of the thread.
        """
        if not first:
            self.producer.close()
            self.producer = self._new_producer()
            for task in tasks:
                task.use(self.producer)
        while True:
            try:
                yield from self.producer.init()
            except RequestTimeoutError:
                if self._world.defect("dies-of-a-second-fault") and not first:
                    # The thread stops here for ever, and keeps its locks.
                    yield self._world.time.event()
                continue
            self._tell_of_producer()
            return

    def _tell_of_producer(self) -> None:
        self._world.trace.emit("thread.producer", self._actor, producer=self.producer.producer_id)

    def start_over(self, tasks: Iterable[StreamTask]) -> Steps:
        """End the transaction in which something went wrong, so that the tasks can begin anew.

        A producer that has only given up a record aborts its transaction, and goes on. After a
        commit without an answer, nobody but a new producer knows how the transaction has ended.

        Args:
            tasks: the tasks that write with a new producer, if one is needed.

        Source: Kafka, RecordCollectorImpl#closeDirty and StreamsProducer#abortTransaction.
        """
        if self._config.exactly_once and self.producer.has_given_up:
            with suppress(BrokerError):
                yield from self.producer.start_over()
                self._tell_of_producer()
                return
        yield from self.renew_producer(tasks)

    @property
    def is_in_doubt(self) -> bool:
        """Whether an unanswered request leaves the thread unable to go on.

        Under exactly-once the thread cannot know whether the transaction was committed. And a
        producer that has given up on a record cannot send another one.
        """
        if self._world.defect("goes-on-after-commit-timeout"):
            return False
        return self._config.exactly_once or self.producer.error is not None

    def _new_producer(self) -> Producer:
        return Producer(
            self._world,
            self._host,
            self._application.network,
            self._application.cluster,
            transactional_id=self._transactional_id,
            transaction_timeout_ms=self._config.transaction_timeout_ms,
            max_block_ms=self._config.max_block_ms,
            version=self._transaction_version,
            max_in_flight=self._config.max_in_flight_requests_per_connection,
        )


def _sum(counts: Iterable[Uncommitted]) -> Uncommitted:
    """The sum of what several tasks have staged."""
    each = list(counts)
    return Uncommitted(sum(one.records for one in each), sum(one.bytes for one in each))
