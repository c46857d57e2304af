"""The log of one partition: records, transactions, and what a reader of it sees.

Sources: Kafka, UnifiedLog and ProducerStateManager.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Literal, NamedTuple

from msgspec import Struct

from streamproof.sim.broker_errors import (
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    ProducerFencedError,
)

__all__ = ["NO_PRODUCER", "Fetched", "Isolation", "LogEntry", "PartitionLog"]

NO_PRODUCER = -1
"""The producer of a record that is neither idempotent nor in a transaction."""

REMEMBERED_SEQUENCES = 1024
"""Records of a producer that are recognised when they come again: more than are ever in flight."""

Isolation = Literal["read_uncommitted", "read_committed"]

Control = Literal["", "commit", "abort"]


class LogEntry(Struct, frozen=True, gc=False):
    """One offset of a log.

    Attributes:
        timestamp: of the record, in milliseconds.
        key: of the record; empty for a marker.
        value: ``None`` is a tombstone.
        producer: the id of the producer; ``NO_PRODUCER`` if it has none.
        transactional: whether the record belongs to a transaction of the producer.
        control: whether it is no record but the marker that ends a transaction, and how.
    """

    offset: int
    timestamp: int
    key: bytes
    value: bytes | None
    producer: int = NO_PRODUCER
    transactional: bool = False
    control: Control = ""


class Fetched(NamedTuple):
    """What a fetch returns.

    Attributes:
        records: those that the reader may see, in order.
        next_offset: where to go on: behind everything that was looked at, markers and aborted
            records included.
        high_watermark: the end of what is replicated.
        last_stable_offset: the first offset of an open transaction, or the high watermark.
        log_start: the first offset that is still there.
    """

    records: list[LogEntry]
    next_offset: int
    high_watermark: int
    last_stable_offset: int
    log_start: int


class _ProducerState:
    """What the log knows of a producer.

    Attributes:
        next_sequence: the sequence number of its next record.
        offsets: of its records, by sequence number, so that a repeated one is recognised.
    """

    __slots__ = ("epoch", "next_sequence", "offsets")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.next_sequence = 0
        self.offsets: dict[int, int] = {}


class PartitionLog:
    """A log with one replica that is never behind: its end is the high watermark.

    Attributes:
        log_start: the first offset that is still there.
        end: the offset of the next record.
    """

    def __init__(self) -> None:
        self.log_start = 0
        self.end = 0
        self._entries: list[LogEntry] = []
        self._offsets: list[int] = []
        # Committed records that were given up, for observers: no reader gets them.
        self._gone: list[LogEntry] = []
        self._producers: dict[int, _ProducerState] = {}
        # By producer: the first offset of its open transaction.
        self._open: dict[int, int] = {}
        # By producer: the spans of its aborted transactions, first offset and marker.
        self._aborted: dict[int, list[tuple[int, int]]] = {}

    @property
    def last_stable_offset(self) -> int:
        """The first offset of the oldest open transaction, or the end."""
        return min(self._open.values(), default=self.end)

    @property
    def entries(self) -> list[LogEntry]:
        """Everything that is there, markers included."""
        return list(self._entries)

    @property
    def committed(self) -> list[LogEntry]:
        """All records that were ever committed, in order, compacted and deleted ones included."""
        there = self.fetch(self.log_start, "read_committed", max(len(self._entries), 1)).records
        return sorted([*self._gone, *there], key=lambda each: each.offset)

    def append(
        self,
        key: bytes,
        value: bytes | None,
        timestamp: int,
        *,
        producer: int = NO_PRODUCER,
        epoch: int = 0,
        sequence: int = 0,
        transactional: bool = False,
    ) -> int:
        """Append a record, and return its offset.

        A record of a producer that is here already, by its sequence number, is not
        appended again: its offset is returned.

        Raises:
            OutOfOrderSequenceError: records of the producer are missing before this one.
            ProducerFencedError: a producer of the same id and a later epoch was here.
        """
        if producer != NO_PRODUCER:
            state = self._producer(producer, epoch)
            if sequence in state.offsets:
                return state.offsets[sequence]
            if sequence != state.next_sequence:
                raise OutOfOrderSequenceError(
                    f"Producer {producer} sent sequence {sequence}, and "
                    f"{state.next_sequence} is next."
                )
            state.next_sequence += 1
            state.offsets[sequence] = self.end
            state.offsets.pop(sequence - REMEMBERED_SEQUENCES, None)
            if transactional:
                self._open.setdefault(producer, self.end)
        return self._add(LogEntry(self.end, timestamp, key, value, producer, transactional))

    def end_transaction(
        self, producer: int, *, commit: bool, timestamp: int, epoch: int = 0
    ) -> int:
        """Append the marker that ends a transaction, and return its offset.

        A transaction without a record in this partition has a marker, too. With the epoch of the
        marker, a producer of an earlier one can append nothing any more.

        Raises:
            ProducerFencedError: a producer of the same id and a later epoch was here.
        """
        self._producer(producer, epoch)
        first = self._open.pop(producer, None)
        if first is not None and not commit:
            self._aborted.setdefault(producer, []).append((first, self.end))
        control: Control = "commit" if commit else "abort"
        return self._add(LogEntry(self.end, timestamp, b"", None, producer, True, control))

    def fetch(self, offset: int, isolation: Isolation, max_records: int) -> Fetched:
        """What a reader sees from an offset on.

        Args:
            offset: of the first record that is asked for.
            isolation: with ``read_committed``, nothing of an open transaction or behind it, and
                nothing that was aborted.
            max_records: at most so many entries are looked at: a fetch may return any prefix.

        Raises:
            OffsetOutOfRangeError: the offset is before the start or behind the end.
        """
        if not self.log_start <= offset <= self.end:
            raise OffsetOutOfRangeError(
                f"Offset {offset} is out of range: the log has {self.log_start} to {self.end}."
            )
        committed = isolation == "read_committed"
        stable = self.last_stable_offset
        limit = stable if committed else self.end
        start = bisect_left(self._offsets, offset)
        stop = min(bisect_left(self._offsets, limit), start + max_records)
        seen = self._entries[start:stop]
        records = [
            each for each in seen if not each.control and not (committed and self.is_aborted(each))
        ]
        # Behind the last entry there may be a gap that compaction left: it is passed, too.
        beyond = self._offsets[stop] if stop < len(self._offsets) else self.end
        next_offset = max(offset, min(beyond, limit))
        return Fetched(records, next_offset, self.end, stable, self.log_start)

    def is_aborted(self, entry: LogEntry) -> bool:
        """Whether a record belongs to a transaction that was aborted."""
        spans = self._aborted.get(entry.producer)
        if not spans or not entry.transactional:
            return False
        at = bisect_left(spans, (entry.offset + 1, 0)) - 1
        return at >= 0 and entry.offset < spans[at][1]

    def delete_before(self, offset: int) -> None:
        """Give up what is before an offset: retention, or a deletion that was asked for."""
        self.log_start = max(self.log_start, min(offset, self.end))
        keep = bisect_left(self._offsets, self.log_start)
        self._remember(self._entries[:keep])
        del self._entries[:keep], self._offsets[:keep]
        for producer, spans in self._aborted.items():
            self._aborted[producer] = [each for each in spans if each[1] >= self.log_start]

    def first_kept(self, timestamp: int) -> int:
        """Where the log begins once all that is older than a timestamp is given up.

        As whole segments go, what is behind the first record that stays, stays, too; and so does
        what an open transaction may still change.
        """
        stable = self.last_stable_offset
        for each in self._entries:
            if each.timestamp >= timestamp or each.offset >= stable:
                return each.offset
        return stable

    def compact(self, *, tombstones_before: int = 0, before: int | None = None) -> int:
        """Keep only the last record of each key, and give up old tombstones and markers.

        What an open transaction may still change stays, and so does the last entry, which
        tells the end. Aborted records go.

        Args:
            tombstones_before: tombstones and markers with a timestamp below it go, too.
            before: what is from this offset on is not looked at; by default, that is nothing.

        Returns:
            How many entries went.
        """
        stable = min(self.last_stable_offset, self.end if before is None else before)
        count = len(self._entries)
        last: dict[bytes, int] = {}
        for each in self._entries:
            if each.offset < stable and not each.control and not self.is_aborted(each):
                last[each.key] = each.offset

        def stays(entry: LogEntry) -> bool:
            if entry.offset >= stable or entry.offset == self.end - 1:
                return True
            if entry.control:
                return entry.timestamp >= tombstones_before
            if last.get(entry.key) != entry.offset:
                return False
            return entry.value is not None or entry.timestamp >= tombstones_before

        self._remember(each for each in self._entries if not stays(each))
        self._entries = [each for each in self._entries if stays(each)]
        self._offsets = [each.offset for each in self._entries]
        return count - len(self._entries)

    def _remember(self, given_up: Iterable[LogEntry]) -> None:
        self._gone += [each for each in given_up if not each.control and not self.is_aborted(each)]

    def _producer(self, producer: int, epoch: int) -> _ProducerState:
        """What is known of a producer; a new epoch begins its sequence anew."""
        state = self._producers.get(producer)
        if state is None:
            state = self._producers[producer] = _ProducerState(epoch)
        elif epoch < state.epoch:
            raise ProducerFencedError(
                f"Producer {producer} of epoch {epoch} is fenced: {state.epoch} was here."
            )
        elif epoch > state.epoch:
            state = self._producers[producer] = _ProducerState(epoch)
        return state

    def _add(self, entry: LogEntry) -> int:
        self._entries.append(entry)
        self._offsets.append(entry.offset)
        self.end += 1
        return entry.offset
