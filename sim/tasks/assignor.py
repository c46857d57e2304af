"""What the leader of a group does: from what all threads report to what each of them gets.

Tasks are placed on processes first, and within a process on threads. A task that somebody still
owns is withheld from its new owner until it was given up: so nobody ever runs beside another.

Sources: KIP-429, KIP-441; Kafka, StreamsPartitionAssignor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streamproof.sim.decisions.assignment import Client, assign
from streamproof.sim.decisions.lag import LATEST_OFFSET, task_lag

__all__ = ["AssignorConfig", "Subscription", "ThreadAssignment", "share_out"]


@dataclass(frozen=True)
class AssignorConfig:
    """What the assignment is asked to aim at.

    Attributes:
        num_standby_replicas: copies of each stateful task beside the active one.
        max_warmup_replicas: copies at a time that are made for a move.
        acceptable_recovery_lag: records that a caught-up client may lack.
    """

    num_standby_replicas: int = 0
    max_warmup_replicas: int = 2
    acceptable_recovery_lag: int = 10_000


@dataclass(frozen=True)
class Subscription:
    """What a thread says of itself.

    Attributes:
        process: the process that it belongs to.
        owned: the active tasks that it owns.
        sums: how far its process is with each task that it has anything of.
    """

    process: str
    owned: tuple[str, ...] = ()
    sums: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ThreadAssignment:
    """What a thread gets.

    Attributes:
        active: the tasks that it owns from now on.
        standby: the tasks that it keeps a copy of, or warms up.
        follow_up: whether a task is withheld, so that the group has to come together again.
        probing: whether something is on its way, so that the group looks again after a while.
    """

    active: tuple[str, ...] = ()
    standby: tuple[str, ...] = ()
    follow_up: bool = False
    probing: bool = False


def share_out(
    subscriptions: Mapping[str, Subscription],
    ends: Mapping[str, int],
    stateless: frozenset[str],
    config: AssignorConfig,
) -> dict[str, ThreadAssignment]:
    """Share all tasks out.

    Args:
        subscriptions: by member.
        ends: by stateful task, the sum of the ends of its changelogs.
        stateless: the other tasks.
        config: what to aim at.
    """
    threads: dict[str, list[str]] = {}
    for member, each in sorted(subscriptions.items()):
        threads.setdefault(each.process, []).append(member)
    clients = {
        process: Client(len(members), _lags([subscriptions[each] for each in members], ends))
        for process, members in threads.items()
    }
    placed = assign(
        clients,
        ends,
        stateless,
        num_standby_replicas=config.num_standby_replicas,
        max_warmup_replicas=config.max_warmup_replicas,
        acceptable_recovery_lag=config.acceptable_recovery_lag,
    )
    owners = {task: member for member, each in subscriptions.items() for task in each.owned}
    found: dict[str, ThreadAssignment] = {}
    for process, members in threads.items():
        tasks = placed.clients[process]
        active = _spread(sorted(tasks.active), members, owners)
        standby = _spread(sorted(tasks.standby | tasks.warmup), members, {})
        for member in members:
            free = [each for each in active[member] if owners.get(each, member) == member]
            found[member] = ThreadAssignment(
                tuple(free),
                tuple(standby[member]),
                follow_up=len(free) < len(active[member]),
                probing=placed.probing,
            )
    return found


def _lags(subscriptions: list[Subscription], ends: Mapping[str, int]) -> dict[str, int]:
    """How far a process is behind with each task, as the best of its threads says."""
    sums: dict[str, int] = {}
    for each in subscriptions:
        for task, total in each.sums.items():
            best = sums.get(task, total)
            sums[task] = LATEST_OFFSET if LATEST_OFFSET in (best, total) else max(best, total)
    return {task: task_lag(total, ends[task]) for task, total in sums.items() if task in ends}


def _spread(
    tasks: list[str], members: list[str], owners: Mapping[str, str]
) -> dict[str, list[str]]:
    """Spread tasks over the threads of a process, evenly; who owns one keeps it if it can."""
    most = -(-len(tasks) // len(members))
    found: dict[str, list[str]] = {member: [] for member in members}
    rest = []
    for task in tasks:
        owner = owners.get(task)
        if owner in found and len(found[owner]) < most:
            found[owner].append(task)
        else:
            rest.append(task)
    for task in rest:
        found[min(members, key=lambda member: len(found[member]))].append(task)
    return found
