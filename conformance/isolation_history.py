"""Histories of concurrent readers and writers, and the anomalies that they show.

A *transaction* writes values under keys, and then commits or is rolled back. A write without a
transaction counts as a transaction that commits at once. A *read* is one call of a reader and
returns the value of one key, or of all keys. Every event has a *span*, from its call to its
return, so the judge handles several threads as well as one. No value is written twice and none is
deleted, so a value names its write, and ``None`` stands for the time before any write.

The judge knows only the history. It reports an anomaly only if *no* order of the overlapping calls
explains the values that were read, so a correct store is never accused, whatever the threads did.

The names are those of the field: P1 to P4 and A5A of Berenson et al., "A Critique of ANSI SQL
Isolation Levels"; G0 and G1a to G1c of Adya, "Weak Consistency".
"""

from __future__ import annotations

import itertools
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, NamedTuple

from streamproof.stores.api import IsolationLevel

__all__ = [
    "PERMITTED",
    "Anomaly",
    "FoundAnomaly",
    "IsolationHistory",
    "ObservedTransaction",
    "Read",
    "Span",
]


class Anomaly(Enum):
    """The anomalies that a history may show, the gravest first.

    Each text begins with the established name of the anomaly, then says what went wrong.
    """

    INVENTED_VALUE = "invented value: no transaction had written this value to the key"
    OWN_WRITE_MISSED = "own write missed: the reader does not see its own write"
    CIRCULAR_FLOW = "circular information flow (G1c): transactions read from each other"
    DIRTY_WRITE = "dirty write (G0): two transactions overwrote parts of each other"
    ABORTED_READ = "aborted read (G1a): the writer of the value was rolled back before"
    DIRTY_READ = "dirty read (P1): the value is not committed"
    INTERMEDIATE_READ = (
        "intermediate read (G1b): the writer of the value overwrote it before the commit"
    )
    LOST_WRITE = "lost write: a committed value is gone, but no transaction overwrote it"
    BACKWARD_READ = "non-monotonic read: the same reader had seen a newer value"
    FRACTURED_READ = (
        "fractured read: the value is older than a commit that the same reader has seen"
    )
    STALE_READ = "stale read: a newer value was already committed"
    LONG_FORK = "long fork: two readers saw two commits in opposite orders"
    LOST_UPDATE = "lost update (P4): two transactions read a value, and both overwrote it"
    READ_SKEW = "read skew (A5A): a transaction read one key before a commit and one after it"
    NON_REPEATABLE_READ = "non-repeatable read (P2): a transaction read two values of a key"
    PHANTOM = "phantom (P3): a transaction scanned twice and found a new key"


PERMITTED: Mapping[IsolationLevel, frozenset[Anomaly]] = {
    IsolationLevel.READ_COMMITTED: frozenset(
        {
            Anomaly.LOST_UPDATE,
            Anomaly.READ_SKEW,
            Anomaly.NON_REPEATABLE_READ,
            Anomaly.PHANTOM,
        }
    ),
    IsolationLevel.READ_UNCOMMITTED: frozenset(Anomaly)
    - {
        Anomaly.INVENTED_VALUE,
        Anomaly.OWN_WRITE_MISSED,
        Anomaly.ABORTED_READ,
        Anomaly.LOST_WRITE,
        Anomaly.STALE_READ,
    },
}
"""The anomalies that each isolation level permits; see ``docs/isolation.md`` for the sources."""


class Span(NamedTuple):
    """The times of a call and of its return, on a clock that all threads share."""

    invoked: int
    returned: int

    def before(self, other: Span) -> bool:
        """Whether this call had returned when the other call began."""
        return self.returned < other.invoked


NEVER = Span(2**62, 2**62)
"""The time of an event that had not happened when the history ended."""


@dataclass(eq=False)
class ObservedTransaction:
    """The writes of one transaction.

    Attributes:
        name: the name in messages.
        began: the time at which the transaction was opened.
        writes: the writes in order: key, value and time.
        outcome: the end of the transaction, or ``open``.
        end: the time of the commit or rollback; ``NEVER`` while the transaction is open.
    """

    name: str
    began: Span
    writes: list[tuple[bytes, bytes, Span]] = field(default_factory=list)
    outcome: Literal["open", "committed", "rolled back"] = "open"
    end: Span = NEVER

    @property
    def committed(self) -> bool:
        """Whether the transaction committed."""
        return self.outcome == "committed"

    @property
    def keys(self) -> set[bytes]:
        """The keys that the transaction wrote."""
        return {key for key, _, _ in self.writes}

    def last(self, key: bytes) -> bytes | None:
        """The last value that the transaction wrote to a key."""
        return next((value for other, value, _ in reversed(self.writes) if other == key), None)


@dataclass(frozen=True, eq=False)
class Read:
    """One call of a reader.

    Attributes:
        reader: the name of the reader in messages.
        level: the isolation level of the reader.
        span: the time of the call.
        values: the values that the reader got; ``None`` for an absent key.
        inside: the transaction that reads, if one does.
        place: the line of the call in the program, as the recorder counts lines.
    """

    reader: str
    level: IsolationLevel
    span: Span
    values: Mapping[bytes, bytes | None]
    inside: ObservedTransaction | None = None
    place: int = 0

    @property
    def since(self) -> Span:
        """The read must see all earlier commits. A transaction may read as of its begin."""
        return self.inside.began if self.inside else self.span


class FoundAnomaly(NamedTuple):
    """An anomaly, the read that shows it, and a description."""

    anomaly: Anomaly
    read: Read
    text: str


NOTHING = ObservedTransaction("nobody", Span(-1, -1), [], outcome="committed", end=Span(-1, -1))
"""The writer of absent values, before all other transactions."""


class IsolationHistory:
    """The recorded operations, in the order of recording. Several threads may record.

    Args:
        early: whether a write may reach other readers before its commit, as it may if the
            writers are at READ_UNCOMMITTED.
    """

    def __init__(self, *, early: bool = False) -> None:
        self.transactions: list[ObservedTransaction] = []
        self.reads: list[Read] = []
        self._early = early
        self._clock = itertools.count()
        self._lock = threading.Lock()

    def now(self) -> int:
        """The next tick of the clock."""
        return next(self._clock)

    def span(self, invoked: int) -> Span:
        """The span from a tick until now."""
        return Span(invoked, self.now())

    def begin(self, name: str) -> ObservedTransaction:
        """Record that a transaction was opened."""
        transaction = ObservedTransaction(name, self.span(self.now()))
        with self._lock:
            self.transactions.append(transaction)
        return transaction

    def read(self, read: Read) -> None:
        """Record a read that has returned."""
        with self._lock:
            self.reads.append(read)

    def end(
        self,
        transactions: Iterable[ObservedTransaction],
        outcome: Literal["committed", "rolled back"],
        span: Span,
    ) -> None:
        """Record transactions that have ended in one call."""
        for transaction in transactions:
            transaction.outcome = outcome
            transaction.end = span

    def forbidden(self, level: IsolationLevel | None = None) -> list[FoundAnomaly]:
        """The anomalies that the levels of their readers do not permit, the gravest first.

        ``level`` replaces the level of every reader.
        """
        found = [
            each
            for each in self.anomalies()
            if each.anomaly not in PERMITTED[level or each.read.level]
        ]
        ranks = list(Anomaly)
        return sorted(found, key=lambda each: (ranks.index(each.anomaly), each.read.span))

    def anomalies(self) -> Iterator[FoundAnomaly]:
        """Every anomaly that the history shows, permitted or not."""
        yield from _Judge(self.transactions, self.reads, early=self._early).anomalies()


class _Judge:
    """Finds the anomalies of a finished history."""

    def __init__(
        self, transactions: list[ObservedTransaction], reads: list[Read], *, early: bool
    ) -> None:
        self.reads = sorted(reads, key=lambda read: read.span)
        self.early = early
        self.written = {
            (key, value): (each, span) for each in transactions for key, value, span in each.writes
        }
        self.commits = _Commits(transactions, self.start)
        # The newest commit that each reader has seen, of each key and of all keys (``None``).
        self.seen: dict[
            tuple[str, bytes | None], tuple[ObservedTransaction, bytes, bytes | None]
        ] = {}
        self.inside: dict[ObservedTransaction, list[Read]] = {}

    def anomalies(self) -> Iterator[FoundAnomaly]:
        """Every anomaly of single reads, then those of several reads."""
        for read in self.reads:
            for key, value in read.values.items():
                yield from self.of_value(read, key, value)
            yield from self.of_whole(read)
            if read.inside is not None:
                yield from self.of_transaction(read, read.inside)
            self.remember(read)
        yield from self.long_forks()
        yield from self.circles()
        yield from self.lost_updates()

    def found(self, anomaly: Anomaly, read: Read, key: bytes, text: str = "") -> FoundAnomaly:
        """An anomaly with the value that was read."""
        got = f"{read.reader} got {read.values[key]!r} for {key!r}"
        return FoundAnomaly(anomaly, read, f"{got}; {text}" if text else got)

    # The writers of values, and the order of their commits.

    def writer(self, key: bytes, value: bytes | None) -> ObservedTransaction | None:
        """The transaction that wrote a value; ``None`` if no transaction did."""
        if value is None:
            return NOTHING
        found = self.written.get((key, value))
        return found[0] if found else None

    def foreign(self, read: Read) -> dict[bytes, ObservedTransaction]:
        """The committed writers of the values of a call, except the reader's own writes."""
        own = read.inside.keys if read.inside else set()
        writers = {
            key: self.writer(key, value) for key, value in read.values.items() if key not in own
        }
        return {key: each for key, each in writers.items() if each and each.committed}

    def start(self, transaction: ObservedTransaction, key: bytes) -> int:
        """The earliest time at which others could see a committed write to a key.

        That is the start of its commit or, if readers may see writes early, of its first write.
        """
        if self.early:
            return next(span.invoked for its, _, span in transaction.writes if its == key)
        return transaction.end.invoked

    def precedes(self, one: ObservedTransaction, other: ObservedTransaction, key: bytes) -> bool:
        """Whether one transaction's write to a key is older than another's, in any explanation."""
        if other is NOTHING or one is other:
            return False
        return one is NOTHING or one.end.returned < self.start(other, key)

    def remember(self, read: Read) -> None:
        """Note which commits the reader has now seen, and by which key and value."""
        for key, writer in self.foreign(read).items():
            # A commit is best remembered by the key itself.
            for other in (key, *(writer.keys - {key}), None):
                newest = self.seen.get((read.reader, other), (NOTHING,))[0]
                if newest.end.invoked < writer.end.invoked or (key == other and newest is writer):
                    self.seen[read.reader, other] = (writer, key, read.values[key])

    # One value.

    def of_value(self, read: Read, key: bytes, value: bytes | None) -> Iterator[FoundAnomaly]:
        """The anomalies of one value that was read."""
        writer = self.writer(key, value)
        if writer is None or self.is_future(read, key, value):
            yield self.found(Anomaly.INVENTED_VALUE, read, key)
            return
        own = self.own(read, key)
        if own is not None:
            if value != own and not self.may_replace(read, key, own, writer):
                yield self.found(
                    Anomaly.OWN_WRITE_MISSED, read, key, f"{read.reader} had written {own!r}"
                )
            return
        yield from self.of_uncommitted(read, key, value, writer)
        if writer.committed:
            yield from self.of_older(read, key, writer)

    def is_future(self, read: Read, key: bytes, value: bytes | None) -> bool:
        """Whether a value was written only after it was read."""
        return value is not None and self.written[key, value][1].invoked > read.span.returned

    def own(self, read: Read, key: bytes) -> bytes | None:
        """The reader's own last write to a key before the read."""
        written = [
            value
            for its, value, span in (read.inside.writes if read.inside else ())
            if its == key and span.before(read.span)
        ]
        return written[-1] if written else None

    def may_replace(self, read: Read, key: bytes, own: bytes, writer: ObservedTransaction) -> bool:
        """Whether another writer's value may have replaced a reader's own write."""
        if not self.early or writer is read.inside or writer is NOTHING:
            return False
        return not writer.end.before(self.written[key, own][1])

    def of_uncommitted(
        self, read: Read, key: bytes, value: bytes | None, writer: ObservedTransaction
    ) -> Iterator[FoundAnomaly]:
        """Values that only their own transaction may see."""
        who = f"{writer.name} wrote this value"
        if writer.outcome == "rolled back" and writer.end.before(read.span):
            yield self.found(Anomaly.ABORTED_READ, read, key, f"{who} and was rolled back")
        elif writer.committed and value is not None and writer.last(key) != value:
            text = f"{who}, then wrote {writer.last(key)!r} and committed"
            yield self.found(Anomaly.INTERMEDIATE_READ, read, key, text)
            if writer.end.before(read.since):
                yield self.found(Anomaly.STALE_READ, read, key, text)
        elif writer.end.invoked > read.span.returned or not writer.committed:
            yield self.found(Anomaly.DIRTY_READ, read, key, f"{who} and had not committed")

    def of_older(
        self, read: Read, key: bytes, writer: ObservedTransaction
    ) -> Iterator[FoundAnomaly]:
        """A value where a newer one was already committed or seen."""
        newest = self.commits.newest_before(read.since, key)
        if newest is not None and self.precedes(writer, newest, key):
            text = f"{newest.name} had committed {newest.last(key)!r}"
            behind = self.is_behind(read, key, newest)
            yield self.found(Anomaly.STALE_READ if behind else Anomaly.LOST_WRITE, read, key, text)
        for which in (key, None):
            seen, its, old = self.seen.get((read.reader, which), (NOTHING, key, None))
            if self.misses(writer, seen, key):
                text = f"{read.reader} had got {old!r} for {its!r}, written by {seen.name}"
                kind = Anomaly.BACKWARD_READ if its == key else Anomaly.FRACTURED_READ
                yield self.found(kind, read, key, text)
                return

    def misses(self, writer: ObservedTransaction, seen: ObservedTransaction, key: bytes) -> bool:
        """Whether a value is older than a seen commit, or older than an earlier commit."""
        if seen is NOTHING or seen is writer:
            return False
        if key in seen.keys and self.precedes(writer, seen, key):
            return True
        newest = self.commits.newest_before(seen.end, key)
        return newest is not None and self.precedes(writer, newest, key)

    def is_behind(self, read: Read, key: bytes, newest: ObservedTransaction) -> bool:
        """Whether another reader found a commit that this reader missed, so the write is not lost.

        Only reads after the last commit before this read count.
        """
        last = self.commits.last_end_before(read.span)
        for other in self.reads:
            if key in other.values and last.before(other.span):
                writer = self.foreign(other).get(key)
                if writer is not None and not self.precedes(writer, newest, key):
                    return True
        return False

    # Several values of one call, or of one transaction.

    def of_whole(self, read: Read) -> Iterator[FoundAnomaly]:
        """The anomalies between the values of one call."""
        writers = self.foreign(read)
        for (key, writer), (other, seen) in itertools.permutations(writers.items(), 2):
            if self.misses(writer, seen, key):
                text = f"{read.values[other]!r} for {other!r} is newer, written by {seen.name}"
                yield self.found(Anomaly.FRACTURED_READ, read, key, text)
            elif {key, other} <= writer.keys & seen.keys and not self.in_order(
                writer, seen, key, other
            ):
                text = f"{writer.name} and {seen.name} each wrote {key!r} and {other!r}"
                yield self.found(Anomaly.DIRTY_WRITE, read, key, text)

    def in_order(self, one: ObservedTransaction, other: ObservedTransaction, *keys: bytes) -> bool:
        """Whether the order of two transactions is known, or both came in one commit."""
        return one.end == other.end or any(
            self.precedes(one, other, key) or self.precedes(other, one, key) for key in keys
        )

    def of_transaction(self, read: Read, inside: ObservedTransaction) -> Iterator[FoundAnomaly]:
        """The anomalies between a read and earlier reads of its transaction. All are permitted."""
        writers = self.foreign(read)
        for earlier in self.inside.get(inside, ()):
            whole = len(earlier.values) > 1
            before = self.foreign(earlier)
            for key, writer in writers.items():
                if key in before and before[key] is not writer:
                    old = f"{earlier.values[key]!r} before"
                    yield self.found(Anomaly.NON_REPEATABLE_READ, read, key, old)
                    if whole and earlier.values[key] is None:
                        yield self.found(Anomaly.PHANTOM, read, key)
                for its, seen in before.items():
                    if its in writer.keys - {key} and self.precedes(seen, writer, its):
                        old = f"{earlier.values[its]!r} for {its!r} before"
                        yield self.found(Anomaly.READ_SKEW, read, key, old)
        self.inside.setdefault(inside, []).append(read)

    # Several readers or transactions.

    def long_forks(self) -> Iterator[FoundAnomaly]:
        """Two calls that each missed a commit that the other saw."""
        missed: dict[ObservedTransaction, list[tuple[Read, set[ObservedTransaction]]]] = {}
        for read in self.reads:
            writers = self.foreign(read)
            for key, writer in writers.items():
                for each in self.commits.begun_before(read.span, key):
                    if self.precedes(writer, each, key):
                        missed.setdefault(each, []).append((read, set(writers.values())))
        for one, calls in missed.items():
            for first, seen in calls:
                for other in (each for each in missed if each in seen):
                    for second, its in missed[other]:
                        if one in its and first.span < second.span:
                            text = f"{first.reader} saw {other.name} but not {one.name}"
                            key = next(iter(second.values))
                            yield self.found(Anomaly.LONG_FORK, second, key, text)

    def circles(self) -> Iterator[FoundAnomaly]:
        """Committed transactions that read from each other, in a circle of any length."""
        sources: dict[ObservedTransaction, dict[ObservedTransaction, tuple[Read, bytes]]] = {}
        for read in self.reads:
            if read.inside is not None and read.inside.committed:
                for key, writer in self.foreign(read).items():
                    sources.setdefault(read.inside, {}).setdefault(writer, (read, key))
        for start, direct in sources.items():
            reached: set[ObservedTransaction] = set()
            left = list(direct)
            while left:
                each = left.pop()
                if each not in reached:
                    reached.add(each)
                    left.extend(sources.get(each, ()))
            if start in reached:
                read, key = next(iter(direct.values()))
                yield self.found(Anomaly.CIRCULAR_FLOW, read, key)

    def lost_updates(self) -> Iterator[FoundAnomaly]:
        """Pairs of committed transactions that read one value and then both replaced it."""
        bases: dict[tuple[bytes, bytes | None], ObservedTransaction] = {}
        for read in self.reads:
            inside = read.inside
            if inside is None or not inside.committed:
                continue
            for key, value in read.values.items():
                # A value that was read after the transaction's own write is no base of that write.
                if key in inside.keys and self.own(read, key) is None:
                    other = bases.setdefault((key, value), inside)
                    if other is not inside:
                        text = f"{other.name} and {inside.name} overwrote {value!r}"
                        yield self.found(Anomaly.LOST_UPDATE, read, key, text)


class _Commits:
    """The commits of each key, found by time."""

    def __init__(
        self,
        transactions: list[ObservedTransaction],
        start: Callable[[ObservedTransaction, bytes], int],
    ) -> None:
        committed = sorted((each for each in transactions if each.committed), key=_returned)
        self.ends = [each.end for each in committed]
        self.by_key: dict[bytes, list[ObservedTransaction]] = {}
        self.newest: dict[bytes, list[ObservedTransaction]] = {}
        for each in committed:
            for key in each.keys:
                self.by_key.setdefault(key, []).append(each)
                newest = self.newest.setdefault(key, [])
                if newest and start(newest[-1], key) > start(each, key):
                    newest.append(newest[-1])
                else:
                    newest.append(each)

    def newest_before(self, span: Span, key: bytes) -> ObservedTransaction | None:
        """The commit of a key that began last, of those that had returned before a span."""
        count = bisect_left(self.by_key.get(key, []), span.invoked, key=_returned)
        return self.newest[key][count - 1] if count else None

    def begun_before(self, span: Span, key: bytes) -> Iterator[ObservedTransaction]:
        """The commits of a key that were under way during a span."""
        commits = self.by_key.get(key, [])
        for each in commits[bisect_left(commits, span.invoked, key=_returned) :]:
            if each.end.invoked < span.returned:
                yield each

    def last_end_before(self, span: Span) -> Span:
        """The last commit that had returned before a span; the beginning if none had."""
        count = bisect_left(self.ends, span.invoked, key=lambda end: end.returned)
        return self.ends[count - 1] if count else NOTHING.end


def _returned(transaction: ObservedTransaction) -> int:
    return transaction.end.returned
