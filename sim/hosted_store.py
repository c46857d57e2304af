"""A real store in a simulated task, with its own directory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any
from weakref import WeakSet

from streamproof.sim.broker_errors import SubjectError
from streamproof.stores.api import (
    WRITE_BUFFER_BYTES_CONFIG,
    ChangelogRecord,
    IsolationLevel,
    KeyValueIterator,
    KeyValueStore,
    Position,
    ReadOnlyKeyValueStore,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.checkpoint import (
    OFFSET_UNKNOWN,
    TASK_CHECKPOINT,
    OffsetCheckpoint,
    StoreCheckpoint,
    smallest_offsets,
)
from streamproof.stores.checkpointing import LegacyCheckpointingStateStore
from streamproof.stores.errors import (
    ProcessorStateError,
    TaskCorruptedError,
    UnsupportedOperationError,
)
from streamproof.stores.iterators import RowIterator, StoreIterator
from streamproof.stores.upgrade_configs import UpgradeMode, upgrade_mode
from streamproof.stores.wrapped import WrappedKeyValueStore

__all__ = ["HostedStore", "WatchCall"]

WatchCall = Callable[[str], AbstractContextManager[object]]
"""Makes a context manager around each call of a store, given the call, such as ``put()``."""

_BUFFER_BYTES = 16 * 1024 * 1024
"""How many bytes a store may buffer: Kafka's figure for RocksDB, and more than a run ever writes.

Any number makes our RocksDB stores expect little data, so they open faster.
"""


class HostedStore(WrappedKeyValueStore):
    """Passes every call on to a store of any kind, and names the store if it does wrong.

    The inner store may be any object with the methods, and has its own name. So each store gets its
    own directory below that of the task, and knows its changelog by its own name.

    Args:
        name: the name of the store in the topology.
        inner: the store.
        require_space: called before each write to the disk; it raises ProcessorStateError.
        watch: sees each call of the store begin and end, so that a call that hangs is noticed.
        is_upgraded: whether the runtime is in an upgrade of formats (KIP-258).
    """

    def __init__(
        self,
        name: str,
        inner: KeyValueStore,
        require_space: Callable[[str], None],
        watch: WatchCall = nullcontext,
        *,
        is_upgraded: bool = False,
    ) -> None:
        super().__init__(inner)
        self._name = name
        self._require_space = require_space
        self._watch = watch
        self._is_upgraded = is_upgraded
        self._task: StateStoreContext | None = None
        self._own: StateStoreContext | None = None
        self._iterators: WeakSet[RowIterator] = WeakSet()
        self._lacks_offset = False
        self._committed_position = Position()
        # The bytes that the store reports while nothing is staged, such as those of empty batches.
        self._idle_bytes = 0

    @property
    def name(self) -> str:
        """The name of the store in the topology."""
        return self._name

    # The life of the store.

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the store.

        Raises:
            ProcessorStateError: the files cannot be used.
            TaskCorruptedError: the files must be wiped.
            SubjectError: the store raises another error, or registers no callback.
        """
        own = replace(
            context,
            state_dir=context.state_dir / self._name,
            app_configs={**context.app_configs, WRITE_BUFFER_BYTES_CONFIG: _BUFFER_BYTES},
            restore_callbacks={},
            # The task logs all writes and measures itself, even if the store has layers for that.
            changelog=None,
            metrics=None,
        )
        self._task, self._own = context, own
        left: list[StoreCheckpoint] = []
        if self.persistent:
            own.state_dir.mkdir(parents=True, exist_ok=True)
            left = self._left_offsets(own)
        if self._imports_offsets:
            self._move_offsets(left, own)
        with self._named("init"):
            self._lacks_offset = self._was_closed_without_offset(own)
            self._inner.init(own, root)
        if not self._imports_offsets:
            self._hand_over_offsets(left)
        self._committed_position = self._position()
        declared = self._declared
        if declared is not None and declared.transactional:
            self._idle_bytes = max(0, self._count("approximate_num_uncommitted_bytes"))
        restore = own.restore_callbacks.get(root.name)
        if restore is None:
            raise SubjectError(
                f"Store {self._name!r} ({type(self._inner).__name__}) has registered no way to "
                "restore it: call context.register(root, restore) in init()."
            )

        def restore_named(batch: Sequence[ChangelogRecord]) -> None:
            with self._named("restore"):
                restore(batch)

        context.restore_callbacks[root.name] = restore_named

    def _left_offsets(self, own: StateStoreContext) -> list[StoreCheckpoint]:
        """The files of the task with offsets that the store has to take over.

        The runtime writes such files for a store that does not manage its offsets. Another version
        of the store may do so, and the runtime may have other rules than the last one.
        """
        names = own.changelog_topic(self._name), own.changelog_topic(self._inner.name)
        files = (TASK_CHECKPOINT, f"{TASK_CHECKPOINT}_{self._name}")
        sources = [StoreCheckpoint(own.state_dir.parent / each, *names) for each in files]
        return [each for each in sources if each.exists and not self._keeps_offsets_in(each, own)]

    @property
    def _imports_offsets(self) -> bool:
        """Whether the store imports offsets by itself. One that declares nothing may do so."""
        declared = getattr(self._inner, "capabilities", None)
        return not isinstance(declared, Capabilities) or declared.imports_offsets

    @staticmethod
    def _move_offsets(left: Iterable[OffsetCheckpoint], own: StateStoreContext) -> None:
        """Put offsets where the store imports them from."""
        imported = OffsetCheckpoint(own.state_dir / TASK_CHECKPOINT)
        for source in left:
            imported.write(smallest_offsets(imported.read(), source.read(strict=True)))
            source.delete()

    def _hand_over_offsets(self, left: Sequence[OffsetCheckpoint]) -> None:
        """Commit the offsets that the open store lacks, and remove them from the files.

        Source: Kafka 4.3, LegacyCheckpointingStateStore#migrateLegacyOffsets.
        """
        found: dict[TopicPartition, int] = {}
        for source in left:
            found = smallest_offsets(found, source.read(strict=True))
        lacking = {
            partition: offset
            for partition, offset in found.items()
            if offset >= 0 and self._call("committed_offset", partition) is None
        }
        if lacking:
            self._call("commit", lacking)
        for source in left:
            source.delete()

    def _keeps_offsets_in(self, file: OffsetCheckpoint, own: StateStoreContext) -> bool:
        keeper = self._inner
        if not isinstance(keeper, LegacyCheckpointingStateStore):
            return False
        return keeper.checkpoint(own).path == file.path

    def close(self) -> None:
        """Close the store."""
        for iterator in list(self._iterators):
            iterator.close()
        self._call("close")

    def write_memtable(self) -> None:
        """Let the store write its memory to the disk, as a full buffer would, if it can."""
        self._require_space(self._name)
        if hasattr(self._inner, "flush"):
            self._call("flush")

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit the store.

        Raises:
            UnsupportedOperationError: the store cannot forget an offset.
        """
        self._require_space(self._name)
        own = {self._changelog(each): offset for each, offset in changelog_offsets.items()}
        forgets = not own or None in own.values()
        declared = self._declared
        if forgets and declared is not None and not declared.forgets_offsets:
            # A store without the claim may also take such a commit, and keep its offsets.
            raise UnsupportedOperationError(f"{self._name} does not claim forgets_offsets.")
        with self._named("commit", *([UnsupportedOperationError] if forgets else [])):
            self._inner.commit(own)
        if self._idle_bytes:
            # A new segment has an empty batch of its own.
            self._idle_bytes = self._count("approximate_num_uncommitted_bytes")
        self._lacks_offset = False
        self._committed_position = self._position()

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """The committed offset of the store; ``OFFSET_UNKNOWN`` if it is known to have none."""
        found: int | None = self._call("committed_offset", self._changelog(partition))
        return OFFSET_UNKNOWN if found is None and self._lacks_offset else found

    def _was_closed_without_offset(self, own: StateStoreContext) -> bool:
        """Whether a checkpoint file says that the store was closed before it had an offset.

        The store deletes the file when it opens, and does not report it. But under exactly-once a
        store without an offset must be wiped if it was not closed, and must be kept if it was.
        """
        if not isinstance(self._inner, LegacyCheckpointingStateStore):
            return False
        return OFFSET_UNKNOWN in self._inner.checkpoint(own).read().values()

    def approximate_num_uncommitted_entries(self) -> int:
        """About how many records of the store await ``commit``; 0 if it does not count them."""
        return self._count("approximate_num_uncommitted_entries")

    # The upgrade in place (KIP-258).

    @property
    def place(self) -> str:
        """The directory of the live format: ``<store>``, or ``<store>-v2`` for the newer one.

        Without an upgrade of formats the store may have a newer format all the same, as its own
        affair: for the runtime the store has one format.
        """
        return f"{self._name}-v2" if self._is_upgraded and self._serves_newer else self._name

    @property
    def _serves_newer(self) -> bool:
        return hasattr(self._inner, "rebuild") and self._upgrade is None

    @property
    def is_preparing(self) -> bool:
        """Whether the store builds a newer format beside the live one."""
        return self._upgrade == "in_place" and hasattr(self._inner, "rebuild") and self.is_open

    @property
    def _upgrade(self) -> UpgradeMode | None:
        """The mode of the upgrade of formats that is being prepared."""
        return None if self._own is None else upgrade_mode(self._own)

    def rebuild(self, partition: TopicPartition, records: Sequence[ChangelogRecord]) -> None:
        """Feed the newer format with the next records of the changelog."""
        self._call("rebuild", self._changelog(partition), records)

    def rebuilt_offset(self, partition: TopicPartition) -> int | None:
        """The offset of the last record that was fed; ``None`` if none was."""
        found: int | None = self._call("rebuilt_offset", self._changelog(partition))
        return found

    def approximate_num_uncommitted_bytes(self) -> int:
        """About how many bytes of the store await ``commit``; 0 if it does not count them.

        Kafka's stores report 24 bytes while nothing is staged, which no commit would free.
        """
        found = self._count("approximate_num_uncommitted_bytes")
        return max(found - self._idle_bytes, 0) if found > 0 else found

    def _count(self, method: str) -> int:
        return int(self._call(method)) if hasattr(self._inner, method) else 0

    # Reading and writing.

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``, or ``None``."""
        found: bytes | None = self._call("get", key)
        return found

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of ``key``; ``None`` deletes it."""
        self._call("put", key, value)

    def put_if_absent(self, key: bytes, value: bytes | None) -> bytes | None:
        """Set the value if the key has none; return the previous value, or ``None``."""
        found: bytes | None = self._call("put_if_absent", key, value)
        return found

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Put all entries."""
        self._call("put_all", list(entries))

    def delete(self, key: bytes) -> bytes | None:
        """Delete ``key`` and return the value it had, or ``None``."""
        found: bytes | None = self._call("delete", key)
        return found

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The entries from ``from_key`` to ``to_key``, both inclusive, ascending.

        Layers ask for all entries in this way, and a store may have those and no ranges.
        """
        if from_key is None and to_key is None:
            return self._scan("all")
        return self._scan("range", from_key, to_key)

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The same entries as ``range``, descending."""
        return self._scan("reverse_range", from_key, to_key)

    def prefix_scan(self, prefix: bytes) -> KeyValueIterator:
        """Every entry whose key starts with ``prefix``, ascending."""
        return self._scan("prefix_scan", prefix)

    def approximate_num_entries(self) -> int:
        """The approximate number of entries."""
        return int(self._call("approximate_num_entries"))

    # Queries.

    @property
    def has_ranges(self) -> bool:
        """Whether the store has ``range``, which window and session stores do not have."""
        declared = self._declared
        return declared is None or (declared.kind == "key-value" and declared.ranges)

    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlyKeyValueStore:
        """A view for queries, which names the store if it does wrong; see ``_View``."""
        with self._named("read_only"):
            inner = self._inner
            view = inner.read_only(isolation_level) if hasattr(inner, "read_only") else inner
        declared = self._declared
        can_stage = declared is not None and declared.transactional
        # Under at-least-once a store may stage all the same, but nobody relies on it (KIP-892).
        stages = can_stage and self._opened().stages
        is_behind = stages and isolation_level is IsolationLevel.READ_COMMITTED
        return _View(self, view, self._committed_position if is_behind else self._position())

    @property
    def _declared(self) -> Capabilities | None:
        found = getattr(self._inner, "capabilities", None)
        return found if isinstance(found, Capabilities) else None

    def _position(self) -> Position:
        """The position of the store at this moment, staged writes included."""
        found = getattr(self._inner, "position", None)
        return found.copy() if isinstance(found, Position) else Position()

    def read_by_query(self, view: Any, key: bytes) -> bytes | None:
        """The value of ``key`` in a view."""
        with self._named("read_only().get"):
            found: bytes | None = view.get(key)
        return found

    def scan_by_query(self, view: Any, operation: str, *bounds: bytes | None) -> KeyValueIterator:
        """Entries of a view."""
        return self._scan(operation, *bounds, view=view)

    def _scan(self, operation: str, *bounds: bytes | None, view: object = None) -> KeyValueIterator:
        """Read all entries now, so that an error of the store is raised and named here."""
        with self._named(operation):
            found = getattr(self._inner if view is None else view, operation)(*bounds)
            rows = [(key, value) for key, value in found]
            if hasattr(found, "close"):
                found.close()
        return StoreIterator(self._name, iter(rows), self._iterators)

    def _changelog(self, partition: TopicPartition) -> TopicPartition:
        """The changelog as the store would name it."""
        topic = StateStoreContext.changelog_topic(self._opened(), self._inner.name)
        return TopicPartition(topic, partition.partition)

    def _opened(self) -> StateStoreContext:
        if self._own is None:
            raise SubjectError(f"Store {self._name!r} is not open; call init() before using it.")
        return self._own

    def _call(self, operation: str, *arguments: Any) -> Any:
        with self._named(operation):
            return getattr(self._inner, operation)(*arguments)

    @contextmanager
    def _named(self, operation: str, *may_raise: type[BaseException]) -> Iterator[None]:
        """Pass the current record on; an error that no store may raise becomes a SubjectError."""
        if self._task is not None and self._own is not None:
            self._own.record_metadata = self._task.record_metadata
            self._own.record_timestamp = self._task.record_timestamp
        try:
            with self._watch(f"{operation}()"):
                yield
        except (KeyboardInterrupt, MemoryError, ProcessorStateError, TaskCorruptedError):
            raise
        except may_raise:
            raise
        except BaseException as error:
            # A binding may panic with something that is not an Exception.
            raise SubjectError(
                f"Store {self._name!r} ({type(self._inner).__name__}) raised "
                f"{type(error).__name__} from {operation}(): {error}. Raise ProcessorStateError "
                "or TaskCorruptedError instead; the runtime handles no other error of a store."
            ) from error


class _View:
    """A view of a hosted store for one query.

    Args:
        store: the store, which names itself in errors.
        view: the view that the store has made.
        position: the input offsets that the view reflects.
    """

    def __init__(self, store: HostedStore, view: Any, position: Position) -> None:
        self._store = store
        self._view = view
        self.position = position

    def get(self, key: bytes) -> bytes | None:
        return self._store.read_by_query(self._view, key)

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        if from_key is None and to_key is None:
            return self.all()
        return self._store.scan_by_query(self._view, "range", from_key, to_key)

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        return self._store.scan_by_query(self._view, "reverse_range", from_key, to_key)

    def all(self) -> KeyValueIterator:
        return self._store.scan_by_query(self._view, "all")

    def reverse_all(self) -> KeyValueIterator:
        return self._store.scan_by_query(self._view, "reverse_all")

    def prefix_scan(self, prefix: bytes) -> KeyValueIterator:
        return self._store.scan_by_query(self._view, "prefix_scan", prefix)

    def approximate_num_entries(self) -> int:
        return int(self._view.approximate_num_entries())
