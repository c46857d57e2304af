"""The stream thread: the loop that polls, processes, commits, and follows the group.

Sources: KIP-447, KIP-892, KIP-1035; Kafka, StreamThread and TaskManager.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from simpy.events import Event

from streamproof.sim.application import Application
from streamproof.sim.clients.consumer import Consumer
from streamproof.sim.clients.membership import Membership
from streamproof.sim.clients.producer import Producer
from streamproof.sim.decisions.commits import commit_is_due, next_iterations
from streamproof.sim.decisions.lag import LATEST_OFFSET, offset_sum
from streamproof.sim.decisions.recovery import Closing, commits_after, wipes_after
from streamproof.sim.errors import (
    BrokerError,
    OffsetOutOfRangeError,
    RequestTimeoutError,
    UnstableOffsetCommitError,
)
from streamproof.sim.hosts import Host, Steps
from streamproof.sim.tasks.assignor import Subscription, ThreadAssignment, share_out
from streamproof.sim.tasks.stream_task import StreamTask, TaskState
from streamproof.sim.tasks.updater import StateUpdater
from streamproof.stores.errors import TaskCorruptedError

if TYPE_CHECKING:
    from streamproof.sim.instances import Disk

__all__ = ["POLL_MS", "StreamThread"]

POLL_MS = 100
"""``poll.ms``: how long a poll waits for records."""

MAX_POLL_INTERVAL_MS = 300_000
"""``max.poll.interval.ms``: after half of it a thread polls again, whatever there is to do."""


class StreamThread:
    """One stream thread, with its consumer, producer, state updater and membership.

    Args:
        application: what runs.
        host: the process that it belongs to.
        disk: where its tasks keep their stores.
        number: of the thread within the process.

    Attributes:
        name: for the trace.
        tasks: the tasks that it owns, active ones and standbys, by id.
    """

    def __init__(self, application: Application, host: Host, disk: Disk, number: int) -> None:
        self._application = application
        self._config = application.config
        self._world = application.world
        self._host = host
        self._disk = disk
        self.name = f"{host.name}/thread-{number}"
        self._transactional_id = (
            f"{application.topology.application_id}-{host.name}-{number}"
            if self._config.exactly_once
            else ""
        )
        isolation = "read_committed" if self._config.exactly_once else "read_uncommitted"
        self._consumer = Consumer(
            self._world,
            host,
            application.network,
            application.cluster,
            isolation=isolation,  # type: ignore[arg-type]
        )
        self._updater = StateUpdater(
            self._world,
            host,
            application.network,
            application.cluster,
            isolation=isolation,  # type: ignore[arg-type]
            actor=f"{host.name}/updater-{number}",
        )
        self._membership: Membership[Subscription, ThreadAssignment] = Membership(
            self._world,
            host,
            application.network,
            application.cluster,
            group=application.topology.application_id,
            describe=self._subscription,
            assign=self._lead,
            session_timeout_ms=self._config.session_timeout_ms,
        )
        self._producer = self._new_producer()
        self.tasks: dict[str, StreamTask] = {}
        self._standbys: set[str] = set()
        # Tasks that were assigned and have nothing open yet.
        self._pending: dict[str, bool] = {}
        self._last_commit = self._world.now
        self._next_probing: int | None = None
        host.start(self._run())

    # The loop.

    def _run(self) -> Steps:
        yield from self._renew_producer(first=True)
        self._membership.rejoin()
        iterations = 1
        while True:
            try:
                iterations = yield from self._once(iterations)
            except TaskCorruptedError:
                yield from self._handle_corruption(list(self._active()))
            except RequestTimeoutError:
                if self._is_in_doubt:
                    yield from self._handle_corruption(list(self._active()))
            except BrokerError as error:
                yield from self._handle_lost(error)

    def _once(self, iterations: int) -> Generator[Event, Any, int]:
        """One round: follow the group, poll, process, commit."""
        yield from self._follow_group()
        self._resume_what_has_space()
        try:
            polled = yield from self._consumer.poll(POLL_MS)
        except OffsetOutOfRangeError as error:
            self._consumer.seek(error.args[1], self._log_start(error.args[1]))
            return iterations
        polled_at = self._host.now
        for partition, records in polled.records.items():
            task = self._task_of(partition)
            if task is not None and task.queues.add(partition, records):
                self._consumer.pause([partition])
        for task in self._running():
            task.queues.update_lags(
                {each: self._consumer.current_lag(each) for each in task.spec.inputs}
            )
        while True:
            yield from self._check_updater()
            processed = yield from self._process(iterations)
            committed = yield from self._maybe_commit()
            late = self._host.now - polled_at > MAX_POLL_INTERVAL_MS // 2
            iterations = next_iterations(iterations, late_for_poll=late, interrupted=committed)
            if not processed or late or self._membership.is_rebalancing:
                return iterations

    def _process(self, iterations: int) -> Generator[Event, Any, int]:
        """Up to so many records of each task, in the order of their ids."""
        processed = 0
        for task in self._running():
            for _ in range(iterations):
                if not task.process(self._host.now):
                    break
                processed += 1
                self._maybe_flush(task)
            # Others may act, and the host may die, between two tasks.
            yield self._world.time.timeout(0)
        return processed

    def _maybe_flush(self, task: StreamTask) -> None:
        """Flush a store now and then: the real ones do it when a buffer is full."""
        for holder in task.stores.values():
            if self._world.choices.chance(self._config.flush_probability):
                holder.store.flush()
                self._world.trace.emit("store.flushed", self.name, task=task.id)

    def _resume_what_has_space(self) -> None:
        for task in self._running():
            paused = set(self._consumer.paused())
            self._consumer.resume(
                each for each in task.spec.inputs if each in paused and task.queues.has_space(each)
            )

    # Committing.

    def _maybe_commit(self) -> Generator[Event, Any, bool]:
        staged = sum(task.uncommitted_bytes() for task in self._active())
        due = commit_is_due(
            self._host.now,
            self._last_commit,
            commit_interval_ms=self._config.commit_interval_ms,
            uncommitted_bytes=staged,
            max_uncommitted_bytes=self._config.max_uncommitted_bytes,
        )
        if not due or self._membership.is_rebalancing:
            return False
        with self._membership.held():
            yield from self._commit(self._running(), Closing.COMMIT)
        self._last_commit = self._host.now
        return True

    def _commit(self, tasks: Iterable[StreamTask], closing: Closing) -> Steps:
        """Commit tasks, step by step; the host may die between any two of them."""
        positions = {each: self._consumer.position(each) for each in self._consumer.assignment}
        due = [task for task in tasks if task.commit_needed or task.has_passed_markers(positions)]
        if not due and not self._producer.in_transaction:
            return
        yield from self._producer.flush()
        offsets: dict[str, int] = {}
        for task in due:
            task.note_written()
            offsets |= task.committable_offsets(positions)
        if self._config.exactly_once:
            yield from self._commit_transaction(offsets)
        elif offsets:
            group = self._application.cluster.group(self._application.topology.application_id)
            member = self._membership.credentials
            yield from self._call("commit offsets", lambda: group.commit(*member, offsets))
        self._world.trace.emit(
            "thread.committed", self.name, tasks=[task.id for task in due], offsets=offsets
        )
        for task in due:
            if commits_after(task.traits, closing):
                for name in list(task.stores):
                    yield self._world.time.timeout(0)
                    task.commit_store(name)
            task.committed()

    def _commit_transaction(self, offsets: dict[str, int]) -> Steps:
        """All tasks of the thread in one transaction (KIP-447)."""
        if not offsets and not self._producer.in_transaction:
            return
        if offsets:
            yield from self._producer.send_offsets(
                self._application.topology.application_id, self._membership.credentials, offsets
            )
        yield from self._producer.commit()

    # The group.

    def _subscription(self) -> Subscription:
        sums = dict(self._disk.sums)
        for task in self.tasks.values():
            if not task.spec.changelogs:
                continue
            if task.state is TaskState.RUNNING:
                sums[task.id] = LATEST_OFFSET
            elif task.stores:
                sums[task.id] = offset_sum(
                    None if each.offset is None else each.offset + 1
                    for each in task.stores.values()
                )
        owned = {name for name in self.tasks if name not in self._standbys}
        owned |= {name for name, is_active in self._pending.items() if is_active}
        return Subscription(self._host.name, tuple(sorted(owned)), sums)

    def _lead(
        self, subscriptions: dict[str, Subscription]
    ) -> Generator[Event, Any, dict[str, ThreadAssignment]]:
        """Assign, as the leader of the group."""
        application = self._application
        logs = application.cluster.logs

        def ends() -> dict[str, int]:
            return {
                name: sum(logs[each].end for each in spec.changelogs.values())
                for name, spec in application.tasks.items()
                if spec.changelogs
            }

        known = yield from self._call("list offsets", ends)
        return share_out(subscriptions, known, application.stateless, self._config.assignor)

    def _follow_group(self) -> Steps:
        if self._membership.was_left_out:
            yield from self._handle_lost(None)
            # Only now: before, it would tell the group that it has what it has lost.
            self._membership.take_loss()
        with self._membership.held():
            assignment = self._membership.take_assignment()
            if assignment is not None:
                yield from self._take(assignment)
        if self._next_probing is not None and self._world.now >= self._next_probing:
            self._next_probing = None
            self._membership.rejoin()
        yield from self._open_pending()

    def _take(self, assignment: ThreadAssignment) -> Steps:
        """Give up what is not ours any more, and get ready for what is new."""
        self._world.trace.emit(
            "thread.assigned",
            self.name,
            generation=self._membership.generation,
            active=list(assignment.active),
            standby=list(assignment.standby),
        )
        wanted = {
            **dict.fromkeys(assignment.standby, False),
            **dict.fromkeys(assignment.active, True),
        }
        revoked = [
            task
            for name, task in self.tasks.items()
            if wanted.get(name) is not (name not in self._standbys)
        ]
        active = [task for task in revoked if task.id not in self._standbys]
        closing = Closing.CLEAN
        if any(task.commit_needed for task in active):
            try:
                yield from self._commit(self._running(), Closing.COMMIT)
            except RequestTimeoutError:
                # What is not ours any more is given up in any case (KAFKA-16876).
                closing = Closing.DIRTY
        for task in revoked:
            yield from self._give_up(task, closing)
        if closing is Closing.DIRTY and self._is_in_doubt:
            yield from self._handle_corruption(self._running())
        self._pending = {
            name: is_active for name, is_active in wanted.items() if name not in self.tasks
        }
        self._assign_inputs()
        if assignment.probing:
            self._next_probing = self._world.now + self._config.probing_rebalance_interval_ms
        if active or assignment.follow_up:
            self._membership.rejoin()

    def _open_pending(self) -> Steps:
        """Open the tasks that were assigned; one whose directory is taken waits."""
        for name, is_active in list(self._pending.items()):
            if not self._disk.lock(name, self.name):
                continue
            del self._pending[name]
            self._open(name, is_active=is_active)
            yield self._world.time.timeout(0)

    def _open(self, name: str, *, is_active: bool) -> None:
        application = self._application
        task = StreamTask(
            name,
            application.tasks[name],
            application.task_config,
            choices=self._world.choices,
            trace=self._world.trace,
            actor=self.name,
        )
        make = partial(self._disk.make_store, transactional=self._config.transactional)
        was_empty = self._disk.is_empty(name)
        try:
            task.open(self._disk.directory(name), make, self._producer, was_empty=was_empty)
        except TaskCorruptedError:
            self._world.trace.emit("task.wiped", self.name, task=name)
            self._disk.wipe(name)
            task.open(self._disk.directory(name), make, self._producer, was_empty=True)
        self.tasks[name] = task
        if not is_active:
            self._standbys.add(name)
        self._updater.add(task, is_active=is_active)
        self._assign_inputs()

    def _check_updater(self) -> Steps:
        """Let restored tasks run, and begin failed ones anew."""
        while self._updater.restored:
            task = self._updater.restored[0]
            yield from self._begin(task)
        while self._updater.failed:
            task, _ = self._updater.failed.pop(0)
            yield from self._begin_anew([task])

    def _begin(self, task: StreamTask) -> Steps:
        """Go on from the committed offsets; until these are stable, the task waits."""
        group = self._application.cluster.group(self._application.topology.application_id)
        try:
            offsets = yield from self._call(
                "fetch offsets",
                lambda: {
                    each: group.committed(each, require_stable=self._config.exactly_once)
                    for each in task.spec.inputs
                },
            )
        except (RequestTimeoutError, UnstableOffsetCommitError):
            yield self._world.time.timeout(POLL_MS)
            return
        if task not in self._updater.restored:
            return
        self._updater.restored.remove(task)
        if commits_after(task.traits, Closing.RESTORED):
            task.commit_stores(Closing.RESTORED)
        task.become(TaskState.RUNNING)
        self._assign_inputs()
        for partition, offset in offsets.items():
            start = self._log_start(partition)
            self._consumer.seek(partition, start if offset is None else offset)

    def _assign_inputs(self) -> None:
        """Read the inputs of running tasks; what is not running has no use for records."""
        self._consumer.assign(
            partition for task in self._running() for partition in task.spec.inputs
        )

    # What goes wrong.

    def _give_up(self, task: StreamTask, closing: Closing) -> Steps:
        """Suspend and close a task, and unlock its directory."""
        self._updater.remove(task.id)
        task.suspend()
        yield self._world.time.timeout(0)
        if closing is Closing.CLEAN:
            self._disk.sums[task.id] = offset_sum(
                None if each.offset is None else each.offset + 1 for each in task.stores.values()
            )
        task.close(closing)
        if wipes_after(task.traits, closing):
            self._world.trace.emit("task.wiped", self.name, task=task.id)
            self._disk.wipe(task.id)
        self._disk.unlock(task.id, self.name)
        del self.tasks[task.id]
        self._standbys.discard(task.id)

    def _handle_lost(self, error: BrokerError | None) -> Steps:
        """Somebody else has our tasks by now: close them without a commit, and begin anew."""
        self._world.trace.emit("thread.lost", self.name, reason=type(error).__name__)
        with self._membership.held():
            for task in list(self._active()):
                restoring = task.state is TaskState.RESTORING
                yield from self._give_up(task, Closing.CLEAN if restoring else Closing.DIRTY)
            self._pending.clear()
            self._assign_inputs()
        yield from self._renew_producer()
        self._membership.rejoin()

    @property
    def _is_in_doubt(self) -> bool:
        """Whether a request that was not answered leaves open what is in the logs.

        Under exactly-once nobody knows whether the transaction was committed. And a producer that
        has given up on a record cannot send another one.
        """
        return self._config.exactly_once or self._producer.error is not None

    def _handle_corruption(self, tasks: list[StreamTask]) -> Steps:
        """Begin tasks anew whose stores cannot be trusted."""
        yield from self._begin_anew([task for task in tasks if task.state is TaskState.RUNNING])
        yield from self._renew_producer()

    def _begin_anew(self, tasks: list[StreamTask]) -> Steps:
        for task in tasks:
            is_active = task.id not in self._standbys
            self._world.trace.emit("task.corrupted", self.name, task=task.id)
            yield from self._give_up(task, Closing.CORRUPTED)
            self._pending[task.id] = is_active
        self._assign_inputs()

    def _renew_producer(self, *, first: bool = False) -> Steps:
        """A new producer, which fences the one before, and aborts what it left open."""
        if not first:
            self._producer.close()
            self._producer = self._new_producer()
            for task in self.tasks.values():
                task.use(self._producer)
        while True:
            try:
                yield from self._producer.init()
            except RequestTimeoutError:
                continue
            return

    def _new_producer(self) -> Producer:
        return Producer(
            self._world,
            self._host,
            self._application.network,
            self._application.cluster,
            transactional_id=self._transactional_id,
            transaction_timeout_ms=self._config.transaction_timeout_ms,
        )

    # What there is.

    def _active(self) -> list[StreamTask]:
        return [task for name, task in sorted(self.tasks.items()) if name not in self._standbys]

    def _running(self) -> list[StreamTask]:
        return [task for task in self._active() if task.state is TaskState.RUNNING]

    def _task_of(self, partition: str) -> StreamTask | None:
        return next((task for task in self._running() if partition in task.spec.inputs), None)

    def _log_start(self, partition: str) -> int:
        return self._application.cluster.logs[partition].log_start

    def _call(self, what: str, handle: Any) -> Generator[Event, Any, Any]:
        return (yield from self._application.network.call(self._host.name, what, handle))
