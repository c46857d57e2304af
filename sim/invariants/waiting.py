"""Waiting for data: a task waits for records of an input only if the log has some for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace import Event

__all__ = ["LagIsThatOfTheLog"]


class LagIsThatOfTheLog(Invariant):
    """A lag counts offsets up to the end that the isolation level of the consumer may see.

    The lag itself is in no event. A task that waits for data on the brokers has found one above 0.
    So the log must have an offset behind the last record that the task has processed: under
    read_committed, one below the last stable offset.
    """

    name = "a task waits for data only if the log has some that it may read"
    requirement = "LAG-005"
    situation = "a task waited for data on the brokers"
    drawn_from: ClassVar = {
        "topologies": ["stream-table-join", "stream-stream-join"],
        "settings": {"max_task_idle_ms": [0]},
        "workload": {"transactional": [1.0]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By thread and task, the offset after the last processed record of each input.
        self._next: dict[tuple[str, str], dict[str, int]] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "task.processed": self._process,
            "task.state": self._state,
            "task.waiting": self._waits,
        }

    def _process(self, event: Event) -> Iterable[str]:
        # A task with one input never waits for another one.
        if event.attributes["others"]:
            self._next.setdefault((event.actor, event.task), {})[event.partition] = event.offset + 1
        return ()

    def _state(self, event: Event) -> Iterator[str]:
        self._next.pop((event.actor, event.task), None)
        yield from ()

    def _waits(self, event: Event) -> Iterator[str]:
        done = self._next.get((event.actor, event.task), {})
        for partition, reason in event.attributes["waiting"].items():
            if reason != "data on the broker":
                continue
            self.tried = True
            end, after = self._end(partition), done.get(partition, 0)
            if end <= after:
                yield (
                    f"task {event.task} waits for data of {partition}, but has all {after} offsets "
                    f"that it may read: the log ends at {end} for it"
                )

    def _end(self, partition: str) -> int:
        """The last stable offset under exactly-once, and the end of the log otherwise."""
        log = self.history.log(partition)
        if not self.history.exactly_once:
            return log.end
        open_ones = [offsets[0] for offsets in log.undecided.values() if offsets]
        return min([log.end, *open_ones])
