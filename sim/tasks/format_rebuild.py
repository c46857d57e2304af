"""The background task of an upgrade in place: it builds the newer format of each store (KIP-258).

Source: KIP-258, In-place upgrade.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, cast

from streamproof.sim.actor_hosts import Host, Steps
from streamproof.sim.application import Application
from streamproof.sim.broker_errors import BrokerError
from streamproof.sim.tasks.changelog_reader import ChangelogReader
from streamproof.sim.tasks.store_holder import topic_partition
from streamproof.sim.tasks.stream_task import StreamTask
from streamproof.stores.api import ChangelogRecord, TopicPartition

__all__ = ["FormatRebuild"]

_MAX_RECORDS = 20
"""How many records of one changelog a fetch asks for."""

_MAX_PAUSE_MS = 1_000
"""The task looks for more records after at most this many milliseconds."""

_logger = logging.getLogger(__name__)


class _Preparing(Protocol):
    """A store that serves its older format, and is given the records of the newer one."""

    @property
    def is_preparing(self) -> bool: ...
    def committed_offset(self, partition: TopicPartition) -> int | None: ...
    def rebuild(self, partition: TopicPartition, records: Sequence[ChangelogRecord]) -> None: ...
    def rebuilt_offset(self, partition: TopicPartition) -> int | None: ...


class _Rebuilding:
    """The newer format of one store under way.

    Args:
        task: the task of the store.
        changelog: the changelog partition of the store.
        store: the store.

    Attributes:
        next_offset: the offset to read from next: that of the store, or one behind markers.
        is_ready: whether the newer format has everything that the live format had committed.
    """

    def __init__(self, task: StreamTask, changelog: str, store: _Preparing) -> None:
        self.task = task
        self.changelog = changelog
        self.store = store
        self._partition = topic_partition(changelog)
        self.next_offset = max(self.offset, -1) + 1
        self.is_ready = False

    @property
    def offset(self) -> int:
        """The offset of the last record that the newer format has; below 0 without one."""
        found = self.store.rebuilt_offset(self._partition)
        return -1 if found is None else found

    def take(
        self, records: Sequence[ChangelogRecord], next_offset: int, *, is_at_end: bool
    ) -> None:
        """Apply the next records."""
        if records:
            self.store.rebuild(self._partition, records)
        self.next_offset = next_offset
        live = self.store.committed_offset(self._partition)
        self.is_ready |= is_at_end and next_offset > (-1 if live is None else live)


class FormatRebuild:
    """Feeds the records of the changelogs to the stores that are being prepared, for ever.

    Args:
        application: the application.
        host: the process.
        tasks: returns the open tasks of the process, standbys included.
        is_settled: whether the process has opened all tasks that it was assigned.
        is_first_bounce: whether an operator waits for the process to be prepared.

    Attributes:
        is_prepared: whether all stores of the process are ready, and the process has said so.
    """

    def __init__(
        self,
        application: Application,
        host: Host,
        tasks: Callable[[], Iterable[StreamTask]],
        is_settled: Callable[[], bool],
        *,
        is_first_bounce: bool,
    ) -> None:
        self._world = application.world
        self._host = host
        self._reader = ChangelogReader(application, host)
        self._tasks = tasks
        self._is_settled = is_settled
        self._is_first_bounce = is_first_bounce
        self._rebuilding: dict[str, _Rebuilding] = {}
        self.is_prepared = False

    def run(self) -> Steps:
        """Feed all stores, round by round. Start this as an actor of the process."""
        while True:
            yield self._world.time.timeout(self._world.choices.between(1, _MAX_PAUSE_MS))
            for each in list(self._found()):
                yield from self._feed(each)
            if self._is_first_bounce:
                self._report()

    def _found(self) -> Iterator[_Rebuilding]:
        """The stores that are prepared now. A store that was opened again begins where it is."""
        before, self._rebuilding = self._rebuilding, {}
        for task in self._tasks():
            for holder in task.stores.values():
                if not getattr(holder.database, "is_preparing", False):
                    continue
                store = cast(_Preparing, holder.database)
                known = before.get(holder.changelog)
                if known is None or known.store is not store:
                    known = _Rebuilding(task, holder.changelog, store)
                self._rebuilding[holder.changelog] = known
        yield from self._rebuilding.values()

    def _feed(self, each: _Rebuilding) -> Steps:
        start = each.next_offset
        try:
            found = yield from self._reader.read(each.task, each.changelog, start, _MAX_RECORDS)
        except BrokerError:
            # The next round asks again.
            return
        if not each.store.is_preparing:
            return
        batch = [
            ChangelogRecord(record.key, record.value, record.offset, record.timestamp)
            for record in found.records
        ]
        each.take(batch, found.next_offset, is_at_end=found.is_at_end)
        self._world.marks.sometimes(
            "a newer format was prepared while the older one was served", holds=each.is_ready
        )
        if batch:
            self._world.trace.emit(
                "store.rebuilt",
                self._host.name,
                task=each.task.id,
                partition=each.changelog,
                offset=batch[-1].offset,
                prepared=each.is_ready,
            )

    def _report(self) -> None:
        """Say once that all stores are ready. An operator may then make the second bounce."""
        # A round takes time: a task may have been opened since the round began, or opened again.
        is_ready = all(each.is_ready for each in self._found())
        if self._world.defect("says-prepared-too-early"):
            is_ready = True
        if self.is_prepared or not is_ready or not self._is_settled():
            return
        stores = {name: max(each.offset, -1) for name, each in sorted(self._rebuilding.items())}
        self.is_prepared = True
        self._world.trace.emit("instance.prepared", self._host.name, stores=stores)
        _logger.info(
            "All %d stores of %s have the newer format beside the live one: remove upgrade.from "
            "and upgrade.mode, and restart.",
            len(stores),
            self._host.name,
        )
