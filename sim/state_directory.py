"""The state directory of a process: the locks of tasks, their offset sums, and the cleaner.

A lock belongs to a thread, and is in memory alone, so that it ends with the process. The offset sum
of a task says how far its stores are. The sums are found out once, before the threads start, and
noted whenever a task is closed.

Sources: KIP-1035, "Consumer Rebalance Metadata"; Kafka, StateDirectory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from streamproof.sim.actor_hosts import Host, Steps
from streamproof.sim.decisions.lag import offset_sum
from streamproof.sim.decisions.recovery import (
    OFFSET_UNKNOWN,
    Closing,
    FoundStore,
    opening,
)
from streamproof.sim.disks import Flushed, InstanceDisk
from streamproof.sim.releases import PREPARING_IN_PLACE, Formats
from streamproof.sim.tasks.store_holder import topic_partition
from streamproof.sim.tasks.stream_task import StreamTask
from streamproof.sim.tasks.task_config import TaskConfig
from streamproof.sim.topology import TaskSpec
from streamproof.sim.upgraded_formats import NEWER
from streamproof.sim.world import World
from streamproof.stores.api import (
    UPGRADE_FROM_CONFIG,
    UPGRADE_MODE_CONFIG,
    KeyValueStore,
    StateStoreContext,
)
from streamproof.stores.errors import ProcessorStateError, TaskCorruptedError

__all__ = ["GLOBAL_STORES", "StateDirectory", "next_offset_sum", "sum_at_close"]

_CLEANER = "cleaner"

GLOBAL_STORES = "global"
"""The directory of the global stores, beside those of the tasks."""


class StateDirectory:
    """The state directory, as one process has it.

    Args:
        world: the world.
        host: the process.
        disk: the disk of its instance.
        config: the configuration of all tasks.

    Raises:
        ProcessorStateError: another process uses the directory.
    """

    def __init__(self, world: World, host: Host, disk: InstanceDisk, config: TaskConfig) -> None:
        if disk.process is not None:
            raise ProcessorStateError(
                f"The state directory of {host.name} is in use by {disk.process}: stop that "
                "process first, or give this process its own directory (state.dir)."
            )
        disk.process = host.name
        disk.store_rules = config.store_rules
        disk.discards_older = config.live_format == "configuration"
        self._world = world
        self._host = host
        self._disk = disk
        self._config = config
        self._sums: dict[str, int] = {}
        self._owners: dict[str, str] = {}
        self._cleaning = ""

    # The tasks.

    def directory(self, task_id: str) -> Path:
        """The directory of a task's stores."""
        return self._disk.directory(task_id)

    def is_empty(self, task_id: str) -> bool:
        """Whether the disk has nothing of a task."""
        return self._disk.is_empty(task_id)

    def make_store(self, name: str, formats: Formats) -> KeyValueStore:
        """A store that is not open yet.

        Args:
            name: the name of the store.
            formats: the formats to open, the live one first.
        """
        return self._disk.make_store(
            name,
            transactional=self._config.transactional,
            formats=formats,
            segment_of=self._config.segmented.get(name),
        )

    def make_global_store(self, name: str) -> KeyValueStore:
        """A global store that is not open yet."""
        return self._disk.make_global_store(name, transactional=self._config.transactional)

    def context(self, task_id: str) -> StateStoreContext:
        """A context for stores in the directory of a task, without the services of a task."""
        return StateStoreContext(
            state_dir=self.directory(task_id),
            task_id=task_id,
            application_id=self._config.application_id,
            app_configs=dict(self._config.store_configs),
        )

    def fill_memtable(self, store: KeyValueStore) -> Flushed:
        """Let a store write its memory to the disk by itself, as when a buffer is full."""
        return self._disk.fill_memtable(store)

    def app_configs(self, formats: Formats) -> dict[str, str]:
        """The configuration of the release, for stores, by Kafka's names.

        Args:
            formats: the formats that a store opens, the live one first. The runtime may have it
                prepare the newer one longer than the configuration of the instance says.
        """
        release = self._disk.release
        if formats == (1, 2) and not release.upgrade_mode:
            release = PREPARING_IN_PLACE
        configs = {
            UPGRADE_FROM_CONFIG: release.upgrade_from,
            UPGRADE_MODE_CONFIG: release.upgrade_mode,
        }
        return {name: value for name, value in configs.items() if value}

    # The formats on the disk (KIP-258).

    @property
    def _tasks(self) -> list[str]:
        """The tasks with a directory. The global stores have only one format."""
        return [each for each in self._disk.tasks if each != GLOBAL_STORES]

    def formats(self, store: str) -> Formats:
        """The formats of a store that the disk has, of any task; without any, the newer one."""
        places = {place for task in self._tasks for place in self._disk.places(task)}
        found = tuple(
            each for each, place in ((1, store), (2, f"{store}{NEWER}")) if place in places
        )
        return found or (2,)

    def tell_formats(self, thread: str) -> None:
        """Emit a listing of all directories of stores, by task."""
        places = {task: self._disk.places(task) for task in self._tasks}
        self._world.trace.emit("disk.listed", thread, places=places)

    def discard_older(self, thread: str) -> None:
        """Delete all directories of older formats, except for tasks that another thread has."""
        for task in self._tasks:
            if self._owners.get(task, thread) not in (thread, _CLEANER):
                continue
            for place in self._disk.places(task):
                if not place.endswith(NEWER):
                    self._disk.discard(task, place)

    @property
    def delay_ms(self) -> int:
        """How long the next step of the disk takes."""
        return self._disk.delay_ms

    def closed(self, task: StreamTask, total: int | None, closing: Closing) -> None:
        """Note that a task was closed, and that its directory was in use until now (KAFKA-20805).

        Args:
            task: the task.
            total: the sum of the offsets that its stores have committed; ``None`` if nobody knows,
                because a store could not be closed.
            closing: how it was closed. A corrupted task has no offsets.

        Source: KIP-1035, "Consumer Rebalance Metadata": the offsets of each store that is closed.
        """
        if not self._world.defect("forgets-last-use"):
            self._disk.used[task.id] = self._host.now
        if closing is Closing.CORRUPTED or total is None:
            self._sums.pop(task.id, None)
        elif task.spec.changelogs:
            self._sums[task.id] = total

    def wipe(self, task_id: str) -> None:
        """Delete everything of a task."""
        self._disk.wipe(task_id)
        self._sums.pop(task_id, None)

    # Locks.

    def lock(self, task_id: str, thread: str) -> bool:
        """Lock the directory of a task for a thread; return whether the thread has the lock.

        Kafka locks nothing in an application without persistent stores (StateDirectory#lock). There
        a thread that has lost a task without knowing may have it open beside the next thread, which
        does not come about here.
        """
        self._disk.used.setdefault(task_id, self._host.now)
        return self._owners.setdefault(task_id, thread) == thread

    def unlock(self, task_id: str, thread: str) -> None:
        """Unlock the directory of a task. A lock of another thread stays."""
        if self._owners.get(task_id) == thread:
            del self._owners[task_id]

    def unlock_all(self, thread: str) -> None:
        """Release all locks of a thread, because it ends."""
        for task_id in [each for each, owner in self._owners.items() if owner == thread]:
            del self._owners[task_id]

    def sums(self, thread: str) -> dict[str, int]:
        """The offset sums of all tasks that no other thread has, for the leader of the group.

        A thread that has a task open knows its sum better, and reports it itself.
        """
        return {
            task: total
            for task, total in sorted(self._sums.items())
            # The cleaner may find that the directory is still in use.
            if self._owners.get(task, thread) in (thread, _CLEANER)
        }

    @property
    def leaks(self) -> list[str]:
        """The locks and stores that are still in use; after all threads have stopped, none may be.

        The lock of the cleaner does not count, because the cleaner ends with the process.
        """
        locks = [
            f"{task} is locked by {owner}"
            for task, owner in sorted(self._owners.items())
            if task != self._cleaning
        ]
        return locks + [f"store {each.name} is open" for each in self._disk.open_stores]

    def close(self) -> None:
        """Release the directory for another process."""
        self._disk.process = None

    # The scan at the start.

    def initialize_startup_stores(self, tasks: Mapping[str, TaskSpec]) -> None:
        """Open the stores of each task on disk, note the offset sum of the task, and close them.

        The thread that gets such a task opens it like any other. Stores that stayed open here would
        have to be closed by another thread (KAFKA-18498, KAFKA-20663).

        Args:
            tasks: all tasks of the topology, by id.

        Raises:
            ProcessorStateError: the files of a store cannot be used.
        """
        for task_id in self._disk.tasks:
            spec = tasks.get(task_id)
            if spec is None or not spec.changelogs:
                continue
            self._world.trace.emit("state.opened", self._host.name, task=task_id)
            found = self._offsets(task_id, spec)
            self._disk.used[task_id] = self._host.now
            if found is not None:
                self._sums[task_id] = offset_sum(found)
            self._world.trace.emit(
                "state.found", self._host.name, task=task_id, total=self._sums.get(task_id, -1)
            )

    def _offsets(self, task_id: str, spec: TaskSpec) -> list[int | None] | None:
        """The next offset of each changelog; ``None`` if the task must be wiped first.

        The scan wipes nothing: the thread that is assigned the task does, if any is.
        """
        context = self.context(task_id)
        found: list[int | None] = []
        formats = {name: self._startup_formats(task_id, name) for name in spec.changelogs}
        stores = {name: self.make_store(name, each) for name, each in formats.items()}
        try:
            for name, changelog in spec.changelogs.items():
                store = stores[name]
                if not store.persistent:
                    # The content of a store in memory is gone, and its old sum with it
                    # (KAFKA-20893).
                    continue
                configs = {**context.app_configs, **self.app_configs(formats[name])}
                store.init(replace(context, app_configs=configs), store)
                offset = store.committed_offset(topic_partition(changelog))
                if opening(self._config.traits, FoundStore(offset, empty=False)).wipe:
                    return None
                known = None if offset == OFFSET_UNKNOWN else offset
                # A store with an offsets file has deleted the file when it was opened. The commit
                # brings the offset back.
                partition = topic_partition(changelog)
                store.commit({partition: OFFSET_UNKNOWN if known is None else known})
                found.append(None if known is None else known + 1)
        except TaskCorruptedError:
            return None
        finally:
            for store in stores.values():
                if store.is_open and not self._world.defect("leaves-startup-stores-open"):
                    store.close()
        return found

    def _startup_formats(self, task_id: str, store: str) -> Formats:
        """The formats to open before the first assignment: the older one is live if it exists."""
        formats = self._disk.release.formats
        waits = self._config.live_format == "assignment" and formats == (2,)
        return (1, 2) if waits and store in self._disk.places(task_id) else formats

    # The cleaner.

    def clean_outdated(self, max_age_ms: int) -> None:
        """Delete the directories of tasks that nobody has used for too long, as the process starts.

        Otherwise a store could go on from an offset although tombstones after it are gone.

        Args:
            max_age_ms: ``state.cleanup.dir.max.age.ms``; a negative number deletes none.

        Source: KIP-1259; Kafka, StateDirectory#cleanOutdatedDirsOnStartup.
        """
        if max_age_ms < 0 or self._world.defect("keeps-outdated-directories"):
            return
        for task_id in self._tasks:
            if self._host.now - self._disk.used.get(task_id, self._host.now) > max_age_ms:
                self._world.marks.sometimes("a directory was too old when its process started")
                self._delete(task_id)

    def clean(self, delay_ms: int, is_running: Callable[[], bool] = lambda: True) -> Steps:
        """Delete the directories of tasks that were unused for long, from time to time, for ever.

        While the process restores or rebalances, a round is left out: a thread that has no task
        yet may be about to get one whose directory is here.

        Args:
            delay_ms: ``state.cleanup.delay.ms``: the time between two rounds, and the time after
                which an unused directory is deleted.
            is_running: whether all threads of the process run.

        Source: Kafka, KafkaStreams#start (the state directory cleaner).
        """
        while True:
            yield self._world.time.timeout(delay_ms)
            if is_running() or self._world.defect("cleans-while-restoring"):
                for task_id in self._disk.tasks:
                    yield from self._clean(task_id, delay_ms)

    def _clean(self, task_id: str, delay_ms: int) -> Steps:
        if not self.lock(task_id, _CLEANER):
            return
        # Other threads may act before the directory is deleted, and must find it locked.
        self._cleaning = task_id
        yield self._world.time.timeout(self.delay_ms)
        self._cleaning = ""
        idle_ms = self._host.now - self._disk.used[task_id]
        if idle_ms > delay_ms:
            self._world.marks.sometimes("the directory of a task was cleaned up")
            self._delete(task_id)
            if self._world.defect("keeps-lock-after-cleaning"):
                return
        # Deleted or not, the directory must be free for other threads again (KAFKA-16025).
        self.unlock(task_id, _CLEANER)

    def _delete(self, task_id: str) -> None:
        self.wipe(task_id)
        self._world.trace.emit("state.cleaned", self._host.name, task=task_id)


def sum_at_close(task: StreamTask, closing: Closing, *, with_memory: bool = False) -> int | None:
    """The sum of the offsets that the stores of an open task will have committed when it is closed.

    A clean close commits what the stores have. Any other close leaves what they committed last.

    Args:
        task: the task.
        closing: how it will be closed.
        with_memory: whether stores in memory count as well, as with a defect.

    Returns:
        the sum; ``None`` if the stores are not open any more.
    """
    if not task.stores:
        return None
    kept = [each for each in task.stores.values() if each.database.persistent or with_memory]
    if closing is Closing.CLEAN:
        return offset_sum(None if each.offset is None else each.offset + 1 for each in kept)
    offsets = [each.store.committed_offset(topic_partition(each.changelog)) for each in kept]
    return offset_sum(None if each in (None, OFFSET_UNKNOWN) else each + 1 for each in offsets)


def next_offset_sum(task: StreamTask) -> int:
    """The offset sum of an open task, over all of its stores, those in memory included.

    Source: Kafka, TaskManager#taskOffsetSums, ProcessorStateManager#changelogOffsets.
    """
    return offset_sum(
        None if each.offset is None else each.offset + 1 for each in task.stores.values()
    )
