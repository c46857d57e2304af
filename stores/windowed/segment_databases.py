"""Segments as Kafka lays them out: a RocksDB database for each, below ``<state_dir>/<name>/``.

.. code-block:: text

    <name>/<name>.meta            data of no segment: offsets and stream time
    <name>/<name>.<start in ms>   one segment
    <name>/*.deleted              an expired segment whose deletion was interrupted
    <name>/.lock                  locked while the store is open

Each database flushes on its own, so after a crash the databases may be at different commits. Every
commit writes its number, all offsets and the whole position to every database, in one step each: a
database holds all of its records up to its last flushed commit. :data:`SegmentOffset` chooses the
commit that the store continues from. The other databases are brought in line before the next write,
so that commits from before and after a crash are never compared.

The state after a kill, by the interrupted step:

*A segment is created.* The number of the last commit reaches its disk before the first record, so
the segment is complete up to that commit. A segment without a number is empty, and decides
nothing.

*A segment is dropped.* The stream time that expires the segment reaches the disk of ``meta`` first.
The directory is renamed before its deletion, so that a half-deleted one is never opened.

*The store is closed.* Databases that were closed hold the last commit, the others an older one.

*The offsets of an older version are taken over* (KIP-1035). They become the first commit of every
segment, then that of ``meta``, and only then are the files removed. As long as ``meta`` has no
offset, the files count.

*The store is left for an older version*, with ``upgrade.from``. All databases are marked as closed,
on disk. Then the files are written, ``meta`` is deleted, and last the segments lose their offsets.
What is left has the layout of Kafka before 4.3: segments with nothing but records, and no other
name in the directory.

Source: Kafka, AbstractSegments and KeyValueSegments.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import shutil
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import Final, Literal, TypeVar
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
from streamproof.stores.error_translation import ErrorTranslation
from streamproof.stores.errors import (
    InvalidArgumentError,
    InvalidStateStoreError,
    ProcessorStateError,
)
from streamproof.stores.iterators import Row, RowIterator, StoreIterator, is_inverted, prefix_end
from streamproof.stores.offset_downgrade import add_to_task_checkpoint
from streamproof.stores.offset_import import OffsetImport, position_files
from streamproof.stores.offsets import STATUS_CLOSED
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.synced_directories import make_directory, sync_directory
from streamproof.stores.upgrade_configs import is_downgrade

__all__ = ["JOURNAL", "OneSegment", "SegmentDatabases", "SegmentOffset"]

SegmentOffset = Literal["oldest", "newest", "minimum"]
"""The database whose offsets are the committed offsets of the store after a crash.

``minimum``
    The database at the oldest commit. This is the only safe choice, because segments flush one by
    one: every record with an offset up to that commit is in its segment. Records that other
    segments have beyond it are replayed, which changes nothing.
``newest``
    The newest segment that has an offset (Kafka since 4.3.1, KAFKA-20663). This saves replays,
    because an idle segment never flushes. But a late record is lost in silence if it is in an older
    segment that was not flushed.
``oldest``
    The oldest segment that has an offset (Kafka 4.3.0). An idle segment may answer with an offset
    that the changelog has lost by now, and a newer segment may be further behind.

To keep replays short with any choice, all databases are flushed when a segment is created.
"""

_ID = struct.Struct(">q")
_META = -1
"""The id of ``<name>.meta``; the rows of segments begin with ids from 0."""

JOURNAL = ".journal"
"""The end of the name of the journal's directory, in the layout with transactions."""

_DELETED = ".deleted"
_LOCK = ".lock"
_OLD_NAME = re.compile(r"-(?P<minute>\d{12})|:(?P<ms>\d+)")

_COMMITS: Final = TopicPartition("#commits", 0)
"""The entry of the stored position that holds the number of a commit; no topic has this name."""

_NO_COMMIT = 0
"""The number of a segment that was created before the first commit."""

_NO_NUMBER = -1
"""The number of a database without a commit."""

T = TypeVar("T")
_logger = logging.getLogger("streamproof.stores")


class SegmentDatabases(KeyValueStore):
    """A key-value store whose rows are in one database for each eight-byte prefix.

    The store has no transactions, because no commit covers several databases. Under exactly-once
    the whole store must be restored if any of its databases was not closed cleanly. Rows whose
    prefix belongs to no segment (0xFF, eight times) are in the database ``meta``.

    Args:
        name: the name of the store.
        segment_interval_ms: the length of a segment in milliseconds; it names the directories.
        segment_offset: which database's offsets are those of the store after a crash.
        manages_offsets: whether the store keeps its offsets. If not, it has no offsets, no stored
            position, and no database ``meta``, as before KIP-1035.
    """

    format_version = 1
    """The version of the format of the records: plain values (KIP-258)."""

    _marks_status = True
    """Whether the databases need the status row to tell a clean close from a crash."""

    def __init__(
        self,
        name: str,
        *,
        segment_interval_ms: int,
        segment_offset: SegmentOffset = "minimum",
        manages_offsets: bool = True,
    ) -> None:
        super().__init__()
        self._name = name
        self._interval_ms = segment_interval_ms
        self._segment_offset = segment_offset
        self._manages_offsets = manages_offsets
        self._downgrading = False
        self._context: StateStoreContext | None = None
        self._lock_file: int | None = None
        # A write replaces this map and never changes it, so that other threads can iterate over it.
        self._segments: dict[int, OneSegment] = {}
        self._doomed: list[OneSegment] = []
        self._offsets: dict[TopicPartition, int] = {}
        self._commits = _NO_COMMIT
        self._position = Position()
        self._committed_position = Position()
        self._iterators: WeakSet[RowIterator] = WeakSet()
        # Held while segments are dropped, and while a query finds and opens its segments.
        self._dropping = RLock()

    @property
    def capabilities(self) -> Capabilities:
        """The promises of this store."""
        managed = self._manages_offsets
        return Capabilities(
            manages_offsets=managed,
            position=managed,
            prefix_scan=True,
            read_only_views=True,
            durability="flush",
            downgrade=managed,
            imports_offsets=managed,
        )

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
        """Whether each database keeps the offsets of every commit (KIP-1035)."""
        return self._manages_offsets

    @property
    def is_open(self) -> bool:
        """Whether the store can be read and written."""
        return self._context is not None

    @property
    def position(self) -> Position:
        """The input offsets that the segments reflect together (KIP-796)."""
        return self._position.copy()

    def directory(self, context: StateStoreContext) -> Path:
        """Where the directories of the segments are, given the directory of the task."""
        return Path(context.state_dir) / self._name

    def _require_layout(self, directory: Path) -> None:
        """Raise ProcessorStateError if the commits of the segments are in a journal."""
        journal = directory / f"{self._name}{JOURNAL}"
        if journal.exists():
            raise ProcessorStateError(
                f"The segments in {directory} have their commits in {journal}, which this store "
                "does not read. Use the store with transactions, or wipe the directory and restore "
                "from the changelog."
            )

    # --- life cycle -------------------------------------------------------------------

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open every segment on disk, and finish deletions that a crash has interrupted.

        Raises:
            ProcessorStateError: a segment cannot be opened, or is of another interval; those
                before it are closed again. Or a file of an older version is malformed.
            TaskCorruptedError: exactly-once, and a segment was not closed cleanly.
            InvalidStateStoreError: the store is already open.
            UsageError: ``upgrade.from`` and ``upgrade.mode`` do not fit together.
        """
        if self._context is not None:
            raise InvalidStateStoreError(f"Store {self._name!r} is already open; close it first.")
        directory = self.directory(context)
        self._downgrading = self._manages_offsets and is_downgrade(context)
        self._context = context
        try:
            with self._failing(directory):
                make_directory(directory)
                self._lock_file = _locked(directory / _LOCK)
                self._require_layout(directory)
                self._rename_old_names(directory)
                for leftover in sorted(directory.glob(f"*{_DELETED}")):
                    _logger.info("Finishing the deletion of the expired segment %s.", leftover)
                    shutil.rmtree(leftover)
                found = sorted(self._ids(directory))
            self._segments = {}
            if self._manages_offsets:
                self._open_managed([_META, *found])
            else:
                self._open_segments(found)
        except BaseException:
            self._release()
            raise
        context.register(root, self.restore)

    def _ids(self, directory: Path) -> Iterator[int]:
        for path in directory.iterdir():
            start = path.name.removeprefix(f"{self._name}.")
            if start != path.name and start.isdecimal():
                segment, rest = divmod(int(start), self._interval_ms)
                if rest:
                    raise ProcessorStateError(
                        f"The segment {path} does not start at a multiple of {self._interval_ms} "
                        "ms, so it was written with another segment interval. Open the store with "
                        "that interval, or wipe its directory and restore from the changelog."
                    )
                yield segment

    def _open_managed(self, found: list[int]) -> None:
        context = self._opened()
        left = OffsetImport(context, self._name, self.directory(context))
        databases = [self._path_of(segment) for segment in found]
        left.prepare(exactly_once=context.exactly_once, databases=databases)
        self._open_segments(found)
        self._take_over(left)
        self._agree()

    def _open_segments(self, found: list[int]) -> None:
        for segment in found:
            # A segment is remembered only once it is open (KAFKA-20808).
            self._segments[segment] = self._open_segment(segment)

    def _path_of(self, segment: int) -> Path:
        start = "meta" if segment == _META else str(segment * self._interval_ms)
        return self.directory(self._opened()) / f"{self._name}.{start}"

    def _open_segment(self, segment: int) -> OneSegment:
        context = self._opened()
        path = self._path_of(segment)
        store = OneSegment(
            path, manages_offsets=self._manages_offsets, marks_status=self._marks_status
        )
        store.init(context, store)
        # The runtime restores the store, not its segments.
        del context.restore_callbacks[store.name]
        return store

    def _create_segment(self, segment: int) -> OneSegment:
        """A new segment. It is complete up to the last commit, whose number is on its disk."""
        store = self._open_segment(segment)
        if self._manages_offsets:
            try:
                self._commit_to(store)
                store.flush()
            except BaseException:
                store.close()
                raise
            for other in self._segments.values():
                other.flush()
        self._segments = {**self._segments, segment: store}
        return store

    def _take_over(self, left: OffsetImport) -> None:
        """Make what an older version left the first commit of every database, on disk."""
        if not left:
            return
        meta = self._segments[_META]
        if not meta.committed_offsets():
            last = max(store.last_commit()[0] for store in self._segments.values())
            # A store that has no offset may still have a position: the larger entries are right.
            left.position.merge(meta.last_commit()[1])
            state = (max(last, _NO_COMMIT) + 1, left.known_offsets, left.position)
            # The database meta comes last: its number says that the others have theirs.
            for segment in sorted(self._segments, reverse=True):
                self._segments[segment].commit_all(*state)
                self._segments[segment].flush()
        left.finish()

    def _agree(self) -> None:
        """Go on from the commit of one database, and bring the others in line, on disk."""
        stores = [store for store in self._segments.values() if store.has_a_say]
        chosen = self._chosen(stores)
        number, self._committed_position = chosen.last_commit()
        self._commits = max(number, _NO_COMMIT)
        self._offsets = chosen.committed_offsets() if number > _NO_COMMIT else {}
        self._position = self._committed_position.copy()
        state = (self._offsets, (self._commits, self._committed_position))
        for store in self._segments.values():
            if (store.committed_offsets(), store.last_commit()) != state:
                self._commit_to(store)
                store.flush()

    def _chosen(self, stores: list[OneSegment]) -> OneSegment:
        """The database that decides the committed offsets; ``stores`` begin with ``meta``."""
        if self._segment_offset == "minimum" or len(stores) == 1:
            return min(stores, key=lambda store: store.last_commit()[0])
        by_age = stores[1:] if self._segment_offset == "oldest" else stores[:0:-1]
        return next((store for store in by_age if store.committed_offsets()), by_age[0])

    def close(self) -> None:
        """Close every segment; the first error is raised after all were closed."""
        if self._context is None:
            return
        for iterator in list(self._iterators):
            iterator.close()
        with self._dropping:
            try:
                self._delete_doomed(even_if_read=True)
                if self._downgrading:
                    self._leave_for_older_version(self._context)
            finally:
                self._release()

    def _leave_for_older_version(self, context: StateStoreContext) -> None:
        """Leave what a version before KIP-1035 can go on with; the module says in which order."""
        directory = self.directory(context)
        for store in self._segments.values():
            store.mark_closed()
        add_to_task_checkpoint(context, self._name, self._offsets)
        # The directory of the segments is no place for the file: older versions read its names.
        file, _ = position_files(context, self._name, directory)
        file.write(self._committed_position.as_dict())
        meta = self._segments[_META]
        self._segments = {
            segment: store for segment, store in self._segments.items() if segment != _META
        }
        self._delete(meta)
        with self._failing(directory):
            sync_directory(directory)
        for store in self._segments.values():
            store.close_without_offsets()
        with self._failing(directory):
            (directory / _LOCK).unlink()

    def _release(self) -> None:
        """Close all open databases, then release the lock; the last error is raised."""
        with contextlib.ExitStack() as stack:
            if self._lock_file is not None:
                stack.callback(os.close, self._lock_file)
            for store in (*self._segments.values(), *self._doomed):
                stack.callback(store.close)
            self._lock_file = self._context = None
            self._segments, self._doomed = {}, []

    def flush(self) -> None:
        """Write every segment to disk, one after the other."""
        self._opened()
        for store in self._segments.values():
            store.flush()

    # --- commit -----------------------------------------------------------------------

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Store the offsets in every segment; each becomes durable with its next flush.

        An empty map forgets all offsets, ``None`` forgets the offset of one partition.
        """
        self._opened()
        with self._dropping:
            self._delete_doomed()
        if not self._manages_offsets:
            return
        self._offsets = self._offsets_after(changelog_offsets)
        self._commits += 1
        self._committed_position = self._position.copy()
        for store in (*self._segments.values(), *self._doomed):
            self._commit_to(store)

    def _offsets_after(
        self, changelog_offsets: Mapping[TopicPartition, int | None]
    ) -> dict[TopicPartition, int]:
        """The offsets of all partitions after a commit of these."""
        merged = {**self._offsets, **changelog_offsets} if changelog_offsets else {}
        return {each: offset for each, offset in merged.items() if offset is not None}

    def _commit_to(self, store: OneSegment) -> None:
        store.commit_all(self._commits, self._offsets, self._committed_position)

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """The offset of the last commit, or ``None``; after a crash see :data:`SegmentOffset`."""
        self._opened()
        return self._offsets.get(TopicPartition(*partition))

    def restore(self, batch: Sequence[ChangelogRecord]) -> None:
        """Apply changelog records: one write for each segment, in order."""
        self._opened()
        for segment, records in _by_segment((record.key, record) for record in batch).items():
            if self._keeps(segment):
                self._segment(segment).restore(records)

    # --- reads and writes -------------------------------------------------------------

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``, or ``None``."""
        require_key(key)
        with self._dropping:
            self._opened()
            store = self._segments.get(_segment_of(key))
            return None if store is None else store.get(key)

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of ``key``; ``None`` deletes it."""
        require_key(key)
        self._opened()
        segment = _segment_of(key)
        if self._keeps(segment):
            self._segment(segment).put(key, value)
        self._record_position()

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Put all entries, in one write for each segment; if one key is ``None``, none."""
        self._opened()
        checked = list(entries)
        for key, _ in checked:
            require_key(key)
        for segment, found in _by_segment((entry[0], entry) for entry in checked).items():
            if self._keeps(segment):
                self._segment(segment).put_all(found)
        self._record_position()

    def delete_range(self, from_key: bytes, to_key_exclusive: bytes) -> None:
        """Drop every segment whose prefix lies in the range: whole segments, nothing less."""
        self._opened()
        dropped = self._between(from_key, to_key_exclusive)
        if dropped:
            # The stream time goes to disk first: a crash must not leave a time that does not call
            # the dropped segment expired.
            if self._manages_offsets:
                self._segments[_META].flush()
            self._drop(dropped)
        self._record_position()

    def _between(self, from_key: bytes, to_key_exclusive: bytes) -> list[int]:
        """The segments whose prefix lies in a range."""
        first, end = _segment_of(from_key), _segment_of(to_key_exclusive)
        return [segment for segment in self._segments if first <= segment < end]

    def _drop(self, dropped: Collection[int]) -> None:
        with self._dropping:
            self._doomed += [self._segments[segment] for segment in dropped]
            self._segments = {
                segment: store
                for segment, store in self._segments.items()
                if segment not in dropped
            }
            self._delete_doomed()

    def _delete_doomed(self, *, even_if_read: bool = False) -> None:
        """Delete expired segments, except those that an iterator still reads."""
        for store in list(self._doomed):
            if store.is_read and not even_if_read:
                continue
            self._doomed.remove(store)
            self._delete(store)

    def _delete(self, store: OneSegment) -> None:
        store.close()
        aside = store.path.with_name(store.path.name + _DELETED)
        with self._failing(store.path):
            store.path.rename(aside)
            shutil.rmtree(aside)

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
        with self._dropping, contextlib.ExitStack() as opened:
            self._opened()
            if is_inverted(from_key, to_key):
                return StoreIterator(self._name, iter(()), self._iterators)
            # The rows of the meta database have the largest prefix of all.
            order = sorted(self._segments, key=_ID.pack, reverse=reverse)
            scans = []
            for segment in order:
                if _may_hold(segment, from_key, to_key):
                    store = self._segments[segment]
                    scan = store.reverse_range if reverse else store.range
                    scans.append(opened.enter_context(scan(from_key, to_key)))
            close = opened.pop_all().close
        rows: Iterator[Row] = (row for scan in scans for row in scan)
        return StoreIterator(self._name, rows, self._iterators, close)

    def approximate_num_entries(self) -> int:
        """The sum of the segments' estimates."""
        self._opened()
        return sum(store.approximate_num_entries() for store in self._segments.values())

    def _keeps(self, segment: int) -> bool:
        """Whether rows of a segment are kept: before KIP-1035, none that belong to no segment."""
        return self._manages_offsets or segment != _META

    def _segment(self, segment: int) -> OneSegment:
        return self._segments.get(segment) or self._create_segment(segment)

    def _record_position(self) -> None:
        metadata = self._opened().record_metadata
        if metadata is not None:
            self._position.update(*metadata)

    def _opened(self) -> StateStoreContext:
        if self._context is None:
            raise InvalidStateStoreError(
                f"Store {self._name!r} is not open; call init() before using it."
            )
        return self._context

    def _failing(self, path: Path) -> ErrorTranslation:
        def failure(error: Exception) -> ProcessorStateError:
            return ProcessorStateError(
                f"The segments of store {self._name!r} at {path} cannot be used: {error}. Check "
                "that the path is a writable directory, that no other store has it open, and that "
                "the disk has space."
            )

        return ErrorTranslation(OSError, failure)

    def _rename_old_names(self, directory: Path) -> None:
        """Rename segments with names of old versions of Kafka.

        Those names are ``<name>-yyyyMMddHHmm`` and ``<name>:<ms>``.

        Source: Kafka, AbstractRocksDBSegmentedBytesStoreTest,
        shouldLoadSegmentsWithOldStyleDateFormattedName and ...ColonFormattedName.
        """
        for path in sorted(directory.iterdir()):
            old = _OLD_NAME.fullmatch(path.name.removeprefix(self._name))
            if old is None or not path.name.startswith(self._name):
                continue
            time = int(old["ms"]) if old["ms"] else _milliseconds_of_minute(old["minute"])
            target = directory / f"{self._name}.{time - time % self._interval_ms}"
            _logger.info("Renaming the segment %s to %s.", path, target)
            if target.exists():
                raise FileExistsError(
                    f"{path.name} cannot be renamed, because {target.name} exists"
                )
            path.rename(target)


class OneSegment(RocksDBStore):
    """The database of one segment.

    Attributes:
        path: its directory.
    """

    _is_whole = False

    def __init__(self, path: Path, *, manages_offsets: bool, marks_status: bool) -> None:
        super().__init__(path.name, manages_offsets=manages_offsets)
        self.path = path
        self._marks_status = marks_status

    def directory(self, context: StateStoreContext) -> Path:
        """The directory of the segment."""
        return self.path

    @property
    def is_read(self) -> bool:
        """Whether an iterator is open."""
        return any(not iterator.closed for iterator in self._iterators)

    @property
    def has_a_say(self) -> bool:
        """Whether the database is ``meta``, or has the number of a commit or a record."""
        if self.path.name.endswith(".meta") or self.last_commit()[0] != _NO_NUMBER:
            return True
        with self.range(None, None) as rows:
            return any(True for _ in rows)

    def commit_all(
        self, number: int, offsets: Mapping[TopicPartition, int], position: Position
    ) -> None:
        """Store a commit in one step: its number, all offsets, and the position of all segments."""
        stored = position.as_dict() | {_COMMITS: number}
        self._position = Position(stored)
        forgotten = dict.fromkeys(self.committed_offsets())
        self.commit({**forgotten, **offsets})

    def mark_closed(self) -> None:
        """Write all records to disk, and with them the mark of a clean close."""
        database = self._opened()
        self._write_status(database, STATUS_CLOSED)
        database.flush()

    def close_without_offsets(self) -> None:
        """Close without the column family for offsets; the store was marked as closed."""
        database, self._database = self._opened(), None
        try:
            database.drop_offsets()
        finally:
            database.close()

    def last_commit(self) -> tuple[int, Position]:
        """The number of the commit that this database is at, and its position."""
        stored = self._position.as_dict()
        number = stored.pop(_COMMITS, _NO_NUMBER)
        return number, Position(stored)


def _locked(path: Path) -> int:
    """Lock a file until it is closed. An OSError says that another process has locked it."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The store that had locked the file may have deleted it, and then it locks nothing.
            if os.fstat(file).st_nlink:
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _segment_of(key: bytes) -> int:
    if len(key) < _ID.size:
        raise InvalidArgumentError(
            f"The key {key!r} is too short; begin it with the {_ID.size} bytes of a segment."
        )
    (segment,) = _ID.unpack_from(key)
    return int(segment)


def _by_segment(entries: Iterable[tuple[bytes, T]]) -> dict[int, list[T]]:
    """Entries by the segment of their keys, otherwise in their order."""
    found: dict[int, list[T]] = {}
    for key, entry in entries:
        found.setdefault(_segment_of(key), []).append(entry)
    return found


def _may_hold(segment: int, from_key: bytes | None, to_key: bytes | None) -> bool:
    """Whether a segment may hold rows between two bounds."""
    prefix = _ID.pack(segment)
    below = from_key is not None and prefix < from_key[: _ID.size]
    above = to_key is not None and prefix > to_key
    return not (below or above)


def _milliseconds_of_minute(text: str) -> int:
    return int(datetime.strptime(text, "%Y%m%d%H%M").replace(tzinfo=UTC).timestamp() * 1000)
