"""Interactive queries and the instances that they go to: which may answer, and which may refuse.

Sources: KIP-535; KIP-796.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from streamproof.sim.decisions.query_refusals import UNKNOWN_QUERY_TYPE
from streamproof.sim.invariants.invariant import Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.invariants.served_queries import (
    COMMITTED,
    DISTURBANCES,
    Queries,
    Served,
    Undisturbed,
)
from streamproof.sim.invariants.store_copies import Copy
from streamproof.sim.trace import Event

__all__ = [
    "OnlyTheActiveCopyAnswers",
    "QueriesAreAnswered",
    "QueriesGoWhereTheyMay",
    "RefusalsAreTrue",
]


class OnlyTheActiveCopyAnswers(Queries):
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


class RefusalsAreTrue(Queries):
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
        return reason == UNKNOWN_QUERY_TYPE

    def _is_behind(self, asked: Mapping[str, Any], copy: Copy | None) -> bool:
        if copy is None or self.history.copies.caches:
            return True
        position = copy.reflects(committed=self._level(asked) == COMMITTED)
        return any(position.get(each, -1) < offset for each, offset in asked["bound"].items())


class QueriesGoWhereTheyMay(Queries):
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
            "group.targeted": self._assigned,
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


class QueriesAreAnswered(Undisturbed):
    """Once faults have stopped, a query that is tried again is answered (KIP-535).

    A store that does not know such queries says so, and nobody asks again (Kafka, FailureReason).
    """

    name = "once faults have stopped, every query is answered"
    requirement = "QUERY-119"
    situation = "a query was answered after faults had stopped"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._is_healed = False
        # By client, since when it waits for an answer.
        self._since: dict[str, int] = {}
        # By number of a query, the client that asks it.
        self._clients: dict[int, str] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            **dict.fromkeys(DISTURBANCES, self._disturb),
            "query.asked": self._wait,
            "query.sent": self._send,
            "query.answered": self._answered,
            "query.refused": self._refused,
        }

    def _disturb(self, event: Event) -> Iterable[str]:
        self._is_healed |= event.kind == "world.healed"
        return super()._disturb(event)

    def _wait(self, event: Event) -> Iterable[str]:
        self._since.setdefault(event.actor, event.time)
        self._clients[event.attributes["query"]] = event.actor
        return ()

    def _answered(self, event: Event) -> Iterable[str]:
        self.tried |= self._is_healed
        self._since.pop(event.actor, None)
        return ()

    def _refused(self, event: Event) -> Iterable[str]:
        if event.attributes["reason"] == UNKNOWN_QUERY_TYPE:
            self._since.pop(self._clients.get(event.attributes["query"], ""), None)
        return ()

    def _send(self, event: Event) -> Iterator[str]:
        since = max(self._since.get(event.actor, event.time), self._disturbed)
        is_late = event.time - since > PATIENCE_MS and self._is_healed
        if is_late and self.history.copies.running(event.task):
            yield f"{event.actor} has asked in vain for {event.partition} since {since} ms"
