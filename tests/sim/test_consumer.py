"""The consumer: what it returns, how far it is, and what it knows of its lag."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamproof.sim.actor_hosts import Steps
from streamproof.sim.broker_errors import OffsetOutOfRangeError
from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.choices import Choices
from streamproof.sim.clients.consumer import Consumer, IllegalStateError, Polled
from streamproof.sim.network import Network
from streamproof.sim.world import World


class Bench:
    """A consumer in a world of its own, driven step by step."""

    def __init__(self, seed: int = 0, *, activation: float = 0, **options: Any) -> None:
        self.world = World(Choices.seeded(seed), activation=activation)
        self.cluster = Cluster(self.world, {"in": 3})
        self.network = Network(self.world, request_timeout_ms=400)
        self.host = self.world.host("instance-0")
        options = {"isolation": "read_committed", **options}
        self.consumer = Consumer(self.world, self.host, self.network, self.cluster, **options)

    def start_at(self, **positions: int) -> None:
        """Assign partitions, and begin at these positions: ``in_0=5``."""
        names = {name.replace("_", "-"): offset for name, offset in positions.items()}
        self.consumer.assign(names)
        for name, offset in names.items():
            self.consumer.seek(name, offset)

    def produce(self, partition: str, *values: bytes, **more: Any) -> None:
        """Append records."""
        records = [{"key": b"k", "value": value, "timestamp": 0, **more} for value in values]
        self.cluster.produce(partition, records)

    def transaction(self, partition: str, *values: bytes, commit: bool | None) -> None:
        """A transaction, left open with ``None``."""
        for number, value in enumerate(values):
            more = {"producer": 7, "sequence": number, "transactional": True}
            self.produce(partition, value, **more)
        if commit is not None:
            self.cluster.logs[partition].end_transaction(7, commit=commit, timestamp=0)

    def poll(self, timeout_ms: int = 100) -> Polled:
        """What one poll returns, or raises."""
        found: list[Polled] = []
        errors: list[Exception] = []

        def steps() -> Steps:
            try:
                found.append((yield from self.consumer.poll(timeout_ms)))
            except OffsetOutOfRangeError as error:
                errors.append(error)

        self.world.time.run(until=self.host.start(steps()))
        if errors:
            raise errors[0]
        return found[0]

    def values(self, timeout_ms: int = 100) -> dict[str, list[bytes | None]]:
        """The values of one poll."""
        records = self.poll(timeout_ms).records
        return {name: [each.value for each in some] for name, some in records.items()}

    def later(self, milliseconds: int, what: Callable[[], Any]) -> None:
        """Do something after a while."""

        def steps() -> Steps:
            yield self.world.time.timeout(milliseconds)
            what()

        self.world.time.process(steps())


def test_it_returns_what_there_is_and_goes_on() -> None:
    """From its positions, partition by partition, each record once."""
    bench = Bench(max_poll_records=3)
    bench.produce("in-0", b"1", b"2", b"3", b"4")
    bench.produce("in-1", b"5")
    bench.start_at(in_0=1, in_1=0)
    assert bench.values() == {"in-0": [b"2", b"3", b"4"]}
    assert bench.consumer.position("in-0") == 4
    assert bench.values() == {"in-1": [b"5"]}
    assert bench.values() == {}


def test_a_poll_waits_no_longer_than_it_was_told() -> None:
    """And returns as soon as there is something."""
    bench = Bench()
    bench.start_at(in_0=0)
    assert bench.values(100) == {}
    assert bench.world.now == 100
    bench.later(50, lambda: bench.produce("in-0", b"1"))
    assert bench.values(1_000) == {"in-0": [b"1"]}
    assert 150 < bench.world.now < 170


def test_a_poll_ends_with_progress_that_has_no_record() -> None:
    """Only aborted data: the position moves, and the caller learns of it (KAFKA-12980)."""
    bench = Bench()
    bench.transaction("in-0", b"1", b"2", commit=False)
    bench.start_at(in_0=0)
    polled = bench.poll(10_000)
    assert polled == Polled({}, {"in-0": 3})
    assert bench.world.now < 100
    assert bench.consumer.position("in-0") == 3


def test_a_paused_partition_waits() -> None:
    """It is neither fetched nor returned, and keeps its place."""
    bench = Bench()
    bench.produce("in-0", b"1")
    bench.produce("in-1", b"2")
    bench.start_at(in_0=0, in_1=0)
    bench.consumer.pause(["in-0"])
    assert bench.values() == {"in-1": [b"2"]}
    assert bench.consumer.paused() == ["in-0"]
    bench.consumer.resume(["in-0"])
    assert bench.values() == {"in-0": [b"1"]}


def test_out_of_range_is_raised_for_its_partition_alone() -> None:
    """The other one goes on; without a new position, nothing more is fetched of it."""
    bench = Bench()
    bench.produce("in-0", b"1")
    bench.produce("in-1", b"2")
    bench.start_at(in_0=9, in_1=0)
    with pytest.raises(OffsetOutOfRangeError) as raised:
        bench.poll()
    assert raised.value.args[1] == "in-0"
    assert bench.values() == {"in-1": [b"2"]}
    assert bench.consumer.position("in-0") is None
    bench.consumer.seek("in-0", 0)
    assert bench.values() == {"in-0": [b"1"]}


class TestLag:
    """KIP-695, Consumer#currentLag."""

    def test_it_is_not_known_before_the_first_fetch(self) -> None:
        """As shipped, to ask makes it known, without a poll in between."""
        bench = Bench(mode="kafka")
        bench.produce("in-0", b"1", b"2")
        bench.start_at(in_0=0)
        bench.consumer.pause(["in-0"])
        assert bench.consumer.current_lag("in-0") is None
        assert bench.consumer.current_lag("in-0") is None
        bench.world.time.run(until=20)
        assert bench.consumer.current_lag("in-0") == 2

    def test_as_proposed_it_is_asked_of_nobody(self) -> None:
        """A fetch brings the end, even one without records."""
        bench = Bench()
        bench.start_at(in_0=0)
        bench.consumer.pause(["in-0"])
        assert bench.consumer.current_lag("in-0") is None
        bench.world.time.run(until=1_000)
        assert bench.consumer.current_lag("in-0") is None
        bench.consumer.resume(["in-0"])
        bench.poll()
        assert bench.consumer.current_lag("in-0") == 0

    def test_it_counts_from_the_position(self) -> None:
        """As of the last poll, up to the end that the fetch told."""
        bench = Bench(max_poll_records=2)
        bench.produce("in-0", b"1", b"2", b"3")
        bench.start_at(in_0=0)
        bench.poll()
        assert bench.consumer.current_lag("in-0") == 1
        bench.poll()
        assert bench.consumer.current_lag("in-0") == 0

    def test_a_fetch_that_was_not_polled_tells_nothing(self) -> None:
        """The end is taken over by the poll."""
        bench = Bench()
        bench.start_at(in_0=0)
        bench.poll()
        bench.produce("in-0", b"1")
        bench.world.time.run(until=bench.world.now + 50)
        assert bench.consumer.current_lag("in-0") == 0

    def test_an_open_transaction_pins_it(self) -> None:
        """Who reads committed is caught up with what is stable, however much follows."""
        for isolation, lag in (("read_committed", 0), ("read_uncommitted", 3)):
            bench = Bench(isolation=isolation, mode="kafka")
            bench.transaction("in-0", b"1", b"2", b"3", commit=None)
            bench.start_at(in_0=0)
            bench.consumer.pause(["in-0"])
            bench.consumer.current_lag("in-0")
            bench.world.time.run(until=20)
            assert bench.consumer.current_lag("in-0") == lag

    def test_a_seek_leaves_it_stale(self) -> None:
        """Even below 0, until the next fetch."""
        bench = Bench()
        bench.produce("in-0", b"1", b"2")
        bench.start_at(in_0=0)
        bench.poll()
        bench.produce("in-0", b"3", b"4", b"5")
        bench.consumer.seek("in-0", 5)
        assert bench.consumer.current_lag("in-0") == -3
        bench.poll()
        assert bench.consumer.current_lag("in-0") == 0

    def test_a_lost_answer_is_asked_for_again(self) -> None:
        """Once it has timed out (KAFKA-20131)."""
        bench = Bench(mode="kafka")
        bench.produce("in-0", b"1")
        bench.start_at(in_0=0)
        bench.consumer.pause(["in-0"])
        bench.network.cut("instance-0")
        assert bench.consumer.current_lag("in-0") is None
        bench.world.time.run(until=500)
        bench.network.heal("instance-0")
        assert bench.consumer.current_lag("in-0") is None
        bench.world.time.run(until=520)
        assert bench.consumer.current_lag("in-0") == 1

    def test_it_is_asked_of_assigned_partitions_alone(self) -> None:
        """Anything else is a mistake, which names what is assigned (KAFKA-9545)."""
        bench = Bench()
        bench.start_at(in_0=0)
        with pytest.raises(IllegalStateError, match=r"in-1 is not assigned .* one of: in-0"):
            bench.consumer.current_lag("in-1")


def test_what_is_assigned_again_keeps_its_state() -> None:
    """What was taken away is begun anew."""
    bench = Bench()
    bench.produce("in-0", b"1")
    bench.start_at(in_0=0, in_1=0)
    bench.poll()
    bench.consumer.assign(["in-0", "in-2"])
    assert bench.consumer.assignment == ["in-0", "in-2"]
    assert bench.consumer.position("in-0") == 1
    assert bench.consumer.position("in-2") is None
    bench.consumer.assign(["in-1"])
    bench.consumer.assign(["in-0"])
    assert bench.consumer.position("in-0") is None


@pytest.mark.parametrize("seed", range(20))
def test_each_record_comes_once_and_in_order(seed: int) -> None:
    """Whatever is lost, late, empty, paused or polled in small pieces."""
    bench = Bench(seed, activation=0.5, max_poll_records=4)
    bench.start_at(in_0=0, in_1=0)
    random = Choices.seeded(seed + 1000)
    produced: dict[str, list[bytes]] = {"in-0": [], "in-1": []}
    seen: dict[str, list[bytes | None]] = {"in-0": [], "in-1": []}
    for number in range(60):
        name = random.pick(["in-0", "in-1"])
        for _ in range(random.below(4)):
            produced[name].append(b"%d" % len(produced[name]))
            bench.produce(name, produced[name][-1])
        if random.chance(0.2):
            bench.consumer.pause([name])
        if random.chance(0.4) or number == 59:
            bench.consumer.resume(["in-0", "in-1"])
        for partition, values in bench.values(50).items():
            seen[partition] += values
    bench.world.faults.stop()
    for _ in range(60):
        for partition, values in bench.values(50).items():
            seen[partition] += values
    assert seen == produced
    assert bench.consumer.current_lag("in-0") == 0


def test_a_closed_consumer_fetches_nothing() -> None:
    """The world comes to rest without it."""
    bench = Bench()
    bench.start_at(in_0=0)
    bench.poll()
    bench.consumer.close()
    bench.produce("in-0", b"1")
    before = bench.world.trace.count
    bench.world.time.run(until=5_000)
    assert bench.consumer.assignment == []
    assert bench.world.trace.count == before


def test_what_was_out_of_range_is_forgotten_with_its_partition() -> None:
    """It is not ours any more, or has another position: nobody is told."""
    bench = Bench()
    bench.produce("in-0", b"1")
    bench.start_at(in_0=9, in_1=9)
    bench.world.time.run(until=100)
    bench.consumer.seek("in-0", 0)
    bench.consumer.assign(["in-0"])
    assert bench.values() == {"in-0": [b"1"]}
    assert bench.values() == {}


def test_a_poll_is_woken_up() -> None:
    """It comes back with nothing; and so does the next one, if nobody waits."""
    bench = Bench()
    bench.start_at(in_0=0)
    bench.later(30, bench.consumer.wakeup)
    assert bench.poll(1_000) == Polled({}, {})
    assert bench.world.now == 30
    bench.consumer.wakeup()
    assert bench.poll(1_000) == Polled({}, {})
    assert bench.world.now == 30
    assert bench.poll(1_000) == Polled({}, {})
    assert bench.world.now == 1_030


def test_partitions_are_added() -> None:
    """What was assigned keeps its position."""
    bench = Bench()
    bench.start_at(in_0=0)
    bench.produce("in-0", b"1")
    assert bench.values() == {"in-0": [b"1"]}
    bench.consumer.add(["in-2", "in-0"])
    assert bench.consumer.assignment == ["in-0", "in-2"]
    assert bench.consumer.position("in-0") == 1
    assert bench.consumer.position("in-2") is None


def test_what_has_nothing_is_not_fetched() -> None:
    """Once the brokers have said so, they tell when there is something again."""
    bench = Bench()
    asked: list[str] = []
    fetch = bench.cluster.fetch

    def noted(partition: str, *more: Any) -> Any:
        asked.append(partition)
        return fetch(partition, *more)

    bench.cluster.fetch = noted  # type: ignore[method-assign]
    bench.start_at(in_0=0, in_1=0, in_2=0)
    bench.poll(10_000)
    assert sorted(asked) == ["in-0", "in-1", "in-2"]
    asked.clear()
    bench.produce("in-1", b"1", b"2")
    assert bench.values() == {"in-1": [b"1", b"2"]}
    bench.poll(10_000)
    # Once for the records, and once to learn that there are no more.
    assert asked == ["in-1", "in-1"]
