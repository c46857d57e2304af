"""The log of a partition: transactions, what a reader sees, retention and compaction."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from streamproof.sim.broker_errors import (
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    ProducerFencedError,
)
from streamproof.sim.brokers.partition_log import Isolation, LogEntry, PartitionLog


def read(log: PartitionLog, isolation: Isolation, step: int = 3) -> list[LogEntry]:
    """Everything from the start of the log, a few entries at a time."""
    found: list[LogEntry] = []
    at = log.log_start
    while True:
        fetched = log.fetch(at, isolation, step)
        found += fetched.records
        if fetched.next_offset == at:
            return found
        assert fetched.next_offset > at
        at = fetched.next_offset


def values(entries: list[LogEntry]) -> list[bytes | None]:
    """What the records hold."""
    return [each.value for each in entries]


def transaction(log: PartitionLog, producer: int, *some: bytes, sequence: int = 0) -> None:
    """Records of a transaction that stays open."""
    for number, value in enumerate(some, sequence):
        log.append(b"k", value, 0, producer=producer, sequence=number, transactional=True)


def test_an_open_transaction_holds_readers_back() -> None:
    """Those who read committed stop before its first record; the others see all."""
    log = PartitionLog()
    log.append(b"k", b"1", 0)
    transaction(log, 7, b"2")
    log.append(b"k", b"3", 0)
    assert log.last_stable_offset == 1
    assert values(read(log, "read_committed")) == [b"1"]
    assert values(read(log, "read_uncommitted")) == [b"1", b"2", b"3"]
    assert log.end_transaction(7, commit=True, timestamp=0) == 3
    assert values(read(log, "read_committed")) == [b"1", b"2", b"3"]


def test_aborted_records_are_skipped() -> None:
    """And the position moves over them, and over the marker."""
    log = PartitionLog()
    transaction(log, 7, b"1", b"2")
    log.end_transaction(7, commit=False, timestamp=0)
    fetched = log.fetch(0, "read_committed", 10)
    assert (fetched.records, fetched.next_offset) == ([], 3)
    assert values(read(log, "read_uncommitted")) == [b"1", b"2"]


def test_two_transactions_at_once() -> None:
    """The one that was committed shows once the other one, which began before it, has ended."""
    log = PartitionLog()
    transaction(log, 1, b"a")
    transaction(log, 2, b"b")
    log.end_transaction(2, commit=True, timestamp=0)
    assert values(read(log, "read_committed")) == []
    log.end_transaction(1, commit=False, timestamp=0)
    assert values(read(log, "read_committed")) == [b"b"]


def test_a_record_that_comes_again_is_recognised() -> None:
    """It keeps its offset; one that comes too early is refused, and a new epoch begins anew."""
    log = PartitionLog()
    assert log.append(b"k", b"1", 0, producer=7, sequence=0) == 0
    assert log.append(b"k", b"2", 0, producer=7, sequence=1) == 1
    assert log.append(b"k", b"2", 0, producer=7, sequence=1) == 1
    with pytest.raises(OutOfOrderSequenceError, match="sent sequence 3, but must send 2 next"):
        log.append(b"k", b"4", 0, producer=7, sequence=3)
    assert log.append(b"k", b"5", 0, producer=7, epoch=1, sequence=0) == 2
    assert log.end == 3


def test_a_marker_fences_an_earlier_epoch() -> None:
    """What a zombie sends after that is refused, and appends nothing."""
    log = PartitionLog()
    transaction(log, 7, b"1")
    log.end_transaction(7, commit=False, timestamp=0, epoch=1)
    for sequence in (0, 1):
        with pytest.raises(
            ProducerFencedError, match="of epoch 0 is fenced, because epoch 1 has written"
        ):
            log.append(b"k", b"2", 0, producer=7, sequence=sequence, transactional=True)
    assert log.append(b"k", b"3", 0, producer=7, epoch=1, transactional=True) == 2


def test_out_of_range() -> None:
    """Before the start and behind the end; the end itself is where one waits."""
    log = PartitionLog()
    for _ in range(5):
        log.append(b"k", b"v", 0)
    log.delete_before(2)
    for offset in (1, 6):
        with pytest.raises(OffsetOutOfRangeError, match=f"Offset {offset} .* 2 to 5"):
            log.fetch(offset, "read_committed", 10)
    assert log.fetch(5, "read_committed", 10).next_offset == 5


def test_compaction_gives_up_tombstones_only_once_they_are_old() -> None:
    """A reader that is in between must learn of the deletion."""
    log = PartitionLog()
    log.append(b"a", b"1", 10)
    log.append(b"a", None, 20)
    log.append(b"b", b"2", 30)
    for now in (100, 149):
        # The first compaction that meets a tombstone decides until when it stays (KIP-534).
        log.compact(now=now, delete_retention_ms=50)
        assert [(each.key, each.value) for each in log.entries] == [(b"a", None), (b"b", b"2")]
    log.compact(now=150, delete_retention_ms=50)
    assert [(each.key, each.value) for each in log.entries] == [(b"b", b"2")]
    assert log.fetch(0, "read_committed", 10).next_offset == 3


def fold(entries: list[LogEntry]) -> dict[bytes, bytes]:
    """What the records lead to."""
    found: dict[bytes, bytes] = {}
    for each in entries:
        if each.value is None:
            found.pop(each.key, None)
        else:
            found[each.key] = each.value
    return found


class Logs(RuleBasedStateMachine):
    """A log against a list of all that ever happened."""

    def __init__(self) -> None:
        super().__init__()
        self.log = PartitionLog()
        self.all: list[list[object]] = []
        self.sequences = dict.fromkeys(range(3), 0)
        self.compacted = False

    @rule(key=st.sampled_from([b"a", b"b"]), value=st.one_of(st.none(), st.binary(max_size=2)))
    def append(self, key: bytes, value: bytes | None) -> None:
        """A record of nobody's transaction."""
        offset = self.log.append(key, value, len(self.all))
        self.all.append([offset, key, value, None, "committed"])

    @rule(
        producer=st.integers(0, 2),
        key=st.sampled_from([b"a", b"b"]),
        value=st.one_of(st.none(), st.binary(max_size=2)),
    )
    def append_in_transaction(self, producer: int, key: bytes, value: bytes | None) -> None:
        """A record of a transaction that it begins, or goes on with."""
        sequence = self.sequences[producer]
        offset = self.log.append(
            key, value, len(self.all), producer=producer, sequence=sequence, transactional=True
        )
        self.sequences[producer] += 1
        self.all.append([offset, key, value, producer, "open"])

    @rule(producer=st.integers(0, 2), commit=st.booleans())
    def end(self, producer: int, commit: bool) -> None:
        """A transaction ends."""
        for each in self.all:
            if each[3] == producer and each[4] == "open":
                each[4] = "committed" if commit else "aborted"
        offset = self.log.end_transaction(producer, commit=commit, timestamp=len(self.all))
        self.all.append([offset, None, None, None, "marker"])

    @rule(share=st.floats(0, 1))
    def delete(self, share: float) -> None:
        """Retention."""
        self.log.delete_before(round(share * self.log.end))

    @rule()
    def compact(self) -> None:
        """Compaction, with tombstones kept."""
        self.log.compact()
        self.compacted = True

    def seen(self, isolation: Isolation) -> Iterator[list[object]]:
        """What a reader should see, without compaction."""
        for each in self.all:
            offset, *_, state = each
            assert isinstance(offset, int)
            if isolation == "read_committed" and state == "open":
                return
            hidden = state == "aborted" and isolation == "read_committed"
            if offset >= self.log.log_start and state != "marker" and not hidden:
                yield each

    @invariant()
    def readers_see_what_they_should(self) -> None:
        """All of it, in order; after a compaction, what leads to the same content."""
        isolations: list[Isolation] = ["read_committed", "read_uncommitted"]
        for isolation in isolations[: 1 if self.compacted else 2]:
            expected = [
                LogEntry(offset, 0, key, value)  # type: ignore[arg-type]
                for offset, key, value, *_ in self.seen(isolation)
            ]
            found = read(self.log, isolation)
            if self.compacted:
                assert fold(found) == fold(expected)
            else:
                told = [(each.offset, each.key, each.value) for each in found]
                assert told == [(each.offset, each.key, each.value) for each in expected]

    @invariant()
    def the_ends_are_right(self) -> None:
        """The last stable offset is that of the first record of an open transaction."""
        opened = [each[0] for each in self.all if each[4] == "open"]
        assert self.log.end == len(self.all)
        assert self.log.last_stable_offset == min(opened, default=self.log.end)  # type: ignore[type-var]


TestLogs = Logs.TestCase


@given(st.integers(0, 10), st.integers(1, 4))
def test_any_prefix_leads_on(start: int, step: int) -> None:
    """A fetch may return less than there is; what follows joins it without a gap."""
    log = PartitionLog()
    for number in range(10):
        log.append(b"k", b"%d" % number, 0)
    at, found = start, []
    while at < log.end:
        fetched = log.fetch(at, "read_committed", step)
        found += fetched.records
        at = fetched.next_offset
    assert [each.offset for each in found] == list(range(start, 10))


def test_the_first_compaction_keeps_a_tombstone() -> None:
    """Even if it may go at once (``delete.retention.ms`` is 0); the next compaction takes it."""
    log = PartitionLog()
    for key, value in ((b"k", b"1"), (b"k", None), (b"x", b"1")):
        log.append(key, value, 0)
    log.compact(now=1_000, delete_retention_ms=0)
    assert values(log.entries) == [None, b"1"]
    assert log.tombstones_end == 0
    log.compact(now=1_000, delete_retention_ms=0)
    assert values(log.entries) == [b"1"]
    assert log.tombstones_end == 2
