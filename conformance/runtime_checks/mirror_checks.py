"""Roll-over upgrades at the leader: who makes copies, and who takes over (KIP-258)."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from streamproof.conformance.runtime_checks.probe import Probe, decision
from streamproof.sim.decisions.versions import FORMATS_VERSION, Answer, Spoken
from streamproof.sim.tasks import assignor
from streamproof.sim.tasks.assignor import AssignorConfig, Shares, Subscription

__all__: list[str] = []

OLDER = st.integers(1, FORMATS_VERSION - 1)
"""The versions of the releases that a roll-over may begin with."""

NEWER = Spoken(FORMATS_VERSION, FORMATS_VERSION)
FORMATS: dict[str, tuple[int, ...]] = {"rows": (2,)}
ENDS = 10
"""The sum of the ends of the changelogs of each task."""

PROCESSES = st.lists(st.integers(1, 2), min_size=1, max_size=4)
"""The number of threads of each process."""


@decision("UPGRADE-105", old=PROCESSES, new=PROCESSES, tasks=st.integers(1, 6), older=OLDER)
def newer_members_only_copy(
    probe: Probe, old: list[int], new: list[int], tasks: int, older: int
) -> None:
    """Share tasks out to few or many members of each format, in any proportion."""
    ends = {f"0_{number}": ENDS for number in range(tasks)}
    members = _members("old", old, Spoken(older, older), None)
    newer = _members("new", new, NEWER, FORMATS)
    found = _shared_out(probe, {**members, **newer}, ends, AssignorConfig())
    probe.expect(dict.fromkeys(newer, ()), {name: found.threads[name].active for name in newer})
    copied = {task for name in newer for task in found.threads[name].standby}
    probe.expect(sorted(ends), sorted(copied))
    active = sorted(task for name in members for task in found.threads[name].active)
    probe.expect(sorted(ends), active)


@decision("UPGRADE-115", new=PROCESSES, tasks=st.integers(1, 6), standbys=st.integers(0, 1))
def copies_take_over(probe: Probe, new: list[int], tasks: int, standbys: int) -> None:
    """Let new members copy all tasks, and share the tasks out once the old member is gone."""
    ends = {f"0_{number}": ENDS for number in range(tasks)}
    config = AssignorConfig(num_standby_replicas=standbys)
    newer = _members("new", new, NEWER, FORMATS)
    both = {**_members("old", [1], Spoken(2, 2), None), **newer}
    copied = _shared_out(probe, both, ends, config).threads
    sums = {
        name: assignor.encoded(dict.fromkeys(copied[name].standby, ENDS), FORMATS_VERSION)
        for name in newer
    }
    after = {name: replace(each, sums=sums[name]) for name, each in newer.items()}
    found = _shared_out(probe, after, ends, config).threads
    copies = {(newer[name].process, task) for name in newer for task in copied[name].standby}
    active = {(newer[name].process, task) for name in newer for task in found[name].active}
    probe.expect(sorted(ends), sorted(task for _, task in active))
    probe.expect([], sorted(active - copies))


def _shared_out(
    probe: Probe,
    members: dict[str, Subscription],
    ends: dict[str, int],
    config: AssignorConfig,
) -> Shares:
    """The shares of members that are answered in the versions of their reports."""
    answers = {name: Answer(*each.spoken, probing=False) for name, each in members.items()}
    return probe.call(assignor.share_out, members, ends, frozenset(), config, answers)


def _members(
    name: str, threads: list[int], spoken: Spoken, formats: dict[str, tuple[int, ...]] | None
) -> dict[str, Subscription]:
    return {
        f"{name}-{process}/{thread}": Subscription(f"{name}-{process}", (), {}, spoken, formats)
        for process, count in enumerate(threads)
        for thread in range(count)
    }
