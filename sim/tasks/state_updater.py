"""The state updater: a second actor beside each stream thread, which restores tasks.

An active task is restored until it lacks nothing, and is then handed back. A standby stays, and is
kept up to date. While any active task restores, the standbys wait.

Sources: KIP-869, KIP-834 (pausing); Kafka, DefaultStateUpdater and StoreChangelogReader.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

from simpy.events import Event

from streamproof.errors import StreamproofError
from streamproof.sim.actor_hosts import Host, Steps
from streamproof.sim.broker_errors import (
    BrokerError,
    OffsetOutOfRangeError,
    UpdaterDiedError,
)
from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.brokers.partition_log import Isolation, LogEntry, PartitionLog
from streamproof.sim.clients.consumer import MAX_POLL_RECORDS, Consumer
from streamproof.sim.decisions.idling import Mode
from streamproof.sim.decisions.recovery import Closing, commits_after
from streamproof.sim.decisions.restore_range import applicable, end_of, is_complete
from streamproof.sim.network import Network
from streamproof.sim.tasks.restoration_progress import Announcer, ChangelogRestoration, Updating
from streamproof.sim.tasks.stream_task import StreamTask
from streamproof.sim.updater_metrics import UpdaterMetrics
from streamproof.sim.world import World
from streamproof.stores.errors import StoreError
from streamproof.stores.metrics import Metrics
from streamproof.stores.runtime.restoration import (
    StandbyUpdateListener,
    StateRestoreListener,
    SuspendReason,
)
from streamproof.stores.runtime.restore_metrics import Part

__all__ = ["POLL_MS", "StateUpdater", "UpdaterConfig"]

POLL_MS = 100
"""``poll.ms``: how long a poll waits for records."""

_STANDBY_POLL_MS = 5_000
"""How long a poll for standbys alone waits for records, as nobody waits for them."""

_APPLY_MS = 3
"""Applying a batch to a store takes up to this many milliseconds."""

_SLOW_MS = 5_000
"""Applying a slow batch takes up to this many milliseconds."""

_COMMIT_MS = 2
"""Committing a store takes up to this many milliseconds."""

T = TypeVar("T")


class UpdaterConfig(NamedTuple):
    """The configuration of a state updater.

    Attributes:
        isolation: whether aborted records are left out, as under exactly-once.
        group: the group of the application. Its committed offsets limit restorations from inputs.
        commit_interval_ms: how often the updater commits its tasks, in milliseconds.
        mode: the rules of the metrics: those of the proposal, or those of Kafka.
        listener: follows restorations.
        standby_listener: follows the updates of standbys.
        max_poll_records: the largest number of records that a poll returns.
    """

    isolation: Isolation
    group: str
    commit_interval_ms: int = 30_000
    mode: Mode = "proposal"
    listener: StateRestoreListener = StateRestoreListener()
    standby_listener: StandbyUpdateListener = StandbyUpdateListener()
    max_poll_records: int = MAX_POLL_RECORDS


class StateUpdater:
    """Restores the tasks of one stream thread.

    Args:
        world: the world.
        host: the process of the thread.
        network: the way to the brokers.
        cluster: the brokers.
        config: the configuration of the updater.
        actor: the name of the updater, for the trace and the metrics.
        wake: wakes the thread when it can take a task back.
        registry: where the metrics are registered; a new one of the level INFO by default.
        predecessor: the updater of the thread that died. Its restored tasks are taken over, and so
            are the metrics of all tasks that it handed back.

    Attributes:
        metrics: the metrics of the updater and its tasks.
        restored: active tasks that lack nothing, until the thread takes them.
        failed: tasks whose restoration cannot go on, with the reason, until the thread takes them.
        fatal: the cause of the updater's death, after which all of its tasks have failed; ``None``
            while it lives.
        is_closed: whether it takes no further step, and has no metrics of its own any more.
    """

    def __init__(
        self,
        world: World,
        host: Host,
        network: Network,
        cluster: Cluster,
        config: UpdaterConfig,
        *,
        actor: str,
        wake: Callable[[], None] = lambda: None,
        registry: Metrics | None = None,
        predecessor: StateUpdater | None = None,
    ) -> None:
        self._world = world
        self._host = host
        self._network = network
        self._cluster = cluster
        self._config = config
        self._actor = actor
        self._wake_owner = wake
        self._consumer = Consumer(
            world,
            host,
            network,
            cluster,
            isolation=config.isolation,
            max_poll_records=config.max_poll_records,
        )
        self._updating: dict[str, Updating] = {}
        self._changed = world.time.event()
        # Whether the present round restores active tasks, rather than updates standbys.
        self._restoring = True
        self.is_closed = False
        self._last_commit = self._last_limits = host.now
        self.metrics: UpdaterMetrics = UpdaterMetrics(
            actor,
            Metrics(clock=lambda: host.now) if registry is None else registry,
            config.mode,
            predecessor=None if predecessor is None else predecessor.metrics,
        )
        self._announcer = Announcer(
            world.trace,
            actor,
            self.metrics,
            config.listener,
            config.standby_listener,
            counts_records=world.defect("counts-records-as-offsets"),
        )
        self.restored: list[StreamTask] = [] if predecessor is None else predecessor.restored
        self.failed: list[tuple[StreamTask, StreamproofError]] = []
        self.fatal: UpdaterDiedError | None = None
        world.trace.emit("updater.started", actor, mode=config.mode)
        host.start(self._run())

    # The requests of the thread.

    @property
    def tasks(self) -> list[StreamTask]:
        """The tasks that are being restored, kept up to date, or paused."""
        return [each.task for each in self._updating.values()]

    def add(self, task: StreamTask, *, is_active: bool) -> None:
        """Take a task over. A task without stores is handed back at once."""
        if self.fatal is not None:
            self.failed.append((task, self.fatal))
            return
        measure = self.metrics.add(task.id, is_active=is_active)
        if is_active and not task.stores:
            self.restored.append(task)
            self._wake_owner()
            return
        updating = Updating(task, is_active=is_active, measure=measure)
        self._updating[task.id] = updating
        self._count(updating, 1)
        self.wake()

    def remove(self, task_id: str, reason: SuspendReason = "migrated") -> StreamTask | None:
        """Give a task up in any state; return ``None`` if the updater does not have the task.

        Args:
            task_id: the task. If it was handed back, its metrics end.
            reason: why the updates of a standby end.
        """
        self.metrics.remove(task_id)
        return self._release(task_id, reason)

    def _release(self, task_id: str, reason: SuspendReason = "migrated") -> StreamTask | None:
        """Give a task up. Its metrics stay, as long as the task does not leave its thread."""
        # A failed task that the thread has not taken yet must not come back after this.
        self.failed = [each for each in self.failed if each[0].id != task_id]
        for task in self.restored:
            if task.id == task_id:
                self.restored.remove(task)
                return task
        found = self._updating.pop(task_id, None)
        if found is None:
            return None
        is_silent = found.is_active and self._world.defect("suspends-without-a-word")
        for partition, each in found.changelogs.items():
            if each.is_open and not is_silent:
                self._world.marks.sometimes("a restoration was suspended", holds=found.is_active)
                self._announcer.suspended(found, partition, self._log_end(partition), reason)
        if self._announcer.raised is not None:
            # The updater may wait for something to do, and would not notice the error.
            self.wake()
        self._count(found, -1)
        return found.task

    def pause(self, task_id: str) -> None:
        """Let a task wait, without telling a listener. A task that is not here is no error."""
        is_heard = not self._world.defect("restores-while-paused")
        if task_id in self._updating and is_heard:
            self._set_paused(self._updating[task_id], paused=True)
            # Answers to earlier requests must not be applied.
            self.wake()

    def resume(self, task_id: str) -> None:
        """Go on with a paused task."""
        if task_id in self._updating:
            self._set_paused(self._updating[task_id], paused=False)
            self.wake()

    def close(self) -> None:
        """Stop, and give all remaining tasks up."""
        self._stop()
        self.metrics.close()

    def _stop(self) -> None:
        self.is_closed = True
        for task_id in list(self._updating):
            self.remove(task_id)
        self._consumer.close()
        self.wake()

    def wake(self) -> None:
        """Let the updater look for work at once."""
        self._consumer.wakeup()
        if not self._changed.triggered:
            self._changed.succeed()

    def _set_paused(self, updating: Updating, *, paused: bool) -> None:
        self._count(updating, -1)
        updating.is_paused = paused
        self._count(updating, 1)

    def _count(self, updating: Updating, change: int) -> None:
        """Count one more, or one less, task of a kind, for the metrics."""
        thread = self.metrics.thread
        match updating.is_active, updating.is_paused:
            case True, False:
                thread.active_restoring_tasks += change
            case True, True:
                thread.active_paused_tasks += change
            case False, False:
                thread.standby_updating_tasks += change
            case _:
                thread.standby_paused_tasks += change

    # The loop.

    def _run(self) -> Steps:
        while not self.is_closed:
            yield from self._once()
            if self._announcer.raised is not None:
                self._die(f"a listener raised {self._announcer.raised!r}")
                return
            if self._updating and self._world.faults.happens("updater.died", self._actor):
                self._die("it was killed")
                return

    @property
    def _going(self) -> list[Updating]:
        return [each for each in self._updating.values() if not each.is_paused]

    def _once(self) -> Steps:
        """One round: fetch, apply, hand back and commit; or wait for something to do."""
        if self._going:
            self._restoring = any(each.is_active for each in self._going)
            self._turn("restoring" if self._restoring else "updating")
            records = yield from self._restore()
            self.metrics.thread.record_restore_call(records)
            if self._host.now - self._last_commit > self._config.commit_interval_ms:
                yield from self._commit()
            return
        # A paused task is committed at once, because the pause may be long.
        yield from self._commit()
        # A task may have come during the commit.
        if not self.is_closed and not self._going:
            self._turn("idle")
            self._changed = self._world.time.event()
            yield self._changed

    def _turn(self, part: Part) -> None:
        """Note in the trace and in the metrics what the time from now on is spent on."""
        if not self.is_closed:
            self._world.trace.emit("updater.turned", self._actor, to=part)
            self.metrics.thread.turn(part)

    def _restore(self) -> Generator[Event, Any, int]:
        """Fetch and apply records; return how many."""
        yield from self._find_ends()
        applied = yield from self._move_limits()
        self._assign()
        try:
            polled = yield from self._consumer.poll(self._poll_ms())
        except OffsetOutOfRangeError as error:
            self._lose_position(error.args[1], error)
            return applied
        for partition in polled.next_offsets:
            applied += yield from self._take(partition, polled.records.get(partition, []))
        self._hand_back()
        return applied

    def _poll_ms(self) -> int:
        """How long the next poll may wait, unless it is woken up.

        Standbys need a round only to apply records, or to commit them.
        """
        updating = self._updating.values()
        if self._restoring:
            return POLL_MS
        if any(each.kept for task in updating for each in task.changelogs.values()):
            return POLL_MS
        if not any(each.has_news for each in updating):
            return _STANDBY_POLL_MS
        due = self._last_commit + self._config.commit_interval_ms + 1
        return min(max(due - self._host.now, 1), _STANDBY_POLL_MS)

    # Where restorations begin and end.

    def _end_in(self, log: PartitionLog) -> int:
        stable = self._world.defect("restores-to-stable-end")
        return log.last_stable_offset if stable else log.end

    def _find_ends(self) -> Steps:
        """Request the ends of the active tasks' restorations; repeat this for unknown ends."""
        unknown = {
            partition: each
            for updating in list(self._updating.values())
            for partition, each in updating.changelogs.items()
            if each.end is None and updating.is_active
        }
        if not unknown:
            return
        logs = self._cluster.logs
        # The end of the log, not the last stable offset: see end_of().
        ends = yield from self._asked(
            "list offsets", lambda: {each: self._end_in(logs[each]) for each in unknown}
        )
        sources = [name for name, each in unknown.items() if each.is_source]
        committed = yield from self._committed(sources)
        if ends is None or committed is None:
            return
        for partition, each in unknown.items():
            each.end = end_of(ends[partition], committed.get(partition), is_source=each.is_source)

    def _move_limits(self) -> Generator[Event, Any, int]:
        """Let standbys follow an input up to its committed offset; return the applied records.

        Source: KAFKA-8755.
        """
        behind = {
            partition: each
            for updating in self._updating.values()
            for partition, each in updating.changelogs.items()
            if each.is_source and not updating.is_active and each.kept
        }
        # While an active task restores, the standbys wait.
        if self._restoring or not behind:
            return 0
        if self._host.now - self._last_limits <= self._config.commit_interval_ms:
            return 0
        self._last_limits = self._host.now
        applied = 0
        committed = yield from self._committed(list(behind))
        for partition, offset in (committed or {}).items():
            each = behind[partition]
            each.end = max(each.end or 0, offset or 0)
            updating = self._owner(partition)
            if updating is not None and updating.changelogs[partition] is each:
                applied += yield from self._take(partition, [])
        return applied

    def _committed(
        self, partitions: list[str]
    ) -> Generator[Event, Any, dict[str, int | None] | None]:
        """The committed offsets of inputs; ``None`` if the brokers did not answer."""
        if not partitions:
            return {}
        group = self._cluster.group(self._config.group)
        # Offsets in an open transaction count: the records up to them would be missing for good.
        return (
            yield from self._asked(
                "fetch offsets",
                lambda: {each: group.committed(each, require_stable=True) for each in partitions},
            )
        )

    def _asked(self, what: str, handle: Callable[[], T]) -> Generator[Event, Any, T | None]:
        """The reply of the brokers; ``None`` without one, and then the updater asks again."""
        try:
            return (yield from self._network.call(self._host, what, handle))
        except BrokerError:
            return None

    def _assign(self) -> None:
        """Read the changelogs of active tasks first, and of standbys only when none is left."""
        restoring = self._restoring
        wanted = {
            partition: updating
            for updating in self._going
            for partition, each in updating.changelogs.items()
            if updating.is_active == restoring
            and (each.end is not None or not restoring)
            and not each.is_complete
        }
        self._consumer.assign(wanted)
        for partition, updating in wanted.items():
            each = updating.changelogs[partition]
            if each.start is None:
                each.start = self._next_offset(updating.task, partition)
                # The consumer may still have the position of a task that was here before.
                self._consumer.seek(partition, each.start)
                log = self._cluster.logs[partition]
                self._world.marks.sometimes(
                    "a store had missed a tombstone",
                    holds=log.log_start < each.start < log.tombstones_end,
                )
                self._announcer.started(updating, partition)
            elif self._consumer.position(partition) is None:
                each.kept.clear()
                self._consumer.seek(partition, self._next_offset(updating.task, partition))

    def _next_offset(self, task: StreamTask, partition: str) -> int:
        """The offset to restore next: the start of the log for a store that has no offset.

        Source: Kafka, StoreChangelogReader#prepareChangelogs (seekToBeginning).
        """
        start = self._cluster.logs[partition].log_start
        return task.next_restored(partition) if task.has_offset(partition) else start

    # Applying.

    def _take(self, partition: str, records: list[LogEntry]) -> Generator[Event, Any, int]:
        """Apply the fetched records up to the end; return how many."""
        updating = self._owner(partition)
        if updating is None or updating.changelogs[partition].start is None:
            # The task that the records were fetched for is gone.
            return 0
        each = updating.changelogs[partition]
        each.kept += records
        count = self._applicable(updating, each)
        if count:
            longest = (
                _SLOW_MS if self._world.faults.happens("updater.slow", self._actor) else _APPLY_MS
            )
            yield self._world.time.timeout(self._world.choices.between(0, longest))
            if self._updating.get(updating.task.id) is not updating:
                return 0
            if not self._apply(updating, partition, each.kept[:count]):
                return 0
        if updating.is_active:
            self._complete_if_done(updating, partition, each.kept[count:])
            # Records behind the end are not restored: the task will process them.
            each.kept.clear()
        else:
            del each.kept[:count]
            self._world.marks.sometimes(
                "a standby was held back at the committed offset", holds=bool(each.kept)
            )
        return count

    def _applicable(self, updating: Updating, each: ChangelogRestoration) -> int:
        if not updating.is_active and self._world.defect("standby-passes-committed-offset"):
            return len(each.kept)
        if each.end is None:
            return 0 if each.is_source or updating.is_active else len(each.kept)
        return applicable([record.offset for record in each.kept], each.end)

    def _apply(self, updating: Updating, partition: str, records: list[LogEntry]) -> bool:
        """Apply a batch; return whether the store took it."""
        each = updating.changelogs[partition]
        try:
            updating.task.apply(partition, records)
        except StoreError as error:
            self._fail(updating, error)
            return False
        updating.has_news = True
        each.total += len(records)
        log_end = self._log_end(partition)
        self._announcer.applied(updating, partition, records[-1].offset, len(records), log_end)
        return True

    def _complete_if_done(self, updating: Updating, partition: str, left: list[LogEntry]) -> None:
        each = updating.changelogs[partition]
        position = self._consumer.position(partition)
        if each.end is None or each.is_complete or position is None:
            return
        if is_complete(each.end, position, [record.offset for record in left]):
            each.is_complete = True
            self._announcer.ended(updating, partition)

    def _hand_back(self) -> None:
        """Hand back the active tasks that lack nothing, including those that never lacked any."""
        for task_id, updating in list(self._updating.items()):
            if not updating.is_active:
                continue
            for partition, each in updating.changelogs.items():
                if each.start is not None and partition in self._consumer.assignment:
                    self._complete_if_done(updating, partition, [])
            if all(each.is_complete for each in updating.changelogs.values()):
                del self._updating[task_id]
                self.restored.append(updating.task)
                self._count(updating, -1)
                self._wake_owner()

    # Committing.

    def _commit(self) -> Steps:
        """Commit applied records, so that a crash does not lose them all (KAFKA-12634)."""
        self._turn("checkpointing")
        self._last_commit = self._host.now
        for updating in list(self._updating.values()):
            task = updating.task
            if not updating.has_news or not commits_after(task.traits, Closing.RESTORED):
                continue
            updating.has_news = False
            for name in list(task.stores):
                yield self._world.time.timeout(self._world.choices.between(0, _COMMIT_MS))
                if self._updating.get(task.id) is not updating:
                    break
                try:
                    task.commit_store(name)
                except StoreError as error:
                    self._fail(updating, error)
                    break
                self._world.marks.sometimes(
                    "a task was committed while it was restored", holds=updating.is_active
                )

    # What goes wrong.

    def _lose_position(self, partition: str, error: OffsetOutOfRangeError) -> None:
        """Give a task up whose changelog has lost the next record: its store has to start over.

        Source: Kafka, StoreChangelogReader#restore, which reads without ``auto.offset.reset``.
        """
        updating = self._owner(partition)
        if updating is None:
            return
        self._world.marks.sometimes("a changelog had lost the next record of a store")
        if self._world.defect("restores-across-a-gap"):
            self._consumer.seek(partition, self._cluster.logs[partition].log_start)
            return
        self._fail(updating, error)

    def _fail(self, updating: Updating, error: StreamproofError) -> None:
        self._release(updating.task.id)
        self._world.trace.emit(
            "updater.failed", self._actor, task=updating.task.id, reason=type(error).__name__
        )
        self.failed.append((updating.task, error))
        self._wake_owner()

    def _die(self, reason: str) -> None:
        """Take no further step: all tasks have failed, including those that come later."""
        self.fatal = UpdaterDiedError(
            f"{self._actor} died: {reason}. Its tasks have to begin anew with another one."
        )
        self._world.marks.sometimes("a state updater died")
        self._world.trace.emit("updater.died", self._actor, reason=reason)
        for task in self.tasks:
            self._release(task.id)
            self.failed.append((task, self.fatal))
        self._stop()
        self.metrics.retire()
        self._wake_owner()

    # Lookups.

    def _owner(self, partition: str) -> Updating | None:
        return next(
            (each for each in self._updating.values() if partition in each.changelogs), None
        )

    def _log_end(self, partition: str) -> int | None:
        """The end of a changelog, as far as the consumer knows it without asking."""
        if partition not in self._consumer.assignment:
            return None
        return self._consumer.known_end(partition)
