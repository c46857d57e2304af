"""What brokers do by themselves: compaction, retention, fail-over, and ids that expire."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simpy.events import Event as SimEvent

from streamproof.errors import UsageError
from streamproof.sim.broker_errors import (
    BrokerError,
    CoordinatorNotAvailableError,
    InvalidPidMappingError,
    OffsetOutOfRangeError,
    RequestTimeoutError,
)
from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.brokers.partition_log import PartitionLog
from streamproof.sim.brokers.upkeep import TopicConfig
from streamproof.sim.choices import Choices
from streamproof.sim.clients.consumer import Consumer
from streamproof.sim.clients.producer import Producer
from streamproof.sim.network import Network
from streamproof.sim.trace import Event
from streamproof.sim.world import World
from streamproof.stores.errors import InvalidArgumentError


class Bench:
    """Brokers of whose faults one certainly happens."""

    def __init__(
        self, site: str, seed: int = 0, *, probability: float = 1.0, **config: Any
    ) -> None:
        self.events: list[Event] = []
        sites = dict.fromkeys(World(Choices.seeded(0)).faults.fired, 0.0) | {site: probability}
        self.world = World(Choices.seeded(seed), [self.events.append], sites=sites, activation=1)
        configs = {"table": TopicConfig(**config)} if config else None
        self.cluster = Cluster(self.world, {"table": 1, "out": 1}, configs)
        self.log = self.cluster.logs["table-0"]
        self.network = Network(self.world)
        self.host = self.world.host("instance-0")

    def write(self, key: bytes, value: bytes | None, **more: Any) -> None:
        """One record, with the time of now."""
        record = {"key": key, "value": value, "timestamp": self.world.now, **more}
        self.cluster.produce("table-0", [record])

    def wait(self, milliseconds: int) -> None:
        """Let time pass."""
        self.world.time.run(until=self.world.now + milliseconds)

    def kinds(self) -> list[str]:
        """What happened, by kind."""
        return [each.kind for each in self.events]

    def call(self, what: str, handle: Any, outcome: list[Any]) -> None:
        """Send a request in the background, and keep what became of it."""

        def steps() -> Generator[SimEvent, Any, None]:
            try:
                outcome.append((yield from self.network.call(self.host, what, handle)))
            except BrokerError as error:
                outcome.append(error)

        self.host.start(steps())


def content(log: PartitionLog) -> dict[bytes, bytes]:
    """What a table has that is made of a log."""
    rows: dict[bytes, bytes] = {}
    for each in log.fetch(log.log_start, "read_committed", max(log.end, 1)).records:
        if each.value is None:
            rows.pop(each.key, None)
        else:
            rows[each.key] = each.value
    return rows


# Compaction.


@pytest.mark.parametrize("seed", range(20))
def test_a_compacted_log_says_the_same(seed: int) -> None:
    """However much of it is cleaned, and its end stays where it was."""
    bench = Bench("broker.compacted", seed, compacted=True)
    random = Choices.seeded(seed)
    for _ in range(40):
        bench.write(b"k%d" % random.below(4), random.pick([b"1", b"2", b"3", None]))
        bench.wait(1_000)
    found, end = content(bench.log), bench.log.end
    bench.wait(60_000)
    assert content(bench.log) == found
    assert bench.log.end == end
    assert len(bench.log.entries) < 40
    assert bench.world.marks.hits["a changelog was compacted"] >= 1
    assert "log.compacted" in bench.kinds()


def test_nothing_of_an_open_transaction_is_compacted() -> None:
    """Nor anything behind its first record: it may be committed, or aborted."""
    bench = Bench("broker.compacted", compacted=True, delete_retention_ms=0)
    bench.write(b"k", b"1")
    bench.write(b"k", b"2", producer=7, transactional=True)
    bench.write(b"k", b"3")
    bench.wait(200_000)
    assert [each.value for each in bench.log.entries] == [b"1", b"2", b"3"]
    bench.log.end_transaction(7, commit=False, timestamp=bench.world.now)
    bench.wait(200_000)
    assert [each.value for each in bench.log.entries if not each.control] == [b"3"]


def test_tombstones_stay_for_a_while() -> None:
    """At least so long that whoever restores meanwhile sees them."""
    bench = Bench("broker.compacted", compacted=True, delete_retention_ms=100_000)
    bench.write(b"k", b"1")
    bench.write(b"k", None)
    bench.write(b"x", b"1")
    bench.write(b"x", b"2")
    bench.wait(90_000)
    assert b"k" in {each.key for each in bench.log.entries}
    assert bench.log.tombstones_end == 0
    bench.wait(300_000)
    assert b"k" not in {each.key for each in bench.log.entries}
    assert bench.log.tombstones_end == 2
    assert content(bench.log) == {b"x": b"2"}


def test_other_topics_are_not_compacted() -> None:
    """Only those that are configured."""
    bench = Bench("broker.compacted")
    bench.write(b"k", b"1")
    bench.write(b"k", b"2")
    bench.wait(100_000)
    assert len(bench.log.entries) == 2


records = st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 9)), max_size=25)


@given(records, st.integers(0, 30), st.sampled_from([0, 1_000]))
def test_a_part_of_a_log_is_compacted(
    some: list[tuple[int, bool, int]], before: int, retention_ms: int
) -> None:
    """What is not looked at stays as it is, and the content is the same."""
    log = PartitionLog()
    for key, deleted, timestamp in some:
        log.append(b"%d" % key, None if deleted else b"v%d" % log.end, timestamp)
    entries, found = log.entries, content(log)
    removed = log.compact(delete_retention_ms=retention_ms, before=before)
    assert content(log) == found
    if not retention_ms:
        # Only the second compaction may take a tombstone.
        removed += log.compact(delete_retention_ms=retention_ms, before=before)
        assert content(log) == found
    assert removed == len(entries) - len(log.entries)
    assert [each for each in log.entries if each.offset >= before] == entries[before:]
    # A second time there is nothing left to do.
    assert log.compact(delete_retention_ms=retention_ms, before=before) == 0


@given(st.lists(st.integers(0, 30), max_size=20), st.integers(0, 30), st.integers(1, 10))
def test_whole_segments_are_deleted(times: list[int], limit: int, segment_ms: int) -> None:
    """A segment goes only if all its records are old, and the last one is not compacted."""
    log = PartitionLog()
    for each in times:
        log.append(b"k", b"v", each)
    bases = [0]
    for offset, each in enumerate(times):
        if each - times[bases[-1]] > segment_ms:
            bases.append(offset)
    start = log.first_kept(limit, segment_ms)
    assert all(each < limit for each in times[:start])
    assert start == len(times) or start in bases
    following = [each for each in (*bases, len(times)) if each > start]
    assert not following or any(each >= limit for each in times[start : following[0]])
    assert log.active_segment(segment_ms) == bases[-1]


# Retention.


def test_old_records_go() -> None:
    """With everything before them, and never those that are young."""
    bench = Bench("broker.retention", retention_ms=100_000)
    bench.write(b"a", b"1")
    bench.wait(50_000)
    bench.write(b"b", b"1")
    bench.wait(75_000)
    assert [each.key for each in bench.log.entries] == [b"b"]
    assert bench.log.log_start == 1
    assert bench.kinds().count("log.deleted") == 1
    with pytest.raises(OffsetOutOfRangeError):
        bench.cluster.fetch("table-0", 0, "read_committed", 1)


@given(st.lists(st.integers(0, 9), max_size=20), st.integers(0, 10))
def test_what_is_kept_begins_with_the_first_young_record(times: list[int], limit: int) -> None:
    """Whatever the order of the timestamps."""
    log = PartitionLog()
    for each in times:
        log.append(b"k", b"v", each)
    start = log.first_kept(limit)
    assert all(each < limit for each in times[:start])
    assert start == len(times) or times[start] >= limit


def test_an_open_transaction_is_kept() -> None:
    """However old it is."""
    log = PartitionLog()
    log.append(b"k", b"v", 0)
    log.append(b"k", b"v", 0, producer=7, transactional=True)
    log.append(b"k", b"v", 0)
    assert log.first_kept(100) == 1


def test_records_are_deleted_when_somebody_asks() -> None:
    """For good, and not twice; nobody can ask for more than there is."""
    bench = Bench("broker.retention")
    for value in (b"1", b"2", b"3"):
        bench.write(b"k", value)
    assert bench.cluster.delete_records("table-0", 2) == 2
    assert bench.cluster.delete_records("table-0", 1) == 2
    assert [each.value for each in bench.log.entries] == [b"3"]
    assert bench.kinds().count("log.deleted") == 1
    with pytest.raises(OffsetOutOfRangeError, match="its end is 3"):
        bench.cluster.delete_records("table-0", 4)


# Quotas.


def test_a_reader_beyond_its_quota_waits() -> None:
    """It gets nothing for a while, and everything in the end."""
    bench = Bench("broker.throttled", probability=0.7)
    for number in range(20):
        bench.write(b"k", b"%d" % number)
    consumer = Consumer(
        bench.world, bench.host, bench.network, bench.cluster, isolation="read_committed"
    )
    consumer.assign(["table-0"])
    consumer.seek("table-0", 0)
    polled: list[Any] = []

    def read() -> Generator[SimEvent, Any, None]:
        while not polled:
            found = yield from consumer.poll(100)
            polled.extend(found.records.get("table-0", []))

    bench.host.start(read())
    bench.wait(30_000)
    assert len(polled) == 20
    assert bench.world.marks.hits["a fetch was throttled"] >= 1


# Coordinators that move.


def away(bench: Bench, what: str) -> None:
    """Wait until a coordinator moves."""
    while True:
        bench.wait(1)
        last = bench.events[-1] if bench.events else None
        if last and last.kind == "coordinator.away" and last.attributes["what"] == what:
            return


@pytest.mark.parametrize("what", ["transactions", "groups"])
def test_a_coordinator_that_is_away_refuses_and_comes_back(what: str) -> None:
    """Clients try again by themselves; the other coordinator is not concerned."""
    bench = Bench("broker.failed_over")
    away(bench, what)
    group = bench.cluster.group("app")
    calls = {
        "groups": lambda: group.join("", "me", bench.world.now),
        "transactions": lambda: bench.cluster.init_producer("id", 10_000),
    }
    with pytest.raises(CoordinatorNotAvailableError):
        calls[what]()
    (other,) = set(calls) - {what}
    assert calls[other]()
    outcome: list[Any] = []
    bench.call("anything", calls[what], outcome)
    bench.wait(8_200)
    assert not isinstance(outcome[0], BrokerError)
    assert bench.world.marks.hits["a request came to a coordinator that was away"] >= 1


def test_who_waits_too_long_gives_up() -> None:
    """As with any request that is not answered."""
    bench = Bench("broker.failed_over", probability=0.0)
    bench.cluster.transactions.is_away = True
    outcome: list[Any] = []
    bench.call("end", lambda: bench.cluster.init_producer("id", 10_000), outcome)
    bench.wait(31_000)
    assert isinstance(outcome[0], RequestTimeoutError)


@pytest.mark.parametrize("what", ["transactions", "groups"])
def test_markers_go_on_when_the_coordinator_is_back(what: str) -> None:
    """What was decided stays decided."""
    bench = Bench("broker.failed_over", probability=0.0)
    cluster = bench.cluster
    identity = cluster.init_producer("id", 10_000)
    member = cluster.group("app").join("", "me", 0)
    cluster.group("app").advance(0)
    cluster.transactions.add("id", identity, ["out-0"], 0)
    cluster.add_offsets("id", identity, "app", (member, 1), {"table-0": 5})
    cluster.end_transaction("id", identity, commit=True)
    if what == "transactions":
        cluster.transactions.is_away = True
    else:
        cluster.groups_are_away = cluster.group("app").is_away = True
    bench.wait(3_000)
    # Those of partitions do not wait for the coordinator of groups.
    assert cluster.logs["out-0"].end == (0 if what == "transactions" else 1)
    cluster.transactions.is_away = cluster.groups_are_away = False
    cluster.group("app").is_away = False
    cluster.markers_due()
    bench.wait(100)
    assert cluster.logs["out-0"].end == 1
    assert cluster.group("app").committed("table-0", require_stable=True) == 5


def test_nobody_is_late_while_the_coordinator_is_away() -> None:
    """Neither a member, whose session begins anew, nor a transaction."""
    bench = Bench("broker.failed_over", probability=0.0)
    cluster = bench.cluster
    group = cluster.group("app")
    group.join("", "me", 0, session_timeout_ms=3_000)
    identity = cluster.init_producer("id", 3_000)
    cluster.transactions.add("id", identity, ["out-0"], 0)
    cluster.transactions.is_away = group.is_away = True
    bench.wait(10_000)
    assert len(group.members) == 1
    assert cluster.transactions.pending_markers() == []
    cluster.transactions.is_away = group.is_away = False
    group.hear_of_all(bench.world.now)
    bench.wait(2_000)
    assert len(group.members) == 1
    assert "transaction.timed_out" in bench.kinds()
    bench.wait(3_000)
    assert group.members == {}


# Transactional ids that expire.


def test_an_idle_transactional_id_expires() -> None:
    """Its producer is refused, as a fenced one, and another one can begin."""
    bench = Bench("broker.transactional_id_expired")
    cluster = bench.cluster
    identity = cluster.init_producer("id", 10_000)
    bench.wait(1_500)
    assert cluster.transactions.of("id") is not None
    bench.wait(5_000)
    assert cluster.transactions.of("id") is None
    assert bench.world.marks.hits["a transactional id expired"] == 1
    with pytest.raises(InvalidPidMappingError, match="has expired"):
        cluster.transactions.add("id", identity, ["out-0"], bench.world.now)
    another = cluster.init_producer("id", 10_000)
    assert another.producer != identity.producer
    with pytest.raises(InvalidPidMappingError):
        cluster.end_transaction("id", identity, commit=True)


def test_a_transactional_id_in_use_does_not_expire() -> None:
    """Not as long as a transaction is open, nor soon after its end."""
    bench = Bench("broker.transactional_id_expired")
    cluster = bench.cluster
    identity = cluster.init_producer("id", 60_000)
    cluster.transactions.add("id", identity, ["out-0"], 0)
    bench.wait(30_000)
    cluster.end_transaction("id", identity, commit=True)
    bench.wait(1_000)
    assert cluster.transactions.of("id") is not None
    bench.wait(10_000)
    assert cluster.transactions.of("id") is None


def test_a_producer_notices_that_its_id_has_expired() -> None:
    """With the next record: it has to be replaced."""
    bench = Bench("broker.transactional_id_expired")
    producer = Producer(
        bench.world, bench.host, bench.network, bench.cluster, transactional_id="id"
    )
    errors: list[BrokerError] = []

    def steps() -> Generator[SimEvent, Any, None]:
        yield from producer.init()
        yield bench.world.time.timeout(10_000)
        producer.send("out-0", b"k", b"v", 0)
        try:
            yield from producer.commit()
        except BrokerError as error:
            errors.append(error)

    bench.host.start(steps())
    bench.wait(20_000)
    assert [type(each) for each in errors] == [InvalidPidMappingError]
    assert bench.cluster.logs["out-0"].end == 0


# What is off, and what is wrong.


def test_without_faults_nothing_of_it_happens() -> None:
    """Not a single event, and not a single choice."""
    events: list[Event] = []
    world = World(Choices.seeded(0), [events.append], activation=0)
    config = TopicConfig(compacted=True, retention_ms=0, delete_retention_ms=0)
    cluster = Cluster(world, {"table": 1}, {"table": config})
    for value in (b"1", b"2"):
        cluster.logs["table-0"].append(b"k", value, 0)
    world.time.run(until=600_000)
    assert events == []
    assert len(cluster.logs["table-0"].entries) == 2


def test_impossible_configurations() -> None:
    """They are refused with the key and what is allowed."""
    with pytest.raises(UsageError, match=r"retention\.ms is -2; give .* -1 to keep everything"):
        TopicConfig(retention_ms=-2)
    with pytest.raises(UsageError, match=r"delete\.retention\.ms is -1; give milliseconds from 0"):
        TopicConfig(delete_retention_ms=-1)
    with pytest.raises(InvalidArgumentError, match="The configured topic 'taple' does not exist"):
        Cluster(World(Choices.seeded(0)), {"table": 1}, {"taple": TopicConfig()})
