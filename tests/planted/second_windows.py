"""More wrong window, session and timestamped stores: one mistake each, named first."""

from __future__ import annotations

import shutil
from contextlib import nullcontext

from streamproof.stores.api import NO_TIMESTAMP, IsolationLevel, require_key
from streamproof.stores.runtime.metered import _MeteredSessionStore
from streamproof.stores.timestamped import (
    RocksDBLazyTimestampedStore,
    RocksDBTimestampedStore,
    TimestampedKeyValueStore,
)
from streamproof.stores.timestamped_layer import TIMESTAMPED
from streamproof.stores.timestamped_lazy import LazyRocksDBStore
from streamproof.stores.transactional import TransactionalKeyValueStore, TransactionalRocksDBStore
from streamproof.stores.windowed.keys import require_session, session_key, window_key
from streamproof.stores.windowed.rocksdb_sessions import RocksDBSessionStore
from streamproof.stores.windowed.rocksdb_windows import RocksDBWindowStore, _WindowView
from streamproof.stores.windowed.segment_databases import SegmentDatabases
from streamproof.stores.windowed.segmented_reads import (
    Timeline,
    default_segment_interval_ms,
    segment_prefix,
)
from streamproof.stores.windowed.timestamped_windows import TimestampedRocksDBWindowStore
from streamproof.stores.windows import LONG_MAX

RETENTION_MS = 180_000
WINDOW_SIZE_MS = 10_000


def _staged(name):
    return TransactionalKeyValueStore(TransactionalRocksDBStore(name))


class _Windows(RocksDBWindowStore):
    transactional = False

    def __init__(self, name="store", **options):
        inner = _staged(name) if self.transactional else options.pop("inner", None)
        super().__init__(
            name,
            retention_ms=RETENTION_MS,
            window_size_ms=WINDOW_SIZE_MS,
            inner=inner,
            **options,
        )


class _Sessions(RocksDBSessionStore):
    transactional = False

    def __init__(self, name="store"):
        inner = _staged(name) if self.transactional else None
        super().__init__(name, retention_ms=RETENTION_MS, inner=inner)


# --- edges of time ---------------------------------------------------------------------


class _EdgeTimeline(Timeline):
    __slots__ = ()

    def segments(self, time_from, time_to):
        found = super().segments(time_from, time_to)
        last = min(time_to, self.stream_time)
        return found[:-1] if len(found) > 1 and last % self.segment_interval_ms == 0 else found


class LastSegmentAtItsEdge(_Windows):
    """A scan that ends exactly where a segment begins leaves this segment out, and with it the window that starts there."""

    def __init__(self, name="store"):
        super().__init__(name)
        own = self._timeline
        self._timeline = _EdgeTimeline(own.retention_ms, own.segment_interval_ms, own.base)


class _LateTimeline(Timeline):
    __slots__ = ()

    @property
    def oldest_readable(self):
        return max(self.stream_time - self.retention_ms, 0)


class ReadableAtRetention(_Sessions):
    """A session that ended exactly one retention before the stream time is still found."""

    def __init__(self, name="store"):
        super().__init__(name)
        own = self._timeline
        self._timeline = _LateTimeline(own.retention_ms, own.segment_interval_ms, own.base)


class StreamTimeFromSegments(_Windows):
    """An opening takes the start of the newest segment for the stream time, so that expired windows come back."""

    def _load_state(self):
        super()._load_state()
        interval = self._timeline.segment_interval_ms
        if self._committed.own >= 0:
            self._committed.own -= self._committed.own % interval


class DeletesLeaveStreamTime(_Windows):
    """A put of ``None`` does not move the stream time, so that windows which it makes expire are still found."""

    transactional = True

    def put(self, key, value, window_start):
        if value is None and key is not None and 2**62 > window_start > self.stream_time:
            segment = window_start // self._timeline.segment_interval_ms
            self._rows.put(segment_prefix(segment) + window_key(key, window_start), None)
            return
        super().put(key, value, window_start)


class RefusedPutMovesStreamTime(_Windows):
    """RIGHT, because the contract leaves it open: a put without a key is refused after the stream time has moved to its window.

    Kafka's stores in memory look at the time first, too.
    """

    def put(self, key, value, window_start):
        if key is None and self.is_open and 0 <= window_start <= LONG_MAX:
            self._timeline.own = max(self._timeline.own, window_start)
        super().put(key, value, window_start)


class ViewExpiresEarly(_Windows):
    """A view of committed windows goes by the stream time of the staged ones, so that committed windows vanish before the commit."""

    transactional = True

    def read_only(self, isolation_level):
        seen = self._view_of(isolation_level)
        if seen is None:
            return self
        name, rows, _, iterators, lock = seen
        view = _WindowView(name, rows, self._timeline, iterators, lock)
        if isolation_level is not IsolationLevel.READ_COMMITTED:
            view = _WindowView(*seen)
        view.window_size_ms = self.window_size_ms
        return view


class ViewScanUnlocked(_Windows):
    """A view takes no lock while it opens the segments of a scan, so that a commit comes between two of them."""

    transactional = True

    def read_only(self, isolation_level):
        seen = self._view_of(isolation_level)
        if seen is None:
            return self
        view = _WindowView(*seen[:-1], nullcontext())
        view.window_size_ms = self.window_size_ms
        return view


# --- sessions --------------------------------------------------------------------------


class LongSessionsStay(_Sessions):
    """``remove`` looks for a session in the segment of its start, so that one which ends in a later segment stays."""

    transactional = True

    def remove(self, session):
        require_key(session.key)
        require_session(session)
        start, end = session.window
        self._put(start, session_key(session.key, start, end), None)


class BackwardRangeIgnoresStart(_Sessions):
    """``backward_find_sessions_range`` ignores the latest start of a session, unlike its forward twin."""

    def backward_find_sessions_range(
        self, key_from, key_to, earliest_session_end, latest_session_start
    ):
        return self._range(key_from, key_to, earliest_session_end, LONG_MAX, LONG_MAX, reverse=True)


class DropsCountedTwice(_MeteredSessionStore):
    """The metric of dropped records gets the number of all records dropped so far at each commit, and not that of new ones."""

    def __init__(self, name="store"):
        super().__init__(_Sessions(name), "rocksdb")

    def _record_drops(self):
        if self._inner.dropped_records > 0:
            self._drops.record(self._inner.dropped_records)


# --- segments, duplicates --------------------------------------------------------------


class _DeletesInPlace(SegmentDatabases):
    def _delete(self, store):
        store.close()
        with self._failing(store.path):
            shutil.rmtree(store.path)


class SegmentsDeletedInPlace(_Windows):
    """The directory of an expired segment is deleted file by file under its own name, so that a crash leaves a part of a database."""

    def __init__(self, name="store"):
        interval = default_segment_interval_ms(RETENTION_MS)
        super().__init__(name, inner=_DeletesInPlace(name, segment_interval_ms=interval))


class SequenceOverflows(_Windows):
    """The numbers of duplicates do not begin anew after 2**31 - 1, and the next put fails."""

    def __init__(self, name="store"):
        super().__init__(name, retain_duplicates=True)

    def next_sequence(self):
        self.sequence += 1
        return self.sequence


# --- timestamps ------------------------------------------------------------------------


def _without_zero(value, timestamp):
    return TIMESTAMPED.encode(value, timestamp or NO_TIMESTAMP)


class EpochIsNoTimestamp(RocksDBTimestampedStore):
    """The timestamp 0 is taken for none, and read back as -1."""

    def __init__(self, name="store"):
        super().__init__(name)

    def _use(self, inner, form):
        wrong = form._replace(encode=_without_zero) if form is TIMESTAMPED else form
        super()._use(inner, wrong)


class OlderTimestampIgnored(RocksDBTimestampedStore):
    """A put whose timestamp is older than that of the stored value is ignored, as if the store kept the latest by time."""

    def __init__(self, name="store"):
        super().__init__(name, transactional=True)

    def put_with_timestamp(self, key, value, timestamp):
        found = None if key is None else self.get_with_timestamp(key)
        if value is None or found is None or timestamp >= found.timestamp:
            super().put_with_timestamp(key, value, timestamp)


class _DeletesNewRow:
    """Puts replace the rows of both formats; deletes, and those of ranges, that of the new one."""

    def __init__(self, both, new):
        self.put = both.put
        self.delete, self.delete_range = new.delete, new.delete_range


class _LazyRows(LazyRocksDBStore):
    def _records(self, database, batch):
        return _DeletesNewRow(super()._records(database, batch), database.records(batch))


class LazyDeleteLeavesPlainRow(RocksDBLazyTimestampedStore):
    """A delete removes the row of the new format alone, so that a plain row which was not migrated yet comes back."""

    def __init__(self, name="store"):
        TimestampedKeyValueStore.__init__(self, _LazyRows(name))


class WindowStampedByStart(TimestampedRocksDBWindowStore):
    """``put`` without a timestamp takes the start of the window instead of the timestamp of the record."""

    def __init__(self, name="store"):
        super().__init__(name, retention_ms=RETENTION_MS, window_size_ms=WINDOW_SIZE_MS)

    def put(self, key, value, window_start):
        self.put_with_timestamp(key, value, min(window_start, LONG_MAX), window_start)
