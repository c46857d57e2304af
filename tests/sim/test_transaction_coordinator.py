"""The transaction coordinator: fencing, two phases, time-outs, and requests that come twice."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from streamproof.sim.broker_errors import (
    BrokerError,
    ConcurrentTransactionsError,
    InvalidTxnStateError,
    ProducerFencedError,
)
from streamproof.sim.brokers.transaction_coordinator import (
    ProducerIdentity,
    TransactionCoordinator,
    TransactionState,
)

APP = "app-1"


def begun(*targets: str) -> tuple[TransactionCoordinator, ProducerIdentity]:
    """A coordinator with a transaction that is open."""
    coordinator = TransactionCoordinator()
    identity = coordinator.init_producer(APP, 10_000)
    coordinator.add(APP, identity, targets, 0)
    return coordinator, identity


def mark_all(coordinator: TransactionCoordinator) -> None:
    """Write all markers."""
    for marker in coordinator.pending_markers():
        coordinator.marked(marker)


def state_of(coordinator: TransactionCoordinator) -> TransactionState:
    """How far the transaction is."""
    found = coordinator.of(APP)
    assert found is not None
    return found.state


@pytest.mark.parametrize("commit", [True, False])
def test_two_phases(commit: bool) -> None:
    """Decided at once, complete with the last marker; then the next one may begin."""
    coordinator, identity = begun("out-0", "changelog-0")
    coordinator.end(APP, identity, commit=commit)
    markers = coordinator.pending_markers()
    assert [(each.target, each.commit) for each in markers] == [
        ("out-0", commit),
        ("changelog-0", commit),
    ]
    assert not coordinator.marked(markers[0])
    with pytest.raises(ConcurrentTransactionsError):
        coordinator.add(APP, identity, ["out-0"], 0)
    assert coordinator.marked(markers[1])
    coordinator.add(APP, identity, ["out-0"], 0)
    assert state_of(coordinator) is TransactionState.ONGOING


def test_the_same_end_may_be_asked_for_again() -> None:
    """The reply may have been lost; the other end is refused."""
    coordinator, identity = begun("out-0")
    coordinator.end(APP, identity, commit=True)
    coordinator.end(APP, identity, commit=True)
    assert len(coordinator.pending_markers()) == 1
    with pytest.raises(InvalidTxnStateError, match=r"cannot abort.*PREPARE_COMMIT"):
        coordinator.end(APP, identity, commit=False)
    mark_all(coordinator)
    coordinator.end(APP, identity, commit=True)
    assert coordinator.pending_markers() == []
    with pytest.raises(InvalidTxnStateError, match=r"cannot abort.*COMPLETE_COMMIT"):
        coordinator.end(APP, identity, commit=False)


def test_each_transaction_of_version_2_has_its_epoch() -> None:
    """The same end may be asked for again, until the next transaction has begun."""
    coordinator = TransactionCoordinator()
    first = coordinator.init_producer(APP, 10_000, version=2)
    coordinator.add(APP, first, ["out-0"], 0)
    assert coordinator.end(APP, first, commit=True)
    assert not coordinator.end(APP, first, commit=True)
    assert [each.identity for each in coordinator.pending_markers()] == [first.raised()]
    mark_all(coordinator)
    with pytest.raises(ProducerFencedError):
        coordinator.add(APP, first, ["out-0"], 0)
    assert coordinator.add(APP, first.raised(), ["out-0"], 0)
    with pytest.raises(ProducerFencedError):
        coordinator.end(APP, first, commit=True)
    assert state_of(coordinator) is TransactionState.ONGOING


def test_an_abort_of_nothing_raises_the_epoch_in_version_2() -> None:
    """A record that was given up may arrive yet."""
    coordinator = TransactionCoordinator()
    first = coordinator.init_producer(APP, 10_000, version=2)
    assert not coordinator.end(APP, first, commit=False)
    with pytest.raises(ProducerFencedError):
        coordinator.add(APP, first, ["out-0"], 0)
    assert coordinator.add(APP, first.raised(), ["out-0"], 0)


def test_a_late_end_ends_the_next_transaction_in_version_1() -> None:
    """The coordinator cannot tell one transaction from the other (KIP-890)."""
    coordinator, identity = begun("out-0")
    coordinator.end(APP, identity, commit=True)
    mark_all(coordinator)
    coordinator.add(APP, identity, ["out-0"], 0)
    assert coordinator.end(APP, identity, commit=True)


def test_a_record_needs_an_open_transaction() -> None:
    """With its partition, and in the epoch of now."""
    coordinator, identity = begun("out-0")
    coordinator.require_open(APP, identity, "out-0")
    with pytest.raises(InvalidTxnStateError, match="no open transaction with out-1"):
        coordinator.require_open(APP, identity, "out-1")
    coordinator.end(APP, identity, commit=False)
    mark_all(coordinator)
    with pytest.raises(InvalidTxnStateError, match="no open transaction"):
        coordinator.require_open(APP, identity, "out-0")
    raised = coordinator.raise_epoch(APP, identity)
    with pytest.raises(ProducerFencedError):
        coordinator.require_open(APP, identity, "out-0")
    assert coordinator.add(APP, raised, ["out-0"], 0)


def test_a_new_producer_fences_the_one_before() -> None:
    """Its open transaction is aborted first, and it cannot do anything any more."""
    coordinator, zombie = begun("out-0")
    with pytest.raises(ConcurrentTransactionsError):
        coordinator.init_producer(APP, 10_000)
    (marker,) = coordinator.pending_markers()
    assert (marker.commit, marker.identity.epoch) == (False, 1)
    for call in (
        lambda: coordinator.add(APP, zombie, ["out-0"], 0),
        lambda: coordinator.end(APP, zombie, commit=True),
    ):
        with pytest.raises(ProducerFencedError, match="of epoch 0 is not the last one"):
            call()
    mark_all(coordinator)
    identity = coordinator.init_producer(APP, 10_000)
    assert identity == ProducerIdentity(zombie.producer, 2)


def test_a_decided_commit_is_not_aborted() -> None:
    """A new producer waits for it; the decision stands."""
    coordinator, identity = begun("out-0")
    coordinator.end(APP, identity, commit=True)
    with pytest.raises(ConcurrentTransactionsError):
        coordinator.init_producer(APP, 10_000)
    assert [each.commit for each in coordinator.pending_markers()] == [True]


def test_what_takes_too_long_is_aborted() -> None:
    """At its deadline, which counts from its beginning; its producer is fenced."""
    coordinator, identity = begun("out-0")
    coordinator.add(APP, identity, ["out-1"], 9_000)
    assert coordinator.expire(9_999) == []
    assert coordinator.expire(10_000) == [APP]
    assert coordinator.expire(10_000) == []
    with pytest.raises(ProducerFencedError):
        coordinator.end(APP, identity, commit=True)
    assert [each.commit for each in coordinator.pending_markers()] == [False, False]


def test_nothing_to_end() -> None:
    """A transaction that was not begun can be neither committed nor aborted."""
    coordinator = TransactionCoordinator()
    identity = coordinator.init_producer(APP, 10_000)
    with pytest.raises(InvalidTxnStateError, match="its transaction is EMPTY"):
        coordinator.end(APP, identity, commit=True)


def test_ids_do_not_mix() -> None:
    """Each has a producer and a transaction of its own."""
    coordinator, identity = begun("out-0")
    other = coordinator.init_producer("app-2", 10_000)
    assert other.producer != identity.producer
    coordinator.add("app-2", other, ["out-0"], 0)
    coordinator.end(APP, identity, commit=False)
    assert [each.transactional_id for each in coordinator.pending_markers()] == [APP]


class Coordinators(RuleBasedStateMachine):
    """Whatever is asked, in whatever order, by whomever."""

    def __init__(self) -> None:
        super().__init__()
        self.coordinator = TransactionCoordinator()
        self.identities: list[ProducerIdentity] = []
        self.decisions: dict[str, bool] = {}
        self.now = 0

    def attempt(self, call: object, *arguments: object, **options: object) -> object:
        """Do it, or be refused."""
        try:
            return call(*arguments, **options)  # type: ignore[operator]
        except BrokerError:
            return None

    @rule()
    def init(self) -> None:
        """A new producer of the id."""
        identity = self.attempt(self.coordinator.init_producer, APP, 5)
        if isinstance(identity, ProducerIdentity):
            self.identities.append(identity)

    @rule(who=st.integers(0, 3), partition=st.sampled_from(["a", "b"]))
    def add(self, who: int, partition: str) -> None:
        """Any producer that there ever was, the last one first."""
        if who < len(self.identities):
            self.attempt(
                self.coordinator.add, APP, self.identities[-1 - who], [partition], self.now
            )

    @rule(who=st.integers(0, 3), commit=st.booleans())
    def end(self, who: int, commit: bool) -> None:
        """As above."""
        if who < len(self.identities):
            self.attempt(self.coordinator.end, APP, self.identities[-1 - who], commit=commit)

    @rule(milliseconds=st.integers(1, 4))
    def wait(self, milliseconds: int) -> None:
        """Time passes."""
        self.now += milliseconds
        self.coordinator.expire(self.now)

    @rule()
    def mark(self) -> None:
        """One marker is written."""
        for marker in self.coordinator.pending_markers()[:1]:
            self.coordinator.marked(marker)

    @invariant()
    def epochs_only_grow(self) -> None:
        """Each producer of the id is of a later epoch than the one before."""
        epochs = [each.epoch for each in self.identities]
        assert epochs == sorted(set(epochs))

    @invariant()
    def a_decision_stands(self) -> None:
        """All markers of a transaction say the same, until the last of them is written."""
        markers = self.coordinator.pending_markers()
        assert len({each.commit for each in markers}) <= 1
        if not markers:
            self.decisions.clear()
        for marker in markers:
            assert self.decisions.setdefault(APP, marker.commit) == marker.commit


TestCoordinators = Coordinators.TestCase
