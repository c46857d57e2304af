"""The logs of a run, folded from its events: the common ground of the invariants.

Nothing here looks into the simulated world: a trace from a file gives the same logs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Any, Never

from msgspec import Struct

from streamproof.errors import SuiteError
from streamproof.sim.invariants.foreign_appends import ForeignAppends
from streamproof.sim.invariants.forgotten import Forgotten
from streamproof.sim.invariants.store_copies import Copies
from streamproof.sim.trace import Event

__all__ = ["Log", "LogHistory", "LogRecord", "LogsUnknownError", "UnknownLogs", "suffix_of"]

FAULTS = (
    "broker.refused",
    "broker.stalled",
    "coordinator.away",
    "instance.crashed",
    "instance.stood_still",
    "network.cut",
    "network.request_held",
    "network.reply_lost",
    "network.request_lost",
    "task.corrupted",
    "thread.died",
    "thread.lost",
    "thread.timed_out",
    "updater.died",
    "updater.failed",
)
"""The kinds of events that show that something went wrong."""

GROUP_TARGET = "group:"
"""The prefix of the target of a marker that is a group, and no partition."""


def suffix_of(task: str) -> str:
    """How the names of the partitions of a task end: with a hyphen and the number of the task."""
    return f"-{task.rpartition('_')[2]}"


class LogRecord(Struct, frozen=True, gc=False):
    """A record of a partition.

    Attributes:
        producer: the id of its producer; -1 if it has none.
        transactional: whether it belongs to a transaction.
    """

    offset: int
    key: bytes
    value: bytes | None
    timestamp: int
    producer: int
    transactional: bool


class Log:
    """One partition, folded from its events.

    Attributes:
        records: all records that were ever appended, in order, despite compaction and retention.
        end: the offset after the last record or marker.
        aborted: the offsets of records of aborted transactions.
        undecided: by producer, the offsets of records of its open transaction.
    """

    def __init__(self) -> None:
        self.records: list[LogRecord] = []
        self.end = 0
        self.aborted: set[int] = set()
        self.undecided: dict[int, list[int]] = {}

    def append(self, record: LogRecord) -> None:
        """Append a record."""
        self.records.append(record)
        self.end = record.offset + 1
        if record.transactional:
            self.undecided.setdefault(record.producer, []).append(record.offset)

    def decide(self, producer: int, *, commit: bool) -> None:
        """Decide the transaction of a producer. Its marker may follow much later."""
        offsets = self.undecided.pop(producer, [])
        if not commit:
            self.aborted.update(offsets)

    def since(self, offset: int) -> Iterator[LogRecord]:
        """The records from an offset on that exist now, in order."""
        start = bisect_left(self.records, offset, key=lambda each: each.offset) if offset else 0
        # Callers usually take a few of many records, so nothing is copied.
        return map(self.records.__getitem__, range(start, len(self.records)))

    def committed(self, start: int = 0) -> Iterator[LogRecord]:
        """The committed records from an offset on, in order: neither aborted nor undecided."""
        hidden = {offset for offsets in self.undecided.values() for offset in offsets}
        for record in self.since(start):
            if record.offset not in self.aborted and record.offset not in hidden:
                yield record


_EMPTY = Log()
"""A partition without records."""


class LogHistory:
    """The logs of a run, so far.

    Attributes:
        logs: the logs, by partition.
        stored: by process and changelog, and by key and value, the numbers of the first and the
            last event that wrote this value into the store, by processing or by restoring. Not
            kept under exactly-once.
        unseen: the records of changelogs that the owners of the tasks have not seen. Not kept
            under exactly-once.
        copies: the open copies of all stores.
        forgotten: what the logs have given up, and what readers may have missed because of that.
        committed: the committed offset of each input.
        compacted: the offset up to which the log of a partition was ever compacted.
        exactly_once: the guarantee under which the application runs.
        of_kafka: whether Kafka's own processes made the events. Some of what Kafka does, the
            simulated runtime does in a stricter way, and is held to that.
        has_failed: whether anything went wrong so far: an instance, the network, a thread, a task.
    """

    def __init__(self, *, exactly_once: bool, of_kafka: bool = False) -> None:
        self.exactly_once = exactly_once
        self.of_kafka = of_kafka
        self.has_failed = False
        self.unseen = ForeignAppends(lambda partition, start: self.log(partition).since(start))
        self._seen_by: dict[str, list[Callable[[Event], None]]] = {
            "log.appended": [self._append],
            "log.compacted": [self._compact],
            "input.reset": [self._reset],
            "offsets.committed": [self._commit],
            "transaction.decided": [self._decide],
            "transaction.marker": [self._mark],
            **{kind: [self._fail] for kind in FAULTS},
        }
        if not exactly_once:
            self._seen_by |= {"store.put": [self._put], "store.restored": [self._restore]}
            for kind, see in self.unseen.observers.items():
                self._seen_by.setdefault(kind, []).append(see)
        self.copies = Copies(self.visible)
        for kind, see in self.copies.observers.items():
            self._seen_by.setdefault(kind, []).append(see)
        self.forgotten = Forgotten(self.visible)
        for kind, see in self.forgotten.observers.items():
            self._seen_by.setdefault(kind, []).append(see)
        self.logs: dict[str, Log] = {}
        self.committed: dict[str, int] = {}
        self.compacted: dict[str, int] = {}
        self.stored: dict[tuple[str, str], dict[tuple[bytes, bytes | None], tuple[int, int]]] = {}

    def log(self, partition: str) -> Log:
        """The log of a partition; empty before its first record."""
        found = self.logs.get(partition)
        if found is None:
            found = self.logs[partition] = Log()
        return found

    def visible(self, partition: str, start: int = 0) -> Iterator[LogRecord]:
        """The records of a partition that the guarantee makes visible, from an offset on."""
        log = self.logs.get(partition, _EMPTY)
        return log.committed(start) if self.exactly_once else log.since(start)

    def last_kept(self, partition: str, end: int) -> int:
        """The last visible record before an offset that the log surely has; -1 without one.

        A compaction may have taken a record that a later one of its key replaces, and a tombstone
        after its time; then nothing of its key is left.
        """
        clean_until = self.compacted.get(partition, 0)
        records = list(self.visible(partition))
        last = {each.key: each.offset for each in records}
        kept = (
            each.offset
            for each in reversed(records)
            if each.offset < end
            and (each.offset >= clean_until or each.offset == last[each.key])
            and not self.forgotten.may_lack(partition, each)
        )
        return next(kept, -1)

    def see(self, event: Event) -> None:
        """Take an event in."""
        for see in self._seen_by.get(event.kind, ()):
            see(event)

    def _fail(self, event: Event) -> None:
        del event
        self.has_failed = True

    def _append(self, event: Event) -> None:
        more = event.attributes
        self.log(event.partition).append(
            LogRecord(
                event.offset,
                more["key"],
                more["value"],
                more["timestamp"],
                more["producer"],
                more["transactional"],
            )
        )

    def _compact(self, event: Event) -> None:
        earlier = self.compacted.get(event.partition, 0)
        self.compacted[event.partition] = max(earlier, event.offset)

    def _commit(self, event: Event) -> None:
        self.committed.update(event.attributes["offsets"])

    def _reset(self, event: Event) -> None:
        self.forgotten.reset(event, self.committed.get(event.partition, 0))

    def _decide(self, event: Event) -> None:
        for log in self.logs.values():
            log.decide(event.attributes["producer"], commit=event.attributes["commit"])

    def _mark(self, event: Event) -> None:
        if not event.partition.startswith(GROUP_TARGET):
            log = self.log(event.partition)
            log.end = event.offset + 1
            # A transaction that timed out has no event for the decision.
            log.decide(event.attributes["producer"], commit=event.attributes["commit"])

    def _put(self, event: Event) -> None:
        self._store(event, event.attributes["key"], event.attributes["value"])

    def _restore(self, event: Event) -> None:
        for record in self._restored(event):
            self._store(event, record.key, record.value)

    def _store(self, event: Event, key: bytes, value: bytes | None) -> None:
        process = event.process
        stored = self.stored.setdefault((process, event.partition), {})
        first, _ = stored.get((key, value), (event.sequence, 0))
        stored[key, value] = first, event.sequence

    def _restored(self, event: Event) -> list[LogRecord]:
        """The records of a batch: from the position of the restoration up to the batch's offset.

        If the log had more records than were read, compaction has removed the others. If compaction
        ran during the read, and the removed records look alike, any of them may have been read.
        """
        records = self.log(event.partition).records
        start = self.unseen.start_of(event.process, event.partition)
        begin = bisect_left(records, start, key=lambda record: record.offset)
        end = bisect_right(records, event.offset, key=lambda record: record.offset)
        batch = records[begin:end]
        if len(batch) <= event.attributes["records"]:
            return batch
        cleaned = self.compacted.get(event.partition, 0)
        last = {each.key: each.offset for each in records if each.offset < cleaned}
        left = [each for each in batch if last.get(each.key, -1) <= each.offset]
        return left if len(left) == event.attributes["records"] else batch


class LogsUnknownError(SuiteError):
    """An invariant asked for a log of a run whose logs are not known."""


class UnknownLogs(LogHistory):
    """The history of a run whose logs nobody has recorded, or not from their beginning.

    Whoever asks for a log gets :class:`LogsUnknownError`, rather than an empty log.
    """

    def __init__(self, *, exactly_once: bool, of_kafka: bool = False) -> None:
        super().__init__(exactly_once=exactly_once, of_kafka=of_kafka)
        self._seen_by = {kind: [self._fail] for kind in FAULTS}
        for name in ("logs", "committed", "compacted", "stored", "unseen", "copies", "forgotten"):
            delattr(self, name)

    def __getattr__(self, name: str) -> Any:
        """An attribute that this history does not have."""
        self._refuse(name)

    def log(self, partition: str) -> Log:
        """Refuse: the log is not known."""
        self._refuse(partition)

    def visible(self, partition: str, start: int = 0) -> Iterator[LogRecord]:
        """Refuse: the log is not known."""
        self._refuse(f"{partition} from {start} on")

    @staticmethod
    def _refuse(what: str) -> Never:
        raise LogsUnknownError(f"The logs of this run are not known: {what} was asked for.")
