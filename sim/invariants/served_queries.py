"""Answers to interactive queries, beside an independent fold: what their invariants share.

The fold (:mod:`~streamproof.sim.invariants.store_copies`) and the logs say what a copy has and what
is committed. The isolation level that counts is the one that the query asked for, or the default
that follows from the configuration, and not the one that the runtime reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.invariants.store_copies import Copy
from streamproof.sim.network import REQUEST_TIMEOUT_MS
from streamproof.sim.trace import Event

__all__ = ["COMMITTED", "DISTURBANCES", "Queries", "Served", "Undisturbed"]

COMMITTED, UNCOMMITTED = "READ_COMMITTED", "READ_UNCOMMITTED"

Rows = dict[bytes, bytes]

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
    "group.targeted",
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


class Queries(Invariant):
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


class Undisturbed(Queries):
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
