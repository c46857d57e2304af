"""The contract of a state store, as KIP-1035 and KIP-892 word it, in Python's spelling.

The life of a store: it is constructed with a name, ``init`` opens it in the directory of
its task and registers how to restore it, records are written, ``commit`` declares that
everything written so far belongs together with the given changelog offsets, and
``close`` ends it. After a crash, ``init`` finds the state of a commit.

A store need not inherit from these classes: having the methods suffices. Inheriting
gives the defaults that the proposals define for stores that have not been upgraded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeVar

from streamproof.stores.errors import NullArgumentError

if TYPE_CHECKING:
    from streamproof.stores.metrics import Metrics

__all__ = [
    "AT_LEAST_ONCE",
    "EXACTLY_ONCE",
    "NO_TIMESTAMP",
    "PROCESSING_GUARANTEE_CONFIG",
    "UPGRADE_FROM_CONFIG",
    "UPGRADE_MODE_CONFIG",
    "WRITE_BUFFER_BYTES_CONFIG",
    "Changelog",
    "ChangelogRecord",
    "EntryIterator",
    "IsolationLevel",
    "KeyValueIterator",
    "KeyValueStore",
    "Position",
    "ReadOnlyKeyValueStore",
    "RecordMetadata",
    "RestoreCallback",
    "StateStore",
    "StateStoreContext",
    "TopicPartition",
    "require_key",
]

PROCESSING_GUARANTEE_CONFIG = "processing.guarantee"
"""The key in ``app_configs`` that holds the guarantee, as in Kafka's StreamsConfig."""

EXACTLY_ONCE = "exactly_once_v2"
AT_LEAST_ONCE = "at_least_once"

WRITE_BUFFER_BYTES_CONFIG = "state.store.write.buffer.bytes"
"""A hint in ``app_configs``: how many bytes a store may buffer before it writes to disk.

A test sets it low so that buffers overflow within a short run. Absent: the store's default.
"""

UPGRADE_FROM_CONFIG = "upgrade.from"
"""The key in ``app_configs`` that holds the version to be compatible with, such as ``"4.2"``.

KIP-258 makes it the switch of a rolling upgrade, KIP-1035 that of a downgrade.
"""

UPGRADE_MODE_CONFIG = "upgrade.mode"
"""The key in ``app_configs`` for ``"in_place"`` or ``"roll_over"`` (KIP-258)."""

NO_TIMESTAMP = -1
"""The timestamp of a record that has none (Kafka: ConsumerRecord.NO_TIMESTAMP)."""


class TopicPartition(NamedTuple):
    """One partition of one topic (Kafka: org.apache.kafka.common.TopicPartition)."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class IsolationLevel(Enum):
    """What a reader may see of writes that are not committed yet (KIP-892)."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class RecordMetadata(NamedTuple):
    """Where the input record that is being processed comes from (KIP-796)."""

    topic: str
    partition: int
    offset: int


class ChangelogRecord(NamedTuple):
    """One record of the changelog; a ``value`` of ``None`` is a tombstone.

    The timestamp is in milliseconds.
    """

    key: bytes
    value: bytes | None
    offset: int
    timestamp: int = NO_TIMESTAMP


RestoreCallback = Callable[[Sequence[ChangelogRecord]], None]
"""Applies a batch of changelog records in order; applying a batch twice changes nothing."""

Changelog = Callable[[str, bytes, bytes | None, int], None]
"""Sends a record to the changelog of a store: its name, the key, the value, the timestamp."""


class Position:
    """The input offsets that the content of a store reflects (KIP-796, Position).

    Offsets only grow: an update with a smaller offset is ignored.
    """

    __slots__ = ("_offsets",)

    def __init__(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        self._offsets = dict(offsets or {})

    def update(self, topic: str, partition: int, offset: int) -> None:
        """Raise the offset of one input partition to ``offset`` if that is larger."""
        key = TopicPartition(topic, partition)
        if offset > self._offsets.get(key, -1):
            self._offsets[key] = offset

    def merge(self, other: Position) -> None:
        """Take over every larger offset of ``other``."""
        for (topic, partition), offset in other._offsets.items():
            self.update(topic, partition, offset)

    def as_dict(self) -> dict[TopicPartition, int]:
        """A copy of the offsets by input partition."""
        return dict(self._offsets)

    def copy(self) -> Position:
        """An independent copy."""
        return Position(self._offsets)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Position) and self._offsets == other._offsets

    __hash__ = None  # type: ignore[assignment]  # A position changes, so it must not be a key.

    def __repr__(self) -> str:
        return f"Position({self._offsets!r})"


@dataclass(slots=True)
class StateStoreContext:
    """What the runtime tells a store at ``init`` (Kafka: StateStoreContext, KIP-892).

    Attributes:
        state_dir: the directory of the task; a store keeps its files in it or below it.
        application_id: the id of the Streams application.
        task_id: ``<subtopology>_<partition>``.
        app_configs: configuration by Kafka's names, ``processing.guarantee`` among them.
        record_metadata: the input record that is being processed, if any.
        record_timestamp: the timestamp of that record in milliseconds.
        restore_callbacks: what stores registered, by name.
        changelog: sends records to the changelog; ``None`` where nobody listens.
        metrics: where stores register their metrics; ``None`` where nobody measures.
    """

    state_dir: Path
    application_id: str = "streamproof"
    task_id: str = "0_0"
    app_configs: Mapping[str, Any] = field(default_factory=dict)
    record_metadata: RecordMetadata | None = None
    record_timestamp: int = NO_TIMESTAMP
    restore_callbacks: dict[str, RestoreCallback] = field(default_factory=dict)
    changelog: Changelog | None = None
    metrics: Metrics | None = None

    def register(self, store: StateStore, restore: RestoreCallback) -> None:
        """Remember how to restore ``store`` (Kafka: StateStoreContext#register)."""
        self.restore_callbacks[store.name] = restore

    @property
    def exactly_once(self) -> bool:
        """Whether the guarantee is exactly-once; at-least-once is Kafka's default."""
        guarantee = self.app_configs.get(PROCESSING_GUARANTEE_CONFIG, AT_LEAST_ONCE)
        return bool(guarantee == EXACTLY_ONCE)

    @property
    def isolation_level(self) -> IsolationLevel:
        """READ_COMMITTED under exactly-once, else READ_UNCOMMITTED (KIP-892)."""
        if self.exactly_once:
            return IsolationLevel.READ_COMMITTED
        return IsolationLevel.READ_UNCOMMITTED

    def changelog_topic(self, store_name: str) -> str:
        """The name of the changelog topic of a store."""
        return f"{self.application_id}-{store_name}-changelog"


class StateStore(ABC):
    """A store whose content can be rebuilt from a changelog (Kafka: StateStore)."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the store, unique in its topology."""

    @abstractmethod
    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the store below ``context.state_dir`` and register how to restore it.

        Args:
            context: the runtime's side.
            root: the outermost wrapper of this store, to be given to ``context.register``.

        Raises:
            ProcessorStateError: the files cannot be read, written or locked.
            TaskCorruptedError: the files must be wiped and the content restored.
        """

    @property
    @abstractmethod
    def persistent(self) -> bool:
        """Whether the content outlives the process."""

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether the store can be read and written."""

    @abstractmethod
    def close(self) -> None:
        """Close the store, its iterators and its transactions; closing twice is harmless."""

    def flush(self) -> None:
        """Write cached data to disk. Deprecated since KIP-1035: the runtime calls ``commit``."""
        return

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit all written records together with the changelog offsets they reach.

        If the store manages its offsets, they become durable together with the records,
        never apart from them. An empty map forgets all committed offsets, and ``None``
        for a partition forgets that one: the proposals leave both open, Kafka 4.3
        defines them (``StateStore#commit`` since KAFKA-17411).

        Source: KIP-1035, StateStore#commit; KIP-892, StateStore#commit.
        """
        self.flush()

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """The last committed offset of ``partition``; ``None`` if there is none.

        ``None`` always, if the store is not persistent or does not manage offsets.
        Source: KIP-1035, StateStore#committedOffset.
        """
        return None

    @property
    def manages_offsets(self) -> bool:
        """Whether the store keeps changelog offsets itself (KIP-1035, deprecated from birth)."""
        return False

    def new_transaction(self) -> StateStore:
        """A new transaction; a store without transactions returns itself (KIP-892)."""
        return self

    def approximate_num_uncommitted_entries(self) -> int:
        """About how many records await ``commit``: 0 if not transactional, -1 if unknown."""
        return 0

    def approximate_num_uncommitted_bytes(self) -> int:
        """About how many bytes await ``commit``: 0 if not transactional, -1 if unknown."""
        return 0

    @property
    def position(self) -> Position:
        """The input offsets that the content reflects (KIP-796)."""
        return Position()


K_co = TypeVar("K_co", covariant=True)
V_co = TypeVar("V_co", covariant=True)


class EntryIterator(Protocol[K_co, V_co]):
    """An iterator over entries that holds resources until it is closed.

    Exhausting it does not close it. Closing twice is harmless.
    """

    def __iter__(self) -> Iterator[tuple[K_co, V_co]]: ...

    def __next__(self) -> tuple[K_co, V_co]: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

    def peek_next_key(self) -> K_co:
        """The key that ``next`` will return, without advancing (Kafka: peekNextKey).

        Raises:
            StopIteration: there is no next entry.
        """
        ...

    def close(self) -> None:
        """Release what the iterator holds."""
        ...


KeyValueIterator = EntryIterator[bytes, bytes]
"""The entries of a key-value store."""


class ReadOnlyKeyValueStore(Protocol):
    """What an interactive query may call (Kafka: ReadOnlyKeyValueStore).

    Keys are ordered as unsigned bytes, from the smallest up. Both bounds of a range are
    inclusive, and ``None`` leaves a side open; an inverted range is empty.
    """

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``, or ``None``."""
        ...

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The entries from ``from_key`` to ``to_key``, both inclusive, ascending."""
        ...

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The same entries as ``range``, descending."""
        ...

    def all(self) -> KeyValueIterator:
        """Every entry, ascending."""
        ...

    def reverse_all(self) -> KeyValueIterator:
        """Every entry, descending."""
        ...

    def prefix_scan(self, prefix: bytes) -> KeyValueIterator:
        """Every entry whose key starts with ``prefix``, ascending."""
        ...

    def approximate_num_entries(self) -> int:
        """About how many entries there are; staged writes need not count."""
        ...


class KeyValueStore(StateStore):
    """A store of bytes by key (Kafka: KeyValueStore<Bytes, byte[]>).

    A value of ``None`` deletes; an empty value is a value. A key of ``None`` raises
    NullArgumentError, and every call on a closed store InvalidStateStoreError.
    """

    @abstractmethod
    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``, or ``None``."""

    @abstractmethod
    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of ``key``; ``None`` deletes it."""

    def put_if_absent(self, key: bytes, value: bytes | None) -> bytes | None:
        """Set the value unless there is one; return the value that was there, or ``None``."""
        existing = self.get(key)
        if existing is None:
            self.put(key, value)
        return existing

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Put all entries in order; if one key is ``None``, none is written."""
        checked = list(entries)
        for key, _ in checked:
            require_key(key)
        for key, value in checked:
            self.put(key, value)

    def delete(self, key: bytes) -> bytes | None:
        """Delete ``key`` and return the value it had, or ``None``."""
        old = self.get(key)
        self.put(key, None)
        return old

    @abstractmethod
    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The entries from ``from_key`` to ``to_key``, both inclusive, ascending."""

    @abstractmethod
    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        """The same entries as ``range``, descending."""

    def all(self) -> KeyValueIterator:
        """Every entry, ascending."""
        return self.range(None, None)

    def reverse_all(self) -> KeyValueIterator:
        """Every entry, descending."""
        return self.reverse_range(None, None)

    @abstractmethod
    def prefix_scan(self, prefix: bytes) -> KeyValueIterator:
        """Every entry whose key starts with ``prefix``, ascending."""

    @abstractmethod
    def approximate_num_entries(self) -> int:
        """About how many entries there are; staged writes need not count."""

    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlyKeyValueStore:
        """A view for queries from other threads; a store without transactions is its own view.

        Source: as shipped with KIP-892 in Kafka 4.4, ReadOnlyKeyValueStore#readOnly.
        """
        return self


def require_key(key: bytes | None) -> None:
    """Raise NullArgumentError if ``key`` is ``None``."""
    if key is None:
        raise NullArgumentError("The key is None; give bytes (empty bytes are a valid key).")
