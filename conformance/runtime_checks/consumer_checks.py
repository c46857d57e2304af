"""A consumer in a small world: its known lag (KIP-695), and the records it reads."""

from __future__ import annotations

from typing import Any

from streamproof.conformance.runtime_checks.probe import Probe, scripted
from streamproof.sim.actor_hosts import Steps
from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.brokers.partition_log import Isolation
from streamproof.sim.clients.consumer import Consumer
from streamproof.sim.network import Network
from streamproof.stores.errors import InvalidArgumentError

__all__: list[str] = []

REQUEST_TIMEOUT_MS = 400


class _Bench:
    """A consumer of one partition, which begins at its start."""

    def __init__(self, probe: Probe, isolation: Isolation = "read_committed") -> None:
        self.world = probe.world()
        self.cluster = Cluster(self.world, {"in": 2})
        self.network = Network(self.world, request_timeout_ms=REQUEST_TIMEOUT_MS)
        self.host = self.world.host("instance-0")
        self.consumer = Consumer(
            self.world, self.host, self.network, self.cluster, isolation=isolation
        )
        self.consumer.assign(["in-0"])

    def produce(self, count: int, **more: Any) -> None:
        """Append records."""
        some = [{"key": b"k", "value": b"v", "timestamp": 0, **more} for _ in range(count)]
        self.cluster.produce("in-0", some)

    def transaction(self, count: int, *, commit: bool | None) -> None:
        """A transaction with this many records. ``None`` leaves it open."""
        for sequence in range(count):
            self.produce(1, producer=7, sequence=sequence, transactional=True)
        if commit is not None:
            self.cluster.logs["in-0"].end_transaction(7, commit=commit, timestamp=0)
            self.cluster.tell_readers("in-0")

    def poll(self) -> int:
        """The number of records that one poll returns."""
        found: list[int] = []

        def steps() -> Steps:
            polled = yield from self.consumer.poll(100)
            found.append(sum(map(len, polled.records.values())))

        self.world.time.run(until=self.host.start(steps()))
        return found[0]

    def wait(self, milliseconds: int = 50) -> None:
        """Let time pass."""
        self.world.time.run(until=self.world.now + milliseconds)


@scripted("LAG-002")
def empty_without_a_position(probe: Probe) -> None:
    """Read the lag of an assigned partition without a position."""
    bench = _Bench(probe)
    bench.produce(3)
    bench.consumer.pause(["in-0"])
    for _ in range(3):
        probe.expect(None, bench.consumer.current_lag("in-0"))
        bench.wait()


@scripted("LAG-004")
def never_blocks(probe: Probe) -> None:
    """Read the lag while the brokers are unreachable, and again when they are back."""
    bench = _Bench(probe)
    bench.produce(3)
    bench.consumer.seek("in-0", 0)
    bench.consumer.pause(["in-0"])
    bench.network.cut("instance-0")
    probe.expect((None, 0), (bench.consumer.current_lag("in-0"), bench.world.now))
    bench.wait(REQUEST_TIMEOUT_MS + 100)
    bench.network.heal("instance-0")
    asked = bench.world.now
    # The answer to the first request was lost, so this call requests the end again (KAFKA-20131).
    probe.expect((None, asked), (bench.consumer.current_lag("in-0"), bench.world.now))
    bench.wait()
    probe.expect(3, bench.consumer.current_lag("in-0"))


@scripted("LAG-005")
def up_to_what_is_stable(probe: Probe) -> None:
    """Read the lag behind an open transaction, under read_committed and read_uncommitted."""
    ends: dict[Isolation, int] = {"read_committed": 2, "read_uncommitted": 5}
    for isolation, lag in ends.items():
        bench = _Bench(probe, isolation)
        bench.produce(2)
        bench.transaction(3, commit=None)
        bench.consumer.seek("in-0", 0)
        bench.consumer.pause(["in-0"])
        bench.consumer.current_lag("in-0")
        bench.wait()
        probe.expect((isolation, lag), (isolation, bench.consumer.current_lag("in-0")))


@scripted("LAG-006")
def a_seek_leaves_it_stale(probe: Probe) -> None:
    """Seek beyond the end that the last fetch reported, and poll."""
    bench = _Bench(probe)
    bench.produce(2)
    bench.consumer.seek("in-0", 0)
    bench.poll()
    bench.produce(3)
    bench.consumer.seek("in-0", 5)
    probe.expect(-3, bench.consumer.current_lag("in-0"))
    bench.poll()
    probe.expect(0, bench.consumer.current_lag("in-0"))


@scripted("LAG-007")
def only_of_what_is_assigned(probe: Probe) -> None:
    """Read the lag of an unassigned partition."""
    bench = _Bench(probe)
    try:
        lag = bench.consumer.current_lag("in-1")
    except InvalidArgumentError:
        return
    probe.demand("a refusal", f"{lag}", holds=False)


@scripted("LAG-011")
def markers_are_passed(probe: Probe) -> None:
    """Read up to the end of a committed transaction, and read the lag."""
    bench = _Bench(probe)
    bench.transaction(2, commit=True)
    bench.consumer.seek("in-0", 0)
    probe.expect(2, bench.poll())
    probe.expect(0, bench.consumer.current_lag("in-0"))


@scripted("EOS-004")
def only_what_is_committed(probe: Probe) -> None:
    """Poll records of open, aborted and committed transactions."""
    for commit, expected in ((None, 0), (False, 0), (True, 2)):
        bench = _Bench(probe)
        bench.transaction(2, commit=commit)
        bench.consumer.seek("in-0", 0)
        probe.expect((commit, expected), (commit, bench.poll()))
