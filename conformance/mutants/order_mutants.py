"""Stores that are right in one order of calls alone; see the table in the package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from streamproof.conformance.mutants.window_mutants import (
    RETENTION_MS,
    WINDOW_SIZE_MS,
    _rows,
    _Wrong,
)
from streamproof.stores.api import ChangelogRecord, StateStore, StateStoreContext, TopicPartition
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.transactional import TransactionalKeyValueStore, TransactionalRocksDBStore
from streamproof.stores.transactions import Transaction
from streamproof.stores.windowed import rocksdb_windows
from streamproof.stores.windowed.memory_sessions import InMemorySessionStore
from streamproof.stores.windowed.rocksdb_sessions import RocksDBSessionStore
from streamproof.stores.windowed.rocksdb_windows import RocksDBWindowStore
from streamproof.stores.windowed.segmented_reads import Timeline
from streamproof.stores.windowed.segments import SegmentedTransaction
from streamproof.stores.windows import Windowed

NAME = "store"


class _RollsBack(TransactionalKeyValueStore):
    def roll_back(self) -> None:
        """Discard what is staged, and begin another transaction."""
        self._target.close()
        self._begin()


class refused_keys_end_the_batch(_Wrong):
    """Rolls back what is staged if a key cannot be encoded."""

    make = staticmethod(rocksdb_windows.transactional_store)

    def __init__(self) -> None:
        inner = _RollsBack(TransactionalRocksDBStore(NAME))
        right = RocksDBWindowStore(
            NAME, retention_ms=RETENTION_MS, window_size_ms=WINDOW_SIZE_MS, inner=inner
        )
        super().__init__(right)

    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        if key is None:
            self.right.inner.roll_back()
        self.right.put(key, value, window_start)


class refused_windows_are_dropped_records(_Wrong):
    """Counts a window before time 0 as one that came too late."""

    refused = 0

    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        if window_start < 0:
            self.refused += 1
        self.right.put(key, value, window_start)

    @property
    def dropped_records(self) -> int:
        dropped: int = self.right.dropped_records
        return dropped + self.refused


class _RollsBackRefusedPuts(RocksDBSessionStore):
    def put(self, session: Windowed, aggregate: bytes | None) -> None:
        try:
            super().put(session, aggregate)
        except Exception:
            inner: Any = self.inner
            inner.roll_back()
            raise


def refused_sessions_roll_back() -> RocksDBSessionStore:
    """Sessions whose transaction is rolled back as soon as a put raises."""
    inner = _RollsBack(TransactionalRocksDBStore(NAME))
    return _RollsBackRefusedPuts(NAME, retention_ms=RETENTION_MS, inner=inner)


class tombstones_move_no_time(_Wrong):
    """Moves the stream time when a window is stored, and not when one is deleted."""

    newest = -1

    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        if value is not None or window_start <= self.newest:
            self.right.put(key, value, window_start)
            self.newest = max(self.newest, window_start)


class time_is_restored_once(InMemorySessionStore):
    """Sets the stream time to the newest record of the first batch, and leaves it there."""

    def __init__(self) -> None:
        super().__init__(NAME, retention_ms=RETENTION_MS)
        self._restored_time: int | None = None

    def _restore(self, batch: Sequence[ChangelogRecord]) -> None:
        super()._restore(batch)
        if self._restored_time is None:
            self._restored_time = self._stream_time
        self._stream_time = self._restored_time


class _TimeOfTheLastPut(RocksDBWindowStore):
    """Moves its own stream time with each staged put, and notes what it was before."""

    before = -1

    def _make_transaction(self, inner: Transaction, timeline: Timeline) -> SegmentedTransaction:
        return self._like_this(_PutsMoveTheStore(self, inner, self._timeline))


class _PutsMoveTheStore(rocksdb_windows.RocksDBWindowTransaction):
    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        owner: Any = self._owner
        owner.before = self._timeline.own
        super().put(key, value, window_start)

    def close(self) -> None:
        if self.is_open:
            owner: Any = self._owner
            self._timeline.own = owner.before
        super().close()


def rollback_undoes_one_step_of_time() -> RocksDBWindowStore:
    """Windows whose rollback sets the stream time to that before the last put."""
    return _TimeOfTheLastPut(
        NAME, retention_ms=RETENTION_MS, window_size_ms=WINDOW_SIZE_MS, inner=_rows()
    )


class staged_deletes_win(_Wrong):
    """Keeps staged deletes in a set of their own, from which no later put takes a window."""

    make = staticmethod(rocksdb_windows.transactional_store)

    def __init__(self, right: Any = None) -> None:
        super().__init__(right)
        self.deleted: set[tuple[bytes, int]] = set()

    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        if value is None:
            self.deleted.add((key, window_start))
        gone = (key, window_start) in self.deleted
        self.right.put(key, None if gone else value, window_start)

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        self.right.commit(changelog_offsets)
        self.deleted.clear()


class iterators_count_windows(_Wrong):
    """Lets an iterator remember how many windows it has yielded, and reads from there on."""

    def all(self) -> Any:
        return self.changed(self.right.all(), lambda _: self.counted("all"))

    def counted(self, method: str, *arguments: Any) -> Any:
        at = 0
        while True:
            with getattr(self.right, method)(*arguments) as entries:
                rows = list(entries)
            if at >= len(rows):
                return
            yield rows[at]
            at += 1


# Offsets of partitions.


class offsets_in_a_list(RocksDBStore):
    """Keeps a list of offsets by the number of the partition, with 0 in its gaps."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        filled = dict(changelog_offsets)
        for topic, partition in changelog_offsets:
            for lower in (TopicPartition(topic, number) for number in range(min(partition, 8))):
                if lower not in filled and self.committed_offset(lower) is None:
                    filled[lower] = 0
        super().commit(filled)


class none_ends_a_commit(RocksDBStore):
    """Forgets a partition and returns, past those that come later in the map."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        kept: dict[TopicPartition, int | None] = {}
        for partition, offset in changelog_offsets.items():
            kept[partition] = offset
            if offset is None:
                break
        super().commit(kept)


class import_ends_at_another_store(RocksDBStore):
    """Reads the .checkpoint of the task up to the first line of another store."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        checkpoint = context.state_dir / ".checkpoint"
        topic = context.changelog_topic(NAME)
        if checkpoint.is_file():
            version, _, *lines = checkpoint.read_text().splitlines()
            others = [n for n, line in enumerate(lines) if not line.startswith(f"{topic} ")]
            # What comes later is left for the other stores, so that no file gets shorter.
            own = lines[: others[0]] if others else lines
            rest = [line for n, line in enumerate(lines) if n in others]
            shown = [version, str(len(own) + len(rest)), *own, *rest, ""]
            checkpoint.write_text("\n".join(shown))
        super().init(context, root)
