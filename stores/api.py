"""The contract of a state store, after KIP-1035 and KIP-892, in Python's spelling.

The life of a store has five steps:

1. The constructor gives the store a name, and opens nothing.
2. ``init`` opens the store in the directory of its task, and registers a callback that restores it.
3. The runtime writes records to the store.
4. ``commit`` binds everything written so far to the changelog offsets that it reaches.
5. ``close`` ends the life of the store. The store may be opened again with ``init``.

After a crash, ``init`` must find the state of a commit: the records and the offsets of one moment.

A store does not have to inherit from these classes; it is enough that it has the methods. A store
that inherits gets the defaults that the proposals define for stores written before them.
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
    "TRANSACTIONAL_STATESTORES_CONFIG",
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
"""The key in ``app_configs`` for the guarantee, as in Kafka's StreamsConfig."""

EXACTLY_ONCE = "exactly_once_v2"
AT_LEAST_ONCE = "at_least_once"

TRANSACTIONAL_STATESTORES_CONFIG = "enable.transactional.statestores"
"""The key in ``app_configs`` for whether stores stage their writes, as shipped in Kafka 4.4.

As proposed, there is no such key: the isolation level of the context decides (KIP-892).
"""

WRITE_BUFFER_BYTES_CONFIG = "state.store.write.buffer.bytes"
"""The key in ``app_configs`` for how many bytes a store may buffer before it writes to disk.

The number is a hint. A test sets a small one, so that buffers overflow within a short run. Without
the key, a store uses its own default.
"""

UPGRADE_FROM_CONFIG = "upgrade.from"
"""The key in ``app_configs`` for the version to stay compatible with, such as ``"4.2"``.

The key switches a rolling upgrade on (KIP-258), and a downgrade (KIP-1035).
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
    """Whether a reader may see writes that are not committed yet (KIP-892)."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class RecordMetadata(NamedTuple):
    """Where the current input record comes from (KIP-796)."""

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
"""Applies a batch of changelog records, in order. Applying a batch twice must change nothing.

A restoration that was interrupted begins again at the committed offset, so that records that the
store already has come a second time.
"""

Changelog = Callable[[str, bytes, bytes | None, int], None]
"""Sends a record to a changelog, given the name of the store, the key, the value, the timestamp."""


class Position:
    """The input offsets that the content of a store reflects (KIP-796, Position).

    Offsets only grow: an update with a smaller offset changes nothing.
    """

    __slots__ = ("_offsets",)

    def __init__(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        self._offsets = dict(offsets or {})

    def update(self, topic: str, partition: int, offset: int) -> None:
        """Raise the offset of one input partition to ``offset``, if ``offset`` is larger."""
        key = TopicPartition(topic, partition)
        if offset > self._offsets.get(key, -1):
            self._offsets[key] = offset

    def merge(self, other: Position) -> None:
        """Raise each offset to the one that ``other`` has, where that is larger."""
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
    """The runtime as a store sees it, from ``init`` on (Kafka: StateStoreContext, KIP-892).

    Attributes:
        state_dir: the directory of the task. A store keeps all of its files below this directory,
            because the runtime deletes the directory to start over.
        application_id: the id of the Streams application.
        task_id: ``<subtopology>_<partition>``.
        app_configs: the configuration by Kafka's names, such as ``processing.guarantee``.
        record_metadata: the current input record; ``None`` if no record is being processed.
        record_timestamp: the timestamp of the current record, in milliseconds.
        restore_callbacks: the callbacks that stores have registered, by the name of the store.
        changelog: sends records to the changelog; ``None`` if the runtime keeps no changelog.
        metrics: where stores register their metrics; ``None`` if the runtime measures nothing.
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
        """Remember the callback that restores ``store`` (Kafka: StateStoreContext#register)."""
        self.restore_callbacks[store.name] = restore

    @property
    def exactly_once(self) -> bool:
        """Whether the guarantee is exactly-once; at-least-once is Kafka's default."""
        guarantee = self.app_configs.get(PROCESSING_GUARANTEE_CONFIG, AT_LEAST_ONCE)
        return bool(guarantee == EXACTLY_ONCE)

    @property
    def isolation_level(self) -> IsolationLevel:
        """The level of a new transaction: READ_COMMITTED under exactly-once only (KIP-892)."""
        if self.exactly_once:
            return IsolationLevel.READ_COMMITTED
        return IsolationLevel.READ_UNCOMMITTED

    @property
    def stages(self) -> bool:
        """Whether stores that can stage their writes do so."""
        shipped = self.app_configs.get(TRANSACTIONAL_STATESTORES_CONFIG)
        if shipped is not None:
            return bool(shipped)
        return self.isolation_level is IsolationLevel.READ_COMMITTED

    @property
    def write_buffer_bytes(self) -> int | None:
        """How many bytes a store may buffer before it writes to disk; ``None`` if nobody says."""
        value = self.app_configs.get(WRITE_BUFFER_BYTES_CONFIG)
        return None if value is None else int(value)

    def changelog_topic(self, store_name: str) -> str:
        """The name of the changelog topic of a store."""
        return f"{self.application_id}-{store_name}-changelog"


class StateStore(ABC):
    """A store whose content can be rebuilt from its changelog (Kafka: StateStore)."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the store, unique in its topology."""

    @abstractmethod
    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the store below ``context.state_dir``, and register a callback that restores it.

        Args:
            context: the runtime.
            root: the outermost layer around this store; pass it to ``context.register``, because
                the runtime knows a store by its outermost layer.

        Raises:
            ProcessorStateError: the files cannot be read, written or locked.
            TaskCorruptedError: the content cannot be trusted: the runtime deletes the directory,
                and restores the store from the start of its changelog.
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
        """Close the store, its iterators and its transactions. Closing twice is harmless."""

    def flush(self) -> None:
        """Write cached data to disk. Deprecated by KIP-1035: the runtime calls ``commit``."""
        return

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit all written records together with the changelog offsets that they reach.

        A store that manages its offsets must write records and offsets in one step: a crash that
        kept one of them and lost the other would make the next restoration skip or repeat records.

        An empty map forgets all committed offsets. ``None`` as the offset of a partition forgets
        the offset of that partition. The proposals leave both cases open; Kafka 4.3 defines them
        (``StateStore#commit`` since KAFKA-17411). So a store may refuse to forget an offset; the
        runtime then deletes the directory of the task.

        Args:
            changelog_offsets: for each changelog partition, the offset of the last record that the
                store has.

        Raises:
            UnsupportedOperationError: the store cannot forget an offset.

        Source: KIP-1035, StateStore#commit; KIP-892, StateStore#commit.
        """
        self.flush()

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """The last committed offset of ``partition``; ``None`` if no offset is committed.

        A store that is not persistent, or does not manage its offsets, always returns ``None``.

        Source: KIP-1035, StateStore#committedOffset.
        """
        return None

    @property
    def manages_offsets(self) -> bool:
        """Whether the store keeps the changelog offsets itself.

        Source: KIP-1035, StateStore#managesOffsets, which the proposal deprecates from the start:
        in time every store should manage its offsets.
        """
        return False

    def new_transaction(self) -> StateStore:
        """A new transaction; the store itself, if it has no transactions (KIP-892)."""
        return self

    def approximate_num_uncommitted_entries(self) -> int:
        """About how many records await ``commit``; 0 without transactions, -1 if unknown."""
        return 0

    def approximate_num_uncommitted_bytes(self) -> int:
        """About how many bytes await ``commit``; 0 without transactions, -1 if unknown."""
        return 0

    @property
    def position(self) -> Position:
        """The input offsets that the content of the store reflects (KIP-796)."""
        return Position()


K_co = TypeVar("K_co", covariant=True)
V_co = TypeVar("V_co", covariant=True)


class EntryIterator(Protocol[K_co, V_co]):
    """An iterator over entries. The iterator holds resources of its store until it is closed.

    Use it in a ``with`` statement: an iterator that has returned its last entry is still open.
    Closing twice is harmless.
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
        """The key of the next entry, without advancing (Kafka: peekNextKey).

        Raises:
            StopIteration: no entry is left.
        """
        ...

    def close(self) -> None:
        """Release the resources of the iterator."""
        ...


KeyValueIterator = EntryIterator[bytes, bytes]
"""The entries of a key-value store."""


class ReadOnlyKeyValueStore(Protocol):
    """The methods that an interactive query may call (Kafka: ReadOnlyKeyValueStore).

    Keys are ordered as unsigned bytes. Both bounds of a range are inclusive. A bound of ``None``
    leaves that side open. A range whose first bound is beyond its second is empty.
    """

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``; ``None`` if the store does not have the key."""
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
        """About how many entries the store has. Staged writes need not count."""
        ...


class KeyValueStore(StateStore):
    """A store of bytes by key (Kafka: KeyValueStore<Bytes, byte[]>).

    A value of ``None`` deletes the key, while an empty value is a value. A key of ``None`` raises
    NullArgumentError. Every call on a closed store raises InvalidStateStoreError.
    """

    @abstractmethod
    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``; ``None`` if the store does not have the key."""

    @abstractmethod
    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of ``key``. A value of ``None`` deletes the key."""

    def put_if_absent(self, key: bytes, value: bytes | None) -> bytes | None:
        """Set the value of ``key`` if it has none; return the value from before, or ``None``."""
        existing = self.get(key)
        if existing is None:
            self.put(key, value)
        return existing

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Put all entries, in order. If the key of one entry is ``None``, no entry is written."""
        # All keys are checked before the first write, so that a wrong one leaves nothing half done.
        checked = list(entries)
        for key, _ in checked:
            require_key(key)
        for key, value in checked:
            self.put(key, value)

    def delete(self, key: bytes) -> bytes | None:
        """Delete ``key``, and return the value from before, or ``None``."""
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
        """About how many entries the store has. Staged writes need not count."""

    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlyKeyValueStore:
        """A view for queries from other threads; the store itself, if it has no transactions.

        Source: KIP-892 as shipped in Kafka 4.4, ReadOnlyKeyValueStore#readOnly.
        """
        return self


def require_key(key: bytes | None) -> None:
    """Raise NullArgumentError if ``key`` is ``None``."""
    if key is None:
        raise NullArgumentError("The key is None; give bytes (empty bytes are a valid key).")
