"""How long each task of a thread has waited for an answer of the brokers.

Source: KIP-572, ``task.timeout.ms``; Kafka, AbstractTask#maybeInitTaskTimeoutOrThrow and
#clearTaskTimeout.
"""

from __future__ import annotations

from collections.abc import Iterable

from streamproof.sim.broker_errors import TaskTimeoutError
from streamproof.sim.world import World

__all__ = ["TaskDeadlines"]


class TaskDeadlines:
    """The first time-out of each task since it last made progress.

    Args:
        world: the world.
        actor: the thread, for the trace.
        timeout_ms: ``task.timeout.ms``.
    """

    def __init__(self, world: World, actor: str, timeout_ms: int) -> None:
        self._world = world
        self._actor = actor
        self._timeout_ms = timeout_ms
        self._first: dict[str, int] = {}

    def timed_out(self, task: str, now: int) -> None:
        """Note that a request for a task got no answer.

        Args:
            task: the id of the task.
            now: the time by the clock of the host, in milliseconds.

        Raises:
            TaskTimeoutError: the task has got no answer for too long.
        """
        if self._world.defect("restarts-task-timeout"):
            self._first.pop(task, None)
        waited_ms = now - self._first.setdefault(task, now)
        self._world.trace.emit("task.timed_out", self._actor, task=task, waited_ms=waited_ms)
        if waited_ms > self._timeout_ms:
            self._world.marks.sometimes("a thread died because a task got no answer for too long")
            raise TaskTimeoutError(
                f"{task} got no answer for {waited_ms} ms, and task.timeout.ms is "
                f"{self._timeout_ms}."
            )

    def progressed(self, tasks: Iterable[str]) -> None:
        """Note that tasks have made progress."""
        if self._first:
            for each in tasks:
                self._first.pop(each, None)
