"""Window and session stores in the simplest words: dictionaries, kept in a file on commit.

They keep every promise about windows and sessions, and claim whatever such a promise depends on;
those about crashes and transactions as such are for the built-in stores. They drop by segment,
as Kafka's RocksDB stores do, and their open iterators end with the store.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from streamproof.stores.api import (
    ChangelogRecord,
    IsolationLevel,
    StateStore,
    StateStoreContext,
    TopicPartition,
    require_key,
)
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.errors import InvalidStateStoreError
from streamproof.stores.sessions import SessionStore
from streamproof.stores.windowed.keys import (
    parse_session_key,
    parse_window_key,
    require_session,
    require_time,
    windowed,
)
from streamproof.stores.windows import LONG_MAX, Window, Windowed, WindowStore

Rows = dict[tuple[Windowed, int], bytes]
"""Values by window and sequence number."""

CAPABILITIES = Capabilities(
    transactional=True,
    explicit_transactions=True,
    read_only_views=True,
    several_partitions=False,
    prefix_scan=False,
    entry_count=False,
    durability="flush",
    closed_iterator="ends",
    kind="window",
    retention_ms=1000,
    window_size_ms=10,
    segment_interval_ms=300,
)


class Entries:
    """An iterator over entries, which ends when its store is closed."""

    def __init__(self, store: DictStore, entries: Iterable[tuple[Any, bytes]]) -> None:
        self.store: DictStore | None = store
        self.entries = list(entries)[::-1]

    def __iter__(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __next__(self) -> tuple[Any, bytes]:
        self.peek_next_key()
        return self.entries.pop()

    def peek_next_key(self) -> Any:
        if self.store is None or not self.store.is_open or not self.entries:
            raise StopIteration
        return self.entries[-1][0]

    def close(self) -> None:
        self.store = None


class DictStore(StateStore):
    """Rows with times, a stream time, and what of them is committed."""

    capabilities = CAPABILITIES
    name = "store"
    persistent = True
    manages_offsets = True
    dropped_records = 0

    def __init__(self, parent: DictStore | None = None) -> None:
        self.parent = parent
        self.transactions: list[DictStore] = []
        self.writes: list[tuple[Windowed, int, bytes | None]] = []
        self.rows: Rows = dict(parent.committed) if parent else {}
        self.stream_time = parent.committed_time if parent else -1
        self.sequence = parent.sequence if parent else 0
        self.committed: Rows = {}
        self.committed_time = -1
        self.offsets: dict[TopicPartition, int | None] = {}
        self._open = parent is not None
        self._file = Path()

    @property
    def is_open(self) -> bool:
        return self._open

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        self._file = context.state_dir / "rows"
        if self._file.exists():
            saved = pickle.loads(self._file.read_bytes())  # noqa: S301 - it wrote them itself
            self.committed, self.stream_time, self.sequence, self.offsets = saved
        self.rows = dict(self.committed)
        self.committed_time = self.stream_time
        self._open = True
        context.register(root, self.restore)

    def close(self) -> None:
        self._open = False
        for transaction in self.transactions:
            transaction.close()

    def opened(self) -> None:
        if not self._open:
            raise InvalidStateStoreError("The store is not open.")

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        self.opened()
        store = self.parent or self
        ending = [self] if self.parent else [*filter(is_open, store.transactions), self]
        for each in ending:
            store.take(each)
        store.stream_time = max(store.stream_time, store.committed_time)
        store.offsets = {**store.offsets, **changelog_offsets} if changelog_offsets else {}
        saved = store.committed, store.committed_time, store.sequence, store.offsets
        store._file.write_bytes(pickle.dumps(saved))

    def take(self, writer: DictStore) -> None:
        """Commit what the store itself or a transaction has written."""
        for place, number, value in writer.writes:
            if value is None:
                self.committed.pop((place, number), None)
            else:
                fresh = writer is not self and self.capabilities.retain_duplicates
                self.sequence += fresh
                self.committed[place, self.sequence if fresh else number] = value
        self.committed_time = max(self.committed_time, writer.stream_time)
        writer.writes.clear()
        if writer is not self:
            writer.close()
        self.rows = dict(self.committed)
        for place, number, value in self.writes:
            self.show(place, number, value)

    def show(self, place: Windowed, number: int, value: bytes | None) -> None:
        if value is None:
            self.rows.pop((place, number), None)
        else:
            self.rows[place, number] = value

    def committed_offset(self, partition: TopicPartition) -> int | None:
        self.opened()
        return self.offsets.get(partition)

    def new_transaction(self) -> StateStore:
        self.opened()
        self.transactions = [each for each in self.transactions if each._open]
        self.transactions.append(type(self)(self))
        return self.transactions[-1]

    def read_only(self, isolation_level: IsolationLevel) -> Any:
        self.opened()
        return View(self) if isolation_level is IsolationLevel.READ_COMMITTED else self

    def restore(self, batch: Iterable[ChangelogRecord]) -> None:
        self.opened()
        for record in batch:
            place, number = self.parsed(record.key)
            self.write(place, number, record.value)
            self.sequence = max(self.sequence, number)
        self.take(self)

    def parsed(self, key: bytes) -> tuple[Windowed, int]:
        start_key, start, sequence = parse_window_key(key)
        return windowed(start_key, start, self.capabilities.window_size_ms), sequence

    def time_of(self, place: Windowed) -> int:
        return place.window.start

    def first_readable(self) -> int:
        return self.stream_time - self.capabilities.retention_ms + 1

    def first_kept(self) -> int:
        interval = self.capabilities.segment_interval_ms
        return (self.stream_time - self.capabilities.retention_ms) // interval * interval

    def write(self, place: Windowed, number: int, value: bytes | None) -> None:
        time = self.time_of(place)
        self.stream_time = max(self.stream_time, time)
        if time < self.first_kept():
            self.dropped_records += 1
        else:
            self.writes.append((place, number, value))
            self.show(place, number, value)

    def value(self, place: Windowed) -> bytes | None:
        self.opened()
        return self.rows.get((place, 0)) if self.time_of(place) >= self.first_readable() else None

    def rank(self, place: Windowed) -> tuple[Any, ...]:
        segment = self.time_of(place) // self.capabilities.segment_interval_ms
        return segment, place.key, self.time_of(place), place.window.start

    def scan(self, wanted: Callable[[Windowed], bool], *, backward: bool = False) -> Entries:
        self.opened()
        first = self.first_readable()
        found = [row for row in self.rows if self.time_of(row[0]) >= first and wanted(row[0])]
        found.sort(key=lambda row: (self.rank(row[0]), row[1]), reverse=backward)
        return Entries(self, [(row[0], self.rows[row]) for row in found])


def is_open(store: DictStore) -> bool:
    return store._open


class View:
    """What is committed, for the methods that read."""

    def __init__(self, store: DictStore) -> None:
        self.store = store

    def __getattr__(self, name: str) -> Any:
        snapshot = type(self.store)(self.store)
        snapshot.rows = self.store.committed
        snapshot.stream_time = self.store.committed_time
        return getattr(snapshot, name)


def is_between(low: bytes | None, key: bytes, high: bytes | None) -> bool:
    return (low is None or low <= key) and (high is None or key <= high)


class DictWindows(DictStore, WindowStore):
    """Windows."""

    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        self.opened()
        require_key(key)
        require_time(window_start, "window start")
        if self.capabilities.retain_duplicates:
            if value is None:
                return
            self.sequence += 1
        place = windowed(key, window_start, self.capabilities.window_size_ms)
        self.write(place, self.sequence, value)

    def fetch(self, key: bytes, window_start: int) -> bytes | None:
        require_key(key)
        return self.value(windowed(key, window_start, self.capabilities.window_size_ms))

    def fetch_between(self, key: bytes, time_from: int, time_to: int) -> Any:
        return self.of_key(key, time_from, time_to, backward=False)

    def backward_fetch_between(self, key: bytes, time_from: int, time_to: int) -> Any:
        return self.of_key(key, time_from, time_to, backward=True)

    def fetch_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> Any:
        return self.of_keys(key_from, key_to, time_from, time_to, backward=False)

    def backward_fetch_range(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int
    ) -> Any:
        return self.of_keys(key_from, key_to, time_from, time_to, backward=True)

    def of_key(self, key: bytes, first: int, last: int, *, backward: bool) -> Entries:
        require_key(key)
        with self.of_keys(key, key, first, last, backward=backward) as entries:
            return Entries(self, [(place.window.start, value) for place, value in entries])

    def of_keys(
        self, low: bytes | None, high: bytes | None, first: int, last: int, *, backward: bool
    ) -> Entries:
        return self.scan(
            lambda place: is_between(low, place.key, high) and first <= place.window.start <= last,
            backward=backward,
        )


class DictDuplicates(DictWindows):
    """Windows that keep every put."""

    capabilities = replace(CAPABILITIES, retain_duplicates=True)


class DictSessions(DictStore, SessionStore):
    """Sessions."""

    capabilities = replace(CAPABILITIES, kind="session", window_size_ms=0)

    def parsed(self, key: bytes) -> tuple[Windowed, int]:
        return parse_session_key(key), 0

    def time_of(self, place: Windowed) -> int:
        return place.window.end

    def put(self, session: Windowed, aggregate: bytes | None) -> None:
        self.opened()
        require_key(session.key)
        require_session(session)
        self.write(session, 0, aggregate)

    def fetch_session(self, key: bytes, start: int, end: int) -> bytes | None:
        require_key(key)
        return self.value(Windowed(key, Window(start, end)))

    def fetch(self, key: bytes) -> Any:
        return self.find_sessions(key, 0, LONG_MAX)

    def backward_fetch(self, key: bytes) -> Any:
        return self.backward_find_sessions(key, 0, LONG_MAX)

    def fetch_range(self, key_from: bytes | None, key_to: bytes | None) -> Any:
        return self.find(key_from, key_to, 0, LONG_MAX, backward=False)

    def backward_fetch_range(self, key_from: bytes | None, key_to: bytes | None) -> Any:
        return self.find(key_from, key_to, 0, LONG_MAX, backward=True)

    def find_sessions(
        self, key: bytes, earliest_session_end: int, latest_session_start: int
    ) -> Any:
        require_key(key)
        return self.find(key, key, earliest_session_end, latest_session_start, backward=False)

    def backward_find_sessions(
        self, key: bytes, earliest_session_end: int, latest_session_start: int
    ) -> Any:
        require_key(key)
        return self.find(key, key, earliest_session_end, latest_session_start, backward=True)

    def find_sessions_range(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_session_end: int,
        latest_session_start: int,
    ) -> Any:
        bounds = key_from, key_to, earliest_session_end, latest_session_start
        return self.find(*bounds, backward=False)

    def backward_find_sessions_range(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest_session_end: int,
        latest_session_start: int,
    ) -> Any:
        bounds = key_from, key_to, earliest_session_end, latest_session_start
        return self.find(*bounds, backward=True)

    def find_sessions_between(self, earliest_session_end: int, latest_session_end: int) -> Any:
        return self.scan(
            lambda place: earliest_session_end <= place.window.end <= latest_session_end
        )

    def find(
        self, low: bytes | None, high: bytes | None, earliest: int, latest: int, *, backward: bool
    ) -> Entries:
        return self.scan(
            lambda place: (
                is_between(low, place.key, high)
                and place.window.end >= earliest
                and place.window.start <= latest
            ),
            backward=backward,
        )
