"""The cache that the stores of a thread share, and the part of it that belongs to one store.

Source: Kafka, ThreadCache and NamedCache.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import RLock
from typing import NamedTuple

from sortedcontainers import SortedDict

from streamproof.stores.api import RecordMetadata
from streamproof.stores.errors import InvalidArgumentError

__all__ = ["CACHE_MAX_BYTES", "ENTRY_OVERHEAD_BYTES", "CachedEntry", "RecordCache", "StoreCache"]

CACHE_MAX_BYTES = 10 * 1024 * 1024
"""How large a cache is by default, in bytes (Kafka: ``statestore.cache.max.bytes``)."""

ENTRY_OVERHEAD_BYTES = 64
"""What an entry counts beside its key and its value: its place in the order, and its record."""


class CachedEntry(NamedTuple):
    """A cached value, ``None`` for a deletion, and the input record that it came with."""

    value: bytes | None
    timestamp: int
    metadata: RecordMetadata | None


class RecordCache:
    """The entries of all stores of a thread, bounded in bytes.

    When the cache is full, the entry that was unused for the longest time leaves, of whichever
    store. If the entry is dirty, all dirty entries of its store are flushed first, so that writes
    reach the store in the order of their puts.

    Args:
        max_bytes: the bound, in bytes of keys and values and ENTRY_OVERHEAD_BYTES for each
            entry; 10 MiB by default. With 0 every write goes on at once.

    Attributes:
        lock: hold it to read or change entries, because queries come from other threads.

    Raises:
        InvalidArgumentError: the bound is negative.

    Source: Kafka, ThreadCache.
    """

    def __init__(self, max_bytes: int = CACHE_MAX_BYTES) -> None:
        self.lock = RLock()
        self._num_bytes = 0
        # The entry that was unused for the longest time comes first.
        self._order: OrderedDict[tuple[StoreCache, bytes], None] = OrderedDict()
        self._max_bytes = 0
        self.resize(max_bytes)

    @property
    def max_bytes(self) -> int:
        """The bound, in bytes."""
        return self._max_bytes

    @property
    def num_bytes(self) -> int:
        """How many bytes all entries have."""
        return self._num_bytes

    def __len__(self) -> int:
        """The number of entries of all stores."""
        return len(self._order)

    def resize(self, max_bytes: int) -> None:
        """Change the bound; entries that are too much leave at once.

        Raises:
            InvalidArgumentError: the bound is negative.
        """
        if max_bytes < 0:
            raise InvalidArgumentError(
                f"The cache size is {max_bytes} bytes; give 0 to write everything through, or more."
            )
        with self.lock:
            self._max_bytes = max_bytes
            self.shrink()

    def shrink(self) -> None:
        """Let entries leave until the others are within the bound."""
        while self._num_bytes > self._max_bytes and self._order:
            store_cache, key = next(iter(self._order))
            store_cache.evict(key)

    def use(self, place: tuple[StoreCache, bytes]) -> None:
        """Note that an entry was used."""
        self._order.move_to_end(place)

    def add(self, place: tuple[StoreCache, bytes], num_bytes: int) -> None:
        """Count an entry as the most recently used one."""
        self._order[place] = None
        self._num_bytes += num_bytes

    def remove(self, place: tuple[StoreCache, bytes], num_bytes: int) -> None:
        """Count an entry no more."""
        del self._order[place]
        self._num_bytes -= num_bytes


class StoreCache:
    """The entries of one store in the cache. The caller holds the lock of the cache.

    Args:
        cache: the cache.
        write: writes a dirty entry to the inner store.

    Attributes:
        dirty: the entries that the inner store does not have yet, the one put last at the end.
        num_dirty_bytes: how many bytes the keys and values of these entries have.
        keeps_clean: whether entries stay that the inner store has too.

    Source: Kafka, NamedCache.
    """

    def __init__(self, cache: RecordCache, write: Callable[[bytes, CachedEntry], None]) -> None:
        self._cache = cache
        self._write = write
        self._entries: SortedDict[bytes, CachedEntry] = SortedDict()
        self.dirty: dict[bytes, CachedEntry] = {}
        self.num_dirty_bytes = 0
        self.keeps_clean = True

    @property
    def entries(self) -> dict[bytes, CachedEntry]:
        """All entries by key, in order. To look at them is no use of them."""
        return dict(self._entries)

    def get(self, key: bytes) -> CachedEntry | None:
        entry: CachedEntry | None = self._entries.get(key)
        if entry is not None:
            self._cache.use((self, key))
        return entry

    def put(self, key: bytes, entry: CachedEntry) -> None:
        """Add a dirty entry; replace any entry that the key has.

        The old entry is flushed before if it came from another input partition: the new entry alone
        would not carry its position to the inner store.
        """
        replaced = self.dirty.get(key)
        if replaced is not None and not _covers(entry.metadata, replaced.metadata):
            self.flush()
        self._remove(key)
        self._add(key, entry)
        self._mark_dirty(key, entry)
        self._cache.shrink()

    def keep(self, key: bytes, entry: CachedEntry) -> None:
        """Add a clean entry, unless the key already has an entry."""
        if self.keeps_clean and key not in self._entries:
            self._add(key, entry)
            self._cache.shrink()

    def flush(self) -> None:
        """Write all dirty entries; an entry that cannot be written stays dirty."""
        for key in list(self.dirty):
            # A listener that writes may have caused another flush, which wrote this entry.
            entry = self._mark_clean(key)
            if entry is None:
                continue
            try:
                self._write(key, entry)
            except BaseException:
                if self._entries.get(key) is entry:
                    self._mark_dirty(key, entry)
                raise
            # A deletion shadows nothing any more.
            if self._entries.get(key) is entry and (entry.value is None or not self.keeps_clean):
                self._remove(key)

    def evict(self, key: bytes) -> None:
        """Let an entry leave; if it is dirty, everything that is dirty is flushed first."""
        if key in self.dirty:
            self.flush()
        # A listener may have put the key again.
        if key not in self.dirty:
            self._remove(key)

    def clear(self) -> None:
        """Forget all entries, dirty ones too."""
        for key in list(self._entries):
            self._remove(key)

    def drop_clean(self) -> None:
        """Forget all entries that the inner store has too."""
        for key in list(self._entries):
            if key not in self.dirty:
                self._remove(key)

    def dirty_between(
        self, from_key: bytes | None, to_key: bytes | None, *, to_inclusive: bool, reverse: bool
    ) -> list[tuple[bytes, CachedEntry]]:
        """The dirty entries within bounds, in the order of a scan."""
        keys = self._entries.irange(from_key, to_key, (True, to_inclusive), reverse)
        return [(key, self.dirty[key]) for key in keys if key in self.dirty]

    def _add(self, key: bytes, entry: CachedEntry) -> None:
        self._entries[key] = entry
        self._cache.add((self, key), _num_bytes(key, entry) + ENTRY_OVERHEAD_BYTES)

    def _remove(self, key: bytes) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._mark_clean(key)
            self._cache.remove((self, key), _num_bytes(key, entry) + ENTRY_OVERHEAD_BYTES)

    def _mark_dirty(self, key: bytes, entry: CachedEntry) -> None:
        self.dirty[key] = entry
        self.num_dirty_bytes += _num_bytes(key, entry)

    def _mark_clean(self, key: bytes) -> CachedEntry | None:
        """The entry that was dirty; ``None`` if it was not."""
        entry = self.dirty.pop(key, None)
        if entry is not None:
            self.num_dirty_bytes -= _num_bytes(key, entry)
        return entry


def _covers(metadata: RecordMetadata | None, earlier: RecordMetadata | None) -> bool:
    """Whether a position that has reached ``metadata`` has also reached ``earlier``."""
    if earlier is None:
        return True
    return metadata is not None and metadata[:2] == earlier[:2] and metadata[2] >= earlier[2]


def _num_bytes(key: bytes, entry: CachedEntry) -> int:
    return len(key) + len(entry.value or b"")
