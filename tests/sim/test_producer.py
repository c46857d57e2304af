"""The producer: each record once, and a transaction whole or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from streamproof.sim.actor_hosts import Steps
from streamproof.sim.broker_errors import (
    BrokerError,
    IllegalGenerationError,
    InvalidTxnStateError,
    ProducerFencedError,
    RequestTimeoutError,
)
from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.choices import Choices
from streamproof.sim.clients.producer import LINGER_MS, Producer
from streamproof.sim.network import Network
from streamproof.sim.world import World


class Bench:
    """Producers in a world of their own."""

    def __init__(self, seed: int = 0, *, activation: float = 0) -> None:
        self.world = World(Choices.seeded(seed), activation=activation)
        self.cluster = Cluster(self.world, {"out": 2})
        self.network = Network(self.world, request_timeout_ms=400)
        self.host = self.world.host("instance-0")

    def producer(self, transactional_id: str = "") -> Producer:
        """A producer that has its identity."""
        made = Producer(
            self.world,
            self.host,
            self.network,
            self.cluster,
            transactional_id=transactional_id,
        )
        self.do(made.init())
        return made

    def do(self, steps: Steps) -> Any:
        """Let an actor do it, and hand on what it raises."""
        raised: list[BrokerError] = []

        def guarded() -> Steps:
            try:
                return (yield from steps)
            except BrokerError as error:
                raised.append(error)

        value = self.world.time.run(until=self.host.start(guarded()))
        if raised:
            raise raised[0]
        return value

    def wait(self, milliseconds: int) -> None:
        """Let time pass."""
        self.world.time.run(until=self.world.now + milliseconds)

    def values(self, partition: str = "out-0") -> list[bytes | None]:
        """What a reader of committed data sees."""
        return [each.value for each in self.cluster.committed_records(partition)]

    def member(self) -> tuple[str, int]:
        """A member of the group, and its generation."""
        group = self.cluster.group("app")
        member = group.join("", "s", self.world.now)
        group.advance(self.world.now)
        return member, group.generation


def test_records_are_sent_in_the_background() -> None:
    """After a while, in order; the offsets come back."""
    bench = Bench()
    producer = bench.producer()
    for value in (b"1", b"2"):
        producer.send("out-0", b"k", value, 5)
    assert bench.values() == []
    bench.wait(LINGER_MS + 20)
    assert bench.values() == [b"1", b"2"]
    assert producer.written == {"out-0": 1}


def test_a_flush_does_not_linger() -> None:
    """It comes back once everything is confirmed; with nothing to do, at once."""
    bench = Bench()
    producer = bench.producer()
    producer.send("out-0", b"k", b"1", 0)
    start = bench.world.now
    bench.do(producer.flush())
    assert bench.values() == [b"1"]
    assert bench.world.now - start < LINGER_MS
    start = bench.world.now
    bench.do(producer.flush())
    assert bench.world.now == start


def test_several_requests_keep_the_order_of_a_partition() -> None:
    """A batch whose request is lost arrives before the next one, although that is on its way."""
    bench = Bench()
    lost = [True]
    bench.world.faults.scripted = lambda site, *_: (
        site == "network.request_lost" and bool(lost) and lost.pop()
    )
    producer = bench.producer()
    lost.append(True)
    for value in (b"1", b"2", b"3"):
        producer.send("out-0", b"k", value, 0)
        bench.wait(LINGER_MS + 20)
    assert bench.values() == []
    bench.do(producer.flush())
    assert bench.values() == [b"1", b"2", b"3"]
    assert bench.world.marks.hits["two requests of a producer were on their way"]


def test_a_batch_is_refused_for_one_partition_alone() -> None:
    """The other partition has its record at once, and the refused batch is sent again."""
    bench = Bench()
    refused = [True]
    bench.world.faults.scripted = lambda site, whom, _: (
        (site, whom) == ("broker.refused", "out-0") and bool(refused) and refused.pop()
    )
    producer = bench.producer()
    producer.send("out-0", b"k", b"1", 0)
    producer.send("out-1", b"k", b"2", 0)
    bench.wait(LINGER_MS + 20)
    assert (bench.values("out-0"), bench.values("out-1")) == ([], [b"2"])
    bench.do(producer.flush())
    assert bench.values("out-0") == [b"1"]


def test_a_transaction_is_whole_or_nothing() -> None:
    """In both partitions, with the offsets of the group."""
    for commit in (True, False):
        bench = Bench()
        producer = bench.producer("app-1")
        producer.send("out-0", b"k", b"1", 0)
        producer.send("out-1", b"k", b"2", 0)
        assert producer.in_transaction
        bench.do(producer.send_offsets("app", bench.member(), {"in-0": 4}))
        bench.do(producer.flush())
        bench.do(producer.commit() if commit else producer.abort())
        bench.wait(100)
        assert not producer.in_transaction
        assert bench.values("out-0") == ([b"1"] if commit else [])
        assert bench.values("out-1") == ([b"2"] if commit else [])
        assert bench.cluster.group("app").committed("in-0") == (4 if commit else None)


def test_the_next_transaction_waits_for_the_markers() -> None:
    """Nothing of it shows up in the one before."""
    bench = Bench()
    producer = bench.producer("app-1")
    for number in range(5):
        producer.send("out-0", b"k", b"%d" % number, 0)
        bench.do(producer.commit() if number % 2 else producer.abort())
    bench.wait(100)
    assert bench.values() == [b"1", b"3"]


def test_dropped_records_leave_no_gap() -> None:
    """What an abort drops before it is sent does not upset the order of what follows."""
    bench = Bench()
    producer = bench.producer("app-1")
    producer.send("out-0", b"k", b"1", 0)
    bench.do(producer.flush())
    producer.send("out-0", b"k", b"dropped", 0)
    bench.do(producer.abort())
    producer.send("out-0", b"k", b"2", 0)
    bench.do(producer.commit())
    bench.wait(100)
    assert bench.values() == [b"2"]


def test_a_zombie_is_fenced() -> None:
    """It cannot commit, and what it sends is refused in the background."""
    bench = Bench()
    zombie = bench.producer("app-1")
    zombie.send("out-0", b"k", b"zombie", 0)
    bench.do(zombie.flush())
    successor = bench.producer("app-1")
    with pytest.raises(ProducerFencedError):
        bench.do(zombie.commit())
    zombie.send("out-1", b"k", b"zombie", 0)
    bench.wait(500)
    assert isinstance(zombie.error, ProducerFencedError)
    with pytest.raises(ProducerFencedError):
        zombie.send("out-0", b"k", b"zombie", 0)
    bench.do(zombie.abort())
    successor.send("out-0", b"k", b"1", 0)
    bench.do(successor.commit())
    bench.wait(100)
    assert bench.values() == [b"1"]


def test_offsets_of_an_old_generation_are_refused() -> None:
    """KIP-447: the group fences, even if the producer is not fenced."""
    bench = Bench()
    producer = bench.producer("app-1")
    member, generation = bench.member()
    bench.member()
    bench.cluster.group("app").join(member, "s", bench.world.now)
    bench.cluster.group("app").advance(bench.world.now)
    with pytest.raises(IllegalGenerationError):
        bench.do(producer.send_offsets("app", (member, generation), {"in-0": 4}))


def test_no_answer_leaves_the_outcome_open() -> None:
    """A commit that nobody answers is given up in the end."""
    bench = Bench()
    producer = bench.producer("app-1")
    producer.send("out-0", b"k", b"1", 0)
    bench.do(producer.flush())
    bench.network.cut("instance-0")
    with pytest.raises(RequestTimeoutError, match="end transaction: given up"):
        bench.do(producer.commit())


def test_an_identity_comes_first() -> None:
    """Without one nothing can be sent."""
    bench = Bench()
    producer = Producer(bench.world, bench.host, bench.network, bench.cluster)
    with pytest.raises(InvalidTxnStateError, match=r"call init\(\) first"):
        producer.send("out-0", b"k", b"1", 0)


def test_a_closed_producer_sends_nothing() -> None:
    """What is not sent by then is lost."""
    bench = Bench()
    producer = bench.producer()
    producer.close()
    producer.send("out-0", b"k", b"1", 0)
    bench.wait(1_000)
    assert bench.values() == []


@pytest.mark.parametrize("seed", range(30))
def test_each_record_arrives_once(seed: int) -> None:
    """Whatever is lost or late: what was committed is there, in order, and nothing else."""
    bench = Bench(seed, activation=0.6)
    producer = bench.producer("app-1")
    random = Choices.seeded(seed + 1000)
    expected: dict[str, list[bytes]] = {"out-0": [], "out-1": []}
    for number in range(25):
        sent: list[tuple[str, bytes]] = []
        for _ in range(random.below(5)):
            sent.append((random.pick(["out-0", "out-1"]), b"%d.%d" % (number, len(sent))))
            producer.send(sent[-1][0], b"k", sent[-1][1], 0)
            if random.chance(0.2):
                bench.wait(random.between(1, 200))
        if random.chance(0.3):
            bench.do(producer.abort())
        elif sent:
            bench.do(producer.commit())
            for partition, value in sent:
                expected[partition].append(value)
    # A marker may take seconds.
    bench.wait(20_000)
    assert {name: bench.values(name) for name in expected} == expected
