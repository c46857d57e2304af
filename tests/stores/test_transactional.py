"""Transactions on RocksDB, and the wrapper that keeps one open."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from streamproof.stores.api import (
    ChangelogRecord,
    IsolationLevel,
    RecordMetadata,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.errors import InvalidStateStoreError, NullArgumentError, TaskCorruptedError
from streamproof.stores.memory import InMemoryKeyValueStore
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.transactional import (
    RocksDBTransaction,
    TransactionalKeyValueStore,
    TransactionalRocksDBStore,
)

MakeContext = Callable[..., StateStoreContext]
P0 = TopicPartition("log", 0)


@pytest.fixture
def context(make_context: MakeContext) -> StateStoreContext:
    """An exactly-once context."""
    return make_context()


@pytest.fixture
def base(context: StateStoreContext) -> Iterator[TransactionalRocksDBStore]:
    """An open store that gives transactions."""
    store = TransactionalRocksDBStore("store")
    store.init(context, store)
    yield store
    store.close()


@pytest.fixture
def wrapper(context: StateStoreContext) -> Iterator[TransactionalKeyValueStore]:
    """An open store that keeps a transaction open by itself."""
    store = TransactionalKeyValueStore(TransactionalRocksDBStore("store"))
    store.init(context, store)
    yield store
    store.close()


def _begin(store: TransactionalRocksDBStore) -> RocksDBTransaction:
    transaction = store.new_transaction()
    assert isinstance(transaction, RocksDBTransaction)
    return transaction


def test_a_transaction_reads_its_own_writes_only(base: TransactionalRocksDBStore) -> None:
    """Staged writes show in their transaction and nowhere else until they are committed."""
    base.put_all([(b"a", b"0"), (b"b", b"0"), (b"c", b"0"), (b"d", b"0")])
    one, two = _begin(base), _begin(base)
    one.put(b"a", b"1")
    one.delete(b"b")
    one.delete_range(b"c", b"e")
    one.put(b"d", b"1")
    one.put(b"e", b"1")
    seen = [(b"a", b"1"), (b"d", b"1"), (b"e", b"1")]
    assert list(one.all()) == seen
    assert list(one.reverse_all()) == seen[::-1]
    assert list(one.range(b"b", b"d")) == seen[1:2]
    assert list(one.prefix_scan(b"d")) == seen[1:2]
    assert [one.get(key) for key in (b"a", b"b", b"c", b"d")] == [b"1", None, None, b"1"]
    for other in (base, two):
        assert [value for _, value in other.all()] == [b"0"] * 4
    one.commit({P0: 1})
    assert list(base.all()) == list(two.all()) == seen
    assert base.committed_offset(P0) == 1


def test_rollback_discards_writes_and_position(
    base: TransactionalRocksDBStore, context: StateStoreContext
) -> None:
    """A closed transaction leaves nothing, and nothing leaks into the next commit."""
    context.record_metadata = RecordMetadata("in", 0, 5)
    with _begin(base) as transaction:
        transaction.put(b"a", b"1")
        assert transaction.position.as_dict() == {("in", 0): 5}
        assert base.position.as_dict() == {}
    assert base.open_transactions == ()
    base.commit({P0: 1})
    assert (list(base.all()), base.position.as_dict()) == ([], {})


def test_store_commit_commits_open_transactions_oldest_first(
    base: TransactionalRocksDBStore, context: StateStoreContext
) -> None:
    """The youngest transaction wins, all end, and their positions are merged."""
    one, two = _begin(base), _begin(base)
    context.record_metadata = RecordMetadata("in", 0, 5)
    two.put(b"a", b"two")
    context.record_metadata = RecordMetadata("in", 1, 6)
    one.put(b"a", b"one")
    one.put(b"b", b"one")
    assert base.approximate_num_uncommitted_entries() == 3
    assert base.approximate_num_uncommitted_bytes() == 12
    base.commit({P0: 7})
    assert dict(base.all()) == {b"a": b"two", b"b": b"one"}
    assert base.position.as_dict() == {("in", 0): 5, ("in", 1): 6}
    assert base.approximate_num_uncommitted_entries() == 0
    for transaction in (one, two):
        with pytest.raises(InvalidStateStoreError, match="new_transaction"):
            transaction.put(b"c", b"1")


def test_ended_transaction_rejects_every_call(base: TransactionalRocksDBStore) -> None:
    """After commit or close the transaction raises; closing again is harmless."""
    transaction = _begin(base)
    transaction.commit({})
    transaction.close()
    for call in (
        lambda: transaction.get(b"a"),
        lambda: transaction.put(b"a", b"1"),
        lambda: transaction.put_all([]),
        lambda: transaction.delete(b"a"),
        lambda: transaction.delete_range(b"a", b"b"),
        transaction.all,
        lambda: transaction.prefix_scan(b"a"),
        lambda: transaction.commit({}),
        transaction.flush,
    ):
        with pytest.raises(InvalidStateStoreError):
            call()


def test_put_all_with_a_null_key_stages_nothing(base: TransactionalRocksDBStore) -> None:
    """The batch is checked before the first entry is staged."""
    transaction = _begin(base)
    with pytest.raises(NullArgumentError):
        transaction.put_all([(b"a", b"1"), (None, b"2")])  # type: ignore[list-item]
    assert transaction.approximate_num_uncommitted_entries() == 0


def test_an_iterator_survives_the_commit_of_its_transaction(
    wrapper: TransactionalKeyValueStore,
) -> None:
    """A scan goes on over what it saw when it was opened."""
    wrapper.put(b"a", b"1")
    wrapper.commit({P0: 0})
    wrapper.put(b"b", b"1")
    scan = wrapper.all()
    assert next(scan) == (b"a", b"1")
    wrapper.put(b"c", b"1")
    wrapper.commit({P0: 1})
    assert list(scan) == [(b"b", b"1")]


def test_wrapper_opens_the_next_transaction(wrapper: TransactionalKeyValueStore) -> None:
    """Views by isolation level, before and after commits."""
    committed = wrapper.read_only(IsolationLevel.READ_COMMITTED)
    uncommitted = wrapper.read_only(IsolationLevel.READ_UNCOMMITTED)
    for number in range(3):
        wrapper.put(b"k", b"%d" % number)
        before = None if number == 0 else b"%d" % (number - 1)
        assert (committed.get(b"k"), uncommitted.get(b"k")) == (before, b"%d" % number)
        assert wrapper.approximate_num_uncommitted_bytes() == 2
        wrapper.commit({P0: number})
        assert committed.get(b"k") == uncommitted.get(b"k") == b"%d" % number
        assert list(uncommitted.prefix_scan(b"k")) == list(committed.reverse_all())
        assert wrapper.committed_offset(P0) == number


def test_closing_discards_what_is_staged(
    wrapper: TransactionalKeyValueStore, context: StateStoreContext
) -> None:
    """After a close without commit the content and the offset are those of the last commit."""
    context.record_metadata = RecordMetadata("in", 0, 1)
    wrapper.put(b"a", b"1")
    wrapper.commit({P0: 1})
    context.record_metadata = RecordMetadata("in", 0, 2)
    wrapper.put(b"a", b"2")
    assert wrapper.position.as_dict() == {("in", 0): 2}
    wrapper.close()
    wrapper.init(context, wrapper)
    assert (wrapper.get(b"a"), wrapper.committed_offset(P0)) == (b"1", 1)
    assert wrapper.position.as_dict() == {("in", 0): 1}


def test_restored_records_are_not_staged(
    wrapper: TransactionalKeyValueStore, context: StateStoreContext
) -> None:
    """Restoring writes to the inner store directly."""
    context.restore_callbacks["store"]([ChangelogRecord(b"a", b"1", 0)])
    assert wrapper.read_only(IsolationLevel.READ_COMMITTED).get(b"a") == b"1"
    assert wrapper.approximate_num_uncommitted_entries() == 0


def test_at_least_once_writes_straight_through(make_context: MakeContext) -> None:
    """Without exactly-once the wrapper uses no transaction."""
    context = make_context(exactly_once=False)
    store = TransactionalKeyValueStore(TransactionalRocksDBStore("store"))
    store.init(context, store)
    store.put(b"a", b"1")
    assert store.inner.get(b"a") == b"1"
    assert store.approximate_num_uncommitted_entries() == 0
    store.commit({P0: 1})
    assert store.committed_offset(P0) == 1
    store.close()


def test_status_of_a_crash_without_transactions_is_noticed(context: StateStoreContext) -> None:
    """Switching transactions on does not hide that the store was not closed cleanly."""
    plain = RocksDBStore("store")
    plain.init(context, plain)
    database = plain._opened()
    database.close()  # Closed behind the store's back, so that the status stays open.
    store = TransactionalRocksDBStore("store")
    with pytest.raises(TaskCorruptedError):
        store.init(context, store)


def test_only_stores_with_transactions_can_be_wrapped(context: StateStoreContext) -> None:
    """A store that returns itself as its transaction is refused at init."""
    store = TransactionalKeyValueStore(InMemoryKeyValueStore("store"))
    with pytest.raises(InvalidStateStoreError, match="new_transaction"):
        store.init(context, store)
