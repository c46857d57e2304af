"""The progress of the copies that new instances make in a roll-over upgrade (KIP-258).

Source: KIP-258, Roll-over upgrade.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from streamproof.sim.actor_hosts import Host, Steps
from streamproof.sim.application import Application
from streamproof.sim.broker_errors import BrokerError
from streamproof.sim.tasks.changelog_reader import ChangelogReader
from streamproof.sim.tasks.store_holder import StoreHolder
from streamproof.sim.tasks.stream_task import StreamTask

__all__ = ["TakeOver"]

_PAUSE_MS = 500
"""The progress is looked at this often, in milliseconds."""

_EVERYTHING = 1_000_000
"""More entries than any changelog has."""

_logger = logging.getLogger(__name__)


class TakeOver:
    """Follows the copies of a new instance until they are ready to take over.

    A copy is ready once it has every record that its changelog had when this was looked at first.
    Later records follow it all the time.

    Args:
        application: the application.
        host: the process.
        tasks: returns the open tasks of the process.
        has_copies_alone: whether the process has opened all tasks that it was assigned, and none of
            them is active.

    Attributes:
        is_ready: whether all copies that the process has now are ready, and it has said so.
        copies: the changelogs of the copies in its last message.
    """

    def __init__(
        self,
        application: Application,
        host: Host,
        tasks: Callable[[], Iterable[StreamTask]],
        has_copies_alone: Callable[[], bool],
    ) -> None:
        self._world = application.world
        self._host = host
        self._reader = ChangelogReader(application, host)
        self._tasks = tasks
        self._has_copies_alone = has_copies_alone
        # By changelog, the store and the offset of the last record that it needs.
        self._targets: dict[str, tuple[object, int]] = {}
        # By changelog, the offset in the last message about its copy.
        self._told: dict[str, int] = {}
        self.is_ready = False
        self.copies: set[str] = set()

    def run(self) -> Steps:
        """Look at all copies, round by round. Start this as an actor of the process."""
        while True:
            yield self._world.time.timeout(_PAUSE_MS)
            for task in list(self._tasks()):
                for holder in list(task.stores.values()):
                    yield from self._find_target(task, holder)
                    self._tell_progress(holder)
            self._report()

    def _tell_progress(self, holder: StoreHolder) -> None:
        """Log how far a copy is that does not have everything yet, or has got there just now."""
        store, last = self._targets.get(holder.changelog, (None, -1))
        # Later records follow all the time; they are no progress.
        offset = min(-1 if holder.offset is None else holder.offset, last)
        told = self._told.get(holder.changelog)
        if store is not holder.database or told == offset:
            return
        self._told[holder.changelog] = offset
        _logger.info(
            "The copy of %s on %s is at offset %d of %d.",
            holder.changelog,
            self._host.name,
            offset,
            last,
        )

    def _find_target(self, task: StreamTask, holder: StoreHolder) -> Steps:
        store, _ = self._targets.get(holder.changelog, (None, -1))
        if store is holder.database:
            return
        try:
            found = yield from self._reader.read(task, holder.changelog, 0, _EVERYTHING)
        except BrokerError:
            # The next round asks again.
            return
        last = found.records[-1].offset if found.records else -1
        self._targets[holder.changelog] = holder.database, last
        self._told.pop(holder.changelog, None)

    def _has_all(self, holder: StoreHolder) -> bool:
        store, last = self._targets.get(holder.changelog, (None, -1))
        offset = -1 if holder.offset is None else holder.offset
        return store is holder.database and offset >= last

    def _report(self) -> None:
        copies = [each for task in self._tasks() for each in task.stores.values()]
        is_ready = self._has_copies_alone() and all(self._has_all(each) for each in copies)
        if self._world.defect("says-ready-too-early"):
            is_ready = True
        if is_ready and not self.is_ready:
            offsets = {
                each.changelog: -1 if each.offset is None else each.offset for each in copies
            }
            self.copies = set(offsets)
            self._world.trace.emit("instance.ready", self._host.name, copies=offsets)
            _logger.info(
                "All %d copies of %s are ready to take over: stop the old instances.",
                len(copies),
                self._host.name,
            )
        self.is_ready = is_ready
