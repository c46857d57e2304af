"""Topologies: their inputs, their stores, and their processing of each record.

Sources: Kafka, Topology and InternalTopologyBuilder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol
from zlib import crc32

from streamproof.errors import UsageError
from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.stores.api import KeyValueStore

__all__ = [
    "Init",
    "Process",
    "ProcessorContext",
    "PunctuationType",
    "Punctuator",
    "Subtopology",
    "TaskSpec",
    "Topology",
    "partition_for",
]

PunctuationType = Literal["stream time", "wall-clock time"]
"""The clock that a punctuation follows (KIP-138): that of the records, or that of the host."""

Punctuator = Callable[[int], None]
"""Called with the current time in milliseconds, which may be later than the call was due."""


class ProcessorContext(Protocol):
    """The runtime as a processor sees it."""

    @property
    def stream_time(self) -> int:
        """The largest timestamp that the task has processed."""
        ...

    def store(self, name: str) -> KeyValueStore:
        """A store of the subtopology, or a global store, which processors may only read."""
        ...

    def forward(
        self, topic: str, key: bytes, value: bytes | None, timestamp: int | None = None
    ) -> None:
        """Send a record to a topic. Its timestamp defaults to that of the input record."""
        ...

    def schedule(self, interval_ms: int, kind: PunctuationType, punctuator: Punctuator) -> None:
        """Call a punctuator at each interval.

        By stream time the first call is due with the first record, and the next at each multiple of
        the interval; if several multiples have passed, one call is made. By wall-clock time the
        first call is due one interval after the task has begun to run.

        Args:
            interval_ms: the interval in milliseconds, at least 1.
            kind: the clock.
            punctuator: the function to call.

        Raises:
            UsageError: the interval is less than a millisecond.

        Source: KIP-138; Kafka, ProcessorContext#schedule and PunctuationSchedule.
        """
        ...

    def request_commit(self) -> None:
        """Ask the thread to commit as soon as it can (Kafka: ProcessorContext#commit)."""
        ...

    def defect(self, name: str) -> bool:
        """Whether an operator has to make this mistake."""
        ...


Process = Callable[[ProcessorContext, str, LogEntry], None]
"""Processes one record, given its topic."""

Init = Callable[[ProcessorContext], None]
"""Called once when a task begins to run: the place to schedule punctuations."""


def _nothing(_: ProcessorContext) -> None:
    """Prepare nothing."""


@dataclass(frozen=True)
class Subtopology:
    """A part of a topology that is connected by more than topics.

    Attributes:
        sources: the topics that it reads. All have the same number of partitions.
        process: processes a record.
        stores: the names of its stores, each with a changelog.
        sinks: the topics that it writes.
        init: prepares a task before its first record.
        forwarded: by store, a sink for its writes. They are sent at once or, with a record cache in
            front of the store, when they leave the cache (Kafka: TupleForwarder).
        timestamped: the stores of tables, which keep the timestamp of each row (KIP-258). The
            processor gets them as ``KeyValueWithTimestampStore``.
        reused: by store, a source that is its changelog, too. The processor must put exactly what
            it reads (Kafka: ``topology.optimization``, ``reuse.ktable.source.topics``).
        segmented: by window or session store, the segment that a key belongs to.
        retained_ms: by window or session store, how long it keeps a row, in milliseconds.
    """

    sources: tuple[str, ...]
    process: Process
    stores: tuple[str, ...] = ()
    sinks: tuple[str, ...] = ()
    init: Init = _nothing
    forwarded: Mapping[str, str] = field(default_factory=dict)
    reused: Mapping[str, str] = field(default_factory=dict)
    timestamped: tuple[str, ...] = ()
    segmented: Mapping[str, Callable[[bytes], int]] = field(default_factory=dict)
    retained_ms: Mapping[str, int] = field(default_factory=dict)


class TaskSpec(NamedTuple):
    """One partition of a subtopology.

    Attributes:
        subtopology: the subtopology.
        inputs: the partitions that the task reads.
        changelogs: the changelog partition of each store; it may be one of the inputs.
    """

    subtopology: Subtopology
    inputs: tuple[str, ...]
    changelogs: dict[str, str]


def partition_for(key: bytes, count: int) -> int:
    """The partition of a key, the same on any machine."""
    return crc32(key) % count


@dataclass(frozen=True)
class Topology:
    """An application.

    Attributes:
        application_id: its name, and the name of its consumer group.
        subtopologies: its parts.
        partitions: the number of partitions of each topic, changelogs aside.
        global_stores: by store, the topic that every instance reads as a whole.
    """

    application_id: str
    subtopologies: tuple[Subtopology, ...]
    partitions: Mapping[str, int]
    global_stores: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number, each in enumerate(self.subtopologies):
            counts = {topic: self._count(topic, number) for topic in each.sources}
            if len(set(counts.values())) != 1:
                raise UsageError(
                    f"The sources of subtopology {number} have these partitions: {counts}. Give at "
                    "least one source, and the same number of partitions to each."
                )
            for topic in each.sinks:
                self._count(topic, number)
            for store, topic in each.forwarded.items():
                if store not in each.stores or topic not in each.sinks:
                    raise UsageError(
                        f"Subtopology {number} forwards {store!r} to {topic!r}. Forward one of its "
                        f"stores, {list(each.stores)}, to one of its sinks, {list(each.sinks)}."
                    )
            for store, topic in each.reused.items():
                if store not in each.stores or topic not in each.sources:
                    raise UsageError(
                        f"Subtopology {number} restores {store!r} from {topic!r}. Restore one of "
                        f"its stores, {list(each.stores)}, from one of its sources, "
                        f"{list(each.sources)}."
                    )
        self._refuse_wrong_globals()
        self._refuse_cycles()

    def _count(self, topic: str, number: int) -> int:
        count = self.partitions.get(topic, 0)
        if count < 1:
            raise UsageError(
                f"Topic {topic!r} of subtopology {number} has {count} partitions; give at least 1. "
                f"Topics with partitions: {', '.join(sorted(self.partitions)) or 'none'}."
            )
        return count

    def _refuse_wrong_globals(self) -> None:
        """Raise UsageError if a global store shares its topic, or has the name of another store."""
        used = {topic for each in self.subtopologies for topic in (*each.sources, *each.sinks)}
        names = {name for each in self.subtopologies for name in each.stores}
        for store, topic in self.global_stores.items():
            if self.partitions.get(topic, 0) < 1 or topic in used or store in names:
                raise UsageError(
                    f"Global store {store!r} is filled from {topic!r}. Give the store a unique "
                    "name, and a topic with partitions that nothing else reads or writes."
                )

    def _refuse_cycles(self) -> None:
        """Raise UsageError if a record could come back to a subtopology that processed it."""
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
                raise UsageError(
                    f"The subtopologies {cycle} form a cycle, and records would circle for ever. "
                    "Break the cycle."
                )
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

    @property
    def inputs(self) -> list[str]:
        """The topics that others fill: neither topics that are written here, nor changelogs."""
        written = {topic for each in self.subtopologies for topic in each.sinks}
        read = dict.fromkeys(topic for each in self.subtopologies for topic in each.sources)
        read |= dict.fromkeys(self.global_stores.values())
        return [topic for topic in read if topic not in written]

    @property
    def repartitions(self) -> list[str]:
        """The topics that are written and read here. Records that were read may be deleted."""
        written = {topic for each in self.subtopologies for topic in each.sinks}
        read = dict.fromkeys(topic for each in self.subtopologies for topic in each.sources)
        return [topic for topic in read if topic in written]

    @property
    def outputs(self) -> list[str]:
        """The topics that are written, and not read, here."""
        written = dict.fromkeys(topic for each in self.subtopologies for topic in each.sinks)
        read = {topic for each in self.subtopologies for topic in each.sources}
        return [topic for topic in written if topic not in read]

    def changelog(self, store: str) -> str:
        """The changelog topic of a store."""
        for each in self.subtopologies:
            if store in each.reused:
                return each.reused[store]
        return f"{self.application_id}-{store}-changelog"

    @property
    def changelogs(self) -> dict[str, int]:
        """The topics that are changelogs and nothing else, with their numbers of partitions."""
        return {
            self.changelog(name): self.partitions[each.sources[0]]
            for each in self.subtopologies
            for name in each.stores
            if name not in each.reused
        }

    @property
    def tables(self) -> set[str]:
        """The inputs that are read as tables, and so keep the last record of each key."""
        reused = {topic for each in self.subtopologies for topic in each.reused.values()}
        return {*reused, *self.global_stores.values()}

    @property
    def retained_ms(self) -> dict[str, int]:
        """By changelog of a window or session store, how long the store keeps a row."""
        return {
            self.changelog(name): each
            for one in self.subtopologies
            for name, each in one.retained_ms.items()
        }

    @property
    def segmented(self) -> dict[str, Callable[[bytes], int]]:
        """By window or session store, the segment that a key belongs to."""
        return {name: each for one in self.subtopologies for name, each in one.segmented.items()}

    @property
    def topics(self) -> dict[str, int]:
        """All topics, changelogs included, with their numbers of partitions."""
        return {**self.partitions, **self.changelogs}
