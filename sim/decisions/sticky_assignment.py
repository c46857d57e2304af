"""The assignment of tasks by the broker: each stays where it is, as far as that is even.

The broker knows who has which task, and not how far a copy is. So nothing warms up, and no
rebalance follows for the sake of a copy.

Sources: KIP-1071, "Assignors"; Kafka, StickyTaskAssignor of the group coordinator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

__all__ = ["Share", "assign_sticky"]


@dataclass(frozen=True)
class Share:
    """The tasks of a member.

    Attributes:
        process: the process of the member.
        active: the tasks that it processes.
        standby: the tasks of which it keeps a copy.
    """

    process: str
    active: frozenset[str] = frozenset()
    standby: frozenset[str] = frozenset()


@dataclass
class _Load:
    """What a member gets."""

    active: set[str] = field(default_factory=set)
    standby: set[str] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.active) + len(self.standby)


def assign_sticky(
    members: Mapping[str, Share],
    tasks: Iterable[str],
    stateful: Iterable[str],
    *,
    num_standby_replicas: int = 0,
    looks_at_all: bool = True,
) -> dict[str, Share]:
    """Place all tasks.

    Args:
        members: what each member has, at least one.
        tasks: the ids of all tasks.
        stateful: the ids of the tasks with a changelog.
        num_standby_replicas: how many copies each stateful task has beside the active one.
        looks_at_all: whether all members are possible places of a copy. If not, only the member
            with the least to do is looked at, as in KAFKA-20899.
    """
    loads = {name: _Load() for name in sorted(members)}
    _place_active(members, sorted(tasks), loads)
    for task in sorted(stateful):
        _place_copies(members, task, loads, num_standby_replicas, looks_at_all=looks_at_all)
    return {
        name: Share(members[name].process, frozenset(each.active), frozenset(each.standby))
        for name, each in loads.items()
    }


def _place_active(
    members: Mapping[str, Share], tasks: list[str], loads: Mapping[str, _Load]
) -> None:
    """Leave each task with its owner, or move it to a copy, or to the member with the least."""
    most = -(-len(tasks) // len(members))
    left = []
    for task in tasks:
        owners = [name for name in loads if task in members[name].active]
        if owners and len(loads[owners[0]].active) < most:
            loads[owners[0]].active.add(task)
        else:
            left.append(task)
    for task in left:
        free = [name for name, each in loads.items() if len(each.active) < most]
        copies = [name for name in free if task in members[name].standby]
        chosen = min(copies or free, key=lambda name: len(loads[name].active))
        loads[chosen].active.add(task)


def _place_copies(
    members: Mapping[str, Share],
    task: str,
    loads: Mapping[str, _Load],
    count: int,
    *,
    looks_at_all: bool,
) -> None:
    """Place copies of a task in other processes, first where there is one already."""
    for _ in range(count):
        taken = {
            members[name].process
            for name, each in loads.items()
            if task in each.active or task in each.standby
        }
        possible = [name for name in loads if members[name].process not in taken]
        if not looks_at_all:
            least = min(loads, key=lambda name: len(loads[name]))
            possible = [name for name in possible if name == least]
        if not possible:
            return
        copies = [name for name in possible if task in members[name].standby]
        chosen = min(copies or possible, key=lambda name: len(loads[name]))
        loads[chosen].standby.add(task)
