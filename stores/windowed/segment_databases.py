"""Segments as Kafka lays them out: a RocksDB database for each, below ``<state_dir>/<name>/``.

.. code-block:: text

    <name>/<name>.meta            what belongs to no segment: offsets and stream time
    <name>/<name>.<start in ms>   one segment
    <name>/*.deleted              an expired segment whose deletion was interrupted

Each database flushes on its own, so that after a crash the segments may be at different
commits. What ``committed_offset`` answers then is a choice, :data:`SegmentOffset`.

Source: Kafka, AbstractSegments and KeyValueSegments.
"""

from __future__ import annotations

import contextlib
import logging
import re
import shutil
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Literal
from weakref import WeakSet

from streamproof.stores.api import (
    ChangelogRecord,
    KeyValueStore,
    Position,
    StateStore,
    StateStoreContext,
    TopicPartition,
    require_key,
)
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.errors import InvalidStateStoreError, ProcessorStateError
from streamproof.stores.iterators import Row, RowIterator, StoreIterator, is_inverted, prefix_end
from streamproof.stores.rocksdb import RocksDBStore

__all__ = ["SegmentDatabases", "SegmentOffset"]

SegmentOffset = Literal["oldest", "newest", "minimum"]
"""Which segment's offset is that of the store.

``minimum``
    The smallest offset of any segment. The only safe one: a record with an offset up to it is in
    its segment, whichever that is. What other segments hold beyond it is replayed, which
    changes nothing.
``newest``
    That of the newest segment (Kafka since 4.3.1, KAFKA-20663). It saves replays, as segments that
    nobody writes to never flush; but a late record in an older segment that had not been flushed
    is lost without a word.
``oldest``
    That of the oldest segment (Kafka 4.3.0). An idle segment answers with an offset
    that the changelog may have lost by now; and a newer segment may be further behind.
"""

_ID = struct.Struct(">q")
_META = -1
"""The id that stands for ``<name>.meta``; the rows of the others begin with ids of 0 and more."""

_DELETED = ".deleted"
_OLD_DATE = re.compile(r"-(\d{12})$")
_OLD_COLON = re.compile(r":(\d+)$")

_logger = logging.getLogger("streamproof.stores")


class SegmentDatabases(KeyValueStore):
    """A key-value store whose rows are in one database for each eight-byte prefix.

    Without transactions: there is no commit over several databases. Under exactly-once an unclean
    stop of any of them means that the whole store must be restored.

    Args:
        name: the name of the store.
        segment_interval_ms: the length of a segment in milliseconds; it names the directories.
        segment_offset: which segment's offset is that of the store.
    """

    capabilities = Capabilities(
        position=True, prefix_scan=True, read_only_views=True, durability="flush"
    )

    def __init__(
        self, name: str, *, segment_interval_ms: int, segment_offset: SegmentOffset = "minimum"
    ) -> None:
        self._name = name
        self._interval_ms = segment_interval_ms
        self._segment_offset = segment_offset
        self._context: StateStoreContext | None = None
        self._segments: dict[int, _Segment] = {}
        self._doomed: list[_Segment] = []
        # What a new segment starts with: everything that is committed by now.
        self._offsets: dict[TopicPartition, int | None] = {}
        self._iterators: WeakSet[RowIterator] = WeakSet()

    @property
    def name(self) -> str:
        """The name of the store."""
        return self._name

    @property
    def persistent(self) -> bool:
        """True: the content outlives the process."""
        return True

    @property
    def manages_offsets(self) -> bool:
        """True: each segment keeps the offsets of every commit."""
        return True

    @property
    def is_open(self) -> bool:
        """Whether the store can be read and written."""
        return self._context is not None

    @property
    def position(self) -> Position:
        """The input offsets that the segments reflect together."""
        merged = Position()
        for segment in self._segments.values():
            merged.merge(segment.position)
        return merged

    def directory(self, context: StateStoreContext) -> Path:
        """Where the directories of the segments are, given the directory of the task."""
        return Path(context.state_dir) / self._name

    # --- life cycle -------------------------------------------------------------------

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open every segment that is there, and finish what was being deleted.

        Raises:
            ProcessorStateError: a segment cannot be opened; those before it are closed again.
            TaskCorruptedError: exactly-once, and a segment was not closed cleanly.
        """
        if self._context is not None:
            raise InvalidStateStoreError(f"Store {self._name!r} is already open; close it first.")
        directory = self.directory(context)
        with self._failing(directory):
            directory.mkdir(parents=True, exist_ok=True)
            _rename_old_names(directory, self._name)
            for leftover in sorted(directory.glob(f"*{_DELETED}")):
                _logger.info("Finishing the deletion of the expired segment %s.", leftover)
                shutil.rmtree(leftover)
            found = sorted(self._ids(directory))
        self._context = context
        try:
            for segment in [_META, *found]:
                self._open_segment(segment)
        except BaseException:
            self._abandon()
            raise
        self._offsets = self._found_offsets()
        context.register(root, self.restore)

    def _found_offsets(self) -> dict[TopicPartition, int | None]:
        """The committed offsets that the segments agree on."""
        partitions = {
            partition
            for store in self._segments.values()
            for partition in store.committed_offsets()
        }
        return {
            partition: offset
            for partition in sorted(partitions)
            if (offset := self.committed_offset(partition)) is not None
        }

    def _ids(self, directory: Path) -> Iterator[int]:
        for path in directory.iterdir():
            start = path.name.removeprefix(f"{self._name}.")
            if start != path.name and start.isdigit():
                yield int(start) // self._interval_ms

    def _open_segment(self, segment: int) -> _Segment:
        """Open a database; it is remembered only if that succeeds (KAFKA-20808)."""
        context = self._opened()
        start = "meta" if segment == _META else str(segment * self._interval_ms)
        path = self.directory(context) / f"{self._name}.{start}"
        store = _Segment(f"{self._name}.{start}", path)
        store.init(context, store)
        # The runtime restores the store, not its segments.
        del context.restore_callbacks[store.name]
        self._segments[segment] = store
        return store

    def _create_segment(self, segment: int) -> _Segment:
        """A new segment, which lacks nothing up to the offsets that are committed by now.

        That must be durable before the segment gets its first record: without an offset of its
        own it would send the whole store back to the beginning.
        """
        store = self._open_segment(segment)
        if self._offsets:
            store.commit(self._offsets)
            store.flush()
        return store

    def close(self) -> None:
        """Close every segment; the first error is raised after all were closed."""
        if self._context is None:
            return
        for iterator in list(self._iterators):
            iterator.close()
        with contextlib.ExitStack() as stack:
            for store in self._segments.values():
                stack.callback(store.close)
            stack.callback(self._delete_doomed)
            self._segments = {}
            self._context = None

    def _abandon(self) -> None:
        """Close what was opened, as unclean as it was found."""
        for store in self._segments.values():
            with contextlib.suppress(ProcessorStateError):
                store.close()
        self._segments = {}
        self._context = None

    def flush(self) -> None:
        """Write every segment to disk, one after the other."""
        self._opened()
        for store in self._segments.values():
            store.flush()

    # --- commit -----------------------------------------------------------------------

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Store the offsets in every segment; each becomes durable with its next flush."""
        self._opened()
        self._delete_doomed()
        for store in self._segments.values():
            store.commit(changelog_offsets)
        if changelog_offsets:
            self._offsets.update(changelog_offsets)
        else:
            self._offsets = {}

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """The offset of the segment that was chosen (:data:`SegmentOffset`), or ``None``."""
        self._opened()
        # The meta database is in line with the newest: it is written by every commit.
        ids = sorted(self._segments, key=lambda segment: (segment == _META, segment))
        offsets = [self._segments[each].committed_offset(partition) for each in ids]
        if self._segment_offset == "minimum":
            known = [offset for offset in offsets if offset is not None]
            return min(known) if len(known) == len(offsets) else None
        if self._segment_offset == "newest":
            offsets = offsets[:-1][::-1] + offsets[-1:]
        return next((offset for offset in offsets if offset is not None), None)

    def restore(self, batch: Sequence[ChangelogRecord]) -> None:
        """Apply changelog records in order, in one write for each run of one segment."""
        for segment, records in groupby(batch, key=lambda record: _segment_of(record.key)):
            self._segment(segment).restore(list(records))

    # --- reads and writes -------------------------------------------------------------

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``, or ``None``."""
        require_key(key)
        self._opened()
        store = self._segments.get(_segment_of(key))
        return None if store is None else store.get(key)

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of ``key``; ``None`` deletes it."""
        require_key(key)
        self._opened()
        self._segment(_segment_of(key)).put(key, value)

    def delete_range(self, from_key: bytes, to_key_exclusive: bytes) -> None:
        """Drop every segment whose prefix lies in the range: whole segments, nothing less."""
        self._opened()
        first, end = _segment_of(from_key), _segment_of(to_key_exclusive)
        for segment in [each for each in self._segments if first <= each < end]:
            self._doomed.append(self._segments.pop(segment))
        self._delete_doomed()

    def _delete_doomed(self) -> None:
        """Delete expired segments, except those that an iterator still reads."""
        waiting = []
        for store in self._doomed:
            if self._context is not None and store.is_read:
                waiting.append(store)
                continue
            store.close()
            aside = store.path.with_name(store.path.name + _DELETED)
            with self._failing(store.path):
                # A deletion that is interrupted leaves nothing that looks like a segment.
                store.path.rename(aside)
                shutil.rmtree(aside)
        self._doomed = waiting

    def range(self, from_key: bytes | None, to_key: bytes | None) -> RowIterator:
        """The entries from ``from_key`` to ``to_key``, both inclusive, ascending."""
        return self._scan(from_key, to_key, reverse=False)

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> RowIterator:
        """The same entries as ``range``, descending."""
        return self._scan(from_key, to_key, reverse=True)

    def prefix_scan(self, prefix: bytes) -> RowIterator:
        """Every entry whose key starts with ``prefix``, ascending."""
        require_key(prefix)
        end = prefix_end(prefix)
        found = self._scan(prefix, end, reverse=False)
        rows = (row for row in found if row[0] != end)
        return StoreIterator(self._name, rows, self._iterators, found.close)

    def _scan(self, from_key: bytes | None, to_key: bytes | None, *, reverse: bool) -> RowIterator:
        self._opened()
        if is_inverted(from_key, to_key):
            return StoreIterator(self._name, iter(()), self._iterators)
        # The rows of the meta database have the largest prefix of all.
        order = sorted(self._segments, key=lambda segment: (segment == _META, segment))
        if reverse:
            order.reverse()
        opened = contextlib.ExitStack()
        scans = []
        for segment in order:
            if _may_hold(segment, from_key, to_key):
                store = self._segments[segment]
                scan = store.reverse_range if reverse else store.range
                scans.append(opened.enter_context(scan(from_key, to_key)))
        rows: Iterator[Row] = (row for scan in scans for row in scan)
        return StoreIterator(self._name, rows, self._iterators, opened.close)

    def approximate_num_entries(self) -> int:
        """The sum of the segments' estimates."""
        self._opened()
        return sum(store.approximate_num_entries() for store in self._segments.values())

    def _segment(self, segment: int) -> _Segment:
        return self._segments.get(segment) or self._create_segment(segment)

    def _opened(self) -> StateStoreContext:
        if self._context is None:
            raise InvalidStateStoreError(
                f"Store {self._name!r} is not open; call init() before using it."
            )
        return self._context

    @contextlib.contextmanager
    def _failing(self, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ProcessorStateError(
                f"The segments of store {self._name!r} at {path} cannot be used: {error}. Check "
                "that the path is a directory that can be written, and that the disk has space."
            ) from error


class _Segment(RocksDBStore):
    """The database of one segment.

    Attributes:
        path: its directory.
    """

    def __init__(self, name: str, path: Path) -> None:
        super().__init__(name)
        self.path = path

    def directory(self, context: StateStoreContext) -> Path:
        """The directory of the segment."""
        return self.path

    @property
    def is_read(self) -> bool:
        """Whether an iterator is open."""
        return any(not iterator.closed for iterator in self._iterators)


def _segment_of(key: bytes) -> int:
    (segment,) = _ID.unpack_from(key)
    return int(segment)


def _may_hold(segment: int, from_key: bytes | None, to_key: bytes | None) -> bool:
    """Whether a segment may hold rows between two bounds."""
    prefix = _ID.pack(segment)
    below = from_key is not None and prefix + b"\xff" * 64 < from_key[: _ID.size]
    above = to_key is not None and prefix > to_key
    return not (below or above)


def _rename_old_names(directory: Path, name: str) -> None:
    """Give segments the names of today: ``name-yyyyMMddHHmm`` and ``name:ms`` become ``name.ms``.

    Source: Kafka, AbstractRocksDBSegmentedBytesStoreTest,
    shouldLoadSegmentsWithOldStyleDateFormattedName and ...ColonFormattedName.
    """
    parsers: tuple[tuple[re.Pattern[str], Callable[[str], int]], ...] = (
        (_OLD_DATE, _milliseconds_of_date),
        (_OLD_COLON, int),
    )
    for path in sorted(directory.iterdir()):
        for pattern, parse in parsers:
            found = pattern.search(path.name.removeprefix(name))
            if path.name.startswith(name) and found and found.start() == 0:
                target = directory / f"{name}.{parse(found.group(1))}"
                _logger.info("Renaming the segment %s to %s.", path, target)
                path.rename(target)


def _milliseconds_of_date(text: str) -> int:
    return int(datetime.strptime(text, "%Y%m%d%H%M").replace(tzinfo=UTC).timestamp() * 1000)
