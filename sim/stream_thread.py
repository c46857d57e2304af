"""The stream thread: the loop that polls, processes, commits, and follows the group.

Sources: KIP-447, KIP-892, KIP-1035; Kafka, StreamThread and TaskManager.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from simpy.events import Event

from streamproof.errors import StreamproofError
from streamproof.sim.actor_hosts import Host, Steps
from streamproof.sim.application import Application
from streamproof.sim.broker_errors import (
    BrokerError,
    OffsetOutOfRangeError,
    RequestTimeoutError,
    TaskTimeoutError,
    UnstableOffsetCommitError,
    UpdaterDiedError,
)
from streamproof.sim.clients.producer import Producer
from streamproof.sim.decisions.commits import UNLIMITED, Uncommitted, next_iterations
from streamproof.sim.decisions.recovery import Closing, closing_in_doubt, commits_after, wipes_after
from streamproof.sim.disks import emit_flush
from streamproof.sim.metrics_reading import emit_metrics
from streamproof.sim.releases import LATEST, Formats, Release
from streamproof.sim.state_directory import StateDirectory, sum_at_close
from streamproof.sim.tasks.assignor import Subscription, ThreadAssignment
from streamproof.sim.tasks.global_stores import GlobalTable
from streamproof.sim.tasks.input_resets import InputResets
from streamproof.sim.tasks.partition_assignor import PartitionAssignor
from streamproof.sim.tasks.record_handlers import RecordRefusedError
from streamproof.sim.tasks.state_updater import StateUpdater
from streamproof.sim.tasks.stream_task import StreamTask, TaskState
from streamproof.sim.tasks.task_activity import WorkingTasks
from streamproof.sim.tasks.task_deadlines import TaskDeadlines
from streamproof.sim.thread_clients import ThreadClients
from streamproof.stores.errors import ProcessorStateError, TaskCorruptedError
from streamproof.stores.metrics import Metrics
from streamproof.stores.runtime.cache import RecordCache

__all__ = ["POLL_MS", "StreamThread"]

POLL_MS = 100
"""``poll.ms``: how long a poll waits for records."""


class StreamThread:
    """One stream thread, with its consumer, producer, state updater and membership.

    Args:
        application: the application.
        host: the process of the thread.
        disk: the state directory of the process.
        number: the number of the thread within the process.
        replace: starts another thread in place of this one, once it has died.
        limits: the most that its stores may stage before it commits.
        release: the release of the process.
        global_table: the global stores of the process; ``None`` without any.

    Attributes:
        name: the name of the thread, for the trace.
        metrics: the metrics of its tasks and their stores, and of its state updater.
        tasks: its tasks, active ones and standbys, by id.
        is_probing: whether its last assignment left tasks to be moved, and told it to look again.
        stopped: an event that happens once the thread has stopped, after ``stop``.
    """

    def __init__(
        self,
        application: Application,
        host: Host,
        disk: StateDirectory,
        number: int,
        *,
        replace: Callable[[], None],
        limits: Uncommitted = UNLIMITED,
        release: Release = LATEST,
        global_table: GlobalTable | None = None,
    ) -> None:
        self._application = application
        self._config = application.config
        self._world = application.world
        self._host = host
        self._disk = disk
        self._global_table = global_table
        self.name = f"{host.name}/thread-{number}"
        self._updater_name = f"{host.name}/updater-{number}"
        cache_bytes = self._config.statestore_cache_max_bytes
        self._cache = RecordCache(cache_bytes) if cache_bytes else None
        self.metrics = Metrics(self._config.metrics_recording_level, lambda: host.now)
        # The clients start actors on the host, so that their order here is part of the run: another
        # order would give every seed another digest.
        self._clients = ThreadClients(application, host, disk, number, release)
        self._consumer = self._clients.consumer()
        self._updater = self._new_updater()
        self._release = release
        # The formats of the stores that the thread opens, the live one first.
        self._formats = release.formats
        # Whether its last assignment said that older formats are to be deleted.
        self._is_upgraded = False
        self._assignor = PartitionAssignor(application, host, disk, release, actor=self.name)
        self._membership = self._clients.membership(
            self._subscription, self._lead, self._consumer.wakeup
        )
        self._committer = self._clients.committer(self._consumer, self._membership, limits)
        self.tasks: dict[str, StreamTask] = {}
        self._standbys: set[str] = set()
        self._working = WorkingTasks()
        self._resets = InputResets(application, self.name)
        self._deadlines = TaskDeadlines(self._world, self.name, self._config.task_timeout_ms)
        # Whether anything has happened since the last commit.
        self._is_dirty = False
        # Whether it has lost its tasks, and does not join again yet.
        self._is_lost = False
        # Assigned tasks with nothing open yet: by id, whether the task will be active.
        self._pending: dict[str, bool] = {}
        self.is_probing = False
        self._next_probing: int | None = None
        self._replace = replace
        self._is_stopping = False
        self._is_paused = False
        self.stopped: Event = self._world.time.event()
        host.start(self._run())

    def _new_updater(self, predecessor: StateUpdater | None = None) -> StateUpdater:
        return self._clients.updater(self._consumer.wakeup, self.metrics, predecessor)

    @property
    def generation(self) -> int:
        """The generation whose assignment the thread has taken; -1 while it joins another."""
        outside = self._membership.is_rebalancing or self._is_lost
        return -1 if outside else self._membership.generation

    @property
    def updater(self) -> StateUpdater:
        """The state updater that restores its tasks."""
        return self._updater

    @property
    def producer(self) -> Producer:
        """The producer of all its tasks."""
        return self._committer.producer

    def is_active(self, name: str) -> bool:
        """Whether a task of the thread is an active one, and no standby."""
        return name in self.tasks and name not in self._standbys

    def read_metrics(self) -> None:
        """Read the metrics as a user does, and emit them for the invariants."""
        if not self._updater.is_closed:
            emit_metrics(self._world.trace, self.metrics, self.name, self._updater_name)

    @property
    def has_opened_all(self) -> bool:
        """Whether the thread has an assignment, and every task of it is open."""
        return self.generation >= 0 and not self._pending

    @property
    def is_running(self) -> bool:
        """Whether all its active tasks run (Kafka: StreamThread.State.RUNNING).

        A thread that stops does not run, however long it takes to leave the group.
        """
        if self._is_stopping or not self.has_opened_all:
            return False
        active = [task for task in self.tasks.values() if self.is_active(task.id)]
        return all(task.state is TaskState.RUNNING for task in active)

    @property
    def active(self) -> list[StreamTask]:
        """Its active tasks, in the order of their ids."""
        return [task for name, task in sorted(self.tasks.items()) if name not in self._standbys]

    def stop(self) -> None:
        """Ask the thread to commit, to close its tasks and to leave the group: see ``stopped``."""
        self._is_stopping = True
        self._consumer.wakeup()

    def pause(self) -> None:
        """Neither process nor restore until ``resume``, but stay in the group (KIP-834)."""
        self._is_paused = True
        for name in self.tasks:
            self._updater.pause(name)

    def resume(self) -> None:
        """Go on after a pause."""
        self._is_paused = False
        self._consumer.wakeup()
        for name in self.tasks:
            self._updater.resume(name)

    # The loop.

    def _run(self) -> Steps:
        try:
            yield from self._loop()
            yield from self._shut_down()
        except (ProcessorStateError, TaskTimeoutError, RecordRefusedError) as error:
            yield from self._die(error)
        if self._is_stopping:
            self._world.trace.emit("thread.stopped", self.name)
            self.stopped.succeed()

    def _loop(self) -> Steps:
        if self._global_table is not None:
            # The first record may already read the global table.
            yield self._global_table.restored
        # Get the producer before any task: this fences a predecessor of the same name, and ends its
        # transaction.
        yield from self._committer.renew_producer((), first=True)
        self._membership.rejoin()
        iterations = 1
        while not self._is_stopping:
            try:
                iterations = yield from self._once(iterations)
            except TaskCorruptedError:
                yield from self._handle_corruption(list(self._active()))
            except RequestTimeoutError as error:
                self._world.trace.emit("thread.timed_out", self.name, reason=str(error))
                if self._committer.is_in_doubt:
                    yield from self._handle_corruption(list(self._active()), self._in_doubt)
                else:
                    self._time_out([task for task in self._running() if task.commit_needed])
            except BrokerError as error:
                yield from self._handle_lost(error)

    def _once(self, iterations: int) -> Generator[Event, Any, int]:
        """One round: follow the group, poll, process, commit."""
        yield from self._follow_group()
        self._resume_what_has_space()
        try:
            with self._membership.polling():
                polled = yield from self._consumer.poll(self._poll_ms())
        except OffsetOutOfRangeError as error:
            self._reset(*error.args[1:])
            return iterations
        polled_at = self._host.now
        for partition in polled.next_offsets:
            task, records = self._working.moved(partition), polled.records.get(partition, ())
            if task is not None and task.queues.add(partition, records):
                self._consumer.pause([partition])
                self._world.trace.emit("input.paused", self.name, partition=partition)
        self._is_dirty |= bool(polled.next_offsets)
        for task in self._working.due(polled_at):
            task.queues.update_lags(self._consumer.current_lag)
        while True:
            yield from self._check_updater()
            tasks = [] if self._is_paused else self._working.due(self._host.now)
            processed = yield from self._process(tasks, iterations)
            punctuated = sum(task.punctuate(self._host.now) for task in self._punctuated(tasks))
            self._is_dirty |= processed > 0 or punctuated > 0
            committed = yield from self._committer.maybe_commit(
                self._running,
                self._active,
                requested=any(each.commit_requested and each.commit_needed for each in tasks),
            )
            self._is_dirty &= not committed
            if committed:
                self._deadlines.progressed(list(self.tasks))
            self._working.rest(tasks)
            late = self._host.now - polled_at > self._config.max_poll_interval_ms // 2
            interrupted = punctuated > 0 or committed
            iterations = next_iterations(iterations, late_for_poll=late, interrupted=interrupted)
            if not processed or late or self._membership.is_rebalancing:
                return iterations

    def _reset(self, partition: str, position: int) -> None:
        """Go on with an input whose position is gone, where the policy says."""
        task = self._working.reader(partition)
        if task is None:
            return
        self._consumer.seek(partition, self._resets.reset(task.id, partition, position))
        if self._world.defect("resets-all-inputs"):
            for each in self._consumer.assignment:
                self._consumer.seek(each, self._application.cluster.logs[each].log_start)

    def _punctuated(self, tasks: list[StreamTask]) -> list[StreamTask]:
        """The tasks whose punctuators may be called in a round with these tasks."""
        is_wrong = self._is_paused and self._world.defect("punctuates-while-paused")
        return self._working.due(self._host.now) if is_wrong else tasks

    def _poll_ms(self) -> int:
        """How long the next poll may wait.

        An idle thread of Kafka polls again and again; here this is one long poll. Everything that
        gives the thread work wakes it up, except the time.
        """
        idle_ms = self._working.idle_ms(self._host.now)
        if not idle_ms or self._pending:
            return POLL_MS
        # A task that restores may have to be committed early, because of what it has staged.
        if self._committer.may_be_due_early and len(self._running()) < len(self._active()):
            return POLL_MS
        if self._is_dirty and not self._membership.rebalance_in_progress:
            idle_ms = min(idle_ms, self._committer.due_in_ms)
        if self._next_probing is not None:
            idle_ms = min(idle_ms, max(self._next_probing - self._world.now, 1))
        return idle_ms

    def _process(self, tasks: list[StreamTask], iterations: int) -> Generator[Event, Any, int]:
        """Process up to ``iterations`` records of each task, in the order of the tasks' ids."""
        processed = 0
        for task in tasks:
            for _ in range(iterations):
                if not task.process(self._host.now):
                    break
                processed += 1
                self._deadlines.progressed([task.id])
                self._maybe_flush(task)
            # Others may act, and the host may die, between two tasks.
            yield self._world.time.timeout(0)
        return processed

    def _maybe_flush(self, task: StreamTask) -> None:
        """Fill the memory of a store from time to time, so that it writes to the disk by itself."""
        for holder in task.stores.values():
            if self._world.choices.chance(self._config.flush_probability):
                flushed = self._disk.fill_memtable(holder.database)
                emit_flush(self._world.trace, self.name, task.id, holder.changelog, flushed)

    def _resume_what_has_space(self) -> None:
        if self._world.defect("leaves-input-paused"):
            return
        for partition in self._consumer.paused():
            task = self._working.reader(partition)
            if task is not None and task.queues.has_space(partition):
                self._consumer.resume([partition])

    # The group.

    def _subscription(self) -> Subscription:
        owned = {name for name in self.tasks if name not in self._standbys}
        owned |= {name for name, is_active in self._pending.items() if is_active}
        return self._assignor.subscription(self.tasks, owned)

    def _lead(
        self, subscriptions: dict[str, Subscription]
    ) -> Generator[Event, Any, dict[str, ThreadAssignment]]:
        return (yield from self._assignor.lead(subscriptions, self._membership.generation))

    def _follow_group(self) -> Steps:
        if self._membership.was_left_out:
            yield from self._handle_lost(None)
            # Only now: an earlier report to the group would still name the lost tasks.
            self._membership.take_loss()
        with self._membership.held():
            assignment = self._membership.take_assignment()
            if assignment is not None:
                yield from self._take(assignment)
        if self._next_probing is not None and self._world.now >= self._next_probing:
            self._next_probing = None
            self._world.marks.sometimes("the group looked again at what was on its way")
            if not self._world.defect("forgets-to-look-again"):
                self._membership.rejoin()
        yield from self._open_pending()

    def _take(self, assignment: ThreadAssignment) -> Steps:
        """Give up the tasks that the thread does not own any more, and prepare the new ones."""
        rejoin = self._assignor.hear(assignment.answer, self._membership.generation)
        if assignment.is_empty:
            if rejoin:
                self._membership.rejoin()
            return
        formats = self._formats_after(assignment.answer.version)
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
            if formats != self._formats or wanted.get(name) is not (name not in self._standbys)
        ]
        active = [task for task in revoked if task.id not in self._standbys]
        closing = Closing.CLEAN
        # Commit before a task is given up. The commit includes the tasks that stay, because one
        # transaction covers all running tasks (KIP-447).
        if any(task.commit_needed for task in active):
            try:
                yield from self._committer.commit(self._running(), Closing.COMMIT)
            except RequestTimeoutError:
                # Revoked tasks are given up even if their commit fails (KAFKA-16876).
                closing = Closing.DIRTY
        for task in revoked:
            if self._is_recycled(task, wanted, formats, closing):
                yield from self._recycle(task, is_active=wanted[task.id])
            else:
                yield from self._give_up(task, closing)
        if closing is Closing.DIRTY and self._committer.is_in_doubt:
            yield from self._handle_corruption(self._running(), self._in_doubt)
        # Only now: a thread that is lost before this point keeps its standbys in their formats, and
        # has to open them again after the next assignment.
        self._formats = formats
        # Tasks that were never opened are given up as well: the group has counted them as owned.
        dropped = [name for name, owned in self._pending.items() if owned and not wanted.get(name)]
        self._pending = {
            name: is_active for name, is_active in wanted.items() if name not in self.tasks
        }
        self._assign_inputs()
        self._follow_formats(assignment.answer.version)
        self.is_probing = assignment.probing
        interval_ms = self._config.probing_rebalance_interval_ms
        self._next_probing = self._world.now + interval_ms if assignment.probing else None
        # Rejoin last: the group hands out the tasks that the report does not name any more.
        gone = [task for task in active if not wanted.get(task.id)]
        if gone or dropped or assignment.follow_up or rejoin:
            self._membership.rejoin()

    def _formats_after(self, version: int) -> Formats:
        """The formats of the stores after an assignment in this version (KIP-258)."""
        if self._config.live_format == "configuration" or not self._release.names_formats:
            return self._formats
        if self._world.defect("serves-newer-format-early"):
            return self._release.formats
        return self._release.formats_after(version)

    def _follow_formats(self, version: int) -> None:
        """Delete older formats if the assignment says that the upgrade is done (KIP-258)."""
        if not self._release.names_formats:
            return
        is_done = self._release.formats_after(version) == (2,)
        is_done &= not self._world.defect("keeps-older-format")
        is_done |= self._world.defect("deletes-older-format-early") and self._formats == (1, 2)
        self._is_upgraded = is_done and self._config.live_format == "assignment"
        self._discard_older()
        self._disk.tell_formats(self.name)

    def _discard_older(self) -> None:
        if self._is_upgraded:
            self._disk.discard_older(self.name)

    def _open_pending(self) -> Steps:
        """Open the assigned tasks. A task whose directory is locked waits.

        A task without stores has no directory that it would have to lock.

        Source: Kafka, StateManagerUtil#registerStateStores.
        """
        for name, is_active in list(self._pending.items()):
            has_stores = name not in self._application.stateless
            if has_stores and not self._disk.lock(name, self.name):
                self._world.marks.sometimes("a task whose directory was taken waited")
                if self._world.defect("drops-task-whose-lock-is-taken"):
                    del self._pending[name]
                continue
            del self._pending[name]
            # Another thread may have served the older format until now.
            self._discard_older()
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
            cache=self._cache,
            metrics=self.metrics,
            global_stores={} if self._global_table is None else self._global_table.stores,
        )
        disk = self._disk
        was_empty = disk.is_empty(name)
        open_task = partial(
            task.open,
            disk.directory(name),
            partial(disk.make_store, formats=self._formats),
            self._committer.producer,
            app_configs=disk.app_configs(self._formats),
        )
        try:
            open_task(was_empty=was_empty)
        except TaskCorruptedError:
            self._world.trace.emit("task.wiped", self.name, task=name)
            disk.wipe(name)
            open_task(was_empty=True)
        task.tell_contents("store.found")
        self.tasks[name] = task
        if not is_active:
            self._standbys.add(name)
        self._hand_to_updater(task, is_active=is_active)

    def _hand_to_updater(self, task: StreamTask, *, is_active: bool) -> None:
        self._updater.add(task, is_active=is_active)
        if self._is_paused:
            self._updater.pause(task.id)

    def _check_updater(self) -> Steps:
        """Let restored tasks run, and start failed tasks over."""
        while self._updater.restored:
            task = self._updater.restored[0]
            yield from self._begin(task)
        while self._updater.failed:
            task, error = self._updater.failed.pop(0)
            if isinstance(error, ProcessorStateError):
                raise error
            died = isinstance(error, UpdaterDiedError)
            # If the updater died, the stores are not at fault.
            if died:
                yield from self._begin_anew([task], Closing.DIRTY, "its state updater died")
            else:
                yield from self._begin_anew([task])
                self._offer_elsewhere([task])
        if self._updater.fatal is not None:
            self._updater = self._new_updater(self._updater)

    def _begin(self, task: StreamTask) -> Steps:
        """Let a task run from the committed offsets. It waits until these are stable."""
        stable = self._config.exactly_once and not self._world.defect("fetches-unstable-offsets")
        group = self._application.cluster.group(self._application.topology.application_id)
        inputs = task.spec.inputs
        try:
            offsets, times = yield from self._call(
                "fetch offsets",
                lambda: (
                    {each: group.committed(each, require_stable=stable) for each in inputs},
                    {each: group.committed_time(each) for each in inputs},
                ),
            )
        except (RequestTimeoutError, UnstableOffsetCommitError):
            self._world.marks.sometimes("a task whose offsets were not to be had waited")
            if self._world.defect("drops-task-on-timeout"):
                self._updater.restored.remove(task)
            self._time_out([task])
            yield self._world.time.timeout(POLL_MS)
            return
        self._deadlines.progressed([task.id])
        if task not in self._updater.restored:
            # The task was given up during the request.
            return
        self._updater.restored.remove(task)
        # Commit the restored records before the task runs and adds writes that may be aborted.
        if commits_after(task.traits, Closing.RESTORED):
            task.commit_stores(Closing.RESTORED)
        if not self._world.defect("forgets-partition-times"):
            task.queues.set_times({each: time for each, time in times.items() if time is not None})
        task.become(TaskState.RUNNING)
        task.tell_contents("store.running")
        self._consumer.add(inputs)
        starts = {each: self._resets.start(task.id, each, at) for each, at in offsets.items()}
        task.begin_at(starts)
        for partition, start in starts.items():
            self._consumer.seek(partition, start)
        self._working.began(task)

    def _assign_inputs(self) -> None:
        """Read the inputs of running tasks alone: other tasks cannot use records."""
        self._consumer.assign(
            partition for task in self._running() for partition in task.spec.inputs
        )

    def _is_recycled(
        self, task: StreamTask, wanted: Mapping[str, bool], formats: Formats, closing: Closing
    ) -> bool:
        """Whether a task changes its role here, and keeps its stores open.

        A task with writes of a commit that failed is not clean, and is closed (KAFKA-10198).
        """
        is_clean = closing is Closing.CLEAN or task.id in self._standbys
        keeps_stores = formats == self._formats and self._config.recycles_tasks
        return task.id in wanted and is_clean and keeps_stores

    def _recycle(self, task: StreamTask, *, is_active: bool) -> Steps:
        """Change the role of a task, with its stores open and its directory locked.

        Sources: KIP-441, KIP-988; Kafka, TaskManager#closeCleanAndRecycle and
        ProcessorStateManager#recycle.
        """
        is_told = is_active and not self._world.defect("calls-a-promotion-a-migration")
        self._updater.remove(task.id, "promoted" if is_told else "migrated")
        self._working.ended(task)
        task.suspend()
        yield self._world.time.timeout(0)
        task.recycle(is_active=is_active)
        role = "a standby became an active task" if is_active else "an active task became a standby"
        self._world.marks.sometimes(f"{role} with its stores open")
        again = "a task that had run before became active again with its stores open"
        self._world.marks.sometimes(again, holds=is_active and task.has_run)
        if is_active:
            self._standbys.discard(task.id)
        else:
            self._standbys.add(task.id)
        self._hand_to_updater(task, is_active=is_active)

    # Failures.

    def _give_up(self, task: StreamTask, closing: Closing) -> Steps:
        """Suspend and close a task, and unlock its directory."""
        self._updater.remove(task.id)
        self._working.ended(task)
        task.suspend()
        yield self._world.time.timeout(0)
        with_memory = self._world.defect("reports-what-was-in-memory")
        # Read the sum before the close, which takes the stores from the task.
        total = sum_at_close(task, closing, with_memory=with_memory)
        task.close(closing)
        self._disk.closed(task, total, closing)
        if task.must_be_wiped or wipes_after(task.traits, closing):
            self._world.trace.emit("task.wiping", self.name, task=task.id)
            # The process may die before the files are gone.
            yield self._world.time.timeout(0)
            self._world.trace.emit("task.wiped", self.name, task=task.id)
            self._disk.wipe(task.id)
        self._deadlines.progressed([task.id])
        # Unlock after the last use of the files: another thread may open them from here on.
        self._disk.unlock(task.id, self.name)
        del self.tasks[task.id]
        self._standbys.discard(task.id)

    def _time_out(self, tasks: list[StreamTask]) -> None:
        """Note that a request for these tasks got no answer.

        Raises:
            TaskTimeoutError: one of them has waited for too long.
        """
        for task in tasks:
            self._deadlines.timed_out(task.id, self._host.now)

    def _die(self, error: StreamproofError) -> Steps:
        """End because of an error, and let another thread begin in its place (KIP-671)."""
        self._world.trace.emit("thread.died", self.name, reason=type(error).__name__)
        # The thread tells the group nothing; the group notices once the session is over.
        self._membership.abandon()
        for task in list(self.tasks.values()):
            # A store that fails to close properly counts as closed, and is not tried again.
            while task.id in self.tasks:
                with suppress(ProcessorStateError):
                    # A corrupted task has no offsets that would say how far its rows go.
                    closing = Closing.CORRUPTED if task.corrupted else Closing.DIRTY
                    yield from self._give_up(task, closing)
        self._disk.unlock_all(self.name)
        self._close_clients()
        if not self._is_stopping:
            self._world.marks.sometimes("a thread died and was replaced")
            self._replace()

    def _shut_down(self) -> Steps:
        """Commit, close all tasks, and leave the group."""
        closing = Closing.CLEAN
        with self._membership.held():
            try:
                yield from self._committer.commit(self._running(), Closing.COMMIT)
            except BrokerError:
                closing = Closing.DIRTY
            for task in list(self.tasks.values()):
                restoring = task.state is TaskState.RESTORING
                yield from self._give_up(task, Closing.CLEAN if restoring else closing)
            # An open transaction would keep the offsets unstable until it times out.
            with suppress(BrokerError):
                yield from self._committer.producer.abort()
            self._disk.unlock_all(self.name)
            self._close_clients()
            # Leave last: the group then gives the tasks to other threads, which need the locks.
            yield from self._membership.close()

    def _close_clients(self) -> None:
        self._updater.close()
        self._committer.producer.close()
        self._consumer.close()

    def _handle_lost(self, error: BrokerError | None) -> Steps:
        """Close the tasks without a commit, because other members own them by now, and rejoin."""
        self._world.trace.emit("thread.lost", self.name, reason=type(error).__name__)
        self._is_lost = True
        with self._membership.held():
            for task in self._lost_tasks():
                restoring = task.state is TaskState.RESTORING
                clean = restoring or self._world.defect("closes-lost-tasks-cleanly")
                yield from self._give_up(task, Closing.CLEAN if clean else Closing.DIRTY)
            self._pending.clear()
            self._assign_inputs()
        yield from self._committer.renew_producer(self.tasks.values())
        self._membership.join_anew()
        self._is_lost = False

    def _lost_tasks(self) -> list[StreamTask]:
        return [] if self._world.defect("keeps-tasks-after-loss") else self._active()

    @property
    def _in_doubt(self) -> Closing:
        return closing_in_doubt(self._application.task_config.traits)

    def _handle_corruption(
        self, tasks: list[StreamTask], closing: Closing = Closing.CORRUPTED
    ) -> Steps:
        """Start tasks over whose stores cannot be trusted, or whose commit is in doubt."""
        running = [task for task in tasks if task.state is TaskState.RUNNING]
        yield from self._begin_anew(running, closing)
        self._offer_elsewhere(running)
        yield from self._committer.start_over(self.tasks.values())

    def _begin_anew(
        self,
        tasks: list[StreamTask],
        closing: Closing = Closing.CORRUPTED,
        reason: str = "its stores cannot be trusted",
    ) -> Steps:
        for task in tasks:
            is_active = task.id not in self._standbys
            self._world.trace.emit("task.corrupted", self.name, task=task.id, reason=reason)
            yield from self._give_up(task, closing)
            self._pending[task.id] = is_active
        self._assign_inputs()

    def _offer_elsewhere(self, tasks: list[StreamTask]) -> None:
        """Rebalance after a corruption, so that a standby can take over (KAFKA-12486).

        Source: Kafka, StreamThread#runLoop: under exactly-once, if an active task was corrupted.
        """
        is_due = self._config.exactly_once and any(self._pending.get(task.id) for task in tasks)
        if is_due and not self._world.defect("keeps-corrupted-tasks"):
            self._world.marks.sometimes("a corrupted task was offered to the group")
            self._membership.rejoin()

    # Lookups.

    def _active(self) -> list[StreamTask]:
        return self.active

    def _running(self) -> list[StreamTask]:
        return [task for task in self._active() if task.state is TaskState.RUNNING]

    def _call(self, what: str, handle: Any) -> Generator[Event, Any, Any]:
        return (yield from self._application.network.call(self._host, what, handle))
