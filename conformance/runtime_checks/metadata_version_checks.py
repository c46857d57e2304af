"""Metadata versions: how members of different releases agree (KIP-258, KIP-268)."""

from __future__ import annotations

from hypothesis import strategies as st

from streamproof.conformance.runtime_checks.probe import Probe, decision, scripted
from streamproof.conformance.runtime_checks.small_application import (
    SmallApplication,
    table_and_input,
)
from streamproof.errors import UsageError
from streamproof.sim.decisions import versions
from streamproof.sim.decisions.versions import (
    EARLIEST_PROBEABLE_VERSION,
    LATEST_SUPPORTED_VERSION,
    Spoken,
)
from streamproof.sim.releases import BEFORE_SUMS, LATEST

__all__: list[str] = []

AT_ONCE_MS = 1_000
"""A member joins again at its next poll, unless the group is just rebalancing."""

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
    "UPGRADE-102",
    old=st.lists(st.integers(1, 2), min_size=1, max_size=3),
    newer=st.lists(PROBEABLE, max_size=3),
    supported=PROBEABLE,
)
def the_oldest_member_sets_the_version(
    probe: Probe, old: list[int], newer: list[int], supported: int
) -> None:
    """Answer a group with members from before version probing, which the leader can read."""
    used = [min(each, supported) for each in newer]
    members = [Spoken(each, each) for each in old]
    members += [Spoken(*both) for both in zip(used, newer, strict=True)]
    answer = probe.call(versions.answer_of, members, supported)
    probe.expect((min(old), False), (answer.version, answer.probing))
    # The newer members wait until the old ones are gone: they neither change nor rebalance.
    told = [probe.call(versions.next_version, each, answer) for each in used]
    probe.expect([(each, False) for each in used], [(each.version, each.rejoin) for each in told])


@decision(
    "UPGRADE-109",
    old=st.lists(st.integers(1, 2), min_size=1, max_size=3),
    both=st.integers(0, 2),
    mirrors=st.integers(1, 3),
)
def mirrors_get_their_own_version(probe: Probe, old: list[int], both: int, mirrors: int) -> None:
    """Answer a group in which some members have the older format, and others mirror these."""
    spoken = {f"old-{number}": Spoken(each, each) for number, each in enumerate(old)}
    newer = Spoken(EARLIEST_PROBEABLE_VERSION, EARLIEST_PROBEABLE_VERSION)
    spoken |= {f"both-{number}": newer for number in range(both)}
    new = {f"new-{number}": newer for number in range(mirrors)}
    found = probe.call(versions.answers_of, {**spoken, **new}, newer.supported, list(new))
    expected = {**dict.fromkeys(spoken, min(old)), **dict.fromkeys(new, newer.used)}
    probe.expect(expected, {name: each.version for name, each in found.items()})
    probe.expect([], [name for name, each in found.items() if each.probing])


@decision("UPGRADE-106", both=st.tuples(st.integers(1, 11), PROBEABLE))
def reports_name_the_newest_version(probe: Probe, both: tuple[int, int]) -> None:
    """Encode the version that a member uses and the newest one that it supports."""
    used, supported = min(both), max(both)
    found = probe.call(versions.readable, used, supported)
    has_place = used >= EARLIEST_PROBEABLE_VERSION
    probe.expect((used, supported if has_place else used), tuple(found))


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
        for before, each in zip(members, told, strict=True):
            probe.demand(
                f"another rebalance, as version {before.used} becomes {each.version}",
                holds=each.rejoin or each.version == before.used,
            )
        members = [
            Spoken(each.version, before.supported)
            for each, before in zip(told, members, strict=True)
        ]
        rejoins = any(each.rejoin for each in told)
        if not rejoins:
            break
    probe.expect((False, {newest}), (rejoins, {each.used for each in members}))


@scripted("UPGRADE-103")
def a_probed_member_rebalances_at_once(probe: Probe) -> None:
    """Let a member join that is too new for the leader."""
    app = SmallApplication(probe, table_and_input(partitions=2))
    app.instance.release = BEFORE_SUMS
    app.start()
    new = app.joined_by(LATEST)
    app.wait(20_000)
    heard = [each for each in probe.events if each.actor == f"{new.name}/thread-0"]
    probed = [each for each in heard if each.kind == "thread.answered" and each.attributes["empty"]]
    probe.need("an empty assignment for the new member", holds=bool(probed))
    for empty in probed:
        later = [each for each in heard if each.sequence > empty.sequence]
        reports = [each for each in later if each.kind == "thread.subscribed"]
        in_time = [each for each in reports if each.time <= empty.time + AT_ONCE_MS]
        told = f"after {empty.time} ms, reports at {[each.time for each in reports]} ms"
        probe.demand(f"a report within {AT_ONCE_MS} ms", told, holds=bool(in_time))
        probe.expect(BEFORE_SUMS.metadata_version, in_time[0].attributes["used"])
    tasks = {task for thread in new.threads for task in thread.tasks}
    probe.demand("a task for the new member", f"{tasks}", holds=bool(tasks))


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
