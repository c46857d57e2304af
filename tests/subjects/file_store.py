"""A key-value store in the simplest words: a dictionary, kept in a file on commit.

It keeps every promise about timestamps, positions, upgrades, restorations and metrics. The older
format, without timestamps, is in the directory ``store``, and the new one in ``store-v2``.

``FileStore`` takes the older format over when it opens, and prepares nothing. ``InPlaceFileStore``
prepares an upgrade as KIP-258 proposes. ``FileStoreOfOldPositions`` finds the position in a file of
its own, as stores before KIP-1035 left it.
"""

from __future__ import annotations

import logging
import os
import pickle
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from streamproof.stores.api import (
    NO_TIMESTAMP,
    UPGRADE_FROM_CONFIG,
    UPGRADE_MODE_CONFIG,
    ChangelogRecord,
    Position,
    StateStore,
    StateStoreContext,
    TopicPartition,
    require_key,
)
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.errors import InvalidStateStoreError, ProcessorStateError
from streamproof.stores.metrics import Metrics, Scope, Sensor
from streamproof.stores.runtime.metered import COMMIT_METRICS, FLUSH_METRICS, UNCOMMITTED_BYTES
from streamproof.stores.timestamps import KeyValueWithTimestampStore, ValueAndTimestamp

OLDER = Capabilities(transactional=True, position=True)

CAPABILITIES = replace(
    OLDER,
    explicit_transactions=True,
    timestamped=True,
    metrics=True,
    upgrades_from=f"{__file__}:OlderFileStore",
    downgrade=True,
)

IN_PLACE = replace(CAPABILITIES, in_place_upgrade=True, downgrade=False)

MODES = ("in_place", "roll_over")

BEFORE_TIMESTAMPS = ("0.10.0", "0.10.1", "0.10.2", "0.11.0", "1.0", "1.1", "2.0", "2.1", "2.2")
"""Releases whose stores have no timestamps."""

logger = logging.getLogger(__name__)

Rows = dict[bytes, ValueAndTimestamp]


def apply(rows: Rows, key: bytes, value: bytes | None, timestamp: int) -> None:
    """Set or delete one row."""
    if value is None:
        rows.pop(key, None)
    else:
        rows[key] = ValueAndTimestamp(value, timestamp)


@dataclass
class Content:
    """What is committed: rows, offsets and the position belong together."""

    rows: Rows = field(default_factory=dict)
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    position: Position = field(default_factory=Position)

    def copy(self) -> Content:
        """An independent copy."""
        return Content(dict(self.rows), dict(self.offsets), self.position.copy())

    def save(self, path: Path) -> None:
        """Replace a file as a whole, so that a kill or a loss of power leaves one or the other."""
        path.parent.mkdir(exist_ok=True)
        rows = {key: stored(row) for key, row in self.rows.items()}
        temporary = path.with_suffix(".tmp")
        with temporary.open("wb") as file:
            file.write(pickle.dumps((rows, self.offsets, self.position.as_dict())))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync(path.parent)
        sync(path.parent.parent)

    @staticmethod
    def load(path: Path) -> Content:
        """What a file holds; nothing, if it is not there."""
        if not path.exists():
            return Content()
        rows, offsets, position = pickle.loads(path.read_bytes())  # noqa: S301 - see save
        return Content({key: loaded(row) for key, row in rows.items()}, offsets, Position(position))


def stored(row: ValueAndTimestamp) -> bytes:
    """The timestamp in eight bytes, and the value (KIP-258, Proposed Changes)."""
    return row.timestamp.to_bytes(8, "big", signed=True) + row.value


def loaded(row: bytes) -> ValueAndTimestamp:
    """The value and its timestamp."""
    return ValueAndTimestamp(row[8:], int.from_bytes(row[:8], "big", signed=True))


def sync(directory: Path) -> None:
    """Make the names in a directory outlive a loss of power."""
    descriptor = os.open(directory, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def remove(path: Path) -> None:
    """Delete a file, and its directory with the last file."""
    path.unlink(missing_ok=True)
    if path.parent.exists() and not any(path.parent.iterdir()):
        path.parent.rmdir()


class FileRows(KeyValueWithTimestampStore):
    """Reads and writes of a store and of its transactions."""

    name = "store"
    persistent = True
    manages_offsets = True

    def __init__(self) -> None:
        self.context: StateStoreContext | None = None
        self.content = Content()
        self.uncommitted_bytes = 0

    @property
    def is_open(self) -> bool:
        return self.context is not None

    @property
    def position(self) -> Position:
        return self.content.position.copy()

    def opened(self) -> StateStoreContext:
        """What the runtime told the store."""
        if self.context is None:
            raise InvalidStateStoreError("The store is not open.")
        return self.context

    def close(self) -> None:
        self.context = None

    def rows_of(self, key: bytes) -> Rows:
        """The rows that a key may be in."""
        require_key(key)
        self.opened()
        return self.content.rows

    def get(self, key: bytes) -> bytes | None:
        row = self.rows_of(key).get(key)
        return row.value if row else None

    def get_with_timestamp(self, key: bytes) -> ValueAndTimestamp | None:
        return self.rows_of(key).get(key)

    def put(self, key: bytes, value: bytes | None) -> None:
        self.write(key, value, self.opened().record_timestamp)

    def put_with_timestamp(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        self.write(key, value, timestamp)

    def put_all_with_timestamp(
        self, entries: Iterable[tuple[bytes, ValueAndTimestamp | None]]
    ) -> None:
        checked = list(entries)
        for key, _ in checked:
            require_key(key)
        for key, row in checked:
            self.write(key, *(row or (None, NO_TIMESTAMP)))

    def write(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        """Every write ends here, but for restored records."""
        apply(self.rows_of(key), key, value, timestamp)
        self.uncommitted_bytes += len(key) + len(value or b"")
        self.move_position()

    def move_position(self) -> None:
        """Take over where the record that is being processed comes from."""
        record = self.opened().record_metadata
        if record is not None:
            self.content.position.update(*record)

    def rows_between(self, low: bytes | None, high: bytes | None) -> list[Any]:
        """Keys with values and timestamps, by key."""
        self.opened()
        return [
            (key, row)
            for key, row in sorted(self.content.rows.items())
            if (low is None or low <= key) and (high is None or key <= high)
        ]

    def range(self, from_key: bytes | None, to_key: bytes | None) -> Any:
        return iter([(key, row.value) for key, row in self.rows_between(from_key, to_key)])

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> Any:
        return reversed(list(self.range(from_key, to_key)))

    def prefix_scan(self, prefix: bytes) -> Any:
        return iter([entry for entry in self.range(None, None) if entry[0].startswith(prefix)])

    def range_with_timestamp(self, from_key: bytes | None, to_key: bytes | None) -> Any:
        return iter(self.rows_between(from_key, to_key))

    def approximate_num_entries(self) -> int:
        return len(self.content.rows)

    def approximate_num_uncommitted_bytes(self) -> int:
        return self.uncommitted_bytes


class FileStore(FileRows):
    """The store itself."""

    capabilities = CAPABILITIES

    def __init__(self) -> None:
        super().__init__()
        self.live = self.newer = self.older = Path()
        self.downgrading = False
        self.commits = Sensor(recording=False)
        self.scope: Scope = ()

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        self.newer = context.state_dir / "store-v2" / "rows"
        self.older = context.state_dir / "store" / "rows"
        self.live = self.newer
        self.context = context
        self.choose_format()
        self.content = Content.load(self.live)
        context.register(root, self.restore)
        if context.metrics is not None:
            self.measure(context.metrics, context.task_id)

    def choose_format(self) -> None:
        """Upgrade, once and as a whole."""
        self.downgrading = UPGRADE_FROM_CONFIG in self.opened().app_configs
        if self.older.exists() and not self.newer.exists():
            self.upgraded().save(self.newer)
        remove(self.older)

    def upgraded(self) -> Content:
        """The content of the new format."""
        return Content.load(self.older)

    def write(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        super().write(key, value, timestamp if self.live == self.newer else NO_TIMESTAMP)

    def close(self) -> None:
        if self.context is not None and self.context.metrics is not None:
            self.context.metrics.remove(self.scope)
        if self.context is not None and self.downgrading and self.newer.exists():
            self.downgraded(Content.load(self.newer)).save(self.older)
            remove(self.newer)
        super().close()

    def downgraded(self, content: Content) -> Content:
        """What is committed, as the older format has it."""
        rows = {key: row._replace(timestamp=NO_TIMESTAMP) for key, row in content.rows.items()}
        return replace(content, rows=rows)

    def restore(self, records: Sequence[ChangelogRecord]) -> None:
        """Apply records of the changelog."""
        self.opened()
        for record in records:
            apply(self.content.rows, record.key, record.value, record.timestamp)

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        start = time.monotonic_ns()
        offsets = {**self.content.offsets, **changelog_offsets} if changelog_offsets else {}
        self.content.offsets = {key: each for key, each in offsets.items() if each is not None}
        self.opened()
        self.content.save(self.live)
        self.uncommitted_bytes = 0
        self.commits.record(time.monotonic_ns() - start)

    def committed_offset(self, partition: TopicPartition) -> int | None:
        self.opened()
        return self.content.offsets.get(partition)

    def new_transaction(self) -> StateStore:
        return FileTransaction(self)

    def measure(self, metrics: Metrics, task_id: str) -> None:
        """Register the metrics of the store."""
        self.scope = ("thread", task_id, self.name)
        tags = {"thread-id": "thread", "task-id": task_id, "file-state-id": self.name}
        self.commits = metrics.sensor(self.scope, COMMIT_METRICS, tags)
        # Deprecated, and never recorded (KIP-1035).
        metrics.sensor(self.scope, FLUSH_METRICS, tags)
        metrics.gauge(self.scope, UNCOMMITTED_BYTES, tags, self.approximate_num_uncommitted_bytes)


class FileTransaction(FileRows):
    """Writes that the store does not see before the commit."""

    def __init__(self, store: FileStore) -> None:
        super().__init__()
        self.store = store
        self.context = store.opened()
        self.content = store.content.copy()

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        raise InvalidStateStoreError("A transaction is open from the start.")

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        self.opened()
        self.store.content = self.content
        self.store.commit(changelog_offsets)
        self.close()


class OlderFileStore(FileStore):
    """The store before it had timestamps."""

    capabilities = OLDER

    def choose_format(self) -> None:
        if self.newer.exists():
            raise ProcessorStateError(f"{self.newer} is of a newer format: a downgrade loses it.")
        self.live = self.older


class InPlaceFileStore(FileStore):
    """The store, with the upgrade of formats that KIP-258 proposes."""

    capabilities = IN_PLACE

    def __init__(self) -> None:
        super().__init__()
        self.mode: Literal["in_place", "roll_over"] | None = None
        self.filled = Path()
        self.beside = Content()

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        if self.mode == "in_place" and self.prepared:
            self.tell()

    def tell(self) -> None:
        """Say that the operator may make the second bounce."""
        logger.info("%s is prepared.", self.name)

    def choose_format(self) -> None:
        """Keep the older format live while an upgrade is prepared; after it, use the new one."""
        self.filled = self.newer.with_name("prepared")
        self.mode = self.upgrade_mode()
        if self.mode is not None:
            self.live, self.beside = self.older, Content.load(self.filled)
            return
        if self.older.exists() and not self.newer.exists():
            self.upgraded().save(self.newer)
        remove(self.older)
        remove(self.filled)

    def upgrade_mode(self) -> Any:
        """The mode of the upgrade that is being prepared, if one is."""
        configs = self.opened().app_configs
        if UPGRADE_FROM_CONFIG not in configs:
            return None
        release = configs[UPGRADE_FROM_CONFIG].removesuffix(".x")
        if release.startswith(("2.3", "2.4", "2.5", "2.6", "2.7", "2.8", "3.", "4.")):
            return None
        mode = configs.get(UPGRADE_MODE_CONFIG)
        if release not in BEFORE_TIMESTAMPS or mode not in MODES:
            self.close()
            raise ValueError(f"Set {UPGRADE_FROM_CONFIG} to a release, and a mode of {MODES}.")
        return mode

    def upgraded(self) -> Content:
        """What was prepared. The runtime restores the rest from the changelog."""
        return Content.load(self.filled)

    def rebuild(self, partition: TopicPartition, records: Sequence[ChangelogRecord]) -> None:
        """Fill the new format beside the older one."""
        if self.mode != "in_place":
            raise InvalidStateStoreError("No upgrade in place is being prepared.")
        ready = self.prepared
        for record in records:
            apply(self.beside.rows, record.key, record.value, record.timestamp)
        self.beside.offsets[partition] = records[-1].offset
        self.beside.save(self.filled)
        if self.prepared and not ready:
            self.tell()

    def rebuilt_offset(self, partition: TopicPartition) -> int | None:
        """How far the new format is."""
        return self.beside.offsets.get(partition)

    @property
    def prepared(self) -> bool:
        """Whether the new format has reached the older one."""
        return reaches(self.beside, self.content)


def reaches(content: Content, other: Content) -> bool:
    """Whether no offset of another content lies before us."""
    return all(content.offsets.get(key, -1) >= offset for key, offset in other.offsets.items())


class OlderFileStoreWithPositionFile(OlderFileStore):
    """The store before KIP-1035: its position is in a file of its own."""

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        position = self.content.position.as_dict()
        super().commit(changelog_offsets)
        self.position_file().write_bytes(pickle.dumps(position))

    def position_file(self) -> Path:
        """Where the position is."""
        return self.older.with_name("store.position")


class FileStoreOfOldPositions(FileStore):
    """The store, which takes the position over from the file of an older version, or of its own."""

    capabilities = replace(CAPABILITIES, upgrades_from=f"{__file__}:OlderFileStoreWithPositionFile")

    def upgraded(self) -> Content:
        content = super().upgraded()
        file = self.older.with_name("store.position")
        position = pickle.loads(file.read_bytes())  # noqa: S301 - written by the older store
        return replace(content, position=Position(position))

    def downgraded(self, content: Content) -> Content:
        self.older.parent.mkdir(exist_ok=True)
        position = pickle.dumps(content.position.as_dict())
        self.older.with_name("store.position").write_bytes(position)
        return super().downgraded(content)

    def choose_format(self) -> None:
        super().choose_format()
        remove(self.older.with_name("store.position"))
