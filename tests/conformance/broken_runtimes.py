"""Runtimes that handle stores wrongly, each with the requirement and the check that find it."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamproof.sim import application, releases, stream_thread
from streamproof.sim.application import Application, StreamsConfig
from streamproof.sim.clients.consumer import Consumer
from streamproof.sim.decisions import restore_range
from streamproof.sim.decisions.commits import Uncommitted
from streamproof.sim.decisions.recovery import Closing, Traits
from streamproof.sim.disks import RealDisk
from streamproof.sim.hosted_store import HostedStore
from streamproof.sim.model_store import ModelStore
from streamproof.sim.query_server import Answer, QueryServer, _Copy
from streamproof.sim.releases import Release
from streamproof.sim.state_directory import GLOBAL_STORES, StateDirectory
from streamproof.sim.stream_thread import StreamThread
from streamproof.sim.tasks import assignor, state_updater, stream_task, task_committer
from streamproof.sim.tasks.format_rebuild import FormatRebuild, _Rebuilding
from streamproof.sim.tasks.global_stores import GlobalTable
from streamproof.sim.tasks.partition_assignor import PartitionAssignor
from streamproof.sim.tasks.restoration_progress import Announcer, Updating
from streamproof.sim.tasks.state_updater import StateUpdater
from streamproof.sim.tasks.store_holder import StoreHolder, topic_partition
from streamproof.sim.tasks.stream_task import StreamTask
from streamproof.sim.tasks.take_over import TakeOver
from streamproof.sim.tasks.task_config import TaskConfig
from streamproof.sim.topology import TaskSpec
from streamproof.sim.updater_metrics import UpdaterMetrics
from streamproof.sim.upgraded_stores import ManagingStore
from streamproof.sim.world import World
from streamproof.stores import checkpointing, upgrade_configs
from streamproof.stores.api import (
    AT_LEAST_ONCE,
    NO_TIMESTAMP,
    PROCESSING_GUARANTEE_CONFIG,
    IsolationLevel,
    Position,
    ReadOnlyKeyValueStore,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.checkpoint import OffsetCheckpoint, StoreCheckpoint
from streamproof.stores.checkpointing import LegacyCheckpointingStateStore
from streamproof.stores.runtime.guard import _GuardedStore
from streamproof.stores.runtime.restoration import StateRestoreListener
from streamproof.stores.upgrade_configs import upgrade_use

__all__ = [
    "WRONGLY_KEPT",
    "WRONG_HANDLING",
    "Break",
    "Patch",
    "telling",
    "with_attribute",
    "with_default",
]

Patch = pytest.MonkeyPatch
Break = Callable[[Patch], None]


def with_attribute(owner: object, name: str, value: Any) -> Break:
    """One name has another value."""
    return lambda patch: patch.setattr(owner, name, value)


def with_default(field: str, value: int) -> Break:
    """A field of the configuration has another default."""

    def change(patch: Patch) -> None:
        right = StreamsConfig.__init__

        @functools.wraps(right)
        def wrong(self: StreamsConfig, **more: Any) -> None:
            right(self, **{field: value, **more})

        patch.setattr(StreamsConfig, "__init__", wrong)

    return change


def with_limits(change: Callable[[Uncommitted], Uncommitted]) -> Break:
    """The threads get other limits."""
    right = Application.uncommitted_limits
    return with_attribute(
        Application, "uncommitted_limits", lambda self, threads: change(right(self, threads))
    )


def unguarded(*methods: str) -> Break:
    """The guard passes these calls on."""

    def change(patch: Patch) -> None:
        for method in methods:

            def passed(self: Any, *given: Any, name: str = method) -> None:
                getattr(self._store, name)(*given)

            patch.setattr(_GuardedStore, method, passed)

    return change


prepare = StoreHolder.__post_init__


def without_guard(self: StoreHolder) -> None:
    """The processor gets the store itself."""
    prepare(self)
    self.guard = self.store


def without_global_guard(patch: Patch) -> None:
    """The processor gets global stores themselves."""
    right = StreamTask.store

    def wrong(self: StreamTask, name: str) -> Any:
        found = right(self, name)
        return found._store if name == "global" else found  # type: ignore[attr-defined]

    patch.setattr(StreamTask, "store", wrong)


def without_cached_guard(self: StoreHolder) -> None:
    """A store with a cache in front of it is handed out as it is."""
    prepare(self)
    if self.cache is not None:
        self.guard = self.store


def counting_one_store(what: str) -> Break:
    """A task counts what one of its stores has staged, and not what the others have."""
    right = StreamTask.uncommitted

    def wrong(self: StreamTask) -> Uncommitted:
        stores = self.stores
        found = []
        for name in stores:
            self.stores = {name: stores[name]}
            found.append(right(self))
        self.stores = stores
        return right(self)._replace(**{what: max(getattr(each, what) for each in found)})

    return with_attribute(StreamTask, "uncommitted", wrong)


def stores_of_task(task: StreamTask) -> list[StateStore]:
    """The stores of a task."""
    return [each.store for each in task.stores.values()]


def stores_of_updater(updater: StateUpdater) -> list[StateStore]:
    """The stores of all tasks of a state updater."""
    return [store for task in updater.tasks for store in stores_of_task(task)]


def standbys_of_updater(updater: StateUpdater) -> list[StateStore]:
    """The stores of the standbys of a state updater."""
    standbys = [each.task for each in updater._updating.values() if not each.is_active]
    return [store for task in standbys for store in stores_of_task(task)]


def flushing(
    owner: type, name: str, stores: Callable[[Any], Iterable[StateStore]] = stores_of_task
) -> Break:
    """A step of a task, or of another owner of stores, also flushes them."""

    def change(patch: Patch) -> None:
        right = getattr(owner, name)

        def wrong(self: Any, *given: Any, **more: Any) -> Any:
            for store in stores(self):
                store.flush()
            return right(self, *given, **more)

        patch.setattr(owner, name, wrong)

    return change


def always_at_least_once(_: TaskConfig) -> dict[str, Any]:
    """Stores never learn of the other guarantee."""
    return {PROCESSING_GUARANTEE_CONFIG: AT_LEAST_ONCE}


def global_stores_at_least_once(patch: Patch) -> None:
    """The contexts that a process makes itself, also for global stores, know one guarantee."""
    right = StateDirectory.context

    def wrong(self: StateDirectory, task_id: str) -> StateStoreContext:
        found = right(self, task_id)
        is_global = task_id == GLOBAL_STORES
        configs = always_at_least_once(self._config) if is_global else found.app_configs
        return replace(found, app_configs=configs)

    patch.setattr(StateDirectory, "context", wrong)


def swapped(patch: Patch) -> None:
    """Records count as bytes, and bytes as records."""
    right = StreamTask.uncommitted
    patch.setattr(StreamTask, "uncommitted", lambda self: Uncommitted(*reversed(right(self))))


def warning_of_all(patch: Patch) -> None:
    """Every store on a real disk is warned of."""
    right = HostedStore.init

    def wrong(self: HostedStore, *given: Any) -> None:
        logging.getLogger("streamproof.sim").warning("Store %r is old.", self.name)
        right(self, *given)

    patch.setattr(HostedStore, "init", wrong)


def with_files_by(rules: str) -> Break:
    """Offsets lie in files by these rules, whatever the configuration says."""
    return with_attribute(RealDisk, "store_rules", property(lambda _: rules, lambda *_: None))


def keeping_all_offsets(patch: Patch) -> None:
    """The file also has the offsets of stores that manage them."""
    right = HostedStore.close

    def wrong(self: HostedStore) -> None:
        offsets = {}
        if self.name == "managed" and self.is_open:
            directory, task = self._own.state_dir.parent, self._own.task_id  # type: ignore[union-attr]
            partition = TopicPartition("app-managed-changelog", int(task[-1]))
            offsets = {partition: self.committed_offset(partition)}
        right(self)
        if offsets:
            file = StoreCheckpoint(directory / ".checkpoint", *["app-managed-changelog"] * 2)
            file.write(offsets)  # type: ignore[arg-type]

    patch.setattr(HostedStore, "close", wrong)


def committing_each_partition(self: GlobalTable, name: str) -> None:
    """Each partition of a global store has a commit of its own."""
    for partition, offset in self._offsets.items():
        self.stores[name].commit({topic_partition(partition): offset})


def committing_one_partition(self: GlobalTable, name: str) -> None:
    """The offsets of all partitions but the last one are forgotten."""
    for partition, offset in list(self._offsets.items())[-1:]:
        self.stores[name].commit({topic_partition(partition): offset})


def reading_from_the_start(patch: Patch) -> None:
    """A process does not look for the offsets of the process before."""
    right = GlobalTable._open

    def wrong(self: GlobalTable, names: Any) -> None:
        right(self, names)
        self._offsets.clear()

    patch.setattr(GlobalTable, "_open", wrong)


def waiting_for_one_partition(patch: Patch) -> None:
    """Tasks start once the last partition of the table is read."""
    right = GlobalTable._find_ends

    def wrong(self: GlobalTable) -> Any:
        ends = yield from right(self)
        return dict(list(ends.items())[-1:])

    patch.setattr(GlobalTable, "_find_ends", wrong)


def taking_over_no_position(patch: Patch) -> None:
    """A store that takes offsets over begins with an empty position."""
    right = ManagingStore._take_over

    def wrong(self: ManagingStore, context: StateStoreContext) -> None:
        image = self._disk.image(context.state_dir, self._name)
        is_upgrade = not image.manages
        right(self, context)
        if is_upgrade:
            image.position = Position()

    patch.setattr(ManagingStore, "_take_over", wrong)


NEVER = property(lambda _: False)
RIGHT_VIEW = ModelStore.read_only


def wiping_what_it_opens(patch: pytest.MonkeyPatch) -> None:
    """A thread deletes the files of a task before it opens the task."""
    right = StreamThread._open

    def wrong(self: StreamThread, name: str, *, is_active: bool) -> None:
        self._disk.wipe(name)
        right(self, name, is_active=is_active)

    patch.setattr(StreamThread, "_open", wrong)


def wiping_after_errors(traits: Traits, closing: Closing) -> bool:
    """Under exactly-once, an error wipes any store."""
    return traits.exactly_once and closing is not Closing.CLEAN


def read_past_the_cache(patch: Patch) -> None:
    """A query reads the store behind the record cache."""
    right = QueryServer._shown

    def wrong(self: QueryServer, query: Any, copy: _Copy, level: Any) -> Any:
        behind = SimpleNamespace(store=copy.holder.database)
        return right(self, query, copy._replace(holder=cast("StoreHolder", behind)), level)

    patch.setattr(QueryServer, "_shown", wrong)


def hide_what_is_staged(self: Any, _: IsolationLevel) -> ReadOnlyKeyValueStore:
    """No view shows what is staged, whatever the level."""
    return RIGHT_VIEW(self, IsolationLevel.READ_COMMITTED)


def answer_from_standbys(patch: Patch) -> None:
    """Clients ask standbys without leave, and these answer."""
    defects = {"routes-to-standbys-without-leave", "lets-standbys-answer"}
    patch.setattr(World, "defect", lambda _, name: name in defects)


def show_nothing_of_standbys(patch: Patch) -> None:
    """A standby answers as if it had nothing."""
    right = QueryServer._shown
    patch.setattr(
        QueryServer,
        "_shown",
        lambda self, query, copy, level: right(self, query, copy, level) if copy.is_active else [],
    )


def forget_positions_of_bounded_answers(patch: Patch) -> None:
    """An answer to a query with a bound has no position."""
    right = QueryServer._read

    def wrong(self: QueryServer, query: Any, copy: Any) -> Answer:
        found = right(self, query, copy)
        return found._replace(position={}) if query.bound else found

    patch.setattr(QueryServer, "_read", wrong)


def telling(told: str, change: Callable[..., tuple[Any, ...]]) -> Break:
    """A method of a listener gets other arguments, while the trace and the metrics are right.

    Args:
        told: the name of the method.
        change: the arguments after the store, from the announcer and the right ones.
    """
    right = Announcer._tell

    def wrong(self: Announcer, method: Callable[..., None], *given: Any) -> None:
        partition, store, *more = given
        if method.__name__ == told:
            more = list(change(*more))
        right(self, method, partition, store, *more)

    return with_attribute(Announcer, "_tell", wrong)


def suspending_with_the_next_offset(patch: Patch) -> None:
    """A suspension tells the next offset instead of the number of restored records."""
    right = Announcer.suspended

    def wrong(self: Announcer, updating: Updating, partition: str, *more: Any) -> None:
        def told(*given: Any) -> None:
            listener.on_restore_suspended(*given[:2], updating.task.next_restored(partition))

        listener = self._listener
        self._listener = cast("Any", SimpleNamespace(on_restore_suspended=told))
        right(self, updating, partition, *more)
        self._listener = listener

    patch.setattr(Announcer, "suspended", wrong)


def raising_by_default(*_: object) -> None:
    """A listener has to override this method."""
    raise NotImplementedError


def ending_by_default(self: StateRestoreListener, *given: Any) -> None:
    """A suspension counts as an end."""
    self.on_restore_end(*given)


def silent_in(name: str) -> Break:
    """A step of a state updater suspends restorations without a word."""
    right = getattr(StateUpdater, name)

    def wrong(self: StateUpdater, *given: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Announcer, "suspended", lambda *_: None)
            right(self, *given)

    return with_attribute(StateUpdater, name, wrong)


def counting_from_what_was_fetched(patch: Patch) -> None:
    """The lag counts from the next offset to fetch, not from the next one to poll."""
    right = Consumer.current_lag

    def wrong(self: Consumer, partition: str) -> int | None:
        state = self._of(partition)
        position = state.position
        if state.completed is not None:
            state.position = state.completed.next_offset
        found = right(self, partition)
        state.position = position
        return found

    patch.setattr(Consumer, "current_lag", wrong)


def ready_by_records_alone(
    self: _Rebuilding, records: Any, next_offset: int, *, is_at_end: bool
) -> None:
    """A newer format that lacks no record when it is opened never counts as complete."""
    if records:
        ready(self, records, next_offset, is_at_end=is_at_end)


ready = _Rebuilding.take


def rebuilt_without_times(
    self: _Rebuilding, records: Any, next_offset: int, *, is_at_end: bool
) -> None:
    """The records of the changelog lose their timestamps on the way to the newer format."""
    plain = [each._replace(timestamp=NO_TIMESTAMP) for each in records]
    ready(self, plain, next_offset, is_at_end=is_at_end)


def knowing_the_mode_in_place_alone(self: Release) -> int:
    """In a roll-over an instance reports in the newest version."""
    newest = self.metadata_version
    return newest if self.upgrade_mode == "roll_over" else used_version(self)


used_version = cast(Any, Release.used_version).fget


def silent_at_info(module: str) -> Break:
    """A background task writes its messages at a level below INFO."""
    logger = logging.getLogger(f"streamproof.sim.tasks.{module}")
    return with_attribute(logger, "info", logger.debug)


def rebuilding_once(self: FormatRebuild) -> Any:
    """The second bounce ends the background task."""
    if self._is_first_bounce:
        yield from rebuild(self)


rebuild = FormatRebuild.run


def copying_at_the_next_process(clients: Any, *given: Any) -> Any:
    """Each new process copies the tasks that another one will get."""
    found = mirrored(clients, *given)
    names = sorted(found)
    return {name: found[names[number - 1]] for number, name in enumerate(names)}


mirrored = assignor._mirrored


def waiting_for_the_next_rebalance(self: PartitionAssignor, answer: Any, generation: int) -> bool:
    """A member that got an empty assignment requests no rebalance."""
    return hear(self, answer, generation) and not answer.probing


hear = PartitionAssignor.hear


def mirroring_a_majority(subscriptions: Any) -> list[str]:
    """New members work as soon as they outnumber the old ones."""
    reports = list(subscriptions)
    found = mirrors(reports)
    newer = sum(each.process in found for each in reports)
    return [] if newer > len(reports) - newer else found


mirrors = assignor.mirroring


def knowing_the_first_end_alone(patch: Patch) -> None:
    """A consumer keeps the first end of a partition that it gets to know."""
    ends: dict[tuple[int, str], int] = {}
    right = Consumer.current_lag

    def wrong(self: Consumer, partition: str) -> int | None:
        lag, position = right(self, partition), self.position(partition)
        if lag is None or position is None:
            return None
        return ends.setdefault((id(self), partition), lag + position) - position

    patch.setattr(Consumer, "current_lag", wrong)


tell_end = Announcer.ended


def totals_of_a_task(self: Announcer, updating: Updating, partition: str) -> None:
    """The end of a restoration counts the records of all stores of the task."""
    each = updating.changelogs[partition]
    own, each.total = each.total, sum(other.total for other in updating.changelogs.values())
    tell_end(self, updating, partition)
    each.total = own


def complete_one_record_early(end: int, position: int, buffered: Sequence[int]) -> bool:
    """A restoration ends one record before its end, unless that record is its first."""
    return restore_range.is_complete(max(end - 1, min(end, 1)), position, buffered)


add_task = UpdaterMetrics.add


def measuring_one_task_of_each_role(
    self: UpdaterMetrics, task_id: str, *, is_active: bool
) -> StateRestoreListener:
    """A new task takes the place of the task of its role."""
    for other in list(self._active if is_active else self._standby):
        self.remove(other)
    return add_task(self, task_id, is_active=is_active)


count_task = StateUpdater._count


def counting_one_task_at_most(self: StateUpdater, updating: Updating, change: int) -> None:
    """The metrics say whether there are paused tasks, and not how many."""
    count_task(self, updating, change)
    thread = self.metrics.thread
    thread.active_paused_tasks = min(thread.active_paused_tasks, 1)


def taking_unknown_for_much(self: StreamTask) -> Uncommitted:
    """A store that cannot count makes a commit due."""
    counts = [each.store.approximate_num_uncommitted_bytes() for each in self.stores.values()]
    return Uncommitted(0, 1 << 40 if min(counts) < 0 else sum(counts))


take_over = ManagingStore._take_over


def forgetting_the_offsets(self: ManagingStore, context: StateStoreContext) -> None:
    """The newer release drops the offsets of the file."""
    take_over(self, context)
    image = self._disk.image(context.state_dir, self._name)
    image.offsets = {}


def the_file_wins(self: HostedStore, left: Sequence[OffsetCheckpoint]) -> None:
    """The offset in the file replaces that of the store."""
    for source in left:
        self._inner.commit(source.read())
        source.delete()


def scanning_one_task(patch: Patch) -> None:
    """At its start, a process opens the stores of its first task alone."""
    right = StateDirectory.initialize_startup_stores

    def wrong(self: StateDirectory, tasks: Mapping[str, TaskSpec]) -> None:
        right(self, {name: tasks[name] for name in sorted(tasks)[:1]})

    patch.setattr(StateDirectory, "initialize_startup_stores", wrong)


WRONG_HANDLING: list[tuple[str, str, Break]] = [
    (
        "TASK-045",
        "staging.stores_learn_their_isolation_level",
        global_stores_at_least_once,
    ),
    (
        "TASK-045",
        "staging.stores_learn_their_isolation_level",
        with_attribute(TaskConfig, "store_configs", property(always_at_least_once)),
    ),
    (
        "TASK-045",
        "staging.stores_learn_their_isolation_level",
        with_attribute(StateStoreContext, "exactly_once", property(lambda _: True)),
    ),
    (
        "TASK-046",
        "staging.at_least_once_holds_nothing_back",
        with_attribute(StateStoreContext, "stages", property(lambda _: True)),
    ),
    (
        "TASK-046",
        "staging.at_least_once_holds_nothing_back",
        with_attribute(StateStoreContext, "stages", NEVER),
    ),
    (
        "TASK-048",
        "staging.the_limits_have_their_defaults",
        with_default("max_uncommitted_bytes", 32 * 1024 * 1024),
    ),
    (
        "TASK-048",
        "staging.the_limits_have_their_defaults",
        with_default("max_uncommitted_records", 100_000),
    ),
    (
        "TASK-049",
        "staging.records_make_a_commit_due",
        with_limits(lambda found: found._replace(records=-1)),
    ),
    ("TASK-049", "staging.records_make_a_commit_due", swapped),
    (
        "TASK-049",
        "staging.records_make_a_commit_due",
        with_attribute(application, "share_of", lambda limits, _: limits),
    ),
    (
        "TASK-010",
        "staging.bytes_make_a_commit_due",
        with_attribute(application, "share_of", lambda limits, _: limits),
    ),
    (
        "TASK-010",
        "staging.bytes_make_a_commit_due",
        with_limits(lambda found: found._replace(bytes=-1)),
    ),
    ("TASK-010", "staging.bytes_make_a_commit_due", swapped),
    ("TASK-010", "staging.all_stores_of_a_thread_count", counting_one_store("bytes")),
    ("TASK-049", "staging.all_stores_of_a_thread_count", counting_one_store("records")),
    ("LIFE-012", "store_handling.processors_cannot_end_a_store", unguarded("init")),
    ("LIFE-012", "store_handling.processors_cannot_end_a_store", unguarded("commit")),
    ("LIFE-012", "store_handling.processors_cannot_end_a_store", unguarded("close")),
    ("LIFE-012", "store_handling.processors_cannot_end_a_store", unguarded("flush")),
    (
        "LIFE-012",
        "store_handling.processors_cannot_end_a_store",
        with_attribute(StoreHolder, "__post_init__", without_guard),
    ),
    (
        "LIFE-012",
        "store_handling.processors_cannot_end_a_store",
        with_attribute(StoreHolder, "__post_init__", without_cached_guard),
    ),
    ("LIFE-012", "store_handling.processors_cannot_end_a_store", without_global_guard),
    ("TASK-051", "store_handling.nobody_flushes", flushing(StreamTask, "commit_store")),
    ("TASK-051", "store_handling.nobody_flushes", flushing(StreamTask, "_close_stores")),
    ("TASK-051", "store_handling.nobody_flushes", flushing(StreamTask, "flush_caches")),
    ("TASK-051", "store_handling.nobody_flushes", flushing(StreamTask, "apply")),
    (
        "TASK-051",
        "store_handling.nobody_flushes",
        flushing(StateUpdater, "_commit", stores_of_updater),
    ),
    (
        "TASK-051",
        "store_handling.nobody_flushes",
        flushing(StateUpdater, "_commit", standbys_of_updater),
    ),
    (
        "TASK-051",
        "store_handling.nobody_flushes",
        flushing(GlobalTable, "_commit_store", lambda table: table.stores.values()),
    ),
    (
        "TASK-052",
        "store_handling.requested_commits_follow",
        with_attribute(StreamTask, "request_commit", lambda _: None),
    ),
    (
        "TASK-047",
        "staging.as_shipped_the_guarantee_does_not_matter",
        with_attribute(StateStoreContext, "stages", property(lambda self: self.exactly_once)),
    ),
    (
        "TASK-050",
        "staging.unlimited_means_unlimited",
        with_attribute(
            ModelStore, "approximate_num_uncommitted_entries", lambda self: len(self._memtable)
        ),
    ),
    (
        "TASK-060",
        "checkpoint.unmanaged_offsets_are_warned_of",
        with_attribute(checkpointing._logger, "warning", lambda *_: None),
    ),
    ("TASK-060", "checkpoint.unmanaged_offsets_are_warned_of", warning_of_all),
    (
        "TASK-061",
        "checkpoint.offsets_lie_in_the_file_of_the_task",
        with_attribute(StoreCheckpoint, "_of_others", lambda _: {}),
    ),
    (
        "TASK-061",
        "checkpoint.offsets_lie_in_the_file_of_the_task",
        with_attribute(StoreCheckpoint, "delete", lambda _: None),
    ),
    (
        "TASK-061",
        "checkpoint.offsets_lie_in_the_file_of_the_task",
        with_attribute(LegacyCheckpointingStateStore, "_write", lambda *_: None),
    ),
    ("TASK-061", "checkpoint.offsets_lie_in_the_file_of_the_task", keeping_all_offsets),
    ("TASK-061", "checkpoint.offsets_lie_in_the_file_of_the_task", with_files_by("kafka")),
    ("TASK-062", "checkpoint.offsets_lie_in_a_file_for_each_store", with_files_by("proposal")),
    (
        "TASK-062",
        "checkpoint.offsets_lie_in_a_file_for_each_store",
        with_attribute(StoreCheckpoint, "delete", lambda _: None),
    ),
    (
        "TASK-063",
        "global_store.partitions_are_committed_at_once",
        with_attribute(GlobalTable, "_commit_store", committing_each_partition),
    ),
    (
        "TASK-063",
        "global_store.partitions_are_committed_at_once",
        with_attribute(GlobalTable, "_commit_store", committing_one_partition),
    ),
    (
        "TASK-063",
        "global_store.partitions_are_committed_at_once",
        with_attribute(GlobalTable, "_commit_store", lambda *_: None),
    ),
    ("TASK-063", "global_store.partitions_are_committed_at_once", reading_from_the_start),
    ("TASK-053", "kept_store.a_crash_keeps_what_is_on_the_disk", wiping_what_it_opens),
    (
        "ASSIGN-012",
        "kept_store.what_a_crash_leaves_is_reported",
        with_attribute(StateDirectory, "initialize_startup_stores", lambda *_: None),
    ),
    ("ASSIGN-012", "kept_store.what_a_crash_leaves_is_reported", scanning_one_task),
    (
        "TASK-054",
        "kept_store.a_commit_in_doubt_wipes_nothing",
        with_attribute(stream_thread, "closing_in_doubt", lambda _: Closing.CORRUPTED),
    ),
    (
        "TASK-054",
        "kept_store.a_commit_in_doubt_wipes_nothing",
        with_attribute(stream_thread, "wipes_after", wiping_after_errors),
    ),
    (
        "TASK-055",
        "kept_store.a_commit_in_doubt_wipes_as_shipped",
        with_attribute(stream_thread, "closing_in_doubt", lambda _: Closing.DIRTY),
    ),
    ("QUERY-104", "query.visible_at_once_through_a_cache", read_past_the_cache),
    (
        "QUERY-105",
        "query.default_as_shipped",
        with_attribute(ModelStore, "read_only", hide_what_is_staged),
    ),
    (
        "QUERY-107",
        "query.default_as_shipped",
        with_attribute(QueryServer, "_level", lambda *given: given[2].task.isolation_level),
    ),
    ("QUERY-113", "query.standby_answers_with_leave_alone", answer_from_standbys),
    ("QUERY-114", "query.standby_answers_with_leave_alone", show_nothing_of_standbys),
    ("QUERY-117", "query.bound_keeps_an_old_copy_out", forget_positions_of_bounded_answers),
    (
        "LISTEN-108",
        "state_updater.nothing_has_to_be_overridden",
        with_attribute(StateRestoreListener, "on_restore_suspended", raising_by_default),
    ),
    (
        "LISTEN-108",
        "state_updater.nothing_has_to_be_overridden",
        with_attribute(StateRestoreListener, "on_restore_suspended", ending_by_default),
    ),
    (
        "LISTEN-110",
        "restore_listener.calls_are_those_of_the_stores",
        suspending_with_the_next_offset,
    ),
    (
        "LISTEN-110",
        "restore_listener.calls_are_those_of_the_stores",
        telling("on_restore_start", lambda start, end: (start + 1, end)),
    ),
    (
        "LISTEN-110",
        "restore_listener.calls_are_those_of_the_stores",
        telling("on_restore_start", lambda start, end: (start, end + 1)),
    ),
    (
        "LISTEN-110",
        "restore_listener.calls_are_those_of_the_stores",
        telling("on_restore_start", lambda start, end: (start, end - start)),
    ),
    (
        "LISTEN-110",
        "restore_listener.calls_are_those_of_the_stores",
        telling("on_batch_restored", lambda offset, count: (offset + 1, count)),
    ),
    (
        "LISTEN-110",
        "restore_listener.calls_are_those_of_the_stores",
        telling("on_batch_restored", lambda last, *_: (last, last + 1)),
    ),
    (
        "LISTEN-110",
        "restore_listener.calls_are_those_of_the_stores",
        telling("on_restore_end", lambda total: (total + 1,)),
    ),
    (
        "LISTEN-110",
        "restore_listener.calls_are_those_of_the_stores",
        telling("on_update_start", lambda start: (start + 1,)),
    ),
    (
        "LISTEN-110",
        "restore_listener.calls_are_those_of_the_stores",
        telling("on_batch_loaded", lambda task, last, *more: (task, last + 1, *more)),
    ),
    (
        "LISTEN-110",
        "restore_listener.calls_are_those_of_the_stores",
        telling("on_batch_loaded", lambda *given: (*given[:-1], given[1])),
    ),
    (
        "LISTEN-110",
        "restore_listener.calls_are_those_of_the_stores",
        telling("on_update_suspended", lambda last, *more: (last + 1, *more)),
    ),
    (
        "LISTEN-101",
        "restore_listener.calls_are_those_of_the_stores",
        silent_in("_die"),
    ),
    (
        "LISTEN-101",
        "restore_listener.calls_are_those_of_the_stores",
        silent_in("remove"),
    ),
    (
        "UPGRADE-106",
        "configuration.each_older_release_has_its_version",
        with_attribute(releases, "_UPGRADED_FROM", {"0.10.0": 1, "1.1": 2}),
    ),
    (
        "UPGRADE-106",
        "configuration.each_older_release_has_its_version",
        with_attribute(Release, "used_version", property(knowing_the_mode_in_place_alone)),
    ),
    (
        "UPGRADE-117",
        "configuration.only_releases_are_upgraded",
        with_attribute(upgrade_configs, "RELEASES", upgrade_configs.RELEASES[1:]),
    ),
    (
        "UPGRADE-118",
        "configuration.modes_are_known",
        with_attribute(Release, "formats", property(lambda _: (1, 2))),
    ),
    (
        "UPGRADE-118",
        "configuration.modes_are_known",
        with_attribute(
            releases, "upgrade_use", lambda context, **_: upgrade_use(context, shipped=True)
        ),
    ),
    ("LISTEN-111", "state_updater.a_failed_one_is_suspended", silent_in("_fail")),
    ("LISTEN-111", "state_updater.a_failed_one_is_suspended", silent_in("_die")),
    ("LAG-001", "consumer.counts_what_was_not_polled", counting_from_what_was_fetched),
    ("LAG-001", "consumer.counts_what_was_not_polled", knowing_the_first_end_alone),
    (
        "LISTEN-103",
        "state_updater.each_store_by_itself",
        with_attribute(Announcer, "ended", totals_of_a_task),
    ),
    (
        "LISTEN-110",
        "restore_listener.calls_are_those_of_the_stores",
        with_attribute(state_updater, "is_complete", complete_one_record_early),
    ),
    (
        "METRIC-103",
        "runtime_metric.of_a_task",
        with_attribute(UpdaterMetrics, "add", measuring_one_task_of_each_role),
    ),
    (
        "METRIC-112",
        "state_updater.tasks_are_counted",
        with_attribute(StateUpdater, "_count", counting_one_task_at_most),
    ),
    (
        "TASK-050",
        "staging.unlimited_means_unlimited",
        with_attribute(StreamTask, "uncommitted", taking_unknown_for_much),
    ),
    (
        "TASK-050",
        "staging.unlimited_means_unlimited",
        with_attribute(StateStore, "approximate_num_uncommitted_bytes", lambda _: 2),
    ),
    (
        "UPGRADE-119",
        "offset_upgrade.models_go_on",
        with_attribute(ManagingStore, "_take_over", forgetting_the_offsets),
    ),
    (
        "UPGRADE-119",
        "offset_upgrade.real_stores_go_on",
        with_attribute(HostedStore, "_hand_over_offsets", lambda *_: None),
    ),
    (
        "UPGRADE-119",
        "offset_upgrade.real_stores_go_on",
        with_attribute(HostedStore, "_hand_over_offsets", the_file_wins),
    ),
    (
        "UPGRADE-105",
        "mirror.newer_members_only_copy",
        with_attribute(assignor, "mirroring", mirroring_a_majority),
    ),
    (
        "UPGRADE-115",
        "mirror.copies_take_over",
        with_attribute(assignor, "_mirrored", copying_at_the_next_process),
    ),
    (
        "UPGRADE-103",
        "metadata_version.a_probed_member_rebalances_at_once",
        with_attribute(PartitionAssignor, "hear", waiting_for_the_next_rebalance),
    ),
    (
        "UPGRADE-112",
        "prepared.again_after_a_restart",
        with_attribute(_Rebuilding, "take", ready_by_records_alone),
    ),
    (
        "UPGRADE-112",
        "prepared.again_after_a_restart",
        silent_at_info("format_rebuild"),
    ),
    (
        "UPGRADE-112",
        "prepared.goes_on_after_the_second_bounce",
        with_attribute(FormatRebuild, "run", rebuilding_once),
    ),
    (
        "UPGRADE-114",
        "prepared.progress_and_readiness_are_logged",
        silent_at_info("take_over"),
    ),
    (
        "UPGRADE-114",
        "prepared.progress_and_readiness_are_logged",
        with_attribute(TakeOver, "_tell_progress", lambda *_: None),
    ),
    (
        "UPGRADE-116",
        "prepared.upgraded_rows_have_the_time_of_their_records",
        with_attribute(_Rebuilding, "take", rebuilt_without_times),
    ),
    ("POS-102", "position.position_outlives_the_process", taking_over_no_position),
    ("TASK-064", "global_store.tasks_wait_for_the_global_stores", waiting_for_one_partition),
    (
        "TASK-068",
        "commit_timing.requested_commits_leave_the_beat_alone",
        with_attribute(task_committer, "periodic_commit_after", lambda now, *_, **__: now),
    ),
]
"""The requirement, the check, and a change that makes the runtime wrong."""


def trusting_fenced_stores(patch: Patch) -> None:
    """A fenced task keeps its stores, and they keep their offsets."""
    for each in (stream_task, stream_thread):
        patch.setattr(each, "wipes_after", lambda *_: False)


WRONGLY_KEPT: list[tuple[str, Break]] = [
    ("TASK-053", wiping_what_it_opens),
    ("TASK-054", with_attribute(stream_thread, "wipes_after", wiping_after_errors)),
    ("TASK-003", trusting_fenced_stores),
]
"""The requirement of an invariant, and a change that breaks it."""
