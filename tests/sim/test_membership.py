"""Members of a group: they come, go, hang, and agree on who has what."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from streamproof.sim.actor_hosts import Host
from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.brokers.group_coordinator import GroupState
from streamproof.sim.choices import Choices
from streamproof.sim.clients.membership import Membership, MembershipConfig
from streamproof.sim.network import Network
from streamproof.sim.world import World


class Bench:
    """A group whose leader shares nine numbers out."""

    def __init__(self, seed: int = 0, *, activation: float = 0) -> None:
        self.kinds: list[str] = []
        watchers = [lambda event: self.kinds.append(event.kind)]
        self.world = World(Choices.seeded(seed), watchers, activation=activation)
        self.cluster = Cluster(self.world, {"in": 1})
        self.network = Network(self.world, request_timeout_ms=1_000)
        self.members: list[tuple[Host, Membership[str, list[int]]]] = []
        self.have: dict[str, list[int] | None] = {}

    def come(self) -> Membership[str, list[int]]:
        """Somebody new, on a host of their own."""
        name = f"instance-{len(self.members)}"
        host = self.world.host(name)
        member: Membership[str, list[int]] = Membership(
            self.world,
            host,
            self.network,
            self.cluster,
            MembershipConfig("app"),
            actor=name,
            describe=lambda: name,
            assign=self.share_out,
        )
        self.members.append((host, member))
        self.have[name] = None
        member.rejoin()
        return member

    def share_out(self, subscriptions: dict[str, str]) -> Generator[Any, Any, dict[str, list[int]]]:
        """Each member gets every n-th number."""
        yield self.world.time.timeout(3)
        names = sorted(subscriptions)
        return {name: list(range(at, 9, len(names))) for at, name in enumerate(names)}

    def wait(self, milliseconds: int) -> None:
        """Let time pass, and let every owner look at what came of it."""
        until = self.world.now + milliseconds
        while self.world.now < until:
            self.world.time.run(until=min(self.world.now + 50, until))
            for host, member in self.members:
                if not host.is_up:
                    continue
                with member.polling():
                    pass
                if member.take_loss():
                    self.have[host.name] = None
                found = member.take_assignment()
                if found is not None:
                    self.have[host.name] = found

    def shares(self) -> list[int]:
        """What the living have, together."""
        living = [host.name for host, _ in self.members if host.is_alive]
        return sorted(number for name in living for number in self.have[name] or [])


def test_two_members_share() -> None:
    """After a moment, all of it, and nothing twice."""
    bench = Bench()
    first, second = bench.come(), bench.come()
    bench.wait(10_000)
    assert bench.shares() == list(range(9))
    assert {len(each or []) for each in bench.have.values()} == {4, 5}
    assert first.generation == second.generation
    assert not first.is_rebalancing


def test_a_third_one_comes_later() -> None:
    """The others learn of it by their heartbeats, and give up a part."""
    bench = Bench()
    bench.come()
    bench.come()
    bench.wait(10_000)
    bench.come()
    bench.wait(10_000)
    assert [len(each or []) for each in bench.have.values()] == [3, 3, 3]


def test_one_dies() -> None:
    """The rest has everything once its session is over."""
    bench = Bench()
    for _ in range(3):
        bench.come()
    bench.wait(10_000)
    bench.members[0][0].crash()
    bench.wait(40_000)
    assert bench.shares() != list(range(9))
    bench.wait(20_000)
    assert bench.shares() == list(range(9))


def test_one_leaves() -> None:
    """The rest has everything without waiting."""
    bench = Bench()
    for _ in range(2):
        bench.come()
    bench.wait(10_000)
    host, member = bench.members[0]
    host.start(member.close())
    bench.wait(5_000)
    bench.have[host.name] = None
    assert bench.shares() == list(range(9))


def test_one_stands_still_and_comes_back() -> None:
    """It was left out: it has lost what it had, and joins anew."""
    bench = Bench()
    for _ in range(2):
        bench.come()
    bench.wait(10_000)
    host, member = bench.members[0]
    host.pause()
    bench.wait(60_000)
    before = bench.have[host.name]
    host.resume()
    bench.world.time.run(until=bench.world.now + 4_000)
    assert before
    assert member.was_left_out
    bench.wait(20_000)
    assert bench.shares() == list(range(9))


def test_a_rebalance_can_be_asked_for() -> None:
    """By any member, at any time; it is a new generation."""
    bench = Bench()
    bench.come()
    member = bench.come()
    bench.wait(10_000)
    before = member.generation
    member.rejoin()
    member.rejoin()
    bench.wait(1)
    assert member.is_rebalancing
    bench.wait(10_000)
    assert member.generation == before + 1
    assert bench.shares() == list(range(9))


def test_a_wish_for_a_rebalance_holds_no_commit_up() -> None:
    """As long as the last heartbeat has no answer, the owner may commit."""
    bench = Bench()
    bench.come()
    member = bench.come()
    bench.wait(10_000)
    before = member.generation
    bench.network.cut("instance-1")
    while "network.request_lost" not in bench.kinds:
        bench.wait(10)
    member.rejoin()
    bench.wait(10)
    assert not member.rebalance_in_progress
    bench.network.heal("instance-1")
    bench.wait(10_000)
    assert member.generation == before + 1


def test_who_abandons_is_silent() -> None:
    """The group waits for its session."""
    bench = Bench()
    bench.come()
    bench.come()
    bench.wait(10_000)
    bench.members[0][1].abandon()
    bench.wait(5_000)
    assert len(bench.cluster.group("app").members) == 2
    bench.wait(60_000)
    assert len(bench.cluster.group("app").members) == 1


@pytest.mark.parametrize("seed", range(20))
def test_the_living_agree_in_the_end(seed: int) -> None:
    """Messages are lost, hosts die and stand still; once that ends, all is shared out."""
    bench = Bench(seed, activation=0.5)
    random = Choices.seeded(seed + 1000)
    for _ in range(12):
        what = random.below(5)
        if what <= 1 and len(bench.members) < 5:
            bench.come()
        elif bench.members:
            host, member = random.pick(bench.members)
            living = sum(each.is_alive for each, _ in bench.members)
            if what == 2 and living > 1:
                host.crash()
            elif what == 3 and host.is_up:
                host.pause()
            elif host.is_up:
                member.rejoin()
        bench.wait(random.between(1, 20_000))
    if not bench.members:
        bench.come()
    for host, _ in bench.members:
        host.resume()
    bench.world.faults.stop()
    bench.wait(200_000)
    assert bench.cluster.group("app").state is GroupState.STABLE
    assert bench.shares() == list(range(9))
