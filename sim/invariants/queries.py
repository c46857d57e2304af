"""Interactive queries against an independent fold: what they show, as of when, and from which copy.

The fold (:mod:`~streamproof.sim.invariants.store_copies`) and the logs say what a copy has and what
is committed. The isolation level that counts is the one that the query asked for, or the default
that follows from the configuration, and not the one that the runtime reports.

Sources: KIP-892, Interactive Queries; KIP-535; KIP-796.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory, LogRecord
from streamproof.sim.invariants.store_copies import ABSENT, Copy
from streamproof.sim.network import REQUEST_TIMEOUT_MS
from streamproof.sim.trace import Event

__all__ = ["QUERY_INVARIANTS"]

COMMITTED, UNCOMMITTED = "READ_COMMITTED", "READ_UNCOMMITTED"

Rows = dict[bytes, bytes]
Span = tuple[int, int]
"""A part of a log: from an offset up to another one, both included."""

FAR = 1 << 62
"""An offset after all others."""


class Served(NamedTuple):
    """A query that was answered.

    Attributes:
        event: the event of the read.
        asked: the attributes of ``query.asked``.
        copy: the copy that answered.
        committed: whether the answer must not show staged writes.
        rows: the rows of the answer.
    """

    event: Event
    asked: Mapping[str, Any]
    copy: Copy
    committed: bool
    rows: Rows

    def has(self, key: bytes) -> bool:
        """Whether a key is one that the query asks for."""
        first, last = self.asked["from_key"], self.asked["to_key"]
        return (first is None or key >= first) and (last is None or key <= last)

    def __str__(self) -> str:
        number, where = self.event.attributes["query"], self.event.actor
        return f"query {number} of {self.event.partition} in {where}"


class _Queries(Invariant):
    """An invariant of answers to queries."""

    drawn_from: ClassVar[Mapping[str, Any]] = {"plan": {"query_clients": [2]}}

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By number, the attributes of a query.
        self._asked: dict[int, Mapping[str, Any]] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {"query.asked": self._ask, "query.served": self._serve}

    @property
    def _is_strict(self) -> bool:
        """Whether the runtime promises that aborted writes are never seen."""
        return self.history.exactly_once

    def _ask(self, event: Event) -> Iterable[str]:
        self._asked[event.attributes["query"]] = event.attributes
        return ()

    def _default_level(self) -> str:
        default = str(self.history.copies.settings["default_query_isolation"])
        if default:
            return default
        return COMMITTED if self.history.exactly_once and self._is_as_proposed else UNCOMMITTED

    @property
    def _is_as_proposed(self) -> bool:
        """Whether the default isolation level is that of the context."""
        settings = self.history.copies.settings
        return not settings["default_query_isolation"] and settings["store_rules"] == "proposal"

    def _level(self, asked: Mapping[str, Any]) -> str:
        """The isolation level that a query is promised."""
        return str(asked["isolation"]) or self._default_level()

    def _serve(self, event: Event) -> Iterable[str]:
        asked = self._asked.get(event.attributes["query"])
        copy = self.history.copies.of(event.process, event.partition)
        if asked is None or copy is None:
            return ()
        committed = self._level(asked) == COMMITTED
        return self._judge(Served(event, asked, copy, committed, dict(event.attributes["rows"])))

    def _judge(self, served: Served) -> Iterable[str]:
        """The breaches of one answer."""
        raise NotImplementedError

    def _behind(self, served: Served, least: Mapping[str, int], told: str) -> Iterator[str]:
        """The partitions of which the position of an answer is behind ``least``, and why."""
        position = served.event.attributes["position"]
        for partition, offset in least.items():
            self.tried = True
            if position.get(partition, -1) < offset:
                reached = position.get(partition, -1)
                yield f"{served} has the position {reached} of {partition}{told} {offset}"


# What an answer shows.


def _spans(records: list[LogRecord], value: bytes | None, clean: int) -> list[Span]:
    """The parts of a log after whose records a key has a value.

    Args:
        records: the records of the key.
        value: the value.
        clean: the offset before which a compaction may have removed all but the last record.
    """
    found: list[Span] = []
    before, start = None, -1
    for number, record in enumerate(records):
        if before == value:
            found.append((start, _end_of(records, number, clean)))
        before, start = record.value, record.offset
    if before == value:
        found.append((start, FAR))
    return found


def _end_of(records: list[LogRecord], number: int, clean: int) -> int:
    """The last offset at which a key may still have the value from before a record."""
    while number + 1 < len(records) and records[number + 1].offset < clean:
        number += 1
    return records[number].offset - 1


def _common(one: list[Span], other: list[Span]) -> list[Span]:
    """The offsets that are in both."""
    both = ((max(a, c), min(b, d)) for a, b in one for c, d in other)
    return [(first, last) for first, last in both if first <= last]


class _Prefixes(_Queries):
    """Compares answers with the changelog: there must be an offset up to which it says the same."""

    def _is_prefix(self, served: Served) -> bool:
        partition = served.event.partition
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


class _Contents(_Queries):
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


class RangeIsWhole(_Queries):
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

DISTURBANCES = (
    "coordinator.away",
    "coordinator.back",
    "disk.emptied",
    "disk.filled",
    "disk.full",
    "group.assigned",
    "group.left_out",
    "group.member_left_out",
    "group.probed",
    "instance.crashed",
    "instance.paused",
    "instance.resumed",
    "instance.started",
    "instance.stood_still",
    "instance.stopped",
    "instance.went_on",
    "network.connected",
    "network.cut",
    "network.reply_lost",
    "network.request_lost",
    "task.corrupted",
    "task.state",
    "thread.assigned",
    "thread.died",
    "thread.lost",
    "thread.timed_out",
    "world.healed",
)
"""The events after which commits may be late, or tasks may move."""


class _Undisturbed(_Queries):
    """Demands something of an application that nothing has disturbed for a while."""

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._disturbed = 0

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {**super().observers, **dict.fromkeys(DISTURBANCES, self._disturb)}

    def _disturb(self, event: Event) -> Iterable[str]:
        # Whoever has lost a request waits that long for the reply.
        wait_ms = REQUEST_TIMEOUT_MS if event.kind.startswith("network.re") else 0
        self._disturbed = max(event.time + wait_ms, self._disturbed)
        return ()


class VisibleWithinTheInterval(_Undisturbed):
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


class _Level(_Queries):
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


class BoundIsKept(_Queries):
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


class PositionIsNotAheadOfTheAnswer(_Queries):
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


class PositionCoversTheAnswer(_Queries):
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


class PositionsDoNotGoBack(_Queries):
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


class SessionsDoNotGoBack(_Queries):
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


# Routes.


class OnlyTheActiveCopyAnswers(_Queries):
    """Only a running active task answers, unless the query allows stale reads (KIP-535)."""

    name = "only a running active task answers, unless the query allows stale reads"
    requirement = "QUERY-113"
    situation = "a query of the active task came to a copy that does not run"

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {**super().observers, "query.refused": self._refused}

    def _refused(self, event: Event) -> Iterable[str]:
        self.tried |= event.attributes["reason"] == "NOT_ACTIVE"
        return ()

    def _judge(self, served: Served) -> Iterator[str]:
        if served.asked["requires_active"] and not self.history.copies.runs(served.copy):
            yield f"{served} asks for the active task, and is answered by a copy that does not run"


class RefusalsAreTrue(_Queries):
    """A copy refuses a query only for a reason that holds (KIP-796; Kafka, FailureReason)."""

    name = "a query is refused only for a reason that holds"
    requirement = "QUERY-116"
    situation = "a process refused a query"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By number of a query and process, the sequence number of its arrival or before.
        self._sent: dict[int, int] = {}
        # By process and changelog, the event at which a copy was opened or closed last.
        self._moved: dict[tuple[str, str], int] = {}
        # By process and task, the event at which a full disk refused a write of the closing task.
        # Its stores may be closed then, and the task only after another try.
        self._failed: dict[tuple[str, str], int] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "disk.full": self._fail,
            "query.asked": self._ask,
            "query.sent": self._send,
            "query.refused": self._refused,
            "store.found": self._move,
            "task.closed": self._close,
        }

    def _send(self, event: Event) -> Iterable[str]:
        self._sent[event.attributes["query"]] = event.sequence
        return ()

    def _move(self, event: Event) -> Iterable[str]:
        self._moved[event.process, event.partition] = event.sequence
        self._failed.pop((event.process, event.task), None)
        return ()

    def _close(self, event: Event) -> Iterable[str]:
        self._moved[event.process, event.task] = event.sequence
        self._failed.pop((event.process, event.task), None)
        return ()

    def _fail(self, event: Event) -> Iterable[str]:
        for task in self.history.copies.suspended(event.process):
            self._failed[event.process, task] = event.sequence
        return ()

    def _refused(self, event: Event) -> Iterator[str]:
        asked = self._asked.get(event.attributes["query"])
        if asked is None:
            return
        self.tried = True
        copy = self.history.copies.of(event.process, event.partition)
        reason = event.attributes["reason"]
        if not self._holds(reason, event, asked, copy):
            yield f"{event.process} refuses a query of {event.partition}: {reason}, but has it"

    def _holds(
        self, reason: str, event: Event, asked: Mapping[str, Any], copy: Copy | None
    ) -> bool:
        since = self._sent.get(event.attributes["query"], 0)
        opened = self._moved.get((event.process, event.partition), -1)
        closed = self._moved.get((event.process, event.task), -1)
        failed = self._failed.get((event.process, event.task), -1)
        match reason:
            case "NOT_PRESENT":
                return copy is None or opened > since or failed >= 0
            case "STORE_MIGRATED":
                return copy is None or max(closed, failed) > since
            case "NOT_ACTIVE":
                is_stale = copy is not None and not self.history.copies.runs(copy)
                return bool(asked["requires_active"]) and is_stale
            case "NOT_UP_TO_BOUND":
                return bool(asked["bound"]) and self._is_behind(asked, copy)
        return reason == "UNKNOWN_QUERY_TYPE"

    def _is_behind(self, asked: Mapping[str, Any], copy: Copy | None) -> bool:
        if copy is None or self.history.copies.caches:
            return True
        position = copy.reflects(committed=self._level(asked) == COMMITTED)
        return any(position.get(each, -1) < offset for each, offset in asked["bound"].items())


class QueriesGoWhereTheyMay(_Queries):
    """A client asks only processes that the group has given the task (KIP-535)."""

    name = "a query goes to the active copy, or to a standby with leave"
    requirement = "QUERY-118"
    situation = "a query of the active copy was sent while the group had standbys"
    drawn_from: ClassVar[Mapping[str, Any]] = {
        "plan": {"query_clients": [2], "instances": [2, 3]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By task, the processes that were ever to have it, as active task and at all.
        self._active: dict[str, set[str]] = {}
        self._any: dict[str, set[str]] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "query.asked": self._ask,
            "query.sent": self._send,
            "group.assigned": self._assigned,
        }

    def _assigned(self, event: Event) -> Iterable[str]:
        for member in event.attributes["members"].values():
            for task in member["active"]:
                self._active.setdefault(task, set()).add(member["process"])
            for task in (*member["active"], *member["standby"]):
                self._any.setdefault(task, set()).add(member["process"])
        return ()

    def _send(self, event: Event) -> Iterator[str]:
        asked = self._asked.get(event.attributes["query"])
        process = event.attributes["process"]
        if asked is None:
            return
        active, every = self._active.get(event.task, set()), self._any.get(event.task, set())
        self.tried |= bool(asked["requires_active"] and every - active)
        if process not in (active if asked["requires_active"] else every):
            yield f"{event.actor} asks {process} for {event.partition}, which never was to have it"


PATIENCE_MS = 15_000
"""How long a client may try in vain while the task runs undisturbed."""


class QueriesAreAnswered(_Undisturbed):
    """Once faults have stopped, a query that is tried again is answered (KIP-535)."""

    name = "once faults have stopped, every query is answered"
    requirement = "QUERY-119"
    situation = "a query was answered after faults had stopped"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._is_healed = False
        # By client, since when it waits for an answer.
        self._since: dict[str, int] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            **dict.fromkeys(DISTURBANCES, self._disturb),
            "query.asked": self._wait,
            "query.sent": self._send,
            "query.answered": self._answered,
        }

    def _disturb(self, event: Event) -> Iterable[str]:
        self._is_healed |= event.kind == "world.healed"
        return super()._disturb(event)

    def _wait(self, event: Event) -> Iterable[str]:
        self._since.setdefault(event.actor, event.time)
        return ()

    def _answered(self, event: Event) -> Iterable[str]:
        self.tried |= self._is_healed
        self._since.pop(event.actor, None)
        return ()

    def _send(self, event: Event) -> Iterator[str]:
        since = max(self._since.get(event.actor, event.time), self._disturbed)
        is_late = event.time - since > PATIENCE_MS and self._is_healed
        if is_late and self.history.copies.running(event.task):
            yield f"{event.actor} has asked in vain for {event.partition} since {since} ms"


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
