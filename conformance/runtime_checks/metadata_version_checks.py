"""Metadata versions: how members of different releases agree (KIP-258, KIP-268)."""

from __future__ import annotations

from hypothesis import strategies as st

from streamproof.conformance.runtime_checks.probe import Probe, decision
from streamproof.errors import UsageError
from streamproof.sim.decisions import versions
from streamproof.sim.decisions.versions import (
    EARLIEST_PROBEABLE_VERSION,
    LATEST_SUPPORTED_VERSION,
    Spoken,
)

__all__: list[str] = []

PROBEABLE = st.integers(EARLIEST_PROBEABLE_VERSION, LATEST_SUPPORTED_VERSION)
MEMBERS = st.lists(
    st.tuples(PROBEABLE, PROBEABLE).map(lambda both: Spoken(min(both), max(both))),
    min_size=1,
    max_size=5,
)
"""The reports of members: the version that each has used, and the newest that it supports."""

ROUNDS = 3
"""First the leader probes a member that is too new, then the member adopts the common version, and
then all members may upgrade."""


@decision("UPGRADE-102", members=MEMBERS)
def all_can_read_the_answer(probe: Probe, members: list[Spoken]) -> None:
    """Compute the answer of the first member, as the leader, to all members."""
    answer = probe.call(versions.answer_of, members, members[0].supported)
    probe.expect(min(each.used for each in members), answer.version)
    probe.expect(min(each.supported for each in members), answer.commonly_supported)
    newest = max(each.used for each in members)
    probe.expect(newest > members[0].supported, answer.probing)


@decision(
    "UPGRADE-103",
    members=MEMBERS,
    leaders=st.lists(st.integers(0, 4), min_size=ROUNDS, max_size=ROUNDS),
)
def members_find_a_version(probe: Probe, members: list[Spoken], leaders: list[int]) -> None:
    """Rebalance as often as a member requests it, each time with another leader."""
    newest = min(each.supported for each in members)
    rejoins = True
    for leader in leaders:
        supported = members[leader % len(members)].supported
        answer = probe.call(versions.answer_of, members, supported)
        told = [probe.call(versions.next_version, each.used, answer) for each in members]
        members = [
            Spoken(each.version, before.supported)
            for each, before in zip(told, members, strict=True)
        ]
        rejoins = any(each.rejoin for each in told)
        if not rejoins:
            break
    probe.expect((False, {newest}), (rejoins, {each.used for each in members}))


@decision("UPGRADE-104", supported=PROBEABLE, newer=st.integers(1, 3), old=st.integers(1, 2))
def what_cannot_agree_is_refused(probe: Probe, supported: int, newer: int, old: int) -> None:
    """Compute the answer to a member that is too new and one from before version probing."""
    members = [Spoken(old, old), Spoken(supported + newer, supported + newer)]
    try:
        answer = versions.answer_of(members, supported)
    except UsageError as error:
        probe.demand(
            "a refusal that names upgrade.from", str(error), holds="upgrade.from" in str(error)
        )
    else:
        probe.demand("a refusal", str(answer), holds=False)
