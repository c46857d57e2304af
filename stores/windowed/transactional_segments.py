"""Segments in databases of their own, with transactions over all of them.

The layout is that of :mod:`streamproof.stores.windowed.segment_databases`, and one more database:

.. code-block:: text

    <name>/<name>.journal         the writes since the last flush, the offsets and the position

Segments flush one by one, so no flush of theirs can be a commit. Here a commit is one write to the
journal, and the segments follow. Its offsets and position count, and those in the segments do not.

The state after a kill, by the interrupted step:

*A commit is written to the journal.* The journal has the whole commit, or nothing of it.

*The writes go to the segments.* The next opening repeats the writes of the journal.

*The segments are flushed, and the journal forgets its writes.* All segments have the writes on
disk before the first one is forgotten. Writes that could not go to the segments, as on a full disk,
are repeated before that; nothing is forgotten if the journal itself could not be written.

*The files of a store without transactions are taken over.* The segments agree on a commit first, as
without transactions. That commit then becomes the first one of the journal, and until then the
journal does not count.

Source: KIP-892, TransactionalSegment.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from streamproof.stores.api import ChangelogRecord, StateStoreContext, TopicPartition, require_key
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.errors import InvalidStateStoreError
from streamproof.stores.iterators import Row, RowIterator, StoreIterator
from streamproof.stores.offset_import import OffsetImport
from streamproof.stores.synced_directories import sync_directory
from streamproof.stores.transactional import RocksDBTransaction, TransactionalRows
from streamproof.stores.windowed.segment_databases import JOURNAL, OneSegment, SegmentDatabases
from streamproof.stores.windowed.segment_journal import JournalWrite, SegmentJournal, WriteList

__all__ = ["TransactionalSegmentDatabases"]

_JOURNAL_BYTES = 16 * 1024 * 1024
"""The journal is emptied beyond this size, unless the context says how much may be buffered."""


class TransactionalSegmentDatabases(SegmentDatabases, TransactionalRows):
    """Rows in one database for each segment, with transactions over all segments.

    Writes on the store itself go to the segments at once, through the journal, as a restoration
    needs it.

    Args:
        name: the name of the store.
        segment_interval_ms: the length of a segment in milliseconds.

    Source: KIP-892, TransactionalSegment.
    """

    # Staged writes reach the segments only after their commit, so that a crash leaves a commit.
    _marks_status = False

    def __init__(self, name: str, *, segment_interval_ms: int) -> None:
        super().__init__(name, segment_interval_ms=segment_interval_ms)
        self._open_journal: SegmentJournal | None = None
        # Whether the journal has writes that a failure has kept from the segments.
        self._lags = False

    @property
    def capabilities(self) -> Capabilities:
        """Callers must open transactions here; TransactionalKeyValueStore opens them itself."""
        return replace(super().capabilities, explicit_transactions=True, durability="power")

    @property
    def context(self) -> StateStoreContext:
        """The context that ``init`` was called with."""
        return self._opened()

    @property
    def _journal(self) -> SegmentJournal:
        if self._open_journal is None:
            raise InvalidStateStoreError(
                f"Store {self._name!r} is not open; call init() before using it."
            )
        return self._open_journal

    def _journal_path(self, context: StateStoreContext) -> Path:
        return self.directory(context) / f"{self._name}{JOURNAL}"

    # --- life cycle -------------------------------------------------------------------

    def _require_layout(self, directory: Path) -> None:
        """Accept both layouts."""

    def _open_managed(self, found: list[int]) -> None:
        context = self._opened()
        path = self._journal_path(context)
        self._open_journal = SegmentJournal(path, context.write_buffer_bytes)
        self._lags = False
        super()._open_managed(found)

    def _create_segment(self, segment: int) -> OneSegment:
        if self._journal.is_new:
            return super()._create_segment(segment)
        store = self._open_segment(segment)
        self._segments = {**self._segments, segment: store}
        return store

    def _take_over(self, left: OffsetImport) -> None:
        journal = self._journal
        if journal.is_new:
            super()._take_over(left)
        elif left:
            if not journal.offsets:
                left.position.merge(journal.position)
                journal.commit((), left.known_offsets, left.position)
            left.finish()

    def _agree(self) -> None:
        journal = self._journal
        if journal.is_new:
            super()._agree()
            journal.commit((), self._offsets, self._committed_position)
            return
        self._offsets = dict(journal.offsets)
        self._committed_position = journal.position.copy()
        self._position = journal.position.copy()
        self._apply(journal.writes())

    def close(self) -> None:
        """Discard the staged writes of open transactions, then close every segment."""
        if self._context is None:
            return
        self.close_transactions()
        try:
            self.flush()
        finally:
            super().close()

    def _leave_for_older_version(self, context: StateStoreContext) -> None:
        super()._leave_for_older_version(context)
        self._close_journal()
        with self._failing(self.directory(context)):
            shutil.rmtree(self._journal_path(context))
            sync_directory(self.directory(context))

    def _release(self) -> None:
        try:
            super()._release()
        finally:
            self._close_journal()

    def _close_journal(self) -> None:
        journal, self._open_journal = self._open_journal, None
        if journal is not None:
            journal.close()

    def flush(self) -> None:
        """Write every segment to disk, and empty the journal. Staged writes stay staged."""
        with self._dropping:
            self._catch_up()
        super().flush()
        self._journal.forget()

    # --- commit -----------------------------------------------------------------------

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit every open transaction, oldest first, and the offsets, in one write."""
        self.commit_all(changelog_offsets)

    def commit_transactions(
        self,
        transactions: Sequence[RocksDBTransaction],
        changelog_offsets: Mapping[TopicPartition, int | None],
    ) -> None:
        """Write all staged records, the offsets and the position to the journal in one step."""
        self._opened()
        staged = WriteList()
        position = self.position
        for transaction in transactions:
            transaction.writes.apply_to(staged)
            position.merge(transaction.staged_position)
        offsets = self._offsets_after(changelog_offsets)
        # Readers take this lock too, so that no scan shows a part of the commit.
        with self._dropping:
            self._catch_up()
            self._delete_doomed()
            self._journal.commit(staged.writes, offsets, position)
            self._lags = True
            self._offsets = offsets
            self._position, self._committed_position = position, position.copy()
            self._apply(staged.writes)
            self._lags = False
        self._empty_if_large()

    def restore(self, batch: Sequence[ChangelogRecord]) -> None:
        """Apply changelog records, in order."""
        self._write([JournalWrite(record.key, record.value) for record in batch])

    # --- reads and writes -------------------------------------------------------------

    def get_only(self, key: bytes) -> bytes | None:
        """The same as ``get``: no row is ever migrated."""
        return self.get(key)

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of ``key``; ``None`` deletes it."""
        require_key(key)
        self._write([JournalWrite(key, value)])
        self._record_position()

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Put all entries; if one key is ``None``, none is written."""
        checked = list(entries)
        for key, _ in checked:
            require_key(key)
        self._write([JournalWrite(key, value) for key, value in checked])
        self._record_position()

    def delete_range(self, from_key: bytes, to_key_exclusive: bytes) -> None:
        """Drop every segment whose prefix lies in the range: whole segments, nothing less."""
        self._write([JournalWrite(from_key, end=to_key_exclusive)])
        self._record_position()

    def open_iterator(
        self, rows: Iterator[Row], on_close: Callable[[], None] | None = None
    ) -> RowIterator:
        """An iterator over ``rows`` that is closed with this store at the latest."""
        return StoreIterator(self._name, rows, self._iterators, on_close)

    def _write(self, writes: list[JournalWrite]) -> None:
        self._opened()
        with self._dropping:
            self._catch_up()
            self._journal.append(writes)
            self._lags = True
            self._apply(writes)
            self._lags = False
        self._empty_if_large()

    def _catch_up(self) -> None:
        """Repeat the writes of the journal if a full disk has kept some from the segments."""
        if self._lags:
            self._apply(self._journal.writes())
            self._lags = False

    def _apply(self, writes: Iterable[JournalWrite]) -> None:
        """Make the writes in the segments, in order."""
        entries: list[tuple[bytes, bytes | None]] = []
        for write in writes:
            if write.end is None:
                entries.append((write.key, write.value))
                continue
            super().put_all(entries)
            entries = []
            self._drop(self._between(write.key, write.end))
        super().put_all(entries)

    def _empty_if_large(self) -> None:
        limit = self._opened().write_buffer_bytes or _JOURNAL_BYTES
        if self._journal.num_bytes > limit:
            self.flush()
