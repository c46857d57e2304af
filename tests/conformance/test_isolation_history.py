"""The judge of histories: every anomaly by hand, and both ways against a search of all orders."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator
from random import Random

import pytest

from streamproof.conformance.isolation_history import (
    PERMITTED,
    Anomaly,
    IsolationHistory,
    ObservedTransaction,
    Read,
    Span,
)
from streamproof.stores.api import IsolationLevel

COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED


class Told(IsolationHistory):
    """A history that is told in lines, one event after the other."""

    def __init__(self, *lines: str, early: bool = False) -> None:
        super().__init__(early=early)
        self.named: dict[str, ObservedTransaction] = {}
        for line in lines:
            self.tell(line)

    def tell(self, line: str) -> None:
        """``T1 a=1`` writes, ``T1 commits``, ``T1 ends``; ``R ? a=1 b=-`` and ``T1 ? a=1`` read."""
        who, *rest = line.split()
        values = dict(each.split("=") for each in rest if "=" in each)
        start = self.now()
        if "?" in rest:
            self.tell_read(who, {key: None if v == "-" else v for key, v in values.items()}, start)
        elif "commits" in rest or "ends" in rest:
            names = who.split("+")
            outcome = "committed" if "commits" in rest else "rolled back"
            self.end([self.of(name) for name in names], outcome, self.span(start))
        else:
            span = self.span(start)
            writes = [(key.encode(), value.encode(), span) for key, value in values.items()]
            self.of(who).writes.extend(writes)

    def tell_read(self, who: str, values: dict[str, str | None], start: int) -> None:
        inside = self.of(who) if who.startswith("T") else None
        found = {key.encode(): v and v.encode() for key, v in values.items()}
        level = UNCOMMITTED if who.startswith("U") else COMMITTED
        self.read(Read(who, level, self.span(start), found, inside))

    def of(self, name: str) -> ObservedTransaction:
        if name not in self.named:
            self.named[name] = self.begin(name)
        return self.named[name]

    def names(self) -> set[Anomaly]:
        """Every anomaly."""
        return {each.anomaly for each in self.anomalies()}

    def worst(self) -> Anomaly | None:
        """The gravest anomaly that is not permitted."""
        found = self.forbidden()
        return found[0].anomaly if found else None


BASE = ("T0 a=0 b=0", "T0 commits")

FORBIDDEN = {
    Anomaly.INVENTED_VALUE: ["R ? a=7"],
    Anomaly.OWN_WRITE_MISSED: ["T1 a=1", "T1 ? a=0"],
    Anomaly.ABORTED_READ: ["T1 a=1", "T1 ends", "R ? a=1"],
    Anomaly.DIRTY_READ: ["T1 a=1", "R ? a=1", "T1 commits"],
    Anomaly.INTERMEDIATE_READ: ["T1 a=1", "T1 a=2", "T1 commits", "R ? a=1"],
    Anomaly.LOST_WRITE: ["T2 b=2", "T1 a=1", "T1 commits", "T2 commits", "R ? a=0"],
    Anomaly.BACKWARD_READ: ["T1 ? a=0", "T2 a=1", "T2 commits", "T1 ? a=1", "T1 ? a=0"],
    Anomaly.FRACTURED_READ: ["T3 ? c=-", "T1 a=1 b=1", "T1 commits", "T3 ? a=1", "T3 ? b=0"],
    Anomaly.STALE_READ: ["T1 a=1", "T1 commits", "R ? a=0", "Q ? a=1"],
    Anomaly.CIRCULAR_FLOW: ["T1 a=1", "T2 b=2", "T1 ? b=2", "T2 ? a=1", "T1 commits", "T2 commits"],
}
"""A history for each anomaly that a single thread can show, in which it is the gravest."""


@pytest.mark.parametrize("anomaly", FORBIDDEN, ids=lambda each: each.name.lower())
def test_an_anomaly_is_named(anomaly: Anomaly) -> None:
    assert Told(*BASE, *FORBIDDEN[anomaly]).worst() is anomaly


LEGAL = {
    Anomaly.LOST_UPDATE: [
        *("T1 ? a=0", "T2 ? a=0", "T1 a=1", "T2 a=2", "T1 commits", "T2 commits", "R ? a=2")
    ],
    Anomaly.READ_SKEW: ["T1 ? a=0", "T2 a=1 b=1", "T2 commits", "T1 ? b=1"],
    Anomaly.NON_REPEATABLE_READ: ["T1 ? a=0", "T2 a=1", "T2 commits", "T1 ? a=1"],
    Anomaly.PHANTOM: ["T1 ? a=0 c=-", "T2 c=1", "T2 commits", "T1 ? a=0 c=1"],
}


@pytest.mark.parametrize("anomaly", LEGAL, ids=lambda each: each.name.lower())
def test_a_permitted_anomaly_is_named_and_permitted(anomaly: Anomaly) -> None:
    history = Told(*BASE, *LEGAL[anomaly])

    assert anomaly in history.names()
    assert history.forbidden() == []


@pytest.mark.parametrize(
    "lines",
    [
        ["T1 a=1", "R ? a=0", "T1 ? a=1", "T1 commits", "R ? a=1"],
        ["T1 a=1", "T1 ends", "R ? a=0 b=0 c=-"],
        ["T1 a=1", "T1 a=2", "R ? a=0", "T1 commits", "R ? a=2"],
        ["T1 ? b=0", "T2 a=1 b=1", "T2 commits", "T1 ? a=0"],  # As of its begin.
        ["T1 a=1", "T2 a=2", "T2 commits", "T1 ? a=1", "T1 commits", "R ? a=1"],
        ["T1 a=1", "T2 a=2", "T1+T2 commits", "R ? a=1"],  # In either order.
        ["T1 a=1", "T2 a=2", "T1+T2 commits", "R ? a=2"],
        ["T1 a=1 b=1", "T2 a=2 b=2", "T1+T2 commits", "R ? a=1 b=2"],
    ],
)
def test_what_is_right_is_not_accused(lines: list[str]) -> None:
    assert Told(*BASE, *lines).forbidden() == []


@pytest.mark.parametrize(
    ("lines", "anomaly"),
    [
        (["T1 a=1", "U ? a=1", "T1 commits"], None),
        (["T1 a=1", "U ? a=1", "T1 ends"], None),
        (["T1 a=1", "U ? a=1", "T1 ends", "U ? a=0"], None),
        (["T1 a=1", "T1 ends", "U ? a=1"], Anomaly.ABORTED_READ),
        (["T1 a=1", "U ? a=1", "T1 a=2", "T1 commits", "U ? a=2"], None),
        (["T1 a=1", "T1 a=2", "T1 commits", "U ? a=1"], Anomaly.STALE_READ),
        (["T1 a=1", "T1 commits", "U ? a=0"], Anomaly.LOST_WRITE),
        (["U ? a=9"], Anomaly.INVENTED_VALUE),
    ],
)
def test_read_uncommitted_has_limits(lines: list[str], anomaly: Anomaly | None) -> None:
    assert Told(*BASE, *lines).worst() is anomaly


def test_an_intermediate_read_may_be_before_the_commit() -> None:
    assert Told(*BASE, "T1 a=1", "R ? a=1", "T1 a=2", "T1 commits").worst() is (
        Anomaly.INTERMEDIATE_READ
    )
    assert Told(*BASE, "T1 a=1", "R ? a=1", "T1 a=2", "T1 ends").worst() is Anomaly.DIRTY_READ


def test_writes_may_take_effect_early() -> None:
    """Where writers are at READ_UNCOMMITTED, an early write may be older than it looks."""
    lines = [*BASE, "T1 a=1", "T2 a=2", "T2 commits", "U ? a=2", "T1 commits", "U ? a=2"]

    assert Told(*lines).worst() is Anomaly.LOST_WRITE
    assert Told(*lines, early=True).worst() is None
    assert Told(*lines[:-1], "T1 ? a=2", early=True).forbidden(UNCOMMITTED) == []
    missed = Told(*BASE, "T1 a=1", "T1 ? a=0", early=True).forbidden(UNCOMMITTED)
    assert [each.anomaly for each in missed] == [Anomaly.OWN_WRITE_MISSED]


def overlapping(*reads: tuple[str, Span, dict[bytes, bytes]]) -> IsolationHistory:
    """Two commits under way from 11 to 19, each of both keys, beside the given reads."""
    history = Told(*BASE)
    for name, value, span in (("T1", b"1", Span(10, 20)), ("T2", b"2", Span(11, 19))):
        transaction = history.of(name)
        transaction.writes = [(key, value, Span(8, 9)) for key in (b"a", b"b")]
        history.end([transaction], "committed", span)
    for reader, span, values in reads:
        history.read(Read(reader, COMMITTED, span, values))
    return history


@pytest.mark.parametrize(
    ("reads", "anomaly"),
    [
        ([("R", Span(12, 13), {b"a": b"0", b"b": b"0"})], None),
        ([("R", Span(12, 13), {b"a": b"1", b"b": b"1"})], None),
        ([("R", Span(21, 22), {b"a": b"1"}), ("Q", Span(23, 24), {b"b": b"1"})], None),
        ([("R", Span(21, 22), {b"a": b"1", b"b": b"2"})], Anomaly.DIRTY_WRITE),
        ([("R", Span(12, 13), {b"a": b"1", b"b": b"0"})], Anomaly.FRACTURED_READ),
        (
            [("R", Span(12, 13), {b"a": b"1"}), ("R", Span(14, 15), {b"a": b"0"})],
            Anomaly.BACKWARD_READ,
        ),
        (
            [("R", Span(12, 13), {b"a": b"1"}), ("R", Span(14, 15), {b"b": b"0"})],
            Anomaly.FRACTURED_READ,
        ),
        # Another reader may be behind while the commit is under way, but not after it.
        ([("R", Span(12, 13), {b"a": b"1"}), ("Q", Span(14, 15), {b"a": b"0"})], None),
        ([("Q", Span(21, 22), {b"a": b"0"})], Anomaly.LOST_WRITE),
    ],
)
def test_commits_under_way(
    reads: list[tuple[str, Span, dict[bytes, bytes]]], anomaly: Anomaly | None
) -> None:
    found = overlapping(*reads).forbidden()

    assert (found[0].anomaly if found else None) is anomaly


def test_long_fork() -> None:
    history = Told(*BASE)
    for name, key in (("T1", b"a"), ("T2", b"b")):
        transaction = history.of(name)
        transaction.writes = [(key, b"1", Span(8, 9))]
        history.end([transaction], "committed", Span(10, 20))
    history.read(Read("R", COMMITTED, Span(12, 13), {b"a": b"1", b"b": b"0"}))
    assert history.forbidden() == []
    history.read(Read("Q", COMMITTED, Span(12, 14), {b"a": b"0", b"b": b"1"}))

    assert [each.anomaly for each in history.forbidden()] == [Anomaly.LONG_FORK]


def test_every_anomaly_is_either_permitted_or_not_at_each_level() -> None:
    assert PERMITTED[COMMITTED] == set(LEGAL)
    assert PERMITTED[COMMITTED] < PERMITTED[UNCOMMITTED] < set(Anomaly)


# Against a search of all orders.

KEYS = (b"a", b"b")


class World:
    """A store that is right, whose calls overlap: each takes effect at one moment of its span."""

    def __init__(self, random: Random, *, overlap: bool) -> None:
        self.random = random
        self.overlap = overlap
        self.history = IsolationHistory()
        self.time = 0
        self.content: dict[bytes, bytes | None] = dict.fromkeys(KEYS)
        self.values = itertools.count(1)

    def span(self, free_since: int) -> Span:
        """A span around this moment, which begins no earlier than its thread was free."""
        self.time = max(self.time, free_since + 1) + 10
        wide = 40 if self.overlap else 1
        start = max(self.time - self.random.randrange(wide), free_since + 1)
        return Span(start, self.time + self.random.randrange(wide))

    def run(self, steps: int) -> IsolationHistory:
        """Three threads: two with transactions one after another, and a reader."""
        threads = [[0, None], [0, None]]
        reader_free = 0
        for _ in range(steps):
            choice = self.random.randrange(3)
            if choice == 2:
                span = self.span(reader_free)
                reader_free = span.returned
                self.read("R", span, None)
            else:
                threads[choice] = self.advance(choice, *threads[choice])
        return self.history

    def advance(
        self, number: int, free: int, transaction: ObservedTransaction | None
    ) -> list[int | ObservedTransaction | None]:
        """The next step of a thread."""
        span = self.span(free)
        if transaction is None:
            transaction = ObservedTransaction(f"T{number}-{self.time}", span)
            self.history.transactions.append(transaction)
            return [span.returned, transaction]
        action = self.random.choice(["write", "write", "read", "commit", "commit", "end"])
        if action == "write":
            key, value = self.random.choice(KEYS), b"%d" % next(self.values)
            transaction.writes.append((key, value, span))
        elif action == "read":
            self.read(transaction.name, span, transaction)
        else:
            if action == "commit":
                self.content.update({key: value for key, value, _ in transaction.writes})
            self.history.end(
                [transaction], "committed" if action == "commit" else "rolled back", span
            )
            return [span.returned, None]
        return [span.returned, transaction]

    def read(self, reader: str, span: Span, inside: ObservedTransaction | None) -> None:
        """One or all keys, as they are at this moment, with the reader's own writes."""
        own = {key: value for key, value, _ in inside.writes} if inside else {}
        keys = KEYS if self.random.random() < 0.5 else [self.random.choice(KEYS)]
        values = {key: own.get(key, self.content[key]) for key in keys}
        self.history.read(Read(reader, COMMITTED, span, values, inside))


@pytest.mark.parametrize("overlap", [False, True], ids=["apart", "overlapping"])
def test_a_store_that_is_right_is_never_accused(overlap: bool) -> None:
    for seed in range(1500):
        history = World(Random(seed), overlap=overlap).run(14)
        assert history.forbidden() == [], seed


def explained(history: IsolationHistory) -> bool:
    """Whether some order of the moments of commits explains every read; all orders are tried."""
    commits = [each for each in history.transactions if each.outcome == "committed"]
    by_reader: dict[str, list[Read]] = {}
    for read in sorted(history.reads, key=lambda read: read.span):
        by_reader.setdefault(read.reader, []).append(read)
    return any(all(fits(order, reads) for reads in by_reader.values()) for order in orders(commits))


def orders(commits: list[ObservedTransaction]) -> Iterator[tuple[ObservedTransaction, ...]]:
    """The orders of commits in which none comes before one that had returned by then."""
    for order in itertools.permutations(commits):
        if not any(
            later.end.before(earlier.end) for earlier, later in itertools.combinations(order, 2)
        ):
            yield order


def fits(order: tuple[ObservedTransaction, ...], reads: Iterable[Read]) -> bool:
    """Whether a reader saw states in this order, each at a time at which it may have."""
    at_least = 0
    for read in reads:
        possible = [
            count
            for count in range(at_least, len(order) + 1)
            if not any(each.end.before(read.since) for each in order[count:])
            and not any(each.end.invoked > read.span.returned for each in order[:count])
            and read.values == state(order[:count], read)
        ]
        if not possible:
            return False
        at_least = possible[0]
    return True


def state(order: Iterable[ObservedTransaction], read: Read) -> dict[bytes, bytes | None]:
    """What a reader finds after these commits."""
    content: dict[bytes, bytes] = functools.reduce(
        lambda content, each: content | {key: value for key, value, _ in each.writes}, order, {}
    )
    if read.inside:
        content |= {k: value for k, value, span in read.inside.writes if span.before(read.span)}
    return {key: content.get(key) for key in read.values}


def spoiled(history: IsolationHistory, random: Random) -> IsolationHistory:
    """The same history with one value of one read replaced by another value of that key."""
    number = random.randrange(len(history.reads))
    read = history.reads[number]
    key = random.choice(list(read.values))
    values = {value for each in history.transactions for its, value, _ in each.writes if its == key}
    value = random.choice([None, *sorted(values)])
    history.reads[number] = Read(
        read.reader, read.level, read.span, {**read.values, key: value}, read.inside
    )
    return history


@pytest.mark.parametrize("overlap", [False, True], ids=["apart", "overlapping"])
def test_the_judge_agrees_with_a_search_of_all_orders(overlap: bool) -> None:
    """What has an explanation is never accused; on one thread, what has none always is."""
    verdicts = []
    for seed in range(1500):
        random = Random(seed)
        history = World(random, overlap=overlap).run(14)
        if not history.reads or sum(t.outcome == "committed" for t in history.transactions) > 5:
            continue
        spoiled(history, random)
        right = explained(history)
        accused = bool(history.forbidden())
        if not overlap:
            assert accused is not right, seed
        elif right:
            assert not accused, seed
        verdicts.append((right, accused))

    assert len(verdicts) > 1000
    wrong = [accused for right, accused in verdicts if not right]
    assert len(wrong) > 300
    assert sum(wrong) > 0.9 * len(wrong)
