"""The limits of what may await a commit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamproof.stores.api import StateStore, StateStoreContext, TopicPartition
from streamproof.stores.errors import InvalidArgumentError
from streamproof.stores.memory import InMemoryKeyValueStore
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.runtime.uncommitted import UncommittedLimits
from streamproof.stores.transactional import default_store as transactional_store

P0 = TopicPartition("streamproof-store-changelog", 0)


class Counting(InMemoryKeyValueStore):
    """Says what it is told to say."""

    def __init__(self, num_bytes: int, num_entries: int) -> None:
        super().__init__("store")
        self.num_bytes = num_bytes
        self.num_entries = num_entries

    def approximate_num_uncommitted_bytes(self) -> int:
        return self.num_bytes

    def approximate_num_uncommitted_entries(self) -> int:
        return self.num_entries


def test_defaults_are_those_that_were_shipped() -> None:
    limits = UncommittedLimits()
    assert (limits.max_bytes, limits.max_records) == (67_108_864, -1)
    assert UncommittedLimits.from_configs({}) == limits
    configured = {
        "statestore.uncommitted.max.bytes": "1000",
        "statestore.uncommitted.max.records": 5,
    }
    assert UncommittedLimits.from_configs(configured) == UncommittedLimits(1000, 5)


def test_threads_share_equally() -> None:
    """A limit that is off stays off, and one that is not never becomes so."""
    assert UncommittedLimits(1000, 10).per_thread(3) == UncommittedLimits(333, 3)
    assert UncommittedLimits(1000, 10).per_thread(1) == UncommittedLimits(1000, 10)
    assert UncommittedLimits(2, -1).per_thread(3) == UncommittedLimits(1, -1)
    assert UncommittedLimits(0, 0).per_thread(3) == UncommittedLimits(0, 0)
    with pytest.raises(InvalidArgumentError, match="among 0 threads"):
        UncommittedLimits().per_thread(0)


@pytest.mark.parametrize(
    ("limits", "stores", "exceeded"),
    [
        (UncommittedLimits(100), [(60, 1), (40, 1)], False),
        (UncommittedLimits(100), [(60, 1), (41, 1)], True),
        (UncommittedLimits(100, 3), [(1, 2), (1, 1)], False),
        (UncommittedLimits(100, 3), [(1, 2), (1, 2)], True),
        (UncommittedLimits(-1, -1), [(10**12, 10**12)], False),
        (UncommittedLimits(0, 0), [(1, 1)], False),
        # Those that do not know are not counted, and take nothing away from the others.
        (UncommittedLimits(100), [(-1, -1), (100, -1)], False),
        (UncommittedLimits(100, 3), [(-1, -1), (-1, 4)], True),
        (UncommittedLimits(1, 1), [], False),
    ],
)
def test_exceeded(limits: UncommittedLimits, stores: list[tuple[int, int]], exceeded: bool) -> None:
    assert limits.exceeded_by(Counting(*numbers) for numbers in stores) is exceeded


def test_real_stores(make_context: Callable[..., StateStoreContext]) -> None:
    """Only what is staged counts, and a commit ends it."""
    stores: list[StateStore] = [RocksDBStore("plain"), transactional_store()]
    context = make_context()
    for store in stores:
        store.init(context, store)
    limits = UncommittedLimits(max_bytes=9)
    stores[0].put(b"key", b"x" * 1000)  # type: ignore[attr-defined]
    stores[1].put(b"key", b"value")  # type: ignore[attr-defined]
    assert not limits.exceeded_by(stores)
    stores[1].put(b"k", b"v")  # type: ignore[attr-defined]
    assert limits.exceeded_by(stores)
    stores[1].commit({P0: 1})
    assert not limits.exceeded_by(stores)
    for store in stores:
        store.close()
