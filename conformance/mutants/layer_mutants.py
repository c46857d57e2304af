"""Stores with a wrong cache, wrong metrics or a wrong restoration; see the table in the package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from streamproof.stores.api import ChangelogRecord, KeyValueStore, TopicPartition
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.runtime.cache import CachingKeyValueStore
from streamproof.stores.runtime.changelogging import (
    ChangeLoggingKeyValueStore,
    ChangeLoggingSessionStore,
    ChangeLoggingWindowStore,
    change_logging,
)
from streamproof.stores.runtime.metered import metered
from streamproof.stores.runtime.record_cache import RecordCache
from streamproof.stores.windowed import rocksdb_sessions, rocksdb_windows
from streamproof.stores.windows import Windowed

NAME = "store"
CACHE_BYTES = 4 * 1024


class _Behind(CachingKeyValueStore):
    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        self._inner.commit(changelog_offsets)


def cache_not_flushed_before_the_commit() -> KeyValueStore:
    """Commits the offsets of writes that are still in the cache."""
    return _Behind(change_logging(RocksDBStore(NAME)), RecordCache(CACHE_BYTES))


class _PutsAlone(ChangeLoggingKeyValueStore):
    def put_if_absent(self, key: bytes, value: bytes | None) -> bytes | None:
        existing: bytes | None = self._inner.put_if_absent(key, value)
        return existing


def put_if_absent_not_logged() -> KeyValueStore:
    """Hands put_if_absent to the store below, and forgets the changelog."""
    return _PutsAlone(RocksDBStore(NAME))


class _ValuesOfABatch(ChangeLoggingKeyValueStore):
    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        written = list(entries)
        self._inner.put_all(written)
        for key, value in written:
            if value is not None:
                self._log(key, value)


def deletions_of_a_batch_not_logged() -> KeyValueStore:
    """Logs the values of a batch, and not its deletions."""
    return _ValuesOfABatch(RocksDBStore(NAME))


class _SilentRemoval(ChangeLoggingSessionStore):
    def remove(self, session: Windowed) -> None:
        self._inner.remove(session)


def removed_sessions_not_logged() -> Any:
    """Logs the sessions that are put, and not those that are removed."""
    return _SilentRemoval(rocksdb_sessions.default_store())


class _SilentDeletion(ChangeLoggingWindowStore):
    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        if value is None:
            self._inner.put(key, value, window_start)
        else:
            super().put(key, value, window_start)


def deleted_windows_not_logged() -> Any:
    """Logs the windows that are put, and not those that are deleted."""
    return _SilentDeletion(rocksdb_windows.default_store())


def commit_counted_twice() -> Any:
    """Records two commits for one."""
    store: Any = metered(RocksDBStore(NAME), "rocksdb")
    right = store.commit

    def commit(changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        right(changelog_offsets)
        store._commits.record()  # noqa: SLF001

    store.commit = commit
    return store


def metrics_stay_behind() -> Any:
    """Leaves its metrics registered when it is closed."""
    store: Any = metered(RocksDBStore(NAME), "rocksdb")
    store.close = store._inner.close  # noqa: SLF001
    return store


class _LastLost(RocksDBStore):
    def restore(self, batch: Sequence[ChangelogRecord]) -> None:
        super().restore(batch[:-1] if len(batch) > 1 else batch)


def last_record_of_a_batch_lost() -> KeyValueStore:
    """Restores all records of a batch except the last."""
    return _LastLost(NAME)
