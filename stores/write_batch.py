"""Staged writes that can be looked up and scanned before they are applied.

RocksDB's WriteBatchWithIndex does this in C++, which no Python binding offers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from enum import Enum
from threading import Lock
from typing import Final, Protocol

from sortedcontainers import SortedList

from streamproof.stores.iterators import Row

__all__ = ["NOT_STAGED", "IndexedWriteBatch", "NotStaged", "WriteTarget", "merge_over"]


class NotStaged(Enum):
    """The type of ``NOT_STAGED``."""

    NOT_STAGED = "not staged"


NOT_STAGED: Final = NotStaged.NOT_STAGED
"""The answer of ``IndexedWriteBatch.lookup`` for a key that the batch does not touch."""

_StagedRow = tuple[bytes, bytes | None]


class WriteTarget(Protocol):
    """The target of staged writes, for example a rocksdict WriteBatch."""

    def put(self, key: bytes, value: bytes, /) -> object:
        """Set a value."""
        ...

    def delete(self, key: bytes, /) -> object:
        """Delete a key."""
        ...

    def delete_range(self, begin: bytes, end: bytes, /) -> object:
        """Delete every key from ``begin`` up to, not including, ``end``."""
        ...


class IndexedWriteBatch:
    """Writes that wait for their commit: an overlay over a base, in the order of keys.

    One thread writes. Other threads may read at the same time: a lookup sees single writes, and a
    scan sees the batch at the start of the scan.

    Source: KIP-892, "RocksDB Transactions"; Kafka, RocksDBTransactionBuffer.
    """

    def __init__(self) -> None:
        self._rows: dict[bytes, bytes | None] = {}
        # A put appends its new key here. The next scan moves the key into the index, so that a
        # transaction without scans does not pay for the order.
        self._unindexed: list[bytes] = []
        self._index: SortedList[bytes] = SortedList()
        self._index_lock = Lock()
        self._tombstones = _RangeTombstones()
        self._num_bytes = 0

    def put(self, key: bytes, value: bytes) -> None:
        """Stage a value."""
        rows = self._rows
        if key not in rows:
            self._unindexed.append(key)
        rows[key] = value
        self._num_bytes += len(key) + len(value)

    def delete(self, key: bytes) -> None:
        """Stage the deletion of one key (a tombstone)."""
        rows = self._rows
        if key not in rows:
            self._unindexed.append(key)
        rows[key] = None
        self._num_bytes += len(key)

    def delete_range(self, from_key: bytes, to_key_exclusive: bytes) -> None:
        """Stage the deletion of every key from ``from_key`` up to, not including, the other.

        Rows that are staged in the range already are dropped. A range without keys is ignored.
        """
        if from_key >= to_key_exclusive:
            return
        with self._index_lock:
            self._tombstones = self._tombstones.adding(from_key, to_key_exclusive)
            self._index_new_keys()
            superseded = list(self._index.irange(from_key, to_key_exclusive, (True, False)))
            for key in superseded:
                del self._rows[key]
                self._index.remove(key)
        self._num_bytes += len(from_key) + len(to_key_exclusive)

    def lookup(self, key: bytes) -> bytes | NotStaged | None:
        """The staged value, ``None`` for a staged deletion, or ``NOT_STAGED``."""
        staged = self._rows.get(key, NOT_STAGED)
        if staged is NOT_STAGED and self._tombstones.cover(key):
            return None
        return staged

    def merge(
        self,
        base: Iterator[Row],
        from_key: bytes | None,
        to_key: bytes | None,
        *,
        to_inclusive: bool = True,
        reverse: bool = False,
    ) -> Iterator[Row]:
        """The rows of ``base`` as they will be once this batch is applied.

        Args:
            base: rows within the bounds, in the direction of the scan.
            from_key: the smallest key, inclusive; ``None`` leaves the side open.
            to_key: the largest key; ``None`` leaves the side open.
            to_inclusive: whether ``to_key`` itself belongs to the range.
            reverse: scan from the largest key down.

        The batch is copied now: later writes do not show in the result.
        """
        return self.snapshot(from_key, to_key, to_inclusive=to_inclusive, reverse=reverse)(base)

    def snapshot(
        self,
        from_key: bytes | None,
        to_key: bytes | None,
        *,
        to_inclusive: bool = True,
        reverse: bool = False,
    ) -> StagedRange:
        """The rows that are staged in a range now. Open the base that they cover after this call.

        The order matters while another thread commits. Rows that leave the batch after the snapshot
        are in the snapshot and in the base, and agree. If the base were opened first, a row could
        leave the batch before the snapshot, and be in neither.
        """
        with self._index_lock:
            self._index_new_keys()
            keys = self._index.irange(from_key, to_key, (True, to_inclusive), reverse)
            # Another thread may be staging a key that is in the index, and has no row yet.
            rows = [(key, self._rows[key]) for key in keys if key in self._rows]
            return StagedRange(rows, self._tombstones, reverse)

    def apply_to(self, target: WriteTarget) -> None:
        """Replay this batch on ``target``: the range tombstones, then the rows.

        This order is right for every order of staging: ``delete_range`` drops the rows that it
        covers, so that each remaining row was staged after every range tombstone that covers it.
        Rows may come in any order, because each key has one row.
        """
        for begin, end in self._tombstones.ranges:
            target.delete_range(begin, end)
        put, delete = target.put, target.delete
        for key, value in self._rows.items():
            if value is None:
                delete(key)
            else:
                put(key, value)

    def clear(self) -> None:
        """Forget all staged writes."""
        with self._index_lock:
            self._rows = {}
            self._unindexed.clear()
            self._index = SortedList()
            self._tombstones = _RangeTombstones()
            self._num_bytes = 0

    def __len__(self) -> int:
        """The number of staged rows and range tombstones. An overwritten row counts once."""
        return len(self._rows) + len(self._tombstones.ranges)

    @property
    def num_bytes(self) -> int:
        """The bytes of all keys and values staged since the start, overwritten ones included.

        Source: Kafka, AbstractTransactionBufferTest#byteCountAccumulatesAcrossMultipleStages.
        """
        return self._num_bytes

    def _index_new_keys(self) -> None:
        # Keys are popped one by one: swapping the list could lose a key that another thread
        # appends meanwhile.
        fresh = []
        while self._unindexed:
            fresh.append(self._unindexed.pop())
        self._index.update(fresh)


class StagedRange:
    """The staged rows of one range, frozen, ready to be laid over base rows."""

    __slots__ = ("_reverse", "_rows", "_tombstones")

    def __init__(self, rows: list[_StagedRow], tombstones: _RangeTombstones, reverse: bool) -> None:
        self._rows = rows
        self._tombstones = tombstones
        self._reverse = reverse

    def __call__(self, base: Iterator[Row]) -> Iterator[Row]:
        """Merge over ``base``: a staged row wins, and tombstones hide."""
        if self._tombstones.ranges:
            cover = self._tombstones.cover
            base = (row for row in base if not cover(row[0]))
        return merge_over(base, self._rows, reverse=self._reverse) if self._rows else base


def merge_over(base: Iterator[Row], rows: Iterable[_StagedRow], *, reverse: bool) -> Iterator[Row]:
    """The rows of both in order; where keys are equal ``rows`` win, and ``None`` hides.

    Args:
        base: rows in the direction of the scan.
        rows: the rows laid over them, in the same direction.
        reverse: whether the scan goes from the largest key down.
    """
    base_row = next(base, None)
    for key, value in rows:
        while base_row is not None and base_row[0] != key:
            if (base_row[0] > key) is not reverse:
                break
            yield base_row
            base_row = next(base, None)
        if base_row is not None and base_row[0] == key:
            base_row = next(base, None)
        if value is not None:
            yield key, value
    if base_row is not None:
        yield base_row
        yield from base


class _RangeTombstones:
    """Deleted ranges ``[begin, end)``: disjoint, ascending, never changed in place."""

    __slots__ = ("_begins", "ranges")

    def __init__(self, ranges: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        self.ranges = ranges
        self._begins = [begin for begin, _ in ranges]

    def cover(self, key: bytes) -> bool:
        """Whether one of the ranges contains ``key``."""
        index = bisect_right(self._begins, key) - 1
        return index >= 0 and key < self.ranges[index][1]

    def adding(self, begin: bytes, end: bytes) -> _RangeTombstones:
        """These ranges and one more, joined where they touch."""
        apart = []
        for other in self.ranges:
            if other[1] < begin or end < other[0]:
                apart.append(other)
            else:
                begin, end = min(begin, other[0]), max(end, other[1])
        return _RangeTombstones(tuple(sorted([*apart, (begin, end)])))
