"""The order in which a task takes its records (KIP-695)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace import Event

__all__ = ["LeastTimestampFirst", "WaitsForWhatIsThere"]


class LeastTimestampFirst(Invariant):
    """The buffered record with the least timestamp is processed next (O6)."""

    name = "the record of the least timestamp is processed first"
    requirement = "IDLE-001"

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {"task.processed": self._process}

    def _process(self, event: Event) -> Iterable[str]:
        return self._overtaken(event) if event.attributes["others"] else ()

    def _overtaken(self, event: Event) -> Iterator[str]:
        timestamp = event.attributes["timestamp"]
        for partition, known in event.attributes["others"].items():
            if known[0] is not None and known[0] < timestamp:
                yield (
                    f"a record of {event.partition} with timestamp {timestamp} was processed "
                    f"while one of {partition} with {known[0]} was buffered"
                )


class WaitsForWhatIsThere(Invariant):
    """A task that may wait does not go on while an empty input has records on the broker."""

    name = "a task waits for an empty input until it is caught up"
    requirement = "IDLE-002"

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {"application.started": self._configure, "task.processed": self._process}

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._idle_ms = 0

    def _configure(self, event: Event) -> Iterator[str]:
        self._idle_ms = event.attributes["max_task_idle_ms"]
        yield from ()

    def _process(self, event: Event) -> Iterable[str]:
        may_wait = self._idle_ms >= 0 and event.attributes["others"]
        return self._lacking(event) if may_wait else ()

    def _lacking(self, event: Event) -> Iterator[str]:
        for partition, known in event.attributes["others"].items():
            if known[0] is not None:
                continue
            lag, deadline = known[1], known[2]
            if lag is None or lag > 0:
                yield (
                    f"{event.partition} was processed while {partition} was empty with "
                    f"{'an unknown lag' if lag is None else f'{lag} records on the broker'}"
                )
            elif deadline is None or event.attributes["clock"] < deadline:
                yield (
                    f"{event.partition} was processed before the task had waited "
                    f"{self._idle_ms} ms for {partition}"
                )
