"""The state of a world at one moment of a run, as far as its events tell.

These are plain data. Each kind of events declares how it changes them, in
:mod:`streamproof.sim.event_kinds`; :mod:`streamproof.scenarios.state` applies a run event by event.
What no event tells is not here either: the rows of a record cache.
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
"""Written rows by key; ``None`` deletes one that lies beneath."""


@dataclass
class FoldedThread:
    """A stream thread that lives.

    Attributes:
        generation: of the group, as it follows it; -1 before the first.
        active: the tasks that it was assigned.
        standby: the copies that it was assigned.
        producer: the id of its producer; -1 before it has one.
    """

    generation: int = -1
    active: tuple[str, ...] = ()
    standby: tuple[str, ...] = ()
    producer: int = -1


@dataclass
class FoldedProcess:
    """An instance, and the process of it that runs now or ran last.

    Attributes:
        is_up: whether it runs.
        is_paused: whether it was told to hold its work (KIP-834).
        troubles: what is wrong with it, or with its instance, for a while, in words.
        since: when that came about, in milliseconds.
        release: what it is a release of.
        manages_offsets: whether its stores have their offsets themselves (KIP-1035).
        threads: those that live, by name.
    """

    is_up: bool = True
    is_paused: bool = False
    troubles: frozenset[str] = frozenset()
    since: int = 0
    release: str = ""
    manages_offsets: bool = True
    threads: dict[str, FoldedThread] = field(default_factory=dict)

    def copy(self) -> FoldedProcess:
        """The same process, which goes on apart from this one."""
        threads = {name: replace(each) for name, each in self.threads.items()}
        return replace(self, threads=threads)


@dataclass
class FoldedTask:
    """A task that is open in a thread.

    Attributes:
        state: the name of a ``TaskState``.
        is_active: whether it processes, or is a copy.
        since: when its state came about, in milliseconds.
        processed: the offset behind the last record that it has processed, by input.
        waiting: the inputs that it waits for, with the reason (KIP-695).
    """

    state: str
    is_active: bool
    since: int
    processed: dict[str, int] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)


@dataclass
class FoldedStore:
    """A store on the disk of a process, open or not, in the layers that a write goes through.

    Attributes:
        task: the id of its task.
        name: in the topology; empty before it was opened.
        is_open: whether a thread has it open.
        is_persistent: whether what was flushed outlives the process.
        staged: writes that a commit makes part of the store (KIP-892).
        memory: what is committed, and was not flushed: a kill takes it away.
        disk: what was flushed: a kill leaves it.
        offset: up to which offset of its changelog it was last said to be; below 0 if it has none.
        committed_offset: the last one that was committed; below 0 if there is none.
        flushed_offset: the committed one that a kill leaves; below 0 if there is none.
        has_file: whether its offset is in a file beside it (before KIP-1035): then the flushed
            offset is what the file says, which a flush does not change.
        flushes: when it was flushed since the last sync, in milliseconds.
        is_certain: whether nothing has happened since to what was flushed of which no event tells
            exactly: the power was lost.
        has_failed: whether the disk was full when it was to be closed.
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
        """What a reader of the store finds."""
        rows: Rows = {**self.disk, **self.memory, **self.staged}
        return {key: value for key, value in rows.items() if value is not None}

    @property
    def is_volatile(self) -> bool:
        """Whether a crash would take something away."""
        return self.is_open and bool(
            self.memory or self.staged or self.flushed_offset != self.committed_offset
        )

    def copy(self) -> FoldedStore:
        """The same store, which changes apart from this one."""
        return replace(
            self,
            staged=dict(self.staged),
            memory=dict(self.memory),
            disk=dict(self.disk),
            flushes=list(self.flushes),
        )

    def flush(self, now: int) -> None:
        """What was only in memory is on the disk; not synced, so that the power may take it."""
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

    def recent_flushes(self, now: int) -> list[int]:
        """When it was flushed such that a loss of power may still take that away."""
        return [each for each in self.flushes if each > now - WRITEBACK_MS]

    def commit(self, offset: int) -> None:
        """What was staged is part of the store, up to an offset; -1 if it has none."""
        self.memory |= self.staged
        self.staged.clear()
        self.offset = self.committed_offset = offset

    def forget(self) -> None:
        """What was staged is part of the store, and no offset vouches for it any more."""
        self.commit(-1)
        if self.has_file:
            self.flushed_offset = -1

    def write_file(self, now: int) -> None:
        """Write the file with the offset, and before that what it vouches for."""
        self.flush(now)
        self.flushes.clear()
        self.flushed_offset = self.committed_offset

    def close(self, now: int, *, leaves_file: bool) -> None:
        """What is staged is dropped, and the rest is synced, unless there was no space.

        Args:
            now: in milliseconds.
            leaves_file: whether a file with the offset is written then, if it is in a file.
        """
        if self.is_open and not self.has_failed:
            self.flush(now)
            self.flushes.clear()
            if self.has_file and leaves_file and self.committed_offset != -1:
                self.flushed_offset = self.committed_offset
        self.lose_memory()

    def lose_memory(self) -> None:
        """The process is gone, or could not write: only what was flushed is left."""
        self.staged.clear()
        self.memory.clear()
        self.is_open = self.has_failed = False
        self.offset = self.committed_offset = self.flushed_offset

    def hold(self, rows: dict[bytes, bytes]) -> None:
        """Take over what an event has said to be in it, whatever else was known."""
        seen = self.rows
        different = {key for key in seen | rows if seen.get(key) != rows.get(key)}
        for key in different:
            self.staged.pop(key, None)
            self.memory[key] = rows.get(key)


@dataclass
class FoldedTransaction:
    """The last transaction of a producer.

    Attributes:
        name: the transactional id; empty before an event has told it.
        state: ``open``, ``committing``, ``aborting``, ``committed`` or ``aborted``.
        since: when it began, in milliseconds.
        records: how many records it has, by partition.
        offsets: of inputs, which are committed with it.
        marked: where its marker is written already.
    """

    name: str = ""
    state: str = "open"
    since: int = 0
    records: dict[str, int] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)
    marked: list[str] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """Whether all markers are written."""
        return self.state in ("committed", "aborted")

    def copy(self) -> FoldedTransaction:
        """The same transaction, which goes on apart from this one."""
        return replace(
            self, records=dict(self.records), offsets=dict(self.offsets), marked=list(self.marked)
        )


class FoldedLog(Log):
    """A partition of a topic, as its events tell it.

    Attributes:
        start: the first offset that was not deleted.
        open: the producers of transactions without a marker here, with their first offsets.
        compacted: the offsets of records that compaction has taken away.
    """

    def __init__(self) -> None:
        super().__init__()
        self.start = 0
        self.open: dict[int, int] = {}
        self.compacted: set[int] = set()

    @property
    def last_stable_offset(self) -> int:
        """Readers of committed records get no further."""
        return min(self.open.values(), default=self.end)

    def append(self, record: LogRecord) -> None:
        """A record was appended."""
        super().append(record)
        if record.transactional:
            self.open.setdefault(record.producer, record.offset)

    def mark(self, producer: int, offset: int, *, commit: bool) -> None:
        """The marker of a transaction was appended."""
        self.end = offset + 1
        # What was decided by a time-out has no event of its own.
        self.decide(producer, commit=commit)
        self.open.pop(producer, None)

    def compact(self, before: int) -> None:
        """Before an offset, only the last record of each key is left (PartitionLog#compact)."""
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
        """What has become of a record: ``committed``, ``aborted`` or ``open``."""
        if record.offset in self.aborted:
            return "aborted"
        undecided = self.undecided.get(record.producer, ()) if record.transactional else ()
        return "open" if record.offset in undecided else "committed"

    def batch(self, after: int, offset: int, count: int, *, exactly_once: bool) -> list[LogRecord]:
        """The records that a reader was given.

        An event tells how many there were, and from where to where. What was fetched just before
        a compaction has what is gone now, and a reader may see what it should not.

        Args:
            after: the offset before the first of them.
            offset: of the last.
            count: how many they are.
            exactly_once: whether a reader gets committed records only.
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
        """The same log, which goes on apart from this one."""
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
    """The state of a world right after one event, as far as the events tell.

    Args:
        defects: the mistakes that the runtime makes.

    Attributes:
        defects: the mistakes that the runtime makes.
        sequence: of the event; -1 before the first.
        time: in virtual milliseconds.
        settings: what ``application.started`` has told.
        processes: by name.
        tasks: by thread and id, those that are open.
        stores: by process and changelog, those that are open, and what is left of others.
        logs: by partition.
        committed: the committed offset of each input.
        transactions: by id of the producer, its last one.
        owners: by id of the producer, the thread whose it is, or was.
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
        """The same moment, which goes on apart from this one."""
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
        """A thread, which lives from the first event of it on."""
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
        """The transaction of a producer that goes on; a new one, if the last is over."""
        found = self.transactions.get(producer)
        if found is None or found.is_over:
            name = "" if found is None else found.name
            found = self.transactions[producer] = FoldedTransaction(name, since=self.time)
        return found

    def name_of(self, producer: int) -> str:
        """A producer: its transactional id, or whose it is, as far as it was told."""
        known = self.transactions.get(producer)
        if known is not None and known.name:
            return known.name
        return f"producer {producer} of {self.owners.get(producer, 'the workload')}"
