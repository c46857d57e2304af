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
    KeyValueIterator,
    KeyValueStore,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.checkpoint import OFFSET_UNKNOWN, TASK_CHECKPOINT, OffsetCheckpoint
from streamproof.stores.checkpointing import LegacyCheckpointingStateStore
from streamproof.stores.errors import ProcessorStateError, TaskCorruptedError
from streamproof.stores.iterators import RowIterator, StoreIterator
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
    """

    def __init__(
        self,
        name: str,
        inner: KeyValueStore,
        require_space: Callable[[str], None],
        watch: WatchCall = nullcontext,
    ) -> None:
        super().__init__(inner)
        self._name = name
        self._require_space = require_space
        self._watch = watch
        self._task: StateStoreContext | None = None
        self._own: StateStoreContext | None = None
        self._iterators: WeakSet[RowIterator] = WeakSet()
        self._lacks_offset = False

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
            # The task logs all writes itself, even if the store has a layer for that.
            changelog=None,
        )
        self._task, self._own = context, own
        if self.persistent:
            own.state_dir.mkdir(parents=True, exist_ok=True)
        with self._named("init"):
            self._lacks_offset = self._was_closed_without_offset(own)
            self._inner.init(own, root)
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

    def close(self) -> None:
        """Close the store."""
        for iterator in list(self._iterators):
            iterator.close()
        self._call("close")

    def flush(self) -> None:
        """Flush the store, if it has the method."""
        self._require_space(self._name)
        if hasattr(self._inner, "flush"):
            self._call("flush")

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit the store."""
        self._require_space(self._name)
        own = {self._changelog(each): offset for each, offset in changelog_offsets.items()}
        self._call("commit", own)
        self._lacks_offset = False

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
        checkpoint = OffsetCheckpoint(own.state_dir / f"{TASK_CHECKPOINT}_{self._inner.name}")
        return OFFSET_UNKNOWN in checkpoint.read().values()

    def approximate_num_uncommitted_bytes(self) -> int:
        """About how many bytes of the store await ``commit``; 0 if it does not count them."""
        if not hasattr(self._inner, "approximate_num_uncommitted_bytes"):
            return 0
        return int(self._call("approximate_num_uncommitted_bytes"))

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

    def _scan(self, operation: str, *bounds: bytes | None) -> KeyValueIterator:
        """Read all entries now, so that an error of the store is raised and named here."""
        with self._named(operation):
            found = getattr(self._inner, operation)(*bounds)
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
    def _named(self, operation: str) -> Iterator[None]:
        """Pass the current record on; an error that no store may raise becomes a SubjectError."""
        if self._task is not None and self._own is not None:
            self._own.record_metadata = self._task.record_metadata
            self._own.record_timestamp = self._task.record_timestamp
        try:
            with self._watch(f"{operation}()"):
                yield
        except (KeyboardInterrupt, MemoryError, ProcessorStateError, TaskCorruptedError):
            raise
        except BaseException as error:
            # A binding may panic with something that is not an Exception.
            raise SubjectError(
                f"Store {self._name!r} ({type(self._inner).__name__}) raised "
                f"{type(error).__name__} from {operation}(): {error}. Raise ProcessorStateError "
                "or TaskCorruptedError instead; the runtime handles no other error of a store."
            ) from error
