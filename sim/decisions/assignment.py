"""The assignment of tasks to clients, so that work goes to clients that have the state.

A task stays with a client that is caught up, while the client that should have it in the end warms
up: restoration happens beside the work, not instead of it. As long as a client warms up, the group
looks again after the probing interval.

Sources: KIP-441; Kafka, HighAvailabilityTaskAssignor, TaskMovement and ClientState.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
        sorted(stateful, key=_numbers),
        sorted(stateless, key=_numbers),
        num_standby_replicas,
        max_warmup_replicas,
    )


def _numbers(task: str) -> tuple[int, ...]:
    """The order of tasks: 0_2 comes before 0_10 (Kafka: TaskId#compareTo)."""
    return tuple(map(int, task.split("_")))


class _Move(NamedTuple):
    """A task that another client is better for; moves with the fewest caught-up clients go first.

    Attributes:
        caught_up: the number of clients that are caught up with the task.
        task: the numbers of the task.
        client: the position of the intended client among all.
    """

    caught_up: int
    task: tuple[int, ...]
    client: int


class _Assignor:
    """One assignment under way."""

    def __init__(self, clients: Mapping[str, ClientState], acceptable_recovery_lag: int) -> None:
        self._clients = dict(sorted(clients.items()))
        self._names = list(self._clients)
        self._acceptable = acceptable_recovery_lag
        self._tasks = {name: ClientTasks() for name in self._clients}
        # The copies that the whole group may still make for moves.
        self._warmups = 0

    def run(
        self, stateful: list[str], stateless: list[str], standbys: int, warmups: int
    ) -> Assignment:
        for number, task in enumerate(stateful):
            self._tasks[self._names[number % len(self._names)]].active.add(task)
        self._balance(lambda name: self._tasks[name].active)
        for task in stateful:
            for _ in range(standbys):
                free = [name for name in self._names if not self._tasks[name].has(task)]
                if free:
                    self._tasks[min(free, key=self._load)].standby.add(task)
        if standbys:
            self._balance(lambda name: self._tasks[name].standby)
        self._warmups = warmups
        moved = self._hold_active_where_it_is()
        moved |= self._hold_standby_where_it_is()
        for task in stateless:
            self._tasks[min(self._names, key=self._active_load)].active.add(task)
        return Assignment(self._tasks, probing=moved)

    def _load(self, name: str) -> float:
        """All tasks of a client for each of its threads."""
        return len(self._tasks[name]) / self._clients[name].threads

    def _active_load(self, name: str) -> float:
        return len(self._tasks[name].active) / self._clients[name].threads

    def _balance(self, tasks_of: Callable[[str], set[str]]) -> None:
        """Move tasks from busier to idler clients, as long as that makes them more alike."""
        moving = True
        while moving:
            moving = False
            for source in self._names:
                for target in self._names:
                    for task in sorted(tasks_of(source), key=_numbers):
                        if not self._evens_out(source, target):
                            break
                        if not self._tasks[target].has(task):
                            tasks_of(source).remove(task)
                            tasks_of(target).add(task)
                            moving = True

    def _evens_out(self, source: str, target: str) -> bool:
        """Whether one task less here and one more there makes the two more alike."""
        here, there = self._clients[source].threads, self._clients[target].threads
        skew = self._load(source) - self._load(target)
        after = (len(self._tasks[source]) - 1) / here - (len(self._tasks[target]) + 1) / there
        return 0 <= after < skew

    def _caught_up(self, name: str, task: str) -> bool:
        lag = self._clients[name].lags.get(task)
        return lag is not None and is_caught_up(lag, self._acceptable)

    def _rank(self, name: str, task: str) -> float:
        """The rank of a client for a task: lower is closer to having all of the state.

        Source: Kafka, HighAvailabilityTaskAssignor and ClientState#lagFor.
        """
        lag = self._clients[name].lags.get(task)
        return float("inf") if lag is None else lag

    def _moves(self, tasks_of: Callable[[str], set[str]]) -> list[tuple[str, str]]:
        """The tasks whose intended client is not caught up while another one has more records.

        Each comes with that client. If no client is caught up, the one with the most records is
        better than a new beginning (KAFKA-13600).
        """
        found = []
        for number, name in enumerate(self._names):
            for task in tasks_of(name):
                best = min(self._rank(each, task) for each in self._names)
                if not self._caught_up(name, task) and best < self._rank(name, task):
                    caught_up = sum(self._caught_up(each, task) for each in self._names)
                    found.append((_Move(caught_up, _numbers(task), number), task, name))
        return [(task, name) for _, task, name in sorted(found)]

    def _source(self, task: str, intended: str, free: Sequence[str]) -> str | None:
        """The client that a task stays with while the intended one warms up.

        That is the idlest of those that are caught up, or else the one with the most records.

        Args:
            task: the task.
            intended: the intended client.
            free: the clients that may have the task.
        """
        caught_up = [each for each in free if self._caught_up(each, task)]
        if caught_up:
            return min(caught_up, key=self._load)
        # Among clients with the same rank those before the intended one may have the task.
        limit = self._rank(intended, task), intended
        ranked = [(self._rank(each, task), each) for each in free]
        return min((each for each in ranked if each < limit), default=(0.0, None))[1]

    def _take_warmup(self) -> bool:
        """Whether one more copy may be made for a move."""
        self._warmups -= 1
        return self._warmups >= 0

    def _hold_active_where_it_is(self) -> bool:
        """Leave active tasks with clients that have their state; return whether there are any."""
        moves = self._moves(lambda name: self._tasks[name].active)
        for task, intended in moves:
            standbys = [each for each in self._names if task in self._tasks[each].standby]
            ready = [each for each in standbys if self._caught_up(each, task)]
            source = self._source(task, intended, ready or self._names)
            if source is None:
                continue
            self._tasks[intended].active.remove(task)
            if source in standbys:
                # The two change their roles, and no copy is made.
                self._tasks[source].standby.remove(task)
                self._tasks[intended].standby.add(task)
            elif self._take_warmup():
                self._tasks[intended].warmup.add(task)
            self._tasks[source].active.add(task)
        return bool(moves)

    def _hold_standby_where_it_is(self) -> bool:
        """Leave copies with clients that have their state; return whether there are any."""
        moved = False
        for task, intended in self._moves(lambda name: self._tasks[name].standby):
            free = [each for each in self._names if not self._tasks[each].has(task)]
            source = self._source(task, intended, free)
            if source is None:
                continue
            self._tasks[intended].standby.remove(task)
            if self._take_warmup():
                self._tasks[intended].warmup.add(task)
            self._tasks[source].standby.add(task)
            moved = True
        return moved
