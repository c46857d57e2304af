"""Clients that ask interactive queries: outside of the instances, over the simulated network.

A client knows from the group which process has which task, as of its last look. So it may come to
a process that has not got the task yet, or has it no more. It then looks again, and asks again.

Sources: KIP-535 (KeyQueryMetadata: the active host and the standby hosts of a partition); KIP-796.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple

from simpy.events import Event

from streamproof.sim.actor_hosts import Steps
from streamproof.sim.application import Application
from streamproof.sim.decisions.query_refusals import UNKNOWN_QUERY_TYPE
from streamproof.sim.instances import Instance
from streamproof.sim.query_server import Answer, Query, QueryServer
from streamproof.sim.topology import partition_for

__all__ = ["QueryClients"]

REPLY_TIMEOUT_MS = 1_000
"""How long a client waits for a reply before it asks again."""

MAX_PAUSE_MS = 2_000
"""The longest pause between an answer and the next query."""

MIN_BACKOFF_MS, MAX_BACKOFF_MS = 100, 800
"""The shortest and the longest pause before a query is asked again."""

ATTEMPTS_WITH_BOUND = 5
"""After so many attempts a client gives its bound up, and asks the active copy."""

MOST_KEYS = 20
"""Clients ask for the keys ``key-0`` to ``key-19``: no drawn workload has more."""


class Homes(NamedTuple):
    """The processes that have a task, according to the group.

    Attributes:
        active: the process of the active task; empty if no member has it.
        standbys: the processes with standbys of the task.
    """

    active: str = ""
    standbys: tuple[str, ...] = ()


class QueryClients:
    """All query clients of a world, and the way to the instances.

    Args:
        application: the application.
        instances: its instances.
        count: how many clients ask queries by themselves, from the start on.
    """

    def __init__(
        self, application: Application, instances: Sequence[Instance], count: int = 0
    ) -> None:
        self._application = application
        self._servers = {each.name: QueryServer(application, each) for each in instances}
        self._asked = 0
        world = application.world
        has_stores = any(each.changelogs for each in application.tasks.values())
        for number in range(count if has_stores else 0):
            client = self.client(f"client-{number}")
            world.host(client.name).start(client.run())

    def client(self, name: str) -> QueryClient:
        """A client of this name, which asks only what it is told to."""
        return QueryClient(name, self._application, self._servers, self._number)

    def _number(self) -> int:
        self._asked += 1
        return self._asked


class QueryClient:
    """A client, which is one session: it remembers the positions that it has seen.

    Args:
        name: the name of the client.
        application: the application.
        servers: by instance, the way to its process.
        number: makes the number of the next query.
    """

    def __init__(
        self,
        name: str,
        application: Application,
        servers: Mapping[str, QueryServer],
        number: Callable[[], int],
    ) -> None:
        self.name = name
        self._application = application
        self._world = application.world
        self._servers = servers
        self._number = number
        self._homes: dict[str, Homes] = {}
        # By input, the largest position that an answer has had.
        self._seen: dict[str, int] = {}

    def run(self) -> Steps:
        """Ask one query after the other, for ever."""
        choices = self._world.choices
        while True:
            yield self._world.time.timeout(choices.between(1, MAX_PAUSE_MS))
            yield from self.ask(self._drawn())

    def ask(self, query: Query) -> Generator[Event, Any, Answer]:
        """Ask a query until it is answered, or until a copy says that no copy can answer it.

        Every copy of a store knows the same kinds of queries (Kafka, FailureReason).
        """
        self._tell("query.asked", query, **_asked(query))
        attempts = 0
        while True:
            process = yield from self._route(query, look=attempts > 0)
            answer = (yield from self._send(query, process)) if process else None
            if answer is not None and not answer.refusal:
                self._tell("query.answered", query, position=answer.position)
                for partition, offset in answer.position.items():
                    self._seen[partition] = max(offset, self._seen.get(partition, -1))
                return answer
            if answer is not None and answer.refusal == UNKNOWN_QUERY_TYPE:
                return answer
            attempts += 1
            if attempts >= ATTEMPTS_WITH_BOUND and query.bound:
                query = self.query(query.task, query.store, query.from_key, query.to_key)
                self._tell("query.asked", query, **_asked(query))
            yield self._world.time.timeout(
                self._world.choices.between(MIN_BACKOFF_MS, MAX_BACKOFF_MS)
            )

    def query(
        self,
        task: str,
        store: str,
        from_key: bytes | None = None,
        to_key: bytes | None = None,
        *,
        requires_active: bool = True,
        isolation: str = "",
        bounded: bool = False,
    ) -> Query:
        """A new query.

        Args:
            task: the task.
            store: the name of the store.
            from_key: the smallest key.
            to_key: the largest key.
            requires_active: whether only the active copy may answer.
            isolation: the name of an isolation level; empty for the default.
            bounded: whether the answer must be as new as all that this client has seen.
        """
        spec = self._application.tasks[task]
        seen = self._seen if bounded and not requires_active else {}
        return Query(
            self._number(),
            self.name,
            task,
            store,
            spec.changelogs[store],
            from_key,
            to_key,
            requires_active,
            isolation,
            {each: seen[each] for each in spec.inputs if each in seen},
        )

    def _drawn(self) -> Query:
        """Draw a query: mostly for one key, and mostly of the active copy."""
        choices, tasks = self._world.choices, self._application.tasks
        task = choices.pick([name for name, each in sorted(tasks.items()) if each.changelogs])
        store = choices.pick(sorted(tasks[task].changelogs))
        keys = sorted(choices.pick(self._keys(task, store)) for _ in range(2))
        from_key, to_key = choices.pick(((keys[0], keys[0]), (None, None), (keys[0], keys[1])))
        return self.query(
            task,
            store,
            from_key,
            to_key,
            requires_active=not choices.chance(0.5),
            isolation=choices.pick(("", "READ_COMMITTED", "READ_UNCOMMITTED")),
            bounded=choices.chance(0.5),
        )

    def _keys(self, task: str, store: str) -> list[bytes]:
        """The keys that a workload may send to the partition of a task; all if there are none."""
        tasks = self._application.tasks
        count = sum(store in each.changelogs for each in tasks.values())
        number = int(tasks[task].changelogs[store].rpartition("-")[2])
        keys = [b"key-%d" % each for each in range(MOST_KEYS)]
        return [each for each in keys if partition_for(each, count) == number] or keys

    # The way to a copy.

    def _route(self, query: Query, *, look: bool) -> Generator[Event, Any, str]:
        """The process to ask; empty if the group names none."""
        if look or query.task not in self._homes:
            yield from self._look()
        homes = self._homes.get(query.task, Homes())
        stale = not query.requires_active or self._world.defect("routes-to-standbys-without-leave")
        options = [homes.active, *(homes.standbys if stale else ())]
        # A standby first: the point of stale reads is that they spare the active copy.
        return self._world.choices.pick([each for each in reversed(options) if each] or [""])

    def _look(self) -> Steps:
        """Ask the group which process has which task."""
        network = self._application.network
        group = self._application.cluster.group(self._application.topology.application_id)
        if not (yield from network.carry(self.name, "look at the group")):
            return
        found: dict[str, Homes] = {}
        for member in group.members.values():
            for task in member.assignment.active if member.assignment else ():
                found[task] = Homes(member.subscription.process, found.get(task, Homes()).standbys)
            for task in member.assignment.standby if member.assignment else ():
                known = found.get(task, Homes())
                found[task] = Homes(known.active, (*known.standbys, member.subscription.process))
        if (yield from network.carry("brokers", "tell about the group")):
            self._homes = found

    def _send(self, query: Query, process: str) -> Generator[Event, Any, Answer | None]:
        """Ask a process; ``None`` without a reply."""
        world, network = self._world, self._application.network
        self._tell("query.sent", query, process=process)
        reply: Event = world.time.event()
        given_up = world.time.timeout(REPLY_TIMEOUT_MS)
        arrived = yield from network.carry(self.name, "query")
        is_received = arrived and self._servers[process].receive(query, reply)
        if is_received:
            yield world.time.any_of([reply, given_up])
        if reply.triggered and (yield from network.carry(process, "answer")):
            return reply.value if isinstance(reply.value, Answer) else None
        if arrived and is_received:
            yield given_up
        self._tell("query.lost", query, process=process)
        return None

    def _tell(self, kind: str, query: Query, **attributes: Any) -> None:
        self._world.trace.emit(
            kind,
            self.name,
            task=query.task,
            partition=query.changelog,
            query=query.number,
            **attributes,
        )


def _asked(query: Query) -> dict[str, Any]:
    return {
        "store": query.store,
        "from_key": query.from_key,
        "to_key": query.to_key,
        "requires_active": query.requires_active,
        "isolation": query.isolation,
        "bound": dict(query.bound),
    }
