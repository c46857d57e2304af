"""Instances: a process with its threads, and the disk that outlives it.

Sources: Kafka, KafkaStreams and StateDirectory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from streamproof.sim.application import Application
from streamproof.sim.hosts import Host
from streamproof.sim.model_store import ModelDisk, ModelStore
from streamproof.sim.threads import StreamThread
from streamproof.stores.api import KeyValueStore

__all__ = ["Disk", "Instance"]

MakeStore = Callable[[str], KeyValueStore]


@dataclass
class Disk:
    """What one instance keeps, from process to process.

    Attributes:
        root: the state directory, as stores name it.
        model: what model stores have flushed.
        sums: how far each task is of which there is something here, for the group's leader.
        owners: the thread that has the directory of a task locked; it ends with the process.
    """

    root: Path
    model: ModelDisk = field(default_factory=ModelDisk)
    sums: dict[str, int] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)

    def directory(self, task_id: str) -> Path:
        """Where a task keeps its stores."""
        return self.root / task_id

    def make_store(self, name: str, *, transactional: bool) -> KeyValueStore:
        """A store on this disk."""
        return ModelStore(name, self.model, transactional=transactional)

    def is_empty(self, task_id: str) -> bool:
        """Whether there is nothing of a task."""
        return self.model.is_empty(self.directory(task_id))

    def wipe(self, task_id: str) -> None:
        """Delete everything of a task."""
        self.model.wipe(self.directory(task_id))
        self.sums.pop(task_id, None)

    def lock(self, task_id: str, thread: str) -> bool:
        """Take the directory of a task, unless another thread has it."""
        return self.owners.setdefault(task_id, thread) == thread

    def unlock(self, task_id: str, thread: str) -> None:
        """Give the directory of a task back; nothing happens if another thread has it."""
        if self.owners.get(task_id) == thread:
            del self.owners[task_id]


class Instance:
    """One process of the application, started again and again on the same disk.

    Args:
        application: what runs.
        name: of the instance; each of its processes has a number.
        threads: how many stream threads it has.

    Attributes:
        disk: what outlives the process.
        host: the process that runs now; ``None`` before the first, and after a crash.
        threads: of the process that runs now.
    """

    def __init__(self, application: Application, name: str, threads: int = 1) -> None:
        self._application = application
        self._count = threads
        self.name = name
        self.disk = Disk(Path(name))
        self.host: Host | None = None
        self.threads: list[StreamThread] = []

    def start(self) -> None:
        """Start a process; nothing happens if one runs."""
        if self.host is not None:
            return
        world = self._application.world
        self.disk.owners.clear()
        self.host = world.host(self.name)
        world.trace.emit("instance.started", self.name)
        self.threads = [
            StreamThread(self._application, self.host, self.disk, number)
            for number in range(self._count)
        ]

    def crash(self) -> None:
        """Kill the process: its memory is gone, and the disk is as it was flushed."""
        if self.host is not None:
            self._application.world.trace.emit("instance.crashed", self.name)
            self.host.crash()
            self.host = None
            self.threads = []
