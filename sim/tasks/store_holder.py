"""A store of a task as the runtime holds it: with its layers, its changelog, and its offset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streamproof.stores.api import (
    NO_TIMESTAMP,
    KeyValueStore,
    Position,
    RestoreCallback,
    TopicPartition,
)
from streamproof.stores.runtime.cache import CachingKeyValueStore
from streamproof.stores.runtime.guard import guarded
from streamproof.stores.runtime.layers import find_layer
from streamproof.stores.runtime.record_cache import CachedEntry
from streamproof.stores.timestamps import KeyValueWithTimestampStore

__all__ = ["StoreHolder", "position_of", "topic_partition"]

Row = tuple[bytes, bytes, int]
"""A key, its value, and the timestamp of the value."""


@dataclass
class StoreHolder:
    """A store of a task, and how far the store is.

    Attributes:
        store: the store with all its layers, for the runtime.
        database: the store beneath all layers, which may be flushed at any time.
        changelog: the changelog partition of the store.
        offset: the offset of the last changelog record that the store has; ``None`` if the offset
            is not known.
        restore: applies changelog records to the store.
        guard: the store as processors hold it: without the calls that belong to the runtime.
        cache: the layer with the record cache; ``None`` without one.
    """

    store: KeyValueStore
    database: KeyValueStore
    changelog: str
    offset: int | None
    restore: RestoreCallback
    guard: KeyValueStore = field(init=False)
    cache: CachingKeyValueStore | None = field(init=False)

    def __post_init__(self) -> None:
        self.guard = guarded(self.store)
        self.cache = find_layer(self.store, CachingKeyValueStore)

    def contents(self) -> tuple[list[list[bytes]], list[int]]:
        """All rows as a get reads them, and their timestamps if the store keeps them.

        A get finds an entry of the cache first, even if the store below has another one by now.
        """
        cached = {} if self.cache is None else self.cache.entries().entries
        if isinstance(self.store, KeyValueWithTimestampStore):
            with self.store.all_with_timestamp() as stamped:
                found = [(key, row.value, row.timestamp) for key, row in stamped]
            found = _laid_over(found, cached)
            return [[key, value] for key, value, _ in found], [time for _, _, time in found]
        with self.store.all() as entries:
            found = [(key, value, NO_TIMESTAMP) for key, value in entries]
        return [[key, value] for key, value, _ in _laid_over(found, cached)], []


def _laid_over(rows: list[Row], cached: Mapping[bytes, CachedEntry]) -> list[Row]:
    """The rows with the values of the cache. Without a cache, they are as the store tells them."""
    if not cached:
        return rows
    values = {row[0]: row for row in rows}
    for key, each in cached.items():
        if each.value is not None:
            values[key] = (key, each.value, each.timestamp)
    return [row for _, row in sorted(values.items())]


def topic_partition(name: str) -> TopicPartition:
    """The partition ``topic-0``, in the form that stores use."""
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


def position_of(store: object) -> dict[str, int]:
    """The position of a store or a view, by input; empty if it keeps none (KIP-796)."""
    position: Position = getattr(store, "position", Position())
    return {str(partition): offset for partition, offset in position.as_dict().items()}
