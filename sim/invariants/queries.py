"""Interactive queries against an independent fold: what they show, as of when, and how far.

Sources: KIP-892, Interactive Queries; KIP-535; KIP-796.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory, LogRecord
from streamproof.sim.invariants.query_routes import (
    OnlyTheActiveCopyAnswers,
    QueriesAreAnswered,
    QueriesGoWhereTheyMay,
    RefusalsAreTrue,
)
from streamproof.sim.invariants.served_queries import Queries, Served, Undisturbed
from streamproof.sim.invariants.store_copies import ABSENT
from streamproof.sim.trace import Event

__all__ = ["QUERY_INVARIANTS"]

Span = tuple[int, int]
"""A part of a log: from an offset up to another one, both included."""

FAR = 1 << 62
"""An offset after all others."""


# What an answer shows.


def _spans(records: list[LogRecord], value: bytes | None, clean: int) -> list[Span]:
    """The parts of a log after whose records a key has a value.

    Args:
        records: the records of the key.
        value: the value.
        clean: the offset before which a compaction may have removed all but the last record.

    Returns:
        the parts in their order; no two have an offset in common.
    """
    found: list[Span] = []
    before, start = None, -1
    for number, record in enumerate(records):
        if before == value:
            _add(found, start, _end_of(records, number, clean))
        before, start = record.value, record.offset
    if before == value:
        _add(found, start, FAR)
    return found


def _add(spans: list[Span], first: int, last: int) -> None:
    """Add a part that begins no earlier than the others, as one with the last if they overlap.

    Parts that overlap would become more with each key that they are compared with, until no memory
    has room for them.
    """
    if spans and first <= spans[-1][1]:
        begin, end = spans.pop()
        first, last = begin, max(end, last)
    spans.append((first, last))


def _end_of(records: list[LogRecord], number: int, clean: int) -> int:
    """The last offset at which a key may still have the value from before a record."""
    while number + 1 < len(records) and records[number + 1].offset < clean:
        number += 1
    return records[number].offset - 1


def _common(one: list[Span], other: list[Span]) -> list[Span]:
    """The offsets that are in both."""
    both = ((max(a, c), min(b, d)) for a, b in one for c, d in other)
    return [(first, last) for first, last in both if first <= last]


class _Prefixes(Queries):
    """Compares answers with the changelog: there must be an offset up to which it says the same."""

    def _is_prefix(self, served: Served) -> bool:
        partition = served.event.partition
        if self.history.forgotten.lacks_any(partition):
            # The copy may lack a row, or have one too many, for good.
            return True
        by_key: dict[bytes, list[LogRecord]] = {key: [] for key in served.rows}
        for record in self.history.visible(partition):
            if served.has(record.key):
                by_key.setdefault(record.key, []).append(record)
        clean = self.history.compacted.get(partition, 0)
        spans: list[Span] = [(-1, FAR)]
        for key, records in by_key.items():
            spans = _common(spans, _spans(records, served.rows.get(key), clean))
        return bool(spans)


class NothingUncommittedIsShown(_Prefixes):
    """Under exactly-once, an answer has only what the brokers have committed (KIP-892)."""

    name = "under exactly-once, a query never shows an uncommitted record"
    requirement = "QUERY-101"
    situation = "a committed read came to a store with staged writes"

    @property
    def observers(self) -> Mapping[str, Observer]:
        return super().observers if self._is_strict else {}

    def _judge(self, served: Served) -> Iterator[str]:
        copies = self.history.copies
        if not (copies.stages and served.committed) or served.copy.is_mixed:
            return
        self.tried |= any(served.has(key) for key in served.copy.staged)
        if not self._is_prefix(served):
            yield f"{served} shows {served.rows}, which no committed part of the changelog says"


class StandbyShowsAPrefix(_Prefixes):
    """A copy that never ran has a prefix of its changelog, and never a mixture (KIP-535)."""

    name = "a standby shows a prefix of its changelog to queries"
    requirement = "QUERY-114"
    situation = "a standby with records answered a query"
    drawn_from: ClassVar[Mapping[str, Any]] = {
        "plan": {"query_clients": [2], "instances": [2, 3]},
        "settings": {"flush_probability": [0.0]},
    }

    def _judge(self, served: Served) -> Iterator[str]:
        if served.copy.has_run:
            return
        self.tried |= bool(served.rows)
        if wrong := _wrong(served, committed=True):
            yield f"{served} shows {wrong}, which is not what the copy was restored to"
        elif self._is_strict and not served.copy.is_mixed and not self._is_prefix(served):
            yield f"{served} shows {served.rows}, which no prefix of the changelog says"


def _wrong(served: Served, *, committed: bool) -> str:
    """The first entry of an answer that is not what the copy has; empty if there is none."""
    possible = served.copy.shows(committed=committed)
    for key in sorted(served.rows.keys() | possible.keys()):
        if served.has(key) and served.rows.get(key) not in possible.get(key, ABSENT):
            wanted = " or ".join(sorted(map(repr, possible.get(key, ABSENT))))
            return f"{key!r} = {served.rows.get(key)!r}, not {wanted}"
    return ""


class _Contents(Queries):
    """An answer of a running copy shows all that the copy has, at the level of the query."""

    committed: ClassVar[bool]

    def _judge(self, served: Served) -> Iterator[str]:
        copies = self.history.copies
        is_visible = served.committed or not copies.caches
        if served.committed is not self.committed or not is_visible or not self._counts(served):
            return
        if copies.runs(served.copy):
            self.tried |= self._is_telling(served)
            if wrong := _wrong(served, committed=self.committed):
                yield f"{served} at {self._level(served.asked)} shows {wrong}"

    def _counts(self, served: Served) -> bool:
        """Whether the requirement is about this answer."""
        return True

    def _is_telling(self, served: Served) -> bool:
        """Whether the answer would differ if the promise were broken."""
        return bool(served.rows)


class AnswerIsTheStoreBeneath(_Contents):
    """A committed read shows all that the store has committed, and nothing that is staged."""

    name = "a committed read shows what the store beneath has, past the open transaction"
    requirement = "QUERY-102"
    situation = "a committed read of a running task showed rows"
    committed = True


class ShownAtOnce(_Contents):
    """Under at-least-once a query shows each write at once (KIP-892)."""

    name = "under at-least-once, a query shows each record at once"
    requirement = "QUERY-104"
    situation = "a query came between a write and the next commit under at-least-once"
    committed = False

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By process, the stores that were written since the last commit of the thread.
        self._written: dict[str, set[str]] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        if self._is_strict:
            return {}
        return {
            **super().observers,
            "store.put": self._put,
            "thread.committed": self._commit,
        }

    def _put(self, event: Event) -> Iterable[str]:
        self._written.setdefault(event.actor, set()).add(event.partition)
        return ()

    def _commit(self, event: Event) -> Iterable[str]:
        self._written.pop(event.actor, None)
        return ()

    def _is_telling(self, served: Served) -> bool:
        return served.event.partition in self._written.get(served.event.actor, ())


class UncommittedReadShowsStaged(_Contents):
    """As shipped, READ_UNCOMMITTED shows staged writes under exactly-once, too (Kafka 4.4)."""

    name = "as shipped, an uncommitted read shows what is staged"
    requirement = "QUERY-105"
    situation = "an uncommitted read came to a store with staged writes"
    committed = False

    @property
    def observers(self) -> Mapping[str, Observer]:
        return super().observers if self._is_strict else {}

    def _is_telling(self, served: Served) -> bool:
        return any(served.has(key) for key in served.copy.staged)


class RangeIsWhole(Queries):
    """A range is ascending, and has every entry between its bounds once, and no other."""

    name = "a range has the entries between its bounds, in order and once each"
    requirement = "QUERY-115"
    situation = "a range of several entries was queried"

    def _judge(self, served: Served) -> Iterator[str]:
        keys = [key for key, _ in served.event.attributes["rows"]]
        self.tried |= len(keys) > 1
        if keys != sorted(set(keys)):
            yield f"{served} shows {keys}, which are not in order, or not once each"
        if outside := [key for key in keys if not served.has(key)]:
            yield f"{served} shows {outside}, which the query did not ask for"
        copies = self.history.copies
        if copies.runs(served.copy) and (served.committed or not copies.caches):
            possible = served.copy.shows(committed=served.committed)
            missing = {key for key, values in possible.items() if None not in values} - set(keys)
            if left_out := sorted(key for key in missing if served.has(key)):
                yield f"{served} leaves out {left_out}"


# When a record becomes visible.

SLACK_MS = 20_000
"""How much longer than the commit interval a commit may take: longer than slow messages, slow disks
and delayed markers together."""


class VisibleWithinTheInterval(Undisturbed):
    """Under exactly-once a record is visible at the latest after the commit interval (KIP-892)."""

    name = "under exactly-once, a record becomes visible within the commit interval"
    requirement = "QUERY-103"
    situation = "a store was queried in which writes had become visible while the task ran"
    drawn_from: ClassVar[Mapping[str, Any]] = {
        "plan": {"query_clients": [2]},
        "settings": {"transactional": [True]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # The copies that have committed writes while their task ran, by process and changelog.
        self._published: set[tuple[str, str]] = set()

    @property
    def observers(self) -> Mapping[str, Observer]:
        if not self._is_strict:
            return {}
        return {
            **super().observers,
            "store.committed": self._commit,
        }

    def _commit(self, event: Event) -> Iterable[str]:
        self._published.add((event.process, event.partition))
        return ()

    def _judge(self, served: Served) -> Iterator[str]:
        copies, event = self.history.copies, served.event
        if not (copies.stages and served.committed and copies.runs(served.copy)):
            return
        self.tried |= (event.process, event.partition) in self._published and bool(served.rows)
        since = served.copy.staged_since
        waited = event.time - max(since, self._disturbed)
        interval = copies.settings["commit_interval_ms"]
        if since >= 0 and waited > interval + SLACK_MS:
            yield (
                f"{served} does not show writes from {event.time - since} ms ago, although "
                f"commit.interval.ms is {interval}"
            )


# The isolation level.


class _Level(Queries):
    """The level of an answer is the one that was promised."""

    def _judge(self, served: Served) -> Iterator[str]:
        if not self._counts(served.asked):
            return
        self.tried = True
        level, wanted = served.event.attributes["isolation"], self._level(served.asked)
        if level != wanted:
            yield f"{served} was read at {level}, not at {wanted}"

    def _counts(self, asked: Mapping[str, Any]) -> bool:
        raise NotImplementedError


class DefaultFollowsTheGuarantee(_Level):
    """Without a level of its own, a query is read at the level of the context (KIP-892)."""

    name = "the default isolation level of queries follows from the guarantee"
    requirement = "QUERY-106"
    situation = "a query without a level was answered as proposed"
    drawn_from: ClassVar[Mapping[str, Any]] = {
        "plan": {"query_clients": [2]},
        "settings": {"default_query_isolation": [""]},
    }

    def _counts(self, asked: Mapping[str, Any]) -> bool:
        return not asked["isolation"] and self._is_as_proposed


class DefaultIsConfigured(_Level):
    """As shipped, the default is ``default.interactive.query.isolation.level`` (Kafka 4.4)."""

    name = "as shipped, the default isolation level of queries is the configured one"
    requirement = "QUERY-107"
    situation = "a query without a level was answered as shipped"
    drawn_from: ClassVar[Mapping[str, Any]] = {
        "plan": {"query_clients": [2]},
        "settings": {"default_query_isolation": ["READ_COMMITTED", "READ_UNCOMMITTED"]},
    }

    def _counts(self, asked: Mapping[str, Any]) -> bool:
        return not asked["isolation"] and not self._is_as_proposed


class OwnLevelCounts(_Level):
    """A query is read at the level that it asks for (Kafka, StateQueryRequest)."""

    name = "a query is read at the isolation level that it asks for"
    requirement = "QUERY-108"
    situation = "a query with a level was answered"

    def _counts(self, asked: Mapping[str, Any]) -> bool:
        return bool(asked["isolation"])


# Positions and bounds.


class BoundIsKept(Queries):
    """An answer under a position bound is never older than the bound (KIP-796)."""

    name = "an answer under a position bound is never older than the bound"
    requirement = "QUERY-109"
    situation = "a query with a bound was answered"

    def _judge(self, served: Served) -> Iterator[str]:
        bound, copies = served.asked["bound"], self.history.copies
        if not bound:
            return
        self.tried = True
        kind = served.copy.at_most if copies.caches else served.copy.reflects
        reflected = kind(committed=served.committed)
        for partition, offset in bound.items():
            if reflected.get(partition, -1) < offset:
                yield (
                    f"{served} reflects {partition} up to {reflected.get(partition, -1)}, and the "
                    f"bound is {offset}"
                )


class PositionIsNotAheadOfTheAnswer(Queries):
    """The position of an answer covers no input whose writes the answer does not show (KIP-796)."""

    name = "the position of an answer is not ahead of what it shows"
    requirement = "QUERY-110"
    situation = "an answer of a running task had a position"

    def _judge(self, served: Served) -> Iterator[str]:
        copies = self.history.copies
        kind = served.copy.at_most if copies.caches else served.copy.reflects
        most = kind(committed=served.committed)
        for partition, offset in served.event.attributes["position"].items():
            self.tried |= copies.runs(served.copy)
            if offset > most.get(partition, -1):
                yield (
                    f"{served} has the position {offset} of {partition}, but shows the writes up "
                    f"to {most.get(partition, -1)}"
                )


class PositionCoversTheAnswer(Queries):
    """The position of an answer covers every input whose writes the answer shows (KIP-796)."""

    name = "the position of an answer covers what it shows"
    requirement = "QUERY-111"
    situation = "an answer of a running task showed rows and the record cache was off"

    def _judge(self, served: Served) -> Iterator[str]:
        copies = self.history.copies
        if copies.caches or not copies.runs(served.copy):
            return
        least = served.copy.reflects(committed=served.committed)
        yield from self._behind(served, least, ", but shows the writes of")


class PositionsDoNotGoBack(Queries):
    """As long as a copy is open, its position grows, at each level (KIP-796)."""

    name = "the positions of one copy do not go back"
    requirement = "QUERY-112"
    situation = "a copy with a position answered twice"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By process, changelog and level, the last position.
        self._last: dict[tuple[str, str, bool], Mapping[str, int]] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {**super().observers, "store.found": self._found}

    def _found(self, event: Event) -> Iterable[str]:
        for level in (True, False):
            self._last.pop((event.process, event.partition, level), None)
        return ()

    def _judge(self, served: Served) -> Iterator[str]:
        place = served.event.process, served.event.partition, served.committed
        position, before = served.event.attributes["position"], self._last.get(place, {})
        self._last[place] = position
        yield from self._behind(served, before, " after")


class SessionsDoNotGoBack(Queries):
    """A session that passes on what it has seen as its bound never sees less (KIP-796)."""

    name = "an answer under a session's bound is not older than the session's answers before"
    requirement = "QUERY-117"
    situation = "a session had a second answer under its bound"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By client, the largest position of its answers.
        self._seen: dict[str, dict[str, int]] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {"query.asked": self._ask, "query.answered": self._answered}

    def _answered(self, event: Event) -> Iterator[str]:
        asked = self._asked.get(event.attributes["query"], {"bound": {}})
        seen = self._seen.setdefault(event.actor, {})
        position = event.attributes["position"]
        for partition in asked["bound"]:
            self.tried = True
            if position.get(partition, -1) < seen.get(partition, -1):
                yield (
                    f"{event.actor} has an answer with the position {position.get(partition, -1)} "
                    f"of {partition}, after one with {seen[partition]}"
                )
        for partition, offset in position.items():
            seen[partition] = max(offset, seen.get(partition, -1))


QUERY_INVARIANTS: tuple[type[Invariant], ...] = (
    NothingUncommittedIsShown,
    AnswerIsTheStoreBeneath,
    VisibleWithinTheInterval,
    ShownAtOnce,
    UncommittedReadShowsStaged,
    DefaultFollowsTheGuarantee,
    DefaultIsConfigured,
    OwnLevelCounts,
    BoundIsKept,
    PositionIsNotAheadOfTheAnswer,
    PositionCoversTheAnswer,
    PositionsDoNotGoBack,
    OnlyTheActiveCopyAnswers,
    StandbyShowsAPrefix,
    RangeIsWhole,
    RefusalsAreTrue,
    SessionsDoNotGoBack,
    QueriesGoWhereTheyMay,
    QueriesAreAnswered,
)
"""All of them, in the order of their requirements."""
