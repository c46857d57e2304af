"""Stores with a wrong cache, wrong metrics or a wrong restoration; see the table in the package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from streamproof.stores.api import ChangelogRecord, KeyValueStore, TopicPartition
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.runtime.cache import CachingKeyValueStore
from streamproof.stores.runtime.changelogging import change_logging
from streamproof.stores.runtime.metered import metered
from streamproof.stores.runtime.record_cache import RecordCache

NAME = "store"
CACHE_BYTES = 4 * 1024


class _Behind(CachingKeyValueStore):
    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        self._inner.commit(changelog_offsets)


def cache_not_flushed_before_the_commit() -> KeyValueStore:
    """Commits the offsets of writes that are still in the cache."""
    return _Behind(change_logging(RocksDBStore(NAME)), RecordCache(CACHE_BYTES))


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
