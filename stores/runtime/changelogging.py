"""The layer that sends the writes of a store to its changelog.

The inner store is written first, so that a write that raised is not logged. A restoration writes to
the innermost store, so that records from the changelog are not sent there again. Nothing is logged
if ``context.changelog`` is ``None``.

Source: Kafka, ChangeLoggingKeyValueBytesStore, ChangeLoggingWindowBytesStore and
ChangeLoggingSessionBytesStore.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar, TypeVar, cast

from streamproof.errors import UsageError
from streamproof.stores.api import (
    NO_TIMESTAMP,
    IsolationLevel,
    KeyValueStore,
    StateStore,
    StateStoreContext,
)
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.runtime.layers import (
    SessionLayer,
    TimestampedKeyValueLayer,
    TimestampedSessionLayer,
    TimestampedWindowLayer,
    WindowLayer,
    capabilities_of,
    has_contract,
)
from streamproof.stores.sessions import SessionStore, SessionWithTimestampStore
from streamproof.stores.timestamps import KeyValueWithTimestampStore, ValueAndTimestamp
from streamproof.stores.transactions import Transaction
from streamproof.stores.windowed.keys import session_key, window_key
from streamproof.stores.windows import Windowed, WindowStore, WindowWithTimestampStore
from streamproof.stores.wrapped import WrappedKeyValueStore

__all__ = [
    "ChangeLoggingKeyValueStore",
    "ChangeLoggingSessionStore",
    "ChangeLoggingStore",
    "ChangeLoggingTimestampedKeyValueStore",
    "ChangeLoggingTimestampedSessionStore",
    "ChangeLoggingTimestampedWindowStore",
    "ChangeLoggingWindowStore",
    "change_logging",
]

S = TypeVar("S", bound=StateStore)


class ChangeLoggingStore(StateStore):
    """The common part of the change-logging stores of all kinds.

    A changelog record has the timestamp of the current input record. A write to a transaction
    (KIP-892) is logged when it is staged. This order is safe: whenever the transaction of the store
    is discarded, the producer's transaction, which has the changelog record, is aborted too.

    Args:
        inner: the store whose writes are logged.

    Attributes:
        contract: the contract of the stores of this kind.
    """

    contract: ClassVar[type[StateStore]]
    # Each kind of layer has its own type of inner store.
    _inner: Any
    _context: StateStoreContext | None = None

    @property
    def capabilities(self) -> Capabilities:
        """What the inner store promises, with a changelog."""
        return replace(capabilities_of(self._inner), change_logging=True)

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the inner store, which registers a callback that restores without logging."""
        self._inner.init(context, root)
        self._context = context

    def new_transaction(self) -> StateStore:
        """A transaction whose writes are logged; this store, if the inner one has none."""
        inner = self._inner.new_transaction()
        if inner is self._inner:
            return self
        transaction = _layer_for(inner, _TRANSACTIONS)
        transaction._belong_to(self)  # noqa: SLF001 - a transaction is one of its kind
        return transaction

    def _belong_to(self, store: Any) -> None:
        """Log in the same way as the layer whose inner store opened this transaction."""
        self._context = store._context  # noqa: SLF001 - a transaction is one of its kind

    def _log(self, key: bytes, value: bytes | None, timestamp: int | None = None) -> None:
        """Send a record, with the given timestamp or else that of the input record.

        A tombstone always has the timestamp of the input record, because it has no value with a
        timestamp.
        Source: Kafka, ChangeLoggingTimestampedKeyValueBytesStore#log.
        """
        context = self._context
        if context is not None and context.changelog is not None:
            if timestamp is None or value is None:
                timestamp = context.record_timestamp
            context.changelog(self._inner.name, key, value, timestamp)


class ChangeLoggingKeyValueStore(ChangeLoggingStore, WrappedKeyValueStore):
    """Logs the writes of a key-value store."""

    contract = KeyValueStore

    def put(self, key: bytes, value: bytes | None) -> None:
        self._inner.put(key, value)
        self._log(key, value)

    def put_if_absent(self, key: bytes, value: bytes | None) -> bytes | None:
        """As the inner store; logged only if the key had no value."""
        existing: bytes | None = self._inner.put_if_absent(key, value)
        if existing is None:
            self._log(key, value)
        return existing

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        written = list(entries)
        self._inner.put_all(written)
        for key, value in written:
            self._log(key, value)

    def delete(self, key: bytes) -> bytes | None:
        """As the inner store; a tombstone is logged even if the key had no value."""
        old: bytes | None = self._inner.delete(key)
        self._log(key, None)
        return old


class ChangeLoggingTimestampedKeyValueStore(ChangeLoggingKeyValueStore, TimestampedKeyValueLayer):
    """Logs the plain values of a key-value store with timestamps, at these timestamps."""

    contract = KeyValueWithTimestampStore

    def put_with_timestamp(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        self._inner.put_with_timestamp(key, value, timestamp)
        self._log(key, value, timestamp)

    def put_if_absent_with_timestamp(
        self, key: bytes, value: bytes | None, timestamp: int
    ) -> ValueAndTimestamp | None:
        """As the inner store; logged only if the key had no value."""
        existing: ValueAndTimestamp | None
        existing = self._inner.put_if_absent_with_timestamp(key, value, timestamp)
        if existing is None:
            self._log(key, value, timestamp)
        return existing

    def put_all_with_timestamp(
        self, entries: Iterable[tuple[bytes, ValueAndTimestamp | None]]
    ) -> None:
        written = list(entries)
        self._inner.put_all_with_timestamp(written)
        for key, stamped in written:
            value, timestamp = (None, None) if stamped is None else stamped
            self._log(key, value, timestamp)

    def delete_with_timestamp(self, key: bytes) -> ValueAndTimestamp | None:
        """As the inner store; a tombstone is logged even if the key had no value."""
        old: ValueAndTimestamp | None = self._inner.delete_with_timestamp(key)
        self._log(key, None)
        return old


class ChangeLoggingWindowStore(ChangeLoggingStore, WindowLayer[WindowStore]):
    """Logs the writes of a window store, with the keys of ``window_key``.

    If the store retains duplicates, the key ends in the sequence number that the store gave to the
    row, and a value of ``None`` is not logged, because the store ignores it (KAFKA-9921). A put
    that comes too late is logged, as in Kafka; a restoration drops the record again.

    Raises:
        UsageError: the store retains duplicates, and has no ``sequence``.
    """

    contract = WindowStore

    def __init__(self, inner: WindowStore) -> None:
        super().__init__(inner)
        self._retain_duplicates = capabilities_of(inner).retain_duplicates
        # A transaction takes its sequence numbers from its store.
        self._numbered: Any = inner
        if self._retain_duplicates and not hasattr(inner, "sequence"):
            raise UsageError(
                f"Store {inner.name!r} retains duplicates, but does not show their sequence "
                "numbers: give it a property sequence with the last number that a row got."
            )

    def _belong_to(self, store: Any) -> None:
        super()._belong_to(store)
        self._retain_duplicates = store._retain_duplicates  # noqa: SLF001 - as above
        self._numbered = store._numbered  # noqa: SLF001 - as above

    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        self._inner.put(key, value, window_start)
        self._log_window(key, value, window_start)

    def _log_window(
        self, key: bytes, value: bytes | None, window_start: int, timestamp: int | None = None
    ) -> None:
        if not self._retain_duplicates:
            self._log(window_key(key, window_start), value, timestamp)
        elif value is not None:
            sequence = self._numbered.sequence
            self._log(window_key(key, window_start, sequence), value, timestamp)


class ChangeLoggingTimestampedWindowStore(ChangeLoggingWindowStore, TimestampedWindowLayer):
    """Logs the plain values of a window store with timestamps, at these timestamps."""

    contract = WindowWithTimestampStore

    def put_with_timestamp(
        self, key: bytes, value: bytes | None, timestamp: int, window_start: int | None = None
    ) -> None:
        if window_start is None:
            window_start = NO_TIMESTAMP
            if self._context is not None:
                window_start = self._context.record_timestamp
        self._inner.put_with_timestamp(key, value, timestamp, window_start)
        self._log_window(key, value, window_start, timestamp)


class ChangeLoggingSessionStore(ChangeLoggingStore, SessionLayer[SessionStore]):
    """Logs the writes of a session store, with the keys of ``session_key``."""

    contract = SessionStore

    def put(self, session: Windowed, aggregate: bytes | None) -> None:
        self._inner.put(session, aggregate)
        self._log(session_key(session.key, *session.window), aggregate)

    def remove(self, session: Windowed) -> None:
        """As the inner store; a tombstone is logged even if the session did not exist."""
        self._inner.remove(session)
        self._log(session_key(session.key, *session.window), None)


class ChangeLoggingTimestampedSessionStore(ChangeLoggingSessionStore, TimestampedSessionLayer):
    """Logs the plain aggregates of a session store with timestamps, at these timestamps."""

    contract = SessionWithTimestampStore

    def put_with_timestamp(
        self, session: Windowed, aggregate: bytes | None, timestamp: int
    ) -> None:
        self._inner.put_with_timestamp(session, aggregate, timestamp)
        self._log(session_key(session.key, *session.window), aggregate, timestamp)


class _Transaction(Transaction):
    """What makes a change-logging layer around a transaction a transaction itself."""

    _inner: Any

    @property
    def isolation_level(self) -> IsolationLevel:
        level: IsolationLevel = self._inner.isolation_level
        return level


class _KeyValueTransaction(ChangeLoggingKeyValueStore, _Transaction):
    pass


class _TimestampedKeyValueTransaction(ChangeLoggingTimestampedKeyValueStore, _Transaction):
    pass


class _WindowTransaction(ChangeLoggingWindowStore, _Transaction):
    pass


class _TimestampedWindowTransaction(ChangeLoggingTimestampedWindowStore, _Transaction):
    pass


class _SessionTransaction(ChangeLoggingSessionStore, _Transaction):
    pass


class _TimestampedSessionTransaction(ChangeLoggingTimestampedSessionStore, _Transaction):
    pass


# Special contracts come before general ones, because the first one that fits is taken.
_STORES: tuple[type[ChangeLoggingStore], ...] = (
    ChangeLoggingTimestampedKeyValueStore,
    ChangeLoggingKeyValueStore,
    ChangeLoggingTimestampedWindowStore,
    ChangeLoggingWindowStore,
    ChangeLoggingTimestampedSessionStore,
    ChangeLoggingSessionStore,
)
_TRANSACTIONS: tuple[type[ChangeLoggingStore], ...] = (
    _TimestampedKeyValueTransaction,
    _KeyValueTransaction,
    _TimestampedWindowTransaction,
    _WindowTransaction,
    _TimestampedSessionTransaction,
    _SessionTransaction,
)


def change_logging(store: S) -> S:
    """A layer around a key-value, window or session store that logs its writes.

    Raises:
        UsageError: the store is of no kind whose writes can be logged.
    """
    return cast(S, _layer_for(store, _STORES))


def _layer_for(
    store: StateStore, layers: tuple[type[ChangeLoggingStore], ...]
) -> ChangeLoggingStore:
    for layer in layers:
        if has_contract(store, layer.contract):
            # The layer of a kind takes a store of that kind.
            return layer(store)  # type: ignore[call-arg]
    raise UsageError(
        f"Store {store.name!r} is a {type(store).__name__}, whose writes cannot be logged. Use a "
        "key-value, window or session store."
    )
