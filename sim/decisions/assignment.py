"""The assignment of tasks to clients, so that work goes to clients that have the state.

A task stays with a client that is caught up, while the client that should have it in the end warms
up: restoration happens beside the work, not instead of it. As long as a client warms up, the group
looks again after the probing interval.

Sources: KIP-441; Kafka, HighAvailabilityTaskAssignor, TaskMovement and ClientState.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from streamproof.sim.decisions.lag import is_caught_up

__all__ = ["Assignment", "ClientState", "ClientTasks", "assign"]


class ClientState(NamedTuple):
    """A client as the leader knows it (Kafka: ClientState).

    Kafka compares lags as numbers, sentinels included. So a client whose lag is unknown, -3, ranks
    before a client that runs the task, -2, and before each known lag. It never counts as caught up.

    Attributes:
        threads: the number of its stream threads, at least 1.
        lags: its lag by stateful task, as ``task_lag`` computes it. A client without a lag ranks
            last.
    """

    threads: int
    lags: Mapping[str, int]


@dataclass
class ClientTasks:
    """The tasks of a client.

    Attributes:
        active: the tasks that it processes.
        standby: the tasks of which it keeps a copy.
        warmup: the tasks that it restores in order to take them over.
    """

    active: set[str] = field(default_factory=set)
    standby: set[str] = field(default_factory=set)
    warmup: set[str] = field(default_factory=set)

    def has(self, task: str) -> bool:
        """Whether the client gets the task in any role."""
        return task in self.active or task in self.standby or task in self.warmup

    def __len__(self) -> int:
        return len(self.active) + len(self.standby) + len(self.warmup)


class Assignment(NamedTuple):
    """The decision.

    Attributes:
        clients: the tasks of each client.
        probing: whether a client warms up, so that the group has to look again.
    """

    clients: dict[str, ClientTasks]
    probing: bool


def assign(
    clients: Mapping[str, ClientState],
    stateful: Iterable[str],
    stateless: Iterable[str],
    *,
    num_standby_replicas: int = 0,
    max_warmup_replicas: int = 2,
    acceptable_recovery_lag: int = 10_000,
) -> Assignment:
    """Place all tasks.

    Args:
        clients: the clients by name, at least one.
        stateful: the ids of the tasks with a changelog.
        stateless: the ids of the other tasks.
        num_standby_replicas: how many copies each stateful task has beside the active one.
        max_warmup_replicas: how many copies the whole group makes for moves at a time.
        acceptable_recovery_lag: how many records a caught-up client may lack.
    """
    return _Assignor(clients, acceptable_recovery_lag).run(
        sorted(stateful), sorted(stateless), num_standby_replicas, max_warmup_replicas
    )


class _Assignor:
    """One assignment under way."""

    def __init__(self, clients: Mapping[str, ClientState], acceptable_recovery_lag: int) -> None:
        self._clients = dict(sorted(clients.items()))
        self._acceptable = acceptable_recovery_lag
        self._tasks = {name: ClientTasks() for name in self._clients}

    def run(
        self, stateful: list[str], stateless: list[str], standbys: int, warmups: int
    ) -> Assignment:
        names = list(self._clients)
        for number, task in enumerate(stateful):
            self._tasks[names[number % len(names)]].active.add(task)
        self._balance(lambda name: self._tasks[name].active)
        for task in stateful:
            for _ in range(standbys):
                free = [name for name in names if not self._tasks[name].has(task)]
                if free:
                    self._tasks[min(free, key=self._load)].standby.add(task)
        self._balance(lambda name: self._tasks[name].standby)
        moved, left = self._hold_active_where_it_is(warmups)
        moved |= self._hold_standby_where_it_is(left)
        for task in stateless:
            self._tasks[min(names, key=self._active_load)].active.add(task)
        return Assignment(self._tasks, probing=moved)

    def _load(self, name: str) -> float:
        """All tasks of a client for each of its threads."""
        return len(self._tasks[name]) / self._clients[name].threads

    def _active_load(self, name: str) -> tuple[float, float]:
        return len(self._tasks[name].active) / self._clients[name].threads, self._load(name)

    def _balance(self, tasks_of: Callable[[str], set[str]]) -> None:
        """Move tasks from busier to idler clients, as long as that makes them more alike."""
        moving = True
        while moving:
            moving = False
            for source in self._clients:
                for target in self._clients:
                    for task in sorted(tasks_of(source)):
                        if self._evens_out(len(tasks_of(source)), source, tasks_of, target):
                            if self._tasks[target].has(task):
                                continue
                            tasks_of(source).remove(task)
                            tasks_of(target).add(task)
                            moving = True

    def _evens_out(
        self, count: int, source: str, tasks_of: Callable[[str], set[str]], target: str
    ) -> bool:
        """Whether one task less here and one more there makes the two more alike."""
        here, there = self._clients[source].threads, self._clients[target].threads
        skew = count / here - len(tasks_of(target)) / there
        after = (count - 1) / here - (len(tasks_of(target)) + 1) / there
        return skew > 0 and (after >= 0 or -after < skew)

    def _caught_up(self, name: str, task: str) -> bool:
        lag = self._clients[name].lags.get(task)
        return lag is not None and is_caught_up(lag, self._acceptable)

    def _rank(self, name: str, task: str) -> float:
        """The rank of a client for a task: lower is closer to having all of the state.

        Source: Kafka, HighAvailabilityTaskAssignor and ClientState#lagFor.
        """
        lag = self._clients[name].lags.get(task)
        return float("inf") if lag is None else lag

    def _better(self, name: str, task: str) -> list[str]:
        """The clients that should have a task rather than this one, which is not caught up."""
        if self._caught_up(name, task):
            return []
        caught_up = [each for each in self._clients if self._caught_up(each, task)]
        if caught_up:
            return caught_up
        # No client is caught up. Then the client with the most records is better than a new
        # beginning (KAFKA-13600).
        rank = self._rank(name, task)
        return [each for each in self._clients if self._rank(each, task) < rank]

    def _moves(self, tasks_of: Callable[[str], set[str]]) -> list[tuple[str, str, list[str]]]:
        """Task, intended client and better clients; tasks with the fewest choices first."""
        found = [
            (task, name, better)
            for name in self._clients
            for task in sorted(tasks_of(name))
            if (better := self._better(name, task))
        ]
        return sorted(found, key=lambda move: (len(move[2]), move[0]))

    def _hold_active_where_it_is(self, warmups: int) -> tuple[bool, int]:
        """Leave active tasks with clients that have their state; whether any, and budget left."""
        moves = self._moves(lambda name: self._tasks[name].active)
        for task, intended, better in moves:
            holder = min(better, key=lambda name: self._preference(name, task))
            self._tasks[intended].active.remove(task)
            if task in self._tasks[holder].standby:
                # The two change their roles, and no copy is made.
                self._tasks[holder].standby.remove(task)
                self._tasks[intended].standby.add(task)
            elif warmups > 0:
                self._tasks[intended].warmup.add(task)
                warmups -= 1
            self._tasks[holder].active.add(task)
        return bool(moves), warmups

    def _preference(self, name: str, task: str) -> tuple[float, bool, float]:
        """Sort by lag, with all caught-up clients alike; then by an existing copy, then by load."""
        rank = 0 if self._caught_up(name, task) else self._rank(name, task)
        return rank, task not in self._tasks[name].standby, self._load(name)

    def _hold_standby_where_it_is(self, warmups: int) -> bool:
        """Leave copies with their clients, as long as the budget allows copies elsewhere."""
        moved = False
        for task, intended, better in self._moves(lambda name: self._tasks[name].standby):
            free = [name for name in better if not self._tasks[name].has(task)]
            if not free or warmups <= 0:
                continue
            self._tasks[intended].standby.remove(task)
            self._tasks[intended].warmup.add(task)
            self._tasks[min(free, key=self._load)].standby.add(task)
            warmups -= 1
            moved = True
        return moved
