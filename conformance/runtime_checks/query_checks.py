"""Checks of interactive queries in small worlds: one application, one client, and a script.

The expected values follow from the records that the script sends, and from the settings: the
topology counts the records of each key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streamproof.conformance.runtime_checks.probe import Probe, scripted
from streamproof.sim.actor_hosts import Steps
from streamproof.sim.application import QueryIsolation, StreamsConfig
from streamproof.sim.decisions.idling import Mode
from streamproof.sim.query_clients import QueryClient
from streamproof.sim.query_server import Query
from streamproof.sim.simulation import Stage
from streamproof.sim.tasks.assignor import AssignorConfig
from streamproof.sim.trace import Event
from streamproof.sim.workloads import WorkloadConfig
from streamproof.sim.world_plan import Plan

INTERVAL_MS = 1_000
"""The commit interval of these worlds, and longer than a query takes."""

ROUND_MS = 200
"""The time of one poll (``poll.ms``), of one commit and of one query together, without faults."""

STEP_MS = 10
"""The time between two queries, at least."""

BEGIN_MS = 5_000
"""When a script begins: the tasks run by then."""

UNSEEN: list[list[bytes]] = []
"""The answer to a query for a key that the store does not show."""

TASK, STORE, INPUT, KEY = "0_0", "counts", "in-0", b"key"

Script = Callable[[Stage, QueryClient], Steps]


@dataclass(frozen=True)
class _World:
    """The world of a script.

    Attributes:
        exactly_once: the guarantee.
        interval_ms: the commit interval.
        default: the configured isolation level; ``None`` configures none.
        rules: the rules of the proposal, or of Kafka.
        cache_bytes: the size of the record caches.
        instances: how many instances there are; all but one have a standby.
    """

    exactly_once: bool = True
    interval_ms: int = INTERVAL_MS
    default: QueryIsolation | None = None
    rules: Mode = "proposal"
    cache_bytes: int = 0
    instances: int = 1

    @property
    def plan(self) -> Plan:
        """The plan of a world without faults, in which the script alone sends records."""
        config = StreamsConfig(
            exactly_once=self.exactly_once,
            transactional=self.exactly_once,
            commit_interval_ms=self.interval_ms,
            flush_probability=0,
            statestore_cache_max_bytes=self.cache_bytes,
            store_rules=self.rules,
            assignor=AssignorConfig(num_standby_replicas=self.instances - 1),
        )
        if self.default is not None:
            config = replace(config, default_query_isolation=self.default)
        return Plan(
            topology="count",
            partitions=1,
            instances=self.instances,
            kinds=(),
            activation=0,
            safety_ms=40_000,
            workload=WorkloadConfig(records=0),
            config=config,
        )


def _play(probe: Probe, world: _World, script: Script) -> None:
    """Run a script in a world."""

    def direct(stage: Stage) -> None:
        client = stage.queries.client("client-0")

        def steps() -> Steps:
            yield stage.world.time.timeout(BEGIN_MS)
            yield from script(stage, client)

        stage.world.time.process(steps())

    probe.play(world.plan, direct)


def _send(stage: Stage, *keys: bytes) -> None:
    """Send one record for each key."""
    records = [{"key": key, "value": b"1", "timestamp": stage.world.now} for key in keys]
    stage.application.cluster.produce(INPUT, records)


def _asking(
    isolation: str = "", *, lasts_ms: int = 2 * INTERVAL_MS, requires_active: bool = True
) -> Script:
    """Send one record, and go on asking for its count, from before it is there."""

    def script(stage: Stage, client: QueryClient) -> Steps:
        yield from client.ask(_one(client, isolation=isolation, requires_active=requires_active))
        # The last commit was at a multiple of the interval, as the script begins at one.
        yield stage.world.time.timeout(INTERVAL_MS // 5)
        _send(stage, KEY)
        end = stage.world.now + lasts_ms
        while stage.world.now < end:
            query = _one(client, isolation=isolation, requires_active=requires_active)
            yield from client.ask(query)
            yield stage.world.time.timeout(STEP_MS)

    return script


def _one(client: QueryClient, *, isolation: str = "", requires_active: bool = True) -> Query:
    return client.query(TASK, STORE, KEY, KEY, isolation=isolation, requires_active=requires_active)


def _rows(event: Event) -> list[list[bytes]]:
    return list(event.attributes["rows"])


def _processed_at(probe: Probe) -> int:
    (processed,) = probe.of("task.processed")
    return processed.time


def _first_seen(probe: Probe) -> int:
    """When a query showed the count first; a very late time if none did."""
    seen = [each.time for each in probe.of("query.served") if _rows(each) == [[KEY, b"1"]]]
    return min(seen, default=1 << 30)


def _need_answers(probe: Probe) -> None:
    probe.need("an answered query", holds=bool(probe.of("query.answered")))


# When a record becomes visible.


@scripted("QUERY-103")
def visible_within_the_commit_interval(probe: Probe) -> None:
    """Under exactly-once, a record is visible after the commit interval and one round."""
    _play(probe, _World(), _asking())
    _need_answers(probe)
    waited = _first_seen(probe) - _processed_at(probe)
    probe.demand(
        f"a record that queries see at most {INTERVAL_MS} ms and one round after it was processed",
        f"it was seen after {waited} ms, or never",
        holds=waited <= INTERVAL_MS + ROUND_MS,
    )


@scripted("QUERY-101", "QUERY-102")
def hidden_until_the_commit(probe: Probe) -> None:
    """Under exactly-once, no query shows a record before its transaction is committed."""
    _play(probe, _World(cache_bytes=0), _asking())
    _need_answers(probe)
    processed = _processed_at(probe)
    decided = min(
        (
            each.time
            for each in probe.of("transaction.decided")
            if each.time >= processed and each.attributes["commit"]
        ),
        default=1 << 30,
    )
    before = [each for each in probe.of("query.served") if processed < each.time < decided]
    probe.need("a query between processing and commit", holds=bool(before))
    probe.expect([], [each for each in before if _rows(each) != UNSEEN])
    probe.about("QUERY-102")
    committed = [each.time for each in probe.of("store.committed") if each.time >= processed]
    late = [_rows(each) for each in probe.of("query.served") if each.time > min(committed)]
    probe.expect([[[KEY, b"1"]]] * len(late), late)


@scripted("QUERY-104")
def visible_at_once(probe: Probe) -> None:
    """Under at-least-once, the first query after the record shows its count."""
    _visible_at_once(probe, _World(exactly_once=False, interval_ms=30_000))


@scripted("QUERY-104")
def visible_at_once_through_a_cache(probe: Probe) -> None:
    """The same with a record cache in front of the store, which holds the write back."""
    _visible_at_once(probe, _World(exactly_once=False, interval_ms=30_000, cache_bytes=100_000))


def _visible_at_once(probe: Probe, world: _World) -> None:
    _play(probe, world, _asking())
    _need_answers(probe)
    processed = _processed_at(probe)
    shown = [_rows(each) for each in probe.of("query.served") if each.time > processed]
    probe.expect([[[KEY, b"1"]]] * len(shown), shown)


# The isolation level.


@scripted("QUERY-106")
def default_as_proposed(probe: Probe) -> None:
    """Without a level of its own, a query hides staged writes under exactly-once alone.

    Under at-least-once, only a record cache holds writes back from a query at READ_COMMITTED.
    """
    probe.expect(False, _shows_staged(probe, _World()))
    probe.expect(True, _shows_staged(probe, _World(exactly_once=False, cache_bytes=100_000)))


@scripted("QUERY-105", "QUERY-107", "QUERY-108")
def default_as_shipped(probe: Probe) -> None:
    """READ_UNCOMMITTED or what is configured, and the level of a query goes first."""
    committed, uncommitted = "READ_COMMITTED", "READ_UNCOMMITTED"
    # Under at-least-once no store stages, so only a wrong level can show what the cache holds back.
    cached = _World(exactly_once=False, cache_bytes=100_000)
    probe.about("QUERY-107")
    probe.expect(False, _shows_staged(probe, replace(cached, default="READ_COMMITTED")))
    probe.expect(True, _shows_staged(probe, replace(cached, default="READ_UNCOMMITTED")))
    probe.expect(True, _shows_staged(probe, replace(cached, rules="kafka")))
    probe.about("QUERY-105")
    # The query and the default ask for the same, so only the store can hide what is staged.
    probe.expect(True, _shows_staged(probe, _World(default="READ_UNCOMMITTED"), uncommitted))
    probe.about("QUERY-107")
    probe.expect(False, _shows_staged(probe, _World(default="READ_COMMITTED")))
    probe.expect(True, _shows_staged(probe, _World(default="READ_UNCOMMITTED")))
    probe.expect(True, _shows_staged(probe, _World(rules="kafka")))
    probe.about("QUERY-108")
    probe.expect(True, _shows_staged(probe, _World(default="READ_COMMITTED"), uncommitted))
    probe.expect(False, _shows_staged(probe, _World(default="READ_UNCOMMITTED"), committed))


def _shows_staged(probe: Probe, world: _World, isolation: str = "") -> bool:
    """Whether queries between the processing and the commit of a record show its count."""
    seen = len(probe.events)
    # The commit comes after the script.
    slow = replace(world, interval_ms=9_000)
    _play(probe, slow, _asking(isolation, lasts_ms=INTERVAL_MS))
    events = probe.events[seen:]
    (processed,) = (each.time for each in events if each.kind == "task.processed")
    shown = [
        _rows(each) for each in events if each.kind == "query.served" and each.time > processed
    ]
    probe.need("a query between processing and commit", holds=bool(shown))
    rows = [[KEY, b"1"]]
    probe.demand(
        "the same answer to all these queries",
        f"the answers {shown}",
        holds=all(each in (rows, UNSEEN) for each in shown),
    )
    return rows in shown


# Standbys, bounds and ranges.


@scripted("QUERY-113", "QUERY-114", "QUERY-118")
def standby_answers_with_leave_alone(probe: Probe) -> None:
    """A standby shows what its changelog has to a query that allows it, and refuses another."""

    def script(stage: Stage, client: QueryClient) -> Steps:
        _send(stage, KEY)
        yield stage.world.time.timeout(3 * INTERVAL_MS)
        for requires_active in (True, False):
            for _ in range(5):
                yield from client.ask(_one(client, requires_active=requires_active))

    _play(probe, _World(instances=2), script)
    active = {each.actor for each in probe.of("task.processed")}
    asked = {each.attributes["query"]: each.attributes for each in probe.of("query.asked")}
    for each in probe.of("query.served"):
        if asked[each.attributes["query"]]["requires_active"]:
            probe.expect(True, each.actor in active)
    probe.about("QUERY-118")
    homes = {each.partition("/")[0] for each in active}
    routes = [
        each.attributes["process"]
        for each in probe.of("query.sent")
        if asked[each.attributes["query"]]["requires_active"]
    ]
    probe.expect([], [each for each in routes if each not in homes])
    standbys = [each for each in probe.of("query.served") if each.actor not in active]
    probe.about("QUERY-114")
    probe.need("an answer of the standby", holds=bool(standbys))
    probe.expect([[[KEY, b"1"]]] * len(standbys), [_rows(each) for each in standbys])


@scripted("QUERY-109", "QUERY-117")
def bound_keeps_an_old_copy_out(probe: Probe) -> None:
    """After an answer of the active copy, a bounded query gets no answer that is older.

    A standby does not learn positions from its changelog, so it is too old for every bound. A
    client asks a standby first if there is one, and otherwise the active copy.
    """
    asked = _ask_with_bounds(probe, instances=2)
    active = {each.actor for each in probe.of("task.processed")}
    bounds = [each["bound"] for each in asked.values() if each["bound"]]
    probe.expect([{INPUT: 0}, {INPUT: 1}, {INPUT: 2}], bounds)
    reached = [
        each for each in probe.of("query.refused", "query.served") if _has_bound(each, asked)
    ]
    probe.need("a query with a bound that reached a copy", holds=bool(reached))
    served = [each.actor for each in reached if each.kind == "query.served"]
    probe.expect([], [each for each in served if each not in active])
    probe.about("QUERY-117")
    _expect_positions_to_grow(probe.of("query.answered"), probe)
    first = len(probe.events)
    asked = _ask_with_bounds(probe, instances=1)
    answers = [each for each in probe.events[first:] if each.kind == "query.answered"]
    bounded = [each for each in answers if _has_bound(each, asked)]
    probe.need("an answer to a query with a bound", holds=bool(bounded))
    _expect_positions_to_grow(answers, probe)


def _ask_with_bounds(probe: Probe, *, instances: int) -> dict[int, Mapping[str, Any]]:
    """After each of three records, ask the active copy, and then any copy under that position.

    Returns:
        By number, the attributes of each query.
    """

    def script(stage: Stage, client: QueryClient) -> Steps:
        for _ in range(3):
            _send(stage, KEY)
            yield stage.world.time.timeout(2 * INTERVAL_MS)
            yield from client.ask(_one(client))
            yield from client.ask(
                client.query(TASK, STORE, KEY, KEY, requires_active=False, bounded=True)
            )

    first = len(probe.events)
    _play(probe, _World(instances=instances), script)
    asked = [each.attributes for each in probe.events[first:] if each.kind == "query.asked"]
    return {each["query"]: each for each in asked}


def _has_bound(event: Event, asked: Mapping[int, Mapping[str, Any]]) -> bool:
    return bool(asked[event.attributes["query"]]["bound"])


def _expect_positions_to_grow(answers: Sequence[Event], probe: Probe) -> None:
    positions = [each.attributes["position"].get(INPUT, -1) for each in answers]
    probe.expect(sorted(positions), positions)


@scripted("QUERY-115")
def range_with_both_bounds(probe: Probe) -> None:
    """A range has its first and its last key, and those between them, in order."""
    keys = [b"a", b"b", b"c", b"d", b"e"]
    answers: list[Sequence[tuple[bytes, bytes]]] = []

    def script(stage: Stage, client: QueryClient) -> Steps:
        _send(stage, *reversed(keys))
        yield stage.world.time.timeout(3 * INTERVAL_MS)
        for first, last in ((b"b", b"d"), (None, b"c"), (b"c", None), (None, None), (b"bb", b"c")):
            answer = yield from client.ask(client.query(TASK, STORE, first, last))
            answers.append(answer.rows)

    _play(probe, _World(), script)
    rows = [(key, b"1") for key in keys]
    probe.expect([rows[1:4], rows[:3], rows[2:], rows, rows[2:3]], answers)
