"""The state updater: a second actor beside each stream thread, which restores.

Active tasks are restored until they lack nothing, and are handed back; standbys are kept up to date
for as long as they are here. While an active task restores, the standbys wait.

Sources: KIP-869; Kafka, DefaultStateUpdater and StoreChangelogReader.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from simpy.events import Event

from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.brokers.log import Entry, Isolation
from streamproof.sim.clients.consumer import Consumer
from streamproof.sim.decisions.restoration import applicable, end_of, is_complete, remaining_after
from streamproof.sim.errors import BrokerError, OffsetOutOfRangeError, RequestTimeoutError
from streamproof.sim.hosts import Host, Steps
from streamproof.sim.network import Network
from streamproof.sim.tasks.stream_task import StreamTask
from streamproof.sim.world import World

__all__ = ["POLL_MS", "StateUpdater"]

POLL_MS = 100
"""``poll.ms``: how long a poll waits for records."""


@dataclass
class _Restoration:
    """The restoration of one changelog.

    Attributes:
        end: the first offset that is not restored; ``None`` until it is known.
        start: where it began; ``None`` before that.
        total: records that were applied since the start.
    """

    end: int | None = None
    start: int | None = None
    total: int = 0
    is_complete: bool = False


@dataclass
class _Updating:
    """A task that is here.

    Attributes:
        is_active: whether it is to be handed back; a standby stays.
        changelogs: its restorations, by partition.
    """

    task: StreamTask
    is_active: bool
    changelogs: dict[str, _Restoration] = field(default_factory=dict)


class StateUpdater:
    """Restores the tasks of one stream thread.

    Args:
        world: the world.
        host: the process that the thread belongs to.
        network: the way to the brokers.
        cluster: the brokers.
        isolation: whether aborted records are left out, as they are under exactly-once.
        actor: for the trace.

    Attributes:
        restored: active tasks that lack nothing, to be taken.
        failed: tasks whose restoration cannot go on, with the reason, to be taken.
    """

    def __init__(
        self,
        world: World,
        host: Host,
        network: Network,
        cluster: Cluster,
        *,
        isolation: Isolation,
        actor: str,
    ) -> None:
        self._world = world
        self._host = host
        self._network = network
        self._cluster = cluster
        self._actor = actor
        self._consumer = Consumer(world, host, network, cluster, isolation=isolation)
        self._updating: dict[str, _Updating] = {}
        self._changed = world.time.event()
        self._is_closed = False
        self.restored: list[StreamTask] = []
        self.failed: list[tuple[StreamTask, BrokerError]] = []
        host.start(self._run())

    @property
    def tasks(self) -> list[StreamTask]:
        """The tasks that are being restored, or kept up to date."""
        return [each.task for each in self._updating.values()]

    def add(self, task: StreamTask, *, is_active: bool) -> None:
        """Take a task over; one without stores is handed back at once."""
        changelogs = [each.changelog for each in task.stores.values()]
        if is_active and not changelogs:
            self.restored.append(task)
            return
        restorations = {each: _Restoration() for each in changelogs}
        self._updating[task.id] = _Updating(task, is_active, restorations)
        if not self._changed.triggered:
            self._changed.succeed()

    def remove(self, task_id: str) -> StreamTask | None:
        """Give a task up, wherever it is here; ``None`` if it is not."""
        for task in self.restored:
            if task.id == task_id:
                self.restored.remove(task)
                return task
        found = self._updating.pop(task_id, None)
        if found is None:
            return None
        for partition, each in found.changelogs.items():
            if found.is_active and each.start is not None and not each.is_complete:
                self._tell("restore.suspended", found, partition, total=each.total)
        return found.task

    def close(self) -> None:
        """Stop; whoever is here has been removed."""
        self._is_closed = True
        self._consumer.close()
        if not self._changed.triggered:
            self._changed.succeed()

    def _run(self) -> Steps:
        while not self._is_closed:
            if not self._updating:
                self._changed = self._world.time.event()
                yield self._changed
                continue
            yield from self._find_ends()
            self._assign()
            try:
                polled = yield from self._consumer.poll(POLL_MS)
            except OffsetOutOfRangeError as error:
                self._fail(error)
                continue
            for partition in polled.next_offsets:
                self._apply(partition, polled.records.get(partition, []))
            self._hand_back()

    def _find_ends(self) -> Generator[Event, Any, None]:
        """Ask where the restorations of active tasks end; what stays unknown is asked again."""
        unknown = [
            (partition, each)
            for updating in list(self._updating.values())
            for partition, each in updating.changelogs.items()
            if each.end is None and updating.is_active
        ]
        if not unknown:
            return
        logs = self._cluster.logs
        try:
            # The end of the log, not the last stable offset: see end_of().
            ends = yield from self._network.call(
                self._host.name,
                "list offsets",
                lambda: {partition: logs[partition].end for partition, _ in unknown},
            )
        except RequestTimeoutError:
            return
        for partition, each in unknown:
            each.end = end_of(ends[partition])

    def _assign(self) -> None:
        """Read active tasks first, and standbys only when none is left."""
        restoring = any(each.is_active for each in self._updating.values())
        wanted = {
            partition: updating
            for updating in self._updating.values()
            for partition, each in updating.changelogs.items()
            if updating.is_active == restoring
            and (each.end is not None or not restoring)
            and not each.is_complete
        }
        self._consumer.assign(wanted)
        for partition, updating in wanted.items():
            each = updating.changelogs[partition]
            if each.start is None:
                each.start = updating.task.next_restored(partition)
                # The consumer may remember the position of somebody who was here before.
                self._consumer.seek(partition, each.start)
                if updating.is_active:
                    self._tell("restore.start", updating, partition, start=each.start, end=each.end)
            elif self._consumer.position(partition) is None:
                self._consumer.seek(partition, updating.task.next_restored(partition))

    def _apply(self, partition: str, records: list[Entry]) -> None:
        updating = self._owner(partition)
        if updating is None:
            return
        each = updating.changelogs[partition]
        offsets = [record.offset for record in records]
        count = len(records)
        if updating.is_active and each.end is not None:
            count = applicable(offsets, each.end)
        updating.task.apply(partition, records[:count])
        if not updating.is_active or each.end is None:
            return
        each.total += count
        if count:
            remaining = remaining_after(each.end, offsets[count - 1], each.start or 0)
            self._tell(
                "restore.batch", updating, partition, offsets[count - 1], count, remaining=remaining
            )
        self._complete_if_done(updating, partition, offsets[count:])

    def _complete_if_done(self, updating: _Updating, partition: str, left: list[int]) -> None:
        each = updating.changelogs[partition]
        position = self._consumer.position(partition)
        if each.end is None or each.is_complete or position is None:
            return
        if is_complete(each.end, position, left):
            each.is_complete = True
            self._tell("restore.end", updating, partition, total=each.total)

    def _hand_back(self) -> None:
        for task_id, updating in list(self._updating.items()):
            if not updating.is_active:
                continue
            for partition, each in updating.changelogs.items():
                if each.start is not None and partition in self._consumer.assignment:
                    self._complete_if_done(updating, partition, [])
            if all(each.is_complete for each in updating.changelogs.values()):
                del self._updating[task_id]
                self.restored.append(updating.task)

    def _fail(self, error: OffsetOutOfRangeError) -> None:
        updating = self._owner(error.args[1])
        if updating is not None:
            self.remove(updating.task.id)
            self.failed.append((updating.task, error))

    def _owner(self, partition: str) -> _Updating | None:
        return next(
            (each for each in self._updating.values() if partition in each.changelogs), None
        )

    def _tell(
        self,
        kind: str,
        updating: _Updating,
        partition: str,
        offset: int = -1,
        records: int = 0,
        **more: Any,
    ) -> None:
        self._world.trace.emit(
            kind,
            self._actor,
            task=updating.task.id,
            partition=partition,
            offset=offset,
            records=records,
            **more,
        )
