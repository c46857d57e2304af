"""Interactive queries at an instance: which copy answers, what the copy shows, and refusals.

A query reads the store beneath, and never through the transaction that the task has open. Between
the moment at which an instance finds a copy and the moment at which it reads, the copy may commit,
change its role, or close.

Sources: KIP-892, Interactive Queries; KIP-535 for standbys; KIP-796 for positions, bounds and
refusals; Kafka, KafkaStreams#query, StoreQueryUtils and FailureReason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from simpy.events import Event

from streamproof.sim.actor_hosts import Host, Steps
from streamproof.sim.application import Application
from streamproof.sim.decisions.query_refusals import UNKNOWN_QUERY_TYPE, QueryRefusal
from streamproof.sim.instances import Instance
from streamproof.sim.stream_thread import StreamThread
from streamproof.sim.tasks.store_holder import StoreHolder, position_of
from streamproof.sim.tasks.stream_task import StreamTask, TaskState
from streamproof.stores.api import IsolationLevel, ReadOnlyKeyValueStore

Rows = list[tuple[bytes, bytes]]

__all__ = ["Answer", "Query", "QueryServer", "reaches"]

MAX_SERVICE_MS = 3
"""The longest time from the arrival of a query to the read."""


@dataclass(frozen=True)
class Query:
    """A query of one partition of a store.

    Attributes:
        number: identifies the query in the run.
        client: the client that asks.
        task: the task of the store.
        store: the name of the store.
        changelog: the changelog partition of the store.
        from_key: the smallest key; ``None`` for no limit.
        to_key: the largest key; the same as the smallest asks for one key.
        requires_active: whether only the running active task may answer. Such a query has no bound.
        isolation: the name of an ``IsolationLevel``; empty for the default of the application.
        bound: by input, the offset that the answer must reflect at least (KIP-796).
    """

    number: int
    client: str
    task: str
    store: str
    changelog: str
    from_key: bytes | None = None
    to_key: bytes | None = None
    requires_active: bool = True
    isolation: str = ""
    bound: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_range(self) -> bool:
        """Whether the query asks for a part of the keys, and not for a single one."""
        return self.from_key != self.to_key


class Answer(NamedTuple):
    """The reply of an instance.

    Attributes:
        refusal: why the instance does not answer; empty if it does.
        rows: the entries, in the order of their keys.
        position: by input, the offset that the entries reflect.
    """

    refusal: QueryRefusal | Literal[""]
    rows: Sequence[tuple[bytes, bytes]] = ()
    position: Mapping[str, int] = {}


class _Copy(NamedTuple):
    """A copy of a store in a thread: that of an active task, or of a standby."""

    thread: StreamThread
    task: StreamTask
    holder: StoreHolder

    @property
    def is_active(self) -> bool:
        """Whether it is that of an active task now: a task may change its role."""
        return self.thread.is_active(self.task.id)

    @property
    def runs(self) -> bool:
        return self.is_active and self.task.state is TaskState.RUNNING


def reaches(position: Mapping[str, int], bound: Mapping[str, int]) -> bool:
    """Whether a position reflects everything that a bound demands."""
    return all(position.get(partition, -1) >= offset for partition, offset in bound.items())


class QueryServer:
    """Answers the queries that reach the process of an instance.

    Args:
        application: the application.
        instance: the instance.
    """

    def __init__(self, application: Application, instance: Instance) -> None:
        self._world = application.world
        self._config = application.config
        self._instance = instance
        # By changelog, what a store first showed, for the defect that never renews it.
        self._first: dict[str, tuple[StoreHolder, Rows]] = {}

    def receive(self, query: Query, reply: Event) -> bool:
        """Begin to answer a query; return whether there is a process that can.

        Args:
            query: the query.
            reply: succeeds with an ``Answer``. A process that dies never replies.
        """
        host = self._instance.host
        if host is None:
            return False
        host.start(self._answer(query, reply, host))
        return True

    def _answer(self, query: Query, reply: Event, host: Host) -> Steps:
        copy = self._found(query)
        yield self._world.time.timeout(self._world.choices.between(0, MAX_SERVICE_MS))
        if copy is None:
            refusal: QueryRefusal | None = "NOT_PRESENT"
        elif copy.task.stores.get(query.store) is not copy.holder:
            refusal = "STORE_MIGRATED"
        else:
            refusal = self._refusal(query, copy)
        if refusal is not None or copy is None:
            self._world.trace.emit(
                "query.refused",
                host.name,
                task=query.task,
                partition=query.changelog,
                query=query.number,
                reason=refusal,
            )
            reply.succeed(Answer(refusal or "NOT_PRESENT"))
            return
        reply.succeed(self._read(query, copy))

    def _found(self, query: Query) -> _Copy | None:
        """The copy of the store in this process, if there is one."""
        threads = self._instance.threads
        if self._world.defect("queries-only-the-first-thread"):
            threads = threads[:1]
        for thread in threads:
            task = thread.tasks.get(query.task)
            if task is not None and query.store in task.stores:
                return _Copy(thread, task, task.stores[query.store])
        return None

    def _refusal(self, query: Query, copy: _Copy) -> QueryRefusal | None:
        """Why a copy must not answer; ``None`` if it may."""
        defect = self._world.defect
        if query.is_range and not getattr(copy.holder.database, "has_ranges", True):
            return UNKNOWN_QUERY_TYPE
        if query.requires_active and not copy.runs and not defect("lets-standbys-answer"):
            return "NOT_ACTIVE"
        position = self._position(copy, self._level(query, copy))
        if not reaches(position, query.bound) and not defect("ignores-position-bounds"):
            return "NOT_UP_TO_BOUND"
        return None

    def _level(self, query: Query, copy: _Copy) -> IsolationLevel:
        """The level of a query: its own, or the default.

        As proposed, the default is the level of the context. As shipped, it is
        ``default.interactive.query.isolation.level``, which is READ_UNCOMMITTED unless it is set.
        """
        default = self._config.default_query_isolation
        if query.isolation and not self._world.defect("ignores-isolation-of-a-query"):
            return IsolationLevel[query.isolation]
        if default:
            return IsolationLevel[default]
        if self._world.defect("queries-read-uncommitted-by-default"):
            return IsolationLevel.READ_UNCOMMITTED
        if self._world.defect("queries-read-committed-by-default"):
            return IsolationLevel.READ_COMMITTED
        if self._config.store_rules == "kafka":
            return IsolationLevel.READ_UNCOMMITTED
        return copy.task.isolation_level

    def _position(self, copy: _Copy, level: IsolationLevel) -> dict[str, int]:
        if self._world.defect("reports-position-of-staged-writes"):
            level = IsolationLevel.READ_UNCOMMITTED
        return position_of(copy.holder.database.read_only(level))

    def _read(self, query: Query, copy: _Copy) -> Answer:
        """Read the store at one moment, and tell what was read."""
        level = self._level(query, copy)
        rows = self._shown(query, copy, level)
        position = self._position(copy, level)
        self._world.trace.emit(
            "query.served",
            copy.thread.name,
            task=query.task,
            partition=query.changelog,
            query=query.number,
            isolation=level.name,
            is_active=copy.is_active,
            rows=[list(each) for each in rows],
            position=position,
        )
        return Answer("", rows, position)

    def _shown(self, query: Query, copy: _Copy, level: IsolationLevel) -> Rows:
        """The rows in the store beneath the open transaction, or with it (KIP-892)."""
        holder, defect = copy.holder, self._world.defect
        view: ReadOnlyKeyValueStore = holder.store.read_only(level)
        if defect("queries-read-through-the-transaction"):
            view = holder.store
        rows = _read(view, query.from_key, query.to_key)
        if defect("ranges-leave-the-last-key-out") and query.is_range:
            rows = [each for each in rows if each[0] != query.to_key]
        if defect("never-renews-what-queries-see"):
            known, first = self._first.get(query.changelog, (None, []))
            if known is not holder:
                first = _read(view, None, None)
                self._first[query.changelog] = holder, first
            rows = [each for each in first if _is_between(each[0], query)]
        return rows


def _read(view: ReadOnlyKeyValueStore, from_key: bytes | None, to_key: bytes | None) -> Rows:
    """The entries from one key to another, both inclusive, ascending."""
    if from_key is not None and from_key == to_key:
        value = view.get(from_key)
        return [] if value is None else [(from_key, value)]
    if from_key is None and to_key is None:
        with view.all() as entries:
            return list(entries)
    with view.range(from_key, to_key) as entries:
        return list(entries)


def _is_between(key: bytes, query: Query) -> bool:
    return (query.from_key is None or key >= query.from_key) and (
        query.to_key is None or key <= query.to_key
    )
