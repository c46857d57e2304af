"""Wrong window and session stores; see the table in the package."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self

from streamproof.stores.api import ChangelogRecord, IsolationLevel
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.runtime.changelogging import ChangeLoggingSessionStore
from streamproof.stores.runtime.metered import _MeteredWindowStore
from streamproof.stores.transactional import TransactionalKeyValueStore, TransactionalRocksDBStore
from streamproof.stores.transactions import Transaction
from streamproof.stores.windowed import memory_sessions, memory_windows, rocksdb_windows
from streamproof.stores.windowed.keys import parse_window_key
from streamproof.stores.windowed.rocksdb_sessions import RocksDBSessionStore
from streamproof.stores.windowed.rocksdb_windows import (
    RocksDBWindowStore,
    RocksDBWindowTransaction,
)
from streamproof.stores.windowed.segment_databases import OneSegment, SegmentDatabases
from streamproof.stores.windowed.segmented_reads import Timeline, default_segment_interval_ms
from streamproof.stores.windowed.segments import SegmentedStore, SegmentedTransaction, ViewParts
from streamproof.stores.windows import Window, Windowed

RETENTION_MS = 180_000
WINDOW_SIZE_MS = 10_000

Row = tuple[Any, bytes]


def claims_of(store: Any) -> Capabilities:
    """The capabilities of a store."""
    claims: Capabilities = store.capabilities
    return claims


class _Changed(AbstractContextManager["_Changed"]):
    """An iterator that changes the entries of another one."""

    def __init__(self, entries: Any, rows: Iterator[Row]) -> None:
        self._entries = entries
        self._rows = rows
        self._peeked: list[Row] = []

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Row:
        return self._peeked.pop() if self._peeked else next(self._rows)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        self.close()

    def peek_next_key(self) -> Any:
        if not self._peeked:
            self._peeked.append(next(self._rows))
        return self._peeked[0][0]

    def close(self) -> None:
        self._entries.close()


class _Wrong:
    """A correct store. Subclasses break some of its methods and are named after their mistake."""

    make: Callable[[], Any] = staticmethod(memory_windows.default_store)

    def __init__(self, right: Any = None) -> None:
        self.right = right if right is not None else type(self).make()

    @property
    def capabilities(self) -> Capabilities:
        return claims_of(self.right)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.right, name)

    def init(self, context: Any, root: Any) -> None:
        self.right.init(context, root)

    def new_transaction(self) -> Any:
        transaction = self.right.new_transaction()
        return self if transaction is self.right else transaction

    def read_only(self, isolation_level: IsolationLevel) -> Any:
        view = self.right.read_only(isolation_level)
        return self if view is self.right else view

    def changed(self, entries: Any, change: Callable[[Any], Iterator[Row]]) -> _Changed:
        """An iterator over the entries after ``change``."""
        return _Changed(entries, iter(change(entries)))


class window_bound_exclusive(_Wrong):
    """Leaves out the windows that start at the upper bound."""

    def fetch_between(self, key: bytes, time_from: int, time_to: int) -> Any:
        return self.right.fetch_between(key, time_from, time_to - 1)


class longer_keys_match(_Wrong):
    """Also yields the windows of every longer key that starts with the key."""

    def fetch_between(self, key: bytes, time_from: int, time_to: int) -> Any:
        entries = self.right.fetch_range(key, None, time_from, time_to)
        return self.changed(
            entries,
            lambda rows: (
                (windowed.window.start, value)
                for windowed, value in rows
                if windowed.key.startswith(key)
            ),
        )


class backward_is_forward(_Wrong):
    """Forgets to reverse the entries (KAFKA-13264)."""

    def backward_fetch_between(self, key: bytes, time_from: int, time_to: int) -> Any:
        return self.right.fetch_between(key, time_from, time_to)


class window_end_overflows(_Wrong):
    """Lets a window end after the largest time."""

    def all(self) -> Any:
        return self.changed(
            self.right.all(),
            lambda rows: (
                (Windowed(key, Window(window.start, window.start + WINDOW_SIZE_MS)), value)
                for (key, window), value in rows
            ),
        )


class late_windows_kept(_Wrong):
    """Keeps windows ten times longer than declared, so that nothing comes too late."""

    def __init__(self) -> None:
        right = memory_windows.InMemoryWindowStore(
            "store", retention_ms=10 * RETENTION_MS, window_size_ms=WINDOW_SIZE_MS
        )
        super().__init__(right)

    @property
    def capabilities(self) -> Capabilities:
        return claims_of(memory_windows.default_store())


class retention_off_by_one(_Wrong):
    """Drops the oldest window that the store must still keep."""

    def __init__(self) -> None:
        right = memory_windows.InMemoryWindowStore(
            "store", retention_ms=RETENTION_MS - 1, window_size_ms=WINDOW_SIZE_MS
        )
        super().__init__(right)

    @property
    def capabilities(self) -> Capabilities:
        return claims_of(memory_windows.default_store())


class drops_uncounted(_Wrong):
    """Drops late records without counting them."""

    @property
    def dropped_records(self) -> int:
        return 0


class delete_takes_all_windows(_Wrong):
    """Deletes every window of the key instead of one."""

    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        if value is None:
            with self.right.fetch_between(key, 0, 2**62) as entries:
                starts = [start for start, _ in entries]
            for start in starts:
                self.right.put(key, None, start)
        self.right.put(key, value, window_start)


class restored_late_windows_kept(_Wrong):
    """Restores the oldest windows first, one by one, so that no record comes too late."""

    def init(self, context: Any, root: Any) -> None:
        self.right.init(context, root)
        restore = context.restore_callbacks[self.right.name]

        def backward(batch: list[ChangelogRecord]) -> None:
            for record in sorted(batch, key=lambda each: parse_window_key(each.key)[1]):
                restore([record])

        context.restore_callbacks[self.right.name] = backward


class duplicates_overwrite(_Wrong):
    """Claims to keep duplicates but keeps only the last."""

    make = staticmethod(rocksdb_windows.default_store)

    @property
    def capabilities(self) -> Capabilities:
        return claims_of(rocksdb_windows.duplicates_store())


class numbers_run_out(RocksDBWindowStore):
    """Counts the numbers of duplicates beyond those that a key has room for."""

    def __init__(self) -> None:
        super().__init__(
            "store",
            retention_ms=RETENTION_MS,
            window_size_ms=WINDOW_SIZE_MS,
            retain_duplicates=True,
        )

    def next_sequence(self) -> int:
        self.sequence += 1
        return self.sequence


class drops_counted_again(_MeteredWindowStore):
    """Records all dropped records so far at each commit."""

    def __init__(self) -> None:
        super().__init__(rocksdb_windows.default_store(), "rocksdb")

    def _record_drops(self) -> None:
        if self.dropped_records > 0:
            self._drops.record(self.dropped_records)


class staged_windows_show(_Wrong):
    """Shows staged windows in the READ_COMMITTED view (KAFKA-20768)."""

    make = staticmethod(rocksdb_windows.transactional_store)

    def read_only(self, isolation_level: IsolationLevel) -> Any:
        return self.right.read_only(IsolationLevel.READ_UNCOMMITTED)


def _rows() -> TransactionalKeyValueStore:
    """The staging store beneath windows or sessions."""
    return TransactionalKeyValueStore(TransactionalRocksDBStore("store"))


class _TimeShared(SegmentedStore):
    def _make_transaction(self, inner: Transaction, timeline: Timeline) -> SegmentedTransaction:
        return super()._make_transaction(inner, self._timeline)  # type: ignore[safe-super]


class _ViewsAtTheStagedTime(SegmentedStore):
    def _view_of(self, isolation_level: IsolationLevel) -> ViewParts | None:
        parts = super()._view_of(isolation_level)
        return parts and (*parts[:2], self._timeline, *parts[3:])


class _WindowTimeShared(_TimeShared, RocksDBWindowStore):
    pass


class _SessionTimeShared(_TimeShared, RocksDBSessionStore):
    pass


class _WindowViewsAtTheStagedTime(_ViewsAtTheStagedTime, RocksDBWindowStore):
    pass


class _SessionViewsAtTheStagedTime(_ViewsAtTheStagedTime, RocksDBSessionStore):
    pass


def transactions_share_the_stream_time() -> RocksDBWindowStore:
    """Windows whose stream time stays where a discarded transaction had moved it."""
    return _WindowTimeShared(
        "store", retention_ms=RETENTION_MS, window_size_ms=WINDOW_SIZE_MS, inner=_rows()
    )


def session_transactions_share_the_stream_time() -> RocksDBSessionStore:
    """The same for sessions."""
    return _SessionTimeShared("store", retention_ms=RETENTION_MS, inner=_rows())


def views_follow_the_staged_time() -> RocksDBWindowStore:
    """Windows whose committed views let entries expire by the time of staged ones."""
    return _WindowViewsAtTheStagedTime(
        "store", retention_ms=RETENTION_MS, window_size_ms=WINDOW_SIZE_MS, inner=_rows()
    )


def session_views_follow_the_staged_time() -> RocksDBSessionStore:
    """The same for sessions."""
    return _SessionViewsAtTheStagedTime("store", retention_ms=RETENTION_MS, inner=_rows())


class _FetchesBackward(RocksDBWindowTransaction):
    def backward_fetch_between(self, key: bytes, time_from: int, time_to: int) -> Any:
        reader: Any = super() if self.is_open else self._owner
        return reader.backward_fetch_between(key, time_from, time_to)


class _FetchesBackwardAfterTheEnd(RocksDBWindowStore):
    def _make_transaction(self, inner: Transaction, timeline: Timeline) -> SegmentedTransaction:
        return self._like_this(_FetchesBackward(self, inner, timeline))


def ended_transaction_fetches_backward() -> RocksDBWindowStore:
    """Windows whose transactions fetch backward after their end, as if they were the store."""
    return _FetchesBackwardAfterTheEnd(
        "store", retention_ms=RETENTION_MS, window_size_ms=WINDOW_SIZE_MS, inner=_rows()
    )


class newest_segment_offset(_Wrong):
    """Returns the offset of the newest segment, which says nothing about the others."""

    def __init__(self) -> None:
        super().__init__(rocksdb_windows.segments_store(segment_offset="newest"))


class _DeletesInPlace(SegmentDatabases):
    """Leaves a part of a database under the name of a whole one, if the process dies meanwhile."""

    def _delete(self, store: OneSegment) -> None:
        store.close()
        with self._failing(store.path):
            shutil.rmtree(store.path)


class segments_deleted_in_place(_Wrong):
    """Deletes an expired segment file by file under its own name."""

    def __init__(self) -> None:
        interval = default_segment_interval_ms(RETENTION_MS)
        inner = _DeletesInPlace("store", segment_interval_ms=interval)
        super().__init__(
            RocksDBWindowStore(
                "store", retention_ms=RETENTION_MS, window_size_ms=WINDOW_SIZE_MS, inner=inner
            )
        )


class _WrongSession(_Wrong):
    make = staticmethod(memory_sessions.default_store)


class touching_sessions_missed(_WrongSession):
    """Leaves out a session that ends exactly at the earliest end."""

    def find_sessions(self, key: bytes, earliest_session_end: int, latest_start: int) -> Any:
        return self.right.find_sessions(key, earliest_session_end + 1, latest_start)


class session_start_ignored(_WrongSession):
    """Finds sessions only by their ends."""

    def find_sessions(self, key: bytes, earliest_session_end: int, latest_start: int) -> Any:
        return self.right.find_sessions(key, earliest_session_end, 2**62)


class sessions_by_start(_WrongSession):
    """Yields the sessions of a key by start, not by end (KAFKA-13309)."""

    def fetch(self, key: bytes) -> Any:
        return self.changed(
            self.right.fetch(key),
            lambda rows: iter(sorted(rows, key=lambda row: row[0].window.start)),
        )


class remove_needs_only_the_end(_WrongSession):
    """Removes every session of the key that ends at the same time."""

    def remove(self, session: Windowed) -> None:
        with self.right.find_sessions(session.key, session.window.end, 2**62) as rows:
            found = [each for each, _ in rows if each.window.end == session.window.end]
        for each in found:
            self.right.remove(each)

    def put(self, session: Windowed, aggregate: bytes | None) -> None:
        if aggregate is None:
            self.remove(session)
        else:
            self.right.put(session, aggregate)


class expired_sessions_found(_WrongSession):
    """Keeps and shows sessions long after their retention (KAFKA-12960)."""

    def __init__(self) -> None:
        super().__init__(
            memory_sessions.InMemorySessionStore("store", retention_ms=10 * RETENTION_MS)
        )

    @property
    def capabilities(self) -> Capabilities:
        return claims_of(memory_sessions.default_store())


class commit_restarts_the_count(_Wrong):
    """Counts dropped windows from the last commit on."""

    counted = 0

    @property
    def dropped_records(self) -> int:
        dropped: int = self.right.dropped_records
        return dropped - self.counted

    def commit(self, changelog_offsets: Any) -> None:
        self.right.commit(changelog_offsets)
        self.counted = self.right.dropped_records


class open_iterators_skip_deleted_windows(_Wrong):
    """Reads each value anew when an iterator reaches it, so that later deletes show."""

    make = staticmethod(rocksdb_windows.default_store)

    def fetch_all(self, time_from: int, time_to: int) -> Any:
        return self.changed(
            self.right.fetch_all(time_from, time_to),
            lambda rows: (
                (windowed, value)
                for windowed, value in rows
                if self.right.fetch(windowed.key, windowed.window.start) is not None
            ),
        )


class _RemovesUnseen(ChangeLoggingSessionStore):
    def remove(self, session: Windowed) -> None:
        self._inner.remove(session)


def removals_are_not_logged() -> Any:
    """Logs puts of None, but no removals."""
    return _RemovesUnseen(memory_sessions.default_store())
