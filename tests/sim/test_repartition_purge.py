"""The purge of repartition topics: only what is committed, only there, one request at a time."""

from __future__ import annotations

from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.choices import Choices
from streamproof.sim.clients.repartition_purge import Purge
from streamproof.sim.network import Network
from streamproof.sim.world import World


class Bench:
    """A repartition topic and another one, with ten records each."""

    def __init__(self) -> None:
        self.world = World(Choices.seeded(0), activation=0)
        self.cluster = Cluster(self.world, {"in": 1, "by-key-repartition": 2})
        for name in self.cluster.logs:
            records = [{"key": b"k", "value": b"v", "timestamp": 0}] * 10
            self.cluster.produce(name, records)
        self.network = Network(self.world, request_timeout_ms=400)
        self.purge = Purge(
            self.world,
            self.world.host("instance-0"),
            self.network,
            self.cluster,
            ["by-key-repartition"],
            interval_ms=1_000,
        )

    def wait(self, milliseconds: int) -> None:
        """Let time pass, and look every 100 ms whether it is time to purge."""
        for _ in range(milliseconds // 100):
            self.world.time.run(until=self.world.now + 100)
            self.purge.maybe_purge()
        self.world.time.run(until=self.world.now + 50)

    @property
    def starts(self) -> dict[str, int]:
        """Where the logs begin."""
        return {name: log.log_start for name, log in sorted(self.cluster.logs.items())}


def test_what_is_committed_goes() -> None:
    """Of the repartition topic, and of no other; not before it is time, and no further."""
    bench = Bench()
    bench.purge.committed({"by-key-repartition-0": 4, "in-0": 7})
    bench.wait(900)
    assert set(bench.starts.values()) == {0}
    bench.wait(300)
    assert bench.starts == {"by-key-repartition-0": 4, "by-key-repartition-1": 0, "in-0": 0}
    mark = "committed records of a repartition topic were deleted"
    assert bench.world.marks.hits[mark] == 1
    bench.wait(5_000)
    assert bench.world.marks.hits[mark] == 1
    bench.purge.committed({"by-key-repartition-0": 5})
    bench.purge.committed({"by-key-repartition-0": 6})
    bench.wait(1_200)
    assert bench.starts["by-key-repartition-0"] == 6


def test_a_purge_that_is_not_answered() -> None:
    """Nothing else is asked meanwhile; a later one takes more."""
    bench = Bench()
    bench.network.cut("instance-0")
    bench.purge.committed({"by-key-repartition-0": 4})
    bench.wait(1_200)
    bench.purge.committed({"by-key-repartition-0": 5})
    bench.purge.maybe_purge()
    bench.wait(200)
    bench.network.heal("instance-0")
    bench.wait(100)
    assert bench.starts["by-key-repartition-0"] == 0
    bench.wait(1_500)
    assert bench.starts["by-key-repartition-0"] == 5


def test_more_than_there_is() -> None:
    """The brokers refuse it, and the thread does not notice."""
    bench = Bench()
    bench.purge.committed({"by-key-repartition-0": 40})
    bench.wait(1_200)
    assert set(bench.starts.values()) == {0}
    bench.purge.committed({"by-key-repartition-1": 1})
    bench.wait(1_200)
    assert bench.starts["by-key-repartition-1"] == 1
