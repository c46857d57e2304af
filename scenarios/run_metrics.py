"""The cost and the effect of a run, in numbers by which two runs can be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from streamproof.sim.trace import Event

__all__ = ["MEASURES", "Measure"]


class Measure(NamedTuple):
    """A number that every run has.

    Attributes:
        name: the counted things, in the plural, or the name of a duration.
        is_time: whether the number is a duration in milliseconds, and not a count.
        of: computes it from the events of a run.
    """

    name: str
    is_time: bool
    of: Callable[[Sequence[Event]], int]


def _number_of(*kinds: str) -> Callable[[Sequence[Event]], int]:
    """Count the events of these kinds."""

    def count(events: Sequence[Event]) -> int:
        return sum(event.kind in kinds for event in events)

    return count


def _sum_of(attribute: str, *kinds: str) -> Callable[[Sequence[Event]], int]:
    """Add up an attribute of the events of these kinds."""

    def add(events: Sequence[Event]) -> int:
        return sum(event.attributes[attribute] for event in events if event.kind in kinds)

    return add


def _rebalances(events: Sequence[Event]) -> int:
    generations = {
        each.attributes["generation"] for each in events if each.kind == "group.assigned"
    }
    return len(generations) + sum(each.kind == "group.targeted" for each in events)


def _aborted(events: Sequence[Event]) -> int:
    return sum(
        event.kind == "transaction.marker"
        and event.attributes["complete"]
        and not event.attributes["commit"]
        for event in events
    )


def _processed_again(events: Sequence[Event]) -> int:
    """Records that some task had processed before."""
    times = Counter(
        (event.partition, event.offset) for event in events if event.kind == "task.processed"
    )
    return sum(count - 1 for count in times.values())


def _out_of_order(events: Sequence[Event]) -> int:
    """Records that are older than one that the same task of a thread has processed before."""
    latest: dict[tuple[str, str], int] = {}
    count = 0
    for event in events:
        where = event.actor, event.task
        if event.kind == "task.closed":
            latest.pop(where, None)
        elif event.kind == "task.processed":
            timestamp = event.attributes["timestamp"]
            count += timestamp < latest.get(where, timestamp)
            latest[where] = max(timestamp, latest.get(where, timestamp))
    return count


def _longest_wait(events: Sequence[Event]) -> int:
    """The time from the start of a wait for an input until the task goes on."""
    return _longest(
        events,
        begins=lambda event: event.kind == "task.waiting",
        ends=lambda event: event.kind in ("task.processed", "task.closed", "task.state"),
    )


def _longest_restoration(events: Sequence[Event]) -> int:
    """The time from the start of a restoration until the task runs, or is given up."""
    return _longest(
        events,
        begins=lambda event: event.kind == "restore.start",
        ends=lambda event: event.kind == "task.state",
    )


def _longest(
    events: Iterable[Event], begins: Callable[[Event], bool], ends: Callable[[Event], bool]
) -> int:
    """The longest time, in milliseconds, between two events of a task in a process."""
    since: dict[tuple[str, str], int] = {}
    longest = 0
    for event in events:
        process = event.process
        if event.kind == "instance.crashed":
            since = {where: time for where, time in since.items() if where[0] != process}
        elif begins(event):
            since.setdefault((process, event.task), event.time)
        elif ends(event):
            longest = max(longest, event.time - since.pop((process, event.task), event.time))
    return longest


def _longest_gap(events: Sequence[Event]) -> int:
    """The longest time without a running owner of a task that has run before."""
    running: dict[str, set[str]] = {}
    since: dict[str, int] = {}
    longest = 0
    for event in events:
        if event.kind == "instance.crashed":
            prefix = f"{event.actor}/"
            for task, where in running.items():
                gone = {each for each in where if each.startswith(prefix)}
                where.difference_update(gone)
                if gone and not where:
                    since[task] = event.time
        elif event.kind == "task.state":
            where = running.setdefault(event.task, set())
            if event.attributes["after"] == "RUNNING":
                longest = max(longest, event.time - since.pop(event.task, event.time))
                where.add(event.actor)
            elif event.actor in where:
                where.remove(event.actor)
                if not where:
                    since[event.task] = event.time
    return max([longest, *(events[-1].time - time for time in since.values())])


MEASURES = (
    Measure("records processed", is_time=False, of=_number_of("task.processed")),
    Measure("records processed again", is_time=False, of=_processed_again),
    Measure("records processed out of order", is_time=False, of=_out_of_order),
    Measure("inputs done without", is_time=False, of=_number_of("task.enforced")),
    Measure("records restored", is_time=False, of=_sum_of("records", "restore.batch")),
    Measure("records that standbys took", is_time=False, of=_sum_of("records", "update.batch")),
    Measure("tasks wiped", is_time=False, of=_number_of("task.wiped", "state.cleaned")),
    Measure("tasks corrupted", is_time=False, of=_number_of("task.corrupted")),
    Measure("rebalances", is_time=False, of=_rebalances),
    Measure("processes killed", is_time=False, of=_number_of("instance.crashed")),
    Measure("threads that died", is_time=False, of=_number_of("thread.died")),
    Measure("threads that lost their tasks", is_time=False, of=_number_of("thread.lost")),
    Measure("commits", is_time=False, of=_number_of("thread.committed")),
    Measure("transactions aborted", is_time=False, of=_aborted),
    Measure("longest wait for an input", is_time=True, of=_longest_wait),
    Measure("longest restoration", is_time=True, of=_longest_restoration),
    Measure("longest time in which a task did not run", is_time=True, of=_longest_gap),
    Measure(
        "time until the last event",
        is_time=True,
        of=lambda events: max((event.time for event in events), default=0),
    ),
)
"""The measures of every comparison: counts first, durations last."""
