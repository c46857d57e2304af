"""Windows, sessions and open iterators in another process: the second version of the protocol."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamproof.conformance.subject import load_subject
from streamproof.stores.api import (
    EXACTLY_ONCE,
    PROCESSING_GUARANTEE_CONFIG,
    ChangelogRecord,
    IsolationLevel,
    RecordMetadata,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.errors import InvalidStateStoreError, NullArgumentError
from streamproof.stores.host import client, process
from streamproof.stores.host.operations import OPERATIONS, Operation
from streamproof.stores.windowed.keys import session_key, window_key
from streamproof.stores.windows import Window, Windowed

CHANGELOG = TopicPartition("streamproof-store-changelog", 0)

READS: dict[str, Any] = {
    "key": b"a",
    "from": b"a",
    "to": None,
    "window_start": 40_000,
    "time_from": -5,
    "time_to": 90_000,
    "start": 40_000,
    "end": 40_007,
    "earliest_session_end": 0,
    "latest_session_start": 90_000,
    "latest_session_end": 90_000,
}
"""An argument for each field of a read."""


class Pair:
    """A store in this process and the same store in a host, each with a directory of its own."""

    def __init__(self, subject: str, directory: Path) -> None:
        host = f"cmd:{shlex.quote(sys.executable)} -P -m streamproof.host {subject} --dir {{dir}}"
        configs = {PROCESSING_GUARANTEE_CONFIG: EXACTLY_ONCE}
        self.stores: list[Any] = []
        self.contexts: list[StateStoreContext] = []
        for name, found in (("near", load_subject(subject)), ("far", load_subject(host))):
            (directory / name).mkdir()
            context = StateStoreContext(state_dir=directory / name, app_configs=configs)
            context.record_metadata, context.record_timestamp = RecordMetadata("in", 0, 7), 70
            store = found.factory()
            store.init(context, store)
            self.stores.append(store)
            self.contexts.append(context)
            self.capabilities = found.capabilities

    def do(self, method: str, *arguments: Any) -> None:
        """Call a method of both."""
        for store in self.stores:
            getattr(store, method)(*arguments)

    def fill(self) -> None:
        """Put into several segments, delete, restore and commit."""
        spans = [(0, 3), (40_000, 40_007), (80_000, 80_000)]
        for key in (b"a", b"\xff\x00"):
            for start, end in spans:
                self.put(key, start, end, b"%d" % start)
        self.put(b"a", 0, 3, None)
        self.put(b"a", 80_000, 80_000, b"")
        if self.capabilities.timestamped:
            self.put(b"b", 40_000, 40_007, b"timed", 5)
        for context in self.contexts:
            (restore,) = context.restore_callbacks.values()
            restore([ChangelogRecord(self.changelog_key(b"r", 40_000, 40_007), b"1", 9, 90)])
        self.do("commit", {CHANGELOG: 9})

    def put(self, key: bytes, start: int, end: int, value: bytes | None, *timed: int) -> None:
        """Put into a window or a session."""
        method = "put_with_timestamp" if timed else "put"
        if self.capabilities.kind == "session":
            self.do(method, Windowed(key, Window(start, end)), value, *timed)
        else:
            self.do(method, key, value, *timed, start)

    def changelog_key(self, key: bytes, start: int, end: int) -> bytes:
        """The key in the changelog."""
        if self.capabilities.kind == "session":
            return session_key(key, start, end)
        return window_key(key, start)


@pytest.fixture
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    """A pair of a subject; no process is left behind."""
    made = Pair(request.param, tmp_path)
    yield made
    for store in made.stores:
        store.close()
    client.kill_hosts()
    assert not process._hosts


def answers(store: Any, op: str, operation: Operation) -> Any:
    """What a read gives; the rows of a scan with the key that it shows first."""
    found = getattr(store, op)(*[READS[field] for field in operation.fields])
    if operation.does == "read":
        return found
    with found:
        return found.peek_next_key(), list(found), list(found)


@pytest.mark.parametrize(
    "pair",
    [
        "rocksdb-window-transactional",
        "rocksdb-window-timestamped",
        "rocksdb-session-transactional",
        "in-memory-session-timestamped",
    ],
    indirect=True,
)
def test_every_read_is_the_same_from_afar(pair: Pair) -> None:
    """Of the store, a transaction and a view, with every method that the protocol has."""
    pair.fill()
    targets: list[list[Any]] = [pair.stores]
    if pair.capabilities.explicit_transactions:
        targets.append([store.new_transaction() for store in pair.stores])
        targets.append([store.read_only(IsolationLevel.READ_COMMITTED) for store in pair.stores])
    asked = {
        op: operation
        for op, operation in OPERATIONS[pair.capabilities.kind].items()
        if operation.does != "write"
        and (pair.capabilities.timestamped or not op.endswith("with_timestamp"))
    }
    for near, far in targets:
        expected = {op: answers(near, op, operation) for op, operation in asked.items()}
        found = {op: answers(far, op, operation) for op, operation in asked.items()}

        assert found == expected


@pytest.mark.parametrize("pair", ["in-memory-window", "in-memory-session"], indirect=True)
def test_what_comes_too_late_is_counted_in_the_host(pair: Pair) -> None:
    """The count is that of the store."""
    pair.put(b"a", 10_000_000, 10_000_000, b"1")
    pair.put(b"a", 5, 5, b"late")

    assert [store.dropped_records for store in pair.stores] == [1, 1]


@pytest.mark.parametrize("pair", ["in-memory-window-timestamped"], indirect=True)
def test_a_window_starts_at_its_record_by_default(pair: Pair) -> None:
    """The host knows the record that is being processed."""
    pair.do("put_with_timestamp", b"a", b"1", 5)

    near, far = (store.fetch_with_timestamp(b"a", 70) for store in pair.stores)
    assert near == far == (b"1", 5)


@pytest.mark.parametrize("pair", ["in-memory-session"], indirect=True)
def test_a_session_is_removed(pair: Pair) -> None:
    """And a session of no key is refused as the store refuses it."""
    pair.put(b"a", 0, 5, b"1")
    pair.do("remove", Windowed(b"a", Window(0, 5)))
    nowhere: Any = Windowed(None, Window(0, 5))  # type: ignore[arg-type]

    assert [store.fetch_session(b"a", 0, 5) for store in pair.stores] == [None, None]
    for store in pair.stores:
        with pytest.raises(NullArgumentError):
            store.put(nowhere, b"1")


@pytest.mark.parametrize("pair", ["in-memory-window"], indirect=True)
def test_an_iterator_shows_what_is_written_while_it_is_open(pair: Pair) -> None:
    """A weak iterator lives in the store, so no row comes before it is asked for."""
    for key in (b"a", b"b", b"c"):
        pair.put(key, 0, 0, b"old")
    iterators = [store.fetch_range(None, None, 0, 0) for store in pair.stores]
    for iterator in iterators:
        next(iterator)
        next(iterator)
    pair.put(b"c", 0, 0, b"new")

    near, far = (list(iterator) for iterator in iterators)
    assert near == far == [(Windowed(b"c", Window(0, 10_000)), b"new")]


@pytest.mark.parametrize("pair", ["rocksdb-window", "in-memory-session"], indirect=True)
def test_an_iterator_is_asked_after_the_close_of_its_store(pair: Pair) -> None:
    """The store answers, not the client; the host is idle once the last iterator is closed."""
    pair.put(b"a", 0, 0, b"1")
    iterators = [store.fetch_range(None, None, *times_of_a_range(pair)) for store in pair.stores]
    pair.do("close")
    for iterator in iterators:
        for _ in range(2):
            with pytest.raises(InvalidStateStoreError):
                next(iterator)
    assert not process._idle
    for iterator in iterators:
        iterator.close()
    assert set(process._idle) == process._hosts


def times_of_a_range(pair: Pair) -> tuple[int, ...]:
    """The times of a range of keys; a range of sessions has none."""
    return () if pair.capabilities.kind == "session" else (0, 0)


@pytest.mark.parametrize("pair", ["rocksdb-window"], indirect=True)
def test_a_forgotten_iterator_keeps_no_host(pair: Pair) -> None:
    """Who does not close an iterator keeps no process busy either."""
    iterator = pair.stores[1].all()
    pair.do("close")
    assert not process._idle
    del iterator

    assert set(process._idle) == process._hosts
