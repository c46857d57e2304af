"""Offsets in a file beside the store, for stores that do not manage offsets themselves."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from streamproof.stores.api import (
    KeyValueStore,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.checkpoint import OFFSET_UNKNOWN, OffsetCheckpoint
from streamproof.stores.errors import (
    InvalidStateStoreError,
    ProcessorStateError,
    TaskCorruptedError,
    UsageError,
)
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.wrapped import WrappedKeyValueStore

__all__ = ["LegacyCheckpointingStateStore", "default_store"]

_logger = logging.getLogger("streamproof.stores")


class LegacyCheckpointingStateStore(WrappedKeyValueStore):
    """Keeps the offsets of a persistent store in the file ``.checkpoint_<store>`` of the task.

    Records are always flushed before the file is written, so that the file never promises
    records that are not there. Under exactly-once the file is there only while the store
    is closed, so that a crash leaves no file, and a missing file means: wipe and restore.

    Args:
        inner: a persistent store that does not manage offsets.
        offset_delta_threshold: under at-least-once, a commit writes the file once the
            offsets have grown by more than this many records, all partitions together.

    Source: KIP-1035; Kafka 4.3, LegacyCheckpointingStateStore.
    """

    capabilities = Capabilities(durability="flush")

    def __init__(self, inner: KeyValueStore, *, offset_delta_threshold: int = 10_000) -> None:
        super().__init__(inner)
        if not inner.persistent or inner.manages_offsets:
            raise UsageError(
                f"Store {inner.name!r} needs no checkpoint file: it is "
                f"{'not persistent' if not inner.persistent else 'managing its offsets itself'}. "
                "Use it without LegacyCheckpointingStateStore."
            )
        self._threshold = offset_delta_threshold
        self._exactly_once = False
        self._changelog: TopicPartition | None = None
        self._checkpoint: OffsetCheckpoint | None = None
        self._offsets: dict[TopicPartition, int] = {}
        self._written: dict[TopicPartition, int] = {}

    @property
    def manages_offsets(self) -> bool:
        """True: to the runtime it looks as if the store did."""
        return True

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Read the file, open the inner store, and under exactly-once delete the file.

        Raises:
            ProcessorStateError: the file is malformed, or the inner store cannot be opened.
            TaskCorruptedError: exactly-once, and there are records but no file.
        """
        _logger.warning(
            "Store %r is persistent and does not manage its changelog offsets; they are kept in "
            "a file beside it, which is deprecated. Implement commit(), committed_offset() and "
            "manages_offsets (KIP-1035).",
            self.name,
        )
        checkpoint = OffsetCheckpoint(Path(context.state_dir) / f".checkpoint_{self.name}")
        written = checkpoint.read()
        if context.exactly_once and not checkpoint.path.exists():
            self._require_no_records(context)
        super().init(context, root)
        if context.exactly_once:
            checkpoint.delete()
        self._exactly_once = context.exactly_once
        self._changelog = _changelog_partition(context, self.name)
        self._checkpoint = checkpoint
        self._offsets = {partition: offset for partition, offset in written.items() if offset >= 0}
        self._written = dict(self._offsets)

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Remember the offsets; under at-least-once, flush and write the file when it is due.

        Forgetting an offset is written at once, as it needs no flush before it.
        """
        self._opened()
        offsets = dict(self._offsets) if changelog_offsets else {}
        for partition, offset in changelog_offsets.items():
            if offset is None:
                offsets.pop(partition, None)
            else:
                offsets[partition] = offset
        forgotten = self._written.keys() - offsets.keys()
        self._offsets = offsets
        if not self._exactly_once and (forgotten or self._delta() > self._threshold):
            self._inner.flush()
            self._write()

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """The offset of the last commit, or of the file, or ``None``."""
        self._opened()
        return self._offsets.get(partition)

    def close(self) -> None:
        """Close the inner store, which flushes it, then write the file."""
        if self._checkpoint is None:
            return
        self._inner.close()
        if not self._offsets and self._changelog is not None and self._exactly_once:
            # An empty file would not be there, and a missing one means a crash.
            self._offsets = {self._changelog: OFFSET_UNKNOWN}
        self._write()
        self._checkpoint = None

    def _write(self) -> None:
        """Write the file; a failure costs a longer restore and is no more than a warning."""
        try:
            self._opened().write(self._offsets)
            self._written = dict(self._offsets)
        except ProcessorStateError as error:
            _logger.warning("The offsets of store %r were not written: %s", self.name, error)

    def _delta(self) -> int:
        written = self._written
        return sum(offset - written.get(p, -1) for p, offset in self._offsets.items())

    def _require_no_records(self, context: StateStoreContext) -> None:
        state_dir = Path(context.state_dir)
        for directory in (state_dir / "rocksdb" / self.name, state_dir / self.name):
            if directory.is_dir() and any(directory.iterdir()):
                raise TaskCorruptedError(
                    f"Store {self.name!r} has files in {directory}, but no offsets in "
                    f"{state_dir}: it was not closed cleanly. Wipe the directory and restore "
                    "from the changelog."
                )

    def _opened(self) -> OffsetCheckpoint:
        if self._checkpoint is None:
            raise InvalidStateStoreError(
                f"Store {self.name!r} is not open; call init() before using it."
            )
        return self._checkpoint


def _changelog_partition(context: StateStoreContext, store_name: str) -> TopicPartition | None:
    _, _, partition = context.task_id.rpartition("_")
    if not partition.isdigit():
        return None
    return TopicPartition(context.changelog_topic(store_name), int(partition))


def default_store() -> KeyValueStore:
    """A new store named ``store`` that writes its offsets file at every commit."""
    inner = RocksDBStore("store", manages_offsets=False)
    return LegacyCheckpointingStateStore(inner, offset_delta_threshold=0)
