"""The states of a task, and which may follow each.

Source: Kafka, Task.State.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["FOLLOWS", "TaskState"]


class TaskState(Enum):
    """The states of a task, and which may follow each."""

    CREATED = "it has no stores yet"
    RESTORING = "its stores are open, and lack something"
    RUNNING = "it processes"
    SUSPENDED = "it was taken away, and its stores are open"
    CLOSED = "it has nothing open"


FOLLOWS = {
    TaskState.CREATED: {TaskState.RESTORING, TaskState.SUSPENDED, TaskState.CLOSED},
    TaskState.RESTORING: {TaskState.RUNNING, TaskState.SUSPENDED},
    TaskState.RUNNING: {TaskState.SUSPENDED},
    TaskState.SUSPENDED: {TaskState.RESTORING, TaskState.CLOSED},
    TaskState.CLOSED: {TaskState.CREATED},
}
"""By state, those that may follow."""
