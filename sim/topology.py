"""Topologies: what is read, what is kept, and what is done with each record.

Sources: Kafka, Topology and InternalTopologyBuilder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from zlib import crc32

from streamproof.sim.brokers.log import Entry
from streamproof.stores.api import KeyValueStore
from streamproof.stores.errors import UsageError

__all__ = ["Process", "ProcessorContext", "Subtopology", "TaskSpec", "Topology", "partition_for"]


class ProcessorContext(Protocol):
    """What a processor may use."""

    @property
    def stream_time(self) -> int:
        """The largest timestamp that the task has processed."""
        ...

    def store(self, name: str) -> KeyValueStore:
        """A store of the subtopology."""
        ...

    def forward(
        self, topic: str, key: bytes, value: bytes | None, timestamp: int | None = None
    ) -> None:
        """Send a record to a topic; without a timestamp, with that of the input record."""
        ...


Process = Callable[[ProcessorContext, str, Entry], None]
"""Processes one record, given its topic."""


@dataclass(frozen=True)
class Subtopology:
    """A part of a topology that is connected by more than topics.

    Attributes:
        sources: the topics that are read; they have equally many partitions.
        process: what is done with a record.
        stores: the names of its stores, each with a changelog.
        sinks: the topics that are written.
    """

    sources: tuple[str, ...]
    process: Process
    stores: tuple[str, ...] = ()
    sinks: tuple[str, ...] = ()


class TaskSpec(NamedTuple):
    """One partition of a subtopology.

    Attributes:
        subtopology: which one.
        inputs: the partitions that it reads.
        changelogs: the partition of the changelog, by store.
    """

    subtopology: Subtopology
    inputs: tuple[str, ...]
    changelogs: dict[str, str]


def partition_for(key: bytes, count: int) -> int:
    """Where a key goes: the same on any machine."""
    return crc32(key) % count


@dataclass(frozen=True)
class Topology:
    """An application.

    Attributes:
        application_id: its name, which is that of its consumer group, too.
        subtopologies: its parts.
        partitions: how many partitions each topic has, changelogs aside.
    """

    application_id: str
    subtopologies: tuple[Subtopology, ...]
    partitions: Mapping[str, int]

    def __post_init__(self) -> None:
        for number, each in enumerate(self.subtopologies):
            counts = {topic: self._count(topic, number) for topic in each.sources}
            if len(set(counts.values())) != 1:
                raise UsageError(
                    f"The sources of subtopology {number} must have equally many partitions, "
                    f"and at least one source is needed: {counts}."
                )
            for topic in each.sinks:
                self._count(topic, number)
        self._refuse_cycles()

    def _count(self, topic: str, number: int) -> int:
        count = self.partitions.get(topic, 0)
        if count < 1:
            raise UsageError(
                f"Topic {topic!r} of subtopology {number} has {count} partitions; it needs at "
                f"least 1. There are: {', '.join(sorted(self.partitions)) or 'no topics'}."
            )
        return count

    def _refuse_cycles(self) -> None:
        """Raise UsageError if a record could come back to where it was processed."""
        following = [
            [
                number
                for number, other in enumerate(self.subtopologies)
                if set(each.sinks) & set(other.sources)
            ]
            for each in self.subtopologies
        ]

        def visit(number: int, path: list[int]) -> None:
            if number in path:
                cycle = " -> ".join(map(str, [*path[path.index(number) :], number]))
                raise UsageError(f"The subtopologies {cycle} are a cycle: it would never end.")
            for after in following[number]:
                visit(after, [*path, number])

        for number in range(len(self.subtopologies)):
            visit(number, [])

    @property
    def tasks(self) -> dict[str, TaskSpec]:
        """All tasks, by id."""
        found = {}
        for number, each in enumerate(self.subtopologies):
            for partition in range(self.partitions[each.sources[0]]):
                found[f"{number}_{partition}"] = TaskSpec(
                    each,
                    tuple(f"{topic}-{partition}" for topic in each.sources),
                    {name: f"{self.changelog(name)}-{partition}" for name in each.stores},
                )
        return found

    def changelog(self, store: str) -> str:
        """The topic that backs a store."""
        return f"{self.application_id}-{store}-changelog"

    @property
    def topics(self) -> dict[str, int]:
        """All topics with their partitions, changelogs included."""
        changelogs = {
            self.changelog(name): self.partitions[each.sources[0]]
            for each in self.subtopologies
            for name in each.stores
        }
        return {**self.partitions, **changelogs}
