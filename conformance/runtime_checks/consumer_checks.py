"""A consumer in a small world: its known lag (KIP-695), and the records it reads."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from simpy.events import Event

from streamproof.conformance.runtime_checks.probe import Probe, scripted
from streamproof.sim.actor_hosts import Host, Steps
from streamproof.sim.broker_errors import OffsetOutOfRangeError
from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.brokers.partition_log import Isolation
from streamproof.sim.clients.consumer import MAX_POLL_RECORDS, Consumer, IllegalStateError
from streamproof.sim.decisions.idling import Mode
from streamproof.sim.network import Network, at_once
from streamproof.sim.world import World

__all__: list[str] = []

T = TypeVar("T")

REQUEST_TIMEOUT_MS = 400

MODES: tuple[Mode, ...] = ("proposal", "kafka")
"""The rule of the proposal, and the one that Kafka ships."""


class _NotedNetwork(Network):
    """A network that takes note of each request."""

    def __init__(self, world: World) -> None:
        super().__init__(world, request_timeout_ms=REQUEST_TIMEOUT_MS)
        self.requests: list[str] = []

    def call(
        self,
        sender: Host,
        what: str,
        handle: Callable[[], T],
        *,
        queue_ms: Callable[[], int] = at_once,
    ) -> Generator[Event, Any, T]:
        """Send a request, and wait for the reply."""
        self.requests.append(what)
        return (yield from super().call(sender, what, handle, queue_ms=queue_ms))


class _Bench:
    """A consumer of one partition, which begins at its start."""

    def __init__(
        self,
        probe: Probe,
        isolation: Isolation = "read_committed",
        *,
        mode: Mode = "proposal",
        max_poll_records: int = MAX_POLL_RECORDS,
    ) -> None:
        self.world = probe.world()
        self.cluster = Cluster(self.world, {"in": 2})
        self.network = _NotedNetwork(self.world)
        self.host = self.world.host("instance-0")
        self.consumer = Consumer(
            self.world,
            self.host,
            self.network,
            self.cluster,
            isolation=isolation,
            max_poll_records=max_poll_records,
            mode=mode,
        )
        self.consumer.assign(["in-0"])

    def produce(self, count: int, *, partition: str = "in-0", **more: Any) -> None:
        """Append records."""
        some = [{"key": b"k", "value": b"v", "timestamp": 0, **more} for _ in range(count)]
        self.cluster.produce(partition, some)

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
    for mode in MODES:
        bench = _Bench(probe, mode=mode)
        bench.produce(3)
        bench.consumer.pause(["in-0"])
        for _ in range(3):
            probe.expect(None, bench.consumer.current_lag("in-0"))
            bench.wait()


@scripted("LAG-002")
def empty_during_a_reset(probe: Probe) -> None:
    """Read the lag when a fetch found the position out of range, and until the next seek."""
    for mode in MODES:
        bench = _Bench(probe, mode=mode)
        bench.produce(3)
        bench.consumer.seek("in-0", 0)
        probe.expect(3, bench.poll())
        bench.consumer.seek("in-0", 7)
        try:
            bench.poll()
        except OffsetOutOfRangeError:
            pass
        else:
            probe.demand("an offset reset", "a poll that returns", holds=False)
        # The end is known all the time.
        for _ in range(3):
            probe.expect(None, bench.consumer.current_lag("in-0"))
            bench.wait()
        bench.consumer.seek("in-0", 1)
        probe.expect(2, bench.consumer.current_lag("in-0"))


@scripted("LAG-002")
def empty_after_a_new_assignment(probe: Probe) -> None:
    """Read the lag of a partition that was taken away and given back."""
    for mode in MODES:
        bench = _Bench(probe, mode=mode)
        bench.produce(3)
        bench.consumer.seek("in-0", 0)
        bench.poll()
        probe.expect(0, bench.consumer.current_lag("in-0"))
        bench.consumer.assign(["in-1"])
        bench.consumer.assign(["in-0", "in-1"])
        for _ in range(3):
            probe.expect(None, bench.consumer.current_lag("in-0"))
            bench.wait()


@scripted("LAG-001")
def counts_what_was_not_polled(probe: Probe) -> None:
    """Read the lags of two partitions, while polls return records one by one, and more come."""
    for mode in MODES:
        bench = _Bench(probe, mode=mode, max_poll_records=1)
        both = ("in-0", "in-1")
        bench.consumer.assign(both)
        for each in both:
            bench.produce(2, partition=each)
            bench.consumer.seek(each, 0)
        bench.wait()
        for polled in range(1, 5):
            probe.expect(1, bench.poll())
            bench.wait()
            for each in both:
                position = bench.consumer.position(each)
                left = None if position is None else 2 - position
                probe.expect((polled, each, left), (polled, each, bench.consumer.current_lag(each)))
        probe.expect([2, 2], [bench.consumer.position(each) for each in both])
        for each in both:
            bench.produce(3, partition=each)
        bench.wait()
        for polled in range(5, 11):
            probe.expect(1, bench.poll())
            for each in both:
                position, lag = bench.consumer.position(each) or 0, bench.consumer.current_lag(each)
                # Before the next polled fetch, the consumer may know the earlier end alone.
                if position > 2:
                    probe.expect((polled, each, 5 - position), (polled, each, lag))
        probe.expect([0, 0], [bench.consumer.current_lag(each) for each in both])


@scripted("LAG-004")
def never_blocks(probe: Probe) -> None:
    """Read the lag while the brokers are unreachable, before and after the first fetch."""
    for mode in MODES:
        bench = _Bench(probe, mode=mode)
        bench.produce(3)
        bench.consumer.seek("in-0", 0)
        bench.network.cut("instance-0")
        probe.expect((None, 0), (bench.consumer.current_lag("in-0"), bench.world.now))
        bench.network.heal("instance-0")
        bench.wait(REQUEST_TIMEOUT_MS + 100)
        probe.expect(3, bench.poll())
        bench.network.cut("instance-0")
        asked = bench.world.now
        probe.expect((0, asked), (bench.consumer.current_lag("in-0"), bench.world.now))


@scripted("LAG-004")
def asks_for_nothing_it_knows(probe: Probe) -> None:
    """Read known lags again and again, and that of a partition without a position."""
    for mode in MODES:
        bench = _Bench(probe, mode=mode, max_poll_records=1)
        bench.consumer.assign(["in-0", "in-1"])
        bench.produce(3)
        bench.consumer.seek("in-0", 0)
        # As shipped, the consumer asks once for an unknown end, with or without a position.
        probe.expect(None, bench.consumer.current_lag("in-1"))
        for left in (2, 1, 0):
            bench.poll()
            # Nothing more is to be fetched then, so that a further request would be for the lag.
            bench.wait(REQUEST_TIMEOUT_MS)
            before = list(bench.network.requests)
            for _ in range(3):
                probe.expect(left, bench.consumer.current_lag("in-0"))
                probe.expect(None, bench.consumer.current_lag("in-1"))
                bench.wait()
            probe.expect(before, bench.network.requests)


@scripted("LAG-012")
def sends_no_request(probe: Probe) -> None:
    """Read an unknown lag again and again, then let a fetch bring the end."""
    bench = _Bench(probe, max_poll_records=1)
    bench.produce(3)
    bench.consumer.seek("in-0", 0)
    bench.consumer.pause(["in-0"])
    bench.wait()
    before = list(bench.network.requests)
    for _ in range(3):
        probe.expect(None, bench.consumer.current_lag("in-0"))
        bench.wait()
    probe.expect(before, bench.network.requests)
    bench.consumer.resume(["in-0"])
    bench.poll()
    probe.expect(2, bench.consumer.current_lag("in-0"))


@scripted("LAG-003")
def asks_in_the_background(probe: Probe) -> None:
    """Read an unknown lag while the brokers are unreachable, and again when they are back."""
    bench = _Bench(probe, mode="kafka")
    bench.produce(3)
    bench.consumer.seek("in-0", 0)
    bench.consumer.pause(["in-0"])
    bench.network.cut("instance-0")
    for _ in range(2):
        probe.expect((None, 0), (bench.consumer.current_lag("in-0"), bench.world.now))
    bench.wait(REQUEST_TIMEOUT_MS + 100)
    bench.network.heal("instance-0")
    # The answer to the first request was lost, so this call requests the end again (KAFKA-20131).
    probe.expect(None, bench.consumer.current_lag("in-0"))
    bench.wait()
    probe.expect(3, bench.consumer.current_lag("in-0"))
    probe.expect(2, bench.network.requests.count("list offsets"))


@scripted("LAG-005")
def up_to_what_is_stable(probe: Probe) -> None:
    """Read the lag behind an open transaction, under read_committed and read_uncommitted."""
    ends: dict[Isolation, int] = {"read_committed": 1, "read_uncommitted": 4}
    for isolation, lag in ends.items():
        for mode in MODES:
            bench = _Bench(probe, isolation, mode=mode, max_poll_records=1)
            bench.produce(2)
            bench.transaction(3, commit=None)
            bench.consumer.seek("in-0", 0)
            probe.expect(1, bench.poll())
            probe.expect((isolation, lag), (isolation, bench.consumer.current_lag("in-0")))


@scripted("LAG-003")
def asks_for_what_is_stable(probe: Probe) -> None:
    """Request the end behind an open transaction, under read_committed and read_uncommitted."""
    ends: dict[Isolation, int] = {"read_committed": 2, "read_uncommitted": 5}
    for isolation, lag in ends.items():
        bench = _Bench(probe, isolation, mode="kafka")
        bench.produce(2)
        bench.transaction(3, commit=None)
        bench.consumer.seek("in-0", 0)
        bench.consumer.pause(["in-0"])
        bench.consumer.current_lag("in-0")
        bench.wait()
        probe.expect((isolation, lag), (isolation, bench.consumer.current_lag("in-0")))


@scripted("LAG-006")
def a_seek_leaves_it_stale(probe: Probe) -> None:
    """Seek back, and beyond the end that the last fetch reported, and poll."""
    for mode in MODES:
        bench = _Bench(probe, mode=mode)
        bench.produce(2)
        bench.consumer.seek("in-0", 0)
        bench.poll()
        bench.consumer.seek("in-0", 0)
        probe.expect(2, bench.consumer.current_lag("in-0"))
        bench.poll()
        bench.produce(3)
        bench.consumer.seek("in-0", 5)
        probe.expect(-3, bench.consumer.current_lag("in-0"))
        bench.poll()
        probe.expect(0, bench.consumer.current_lag("in-0"))


@scripted("LAG-007")
def only_of_what_is_assigned(probe: Probe) -> None:
    """Read the lag of a partition that never was assigned, and of one that was."""
    for mode in MODES:
        bench = _Bench(probe, mode=mode)
        bench.produce(3)
        _expect_refused(probe, bench.consumer, "in-1")
        bench.consumer.seek("in-0", 0)
        bench.poll()
        bench.consumer.assign(["in-1"])
        _expect_refused(probe, bench.consumer, "in-0")
        bench.consumer.close()
        _expect_refused(probe, bench.consumer, "in-1")


def _expect_refused(probe: Probe, consumer: Consumer, partition: str) -> None:
    """Demand the error for a wrong state."""
    try:
        lag = consumer.current_lag(partition)
    except IllegalStateError:
        return
    except Exception as error:
        probe.demand("IllegalStateError", f"{type(error).__name__}", holds=False)
    else:
        probe.demand("IllegalStateError", f"{lag}", holds=False)


@scripted("LAG-011")
def markers_are_passed(probe: Probe) -> None:
    """Read up to the end of a committed and of an aborted transaction, and read the lag."""
    readers: tuple[Isolation, ...] = ("read_committed", "read_uncommitted")
    for isolation in readers:
        for commit in (True, False):
            for mode in MODES:
                bench = _Bench(probe, isolation, mode=mode)
                bench.transaction(2, commit=commit)
                bench.consumer.seek("in-0", 0)
                seen = 2 if commit or isolation == "read_uncommitted" else 0
                probe.expect((isolation, commit, seen), (isolation, commit, bench.poll()))
                probe.expect(0, bench.consumer.current_lag("in-0"))


@scripted("EOS-004")
def only_what_is_committed(probe: Probe) -> None:
    """Poll records of open, aborted and committed transactions."""
    for commit, expected in ((None, 0), (False, 0), (True, 2)):
        bench = _Bench(probe)
        bench.transaction(2, commit=commit)
        bench.consumer.seek("in-0", 0)
        probe.expect((commit, expected), (commit, bench.poll()))
