"""Disks: what an instance keeps from process to process, and the two ways to lose some of it.

A *crash* is the death of a process: what it had handed to the system is there afterwards, and what
was in its memory is gone. A *loss of power* takes what was not synced as well. A disk of the model
has both. A real disk has real stores on it, whose crash is what a kill leaves; what they lose
together with the power is not simulated here.
"""

from __future__ import annotations

import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path

from streamproof.errors import UsageError
from streamproof.sim.hosted_store import HostedStore, WatchCall
from streamproof.sim.model_store import ModelDisk, ModelStore
from streamproof.sim.releases import LATEST, Release
from streamproof.sim.upgraded_formats import NEWER, PreparingStore, TimestampedStore
from streamproof.sim.upgraded_stores import AheadStore, CheckpointingStore, ManagingStore
from streamproof.sim.world import World
from streamproof.stores.api import KeyValueStore
from streamproof.stores.capabilities import Capabilities, Durability
from streamproof.stores.errors import ProcessorStateError
from streamproof.stores.legacy import LegacyCheckpointingStateStore

__all__ = ["SLOW_MS", "InstanceDisk", "MakeStore", "RealDisk", "SimulatedDisk"]

MakeStore = Callable[[str], KeyValueStore]
"""Makes a store, by the name that it has in the topology, that is not open yet."""

SLOW_MS = 2_000
"""A slow step takes up to so many milliseconds."""

_COPY_ATTEMPTS = 2_000
"""How often a directory may change while it is copied, at a millisecond each."""


class InstanceDisk(ABC):
    """The disk of an instance.

    Args:
        world: the world.
        name: of the instance.

    Attributes:
        is_full: whether nothing more can be written.
        used: by task, when its directory was closed last; in milliseconds.
        process: who has the state directory; the system frees it when the process dies.
        release: what that process is a release of.
    """

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name
        self._made: list[KeyValueStore] = []
        self.is_full = False
        self.used: dict[str, int] = {}
        self.process: str | None = None
        self.release: Release = LATEST

    def make_store(self, name: str, *, transactional: bool) -> KeyValueStore:
        """A store on this disk that is not open yet.

        Args:
            name: of the store.
            transactional: whether it stages its writes; a real store has its own way.
        """
        self._made = self.open_stores
        self._made.append(self._make(name, transactional=transactional))
        return self._made[-1]

    @property
    def open_stores(self) -> list[KeyValueStore]:
        """The stores that are open: none is when nobody runs."""
        return [each for each in self._made if each.is_open]

    def require_space(self, store: str) -> None:
        """Raise if the disk is full, or fails as a full one does.

        Raises:
            ProcessorStateError: it is.
        """
        if self.is_full or self._world.faults.happens("disk.full", self._name, store):
            self._world.marks.sometimes("a disk was full")
            self._world.trace.emit("disk.full", self._name, store=store)
            raise ProcessorStateError(
                f"The disk of {self._name} is full: store {store!r} cannot be written. Nothing was "
                "deleted. Make space, and open it again."
            )

    @property
    def delay_ms(self) -> int:
        """How long the next step takes; 0 unless the disk is slow."""
        if self._world.faults.happens("disk.slow", self._name):
            return self._world.choices.between(1, SLOW_MS)
        return 0

    def crash(self) -> None:
        """Lose what the process had in its memory."""
        self._drop_memory()
        self._made, self.process = [], None

    def close(self) -> None:
        """Forget what is open, once the run is over; nothing of that gets into the trace."""
        self._made = []

    def lose_power(self) -> None:
        """Lose what the process had in its memory, and what was not synced."""
        self.crash()
        lost = self._drop_unsynced()
        self._world.marks.sometimes("a loss of power took what was flushed", holds=lost > 0)
        self._world.trace.emit("disk.power_lost", self._name, flushes=lost)

    @property
    @abstractmethod
    def tasks(self) -> list[str]:
        """The tasks of which there is something, in order."""

    @abstractmethod
    def directory(self, task_id: str) -> Path:
        """Where a task keeps its stores."""

    @abstractmethod
    def is_empty(self, task_id: str) -> bool:
        """Whether there is nothing of a task."""

    @abstractmethod
    def wipe(self, task_id: str) -> None:
        """Delete everything of a task."""

    @abstractmethod
    def _make(self, name: str, *, transactional: bool) -> KeyValueStore: ...

    @abstractmethod
    def _drop_memory(self) -> None: ...

    @abstractmethod
    def _drop_unsynced(self) -> int: ...


class SimulatedDisk(InstanceDisk):
    """A disk with model stores.

    Args:
        world: the world.
        name: of the instance.
        durability: what a commit of its stores does.
        persistent: whether its stores are on it at all, or in memory only.
    """

    def __init__(
        self,
        world: World,
        name: str,
        durability: Durability = "flush",
        *,
        persistent: bool = True,
    ) -> None:
        super().__init__(world, name)
        self._durability: Durability = durability
        self._persistent = persistent
        self._root = Path(name)
        self._model = ModelDisk(lambda: world.now, self.require_space)

    @property
    def tasks(self) -> list[str]:
        """The tasks of which there is something, in order."""
        return [each.name for each in self._model.directories]

    def directory(self, task_id: str) -> Path:
        """Where a task keeps its stores; there are no files."""
        return self._root / task_id

    def is_empty(self, task_id: str) -> bool:
        """Whether there is nothing of a task."""
        return self._model.is_empty(self.directory(task_id))

    def wipe(self, task_id: str) -> None:
        """Delete everything of a task."""
        self._model.wipe(self.directory(task_id))

    def _make(self, name: str, *, transactional: bool) -> KeyValueStore:
        kind = self._kind()
        store = kind(
            f"{name}{NEWER}" if kind is TimestampedStore else name,
            self._model,
            transactional=transactional,
            durability=self._durability,
            persistent=self._persistent,
        )
        defect, release = self._world.defect, self.release
        if isinstance(store, TimestampedStore):
            store.takes_older_offsets = defect("takes-offsets-of-older-format")
        elif isinstance(store, ManagingStore):
            store.leaves_checkpoint = bool(release.upgrade_from) and not release.upgrade_mode
        elif isinstance(store, CheckpointingStore):
            store.keeps_checkpoint = defect("keeps-checkpoint-while-running")
        return store

    def _kind(self) -> type[ModelStore]:
        """How the release has its stores."""
        if not self._persistent:
            return ModelStore
        if self._world.defect("position-of-staged-writes"):
            return AheadStore
        if self.release.formats != (1,):
            return TimestampedStore if self.release.formats == (2,) else PreparingStore
        return ManagingStore if self.release.manages_offsets else CheckpointingStore

    def _drop_memory(self) -> None:
        """Nothing is to be done: a store that nobody has any more has taken its memory along."""

    def _drop_unsynced(self) -> int:
        return self._model.lose_power(self._world.choices)


class RealDisk(InstanceDisk):
    """A disk with real stores, in real directories.

    Two runs of one seed must be the same, so this is relied on: a store writes nothing on its own
    that changes what it holds when it is opened again. Our RocksDB stores write when a buffer is
    full, when they are flushed, and when they are closed; their buffers hold 16 MiB here, more than
    a run writes between two flushes. Compactions go on in the background, and change files, but not
    what is in them.

    Args:
        world: the world.
        name: of the instance.
        root: a directory that is not there yet, or empty. In memory, as in ``/dev/shm``, it is
            fast; a process that dies cannot tell the difference. Whoever has made it deletes it.
        make: makes a store.
        watch: sees each call of a store begin and end.

    Raises:
        UsageError: there is something in the directory.
    """

    def __init__(
        self,
        world: World,
        name: str,
        root: Path,
        make: MakeStore,
        watch: WatchCall = nullcontext,
    ) -> None:
        super().__init__(world, name)
        if root.exists() and any(root.iterdir()):
            raise UsageError(
                f"{root} is not empty: what is there would become part of the run. Name a "
                "directory that is not there yet."
            )
        self._base = root
        self._make_inner = make
        self._watch = watch
        self._processes = 0
        self._root = root / "0"
        self._root.mkdir(parents=True)

    @property
    def tasks(self) -> list[str]:
        """The tasks of which there is something, in order."""
        names = sorted(each.name for each in self._root.iterdir())
        return [name for name in names if not self.is_empty(name)]

    def directory(self, task_id: str) -> Path:
        """Where a task keeps its stores, for as long as the process lives."""
        return self._root / task_id

    def is_empty(self, task_id: str) -> bool:
        """Whether there is no file of a task."""
        return not any(each.is_file() for each in self.directory(task_id).rglob("*"))

    def wipe(self, task_id: str) -> None:
        """Delete everything of a task."""
        shutil.rmtree(self.directory(task_id), ignore_errors=True)

    def _make(self, name: str, *, transactional: bool) -> KeyValueStore:
        inner = self._make_inner(name)
        declared = getattr(inner, "capabilities", None)
        if transactional and isinstance(declared, Capabilities) and not declared.transactional:
            raise UsageError(
                f"The stores of this run are to stage their writes, and {type(inner).__name__} "
                "does not: set transactional=False, or use a store that is transactional."
            )
        if inner.persistent and not getattr(inner, "manages_offsets", False):
            # As the runtime does for a store of before KIP-1035.
            inner = LegacyCheckpointingStateStore(inner)
        return HostedStore(name, inner, self.require_space, self._watch)

    def _drop_memory(self) -> None:
        """Go on with a copy of the files as they are now, which is what a kill leaves.

        To close what is open is the only way to get its memory back. What that flushes reaches the
        files that are given up, and never the copy.
        """
        abandoned = self._root
        self._processes += 1
        self._root = self._base / str(self._processes)
        _copy(abandoned, self._root)
        self._release()
        shutil.rmtree(abandoned, ignore_errors=True)

    def close(self) -> None:
        """Close what is open, once the run is over, so that the files are free; they are kept."""
        self._release()
        super().close()

    def _release(self) -> None:
        for store in self._made:
            with suppress(Exception):
                store.close()

    def _drop_unsynced(self) -> int:
        raise UsageError(
            f"The power of {self._name} cannot fail in a simulation: it has real stores, and what "
            "they lose then is checked apart from it, in the area POWER. Use model stores here."
        )


def _copy(source: Path, target: Path) -> None:
    """Copy a directory as it is at one moment.

    A copy of files that somebody writes to is a state that never was. No call is under way here,
    but a compaction may be: so the copy counts only if nothing has changed meanwhile.

    Raises:
        ProcessorStateError: the files do not come to rest.
    """
    for _ in range(_COPY_ATTEMPTS):
        before = _files(source)
        with suppress(OSError, shutil.Error):
            shutil.copytree(source, target)
            if _files(source) == before:
                return
        shutil.rmtree(target, ignore_errors=True)
        time.sleep(0.001)
    raise ProcessorStateError(
        f"The files in {source} change all the time, though nobody writes to the stores: what a "
        "crash leaves of them cannot be told. Switch off what the store does in the background."
    )


def _files(directory: Path) -> list[tuple[str, int, int, int]]:
    """Each file with what changes when it is written to; one that is gone meanwhile is left out."""
    found = []
    for path in sorted(directory.rglob("*")):
        with suppress(FileNotFoundError):
            status = path.stat()
            # The system notes the time of a directory for every name that comes or goes.
            found.append((str(path), status.st_ino, status.st_size, status.st_mtime_ns))
    return found
