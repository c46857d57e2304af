"""The buffered records of a task, and the times that its inputs have reached.

Sources: KIP-695; Kafka, PartitionGroup and RecordQueue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping

from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.choices import Choices
from streamproof.sim.decisions.idling import (
    DISABLED,
    Input,
    Mode,
    Readiness,
    next_partitions,
    ready_to_process,
)
from streamproof.sim.decisions.refusals import refusal

__all__ = ["BUFFERED_RECORDS_PER_PARTITION", "NO_TIME", "PartitionGroup"]

BUFFERED_RECORDS_PER_PARTITION = 1_000
"""``buffered.records.per.partition``: above it, a partition is paused."""

NO_TIME = -1
"""The stream time of a task that has not processed a record."""


class PartitionGroup:
    """The record queues of a task.

    Args:
        partitions: the inputs. The ``kafka`` mode depends on their order, which is that of a hash
            map in Kafka, and a choice here.
        choices: decides between records of the same timestamp, and the order of the inputs.
        max_task_idle_ms: ``max.task.idle.ms``.
        mode: the rules for idling.
        limit: a partition with more buffered records is paused.
        defect: says whether the runtime makes a mistake, given its name.

    Attributes:
        limit: a partition with more buffered records is paused.
        stream_time: the largest processed timestamp; ``NO_TIME`` before the first.
        partition_times: the same by partition.
    """

    def __init__(
        self,
        partitions: Iterable[str],
        choices: Choices,
        *,
        max_task_idle_ms: int,
        mode: Mode = "proposal",
        limit: int = BUFFERED_RECORDS_PER_PARTITION,
        defect: Callable[[str], bool] = lambda _: False,
    ) -> None:
        names = list(partitions)
        if mode == "kafka":
            names = choices.shuffled(names)
        self._queues: dict[str, deque[LogEntry]] = {each: deque() for each in names}
        self._choices = choices
        self._max_task_idle_ms = max_task_idle_ms
        self._mode: Mode = mode
        self.limit = limit
        self._ignores_lag = defect("ignores-lag")
        self._chooses_by_largest_time = defect("chooses-by-largest-time")
        # The partitions and offsets of records that cannot be processed.
        self._refused: set[tuple[str, int]] = set()
        self._lags: dict[str, int] = {}
        self._deadlines: dict[str, int] = {}
        self.stream_time = NO_TIME
        self.partition_times = dict.fromkeys(self._queues, NO_TIME)

    @property
    def partitions(self) -> list[str]:
        """The inputs."""
        return list(self._queues)

    def total_buffered(self) -> int:
        """How many records of all partitions wait to be processed."""
        return sum(map(len, self._queues.values()))

    def buffered(self, partition: str) -> int:
        """How many records of a partition wait to be processed."""
        return len(self._queues[partition])

    def head_offset(self, partition: str) -> int | None:
        """The offset of the next record of a partition; ``None`` if none is buffered."""
        queue = self._queues[partition]
        return queue[0].offset if queue else None

    def add(self, partition: str, records: Iterable[LogEntry]) -> bool:
        """Buffer records; return whether the partition is over its limit, and has to be paused."""
        queue = self._queues[partition]
        for each in records:
            queue.append(each)
            if refusal(each.timestamp, each.value):
                self._refused.add((partition, each.offset))
        return len(queue) > self.limit

    def is_refused(self, partition: str, offset: int) -> bool:
        """Whether a record that was buffered cannot be processed."""
        return (partition, offset) in self._refused

    def drop(self, partition: str) -> None:
        """Drop all buffered records of a partition: a mistake, unless they are read again."""
        self._queues[partition].clear()

    def has_space(self, partition: str) -> bool:
        """Whether a partition that was paused may be resumed."""
        return len(self._queues[partition]) <= self.limit

    def update_lags(self, current_lag: Callable[[str], int | None]) -> None:
        """Ask for the lag of each input, unless the task never waits.

        Args:
            current_lag: the lag of an input; ``None`` if it is not known.

        Source: KIP-695: -1 completely opts out; Kafka, PartitionGroup#updateLags.
        """
        if self._max_task_idle_ms == DISABLED:
            return
        lags = ((name, current_lag(name)) for name in self._queues)
        self._lags = {name: lag for name, lag in lags if lag is not None}

    @property
    def knows_lags(self) -> bool:
        """Whether the task knows all lags that it needs: none if it never waits."""
        return self._max_task_idle_ms == DISABLED or len(self._lags) == len(self._queues)

    def readiness(self, now: int) -> Readiness:
        """Whether the task may process a record now."""
        inputs = [
            Input(name, len(queue), 0 if self._ignores_lag else self._lags.get(name))
            for name, queue in self._queues.items()
        ]
        found = ready_to_process(
            inputs,
            self._deadlines,
            now=now,
            max_task_idle_ms=self._max_task_idle_ms,
            mode=self._mode,
        )
        self._deadlines = found.deadlines
        return found

    def next_record(self) -> tuple[str, LogEntry] | None:
        """Take the record of the least timestamp, with its partition; ``None`` without a record."""
        heads = [(name, queue[0].timestamp) for name, queue in self._queues.items() if queue]
        if not heads:
            return None
        if self._refused:
            for name, _ in heads:
                if self.is_refused(name, self._queues[name][0].offset):
                    # It is left out at once, and moves no time (Kafka: CorruptedRecord).
                    return name, self._queues[name].popleft()
        if self._chooses_by_largest_time:
            heads = [(name, max(time, self.partition_times[name])) for name, time in heads]
        partition = self._choices.pick(next_partitions(heads))
        record = self._queues[partition].popleft()
        self._advance(partition, record.timestamp)
        return partition, record

    def others(self, partition: str) -> dict[str, list[int | None]]:
        """The state of the other inputs when a record of one is processed.

        Each has the timestamp of its next record, or ``None``; then the state goes on with its lag,
        which is ``None`` if it is not known, and since when the task has waited for the input.
        """
        found: dict[str, list[int | None]] = {}
        for name, queue in self._queues.items():
            if name == partition:
                continue
            if queue:
                found[name] = [queue[0].timestamp]
            else:
                found[name] = [None, self._lags.get(name), self._deadlines.get(name)]
        return found

    def set_times(self, times: Mapping[str, int]) -> None:
        """Begin with the times that were committed with the offsets (KAFKA-7994)."""
        for partition, time in times.items():
            self._advance(partition, time)

    def _advance(self, partition: str, time: int) -> None:
        self.partition_times[partition] = max(self.partition_times[partition], time)
        self.stream_time = max(self.stream_time, time)

    def clear(self) -> None:
        """Drop all records and all times, when the task is suspended.

        In Kafka the deadlines of idling outlive a suspension.
        """
        for queue in self._queues.values():
            queue.clear()
        self._lags.clear()
        if self._mode == "proposal":
            self._deadlines = {}
        self.stream_time = NO_TIME
        self.partition_times = dict.fromkeys(self._queues, NO_TIME)
