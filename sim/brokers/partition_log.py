"""The log of one partition: its records and transactions, and the view of a reader.

Sources: Kafka, UnifiedLog, ProducerStateManager, LogSegment and LogCleaner; KIP-534.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from msgspec import Struct

from streamproof.sim.broker_errors import (
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    ProducerFencedError,
)

__all__ = [
    "DELETE_RETENTION_MS",
    "NO_PRODUCER",
    "Fetched",
    "Isolation",
    "LogEntry",
    "PartitionLog",
]

DELETE_RETENTION_MS = 86_400_000
"""``delete.retention.ms``."""

NO_PRODUCER = -1
"""The producer of a record that is neither idempotent nor in a transaction."""

REMEMBERED_SEQUENCES = 1024
"""How many records of a producer are recognised when they are sent again.

More than are ever in flight.
"""

Isolation = Literal["read_uncommitted", "read_committed"]

Control = Literal["", "commit", "abort"]


class LogEntry(Struct, frozen=True, gc=False):
    """One offset of a log.

    Attributes:
        timestamp: the timestamp of the record, in milliseconds.
        key: the key of the record; empty for a marker.
        value: the value of the record; ``None`` is a tombstone.
        producer: the id of the producer; ``NO_PRODUCER`` without one.
        transactional: whether the record belongs to a transaction of the producer.
        control: how the transaction ends, if this is a marker and no record; empty for a record.
    """

    offset: int
    timestamp: int
    key: bytes
    value: bytes | None
    producer: int = NO_PRODUCER
    transactional: bool = False
    control: Control = ""


class Fetched(NamedTuple):
    """The answer to a fetch.

    Attributes:
        records: the records that the reader may see, in order.
        next_offset: the offset to go on from: behind everything that was read, markers and aborted
            records included.
        high_watermark: the end of the replicated log.
        last_stable_offset: the first offset of an open transaction, or the high watermark.
        log_start: the first offset that the log still has.
    """

    records: list[LogEntry]
    next_offset: int
    high_watermark: int
    last_stable_offset: int
    log_start: int


class _ProducerState:
    """The state of a producer, as the log knows it.

    Attributes:
        next_sequence: the sequence number of its next record.
        offsets: the offsets of its records by sequence number, to recognise a repeated record.
    """

    __slots__ = ("epoch", "next_sequence", "offsets")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.next_sequence = 0
        self.offsets: dict[int, int] = {}


class PartitionLog:
    """A log with one replica that is never behind: its end is the high watermark.

    Args:
        checks_sequences: whether it keeps the records of a producer in the order of their sequence
            numbers, and each once, as it must.

    Attributes:
        log_start: the first offset that the log still has.
        end: the offset of the next record.
        tombstones_end: the offset after the last tombstone that a compaction has given up because
            its time was over: a store that is not as far may have missed it.
    """

    def __init__(self, *, checks_sequences: bool = True) -> None:
        self._checks_sequences = checks_sequences
        self.log_start = 0
        self.end = 0
        self.tombstones_end = 0
        self._entries: list[LogEntry] = []
        self._offsets: list[int] = []
        # Committed records that the log has given up. Observers need them; no reader gets them.
        self._gone: list[LogEntry] = []
        self._producers: dict[int, _ProducerState] = {}
        # By producer: the first offset of its open transaction.
        self._open: dict[int, int] = {}
        # By producer: the spans of its aborted transactions, first offset and marker.
        self._aborted: dict[int, list[tuple[int, int]]] = {}
        # By offset of a tombstone or marker that a compaction has met: until when it stays.
        self._horizons: dict[int, int] = {}

    @property
    def last_stable_offset(self) -> int:
        """The first offset of the oldest open transaction, or the end."""
        return min(self._open.values(), default=self.end)

    @property
    def entries(self) -> list[LogEntry]:
        """All entries of the log, markers included."""
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

        A record whose sequence number the log has already is not appended again; its first offset
        is returned.

        Raises:
            OutOfOrderSequenceError: records of the producer are missing before this one.
            ProducerFencedError: a producer of the same id and a later epoch was here.
        """
        if producer != NO_PRODUCER:
            state = self._producer(producer, epoch)
            if sequence in state.offsets and self._checks_sequences:
                return state.offsets[sequence]
            if sequence != state.next_sequence and self._checks_sequences:
                raise OutOfOrderSequenceError(
                    f"Producer {producer} sent sequence {sequence}, but must send "
                    f"{state.next_sequence} next."
                )
            state.next_sequence = sequence + 1
            state.offsets[sequence] = self.end
            state.offsets.pop(sequence - REMEMBERED_SEQUENCES, None)
            if transactional:
                self._open.setdefault(producer, self.end)
        return self._add(LogEntry(self.end, timestamp, key, value, producer, transactional))

    def is_open(self, producer: int, epoch: int) -> bool:
        """Whether the partition has records of an open transaction of a producer in this epoch."""
        return producer in self._open and self._producers[producer].epoch == epoch

    def end_transaction(
        self, producer: int, *, commit: bool, timestamp: int, epoch: int = 0
    ) -> int:
        """Append the marker that ends a transaction, and return its offset.

        A transaction without a record in this partition has a marker, too. From the marker on, a
        producer of an earlier epoch can append nothing.

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
        """The records that a reader sees from an offset on.

        Args:
            offset: the first offset that the reader wants.
            isolation: with ``read_committed``, the answer has no aborted record, and no record from
                the first open transaction on.
            max_records: how many entries are read at most; a fetch may return any prefix.

        Raises:
            OffsetOutOfRangeError: the offset is before the start or behind the end.
        """
        if not self.log_start <= offset <= self.end:
            raise OffsetOutOfRangeError(
                f"Offset {offset} is out of range; read from {self.log_start} to {self.end}."
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
        # Compaction may have left a gap behind the last entry; the reader passes it, too.
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
        """Give up all entries before an offset, because of retention or of a request."""
        self.log_start = max(self.log_start, min(offset, self.end))
        keep = bisect_left(self._offsets, self.log_start)
        self._remember(self._entries[:keep])
        del self._entries[:keep], self._offsets[:keep]
        for producer, spans in self._aborted.items():
            self._aborted[producer] = [each for each in spans if each[1] >= self.log_start]

    def first_kept(self, timestamp: int, segment_ms: int = 0) -> int:
        """The start of the log once it has given up records older than a timestamp.

        Whole segments go, so that everything from the segment of the first young record on stays.
        Records that an open transaction may still change stay, too.

        Args:
            timestamp: records from this time on are young.
            segment_ms: how long a segment is written to; 0 gives each record its own.
        """
        stable, base = self.last_stable_offset, self.log_start
        for each, begins in zip(self._entries, self._bases(segment_ms), strict=True):
            base = each.offset if begins else base
            if each.timestamp >= timestamp or each.offset >= stable:
                return base
        return stable

    def active_segment(self, segment_ms: int) -> int:
        """The first offset of the segment that is written to, which no compaction touches.

        Args:
            segment_ms: ``segment.ms``: how long a segment is written to.
        """
        bases = zip(self._entries, self._bases(segment_ms), strict=True)
        return max((each.offset for each, begins in bases if begins), default=self.log_start)

    def _bases(self, segment_ms: int) -> Iterator[bool]:
        """For each entry, whether a segment begins with it (Kafka: LogSegment#shouldRoll)."""
        first: int | None = None
        for each in self._entries:
            begins = first is None or not segment_ms or each.timestamp - first > segment_ms
            if begins:
                first = each.timestamp
            yield begins

    def compact(
        self,
        *,
        now: int = 0,
        delete_retention_ms: int = DELETE_RETENTION_MS,
        before: int | None = None,
    ) -> int:
        """Keep only the last record of each key, and give up old tombstones and markers.

        Aborted records go. Entries that an open transaction may still change stay, and so does the
        last entry, because it marks the end of the log. The first compaction that meets a tombstone
        or a marker decides until when that entry stays (KIP-534).

        Args:
            now: the time, in milliseconds.
            delete_retention_ms: ``delete.retention.ms``: how long a tombstone or a marker stays
                after the first compaction that has met it.
            before: entries from this offset on stay unchanged; by default, every entry may go.

        Returns:
            The number of entries that went.
        """
        stable = min(self.last_stable_offset, self.end if before is None else before)
        last: dict[bytes, int] = {}
        for each in self._entries:
            if each.offset < stable and not each.control and not self.is_aborted(each):
                last[each.key] = each.offset

        def stays(entry: LogEntry) -> bool:
            if entry.offset >= stable or entry.offset == self.end - 1:
                return True
            if not entry.control and last.get(entry.key) != entry.offset:
                return False
            if entry.value is not None:
                return True
            if entry.offset not in self._horizons:
                self._horizons[entry.offset] = now + delete_retention_ms
                return True
            return self._horizons[entry.offset] > now

        kept = [each for each in self._entries if stays(each)]
        there = {each.offset for each in kept}
        gone = [each for each in self._entries if each.offset not in there]
        self._remember(gone)
        for each in gone:
            self._horizons.pop(each.offset, None)
            if each.value is None and last.get(each.key) == each.offset:
                self.tombstones_end = max(self.tombstones_end, each.offset + 1)
        self._entries, self._offsets = kept, [each.offset for each in kept]
        return len(gone)

    def _remember(self, given_up: Iterable[LogEntry]) -> None:
        self._gone += [each for each in given_up if not each.control and not self.is_aborted(each)]

    def _producer(self, producer: int, epoch: int) -> _ProducerState:
        """The state of a producer. A new epoch begins its sequence at 0."""
        state = self._producers.get(producer)
        if state is None:
            state = self._producers[producer] = _ProducerState(epoch)
        elif epoch < state.epoch:
            raise ProducerFencedError(
                f"Producer {producer} of epoch {epoch} is fenced, because epoch {state.epoch} has "
                "written: begin anew with another producer."
            )
        elif epoch > state.epoch:
            state = self._producers[producer] = _ProducerState(epoch)
        return state

    def _add(self, entry: LogEntry) -> int:
        self._entries.append(entry)
        self._offsets.append(entry.offset)
        self.end += 1
        return entry.offset
