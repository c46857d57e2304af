"""What all key-value stores have in common, on each built-in store."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamproof.errors import UsageError
from streamproof.stores.api import (
    WRITE_BUFFER_BYTES_CONFIG,
    ChangelogRecord,
    KeyValueStore,
    RecordMetadata,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.builtin import BUILTIN, BuiltinStore
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.errors import InvalidStateStoreError, NullArgumentError

P0 = TopicPartition("log", 0)
NAMES = (
    "in-memory",
    "rocksdb",
    "rocksdb-transactional",
    "rocksdb-legacy",
    "rocksdb-timestamped",
    "rocksdb-timestamped-lazy",
    "rocksdb-timestamped-transactional",
)


@pytest.fixture(params=NAMES)
def opened(
    request: pytest.FixtureRequest, make_context: Callable[..., StateStoreContext]
) -> Iterator[tuple[KeyValueStore, StateStoreContext]]:
    """An open store of each kind, with its context."""
    store, context = cast(KeyValueStore, BUILTIN[request.param]()), make_context()
    store.init(context, store)
    yield store, context
    store.close()


@pytest.fixture
def store(opened: tuple[KeyValueStore, StateStoreContext]) -> KeyValueStore:
    """An open store of each kind."""
    return opened[0]


def test_keys_are_ordered_as_unsigned_bytes(store: KeyValueStore) -> None:
    """Scans go by unsigned bytes, both ways, with inclusive and open bounds."""
    ordered = [b"", b"\x00", b"\x7f", b"\x80", b"\xff", b"\xff\x00", b"\xff\xff"]
    store.put_all((key, b"v" + key) for key in reversed(ordered))
    rows = [(key, b"v" + key) for key in ordered]
    assert list(store.all()) == rows
    assert list(store.reverse_all()) == rows[::-1]
    assert list(store.range(b"\x7f", b"\xff")) == rows[2:5]
    assert list(store.reverse_range(b"\x7f", b"\xff")) == rows[2:5][::-1]
    assert list(store.range(None, b"\x00")) == rows[:2]
    assert list(store.reverse_range(b"\xff\x00", None)) == rows[5:][::-1]
    assert list(store.range(b"\x80", b"\x80")) == [(b"\x80", b"v\x80")]


def test_prefix_scan(store: KeyValueStore) -> None:
    """A prefix matches itself and longer keys; empty and all-0xFF prefixes work."""
    for key in (b"a", b"ab", b"ac\xff", b"b", b"\xff", b"\xff\xffx"):
        store.put(key, b"1")
    store.commit({P0: 1})
    store.put(b"abc", b"2")
    assert [key for key, _ in store.prefix_scan(b"a")] == [b"a", b"ab", b"abc", b"ac\xff"]
    assert [key for key, _ in store.prefix_scan(b"ab")] == [b"ab", b"abc"]
    assert [key for key, _ in store.prefix_scan(b"\xff")] == [b"\xff", b"\xff\xffx"]
    assert [key for key, _ in store.prefix_scan(b"\xff\xff")] == [b"\xff\xffx"]
    assert len(list(store.prefix_scan(b""))) == 7
    assert list(store.prefix_scan(b"zz")) == []


def test_inverted_range_is_empty_and_warns_once(
    store: KeyValueStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Swapped bounds give nothing, and one warning each."""
    store.put(b"a", b"1")
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="streamproof.stores"):
        assert list(store.range(b"b", b"a")) == []
        assert list(store.reverse_range(b"b", b"a")) == []
    assert len(caplog.records) == 2


def test_put_delete_and_put_if_absent(store: KeyValueStore) -> None:
    """An empty value is a value, None deletes, and delete returns what was there."""
    store.put(b"k", b"")
    assert store.get(b"k") == b""
    assert store.put_if_absent(b"k", b"x") == b""
    assert store.delete(b"k") == b""
    assert store.delete(b"k") is None
    assert store.put_if_absent(b"k", b"x") is None
    store.put(b"k", None)
    assert store.get(b"k") is None


def test_null_keys_are_rejected(store: KeyValueStore) -> None:
    """A key of None raises, and put_all writes nothing then."""
    nothing = cast(Any, None)
    for call in (
        lambda: store.get(nothing),
        lambda: store.put(nothing, b"1"),
        lambda: store.put_if_absent(nothing, b"1"),
        lambda: store.delete(nothing),
        lambda: store.prefix_scan(nothing),
        lambda: store.put_all([(b"a", b"1"), (nothing, b"2")]),
    ):
        with pytest.raises(NullArgumentError):
            call()
    assert list(store.all()) == []


def test_closed_store_rejects_every_call(
    opened: tuple[KeyValueStore, StateStoreContext],
) -> None:
    """After close every call raises and says what to do; closing again is harmless."""
    store, context = opened
    store.put(b"a", b"1")
    iterator = store.all()
    store.close()
    store.close()
    for call in (
        lambda: store.get(b"a"),
        lambda: store.put(b"a", b"1"),
        lambda: store.put_all([(b"a", b"1")]),
        lambda: store.delete(b"a"),
        lambda: store.put_if_absent(b"a", b"1"),
        store.all,
        store.reverse_all,
        lambda: store.range(b"b", b"a"),
        lambda: store.prefix_scan(b"a"),
        store.approximate_num_entries,
        lambda: store.commit({}),
        lambda: next(iterator),
        lambda: context.restore_callbacks["store"]([ChangelogRecord(b"k", b"v", 0)]),
    ):
        with pytest.raises(InvalidStateStoreError):
            call()
    assert not store.is_open


def test_closed_iterator_rejects_next(store: KeyValueStore) -> None:
    """An iterator raises after its close, which may come twice or with a block's end."""
    store.put(b"a", b"1")
    with store.all() as iterator:
        assert next(iterator) == (b"a", b"1")
        with pytest.raises(StopIteration):
            next(iterator)
    iterator.close()
    with pytest.raises(InvalidStateStoreError, match="open a new one"):
        next(iterator)


def test_peek_does_not_advance(store: KeyValueStore) -> None:
    """peek_next_key shows the next key as often as it is asked."""
    store.put_all([(b"a", b"1"), (b"b", b"2")])
    iterator = cast(Any, store.all())
    assert (iterator.peek_next_key(), iterator.peek_next_key()) == (b"a", b"a")
    assert next(iterator) == (b"a", b"1")
    assert iterator.peek_next_key() == b"b"
    assert list(iterator) == [(b"b", b"2")]
    with pytest.raises(StopIteration):
        iterator.peek_next_key()


def test_writes_during_a_scan(opened: tuple[KeyValueStore, StateStoreContext]) -> None:
    """A snapshot stays as it was; a weak iterator skips deleted keys and reads live values."""
    store, _ = opened
    view = cast(Capabilities, cast(Any, store).capabilities).iterator_view
    store.put_all([(b"a", b"1"), (b"b", b"1"), (b"c", b"1")])
    scan = store.all()
    store.delete(b"b")
    store.put(b"c", b"2")
    store.put(b"d", b"2")
    snapshot = [(b"a", b"1"), (b"b", b"1"), (b"c", b"1")]
    assert list(scan) == (snapshot if view == "snapshot" else [(b"a", b"1"), (b"c", b"2")])


def test_restore_applies_the_last_record_of_a_key(
    opened: tuple[KeyValueStore, StateStoreContext],
) -> None:
    """Restoring goes in order, deletes on tombstones, and can be repeated."""
    store, context = opened
    batch = [
        ChangelogRecord(b"a", b"1", 0),
        ChangelogRecord(b"b", b"1", 1),
        ChangelogRecord(b"a", None, 2),
        ChangelogRecord(b"a", b"2", 3),
        ChangelogRecord(b"b", None, 4),
    ]
    for _ in range(2):
        context.restore_callbacks["store"](batch)
        context.restore_callbacks["store"]([])
        assert list(store.all()) == [(b"a", b"2")]
    assert store.approximate_num_uncommitted_entries() == 0


def test_position_follows_the_records(opened: tuple[KeyValueStore, StateStoreContext]) -> None:
    """Each write takes over the offset of the record that is being processed."""
    store, context = opened
    context.record_metadata = RecordMetadata("in", 1, 7)
    store.put(b"a", b"1")
    context.record_metadata = RecordMetadata("in", 0, 3)
    store.put_all([(b"b", b"1")])
    assert store.position.as_dict() == {("in", 1): 7, ("in", 0): 3}


def test_committed_content_can_be_queried_from_other_threads(store: KeyValueStore) -> None:
    """Scans in another thread meet no error and no disorder while writes go on."""
    problems: list[object] = []
    done = threading.Event()

    def query() -> None:
        while not done.is_set():
            try:
                keys = [key for key, _ in store.all()]
                if keys != sorted(set(keys)):
                    problems.append(keys)
            except InvalidStateStoreError:
                pass  # The transaction that was read from has just ended.
            except Exception as error:  # noqa: BLE001  # The test shows it.
                problems.append(error)

    thread = threading.Thread(target=query)
    thread.start()
    for number in range(3000):
        store.put(b"%d" % (number * 7919 % 1000), b"x")
        if number % 100 == 99:
            store.commit({P0: number})
    done.set()
    thread.join()
    assert problems == []


keys = st.binary(max_size=2)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), keys, st.none() | st.binary(max_size=2)),
        st.tuples(st.just("put_if_absent"), keys, st.binary(max_size=2)),
        st.tuples(st.just("delete"), keys),
        st.tuples(st.just("commit"), st.integers(0, 100)),
        st.tuples(st.just("range"), st.none() | keys, st.none() | keys),
        st.tuples(st.just("prefix"), keys),
        st.tuples(st.just("reopen")),
    ),
    max_size=25,
)


def _run(
    step: tuple[Any, ...], store: KeyValueStore, model: dict[bytes, bytes]
) -> tuple[object, object]:
    name, *arguments = step
    if name == "put":
        key, value = arguments
        store.put(key, value)
        model.pop(key, None) if value is None else model.update({key: value})
        return None, None
    if name == "put_if_absent":
        key, value = arguments
        old = model.get(key)
        model.setdefault(key, value)
        return store.put_if_absent(key, value), old
    if name == "delete":
        return store.delete(arguments[0]), model.pop(arguments[0], None)
    if name == "prefix":
        expected = [row for row in sorted(model.items()) if row[0].startswith(arguments[0])]
        return list(store.prefix_scan(arguments[0])), expected
    low, high = arguments
    expected = [
        row
        for row in sorted(model.items())
        if (low is None or low <= row[0]) and (high is None or row[0] <= high)
    ]
    assert list(store.reverse_range(low, high)) == expected[::-1]
    return list(store.range(low, high)), expected


@pytest.mark.parametrize("name", NAMES)
@settings(settings.get_profile("stores"), max_examples=40)
@given(program=steps)
def test_random_programs_equal_a_dict(
    name: str, make_context: Callable[..., StateStoreContext], program: list[tuple[Any, ...]]
) -> None:
    """Any program of calls, with reopening, leaves what a dict would hold."""
    context = make_context(**{WRITE_BUFFER_BYTES_CONFIG: 65536})
    store = cast(KeyValueStore, BUILTIN[name]())
    store.init(context, store)
    try:
        for key in [key for key, _ in store.all()]:
            store.delete(key)
        model: dict[bytes, bytes] = {}
        store.commit({P0: 0})
        committed, offset = {}, 0
        for step in program:
            if step[0] == "commit":
                store.commit({P0: step[1]})
                committed, offset = dict(model), step[1]
            elif step[0] == "reopen":
                if not store.persistent:
                    continue
                store.close()
                store.init(context, store)
                if name.endswith("-transactional"):
                    model = dict(committed)
                assert store.committed_offset(P0) == offset
            else:
                actual, expected = _run(step, store, model)
                assert actual == expected
            assert dict(store.all()) == model
    finally:
        store.close()


def test_a_missing_extra_is_named() -> None:
    """A store whose package is not installed says which extra to install."""
    with pytest.raises(UsageError, match=r"streamproof\[quix\]"):
        BuiltinStore("no_such_package_at_all:make", "No store.", extra="quix")()
