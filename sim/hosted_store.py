"""A real store in a simulated task: in a directory of its own, under the name it has there."""

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
from streamproof.stores.errors import ProcessorStateError, TaskCorruptedError
from streamproof.stores.iterators import RowIterator, StoreIterator
from streamproof.stores.legacy import LegacyCheckpointingStateStore
from streamproof.stores.wrapped import WrappedKeyValueStore

__all__ = ["HostedStore", "WatchCall"]

WatchCall = Callable[[str], AbstractContextManager[object]]
"""Is entered around each call of a store, whose name it is given, as ``put()``."""

_BUFFER_BYTES = 16 * 1024 * 1024
"""What a store may hold back: Kafka's figure for RocksDB, and more than a run ever writes to it.

To ask for it is to say that there is little data, and our RocksDB stores open faster then.
"""


class HostedStore(WrappedKeyValueStore):
    """Passes everything on to a store of any kind, and names it if it does wrong.

    A store may be anything that has the methods, and whoever made it has named it: so each has a
    directory of its own within that of the task, and knows its changelog by its own name.

    Args:
        name: of the store in the topology.
        inner: the store.
        require_space: is asked before what writes to the disk; it raises ProcessorStateError.
        watch: sees each call of the store begin and end, so that one that hangs can be told.
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
            TaskCorruptedError: they must be wiped.
            SubjectError: it raises something else, or registers no way to restore it.
        """
        own = replace(
            context,
            state_dir=context.state_dir / self._name,
            app_configs={**context.app_configs, WRITE_BUFFER_BYTES_CONFIG: _BUFFER_BYTES},
            restore_callbacks={},
            # What is written here is logged by the task already, whatever layers the store has.
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
                "restore it: init() must call context.register(root, restore)."
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
        """Flush the store, if it has a way to."""
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

        The store takes the file away and does not tell of it: but without an offset, what was not
        closed must be wiped under exactly-once, and what was closed must not.
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
        """Set the value unless there is one; return the value that was there, or ``None``."""
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
        """About how many entries there are."""
        return int(self._call("approximate_num_entries"))

    def _scan(self, operation: str, *bounds: bytes | None) -> KeyValueIterator:
        """The entries as they are now: what raises, raises here, where it can be named."""
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
        """Tell the store what is being processed, and blame it for what it may not raise."""
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
                f"{type(error).__name__} from {operation}(): {error}. Of a store the runtime "
                "expects ProcessorStateError, or TaskCorruptedError, and nothing else."
            ) from error
