"""The group coordinator: rebalances, fencing, static members, and offsets in transactions."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from streamproof.sim.broker_errors import IllegalGenerationError, UnstableOffsetCommitError
from streamproof.sim.brokers.group_coordinator import GroupCoordinator, GroupState

Group = GroupCoordinator[str, str]

REBALANCE_TIMEOUT_MS = 1_000


def stable(*names: str) -> tuple[Group, list[str]]:
    """A group of members that all have their assignment."""
    group: Group = GroupCoordinator(REBALANCE_TIMEOUT_MS)
    members = [group.join("", name, 0) for name in names]
    rejoin(group, members, 0)
    settle(group, members, 0)
    return group, members


def rejoin(group: Group, members: list[str], now: int) -> None:
    """All who have not yet joined do."""
    for each in members:
        if each in group.members and not group.members[each].joined:
            group.join(each, group.members[each].subscription, now)


def settle(group: Group, members: list[str], now: int) -> None:
    """The leader assigns to each member what it subscribed to."""
    for each in members:
        joined = group.poll_join(each, now)
        assert joined is not None
        if each == joined.leader:
            group.sync(each, joined.generation, joined.subscriptions)


def test_a_rebalance_ends_with_everybody_in_it() -> None:
    """The second member makes the first one join again; the leader assigns to both."""
    group: Group = GroupCoordinator(REBALANCE_TIMEOUT_MS)
    first = group.join("", "a", 0)
    settle(group, [first], 0)
    assert (group.generation, group.state) == (1, GroupState.STABLE)
    second = group.join("", "b", 10)
    assert group.poll_join(second, 10) is None
    assert group.heartbeat(first, 1, 20)
    group.join(first, "a", 30)
    settle(group, [first, second], 30)
    assert [group.poll_sync(each, 2) for each in (first, second)] == ["a", "b"]
    assert not group.heartbeat(first, 2, 40)


def test_the_leader_alone_learns_the_subscriptions_and_assigns() -> None:
    """Another member's assignment is refused."""
    group, (first, second) = stable("a", "b")
    joined = group.poll_join(second, 0)
    assert joined is not None
    assert joined.subscriptions == {}
    assert joined.leader == first
    with pytest.raises(IllegalGenerationError, match="does not lead"):
        group.sync(second, joined.generation, {})


def test_nothing_is_assigned_before_the_leader_says_so() -> None:
    """Not even what a member had in the generation before."""
    group, (first, second) = stable("a", "b")
    group.join(second, "b", 10)
    group.join(first, "a", 10)
    group.advance(10)
    assert group.state is GroupState.SYNCING
    assert group.poll_sync(second, group.generation) is None


def test_who_does_not_join_in_time_is_left_out() -> None:
    """The others go on without it, and it is fenced."""
    group, (first, second) = stable("a", "b")
    generation = group.generation
    group.join(first, "a", 100)
    assert group.advance(100 + REBALANCE_TIMEOUT_MS - 1) == []
    assert group.advance(100 + REBALANCE_TIMEOUT_MS) == [second]
    settle(group, [first], 2_000)
    for call in (
        lambda: group.commit(second, generation, {"in-0": 5}),
        lambda: group.heartbeat(second, generation, 2_000),
        lambda: group.join(second, "b", 2_000),
    ):
        with pytest.raises(IllegalGenerationError, match="not a member"):
            call()


def test_who_is_silent_is_left_out() -> None:
    """After its session time, which begins a rebalance for the others."""
    group, (first, second) = stable("a", "b")
    generation = group.generation
    group.heartbeat(first, generation, 44_999)
    assert group.advance(44_999) == []
    assert group.heartbeat(first, generation, 45_000)
    assert list(group.members) == [first]
    assert second not in group.members


def test_an_old_generation_cannot_commit() -> None:
    """A zombie that missed a rebalance does no harm."""
    group, (first, second) = stable("a", "b")
    old = group.generation
    group.commit(first, old, {"in-0": 5})
    group.join(second, "b", 10)
    # While the others join, the generation is still the old one.
    group.commit(first, old, {"in-0": 7})
    rejoin(group, [first], 20)
    settle(group, [first, second], 20)
    for call in (group.commit, lambda *rest: group.commit_in_transaction(1, *rest)):
        with pytest.raises(IllegalGenerationError, match=r"is of generation .* in"):
            call(first, old, {"in-0": 9})
    assert group.committed("in-0") == 7


def test_a_static_member_comes_back() -> None:
    """Without a rebalance, in the place of the one before, which is fenced."""
    group: Group = GroupCoordinator(REBALANCE_TIMEOUT_MS)
    first = group.join("", "a", 0, instance_id="host-1")
    second = group.join("", "b", 0)
    rejoin(group, [first, second], 0)
    settle(group, [first, second], 0)
    generation = group.generation
    back = group.join("", "a", 10, instance_id="host-1")
    assert (group.state, group.generation) == (GroupState.STABLE, generation)
    assert group.poll_sync(back, generation) == "a"
    assert group.leader == back
    with pytest.raises(IllegalGenerationError):
        group.commit(first, generation, {"in-0": 1})


def test_who_leaves_makes_the_others_join() -> None:
    """The last one leaves an empty group; who is not there leaves nothing."""
    group, (first, second) = stable("a", "b")
    group.leave(second, 10)
    group.leave(second, 10)
    assert group.state is GroupState.JOINING
    group.leave(first, 10)
    assert group.state is GroupState.EMPTY


def test_offsets_of_a_transaction_count_once_it_is_committed() -> None:
    """Until then a reader who needs stable ones has to wait."""
    group, (first,) = stable("a")
    group.commit(first, group.generation, {"in-0": 1, "in-1": 1})
    group.commit_in_transaction(7, first, group.generation, {"in-0": 5})
    assert group.committed("in-0") == 1
    assert group.committed("in-1", require_stable=True) == 1
    with pytest.raises(UnstableOffsetCommitError):
        group.committed("in-0", require_stable=True)
    group.end_transaction(7, commit=True)
    assert group.committed("in-0", require_stable=True) == 5
    group.commit_in_transaction(8, first, group.generation, {"in-0": 9})
    group.end_transaction(8, commit=False)
    assert group.committed("in-0", require_stable=True) == 5
    assert group.committed("in-2") is None


class Groups(RuleBasedStateMachine):
    """Members come, go, hang, join and commit, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.group: Group = GroupCoordinator(10)
        self.now = 0
        # What each member believes: its generation.
        self.beliefs: dict[str, int] = {}
        self.generations = [0]

    @rule()
    def come(self) -> None:
        """Somebody new."""
        if len(self.beliefs) < 6:
            self.beliefs[self.group.join("", "s", self.now, session_timeout_ms=25)] = 0

    @rule(number=st.integers(0, 5))
    def follow(self, number: int) -> None:
        """A member does what the protocol asks of it next."""
        for name in list(self.beliefs)[number : number + 1]:
            try:
                if not self.group.members[name].joined:
                    self.group.join(name, "s", self.now)
                joined = self.group.poll_join(name, self.now)
            except (IllegalGenerationError, KeyError):
                continue
            if joined is not None:
                self.beliefs[name] = joined.generation
                if joined.leader == name:
                    self.group.sync(name, joined.generation, joined.subscriptions)

    @rule(number=st.integers(0, 5))
    def commit(self, number: int) -> None:
        """It succeeds for members of the generation, and for nobody else."""
        for name in list(self.beliefs)[number : number + 1]:
            belongs = name in self.group.members and self.beliefs[name] == self.group.generation
            try:
                self.group.commit(name, self.beliefs[name], {"in-0": 1})
                assert belongs
            except IllegalGenerationError:
                assert not belongs

    @rule(number=st.integers(0, 5))
    def leave(self, number: int) -> None:
        """A member goes."""
        for name in list(self.beliefs)[number : number + 1]:
            self.group.leave(name, self.now)

    @rule(milliseconds=st.integers(1, 9))
    def wait(self, milliseconds: int) -> None:
        """Time passes."""
        self.now += milliseconds
        self.group.advance(self.now)

    @invariant()
    def generations_only_grow(self) -> None:
        """And none is there twice."""
        if self.group.generation != self.generations[-1]:
            self.generations.append(self.group.generation)
        assert self.generations == sorted(set(self.generations))

    @invariant()
    def a_stable_group_has_assigned_to_all(self) -> None:
        """Nobody is left without an answer, and the state says what there is."""
        if self.group.state is GroupState.STABLE:
            assert all(each.assignment == "s" for each in self.group.members.values())
        assert (self.group.state is GroupState.EMPTY) == (not self.group.members)


TestGroups = Groups.TestCase
