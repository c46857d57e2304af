"""Stores that break KIP-1035 in one method, partition or release; see the table in the package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar
from unittest.mock import patch

from rocksdict import Options

from streamproof.stores import rocksdb_database
from streamproof.stores.api import (
    UPGRADE_FROM_CONFIG,
    IsolationLevel,
    KeyValueStore,
    ReadOnlyKeyValueStore,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.memory import InMemoryKeyValueStore
from streamproof.stores.offset_import import POSITION_FILE
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.runtime.metered import COMMIT_METRICS, metered
from streamproof.stores.timestamped import RocksDBTimestampedStore
from streamproof.stores.timestamps import ValueAndTimestamp
from streamproof.stores.transactional import TransactionalKeyValueStore, TransactionalRocksDBStore
from streamproof.stores.windowed.rocksdb_sessions import RocksDBSessionStore, default_store
from streamproof.stores.windows import Windowed
from streamproof.stores.wrapped import WrappedKeyValueStore

NAME = "store"

Offsets = Mapping[TopicPartition, int | None]


# Offsets.


class unmanaged_offsets_of_others_are_told(InMemoryKeyValueStore):
    """Manages no offsets, and returns those of all partitions but the first one."""

    def __init__(self) -> None:
        super().__init__(NAME)
        self._offsets: dict[TopicPartition, int | None] = {}

    def commit(self, changelog_offsets: Offsets) -> None:
        super().commit(changelog_offsets)
        self._offsets.update(changelog_offsets)

    def committed_offset(self, partition: TopicPartition) -> int | None:
        return self._offsets.get(partition) if partition.partition else None


class reopened_store_knows_every_partition(RocksDBStore):
    """Returns 0 for unknown partitions once it was opened with some offset."""

    def __init__(self) -> None:
        super().__init__(NAME)
        self._found = False

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        self._found = bool(self.committed_offsets())

    def committed_offset(self, partition: TopicPartition) -> int | None:
        found = super().committed_offset(partition)
        return 0 if found is None and self._found else found


class offsets_of_older_rows_are_dropped(RocksDBStore):
    """Imports no offset beside rows that it did not write itself."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        before = rocksdb_database.column_families(self.directory(context))
        super().init(context, root)
        if "offsets" not in before:
            self.commit({})


class offsets_among_the_rows(WrappedKeyValueStore):
    """Keeps its offsets in rows of the column family of the data."""

    capabilities = Capabilities(durability="flush", forgets_offsets=False)

    def __init__(self) -> None:
        super().__init__(RocksDBStore(NAME, manages_offsets=False))

    @property
    def manages_offsets(self) -> bool:
        return True

    def commit(self, changelog_offsets: Offsets) -> None:
        for partition, offset in changelog_offsets.items():
            self._inner.put(repr(partition).encode(), str(offset).encode())

    def committed_offset(self, partition: TopicPartition) -> int | None:
        found = self._inner.get(repr(partition).encode())
        return None if found is None else int(found)


class column_families_are_flushed_apart(RocksDBStore):
    """Lets RocksDB flush the offsets without the data."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        right = rocksdb_database._options  # noqa: SLF001

        def apart(write_buffer_bytes: int) -> Options:
            options = right(write_buffer_bytes)
            options.set_atomic_flush(False)
            return options

        with patch.object(rocksdb_database, "_options", apart):
            super().init(context, root)


# Flushes.


class _FlushShows(TransactionalKeyValueStore):
    _flushed = False

    def flush(self) -> None:
        self._flushed = True
        super().flush()

    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlyKeyValueStore:
        level = IsolationLevel.READ_UNCOMMITTED if self._flushed else isolation_level
        return super().read_only(level)


def flush_shows_staged_rows() -> KeyValueStore:
    """Shows staged rows to queries for committed rows, after a flush."""
    return _FlushShows(TransactionalRocksDBStore(NAME))


# Positions.


class timed_batches_move_no_position(RocksDBTimestampedStore):
    """Does not move the position in put_all_with_timestamp."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def put_all_with_timestamp(
        self, entries: Iterable[tuple[bytes, ValueAndTimestamp | None]]
    ) -> None:
        with _without_record(self._inner):
            super().put_all_with_timestamp(entries)


class removed_sessions_move_no_position(RocksDBSessionStore):
    """Does not move the position in remove."""

    def __init__(self) -> None:
        right = default_store()
        super().__init__(NAME, retention_ms=right.capabilities.retention_ms)

    def remove(self, session: Windowed) -> None:
        with _without_record(self._inner):
            super().remove(session)


def _without_record(store: Any) -> Any:
    """A block in which a store on RocksDB sees no input record."""
    while not hasattr(store, "_context"):
        store = store._inner  # noqa: SLF001
    return patch.object(store._context, "record_metadata", None)  # noqa: SLF001


class position_is_left_for_one_release(RocksDBStore):
    """Leaves its position in a file for the release before only."""

    releases: ClassVar[tuple[str, ...]] = ("4.2",)

    def __init__(self) -> None:
        super().__init__(NAME)

    def close(self) -> None:
        context = self._context
        super().close()
        release = context.app_configs.get(UPGRADE_FROM_CONFIG) if context else None
        if context is not None and release not in self.releases:
            for path in context.state_dir.rglob(f"*{POSITION_FILE}"):
                path.unlink()


# Metrics.


def metrics_without_the_thread() -> Any:
    """Registers metrics whose thread-id is empty."""
    store: Any = metered(RocksDBStore(NAME), "rocksdb")
    right = store._register  # noqa: SLF001

    def register(metrics: Any, task_id: str) -> None:
        sensor = metrics.sensor
        unnamed = {"thread-id": ""}
        with patch.object(metrics, "sensor", lambda *of: sensor(*of[:2], {**of[2], **unnamed})):
            right(metrics, task_id)

    store._register = register  # noqa: SLF001
    return store


def metrics_of_a_window_store() -> Any:
    """Registers metrics with the tag of a window store, but keeps keys and values."""
    return metered(RocksDBStore(NAME), "rocksdb-window")


def rate_is_a_number() -> Any:
    """Registers the number of commits in the shortest time as their rate, however long it was."""
    store: Any = metered(RocksDBStore(NAME), "rocksdb")
    register, commit, count = store._register, store.commit, [0]  # noqa: SLF001

    def registered(metrics: Any, task_id: str) -> None:
        register(metrics, task_id)
        tags = {"thread-id": "thread", "task-id": task_id, "rocksdb-state-id": NAME}
        scope = store._scope  # noqa: SLF001
        metrics.gauge(scope, COMMIT_METRICS[0], tags, lambda: count[0] / 30)

    def counted(changelog_offsets: Offsets) -> None:
        commit(changelog_offsets)
        count[0] += 1

    store._register, store.commit = registered, counted  # noqa: SLF001
    return store


def write_buffers_are_flushes() -> Any:
    """Records a flush whenever some writes have filled a buffer."""
    store: Any = metered(RocksDBStore(NAME), "rocksdb")
    right, written = store.put, [0]

    def put(key: bytes, value: bytes | None) -> None:
        right(key, value)
        written[0] += 1
        if written[0] % 40 == 0:
            store._flushes.record(1.0)  # noqa: SLF001

    store.put = put
    return store
