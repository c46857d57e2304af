"""A store on trial beside its oracle: its writers, its readers and its open iterators.

The random programs of :mod:`streamproof.conformance.store_program` are steps on this stage.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.lab import (
    CHANGELOG,
    OTHER_CHANGELOG,
    ChangelogRecord,
    IsolationLevel,
    TopicPartition,
)
from streamproof.conformance.program_kinds import Bounds, ScanMethod, kind_of
from streamproof.conformance.store_oracle import Cell, Choices, Key, Scan, Staged, StoreOracle
from streamproof.conformance.trial import Entry, Handle, Trial
from streamproof.stores.api import NO_TIMESTAMP
from streamproof.stores.capabilities import Capabilities

__all__ = ["OpenIterator", "Reader", "StoreStage", "Writer"]

Value = bytes | None
InputOffsets = dict[tuple[str, int], int]


class Writer(NamedTuple):
    """The store or a transaction, its writes, and the input offsets of these writes."""

    handle: Handle
    staged: Staged
    position: InputOffsets


class Reader(NamedTuple):
    """The store, a transaction or a view; the cells that it may get; and the promise about it."""

    handle: Handle
    choices: Choices
    requirement: str


@dataclass(eq=False)
class OpenIterator:
    """An open iterator, what it may still yield, the promise about it, and its transaction."""

    handle: Handle
    scan: Scan
    requirement: str
    transaction: Handle | None
    ended: bool = field(default=False)


class StoreStage:
    """A store and its oracle, with everything that a program has opened.

    Args:
        run: the check.
        t: the trial of this program.

    Attributes:
        kind: what programs know of its kind.
        store: the store.
        transactions: the open transactions, oldest first.
        ended: transactions that were committed or closed.
        views: the open views.
        iterators: the open iterators.
        offsets: the committed offsets.
        record: the input record that is being processed: topic, partition, offset.
        timestamp: the timestamp of that record.
        position: the input offsets of the writes to the store.
        committed_position: those of its committed writes.
        restored: whether changelog records were restored.
        dropped: how many writes the store has dropped as too late; ``None`` if it may have dropped
            some of them before they were counted.
    """

    def __init__(self, run: CheckRun, t: Trial) -> None:
        self.run = run
        self.t = t
        self.can: Capabilities = run.subject.capabilities
        self.kind = kind_of(self.can)
        self.oracle = StoreOracle(stages=run.exact, ageing=self.kind.ageing)
        self.store = self.kind.open(t)
        self.transactions: list[Writer] = []
        self.ended: list[Handle] = []
        self.views: list[Reader] = []
        self.iterators: list[OpenIterator] = []
        self.used_transactions = False
        self.offsets: dict[TopicPartition, int] = {}
        self.reached = {CHANGELOG: -1, OTHER_CHANGELOG: -1}
        self.record: tuple[str, int, int] | None = None
        self.timestamp = NO_TIMESTAMP
        self.position: InputOffsets = {}
        self.committed_position: InputOffsets = {}
        self.restored = False
        self.dropped: int | None = 0
        self._replica: dict[bytes, Any] | None = {}
        self._logged = 0

    def claim(self, requirement: str, tried: str = "a random program") -> None:
        """Put a promise to the test, or the one about all answers if it does not apply."""
        applies = self.run.applies(requirement)
        self.t.claim(requirement if applies else self.kind.promises.answers, tried)

    # Who writes and who reads.

    @property
    def plain(self) -> str:
        """The promise about the answers of the store itself."""
        return self.of_transactions if self.used_transactions else self.kind.promises.answers

    @property
    def of_transactions(self) -> str:
        """The promise about the answers of transactions."""
        return "TXN-015" if self.run.applies("TXN-015") else self.kind.promises.answers

    @property
    def dirty(self) -> bool:
        """Whether the store has writes that are not committed."""
        return bool(self.oracle.own.cells)

    @property
    def own(self) -> Writer:
        """The store as a writer."""
        return Writer(self.store, self.oracle.own, self.position)

    def writer(self, which: int) -> Writer:
        """The store, or an open transaction."""
        writers = [self.own, *self.transactions]
        chosen = writers[which % len(writers)]
        self.claim(self.plain if chosen.handle is self.store else self.of_transactions)
        return chosen

    def reader_of(self, writer: Writer) -> Reader:
        """A writer as the reader of its own writes."""
        if writer.handle is self.store:
            return Reader(self.store, self.oracle.in_store, self.plain)
        choices = self.oracle.in_transaction(writer.staged)
        return Reader(writer.handle, choices, self.of_transactions)

    def reader(self, which: int) -> Reader:
        """The store, an open transaction, or a view."""
        readers = [self.reader_of(each) for each in (self.own, *self.transactions)] + self.views
        chosen = readers[which % len(readers)]
        self.claim(chosen.requirement)
        return chosen

    def scanner(self, method: ScanMethod, which: int) -> Reader:
        """A reader that has this scan. Views are not asked for timestamps."""
        scans = self.kind.promises.scans
        if method.stamped:
            reader = self.reader_of(self.writer(which))
            self.claim("TS-011", "a random program that scans with timestamps")
            return reader
        reader = self.reader(which)
        if reader.requirement == self.kind.promises.answers and self.run.applies(scans):
            self.claim(scans, "a random program that scans")
        return reader

    def possible_views(self) -> dict[IsolationLevel, tuple[str, Choices]]:
        """The views that the specification speaks of: the promise, and what they may show."""
        if not self.can.read_only_views:
            return {}
        oracle, applies = self.oracle, self.run.applies
        committed, uncommitted = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
        if self.run.exact:
            return {
                committed: ("ISO-016", oracle.in_committed_view),
                uncommitted: ("ISO-006", oracle.in_any_view),
            }
        for requirement in ("ISO-020", "ISO-023"):
            if applies(requirement):
                # A view that permits it may also show what transactions have staged.
                levels = [committed] if applies("TXN-015") else [committed, uncommitted]
                return dict.fromkeys(levels, (requirement, oracle.in_live_view))
        return {}

    # Writing.

    @property
    def now(self) -> int:
        """The largest stream time that the store may know."""
        return self.oracle.times_of(self.oracle.own)[1]

    @property
    def now_committed(self) -> int:
        """The largest stream time that others than open transactions have written."""
        return max(self.oracle.reached, self.oracle.own.time)

    def at(self, drawn: Any) -> Key:
        """What was drawn as a key: a key, or the window or session of one at this stream time."""
        return self.kind.at(drawn, self.now)

    @property
    def no_key(self) -> Any:
        """A key of None; a window or session of it that has not expired.

        A store may drop what comes too late before it looks at the key.
        """
        nothing: Any = None
        return self.kind.marker(nothing, max(self.now, 0))

    def bounds(self, method: ScanMethod, low: Any, high: Any) -> Bounds:
        """The bounds of a scan, from two drawn ones."""
        return self.kind.bounds_of(method, low, high, self.now)

    def may_write(self, writer: Writer, key: Key) -> bool:
        """Whether a promise says what becomes of a write. One that comes too late has no record."""
        kept = self.oracle.keeps(writer.staged, key)
        if kept is False:
            self.idle()
        return kept is not None and not (self.transactions and self.oracle.lets_staged_expire(key))

    def cell_after(self, writer: Writer, key: Key, value: Value) -> Cell:
        """The cell that a plain put makes. A store that retains duplicates keeps what was there."""
        if not self.can.retain_duplicates:
            return self.cell_of(value)
        return (*(writer.staged.cells.get(key, self.oracle.committed.get(key)) or ()), value)

    def cell_of(self, value: Value, timestamp: int | None = None) -> Cell:
        """The cell that a put makes, by default with the timestamp of the input record."""
        if value is None or not self.can.timestamped:
            return value
        return value, self.timestamp if timestamp is None else timestamp

    def value_of(self, cell: Cell) -> Value:
        """The value in a cell."""
        return cast("Value", cell[0] if self.can.timestamped and cell is not None else cell)

    def wrote(self, writer: Writer, key: Key, cell: Cell) -> None:
        """Note a write, which takes the next offset, and moves the position of its writer."""
        self.reached[CHANGELOG] += 1
        if not self.oracle.keeps(writer.staged, key):
            counted = self.dropped is not None and writer.handle is self.store
            self.dropped = self.dropped + 1 if counted and self.dropped is not None else None
            return
        self.oracle.write(writer.staged, key, cell)
        if self.record is not None:
            topic, partition, offset = self.record
            raise_to(writer.position, {(topic, partition): offset})

    def idle(self) -> None:
        """End the input record, before a call of which no promise says that it moves nothing."""
        if self.record is not None or self.timestamp != NO_TIMESTAMP:
            self.t.idle()
            self.record, self.timestamp = None, NO_TIMESTAMP

    # Comparing.

    def expect_one(self, found: Any, allowed: set[Any]) -> None:
        """Compare an answer with those that are right."""
        if len(allowed) == 1:
            self.t.expect(found, next(iter(allowed)))
        else:
            self.t.expect_that(found in allowed, f"one of {sorted(allowed, key=repr)}", found)

    def expect_value(self, reader: Reader, key: Key, found: Any) -> None:
        """Compare the value that a reader got."""
        self.blame(reader, [(key, found)])
        self.expect_one(found, {self.value_of(cell) for cell in reader.choices(key)})

    def blame(self, reader: Reader, found: list[Entry] | list[tuple[Key, Any]]) -> None:
        """Claim what hides staged writes and their time from a READ_COMMITTED view."""
        if reader.requirement != "ISO-016":
            return
        hidden = self.kind.promises.hidden
        if hidden and self.run.applies(hidden) and self.oracle.staged_time > self.oracle.reached:
            self.claim(hidden, "a random program with a READ_COMMITTED view")
        for key, value in found:
            right = {self.value_of(cell) for cell in reader.choices(key)}
            dirty = {self.value_of(cell) for cell in self.oracle.staged(key)} - right
            if dirty and self.run.applies("ISO-009"):
                self.run.evidence.exercised.add("ISO-009")
            if value in dirty:
                self.claim("ISO-009", "a random program with a READ_COMMITTED view")
                return

    def expected(self, reader: Reader, method: ScanMethod, bounds: Bounds) -> Scan:
        """What a scan may yield."""
        return Scan(
            self.oracle.keys,
            reader.choices,
            bounds.within,
            (lambda cell: cell) if method.stamped else self.value_of,
            backward=method.backward,
            ordered=self.kind.ordered(filter(bounds.within, self.oracle.keys), bounds),
            rank=self.kind.rank,
        )

    def compare(self, found: list[Entry], scan: Scan, *, to_end: bool) -> None:
        """Compare entries with those that a scan or an iterator may yield next."""
        entries = [
            (key, _plain(value)) for key, value in self.kind.joined(found, backward=scan.backward)
        ]
        in_full = scan.ordered and self.kind.ageing is None
        if scan.certain and to_end:
            # Entries that tie may come in any order.
            right = scan.entries()
            self.t.expect(*((entries, right) if in_full else (sorted(entries), sorted(right))))
        elif scan.certain and in_full:
            self.t.expect(entries, scan.entries()[:1])
        wrong = scan.take(entries, to_end=to_end)
        self.t.expect_that(not wrong, "the entries that the reader may get, in order", wrong)
        if to_end:
            forward = [key for key, _ in (found[::-1] if scan.backward else found)]
            self.t.expect_that(self.kind.in_order(forward), "the declared order", found)

    def check_content(self, requirement: str) -> None:
        """Read every key that the program has written."""
        self.claim(requirement)
        reader = self.reader_of(self.own)
        for key in sorted(self.oracle.keys):
            self.expect_value(reader, key, self.store.get(key))

    # Iterators.

    def opened(self, handle: Handle, reader: Reader, scan: Scan) -> None:
        """Keep an iterator, with the promise about it."""
        of_transaction = any(each.handle is reader.handle for each in self.transactions)
        promises = self.kind.promises
        self.oracle.scans.append(scan)
        # Whether an iterator shows later writes is declared for stores, and open for transactions.
        if of_transaction or self.can.iterator_view == "weak":
            self.oracle.weak.append(scan)
            promise = self.of_transactions if of_transaction else promises.survives
        else:
            promise = promises.snapshot
        promise = promise if self.run.applies(promise) else promises.scans
        transaction = reader.handle if of_transaction else None
        self.iterators.append(OpenIterator(handle, scan, promise, transaction))

    def iterator(self, which: int) -> OpenIterator:
        """An open iterator."""
        chosen = self.iterators[which % len(self.iterators)]
        self.claim(chosen.requirement, "a random program with an iterator that stays open")
        return chosen

    def release(self, iterator: OpenIterator) -> None:
        """Close an iterator."""
        self.iterators.remove(iterator)
        self.oracle.scans.remove(iterator.scan)
        if iterator.scan in self.oracle.weak:
            self.oracle.weak.remove(iterator.scan)
        iterator.handle.release()

    # Ends.

    def offsets_of(
        self, partitions: tuple[TopicPartition, ...], step: int
    ) -> dict[TopicPartition, int]:
        """The offsets of a commit, each ``step`` after the one that was reached."""
        for partition in partitions:
            self.reached[partition] = max(self.reached[partition] + step, 0)
        return {partition: self.reached[partition] for partition in partitions}

    def end_transactions(self, *which: Writer) -> None:
        """Note that transactions have ended; their iterators are closed."""
        for writer in which:
            self.transactions.remove(writer)
            self.ended = [*self.ended[-1:], writer.handle]
        ended = [each.handle for each in which]
        for iterator in [each for each in self.iterators if each.transaction in ended]:
            self.release(iterator)

    def closed(self) -> None:
        """Note that the store was closed: what it had open or staged is gone."""
        self.oracle.close()
        self.dropped = 0
        self.ended = [each.handle for each in self.transactions[:2]] or self.ended
        self.transactions.clear()
        self.views.clear()
        self.iterators.clear()
        self.record, self.timestamp = None, NO_TIMESTAMP
        self.position = dict(self.committed_position)

    # The changelog, as the store itself sends it.

    def follow_log(self) -> dict[bytes, Value] | None:
        """The content that the changelog gives; ``None`` if not all of it was committed."""
        logged = self.t.lab.logged
        new, self._logged = logged[self._logged :], len(logged)
        if self._replica is not None:
            self._replica.update((record.key, record.value) for record in new)
        return self._replica

    def restored_records(self, records: list[ChangelogRecord]) -> None:
        """Note restored records, which are in the changelog already."""
        replica = self.follow_log()
        if replica is not None:
            replica.update((record.key, record.value) for record in records)

    def forget_log(self) -> None:
        """Follow the log no longer: some of what was logged has been discarded."""
        self._replica = None

    def logged_content(self) -> dict[bytes, Value]:
        """What the changelog must give: the content, but for what may have expired."""
        content: dict[bytes, Value] = {}
        for key in self.oracle.keys:
            if self.oracle.is_readable(key):
                logged = self.kind.record(key, None, 0, NO_TIMESTAMP)
                content[logged.key] = self.value_of(self.oracle.live(key))
        return content


def _plain(value: Any) -> Any:
    """A value, or a pair of a value and its timestamp as a plain tuple, whatever its class."""
    return tuple(value) if isinstance(value, tuple) else value


def raise_to(position: InputOffsets, reached: InputOffsets) -> None:
    """Raise each offset of a position to the reached one, if that is larger."""
    for partition, offset in reached.items():
        position[partition] = max(position.get(partition, -1), offset)
