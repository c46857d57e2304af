"""Coordinators of transactions and groups: which requests they refuse, and what they wait for."""

from __future__ import annotations

from collections.abc import Callable

from streamproof.conformance.runtime_checks.probe import Probe, scripted
from streamproof.sim.broker_errors import (
    BrokerError,
    ConcurrentTransactionsError,
    IllegalGenerationError,
    ProducerFencedError,
    UnstableOffsetCommitError,
)
from streamproof.sim.brokers.group_coordinator import GroupCoordinator
from streamproof.sim.brokers.transaction_coordinator import TransactionCoordinator

__all__: list[str] = []

ID = "app-1"
TIMEOUT_MS = 10_000
REBALANCE_TIMEOUT_MS = 1_000
SESSION_MS = 45_000


def _refusal(call: Callable[[], object]) -> str:
    """The name of the error that refuses a call; empty if the call is accepted."""
    try:
        call()
    except BrokerError as error:
        return type(error).__name__
    return ""


@scripted("EOS-005")
def a_new_producer_fences_the_one_before(probe: Probe) -> None:
    """Begin a transaction, and start a second producer with the same transactional id."""
    fences = not probe.defect("does-not-fence-producer")
    coordinator = TransactionCoordinator(fences=fences)
    zombie = coordinator.init_producer(ID, TIMEOUT_MS)
    coordinator.add(ID, zombie, ["out-0"], 0)
    concurrent = _refusal(lambda: coordinator.init_producer(ID, TIMEOUT_MS))
    probe.expect(ConcurrentTransactionsError.__name__, concurrent)
    for marker in coordinator.pending_markers():
        probe.expect(("out-0", False), (marker.target, marker.commit))
        coordinator.marked(marker)
    heir = coordinator.init_producer(ID, TIMEOUT_MS)
    fenced = ProducerFencedError.__name__
    probe.expect(fenced, _refusal(lambda: coordinator.add(ID, zombie, ["out-0"], 0)))
    probe.expect(fenced, _refusal(lambda: coordinator.end(ID, zombie, commit=True)))
    probe.expect("", _refusal(lambda: coordinator.add(ID, heir, ["out-0"], 0)))


Group = GroupCoordinator[str, str]


def _stable(probe: Probe, *names: str) -> tuple[Group, list[str]]:
    """A group whose members all have their assignment."""
    group: Group = GroupCoordinator(
        REBALANCE_TIMEOUT_MS, ignores_generation=probe.defect("ignores-generation")
    )
    members = [group.join("", name, 0) for name in names]
    _rebalance(group, members, 0)
    return group, members


def _rebalance(group: Group, members: list[str], now: int) -> None:
    """All members join, and the leader gives each member its subscription."""
    for each in members:
        if not group.members[each].joined:
            group.join(each, group.members[each].subscription, now)
    for each in members:
        joined = group.poll_join(each, now)
        if joined is not None and each == joined.leader:
            group.sync(each, joined.generation, joined.subscriptions)


@scripted("REBAL-003")
def old_generations_cannot_commit(probe: Probe) -> None:
    """Commit offsets in the previous generation, directly and in a transaction."""
    group, (first, second) = _stable(probe, "a", "b")
    old = group.generation
    group.commit(first, old, {"in-0": 5})
    group.join(second, "b", 10)
    _rebalance(group, [first, second], 20)
    illegal = IllegalGenerationError.__name__
    probe.expect(illegal, _refusal(lambda: group.commit(first, old, {"in-0": 9})))
    late = _refusal(lambda: group.commit_in_transaction(1, first, old, {"in-0": 9}))
    probe.expect(illegal, late)
    probe.expect(5, group.committed("in-0"))


@scripted("REBAL-004")
def the_silent_are_left_out(probe: Probe) -> None:
    """Let one of two members stay silent for its session timeout."""
    group, (first, second) = _stable(probe, "a", "b")
    group.heartbeat(first, group.generation, SESSION_MS - 1)
    probe.expect([first, second], list(group.members))
    probe.expect(expected=True, found=group.heartbeat(first, group.generation, SESSION_MS))
    probe.expect([first], list(group.members))
    silent = _refusal(lambda: group.heartbeat(second, group.generation, SESSION_MS))
    probe.expect(IllegalGenerationError.__name__, silent)


@scripted("REBAL-005")
def static_members_come_back(probe: Probe) -> None:
    """Restart a member that has a group.instance.id."""
    group: Group = GroupCoordinator(REBALANCE_TIMEOUT_MS)
    first = group.join("", "a", 0, instance_id="host-1")
    second = group.join("", "b", 0)
    _rebalance(group, [first, second], 0)
    generation = group.generation
    back = group.join("", "a", 10, instance_id="host-1")
    probe.expect(generation, group.generation)
    probe.expect("a", group.poll_sync(back, generation))
    zombie = _refusal(lambda: group.commit(first, generation, {"in-0": 1}))
    probe.expect(IllegalGenerationError.__name__, zombie)


@scripted("EOS-006")
def pending_offsets_are_waited_for(probe: Probe) -> None:
    """Fetch the offsets of a transaction before and after the transaction is decided."""
    group, (first,) = _stable(probe, "a")
    group.commit(first, group.generation, {"in-0": 1})
    for producer, commit, after in ((7, True, 5), (8, False, 5)):
        group.commit_in_transaction(producer, first, group.generation, {"in-0": 2 + 3 * commit})
        pending = _refusal(lambda: group.committed("in-0", require_stable=True))
        probe.expect(UnstableOffsetCommitError.__name__, pending)
        group.end_transaction(producer, commit=commit)
        probe.expect(after, group.committed("in-0", require_stable=True))
