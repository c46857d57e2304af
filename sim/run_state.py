"""The state of a world at one moment of a run, as far as its events show it.

The classes here are plain data. Each kind of events declares in :mod:`streamproof.sim.event_kinds`
how it changes them, and :mod:`streamproof.scenarios.state` applies the events of a run one by one.
State that no event shows is missing here, such as the rows of a record cache.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from streamproof.sim.invariants.log_history import Log, LogRecord
from streamproof.sim.model_store import WRITEBACK_MS
from streamproof.sim.trace import Event

__all__ = [
    "FoldedLog",
    "FoldedProcess",
    "FoldedStore",
    "FoldedTask",
    "FoldedThread",
    "FoldedTransaction",
    "Moment",
    "process_of",
]

Rows = dict[bytes, bytes | None]
"""Written rows by key; ``None`` deletes the row in the layer below."""


@dataclass
class FoldedThread:
    """A live stream thread.

    Attributes:
        generation: the last generation of the group that it knows; -1 before the first.
        active: its assigned active tasks.
        standby: its assigned standby tasks.
        producer: the id of its producer; -1 before it has one.
    """

    generation: int = -1
    active: tuple[str, ...] = ()
    standby: tuple[str, ...] = ()
    producer: int = -1


@dataclass
class FoldedProcess:
    """An instance, with its current or last process.

    Attributes:
        is_up: whether the process runs.
        is_paused: whether its tasks are paused (KIP-834).
        troubles: the faults that affect the process or its instance now, in words.
        since: the time of its last start or end, in milliseconds.
        release: its release of Kafka Streams.
        manages_offsets: whether its stores keep their own offsets (KIP-1035).
        threads: its live threads, by name.
    """

    is_up: bool = True
    is_paused: bool = False
    troubles: frozenset[str] = frozenset()
    since: int = 0
    release: str = ""
    manages_offsets: bool = True
    threads: dict[str, FoldedThread] = field(default_factory=dict)

    def copy(self) -> FoldedProcess:
        """An independent copy."""
        threads = {name: replace(each) for name, each in self.threads.items()}
        return replace(self, threads=threads)


@dataclass
class FoldedTask:
    """A task that is open in a thread.

    Attributes:
        state: the name of a ``TaskState``.
        is_active: whether it is an active task, and no standby.
        since: the time of its last change of state, in milliseconds.
        processed: by input, the offset after the last processed record.
        waiting: by input that it waits for, the reason (KIP-695).
    """

    state: str
    is_active: bool
    since: int
    processed: dict[str, int] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)


@dataclass
class FoldedStore:
    """A store of a process, open or closed, with the layers that a write passes through.

    Attributes:
        task: the id of its task.
        name: its name in the topology; empty before it was first opened.
        is_open: whether a thread has it open.
        is_persistent: whether flushed rows survive the process.
        staged: writes that wait for a commit (KIP-892).
        memory: writes in memory that were not flushed: a kill loses them.
        disk: flushed rows: they survive a kill.
        offset: its changelog offset by the last event; below 0 if it has none.
        committed_offset: the last committed offset; below 0 for none.
        flushed_offset: the committed offset that survives a kill; below 0 for none.
        has_file: whether its offset is in a file beside the store (before KIP-1035). Then the
            flushed offset is the one in the file, and a flush does not change it.
        flushes: the times of the flushes since the last sync, in milliseconds.
        is_certain: whether the flushed rows are known. After a loss of power they are not, until
            the store is opened again.
        has_failed: whether the disk was full when the store was to be closed.
    """

    task: str
    name: str = ""
    is_open: bool = False
    is_persistent: bool = True
    staged: Rows = field(default_factory=dict)
    memory: Rows = field(default_factory=dict)
    disk: dict[bytes, bytes] = field(default_factory=dict)
    offset: int = -1
    committed_offset: int = -1
    flushed_offset: int = -1
    has_file: bool = False
    flushes: list[int] = field(default_factory=list)
    is_certain: bool = True
    has_failed: bool = False

    @property
    def rows(self) -> dict[bytes, bytes]:
        """The rows that a reader of the store finds."""
        rows: Rows = {**self.disk, **self.memory, **self.staged}
        return {key: value for key, value in rows.items() if value is not None}

    @property
    def is_volatile(self) -> bool:
        """Whether a crash would take something away."""
        return self.is_open and bool(
            self.memory or self.staged or self.flushed_offset != self.committed_offset
        )

    def copy(self) -> FoldedStore:
        """An independent copy."""
        return replace(
            self,
            staged=dict(self.staged),
            memory=dict(self.memory),
            disk=dict(self.disk),
            flushes=list(self.flushes),
        )

    def flush(self, now: int) -> None:
        """Move the rows in memory to the disk, unsynced: a loss of power may lose them."""
        if not self.is_persistent:
            return
        for key, value in self.memory.items():
            if value is None:
                self.disk.pop(key, None)
            else:
                self.disk[key] = value
        self.memory.clear()
        if not self.has_file:
            self.flushed_offset = self.committed_offset
        self.flushes = [*self.recent_flushes(now), now]

    def flush_some(self, keys: Iterable[bytes]) -> None:
        """Move some rows to the disk: those of one segment, with an offset of its own.

        Which offset the store has when it is opened again depends on all its segments.
        """
        for key in keys:
            if (value := self.memory.pop(key, None)) is None:
                self.disk.pop(key, None)
            else:
                self.disk[key] = value
        self.is_certain = False

    def recent_flushes(self, now: int) -> list[int]:
        """The times of the flushes that a loss of power may still lose."""
        return [each for each in self.flushes if each > now - WRITEBACK_MS]

    def commit(self, offset: int) -> None:
        """Make the staged writes part of the store, up to an offset; -1 if it has none."""
        self.memory |= self.staged
        self.staged.clear()
        self.offset = self.committed_offset = offset

    def forget(self) -> None:
        """Make the staged writes part of the store, and drop its offset."""
        self.commit(-1)
        if self.has_file:
            self.flushed_offset = -1

    def write_file(self, now: int) -> None:
        """Flush the rows, and then write the file with the offset that covers them."""
        self.flush(now)
        self.flushes.clear()
        self.flushed_offset = self.committed_offset

    def close(self, now: int, *, leaves_file: bool) -> None:
        """Drop the staged writes, and sync the rest, unless the disk was full.

        Args:
            now: in milliseconds.
            leaves_file: whether the file with the offset is written, if the store has one.
        """
        if self.is_open and not self.has_failed:
            self.flush(now)
            self.flushes.clear()
            if self.has_file and leaves_file and self.committed_offset != -1:
                self.flushed_offset = self.committed_offset
        self.lose_memory()

    def lose_memory(self) -> None:
        """Keep only the flushed rows: the process is gone, or could not write."""
        self.staged.clear()
        self.memory.clear()
        self.is_open = self.has_failed = False
        self.offset = self.committed_offset = self.flushed_offset

    def hold(self, rows: dict[bytes, bytes]) -> None:
        """Replace the known rows by the rows that an event shows."""
        seen = self.rows
        different = {key for key in seen | rows if seen.get(key) != rows.get(key)}
        for key in different:
            self.staged.pop(key, None)
            self.memory[key] = rows.get(key)


@dataclass
class FoldedTransaction:
    """The last transaction of a producer.

    Attributes:
        name: the transactional id; empty before the first event with it.
        state: ``open``, ``committing``, ``aborting``, ``committed`` or ``aborted``.
        since: the time of its start, in milliseconds.
        records: by partition, how many records it has.
        offsets: by input, the offset to commit with it.
        marked: the partitions that have its marker.
    """

    name: str = ""
    state: str = "open"
    since: int = 0
    records: dict[str, int] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)
    marked: list[str] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """Whether all its markers are written."""
        return self.state in ("committed", "aborted")

    def copy(self) -> FoldedTransaction:
        """An independent copy."""
        return replace(
            self, records=dict(self.records), offsets=dict(self.offsets), marked=list(self.marked)
        )


class FoldedLog(Log):
    """A partition of a topic, folded from its events.

    Attributes:
        start: the first offset that is not deleted.
        open: by producer of a transaction without a marker here, the first offset of it.
        compacted: the offsets of records that compaction has removed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.start = 0
        self.open: dict[int, int] = {}
        self.compacted: set[int] = set()

    @property
    def last_stable_offset(self) -> int:
        """The offset before which readers of committed records stop."""
        return min(self.open.values(), default=self.end)

    def append(self, record: LogRecord) -> None:
        """Append a record."""
        super().append(record)
        if record.transactional:
            self.open.setdefault(record.producer, record.offset)

    def mark(self, producer: int, offset: int, *, commit: bool) -> None:
        """Append the marker of a transaction."""
        self.end = offset + 1
        # A transaction that timed out has no event for the decision.
        self.decide(producer, commit=commit)
        self.open.pop(producer, None)

    def compact(self, before: int) -> None:
        """Keep only the last record of each key before an offset (PartitionLog#compact)."""
        stable = min(self.last_stable_offset, before)
        last: dict[bytes, int] = {}
        for record in self.records:
            if record.offset >= stable:
                break
            if record.offset in self.aborted:
                self.compacted.add(record.offset)
                continue
            if record.key in last:
                self.compacted.add(last[record.key])
            last[record.key] = record.offset

    def status(self, record: LogRecord) -> str:
        """The fate of a record: ``committed``, ``aborted`` or ``open``."""
        if record.offset in self.aborted:
            return "aborted"
        undecided = self.undecided.get(record.producer, ()) if record.transactional else ()
        return "open" if record.offset in undecided else "committed"

    def batch(self, after: int, offset: int, count: int, *, exactly_once: bool) -> list[LogRecord]:
        """The records that a reader got in one batch.

        An event tells only their number and their range. A batch that was fetched just before a
        compaction has records that are gone now, and with a defect a reader may see aborted ones.

        Args:
            after: the offset before the first record.
            offset: the offset of the last record.
            count: the number of records.
            exactly_once: whether a reader gets only committed records.
        """
        begin, end = (
            bisect_right(self.records, each, key=lambda record: record.offset)
            for each in (after, offset)
        )
        everything = [each for each in self.records[begin:end] if each.offset >= self.start]
        left = [each for each in everything if each.offset not in self.compacted]
        committed, committed_left = (
            [each for each in some if self.status(each) == "committed"]
            for some in (everything, left)
        )
        likely = [committed_left, committed, left, everything]
        if not exactly_once:
            likely = [left, everything, committed_left, committed]
        return next((each for each in likely if len(each) == count), likely[0])

    def copy(self) -> FoldedLog:
        """An independent copy."""
        other = FoldedLog()
        other.start, other.end, other.open = self.start, self.end, dict(self.open)
        other.records, other.aborted = list(self.records), set(self.aborted)
        other.compacted = set(self.compacted)
        other.undecided = {producer: list(each) for producer, each in self.undecided.items()}
        return other


def process_of(actor: str) -> str:
    """The process of an actor: ``instance-0`` of ``instance-0/thread-1``."""
    return actor.partition("/")[0]


class Moment:
    """The state of a world right after one event, as far as the events show it.

    Args:
        defects: the defects that are switched on in the runtime.

    Attributes:
        defects: the defects that are switched on in the runtime.
        sequence: the number of the event; -1 before the first.
        time: the time of the event, in virtual milliseconds.
        settings: the attributes of ``application.started``.
        processes: the processes, by name.
        tasks: the open tasks, by thread and id.
        stores: the open stores, and the files of closed ones, by process and changelog.
        logs: the logs, by partition.
        committed: the committed offset of each input.
        transactions: by id of the producer, its last transaction.
        owners: by id of the producer, its thread.
    """

    def __init__(self, defects: Iterable[str] = ()) -> None:
        self.defects = tuple(defects)
        self.sequence = -1
        self.time = 0
        self.settings: Mapping[str, Any] = {}
        self.processes: dict[str, FoldedProcess] = {}
        self.tasks: dict[tuple[str, str], FoldedTask] = {}
        self.stores: dict[tuple[str, str], FoldedStore] = {}
        self.logs: dict[str, FoldedLog] = {}
        self.committed: dict[str, int] = {}
        self.transactions: dict[int, FoldedTransaction] = {}
        self.owners: dict[int, str] = {}

    def copy(self) -> Moment:
        """An independent copy."""
        other = Moment(self.defects)
        other.sequence, other.time, other.settings = self.sequence, self.time, self.settings
        other.processes = {name: each.copy() for name, each in self.processes.items()}
        other.tasks = {
            key: replace(each, processed=dict(each.processed)) for key, each in self.tasks.items()
        }
        other.stores = {key: each.copy() for key, each in self.stores.items()}
        other.logs = {name: each.copy() for name, each in self.logs.items()}
        other.committed = dict(self.committed)
        other.transactions = {key: each.copy() for key, each in self.transactions.items()}
        other.owners = dict(self.owners)
        return other

    @property
    def exactly_once(self) -> bool:
        """The guarantee under which the application runs."""
        return bool(self.settings.get("exactly_once", True))

    def process(self, actor: str) -> FoldedProcess:
        """The process of an actor."""
        return self.processes.setdefault(process_of(actor), FoldedProcess())

    def thread(self, name: str) -> FoldedThread:
        """A thread; it lives from its first event on."""
        return self.process(name).threads.setdefault(name, FoldedThread())

    def log(self, partition: str) -> FoldedLog:
        """The log of a partition; empty before its first record."""
        found = self.logs.get(partition)
        if found is None:
            found = self.logs[partition] = FoldedLog()
        return found

    def store(self, event: Event) -> FoldedStore:
        """The store that an event is about."""
        where = process_of(event.actor), event.partition
        found = self.stores.get(where)
        if found is None:
            found = self.stores[where] = FoldedStore(event.task)
        return found

    def stores_of(self, process: str, task: str = "") -> Iterator[FoldedStore]:
        """The stores of a process, or those of one of its tasks."""
        for (owner, _), store in self.stores.items():
            if owner == process and task in ("", store.task):
                yield store

    def transaction(self, producer: int) -> FoldedTransaction:
        """The open transaction of a producer; a new one if the last one is over."""
        found = self.transactions.get(producer)
        if found is None or found.is_over:
            name = "" if found is None else found.name
            found = self.transactions[producer] = FoldedTransaction(name, since=self.time)
        return found

    def name_of(self, producer: int) -> str:
        """The name of a producer: its transactional id, or else its owner."""
        known = self.transactions.get(producer)
        if known is not None and known.name:
            return known.name
        return f"producer {producer} of {self.owners.get(producer, 'the workload')}"
