"""The running tasks of a thread that have something to do: a round looks at these alone.

A task without a record, whose lags are known, does nothing until a record comes or a punctuation is
due. So leaving it out changes nothing, and a round costs only as much as it does.

Source: Kafka, TaskExecutor#process, which asks all tasks in each round.
"""

from __future__ import annotations

from collections.abc import Iterable

from streamproof.sim.tasks.stream_task import StreamTask, TaskState

__all__ = ["IDLE_MS", "WorkingTasks"]

IDLE_MS = 5_000
"""A thread looks at all of its tasks at least once in this many milliseconds."""


class WorkingTasks:
    """The running tasks of a thread, as the thread goes from one round to the next."""

    def __init__(self) -> None:
        self._readers: dict[str, StreamTask] = {}
        self._awake: dict[str, StreamTask] = {}
        # The tasks with punctuations by the clock of the host, which are due without records, too.
        self._clocked: dict[str, StreamTask] = {}

    def began(self, task: StreamTask) -> None:
        """Note that a task runs from now on."""
        self._readers |= dict.fromkeys(task.spec.inputs, task)
        self._awake[task.id] = task
        if task.punctuations.next_wall_clock is not None:
            self._clocked[task.id] = task

    def ended(self, task: StreamTask) -> None:
        """Note that a task does not run any more, if it ever did."""
        for partition in task.spec.inputs:
            if self._readers.get(partition) is task:
                del self._readers[partition]
        self._awake.pop(task.id, None)
        self._clocked.pop(task.id, None)

    def reader(self, partition: str) -> StreamTask | None:
        """The running task that has a partition as an input."""
        return self._readers.get(partition)

    def moved(self, partition: str) -> StreamTask | None:
        """Note that an input has moved, and return its task, which has something to do."""
        task = self._readers.get(partition)
        if task is not None:
            self._awake[task.id] = task
        return task

    def due(self, now: int) -> list[StreamTask]:
        """The tasks that have something to do, in the order of their ids."""
        for name, task in self._clocked.items():
            if (task.punctuations.next_wall_clock or 0) <= now:
                self._awake[name] = task
        return [task for _, task in sorted(self._awake.items()) if task.state is TaskState.RUNNING]

    def rest(self, tasks: Iterable[StreamTask]) -> None:
        """From now on, leave out the tasks that only wait for a record or for the time."""
        for task in tasks:
            waits = task.queues.total_buffered() or not task.queues.knows_lags
            if task.found_nothing and not waits and not task.commit_requested:
                self._awake.pop(task.id, None)

    def idle_ms(self, now: int) -> int:
        """How long no task has anything to do unless something happens; 0 if one has.

        Args:
            now: the time by the clock of the host, in milliseconds.
        """
        if self._awake:
            return 0
        due = (each.punctuations.next_wall_clock or 0 for each in self._clocked.values())
        return min(max(min(due, default=now + IDLE_MS) - now, 0), IDLE_MS)
