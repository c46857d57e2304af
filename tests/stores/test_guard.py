"""What a processor may do with a store."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamproof.stores.api import IsolationLevel, KeyValueStore, StateStoreContext, TopicPartition
from streamproof.stores.errors import UnsupportedOperationError
from streamproof.stores.memory import InMemoryKeyValueStore
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.runtime.guard import guarded
from streamproof.stores.transactional import default_store as transactional_store
from streamproof.stores.windowed.memory_sessions import default_store as session_store
from streamproof.stores.windowed.memory_windows import default_store as window_store

MakeContext = Callable[..., StateStoreContext]
P0 = TopicPartition("streamproof-store-changelog", 0)

STORES = [lambda: RocksDBStore("store"), lambda: InMemoryKeyValueStore("store")]


@pytest.mark.parametrize("make_store", [*STORES, transactional_store, window_store, session_store])
def test_life_cycle_belongs_to_the_runtime(
    make_context: MakeContext, make_store: Callable[[], KeyValueStore]
) -> None:
    """The three methods raise and do nothing; the message names the store and what to do."""
    store = make_store()
    context = make_context()
    store.init(context, store)
    guard = guarded(store)
    with pytest.raises(UnsupportedOperationError, match=r"commit\(\) of store.*Request a commit"):
        guard.commit({P0: 5})
    with pytest.raises(UnsupportedOperationError, match=rf"close\(\) of store {store.name!r}"):
        guard.close()
    with pytest.raises(UnsupportedOperationError, match=r"init\(\) of store"):
        guard.init(context, guard)
    assert store.is_open
    assert guard.is_open
    assert store.committed_offset(P0) is None
    store.close()
    assert not guard.is_open


@pytest.mark.parametrize("make_store", [*STORES, transactional_store])
def test_everything_else_is_passed_on(
    make_context: MakeContext, make_store: Callable[[], KeyValueStore]
) -> None:
    """Reads and writes reach the store, and its commits are seen."""
    store = make_store()
    store.init(make_context(), store)
    guard = guarded(store)
    guard.put(b"a", b"1")
    guard.put_all([(b"b", b"2"), (b"c", b"3")])
    assert guard.delete(b"b") == b"2"
    assert list(guard.all()) == list(store.all()) == [(b"a", b"1"), (b"c", b"3")]
    assert (guard.name, guard.persistent) == (store.name, store.persistent)
    store.commit({P0: 5})
    assert guard.committed_offset(P0) == store.committed_offset(P0)
    assert guard.manages_offsets == store.manages_offsets
    with pytest.raises(AttributeError, match="no_such_method"):
        guard.no_such_method()  # type: ignore[attr-defined]
    store.close()


def test_flush_is_deprecated(make_context: MakeContext) -> None:
    """It is passed on, and the warning says what to call instead."""
    store = RocksDBStore("store")
    store.init(make_context(), store)
    with pytest.warns(DeprecationWarning, match="request a commit"):
        guarded(store).flush()
    store.close()
    with pytest.warns(DeprecationWarning, match="request a commit"):
        guarded(InMemoryKeyValueStore("store")).flush()


@pytest.mark.parametrize("make_store", [*STORES, transactional_store])
@pytest.mark.parametrize("level", list(IsolationLevel))
def test_no_way_around_the_guard(
    make_context: MakeContext, make_store: Callable[[], KeyValueStore], level: IsolationLevel
) -> None:
    """A view or a transaction that is the store itself is guarded as well."""
    store = make_store()
    store.init(make_context(), store)
    guard = guarded(store)
    assert guard.read_only(level) is not store
    assert guard.new_transaction() is not store
    guard.put(b"a", b"1")
    if level is IsolationLevel.READ_UNCOMMITTED:
        assert guard.read_only(level).get(b"a") == b"1"
    store.close()
