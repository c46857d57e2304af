"""Reads changelogs beside the state updater, for formats and copies that upgrades prepare."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

from simpy.events import Event

from streamproof.sim.actor_hosts import Host
from streamproof.sim.application import Application
from streamproof.sim.brokers.partition_log import Isolation, LogEntry
from streamproof.sim.tasks.stream_task import StreamTask

__all__ = ["ChangelogReader", "Part"]


class Part(NamedTuple):
    """The records of a changelog from an offset on.

    Attributes:
        records: the records that the guarantee makes visible.
        next_offset: the offset to read from next, which may be behind markers.
        is_at_end: whether nothing more is visible now.
    """

    records: list[LogEntry]
    next_offset: int
    is_at_end: bool


class ChangelogReader:
    """Reads the changelogs of an application, for one process.

    Args:
        application: the application.
        host: the process.
    """

    def __init__(self, application: Application, host: Host) -> None:
        self._application = application
        self._host = host
        self._isolation: Isolation = "read_uncommitted"
        if application.config.exactly_once:
            self._isolation = "read_committed"

    def read(
        self, task: StreamTask, changelog: str, start: int, most: int
    ) -> Generator[Event, Any, Part]:
        """Read the next records.

        Args:
            task: the task. If one of its inputs is the changelog, the records behind the committed
                offset are still to be processed, and are left out.
            changelog: the partition.
            start: the first offset to read.
            most: how many entries to read at most.

        Raises:
            BrokerError: the brokers did not answer.
        """
        application = self._application
        log = application.cluster.logs[changelog]

        def fetch() -> Part:
            first = max(start, log.log_start)
            fetched = log.fetch(first, self._isolation, most)
            is_committed = self._isolation == "read_committed"
            limit = fetched.last_stable_offset if is_committed else fetched.high_watermark
            if changelog in task.spec.inputs:
                group = application.cluster.group(application.topology.application_id)
                limit = max(start, min(limit, group.committed(changelog) or 0))
            end = max(start, min(fetched.next_offset, limit))
            records = [each for each in fetched.records if each.offset < end]
            return Part(records, end, is_at_end=end >= limit)

        found: Part = yield from application.network.call(self._host, "fetch", fetch)
        return found
