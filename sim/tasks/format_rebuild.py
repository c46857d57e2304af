"""The background task of an upgrade in place: it builds the newer format of each store (KIP-258).

Source: KIP-258, In-place upgrade.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from streamproof.sim.actor_hosts import Host, Steps
from streamproof.sim.application import Application
from streamproof.sim.broker_errors import BrokerError
from streamproof.sim.brokers.partition_log import Isolation, LogEntry
from streamproof.sim.tasks.stream_task import StoreHolder, StreamTask, topic_partition
from streamproof.sim.upgraded_formats import PreparingStore
from streamproof.stores.api import ChangelogRecord

__all__ = ["rebuild"]

_MAX_RECORDS = 20
"""How many records of one changelog a fetch asks for."""

_MAX_PAUSE_MS = 1_000
"""The task looks for more records after at most this many milliseconds."""


def rebuild(
    application: Application, host: Host, tasks: Callable[[], Iterable[StreamTask]]
) -> Steps:
    """Feed the records of the changelogs to the stores that are being prepared, for ever.

    Args:
        application: the application.
        host: the process.
        tasks: returns the open tasks of the process, standbys included.
    """
    world = application.world
    while True:
        yield world.time.timeout(world.choices.between(1, _MAX_PAUSE_MS))
        for task in list(tasks()):
            for holder in list(task.stores.values()):
                if isinstance(holder.database, PreparingStore):
                    yield from _feed(application, host, task, holder, holder.database)


def _feed(
    application: Application,
    host: Host,
    task: StreamTask,
    holder: StoreHolder,
    store: PreparingStore,
) -> Steps:
    if not store.is_open:
        return
    partition = topic_partition(holder.changelog)
    cluster = application.cluster
    log, start = cluster.logs[holder.changelog], store.next_offset(partition)
    isolation: Isolation = "read_uncommitted"
    if application.config.exactly_once:
        isolation = "read_committed"

    def fetch() -> tuple[list[LogEntry], int]:
        fetched = log.fetch(max(start, log.log_start), isolation, _MAX_RECORDS)
        end = fetched.next_offset
        if holder.changelog in task.spec.inputs:
            # Records behind the committed offset of an input are still to be processed.
            group = cluster.group(application.topology.application_id)
            end = max(start, min(end, group.committed(holder.changelog) or 0))
        return [each for each in fetched.records if each.offset < end], end

    try:
        records, end = yield from application.network.call(host.name, "fetch", fetch)
    except BrokerError:
        # The next round asks again.
        return
    if end == start or not store.is_open:
        return
    batch = [ChangelogRecord(each.key, each.value, each.offset, each.timestamp) for each in records]
    store.feed(partition, batch, end)
    is_prepared = store.is_prepared(partition)
    application.world.marks.sometimes(
        "a newer format was prepared while the older one was served", holds=is_prepared
    )
    if batch:
        application.world.trace.emit(
            "store.rebuilt",
            host.name,
            task=task.id,
            partition=holder.changelog,
            offset=batch[-1].offset,
            prepared=is_prepared,
        )
