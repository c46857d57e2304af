"""The commits of a store with one database for each segment, in a database of their own.

The journal has the writes to segments since these were last flushed, in order, and the offsets and
the position of the last commit. It is the only database with a write-ahead log. One write to it is
a commit: it takes the writes to all segments, the offsets and the position in one step. Only then
do the writes go to the segments, which flush whenever RocksDB decides.

After a crash all writes of the journal are repeated. Each segment lacks only the last writes to it,
or none, so that repeating all of them in order leaves each key at its last write.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from rocksdict import WriteBatch

from streamproof.stores.api import Position, TopicPartition
from streamproof.stores.offsets import (
    POSITION_KEY,
    decode_position,
    encode_long,
    encode_partition,
    encode_position,
)
from streamproof.stores.rocksdb_database import Database, offsets_in
from streamproof.stores.rocksdb_scans import scan_range

__all__ = ["JournalWrite", "SegmentJournal", "WriteList"]

_SEQUENCE: Final = struct.Struct(">Q")
_HEAD: Final = struct.Struct(">cI")
_PUT, _DELETE, _DELETE_RANGE = b"p", b"d", b"r"

_FIRST_AND_LAST: Final = (b"", b"\xff" * (_SEQUENCE.size + 1))


class JournalWrite(NamedTuple):
    """One write.

    Attributes:
        key: the key, or the first key of a range.
        value: the value; ``None`` deletes the key.
        end: the key behind a deleted range; ``None`` for a single key.
    """

    key: bytes
    value: bytes | None = None
    end: bytes | None = None


class WriteList:
    """A target of staged writes that keeps them in their order."""

    def __init__(self) -> None:
        self.writes: list[JournalWrite] = []

    def put(self, key: bytes, value: bytes, /) -> None:
        """Set a value."""
        self.writes.append(JournalWrite(key, value))

    def delete(self, key: bytes, /) -> None:
        """Delete a key."""
        self.writes.append(JournalWrite(key))

    def delete_range(self, begin: bytes, end: bytes, /) -> None:
        """Delete every key from ``begin`` up to, not including, ``end``."""
        self.writes.append(JournalWrite(begin, end=end))


class SegmentJournal:
    """The journal of one store, open.

    Args:
        directory: the directory of its database.
        write_buffer_bytes: the size of the write buffers; ``None`` for Kafka's defaults.

    Attributes:
        is_new: whether no commit was ever written.
        offsets: the offsets of the last commit.
        position: the position of the last commit.
        num_bytes: about how many bytes the writes in the journal have.

    Raises:
        ProcessorStateError: the database cannot be read, written or locked.
    """

    def __init__(self, directory: Path, write_buffer_bytes: int | None) -> None:
        self._database = Database(
            directory, with_offsets=True, write_buffer_bytes=write_buffer_bytes, logged=True
        )
        stored = self._database.offsets_row(POSITION_KEY)
        family = self._database.offsets
        self.is_new = stored is None
        self.position = Position() if stored is None else decode_position(stored)
        self.offsets = {} if family is None else offsets_in(family)
        self.num_bytes = 0
        self._next = 0
        # After a write that failed, the log may have it although the database does not show it.
        self._is_doubtful = False
        for key, value in scan_range(self._database.data, None, None, reverse=False):
            (number,) = _SEQUENCE.unpack(key)
            self._next = number + 1
            self.num_bytes += len(value)

    def writes(self) -> Iterator[JournalWrite]:
        """The writes since the last call of ``forget``, in order."""
        for _, row in scan_range(self._database.data, None, None, reverse=False):
            yield _decoded(row)

    def append(self, writes: Iterable[JournalWrite]) -> None:
        """Add writes that belong to no commit yet. They survive the death of the process.

        Raises:
            ProcessorStateError: the database cannot be written.
        """
        self._write(self._batch(writes))

    def commit(
        self,
        writes: Iterable[JournalWrite],
        offsets: Mapping[TopicPartition, int],
        position: Position,
    ) -> None:
        """Write a commit in one step: its writes, all offsets, and the position; durable on return.

        Raises:
            ProcessorStateError: the database cannot be written.
        """
        batch = self._batch(writes)
        for partition in self.offsets.keys() - offsets.keys():
            self._database.put_offsets_row(batch, encode_partition(partition), None)
        for partition, offset in offsets.items():
            value = encode_long(offset)
            self._database.put_offsets_row(batch, encode_partition(partition), value)
        self._database.put_offsets_row(batch, POSITION_KEY, encode_position(position))
        self._write(batch, sync=True)
        self.is_new = False
        self.offsets, self.position = dict(offsets), position.copy()

    def forget(self) -> None:
        """Delete all writes, because the segments have them on disk. The offsets stay.

        After a write that failed, all writes stay, for the next opening.

        Raises:
            ProcessorStateError: the database cannot be written.
        """
        if self.num_bytes and not self._is_doubtful:
            batch = self._database.new_batch()
            self._database.records(batch).delete_range(*_FIRST_AND_LAST)
            self._database.write(batch)
            self._database.flush()
            self.num_bytes = 0

    def close(self) -> None:
        """Release the files and their lock."""
        self._database.close()

    def _write(self, batch: WriteBatch, *, sync: bool = False) -> None:
        try:
            self._database.write(batch, sync=sync)
        except BaseException:
            self._is_doubtful = True
            raise

    def _batch(self, writes: Iterable[JournalWrite]) -> WriteBatch:
        batch = self._database.new_batch()
        for write in writes:
            row = _encoded(write)
            batch.put(_SEQUENCE.pack(self._next), row)
            self._next += 1
            self.num_bytes += len(row)
        return batch


def _encoded(write: JournalWrite) -> bytes:
    if write.end is not None:
        kind, rest = _DELETE_RANGE, write.end
    elif write.value is None:
        kind, rest = _DELETE, b""
    else:
        kind, rest = _PUT, write.value
    return _HEAD.pack(kind, len(write.key)) + write.key + rest


def _decoded(row: bytes) -> JournalWrite:
    kind, length = _HEAD.unpack_from(row)
    key, rest = row[_HEAD.size : _HEAD.size + length], row[_HEAD.size + length :]
    if kind == _DELETE_RANGE:
        return JournalWrite(key, end=rest)
    return JournalWrite(key, rest if kind == _PUT else None)
