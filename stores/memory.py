"""The in-memory store: a sorted map whose content ends with the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from weakref import WeakSet

from sortedcontainers import SortedDict

from streamproof.stores.api import (
    ChangelogRecord,
    KeyValueIterator,
    KeyValueStore,
    Position,
    StateStore,
    StateStoreContext,
    TopicPartition,
    require_key,
)
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.errors import InvalidStateStoreError
from streamproof.stores.iterators import RowIterator, StoreIterator, is_inverted, prefix_end

__all__ = ["InMemoryKeyValueStore", "default_store"]


class InMemoryKeyValueStore(KeyValueStore):
    """A sorted map (Kafka: InMemoryKeyValueStore).

    An iterator copies the keys when it is opened, and reads each value when it reaches the key. So
    it skips keys that were deleted since, and sees values that were updated since.
    """

    capabilities = Capabilities(
        persistent=False,
        manages_offsets=False,
        read_only_views=True,
        iterator_view="weak",
        position=True,
    )

    def __init__(self, name: str) -> None:
        self._name = name
        self._context: StateStoreContext | None = None
        self._rows: SortedDict[bytes, bytes] = SortedDict()
        # Queries come from other threads, and the sorted map splits its lists while it grows: a
        # reader must not see that.
        self._lock = Lock()
        self._position = Position()
        self._iterators: WeakSet[RowIterator] = WeakSet()

    @property
    def name(self) -> str:
        """The name of the store."""
        return self._name

    @property
    def persistent(self) -> bool:
        """False: the content ends with the process."""
        return False

    @property
    def is_open(self) -> bool:
        """Whether the store can be read and written."""
        return self._context is not None

    @property
    def position(self) -> Position:
        """A copy of the input offsets that the content reflects (KIP-796)."""
        return self._position.copy()

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Start empty, and register the callback that restores the store."""
        self._context = context
        context.register(root, self._restore)

    def close(self) -> None:
        """Drop the content and close every iterator."""
        self._context = None
        self._rows = SortedDict()
        self._position = Position()
        for iterator in list(self._iterators):
            iterator.close()

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Do nothing: the content dies with the process, and so an offset must not outlive it."""
        self._opened()

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``, or ``None``."""
        require_key(key)
        self._opened()
        return self._rows.get(key)

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of ``key``; ``None`` deletes it."""
        require_key(key)
        context = self._opened()
        self._write(key, value)
        if context.record_metadata is not None:
            self._position.update(*context.record_metadata)

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The entries from ``from_key`` to ``to_key``, both inclusive, ascending."""
        return self._scan(from_key, to_key, reverse=False)

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The same entries as ``range``, descending."""
        return self._scan(from_key, to_key, reverse=True)

    def prefix_scan(self, prefix: bytes) -> KeyValueIterator:
        """Every entry whose key starts with ``prefix``, ascending."""
        require_key(prefix)
        self._opened()
        with self._lock:
            keys = list(self._rows.irange(prefix, prefix_end(prefix), (True, False)))
        return self._iterator(keys)

    def approximate_num_entries(self) -> int:
        """The exact number of entries."""
        self._opened()
        return len(self._rows)

    def _scan(
        self, from_key: bytes | None, to_key: bytes | None, *, reverse: bool
    ) -> KeyValueIterator:
        self._opened()
        if is_inverted(from_key, to_key):
            return self._iterator([])
        with self._lock:
            keys = list(self._rows.irange(from_key, to_key, reverse=reverse))
        return self._iterator(keys)

    def _iterator(self, keys: list[bytes]) -> KeyValueIterator:
        value_of = self._rows.get
        live_rows = ((key, value) for key in keys if (value := value_of(key)) is not None)
        return StoreIterator(self._name, live_rows, self._iterators)

    def _write(self, key: bytes, value: bytes | None) -> None:
        with self._lock:
            if value is None:
                self._rows.pop(key, None)
            else:
                self._rows[key] = value

    def _restore(self, batch: Sequence[ChangelogRecord]) -> None:
        self._opened()
        for record in batch:
            self._write(record.key, record.value)

    def _opened(self) -> StateStoreContext:
        if self._context is None:
            raise InvalidStateStoreError(
                f"Store {self._name!r} is not open; call init() before using it."
            )
        return self._context


def default_store(name: str = "store") -> KeyValueStore:
    """A new in-memory store, not initialised."""
    return InMemoryKeyValueStore(name)
