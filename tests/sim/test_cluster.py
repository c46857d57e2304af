"""The network and the brokers: what gets lost, what comes late, and what goes on by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamproof.sim.actor_hosts import Steps
from streamproof.sim.broker_errors import (
    BrokerError,
    ConcurrentTransactionsError,
    OffsetOutOfRangeError,
    ProducerFencedError,
    RequestTimeoutError,
)
from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.brokers.transaction_coordinator import TransactionState
from streamproof.sim.choices import Choices
from streamproof.sim.network import Network
from streamproof.sim.trace import Event
from streamproof.sim.world import World
from streamproof.stores.errors import InvalidArgumentError


def record(value: bytes, **more: Any) -> dict[str, Any]:
    """A record to produce."""
    return {"key": b"k", "value": value, "timestamp": 0, **more}


def calm(seed: int = 0, **options: Any) -> World:
    """A world without faults."""
    return World(Choices.seeded(seed), activation=0, **options)


def with_fault(site: str, probability: float = 1.0) -> World:
    """A world in which one thing goes wrong."""
    return World(Choices.seeded(0), sites={**NO_FAULTS, site: probability}, activation=1)


NO_FAULTS = dict.fromkeys(World(Choices.seeded(0)).faults.fired, 0.0)


def outcome(world: World, network: Network, handle: Callable[[], Any]) -> tuple[Any, int]:
    """What a call gives, or raises, and when."""
    found: list[tuple[Any, int]] = []
    host = world.host("instance-0")

    def steps() -> Steps:
        try:
            reply = yield from network.call(host, "a request", handle)
        except BrokerError as error:
            reply = error
        found.append((reply, world.now))

    host.start(steps())
    world.time.run(until=100_000)
    (one,) = found
    return one


class TestNetwork:
    """Requests and replies."""

    def test_a_reply_takes_its_time(self) -> None:
        """A few milliseconds each way."""
        world = calm()
        reply, when = outcome(world, Network(world), lambda: "done")
        assert reply == "done"
        assert 2 <= when <= 8

    def test_a_refusal_is_a_reply(self) -> None:
        """It travels back."""

        def refuse() -> None:
            raise ProducerFencedError("no")

        world = calm()
        reply, when = outcome(world, Network(world), refuse)
        assert isinstance(reply, ProducerFencedError)
        assert when >= 2

    @pytest.mark.parametrize(
        ("site", "carried_out"), [("network.request_lost", 0), ("network.reply_lost", 1)]
    )
    def test_the_caller_cannot_tell_what_was_lost(self, site: str, carried_out: int) -> None:
        """The same time-out at the same time, whether it was carried out or not."""
        calls: list[int] = []
        world = with_fault(site)
        reply, when = outcome(world, Network(world), lambda: calls.append(1))
        assert isinstance(reply, RequestTimeoutError)
        assert when == 30_000
        assert len(calls) == carried_out
        assert world.faults.fired[site] == 1
        assert sum(world.marks.hits.values()) == 1

    def test_a_request_arrives_although_its_sender_has_died(self) -> None:
        """It was on its way already."""
        calls: list[int] = []
        world = calm()
        host = world.host("instance-0")
        host.start(Network(world).call(host, "produce", lambda: calls.append(world.now)))
        world.time.run(until=1)
        host.crash()
        world.time.run(until=100)
        assert len(calls) == 1
        assert world.marks.hits["a request arrived after its sender had died"] == 1

    def test_a_request_arrives_although_its_sender_has_given_it_up(self) -> None:
        """A broker that stands still carries it out when it goes on."""
        calls: list[int] = []
        world = calm()
        network, host = Network(world, request_timeout_ms=50), world.host("instance-0")
        found: list[tuple[Any, ...]] = []

        def steps() -> Steps:
            try:
                yield from network.call(
                    host, "produce", lambda: calls.append(world.now), queue_ms=lambda: 200
                )
            except RequestTimeoutError as error:
                found.append((error, world.now, list(calls)))

        host.start(steps())
        world.time.run(until=1_000)
        assert [each[1:] for each in found] == [(50, [])]
        assert len(calls) == 1
        assert calls[0] > 200
        assert world.marks.hits["a request arrived after its sender had given it up"] == 1

    def test_a_request_that_is_held_up_briefly_is_answered(self) -> None:
        """Its sender waits for it, and nobody calls it late."""
        world = with_fault("network.late")
        network, host = Network(world), world.host("instance-0")
        found: list[object] = []

        def steps() -> Steps:
            found.append((yield from network.call(host, "produce", lambda: "done")))

        host.start(steps())
        world.time.run(until=60_000)
        assert found == ["done"]
        assert world.faults.fired["network.late"] == 1
        assert not world.marks.hits["a request arrived after its sender had given it up"]

    @pytest.mark.parametrize("what", ["commit offsets", "end transaction"])
    def test_some_requests_are_never_late(self, what: str) -> None:
        """The brokers have no defence against them."""
        world = with_fault("network.late")
        network = Network(world, never_late=["end transaction"])
        host = world.host("instance-0")
        host.start(network.call(host, what, lambda: "done"))
        world.time.run(until=60_000)
        assert not world.faults.fired["network.late"]

    def test_a_host_that_is_cut_off(self) -> None:
        """Nothing passes until it is connected again."""
        world = calm()
        network = Network(world, request_timeout_ms=50)
        network.cut("instance-0")
        assert isinstance(outcome(world, network, lambda: "done")[0], RequestTimeoutError)
        world = calm()
        network = Network(world)
        network.cut("instance-0")
        network.heal("instance-0")
        assert outcome(world, network, lambda: "done")[0] == "done"

    def test_a_slow_message(self) -> None:
        """It comes late, and it does come."""
        world = with_fault("network.slow")
        reply, when = outcome(world, Network(world), lambda: "done")
        assert reply == "done"
        assert when > 100


class TestCluster:
    """What the brokers do."""

    def test_a_topic_needs_a_partition(self) -> None:
        """None is refused, by name."""
        with pytest.raises(InvalidArgumentError, match="'in' has 0 partitions"):
            Cluster(calm(), {"in": 0})

    def test_records_are_fetched(self) -> None:
        """From a position on; one that is out of range is refused."""
        cluster = Cluster(calm(), {"in": 2})
        assert cluster.partitions_of("in") == ["in-0", "in-1"]
        assert cluster.produce("in-0", [record(b"1"), record(b"2")]) == [0, 1]
        found = cluster.fetch("in-0", 1, "read_committed", 10)
        assert found is not None
        assert [each.value for each in found.records] == [b"2"]
        with pytest.raises(OffsetOutOfRangeError):
            cluster.fetch("in-1", 5, "read_committed", 10)

    def test_a_fetch_may_come_back_empty(self) -> None:
        """Or with less than there is, or without the partition; the next one goes on from there."""
        world = with_fault("broker.empty_fetch")
        cluster = Cluster(world, {"in": 1})
        cluster.produce("in-0", [record(b"%d" % number) for number in range(5)])
        counts, at, seen = set(), 0, []
        silent = 0
        for _ in range(200):
            fetched = cluster.fetch("in-0", at, "read_committed", 2)
            if fetched is None:
                silent += 1
                continue
            counts.add(len(fetched.records))
            seen += fetched.records
            at = fetched.next_offset
        assert counts == {0, 1, 2}
        assert 0 < silent < 100
        assert [each.offset for each in seen] == list(range(5))

    def test_readers_are_told_of_records(self) -> None:
        """Each of the partitions that it has asked about, and no longer than it wants."""
        cluster, here, there = Cluster(calm(), {"in": 2}), list[str](), list[str]()
        for partition in ("in-0", "in-1"):
            cluster.tell_of_records(partition, here.append)
        cluster.tell_of_records("in-1", there.append)
        cluster.produce("in-1", [record(b"1")])
        assert (here, there) == (["in-1"], ["in-1"])
        cluster.stop_telling("in-1", here.append)
        cluster.produce("in-1", [record(b"2")])
        cluster.produce("in-0", [record(b"3")])
        assert (here, there) == (["in-1", "in-0"], ["in-1", "in-1"])

    def begin(self, cluster: Cluster, *partitions: str) -> Any:
        """A transaction with a record in each partition, and an offset of the group."""
        identity = cluster.init_producer("app-1", 10_000)
        cluster.transactions.add("app-1", identity, partitions, 0)
        for partition in partitions:
            more = {"producer": identity.producer, "epoch": identity.epoch, "transactional": True}
            cluster.produce(partition, [record(b"t", **more)])
        group = cluster.group("app")
        member = group.join("", "s", 0)
        group.advance(0)
        cluster.add_offsets("app-1", identity, "app", (member, group.generation), {"in-0": 7})
        return identity

    def test_markers_come_one_after_the_other(self) -> None:
        """In between, one partition shows the transaction and another does not."""
        events: list[Event] = []
        world = calm(watchers=[events.append])
        cluster = Cluster(world, {"out": 2})
        identity = self.begin(cluster, "out-0", "out-1")
        cluster.end_transaction("app-1", identity, commit=True)
        assert cluster.committed_records("out-0") == []
        world.time.run(until=100)
        markers = [each for each in events if each.kind == "transaction.marker"]
        assert {each.partition for each in markers} == {"out-0", "out-1", "group:app"}
        assert [each.attributes["complete"] for each in markers] == [False, False, True]
        assert len(cluster.committed_records("out-0")) == 1
        assert cluster.group("app").committed("in-0", require_stable=True) == 7
        assert "one partition showed a transaction before another did" not in world.marks.never

    def test_any_marker_may_be_the_last(self) -> None:
        """Over some seeds, each partition and the group are."""
        last = set()
        for seed in range(40):
            events: list[Event] = []
            world = calm(seed, watchers=[events.append])
            cluster = Cluster(world, {"out": 2})
            cluster.end_transaction(
                "app-1", self.begin(cluster, "out-0", "out-1"), commit=bool(seed % 2)
            )
            world.time.run(until=100)
            last.add(events[-1].partition)
        assert last == {"out-0", "out-1", "group:app"}

    def test_a_transaction_that_takes_too_long(self) -> None:
        """It is aborted without anybody's doing, and its producer is fenced in the logs, too."""
        world = calm()
        cluster = Cluster(world, {"out": 1})
        identity = self.begin(cluster, "out-0")
        world.time.run(until=12_000)
        found = cluster.transactions.of("app-1")
        assert found is not None
        assert found.state is TransactionState.COMPLETE_ABORT
        assert cluster.committed_records("out-0") == []
        assert cluster.group("app").committed("in-0", require_stable=True) is None
        with pytest.raises(ProducerFencedError):
            cluster.produce(
                "out-0", [record(b"z", producer=identity.producer, sequence=1, transactional=True)]
            )

    def test_a_new_producer_waits_for_the_old_one(self) -> None:
        """Until the markers of its transaction are written."""
        world = calm()
        cluster = Cluster(world, {"out": 1})
        self.begin(cluster, "out-0")
        with pytest.raises(ConcurrentTransactionsError):
            cluster.init_producer("app-1", 10_000)
        world.time.run(until=100)
        assert cluster.init_producer("app-1", 10_000).epoch == 2

    def test_silent_members_are_left_out(self) -> None:
        """As time passes, and it is told."""
        events: list[Event] = []
        world = calm(watchers=[events.append])
        cluster = Cluster(world, {"in": 1})
        cluster.group("app").join("", "s", 0, session_timeout_ms=3_000)
        world.time.run(until=5_000)
        assert cluster.group("app").members == {}
        assert [str(each) for each in events] == [
            "#0 at 3000 ms: brokers group.member_left_out group='app' member='member-1'"
        ]


def test_the_same_seed_is_the_same_world() -> None:
    """With faults and all: the digest says so."""

    def digest(seed: int) -> str:
        world = World(Choices.seeded(seed), activation=1)
        cluster = Cluster(world, {"out": 3})
        network = Network(world, request_timeout_ms=500)
        host = world.host("instance-0")

        def steps() -> Steps:
            for number in range(100):
                try:
                    yield from network.call(
                        host,
                        "produce",
                        lambda number=number: cluster.produce("out-0", [record(b"%d" % number)]),
                    )
                    world.trace.emit("produced", "instance-0", number=number)
                except RequestTimeoutError as error:
                    world.trace.emit("failed", "instance-0", message=str(error))

        host.start(steps())
        world.time.run(until=60_000)
        assert world.trace.count > 90
        return world.trace.digest

    assert digest(5) == digest(5)
    assert digest(5) != digest(6)
