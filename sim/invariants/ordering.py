"""The order in which a task takes its records (KIP-695).

The logs tell which record of an input is next, and what a reader must know of the end. Where they
do, a task's report about its own inputs is not believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, TypeVar

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory, LogRecord, suffix_of
from streamproof.sim.trace import Event

__all__ = [
    "LeastTimestampFirst",
    "WaitsForTheRestOfABurst",
    "WaitsForWhatIsThere",
    "WaitsForWhatWasThere",
]

T = TypeVar("T")

TWO_INPUTS = ["reused-table-join", "stream-stream-join", "stream-table-join"]
"""The topologies whose tasks have two inputs."""

NO_PRODUCER = -1
"""The producer of a record of no transaction."""


class _Inputs(Invariant):
    """An invariant that knows how far each task has processed its inputs."""

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By thread and task, since the task runs: by input, the last processed offset.
        self._processed: dict[tuple[str, str], dict[str, int]] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "task.state": self._begin,
            "task.processed": self._process,
            "record.dropped": self._drop,
            "input.reset": self._reset,
        }

    def _begin(self, event: Event) -> Iterator[str]:
        self._processed.pop((event.actor, event.task), None)
        yield from ()

    def _reset(self, event: Event) -> Iterator[str]:
        # Nobody knows which records follow those that are buffered.
        self._processed.get((event.actor, event.task), {}).pop(event.partition, None)
        yield from ()

    def _drop(self, event: Event) -> Iterator[str]:
        processed = self._processed.setdefault((event.actor, event.task), {})
        processed[event.partition] = event.offset
        yield from ()

    def _process(self, event: Event) -> Iterator[str]:
        processed = self._processed.setdefault((event.actor, event.task), {})
        yield from self._judge(event, processed)
        processed[event.partition] = event.offset

    def _judge(self, event: Event, processed: Mapping[str, int]) -> Iterable[str]:
        """Judge a record that is processed, given the last processed offset of each input."""
        raise NotImplementedError

    def _next(self, partition: str, processed: Mapping[str, int]) -> LogRecord | None:
        """The record that follows in the log; ``None`` if nobody knows which."""
        last = processed.get(partition)
        if last is None or self.history.compacted.get(partition, -1) > last:
            return None
        if last < self.history.forgotten.resets.get(partition, -1):
            # What was buffered before the reset is processed first.
            return None
        return next(iter(self.history.visible(partition, last + 1)), None)


class LeastTimestampFirst(_Inputs):
    """The buffered record with the least timestamp is processed next (O6)."""

    name = "the record of the least timestamp is processed first"
    requirement = "IDLE-001"
    situation = "a task chose between the records of two inputs"
    drawn_from: ClassVar = {"topologies": TWO_INPUTS}

    def _judge(self, event: Event, processed: Mapping[str, int]) -> Iterator[str]:
        timestamp = event.attributes["timestamp"]
        for partition, known in event.attributes["others"].items():
            if known[0] is None:
                continue
            self.tried = True
            # The task has a record, and the log tells which: it is the next one.
            following = self._next(partition, processed)
            head = known[0] if following is None else following.timestamp
            if head < timestamp:
                yield (
                    f"a record of {event.partition} with timestamp {timestamp} was processed "
                    f"while one of {partition} with {head} was buffered"
                )


class WaitsForTheRestOfABurst(_Inputs):
    """Who was given one record of a burst knows that the broker has the rest of it.

    The records of a burst without a transaction reach the log at one moment. So the answer with one
    of them tells of an end behind all of them. Unless the next record is buffered, the input lags;
    so a task that may wait takes no record with a later timestamp. This follows from the logs
    alone: the report of the task about its inputs is not needed.
    """

    name = "a task that may wait takes the rest of a burst before later records"
    requirement = "IDLE-002"
    situation = "a task that may wait had processed a part of a burst, and took another input"
    drawn_from: ClassVar = {
        "topologies": TWO_INPUTS,
        "settings": {"max_task_idle_ms": [0, 500], "max_poll_records": [3]},
        "workload": {"max_burst": [30], "transactional": [0.0]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._may_wait = False
        # By partition, the offsets of the records that came in one burst with the record before.
        self._joined: dict[str, set[int]] = {}
        # By partition, the number of the burst of its last record.
        self._bursts: dict[str, int] = {}
        self._burst = 0
        self._last_append = (-1, -1)

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            **super().observers,
            "application.started": self._configure,
            "log.appended": self._append,
        }

    def _configure(self, event: Event) -> Iterator[str]:
        self._may_wait = event.attributes["max_task_idle_ms"] >= 0
        yield from ()

    def _append(self, event: Event) -> Iterator[str]:
        # Nothing else has happened since the append before.
        self._burst += self._last_append != (event.sequence - 1, event.time)
        self._last_append = event.sequence, event.time
        if event.attributes["producer"] != NO_PRODUCER:
            self._bursts.pop(event.partition, None)
            return
        if self._bursts.get(event.partition) == self._burst:
            self._joined.setdefault(event.partition, set()).add(event.offset)
        self._bursts[event.partition] = self._burst
        yield from ()

    def _judge(self, event: Event, processed: Mapping[str, int]) -> Iterator[str]:
        if not self._may_wait:
            return
        timestamp = event.attributes["timestamp"]
        for partition, last in processed.items():
            if partition == event.partition or last + 1 not in self._joined.get(partition, ()):
                continue
            following = self._next(partition, processed)
            if following is None:
                continue
            self.tried = True
            if following.timestamp < timestamp:
                yield (
                    f"a record of {event.partition} with timestamp {timestamp} was processed "
                    f"before {partition}@{following.offset} with {following.timestamp}, which came "
                    "in one burst with the last processed record of that input"
                )


class WaitsForWhatIsThere(Invariant):
    """A task that may wait does not go on while an empty input has records on the broker."""

    name = "a task waits for an empty input until it is caught up"
    requirement = "IDLE-002"
    situation = "a task that may wait had no record of one of its inputs"
    drawn_from: ClassVar = {"topologies": TWO_INPUTS, "settings": {"max_task_idle_ms": [0, 500]}}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "application.started": self._configure,
            "task.state": self._begin,
            "task.processed": self._process,
        }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._idle_ms = 0
        # By thread and task, since the task runs: by input, when its last record was taken.
        self._taken: dict[tuple[str, str], dict[str, int]] = {}

    def _configure(self, event: Event) -> Iterator[str]:
        self._idle_ms = event.attributes["max_task_idle_ms"]
        yield from ()

    def _begin(self, event: Event) -> Iterator[str]:
        self._taken.pop((event.actor, event.task), None)
        yield from ()

    def _process(self, event: Event) -> Iterable[str]:
        may_wait = self._idle_ms >= 0 and event.attributes["others"]
        return self._lacking(event) if may_wait else ()

    def _lacking(self, event: Event) -> Iterator[str]:
        taken = self._taken.setdefault((event.actor, event.task), {})
        clock = taken[event.partition] = event.attributes["clock"]
        for partition, known in event.attributes["others"].items():
            if known[0] is not None:
                continue
            self.tried = True
            lag, deadline = known[1], known[2]
            if lag is None or lag > 0:
                yield (
                    f"{event.partition} was processed while {partition} was empty with "
                    f"{'an unknown lag' if lag is None else f'{lag} records on the broker'}"
                )
            elif deadline is None or clock < max(deadline, self._earliest(taken.get(partition))):
                yield (
                    f"{event.partition} was processed before the task had waited "
                    f"{self._idle_ms} ms for {partition}"
                )

    def _earliest(self, taken: int | None) -> int:
        """The earliest end of a wait for an input, whatever deadline the task reports.

        The wait begins anew each time that the task has a record of the input.
        """
        return 0 if taken is None or self.history.of_kafka else taken + self._idle_ms


class WaitsForWhatWasThere(_Inputs):
    """A task that may wait knows of all that its inputs had when it began to run.

    A thread that has got a task begins to read its inputs then, so that each end that it knows is
    from after that. So an input has a lag above 0 until the task has these records, whatever lag
    the task reports, and the task takes no record of another input.
    """

    name = "a task that may wait takes what its inputs had before it began to run"
    requirement = "IDLE-002"
    situation = "a task that may wait lacked records of an input that were there before it ran"
    drawn_from: ClassVar = {
        "topologies": TWO_INPUTS,
        "settings": {"max_task_idle_ms": [0]},
        # An end is unknown for long only if an answer has left the input out.
        "plan": {"instances": [2, 3], "activation": [0.9]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._may_wait = False
        # By partition and producer, the first record whose transaction has no marker there yet.
        self._unstable: dict[str, dict[int, int]] = {}
        # By thread, its active tasks; each with the ends of all logs when it first ran there, once
        # it has run.
        self._ends: dict[str, dict[str, Mapping[str, int] | None]] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            **super().observers,
            "application.started": self._configure,
            "log.appended": self._append,
            "transaction.marker": self._mark,
            "thread.assigned": self._assign,
        }

    def _configure(self, event: Event) -> Iterator[str]:
        # A recording of Kafka's own threads may tell of an assignment too late.
        self._may_wait = event.attributes["max_task_idle_ms"] >= 0 and not self.history.of_kafka
        yield from ()

    def _append(self, event: Event) -> Iterable[str]:
        if event.attributes["transactional"] and self.history.exactly_once:
            unstable = self._unstable.setdefault(event.partition, {})
            unstable.setdefault(event.attributes["producer"], event.offset)
        return ()

    def _mark(self, event: Event) -> Iterable[str]:
        self._unstable.get(event.partition, {}).pop(event.attributes["producer"], None)
        return ()

    def _assign(self, event: Event) -> Iterator[str]:
        # Of a task that the thread had before, the consumer may know older ends.
        before = self._ends.get(event.actor, {})
        self._ends[event.actor] = {each: before.get(each) for each in event.attributes["active"]}
        yield from ()

    def _begin(self, event: Event) -> Iterator[str]:
        yield from super()._begin(event)
        if event.attributes["after"] != "RUNNING":
            return
        # The task goes on from the committed offsets, or from older ones.
        self._processed[event.actor, event.task] = {
            name: offset - 1 for name, offset in _of_task(event.task, self.history.committed)
        }
        ends = self._ends.get(event.actor, {})
        if event.task in ends and ends[event.task] is None:
            ends[event.task] = {
                name: min([log.end, *self._unstable.get(name, {}).values()])
                for name, log in _of_task(event.task, self.history.logs)
            }

    def _judge(self, event: Event, processed: Mapping[str, int]) -> Iterator[str]:
        if not self._may_wait:
            return
        ends = self._ends.get(event.actor, {}).get(event.task) or {}
        starts = self.history.forgotten.starts
        for partition, known in event.attributes["others"].items():
            following, end = self._next(partition, processed), ends.get(partition, 0)
            if following is None or not starts.get(partition, 0) <= following.offset < end:
                continue
            self.tried = True
            if known[0] is None:
                yield (
                    f"{event.partition} was processed while {partition} was empty, although it had "
                    f"the record at {following.offset} before task {event.task} began to run"
                )


def _of_task(task: str, found: Mapping[str, T]) -> Iterator[tuple[str, T]]:
    """What was found of the partitions that a task may read: those with its number."""
    suffix = suffix_of(task)
    return ((partition, each) for partition, each in found.items() if partition.endswith(suffix))
