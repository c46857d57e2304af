"""Wrong window and session stores: each class has exactly one mistake."""

from __future__ import annotations

import struct

from streamproof.stores.api import require_key
from streamproof.stores.iterators import is_inverted
from streamproof.stores.transactional import TransactionalKeyValueStore, TransactionalRocksDBStore
from streamproof.stores.windowed.keys import (
    SESSION_SUFFIX_BYTES,
    WINDOW_SUFFIX_BYTES,
    parse_window_key,
    session_key,
    window_key,
)
from streamproof.stores.windowed.rocksdb_sessions import RocksDBSessionStore
from streamproof.stores.windowed.rocksdb_windows import (
    RocksDBWindowStore,
    RocksDBWindowTransaction,
)
from streamproof.stores.windowed.segmented_reads import SEGMENT_BYTES
from streamproof.stores.windows import LONG_MAX, Window, Windowed

RETENTION_MS = 180_000
WINDOW_SIZE_MS = 10_000
_START = struct.Struct(">q")
_TIMES = struct.Struct(">qq")


def _staged():
    return TransactionalKeyValueStore(TransactionalRocksDBStore("store"))


class StreamTimeOnlyAtDrop(RocksDBWindowStore):
    """A commit does not keep the stream time; it is kept only when an old segment is dropped."""

    def __init__(self):
        super().__init__(
            "store", retention_ms=RETENTION_MS, window_size_ms=WINDOW_SIZE_MS, inner=_staged()
        )

    def prepare_commit(self, stream_time):
        timeline = self._timeline
        timeline.own = max(timeline.own, stream_time)
        if timeline.first_segment(timeline.stream_time) > timeline.dropped_before:
            self._drop_expired()


class SequenceNotRestored(RocksDBWindowStore):
    """After a restoration duplicates are numbered from the start, and replace restored ones."""

    def __init__(self):
        super().__init__(
            "store",
            retention_ms=RETENTION_MS,
            window_size_ms=WINDOW_SIZE_MS,
            retain_duplicates=True,
        )

    def _time_of(self, key):
        return parse_window_key(key)[1]


class _LeakingTransaction(RocksDBWindowTransaction):
    def close(self):
        if self.is_open:
            timeline = self._store._timeline
            timeline.own = max(timeline.own, self._timeline.own)
        super().close()


class RollbackKeepsStreamTime(RocksDBWindowStore):
    """A transaction that is rolled back leaves its stream time, so records in time come too late."""

    def __init__(self):
        super().__init__(
            "store", retention_ms=RETENTION_MS, window_size_ms=WINDOW_SIZE_MS, inner=_staged()
        )

    def _make_transaction(self, inner, timeline):
        return self._like_this(_LeakingTransaction(self, inner, timeline))


class RangeMissesShorterKeys(RocksDBWindowStore):
    """The upper bound of a range of keys is ``key_to`` with the last time; a shorter key in it with a late time is missed."""

    def __init__(self):
        super().__init__("store", retention_ms=RETENTION_MS, window_size_ms=WINDOW_SIZE_MS)

    def _range(self, key_from, key_to, time_from, time_to, *, reverse):
        time_from, time_to = max(time_from, 0), min(time_to, LONG_MAX)
        if is_inverted(key_from, key_to) or time_from > time_to:
            return self._nothing()
        size = self.window_size_ms
        low = b"" if key_from is None else key_from

        def read(rows, first, last):
            for row, value in rows:
                at = len(row) - WINDOW_SUFFIX_BYTES
                (start,) = _START.unpack_from(row, at)
                if first <= start <= last:
                    key = row[SEGMENT_BYTES:at]
                    if low <= key and (key_to is None or key <= key_to):
                        end = min(start + size, LONG_MAX)
                        yield Windowed(key, Window(start, end)), value

        high = None if key_to is None else window_key(key_to, time_to, 2**31 - 1)
        return self._scan(time_from, time_to, (low, high), read, reverse=reverse)


class FindSessionsNearStart(RocksDBSessionStore):
    """``find_sessions`` looks one segment beyond the latest start, so it misses long sessions."""

    def __init__(self):
        super().__init__("store", retention_ms=RETENTION_MS, inner=_staged())

    def _of_key(self, key, earliest_end, latest_start, *, reverse):
        require_key(key)
        if earliest_end > LONG_MAX:
            return self._nothing()
        bounds = (
            session_key(key, 0, max(earliest_end, 0)),
            key + session_key(b"", LONG_MAX, LONG_MAX),
        )
        at = SEGMENT_BYTES + len(key)
        length = at + SESSION_SUFFIX_BYTES
        latest = max(earliest_end, latest_start, 0) + self._timeline.segment_interval_ms

        def read(rows, first, last):
            for row, aggregate in rows:
                if len(row) == length:
                    end, start = _TIMES.unpack_from(row, at)
                    if first <= end <= last and start <= latest_start:
                        yield Windowed(key, Window(start, end)), aggregate

        return self._scan(
            max(earliest_end, 0), min(latest, LONG_MAX), bounds, read, reverse=reverse
        )


class DroppedCounterResets(RocksDBSessionStore):
    """``dropped_records`` starts again from 0 at each commit instead of at ``init``."""

    def __init__(self):
        super().__init__("store", retention_ms=RETENTION_MS, inner=_staged())

    def commit(self, changelog_offsets):
        super().commit(changelog_offsets)
        self.dropped = 0
