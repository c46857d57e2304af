"""A key-value store in the simplest words: a dictionary, kept in a file on commit.

It keeps every promise about timestamps, positions, upgrades, restorations and metrics. The older
format, without timestamps, is in ``store.v1``, and the new one in ``store.v2``, or, as long as an
upgrade is being prepared, in ``store.v2-prepared``.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

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
from streamproof.stores.runtime.metered import COMMIT_METRICS, UNCOMMITTED_BYTES
from streamproof.stores.timestamps import KeyValueWithTimestampStore, ValueAndTimestamp

OLDER = Capabilities(transactional=True, position=True)

CAPABILITIES = replace(
    OLDER,
    explicit_transactions=True,
    timestamped=True,
    metrics=True,
    upgrades_from=f"{__file__}:OlderFileStore",
    in_place_upgrade=True,
    downgrade=True,
)

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
        """Replace a file as a whole, so that a kill leaves the one before or this one."""
        temporary = path.with_suffix(".tmp")
        temporary.write_bytes(pickle.dumps((self.rows, self.offsets, self.position.as_dict())))
        temporary.replace(path)

    @staticmethod
    def load(path: Path) -> Content:
        """What a file holds; nothing, if it is not there."""
        if not path.exists():
            return Content()
        rows, offsets, position = pickle.loads(path.read_bytes())  # noqa: S301 - see save
        return Content(rows, offsets, Position(position))


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
        self.live = self.newer = self.older = self.filled = Path()
        self.beside = Content()
        self.downgrading = False
        self.commits = Sensor(recording=False)
        self.scope: Scope = ()

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        self.newer = context.state_dir / "store.v2"
        self.older = context.state_dir / "store.v1"
        self.filled = context.state_dir / "store.v2-prepared"
        self.live = self.newer
        self.context = context
        self.choose_format()
        self.content = Content.load(self.live)
        context.register(root, self.restore)
        if context.metrics is not None:
            self.measure(context.metrics, context.task_id)

    def choose_format(self) -> None:
        """Upgrade, once and as a whole, or keep the older format live."""
        configs = self.opened().app_configs
        self.downgrading = UPGRADE_FROM_CONFIG in configs
        if UPGRADE_MODE_CONFIG in configs:
            self.downgrading = False
            self.live, self.beside = self.older, Content.load(self.filled)
            return
        if self.older.exists() and not self.newer.exists():
            self.upgraded().save(self.newer)
        self.older.unlink(missing_ok=True)
        self.filled.unlink(missing_ok=True)

    def upgraded(self) -> Content:
        """The content of the new format: what was prepared, if it is as far as the older one."""
        older, filled = Content.load(self.older), Content.load(self.filled)
        return filled if reaches(filled, older) else older

    def write(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        super().write(key, value, timestamp if self.live == self.newer else NO_TIMESTAMP)

    def close(self) -> None:
        if self.context is not None and self.context.metrics is not None:
            self.context.metrics.remove(self.scope)
        if self.context is not None and self.downgrading and self.newer.exists():
            self.downgraded(Content.load(self.newer)).save(self.older)
            self.newer.unlink()
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

    def rebuild(self, partition: TopicPartition, records: Sequence[ChangelogRecord]) -> None:
        """Fill the new format beside the older one."""
        for record in records:
            apply(self.beside.rows, record.key, record.value, record.timestamp)
        self.beside.offsets[partition] = records[-1].offset
        self.beside.save(self.filled)

    def rebuilt_offset(self, partition: TopicPartition) -> int | None:
        """How far the new format is."""
        return self.beside.offsets.get(partition)

    @property
    def prepared(self) -> bool:
        """Whether the new format has reached the older one."""
        return reaches(self.beside, self.content)

    def measure(self, metrics: Metrics, task_id: str) -> None:
        """Register the metrics of the store."""
        self.scope = ("thread", task_id, self.name)
        tags = {"thread-id": "thread", "task-id": task_id, "file-state-id": self.name}
        self.commits = metrics.sensor(self.scope, COMMIT_METRICS, tags)
        metrics.gauge(self.scope, UNCOMMITTED_BYTES, tags, self.approximate_num_uncommitted_bytes)


def reaches(content: Content, other: Content) -> bool:
    """Whether no offset of another content lies before us."""
    return all(content.offsets.get(key, -1) >= offset for key, offset in other.offsets.items())


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
