"""The work of the leader of a group: from the reports of all threads to the share of each.

Tasks are placed on processes first, and then on the threads of each process. A task with an old
owner is withheld from its new owner until the old one has given it up, so that no two threads ever
run it at the same time.

Sources: KIP-268, KIP-429, KIP-441; Kafka, StreamsPartitionAssignor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from streamproof.sim.decisions.assignment import Assignment, ClientState, ClientTasks, assign
from streamproof.sim.decisions.lag import (
    LATEST_OFFSET,
    UNKNOWN_OFFSET_SUM,
    is_caught_up,
    task_lag,
)
from streamproof.sim.decisions.versions import (
    FORMATS_VERSION,
    LATEST_SUPPORTED_VERSION,
    OFFSET_SUM_VERSION,
    Answer,
    Spoken,
)

__all__ = [
    "AssignorConfig",
    "Shares",
    "Subscription",
    "ThreadAssignment",
    "described",
    "forget_partial",
    "mirroring",
    "said_formats",
    "share_out",
]

LATEST_SPOKEN = Spoken(LATEST_SUPPORTED_VERSION, LATEST_SUPPORTED_VERSION)
"""The versions of a member that is up to date."""

LATEST_ANSWER = Answer(LATEST_SUPPORTED_VERSION, LATEST_SUPPORTED_VERSION, probing=False)
"""The answer of a leader to members that are all up to date."""


@dataclass(frozen=True)
class AssignorConfig:
    """The goals of the assignment.

    Attributes:
        num_standby_replicas: how many copies each stateful task has beside the active one.
        max_warmup_replicas: how many copies are made for moves at a time.
        acceptable_recovery_lag: how many records a caught-up client may lack.
    """

    num_standby_replicas: int = 0
    max_warmup_replicas: int = 2
    acceptable_recovery_lag: int = 10_000


@dataclass(frozen=True)
class Subscription:
    """The report of a thread to the leader.

    Attributes:
        process: the process of the thread.
        owned: the active tasks that the thread owns.
        sums: the offset sum of each task that the process has anything of.
        spoken: the metadata version of the report, and the newest one that the thread supports.
        formats: the formats that the disk of its process has, by store: 1 is the older one, 2 has
            timestamps (KIP-258). ``None`` if the report does not name them.
    """

    process: str
    owned: tuple[str, ...] = ()
    sums: Mapping[str, int] = field(default_factory=dict)
    spoken: Spoken = LATEST_SPOKEN
    formats: Mapping[str, tuple[int, ...]] | None = None

    @property
    def has_newer_alone(self) -> bool:
        """Whether the report names only stores of the newer format, as in a roll-over."""
        return self.formats is not None and all(1 not in each for each in self.formats.values())


@dataclass(frozen=True)
class ThreadAssignment:
    """The share of a thread.

    Attributes:
        active: the tasks that the thread owns from now on.
        standby: the tasks that the thread keeps a copy of, or warms up.
        follow_up: whether a task is withheld, so that another rebalance must follow.
        probing: whether a copy is being made, so that the group looks again after a while.
        answer: the metadata version of this answer, and the newest one that all support.
    """

    active: tuple[str, ...] = ()
    standby: tuple[str, ...] = ()
    follow_up: bool = False
    probing: bool = False
    answer: Answer = LATEST_ANSWER

    @property
    def is_empty(self) -> bool:
        """Whether the answer has versions alone: the thread then keeps its tasks."""
        return self.answer.probing


class Shares(NamedTuple):
    """The result of the leader's work.

    Attributes:
        threads: the share of each member.
        placed: the final place of each task, by process. A task with an old owner elsewhere is
            withheld for now.
    """

    threads: dict[str, ThreadAssignment]
    placed: Assignment


def share_out(
    subscriptions: Mapping[str, Subscription],
    ends: Mapping[str, int],
    stateless: frozenset[str],
    config: AssignorConfig,
    answers: Mapping[str, Answer] = MappingProxyType({}),
) -> Shares:
    """Share all tasks out.

    A member whose report is too new gets nothing and keeps its tasks until it has joined again. So
    nobody else gets these tasks in the meantime.

    Args:
        subscriptions: the reports, by member.
        ends: the sum of the ends of its changelogs, by stateful task.
        stateless: the other tasks.
        config: the goals.
        answers: by member, the versions of its answer; by default those of present members.
    """
    told = {member: answers.get(member, LATEST_ANSWER) for member in subscriptions}
    readers = {member: each for member, each in subscriptions.items() if not told[member].probing}
    threads: dict[str, list[str]] = {}
    for member, each in sorted(readers.items()):
        threads.setdefault(each.process, []).append(member)
    clients = {
        process: ClientState(len(members), _lags([subscriptions[each] for each in members], ends))
        for process, members in threads.items()
    }
    mirrors = mirroring(readers.values())
    copies = _mirrored({process: clients.pop(process) for process in mirrors}, ends, config)
    placed = assign(
        clients,
        ends,
        stateless,
        num_standby_replicas=config.num_standby_replicas,
        max_warmup_replicas=config.max_warmup_replicas,
        acceptable_recovery_lag=config.acceptable_recovery_lag,
    )
    owners = {task: member for member, each in subscriptions.items() for task in each.owned}
    found = {
        member: ThreadAssignment(answer=answer) for member, answer in told.items() if answer.probing
    }
    for process, members in threads.items():
        tasks = copies[process] if process in mirrors else placed.clients[process]
        active = _spread(sorted(tasks.active), members, owners)
        standby = _spread(sorted(tasks.standby | tasks.warmup), members, {})
        for member in members:
            # Before that version an assignment does not say when the next rebalance is due. Then
            # the thread that gives a task up begins one, and no thread looks at warm-ups.
            says_when = told[member].version >= OFFSET_SUM_VERSION
            free = [each for each in active[member] if owners.get(each, member) == member]
            found[member] = ThreadAssignment(
                tuple(free),
                tuple(standby[member]),
                follow_up=says_when and len(free) < len(active[member]),
                # One member watches the clock for all (Kafka: the leader's first consumer).
                probing=says_when and placed.probing and member == min(readers),
                answer=told[member],
            )
    return Shares(found, placed)


def mirroring(subscriptions: Iterable[Subscription]) -> list[str]:
    """The processes that only make copies for now, in order: those with the newer format alone.

    As long as a member reports in a version from before formats, that member and others with the
    older format keep the work (KIP-258, Roll-over upgrade).

    Args:
        subscriptions: the reports that the leader can read.
    """
    newer: dict[str, bool] = {}
    reports = list(subscriptions)
    for each in reports:
        newer[each.process] = newer.get(each.process, True) and each.has_newer_alone
    if all(each.spoken.used >= FORMATS_VERSION for each in reports):
        return []
    return sorted(process for process, has_newer_alone in newer.items() if has_newer_alone)


def _mirrored(
    clients: Mapping[str, ClientState], ends: Mapping[str, int], config: AssignorConfig
) -> dict[str, ClientTasks]:
    """The tasks that each of these processes would have without the others, as standbys."""
    if not clients:
        return {}
    alone = assign(
        clients,
        ends,
        [],
        num_standby_replicas=config.num_standby_replicas,
        max_warmup_replicas=config.max_warmup_replicas,
        acceptable_recovery_lag=config.acceptable_recovery_lag,
    )
    return {
        process: ClientTasks(standby=each.active | each.standby | each.warmup)
        for process, each in alone.clients.items()
    }


def encoded(sums: Mapping[str, int], version: int) -> dict[str, int]:
    """The offset sums, as a report in this metadata version has them.

    Before offset sums a member named its active tasks, and the other tasks that it had anything of.
    A leader takes the former for the latest offset, and the latter for an unknown sum.

    Source: Kafka, SubscriptionInfo#taskOffsetSums.
    """
    if version >= OFFSET_SUM_VERSION:
        return dict(sums)
    return {
        task: total if total == LATEST_OFFSET else UNKNOWN_OFFSET_SUM
        for task, total in sums.items()
    }


def described(subscriptions: Mapping[str, Subscription], shares: Shares) -> dict[str, Any]:
    """The input and the result of the leader's work, for the trace."""
    return {
        "members": {
            name: {
                "process": each.process,
                "owned": list(each.owned),
                "sums": dict(each.sums),
                "used": each.spoken.used,
                "supported": each.spoken.supported,
                "formats": said_formats(each.formats),
                "version": shares.threads[name].answer.version,
                "probed": shares.threads[name].is_empty,
                "active": list(shares.threads[name].active),
                "standby": list(shares.threads[name].standby),
            }
            for name, each in subscriptions.items()
        },
        "clients": {
            process: {
                "active": sorted(each.active),
                "standby": sorted(each.standby),
                "warmup": sorted(each.warmup),
            }
            for process, each in shares.placed.clients.items()
        },
        "probing": shares.placed.probing,
    }


def said_formats(formats: Mapping[str, Sequence[int]] | None) -> dict[str, list[int]] | None:
    """The formats of a report, for the trace."""
    return None if formats is None else {name: list(each) for name, each in formats.items()}


def forget_partial(
    subscriptions: Mapping[str, Subscription], ends: Mapping[str, int], config: AssignorConfig
) -> dict[str, Subscription]:
    """The reports without tasks that are not caught up, as with a defect."""
    lag = config.acceptable_recovery_lag
    return {
        name: replace(
            each,
            sums={
                task: total
                for task, total in each.sums.items()
                if task in ends and is_caught_up(task_lag(total, ends[task]), lag)
            },
        )
        for name, each in subscriptions.items()
    }


def _lags(subscriptions: list[Subscription], ends: Mapping[str, int]) -> dict[str, int]:
    """The lag of a process with each task, by the best report of its threads.

    A process that does not report a task lacks all of it. If that is little, the process counts as
    caught up (Kafka, ClientState#computeTaskLags).
    """
    sums: dict[str, int] = {}
    for each in subscriptions:
        for task, total in each.sums.items():
            best = sums.get(task, total)
            sums[task] = LATEST_OFFSET if LATEST_OFFSET in (best, total) else max(best, total)
    return {task: task_lag(sums.get(task), end) for task, end in ends.items()}


def _spread(
    tasks: list[str], members: list[str], owners: Mapping[str, str]
) -> dict[str, list[str]]:
    """Spread tasks evenly over the threads of a process; a thread keeps its own if it can."""
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
