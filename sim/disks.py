"""Disks: the part of an instance that outlives its processes, and the two ways to lose some of it.

A *crash* is the death of a process. Data that the process had handed to the system survives, and
data in its memory is lost. A *loss of power* also takes data that was not synced. A simulated disk
can suffer both. A real disk has real stores, and its crash leaves the files that a kill would
leave. The simulator does not model the data that real stores lose with the power.
"""

from __future__ import annotations

import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from streamproof.errors import UsageError
from streamproof.sim.decisions.idling import Mode
from streamproof.sim.hosted_store import HostedStore, WatchCall
from streamproof.sim.model_store import ModelDisk, ModelStore
from streamproof.sim.releases import LATEST, Formats, Release
from streamproof.sim.segmented_store import SegmentedStore, SegmentOf
from streamproof.sim.trace import Trace
from streamproof.sim.upgraded_formats import NEWER, PreparingStore, TimestampedStore
from streamproof.sim.upgraded_stores import AheadStore, CheckpointingStore, ManagingStore
from streamproof.sim.world import World
from streamproof.stores.api import KeyValueStore, StateStoreContext
from streamproof.stores.capabilities import Capabilities, Durability
from streamproof.stores.checkpoint import TASK_CHECKPOINT, OffsetCheckpoint, StoreCheckpoint
from streamproof.stores.checkpointing import LegacyCheckpointingStateStore
from streamproof.stores.errors import ProcessorStateError
from streamproof.stores.format_upgrade import discard
from streamproof.stores.memory import InMemoryKeyValueStore

__all__ = [
    "SLOW_MS",
    "Flushed",
    "InstanceDisk",
    "MakeStore",
    "RealDisk",
    "SimulatedDisk",
    "emit_flush",
]


class Flushed(NamedTuple):
    """What a store has written by itself.

    Attributes:
        segment: the number of the only segment that was written; ``None`` for the whole store.
        keys: the keys that were written, of a segment.
    """

    segment: int | None
    keys: tuple[bytes, ...] = ()


WHOLE = Flushed(None)
"""The store has written all its memory."""


def emit_flush(trace: Trace, actor: str, task: str, changelog: str, flushed: Flushed) -> None:
    """Tell of a store that has written its memory, or a part of it.

    Args:
        trace: the trace.
        actor: the thread that has the store open.
        task: the id of the task.
        changelog: the changelog partition of the store.
        flushed: what was written.
    """
    if flushed.segment is None:
        trace.emit("store.flushed", actor, task=task, partition=changelog)
    else:
        trace.emit(
            "store.segment_flushed",
            actor,
            task=task,
            partition=changelog,
            segment=flushed.segment,
            keys=list(flushed.keys),
        )


MakeStore = Callable[[str], KeyValueStore]
"""Makes a store, not open, given its name in the topology."""

SLOW_MS = 2_000
"""A slow step takes up to this many milliseconds."""

_COPY_ATTEMPTS = 2_000
"""How often a directory may change while it is copied, at a millisecond each."""


class InstanceDisk(ABC):
    """The disk of an instance.

    Args:
        world: the world.
        name: the name of the instance.

    Attributes:
        is_full: whether the disk has no space left.
        used: by task, when its directory was in use last, in milliseconds.
        process: the process that has locked the state directory. The system releases the lock when
            the process dies.
        release: the release of that process.
        store_rules: the rules for stores: those of the proposals, or those of Kafka.
        discards_older: whether a store deletes its older format itself, once the newer one has
            caught up.
    """

    discards_older = True
    store_rules: Mode = "proposal"

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name
        self._made: list[KeyValueStore] = []
        self.is_full = False
        self.used: dict[str, int] = {}
        self.process: str | None = None
        self.release: Release = LATEST

    def make_store(
        self,
        name: str,
        *,
        transactional: bool,
        formats: Formats = (1,),
        segment_of: SegmentOf | None = None,
    ) -> KeyValueStore:
        """A store on this disk that is not open yet.

        Args:
            name: the name of the store.
            transactional: whether the store stages its writes. A real store decides by itself.
            formats: the formats to open, the live one first. A real store reads the configuration.
            segment_of: the segment of a key, for a model store with a database for each segment;
                ``None`` for one database. A real store decides by itself.
        """
        self._made = self.open_stores
        made = None
        if segment_of is not None:
            made = self._make_segmented(name, segment_of, transactional=transactional)
        if made is None:
            made = self._make(name, transactional=transactional, formats=formats)
        self._made.append(made)
        return made

    def _make_segmented(
        self, name: str, segment_of: SegmentOf, *, transactional: bool
    ) -> KeyValueStore | None:
        """A store with a database for each segment; ``None`` if this disk has no such model."""
        del name, segment_of, transactional
        return None

    def make_global_store(self, name: str, *, transactional: bool) -> KeyValueStore:
        """A global store that is not open yet: on the disk if it is simulated, else in memory.

        A real store would have to read the topic of a table as its changelog, which may have
        another format.
        """
        del transactional
        return InMemoryKeyValueStore(name)

    def fill_memtable(self, store: KeyValueStore) -> Flushed:
        """Let a store of this disk write its memory by itself, as when a buffer is full.

        Of a store with a database for each segment, one of them does so.

        Raises:
            ProcessorStateError: the disk is full.
        """
        if isinstance(store, SegmentedStore):
            if not store.segments:
                return WHOLE
            number = self._world.choices.pick(store.segments)
            self._world.marks.sometimes(
                "a segment of a window store was flushed before another",
                holds=store.has_memory_beside(number),
            )
            return Flushed(number, tuple(store.write_segment(number)))
        if isinstance(store, ModelStore | HostedStore):
            store.write_memtable()
        return WHOLE

    @property
    def open_stores(self) -> list[KeyValueStore]:
        """The open stores. Without a process no store is open."""
        return [each for each in self._made if each.is_open]

    def require_space(self, store: str) -> None:
        """Raise if the disk is full, or if a write fails as on a full disk.

        Raises:
            ProcessorStateError: the disk has no space.
        """
        if self.is_full or self._world.faults.happens("disk.full", self._name, store):
            self._world.marks.sometimes("a disk was full")
            self._world.trace.emit("disk.full", self._name, store=store)
            raise ProcessorStateError(
                f"The disk of {self._name} is full: store {store!r} cannot be written. Nothing was "
                "deleted. Free some space, and open the store again."
            )

    @property
    def delay_ms(self) -> int:
        """How long the next step takes; 0 unless the disk is slow."""
        if self._world.faults.happens("disk.slow", self._name):
            return self._world.choices.between(1, SLOW_MS)
        return 0

    def crash(self) -> None:
        """Lose the memory of the process."""
        self._drop_memory()
        self._made, self.process = [], None

    def close(self) -> None:
        """Forget the open stores, once the run is over. The trace has no event of this."""
        self._made = []

    def lose_power(self) -> None:
        """Lose the memory of the process, and some of the data that was not synced."""
        self.crash()
        lost = self._drop_unsynced()
        self._world.marks.sometimes("a loss of power took what was flushed", holds=lost > 0)
        self._world.trace.emit("disk.power_lost", self._name, flushes=lost)

    @property
    @abstractmethod
    def tasks(self) -> list[str]:
        """The tasks that the disk has anything of, in order."""

    @abstractmethod
    def directory(self, task_id: str) -> Path:
        """The directory of a task's stores."""

    @abstractmethod
    def is_empty(self, task_id: str) -> bool:
        """Whether the disk has nothing of a task."""

    @abstractmethod
    def wipe(self, task_id: str) -> None:
        """Delete everything of a task."""

    @abstractmethod
    def places(self, task_id: str) -> list[str]:
        """The directories of a task's stores: ``<store>``, or ``<store>-v2`` (KIP-258)."""

    @abstractmethod
    def discard(self, task_id: str, place: str) -> None:
        """Delete one of these directories. No store may have it open."""

    @abstractmethod
    def _make(self, name: str, *, transactional: bool, formats: Formats) -> KeyValueStore: ...

    @abstractmethod
    def _drop_memory(self) -> None: ...

    @abstractmethod
    def _drop_unsynced(self) -> int: ...


class SimulatedDisk(InstanceDisk):
    """A disk with model stores.

    Args:
        world: the world.
        name: the name of the instance.
        durability: the failures that committed data survives.
        persistent: whether the stores are on the disk at all, or in memory alone.
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
        """The tasks that the disk has anything of, in order."""
        return [each.name for each in self._model.directories]

    def directory(self, task_id: str) -> Path:
        """The directory of a task's stores, which is a name alone: model stores have no files."""
        return self._root / task_id

    def is_empty(self, task_id: str) -> bool:
        """Whether the disk has nothing of a task."""
        return self._model.is_empty(self.directory(task_id))

    def wipe(self, task_id: str) -> None:
        """Delete everything of a task."""
        self._model.wipe(self.directory(task_id))

    def places(self, task_id: str) -> list[str]:
        """The directories of a task's stores."""
        return sorted(self._model.images(self.directory(task_id)))

    def discard(self, task_id: str, place: str) -> None:
        """Delete one of these directories."""
        self._model.discard(self.directory(task_id), place)

    def make_global_store(self, name: str, *, transactional: bool) -> KeyValueStore:
        """A global store, with the older format alone: its topic has no other."""
        return self.make_store(name, transactional=transactional)

    def _make(self, name: str, *, transactional: bool, formats: Formats) -> KeyValueStore:
        kind = self._kind(formats)
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
            store.discards = self.discards_older
        elif isinstance(store, ManagingStore):
            store.leaves_checkpoint = bool(release.upgrade_from) and not release.upgrade_mode
        elif isinstance(store, CheckpointingStore):
            store.keeps_checkpoint = defect("keeps-checkpoint-while-running")
        return store

    def _make_segmented(
        self, name: str, segment_of: SegmentOf, *, transactional: bool
    ) -> KeyValueStore | None:
        if not self._persistent or self.release != LATEST:
            return None
        return SegmentedStore(
            name,
            self._model,
            segment_of,
            transactional=transactional,
            durability=self._durability,
            trusts_newest=self._world.defect("trusts-the-newest-segment"),
        )

    def _kind(self, formats: Formats) -> type[ModelStore]:
        """The kind of store that has these formats, in the release."""
        if not self._persistent:
            return ModelStore
        if self._world.defect("position-of-staged-writes"):
            return AheadStore
        if formats != (1,):
            return TimestampedStore if formats == (2,) else PreparingStore
        return ManagingStore if self.release.manages_offsets else CheckpointingStore

    def _drop_memory(self) -> None:
        """Do nothing: the memory of a model store ends with its object, which is dropped."""

    def _drop_unsynced(self) -> int:
        return self._model.lose_power(self._world.choices)


class RealDisk(InstanceDisk):
    """A disk with real stores, in real directories.

    Two runs of one seed must be the same. So the disk relies on one property of its stores: by
    itself, a store writes nothing that changes its content when it is opened again. Our RocksDB
    stores write when a buffer is full, when they are flushed, and when they are closed. Their
    buffers hold 16 MiB here, more than a run writes between two flushes. Compactions in the
    background change files, but not the content.

    Args:
        world: the world.
        name: the name of the instance.
        root: a directory that does not exist, or is empty. A directory in memory, as in
            ``/dev/shm``, is fast, and a process that dies leaves the same there. The caller
            deletes the directory.
        make: makes a store.
        watch: sees each call of a store begin and end.
        offset_delta_threshold: under at-least-once, a commit writes the offsets of a store that
            does not manage them into a file once they have grown by more than this number.

    Raises:
        UsageError: the directory is not empty.
    """

    def __init__(
        self,
        world: World,
        name: str,
        root: Path,
        make: MakeStore,
        watch: WatchCall = nullcontext,
        *,
        offset_delta_threshold: int = 10_000,
    ) -> None:
        super().__init__(world, name)
        if root.exists() and any(root.iterdir()):
            raise UsageError(
                f"{root} is not empty, and its files would become part of the run. Name a new "
                "directory."
            )
        self._base = root
        self._make_inner = make
        self._watch = watch
        self._threshold = offset_delta_threshold
        self._processes = 0
        self._root = root / "0"
        self._root.mkdir(parents=True)

    @property
    def tasks(self) -> list[str]:
        """The tasks that the disk has anything of, in order."""
        names = sorted(each.name for each in self._root.iterdir())
        return [name for name in names if not self.is_empty(name)]

    def directory(self, task_id: str) -> Path:
        """The directory of a task's stores, as long as the process lives."""
        return self._root / task_id

    def is_empty(self, task_id: str) -> bool:
        """Whether a task has no file."""
        return not any(each.is_file() for each in self.directory(task_id).rglob("*"))

    def wipe(self, task_id: str) -> None:
        """Delete everything of a task."""
        shutil.rmtree(self.directory(task_id), ignore_errors=True)

    def places(self, task_id: str) -> list[str]:
        """The directories of a task's stores, if they are kept as our stores keep them."""
        return sorted(self._places(task_id))

    def discard(self, task_id: str, place: str) -> None:
        """Delete one of these directories."""
        discard(self._places(task_id)[place])

    def _places(self, task_id: str) -> dict[str, Path]:
        """Below ``<task>/<store>/rocksdb`` each format has a directory of its own (KIP-258)."""
        return {
            path.parts[-3] + (NEWER if path.name.endswith(NEWER) else ""): path
            for path in self.directory(task_id).glob("*/rocksdb/*")
            if path.is_dir() and "~" not in path.name
        }

    def _make(self, name: str, *, transactional: bool, formats: Formats) -> KeyValueStore:
        # The store learns the formats from its configuration.
        inner = self._make_inner(name)
        declared = getattr(inner, "capabilities", None)
        if transactional and isinstance(declared, Capabilities) and not declared.transactional:
            raise UsageError(
                f"The stores of this run must stage their writes, but {type(inner).__name__} does "
                "not: set transactional=False, or use a transactional store."
            )
        if inner.persistent and not getattr(inner, "manages_offsets", False):
            # The runtime does the same for a store from before KIP-1035.
            inner = LegacyCheckpointingStateStore(
                inner,
                offset_delta_threshold=self._threshold,
                find_checkpoint=partial(self._checkpoint, name),
            )
        return HostedStore(
            name, inner, self.require_space, self._watch, is_upgraded=formats != (1,)
        )

    def _checkpoint(self, name: str, context: StateStoreContext, own_name: str) -> OffsetCheckpoint:
        """The file of a store in the directory of its task: one for all stores, or one for each.

        The context is that of the store, whose directory lies in that of the task, and which may
        call itself by another name.
        """
        file = TASK_CHECKPOINT if self.store_rules == "proposal" else f"{TASK_CHECKPOINT}_{name}"
        return StoreCheckpoint(
            context.state_dir.parent / file,
            context.changelog_topic(name),
            context.changelog_topic(own_name),
        )

    def _drop_memory(self) -> None:
        """Go on with a copy of the current files, because a kill leaves exactly these.

        The open stores must be closed after that, to free their memory. Their last flush reaches
        the old files, which are deleted, and never the copy.
        """
        abandoned = self._root
        self._processes += 1
        self._root = self._base / str(self._processes)
        _copy(abandoned, self._root)
        self._release()
        shutil.rmtree(abandoned, ignore_errors=True)

    def close(self) -> None:
        """Close the open stores, once the run is over. The files are kept, and free."""
        self._release()
        super().close()

    def _release(self) -> None:
        for store in self._made:
            with suppress(Exception):
                store.close()

    def _drop_unsynced(self) -> int:
        raise UsageError(
            f"The power of {self._name} cannot fail in a simulation with real stores. Use model "
            "stores here; the checks in the area POWER cut the power of real stores."
        )


def _copy(source: Path, target: Path) -> None:
    """Copy the state of a directory at one moment.

    A copy of files during a write may be a state that never was. No call of a store is under way,
    but a compaction may be. So the copy counts only if no file changed during the copy.

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
        f"The files in {source} keep changing although nobody writes to the stores, so a crash "
        "cannot be simulated. Switch off the background work of the store."
    )


def _files(directory: Path) -> list[tuple[str, int, int, int]]:
    """Each file with its inode, size and time. A file that vanishes during the copy is left out."""
    found = []
    for path in sorted(directory.rglob("*")):
        with suppress(FileNotFoundError):
            status = path.stat()
            # The time of a directory changes with every name that comes or goes.
            found.append((str(path), status.st_ino, status.st_size, status.st_mtime_ns))
    return found
